"""The example runs in small, and its fit is that of the core and of scikit-learn."""

import numpy as np
import pytest

import fwflow as fw
from tests.stories import execute


def test_a_path_on_whatever_device_there_is(monkeypatch):
    found = execute("path_on_gpu", monkeypatch, ROWS=40, COLUMNS=25, RADII=4)
    R, best, A, b = (found[name] for name in ("R", "best", "A", "b"))
    fun, gap = float(R.fun[best]), float(R.gap[best])
    assert R.success.all()
    theirs = fw.minimize(fw.LinearModel(A[:40], b[:40], "logistic"), fw.L1Ball(found["radius"]), tol=1e-8)
    assert fun == pytest.approx(theirs.fun, abs=gap + 1e-6)
    assert fun - gap - 1e-6 <= found["bound"] <= fun + 1e-6
    margins = b[40:] * (A[40:] @ np.asarray(theirs.x))
    assert float(found["losses"][best]) == pytest.approx(np.log1p(np.exp(-margins)).mean(), abs=1e-2)
