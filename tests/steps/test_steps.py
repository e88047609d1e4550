import dataclasses
import math
from itertools import chain

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar

import fwflow as fw
from fwflow.designs import Counts
from fwflow.objectives import Line
from fwflow.points.gradients import as_gradient
from fwflow.steps.searches import find_line_search, line_searches
from tests.catalogue import LINE_SEARCHES, MATRIX_OBJECTIVES, OBJECTIVES, design, labels, targets

cases = settings(deadline=None, max_examples=25, derandomize=True)
seeds = st.integers(0, 2**16)
EPS = np.finfo(float).eps
NAMES = tuple(name for name in LINE_SEARCHES if name)
DESCENDING = tuple(name for name in NAMES if name != "aggressive")
#: (objective, line search); the catalogue's Smooth and Beckmann have no bound for "short"
SEARCHES = [(f, name) for f in OBJECTIVES for name in NAMES if name != "short" or f not in ("smooth", "beckmann")]
NAN, INF = math.nan, math.inf


def along(f, start, end, value0, gradient):
    return fw.Problem(f, fw.Simplex(), Counts()).along(start, end, value0, gradient)


def step(name, line, gamma=0.1, limit=1.0, memory=None):
    return find_line_search(name).step(line, gamma, limit, memory)


@cases
@given(c=st.floats(1, 50), delta=st.floats(1e-3, 2), k0=st.integers(0, 100), k=st.integers(0, 10**6))
def test_open_loop(c, delta, k0, k):
    omega = [0.0, 0.5, 1.0]
    gammas = fw.OpenLoop(c, delta, k0).stage_gammas(k, omega)
    t = [(k0 + k + w) * delta for w in omega]
    np.testing.assert_allclose(gammas, [delta * c / (c + s) for s in t], rtol=4 * EPS)


def test_defaults_are_the_papers():
    assert fw.OpenLoop() == fw.OpenLoop(c=2.0, delta=1.0, k0=0)
    assert fw.OpenLoop().stage_gammas(3, [0.0, 0.5]) == [2 / 5, 2 / 5.5]


@pytest.mark.parametrize("k", [0, 1, 7, 10**5])
def test_log_open_loop(k):
    c = 2 + math.log(k + 1)
    assert fw.LogOpenLoop().stage_gammas(k, [0.0]) == [c / (k + c)]
    assert fw.LogOpenLoop().gamma(0) == 1.0


def test_fixed():
    assert fw.ConstantSchedule(0.3).stage_gammas(17, [0.0, 0.5]) == [0.3, 0.3]
    assert (fw.ConstantSchedule(0.3).delta, fw.ConstantSchedule(0.3).k0) == (1.0, 0)


class Harmonic(fw.Schedule):
    """A user's schedule."""

    def gamma(self, t):
        return 1 / (1 + t)


SCHEDULES = [
    fw.OpenLoop(c=4.0),
    fw.OpenLoop(k0=1),
    fw.OpenLoop(c=3.0, delta=0.5, k0=2),
    fw.LogOpenLoop(),
    fw.ConstantSchedule(0.2),
    Harmonic(),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=repr)
def test_runs_follow_their_schedule(schedule):
    x0, vertex = np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])
    f = fw.Smooth(lambda x: float(-x[2]), lambda x: -vertex)
    X = []
    r = fw.minimize(f, fw.Simplex(), x0, schedule=schedule, tol=0, max_iter=6, callback=lambda state: X.append(state.x))
    gammas = [schedule.delta * schedule.gamma((schedule.k0 + k) * schedule.delta) for k in range(6)]
    np.testing.assert_allclose(r.trace["step"][1:], gammas, rtol=1e-15)
    left = np.cumprod([1.0, *(1 - g for g in gammas)])
    np.testing.assert_allclose(X, np.outer(left, x0) + np.outer(1 - left, vertex), atol=1e-15)
    assert math.isnan(r.trace["step"][0])


REFUSED = {
    "c small": (lambda: fw.OpenLoop(c=0.99), r"^c must be"),
    "c nan": (lambda: fw.OpenLoop(c=NAN), r"^c must be"),
    "c inf": (lambda: fw.OpenLoop(c=INF), r"^c must be"),
    "c text": (lambda: fw.OpenLoop(c="two"), r"^c must be"),
    "delta zero": (lambda: fw.OpenLoop(delta=0.0), r"^delta must be a positive"),
    "delta negative": (lambda: fw.OpenLoop(delta=-1.0), r"^delta must be a positive"),
    "delta inf": (lambda: fw.OpenLoop(delta=INF), r"^delta must be a positive"),
    "k0 negative": (lambda: fw.OpenLoop(k0=-1), r"^k0 must be"),
    "k0 nan": (lambda: fw.OpenLoop(k0=NAN), r"^k0 must be"),
    "k0 fraction": (lambda: fw.OpenLoop(k0=1.5), r"^k0 must be"),
    "fixed zero": (lambda: fw.ConstantSchedule(0.0), r"^value must .*\(0, 1\]"),
    "fixed large": (lambda: fw.ConstantSchedule(1.01), r"^value must .*\(0, 1\]"),
    "fixed nan": (lambda: fw.ConstantSchedule(NAN), r"^value must .*\(0, 1\]"),
    "fixed text": (lambda: fw.ConstantSchedule("half"), r"^value must"),
    "sigma negative": (lambda: fw.Armijo(sigma=-0.1), r"^sigma must"),
    "sigma one": (lambda: fw.Armijo(sigma=1.0), r"^sigma must"),
    "shrink one": (lambda: fw.Armijo(shrink=1.0), r"^shrink must"),  # would never end
    "shrink zero": (lambda: fw.Armijo(shrink=0.0), r"^shrink must"),
    "shrink nan": (lambda: fw.Armijo(shrink=NAN), r"^shrink must"),
    "relax zero": (lambda: fw.Adaptive(relax=0.0), r"^relax must"),
    "relax large": (lambda: fw.Adaptive(relax=1.5), r"^relax must"),
    "grow one": (lambda: fw.Adaptive(grow=1.0), r"^grow must"),
    "grow nan": (lambda: fw.Adaptive(grow=NAN), r"^grow must"),
    "schedule": (lambda: fw.minimize(QUADRATIC, fw.Simplex(), schedule=0.5), r"^schedule must be a Schedule"),
    "search name": (lambda: find_line_search("exakt"), r"^line_search='exakt'.*did you mean 'exact'.*'armijo'"),
    "search strange name": (lambda: find_line_search("xyz"), r"^line_search='xyz' is not known; accepted: 'aggr"),
    "search object": (lambda: find_line_search(0.5), r"^line_search must be a name or a LineSearch"),
    "search in a run": (
        lambda: fw.minimize(QUADRATIC, fw.Simplex(), line_search="shrt"),
        r"^line_search='shrt'.*did you mean 'short'",
    ),
    "short without a bound": (
        lambda: fw.minimize(OBJECTIVES["smooth"](6, 0), fw.L1Ball(1.0), np.zeros(6), line_search="short"),
        r'^line_search="short" needs.*smoothness',
    ),
}
QUADRATIC = fw.Quadratic(np.eye(3))


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused_by_name(name):
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


def weights(tableau, gammas):
    """p = Q^T beta with Q = (I + Gamma A)^-1 Gamma."""
    Gamma = np.diag(gammas)
    Q = np.linalg.solve(np.eye(len(gammas)) + Gamma @ tableau.A, Gamma)
    return Q.T @ tableau.beta


def always_convex(schedule, tableau):
    margin = INF
    for k in chain(range(400), (1000, 5000, 20_000)):
        t = (schedule.k0 + k + tableau.omega) * schedule.delta
        p = weights(tableau, [schedule.delta * schedule.gamma(s) for s in t])
        margin = min(margin, p.min(), 1 - p.sum())
    return margin > -1e-11  # the weights sum to exactly one where gamma is one


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    name=st.sampled_from(sorted(fw.tableaus)),
    c=st.sampled_from([1.0, 1.5, 2.0, 3.7, 10.0]),
    delta=st.sampled_from([0.01, 0.3, 1.0, 1.7]),
    k0=st.integers(0, 6),
)
def test_open_loop_certifies_exactly_what_stays_convex(name, c, delta, k0):
    schedule, tableau = fw.OpenLoop(c, delta, k0), fw.tableaus[name]
    assert schedule.certifies(tableau) == always_convex(schedule, tableau)


@pytest.mark.parametrize(
    "schedule", [fw.LogOpenLoop(), Harmonic(), *map(fw.ConstantSchedule, (0.05, 0.5, 1.0))], ids=repr
)
@pytest.mark.parametrize("name", fw.tableaus)
def test_other_schedules_certify_by_a_sample_of_steps(schedule, name):
    assert schedule.certifies(fw.tableaus[name]) == always_convex(schedule, fw.tableaus[name])


def test_certificates_differ_across_the_catalogue():
    verdicts = {name: fw.OpenLoop().certifies(tableau) for name, tableau in fw.tableaus.items()}
    assert verdicts["rk44"]
    assert not verdicts["midpoint"]


@pytest.mark.parametrize(
    "options",
    [
        {"schedule": fw.OpenLoop(c=np.float64(2.0))},
        {"schedule": fw.OpenLoop(delta=np.float64(0.5))},
        {"schedule": fw.OpenLoop(k0=np.int64(1))},
        {"schedule": fw.ConstantSchedule(np.float64(0.5))},
        {"line_search": fw.Armijo(shrink=np.float64(0.5))},
        {"line_search": fw.Adaptive(relax=np.float64(0.9))},
    ],
    ids=lambda options: repr(*options.values()),
)
def test_float32_survives_parameters_that_are_numpy_numbers(options):
    f = fw.LinearModel(design(12, 6).astype(np.float32), targets(12))
    assert fw.minimize(f, fw.L1Ball(1.0), tol=0, max_iter=3, **options).x.dtype == np.float32


@st.composite
def segments(draw, names=(*OBJECTIVES, *MATRIX_OBJECTIVES)):
    """A convex objective on a segment along which it falls at first: the line, and its value and slope afresh."""
    name, seed = draw(st.sampled_from(names)), draw(seeds)
    length = draw(st.sampled_from([0.01, 1.0, 5.0] if name == "smooth" else [0.01, 1.0, 100.0]))
    f, shape = (OBJECTIVES[name](6, seed), 6) if name in OBJECTIVES else (MATRIX_OBJECTIVES[name]((4, 3), seed), (4, 3))
    rng = np.random.default_rng(seed)
    x, d = rng.standard_normal(shape), length * rng.standard_normal(shape)
    start = f.point(x)
    g = f.gradient(start)
    d = d if np.vdot(g, d) < 0 else -d
    line = along(f, start, f.point(x + d), f.value(start), None if g is None else as_gradient(g))

    def value(gamma):
        return f.value(f.point(x + gamma * d))

    def slope(gamma):
        return float(np.vdot(f.gradient(f.point(x + gamma * d)), d))

    return line, value, slope


def noise(line, *values):
    """Rounding of values and slopes of sums of a dozen losses."""
    return 100 * EPS * (1 + abs(line.value0) + max(map(abs, values), default=0.0))


@settings(cases, max_examples=150)
@pytest.mark.parametrize("name", ["exact", "secant"])
@given(segment=segments(), limit=st.sampled_from([1.0, 0.3]))
def test_exact_and_secant_find_the_minimiser(name, segment, limit):
    line, value, slope = segment
    gamma = step(name, line, limit=limit)[0]
    assert 0 <= gamma <= limit
    if slope(limit) <= -noise(line, slope(limit)):
        assert gamma == limit
        return
    # The search stops at |slope| <= 1e-10 |slope0|, or where the step has no digits left.
    h = 1e-14 * limit
    bend = max(abs(slope(gamma + s * h) - slope(gamma)) for s in (-2, 2))
    tolerance = 1e-10 * abs(line.slope0) + bend + noise(line, line.slope0)
    assert abs(slope(gamma)) <= tolerance
    root = brentq(slope, 0, limit, xtol=1e-15) if slope(limit) > 0 else limit
    other = minimize_scalar(value, bounds=(0, limit), method="bounded", options={"xatol": 1e-10}).x
    # convexity: no point of the segment is lower than this
    lowest = min(value(root), value(other))
    assert value(gamma) <= lowest + tolerance * limit + noise(line)


LETTER = fw.Aggressive(shrink=None)


@settings(cases, max_examples=100)
@given(
    segment=segments(),
    limit=st.sampled_from([1.0, 0.3]),
    gamma=st.sampled_from([1e-3, 0.1, 0.29]),
    shrink=st.sampled_from([0.5, 0.9]),
)
def test_aggressive_takes_the_longest_trial_that_decreases(segment, limit, gamma, shrink):
    line, value, _ = segment
    chosen, memory = fw.Aggressive(shrink).step(line, gamma, limit, None)
    trials = [limit * shrink**i for i in range(200) if limit * shrink**i > gamma]
    clear = [t for t in trials if abs(value(t) - line.value0) > noise(line, value(t))]
    assume(clear == trials)  # else rounding decides
    assert memory is None
    expected = next((t for t in trials if value(t) < line.value0), gamma)
    assert chosen == pytest.approx(expected, rel=1e-12)


def level(size, limit=1.0):
    """From one end of a segment to another of the same value, computed with an error of a few units of rounding."""
    values = {0.0: size, limit: size * (1 - 2 * EPS), limit / 2: size / 2}
    return Line(values.__getitem__, None, None, size, -2.0 * size, 1.0, None)


@pytest.mark.parametrize("size", [1.0, 1e-12, 1e9])
def test_a_decrease_that_may_be_rounding_is_none(size):
    assert step("aggressive", level(size))[0] == 0.5


def test_aggressive_by_name_is_the_rule_of_the_figures():
    assert find_line_search("aggressive") == fw.Aggressive() == fw.Aggressive(shrink=0.5)


#: f after 400 steps on the triangle, plain and with the search, from an independent implementation.
TRIANGLE = {
    "fw": (3.1e-6, 3.1e-6), "midpoint": (2.8e-5, 2.0e-5), "rk44": (3.5e-7, 8.6e-8), "rk38": (1.6e-9, 5.3e-13),
    "rk5": (1.0e-6, 1.0e-6),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::fwflow.UncertifiedWarning")
@pytest.mark.parametrize("method", TRIANGLE)
def test_aggressive_on_the_triangle(method):
    C = fw.ConvexHull([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    options = {"method": method, "schedule": fw.OpenLoop(k0=1), "tol": 0, "max_iter": 400}
    for search, expected in zip((None, "aggressive"), TRIANGLE[method], strict=True):
        r = fw.minimize(fw.Quadratic(np.eye(2)), C, [0.0, 1.0], line_search=search, **options)
        assert f"{r.fun:.1e}" == f"{expected:.1e}"


def test_the_letter_steps_between_vertices_of_equal_value_for_ever():
    C = fw.ConvexHull([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    r = fw.minimize(fw.Quadratic(np.eye(2)), C, [0.0, 1.0], method="fw", line_search=LETTER, tol=0, max_iter=50)
    assert set(r.trace["fun"]) == {0.5}
    assert set(r.trace["gap"][1:]) == {2.0}


@settings(cases, max_examples=100)
@given(segment=segments(), limit=st.sampled_from([1.0, 0.3]), gamma=st.sampled_from([1e-3, 0.1, 0.29]))
def test_the_letter_goes_as_far_as_there_is_no_increase(segment, limit, gamma):
    line, value, slope = segment
    chosen = step(LETTER, line, gamma, limit)[0]
    assert gamma <= chosen <= limit
    if value(limit) <= line.value0 - noise(line):
        assert chosen == limit
        return
    bottom = minimize_scalar(value, bounds=(0, limit), method="bounded", options={"xatol": 1e-12}).x
    assume(value(bottom) < line.value0 < value(limit))
    root = brentq(lambda s: value(s) - line.value0, bottom, limit, xtol=1e-14)
    # brentq is asked for 2e-10 and the same is taken off again; noise moves a crossing by noise / slope.
    tolerance = 4e-10 + 2 * noise(line) / slope(root)
    if root + tolerance < gamma:
        assert chosen == gamma
    else:
        assert abs(chosen - max(gamma, root)) <= tolerance
        if chosen > gamma:
            assert value(chosen) <= line.value0 + noise(line)


@cases
@given(
    segment=segments(tuple(name for name in OBJECTIVES if name not in ("smooth", "beckmann", "poisson"))),
    limit=st.sampled_from([1.0, 0.3]),
)
def test_short_minimises_the_upper_bound(segment, limit):
    line, value, _ = segment
    gamma = step("short", line, limit=limit)[0]

    def bound(s):
        return line.value0 + s * line.slope0 + s**2 * line.curvature / 2

    grid = np.linspace(0, limit, 1001)
    assert 0 < gamma <= limit
    assert bound(gamma) <= bound(grid).min() + noise(line)
    assert gamma == limit or line.slope0 + gamma * line.curvature == pytest.approx(0, abs=1e-14 * abs(line.slope0))
    assert value(gamma) <= bound(gamma) + noise(line, bound(gamma))


def test_short_uses_the_smoothness_of_a_function():
    f = fw.Smooth(lambda x: float(2 * x @ x), lambda x: 4 * x, smoothness=16.0)
    line = along(f, f.point([1.0, 0.0]), f.point([-1.0, 0.0]), 2.0, None)
    assert step("short", line)[0] == 8 / (16 * 4)  # slope -8 along d = (-2, 0)


@cases
@pytest.mark.parametrize("search", [fw.Armijo(), fw.Armijo(sigma=0.4, shrink=0.7)], ids=repr)
@given(segment=segments(), limit=st.sampled_from([1.0, 0.3]))
def test_armijo_takes_the_first_trial_that_passes(search, segment, limit):
    line, value, _ = segment
    gamma, memory = search.step(line, 0.1, limit, None)

    def excess(s):
        return value(s) - line.value0 - search.sigma * s * line.slope0

    assert memory is None
    assert 0 < gamma <= limit
    assert excess(gamma) <= noise(line, value(gamma))
    tries = math.log(gamma / limit) / math.log(search.shrink)
    assert abs(tries - round(tries)) < 1e-9
    for k in range(round(tries)):
        assert excess(limit * search.shrink**k) > -noise(line, value(limit * search.shrink**k))


@cases
@given(segment=segments(), limit=st.sampled_from([1.0, 0.3]), memory=st.sampled_from([None, 1e-6, 1.0, 1e3]))
def test_adaptive_stops_before_the_minimiser(segment, limit, memory):
    line, _, slope = segment
    gamma, M = step("adaptive", line, limit=limit, memory=memory)
    assert 0 < gamma <= limit
    assert slope(gamma) <= noise(line, line.slope0)
    assert gamma == min(limit, -line.slope0 / (M * line.norm2))
    if memory is not None:  # a power of two above the relaxed estimate
        doublings = math.log2(M / (0.9 * memory))
        assert abs(doublings - round(doublings)) < 1e-9
        assert doublings > -0.5


@pytest.mark.parametrize("curvature", [1e-3, 1.0, 1e4])
def test_adaptive_learns_the_curvature_from_both_sides(curvature):
    norm2 = 0.25
    line = Line(
        value=lambda s: -s + s**2 * curvature / 2,
        slope=lambda s: s * curvature - 1,
        second=None,
        value0=0.0,
        slope0=-1.0,
        norm2=norm2,
        curvature=None,
    )
    L = curvature / norm2
    for memory in (1e-9 * L, 1e9 * L, None):
        for _ in range(300):
            _, memory = step("adaptive", line, limit=1e6, memory=memory)
        assert memory >= L * (1 - 1e-12)
        assert memory <= 2 * L


def test_adaptive_survives_a_long_stretch_without_curvature():
    line = Line(
        value=lambda s: -s, slope=lambda s: -1.0, second=None, value0=0.0, slope0=-1.0, norm2=0.01, curvature=0.0
    )
    memory = None
    for _ in range(10_000):
        gamma, memory = step("adaptive", line, memory=memory)
        assert gamma == 1.0
    assert memory > 0


def parabola(slope0, curvature, quadratic=True):
    return Line(
        value=lambda s: slope0 * s + s**2 * curvature / 2,
        slope=lambda s: slope0 + s * curvature,
        second=lambda s: curvature,
        value0=0.0,
        slope0=slope0,
        norm2=1.0,
        curvature=curvature,
        quadratic=quadratic,
    )


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize(
    ("name", "expected"),
    [("exact", 0.25), ("secant", 0.25), ("short", 0.25), ("aggressive", 0.25), (LETTER, 0.5), ("armijo", 0.25)],
    ids=str,
)
def test_closed_forms(name, expected, quadratic):
    assert step(name, parabola(-1.0, 4.0, quadratic))[0] == pytest.approx(expected, abs=5e-10)
    assert step(name, parabola(-1.0, 4.0, quadratic), limit=0.125)[0] == 0.125


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize("curvature", [0.0, -1.0])
@pytest.mark.parametrize("name", [name for name in NAMES if name != "monotonic"])  # which never exceeds the schedule
def test_without_curvature_the_step_is_the_longest(name, curvature, quadratic):
    assert step(name, parabola(-1.0, curvature, quadratic), limit=0.75)[0] == 0.75


@cases
@given(gamma=st.floats(1e-6, 1), limit=st.floats(1e-6, 1), curvature=st.floats(-10, 1e6), end=st.floats(1e-6, 2))
def test_monotonic_is_the_largest_halving_of_the_schedule_in_the_domain(gamma, limit, curvature, end):
    line = parabola(-1.0, curvature, quadratic=False)
    outside = dataclasses.replace(line, value=lambda t: line.value(t) if t < end else math.nan)
    chosen, memory = fw.Monotonic().step(outside, gamma, limit, None)
    halvings = [gamma * 0.5**i for i in range(60)]
    assert chosen == next(t for t in halvings if t <= limit and t < end and line.value(t) <= line.value0)
    assert memory is None


def test_monotonic_gives_up_where_every_point_is_higher():
    up = dataclasses.replace(parabola(-1.0, 1.0, quadratic=False), value=lambda t: 1.0)
    assert step("monotonic", up) == (0.0, None)


@pytest.mark.parametrize("kind", ["poisson", "log-det"])
def test_monotonic_converges_for_self_concordant_functions(kind):
    A = np.random.default_rng(0).uniform(0.1, 1.0, (30, 8))
    if kind == "poisson":
        f, C = fw.LinearModel(A, np.random.default_rng(1).poisson(3.0, 30), loss="poisson"), fw.Simplex(8.0)
    else:

        def information(x):
            return (A.T * x) @ A

        f = fw.Smooth(
            lambda x: -np.linalg.slogdet(information(x))[1],
            lambda x: -np.einsum("ij,ji->i", A, np.linalg.solve(information(x), A.T)),
            domain=lambda x: np.linalg.eigvalsh(information(x))[0] > 1e-12,
        )
        C = fw.Simplex()
    n = 8 if kind == "poisson" else 30
    x0 = np.full(n, (8.0 if kind == "poisson" else 1.0) / n)
    r = fw.minimize(f, C, x0, method="fw", line_search="monotonic", tol=0.02 * n)
    assert r.success
    assert (np.diff(r.trace["fun"]) <= 0).all()
    exact = fw.minimize(f, C, x0, tol=1e-8)
    assert exact.fun <= r.fun + 1e-8
    assert r.fun - exact.fun <= r.gap


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize("slope0", [0.0, 1e-12, 2.0])
@pytest.mark.parametrize("name", NAMES)
def test_no_step_along_a_direction_that_does_not_descend(name, slope0, quadratic):
    memory = 3.0 if name == "adaptive" else None
    gamma, after = step(name, parabola(slope0, 1.0, quadratic), gamma=0.1, memory=memory)
    assert gamma == (0.1 if name == "aggressive" else 0.0)
    assert after == memory


@pytest.mark.parametrize(("objective", "name"), SEARCHES)
def test_zero_directions_do_no_harm(objective, name):
    f = OBJECTIVES[objective](6, 0)
    point = f.point(targets(6))
    line = along(f, point, point, f.value(point), None)
    assert step(name, line)[0] == (0.1 if name == "aggressive" else 0.0)


@pytest.mark.parametrize("broken", [NAN, INF])
@pytest.mark.parametrize("name", ["aggressive", LETTER, "exact", "armijo", "adaptive", "secant"], ids=str)
def test_values_that_are_not_finite_shorten_the_step(name, broken):
    line = Line(
        value=lambda s: (s - 0.2) ** 2 if s <= 0.3 else broken,
        slope=lambda s: 2 * (s - 0.2) if s <= 0.3 else broken,
        second=None,
        value0=0.04,
        slope0=-0.4,
        norm2=1.0,
        curvature=None,
    )
    assert 0 < step(name, line)[0] <= 0.3


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("method", ["fw", "heun", "rk44"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_searches_make_no_pass_over_the_data(name, method, loss):
    f = fw.LinearModel(design(12, 6), labels(12), loss)
    r = fw.minimize(f, fw.L1Ball(5.0), method=method, line_search=name, tol=0, max_iter=40)
    stages = {"fw": 1, "heun": 2, "rk44": 4}[method]
    assert set(np.diff(r.trace["n_design"])) == {stages}
    assert set(np.diff(r.trace["n_grad"])) == {stages}
    assert set(np.diff(r.trace["n_lmo"])) == {stages}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize(("objective", "name"), SEARCHES)
def test_steps_in_runs_are_feasible_and_descend(name, method, objective):
    f = OBJECTIVES[objective](6, 0)
    r = fw.minimize(f, fw.L1Ball(3.0), np.zeros(6), method=method, line_search=name, tol=0, max_iter=60)
    steps, gammas = r.trace["step"][1:], 2 / (2 + np.arange(60))
    assert (steps >= 0).all()
    assert (steps <= 1).all()
    assert r.feasible
    if name == "aggressive":
        assert (steps >= gammas * (1 - 4 * EPS)).all()
    else:
        assert (np.diff(r.trace["fun"]) <= 10 * EPS * np.abs(r.trace["fun"]).max()).all()


@pytest.mark.parametrize("name", DESCENDING)
@pytest.mark.parametrize("objective", ["squared", "logistic", "quadratic"])
def test_searches_reach_the_optimum(name, objective):
    r = fw.minimize(OBJECTIVES[objective](6, 1), fw.L2Ball(1.0), line_search=name, tol=1e-5, max_iter=3000)
    assert r.success


def test_a_step_to_the_letter_ends_where_the_schedule_or_the_level_set_does():
    f = fw.Quadratic(np.diag([1.0, 10.0]), [0.3, 0.1])
    f_values = fw.minimize(f, fw.L1Ball(1.0), line_search=LETTER, tol=0, max_iter=30).trace
    gammas = 2 / (2 + np.arange(30))
    rises = np.diff(f_values["fun"]) > 1e-14
    at_schedule = np.isclose(f_values["step"][1:], gammas, rtol=1e-14)
    assert (at_schedule | ~rises).all()
    # a longer step goes on to the level of the point it left, or to the end of the segment
    longer = ~at_schedule & (f_values["step"][1:] < 1)
    np.testing.assert_allclose(np.diff(f_values["fun"])[longer], 0, atol=1e-14)


class Given(fw.LineSearch):
    """Steps by the schedule's gamma, times a factor."""

    def __init__(self, factor=1.0):
        self.factor = factor

    def step(self, line, gamma, limit, memory):
        assert gamma <= limit * (1 + 4 * EPS)
        return self.factor * gamma, memory


@pytest.mark.parametrize("method", ["fw", "heun", "rk44", "rk5"])
def test_the_direction_is_the_step_over_gamma(method):
    f, C, x0 = OBJECTIVES["logistic"](6, 0), fw.L1Ball(2.0), np.zeros(6)
    options = {"method": method, "schedule": fw.OpenLoop(c=3.0, k0=1), "tol": 0}
    plain, same = (fw.minimize(f, C, x0, line_search=s, max_iter=20, **options).x for s in (None, Given()))
    np.testing.assert_allclose(same, plain, rtol=0, atol=1e-13)
    whole, half = (fw.minimize(f, C, x0, line_search=s, max_iter=1, **options) for s in (None, Given(0.5)))
    np.testing.assert_allclose(half.x, whole.x / 2, rtol=0, atol=1e-15)
    np.testing.assert_allclose(half.trace["step"][1], whole.trace["step"][1] / 2, rtol=1e-15)


def test_a_search_of_ones_own_is_used_and_keeps_its_memory():
    class Third(fw.LineSearch):
        def step(self, line, gamma, limit, memory):
            return min(limit, 1 / 3), (0 if memory is None else memory) + 1

    r = fw.minimize(QUADRATIC, fw.Simplex(), [1.0, 0.0, 0.0], line_search=Third(), tol=0, max_iter=5)
    np.testing.assert_array_equal(r.trace["step"][1:], np.full(5, 1 / 3))
    assert r.state.memory.search == 5


def test_every_name_makes_a_search():
    assert set(NAMES) == set(line_searches)
    assert find_line_search(None) is None
    search = fw.Armijo(0.1)
    assert find_line_search(search) is search
    assert find_line_search("secant") == fw.ExactSearch(newton=False)
