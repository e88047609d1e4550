"""Symmetric matrices and linear maps of a semidefinite program, applied to factors Y of X = Y Y^T.

No n x n array is ever formed. A matrix is a `SymmetricOperator`, which multiplies blocks of vectors. The map from X to
the vector of all ``<A_i, X>`` is a `ConstraintMap`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, norm
from fwflow._threads import with_all_threads
from fwflow._validation import Array, InputError, describe, finite_array

# Largest difference between an entry and its mirror image in a matrix that counts as symmetric, relative to the
# largest entry: a few roundings.
_ASYMMETRY = 1e-12


class SymmetricOperator(ABC):
    """Symmetric matrix of order `n`, known by its products."""

    n: int

    @abstractmethod
    def apply(self, V: Array) -> Array:
        """Return the product with a vector of n entries, or with the columns of an array with n rows."""

    def inner(self, Y: Array) -> float:
        """Return ``<C, Y Y^T>``."""
        return float(np.vdot(Y, self.apply(Y)))

    def sparse(self) -> sp.csr_array | None:
        """Return the matrix as a sparse array, or None if it is not available in that form."""
        return None

    def norm_bound(self) -> float | None:
        """Return an upper bound on the spectral norm, or None if it is not known."""
        return None


class SparseOperator(SymmetricOperator):
    """Symmetric sparse matrix."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self.matrix, self.n = matrix, matrix.shape[0]

    def apply(self, V: Array) -> Array:
        return np.asarray(dot(self.matrix, V))

    def sparse(self) -> sp.csr_array:
        return self.matrix

    def norm_bound(self) -> float:
        # The largest row sum of absolute values is at least the spectral norm.
        return float(abs(self.matrix).sum(axis=1).max()) if self.n else 0.0


class ScaledOperator(SymmetricOperator):
    """Matrix ``D S D`` with a diagonal matrix D."""

    def __init__(self, S: SymmetricOperator, scale: Array) -> None:
        self.S, self.scale, self.n = S, scale, S.n

    def apply(self, V: Array) -> Array:
        return (self.scale * self.S.apply((self.scale * V.T).T).T).T

    def sparse(self) -> sp.csr_array | None:
        matrix = self.S.sparse()
        if matrix is None:
            return None
        D = sp.diags_array(self.scale)
        return sp.csr_array(dot(dot(D, matrix), D))

    def norm_bound(self) -> float | None:
        matrix = self.sparse()
        if matrix is not None:
            return SparseOperator(matrix).norm_bound()
        inner = self.S.norm_bound()
        return None if inner is None else inner * float(np.abs(self.scale).max(initial=0.0)) ** 2


class FactoredOperator(SymmetricOperator):
    """Low-rank matrix ``U diag(weights) U^T``."""

    def __init__(self, U: Array, weights: Array) -> None:
        self.U, self.weights, self.n = U, weights, len(U)

    def apply(self, V: Array) -> Array:
        inner = dot(self.U.T, V)
        return np.asarray(dot(self.U, (self.weights * inner.T).T))

    def norm_bound(self) -> float:
        return float(np.abs(self.weights).max(initial=0.0)) * float(norm(self.U)) ** 2


class CallableOperator(SymmetricOperator):
    """Matrix that is given by a function ``v -> C @ v`` of a vector."""

    def __init__(self, function: Callable[[Array], Any], n: int) -> None:
        self.function, self.n = function, n

    def apply(self, V: Array) -> Array:
        if V.ndim == 1:
            return np.asarray(with_all_threads(self.function, V), dtype=np.float64).reshape(self.n)
        return np.column_stack([self.apply(v) for v in V.T]) if V.shape[1] else np.zeros_like(V)


class SumOperator(SymmetricOperator):
    """Weighted sum of operators of the same order; sparse terms are added up once."""

    def __init__(self, terms: Sequence[tuple[float, SymmetricOperator]]) -> None:
        self.n = terms[0][1].n
        matrices = [w * matrix for w, term in terms if (matrix := term.sparse()) is not None]
        self.terms = [(w, term) for w, term in terms if term.sparse() is None]
        if matrices:
            total = matrices[0]
            for matrix in matrices[1:]:
                total = total + matrix
            self.terms.insert(0, (1.0, SparseOperator(sp.csr_array(total))))

    def apply(self, V: Array) -> Array:
        out = np.zeros_like(V, dtype=np.float64)
        for weight, term in self.terms:
            out += weight * term.apply(V)
        return out

    def sparse(self) -> sp.csr_array | None:
        return self.terms[0][1].sparse() if len(self.terms) == 1 else None

    def norm_bound(self) -> float | None:
        bounds = [(w, term.norm_bound()) for w, term in self.terms]
        return None if any(b is None for _, b in bounds) else math.fsum(abs(w) * b for w, b in bounds if b is not None)


class ConstraintMap(ABC):
    """Linear map from X to the vector of all ``<A_i, X>``, for m symmetric matrices of order n."""

    n: int
    m: int

    @abstractmethod
    def cross(self, Y: Array, D: Array) -> Array:
        """Return the vector of all ``<A_i, (Y D^T + D Y^T) / 2>``."""

    def image(self, Y: Array) -> Array:
        """Return the vector of all ``<A_i, Y Y^T>``."""
        return self.cross(Y, Y)

    @abstractmethod
    def adjoint(self, y: Array) -> SymmetricOperator:
        """Return the matrix ``sum_i y_i A_i``."""

    def sparse_rows(self) -> tuple[Array, Array, sp.csr_array] | None:
        """Return positions (rows, cols) with rows <= cols, and M with ``<A_i, X> = (M @ X[rows, cols])_i``.

        None if some A_i is not sparse.
        """
        return None

    @property
    def is_diagonal(self) -> bool:
        """Whether the map is known to be X -> diag(X), in this order."""
        return False


class SparseMap(ConstraintMap):
    """Sparse matrices, stored together: ``<A_i, X> = (M @ X[rows, cols])_i`` with rows <= cols.

    The positions are distinct. An entry of A_i off the diagonal counts twice in M, once for its mirror image.
    """

    def __init__(self, n: int, rows: Array, cols: Array, M: sp.csr_array) -> None:
        self.n, self.m = n, M.shape[0]
        self.rows, self.cols, self.M = rows, cols, M
        self._transpose = sp.csr_array(M.T)

    def cross(self, Y: Array, D: Array) -> Array:
        if Y is D:
            entries = np.einsum("er,er->e", Y[self.rows], Y[self.cols])
        else:
            entries = np.einsum("er,er->e", Y[self.rows], D[self.cols])
            entries += np.einsum("er,er->e", D[self.rows], Y[self.cols])
            entries /= 2
        return np.asarray(dot(self.M, entries))

    @cached_property
    def _pattern(self) -> tuple[sp.csr_array, Array, Array]:
        """Matrix with the pattern of all A_i together, and the position and factor of each of its entries."""
        off = np.flatnonzero(self.rows != self.cols)
        rows, cols = np.concatenate([self.rows, self.cols[off]]), np.concatenate([self.cols, self.rows[off]])
        places = np.concatenate([np.arange(len(self.rows)), off])
        # Zeros would be dropped, so entries hold their number, counted from 1.
        numbers = sp.csr_array(sp.coo_array((np.arange(1, len(rows) + 1), (rows, cols)), (self.n, self.n)))
        places = places[numbers.data - 1]
        factors = np.where(self.rows == self.cols, 1.0, 0.5)[places]
        return numbers, places, factors

    def adjoint(self, y: Array) -> SparseOperator:
        pattern, places, factors = self._pattern
        data = np.asarray(dot(self._transpose, y))[places] * factors
        return SparseOperator(sp.csr_array((data, pattern.indices, pattern.indptr), pattern.shape))

    def sparse_rows(self) -> tuple[Array, Array, sp.csr_array]:
        return self.rows, self.cols, self.M

    @cached_property
    def is_diagonal(self) -> bool:
        identity = sp.eye_array(self.n, format="csr")
        same = self.m == self.n and len(self.rows) == self.n and np.array_equal(self.rows, self.cols)
        return bool(same and np.array_equal(self.rows, np.arange(self.n)) and (identity != self.M).nnz == 0)


class FactoredMap(ConstraintMap):
    """Low-rank matrices ``A_i = U_i diag(weights_i) U_i^T``, with the factors of all of them side by side."""

    def __init__(self, n: int, U: Array, weights: Array, owner: Array, m: int) -> None:
        self.n, self.m, self.U = n, m, U
        self._sum = sp.csr_array((weights, (owner, np.arange(len(owner)))), (m, len(owner)))

    def cross(self, Y: Array, D: Array) -> Array:
        left = dot(self.U.T, Y)
        right = left if Y is D else dot(self.U.T, D)
        return np.asarray(dot(self._sum, np.einsum("ur,ur->u", left, right)))

    def adjoint(self, y: Array) -> FactoredOperator:
        return FactoredOperator(self.U, np.asarray(dot(self._sum.T, y)))


class CallableMap(ConstraintMap):
    """Map that is given by two functions: ``v -> A(v v^T)`` and ``(y, v) -> A*(y) @ v``."""

    def __init__(self, forward: Callable[[Array], Any], adjoint: Callable[[Array, Array], Any], n: int, m: int) -> None:
        self.forward, self.backward, self.n, self.m = forward, adjoint, n, m

    def image(self, Y: Array) -> Array:
        total = np.zeros(self.m)
        for v in Y.T:
            total += np.asarray(self.forward(v), dtype=np.float64).reshape(self.m)
        return total

    def cross(self, Y: Array, D: Array) -> Array:
        if Y is D:
            return self.image(Y)
        return (self.image(Y + D) - self.image(Y - D)) / 4

    def adjoint(self, y: Array) -> CallableOperator:
        return CallableOperator(lambda v: self.backward(y, v), self.n)


class StackedMap(ConstraintMap):
    """Several maps, one after the other: `places` are the numbers of the constraints of each."""

    def __init__(self, parts: Sequence[tuple[Array, ConstraintMap]]) -> None:
        self.parts = list(parts)
        self.n, self.m = self.parts[0][1].n, sum(part.m for _, part in self.parts)

    def cross(self, Y: Array, D: Array) -> Array:
        out = np.empty(self.m)
        for places, part in self.parts:
            out[places] = part.cross(Y, D)
        return out

    def image(self, Y: Array) -> Array:
        out = np.empty(self.m)
        for places, part in self.parts:
            out[places] = part.image(Y)
        return out

    def adjoint(self, y: Array) -> SymmetricOperator:
        return SumOperator([(1.0, part.adjoint(y[places])) for places, part in self.parts])


def as_operator(value: Any, name: str, n: int | None = None) -> SymmetricOperator:
    """Return a matrix as an operator.

    Accepted are a sparse or dense symmetric matrix, a vector (a diagonal matrix), a pair ``(U, weights)`` (the low-rank
    matrix ``U diag(weights) U^T``), and a function ``v -> C @ v`` if the order n is known.
    """
    if isinstance(value, SymmetricOperator):
        found: SymmetricOperator = value
    elif sp.issparse(value):
        found = SparseOperator(symmetric(sp.csr_array(value, dtype=np.float64), name))
    elif isinstance(value, tuple):
        found = _factored(value, name)
    elif callable(value):
        if n is None:
            raise InputError(f"{name} is a function, so the order n of the matrices must be given")
        found = CallableOperator(value, n)
    else:
        array = finite_array(value, name)
        if array.ndim == 1:
            found = SparseOperator(sp.csr_array(sp.diags_array(array.astype(np.float64))))
        elif array.ndim == 2:
            found = SparseOperator(symmetric(sp.csr_array(array.astype(np.float64)), name))
        else:
            raise InputError(f"{name} must be a matrix, a vector (its diagonal), a pair (U, weights) or a function")
    if n is not None and found.n != n:
        raise InputError(f"{name} has order {found.n}; the other matrices have order {n}")
    return found


def _factored(value: tuple[Any, ...], name: str) -> FactoredOperator:
    if len(value) != 2:
        raise InputError(f"{name} must be a pair (U, weights) if it is a tuple; got {describe(value)}")
    U, weights = finite_array(value[0], f"{name}[0]"), finite_array(value[1], f"{name}[1]")
    U, weights = U.reshape(len(U), -1).astype(np.float64), np.atleast_1d(weights).astype(np.float64)
    if weights.shape != (U.shape[1],):
        raise InputError(f"{name} has {U.shape[1]} vectors and weights of shape {weights.shape}; one weight per vector")
    return FactoredOperator(U, weights)


def symmetric(matrix: sp.csr_array, name: str) -> sp.csr_array:
    """Return a sparse matrix that is symmetric up to rounding as an exactly symmetric one without stored zeros."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{name} must be a square matrix; got shape {matrix.shape}")
    if not np.isfinite(matrix.data).all():
        raise InputError(f"{name} must be finite; it has NaN or infinite entries")
    if not matrix.has_canonical_format or not matrix.data.all():
        matrix = matrix.copy()  # the arrays may belong to the caller
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    mirrored = abs(matrix - matrix.T)
    largest = float(np.abs(matrix.data).max(initial=0.0))
    if mirrored.nnz and float(mirrored.max()) > _ASYMMETRY * largest:
        difference = float(mirrored.max())
        raise InputError(f"{name} must be symmetric; entries differ from their mirror image by up to {difference:.3g}")
    if mirrored.nnz:
        matrix = sp.csr_array((matrix + matrix.T) / 2)
        matrix.eliminate_zeros()
    return matrix


def as_map(matrices: Sequence[Any], n: int) -> ConstraintMap:
    """Return the map of a list of matrices, each in a form that `as_operator` accepts except a function."""
    sparse_places, sparse_parts, factored_places, factored_parts = [], [], [], []
    for i, given in enumerate(matrices):
        operator = as_operator(given, f"constraints[{i}]", n)
        if isinstance(operator, FactoredOperator):
            factored_places.append(i)
            factored_parts.append(operator)
        elif (matrix := operator.sparse()) is not None:
            sparse_places.append(i)
            sparse_parts.append(matrix)
        else:
            raise InputError(f"constraints[{i}] is a function; give all constraints as functions, or none")
    parts: list[tuple[Array, ConstraintMap]] = []
    if sparse_parts or not factored_parts:
        parts.append((np.array(sparse_places, dtype=np.intp), _sparse_map(sparse_parts, n)))
    if factored_parts:
        owner = np.repeat(np.arange(len(factored_parts)), [part.U.shape[1] for part in factored_parts])
        U = np.concatenate([part.U for part in factored_parts], axis=1)
        weights = np.concatenate([part.weights for part in factored_parts])
        joined = FactoredMap(n, U, weights, owner, len(factored_parts))
        parts.append((np.array(factored_places, dtype=np.intp), joined))
    return parts[0][1] if len(parts) == 1 else StackedMap(parts)


def _sparse_map(matrices: Sequence[sp.csr_array], n: int) -> SparseMap:
    flat, values, owner = [np.zeros(0, np.int64)], [np.zeros(0)], [np.zeros(0, np.int64)]
    for i, matrix in enumerate(matrices):
        upper = sp.triu(matrix, format="coo")
        rows, cols = upper.row.astype(np.int64), upper.col.astype(np.int64)
        flat.append(rows * n + cols)
        values.append(np.where(rows == cols, upper.data, 2 * upper.data))
        owner.append(np.full(len(rows), i))
    places, inverse = np.unique(np.concatenate(flat), return_inverse=True)
    M = sp.csr_array(
        (np.concatenate(values), (np.concatenate(owner), inverse.reshape(-1))), (len(matrices), len(places))
    )
    return SparseMap(n, places // n, places % n, M)


def diagonal_map(n: int) -> SparseMap:
    """Return the map X -> diag(X)."""
    every = np.arange(n)
    return SparseMap(n, every, every, sp.eye_array(n, format="csr"))


def entries_map(rows: Array, cols: Array, n: int) -> SparseMap:
    """Return the map from X to its entries at distinct positions with rows <= cols."""
    return SparseMap(n, rows, cols, sp.eye_array(len(rows), format="csr"))
