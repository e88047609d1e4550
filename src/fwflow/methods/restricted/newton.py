"""Newton and quasi-Newton methods on a working set, with a line search on the objective."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Late, Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.simplices import Factored, minimise_on_simplices
from fwflow.methods.restricted.working_set import WorkingSet, centred, minimise_model, minimise_quadratic
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import gram, stacked
from fwflow.objectives.secants import Secants
from fwflow.points.gradients import Gradient
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex
from fwflow.steps.searches import ExactSearch

# Ratio of the final to the initial gap of a quadratic model over several blocks. Chosen without tuning.
_MODEL_ACCURACY = 1e-3
# Smallest slope at the end of a full step, relative to f, that is not regarded as rounding. Chosen without tuning.
_SLOPE_NOISE = 1e-9


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
        try:
            if working.starts is not None:
                enough = 0.0 if f.quadratic else max(tol / 2, _MODEL_ACCURACY * gap)
                K = Factored(left, model.second, right)
                target = minimise_on_simplices(K, slopes, values, working.starts, enough, late=late)
                if dot(slopes, target - values) >= 0 and not f.quadratic:
                    raise NumericalTrouble
            elif f.quadratic or not isinstance(right, np.ndarray):  # a small quadratic program in the values alone
                target = minimise_quadratic(gram(left * model.second, right), working, values, slopes, late)
            else:
                target = minimise_model(model, working, left, right, fixed[1], values, slopes, late)
            if f.quadratic:  # the model is f itself
                return target
        except NumericalTrouble:  # f is not convex here
            target = working.downhill(slopes, values)
        end = model.point(fixed[0] + dot(target, left), fixed[1] + dot(target, right), x.x.shape)
        limit = problem.segment_inside(at, [(1.0, end)], 1.0)
        if late():  # compare one value instead of the many of a line search
            return target if limit == 1.0 and problem.raw_value(end) < f.value(at) else values
        line = problem.along(at, end, f.value(at), None)
        length, _ = problem.step_length(ExactSearch(), line, 1.0, limit, None)
        slope_limit = min(line.slope0 / 2, -_SLOPE_NOISE * abs(line.value0))
        if length == limit == 1.0 and not late() and line.slope(1.0) < slope_limit:
            # Piecewise linear parts of a loss have less curvature than the model, so search up to the first bound.
            limit = problem.segment_inside(at, [(1.0, end)], max(1.0, working.reach(values, target - values)))
            length, _ = problem.step_length(ExactSearch(), line, 1.0, limit, None)
        if length == 0 and late():
            break
        # Slopes are of the order of the squared gap, so near the minimum rounding hides them before it hides the gap.
        before = (gap, values) if length == 0 else (np.inf, values)
        length = length or limit
        values = np.clip(values + length * (target - values), working.lower, working.upper)
        at = model.point(fixed[0] + dot(values, left), fixed[1] + dot(values, right), x.x.shape)
    return values


class QuasiNewtonState(NamedTuple):
    """A point with its value and gradient, and the secant pairs collected so far."""

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
