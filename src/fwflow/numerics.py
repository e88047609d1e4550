"""Small numerical questions that sets and methods both ask."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import numpy as np

from fwflow._validation import Array

State = TypeVar("State", bound=Hashable)


def lowest(values: Array, count: int) -> Array:
    """Places of the smallest entries in ascending order of places; ties go to the first."""
    if not 0 < count < len(values):
        return np.arange(len(values) if count > 0 else 0)
    level = np.partition(values, count - 1)[count - 1]
    places = np.flatnonzero(values <= level)
    tied = places[values[places] == level]
    return np.setdiff1d(places, tied[len(tied) + count - len(places) :], assume_unique=True)


def smallest(values: Array, count: int) -> list[int]:
    """Places of the smallest entries in ascending order of entries; ties go to the first."""
    chosen = lowest(values, count)
    return chosen[np.argsort(values[chosen], kind="stable")].tolist()


def first_below(start: Array, end: Array, noise: Array | float) -> tuple[float, int] | None:
    """Which entry is first below zero on the way from `start` (not below) to `end`? Only those below `-noise` count."""
    below = np.flatnonzero(end < -noise)
    if not len(below):
        return None
    above = np.maximum(start[below], 0)
    theta = above / (above - end[below])
    first = int(theta.argmin())
    return float(theta[first]), int(below[first])


def length(vector: Array) -> float:
    """The Euclidean norm, of which no square overflows or vanishes."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(np.linalg.norm(vector / largest)) if 0 < largest < np.inf else largest


def row_lengths(rows: Any) -> Array:
    """The Euclidean norms of the rows of an array or of a sparse matrix, of which no square overflows or vanishes."""
    largest = float(abs(rows).max()) if math.prod(rows.shape) else 0.0
    if not 0 < largest < np.inf:
        return np.full(rows.shape[0], largest)
    unit = rows / largest
    return largest * np.sqrt(np.asarray((unit * unit).sum(axis=1)).reshape(-1))


def best_first(best: State, worse: Callable[[State], Iterable[tuple[float, State]]], count: int) -> list[State]:
    """The best `count` states in order, where all others come from a better one by a step that costs something.

    `worse` gives the steps from a state: what they cost, and where they lead. No more than the `count` cheapest from
    each can matter. Ties go to the one found first.
    """
    found: list[State] = []
    seen, ahead = {best}, [(0.0, 0, best)]
    while ahead and len(found) < count:
        cost, _, state = heapq.heappop(ahead)
        found.append(state)
        for more, other in heapq.nsmallest(count, worse(state), key=lambda step: step[0]):
            if other not in seen:
                seen.add(other)
                heapq.heappush(ahead, (cost + more, len(seen), other))
    return found
