"""Projections onto balls of p-norms, and of sums of maximum norms."""

from __future__ import annotations

import math

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array

_EPS = float(np.finfo(np.float64).eps)
# Largest relative change of the unknowns after which one more step is exact to rounding: the iteration for the entries
# converges with order three, and the iteration for the multiplier with order two.
_LAST_ENTRIES, _LAST_MULTIPLIER = 1e-5, 1e-8
# Largest number of sweeps. Random vectors of 1 to 1000 entries took at most 24, for p between 1.0001 and 1000.
_SWEEPS = 200


def onto_power_ball(x: Array, p: float, radius: float) -> Array:
    r"""Return the vector nearest to x with :math:`\|y\|_p = r`, given that x lies outside of this ball.

    In units of the radius, the absolute values solve :math:`y_i + \mu y_i^{p-1} = |x_i|` for the multiplier with
    :math:`\|y\|_p = 1`. All unknowns are logarithms, so that powers neither overflow nor vanish: with the largest
    absolute value M, :math:`u = \log y`, :math:`s = \log(|x| / M)` and :math:`m = \log(\mu / M)`, the equation is
    :math:`\log(e^{u - s} / M + e^{m + (p-1) u - s}) = 0`. Its left side is convex in u with slopes between 1 and
    p - 1, and Halley's method solves it for all entries at once. The multiplier follows by Newton's method for
    :math:`\|y\|_p^{1-p} = 1`, which is linear in :math:`\mu` for p = 2 and far away from the ball, and concave for
    p > 2. Bounds on the multiplier safeguard the method.
    """
    size = np.abs(x)
    used = size > 0
    if not used.all():
        y = np.zeros_like(x)
        y[used] = onto_power_ball(x[used], p, radius)
        return y
    largest = float(size.max())
    share = size / largest
    s = np.log(share) if share.min() > np.finfo(np.float64).tiny else np.log(size) - math.log(largest)
    (top, up), (unit, down) = math.frexp(largest), math.frexp(radius)
    distance, q = math.log(top / unit) + (up - down) * math.log(2), p / (p - 1)
    low = math.log(max(-math.expm1(-distance), _EPS**2))  # For a smaller multiplier, the largest entry exceeds one.
    high = 1 + math.log(float(np.exp(q * s).sum())) / q  # Above the multiplier without the first term.
    m, spread = low, math.log(2) / min(1.0, p - 1)
    u = ceiling = np.minimum(distance + s, (s - m) / (p - 1))  # Without one of the terms, and above the root.
    for _ in range(_SWEEPS):
        first, second = np.exp(u - s - distance), np.exp((p - 1) * u - s + m)
        both = first + second
        second /= both
        slope = 1 + (p - 2) * second
        step = np.log(both) / slope
        step /= np.maximum(1 - 0.5 * (p - 2) ** 2 * step * second * (1 - second) / slope, 0.5)
        u = np.clip(u - step, ceiling - spread, ceiling)
        if p * float(np.abs(step).max()) > _LAST_ENTRIES:
            continue
        second /= slope  # Minus the derivative of u with respect to m.
        powers = np.exp(p * u)
        total = float(powers.sum())
        excess = math.log(total) / p
        rise = math.expm1((p - 1) * excess) / ((p - 1) * float(dot(powers, second)) / total)
        if abs(excess) <= 4 * _EPS or abs(rise) <= _LAST_MULTIPLIER:
            u -= second * rise
            break
        low, high = (m, high) if excess > 0 else (low, m)
        change = math.log1p(rise) if rise > -1 else -math.inf
        change = change if low < m + change < high else (low + high) / 2 - m
        m += change
        ceiling = np.minimum(distance + s, (s - m) / (p - 1))
        u = np.clip(u - change * second, ceiling - spread, ceiling)
    y = np.exp(u)
    y /= float((y**p).sum()) ** (1 / p)  # On the boundary in spite of rounding.
    return np.copysign(np.minimum(radius * y, size), x)


def onto_sum_of_maxima(x: Array, labels: Array, radius: float) -> Array:
    r"""Return the vector nearest to x for which the largest absolute values of the groups sum to r.

    The largest absolute values of x sum to more. The result has the absolute values :math:`\min(|x_i|, c_G)`, and
    entries lose :math:`\tau` in every group with :math:`c_G > 0` (Quattoni et al. 2009). With growing :math:`\tau`,
    groups lose their entries in descending order, so that the sum of all :math:`c_G` is convex and piecewise linear.
    Newton's method increases to the root.
    """
    size = np.abs(x)
    order = np.lexsort((-size, labels))
    z, starts = size[order], np.flatnonzero(np.diff(labels[order], prepend=-1))
    counts = np.diff(starts, append=len(z))
    places = np.arange(1, len(z) + 1) - np.repeat(starts, counts)
    sums = np.cumsum(z)
    sums -= np.repeat(sums[starts] - z[starts], counts)
    from_here = sums - places * z  # The entry exceeds the level of its group from this loss on.
    from_here[starts] = 0.0
    tau = 0.0
    while True:
        cut = from_here <= tau
        total, k = np.add.reduceat(np.where(cut, z, 0.0), starts), np.add.reduceat(cut.astype(np.float64), starts)
        kept = (total > tau) | (total == total.max())
        total, k = total[kept], k[kept]
        following = tau + (float(((total - tau) / k).sum()) - radius) / float((1 / k).sum())
        if following <= tau * (1 + 8 * _EPS):
            break
        tau = following
    # Relative to the largest total, a loss far beyond the radius costs no accuracy.
    total -= total.max()
    level = np.zeros(len(starts))
    level[kept] = np.maximum(total - (float((total / k).sum()) - radius) / float((1 / k).sum()), 0.0) / k
    level *= radius / level.sum()  # On the boundary in spite of rounding.
    return np.copysign(np.minimum(size, level[labels]), x)
