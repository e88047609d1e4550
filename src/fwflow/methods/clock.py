"""What if the time of a run is over within a step? Loops end early, and line searches with the best that they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from fwflow.methods.problem import Problem
from fwflow.objectives.base import Line
from fwflow.steps.searches import LineSearch, TimeIsUp

T = TypeVar("T")

#: Whether the time is over, for loops that know no problem.
Late = Callable[[], bool]


def never() -> bool:
    """No limit on time."""
    return False


def in_time(problem: Problem, items: Iterable[T]) -> Iterator[T]:
    """The items, as many as there is time for."""
    for item in items:
        if problem.late:
            return
        yield item


def searched(
    problem: Problem, search: LineSearch, line: Line, gamma: float, limit: float, memory: Any
) -> tuple[float, Any]:
    """The length that a line search finds, and its memory.

    When the time is over, that is the longest step that the search has seen to be downhill, or zero.
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
