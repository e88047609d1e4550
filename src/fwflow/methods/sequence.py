"""One method after another: projected gradient until x is sparse, then corrections on its support.

Projected steps find the support of a sparse solution quickly. They are slow to find its values where columns are
correlated. Corrections find the values of a small support at once, but build the support one pass at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import in_time
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, Decomposition
from fwflow.points.point import Point

# x has few non-zeros if they are at most this share of the rows and of the columns of the data, and at most so many.
_SHARE, _MOST = 1 / 8, 1000
# What is left of the weight of a decomposition below this is rounding, and not a share of the centre.
_ROUNDED = 1e-14


@storable("sequence-memory")
@dataclass(frozen=True)
class SequenceMemory:
    """The memory of the method that runs, and whether that is the second one."""

    memory: Any
    second: bool = False


@dataclass(frozen=True)
class Sequence(Method):
    """One method until x has few non-zeros, then another one on the vertices that they name.

    Parameters
    ----------
    first, second : Method
        The second one keeps an active set.
    every : int
        Number of steps between two counts of the non-zeros.
    share : float
        The non-zeros are few if they are at most this share of the rows and of the columns of the data.
    """

    first: Method
    second: Method
    every: int = 20
    share: float = _SHARE

    @property
    def check_every(self) -> int:
        return self.first.check_every

    @property
    def lifts(self) -> bool:
        return self.first.lifts

    @property
    def uses_iterate(self) -> bool:
        return self.first.uses_iterate

    @property
    def descends(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> SequenceMemory:
        return SequenceMemory(self.first.init(problem, x))

    def active_set(self, memory: SequenceMemory) -> Decomposition | None:
        return self.second.active_set(memory.memory) if memory.second else None

    def step(self, problem: Problem, iterate: Iterate, memory: SequenceMemory) -> Proposal:
        if memory.second:
            return self._step_of_second(problem, iterate, memory.memory)
        proposal = self.first.step(problem, iterate, memory.memory)
        proposal = proposal._replace(memory=SequenceMemory(proposal.memory))
        if problem.late or (iterate.k + 1) % self.every or not few(problem, proposal.point, self.share):
            return proposal
        active = decomposed(problem, proposal.point)
        if active is None:
            return proposal
        point = active.point(iterate.point)
        own = SequenceMemory(self.second.init_from(problem, point, active), second=True)
        return proposal._replace(point=point, memory=own, known=problem.evaluate(point))

    def _step_of_second(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        known = iterate.known or problem.evaluate(iterate.point)
        if known.vertex.image is None:
            known = known._replace(vertex=problem.objective.lift(known.vertex.vertex))
        proposal = self.second.step(problem, iterate._replace(known=known), memory)
        own = SequenceMemory(proposal.memory, second=True)
        return proposal._replace(memory=own, known=problem.evaluate(proposal.point))


def few(problem: Problem, x: Point, share: float = _SHARE) -> bool:
    """Return whether x has few non-zeros, and there is a model of f to correct their values with."""
    rows = problem.objective.image_size
    if rows is None or x.factored or problem.model(x) is None:
        return False
    return np.count_nonzero(x.x) <= min(_MOST, share * min(x.x.size, rows))


def decomposed(problem: Problem, x: Point) -> ActiveSet | None:
    """Return x as a mixture of the vertices that its non-zeros name and, for the rest, the centre."""
    known = problem.constraint.known_vertices
    vertices = None if known is None else known.decomposed(x.x)
    if vertices is None:
        return None
    weights = [w for w, _ in vertices]
    atoms = [problem.objective.lift(vertex) for _, vertex in in_time(problem, vertices)]
    if len(atoms) < len(vertices):
        return None
    rest, zero = 1.0 - sum(weights), np.zeros_like(x.x)
    if rest > _ROUNDED and problem.constraint.contains(zero):  # a simplex has no centre to give the rest to
        return ActiveSet(Atoms((Point(zero, np.zeros_like(x.image)), *atoms)), np.array([rest, *weights]))
    return ActiveSet(Atoms(atoms), np.array(weights) / sum(weights))
