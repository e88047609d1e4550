"""The only loop: iteration, stopping, tracing, limits, interruption, and a final value and gap that are true."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from fwflow._validation import number, positive, whole
from fwflow.methods import DEFAULT_SCHEDULE, Method, find_method
from fwflow.methods.atoms import ActiveSet, active_set_of
from fwflow.momentum import Momentum
from fwflow.objectives.base import Counts, NumericalTrouble, Objective
from fwflow.points import NEEDS_RANK_ONE, Point
from fwflow.problem import Evaluation, Problem
from fwflow.result import Result, State, Status
from fwflow.sets.base import CallableSet, ConstraintSet
from fwflow.steps import LineSearch, Schedule
from fwflow.tableaus import Tableau

# Carried images are recomputed from x after so many steps. Each step forgets a share gamma of the
# rounding before it, so errors hardly accumulate; one pass in 200 is the price of not relying on that.
_REFRESH_EVERY = 200


def minimize(
    f: Objective,
    C: ConstraintSet | Callable[[Any], Any],
    x0: Any = None,
    *,
    method: str | Tableau | Method = "auto",
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
) -> Result:
    """Minimise a smooth function over a convex set, given a linear minimisation oracle.

    Parameters
    ----------
    f : Objective
        `LinearModel`, `Quadratic`, `MatrixCompletion`, `Smooth`, or your own.
    C : ConstraintSet or callable
        A set, or any callable ``g -> s`` that minimises ``<g, s>`` over one.
    x0 : array_like or ActiveSet, optional
        A point of the set, or ``result.active_set`` of another run: methods that keep vertices begin
        with its own if they are members of C and their weights positive, others with its point.
        Default: ``C.start()``, the centre for norm balls.
    method : str, Tableau or Method
        "fw" (Euler's method: plain Frank-Wolfe), any other name in ``fw.tableaus``, or a `Tableau`;
        "away", "pairwise", "blended-pairwise" (each also "lazy-..."), "corrective", which keep an
        active set of vertices; "flow", the flow itself, followed exactly on polytopes; "apg",
        accelerated projected gradient; "polished", the same until x is sparse and then corrective
        steps. "auto" takes "polished" for linear models and quadratics if the set has a cheap
        projection, else "corrective" or, for losses that are not squared beyond 1000 dimensions,
        "blended-pairwise"; "corrective" for completion on the nuclear ball; and "fw" otherwise, or
        if a schedule, line search or momentum is given.
    schedule : Schedule
        The mixing coefficients gamma(t).
    line_search : str or LineSearch, optional
        "aggressive" (the paper's), "exact", "short", "armijo", "adaptive", "secant".
    momentum : str or Momentum, optional
        "nesterov" (the paper's), "gradient-averaging", "lmo-averaging".
    tol, rtol : float
        Stop when the gap is at most ``max(tol, rtol * gap at the start)``. With ``tol=0`` and
        ``rtol=0`` the run goes on to its limits.
    max_iter : int
        Iterations of this call.
    max_time : float, optional
        Seconds of this call.
    callback : callable, optional
        Called with the `State` at every iterate, the start included; a true return value stops the run.
    progress : bool
        Show a progress bar.
    check_every : int, optional
        Compute the gap at every so-many-th iterate. It matters only where the method looks
        elsewhere than at the iterate: with momentum="nesterov" (default 1) and with projected
        gradient and lazy methods (default 20), where the gap costs an extra gradient and oracle
        call. Otherwise the gap is free and known at every iterate.
    screen : bool
        On an L1 ball or simplex, let large linear models leave out columns of A that bounds show not
        to be the oracle's answer. The answers are the same, up to the rounding of averaged gradients
        and of gaps; False computes every gradient in full.
    state : State, optional
        Continue the run that returned it, exactly where it stopped, with the same arguments.

    Returns
    -------
    Result

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
        raise ValueError(f"f must be an Objective, for example fw.Smooth(fun, grad); got {type(f).__name__}")
    if not isinstance(C, ConstraintSet):
        if not callable(C) or isinstance(C, type):
            raise ValueError(f"C must be a constraint set or a callable g -> s; got {type(C).__name__}")
        C = CallableSet(C)
    if f.factored and not C.factored:
        raise ValueError(f"C is {C!r}; {NEEDS_RANK_ONE}")
    tol, rtol = (number(v, name, "not be negative", lambda x: x >= 0) for name, v in (("tol", tol), ("rtol", rtol)))
    max_iter = whole(max_iter, "max_iter", 0)
    max_time = math.inf if max_time is None else positive(max_time, "max_time")
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be callable; got {callback!r}")
    chosen = find_method(method, f, C, schedule, line_search, momentum)
    every = getattr(chosen, "check_every", 1) if check_every is None else whole(check_every, "check_every", 1)
    if state is not None and x0 is not None:
        raise ValueError("x0 and state exclude each other: a state knows its point")

    if state is not None and not isinstance(state, State):
        raise ValueError(f"state must be a State, such as result.state; got {type(state).__name__}")
    state = _begin(f, C, x0, chosen) if state is None else _resume(state, f, chosen)
    objective = f.counted_by(state.counts)
    if screen and C.screenable and getattr(chosen, "oracle_only", False):
        objective = objective.screened()
    problem = Problem(objective, C, state.counts)
    if state.memory is None:
        init_from = getattr(chosen, "init_from", None)
        if init_from is not None and isinstance(x0, ActiveSet) and x0.fits(C, _slack(state.point)):
            state.memory = init_from(problem, state.point, x0)
        else:
            state.memory = chosen.init(problem, state.point)
    return _run(problem, chosen, state, tol, rtol, max_iter, max_time, callback, progress, every)


def _begin(f: Objective, C: ConstraintSet, x0: Any, method: Method) -> State:
    counts = Counts()
    if x0 is None:
        shape = f.shape if f.shape is not None else getattr(C, "shape", None)
        if shape is None:
            raise ValueError("x0 is needed: neither the objective nor the set knows the dimension")
        counts.n_lmo += isinstance(C, CallableSet)  # its start is an answer of the oracle
        point = f.counted_by(counts).point(C.start(shape, f.dtype or np.float64))
    else:
        point = f.counted_by(counts).point(x0.x if isinstance(x0, ActiveSet) else x0)
        own = getattr(C, "shape", None) or point.x.shape
        if math.prod(own) != math.prod(point.x.shape):
            raise ValueError(f"x0 has shape {point.x.shape}; the set {C!r} has members of shape {own}")
        try:
            inside = C.contains(point.x, _slack(point))
        except ValueError as error:
            raise ValueError(f"x0 does not fit the set: {error}") from error
        if inside is False:
            raise ValueError(f"x0 lies outside the set {C!r}")
    return State(method=_signature(method), point=point, memory=None, counts=counts)


def _signature(method: Method) -> str:
    return getattr(method, "signature", repr(method))


def _resume(state: State, f: Objective, method: Method) -> State:
    if state.method != _signature(method):
        raise ValueError(f"state belongs to {state.method}; this call asks for {method!r}. Start anew with x0=state.x")
    if f.shape is not None and state.point.x.shape != f.shape:
        raise ValueError(f"state has x of shape {state.point.x.shape}; the objective is defined on {f.shape}")
    image = state.point.image
    if f.image_size != (None if image is None else len(image)):
        raise ValueError("state belongs to another objective: the image of its point has another size")
    # Points and memory are never changed in place, so a shallow copy leaves the caller's state as it was.
    resumed = replace(state, counts=replace(state.counts))
    resumed.trace = copy.copy(state.trace)
    resumed.trace._rows = state.trace._rows.copy()
    return resumed


def _slack(point: Point) -> float:
    """Tolerance of membership for points made of thousands of rounded mixtures."""
    return 1e-4 if point.x.dtype == np.float32 else 1e-8


def _run(
    problem: Problem,
    method: Method,
    state: State,
    tol: float,
    rtol: float,
    max_iter: int,
    max_time: float,
    callback: Callable[[State], Any] | None,
    progress: bool,
    check_every: int,
) -> Result:
    started = time.perf_counter() - state.elapsed
    time_end, k_end = state.elapsed + max_time, state.k + max_iter
    recheck_below = math.inf  # a gap that failed verification is verified again only once it is smaller
    verified: Verified | None = None
    detail = ""
    lifts = getattr(method, "lifts", True)
    bar = tqdm(total=max_iter, disable=not progress, unit="it")
    try:
        while True:
            known = state.known
            threshold = max(tol, rtol * state.first_gap)
            due = state.k % check_every == 0 or state.k == k_end or state.gap_estimate <= 2 * threshold
            if known is None and (method.uses_iterate or due):
                known = problem.evaluate(state.point, state.hint, lifts)
            state.gap = math.nan if known is None else known.gap
            new = _record(problem, state, time.perf_counter() - started)
            if progress:
                bar.set_postfix(fun=f"{state.fun:.6g}", gap=f"{state.gap:.2e}", refresh=False)

            stopped = new and callback is not None and bool(callback(state))
            threshold = max(tol, rtol * state.first_gap)  # again: the first gap may be known only now
            if known is not None and threshold > 0 and known.gap <= min(threshold, recheck_below):
                verified = _verify(problem, state.point, known)
                if verified.gap <= threshold and verified.feasible is not False:
                    status = Status.TOLERANCE
                    break
                verified, recheck_below = None, 0.9 * known.gap
            if stopped:
                status = Status.CALLBACK
                break
            if state.k >= k_end:
                status = Status.ITERATIONS
                break
            if state.elapsed >= time_end:
                status = Status.TIME
                break

            proposal = method.step(problem, state.k, state.point, state.fun, known, state.memory)
            if proposal.finished:
                status = Status.FINISHED
                break
            point = proposal.point
            if (state.k + 1) % _REFRESH_EVERY == 0:
                point = problem.objective.refresh(point)
            state.advance(proposal, point, state.hint if known is None else known.vertex)
            bar.update()
        return _finish(problem, state, status, verified or _verify(problem, state.point, known), detail)
    except KeyboardInterrupt:
        status = Status.INTERRUPTED
    except NumericalTrouble as trouble:
        status, detail = Status.NUMERICAL, f" At iteration {state.k}: {trouble}."
    finally:
        bar.close()
    return _finish(problem, state, status, None, detail)


def _record(problem: Problem, state: State, elapsed: float) -> bool:
    """Write row k of the trace and keep the best point; False if the row is there already, in a resumed run."""
    state.fun = math.nan
    state.fun, state.elapsed = problem.value(state.point), elapsed
    if state.fun < state.best_fun:
        state.best_fun, state.best = state.fun, state.point
    if math.isnan(state.first_gap):
        state.first_gap = state.gap
    if len(state.trace) > state.k:
        return False
    counts = state.counts
    state.trace.append(state.fun, state.gap, elapsed, counts.n_grad, counts.n_lmo, counts.n_design, state.step)
    return True


class Verified(NamedTuple):
    """A point, its value and certified gap from a fresh image, and whether it is in the set."""

    point: Point
    fun: float
    gap: float
    feasible: bool | None


def _verify(problem: Problem, point: Point, known: Evaluation | None) -> Verified:
    # Single precision and bounds find, double precision and whole gradients judge.
    problem = replace(problem, objective=problem.objective.precise())
    judged = problem.objective.dtype in (None, point.x.dtype)
    fresh = problem.objective.refresh(point) if judged else problem.objective.point(point.x)
    if known is None or fresh is not point:
        known = problem.evaluate(fresh, None if known is None else known.vertex, lift=False)
    inner, least = fresh.inner(known.gradient), problem.constraint.lower_bound(known.gradient, known.vertex.vertex)
    feasible = _feasible(problem, point)
    gap, size = inner - least, abs(inner) + abs(least)
    if feasible is not True and gap < -_slack(point) * size:  # no member has a negative gap, but for rounding
        feasible = False
    elif fresh.x.dtype == np.float32:  # a user's own function: the gap is a difference that single precision rounds
        gap = max(0.0, gap) + 8 * float(np.finfo(np.float32).eps) * size
    else:
        gap = max(0.0, gap)
    return Verified(point, problem.objective.value(fresh), gap, feasible)


def _finish(problem: Problem, state: State, status: Status, verified: Verified | None, detail: str) -> Result:
    """The result at the verified point or, where there is none, at the best one."""
    point = state.point if verified is not None or state.best is None else state.best
    if verified is None:
        try:
            verified = _verify(problem, point, None)
        except NumericalTrouble:  # at the very first point: there is no better one to return
            verified = Verified(point, _value(problem, point), math.nan, _feasible(problem, point))
        except KeyboardInterrupt:  # once more: what is known must do
            verified = Verified(point, state.best_fun if state.best else state.fun, math.nan, None)
    counts = state.counts
    return Result(
        x=verified.point.x.copy(),
        fun=verified.fun,
        gap=verified.gap,
        nit=state.k,
        n_grad=counts.n_grad,
        n_lmo=counts.n_lmo,
        n_design=counts.n_design,
        status=status,
        success=status is Status.TOLERANCE,
        message=status.value + detail,
        feasible=verified.feasible,
        trace=state.trace,
        active_set=active_set_of(state.memory) if point is state.point else None,
        state=state,
    )


def _value(problem: Problem, point: Point) -> float:
    try:
        return problem.value(point)
    except NumericalTrouble:
        return math.nan


def _feasible(problem: Problem, point: Point) -> bool | None:
    return problem.constraint.contains(point.x, _slack(point))
