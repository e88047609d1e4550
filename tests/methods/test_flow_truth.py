"""Is it the flow? Against tiny explicit steps where losses saturate, and on sets far from the origin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.reproduction.problems import find_problem

EPS = np.finfo(float).eps
TAU = np.linspace(0, 0.5, 26)


def explicit(slope, A, best, x, delta):
    """x' = s - x by Euler's method, without the library: its own gradients, oracle and loop."""
    z, every = A @ x, round(TAU[1] / delta)
    points = [x]
    for k in range(1, every * (len(TAU) - 1) + 1):
        s = best(A.T @ slope(z))
        x = x + delta * (s - x)
        z = z + delta * (A @ s - z)
        if k % every == 0:
            points.append(x)
    return np.array(points)


def l1(radius):
    def best(g):
        s = np.zeros_like(g)
        j = np.abs(g).argmax()
        s[j] = -radius * np.sign(g[j])
        return s

    return fw.L1Ball(radius), best


def simplex(radius):
    return fw.ConvexHull(radius * np.eye(4)), lambda g: radius * np.eye(4)[g.argmin()]


def box(radius):
    return fw.LInfBall(radius), lambda g: -radius * np.sign(g)


#: Labels that a plane separates, so that f has no minimiser; labels that none does; and a loss with straight tails.
LOSSES = {
    "separable": (lambda A, rng: np.sign(A @ [1.0, -2.0, 0.5, 0.0]), "logistic"),
    "not separable": (lambda A, rng: np.sign(rng.standard_normal(len(A))), "logistic"),
    "huber": (lambda A, rng: 5 * rng.standard_normal(len(A)), "huber"),
}


def slope_of(loss, b):
    if loss == "huber":
        return lambda z: np.clip(z - b, -1.0, 1.0)
    return lambda z: -b / (1 + np.exp(np.minimum(b * z, 700.0)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [l1, simplex, box])
@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("radius", [10.0, 1000.0])
def test_its_error_is_of_first_order_in_the_step_at_any_radius(kind, make, radius):
    rng = np.random.default_rng(1)
    A = rng.standard_normal((12, 4))
    b = LOSSES[kind][0](A, rng)
    loss = LOSSES[kind][1]
    C, best = make(radius)
    f, x0 = fw.LinearModel(A, b, loss), np.asarray(C.start((4,)))
    truth = explicit(slope_of(loss, b), A, best, x0, 5e-5)
    assert np.linalg.norm(truth[-1] - x0) > 1.0  # it did go somewhere
    for step in (0.1, 0.02, 0.004):
        path = fw.exact_flow(f, C, x0, tau_end=TAU[-1], step=step).at(TAU)
        error = np.linalg.norm(path - truth, axis=1).max()
        assert error <= 0.25 * step * C.diameter((4,)) + 4e-4 * radius  # of which explicit steps zig-zag


@pytest.mark.parametrize("steps", [(0.2, 0.1), pytest.param((0.2, 0.05, 0.02), marks=pytest.mark.slow)])
def test_the_flow_of_separable_labels_leaves_for_the_boundary_whatever_the_step(steps):
    """The gradient never vanishes, so that opposite vertices never tie: |x|_1 grows as fast as it can."""
    p = find_problem("sensing", alpha=1000.0, loss="logistic")
    values = []
    for step in steps:
        path = fw.exact_flow(p.f, p.C, tau_end=0.2, step=step)
        assert np.abs(path.at(0.2)).sum() == pytest.approx(1000 * -np.expm1(-0.2), rel=1e-12)
        values.append(p.f.value(p.f.point(path.at(0.2))))
    assert np.ptp(values) <= 0.01 * min(values)


def test_a_step_whose_end_is_not_found_is_no_step(monkeypatch):
    monkeypatch.setattr("fwflow.methods.newton_flow._MOST", 1)
    f = fw.LinearModel(np.eye(3), [1.0, 1.0, -1.0], "logistic")
    with pytest.raises(ValueError, match=r"^the flow cannot be followed: .*an implicit step did not converge"):
        fw.exact_flow(f, fw.Simplex(9.0), [9.0, 0.0, 0.0], tau_end=1.0, step=0.5)


V = np.random.default_rng(5).uniform(-1, 1, (9, 5))
#: Sets, each at a distance from the origin.
AWAY = {
    "simplex": lambda shift: fw.Simplex() + shift,
    "l1": lambda shift: fw.L1Ball(1.0) + shift,
    "box": lambda shift: fw.Box(-0.5, 0.5) + shift,
    "hull": lambda shift: fw.ConvexHull(V + shift),
    "scaled": lambda shift: -2.0 * (fw.ConvexHull(V) + -0.5 * shift),
    "product": lambda shift: fw.Product([(fw.Simplex() + shift[:3], 3), (fw.LInfBall(0.5) + shift[3:], 2)]),
    "polytope": lambda shift: fw.Polytope(C=np.ones((1, 5)), d=[1 + shift.sum()], lower=shift),
}
#: Functions of x - shift.
MOVED = {
    "squared": lambda A, b, shift: fw.LinearModel(A, b + A @ shift, "squared"),
    "quadratic": lambda A, b, shift: fw.Quadratic(A.T @ A, A.T @ b + A.T @ (A @ shift)),
    "huber": lambda A, b, shift: fw.LinearModel(A, 2 * b + A @ shift, "huber", rho=0.5),
}


@pytest.mark.sampled(7)
@pytest.mark.parametrize("loss", MOVED)
@pytest.mark.parametrize("name", AWAY)
@settings(deadline=None, max_examples=3, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1), distance=st.sampled_from([1e2, 1e4, 1e6, 1e8]))
def test_the_flow_moves_with_its_problem(name, loss, seed, distance):
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((15, 5)), rng.standard_normal(15)
    shift = np.round(distance * rng.uniform(-1, 1, 5) * 2**12) / 2**12
    paths, ends = [], []
    for by in (0 * shift, shift):
        f, C = MOVED[loss](A, b, by), AWAY[name](by)
        x0 = np.asarray(C.lmo(np.arange(1.0, 6.0)))
        paths.append(fw.exact_flow(f, C, x0, tau_end=2.0, step=0.4).at(4 * TAU) - by)
        ends.append(fw.minimize(f, C, x0, method="corrective", tol=0.0, max_iter=25).x - by)
    np.testing.assert_allclose(paths[1], paths[0], rtol=0, atol=1e3 * EPS * distance + 1e-9)
    np.testing.assert_allclose(ends[1], ends[0], rtol=0, atol=1e3 * EPS * distance + 1e-9)
