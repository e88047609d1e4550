import math
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.interpolate import make_interp_spline

import fwflow as fw
from tests.catalogue import CERTIFIED, LINE_SEARCHES, MATRIX_OBJECTIVES, MOMENTA, OBJECTIVES, SETS, UNCERTIFIED

INTERVAL = fw.Box(-1.0, 1.0)
# Iterates are mixtures of a few dozen rounded terms; the certificate itself allows this much.
TOL = 1e-12


def certainly(tableau, schedule):
    """The warning that an uncertified tableau must give, and no other."""
    return nullcontext() if schedule.certifies(tableau) else pytest.warns(fw.UncertifiedWarning)


def random_member(C, shape, rng):
    """A vertex, or a mixture of a few."""
    vertices = [np.asarray(C.lmo(rng.standard_normal(shape))) for _ in range(int(rng.integers(1, 4)))]
    return np.tensordot(rng.dirichlet(np.ones(len(vertices))), vertices, axes=1).reshape(shape)


def random_quadratic(shape, rng):
    """Separable, and not convex: staying inside must not depend on convexity."""
    h, b = rng.uniform(-1, 2, shape), 2 * rng.standard_normal(shape)
    return fw.Smooth(
        lambda x: float((h * (x - b) ** 2).sum()) / 2,
        lambda x: h * (x - b),
        smoothness=float(np.abs(h).max()),
        shape=shape,
    )


def random_completion(shape, rng):
    rows, cols = np.nonzero(np.ones(shape))
    seen = rng.permutation(len(rows))[: max(2, len(rows) // 2)]
    return fw.MatrixCompletion(rows[seen], cols[seen], 3 * rng.standard_normal(len(seen)), shape, rho=1.0)


def objectives_on(name, shape):
    names = ["random", *(OBJECTIVES if len(shape) == 1 else MATRIX_OBJECTIVES)]
    return names + ["completion"] * name.startswith("nuclear")


def make_objective(name, shape, seed):
    rng = np.random.default_rng(seed)
    if name == "random":
        return random_quadratic(shape, rng)
    if name in MATRIX_OBJECTIVES:
        return MATRIX_OBJECTIVES[name](shape, seed)
    return random_completion(shape, rng) if name == "completion" else OBJECTIVES[name](shape[0], seed)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("name", SETS)
@given(data=st.data(), seed=st.integers(0, 2**16), k0=st.integers(0, 3), c=st.sampled_from([1.0, 2.0, 4.0]))
@settings(deadline=None, max_examples=30, derandomize=True)
def test_certified_tableaus_stay_inside(name, data, seed, k0, c):
    C, shape = SETS[name]
    objective = data.draw(st.sampled_from(objectives_on(name, shape)))
    line_search = data.draw(st.sampled_from(LINE_SEARCHES))
    assume(line_search != "short" or objective not in ("smooth", "beckmann"))  # it needs a bound that these do not know
    inside = []

    def check(state):
        inside.append(C.contains(state.x, TOL))

    r = fw.minimize(
        make_objective(objective, shape, seed),
        C,
        random_member(C, shape, np.random.default_rng(seed)),
        method=data.draw(st.sampled_from(CERTIFIED)),
        schedule=fw.OpenLoop(c=c, k0=k0),
        line_search=line_search,
        momentum=data.draw(st.sampled_from(MOMENTA)),
        tol=0,
        max_iter=6,
        callback=check,
    )
    assert inside == [True] * 7
    assert r.feasible is True


@pytest.mark.sampled(4)
@pytest.mark.parametrize("momentum", MOMENTA)
@pytest.mark.parametrize("line_search", LINE_SEARCHES)
@pytest.mark.parametrize("method", CERTIFIED)
def test_every_combination_stays_inside_from_a_vertex(method, line_search, momentum):
    inside = []
    fw.minimize(
        fw.LinearModel(np.eye(6)[:4], [0.9, -0.4, 0.3, 0.0]),
        fw.L1Ball(1.0),
        np.eye(6)[4],
        method=method,
        line_search=line_search,
        momentum=momentum,
        tol=0,
        max_iter=20,
        callback=lambda state: inside.append(np.abs(state.x).sum() <= 1 + TOL),
    )
    assert inside == [True] * 21


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", CERTIFIED)
@pytest.mark.parametrize("name", SETS)
def test_certified_tableaus_start_where_the_set_says(method, name):
    C, shape = SETS[name]
    r = fw.minimize(make_objective("random", shape, 3), C, method=method, tol=0, max_iter=3)
    assert r.feasible is True


def test_float32_stays_inside_to_its_own_precision():
    A = np.random.default_rng(0).standard_normal((12, 6)).astype(np.float32)
    norms, steps = [], 300
    r = fw.minimize(
        fw.LinearModel(A, A[:, 0]),
        fw.L1Ball(0.5),
        method="rk5",
        tol=0,
        max_iter=steps,
        callback=lambda state: norms.append(np.abs(state.x.astype(float)).sum()),
    )
    # A step rounds seven terms and forgets a share 2 / (2 + k) of the errors before it.
    assert max(norms) <= 0.5 * (1 + 7 * (2 + steps) / 2 * np.finfo(np.float32).eps)
    assert r.x.dtype == np.float32
    assert r.feasible is True


@pytest.mark.parametrize("momentum", MOMENTA)
def test_certified_steps_longer_than_one_stay_inside(momentum):
    # Two nearly equal stages: certified although every gamma exceeds one.
    tableau = fw.Tableau([[0, 0], [0.05, 0]], [0.06, 0.94], name="long")
    schedule = fw.OpenLoop(c=1000.0, delta=1.05)
    assert schedule.certifies(tableau)
    assert schedule.stage_gammas(0, [0.0, 0.05])[1] > 1
    # The minimiser lies between the stages, so that they aim at opposite ends.
    f = fw.Quadratic([[1.0]], [0.03])
    r = fw.minimize(f, INTERVAL, [0.0], method=tableau, schedule=schedule, momentum=momentum, tol=0, max_iter=1)
    assert r.feasible is True


@pytest.mark.parametrize(
    "schedule", [fw.LogOpenLoop(), fw.ConstantSchedule(0.3), fw.ConstantSchedule(1.0), fw.OpenLoop(c=4.0, delta=0.1)]
)
@pytest.mark.parametrize("method", fw.tableaus)
def test_other_schedules_keep_their_promise(schedule, method):
    C, shape = SETS["hull"]
    rng = np.random.default_rng(5)
    f, x0 = random_quadratic(shape, rng), random_member(C, shape, rng)
    inside = []

    def check(state):
        inside.append(C.contains(state.x, TOL))

    with certainly(fw.tableaus[method], schedule):
        fw.minimize(f, C, x0, method=method, schedule=schedule, tol=0, max_iter=10, callback=check)
    assert all(inside) or not schedule.certifies(fw.tableaus[method])


@pytest.mark.parametrize("method", UNCERTIFIED)
def test_uncertified_tableaus_warn_where_they_are_called(method):
    with pytest.warns(fw.UncertifiedWarning, match=rf"'{method}' is not certified.*may leave the set") as caught:
        fw.minimize(fw.Quadratic([[1.0]]), INTERVAL, method=method, max_iter=0)
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize("method", CERTIFIED)
def test_certified_tableaus_do_not_warn(method):
    assert fw.minimize(fw.Quadratic([[1.0]]), INTERVAL, method=method, max_iter=1, tol=0).nit == 1


@pytest.mark.parametrize("k0", range(4))
def test_ralston_warns_before_it_is_feasible(k0):
    schedule = fw.OpenLoop(k0=k0)
    expected = pytest.warns(fw.UncertifiedWarning) if k0 < 2 else nullcontext()
    with expected:
        fw.minimize(fw.Quadratic([[1.0]]), INTERVAL, method="ralston", schedule=schedule, max_iter=1)


@pytest.mark.parametrize(
    ("method", "k0", "p1"), [("midpoint", 0, -2 / 5), ("ralston", 0, -1 / 8), ("ralston", 1, -1 / 66)]
)
def test_a_negative_first_weight_leaves_the_set(method, k0, p1):
    # From 1 the first stage aims at -1, the second already past the minimiser back at 1: x+ = 1 - 2 p_1.
    schedule = fw.OpenLoop(c=2.0, k0=k0)
    with pytest.warns(fw.UncertifiedWarning):
        r = fw.minimize(fw.Quadratic([[1.0]], [0.6]), INTERVAL, [1.0], method=method, schedule=schedule, max_iter=1)
    certificate = fw.tableaus[method].certificate(c=2.0, k=k0)
    assert certificate.feasible is False
    assert certificate.p[0] == pytest.approx(p1, rel=1e-14)
    assert r.x == pytest.approx(1 - 2 * p1, rel=1e-14)
    assert r.feasible is False
    assert r.success is False


def aims_outward(weights):
    """Ends of the interval to mix with a point near 1 so as to leave, by weights that are not convex."""
    return np.where(np.array(weights) < 0, -1.0, 1.0) if min(weights) < 0 else np.full(len(weights), -1.0)


# Not the end itself: a stage that aims at it from there would not move, and its point would not be its own.
NEAR_THE_END = 1 - 1e-4


def mixture(weights, s):
    x = NEAR_THE_END
    return x + sum(w * (a - x) for w, a in zip(weights, s, strict=False))


def separated(x_bars, s):
    """Whether rounding cannot confuse the points of stages that aim at opposite ends."""
    return all(
        abs(a - b) > 1e-9 for a, i in zip(x_bars, s, strict=False) for b, j in zip(x_bars, s, strict=False) if i != j
    )


def function_that_aims(x_bars, s):
    """A function of one variable whose gradient at stage point i sends the oracle to the end s_i."""
    nodes, first = np.unique([*x_bars, -1e3, 1e3], return_index=True)
    slope = make_interp_spline(nodes, np.append(-s, [0.0, 0.0])[first], k=1)
    value = slope.antiderivative()
    return lambda x: float(value(x[0])), slope


def outward_step(tableau, c, k):
    """Where the step from near 1 goes if the stages aim outward, the points of the stages, and their aims."""
    certificate = tableau.certificate(c=c, k=k)
    s = aims_outward(certificate.p)
    return mixture(certificate.p, s), [mixture(row, s) for row in certificate.W], s


def check_that_a_run_leaves(tableau, c, k):
    expected, x_bars, s = outward_step(tableau, c, k)
    f, schedule = fw.Smooth(*function_that_aims(x_bars, s)), fw.OpenLoop(c=c, k0=k)
    with pytest.warns(fw.UncertifiedWarning):
        r = fw.minimize(f, INTERVAL, [NEAR_THE_END], method=tableau, schedule=schedule, tol=0, max_iter=1)
    assert abs(expected) > 1
    assert r.x[0] == pytest.approx(expected, rel=1e-12)
    assert r.feasible is False
    assert r.success is False


@pytest.mark.parametrize(
    ("method", "k"), [("midpoint", 0), ("midpoint", 1), ("midpoint", 40), ("ralston", 0), ("ralston", 1), ("dp5", 1)]
)
def test_where_the_certificate_fails_a_run_leaves_the_set(method, k):
    check_that_a_run_leaves(fw.tableaus[method], 2.0, k)


small = st.fractions(min_value=-1, max_value=2, max_denominator=6)
shares = st.fractions(min_value=0, max_value=1, max_denominator=6)


@st.composite
def random_tableaus(draw):
    q = draw(st.integers(2, 4))
    A = [[float(draw(small)) for _ in range(i)] + [0.0] * (q - i) for i in range(q)]
    beta = [draw(shares) for _ in range(q - 1)]
    omega = [0.0, *(float(draw(shares)) for _ in range(q - 1))]
    return fw.Tableau(A, [float(b) for b in [*beta, Fraction(1) - sum(beta)]], omega)


@given(random_tableaus(), st.integers(0, 5), st.sampled_from([1.0, 2.0]))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_where_a_random_certificate_fails_a_run_leaves_the_set(tableau, k, c):
    assume(not tableau.certificate(c=c, k=k).feasible)
    end, x_bars, s = outward_step(tableau, c, k)
    assume(abs(end) > 1 + 1e-6 and separated(x_bars, s))  # what rounding can neither cause nor undo
    check_that_a_run_leaves(tableau, c, k)


@given(random_tableaus(), st.integers(0, 2**16), st.sampled_from([1.0, 2.0]))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_where_a_random_certificate_holds_a_run_stays_inside(tableau, seed, c):
    k0 = tableau.certificate(c=c).feasible_from
    assume(k0 is not None)
    C, shape = SETS["l1"]
    rng = np.random.default_rng(seed)
    inside = []
    fw.minimize(
        random_quadratic(shape, rng),
        C,
        random_member(C, shape, rng),
        method=tableau,
        schedule=fw.OpenLoop(c=c, k0=k0),
        tol=0,
        max_iter=6,
        callback=lambda state: inside.append(C.contains(state.x, TOL)),
    )
    assert inside == [True] * 7


def test_a_small_gap_outside_the_set_is_no_success():
    # Midpoint goes from 1 to 1.8, where this function is flat.
    slope = make_interp_spline([0.0, 1.0, 1.8], [-1.0, 1.0, 0.0], k=1)
    value = slope.antiderivative()
    with pytest.warns(fw.UncertifiedWarning):
        r = fw.minimize(fw.Smooth(lambda x: float(value(x[0])), slope), INTERVAL, [1.0], method="midpoint", max_iter=1)
    assert r.x == pytest.approx(1.8)
    assert abs(r.gap) <= 1e-6
    assert r.feasible is False
    assert r.success is False
    assert r.status is fw.Status.ITERATIONS


STRAYING = [name for name, tableau in fw.tableaus.items() if not tableau.certificate(k=0).stages_feasible]


def recorded(fun, grad, domain=None):
    """The objective, and the list of points at which its value or gradient is asked for."""
    met = []

    def watch(function):
        def watched(x):
            met.append(x.copy())
            return function(x)

        return watched

    return fw.Smooth(watch(fun), watch(grad), domain=domain), met


def stray_stage(name):
    """A function for which a stage of the first step from near 1 leaves the interval, as its weights allow."""
    W = fw.tableaus[name].certificate(k=0).W
    i = next(i for i, row in enumerate(W) if row and (min(row) < 0 or sum(row) > 1))
    s = aims_outward(W[i])
    x_bars = [mixture(row, s) for row in W[: i + 1]]
    return function_that_aims(x_bars[:-1], s), x_bars[-1]


def test_which_stages_stray():
    assert STRAYING == ["kutta3", "bs3", "rk44", "rk38", "rk5", "dp5"]


@pytest.mark.parametrize("name", STRAYING)
def test_stage_points_leave_where_the_certificate_says_so(name):
    (fun, grad), stray = stray_stage(name)
    f, met = recorded(fun, grad)
    with certainly(fw.tableaus[name], fw.OpenLoop()):
        fw.minimize(f, INTERVAL, [NEAR_THE_END], method=name, tol=0, max_iter=1)
    assert abs(stray) > 1 + 1e-3
    assert min(abs(x[0] - stray) for x in met) <= 1e-12


@pytest.mark.parametrize("name", STRAYING)
def test_a_stage_outside_the_domain_ends_the_run_with_a_message(name):
    (fun, grad), _ = stray_stage(name)
    f, met = recorded(fun, grad, domain=lambda x: abs(x[0]) <= 1)
    with certainly(fw.tableaus[name], fw.OpenLoop()):
        r = fw.minimize(f, INTERVAL, [NEAR_THE_END], method=name, max_iter=5)
    assert r.status is fw.Status.NUMERICAL
    assert r.success is False
    assert "iteration 0" in r.message
    assert "outside the objective's domain" in r.message
    assert np.abs(met).max() <= 1
    assert r.feasible is True
    assert (r.nit, r.x.tolist(), r.fun) == (0, [NEAR_THE_END], fun([NEAR_THE_END]))


def test_a_gradient_that_is_not_a_number_at_a_stage_ends_the_run_with_a_message():
    (fun, grad), _ = stray_stage("rk38")
    f = fw.Smooth(fun, lambda x: grad(x) if abs(x[0]) <= 1 else np.full(1, np.nan))
    r = fw.minimize(f, INTERVAL, [NEAR_THE_END], method="rk38", max_iter=5)
    assert r.status is fw.Status.NUMERICAL
    assert "gradient has NaN" in r.message
    assert np.isfinite([r.fun, r.gap, *r.x]).all()


@pytest.mark.parametrize("name", [name for name in CERTIFIED if name not in STRAYING])
@pytest.mark.parametrize("seed", range(5))
def test_stage_points_stay_inside_where_the_certificate_says_so(name, seed):
    C, shape = SETS["l1"]
    rng = np.random.default_rng(seed)
    h, b = rng.uniform(-1, 2, shape), 2 * rng.standard_normal(shape)
    f, met = recorded(lambda x: float((h * (x - b) ** 2).sum()) / 2, lambda x: h * (x - b))
    fw.minimize(f, C, random_member(C, shape, rng), method=name, tol=0, max_iter=8)
    assert all(C.contains(x, TOL) for x in met)


def log_barrier(**options):
    """-log x + 3 x, which refuses to be evaluated where it is not defined."""

    def fun(x):
        assert x[0] > 0
        return -math.log(x[0]) + 3 * x[0]

    def grad(x):
        assert x[0] > 0
        return 3 - 1 / x

    return fw.Smooth(fun, grad, domain=lambda x: x[0] > 0, **options)


@pytest.mark.parametrize("line_search", LINE_SEARCHES)
@pytest.mark.parametrize("method", ["fw", "rk38"])
def test_line_searches_respect_the_domain(line_search, method):
    # The set touches the edge of the domain at 0, the end that the first step aims at.
    f = log_barrier(smoothness=10.0)
    r = fw.minimize(f, fw.Box(0.0, 1.0), [1.0], method=method, line_search=line_search, max_iter=50)
    assert r.success or (r.status is fw.Status.ITERATIONS) or "domain" in r.message
    assert r.x[0] > 0


@pytest.mark.parametrize("momentum", MOMENTA)
def test_a_start_outside_the_domain_is_reported(momentum):
    r = fw.minimize(log_barrier(), fw.Box(-1.0, 1.0), [-0.5], momentum=momentum)
    assert r.status is fw.Status.NUMERICAL
    assert r.success is False
    assert "domain" in r.message


@pytest.mark.parametrize("check_every", [1, 2])
def test_an_iterate_outside_the_domain_is_reported_even_where_its_gap_is_not_computed(check_every):
    f, C = log_barrier(), fw.Box(-1.0, 1.0)
    r = fw.minimize(f, C, [1.0], momentum="nesterov", check_every=check_every, max_iter=3)  # first to -1
    assert r.status is fw.Status.NUMERICAL
    assert "domain" in r.message
