"""How did it end? Results as trees of arrays: of one problem, or of as many as ``vmap`` or a path makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow.jax.trees import Array, pytree
from fwflow.run.result import Status

#: Statuses by their number; the number of those that go on is -1.
STATUSES = tuple(Status)
RUNNING = -1
#: The status of a run whose oracle contradicts itself.
CONTRADICTION = Status.INCONSISTENT


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
        Objective and Frank-Wolfe gap, computed afresh at x for the data in the type in which JAX holds it. They are
        computed in double precision, whatever the type of x, unless a user's own function or oracle cannot: because it
        rounds to single precision itself, draws random numbers, calls the host, or closes over 64-bit arrays. Then
        they have the precision of x, and `rounding` equals `resolution`. A gap that is negative by more than
        `resolution` shows that x is not in the set, or that the oracle is wrong.
    resolution : array
        What rounding in the type of x may make of a gap: a run cannot tell smaller ones from zero.
    rounding : array
        What rounding may make of this gap: `resolution` in the precision in which the gap was computed.
    nit, n_grad, n_lmo : array of int
        Iterations, gradients and oracle calls, verification included.
    status : array of int
        Why the run ended; `statuses` says it as `fwflow.Status`.
    success : array of bool
        True exactly if the gap, verified at x, and its rounding are within the tolerance, x was not found outside the
        set, and a user's oracle did not contradict itself.
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
    rounding: Array
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
