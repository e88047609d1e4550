"""Columns far from zero, moved next to zero in models with an intercept.

With an intercept, the derivative along a constant column is zero. Computed from the column as it is, it is the rounding
error of large terms instead, and a large set follows this error far away. A moved column has no such error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.designs.base import Design, DesignWrapper
from fwflow.points.vertices import DenseVertex, Vertex

# Columns whose spread is at most this share of their largest modulus are moved. The difference of two numbers this
# close to each other is exact, and columns with a larger spread lose less than two decimal digits.
_FAR = 1 / 64
# Columns whose spread is at most this many units in the last place count as constant: the rounding error of a
# prediction from such a column is as large as the variation that it explains.
_ULPS = 16
# Number of rows that are examined first. Columns with a large spread among them need no full examination.
_FIRST_ROWS = 16


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
    """Return for each column whether its spread is small relative to its largest modulus, which is not zero."""
    low, high = X.min(axis=0), X.max(axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    return (high / 2 - low / 2 <= _FAR / 2 * size) & (size > 0)


class CentredDesign(DesignWrapper):
    """Design with some of the columns of another one moved next to zero; only these columns are copied."""

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
