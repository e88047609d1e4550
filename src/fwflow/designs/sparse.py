"""Sparse design matrix in CSC form."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._validation import Array, float_dtype
from fwflow.designs.base import DataCost, Design
from fwflow.designs.centred import centred
from fwflow.points.vertices import DenseVertex, SparseVertex, Vertex


class SparseDesign(Design):
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
        self.shape: tuple[int, int] = columns.shape
        self.dtype: np.dtype[Any] = columns.dtype
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

    def centred(self) -> Design:
        return centred(self, self.A)

    def double(self) -> Design:
        return self if self.dtype == np.float64 else SparseDesign(self.A.astype(np.float64))

    def fingerprint(self) -> str:
        return fingerprint(self, self.A)

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
