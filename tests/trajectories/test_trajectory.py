"""The flow as a function of time: against small steps of Euler's method, and between its events."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.methods.test_exact import (
    EPS,
    Instance,
    box,
    exact,
    hull,
    instance,
    keys_of,
    l1,
    linf,
    scaled,
    seeds,
    simplex,
    translated,
)
from tests.trajectories.test_flow import TRIANGLE


def vertices_of(C, n):
    """All of them, one per row."""
    if isinstance(C, fw.L1Ball):
        return C.radius * np.vstack([np.eye(n), -np.eye(n)])
    if isinstance(C, fw.Simplex):
        return C.radius * np.eye(n)
    if isinstance(C, fw.ConvexHull):
        return C.vertices
    if isinstance(C, fw.Birkhoff):
        return np.stack([np.eye(C.n)[list(order)].reshape(-1) for order in itertools.permutations(range(C.n))])
    return np.array(list(itertools.product(*np.transpose(C.bounds((n,))))))


def triangle(x0=(0.3, 0.6)):
    return Instance(fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), x0, np.eye(2), np.zeros(2), 0.0, None, None)


def curved(seed):
    """A random problem with H of full rank over a set of moderate size, whose flow is unique."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 6))
    C = [
        fw.L1Ball(1.0),
        fw.Simplex(),
        fw.Box(-rng.random(n), rng.random(n)),
        fw.LInfBall(0.5),
        fw.ConvexHull(rng.uniform(-1, 1, (2 * n, n))),
        fw.Birkhoff(3),
    ][seed % 6]
    n = 9 if isinstance(C, fw.Birkhoff) else n
    B = rng.standard_normal((2 * n, n)) / np.sqrt(n)
    H, b = B.T @ B, rng.standard_normal(n) / 2
    H = (H + H.T) / 2
    x0 = rng.dirichlet(np.ones(len(V := vertices_of(C, n)))) @ V
    return Instance(fw.Quadratic(H, b), C, x0, H, b, 0.0, None, None)


PROBLEMS = {"triangle": triangle, "triangle from a vertex": lambda: triangle((0.0, 1.0))}
PROBLEMS |= {f"random {seed}": lambda seed=seed: curved(seed) for seed in range(20)}
every_problem = pytest.mark.parametrize("name", PROBLEMS)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [*PROBLEMS][:14])  # ten thousand steps each; every kind of set twice
def test_small_steps_of_euler_follow_it(name):
    p = PROBLEMS[name]()
    sol = fw.exact_flow(p.f, p.C, p.x0)
    path = fw.flow(p.f, p.C, p.x0, t_end=1.0, delta=1e-4, every=50)
    distance = np.linalg.norm(sol(path.t) - path.x, axis=1)
    assert distance.max() <= 1e-3
    assert np.linalg.norm(path.x - path.x[0], axis=1).max() > 0.1  # it did go somewhere


@every_problem
@pytest.mark.parametrize("c", [1.0, 2.0, 4.0])
def test_errors_stay_under_the_bound(name, c):
    p = PROBLEMS[name]()
    sol = fw.exact_flow(p.f, p.C, p.x0)
    t = np.concatenate([[0], np.geomspace(1e-3, 1e6, 200), [e.time(c) for e in sol.events], [np.inf]])
    error = np.array([p.value(x) for x in sol(t, c=c)]) - p.value(sol.result.x)
    assert (error <= error[0] * fw.rate_bound(t, c) + 100 * EPS * (1 + abs(p.value(sol.result.x)))).all()
    assert (error >= -100 * EPS * (1 + abs(p.value(sol.result.x)))).all()


@every_problem
def test_between_events_the_tied_vertices_tie_and_x_goes_straight_to_the_target(name):
    p = PROBLEMS[name]()
    box = p.C.bounds(np.shape(p.x0)) is not None
    sol = fw.exact_flow(p.f, p.C, p.x0)
    V = vertices_of(p.C, len(p.b))
    turns = [e.tau for e in sol.events]
    assert turns[0] == 0
    assert turns == sorted(turns)
    x, active = np.asarray(p.x0), set()
    for now, tau_next in zip(sol.events, [*turns[1:], turns[-1] + 3.0], strict=True):
        target = np.asarray(now.target)
        assert (active | keys_of(now.entered)) - keys_of(now.left) == keys_of(now.active)
        active = keys_of(now.active)
        np.testing.assert_allclose(sol.at(now.tau), x, rtol=0, atol=1e-13)
        for tau in np.linspace(now.tau, tau_next, 5):
            here = x + (1 - np.exp(now.tau - tau)) * (target - x)
            np.testing.assert_allclose(sol.at(tau), here, rtol=0, atol=1e-13)
            g = p.gradient(here)
            least = (V @ g).min()
            assert target @ g == pytest.approx(least, abs=1e-9)
            for thing in now.active:
                tied = g[thing] if box else thing.dot(g) - least
                assert tied == pytest.approx(0, abs=1e-9)
        x = here
    if not box:
        assert p.C.contains(x)
    np.testing.assert_allclose(sol.at(np.inf), target, rtol=0, atol=1e-13)


@settings(deadline=None, max_examples=60, derandomize=True)
@given(seed=seeds, n=st.integers(1, 8), make=st.sampled_from([l1, simplex, box, linf, hull, scaled, translated]))
def test_every_point_is_in_the_set(seed, n, make):
    p = instance(make, seed, n)
    sol = fw.exact_flow(p.f, p.C, p.x0)
    turns = [e.tau for e in sol.events]
    assert all(p.C.contains(x) for x in sol.at([*turns, *np.linspace(0, turns[-1] + 1, 20), np.inf]))


def test_the_triangle_by_hand():
    # From (0, 1) the two lower vertices tie: their mixture nearest to the origin is the origin itself.
    sol = fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), [0.0, 1.0])
    t = np.array([0.0, 0.5, 2.0, 10.0, np.inf])
    for c in (1.0, 2.0, 4.0):
        np.testing.assert_allclose(sol(t, c=c), np.outer(fw.rate_bound(t, c), [0, 1]), rtol=0, atol=4 * EPS)
    assert [e.tau for e in sol.events] == [0.0, 0.0]
    assert len(sol.events[-1].active) == 2
    np.testing.assert_array_equal(sol.result.x, [0.0, 0.0])


def test_an_event_at_a_time_known_by_hand():
    # On the segment from -1 to 1, x(tau) = 1 - 3/2 exp(-tau) passes 0 at tau = log(3/2), and stays.
    sol = fw.exact_flow(fw.Quadratic([[1.0]]), fw.ConvexHull([[-1.0], [1.0]]), [-0.5])
    assert [e.tau for e in sol.events] == pytest.approx([0.0, np.log(1.5)], rel=4 * EPS)
    for c in (1.0, 2.0, 4.0):
        assert sol.events[1].time(c) == pytest.approx(c * (1.5 ** (1 / c) - 1), rel=10 * EPS)
        np.testing.assert_allclose(sol([0.0, sol.events[1].time(c), 50.0], c=c), [[-0.5], [0], [0]], atol=4 * EPS)
    for e, entered in zip(sol.events, (1.0, -1.0), strict=True):
        np.testing.assert_array_equal(np.asarray(e.entered), [[entered]])


def test_time_may_be_a_number_or_an_array():
    p = curved(0)
    sol = fw.exact_flow(p.f, p.C, p.x0)
    n = len(p.b)
    assert sol(0.3).shape == sol.at(0.3).shape == (n,)
    assert sol([]).shape == (0, n)
    assert sol([[0.0, 0.3], [1.0, 2.0]]).shape == (2, 2, n)
    np.testing.assert_allclose(sol([[0.0, 0.3]])[0, 1], sol(0.3), rtol=0, atol=4 * EPS)
    np.testing.assert_allclose(sol(0.7, c=3.0), sol.at(3 * np.log1p(0.7 / 3)), rtol=0, atol=4 * EPS)
    np.testing.assert_array_equal(sol(0.7), sol(0.7, c=2.0))
    np.testing.assert_array_equal(sol(0), p.x0)
    np.testing.assert_allclose(sol(np.inf), sol.result.x, rtol=0, atol=4 * EPS)
    assert sol.tau_end == np.inf


@pytest.mark.parametrize("t", [-1.0, -3.0, np.nan, [0.0, -1e-9], [np.nan, 1.0], -np.inf])
def test_times_before_the_start_are_refused(t):
    sol = fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"negative or NaN"):
        sol(t)
    with pytest.raises(ValueError, match=r"negative or NaN"):
        sol.at(t)


@pytest.mark.parametrize("c", [0.5, 0.0, -1.0, np.nan, np.inf, "2"])
def test_bad_speeds_are_refused(c):
    sol = fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"^c must"):
        sol(1.0, c=c)


@pytest.mark.parametrize("max_events", [0, -1, 1.5])
def test_bad_limits_are_refused(max_events):
    with pytest.raises(ValueError, match=r"^max_events must"):
        fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull(TRIANGLE), max_events=max_events)


def test_an_incomplete_trajectory_refuses_later_times():
    p = curved(0)
    whole = fw.exact_flow(p.f, p.C, p.x0)
    turns = [e.tau for e in whole.events]
    k = next(k for k in range(2, len(turns)) if turns[k] > turns[k - 1] > 0)
    part = fw.exact_flow(p.f, p.C, p.x0, max_events=k)
    assert [e.tau for e in part.events] == turns[:k]
    assert part.tau_end == turns[k - 1]
    np.testing.assert_allclose(part.at(turns[k - 1]), whole.at(turns[k - 1]), rtol=0, atol=4 * EPS)
    for t in (turns[k - 1] * (1 + 1e-9), [0.0, turns[k]], np.inf):
        with pytest.raises(ValueError, match=r"^times must not exceed"):
            part.at(t)


class MatrixQuadratic(fw.Quadratic):
    """A quadratic of the entries of a matrix."""

    def __init__(self, H, T):
        super().__init__(H, T.reshape(-1))
        self.shape = T.shape

    def gradient(self, point):
        return super().gradient(point).reshape(self.shape)


@pytest.mark.parametrize("C", [fw.Birkhoff(3), fw.Box(-0.2, 0.4), fw.L1Ball(1.0)], ids=repr)
def test_matrices_keep_their_shape(C):
    H, T = np.diag(np.arange(1.0, 10.0)), np.random.default_rng(0).standard_normal((3, 3))
    sol = fw.exact_flow(MatrixQuadratic(H, T), C)
    flat = fw.exact_flow(fw.Quadratic(H, T.reshape(-1)), C)
    t = [0.0, 0.4, 3.0, np.inf]
    assert sol(1.0).shape == sol.result.x.shape == (3, 3)
    assert sol(t).shape == (4, 3, 3)
    np.testing.assert_allclose(sol(t), flat(t).reshape(4, 3, 3), rtol=0, atol=1e-13)
    assert len(sol.events) == len(flat.events) > 2
    part = exact(MatrixQuadratic(H, T), C, max_iter=2)
    np.testing.assert_array_equal(exact(MatrixQuadratic(H, T), C, state=part.state).x, sol.result.x)


def test_single_precision_trajectories_stay_single():
    f = fw.LinearModel(np.eye(3, dtype=np.float32), [1.0, 0.5, 0.1])
    sol = fw.exact_flow(f, fw.L1Ball(1.0))
    assert sol(1.0).dtype == sol.result.x.dtype == np.float32


@pytest.mark.sampled(3)
@pytest.mark.parametrize("C", [fw.L1Ball(1.0), fw.Simplex(), fw.Box(-0.5, 0.5)], ids=repr)
def test_the_flow_of_other_losses_is_followed_to_first_order(C):
    rng = np.random.default_rng(3)
    A, b = rng.standard_normal((30, 5)), np.sign(rng.standard_normal(30))
    f = fw.LinearModel(A, b, "logistic")
    path = fw.flow(f, C, t_end=3.0, delta=1e-3, every=100)

    def worst(step):
        sol = fw.exact_flow(f, C, tau_end=2.0, step=step)
        assert all(C.contains(x) for x in sol(path.t))
        with pytest.raises(ValueError, match=r"^times must not exceed"):
            sol.at(2.01)
        return np.linalg.norm(sol(path.t) - path.x, axis=1).max()

    assert worst(0.01) <= 5e-3  # of which 1e-3 is Euler's own
    assert worst(0.5) <= 0.1
