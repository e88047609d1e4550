"""Maximum cuts: values, bounds and cuts, compared with enumeration, CVXPY and dense eigenvalues."""

import itertools

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fwflow import Status
from fwflow.semidefinite import cuts, eigenvalues, sweeps
from fwflow.semidefinite.cuts import maxcut
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.sweeps import colour_classes


def brute_force(A):
    A = np.asarray(A, dtype=float)
    n = len(A)
    signs = np.array(list(itertools.product((1, -1), repeat=n - 1)))
    signs = np.column_stack([np.ones(len(signs)), signs])
    upper = np.triu(A, 1)
    return float(max((upper.sum() - np.einsum("ki,ij,kj->k", signs, upper, signs)) / 2))


def random_graph(n, degree, seed, weights="ones"):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, n, (n * degree // 2, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    values = {
        "ones": np.ones(len(ends)),
        "signs": rng.choice([-1.0, 1.0], len(ends)),
        "uneven": 10 ** rng.uniform(-6, 6, len(ends)),
    }
    A = sp.csr_array((values[weights], ends.T), (n, n))
    return sp.csr_array(A + A.T)


def check(r, A, optimum=None):
    """Check all statements of a result about a graph of moderate size."""
    A = sp.csr_array(A, dtype=float).toarray()
    np.fill_diagonal(A, 0.0)
    n, size = len(A), np.abs(A).sum() + 1e-300
    laplacian = np.diag(A.sum(axis=1)) - A
    X = r.Y @ r.Y.T
    assert np.allclose(np.diag(X), 1.0, atol=1e-14)
    assert r.value == pytest.approx(np.vdot(laplacian, X) / 4, rel=1e-9, abs=1e-11 * size)
    assert r.gap == abs(r.bound - r.value)
    # The multipliers prove the bound: diag(y) - L/4 is positive semidefinite, and the bound is not below their sum.
    weights = np.sqrt(np.where(np.abs(A).sum(axis=1) > 0, np.abs(A).sum(axis=1), 1.0))
    scaled = (np.diag(r.y) - laplacian / 4) / np.outer(weights, weights)
    assert np.linalg.eigvalsh(scaled)[0] >= -1e-12
    assert r.bound >= r.y.sum() - 1e-12 * size
    assert r.bound <= r.y.sum() + 1e-9 * size
    assert set(np.unique(r.cut)) <= {-1, 1}
    cut = np.triu(A, 1)[r.cut[:, None] != r.cut].sum()
    assert r.cut_value == pytest.approx(cut, rel=1e-12, abs=1e-12 * size)
    assert r.cut_value <= r.bound
    assert r.success
    assert r.gap <= 1e-4 * abs(r.bound) + 1e-11 * size
    if optimum is not None:
        assert r.cut_value <= optimum + 1e-12 * size
        assert optimum <= r.bound
    assert r.rank == r.Y.shape[1]
    assert n == len(r.cut)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 10**6), st.sampled_from([0.2, 0.6, 1.0]), st.sampled_from([0, 3, 8]))
def test_bounds_enclose_the_maximum_cut(n, seed, density, spread):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.standard_normal((n, n)) * (rng.random((n, n)) < density), 1)
    upper *= 10.0 ** rng.integers(-spread, spread + 1, (n, n))
    A = upper + upper.T
    check(maxcut(A), A, brute_force(A))


@pytest.mark.parametrize("weights", ["ones", "signs", "uneven"])
@pytest.mark.parametrize("degree", [1, 3, 12])
def test_random_graphs(weights, degree):
    A = random_graph(450, degree, 0, weights)  # isolated nodes and several components for small degrees
    check(maxcut(A), A)


def test_bounds_hold_along_the_whole_run():
    A = random_graph(450, 6, 3, "signs")
    laplacian = np.diag(np.asarray(A.sum(axis=1)).ravel()) - A.toarray()
    best = maxcut(A, rtol=1e-8)
    seen = []

    def watch(state):
        known = state.hint if state.known is None else state.known.vertex
        X = state.x @ state.x.T
        assert np.allclose(np.diag(X), 1.0)
        assert -np.vdot(laplacian, X) / 4 >= -best.bound - 1e-9
        if np.isfinite(state.gap):
            seen.append(state.fun - state.gap)
            assert state.fun - state.gap <= -best.value + 1e-9
        if known is not None:
            scaled = np.linalg.eigvalsh(-laplacian / 4 - np.diag(known.y))
            assert scaled[0] >= -1e-11
            assert known.bound <= known.y.sum() + 1e-9

    assert maxcut(A, callback=watch).success
    assert len(seen) >= 3


def test_the_relaxation_agrees_with_cvxpy():
    import cvxpy as cp

    A = random_graph(30, 8, 5, "signs").toarray()
    laplacian = np.diag(A.sum(axis=1)) - A
    X = cp.Variable((30, 30), PSD=True)
    optimum = cp.Problem(cp.Maximize(cp.trace(laplacian @ X) / 4), [cp.diag(X) == 1]).solve(solver="CLARABEL")
    r = maxcut(A, rtol=1e-8)
    assert r.success
    assert r.value == pytest.approx(optimum, rel=1e-6)
    assert r.value - 1e-6 <= optimum <= r.bound + 1e-6


@pytest.mark.parametrize("path", ["factors", "lanczos"])
def test_both_kinds_of_proof(monkeypatch, path):
    if path == "lanczos":
        monkeypatch.setattr(eigenvalues, "is_cheap", lambda matrix: False)
    A = random_graph(700, 4, 7)
    check(maxcut(A), A)


@pytest.mark.parametrize(
    ("A", "optimum"),
    [
        (np.zeros((1, 1)), 0.0),
        (np.zeros((4, 4)), 0.0),
        (np.eye(3), 0.0),
        (np.array([[0.0, 2.0], [2.0, 7.0]]), 2.0),
        (np.array([[0.0, -2.0], [-2.0, 0.0]]), 0.0),
        (-np.ones((6, 6)), 0.0),
        (np.ones((6, 6), dtype=int), 9.0),
        (np.ones((5, 5), dtype=np.float32), 6.0),
    ],
)
def test_small_cases(A, optimum):
    r = maxcut(A)
    check(r, A, optimum)
    assert r.cut_value == optimum


def test_a_graph_without_edges_succeeds_with_zero():
    r = maxcut(sp.csr_array((10, 10)))
    assert (r.value, r.bound, r.gap, r.cut_value, r.success, r.nit) == (0.0, 0.0, 0.0, 0.0, True, 0)


def test_bipartite_graphs_are_cut_completely():
    A = nx.to_scipy_sparse_array(nx.grid_2d_graph(12, 13))
    r = maxcut(A)
    assert r.cut_value == A.nnz / 2
    assert r.bound >= r.cut_value


def test_kinds_of_graphs_give_the_same_result():
    G = nx.gnp_random_graph(40, 0.2, seed=1)
    A = nx.to_scipy_sparse_array(G, dtype=float)
    results = [maxcut(graph) for graph in (G, A, A.tocsc(), A.toarray(), sp.triu(A), sp.tril(A, format="csr"))]
    for r in results[1:]:
        assert (r.cut == results[0].cut).all()
        assert r.bound == results[0].bound


@pytest.mark.parametrize("kind", ["canonical", "zeros", "duplicates", "unsorted", "diagonal", "triangle"])
@pytest.mark.parametrize("solver", ["maxcut", "problem"])
def test_matrices_of_users_are_not_changed(kind, solver):
    A = random_graph(30, 4, 0, "signs")
    if kind == "zeros":
        A.data[::3] = 0.0
        A = sp.csr_array(A + A.T)  # keeps the zeros
        A.data[np.abs(A.data) < 2] = 0.0
    elif kind == "duplicates":
        A = sp.csr_array((np.ones(4), [1, 1, 0, 0], [0, 2, 4]), (2, 2))
    elif kind == "unsorted":
        A = sp.csr_array((np.ones(6), [2, 1, 2, 0, 1, 0], [0, 2, 4, 6]), (3, 3))
    elif kind == "diagonal":
        A = sp.csr_array(A + sp.eye_array(30))
    elif kind == "triangle":
        A = sp.csr_array(sp.triu(A))
    before = [part.copy() for part in (A.data, A.indices, A.indptr)]
    if solver == "maxcut":
        maxcut(A)
    elif kind != "triangle":
        Problem(A, [np.eye(A.shape[0])], [1.0])
    for part, old in zip((A.data, A.indices, A.indptr), before, strict=True):
        assert np.array_equal(part, old)


def test_names_and_weights_of_networkx():
    G = nx.Graph()
    G.add_edge("a", "b", weight=2.5)
    G.add_edge("b", "c", capacity=7.0)
    G.add_edge("a", "c", weight=-1.0)
    G.add_edge("c", "c", weight=9.0)
    G.add_node("alone")
    r = maxcut(G)
    assert r.nodes == ["a", "b", "c", "alone"]
    assert r.cut_value == 3.5
    sides = next(set(side) for side in r.partition if "b" in side)
    assert {"a", "c"}.isdisjoint(sides)
    assert maxcut(G, weight="capacity").cut_value == 8.0
    multi = nx.MultiGraph([(0, 1), (0, 1), (1, 2)])
    assert maxcut(multi).cut_value == 3.0


@pytest.mark.parametrize(
    ("A", "message"),
    [
        (np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]), "A must be symmetric"),
        (np.ones((2, 3)), "A must be a square matrix"),
        (np.array([[0.0, np.nan], [np.nan, 0.0]]), "A"),
        (sp.csr_array(np.array([[0.0, np.inf], [np.inf, 0.0]])), "A must be finite"),
        (np.zeros((0, 0)), "A has no nodes"),
        (np.zeros(3), "A"),
        (nx.DiGraph([(0, 1)]), "A is a directed graph"),
        ("graph.txt", "A"),
    ],
)
def test_wrong_graphs(A, message):
    with pytest.raises(ValueError, match=message):
        maxcut(A)


@pytest.mark.parametrize(
    "options", [{"rtol": 0.0}, {"rtol": -1.0}, {"rtol": np.nan}, {"max_time": 0}, {"rank": 0}, {"seed": -1}]
)
def test_wrong_options(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        maxcut(np.ones((3, 3)), **options)


def test_limits_end_a_run_with_a_valid_bound():
    A = random_graph(450, 8, 1, "signs")
    exact = maxcut(A, rtol=1e-6)
    for options, status in (
        ({"max_iter": 0}, Status.ITERATIONS),
        ({"max_iter": 1}, Status.ITERATIONS),
        ({"max_time": 1e-9}, Status.TIME),
        ({"callback": lambda state: state.k == 1}, Status.CALLBACK),
    ):
        r = maxcut(A, rtol=1e-9, **options)
        assert r.status is status
        assert not r.success
        assert r.value <= exact.bound
        assert r.bound >= exact.value
        assert r.cut_value <= r.bound


def test_an_interrupted_run_returns_its_best_point():
    A = random_graph(450, 8, 1, "signs")

    def interrupt(state):
        if state.k == 2:
            raise KeyboardInterrupt

    r = maxcut(A, rtol=1e-9, callback=interrupt)
    assert r.status is Status.INTERRUPTED
    assert np.isfinite(r.bound)
    assert r.bound >= r.value >= 0


def test_a_second_interrupt_keeps_the_best_bound(monkeypatch):
    A = random_graph(450, 8, 1, "signs")
    bounds = []

    def interrupt(state):
        bounds.append(state.fun - state.gap)
        if state.k == 2:
            monkeypatch.setattr(sweeps.SparseEngine, "certify", interrupted)
            raise KeyboardInterrupt

    def interrupted(*arguments):
        raise KeyboardInterrupt

    r = maxcut(A, rtol=1e-9, callback=interrupt)
    assert r.status is Status.INTERRUPTED
    assert not r.success
    assert -r.bound == pytest.approx(max(bounds[:2]))
    assert r.gap == r.bound - r.value


def test_results_print_their_numbers():
    text = repr(maxcut(np.ones((3, 3))))
    assert "success: True" in text
    assert "cut_value: 2" in text


@pytest.mark.parametrize("rank", [1, 2, 5, 60])
def test_the_rank_at_the_start_does_not_matter(rank):
    A = random_graph(450, 6, 2)
    check(maxcut(A, rank=rank), A)


def test_runs_repeat():
    A = random_graph(450, 6, 2)
    first, second = maxcut(A, seed=4), maxcut(A, seed=4)
    assert (first.Y == second.Y).all()
    assert (first.cut == second.cut).all()


def test_tight_tolerances_are_reached():
    A = random_graph(450, 4, 9)
    r = maxcut(A, rtol=1e-9)
    assert r.success
    assert r.gap <= 1e-9 * r.bound


@pytest.mark.parametrize(
    "A",
    [
        random_graph(300, 5, 0),
        sp.csr_array(np.ones((20, 20))),
        sp.csr_array((3, 3)),
        nx.to_scipy_sparse_array(nx.star_graph(200)),
    ],
)
def test_colour_classes_are_independent(A):
    classes = colour_classes(sp.csr_array(A))
    assert sorted(np.concatenate(classes).tolist()) == list(range(A.shape[0]))
    for nodes in classes:
        block = sp.csr_array(A)[nodes][:, nodes].toarray()
        np.fill_diagonal(block, 0)
        assert not block.any()


def test_a_star_needs_two_colours():
    assert len(colour_classes(sp.csr_array(nx.to_scipy_sparse_array(nx.star_graph(200))))) == 2


def test_single_moves_cannot_improve_the_cut():
    A = random_graph(300, 5, 11, "signs")
    r = maxcut(A, max_iter=0)
    gains = r.cut * (A @ r.cut)
    assert (gains <= 1e-9).all()
    assert cuts.cut_value(A, r.cut) == r.cut_value


def test_sweeps_descend():
    A = random_graph(300, 5, 12, "signs")
    engine = sweeps.SparseEngine(A / 4, np.ones(300))
    U = engine.start(6, 0)
    values = [engine.value(U)]
    for _ in range(5):
        U = engine._swept(U, 1, lambda: False)
        values.append(engine.value(U))
    assert (np.diff(values) < 0).all()
