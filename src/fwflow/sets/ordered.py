"""Sets that assign weights to entries by their order: balls of ordered weighted norms, and the permutahedron."""

from __future__ import annotations

import heapq
import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import isotonic_regression

from fwflow._numerics import best_first, dot, norm, smallest
from fwflow._validation import Array, finite_array, float_dtype, whole
from fwflow.points.vertices import DenseVertex, OneHot, Shape, Vertex
from fwflow.sets.base import KnownVertices, ParametricSet, Projection, needs_shape
from fwflow.sets.bounded import ROUNDING, vertex_at
from fwflow.sets.vectors import Ball

# Points are projected as if they were at most this many radii away. Chosen without tuning.
_FAR = 2.0**36
# Largest number of entries of all ranked permutations together. Chosen without tuning.
_MANY = 10**5


def ascending(values: Array) -> Array:
    """Return the places of the entries in ascending order. Among ties the first comes first.

    NumPy's default sort is not stable and takes a fifth of the time of its stable one where it uses AVX-512. Only ties
    need the stable one.
    """
    order = np.argsort(values)
    ranked = values[order]
    return np.argsort(values, kind="stable") if (ranked[1:] == ranked[:-1]).any() else order


def onto_ordered_ball(x: Array, weights: Array, radius: float) -> Array:
    r"""Return the vector nearest to x with :math:`\sum_i w_i |x|_{[i]} \le r`, for weights that do not increase.

    In the order of the absolute values, the result is the positive part of the isotonic regression of :math:`|x| - tw`
    (Bogdan et al. 2015). With growing t, entries are only pooled or become zero, so that the norm is convex and
    piecewise linear in t. Newton's method from t = 0 reaches the root after at most one step for each piece (Davis 2015
    bounds their number).
    """
    size = np.abs(x)
    order, unit = np.argsort(-size), float(size.max())  # Tied entries are pooled, in any order.
    z, t = size[order] / unit * min(unit / radius, _FAR), 0.0  # The unit is the radius.
    while True:
        starts = isotonic_regression(z - t * weights, increasing=False).blocks
        counts = np.diff(starts)
        w, level = (np.add.reduceat(part, starts[:-1]) / counts for part in (weights, z))
        share = np.where(level > t * w, counts * w, 0.0)
        slope = float(dot(share, w))
        following = (float(dot(share, level)) - 1) / slope if slope > 0 else t
        if following <= t * (1 + ROUNDING):
            break
        t = following
    y = np.empty_like(z)
    y[order] = np.repeat(np.maximum(level - t * w, 0.0), counts)
    reached = float(dot(weights, y[order]))
    return np.copysign(y * (radius / reached if reached > 0 else 0.0), x)  # On the boundary in spite of rounding.


class _OrderedBall(KnownVertices, Ball):
    """The ball of a weighted sum of the absolute values in descending order, with weights that do not increase."""

    polytope = True

    @abstractmethod
    def _weights(self, n: int) -> Array:
        """Return the weights of n entries."""

    def norm(self, x: Array) -> float:
        return float(dot(self._weights(x.size), np.sort(np.abs(x))[::-1]))

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        return self.projected(x, lambda y: onto_ordered_ball(y, self._weights(y.size), self.radius))


class KNormBall(_OrderedBall):
    r"""Hull of the L1 ball of radius r and the maximum-norm ball of radius r/k.

    The k largest absolute values of the entries of a member sum to at most r. A vertex has one nonzero entry, or all
    entries are nonzero. If both kinds of vertices tie, the oracle returns the vertex with one nonzero entry, at the
    first of the tied positions. Zero entries of the gradient get the positive sign. The default starting point is zero.

    Parameters
    ----------
    k : int
        Number of largest absolute values in the norm.
    radius : float
        Bound r on the sum of these absolute values, positive; 1 by default.

    See Also
    --------
    OWLBall : General weights of the ordered absolute values.
    KSparseBall : The dual norm.

    Notes
    -----
    :Family: vectors
    :Uses: bounds on the sum of the k largest entries, regression with coefficients that are sparse or all small
    :Oracle: the answer of the L1 ball or of the maximum-norm ball, whichever has the smaller :math:`\langle g,
        s\rangle`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.KNormBall(2, 4.0)
    >>> np.asarray(C.lmo(np.array([1.0, -5.0, 2.0]))), np.asarray(C.lmo(np.array([3.0, -5.0, 4.0])))
    (array([0., 4., 0.]), array([-2.,  2., -2.]))
    """

    parameters = ("k", "radius")

    def __init__(self, k: int, radius: float = 1.0) -> None:
        super().__init__(radius)
        self.k = whole(k, "k", 1)

    def _weights(self, n: int) -> Array:
        return (np.arange(n) < self.k).astype(np.float64)

    def _of_all(self, g: Array) -> DenseVertex:
        """Return the best vertex with nonzero entries everywhere."""
        entry = self.radius / self.k
        return DenseVertex(np.where(g > 0, -entry, entry).astype(float_dtype(g.dtype), copy=False))

    def _of_one(self, g: Array, i: int) -> OneHot:
        return OneHot(i, -self.radius if g.flat[i] > 0 else self.radius, g.shape)

    def _all_beat(self, size: Array) -> Array:
        """Return, for each entry, whether the dense vertex is better than the best vertex with this entry only.

        For k = 1 and n > 1 all vertices are dense; for k >= n all have one entry.
        """
        if 1 < self.k < size.size:
            unit = float(size.max()) or 1.0
            return np.asarray(size / unit * self.k < (size / unit).sum(dtype=np.float64))
        return np.full(size.shape, size.size > self.k)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        size = np.abs(g.reshape(-1)).astype(np.float64)
        i = int(size.argmax())
        return self._of_all(g) if self._all_beat(size)[i] else self._of_one(g, i)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        """Return the best vertices among those whose signs are opposite to the gradient."""
        size = np.abs(g.reshape(-1)).astype(np.float64)
        if not 1 < self.k < size.size:
            return [best] if self.k == 1 < size.size else [self._of_one(g, i) for i in smallest(-size, count)]
        ranked: list[Vertex] = [self._of_one(g, i) for i in smallest(-size, count)]
        better = int((~self._all_beat(size)).sum())
        return [*ranked[:better], self._of_all(g), *ranked[better:]][:count]

    def diameter(self, shape: Shape | None = None) -> float:
        n = math.prod(needs_shape(self, shape))
        return 2 * self.radius * max(1.0, math.sqrt(n) / self.k)


class OWLBall(_OrderedBall):
    r"""Ball of the ordered weighted L1 norm, :math:`\{x : \sum_i w_i |x|_{[i]} \le r\}`.

    The absolute values :math:`|x|_{[i]}` of the entries are in descending order. Equal weights give the L1 ball. A
    single nonzero weight gives the ball of the maximum norm. A vertex has j nonzero entries of the same absolute value
    :math:`r / (w_1 + \dots + w_j)`, at the positions of the j largest absolute values of the gradient. The oracle
    chooses j. Ties go to the smallest j and the first indices; zero entries of the gradient get the positive sign. The
    default starting point is zero.

    Parameters
    ----------
    weights : (n,) array_like
        Weights w in any order, non-negative and not all zero.
    radius : float
        Radius r, positive; 1 by default.

    See Also
    --------
    L1Ball : Equal weights.
    KNormBall : Weights of zero and one.

    Notes
    -----
    :Family: vectors
    :Uses: sparse regression with correlated features (SLOPE, OSCAR)
    :Oracle: :math:`-r\,\mathrm{sign}(g_i) / (w_1 + \dots + w_j)` at the positions of the :math:`j` largest absolute
        values of :math:`g`, zero elsewhere; :math:`j` is chosen so that :math:`\langle g, s\rangle` is smallest
    :Cost: :math:`n \log n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.OWLBall([3.0, 2.0, 1.0], 6.0)
    >>> np.asarray(C.lmo(np.array([1.0, -4.0, 3.5])))
    array([ 0. ,  1.2, -1.2])
    """

    shape: Shape
    parameters = ("weights", "radius")

    def __init__(self, weights: ArrayLike, radius: float = 1.0) -> None:
        super().__init__(radius)
        given = finite_array(weights, "weights", ndim=1).astype(np.float64)
        if not len(given) or (given < 0).any() or not given.any():
            raise ValueError("weights must not be negative, and one at least must be positive")
        self.weights = np.sort(given)[::-1].copy()
        self.shape = given.shape
        self.reach = self.radius / float(self.weights[0])
        self._sums = np.cumsum(self.weights)
        # A vertex has j = 1 or a weight j below the first one. If the next weight is zero, more entries are free.
        counts, n = np.arange(1, len(given) + 1), len(given)
        extreme = (self.weights < self.weights[0]) | (counts == 1)
        self._counts = counts[extreme & (np.append(self.weights[1:], 1.0) > 0)] if n > 1 else counts

    def __repr__(self) -> str:
        return f"OWLBall({len(self.weights)} weights, {self.radius:g})"

    def _weights(self, n: int) -> Array:
        if n != len(self.weights):
            raise ValueError(f"x has {n} entries; {self!r} has members of {len(self.weights)}")
        return self.weights

    def _ranked(self, g: Array) -> tuple[Array, Array]:
        """Return positions sorted by the absolute value of g, and the best value for each number of nonzero entries."""
        size = np.abs(g.reshape(-1)).astype(np.float64)
        size /= size.max() or 1.0
        order = ascending(-size)
        return order, np.cumsum(size[order])[self._counts - 1] / self._sums[self._counts - 1]

    def _vertex(self, g: Array, order: Array, kind: int) -> Vertex:
        count = int(self._counts[kind])
        places = np.sort(order[:count])
        entry = self.radius / float(self._sums[count - 1])
        return vertex_at(places, np.where(g.reshape(-1)[places] > 0, -entry, entry), g)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        order, attained = self._ranked(g)
        return self._vertex(g, order, int(attained.argmax()))

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        """Return the best vertices for the numbers of entries, sorted by value."""
        order, attained = self._ranked(g)
        return [self._vertex(g, order, kind) for kind in smallest(-attained, count)]

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius * float((np.sqrt(self._counts) / self._sums[self._counts - 1]).max())


class Permutahedron(KnownVertices, ParametricSet):
    r"""Permutahedron: the hull of all permutations of a vector.

    All entries of the default starting point are equal to the mean of the weights. A vertex has its smallest entry
    where the gradient is largest; ties go to the first indices. Membership compares the sums of the largest entries
    (Rado 1952), with a tolerance relative to the range of each sum.

    Parameters
    ----------
    weights : (n,) array_like
        Entries of the vector, in any order.

    See Also
    --------
    Birkhoff : Permutations as matrices.
    OWLBall : Ball of an ordered norm.

    Notes
    -----
    :Family: vectors
    :Uses: ranking, sorting, scheduling of jobs
    :Oracle: the weights in the order opposite to :math:`g`: the largest weight at the position of the smallest entry of
        :math:`g`, and so on
    :Cost: :math:`n \log n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Permutahedron([1.0, 2.0, 3.0])
    >>> np.asarray(C.lmo(np.array([0.5, -1.0, 2.0])))
    array([2., 3., 1.])
    >>> C.project(np.array([9.0, 0.0, 0.0]))
    array([3. , 1.5, 1.5])
    """

    polytope = True
    shape: Shape
    parameters = ("weights",)

    def __init__(self, weights: ArrayLike) -> None:
        given = finite_array(weights, "weights", ndim=1).astype(np.float64)
        if not len(given):
            raise ValueError("weights is empty; a permutahedron needs at least one entry")
        self.weights = np.sort(given)[::-1].copy()
        self.shape = given.shape

    def __repr__(self) -> str:
        return f"Permutahedron({len(self.weights)} weights)"

    def _vertex(self, order: Array, weights: Array, g: Array) -> DenseVertex:
        entries = np.empty(len(order), float_dtype(g.dtype))
        entries[order] = weights
        return DenseVertex(entries.reshape(g.shape))

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return self._vertex(ascending(g.reshape(-1)), self.weights, g)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        """Return the best permutations by best-first search: two entries exchange neighbouring levels."""
        if count * g.size > _MANY:
            return [best]
        order = ascending(g.reshape(-1))
        value = g.reshape(-1)[order].astype(np.float64).tolist()
        levels, ranks = np.unique(-self.weights, return_inverse=True)

        def worse(ranks: tuple[int, ...]) -> Iterator[tuple[float, tuple[int, ...]]]:
            last, swaps = [-1] * len(levels), []  # The last place of each level.
            for q, rank in enumerate(ranks):
                if rank and last[rank - 1] > last[rank]:
                    p = last[rank - 1]
                    swaps.append(((value[q] - value[p]) * float(levels[rank] - levels[rank - 1]), p, q))
                last[rank] = q
            for cost, p, q in heapq.nsmallest(count, swaps):
                yield cost, (*ranks[:p], ranks[q], *ranks[p + 1 : q], ranks[p], *ranks[q + 1 :])

        ranked = best_first(tuple(ranks.tolist()), worse, count)
        return [best, *(self._vertex(order, -levels[list(found)], g) for found in ranked[1:])]

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.full(needs_shape(self, shape), self.weights.mean(), dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        if x.size != len(self.weights):
            raise ValueError(f"x has {x.size} entries; {self!r} has members of {len(self.weights)}")
        order = np.argsort(-x.reshape(-1))
        widths = np.cumsum(self.weights - self.weights[::-1])
        widths[-1] = np.abs(self.weights - self.weights.mean()).sum()  # The sum of all entries is fixed.
        with np.errstate(over="ignore", invalid="ignore"):
            excess = np.cumsum(x.reshape(-1)[order] - self.weights)
        slack = tol * widths + np.cumsum(noise.reshape(-1)[order])
        return bool((excess <= slack).all() and excess[-1] >= -slack[-1])

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        """Return the projection, by isotonic regression of x minus the weights in order (Blondel et al. 2020)."""
        x = finite_array(x, "x")
        wide = x.reshape(-1).astype(np.float64, copy=False)
        if self.near(wide, ROUNDING, np.zeros_like(wide)):
            return x
        order = np.argsort(-wide)  # Tied entries are pooled, in any order.
        # Entries further apart than any two weights are in different blocks. Clipping the distance keeps the accuracy.
        with np.errstate(over="ignore"):
            apart = np.minimum(-np.diff(wide[order]), self.weights[0] - self.weights[-1])
        z = -np.append(0.0, np.cumsum(apart))
        starts = isotonic_regression(z - self.weights, increasing=False).blocks
        counts = np.diff(starts)
        of_z, of_weights = (np.add.reduceat(part, starts[:-1]) / counts for part in (z, self.weights))
        out = np.empty_like(z)
        out[order] = (z - np.repeat(of_z, counts)) + np.repeat(of_weights, counts)
        return out.reshape(x.shape).astype(x.dtype, copy=False)

    def diameter(self, shape: Shape | None = None) -> float:
        return float(norm(self.weights - self.weights[::-1]))
