"""Steps for differences of convex functions: the second function is linearised, and the first one is reduced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from fwflow._validation import Array, InputError
from fwflow.designs import Counts
from fwflow.methods.active import BlendedPairwise
from fwflow.methods.base import Iterate, Method, Proposal, descent
from fwflow.methods.problem import Problem
from fwflow.methods.projected import AcceleratedProjectedGradient, value_or_infinity
from fwflow.objectives.base import Line, Objective
from fwflow.points.point import Point

# A convex subproblem is solved until its gap is this share of its first gap, which is the gap of the iterate, or until
# this number of oracle calls. Chosen without tuning.
_SHARE, _MOST = 0.1, 200
# Number of times that a boosted step doubles its length at most. Chosen without tuning.
_TRIALS = 6
# Units in the last place of f and g up to which an increase of f - g counts as rounding. Chosen without tuning.
_ULPS = 16


class _Tilted(Objective):
    """Function f minus a linear function of x."""

    def __init__(self, f: Objective, tilt: Array) -> None:
        self.f, self.tilt = f, tilt
        self.convex, self.quadratic, self.smoothness = f.convex, f.quadratic, f.smoothness
        self.shape, self.dtype, self.domain = f.shape, f.dtype, f.domain
        self.image_map, self.data_cost = f.image_map, f.data_cost

    def value(self, point: Point) -> float:
        return self.f.value(point) - float(np.vdot(self.tilt, point.x))

    def gradient(self, point: Point) -> Array:
        return np.asarray(self.f.gradient(point), dtype=point.x.dtype) - self.tilt

    def along(self, start: Point, end: Point, value0: float) -> Line | None:
        shift, fall = float(np.vdot(self.tilt, start.x)), float(np.vdot(self.tilt, end.x - start.x))
        line = self.f.along(start, end, value0 + shift)
        if line is None:
            return None
        return replace(
            line,
            value=lambda gamma: line.value(gamma) - shift - gamma * fall,
            slope=lambda gamma: line.slope(gamma) - fall,
            value0=value0,
            slope0=line.slope0 - fall,
        )


@dataclass(frozen=True)
class DifferenceSteps(Method):
    r"""Reduction of :math:`f(y) - \langle \nabla g(x), y\rangle` from x, and a boosted step, to minimise f - g.

    The convex function is reduced by projected steps if the set has a projection, and by blended pairwise steps if not.
    Its decrease is a lower bound on that of f - g, because g is above its linearisation. The boosted step continues
    from y in the direction y - x, which is a descent direction of f - g at y if y is optimal (Aragón Artacho and
    Vuong, 2020). It is made on sets with a projection, whose test of membership is cheap.
    """

    descends = True

    def init(self, problem: Problem, x: Point) -> None:
        if x.factored:
            raise InputError('method="difference-of-convex" does not support a factored x; use another method')

    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        x = iterate.point
        if problem.constraint.projection(x.x.shape) is not None:
            y, _, noise = _reduced(problem, iterate, AcceleratedProjectedGradient(), None)
            value = problem.value(y)
            if value > iterate.fun + noise:  # rounding of the convex function is larger than its decrease
                return Proposal(x, 0.0, memory=None, mixture=True)
            return Proposal(*_boosted(problem, x, y, value, noise), memory=None)
        # Without a projection, a test of membership may cost many oracle calls. The next step keeps the active set.
        y, memory, _ = _reduced(problem, iterate, BlendedPairwise(), memory)
        return Proposal(y, 1.0, memory, mixture=True)


def _reduced(problem: Problem, iterate: Iterate, method: Method, memory: Any) -> tuple[Point, Any, float]:
    """Return the result of some steps from x on the first function minus the linearised second one.

    `memory` is that of the method at x, or None before its first step. It is returned after the steps, with the
    rounding of f - g. The reduced function is not higher than at x by more than this rounding.
    """
    x = iterate.point
    parts = problem.objective.difference
    f = problem.objective if parts is None else parts[0]
    tilt = np.zeros_like(x.x) if parts is None else _subgradient(parts[1], x)
    inner = replace(problem, objective=_Tilted(f, tilt), counts=Counts(), _joint={})
    start = f.imaged(x.x)
    places = islice(descent(inner, method, start, method.init(inner, start) if memory is None else memory), _MOST)
    place = next(places)
    terms = abs(iterate.fun) + abs(place.value) + abs(float(np.vdot(tilt, x.x)))
    noise = _ULPS * float(np.finfo(x.x.dtype).eps) * terms
    enough, value, lowest = _SHARE * place.known.gap, place.value + noise, place
    # Accelerated steps may increase the function on the way, so that a small gap does not imply a decrease.
    while (place.known.gap > enough or place.value > value) and (following := next(places, None)) is not None:
        place = following
        lowest = place if place.value < lowest.value else lowest
    place = lowest if place.value > value else place
    problem.counts.n_lmo += inner.counts.n_lmo
    problem.counts.n_grad += inner.counts.n_grad
    return problem.objective.imaged(place.point.x), place.memory, noise


def _subgradient(g: Objective, x: Point) -> Array:
    return np.asarray(g.gradient(g.imaged(x.x)), dtype=x.x.dtype)


def _boosted(problem: Problem, x: Point, y: Point, value: float, noise: float) -> tuple[Point, float]:
    """Return a member on the ray from x through y: y, or a point beyond it where f - g is lower by more than `noise`.

    The value is that at y.
    """
    best, length = y, 1.0
    for _ in problem.in_time(range(_TRIALS)):
        end = x.x + 2 * length * (y.x - x.x)
        if problem.constraint.contains(end, 0.0) is not True:
            break
        point = problem.objective.imaged(end)
        found = value_or_infinity(problem, point)
        if not found < value - noise:
            break
        best, length, value = point, 2 * length, found
    return best, length
