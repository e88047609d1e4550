"""Small numerical questions that sets and methods both ask."""

from __future__ import annotations

import numpy as np

from fwflow._validation import Array


def smallest(values: Array, count: int) -> list[int]:
    """Places of the smallest entries in ascending order; ties go to the first."""
    enough = count >= len(values)
    chosen = np.arange(len(values)) if enough else np.sort(np.argpartition(values, count)[:count])
    return chosen[np.argsort(values[chosen], kind="stable")].tolist()


def first_below(start: Array, end: Array, noise: float) -> tuple[float, int] | None:
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
