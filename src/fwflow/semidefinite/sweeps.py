"""Engine of NumPy and SciPy for programs with a given diagonal: sweeps over colour classes, and Newton steps.

The notation is that of `SparseDiagonalEngine`.

A sweep replaces every row by the best one for given other rows: ``u_i = -g_i / |g_i|``, ``g = G U``. Rows of one colour
class do not depend on each other.

A Newton step solves ``P (S + shift W) V = -P G U`` for a tangent V. Here ``S = G + diag(|g_i|)``, P projects every row
on the tangent space of its sphere, and W is the diagonal of the row sums of \\|G\\|. The certificate proves that
``S + shift W`` is positive definite, so the step descends. Conjugate gradients are preconditioned by the factors that
proved it or, if the factors are too large, by the diagonal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Late
from fwflow.semidefinite.diagonal import Improved, SparseDiagonalEngine
from fwflow.semidefinite.eigenvalues import Shifted, smallest_eigenvalue
from fwflow.semidefinite.operators import SparseOperator
from fwflow.semidefinite.program import DualBound

_EPS = float(np.finfo(np.float64).eps)
# Numbers of sweeps before the first certificate and after a Newton step. On a power grid with 70 000 nodes, 5 sweeps
# instead of 20 double the time to a relative gap of 1e-4.
_FIRST_SWEEPS, _SWEEPS = 50, 20
# The same for matrices with so many colour classes that a sweep takes much longer than a product.
_MANY_CLASSES, _FEW_SWEEPS = 64, 4
# Largest numbers of conjugate gradient steps with factors and with the diagonal, and the reduction of the squared
# residual at which they end. Chosen without tuning, as are the following numbers.
_FACTOR_STEPS, _DIAGONAL_STEPS, _REDUCTION = 15, 60, 1e-3
# Number of columns at the start, and of columns that are added at a time.
_FIRST_RANK, _NEW_COLUMNS = 12, 4
# Singular values of U below this share of the largest one are removed if the value hardly changes.
_UNUSED = 0.03
# Length of the shortest Newton step that is tried.
_SHORTEST = 1e-3
# Number of columns for which equations are solved together; the solver copies them.
_BLOCK = 8
# Lengths of new columns that are tried.
_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01, 0.003, 0.001)
# Accuracy of eigenvalues relative to the gap that is wanted, and relative to their size while they are large.
_SLACK_SHARE, _VALUE_SHARE = 0.1, 0.25


def colour_classes(matrix: sp.csr_array, seed: int = 0) -> list[Array]:
    """Return classes of nodes such that no entry off the diagonal joins two nodes of a class.

    Nodes whose random priority exceeds those of their neighbours choose the first free colour (Jones & Plassmann,
    1993). Nodes with many neighbours come first.
    """
    n = matrix.shape[0]
    entries = matrix.tocoo()
    off = entries.row != entries.col
    rows, cols = entries.row[off], entries.col[off]
    if len(rows) > n * n / 8:  # nearly every node needs a colour of its own
        return [np.array([node]) for node in range(n)]
    degrees = np.bincount(rows, minlength=n)
    priority = np.empty(n, dtype=np.int64)
    priority[np.lexsort((np.random.default_rng(seed).random(n), degrees))] = np.arange(n)
    colour = np.full(n, -1)
    free = np.ones((n, 8), dtype=bool)
    while len(left := np.flatnonzero(colour < 0)):
        highest = np.full(n, -1)
        np.maximum.at(highest, rows, priority[cols])
        chosen = left[priority[left] > highest[left]]
        if not free[chosen].any(axis=1).all():
            free = np.concatenate([free, np.ones_like(free)], axis=1)
        colour[chosen] = np.argmax(free[chosen], axis=1)
        done = np.zeros(n, dtype=bool)
        done[chosen] = True
        free[rows[done[cols]], colour[cols[done[cols]]]] = False
        open_edges = ~(done[rows] | done[cols])
        rows, cols = rows[open_edges], cols[open_edges]
    return [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]


class _Curvature(NamedTuple):
    """Directions of negative curvature, the shift that makes S positive definite, and factors if there are any."""

    vectors: Array
    shift: float
    shifted: Shifted | None


def _row_products(A: Array, B: Array) -> Array:
    return np.asarray(np.einsum("ir,ir->i", A, B))


def _unit_rows(Y: Array) -> Array:
    lengths = np.sqrt(_row_products(Y, Y))
    U = Y / np.where(lengths > 0, lengths, 1.0)[:, None]
    U[lengths == 0, 0] = 1.0
    return U


class SparseEngine(SparseDiagonalEngine):
    """Sweeps and Newton steps for a sparse cost matrix."""

    def __init__(self, matrix: sp.csr_array, b: Array) -> None:
        super().__init__(matrix, b)
        self.classes = [(nodes, sp.csr_array(self.G[nodes])) for nodes in colour_classes(self.G)]
        self.few = len(self.classes) > _MANY_CLASSES
        self._last_value = 0.0

    @property
    def first_rank(self) -> int:
        return min(_FIRST_RANK, self.most_columns)

    def start(self, rank: int, seed: int) -> Array:
        return _unit_rows(np.random.default_rng(seed).standard_normal((self.n, rank)))

    def from_numpy(self, Y: Array) -> Array:
        return _unit_rows(Y)

    def to_numpy(self, Y: Array) -> Array:
        return self.roots[:, None] * Y

    def value(self, Y: Array) -> float:
        return self.rounded_up(self._value(Y))

    def _value(self, U: Array) -> float:
        return float(np.vdot(U, dot(self.G, U)))

    def improve(self, Y: Array, memory: _Curvature | None, goal: float, late: Late) -> Improved:
        if memory is None:
            U = self._swept(Y, _FEW_SWEEPS if self.few else _FIRST_SWEEPS, late)
        else:
            U = self._swept(self._newton(Y, memory, late), _FEW_SWEEPS if self.few else _SWEEPS, late)
        return Improved(U, self.value(U), None, True)

    def _swept(self, U: Array, count: int, late: Late) -> Array:
        U = U.copy()
        for _ in range(count):
            for nodes, rows in self.classes:
                g = np.asarray(dot(rows, U))
                lengths = np.sqrt(_row_products(g, g))
                moved = lengths > 0
                if moved.all():
                    U[nodes] = g / -lengths[:, None]
                else:
                    U[nodes[moved]] = g[moved] / -lengths[moved, None]
            if late():
                break
        return U

    def _newton(self, U: Array, curvature: _Curvature, late: Late) -> Array:
        """Return U after a Newton step, which is halved until the value decreases."""
        V, value, length = self._direction(U, curvature, late), self._value(U), 1.0
        while length > _SHORTEST:
            moved = _unit_rows(U + length * V)
            if self._value(moved) < value:
                return moved
            length /= 2
        return U

    def _direction(self, U: Array, curvature: _Curvature, late: Late) -> Array:
        """Return a solution of the equations of the Newton step by conjugate gradients."""
        g = np.asarray(dot(self.G, U))
        lengths = np.sqrt(_row_products(g, g))
        S = sp.csr_array(self.G + sp.diags_array(lengths + curvature.shift * self.degrees))

        # Large graphs are limited by memory, so the arrays are reused.
        work, shifted = np.empty_like(U), curvature.shifted
        inverse = np.divide(1.0, S.diagonal(), out=np.zeros(self.n), where=self.degrees > 0)[:, None]
        scale = self.scale[:, None]

        def project(V: Array) -> Array:
            np.multiply(U, _row_products(V, U)[:, None], out=work)
            V -= work
            return V

        def preconditioned(R: Array) -> Array:
            if shifted is None:
                return project(inverse * R)
            Z = np.empty_like(R)
            for first in range(0, R.shape[1], _BLOCK):
                block = slice(first, first + _BLOCK)
                Z[:, block] = scale * shifted.solve(scale * R[:, block])
            return project(Z)

        R = project(np.negative(g, out=g))
        Z = preconditioned(R)
        V, P, size = np.zeros_like(U), Z.copy(), float(np.vdot(R, Z))
        first = size
        for _ in range(_DIAGONAL_STEPS if shifted is None else _FACTOR_STEPS):
            Z = project(np.asarray(dot(S, P)))
            curved = float(np.vdot(P, Z))
            if curved <= 0 or late():
                break
            V += np.multiply(P, size / curved, out=work)
            R -= np.multiply(Z, size / curved, out=work)
            Z = preconditioned(R)
            before, size = size, float(np.vdot(R, Z))
            if size <= _REDUCTION * first:
                break
            P *= size / before
            P += Z
        return V

    def certify(self, Y: Array, goal: float, late: Late) -> DualBound:
        g = np.asarray(dot(self.G, Y))
        # These multipliers are those after one more sweep. They make S larger than those of Y, at little cost.
        y = -np.sqrt(_row_products(g, g))
        y[self.degrees == 0] = 0.0
        D = sp.diags_array(self.scale)
        scaled = SparseOperator(sp.csr_array(dot(dot(D, self.G - sp.diags_array(y)), D)))
        slack = _SLACK_SHARE * goal / self.total if self.total else 1.0
        least = smallest_eigenvalue(
            scaled, slack, share=_VALUE_SHARE, count=_NEW_COLUMNS, guess=self._last_value, late=late
        )
        self._last_value = least.value
        # The second term is for the rounding of the scaled matrix.
        shift = max(0.0, -least.bound) + 8 * _EPS
        negative = _row_products(least.vectors.T, scaled.apply(least.vectors).T) < -slack
        found = _Curvature(least.vectors[:, negative] * self.scale[:, None], shift, least.shifted)
        return self.dual_bound(y, shift, found)

    def widen(self, Y: Array, vectors: _Curvature, goal: float) -> tuple[Array, _Curvature]:
        value = self._value(Y)
        squares, rotation = np.linalg.eigh(dot(Y.T, Y))  # squares of the singular values
        used = squares > _UNUSED**2 * squares[-1]
        if not used.all():
            fewer = _unit_rows(np.asarray(dot(Y, rotation[:, used])))
            if self._value(fewer) <= value + _SLACK_SHARE * goal:
                Y = fewer
        if vectors.vectors.shape[1]:
            added, narrow = vectors.vectors / np.abs(vectors.vectors).max(axis=0), Y
            for length in _LENGTHS:
                wider = _unit_rows(np.column_stack([narrow, length * added]))
                if (lower := self._value(wider)) < value:
                    Y, value = wider, lower
                elif Y is not narrow:
                    break
        return Y, vectors
