"""Derivatives of solutions are those of differences between solutions of the core."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fwflow as fw
import fwflow.jax as fwj

RNG = np.random.default_rng(0)
A = RNG.standard_normal((40, 8))
B = np.where(A[:, 0] - A[:, 1] + RNG.standard_normal(40) > 0, 1.0, -1.0)
W = RNG.random(40) + 0.5
DW = RNG.standard_normal(40)
STEP = 1e-4


def solution(kind, radius, share):
    """With weights that move by a share of DW."""
    return fwj.solution(fwj.LinearModel(A, B, "logistic", weights=W + share * DW), kind(radius), tol=1e-12)


forward = {
    kind: jax.jit(jax.jacfwd(partial(solution, kind), (0, 1))) for kind in (fwj.L1Ball, fwj.Simplex, fwj.UnitSimplex)
}
backward = jax.jit(jax.grad(lambda *at: (solution(fwj.L1Ball, *at) * jnp.arange(8.0)).sum(), (0, 1)))


def core(kind, radius, share):
    f = fw.LinearModel(A, B, "logistic", weights=W + share * DW)
    return np.asarray(fw.minimize(f, kind(radius), tol=1e-13).x)


def differences(kind, radius):
    pairs = [
        (core(kind, radius + STEP * d, STEP * (1 - d)), core(kind, radius - STEP * d, STEP * (d - 1))) for d in (1, 0)
    ]
    return [(after - before) / (2 * STEP) for after, before in pairs]


@pytest.mark.parametrize(("ours", "theirs"), [(fwj.L1Ball, fw.L1Ball), (fwj.Simplex, fw.Simplex)])
def test_derivatives_in_the_radius_and_in_weights(ours, theirs):
    with jax.enable_x64(True):
        found = forward[ours](1.5, 0.0)
    by_radius, by_weight = differences(theirs, 1.5)
    assert 2 < np.count_nonzero(by_radius) < 8  # a face between a vertex and the whole
    np.testing.assert_allclose(found[0], by_radius, atol=1e-5)
    np.testing.assert_allclose(found[1], by_weight, atol=1e-5)


def test_derivatives_backwards():
    with jax.enable_x64(True):
        found = backward(1.5, 0.0)
    np.testing.assert_allclose(found, [by @ np.arange(8) for by in differences(fw.L1Ball, 1.5)], atol=1e-4)


def test_inside_of_the_ball_the_radius_does_not_matter():
    with jax.enable_x64(True):
        found = forward[fwj.L1Ball](50.0, 0.0)
    np.testing.assert_allclose(found[0], 0, atol=1e-12)
    np.testing.assert_allclose(found[1], differences(fw.L1Ball, 50.0)[1], atol=1e-4)


hessian = {
    kind: jax.jit(jax.hessian(lambda *at, kind=kind: (solution(kind, *at) * jnp.arange(8.0)).sum(), (0, 1)))
    for kind in (fwj.L1Ball, fwj.Simplex)
}
slopes = {
    kind: jax.jit(jax.grad(lambda *at, kind=kind: (solution(kind, *at) * jnp.arange(8.0)).sum(), (0, 1)))
    for kind in (fwj.L1Ball, fwj.Simplex)
}


@pytest.mark.parametrize(("kind", "radius"), [(fwj.L1Ball, 1.5), (fwj.L1Ball, 50.0), (fwj.Simplex, 1.5)])
def test_second_derivatives_are_differences_of_first_ones(kind, radius):
    with jax.enable_x64(True):
        found = np.array(hessian[kind](radius, 0.1))
        for row, (d, e) in zip(found, np.eye(2), strict=True):
            after, before = (slopes[kind](radius + s * d * STEP, 0.1 + s * e * STEP) for s in (1, -1))
            np.testing.assert_allclose(row, (np.array(after) - np.array(before)) / (2 * STEP), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found, found.T, atol=1e-8)


def test_zeros_stay_at_their_bound_in_a_simplex_with_the_origin():
    """Inside of it, where the radius does not matter."""
    with jax.enable_x64(True):
        found = forward[fwj.UnitSimplex](50.0, 0.0)
    by_weight = differences(fw.UnitSimplex, 50.0)[1]
    assert 0 < np.count_nonzero(by_weight) < 8
    np.testing.assert_allclose(found[0], 0, atol=1e-12)
    np.testing.assert_allclose(found[1], by_weight, atol=1e-4)


def test_other_sets_are_not_offered():
    with pytest.raises(ValueError, match="to differentiate in its data"):
        jax.eval_shape(lambda: fwj.solution(fwj.LinearModel(A, B), fwj.Box(-1.0, 1.0)))


CLOSED = {
    "argument": lambda c: fwj.minimize(fwj.LinearModel(A, c * jnp.asarray(B)), fwj.L1Ball(1.0)),
    "function": lambda c: fwj.minimize(fwj.Smooth(lambda x: ((x - c) ** 2).sum()), fwj.L1Ball(1.0), jnp.zeros(8)),
    "oracle": lambda c: fwj.minimize(fwj.LinearModel(A, B), lambda g: -c * jnp.sign(g), max_iter=20),
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("double", [False, True])
def test_minimize_names_solution_when_it_is_differentiated(name, double):
    run = CLOSED[name]
    for fun in (lambda c: run(c).fun, jax.jit(lambda c: run(c).x.sum()), lambda c: jax.vmap(run)(c[None]).fun.sum()):
        with jax.enable_x64(double), pytest.raises(ValueError, match=r"differentiate x = fwj\.solution"):
            jax.grad(fun)(jnp.ones(()))


@pytest.mark.parametrize("name", CLOSED)
def test_traced_numbers_may_be_closed_over(name):
    with jax.enable_x64(True):
        each = [CLOSED[name](c) for c in (0.5, 1.0)]
        for together in (jax.vmap(CLOSED[name]), jax.jit(jax.vmap(CLOSED[name]))):
            found = together(jnp.array([0.5, 1.0]))
            np.testing.assert_allclose(found.x, [r.x for r in each], atol=1e-12)
            assert found.rounding.tolist() == pytest.approx([float(r.rounding) for r in each])


@pytest.mark.parametrize("double", [False, True])
def test_solution_is_differentiable_in_numbers_that_a_function_closes_over(double):
    def last(c):
        f = fwj.Smooth(lambda x: ((x - c * jnp.arange(3.0)) ** 2).sum())
        return fwj.solution(f, fwj.Simplex(2.0), jnp.array([0.0, 0.0, 2.0]))[2]

    with jax.enable_x64(double):
        for slope in (jax.grad(last), jax.jit(jax.jacfwd(last))):
            assert float(slope(jnp.asarray(1.0))) == pytest.approx(0.5)  # x = (0, 1 - c / 2, 1 + c / 2)


def test_a_path_cannot_be_traced():
    def fit(c):
        return fwj.path(fwj.Smooth(lambda x: ((x - c) ** 2).sum()), fwj.L1Ball(), [0.5, 1.0], jnp.zeros(3)).fun.sum()

    for traced in (jax.jit(fit), jax.grad(fit), lambda c: jax.vmap(fit)(c[None])):
        with pytest.raises(ValueError, match=r"fwj\.path cannot be called inside jit"):
            traced(jnp.ones(()))
