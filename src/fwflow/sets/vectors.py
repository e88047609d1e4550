"""Norm balls, boxes and simplices of vectors. Arrays of any shape are treated as vectors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot, first_below, lowest, norm, smallest
from fwflow._validation import Array, InputError, finite_array, float_array, float_dtype, number, positive
from fwflow.points.vertices import DenseVertex, OneHot, Shape, SparseVertex, Vertex
from fwflow.sets.base import (
    ConstraintSet,
    Crossing,
    Faces,
    KnownVertices,
    ParametricSet,
    Tangent,
    WorkingSets,
    few_ulps,
    first_bound,
    needs_shape,
)
from fwflow.sets.powers import onto_power_ball, onto_sum_of_maxima

# Relative rounding error up to which a projection leaves points as they are, so that it is its own projection.
ROUNDING = 8 * float(np.finfo(np.float64).eps)
# Relative distance of a sum from its bound up to which a point is on the boundary, for directions within a face.
# Chosen without tuning; a point that is closer than this gains nothing from moving to the bound.
ON_BOUNDARY = 1e-6
# Errors of the entries of an exact point.
NO_NOISE = np.zeros(1)
# Numbers of entries up to which sorting is faster than sweeps. Measured: 256 entries take 10 us either way.
_COUNTS = np.arange(1, 257)
# An infinite sum is larger than any radius.
_total = np.errstate(over="ignore")(np.add.reduce)


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


class Ball(ParametricSet):
    """A norm ball around the origin; it starts at its centre."""

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")
        #: The largest entry of a member.
        self.reach = self.radius

    @abstractmethod
    def norm(self, x: Array) -> float:
        """Return the norm whose ball this is."""

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.zeros(needs_shape(self, shape), dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        # For an entry beyond the largest one of a member, x / r might overflow.
        if (np.abs(x) - noise).max(initial=0.0) > (1 + tol) * self.reach:
            return False
        slack = self.norm(noise.reshape(-1) / self.radius) if noise.any() else 0.0
        return self.norm(x.reshape(-1) / self.radius) <= 1 + tol + slack

    def projected(self, x: ArrayLike, onto: Callable[[Array], Array]) -> Array:
        """Return members unchanged, and the projection of another point by `onto`, a function of flat vectors."""
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False)
        if self.near(wide, ROUNDING, NO_NOISE):
            return x
        return rounded_towards(onto(wide.reshape(-1)).reshape(x.shape), 0, x.dtype)


class SingleColumns(WorkingSets):
    """Working sets of sets of any shape whose vertices have at most one nonzero entry."""

    #: Signs of the entries of vertices.
    signs: tuple[int, ...] = (1,)

    def support(self, x: Array) -> Array:
        return np.flatnonzero(x)

    def best_places(self, g: Array, count: int) -> Array:
        return lowest(g if len(self.signs) == 1 else -np.abs(g), count)

    def restricted(self, places: Array) -> ConstraintSet:
        return self  # type: ignore[return-value]


class _SingleEntries(KnownVertices, SingleColumns):
    """Sets whose vertices have one nonzero entry, the radius times one of the signs."""

    radius: float

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        single = [found for vertex in skip if (found := vertex.entries()) is not None and len(found[0]) == 1]
        if len(single) < len(skip):
            return None
        entries = [sign * self.radius for sign in self.signs]
        first, last = (np.concatenate([entry * g.reshape(-1) for entry in entries]) for g in (start, end))
        for indices, values in single:
            last[int(indices[0]) + (start.size if values[0] < 0 else 0)] = np.inf
        found = first_below(first - levels[0], last - levels[1], noise)
        if found is None:
            return Crossing()
        side, i = divmod(found[1], start.size)
        return Crossing(found[0], OneHot(i, entries[side], start.shape))


class L1Ball(Faces, _SingleEntries, Ball):
    r"""L1 ball :math:`\{x : \|x\|_1 \le r\}`.

    A vertex has one nonzero entry. Ties go to the first index. The default starting point is zero.

    Parameters
    ----------
    radius : float
        Radius r, positive; 1 by default.

    See Also
    --------
    GroupBall : Selects groups of features (group lasso).
    Simplex : The same with non-negative entries and an exact sum.
    OWLBall : Weights that depend on the order of the entries.
    fwflow.sklearn.L1Regression : Estimator with this constraint.

    Notes
    -----
    :Family: vectors
    :Uses: lasso, sparse regression and classification, selection of features, compressed sensing
    :Oracle: :math:`-r\,\mathrm{sign}(g_i)\,e_i` for the largest :math:`|g_i|`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.L1Ball(2.0)
    >>> np.asarray(C.lmo(np.array([1.0, -3.0, 2.0])))
    array([0., 2., 0.])
    >>> C.project([3.0, 1.0, 0.0]), C.contains([1.0, 0.5, 0.5])
    (array([2., 0., 0.]), True)
    """

    polytope = True
    screenable = True
    signs = (1, -1)

    def norm(self, x: Array) -> float:
        return float(np.abs(x).sum())

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        flat = g.reshape(-1)
        i = int(abs(flat).argmax())
        return OneHot(i, -self.radius if flat[i] > 0 else self.radius, g.shape)

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False).reshape(-1)
        size = np.abs(wide)
        if _total(size) <= self.radius * (1 + ROUNDING):
            return x
        # Rounding must not enlarge an entry: a zero would become nonzero.
        shrunk = np.copysign(np.minimum(onto_simplex(size, self.radius), size), wide)
        return rounded_towards(shrunk, 0, x.dtype).reshape(x.shape)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        flat = g.reshape(-1)
        chosen = smallest(-np.abs(flat), count)
        return [OneHot(i, -self.radius if flat[i] > 0 else self.radius, g.shape) for i in chosen]

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]]:
        flat = x.reshape(-1)
        used = np.flatnonzero(flat).tolist()
        return [
            (abs(float(flat[i])) / self.radius, OneHot(i, self.radius if flat[i] > 0 else -self.radius, x.shape))
            for i in used
        ]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> OneHot:
        flat, size = g.reshape(-1), np.abs(x).reshape(-1)
        slack = np.broadcast_to(noise, x.shape).reshape(-1) + few_ulps(x.dtype) * self.radius
        if self.radius - size.sum(dtype=np.float64) > slack.max() + np.sum(noise):  # In the interior: the face is all.
            i = int(np.abs(flat).argmax())
            return OneHot(i, self.radius if flat[i] > 0 else -self.radius, g.shape)
        signs = np.sign(x).reshape(-1)
        i = int(np.where(size > slack, signs * flat, -np.inf).argmax())
        return OneHot(i, self.radius * float(signs[i]), g.shape)

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        size, noise = np.abs(x), np.broadcast_to(noise, x.shape)
        if self.radius - float(size.sum(dtype=np.float64)) > ON_BOUNDARY * self.radius + float(noise.sum()):
            return Tangent.single(np.arange(len(x)), np.zeros_like(x), math.inf, math.inf)
        free = np.flatnonzero(size > noise)
        used = x[free]
        return Tangent.single(free, np.sign(used), np.where(used > 0, used, np.inf), np.where(used < 0, -used, np.inf))

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        """Return the largest step by Newton's method from outside, for the norm is convex and piecewise linear."""
        few = few_ulps(x.dtype) + float(np.sum(noise)) / self.radius
        x, d = x.reshape(-1).astype(np.float64) / self.radius, direction.reshape(-1).astype(np.float64) / self.radius
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

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius


class LInfBall(Ball):
    r"""Ball of the maximum norm :math:`\{x : \|x\|_\infty \le r\}`.

    Entries with zero gradient go to +r. The default starting point is zero.

    Parameters
    ----------
    radius : float
        Radius r, positive; 1 by default.

    See Also
    --------
    Box : Different bounds for each entry.
    KSparseBall : The same with a bound on the L1 norm.

    Notes
    -----
    :Family: vectors
    :Uses: bounded change of every entry, adversarial examples, signals of bounded amplitude
    :Oracle: :math:`-r\,\mathrm{sign}(g)`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.LInfBall(2.0)
    >>> np.asarray(C.lmo(np.array([1.0, -3.0, 0.0])))
    array([-2.,  2.,  2.])
    >>> C.project([3.0, 1.0, -5.0])
    array([ 2.,  1., -2.])
    """

    polytope = True

    def norm(self, x: Array) -> float:
        return float(np.abs(x).max())

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(np.where(g > 0, -self.radius, self.radius).astype(float_dtype(g.dtype), copy=False))

    def bounds(self, shape: Shape) -> tuple[Array, Array]:
        return np.full(shape, -self.radius), np.full(shape, self.radius)

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        return rounded_towards(np.clip(x.astype(np.float64, copy=False), -self.radius, self.radius), 0, x.dtype)

    @property
    def faces(self) -> Faces:
        return Box(-self.radius, self.radius)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius * math.sqrt(math.prod(needs_shape(self, shape)))


class LpBall(Ball):
    r"""Ball of a p-norm :math:`\{x : \|x\|_p \le r\}` for :math:`1 < p < \infty`.

    A zero gradient gives r times the first unit vector. The default starting point is zero.

    Parameters
    ----------
    p : float
        Exponent of the norm, strictly between 1 and infinity.
    radius : float
        Radius r, positive; 1 by default.

    See Also
    --------
    L1Ball : p = 1.
    L2Ball : p = 2.
    LInfBall : p infinite.
    SchattenBall : p-norm of the singular values of a matrix.

    Notes
    -----
    :Family: vectors
    :Uses: regression with a bounded p-norm of the coefficients, between the lasso and ridge regression
    :Oracle: :math:`-r\,\mathrm{sign}(g)\,|g|^{q-1} / \|g\|_q^{q-1}` with :math:`1/p + 1/q = 1`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.LpBall(3.0, radius=2.0)
    >>> np.asarray(C.lmo(np.array([1.0, -4.0]))).round(3)
    array([-0.961,  1.923])
    >>> C.contains([1.0, 1.0])
    True
    """

    parameters = ("p", "radius")

    def __init__(self, p: float, radius: float = 1.0) -> None:
        super().__init__(radius)
        self.p = number(
            p, "p", "lie strictly between 1 and infinity (else L1Ball, LInfBall)", lambda x: 1 < x < math.inf
        )

    def norm(self, x: Array) -> float:
        largest = float(np.abs(x).max())
        return largest * float(((np.abs(x) / largest) ** self.p).sum()) ** (1 / self.p) if largest else 0.0

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        g = g.astype(float_dtype(g.dtype), copy=False)
        largest = float(np.abs(g).max())
        if largest == 0:
            return OneHot(0, self.radius, g.shape)
        q = self.p / (self.p - 1)
        # Powers of entries in [0, 1] neither overflow nor all vanish. A large q - 1 multiplies rounding errors.
        scaled = np.abs(g).astype(np.float64 if q > 2 else g.dtype, copy=False) / g.dtype.type(largest)
        norm = float((scaled**q).sum()) ** (1 / q)
        powers = (scaled / scaled.dtype.type(norm)) ** (q - 1)
        return DenseVertex(-self.radius * np.sign(g) * powers.astype(g.dtype, copy=False))

    def project(self, x: ArrayLike) -> Array:
        return self.projected(x, self._onto_sphere)

    def _onto_sphere(self, x: Array) -> Array:
        if self.p != 2:
            return onto_power_ball(x, self.p, self.radius)
        direction = x / np.abs(x).max()  # Squares neither overflow nor vanish.
        return self.radius * (direction / norm(direction))

    def diameter(self, shape: Shape | None = None) -> float:
        if self.p <= 2:
            return 2 * self.radius
        return 2 * self.radius * math.prod(needs_shape(self, shape)) ** (0.5 - 1 / self.p)


class L2Ball(LpBall):
    r"""Euclidean ball :math:`\{x : \|x\|_2 \le r\}`.

    A zero gradient gives r times the first unit vector. The default starting point is zero.

    Parameters
    ----------
    radius : float
        Radius r, positive; 1 by default.

    See Also
    --------
    Ellipsoid : Different lengths of the axes.
    LpBall : Other exponents.

    Notes
    -----
    :Family: vectors
    :Uses: ridge regression with a bound instead of a penalty, trust regions
    :Oracle: :math:`-r\,g / \|g\|_2`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.L2Ball(5.0)
    >>> np.asarray(C.lmo(np.array([3.0, -4.0])))
    array([-3.,  4.])
    >>> C.project([6.0, 8.0])
    array([3., 4.])
    """

    def __init__(self, radius: float = 1.0) -> None:
        super().__init__(2.0, radius)

    def __repr__(self) -> str:
        return f"L2Ball({self.radius:g})"


class GroupBall(KnownVertices, WorkingSets, Ball):
    r"""Group-norm ball :math:`\{x : \sum_G \|x_G\|_p \le r\}` for a partition of the entries into groups G.

    A vertex has nonzero entries in one group only: the group with the largest dual norm of the gradient. Ties go to the
    first group. A zero gradient gives r times the first unit vector, or r in the whole first group for
    :math:`p = \infty`. The default starting point is zero.

    Parameters
    ----------
    groups : sequence of sequences of int, or (n,) sequence of int
        The entries of each group, or an integer label of the group of each entry.
    radius : float
        Radius r, positive; 1 by default.
    p : float
        Exponent of the norm of a group, above 1 and possibly infinite; 2, the default, gives the group lasso.

    See Also
    --------
    L1Ball : Every entry is a group.
    fwflow.sklearn.GroupRegression : Estimator with this constraint.

    Notes
    -----
    :Family: vectors
    :Uses: group lasso: regression and classification that select whole groups of features
    :Oracle: the answer of an `LpBall` in the group :math:`G` with the largest :math:`\|g_G\|_q`, zero elsewhere;
        :math:`1/p + 1/q = 1`
    :Cost: :math:`n`
    :Offers: ranking; for :math:`p = 2` and :math:`p = \infty` also projection

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.GroupBall([[0, 1], [2]], radius=5.0)
    >>> np.asarray(C.lmo(np.array([3.0, -4.0, 1.0])))
    array([-3.,  4.,  0.])
    """

    shape: Shape
    parameters = ("_labels", "p", "radius")

    def __init__(self, groups: Sequence[Any] | Array, radius: float = 1.0, p: float = 2.0) -> None:
        super().__init__(radius)
        self.p = number(p, "p", "be larger than 1 (else L1Ball)", lambda x: x > 1)
        labels = group_labels(groups)
        self._order = np.argsort(labels, kind="stable")
        self._starts = np.flatnonzero(np.diff(labels[self._order], prepend=-1))
        self._counts = np.diff(self._starts, append=len(labels))
        infinite = self.p == math.inf
        self._ball: Ball = LInfBall(radius) if infinite else LpBall(p, radius)
        self._dual = 1.0 if infinite else self.p / (self.p - 1)
        self._labels, self.shape, self.polytope = labels, labels.shape, infinite

    def __repr__(self) -> str:
        return f"GroupBall({len(self._starts)} groups of {len(self._labels)} entries, {self.radius:g}, p={self.p:g})"

    def _norms(self, x: Array, p: float) -> Array:
        """Return the p-norm of every group of a vector."""
        size = np.abs(x)[self._order]
        largest = np.maximum.reduceat(size, self._starts)
        if p == math.inf:
            return largest
        unit = np.repeat(np.where(largest > 0, largest, 1), self._counts)  # Powers neither overflow nor all vanish.
        return largest * np.add.reduceat((size / unit) ** p, self._starts) ** (1 / p)

    def norm(self, x: Array) -> float:
        return float(self._norms(x, self.p).sum())

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        if x.size != len(self._labels):
            raise InputError(f"x has {x.size} entries; {self!r} has members of {len(self._labels)}")
        return super().near(x, tol, noise)

    def lmo(self, g: Array, hint: Vertex | None = None) -> SparseVertex:
        return self._vertex(g, int(self._norms(g.reshape(-1), self._dual).argmax()))

    def _vertex(self, g: Array, group: int) -> SparseVertex:
        """Return the best vertex with entries in one group only."""
        first = self._starts[group]
        places = self._order[first : first + self._counts[group]]
        return SparseVertex(places, self._ball.lmo(g.reshape(-1)[places]).to_dense(float_dtype(g.dtype)), g.shape)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        return [self._vertex(g, i) for i in smallest(-self._norms(g.reshape(-1), self._dual), count)]

    def support(self, x: Array) -> Array:
        return self._places(self._norms(x, math.inf) > 0)

    def best_places(self, g: Array, count: int) -> Array:
        chosen = np.zeros(len(self._starts), dtype=bool)
        chosen[lowest(-self._norms(g, self._dual), 1 + count * len(self._starts) // len(self._labels))] = True
        return self._places(chosen)

    def _places(self, groups: Array) -> Array:
        """Return the entries of some groups, given a truth value for each group."""
        return np.flatnonzero(groups[self._labels])

    def restricted(self, places: Array) -> GroupBall:
        return GroupBall(self._labels[places], self.radius, self.p)

    def project(self, x: ArrayLike) -> Array | None:
        return self.projected(x, self._onto) if self.p in (2, math.inf) else None

    def _onto(self, x: Array) -> Array:
        unit = 2.0**20 if np.abs(x).max() > 1e300 else 1.0  # In this unit no norm overflows.
        flat = x / unit
        if self.polytope:
            return unit * onto_sum_of_maxima(flat, self._labels, self.radius / unit)
        norms = self._norms(flat, 2.0)
        onto = onto_simplex(norms, self.radius / unit)
        kept = np.divide(onto, norms, out=np.zeros_like(norms), where=norms > 0)
        return unit * flat * kept[self._labels]

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius * max(1.0, int(self._counts.max()) ** (0.5 - 1 / self.p))


def group_labels(groups: Any) -> Array:
    """Return the group of every entry, numbered from 0 in the order in which groups are given or first occur."""
    parts = list(groups)
    if not parts or all(np.ndim(part) == 0 for part in parts):
        names = finite_array(parts, "groups", ndim=1)
        if not len(names) or (names != np.floor(names)).any():
            raise InputError("groups must hold an integer for every entry, or the entries of every group")
        _, first, labels = np.unique(names, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[labels]
    entries = np.concatenate([finite_array(part, "groups", ndim=1) for part in parts])
    counts = [len(part) for part in parts]
    if min(counts) == 0 or (np.sort(entries) != np.arange(len(entries))).any():
        raise InputError(f"groups must hold each of the entries 0 to {len(entries) - 1} once, and none may be empty")
    labels = np.empty(len(entries), dtype=np.intp)
    labels[entries.astype(np.intp)] = np.repeat(np.arange(len(parts)), counts)
    return labels


class Simplex(Faces, _SingleEntries, ParametricSet):
    r"""Simplex :math:`\{x \ge 0 : \sum_i x_i = r\}`.

    The members are non-negative numbers with the sum r. The default starting point is the barycentre. Ties go to the
    first index.

    Parameters
    ----------
    radius : float
        Sum r of the entries, positive; 1 by default.

    See Also
    --------
    UnitSimplex : The sum is at most r.
    HyperSimplex : The entries are also bounded above.
    Product : Several simplices side by side.
    fwflow.sklearn.SimplexRegression : Estimator with this constraint.

    Notes
    -----
    :Family: vectors
    :Uses: non-negative numbers that sum to one: portfolio weights, mixtures, probabilities, optimal design
    :Oracle: :math:`r\,e_i` for the smallest :math:`g_i`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Simplex()
    >>> np.asarray(C.lmo(np.array([3.0, -1.0, 2.0])))
    array([0., 1., 0.])
    >>> C.project([0.5, 0.9, 0.0])
    array([0.3, 0.7, 0. ])
    """

    polytope = True
    screenable = True

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        return OneHot(int(g.argmin()), self.radius, g.shape)

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False)
        if wide.min() >= 0 and self.near(wide, 4 * float(np.finfo(x.dtype).eps), NO_NOISE):
            return x
        flat = onto_simplex(wide.reshape(-1), self.radius).astype(x.dtype, copy=False)
        # The rounding error of the sum is relatively smallest in the largest entry.
        flat[flat.argmax()] += self.radius - float(flat.sum(dtype=np.float64))
        return flat.reshape(x.shape)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        return [OneHot(i, self.radius, g.shape) for i in smallest(g.reshape(-1), count)]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> OneHot:
        used = x > noise + few_ulps(x.dtype) * self.radius
        return OneHot(int(np.where(used, g, -np.inf).argmax()), self.radius, g.shape)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        return first_bound(x, -direction, noise + few_ulps(x.dtype) * self.radius)

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        free = np.flatnonzero(x > noise)
        return Tangent.single(free, np.ones(len(free), x.dtype), x[free], math.inf)

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]]:
        flat = x.reshape(-1)
        used = np.flatnonzero(flat).tolist()
        return [(float(flat[i]) / self.radius, OneHot(i, self.radius, x.shape)) for i in used]

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        return np.full(shape, self.radius / math.prod(shape), dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        with np.errstate(over="ignore"):
            excess = abs(float((x / self.radius).sum()) - 1)
        return bool(
            (x >= -tol * self.radius - noise).all()
            and math.isfinite(excess)
            and excess <= tol + float((noise / self.radius).sum())
        )

    def diameter(self, shape: Shape | None = None) -> float:
        return math.sqrt(2) * self.radius if shape is None or math.prod(shape) > 1 else 0.0


class Box(Faces, ParametricSet):
    r"""Box :math:`\{x : l \le x \le u\}` with bounds that are numbers or arrays.

    The default starting point is the centre. Entries with zero gradient go to the upper bound. The tolerance of
    membership is relative to the widths.

    Parameters
    ----------
    lower, upper : float or array_like
        Finite bounds l and u, with l at most u. A number holds for all entries.

    See Also
    --------
    LInfBall : Box around zero with equal sides.
    Polytope : Bounds together with linear constraints.

    Notes
    -----
    :Family: vectors
    :Uses: bounds on variables, non-negative least squares with an upper bound, dual problems of support vector machines
    :Oracle: :math:`l_i` where :math:`g_i > 0`, and :math:`u_i` elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Box(0.0, [1.0, 2.0])
    >>> np.asarray(C.lmo(np.array([1.0, -3.0])))
    array([0., 2.])
    >>> C.project([-1.0, 1.5]), C.start()
    (array([0. , 1.5]), array([0.5, 1. ]))
    """

    polytope = True
    parameters = ("lower", "upper")

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self.lower, self.upper = float_array(lower, "lower"), float_array(upper, "upper")
        for name, bound in (("lower", self.lower), ("upper", self.upper)):
            if not np.isfinite(bound).all():
                raise InputError(f"{name} must be finite: Frank-Wolfe needs a bounded set")
        try:
            self.shape = np.broadcast_shapes(self.lower.shape, self.upper.shape) or None
        except ValueError:
            raise InputError(
                f"lower has shape {self.lower.shape}, upper has {self.upper.shape}; they must agree"
            ) from None
        if (self.lower > self.upper).any():
            raise InputError("lower must not exceed upper anywhere")

    def __repr__(self) -> str:
        return f"Box({self.lower}, {self.upper})" if self.shape is None else f"Box(shape={self.shape})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(np.where(g > 0, *self.bounds(g.shape)).astype(float_dtype(g.dtype), copy=False))

    def bounds(self, shape: Shape) -> tuple[Array, Array]:
        own = shape if self.shape is None else self.shape
        return np.broadcast_to(self.lower, own).reshape(shape), np.broadcast_to(self.upper, own).reshape(shape)

    def project(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        lower, upper = self.bounds(x.shape)
        return rounded_towards(np.clip(x.astype(np.float64, copy=False), lower, upper), lower / 2 + upper / 2, x.dtype)

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> DenseVertex:
        lower, upper = self.bounds(x.shape)
        slack = self._slack(x, noise)
        highest = (x >= upper - slack) | (x > lower + slack) & (g > 0)
        return DenseVertex(np.where(highest, upper, lower).astype(float_dtype(g.dtype), copy=False))

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        lower, upper = self.bounds(x.shape)
        room = np.where(direction > 0, upper - x, x - lower)
        return first_bound(room, np.abs(direction), self._slack(x, noise))

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent:
        lower, upper = self.bounds(x.shape)
        few = few_ulps(x.dtype)
        free = np.flatnonzero((x > lower + few * np.abs(lower) + noise) & (x < upper - few * np.abs(upper) - noise))
        return Tangent.single(free, np.zeros(len(free), x.dtype), (x - lower)[free], (upper - x)[free])

    def _slack(self, x: Array, noise: Array | float) -> Array:
        """Return the distance to a bound below which an entry counts as equal to it."""
        lower, upper = self.bounds(x.shape)
        return noise + few_ulps(x.dtype) * np.maximum(np.abs(lower), np.abs(upper))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        centre = self.lower + (self.upper - self.lower) / 2
        return np.broadcast_to(centre, self.shape or needs_shape(self, shape)).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        lower, upper = self.bounds(x.shape)
        slack = (tol * upper - tol * lower) + noise
        return bool((x >= lower - slack).all() and (x <= upper + slack).all())

    def diameter(self, shape: Shape | None = None) -> float:
        full = self.shape or needs_shape(self, shape)
        return float(norm(np.broadcast_to(self.upper - self.lower, full)))
