"""Does `theta` return true bounds on both sides, compared with known values and an interior-point method?"""

import math

import cvxpy as cp
import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from fwflow import semidefinite
from fwflow.semidefinite.theta import ThetaProgram


def cycle(n):
    return n / 2 if n % 2 == 0 else n * math.cos(math.pi / n) / (1 + math.cos(math.pi / n))


def hamming(dimension, distance):
    """The graph of binary words with an edge between two that differ in at most that many places."""
    words = (np.arange(2**dimension)[:, None] >> np.arange(dimension)) & 1
    apart = (words[:, None] != words).sum(axis=2)
    return nx.from_numpy_array((apart <= distance) & (apart > 0))


def with_isolated_nodes(graph, count):
    graph = nx.convert_node_labels_to_integers(graph)
    graph.add_nodes_from(range(len(graph), len(graph) + count))
    return graph


KNOWN = {
    "one node": (nx.empty_graph(1), 1),
    "no edge": (nx.empty_graph(9), 9),
    "one edge": (nx.complete_graph(2), 1),
    "complete": (nx.complete_graph(30), 1),
    "cycle of 3": (nx.cycle_graph(3), cycle(3)),
    "cycle of 5": (nx.cycle_graph(5), cycle(5)),
    "cycle of 7": (nx.cycle_graph(7), cycle(7)),
    "cycle of 20": (nx.cycle_graph(20), cycle(20)),
    "cycle of 101": (nx.cycle_graph(101), cycle(101)),
    "Petersen": (nx.petersen_graph(), 4),
    "Paley": (nx.paley_graph(29).to_undirected(), math.sqrt(29)),
    "hypercube": (nx.hypercube_graph(5), 16),
    "perfect code": (hamming(7, 2), 16),
    "Kneser": (nx.complement(nx.line_graph(nx.complete_graph(7))), 6),
    "path": (nx.path_graph(60), 30),
    "star": (nx.star_graph(40), 40),
    "bipartite": (nx.complete_bipartite_graph(13, 20), 20),
    "Turan": (nx.turan_graph(24, 6), 4),
    "grid": (nx.grid_2d_graph(6, 7), 21),
    "disconnected": (with_isolated_nodes(nx.disjoint_union(nx.cycle_graph(5), nx.petersen_graph()), 3), 7 + cycle(5)),
}


CASES = [(name, "auto") for name in KNOWN] + [
    (name, method) for name in ("cycle of 7", "Petersen", "Paley", "star") for method in ("low-rank", "boundary-point")
]


@pytest.mark.parametrize(("name", "method"), CASES)
def test_known_values_lie_between_value_and_bound(name, method):
    graph, exact = KNOWN[name]
    r = semidefinite.theta(graph, method=method, max_time=60)
    assert r.success, r.message
    assert r.value <= exact * (1 + 1e-12)
    assert exact <= r.bound * (1 + 1e-12)
    assert r.gap == pytest.approx(r.bound - r.value)
    assert r.gap <= 1e-4 * r.bound


@pytest.mark.parametrize(("n", "edges", "seed"), [(12, 20, 0), (20, 120, 1), (25, 40, 2), (30, 380, 3)])
def test_random_graphs_agree_with_clarabel(n, edges, seed):
    pairs = np.array(np.triu_indices(n, 1)).T
    chosen = np.random.default_rng(seed).permutation(pairs)[:edges]
    X = cp.Variable((n, n), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.sum(X)), [cp.trace(X) == 1, X[chosen[:, 0], chosen[:, 1]] == 0])
    problem.solve(solver=cp.CLARABEL)
    r = semidefinite.theta(chosen, n, rtol=1e-5)
    assert r.success
    assert r.value <= problem.value * (1 + 1e-6)
    assert problem.value <= r.bound * (1 + 1e-6)


def test_values_and_bounds_are_true_along_a_whole_run(monkeypatch):
    seen = []
    value, certify = ThetaProgram.repaired_value, ThetaProgram.certify

    def recorded_value(self, Y):
        seen.append(value(self, Y))
        return seen[-1]

    def recorded_bound(self, point, goal):
        found = certify(self, point, goal)
        dense = self.problem.slack(found.y).apply(np.eye(self.problem.n))
        true = self.problem.b @ found.y + min(0.0, np.linalg.eigvalsh(dense)[0])
        assert found.bound <= true + 1e-9
        return found

    monkeypatch.setattr(ThetaProgram, "repaired_value", recorded_value)
    monkeypatch.setattr(ThetaProgram, "certify", recorded_bound)
    for method in ("low-rank", "boundary-point", "conditional-gradient"):
        r = semidefinite.theta(nx.petersen_graph(), method=method, rtol=1e-3, max_iter=300)
        assert max(seen) <= 4 + 1e-9
        assert r.bound >= 4 - 1e-9
    assert len(seen) > 20


def test_the_repaired_matrix_is_feasible_and_has_the_value():
    # The same repair with dense matrices, for factors that are far from a solution.
    rng = np.random.default_rng(0)
    edges = np.array([(0, 1), (1, 2), (0, 3), (2, 4), (3, 4)])
    program = ThetaProgram(edges[:, 0], edges[:, 1], 6)
    for _ in range(20):
        Y = rng.standard_normal((6, 3)) * rng.random((6, 1))
        found = program.repaired_value(Y)
        best = 1.0
        for floor in (1e-6, 1e-3, 0.1, 1.0):
            squares = (Y**2).sum(axis=1)
            B = Y / np.sqrt(np.maximum(squares, floor * squares.mean()))[:, None]
            M = B @ B.T
            M[edges[:, 0], edges[:, 1]] = M[edges[:, 1], edges[:, 0]] = 0
            np.fill_diagonal(M, 1.0)
            M += max(0.0, -np.linalg.eigvalsh(M)[0]) * np.eye(6)
            best = max(best, np.linalg.eigvalsh(M)[-1] / M[0, 0])
        assert 1.0 <= found <= best + 1e-9


def test_forms_of_graphs_and_repeated_edges():
    graph = nx.petersen_graph()
    edges = np.array(graph.edges)
    named = nx.relabel_nodes(graph, {k: f"node {k}" for k in graph})
    nx.set_edge_attributes(named, 7.0, "weight")
    matrix = nx.to_scipy_sparse_array(graph)
    stored_zero = sp.coo_array(([1, 1, 0], ([0, 1, 0], [1, 2, 2])), (3, 3))
    forms = [(edges, 10), (edges[:, ::-1].tolist(), 10), (np.vstack([edges, edges[:, ::-1]]), 10), (named, None)]
    for given, n in [*forms, (matrix, None), (sp.triu(matrix), 10), (edges.astype(np.int32), 10)]:
        r = semidefinite.theta(given, n)
        assert r.value <= 4 <= r.bound
        assert r.success
    assert semidefinite.theta(stored_zero).bound == pytest.approx(2, rel=1e-4)
    assert semidefinite.theta([], 4).value == pytest.approx(4)


def test_errors():
    for edges, n, message in [
        ([(0, 1)], None, "n, the number of nodes"),
        ([(0, 5)], 3, "node 5; with n=3"),
        ([(1, 1)], 3, "joins node 1 with itself"),
        ([(0, 1, 2)], 3, "two columns"),
        ([(0, -1)], 3, "counted from 0; got -1"),
        ([(0, 0.5)], 3, "counted from 0; got 0.5"),
        ([(0, math.nan)], 3, "finite"),
        ([], 0, "n must be an integer of at least 1"),
        (nx.petersen_graph(), 11, "the graph has 10 nodes"),
        (nx.empty_graph(0), None, "without nodes"),
        (nx.path_graph(3, create_using=nx.DiGraph), None, "directed"),
        (sp.csr_array(np.triu(np.ones((3, 3)), 1) - np.tril(np.ones((3, 3)), -1)), None, "symmetric"),
        ("abc", 3, "real numbers"),
    ]:
        with pytest.raises(ValueError, match=message):
            semidefinite.theta(edges, n)
