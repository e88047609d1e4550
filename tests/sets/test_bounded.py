"""Bounded simplices and l1 balls: projections against CVXPY, faces by brute force, and sets without members."""

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fwflow as fw

seeds = st.integers(0, 10**6)
few = settings(deadline=None, max_examples=40, derandomize=True)
EPS = float(np.finfo(np.float64).eps)


def random_bounds(rng, n):
    """Bounds on both sides of zero, on one side, equal, at zero, and infinite."""
    ends = np.sort(rng.standard_normal((2, n)), axis=0)
    kind = rng.integers(0, 6, n)
    lower = np.select([kind == 1, kind == 2, kind == 3], [np.abs(ends[0]) / n, ends[1], -np.inf], ends[0])
    upper = np.select([kind == 1, kind == 2, kind == 4], [np.abs(ends[0]) / n + 1, ends[1], np.inf], ends[1])
    lower, upper = np.where(kind == 5, 0.0, lower), np.where(kind == 5, np.abs(ends[1]), upper)
    return lower, upper


def random_ball(seed, n=6):
    rng = np.random.default_rng(seed)
    lower, upper = random_bounds(rng, n)
    spent = float(np.abs(np.clip(0.0, lower, upper)).sum())
    return fw.BoundedL1Ball(spent + rng.choice([0.01, 0.5, 3.0]), lower, upper)


def random_simplex(seed, n=6):
    rng = np.random.default_rng(seed)
    lower, upper = random_bounds(rng, n)
    lower = np.maximum(lower, -2.0)
    upper = np.maximum(upper, lower)
    most = float(np.minimum(upper, lower + 3.0).sum())
    return fw.BoundedSimplex(rng.uniform(lower.sum(), most), lower, upper)


SETS = {"ball": random_ball, "simplex": random_simplex}
kinds = pytest.mark.parametrize("kind", SETS)


def inside(C, x):
    finite = [np.isfinite(C.lower), np.isfinite(C.upper)]
    bounds = [x[np.flatnonzero(finite[0])] >= C.lower[finite[0]], x[np.flatnonzero(finite[1])] <= C.upper[finite[1]]]
    total = cp.sum(x) == C.total if isinstance(C, fw.BoundedSimplex) else cp.norm1(x) <= C.radius
    return [*bounds, total]


def minimum(objective, constraints):
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


@kinds
@few
@given(seed=seeds)
def test_oracle_against_cvxpy(kind, seed):
    C, g = SETS[kind](seed), np.random.default_rng(seed).standard_normal(6)
    x = cp.Variable(6)
    vertex = C.lmo(g)
    assert C.contains(np.asarray(vertex))
    assert vertex.dot(g) == pytest.approx(minimum(g @ x, inside(C, x)), abs=1e-6)


@kinds
@few
@given(seed=seeds, size=st.sampled_from([0.1, 1.0, 30.0]))
def test_projection_against_cvxpy(kind, seed, size):
    C, y = SETS[kind](seed), size * np.random.default_rng(seed + 1).standard_normal(6)
    p = C.project(y)
    assert C.contains(p)
    np.testing.assert_array_equal(C.project(p), p)
    x = cp.Variable(6)
    best = minimum(cp.sum_squares(x - y), inside(C, x))
    assert float(((p - y) ** 2).sum()) == pytest.approx(best, rel=1e-6, abs=1e-6)


@kinds
@few
@given(seed=seeds, scale=st.sampled_from([1e-300, 1e-8, 1.0, 1e8, 1e200]), offset=st.sampled_from([0.0, 1.0, 1e6]))
def test_projection_is_optimal_to_rounding(kind, seed, scale, offset):
    """The residual makes an obtuse angle with every direction into the set: no tolerance of a solver is involved."""
    C, y = SETS[kind](seed), scale * (np.random.default_rng(seed).standard_normal(6) + offset)
    p = C.project(y)
    assert C.contains(p)
    residual = y - p
    assume(np.abs(residual).max() < 1e150)
    excess = float(residual @ np.asarray(C.lmo(-residual)) - residual @ p)
    # Rounding of the points, and of the differences between entries of y.
    rounding = 64 * EPS * (np.abs(residual).max() + 1) * (np.abs(y).max() + np.abs(p).max() + 1)
    assert excess <= rounding


@kinds
@few
@given(seed=seeds)
def test_away_vertex_is_the_worst_vertex_of_the_face(kind, seed):
    """The face around a mixture of vertices is the set of those vertices that can have a positive weight in it."""
    C, rng = SETS[kind](seed), np.random.default_rng(seed)
    corners = np.array([np.asarray(C.lmo(d)) for d in rng.standard_normal((400, 6))])
    corners = corners[np.unique(corners.round(12), axis=0, return_index=True)[1]]
    chosen = corners[rng.integers(0, len(corners), rng.integers(1, 4))]
    x = rng.dirichlet(np.ones(len(chosen))) @ chosen
    g = rng.standard_normal(6)
    away = np.asarray(C.faces.away_vertex(g, x))
    assert C.contains(away)
    # It is in the face: x can move away from it, and at least as bad as the vertices that x is made of.
    assert C.contains(x + 1e-4 * (x - away), tol=1e-8)
    assert g @ away >= (chosen @ g).max() - 1e-9
    # No known corner that x can move away from is worse.
    for corner in corners:
        if C.contains(x + 1e-3 * (x - corner), tol=1e-12):
            assert g @ corner <= g @ away + 1e-9


@kinds
@few
@given(seed=seeds)
def test_steps_end_at_the_boundary(kind, seed):
    C, rng = SETS[kind](seed), np.random.default_rng(seed)
    x, y = (np.asarray(C.lmo(d)) for d in rng.standard_normal((2, 6)))
    x = 0.7 * x + 0.3 * y
    d = np.asarray(C.lmo(rng.standard_normal(6))) - x
    assume(np.abs(d).max() > 1e-3)
    length = C.faces.max_step(x, d)
    assert length >= 1 - 1e-12
    assert C.contains(x + length * d)
    assert not C.contains(x + (length + 1e-3) * d, tol=1e-9)


def test_they_are_the_general_form_of_simplices_and_balls():
    """Simplices and l1 balls have shortcuts for oracles, projections and faces, which agree with the general code."""
    rng = np.random.default_rng(0)
    for C, plain in (
        (fw.BoundedL1Ball(2.0), fw.L1Ball(2.0)),
        (fw.BoundedL1Ball(1.5, 0.0), fw.UnitSimplex(1.5)),
        (fw.BoundedL1Ball(3.0, -1.5, 1.5), fw.KSparseBall(2, 1.5)),
        (fw.BoundedL1Ball(3.0, 0.0, 1.5), fw.UnitHyperSimplex(2, 1.5)),
        (fw.BoundedSimplex(2.0), fw.Simplex(2.0)),
        (fw.BoundedSimplex(3.0, 0.0, 1.5), fw.HyperSimplex(2, 1.5)),
    ):
        for g, h in rng.standard_normal((20, 2, 5)):
            s = np.asarray(plain.lmo(g))
            np.testing.assert_array_equal(np.asarray(C.lmo(g)), s)
            np.testing.assert_allclose(C.project(3 * g), plain.project(3 * g), atol=1e-14)
            x = (s + 2 * np.asarray(plain.lmo(h))) / 3
            away, steps = (
                np.asarray(plain.faces.away_vertex(h, x)),
                [F.max_step(x, s - x) for F in (C.faces, plain.faces)],
            )
            np.testing.assert_array_equal(np.asarray(C.faces.away_vertex(h, x)), away)
            assert steps[0] == pytest.approx(steps[1])
            assert C.diameter((5,)) == pytest.approx(plain.diameter((5,)))
    C, plain = fw.BoundedL1Ball(100.0, -1.0, [2.0, 3.0]), fw.Box(-1.0, [2.0, 3.0])
    for g in itertools.product((-1.0, 0.0, 2.0), repeat=2):
        np.testing.assert_array_equal(np.asarray(C.lmo(np.array(g))), np.asarray(plain.lmo(np.array(g))))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: fw.BoundedL1Ball(1.0, [0.6, 0.6], 1.0), r"at least 1\.2, and radius is 1"),
        (lambda: fw.BoundedL1Ball(1.0, [1.0, 0.0], [0.0, 1.0]), "lower must not exceed upper"),
        (lambda: fw.BoundedL1Ball(-1.0), "radius must be"),
        (lambda: fw.BoundedL1Ball(1.0, math.nan), "must not hold NaN"),
        (lambda: fw.BoundedL1Ball(1.0, math.inf), "lower must be below infinity"),
        (lambda: fw.BoundedL1Ball(1.0, [0.0, 0.0], [1.0, 1.0, 1.0]), "they must agree"),
        (lambda: fw.BoundedSimplex(1.0, 0.0, [0.4, 0.4]), r"a sum from 0 to 0\.8, and total is 1"),
        (lambda: fw.BoundedSimplex(1.0, [0.6, 0.6]), r"a sum from 1\.2 to inf, and total is 1"),
        (lambda: fw.BoundedSimplex(1.0, -math.inf, 1.0), "lower must be finite"),
        (lambda: fw.BoundedSimplex(math.inf), "total must be finite"),
    ],
)
def test_sets_without_members_and_wrong_bounds_are_refused(make, why):
    with pytest.raises(ValueError, match=why):
        make()


def test_numbers_as_bounds_are_checked_when_the_number_of_entries_is_known():
    C = fw.BoundedSimplex(1.0, 0.0, 0.2)
    with pytest.raises(ValueError, match=r"4 entries have a sum from 0 to 0\.8, and total is 1"):
        C.start((4,))
    np.testing.assert_allclose(C.start((5,)), 0.2)
    assert fw.BoundedL1Ball(1.0, 0.5).working_sets is None
    with pytest.raises(ValueError, match=r"members of .* have shape"):
        fw.BoundedL1Ball(1.0, [0.0, 0.0]).contains([1.0, 0.0, 0.0])


def test_single_points():
    """The bounds may leave one member only."""
    for C, point in (
        (fw.BoundedL1Ball(0.75, [0.25, -0.5], [1.0, -0.5]), [0.25, -0.5]),
        (fw.BoundedSimplex(1.0, [0.25, 0.75]), [0.25, 0.75]),
        (fw.BoundedSimplex(3.0, 0.0, [1.0, 2.0]), [1.0, 2.0]),
        (fw.BoundedSimplex(-2.0, [-2.0], [5.0]), [-2.0]),
    ):
        for g in (np.ones(len(point)), -np.arange(float(len(point)))):
            np.testing.assert_allclose(np.asarray(C.lmo(g)), point, atol=1e-15)
            np.testing.assert_allclose(C.project(5 * g), point, atol=1e-15)
        np.testing.assert_allclose(C.start(), point)
        r = fw.minimize(fw.Quadratic(np.eye(len(point))), C)
        assert r.success
        np.testing.assert_allclose(r.x, point, atol=1e-12)


@pytest.mark.parametrize("method", ["auto", "flow", "corrective", "pairwise", "decomposition-invariant", "apg"])
def test_portfolio_against_cvxpy(method):
    rng = np.random.default_rng(3)
    returns = rng.standard_normal((60, 12)) @ np.diag(np.linspace(0.5, 2, 12))
    upper = np.where(np.arange(12) < 4, 0.08, 0.3)
    C = fw.BoundedSimplex(1.0, np.where(np.arange(12) == 11, 0.05, -0.1), upper)
    x = cp.Variable(12)
    best = minimum(cp.sum_squares(returns @ x) / 120, inside(C, x))
    r = fw.minimize(fw.LinearModel(returns, np.zeros(60)), C, method=method, tol=1e-7)
    assert r.success
    assert r.feasible
    assert best - 1e-8 <= r.fun <= best + 1e-7 + 1e-8


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "poisson", "quantile"])
def test_known_signs_of_wide_data_against_cvxpy(loss):
    """Working sets: 300 columns, of which few get a nonzero coefficient."""
    rng = np.random.default_rng(4)
    A, lower, upper = rng.standard_normal((50, 300)) / 3, np.full(300, -np.inf), np.full(300, np.inf)
    lower[:100], upper[100:200], upper[3], lower[7] = 0.0, 0.0, 0.1, 0.05
    z = A[:, 3] - A[:, 150] + A[:, 250] + A[:, 50]
    b = {"logistic": np.where(z > 0, 1.0, -1.0), "poisson": np.round(np.exp(z))}.get(loss, z + rng.standard_normal(50))
    x = cp.Variable(300)
    Z = A @ x
    objective = {
        "squared": lambda: cp.sum_squares(Z - b) / 2,
        "huber": lambda: cp.sum(cp.huber(Z - b, 0.5)) / 2,
        "logistic": lambda: cp.sum(cp.logistic(cp.multiply(-b, Z))),
        "poisson": lambda: cp.sum(cp.exp(Z) - cp.multiply(b, Z)) + (b * np.log(np.maximum(b, 1)) - b).sum(),
        "quantile": lambda: cp.sum(cp.huber(Z - b, 0.25)) / (2 * 0.5),
    }[loss]()
    C = fw.BoundedL1Ball(2.0, lower, upper)
    best = minimum(objective / 50, inside(C, x))
    r = fw.minimize(fw.LinearModel(A, b, loss, rho=0.5), C, tol=1e-8)
    assert r.success
    assert r.feasible
    assert best - 1e-6 <= r.fun <= best + 1e-6
    assert r.x[:100].min() >= 0
    assert r.x[100:200].max() <= 0
    assert r.x[3] <= 0.1
    assert r.x[7] >= 0.05
