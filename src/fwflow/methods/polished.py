"""Projected gradient until x is sparse, then corrective steps on its support: the best of both.

Projections find the support of a sparse solution quickly, and then crawl towards its values where columns are
correlated; corrective steps know the values of a small support at once, but build it up from nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fwflow.methods.active import Memory
from fwflow.methods.atoms import ActiveSet, Atoms
from fwflow.methods.base import Proposal
from fwflow.methods.corrective import Corrective
from fwflow.methods.projected import AcceleratedProjectedGradient
from fwflow.objectives.base import Objective
from fwflow.points import Point
from fwflow.problem import Evaluation, Problem


@dataclass(frozen=True)
class Polished:
    """Accelerated projected gradient, and corrective steps once x has few non-zeros.

    Parameters
    ----------
    every : int
        After so many projected steps, and as many more, the support is counted.
    share : float
        It is small if it is at most this share of the rows and of the columns,
    most : int
        and has at most so many entries.
    """

    every: int = 20
    share: float = 1 / 8
    most: int = 1000

    #: How often the loop computes the gap while projecting, for which it needs no images of vertices.
    check_every: ClassVar[int] = 20
    lifts: ClassVar[bool] = False

    @property
    def uses_iterate(self) -> bool:
        return False

    def init(self, problem: Problem, x: Point) -> Any:
        return AcceleratedProjectedGradient().init(problem, x)

    def step(self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: Any) -> Proposal:
        if isinstance(memory, Memory):
            known = problem.evaluate(x) if known is None else known
            if known.vertex.image is None:
                known = replace(known, vertex=problem.objective.lift(known.vertex.vertex))
            proposal = Corrective().step(problem, k, x, fun, known, memory)
        else:
            proposal = AcceleratedProjectedGradient().step(problem, k, x, fun, known, memory)
            f = problem.objective
            if f.image_size is None or type(f).model is Objective.model:  # nothing to correct weights with
                return proposal
            few = min(self.most, self.share * min(proposal.point.x.size, f.image_size))
            if (k + 1) % self.every or np.count_nonzero(proposal.point.x) > few:
                return proposal
            active = _active(problem, proposal.point)
            if active is None:
                return proposal
            proposal = replace(proposal, point=active.point(x), memory=Memory(active))
        return replace(proposal, known=problem.evaluate(proposal.point))


def _active(problem: Problem, x: Point) -> ActiveSet | None:
    """x as a mixture of the vertices that its non-zeros name and, for the rest, the centre."""
    vertices = problem.constraint.decomposed(x.x)
    if vertices is None:
        return None
    weights = [w for w, _ in vertices]
    atoms = [problem.objective.lift(vertex) for _, vertex in vertices]
    rest, zero = 1.0 - sum(weights), np.zeros_like(x.x)
    if rest > 1e-14 and problem.constraint.contains(zero):  # else rounding: the simplex has no centre to give it to
        return ActiveSet(Atoms((Point(zero, np.zeros_like(x.image)), *atoms)), np.array([rest, *weights]))
    return ActiveSet(Atoms(atoms), np.array(weights) / sum(weights))
