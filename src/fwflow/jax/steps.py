"""How far to go? The core's schedules with a traced number of the step, and line searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import lax

from fwflow._validation import suggest
from fwflow.jax.objectives import Line
from fwflow.jax.trees import Array, epsilon, pytree
from fwflow.steps import schedules as core


@pytree()
@dataclass(frozen=True, eq=False)
class Gamma:
    r"""All schedules of the core in one formula, :math:`\gamma(t) = v\,c(t) / (c(t) + s\,t)`.

    With :math:`c(t) = c + l \log(t + 1)`: so that one compiled run serves them all.
    """

    value: Any
    c: Any
    log: Any
    slope: Any
    delta: Any
    k0: Any

    def stage_gammas(self, k: Array, omega: Sequence[Any], dtype: Any) -> list[Array]:
        r""":math:`\Delta\,\gamma(t_k + \omega_i \Delta)` for every stage of step k."""
        times = [((self.k0 + k + w) * self.delta).astype(dtype) for w in omega]
        return [(self.delta * self.gamma(t)).astype(dtype) for t in times]

    def gamma(self, t: Any) -> Any:
        """The mixing coefficient at time t."""
        c = self.c + self.log * jnp.log1p(t)
        return self.value * c / (c + self.slope * t)


@pytree("schedule")
@dataclass(frozen=True, eq=False)
class Traced(Gamma):
    """A schedule of the user's own, whose formula JAX can trace."""

    schedule: core.Schedule

    def gamma(self, t: Any) -> Any:
        return self.schedule.gamma(t)


def as_gamma(schedule: core.Schedule) -> Gamma:
    """A schedule of the core, for traced steps."""
    delta, k0 = float(schedule.delta), float(schedule.k0)
    if type(schedule) is core.OpenLoop:
        return Gamma(1.0, schedule.c, 0.0, 1.0, delta, k0)
    if type(schedule) is core.LogOpenLoop:
        return Gamma(1.0, 2.0, 1.0, 1.0, delta, k0)
    if type(schedule) is core.ConstantSchedule:
        return Gamma(schedule.value, 1.0, 0.0, 0.0, delta, k0)
    return Traced(1.0, 1.0, 0.0, 0.0, delta, k0, schedule)


def aggressive(line: Line, gamma: Array, limit: Array) -> Array:
    """The paper's rule: the largest of 1, 1/2, 1/4, ... that decreases f by more than rounding, or gamma if longer."""
    value0 = line.value(jnp.zeros_like(gamma))
    lower = value0 - 4 * epsilon(gamma.dtype) * jnp.abs(value0)
    least = jnp.maximum(gamma, 0)  # halving a finite length ends at zero at the latest

    def going(t: Array) -> Array:
        return (t > least) & (t < jnp.inf) & ~(line.value(t) < lower)

    trial = lax.while_loop(going, lambda t: t / 2, limit)
    downhill = line.slope(jnp.zeros_like(gamma)) < 0
    return jnp.minimum(limit, jnp.where(downhill, jnp.maximum(gamma, trial), gamma))


def exact(line: Line, gamma: Array, limit: Array) -> Array:
    """The minimiser on the segment: closed form for quadratics, else Newton's method within a bracket."""
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

    def going(carry: Any) -> Array:
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
    found = lax.while_loop(going, newton, (0, zero, slope0, zero, limit, -jnp.ones_like(limit)))[1]
    return jnp.where(line.slope(limit) <= 0, limit, found)


#: Line searches by name.
line_searches = {"aggressive": aggressive, "exact": exact}


def check_search(name: Any) -> None:
    """Complain about names that are not known."""
    if name is not None and name not in line_searches:
        raise ValueError(f"line_search={name!r} is not known to fwflow.jax; {suggest(name, line_searches)}")
