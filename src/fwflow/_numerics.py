"""Products, norms and small numerical functions for sets and methods."""

from __future__ import annotations

import contextvars
import heapq
import math
import operator
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

import numpy as np

from fwflow._validation import Array

State = TypeVar("State", bound=Hashable)

Function = TypeVar("Function", bound=Callable[..., Any])

# Largest length of a vector product that OpenBLAS leaves to one thread is 10 000. On a busy machine, threads wait for
# each other: a product of 100 000 entries took 28 ms with two threads, and 0.018 ms in blocks of this length.
_UNSHARED = 8192


def quietly(function: Function) -> Function:
    """Return the function without floating-point warnings, for functions that make products themselves.

    BLAS kernels may read beyond short vectors and then raise floating-point flags although the result is right (NumPy
    issue 24067, OpenBLAS issue 1924). NumPy turns the flags into warnings in `@`, `np.dot` and `np.linalg.norm`.
    `np.vdot`, `np.einsum` and the decompositions of `np.linalg` and `scipy.linalg` do not read them. All products of
    the package are therefore made here. A product that truly overflows is not finite, which the loop sees.
    """
    return np.errstate(all="ignore")(function)


class _Quiet(threading.local):
    """Context of each thread in which NumPy ignores floating-point flags. It is faster to enter than `np.errstate`."""

    def __init__(self) -> None:
        context = contextvars.Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


_quiet = _Quiet()
_matmul = quietly(operator.matmul)


def quiet(function: Callable[..., Any], *arrays: Array) -> Any:
    """Return ``function(*arrays)`` without floating-point warnings. The function must not call code of a user."""
    return _quiet.run(function, *arrays)


def dot(a: Any, b: Any) -> Any:
    """Return ``a @ b`` for real arrays or matrices of any kind, without floating-point warnings."""
    if type(a) is type(b) is np.ndarray:
        return _inner(a, b) if a.ndim == b.ndim == 1 else _quiet.run(operator.matmul, a, b)
    return _matmul(a, b)  # code of a user may call dot again, and a context cannot be entered twice


def _inner(a: Array, b: Array) -> Any:
    """Return the inner product of two vectors."""
    return np.vdot(a, b) if len(a) <= _UNSHARED or len(a) != len(b) else _quiet.run(_inner_in_blocks, a, b)


def _inner_in_blocks(a: Array, b: Array) -> Any:
    whole = len(a) // _UNSHARED * _UNSHARED
    sums = np.vecdot(a[:whole].reshape(-1, _UNSHARED), b[:whole].reshape(-1, _UNSHARED))
    return sums.sum() + np.vdot(a[whole:], b[whole:])


def norm(x: Any) -> Any:
    """Return the Euclidean norm of all entries, in the precision of `x`, without floating-point warnings."""
    entries = np.asarray(x).ravel(order="K")
    return np.sqrt(_inner(entries, entries))


def all_finite(x: Array) -> bool:
    """Return whether all entries are finite. The squared norm answers that in half of the time, unless it overflows."""
    entries = x.ravel(order="K")
    return math.isfinite(_inner(entries, entries)) or bool(np.isfinite(x).all())


def namespace(array: Any) -> Any:
    """Return the module with the functions of an array: NumPy, or that of another library such as ``jax.numpy``."""
    return np if type(array) is np.ndarray else array.__array_namespace__()


def lowest(values: Array, count: int) -> Array:
    """Return the indices of the smallest entries, in ascending order of indices. Among ties the first are chosen."""
    if not 0 < count < len(values):
        return np.arange(len(values) if count > 0 else 0)
    level = np.partition(values, count - 1)[count - 1]
    places = np.flatnonzero(values <= level)
    tied = places[values[places] == level]
    return np.setdiff1d(places, tied[len(tied) + count - len(places) :], assume_unique=True)


def smallest(values: Array, count: int) -> list[int]:
    """Return the indices of the smallest entries, in ascending order of entries. Among ties the first are chosen."""
    chosen = lowest(values, count)
    return chosen[np.argsort(values[chosen], kind="stable")].tolist()


def first_below(start: Array, end: Array, noise: Array | float) -> tuple[float, int] | None:
    """Return where an entry first becomes negative on the way from `start` >= 0 (0) to `end` (1), and its index.

    Entries of `end` that are not below ``-noise`` are ignored. Return None if there are no others.
    """
    below = np.flatnonzero(end < -noise)
    if not len(below):
        return None
    above = np.maximum(start[below], 0)
    theta = above / (above - end[below])
    first = int(theta.argmin())
    return float(theta[first]), int(below[first])


def length(vector: Array) -> float:
    """Return the Euclidean norm, computed without overflow or underflow of squares."""
    largest = float(np.abs(vector).max(initial=0.0))
    return largest * float(norm(vector / largest)) if 0 < largest < np.inf else largest


def row_lengths(rows: Any) -> Array:
    """Return the norms of the rows of an array or a sparse matrix, computed as in `length`."""
    largest = float(abs(rows).max()) if math.prod(rows.shape) else 0.0
    if not 0 < largest < np.inf:
        return np.full(rows.shape[0], largest)
    unit = rows / largest
    return largest * np.sqrt(np.asarray((unit * unit).sum(axis=1)).reshape(-1))


def best_first(best: State, worse: Callable[[State], Iterable[tuple[float, State]]], count: int) -> list[State]:
    """Return the `count` cheapest states in order, where `best` costs 0 and a step to another state adds to the cost.

    `worse` returns the steps from a state, as pairs of added cost and new state. Only the `count` cheapest steps from
    each state are used. Among ties the state found first is the first.
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
