"""Sets of vectors with a bound on every entry and one on their sum: bounded simplices and l1 balls."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import lowest, norm
from fwflow._validation import Array, InputError, finite_array, float_array, float_dtype, number, positive
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import Faces, ParametricSet, Tangent, WorkingSets, few_ulps, first_bound, needs_shape
from fwflow.sets.hypersimplices import vertex_at
from fwflow.sets.vectors import NO_NOISE, ON_BOUNDARY, ROUNDING, L1Ball, rounded_towards

# Share of entries that cannot be zero up to which vertices are stored by their nonzero entries. Chosen without tuning.
_SPARSE = 0.25


def filled(gains: Array, rooms: Array, total: float) -> Array:
    """Return amounts within `rooms`, of at most `total` in sum, that go to the largest gains; ties to the first."""
    order = np.argsort(-gains, kind="stable")
    taken = rooms[order]
    amounts = np.empty_like(taken)
    amounts[order] = np.clip(total - (np.cumsum(taken) - taken), 0.0, taken)
    return amounts


def onto_bounded_sum(a: Array, low: Array, high: Array, total: float) -> Array:
    r"""Return the point nearest to a with :math:`low \le h \le high` and the sum `total`, which the bounds allow.

    It is clip(a - t, low, high), with a sum that is piecewise linear in t and has breaks at a - low and a - high. The
    two breaks around the total are found by bisection. Numbers are differences to one entry of a, and in the second
    round to one whose break is next to t, so that a common offset costs no accuracy.
    """
    pivot = len(a) // 2
    for _ in range(2):
        with np.errstate(over="ignore"):
            # No entry further away can be between its bounds at the same t as the pivot.
            relative = np.nan_to_num(a - a[pivot])
            breaks = np.concatenate([relative - high, relative - low])
        order = np.argsort(breaks)
        first, last = 0, len(order) - 1
        while last - first > 1:
            middle = (first + last) // 2
            above = np.clip(relative - breaks[order[middle]], low, high).sum() >= total
            first, last = (middle, last) if above else (first, middle)
        pivot = int(order[first]) % len(a)
    upper, lower = (np.clip(relative - breaks[order[place]], low, high) for place in (first, last))
    most, least = float(upper.sum()), float(lower.sum())
    share = min(max((most - total) / (most - least), 0.0), 1.0) if most > least else 0.0
    h = (1 - share) * upper + share * lower
    free = (h > low) & (h < high)
    h[free] -= (h.sum() - total) / max(np.count_nonzero(free), 1)  # these entries take the rounding error of the sum
    return np.clip(h, low, high)


class _Bounded(Faces, ParametricSet):
    """Vectors with bounds on every entry, given by numbers or arrays."""

    polytope = True

    def _set_bounds(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = float_array(lower, "lower"), float_array(upper, "upper")
        if np.isnan(self.lower).any() or np.isnan(self.upper).any():
            raise InputError("lower and upper must not hold NaN; an infinite number stands for no bound")
        try:
            self.shape = np.broadcast_shapes(self.lower.shape, self.upper.shape) or None
        except ValueError:
            raise InputError(
                f"lower has shape {self.lower.shape}, upper has {self.upper.shape}; they must agree"
            ) from None
        if (self.lower > self.upper).any():
            raise InputError("lower must not exceed upper anywhere")

    def _given(self, shape: Shape) -> tuple[Array, Array]:
        """Return the bounds as vectors."""
        own = shape if self.shape is None else self.shape
        if math.prod(own) != math.prod(shape):
            raise InputError(f"x has shape {shape}; members of {self!r} have shape {own}")
        return np.broadcast_to(self.lower, own).reshape(-1), np.broadcast_to(self.upper, own).reshape(-1)

    def _shown(self, size: float) -> str:
        bounds = f"{self.lower}, {self.upper}" if self.shape is None else f"shape={self.shape}"
        return f"{type(self).__name__}({size:g}, {bounds})"

    def _vertex(self, x: Array, g: Array, least: Array) -> Vertex:
        """Return a vector as a vertex in the type and shape of g, given the vector from which the oracle starts."""
        if np.count_nonzero(least) <= _SPARSE * len(x):
            used = np.flatnonzero(x)
            return vertex_at(used, x[used], g)
        return DenseVertex(x.reshape(g.shape).astype(float_dtype(g.dtype), copy=False))

    def _box_step(self, x: Array, direction: Array, noise: Array | float) -> float:
        """Return the largest step that keeps the bounds of the entries."""
        lower, upper = self._given(x.shape)
        slack, x, direction = self._slack(x, noise), x.reshape(-1), direction.reshape(-1)
        return first_bound(np.where(direction > 0, upper - x, x - lower), np.abs(direction), slack)

    @abstractmethod
    def _largest(self, shape: Shape) -> float:
        """Return the largest modulus of an entry of a member, or a bound on it."""

    def _slack(self, x: Array, noise: Array | float) -> Array:
        """Return the distances to a bound below which entries count as equal to it, as a vector."""
        return np.broadcast_to(noise, x.shape).reshape(-1) + few_ulps(x.dtype) * self._largest(x.shape)


class BoundedSimplex(_Bounded):
    r"""Vectors with bounds on every entry and a fixed sum, :math:`\{x : l \le x \le u,\; \sum_i x_i = t\}`.

    The oracle starts from the lower bounds and raises the entries with the smallest gradient to their upper bounds,
    until the sum is reached. Ties go to the first indices. The default starting point divides the sum in proportion to
    the widths of the bounds. The diameter is an upper bound.

    Parameters
    ----------
    total : float
        Sum t of the entries; 1 by default.
    lower, upper : float or array_like
        Bounds l and u, with l finite and at most u. A number holds for all entries. By default 0, and no upper bound.

    See Also
    --------
    Simplex : Without upper bounds.
    BoundedL1Ball : Entries of both signs with a bounded sum of absolute values.
    HyperSimplex : The same upper bound for all entries, which divides the sum.

    Notes
    -----
    :Family: vectors
    :Uses: portfolio weights with limits for every asset, long-short portfolios, mixtures with minimum shares
    :Oracle: :math:`l`, with the entries of the smallest :math:`g_i` raised to :math:`u_i` until the sum is :math:`t`
    :Cost: :math:`n \log n`

    Examples
    --------
    No asset has more than 40 % of a portfolio, and the last one at least 10 %:

    >>> import numpy as np, fwflow as fw
    >>> C = fw.BoundedSimplex(1.0, [0.0, 0.0, 0.1], 0.4)
    >>> np.asarray(C.lmo(np.array([1.0, -1.0, 3.0])))
    array([0.4, 0.4, 0.2])
    >>> C.project([1.0, 0.2, 0.0])
    array([0.4, 0.4, 0.2])
    """

    parameters = ("total", "lower", "upper")

    def __init__(self, total: float = 1.0, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf) -> None:
        self.total = number(total, "total", "be finite", math.isfinite)
        self._set_bounds(lower, upper)
        if not np.isfinite(self.lower).all():
            raise InputError("lower must be finite: Frank-Wolfe needs a bounded set")
        if self.shape is not None:
            self._limits(self.shape)

    def __repr__(self) -> str:
        return self._shown(self.total)

    def _limits(self, shape: Shape) -> tuple[Array, Array, float]:
        """Return the bounds as vectors, with finite upper bounds, and the part of the sum above the lower bounds."""
        lower, upper = self._given(shape)
        least, most = float(lower.sum()), float(upper.sum())
        allowed = few_ulps(np.float64) * float(np.abs(lower).sum() + abs(self.total))
        if not least - allowed <= self.total <= most + allowed:
            raise InputError(
                f"the bounds leave no member: {len(lower)} entries have a sum from {least:g} to {most:g}, and total is "
                f"{self.total:g}"
            )
        free = max(self.total - least, 0.0)
        return lower, np.minimum(upper, lower + free), free

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        lower, upper, free = self._limits(g.shape)
        return self._vertex(lower + filled(-g.reshape(-1).astype(np.float64), upper - lower, free), g, lower)

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        lower, upper, _ = self._limits(x.shape)
        wide = x.astype(np.float64, copy=False).reshape(-1)
        if ((wide >= lower) & (wide <= upper)).all() and self.near(wide, few_ulps(x.dtype), NO_NOISE):
            return x
        return onto_bounded_sum(wide, lower, upper, self.total).astype(x.dtype).reshape(x.shape)

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex:
        lower, upper, _ = self._limits(x.shape)
        flat, slack = x.reshape(-1), self._slack(x, noise)
        top = flat >= upper - slack
        free = np.flatnonzero(~top & (flat > lower + slack))
        vertex = np.where(top, upper, lower)
        rooms = (upper - lower)[free]
        vertex[free] += filled(g.reshape(-1)[free].astype(np.float64), rooms, self.total - float(vertex.sum()))
        return self._vertex(vertex, g, lower)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        return self._box_step(x, direction, noise)

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        lower, upper, _ = self._limits(x.shape)
        few = few_ulps(x.dtype)
        free = np.flatnonzero((x > lower + few * np.abs(lower) + noise) & (x < upper - few * np.abs(upper) - noise))
        return Tangent.single(free, np.ones(len(free), x.dtype), (x - lower)[free], (upper - x)[free])

    def _largest(self, shape: Shape) -> float:
        lower, upper, _ = self._limits(shape)
        return float(np.maximum(np.abs(lower), np.abs(upper)).max())

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        lower, upper, free = self._limits(shape)
        widths = upper - lower
        return (lower + widths * (free / (float(widths.sum()) or 1.0))).astype(dtype).reshape(shape)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        lower, upper, free = self._limits(x.shape)
        x, noise = x.reshape(-1), np.broadcast_to(noise, x.shape).reshape(-1)
        if (np.abs(x) - noise > 2 * (np.abs(lower) + free) + abs(self.total)).any():  # so that no sum overflows
            return False
        slack = tol * self._largest(x.shape) + noise
        inside = (x >= lower - slack).all() and (x <= upper + slack).all()
        size = float(np.abs(lower).sum()) + free
        return bool(inside and abs(float(x.sum()) - self.total) <= tol * size + float(noise.sum()))

    def diameter(self, shape: Shape | None = None) -> float:
        lower, upper, free = self._limits(needs_shape(self, shape))
        return min(float(norm(upper - lower)), math.sqrt(2) * free)


class BoundedL1Ball(WorkingSets, _Bounded):
    r"""L1 ball with bounds on every entry, :math:`\{x : \|x\|_1 \le r,\; l \le x \le u\}`.

    The oracle starts from the member with the smallest moduli, which is zero unless a bound excludes it, and moves the
    entries with the largest moduli of the gradient to their bounds until the radius is reached. Ties go to the first
    indices, and entries with zero gradient move up. The default starting point is the member with the smallest moduli.
    The diameter is an upper bound.

    Parameters
    ----------
    radius : float
        Radius r, positive; 1 by default.
    lower, upper : float or array_like
        Bounds l and u, with l at most u; infinite where there is no bound, which is the default. A number holds for all
        entries.

    See Also
    --------
    L1Ball : Without bounds.
    UnitSimplex : All entries are non-negative.
    BoundedSimplex : Bounds with a fixed sum.
    Box : Bounds only.

    Notes
    -----
    :Family: vectors
    :Uses: lasso with known signs or limits of single coefficients, sparse regression with bounded coefficients
    :Oracle: entries with the largest :math:`|g_i|` at the bound opposite to :math:`g_i`, until :math:`\|x\|_1 = r`
    :Cost: :math:`n \log n`

    Examples
    --------
    The first entry must not be negative, and the second is at most 1 in modulus:

    >>> import numpy as np, fwflow as fw
    >>> C = fw.BoundedL1Ball(3.0, [0.0, -1.0, -np.inf], [np.inf, 1.0, np.inf])
    >>> np.asarray(C.lmo(np.array([5.0, 4.0, 1.0])))
    array([ 0., -1., -2.])
    >>> C.project([-1.0, 3.0, 1.0])
    array([0., 1., 1.])
    """

    parameters = ("radius", "lower", "upper")

    def __init__(self, radius: float = 1.0, lower: ArrayLike = -math.inf, upper: ArrayLike = math.inf) -> None:
        self.radius = positive(radius, "radius")
        self._set_bounds(lower, upper)
        if (self.lower == math.inf).any() or (self.upper == -math.inf).any():
            raise InputError("lower must be below infinity, and upper above minus infinity")
        if self.shape is not None:
            self._limits(self.shape)

    def __repr__(self) -> str:
        return self._shown(self.radius)

    def _limits(self, shape: Shape) -> tuple[Array, Array, Array, float]:
        """Return finite bounds as vectors, the member with the smallest moduli, and the radius that it leaves."""
        lower, upper = self._given(shape)
        least = np.clip(0.0, lower, upper)
        spent = float(np.abs(least).sum())
        if spent > self.radius * (1 + few_ulps(np.float64)):
            raise InputError(
                f"the bounds leave no member: the sum of moduli is at least {spent:g}, and radius is {self.radius:g}"
            )
        free = max(self.radius - spent, 0.0)
        return np.maximum(lower, least - free), np.minimum(upper, least + free), least, free

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        limits = self._limits(g.shape)
        return self._vertex(self._lowest(g.reshape(-1).astype(np.float64), *limits), g, limits[2])

    def _lowest(self, g: Array, lower: Array, upper: Array, least: Array, free: float) -> Array:
        """Return the member with the smallest product with g, for the limits of this set or of a face."""
        down = g > 0
        amounts = filled(np.abs(g), np.where(down, least - lower, upper - least), free)
        return least + np.where(down, -amounts, amounts)

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False).reshape(-1)
        lower, upper, least, _ = self._limits(x.shape)
        clipped = np.clip(wide, lower, upper)
        if float(np.abs(clipped).sum()) > self.radius * (1 + ROUNDING):
            # Every entry moves between its smallest modulus and a bound on one side of zero.
            side = np.where((least > 0) | ((least == 0) & (wide > 0)), 1.0, -1.0)
            clipped = side * onto_bounded_sum(
                side * wide, np.abs(least), np.where(side > 0, upper, -lower), self.radius
            )
        elif (clipped == wide).all():
            return x
        return rounded_towards(clipped, least, x.dtype).reshape(x.shape)

    def _tight(self, x: Array, share: float, noise: Array) -> bool:
        return self.radius - float(np.abs(x).sum(dtype=np.float64)) <= share * self.radius + float(noise.sum())

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex:
        lower, upper, least, _ = self._limits(x.shape)
        flat, gains = x.reshape(-1), g.reshape(-1).astype(np.float64)
        noise = np.broadcast_to(noise, x.shape).reshape(-1)
        slack = self._slack(x, noise)
        given = self._given(x.shape)  # the other limits follow from the radius
        low, high = flat <= given[0] + slack, flat >= given[1] - slack
        if not self._tight(flat, few_ulps(x.dtype), noise + slack):
            lower, upper = np.where(high, upper, lower), np.where(low & ~high, lower, upper)
            least = np.clip(0.0, lower, upper)
            free = max(self.radius - float(np.abs(least).sum()), 0.0)
            return self._vertex(self._lowest(-gains, lower, upper, least, free), g, least)
        sign = np.where(np.abs(flat) <= slack, 0.0, np.sign(flat))
        inner = np.where(sign > 0, np.maximum(lower, 0.0), np.where(sign < 0, np.maximum(-upper, 0.0), 0.0))
        outer = np.where(sign > 0, upper, np.where(sign < 0, -lower, 0.0))
        inner = np.where((high & (sign > 0)) | (low & (sign < 0)), outer, inner)
        outer = np.where((low & (sign > 0)) | (high & (sign < 0)), inner, outer)
        sizes = inner + filled(sign * gains, outer - inner, max(self.radius - float(inner.sum()), 0.0))
        return self._vertex(sign * sizes, g, least)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        return min(self._box_step(x, direction, noise), L1Ball(self.radius).max_step(x, direction, noise))

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        (lower, upper), (low, high, *_) = self._given(x.shape), self._limits(x.shape)
        noise, few = np.broadcast_to(noise, x.shape), few_ulps(x.dtype)
        inside = (x > lower + few * np.abs(low) + noise) & (x < upper - few * np.abs(high) - noise)
        if not self._tight(x, ON_BOUNDARY, noise):
            free = np.flatnonzero(inside)
            return Tangent.single(free, np.zeros(len(free), x.dtype), (x - lower)[free], (upper - x)[free])
        free = np.flatnonzero(inside & (np.abs(x) > noise))
        used, low, high = x[free], lower[free], upper[free]
        below = np.where(used > 0, used - np.maximum(low, 0.0), used - low)
        above = np.where(used < 0, np.minimum(high, 0.0) - used, high - used)
        return Tangent.single(free, np.sign(used), below, above)

    def _largest(self, shape: Shape) -> float:
        return self.radius

    @property
    def working_sets(self) -> WorkingSets | None:
        """The object itself, unless the number of entries at a bound other than zero is unknown."""
        return self if self.shape is not None or not np.any(self.rest) else None

    @property
    def rest(self) -> Any:
        return (
            np.clip(0.0, self.lower, self.upper).reshape(-1)
            if self.shape
            else float(np.clip(0, self.lower, self.upper))
        )

    def support(self, x: Array) -> Array:
        return np.flatnonzero(x != np.clip(0.0, *self._given(x.shape)))

    def best_places(self, g: Array, count: int) -> Array:
        lower, upper, least, free = self._limits(g.shape)
        rooms = np.where(g > 0, least - lower, upper - least)
        moved = np.flatnonzero(self._lowest(g.astype(np.float64), lower, upper, least, free) != least)
        return np.union1d(moved, lowest(np.where(rooms > 0, -np.abs(g), 0.0), count))

    def restricted(self, places: Array) -> BoundedL1Ball:
        if self.shape is None:
            return self
        lower, upper = self._given(self.shape)
        moduli = np.abs(np.clip(0.0, lower, upper))
        spent = float(moduli.sum()) - float(moduli[places].sum())
        return BoundedL1Ball(self.radius - spent, lower[places], upper[places])

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        return self._limits(shape)[2].astype(dtype).reshape(shape)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        lower, upper = self._given(x.shape)
        x, noise = x.reshape(-1), np.broadcast_to(noise, x.shape).reshape(-1)
        if (np.abs(x) - noise).max(initial=0.0) > (1 + tol) * self.radius:  # so that no sum overflows
            return False
        slack = tol * self.radius + noise
        inside = (x >= lower - slack).all() and (x <= upper + slack).all()
        return bool(inside and float(np.abs(x).sum()) <= (1 + tol) * self.radius + float(noise.sum()))

    def diameter(self, shape: Shape | None = None) -> float:
        lower, upper, _, free = self._limits(needs_shape(self, shape))
        return min(float(norm(upper - lower)), 2 * free)
