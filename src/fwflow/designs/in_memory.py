"""Dense and sparse design matrices in memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._validation import Array, finite_array, float_dtype
from fwflow.designs.base import DataCost, Design
from fwflow.designs.centred import Centre, CentredDesign
from fwflow.points.vertices import DenseVertex, SparseVertex, Vertex


class _InMemory(Design):
    """Matrix in memory."""

    A: Any

    def fingerprint(self) -> str:
        return fingerprint(self, self.A)

    def centred(self) -> Design:
        centre = Centre.of(self.A)
        return CentredDesign(self, centre) if len(centre.places) else self


class DenseDesign(_InMemory):
    """NumPy matrix. Integers, booleans and extended precision are converted once to float64.

    Other input is not copied: BLAS computes ``A.T @ r`` at memory speed in either memory order.
    """

    def __init__(self, A: ArrayLike, name: str = "A") -> None:
        self.A = finite_array(A, name, ndim=2)
        self.shape, self.dtype = self.A.shape, self.A.dtype
        # The shares of columns are measured: in a matrix stored by rows, every entry of a column takes a cache line.
        self.data_cost = DataCost(self.A.size, column_share=0.2 if self.A.flags.f_contiguous else 0.02)

    def matvec(self, x: Array) -> Array:
        return dot(self.A, x)

    def rmatvec(self, r: Array) -> Array:
        return dot(r, self.A)

    def column(self, j: int) -> DenseVertex:
        return DenseVertex(self.A[:, j])

    def rmatmat(self, R: Array) -> Array | None:
        return dot(R, self.A)

    def combined(self, indices: Array, values: Array) -> DenseVertex:
        return DenseVertex(dot(self.A[:, indices], values.astype(self.dtype)))

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        return dot(r, self.A[:, columns])

    def some_rows(self, rows: Array) -> Array:
        return self.A[rows]

    def column_norms(self) -> Array | None:
        return np.sqrt(np.einsum("ij,ij->j", self.A, self.A, dtype=np.float64))

    def double(self) -> Design:
        return self if self.dtype == np.float64 else _DoubledDesign(self.A)


class _DoubledDesign(Design):
    """Float32 matrix with products in float64. Blocks of rows are converted one at a time to save memory."""

    def __init__(self, A: Array) -> None:
        self.A, self.shape, self.dtype = A, A.shape, np.dtype(np.float64)

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        rows = max(1, 2**20 // self.shape[1])  # blocks of 8 MB
        for i in range(0, self.shape[0], rows):
            place = slice(i, i + rows)
            yield place, self.A[place].astype(np.float64)

    def matvec(self, x: Array) -> Array:
        return np.concatenate([dot(block, x) for _, block in self._blocks()])

    def rmatvec(self, r: Array) -> Array:
        total = np.zeros(self.shape[1])
        for place, block in self._blocks():
            total += dot(r[place], block)
        return total

    def column(self, j: int) -> DenseVertex:
        return DenseVertex(self.A[:, j].astype(np.float64))


class SparseDesign(_InMemory):
    """SciPy sparse matrix in CSC form, so that ``A.T @ r`` reads the data in order and a column is a slice.

    CSC input in canonical form is not copied. Any other format is converted once, into a copy.
    """

    def __init__(self, A: Any, name: str = "A") -> None:
        if np.dtype(A.dtype).kind not in "biuf":
            raise ValueError(f"{name} must be an array of real numbers; its dtype is {A.dtype}")
        if A.ndim != 2:
            raise ValueError(f"{name} must have 2 dimension(s); got shape {A.shape}")
        # The type is converted before the format, because that adds duplicate entries and small integers may overflow.
        columns = sp.csc_array(A if A.dtype == bool else A.astype(float_dtype(A.dtype), copy=False))
        columns = columns.astype(float_dtype(A.dtype), copy=False)
        if not columns.has_canonical_format:
            columns = columns.copy()
            columns.sum_duplicates()
        if not np.isfinite(columns.data).all():
            raise ValueError(f"{name} must be finite; it has NaN or infinite entries")
        self.A = columns
        self._transpose = columns.T  # CSR, sharing memory
        self.shape, self.dtype = columns.shape, columns.dtype
        # Measured: a stored entry takes three times as long as one of a dense matrix, and extracting columns takes
        # about as long as multiplying them.
        self.data_cost = DataCost(3 * columns.nnz, column_share=0.2)

    def matvec(self, x: Array) -> Array:
        return np.asarray(dot(self.A, x))

    def rmatvec(self, r: Array) -> Array:
        return np.asarray(dot(self._transpose, r))

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        return np.asarray(dot(self._transpose[columns], r))

    @cached_property
    def _by_rows(self) -> sp.csr_array:
        return self.A.tocsr()

    def some_rows(self, rows: Array) -> sp.csr_array:
        """Return rows of a copy in CSR form, which is made at the first call."""
        return self._by_rows[rows]

    def column_norms(self) -> Array | None:
        squares = sp.csr_array((self.A.data.astype(np.float64) ** 2, self.A.indices, self.A.indptr), self.shape[::-1])
        return np.sqrt(dot(squares, np.ones(self.shape[0])))

    def double(self) -> Design:
        return self if self.dtype == np.float64 else SparseDesign(self.A.astype(np.float64))

    def column(self, j: int) -> SparseVertex:
        stored = slice(self.A.indptr[j], self.A.indptr[j + 1])
        return SparseVertex(self.A.indices[stored], self.A.data[stored], (self.shape[0],))

    def combined(self, indices: Array, values: Array) -> Vertex:
        first = self.A.indptr[indices]
        counts = self.A.indptr[indices + 1] - first
        # The stored entries of column i lie one after another from first[i] on.
        stored = np.arange(counts.sum()) + np.repeat(first - (np.cumsum(counts) - counts), counts)
        weights = (np.repeat(values, counts) * self.A.data[stored]).astype(self.dtype)
        m = self.shape[0]
        total = np.bincount(self.A.indices[stored], weights, minlength=m).astype(self.dtype, copy=False)
        if len(stored) > m // 8:
            return DenseVertex(total)
        rows = np.flatnonzero(total)
        return SparseVertex(rows, total[rows], (m,))
