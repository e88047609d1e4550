r"""The flow of losses that are not quadratic, by implicit Euler steps.

In time tau the flow covers a share :math:`\theta = 1 - e^{-\tau}` of the way to s, and s is the best vertex for the
gradient where it is, or a mixture of those that tie there. The implicit step asks that of the gradient at its end,

.. math:: x_+ = (1 - \theta) x + \theta s, \qquad s \in \arg\min_{v \in C} \langle \nabla f(x_+), v \rangle,

and that is to say that s minimises :math:`f((1 - \theta) x + \theta s)` over C. While the same vertices tie and gain
weight, ties and the sum of the weights alone determine where the flow is, and the step is exact however long it is and
however f curves on its way. What is left is when, within a step, vertices come and go: an error of first order. Steps
in which they do are therefore halved some times.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow.methods.active import AtomMemory
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.exact_flow import Event, box_bounds, compact
from fwflow.methods.newton_flow import BoxNewton, FlowNewton
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.methods.restricted.descent import descent
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.point import Point

# Steps in which something comes or goes are halved until they are this much shorter than others.
_FINER = 16
# Newton steps after which the search for the end of a step is given up; a handful is usual.
_MOST = 1000


@storable("sliding-memory")
@dataclass(frozen=True, eq=False)
class SlidingMemory:
    """How far time has gone, where x is heading, the vertices of which that is a mixture, and all turns so far."""

    tau: float
    target: Point
    mixture: AtomMemory | None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True)
class Sliding(Method):
    """Implicit Euler steps of the flow; each iteration makes the way of a whole one.

    Parameters
    ----------
    tau_end, step_length : float
        When to end, and the length of a step; time is the integral of gamma.
    """

    tau_end: float
    step_length: float

    uses_iterate = False

    @property
    def check_every(self) -> int:
        return self.steps

    lifts = True

    @property
    def steps(self) -> int:
        """How many it takes."""
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
    """What is to be remembered after an implicit step from x."""
    objective = problem.objective.ahead(x, -math.expm1(memory.tau - until))
    assert objective is not None
    method = BoxNewton() if memory.mixture is None else FlowNewton()
    shorter = replace(problem, objective=objective, _joint={})
    target, mixture = memory.target, memory.mixture
    for steps, place in enumerate(descent(shorter, method, target, mixture)):
        if steps > _MOST:
            raise NumericalTrouble(f"the end of a step was not found in {_MOST} Newton steps")
        target, mixture = place.point, place.memory
    before = _moving(problem, memory.target, memory.mixture) if memory.events else {}
    moving = _moving(problem, target, mixture)
    entered = tuple(name for key, name in moving.items() if key not in before)
    left = tuple(name for key, name in before.items() if key not in moving)
    event = Event(memory.tau, compact(target.x), entered, left, tuple(moving.values()))
    return SlidingMemory(until, target, mixture, (*memory.events, event))


def _moving(problem: Problem, x: Point, mixture: AtomMemory | None) -> dict[Hashable, Any]:
    """The vertices of a mixture by their keys, or on a box the entries between their bounds."""
    if mixture is not None:
        return {atom.key: atom.vertex for atom in mixture.active.atoms}
    lower, upper = box_bounds(problem, x)
    inside = np.flatnonzero((lower < x.x.reshape(-1)) & (x.x.reshape(-1) < upper))
    return {j: j for j in inside.tolist()}


def _place(problem: Problem, memory: SlidingMemory) -> Hashable:
    """What tells the face of a target from others: its vertices, or which entries are at which bound."""
    if memory.mixture is not None:
        return frozenset(atom.key for atom in memory.mixture.active.atoms)
    lower, upper = box_bounds(problem, memory.target)
    x = memory.target.x.reshape(-1)
    return (x > lower).tobytes(), (x < upper).tobytes()
