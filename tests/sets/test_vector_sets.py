"""What vector sets offer besides their oracle: ranked vertices, faces, longest steps, projections, mixtures."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow._numerics import lowest, smallest
from tests.catalogue import SETS, TURNED
from tests.sets.answers import VERTICES, choices
from tests.test_optima import CONSTRAINTS

#: Sets that say what the face of a point is.
FACES = [
    *("l1", "l1-matrix", "linf", "simplex-radius", "unit-simplex", "hypersimplex", "unit-hypersimplex", "box"),
    *("box-arrays", "interval", "birkhoff", "birkhoff-flat", "scaled", "translated"),
]
NESTED = {
    "product": (fw.Product([(fw.HyperSimplex(2), 4), (fw.Box(-1.0, 2.0), 2)]), (6,)),
    "scaled": (-3.0 * fw.UnitHyperSimplex(2), (4,)),
    "translated": (fw.HyperSimplex(2) + np.array([1e6, -3.0, 0.1, 7.0]), (4,)),
    "both": (0.5 * (fw.L1Ball(2.0) + np.array([1e3, 0.1, -5.0])), (3,)),
}


def vertices_of(C, n, seed=0):
    """All vertices that an oracle has, as far as many random questions show."""
    found = [np.asarray(C.lmo(g)) for g in np.random.default_rng(seed).standard_normal((400, n))]
    return np.unique(np.round(found, 9), axis=0)


EVERY_FACE = pytest.mark.parametrize(
    ("C", "shape", "V"),
    [
        *(pytest.param(*SETS[name], VERTICES[name], id=name) for name in FACES),
        *(pytest.param(C, s, vertices_of(C, *s), id=f"nested-{name}") for name, (C, s) in NESTED.items()),
    ],
)


def members(V, rng, shape):
    """Mixtures of one, two, ... vertices, each with a fair share."""
    for count in range(1, 6):
        weights = 0.2 + rng.random(count)
        rows = V[rng.choice(len(V), min(count, len(V)), replace=False)]
        yield (weights[: len(rows)] / weights[: len(rows)].sum() @ rows).reshape(shape)


@EVERY_FACE
def test_the_away_vertex_is_the_worst_of_the_face(C, shape, V):
    rng = np.random.default_rng(1)
    for x in itertools.chain(members(V, rng, shape), members(V, rng, shape)):
        # A vertex is in the smallest face of x if x can move away from it.
        face = [v for v in V if C.contains(x + 1e-3 * (x - v.reshape(shape)), tol=1e-7)]
        for g in (rng.standard_normal(shape), rng.standard_normal(shape).round(), np.zeros(shape)):
            a = C.faces.away_vertex(g, x)
            assert a.shape == shape
            assert min(np.abs(np.asarray(a).ravel() - v).max() for v in face) <= 1e-8
            assert a.dot(g) == pytest.approx(max(v @ g.ravel() for v in face), rel=1e-12, abs=1e-8)


@EVERY_FACE
def test_the_longest_step_ends_on_the_border(C, shape, V):
    rng = np.random.default_rng(2)
    for x in members(V, rng, shape):
        g = rng.standard_normal(shape)
        toward = np.asarray(C.lmo(g)) - x
        pairwise = np.asarray(C.lmo(g)) - np.asarray(C.faces.away_vertex(g, x))
        for d in (
            toward,
            -toward,
            pairwise,
            x - np.asarray(C.faces.away_vertex(g, x)),
            V[0].reshape(shape) - V[-1].reshape(shape),
        ):
            t = C.faces.max_step(x, d)
            if np.abs(d).max() <= 1e-9:
                continue
            assert 0 <= t < math.inf
            assert C.contains(x + t * d)
            assert not C.contains(x + (t + 1e-5 / np.abs(d).max()) * d)
        assert C.faces.max_step(x, toward) >= 1 - 1e-9 or np.abs(toward).max() <= 1e-9
        assert C.faces.max_step(x, np.zeros(shape)) == math.inf


def test_faces_are_not_known_where_nobody_says():
    for C in (
        fw.L2Ball(),
        fw.MinkowskiSum(fw.L1Ball(), fw.L1Ball()),
        fw.Product([(fw.Box(0.0, 1.0), 1), (fw.L2Ball(), 2)]),
    ):
        assert C.faces is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_that_end_at_a_bound_leave_the_face_smaller(dtype):
    """Pairwise steps as long as they can be: every one fixes an entry for good, so that few lead to a vertex."""
    rng, n = np.random.default_rng(0), 40
    for C in (
        fw.HyperSimplex(15, 0.3),
        fw.Simplex(0.7),
        fw.HyperSimplex(15) + (100 * rng.standard_normal(n)).astype(dtype),
    ):
        g, x = rng.standard_normal(n).astype(dtype), C.start((n,), dtype)
        for _ in range(2 * n):
            s, a = (np.asarray(v, dtype=dtype) for v in (C.lmo(g), C.faces.away_vertex(g, x)))
            if (s == a).all():
                break
            x = x + dtype(C.faces.max_step(x, s - a)) * (s - a)
        np.testing.assert_allclose(x, np.asarray(C.lmo(g)), atol=300 * n * np.finfo(dtype).eps)


RANKED = ["l1", "simplex", "unit-simplex", "hypersimplex", "unit-hypersimplex", "k-sparse", "permutahedron"]


@pytest.mark.parametrize("name", RANKED)
@pytest.mark.parametrize("kind", ["random", "tied", "zero", "float32", "huge"])
def test_ranked_vertices_are_the_best_there_are(name, kind):
    C, shape = SETS[name]
    V = VERTICES[name]
    rng = np.random.default_rng(3)
    make = {
        "random": lambda g: g,
        "tied": np.round,
        "zero": np.zeros_like,
        "float32": np.float32,
        "huge": lambda g: 1e300 * g,
    }
    for _ in range(10):
        g = np.asarray(make[kind](rng.standard_normal(shape)))
        exact = np.sort(V @ g)
        for count in (1, 2, 7, 50):
            ranked = C.known_vertices.best_vertices(g, count, C.lmo(g))
            most = 6 if name == "l1" else len(V)  # of the two signs of an entry, the L1 ball gives the better one
            assert len(ranked) == len({v.key for v in ranked}) == min(count, most)
            assert all(np.abs(V - np.asarray(v)).max(axis=1).min() < 1e-6 for v in ranked)
            if name != "l1":
                values = [v.dot(g) for v in ranked]
                np.testing.assert_allclose(values, exact[: len(values)], rtol=1e-6, atol=1e-6 * np.abs(g).max())


@pytest.mark.parametrize("C", [fw.UnitSimplex(1.5), fw.HyperSimplex(2, 1.5), fw.UnitHyperSimplex(3, 0.5)], ids=repr)
@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_members_are_mixtures_of_few_vertices(C, seed):
    rng = np.random.default_rng(seed)
    x = sum(
        w * np.asarray(C.lmo(g)) for w, g in zip(rng.dirichlet(np.ones(4)), rng.standard_normal((4, 7)), strict=True)
    )
    if not C.exactly:
        x = x * rng.random()
    parts = C.known_vertices.decomposed(x)
    weights = [w for w, _ in parts]
    assert min(weights) > 0
    assert len(parts) <= 8
    assert sum(weights) <= 1 + 1e-12
    if C.exactly:
        assert sum(weights) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(sum(w * np.asarray(v) for w, v in parts), x, atol=1e-12)
    assert all(set(np.unique(np.asarray(v))) <= {0.0, C.radius} and C.contains(np.asarray(v)) for _, v in parts)


def test_ordered_balls_rank_the_best_of_every_kind():
    rng = np.random.default_rng(4)
    for C in (SETS["owl"][0], SETS["k-norm"][0], fw.KNormBall(1), fw.KNormBall(9)):
        for g in rng.standard_normal((20, 6)).round(1):
            ranked = C.known_vertices.best_vertices(g, 5, C.lmo(g))
            values = [v.dot(g) for v in ranked]
            assert values == sorted(values)
            assert values[0] == C.lmo(g).dot(g)
            assert len({v.key for v in ranked}) == len(ranked) == (1 if C.norm(np.ones(6)) == 1 else 5)


def corner_system(name):
    """All inequalities and equalities of a polytope, as rows ``A x <= b``."""
    n = 6
    signs = np.array([*itertools.product([1.0, -1.0], repeat=n)])
    subsets = choices(range(1, n + 1), n)
    k = subsets.sum(axis=1).astype(int)
    box = np.vstack([np.eye(n), -np.eye(n)])
    if name == "owl":
        orders = np.array([*itertools.permutations(SETS[name][0].weights)])
        return np.unique(np.vstack([orders * s for s in signs]), axis=0), 4.0
    if name == "permutahedron":
        top = np.cumsum(SETS[name][0].weights)
        return np.vstack([subsets, -np.ones(n)]), np.append(top[k - 1], -top[-1])
    if name == "k-norm":
        return np.unique(np.vstack([choices([2], n) * s for s in signs]), axis=0), 1.5
    if name == "k-sparse":
        return np.vstack([box, signs]), np.repeat([1.5, 3.0], [12, 64])
    radius, k = {"unit-simplex": (2.0, 1), "hypersimplex": (1.5, 2), "unit-hypersimplex": (1.0, 3)}[name]
    signs = np.array([1.0, -1.0] if name == "hypersimplex" else [1.0])  # an equality is two inequalities
    bounds = np.concatenate([np.full(n, radius), np.zeros(n), signs * k * radius])
    return np.vstack([box, signs[:, None] * np.ones(n)]), bounds


DIRECTIONS = {
    "random": lambda g: g,
    "tied": lambda g: g.round(),
    "sparse": lambda g: np.where(np.abs(g) > 1, g, 0.0),
    "zero": np.zeros_like,
    "float32": lambda g: g.astype(np.float32),
    "tiny": lambda g: 1e-300 * g,
    "huge": lambda g: 1e300 * g,
}


@pytest.mark.parametrize("name", [n for n in RANKED if n not in ("l1", "simplex")] + ["k-norm", "owl"])
def test_answers_to_500_directions_are_best_and_extreme(name):
    """A point is extreme if the constraints that hold with equality there have full rank."""
    C, (n,) = SETS[name]
    A, b = corner_system(name)
    V, seen = VERTICES[name], {}
    for i, g in enumerate(np.random.default_rng(5).standard_normal((504, n))):
        g = DIRECTIONS[list(DIRECTIONS)[i % len(DIRECTIONS)]](g)
        s = np.asarray(C.lmo(g), dtype=np.float64)
        unit = float(np.abs(g).max()) or 1.0
        few = 1e-12 if g.dtype == np.float64 else 1e-5
        assert s @ (g / unit) <= (V @ (g / unit)).min() + few
        seen[s.round(4).tobytes()] = s
    for s in seen.values():
        tight = np.abs(A @ s - b) <= 1e-5
        assert (A @ s <= b + 1e-5).all()
        assert np.linalg.matrix_rank(A[tight]) == n


def test_the_ellipsoid_answers_500_directions():
    """The least value is that of the quadratic form ``Q diag(a^2) Q^T``, wherever the answer is."""
    C, (n,) = SETS["ellipsoid"]
    form = TURNED @ np.diag(np.linspace(0.5, 2, n) ** 2) @ TURNED.T
    for i, g in enumerate(np.random.default_rng(5).standard_normal((504, n))):
        g = DIRECTIONS[list(DIRECTIONS)[i % len(DIRECTIONS)]](g)
        unit = g.astype(np.float64) / (float(np.abs(g).max()) or 1.0)
        least = np.linspace(-1, 1, n) @ unit - np.sqrt(unit @ form @ unit)
        s = np.asarray(C.lmo(g), dtype=np.float64)
        assert s @ unit == pytest.approx(least, abs=1e-12 if g.dtype == np.float64 else 1e-5)
        assert C.contains(s, tol=1e-12 if g.dtype == np.float64 else 1e-5)


def test_a_weight_more_or_less_decides_what_is_extreme():
    """Equal weights leave single entries, weights of zero add entries for free."""
    g = np.array([3.0, -3.0, 3.0, 3.0])
    for weights, entries in (
        ([1, 1, 1, 1], 1),
        ([2, 1, 1, 1], 4),
        ([1, 1, 0, 0], 4),
        ([1, 0, 0, 0], 4),
        ([5, 1, 1, 1], 4),
    ):
        assert np.count_nonzero(np.asarray(fw.OWLBall(weights).lmo(g))) == entries
    for k, entries in ((1, 4), (2, 4), (3, 4), (4, 1), (5, 1)):
        assert np.count_nonzero(np.asarray(fw.KNormBall(k).lmo(g))) == entries
    single = np.array([0.0, 1.0, 0.0, 0.0])
    for k, entries in ((1, 4), (2, 1), (4, 1)):
        assert np.count_nonzero(np.asarray(fw.KNormBall(k).lmo(single))) == entries


def sets_of(n, rng):
    """Sets of vectors with n entries that project, with other parameters than the catalogue's."""
    k = int(rng.integers(1, n + 1))
    weights = rng.random(n).round(int(rng.integers(1, 3))) * (rng.random(n) < 0.8) + np.eye(1, n)[0]
    turned = np.linalg.qr(rng.standard_normal((n, n)))[0]
    yield fw.UnitSimplex(1.5)
    yield fw.HyperSimplex(k, 0.7)
    yield fw.UnitHyperSimplex(k, 0.7)
    yield fw.KSparseBall(k, 0.7)
    yield fw.KNormBall(k, 1.5)
    yield fw.OWLBall(weights, 1.5)
    yield fw.Permutahedron(rng.standard_normal(n).round(1))
    yield fw.Ellipsoid(rng.standard_normal(n), 0.1 + 2 * rng.random(n), turned)
    yield fw.Ellipsoid(rng.standard_normal(n), 10.0 ** rng.uniform(-4, 1, n))
    for p in (2.0, np.inf):
        yield fw.GroupBall(rng.integers(0, k, n), 1.5, p=p)
    for p in (1.02, 1.3, 1.5, 2.0, 2.7, 3.0, 8.0, 90.0):
        yield fw.LpBall(p, 1.5)


@given(
    seed=st.integers(0, 10**6), n=st.integers(1, 9), size=st.sampled_from([0.3, 3.0, 1e3]), dtype=st.sampled_from("fd")
)
@settings(deadline=None, max_examples=40, derandomize=True)
def test_no_vertex_is_at_an_acute_angle_from_a_projection(seed, n, size, dtype):
    """y is the point nearest to x if and only if ``<x - y, s - y>`` is not positive for any member s."""
    rng = np.random.default_rng(seed)
    x = (size * rng.standard_normal(n)).astype(dtype)
    if rng.random() < 0.5:
        x = x.round(1)
    x.flags.writeable = False
    for C in sets_of(n, rng):
        y = C.project(x)
        eps = float(np.finfo(dtype).eps)
        assert y.dtype == x.dtype
        assert C.contains(y)
        wide, gradient = y.astype(np.float64), y.astype(np.float64) - x.astype(np.float64)
        extent = np.abs(x).max() + C.diameter((n,)) + np.abs(wide).max()
        gap = gradient @ wide - C.lmo(gradient).dot(gradient)
        assert gap <= 50 * n * eps * extent**2
        np.testing.assert_allclose(C.project(y), y, rtol=0, atol=20 * eps * extent)
        inner = 0.5 * np.asarray(C.start((n,), dtype)) + 0.5 * y
        np.testing.assert_allclose(C.project(inner), inner, rtol=0, atol=8 * eps * extent)


UNITS = [
    fw.UnitSimplex,
    lambda r: fw.HyperSimplex(3, r),
    lambda r: fw.UnitHyperSimplex(3, r),
    lambda r: fw.KSparseBall(3, r),
    lambda r: fw.KNormBall(3, r),
    lambda r: fw.OWLBall([3, 2, 1, 1, 0, 0], r),
    lambda r: fw.Permutahedron(r * np.arange(6.0)),
    lambda r: fw.Ellipsoid(np.zeros(6), r * np.arange(1.0, 7.0)),
    lambda r: fw.GroupBall([0, 1, 1, 0, 2, 2], r, p=np.inf),
    lambda r: fw.LpBall(1.01, r),
    lambda r: fw.LpBall(1.5, r),
    lambda r: fw.LpBall(3.0, r),
    lambda r: fw.LpBall(200.0, r),
]


@pytest.mark.parametrize("power", [-280, 280])
def test_projections_do_not_depend_on_units(power):
    rng = np.random.default_rng(6)
    unit = 2.0**power
    for make in UNITS:
        x = 3 * rng.standard_normal(6)
        np.testing.assert_allclose(make(unit).project(unit * x) / unit, make(1.0).project(x), rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    "name",
    ["unit-simplex", "hypersimplex", "unit-hypersimplex", "k-sparse", "k-norm", "owl", "permutahedron", "ellipsoid"],
)
def test_projections_agree_with_a_conic_solver(name):
    C, (n,) = SETS[name]
    x = 3 * np.random.default_rng(7).standard_normal(n)
    y = cp.Variable(n)
    problem = cp.Problem(cp.Minimize(cp.norm2(y - x)), CONSTRAINTS[name](y))
    problem.solve(solver="CLARABEL")
    assert np.linalg.norm(C.project(x) - x) == pytest.approx(problem.value, rel=1e-7)


@given(seed=st.integers(0, 10**6), k=st.integers(1, 8))
@settings(deadline=None, max_examples=30, derandomize=True)
def test_members_of_the_sparse_ball_are_mixtures(seed, k):
    rng = np.random.default_rng(seed)
    C = fw.KSparseBall(k, 0.7)
    x = C.project(rng.standard_normal(6)) * rng.choice([1.0, rng.random()])
    parts = C.known_vertices.decomposed(x)
    weights = np.array([w for w, _ in parts])
    assert (weights > 0).all()
    assert weights.sum() <= 1 + 1e-12
    np.testing.assert_allclose(sum(w * np.asarray(v) for w, v in parts), x, atol=1e-12)
    assert all((np.count_nonzero(np.asarray(v)), np.abs(np.asarray(v)).max()) == (min(k, 6), 0.7) for _, v in parts)
    assert C.known_vertices.decomposed(np.zeros(6)) == []


def test_ellipsoids_far_from_round_still_project():
    axes = 10.0 ** np.arange(-6.0, 2.0)
    C = fw.Ellipsoid(np.zeros(8), axes)
    for x in (np.ones(8), 1e12 * np.ones(8), axes, np.eye(8)[0], 1e-6 * np.eye(8)[0] + axes):
        y = C.project(x)
        assert C.contains(y)
        outward = y / axes**2
        across = np.outer(x - y, outward)
        np.testing.assert_allclose(across, across.T, atol=1e-6 * np.abs(across).max())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fw.HyperSimplex(0), "k must be an integer of at least 1"),
        (lambda: fw.KSparseBall(1.5), "k must be an integer"),
        (lambda: fw.UnitSimplex(-1.0), "radius must be a positive"),
        (lambda: fw.KNormBall(2, 0.0), "radius must be a positive"),
        (lambda: fw.OWLBall([1.0, -1.0]), "weights must not be negative"),
        (lambda: fw.OWLBall([0.0, 0.0]), "one at least must be positive"),
        (lambda: fw.OWLBall([]), "one at least must be positive"),
        (lambda: fw.OWLBall([1.0, np.nan]), "weights must be finite"),
        (lambda: fw.Permutahedron([]), "weights is empty"),
        (lambda: fw.Permutahedron([[1.0]]), "weights must have 1 dimension"),
        (lambda: fw.Ellipsoid([0.0, 0.0], [1.0]), "axes must be a positive number, or one for each of the 2"),
        (lambda: fw.Ellipsoid([0.0, 0.0], 0.0), "axes must be a positive number"),
        (lambda: fw.Ellipsoid([0.0, 0.0], 1.0, np.ones((2, 2))), "rotation must be an orthogonal matrix"),
        (lambda: fw.Ellipsoid([0.0, 0.0], 1.0, np.eye(3)), "rotation must be an orthogonal matrix of 2 x 2"),
        (lambda: fw.OWLBall([1.0, 1.0]).contains(np.zeros(3)), "x has 3 entries"),
        (lambda: fw.Permutahedron([1.0, 1.0]).contains(np.zeros(3)), "x has 3 entries"),
        (lambda: fw.Ellipsoid([0.0, 0.0], 1.0).contains(np.zeros(3)), r"x has shape \(3,\)"),
        (lambda: fw.HyperSimplex(4).lmo(np.ones(3)), "k must be at most the number of entries"),
    ],
)
def test_what_cannot_be_meant_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@given(
    x=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=6, max_size=6), power=st.integers(-250, 250)
)
@settings(deadline=None, max_examples=100, derandomize=True)
def test_whatever_is_finite_projects_to_a_member(x, power):
    for make in UNITS:
        C = make(2.0**power)
        y = C.project(np.array(x))
        assert np.isfinite(y).all()
        assert C.contains(y)


@pytest.mark.parametrize(
    "C", [SETS[name][0] for name in ("unit-simplex", "hypersimplex", "k-sparse", "k-norm")], ids=repr
)
def test_matrices_are_vectors_row_by_row(C):
    g = np.random.default_rng(8).standard_normal(6)
    M = g.reshape(2, 3)
    for flat, shaped in ((C.lmo(g), C.lmo(M)), (C.project(g), C.project(M)), (C.start((6,)), C.start((2, 3)))):
        assert np.shape(shaped) == (2, 3)
        np.testing.assert_array_equal(np.asarray(shaped).ravel(), np.asarray(flat))
    known = C.known_vertices
    ranked = zip(known.best_vertices(g, 4, C.lmo(g)), known.best_vertices(M, 4, C.lmo(M)), strict=True)
    assert all((np.asarray(a) == np.asarray(b).ravel()).all() for a, b in ranked)
    assert C.contains(np.asarray(C.lmo(M)))


@given(values=st.lists(st.integers(0, 2).map(float), min_size=1, max_size=30), count=st.integers(0, 31))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_of_equal_entries_the_first_are_the_smallest(values, count):
    array = np.array(values)
    expected = np.argsort(array, kind="stable")[:count]
    assert smallest(array, count) == expected.tolist()
    np.testing.assert_array_equal(lowest(array, count), np.sort(expected))
