"""The group lasso of the examples: its answer is that of somebody else, and it has a figure."""

from __future__ import annotations

import importlib
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest


def test_a_group_lasso_is_that_of_proximal_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "examples"))
    plt.switch_backend("Agg")
    with mpl.rc_context():
        found = importlib.import_module("group_lasso").main(m=150, variables=8, points=10)
        assert plt.get_fignums()
        plt.close("all")
    assert found["value"] == pytest.approx(found["independent"], abs=1e-7)
    assert found["entered"] >= 3
    assert found["gap"] <= 1e-8
