"""Results as pytrees of arrays, for one problem or for a batch."""

from __future__ import annotations

from typing import Any

import numpy as np

from fwflow.jax.trees import Array, pytree
from fwflow.run.result import Status

#: Number of a status in compiled code: its place here. A run that goes on has RUNNING.
STATUSES = tuple(Status)
RUNNING = -1


@pytree("method")
class Result:
    """Result of `minimize` and `path`: fields of `fwflow.Result` as arrays, with a leading axis for a batch.

    Attributes
    ----------
    x : array or tree of arrays
        The last iterate.
    fun, gap : array
        Objective and Frank-Wolfe gap, verified at x for the data as JAX holds it. They are computed in double
        precision, also for an x in single precision, unless a user's function or oracle rounds to single precision,
        draws random numbers, calls the host, or closes over 64-bit arrays. Then they have the precision of x, and
        `rounding` equals `resolution`. A gap that is negative by more than `resolution` shows that x is not in the set
        or that the oracle is wrong.
    resolution, rounding : array
        Rounding error of a gap that is computed in the type of x, and of this gap in the precision of its computation.
    nit, n_grad, n_lmo : array of int
        Iterations, gradients and oracle calls, including those of the verification.
    status : array of int
        Reason of the end; `statuses` returns it as `fwflow.Status`.
    success : array of bool
        True exactly if the verified gap and its rounding are within the tolerance, x was not found outside the set, and
        a user's oracle did not contradict itself.
    feasible : array of bool, or None
        Whether x is in the set; None if the set cannot decide.
    trace : dict of arrays, or None
        With ``trace=True``: "fun", "gap" and "step" by iteration, NaN where they were not computed.
    method : str
        Name of the method.
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
        """The status as `fwflow.Status`, or an array of them."""
        return np.array(STATUSES, dtype=object)[np.asarray(self.status)]

    @property
    def message(self) -> Any:
        """Text that says why the run ended, or an array of texts."""
        words = np.vectorize(lambda status: status.value, otypes=[object])(self.statuses)
        return words if np.ndim(words) else words.item()
