"""Which member of a simplex is nearest? By few wide sums, for devices that sort slowly."""

from __future__ import annotations

import math

import jax.numpy as jnp

from fwflow.jax.trees import Array, epsilon

# So many thresholds are tried at once, of which each round keeps the interval between two.
_TRIALS = 32


def onto_simplex(v: Array, radius: Array) -> Array:
    r"""The point of :math:`\{w \ge 0 : \sum w = r\}` nearest to a vector: :math:`\max(v - t, 0)`.

    The sum is convex and falls with t, from at least r one radius below the largest entry to zero there. Each round
    leaves 1/32 of that interval, and from its left end a step of Newton's is exact but for what rounding hides.
    """
    behind = (v - v.max()) / radius
    rounds = math.ceil(-math.log2(epsilon(v.dtype)) / math.log2(_TRIALS))
    shares = jnp.arange(_TRIALS, dtype=v.dtype) / _TRIALS
    t, width = -jnp.ones((), v.dtype), jnp.ones((), v.dtype)
    for _ in range(rounds):
        trials = t + width * shares
        above = jnp.maximum(behind - trials[:, None], 0).sum(axis=-1) >= 1
        t = jnp.where(above, trials, t).max()
        width = width / _TRIALS
    kept = behind > t
    t = (jnp.where(kept, behind, 0).sum() - 1) / kept.sum()
    weights = jnp.maximum(behind - t, 0)
    return radius * weights / weights.sum()
