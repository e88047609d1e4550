"""How did it end? The status, the result, and the state from which a run can go on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from fwflow import _storage
from fwflow._fingerprints import Origin
from fwflow._storage import storable
from fwflow.designs import Counts
from fwflow.methods.auto import Choice
from fwflow.methods.base import Proposal
from fwflow.methods.problem import Evaluation
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.points.point import Lifted, Point
from fwflow.run import display
from fwflow.run.stopping import Progress
from fwflow.run.trace import Trace


class Status(Enum):
    """Why a run ended; the value says it in words."""

    TOLERANCE = "The gap, verified at the returned point, is within the tolerance."
    ITERATIONS = "The iteration limit was reached; raise max_iter, or continue with state=result.state."
    TIME = "The time limit was reached; raise max_time, or continue with state=result.state."
    PRECISION = "The gap can fall no further: what is left of it is within the rounding of the arithmetic."
    FINISHED = "The method has come to its end: it sees nothing left to improve. The gap says how exact that is."
    CALLBACK = "The callback stopped the run."
    INTERRUPTED = "The run was interrupted; the best point so far is returned, and result.state continues the run."
    INCONSISTENT = "Function values contradict the gradient or the oracle, so the gap proves nothing."
    NUMERICAL = "The computation failed; the best point so far is returned."
    DATA = "The data is out of reach; the best point so far is returned, and result.state continues the run."


@storable(
    "state",
    valid=lambda state: (
        state.method != "" and state.k <= len(state.trace) <= state.k + 1 and 0 <= state.elapsed < math.inf
    ),
)
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

    point: Point
    method: str = ""  # the signature of the method that goes on from here; none has begun yet
    memory: Any = None
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
    #: Whether the iterate, and the best one, are mixtures of members, so that they are members themselves.
    inside: bool = False
    best_inside: bool = False
    progress: Progress = field(default_factory=Progress)
    counts: Counts = field(default_factory=Counts)
    trace: Trace = field(default_factory=Trace)
    #: Which problem this is a run of.
    origin: Origin | None = field(default=None, repr=False)

    @property
    def x(self) -> Any:
        return self.point.x

    def advance(self, proposal: Proposal, point: Point, hint: Lifted | None, look: bool) -> None:
        """Go on to the next iterate, in one piece: an interrupt comes before or after."""
        self.__dict__.update(
            point=point,
            inside=self.inside and proposal.mixture,
            progress=self.progress.stepped(self.point, point, look),
            step=proposal.step,
            memory=proposal.memory,
            gap_estimate=proposal.gap_estimate,
            known=proposal.known if point is proposal.point else None,
            hint=hint,
            k=self.k + 1,
        )

    def save(self, path: str | Path) -> None:
        """Write the state to a file, completely or not at all.

        The file is an ``.npz`` of arrays and a JSON document. It holds no code, and of the problem a fingerprint only.
        What a method, momentum or line search of your own keeps is saved if it is data or registered with `storable`;
        otherwise the error says which field is not.

        Parameters
        ----------
        path : str or Path
            Taken as it is: no suffix is added.

        Examples
        --------
        >>> import tempfile, numpy as np, fwflow as fw
        >>> f, C, path = fw.Quadratic(np.eye(3), [0.7, 0.3, -1.0]), fw.Simplex(), tempfile.mkdtemp() + "/run.npz"
        >>> fw.minimize(f, C, method="rk44", tol=0, max_iter=10).state.save(path)
        >>> fw.minimize(f, C, method="rk44", tol=0, max_iter=10, state=fw.State.load(path)).nit
        20
        """
        _storage.save(self, path)

    @staticmethod
    def load(path: str | Path) -> State:
        """Read a state written by `save`. Nothing in the file is run, whoever wrote it.

        A file that is damaged, of another kind, or newer than this version of the library is refused with a ValueError
        that says why. That a state belongs to the problem at hand is checked by `minimize`.
        """
        return _storage.load(path, State)


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
        True exactly if the gap, verified at x, is within the tolerance, and x was not found outside the set.
    message : str
    feasible : bool or None
        Whether x is in the set; None if the set cannot tell.
    trace : Trace
    method : Choice
        The name of what ran, a string; ``method.why`` says why it was chosen.
    active_set : ActiveSet, BlockSet or None
        x as a mixture of vertices, or as one for every set of which C is the sum (corrective and blended pairwise steps
        on products and sums), from methods that know it: those with an active set, the flow but on boxes, and
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
    active_set: Decomposition | None = field(repr=False)
    state: State = field(repr=False)
    method: Choice = Choice("", "")  # noqa: RUF009

    def __repr__(self) -> str:
        return "\n".join(f"{name:>9}: {value}" for name, value in self._rows())

    def _repr_html_(self) -> str:
        """What notebooks show: the same rows, and how the gap fell."""
        return display.beside(display.fields(self._rows()), self.trace.to_svg())

    def _rows(self) -> list[tuple[str, object]]:
        with np.printoptions(threshold=6, edgeitems=2, precision=4):
            x = str(self.x)
        return [
            ("message", self.message),
            ("success", self.success),
            ("status", self.status.name),
            ("method", self.method),
            ("fun", f"{self.fun:.10g}"),
            ("gap", f"{self.gap:.3e}"),
            ("x", x),
            ("nit", self.nit),
            ("n_grad", self.n_grad),
            ("n_lmo", self.n_lmo),
            ("n_design", f"{self.n_design:g}"),
            ("feasible", self.feasible),
        ]
