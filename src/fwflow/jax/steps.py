"""Schedules of the core with a traced step number, and the compiled line searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax, tree_util

from fwflow.jax.objectives import Line
from fwflow.jax.trees import Array, epsilon, register
from fwflow.steps.schedules import ConstantSchedule, LogOpenLoop, OpenLoop, Schedule
from fwflow.steps.searches import Aggressive, ExactSearch, LineSearch

# The parameters of these schedules are leaves, so that one compiled run serves all of their values.
for _kind in (ConstantSchedule, LogOpenLoop, OpenLoop):
    register(_kind)


def as_pytree(schedule: Schedule) -> Schedule:
    """Return a schedule that can be passed to ``jit``. Parameters of a schedule of the user's own are compiled in."""
    if tree_util.all_leaves([schedule]):  # JAX has no rule for its class
        tree_util.register_static(type(schedule))
    return schedule


def stage_gammas(schedule: Schedule, k: Array, omega: Sequence[Any], dtype: Any) -> list[Array]:
    """Return the mixing coefficients ``schedule.stage_gammas(k, omega)`` for a traced k."""
    times = [((schedule.k0 + k + w) * schedule.delta).astype(dtype) for w in omega]
    return [jnp.asarray(schedule.delta * schedule.gamma(t), dtype) for t in times]


def aggressive(line: Line, gamma: Array, limit: Array) -> Array:
    """Return the step size of `fwflow.Aggressive`."""
    value0 = line.value(jnp.zeros_like(gamma))
    lower = value0 - 4 * epsilon(gamma.dtype) * jnp.abs(value0)
    shortest = jnp.maximum(gamma, 0)  # Halving a finite step size reaches zero, so the loop ends.

    def unfinished(t: Array) -> Array:
        return (t > shortest) & (t < jnp.inf) & ~(line.value(t) < lower)

    trial = lax.while_loop(unfinished, lambda t: t / 2, limit)
    downhill = line.slope(jnp.zeros_like(gamma)) < 0
    return jnp.minimum(limit, jnp.where(downhill, jnp.maximum(gamma, trial), gamma))


def exact(line: Line, gamma: Array, limit: Array) -> Array:
    """Return the step size of `fwflow.ExactSearch`: a closed form for quadratics, otherwise Newton in a bracket."""
    zero = jnp.zeros_like(limit)
    slope0 = line.slope(zero)
    if line.quadratic:
        curvature = line.second(zero)
        length = jnp.where(curvature > 0, jnp.minimum(limit, -slope0 / jnp.where(curvature > 0, curvature, 1)), limit)
    else:
        length = _stationary(line, slope0, limit)
    return jnp.where(slope0 < 0, length, 0)


def _stationary(line: Line, slope0: Array, limit: Array) -> Array:
    eps = epsilon(limit.dtype)
    enough = max(1e-10, 16 * eps) * jnp.abs(slope0)

    def unfinished(carry: Any) -> Array:
        count, x, slope, low, high, last = carry
        return (count < 60) & (jnp.abs(slope) > enough) & (high - low > 8 * eps * limit) & (x != last)

    def newton(carry: Any) -> Any:
        count, x, slope, low, high, _ = carry
        curvature = line.second(x)
        trial = jnp.where(curvature > 0, x - slope / jnp.where(curvature > 0, curvature, 1), high)
        trial = jnp.where((low < trial) & (trial < high), trial, (low + high) / 2)
        slope = line.slope(trial)
        low, high = jnp.where(slope < 0, trial, low), jnp.where(slope < 0, high, trial)
        return count + 1, trial, slope, low, high, x

    zero = jnp.zeros_like(limit)
    found = lax.while_loop(unfinished, newton, (0, zero, slope0, zero, limit, -jnp.ones_like(limit)))[1]
    return jnp.where(line.slope(limit) <= 0, limit, found)


#: Compiled forms of line searches of the core.
line_searches: dict[LineSearch, Callable[[Line, Array, Array], Array]] = {
    Aggressive(): aggressive,
    ExactSearch(): exact,
}
