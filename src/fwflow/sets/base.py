"""What does a solver need of a constraint set? The interface, and multiples and translates of any set."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._validation import Array, finite_array, float_array, float_dtype, number, ours
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import DenseVertex, Scaled, Shape, Sum, Vertex

# A random start has half of its weight on so many vertices.
_RANDOM_VERTICES = 8


class Crossing(NamedTuple):
    """When a vertex is first below a level, and which; neither if none ever is."""

    theta: float = math.inf
    vertex: Vertex | None = None


class ConstraintSet(ABC):
    """A convex compact set, known by its linear minimisation oracle.

    A new set needs `lmo`, `start`, `contains` and `diameter`. Every other member says what else the set can do, and its
    default means that it cannot. The oracle is the set: what else is offered is checked against it where it is used, so
    that a set with an oracle of its own which inherits more than it meant to is found out.

    Sets keep no state between calls: the same gradient and hint give the same vertex. What they are given is read-only,
    and the vertices that they return are kept: their arrays must not be filled again.
    """

    #: The shape of the members, for sets that know it.
    shape: Shape | None = None
    #: Whether the set is known to have finitely many vertices.
    polytope: bool = False
    #: Whether the oracle asks a gradient only for its best entry, so that most others need not be computed.
    screenable: bool = False
    #: Whether the oracle takes sparse matrices and answers with rank-one matrices.
    factored: bool = False
    #: The radius of a ball of the nuclear norm, for sets that are one.
    nuclear_radius: float | None = None
    #: The least and the largest trace, for sets of all semidefinite matrices of one sign with such a trace.
    trace_range: tuple[float, float] | None = None
    #: Whether `start` asks the oracle.
    start_asks: bool = False
    #: Of how many sets this one is the sum, as far as `summands` and `split` tell.
    n_summands: int = 1
    #: The places of a vector and the sets on them of which this one is the product; None: not offered.
    factors: tuple[tuple[slice, ConstraintSet], ...] | None = None

    @property
    def trusted(self) -> bool:
        """Whether the oracle is known to minimise. Where it is not, a run compares its answer with other members."""
        return ours(self)

    @abstractmethod
    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        """A vertex that minimises ``<g, s>`` over the set, of the shape of g.

        Ties and a zero g are decided the same way every time. `hint` is the answer to a nearby
        question; oracles that iterate start from it.
        """

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        """The same where ``<g, x> = inner`` at the iterate: an oracle that iterates can tell how exact to be."""
        return self.lmo(g, hint)

    @abstractmethod
    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array | LowRank:
        """Where a run starts unless told otherwise."""

    def random_start(self, seed: int, shape: Shape | None = None) -> Array:
        """Another place to start, for functions that are not convex: between `start` and random vertices.

        The same seed gives the same point.

        Examples
        --------
        >>> import numpy as np, fwflow as fw
        >>> x = fw.Birkhoff(3).random_start(0)
        >>> x.sum(axis=0), fw.Birkhoff(3).contains(x)
        (array([1., 1., 1.]), True)
        """
        rng, x = np.random.default_rng(seed), 0.5 * np.array(self.start(shape or self.shape), dtype=np.float64)
        for _ in range(_RANDOM_VERTICES):
            self.lmo(rng.standard_normal(x.shape)).add_to(x, 0.5 / _RANDOM_VERTICES)
        return x

    @abstractmethod
    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        """Whether x is in the set, up to `tol` relative to the size of the set; None if it cannot be told.

        Where a set has coordinates or constraints of its own, their sizes count one by one. What rounding in the type
        of x may have moved is allowed besides.
        """

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        """The same for a finite array whose entries may be off by `noise`; without, unless a set overrides it."""
        return self.contains(x, tol)

    @abstractmethod
    def diameter(self, shape: Shape | None = None) -> float | None:
        """The largest Euclidean distance between two members; None if it cannot be told."""

    def fingerprint(self) -> str | None:
        """What tells this set from others of its kind: a text made of its data. None: that cannot be told.

        A state continues only on the set with the fingerprint of the one that it comes from; see ``fingerprints``.
        """
        return None

    def project(self, x: ArrayLike) -> Array | None:
        """The member nearest to x, where that is cheap; else None."""
        return None

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        """Lower and upper bounds of the entries of an array, if they are all there is to the set; else None."""
        return None

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        r"""Which vertex is first below a level, as a gradient moves from `start` to `end`? None: ask the oracle.

        Both the gradient and the level move linearly with :math:`\theta \in [0, 1]`; vertices to skip stay at the
        level, and all others begin at it or above. Those below by no more than `noise` at the end do not count.
        """
        return None

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """Vertices with positive weights that sum to x, else None; what is left of the weight is that of the origin.

        Where the origin is not a member, nothing is left but rounding.
        """
        return None

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        """Up to `count` vertices by ``<g, s>``, the oracle's own `best` first; only that one where more would cost."""
        return [best]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex | None:
        """The vertex with the largest ``<g, s>`` in the smallest face that holds the member x; None: not offered.

        A step from x away from it stays in the set for a while, with no mixture of vertices kept. Entries of x within
        `noise` and a few units in the last place of a bound are at that bound. Ties go the same way every time.
        """
        return None

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float | None:
        """The largest t for which ``x + t * direction`` is a member, given that x is one; None: not offered.

        The direction must stay in the affine hull of the set, as a difference of members does. A direction of zeros
        has no largest t: infinity. Bounds are kept up to `noise` and a few units in the last place, so that what
        rounding has left of an entry or of a direction stops no step.
        """
        return None

    def summands(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        """The vertices, one of each of the ``n_summands`` sets, of which the oracle's answer is the sum.

        Methods that keep a mixture for every one of these sets need fewer oracle calls. None: that cannot be told.
        """
        return (vertex,) if self.n_summands == 1 else None

    def split(self, x: Array) -> tuple[Vertex, ...] | None:
        """A member as a sum of members of these sets, in the same order; None where that cannot be told."""
        return (DenseVertex(x),) if self.n_summands == 1 else None

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """A certified lower bound on ``min <g, s>``, given the vertex that `lmo` returned.

        Exact oracles need not override it: the vertex attains the minimum.
        """
        return vertex.dot(g)

    def __mul__(self, factor: float) -> ConstraintSet:
        return ScaledSet(self, factor)

    __rmul__ = __mul__

    def __add__(self, shift: Any) -> ConstraintSet:
        return Translated(self, shift)


def needs_shape(constraint: object, shape: Shape | None) -> Shape:
    """The shape, or an error that says where to give it."""
    if shape is None:
        raise ValueError(f"shape is needed: {type(constraint).__name__} does not know the dimension; give x0 or shape")
    return shape


def finite(x: Any) -> Array | None:
    """x as float64, or None if it has entries that are not finite and so is in no set."""
    array = float_array(x, "x").astype(np.float64, copy=False)
    return array if np.isfinite(array).all() else None


def size_of(shape: Shape) -> int:
    """Number of entries."""
    return int(np.prod(shape))


def rounding(x: Any, size: Array) -> Array:
    """How far entries of that size may be off in a point of the type of x, made of thousands of rounded mixtures."""
    return 64 * float(np.finfo(float_dtype(np.asarray(x).dtype)).eps) * np.abs(size)


def few_ulps(dtype: Any) -> float:
    """What the last operations may have left between an entry and the bound of size one that it has reached."""
    return 8 * float(np.finfo(float_dtype(dtype)).eps)


def first_bound(room: Array, outward: Array, slack: Array | float) -> float:
    """The largest t for which no entry, at a rate of `outward`, uses up more than its `room` and the `slack`.

    By the two passes of Harris (1973): no entry with room decides by rounding, and none with none.
    """
    used = outward > 0
    room, slack, rate = room[used], np.broadcast_to(slack, room.shape)[used], outward[used]
    if not len(rate):
        return math.inf
    ends = room / rate
    return float(max(ends[ends <= ((room + slack) / rate).min()].max(), 0.0))


class KnownSet(ConstraintSet):
    """A set that tells its members by `near`, which combinators ask: to change what is a member, override that."""

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        array = finite(x)
        return False if array is None else self.near(array, tol, rounding(x, array))

    @abstractmethod
    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        """Whether x, whose entries may be off by `noise`, is in the set up to `tol`."""


def part_of(hint: Vertex | None, which: int = 0) -> Vertex | None:
    """The part of a hint that is one for the set inside of a combinator; a hint may also be another set's."""
    return hint.parts[which] if hint is not None and which < len(hint.parts) else None


class ScaledSet(KnownSet):
    """The members of a set times a number, written ``factor * C``; a negative factor reflects.

    All that the set offers survives.

    Notes
    -----
    :Family: made of other sets
    :Oracle: the factor times the answer of :math:`C` to :math:`g`, or to :math:`-g` if the factor is negative
    :Cost: that of :math:`C`
    :Offers: all that :math:`C` does
    """

    def __init__(self, constraint: ConstraintSet, factor: float) -> None:
        self.constraint = constraint
        self.factor = number(factor, "factor", "be finite and not zero", lambda x: math.isfinite(x) and x != 0)
        self.shape, self.polytope, self.factored = constraint.shape, constraint.polytope, constraint.factored
        self.screenable, self.start_asks = constraint.screenable, constraint.start_asks
        self.n_summands = constraint.n_summands
        if constraint.factors is not None:
            self.factors = tuple((place, self.factor * C) for place, C in constraint.factors)
        radius = constraint.nuclear_radius
        self.nuclear_radius = None if radius is None else abs(self.factor) * radius
        if constraint.trace_range is not None:
            low, high = sorted(self.factor * end for end in constraint.trace_range)
            self.trace_range = low, high

    def __repr__(self) -> str:
        return f"{self.factor:g} * {self.constraint!r}"

    @property
    def trusted(self) -> bool:
        return super().trusted and self.constraint.trusted

    def fingerprint(self) -> str:
        return fingerprint(self, self.factor, self.constraint.fingerprint())

    def _inner(self, g: Any) -> Any:
        """The question to the set inside: only its sign matters."""
        return g if self.factor > 0 else -1.0 * g

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        return Scaled(self.factor, self.constraint.lmo(self._inner(g), part_of(hint)))

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        return Scaled(self.factor, self.constraint.lmo_at(self._inner(g), inner / abs(self.factor), part_of(hint)))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return abs(self.factor) * self.constraint.lower_bound(self._inner(g), vertex.parts[0])

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array | LowRank:
        return self.constraint.start(shape, dtype) * np.dtype(dtype).type(self.factor)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        if isinstance(x, LowRank):
            return self.constraint.contains(x / self.factor, tol)
        return super().contains(x, tol)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        with np.errstate(over="ignore"):
            inner, off = x / self.factor, np.abs(noise / self.factor)
        return self.constraint.near(inner, tol, off) if np.isfinite(inner).all() else False

    def diameter(self, shape: Shape | None = None) -> float | None:
        inner = self.constraint.diameter(shape)
        return None if inner is None else abs(self.factor) * inner

    def project(self, x: ArrayLike) -> Array | None:
        x = finite_array(x, "x")
        inner = self.constraint.project(x / x.dtype.type(self.factor))
        return None if inner is None else inner * x.dtype.type(self.factor)

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        inner = self.constraint.bounds(shape)
        if inner is None:
            return None
        ends = self.factor * inner[0], self.factor * inner[1]
        return ends if self.factor > 0 else ends[::-1]

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        size = abs(self.factor)
        inner = self.constraint.crossing(
            self._inner(start),
            self._inner(end),
            (levels[0] / size, levels[1] / size),
            [vertex.parts[0] for vertex in skip],
            noise / size,
        )
        if inner is None or inner.vertex is None:
            return inner
        return Crossing(inner.theta, Scaled(self.factor, inner.vertex))

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        inner = self.constraint.decomposed(x / x.dtype.type(self.factor))
        return None if inner is None else [(w, Scaled(self.factor, vertex)) for w, vertex in inner]

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        inner = self.constraint.best_vertices(self._inner(g), count, best.parts[0])
        return [Scaled(self.factor, vertex) for vertex in inner]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex | None:
        inner = self.constraint.away_vertex(self._inner(g), x / x.dtype.type(self.factor), noise / abs(self.factor))
        return None if inner is None else Scaled(self.factor, inner)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float | None:
        factor = x.dtype.type(self.factor)
        return self.constraint.max_step(x / factor, direction / factor, noise / abs(self.factor))

    def summands(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        return self._scaled(self.constraint.summands(vertex.parts[0]) if vertex.parts else None)

    def split(self, x: Array) -> tuple[Vertex, ...] | None:
        return self._scaled(self.constraint.split(x / self.factor))

    def _scaled(self, vertices: tuple[Vertex, ...] | None) -> tuple[Vertex, ...] | None:
        return None if vertices is None else tuple(Scaled(self.factor, vertex) for vertex in vertices)


class Translated(KnownSet):
    """The members of a set moved by a vector, written ``C + shift``; objectives compute the image of the shift once.

    Two things do not survive: the shift has entries everywhere, so that a gradient is needed whole, and it is no
    rank-one matrix. A decomposition has nowhere to put what the set inside leaves to the origin.

    Notes
    -----
    :Family: made of other sets
    :Oracle: the answer of :math:`C` plus the shift
    :Cost: that of :math:`C`
    :Offers: all but mixtures
    """

    shape: Shape

    def __init__(self, constraint: ConstraintSet, shift: ArrayLike) -> None:
        self.constraint = constraint
        self.shift = finite_array(shift, "shift")
        if self.shift.ndim == 0:
            raise ValueError("shift must be an array of the shape of x, not a number")
        own = constraint.shape or self.shift.shape
        if self.shift.shape not in (own, (size_of(own),)):  # vectors stand for matrices, row by row
            raise ValueError(f"shift has shape {self.shift.shape}; members of {constraint!r} have shape {own}")
        self._vertex = DenseVertex(self.shift, recurring=True)
        self.shape = self.shift.shape
        self.polytope, self.start_asks = constraint.polytope, constraint.start_asks
        if constraint.factors is not None:
            self.factors = tuple((place, C + self.shift[place]) for place, C in constraint.factors)
        self.n_summands = constraint.n_summands + (constraint.n_summands > 1)  # the shift is a set of its own

    def __repr__(self) -> str:
        return f"{self.constraint!r} + shift"

    @property
    def trusted(self) -> bool:
        return super().trusted and self.constraint.trusted

    def fingerprint(self) -> str:
        return fingerprint(self, self.shift, self.constraint.fingerprint())

    def _moved(self, vertex: Vertex) -> Sum:
        return Sum((vertex, self._vertex))

    def lmo(self, g: Any, hint: Vertex | None = None) -> Sum:
        return self._moved(self.constraint.lmo(g, part_of(hint)))

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Sum:
        return self._moved(self.constraint.lmo_at(g, inner - self._vertex.dot(g), part_of(hint)))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return self.constraint.lower_bound(g, vertex.parts[0]) + self._vertex.dot(g)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        inner = self.constraint.start(self.shape if shape is None else shape, dtype)
        return np.asarray(np.asarray(inner) + self.shift, dtype=dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        # Digits that x never had next to a large shift are missing from the difference.
        return self.constraint.near(x - self.shift, tol, noise + rounding(x, self.shift))

    def diameter(self, shape: Shape | None = None) -> float | None:
        return self.constraint.diameter(self.shape)

    def project(self, x: ArrayLike) -> Array | None:
        x = finite_array(x, "x")
        inner = self.constraint.project(x - self.shift.astype(x.dtype, copy=False))
        return None if inner is None else inner + self.shift.astype(x.dtype, copy=False)

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        inner = self.constraint.bounds(shape)
        shift = self.shift.reshape(shape)
        return None if inner is None else (inner[0] + shift, inner[1] + shift)

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> Crossing | None:
        inner = self.constraint.crossing(
            start,
            end,
            (levels[0] - self._vertex.dot(start), levels[1] - self._vertex.dot(end)),
            [vertex.parts[0] for vertex in skip],
            noise,
        )
        return inner if inner is None or inner.vertex is None else Crossing(inner.theta, self._moved(inner.vertex))

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        return [self._moved(vertex) for vertex in self.constraint.best_vertices(g, count, best.parts[0])]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex | None:
        inner = self.constraint.away_vertex(g, *self._unmoved(x, noise))
        return None if inner is None else self._moved(inner)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float | None:
        unmoved, noise = self._unmoved(x, noise)
        return self.constraint.max_step(unmoved, direction, noise)

    def _unmoved(self, x: Array, noise: Array | float) -> tuple[Array, Array]:
        """The member inside, and how far its entries may be off."""
        return x - self.shift.reshape(x.shape).astype(x.dtype, copy=False), noise + few_ulps(x.dtype) * np.abs(x)

    def summands(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        if self.n_summands == 1:
            return (vertex,)
        return self._with_shift(self.constraint.summands(vertex.parts[0]) if vertex.parts else None)

    def split(self, x: Array) -> tuple[Vertex, ...] | None:
        return (DenseVertex(x),) if self.n_summands == 1 else self._with_shift(self.constraint.split(x - self.shift))

    def _with_shift(self, vertices: tuple[Vertex, ...] | None) -> tuple[Vertex, ...] | None:
        return None if vertices is None else (*vertices, self._vertex)
