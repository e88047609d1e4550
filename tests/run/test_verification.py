"""Success is true: no gradient, oracle or rounding that contradicts the function values is certified."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import OBJECTIVES

N = 6
A = np.random.default_rng(0).standard_normal((12, N))
B = np.random.default_rng(1).standard_normal((12, N))
b = 2 * np.random.default_rng(2).standard_normal(12)
METHODS = ("auto", "fw", "rk44", "pairwise", "corrective", "boosted", "lazy-fw")
SETS = {
    "l1": fw.L1Ball(0.7),
    "large-l1": fw.L1Ball(30.0),
    "simplex": fw.Simplex(),
    "box": fw.Box(-0.2, 0.3),
    "l2": fw.L2Ball(0.5),
    "hull": fw.ConvexHull(np.random.default_rng(7).standard_normal((9, N))),
    "product": fw.Product([(fw.L1Ball(1.0), 2), (fw.Simplex(), 3), (fw.L2Ball(1.0), 1)]),
}


def least_squares(x):
    r = A @ x - b
    return float(r @ r / 24 + 0.15 * x @ x)


def least_squares_gradient(x):
    return A.T @ (A @ x - b) / 12 + 0.3 * x


def logistic(x):
    return float(np.logaddexp(0, -(A @ x)).mean() + 0.05 * x @ x)


def logistic_gradient(x):
    return -A.T @ (1 / (1 + np.exp(A @ x))) / 12 + 0.1 * x


FUNCTIONS = {"squared": (least_squares, least_squares_gradient), "logistic": (logistic, logistic_gradient)}

CONTRADICTIONS = {
    "negative": lambda f, g: (f, lambda x: -g(x)),
    "a fifth": lambda f, g: (f, lambda x: g(x) / 5),
    "five times": lambda f, g: (f, lambda x: 5 * g(x)),
    "a term is missing": lambda f, g: (lambda x: f(x) + float(np.sin(np.arange(N)) @ x), g),
    "a quadratic term is missing": lambda f, g: (lambda x: f(x) + 0.5 * float(x @ x), g),
    "of another function": lambda f, g: (f, lambda x: B.T @ (B @ x - b) / 12),
    "constant": lambda f, g: (f, lambda x: g(np.zeros(N))),
    "at another point": lambda f, g: (f, lambda x: g(np.roll(x, 1))),
}


def true_gap(f, C, x):
    """By central differences of f."""
    g = np.array([(f(x + 1e-5 * e) - f(x - 1e-5 * e)) / 2e-5 for e in np.eye(N)])
    return float(g @ x) - C.lmo(g).dot(g)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("wrong", CONTRADICTIONS)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_gradient_that_contradicts_the_function_is_never_certified(function, name, wrong):
    f, g = CONTRADICTIONS[wrong](*FUNCTIONS[function])
    for method in METHODS:
        r = fw.minimize(fw.Smooth(f, g, shape=N), SETS[name], method=method, max_iter=40)
        assert not (r.success and true_gap(f, SETS[name], r.x) > 2e-6), (method, r)


PARTLY = {
    "squared": (least_squares, least_squares_gradient),
    "logistic": (logistic, logistic_gradient),
    "cosh": (lambda x: float(np.cosh(x - b[:N]).sum()), lambda x: np.sinh(x - b[:N])),
    "kinks": (
        lambda x: float(np.sqrt(1e-12 + (x - b[:N] / 9) ** 2).sum()),
        lambda x: (x - b[:N] / 9) / np.sqrt(1e-12 + (x - b[:N] / 9) ** 2),
    ),
    "kinks at zero": (lambda x: float(np.sqrt(1e-12 + x**2).sum()), lambda x: x / np.sqrt(1e-12 + x**2)),
}
VECTORS = SETS | {
    "l1-2": fw.L1Ball(2.0),
    "unit-simplex": fw.UnitSimplex(2.0),
    "group": fw.GroupBall([0, 0, 1, 1, 1, 2], 2.0),
    "group-3": fw.GroupBall([0, 0, 1, 1, 1, 2], 2.0, 3.0),
    "nuclear": fw.NuclearBall(2.0),
    "box-of-zero": fw.Box(-1.0, 2.0),
}


@settings(max_examples=60, deadline=None, derandomize=True)
@example("l1-2", "squared", "auto", 0.0, [3])
@example("group", "squared", "fw", 0.0, [5])
@example("l2", "squared", "auto", 0.0, [1])
@example("box-of-zero", "kinks at zero", "auto", -1.0, [0, 1, 2, 3, 4, 5])
@example("box-of-zero", "kinks at zero", "auto", 0.0, [2])
@given(
    st.sampled_from(list(VECTORS)),
    st.sampled_from(list(PARTLY)),
    st.sampled_from(("auto", "fw", "corrective")),
    st.sampled_from((0.0, -1.0, 0.3, 3.0)),
    st.lists(st.integers(0, N - 1), min_size=1, max_size=N, unique=True),
)
def test_a_gradient_that_is_wrong_in_some_entries_is_never_certified(name, function, method, factor, entries):
    C, (f, g), wrong = VECTORS[name], PARTLY[function], np.where(np.isin(np.arange(N), entries), factor, 1.0)
    shape = (2, 3) if name == "nuclear" else (N,)
    given = fw.Smooth(lambda x: f(x.ravel()), lambda x: (wrong * g(x.ravel())).reshape(shape), shape=shape)
    r = fw.minimize(given, C, method=method, max_iter=40)
    right = fw.Smooth(lambda x: f(x.ravel()), lambda x: g(x.ravel()).reshape(shape), shape=shape)
    best = fw.minimize(right, C, max_iter=100)
    assert best.status is not fw.Status.INCONSISTENT
    assert not r.success or r.fun - r.gap <= best.fun + 2e-6 * (1 + abs(best.fun))


def test_the_message_names_the_gradient_two_numbers_and_the_checker():
    C = fw.L1Ball(1.0)
    r = fw.minimize(fw.Smooth(least_squares, lambda x: -least_squares_gradient(x), shape=N), C)
    assert r.status is fw.Status.INCONSISTENT
    assert not r.success
    assert "the gradient predicts a change of f by" in r.message
    assert "function values show" in r.message
    assert "fw.checks.gradient_error" in r.message
    assert fw.checks.gradient_error(fw.Smooth(least_squares, lambda x: -least_squares_gradient(x)), r.x) > 0.1


_noise = np.random.default_rng(5)
AGREEMENTS = {
    "exact": (lambda f, g: (f, g), 1e-8),
    "noise": (lambda f, g: (f, lambda x: g(x) * (1 + 1e-7 * _noise.standard_normal(N))), 1e-5),
    "single precision inside": (lambda f, g: (lambda x: float(np.float32(f(x.astype(np.float32)))), g), 1e-4),
    "a large constant": (lambda f, g: (lambda x: f(x) + 1e6, g), 1e-6),
    "differences": (
        lambda f, g: (f, lambda x: np.array([(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(N)])),
        1e-5,
    ),
}


@pytest.mark.parametrize("right", AGREEMENTS)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_gradient_that_agrees_with_the_function_keeps_its_success(function, name, right):
    change, tol = AGREEMENTS[right]
    f, g = change(*FUNCTIONS[function])
    for method in ("auto", "corrective", "fw"):
        r = fw.minimize(fw.Smooth(f, g, shape=N), SETS[name], method=method, tol=tol, max_iter=100)
        assert r.status is not fw.Status.INCONSISTENT, r.message
        assert r.success or method == "fw" or right == "single precision inside", r


def test_single_precision_functions_keep_their_success():
    f = fw.Smooth(least_squares, least_squares_gradient, shape=N)
    x0 = np.zeros(N, np.float32)
    for name in ("l1", "l2", "box"):
        assert fw.minimize(f, SETS[name], x0, method="corrective", tol=1e-4).success


def test_functions_with_domains_keep_their_success():
    # Infinite at the vertices of the simplex, where verification would look too.
    numpy = fw.Smooth(lambda x: -float(np.log(x).sum()), lambda x: -1 / x, shape=4, domain=lambda x: (x > 0).all())
    python = fw.Smooth(_with_math, lambda x: -1 / x, shape=4, domain=lambda x: (x > 0).all())
    infinite = fw.Smooth(_barrier, lambda x: -1 / x, shape=4)
    for f in (numpy, python, infinite):
        r = fw.minimize(f, fw.Simplex(), [0.35, 0.15, 0.3, 0.2], line_search="armijo", tol=1e-3)
        assert r.success, r


def _barrier(x):
    with np.errstate(all="ignore"):
        return -float(np.log(x).sum()) if (x > 0).all() else np.inf


def _with_math(x):
    return -math.fsum(math.log(v) for v in x)


class WrongSign(fw.L1Ball):
    """An oracle that maximises."""

    def lmo(self, g, hint=None):
        return super().lmo(-1.0 * g, hint)


def largest(g):
    s = np.zeros(N)
    s[np.abs(g).argmax()] = 0.7 * np.sign(g[np.abs(g).argmax()])
    return s


ORACLES = {
    "a subclass": WrongSign(0.7),
    "a callable": largest,
    "corners": lambda g: 0.3 * np.sign(g),
    "constant": lambda g: 0.7 * np.eye(N)[0],
    "a multiple": 2.0 * WrongSign(0.35),
    "a translate": WrongSign(0.7) + np.full(N, 0.1),
    "one block of a product": fw.Product([(WrongSign(0.5), 3), (fw.Simplex(), 3)]),
    "a summand": fw.MinkowskiSum(WrongSign(0.5), fw.L2Ball(0.1)),
}


@pytest.mark.parametrize("oracle", ORACLES)
@pytest.mark.parametrize("trusted", [True, False])
def test_an_oracle_that_does_not_minimise_is_never_certified(oracle, trusted):
    f = fw.LinearModel(A, b) if trusted else fw.Smooth(least_squares, least_squares_gradient, shape=N)
    C = ORACLES[oracle]
    statuses = set()
    for method in ("fw", "rk44", "pairwise", "corrective", "lazy-fw"):
        try:
            r = fw.minimize(f, C, method=method, max_iter=60)
        except ValueError:  # a shortcut of the set contradicts its oracle
            continue
        assert not r.success or oracle == "constant", (method, r)  # that one is right over a single point
        statuses.add(r.status)
    assert fw.Status.INCONSISTENT in statuses or oracle == "constant"


def test_rounding_of_an_oracle_is_no_contradiction():
    # At this minimum within the symmetric vectors, the gradient is orthogonal to them up to rounding.
    C = fw.Symmetric(fw.L2Ball(2.0), lambda x: (x + x[::-1]) / 2)
    f = OBJECTIVES["squared-sum"](N, 0)
    r = fw.minimize(f, C, method="corrective")
    assert r.success, r.message


def test_the_message_names_the_oracle_two_numbers_and_the_checker():
    r = fw.minimize(fw.LinearModel(A, b), largest, method="fw", max_iter=100)
    assert r.status is fw.Status.INCONSISTENT
    assert "The oracle's vertex s has <g, s> =" in r.message
    assert "fw.checks.lmo_excess" in r.message


@dataclass(frozen=True)
class WrongLoss(fw.Loss):
    """A parabola with the derivative of one that is twice as steep."""

    curvature = 2.0

    def value(self, z, b):
        return 0.5 * float(((z - b) ** 2).sum())

    def derivative(self, z, b):
        return 2 * (z - b)

    def second(self, z, b):
        return np.full_like(z, 2.0)


class WrongTranspose(fw.Design):
    """A matrix whose transpose is another one's."""

    shape, dtype = A.shape, A.dtype

    def matvec(self, x):
        return A @ x

    def rmatvec(self, r):
        return B.T @ r

    def column(self, j):
        return fw.DenseVertex(A[:, j])


@pytest.mark.parametrize("model", [fw.LinearModel(A, b, WrongLoss()), fw.LinearModel(WrongTranspose(), b)])
@pytest.mark.parametrize("method", ["auto", "fw", "corrective", "apg"])
def test_losses_and_designs_of_ones_own_are_compared_too(model, method):
    assert not fw.minimize(model, fw.L1Ball(0.7), method=method, max_iter=300, tol=1e-4).success


def test_what_the_library_wrote_costs_no_verification():
    f = fw.LinearModel(A, b)
    r = fw.minimize(f, fw.L1Ball(0.7), method="fw", line_search="exact", tol=1e-2)
    assert r.success
    assert r.n_grad <= r.nit + 2


def test_what_verification_asks_is_counted():
    asked = {"g": 0, "s": 0}

    def gradient(x):
        asked["g"] += 1
        return least_squares_gradient(x)

    def oracle(g):
        asked["s"] += 1
        return fw.L1Ball(0.7).lmo(g).to_dense()

    r = fw.minimize(fw.Smooth(least_squares, gradient, shape=N), oracle, method="corrective", tol=1e-5)
    assert r.success
    assert (r.n_grad, r.n_lmo) == (asked["g"], asked["s"])


# Functions that are not convex.


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.sampled_from(("auto", "fw", "pairwise", "apg", "rk44")))
def test_a_function_that_is_not_convex_is_never_inconsistent(seed, method):
    rng = np.random.default_rng(seed)
    M, w = rng.standard_normal((4, 4)), 3 * rng.standard_normal(4)
    f = fw.Smooth(
        lambda x: float(np.sin(w @ x) + x @ M @ x + np.cos(x).sum()),
        lambda x: np.cos(w @ x) * w + (M + M.T) @ x - np.sin(x),
        shape=4,
    )
    r = fw.minimize(f, fw.L2Ball(1.0), method=method, max_iter=200, tol=1e-3)
    assert r.status is not fw.Status.INCONSISTENT, r.message
    if r.success:
        assert "stationarity" in r.message
        assert r.fun <= r.trace["fun"][0] + 1e-3


def test_a_stationary_point_above_the_start_is_no_success():
    # The first step of plain Frank-Wolfe goes over a ridge to 1, which is stationary and higher than the start.
    def ridge(x):
        return 1 / (1 + np.exp(-20 * (x - 0.3)))

    f = fw.Smooth(lambda x: float(5 * ridge(x)[0] - x[0]), lambda x: 100 * ridge(x) * (1 - ridge(x)) - 1, shape=1)
    r = fw.minimize(f, fw.Box(-1.0, 1.0), np.array([-0.9]), method="fw", max_iter=50)
    assert (r.success, r.status) == (False, fw.Status.FINISHED)
    assert "f is 4 at the returned point and was 0.9 at the start" in r.message
    assert "stationarity" in r.message


def test_convex_functions_of_the_library_say_nothing_of_stationarity():
    r = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(0.7))
    assert r.success
    assert "stationarity" not in r.message


# Rounding.


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array, sp.csr_array, partial(np.asarray, dtype=np.float32)])
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("level", [100000.1, 1e-300, 0.1, -1e15])
def test_constant_columns_beside_an_intercept_explain_nothing(kind, loss, level):
    y = np.random.default_rng(0).standard_normal(60)
    X = kind(np.full((60, 2), np.float32(level) if kind not in (np.asarray,) and level > -1e15 else level))
    f = fw.LinearModel(X, y, loss, intercept=True)
    r = fw.minimize(f, fw.L1Ball(1e15), tol=1e-8)
    alone = fw.LinearModel(np.zeros((60, 1)), y, loss, intercept=True)
    assert r.success
    assert r.fun == pytest.approx(alone.value(alone.point([0.0])), rel=1e-6)


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array])
def test_columns_far_from_zero_are_as_exact_as_centred_ones(kind):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((60, 5)), rng.standard_normal(60)
    X[:, 2] += 2.0**30
    X[:, 3] = 3.3
    centred = X - X[0]
    centred -= centred.mean(axis=0)
    r = fw.minimize(fw.LinearModel(kind(X), y, intercept=True), fw.L1Ball(0.5), tol=1e-10)
    s = fw.minimize(fw.LinearModel(centred, y - y.mean()), fw.L1Ball(0.5), tol=1e-10)
    assert r.success
    assert r.fun == pytest.approx(s.fun, abs=1e-9)
    assert r.x == pytest.approx(s.x, abs=1e-6)


@settings(max_examples=30, deadline=None, derandomize=True)
@example(0, "squared", 17.0, 12.0, True, np.float32)
@example(3, "logistic", 17.0, 12.0, False, np.float32)
@given(
    st.integers(0, 10**6),
    st.sampled_from(("squared", "logistic", "huber")),
    st.floats(-3, 17),
    st.floats(-3, 12),
    st.booleans(),
    st.sampled_from((np.float32, np.float64)),
)
def test_success_implies_a_value_within_the_tolerance_of_the_minimum(seed, loss, radius, level, intercept, dtype):
    """Radii and columns are so large that rounding matters. A smaller radius gives an upper bound of the minimum."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((20, 3)) + np.array([0, 0, 10**level])
    y = np.sign(rng.standard_normal(20)) if loss == "logistic" else rng.standard_normal(20)
    y[0], y[1] = 1.0, -1.0
    X = X.astype(dtype)
    f = fw.LinearModel(X, y.astype(dtype), loss, intercept=intercept)
    r = fw.minimize(f, fw.L1Ball(10**radius), tol=1e-6, max_iter=100)
    if r.success:
        small = fw.minimize(
            fw.LinearModel(X.astype(float), y, loss, intercept=intercept), fw.L1Ball(min(10**radius, 1.0)), max_iter=100
        )
        assert r.fun <= small.fun + 1.1e-6 + 1e-7 * (dtype == np.float32)


# Points that a run has left for worse ones.


@pytest.mark.parametrize("method", ["auto", "flow", "corrective", "pairwise", "away", "apg", "boosted", "blended"])
@pytest.mark.parametrize("scales", [(1e8, 1.0), (1.0, 1e-8), (1e4, 1.0)])
def test_no_method_that_descends_returns_a_point_above_its_best(method, scales):
    X = np.random.default_rng(3).standard_normal((30, 2)) * scales
    y = np.random.default_rng(4).standard_normal(30)
    r = fw.minimize(fw.LinearModel(X, y), fw.L1Ball(1.0), method=method, max_iter=200)
    best = float(np.min(r.trace["fun"]))
    assert r.fun <= best + max(r.gap if r.success else 0.0, 1e-9 * abs(best))


def test_a_value_that_is_lower_by_rounding_does_not_beat_a_smaller_gap():
    rng = np.random.default_rng(4)
    X, y, far = rng.standard_normal((15, 5)), 2 * rng.standard_normal(15), np.round(1e4 * rng.uniform(-1, 1, 5))
    f, C = fw.LinearModel(X, y + X @ far, "huber", rho=0.5), fw.L1Ball(1.0) + far
    r = fw.minimize(f, C, far - np.eye(5)[4], method="corrective", tol=0.0, max_iter=25)
    assert r.trace["gap"].min() < 1e-12
    assert r.gap < 1e-12


def test_a_tableau_that_ends_far_above_its_best_iterate_says_so():
    f = fw.LinearModel(np.diag([1e3, 1.0]), [1.0, 1.0])
    r = fw.minimize(f, fw.L1Ball(1.0), method="fw", max_iter=3)
    assert r.fun > r.trace["fun"].min()
    assert "The best iterate had f =" in r.message


class PositiveHalf(fw.L1Ball):
    """An oracle that minimises over a part of its set only, so that its answers agree with one another."""

    def lmo(self, g, hint=None):
        return fw.Simplex(self.radius).lmo(g)

    def start(self, shape=None, dtype=np.float64):
        return -self.radius * np.eye(1, *shape, dtype=dtype)[0]


def test_an_oracle_is_compared_with_the_iterates_of_the_run():
    f = fw.Smooth(lambda x: 0.5 * float((x + 1) @ (x + 1)), lambda x: x + 1, shape=N)
    r = fw.minimize(f, PositiveHalf(0.7), method="fw", max_iter=200, tol=0.1)
    assert (r.status, r.success) == (fw.Status.INCONSISTENT, False)
    assert "fw.checks.lmo_excess" in r.message


class Uncentred(fw.Design):
    """A matrix of nearly equal entries that offers no centring."""

    shape, dtype = (60, 2), np.dtype(np.float64)
    trusted = True

    def matvec(self, x):
        return np.full((60, 2), 100000.1) @ x

    def rmatvec(self, r):
        return np.full((60, 2), 100000.1).T @ r

    def column(self, j):
        return fw.DenseVertex(np.full(60, 100000.1))


@pytest.mark.parametrize("method", ["auto", "fw", "corrective", "apg"])
def test_a_gap_below_its_rounding_is_no_success(method):
    y = np.random.default_rng(0).standard_normal(60)
    f = fw.LinearModel(Uncentred(), y, intercept=True)
    assert not fw.minimize(f, fw.L1Ball(1e15), method=method, tol=1e-8, max_iter=100).success


def test_a_flow_that_rounding_keeps_above_its_start_returns_the_start():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((6, 4)) * [1e-4, 1, 1e4, 1e2], rng.standard_normal(6)
    H = (X.T @ X + (X.T @ X).T) / 2
    r = fw.minimize(fw.Quadratic(H, X.T @ y), fw.L1Ball(1e6), method="flow", tol=0, max_iter=100)
    assert r.trace["fun"][-1] > r.trace["fun"].min()
    assert r.fun == r.trace["fun"].min()


def test_an_inconsistent_run_returns_its_best_point():
    """The last iterate has a high value and the gradient zero, so that the run stops there."""
    centre, start = np.array([0.5, 0.3, 0.2]), np.array([0.3, 0.3, 0.4])

    def fun(x):
        return 100.0 - x[0] if x.max() > 0.95 else float(((x - centre) ** 2).sum())

    f = fw.Smooth(fun, lambda x: 0 * x if x.max() > 0.95 else 2 * (x - centre))
    r = fw.minimize(f, fw.Simplex(), start, method="fw")
    assert r.status is fw.Status.INCONSISTENT
    assert not r.success
    assert r.fun == r.trace["fun"].min() == fun(start)
    np.testing.assert_array_equal(r.x, start)


def indefinite(convex):
    return fw.Smooth(lambda x: -float(x @ x), lambda x: -2 * x, convex=convex)


def test_convexity_that_is_stated_changes_the_message():
    A = np.random.default_rng(0).standard_normal((20, 4))
    f, g = (lambda x: float(((A @ x - A[:, 0]) ** 2).sum())), (lambda x: 2 * A.T @ (A @ x - A[:, 0]))
    unknown, yes, no = (
        fw.minimize(fw.Smooth(f, g, convex=c), fw.L1Ball(0.5), np.zeros(4)) for c in (None, True, False)
    )
    assert all(r.success for r in (unknown, yes, no))
    assert "f is not known to be convex" in unknown.message
    assert "convex" not in yes.message
    assert no.message.endswith("f is not convex, so the gap measures only stationarity.")


@pytest.mark.parametrize("method", ["auto", "fw", "pairwise", "corrective", "apg"])
def test_values_that_contradict_a_stated_convexity_are_reported(method):
    """The start is a saddle point with gap zero; every other member has a lower value."""
    start = np.full(4, 0.25)
    r = fw.minimize(indefinite(True), fw.Simplex(), start, method=method)
    assert r.status is fw.Status.INCONSISTENT
    assert "as its attribute `convex` states" in r.message
    for other in (None, False):
        assert fw.minimize(indefinite(other), fw.Simplex(), start, method=method).status is not fw.Status.INCONSISTENT


@pytest.mark.parametrize("name", ["smooth", "squared", "logistic", "huber", "poisson"])
@pytest.mark.parametrize("C", [fw.Simplex(), fw.L1Ball(2.0), fw.Box(-1.0, 1.0), fw.L2Ball(1.0)], ids=repr)
def test_convex_functions_never_contradict_their_statement(name, C):
    f = OBJECTIVES[name](6, 1)
    own = fw.Smooth(lambda x: f.value(f.point(x)), lambda x: np.asarray(f.gradient(f.point(x))), convex=True)
    for method in ("auto", "fw", "blended-pairwise"):
        r = fw.minimize(own, C, np.full(6, 1 / 6), method=method, tol=1e-4, max_iter=500)
        assert r.status is not fw.Status.INCONSISTENT
