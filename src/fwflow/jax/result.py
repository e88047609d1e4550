"""How did it end? Results as trees of arrays: of one problem, or of as many as ``vmap`` or a path makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow.jax.trees import Array, pytree
from fwflow.result import Status

#: Statuses by their number; the number of those that go on is -1.
STATUSES = tuple(Status)
RUNNING = -1


def code(status: Status) -> int:
    """The number of a status."""
    return STATUSES.index(status)


@pytree("method")
@dataclass(frozen=True, eq=False)
class Result:
    """What `minimize` and `path` return: the fields of `fwflow.Result` as arrays, with a leading axis for a batch.

    Attributes
    ----------
    x : array or tree of arrays
        The last iterate.
    fun, gap : array
        Objective and Frank-Wolfe gap, computed afresh at x, for linear models in double precision.
    resolution : array
        What rounding in the type of x may make of a gap: a run cannot tell smaller ones from zero.
    nit, n_grad, n_lmo : array of int
        Iterations, gradients and oracle calls, verification included.
    status : array of int
        Why the run ended; `statuses` says it as `fwflow.Status`.
    success : array of bool
        True exactly if the gap, verified at x, is within the tolerance, and x was not found outside the set.
    feasible : array of bool, or None
        Whether x is in the set; None if the set cannot tell.
    trace : dict of arrays, or None
        With ``trace=True``: "fun", "gap" and "step" by iteration, NaN where they were not looked at.
    method : str
        What ran.
    """

    x: Any
    fun: Array
    gap: Array
    resolution: Array
    nit: Array
    n_grad: Array
    n_lmo: Array
    status: Array
    success: Array
    feasible: Array | None
    trace: dict[str, Array] | None
    method: str

    @property
    def statuses(self) -> Any:
        """The status, or an array of them, as `fwflow.Status`."""
        return np.array(STATUSES, dtype=object)[np.asarray(self.status)]

    @property
    def message(self) -> Any:
        """What happened, in words; an array of texts for a batch."""
        words = np.vectorize(lambda status: status.value, otypes=[object])(self.statuses)
        return words if np.ndim(words) else words.item()
