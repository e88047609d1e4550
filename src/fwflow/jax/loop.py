"""A whole run, compiled: rounds of iterations, each of which ends with a verdict, in double precision where possible.

Every run ends: a round makes at least one step, but for the first, and none makes a step beyond ``max_iter``.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fwflow.jax.methods import Known, Method, evaluate
from fwflow.jax.objectives import Objective
from fwflow.jax.points import Point
from fwflow.jax.result import CONTRADICTION, RUNNING, Result, code
from fwflow.jax.sets import Set
from fwflow.jax.trees import Array, doubles, epsilon, inner
from fwflow.run.result import Status

# After so many iterations x is judged, and its image computed afresh.
ROUND = 200
# A round of at least this many steps that does not move x is the end of a run.
_STILL = 10
# So many verdicts in a row without a clearly smaller gap, and what is left is rounding if it is within that.
_IDLE = 5
# A gap that is larger than rounding by more than this is not its work.
_ROUNDING_TIMES = 1e3


class Limits(NamedTuple):
    """How exact, and how far."""

    tol: Array
    rtol: Array
    max_iter: Array

    def threshold(self, first_gap: Array) -> Array:
        """The gap at which to stop."""
        return jnp.maximum(self.tol, self.rtol * jnp.maximum(first_gap, 0))

    @property
    def wanted(self) -> Array:
        """Whether any tolerance is asked for."""
        return (self.tol > 0) | (self.rtol > 0)


class Judgement(NamedTuple):
    """Value, gap and membership of x from a fresh image, and what rounding may make of the gap.

    `resolution` is that in the type of x, `rounding` that in the arithmetic of the verdict. `reversed` tells whether
    the oracle contradicts itself; None for oracles that are not a user's.
    """

    fun: Array
    gap: Array
    feasible: Array | None
    resolution: Array
    rounding: Array
    reversed: Array | None


class Carry(NamedTuple):
    """A run between two iterations."""

    k: Array
    point: Point
    known: Known
    memory: Any
    first_gap: Array
    aim: Array
    best_gap: Array
    idle: Array
    wait: Array
    status: Array
    verdict: Judgement
    n_grad: Array
    n_lmo: Array
    trace: dict[str, Array] | None


def slack(dtype: Any) -> float:
    """By which share of the size of a set points made of thousands of rounded mixtures may be outside."""
    return max(1e-8, 1e3 * epsilon(dtype))


def judge(f: Objective, C: Set, x: Array) -> tuple[Point, Judgement]:
    """Return x with a fresh image, and the verdict on it: double precision verifies what single precision finds.

    Users' functions and oracles that cannot compute in double precision are verified in the type of x.
    """
    dtype, eps = x.dtype, epsilon(x.dtype)
    double = dtype == jnp.float64 or (C.doubles(x) and doubles(lambda x: f.gradient(f.point(x)), x))
    with jax.enable_x64(True) if double else nullcontext():
        wide = x.astype(jnp.float64) if double else x
        point = f.point(wide)
        g = f.gradient(point)
        least = C.least(g)
        size = inner(jnp.abs(g), jnp.abs(wide)) + jnp.abs(least)
        gap = inner(g, wide) - least
        terms = size + f.noise(point)
        resolution, rounding = 4 * eps * terms, 4 * epsilon(wide.dtype) * terms
        excess = C.excess(wide)
        feasible = None if excess is None else excess <= slack(dtype)
        # A member has a negative gap only by rounding, and its size then measures that rounding.
        gap = jnp.where(gap < -resolution, gap, jnp.abs(gap) + (0 if double else 2 * eps * size))
        verdict = Judgement(
            fun=f.value(point).astype(dtype),
            gap=gap.astype(dtype),
            feasible=feasible,
            resolution=resolution.astype(dtype),
            rounding=rounding.astype(dtype),
            reversed=C.reversed(g, least),
        )
        return jax.tree.map(lambda part: part.astype(dtype), point), verdict


def begin(f: Objective, C: Set, method: Method, limits: Limits, x: Array, rows: int) -> Carry:
    """A run at its start."""
    point = f.point(x)
    known = evaluate(f, C, point, None, method.lifts)
    first = known.gap
    whole = partial(jnp.asarray, dtype=jnp.int32)
    unknown, no = jnp.full_like(first, jnp.nan), jnp.zeros((), bool)
    state = Carry(
        k=whole(0),
        point=point,
        known=known,
        memory=method.init(f, C, point, known),
        first_gap=first,
        aim=jnp.where(limits.wanted, limits.threshold(first), -jnp.inf),
        best_gap=jnp.full_like(first, jnp.inf),
        idle=whole(0),
        wait=whole(0),
        status=whole(RUNNING),
        verdict=Judgement(
            fun=unknown,
            gap=unknown,
            feasible=None if C.excess(x) is None else no,
            resolution=unknown,
            rounding=unknown,
            reversed=None if C.reversed(known.gradient, first) is None else no,
        ),
        n_grad=whole(1),
        n_lmo=whole(1),
        trace={name: jnp.full(rows, jnp.nan, x.dtype) for name in ("fun", "gap", "step")} if rows else None,
    )
    return _recorded(f, state, unknown)


def _met(limits: Limits, state: Carry) -> Array:
    verdict, threshold = state.verdict, limits.threshold(state.first_gap)
    inside = True if verdict.feasible is None else verdict.feasible
    within = (verdict.gap >= 0) & (verdict.gap <= threshold) & (verdict.rounding <= threshold)
    return limits.wanted & within & inside


def _recorded(f: Objective, state: Carry, length: Array) -> Carry:
    if state.trace is None:
        return state
    row = {"fun": f.value(state.point), "gap": state.known.gap, "step": length}
    return state._replace(trace={name: column.at[state.k].set(row[name]) for name, column in state.trace.items()})


def _advance(f: Objective, C: Set, method: Method, every: int, end: Array, state: Carry) -> Carry:
    """So many steps, and an evaluation of where they lead."""

    def step(_: Any, carry: Any) -> Any:
        k, point, memory, _ = carry
        return k + 1, *method.step(f, C, k, point, state.known, memory)

    def masked(i: Any, carry: Any) -> Any:
        # Not a loop that ends at the limit: of one of known length a GPU need not ask the host whether it goes on.
        return jax.tree.map(partial(jnp.where, carry[0] < end), step(i, carry), carry)

    carry = (state.k, state.point, state.memory, jnp.zeros_like(state.first_gap))
    k, point, memory, length = step(0, carry) if every == 1 else lax.fori_loop(0, every, masked, carry)
    steps = k - state.k
    advanced = state._replace(
        k=k,
        point=point,
        memory=memory,
        known=evaluate(f, C, point, state.known.vertex, method.lifts),
        n_grad=state.n_grad + method.gradients * steps + 1,
        n_lmo=state.n_lmo + method.oracles * steps + 1,
    )
    return _recorded(f, advanced, length)


def play(f: Objective, C: Set, method: Method, limits: Limits, every: int, length: int, state: Carry) -> Carry:
    """One round: iterations up to that length or until the gap looks small enough, and the verdict."""
    end = jnp.minimum(state.k + length, limits.max_iter)
    again = state.k + state.wait
    moved = lax.while_loop(
        lambda s: (s.status == RUNNING) & ((s.known.gap > s.aim) | (s.k < again)) & (s.k < end),
        partial(_advance, f, C, method, min(every, length), end),
        state,
    )
    early = moved.k < end  # the gap looks small enough, or is not a number
    whole = jnp.isfinite(moved.point.x).all() & jnp.isfinite(moved.known.gap)
    point, verdict = judge(f, C, jnp.where(whole, moved.point.x, state.point.x))
    finite = jnp.isfinite(verdict.gap) & jnp.isfinite(verdict.fun) & whole
    size = epsilon(point.x.dtype) * jnp.abs(point.x).max()
    still = (jnp.abs(point.x - state.point.x).max() <= 4 * size) & (moved.k - state.k >= _STILL)
    better = (verdict.gap >= 0) & (verdict.gap < 0.9 * state.best_gap)
    judged = moved._replace(
        point=point,
        verdict=verdict,
        best_gap=jnp.where(better, verdict.gap, state.best_gap),
        idle=jnp.where(better, 0, state.idle + 1),
        # A gap that looked smaller than it is: ask for a smaller one, and look after ever more steps.
        aim=jnp.where(early, state.aim / 2, state.aim),
        wait=jnp.where(early, jnp.clip(2 * state.wait, 1, length), state.wait),
        n_grad=moved.n_grad + 1,
        n_lmo=moved.n_lmo + (1 if verdict.reversed is None else 2),
    )
    worn = limits.wanted & (judged.idle >= _IDLE) & (jnp.abs(verdict.gap) <= verdict.resolution)
    stuck = limits.wanted & still
    of_rounding = worn | (stuck & (jnp.abs(verdict.gap) <= _ROUNDING_TIMES * verdict.resolution))
    ends = [
        (~finite, Status.NUMERICAL),
        (False if verdict.reversed is None else verdict.reversed, CONTRADICTION),
        (_met(limits, judged), Status.TOLERANCE),
        (stuck & (verdict.gap < 0), Status.NUMERICAL),  # x is outside the set, and the method does not leave it
        (of_rounding, Status.PRECISION),
        (stuck, Status.FINISHED),
        (moved.k >= limits.max_iter, Status.ITERATIONS),
    ]
    reasons, statuses = zip(*ends, strict=True)
    status = jnp.select(list(reasons), [code(status) for status in statuses], RUNNING).astype(jnp.int32)
    # After a failure, the point before this round: the last that was judged good.
    kept = state._replace(
        k=moved.k,
        status=status,
        verdict=jax.tree.map(partial(jnp.where, whole), state.verdict, verdict),
        n_grad=judged.n_grad,
        n_lmo=judged.n_lmo,
        trace=moved.trace,
    )
    judged = jax.tree.map(partial(jnp.where, finite), judged._replace(status=status), kept)
    # A finished problem of a batch stays as it is.
    return jax.tree.map(partial(jnp.where, state.status == RUNNING), judged, state)


def run(f: Objective, C: Set, method: Method, limits: Limits, x: Array, every: int, rows: int) -> Carry:
    """A run from its start to its end."""
    return lax.while_loop(
        lambda state: state.status == RUNNING,
        partial(play, f, C, method, limits, every, ROUND),
        begin(f, C, method, limits, x, rows),
    )


def result(state: Carry, name: str) -> Result:
    """What users see of the end of a run."""
    return Result(
        x=state.point.x,
        fun=state.verdict.fun,
        gap=state.verdict.gap,
        resolution=state.verdict.resolution,
        rounding=state.verdict.rounding,
        nit=state.k,
        n_grad=state.n_grad,
        n_lmo=state.n_lmo,
        status=state.status,
        success=state.status == code(Status.TOLERANCE),
        feasible=state.verdict.feasible,
        trace=state.trace,
        method=name,
    )
