"""Every oracle against an independent answer: minima, ties, lower bounds, dtypes and extreme gradients."""

import copy

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment, linprog

import fwflow as fw
import fwflow.sets
from fwflow.points.lowrank import LowRank
from fwflow.points.point import FactoredPoint, Lifted, Point
from fwflow.points.vertices import DenseVertex, RankOne
from tests.catalogue import COMBINATORIAL, SETS, TURNED
from tests.sets.answers import (
    DUAL_NORMS,
    EPS,
    HIGHS,
    MINIMA,
    PROGRAMS,
    SHIFT,
    VERTICES,
    best,
    corners,
    eps,
    every_ball,
    every_gradient,
    every_polytope,
    every_set,
    gradient,
    reach,
    rounding,
    scale_of,
    value,
)


def test_catalogue_and_independent_answers_cover_every_set():
    shown = {type(constraint).__name__ for constraint, _ in (SETS | COMBINATORIAL).values()}
    assert shown == set(fwflow.sets.__all__) - {"CallableSet", "ConstraintSet", "Crossing"}
    assert VERTICES.keys() == PROGRAMS.keys()
    assert VERTICES.keys() | DUAL_NORMS.keys() | MINIMA.keys() == SETS.keys()


@every_polytope
@every_gradient
def test_lmo_matches_a_linear_program(name, kind):
    constraint, shape = SETS[name]
    g = gradient(kind, shape)
    scale, program = scale_of(g), dict(PROGRAMS[name])
    to_x, offset = program.pop("map"), program.pop("offset", np.zeros(g.size))
    unit = g.ravel().astype(np.float64) / scale
    answer = linprog(to_x.T @ unit, **program)
    assert answer.status == 0
    # A basis whose reduced costs are wrong by HIGHS is off by that times the length of the solution.
    slack = HIGHS * scale * max(1.0, reach(name))
    assert value(constraint.lmo(g), g) == pytest.approx(scale * (answer.fun + offset @ unit), rel=0, abs=slack)


@every_polytope
@every_gradient
def test_lmo_returns_the_best_of_all_vertices(name, kind):
    constraint, shape = SETS[name]
    g, V = gradient(kind, shape), VERTICES[name]
    s = np.asarray(constraint.lmo(g), dtype=np.float64).ravel()
    assert np.abs(V - s).max(axis=1).min() <= 4 * eps(g.dtype) * np.abs(V).max()
    assert value(s, g.ravel()) <= best(name, g) + rounding(name, g)


@every_ball
@every_gradient
def test_lmo_attains_the_dual_norm_on_the_boundary(name, kind):
    constraint, shape = SETS[name]
    g = gradient(kind, shape)
    s = np.asarray(constraint.lmo(g), dtype=np.float64)
    assert value(s, g) == pytest.approx(best(name, g), rel=0, abs=rounding(name, g))
    # The extreme points of these balls are the boundary, and for the nuclear norm its rank-one part.
    if name == "ellipsoid":
        sigma = np.array([np.linalg.norm(TURNED.T @ (s - SHIFT) / np.linspace(0.5, 2, 6))])
    else:
        sigma = scipy.linalg.svdvals(s) if s.ndim == 2 else np.array([constraint.norm(s)])
    radius, _ = DUAL_NORMS[name]
    slack = 4 * s.size * eps(g.dtype) * radius
    assert sigma[0] == pytest.approx(radius, rel=0, abs=slack)
    assert sigma[1:].max(initial=0.0) <= slack


@pytest.mark.parametrize(
    ("name", "norm"),
    [
        ("l2", lambda x: cp.norm(x, 2)),
        ("lp-1.5", lambda x: cp.pnorm(x, 1.5)),
        ("lp-3", lambda x: cp.pnorm(x, 3)),
        ("group", lambda x: cp.norm(x[[0, 2]]) + cp.norm(x[[1, 3, 4]]) + cp.abs(x[5])),
        ("group-3", lambda x: cp.pnorm(x[[0, 1, 5]], 3) + cp.pnorm(x[[2, 3, 4]], 3)),
        ("group-inf", lambda x: cp.norm_inf(x[[0, 2]]) + cp.norm_inf(x[[1, 3, 4]]) + cp.abs(x[5])),
        ("nuclear", cp.normNuc),
        ("nuclear-wide", cp.normNuc),
    ],
)
def test_lmo_matches_a_conic_solver(name, norm):
    constraint, shape = SETS[name]
    g = gradient("random", shape)
    x = cp.Variable(shape)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(g, x))), [norm(x) <= constraint.radius])
    problem.solve(solver=cp.CLARABEL)
    # Clarabel stops at a relative gap and a relative infeasibility of 1e-8 each.
    assert value(constraint.lmo(g), g) == pytest.approx(problem.value, rel=1e-7)


@every_set
@settings(deadline=None, max_examples=25, derandomize=True)
@given(data=st.data())
def test_no_member_beats_the_oracle(name, data):
    constraint, shape = SETS[name]
    entries = st.floats(-1e3, 1e3, width=32, allow_subnormal=False) | st.integers(-2, 2).map(float)
    g = data.draw(arrays(np.float64, shape, elements=entries, fill=st.nothing()))
    slack = rounding(name, g)
    if isinstance(constraint, fw.Polytope):
        slack += HIGHS * scale_of(g) * reach(name)
    assert abs(value(constraint.lmo(g), g) - best(name, g)) <= slack


@every_set
@every_gradient
def test_vertex_has_the_shape_of_the_gradient_and_is_a_member(name, kind):
    constraint, shape = SETS[name]
    g = gradient(kind, shape)
    s = constraint.lmo(g)
    assert s.shape == np.asarray(s).shape == g.shape
    assert constraint.contains(np.asarray(s), tol=max(1e-9, 4 * g.size * eps(g.dtype)))


@every_set
@every_gradient
def test_vertex_knows_its_inner_product(name, kind):
    constraint, shape = SETS[name]
    g = gradient(kind, shape)
    s = constraint.lmo(g)
    assert s.dot(g) == pytest.approx(value(s, g), rel=0, abs=rounding(name, g))


@every_set
@every_gradient
def test_lmo_is_deterministic(name, kind):
    constraint, shape = SETS[name]
    g = gradient(kind, shape)
    fresh = copy.deepcopy(constraint)
    first = np.asarray(constraint.lmo(g))
    constraint.lmo(-1.0 * gradient("random", shape, seed=8))
    for again in (constraint.lmo(g.copy()), fresh.lmo(g)):
        np.testing.assert_array_equal(np.asarray(again), first)


@every_set
@pytest.mark.parametrize("exponent", [-900, -90, 90, 900])
def test_lmo_ignores_the_length_of_the_gradient(name, exponent):
    constraint, shape = SETS[name]
    g = gradient("random", shape)
    # A power of two scales without rounding, so every comparison falls out the same. Not so inside LAPACK, but the
    # singular values are well apart, so that the vectors are good to a few ulps.
    atol = 64 * EPS if name.startswith("nuclear") else 0.0
    s, scaled = constraint.lmo(g), constraint.lmo(np.ldexp(g, exponent))
    np.testing.assert_allclose(np.asarray(scaled), np.asarray(s), rtol=0, atol=atol)


@pytest.mark.parametrize("name", [n for n in SETS if not n.startswith("nuclear")])
def test_gradients_of_integers_are_read_as_numbers(name):
    constraint, shape = SETS[name]
    g = gradient("rounded", shape).astype(int)
    np.testing.assert_array_equal(np.asarray(constraint.lmo(g)), np.asarray(constraint.lmo(g.astype(float))))


@every_set
def test_float32_stays_float32(name):
    constraint, shape = SETS[name]
    g = gradient("float32", shape)
    s = constraint.lmo(g)
    if isinstance(s, DenseVertex):
        assert s.array.dtype == np.float32
    if isinstance(s, RankOne):
        assert s.u.dtype == s.v.dtype == np.float32
    start = constraint.start(shape, np.float32)
    assert start.dtype == np.float32
    kind = FactoredPoint if isinstance(start, LowRank) else Point
    moved = kind(start).mix([(0.25, Lifted(s))]).x
    assert moved.dtype == np.float32
    assert np.asarray(moved).dtype == np.float32


TIES = [
    (fw.L1Ball(2.0), [1.0, -1.0, 1.0], [-2.0, 0.0, 0.0]),
    (fw.L1Ball(2.0), [0.0, -1.0, 1.0], [0.0, 2.0, 0.0]),
    (fw.L1Ball(2.0), [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
    (fw.Simplex(3.0), [1.0, 0.0, 0.0], [0.0, 3.0, 0.0]),
    (fw.Simplex(3.0), [0.0, 0.0, 0.0], [3.0, 0.0, 0.0]),
    (fw.LInfBall(1.5), [0.0, 1.0, -1.0], [1.5, -1.5, 1.5]),
    (fw.Box(-1.0, 2.0), [0.0, 1.0, -1.0], [2.0, -1.0, 2.0]),
    (fw.L2Ball(2.0), [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
    (fw.LpBall(3.0, 2.0), [0.0, 0.0, 0.0], [2.0, 0.0, 0.0]),
    (fw.ConvexHull([[0.0, 1.0], [-1.0, 0.0], [-1.0, 2.0]]), [1.0, 0.0], [-1.0, 0.0]),
    (fw.ConvexHull([[0.0, 1.0], [-1.0, 0.0], [-1.0, 2.0]]), [0.0, 0.0], [0.0, 1.0]),
]


@pytest.mark.parametrize(("constraint", "g", "expected"), TIES)
def test_ties_fall_as_documented(constraint, g, expected):
    np.testing.assert_array_equal(np.asarray(constraint.lmo(np.array(g))), expected)


@every_set
@every_gradient
def test_lower_bound_is_true_and_tight(name, kind):
    constraint, shape = SETS[name]
    g = gradient(kind, shape)
    bound, exact, slack = constraint.lower_bound(g, constraint.lmo(g)), best(name, g), rounding(name, g)
    assert bound <= exact + slack
    if isinstance(constraint, fw.Polytope):
        slack += HIGHS * scale_of(g) * reach(name)
    # Proofs for the nuclear ball begin at a margin of 1e-8 in the square, and at 1e-6 where rounding eats that.
    margin = 0.0 if name in VERTICES else 1e-8 if g.dtype == np.float64 else 1e-6
    assert bound >= exact - slack - margin * abs(exact)


@pytest.mark.parametrize("row_scale", [1.0, 1e3])
def test_lower_bound_over_a_polytope_survives_small_coefficients(row_scale):
    # Reduced costs and multipliers below its tolerance are zeros to the solver; the bound must hold all the same.
    for seed in range(40):
        rng = np.random.default_rng(seed)
        A = np.vstack([row_scale * rng.integers(-5, 6, (6, 3)), np.eye(3), -np.eye(3)])
        b = np.concatenate([row_scale * np.full(6, 5.0), np.ones(6)])
        g = rng.choice([-1, 1], 3) * np.array([1.0, 1e-8, 1e-10])
        constraint = fw.Polytope(A[:6], b[:6], lower=-1.0, upper=1.0)
        exact = (corners(A, b, np.zeros((0, 3)), np.zeros(0)) @ g).min()
        bound = constraint.lower_bound(g, constraint.lmo(g))
        # The loosest that the solver's tolerance allows: on three costs and, in units of their slack, on six rows.
        assert exact - HIGHS * (3 * 2 + 6 * 20 * row_scale) <= bound <= exact + 16 * EPS


@pytest.mark.parametrize("p", [1.01, 1.1, 4.0, 50.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lp_oracle_near_both_ends(p, dtype):
    q = p / (p - 1)
    for g in (np.array([3.0, -3.0, 3.0]), np.array([1.0, -0.5, 0.0]), np.array([1.0, 1.0 - 1e-3, 0.99])):
        g = g.astype(dtype)
        s = fw.LpBall(p, 2.0).lmo(g)
        # An ulp of an entry is q ulps of its q-th power.
        slack = 8 * q * eps(dtype)
        dual = float((np.abs(g.astype(float) / 3) ** q).sum()) ** (1 / q) * 3
        assert value(s, g) == pytest.approx(-2 * dual, rel=slack)
        assert fw.LpBall(p, 2.0).contains(np.asarray(s), tol=slack)


@pytest.mark.parametrize("p", [1.5, 2.0, 3.0])
def test_lp_oracle_at_the_ends_of_the_exponent_range(p):
    constraint = fw.LpBall(p)
    np.testing.assert_array_equal(np.asarray(constraint.lmo(np.array([5e-324, 0.0]))), [-1.0, 0.0])
    equal = 2.0 ** (-1 / p)
    np.testing.assert_allclose(np.asarray(constraint.lmo(np.array([1.7e308, -1.7e308]))), [-equal, equal], rtol=4 * EPS)
    assert constraint.contains(np.array([1e-200, 1e200])) is False
    assert fw.LpBall(p, 1e200).contains(np.array([1e-200, 1e200])) is True


@given(seed=st.integers(0, 10**6), n=st.integers(1, 8), scales=st.lists(st.integers(-9, 9), min_size=2, max_size=5))
@settings(deadline=None, max_examples=50, derandomize=True)
def test_assignments_from_a_hint_are_as_good_as_from_scratch(seed, n, scales):
    rng, C, hint = np.random.default_rng(seed), fw.Birkhoff(n), None
    for scale in scales:
        g = 10.0**scale * rng.standard_normal((n, n))
        hint = C.lmo(g, hint)
        assert hint.dot(g) <= g[linear_sum_assignment(g)].sum() + 1e-12 * np.abs(g).max()
    assert C.lmo(np.zeros((n, n)), hint).key == C.lmo(np.zeros((n, n))).key
    assert fw.Birkhoff(n + 1).lmo(np.eye(n + 1), hint).key == fw.Birkhoff(n + 1).lmo(np.eye(n + 1)).key
