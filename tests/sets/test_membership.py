"""Membership in units of the set: every coordinate and constraint by its own size, whatever the others are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import fwflow as fw
from fwflow.points.vertices import DenseVertex
from fwflow.sets import programs
from tests.catalogue import SETS

EPS = float(np.finfo(np.float64).eps)
RESOLVED = 1.5e-8  # what membership of a hull or polytope is told to, in units of the set

#: Thin in the second coordinate, and a point far outside there though not by the first.
THIN = {
    "box": (lambda: fw.Box([0.0, 0.0], [1e9, 1e-6]), [0.0, 5.0]),
    "box-by-a-little": (lambda: fw.Box([0.0, 0.0], [1e9, 1e-6]), [0.0, 1.001e-6]),
    "box-without-width": (lambda: fw.Box([0.0, 3.0], [1e9, 3.0]), [0.0, 3.0 + 1e-9]),
    "box-far-away": (lambda: fw.Box(1e6, 1e6 + 1e-3), [1e6, 1e6 + 1.01e-3]),
    "polytope-bounds": (lambda: fw.Polytope(n=2, lower=0.0, upper=1e-9), [0.0, 5e-8]),
    "polytope-rows": (lambda: fw.Polytope([[1.0, 1.0]], [1e-9], lower=0.0), [0.0, 1.001e-9]),
    "polytope-sign": (lambda: fw.Polytope([[1.0, 1.0]], [1e-9], lower=0.0), [1.001e-9, -1e-12]),
    "polytope-columns": (lambda: fw.Polytope([[1.0, 1e15]], [1e9], lower=0.0), [0.0, 1.001e-6]),
    "polytope-small-rows": (lambda: fw.Polytope([[1e-12, 1e-12]], [1e-12], lower=0.0), [0.5, 0.501]),
    "polytope-big-m": (lambda: fw.Polytope([[1.0, 1.0]], [1e-3], lower=0.0, upper=1e9), [-1e-6, 5e-4]),
    "polytope-equality": (lambda: fw.Polytope(C=[[1.0, 1e12]], d=[1.0], lower=0.0), [0.5, 0.501e-12]),
    "hull": (lambda: fw.ConvexHull([[0, 0], [1e9, 0], [0, 1e-3]]), [0.0, 5.0]),
    "hull-slanted": (lambda: fw.ConvexHull([[0, 0], [1e9, 0], [0, 1e-3]]), [0.5e9, 0.501e-3]),
    "hull-flat": (lambda: fw.ConvexHull([[0, 2], [1e9, 2]]), [0.5e9, 2.0 + 1e-9]),
    "product": (lambda: fw.Product([(fw.L1Ball(1e9), 1), (fw.L1Ball(1e-6), 1)]), [0.0, 5.0]),
    "scaled": (lambda: -3.0 * fw.Box([0.0, 0.0], [1e9, 1e-6]), [0.0, -5.0]),
    "translated": (lambda: fw.Box([0.0, 0.0], [1e9, 1e-6]) + np.array([1e9, 0.0]), [1e9, 5.0]),
}


@pytest.mark.parametrize("name", THIN)
def test_a_wide_coordinate_does_not_widen_the_others(name):
    make, x = THIN[name]
    C = make()
    assert C.contains(x, tol=1e-8) is False
    for g in np.random.default_rng(0).standard_normal((10, 2)):
        assert C.contains(np.asarray(C.lmo(g)), tol=1e-8) is True
    f = fw.Smooth(lambda x: float((x**2).sum()), lambda x: 2 * x)
    with pytest.raises(ValueError, match="x0 lies outside the set"):
        fw.minimize(f, C, x, max_iter=1)


def random_box(rng, n):
    lower = rng.standard_normal(n)
    return fw.Box, (lower, lower + rng.choice([0.0, 1e-3, 1.0, 10.0], n))


def random_hull(rng, n):
    V = rng.standard_normal((int(rng.integers(1, 3 * n)), n))
    return fw.ConvexHull, (V.round() if rng.random() < 0.3 else V,)


def random_polytope(rng, n):
    """Around a point, by bounds, inequalities and at times an equality; not all of it bounded by the bounds alone."""
    x0, m = rng.standard_normal(n), int(rng.integers(1, 5))
    A = rng.standard_normal((m, n)) * (rng.random((m, n)) < 0.7)
    C = rng.standard_normal((int(rng.integers(0, 2)), n))
    lower, upper = x0 - rng.random(n), x0 + rng.random(n)
    total = np.vstack([A, np.ones(n), -np.ones(n)])
    side = total @ x0 + rng.random(m + 2)
    if rng.random() < 0.5:  # the sum bounds what this leaves open
        upper[:] = np.inf
    return (
        lambda A, b, C, d, lower, upper: fw.Polytope(A, b, C, d, lower=lower, upper=upper),
        (total, side, C, C @ x0, lower, upper),
    )


def random_rows(rng, n):
    """A box turned, so that no coordinate has a bound of its own, given or implied."""
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    return lambda A, b: fw.Polytope(A, b), (np.vstack([Q, -Q]), rng.uniform(0.1, 2, 2 * n))


RANDOM = {"box": random_box, "hull": random_hull, "polytope": random_polytope, "rows": random_rows}


def in_other_units(kind, parts, rng, n):
    """The same set with coordinates and rows times powers of two, and the powers of the coordinates."""
    c = rng.integers(-60, 60, n)
    if kind == "box":
        return [np.ldexp(bound, c) for bound in parts], c
    if kind == "hull":
        return [np.ldexp(parts[0], c)], c
    systems, bounds = parts[:4], parts[4:]
    rows = [rng.integers(-60, 60, len(side)) for side in systems[1::2]]
    matrices = [np.ldexp(M, r[:, None] - c) for M, r in zip(systems[::2], rows, strict=True)]
    sides = [np.ldexp(side, r) for side, r in zip(systems[1::2], rows, strict=True)]
    pairs = zip(matrices, sides, strict=True)
    return [*(part for pair in pairs for part in pair), *(np.ldexp(bound, c) for bound in bounds)], c


def members(C, rng, n, dtype=np.float64):
    vertices = np.array([np.asarray(C.lmo(g)) for g in rng.standard_normal((5, n)).astype(dtype)], dtype)
    return vertices, rng.dirichlet(np.full(5, 0.5), 4).astype(dtype) @ vertices


@pytest.mark.parametrize("kind", RANDOM)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_units_of_coordinates_and_rows_do_not_matter(kind, seed, n):
    rng = np.random.default_rng(seed)
    make, parts = RANDOM[kind](rng, n)
    C = make(*parts)
    scaled, c = in_other_units(kind, parts, rng, n)
    D = make(*scaled)
    vertices, mixed = members(C, rng, n)
    for x in [*vertices, *mixed]:
        for distance in (0.0, 1e-12, 1e-8, 1e-5, 1e-2):
            moved = x + distance * rng.standard_normal(n)
            for tol in (1e-9, 1e-4):
                assert D.contains(np.ldexp(moved, c), tol) is C.contains(moved, tol)
    g = rng.standard_normal(n)
    np.testing.assert_array_equal(np.asarray(D.lmo(np.ldexp(g, -c))), np.ldexp(np.asarray(C.lmo(g)), c))
    assert D.lower_bound(np.ldexp(g, -c), D.lmo(np.ldexp(g, -c))) == C.lower_bound(g, C.lmo(g))


@pytest.mark.parametrize("kind", RANDOM)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 5), dtype=st.sampled_from([np.float64, np.float32]))
@settings(deadline=None, max_examples=25, derandomize=True)
def test_mixtures_of_vertices_are_members_and_what_is_beyond_them_is_not(kind, seed, n, dtype):
    rng = np.random.default_rng(seed)
    make, parts = RANDOM[kind](rng, n)
    scaled, c = in_other_units(kind, parts, rng, n)
    C = make(*(scaled if dtype == np.float64 else parts))
    unit = np.ldexp(1.0, c) if dtype == np.float64 else np.ones(n)
    vertices, mixed = members(C, rng, n, dtype)
    for x in [*vertices, *mixed]:
        assert C.contains(x) is True
    for g in rng.standard_normal((3, n)) / unit:
        s, opposite = (np.asarray(C.lmo(sign * g)) for sign in (1, -1))
        outward, width = -g * unit**2, float((opposite - s) @ g)  # <g, x> >= <g, s> for every member x
        beyond = s + 1e-3 * max(width, 1e-2) * outward / abs(float(g @ outward))
        assert C.contains(beyond) is False


@pytest.mark.parametrize("power", [-300, -20, 20, 300])
@pytest.mark.parametrize("name", SETS)
def test_membership_does_not_depend_on_the_size_of_the_set(name, power):
    C, shape = SETS[name]
    rng, scaled = np.random.default_rng(3), 2.0**power * SETS[name][0]
    for g in rng.standard_normal((5, *shape)):
        s = np.asarray(C.lmo(g))
        for distance in (0.0, 1e-10, 1e-6, 1e-3):
            x = s - distance * g
            assert scaled.contains(np.ldexp(x, power)) is C.contains(x)


@pytest.mark.parametrize(
    "make",
    [fw.L1Ball, fw.L2Ball, fw.LInfBall, fw.Simplex, lambda r: fw.LpBall(1.5, r)],
    ids=["l1", "l2", "linf", "simplex", "lp"],
)
def test_norms_of_any_size_are_compared(make):
    for radius in (5e-324, 1e-300, 1.0, 1e300, 1.7e308):
        x = radius * np.array([0.0, 1.0, 0.0])
        assert make(radius).contains(x) is True
        assert make(radius).contains(2 * x if radius < 1e300 else [1.7e308, 1.7e308, 1.79e308]) is False
        if make is not fw.LInfBall and radius > 5e-324:
            assert make(radius).contains(x + np.array([0.0, 0.0, radius / 8])) is False


def hull_distance(V, x):
    """How far, in units of the width of each coordinate, the nearest mixture is: by HiGHS."""
    low, width = V.min(axis=0), np.ptp(V, axis=0)
    width[width == 0] = 1.0
    V, x = (V - low) / width, (x - low) / width
    N, n = V.shape
    answer = linprog(
        np.eye(1, N + 1, N)[0],
        A_ub=np.vstack([np.hstack([side * V.T, -np.ones((n, 1))]) for side in (1, -1)]),
        b_ub=np.concatenate([x, -x]),
        A_eq=np.append(np.ones(N), 0.0)[None],
        b_eq=[1.0],
    )
    assert answer.status == 0
    return answer.fun


@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), N=st.integers(2, 25))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_membership_of_a_hull_against_a_linear_program(seed, n, N):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((N, n))
    if rng.random() < 0.3:
        V = V.round() + 1e-3 * np.eye(N, n)  # many in one line or plane
    if rng.random() < 0.3:
        V[:, -1] = V[:, 0] + 1e-4 * V[:, -1]  # thin, and not along a coordinate
    c = np.ldexp(1.0, rng.integers(-40, 40, n))
    for share in (0.0, 1e-5, 1e-2, 1.0):
        few = rng.choice(N, int(rng.integers(1, N + 1)), replace=False)
        x = rng.dirichlet(np.ones(len(few))) @ V[few] + share * rng.standard_normal(n)
        distance = hull_distance(V, x)
        if share == 0 or not 1e-9 < distance < 1e-6:  # what neither resolves
            assert fw.ConvexHull(V * c).contains(x * c) is (share == 0 or distance <= 1e-9)


def test_membership_of_a_large_hull():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((400, 150))
    C = fw.ConvexHull(V)
    assert C.contains(rng.dirichlet(np.ones(400)) @ V) is True
    assert C.contains(V[7]) is True
    far = V[np.linalg.norm(V, axis=1).argmax()]
    assert C.contains(1.001 * far) is False


@pytest.mark.parametrize("size", [1.0, 1e-3])
@pytest.mark.parametrize("far", [1e3, 1e6, 1e9])
@pytest.mark.parametrize(
    "make",
    [
        fw.L1Ball,
        fw.L2Ball,
        fw.Simplex,
        lambda r: fw.Box([0.0, 0.0, 0.0], [r, r, 0.0]),
        lambda r: fw.ConvexHull(r * np.eye(3)),
        lambda r: fw.Polytope(np.ones((1, 3)), [r], lower=0.0),
        lambda r: fw.Product([(fw.L1Ball(r), 2), (fw.Simplex(r), 1)]),
        lambda r: -0.5 * fw.L1Ball(2 * r),
    ],
    ids=["l1", "l2", "simplex", "box", "hull", "polytope", "product", "scaled"],
)
def test_a_shift_takes_digits_and_no_more(make, far, size):
    shift = far * np.array([1.0, -0.7, 0.3])
    C = make(size) + shift
    rng = np.random.default_rng(1)
    for g in rng.standard_normal((10, 3)):
        s = np.asarray(C.lmo(g))
        assert C.contains(s) is True
        assert C.contains(0.25 * np.asarray(C.lmo(-g)) + 0.75 * s) is True
        # Sixty-four units in the last place of the shift, and a thousandth of the set.
        beyond = 3 * 64 * EPS * far + 2e-3 * size
        assert C.contains(s - beyond * np.sign(g)) is False


def test_a_member_that_next_to_a_shift_has_lost_its_digits_is_still_one():
    shift = np.array([1e9, 0.1])
    C = fw.Box([0.0, 0.0], [0.1, 0.0]) + shift
    assert C.contains(np.array([1e9 + 0.1, 0.1])) is True
    assert C.contains(np.array([1e9 + 0.1, 0.1 + 1e-9])) is False


class Picky(fw.L1Ball):
    """A ball with a membership test of its own."""

    def near(self, x, tol, noise):
        return bool(x[0] == 0)


def test_a_membership_test_of_ones_own_is_asked_by_combinators():
    for C in (2.0 * Picky(), Picky() + np.zeros(2), fw.Product([(Picky(), 2)])):
        assert C.contains(np.array([0.0, 9.0])) is True
        assert C.contains(np.array([0.5, 0.0])) is False


@pytest.mark.parametrize("C", [fw.ConvexHull(np.eye(3)), fw.Polytope(n=3, lower=0.0, upper=1.0)], ids=repr)
@pytest.mark.parametrize("x", [np.zeros(2), np.zeros(4), np.zeros((3, 1)), 0.0])
def test_points_of_another_shape_are_named(C, x):
    with pytest.raises(ValueError, match=r"x has shape .*; members of .* have shape \(3,\)"):
        C.contains(x)


@pytest.mark.parametrize(
    "C",
    [
        fw.ConvexHull(np.eye(4)),
        fw.Box(np.zeros(4), 1.0),
        fw.Box(np.zeros((2, 2)), 1.0),
        fw.Polytope(n=4, lower=0.0, upper=1.0),
        fw.Birkhoff(2),
        fw.Product([(fw.L1Ball(), 2), (fw.Simplex(), 2)]),
        2.0 * fw.ConvexHull(np.eye(4)),
        fw.L1Ball() + np.zeros(4),
    ],
    ids=repr,
)
@pytest.mark.parametrize("shape", [(3,), (5,), (4, 1), (1, 4)])
def test_a_shift_of_another_shape_is_named(C, shape):
    with pytest.raises(ValueError, match=r"shift has shape .*; members of .* have shape \(\d+, ?\d*\)"):
        C + np.zeros(shape)


def test_vectors_stand_for_matrices_row_by_row():
    shift, g = np.arange(4.0), np.array([1.0, -1.0, -1.0, 1.0])
    for C in (fw.Birkhoff(2) + shift, fw.Box(np.zeros((2, 2)), 1.0) + shift):
        np.testing.assert_array_equal(np.asarray(C.lmo(g)), shift + np.array([0.0, 1.0, 1.0, 0.0]))
    D = fw.Product([(fw.Box(np.zeros((2, 2)), [[1.0, 2.0], [3.0, 4.0]]), 4)])
    np.testing.assert_array_equal(np.asarray(D.lmo(-np.ones(4))), [1.0, 2.0, 3.0, 4.0])
    assert D.contains([1.0, 2.0, 3.0, 4.0]) is True


@pytest.fixture
def solved(monkeypatch):
    """The linear programs solved."""
    seen = []

    def counted(cost, **options):
        seen.append(cost)
        return linprog(cost, **options)

    monkeypatch.setattr(programs, "linprog", counted)
    return seen


@pytest.mark.parametrize(
    "wrap",
    [
        lambda P, n: P,
        lambda P, n: 49.0 * P,
        lambda P, n: P + np.ones(n),
        lambda P, n: -7.0 * (3.0 * P + np.ones(n)),
        lambda P, n: 49.0 * fw.Product([(P, n)]),
    ],
    ids=["plain", "scaled", "translated", "nested", "product"],
)
@pytest.mark.parametrize("kind", ["polytope", "rows"])
def test_a_bound_costs_no_linear_program(kind, wrap, solved):
    rng, n = np.random.default_rng(2), 12
    make, parts = RANDOM[kind](rng, n)
    C = wrap(make(*parts), n)
    for g in rng.standard_normal((5, n)):
        s = C.lmo(g)
        before = len(solved)
        assert C.lower_bound(g, s) == pytest.approx(s.dot(g), rel=1e-9)
        assert len(solved) == before


def test_a_run_solves_the_programs_that_it_counts(solved):
    rng, n = np.random.default_rng(0), 15
    C = fw.Polytope(rng.standard_normal((60, n)), np.ones(60))  # bounded, though nothing says so
    f = fw.LinearModel(rng.standard_normal((20, n)), rng.standard_normal(20))
    begun = len(solved)
    r = fw.minimize(f, C, method="fw", max_iter=3, tol=0)
    assert len(solved) - begun == r.n_lmo


@given(seed=st.integers(0, 10**6), n=st.integers(1, 6), wide=st.booleans())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_bounds_hold_where_coordinates_have_none(seed, n, wide):
    # |Qx| <= half, of which the minimum is known: -<|Q^-T g|, half>.
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0] * np.ldexp(1.0, rng.integers(-20, 20, n))
    half = 10.0 ** rng.uniform(-9, 9) * 10.0 ** rng.uniform(-1, 1, n)
    rows = np.ldexp(1.0, rng.integers(-30, 30, 2 * n))
    C = fw.Polytope(np.vstack([Q, -Q]) * rows[:, None], np.tile(half, 2) * rows)

    def exact(g):
        return -float(np.abs(np.linalg.solve(Q.T, g)) @ half)

    g = rng.standard_normal(n) * (10.0 ** rng.uniform(-14, 0, n) if wide else 1.0)
    s, other = C.lmo(g), C.lmo(g * rng.uniform(0.9, 1.1, n))
    few = 1e-13 * abs(exact(g))
    assert exact(g) - few <= C.lower_bound(g, s) <= exact(g) + few
    assert exact(g) - few <= C.lower_bound(g, DenseVertex(np.asarray(s))) <= exact(g) + few
    # The answer to another question is proved nearly best, or the right one is sought.
    assert exact(g) - 1e-6 * abs(exact(g)) <= C.lower_bound(g, other) <= exact(g) + few


@pytest.mark.parametrize("factor", [49.0, -7.0, 1e-3])
@pytest.mark.parametrize(
    "inner", [fw.L1Ball() + np.ones(3), fw.Product([(fw.L1Ball(), 2), (fw.Simplex(), 1)])], ids=repr
)
def test_sets_of_several_parts_may_be_scaled_by_any_number(inner, factor):
    C, D = factor * inner, 3.0 * (factor * inner)
    g = np.array([1.0, -2.0, 0.5])
    for constraint in (C, D):
        s = constraint.lmo(g)
        assert constraint.lower_bound(g, s) == pytest.approx(s.dot(g), rel=1e-14)
        np.testing.assert_array_equal(np.asarray(constraint.lmo(g, s)), np.asarray(s))
    r = fw.minimize(fw.Quadratic(np.eye(3), [1.0, 2.0, 3.0]), C, max_iter=50)
    assert r.feasible is True
