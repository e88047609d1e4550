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

from fwflow._numerics import dot, norm, quietly
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

    Parameters
    ----------
    t : float or array_like
        Time, non-negative.
    c : float
        Parameter of the schedule, at least 1; 2 by default.

    See Also
    --------
    flow : Follows the flow with small steps.
    fit_rate : Rate of measured errors.

    Examples
    --------
    >>> import fwflow as fw
    >>> float(fw.rate_bound(2.0, c=2.0))
    0.25
    """
    return (c / (c + float_array(t, "t").astype(float))) ** c


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Samples of the flow.

    Attributes
    ----------
    t : (k,) array
        Times.
    x : (k, ...) array
        Points, one per row.
    fun, gap : (k,) arrays
        Objective and Frank-Wolfe gap at the points.
    result : Result
        Result of the run that followed the flow.

    See Also
    --------
    flow : Returns a trajectory.
    ExactTrajectory : Trajectory without a time step.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> path = fw.flow(fw.Quadratic(np.eye(2)), fw.L2Ball(1.0), [1.0, 0.0], t_end=1.0, delta=0.25)
    >>> path.t, path.x[-1].round(3)
    (array([0.  , 0.25, 0.5 , 0.75, 1.  ]), array([0.127, 0.   ]))
    """

    t: Array
    x: Array
    fun: Array
    gap: Array
    result: Result

    def __repr__(self) -> str:
        return (
            f"Trajectory({len(self.t)} samples, x of {' x '.join(map(str, self.x.shape[1:]))} entries, "
            f"fun={self.result.fun:.6g}, gap={self.result.gap:.3g})"
        )


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
        End of the time. The last sample is the first one at or after `t_end`.
    c : float
        Parameter of gamma, at least 1; 2 by default.
    delta : float
        Time step; 0.01 by default.
    method : str or Tableau
        Scheme of the small steps; "fw", Euler's method, by default.
    every : int
        Number of steps between two samples, to bound memory; 1 by default.
    progress : bool
        Show a progress bar; False by default.

    Returns
    -------
    Trajectory

    See Also
    --------
    exact_flow : The flow on polytopes without a time step.
    rate_bound : Bound on the error of the flow.
    zigzag_energy : Measures zig-zagging.

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
    r"""The flow as an exact function of time, similar to the dense output of SciPy's integrators.

    Between events the flow moves straight towards a target, and covers ``1 - exp(-tau)`` of the distance in time tau.
    ``trajectory(t)`` is the point at time t of the schedule :math:`\gamma(t) = c/(c+t)`.

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

    See Also
    --------
    exact_flow : Returns an exact trajectory.
    flow : The flow with small steps.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> sol = fw.exact_flow(fw.Quadratic(np.eye(2)), fw.ConvexHull([[-1, 0], [0, 1], [1, 0]]), [0.0, 1.0])
    >>> sol.at([0.0, np.log(4.0)])
    array([[0.  , 1.  ],
           [0.  , 0.25]])
    """

    x0: Array
    events: tuple[Event, ...]
    result: Result
    tau_end: float

    def __repr__(self) -> str:
        return (
            f"ExactTrajectory({len(self.events)} events, x of {' x '.join(map(str, self.x0.shape))} entries, "
            f"tau_end={self.tau_end:g}, fun={self.result.fun:.6g}, gap={self.result.gap:.3g})"
        )

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
        Objective.
    C : ConstraintSet
        A polytope.
    x0 : array_like, optional
        As in `minimize`.
    max_events : int
        For quadratics: largest number of events, after which the trajectory is left incomplete; 10000 by default.
    tau_end, step : float
        For other losses: end and step in the time :math:`\tau = c \log(1 + t/c)`, the integral of gamma = c/(c+t); 10
        and 0.05 by default.
    progress : bool
        Show a progress bar; False by default.

    Returns
    -------
    ExactTrajectory

    See Also
    --------
    flow : The flow on any set, with small steps.
    minimize : ``method="flow"`` follows the flow to the minimiser.

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
        Number of steps in a window, at least 2; 5 by default.
    normalize : {"projector", "paper"}
        "paper" divides by :math:`\|\bar d\|`, as printed in the paper, which is not a projection.

    See Also
    --------
    zigzag_energy : The same for an array of points.
    LMOAveraging : Momentum that reduces zig-zagging.

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
    """Return the zig-zag energy of the points of a trajectory; see `ZigZag`.

    Parameters
    ----------
    X : (k, n) array_like or iterable of arrays
        The points, one per row or one after the other.
    window, normalize : int, str
        As for `ZigZag`.

    Returns
    -------
    float

    See Also
    --------
    ZigZag : The same as a callback of `minimize`.
    flow : Trajectory of the flow.

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
    r"""A fit :math:`e_k \approx C k^{-r}` of a power law to a sequence of errors.

    Attributes
    ----------
    exponent : float
        Exponent r.
    constant : float
        Constant C.
    residual : float
        Root mean square of the residuals of the fit, in decades.
    interval : (float, float)
        Smallest and largest exponent among the fit, fits of both halves of its range, a fit of mean errors, and, if the
        curvature is significant, fits with a factor that varies slowly. A factor log(k)^q that noise may hide widens
        it. It is infinite if there are too few points. It is not a confidence interval.
    reliable : bool
        Whether the data determine r to within about 0.15: the range is long enough, the residual is small, the
        exponents of the interval agree, and the errors left out are due to rounding.
    saturated : float or None
        Iteration from which the errors no longer decrease, or are exactly zero. They are left out of the fit.
    """

    exponent: float
    constant: float
    residual: float
    interval: tuple[float, float] = (-math.inf, math.inf)
    reliable: bool = False
    saturated: float | None = None


def fit_rate(errors: ArrayLike, k: ArrayLike | None = None, *, start: float = 0.5) -> Rate:
    r"""Fit a power law to the upper envelope of a sequence of errors.

    The envelope at k is the largest error from iteration k on. A rate of convergence is a bound on this envelope. The
    fit gives every part of the logarithmic range of k the same weight. Errors that no longer decrease are left out,
    because they show the rounding of the computation. If the convergence is faster than every power of k, the rate is
    not `reliable`.

    Parameters
    ----------
    errors : array_like
        Non-negative errors, one per iterate; row 0 is the start.
    k : array_like, optional
        Iterations of the errors, in increasing order. Default: 0, 1, 2, ...
    start : float
        Start of the fit, as a fraction of the logarithmic range of k; 0.5 by default. If this fit is not reliable,
        the second half of its range is fitted alone, and this second fit is returned if it is reliable.

    Returns
    -------
    Rate
        Exponent, constant and residual, and how far the exponent can be trusted.

    See Also
    --------
    rate_bound : Bound on the error of the flow.
    Trace : Errors of a run.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> k = np.arange(1, 3000)
    >>> rate = fw.fit_rate(3.0 / k**2 * (2 + np.cos(k)) + 1e-17, k)
    >>> round(rate.exponent, 1), rate.reliable
    (2.0, True)
    >>> fw.fit_rate(0.99**k, k).reliable
    False
    """
    e = float_array(errors, "errors").astype(float)
    position = np.arange(e.size, dtype=float) if k is None else float_array(k, "k").astype(float)
    if e.shape != position.shape or e.ndim != 1:
        raise ValueError(f"errors and k must be vectors of one length; got {e.shape} and {position.shape}")
    known = ~np.isnan(e) & (position > 0)
    position, e = position[known], e[known]
    kept, saturated, level = _before_saturation(position, e)
    by_rounding = level <= _ROUNDING * e[np.isfinite(e)].max(initial=0.0)
    rate = _fit(position[:kept], e[:kept], start, saturated, by_rounding)
    rate = rate or _fit(position, e, start, saturated, False)  # nearly all errors are saturated
    if rate is None:
        raise ValueError("errors has fewer than two positive entries to fit")
    return rate


def _fit(position: Array, e: Array, start: float, saturated: float | None, by_rounding: bool) -> Rate | None:
    """Return the fit from `start` on, or that of its second half if only the latter is reliable."""
    envelope = np.maximum.accumulate(e[::-1])[::-1]
    use = (e == envelope) & (envelope > 0) & np.isfinite(envelope)  # no later error is larger
    use &= np.arange(e.size) < _end_of_envelope(position, e, envelope)
    if not use.any():
        return None
    x, y = np.log10(position), np.log10(e, out=np.zeros_like(e), where=use)
    first, second = (
        _fit_from(x[0] + share * (x[use][-1] - x[0]), x, y, e, use, saturated, by_rounding)
        for share in (start, (1 + start) / 2)
    )
    return first if first is None or first.reliable or second is None or not second.reliable else second


def _fit_from(
    begin: float, x: Array, y: Array, e: Array, use: Array, saturated: float | None, by_rounding: bool
) -> Rate | None:
    """Return the fit of the points (x, y) of the envelope from x = begin on; None if there are fewer than two."""
    use = use & (x >= begin - 1e-12)  # 1e-12 is more than the rounding of x
    if use.sum() < 2:
        return None
    inside = (x >= x[use][0]) & (x <= x[use][-1]) & np.isfinite(e)
    means = _bin_means(x[inside], np.maximum(e[inside], 0.0))
    grid = _evenly_spaced(x[use])
    x, y = x[use][grid], y[use][grid]
    intercept, slope = (float(value) for value in np.polynomial.polynomial.polyfit(x, y, 1))
    residual = float(np.sqrt(np.mean((y - slope * x - intercept) ** 2)))
    others = _other_exponents(-slope, (x, y), means)
    exponents = [-slope, *(others or (-math.inf, math.inf))]
    reliable = (
        by_rounding
        and np.ptp(x) >= _LEAST_RANGE
        and residual <= _LARGEST_RESIDUAL
        and max(abs(r + slope) for r in exponents) <= _LARGEST_SPREAD
    )
    constant = 10**intercept if intercept < 308 else math.inf
    return Rate(-slope, constant, residual, (min(exponents), max(exponents)), bool(reliable), saturated)


# Thresholds of `fit_rate`, tuned with random sequences with known exponents from 0.5 to 8 and 50 to 10 000 entries:
# oscillation, spikes, noise of up to 60%, floors, factors log(k)^q, shifts of k, transients. Of 12 000 further fits,
# 26% were reliable. Of these, 0.8% were wrong by more than 0.15, most of them because noise or oscillation
# hid a factor log(k)^q.
_LEAST_RANGE = 0.8  # decades of k in the fit
_LEAST_POINTS = 12  # points of the envelope
_LEAST_MEANS = 6  # bins with mean errors
_LARGEST_RESIDUAL = 0.08  # decades
_LARGEST_SPREAD = 0.1  # largest distance of the exponents in the interval from the fitted one
_ROUNDING = 1e-6  # errors above this part of the largest one are not due to rounding, even in single precision
_GRID = 40  # points of the fit per decade of k
_BINS = 10  # bins per decade of k for mean errors
# Ratio of sums of squares below which one further term of the fit, or a second one, is significant.
_SIGNIFICANT = (0.75, 0.5)


def _evenly_spaced(x: Array) -> Array:
    """Return indices into the increasing x of points that are about evenly spaced, and all points where x is sparse."""
    count = max(2, math.ceil(_GRID * (x[-1] - x[0])))
    return np.unique(np.searchsorted(x, np.linspace(x[0], x[-1], count)).clip(max=x.size - 1))


def _bin_means(x: Array, e: Array) -> tuple[Array, Array]:
    """Return the mean of x and the logarithm of the mean of e over bins of x; empty bins and zeros are left out."""
    count = max(1, round((x[-1] - x[0]) * _BINS))
    place = np.minimum(((x - x[0]) * (count / max(x[-1] - x[0], 1e-12))).astype(int), count - 1)
    number = np.bincount(place, minlength=count)
    known = number > 0
    means = np.bincount(place, e, count)[known] / number[known]
    centre = np.bincount(place, x, count)[known] / number[known]
    return centre[means > 0], np.log10(means[means > 0])


def _before_saturation(position: Array, e: Array) -> tuple[int, float | None, float]:
    """Return the number of errors before saturation, the iteration at which it begins, and the level of the errors.

    Signs of saturation are zeros at the end, negative errors, and a last part of at least a quarter of a decade in
    which the errors change little although they decreased before.
    """
    nonzero = np.flatnonzero(~(e <= 0))
    last = int(nonzero[-1]) + 1 if nonzero.size else 0
    # Errors that oscillate may end with a zero, so the zeros at the end must outnumber every earlier run of zeros.
    if e.size - last > max(2, np.diff(nonzero, prepend=-1).max(initial=1) - 1) and not (e[last:] < 0).any():
        return last, float(position[last]), 0.0
    x, size = np.log10(position), np.where(np.isfinite(e), np.abs(e), 0.0)
    level = float(np.max(-e, initial=0.0, where=e < 0))
    if level > 0:
        begin: float | None = position[e <= level][0]
    else:
        envelope = np.maximum.accumulate(size[::-1])[::-1]
        # The envelope of the last tenth of a decade has few errors to cover, so it falls.
        inner = x <= x[-1] - 0.1 if x.size else x > 0
        begin = _begin_of_plateau(x, size) or _begin_of_plateau(x[inner], envelope[inner])
        level = float(size[position >= begin].mean()) if begin else 0.0
    if begin is None:
        return e.size, None, 0.0
    # An error of 30 times the level is changed by 3%, which is 0.014 decades.
    above = np.flatnonzero((size > 30 * level) & (position < begin))
    return (int(above[-1]) + 1 if above.size else 0), float(position[position >= begin][0]), level


def _begin_of_plateau(x: Array, e: Array) -> float | None:
    """Return the iteration from which the means of e over bins are almost constant, or None."""
    if x.size < _LEAST_POINTS:
        return None
    x, y = _bin_means(x, e)
    begin = None
    for i in range(len(x) - 3, 2, -1):
        if np.abs(y[i:] - np.median(y[i:])).max() > 0.15:  # decades; noise of 40%
            break
        before = slice(int(np.searchsorted(x, x[i] - 1.0)), i + 1)
        if x[-1] - x[i] >= 0.25 and i - before.start >= 2:
            flat, steep = (-np.polyfit(x[part], y[part], 1)[0] for part in (slice(i, None), before))
            if abs(flat) < 0.2 * steep and abs(flat) * (x[-1] - x[i]) < 0.1:
                begin = float(10 ** x[i])
    return begin


def _end_of_envelope(position: Array, e: Array, envelope: Array) -> int:
    """Return the number of errors up to the last peak if the errors oscillate, else the number of all errors.

    After the last peak the envelope follows a part of an oscillation, and not the peaks. This part is left out unless
    it is longer, on the logarithmic axis, than the distance of the last two peaks.
    """
    below = np.flatnonzero(e < envelope)
    if not below.size:
        return e.size
    peak = int(below[-1]) + 1
    earlier = np.flatnonzero(e[: peak - 1] == envelope[: peak - 1])
    if not earlier.size:
        return e.size
    period = position[peak] / position[earlier[-1]]
    return peak + 1 if position[-1] / position[peak] < period else e.size


def _other_exponents(r: float, peaks: tuple[Array, Array], means: tuple[Array, Array]) -> list[float]:
    """Return exponents of other fits than the one with exponent r; none for few points.

    `peaks` are the points of the envelope and `means` the mean errors, as logarithms of k and of the error.
    """
    x, y = peaks
    if x.size < _LEAST_POINTS or means[0].size < _LEAST_MEANS:
        return []
    middle = (x[0] + x[-1]) / 2
    halves = [np.flatnonzero(half) for half in (x <= middle, x >= middle)]
    found = [_squares(x[half], y[half])[1] for half in halves if half.size > 2]
    # Noise may hide a factor log(k)^q. The standard error of the exponent beside such a factor says how well. Peaks or
    # means may be noisy, so the further fits leave out those whose standard error is ten times that of the others.
    beside = [(points, *_beside_logarithm(*points)) for points in (peaks, means) if points[0].size >= _LEAST_MEANS]
    error = min(entry[2] for entry in beside)
    found += [r - error, r + error]
    for points, bent, own_error in beside:
        if own_error <= 10 * error:
            found += [_squares(*points)[1], *_with_slow_factors(*points)]
            found += [bent] if abs(bent - r) > 2 * own_error else []
    return found


def _beside_logarithm(x: Array, y: Array) -> tuple[float, float]:
    """Return the exponent of a fit with a factor log(k)^q, and its standard error."""
    design = np.column_stack([np.ones_like(x), x, _logarithm(x)])
    solution, *_ = np.linalg.lstsq(design, y)
    # Neighbouring points of the envelope are not independent, so at most as many as there are bins count.
    count = min(x.size, _BINS * float(np.ptp(x)))
    variance = np.sum((y - dot(design, solution)) ** 2) / max(count - 3, 1e-12)
    inverse = quietly(np.linalg.pinv)(dot(design.T, design))
    return -float(solution[1]), math.sqrt(variance * max(inverse[1, 1], 0.0) * x.size / count)


def _logarithm(x: Array) -> Array:
    """Return the logarithm of the logarithm of k = 10^x, for k above 1."""
    return np.log10(np.maximum(x, 0.1))


def _with_slow_factors(x: Array, y: Array) -> list[float]:
    """Return the exponents of fits with a factor log(k)^q, a shift of k and an added constant, if they are significant.

    To first order, each adds a term to the straight line.
    """
    slow = (_logarithm(x), 10.0 ** (x[0] - x))
    constant = 10.0 ** (y[-1] - y)
    single = [_squares(x, y, term) for term in (*slow, constant)]
    double = [_squares(x, y, term, constant) for term in slow]
    found = [r for squares, r in single if squares < _SIGNIFICANT[0] * _squares(x, y)[0]]
    if x.size < _LEAST_POINTS:  # too few points for two terms
        return found
    return found + [r for squares, r in double if squares < _SIGNIFICANT[1] * min(single)[0]]


def _squares(x: Array, y: Array, *terms: Array) -> tuple[float, float]:
    """Return the sum of squared residuals of the linear fit y = a - r x + (terms), and r."""
    design = np.column_stack([np.ones_like(x), x, *terms])
    solution, *_ = np.linalg.lstsq(design, y)
    return float(np.sum((y - dot(design, solution)) ** 2)), -float(solution[1])
