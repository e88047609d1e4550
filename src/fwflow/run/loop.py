"""`minimize` and the only loop: iterations, stopping, limits, trace, interruption, and a verified final point."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from fwflow._fingerprints import Origin
from fwflow._frameworks import same_kind
from fwflow._threads import one_thread, with_all_threads
from fwflow._validation import InputError, conversion, whole
from fwflow.designs import Counts, DataLost
from fwflow.methods import DEFAULT_SCHEDULE, Iterate, Method, Request, find_method
from fwflow.methods.auto import advice
from fwflow.methods.base import Stepper
from fwflow.methods.catalogue import MethodName
from fwflow.methods.problem import Evaluation, Evaluator, Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.objectives.base import NumericalTrouble, Objective
from fwflow.points.lowrank import LowRank
from fwflow.points.point import Point
from fwflow.points.vertices import NEEDS_RANK_ONE
from fwflow.run.result import Result, State, Status
from fwflow.run.starts import best_of
from fwflow.run.stopping import MAX_IDLE, MAX_STILL, Limits, flat, slow
from fwflow.run.verification import VALUE_ULPS, Checks, FunctionChecks, Verified, slack
from fwflow.sets import ConstraintSet
from fwflow.sets.base import verdict
from fwflow.sets.callables import as_set
from fwflow.steps.momentum import Momentum
from fwflow.steps.schedules import Schedule
from fwflow.steps.searches import LineSearch
from fwflow.tableau.scheme import Tableau

# Runs are logged at the level INFO, one line at the start and one at the end. Nothing is shown unless a program
# configures the logger.
_log = logging.getLogger("fwflow")
_log.addHandler(logging.NullHandler())

# Number of steps after which carried images are computed again from x. A step multiplies earlier rounding by 1 - gamma,
# so errors hardly accumulate; one pass over the data in 200 is a cheap safeguard.
_REFRESH_EVERY = 200
# Multiple of the estimated rounding up to which a gap counts as rounding. Chosen without tuning, as are the others.
GAP_ROUNDING = 1e3
# Share of the first gap below which every iterate is checked for rounding; above it, iterates 1, 2, 4, 8, ...
_CHECK_SHARE = 1e-4
# Increase of f since the best iterate, as a share of its decrease from the start, from which the message mentions it.
_NOTABLE_RISE = 0.1

_UPHILL = " f is {:.6g} at the returned point and was {:.6g} at the start, although the gap is within the tolerance."
_ROUNDED_AWAY = " The gap of a convex function excludes that, so rounding is larger than the gap."
_STATIONARY = {
    None: " f is not known to be convex. If f is convex, the gap bounds the error; otherwise it measures only "
    "stationarity.",
    False: " f is not convex, so the gap measures only stationarity.",
    True: "",
}


def minimize(
    f: Objective,
    C: ConstraintSet | Callable[[Any], Any],
    x0: Any = None,
    *,
    method: MethodName | str | Tableau | Method = "auto",
    schedule: Schedule = DEFAULT_SCHEDULE,
    line_search: str | LineSearch | None = None,
    momentum: str | Momentum | None = None,
    tol: float = 1e-6,
    rtol: float = 0.0,
    max_iter: int = 10_000,
    max_time: float | None = None,
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
    check_every: int | None = None,
    screen: bool = True,
    state: State | None = None,
    starts: int = 1,
    seed: int = 0,
) -> Result:
    """Minimise a smooth function over a convex set, given a linear minimisation oracle.

    Parameters
    ----------
    f : Objective
        `LinearModel`, `Quadratic`, `MatrixCompletion`, `Smooth`, or your own.
    C : ConstraintSet or callable
        A set, or a function ``g -> s`` that returns a point s of the set with the smallest ``<g, s>``.
    x0 : array_like, ActiveSet or BlockSet, optional
        A point of the set, or ``result.active_set`` of another run. Methods with an active set start from the vertices
        of the given active set, if these are members of C with positive weights. Other methods start from its point.
        If it is a PyTorch tensor or a JAX array, ``result.x`` is one, too, on the same device. Default: ``C.start()``,
        which is the centre for norm balls.
    method : str, Tableau or Method
        Name of a method, a `Tableau`, or a `Method` of your own. The names are:

        * "auto", the default: a method that is chosen for the problem (see below). If a schedule, line search or
          momentum is given, "auto" is "fw".
        * "fw": Euler's method, which is plain Frank-Wolfe. The other names in ``fw.tableaus`` are Runge-Kutta schemes.
        * "lazy-fw": Frank-Wolfe with fewer oracle calls (`LazyFrankWolfe`).
        * "boosted": Frank-Wolfe with steps that are better aligned with the gradient (`Boosted`).
        * "away", "pairwise", "blended-pairwise": steps that also move weight between the vertices of an active set. The
          prefix "lazy-", as in "lazy-away", saves oracle calls.
        * "blended": gradient steps on the weights of an active set.
        * "corrective": optimisation of all weights of an active set.
        * "decomposition-invariant": pairwise steps on the face that contains x, without an active set.
        * "flow": the exact flow, on polytopes.
        * "apg": accelerated projected gradient.
        * "working-set": projected and Newton steps on a working set of columns.
        * "polished": "apg" until x is sparse, then corrective steps.
        * "sliding": fewer gradients and more oracle calls.
        * "block": steps in one block of a product of sets at a time (`BlockCoordinate`).
        * "stochastic": gradients from batches of rows of the data (`Stochastic`).
        * "difference-of-convex": convex subproblems for a difference of convex functions (`DifferenceOfConvex`).

        If f is not known to be convex, "auto" leaves a saddle point if f is lower at the oracle's vertex than a convex
        function could be. It uses the first matching line of this list, tries the methods of the line in order, and
        switches when progress is slow:

        * Objective: difference of convex functions. Set: any set. Methods: "difference-of-convex".
        * Objective: matrix completion. Set: nuclear ball, spectraplex or spectrahedron. Methods: "corrective".
        * Objective: linear model or quadratic, if a working set of columns fits into memory. Set: box. Methods:
          "working-set", "flow".
        * Objective: linear model or quadratic, if a working set of columns fits into memory. Set: any set with a
          projection. Methods: "working-set", "corrective", "blended-pairwise".
        * Objective: any other objective with second derivatives, such as ``Smooth(..., hess_product=...)``. Set: box.
          Methods: "apg", "flow".
        * Objective: linear model of data on disk or on a cluster, if a working set of columns does not fit into memory.
          Set: any set with a projection. Methods: "corrective", "apg", "blended-pairwise".
        * Objective: any other objective, also black boxes. Set: any set with a projection. Methods: "apg",
          "corrective", "blended-pairwise".
        * Objective: matrix completion. Set: any other set. Methods: "blended-pairwise".
        * Objective: any other objective, also black boxes. Set: any set without a projection. Methods: "corrective",
          "blended-pairwise".
    schedule : Schedule
        Step sizes gamma(t). Default: ``OpenLoop()``, that is ``gamma(t) = 2 / (2 + t)``.
    line_search : str or LineSearch, optional
        A name in ``fwflow.steps.searches.line_searches``, for example "exact" or "aggressive" (the rule of
        Chen and Sun, 2022), or an object. ``fwflow list line-searches`` prints all names.
    momentum : str or Momentum, optional
        A name in ``fwflow.steps.momentum.momenta``, for example "nesterov" (the momentum of Chen and Sun, 2022), or an
        object.
    tol, rtol : float
        Stop when the gap is at most ``max(tol, rtol * gap at the start)``, or when rounding errors prevent a smaller
        gap. The defaults are 1e-6 and 0. With ``tol=0`` and ``rtol=0`` the run continues to its limits.
    max_iter : int
        Largest number of iterations of this call; 10000 by default.
    max_time : float, optional
        Time limit of this call in seconds. One oracle call or one factorisation may exceed it. Default: no limit.
    callback : callable, optional
        Function of the `State` that is called at the start and at every iterate. The run stops if it returns a true
        value.
    progress : bool
        Show a progress bar; False by default.
    check_every : int, optional
        Number of iterations between two computations of the gap. Methods that evaluate the gradient at every iterate
        ignore it, because they compute every gap without extra cost. For the other methods, a gap costs one more
        gradient and one more oracle call. The default for them is 1 with ``momentum="nesterov"``, 10 for "stochastic",
        20 for "apg", "sliding" and lazy methods, and 1000 for "block".
    screen : bool
        Whether columns of A may be skipped if bounds prove that they cannot determine the vertex; True by default. This
        applies to large linear models over an L1 ball or a simplex. The results are the same up to rounding. False
        computes every gradient in full.
    state : State, optional
        State of an earlier run with the same arguments. The call continues this run. A state of other data or another
        set is an error.
    starts : int
        Number of starting points, for functions that are not convex; 1 by default. The first run starts at `x0` or
        ``C.start()``, and the others start at ``C.random_start(seed)``, ``C.random_start(seed + 1)``, and so on. The
        best result is returned: its ``start_values`` are the values of all runs, and its counts are those of all runs.
        The limit `max_iter` holds for each run, and `max_time` for all of them together.
    seed : int
        Seed of the random starting points; 0 by default.

    Returns
    -------
    Result
        Solution, verified gap, status, trace and state.

    Notes
    -----
    The start and the end of a run are logged at the level INFO by ``logging.getLogger("fwflow")``, which shows nothing
    by default. After ``logging.basicConfig(level=logging.INFO)`` the lines are shown.

    See Also
    --------
    path : Solutions for many radii.
    alternate : Common point of two sets.
    flow : Trajectory of the flow.
    fwflow.jax.minimize : Compiled version for GPUs.
    fwflow.sklearn.L1Regression : Estimator for scikit-learn.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> A = np.random.default_rng(0).standard_normal((50, 20))
    >>> f = fw.LinearModel(A, A[:, 0], loss="squared")
    >>> r = fw.minimize(f, fw.L1Ball(1.0), line_search="exact")
    >>> r.success, r.x.argmax(), r.status
    (True, np.int64(0), <Status.TOLERANCE: 'The gap, verified at the returned point, is within the tolerance.'>)
    """
    if not isinstance(f, Objective):
        raise InputError(
            "f must be an Objective, for example fw.Smooth(fun, grad), fw.Smooth.from_torch(fun) or "
            f"fw.Smooth.from_jax(fun); got {type(f).__name__}{conversion(f)}"
        )
    C, f = as_set(C), f.placed_like(x0)
    if f.factored and not C.factored:
        raise InputError(f"C is {C!r}; {NEEDS_RANK_ONE}")
    limits = Limits.checked(tol, rtol, max_iter, max_time)
    if callback is not None and not callable(callback):
        raise InputError(f"callback must be callable; got {callback!r}")
    request = Request.checked(method, schedule, line_search, momentum)
    starts, seed = whole(starts, "starts", 1), whole(seed, "seed", 0)
    _check_state(state, x0, starts)
    if starts > 1:
        options: dict[str, Any] = {"schedule": schedule, "line_search": line_search, "momentum": momentum}
        options |= {"tol": tol, "rtol": rtol, "max_iter": max_iter, "callback": callback, "progress": progress}
        options |= {"method": method, "check_every": check_every, "screen": screen}
        return best_of(lambda x, left: minimize(f, C, x, max_time=left, **options), f, C, x0, starts, seed, max_time)

    counts = Counts() if state is None else replace(state.counts)
    problem = Problem(f.counted_by(counts), C, counts, time.perf_counter() + limits.max_time)
    origin = Origin(None, f, C)
    state = _begin(problem, x0, origin) if state is None else _resumed(state, problem, origin)
    with one_thread():
        chosen, name = find_method(request, problem, state.point)
        every = chosen.check_every if check_every is None else whole(check_every, "check_every", 1)
        if screen and C.screenable and chosen.oracle_only:
            problem = replace(problem, objective=problem.objective.screened())
        if not state.method:
            known = isinstance(x0, Decomposition) and x0.fits(C, slack(state.point))
            state.memory = chosen.init_from(problem, state.point, x0) if known else chosen.init(problem, state.point)
            state.method = chosen.signature
        elif state.method != chosen.signature:
            raise InputError(f"state belongs to {state.method}; this call has {chosen!r}. Start again with x0=state.x")
        _log.info("run of %s over %r begins at iteration %d", name, C, state.k)
        ended = run(problem, FunctionChecks(problem), chosen, state, limits, callback, progress, every)
    result = Result(
        x=ended.verified.point.x.copy(),
        fun=ended.verified.fun,
        gap=ended.verified.gap,
        nit=state.k,
        **vars(state.counts),
        status=ended.status,
        success=ended.success,
        message=ended.status.value + ended.detail,
        feasible=ended.verified.feasible,
        trace=state.trace,
        active_set=chosen.active_set(state.memory) if ended.verified.point is state.point else None,
        state=state,
        method=chosen.ran(name, state.memory),
    )
    _log.info(
        "run of %s ends after %d iterations: %s, f %.10g, gap %.3e, %.3f s",
        result.method,
        result.nit,
        result.status.name,
        result.fun,
        result.gap,
        result.seconds,
    )
    if (converted := same_kind(x0)) and not isinstance(result.x, LowRank):
        result = replace(result, x=converted(result.x))
    black_box = f.image_map is None and not state.point.factored
    if black_box and result.status in (Status.ITERATIONS, Status.TIME) and slow(result.trace):
        result = replace(result, message=f"{result.message} {advice(problem, state.point, result.method)}")
    return result


def _check_state(state: Any, x0: Any, starts: int) -> None:
    """Raise an error if a state is no state, or excludes other arguments."""
    if not isinstance(state, State | None):
        raise InputError(f"state must be a State, for example result.state; got {type(state).__name__}")
    if state is not None and x0 is not None:
        raise InputError("x0 and state exclude each other: a state has its own point; give one of them")
    if state is not None and starts > 1:
        raise InputError("starts and state exclude each other: a state continues one run; give one of them")


def _begin(problem: Problem, x0: Any, origin: Origin) -> State:
    f, C, counts = problem.objective, problem.constraint, problem.counts
    if x0 is None:
        shape = f.shape if f.shape is not None else C.shape
        if shape is None:
            raise InputError("x0 is needed: neither the objective nor the set has a known shape")
        counts.n_lmo += C.start_calls_oracle
        point = f.point(C.start(shape, f.dtype or np.float64), name=f"the start of {C!r}")
        return State(point=point, counts=counts, inside=not C.start_calls_oracle, origin=origin)
    point = f.point(x0.x if isinstance(x0, Decomposition) else x0)
    own = C.shape or point.x.shape
    if math.prod(own) != math.prod(point.x.shape):
        raise InputError(f"x0 has shape {point.x.shape}; the set {C!r} has members of shape {own}")
    try:
        inside = verdict(C.contains(point.x, slack(point)))
    except ValueError as error:
        raise InputError(f"x0 does not fit the set: {error}") from error
    if inside is False:
        raise InputError(f"x0 lies outside the set {C!r}")
    return State(point=point, counts=counts, inside=inside is True, origin=origin)


def _resumed(state: State, problem: Problem, origin: Origin) -> State:
    f = problem.objective
    if f.shape is not None and state.point.x.shape != f.shape:
        raise InputError(f"state has x of shape {state.point.x.shape}; the objective is defined on {f.shape}")
    image = state.point.image
    if (None if f.image_map is None else f.image_map.size) != (None if image is None else len(image)):
        raise InputError("state belongs to another objective: the image of its point has another size")
    if state.origin is not None and (other := state.origin.differs_from(origin)):
        raise InputError(f"state belongs to another problem: {other}. Start again with x0=state.x")
    # Points and memory are never changed in place, so a shallow copy protects the caller's state.
    return replace(state, counts=problem.counts, trace=state.trace.copy(), origin=origin)


class Ending(NamedTuple):
    """End of a run: its status, the verified point, a detail for the message, and whether the tolerance was reached."""

    status: Status
    verified: Verified
    detail: str
    success: bool


def run(
    problem: Evaluator,
    checks: Checks,
    method: Stepper,
    state: State,
    limits: Limits,
    callback: Callable[[State], Any] | None,
    progress: bool,
    check_every: int,
) -> Ending:
    """Repeat the steps of a method from a state, which is changed, until a stopping criterion holds."""
    loop = _Loop(problem, checks, method, state, limits, callback, check_every)
    # tqdm starts a thread even for a bar that is disabled, so there is none unless it is shown.
    with tqdm(total=limits.max_iter) if progress else nullcontext() as bar:
        try:
            ended = None
            while ended is None:
                ended = loop.iterate()
                if bar is not None:
                    bar.set_postfix(fun=f"{state.fun:.6g}", gap=f"{state.gap:.2e}", refresh=False)
                    bar.update(ended is None)
            status, verified, detail = ended
            verified = verified or checks.verify(state, state.point, loop.known)
            judged = _judged(problem, checks, method, state, limits, status, verified, detail)
            return _finish(problem, checks, state, limits, *judged)
        except KeyboardInterrupt:
            status, detail = Status.INTERRUPTED, ""
        except NumericalTrouble as trouble:
            status, detail = Status.NUMERICAL, f" At iteration {state.k}: {trouble}."
        except DataLost as lost:
            status, detail = Status.DATA, f" At iteration {state.k}: {lost}."
    return _finish(problem, checks, state, limits, status, None, detail)


#: Status at the end of the iterations, the verified point if there is one, and a detail for the message.
_Ended = tuple[Status, Verified | None, str]


class _Loop:
    """Iterations of one run."""

    def __init__(
        self,
        problem: Evaluator,
        checks: Checks,
        method: Stepper,
        state: State,
        limits: Limits,
        callback: Callable[[State], Any] | None,
        check_every: int,
    ) -> None:
        self.problem, self.checks, self.method, self.state, self.limits = problem, checks, method, state, limits
        self.callback, self.check_every = callback, check_every
        self.started = time.perf_counter() - state.elapsed
        self.time_end, self.k_end = state.elapsed + limits.max_time, state.k + limits.max_iter
        self.uses_iterate, self.lifts, self.comparable = method.uses_iterate, method.lifts, method.comparable
        #: Iteration of the first failed verification, and of the next attempt.
        self.failed = self.again = 0
        #: Evaluation at the iterate, if it is known.
        self.known: Evaluation | None = None
        self.threshold = self._threshold()

    def _threshold(self) -> float:
        state = self.state
        return self.limits.threshold(self.problem.scale(state.first_gap, state.fun, state.gap))

    def iterate(self) -> _Ended | None:
        """Evaluate the iterate and make a step from it; or return how the iterations end."""
        state, method = self.state, self.method
        new = self._evaluate()
        stopped = new and self.callback is not None and bool(with_all_threads(self.callback, state))
        self.threshold = self._threshold()  # the first gap may have just become known
        limited = stopped or state.k >= self.k_end or state.elapsed >= self.time_end
        iterate = Iterate(state.k, state.point, state.fun, self.known, self.threshold)
        proposal, drifted = None, False
        if self._within() and state.k >= self.again:
            verified = self._verified()
            drifted = verified is None  # the image may have drifted
            if verified is not None:
                # A run that comes back to a higher value has a wrong gradient or oracle, which is reported.
                proposal = None if limited or _rise(state) else method.escape(self.problem, iterate)
                if proposal is None:
                    return Status.TOLERANCE, verified, ""
        if stopped:
            return Status.CALLBACK, None, ""
        if limited:
            return Status.ITERATIONS if state.k >= self.k_end else Status.TIME, None, ""
        check = False
        if proposal is None:
            check = self._checked()
            if check and (ended := _ended(self.problem, self.checks, state, self.known)):
                return ended
            proposal = method.step(self.problem, iterate, state.memory)
        if proposal.finished:
            return Status.FINISHED, None, ""
        point = proposal.point
        if (state.k + 1) % _REFRESH_EVERY == 0 or drifted:
            point = self.problem.refresh(point)
        state.advance(proposal, point, state.hint if self.known is None else self.known.vertex, check)
        return None

    def _evaluate(self) -> bool:
        """Evaluate the iterate and write its row of the trace; return whether the row is new."""
        state = self.state
        self.known = state.known
        due = self.uses_iterate or state.k % self.check_every == 0 or state.k == self.k_end
        if self.known is None and (due or state.gap_estimate <= 2 * self.threshold):
            self.known = self.problem.evaluate(state.point, state.hint, self.lifts)
        state.gap = math.nan if self.known is None else self.known.gap
        new = _record(self.problem, state, time.perf_counter() - self.started, self.comparable)
        if new and self.known is not None:
            state.progress = state.progress.seen(self.known.gap)
        return new

    def _within(self) -> bool:
        """Return whether the gap at the iterate is within the tolerance."""
        return self.known is not None and self.limits.wanted and self.known.gap <= self.threshold

    def _verified(self) -> Verified | None:
        """Return the verified iterate, or None if its verified gap is not within the tolerance."""
        state, verified = self.state, self.checks.verify(self.state, self.state.point, self.known)
        if verified.within(self.threshold):
            return verified
        self.failed = self.failed or state.k
        self.again = max(state.k + 1, 2 * state.k - self.failed)  # doubles the distance to the first failure
        return None

    def _checked(self) -> bool:
        """Return whether the iterate is checked for rounding."""
        if self.known is None or not self.limits.wanted:
            return False
        return self.known.gap <= _CHECK_SHARE * self.state.first_gap or self.state.k & (self.state.k - 1) == 0


def _ended(problem: Evaluator, checks: Checks, state: State, known: Evaluation | None) -> _Ended | None:
    """Return how a run above its tolerance ends by rounding or without progress; None if it continues."""
    assert known is not None
    ended = state.progress.still >= MAX_STILL or flat(state.trace, float(np.finfo(state.point.x.dtype).eps))
    if not ended and state.progress.idle < MAX_IDLE:
        return None
    rounding = problem.rounding(state.point, known)
    if not ended and not known.gap <= rounding:
        return None
    verified = checks.verify(state, state.point, known)
    if verified.gap <= GAP_ROUNDING * rounding:
        least = max(rounding, verified.gap)
        return Status.PRECISION, verified, f" For this problem the smallest possible gap is about {least:.0e}."
    return (Status.FINISHED, verified, "") if ended else None  # None: the oracle of the run was inexact


def _threshold(problem: Evaluator, state: State, limits: Limits, verified: Verified) -> float:
    return limits.threshold(problem.scale(state.first_gap, verified.fun, verified.gap))


def _judged(
    problem: Evaluator,
    checks: Checks,
    method: Stepper,
    state: State,
    limits: Limits,
    status: Status,
    verified: Verified,
    detail: str,
) -> tuple[Status, Verified | None, str]:
    """Compare with function values; return the final status, the verified point (None: the best one) and a detail."""
    threshold, eps = _threshold(problem, state, limits, verified), float(np.finfo(state.point.x.dtype).eps)
    best = state.best if state.best is not state.point and _rise(state) else None
    solved = verified.within(threshold)
    if not verified.doubt and (solved or status in (Status.FINISHED, Status.PRECISION)):
        verified = verified._replace(doubt=checks.contradiction(verified, threshold, _member(checks, state, best)))
    if verified.doubt and status is not Status.TIME:
        return Status.INCONSISTENT, verified if _member(checks, state, best) is None else None, verified.doubt
    convex, start = problem.convex, state.trace.first_fun
    if solved and method.comparable and _uphill(verified, start, threshold, eps):
        verified = verified._replace(doubt=_UPHILL.format(verified.fun, start))
        status, reason = (Status.PRECISION, _ROUNDED_AWAY) if convex else (Status.FINISHED, _STATIONARY[convex])
        return status, None if method.descends else verified, verified.doubt + reason
    if solved and limits.wanted and status is not Status.CALLBACK:
        return Status.TOLERANCE, verified, _STATIONARY[convex]
    if best is None or solved:
        return status, verified, detail
    return status, *_best_or_last(problem, checks, method, state, verified, detail)


def _member(checks: Checks, state: State, point: Point | None) -> Point | None:
    """Return a point, or None if it is known not to be a member."""
    return None if point is None or checks.feasible(state, point) is False else point


def _best_or_last(
    problem: Evaluator, checks: Checks, method: Stepper, state: State, verified: Verified, detail: str
) -> tuple[Verified | None, str]:
    """Return the point of a run whose best iterate is not the last one, None for the best one, and a detail."""
    rise = _rise(state)
    if not method.descends:
        if rise > _NOTABLE_RISE * abs(state.trace.first_fun - state.best_fun):
            detail += f" The best iterate had f = {state.best_fun:.6g}; the returned last one has {state.fun:.6g}."
        return verified, detail
    if not problem.convex or rise > verified.rounding:
        return None, detail
    # Values that differ by no more than their rounding do not order the two points; their gaps do.
    assert state.best is not None
    return min(verified, checks.verify(state, state.best, None), key=lambda point: point.gap), detail


def _uphill(verified: Verified, start: float, threshold: float, eps: float) -> bool:
    """Return whether f is above its value at the start by more than the gap and rounding."""
    noise = VALUE_ULPS * eps * max(abs(start), abs(verified.fun))
    return verified.fun - start > max(verified.gap, threshold) + noise + verified.rounding


def _rise(state: State) -> float:
    """Return how far f is above its value at the best iterate; 0 if rounding may be the reason."""
    rise, eps = state.fun - state.best_fun, float(np.finfo(state.point.x.dtype).eps)
    return rise if rise > VALUE_ULPS * eps * abs(state.fun) else 0.0


def _record(problem: Evaluator, state: State, elapsed: float, comparable: bool) -> bool:
    """Write row k of the trace and keep the best point; return False if a resumed run has the row already."""
    state.fun = math.nan
    state.fun = fun = problem.value(state.point)
    state.elapsed = elapsed
    if fun < state.best_fun or not comparable:
        state.best_fun, state.best, state.best_inside = fun, state.point, state.inside
    if math.isnan(state.first_gap):
        state.first_gap = state.gap
    trace, counts = state.trace, state.counts
    if len(trace) > state.k:
        return False
    trace.append(fun, state.gap, elapsed, counts.n_grad, counts.n_lmo, counts.n_design, state.step)
    return True


def _finish(
    problem: Evaluator,
    checks: Checks,
    state: State,
    limits: Limits,
    status: Status,
    verified: Verified | None,
    detail: str,
) -> Ending:
    """Return the end at the verified point or, if there is none, at the best one."""
    if verified is None:
        point: Point = state.point if state.best is None else state.best
        last = state.fun if state.best is None else state.best_fun
        try:
            verified = checks.verify(state, point, None)
        except (NumericalTrouble, DataLost):
            with suppress(NumericalTrouble, DataLost):  # the value may be unknown if the gradient failed at the start
                last = problem.value(point)
            verified = Verified(point, last, math.nan, math.nan, checks.feasible(state, point))
        except KeyboardInterrupt:  # for the second time
            verified = Verified(point, last, math.nan, math.nan, None)
        if status is Status.INCONSISTENT:  # the gap at the best point proves nothing either
            verified = verified._replace(doubt=detail)
    return Ending(status, verified, detail, verified.within(_threshold(problem, state, limits, verified)))
