"""Does the package work where Python leaves out assertions (-O) and docstrings (-OO)?"""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, pkgutil, sys
import numpy as np
import fwflow as fw
from typer.testing import CliRunner

skipped = ("__main__", "fwflow.torch", "fwflow.optax")  # tests/neighbours has PyTorch and optax
names = [m.name for m in pkgutil.walk_packages(fw.__path__, "fwflow.") if not m.name.endswith(skipped)]
for name in names:
    importlib.import_module(name)
assert False, "assertions are not left out"
A = np.random.default_rng(0).standard_normal((20, 8))
for method in ("auto", "fw", "corrective", "apg", "rk44", "away"):
    result = fw.minimize(fw.LinearModel(A, A[:, 0]), fw.L1Ball(0.5), method=method, tol=1e-2)
    if not result.success:
        sys.exit(f"{method}: {result.message}")
estimator = importlib.import_module("fwflow.sklearn").L1RegressionCV(cv=2, n_radii=3).fit(A, A[:, 0])
if not np.isfinite(estimator.predict(A)).all():
    sys.exit("predictions are not finite")
result = importlib.import_module("fwflow.jax").minimize(
    importlib.import_module("fwflow.jax").LinearModel(A, A[:, 0]),
    importlib.import_module("fwflow.jax").L1Ball(0.5), tol=1e-2,
)
with open("a.csv", "w") as file:
    file.write("a,y\\n1,2\\n3,5\\n")
for command in ("solve a.csv --target y --set l1:2 --out m.npz", "inspect m.npz", "list sets"):
    ran = CliRunner().invoke(fw.cli.app, command.split(), catch_exceptions=False)
    if ran.exit_code:
        sys.exit(f"{command}: {ran.output}")
print(len(names), fw.minimize.__doc__ is None)
"""


@pytest.mark.parametrize("option", ["-O", "-OO"])
def test_optimised_python(tmp_path, option):
    ran = subprocess.run(
        [sys.executable, option, "-c", PROGRAM], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert ran.returncode == 0, ran.stderr
    count, bare = ran.stdout.split()
    assert int(count) > 120
    assert bare == str(option == "-OO")
