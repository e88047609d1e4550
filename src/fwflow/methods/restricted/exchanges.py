"""Corrections by exchanges: the parts of a member of a set change along directions that the set has found."""

from __future__ import annotations

import numpy as np

from fwflow._numerics import dot
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.boxes import box_gap, minimise_in_box
from fwflow.points.point import Point
from fwflow.sets.base import Exchange
from fwflow.steps.searches import ExactSearch

# Number of Newton steps between two calls of the oracle, and the ratio of the final to the initial gap of their models.
# Measured with benchmarks/networks.py: one step takes more calls, three steps take longer and save few calls.
_ROUNDS, _MODEL_ACCURACY = 2, 0.01


def exchange(problem: Problem, x: Point, work: Exchange, tol: float) -> Point | None:
    """Make Newton steps along the directions until their gap is at most `tol`; return the point, or None if x is best.

    The parts of `work` are those of the returned point.
    """
    f, at = problem.objective, x

    def late() -> bool:
        return problem.late

    for _ in range(_ROUNDS):
        model = problem.model(at)
        assert model is not None
        rows, (lower, upper) = work.directions, work.ranges()
        slopes = np.asarray(dot(rows, model.second * at.x - model.pull))
        if late() or box_gap(slopes, np.zeros(len(slopes)), lower, upper) <= tol:
            break
        amounts = minimise_in_box(rows, model.second, slopes, lower, upper, _MODEL_ACCURACY, late)
        end = Point(work.moved(amounts, late))
        line = problem.along(at, end, f.value(at), None)
        share = 0.0
        if line.slope0 < 0:
            # If the slope is negative at the end, then f decreases on the whole segment, because it is convex.
            whole = line.slope(1.0) <= 0
            share = 1.0 if whole else problem.step_length(ExactSearch(), line, 1.0, 1.0, None)[0]
        if share < 1:
            end = Point(work.shortened(share))
        if share == 0:
            break
        at = end
    return None if at is x else at
