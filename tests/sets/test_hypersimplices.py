"""Projections onto hypersimplices against sorting, for entries that are hard for Newton's method."""

import numpy as np
import pytest

import fwflow as fw

EPS = float(np.finfo(np.float64).eps)


def by_sorting(x, k):
    """Return clip(x - t, 0, 1) with the sum k. Its sum is linear between the sorted ends of the ramps."""
    ends = np.unique(np.concatenate([x - 1, x]))
    sums = np.array([np.clip(x - t, 0, 1).sum() for t in ends])
    i = int(np.flatnonzero(sums >= k).max())
    j = min(i + 1, len(ends) - 1)
    t = ends[i] + (sums[i] - k) / max(sums[i] - sums[j], EPS) * (ends[j] - ends[i]) if sums[i] > k else ends[i]
    return np.clip(x - t, 0, 1)


KINDS = {
    "near": lambda rng, n: rng.standard_normal(n),
    "far": lambda rng, n: 100 * rng.standard_normal(n),
    "close": lambda rng, n: 1e-9 * rng.standard_normal(n),
    "equal": lambda rng, n: np.full(n, 0.3),
    "tied": lambda rng, n: 0.3 * rng.integers(0, 5, n),
    "clustered": lambda rng, n: 0.3 * rng.integers(0, 5, n) + 1e-12 * rng.standard_normal(n),
    "geometric": lambda rng, n: 2.0 ** -rng.integers(0, 60, n),
    "steps": lambda rng, n: np.cumsum(2.0 ** -(rng.permutation(n) % 50)) % 1,
    "heavy": lambda rng, n: rng.standard_cauchy(n),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 3, 10, 300])
def test_sorting_agrees(kind, n):
    rng = np.random.default_rng(n)
    x = KINDS[kind](rng, n)
    for k in sorted({1, 2, n // 3 or 1, n // 2, n - 1}):
        C = fw.HyperSimplex(k)
        y = C.project(x)
        np.testing.assert_allclose(y, by_sorting(x, k), rtol=0, atol=20 * EPS * (1 + np.abs(x).max()))
        assert y.sum() == pytest.approx(k, rel=8 * EPS)
        np.testing.assert_array_equal(C.project(y), y)
        np.testing.assert_array_equal(fw.UnitHyperSimplex(k).project(x), y if x.clip(0, 1).sum() > k else x.clip(0, 1))
        sparse = fw.KSparseBall(k).project(-x)
        np.testing.assert_array_equal(sparse, np.copysign(fw.UnitHyperSimplex(k).project(np.abs(x)), -x))
        np.testing.assert_array_equal(fw.KSparseBall(k).project(sparse), sparse)


def test_as_many_ones_as_entries():
    x = np.random.default_rng(0).standard_normal(5)
    np.testing.assert_array_equal(fw.HyperSimplex(5, 2.0).project(x), np.full(5, 2.0))
    np.testing.assert_array_equal(fw.HyperSimplex(1, 2.0).project([-3.0]), [2.0])
    np.testing.assert_array_equal(fw.UnitHyperSimplex(9, 2.0).project(5 * x), (5 * x).clip(0, 2))
    np.testing.assert_array_equal(fw.KSparseBall(5, 2.0).project(5 * x), (5 * x).clip(-2, 2))


@pytest.mark.parametrize("k", [2, 3])
def test_entries_apart_by_more_than_the_radius(k):
    x = np.array([5.0, -7.0, 90.0, 1e300, -1e300])
    expected = np.zeros(5)
    expected[np.argsort(-x)[:k]] = 1.0
    np.testing.assert_array_equal(fw.HyperSimplex(k).project(x), expected)


@pytest.mark.parametrize("kind", ["near", "tied", "geometric"])
def test_single_precision(kind):
    x = KINDS[kind](np.random.default_rng(1), 200).astype(np.float32)
    for C in (fw.HyperSimplex(20, 0.7), fw.UnitHyperSimplex(20, 0.7), fw.KSparseBall(20, 0.7)):
        y = C.project(x)
        assert y.dtype == np.float32
        assert C.contains(y)
        np.testing.assert_array_equal(C.project(y), y)
        np.testing.assert_allclose(y, C.project(x.astype(np.float64)), rtol=0, atol=1e-6)
