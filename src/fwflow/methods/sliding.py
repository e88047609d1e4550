"""Conditional gradient sliding: accelerated steps with subproblems for the oracle, if gradients are the main cost."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, InputError
from fwflow.designs import Counts
from fwflow.methods.active import AtomMemory, BlendedPairwise
from fwflow.methods.base import Iterate, Method, Place, Proposal, descent
from fwflow.methods.problem import Problem
from fwflow.methods.projected import MOST_SMOOTHNESS, low_smoothness, value_or_infinity
from fwflow.methods.restricted.atoms import ActiveSet, Decomposition
from fwflow.objectives.base import Line, NumericalTrouble, Objective, parabola
from fwflow.points.point import Point

# A step first tries this fraction of the last smoothness constant. Chosen without tuning.
_RELAX = 0.9
# The method restarts when the gap is this fraction of the gap at the last start. Chosen without tuning.
_RESTART = 0.25
# Maximum number of oracle calls of a subproblem. Chosen without tuning.
_MOST = 200


class _Proximal(Objective):
    r"""Objective :math:`\langle g, u\rangle + \tfrac\beta2 \|u - c\|^2` on the points of another objective."""

    convex, quadratic = True, True

    def __init__(self, objective: Objective, g: Array, centre: Point, beta: float) -> None:
        self.objective, self.g, self.centre, self.beta = objective, g, centre, beta
        self.shape, self.dtype, self.image_map = objective.shape, objective.dtype, objective.image_map

    def value(self, point: Point) -> float:
        d = point.x - self.centre.x
        return float(np.vdot(self.g + 0.5 * self.beta * d, d))

    def gradient(self, point: Point) -> Array:
        return np.asarray(self.g + self.beta * (point.x - self.centre.x), dtype=self.g.dtype)

    def along(self, start: Point, end: Point, value0: float) -> Line:
        d = end.x - start.x
        norm2 = float(np.vdot(d, d))
        return parabola(value0, float(np.vdot(self.gradient(start), d)), self.beta * norm2, norm2)


@storable("sliding-gradients")
@dataclass(frozen=True)
class SlidingGradients:
    """Decomposition of x, solution of the last subproblem with its decomposition, steps and gap since the last start,
    and smoothness."""

    active: ActiveSet
    search: Point
    mixture: AtomMemory
    k: int = 0
    gap: float = math.inf
    smoothness: float = math.nan


@dataclass(frozen=True)
class GradientSliding(Method):
    r"""Accelerated steps with one gradient and several oracle calls each (Lan & Zhou, 2016).

    .. math::
        z = (1 - \gamma) x + \gamma u, \quad
        u \approx \arg\min_{v \in C} \langle \nabla f(z), v\rangle + \tfrac{\gamma L}{2} \|v - u\|^2, \quad
        x \leftarrow (1 - \gamma) x + \gamma u

    with :math:`\gamma = 2 / (k + 1)`. Blended pairwise steps solve each subproblem from the solution of the last one,
    until its gap is small enough for the rate of :math:`O(1/k^2)`. Backtracking finds L. The method restarts at x when
    the gap is a quarter of that at the last start, so that the rate is linear where f is strongly convex.
    """

    uses_iterate = False
    check_every = 20
    lifts = False

    def init(self, problem: Problem, x: Point) -> SlidingGradients:
        return self.init_from(problem, x, ActiveSet.starting_at(x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> SlidingGradients:
        if x.factored:
            raise InputError('method="sliding" needs distances between points and does not accept a factored x')
        return _started(x, active.single().lifted(problem.objective))

    def active_set(self, memory: SlidingGradients) -> ActiveSet:
        return memory.active

    def step(self, problem: Problem, iterate: Iterate, memory: SlidingGradients) -> Proposal:
        x, u, k = iterate.point, memory.search, memory.k + 1
        gamma = 2 / (k + 1)
        z = x.mix([(gamma, u)])
        value = iterate.fun if k == 1 else value_or_infinity(problem, z)
        if not math.isfinite(value):  # the domain of f may end between x and u
            return self.step(problem, iterate, replace(_started(x, memory.active), smoothness=memory.smoothness))
        g = iterate.known.gradient if iterate.known is not None and k == 1 else problem.gradient(z)
        slopes = np.asarray(g)
        if memory.smoothness > 0:
            L = first = _RELAX * memory.smoothness
        else:
            L = first = low_smoothness(problem, z, value, slopes, problem.lmo(g, lift=False).vertex)
        while True:
            place, gap = _nearest(problem, slopes, u, memory, gamma * L, k)
            share = problem.segment_inside(x, [(1.0, place.point)], gamma)
            moved = x.mix([(share, place.point)])
            if _below(problem, moved, value, slopes, moved.x - z.x, L):
                break
            L *= 2
            if not MOST_SMOOTHNESS * first > L:
                raise NumericalTrouble("backtracking found no step that decreases f")
            if problem.late:
                return Proposal(x, 0.0, replace(memory, smoothness=L), known=iterate.known, mixture=True)
        terms = list(zip(place.memory.active.weights.tolist(), place.memory.active.atoms, strict=True))
        active = memory.active.moved(share, terms)
        # At u the gradient of the subproblem is that of f at z, so its gap there bounds the gap at x.
        estimate = gap + float(np.vdot(slopes, moved.x - u.x))
        scale = gap if k == 1 else memory.gap
        if estimate <= _RESTART * scale or share < gamma:
            after = replace(_started(moved, active), smoothness=L)
        else:
            after = SlidingGradients(active, place.point, place.memory, k, scale, L)
        return Proposal(moved, share, after, estimate, mixture=True)


def _started(x: Point, active: ActiveSet) -> SlidingGradients:
    return SlidingGradients(active, x, AtomMemory(active))


def _nearest(
    problem: Problem, g: Array, u: Point, memory: SlidingGradients, beta: float, k: int
) -> tuple[Place, float]:
    """Return the solution of a subproblem, and its gap at u."""
    inner = replace(problem, objective=_Proximal(problem.objective, g, u, beta), counts=Counts(), _joint={})
    places = islice(descent(inner, BlendedPairwise(), u, memory.mixture), _MOST)
    place = next(places)
    gap = place.known.gap
    enough = min(gap, memory.gap) / (k * (k + 1))
    while place.known.gap > enough and (following := next(places, None)) is not None:
        place = following
    problem.counts.n_lmo += inner.counts.n_lmo
    return place, gap


def _below(problem: Problem, moved: Point, value: float, g: Array, d: Array, L: float) -> bool:
    """Return whether f is below the quadratic with curvature L and the given value and slope a step d before."""
    found, slope, bound = problem.raw_value(moved), float(np.vdot(g, d)), 0.5 * L * float(np.vdot(d, d))
    return math.isfinite(found) and found <= value + slope + bound + 8 * float(np.finfo(d.dtype).eps) * (
        abs(value) + abs(found)
    )
