"""Accelerated projected gradient, which is faster than Frank-Wolfe where projecting onto the set is cheap."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, InputError
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Evaluation, Problem
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.gradients import as_gradient
from fwflow.points.point import Point
from fwflow.points.vertices import Vertex
from fwflow.steps.momentum import extrapolation

# A step first tries this fraction of the last smoothness constant, because losses flatten as margins grow, and
# quadratics are flatter on some faces than on others. Chosen without tuning.
_RELAX, _RELAX_QUADRATIC = 0.7, 0.9
# Smallest smoothness constant relative to the first estimate. Chosen without tuning.
_LEAST = 2.0**-40
#: Largest smoothness constant relative to the first estimate. Chosen without tuning.
MOST_SMOOTHNESS = 2.0**100


@storable("projection-memory")
@dataclass(frozen=True)
class ProjectionMemory:
    """Previous iterate, Nesterov's t, and the current and the first estimate of the smoothness."""

    previous: Point
    t: float = 1.0
    smoothness: float | None = None
    first: float | None = None


@dataclass(frozen=True)
class AcceleratedProjectedGradient(Method):
    """FISTA with backtracking and adaptive restart (Beck & Teboulle 2009; O'Donoghue & Candes 2015).

    A step makes one product with A for each trial and one with its transpose. The gradient is computed at an
    extrapolated point, so the gap at the iterate costs an extra pass. It is computed every 20 steps, and when an
    estimate of it is small.
    """

    check_every = 20
    lifts = False
    uses_iterate = False

    def init(self, problem: Problem, x: Point) -> ProjectionMemory:
        if x.factored:
            raise InputError("projected gradient needs x as a dense array, but matrix completion stores x as factors")
        if problem.constraint.projection(x.x.shape) is None:
            raise InputError(f"projected gradient needs a set with a projection; {problem.constraint!r} has none")
        return ProjectionMemory(x)

    def resumed(self, problem: Problem, x: Point, memory: ProjectionMemory) -> ProjectionMemory:
        return replace(memory, previous=x, t=1.0)

    def step(self, problem: Problem, iterate: Iterate, memory: ProjectionMemory) -> Proposal:
        x, known = iterate.point, iterate.known
        t, beta = extrapolation(memory.t)
        y = x.mix([(-beta, memory.previous)]) if beta > 0 else x  # x + beta (x - previous)
        value = iterate.fun if y is x else value_or_infinity(problem, y)
        if not math.isfinite(value):  # the domain of f may end between x and y
            y, value = x, iterate.fun
        gradient = known.gradient if known is not None and y is x else problem.gradient(y)
        g = np.asarray(gradient)
        answer = known.vertex if known is not None and y is x else problem.lmo(gradient, lift=False)
        vertex = answer.vertex
        first = low_smoothness(problem, y, value, g, vertex) if memory.first is None else memory.first
        relax = _RELAX_QUADRATIC if problem.objective.quadratic else _RELAX
        L = first if memory.smoothness is None else max(relax * memory.smoothness, _LEAST * first)
        moved, L = self._projected(problem, y, value, g, L, MOST_SMOOTHNESS * first)
        if moved is None:  # the time is over
            return Proposal(x, 0.0, replace(memory, smoothness=L, first=first), known=known, mixture=True)
        if y is not x and not problem.objective.convex:
            if problem.late:
                return Proposal(x, 0.0, memory, known=known, mixture=True)
            if problem.value(moved) > iterate.fun + _rounding(y) * abs(iterate.fun):
                # A step from x itself decreases f.
                return self.step(problem, iterate, replace(memory, previous=x, t=1.0))
        restart = float(np.vdot(y.x - moved.x, moved.x - x.x)) > 0
        reached = gradient.inner(moved)
        problem.agreed(reached, Evaluation(gradient, answer, 0.0), "project")
        once = memory.first is None and problem.objective.quadratic  # one step may reach the solution
        estimate = 0.0 if once else reached - gradient.dot(vertex)
        # A step that only changes x by rounding errors gives no information about the smoothness.
        kept = (memory.smoothness, memory.first) if _still(y, moved) else (L, first)
        return Proposal(moved, 1 / L, ProjectionMemory(x, 1.0 if restart else t, *kept), estimate)

    def _projected(
        self, problem: Problem, y: Point, value: float, g: Array, L: float, most: float
    ) -> tuple[Point | None, float]:
        """Return the projected step from y and its smoothness constant, at least L; None if the time is over."""
        while True:
            target = _descended(y.x, g, L)
            if np.isfinite(target).all():
                member = problem.constraint.project(target)
                assert member is not None  # `init` has checked it
                moved = problem.objective.refresh(Point(member))
                d = moved.x - y.x
                if problem.defined_at(moved) and (
                    _still(y, moved) or self._holds(problem, y, moved, value, g, L * float(np.vdot(d, d)))
                ):
                    return moved, L
            L *= 2
            if not most > L:
                raise NumericalTrouble("backtracking found no step that decreases f")
            if problem.late:
                return None, L

    def _holds(self, problem: Problem, y: Point, moved: Point, value: float, g: Array, bound: float) -> bool:
        """Return whether f is below its quadratic model; curvature or slopes decide where values are too imprecise."""
        line = problem.along(y, moved, value, as_gradient(g))
        if line.curvature is not None and line.curvature <= (1 + 1e-9) * bound:  # both are rounded
            return True
        end = line.value(1.0)
        if not math.isfinite(end):
            return False
        rounding = 4 * float(np.finfo(y.x.dtype).eps) * (abs(value) + abs(end))
        if line.curvature is None and 0.5 * bound <= rounding:
            return line.slope(1.0) - line.slope0 <= bound
        return end - value - line.slope0 <= 0.5 * bound


def _rounding(y: Point) -> float:
    return 4 * float(np.finfo(y.x.dtype).eps)


def _still(y: Point, moved: Point) -> bool:
    """Return whether a step changes every entry by rounding only."""
    return bool((np.abs(moved.x - y.x) <= _rounding(y) * np.abs(y.x)).all())


def value_or_infinity(problem: Problem, point: Point) -> float:
    """Return f at a point, or infinity outside of its domain."""
    return problem.raw_value(point) if problem.defined_at(point) else math.inf


def low_smoothness(problem: Problem, y: Point, value: float, g: Array, vertex: Vertex) -> float:
    """Return a low estimate of the smoothness, from the curvature along the gradient on the scale of the set.

    It is large enough that y is not lost by rounding when a step is added to it.
    """
    largest = float(np.abs(g).max())
    if largest == 0:
        return 1.0
    reach = float(np.abs(np.asarray(vertex) - y.x).max()) or float(np.abs(y.x).max()) or 1.0
    end = problem.objective.refresh(Point(_descended(y.x, g, largest / reach)))
    line = problem.along(y, end, value, as_gradient(g))
    eps = float(np.finfo(y.x.dtype).eps)
    curvature = line.curvature
    if curvature is None:
        small = problem.segment_inside(y, [(1.0, end)], eps ** (1 / 3))
        while not math.isfinite(line.value(small)) and small > eps and not problem.late:
            small /= 2
        curvature = (line.slope(small) - line.slope0) / small
    d = end.x - y.x
    norm2 = float(np.vdot(d, d))
    share = 1.0 if line.quadratic else 0.1  # the curvature bounds the whole line and may be far from tight here
    return max(share * curvature / norm2 if norm2 > 0 and curvature > 0 else 0.0, eps * largest / reach)


def _descended(x: Array, g: Array, L: float) -> Array:
    """Return ``x - g / L``, without overflow in intermediate results."""
    largest = float(np.abs(g).max()) or 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(x - g / x.dtype.type(largest) * x.dtype.type(largest / L))
