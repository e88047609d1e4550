"""Columns far from zero, moved next to zero where a free intercept makes up for it.

A constant column has a slope of zero beside an intercept. Computed from the column as it is, that slope is the rounding
of its terms, which is not zero and which a large set follows far away. A column that is moved has no such rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.designs.base import Design
from fwflow.points.vertices import DenseVertex, Vertex

# Columns whose spread is at most this share of their largest modulus are moved. The difference of two numbers so close
# to each other is exact, and columns with a larger spread lose less than two decimal digits.
_FAR = 1 / 64
# Columns whose spread is at most this many units in the last place count as constant. A prediction from such a column
# has a rounding error of the size of what the column explains.
_ULPS = 16
# Rows that are looked at first: columns with a large spread among them need not be looked at in full.
_FIRST_ROWS = 16


@dataclass(frozen=True, eq=False)
class Centre:
    """Columns that are far from zero, and the constant in the middle of each.

    Attributes
    ----------
    places : (k,) array of int
    values : (k,) array
    constant : (k,) array of bool
        Whether a column varies by rounding only.
    """

    places: Array
    values: Array
    constant: Array

    @staticmethod
    def of(X: Any) -> Centre:
        """Find the columns of an array or a sparse matrix that are far from zero."""
        if sp.issparse(X):  # a column with an implicit zero is not
            places = np.flatnonzero(np.diff(X.tocsc().indptr) == X.shape[0])
            X = X.tocsc()[:, places].toarray()
        else:
            places = np.flatnonzero(_narrow(X[:_FIRST_ROWS]))
            X = X if len(places) == X.shape[1] else X[:, places]
        narrow = _narrow(X)
        low, high = X.min(axis=0)[narrow], X.max(axis=0)[narrow]
        size = np.maximum(np.abs(low), np.abs(high))
        # Half of the difference of equal numbers is exactly zero.
        values = low + (high - low) / 2
        return Centre(places[narrow], values, high - low <= _ULPS * np.finfo(low.dtype).eps * size)

    def moved(self, columns: Array) -> Array:
        """Return copies of these columns, next to zero. The differences are exact."""
        return columns - self.values

    def taken_from(self, X: Any) -> Any:
        """Return an array or a CSC matrix with these columns moved. Those that are constant become zero."""
        if not len(self.places):
            return X
        X = X.copy()
        if not sp.issparse(X):
            X[:, self.places] = self.moved(X[:, self.places])
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
    """Whether the spread of each column is small beside its entries, which are not all zero."""
    low, high = X.min(axis=0), X.max(axis=0)
    size = np.maximum(np.abs(low), np.abs(high))
    return (high / 2 - low / 2 <= _FAR / 2 * size) & (size > 0)


class CentredDesign(Design):
    """Another design with some of its columns moved next to zero; only those are copied."""

    def __init__(self, design: Design, centre: Centre) -> None:
        self.design, self.centre = design, centre
        self.shape, self.dtype = design.shape, design.dtype
        self.pass_cost, self.far, self.cheap_share = design.pass_cost, design.far, design.cheap_share
        columns = np.stack([design.column(int(j)).to_dense(design.dtype) for j in centre.places], axis=1)
        self._block = centre.moved(columns)
        self._at = {int(j): i for i, j in enumerate(centre.places)}

    @property
    def trusted(self) -> bool:
        return self.design.trusted

    def fingerprint(self) -> str | None:
        return self.design.fingerprint()

    def matvec(self, x: Array) -> Array:
        rest = np.array(x)
        rest[self.centre.places] = 0
        return self.design.matvec(rest) + dot(self._block, x[self.centre.places])

    def rmatvec(self, r: Array) -> Array:
        product = np.array(self.design.rmatvec(r))
        product[self.centre.places] = dot(r, self._block)
        return product

    def rmatmat(self, R: Array) -> Array | None:
        product = self.design.rmatmat(R)
        if product is None:
            return None
        product = np.array(product)
        product[:, self.centre.places] = dot(R, self._block)
        return product

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
        if norms is None:
            return None
        norms = np.array(norms)
        norms[self.centre.places] = np.sqrt(np.einsum("ij,ij->j", self._block, self._block, dtype=np.float64))
        return norms

    def double(self) -> Design | None:
        doubled = self.design.double()
        return None if doubled is None else CentredDesign(doubled, self.centre)


def centred(design: Design, A: Any) -> Design:
    """Return a design with the columns of its matrix A that are far from zero moved next to zero."""
    centre = Centre.of(A)
    return CentredDesign(design, centre) if len(centre.places) else design
