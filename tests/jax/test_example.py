"""The example runs in small, and its fit is that of the core."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import fwflow as fw

PATH = Path(__file__).parents[2] / "examples" / "path_on_gpu.py"


def test_a_path_on_whatever_device_there_is():
    spec = importlib.util.spec_from_file_location("path_on_gpu", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.main(m=40, n=25, count=4)
    assert found["succeeded"] == 4
    A, b = module.data(80, 25)
    theirs = fw.minimize(fw.LinearModel(A[:40], b[:40], "logistic"), fw.L1Ball(found["radius"]), tol=1e-8)
    assert found["fun"] == pytest.approx(theirs.fun, abs=found["gap"] + 1e-6)
    margins = b[40:] * (A[40:] @ np.asarray(theirs.x))
    assert found["held_out"] == pytest.approx(np.log1p(np.exp(-margins)).mean(), abs=1e-2)
