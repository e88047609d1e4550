"""Norm balls, boxes and simplices of vectors. Arrays of any shape are treated as vectors."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import first_below, lowest, norm, smallest
from fwflow._validation import Array, InputError, finite_array, float_dtype, number, positive
from fwflow.points.vertices import DenseVertex, OneHot, Shape, SparseVertex, Vertex
from fwflow.sets.base import (
    ConstraintSet,
    Crossing,
    KnownVertices,
    ParametricSet,
    Projection,
    WorkingSets,
    few_ulps,
    needs_shape,
)
from fwflow.sets.bounded import ROUNDING, BoundedSum, onto_simplex, quiet_sum, rounded_towards
from fwflow.sets.powers import onto_power_ball, onto_sum_of_maxima

# Errors of the entries of an exact point.
NO_NOISE = np.zeros(1)


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


class EqualEntries(KnownVertices, BoundedSum):
    """Sets whose vertices have k nonzero entries, or at most k, which are equal to the radius up to their signs."""

    k = 1
    radius: float
    #: Whether the nonzero entries may have both signs.
    signed = False

    __repr__ = ParametricSet.__repr__

    def _most(self, n: int) -> int:
        """Return how many of n entries may differ from zero in a vertex."""
        if self.exactly and self.k > n:
            raise ValueError(f"k must be at most the number of entries for {self!r}; there are {n}")
        return min(self.k, n)

    def _given(self, shape: Shape) -> tuple[float, float]:
        return (-self.radius if self.signed else 0.0), self.radius

    def _limits(self, shape: Shape) -> tuple[float, float, float, float]:
        return *EqualEntries._given(self, shape), 0.0, self._most(math.prod(shape)) * self.radius


class SingleColumns(WorkingSets, EqualEntries):
    """Sets of any shape whose vertices have at most one nonzero entry, the radius times a sign."""

    def __init__(self, radius: float = 1.0) -> None:
        self.size = self.radius = positive(radius, "radius")

    def support(self, x: Array) -> Array:
        return np.flatnonzero(x)

    def best_places(self, g: Array, count: int) -> Array:
        return lowest(-np.abs(g) if self.signed else g, count)

    def restricted(self, places: Array) -> ConstraintSet:
        return self

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]]:
        flat, r = x.reshape(-1), self.radius
        values = [(i, float(flat[i])) for i in np.flatnonzero(flat).tolist()]
        return [(abs(value) / r, OneHot(i, math.copysign(r, value), x.shape)) for i, value in values]


class _SingleEntries(SingleColumns):
    """The same for sets whose vertices all have a nonzero entry."""

    screenable = True

    def _given(self, shape: Shape) -> tuple[float, float]:
        return (-math.inf if self.signed else 0.0), math.inf

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        flat, r = g.reshape(-1), self.radius
        chosen = smallest(-np.abs(flat) if self.signed else flat, count)
        return [OneHot(i, -r if self.signed and flat[i] > 0 else r, g.shape) for i in chosen]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> OneHot:
        flat, gains, r, few = x.reshape(-1), g.reshape(-1), self.radius, few_ulps(x.dtype)
        noise = np.broadcast_to(noise, x.shape).reshape(-1)
        if self._tight(flat, few, noise):
            i = int(np.where(np.abs(flat) > noise + few * r, np.sign(flat) * gains, -np.inf).argmax())
            return OneHot(i, math.copysign(r, flat[i]), g.shape)
        i = int(np.abs(gains).argmax())
        return OneHot(i, r if gains[i] > 0 else -r, g.shape)

    def diameter(self, shape: Shape | None = None) -> float:
        return super().diameter((2,) if shape is None else shape)

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        single = [found for vertex in skip if (found := vertex.entries()) is not None and len(found[0]) == 1]
        if len(single) < len(skip):
            return None
        entries = [self.radius, -self.radius] if self.signed else [self.radius]
        first, last = (np.concatenate([entry * g.reshape(-1) for entry in entries]) for g in (start, end))
        for indices, values in single:
            last[int(indices[0]) + (start.size if values[0] < 0 else 0)] = np.inf
        found = first_below(first - levels[0], last - levels[1], noise)
        if found is None:
            return Crossing()
        side, i = divmod(found[1], start.size)
        return Crossing(found[0], OneHot(i, entries[side], start.shape))


class L1Ball(_SingleEntries):
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

    signed = True

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        flat = g.reshape(-1)
        i = int(abs(flat).argmax())
        return OneHot(i, -self.radius if flat[i] > 0 else self.radius, g.shape)

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False).reshape(-1)
        size = np.abs(wide)
        if quiet_sum(size) <= self.radius * (1 + ROUNDING):
            return x
        # Rounding must not enlarge an entry: a zero would become nonzero.
        shrunk = np.copysign(np.minimum(onto_simplex(size, self.radius), size), wide)
        return rounded_towards(shrunk, 0, x.dtype).reshape(x.shape)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        return self.step_of_sum(x, direction, noise)


class Box(BoundedSum):
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

    parameters: tuple[str, ...] = ("lower", "upper")
    size = math.inf

    def __init__(self, lower: ArrayLike, upper: ArrayLike) -> None:
        self._set_bounds(lower, upper, ("lower", "upper"))

    def __repr__(self) -> str:
        return f"Box({self.lower}, {self.upper})" if self.shape is None else f"Box(shape={self.shape})"

    def _limits(self, shape: Shape) -> tuple[Array, Array, float, float]:
        return *self._given(shape), 0.0, math.inf

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(np.where(g > 0, *self.bounds(g.shape)).astype(float_dtype(g.dtype), copy=False))

    def bounds(self, shape: Shape) -> tuple[Array, Array]:
        lower, upper = self._given(shape)
        return lower.reshape(shape), upper.reshape(shape)

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        lower, upper = self.bounds(x.shape)
        return rounded_towards(np.clip(x.astype(np.float64, copy=False), lower, upper), lower / 2 + upper / 2, x.dtype)

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> DenseVertex:
        lower, upper = self.bounds(x.shape)
        slack = self._slack(x, noise).reshape(x.shape)
        highest = (x >= upper - slack) | (x > lower + slack) & (g > 0)
        return DenseVertex(np.where(highest, upper, lower).astype(float_dtype(g.dtype), copy=False))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        centre = self.lower / 2 + self.upper / 2  # The width may overflow.
        return np.broadcast_to(centre, self.shape or needs_shape(self, shape)).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        lower, upper = self.bounds(x.shape)
        slack = (tol * upper - tol * lower) + noise
        return bool((x >= lower - slack).all() and (x <= upper + slack).all())


class LInfBall(Box):
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

    parameters = ("radius",)

    def __init__(self, radius: float = 1.0) -> None:
        self.radius = positive(radius, "radius")
        super().__init__(-self.radius, self.radius)

    def __repr__(self) -> str:
        return f"LInfBall({self.radius:g})"


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

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
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
        self._ball: ConstraintSet = LInfBall(radius) if infinite else LpBall(p, radius)
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

    def projection(self, shape: Shape) -> Projection | None:
        return partial(self.projected, onto=self._onto) if self.p in (2, math.inf) else None

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


class Simplex(_SingleEntries):
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

    exactly = True

    def lmo(self, g: Array, hint: Vertex | None = None) -> OneHot:
        return OneHot(int(g.argmin()), self.radius, g.shape)

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        wide = x.astype(np.float64, copy=False)
        if wide.min() >= 0 and self.near(wide, few_ulps(x.dtype) / 2, NO_NOISE):
            return x
        flat = onto_simplex(wide.reshape(-1), self.radius).astype(x.dtype, copy=False)
        # The rounding error of the sum is relatively smallest in the largest entry.
        flat[flat.argmax()] += self.radius - float(flat.sum(dtype=np.float64))
        return flat.reshape(x.shape)
