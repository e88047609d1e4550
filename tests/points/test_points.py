"""Mixtures of every kind of vertex against the dense formula; low-rank matrices; gradients on observed entries."""

import math
import pickle

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.designs import Counts
from fwflow.points.gradients import Sampled
from fwflow.points.lowrank import LowRank
from fwflow.points.point import FactoredPoint, Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, Permutation, RankOne, Scaled, Slice, SparseVertex, Sum
from tests.catalogue import SETS, design, targets


def eps(dtype):
    return float(np.finfo(dtype).eps)


def one_hot(rng, shape):
    i, value = int(rng.integers(math.prod(shape))), float(rng.standard_normal())
    dense = np.zeros(shape)
    dense[np.unravel_index(i, shape)] = value
    return OneHot(i, value, shape), dense


def dense(rng, shape):
    array = rng.standard_normal(shape)
    return DenseVertex(array), array.copy()


def fortran(rng, shape):
    array = np.asfortranarray(rng.standard_normal(shape))
    return DenseVertex(array), array.copy()


def sparse(rng, shape):
    (n,) = shape
    indices, values = rng.choice(n, 3, replace=False), rng.standard_normal(3)
    out = np.zeros(n)
    for i, v in zip(indices, values, strict=True):
        out[i] = v
    return SparseVertex(indices, values, shape), out


def permutation(rng, shape):
    n = math.isqrt(math.prod(shape))
    order, scale = rng.permutation(n), float(rng.standard_normal())
    return Scaled(scale, Permutation.of(order, shape)), scale * np.eye(n)[order].reshape(shape)


def rank_one(rng, shape):
    u, v = (rng.standard_normal(n) for n in shape)
    scale = float(rng.standard_normal())
    return RankOne(u, v, scale), scale * np.outer(u, v)


def scaled(inner):
    def make(rng, shape):
        vertex, array = inner(rng, shape)
        return Scaled(-1.5, vertex), -1.5 * array

    return make


def sliced(inner, block):
    def make(rng, shape):
        vertex, array = inner(rng, block)
        start = int(rng.integers(shape[0] - array.size + 1))
        out = np.zeros(shape)
        out[start : start + array.size] = array.ravel()
        return Slice(start, vertex, shape), out

    return make


def summed(*makers):
    def make(rng, shape):
        parts, addends = zip(*(maker(rng, shape) for maker in makers), strict=True)
        return Sum(parts), sum(addends)

    return make


#: name -> (shape, maker of a vertex and the array that it stands for)
KINDS = {
    "dense": ((9,), dense),
    "one-hot": ((9,), one_hot),
    "sparse": ((9,), sparse),
    "permutation-flat": ((9,), permutation),
    "scaled": ((9,), scaled(one_hot)),
    "slice": ((9,), sliced(one_hot, (4,))),
    "slice-permutation": ((9,), sliced(permutation, (4,))),
    "slice-matrix": ((9,), sliced(rank_one, (2, 3))),
    "sum": ((9,), summed(one_hot, dense)),
    "nested": ((9,), scaled(summed(sliced(scaled(one_hot), (3,)), summed(permutation, sparse)))),
    "dense-matrix": ((3, 3), dense),
    "dense-fortran": ((3, 3), fortran),
    "one-hot-matrix": ((3, 3), one_hot),
    "permutation": ((3, 3), permutation),
    "rank-one": ((3, 3), rank_one),
    "scaled-rank-one": ((3, 3), scaled(rank_one)),
    "sum-matrix": ((3, 3), summed(rank_one, permutation, one_hot)),
}

every_kind = pytest.mark.parametrize("kind", KINDS)
many = settings(deadline=None, max_examples=60, derandomize=True)
seeds = st.integers(0, 2**31)
weights = st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=0, max_size=5)


def make(kind, seed=0):
    shape, maker = KINDS[kind]
    return maker(np.random.default_rng(seed), shape)


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


@many
@given(
    kinds=st.lists(st.sampled_from([k for k, (shape, _) in KINDS.items() if shape == (9,)]), min_size=5, max_size=5),
    w=weights,
    seed=seeds,
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_mix_of_vectors_is_the_dense_formula(kinds, w, seed, dtype):
    check_mix(kinds, w, seed, dtype)


@many
@given(
    kinds=st.lists(st.sampled_from([k for k, (shape, _) in KINDS.items() if shape == (3, 3)]), min_size=5, max_size=5),
    w=weights,
    seed=seeds,
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_mix_of_matrices_is_the_dense_formula(kinds, w, seed, dtype):
    check_mix(kinds, w, seed, dtype)


def check_mix(kinds, w, seed, dtype):
    s, arrays = zip(*(make(kind, seed + i) for i, kind in enumerate(kinds)), strict=True)
    rng = np.random.default_rng(seed)
    x, z, images = rng.standard_normal(arrays[0].shape), rng.standard_normal(4), rng.standard_normal((5, 4))
    x, z = x.astype(dtype), z.astype(dtype)
    before = x.copy(), z.copy()
    point = Point(x, z)
    terms = [(wi, Lifted(si, DenseVertex(image))) for wi, si, image in zip(w, s, images, strict=False)]
    mixed = point.mix(iter(terms))
    for old, new, targets_ in ((before[0], mixed.x, arrays), (before[1], mixed.image, images)):
        expected = old + sum(wi * (target - old.astype(float)) for wi, target in zip(w, targets_, strict=False))
        size = (2 + sum(map(abs, w))) * max(np.abs(a).max() for a in (old, *targets_))
        assert new.dtype == dtype
        np.testing.assert_allclose(new, expected, rtol=0, atol=8 * eps(dtype) * size)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(z, before[1])
    for vertex, array in zip(s, arrays, strict=True):
        # sums of a few terms may cancel, so rounding is relative to the largest of them
        np.testing.assert_allclose(np.asarray(vertex), array, rtol=0, atol=4 * eps(float) * (1 + np.abs(array).max()))


def test_mix_takes_points_as_targets():
    rng = np.random.default_rng(0)
    x, y, z = (Point(rng.standard_normal(4), rng.standard_normal(2)) for _ in range(3))
    mixed = x.mix([(0.5, y), (0.2, z)])
    np.testing.assert_allclose(mixed.x, 0.3 * x.x + 0.5 * y.x + 0.2 * z.x, rtol=0, atol=8 * eps(float))
    np.testing.assert_allclose(mixed.image, 0.3 * x.image + 0.5 * y.image + 0.2 * z.image, rtol=0, atol=8 * eps(float))


def test_mix_with_nothing_is_the_point_itself():
    point = Point(np.ones(2), np.ones(3))
    assert point.mix([]) is point
    assert point.mix([(0.0, Lifted(OneHot(0, np.inf, (2,))))]) is point
    assert point.mix([(0.5, Lifted(OneHot(0, 1.0, (2,)), OneHot(0, 1.0, (3,))))]) is not point


@pytest.mark.parametrize("w", [[1.0], [0.5, 0.5], [0.25, 0.5, 0.25], [1.5, -0.5]])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_weights_that_sum_to_one_drop_the_base(w, bad):
    point = Point(np.full(3, bad), np.full(2, bad))
    mixed = point.mix((wi, Lifted(OneHot(i, 4.0, (3,)), OneHot(0, 2.0, (2,)))) for i, wi in enumerate(w))
    np.testing.assert_array_equal(mixed.x, np.pad(4 * np.array(w), (0, 3 - len(w))))
    np.testing.assert_array_equal(mixed.image, [2.0, 0.0])


def test_weights_that_sum_to_one_drop_the_atoms_of_a_low_rank_matrix():
    base = LowRank.from_factors(np.full((3, 2), 1e300), np.eye(2))
    atom = RankOne(np.ones(3), np.ones(2), 1.0)
    assert base.mixed(0.0, [(1.0, atom)]).rank == 1
    np.testing.assert_array_equal(FactoredPoint(base).mix([(1.0, Lifted(atom))]).x.to_dense(), np.ones((3, 2)))


def test_points_without_images_stay_without():
    mixed = Point(np.zeros(2)).mix([(0.5, Lifted(OneHot(1, 1.0, (2,))))])
    assert mixed.image is None
    np.testing.assert_array_equal(mixed.x, [0.0, 0.5])


@pytest.mark.parametrize("name", [name for name, (_, shape) in SETS.items() if len(shape) == 1])
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_images_follow_the_vertices_of_every_set(name, matrix):
    constraint, shape = SETS[name]
    A = design(5, shape[0])
    f = fw.LinearModel(matrix(A), targets(5))
    point = f.point(constraint.start(shape))
    rng = np.random.default_rng(3)
    for step in (1.0, 0.5, 0.3, 0.2):
        lifted = f.lift(constraint.lmo(rng.standard_normal(shape)))
        np.testing.assert_allclose(np.asarray(lifted.image), A @ np.asarray(lifted.vertex), rtol=0, atol=1e-13)
        point = point.mix([(step, lifted)])
        # A dozen terms of size up to 20, each rounded a few times.
        np.testing.assert_allclose(point.image, A @ point.x, rtol=0, atol=12 * 20 * 4 * eps(float))


def test_the_image_of_a_shift_is_computed_once():
    f = fw.LinearModel(design(5, 6), targets(5))
    counts = Counts()
    counted = f.counted_by(counts)
    constraint, _ = SETS["translated"]
    for seed in range(5):
        counted.lift(constraint.lmo(np.random.default_rng(seed).standard_normal(6)))
    assert counts.n_design == 1


def test_inner_product_of_a_point():
    x, g = design(3, 4), design(3, 4, seed=1)
    exact = float((x * g).sum())
    assert Point(x).dot(g) == pytest.approx(exact, rel=1e-13)
    assert Point(np.asfortranarray(x)).dot(g) == pytest.approx(exact, rel=1e-13)
    low = LowRank.from_factors(x, np.eye(4))
    assert FactoredPoint(low).dot(g) == pytest.approx(exact, rel=1e-13)
    assert FactoredPoint(low).dot(sp.csr_array(g)) == pytest.approx(exact, rel=1e-13)
    i, j = np.array([0, 0, 2]), np.array([1, 3, 0])
    observed = Sampled(g[i, j], j, np.array([0, 2, 2, 3]), (3, 4))
    assert observed.inner(FactoredPoint(low, low.entries(i, j))) == pytest.approx((x * g)[i, j].sum(), rel=1e-13)


def low_rank(rank=3, shape=(7, 5), dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (rng.standard_normal((n, rank)).astype(dtype) for n in shape)
    return LowRank.from_factors(U, V), U.astype(float) @ V.astype(float).T


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [0, 1, 3, 5, 12])
def test_low_rank_matrix_is_the_product_of_its_factors(rank, dtype):
    x, X = low_rank(rank, dtype=dtype)
    slack = 32 * eps(dtype) * max(1.0, np.abs(X).max())
    assert x.shape == X.shape
    assert x.rank == min(rank, 5)
    assert x.U.shape == (7, x.rank)
    assert x.V.shape == (5, x.rank)
    for array in (x.to_dense(), np.asarray(x), x.U @ x.V.T):
        assert array.dtype == dtype
        np.testing.assert_allclose(array, X, rtol=0, atol=slack)
    sigma = x.singular_values()
    assert sigma.dtype == dtype
    np.testing.assert_allclose(sigma, scipy.linalg.svdvals(X)[: min(rank, 5)], rtol=0, atol=slack)
    assert np.asarray(x, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entries_of_a_low_rank_matrix(dtype):
    x, X = low_rank(dtype=dtype)
    i, j = np.divmod(np.random.default_rng(1).permutation(35), 5)
    slack = 32 * eps(dtype) * np.abs(X).max()
    entries = x.entries(i, j)
    assert entries.dtype == dtype
    np.testing.assert_allclose(entries, X[i, j], rtol=0, atol=slack)
    np.testing.assert_allclose(x.entries(i.reshape(7, 5), j.reshape(7, 5)), X[i, j].reshape(7, 5), rtol=0, atol=slack)
    np.testing.assert_allclose(x.entries([6, 0], [4, 4]), X[[6, 0], [4, 4]], rtol=0, atol=slack)
    assert x.entries([], []).shape == (0,)


def test_entries_broadcast_as_indices_do():
    x, X = low_rank()
    rows, cols = np.arange(7), np.arange(5)
    np.testing.assert_allclose(x.entries(rows[:, None], cols), X, rtol=0, atol=1e-13)
    np.testing.assert_allclose(x.entries(2, cols), X[2], rtol=0, atol=1e-13)
    np.testing.assert_allclose(x.entries(rows, 3), X[:, 3], rtol=0, atol=1e-13)
    assert float(x.entries(1, 2)) == pytest.approx(X[1, 2])
    with pytest.raises((ValueError, IndexError)):
        x.entries([0, 1, 2], [0, 1])
    with pytest.raises(IndexError):
        x.entries([7], [0])


def test_entries_of_more_than_one_chunk():
    x, X = low_rank()
    i, j = np.random.default_rng(2).integers(0, [[7], [5]], (2, 2**20))
    np.testing.assert_allclose(x.entries(i, j), X[i, j], rtol=0, atol=1e-13)


def test_zero_matrix():
    x = LowRank.zeros((3, 2), np.float32)
    assert (x.shape, x.rank, x.dtype) == ((3, 2), 0, np.float32)
    np.testing.assert_array_equal(x.to_dense(), np.zeros((3, 2)))
    np.testing.assert_array_equal(x.entries([0, 2], [1, 0]), [0, 0])
    assert x.singular_values().shape == (0,)
    assert x.compressed().rank == 0
    assert x.dot(np.ones((3, 2))) == 0
    np.testing.assert_array_equal(
        x.mixed(0.5, [(0.5, RankOne(np.ones(3), np.ones(2), 2.0))]).to_dense(), np.ones((3, 2))
    )
    assert LowRank.from_factors(np.zeros((3, 4)), np.zeros((2, 4))).rank == 0


@many
@given(rest=st.floats(-1, 1), w=weights, seed=seeds, dtype=st.sampled_from([np.float64, np.float32]))
def test_mixed_low_rank_is_the_dense_formula(rest, w, seed, dtype):
    x, X = low_rank(dtype=dtype, seed=seed)
    before = x.to_dense()
    rng = np.random.default_rng(seed + 1)
    terms, arrays = [], []
    for k, _ in enumerate(w):
        u, v = rng.standard_normal(7).astype(dtype), rng.standard_normal(5).astype(dtype)
        other, other_dense = low_rank(2, dtype=dtype, seed=seed + k)
        terms.append(other.terms() if k % 2 else [(1.0, RankOne(u, v, -2.0))])
        arrays.append(other_dense if k % 2 else -2.0 * np.outer(u.astype(float), v.astype(float)))
    mixed = x.mixed(rest, [(wi * a, atom) for wi, term in zip(w, terms, strict=True) for a, atom in term])
    expected = rest * X + sum(wi * a for wi, a in zip(w, arrays, strict=True))
    size = (2 + sum(map(abs, w))) * max(np.abs(a).max() for a in (X, *arrays))
    assert mixed.dtype == mixed.U.dtype == mixed.V.dtype == dtype
    np.testing.assert_allclose(mixed.to_dense(), expected, rtol=0, atol=32 * eps(dtype) * size)
    np.testing.assert_array_equal(x.to_dense(), before)
    g = rng.standard_normal((7, 5)).astype(dtype)
    assert mixed.dot(g) == pytest.approx((expected * g).sum(), rel=0, abs=35 * 32 * eps(dtype) * size * np.abs(g).max())


def test_an_atom_met_again_is_kept_once():
    u, v = np.array([1.0, 2.0]), np.array([3.0, 0.0, 1.0])
    atom, twin = RankOne(u, v, 2.0), RankOne(u, v, 2.0)
    x = LowRank.zeros((2, 3)).mixed(1.0, [(0.5, atom), (0.25, atom)]).mixed(0.5, [(0.5, atom)])
    assert x.rank == 1
    np.testing.assert_allclose(x.to_dense(), 0.875 * np.asarray(atom), rtol=4 * eps(float))
    point = FactoredPoint(x).mix([(0.5, Lifted(atom)), (0.25, FactoredPoint(x))])
    assert point.x.rank == 1
    assert x.mixed(0.5, [(0.5, twin)]).compressed().rank == 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_compression_keeps_the_matrix_and_drops_the_surplus(dtype):
    x, X = low_rank(2, dtype=dtype)
    U, V, rng = x.U, x.V, np.random.default_rng(5)
    for _ in range(20):  # atoms within the row and column spaces: the rank stays 2
        u, v = (factor @ rng.standard_normal(2).astype(dtype) for factor in (U, V))
        u, v = (vector / np.linalg.norm(vector) for vector in (u, v))
        x, X = x.mixed(0.9, [(0.1, RankOne(u, v, 1.0))]), 0.9 * X + 0.1 * np.outer(u.astype(float), v.astype(float))
    small = x.compressed()
    assert x.rank == 22
    assert small.rank == 2
    assert small.dtype == dtype
    # Twenty mixtures and one factorisation, each good to a few ulps.
    np.testing.assert_allclose(small.to_dense(), X, rtol=0, atol=100 * eps(dtype) * np.abs(X).max())
    top = small.singular_values()
    np.testing.assert_allclose(x.singular_values()[:2], top, rtol=100 * eps(dtype))
    np.testing.assert_allclose(x.singular_values()[2:], 0, atol=100 * eps(dtype) * top[0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cancelled_atoms_leave_no_rank(dtype):
    x, X = low_rank(2, dtype=dtype)
    u, v = (np.random.default_rng(3).standard_normal(n).astype(dtype) for n in (7, 5))
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    # An ulp of the atom remains. It is small beside an ulp of the matrix, whose norm is above 4.
    y = x.mixed(1.0, [(0.25, RankOne(u, v, 1.0)), (-0.25, RankOne(u, v, 1.0))]).compressed()
    assert y.rank == 2
    np.testing.assert_allclose(y.to_dense(), X, rtol=0, atol=32 * eps(dtype) * np.abs(X).max())


def test_compression_keeps_small_singular_values():
    sigma = np.array([1.0, 1e-5, 1e-10])
    U, V = (np.linalg.qr(design(n, 3, seed=n))[0] for n in (7, 5))
    x = LowRank.from_factors(U * sigma, V).compressed()
    assert x.rank == 3
    np.testing.assert_allclose(x.singular_values(), sigma, rtol=0, atol=16 * eps(float))
    np.testing.assert_allclose(x.to_dense(), (U * sigma) @ V.T, rtol=0, atol=16 * eps(float))


def test_thousands_of_mixtures_stay_small_and_right():
    rng = np.random.default_rng(6)
    x, X = LowRank.zeros((8, 6)), np.zeros((8, 6))
    largest = 0
    for k in range(3000):
        u, v = rng.standard_normal(8), rng.standard_normal(6)
        u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
        w = 2 / (k + 2)
        x, X = x.mixed(1 - w, [(w, RankOne(u, v, 1.0))]), (1 - w) * X + w * np.outer(u, v)
        largest = max(largest, x.rank)
    assert largest <= 2 * 6 + 64
    # One rounding of a matrix of norm at most 1 per mixture, forgotten or not.
    np.testing.assert_allclose(x.to_dense(), X, rtol=0, atol=3000 * eps(float))


@pytest.mark.parametrize("start", ["zeros", "factors", "dense"])
def test_number_of_atoms_follows_the_rank_not_the_size(start):
    rng = np.random.default_rng(7)
    P, Q = rng.standard_normal((120, 2)), rng.standard_normal((100, 2))
    x = LowRank.zeros((120, 100))
    if start == "factors":  # many columns, little rank
        x = LowRank.from_factors(np.tile(P, 100), np.tile(Q, 100))
    if start == "dense":
        f = fw.MatrixCompletion([0], [0], [1.0], (120, 100))
        x = f.point(P @ Q.T).x
    largest = 0
    for _ in range(400):
        x = x.mixed(0.9, [(0.1, RankOne(P @ rng.standard_normal(2), Q @ rng.standard_normal(2), 1.0))])
        largest = max(largest, x.rank)
    assert largest <= 2 * 2 + 64


def test_float32_low_rank_stays_float32_through_compression():
    rng = np.random.default_rng(8)
    x = LowRank.zeros((6, 4), np.float32)
    for _ in range(200):
        u, v = rng.standard_normal(6).astype(np.float32), rng.standard_normal(4).astype(np.float32)
        x = x.mixed(0.5, [(0.5, RankOne(u, v, 1.0))])
    assert x.rank <= 72
    assert {a.dtype for a in (x, x.U, x.V, x.to_dense(), x.singular_values())} == {np.dtype(np.float32)}
    assert x.entries([0], [0]).dtype == np.float32


@pytest.mark.parametrize(
    ("U", "V", "message"),
    [
        (np.ones(3), np.ones((2, 1)), "U must have 2 dimension"),
        (np.ones((3, 1)), np.ones(2), "V must have 2 dimension"),
        (np.ones((3, 2)), np.ones((2, 1)), "U has 2 columns and V has 1"),
        ([[np.nan]], [[1.0]], "U must be finite"),
        ([[1.0]], [[np.inf]], "V must be finite"),
        ([["a"]], [[1.0]], "U must be an array of real numbers"),
        ([[1.0]], [[1j]], "V must be an array of real numbers"),
    ],
)
def test_factors_are_checked(U, V, message):
    with pytest.raises(ValueError, match=message):
        LowRank.from_factors(U, V)


def test_factors_of_integers_and_of_two_precisions():
    x = LowRank.from_factors([[1], [2]], [[3], [4]])
    np.testing.assert_allclose(x.to_dense(), [[3, 4], [6, 8]], rtol=8 * eps(float))
    assert x.dtype == np.float64
    assert LowRank.from_factors(np.ones((2, 1), np.float32), np.ones((2, 1))).dtype == np.float64


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


MATRIX_SETS = {name: entry for name, entry in SETS.items() if len(entry[1]) == 2}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MATRIX_SETS)
@pytest.mark.parametrize("gradient_order", ["C", "F"])
@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_memory_order_does_not_matter(name, gradient_order, method):
    constraint, shape = MATRIX_SETS[name]
    rng = np.random.default_rng(9)
    target = rng.standard_normal(shape)

    def f(order):
        return fw.Smooth(lambda x: 0.5 * float(((x - target) ** 2).sum()), lambda x: np.array(x - target, order=order))

    corner = np.asarray(constraint.lmo(rng.standard_normal(shape)))
    x0 = np.asfortranarray(0.5 * corner + 0.5 * np.asarray(constraint.start(shape)))
    before = x0.copy()
    # From k = 1 on, so that the start is not forgotten at once.
    arguments = {"method": method, "schedule": fw.OpenLoop(k0=1), "max_iter": 30, "tol": 0}
    fortran = fw.minimize(f(gradient_order), constraint, x0, **arguments)
    plain = fw.minimize(f("C"), constraint, np.ascontiguousarray(x0), **arguments)
    # The nuclear oracle works to a residual of 1e-9, and rounding differs with the order of a product.
    np.testing.assert_allclose(fortran.x, plain.x, rtol=0, atol=1e-9)
    assert fortran.gap == pytest.approx(plain.gap, rel=0, abs=1e-8)
    np.testing.assert_array_equal(x0, before)


@pytest.mark.parametrize("name", ["l1-matrix", "birkhoff", "nuclear"])
def test_a_run_from_a_fortran_ordered_point_reaches_the_minimum(name):
    constraint, shape = SETS[name]
    inside = np.asarray(constraint.start(shape)) * 0.5 + 0.5 * np.asarray(constraint.lmo(design(*shape)))
    f = fw.Smooth(lambda x: 0.5 * float(((x - inside) ** 2).sum()), lambda x: x - inside)
    r = fw.minimize(f, constraint, np.asfortranarray(np.asarray(constraint.lmo(-design(*shape)))), tol=1e-2)
    assert r.success
    assert np.linalg.norm(r.x - inside) <= math.sqrt(2 * 1e-2)  # f is strongly convex with constant 1


def test_numpy_numbers_as_parameters_leave_float32_alone():
    A, b = design(8, 4).astype(np.float32), targets(8).astype(np.float32)
    f = fw.LinearModel(A, b)
    for schedule in (
        fw.OpenLoop(c=np.float64(2.0)),
        fw.OpenLoop(delta=np.float64(0.5)),
        fw.ConstantSchedule(np.float64(0.25)),
    ):
        r = fw.minimize(f, fw.L1Ball(np.float64(1.0)), schedule=schedule, max_iter=3, tol=0)
        assert r.x.dtype == np.float32
        assert r.state.point.image.dtype == np.float32
