"""Columns far from zero, moved next to zero where a free intercept makes up for it.

A column that is constant has a slope of zero beside an intercept. Computed from the column as it is, that slope is the
rounding of its terms, which is not zero. A column that is moved next to zero has no such rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array

# Columns whose spread is at most this share of their largest modulus are moved. The difference of two numbers so close
# to each other is exact, and columns with a larger spread lose less than two decimal digits.
_FAR = 1 / 64
# Columns whose spread is at most this many units in the last place count as constant. A prediction from such a column
# has a rounding error of the size of what the column explains.
_ULPS = 16


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
        low, high = _range(X)
        size, spread = np.maximum(np.abs(low), np.abs(high)), high / 2 - low / 2
        places = np.flatnonzero((spread <= _FAR / 2 * size) & (size > 0))
        low, high, size = low[places], high[places], size[places]
        # Half of the difference of equal numbers is exactly zero.
        values = low + (high - low) / 2
        return Centre(places, values, high - low <= _ULPS * np.finfo(low.dtype).eps * size)

    def taken_from(self, X: Any) -> Any:
        """Return X with these columns moved. Those that are constant become zero."""
        if not len(self.places):
            return X
        moved = X.copy()
        if not sp.issparse(X):
            moved[:, self.places] -= self.values
            moved[:, self.places[self.constant]] = 0
            return moved
        for j, value, constant in zip(self.places, self.values, self.constant, strict=True):
            own = slice(moved.indptr[j], moved.indptr[j + 1])
            moved.data[own] = 0 if constant else moved.data[own] - value
        return moved

    def product(self, X: Any, coef: Array) -> Array:
        """Return ``taken_from(X) @ coef.T`` without a copy of X; constant columns count with their differences."""
        rest = coef.copy()
        rest[..., self.places] = 0
        near = X[:, self.places]
        near = near.toarray() if sp.issparse(near) else near
        return np.asarray(X @ rest.T + (near - self.values) @ coef[..., self.places].T)


def _range(X: Any) -> tuple[Array, Array]:
    """The least and the largest entry of every column."""
    if not sp.issparse(X):
        return X.min(axis=0), X.max(axis=0)
    return tuple(np.asarray(ends.todense()).reshape(-1) for ends in (X.min(axis=0), X.max(axis=0)))  # type: ignore[return-value]
