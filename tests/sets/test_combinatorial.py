"""Sets of subgraphs, integers, images and plans against all of their vertices, or another solver."""

import copy
import itertools
import sys

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

import fwflow as fw
from fwflow.sets.graphs import SpanningTree
from tests.catalogue import COMBINATORIAL

EPS = float(np.finfo(float).eps)


def subsets(C, kind):
    """All 0/1 vectors on the edges of a graph that are of some kind."""
    rows = itertools.product([0.0, 1.0], repeat=C.shape[0])
    return np.array([row for row in rows if kind(C, [i for i, used in enumerate(row) if used])])


def is_path(C, edges):
    """Edges that, followed from the source, lead to the target, meet no node twice and are all there is."""
    node, left = C.source, set(edges)
    while node != C.target:
        ways = [e for e in left if C.tails[e] == node]
        if len(ways) != 1:
            return False
        left.remove(ways[0])
        node = C.heads[ways[0]]
    heads = [C.heads[e] for e in edges]
    return not left and len(set(heads)) == len(heads) and C.source not in heads


def is_tree(C, edges):
    incidence = np.zeros((len(C.nodes), len(edges)))
    for column, e in enumerate(edges):
        incidence[C.tails[e], column] += 1
        incidence[C.heads[e], column] -= 1
    size = len(C.nodes) - 1
    return len(edges) == size and np.linalg.matrix_rank(incidence) == size


def is_matching(C, edges):
    ends = [node for e in edges for node in (C.tails[e], C.heads[e])]
    return len(set(ends)) == len(ends) and (not C.perfect or len(ends) == len(C.nodes))


def grid(C):
    """All integer points, and of these the ones that no others are mixed to."""
    P = C.relaxation
    points = np.array([x for x in itertools.product([0.0, 1, 2], repeat=3) if (P.A @ x <= P.b).all()])
    return points[ConvexHull(points).vertices]


def images(C, vertices):
    points = vertices @ C.M.T
    return points[ConvexHull(points).vertices] if len(points) > 2 else points


def all_vertices(name):
    C = COMBINATORIAL[name][0]
    if isinstance(C, fw.LinearImage):
        corners = np.array([*itertools.product([-2.0, 2], repeat=4)])
        return images(C, corners if name == "image" else np.array([[1.0, 0, 0, 1], [0, 1, 1, 0]]))
    if isinstance(C, fw.MixedInteger):
        return grid(C)
    kind = {fw.ShortestPath: is_path, fw.SpanningTree: is_tree, fw.Matching: is_matching}[type(C)]
    return subsets(C, kind)


VERTICES = {name: all_vertices(name) for name in COMBINATORIAL}
every_set = pytest.mark.parametrize("name", COMBINATORIAL)

#: What to make of a random gradient.
KINDS = {
    "random": lambda g: g,
    "positive": np.abs,
    "sparse": lambda g: np.where(np.abs(g) > 0.8, g, 0.0),
    "tied": np.sign,
    "rounded": np.round,
    "constant": np.ones_like,
    "zero": np.zeros_like,
    "tiny": lambda g: 1e-150 * g,
    "huge": lambda g: 1e300 * g / np.abs(g).max(),
    "float32": lambda g: g.astype(np.float32),
}


def directions(name, count, seed=0):
    C, shape = COMBINATORIAL[name]
    rng, kinds = np.random.default_rng(seed), [*KINDS.values()]
    for i in range(count):
        g = rng.standard_normal(shape)
        if (
            name == "path-cyclic"
        ):  # no cycle of negative cost: costs that are not negative, and a difference along edges
            height = np.round(8 * rng.standard_normal(len(C.nodes))) * (i % 2)
            g = np.round(8 * np.abs(g)) + height[C.heads] - height[C.tails]
            yield g if i % 3 else g.astype(np.float32)
        else:
            yield kinds[i % len(kinds)](g)


def test_there_are_as_many_as_there_should_be():
    counts = {name: len(V) for name, V in VERTICES.items()}
    assert counts["tree"] == 16 + 8  # Cayley's, and another for every tree with the doubled edge, half of them
    assert counts["path"] == 5
    assert counts["matching-perfect"] == 2


@every_set
def test_the_oracle_is_the_best_of_all_vertices_in_500_directions(name):
    C, V = COMBINATORIAL[name][0], VERTICES[name]
    size = np.abs(V).max()
    for g in directions(name, 500):
        vertex, unit = C.lmo(g), float(np.abs(g).max()) or 1.0
        s, g = np.asarray(vertex, dtype=float), g.astype(float) / unit
        slack = {"integers": 1e-9, "image": 4e-6, "image-sparse": 4e-6}.get(name, 8 * len(g) * EPS) * size
        assert s @ g <= (V @ g).min() + slack
        generic = len(np.unique(np.abs(g[g != 0]))) == len(g)
        if generic or not isinstance(C, fw.MixedInteger | fw.LinearImage):  # these say that ties may be any
            assert np.abs(V - s).max(axis=1).min() <= 4e-7 * size


@every_set
def test_what_the_oracle_returns(name):
    C, shape = COMBINATORIAL[name]
    for g in directions(name, 20, seed=1):
        kept = g.copy()
        s = C.lmo(g)
        assert s.shape == np.asarray(s).shape == shape
        assert C.contains(np.asarray(s), tol=1e-6) is True
        np.testing.assert_array_equal(g, kept)
        np.testing.assert_array_equal(np.asarray(C.lmo(g, hint=s)), np.asarray(s))
        np.testing.assert_array_equal(np.asarray(copy.deepcopy(C).lmo(g)), np.asarray(s))
        assert s.dot(g) == pytest.approx(np.vdot(np.asarray(s), g), rel=1e-5)
        if isinstance(s, fw.DenseVertex):
            assert s.array.dtype == g.dtype
        if name != "path-cyclic":
            scaled = np.ldexp(g.astype(float), -300)
            np.testing.assert_array_equal(np.asarray(C.lmo(scaled)), np.asarray(C.lmo(g.astype(float))))
    assert C.lower_bound(np.zeros(shape), C.lmo(np.zeros(shape))) == 0.0


@every_set
def test_where_it_starts_and_how_far_it_reaches(name):
    C, shape = COMBINATORIAL[name]
    V = VERTICES[name]
    for dtype in (np.float64, np.float32):
        start = C.start(shape, dtype)
        assert (start.shape, start.dtype) == (shape, dtype)
        assert C.contains(start, tol=1e-6) is True
    assert C.diameter() >= np.linalg.norm(V[:, None] - V[None], axis=2).max() - 1e-9
    assert C.fingerprint() == copy.deepcopy(C).fingerprint() != (2.0 * C).fingerprint()
    assert "object at" not in repr(C)


@every_set
def test_members_are_mixtures_of_vertices(name):
    C, _ = COMBINATORIAL[name]
    V, rng = VERTICES[name], np.random.default_rng(2)
    told = (True, None) if isinstance(C, fw.MixedInteger) or name == "path-cyclic" else (True,)
    for _ in range(10):
        inside = rng.dirichlet(np.ones(len(V))) @ V
        assert C.contains(inside) in told
        assert C.contains(np.append(inside[:-1], np.nan)) is False
        g = np.abs(rng.standard_normal(len(inside)))
        least = (V @ g).min()
        beyond = V[(V @ g).argmin()] - (0.01 + abs(least) / 10) * g
        assert C.contains(beyond) in ((False, None) if isinstance(C, fw.MixedInteger) else (False,))
    with pytest.raises(ValueError, match="shape"):
        C.contains(np.zeros(len(inside) + 1))
    with pytest.raises(ValueError, match="shape"):
        C.lmo(np.zeros(len(inside) + 1))


def test_points_that_only_the_hard_constraints_exclude():
    triangle = fw.Matching([0, 1, 2], [1, 2, 0])
    assert triangle.contains(np.full(3, 0.5)) is False  # every node has one, but three nodes have one edge at most
    assert triangle.contains(np.full(3, 1 / 3)) is True
    tree = SpanningTree([0, 1, 2, 2], [1, 2, 0, 3])
    assert tree.contains([1.0, 1.0, 1.0, 0.0]) is False  # enough edges, but around a triangle
    assert tree.contains([2 / 3, 2 / 3, 2 / 3, 1.0]) is True
    cyclic = COMBINATORIAL["path-cyclic"][0]
    around = np.asarray(cyclic.lmo(np.ones(8)))
    around[[2, 3]] += 1.0  # from node 1 to node 2 and back
    assert cyclic.contains(around - 0.5 * np.eye(8)[[2, 3]].sum(axis=0)) is None
    assert cyclic.contains(around + np.eye(8)[6]) is False
    integers = COMBINATORIAL["integers"][0]
    assert integers.contains([0.0, 0.9, 0.0]) is None
    assert integers.contains([0.0, 1.1, 0.0]) is False


def quadratic(shape, seed=3):
    rng = np.random.default_rng(seed)
    target = rng.random(shape)
    return fw.Smooth(lambda x: 0.5 * float(((x - target) ** 2).sum()), lambda x: x - target, shape=shape), target


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["fw", "corrective", "rk44", "auto"])
@pytest.mark.parametrize("name", [name for name in COMBINATORIAL if name != "path-cyclic"])
def test_runs_end_at_the_nearest_mixture(name, method):
    C, shape = COMBINATORIAL[name]
    f, target = quadratic(shape)
    weights = cp.Variable(len(VERTICES[name]), nonneg=True)
    distance = cp.sum_squares(VERTICES[name].T @ weights - target) / 2
    best = cp.Problem(cp.Minimize(distance), [cp.sum(weights) == 1]).solve(solver=cp.CLARABEL)
    r = fw.minimize(f, C, method=method, tol=1e-7, max_iter=60)
    assert best - 1e-7 <= r.fun <= best + r.gap + 1e-7
    assert r.feasible is not False
    assert r.success or method in ("fw", "rk44")


@pytest.mark.parametrize("name", ["path", "tree", "matching", "integers", "image", "image-sparse"])
def test_combinations_and_states(name, tmp_path):
    C, shape = COMBINATORIAL[name]
    V, g = VERTICES[name], np.random.default_rng(4).standard_normal(shape)
    shift = np.linspace(-1, 1, len(g))
    least, most = (V @ g).min(), (V @ g).max()
    product = fw.Product([(C, len(g)), (fw.Simplex(), 2)])
    for made, exact in [(3.0 * C, 3 * least), (-2.0 * C, -2 * most), (C + shift, least + g @ shift)]:
        vertex = made.lmo(g, made.lmo(-g))
        assert vertex.dot(g) == pytest.approx(exact, rel=1e-9)
        assert made.lower_bound(g, vertex) == pytest.approx(exact, rel=1e-9)
        assert made.contains(np.asarray(vertex)) is True
    assert product.lmo(np.append(g, [1.0, 2.0])).dot(np.append(g, [1.0, 2.0])) == pytest.approx(least + 1, rel=1e-9)
    f, _ = quadratic(shape)
    options = {"method": "pairwise", "tol": 0}
    whole = fw.minimize(f, C, max_iter=6, **options)
    fw.minimize(f, C, max_iter=3, **options).state.save(tmp_path / "state")
    rest = fw.minimize(f, C, max_iter=3, state=fw.State.load(tmp_path / "state"), **options)
    np.testing.assert_array_equal(rest.x, whole.x)


def test_loops_are_never_used():
    assert fw.SpanningTree([4], [4]).lmo(np.array([-1.0])).entries()[0].size == 0
    assert fw.Matching([0, 0], [0, 1]).lmo(np.array([-5.0, -1.0])).entries()[0].tolist() == [1]
    assert fw.Matching([0, 0], [0, 1])._sides is not None
    assert fw.SpanningTree([0, 0], [0, 1]).lmo(np.array([-5.0, 1.0])).entries()[0].tolist() == [1]


def test_a_path_around_a_cycle_of_negative_cost_is_refused():
    C = fw.ShortestPath([0, 1, 2, 2], [1, 2, 1, 3], 0, 3)
    assert C.lmo(np.array([1.0, -1.0, 1.0, 1.0])).dot(np.ones(4)) == 3
    with pytest.raises(ValueError, match=r"cycle negative.*acyclic graph for costs of any sign"):
        C.lmo(np.array([1.0, -1.0, 0.5, 1.0]))
    # Cycles through source or target, loops, and those that no path meets, are none.
    D = fw.ShortestPath([0, 1, 1, 1, 4, 2, 3], [1, 0, 2, 1, 4, 1, 4], 0, 2)
    assert D._level is not None
    np.testing.assert_array_equal(np.asarray(D.lmo(-np.ones(7))), [1, 0, 1, 0, 0, 0, 0])


def test_cycles_that_cost_nothing_but_rounding_are_not_negative():
    for seed in range(30):
        rng = np.random.default_rng(seed)
        tails, heads = rng.integers(0, 12, (2, 60))
        tails, heads = np.append(tails, np.arange(11)), np.append(heads, np.arange(1, 12))
        C, height = fw.ShortestPath(tails, heads, 0, 11), rng.standard_normal(12)
        costs = np.where(rng.random(71) < 0.6, 0.0, rng.random(71))
        plain, shifted = C.lmo(costs), C.lmo(costs + height[heads] - height[tails])
        assert shifted.dot(costs) == pytest.approx(plain.dot(costs), abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_cheapest_paths_of_larger_graphs_are_those_of_a_linear_program(seed):
    rng = np.random.default_rng(seed)
    tails, heads = rng.integers(0, 30, (2, 150))
    tails, heads = np.append(tails, np.arange(29)), np.append(heads, np.arange(1, 30))
    swap = tails > heads
    tails, heads = np.where(swap, heads, tails), np.where(swap, tails, heads)
    C, g = fw.ShortestPath(tails, heads, 0, 29), rng.standard_normal(len(tails))
    balance = np.zeros((30, len(g)))
    np.add.at(balance, (tails, np.arange(len(g))), 1)
    np.add.at(balance, (heads, np.arange(len(g))), -1)
    wanted = np.eye(30)[0] - np.eye(30)[29]
    loops = tails == heads
    answer = linprog(g, A_eq=balance, b_eq=wanted, bounds=[(0, 0 if loop else None) for loop in loops])
    assert C.lmo(g).dot(g) == pytest.approx(answer.fun, rel=1e-9)


@pytest.mark.parametrize("perfect", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_matchings_of_larger_graphs_are_those_of_linear_programs(seed, perfect):
    rng = np.random.default_rng(seed)
    tails, heads = (
        np.append(rng.integers(0, 15, 80), np.arange(15)),
        np.append(rng.integers(15, 30, 80), np.arange(15, 30)),
    )
    g = rng.standard_normal(len(tails))
    degree = np.zeros((30, len(g)))
    degree[tails, np.arange(len(g))] = degree[heads, np.arange(len(g))] = 1
    sides = {"A_eq": degree, "b_eq": np.ones(30)} if perfect else {"A_ub": degree, "b_ub": np.ones(30)}
    C, answer = fw.Matching(tails, heads, perfect=perfect), linprog(g, **sides)
    s = np.asarray(C.lmo(g))
    assert s @ g == pytest.approx(answer.fun, rel=1e-9)
    # An extreme point: constraints that hold with equality determine it.
    tight = np.vstack([degree[degree @ s == 1], np.eye(len(g))[s == 0]])
    assert np.linalg.matrix_rank(tight) == len(g)


def test_integers_beside_other_numbers():
    rng = np.random.default_rng(6)
    for _ in range(6):
        A = rng.standard_normal((3, 4))
        b, which = A @ rng.random(4) + 1, rng.random(4) < 0.5
        C, g = fw.MixedInteger(A, b, lower=-2.0, upper=2.0, integrality=which), rng.standard_normal(4)
        s = np.asarray(C.lmo(g))
        np.testing.assert_array_equal(s[which], np.round(s[which]))
        best = min(
            linprog(g, A, b, bounds=[(v, v) if v is not None else (-2, 2) for v in fixed], method="highs").fun or np.inf
            for fixed in itertools.product(*([-2, -1, 0, 1, 2] if w else [None] for w in which))
        )
        assert s @ g == pytest.approx(best, abs=1e-8)
        rows = np.vstack([A, np.eye(4), -np.eye(4)])
        tight = rows[np.abs(rows @ s - np.append(b, np.full(8, 2.0))) < 1e-9]
        assert np.linalg.matrix_rank(np.vstack([tight, np.eye(4)[which]])) == 4


def test_integers_are_integers():
    # HiGHS leaves some of them 1e-10 off, here in one of twelve answers.
    rng = np.random.default_rng(0)
    for _ in range(40):
        A, which = rng.standard_normal((4, 6)), rng.random(6) < 0.6
        b = 2 * A @ rng.random(6) + rng.random(4)
        C = fw.MixedInteger(A, b, lower=-3.0, upper=3.0, integrality=which)
        s = np.asarray(C.lmo(rng.standard_normal(6)))
        np.testing.assert_array_equal(s[which], np.round(s[which]))
        assert C.contains(s) is True


WITHOUT = pytest.mark.parametrize("solver", ["pot", "highs"])


@pytest.fixture
def chosen(solver, monkeypatch):
    if solver == "highs":
        monkeypatch.setitem(sys.modules, "ot.lp", None)


def forest(indices, m, n):
    """Whether entries of a plan make no cycle: their columns of the constraints are independent."""
    rows, columns = np.divmod(indices, n)
    return np.linalg.matrix_rank(np.vstack([np.eye(m)[:, rows], np.eye(n)[:, columns]])) == len(indices)


@WITHOUT
@pytest.mark.parametrize(
    ("shape", "count"), [((3, 4), 100), pytest.param((3, 4), 500, marks=pytest.mark.slow), ((1, 3), 20)]
)
def test_plans_are_those_of_a_linear_program(solver, shape, count, chosen):
    rng, (m, n) = np.random.default_rng(7), shape
    sums = np.vstack([np.kron(np.eye(m), np.ones(n)), np.kron(np.ones(m), np.eye(n))])
    kinds = [*KINDS.values()]
    for i in range(count):
        a, b = rng.integers(0, 5, m) + np.eye(m)[0], rng.integers(0, 5, n) + np.eye(n)[0]
        if i % 2:
            spread = 4 if solver == "highs" else 6
            a, b = a * 10.0 ** rng.integers(-spread, spread, m), b * 10.0 ** rng.integers(-spread, spread, n)
        b = b * a.sum() / b.sum()
        C, g = fw.TransportPolytope(a, b), kinds[i % len(kinds)](rng.standard_normal(shape))
        s, unit = C.lmo(g), float(np.abs(g).max()) or 1.0
        if i % 10 == 0:  # prices prove the others
            exact = linprog(g.ravel().astype(float) / unit, A_eq=sums[1:], b_eq=np.append(a, b)[1:] / a.sum()).fun
            assert s.dot(g) / unit == pytest.approx(a.sum() * exact, rel=0, abs=1e-6 * a.sum())
        assert C.lower_bound(g, s) / unit == pytest.approx(s.dot(g) / unit, rel=0, abs=1e-9 * a.sum())
        assert C.lower_bound(g, fw.DenseVertex(np.asarray(s))) / unit <= s.dot(g) / unit + 1e-9 * a.sum()
        assert len(s.indices) <= m + n - 1
        assert forest(s.indices, m, n)
        assert s.values.min() > 0
        X = np.asarray(s)
        np.testing.assert_allclose(X.sum(axis=1), a, rtol=0, atol=1e-12 * a.sum())
        np.testing.assert_allclose(X.sum(axis=0), b, rtol=0, atol=1e-12 * a.sum())
        assert np.linalg.norm(X - C.start()) <= C.diameter() + 1e-15 * a.sum()


@WITHOUT
def test_plans_begin_at_the_hint_and_end_where_they_must(solver, chosen):
    rng = np.random.default_rng(8)
    a, b = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(9))
    C, g = fw.TransportPolytope(a, b), rng.random((8, 9))
    near = C.lmo(g + 1e-3 * rng.random(g.shape))
    assert C.lmo(g, near).dot(g) == pytest.approx(C.lmo(g).dot(g), rel=1e-12)
    for hint in (fw.OneHot(0, 1.0, (8, 9)), fw.DenseVertex(g, advice=np.full(17, np.nan)), C.lmo(1e300 * g)):
        assert C.lmo(g, hint).dot(g) == pytest.approx(C.lmo(g).dot(g), rel=1e-12)
    f = fw.Smooth(lambda X: float(np.vdot(g, X) + 5 * np.sum(X**2)), lambda X: g + 10 * X, shape=(8, 9))
    X = cp.Variable((8, 9), nonneg=True)
    cost = cp.sum(cp.multiply(g, X)) + 5 * cp.sum_squares(X)
    best = cp.Problem(cp.Minimize(cost), [cp.sum(X, axis=1) == a, cp.sum(X, axis=0) == b]).solve(solver=cp.CLARABEL)
    r = fw.minimize(f, C, method="blended-pairwise", tol=1e-4, max_iter=100)
    assert best - 1e-7 <= r.fun <= best + r.gap + 1e-7


def test_plans_between_uniform_masses_are_the_doubly_stochastic_matrices():
    g = np.random.default_rng(9).standard_normal((5, 5))
    C, D = fw.TransportPolytope(np.ones(5), np.ones(5)), fw.Birkhoff(5)
    np.testing.assert_array_equal(np.asarray(C.lmo(g)), np.asarray(D.lmo(g)))
    np.testing.assert_array_equal(np.asarray(C.lmo(g.ravel())), np.asarray(D.lmo(g)).ravel())
    assert C.diameter() == pytest.approx(D.diameter())
    np.testing.assert_array_equal(C.project(g), D.project(g))


def test_images_follow_what_the_set_offers():
    rng = np.random.default_rng(10)
    M, g, h = rng.standard_normal((4, 6)), rng.standard_normal(4), rng.standard_normal(4)
    C = fw.LinearImage(M, fw.Simplex())
    best = C.lmo(g)
    ranked = [v.dot(g) for v in C.known_vertices.best_vertices(g, 3, best)]
    np.testing.assert_allclose(ranked, np.sort(M.T @ g)[:3])
    level = (M.T @ g).min(), (M.T @ h).max()
    found = C.known_vertices.crossing(g, h, level, [best], 0.0)
    inner = fw.Simplex().known_vertices.crossing(M.T @ g, M.T @ h, level, [best.parts[0]], 0.0)
    assert found.theta == inner.theta
    np.testing.assert_array_equal(np.asarray(found.vertex), M @ np.asarray(inner.vertex))
    nuclear = fw.LinearImage(rng.standard_normal((5, 12)), fw.Polytope(n=12, lower=-1.0, upper=1.0))
    s = nuclear.lmo(np.ones(5))
    assert nuclear.lower_bound(np.ones(5), s) == pytest.approx(s.dot(np.ones(5)))
    assert fw.LinearImage(sp.csr_array(M), fw.Simplex()).fingerprint() != C.fingerprint()


def test_matching_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    fw.Matching([0, 1], [1, 2])
    with pytest.raises(ImportError, match=r"networkx: pip install 'fwflow\[graphs\]'"):
        fw.Matching([0, 1, 2], [1, 2, 0])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: fw.SpanningTree([0], [0, 1]), "tails has 1 entries and heads has 2"),
        (lambda: fw.SpanningTree([], []), "at least one edge"),
        (lambda: fw.SpanningTree([0.5], [1]), "must be nodes"),
        (lambda: fw.SpanningTree([0, 2], [1, 3]), "no spanning tree: no edges lead from node 0 to node 2"),
        (lambda: fw.ShortestPath([0, 2], [1, 3], 0, 3), "no path leads from node 0 to node 3"),
        (lambda: fw.ShortestPath([0], [1], 0, 0), "both node 0"),
        (lambda: fw.ShortestPath([0], [1], 0, 7), "target is node 7, which is on no edge"),
        (lambda: fw.Matching([0, 0], [1, 2], perfect=True), "no perfect matching"),
        (lambda: fw.Matching([0, 1, 2, 3], [1, 2, 0, 4], perfect=True), "no perfect matching"),
        (lambda: fw.MixedInteger(n=2, lower=0.2, upper=0.8), "describe an empty set"),
        (lambda: fw.MixedInteger(n=2, lower=0.0).lmo(-np.ones(2)), "must be bounded"),
        (lambda: fw.MixedInteger(n=2, lower=0.0, upper=1.0, integrality=[1, 2]), "integrality must be 0 or 1"),
        (lambda: fw.TransportPolytope([1.0], [2.0]), "same mass; their sums are 1 and 2"),
        (lambda: fw.TransportPolytope([1.0, -1.0], [0.0]), r"a must not be negative; a\[1\] is -1"),
        (lambda: fw.TransportPolytope([0.0], [0.0]), "positive sum"),
        (lambda: fw.TransportPolytope([1.0], [1.0]).lmo(np.ones(2)), "must hold 1 x 1 entries"),
        (lambda: fw.LinearImage(np.eye(2), fw.Birkhoff(2)), "M has 2 columns"),
        (lambda: fw.LinearImage(np.eye(2), abs), "must be a constraint set"),
    ],
)
def test_what_makes_no_sense_is_named(make, match):
    with pytest.raises(ValueError, match=match):
        make()
