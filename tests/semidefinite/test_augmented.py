"""Are line searches of the augmented Lagrangian exact, and gradients, scales and factors right?"""

import numpy as np
import pytest
import scipy.optimize

from fwflow.semidefinite.augmented import Lagrangian, ScaledProgram, SecantPairs, compressed, norm_estimate, row_norms
from fwflow.semidefinite.operators import as_map, as_operator
from tests.semidefinite.programs import KINDS, as_problem, random_program, symmetric


def value(f, Y):
    """The augmented Lagrangian from its definition, with dense matrices."""
    data = f.data
    residual = data.cross(Y, Y) - data.b
    shifted = residual - f.y / f.penalty
    shifted = np.where(data.signed, np.maximum(shifted, 0), shifted)
    return np.vdot(Y, data.apply_cost(Y)) + f.penalty / 2 * np.sum(shifted**2)


def lagrangian(kind, seed):
    problem = as_problem(*random_program(kind, seed))
    data = ScaledProgram(problem, not problem.trace_is_implied)
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(len(data.b))
    y = np.where(data.signed, -np.abs(y), y)
    return Lagrangian(data, y, float(10 ** rng.uniform(-1, 2))), rng


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_gradient_and_exact_line_search(kind, seed):
    f, rng = lagrangian(kind, seed)
    n = f.data.problem.n
    for _ in range(5):
        Y = rng.standard_normal((n, 3)) * rng.choice([0.01, 0.3, 1.0])
        x = f.place(Y)
        D = rng.standard_normal(Y.shape) - x.gradient
        step = 1e-6
        difference = (value(f, Y + step * D) - value(f, Y - step * D)) / (2 * step)
        assert np.vdot(x.gradient, D) == pytest.approx(difference, rel=1e-4, abs=1e-6 * abs(value(f, Y)))
        if np.vdot(x.gradient, D) >= 0:
            D = -D
        new, t = f.step(x, D)
        assert t > 0
        np.testing.assert_allclose(new.Y, Y + t * D)
        np.testing.assert_allclose(new.residual, f.data.cross(new.Y, new.Y) - f.data.b, atol=1e-9)
        # A minimum of the line: a local one with inequalities, and the global one for t > 0 without.
        assert value(f, new.Y) < value(f, Y)
        assert abs(np.vdot(new.gradient, D)) <= 1e-6 * abs(np.vdot(x.gradient, D))
        if not f.data.any_signed:
            grid = min(value(f, Y + s * D) for s in np.geomspace(t / 100, 100 * t, 400))
            assert value(f, new.Y) <= grid + 1e-9 * abs(grid)


def test_secant_pairs_minimise_a_quadratic_in_few_steps():
    H = np.diag(np.arange(1.0, 7.0))
    x, pairs = np.ones((6, 1)), SecantPairs()
    for _ in range(8):
        gradient = H @ x
        d = pairs.direction(gradient)
        t = -np.vdot(gradient, d) / np.vdot(d, H @ d)
        x, pairs = x + t * d, pairs.extended(t * d, H @ (t * d))
    assert np.linalg.norm(H @ x) < 1e-10


def test_norms_of_all_kinds_of_matrices():
    rng = np.random.default_rng(0)
    A = [symmetric(rng.standard_normal((9, 9)) * 10.0**k) for k in range(-2, 3)]
    np.testing.assert_allclose(row_norms(as_map(A, 9)), [np.linalg.norm(a) for a in A])
    V = rng.standard_normal((5, 9))
    estimates = row_norms(as_map([(v, 1.0) for v in V], 9))
    assert (estimates > 0.1 * (V**2).sum(axis=1)).all()
    assert (estimates < 10 * (V**2).sum(axis=1)).all()
    exact = np.linalg.norm(A[2], 2)
    assert 0.5 * exact <= norm_estimate(as_operator(A[2], "A")) <= exact * (1 + 1e-12)
    assert norm_estimate(as_operator(np.zeros((3, 3)), "A")) == 0


def test_a_compressed_factor_has_the_same_product():
    rng = np.random.default_rng(1)
    Y = rng.standard_normal((10, 3)) @ rng.standard_normal((3, 8))
    Z = compressed(Y, 1e-12)
    assert Z.shape == (10, 3)
    np.testing.assert_allclose(Z @ Z.T, Y @ Y.T, atol=1e-10)
    assert compressed(np.zeros((4, 2)), 1e-12).shape == (4, 0)


def test_brackets_find_minima_of_a_line_with_inequalities():
    # Only the bound on the trace keeps the value from below, and it is not active at the start.
    problem = as_problem(-np.eye(2), [np.diag([1.0, 0.0])], [1.0], [True], 3.0)
    f = Lagrangian(ScaledProgram(problem, True), np.zeros(2), 1.0)
    Y = np.array([[0.1], [0.1]])
    x = f.place(Y)
    D = -x.gradient
    new, t = f.step(x, D)
    best = scipy.optimize.minimize_scalar(lambda s: value(f, Y + s * D), bounds=(0, 100), method="bounded").fun
    assert value(f, new.Y) <= best + 1e-9
    assert t > 0
