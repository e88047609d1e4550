"""The best of several runs from different starting points, for functions that are not convex."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from fwflow._validation import Array, InputError, positive
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.objectives.base import Objective
from fwflow.run.result import Result, Status
from fwflow.sets import ConstraintSet

# A run that ends for one of these reasons ends the whole call.
_ENDS = (Status.TIME, Status.CALLBACK, Status.INTERRUPTED, Status.DATA)


def starting_points(f: Objective, C: ConstraintSet, x0: Any, count: int, seed: int) -> Iterator[Any]:
    """Yield `x0`, which may be None, and random members of the set."""
    if f.factored:
        raise InputError("starts needs x as a dense array, but matrix completion stores x as factors; omit starts")
    given = x0.x if isinstance(x0, Decomposition) else x0
    shape = f.shape or C.shape or (None if given is None else np.shape(given))
    if shape is None:
        raise InputError("x0 is needed: neither the objective nor the set has a known shape")
    dtype = f.dtype or (np.float64 if given is None else np.result_type(np.asarray(given), np.float32))
    yield x0
    for k in range(1, count):
        yield C.random_start(seed + k - 1, shape).astype(dtype, copy=False)


def best_of(
    run: Callable[[Any, float | None], Result],
    f: Objective,
    C: ConstraintSet,
    x0: Any,
    count: int,
    seed: int,
    max_time: float | None,
) -> Result:
    """Return the result with the smallest value among runs from several starts, with the counts of all runs.

    ``run(x0, max_time)`` makes one of them.
    """
    deadline = math.inf if max_time is None else time.perf_counter() + positive(max_time, "max_time")
    values, results, ended = np.full(count, np.nan), [], None
    try:
        for k, start in enumerate(starting_points(f, C, x0, count, seed)):
            left = max_time if k == 0 or max_time is None else deadline - time.perf_counter()
            if left is not None and left <= 0:
                ended = Status.TIME
                break
            results.append(run(start, left))
            values[k] = results[-1].fun
            if results[-1].status in _ENDS:
                ended = results[-1].status
                break
    except KeyboardInterrupt:  # between two runs, which handle it themselves
        if not results:
            raise
        ended = Status.INTERRUPTED
    return _joined(results, values, ended, C)


def _joined(results: list[Result], values: Array, ended: Status | None, C: ConstraintSet) -> Result:
    """Return the best result with the counts of all. `ended` is the reason if not all starts ran to their end."""
    best, done = min(results, key=lambda result: (math.isnan(result.fun), result.fun)), len(results)
    note = f" It is the best of {done} starts." if done > 1 else ""
    if done < len(values):
        note += f" {len(values) - done} more starts did not run."
    status = ended or best.status
    message = best.message if status is best.status else f"{status.value} {best.message}"
    return replace(
        best,
        n_grad=sum(result.n_grad for result in results),
        n_lmo=sum(result.n_lmo for result in results) + (done - 1) * (C.random_start_calls + C.start_calls_oracle),
        n_design=sum(result.n_design for result in results),
        status=status,
        message=message + note,
        start_values=values,
    )
