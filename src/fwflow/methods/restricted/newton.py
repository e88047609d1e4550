"""Newton's method on a working set, with a line search on the objective."""

from __future__ import annotations

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.clock import searched
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.flow_events import minimise_model, minimise_quadratic
from fwflow.methods.restricted.simplices import Factored, minimise_on_simplices
from fwflow.methods.restricted.working_set import WorkingSet
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import gram
from fwflow.points.point import Point
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
        length, _ = searched(problem, ExactSearch(), line, 1.0, limit, None)
        slope_limit = min(line.slope0 / 2, -_SLOPE_NOISE * abs(line.value0))
        if length == limit == 1.0 and not late() and line.slope(1.0) < slope_limit:
            # Piecewise linear parts of a loss have less curvature than the model, so search up to the first bound.
            limit = problem.segment_inside(at, [(1.0, end)], max(1.0, working.reach(values, target - values)))
            length, _ = searched(problem, ExactSearch(), line, 1.0, limit, None)
        if length == 0 and late():
            break
        # Slopes are of the order of the squared gap, so near the minimum rounding hides them before it hides the gap.
        before = (gap, values) if length == 0 else (np.inf, values)
        length = length or limit
        values = np.clip(values + length * (target - values), working.lower, working.upper)
        at = model.point(fixed[0] + dot(values, left), fixed[1] + dot(values, right), x.x.shape)
    return values
