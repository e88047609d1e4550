"""Matrices in files are designs: in blocks, read ahead, in little memory, and lost without harm."""

import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zarr

import fwflow as fw
from fwflow import designs
from fwflow.designs import blocked
from tests.catalogue import design, targets

M, N = 60, 14
A = design(M, N)
B = A[:, :3].sum(axis=1) + 0.1 * targets(M)
C = fw.L1Ball(1.5)


def table(rows):
    return pa.table({f"c{j}": rows[:, j] for j in range(rows.shape[1])})


def in_zarr(path, chunks):
    zarr.create_array(path, shape=A.shape, chunks=chunks, dtype="f8")[:] = A


def in_parquet(folder):
    folder.mkdir()
    for k, rows in enumerate(np.split(A, [25, 40])):
        pq.write_table(table(rows), folder / f"part-{k}.parquet", row_group_size=11)


#: How A is written, and in how many blocks of at most 2 kB it is read then.
KINDS = {
    "rows.npy": (lambda path: np.save(path, A), (4, 1)),
    "columns.npy": (lambda path: np.save(path, np.asfortranarray(A)), (1, 4)),
    "other-endian.npy": (lambda path: np.save(path, A.astype(">f8")), (4, 1)),
    "wide.zarr": (lambda path: in_zarr(path, (5, 14)), (4, 1)),
    "narrow.zarr": (lambda path: in_zarr(path, (60, 2)), (1, 4)),
    "both.zarr": (lambda path: in_zarr(path, (30, 7)), (2, 2)),
    "one.parquet": (lambda path: pq.write_table(table(A), path, row_group_size=25), (3, 2)),
    "parts": (in_parquet, (7, 1)),
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocked, "_BLOCK", 2000)


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "A.npy", A)
    return tmp_path / "A.npy"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_is_the_matrix(kind, tmp_path):
    write, blocks = KINDS[kind]
    write(tmp_path / kind)
    D = designs.open(tmp_path / kind)
    assert (len(D._rows), len(D._columns)) == blocks
    assert (D.shape, D.dtype) == (A.shape, A.dtype)
    R, J = design(2, M, 5), np.array([3, 0, 13])
    np.testing.assert_allclose(D.matvec(B[:N]), A @ B[:N], rtol=1e-12)
    np.testing.assert_allclose(D.rmatmat(R), R @ A, rtol=1e-12, atol=1e-12)
    for X in (np.outer([1.0, 0.0, -2.0], B[:N]), np.zeros((2, N))):
        np.testing.assert_allclose(D.matmat(X), X @ A.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(D.combined(J, B[:3]), A[:, J] @ B[:3], rtol=1e-12)
    for j in range(N):
        np.testing.assert_array_equal(D.column(j), A[:, j])
    for method in ("rk44", "corrective"):
        ours, theirs = (fw.minimize(fw.LinearModel(X, B), C, method=method, max_iter=10) for X in (D, A))
        np.testing.assert_allclose(ours.x, theirs.x, atol=1e-12)
        assert ours.n_design == theirs.n_design
    np.save(tmp_path / "same.npy", A)
    assert D.fingerprint() == designs.open(tmp_path / "same.npy").fingerprint()


@pytest.mark.parametrize(("dtype", "computes"), [("f4", np.float32), ("i2", np.float64), ("?", np.float64)])
def test_numbers_keep_their_precision(dtype, computes, tmp_path):
    stored = (3 * A).astype(dtype)
    np.save(tmp_path / "A.npy", stored)
    D = designs.open(tmp_path / "A.npy")
    assert D.dtype == D.rmatvec(B).dtype == D.matvec(B[:N]).dtype == computes
    np.testing.assert_allclose(D.double().rmatvec(B), B @ stored.astype(float), rtol=1e-12)
    r = fw.minimize(fw.LinearModel(D, B), C, tol=1e-4)
    assert r.success
    assert r.x.dtype == computes


def test_columns_of_parquet_are_chosen_by_name(tmp_path):
    pq.write_table(table(A).append_column("label", pa.array(["a"] * M)), tmp_path / "A.parquet")
    with pytest.raises(ValueError, match="'label' does not hold numbers"):
        designs.open(tmp_path / "A.parquet")
    with pytest.raises(ValueError, match="no column 'c99'"):
        designs.open(tmp_path / "A.parquet", columns=["c0", "c99"])
    D = designs.open(tmp_path / "A.parquet", columns=["c5", "c2"])
    np.testing.assert_allclose(D.rmatvec(B), B @ A[:, [5, 2]])


def test_what_cannot_be_opened_is_said(tmp_path, path):
    np.save(tmp_path / "vector.npy", B)
    np.save(tmp_path / "complex.npy", 1j * A)
    np.save(tmp_path / "empty.npy", A[:0])
    (tmp_path / "no.npy").write_bytes(b"nothing")
    (tmp_path / "A.txt").write_text("1 2")
    for name, said in [
        ("vector.npy", "must hold a matrix"),
        ("complex.npy", "real numbers"),
        ("empty.npy", "empty"),
        ("no.npy", "not an .npy file"),
        ("A.txt", "must be an .npy file, a Zarr store, a Parquet file"),
    ]:
        with pytest.raises(ValueError, match=said):
            designs.open(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        designs.open(tmp_path / "missing.npy")
    with pytest.raises(ValueError, match="is for Parquet files"):
        designs.open(path, columns=["a"])


@pytest.mark.parametrize(("kind", "module"), [("wide.zarr", "zarr"), ("one.parquet", "pyarrow.parquet")])
def test_a_missing_extra_is_named(kind, module, tmp_path, monkeypatch):
    KINDS[kind][0](tmp_path / kind)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'fwflow\[dask\]'"):
        designs.open(tmp_path / kind)


class Watched(blocked.NpyFile):
    """Notes which blocks are read."""

    def __init__(self, path):
        self.read, self.second = [], threading.Event()
        super().__init__(path)
        self.read.clear()

    def _read(self, i, j):
        self.read.append((i, j))
        if i == 1:
            self.second.set()
        return super()._read(i, j)


def test_the_next_block_is_read_while_one_is_multiplied(path):
    D = Watched(path)
    D.second.clear()
    seen = D._sums(lambda block, operand: D.second.wait(10), [[((0, 0), None)], [((1, 0), None)]])
    assert seen == [True, True]


def test_columns_that_are_likely_come_along_and_stay(path):
    D = Watched(path)
    D._prefetched = 3
    g = D.rmatvec(B)
    best = np.argsort(-np.abs(g))
    D.read.clear()
    for j in best[[1, 0, 2, 3, 1]]:
        D.column(int(j))
    assert D.read == [(i, 0) for i in range(4)]
    D.column(int(best[-1]))
    assert len(D.read) == 8


def test_a_file_that_ends_early_ends_the_run_which_goes_on_when_it_is_back(path):
    f = fw.LinearModel(designs.open(path), B)
    whole = path.read_bytes()

    def cut(state):
        if state.k == 3:
            path.write_bytes(whole[:3000])

    r = fw.minimize(f, C, method="fw", tol=0, max_iter=9, callback=cut)
    assert (r.status, r.success, r.feasible) == (fw.Status.DATA, False, True)
    assert "has become shorter" in r.message
    assert r.fun == r.trace["fun"].min()
    # The image of x comes from columns that are kept; the first gradient needs the file.
    assert fw.minimize(f, C, method="fw", x0=r.x).status is fw.Status.DATA
    path.write_bytes(whole)
    again = fw.minimize(fw.LinearModel(designs.open(path), B), C, method="fw", tol=0, max_iter=9 - r.nit, state=r.state)
    np.testing.assert_array_equal(again.x, fw.minimize(f, C, method="fw", tol=0, max_iter=9).x)


def test_a_file_that_is_gone_ends_the_run(path):
    f = fw.LinearModel(designs.open(path), B)
    r = fw.minimize(f, C, method="fw", tol=0, callback=lambda state: state.k == 3 and path.unlink())
    assert r.status is fw.Status.DATA
    assert str(path) in r.message


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_entries_that_are_no_numbers_end_the_run(tmp_path, dtype):
    bad = A.astype(dtype)
    bad[17, A.shape[1] // 2] = np.nan  # where products are checked
    np.save(tmp_path / "A.npy", bad)
    f = fw.LinearModel(designs.open(tmp_path / "A.npy"), B)
    assert fw.minimize(f, C).status is fw.Status.NUMERICAL


LARGE = """
import re, resource, sys
import numpy as np, fwflow as fw
from fwflow import designs
def peak():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not from getrusage, which on Linux begins with the peak of the process that has started this one.
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
before = peak()
D = designs.open(sys.argv[1])
f = fw.LinearModel(D, np.arange(D.shape[0]) % 7 - 3.0)
r = fw.minimize(f, fw.L1Ball(1.0), tol=0, rtol=1e-3, max_iter=2)
print(D.shape[0] * D.shape[1] * 8, peak() - before, r.n_design)
"""


def test_a_large_file_takes_little_memory(tmp_path):
    rows = np.random.default_rng(0).standard_normal((500, 5000))
    with open(tmp_path / "A.npy", "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f8", "fortran_order": False, "shape": (10_000, 5000)})
        for _ in range(20):
            rows.tofile(file)
    command = [sys.executable, "-c", LARGE, str(tmp_path / "A.npy")]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=200).stdout
    size, memory, passes = map(float, found.split())
    assert size == 4e8
    assert passes >= 3
    assert memory < 0.7 * size  # two blocks, their copies, and columns: 0.3 to 0.55 of it were seen
