"""Minimisers over balls of growing radius: the choice of the radii, and one run per radius."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from fwflow._validation import Array, InputError, describe, finite_array, number, whole
from fwflow.designs import Counts
from fwflow.methods.problem import Problem
from fwflow.objectives.base import Objective
from fwflow.points.gradients import Gradient, as_gradient
from fwflow.points.lowrank import LowRank
from fwflow.points.point import Point
from fwflow.run.loop import GAP_ROUNDING, minimize
from fwflow.run.result import Result, Status
from fwflow.run.verification import slack
from fwflow.sets import ConstraintSet
from fwflow.sets.callables import as_set

# First radius as a share of the step that minimises f along the first vertex. Most of the slope at zero is left there,
# so usually one coefficient has entered. Chosen without tuning, as are the other constants.
_FIRST = 0.05
# The certificate of the end covers radii up to this multiple of the radius at which the search ended.
HORIZON = 1e3
# Largest gap of the runs of the search, as a share of the decrease to be certified, and their number of iterations.
_ACCURACY, _MAX_ITER = 0.1, 1000
# Growth of the radius from run to run of the search, and largest number of these runs.
_GROWTH, _MOST_RUNS = 4.0, 30
# The last radius is at most this many times too large. The largest number of runs for it; after the first of them,
# which estimate the radius, each halves the logarithm of the interval.
_TOO_LARGE, _REFINEMENTS, _ESTIMATES = 1.04, 10, 4
# Largest radius as a share of the largest number of the data type, so that products do not overflow.
_LARGEST = 1e-6
# Default tolerance for the last automatic radius, and for the distance of f from its lower bound at which a path ends;
# `path` gives the reason. Chosen without tuning.
_EPS, _NEARLY_ATTAINED = 1e-3, 0.05

Ball = Callable[[float], ConstraintSet]
#: Minimisers with their radii, in ascending order.
Trail = Sequence[tuple[float, Any]]


@dataclass(frozen=True, eq=False)
class PathResult:
    """Minimisers over balls of growing radius, as `path` returns them.

    Attributes
    ----------
    radii : (n_radii,) array
        All radii, in ascending order.
    results : tuple of Result
        One for each radius; fewer if the path was interrupted.
    lower_bound : float
        Certified lower bound of f over all balls up to 1000 times the last radius, or over all balls if it is the
        known lower bound of f, for example zero for the losses.

    See Also
    --------
    path : Returns this object.
    Result : Result for one radius.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> path = fw.path(fw.LinearModel(np.eye(2), [3.0, 1.0]), fw.L1Ball, radii=[1.0, 2.0, 3.0])
    >>> [result.x.round(3).tolist() for result in path.results]
    [[1.0, 0.0], [2.0, 0.0], [2.5, 0.5]]
    """

    radii: Array
    results: tuple[Result, ...]
    lower_bound: float

    @property
    def remaining(self) -> float:
        """Certified bound on the decrease that a larger radius can still bring."""
        return self.results[-1].fun - self.lower_bound


def path(
    f: Objective,
    ball: Ball,
    radii: Any = "auto",
    *,
    n_radii: int = 20,
    eps: float | None = None,
    tol: float = 1e-6,
    rtol: float = 0.0,
    **options: Any,
) -> PathResult:
    r"""Minimise over balls of growing radius.

    Each run starts from a point that is extrapolated from earlier minimisers.

    Parameters
    ----------
    f : Objective
        Function to minimise.
    ball : callable
        ``radius -> ConstraintSet``, for example ``fw.L1Ball``. Automatic radii need multiples of one set.
    radii : "auto" or array_like
        Radii. They are put in ascending order. "auto", the default, chooses them as described below.
    n_radii : int
        Number of automatic radii; 20 by default.
    eps : float, optional
        Tolerance for the last automatic radius, above 0 and at most 1. Larger radii decrease f by at most this fraction
        of its decrease from f(0). Default: 0.001, so that the last radius is about the norm of the minimiser without
        constraint. Functions that are not quadratic may have no minimiser, for example the logistic loss of separable
        classes. With the default, their paths also end where f is above its known lower bound by at most 0.05 of its
        decrease.
    tol, rtol : float
        Each run stops when its gap is at most ``max(tol, rtol * gap at the start of its set)``; 1e-6 and 0 by default.
    **options
        Further options of `minimize`, for example ``method``, ``max_iter`` and ``callback``.

    Returns
    -------
    PathResult
        One result per radius. If the path is interrupted after the first run, it has the runs that are done.

    See Also
    --------
    minimize : One radius.
    fwflow.sklearn.radius_path : Paths of estimators.
    fwflow.jax.path : All radii at the same time on a GPU.

    Notes
    -----
    Automatic radii are geometric. The first radius is a twentieth of the step that minimises f from zero towards the
    vertex of steepest descent. At this radius, at least one coefficient is nonzero. The last radius is found as
    follows. Let v(R) be the minimum over the ball of radius R, x a member of it with gradient g, and
    :math:`\lambda = -\min \langle g, s\rangle` over the ball of radius 1, so that x has the gap :math:`\langle g,
    x\rangle + R \lambda`. As f is convex, every y in the ball of radius R' has

    .. math:: f(y) \ge f(x) + \langle g, y - x\rangle \ge f(x) - \langle g, x\rangle - R' \lambda
              = f(x) - \mathrm{gap} - (R' - R) \lambda.

    This bounds v(R') from below, as does a known lower bound of f, which holds for all radii: zero for the losses. The
    radius grows by factors of 4 until these bounds show that no radius up to 1000 R lowers f by more than
    ``eps * (f(0) - f(x))``. If the constraint does not bind, the gradient vanishes, so the search ends there at the
    latest. The last radius is the smallest one, up to 4 %, at which f is as close to the bound, and whose own bound
    excludes a larger decrease from doubling it. If a run does not reach the accuracy for the factor 1000, the search
    ends with the factor 2; ``remaining`` is the decrease that is not excluded. If zero is a minimiser, the radii go
    from 0.001 to 1.

    The bounds hold for sets without the origin too, for example simplices, where v may rise again.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> A = np.random.default_rng(0).standard_normal((50, 20))
    >>> path = fw.path(fw.LinearModel(A, 2 * A[:, 3] - A[:, 5]), fw.L1Ball, n_radii=5)
    >>> [np.flatnonzero(result.x.round(2)).tolist() for result in path.results]
    [[3], [3], [3], [3], [3, 5]]
    >>> round(float(path.radii[-1]), 1)
    2.9
    """
    f = f.for_path()
    chosen, lower = chosen_radii(f, ball, radii, n_radii, eps, **options)
    threshold = gap_thresholds(f, tol, rtol)

    def fit(radius: float, starts: tuple[Any, ...]) -> Result:
        C = as_set(ball(radius))
        return minimised(f, C, *starts, tol=threshold(C), **options)

    results: list[Result] = []
    try:
        for result in followed(chosen, fit):  # one by one, to keep the results before an interrupt
            results += [result]
    except KeyboardInterrupt:
        if not results:
            raise
    last = _Bound.of(f, results[-1], float(chosen[len(results) - 1]))
    return PathResult(chosen, tuple(results), max(lower, last.lowest(last.radius, HORIZON * last.radius)))


def gap_thresholds(f: Objective, tol: float, rtol: float) -> Callable[[ConstraintSet], float]:
    """Return the largest gap of a run as a function of its set: ``max(tol, rtol * gap at the start of the set)``."""
    # Start of the set before, its gradient, and whether it is a minimiser; balls share their centre.
    known: list[tuple[Point, Gradient, bool]] = []

    def threshold(C: ConstraintSet) -> float:
        if not rtol:
            return tol
        point, problem = f.point(C.start(f.shape, f.dtype)), Problem(f, C, Counts())
        if known and not point.factored and np.array_equal(point.x, known[0][0].x):
            start = problem.evaluate(point, gradient=known[0][1])
        else:
            start = problem.evaluate(point)
            known[:] = [(point, start.gradient, start.gap <= GAP_ROUNDING * problem.rounding(point, start))]
        if not known[0][2]:
            return max(tol, rtol * start.gap)
        # The gap of a minimiser is rounding error, and no run can reach a fraction of it.
        return max(tol, start.gap, problem.rounding(point, start), float(np.finfo(f.dtype or float).tiny))

    return threshold


def followed(radii: Array, fit: Callable[[float, tuple[Any, ...]], Result], known: Trail = ()) -> Iterator[Result]:
    """Yield the result of every radius; ``fit(radius, starts)`` starts at one of some points.

    They are the minimiser of the next smaller radius, and a point on the line through it and the minimiser of the next
    larger radius, or of the radius before if no larger one is known. Between two changes of the nonzero coefficients a
    path is smooth, and for least squares it is this line. `known` has minimisers of other radii.
    """
    near = list(known)
    for radius in radii.tolist():
        place = bisect_left(near, radius, key=itemgetter(0))
        starts: tuple[Any, ...] = ()
        if place:
            last, x = near[place - 1]
            starts = (x,)
            if isinstance(x, np.ndarray):
                other, y = [*near[place : place + 1], *near[max(place - 2, 0) : place - 1], (0.0, np.zeros_like(x))][0]
                starts += (x + (radius - last) / (other - last) * (y - x),)
        result = fit(radius, starts)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        near[: place + 1] = [*near[max(place - 1, 0) : place], (radius, result.x), *near[place : place + 1]]
        yield result


def checked_radii(radii: Any) -> Array:
    """Return explicit radii as float64, in the given order, or raise an error."""
    given = finite_array(radii, "radii").astype(np.float64)
    if given.ndim != 1 or not given.size or not (given > 0).all():
        raise InputError(f"radii must be a vector of at least one positive number; got {describe(radii)}")
    return given


def chosen_radii(
    f: Objective,
    ball: Ball,
    radii: Any,
    n_radii: int,
    eps: float | None,
    starts: Callable[[float], Any] = lambda radius: None,
    following: Callable[[float, float], float] = lambda radius, eps: _GROWTH * radius,
    **options: Any,
) -> tuple[Array, float]:
    """Return the radii in ascending order, and a lower bound of f over larger balls; `path` describes both.

    ``starts(radius)`` is a point close to the minimiser; None stands for the minimiser of the radius before.
    ``following(radius, eps)`` is the radius after another one in the search for the last radius.
    """
    n_radii = whole(n_radii, "n_radii", 1)
    nearly = 0.0 if f.quadratic or eps is not None else _NEARLY_ATTAINED
    eps = number(_EPS if eps is None else eps, "eps", "be above 0 and at most 1", lambda x: 0 < x <= 1)
    if not isinstance(radii, str):
        return np.unique(checked_radii(radii)), f.lower_bound
    if radii != "auto":
        raise InputError(f"radii={radii!r} is not known; give an array or 'auto'")
    f = f.for_path()
    first, slope, value0 = first_radius(f, ball)
    if not first:
        return np.geomspace(1e-3, 1.0, n_radii), value0
    largest, noise = _largest(f), float(np.finfo(f.dtype or float).eps) * abs(value0)

    def solved(radius: float, before: tuple[Any, ...], gap: float) -> _Bound:
        start = starts(radius)
        given = options | {"tol": max(gap, noise), "max_iter": _MAX_ITER, "progress": False}
        result = minimised(f, as_set(ball(radius)), *(before if start is None else (start,)), **given)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return _Bound.of(f, result, radius)

    def allowed(bound: _Bound) -> float:
        return max(eps * (value0 - bound.fun), noise)

    def attained(bound: _Bound) -> bool:
        """Return whether f is so close to its lower bound that a minimum may not exist."""
        return nearly > 0 and bound.fun - f.lower_bound <= nearly * (value0 - bound.fun)

    def ends(bound: _Bound, last: _Bound) -> bool:
        """Return whether the path may end at a radius, given the bound at which the search ended."""
        if bound.rate < 0:  # v is convex and rises from here on, as it can on simplices.
            return True
        if attained(bound):
            return True
        top = HORIZON * last.radius
        lower = max(bound.lowest(bound.radius, top), last.lowest(bound.radius, top))
        return bound.fun - min(lower, bound.lowest(bound.radius, 2 * bound.radius)) <= allowed(bound)

    found = [solved(first, (), _ACCURACY * eps * first * slope)]
    for _ in range(_MOST_RUNS):
        last = found[-1]
        if not math.isfinite(last.gap) or last.radius > largest / _GROWTH or ends(last, last):
            break
        if last.fun - last.lowest(last.radius, 2 * last.radius) <= allowed(last):
            found[-1] = last = solved(last.radius, (last.x,), _ACCURACY * allowed(last) / HORIZON)
            if ends(last, last) or not last.reached:
                break
        found.append(solved(following(last.radius, eps), (last.x,), _ACCURACY * allowed(last)))
    last, end = found[-1], len(found) - 1
    while end and ends(found[end - 1], last):
        end -= 1
    below, above = found[max(end - 1, 0)], found[end]
    ended = False
    for k in range(_REFINEMENTS if end else 0):
        if above.radius <= _TOO_LARGE * below.radius:
            break
        if k >= _ESTIMATES or above.rate < 0:
            radius = math.sqrt(below.radius * above.radius)
        elif k % 2:  # If the estimate was good, this radius is on the other side of the end.
            radius = above.radius / _TOO_LARGE if ended else _TOO_LARGE * below.radius
        else:
            share = nearly if attained(above) else eps
            radius = _reaching(share, value0, last.lowest(below.radius, HORIZON * last.radius), below, above)
        inside = (below.x,) if f.factored else (below.x, above.x)  # Low-rank matrices are not projected.
        tried = solved(radius, inside, _ACCURACY * allowed(above))
        ended = ends(tried, last)
        below, above = (below, tried) if ended else (tried, above)
    return np.geomspace(first, above.radius, n_radii), last.lowest(above.radius, HORIZON * last.radius)


class _Bound(NamedTuple):
    """A point x of the ball of some radius, and the line below v that its gradient gives; see `path`."""

    radius: float
    x: Any
    fun: float
    gap: float
    rate: float  # lambda
    lower_bound: float  # of f
    reached: bool  # whether the run reached its tolerance

    @classmethod
    def of(cls, f: Objective, result: Result, radius: float) -> _Bound:
        point = f.point(result.x)
        rate = (result.gap - as_gradient(f.gradient(point)).inner(point)) / radius
        return cls(radius, result.x, result.fun, result.gap, rate, f.lower_bound, result.success)

    def lowest(self, start: float, end: float) -> float:
        """Return a lower bound of v on an interval of radii; the line is lowest at one of its ends."""
        rise = max((start - self.radius) * self.rate, (end - self.radius) * self.rate)
        return max(self.lower_bound, self.fun - self.gap - rise)


def _reaching(eps: float, value0: float, lower: float, below: _Bound, above: _Bound) -> float:
    """Estimate the radius at which v is above `lower` by the share eps of its decrease from `value0`.

    v is taken as a cubic function of log(radius) with the values and slopes of two radii. The result lies between them.
    """
    target, span = (lower + eps * value0) / (1 + eps), math.log(above.radius / below.radius)
    fall, slopes = above.fun - below.fun, [-bound.radius * bound.rate * span for bound in (below, above)]

    def reached(t: float) -> bool:
        cubic = t * t * (3 - 2 * t) * fall + t * (1 - t) * ((1 - t) * slopes[0] - t * slopes[1])
        return below.fun + cubic <= target

    left, right = 0.0, 1.0
    for _ in range(20):
        t = (left + right) / 2
        left, right = (left, t) if reached(t) else (t, right)
    margin = min(math.log(_TOO_LARGE) / 2, span / 4)
    return below.radius * math.exp(min(max(span * right + margin, margin), span - margin))


def first_radius(f: Objective, ball: Ball) -> tuple[float, float, float]:
    """Return the first radius, the slope of v at zero, and f(0); the radius is 0 if zero is a minimiser."""
    problem = Problem(f, as_set(ball(1.0)), Counts())
    shape = f.shape if f.shape is not None else problem.constraint.shape
    if shape is None:
        raise InputError("radii='auto' needs an objective or a set of known shape; give radii")
    zero = origin(f, shape)
    value0, known = problem.value(zero), problem.evaluate(zero)
    line = problem.along(zero, zero.mix([(1.0, known.vertex)]), value0, known.gradient)
    if known.gap <= problem.rounding(zero, known) or not line.norm2 > 0:
        return 0.0, 0.0, value0
    curvature = line.slope(1.0) - line.slope0 if line.second is None else line.second(0.0)
    with np.errstate(over="ignore"):
        if curvature > 0:
            step = float(np.float64(known.gap) / curvature)
        else:  # f cannot reach its lower bound before this radius
            step = (value0 - f.lower_bound) / known.gap if f.lower_bound > -math.inf else 1.0
    return min(_FIRST * step, _largest(f)), known.gap, value0


def _largest(f: Objective) -> float:
    return _LARGEST * float(np.finfo(f.dtype or float).max)


def origin(f: Objective, shape: Any) -> Point:
    """Return zero as a point of f."""
    return f.point(LowRank.zeros(shape, f.dtype) if f.factored else np.zeros(shape, f.dtype))


def minimised(f: Objective, C: ConstraintSet, *starts: Any, **options: Any) -> Result:
    """Minimise from the best of some points, moved into the set; without any, from ``C.start()``.

    The first is taken if values are costly: if f is a function of the user, or its data is not in memory.
    """
    inside = [moved_inside(C, x) for x in starts] or [None]
    if len(inside) > 1 and f.image_map is not None and not f.data_cost.remote:
        inside.sort(key=lambda x: math.inf if x is None else f.value(f.point(x)))
    return minimize(f, C, inside[0], **options)


def moved_inside(C: ConstraintSet, x: Any) -> Any:
    """Return x if it is a member, else its projection; None if the set has no projection."""
    if x is None or isinstance(x, LowRank):
        return x
    x = np.asarray(x)
    return x if C.contains(x, slack(Point(x))) else C.project(x)
