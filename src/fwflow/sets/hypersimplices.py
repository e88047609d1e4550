"""Hulls of the vectors with k equal nonzero entries, with at most k, or with k of either sign."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import best_first, lowest, smallest
from fwflow._validation import Array, finite_array, float_dtype, positive, whole
from fwflow.points.vertices import OneHot, Shape, SparseVertex, Vertex
from fwflow.sets.base import Faces, KnownVertices, ParametricSet, Tangent, few_ulps, first_bound, needs_shape
from fwflow.sets.vectors import NO_NOISE, ON_BOUNDARY, ROUNDING, Ball, SingleColumns, onto_simplex, rounded_towards

# Places of the nonzero entries of a vertex, and of those among them with the worse sign.
_Signed = tuple[tuple[int, ...], tuple[int, ...]]
# Largest number of entries of all vertices of a decomposition. Chosen without tuning.
_MANY = 10**6


def vertex_at(places: Array, value: Any, g: Array) -> Vertex:
    """Return the vertex with these values at these places, in the type of a gradient."""
    values = np.broadcast_to(np.asarray(value, dtype=float_dtype(g.dtype)), places.shape)
    if len(places) > 1:
        return SparseVertex(places, values, g.shape)
    return OneHot(int(places[0]), float(values[0]), g.shape) if len(places) else OneHot(0, 0.0, g.shape)


def onto_hypersimplex(x: Array, k: int, radius: float) -> Array:
    r"""Return y with :math:`0 \le y \le 1, \sum y = k < n` for which :math:`ry` is nearest to x.

    It is clip(u - t, 0, 1) for u = x / r minus its k-th largest entry, with t between -1 and 0. Entries outside of
    [-1, 1] become zeros and ones, so that nothing overflows and a common offset costs no accuracy. The sum is
    piecewise linear in t: Newton's method ends on the piece with the sum k. Bisection replaces steps that leave the
    bounds on t, or that are longer than half of the step before.
    """
    if k == 1:
        return onto_simplex(x, radius) / radius
    with np.errstate(over="ignore"):
        u = np.clip((x - np.partition(x, -k)[-k]) / radius, -1.0, 1.0)
    low, high, t, step = -1.0, 0.0, -1.0, 2.0
    while True:
        y = np.clip(u - t, 0.0, 1.0)
        free = int(np.count_nonzero(y)) - int(np.count_nonzero(y == 1.0))
        excess = float(y.sum()) - k
        if abs(excess) <= ROUNDING * k:
            break
        low, high = (t, high) if excess > 0 else (low, t)
        newton = excess / max(free, 1)
        step = newton if low < t + newton < high and abs(newton) <= abs(step) / 2 else low + (high - low) / 2 - t
        if t + step in (low, high):
            break
        t += step
    between = (y > 0) & (y < 1)  # These entries take the rounding error of the sum.
    y[between] -= (y.sum() - k) / max(free, 1)
    return np.clip(y, 0.0, 1.0)


def systematic_sample(shares: Array) -> list[tuple[float, Array]]:
    """Write numbers in [0, 1] as a mixture of 0/1 vectors: weights, and the places of the ones.

    Systematic sampling: intervals with these lengths, end to end, are hit by a comb with teeth at distance one. The
    number of hits varies by at most one with the position of the comb.
    """
    edges = np.append(0.0, np.cumsum(shares))
    cuts = np.unique(np.append(np.clip(edges % 1.0, 0.0, 1.0), [0.0, 1.0]))
    hits = []
    for low, high in pairwise(cuts):
        teeth = np.arange(math.floor(edges[-1]) + 1) + (low + high) / 2
        hits.append((float(high - low), np.searchsorted(edges, teeth[teeth < edges[-1]], side="right") - 1))
    return [(weight, places) for weight, places in hits if weight > ROUNDING]


class _Choices(Faces, KnownVertices, ParametricSet):
    """Vectors with entries between 0 and the radius whose sum is k times the radius, or at most that."""

    polytope = True
    #: Whether the sum is k times the radius.
    exactly: bool
    parameters = ("k", "radius")

    def __init__(self, k: int, radius: float = 1.0) -> None:
        self.k, self.radius = whole(k, "k", 1), positive(radius, "radius")

    def _most(self, n: int) -> int:
        """Return how many of n entries may equal the radius."""
        if self.exactly and self.k > n:
            raise ValueError(f"k must be at most the number of entries for {self!r}; there are {n}")
        return min(self.k, n)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        n = math.prod(shape)
        return np.full(shape, self.radius * (self._most(n) / (n if self.exactly else 2 * n)), dtype)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        flat = g.reshape(-1)
        k = self._most(flat.size)
        places = np.array([flat.argmin()]) if k == 1 else lowest(flat, k)
        return vertex_at(places if self.exactly else places[flat[places] < 0], self.radius, g)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        """Return the best choices by best-first search in the order of the gradient.

        Every choice follows from a better one: an entry moves to the next place, is removed, or is added.
        """
        flat = g.reshape(-1).astype(np.float64)
        k = self._most(flat.size)
        order = np.array(smallest(flat, min(k + count, flat.size)))
        value = flat[order]
        negative = int((value < 0).sum())
        size = k if self.exactly else min(k, negative)
        fixed = max(0, size - count)  # The first places are in all of the best choices.

        def worse(places: tuple[int, ...]) -> list[tuple[float, tuple[int, ...]]]:
            inside = set(places)
            moves = [(p, p + 1) for p in places if p + 1 < len(order) and p + 1 not in inside]
            found = [(value[q] - value[p], tuple(sorted(inside - {p} | {q}))) for p, q in moves]
            if not self.exactly:
                if negative - 1 in inside:
                    found.append((-value[negative - 1], tuple(sorted(inside - {negative - 1}))))
                if negative < len(order) and negative not in inside and fixed + len(places) < k:
                    found.append((value[negative], tuple(sorted(inside | {negative}))))
            return found

        ranked = best_first(tuple(range(fixed, size)), worse, count)
        return [best, *(vertex_at(np.sort(order[[*range(fixed), *places]]), self.radius, g) for places in ranked[1:])]

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        slack, slack_of_sum = self._slacks(x, noise)
        free = np.flatnonzero((x > noise) & (x < self.radius - slack))
        total = self.radius * self.k
        tight = self.exactly or total - float(x.sum(dtype=np.float64)) <= ON_BOUNDARY * total + slack_of_sum
        return Tangent.single(free, np.full(len(free), float(tight), x.dtype), x[free], self.radius - x[free])

    def away_vertex(self, g: Array, x: Array, noise: Array | float = 0.0) -> Vertex:
        flat, (slack, slack_of_sum) = x.reshape(-1), self._slacks(x, noise)
        k, top = self._most(flat.size), flat >= self.radius - slack
        free = np.flatnonzero((flat > slack) & ~top)
        gains = g.reshape(-1)[free]
        best = lowest(-gains, k - int(top.sum()))
        if not self.exactly and flat.sum(dtype=np.float64) < k * self.radius - slack_of_sum:
            best = best[gains[best] > 0]
        return vertex_at(np.sort(np.append(np.flatnonzero(top), free[best])), self.radius, g)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        slack, slack_of_sum = self._slacks(x, noise)
        x, direction = x.reshape(-1), direction.reshape(-1)
        room, rate = np.where(direction > 0, self.radius - x, x), np.abs(direction)
        if not self.exactly:  # The sum is bounded, too.
            room = np.append(room, self._most(x.size) * self.radius - x.sum(dtype=np.float64))
            rate, slack = np.append(rate, direction.sum(dtype=np.float64)), np.append(slack, slack_of_sum)
        return first_bound(room, rate, slack)

    def _slacks(self, x: Array, noise: Array | float) -> tuple[Array, float]:
        """Return the distances to their bounds below which an entry and the sum count as equal to them."""
        noise, few = np.broadcast_to(noise, x.shape).reshape(-1), few_ulps(x.dtype) * self.radius
        return noise + few, float(noise.sum()) + few * self.k

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        flat = x.reshape(-1)
        used = np.flatnonzero(flat)
        if len(used) * self.k > _MANY:
            return None
        shares = np.clip(flat[used].astype(np.float64) / self.radius, 0.0, 1.0)
        if self.exactly:
            shares = np.minimum(shares * (self.k / shares.sum()), 1.0)
        return [(w, vertex_at(used[places], self.radius, x)) for w, places in systematic_sample(shares) if len(places)]

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        wide, k = x.astype(np.float64, copy=False), self._most(x.size)
        if wide.min() >= 0 and wide.max() <= self.radius and self.near(wide, few_ulps(x.dtype), NO_NOISE):
            return x
        y = np.clip(wide.reshape(-1), 0.0, self.radius) / self.radius
        if k < x.size and (self.exactly or y.sum() > k):
            y = onto_hypersimplex(wide.reshape(-1), k, self.radius)
        elif self.exactly:
            y = np.ones(x.size)
        return rounded_towards((self.radius * y).reshape(x.shape), self.radius / 2, x.dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        slack = tol * self.radius + noise
        if (x < -slack).any() or (x > self.radius + slack).any():
            return False
        k = self._most(x.size)
        excess = float((x / self.radius).sum()) - k
        allowed = tol * k + float((noise / self.radius).sum())
        return abs(excess) <= allowed if self.exactly else excess <= allowed

    def diameter(self, shape: Shape | None = None) -> float:
        n = math.prod(needs_shape(self, shape))
        apart = 2 * min(self.k, n - self._most(n)) if self.exactly else min(2 * self.k, n)
        return self.radius * math.sqrt(apart)


class HyperSimplex(_Choices):
    r"""Hypersimplex :math:`\{x : 0 \le x_i \le r,\; \sum_i x_i = kr\}`.

    It is the hull of the vectors with k entries equal to r and all others zero. There must be at least k entries. A
    vertex has r at the positions of the k smallest entries of the gradient; ties go to the first indices. The default
    starting point is the barycentre.

    Parameters
    ----------
    k : int
        Number of nonzero entries of a vertex.
    radius : float
        Value r of the nonzero entries, positive; 1 by default.

    See Also
    --------
    UnitHyperSimplex : At most k entries.
    Simplex : k = 1.
    KSparseBall : Entries of both signs.

    Notes
    -----
    :Family: vectors
    :Uses: choice of k items (sensors, samples, features), weights with an upper limit
    :Oracle: :math:`r` at the positions of the :math:`k` smallest entries of :math:`g`, zero elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.HyperSimplex(2)
    >>> np.asarray(C.lmo(np.array([3.0, -1.0, 1.0, 2.0])))
    array([0., 1., 1., 0.])
    >>> C.project(np.array([3.0, 0.5, 0.5, 0.0]))
    array([1. , 0.5, 0.5, 0. ])
    """

    exactly = True


class UnitHyperSimplex(_Choices):
    r"""Hypersimplex with the origin, :math:`\{x : 0 \le x_i \le r,\; \sum_i x_i \le kr\}`.

    It is the hull of the vectors with at most k entries equal to r and all others zero. A vertex has r at the positions
    of the k smallest entries of the gradient, as far as these entries are negative. Ties go to the first indices. A
    gradient without negative entries gives the origin. The default starting point is halfway between the origin and the
    barycentre of the upper face.

    Parameters
    ----------
    k : int
        Largest number of nonzero entries of a vertex.
    radius : float
        Value r of the nonzero entries, positive; 1 by default.

    See Also
    --------
    HyperSimplex : Exactly k entries.
    UnitSimplex : k = 1.

    Notes
    -----
    :Family: vectors
    :Uses: choice of at most k items, budgets with a limit for every entry
    :Oracle: take the :math:`k` smallest entries of :math:`g`; :math:`r` at the positions of the negative ones among
        them, zero elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.UnitHyperSimplex(2).lmo(np.array([3.0, -1.0, 1.0, 2.0])))
    array([0., 1., 0., 0.])
    """

    exactly = False


class UnitSimplex(SingleColumns, UnitHyperSimplex):
    r"""Simplex with the origin, :math:`\{x \ge 0 : \sum_i x_i \le r\}`.

    The default starting point is halfway between the origin and the barycentre of the upper face. Ties go to the first
    index.

    Parameters
    ----------
    radius : float
        Bound r on the sum of the entries, positive; 1 by default.

    See Also
    --------
    Simplex : The sum is exactly r.
    L1Ball : Entries of both signs.

    Notes
    -----
    :Family: vectors
    :Uses: non-negative numbers with a bounded sum, for example budgets, portfolio weights with cash, sparse
        non-negative regression
    :Oracle: :math:`r\,e_i` for the smallest :math:`g_i`, or :math:`0` if :math:`g \ge 0`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.UnitSimplex(3.0)
    >>> np.asarray(C.lmo(np.array([1.0, -2.0]))), np.asarray(C.lmo(np.array([1.0, 2.0])))
    (array([0., 3.]), array([0., 0.]))
    """

    def __init__(self, radius: float = 1.0) -> None:
        super().__init__(1, radius)

    def __repr__(self) -> str:
        return f"UnitSimplex({self.radius:g})"


class KSparseBall(KnownVertices, Ball):
    r"""Ball of the vectors with :math:`\|x\|_\infty \le r` and :math:`\|x\|_1 \le kr`.

    It is the hull of the vectors with k entries equal to :math:`\pm r` and all others zero. A vertex has :math:`\pm r`
    at the positions of the k largest absolute values of the gradient, with the opposite signs. Ties go to the first
    indices, and zero entries get +r. If x has at most k entries, the set is the ball of the maximum norm. The default
    starting point is zero.

    Parameters
    ----------
    k : int
        Number of nonzero entries of a vertex.
    radius : float
        Absolute value r of the nonzero entries, positive; 1 by default.

    See Also
    --------
    L1Ball : k = 1.
    HyperSimplex : Non-negative entries.
    KNormBall : The dual norm.

    Notes
    -----
    :Family: vectors
    :Uses: sparse regression and classification with bounded coefficients
    :Oracle: :math:`-r\,\mathrm{sign}(g_i)` at the positions of the :math:`k` largest absolute values of :math:`g`, zero
        elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.KSparseBall(2, 3.0).lmo(np.array([1.0, -3.0, 0.5, 2.0])))
    array([ 0.,  3.,  0., -3.])
    """

    polytope = True
    parameters = ("k", "radius")

    def __init__(self, k: int, radius: float = 1.0) -> None:
        super().__init__(radius)
        self.k = whole(k, "k", 1)

    def norm(self, x: Array) -> float:
        size = np.abs(x)
        return float(max(size.max(), size.sum() / self.k))

    def _against(self, places: Array, g: Array) -> Array:
        """Return the best entries at some places."""
        return np.where(g.reshape(-1)[places] > 0, -self.radius, self.radius)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        places = lowest(-np.abs(g.reshape(-1)), self.k)
        return vertex_at(places, self._against(places, g), g)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        """Return the best vertices by best-first search: an entry changes its sign, or moves to the next place."""
        flat = np.abs(g.reshape(-1)).astype(np.float64)
        k = min(self.k, flat.size)
        order = np.array(smallest(-flat, min(k + count, flat.size)))
        size, fixed = flat[order], max(0, k - count)

        def worse(state: _Signed) -> list[tuple[float, _Signed]]:
            places, flipped = state
            found = [(2 * size[p], (places, (p, *flipped))) for p in places if not flipped or p < flipped[0]]
            if not flipped:
                inside = set(places)
                moves = [(p, p + 1) for p in places if p + 1 < len(order) and p + 1 not in inside]
                found += [(size[p] - size[q], (tuple(sorted(inside - {p} | {q})), ())) for p, q in moves]
            return found

        def vertex(places: tuple[int, ...], flipped: tuple[int, ...]) -> Vertex:
            signs = np.where(np.isin([*range(fixed), *places], flipped), -1, 1)
            at = order[[*range(fixed), *places]]
            by_place = np.argsort(at)
            return vertex_at(at[by_place], (signs * self._against(at, g))[by_place], g)

        first: _Signed = tuple(range(fixed, k)), ()
        return [best, *(vertex(*state) for state in best_first(first, worse, count)[1:])]

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """Decompose the multiple of x on the boundary; an entry may be a mixture of both signs."""
        flat = x.reshape(-1).astype(np.float64)
        k, weight = min(self.k, flat.size), self.norm(flat) / self.radius
        if weight == 0 or 2 * flat.size * k > _MANY:
            return None if weight else []
        own = np.abs(flat) / (self.radius * weight)
        both = own + (1 - own) * max(0.0, k - own.sum()) / max(flat.size - own.sum(), ROUNDING)
        signs = np.where(flat < 0, -self.radius, self.radius)
        parts = systematic_sample(np.column_stack([both + own, both - own]).reshape(-1) / 2)
        return [
            (weight * w, vertex_at(at // 2, np.where(at % 2, -signs[at // 2], signs[at // 2]), x)) for w, at in parts
        ]

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        onto = UnitHyperSimplex(self.k, self.radius).project(np.abs(x))
        return np.copysign(onto, x)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius * math.sqrt(min(self.k, math.prod(needs_shape(self, shape))))
