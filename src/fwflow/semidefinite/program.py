"""Runs of semidefinite programs: points, certificates, verification and results, for all methods."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fwflow._validation import Array
from fwflow.designs import Counts
from fwflow.methods.base import Stepper
from fwflow.methods.problem import Evaluation, Evaluator
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.point import Point
from fwflow.run.loop import run
from fwflow.run.result import State, Status
from fwflow.run.stopping import Limits
from fwflow.run.trace import Trace
from fwflow.run.verification import Checks, Verified
from fwflow.semidefinite.problem import Problem

_EPS = float(np.finfo(np.float64).eps)
# Messages that differ from those of `minimize`, whose runs continue from a state.
_MESSAGES = {
    Status.ITERATIONS: "The iteration limit was reached; raise max_iter.",
    Status.TIME: "The time limit was reached; raise max_time.",
    Status.INTERRUPTED: "The run was interrupted; the best point so far is returned.",
}


class DualBound(NamedTuple):
    """Proved lower bound on the minimum of a semidefinite program.

    Attributes
    ----------
    bound : float
        The bound. It is ``b^T y`` for the multipliers y, with allowances for negative eigenvalues and for rounding.
    y : array
        Multipliers.
    vectors : array, object or None
        Directions of negative curvature of ``C - sum_i y_i A_i`` as columns, the most negative one first, or an object
        that the method understands.
    """

    bound: float
    y: Any
    vectors: Any = None


@dataclass(frozen=True, eq=False)
class Factor(Point):
    """Factor Y of X = Y Y^T, with the value of X and, for some methods, the present multipliers.

    The array may live on a device. Its number of columns may change between iterations.
    """

    #: ``<C, X>``.
    value: float = math.nan
    #: Multipliers of the constraints; None if they follow from Y.
    y: Any = None

    def __post_init__(self) -> None:
        """Leave the array as it is, since it may live on a device."""

    def unmoved_from(self, before: Point) -> bool:
        return before is self


class LowRankProgram(Evaluator):
    """Values, certificates and infeasibility of the points of one run."""

    problem: Problem

    def __init__(self, problem: Problem, deadline: float) -> None:
        self.problem, self.deadline, self.counts = problem, deadline, Counts()

    @property
    def convex(self) -> bool:
        return True

    @abstractmethod
    def certify(self, point: Factor, goal: float) -> DualBound:
        """Return a lower bound on the minimum from the multipliers at a point; `goal` is the gap that is wanted."""

    @abstractmethod
    def infeasibility(self, point: Factor) -> float:
        """Return the violation of the constraints at a point, ``norm(residual) / (1 + norm(b))``."""

    def array(self, point: Factor) -> Array:
        """Return Y as an array of NumPy."""
        return np.asarray(point.x)

    def value(self, point: Point) -> float:
        assert isinstance(point, Factor)
        if not math.isfinite(point.value):
            raise NumericalTrouble(f"the objective is {point.value}")
        return point.value

    #: Tolerance relative to the bound, from which certificates know how accurate they must be.
    rtol: float = 1e-4

    def evaluate(self, point: Point, hint: DualBound | None = None, lift: bool = True) -> Evaluation:
        """Return the best certificate so far, with the directions at the point, and its distance from the value."""
        assert isinstance(point, Factor)
        self.counts.n_lmo += 1
        found = self.certify(point, self.rtol * abs(self.value(point)))
        best = found if hint is None or found.bound > hint.bound else hint._replace(vectors=found.vectors)
        # An infeasible point may have a value below the bound.
        return Evaluation(None, best, abs(self.value(point) - best.bound))

    @property
    def resolution(self) -> float:
        """Gap that is zero up to rounding errors; it counts as within every tolerance."""
        return 0.0

    def rounding(self, point: Point, known: Evaluation) -> float:
        return max(self.resolution, 64 * _EPS * abs(self.value(point)))

    def scale(self, first_gap: float, fun: float, gap: float) -> float:
        """Return a number that is at most the absolute value of the bound, or an estimate if no bound is known."""
        bound = abs(fun) if math.isnan(gap) else min(abs(fun - gap), abs(fun + gap))
        return max(bound, self.resolution / self.rtol if self.rtol else 0.0)


def _best_bound(state: State) -> DualBound | None:
    """Return the best bound so far of a run, which the loop keeps as the hint for the next one."""
    return state.hint  # type: ignore[return-value]


@dataclass(frozen=True)
class _Verification(Checks):
    """Verification of the points of a semidefinite program: the bound is proved when it is computed."""

    program: LowRankProgram
    #: Largest infeasibility of a solution.
    ftol: float

    def verify(self, state: State, point: Point, known: Evaluation | None) -> Verified:
        assert isinstance(point, Factor)
        fun, best = self.program.value(point), _best_bound(state)
        if known is None and self.program.late and best is not None and best.vectors is not None:
            known = Evaluation(None, best, abs(fun - best.bound))  # there is no time for a bound at this point
        if known is None:
            known = self.program.evaluate(point, best)
        return Verified(point, fun, known.gap, 0.0, self.feasible(state, point), exact=(None, point, known))  # type: ignore[arg-type]

    def feasible(self, state: State, point: Point) -> bool:
        assert isinstance(point, Factor)
        return self.program.infeasibility(point) <= self.ftol


@dataclass(frozen=True, eq=False, repr=False)
class SemidefiniteResult:
    """Result of a semidefinite program: a factor Y of X = Y Y^T, its value, and a proved bound.

    Attributes
    ----------
    Y : array of shape (n, rank)
        Factor of the solution. X is never formed.
    value : float
        ``<C, X>``.
    bound : float
        Proved bound: no feasible X has a lower value (for maximisations such as `maxcut`, a higher value).
    gap : float
        ``abs(value - bound)``.
    infeasibility : float
        Violation of the constraints by X, ``norm(residual) / (1 + norm(b))``; rounding errors only if X was repaired.
    y : array
        Multipliers of the constraints that prove the bound.
    rank : int
        Number of columns of Y.
    nit : int
        Number of iterations.
    status : Status
        Reason for the end of the run.
    success : bool
        Whether ``gap <= rtol * abs(bound)``, and the infeasibility is within its tolerance. A gap that is zero up to
        rounding errors counts as zero.
    message : str
        The status as a sentence.
    seconds : float
        Time of the run.
    trace : Trace
        One row per iteration. ``fun`` is the value of the minimisation, and ``fun - gap`` its bound. The gap is NaN
        where no bound was computed. ``n_lmo`` counts the bounds.

    See Also
    --------
    solve : Returns a result.
    maxcut : Returns a result with a cut.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow import semidefinite
    >>> p = semidefinite.Problem(np.array([[0.0, 1.0], [1.0, 0.0]]), [[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0])
    >>> r = semidefinite.solve(p)
    >>> r.success, round(r.value, 6), round(r.bound, 6), (r.Y @ r.Y.T).round(6)
    (True, -2.0, -2.0, array([[ 1., -1.],
           [-1.,  1.]]))
    """

    Y: Array
    value: float
    bound: float
    gap: float
    infeasibility: float
    y: Array
    rank: int
    nit: int
    status: Status
    success: bool
    message: str
    seconds: float
    trace: Trace

    def __repr__(self) -> str:
        rows = [
            ("message", self.message),
            ("success", self.success),
            ("status", self.status.name),
            ("value", f"{self.value:.10g}"),
            ("bound", f"{self.bound:.10g}"),
            ("gap", f"{self.gap:.3e}"),
            ("infeasibility", f"{self.infeasibility:.1e}"),
            ("rank", self.rank),
            ("nit", self.nit),
            ("seconds", f"{self.seconds:.2f}"),
        ]
        return "\n".join(f"{name:>13}: {value}" for name, value in rows)

    def negated(self) -> SemidefiniteResult:
        """Return the result of the same run as a maximisation: ``value <= maximum <= bound``."""
        return replace(self, value=0.0 - self.value, bound=0.0 - self.bound)  # no negative zeros


def execute(
    program: LowRankProgram,
    stepper: Stepper,
    start: Factor,
    memory: Any,
    *,
    known: Evaluation | None = None,
    rtol: float,
    ftol: float,
    max_iter: int,
    max_time: float | None,
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    """Run a method from a point with the loop of the library and return the result.

    `known` is an evaluation at the start, if there is a cheap one.
    """
    limits = Limits.checked(0.0, rtol, max_iter, max_time)
    program.rtol, program.deadline = limits.rtol, min(program.deadline, time.perf_counter() + limits.max_time)
    state = State(point=start, method=repr(stepper), memory=memory, known=known, counts=program.counts)
    ended = run(program, _Verification(program, ftol), stepper, state, limits, callback, progress, stepper.check_every)
    verified = ended.verified
    # A second interrupt skips the verification.
    point, certificate = verified.point, verified.exact[2].vertex if verified.exact else _best_bound(state)
    assert isinstance(point, Factor)
    Y = program.array(point)
    bound = certificate.bound if certificate else -math.inf
    return SemidefiniteResult(
        Y=Y,
        value=verified.fun,
        bound=bound,
        gap=abs(verified.fun - bound),
        infeasibility=program.infeasibility(point),
        y=np.asarray(certificate.y) if certificate else np.zeros(program.problem.map.m),
        rank=Y.shape[1],
        nit=state.k,
        status=ended.status,
        success=ended.success,
        message=_MESSAGES.get(ended.status, ended.status.value) + ended.detail,
        seconds=state.elapsed,
        trace=state.trace,
    )
