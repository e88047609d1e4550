"""Projections onto balls of p-norms: their optimality conditions, closed forms, limits, and entries of any size."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import design, targets

EPS = float(np.finfo(np.float64).eps)
POWERS = [1.0001, 1.05, 4 / 3, 1.5, 1.9, 2.0, 2.1, 3.0, 4.0, 20.0, 1000.0]


def assert_optimal(x, y, p, radius):
    """The oracle finds no member s with ``<x - y, s - y> > 0``, and y is on the boundary.

    Allowed are the rounding errors of x - y and of the oracle, which raises its entries to the dual power.
    """
    C = fw.LpBall(p, radius)
    away = x - y
    assert C.norm(y / radius) == pytest.approx(1, rel=16 * EPS)
    gap = -C.lmo(-away).dot(-away) - away @ y
    assert gap <= (16 + p / (p - 1)) * EPS * np.abs(x).sum() * radius


@pytest.mark.parametrize("p", POWERS)
@given(data=st.data())
@settings(deadline=None, max_examples=40, derandomize=True)
def test_no_member_is_at_an_acute_angle(p, data):
    n = data.draw(st.integers(1, 8))
    entries = st.sampled_from([0.0, 1.0, -1.0, 0.5]) | st.floats(-3, 3) | st.floats(-12, 3).map(lambda e: 10.0**e)
    x = np.array(data.draw(st.lists(entries, min_size=n, max_size=n)))
    radius = data.draw(st.sampled_from([0.5, 1.0, 1e-5, 1e4]))
    C = fw.LpBall(p, radius)
    x = x * radius * data.draw(st.sampled_from([1.0, 1e3, 1e12]))
    y = C.project(x)
    if C.norm(x / radius) <= 1:
        np.testing.assert_array_equal(y, x)
        return
    if C.norm(x / radius) > 1 + 1e-12:
        assert_optimal(x, y, p, radius)
    assert (np.sign(y) * np.sign(x) >= 0).all()
    assert (np.abs(y) <= np.abs(x) * (1 + 8 * EPS)).all()
    np.testing.assert_array_equal(C.project(y), y)


@pytest.mark.parametrize("p", POWERS)
@pytest.mark.parametrize("n", [1, 2, 30, 5000])
@pytest.mark.parametrize("excess", [1e-13, 1e-9, 1e-4, 0.5, 1e2, 1e9])
def test_points_at_any_distance(p, n, excess):
    x = np.random.default_rng(n).standard_normal(n) ** 3
    C = fw.LpBall(p, 2.0)
    x *= 2 * (1 + excess) / C.norm(x)
    y = C.project(x)
    assert_optimal(x, y, p, 2.0)
    np.testing.assert_array_equal(C.project(y), y)


@pytest.mark.parametrize("p", [1.2, 1.5, 3.0, 7.0])
def test_an_independent_solver_agrees(p):
    x = 2 * np.random.default_rng(3).standard_normal(12)
    y = cp.Variable(12)
    problem = cp.Problem(cp.Minimize(cp.norm2(y - x)), [cp.pnorm(y, p, max_denom=100) <= 1.3])
    problem.solve(solver="CLARABEL")
    projected = fw.LpBall(p, 1.3).project(x)
    assert np.linalg.norm(projected - x) == pytest.approx(problem.value, rel=1e-7)
    np.testing.assert_allclose(projected, y.value, atol=1e-3)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_the_entries_solve_a_quadratic_equation(p):
    """For p = 3 the multiplier m gives y = 2x / (1 + sqrt(1 + 4mx)), and for p = 1.5 the root of y likewise."""
    x = np.abs(np.random.default_rng(4).standard_normal(9)) + 0.1
    y = fw.LpBall(p, 0.7).project(x)
    m = (x - y)[0] / y[0] ** (p - 1)
    closed = 2 * x / (1 + np.sqrt(1 + 4 * m * x)) if p == 3 else (2 * x / (m + np.sqrt(m * m + 4 * x))) ** 2
    np.testing.assert_allclose(y, closed, rtol=1e-13)


@pytest.mark.parametrize("p", POWERS)
def test_known_projections(p):
    C = fw.LpBall(p, 3.0)
    np.testing.assert_allclose(C.project([5.0]), [3.0], rtol=4 * EPS)
    np.testing.assert_allclose(C.project([0.0, -1e-3, 4.0, 0.0])[[0, 3]], 0.0)
    np.testing.assert_allclose(C.project([7.0, -7.0, 7.0]), 3 * 3 ** (-1 / p) * np.array([1, -1, 1]), rtol=8 * EPS)
    # Far away, the direction alone matters, and the oracle's answer is the nearest member.
    x = np.array([1.0, -0.5, 0.25])
    np.testing.assert_allclose(C.project(1e200 * x), np.asarray(C.lmo(-x)), rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(C.project(x), x)


def test_limits_are_the_other_balls():
    x = np.random.default_rng(5).standard_normal(20)
    np.testing.assert_allclose(fw.LpBall(1 + 1e-9, 2.0).project(x), fw.L1Ball(2.0).project(x), atol=1e-6)
    np.testing.assert_allclose(fw.LpBall(1e7, 0.5).project(x), fw.LInfBall(0.5).project(x), atol=1e-5)
    np.testing.assert_allclose(fw.LpBall(2.0, 0.5).project(x), fw.L2Ball(0.5).project(x), rtol=4 * EPS)
    np.testing.assert_allclose(fw.LpBall(2 + 1e-12, 0.5).project(x), fw.L2Ball(0.5).project(x), rtol=1e-10)


@pytest.mark.parametrize("p", [1.01, 1.5, 3.0, 50.0, 1000.0])
@given(data=st.data())
@settings(deadline=None, max_examples=60, derandomize=True)
def test_whatever_is_finite_projects(p, data):
    dtype = data.draw(st.sampled_from([np.float64, np.float32]))
    anything = st.floats(allow_nan=False, allow_infinity=False, width=8 * np.dtype(dtype).itemsize)
    x = np.array(data.draw(st.lists(anything, min_size=1, max_size=6)), dtype)
    power = data.draw(st.integers(-120, 120) if dtype == np.float32 else st.integers(-1000, 1000))
    C = fw.LpBall(p, 2.0**power)
    y = C.project(x)
    assert y.dtype == dtype
    assert np.isfinite(y).all()
    assert C.contains(y.astype(np.float64), 32 * EPS)  # In single precision, too.
    np.testing.assert_array_equal(C.project(y), y)


def test_entries_beyond_the_range_of_ratios():
    """The ratio of the entries is below the smallest number, and its root is not small."""
    y = fw.LpBall(1001.0).project(np.array([1e300, 1e-100]))
    assert y[1] == pytest.approx(1e-100, rel=1e-12)  # It lies within the ball by itself.
    y = fw.LpBall(1001.0, 1e-300).project(np.array([1e300, 1e-30]))
    assert y[1] / 1e-300 == pytest.approx(10 ** (-330 / 1000), rel=1e-10)


@pytest.mark.parametrize("C", [fw.LpBall(3.0, 0.5), fw.LpBall(1.5, 2.0)], ids=repr)
def test_combined_sets_project_too(C):
    x, shift = 5 * np.random.default_rng(6).standard_normal((2, 6))
    np.testing.assert_allclose((-2.0 * C).project(x), -2 * C.project(x / -2))
    np.testing.assert_allclose((C + shift).project(x), shift + C.project(x - shift))
    both = fw.Product([(C, 4), (fw.Simplex(), 2)]).project(x)
    np.testing.assert_allclose(both, np.append(C.project(x[:4]), fw.Simplex().project(x[4:])))
    np.testing.assert_array_equal(C.project(x.reshape(2, 3)), C.project(x).reshape(2, 3))


@pytest.mark.parametrize("p", [1.2, 1.5, 3.0, 10.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_automatic_runs_use_projected_steps(p, dtype):
    f = fw.LinearModel(design(40, 20).astype(dtype), targets(40).astype(dtype))
    r = fw.minimize(f, fw.LpBall(p, 0.2), tol=0, rtol=1e-4)
    assert r.success
    assert r.method == "working-set"
    assert r.x.dtype == dtype
    other = fw.minimize(f, fw.LpBall(p, 0.2), method="corrective", tol=0, rtol=1e-4)
    assert abs(r.fun - other.fun) <= max(r.gap, other.gap)
