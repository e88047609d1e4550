"""The examples run, their results agree with independent solvers, and each has a figure for the gallery."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import ot
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, dijkstra

import fwflow as fw
from tests.stories import EXAMPLES, execute

Run = Callable[..., dict[str, Any]]


@pytest.fixture
def story(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run an example with other constants; it prints something, and returns its names."""

    def run_it(name: str, **constants: Any) -> dict[str, Any]:
        names = execute(name, monkeypatch, **constants)
        assert capsys.readouterr().out.strip()
        return names

    return run_it


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_every_example_is_a_page_of_the_gallery(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    title, underline, blank, *text = (ast.get_docstring(ast.parse(source)) or "\n\n").splitlines()
    assert title
    assert underline == len(title) * "="
    assert not blank
    assert text
    assert "\n# %%\n# " in source


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_no_code_is_wider_than_the_gallery(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    text = ast.parse(source).body[0].end_lineno or 0  # text is wrapped, code is not
    wide = [line for line in source.splitlines()[text:] if len(line) > 88 and not line.startswith("# ")]
    assert not wide


def test_the_design_satisfies_the_equivalence_theorem(story: Run) -> None:
    found = story("d_optimal_design", SIDE=7)
    assert found["optimal"].max() == pytest.approx(found["n"], abs=1e-6)
    assert found["optimal"].max() - found["n"] == pytest.approx(found["r"].gap, abs=1e-10)
    assert found["r"].fun == pytest.approx(found["fun"](found["w"]), abs=1e-6)  # the multiplicative algorithm
    # Weights of the D-optimal design of a quadratic surface on the square (Farrell, Kiefer, Walbran 1967).
    weights = found["r"].x.reshape(7, 7)[::3, ::3]
    np.testing.assert_allclose(
        weights, [[0.1458, 0.0802, 0.1458], [0.0802, 0.0962, 0.0802], [0.1458, 0.0802, 0.1458]], atol=1e-4
    )


def test_the_portfolio_is_that_of_independent_solvers(story: Run) -> None:
    found = story("portfolio", N=25, POINTS=4)
    r, held, covariance, returns = (found[name] for name in ("r", "held", "covariance", "returns"))
    assert r.success
    assert r.fun == pytest.approx(found["slsqp"].fun, abs=1e-7)
    w = cp.Variable(25, nonneg=True)
    cost = found["RISK"] / 2 * cp.quad_form(w, cp.psd_wrap(covariance)) - found["RETURN"] * returns @ w
    impact = found["IMPACT"] * cp.sum(cp.power(cp.abs(w - held), 1.5))
    by_cones = cp.Problem(cp.Minimize(cost + impact), [cp.sum(w) == 1]).solve("CLARABEL")
    assert r.fun == pytest.approx(by_cones, abs=1e-7)
    assert (np.diff(found["rebalanced"][:, 2]) > 0).all()  # a lower price of impact means more turnover
    assert (np.diff(found["frontier"], axis=0)[:, :2] < 0).all()  # less risk means less return


def test_a_distribution_of_maximal_entropy_is_that_of_its_dual(story: Run) -> None:
    found = story("maximum_entropy", OUTCOMES=15)
    assert found["r"].success
    assert found["r"].fun == pytest.approx(found["divergence"], abs=1e-7)
    assert found["difference"] < 1e-3
    p = cp.Variable(15)
    required = [found["M"] @ p == found["moments"], cp.sum(p) == 1]
    by_cones = cp.Problem(cp.Minimize(cp.sum(cp.rel_entr(p, found["q"]))), required).solve("CLARABEL")
    assert found["r"].fun == pytest.approx(by_cones, abs=1e-6)


def test_a_rotated_cloud_is_matched_exactly(story: Run) -> None:
    found = story("gromov_wasserstein", STARTS=5)
    assert found["correct"] == 1.0
    assert abs(found["best"].fun) < 1e-6
    D, E, n = found["D"], found["E"], len(found["D"])
    T = found["C"].random_start(7)
    four_indices = (D[:, None, :, None] - E[None, :, None, :]) ** 2
    assert found["f"].value(found["f"].point(T)) == pytest.approx(np.einsum("ijkl,ij,kl", four_indices, T, T) / n**2)
    assert fw.checks.gradient_error(found["f"], T) < 1e-6


def test_graphs_are_matched_about_as_well_as_by_faq(story: Run) -> None:
    found = story("graph_matching", SIDE=3, STARTS=3)
    A, B, p = found["A"], found["B"], found["best"]
    assert sorted(p) == list(range(9))
    assert found["value"] == sum(A[i, j] * B[p[i], p[j]] for i in range(9) for j in range(9))
    assert found["value"] <= 1.1 * min(found["others"])
    assert found["value"] < found["before"]
    A, B = np.random.default_rng(0).integers(0, 9, (2, 5, 5)).astype(float)  # neither is symmetric
    design, X = found["TwoSided"](A, B), np.random.default_rng(1).random((5, 5))
    assert np.allclose(design.matvec(X.reshape(-1)), (A @ X @ B.T + A.T @ X @ B).reshape(-1))
    assert np.allclose(design.column(7).to_dense(), design.matvec(np.eye(25)[7]))
    f, p = fw.Quadratic(design), np.array([3, 0, 4, 1, 2])
    assert f.value(f.point(np.eye(5)[p].reshape(-1))) == pytest.approx((A * B[np.ix_(p, p)]).sum())


def test_the_hospital_has_a_certified_plan(story: Run) -> None:
    found = story("quadratic_assignment", ROWS=3, COLUMNS=4, SMALL=6, STARTS=5)
    r, A, B, C = (found[name] for name in ("r", "A", "B", "C"))
    p = r.permutation
    assert p[0] == 0
    assert r.value == (A * B[np.ix_(p, p)]).sum() + C[np.arange(12), p].sum()
    assert r.bound <= r.value
    assert found["small"].value == found["every"].min() >= found["small"].bound
    assert found["plain"].value <= found["refined"].fun
    assert found["plain"].bound <= min(found["random"])


def test_the_threshold_of_the_icosahedron_is_that_of_the_literature(story: Run) -> None:
    found = story("bell_polytopes")
    assert found["threshold"] == pytest.approx(6 / (1 + 3 * np.sqrt(5)), abs=1e-9)
    assert found["threshold"] <= 0.778392  # printed by BellPolytopes.jl after 38 oracle calls
    assert found["r"].n_lmo <= 38
    assert found["exact_threshold"] == pytest.approx(found["threshold"], abs=1e-9)
    assert found["short"][-1] == pytest.approx(found["threshold"], abs=1e-9)
    assert (found["rough"] >= found["exact_threshold"] - 1e-9).all()
    assert len(found["group"]) == 60
    M, P = found["inequality"], found["P"]
    signs = found["second"]
    assert max((a @ M * b).sum() for a in signs for b in signs) == found["integer_bound"] == 36
    assert found["integer_bound"] / (M * P).sum() == pytest.approx(found["formula"], abs=1e-12)


def test_a_sparse_signal_is_recovered_as_by_a_penalty(story: Run) -> None:
    found = story("compressed_sensing", MEASUREMENTS=40, ENTRIES=80, PASSES=100)
    assert found["error"] < 0.1
    assert found["difference"] < 1e-4
    assert found["runs"]["auto"].gap <= 1e-9


def test_a_sparse_classifier_is_that_of_scikit_learn(story: Run) -> None:
    found = story("sparse_logistic", SAMPLES=1200, RADII=5)
    assert found["difference"] < 1e-5
    assert found["r"].gap < 1e-9
    np.testing.assert_allclose(found["r"].x, found["ours"].coef_[0], atol=1e-5)
    assert found["path"].dual_gaps.max() < 1e-7
    assert found["search"].score(found["X_test"], found["y_test"]) > 0.55


def test_completed_ratings_are_those_of_a_factorisation(story: Run) -> None:
    found = story("movielens", RADIUS=100.0, RATINGS=10_000, CHECKED=25.0, RANK=15)
    assert found["new_errors"][4] < 0.95 * found["mean_error"]
    r = found["r"]
    assert r.success
    assert r.x.U.shape[1] < found["RANK"]
    assert r.gap == pytest.approx(found["gap_by_hand"], abs=1e-9)
    assert -1e-6 <= found["penalised"] - found["factors"].fun <= r.gap + 1e-9


def test_no_attack_is_worse_than_the_worst_case(story: Run) -> None:
    found = story("adversarial", IMAGES=60, LEVELS=5)
    assert (found["worst"] <= found["attacked"]).all()
    assert found["attacked"][2] < found["worst"][2] + 0.15
    assert found["attacked"][2] < found["random"][2] - 0.5
    W, b, epsilon = found["W"], found["b"], found["epsilons"][2]
    robust = found["robust"](epsilon)
    assert 0 < robust[:15].sum() < 15
    for x, y, kept in zip(found["X"][:15], found["y"], robust, strict=False):
        limits = np.column_stack([np.maximum(x - epsilon, 0), np.minimum(x + epsilon, 1)])
        margins = [linprog(W[y] - W[c], bounds=limits).fun + b[y] - b[c] for c in range(10) if c != y]
        assert kept == (min(margins) > 0)


def test_a_family_of_tableaus_is_certified_where_its_weights_turn_positive(story: Run) -> None:
    found = story("own_tableau", STEPS=40)
    # At k = 0 and c = 2 the first weight is 1 - 1/(2 omega) - 1/(2 + omega); the example tries steps of 0.005.
    assert 0 <= found["smallest"] - (np.sqrt(17) - 1) / 4 < 0.005
    assert found["order"] == pytest.approx(2, abs=0.1)
    assert found["runs"].keys() == {"fw", "rk44", found["mine"].name}
    for x in found["points"].values():  # the triangle with vertices (-1, 0), (0, 1), (1, 0)
        assert len(x) >= 40
        assert (x[:, 1] >= -1e-12).all()
        assert (np.abs(x).sum(axis=1) <= 1 + 1e-12).all()


def test_increasing_functions_are_those_of_isotonic_regression(story: Run) -> None:
    found = story("own_set", MEASUREMENTS=60)
    assert found["excess"] < 0
    assert found["difference"] < 1e-6
    squared, huber = found["squared"], found["huber"]
    assert squared.success
    assert np.abs(huber.x - found["truth"]).mean() < np.abs(squared.x - found["truth"]).mean()
    x = cp.Variable(60)
    loss = cp.sum(cp.huber(x - found["b"], 0.05)) / 120  # CVXPY's Huber loss is r^2 inside
    by_cones = cp.Problem(cp.Minimize(loss), [x[0] >= 0, cp.diff(x) >= 0, x[-1] <= 1]).solve("CLARABEL")
    assert by_cones - 1e-7 <= huber.fun <= by_cones + huber.gap + 1e-7


def test_traffic_is_in_the_published_equilibrium(story: Run) -> None:
    found = story("traffic", CALLS=120)
    for r in (found["r"], found["runs"]["corrective"]):
        assert r.fun == pytest.approx(4231335.28710744, abs=1e-3)
    assert min(r.fun for r in found["runs"].values()) >= 4231335.2871
    assert found["total"] - found["shortest"] == pytest.approx(found["r"].gap, abs=1e-7)


def test_the_planned_traffic_uses_paths_of_least_marginal_cost(story: Run) -> None:
    found = story("traffic", CALLS=10)
    x, links, n_nodes = found["optimum"].x, found["links"], found["network"].n_nodes
    marginal = links.free_flow * (1 + 0.15 * 5 * (x / links.capacity) ** 4)  # the derivative of x c(x)
    costs = csr_array((marginal, (links.tail, links.head)), shape=(n_nodes, n_nodes))
    assert x @ marginal - (found["demand"] * dijkstra(costs)).sum() == pytest.approx(0, abs=1e-3)
    assert found["best"] == pytest.approx(7194256.05, abs=0.1)
    assert found["best"] < found["total"]


@pytest.mark.filterwarnings("ignore:scipy.optimize. The `disp`:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Unknown solver options. disp")
def test_transport_plans_are_those_of_pot(story: Run) -> None:
    found = story("optimal_transport", N=30)
    a, b, cost = (found[name] for name in ("a", "b", "cost"))
    assert found["least"] == pytest.approx(ot.emd2(a, b, cost), rel=1e-9)
    assert found["least"] == pytest.approx(ot.emd2_1d(found["s"], found["s"], a, b), rel=1e-9)
    for strength, r in found["runs"].items():
        X = r.x.reshape(cost.shape)
        assert r.success
        assert found["bounds"][strength] - 1e-9 <= r.fun <= found["bounds"][strength] + r.gap + 1e-6
        np.testing.assert_allclose(X.sum(axis=1), a, atol=1e-12)
        np.testing.assert_allclose(X.sum(axis=0), b, atol=1e-12)
        assert np.count_nonzero(X) < X.size / 2
        plan = cp.Variable(cost.shape, nonneg=True)
        value = cp.sum(cp.multiply(cost, plan)) + strength / 2 * cp.sum_squares(plan)
        masses = [cp.sum(plan, axis=1) == a, cp.sum(plan, axis=0) == b]
        assert r.fun == pytest.approx(cp.Problem(cp.Minimize(value), masses).solve("CLARABEL"), abs=r.gap + 1e-7)
    Y = ot.smooth.smooth_ot_dual(a, b, cost, 10.0, reg_type="l2", numItermax=5000, stopThr=1e-12)
    theirs = np.vdot(cost, Y) + 10.0 / 2 * np.vdot(Y, Y)
    assert found["runs"][10.0].fun == pytest.approx(theirs, abs=2e-6)


def test_a_group_lasso_is_that_of_proximal_gradient(story: Run) -> None:
    found = story("group_lasso", ROWS=150, VARIABLES=8, RADII=10)
    assert found["r"].fun == pytest.approx(found["other"], abs=1e-7)
    assert {0, 1, 2} <= set(np.flatnonzero(found["selected"][found["chosen"]]))
    assert found["gap"] <= 1e-8


def test_a_cut_is_bounded_by_the_semidefinite_program_of_cvxpy(story: Run) -> None:
    found = story("max_cut")
    X = cp.Variable(found["L"].shape, PSD=True)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(found["L"], X)) / 4), [cp.diag(X) == 1])
    value = problem.solve(solver=cp.CLARABEL)
    assert min(found["bounds"]) >= value - 1e-5
    assert min(found["bounds"]) <= value + 0.03
    assert 0.878 * value <= found["sizes"][-1] <= found["largest"] <= value + 1e-5
    best, graph = found["best"], zip(found["tails"], found["heads"], strict=True)
    assert set(best) == {-1, 1}
    assert sum(best[a] != best[b] for a, b in graph) == found["sizes"][-1]


def test_portfolios_of_a_cvxpy_model_are_those_of_clarabel(story: Run) -> None:
    found = story("cvxpy_models", MONTHS=120)
    assert found["problem"].status == "optimal"
    assert found["growth"] == pytest.approx(found["problem"].value, abs=1e-7)
    assert -found["best"].fun == pytest.approx(found["ratio"], abs=1e-6)
    for w in (found["kelly"], found["best"].x):
        assert found["C"].contains(w)
        assert np.abs(w - found["held"]).sum() <= 0.8 + 1e-6


def test_named_routes_are_shortest_paths_of_networkx(story: Run) -> None:
    found = story("networkx_routes", SIDE=4)
    assert found["r"].success
    assert found["total"] == pytest.approx(found["shortest"], rel=1e-6)
    first, last = found["first"], found["last"]
    times = found["C"].by_edge(found["present"])
    assert found["flow"][first, last, "tunnel"] > found["flow"][first, last, "road"] > 0
    assert times[first, last, "tunnel"] == pytest.approx(times[first, last, "road"], rel=1e-5)
    assert found["cable"].contains(found["plan"].x)


def test_sources_are_found_through_a_simulation_in_jax(story: Run) -> None:
    found = story("jax_function", CELLS=50, STEPS=100, SENSORS=(12, 25, 38, 48))
    assert set(np.argsort(-np.asarray(found["r"].x))[:3]) == {5, 20, 44}
    assert found["ours"].fun == pytest.approx(found["value"], rel=1e-3)
    assert found["r"].success


def test_trees_are_as_fair_as_the_densest_part_allows(story: Run) -> None:
    found = story("spanning_trees")
    assert found["runs"]["corrective"].success
    np.testing.assert_allclose(found["x"][found["dense"]], found["ratio"], atol=1e-4)
    assert (found["x"] > 1 - 1e-9).sum() >= 2  # only one edge joins two clusters
    assert found["error"] < 1e-12
    (tails, heads), n = found["edges"][found["drawn"]].T, len(found["points"])
    assert len(tails) == n - 1  # a tree: connected, with one edge less than nodes
    assert connected_components(coo_array((np.ones(n - 1), (tails, heads)), (n, n)))[0] == 1


def test_a_messy_table_is_fitted_as_by_hand(story: Run) -> None:
    found = story("messy_table", FITTED=500, FOLDS=3)
    assert found["X"].shape == found["problem"].X.shape
    assert found["difference"] < 1e-5  # the loss of scikit-learn with the penalty of the same solution
    assert found["model"].certified
    assert found["model"].nonzero <= np.count_nonzero(found["search"].coef_)
    assert found["accuracy"] > found["other"] - 0.03
    # Rows prepared by fwflow and by hand have the same columns, in another order.
    ours, by_hand = found["dense"], found["X"]
    np.testing.assert_allclose(np.sort(ours.sum(axis=0)), np.sort(by_hand.sum(axis=0)), atol=1e-8)


def test_the_cut_of_a_grid_is_proved_by_its_multipliers(story: Run) -> None:
    found = story("power_grid_cut", BUSES=2000)
    r, (tails, heads) = found["r"], (found["tails"], found["heads"])
    assert r.success
    assert (r.cut[tails] != r.cut[heads]).sum() == r.cut_value
    assert found["pivot"] > 0
    assert r.y.sum() == pytest.approx(r.bound, rel=1e-9)
    assert 0.94 * r.bound <= r.cut_value <= r.bound


def test_theta_is_between_the_exact_counts(story: Run) -> None:
    found = story("lovasz_theta", NODES=16, DENSITIES=(0.2, 0.7), LARGE=30, EDGES=120)
    assert found["pentagon"].value <= 5**0.5 <= found["pentagon"].bound
    for value, bound, low, high in zip(*(found[k] for k in ("values", "bounds", "independent", "cover")), strict=True):
        assert low <= bound
        assert value <= high
        assert 0 <= bound - value <= 1e-4 * bound
    X = cp.Variable((30, 30), PSD=True)
    i, j = found["pairs"][found["chosen"]].T
    problem = cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, X[i, j] == 0])
    problem.solve(solver=cp.CLARABEL)
    assert found["large"].value <= problem.value * (1 + 1e-6)
    assert problem.value <= found["large"].bound * (1 + 1e-6)
