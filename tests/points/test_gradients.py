"""Gradients on observed entries against dense ones."""

import numpy as np
import pytest

from fwflow.points.gradients import Sampled
from fwflow.points.vertices import RankOne, Scaled


def sampled(dtype=np.float64):
    return Sampled(np.array([1.0, 2.0, 3.0], dtype), np.array([1, 0, 2]), np.array([0, 1, 1, 3]), (3, 3))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_on_observed_entries_add_and_scale(dtype):
    a = sampled(dtype)
    b = Sampled(np.array([10.0, 20.0, 40.0], dtype), a.indices, a.indptr, a.shape)
    A = np.array([[0, 1, 0], [0, 0, 0], [2, 0, 3.0]])
    B = np.array([[0, 10, 0], [0, 0, 0], [20, 0, 40.0]])
    np.testing.assert_array_equal(a.matrix.toarray(), A)
    for mixed, expected in (
        (2.0 * a, 2 * A),
        (a * -0.5, -0.5 * A),
        (a + b, A + B),
        (0.75 * a + 0.25 * b, 0.75 * A + 0.25 * B),
    ):
        assert mixed.data.dtype == mixed.matrix.dtype == dtype
        assert mixed.shape == (3, 3)
        assert mixed.indices is a.indices
        assert mixed.indptr is a.indptr
        np.testing.assert_array_equal(mixed.matrix.toarray(), expected)
    np.testing.assert_array_equal(a.data, [1, 2, 3])
    np.testing.assert_array_equal(b.data, [10, 20, 40])


def test_rank_one_vertex_meets_a_gradient_on_observed_entries():
    a, s = sampled(), RankOne(np.array([1.0, 2.0, 3.0]), np.array([1.0, -1.0, 0.5]), -2.0)
    exact = float((a.matrix.toarray() * np.asarray(s)).sum())
    for g in (a, a.matrix, a.matrix.tocsc(), a.matrix.toarray()):
        assert s.dot(g) == pytest.approx(exact, rel=1e-14)
        assert Scaled(3.0, s).dot(g) == pytest.approx(3 * exact, rel=1e-14)
