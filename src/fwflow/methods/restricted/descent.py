"""Iterates of a method on a subproblem, for methods that solve one within each step."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fwflow.methods.base import Iterate, Method
from fwflow.methods.problem import Evaluation, Problem
from fwflow.points.point import Point


class Place(NamedTuple):
    """Iterate of a method on a subproblem, its evaluation, and the memory of the method."""

    point: Point
    known: Evaluation
    memory: Any


def descent(problem: Problem, method: Method, x: Point, memory: Any) -> Iterator[Place]:
    """Yield x and the iterates of a method from there.

    The last one has a gap of the size of rounding errors, or neither gap nor value decreased, or the time is over.
    """
    value, least, k = math.inf, math.inf, 0
    while True:
        known, found = problem.evaluate(x), problem.value(x)
        yield Place(x, known, memory)
        noise = 4 * float(np.finfo(x.x.dtype).eps) * problem.size(x, known)
        if problem.late or known.gap <= noise or (known.gap > least / 2 and found >= value):
            return
        value, least = min(value, found), min(least, known.gap)
        proposal = method.step(problem, Iterate(k, x, found, known), memory)
        x, memory, k = proposal.point, proposal.memory, k + 1
