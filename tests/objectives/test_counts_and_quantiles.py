"""Poisson and quantile losses: values and derivatives, their domain, intercepts, and optima found by CVXPY."""

import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import xlogy

import fwflow as fw
from fwflow.designs import Counts
from fwflow.objectives.image_based import optimal_intercept
from fwflow.objectives.losses import Ahead, Poisson, Quantile
from fwflow.steps.searches import line_searches
from tests.catalogue import ACTIVE_SET, CERTIFIED, SELF_STEPPING

few = settings(deadline=None, max_examples=60, derandomize=True)
RNG = np.random.default_rng(0)
M, N = 60, 9
A = RNG.standard_normal((M, N))
COUNTS = RNG.poisson(np.exp(A[:, 0] - 0.5 * A[:, 1])).astype(float)
TARGETS = A[:, 0] - 0.5 * A[:, 1] + RNG.standard_t(2, M)
WEIGHTS = RNG.uniform(0.1, 2, M) * (np.arange(M) % 7 > 0)


def half_deviance(z, b):
    return cp.exp(z) - cp.multiply(b, z) + (xlogy(b, b) - b)


def smoothed_pinball(r, level, rho):
    """Infimal convolution of the pinball loss with a parabola."""
    u = cp.Variable(r.shape)
    return cp.maximum(level * u, (level - 1) * u) + cp.square(r - u) / (2 * rho)


def optimum(loss, data, radius, weights, intercept, level=0.5, rho=1.0):
    x, c = cp.Variable(N), cp.Variable()
    z = A @ x + c
    losses = half_deviance(z, data) if loss == "poisson" else smoothed_pinball(data - z, level, rho)
    w = np.ones(M) if weights is None else weights
    problem = cp.Problem(cp.Minimize(w @ losses / w.sum()), [cp.norm1(x) <= radius, *([] if intercept else [c == 0])])
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


@pytest.mark.parametrize("design", [np.asarray, sp.csc_array, np.float32], ids=["dense", "sparse", "single"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
@pytest.mark.parametrize("intercept", [False, True], ids=["no intercept", "intercept"])
@pytest.mark.parametrize("radius", [0.5, 30.0])
@pytest.mark.parametrize("case", ["poisson", "median", "upper"])
def test_optima_against_cvxpy(case, radius, intercept, weights, design):
    options = {"poisson": {}, "median": {"rho": 0.2}, "upper": {"quantile": 0.9, "rho": 0.05}}[case]
    loss, data = ("poisson", COUNTS) if case == "poisson" else ("quantile", TARGETS)
    level = options.get("quantile", 0.5)
    best = optimum(loss, data, radius, weights, intercept, level, options.get("rho", 1.0))
    f = fw.LinearModel(design(A), data, loss, weights=weights, intercept=intercept, **options)
    r = fw.minimize(f, fw.L1Ball(radius), tol=1e-9)
    single = design is np.float32
    assert r.success or r.status is fw.Status.PRECISION or (single and r.status is fw.Status.FINISHED)
    allowed = 1e-3 if single else 1e-7
    assert r.gap <= allowed
    assert best - 1e-6 <= r.fun <= best + (1e-5 if single else 1e-6)


@pytest.mark.parametrize("method", [*CERTIFIED, *ACTIVE_SET, *SELF_STEPPING])
@pytest.mark.parametrize("intercept", [False, True])
def test_gaps_of_all_methods_bound_the_error(method, intercept):
    if method == "block" or (intercept and method == "stochastic"):  # for products of sets, and for sums over rows
        return
    best = optimum("poisson", COUNTS, 2.0, None, intercept)
    f = fw.LinearModel(A, COUNTS, "poisson", intercept=intercept)
    r = fw.minimize(f, fw.L1Ball(2.0), method=method, tol=1e-6, max_iter=300)
    assert math.isfinite(r.gap)
    assert best - 1e-6 <= r.fun <= best + r.gap + 1e-6


@pytest.mark.parametrize("search", line_searches)
@pytest.mark.parametrize("intercept", [False, True])
def test_line_searches_never_overflow(search, intercept):
    """A step to a vertex of this ball has predictions of a million."""
    f, C = fw.LinearModel(A, COUNTS, "poisson", intercept=intercept), fw.L1Ball(1e6)
    r = fw.minimize(f, C, method="fw", line_search=search, tol=1e-6, max_iter=40)
    assert math.isfinite(r.fun)
    assert math.isfinite(r.gap)
    assert np.isfinite(r.x).all()
    if search != "aggressive":  # its steps are at least as long as those of the schedule
        values = r.trace["fun"]
        assert (np.diff(values) <= 1e-12 * np.abs(values[:-1])).all()
        assert r.fun < f.value(f.point(np.zeros(N)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_without_a_search_end_at_the_domain_with_a_clear_status(dtype):
    f = fw.LinearModel(A.astype(dtype), COUNTS, "poisson")
    r = fw.minimize(f, fw.L1Ball(1e6), method="fw")
    assert r.status is fw.Status.NUMERICAL
    assert "domain" in r.message
    assert r.fun == pytest.approx(float(f.value(f.point(np.zeros(N)))))
    r = fw.minimize(f, fw.L1Ball(1e6), np.full(N, 1e4))
    assert r.status is fw.Status.NUMERICAL
    assert "domain" in r.message


def test_predictions_of_rows_without_weight_may_be_anything():
    B, w = np.vstack([A, np.full((1, N), 1e5)]), np.append(np.ones(M), 0.0)
    f = fw.LinearModel(B, np.append(COUNTS, 3.0), "poisson", weights=w)
    r = fw.minimize(f, fw.L1Ball(2.0), tol=1e-8)
    assert r.success
    assert r.fun == pytest.approx(optimum("poisson", COUNTS, 2.0, None, False), abs=1e-6)


numbers = st.floats(-700, 700)


@few
@given(z=arrays(np.float64, 5, elements=numbers), b=arrays(np.float64, 5, elements=st.floats(0, 1e12) | st.just(0.0)))
def test_poisson_numbers_are_finite_and_right(z, b):
    loss = Poisson()
    values = loss.values(z, b)
    assert np.isfinite(values).all()
    assert (values >= -1e-12 * (1 + b)).all()
    inside = loss.inside(z)
    np.testing.assert_array_equal(inside, z <= 354)
    exact = [math.exp(u) for u in z[inside]]
    np.testing.assert_allclose(loss.derivative(z, b)[inside], np.array(exact) - b[inside], rtol=1e-14)
    np.testing.assert_allclose(loss.second(z, b)[inside], exact, rtol=1e-14)
    assert np.isfinite(loss.derivative(z, b)).all()
    z, b, exact = z[inside], b[inside], np.array(exact)
    expected = exact - b * z + xlogy(b, b) - b
    conditioned = (exact + b) * (1 + np.abs(z) + np.abs(np.log(b.clip(1e-300))))  # z has a rounding error too
    assert (np.abs(values[inside] - expected) <= 1e-15 * conditioned).all()


def test_large_counts_keep_their_digits():
    """e^z - b z + b log b - b of a count of 1e15 is lost in its terms, which cancel; b d^2 / 2 is right."""
    b = np.array([1e15, 1e9, 40.0])
    d = np.array([1e-7, -1e-5, 1e-6])
    z = np.log(b) + d
    exact = b * (z - np.log(b)) ** 2 / 2
    np.testing.assert_allclose(Poisson().values(z, b), exact, rtol=1e-4)


@few
@given(
    r=arrays(np.float64, 6, elements=st.floats(-1e3, 1e3)),
    level=st.floats(0.01, 0.99),
    rho=st.sampled_from([1e-6, 0.1, 1.0, 100.0]),
)
def test_quantile_numbers_are_those_of_the_envelope(r, level, rho):
    loss, b = Quantile(rho, level), np.linspace(-1, 1, 6)
    z = b + r
    pinball = np.maximum(-level * r, (1 - level) * r)
    values, slopes = loss.values(z, b), loss.derivative(z, b)
    slack = 1e-12 * (1 + np.abs(r)) * (1 + 1 / rho)
    assert (values <= pinball + slack).all()
    assert (values >= pinball - rho * max(level, 1 - level) ** 2 / 2 - slack).all()
    assert (values >= -slack).all()
    assert ((-level <= slopes) & (slopes <= 1 - level)).all()
    # Far from zero the slope is that of the pinball loss, and the curvature is that of the parabola or zero.
    far = np.abs(r) > rho
    np.testing.assert_allclose(slopes[far], np.where(r > 0, 1 - level, -level)[far])
    assert set(loss.second(z, b)) <= {0.0, 1 / rho}
    assert not loss.second(z, b)[far].any()
    total, together = loss.value_and_derivative(z, b)
    assert total == pytest.approx(values.sum())
    np.testing.assert_array_equal(together, slopes)


def test_small_widths_give_quantiles_of_the_targets():
    b = RNG.standard_normal(1001)
    for level in (0.1, 0.5, 0.97):
        f = fw.LinearModel(np.zeros((1001, 1)), b, "quantile", rho=1e-6, quantile=level, intercept=True)
        assert f.intercept_at([0.0]) == pytest.approx(np.quantile(b, level), abs=0.02)
        below = (b < f.intercept_at([0.0])).mean()
        assert below == pytest.approx(level, abs=1.5e-3)


@few
@given(
    z=arrays(np.float64, 8, elements=st.floats(-600, 600)),
    b=arrays(np.float64, 8, elements=st.integers(0, 10**9).map(float)),
    w=arrays(np.float64, 8, elements=st.sampled_from([0.0, 1e-3, 1.0, 50.0])),
)
def test_the_optimal_intercept_of_counts(z, b, w):
    w[0], b[0] = 1.0, 2.0
    c = optimal_intercept(Poisson(), z, b, w)
    slopes = w * (np.exp(np.minimum(z + c, 354)) - b)
    assert abs(slopes.sum()) <= 1e-12 * (w * b * (1 + np.abs(z + c) + abs(c))).sum() + 1e-12 * np.abs(slopes).sum()
    start = np.linspace(-1, 1, 8)
    ahead = Ahead(Poisson(), start, 0.5)
    c = optimal_intercept(ahead, z, b, w)
    expected = optimal_intercept(Poisson(), start + 0.5 * z, b, w)
    assert 0.5 * c == pytest.approx(expected, abs=1e-12 * (1 + np.abs(z).max()))


@few
@given(seed=st.integers(0, 10**6), intercept=st.booleans(), limit=st.sampled_from([1.0, 0.1]))
def test_short_steps_decrease_the_poisson_loss(seed, intercept, limit):
    """The slope at the end of a short step is not positive, which the growth of the second derivative guarantees."""
    rng = np.random.default_rng(seed)
    f = fw.LinearModel(A, COUNTS, "poisson", intercept=intercept)
    x, y = f.point(rng.standard_normal(N)), f.point(10 ** rng.uniform(-2, 2) * rng.standard_normal(N))
    line = fw.Problem(f, fw.L1Ball(), Counts()).along(x, y, f.value(x), None)
    step, _ = fw.ShortStep().step(line, 1.0, limit, None)
    if line.slope0 >= 0:
        assert step == 0
        return
    assert 0 < step <= limit
    assert line.slope(step) <= 1e-9 * abs(line.slope0)
    grid = np.linspace(0, step, 7)
    bends = np.array([line.second(gamma) for gamma in grid])
    assert (bends <= np.exp(line.growth * grid) * bends[0] * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("b", "options", "why"),
    [
        ([1.0, -2.0], {}, "b must hold counts, at least 0, for the Poisson loss; the smallest is -2"),
        ([1.0, 1e200], {}, r"b must be at most 5e\+153 for the Poisson loss in float64; the largest count is 1e\+200"),
        ([0.0, 0.0], {"intercept": True}, "b holds no count above 0, so the optimal intercept is minus infinity"),
        ([0.0, 1.0], {"intercept": True, "weights": [1.0, 0.0]}, "minus infinity"),
        ([1.0, math.nan], {}, "b"),
    ],
)
def test_wrong_counts_are_refused(b, options, why):
    with pytest.raises(ValueError, match=why):
        fw.LinearModel(np.eye(2), b, "poisson", **options)


@pytest.mark.parametrize("quantile", [0, 1, -0.5, math.nan, "half", None])
def test_wrong_levels_are_refused(quantile):
    with pytest.raises(ValueError, match="quantile must lie strictly between 0 and 1"):
        fw.LinearModel(np.eye(2), [1.0, 2.0], "quantile", quantile=quantile)


UGLY = {
    "zeros": (A, np.zeros(M)),
    "one row": (A[:1], np.array([7.0])),
    "one column": (A[:, :1], COUNTS),
    "constant column": (np.column_stack([np.ones(M), A]), COUNTS),
    "equal columns": (np.column_stack([A, A]), COUNTS),
    "zero matrix": (np.zeros((M, 3)), COUNTS),
    "huge counts": (A, np.round(1e12 * np.exp(A[:, 0]))),
    "huge features": (1e9 * A, COUNTS),
    "tiny features": (1e-9 * A, COUNTS),
    "separable": (A, (A[:, 0] > 0).astype(float)),
    "fractions": (A, COUNTS / 7),
}


@pytest.mark.parametrize("radius", [1e-3, 1.0, 1e4])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", UGLY)
def test_ugly_data(name, intercept, radius):
    X, b = UGLY[name]
    if intercept and not b.any():
        return
    for loss in ("poisson", "quantile"):
        f = fw.LinearModel(X, b, loss, intercept=intercept)
        zero = f.value(f.point(np.zeros(X.shape[1])))
        r = fw.minimize(f, fw.L1Ball(radius), tol=1e-6 * max(zero, 1e-300))
        hard = radius * np.abs(X).max() > 1e9  # the coefficients are rounding errors of the radius
        assert r.gap <= (1e-2 if hard else 1e-6) * zero or r.status is fw.Status.PRECISION, (loss, r.message)
        assert r.feasible
        assert 0 <= r.fun <= zero * (1 + 1e-12)
        # The gap bounds the error, so no other member is better by more.
        rng = np.random.default_rng(0)
        for x in rng.dirichlet(np.ones(X.shape[1]), 5) * radius * rng.choice([-1.0, 1.0], (5, X.shape[1])):
            if f.domain is None or f.domain(f.point(x)):
                assert f.value(f.point(x)) >= r.fun - r.gap - 1e-9 * abs(r.fun)


def test_counts_in_matrices():
    """Poisson matrix completion with a log link, against CVXPY."""
    rng = np.random.default_rng(5)
    i, j = np.nonzero(rng.random((8, 6)) < 0.8)
    rates = np.exp(0.8 * np.outer(rng.standard_normal(8), rng.standard_normal(6)))
    b = rng.poisson(rates[i, j]).astype(float)
    X = cp.Variable((8, 6))
    problem = cp.Problem(cp.Minimize(cp.sum(half_deviance(X[i, j], b))), [cp.normNuc(X) <= 4])
    problem.solve(solver=cp.CLARABEL)
    f = fw.MatrixCompletion(i, j, b, (8, 6), "poisson")
    for method, tol in (("auto", 1e-5), ("blended-pairwise", 0.1)):
        r = fw.minimize(f, fw.NuclearBall(4.0), method=method, tol=tol, max_iter=2000)
        assert r.success
        assert problem.value - 1e-5 <= r.fun <= problem.value + tol + 1e-5
    quantile = fw.MatrixCompletion(i, j, b, (8, 6), "quantile", rho=0.5, quantile=0.75)
    assert fw.minimize(quantile, fw.NuclearBall(4.0), tol=1e-3, max_iter=2000).success


def test_batches_of_rows():
    f = fw.LinearModel(A, COUNTS, "poisson", weights=WEIGHTS)
    x = RNG.standard_normal(N)
    rows = np.arange(M)
    batch = f.finite_sum.batch(rows)
    np.testing.assert_allclose(batch.gradient(batch.slopes(x)), f.gradient(f.point(x)), rtol=1e-12)
    r = fw.minimize(fw.LinearModel(A, COUNTS, "poisson"), fw.L1Ball(1.0), method="stochastic", tol=1e-2)
    assert r.success


def test_paths_end_where_the_constraint_stops_binding():
    for loss, b in (("poisson", COUNTS), ("quantile", TARGETS)):
        f = fw.LinearModel(A, b, loss, rho=0.1, intercept=True)
        path = fw.path(f, fw.L1Ball, n_radii=6)
        free = fw.minimize(f, fw.L1Ball(1e3), tol=1e-9)
        zero = f.value(f.point(np.zeros(N)))
        assert all(result.success for result in path.results)
        assert path.results[-1].fun - free.fun <= 0.02 * (zero - free.fun)
