"""Engine of NumPy and SciPy for programs with a given diagonal: sweeps over colour classes.

With unit rows u_i and the cost matrix G = D C D, D = diag(sqrt(b)), without its diagonal, the best row for given other
rows is ``u_i = -g_i / |g_i|`` with ``g_i = sum_j G_ij u_j``. Rows of one colour class do not depend on each other.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Late
from fwflow.semidefinite.diagonal import DiagonalEngine, Improved
from fwflow.semidefinite.eigenvalues import smallest_eigenvalue
from fwflow.semidefinite.operators import SparseOperator, SymmetricOperator
from fwflow.semidefinite.program import Certificate

_EPS = float(np.finfo(np.float64).eps)
# Number of sweeps in one call of `improve`. Chosen without tuning.
_SWEEPS = 20


def colour_classes(matrix: sp.csr_array, seed: int = 0) -> list[Array]:
    """Return classes of nodes such that no entry off the diagonal joins two nodes of a class.

    Nodes whose random priority exceeds those of their neighbours choose the first free colour (Jones & Plassmann,
    1993). Nodes with many neighbours come first.
    """
    n = matrix.shape[0]
    entries = matrix.tocoo()
    off = entries.row != entries.col
    rows, cols = entries.row[off], entries.col[off]
    degrees = np.bincount(rows, minlength=n)
    priority = np.empty(n, dtype=np.int64)
    priority[np.lexsort((np.random.default_rng(seed).random(n), degrees))] = np.arange(n)
    colour = np.full(n, -1)
    free = np.ones((n, int(degrees.max(initial=0)) + 1 if n else 1), dtype=bool)
    while len(left := np.flatnonzero(colour < 0)):
        highest = np.full(n, -1)
        np.maximum.at(highest, rows, priority[cols])
        chosen = left[priority[left] > highest[left]]
        colour[chosen] = np.argmax(free[chosen], axis=1)
        done = np.zeros(n, dtype=bool)
        done[chosen] = True
        free[rows[done[cols]], colour[cols[done[cols]]]] = False
        open_edges = ~(done[rows] | done[cols])
        rows, cols = rows[open_edges], cols[open_edges]
    return [np.flatnonzero(colour == c) for c in range(int(colour.max(initial=-1)) + 1)]


class SparseEngine(DiagonalEngine):
    """Sweeps for a sparse cost matrix."""

    def __init__(self, C: SymmetricOperator, b: Array) -> None:
        matrix = C.sparse()
        assert matrix is not None
        self.n, self.roots = len(b), np.sqrt(b)
        D = sp.diags_array(self.roots)
        scaled = sp.csr_array(D @ matrix @ D)
        diagonal = scaled.diagonal()
        self.constant = math.fsum(diagonal)
        self.G = sp.csr_array(scaled - sp.diags_array(diagonal))
        self.G.eliminate_zeros()
        self.diagonal = diagonal
        self.degrees = np.asarray(abs(self.G).sum(axis=1)).ravel()
        self.classes = [(nodes, sp.csr_array(self.G[nodes])) for nodes in colour_classes(self.G)]

    @property
    def first_rank(self) -> int:
        """Number of columns at the start."""
        return max(1, min(self.n, 16))

    def start(self, rank: int, seed: int) -> Array:
        return self.from_numpy(np.random.default_rng(seed).standard_normal((self.n, rank)))

    def from_numpy(self, Y: Array) -> Array:
        lengths = np.sqrt(np.einsum("ir,ir->i", Y, Y))
        U = Y / np.where(lengths > 0, lengths, 1.0)[:, None]
        U[lengths == 0, 0] = 1.0
        return U

    def to_numpy(self, Y: Array) -> Array:
        return self.roots[:, None] * Y

    def value(self, Y: Array) -> float:
        return self.constant + float(np.vdot(Y, dot(self.G, Y)))

    def trivial(self) -> Certificate:
        slack = 4 * self.n * _EPS * math.fsum(self.degrees)
        return Certificate(
            self.constant - math.fsum(self.degrees) - slack, (self.diagonal - self.degrees) / self.roots**2
        )

    def improve(self, Y: Array, memory: Any, goal: float, late: Late) -> Improved:
        U = Y.copy()
        for _ in range(_SWEEPS):
            for nodes, rows in self.classes:
                g = np.asarray(dot(rows, U))
                lengths = np.sqrt(np.einsum("ir,ir->i", g, g))
                moved = lengths > 0
                U[nodes[moved]] = -g[moved] / lengths[moved, None]
            if late():
                break
        return Improved(U, self.value(U), None, True)

    def certify(self, Y: Array, goal: float, late: Late) -> Certificate:
        y = np.einsum("ir,ir->i", dot(self.G, Y), Y)
        scale = np.where(self.degrees > 0, 1 / np.sqrt(np.where(self.degrees > 0, self.degrees, 1.0)), 0.0)
        y[self.degrees == 0] = 0.0
        total = math.fsum(self.degrees)
        S = sp.csr_array(self.G - sp.diags_array(y))
        scaled = SparseOperator(sp.csr_array(sp.diags_array(scale) @ S @ sp.diags_array(scale)))
        slack = 0.1 * goal / total if total else 1.0
        least = smallest_eigenvalue(scaled, slack, count=2, late=late)
        shift = max(0.0, -least.bound) + 8 * _EPS
        bound = self.constant + math.fsum(y) - shift * total - 4 * _EPS * math.fsum(np.abs(y))
        vectors = least.vectors * scale[:, None] if least.value < -slack else None
        return Certificate(bound, (self.diagonal + y - shift * self.degrees) / self.roots**2, vectors)

    def widen(self, Y: Array, vectors: Array) -> Array:
        left, sizes, _ = np.linalg.svd(Y, full_matrices=False)
        kept = sizes > 1e-3 * sizes[0]
        Y = left[:, kept] * sizes[kept]
        added = vectors / np.abs(vectors).max(axis=0) * 0.1
        return self.from_numpy(np.column_stack([Y, added]))
