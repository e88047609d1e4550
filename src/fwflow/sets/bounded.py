"""Vectors with bounds on every entry and one on their sum: the general form of simplices and l1 balls."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot, length, lowest, smallest
from fwflow._validation import Array, InputError, finite_array, float_array, float_dtype, number, positive
from fwflow.points.vertices import DenseVertex, OneHot, Shape, SparseVertex, Vertex
from fwflow.sets.base import Faces, ParametricSet, Projection, Tangent, WorkingSets, few_ulps, first_bound, needs_shape

# Relative rounding error up to which a projection leaves points as they are, so that it is its own projection.
ROUNDING = 8 * float(np.finfo(np.float64).eps)
# Relative distance of a sum from its bound up to which a point is on the boundary, for directions within a face.
# Chosen without tuning; a point that is closer than this gains nothing from moving to the bound.
ON_BOUNDARY = 1e-6
# Numbers of entries up to which sorting is faster than sweeps. Measured: 256 entries take 10 us either way.
_COUNTS = np.arange(1, 257)
# Share of entries that cannot be zero up to which vertices are stored by their nonzero entries. Chosen without tuning.
_SPARSE = 0.25
# An infinite sum is larger than any radius.
quiet_sum = np.errstate(over="ignore")(np.add.reduce)


def vertex_at(places: Array, value: Any, g: Array) -> Vertex:
    """Return the vertex with these values at these places, in the type of a gradient."""
    values = np.broadcast_to(np.asarray(value, dtype=float_dtype(g.dtype)), places.shape)
    if len(places) > 1:
        return SparseVertex(places, values, g.shape)
    return OneHot(int(places[0]), float(values[0]), g.shape) if len(places) else OneHot(0, 0.0, g.shape)


@np.errstate(over="ignore")  # entries that are infinitely far below the largest one become zero
def onto_simplex(x: Array, radius: float) -> Array:
    """Return the point of the simplex nearest to a vector.

    The unit is the radius. Entries that are more than one below the largest become zero and are not summed, so that
    nothing overflows and a common offset costs no accuracy. The threshold is found by sorting a few entries, and by
    Michelot's shrinking sets of many: a few sweeps.
    """
    behind = (x - np.maximum.reduce(x)) / radius
    active = behind[behind > -1]
    while len(active) > len(_COUNTS):
        t = (np.add.reduce(active) - 1) / len(active)  # This is negative, so that the largest entry stays.
        kept = active[active > t]
        if len(kept) == len(active):
            break
        active = kept
    else:
        falling = -np.sort(-active)
        thresholds = (np.add.accumulate(falling) - 1) / _COUNTS[: len(falling)]
        t = thresholds[np.count_nonzero(falling > thresholds) - 1]
    weights = np.maximum(behind - t, 0)
    return np.asarray(weights * (radius / np.add.reduce(weights)))


def rounded_towards(x: Array, inner: Array | float, dtype: Any) -> Array:
    """Return x in another type, rounded towards `inner`."""
    if x.dtype == dtype:
        return x
    rounded = x.astype(dtype)
    beyond = np.where(inner > x, rounded < x, rounded > x)
    return np.where(beyond, np.nextafter(rounded, np.asarray(inner, dtype)), rounded)


def onto_bounded_sum(a: Array, rooms: Any, size: float) -> Array:
    r"""Return the point y nearest to a with :math:`0 \le y \le` `rooms` and the sum `size`, which the rooms allow.

    It is clip(a - t, 0, rooms). Let the entries be filled in descending order until the sum is reached, and let the
    last one be the unit of reference: then t lies between minus the largest room and zero. Differences to this entry
    beyond the largest room do not matter, so that nothing overflows and a common offset costs no accuracy. The sum is
    piecewise linear in t: Newton's method ends on the piece with the right sum. Bisection replaces steps that leave the
    bounds on t, or that are longer than half of the step before.
    """
    widest = float(rooms.max())
    if widest == 0:
        return np.zeros_like(a)
    if mixed := float(rooms.min()) < widest:
        order = np.argsort(-a)
        last = a[order[min(int(np.searchsorted(np.cumsum(rooms[order]), size)), len(a) - 1)]]
    elif widest >= size:
        return onto_simplex(a, size)
    else:
        count = min(math.ceil(size / widest * (1 - ROUNDING)), len(a))
        last = np.partition(a, -count)[-count]
    with np.errstate(over="ignore"):
        u = np.clip((a - last) / widest, -1.0, 1.0)
    rooms, size = rooms / widest if mixed else 1.0, size / widest
    low, high, t, step = -1.0, 0.0, -1.0, 2.0
    while True:
        y = np.clip(u - t, 0.0, rooms)
        between = (y > 0) & (y < rooms)
        excess = float(y.sum()) - size
        if abs(excess) <= ROUNDING * size:
            break
        low, high = (t, high) if excess > 0 else (low, t)
        newton = excess / max(int(np.count_nonzero(between)), 1)
        step = newton if low < t + newton < high and abs(newton) <= abs(step) / 2 else low + (high - low) / 2 - t
        if t + step in (low, high):
            break
        t += step
    # These entries take the rounding error of the sum.
    y[between] -= (y.sum() - size) / max(int(np.count_nonzero(between)), 1)
    return widest * np.clip(y, 0.0, rooms)


def filled(gains: Array, rooms: Array, size: float) -> Array:
    """Return amounts within `rooms`, of at most `size` in sum, that go to the largest gains; ties to the first."""
    amounts = np.zeros(len(gains))
    first = int(gains.argmax())
    if rooms[first] >= size:
        amounts[first] = size
        return amounts
    used = np.flatnonzero(rooms > 0)
    if len(used):
        used = used[smallest(-gains[used], math.ceil(min(size / float(rooms[used].min()), len(used))))]
        taken = rooms[used]
        amounts[used] = np.clip(size - (np.cumsum(taken) - taken), 0.0, taken)
    return amounts


class BoundedSum(Faces, ParametricSet):
    """Vectors with bounds on every entry whose sum has a given value, or whose sum of moduli has a bound."""

    polytope = True
    #: Whether the sum is given. If not, the sum of moduli is bounded.
    exactly = False
    #: The sum, or the bound on the sum of moduli.
    size: float

    def _set_bounds(self, lower: ArrayLike, upper: ArrayLike, finite: tuple[str, ...] = ()) -> None:
        self.lower, self.upper = float_array(lower, "lower"), float_array(upper, "upper")
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if name in finite and not np.isfinite(bound).all():
                raise InputError(f"{name} must be finite: Frank-Wolfe needs a bounded set")
            if np.isnan(bound).any():
                raise InputError("lower and upper must not hold NaN; an infinite number stands for no bound")
        try:
            self.shape = np.broadcast_shapes(self.lower.shape, self.upper.shape) or None
        except ValueError:
            raise InputError(
                f"lower has shape {self.lower.shape}, upper has {self.upper.shape}; they must agree"
            ) from None
        if (self.lower > self.upper).any():
            raise InputError("lower must not exceed upper anywhere")

    def __repr__(self) -> str:
        bounds = f"{self.lower}, {self.upper}" if self.shape is None else f"shape={self.shape}"
        return f"{type(self).__name__}({self.size:g}, {bounds})"

    def _given(self, shape: Shape) -> tuple[Any, Any]:
        """Return the bounds as numbers or vectors."""
        own = shape if self.shape is None else self.shape
        if math.prod(own) != math.prod(shape):
            raise InputError(f"x has shape {shape}; members of {self!r} have shape {own}")
        return np.broadcast_to(self.lower, own).reshape(-1), np.broadcast_to(self.upper, own).reshape(-1)

    @abstractmethod
    def _limits(self, shape: Shape) -> tuple[Any, Any, Any, float]:
        """Return finite bounds, the vector from which the oracle starts, and the sum of moduli that it can add."""

    def _slack(self, x: Array, noise: Array | float) -> Array:
        """Return the distances to a bound below which entries count as equal to it, as a vector."""
        lower, upper, *_ = self._limits(x.shape)
        return np.broadcast_to(noise, x.shape).reshape(-1) + few_ulps(x.dtype) * np.maximum(abs(lower), abs(upper))

    def _tight(self, x: Array, share: float, noise: Array) -> bool:
        """Return whether the sum is at its bound, up to a share of it and errors of the entries."""
        least = self.size * (1 - share) - float(noise.sum())
        return self.exactly or float(np.abs(x).sum(dtype=np.float64)) >= least

    def _signed(self, x: Array, slack: Array, lower: Any, upper: Any) -> tuple[Array, Any, Any]:
        """Return the signs of the entries in the sum, and the bounds of members whose entries have these signs."""
        if self.exactly:
            return np.ones_like(x), lower, upper
        signs = np.where(np.abs(x) > slack, np.sign(x), x.dtype.type(0))
        lower = np.where(signs < 0, lower, np.maximum(lower, 0.0) * (signs > 0))
        return signs, lower, np.where(signs > 0, upper, np.minimum(upper, 0.0) * (signs < 0))

    def _vertex(self, x: Array, g: Array, least: Any) -> Vertex:
        """Return a vector as a vertex in the type and shape of g, given the vector from which the oracle starts."""
        if np.count_nonzero(least) <= _SPARSE * len(x):
            used = np.flatnonzero(x)
            return vertex_at(used, x[used], g)
        return DenseVertex(x.reshape(g.shape).astype(float_dtype(g.dtype), copy=False))

    def _best(self, gains: Array, lower: Any, upper: Any, signs: Array | None = None) -> Array:
        """Return the member between these bounds with the largest product with some gains.

        Without `signs`, the entries move from their smallest moduli in the directions of the gains.
        """
        if self.exactly:
            signs, least = np.ones(len(gains)), np.broadcast_to(lower, gains.shape)
            left = self.size - float(least.sum())
        else:
            signs = np.where(gains >= 0, 1.0, -1.0) if signs is None else signs
            least = np.broadcast_to(np.clip(0.0, lower, upper), gains.shape)
            left = self.size - float(np.abs(least).sum())
        return least + signs * filled(signs * gains, np.where(signs > 0, upper - least, least - lower), max(left, 0.0))

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        lower, upper, least, _ = self._limits(g.shape)
        return self._vertex(self._best(-g.reshape(-1).astype(np.float64), lower, upper), g, least)

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        lower, upper, least, free = self._limits(x.shape)
        wide = x.reshape(-1).astype(np.float64, copy=False)
        onto = np.clip(wide, lower, upper)
        same = bool((onto == wide).all())
        if self.exactly:
            inside, towards = same and self.near(wide, few_ulps(x.dtype), np.zeros(1)), lower / 2 + upper / 2
        else:
            inside, towards = quiet_sum(np.abs(onto)) <= self.size * (1 + ROUNDING), least
        if inside and same:
            return x
        if not inside:
            # Every entry moves between its smallest modulus and a bound on one side of zero.
            side = 1.0 if self.exactly else np.where((lower >= 0) | (upper > 0) & (wide > 0), 1.0, -1.0)
            rooms = np.where(np.broadcast_to(side, wide.shape) > 0, upper - least, least - lower)
            onto = np.clip(least + side * onto_bounded_sum(side * (wide - least), rooms, free), lower, upper)
        return rounded_towards(onto, towards, x.dtype).reshape(x.shape)

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex:
        lower, upper, least, _ = self._limits(x.shape)
        flat, gains, slack = x.reshape(-1), g.reshape(-1).astype(np.float64), self._slack(x, noise)
        given = self._given(x.shape)  # The other limits follow from the sum.
        low, high = flat <= given[0] + slack, flat >= given[1] - slack
        lower, upper = np.where(high, upper, lower), np.where(low & ~high, lower, upper)
        signs = None
        if self._tight(flat, few_ulps(x.dtype), np.broadcast_to(noise, x.shape)):
            signs, lower, upper = self._signed(flat, slack, lower, upper)
        return self._vertex(self._best(gains, lower, upper, signs), g, least)

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        (lower, upper), (low, high, *_) = self._given(x.shape), self._limits(x.shape)
        noise, few = np.broadcast_to(noise, x.shape), few_ulps(x.dtype)
        free, normal = (x > lower + few * abs(low) + noise) & (x < upper - few * abs(high) - noise), np.zeros_like(x)
        if self._tight(x, ON_BOUNDARY, noise):
            normal, lower, upper = self._signed(x, noise, lower, upper)
            free &= normal != 0
        places = np.flatnonzero(free)
        return Tangent.single(places, normal[places], (x - lower)[places], (upper - x)[places])

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        lower, upper = self._given(x.shape)
        flat, d = x.reshape(-1), direction.reshape(-1)
        step = first_bound(np.where(d > 0, upper - flat, flat - lower), np.abs(d), self._slack(x, noise))
        return step if self.exactly else min(step, self.step_of_sum(x, direction, noise))

    def step_of_sum(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        """Return the largest step within the bound on the sum of moduli.

        The sum is convex and piecewise linear, and Newton's method reaches its bound from outside.
        """
        few = few_ulps(x.dtype) + float(np.sum(noise)) / self.size
        x, d = x.reshape(-1).astype(np.float64) / self.size, direction.reshape(-1).astype(np.float64) / self.size
        if not d.any():
            return math.inf
        size = float(np.abs(x).sum())
        slack, t = max(few, size - 1), (1 + size) / float(np.abs(d).sum())
        while True:
            y = x + t * d
            excess, slope = float(np.abs(y).sum()) - 1, float(dot(np.sign(y), d))
            if not (excess > slack and slope > 0):  # Along a face the slope is rounding error.
                return max(t, 0.0)
            t -= excess / slope

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        lower, upper, least, free = self._limits(shape)
        widths = np.broadcast_to(upper - lower if self.exactly else 0.0, math.prod(shape))
        return (least + widths * (free / (float(widths.sum()) or 1.0))).astype(dtype).reshape(shape)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        lower, upper, least, free = self._limits(x.shape)
        x, noise = x.reshape(-1), noise.reshape(-1)
        slack = tol * float(np.max(np.maximum(abs(lower), abs(upper)))) + noise
        if (x < lower - slack).any() or (x > upper + slack).any():
            return False
        excess = float(quiet_sum(x if self.exactly else np.abs(x))) - self.size
        size = float(np.sum(np.abs(least))) + free if self.exactly else self.size
        return bool((abs(excess) if self.exactly else excess) <= tol * size + float(noise.sum()))

    def diameter(self, shape: Shape | None = None) -> float:
        shape = needs_shape(self, shape)
        lower, upper, _, free = self._limits(shape)
        widths = np.broadcast_to(upper - lower, math.prod(shape))
        # The sum of moduli of a difference of members. If the sum is given, half of it is positive.
        apart = 2 * (min(free, max(float(widths.sum()) - free, 0.0)) if self.exactly else free)
        return min(length(widths), math.sqrt(float(widths.max())) * math.sqrt(apart))


class BoundedSimplex(BoundedSum):
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
    exactly = True

    def __init__(self, total: float = 1.0, lower: ArrayLike = 0.0, upper: ArrayLike = math.inf) -> None:
        self.size = self.total = number(total, "total", "be finite", math.isfinite)
        self._set_bounds(lower, upper, ("lower",))
        if self.shape is not None:
            self._limits(self.shape)

    def _limits(self, shape: Shape) -> tuple[Array, Array, Array, float]:
        lower, upper = self._given(shape)
        least, most = float(lower.sum()), float(upper.sum())
        allowed = few_ulps(np.float64) * float(np.abs(lower).sum() + abs(self.total))
        if not least - allowed <= self.total <= most + allowed:
            raise InputError(
                f"the bounds leave no member: {len(lower)} entries have a sum from {least:g} to {most:g}, and total is "
                f"{self.total:g}"
            )
        free = max(self.total - least, 0.0)
        return lower, np.minimum(upper, lower + free), lower, free


class BoundedL1Ball(WorkingSets, BoundedSum):
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
        self.size = self.radius = positive(radius, "radius")
        self._set_bounds(lower, upper)
        if (self.lower == math.inf).any() or (self.upper == -math.inf).any():
            raise InputError("lower must be below infinity, and upper above minus infinity")
        if self.shape is not None:
            self._limits(self.shape)

    def _limits(self, shape: Shape) -> tuple[Array, Array, Array, float]:
        lower, upper = self._given(shape)
        least = np.clip(0.0, lower, upper)
        spent = float(np.abs(least).sum())
        if spent > self.radius * (1 + few_ulps(np.float64)):
            raise InputError(
                f"the bounds leave no member: the sum of moduli is at least {spent:g}, and radius is {self.radius:g}"
            )
        free = max(self.radius - spent, 0.0)
        return np.maximum(lower, least - free), np.minimum(upper, least + free), least, free

    @property
    def working_sets(self) -> WorkingSets | None:
        """The object itself, unless the number of entries at a bound other than zero is unknown."""
        return self if self.shape is not None or not np.any(self.rest) else None

    @property
    def rest(self) -> Any:
        rest = np.clip(0.0, self.lower, self.upper)
        return rest.reshape(-1) if self.shape else float(rest)

    def support(self, x: Array) -> Array:
        return np.flatnonzero(x != self.rest)

    def best_places(self, g: Array, count: int) -> Array:
        lower, upper, least, _ = self._limits(g.shape)
        rooms = np.where(g > 0, least - lower, upper - least)
        moved = np.flatnonzero(self._best(-g.astype(np.float64), lower, upper) != least)
        return np.union1d(moved, lowest(np.where(rooms > 0, -np.abs(g), 0.0), count))

    def restricted(self, places: Array) -> BoundedL1Ball:
        if self.shape is None:
            return self
        lower, upper = self._given(self.shape)
        moduli = np.abs(self.rest)
        spent = float(moduli.sum()) - float(moduli[places].sum())
        return BoundedL1Ball(self.radius - spent, lower[places], upper[places])
