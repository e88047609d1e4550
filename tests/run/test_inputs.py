"""Starts, precision and storage of the data; progress; check_every."""

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from tests.catalogue import MOMENTA, OBJECTIVES, SETS, design, labels, targets
from tests.run.functions import BALL, EPS, X0, completion, fun, grad, oracle, smooth, squared_model


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
