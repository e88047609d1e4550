"""Copied columns equal those of the matrix, in every kind of design, and count as shares of a pass."""

import dask.array as da
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr

import fwflow as fw
from fwflow import designs
from fwflow.designs import CountedDesign, Counts, DenseDesign, as_design, blocked
from fwflow.designs.in_memory import Centre, CentredDesign
from tests.catalogue import design
from tests.run.functions import CountingDesign

M, N = 40, 15


def matrix(dtype=np.float64):
    """A matrix with holes, an empty row, an empty and a constant column, and a column far from zero."""
    A = design(M, N) * (design(M, N, 10) > 0)
    A[2], A[:, 3], A[:, 5], A[:, 8] = 0, 0, 7, 100 + 0.1 * design(M, 1, 4)[:, 0]
    return A.astype(dtype)


def in_npy(A, path, order="C"):
    np.save(path / "A.npy", np.asarray(A, order=order))
    return designs.open(path / "A.npy")


def in_zarr(A, path):
    zarr.create_array(path / "A.zarr", shape=A.shape, chunks=(13, 4), dtype=A.dtype)[:] = A
    return designs.open(path / "A.zarr")


def in_parquet(A, path):
    pq.write_table(pa.table({f"c{j}": A[:, j] for j in range(N)}), path / "A.parquet", row_group_size=11)
    return designs.open(path / "A.parquet")


def half_sparse(A, path):
    """Blocks of which some are sparse and others are not."""
    left = da.from_array(A[:, :6], chunks=(11, 6)).map_blocks(sp.csr_array)
    return as_design(da.concatenate([left, da.from_array(A[:, 6:], chunks=(11, 9))], axis=1))


#: name -> (matrix, folder) -> design
KINDS = {
    "C": lambda A, path: as_design(A),
    "F": lambda A, path: as_design(np.asfortranarray(A)),
    "strided": lambda A, path: as_design(np.repeat(A, 3, axis=1)[:, ::3]),
    "csc": lambda A, path: as_design(sp.csc_array(A)),
    "csr": lambda A, path: as_design(sp.csr_array(A)),
    "csr_matrix": lambda A, path: as_design(sp.csr_matrix(A)),
    "own": lambda A, path: CountingDesign(A),
    "own-sparse": lambda A, path: OwnSparse(A),
    "doubled": lambda A, path: as_design(A.astype(np.float32)).double(),
    "npy": in_npy,
    "npy-F": lambda A, path: in_npy(A, path, "F"),
    "zarr": in_zarr,
    "parquet": in_parquet,
    "dask": lambda A, path: as_design(da.from_array(A, chunks=(11, 4))),
    "dask-sparse": lambda A, path: as_design(da.from_array(A, chunks=(11, 4)).map_blocks(sp.csr_array)),
    "dask-both": half_sparse,
}
INDICES = {
    "all": np.arange(N),
    "some": np.array([0, 3, 5, 8, 14]),
    "one": np.array([4]),
    "empty-column": np.array([3]),
    "none": np.zeros(0, dtype=np.intp),
    "moved": np.array([5, 8]),
}


class OwnSparse(fw.Design):
    """A design of one's own with sparse columns and the default of `columns`."""

    def __init__(self, A):
        self.inner, self.shape, self.dtype = as_design(sp.csc_array(A)), A.shape, A.dtype

    def matvec(self, x):
        return self.inner.matvec(x)

    def rmatvec(self, r):
        return self.inner.rmatvec(r)

    def column(self, j):
        return self.inner.column(j)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocked, "_BLOCK", 2000)


def assert_columns(D, A, indices):
    found = D.columns(indices)
    assert found.shape == (M, len(indices))
    assert found.dtype == D.dtype
    if sp.issparse(found):
        assert found.format == "csc"
        assert found.indices.max(initial=0) < M
        found = found.toarray()
    np.testing.assert_array_equal(found, A[:, indices])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_every_design(kind, dtype, tmp_path):
    A = matrix(dtype)
    D = KINDS[kind](A, tmp_path)
    expected = A.astype(np.float32) if kind == "doubled" else A
    for name in ("one", "one", "some", "none", "moved", "all", "empty-column", "some"):  # kept columns are used again
        assert_columns(D, expected, INDICES[name])


@pytest.mark.parametrize("kind", ["C", "csc", "csr", "own", "own-sparse", "npy", "zarr", "dask", "dask-both"])
def test_columns_can_be_changed_by_those_who_asked_for_them(kind, tmp_path):
    A = matrix()
    D = KINDS[kind](A.copy(), tmp_path)
    found = D.columns(np.arange(N))
    (found.data if sp.issparse(found) else found)[:] = 5
    assert_columns(D, A, np.arange(N))


@pytest.mark.parametrize("kind", ["C", "F", "csc", "csr"])
def test_columns_of_centred_designs(kind, tmp_path):
    A = matrix()
    D = KINDS[kind](A, tmp_path).centred()
    assert isinstance(D, CentredDesign)
    dense = np.stack([D.column(j).to_dense() for j in range(N)], axis=1)
    assert not dense[:, 5].any()
    assert np.abs(dense[:, 8]).max() < 1
    for indices in INDICES.values():
        assert_columns(D, dense, indices)
    np.testing.assert_array_equal(Centre.of(A).places, [5, 8])


@pytest.mark.parametrize("kind", ["int", "bool"])
@pytest.mark.parametrize("store", ["npy", "zarr", "dask", "dask-sparse"])
def test_columns_of_whole_numbers_are_floating(kind, store, tmp_path):
    A = (matrix() * 3).astype({"int": np.int16, "bool": bool}[kind])
    D = KINDS[store](A, tmp_path)
    assert_columns(D, A.astype(np.float64), np.array([0, 5, 8]))


@pytest.mark.parametrize("kind", ["npy", "zarr", "parquet", "dask", "dask-sparse", "dask-both"])
def test_little_memory_keeps_few_columns(kind, tmp_path, monkeypatch):
    A = matrix()
    D = KINDS[kind](A, tmp_path)
    monkeypatch.setattr(blocked, "_KEPT", 3 * A.itemsize * M)
    for indices in ("all", "some", "moved", "all"):
        assert_columns(D, A, INDICES[indices])
        assert sum(map(blocked.stored_bytes, D._kept.values())) <= 3 * A.itemsize * M
    np.testing.assert_array_equal(D.column(7).to_dense(), A[:, 7])


def test_columns_of_a_file_take_one_pass_over_their_blocks(tmp_path, monkeypatch):
    D = KINDS["npy-F"](matrix(), tmp_path)
    read = []
    one = type(D)._read
    monkeypatch.setattr(type(D), "_read", lambda self, i, j: read.append((i, j)) or one(self, i, j))
    D.columns(np.array([0, 1, 13, 14]))
    assert len(read) == len(set(read)) == 2 < len(D._columns)
    D.columns(np.array([0, 14]))
    assert len(read) == 2
    assert D.data_cost.most_columns == N // 3


@pytest.mark.parametrize("kind", KINDS)
def test_columns_count_as_a_share_of_a_pass(kind, tmp_path):
    counts = Counts()
    D = CountedDesign(KINDS[kind](matrix(), tmp_path), counts)
    D.columns(INDICES["some"])
    assert counts.n_design == pytest.approx(5 / N)
    D.columns(INDICES["none"])
    D.columns(INDICES["one"])
    assert counts.n_design == pytest.approx(6 / N)
    assert (counts.n_grad, counts.n_lmo) == (0, 0)


class Wrong(DenseDesign):
    """Other products and columns than those of the class above, which copies columns of A."""

    def matvec(self, x):
        return 2 * super().matvec(x)

    def rmatvec(self, r):
        return 2 * super().rmatvec(r)

    def column(self, j):
        return fw.points.vertices.DenseVertex(2 * self.A[:, j])


def test_columns_that_do_not_fit_are_found():
    D = CountedDesign(Wrong(matrix()), Counts())
    with pytest.raises(ValueError, match="`columns` of Wrong disagrees with its `column`"):
        D.columns(np.array([0, 1]))
