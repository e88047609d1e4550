"""Accelerated projected gradient: what to use instead of Frank-Wolfe where projecting onto the set is cheap.

It is here so that the comparison is honest, and reports the same certified gap.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fwflow.methods.base import Proposal
from fwflow.objectives.base import NumericalTrouble
from fwflow.points import Point
from fwflow.problem import Evaluation, Problem

# Each step first tries a smoothness constant this much smaller: losses flatten as margins grow.
_RELAX = 0.7


@dataclass(frozen=True)
class Memory:
    """The iterate before, Nesterov's t, and the current estimate of the smoothness."""

    previous: Point
    t: float = 1.0
    smoothness: float | None = None


@dataclass(frozen=True)
class AcceleratedProjectedGradient:
    """FISTA with backtracking and adaptive restart (Beck & Teboulle 2009; O'Donoghue & Candes 2015).

    A step makes one product with A for each trial and one with its transpose. The gradient is taken at an extrapolated
    point, so the gap at the iterate is an extra pass, made now and then and where an estimate says that it is time.
    """

    #: How often the loop computes the gap, for which it needs no images of vertices.
    check_every, lifts = 20, False

    @property
    def uses_iterate(self) -> bool:
        return False

    def init(self, problem: Problem, x: Point) -> Memory:
        if not problem.constraint.projectable:
            raise ValueError(
                f'method="apg" or "polished" needs a set with a projection; {problem.constraint!r} has none'
            )
        return Memory(x)

    def step(
        self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: Memory
    ) -> Proposal:
        t = (1 + math.sqrt(1 + 4 * memory.t**2)) / 2
        beta = (memory.t - 1) / t
        y = x.mix([(-beta, memory.previous)]) if beta > 0 else x  # x + beta (x - previous)
        if y is not x and problem.objective.has_domain and not problem.objective.defined_at(y):
            y = x
        g = known.gradient if known is not None and y is x else problem.gradient(y)
        value = fun if y is x else problem.objective.value(y)
        L = self._first(problem, y, value, g) if memory.smoothness is None else _RELAX * memory.smoothness
        while True:
            moved = problem.objective.refresh(Point(problem.constraint.project(y.x - g / y.x.dtype.type(L))))
            d = moved.x - y.x
            norm2 = float(np.vdot(d, d))
            if math.isnan(norm2):
                raise NumericalTrouble("a projected gradient step is not finite")
            if norm2 == 0 or self._holds(problem, y, moved, value, g, L * norm2):
                break
            L *= 2
            if not math.isfinite(L):
                raise NumericalTrouble("no step length is short enough")
        restart = float(np.vdot(y.x - moved.x, moved.x - x.x)) > 0
        estimate = moved.inner(g) - problem.lmo(g, lift=False).vertex.dot(g)
        return Proposal(moved, 1 / L, Memory(x, 1.0 if restart else t, L), estimate)

    def _first(self, problem: Problem, y: Point, value: float, g: np.ndarray) -> float:
        """A low guess at the smoothness, from the curvature along the gradient."""
        largest = float(np.abs(g).max())
        if largest == 0:
            return 1.0
        d = g / y.x.dtype.type(largest)  # squares of its image neither overflow nor vanish with the gradient's size
        norm2 = float(np.vdot(d, d))
        line = problem.objective.along(y, problem.objective.refresh(Point(y.x - d)), value, g)
        small = 1e-6 / max(1.0, math.sqrt(norm2))
        curvature = line.curvature if line.curvature is not None else (line.slope(small) - line.slope0) / small
        return 0.1 * curvature / norm2 if curvature > 0 else 1e-12

    def _holds(self, problem: Problem, y: Point, moved: Point, value: float, g: np.ndarray, bound: float) -> bool:
        """Whether f is below its quadratic model: by curvature where known, since values drown in rounding."""
        line = problem.objective.along(y, moved, value, g)
        if line.curvature is not None and line.curvature <= bound:
            return True
        excess = line.value(1.0) - value - line.slope0
        return excess <= 0.5 * bound
