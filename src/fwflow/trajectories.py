"""Trajectories of the flow, by small steps or exactly, and the zig-zag energy and empirical rates of trajectories."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._numerics import dot, norm
from fwflow._validation import Array, InputError, describe, float_array, number, positive, suggest, whole
from fwflow.methods.exact_flow import Event
from fwflow.methods.newton_flow import Sliding
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import stacked
from fwflow.run.loop import minimize
from fwflow.run.result import Result, Status
from fwflow.sets import ConstraintSet
from fwflow.steps.schedules import OpenLoop
from fwflow.tableau.scheme import Tableau

__all__ = ["ExactTrajectory", "Trajectory", "ZigZag", "exact_flow", "fit_rate", "flow", "rate_bound", "zigzag_energy"]


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
    """Samples of the flow: times, points (one per row), and the objective values and gaps there."""

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
    t_end, delta : float
        End of the time, and time step. The last sample is the first one at or after `t_end`.
    c : float
        Parameter of gamma, at least 1.
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
    t = delta * np.arange(len(result.trace))
    x = np.stack(kept) if kept else np.zeros((0, *result.x.shape))
    return Trajectory(t[::every], x, result.trace["fun"][::every], result.trace["gap"][::every], result)


@dataclass(frozen=True, eq=False)
class ExactTrajectory:
    """The flow as an exact function of time, similar to the dense output of SciPy's integrators.

    Between events the flow moves straight towards a target, and covers ``1 - exp(-tau)`` of the distance in time tau.

    Attributes
    ----------
    x0 : array
        Start.
    events : tuple of Event
        Changes of the target, with the vertices that enter and leave the face; the first event is the start.
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
            raise ValueError(f"times must not exceed tau_end = {self.tau_end:g} of the trajectory; got {tau.max():g}")
        now = np.minimum(tau.reshape(-1, 1), turns[-1] + 750.0)  # exp(-750) is zero, so x is the last target
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

    Other linear models take implicit steps, which slide along faces where small steps of Frank-Wolfe zig-zag. The error
    is of first order in `step`, for sets of any size and losses that saturate. Times of events are exact up to a step.

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
        For other losses: end and step in the time :math:`\tau = c \log(1 + t/c)`, the integral of gamma = c/(c+t).
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
    follow = partial(whole_run, f, C, failure="the flow cannot be followed")
    start = follow(x0, method="flow", max_iter=0)
    if not f.quadratic and f.ahead(start.state.point, 1.0) is None:
        raise ValueError(f"f must be a quadratic or a linear model; got {type(f).__name__}; use fw.flow instead")
    sliding = Sliding(tau_end, step)
    method, steps = ("flow", max_events) if f.quadratic else (sliding, sliding.steps)
    result = follow(start.x, method=method, max_iter=steps, progress=progress)
    events = result.state.memory.events
    if f.quadratic:
        tau_end = math.inf if result.status is Status.FINISHED else events[-1].tau
    return ExactTrajectory(start.x, events, result, tau_end)


def whole_run(f: Objective, C: ConstraintSet, x0: Any, failure: str, **options: Any) -> Result:
    """Run `minimize` without a tolerance. Raise an error that begins with `failure` if the run cannot go on."""
    result = minimize(f, C, x0, tol=0.0, **options)
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if result.status in (Status.NUMERICAL, Status.DATA):
        raise InputError(f"{failure}: {result.message}")
    return result


class ZigZag:
    r"""Zig-zag energy of a trajectory that is given point by point, with memory O(window n).

    Over a window of W steps from k, with :math:`\bar d = x^{(k+W)} - x^{(k)}` and
    :math:`d_i = x^{(i+1)} - x^{(i)}`, the energy is the mean over i = k+1, ..., k+W-1 of
    :math:`\|d_i - \bar d\,\bar d^T d_i / \|\bar d\|^2\|`. It is averaged over consecutive windows; an incomplete last
    window is ignored. An instance is a callback: ``minimize(..., callback=zigzag)`` and then ``zigzag.energy``.

    Parameters
    ----------
    window : int
        Number of steps in a window, at least 2.
    normalize : {"projector", "paper"}
        "paper" divides by :math:`\|\bar d\|`, as printed in the paper, which is not a projection.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> zigzag = fw.ZigZag(window=2)
    >>> for x in ([0.0, 0.0], [1.0, 1.0], [2.0, 0.0]):
    ...     zigzag.add(x)
    >>> zigzag.energy
    1.0
    """

    def __init__(self, window: int = 5, normalize: str = "projector") -> None:
        if normalize not in ("projector", "paper"):
            raise ValueError(f"normalize={normalize!r} is not known; {suggest(normalize, ('projector', 'paper'))}")
        self.window, self.normalize = whole(window, "window", 2), normalize
        self._points: list[Array] = []
        self._energies: list[float] = []

    def add(self, x: Any) -> None:
        """Add the next point of the trajectory."""
        self._points.append(float_array(x, "x").astype(np.float64).reshape(-1))
        if len(self._points) <= self.window:
            return
        d = np.diff(np.stack(self._points), axis=0)
        d_bar = d.sum(axis=0)
        divisor = float(norm(d_bar)) ** (2 if self.normalize == "projector" else 1)
        along = dot(d[1:], d_bar) / divisor if divisor > 0 else np.zeros(self.window - 1)
        self._energies.append(float(np.linalg.norm(d[1:] - np.outer(along, d_bar), axis=1).mean()))
        self._points = self._points[-1:]

    def __call__(self, state: Any) -> None:
        self.add(state.x)

    @property
    def energy(self) -> float:
        """Mean energy of the complete windows; NaN before the first one."""
        return float(np.mean(self._energies)) if self._energies else float("nan")


def zigzag_energy(X: Iterable[ArrayLike], window: int = 5, normalize: str = "projector") -> float:
    """Return the zig-zag energy of the points of a trajectory, an array with one per row or an iterator; see `ZigZag`.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> straight = np.outer(np.arange(11.0), [3.0, 4.0])
    >>> round(fw.zigzag_energy(straight, window=5), 12)
    0.0
    """
    zigzag = ZigZag(window, normalize)
    for x in X:
        zigzag.add(x)
    return zigzag.energy


@dataclass(frozen=True)
class Rate:
    r"""A fit :math:`e_k \approx C k^{-r}`: ``exponent`` r, ``constant`` C, ``residual`` in decades (RMS)."""

    exponent: float
    constant: float
    residual: float


def fit_rate(errors: ArrayLike, k: ArrayLike | None = None, *, start: float = 0.5) -> Rate:
    """Fit a power law to the upper envelope of a sequence of errors.

    The envelope at k is the largest error from k on, which is what a rate bounds.

    Parameters
    ----------
    errors : array_like
        Nonnegative errors, one per iterate; row 0 is the start.
    k : array_like, optional
        Iterations of the errors. Default: 0, 1, 2, ...
    start : float
        Start of the fit, as a fraction of the logarithmic range of k.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> round(fw.fit_rate(3.0 / np.maximum(1, np.arange(1000.0)) ** 2).exponent, 6)
    2.0
    """
    e = float_array(errors, "errors").astype(float)
    position = np.arange(e.size, dtype=float) if k is None else float_array(k, "k").astype(float)
    if e.shape != position.shape or e.ndim != 1:
        raise ValueError(f"errors and k must be vectors of one length; got {e.shape} and {position.shape}")
    known = ~np.isnan(e)
    e, position = e[known], position[known]
    envelope = np.maximum.accumulate(e[::-1])[::-1]
    use = (position > 0) & (envelope > 0) & np.isfinite(envelope)
    if use.any():
        use &= position >= position[use].min() * (position[use].max() / position[use].min()) ** start
    if use.sum() < 2:
        raise ValueError("errors has fewer than two positive entries to fit")
    x, y = np.log10(position[use]), np.log10(envelope[use])
    slope, intercept = np.polyfit(x, y, 1)
    return Rate(-float(slope), float(10**intercept), float(np.sqrt(np.mean((y - slope * x - intercept) ** 2))))
