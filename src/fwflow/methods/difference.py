"""Steps for differences of convex functions: the second function is linearised, and the first one is reduced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, InputError
from fwflow.designs import Counts
from fwflow.methods.active import AtomMemory, BlendedPairwise
from fwflow.methods.base import Iterate, Method, Place, Proposal, descent
from fwflow.methods.problem import Problem
from fwflow.methods.projected import value_or_infinity
from fwflow.methods.restricted.atoms import ActiveSet, Decomposition
from fwflow.objectives.base import Line, Objective
from fwflow.points.point import Atom, Point

# A convex subproblem is solved until its gap is this share of its first gap, which is the gap of the iterate, or until
# this number of oracle calls. Chosen without tuning.
_SHARE, _MOST = 0.1, 200
# Number of lengths that a boosted step tries, each half of the one before. Chosen without tuning.
_TRIALS = 6
# Largest length of a boosted step, in lengths of the step before it. Chosen without tuning.
_FARTHEST = 64.0


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


@storable("difference-memory")
@dataclass(frozen=True)
class DifferenceMemory:
    """Decomposition of x into atoms with images of the first convex function."""

    active: ActiveSet


@dataclass(frozen=True)
class DifferenceSteps(Method):
    r"""Reduction of :math:`f(y) - \langle \nabla g(x), y\rangle` from x, and a boosted step, to minimise f - g.

    Blended pairwise steps reduce the convex function. They start from the vertices of x. The decrease of this function
    is a lower bound on that of f - g, because g is above its linearisation. The boosted step continues from y in the
    direction y - x, which is a descent direction of f - g at y if y is optimal (Aragón Artacho and Vuong, 2020). It
    stays within the hull of the known vertices.
    """

    descends = True

    def init(self, problem: Problem, x: Point) -> DifferenceMemory:
        return self.init_from(problem, x, ActiveSet.starting_at(x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> DifferenceMemory:
        if x.factored:
            raise InputError('method="difference-of-convex" does not accept a factored x')
        parts = problem.objective.difference
        return DifferenceMemory(active.single().lifted(problem.objective if parts is None else parts[0]))

    def active_set(self, memory: DifferenceMemory) -> ActiveSet:
        return memory.active

    def step(self, problem: Problem, iterate: Iterate, memory: DifferenceMemory) -> Proposal:
        x, active = iterate.point, memory.active
        place = _reduced(problem, x, active)
        terms = list(zip(place.memory.active.weights.tolist(), place.memory.active.atoms, strict=True))
        y = problem.objective.imaged(place.point.x)
        length = _boosted(problem, x, y, _farthest(active, terms))
        moved = active.moved(length, terms)
        point = y if length == 1.0 else problem.objective.imaged(moved.bare().point(Point(x.x)).x)
        return Proposal(point, length, DifferenceMemory(moved.few(2)), mixture=True)


def _reduced(problem: Problem, x: Point, active: ActiveSet) -> Place:
    """Return the result of Frank-Wolfe steps from x on the first function minus the linearised second one."""
    parts = problem.objective.difference
    f = problem.objective if parts is None else parts[0]
    tilt = np.zeros_like(x.x) if parts is None else _subgradient(parts[1], x)
    inner = replace(problem, objective=_Tilted(f, tilt), counts=Counts(), _joint={})
    places = islice(descent(inner, BlendedPairwise(), f.imaged(x.x), AtomMemory(active)), _MOST)
    place = next(places)
    enough = _SHARE * place.known.gap
    while place.known.gap > enough and (following := next(places, None)) is not None:
        place = following
    problem.counts.n_lmo += inner.counts.n_lmo
    problem.counts.n_grad += inner.counts.n_grad
    return place


def _subgradient(g: Objective, x: Point) -> Array:
    return np.asarray(g.gradient(g.imaged(x.x)), dtype=x.x.dtype)


def _farthest(active: ActiveSet, terms: Sequence[tuple[float, Atom]]) -> float:
    """Return the largest multiple of the step from x to y for which no atom of x gets a negative weight."""
    after = {atom.key: weight for weight, atom in terms}
    falls = [(w, w - after.get(a.key, 0.0)) for w, a in zip(active.weights.tolist(), active.atoms, strict=True)]
    return min([w / fall for w, fall in falls if fall > 0], default=1.0)


def _boosted(problem: Problem, x: Point, y: Point, farthest: float) -> float:
    """Return a multiple of the step from x to y, between 1 and `farthest`, at which f - g is lower than at y."""
    value, extra = problem.value(y), min(farthest, _FARTHEST) - 1.0
    for _ in problem.in_time(range(_TRIALS)):
        end = problem.objective.imaged(x.x + (1.0 + extra) * (y.x - x.x))
        if extra > 0 and value_or_infinity(problem, end) < value:
            return 1.0 + extra
        extra /= 2
    return 1.0
