"""Low-rank matrices against dense ones."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fwflow as fw
from fwflow.points.lowrank import LowRank, Positions, entries_of, scaled_svd
from fwflow.points.point import FactoredPoint, Lifted
from fwflow.points.vertices import DenseVertex, RankOne, Scaled, Sum
from tests.catalogue import design
from tests.points.kinds import eps, many, seeds, weights


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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_multiples_of_a_low_rank_matrix(dtype):
    x, X = low_rank(dtype=dtype)
    for multiple, expected in ((2.0 * x, 2 * X), (x * -0.5, -0.5 * X), (x / 4.0, X / 4), (0.0 * x, 0 * X)):
        assert multiple.dtype == dtype
        assert multiple.shape == x.shape
        np.testing.assert_allclose(multiple.to_dense(), expected, rtol=0, atol=32 * eps(dtype) * np.abs(X).max())


@pytest.mark.parametrize("rank", [0, 1, 3, 12])
def test_squared_frobenius_norm(rank):
    x, X = low_rank(rank)
    assert x.norm2() == pytest.approx(np.linalg.norm(X) ** 2, rel=1e-12, abs=0)


def test_terms_add_up_to_the_matrix():
    x, X = low_rank()
    assert len(x.terms()) == x.rank
    np.testing.assert_allclose(sum(w * np.asarray(atom) for w, atom in x.terms()), X, rtol=0, atol=1e-13)


def test_a_copy_does_not_change_with_its_original():
    x, X = low_rank()
    y = x.copy()
    x._atoms.clear()
    np.testing.assert_allclose(y.to_dense(), X, rtol=0, atol=1e-13)


def test_a_matrix_in_another_precision():
    x, X = low_rank()
    single = x.cast(np.float32)
    assert {a.dtype for a in (single, single.U, single.V, single.to_dense())} == {np.dtype(np.float32)}
    np.testing.assert_allclose(single.to_dense(), X, rtol=0, atol=32 * eps(np.float32) * np.abs(X).max())
    assert x.to_dense().dtype == np.float64


def test_factors_cannot_be_written_to():
    x, _ = low_rank()
    for factor in (x.U, x.V):
        with pytest.raises(ValueError, match="read-only"):
            factor[0, 0] = 1.0


def test_text_form_names_shape_rank_and_type():
    assert repr(low_rank(2)[0]) == "LowRank(shape=(7, 5), rank=2, dtype=float64)"


def test_inner_product_with_dense_and_sparse_matrices():
    x, X = low_rank()
    g = np.round(design(7, 5, seed=4))
    for form in (g, sp.csr_array(g), sp.csc_array(g)):
        assert x.dot(form) == pytest.approx(float((X * g).sum()), rel=1e-12)


def test_rank_one_terms_of_vertices():
    one, two = (RankOne(design(3, 1, seed)[:, 0], design(2, 1, seed + 1)[:, 0], 2.0) for seed in (0, 2))
    for vertex in (one, Scaled(-3.0, one), Sum((one, Scaled(0.5, two)))):
        terms = Lifted(vertex).rank_one_terms(0.25)
        assert all(isinstance(part, RankOne) for _, part in terms)
        np.testing.assert_allclose(
            sum(w * np.asarray(part) for w, part in terms), 0.25 * np.asarray(vertex), rtol=1e-14
        )
    assert Lifted(DenseVertex(np.ones((3, 2)))).rank_one_terms(1.0) == []


@pytest.mark.parametrize("rank", [0, 1, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_entries_of_a_product(rank, dtype):
    U, V = design(6, rank or 1)[:, :rank].astype(dtype), design(4, rank or 1, seed=1)[:, :rank].astype(dtype)
    i, j = np.divmod(np.arange(24), 4)
    entries = entries_of(U, V, i, j)
    assert entries.dtype == dtype
    np.testing.assert_allclose(entries, (U.astype(float) @ V.astype(float).T).ravel(), rtol=0, atol=64 * eps(dtype))


def positions(kind, shape, rng):
    """Return distinct positions: everywhere, few, or many in some rows and columns only."""
    m, n = shape
    if kind == "all":
        return np.divmod(np.arange(m * n), n)
    if kind == "one":
        return np.array([m - 1]), np.array([n - 1])
    if kind == "few":
        return np.divmod(rng.choice(m * n, max(1, m * n // 50), replace=False), n)
    popular = np.outer(rng.permutation(m) < m / 3, rng.permutation(n) < n / 3)
    chance = np.where(popular, 0.6, 0.01)
    chance[0, 0] = 1  # at least one
    return np.nonzero(rng.random(shape) < chance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1, 1), (1, 700), (700, 1), (300, 400), (400, 2500)])
@pytest.mark.parametrize("kind", ["all", "one", "few", "uneven"])
def test_entries_at_fixed_positions(kind, shape, dtype):
    rng = np.random.default_rng(0)
    i, j = positions(kind, shape, rng)
    order = rng.permutation(len(i))
    i, j = i[order], j[order]
    at = Positions(i, j, shape)
    for rank in (0, 1, 7):
        U, V = (rng.standard_normal((n, rank)).astype(dtype) for n in shape)
        found = at.entries(U, V)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, (U.astype(float) @ V.T)[i, j], rtol=0, atol=40 * eps(dtype))


def test_entries_of_uneven_positions_come_from_products_and_one_by_one():
    i, j = positions("uneven", (300, 400), np.random.default_rng(0))
    products, inside, outside = Positions(i, j, (300, 400))._arranged
    assert products
    assert len(outside) > 0
    np.testing.assert_array_equal(np.sort(np.concatenate([inside, outside])), np.arange(len(i)))


def test_indices_of_entries_are_checked():
    x = LowRank.from_factors(np.eye(3), np.arange(12.0).reshape(4, 3))
    np.testing.assert_allclose(x.entries([-1, 0], [-1, -4]), [11.0, 0.0], atol=1e-14)
    for i, j in ((3, 0), (0, 4), (-4, 0)):
        with pytest.raises(IndexError):
            x.entries([i], [j])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rank", [0, 1, 5])
def test_balanced_factors(rank, dtype):
    rng = np.random.default_rng(0)
    x = LowRank.from_factors(*(rng.standard_normal((n, rank)).astype(dtype) for n in (9, 7)))
    A, B = x.balanced()
    sigma, slack = np.diag(x.singular_values()), 100 * eps(dtype)
    np.testing.assert_allclose(A.T @ A, sigma, rtol=0, atol=slack)
    np.testing.assert_allclose(B.T @ B, sigma, rtol=0, atol=slack)
    again = LowRank.from_balanced(A, B)
    assert (again.rank, again.dtype) == (rank, dtype)
    np.testing.assert_allclose(again.to_dense(), x.to_dense(), rtol=0, atol=slack)


def test_decomposition_does_not_depend_on_a_power_of_two():
    M = np.random.default_rng(0).standard_normal((6, 4))
    left, sigma, right = scaled_svd(M)
    np.testing.assert_allclose((left * sigma) @ right, M, atol=1e-14)
    for power in (-1000, -490, 490, 1000):
        others = scaled_svd(np.ldexp(M, power))
        for mine, other in zip((left, np.ldexp(sigma, power), right), others, strict=True):
            np.testing.assert_array_equal(mine, other)
