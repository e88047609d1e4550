"""Gradients as arrays and on observed entries, against dense ones."""

import numpy as np
import pytest
import scipy.sparse as sp

from fwflow.points.gradients import DenseGradient, Gradient, Sampled, as_gradient
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, RankOne, Scaled


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


G = np.array([[1.0, -2.0, 0.5], [0.0, 4.0, -1.0]])
X = np.array([[0.5, 1.0, -3.0], [2.0, 0.25, 1.0]])


def test_arrays_become_dense_gradients():
    for g in (G, G.tolist()):
        gradient = as_gradient(g)
        assert isinstance(gradient, DenseGradient)
        assert gradient.shape == (2, 3)
        np.testing.assert_array_equal(np.asarray(gradient), G)


def test_gradients_stay_as_they_are():
    for gradient in (DenseGradient(G), sampled()):
        assert as_gradient(gradient) is gradient


@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_matrix])
def test_sparse_matrices_are_refused_as_gradients(form):
    with pytest.raises(ValueError, match=rf"{form.__name__}.*toarray\(\)"):
        as_gradient(form(G))


def test_a_dense_gradient_cannot_be_written_to_and_its_array_can():
    array = G.copy()
    gradient = DenseGradient(array)
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(gradient)[0, 0] = 9.0
    array[0, 0] = 9.0
    assert np.shares_memory(np.asarray(gradient), array)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_dense_gradients_add_and_scale_as_arrays(dtype):
    g, other = G.astype(dtype), X.astype(dtype)
    one, two = DenseGradient(g), DenseGradient(other)
    for mixed, expected in (
        (one + two, g + other),
        (one + other, g + other),
        (one - two, g - other),
        (-one, -g),
        (2.0 * one, 2 * g),
        (one * 0.5, 0.5 * g),
        (sum([one, two], DenseGradient(0 * g)), g + other),
    ):
        assert isinstance(mixed, DenseGradient)
        assert np.asarray(mixed).dtype == dtype
        np.testing.assert_array_equal(np.asarray(mixed), expected)
    np.testing.assert_array_equal(np.asarray(one), g)


def test_differences_of_gradients_on_observed_entries():
    a = sampled()
    dense = a.matrix.toarray()
    np.testing.assert_array_equal(np.asarray(-a), -dense)
    np.testing.assert_array_equal(np.asarray(a - 3.0 * a), -2 * dense)
    assert np.asarray(a, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_gradients_know_whether_they_are_finite(bad):
    for gradient in (DenseGradient(np.array([1.0, 2.0])), sampled()):
        assert gradient.finite() is True
        assert (bad * gradient).finite() is False


def test_inner_products_with_points_are_those_of_arrays():
    point = Point(X)
    assert DenseGradient(G).inner(point) == pytest.approx((G * X).sum(), rel=1e-14)
    assert DenseGradient(G).inner_size(point) == pytest.approx((np.abs(G) * np.abs(X)).sum(), rel=1e-14)
    square = np.arange(9.0).reshape(3, 3) - 4
    a = sampled()
    dense, rows = a.matrix.toarray(), np.repeat(np.arange(3), np.diff(a.indptr))
    point = Point(square, square[rows, a.indices])  # the image is the observed entries
    assert a.inner(point) == pytest.approx((dense * square).sum(), rel=1e-14)
    assert a.inner_size(point) == pytest.approx(np.abs(dense * square).sum(), rel=1e-14)


def test_inner_products_with_vertices_are_those_of_arrays():
    vertices = [DenseVertex(X), OneHot(4, -2.0, (2, 3)), RankOne(np.array([1.0, 2.0]), np.array([1.0, 0.0, -1.0]), 3.0)]
    for vertex in vertices:
        assert DenseGradient(G).dot(vertex) == pytest.approx((G * np.asarray(vertex)).sum(), rel=1e-14)


def test_scores_are_the_inner_products_with_all_atoms():
    a, rng = sampled(), np.random.default_rng(0)
    atoms = [Lifted(RankOne(rng.standard_normal(3), rng.standard_normal(3), scale)) for scale in (1.0, -2.0, 0.5)]
    expected = [(a.matrix.toarray() * np.asarray(atom.vertex)).sum() for atom in atoms]
    np.testing.assert_allclose(Gradient.scores(a, atoms), expected, rtol=1e-13)


@pytest.mark.parametrize(
    ("indices", "indptr"),
    [
        ([1, 0, 3], [0, 1, 1, 3]),
        ([1, 0, -1], [0, 1, 1, 3]),
        ([1, 0, 2], [0, 2, 1, 3]),
        ([1, 0, 2], [1, 1, 1, 3]),
        ([1, 0, 2], [0, 1, 3]),
        ([1, 0, 2], [0, 1, 1, 2]),
        ([1, 0], [0, 1, 1, 3]),
    ],
    ids=["column", "negative", "decreasing", "first", "rows", "last", "length"],
)
def test_index_arrays_that_are_not_csr_are_recognised(indices, indptr):
    assert sampled().is_csr is True
    assert Sampled(np.ones(3), np.array(indices), np.array(indptr), (3, 3)).is_csr is False
