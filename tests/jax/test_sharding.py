"""A matrix spread over devices, by rows or by columns, gives the answer of one device, and stays spread."""

import json
import os
import subprocess
import sys

SCRIPT = """
import json, re, sys
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
import fwflow.jax as fwj
from fwflow.jax import solve

jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_enable_x64", True)
rng = np.random.default_rng(0)
A = rng.standard_normal((64, 32))
b = np.where(A[:, 0] - A[:, 1] + rng.standard_normal(64) > 0, 1.0, -1.0)
answers, gathered = {}, []
for name, spec in {"one": None, "rows": ("data", None), "columns": (None, "data")}.items():
    array = jnp.asarray(A)
    if spec is not None:
        kind = AxisType.Explicit if name == "rows" else AxisType.Auto
        mesh = jax.make_mesh((8,), ("data",), axis_types=(kind,))
        array = jax.device_put(array, NamedSharding(mesh, PartitionSpec(*spec)))
    f = fwj.LinearModel(array, b, "logistic")
    for method in ("heun", "apg"):
        r = fwj.minimize(f, fwj.L1Ball(3.0), method=method, tol=0.0, max_iter=40)
        answers[f"{name} {method}"] = np.asarray(r.x).tolist()
    if spec is not None:
        assert len(f.design.A.sharding.device_set) == 8
        p = solve.posed(f, fwj.L1Ball(3.0), None, "heun", solve.DEFAULT_SCHEDULE, None, None, None)
        limits = solve.checked_limits(0.0, 0.0, 40, p.x.dtype)
        text = solve._run.lower(p.f, p.C, p.method, limits, p.x, p.every, 0).compile().as_text()
        sizes = [eval("*".join(s.split(","))) for s in re.findall(r"= f64\\\\[([\\\\d,]+)\\\\]\\\\S* all-gather\\\\(", text)]
        gathered += sizes
print(json.dumps([len(jax.devices()), answers, gathered]))
"""


def test_shards_give_the_answer_of_one_device():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    script = SCRIPT.replace("\\\\", "\\")
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr[-3000:]
    devices, answers, gathered = json.loads(ended.stdout.splitlines()[-1])
    assert devices == 8
    for method in ("heun", "apg"):
        one = answers[f"one {method}"]
        for name in ("rows", "columns"):
            other = answers[f"{name} {method}"]
            assert max(abs(a - b) for a, b in zip(one, other, strict=True)) < 1e-12
    assert max(gathered, default=0) <= 64  # vectors travel between devices, and nothing of the size of A
