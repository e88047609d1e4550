"""Compiled run: rounds of iterations, each followed by a verification, in double precision where possible.

Every run ends: each round but the first makes at least one step, and no step is made beyond ``max_iter``.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from fwflow.jax.methods import Evaluation, Method, evaluate
from fwflow.jax.objectives import Objective
from fwflow.jax.points import Point
from fwflow.jax.sets import Set
from fwflow.jax.trees import Array, computes_in_double, either, epsilon, in_double, inner, pytree, widened
from fwflow.run.result import Status

#: A status is its index here in compiled code. RUNNING is the status of a run that has not ended.
STATUSES = tuple(Status)
RUNNING = -1

# The following constants were chosen without tuning.
# Iterations between two verifications, at which the image of x is computed again.
ROUND = 200
# A round of at least this many steps that does not move x ends the run.
_UNCHANGED = 10
# After this many verifications in a row without a clearly smaller gap, a gap within rounding ends the run.
_IDLE = 5
# Largest multiple of the rounding error up to which a gap that no longer falls is attributed to rounding.
_ROUNDING_TIMES = 1e3
# Share of a run, and at least a round, after which a run ends that reached a gap within rounding and no smaller one
# since. Until then, a gap that falls slowly has time to fall: by a quarter if it is O(1/k).
_FLAT = 1 / 4


@pytree("method")
class Result:
    """Result of `minimize` and `path`: fields of `fwflow.Result` as arrays, with a leading axis for a batch.

    After a failure, x is the last verified point. After PRECISION, it may be an earlier iterate with a smaller gap.

    Attributes
    ----------
    x : array or tree of arrays
        Solution, in the form of x0.
    fun, gap : array
        Objective and Frank-Wolfe gap, verified at x for the data as JAX holds it. They are computed in double
        precision, also for an x in single precision, unless a user's function or oracle rounds to single precision,
        draws random numbers, calls the host, or uses 64-bit arrays that are not arguments. Then they have the precision
        of x, and `rounding` equals `resolution`. A gap that is negative by more than `resolution` shows that x is not
        in the set or that the oracle is wrong.
    resolution, rounding : array
        Rounding error of a gap that is computed in the type of x, estimated or, if that is larger, observed; and
        estimated error of this gap in the precision of its computation.
    nit, n_grad, n_lmo : array of int
        Numbers of iterations, gradients and oracle calls.
    status : array of int
        Reason of the end; `statuses` returns it as `fwflow.Status`.
    success : array of bool
        True exactly if the verified gap and its rounding are within the tolerance, x was not found outside the set, and
        a user's oracle did not contradict itself.
    feasible : array of bool, or None
        Whether x is in the set; None if the set has no test.
    trace : dict of arrays, or None
        With ``trace=True``: "fun", "gap" and "step" by iteration, NaN where they were not computed.
    method : str
        Name of the method that ran.

    See Also
    --------
    minimize : Returns a result.
    fwflow.Result : Result of the core.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> r = fwj.minimize(fwj.LinearModel(jnp.eye(2), jnp.array([3.0, 1.0])), fwj.L1Ball(1.0))
    >>> r.x, bool(r.success), r.statuses.name
    (Array([1., 0.], dtype=float32), True, 'TOLERANCE')
    """

    x: Any
    fun: Array
    gap: Array
    resolution: Array
    rounding: Array
    nit: Array
    n_grad: Array
    n_lmo: Array
    status: Array
    success: Array
    feasible: Array | None
    trace: dict[str, Array] | None
    method: str

    @property
    def statuses(self) -> Any:
        """The status as `fwflow.Status`, or an array of them."""
        return np.array(STATUSES, dtype=object)[np.asarray(self.status)]

    @property
    def message(self) -> Any:
        """Text that says why the run ended, or an array of texts."""
        return np.array([status.value for status in STATUSES], dtype=object)[np.asarray(self.status)]


class Verification(NamedTuple):
    """Verification of x: fields of `Result`."""

    feasible: Array | None
    fun: Array
    gap: Array
    resolution: Array
    rounding: Array


class Carry(NamedTuple):
    """State of a run between two iterations.

    A round ends when the gap is at most `aim`, but not before `wait` iterations. `idle` counts verifications in a row
    without a gap clearly below `best_gap`. `best` is the iterate with the smallest gap in the loop, which was `least`
    when it last fell clearly. The verification at iteration `improved` was the last one to find that either gap did.
    """

    k: Array
    max_iter: Array
    point: Point
    known: Evaluation
    memory: Any
    threshold: Array
    aim: Array
    best_gap: Array
    idle: Array
    best: tuple[Array, Evaluation]
    least: Array
    improved: Array
    wait: Array
    status: Array
    verified: Verification
    n_grad: Array
    n_lmo: Array
    trace: dict[str, Array] | None


def slack(dtype: Any) -> float:
    """Return the relative excess that rounding may cause for a point made by thousands of mixtures."""
    return max(1e-8, 1e3 * epsilon(dtype))


def verify(f: Objective, C: Set, x: Array, known: Evaluation) -> tuple[Point, Verification, Array | None]:
    """Return x with a new image, its verification, and whether a user's oracle contradicts itself.

    `known` is the evaluation of x in the loop. Its gradient shows rounding errors that the estimate misses: those of
    terms that cancel inside of a user's function, and of products in less than single precision on a GPU.
    """
    double = x.dtype != jnp.float64 and C.computes_in_double(x) and computes_in_double(partial(_gradient, f), x)
    return in_double(partial(_verified, jnp.float64))(f, C, x, known) if double else _verified(x.dtype, f, C, x, known)


def _gradient(f: Objective, x: Array) -> Array:
    f = widened(f, x.dtype)
    return f.gradient(f.point(x))


def _verified(kind: Any, f: Objective, C: Set, x: Array, known: Evaluation) -> tuple[Point, Verification, Array | None]:
    """Return `verify`, computed in a floating type."""
    dtype, eps = x.dtype, epsilon(x.dtype)
    f, wide = widened(f, kind), x.astype(kind)
    point = f.point(wide)
    g = f.gradient(point)
    bound = C.lower_bound(g)
    size = inner(jnp.abs(g), jnp.abs(wide)) + jnp.abs(bound)
    gap = inner(g, wide) - bound
    terms = size + f.noise(point)
    resolution, rounding = 4 * eps * terms, 4 * epsilon(kind) * terms
    if kind != dtype:
        error = g - known.gradient
        resolution = jnp.maximum(resolution, inner(jnp.abs(error), jnp.abs(wide)) + jnp.abs(known.vertex.dot(error)))
    # The gap of a member is negative only by rounding, and its absolute value then measures that rounding.
    gap = jnp.where(gap < -resolution, gap, jnp.abs(gap) + (0 if kind == jnp.float64 else 2 * eps * size))
    numbers = (number.astype(dtype) for number in (f.value(point), gap, resolution, rounding))
    excess = C.excess(wide)
    verified = Verification(None if excess is None else excess <= slack(dtype), *numbers)
    return jax.tree.map(lambda part: part.astype(dtype), point), verified, C.contradicts(g, bound)


def begin(f: Objective, C: Set, method: Method, x: Array, tol: Array, rtol: Array, max_iter: Array, rows: int) -> Carry:
    """Return the state at the start of a run. Its trace has `rows` rows; without rows there is no trace."""
    point = f.point(x)
    known = evaluate(f, C, point, None, method.lifts)
    threshold = jnp.maximum(tol, rtol * jnp.maximum(known.gap, 0))
    threshold = jnp.where((tol > 0) | (rtol > 0), threshold, -jnp.inf)
    whole = partial(jnp.asarray, dtype=jnp.int32)
    unknown = jnp.full_like(known.gap, jnp.nan)
    state = Carry(
        k=whole(0),
        max_iter=max_iter,
        point=point,
        known=known,
        memory=method.init(f, C, point, known),
        threshold=threshold,
        aim=threshold,
        best_gap=jnp.full_like(known.gap, jnp.inf),
        idle=whole(0),
        best=(x, known),
        least=known.gap,
        improved=whole(0),
        wait=whole(0),
        status=whole(RUNNING),
        verified=Verification(None if C.excess(x) is None else jnp.zeros((), bool), unknown, unknown, unknown, unknown),
        n_grad=whole(1),
        n_lmo=whole(1),
        trace={name: jnp.full(rows, jnp.nan, x.dtype) for name in ("fun", "gap", "step")} if rows else None,
    )
    return _recorded(f, state, unknown)


def _recorded(f: Objective, state: Carry, length: Array) -> Carry:
    if state.trace is None:
        return state
    row = {"fun": f.value(state.point), "gap": state.known.gap, "step": length}
    return state._replace(trace={name: column.at[state.k].set(row[name]) for name, column in state.trace.items()})


def _advance(f: Objective, C: Set, method: Method, every: int, end: Array, state: Carry) -> Carry:
    """Return the state after `every` steps and an evaluation of the new iterate."""

    def step(_: Any, carry: Any) -> Any:
        k, point, memory, _ = carry
        return k + 1, *method.step(f, C, k, point, state.known, memory)

    def masked(i: Any, carry: Any) -> Any:
        # The loop does not end at the limit: a loop of known length needs no decision by the host of a GPU.
        return either(carry[0] < end, step(i, carry), carry)

    carry = (state.k, state.point, state.memory, jnp.zeros_like(state.threshold))
    k, point, memory, length = step(0, carry) if every == 1 else lax.fori_loop(0, every, masked, carry)
    steps = k - state.k
    known = evaluate(f, C, point, state.known.vertex, method.lifts)
    advanced = state._replace(
        k=k,
        point=point,
        memory=memory,
        known=known,
        best=either(known.gap < state.best[1].gap, (point.x, known), state.best),
        n_grad=state.n_grad + method.gradients * steps + 1,
        n_lmo=state.n_lmo + method.oracles * steps + 1,
    )
    return _recorded(f, advanced, length)


def play(f: Objective, C: Set, method: Method, every: int, length: int, state: Carry) -> Carry:
    """Return the state after one round: at most `length` iterations, until the gap is small, and a verification."""
    end = jnp.minimum(state.k + length, state.max_iter)
    again = state.k + state.wait
    moved = lax.while_loop(
        lambda s: (s.status == RUNNING) & ((s.known.gap > s.aim) | (s.k < again)) & (s.k < end),
        partial(_advance, f, C, method, min(every, length), end),
        state,
    )
    early = moved.k < end  # The gap seems small enough, or is not a number.
    whole = jnp.isfinite(moved.point.x).all() & jnp.isfinite(moved.known.gap)
    wanted = state.threshold != -jnp.inf
    smaller = moved.best[1].gap < 0.9 * state.least
    late = moved.k - state.improved >= jnp.maximum(length, _FLAT * moved.k)
    # Steps in rounding wander, so that the best iterate is verified in place of the last one.
    flat = wanted & whole & late & ~early & ~smaller & (moved.best[1].gap <= state.verified.resolution)
    last = either(whole, (moved.point.x, moved.known), (state.point.x, state.known))
    point, verified, contradiction = verify(f, C, *either(flat, moved.best, last))
    finite = jnp.isfinite(verified.gap) & jnp.isfinite(verified.fun) & whole
    size = epsilon(point.x.dtype) * jnp.abs(point.x).max()
    unchanged = (jnp.abs(point.x - state.point.x).max() <= 4 * size) & (moved.k - state.k >= _UNCHANGED)
    best = either(flat, last, moved.best)  # A best gap that is not due to rounding after all is forgotten.
    better = (verified.gap >= 0) & (verified.gap < 0.9 * state.best_gap)
    checked = moved._replace(
        # After a failure, the run returns the point before this round, which was the last one to be verified.
        point=either(finite, point, state.point),
        verified=either(whole & ~finite, state.verified, verified),
        best_gap=jnp.where(better, verified.gap, state.best_gap),
        idle=jnp.where(better, 0, state.idle + 1),
        best=best,
        least=jnp.where(smaller | flat, best[1].gap, state.least),
        improved=jnp.where(smaller | better | flat, moved.k, state.improved),
        # The verified gap was larger than the gap of the loop: aim at a smaller one, and verify less often.
        aim=jnp.where(early, state.aim / 2, state.aim),
        wait=jnp.where(early, jnp.clip(2 * state.wait, 1, length), state.wait),
        n_grad=moved.n_grad + 1,
        n_lmo=moved.n_lmo + (1 if contradiction is None else 2),
    )
    inside = True if verified.feasible is None else verified.feasible
    met = (verified.gap >= 0) & (verified.gap <= state.threshold) & (verified.rounding <= state.threshold) & inside
    stalled = wanted & (checked.idle >= _IDLE) & (jnp.abs(verified.gap) <= verified.resolution)
    stuck = wanted & unchanged
    # The gap in the loop and its error are at most the resolution, unless the oracle is inexact.
    within = flat & (jnp.abs(verified.gap) <= 2 * verified.resolution)
    of_rounding = stalled | within | (stuck & (jnp.abs(verified.gap) <= _ROUNDING_TIMES * verified.resolution))
    ends = [
        (~finite, Status.NUMERICAL),
        (False if contradiction is None else contradiction, Status.INCONSISTENT),
        (met, Status.TOLERANCE),
        (stuck & (verified.gap < 0), Status.NUMERICAL),  # x is outside the set, and no longer moves.
        (of_rounding, Status.PRECISION),
        (stuck, Status.FINISHED),
        (moved.k >= state.max_iter, Status.ITERATIONS),
    ]
    reasons, statuses = zip(*ends, strict=True)
    status = jnp.select(list(reasons), list(map(STATUSES.index, statuses)), RUNNING).astype(jnp.int32)
    # If the best iterate does not end the run, the run goes on from the last one, which was not verified.
    unknown = verified._replace(fun=jnp.full_like(verified.fun, jnp.nan), gap=jnp.full_like(verified.gap, jnp.nan))
    point, verified = either(flat & (status == RUNNING), (moved.point, unknown), (checked.point, checked.verified))
    # A problem of a batch that has ended stays as it is.
    return either(state.status == RUNNING, checked._replace(status=status, point=point, verified=verified), state)


def run(
    f: Objective, C: Set, method: Method, x: Array, tol: Array, rtol: Array, max_iter: Array, every: int, rows: int
) -> Carry:
    """Return the state at the end of a run that starts at x."""
    state = begin(f, C, method, x, tol, rtol, max_iter, rows)
    return lax.while_loop(lambda s: s.status == RUNNING, partial(play, f, C, method, every, ROUND), state)


def result(state: Carry, x: Any, name: str) -> Result:
    """Return the result of a run that has ended, with x in the form of the user."""
    return Result(
        x=x,
        nit=state.k,
        n_grad=state.n_grad,
        n_lmo=state.n_lmo,
        status=state.status,
        success=state.status == STATUSES.index(Status.TOLERANCE),
        trace=state.trace,
        method=name,
        **state.verified._asdict(),
    )
