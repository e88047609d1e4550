"""Minimisation over a working set, the vertices or coordinates whose values may change.

The flow of a quadratic is followed from event to event to its minimum. Other objectives are minimised by Newton steps,
or by quasi-Newton steps if there are no second derivatives, with a line search on the objective.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, first_below, row_lengths
from fwflow._validation import Array
from fwflow.methods.problem import Late, Problem, never
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.face import Face
from fwflow.methods.restricted.simplices import (
    Factored,
    block_gap,
    differences,
    minimise_on_simplices,
    pairwise_step,
)
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import CoordinateModel, Model, Secants, gram, stacked
from fwflow.points.gradients import Gradient
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex
from fwflow.steps.searches import ExactSearch

_EPS = float(np.finfo(np.float64).eps)
# Ratio of the final to the initial gap of a quadratic model over several blocks. Chosen without tuning.
_MODEL_ACCURACY = 1e-3
# Smallest slope at the end of a full step, relative to f, that is not regarded as rounding. Chosen without tuning.
_SLOPE_NOISE = 1e-9

#: Left and right sides of generators, one per row, see `Model.stack`.
Sides = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class WorkingSet:
    """Generators with values between bounds, added to a fixed point.

    The weights of vertices keep their sum (`affine`). The coordinates of a box change one by one.
    """

    generators: Sequence[Any]
    values: Array
    lower: Array
    upper: Array
    affine: bool
    fixed: Point | None = None
    #: First index of every block, if there are several. The weights of each block keep their sum.
    starts: Array | None = None

    @classmethod
    def hull(cls, active: Decomposition) -> WorkingSet:
        """Return the atoms of an active set, or those of all its blocks."""
        k = len(active)
        starts = active.starts if len(active.starts) > 1 else None
        return cls(active.atoms, active.weights, np.zeros(k), np.full(k, np.inf), True, starts=starts)

    def sides(self, model: Model) -> tuple[Sides, Sides]:
        """Return the sides of the generators in a model, and those of the fixed point.

        In blocks, the rows are differences to the heaviest generator of the block. These are sparse where the vertices
        of a block have many entries in common.
        """
        stack = model.stack(self.generators)
        if self.starts is not None:
            return differences(stack, self.values, self.starts)
        fixed = (0.0, 0.0) if self.fixed is None else model.sides(self.fixed)
        if not self.affine or not all(isinstance(side, np.ndarray) for side in stack):
            return stack, fixed
        # Differences to one generator have the size of the hull, even if the hull is far from the origin. Differences
        # to the shortest generator keep the precision of the short ones.
        first = int(row_lengths(stack[0]).argmin())
        return centred(*stack, first), (fixed[0] + stack[0][first], fixed[1] + stack[1][first])

    def gap(self, slopes: Array, values: Array) -> float:
        """Return the duality gap of the restricted problem, given its derivatives."""
        if self.starts is not None:
            return block_gap(slopes, values, self.starts)
        if self.affine:
            return float(dot(slopes, values) - slopes.min())
        return float(dot(slopes, values - np.where(slopes > 0, self.lower, self.upper)))

    def downhill(self, slopes: Array, values: Array) -> Array:
        """Return the end of a descent direction: in every block, the weight of the worst generator goes to the best."""
        if not self.affine:
            return np.where(slopes > 0, self.lower, self.upper)
        if self.starts is not None:
            return values + pairwise_step(slopes, values, self.starts)
        # Unlike comparisons with the extreme values, these indices exist for slopes that are NaN, too.
        worst, best, target = int(np.where(values > 0, slopes, -np.inf).argmax()), int(slopes.argmin()), values.copy()
        target[worst], target[best] = 0.0, target[best] + values[worst]
        return target

    def slack(self, slopes: Array, values: Array) -> Array:
        """Return the multipliers of the generators at a bound; a negative one should leave its bound."""
        if self.affine:
            return slopes - dot(slopes, values)
        return np.where(values > self.lower, -slopes, slopes)

    def reach(self, values: Array, step: Array) -> float:
        """Return the largest multiple of a step that stays within the bounds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step < 0, self.lower - values, self.upper - values) / step
        return float(room.min(where=step != 0, initial=np.inf)) if step.any() else 1.0


def centred(left: Array, right: Array, i: int) -> tuple[Array, Array]:
    """Subtract row i from both matrices; the result is one array twice if the argument is."""
    moved = left - left[i]
    return moved, moved if right is left else right - right[i]


def minimise_quadratic(K: Array, working: WorkingSet, values: Array, slopes: Array, late: Late = never) -> Array:
    """Return the values that minimise the quadratic with Hessian K and the given derivatives at `values`."""
    if working.starts is not None:
        return minimise_on_simplices(K, slopes, values, working.starts, late=late)
    units = np.eye(len(K)) if len(K) <= 500 else sp.eye_array(len(K)).tocsr()
    return minimise_model(CoordinateModel(1.0, dot(K, values) - slopes), working, (units, K), 0.0, values, slopes, late)


def minimise_model(
    model: Model, working: WorkingSet, sides: Sides, fixed: Any, values: Array, slopes: Array, late: Late = never
) -> Array:
    """Return the values at which the flow of a model ends, or those it has reached when `late` is true.

    The flow starts at `values`, where the model has the derivatives `slopes`.
    """
    moving = (values > working.lower) & (values < working.upper)
    base = fixed + dot(np.where(moving, 0.0, values), sides[1])
    columns = (values, working.lower, working.upper, *sides)
    face = Face.spanned(model, working.affine, base, np.flatnonzero(moving), columns).minimised(late)
    for _, target in islice(events(working, sides, face, values, slopes, late), 10 * len(values) + 100):
        values = target
    return values


def events(
    working: WorkingSet, sides: Sides, face: Face, values: Array, slopes: Array, late: Late = never
) -> Iterator[tuple[Face, Array]]:
    """Yield the faces on which the flow of a model moves, in order, and the minimiser on each of them.

    While the same generators move, the flow heads for the minimum on their face, and the derivatives change linearly.
    The first other generator whose derivative becomes as good joins the face. The flow ends where no generator does,
    or when `late` is true.
    """
    (left, right), model, rigid = sides, face.model, working.upper <= working.lower
    sizes = abs(left)
    while True:
        target = values.copy()
        for key, bound in face.dropped:
            target[key] = bound
        target[list(face.keys)] = face.values
        yield face, target
        if late():
            return
        ahead = dot(left, model.second * face.image - model.pull)
        slack = working.slack(ahead, target)
        slack[list(face.keys)] = np.inf
        slack[rigid] = np.inf
        terms = 1e-14 * np.abs(model.second * face.image - model.pull) + _EPS * face.terms
        noise = dot(sizes, terms) + 1e-14 * np.abs(slopes)
        if working.affine:  # the multipliers are differences to a common level, which is rounded too
            noise += float(dot(noise, target))
        event = first_below(working.slack(slopes, target), slack, noise)
        if event is None:
            return
        theta, i = event
        row = left[i] if isinstance(left, np.ndarray) else left[[i]].toarray()[0]
        own = (row, row if right is left else right[i])
        face = face.joined(i, own, float(target[i]), float(working.lower[i]), float(working.upper[i]))
        face = face.minimised(late)
        if face.dropped[:1] == ((i, target[i]),):  # the generator did not move, so the event was a rounding error
            return
        values, slopes = target, (1 - theta) * slopes + theta * ahead


def minimise_on(problem: Problem, x: Point, working: WorkingSet, tol: float) -> Array:
    """Return values of the working set whose gap is at most `tol`.

    Each of at most 50 steps minimises a quadratic model of f exactly and searches along the line to its minimiser.
    """
    f, at, values, stack = problem.objective, x, working.values, None
    before: tuple[float, Array] = (np.inf, values)

    def late() -> bool:
        return problem.late

    for _ in range(50):
        model = problem.model(at)
        assert model is not None  # the caller uses secants otherwise
        if stack is None or model.moving:
            stack, fixed = working.sides(model)
        left, right = stack
        slopes = dot(left, model.second * (fixed[1] + dot(values, right)) - model.pull)
        gap = working.gap(slopes, values)
        if gap >= before[0]:  # the line search returned zero, and the full step did not reduce the gap
            return before[1]
        if gap <= tol or late():
            break
        enough = 0.0 if f.quadratic else max(tol / 2, _MODEL_ACCURACY * gap)
        found = _minimum_of_model(model, working, (stack, fixed), values, slopes, f.quadratic, enough, late)
        if found is not None and f.quadratic:  # the model is f itself
            return found
        target = working.downhill(slopes, values) if found is None else found
        end = model.point(fixed[0] + dot(target, left), fixed[1] + dot(target, right), x.x.shape)
        if at.x.shape != end.x.shape:  # points of models in the image have no coordinates
            at = Point(end.x, at.image)
        limit = problem.segment_inside(at, [(1.0, end)], 1.0)
        if late():  # compare one value instead of the many of a line search
            return target if limit == 1.0 and problem.raw_value(end) < f.value(at) else values
        length, limit = _searched(problem, at, end, limit, working.reach(values, target - values))
        if length == 0 and late():
            break
        # Slopes are of the order of the squared gap, so near the minimum rounding hides them before it hides the gap.
        before = (gap, values) if length == 0 else (np.inf, values)
        length = length or limit
        values = np.clip(values + length * (target - values), working.lower, working.upper)
        at = model.point(fixed[0] + dot(values, left), fixed[1] + dot(values, right), x.x.shape)
    return values


def _searched(problem: Problem, at: Point, end: Point, limit: float, longest: float) -> tuple[float, float]:
    """Return the length of a step towards `end` by an exact search, and its limit, which is `longest` if that helps."""
    line = problem.along(at, end, problem.objective.value(at), None)
    length, _ = problem.step_length(ExactSearch(), line, 1.0, limit, None)
    slope_limit = min(line.slope0 / 2, -_SLOPE_NOISE * abs(line.value0))
    if length == limit == 1.0 and not problem.late and line.slope(1.0) < slope_limit:
        # Piecewise linear parts of a loss have less curvature than the model, so search up to the first bound.
        # No bound is met if rounding alone makes the slope negative at the end of a step of length zero.
        limit = problem.segment_inside(at, [(1.0, end)], longest if 1 < longest < math.inf else 1.0)
        length, _ = problem.step_length(ExactSearch(), line, 1.0, limit, None)
    return length, limit


def _minimum_of_model(
    model: Model,
    working: WorkingSet,
    sides: tuple[Sides, Sides],
    values: Array,
    slopes: Array,
    quadratic: bool,
    enough: float,
    late: Late,
) -> Array | None:
    """Return the values that minimise a model of f, which is `quadratic` or not; None if the model is not convex.

    Over several blocks, a gap of the model of at most `enough` suffices.
    """
    (left, right), fixed = sides
    try:
        if working.starts is not None:
            K = Factored(left, model.second, right)
            target = minimise_on_simplices(K, slopes, values, working.starts, enough, late=late)
            return target if quadratic or dot(slopes, target - values) < 0 else None
        if quadratic or not isinstance(right, np.ndarray):  # a small quadratic program in the values alone
            return minimise_quadratic(gram(left * model.second, right), working, values, slopes, late)
        return minimise_model(model, working, (left, right), fixed[1], values, slopes, late)
    except NumericalTrouble:
        return None


class QuasiNewtonState(NamedTuple):
    """Point with its value and gradient, and the secant pairs collected so far."""

    point: Point
    fun: float
    gradient: Gradient
    secants: Secants

    @property
    def noise(self) -> float:
        """Bound on the rounding error of f."""
        return 8 * float(np.finfo(self.point.x.dtype).eps) * abs(self.fun)

    def towards(self, problem: Problem, end: Point) -> tuple[float, QuasiNewtonState] | None:
        """Return a step length towards a point that decreases f, and the state there; None if there is none.

        The slopes decide where the values differ by rounding only (Hager & Zhang, 2005).
        """
        d = end.x - self.point.x
        first, noise, secants = self.gradient.dot(DenseVertex(d)), self.noise, self.secants
        length = problem.segment_inside(self.point, [(1.0, end)], 1.0)
        for _ in problem.in_time(range(40 if first < noise else 0)):
            trial = self.point.mix([(length, end)])
            fun = problem.raw_value(trial)
            if not math.isfinite(fun):
                length /= 2
                continue
            gradient = problem.gradient(trial)
            slope = gradient.dot(DenseVertex(d))
            secants = secants.seen(length * d, np.asarray(gradient) - np.asarray(self.gradient))
            flat = fun <= self.fun + noise and abs(slope) <= max(-0.9 * first, noise)
            if flat or fun <= self.fun + 1e-4 * length * min(first, 0.0):
                return length, QuasiNewtonState(trial, fun, gradient, secants)
            length *= min(max(first / (first - slope), 0.1), 0.5) if slope > first else 0.5
        return None


def minimise_by_secants(
    problem: Problem, start: QuasiNewtonState, active: Decomposition, tol: float
) -> tuple[Array, QuasiNewtonState]:
    """Return weights whose gap is at most `tol`, and the state there.

    Each step minimises a quasi-Newton model and searches along the line to its minimiser.
    """
    working, rows = WorkingSet.hull(active), stacked([atom.coordinates for atom in active.atoms])
    rows = centred(rows, rows, 0)[0] if isinstance(rows, np.ndarray) else rows
    at, values = start, working.values
    before = (np.inf, values, start)
    for _ in range(50):
        slopes = active.scores(at.gradient)
        gap = working.gap(slopes, values)
        if gap >= before[0] and at.fun >= before[2].fun - at.noise:  # neither f nor the gap has decreased
            return before[1], before[2]._replace(secants=at.secants)
        if gap <= tol or problem.late:
            break
        before = (gap, values, at)
        target = _model_minimiser(at.secants, rows, working, values, slopes, lambda: problem.late)
        found = at.towards(problem, active.weighted(target).point(start.point))
        if found is None:
            break
        length, at = found
        values = np.clip(values + length * (target - values), 0.0, None)
    return values, at


def _model_minimiser(
    secants: Secants, rows: Any, working: WorkingSet, values: Array, slopes: Array, late: Late
) -> Array:
    """Return the minimiser of the quasi-Newton model; older pairs are dropped until the model is convex."""
    while secants:
        try:
            return minimise_quadratic(secants.gram(rows), working, values, slopes, late)
        except NumericalTrouble:
            secants = secants.recent()
    return working.downhill(slopes, values)
