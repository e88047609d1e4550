"""The flow of losses that are not quadratic, on every kind of polytope: its events, and its error in the step."""

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import HalfspaceIntersection

import fwflow as fw
from fwflow.designs import Counts
from fwflow.methods.exact_flow import first_crossing
from fwflow.methods.problem import Problem
from fwflow.points.point import Lifted
from fwflow.points.vertices import DenseVertex
from tests.methods.test_exact import birkhoff, box, hull, l1, linf, polytope, product, scaled, simplex, translated

LOSSES = {
    "logistic": lambda A, b: fw.LinearModel(A, np.sign(b), "logistic"),
    "huber": lambda A, b: fw.LinearModel(A, 2 * b, "huber", rho=0.5),
}
every_loss = pytest.mark.parametrize("loss", LOSSES)


def problem(loss, seed, m, n):
    rng = np.random.default_rng(seed)
    return LOSSES[loss](rng.standard_normal((m, n)), rng.standard_normal(m)), rng


class Rounded(fw.ConstraintSet):
    """A hull whose oracle computes its vertices, each time with other rounding."""

    polytope = True

    def __init__(self, vertices):
        self.hull = fw.ConvexHull(vertices)
        self.shape = self.hull.shape

    def lmo(self, g, hint=None):
        noise = 1e-12 * np.cos(1e3 * g / np.abs(g).max())
        return DenseVertex(np.asarray(self.hull.lmo(g)) * (1 + noise))

    def start(self, shape=None, dtype=np.float64):
        return self.hull.start(shape, dtype)

    def contains(self, x, tol=1e-9):
        return self.hull.contains(x, tol)

    def diameter(self, shape=None):
        return self.hull.diameter(shape)


N = 5
EYE, CORNERS = np.eye(N), np.array(list(itertools.product([-0.5, 0.5], repeat=N)))
#: The same set, with a closed form for its events and in many guises without.
GUISES = {
    "simplex": (
        fw.Simplex(),
        {
            "translated": fw.Simplex() + np.zeros(N),
            "scaled": 1.0 * fw.Simplex(),
            "scaled twice": -2.0 * (-0.5 * fw.Simplex()),
            "hull": fw.ConvexHull(EYE),
            "hull with duplicates": fw.ConvexHull(np.vstack([EYE, EYE])),
            "hull with rounding": Rounded(EYE),
            "product": fw.Product([(fw.Simplex(), N)]),
            "polytope": fw.Polytope(C=np.ones((1, N)), d=[1.0], lower=0.0),
            "degenerate polytope": fw.Polytope(
                np.vstack([EYE, np.ones(N)]), np.ones(N + 1), np.ones((1, N)), [1.0], lower=0.0
            ),
        },
    ),
    "l1": (
        fw.L1Ball(1.0),
        {
            "translated": fw.L1Ball(1.0) + np.zeros(N),
            "scaled": 2.0 * fw.L1Ball(0.5),
            "reflected": -1.0 * fw.L1Ball(1.0),
            "hull": fw.ConvexHull(np.vstack([EYE, -EYE])),
            "hull with more than its vertices": fw.ConvexHull(np.vstack([EYE, -EYE, EYE / 2, 0 * EYE])),
            "callable": lambda g: np.asarray(fw.L1Ball(1.0).lmo(g)),
        },
    ),
    "box": (
        fw.Box(-0.5, 0.5),
        {
            "ball": fw.LInfBall(0.5),
            "translated": fw.Box(-0.5, 0.5) + np.zeros(N),
            "reflected": -0.5 * fw.LInfBall(1.0),
            "hull": fw.ConvexHull(CORNERS),
            "product": fw.Product([(fw.Box(-0.5, 0.5), 2), (fw.LInfBall(0.5), 2), (fw.L1Ball(0.5), N - 4)]),
            "polytope": fw.Polytope(lower=-0.5, upper=np.full(N, 0.5)),
        },
    ),
}
GUISED = [(name, guise) for name, (_, guises) in GUISES.items() for guise in guises]
TAU = np.linspace(0, 2, 41)


@cache
def closed(name, loss, step, seed):
    f, rng = problem(loss, seed, 15, N)
    C = GUISES[name][0]
    x0 = np.asarray(C.lmo(rng.standard_normal(N)))
    return f, x0, fw.exact_flow(f, C, x0, tau_end=2.0, step=step)


@pytest.mark.sampled(5)
@every_loss
@pytest.mark.parametrize(("name", "guise"), GUISED, ids=[" as ".join(both) for both in GUISED])
def test_a_set_in_any_guise_has_the_same_flow(name, guise, loss):
    entered = 0
    for step, seed in ((0.5, 0), (0.1, 1), (0.1, 2)):
        f, x0, flow = closed(name, loss, step, seed)
        guised = fw.exact_flow(f, GUISES[name][1][guise], x0, tau_end=2.0, step=step)
        # Mixtures of many vertices may change where a face does not: then steps are halved elsewhere.
        np.testing.assert_allclose(guised.at(TAU), flow.at(TAU), rtol=0, atol=5e-3 * step)
        entered += sum(len(e.entered) for e in flow.events)
    assert entered >= 5


def corners(A, b):
    """The vertices of ``A x <= b`` around the origin, by Qhull."""
    return HalfspaceIntersection(np.hstack([A, -b[:, None]]), np.zeros(A.shape[1])).intersections


def inequalities(rng, n):
    return np.vstack([rng.standard_normal((n, n)), np.eye(n), -np.eye(n)]), np.ones(3 * n)


#: Sets, and the same for small steps where that is faster.
POLYTOPES = {
    "simplex": lambda rng: (fw.Simplex(), None),
    "l1": lambda rng: (fw.L1Ball(1.0), None),
    "box": lambda rng: (fw.Box(-rng.random(4), rng.random(4)), None),
    "linf": lambda rng: (fw.LInfBall(0.5), None),
    "hull": lambda rng: (fw.ConvexHull(rng.uniform(-1, 1, (8, 4))), None),
    "translated": lambda rng: (fw.L1Ball(1.0) + rng.standard_normal(4), None),
    "scaled": lambda rng: (2.0 * fw.Simplex(0.5), None),
    "reflected": lambda rng: (-1.5 * fw.ConvexHull(rng.uniform(-1, 1, (8, 4))), None),
    "product": lambda rng: (fw.Product([(fw.L1Ball(1.0), 2), (fw.Box(-0.5, 0.5), 1), (fw.L2Ball(1.0), 1)]), None),
    "birkhoff": lambda rng: (fw.Birkhoff(3), None),
    "polytope": lambda rng: (fw.Polytope(*(system := inequalities(rng, 4))), fw.ConvexHull(corners(*system))),
    "many vertices": lambda rng: (
        fw.ConvexHull((X := rng.standard_normal((500, 4))) / np.linalg.norm(X, axis=1)[:, None]),
        None,
    ),
}


@pytest.mark.sampled(5)
@every_loss
@pytest.mark.parametrize("name", POLYTOPES)
def test_its_error_is_of_first_order_in_the_step(name, loss):
    for seed in range(2):
        f, rng = problem(loss, seed, 12, 9 if name == "birkhoff" else 4)
        C, twin = POLYTOPES[name](rng)
        x0 = C.start(f.shape)
        path = fw.flow(f, twin or C, x0, t_end=1.0, delta=5e-4, every=100)
        assert np.linalg.norm(path.x[-1] - x0) > 0.1  # it did go somewhere
        for step in (0.04, 0.01):
            sol = fw.exact_flow(f, C, x0, tau_end=0.82, step=step)
            assert np.linalg.norm(sol(path.t) - path.x, axis=1).max() <= 0.25 * step * C.diameter(f.shape) + 2e-3


def test_a_set_with_no_end_of_vertices_is_followed_too():
    f, _ = problem("logistic", 0, 12, 2)
    path = fw.flow(f, fw.L2Ball(1.0), [1.0, 0.0], t_end=0.3, delta=1e-3, every=10)
    sol = fw.exact_flow(f, lambda g: -g / np.linalg.norm(g), [1.0, 0.0], tau_end=0.3, step=0.1)
    assert np.linalg.norm(sol(path.t) - path.x, axis=1).max() <= 0.03


SETS = [l1, simplex, box, linf, birkhoff, hull, polytope, scaled, translated, product]


def off_the_best(f, C, sol, tau_end):
    """By how much targets are worse than the oracle's answer half-way to the next event."""
    turns = [*(e.tau for e in sol.events), tau_end]
    off = []
    for e, tau in zip(sol.events, np.convolve(turns, [0.5, 0.5], "valid"), strict=True):
        g = f.gradient(f.point(sol.at(tau)))
        off.append(e.target.dot(g) - C.lmo(g).dot(g))
    return max(off)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("make", SETS, ids=lambda make: make.__name__)
@every_loss
def test_targets_are_the_best_of_their_time(make, loss):
    @settings(deadline=None, max_examples=8, derandomize=True)
    @given(seed=st.integers(0, 2**32 - 1))
    def check(seed):
        rng = np.random.default_rng(seed)
        n = 9 if make is birkhoff else 6
        C, _ = make(rng, n)
        A = rng.standard_normal((rng.integers(1, 20), n)) / (C.diameter((n,)) or 1.0)  # else a step sees no curvature
        f = LOSSES[loss](A, rng.standard_normal(len(A)))
        x0 = C.start((n,))
        g = f.gradient(f.point(x0))
        gap = g @ x0.reshape(-1) - C.lmo(g).dot(g)
        for step in (0.2, 0.05):
            sol = fw.exact_flow(f, C, x0, tau_end=0.5, step=step)
            assert off_the_best(f, C, sol, 0.5) <= step * gap + 1e-12
            assert C.contains(sol.at(0.5), 1e-7)

    check()


DESIGNS = {
    "one sample": (1, lambda A: A),
    "one feature": (8, lambda A: A[:, :1]),
    "one number": (1, lambda A: A[:, :1]),
    "constant columns": (8, lambda A: np.where(np.arange(4) % 2, 1.0, A)),
    "duplicate columns": (8, lambda A: A[:, [0, 0, 1, 1]]),
    "opposite columns": (8, lambda A: np.hstack([A, -A])),
    "zero": (8, lambda A: 0 * A),
    "small integers": (8, lambda A: np.sign(A)),
}


@pytest.mark.sampled(3)
@every_loss
@pytest.mark.parametrize("name", DESIGNS)
def test_degenerate_data(name, loss):
    m, spoilt = DESIGNS[name]
    rng = np.random.default_rng(3)
    A, b = spoilt(rng.standard_normal((m, 4))), np.sign(rng.standard_normal(m))
    n = A.shape[1]
    V = rng.integers(-1, 2, (2 * n, n))
    f = LOSSES[loss](A, b)
    for C in (
        fw.L1Ball(1.0),
        fw.Simplex() + np.ones(n),
        fw.Box(np.where(np.arange(n) % 3, -1.0, 1.0), 1.0),
        fw.Product([(fw.LInfBall(1.0), n)]),
        fw.ConvexHull(np.vstack([V, V])),
        fw.Polytope(np.ones((2, n)), [1.0, 1.0], lower=-1.0, upper=1.0),
    ):
        sol = fw.exact_flow(f, C, tau_end=1.0, step=0.05)
        x = sol.at(np.linspace(0, 1, 21))
        values = np.array([f.value(f.point(y)) for y in x])
        assert (np.diff(values) <= 1e-3 * values[0]).all()
        assert C.contains(x[-1], 1e-7)


def test_ties_that_rounding_breaks_are_no_events():
    # Two vertices tie from start to end; the oracle's copies of them are lower by rounding, and a third comes below.
    start, end = np.array([1.0, 1.0, 2.0]), np.array([1.0, 1.0, 0.0])
    tied = [DenseVertex(v) for v in np.eye(3)[:2]]
    C = Rounded(np.eye(3))
    problem = Problem(fw.Quadratic(np.eye(3)), C, Counts())
    theta, vertex = first_crossing(problem, start, end, (1.0, 1.0), tied, Lifted(C.lmo(end)), 1e-15)
    assert theta == pytest.approx(0.5, abs=1e-11)
    np.testing.assert_allclose(np.asarray(vertex), [0, 0, 1], atol=1e-11)
    assert first_crossing(problem, start, start, (1.0, 1.0), tied, Lifted(C.lmo(start)), 1e-15) is None


def test_a_loss_that_is_no_number_somewhere_is_refused_in_words():
    class Broken(fw.Loss):
        curvature, quadratic = 1.0, False

        def check(self, b): ...

        def value(self, z, b):
            return float(z @ z) / 2

        def derivative(self, z, b):
            return np.where(np.abs(z) > 1, np.nan, z)

        def second(self, z, b):
            return np.ones_like(z)

    f = fw.LinearModel(np.eye(2), np.zeros(2), Broken())
    with pytest.raises(ValueError, match=r"^the flow cannot be followed: .*infinite"):
        fw.exact_flow(f, fw.Simplex(2.0) + np.array([0.0, 1.5]), [1.5, 2.0])


@pytest.mark.parametrize(("tau_end", "step"), [(1.1, 0.1), (0.3, 0.1), (0.05, 0.1), (0.7, 0.7)])
def test_steps_end_where_they_should(tau_end, step):
    f, _ = problem("logistic", 0, 15, N)
    sol = fw.exact_flow(f, fw.Simplex(), tau_end=tau_end, step=step)
    turns = np.array([e.tau for e in sol.events])
    assert (np.diff(turns) > 0).all()
    ends = step * np.arange(max(1, round(tau_end / step)))
    np.testing.assert_allclose(np.abs(turns - ends[:, None]).min(axis=1), 0.0, atol=1e-12)
    assert turns[-1] < tau_end
    sol.at(tau_end)
