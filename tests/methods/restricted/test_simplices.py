"""Quadratics over products of simplices: the minimum, whatever K is like, and descent where it is not convex."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fwflow.methods.restricted import simplices
from fwflow.methods.restricted.simplices import (
    Factored,
    block_gap,
    differences,
    minimise_on_simplices,
    owners,
    pairwise_step,
)

many = settings(deadline=None, max_examples=60, derandomize=True)
KINDS = ("full", "singular", "duplicates", "linear", "scaled")


def program(rng, sizes, kind):
    """Rows R with K = R R^T, the linear part, where to start, and where the blocks begin."""
    k, starts = sum(sizes), np.cumsum([0, *sizes[:-1]])
    rank = {"full": k + 3, "singular": max(1, k // 3), "duplicates": k, "linear": 1, "scaled": k}[kind]
    R = rng.standard_normal((k, rank))
    if kind == "duplicates":
        R = R[rng.integers(0, k, k)]
    elif kind == "linear":
        R[:] = 0.0
    elif kind == "scaled":
        R *= 10.0 ** rng.uniform(-4, 4, (k, 1))
    w = rng.random(k) * (rng.random(k) < 0.6) + np.isin(np.arange(k), starts) * 1e-3
    return R, rng.standard_normal(k), w / np.add.reduceat(w, starts)[owners(starts, k)], starts


def assert_weights(w, starts):
    assert w.min() >= 0
    np.testing.assert_allclose(np.add.reduceat(w, starts), 1.0, rtol=0, atol=1e-14)


@many
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.integers(1, 6), min_size=1, max_size=8),
    kind=st.sampled_from(KINDS),
)
def test_minima_agree_with_an_independent_solver(seed, sizes, kind):
    R, c, v, starts = program(np.random.default_rng(seed), sizes, kind)
    K = R @ R.T
    w = minimise_on_simplices(K, K @ v + c, v, starts)
    assert_weights(w, starts)
    size = np.abs(K @ v + c).max() + np.abs(K).max()
    assert block_gap(K @ w + c, w, starts) <= 1e-11 * size * len(starts)
    x = cp.Variable(len(c), nonneg=True)
    sums = [cp.sum(part) == 1 for part in (x[a : a + n] for a, n in zip(starts, sizes, strict=True))]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(R.T @ x) / 2 + c @ x), sums)
    if kind != "scaled":  # of which Clarabel is not sure
        problem.solve(solver=cp.CLARABEL)
        assert w @ K @ w / 2 + c @ w <= problem.value + 1e-7 * (1 + abs(problem.value))


@many
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6))
def test_the_function_falls_where_it_is_not_convex(seed, sizes):
    rng = np.random.default_rng(seed)
    _, c, v, starts = program(rng, sizes, "full")
    M = rng.standard_normal((len(c), len(c)))
    K = M + M.T
    w = minimise_on_simplices(K, K @ v + c, v, starts)
    assert_weights(w, starts)
    assert w @ K @ w / 2 + c @ w <= v @ K @ v / 2 + c @ v + 1e-12


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[3] * 200, [1] * 30 + [40] * 14, [520]])
def test_many_weights(kind, sizes):
    """Conjugate gradients in place of factors, which are called where they do not do."""
    R, c, v, starts = program(np.random.default_rng(1), sizes, kind)
    assert len(c) > simplices._MANY
    w = minimise_on_simplices(Factored(R, np.ones(R.shape[1]), R), R @ (R.T @ v) + c, v, starts)
    assert_weights(w, starts)
    size = np.abs(R @ (R.T @ v) + c).max() + (R**2).sum(axis=1).max()
    assert block_gap(R @ (R.T @ w) + c, w, starts) <= 1e-11 * size * len(starts)


def test_a_tolerance_ends_it_early():
    R, c, v, starts = program(np.random.default_rng(0), [5] * 20, "full")
    K = R @ R.T
    first, exact = block_gap(K @ v + c, v, starts), minimise_on_simplices(K, K @ v + c, v, starts)
    w = minimise_on_simplices(K, K @ v + c, v, starts, 0.1 * first)
    assert 1e3 * block_gap(K @ exact + c, exact, starts) < block_gap(K @ w + c, w, starts) <= 0.1 * first


def test_one_atom_per_block_stays():
    starts, v = np.arange(5), np.ones(5)
    np.testing.assert_array_equal(minimise_on_simplices(np.eye(5), np.arange(5.0), v, starts), v)


@many
@given(seed=st.integers(0, 10**6), sizes=st.lists(st.integers(1, 5), min_size=1, max_size=6), dense=st.booleans())
def test_differences_give_the_same_sums(seed, sizes, dense):
    rng = np.random.default_rng(seed)
    _, _, v, starts = program(rng, sizes, "full")
    rows = rng.standard_normal((len(v), 7)) * (rng.random((len(v), 7)) < (1.0 if dense else 0.2))
    stack = (rows, rows) if dense else (sp.csr_array(rows), sp.csr_array(2 * rows))
    (left, right), (base, other) = differences(stack, v, starts)
    np.testing.assert_allclose(base + v @ left, v @ rows, atol=1e-13)
    np.testing.assert_allclose(other + v @ right, v @ stack[1], atol=1e-13)
    assert (right is left) == dense


def test_a_pairwise_step_takes_the_worst_in_use_to_the_best():
    step = pairwise_step(np.array([1.0, 5.0, 9.0, 2.0, 1.0]), np.array([0.3, 0.7, 0.0, 0.4, 0.6]), np.array([0, 3]))
    np.testing.assert_allclose(step, [0.7, -0.7, 0.0, -0.4, 0.4])
