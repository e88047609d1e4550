r"""Frank-Wolfe flow of losses that are not quadratic, by Newton's method on a working set and by implicit Euler steps.

In time tau the flow covers a fraction :math:`\theta = 1 - e^{-\tau}` of the way to s, a mixture of the vertices that
are best for the current gradient. An implicit step uses the gradient at its end,

.. math:: x_+ = (1 - \theta) x + \theta s, \qquad s \in \arg\min_{v \in C} \langle \nabla f(x_+), v \rangle,

so s minimises :math:`f((1 - \theta) x + \theta s)` over C. While the same vertices are tied and gain weight, the step
is exact for every length and curvature. The remaining error, of first order, is the time within a step at which
vertices enter or leave. Steps in which this happens are therefore halved several times.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwflow._numerics import smallest
from fwflow._storage import storable
from fwflow.methods.active import AtomMemory, Corrective, KeepsAtoms
from fwflow.methods.base import Iterate, Method, Proposal, descent
from fwflow.methods.exact_flow import Event, box_bounds, compact
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, added
from fwflow.methods.restricted.working_set import WorkingSet, minimise_on
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.point import Point
from fwflow.points.vertices import OneHot

# Steps in which vertices enter or leave are halved until they are this many times shorter. Chosen without tuning.
_FINER = 16
# Maximum number of Newton steps for one implicit step, which usually takes about five. Chosen without tuning.
_MOST = 1000


@dataclass(frozen=True)
class FlowNewton(KeepsAtoms):
    """Corrective steps on a working set of vertices that grows until the solution is within it.

    A step chooses the working set with one pass over the data, and solves the problem on it from the images of the
    vertices. The gap of an iterate is that of the full problem.
    """

    #: Size of the first working set.
    first: int = 50
    #: The restricted problem is solved until its gap is this fraction of the full gap.
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
        units = [problem.objective.lift(OneHot(j, 1.0, x.x.shape)) for j in problem.in_time(chosen.tolist())]
        if len(units) < len(chosen):
            return Proposal(x, 0.0, None, known=known, mixture=True)
        rest = added(x, units, -values[chosen])
        working = WorkingSet(tuple(units), values[chosen], lower[chosen], upper[chosen], affine=False, fixed=rest)
        found = minimise_on(problem, x, working, self.accuracy * known.gap)
        return Proposal(added(rest, units, found), 1.0, None)


@storable("sliding-memory")
@dataclass(frozen=True, eq=False)
class SlidingMemory:
    """Time, target of x, its decomposition into vertices (None on a box), and all events so far."""

    tau: float
    target: Point
    mixture: AtomMemory | None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Sliding(Method):
    """Implicit Euler steps of the flow. One iteration advances the time by `step_length`, until `tau_end`."""

    tau_end: float  # time is the integral of gamma
    step_length: float

    uses_iterate = False

    @property
    def check_every(self) -> int:
        return self.steps

    @property
    def steps(self) -> int:
        """Number of iterations."""
        return max(1, math.ceil(self.tau_end / self.step_length - 1e-9))

    def step(self, problem: Problem, iterate: Iterate, memory: SlidingMemory | None) -> Proposal:
        x = iterate.point
        box = problem.constraint.bounds(x.x.shape) is not None
        if memory is None:
            first = (iterate.known or problem.evaluate(x)).vertex
            mixture = None if box else AtomMemory(ActiveSet(Atoms((first,)), np.ones(1)))
            memory = SlidingMemory(0.0, x.mix([(1.0, first)]), mixture)
        tau, until = memory.tau, self.tau_end if iterate.k + 1 >= self.steps else self.step_length * (iterate.k + 1)
        length = until - tau
        while memory.tau < until:
            end = until if length >= until - memory.tau else memory.tau + length
            ahead = _ahead(problem, x, memory, end)
            if problem.late:
                return Proposal(x, -math.expm1(tau - memory.tau), memory)
            if _place(problem, ahead) != _place(problem, memory) and end - memory.tau > self.step_length / _FINER:
                length = (end - memory.tau) / 2
                continue
            x, length = x.mix([(-math.expm1(memory.tau - end), ahead.target)]), 2 * length
            memory = ahead
        return Proposal(x, -math.expm1(tau - until), memory)


def _ahead(problem: Problem, x: Point, memory: SlidingMemory, until: float) -> SlidingMemory:
    """Return the memory after an implicit step from x."""
    objective = problem.objective.ahead(x, -math.expm1(memory.tau - until))
    assert objective is not None
    method = BoxNewton() if memory.mixture is None else FlowNewton()
    shorter = replace(problem, objective=objective, _joint={})
    target, mixture = memory.target, memory.mixture
    for steps, place in enumerate(descent(shorter, method, target, mixture)):
        if steps > _MOST:
            raise NumericalTrouble(f"an implicit step did not converge in {_MOST} Newton steps")
        target, mixture = place.point, place.memory
    before = _moving(problem, memory.target, memory.mixture) if memory.events else {}
    moving = _moving(problem, target, mixture)
    entered = tuple(name for key, name in moving.items() if key not in before)
    left = tuple(name for key, name in before.items() if key not in moving)
    event = Event(memory.tau, compact(target.x), entered, left, tuple(moving.values()))
    return SlidingMemory(until, target, mixture, (*memory.events, event))


def _moving(problem: Problem, x: Point, mixture: AtomMemory | None) -> dict[Hashable, Any]:
    """Return the vertices of the decomposition by key, or on a box the entries between their bounds."""
    if mixture is not None:
        return {atom.key: atom.vertex for atom in mixture.active.atoms}
    lower, upper = box_bounds(problem, x)
    inside = np.flatnonzero((lower < x.x.reshape(-1)) & (x.x.reshape(-1) < upper))
    return {j: j for j in inside.tolist()}


def _place(problem: Problem, memory: SlidingMemory) -> Hashable:
    """Return an identifier of the face of a target: its vertices, or the entries at each bound."""
    if memory.mixture is not None:
        return frozenset(atom.key for atom in memory.mixture.active.atoms)
    lower, upper = box_bounds(problem, memory.target)
    x = memory.target.x.reshape(-1)
    return (x > lower).tobytes(), (x < upper).tobytes()
