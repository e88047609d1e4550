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


forward = {kind: jax.jit(jax.jacfwd(partial(solution, kind), (0, 1))) for kind in (fwj.L1Ball, fwj.Simplex)}
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


def test_other_sets_are_not_offered():
    with pytest.raises(ValueError, match="to differentiate in its data"):
        jax.eval_shape(lambda: fwj.solution(fwj.LinearModel(A, B), fwj.Box(-1.0, 1.0)))
