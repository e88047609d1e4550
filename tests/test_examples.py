"""The examples run, their answers are those of somebody else, and each has a figure for the gallery."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cvxpy as cp
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Run]:
    """Run an example in small, and look at what it has drawn and printed."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    plt.switch_backend("Agg")
    plt.close("all")

    def main(name: str, **small: Any) -> dict[str, Any]:
        found = importlib.import_module(name).main(**small)
        assert capsys.readouterr().out.strip()
        assert plt.get_fignums(), "no figure"
        for number in plt.get_fignums():
            figure = plt.figure(number)
            figure.canvas.draw()  # what cannot be laid out says so here
            assert any(ax.has_data() and ax.get_xlabel() and ax.get_ylabel() for ax in figure.axes)
        return dict(found)

    with mpl.rc_context():
        yield main
    plt.close("all")
    for name in set(sys.modules) - before:
        if name in {path.stem for path in EXAMPLES.glob("*.py")}:
            del sys.modules[name]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_a_page_of_the_gallery(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    title, underline, blank, *text = (ast.get_docstring(ast.parse(source)) or "\n\n").splitlines()
    assert title
    assert underline == len(title) * "="
    assert not blank
    assert text
    assert "\n# %%\n# " in source


def test_no_measurement_is_worth_more_than_an_optimal_design_makes_of_it(run: Run) -> None:
    found = run("d_optimal_design", side=7)
    assert found["worst"] == pytest.approx(found["unknowns"], abs=1e-5)


def test_a_portfolio_is_that_of_others(run: Run) -> None:
    found = run("portfolio", n=25, points=4)
    assert found["value"] == pytest.approx(found["independent"], abs=1e-7)
    module = importlib.import_module("portfolio")
    covariance, returns, held = module.market(25)
    w = cp.Variable(25, nonneg=True)
    cost = 2.5 * cp.quad_form(w, cp.psd_wrap(covariance)) - module.RETURN * returns @ w
    impact = module.IMPACT * cp.sum(cp.power(cp.abs(w - held), 1.5))
    by_cones = cp.Problem(cp.Minimize(cost + impact), [cp.sum(w) == 1]).solve("CLARABEL")
    assert found["value"] == pytest.approx(by_cones, abs=1e-7)


def test_a_distribution_of_maximal_entropy_is_that_of_its_dual(run: Run) -> None:
    found = run("maximum_entropy", n=15)
    assert found["value"] == pytest.approx(found["independent"], abs=1e-7)
    assert found["difference"] < 1e-3


def test_a_turned_cloud_is_found_again(run: Run) -> None:
    found = run("gromov_wasserstein", n=40, starts=5)
    assert found["matched"] == 1.0
    assert found["value"] < 1e-6


def test_graphs_are_matched_about_as_well_as_by_faq(run: Run) -> None:
    found = run("graph_matching", side=3, starts=3)
    assert found["ours"] <= 1.1 * found["faq"]
    assert found["ours"] < found["before"]
    module = importlib.import_module("graph_matching")
    A, B = np.random.default_rng(0).integers(0, 9, (2, 5, 5)).astype(float)  # neither is symmetric
    value, p = module.match(A, B, 3)
    assert value == pytest.approx(sum(A[i, j] * B[p[i], p[j]] for i in range(5) for j in range(5)))
    design, X = module.Sandwich(A, B), np.random.default_rng(1).random((5, 5))
    assert np.allclose(design.matvec(X.reshape(-1)), (A @ X @ B.T + A.T @ X @ B).reshape(-1))
    assert np.allclose(design.column(7).to_dense(), design.matvec(np.eye(25)[7]))


def test_a_sparse_signal_is_recovered_as_by_a_penalty(run: Run) -> None:
    found = run("compressed_sensing", m=40, n=80, passes=100)
    assert found["error"] < 0.1
    assert found["difference"] < 1e-4
    assert found["gap"] <= 1e-9


def test_few_features_predict_better_than_a_coin(run: Run) -> None:
    found = run("sparse_logistic", samples=1200, n_radii=5)
    assert found["accuracy"] > 0.55
    assert found["gap"] < 1e-7


def test_ratings_are_completed(run: Run) -> None:
    found = run("movielens", radius=100.0, ratings=10_000)
    assert found["rmse"] < 0.95 * found["mean"]


def test_no_attack_is_worse_than_the_worst_case(run: Run) -> None:
    found = run("adversarial", images=60, points=5)
    chance, attacked, worst = (np.array(found[name]) for name in ("random signs", "Frank-Wolfe", "worst case"))
    assert (worst <= attacked).all()
    assert attacked[2] < worst[2] + 0.15
    assert attacked[2] < chance[2] - 0.5


def test_a_family_of_tableaus_is_certified_where_its_weights_turn_positive(run: Run) -> None:
    found = run("own_tableau", steps=40)
    # At k = 0 and c = 2 the first weight is 1 - 1/(2 omega) - 1/(2 + omega); the example tries steps of 0.005.
    assert 0 <= found["least"] - (np.sqrt(17) - 1) / 4 < 0.005
    assert found["order"] == pytest.approx(2, abs=0.1)


def test_increasing_functions_are_those_of_isotonic_regression(run: Run) -> None:
    found = run("own_set", n=60)
    assert found["excess"] < 0
    assert found["difference"] < 1e-6
    assert found["Huber"] < found["squared"]


def test_traffic_is_in_the_published_equilibrium(run: Run) -> None:
    found = run("traffic", calls=120)
    assert found["Corrective"] == pytest.approx(4231335.28710744, abs=1e-3)
    assert min(found.values()) >= 4231335.2871
