from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

import fwflow as fw
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex
from fwflow.tableau.scheme import mixture_weights, stages

EPS = np.finfo(float).eps
CATALOGUE = pytest.mark.parametrize("name", fw.tableaus)
thorough = settings(deadline=None, max_examples=60, derandomize=True)


def textbook_step(tableau, x, k, target, c=2, delta=1):
    """One Runge-Kutta step as the textbook writes it; also the points of the stages."""
    A, beta, omega = tableau
    x_bars, xis = [], []
    for i, w in enumerate(omega):
        x_bars.append(x + sum(A[i][j] * xis[j] for j in range(i)))
        xis.append(delta * c / (c + (k + w) * delta) * (target(i, x_bars[i]) - x_bars[i]))
    return x + sum(b * xi for b, xi in zip(beta, xis, strict=True)), x_bars


def magnitude(tableau, x, k, s, c, delta):
    """The same step without cancellation: what the rounding errors of either form are relative to."""
    A, beta, omega = ([[abs(a) for a in row] for row in tableau[0]], [abs(b) for b in tableau[1]], tableau[2])
    sizes = [abs(v) for v in s]
    # The target 2 x_bar + |s| turns s - x_bar into |s| + x_bar.
    step, x_bars = textbook_step((A, beta, omega), abs(x), k, lambda i, x_bar: 2 * x_bar + sizes[i], c, delta)
    return max(np.abs(v).max() for v in (step, *x_bars))


def certainly(tableau, schedule):
    """The warning that an uncertified tableau must give, and no other."""
    return nullcontext() if schedule.certifies(tableau) else pytest.warns(fw.UncertifiedWarning)


small = st.fractions(min_value=-1, max_value=2, max_denominator=6)
shares = st.fractions(min_value=0, max_value=1, max_denominator=6)
speeds = st.fractions(1, 5, max_denominator=4)
time_steps = st.fractions(Fraction(1, 50), 2, max_denominator=50)


@st.composite
def coefficients(draw, max_stages=5):
    q = draw(st.integers(1, max_stages))
    A = [[draw(small) for _ in range(i)] + [Fraction(0)] * (q - i) for i in range(q)]
    beta = [draw(small) for _ in range(q - 1)]
    return A, [*beta, 1 - sum(beta)], [Fraction(0), *(draw(shares) for _ in range(q - 1))]


def tableau_of(coefficients):
    A, beta, omega = coefficients
    return fw.Tableau([[float(a) for a in row] for row in A], [float(b) for b in beta], [float(w) for w in omega])


def plain(tableau):
    return tableau.A.tolist(), tableau.beta.tolist(), tableau.omega.tolist()


@given(coefficients(), st.data(), st.integers(0, 100), speeds, time_steps)
@thorough
def test_mixture_is_the_textbook_step_in_exact_arithmetic(tableau, data, k, c, delta):
    A, beta, omega = tableau
    x, *s = data.draw(st.lists(small, min_size=len(beta) + 1, max_size=len(beta) + 1))
    W, p = mixture_weights(A, beta, [delta * c / (c + (k + w) * delta) for w in omega])
    step, x_bars = textbook_step(tableau, x, k, lambda i, _: s[i], c, delta)
    assert [x + sum(w * (v - x) for w, v in zip(row, s, strict=False)) for row in W] == x_bars
    assert x + sum(w * (v - x) for w, v in zip(p, s, strict=True)) == step


@given(coefficients(), st.integers(0, 2**32), st.integers(0, 100), speeds, time_steps)
@thorough
def test_mixture_is_the_textbook_step_to_rounding(tableau, seed, k, c, delta):
    c, delta, tableau = float(c), float(delta), tableau_of(tableau)
    q = tableau.stages
    x, *s = np.random.default_rng(seed).standard_normal((q + 1, 3))
    expected, x_bars = textbook_step(plain(tableau), x, k, lambda i, _: s[i], c, delta)
    met = []

    def oracle(i, x_bar):
        met.append(x_bar.x)
        return Lifted(DenseVertex(s[i]))

    W, p = tableau.mixture(fw.OpenLoop(c=c, delta=delta).stage_gammas(k, tableau.omega.tolist()))
    step = Point(x).mix(zip(p, stages(Point(x), W, oracle), strict=True))
    # At most 4 q^2 operations lie between an input and an output, in either form.
    atol = 8 * q**2 * EPS * magnitude(plain(tableau), x, k, s, c, delta)
    np.testing.assert_allclose([*met, step.x], [*x_bars, expected], rtol=0, atol=atol)


@given(coefficients(max_stages=4), st.integers(0, 2**32), st.integers(0, 20), speeds, time_steps)
@thorough
def test_minimize_takes_the_textbook_step(tableau, seed, k, c, delta):
    c, delta, tableau = float(c), float(delta), tableau_of(tableau)
    rng = np.random.default_rng(seed)
    V, b = rng.standard_normal((6, 3)), rng.standard_normal(3)
    x = rng.dirichlet(np.ones(6)) @ V
    targets = []

    def target(_, x_bar):
        scores = V @ (x_bar - b)
        best, second = np.sort(scores)[:2]
        assume(second - best > 1e-9 * (1 + abs(best)))  # rounding must not choose the vertex
        targets.append(V[scores.argmin()])
        return targets[-1]

    expected, _ = textbook_step(plain(tableau), x, k, target, c, delta)
    schedule = fw.OpenLoop(c=c, delta=delta, k0=k)
    with certainly(tableau, schedule):
        r = fw.minimize(fw.Quadratic(np.eye(3), b), fw.ConvexHull(V), x, method=tableau, schedule=schedule, max_iter=1)
    assume(r.nit == 1)
    atol = 8 * tableau.stages**2 * EPS * magnitude(plain(tableau), x, k, targets, c, delta)
    np.testing.assert_allclose(r.x, expected, rtol=0, atol=atol)


TRIANGLE = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])


def triangle_vertex(g):
    return TRIANGLE[(TRIANGLE @ g).argmin()]


def interval_vertex(g):
    return np.where(g > 0, -1.0, 1.0)


PROBLEMS = {
    "triangle": (fw.ConvexHull(TRIANGLE), triangle_vertex, [0.0, 1.0]),
    # From a rational start some iterate hits the kink at 0 exactly, and then rounding decides.
    "interval": (fw.Box(-1.0, 1.0), interval_vertex, [2**-0.5]),
}


def reference_run(tableau, lmo, x, steps, c=2.0, k0=1, momentum=False, search=False):
    """The paper's recursion for f = ||x||^2 / 2, whose gradient is x."""
    A, beta, omega = plain(tableau)
    X, lengths, theta, v = [x], [np.nan], np.zeros_like(x), x
    for k in range(k0, k0 + steps):
        xis = []
        for i, w in enumerate(omega):
            gamma = c / (c + k + w)
            x_bar = x + sum(A[i][j] * xis[j] for j in range(i))
            y = (1 - gamma) * x_bar + gamma * v
            theta = (1 - gamma) * theta + gamma * y
            v = lmo(theta if momentum else x_bar)
            xis.append(gamma * (v - x_bar))
        gamma = c / (c + k)
        d = sum(b * xi for b, xi in zip(beta, xis, strict=True)) / gamma
        if search:  # f(x + g d) <= f(x) exactly for 0 <= g <= -2 <x, d> / ||d||^2
            gamma = max(gamma, min(1.0, -2 * (x @ d) / (d @ d)))
        x = x + gamma * d
        X.append(x)
        lengths.append(gamma)
    return np.array(X), np.array(lengths)


@pytest.mark.sampled(5)
@CATALOGUE
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("momentum", [None, "nesterov"])
@pytest.mark.parametrize("search", [None, "aggressive"])
def test_trajectory_follows_the_papers_recursion(name, problem, momentum, search):
    tableau, (C, lmo, x0), steps = fw.tableaus[name], PROBLEMS[problem], 100
    X = []
    schedule = fw.OpenLoop(c=2.0, k0=1)
    with certainly(tableau, schedule):
        r = fw.minimize(
            fw.Quadratic(np.eye(len(x0))),
            C,
            x0,
            method=name,
            schedule=schedule,
            momentum=momentum,
            line_search=None if search is None else fw.Aggressive(shrink=None),  # the letter of the formula
            tol=0,
            max_iter=steps,
            callback=lambda state: X.append(state.x),
        )
    expected, lengths = reference_run(
        tableau, lmo, np.array(x0), steps, momentum=momentum is not None, search=search is not None
    )
    # A step shrinks the errors before it and adds those of at most 8 q^2 operations on numbers of size one.
    atol = 8 * tableau.stages**2 * EPS * steps
    np.testing.assert_allclose(X, expected, rtol=0, atol=atol)
    np.testing.assert_allclose(r.trace["step"], lengths, rtol=0, atol=atol)
    np.testing.assert_allclose(r.trace["fun"], (expected**2).sum(axis=1) / 2, rtol=0, atol=2 * atol)


def test_euler_on_the_triangle_by_hand():
    X = []
    fw.minimize(
        fw.Quadratic(np.eye(2)),
        fw.ConvexHull(TRIANGLE),
        [0.0, 1.0],
        schedule=fw.OpenLoop(c=2.0, k0=1),
        tol=0,
        max_iter=3,
        callback=lambda state: X.append(state.x),
    )
    # gamma = 2/3, 1/2, 2/5; the tie at the start goes to the first vertex.
    np.testing.assert_allclose(X, [[0, 1], [-2 / 3, 1 / 3], [1 / 6, 1 / 6], [-3 / 10, 1 / 10]], rtol=0, atol=4 * EPS)


def linear(b):
    return fw.Smooth(lambda x: float(b @ x), lambda x: b, shape=b.shape)


@CATALOGUE
@pytest.mark.parametrize("c", [1.0, 2.0, 4.0])
def test_a_linear_objective_attains_the_bound_with_the_order_of_the_tableau(name, c):
    # The gap of a linear f is its error, so the bound is an equality of the flow.
    b, tableau, t_end = np.array([1.0, -2.0, 0.5]), fw.tableaus[name], 2.0
    best = -np.abs(b).max()

    def worst(delta):
        with certainly(tableau, fw.OpenLoop(c=c, delta=delta)):
            path = fw.flow(linear(b), fw.L1Ball(1.0), [0.2, 0.5, 0.1], t_end=t_end, c=c, delta=delta, method=name)
        error = (path.fun - best) / (path.fun[0] - best)
        return np.abs(error - fw.rate_bound(path.t, c)).max()

    # At c = 1 most tableaus integrate 1 / (1 + t) exactly, and only rounding is left.
    rounding = 4 * tableau.stages**2 * EPS * t_end / 0.05
    assert worst(0.05) <= max(worst(0.1) / 2 ** (tableau.order - 0.5), rounding)


@CATALOGUE
def test_the_flow_on_a_curved_set_converges_with_the_order_of_the_tableau(name):
    # With its minimiser outside a ball the flow is smooth; SciPy integrates it independently.
    tableau, b, c, times = fw.tableaus[name], np.array([2.0, 1.0]), 2.0, np.linspace(0, 2, 21)
    x0 = np.array([-0.3, 0.4])

    def field(t, x):
        return c / (c + t) * ((b - x) / np.linalg.norm(b - x) - x)

    true = solve_ivp(field, (0, 2), x0, method="DOP853", rtol=1e-13, atol=1e-15, t_eval=times).y.T

    def worst(delta, every):
        with certainly(tableau, fw.OpenLoop(c=c, delta=delta)):
            f, C = fw.Quadratic(np.eye(2), b), fw.L2Ball(1.0)
            path = fw.flow(f, C, x0, t_end=2.0, c=c, delta=delta, method=name, every=every)
        np.testing.assert_allclose(path.t, times, rtol=4 * EPS)
        return np.abs(path.x - true).max()

    assert np.log2(worst(0.1, 1) / worst(0.05, 2)) == pytest.approx(tableau.order, abs=0.5)


def triangle_flow(method, delta, **options):
    tableau = fw.tableaus[method]
    with certainly(tableau, fw.OpenLoop(delta=delta)):
        return fw.flow(fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), delta=delta, method=method, **options)


@pytest.mark.sampled(3)
@CATALOGUE
def test_small_steps_of_every_tableau_follow_the_same_flow(name):
    def distance(delta, every):
        options = {"x0": [0.3, 0.6], "t_end": 4.0}
        path = triangle_flow(name, delta, every=every, **options)
        fine = triangle_flow("euler", delta / 4, every=4 * every, **options)
        return np.linalg.norm(path.x - fine.x, axis=1).max()

    # The kinks of a polygon leave every tableau first order: at an eighth of the step, near an eighth.
    assert distance(0.01, 8) <= distance(0.08, 1) / 4


@pytest.mark.parametrize("c", [1.0, 2.0, 4.0])
@pytest.mark.parametrize("delta", [1.0, 0.1, 0.02])
def test_errors_stay_under_the_bound_up_to_a_floor(c, delta):
    path = triangle_flow("euler", delta, x0=[0.0, 1.0], t_end=20.0, c=c)
    # By smoothness E+ <= (1 - g) E + L D^2 g^2 / 2 with g = delta gamma, L = 1, D = 2 and E(0) = 1/2;
    # the product of the 1 - g is below the flow's bound because gamma decreases.
    floor = [0.0]
    for t in path.t[:-1]:
        g = delta * c / (c + t)
        floor.append((1 - g) * floor[-1] + 4 * g**2)
    assert (path.fun / path.fun[0] <= fw.rate_bound(path.t, c) + floor + 4 * EPS).all()


def test_the_floor_under_the_bound_shrinks_with_delta():
    paths = [triangle_flow("euler", delta, x0=[0.0, 1.0], t_end=60.0, c=4.0) for delta in (1.0, 0.1, 0.01)]
    late = [(path.fun / path.fun[0])[path.t >= 30].max() for path in paths]
    assert late[0] > fw.rate_bound(30.0, 4.0) > late[1]
    assert late[1] <= late[0] / 10
    assert late[2] <= late[1] / 10


def test_flow_samples_every_step():
    f, C, x0 = fw.Quadratic(np.eye(2), [1.0, 0.3]), fw.L1Ball(1.0), [0.1, -0.2]
    path = fw.flow(f, C, x0, t_end=1.0, c=4.0, delta=0.1, method="heun")
    X = []
    schedule = fw.OpenLoop(c=4.0, delta=0.1)
    fw.minimize(
        f, C, x0, method="heun", schedule=schedule, tol=0, max_iter=10, callback=lambda state: X.append(state.x)
    )
    np.testing.assert_array_equal(path.x, X)
    np.testing.assert_allclose(path.t, np.linspace(0, 1, 11), rtol=2 * EPS)
    assert path.t.shape == path.fun.shape == path.gap.shape == (11,)
    for x, fun, gap in zip(path.x, path.fun, path.gap, strict=True):
        g = x - [1.0, 0.3]
        # The carried image H x is mixed apart from x: up to ten steps of rounding between them.
        assert fun == pytest.approx(x @ x / 2 - x @ [1.0, 0.3], abs=100 * EPS)
        assert gap == pytest.approx(g @ x + np.abs(g).max(), abs=100 * EPS)
    np.testing.assert_array_equal(path.result.x, path.x[-1])
    assert path.result.nit == 10


def test_flow_defaults():
    f, C = fw.Quadratic(np.eye(2), [1.0, 0.3]), fw.L1Ball(1.0)
    path = fw.flow(f, C, t_end=0.05)
    same = fw.flow(f, C, [0.0, 0.0], t_end=0.05, c=2.0, delta=0.01, method="euler", every=1)
    np.testing.assert_array_equal(path.x, same.x)
    np.testing.assert_array_equal(path.t, same.t)


@pytest.mark.parametrize(("t_end", "delta"), [(1.0, 0.1), (0.3, 0.1), (0.7, 0.1), (1.0, 0.3), (0.1, 1.0)])
def test_flow_ends_with_the_first_sample_at_or_after_the_end(t_end, delta):
    t = fw.flow(linear(np.ones(2)), fw.Simplex(), t_end=t_end, delta=delta).t
    assert t[0] == 0
    assert t[-1] >= t_end * (1 - 2 * EPS)
    assert t[-2] < t_end * (1 - 2 * EPS)


@pytest.mark.parametrize("every", [1, 2, 3, 10, 99])
def test_flow_keeps_every_so_many_th_point(every):
    f, C, x0 = fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), [0.0, 1.0]
    whole, part = (fw.flow(f, C, x0, t_end=1.0, delta=0.1, every=n) for n in (1, every))
    for field in ("t", "x", "fun", "gap"):
        np.testing.assert_array_equal(getattr(part, field), getattr(whole, field)[::every])


def test_flow_of_matrices_keeps_their_shape():
    f = fw.MatrixCompletion([0, 1], [0, 2], [1.0, -1.0], (2, 3))
    assert fw.flow(f, fw.NuclearBall(1.0), t_end=0.5, delta=0.1).x.shape == (6, 2, 3)


def test_flow_points_are_not_overwritten():
    path = fw.flow(linear(np.array([1.0, 0.0])), fw.Simplex(), [0.5, 0.5], t_end=0.3, delta=0.1)
    assert len({tuple(x) for x in path.x}) == 4


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("t_end", 0.0),
        ("t_end", -1.0),
        ("t_end", np.inf),
        ("t_end", np.nan),
        ("t_end", None),
        ("delta", 0.0),
        ("delta", -0.1),
        ("delta", np.nan),
        ("c", 0.5),
        ("c", np.nan),
        ("every", 0),
        ("every", -2),
        ("every", 1.5),
    ],
)
def test_flow_refuses_bad_arguments_by_name(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument} must"):
        fw.flow(linear(np.ones(2)), fw.Simplex(), **{"t_end": 1.0, argument: value})


@pytest.mark.parametrize("edge", [0.5, 0.0])
def test_flow_that_stops_early_returns_what_it_has(edge):
    # The flow from 1 towards -1 leaves the domain on its way.
    f = fw.Smooth(lambda x: float(x @ x) / 2 + 2 * x[0], lambda x: x + 2, domain=lambda x: x[0] > edge)
    path = fw.flow(f, fw.Box(-1.0, 1.0), [1.0], t_end=2.0, delta=0.1)
    assert path.result.status is fw.Status.NUMERICAL
    assert len(path.t) == len(path.x) == len(path.fun) == len(path.gap) > 1
    assert (path.x > edge).all()


def test_flow_that_cannot_start_says_why():
    f = fw.Smooth(lambda x: float(x @ x) / 2, lambda x: x, domain=lambda x: x[0] > 2)
    path = fw.flow(f, fw.Box(-1.0, 1.0), [1.0], t_end=2.0, delta=0.1)
    assert path.result.status is fw.Status.NUMERICAL
    assert "domain" in path.result.message
    assert len(path.t) == len(path.x) == len(path.fun) == len(path.gap)


@pytest.mark.parametrize("c", [1.0, 2.0, 4.0])
def test_rate_bound(c):
    t = np.array([0.0, 1.0, c, 3 * c])
    np.testing.assert_allclose(fw.rate_bound(t, c), [1, (c / (c + 1)) ** c, 0.5**c, 0.25**c], rtol=4 * EPS)
    assert float(fw.rate_bound(2)) == 0.25
    assert fw.rate_bound([[0, 1, 2]]).shape == (1, 3)
