"""Dense and sparse design matrices in memory, and their columns centred in models with an intercept.

With an intercept, the derivative along a constant column is zero. Computed from the column as it is, it is the rounding
error of large terms instead, and a large set follows this error far away. A centred column does not have this error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._validation import Array, finite_array, float_dtype
from fwflow.designs.base import DataCost, Design, DesignWrapper
from fwflow.points.vertices import DenseVertex, SparseVertex, Vertex, read_only

# Columns whose spread is at most this share of their largest absolute value are moved. The difference of two numbers
# this close to each other is exact, and columns with a larger spread lose less than two decimal digits.
_FAR = 1 / 64
# Columns whose spread is at most this many units in the last place count as constant: the rounding error of a
# prediction from such a column is as large as the variation that it explains.
_ULPS = 16
# Number of rows that are examined first (chosen without tuning). Columns with a large spread in them are not examined
# further.
_FIRST_ROWS = 16


class _InMemory(Design):
    """Matrix in memory."""

    A: Any

    def fingerprint(self) -> str:
        return fingerprint(self, entries=self.A)

    def centred(self) -> Design:
        centre = Centre.of(self.A)
        return CentredDesign(self, centre) if len(centre.places) else self


class DenseDesign(_InMemory):
    """NumPy matrix. Integers, booleans and extended precision are converted once to float64.

    Other input is not copied: BLAS computes ``A.T @ r`` at memory speed in either memory order.
    """

    def __init__(self, A: ArrayLike, name: str = "A") -> None:
        self.A = finite_array(A, name, ndim=2)
        self._read_only = read_only(self.A)
        self.shape, self.dtype = self.A.shape, self.A.dtype
        # The shares of columns are measured: in a matrix stored by rows, every entry of a column takes a cache line.
        self.data_cost = DataCost(self.A.size, column_share=0.2 if self.A.flags.f_contiguous else 0.02)

    def matvec(self, x: Array) -> Array:
        return dot(self.A, x)

    def rmatvec(self, r: Array) -> Array:
        return dot(r, self.A)

    def column(self, j: int) -> DenseVertex:
        return DenseVertex(self._read_only[:, j])

    def columns(self, indices: Array) -> Array:
        return self.A[:, indices]

    def matmat(self, X: Array) -> Array | None:
        return dot(X, self.A.T)

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
        return self.matmat(x)

    def rmatvec(self, r: Array) -> Array:
        return self.rmatmat(r)

    def matmat(self, X: Array) -> Array:
        return np.concatenate([dot(X, block.T) for _, block in self._blocks()], axis=-1)

    def rmatmat(self, R: Array) -> Array:
        total = np.zeros((*R.shape[:-1], self.shape[1]))
        for place, block in self._blocks():
            total += dot(R[..., place], block)
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

    def matmat(self, X: Array) -> Array | None:
        return np.asarray(dot(self.A, X.T)).T

    def rmatmat(self, R: Array) -> Array | None:
        return np.asarray(dot(self._transpose, R.T)).T

    def columns(self, indices: Array) -> sp.csc_array:
        return self.A[:, indices]

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


@dataclass(frozen=True, eq=False)
class Centre:
    """Columns that are far from zero, and the constant to subtract from each."""

    places: Array
    values: Array
    #: For each column, whether it varies by rounding only.
    constant: Array

    @staticmethod
    def of(X: Any) -> Centre:
        """Find the columns of an array or a sparse matrix that are far from zero."""
        if sp.issparse(X):  # A column with an implicit zero is not far from zero.
            places = np.flatnonzero(np.diff(X.tocsc().indptr) == X.shape[0])
            X = X.tocsc()[:, places].toarray()
        else:
            places = np.flatnonzero(_narrow(X[:_FIRST_ROWS]))
            X = X if len(places) == X.shape[1] else X[:, places]
        narrow = _narrow(X)
        low, high = X.min(axis=0)[narrow], X.max(axis=0)[narrow]
        size = np.maximum(np.abs(low), np.abs(high))
        # The midpoint in this form is exact for constant columns.
        values = low + (high - low) / 2
        return Centre(places[narrow], values, high - low <= _ULPS * np.finfo(low.dtype).eps * size)

    def taken_from(self, X: Any) -> Any:
        """Return an array or a CSC matrix with the columns moved. Constant columns become zero."""
        if not len(self.places):
            return X
        X = X.copy()
        if not sp.issparse(X):
            X[:, self.places] = X[:, self.places] - self.values
            X[:, self.places[self.constant]] = 0
            return X
        for j, value, constant in zip(self.places, self.values, self.constant, strict=True):
            own = slice(X.indptr[j], X.indptr[j + 1])
            X.data[own] = 0 if constant else X.data[own] - value
        return X

    def product(self, X: Any, coef: Array) -> Array:
        """Return ``taken_from(X) @ coef.T`` without a copy of X; constant columns count with their differences."""
        rest = coef.copy()
        rest[..., self.places] = 0
        near = X[:, self.places]
        near = near.toarray() if sp.issparse(near) else near
        return np.asarray(dot(X, rest.T) + dot(near - self.values, coef[..., self.places].T))


def _narrow(X: Array) -> Array:
    """Return for each column whether its spread is small relative to its largest absolute value, which is not zero."""
    low, high = X.min(axis=0), X.max(axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    return (high / 2 - low / 2 <= _FAR / 2 * size) & (size > 0)


class CentredDesign(DesignWrapper):
    """Design with some columns of another design moved next to zero; only these columns are copied."""

    def __init__(self, design: Design, centre: Centre) -> None:
        super().__init__(design)
        self.centre = centre
        columns = np.stack([design.column(int(j)).to_dense(design.dtype) for j in centre.places], axis=1)
        self._block = columns - centre.values
        self._at = {int(j): i for i, j in enumerate(centre.places)}

    def matvec(self, x: Array) -> Array:
        rest = np.array(x)
        rest[self.centre.places] = 0
        return self.design.matvec(rest) + dot(self._block, x[self.centre.places])

    def rmatvec(self, r: Array) -> Array:
        return self._replaced(self.design.rmatvec(r), dot(r, self._block))

    def matmat(self, X: Array) -> Array | None:
        rest = np.array(X)
        rest[:, self.centre.places] = 0
        product = self.design.matmat(rest)
        return None if product is None else product + dot(X[:, self.centre.places], self._block.T)

    def rmatmat(self, R: Array) -> Array | None:
        product = self.design.rmatmat(R)
        return None if product is None else self._replaced(product, dot(R, self._block))

    def _replaced(self, entries: Array, moved: Array) -> Array:
        """Return a copy with the entries of the moved columns replaced."""
        entries = np.array(entries)
        entries[..., self.centre.places] = moved
        return entries

    def column(self, j: int) -> Vertex:
        return DenseVertex(self._block[:, self._at[j]]) if j in self._at else self.design.column(j)

    def columns(self, indices: Array) -> Any:
        found = self.design.columns(indices)
        places = [place for place, j in enumerate(indices) if int(j) in self._at]
        if not places:
            return found
        found = found.toarray() if sp.issparse(found) else np.array(found)
        found[:, places] = self._block[:, [self._at[int(indices[place])] for place in places]]
        return found

    def combined(self, indices: Array, values: Array) -> Vertex:
        moved = any(int(j) in self._at for j in indices)
        return super().combined(indices, values) if moved else self.design.combined(indices, values)

    def some_columns(self, r: Array, columns: Any) -> Array | None:
        product = self.design.some_columns(r, columns)
        if product is None:
            return None
        product = np.array(product)
        for place, j in enumerate(columns):
            if int(j) in self._at:
                product[place] = dot(r, self._block[:, self._at[int(j)]])
        return product

    def column_norms(self) -> Array | None:
        norms = self.design.column_norms()
        squares = np.einsum("ij,ij->j", self._block, self._block, dtype=np.float64)
        return None if norms is None else self._replaced(norms, np.sqrt(squares))

    def double(self) -> Design | None:
        doubled = self.design.double()
        return None if doubled is None else CentredDesign(doubled, self.centre)
