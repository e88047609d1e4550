import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.steps.momentum import extrapolation, find_momentum, momenta
from tests.catalogue import MOMENTA, OBJECTIVES, SETS, design, labels, targets

cases = settings(deadline=None, max_examples=15, derandomize=True)
NAMES = tuple(name for name in MOMENTA if name)
METHODS = ("euler", "heun", "rk44", "rk38")


def nesterov():
    """y = (1 - gamma) x_bar + gamma v; theta <- (1 - gamma) theta + gamma grad(y); v <- LMO(theta)."""
    theta = v = None

    def aim(x_bar, gamma, grad, lmo):
        nonlocal theta, v
        if v is None:
            theta, v = np.zeros_like(x_bar), x_bar
        y = (1 - gamma) * x_bar + gamma * v
        theta = (1 - gamma) * theta + gamma * grad(y)
        v = lmo(theta)
        return v

    return aim


def gradient_averaging(exponent=0.5):
    theta = None

    def aim(x_bar, gamma, grad, lmo):
        nonlocal theta
        rate = gamma**exponent
        theta = grad(x_bar) if theta is None else (1 - rate) * theta + rate * grad(x_bar)
        return lmo(theta)

    return aim


def lmo_averaging(exponent=0.5):
    average = None

    def aim(x_bar, gamma, grad, lmo):
        nonlocal average
        rate, s = gamma**exponent, lmo(grad(x_bar))
        average = s if average is None else (1 - rate) * average + rate * s
        return average

    return aim


REFERENCES = {"nesterov": nesterov, "gradient-averaging": gradient_averaging, "lmo-averaging": lmo_averaging}


def runge_kutta(aim, grad, lmo, x, tableau, schedule, steps):
    """The iterates, in the form the paper prints: with the increments xi, not as mixtures."""
    X = [x]
    for k in range(steps):
        xi = []
        for row, omega in zip(tableau.A, tableau.omega, strict=True):
            gamma = schedule.delta * schedule.gamma((schedule.k0 + k + omega) * schedule.delta)
            x_bar = x + sum((a * increment for a, increment in zip(row, xi, strict=False)), np.zeros_like(x))
            xi.append(gamma * (aim(x_bar, gamma, grad, lmo) - x_bar))
        x = x + np.tensordot(tableau.beta, xi, 1)
        X.append(x)
    return np.stack(X)


def path(f, C, x0=None, **options):
    X = []
    result = fw.minimize(f, C, x0, callback=lambda state: X.append(np.asarray(state.x)), tol=0, **options)
    return np.stack(X), result


def callables(f, C):
    def grad(x):
        return f.gradient(f.point(x))

    def lmo(g):
        return np.asarray(C.lmo(g))

    return grad, lmo


@pytest.mark.sampled(3)
@cases
@pytest.mark.parametrize("momentum", NAMES)
@pytest.mark.parametrize("method", METHODS)
@given(
    seed=st.integers(0, 1000),
    objective=st.sampled_from(["squared", "logistic-csc", "huber", "quadratic", "smooth"]),
    constraint=st.sampled_from(["l1", "l2", "simplex", "translated", "product", "box"]),
    schedule=st.sampled_from([fw.OpenLoop(), fw.OpenLoop(c=3.0, k0=1), fw.OpenLoop(delta=0.5, k0=1)]),
)
def test_runs_follow_the_scheme(momentum, method, seed, objective, constraint, schedule):
    f, C = OBJECTIVES[objective](6, seed), SETS[constraint][0]
    x0, tableau = np.asarray(C.start((6,))), fw.tableaus[method]
    X, _ = path(f, C, x0, momentum=momentum, method=method, schedule=schedule, max_iter=12)
    reference = runge_kutta(REFERENCES[momentum](), *callables(f, C), x0, tableau, schedule, 12)
    # mixtures and increments round differently, and nothing amplifies that but a tie of the oracle
    np.testing.assert_allclose(X, reference, rtol=0, atol=1e-10)


@pytest.mark.parametrize("momentum", NAMES)
def test_momentum_matters_and_is_remembered_across_steps(momentum):
    f, C, x0 = OBJECTIVES["logistic"](6, 0), fw.L1Ball(2.0), np.zeros(6)
    X, _ = path(f, C, x0, momentum=momentum, max_iter=12)
    assert not np.allclose(X, path(f, C, x0, max_iter=12)[0])
    grad, lmo = callables(f, C)
    forgetful = [x0]
    for k in range(12):
        schedule = fw.OpenLoop(k0=k)
        aim = REFERENCES[momentum]()
        forgetful.append(runge_kutta(aim, grad, lmo, forgetful[-1], fw.tableaus["euler"], schedule, 1)[-1])
    assert not np.allclose(X, forgetful)


@pytest.mark.parametrize("exponent", [0.25, 2 / 3, 1.0])
@pytest.mark.parametrize(
    ("make", "reference"), [(fw.GradientAveraging, gradient_averaging), (fw.LMOAveraging, lmo_averaging)]
)
def test_exponents_set_the_rate_of_forgetting(make, reference, exponent):
    f, C, x0 = OBJECTIVES["squared"](6, 0), fw.L1Ball(2.0), np.zeros(6)
    X, _ = path(f, C, x0, momentum=make(exponent), method="rk44", max_iter=12)
    expected = runge_kutta(reference(exponent), *callables(f, C), x0, fw.tableaus["rk44"], fw.OpenLoop(), 12)
    np.testing.assert_allclose(X, expected, rtol=0, atol=1e-10)


def test_the_default_exponent_is_a_half():
    assert fw.GradientAveraging() == fw.GradientAveraging(0.5)
    assert fw.LMOAveraging() == fw.LMOAveraging(0.5)


@pytest.mark.parametrize("make", [fw.GradientAveraging, fw.LMOAveraging])
@pytest.mark.parametrize("exponent", [0.0, -0.5, 1.01, np.nan, np.inf])
def test_exponents_outside_the_unit_interval_are_refused(make, exponent):
    with pytest.raises(ValueError, match=r"^exponent must .*\(0, 1\]; got"):
        make(exponent)


@pytest.mark.parametrize("make", [fw.GradientAveraging, fw.LMOAveraging])
def test_exponents_that_are_no_numbers_are_refused(make):
    with pytest.raises(ValueError, match=r"^exponent must"):
        make("half")


@pytest.mark.parametrize("make", [fw.GradientAveraging, fw.LMOAveraging])
@pytest.mark.parametrize("line_search", [None, "exact"])
def test_float32_survives_exponents_that_are_numpy_numbers(make, line_search):
    f = fw.LinearModel(design(12, 6).astype(np.float32), targets(12))
    momentum = make(np.float64(0.5))
    r = fw.minimize(f, fw.L1Ball(1.0), momentum=momentum, line_search=line_search, tol=0, max_iter=5)
    assert r.x.dtype == np.float32
    assert r.state.point.image.dtype == np.float32


@pytest.mark.parametrize("momentum", NAMES)
@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize("line_search", [None, "exact"])
def test_the_gap_is_the_plain_gap_of_the_iterate(momentum, method, line_search):
    f, C = fw.LinearModel(design(12, 6), labels(12), "logistic"), fw.L1Ball(2.0)
    X, r = path(f, C, momentum=momentum, method=method, line_search=line_search, max_iter=25)
    gradients = np.stack([f.gradient(f.point(x)) for x in X])
    gaps = (gradients * X).sum(axis=1) + 2.0 * np.abs(gradients).max(axis=1)
    np.testing.assert_allclose(r.trace["gap"], gaps, rtol=0, atol=1e-13)
    np.testing.assert_allclose(r.trace["fun"], [f.value(f.point(x)) for x in X], rtol=1e-13)


class Calls:
    """A quadratic and a simplex that count how often they are really asked."""

    def __init__(self):
        self.gradients = self.oracles = 0
        self.b = targets(5)
        self.f = fw.Smooth(lambda x: float(x @ x - self.b @ x), self.gradient)

    def gradient(self, x):
        self.gradients += 1
        return 2 * x - self.b

    def oracle(self, g):
        self.oracles += 1
        return np.eye(1, len(g), int(g.argmin()))[0]


def run(calls, **options):
    return fw.minimize(calls.f, calls.oracle, np.full(5, 0.2), tol=0, **options)


@pytest.mark.parametrize("momentum", NAMES)
@pytest.mark.parametrize("method", ["euler", "rk44"])
@pytest.mark.parametrize("check_every", [1, 4, 1000])
def test_counts_are_real_calls(momentum, method, check_every):
    calls = Calls()
    r = run(calls, momentum=momentum, method=method, max_iter=20, check_every=check_every)
    assert (r.n_grad, r.n_lmo) == (calls.gradients, calls.oracles)
    stages = fw.tableaus[method].stages
    n_grad, n_lmo = r.trace["n_grad"][-1], r.trace["n_lmo"][-1]  # before the result is verified
    if momentum == "nesterov":
        checked = len({k for k in range(21) if k % check_every == 0} | {20})
        # The first stage of all has y = x: its gradient is the one that was checked.
        assert n_grad == 20 * stages - 1 + checked
        assert n_lmo == 20 * stages + checked
    else:
        assert n_grad == 20 * stages + 1
        # An average of gradients is asked about once per stage, the gradient itself for the gap.
        assert n_lmo == n_grad + (19 if momentum == "gradient-averaging" else 0)


@pytest.mark.parametrize("check_every", [2, 3, 7])
@pytest.mark.parametrize("method", ["euler", "rk44"])
def test_unchecked_rows_have_no_gap_and_cost_less(check_every, method):
    full = run(Calls(), momentum="nesterov", method=method, max_iter=20)
    sparse = run(Calls(), momentum="nesterov", method=method, max_iter=20, check_every=check_every)
    checked = np.array([k % check_every == 0 or k == 20 for k in range(21)])
    np.testing.assert_array_equal(np.isfinite(sparse.trace["gap"]), checked)
    np.testing.assert_array_equal(sparse.trace["gap"][checked], full.trace["gap"][checked])
    np.testing.assert_array_equal(sparse.trace["fun"], full.trace["fun"])
    np.testing.assert_array_equal(sparse.x, full.x)
    assert full.n_grad - sparse.n_grad == full.n_lmo - sparse.n_lmo == 21 - checked.sum()
    assert sparse.gap == full.gap


def test_callbacks_see_nan_where_the_gap_was_not_computed():
    seen = []
    run(Calls(), momentum="nesterov", max_iter=6, check_every=3, callback=lambda state: seen.append(state.gap))
    np.testing.assert_array_equal(np.isnan(seen), [False, True, True, False, True, True, False])


@pytest.mark.parametrize("momentum", [None, "gradient-averaging", "lmo-averaging"])
def test_gaps_that_are_free_are_always_computed(momentum):
    every = run(Calls(), momentum=momentum, max_iter=20)
    seldom = run(Calls(), momentum=momentum, max_iter=20, check_every=7)
    assert np.isfinite(seldom.trace["gap"]).all()
    np.testing.assert_array_equal(seldom.trace["gap"], every.trace["gap"])
    assert seldom.n_grad == every.n_grad


def test_the_tolerance_is_met_only_at_a_checked_iterate():
    f, C = OBJECTIVES["squared"](6, 0), fw.L2Ball(1.0)
    every = fw.minimize(f, C, momentum="nesterov", tol=1e-2)
    seldom = fw.minimize(f, C, momentum="nesterov", tol=1e-2, check_every=10)
    assert every.success
    assert seldom.success
    assert every.nit % 10 != 0  # else the next line would say nothing
    assert seldom.nit >= every.nit
    assert seldom.nit % 10 == 0
    assert seldom.gap <= 1e-2


@pytest.mark.parametrize("check_every", [0, -1, 0.5, np.nan])
def test_check_every_is_at_least_one(check_every):
    with pytest.raises(ValueError, match=r"^check_every must be"):
        run(Calls(), momentum="nesterov", check_every=check_every)


@pytest.mark.parametrize("momentum", NAMES)
@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_matrix_completion_moves_like_its_dense_twin(momentum, method):
    rows, cols, values = np.array([4, 0, 2, 4, 1, 0]), np.array([1, 3, 0, 0, 2, 0]), targets(6)

    def twin(X):
        r = np.zeros((5, 4))
        r[rows, cols] = X[rows, cols] - values
        return float((r**2).sum() / 2), r

    f, C = fw.MatrixCompletion(rows, cols, values, (5, 4), "squared"), fw.NuclearBall(3.0)
    options = {"momentum": momentum, "method": method, "max_iter": 25}
    X, r = path(f, C, **options)
    dense, s = path(fw.Smooth(twin, True), C, np.zeros((5, 4)), **options)
    np.testing.assert_allclose(X, dense, rtol=0, atol=1e-8)  # the oracle's residuals are below 1e-9
    np.testing.assert_allclose(r.trace["gap"], s.trace["gap"], rtol=0, atol=1e-7)


@pytest.mark.parametrize("momentum", NAMES)
def test_images_are_carried_through_averages(momentum):
    A = design(12, 6)
    f = fw.LinearModel(A, labels(12), "logistic")
    r = fw.minimize(f, fw.L1Ball(2.0), momentum=momentum, method="rk44", tol=0, max_iter=50)
    # fifty steps of four stages, each some roundings of numbers below 2 max |A|
    np.testing.assert_allclose(r.state.point.image, A @ r.x, rtol=0, atol=50 * 4 * 5 * 2.2e-16 * 2 * np.abs(A).max())


@pytest.mark.parametrize("momentum", NAMES)
@pytest.mark.parametrize("constraint", ["l1", "simplex", "box", "l2", "hull", "product"])
def test_iterates_stay_in_the_set(momentum, constraint):
    f, C = OBJECTIVES["squared"](6, 0), SETS[constraint][0]
    inside = []
    fw.minimize(
        f,
        C,
        momentum=momentum,
        method="rk44",
        tol=0,
        max_iter=20,
        callback=lambda state: inside.append(C.contains(state.x)),
    )
    assert inside == [True] * 21


def test_nesterov_is_ahead_of_plain_frank_wolfe_on_a_ball():
    f, C = OBJECTIVES["logistic"](6, 0), fw.L2Ball(1.0)
    plain, fast = (fw.minimize(f, C, method="fw", momentum=m, tol=0, max_iter=200).gap for m in (None, "nesterov"))
    assert fast < plain


@pytest.mark.parametrize(
    ("momentum", "message"),
    [
        ("nestrov", r"^momentum='nestrov' is not known; did you mean 'nesterov'\? accepted: .*'lmo-averaging'"),
        ("xyz", r"^momentum='xyz' is not known; accepted: 'nesterov'"),
        (0.9, r"^momentum must be a name or a Momentum; got 0.9"),
    ],
)
def test_unknown_momenta_are_refused(momentum, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0), momentum=momentum)


def test_extrapolation_is_that_of_fista():
    t, weights = 1.0, []
    for _ in range(3):
        t, weight = extrapolation(t)
        weights.append(weight)
    np.testing.assert_allclose(weights, [0.0, 0.281748, 0.434040], atol=1e-5)
    assert extrapolation(np.array([1.0, 2.0]), np.sqrt)[0] == pytest.approx([(1 + 5**0.5) / 2, (1 + 17**0.5) / 2])


def test_every_name_makes_a_momentum():
    assert set(momenta) == set(NAMES)
    assert find_momentum(None) is None
    own = fw.LMOAveraging(0.3)
    assert find_momentum(own) is own
    assert find_momentum("nesterov") == fw.Nesterov()


def test_a_momentum_of_ones_own_is_used():
    class Stubborn(fw.Momentum):
        """Always aims at the vertex of the first gradient it saw."""

        def aim(self, x_bar, gamma, memory, gradient, oracle):
            first = oracle(gradient(x_bar)) if memory is None else memory
            return first, first

    f, C = OBJECTIVES["squared"](6, 0), fw.L1Ball(1.0)
    X, _ = path(f, C, np.zeros(6), momentum=Stubborn(), schedule=fw.OpenLoop(k0=1), max_iter=5)
    left = np.cumprod([1.0, *(1 - 2 / (3 + np.arange(5)))])
    vertex = np.asarray(C.lmo(f.gradient(f.point(np.zeros(6)))))
    np.testing.assert_allclose(X, np.outer(1 - left, vertex), atol=1e-14)
