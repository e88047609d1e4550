"""Trajectories of the flow: by small steps, or over polytopes exactly, from event to event."""

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
from fwflow._validation import Array, describe, float_array, number, positive, whole
from fwflow.methods.exact_flow import Event
from fwflow.methods.newton_flow import Sliding
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import stacked
from fwflow.run.loop import minimize
from fwflow.run.result import Result, Status
from fwflow.sets import ConstraintSet
from fwflow.steps.schedules import OpenLoop
from fwflow.tableau.scheme import Tableau


def rate_bound(t: ArrayLike, c: float = 2.0) -> Any:
    r"""Return the bound on the error of the flow, :math:`E(t)/E(0) \le (c/(c+t))^c`.

    Examples
    --------
    >>> import fwflow as fw
    >>> float(fw.rate_bound(2.0, c=2.0))
    0.25
    """
    return (c / (c + float_array(t, "t").astype(float))) ** c


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Samples of the flow: times, points (one per row), and the objective and gap there."""

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
        Time step; the last sample is the first one at or after `t_end`.
    method : str or Tableau
        Scheme of the small steps.
    every : int
        Number of steps between two samples, to bound memory.

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

    options: dict[str, Any] = {"method": method, "schedule": OpenLoop(c=c, delta=delta), "max_iter": steps}
    result = minimize(f, C, x0, tol=0.0, callback=keep, progress=progress, **options)
    sample = slice(0, len(result.trace), every)
    t = delta * np.arange(len(result.trace))
    x = np.stack(kept) if kept else np.zeros((0, *result.x.shape))
    return Trajectory(t[sample], x, result.trace["fun"][sample], result.trace["gap"][sample], result)


@dataclass(frozen=True, eq=False)
class ExactTrajectory:
    """The flow as an exact function of time, similar to the dense output of SciPy's integrators.

    Between two events the flow moves straight towards a target, and covers the share ``1 - exp(-tau)`` of the distance
    in time tau.

    Attributes
    ----------
    x0 : array
        Start.
    events : tuple of Event
        Times at which the target changes, with the new targets and the vertices that enter and leave; the first event
        is the start.
    result : Result
        Result at the end; for quadratics at the exact minimiser.
    tau_end : float
        Last known time; later times are an error. Infinite if all events are known.
    """

    x0: Array
    events: tuple[Event, ...]
    result: Result
    tau_end: float

    def __call__(self, t: ArrayLike, c: float = 2.0) -> Array:
        """Return the point at time t of the schedule c / (c + t), one row per time if there are several."""
        c = number(c, "c", "be at least 1 and finite", lambda x: 1 <= x < math.inf)
        return self.at(c * np.log1p(_times(t) / c))

    def at(self, tau: ArrayLike) -> Array:
        """Return the point at time tau, the integral of gamma, for any schedule."""
        tau = _times(tau)
        turns = np.array([event.tau for event in self.events])
        if (tau > self.tau_end * (1 + 1e-12)).any():
            raise ValueError(
                f"times must not exceed tau = {self.tau_end:g}, the end of the trajectory; got {tau.max():g}"
            )
        now = np.minimum(tau.reshape(-1, 1), turns[-1] + 750.0)  # exp(-750) is zero: only the last target counts
        passed = np.exp(np.minimum(now, np.append(turns, np.inf)) - now)  # decays since each event
        x = dot(np.diff(passed, axis=1), self._targets) + passed[:, :1] * self.x0.reshape(-1)
        return np.asarray(x, dtype=self.x0.dtype).reshape(*tau.shape, *self.x0.shape)

    @cached_property
    def _targets(self) -> sp.csr_array:
        return sp.csr_array(stacked([event.target for event in self.events]))


def _times(t: ArrayLike) -> Array:
    t = float_array(t, "t").astype(float)
    if not (t >= 0).all():
        raise ValueError(f"times must not be negative or NaN; got {describe(t)}")
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

    Other linear models take implicit steps to points at which the vertices of the step are the oracle's answers, so x
    slides along faces where small steps of Frank-Wolfe would zig-zag. The error is of first order in `step`, for sets
    of any size and losses that saturate. Times of events are exact up to a step.

    Parameters
    ----------
    f : Quadratic or LinearModel
    C : ConstraintSet
        A polytope.
    x0 : array_like, optional
        As in `minimize`.
    max_events : int
        For quadratics: largest number of events, after which the trajectory is left incomplete.
    tau_end, step : float
        For other losses: end and step, in the time :math:`\tau = c \log(1 + t/c)` for the schedule c/(c+t), the
        integral of gamma.
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
    start = _followed(f, C, x0, method="flow", max_iter=0)
    if f.quadratic:
        result = _followed(f, C, start.x, method="flow", max_iter=max_events, progress=progress)
        events = result.state.memory.events
        complete = result.status is Status.FINISHED
        return ExactTrajectory(start.x, events, result, math.inf if complete else events[-1].tau)
    if f.ahead(start.state.point, 1.0) is None:
        raise ValueError(
            f"f must be a quadratic or a linear model; got {type(f).__name__}, for which fw.flow takes small steps"
        )
    sliding = Sliding(tau_end, step)
    result = _followed(f, C, start.x, method=sliding, max_iter=sliding.steps, progress=progress)
    return ExactTrajectory(start.x, result.state.memory.events, result, tau_end)


def _followed(f: Objective, C: ConstraintSet, x0: Any, **options: Any) -> Result:
    """Run to the limits, and raise an error if the run is interrupted or fails."""
    result = minimize(f, C, x0, tol=0.0, **options)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if result.status in (Status.NUMERICAL, Status.DATA):
        raise ValueError(f"the flow cannot be followed: {result.message}")
    return result
