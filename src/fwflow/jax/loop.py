"""A whole run, compiled: rounds of iterations, each of which ends with a verdict in double precision."""

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
from fwflow.jax.result import RUNNING, Result, code
from fwflow.jax.sets import Set
from fwflow.jax.trees import Array, epsilon, inner
from fwflow.result import Status

# After so many iterations x is judged, and its image computed afresh.
ROUND = 200
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


class Verdict(NamedTuple):
    """Value, gap and membership of x from a fresh image, and what rounding may make of the gap."""

    fun: Array
    gap: Array
    feasible: Array | None
    resolution: Array


class State(NamedTuple):
    """A run between two iterations."""

    k: Array
    point: Point
    known: Known
    memory: Any
    first_gap: Array
    aim: Array
    best_gap: Array
    idle: Array
    status: Array
    verdict: Verdict
    n_grad: Array
    n_lmo: Array
    trace: dict[str, Array] | None


def slack(dtype: Any) -> float:
    """By which share of the size of a set points made of thousands of rounded mixtures may be outside."""
    return max(1e-8, 1e3 * epsilon(dtype))


def judge(f: Objective, C: Set, x: Array) -> tuple[Point, Verdict]:
    """x with a fresh image, and the truth about it: double precision judges what single precision finds."""
    dtype, eps = x.dtype, epsilon(x.dtype)
    with jax.enable_x64(True) if f.doubles else nullcontext():
        wide = x.astype(jnp.float64) if f.doubles else x
        point = f.point(wide)
        g = f.gradient(point)
        least, size = C.least(g), inner(jnp.abs(g), jnp.abs(wide))
        gap = inner(g, wide) - least
        resolution = 4 * eps * (size + jnp.abs(least) + f.noise(point))
        if not f.doubles:  # a user's own function, whose gap is a difference that its type rounds
            gap = jnp.abs(gap) + 2 * eps * (size + jnp.abs(least))
        excess = C.excess(wide)
        feasible = None if excess is None else excess <= slack(dtype)
        # No member has a negative gap but by rounding, of which it then is a measure.
        gap = jnp.where(gap < -resolution, gap, jnp.abs(gap))
        verdict = Verdict(f.value(point).astype(dtype), gap.astype(dtype), feasible, resolution.astype(dtype))
        return jax.tree.map(lambda part: part.astype(dtype), point), verdict


def begin(f: Objective, C: Set, method: Method, limits: Limits, x: Array, rows: int) -> State:
    """A run at its start."""
    point = f.point(x)
    known = evaluate(f, C, point, None, method.lifts)
    first = known.gap
    whole = partial(jnp.asarray, dtype=jnp.int32)
    unknown = jnp.full_like(first, jnp.nan)
    state = State(
        k=whole(0),
        point=point,
        known=known,
        memory=method.init(f, C, point, known),
        first_gap=first,
        aim=jnp.where(limits.wanted, limits.threshold(first), -jnp.inf),
        best_gap=jnp.full_like(first, jnp.inf),
        idle=whole(0),
        status=whole(RUNNING),
        verdict=Verdict(unknown, unknown, None if C.excess(x) is None else jnp.zeros((), bool), unknown),
        n_grad=whole(1),
        n_lmo=whole(1),
        trace={name: jnp.full(rows, jnp.nan, x.dtype) for name in ("fun", "gap", "step")} if rows else None,
    )
    return _recorded(f, state, unknown)


def _met(limits: Limits, state: State) -> Array:
    inside = True if state.verdict.feasible is None else state.verdict.feasible
    within = jnp.abs(state.verdict.gap) <= limits.threshold(state.first_gap)
    return limits.wanted & within & inside & (state.verdict.gap >= 0)


def _recorded(f: Objective, state: State, length: Array) -> State:
    if state.trace is None:
        return state
    row = {"fun": f.value(state.point), "gap": state.known.gap, "step": length}
    return state._replace(trace={name: column.at[state.k].set(row[name]) for name, column in state.trace.items()})


def _advance(f: Objective, C: Set, method: Method, every: int, end: Array, state: State) -> State:
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


def play(f: Objective, C: Set, method: Method, limits: Limits, every: int, length: int, state: State) -> State:
    """One round: iterations up to that length or until the gap looks small enough, and the verdict."""
    end = jnp.minimum(state.k + length, limits.max_iter)
    moved = lax.while_loop(
        lambda s: (s.status == RUNNING) & (s.known.gap > s.aim) & (s.k < end),
        partial(_advance, f, C, method, every, end),
        state,
    )
    whole = jnp.isfinite(moved.point.x).all() & jnp.isfinite(moved.known.gap)
    point, verdict = judge(f, C, jnp.where(whole, moved.point.x, state.point.x))
    finite = jnp.isfinite(verdict.gap) & jnp.isfinite(verdict.fun) & whole
    size = epsilon(point.x.dtype) * jnp.abs(point.x).max()
    still = (jnp.abs(point.x - state.point.x).max() <= 4 * size) & (moved.k > state.k)
    better = verdict.gap < 0.9 * state.best_gap
    judged = moved._replace(
        point=point,
        verdict=verdict,
        best_gap=jnp.where(better, verdict.gap, state.best_gap),
        idle=jnp.where(better, 0, state.idle + 1),
        aim=jnp.where(moved.known.gap <= state.aim, state.aim / 2, state.aim),  # it looked smaller than it is
        n_grad=moved.n_grad + 1,
        n_lmo=moved.n_lmo + 1,
    )
    worn = limits.wanted & (judged.idle >= _IDLE) & (verdict.gap <= verdict.resolution)
    stuck = limits.wanted & still
    of_rounding = worn | (stuck & (verdict.gap <= _ROUNDING_TIMES * verdict.resolution))
    status = jnp.select(
        [~finite, _met(limits, judged), of_rounding, stuck, moved.k >= limits.max_iter],
        [code(s) for s in (Status.NUMERICAL, Status.TOLERANCE, Status.PRECISION, Status.FINISHED, Status.ITERATIONS)],
        RUNNING,
    ).astype(jnp.int32)
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


def run(f: Objective, C: Set, method: Method, limits: Limits, x: Array, every: int, rows: int) -> State:
    """A run from its start to its end."""
    return lax.while_loop(
        lambda state: state.status == RUNNING,
        partial(play, f, C, method, limits, every, ROUND),
        begin(f, C, method, limits, x, rows),
    )


def result(state: State, limits: Limits, name: str) -> Result:
    """What users see of the end of a run."""
    return Result(
        x=state.point.x,
        fun=state.verdict.fun,
        gap=state.verdict.gap,
        resolution=state.verdict.resolution,
        nit=state.k,
        n_grad=state.n_grad,
        n_lmo=state.n_lmo,
        status=state.status,
        success=_met(limits, state),
        feasible=state.verdict.feasible,
        trace=state.trace,
        method=name,
    )
