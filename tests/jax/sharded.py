"""Run by test_sharding.py in a process with eight devices: prints answers, and what was gathered to find them."""

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import fwflow.jax as fwj
from fwflow.jax import solve

LAYOUTS = {"one": None, "rows": ("data", None), "columns": (None, "data")}


def spread(A, layout):
    """Meshes whose axes are explicit, which is JAX's default, and automatic ones."""
    if LAYOUTS[layout] is None:
        return jnp.asarray(A)
    kind = AxisType.Explicit if layout == "rows" else AxisType.Auto
    mesh = jax.make_mesh((8,), ("data",), axis_types=(kind,))
    return jax.device_put(A, NamedSharding(mesh, PartitionSpec(*LAYOUTS[layout])))


def main():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((64, 32))
    b = np.where(A[:, 0] - A[:, 1] + rng.standard_normal(64) > 0, 1.0, -1.0)
    answers, gathered = {}, []
    for layout in LAYOUTS:
        f = fwj.LinearModel(spread(A, layout), b, "logistic")
        assert len(f.design.A.sharding.device_set) == (1 if layout == "one" else 8)
        for method in ("heun", "apg"):
            options = method, solve.DEFAULT_SCHEDULE, None, None
            *problem, limits, every, _ = solve.posed(f, fwj.L1Ball(3.0), None, options, (0.0, 0.0, 12), None)
            given = *problem, *limits
            run = solve._within.lower(*given, every, 0).compile()
            answers[f"{layout} {method}"] = np.asarray(run(*given).point.x).tolist()
            shapes = re.findall(r"= f64\[([\d,]+)\]\S* all-gather\(", run.as_text())
            gathered += [int(np.prod([int(size) for size in shape.split(",")])) for shape in shapes]
    print(json.dumps([len(jax.devices()), answers, gathered]))


if __name__ == "__main__":
    jax.config.update("jax_disable_most_optimizations", True)
    jax.config.update("jax_enable_x64", True)
    main()
