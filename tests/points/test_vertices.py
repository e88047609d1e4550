"""Vertices of every kind against the arrays that they stand for."""

import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.points.vertices import DenseVertex
from tests.points.kinds import eps, every_kind, make


@every_kind
def test_vertex_is_the_array_that_it_stands_for(kind):
    vertex, array = make(kind)
    assert vertex.shape == array.shape
    np.testing.assert_allclose(np.asarray(vertex), array, rtol=4 * eps(float))
    np.testing.assert_allclose(vertex.to_dense(), array, rtol=4 * eps(float))
    for dtype in (np.float32, np.float64):
        assert np.asarray(vertex, dtype=dtype).dtype == dtype
        assert vertex.to_dense(dtype).dtype == dtype
        np.testing.assert_allclose(np.asarray(vertex, dtype=dtype), array, rtol=8 * eps(dtype))


@every_kind
def test_array_of_a_vertex_may_be_changed(kind):
    vertex, array = make(kind)
    np.asarray(vertex)[...] = np.nan
    vertex.to_dense()[...] = np.nan
    np.testing.assert_allclose(np.asarray(vertex), array, rtol=4 * eps(float))


@every_kind
@pytest.mark.parametrize("order", ["C", "F"])
def test_dot_is_the_inner_product(kind, order):
    vertex, array = make(kind)
    g = np.array(np.random.default_rng(1).standard_normal(array.shape), order=order)
    slack = 16 * eps(float) * float(np.abs(g * array).sum())
    assert isinstance(vertex.dot(g), float)
    assert vertex.dot(g) == pytest.approx((g * array).sum(), rel=0, abs=slack)


@every_kind
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_add_to_any_array_that_the_caller_owns(kind, order, dtype):
    vertex, array = make(kind)
    x = np.array(np.random.default_rng(1).standard_normal(array.shape), order=order, dtype=dtype)
    expected = x.astype(float) + 0.3 * array
    vertex.add_to(x, 0.3)
    assert x.dtype == dtype
    np.testing.assert_allclose(x, expected, rtol=0, atol=8 * eps(dtype) * np.abs(expected).max())


class ByColumns(fw.Design):
    """What a user must write: a design that cannot combine columns."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype

    def matvec(self, x):
        return self.A @ x

    def rmatvec(self, r):
        return self.A.T @ r

    def column(self, j):
        return DenseVertex(self.A[:, j])


@every_kind
def test_image_is_the_product_with_the_matrix(kind):
    vertex, array = make(kind)
    A = np.random.default_rng(2).standard_normal((5, 9))
    for data in (A, sp.csc_array(A), ByColumns(A)):
        image = fw.LinearModel(data, np.zeros(5)).lift(vertex).image
        assert image.shape == (5,)
        np.testing.assert_allclose(np.asarray(image), A @ array.ravel(), rtol=0, atol=64 * eps(float))


@pytest.mark.parametrize("kind", ["one-hot", "sparse", "permutation-flat", "scaled", "slice", "slice-permutation"])
def test_structured_vertices_tell_their_entries(kind):
    vertex, array = make(kind)
    indices, values = vertex.entries()
    assert sorted(indices) == np.flatnonzero(array).tolist()
    np.testing.assert_array_equal(values, array.ravel()[list(indices)])


@every_kind
def test_keys_tell_vertices_apart_and_storage_is_counted_in_numbers(kind):
    (vertex, _), (twin, _) = make(kind), make(kind)
    assert vertex.key == twin.key
    assert hash(vertex.key) == hash(pickle.loads(pickle.dumps(vertex)).key)
    assert len({make(kind, seed)[0].key for seed in range(5)}) > 1
    assert 0 < vertex.storage <= 2 * math.prod(vertex.shape)
