"""Projected gradient until x is sparse, then corrective steps on its support: the best of both.

Projections find the support of a sparse solution quickly, and then crawl towards its values where columns are
correlated; corrective steps know the values of a small support at once, but build it up from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fwflow._storage import storable
from fwflow.methods.active import AtomMemory
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import in_time
from fwflow.methods.corrective import Corrective
from fwflow.methods.problem import Problem
from fwflow.methods.projected import AcceleratedProjectedGradient, ProjectionMemory
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, Decomposition
from fwflow.points.point import Point


@storable("polish-memory")
@dataclass(frozen=True)
class PolishMemory:
    """That of projected gradient, or that of corrective steps."""

    projecting: ProjectionMemory | None = None
    correcting: AtomMemory | None = None


@dataclass(frozen=True)
class Polished(Method):
    """Accelerated projected gradient, and corrective steps once x has few non-zeros.

    Parameters
    ----------
    every : int
        The support is counted after every so many projected steps.
    share : float
        It is small if it is at most this share of the rows and of the columns,
    most : int
        and has at most so many entries.
    """

    every: int = 20
    share: float = 1 / 8
    most: int = 1000

    @property
    def check_every(self) -> int:
        return 20

    @property
    def lifts(self) -> bool:
        return False

    @property
    def uses_iterate(self) -> bool:
        return False

    @property
    def descends(self) -> bool:
        return True

    def init(self, problem: Problem, x: Point) -> PolishMemory:
        return PolishMemory(projecting=AcceleratedProjectedGradient().init(problem, x))

    def active_set(self, memory: PolishMemory) -> Decomposition | None:
        return None if memory.correcting is None else memory.correcting.active

    def step(self, problem: Problem, iterate: Iterate, memory: PolishMemory) -> Proposal:
        if memory.correcting is not None:
            return self._corrected(problem, iterate, memory.correcting)
        assert memory.projecting is not None
        proposal = AcceleratedProjectedGradient().step(problem, iterate, memory.projecting)
        proposal = proposal._replace(memory=PolishMemory(projecting=proposal.memory))
        if problem.late or (iterate.k + 1) % self.every or not few(problem, proposal.point, self.share, self.most):
            return proposal
        active = decomposed(problem, proposal.point)
        if active is None:
            return proposal
        point = active.point(iterate.point)
        correcting = PolishMemory(correcting=AtomMemory(active))
        return proposal._replace(point=point, memory=correcting, known=problem.evaluate(point))

    def _corrected(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        known = iterate.known or problem.evaluate(iterate.point)
        if known.vertex.image is None:
            known = known._replace(vertex=problem.objective.lift(known.vertex.vertex))
        proposal = Corrective().step(problem, iterate._replace(known=known), memory)
        memory_ = PolishMemory(correcting=proposal.memory)
        return proposal._replace(memory=memory_, known=problem.evaluate(proposal.point))


def few(problem: Problem, x: Point, share: float = Polished.share, most: int = Polished.most) -> bool:
    """Whether x has few non-zeros, and there is a model of f to correct their values with."""
    rows = problem.objective.image_size
    if rows is None or x.factored or problem.model(x) is None:
        return False
    return np.count_nonzero(x.x) <= min(most, share * min(x.x.size, rows))


def decomposed(problem: Problem, x: Point) -> ActiveSet | None:
    """x as a mixture of the vertices that its non-zeros name and, for the rest, the centre."""
    vertices = problem.constraint.decomposed(x.x)
    if vertices is None:
        return None
    weights = [w for w, _ in vertices]
    atoms = [problem.objective.lift(vertex) for _, vertex in in_time(problem, vertices)]
    if len(atoms) < len(vertices):
        return None
    rest, zero = 1.0 - sum(weights), np.zeros_like(x.x)
    if rest > 1e-14 and problem.constraint.contains(zero):  # else rounding: the simplex has no centre to give it to
        return ActiveSet(Atoms((Point(zero, np.zeros_like(x.image)), *atoms)), np.array([rest, *weights]))
    return ActiveSet(Atoms(atoms), np.array(weights) / sum(weights))
