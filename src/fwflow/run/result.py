"""Status and result of a run, and the state from which it can continue."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from fwflow import _storage
from fwflow._fingerprints import Origin
from fwflow._storage import storable
from fwflow._validation import Array, float_array
from fwflow.designs import Counts
from fwflow.methods.auto import Choice
from fwflow.methods.base import Proposal
from fwflow.methods.problem import Evaluation
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.points.lowrank import LowRank
from fwflow.points.point import Lifted, Point
from fwflow.run import display
from fwflow.run.stopping import Progress
from fwflow.run.trace import Trace


class Status(Enum):
    """Reason for the end of a run; the value is a sentence for the user.

    ``TOLERANCE``, ``ITERATIONS``, ``TIME``, ``PRECISION``, ``FINISHED``, ``CALLBACK``, ``INTERRUPTED``,
    ``INCONSISTENT``, ``NUMERICAL``, ``DATA`` and ``INFEASIBLE`` are its members.

    See Also
    --------
    Result : Holds the status of a run.
    minimize : Arguments that limit a run.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> r = fw.minimize(fw.Quadratic(np.eye(3), [0.7, 0.3, -1.0]), fw.Simplex(), method="fw", max_iter=3)
    >>> r.status is fw.Status.ITERATIONS
    True
    >>> print(r.status.value)
    The iteration limit was reached; raise max_iter, or continue with state=result.state.
    """

    TOLERANCE = "The gap, verified at the returned point, is within the tolerance."
    ITERATIONS = "The iteration limit was reached; raise max_iter, or continue with state=result.state."
    TIME = "The time limit was reached; raise max_time, or continue with state=result.state."
    PRECISION = "The gap cannot become smaller because of rounding errors."
    FINISHED = "The method cannot improve the point further; the gap bounds the remaining error."
    CALLBACK = "The callback stopped the run."
    INTERRUPTED = "The run was interrupted; the best point so far is returned, and result.state continues the run."
    INCONSISTENT = "Function values contradict the gradient or the oracle, so the gap proves nothing."
    NUMERICAL = "The computation failed; the best point so far is returned."
    DATA = "The data cannot be read; the best point so far is returned, and result.state continues the run."
    INFEASIBLE = "No point satisfies the constraints; the multipliers result.y prove it."


@storable(
    "state",
    valid=lambda state: (
        state.method != "" and state.k <= len(state.trace) <= state.k + 1 and 0 <= state.elapsed < math.inf
    ),
)
@dataclass
class State:
    """State of a run between two iterations, complete enough to continue it exactly.

    Callbacks receive it, and it is returned as ``result.state``. Fields that are not listed here belong to the loop.

    Attributes
    ----------
    k : int
        Number of iterations done.
    x : array or LowRank
        The iterate x^(k).
    fun, gap : float
        Value and gap at x^(k), as in the last row of the trace.
    trace : Trace
        Trace of the run up to x^(k).

    See Also
    --------
    minimize : Takes a state, and calls callbacks with it.
    Result : Holds the state at the end of a run.
    storable : Classes that a state may contain.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f, C = fw.Quadratic(np.eye(3), [0.7, 0.3, -1.0]), fw.Simplex()
    >>> r = fw.minimize(f, C, method="fw", max_iter=5)
    >>> fw.minimize(f, C, method="fw", max_iter=5, state=r.state).nit
    10
    """

    point: Point
    method: str = ""  # signature of the method; empty before the first step
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
    #: Whether the iterate and the best iterate are mixtures of members, and therefore members.
    inside: bool = False
    best_inside: bool = False
    progress: Progress = field(default_factory=Progress)
    counts: Counts = field(default_factory=Counts)
    trace: Trace = field(default_factory=Trace)
    #: Identity of the problem.
    origin: Origin | None = field(default=None, repr=False)

    @property
    def x(self) -> Any:
        return self.point.x

    def __repr__(self) -> str:
        method = f"{self.method.partition('(')[0]}, " if self.method else ""
        shape = " x ".join(map(str, self.x.shape))
        return f"State({method}k={self.k}, fun={self.fun:.6g}, gap={self.gap:.3g}, x of {shape} entries)"

    def advance(self, proposal: Proposal, point: Point, hint: Lifted | None, check: bool) -> None:
        """Move to the next iterate in one statement, so that an interrupt cannot leave it half done."""
        self.__dict__.update(
            point=point,
            inside=self.inside and proposal.mixture,
            progress=self.progress.stepped(self.point, point, check),
            step=proposal.step,
            memory=proposal.memory,
            gap_estimate=proposal.gap_estimate,
            known=proposal.known if point is proposal.point else None,
            hint=hint,
            k=self.k + 1,
        )

    def save(self, path: str | Path) -> None:
        """Write the state to a file, completely or not at all.

        The file is an ``.npz`` with arrays and a JSON document. It contains no code, and only a fingerprint of the
        problem. The memory of your own methods, momenta or line searches must be data or registered with `storable`;
        otherwise an error names the field.

        Parameters
        ----------
        path : str or Path
            No suffix is added.

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
        """Read a state written by `save`, without running any code in the file.

        A file that is damaged, of another kind, or newer than this version of the library raises a ValueError. Whether
        the state belongs to the problem is checked by `minimize`.
        """
        return _storage.load(path, State)


@dataclass(frozen=True, eq=False)
class Result:
    """Result of `minimize`, similar to `scipy.optimize.OptimizeResult`.

    Attributes
    ----------
    x : array or LowRank
        The last iterate; after an interrupt or a failure, the best one.
    fun, gap : float
        Objective and certified Frank-Wolfe gap, computed again at x: ``fun - min f <= gap`` for convex f.
    nit : int
        Number of iterations.
    n_grad, n_lmo : int
        Numbers of gradients and oracle calls, verification included.
    n_design : float
        Number of passes over the design matrix, verification included; a product with a few columns counts as their
        share of the columns.
    status : Status
        Reason for the end of the run.
    success : bool
        Whether the gap, verified at x, is within the tolerance, and x is not known to be outside the set.
    message : str
        Sentence on the end of the run.
    feasible : bool or None
        Whether x is in the set; None if the set has no test.
    trace : Trace
        Value, gap, time and counts of every iteration.
    method : Choice
        Name of the method that ran, a string; ``method.why`` is the reason for the choice.
    active_set : ActiveSet, BlockSet or None
        x as a mixture of vertices, or one mixture for each summand of C (corrective and blended pairwise steps on
        products and sums). Methods with an active set return it, the flow except on boxes, and tableaus while the
        vertices take at most 100 times the memory of x and 256 MB. None for projected gradient, for factored x, with
        momentum that averages vertices, and if x is not the last iterate. ``minimize(..., x0=result.active_set)``
        starts from it; if it is None, pass ``x0=result.x``.
    state : State
        Pass it back as ``minimize(..., state=result.state)`` to continue.
    seconds : float
        Time from the start of the run to its last iterate, without the verification. The time of a run that was
        continued includes that of the earlier calls.
    start_values : array or None
        Values that were reached from all starting points, if ``starts`` is larger than 1; NaN for a start that did not
        run. The counts are then those of all runs; all other fields belong to the best run.

    See Also
    --------
    minimize : Returns a result.
    Status : Reasons for the end of a run.
    Trace : Record of a run.
    ActiveSet : Solution as a mixture of vertices.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> r = fw.minimize(fw.Quadratic(np.eye(3), [0.7, 0.3, -1.0]), fw.Simplex())
    >>> r.success, r.x.round(6), r.gap <= 1e-6
    (True, array([0.7, 0.3, 0. ]), True)
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
    start_values: Array | None = field(default=None, repr=False)

    @property
    def seconds(self) -> float:
        return self.state.elapsed

    def __repr__(self) -> str:
        return "\n".join(f"{name:>9}: {value}" for name, value in self._rows())

    def to_dict(self) -> dict[str, Any]:
        """Return the result as numbers, texts, lists and dictionaries of Python.

        The keys are ``x``, ``dtype``, ``fun``, ``gap``, ``nit``, ``n_grad``, ``n_lmo``, ``n_design``, ``status``,
        ``success``, ``message``, ``feasible``, ``method``, ``why`` (the reason for the method), ``seconds``,
        ``start_values`` (a list, or None for one start) and ``trace`` (a dictionary of lists). A factored x is a
        dictionary with the lists ``U`` and ``V``. The state and the active set are left out: `State.save` stores what a
        run needs to continue.

        Examples
        --------
        >>> import numpy as np, fwflow as fw
        >>> d = fw.minimize(fw.Quadratic(np.eye(2)), fw.Box(1.0, 2.0)).to_dict()
        >>> d["x"], d["status"], d["success"]
        ([1.0, 1.0], 'TOLERANCE', True)
        """
        if isinstance(self.x, LowRank):
            x, dtype = {"U": self.x.U.tolist(), "V": self.x.V.tolist()}, self.x.U.dtype.name
        else:
            array = float_array(self.x, "x")
            x, dtype = array.tolist(), array.dtype.name
        return {
            "x": x,
            "dtype": dtype,
            "fun": float(self.fun),
            "gap": float(self.gap),
            "nit": int(self.nit),
            "n_grad": int(self.n_grad),
            "n_lmo": int(self.n_lmo),
            "n_design": float(self.n_design),
            "status": self.status.name,
            "success": bool(self.success),
            "message": self.message,
            "feasible": self.feasible,
            "method": str(self.method),
            "why": str(self.method.why),
            "seconds": float(self.seconds),
            "start_values": None if self.start_values is None else self.start_values.tolist(),
            "trace": {name: self.trace[name].tolist() for name in self.trace},
        }

    def to_json(self, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text, in which numbers that are not finite are ``null``.

        All finite numbers are written exactly, so that ``numpy.array(d["x"], d["dtype"])`` is x, for
        ``d = json.loads(text)``.

        Parameters
        ----------
        indent : int, optional
            Number of spaces of an indentation. Default: one line.

        Examples
        --------
        >>> import json, numpy as np, fwflow as fw
        >>> r = fw.minimize(fw.Quadratic(np.eye(3), [0.7, 0.3, -1.0]), fw.Simplex())
        >>> d = json.loads(r.to_json())
        >>> bool((np.array(d["x"], d["dtype"]) == r.x).all()), d["trace"]["step"][0]
        (True, None)
        """
        return json.dumps(_finite(self.to_dict()), allow_nan=False, indent=indent)

    def _repr_html_(self) -> str:
        """Return what notebooks show: the same rows, and a plot of the gap."""
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


def _finite(value: Any) -> Any:
    """Return a value with None in place of numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
