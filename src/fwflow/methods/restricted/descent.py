"""Where does a method lead, step by step? For methods that solve a smaller problem within a step of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fwflow.methods.base import Iterate, Method
from fwflow.methods.problem import Evaluation, Problem
from fwflow.points.point import Point


class Place(NamedTuple):
    """A point on the way, what is known of it, and the memory of the method there."""

    point: Point
    known: Evaluation
    memory: Any


def descent(problem: Problem, method: Method, x: Point, memory: Any) -> Iterator[Place]:
    """The places to which a method leads from x, that one included.

    The last is where the gap is down to rounding, where neither it nor the value has fallen, or where time is over.
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
