"""Data of a quadratic assignment problem after the fixed pairs and the diagonals are moved into the linear term."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from fwflow._numerics import dot, norm
from fwflow._validation import Array

# Share of nonzero entries up to which products use the sparse format. At 0.1 and n = 1000 a sparse product takes as
# long as a dense one.
_SPARSE = 0.1
# Largest magnitude of a value up to which sums of integers in double precision are exact.
_EXACT = 2.0**53


@dataclass(frozen=True, eq=False)
class Assignment:
    """Quadratic assignment problem with the value ``constant + sum A * B[p][:, p] + sum C[i, p[i]]`` of a permutation.

    The diagonals of A and B are zero. Both matrices are symmetric, or neither is.
    """

    A: Array
    B: Array
    C: Array
    constant: float
    #: Common divisor of all values minus the constant; 0 if it is unknown.
    unit: float

    @classmethod
    def reduced(cls, A: Array, B: Array, C: Array, rows: Array, columns: Array) -> Assignment:
        """Return the problem for the rows and columns that are not in the fixed pairs ``(rows[k], columns[k])``."""
        whole = _whole(A, B, C)
        free_rows, free_columns = (np.setdiff1d(np.arange(len(A)), fixed) for fixed in (rows, columns))
        constant = float((A[np.ix_(rows, rows)] * B[np.ix_(columns, columns)]).sum() + C[rows, columns].sum())
        linear = C[np.ix_(free_rows, free_columns)] + np.outer(A.diagonal()[free_rows], B.diagonal()[free_columns])
        linear += dot(A[np.ix_(free_rows, rows)], B[np.ix_(free_columns, columns)].T)
        linear += dot(A[np.ix_(rows, free_rows)].T, B[np.ix_(columns, free_columns)])
        A, B = A[np.ix_(free_rows, free_rows)], B[np.ix_(free_columns, free_columns)]
        np.fill_diagonal(A, 0.0)
        np.fill_diagonal(B, 0.0)
        return cls(A, B, linear, constant, _unit(A, B, linear) if whole else 0.0)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.A)

    @cached_property
    def symmetric(self) -> bool:
        """Whether both matrices are symmetric."""
        return _symmetric(self.A) and _symmetric(self.B)

    @cached_property
    def symmetrised(self) -> Assignment:
        """An equal problem with two symmetric matrices if one of them is symmetric; else the problem itself.

        The inner product with a symmetric matrix depends only on the symmetric part of the other one.
        """
        if self.symmetric or not (_symmetric(self.A) or _symmetric(self.B)):
            return self
        A, B = ((M + M.T) / 2 for M in (self.A, self.B))
        return Assignment(A, B, self.C, self.constant, self.unit)

    @cached_property
    def scale(self) -> float:
        """Upper bound on the magnitude of a value, without the constant."""
        return float(norm(self.A) * norm(self.B) + np.sqrt(self.n) * norm(self.C))

    def next_value(self, bound: float) -> float:
        """Return the smallest possible value that is not below a bound, if the values are multiples of a number."""
        if not self.unit or bound == -math.inf:
            return bound
        return self.constant + self.unit * math.ceil((bound - self.constant) / self.unit)

    def values(self, p: Array) -> Array:
        """Return the values of permutations, one per row of p."""
        linear = self.C[np.arange(self.n), p].sum(axis=1)
        quadratic = np.array([(self.A * self.B[np.ix_(q, q)]).sum() for q in p])
        return self.constant + quadratic + linear

    @cached_property
    def _sides(self) -> tuple[tuple[Any, Any], ...]:
        """Pairs (L, R) such that the Hessian maps X to the sum of ``L X R``."""
        A, B = (_compressed(M) for M in (self.A, self.B))
        return ((A, B.T),) if self.symmetric else ((A, B.T), (A.T, B))

    def hessian(self, X: Array) -> Array:
        """Return the Hessian of the quadratic part times a matrix."""
        total = sum(dot(dot(left, X), right) for left, right in self._sides)
        return 2 * total if self.symmetric else total

    def hessian_at(self, q: Array) -> Array:
        """Return the Hessian times permutation matrices, given as the rows of q. This needs half of the products."""
        inverse = np.argsort(q, axis=1)
        total = np.zeros((*q.shape, self.n))
        for left, right in self._sides:
            if sparse.issparse(left) or sparse.issparse(right):
                total += np.stack([_dense(dot(left[:, order], right)) for order in inverse])
            else:
                total += dot(left.T[inverse].transpose(0, 2, 1), right)
        return 2 * total if self.symmetric else total


def _whole(A: Array, B: Array, C: Array) -> bool:
    """Return whether all entries are integers, and small enough that sums over all entries are exact."""
    largest = [float(np.abs(M).max(initial=0.0)) for M in (A, B, C)]
    exact = len(A) ** 2 * (largest[0] * largest[1] + largest[2]) < _EXACT
    return exact and all((np.rint(M) == M).all() for M in (A, B, C))


def _unit(A: Array, B: Array, C: Array) -> float:
    """Return a common divisor of all values of integer data; 0 if A, B and C are zero.

    A sum of products of entries of A and B is a multiple of the product of their greatest common divisors. If both
    matrices are symmetric with zero diagonals, every product occurs twice.
    """
    a, b, c = (int(np.gcd.reduce(M.astype(np.int64), axis=None, initial=0)) for M in (A, B, C))
    twice = 2 if _symmetric(A) and _symmetric(B) else 1
    return float(math.gcd(twice * a * b, c))


def _symmetric(M: Array) -> bool:
    return bool((M == M.T).all())


def _compressed(M: Array) -> Any:
    """Return a matrix with few nonzero entries in a sparse format, and any other matrix itself."""
    return sparse.csr_array(M) if len(M) > 64 and np.count_nonzero(M) <= _SPARSE * M.size else M


def _dense(M: Any) -> Array:
    return M.toarray() if sparse.issparse(M) else M
