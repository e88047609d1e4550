"""Quasi-Newton method on the weights of an active set, for objectives without second derivatives."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from fwflow._validation import Array
from fwflow.methods.clock import Late, in_time
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.flow_events import minimise_quadratic
from fwflow.methods.restricted.working_set import WorkingSet, centred
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import Secants, stacked
from fwflow.points.gradients import Gradient
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex


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
        for _ in in_time(problem, range(40 if first < noise else 0)):
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
