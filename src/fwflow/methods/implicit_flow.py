r"""Frank-Wolfe flow of losses that are not quadratic, by implicit Euler steps.

In time tau the flow covers a fraction :math:`\theta = 1 - e^{-\tau}` of the way to s, a mixture of the vertices that
are best for the current gradient. An implicit step uses the gradient at its end,

.. math:: x_+ = (1 - \theta) x + \theta s, \qquad s \in \arg\min_{v \in C} \langle \nabla f(x_+), v \rangle,

so s minimises :math:`f((1 - \theta) x + \theta s)` over C. While the same vertices are tied and gain weight, the step
is exact for every length and curvature. The remaining error, of first order, is the time within a step at which
vertices enter or leave. Such steps are therefore halved several times.
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

# Steps in which vertices enter or leave are halved until they are this many times shorter. Chosen without tuning.
_FINER = 16
# Maximum number of Newton steps for one implicit step, which usually takes about five. Chosen without tuning.
_MOST = 1000


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
    """Implicit Euler steps of the flow. One iteration advances the time by `step_length`.

    Parameters
    ----------
    tau_end, step_length : float
        End time and length of a step, where time is the integral of gamma.
    """

    tau_end: float
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
