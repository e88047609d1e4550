"""Does an installed wheel work? Run by `make dist` in an environment that holds the wheel and nothing of this tree."""

import csv
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import fwflow as fw

assert "site-packages" in fw.__file__, fw.__file__
A = np.random.default_rng(0).standard_normal((500, 100))
f = fw.LinearModel(A, np.sign(A[:, :5].sum(axis=1)), loss="logistic")
assert fw.minimize(f, fw.L1Ball(5.0), method="rk44", tol=1e-3).success
assert fw.minimize(f, fw.L1Ball(5.0)).success
if "cli" in sys.argv[1:]:
    with tempfile.TemporaryDirectory() as folder:
        data, model = Path(folder, "shop.csv"), Path(folder, "model.npz")
        with data.open("w", newline="") as file:
            csv.writer(file).writerows([["age", "visits", "bought"], *([a, b, int(a + b > 0)] for a, b in A[:, :2])])
        command = [Path(sys.executable).with_name("fwflow")]
        solve = ["solve", data, "--target", "bought", "--loss", "logistic", "--set", "l1:10", "--out", model]
        subprocess.run([*command, *solve], check=True, timeout=300)
        subprocess.run([*command, "predict", model, data, "--out", Path(folder, "said.csv")], check=True, timeout=300)
        with Path(folder, "said.csv").open() as file:
            assert len(file.readlines()) == 501
print("the wheel works:", fw.__version__, *sys.argv[1:])
