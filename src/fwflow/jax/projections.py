"""Which member of a simplex is nearest? By few wide sums, for devices that sort slowly."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from fwflow.jax.trees import Array, epsilon

# So many thresholds are tried at once, of which each round keeps the interval between two.
_TRIALS = 32


def onto_simplex(v: Array, radius: Array) -> Array:
    r"""The point of :math:`\{w \ge 0 : \sum w = r\}` nearest to a vector: :math:`\max(v - t, 0)`.

    The sum is convex and falls with t, from at least r one radius below the largest entry to zero there. Each round
    leaves 1/32 of that interval, and from its left end one step of Newton's method is exact.
    """
    behind = (v - v.max()) / radius
    rounds = math.ceil(-math.log2(epsilon(v.dtype)) / math.log2(_TRIALS))
    shares = jnp.arange(_TRIALS, dtype=v.dtype) / _TRIALS

    def narrowed(_: Any, interval: tuple[Array, Array]) -> tuple[Array, Array]:
        t, width = interval
        trials = t + width * shares
        reached = jnp.maximum(behind - trials[:, None], 0).sum(axis=-1) >= 1
        return jnp.where(reached, trials, t).max(), width / _TRIALS

    t, _ = lax.fori_loop(0, rounds, narrowed, (-jnp.ones((), v.dtype), jnp.ones((), v.dtype)))
    weights = jnp.maximum(behind - t, 0)
    return radius * jnp.maximum(behind - t - (weights.sum() - 1) / (weights > 0).sum(), 0)
