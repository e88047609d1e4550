"""minimize(): counters, stopping, truthfulness of the result, interruption, bad numbers, resuming, validation."""

import copy
import errno
import inspect
import os
import pickle
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.designs import DenseDesign
from fwflow.methods import Proposal
from fwflow.points.vertices import DenseVertex
from tests.catalogue import LINE_SEARCHES, MOMENTA, OBJECTIVES, SETS, design, labels, targets

EPS = np.finfo(float).eps
H, B = np.diag([1.0, 2.0, 3.0, 4.0]), np.array([1.0, -2.0, 0.5, 0.1])
X0 = np.array([0.0, 0.0, 0.0, -1.0])
BALL = fw.L1Ball(1.0)
ROUND = fw.L2Ball(1.0)  # no point is visited twice: its vertices never repeat


def fun(x):
    return float(0.5 * x @ H @ x - B @ x)


def grad(x):
    return H @ x - B


def smooth(fun=fun, grad=grad, **options):
    return fw.Smooth(fun, grad, smoothness=4.0, **options)


def oracle(g):
    return np.asarray(BALL.lmo(g))


def counted(function):
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args)

    wrapper.calls = 0
    return wrapper


def raising(function, call, error):
    """The function, but its call of that number (from 1) raises."""

    def wrapper(*args, **options):
        wrapper.calls += 1
        if wrapper.calls == call:
            raise error
        return function(*args, **options)

    wrapper.calls = 0
    return wrapper


def poisoned(function, where, value):
    """The function, but at that very point every number is `value`."""

    def wrapper(x):
        result = function(x)
        return result * 0 + value if np.array_equal(x, where) else result

    return wrapper


def iterates(*args, **options):
    """The points x^(k) of a run, and its result."""
    points = []
    result = fw.minimize(*args, **options, callback=lambda state: points.append(np.array(state.x)))
    return points, result


def completion(seed=0, shape=(7, 5)):
    rng = np.random.default_rng(seed)
    rows, cols = np.nonzero(rng.random(shape) < 0.6)
    return fw.MatrixCompletion(rows, cols, 3 * rng.standard_normal(len(rows)), shape, loss="huber", rho=1.0)


class CountingDesign(fw.Design):
    """A design of one's own, which counts its products."""

    def __init__(self, A):
        self.inner, self.shape, self.dtype = DenseDesign(A), A.shape, A.dtype
        self.products = {name: counted(getattr(self.inner, name)) for name in ("matvec", "rmatvec")}

    def matvec(self, x):
        return self.products["matvec"](x)

    def rmatvec(self, r):
        return self.products["rmatvec"](r)

    def column(self, j):
        return self.inner.column(j)


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("line_search", LINE_SEARCHES)
@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize("tol", [0, 0.05])
def test_counts_equal_calls(method, line_search, momentum, tol):
    f, C = smooth(fun, counted(grad)), counted(oracle)
    r = fw.minimize(f, C, X0, method=method, line_search=line_search, momentum=momentum, tol=tol, max_iter=20)
    assert (r.n_grad, r.n_lmo, r.n_design) == (f.grad.calls, C.calls, 0)
    assert r.state.counts.n_grad == r.n_grad


def test_the_oracle_call_for_the_start_counts():
    C = counted(oracle)
    r = fw.minimize(smooth(shape=(4,)), C, max_iter=3)
    assert r.n_lmo == C.calls


@pytest.mark.parametrize("line_search", [None, "exact", "armijo"])
def test_calls_of_a_joint_function_are_gradients(line_search):
    both = counted(lambda x: (fun(x), grad(x)))
    r = fw.minimize(smooth(both, True), BALL, X0, line_search=line_search, tol=0, max_iter=20)
    assert r.n_grad == both.calls


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("options", [{}, {"method": "rk44"}, {"line_search": "exact"}], ids=str)
@pytest.mark.parametrize("name", ["l1", "l2", "hull", "translated", "product", "scaled"])
def test_design_products_are_counted(name, options, momentum):
    A = CountingDesign(design(12, 6))
    f = fw.LinearModel(A, labels(12), "logistic")
    r = fw.minimize(f, SETS[name][0], momentum=momentum, tol=0, max_iter=10, **options)
    assert r.n_grad == A.products["rmatvec"].calls
    assert r.n_design == A.products["rmatvec"].calls + A.products["matvec"].calls


@pytest.mark.parametrize("name", ["l1", "translated"])
def test_counts_of_a_continued_run_equal_calls(name):
    A = CountingDesign(design(12, 6))
    f, C = fw.LinearModel(A, targets(12)), SETS[name][0]
    part = fw.minimize(f, C, tol=0, max_iter=4)
    r = fw.minimize(f, C, tol=0, max_iter=4, state=part.state)
    assert r.n_grad == A.products["rmatvec"].calls
    assert r.n_design == A.products["rmatvec"].calls + A.products["matvec"].calls


def test_one_hot_vertices_need_no_product():
    A = CountingDesign(design(12, 6))
    r = fw.minimize(fw.LinearModel(A, targets(12)), fw.L1Ball(1.0), method="rk44", tol=0, max_iter=250)
    # The start, the refresh at iteration 200, and the verification of the result.
    assert A.products["matvec"].calls == 3
    assert A.products["rmatvec"].calls == 4 * 250 + 1 + 1
    assert r.n_lmo == 4 * 250 + 1 + 1


@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize(("method", "stages"), [("fw", 1), ("rk44", 4)])
def test_trace_counts_agree_with_the_result(method, stages, momentum):
    f = OBJECTIVES["squared"](6, 0)
    r = fw.minimize(f, fw.L1Ball(1.0), method=method, momentum=momentum, tol=0, max_iter=12)
    for column in ("n_grad", "n_lmo", "n_design", "time"):
        assert (np.diff(r.trace[column]) >= 0).all()
    for column in ("n_grad", "n_lmo", "n_design"):
        assert 0 < r.trace[column][-1] <= getattr(r, column)
    assert r.n_grad == r.trace["n_grad"][-1] + 1  # verified with a fresh image
    if momentum is None:
        assert r.trace["n_grad"].tolist() == r.trace["n_lmo"].tolist() == [1 + stages * k for k in range(13)]
    assert len(r.trace) == r.nit + 1


def test_absolute_tolerance():
    r = fw.minimize(smooth(), BALL, X0, method="fw", tol=1e-2)
    assert (r.status, r.success) == (fw.Status.TOLERANCE, True)
    assert r.message.startswith(fw.Status.TOLERANCE.value)
    gap = r.trace["gap"]
    assert gap[-1] <= 1e-2 < gap[:-1].min()
    assert r.gap == gap[-1]


@pytest.mark.parametrize("tol", [0, 1e-3, 10.0])
def test_relative_tolerance(tol):
    r = fw.minimize(smooth(), BALL, X0, tol=tol, rtol=0.02)
    gap = r.trace["gap"]
    threshold = max(tol, 0.02 * gap[0])
    assert r.success
    assert gap[-1] <= threshold < min(gap[:-1], default=np.inf)


def test_relative_tolerance_keeps_to_the_first_gap_when_resumed():
    whole = fw.minimize(smooth(), BALL, X0, tol=0, rtol=0.02)
    part = fw.minimize(smooth(), BALL, X0, tol=0, rtol=0.02, max_iter=whole.nit // 2)
    rest = fw.minimize(smooth(), BALL, tol=0, rtol=0.02, state=part.state)
    assert (rest.status, rest.nit) == (fw.Status.TOLERANCE, whole.nit)


def test_iteration_limit():
    r = fw.minimize(smooth(), BALL, X0, method="fw", max_iter=7)
    assert (r.status, r.success, r.nit, len(r.trace)) == (fw.Status.ITERATIONS, False, 7, 8)
    assert r.message == fw.Status.ITERATIONS.value
    assert r.gap > 1e-6


def test_time_limit(monkeypatch):
    seconds = iter(range(10**6))
    monkeypatch.setattr(sys.modules["fwflow.run.loop"], "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    r = fw.minimize(smooth(), BALL, X0, method="fw", max_time=5)
    # The clock is read once at the start and once per row: row k is written at k + 1 seconds.
    assert (r.status, r.success, r.nit) == (fw.Status.TIME, False, 4)
    assert r.trace["time"].tolist() == [1, 2, 3, 4, 5]
    more = fw.minimize(smooth(), BALL, method="fw", max_time=5, state=r.state)
    assert more.status is fw.Status.TIME
    assert more.nit > r.nit
    assert (np.diff(more.trace["time"]) > 0).all()
    assert more.trace["time"][-1] >= 10


def test_callback_stops():
    seen = []
    r = fw.minimize(smooth(), BALL, X0, callback=lambda state: seen.append(state.k) or state.k == 3)
    assert (r.status, r.success, r.nit, seen) == (fw.Status.CALLBACK, False, 3, [0, 1, 2, 3])
    assert r.message == fw.Status.CALLBACK.value


@pytest.mark.parametrize("value", [None, False, 0, np.False_])
def test_callback_goes_on(value):
    assert fw.minimize(smooth(), BALL, X0, max_iter=4, callback=lambda state: value).nit == 4


@pytest.mark.parametrize("options", [{"max_iter": 5}, {"tol": 1e-2}, {"max_iter": 0}], ids=str)
def test_callback_sees_every_iterate(options):
    rows = []
    r = fw.minimize(smooth(), BALL, X0, method="fw", callback=lambda s: rows.append((s.k, s.fun, s.gap)), **options)
    assert [row[0] for row in rows] == list(range(r.nit + 1))
    assert [row[1] for row in rows] == r.trace["fun"].tolist()
    assert [row[2] for row in rows] == r.trace["gap"].tolist()


@pytest.mark.parametrize("line_search", [None, "exact"])
def test_zero_tolerance_runs_to_the_limit(line_search):
    # The optimum is a vertex, reached with a gap of exactly zero.
    f = fw.Quadratic(np.eye(3), [3.0, 0.0, 0.0])
    r = fw.minimize(f, fw.Simplex(), tol=0, max_iter=30, line_search=line_search)
    assert (r.status, r.success, r.nit, r.gap) == (fw.Status.ITERATIONS, True, 30, 0.0)
    assert (r.trace["gap"][5:] == 0).all()


def test_no_iterations():
    r = fw.minimize(smooth(), BALL, X0, max_iter=0)
    assert (r.status, r.nit, len(r.trace)) == (fw.Status.ITERATIONS, 0, 1)
    np.testing.assert_array_equal(r.x, X0)
    assert r.fun == fun(X0)


def test_no_iterations_may_still_succeed():
    r = fw.minimize(smooth(), BALL, X0, max_iter=0, tol=100.0)
    assert (r.status, r.nit, r.success) == (fw.Status.TOLERANCE, 0, True)


@pytest.mark.parametrize(
    "options", [{"max_iter": 9}, {"tol": 0.5}, {"max_time": 1e-9}, {"tol": 0, "rtol": 0.1}], ids=str
)
def test_planned_ends_return_the_last_iterate(options):
    r = fw.minimize(smooth(), BALL, X0, **options)
    points, _ = iterates(smooth(), BALL, X0, tol=0, max_iter=max(r.nit, 1))
    np.testing.assert_array_equal(r.x, points[r.nit])
    np.testing.assert_array_equal(r.x, r.state.x)
    assert (r.fun, r.state.k) == (r.trace["fun"][-1], r.nit)


def support(C, g):
    """min <g, s> over the set, by formula."""
    if isinstance(C, fw.L1Ball):
        return -C.radius * np.abs(g).max()
    if isinstance(C, fw.Simplex):
        return C.radius * g.min()
    return -C.radius * np.linalg.norm(g, 2)  # L2Ball of vectors, NuclearBall of matrices


def squared_model(A, b, x):
    """Value and gradient of the mean squared loss, in double precision."""
    A, b, x = (np.asarray(v, dtype=np.float64) for v in (A, b, x))
    r = A @ x - b
    return r @ r / (2 * len(b)), A.T @ r / len(b)


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


def test_result_is_a_copy():
    r = fw.minimize(smooth(), BALL, X0, max_iter=5)
    before = r.state.x.copy()
    r.x[:] = 99.0
    np.testing.assert_array_equal(r.state.x, before)


def test_factored_result_is_a_copy():
    r = fw.minimize(completion(), fw.NuclearBall(4.0), max_iter=5)
    before = r.state.x.to_dense()
    with pytest.raises(ValueError, match="read-only"):
        r.x.U[:] = 99.0
    r.x.to_dense()[:] = 99.0
    np.testing.assert_array_equal(r.state.x.to_dense(), before)


def test_start_is_not_changed():
    x0 = X0.copy()
    r = fw.minimize(smooth(), BALL, x0, max_iter=5)
    np.testing.assert_array_equal(x0, X0)
    assert not np.shares_memory(fw.minimize(smooth(), BALL, x0, max_iter=0).x, x0)
    assert not np.shares_memory(r.state.x, x0)


@pytest.mark.parametrize("name", SETS)
def test_zero_gradient_is_optimal_everywhere(name):
    C, shape = SETS[name]
    f = fw.Smooth(lambda x: 1.0, np.zeros_like)
    r = fw.minimize(f, C, C.start(shape), tol=1e-12)
    assert (r.success, r.nit, r.gap, r.fun) == (True, 0, 0.0, 1.0)
    assert fw.minimize(f, C, C.start(shape), tol=0, max_iter=3, method="rk44").gap == 0


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", SETS)
def test_single_precision_stays_single(name):
    C, shape = SETS[name]
    seen = []
    f = fw.Smooth(lambda x: 0.5 * float(((x - 3) ** 2).sum()), lambda x: seen.append(x.dtype) or x - 3)
    x0 = C.start(shape, np.float32)
    for momentum in MOMENTA:
        r = fw.minimize(f, C, x0, method="rk44", momentum=momentum, line_search="exact", max_iter=4)
        assert r.x.dtype == np.float32
    assert set(seen) == {np.dtype(np.float32)}


def test_the_oracle_sees_the_precision_of_x():
    seen = []
    f = smooth(fun, lambda x: grad(x).astype(np.float64).tolist())
    fw.minimize(f, lambda g: seen.append(g.dtype) or oracle(g), X0.astype(np.float32), method="rk44", max_iter=3)
    assert set(seen) == {np.dtype(np.float32)}


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("convert", [sp.csr_array, sp.csc_array, sp.coo_array, np.asfortranarray])
def test_storage_of_the_data_does_not_matter(convert, loss):
    A = design(12, 6) * (design(12, 6, 1) > 0)
    b = labels(12)
    plain, other = (
        fw.minimize(fw.LinearModel(M, b, loss), fw.L1Ball(2.0), method="fw", max_iter=50) for M in (A, convert(A))
    )
    # The same vertices with the same weights; only sums of the gradient may be rounded differently.
    np.testing.assert_array_equal(other.x, plain.x)
    assert other.gap == pytest.approx(plain.gap, abs=(12 + 6) * EPS * 4 * np.abs(A).sum())


def test_huge_radius():
    A, b = design(12, 6), targets(12)
    least, *_ = np.linalg.lstsq(A, b)
    r = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(1e8), line_search="exact", max_iter=50)
    best, _ = squared_model(A, b, least)
    assert np.isfinite(r.gap)
    assert best <= r.fun <= best + r.gap


def test_overflow_is_reported_and_the_start_returned():
    f = fw.LinearModel(np.eye(3), np.ones(3))
    with np.errstate(over="ignore"):
        r = fw.minimize(f, fw.L1Ball(1e200), method="fw")
    assert (r.status, r.nit) == (fw.Status.NUMERICAL, 1)
    np.testing.assert_array_equal(r.x, np.zeros(3))


@pytest.mark.parametrize(
    ("method", "momentum", "line_search"),
    [
        ("rk44", None, None),
        ("rk44", None, "exact"),
        ("rk44", "lmo-averaging", None),
        ("fw", "nesterov", "exact"),
        ("fw", "gradient-averaging", "adaptive"),
    ],
)
def test_gradients_may_come_in_a_reused_buffer(method, momentum, line_search):
    buffer = np.empty(4)

    def refill(x):
        buffer[:] = grad(x)
        return buffer

    options = {"method": method, "momentum": momentum, "line_search": line_search, "tol": 0, "max_iter": 15}
    mine, theirs = (fw.minimize(smooth(fun, g), BALL, X0, **options) for g in (grad, refill))
    np.testing.assert_array_equal(theirs.x, mine.x)
    np.testing.assert_array_equal(theirs.trace["gap"], mine.trace["gap"])


class Recording(fw.L1Ball):
    """A set that remembers what it was asked with and what it answered."""

    def lmo(self, g, hint=None):
        self.hints.append(hint)
        self.answers.append(super().lmo(g))
        return self.answers[-1]


@pytest.mark.parametrize(
    "options", [{"method": "fw"}, {"line_search": "exact"}, {"momentum": "nesterov", "check_every": 100}], ids=str
)
def test_the_oracle_is_handed_its_previous_answer(options):
    C = Recording(1.0)
    C.hints, C.answers = [], []
    fw.minimize(smooth(), C, X0, tol=0, max_iter=5, **options)
    fresh = 2 if "momentum" in options else 1  # the gap at the start, and the first average
    assert C.hints[:fresh] == [None] * fresh
    for hint, answer in zip(C.hints[fresh:6], C.answers[fresh - 1 : 5], strict=True):
        assert hint is answer


def test_scaled_nuclear_ball_is_a_nuclear_ball():
    f = completion()
    scaled, plain = (fw.minimize(f, C, max_iter=20) for C in (2.0 * fw.NuclearBall(2.0), fw.NuclearBall(4.0)))
    # Both hold certified gaps of nearby points: the scaled set finds its vertices without warm starts.
    assert scaled.fun - scaled.gap <= plain.fun
    assert plain.fun - plain.gap <= scaled.fun


@pytest.mark.parametrize(
    "x0", [[0, 0, 0, -1], (0, 0, 0, -1), np.array([0, 0, 0, -1]), np.array([0, 0, 0, -1], np.int8)]
)
def test_any_real_array_will_do_as_start(x0):
    r = fw.minimize(smooth(), BALL, x0, max_iter=5)
    np.testing.assert_array_equal(r.x, fw.minimize(smooth(), BALL, X0, max_iter=5).x)
    assert r.x.dtype == np.float64


def test_memory_order_of_the_start_does_not_matter():
    T = np.arange(12.0).reshape(4, 3)
    f = fw.Smooth(lambda X: 0.5 * float(np.sum((X - T) ** 2)), lambda X: X - T)
    x0 = np.zeros((4, 3))
    x0[2, 1] = 1.0
    for C in (fw.L1Ball(2.0), fw.NuclearBall(2.0), fw.Box(-1.0, 1.0)):
        c, fortran = (fw.minimize(f, C, np.array(x0, order=order), max_iter=7, tol=0) for order in "CF")
        np.testing.assert_array_equal(fortran.x, c.x)


BAD_STARTS = {
    "outside": [1.0, 1.0, 0.0, 0.0],
    "NaN": [np.nan, 0, 0, 0],
    "infinite": [np.inf, 0, 0, 0],
    "complex": [1j, 0, 0, 0],
    "text": "start",
    "ragged": [[1.0], [1.0, 2.0]],
    "object": [None] * 4,
    "number": 0.5,
    "empty": [],
}


@pytest.mark.parametrize("name", BAD_STARTS)
def test_bad_start_is_refused(name):
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(smooth(), BALL, BAD_STARTS[name], max_iter=3)


@pytest.mark.parametrize("shape", [(5,), (7,), (6, 1), (1, 6), (2, 3), ()])
def test_start_of_the_wrong_shape_for_the_objective(shape):
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), np.zeros(shape))


@pytest.mark.parametrize("name", [name for name, (C, _) in SETS.items() if getattr(C, "shape", None)])
def test_start_of_the_wrong_shape_for_the_set(name):
    C, shape = SETS[name]
    start = np.asarray(C.start(shape)).ravel()
    f = fw.Smooth(lambda x: 0.5 * float(np.vdot(x, x)), lambda x: x)
    with pytest.raises(ValueError, match="x0"):
        fw.minimize(f, C, np.append(start, 0.0), max_iter=3)


@pytest.mark.parametrize("name", SETS)
def test_start_outside_any_set_is_refused(name):
    C, shape = SETS[name]
    outside = np.asarray(C.start(shape)) + C.diameter(shape) + 1.0
    f = fw.Smooth(lambda x: 0.5 * float(np.vdot(x, x)), lambda x: x)
    with pytest.raises(ValueError, match="x0 lies outside"):
        fw.minimize(f, C, outside)


@pytest.mark.parametrize(
    "C",
    [BALL, fw.Simplex(), fw.Box(-1.0, 2.0), oracle, 2.0 * BALL],
    ids=["ball", "simplex", "box", "callable", "scaled"],
)
def test_unknown_dimension_is_an_error(C):
    with pytest.raises(ValueError, match="x0 is needed"):
        fw.minimize(smooth(), C, max_iter=3)


@pytest.mark.parametrize("options", [{}, {"tol": 0.1}, {"momentum": "nesterov"}], ids=str)
def test_nothing_is_printed_unless_asked(capfd, options):
    fw.minimize(smooth(), BALL, X0, max_iter=20, **options)
    assert capfd.readouterr() == ("", "")


def test_progress_goes_to_stderr(capfd):
    r = fw.minimize(smooth(), BALL, X0, method="fw", max_iter=20, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "20/20" in err
    assert f"gap={r.trace['gap'][-1]:.2e}" in err


@pytest.mark.parametrize("line_search", [None, "exact"])
@pytest.mark.parametrize("C", [fw.L1Ball(2.0), fw.L2Ball(2.0)], ids=repr)
def test_check_every_leaves_the_run_alone(C, line_search):
    f = OBJECTIVES["quadratic"](6, 0)
    options = {"momentum": "nesterov", "line_search": line_search, "tol": 0, "max_iter": 20}
    every, third = (fw.minimize(f, C, check_every=n, **options) for n in (1, 3))
    np.testing.assert_array_equal(every.x, third.x)
    checked = np.arange(21) % 3 == 0
    checked[-1] = True
    np.testing.assert_array_equal(np.isnan(third.trace["gap"]), ~checked)
    np.testing.assert_array_equal(third.trace["gap"][checked], every.trace["gap"][checked])
    assert third.gap == every.gap
    assert third.n_grad < every.n_grad
    assert third.n_lmo < every.n_lmo


@pytest.mark.parametrize("momentum", [None, "gradient-averaging", "lmo-averaging"])
def test_check_every_changes_nothing_where_the_gap_is_free(momentum):
    r = fw.minimize(smooth(), BALL, X0, method="fw", momentum=momentum, check_every=5, tol=0, max_iter=8)
    assert np.isfinite(r.trace["gap"]).all()


def test_check_every_delays_the_stop():
    options = {"momentum": "nesterov", "tol": 0.05}
    first = fw.minimize(smooth(), BALL, X0, **options)
    r = fw.minimize(smooth(), BALL, X0, check_every=7, **options)
    assert r.success
    assert r.nit % 7 == 0
    assert r.nit >= first.nit


PLAIN = {"tol": 0, "max_iter": 30}


def interrupted(where, call, **options):
    parts = {"fun": fun, "grad": grad, "lmo": oracle, "callback": lambda state: None}
    parts[where] = raising(parts[where], call, KeyboardInterrupt)
    f = smooth(parts["fun"], parts["grad"])
    return fw.minimize(f, parts["lmo"], X0, callback=parts["callback"], **(PLAIN | options))


def assert_same_run(r, whole, columns=("fun", "gap", "step")):
    for name in ("U", "V") if isinstance(r.x, fw.LowRank) else ("real",):
        np.testing.assert_array_equal(getattr(r.x, name), getattr(whole.x, name))
    for column in columns:
        np.testing.assert_array_equal(r.trace[column], whole.trace[column])
    assert (r.nit, r.fun, r.gap) == (whole.nit, whole.fun, whole.gap)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "options", [{"method": "fw"}, {"method": "rk44"}, {"line_search": "exact"}, {"momentum": "nesterov"}], ids=str
)
@pytest.mark.parametrize("call", [1, 2, 12, 13])
@pytest.mark.parametrize("where", ["fun", "grad", "lmo", "callback"])
def test_interrupt_returns_the_best_point_and_continues(where, call, options):
    r = interrupted(where, call, **options)
    assert (r.status, r.success) == (fw.Status.INTERRUPTED, False)
    assert r.message == fw.Status.INTERRUPTED.value
    assert r.fun == fun(r.x)
    assert r.fun == min(r.trace["fun"], default=fun(X0))
    g = grad(r.x)
    assert r.gap == pytest.approx(g @ r.x + np.abs(g).max(), abs=16 * EPS * np.abs(g).max())
    whole = fw.minimize(smooth(), oracle, X0, **(PLAIN | options))
    rest = fw.minimize(smooth(), oracle, state=r.state, **(PLAIN | options | {"max_iter": 30 - r.nit}))
    assert_same_run(rest, whole, columns=("fun", "gap"))


@pytest.mark.parametrize("where", ["fun", "grad", "lmo", "callback"])
def test_interrupt_keeps_the_step_column_whole(where):
    r = interrupted(where, 12)
    rest = fw.minimize(smooth(), oracle, state=r.state, tol=0, max_iter=30 - r.nit)
    assert_same_run(rest, fw.minimize(smooth(), oracle, X0, **PLAIN))


@pytest.mark.parametrize("where", ["matvec", "rmatvec", "lmo"])
def test_interrupt_of_the_final_verification_loses_nothing(where):
    def run(call, **options):
        parts = {"A": CountingDesign(design(12, 4)), "lmo": oracle}
        owner = parts if where == "lmo" else parts["A"].products
        owner[where] = raising(owner[where], call, KeyboardInterrupt)
        r = fw.minimize(fw.LinearModel(parts["A"], targets(12)), parts["lmo"], tol=0, **options)
        return r, owner[where].calls

    whole, calls = run(None, x0=X0, max_iter=30)
    try:
        r, _ = run(calls, x0=X0, max_iter=30)  # the last call is made to verify
    except KeyboardInterrupt:  # which would end the whole test run
        pytest.fail("the interrupt was passed on and the result lost")
    assert (r.status, r.nit) == (fw.Status.INTERRUPTED, 30)
    assert_same_run(run(None, state=r.state, max_iter=0)[0], whole)


def test_the_best_point_is_not_just_the_last():
    whole = fw.minimize(smooth(), oracle, X0, method="fw", **PLAIN)
    values = whole.trace["fun"]
    k = next(k for k in range(5, 30) if values[k] > values[:k].min())
    r = interrupted("callback", k + 1, method="fw")
    assert r.nit == k
    assert r.fun == values[: k + 1].min() < values[k]
    planned = fw.minimize(smooth(), oracle, X0, method="fw", tol=0, max_iter=k)
    assert planned.fun == values[k] == fun(planned.x)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["fun", "grad"])
@pytest.mark.parametrize("options", [{"method": "fw"}, {"method": "rk44"}, {"momentum": "nesterov"}], ids=str)
def test_bad_number_at_an_iterate(options, where, bad):
    points, clean = iterates(smooth(), ROUND, X0, tol=0, max_iter=9, **options)
    parts = {"fun": fun, "grad": grad}
    parts[where] = poisoned(parts[where], points[6], bad)
    r = fw.minimize(smooth(**parts), ROUND, X0, tol=0, max_iter=9, **options)
    assert (r.status, r.success, r.nit) == (fw.Status.NUMERICAL, False, 6)
    assert r.message.startswith(fw.Status.NUMERICAL.value)
    assert "iteration 6" in r.message
    assert r.fun == clean.trace["fun"][:6].min() == fun(r.x)
    assert np.isfinite(r.gap)
    np.testing.assert_array_equal(r.trace["fun"], clean.trace["fun"][:6])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("method", "stage"), [("heun", 1), ("rk44", 1), ("rk44", 3)])
def test_bad_gradient_at_a_stage(method, stage, bad):
    asked = []
    clean = fw.minimize(smooth(fun, lambda x: asked.append(x) or grad(x)), BALL, X0, method=method, **PLAIN)
    q = fw.tableaus[method].stages
    r = fw.minimize(smooth(fun, poisoned(grad, asked[5 * q + stage], bad)), BALL, X0, method=method, **PLAIN)
    assert (r.status, r.nit, len(r.trace)) == (fw.Status.NUMERICAL, 5, 6)
    assert "iteration 5" in r.message
    assert "gradient" in r.message
    assert r.fun == clean.trace["fun"][:6].min() == fun(r.x)


def test_bad_value_at_the_start():
    r = fw.minimize(smooth(lambda x: np.nan), BALL, X0)
    assert (r.status, r.nit, len(r.trace)) == (fw.Status.NUMERICAL, 0, 0)
    assert "iteration 0" in r.message
    assert np.isnan(r.fun)
    np.testing.assert_array_equal(r.x, X0)


def test_bad_gradient_at_the_start():
    r = fw.minimize(smooth(fun, lambda x: x * np.nan), BALL, X0)
    assert (r.status, r.nit, r.fun) == (fw.Status.NUMERICAL, 0, fun(X0))
    assert "iteration 0" in r.message
    assert np.isnan(r.gap)
    assert r.feasible is True


def test_bad_gradient_at_a_rounded_start_keeps_its_feasibility():
    # Membership has one tolerance, whatever the ending.
    x0 = np.array([1 + 1e-6, 0], dtype=np.float32)
    good = fw.minimize(fw.Smooth(lambda x: 1.0, lambda x: x), BALL, x0, max_iter=0)
    bad = fw.minimize(fw.Smooth(lambda x: 1.0, lambda x: x * np.nan), BALL, x0, max_iter=0)
    assert good.feasible is bad.feasible is True


def test_bad_vertex():
    points, clean = iterates(smooth(), oracle, X0, tol=0, max_iter=9)
    r = fw.minimize(smooth(), poisoned(oracle, grad(points[4]), np.nan), X0, tol=0, max_iter=9)
    assert (r.status, r.fun) == (fw.Status.NUMERICAL, clean.trace["fun"][:5].min())


def test_bad_number_off_the_checked_iterates():
    # The gradient at x^(k) is not asked for between the checks, so the run goes on.
    options = {"momentum": "nesterov", "check_every": 4, "tol": 0}
    points, clean = iterates(smooth(), ROUND, X0, max_iter=9, **options)
    f = smooth(fun, poisoned(grad, points[6], np.nan))
    assert fw.minimize(f, ROUND, X0, max_iter=9, **options).fun == clean.fun
    # A stop there asks for it after all.
    r = fw.minimize(f, ROUND, X0, callback=lambda state: state.k == 6, **options)
    assert (r.status, r.success, r.nit) == (fw.Status.NUMERICAL, False, 6)
    assert r.fun == clean.trace["fun"][:7].min() == fun(r.x)


@pytest.mark.parametrize(("line_search", "momentum"), [*((name, None) for name in LINE_SEARCHES), (None, "nesterov")])
def test_a_function_is_not_evaluated_outside_its_domain(line_search, momentum):
    def inside(x):
        return bool((x > 0).all())

    def log_barrier(x):
        assert inside(x)
        return float(-np.log(x).sum())

    def log_gradient(x):
        assert inside(x)
        return -1 / x

    f = fw.Smooth(log_barrier, log_gradient, domain=inside, smoothness=100.0)
    r = fw.minimize(f, fw.Simplex(), [0.2, 0.8], momentum=momentum, line_search=line_search, max_iter=20, check_every=5)
    assert inside(r.x)
    assert r.fun == log_barrier(r.x)


class Mine(Exception):
    pass


@pytest.mark.parametrize("error", [Mine("mine"), ValueError("mine"), ArithmeticError("mine"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("call", [1, 5])
@pytest.mark.parametrize("where", ["fun", "grad", "lmo", "callback"])
def test_user_errors_propagate_unchanged(where, call, error):
    parts = {"fun": fun, "grad": grad, "lmo": oracle, "callback": lambda state: None}
    parts[where] = raising(parts[where], call, error)
    with pytest.raises(type(error)) as caught:
        fw.minimize(smooth(parts["fun"], parts["grad"]), parts["lmo"], X0, callback=parts["callback"])
    assert caught.value is error


def reload(state, tmp_path):
    state.save(tmp_path / "run.state")
    return fw.State.load(tmp_path / "run.state")


PROBLEMS = {
    "linear": (lambda: OBJECTIVES["logistic"](6, 0), fw.L1Ball(3.0), None),
    "smooth": (smooth, BALL, X0),
    "completion": (completion, fw.NuclearBall(4.0), None),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("line_search", [None, "adaptive", "exact"])
@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_saved_run_continues_bit_for_bit(problem, momentum, line_search, tmp_path):
    make, C, x0 = PROBLEMS[problem]
    options = {"method": "heun", "momentum": momentum, "line_search": line_search, "tol": 0}
    whole = fw.minimize(make(), C, x0, max_iter=204, **options)
    part = fw.minimize(make(), C, x0, max_iter=197, **options)
    r = fw.minimize(make(), C, state=reload(part.state, tmp_path), max_iter=7, **options)
    assert_same_run(r, whole)
    assert (r.nit, len(r.trace)) == (204, 205)
    # The last evaluation is repeated; the verification there may have needed one of its own.
    assert whole.n_grad < r.n_grad <= whole.n_grad + 2
    assert whole.n_lmo < r.n_lmo <= whole.n_lmo + 2


@pytest.mark.parametrize("split", [0, 1, 199, 200, 201])
def test_a_run_may_be_split_anywhere(split, tmp_path):
    f, C = OBJECTIVES["logistic"](6, 0), fw.L1Ball(3.0)
    options = {"method": "fw", "tol": 0}
    whole = fw.minimize(f, C, max_iter=204, **options)
    part = fw.minimize(f, C, max_iter=split, **options)
    assert_same_run(fw.minimize(f, C, max_iter=204 - split, state=reload(part.state, tmp_path), **options), whole)


def test_a_state_saved_by_the_callback_continues(tmp_path):
    f, C = completion(), fw.NuclearBall(4.0)

    def save(state):
        if state.k == 5:
            state.save(tmp_path / "run.state")

    whole = fw.minimize(f, C, tol=0, max_iter=12, momentum="nesterov", callback=save)
    state = fw.State.load(tmp_path / "run.state")
    assert state.k == 5
    assert_same_run(fw.minimize(f, C, tol=0, max_iter=7, momentum="nesterov", state=state), whole)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("momentum", MOMENTA)
def test_continuing_leaves_the_state_as_it_was(problem, momentum):
    make, C, x0 = PROBLEMS[problem]
    options = {"momentum": momentum, "line_search": "adaptive", "tol": 0}
    part = fw.minimize(make(), C, x0, max_iter=6, **options)
    before = copy.deepcopy(part.state)
    first, second = (fw.minimize(make(), C, state=part.state, max_iter=9, **options) for _ in range(2))
    assert_same_run(first, second)
    assert (first.n_grad, first.n_lmo, first.n_design) == (second.n_grad, second.n_lmo, second.n_design)
    assert (len(part.trace), part.state.k, part.state.counts) == (7, 6, before.counts)
    np.testing.assert_array_equal(np.asarray(part.state.x), np.asarray(before.x))


OTHER_METHODS = [
    {"method": "heun"},
    {"schedule": fw.OpenLoop(c=3.0)},
    {"line_search": "exact"},
    {"momentum": "nesterov"},
]


@pytest.mark.parametrize("other", OTHER_METHODS, ids=str)
def test_a_state_of_another_method_is_refused(other):
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(ValueError, match="state belongs to"):
        fw.minimize(smooth(), BALL, state=state, **other)


def test_a_state_of_another_tableau_of_the_same_name_is_refused():
    heun = fw.Tableau([[0, 0], [1, 0]], [1 / 2, 1 / 2])
    slower = fw.Tableau([[0, 0], [0.9, 0]], [1 - 1 / 1.8, 1 / 1.8])
    assert heun.order == slower.order == 2
    schedule = fw.OpenLoop(k0=20)
    state = fw.minimize(smooth(), BALL, X0, max_iter=3, method=heun, schedule=schedule).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(smooth(), BALL, state=state, method=slower, schedule=schedule)


def test_a_state_of_another_problem_is_refused():
    state = fw.minimize(OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), max_iter=3).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(OBJECTIVES["squared"](5, 0), fw.L1Ball(1.0), state=state)


@pytest.mark.parametrize("rows", [11, 13])
def test_a_state_with_an_image_of_another_size_is_refused(rows):
    state = fw.minimize(OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), max_iter=3).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(fw.LinearModel(design(rows, 6), targets(rows)), fw.L1Ball(1.0), state=state)


def test_a_state_without_the_image_is_refused():
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(ValueError, match="state"):
        fw.minimize(fw.Quadratic(H, B), BALL, state=state)


def test_state_and_start_exclude_each_other():
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(ValueError, match="x0 and state"):
        fw.minimize(smooth(), BALL, X0, state=state)


@pytest.mark.parametrize("present", [True, False])
def test_a_failed_save_leaves_no_trace(present, monkeypatch, tmp_path):
    path = tmp_path / "run.state"
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    if present:
        state.save(path)
    monkeypatch.setattr(os, "fsync", raising(os.fsync, 1, OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(OSError, match=r"No space left.*not saved.*run\.state"):
        state.save(path)
    assert [p.name for p in tmp_path.iterdir()] == (["run.state"] if present else [])
    if present:
        assert fw.State.load(path).k == 3


def test_an_interrupted_save_leaves_no_trace(monkeypatch, tmp_path):
    monkeypatch.setattr(os, "fsync", raising(os.fsync, 1, KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        fw.minimize(smooth(), BALL, X0, max_iter=3).state.save(tmp_path / "run.state")
    assert not list(tmp_path.iterdir())


def test_saving_onto_a_directory(tmp_path):
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        state.save(tmp_path / "taken")
    assert [p.name for p in tmp_path.iterdir()] == ["taken"]


def test_saving_where_nothing_can_be_written(monkeypatch, tmp_path):
    state = fw.minimize(smooth(), BALL, X0, max_iter=3).state
    with pytest.raises(FileNotFoundError):
        state.save(tmp_path / "nowhere" / "run.state")
    # Permissions do not bind every user, so the refusal is simulated.
    monkeypatch.setattr(os, "replace", raising(os.replace, 1, PermissionError(errno.EACCES, "Permission denied")))
    with pytest.raises(PermissionError):
        state.save(tmp_path / "run.state")
    assert not list(tmp_path.iterdir())


def test_save_accepts_text_and_relative_paths(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    fw.minimize(smooth(), BALL, X0, max_iter=3).state.save("run.state")
    assert fw.State.load("run.state").k == 3


FOREIGN = {
    "text": b"k,fun,gap\n0,1,2\n",
    "empty": b"",
    "a pickle": pickle.dumps({"k": 3}),
    "unknown class": b"cnowhere\nThing\n.",
    "noise": bytes(range(256)),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_foreign_file_is_refused(kind, tmp_path):
    path = tmp_path / "foreign"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(ValueError, match="does not hold a fwflow state"):
        fw.State.load(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "run.state"
    fw.minimize(smooth(), BALL, X0, max_iter=3).state.save(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(ValueError, match="does not hold a fwflow state"):
        fw.State.load(path)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        fw.State.load(tmp_path / "nothing")


BAD_ARGUMENTS = [
    ("f", fun),
    ("f", None),
    ("f", fw.Smooth),
    ("C", None),
    ("C", 1.0),
    ("C", fw.L1Ball),
    ("method", "rk45x"),
    ("method", None),
    ("method", 4),
    ("method", fw.Tableau),
    ("schedule", None),
    ("schedule", 0.5),
    ("schedule", fw.OpenLoop),
    ("line_search", "exakt"),
    ("line_search", 0.1),
    ("line_search", fw.ExactSearch),
    ("momentum", "nesterow"),
    ("momentum", 0.9),
    ("momentum", fw.Nesterov),
    ("tol", -1e-9),
    ("tol", np.nan),
    ("tol", None),
    ("tol", "small"),
    ("rtol", -1.0),
    ("rtol", np.nan),
    ("rtol", None),
    ("max_iter", -1),
    ("max_iter", np.nan),
    ("max_iter", 1.5),
    ("max_iter", None),
    ("max_iter", "10"),
    ("max_time", 0),
    ("max_time", -1.0),
    ("max_time", np.nan),
    ("max_time", "soon"),
    ("callback", 3),
    ("callback", "print"),
    ("check_every", 0),
    ("check_every", -1),
    ("check_every", 1.5),
    ("check_every", np.nan),
    ("check_every", "often"),
]


@pytest.mark.parametrize(("name", "value"), BAD_ARGUMENTS, ids=lambda value: getattr(value, "__name__", str(value)))
def test_invalid_argument_is_named(name, value):
    arguments = {"f": smooth(), "C": BALL, "x0": X0, "max_iter": 3} | {name: value}
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        fw.minimize(**arguments)


@pytest.mark.parametrize("state", [3, {}, "run.state"], ids=repr)
def test_invalid_state_is_named(state):
    with pytest.raises(ValueError, match=r"\bstate\b"):
        fw.minimize(smooth(), BALL, state=state, max_iter=3)


def test_every_argument_is_covered():
    told = {name for name, _ in BAD_ARGUMENTS} | {"x0", "state", "progress", "screen"}
    assert told == set(inspect.signature(fw.minimize).parameters)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"method": "rk4"}, "rk44"), ({"line_search": "exat"}, "exact"), ({"momentum": "nestrov"}, "nesterov")],
    ids=str,
)
def test_misspelt_names_get_a_suggestion(options, name):
    with pytest.raises(ValueError, match=f"did you mean '{name}'"):
        fw.minimize(smooth(), BALL, X0, **options)


@pytest.mark.parametrize("C", [BALL, lambda g: -np.eye(7, 5), fw.Box(-1.0, 1.0)], ids=["L1Ball", "callable", "Box"])
def test_matrix_completion_explains_what_it_needs(C):
    with pytest.raises(ValueError, match="rank-one"):
        fw.minimize(completion(), C, max_iter=3)


def test_set_and_objective_of_different_dimensions():
    with pytest.raises(ValueError, match=r"\(4,\).*\(3,\)|\(3,\).*\(4,\)"):
        fw.minimize(fw.LinearModel(np.eye(3), np.ones(3)), fw.ConvexHull(np.eye(4)))


class Halfway(fw.Method):
    """A method of one's own: half of the way to the vertex, whatever the schedule says."""

    def init(self, problem, x):
        return 0

    def step(self, problem, iterate, memory):
        return Proposal(iterate.point.mix([(0.5, iterate.known.vertex)]), 0.5, memory + 1)


def test_a_method_of_ones_own():
    r = fw.minimize(smooth(), BALL, X0, method=Halfway(), tol=0, max_iter=6)
    fixed = fw.minimize(smooth(), BALL, X0, schedule=fw.ConstantSchedule(0.5), tol=0, max_iter=6)
    assert_same_run(r, fixed)
    assert r.state.memory == 6


def test_method_objects_take_no_line_search():
    method = Halfway()
    for options in ({"line_search": "exact"}, {"momentum": "nesterov"}):
        with pytest.raises(ValueError, match="line_search and momentum"):
            fw.minimize(smooth(), BALL, X0, method=method, **options)
