"""Where does the flow go? Followed by small steps, or over polytopes exactly, from event to event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._numerics import dot
from fwflow._validation import Array, float_array, number, positive, whole
from fwflow.methods.exact_flow import Event
from fwflow.methods.implicit_flow import Sliding
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import stacked
from fwflow.run.loop import minimize
from fwflow.run.result import Result, Status
from fwflow.sets import ConstraintSet
from fwflow.steps.schedules import OpenLoop
from fwflow.tableau.scheme import Tableau


def rate_bound(t: ArrayLike, c: float = 2.0) -> Any:
    r"""The flow's bound on its error: :math:`E(t)/E(0) \le (c/(c+t))^c`.

    Examples
    --------
    >>> import fwflow as fw
    >>> float(fw.rate_bound(2.0, c=2.0))
    0.25
    """
    return (c / (c + float_array(t, "t").astype(float))) ** c


@dataclass(frozen=True, eq=False)
class Trajectory:
    """The flow, sampled: times, one point per row, and the objective and gap there."""

    t: Array
    x: Array
    fun: Array
    gap: Array
    result: Result


def flow(
    f: Objective,
    C: ConstraintSet | Callable[[Any], Any],
    x0: Any = None,
    *,
    t_end: float,
    c: float = 2.0,
    delta: float = 1e-2,
    method: str | Tableau = "fw",
    every: int = 1,
    progress: bool = False,
) -> Trajectory:
    r"""Follow :math:`x'(t) = \gamma(t)(s(t) - x(t))`, :math:`\gamma(t) = c/(c+t)`, from 0 to `t_end`.

    Parameters
    ----------
    f, C, x0
        As in `minimize`.
    t_end : float
    c : float
        At least 1.
    delta : float
        Time step; the last sample is the first at or after `t_end`.
    method : str or Tableau
        The scheme that takes the small steps.
    every : int
        Keep the start and every k-th point after it, for this k, to bound memory.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> path = fw.flow(fw.Quadratic(np.eye(2)), fw.L2Ball(1.0), [1.0, 0.0], t_end=1.0)
    >>> error = path.fun / path.fun[0]
    >>> bool((error <= fw.rate_bound(path.t)).all())
    True
    """
    positive(t_end, "t_end")
    every = whole(every, "every", 1)
    steps = math.ceil(t_end / positive(delta, "delta") - 1e-9)
    kept: list[Array] = []

    def keep(state: Any) -> None:
        if state.k % every == 0:
            kept.append(np.asarray(state.x))

    result = minimize(
        f,
        C,
        x0,
        method=method,
        schedule=OpenLoop(c=c, delta=delta),
        tol=0.0,
        max_iter=steps,
        callback=keep,
        progress=progress,
    )
    sample = slice(0, len(result.trace), every)
    t = delta * np.arange(len(result.trace))
    x = np.stack(kept) if kept else np.zeros((0, *result.x.shape))
    return Trajectory(t[sample], x, result.trace["fun"][sample], result.trace["gap"][sample], result)


@dataclass(frozen=True, eq=False)
class ExactTrajectory:
    """The flow as a function of time, like the dense output of SciPy's integrators but exact.

    Between two events the flow heads straight for a target, covering a share ``1 - exp(-tau)`` of the way in time tau.

    Attributes
    ----------
    x0 : array
        Where it starts.
    events : tuple of Event
        When it turned, towards what, and which vertices came and went; the first is the start.
    result : Result
        Where it ends: for quadratics at the exact minimiser.
    tau_end : float
        Until when it is known; later times are refused. Infinite if all events are known.
    """

    x0: Array
    events: tuple[Event, ...]
    result: Result
    tau_end: float

    def __call__(self, t: ArrayLike, c: float = 2.0) -> Array:
        """The point at time t of the schedule c / (c + t); one row per time if there are several."""
        c = number(c, "c", "be at least 1 and finite", lambda x: 1 <= x < math.inf)
        return self.at(c * np.log1p(_times(t) / c))

    def at(self, tau: ArrayLike) -> Array:
        """The point at time tau, the integral of gamma, for schedules of any kind."""
        tau = _times(tau)
        turns = np.array([event.tau for event in self.events])
        if (tau > self.tau_end * (1 + 1e-12)).any():
            raise ValueError(f"times must not exceed tau = {self.tau_end:g}: what comes after was not computed")
        now = np.minimum(tau.reshape(-1, 1), turns[-1] + 750.0)  # nothing is left of where it came from
        passed = np.exp(np.minimum(now, np.append(turns, np.inf)) - now)  # decays since each turn
        x = dot(np.diff(passed, axis=1), self._targets) + passed[:, :1] * self.x0.reshape(-1)
        return np.asarray(x, dtype=self.x0.dtype).reshape(*tau.shape, *self.x0.shape)

    @cached_property
    def _targets(self) -> sp.csr_array:
        return sp.csr_array(stacked([event.target for event in self.events]))


def _times(t: ArrayLike) -> Array:
    t = float_array(t, "t").astype(float)
    if not (t >= 0).all():
        raise ValueError("times must not be negative or NaN")
    return t


def exact_flow(
    f: Objective,
    C: ConstraintSet,
    x0: Any = None,
    *,
    max_events: int = 10_000,
    tau_end: float = 10.0,
    step: float = 0.05,
    progress: bool = False,
) -> ExactTrajectory:
    r"""Follow the flow over a polytope from event to event: exactly for quadratics, without a time step.

    Other linear models take implicit steps, to where the vertices that x has headed for are the best: x slides along
    faces where small steps of Frank-Wolfe would zig-zag. The error is of first order in `step`, however large the set
    is and however the loss saturates, and events are known to within a step.

    Parameters
    ----------
    f : Quadratic or LinearModel
    C : ConstraintSet
        A polytope.
    x0 : array_like, optional
        As in `minimize`.
    max_events : int
        For quadratics: after so many the trajectory is left incomplete.
    tau_end, step : float
        For other losses: how far to go, and in which steps. Time is the integral of gamma,
        :math:`\tau = c \log(1 + t/c)` for the schedule c/(c+t).
    progress : bool
        Show a progress bar.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> sol = fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull([[-1, 0], [0, 1], [1, 0]]), [0.0, 1.0])
    >>> sol(2.0), len(sol.events)
    (array([0.  , 0.25]), 2)
    """
    max_events = whole(max_events, "max_events", 1)
    tau_end, step = positive(tau_end, "tau_end"), positive(step, "step")
    start = _followed(minimize(f, C, x0, method="flow", tol=0.0, max_iter=0))
    if f.quadratic:
        result = _followed(minimize(f, C, start.x, method="flow", tol=0.0, max_iter=max_events, progress=progress))
        events = result.state.memory.events
        complete = result.status is Status.FINISHED
        return ExactTrajectory(start.x, events, result, math.inf if complete else events[-1].tau)
    if f.ahead(start.state.point, 1.0) is None:
        raise ValueError(f"f must be a quadratic or a linear model; for a {type(f).__name__} take fw.flow")
    sliding = Sliding(tau_end, step)
    result = _followed(minimize(f, C, start.x, method=sliding, tol=0.0, max_iter=sliding.steps, progress=progress))
    return ExactTrajectory(start.x, result.state.memory.events, result, tau_end)


def _followed(result: Result) -> Result:
    """The result, if the run came as far as it was meant to."""
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if result.status in (Status.NUMERICAL, Status.DATA):
        raise ValueError(f"the flow cannot be followed: {result.message}")
    return result
