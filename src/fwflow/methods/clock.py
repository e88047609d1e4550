"""Time limit within a step: loops end early, and line searches return the best step found so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from fwflow.methods.base import Iterate
from fwflow.methods.problem import Problem
from fwflow.objectives.base import Line
from fwflow.points.gradients import Gradient
from fwflow.points.point import Atom, Point
from fwflow.steps.searches import LineSearch, TimeIsUp

T = TypeVar("T")

#: Function that returns whether the time limit has passed, for loops without a problem.
Late = Callable[[], bool]


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def in_time(problem: Problem, items: Iterable[T]) -> Iterator[T]:
    """Yield the items until the time limit of the problem has passed."""
    for item in items:
        if problem.late:
            return
        yield item


def searched(
    problem: Problem, search: LineSearch, line: Line, gamma: float, limit: float, memory: Any
) -> tuple[float, Any]:
    """Return the step length of a line search and its memory.

    After the time limit the length is that of the longest step that was seen to decrease f, or zero.
    """
    if problem.deadline == float("inf"):
        return search.step(line, gamma, limit, memory)
    best = 0.0

    def timed(f: Callable[[float], float], lowest: float) -> Callable[[float], float]:
        def at(length: float) -> float:
            nonlocal best
            if problem.late:
                raise TimeIsUp
            found = f(length)
            if found <= lowest and best < length <= limit:
                best = length
            return found

        return at

    try:
        return search.step(
            replace(line, value=timed(line.value, line.value0), slope=timed(line.slope, 0.0)), gamma, limit, memory
        )
    except TimeIsUp:
        return best, memory


def search_along(
    problem: Problem,
    search: LineSearch,
    iterate: Iterate,
    gradient: Gradient,
    terms: Sequence[tuple[float, Atom]],
    limit: float,
    memory: Any,
) -> tuple[Point, float, float, Any]:
    """Search along the direction ``sum of w (atom - x)`` from an iterate, within the domain of f.

    Return the point, the step length, its limit within the domain, and the memory of the search.
    """
    x = iterate.point
    limit = problem.segment_inside(x, terms, limit)
    line = problem.along(x, x.mix(terms), iterate.fun, gradient)
    length, memory = searched(problem, search, line, min(1.0, limit), limit, memory)
    return x.mix((float(length) * w, atom) for w, atom in terms), float(length), limit, memory
