"""The examples of matrix and combinatorial sets run, and their answers are those of somebody else."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(plt, "show", lambda: None)
    found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    assert plt.get_fignums()
    plt.close("all")
    return found


def test_a_cut_is_bounded_by_the_semidefinite_program_of_cvxpy(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("max_cut", monkeypatch)
    X = cp.Variable((found["n"], found["n"]), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(found["L"], X)) / 4), [cp.diag(X) == 1])
    value = problem.solve(solver=cp.CLARABEL)
    assert (found["bound"] >= value - 1e-5).all()
    assert found["bound"].min() <= value + 0.03
    assert 0.878 * value <= found["found"][-1] <= found["largest"] <= value + 1e-5


@pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp`:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Unknown solver options. disp")
def test_plans_are_those_of_pot(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("optimal_transport", monkeypatch)
    r, X = found["runs"][10.0], found["runs"][10.0].x.reshape(found["n"], -1)
    assert r.success
    assert r.fun == pytest.approx(found["theirs"], abs=2e-6)
    np.testing.assert_allclose(X.sum(axis=1), found["a"], atol=1e-12)
    assert found["plain"].dot(found["cost"]) == pytest.approx(found["ot"].emd2(found["a"], found["b"], found["cost"]))


def test_trees_are_as_fair_as_the_densest_part_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    found = run("spanning_trees", monkeypatch)
    assert found["r"].success
    np.testing.assert_allclose(found["r"].x[found["dense"]], found["ratio"], atol=1e-4)
    assert (found["r"].x > 1 - 1e-9).sum() >= 2  # between clusters there is one way only
    assert found["mixed"] < 1e-12
