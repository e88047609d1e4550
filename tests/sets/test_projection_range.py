"""Projections of every finite input, against exact arithmetic, and steps whose lengths stay finite."""

from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import design, labels, targets

EPS = float(np.finfo(np.float64).eps)

RADII = {np.float64: [1e-300, 1e-5, 1.0, 3.7, 1e10, 1e300], np.float32: [1e-30, 1e-5, 1.0, 3.7, 1e10, 1e30]}


@st.composite
def points(draw):
    """A vector with entries of any size, often tied, and a radius."""
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    radius = draw(st.sampled_from(RADII[dtype]))
    width = 8 * np.dtype(dtype).itemsize
    anything = st.floats(allow_nan=False, allow_infinity=False, width=width)
    near = st.integers(-3, 3).map(lambda k: float(dtype(k * radius / 2)))
    few = draw(st.lists(anything | near, min_size=1, max_size=3))
    x = draw(st.lists(st.sampled_from(few) | anything | near, min_size=1, max_size=6))
    return np.array(x, dtype), radius


def onto_simplex(x, radius):
    """Sort, and keep the largest entries that stay positive (Held, Wolfe & Crowder 1974)."""
    largest_first = sorted(x, reverse=True)
    kept = [k for k in range(1, len(x) + 1) if largest_first[k - 1] * k > sum(largest_first[:k]) - radius][-1]
    t = (sum(largest_first[:kept]) - radius) / kept
    return [max(entry - t, Decimal(0)) for entry in x]


def onto_l1(x, radius):
    if sum(map(abs, x)) <= radius:
        return x
    return [entry.copy_sign(sign) for entry, sign in zip(onto_simplex([*map(abs, x)], radius), x, strict=True)]


def onto_l2(x, radius):
    length = sum(entry * entry for entry in x).sqrt()
    return x if length <= radius else [entry * radius / length for entry in x]


def length(x, order):
    return sum(map(abs, x)) if order == 1 else sum(entry * entry for entry in x).sqrt()


@pytest.mark.parametrize(
    ("make", "exactly", "order"),
    [(fw.Simplex, onto_simplex, 1), (fw.L1Ball, onto_l1, 1), (fw.L2Ball, onto_l2, 2)],
    ids=["simplex", "l1", "l2"],
)
@given(case=points())
@settings(deadline=None, max_examples=150, derandomize=True)
def test_projections_are_exact_to_rounding(make, exactly, order, case):
    x, radius = case
    p = make(radius).project(x)
    assert p.dtype == x.dtype
    assert np.isfinite(p).all()
    np.testing.assert_array_equal(make(radius).project(p), p)
    eps, tiny = float(np.finfo(x.dtype).eps), float(np.finfo(x.dtype).smallest_subnormal)
    with localcontext() as context:
        context.prec = 1400  # the largest number and the smallest in one sum
        r = Decimal(radius)
        nearest = exactly([Decimal(float(entry)) for entry in x], r)
        found = [Decimal(float(entry)) for entry in p]
        error = max(abs(a - b) for a, b in zip(found, nearest, strict=True))
        assert error <= Decimal(8 * eps) * min(r, max(map(abs, nearest)) + r) + Decimal(tiny)
        if make is fw.Simplex:
            assert min(found) >= 0
            assert abs(sum(found) - r) <= Decimal(4 * eps) * r
        else:  # inside, in single precision too
            assert length(found, order) <= r * Decimal(1 + 16 * EPS)


@given(case=points(), low=st.floats(-2, 0), high=st.floats(0, 2))
@settings(deadline=None, max_examples=100, derandomize=True)
def test_projections_onto_boxes_stay_inside_in_single_precision(case, low, high):
    x, radius = case
    for C in (
        fw.LInfBall(radius),
        fw.Box(radius * low, radius * high + 2 * abs(float(np.finfo(x.dtype).eps)) * radius),
    ):
        lower, upper = (float(bound[0]) for bound in C.bounds((1,)))
        p = C.project(x)
        assert p.dtype == x.dtype
        np.testing.assert_array_equal(C.project(p), p)
        assert (p.astype(float) >= lower).all()
        assert (p.astype(float) <= upper).all()
        slack = 2 * np.finfo(x.dtype).eps * max(-lower, upper) + np.finfo(x.dtype).smallest_subnormal
        np.testing.assert_allclose(p.astype(float), np.clip(x.astype(float), lower, upper), rtol=0, atol=slack)


@pytest.mark.parametrize(
    ("C", "x", "expected"),
    [
        (fw.L1Ball(1.0), np.array([1e8], "f4"), [1.0]),
        (fw.L1Ball(1.0), [1e300, -1e300, 1.0], [0.5, -0.5, 0.0]),
        (fw.Simplex(1.0), [1e17, 0], [1.0, 0.0]),
        (fw.Simplex(1.0), [1e17, 1e17], [0.5, 0.5]),
        (fw.Simplex(1.0), [-1e308, 1e308], [0.0, 1.0]),
        (fw.Simplex(2.0), [5e-324, 0.0], [1.0, 1.0]),
        (fw.L2Ball(1.0), [1.7e308, 1.7e308, 1.7e308, 1.7e308], [0.5, 0.5, 0.5, 0.5]),
        (fw.L2Ball(5e-324), [1.0, 1e-9], [5e-324, 0.0]),
    ],
    ids=repr,
)
def test_projections_of_huge_and_tiny_vectors(C, x, expected):
    np.testing.assert_allclose(C.project(np.array(x)), expected, rtol=4 * EPS)


def test_what_is_not_finite_has_no_projection():
    for C in (fw.L1Ball(), fw.Simplex(), fw.L2Ball(), fw.LInfBall(), fw.Box(0.0, 1.0)):
        for bad in (np.nan, np.inf, -np.inf):
            with pytest.raises(ValueError, match="x must be finite"):
                C.project(np.array([0.0, bad]))


SETS = [fw.L1Ball(1.0), fw.Simplex(1.0), fw.L2Ball(1.0), fw.LInfBall(0.1), fw.Box(-1.0, 0.3)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["apg", "polished"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", SETS, ids=repr)
def test_step_lengths_stay_finite_at_an_exact_optimum(C, dtype, method):
    f = fw.Quadratic(np.eye(3, dtype=dtype), np.array([5, 1, 0], dtype))
    r = fw.minimize(f, C, method=method, tol=0, max_iter=1000)
    assert r.status is not fw.Status.NUMERICAL
    assert r.trace["step"][1:].max() < 1e14  # the smoothness is one, and no estimate is below 2^-40 of a tenth of it
    exact = C.project(np.array([5.0, 1.0, 0.0]))  # the objective is half the squared distance to there
    np.testing.assert_allclose(r.x, exact, rtol=0, atol=8 * np.finfo(dtype).eps)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1.0, 1e30, 1e150])
@pytest.mark.parametrize("C", SETS, ids=repr)
@pytest.mark.parametrize("kind", ["square", "linear", "flat"])
def test_gradients_of_any_size_are_followed(kind, C, scale):
    b = np.array([5.0, 1.0, 0.0, -2.0])
    fun, grad, best = {
        "square": (lambda x: scale * float(((x - b) ** 2).sum()), lambda x: scale * 2 * (x - b), C.project(b)),
        "linear": (lambda x: scale * float(b @ x), lambda x: scale * b, None),
        "flat": (lambda x: scale, lambda x: 0 * x, C.start((4,))),
    }[kind]
    best = np.asarray(C.lmo(b)) if best is None else best
    r = fw.minimize(fw.Smooth(fun, grad), C, C.start((4,)), method="apg", tol=0, max_iter=200)
    assert r.status is not fw.Status.NUMERICAL
    assert np.isfinite(r.trace["step"][1:]).all()
    assert r.fun == pytest.approx(fun(best), rel=1e-9, abs=0)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e25])
@pytest.mark.parametrize("C", SETS, ids=repr)
def test_gradients_of_any_size_are_followed_in_single_precision(C, scale):
    b = np.array([5.0, 1.0, 0.0, -2.0])
    f = fw.Smooth(lambda x: scale * float(((x.astype(float) - b) ** 2).sum()), lambda x: scale * 2 * (x - b))
    r = fw.minimize(f, C, C.start((4,), np.float32), method="apg", tol=0, max_iter=200)
    assert r.status is not fw.Status.NUMERICAL
    assert r.x.dtype == np.float32
    np.testing.assert_allclose(r.x, C.project(b), rtol=0, atol=1e-6)


@pytest.mark.parametrize("C", SETS[:1] + SETS[2:], ids=repr)
def test_single_precision_runs_return_points_of_the_set(C):
    for seed in range(5):
        A, b = design(12, 6, seed).astype(np.float32), targets(12, seed).astype(np.float32)
        r = fw.minimize(fw.LinearModel(A, b), C, method="apg", tol=0, max_iter=300)
        assert C.contains(r.x.astype(np.float64), 16 * EPS)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("method", ["apg", "polished"])
@pytest.mark.parametrize("make", [fw.L1Ball, fw.Simplex, fw.L2Ball, fw.LInfBall], ids=lambda make: make.__name__)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("power", [-300, -30, 30, 300])
def test_powers_of_two_leave_projected_runs_as_they_are(power, loss, make, method):
    A, b = design(30, 12), labels(30) if loss == "logistic" else targets(30)
    plain = fw.minimize(fw.LinearModel(A, b, loss), make(2.0), method=method, tol=0, max_iter=40)
    f, C = fw.LinearModel(np.ldexp(A, -power), b, loss), make(float(np.ldexp(2.0, power)))
    scaled = fw.minimize(f, C, method=method, tol=0, max_iter=40)
    np.testing.assert_array_equal(np.ldexp(scaled.x, -power), plain.x)
    np.testing.assert_array_equal(scaled.trace["fun"], plain.trace["fun"])
