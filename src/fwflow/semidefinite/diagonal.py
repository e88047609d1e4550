"""Semidefinite programs with a given diagonal, diag(X) = b > 0: the interface of engines, and their runs.

Maximum cuts have this form. Every factor Y with rows of the lengths sqrt(b_i) is feasible, and the multipliers follow
from Y. An engine improves Y and proves bounds on one kind of arrays.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from fwflow._validation import Array
from fwflow.methods.base import Iterate, Proposal, Stepper
from fwflow.methods.problem import Evaluation, Late
from fwflow.points.point import Point
from fwflow.run.stopping import Progress
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import DualBound, Factor, LowRankProgram

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


class DiagonalProgram(LowRankProgram):
    """Values and certificates of an engine."""

    def __init__(self, problem: Problem, engine: DiagonalEngine, deadline: float = math.inf) -> None:
        super().__init__(problem, deadline)
        self.engine = engine

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
        return float(np.linalg.norm(np.einsum("ir,ir->i", Y, Y) - b) / (1 + np.linalg.norm(b)))

    def array(self, point: Factor) -> Array:
        return self.engine.to_numpy(point.x)


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
