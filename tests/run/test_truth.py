"""Value and gap of a result are true at its point."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.points.vertices import DenseVertex
from tests.catalogue import OBJECTIVES, SETS, design, targets
from tests.run.functions import BALL, EPS, X0, CountingDesign, completion, smooth, squared_model


def support(C, g):
    """min <g, s> over the set, by formula."""
    if isinstance(C, fw.L1Ball):
        return -C.radius * np.abs(g).max()
    if isinstance(C, fw.Simplex):
        return C.radius * g.min()
    return -C.radius * np.linalg.norm(g, 2)  # L2Ball of vectors, NuclearBall of matrices


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "options", [{}, {"method": "rk44"}, {"line_search": "exact"}, {"momentum": "nesterov"}], ids=str
)
@pytest.mark.parametrize("C", [fw.L1Ball(2.0), fw.Simplex(3.0), fw.L2Ball(2.0)], ids=repr)
def test_value_and_gap_are_true_at_x(C, options, dtype):
    A, b = design(12, 6).astype(dtype), targets(12).astype(dtype)
    r = fw.minimize(fw.LinearModel(A, b), C, tol=0, max_iter=250, **options)
    value, g = squared_model(A, b, r.x)
    # Forward error of sums of n, then m, then n terms, from the same sums of absolute values.
    size, x = np.abs(A).astype(float), np.abs(r.x).astype(float)
    residual = size @ x + np.abs(b)
    slope = size.T @ residual / 12
    unit = (6 + 12 + 6) * float(np.finfo(dtype).eps)
    assert r.fun == pytest.approx(value, abs=unit * residual @ residual / 12)
    assert r.gap == pytest.approx(g @ r.x - support(C, g), abs=unit * (x @ slope + C.radius * slope.sum()))
    assert r.x.dtype == dtype


class Lossy(CountingDesign):
    """Columns that are off by a little, so that carried images drift; products are exact."""

    trusted = True

    def __init__(self, A):
        super().__init__(A)
        self.A = A

    def column(self, j):
        return DenseVertex(1.01 * self.A[:, j])


def test_a_drifted_image_is_not_reported():
    A, b = design(12, 6), targets(12)
    r = fw.minimize(fw.LinearModel(Lossy(A), b), fw.L1Ball(2.0), method="fw", tol=0, max_iter=50)
    value, g = squared_model(A, b, r.x)
    assert abs(r.trace["fun"][-1] - value) > 1e-3 * value
    assert r.fun == pytest.approx(value, rel=1e-12)
    assert r.gap == pytest.approx(g @ r.x + 2 * np.abs(g).max(), rel=1e-12)


def test_an_image_whose_gap_was_not_true_is_computed_afresh():
    A, b = design(12, 1), design(12, 1)[:, 0]
    r = fw.minimize(fw.LinearModel(Lossy(A), b), fw.L1Ball(2.0), line_search="exact", max_iter=100)
    assert (r.trace["gap"] <= 1e-6).sum() > 1  # the first of which was that of a drifted image
    assert (r.status, r.success) == (fw.Status.TOLERANCE, True)
    np.testing.assert_allclose(r.x, 1.0, rtol=1e-6)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"line_search": "exact"}, {"momentum": "nesterov"}], ids=str)
def test_gap_of_the_nuclear_ball_is_certified(options):
    f, C = completion(), fw.NuclearBall(4.0)
    r = fw.minimize(f, C, tol=0, max_iter=250, **options)
    X = r.x.to_dense()
    residual = X[f.rows, f.cols] - f.b
    G = np.zeros(f.shape)
    G[f.rows, f.cols] = np.clip(residual, -1, 1)
    value = np.sum(np.where(np.abs(residual) <= 1, residual**2 / 2, np.abs(residual) - 0.5))
    sigma = np.linalg.norm(G, 2)
    gap = np.vdot(G, X) + 4 * sigma
    rounding = 35 * EPS * 4 * sigma
    assert r.fun == pytest.approx(value, rel=35 * EPS)
    # The bound is proved with a margin of 1e-8 on the square of the singular value.
    assert gap - rounding <= r.gap <= gap + 1e-8 * 4 * sigma + rounding


@settings(deadline=None, max_examples=40, derandomize=True)
@given(seed=st.integers(0, 10**6), steps=st.integers(2, 4), rtol=st.sampled_from([0.3, 0.1, 0.03]))
def test_nuclear_ball_succeeds_only_with_a_certified_gap(seed, steps, rtol):
    f, C = completion(seed), fw.NuclearBall(4.0, steps=steps)
    r = fw.minimize(f, C, tol=0, rtol=rtol, max_iter=60, line_search="exact")
    X = r.x.to_dense()
    G = np.zeros(f.shape)
    G[f.rows, f.cols] = np.clip(X[f.rows, f.cols] - f.b, -1, 1)
    gap = np.vdot(G, X) + 4 * np.linalg.norm(G, 2)
    assert r.gap >= gap * (1 - 1e-9)
    assert r.success == (r.status is fw.Status.TOLERANCE)
    if r.success:
        assert gap <= rtol * r.trace["gap"][0] * (1 + 1e-9)


class Sloppy(fw.Simplex):
    """An oracle that takes the first entry within 0.01 of the best, and an honest bound."""

    def lmo(self, g, hint=None):
        return fw.OneHot(int((g <= g.min() + 0.01).argmax()), self.radius, g.shape)

    def lower_bound(self, g, vertex):
        return self.radius * float(g.min())


def test_an_inexact_oracle_does_not_make_a_success():
    g = np.array([-1.0, -1.005, 0.0])
    f = fw.Smooth(lambda x: float(g @ x), lambda x: g)
    r = fw.minimize(f, Sloppy(), np.eye(3)[0], method="fw", max_iter=20)
    assert (r.trace["gap"] == 0).all()
    assert (r.status, r.success) == (fw.Status.FINISHED, False)
    assert r.gap == pytest.approx(0.005, rel=1e-12)


def test_an_inexact_oracle_may_succeed_within_its_error():
    g = np.array([-1.0, -1.005, 0.0])
    f = fw.Smooth(lambda x: float(g @ x), lambda x: g)
    r = fw.minimize(f, Sloppy(), np.eye(3)[0], tol=0.006)
    assert r.success
    assert r.gap == pytest.approx(0.005, rel=1e-12)


@pytest.mark.parametrize("name", ["l2", "lp-3"])
def test_rounding_does_not_make_the_gap_negative(name):
    C, (n,) = SETS[name]
    raw = []
    for seed in range(10):
        f = OBJECTIVES["quadratic"](n, seed)
        r = fw.minimize(f, C, line_search="exact", tol=0, max_iter=60)
        point = f.point(r.x)
        raw.append(point.dot(f.gradient(point)) - C.lmo(f.gradient(point)).dot(f.gradient(point)))
        assert r.gap >= 0
    assert min(raw) < 0  # or there was nothing to test


def test_a_point_outside_the_set_is_no_success():
    # A callable cannot tell membership, but a gap of -2 proves that x0 is outside.
    f = fw.Smooth(lambda x: -x[0], lambda x: np.array([-1.0, 0.0]))
    r = fw.minimize(f, lambda g: np.eye(2)[g.argmin()], [3.0, 0.0], max_iter=0)
    assert not r.success


def test_the_warning_points_at_the_caller():
    with pytest.warns(fw.UncertifiedWarning, match="midpoint") as caught:
        fw.minimize(smooth(), BALL, X0, method="midpoint", max_iter=1)
    assert caught[0].filename == __file__


@settings(deadline=None, max_examples=60, derandomize=True)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1.0, 1e2, 1e4]))
def test_single_precision_does_not_make_a_success(seed, size):
    A, b = design(20, 8, seed).astype(np.float32), (size * targets(20, seed)).astype(np.float32)
    C = fw.L2Ball(3.0)
    r = fw.minimize(fw.LinearModel(A, b), C, line_search="exact", tol=1e-4, max_iter=30)
    _, g = squared_model(A, b, r.x)
    assert not r.success or g @ r.x - support(C, g) <= 1e-4


def test_cancellation_in_single_precision_does_not_make_a_success():
    # At an interior optimum the gap is what A x - b leaves, and A x alone is rounded by more than that.
    C, tol = fw.Box(-2e4, 2e4), 4.0
    for seed in range(150):
        rng = np.random.default_rng(seed)
        A = rng.uniform(0.5, 1.5, (20, 1)).astype(np.float32)
        b = (1e4 * A[:, 0] + rng.standard_normal(20)).astype(np.float32)
        r = fw.minimize(fw.LinearModel(A, b), C, line_search="exact", tol=tol, max_iter=5)
        _, g = squared_model(A, b, r.x)
        assert not r.success or g @ r.x + 2e4 * np.abs(g).sum() <= tol
