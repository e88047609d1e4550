"""Dense design matrix, used in its memory order and never copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._validation import Array, finite_array
from fwflow.designs.base import DataCost, Design
from fwflow.designs.centred import centred
from fwflow.points.vertices import DenseVertex


class DenseDesign(Design):
    """NumPy matrix. Integers, booleans and extended precision are converted once to float64.

    Other input is not copied: BLAS computes ``A.T @ r`` at memory speed in either memory order.
    """

    def __init__(self, A: ArrayLike, name: str = "A") -> None:
        self.A: Array = finite_array(A, name, ndim=2)
        self.shape: tuple[int, int] = self.A.shape
        self.dtype: np.dtype[Any] = self.A.dtype
        # The shares of columns are measured: in a matrix stored by rows, every entry of a column takes a cache line.
        self.data_cost = DataCost(self.A.size, column_share=0.2 if self.A.flags.f_contiguous else 0.02)

    def matvec(self, x: Array) -> Array:
        return dot(self.A, x)

    def rmatvec(self, r: Array) -> Array:
        return dot(r, self.A)

    def fingerprint(self) -> str:
        return fingerprint(self, self.A)

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

    def centred(self) -> Design:
        return centred(self, self.A)

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
