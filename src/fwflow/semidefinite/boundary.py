"""Boundary point method: alternating directions on the dual program, with dense matrices of moderate order.

Each iteration solves a linear system for the multipliers and splits one symmetric matrix into its positive part (the
dual slack S) and its negative part (the matrix X). So X and S are positive semidefinite and ``<X, S> = 0`` in every
iteration (Povh, Rendl & Wiegele, 2006; Wen, Goldfarb & Yin, 2010).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from fwflow._numerics import dot, norm
from fwflow._validation import Array
from fwflow.methods.base import Iterate, Proposal, Stepper
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.operators import ConstraintMap
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import Factor

# Step of X in units of the plain method. The method converges up to (1 + sqrt(5)) / 2 (Wen, Goldfarb & Yin, 2010).
_RELAXATION = 1.6
# Ratio of primal and dual residuals beyond which the penalty is changed, and the factor of the change. Untuned.
_UNBALANCED, _CHANGE = 1.5, 1.4
# Number of iterations before the first review of the penalty. Later reviews are a quarter of the iterations apart:
# frequent changes prevented convergence for theta of cycles and trees.
_PERIOD = 10
# Weight of the proximal term of the multipliers, for constraints of norm 1. Without it, dependent constraints would
# make the linear system singular.
_PROXIMAL = 1e-8
# Largest number of entries of all constraint matrices together that are computed from products if they are not sparse.
_MOST_ENTRIES = 20_000_000


class Split(NamedTuple):
    """Positive part of a symmetric matrix, and a factor F of its negative part F F^T."""

    positive: Array
    negative: Array
    factor: Array


class BoundaryState(NamedTuple):
    """Iterate of the method.

    It has X and the slack variables s, the dual slack S and z of both, the multipliers y, the penalty, a factor of the
    last negative part, the number of iterations, and the iteration at which the penalty is reviewed.
    """

    X: Array
    s: Array
    S: Array
    z: Array
    y: Array
    penalty: float
    factor: Array
    k: int
    due: int


@dataclass(frozen=True)
class DenseProgram:
    """Data of a semidefinite program in the units of the method.

    Constraint matrices and C have norm 1, and X is divided by `size`, an estimate of its norm. Inequalities have a
    slack variable, with the coefficients `slack`. If `bounded`, the last row is ``tr X <= R``, not one of the problem.
    """

    C: Array
    rows: Array
    cols: Array
    M: sp.csr_array
    b: Array
    slack: Array
    row_norms: Array
    cost: float
    size: float
    blocks: list[Array]
    singles: Array
    solve: Callable[[Array], Array]
    bounded: bool

    @staticmethod
    def of(problem: Problem, bounded: bool) -> DenseProgram | None:
        """Return the data of a problem, or None if its constraint matrices are too large.

        `bounded` states that the bound on the trace must be enforced.
        """
        found = explicit_rows(problem.map)
        if found is None:
            return None
        (rows, cols, M), n = found, problem.n
        signed, b = problem.inequalities, problem.b
        if bounded:
            every = np.arange(n)
            rows, cols = np.concatenate([rows, every]), np.concatenate([cols, every])
            M = sp.csr_array(sp.block_diag([M, np.ones((1, n))]))
            signed, b = np.append(signed, True), np.append(b, problem.trace)
        vectors = sp.csr_array(dot(M, sp.diags_array(np.where(rows == cols, 1.0, math.sqrt(0.5)))))
        if bounded:  # a position may occur twice, in a constraint and in the trace
            vectors = _merged(vectors, rows * n + cols)
        row_norms = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).reshape(-1))
        row_norms[row_norms == 0] = 1.0
        units = sp.diags_array(1 / row_norms)
        M, vectors = sp.csr_array(dot(units, M)), sp.csr_array(dot(units, vectors))
        slack, b = signed.astype(np.float64), b / row_norms
        gram = sp.csc_array(dot(vectors, vectors.T) + sp.diags_array(slack**2 + _PROXIMAL))
        solve = _solver(gram)
        least = solve(b)  # the multipliers of the solution of A(X) + s = b with the smallest norm
        size = float(norm(np.append(dot(vectors.T, least), slack * least))) or 1.0
        C = np.asarray(problem.C.apply(np.eye(n)))
        cost = float(norm(C)) or 1.0
        links = sp.csr_array(sp.coo_array((np.ones(len(rows)), (rows, cols)), (n, n))) + sp.csr_array(C != 0)
        blocks, singles = _blocks(links)
        C = (C + C.T) / (2 * cost)
        units = b / size, slack, row_norms, cost, size
        return DenseProgram(C, rows, cols, M, *units, blocks, singles, solve, bounded)

    def image(self, X: Array) -> Array:
        """Return the vector of all ``<A_i, X>``, without slack variables."""
        return np.asarray(dot(self.M, X[self.rows, self.cols]))

    def reduced(self, y: Array) -> Array:
        """Return ``C - A*(y)``."""
        values = np.asarray(dot(self.M.T, y))
        halves = np.where(self.rows == self.cols, values, values / 2)
        n = len(self.C)
        adjoint = np.bincount(self.rows * n + self.cols, halves, n * n).reshape(n, n)
        adjoint = np.triu(adjoint) + np.triu(adjoint, 1).T
        return self.C - adjoint

    def split(self, V: Array) -> Split:
        """Return the positive and the negative part of V, block by block."""
        if len(self.blocks) == 1 and not len(self.singles):
            return _split(V)
        positive, negative, factors = np.zeros_like(V), np.zeros_like(V), []
        values = V[self.singles, self.singles]
        positive[self.singles, self.singles] = np.maximum(values, 0)
        negative[self.singles, self.singles] = np.maximum(-values, 0)
        below = np.flatnonzero(values < 0)
        columns = np.zeros((len(V), len(below)))
        columns[self.singles[below], np.arange(len(below))] = np.sqrt(-values[below])
        factors.append(columns)
        for block in self.blocks:
            places = np.ix_(block, block)
            part = _split(V[places])
            positive[places], negative[places] = part.positive, part.negative
            columns = np.zeros((len(V), part.factor.shape[1]))
            columns[block] = part.factor
            factors.append(columns)
        return Split(positive, negative, np.concatenate(factors, axis=1))

    def start(self) -> BoundaryState:
        """Return the first state: X = I of about the right norm, and y = 0."""
        n, m = len(self.C), len(self.b)
        X = np.eye(n) / math.sqrt(n)
        return BoundaryState(
            X, np.zeros(m), np.zeros((n, n)), np.zeros(m), np.zeros(m), 1.0, np.zeros((n, 0)), 0, _PERIOD
        )

    def advance(self, state: BoundaryState) -> BoundaryState:
        """Return the state after one iteration."""
        X, s, S, z, y, mu, _, k, due = state
        C, slack = self.C, self.slack
        # Multipliers that minimise the augmented Lagrangian for the current S and z:
        # A(A*(y)) + slack^2 y = A(C - S) - slack z + mu (b - A(X) - slack s).
        y = self.solve(
            self.image(C - S - mu * X) + mu * self.b - slack * (z + mu * s) + _PROXIMAL * y,
        )
        # S and z that minimise it for these multipliers; the negative parts give the new X and s.
        V, v = self.reduced(y) - mu * X, -slack * y - mu * s
        parts = self.split(V)
        new_X, new_s, z = parts.negative / mu, np.maximum(-v, 0) / mu, np.maximum(v, 0)
        primal = float(norm(self.image(new_X) + slack * new_s - self.b)) / (1 + float(norm(self.b)))
        dual = mu * float(norm(np.append(new_X - X, new_s - s))) / 2
        if k + 1 == due:
            due += max(_PERIOD, due // 4)
            mu *= _CHANGE if primal > _UNBALANCED * dual else 1 / _CHANGE if dual > _UNBALANCED * primal else 1.0
        X, s = X + _RELAXATION * (new_X - X), s + _RELAXATION * (new_s - s)
        return BoundaryState(X, s, parts.positive, z, y, mu, parts.factor / math.sqrt(state.penalty), k + 1, due)

    def factor(self, state: BoundaryState) -> Array:
        """Return Y of the problem, where X = Y Y^T is the last negative part."""
        return math.sqrt(self.size) * state.factor

    def multipliers(self, state: BoundaryState) -> Array:
        """Return the multipliers of the constraints of the problem."""
        y = np.where(self.slack > 0, np.minimum(state.y, 0), state.y) * self.cost / self.row_norms
        return y[:-1] if self.bounded else y


def explicit_rows(map: ConstraintMap) -> tuple[Array, Array, sp.csr_array] | None:
    """Return the positions and coefficients of `ConstraintMap.sparse_rows`, computed from products if need be.

    None if there would be more than `_MOST_ENTRIES` coefficients.
    """
    found = map.sparse_rows()
    if found is not None or map.m * map.n**2 > _MOST_ENTRIES:
        return found
    rows, cols = np.triu_indices(map.n)
    count = np.where(rows == cols, 1.0, 2.0)
    matrices = [map.adjoint(unit).apply(np.eye(map.n)) for unit in np.eye(map.m)]
    return rows, cols, sp.csr_array([count * (A[rows, cols] + A[cols, rows]) / 2 for A in matrices])


def _merged(vectors: sp.csr_array, places: Array) -> sp.csr_array:
    """Return the matrix with the columns of equal places added up."""
    distinct, which = np.unique(places, return_inverse=True)
    every = np.arange(len(places))
    return sp.csr_array(dot(vectors, sp.csr_array((np.ones(len(every)), (every, which)), (len(every), len(distinct)))))


def _solver(gram: sp.csc_array) -> Callable[[Array], Array]:
    diagonal = gram.diagonal()
    if gram.nnz == np.count_nonzero(diagonal):
        return lambda rhs: rhs / diagonal
    return splu(gram, permc_spec="MMD_AT_PLUS_A", options={"SymmetricMode": True}).solve


def _blocks(links: sp.csr_array) -> tuple[list[Array], Array]:
    """Return the connected components of order 2 and more, and the nodes that are connected to no other."""
    count, labels = connected_components(links, directed=False)
    order = np.argsort(labels, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(labels, minlength=count))[:-1])
    singles = [part for part in parts if len(part) == 1]
    return [part for part in parts if len(part) > 1], np.concatenate([np.zeros(0, np.intp), *singles])


def _split(V: Array) -> Split:
    w, U = scipy.linalg.eigh(V, driver="evd", check_finite=False)
    below = w < 0
    factor = U[:, below] * np.sqrt(-w[below])
    if 2 * below.sum() <= len(w):
        negative = np.asarray(dot(factor, factor.T))
        return Split(V + negative, negative, factor)
    above = U[:, ~below] * np.sqrt(w[~below])
    positive = np.asarray(dot(above, above.T))
    return Split(positive, positive - V, factor)


@dataclass(frozen=True)
class BoundaryPoint(Stepper):
    """Boundary point method (Povh, Rendl & Wiegele, 2006), for matrices of moderate order.

    A step consists of several iterations, each with an eigenvalue decomposition.
    """

    data: DenseProgram = field(repr=False)
    #: Whether the program repairs all points, so that they are feasible.
    repaired: bool = False
    #: Number of iterations per step: a certificate costs as much as one.
    iterations: int = 10

    @property
    def comparable(self) -> bool:
        return self.repaired

    def start(self, program: GeneralProgram) -> tuple[Factor, BoundaryState]:
        """Return the first point and the memory."""
        state = self.data.advance(self.data.start())
        return program.point(self.data.factor(state), self.data.multipliers(state)), state

    def step(self, problem: GeneralProgram, iterate: Iterate, memory: BoundaryState) -> Proposal:
        if problem.proof is not None:
            return Proposal(iterate.point, math.nan, memory, finished=True)
        for _ in problem.in_time(range(self.iterations)):
            memory = self.data.advance(memory)
        point = problem.point(self.data.factor(memory), self.data.multipliers(memory))
        return Proposal(point, memory.penalty, memory)
