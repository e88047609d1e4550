"""Optimal intercepts: one Newton step for a quadratic loss, else Newton's method in a bracket."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fwflow._numerics import dot, quietly
from fwflow._validation import Array
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.losses import Loss

_EPS = float(np.finfo(np.float64).eps)
# Largest number of steps. The search range doubles, so that this number of steps reaches all floating-point numbers.
_MOST = 2000


def average(entries: Array, weights: Array | None) -> float:
    """Return the weighted mean of some numbers, or 0 if no weight is positive."""
    if weights is None:
        return float(entries.mean(dtype=np.float64))
    total = float(weights.sum(dtype=np.float64))
    return float(dot(weights, entries)) / total if total > 0 else 0.0


@quietly  # `root` raises an error for an image that overflows in single precision.
def optimal_intercept(loss: Loss, z: Array, b: Array, weights: Array | None, guess: float | None = None) -> float:
    r"""Return the c that minimises :math:`\sum_i w_i \ell(z_i + c, b_i)`; the search starts from `guess`."""

    def total(entries: Array) -> float:
        return float(entries.sum() if weights is None else dot(weights, entries))

    def derivatives(c: float) -> tuple[float, float, float]:
        first, second = loss.derivative(z + c, b), loss.second(z + c, b)
        return total(first), total(second), total(np.abs(first) + second * np.abs(z))

    if loss.quadratic:
        slope, curvature, _ = derivatives(0.0)
        return -slope / curvature if curvature > 0 else 0.0
    return root(derivatives, average(b - z, weights) if guess is None else guess)


def root(derivatives: Callable[[float], tuple[float, float, float]], c: float) -> float:
    """Return the zero of an increasing function, by Newton's method with bisection as a safeguard.

    ``derivatives(c)`` is the function, its derivative, and the sum of the moduli of its terms.
    """
    lower, upper, reach, before = -math.inf, math.inf, 1.0, math.inf
    for _ in range(_MOST):
        slope, curvature, size = derivatives(c)
        if abs(slope) <= 4 * _EPS * size:
            return c
        lower, upper = (c, upper) if slope < 0 else (lower, c)
        target = c - slope / curvature if curvature > 0 else math.copysign(math.inf, -slope)
        if math.isinf(upper - lower):
            target = min(max(target, c - reach), c + reach)
            reach *= 2
        elif not lower < target < upper or abs(slope) > before / 2:
            target = lower + (upper - lower) / 2
        if target in (lower, upper):
            return c
        c, before = target, abs(slope)
    raise NumericalTrouble("the optimal intercept is infinite: the loss decreases without end as it grows")
