"""How did it end? The status, the result, and the state from which a run can go on."""

from __future__ import annotations

import os
import pickle
import tempfile
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from fwflow.methods.atoms import ActiveSet
from fwflow.methods.base import Proposal
from fwflow.objectives.base import Counts
from fwflow.points import Lifted, LowRank, Point
from fwflow.problem import Evaluation
from fwflow.trace import Trace


class Status(Enum):
    """Why a run ended; the value says it in words."""

    TOLERANCE = "The gap, verified at the returned point, is within the tolerance."
    ITERATIONS = "The iteration limit was reached; raise max_iter, or continue with state=result.state."
    TIME = "The time limit was reached; raise max_time, or continue with state=result.state."
    FINISHED = "The method has come to its end: it sees nothing left to improve. The gap says how exact that is."
    CALLBACK = "The callback stopped the run."
    INTERRUPTED = "The run was interrupted; the best point so far is returned, and result.state continues the run."
    NUMERICAL = "The computation failed; the best point so far is returned."


@dataclass
class State:
    """A run between two iterations: everything needed to continue it exactly.

    Passed to callbacks, and returned as ``result.state``.

    Attributes
    ----------
    k : int
        Iterations done.
    x : array or LowRank
        The iterate x^(k).
    fun, gap : float
        At x^(k), as in the last row of the trace.
    """

    method: str
    point: Point
    memory: Any
    hint: Lifted | None = None
    step: float = np.nan
    gap_estimate: float = np.nan
    known: Evaluation | None = None
    k: int = 0
    fun: float = np.nan
    gap: float = np.nan
    first_gap: float = np.nan
    elapsed: float = 0.0
    best_fun: float = np.inf
    best: Point | None = None
    counts: Counts = field(default_factory=Counts)
    trace: Trace = field(default_factory=Trace)

    @property
    def x(self) -> Any:
        return self.point.x

    def advance(self, proposal: Proposal, point: Point, hint: Lifted | None) -> None:
        """Go on to the next iterate, in one piece: an interrupt comes before or after."""
        self.__dict__.update(
            point=point,
            step=proposal.step,
            memory=proposal.memory,
            gap_estimate=proposal.gap_estimate,
            known=proposal.known if point is proposal.point else None,
            hint=hint,
            k=self.k + 1,
        )

    def save(self, path: str | Path) -> None:
        """Write the state to a file, completely or not at all."""
        path = Path(path)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as file:
                pickle.dump(self, file, protocol=pickle.HIGHEST_PROTOCOL)
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    @staticmethod
    def load(path: str | Path) -> State:
        """Read a state written by `save`. It is a pickle: load only files that you trust."""
        try:
            with open(path, "rb") as file:
                state = pickle.load(file)
        except (pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, UnicodeDecodeError) as error:
            raise ValueError(f"path: {str(path)!r} does not hold a fwflow state ({error})") from error
        if not isinstance(state, State):
            raise ValueError(f"path: {str(path)!r} does not hold a fwflow state")
        return state


@dataclass(frozen=True, eq=False)
class Result:
    """What `minimize` returns, in the spirit of `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    x : array or LowRank
        The last iterate; after an interrupt or a failure, the best one.
    fun, gap : float
        Objective and certified Frank-Wolfe gap, computed afresh at x: ``fun - min f <= gap`` for convex f.
    nit : int
        Iterations done.
    n_grad, n_lmo : int
        Gradients and oracle calls, verification included.
    n_design : float
        Passes over the design matrix, verification included; a product with a few columns counts as their share.
    status : Status
    success : bool
        True only if the tolerance was verified at x, and x was not found outside the set.
    message : str
    feasible : bool or None
        Whether x is in the set; None if the set cannot tell.
    trace : Trace
    active_set : ActiveSet or None
        x as a mixture of vertices, from methods that know it: those with an active set, the flow but on boxes, and
        tableaus while the vertices take at most 100 times the memory of x (and 256 MB). None from projected gradient,
        for factored x, where momentum aims at averages of vertices, and where x is not the last iterate.
        ``minimize(..., x0=result.active_set)`` starts from it; where it is None, pass ``x0=result.x``.
    state : State
        Pass it back as ``minimize(..., state=result.state)`` to continue.
    """

    x: Any
    fun: float
    gap: float
    nit: int
    n_grad: int
    n_lmo: int
    n_design: float
    status: Status
    success: bool
    message: str
    feasible: bool | None
    trace: Trace = field(repr=False)
    active_set: ActiveSet | None = field(repr=False)
    state: State = field(repr=False)

    def __repr__(self) -> str:
        x = self.x if isinstance(self.x, LowRank) else np.array2string(self.x, threshold=6, edgeitems=2, precision=4)
        rows = [
            ("message", self.message),
            ("success", self.success),
            ("status", self.status.name),
            ("fun", f"{self.fun:.10g}"),
            ("gap", f"{self.gap:.3e}"),
            ("x", x),
            ("nit", self.nit),
            ("n_grad", self.n_grad),
            ("n_lmo", self.n_lmo),
            ("n_design", f"{self.n_design:g}"),
            ("feasible", self.feasible),
        ]
        return "\n".join(f"{name:>9}: {value}" for name, value in rows)
