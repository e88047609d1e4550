"""Every oracle against an independent answer, and what else a set promises: members, starts, diameters, errors."""

import copy
import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment, linprog

import fwflow as fw
import fwflow.sets
from fwflow.points.gradients import Sampled
from fwflow.points.lowrank import LowRank
from fwflow.points.point import FactoredPoint, Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, RankOne
from fwflow.sets import CallableSet, lanczos
from tests.catalogue import COMBINATORIAL, SETS, TURNED

HIGHS = 1e-7  # feasibility tolerance, primal and dual, of the solver inside Polytope and inside linprog here
EPS = float(np.finfo(np.float64).eps)

SHIFT = np.linspace(-1, 1, 6)
HULL = SETS["hull"][0].vertices


def eps(dtype):
    return float(np.finfo(dtype).eps)


def signed_units(radius, n):
    return np.vstack([radius * np.eye(n), -radius * np.eye(n)])


def box_corners(lower, upper):
    return np.array([*itertools.product(*zip(lower, upper, strict=True))])


def choices(sizes, n):
    """Vectors of n entries with so many ones and else zeros."""
    return np.array([np.isin(range(n), S) for k in sizes for S in itertools.combinations(range(n), k)], dtype=float)


def signed(V):
    """The same rows with all signs of their entries."""
    signs = np.array([*itertools.product([1.0, -1.0], repeat=V.shape[1])])
    return np.unique((V[:, None] * signs).reshape(-1, V.shape[1]), axis=0)


def hull_program(V):
    return {"map": V.T, "A_eq": np.ones((1, len(V))), "b_eq": [1.0]}


def permutations(n):
    return np.array([np.eye(n)[list(order)].ravel() for order in itertools.permutations(range(n))])


def product_corners(*blocks):
    return np.array([np.concatenate(rows) for rows in itertools.product(*blocks)])


def corners(A, b, C, d):
    """Vertices of {Ax <= b, Cx = d}: every choice of inequalities that, made tight, leaves one point."""
    chosen = [list(rows) for rows in itertools.combinations(range(len(A)), A.shape[1] - len(C))]
    systems = np.stack([np.vstack([C, A[rows]]) for rows in chosen])
    sides = np.stack([np.concatenate([d, b[rows]]) for rows in chosen])
    regular = np.abs(np.linalg.det(systems)) > 0.5  # the data are integers, and so is the determinant
    x = np.linalg.solve(systems[regular], sides[regular][..., None])[..., 0]
    return np.unique(x[(x @ A.T <= b + 1e-9).all(axis=1)].round(12), axis=0)


POLYTOPE = (
    np.vstack([np.ones((1, 6)), np.eye(6), -np.eye(6)]),
    np.concatenate([[2.0], np.ones(12)]),
    np.array([[1.0, -1.0, 0, 0, 0, 0]]),
    np.array([0.0]),
)

#: name -> all vertices of the polytope, one flat row each
VERTICES = {
    "l1": signed_units(2.0, 6),
    "l1-matrix": signed_units(2.0, 6),
    "simplex": np.eye(6),
    "simplex-radius": 3 * np.eye(6),
    "unit-simplex": 2 * choices([0, 1], 6),
    "hypersimplex": 1.5 * choices([2], 6),
    "unit-hypersimplex": choices([0, 1, 2, 3], 6),
    "k-sparse": signed(1.5 * choices([2], 6)),
    "k-norm": np.vstack([signed(1.5 * np.eye(6)), signed(np.full((1, 6), 0.75))]),
    # The last weight is zero: an entry more than five is free.
    "owl": np.vstack(
        [signed(choices([j], 6) * 4.0 / s) for j, s in [(1, 3.0), (2, 5.0), (3, 7.0), (4, 8.0), (6, 8.5)]]
    ),
    "permutahedron": np.unique([*itertools.permutations([2.0, -1.0, 0.0, 2.0, 1.0, -1.0])], axis=0),
    "box": box_corners([-1.0] * 6, [2.0] * 6),
    "box-arrays": box_corners(np.arange(6.0) - 4, np.arange(6.0)),
    "interval": np.array([[-1.0], [1.0]]),
    "linf": box_corners([-1.5] * 6, [1.5] * 6),
    "hull": HULL,
    "birkhoff": permutations(3),
    "birkhoff-flat": permutations(3),
    "polytope": corners(*POLYTOPE),
    "polytope-sparse": box_corners(-np.arange(1.0, 7.0), np.ones(6)),
    "scaled": -2 * np.eye(6),
    "translated": signed_units(1.0, 6) + SHIFT,
    "product": product_corners(signed_units(1.0, 2), np.eye(3), np.array([[-1.0], [1.0]])),
    "minkowski": (signed_units(1.0, 6)[:, None] + 2 * np.eye(6)).reshape(-1, 6),
    "minkowski-boxes": box_corners([-1.5] * 6, [2.5] * 6),
}

#: name -> (radius, dual norm): the minimum over the ball is minus their product
DUAL_NORMS = {
    "l2": (2.0, lambda g: np.linalg.norm(g)),
    "lp-1.5": (2.0, lambda g: np.linalg.norm(g, ord=3)),
    "lp-3": (2.0, lambda g: np.linalg.norm(g, ord=1.5)),
    "group": (2.0, lambda g: max(np.linalg.norm(g[[0, 2]]), np.linalg.norm(g[[1, 3, 4]]), abs(g[5]))),
    "group-3": (2.0, lambda g: max(np.linalg.norm(g[part], ord=1.5) for part in ([0, 1, 5], [2, 3, 4]))),
    "group-inf": (2.0, lambda g: max(np.linalg.norm(g[part], ord=1) for part in ([0, 2], [1, 3, 4], [5]))),
    "ellipsoid": (1.0, lambda g: np.linalg.norm(np.linspace(0.5, 2, 6) * (TURNED.T @ g)) - SHIFT @ g),
    "nuclear": (2.0, lambda g: scipy.linalg.svdvals(g)[0]),
    "nuclear-wide": (2.0, lambda g: scipy.linalg.svdvals(g)[0]),
}

PLANS = np.vstack([np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))]), np.array([2.0, 2, 1, 1, 2])
VERTICES["transport"] = corners(-np.eye(6), np.zeros(6), PLANS[0][:-1], PLANS[1][:-1])


def eigenvalues(g):
    return np.linalg.eigvalsh((g + g.T) / 2)


#: name -> the minimum over sets that are neither
MINIMA = {
    "spectraplex": lambda g: 2 * eigenvalues(g)[0],
    "spectrahedron": lambda g: min(0.0, 2 * eigenvalues(g)[0]),
    "fantope": lambda g: eigenvalues(g)[:2].sum(),
    "schatten": lambda g: -2 * scipy.linalg.svdvals(g).sum(),
}


def l1_program(radius, n):
    return {"map": np.hstack([np.eye(n), -np.eye(n)]), "A_ub": np.ones((1, 2 * n)), "b_ub": [radius]}


def simplex_program(radius, n, scale=1.0):
    return {"map": scale * np.eye(n), "A_eq": np.ones((1, n)), "b_eq": [radius]}


def box_program(lower, upper):
    return {"map": np.eye(len(lower)), "bounds": np.column_stack([lower, upper])}


def birkhoff_program(n):
    sums = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return {"map": np.eye(n * n), "A_eq": sums, "b_eq": np.ones(2 * n)}


#: name -> x = map @ y + offset, with y as linprog reads the rest (and non-negative unless bounds say otherwise)
PROGRAMS = {
    "l1": l1_program(2.0, 6),
    "l1-matrix": l1_program(2.0, 6),
    "simplex": simplex_program(1.0, 6),
    "simplex-radius": simplex_program(3.0, 6),
    "unit-simplex": {"map": np.eye(6), "A_ub": np.ones((1, 6)), "b_ub": [2.0]},
    "hypersimplex": {**simplex_program(3.0, 6), "bounds": (0, 1.5)},
    "unit-hypersimplex": {"map": np.eye(6), "A_ub": np.ones((1, 6)), "b_ub": [3.0], "bounds": (0, 1)},
    "k-sparse": {
        "map": np.hstack([np.eye(6), -np.eye(6)]),
        "A_ub": np.vstack([np.ones((1, 12)), np.hstack([np.eye(6), np.eye(6)])]),
        "b_ub": [3.0] + [1.5] * 6,
    },
    "k-norm": hull_program(VERTICES["k-norm"]),
    "owl": hull_program(VERTICES["owl"]),
    "permutahedron": hull_program(VERTICES["permutahedron"]),
    "box": box_program([-1.0] * 6, [2.0] * 6),
    "box-arrays": box_program(np.arange(6.0) - 4, np.arange(6.0)),
    "interval": box_program([-1.0], [1.0]),
    "linf": box_program([-1.5] * 6, [1.5] * 6),
    "hull": hull_program(HULL),
    "birkhoff": birkhoff_program(3),
    "birkhoff-flat": birkhoff_program(3),
    "polytope": {
        "map": np.eye(6),
        **dict(zip(("A_ub", "b_ub", "A_eq", "b_eq"), POLYTOPE, strict=True)),
        "bounds": (None, None),
    },
    "polytope-sparse": box_program(-np.arange(1.0, 7.0), np.ones(6)),
    "scaled": simplex_program(1.0, 6, scale=-2.0),
    "translated": {**l1_program(1.0, 6), "offset": SHIFT},
    "product": {
        "map": scipy.linalg.block_diag(np.hstack([np.eye(2), -np.eye(2)]), np.eye(3), [[1.0]]),
        "A_ub": np.array([[1.0, 1, 1, 1, 0, 0, 0, 0]]),
        "b_ub": [1.0],
        "A_eq": np.array([[0.0, 0, 0, 0, 1, 1, 1, 0]]),
        "b_eq": [1.0],
        "bounds": [(0, None)] * 7 + [(-1, 1)],
    },
    "minkowski": {
        "map": np.hstack([np.eye(6), -np.eye(6), np.eye(6)]),
        "A_ub": np.repeat([[1.0, 0.0]], [12, 6], axis=1),
        "b_ub": [1.0],
        "A_eq": np.repeat([[0.0, 1.0]], [12, 6], axis=1),
        "b_eq": [2.0],
    },
    "minkowski-boxes": box_program([-1.5] * 6, [2.5] * 6),
    "transport": {"map": np.eye(6), "A_eq": PLANS[0], "b_eq": PLANS[1]},
}

#: name -> what to make of a random gradient
GRADIENTS = {
    "random": lambda g: g,
    "sparse": lambda g: np.where(np.abs(g) > 0.8, g, 0.0),
    "tied": np.sign,
    "rounded": np.round,
    "constant": np.ones_like,
    "zero": np.zeros_like,
    "huge": lambda g: 1e150 * g,
    "tiny": lambda g: 1e-150 * g,
    "float32": lambda g: g.astype(np.float32),
    "float32-huge": lambda g: (1e15 * g).astype(np.float32),
    "float32-tiny": lambda g: (1e-15 * g).astype(np.float32),
}

every_set = pytest.mark.parametrize("name", SETS)
every_polytope = pytest.mark.parametrize("name", VERTICES)
every_ball = pytest.mark.parametrize("name", DUAL_NORMS)
every_gradient = pytest.mark.parametrize("kind", GRADIENTS)


def gradient(kind, shape, seed=3):
    g = GRADIENTS[kind](np.random.default_rng(seed).standard_normal(shape))
    g.flags.writeable = False  # an oracle that writes into its question raises
    return g


def scale_of(g):
    return float(np.abs(g).max()) or 1.0


def reach(name):
    """The largest sum of absolute entries of a member, or a bound on it."""
    return np.abs(VERTICES[name]).sum(axis=1).max() if name in VERTICES else 2.0 * math.prod(SETS[name][1])


def rounding(name, g):
    """What the dtype leaves uncertain in <g, s>: an ulp or so of every entry of g and of s."""
    return 4 * eps(g.dtype) * scale_of(g) * reach(name)


def best(name, g):
    """The minimum of <g, x> over the set, by comparing all vertices or from the dual norm."""
    scale = scale_of(g)
    g = g.astype(np.float64) / scale  # the norms here square their argument
    if name in VERTICES:
        return scale * float((VERTICES[name] @ g.ravel()).min())
    if name in MINIMA:
        return scale * float(MINIMA[name](g))
    radius, dual_norm = DUAL_NORMS[name]
    return -scale * radius * float(dual_norm(g))


def value(s, g):
    return float(np.vdot(np.asarray(s, dtype=np.float64), g.astype(np.float64)))


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


@every_set
def test_start_is_a_member_of_the_right_shape(name):
    constraint, shape = SETS[name]
    for dtype in (np.float64, np.float32):
        start = constraint.start(shape, dtype)
        assert start.shape == shape
        assert start.dtype == dtype
        assert constraint.contains(start, tol=max(1e-9, 10 * eps(dtype)))
        np.testing.assert_array_equal(np.asarray(start), np.asarray(constraint.start(shape, dtype)))


STARTS = {
    "spectraplex": np.full(16, 0.5),
    "fantope": np.eye(4).ravel() / 2,
    "transport": np.tile([0.5, 0.5, 1.0], 2),
}


@every_set
def test_start_is_where_the_documentation_says(name):
    constraint, shape = SETS[name]
    start = np.asarray(constraint.start(shape)).ravel()
    if name in STARTS:
        np.testing.assert_allclose(start, STARTS[name], rtol=0, atol=8 * EPS)
        return
    if name.startswith("polytope"):  # some vertex
        assert np.abs(VERTICES[name] - start).max(axis=1).min() <= HIGHS
        return
    if name.startswith("unit-"):
        half = 0.5 * (VERTICES[name].sum(axis=1).max() / start.size)
        np.testing.assert_allclose(start, half, rtol=4 * EPS)
        return
    # Zero, the barycentre, the centre, the mean of the vertices: for all these sets one and the same.
    mean = VERTICES[name].mean(axis=0) if name in VERTICES else SHIFT if name == "ellipsoid" else np.zeros(start.size)
    np.testing.assert_allclose(start, mean, rtol=0, atol=8 * EPS)


@every_set
def test_start_without_a_shape_works_or_says_what_is_missing(name):
    constraint, _ = SETS[name]
    if getattr(constraint, "shape", None):
        assert constraint.start().shape == constraint.shape
    elif name != "scaled":
        with pytest.raises(ValueError, match="shape is needed"):
            constraint.start()


@every_set
def test_contains_mixtures_of_vertices(name):
    constraint, shape = SETS[name]
    rng = np.random.default_rng(5)
    members = [np.asarray(constraint.lmo(rng.standard_normal(shape))) for _ in range(8)]
    for _ in range(5):
        assert constraint.contains(np.tensordot(rng.dirichlet(np.ones(8)), members, 1)) is True


@every_set
def test_contains_up_to_the_tolerance_and_no_further(name):
    constraint, shape = SETS[name]
    for seed in range(5):
        g = gradient("random", shape, seed)
        s = np.asarray(constraint.lmo(g))
        outward = -g / np.linalg.norm(g)  # every member x has <g, x> >= <g, s>, so this way lies no other
        assert constraint.contains(s + 1e-12 * outward) is True
        assert constraint.contains(s + 1e-4 * outward) is False
        assert constraint.contains(s + 1e-4 * outward, tol=1e-2) is True
        assert constraint.contains(s + outward, tol=1e-2) is False


@pytest.mark.parametrize(
    ("constraint", "outside"),
    [
        (fw.Simplex(), [0.5, 0.5, 0.5]),
        (fw.Simplex(), [0.2, 0.2, 0.2]),
        (fw.Simplex(), [1.5, -0.5, 0.0]),
        (fw.Box(-1.0, 2.0), [0.0, -1.1, 0.0]),
        (fw.Box(-1.0, 2.0), [0.0, 2.1, 0.0]),
        (fw.Birkhoff(2), [[1.0, 0.0], [1.0, 0.0]]),
        (fw.Birkhoff(2), [[1.0, 1.0], [0.0, 0.0]]),
        (fw.Birkhoff(2), [[2.0, -1.0], [-1.0, 2.0]]),
        (fw.Polytope(n=2, lower=0.0, upper=1.0), [0.5, 1.1]),
        (fw.Polytope(n=2, lower=0.0, upper=1.0), [-0.1, 0.5]),
        (fw.Polytope([[1.0, 1.0]], [1.0], lower=0.0), [0.6, 0.6]),
        (fw.Polytope(C=[[1.0, -1.0]], d=[0.0], lower=0.0, upper=1.0), [0.6, 0.4]),
        (fw.Polytope(C=[[1.0, -1.0]], d=[0.0], lower=0.0, upper=1.0), [0.4, 0.6]),
        (fw.NuclearBall(1.0), np.diag([0.6, 0.6])),
        (fw.NuclearBall(1.0), LowRank.from_factors(np.eye(2), 0.6 * np.eye(2))),
        (2.0 * fw.NuclearBall(0.5), LowRank.from_factors(np.eye(2), 0.6 * np.eye(2))),
        (fw.NuclearBall(1.0) + np.eye(2), np.zeros((2, 2))),
    ],
)
def test_contains_checks_each_condition(constraint, outside):
    assert constraint.contains(outside) is False


def test_contains_reads_low_rank_matrices():
    x = LowRank.from_factors(np.eye(3)[:, :2], np.array([[0.4, 0.0], [0.0, 0.6]]))
    assert fw.NuclearBall(1.0).contains(x) is True
    assert (-2.0 * fw.NuclearBall(0.5)).contains(x) is True
    assert fw.L1Ball(1.0).contains(x) is True
    assert fw.L1Ball(0.9).contains(x) is False


@every_set
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_contains_no_point_that_is_not_finite(name, bad):
    constraint, shape = SETS[name]
    x = np.array(constraint.start(shape))
    x.flat[-1] = bad
    assert constraint.contains(x) is False


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize(
    "make",
    [
        fw.L1Ball,
        fw.LInfBall,
        fw.L2Ball,
        fw.Simplex,
        lambda r: fw.Box(-r, r),
        lambda r: fw.ConvexHull(r * np.eye(3)),
        lambda r: r * fw.Box(-1.0, 1.0),
    ],
    ids=["l1", "linf", "l2", "simplex", "box", "hull", "scaled"],
)
def test_membership_is_relative_to_the_size_of_the_set(make, size):
    constraint = make(size)
    x = size * np.array([0.0, 0.0, 1.0])
    assert constraint.contains(x) is True
    assert constraint.contains(1.001 * x) is False


@every_polytope
def test_diameter_against_all_pairs_of_vertices(name):
    constraint, shape = SETS[name]
    V = VERTICES[name]
    exact = np.linalg.norm(V[:, None] - V[None], axis=2).max()
    if isinstance(constraint, fw.Polytope):  # documented as that of the bounding box
        assert constraint.diameter(shape) >= exact - HIGHS
        exact = np.linalg.norm(np.ptp(V, axis=0))
    if name == "minkowski":  # documented as the sum of the diameters
        assert constraint.diameter(shape) >= exact
        exact = 2.0 + 2 * 2**0.5
    assert constraint.diameter(shape) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0, 3.0, 10.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_diameter_of_lp_balls(p, n):
    # The ball is symmetric, so the diameter is twice its longest member: a unit vector or one with equal entries.
    candidates = [d for d in itertools.product([0.0, 1.0], repeat=n) if any(d)]
    candidates += [*np.random.default_rng(0).standard_normal((50, n))]
    longest = max(np.linalg.norm(d) / np.linalg.norm(d, ord=p) for d in map(np.array, candidates))
    assert fw.LpBall(p, 1.5).diameter((n,)) == pytest.approx(2 * 1.5 * longest, rel=1e-12)


def test_diameter_of_the_nuclear_ball():
    constraint, g = fw.NuclearBall(1.5), gradient("random", (4, 3))
    apart = np.linalg.norm(np.asarray(constraint.lmo(g)) - np.asarray(constraint.lmo(-g)))
    assert constraint.diameter((4, 3)) == pytest.approx(apart, rel=1e-12)


def test_diameter_of_a_single_point_is_zero():
    singles = [(fw.Simplex(2.0), (1,)), (fw.Birkhoff(1), (1, 1)), (fw.ConvexHull([[1.0, 2.0]]), None)]
    assert [constraint.diameter(shape) for constraint, shape in singles] == [0.0, 0.0, 0.0]


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


def with_singular_values(sigma, rows, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, len(sigma))))[0] for n in (rows, len(sigma)))
    return (U * sigma) @ V.T, U, V


def as_sampled(G):
    csr = sp.csr_array(G)
    return Sampled(csr.data, csr.indices, csr.indptr, csr.shape).question()


REPRESENTATIONS = {"dense": np.asarray, "csr": sp.csr_array, "csc": sp.csc_array, "sampled": as_sampled}


@pytest.mark.parametrize("kind", REPRESENTATIONS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (5, 5), (30, 20), (20, 30), (60, 50), (3, 200)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nuclear_oracle_matches_a_dense_svd(kind, shape, dtype):
    G = GRADIENTS["sparse"](np.random.default_rng(1).standard_normal(shape)).astype(dtype)
    G.flat[0] = 3.0  # a single entry must not be dropped to zero
    g, constraint = REPRESENTATIONS[kind](G), fw.NuclearBall(2.0)
    s = constraint.lmo(g)
    # Errors of the vectors enter the value squared; a residual of 1e-9 and rounding remain.
    slack = max(1e-9, 4 * max(shape) * eps(dtype))
    exact = -2.0 * scipy.linalg.svdvals(G.astype(float))[0]
    assert s.shape == shape
    assert s.u.dtype == s.v.dtype == dtype
    assert value(s, G) == pytest.approx(exact, rel=slack)
    assert s.dot(g) == pytest.approx(exact, rel=slack)
    assert np.linalg.norm(s.u) == pytest.approx(1, rel=slack)
    assert np.linalg.norm(s.v) == pytest.approx(1, rel=slack)
    bound = constraint.lower_bound(g, s)
    assert exact * (1 + 1e-6) <= bound <= exact * (1 - slack)


@pytest.mark.parametrize("kind", REPRESENTATIONS)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (1, 1)])
def test_nuclear_oracle_at_zero(kind, shape):
    g, constraint = REPRESENTATIONS[kind](np.zeros(shape)), fw.NuclearBall(2.0)
    hint = constraint.lmo(np.random.default_rng(0).standard_normal(shape))
    for s in (constraint.lmo(g), constraint.lmo(g, hint)):
        assert constraint.contains(np.asarray(s))
        assert scipy.linalg.svdvals(np.asarray(s))[0] == pytest.approx(2.0)
        assert s.dot(g) == constraint.lower_bound(g, s) == 0
    np.testing.assert_array_equal(np.asarray(constraint.lmo(g)), np.asarray(constraint.lmo(g, hint)))


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_nuclear_oracle_on_rank_deficient_gradients(rank):
    G = with_singular_values(np.r_[np.arange(rank, 0, -1.0), np.zeros(20 - rank)], 30)[0]
    constraint = fw.NuclearBall()
    for g in (G, G.T, sp.csr_array(G)):
        s = constraint.lmo(g)
        assert s.dot(g) == pytest.approx(-rank, rel=1e-9)
        assert -rank * (1 + 1e-6) <= constraint.lower_bound(g, s) <= -rank * (1 - 1e-13)


def test_nuclear_oracle_takes_a_warm_hint():
    G, U, V = with_singular_values(np.r_[3.0, np.linspace(2, 0.1, 59)], 80)
    near = G + 1e-3 * np.random.default_rng(4).standard_normal(G.shape)
    exact, constraint = -scipy.linalg.svdvals(near)[0], fw.NuclearBall(steps=2)
    # The hint is within 0.02 of the new vector, and that enters the value squared.
    assert constraint.lmo(near, constraint.lmo(G)).dot(near) == pytest.approx(exact, rel=4e-4)
    elsewhere = RankOne(U[:, -1], V[:, -1], -1.0)
    assert constraint.lmo(near, elsewhere).dot(near) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nuclear_oracle_escapes_a_hint_orthogonal_to_the_new_leading_vector(wide, dtype):
    G, U, V = with_singular_values(np.r_[2.0, np.ones(59)], 80)
    G, U, V = (M.astype(dtype) for M in (G, U, V))
    hint = RankOne(U[:, 1], V[:, 1], -1.0)
    if wide:
        G, hint = np.ascontiguousarray(G.T), RankOne(hint.v, hint.u, -1.0)
    # Only two distinct eigenvalues: two steps reach the leading vector from any start that has a trace of it.
    # A trace of 1e-3 multiplies rounding by 1e3 in the vector, and enters the value squared.
    assert fw.NuclearBall().lmo(G, hint).dot(G) == pytest.approx(-2, rel=max(1e-9, 80 * eps(dtype)))


def test_nuclear_oracle_ignores_hints_that_do_not_fit():
    g = gradient("random", (5, 4))
    constraint = fw.NuclearBall()
    cold = np.asarray(constraint.lmo(g))
    for hint in (RankOne(np.ones(4), np.ones(5), 1.0), OneHot(0, 1.0, (5, 4))):
        np.testing.assert_array_equal(np.asarray(constraint.lmo(g, hint)), cold)


@pytest.mark.parametrize("width", [0.0, 1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("cluster", [2, 30, 60])
def test_nuclear_oracle_on_clustered_singular_values(cluster, width):
    sigma = np.r_[np.linspace(1, 1 - width, cluster), np.linspace(0.5, 0.1, 60 - cluster)]
    G, U, V = with_singular_values(sigma, 80)
    constraint = fw.NuclearBall()
    outsider = RankOne(U[:, -1], V[:, -1], -1.0)
    for s in (constraint.lmo(G), constraint.lmo(G, outsider)):
        # Any vector of the cluster will do; ten steps from outside of it leave a share of the rest.
        assert s.dot(G) <= -(1 - width) * (1 - 1e-5)
        assert -(1 + 80 * EPS) <= constraint.lower_bound(G, s) <= -(1 - 80 * EPS)


class Counted:
    """A matrix that counts the products made with it and with its transpose."""

    ndim = 2

    def __init__(self, matrix, products=None):
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype
        self.products = [0] if products is None else products

    @property
    def T(self):
        return Counted(self.matrix.T, self.products)

    def __matmul__(self, other):
        self.products[0] += 1
        return self.matrix @ other


SPECTRA = {
    "flat": np.ones(120),
    "crowded": np.linspace(1 + 1e-3, 1, 120),
    "separated": np.r_[10.0, np.linspace(1, 0.1, 119)],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_nuclear_oracle_does_a_bounded_number_of_products(spectrum, dtype):
    G = with_singular_values(SPECTRA[spectrum], 150)[0].astype(dtype)
    constraint, counted = fw.NuclearBall(steps=7), Counted(G)
    hint = constraint.lmo(counted)
    # Two products a step and two besides, for the left vector and the scale. A step for every dimension at most;
    # a separated leading value needs few.
    assert counted.products[0] <= 2 * (120 if spectrum == "crowded" else 40) + 2
    for matrix, vertex in ((G, hint), (G.T, RankOne(hint.v, hint.u, -1.0))):
        counted = Counted(matrix)
        constraint.lmo(counted, vertex)
        assert counted.products[0] <= 2 * 7 + 2


@pytest.mark.parametrize("shape", [(200, 3), (3, 200)])
def test_nuclear_oracle_works_on_the_smaller_side(shape):
    counted = Counted(np.random.default_rng(3).standard_normal(shape))
    fw.NuclearBall().lmo(counted)
    assert counted.products[0] <= 2 * 3 + 2  # three steps span three dimensions


def test_nuclear_oracle_goes_on_until_it_has_converged():
    # Forty steps stop 1e-4 short here.
    G = with_singular_values(np.r_[1.001, np.linspace(1, 0, 399)], 450)[0]
    assert fw.NuclearBall().lmo(G).dot(G) == pytest.approx(-1.001, rel=1e-9)


@pytest.fixture(params=["dense", "lanczos"])
def proof(request, monkeypatch):
    if request.param == "lanczos":
        monkeypatch.setattr(lanczos, "_GRAM_LIMIT", 0)
    return request.param


@pytest.mark.parametrize("quality", [1.0, 1 - 1e-9, 1 - 1e-5, 1 - 1e-3, 0.5, 0.0])
@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (40, 30), (30, 40)])
def test_spectral_bound_holds_however_bad_the_guess(proof, quality, kind, shape):
    G = np.random.default_rng(2).standard_normal(shape)
    exact = scipy.linalg.svdvals(G)[0]
    bound = lanczos.spectral_bound(REPRESENTATIONS[kind](G), quality * exact)
    n = min(shape)
    assert bound >= exact * (1 - 8 * n * EPS)
    assert bound <= exact * (1 + 8 * n * EPS)  # Lanczos steps, too: as many as there are dimensions


def test_spectral_bound_of_zero_is_zero(proof):
    for G in (np.zeros((4, 3)), sp.csr_array((4, 3))):
        assert lanczos.spectral_bound(G, 0.0) == 0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_spectral_bound_of_huge_and_tiny_matrices(proof, scale):
    G = np.diag([1.0, 2.0, 3.0])
    bound = lanczos.spectral_bound(scale * G, scale * 2.9)
    assert 3 * (1 - 8 * EPS) <= bound / scale <= 3.1


def test_spectral_bound_holds_where_lanczos_has_not_converged(monkeypatch):
    monkeypatch.setattr(lanczos, "_GRAM_LIMIT", 0)
    # Eigenvalues crowd towards 4 like those of a long path: 300 steps stop short of the largest one. Before they are
    # taken, they are known to come this close with a chance of 1 - 1e-10 (Kuczynski & Wozniakowski, 1992).
    n = 1000
    sigma = np.sqrt(2 + 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1)))
    epsilon = (math.log(1.648 * math.sqrt(n) / 1e-10) / 599) ** 2
    bound = lanczos.spectral_bound(sp.diags_array(sigma).tocsr(), 0.0)
    assert sigma[0] <= bound <= sigma[0] / math.sqrt(1 - epsilon)


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


def test_a_callable_gives_the_run_of_the_set_that_it_stands_for():
    f = fw.Quadratic(np.diag([1.0, 2.0, 3.0]), [1.0, -1.0, 2.0])
    named = fw.minimize(f, fw.L2Ball(0.5), np.zeros(3), method="rk44", max_iter=20, tol=0)
    plain = fw.minimize(f, lambda g: -0.5 * g / np.linalg.norm(g), np.zeros(3), method="rk44", max_iter=20, tol=0)
    np.testing.assert_allclose(plain.x, named.x, rtol=0, atol=100 * EPS)
    assert plain.gap == pytest.approx(named.gap, rel=1e-9)
    assert plain.feasible is None


def test_a_callable_may_return_lists_and_vertices():
    f = fw.Quadratic(np.eye(2), [2.0, 0.0])
    simplex = fw.Simplex()
    answers = [
        fw.minimize(f, oracle, max_iter=5).x
        for oracle in (simplex, simplex.lmo, lambda g: [float(g[0] <= g[1]), float(g[0] > g[1])])
    ]
    for x in answers:
        np.testing.assert_array_equal(x, [1.0, 0.0])


def test_a_callable_may_reuse_its_buffer():
    f = fw.Quadratic(np.eye(3), [0.3, 0.2, -0.1])
    buffer = np.zeros(3)

    def oracle(g):
        buffer[:] = np.where(g > 0, -1.0, 1.0)
        return buffer

    reused = fw.minimize(f, oracle, np.zeros(3), method="rk44", momentum="nesterov", max_iter=10, tol=0)
    fresh = fw.minimize(
        f, lambda g: oracle(g).copy(), np.zeros(3), method="rk44", momentum="nesterov", max_iter=10, tol=0
    )
    np.testing.assert_array_equal(reused.x, fresh.x)


@pytest.mark.parametrize("answer", [np.zeros(2), np.zeros((3, 1)), 1.0, np.zeros((1, 3)), OneHot(0, 1.0, (7,))])
@pytest.mark.parametrize("x0", [None, np.zeros(3)])
def test_a_callable_that_returns_a_wrong_shape_is_named(answer, x0):
    with pytest.raises(ValueError, match=r"constraint returned shape .* for a gradient of shape"):
        fw.minimize(fw.Quadratic(np.eye(3), np.ones(3)), lambda g: answer, x0, max_iter=3)


def test_a_callable_starts_at_its_answer_to_ones():
    constraint = CallableSet(lambda g: -g)
    np.testing.assert_array_equal(constraint.start((2, 3)), -np.ones((2, 3)))
    assert constraint.start((2,), np.float32).dtype == np.float32
    assert constraint.contains(np.zeros(2)) is None
    with pytest.raises(ValueError, match="shape is needed"):
        constraint.start()
    assert constraint.diameter() is None


def test_a_callable_keeps_float32():
    vertex = CallableSet(lambda g: g.astype(np.float64)).lmo(gradient("float32", (3,)))
    assert np.asarray(vertex).dtype == np.float32


NESTED = {
    "scaled translated": (
        -0.5 * (fw.L1Ball(2.0) + np.array([1.0, -2.0, 3.0])),
        -0.5 * (signed_units(2.0, 3) + np.array([1, -2, 3])),
    ),
    "translated scaled": (-3.0 * fw.Simplex(2.0) + np.array([1.0, 0.0, -1.0]), -6 * np.eye(3) + np.array([1, 0, -1])),
    "scaled twice": (-2.0 * (-1.5 * fw.Simplex()) * 0.5, 1.5 * np.eye(3)),
    "product": (
        fw.Product([(fw.Birkhoff(2), 4), (-2.0 * fw.Simplex(), 3), (fw.L1Ball() + np.array([1.0, 2.0]), 2)]),
        product_corners(permutations(2), -2 * np.eye(3), signed_units(1.0, 2) + np.array([1, 2])),
    ),
    "product of products": (
        2.0 * fw.Product([(fw.Product([(fw.Simplex(), 2), (fw.Box(0.0, 1.0), 1)]), 3), (fw.L1Ball(), 2)])
        + np.arange(5.0),
        2 * product_corners(np.eye(2), np.array([[0.0], [1.0]]), signed_units(1.0, 2)) + np.arange(5),
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_combinators_are_the_hull_of_their_vertices(name):
    constraint, V = NESTED[name]
    hull, shape = fw.ConvexHull(V), V.shape[1:]
    rng = np.random.default_rng(6)
    for g in rng.standard_normal((10, *shape)):
        s = constraint.lmo(g)
        slack = 8 * EPS * np.abs(g).max() * np.abs(V).sum(axis=1).max()
        np.testing.assert_allclose(np.asarray(s), np.asarray(hull.lmo(g)), rtol=0, atol=8 * EPS * np.abs(V).max())
        assert constraint.lower_bound(g, s) == pytest.approx((V @ g).min(), rel=0, abs=slack)
        assert constraint.contains(rng.dirichlet(np.ones(len(V))) @ V)
        assert not constraint.contains(np.asarray(s) - 1e-3 * g)
    assert constraint.diameter(shape) == pytest.approx(hull.diameter(), rel=1e-12)
    np.testing.assert_allclose(constraint.start(shape), V.mean(axis=0), rtol=0, atol=8 * EPS * np.abs(V).max())


class Remembering(fw.L1Ball):
    """An L1 ball that keeps the last hint."""

    hint = "none yet"

    def lmo(self, g, hint=None):
        self.hint = hint
        return super().lmo(g)


@pytest.mark.parametrize(
    "combine",
    [
        lambda C: -2.0 * C,
        lambda C: C + np.ones(3),
        lambda C: fw.Product([(fw.L1Ball(), 1), (C, 2)]),
        lambda C: 3.0 * (2.0 * C + np.ones(3)),
    ],
    ids=["scaled", "translated", "product", "nested"],
)
def test_combinators_hand_the_hint_on(combine):
    inner = Remembering(1.5)
    constraint = combine(inner)
    first = constraint.lmo(np.array([1.0, -2.0, 3.0]))
    assert inner.hint is None
    constraint.lmo(np.array([1.0, -2.0, 2.5]), first)
    assert isinstance(inner.hint, OneHot)
    assert abs(inner.hint.value) == 1.5


def test_membership_of_a_product_with_a_callable():
    constraint = fw.Product([(CallableSet(lambda g: g), 2), (fw.L1Ball(), 1)])
    assert constraint.contains(np.zeros(3)) is None
    assert constraint.contains(np.array([0.0, 0.0, 2.0])) is False


def completion():
    rng = np.random.default_rng(9)
    rows, cols = np.divmod(rng.choice(30, 18, replace=False), 5)
    return fw.MatrixCompletion(rows, cols, rng.standard_normal(18), (6, 5), loss="squared")


@pytest.mark.parametrize(
    "constraint", [2.0 * fw.NuclearBall(0.75), -1.5 * fw.NuclearBall(), 3.0 * (0.5 * fw.NuclearBall())]
)
def test_matrix_completion_over_a_scaled_nuclear_ball(constraint):
    scaled = fw.minimize(completion(), constraint, line_search="exact", tol=1e-4)
    plain = fw.minimize(completion(), fw.NuclearBall(1.5), line_search="exact", tol=1e-4)
    assert scaled.success
    assert scaled.fun == pytest.approx(plain.fun, rel=0, abs=2e-4)  # both within their gaps of the minimum


@pytest.mark.parametrize(
    ("wrap", "as_its_own"),
    [(lambda C: C, lambda v: v), (lambda C: -2.0 * (0.5 * C), lambda v: v.scaled(0.5).scaled(-2.0))],
    ids=["plain", "scaled"],
)
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_the_smaller_the_gap_the_more_exact_the_nuclear_oracle(wrap, as_its_own, shape):
    rng = np.random.default_rng(0)
    left, right = (
        np.linalg.qr(rng.standard_normal((shape[0], 30)))[0],
        np.linalg.qr(rng.standard_normal((shape[1], 30)))[0],
    )
    G = (left * np.linspace(1.0, 0.9, 30)) @ right.T  # clustered, so that few steps do not tell
    hint = as_its_own(RankOne(left[:, -1], right[:, -1], 1.0))
    C = wrap(fw.NuclearBall(3.0, steps=4))
    few = -C.lmo(G, hint).dot(G)  # what a bounded number of steps finds of the 3 that there are
    found = [-C.lmo_at(G, gap - few, hint).dot(G) for gap in (10.0, 1e-1, 1e-2, 1e-3)]
    assert found[0] == pytest.approx(few)
    assert (np.diff(found) >= -1e-12).all()
    assert 3 - found[-1] < (3 - few) / 2
    # It stops where the steps last taken change the gap by a few per cent.
    assert found[1] < found[-1]


def test_matrix_completion_hands_hints_to_a_scaled_nuclear_ball():
    hints = []

    class Watched(fw.NuclearBall):
        def lmo(self, g, hint=None):
            hints.append(hint)
            return super().lmo(g, hint)

    fw.minimize(completion(), 2.0 * Watched(), method="rk44", max_iter=4, tol=0)
    assert any(isinstance(hint, RankOne) for hint in hints)


@pytest.mark.parametrize(
    "constraint",
    [fw.L1Ball(), fw.L2Ball(), fw.Box(-1.0, 1.0), fw.NuclearBall() + np.zeros((6, 5)), lambda g: np.zeros((6, 5))],
    ids=["l1", "l2", "box", "translated", "callable"],
)
def test_matrix_completion_says_that_it_needs_rank_one_vertices(constraint):
    with pytest.raises(ValueError, match="rank-one"):
        fw.minimize(completion(), constraint, max_iter=3)


def square():
    return fw.Smooth(lambda x: float(np.vdot(x, x)), lambda x: 2 * x)


@pytest.mark.parametrize("name", [n for n, (constraint, _) in SETS.items() if getattr(constraint, "shape", None)])
@pytest.mark.parametrize("extra", [-1, 1])
def test_x0_of_another_length_is_named(name, extra):
    constraint, shape = SETS[name]
    start = np.asarray(constraint.start(shape)).ravel()
    x0 = start[:-1] if extra < 0 else np.append(start, 0.0)
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(square(), constraint, x0, max_iter=3)


def test_x0_that_is_no_matrix_is_named():
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(square(), fw.NuclearBall(), np.zeros(3), max_iter=3)


def test_a_box_of_numbers_does_not_know_the_dimension():
    with pytest.raises(ValueError, match="x0 is needed"):
        fw.minimize(square(), fw.Box(-1.0, 1.0), max_iter=3)


@pytest.mark.parametrize(
    "radius", [0, -1.0, np.nan, np.inf, -np.inf, None, "wide", [1.0, 2.0], 1j, pytest.param(10**400, id="10**400")]
)
@pytest.mark.parametrize(
    "make", [fw.L1Ball, fw.L2Ball, fw.LInfBall, fw.Simplex, fw.NuclearBall, lambda radius: fw.LpBall(3.0, radius)]
)
def test_radius_must_be_positive_and_finite(make, radius):
    with pytest.raises(ValueError, match="radius must be a positive finite number; got"):
        make(radius)


TWO_COLUMNS = np.ones((1, 2))

INVALID = {
    "p=1": (lambda: fw.LpBall(1.0), "p must"),
    "p<1": (lambda: fw.LpBall(0.5), "p must"),
    "p=inf": (lambda: fw.LpBall(np.inf), "p must"),
    "p=nan": (lambda: fw.LpBall(np.nan), "p must"),
    "p text": (lambda: fw.LpBall("two"), "p must"),
    "steps=0": (lambda: fw.NuclearBall(steps=0), "steps must"),
    "steps=nan": (lambda: fw.NuclearBall(steps=np.nan), "steps must"),
    "lower>upper": (lambda: fw.Box(1.0, 0.0), "lower must not exceed upper"),
    "lower>upper once": (lambda: fw.Box([0.0, 2.0], [1.0, 1.0]), "lower must not exceed upper"),
    "lower nan": (lambda: fw.Box(np.nan, 1.0), "lower must be finite"),
    "lower inf": (lambda: fw.Box(-np.inf, 1.0), "lower must be finite"),
    "upper inf": (lambda: fw.Box(0.0, [1.0, np.inf]), "upper must be finite"),
    "upper text": (lambda: fw.Box(0.0, "one"), "upper must be an array"),
    "bounds' shapes": (lambda: fw.Box(np.zeros(2), np.ones(3)), r"lower has shape \(2,\), upper has \(3,\)"),
    "n=0": (lambda: fw.Birkhoff(0), "n must be a positive integer"),
    "n=2.5": (lambda: fw.Birkhoff(2.5), "n must be a positive integer"),
    "n=nan": (lambda: fw.Birkhoff(np.nan), "n must be a positive integer"),
    "n=inf": (lambda: fw.Birkhoff(np.inf), "n must be a positive integer"),
    "no vertices": (lambda: fw.ConvexHull(np.zeros((0, 2))), "vertices is empty"),
    "no coordinates": (lambda: fw.ConvexHull(np.zeros((2, 0))), "vertices is empty"),
    "flat vertices": (lambda: fw.ConvexHull([1.0, 2.0]), "vertices must have 2 dimension"),
    "ragged vertices": (lambda: fw.ConvexHull([[1.0, 2.0], [3.0]]), "vertices must be an array"),
    "vertices nan": (lambda: fw.ConvexHull([[1.0, np.nan]]), "vertices must be finite"),
    "factor=0": (lambda: 0.0 * fw.L1Ball(), "factor must"),
    "factor=nan": (lambda: np.nan * fw.L1Ball(), "factor must"),
    "factor=inf": (lambda: fw.L1Ball() * np.inf, "factor must"),
    "factor text": (lambda: fw.ScaledSet(fw.L1Ball(), "two"), "factor must"),
    "shift nan": (lambda: fw.L1Ball() + np.array([0.0, np.nan]), "shift must be finite"),
    "shift a set": (lambda: fw.L1Ball() + fw.L1Ball(), "shift must be an array"),
    "shift a number": (lambda: fw.L1Ball() + 1.0, "shift must"),
    "no blocks": (lambda: fw.Product([]), "blocks is empty"),
    "block length 0": (lambda: fw.Product([(fw.L1Ball(), 0)]), "blocks must"),
    "block length 2.5": (lambda: fw.Product([(fw.L1Ball(), 2.5)]), "blocks must"),
    "block no set": (lambda: fw.Product([(np.ones(2), 2)]), "blocks must"),
    "block no pair": (lambda: fw.Product([fw.L1Ball()]), "blocks must"),
    "block too long": (lambda: fw.Product([(fw.ConvexHull(np.eye(2)), 3)]), "blocks must"),
    "A without b": (lambda: fw.Polytope(TWO_COLUMNS), "A and b go together"),
    "d without C": (lambda: fw.Polytope(TWO_COLUMNS, [1.0], d=[1.0]), "C and d go together"),
    "A and b": (lambda: fw.Polytope(TWO_COLUMNS, [1.0, 2.0]), "A has 1 rows and b has 2 entries"),
    "C and d": (lambda: fw.Polytope(C=TWO_COLUMNS, d=[1.0, 2.0]), "C has 1 rows and d has 2 entries"),
    "A flat": (lambda: fw.Polytope([1.0, 1.0], [1.0]), "A must have 2 dimension"),
    "b inf": (lambda: fw.Polytope(TWO_COLUMNS, [np.inf]), "b must be finite"),
    "A nan": (lambda: fw.Polytope(np.nan * TWO_COLUMNS, [1.0]), "A must be finite"),
    "sparse A nan": (lambda: fw.Polytope(sp.csr_array(np.nan * TWO_COLUMNS), [1.0]), r"\bA must be finite"),
    "sparse C complex": (lambda: fw.Polytope(C=sp.csr_array(1j * TWO_COLUMNS), d=[1.0]), r"\bC must"),
    "A and C": (lambda: fw.Polytope(TWO_COLUMNS, [1.0], np.ones((1, 3)), [1.0]), r"must agree.*\[2, 3\]"),
    "A and lower": (lambda: fw.Polytope(TWO_COLUMNS, [1.0], lower=np.zeros(3)), r"must agree.*\[2, 3\]"),
    "no dimension": (lambda: fw.Polytope(lower=0.0, upper=1.0), r"\bn\b.*must agree"),
    "polytope n=0": (lambda: fw.Polytope(n=0, lower=0.0, upper=1.0), r"\bn\b"),
    "polytope n=-1": (lambda: fw.Polytope(n=-1, lower=0.0, upper=1.0), r"\bn\b"),
    "polytope n=2.5": (lambda: fw.Polytope(n=2.5, lower=0.0, upper=1.0), r"\bn\b"),
    "polytope lower nan": (lambda: fw.Polytope(n=2, lower=np.nan), "lower and upper must not be NaN"),
    "polytope lower a matrix": (lambda: fw.Polytope(lower=np.zeros((2, 3)), upper=1.0), "lower"),
    "empty by bounds": (lambda: fw.Polytope(n=2, lower=1.0, upper=0.0), "lower, upper describe an empty set"),
    "empty by rows": (lambda: fw.Polytope(TWO_COLUMNS, [-1.0], lower=0.0), "A, b, .* describe an empty set"),
    "empty by C": (lambda: fw.Polytope(C=TWO_COLUMNS, d=[3.0], lower=0.0, upper=1.0), "describe an empty set"),
    "nuclear start": (lambda: fw.NuclearBall().start((3,)), "shape must have two entries"),
    "nuclear gradient": (lambda: fw.NuclearBall().lmo(np.ones(3)), "g must be a matrix"),
    "birkhoff start": (lambda: fw.Birkhoff(3).start((4,)), "shape"),
}


@pytest.mark.parametrize("case", INVALID)
def test_errors_name_the_argument(case):
    call, message = INVALID[case]
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(
    "constraint",
    [
        fw.Polytope(n=2),
        fw.Polytope(n=2, lower=0.0),
        fw.Polytope(-TWO_COLUMNS, [1.0]),
        fw.Polytope(C=[[1.0, -1.0]], d=[0.0], lower=0.0),
        fw.Polytope([[1.0, -1.0], [-1.0, 1.0]], [1.0, 1.0]),
    ],
    ids=["free", "orthant", "half-plane", "ray", "strip"],
)
def test_unbounded_polytopes_are_refused_where_it_shows(constraint):
    with pytest.raises(ValueError, match="unbounded set"):
        constraint.lmo(-np.ones(2))
    with pytest.raises(ValueError, match="unbounded set"):
        constraint.diameter()


def test_polytope_mixes_sparse_and_dense_constraints():
    constraint = fw.Polytope(sp.csr_array([[1, 1, 0]]), [1.0], [[0.0, 1.0, -1.0]], [0.0], lower=0.0, upper=5)
    np.testing.assert_allclose(np.asarray(constraint.lmo(np.array([-1.0, -1.0, -1.0]))), [0.0, 1.0, 1.0], atol=HIGHS)
    assert constraint.contains([0.5, 0.5, 0.5])
    assert not constraint.contains([0.5, 0.5, 0.6])


@every_set
def test_repr_names_the_set(name):
    constraint, _ = SETS[name]
    text = repr(constraint)
    assert "object at" not in text
    assert type(constraint).__name__ in text or name in ("scaled", "translated")


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda C: 2.0 * C,
        lambda C: C + np.ones(4),
        lambda C: fw.Product([(C, 4)]),
        lambda C: fw.Product([(fw.L1Ball(1.0), 1), (C, 3)]),
        lambda C: fw.MinkowskiSum(C, fw.L1Ball(1.0)),
    ],
    ids=["multiple", "translate", "product", "block", "sum"],
)
def test_the_call_for_the_start_of_a_users_oracle_is_counted(wrapped):
    asked = []

    def oracle(g):
        asked.append(g)
        return np.eye(len(g))[g.argmin()]

    C = wrapped(CallableSet(oracle))
    result = fw.minimize(fw.Quadratic(np.eye(4), [1.0, 0.5, 0.2, 0.3]), C, method="fw", max_iter=5, tol=0)
    assert result.n_lmo == len(asked)
