"""Semidefinite programs with a given diagonal, diag(X) = b > 0: the interface of engines, and their runs.

Maximum cuts have this form. Every factor Y with rows of the lengths sqrt(b_i) is feasible, and the multipliers follow
from Y. An engine improves Y and proves bounds on one kind of arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, norm
from fwflow._validation import Array
from fwflow.methods.base import Iterate, Proposal, Stepper
from fwflow.methods.problem import Evaluation, Late
from fwflow.points.point import Point
from fwflow.run.stopping import Progress
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import DualBound, Factor, LowRankProgram

_EPS = float(np.finfo(np.float64).eps)
# Gap that counts as zero, relative to the sum of the absolute entries. Allowances for rounding reach a tenth of it.
_RESOLUTION = 1e-11
# Number of certificates in a row without a clearly smaller gap, after which a run ends. Chosen without tuning.
_MAX_IDLE = 20


class _Memory(NamedTuple):
    """Memory of the engine, and the progress of the gap."""

    engine: Any = None
    progress: Progress = Progress()


class Improved(NamedTuple):
    """Factor after some work of an engine."""

    Y: Any
    value: float
    #: Memory of the engine for the next call.
    memory: Any
    #: Whether a certificate is worth its cost now.
    settled: bool


class DiagonalEngine(ABC):
    """Work on factors with rows of given lengths, on one kind of arrays."""

    @property
    @abstractmethod
    def first_rank(self) -> int:
        """Number of columns at the start."""

    @abstractmethod
    def start(self, rank: int, seed: int) -> Any:
        """Return a random feasible factor with that number of columns."""

    @abstractmethod
    def from_numpy(self, Y: Array) -> Any:
        """Return a feasible factor from an array, whose rows are rescaled."""

    @abstractmethod
    def to_numpy(self, Y: Any) -> Array:
        """Return a factor as an array of NumPy in double precision, with rows of the given lengths."""

    @abstractmethod
    def value(self, Y: Any) -> float:
        """Return ``<C, X>`` in double precision, for rows of exactly the given lengths."""

    @property
    def resolution(self) -> float:
        """Gap that is zero up to rounding errors."""
        return 0.0

    @abstractmethod
    def trivial(self) -> DualBound:
        """Return a bound that costs nothing, from rows that are diagonally dominant."""

    @abstractmethod
    def improve(self, Y: Any, memory: Any, goal: float, late: Late) -> Improved:
        """Return a factor with a lower value after a limited amount of work.

        `goal` is the gap that is wanted. The memory is None at the first call.
        """

    @abstractmethod
    def certify(self, Y: Any, goal: float, late: Late) -> DualBound:
        """Return a bound from the multipliers of Y, and the directions of negative curvature, if there are any.

        The bound need not be more accurate than a tenth of `goal`, or of its own distance from the value.
        """

    @abstractmethod
    def widen(self, Y: Any, vectors: Any, goal: float) -> tuple[Any, Any]:
        """Return a factor with more columns, from the directions of a certificate of Y, and the memory for `improve`.

        Columns that are hardly used are removed before, if that raises the value by much less than `goal`.
        """


class SparseDiagonalEngine(DiagonalEngine):
    """Data that all engines for a sparse cost matrix share.

    Rows of Y are sqrt(b_i) u_i with unit vectors u_i, the rows of U. G is the matrix D C D, D = diag(sqrt(b)), without
    its diagonal, so that ``<C, X>`` is ``<G, U U^T>`` plus a constant.
    """

    def __init__(self, matrix: sp.csr_array, b: Array) -> None:
        self.n, self.roots = len(b), np.sqrt(b)
        D = sp.diags_array(self.roots)
        scaled = matrix if (b == 1).all() else sp.csr_array(dot(dot(D, matrix), D))
        self.diagonal = scaled.diagonal()
        self.constant = math.fsum(self.diagonal)
        self.G = sp.csr_array(scaled - sp.diags_array(self.diagonal))
        self.G.eliminate_zeros()
        self.degrees = np.asarray(abs(self.G).sum(axis=1)).ravel()
        self.total = math.fsum(self.degrees)
        # Rows without entries keep the scale zero: their part of S is zero.
        self.scale = np.divide(1.0, np.sqrt(self.degrees), out=np.zeros(self.n), where=self.degrees > 0)

    @property
    def most_columns(self) -> int:
        """Number of columns that is always enough, about sqrt(2 n) (Barvinok, 1995; Pataki, 1998)."""
        return math.isqrt(2 * self.n) + 1

    @property
    def resolution(self) -> float:
        return _RESOLUTION * (self.total + abs(self.constant))

    def trivial(self) -> DualBound:
        y = (self.diagonal - self.degrees) / self.roots**2
        return DualBound(self.constant - self.total * (1 + 4 * self.n * _EPS), y)

    def rounded_up(self, value: float) -> float:
        """Return ``<C, X>`` from ``<G, U U^T>``, with an allowance for rounding that keeps it above the minimum."""
        return self.constant + value + 8 * _EPS * (self.total + abs(self.constant))

    def dual_bound(self, y: Array, shift: float, vectors: Any) -> DualBound:
        """Return the bound for multipliers y of the rows of U and a shift.

        The matrix ``G - diag(y) + shift W`` is positive semidefinite, W = diag(row sums of abs(G)).
        """
        rounding = 4 * _EPS * (math.fsum(np.abs(y)) + abs(self.constant))
        bound = self.constant + math.fsum(y) - shift * self.total - rounding
        return DualBound(bound, (self.diagonal + y - shift * self.degrees) / self.roots**2, vectors)


class DiagonalProgram(LowRankProgram):
    """Values and certificates of an engine."""

    def __init__(self, problem: Problem, engine: DiagonalEngine, deadline: float = math.inf) -> None:
        super().__init__(problem, deadline)
        self.engine = engine
        self._converted: tuple[Factor, Array] | None = None

    def point(self, Y: Any) -> Factor:
        """Return a factor of the engine as a point."""
        return Factor(Y, value=self.engine.value(Y))

    @property
    def resolution(self) -> float:
        return self.engine.resolution

    def first(self, point: Factor) -> Evaluation:
        """Return the evaluation at the start of a run, which costs nothing."""
        certificate = self.engine.trivial()
        return Evaluation(None, certificate, point.value - certificate.bound)

    def certify(self, point: Factor, goal: float) -> DualBound:
        return self.engine.certify(point.x, goal, self.is_late)

    def is_late(self) -> bool:
        """Return whether the time limit of the run has passed."""
        return self.late

    def infeasibility(self, point: Factor) -> float:
        Y, b = self.array(point), self.problem.b
        return float(norm(np.einsum("ir,ir->i", Y, Y) - b) / (1 + norm(b)))

    def array(self, point: Factor) -> Array:
        # The array of the returned point is used several times; it takes seconds to copy a large one from a device.
        if self._converted is None or self._converted[0] is not point:
            self._converted = point, self.engine.to_numpy(point.x)
        return self._converted[1]


class DiagonalStepper(Stepper):
    """Improvement of the factor by an engine; new columns are added where a certificate shows negative curvature."""

    def __repr__(self) -> str:
        return "DiagonalStepper()"

    @property
    def uses_iterate(self) -> bool:
        return False

    @property
    def check_every(self) -> int:
        # Certificates are computed when the engine asks for them.
        return 2**62

    @property
    def descends(self) -> bool:
        return True

    def step(self, problem: DiagonalProgram, iterate: Iterate, memory: _Memory | None) -> Proposal:
        engine, Y = problem.engine, iterate.point.x
        held, progress = memory or _Memory()
        if iterate.known is not None:
            progress = progress.seen(iterate.known.gap)
            if progress.idle >= _MAX_IDLE:
                return Proposal(iterate.point, math.nan, memory, finished=True)
            if iterate.known.vertex.vectors is not None:
                Y, held = engine.widen(Y, iterate.known.vertex.vectors, iterate.goal)
        better = engine.improve(Y, held, iterate.goal, problem.is_late)
        problem.counts.n_grad += 1
        point: Point = Factor(better.Y, value=better.value)
        # An estimate of zero asks the loop for the gap.
        kept = _Memory(better.memory, progress)
        return Proposal(point, math.nan, kept, gap_estimate=0.0 if better.settled else math.inf)
