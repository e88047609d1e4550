"""Newton's method on a working set of vertices or entries, to follow the flow of losses that are not quadratic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fwflow._numerics import smallest
from fwflow.methods.active import AtomMemory, KeepsAtoms
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import in_time
from fwflow.methods.corrective import Corrective
from fwflow.methods.exact_flow import box_bounds
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import added
from fwflow.methods.restricted.newton import minimise_on
from fwflow.methods.restricted.working_set import WorkingSet
from fwflow.points.vertices import OneHot


@dataclass(frozen=True)
class FlowNewton(KeepsAtoms):
    """Corrective steps on a working set of vertices that grows until the solution is within it.

    A step chooses the working set with one pass over the data, and solves the problem on it from the images of the
    vertices. The gap of an iterate is that of the full problem.

    Parameters
    ----------
    first : int
        Size of the first working set.
    accuracy : float
        The restricted problem is solved until its gap is this fraction of the full gap.
    """

    first: int = 50
    accuracy: float = 1e-4

    descends = True

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        count = max(self.first, 2 * len(memory.active))
        return Corrective(count, self.accuracy).step(problem, iterate, memory)


@dataclass(frozen=True)
class BoxNewton(Method):
    """Newton steps on a box, with a working set of the entries between bounds and those that should leave a bound."""

    first: int = 50
    accuracy: float = 1e-4

    optimism = 0.5  # Newton's method converges faster at the end than at the beginning
    lifts = False
    descends = True

    def step(self, problem: Problem, iterate: Iterate, memory: None) -> Proposal:
        x, known = iterate.point, iterate.known
        assert known is not None
        lower, upper = box_bounds(problem, x)
        g, values = np.ravel(np.asarray(known.gradient)), np.array(np.ravel(x.x), dtype=np.float64)
        moving = (values > lower) & (values < upper)
        gains = g * (values - np.where(g > 0, lower, upper))  # the gap is the sum of these
        wanted = smallest(-gains, min(len(g), max(self.first, int(moving.sum()))))
        moving[[j for j in wanted if gains[j] > 0]] = True
        chosen = np.flatnonzero(moving)
        if not len(chosen):
            return Proposal(x, 0.0, None, finished=True)
        units = [problem.objective.lift(OneHot(j, 1.0, x.x.shape)) for j in in_time(problem, chosen.tolist())]
        if len(units) < len(chosen):
            return Proposal(x, 0.0, None, known=known, mixture=True)
        rest = added(x, units, -values[chosen])
        working = WorkingSet(tuple(units), values[chosen], lower[chosen], upper[chosen], affine=False, fixed=rest)
        found = minimise_on(problem, x, working, self.accuracy * known.gap)
        return Proposal(added(rest, units, found), 1.0, None)
