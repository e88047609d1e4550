"""Sets made of other sets: products, with a block of the vector for each set, Minkowski sums and linear images."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, norm
from fwflow._storage import storable
from fwflow._validation import Array, finite_array, float_dtype, whole
from fwflow.points.vertices import DenseVertex, Shape, Slice, SparseVertex, Sum, Vertex
from fwflow.sets.base import (
    AffineImage,
    Combination,
    ConstraintSet,
    Faces,
    KnownVertices,
    Projection,
    Summands,
    Tangent,
    WorkingSets,
    check_shape,
)
from fwflow.sets.lanczos import spectral_bound
from fwflow.sets.membership import found_by_oracle
from fwflow.sets.vectors import Box

# Weights sum to one up to this rounding error. Chosen without tuning.
_WHOLE = 1e-9
# A weight below this is rounding error. Chosen without tuning.
_NO_WEIGHT = 1e-14

Member = TypeVar("Member")


def joint_mixture(mixtures: Sequence[Sequence[tuple[float, Member]]]) -> Iterator[tuple[float, list[Member]]]:
    """Join mixtures, with weights that sum to one in each, to one mixture of lists with a member of each.

    The greedy rule takes the current member of every mixture until one of them has no weight left, and goes on to the
    next member of that mixture.
    """
    left, at = [mixture[0][0] for mixture in mixtures], [0] * len(mixtures)
    while True:
        step = min(left)
        yield step, [mixture[i][1] for mixture, i in zip(mixtures, at, strict=True)]
        for m, mixture in enumerate(mixtures):
            left[m] -= step
            if left[m] <= _NO_WEIGHT:
                at[m] += 1
                if at[m] == len(mixture):
                    return
                left[m] += mixture[at[m]][0]


class _Composition(KnownVertices, Summands, Combination):
    """A set whose vertices consist of one vertex of each inner set."""

    def __init__(self, inner_sets: Iterable[ConstraintSet]) -> None:
        super().__init__(inner_sets)
        self.n_summands = sum(1 if C.summands is None else C.summands.n_summands for C in self.inner_sets)

    @abstractmethod
    def _costs(self, g: Any) -> Sequence[Any]:
        """Return the cost for each inner set."""

    def _embedded(self, i: int, vertex: Vertex) -> Vertex:
        """Return a vertex of inner set i as a summand of a vertex of this set."""
        return vertex

    def _inner_vertices(self, vertex: Vertex) -> Sequence[Vertex] | None:
        """Return the vertices of the inner sets that a vertex consists of, or None if it is of another set."""
        return vertex.parts if len(vertex.parts) == len(self.inner_sets) else None

    def _composed(self, vertices: Iterable[Vertex]) -> Sum:
        return Sum(tuple(self._embedded(i, vertex) for i, vertex in enumerate(vertices)))

    def lmo(self, g: Any, hint: Vertex | None = None) -> Sum:
        known = None if hint is None else self._inner_vertices(hint)
        hints: Sequence[Vertex | None] = known or [None] * len(self.inner_sets)
        return self._composed(
            C.vertex(cost, near) for C, cost, near in zip(self.inner_sets, self._costs(g), hints, strict=True)
        )

    def _cases(self, g: Any, vertex: Vertex) -> Iterator[tuple[ConstraintSet, Any, Vertex]]:
        """Return each inner set with its cost and its part of a vertex."""
        return zip(self.inner_sets, self._costs(g), self._inner_vertices(vertex) or (), strict=True)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return sum(C.lower_bound(cost, part) for C, cost, part in self._cases(g, vertex))

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        """Combine the second best of all inner sets, then the third best; a set without more gives its best."""
        ranked = [
            [part] if C.known_vertices is None else C.known_vertices.best_vertices(cost, count, part)
            for C, cost, part in self._cases(g, best)
        ]
        most = min(count, max(map(len, ranked)))
        return [self._composed(row[i] if i < len(row) else row[0] for row in ranked) for i in range(most)]

    def _summand(self, i: int, vertex: Vertex) -> Vertex:
        """Return a vertex of a summand of inner set i as one of this set."""
        return vertex

    def split_vertex(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        inner = self._inner_vertices(vertex)
        if inner is None:
            return None
        return self._all_summands(
            (part,) if C.summands is None else C.summands.split_vertex(part)
            for C, part in zip(self.inner_sets, inner, strict=True)
        )

    def _split_each(self, parts: Iterable[Array]) -> tuple[Vertex, ...] | None:
        """Split members of the inner sets into summands."""
        return self._all_summands(
            (DenseVertex(part),) if C.summands is None else C.summands.split_point(part)
            for C, part in zip(self.inner_sets, parts, strict=True)
        )

    def _all_summands(self, found: Iterable[tuple[Vertex, ...] | None]) -> tuple[Vertex, ...] | None:
        summands: list[Vertex] = []
        for i, vertices in enumerate(found):
            if vertices is None:
                return None
            summands += (self._summand(i, vertex) for vertex in vertices)
        return tuple(summands)


class Product(Faces, WorkingSets, _Composition):
    """Product of sets on consecutive blocks of a vector.

    It has the capabilities that all blocks have, except for crossings, because too many pairs of vertices tie.

    Parameters
    ----------
    blocks : sequence of (ConstraintSet, int)
        Set and length of each block.

    See Also
    --------
    BlockCoordinate : Method that moves one block after the other.
    MinkowskiSum : Sums of members of several sets.
    alternate : Common point of two sets.

    Notes
    -----
    :Family: made of other sets
    :Uses: blocks of variables with one constraint for each block, several mixtures in one problem
    :Oracle: the answers of all parts, concatenated
    :Cost: the sum of the costs of all parts
    :Offers: the capabilities that all parts offer

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Product([(fw.L1Ball(1.0), 2), (fw.Simplex(), 2)])
    >>> np.asarray(C.lmo(np.array([3.0, 1.0, 5.0, 4.0])))
    array([-1.,  0.,  0.,  1.])
    """

    shape: Shape

    def __init__(self, blocks: Sequence[tuple[ConstraintSet, int]]) -> None:
        if not blocks:
            raise ValueError("blocks is empty; a product needs at least one (set, length)")
        for block in blocks:
            if not (isinstance(block, tuple) and len(block) == 2 and isinstance(block[0], ConstraintSet)):
                raise ValueError(f"blocks must be pairs (set, length); got {block!r}")
        self.blocks = [(constraint, whole(length, "blocks must have lengths that", 1)) for constraint, length in blocks]
        for constraint, length in self.blocks:
            own = math.prod(constraint.shape or (length,))
            if own != length:
                raise ValueError(f"blocks must fit their sets: {constraint!r} has {own} entries, not {length}")
        super().__init__(constraint for constraint, _ in self.blocks)
        self._faces: list[Any] = [C.faces for C in self.inner_sets]
        edges = np.cumsum([0, *(length for _, length in self.blocks)]).tolist()
        self._slices = [slice(a, b) for a, b in pairwise(edges)]
        self.shape = (edges[-1],)
        self.factors = tuple(
            (slice(at.start + inner.start, at.start + inner.stop), C)
            for (constraint, n), at in zip(self.blocks, self._slices, strict=True)
            for inner, C in constraint.factors or ((slice(0, n), constraint),)
        )
        self.polytope = all(constraint.polytope or length == 1 for constraint, length in self.blocks)

    def __repr__(self) -> str:
        return f"Product({self.blocks!r})"

    def fingerprint(self) -> str:
        return fingerprint(self, **{f"block {i}": (C.fingerprint(), n) for i, (C, n) in enumerate(self.blocks)})

    def cut(self, x: Any) -> list[Any]:
        """Return the blocks of a vector."""
        return [x[at] for at in self._slices]

    def _costs(self, g: Any) -> list[Any]:
        return self.cut(g)

    def _embedded(self, i: int, vertex: Vertex) -> Slice:
        return Slice(self._slices[i].start, vertex, self.shape)

    def _inner_vertices(self, vertex: Vertex) -> Sequence[Vertex] | None:
        parts = super()._inner_vertices(vertex)
        return [part.parts[0] for part in parts] if parts and all(part.parts for part in parts) else None

    def projection(self, shape: Shape) -> Projection | None:
        found = [C.projection((n,)) for C, n in self.blocks]
        parts = [part for part in found if part is not None]
        if len(parts) < len(found):
            return None
        return lambda x: np.concatenate(
            [part(block) for part, block in zip(parts, self.cut(finite_array(x, "x", ndim=1)), strict=True)]
        )

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        ends = [c.bounds((n,)) for c, n in self.blocks]
        if any(end is None for end in ends):
            return None
        lower, upper = zip(*ends, strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """Join the decompositions of the blocks, or return None if a block leaves weight to its origin."""
        parts = []
        for C, block in zip(self.inner_sets, self.cut(x), strict=True):
            part = None if C.known_vertices is None else C.known_vertices.decomposed(block)
            if part is None or abs(sum(w for w, _ in part) - 1) > _WHOLE:
                return None
            parts.append(part)
        return [(w, self._composed(vertices)) for w, vertices in joint_mixture(parts)]

    @property
    def faces(self) -> Faces | None:
        return None if None in self._faces else self

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex:
        cases = zip(self._faces, *map(self.cut, (g, x, np.broadcast_to(noise, x.shape))), strict=True)
        return self._composed(faces.away_vertex(*case) for faces, *case in cases)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        cases = zip(self._faces, *map(self.cut, (x, direction, np.broadcast_to(noise, x.shape))), strict=True)
        return min(faces.max_step(*case) for faces, *case in cases)

    def tangent(self, x: Array, noise: Array | float = 0.0) -> Tangent | None:
        parts: list[Tangent] = []
        for faces, *case in zip(self._faces, *map(self.cut, (x, np.broadcast_to(noise, x.shape))), strict=True):
            part = faces.tangent(*case)
            if part is None:
                return None
            parts.append(part)
        ends = np.cumsum([0, *(part.n_blocks for part in parts)])
        return Tangent(
            np.concatenate([part.free + at.start for part, at in zip(parts, self._slices, strict=True)]),
            np.concatenate([part.normal for part in parts]),
            np.concatenate([part.blocks + end for part, end in zip(parts, ends[:-1], strict=True)]),
            int(ends[-1]),
            np.concatenate([part.below for part in parts]),
            np.concatenate([part.above for part in parts]),
        )

    @property
    def working_sets(self) -> WorkingSets | None:
        return None if all(C.working_sets is None for C in self.inner_sets) else self

    @property
    def rest(self) -> Array:
        return np.concatenate(
            [np.full(n, 0.0 if C.working_sets is None else C.working_sets.rest) for C, n in self.blocks]
        )

    def support(self, x: Array) -> Array:
        return self._all_places(lambda sets, block: sets.support(block), x)

    def best_places(self, g: Array, count: int) -> Array:
        """Return the best places of every block, in proportion to its length."""
        return self._all_places(lambda sets, block: sets.best_places(block, 1 + count * len(block) // len(g)), g)

    def _all_places(self, chosen: Callable[[WorkingSets, Array], Array], x: Array) -> Array:
        """Join the places of all blocks; blocks without working sets have all of their entries there."""
        places = []
        for C, at in zip(self.inner_sets, self._slices, strict=True):
            sets = C.working_sets
            places.append(at.start + (np.arange(at.stop - at.start) if sets is None else chosen(sets, x[at])))
        return np.concatenate(places)

    def restricted(self, places: Array) -> Product:
        ends = np.searchsorted(places, [at.stop for at in self._slices])
        blocks = []
        for C, at, own in zip(self.inner_sets, self._slices, np.split(places, ends[:-1]), strict=True):
            sets = C.working_sets
            blocks.append((C if sets is None else sets.restricted(own - at.start), len(own)))
        return Product(blocks)

    def _summand(self, i: int, vertex: Vertex) -> Vertex:
        # A dense vertex keeps the entries of its block, not of the whole vector.
        at, row = self._slices[i], vertex.row()
        return self._embedded(i, vertex) if row is None else SparseVertex(np.arange(at.start, at.stop), row, self.shape)

    def split_point(self, x: Array) -> tuple[Vertex, ...] | None:
        return self._split_each(self.cut(x))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.concatenate([np.asarray(constraint.start((n,), dtype)) for constraint, n in self.blocks])

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        cases = zip(self.inner_sets, self.cut(x), self.cut(noise), strict=True)
        inside = [C.near(block, tol, block_noise) for C, block, block_noise in cases]
        return False if False in inside else None if None in inside else True

    def diameter(self, shape: Shape | None = None) -> float | None:
        lengths = [constraint.diameter((n,)) for constraint, n in self.blocks]
        return None if any(length is None for length in lengths) else math.hypot(*lengths)  # type: ignore[arg-type]


class MinkowskiSum(_Composition):
    """Minkowski sum of sets of one shape: every ``x_1 + x_2 + ...`` with ``x_i`` in the i-th set.

    One oracle call is one call for each set. Methods with an active set keep a mixture for each set if the starting
    point is known as a sum: if it is the sum of the starts, or if all sets are boxes. Membership is found by oracle
    calls, unless the oracle is a user's function. It may remain unknown for points on a curved boundary, and does so
    beyond 100 entries, except for boxes. The set offers no faces, because the face of a point depends on how the point
    is written as a sum.

    Parameters
    ----------
    *sets : ConstraintSet
        The sets, one or more.

    See Also
    --------
    Translated : Sum of a set and a vector.
    Product : Sets side by side.

    Notes
    -----
    :Family: made of other sets
    :Uses: sums of two structures, for example a sparse vector plus a small one
    :Oracle: the sum of the answers of all parts
    :Cost: the sum of the costs of all parts
    :Offers: ranking; for sums of boxes also projection and bounds

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.MinkowskiSum(fw.L1Ball(1.0), fw.LInfBall(0.5))
    >>> np.asarray(C.lmo(np.array([3.0, 1.0])))
    array([-1.5, -0.5])
    >>> r = fw.minimize(fw.Quadratic(np.eye(2), [3.0, 1.0]), C)
    >>> r.x, r.active_set
    (array([1.5, 0.5]), BlockSet(2 vertices in 2 blocks))
    """

    def __init__(self, *sets: ConstraintSet) -> None:
        if not sets:
            raise ValueError("sets is empty; a sum needs at least one set")
        for constraint in sets:
            if not isinstance(constraint, ConstraintSet):
                raise ValueError(f"sets must be constraint sets; got {constraint!r}")
        shapes = [constraint.shape for constraint in sets if constraint.shape is not None]
        if len(set(shapes)) > 1:
            raise ValueError(f"sets must have members of one shape; got {' and '.join(map(str, shapes))}")
        super().__init__(sets)
        self.sets = sets
        self.shape = shapes[0] if shapes else None

    def __repr__(self) -> str:
        return f"MinkowskiSum({', '.join(map(repr, self.sets))})"

    def fingerprint(self) -> str:
        return fingerprint(self, **{f"set {i}": C.fingerprint() for i, C in enumerate(self.sets)})

    def _costs(self, g: Any) -> Sequence[Any]:
        return [g] * len(self.sets)

    def split_point(self, x: Array) -> tuple[Vertex, ...] | None:
        parts = [np.asarray(C.start(x.shape, x.dtype)) for C in self.sets]
        if not np.array_equal(sum(parts), x):
            ends = self._ends(x.shape)
            if ends is None:
                return None
            lower, upper = ends
            width = (upper - lower).sum(axis=0)
            share = np.divide(x - lower.sum(axis=0), width, out=np.zeros(x.shape), where=width > 0)
            parts = list(lower + np.clip(share, 0.0, 1.0) * (upper - lower))
        return self._split_each(parts)

    def _ends(self, shape: Shape) -> tuple[Array, Array] | None:
        """Return the bounds of all sets, one per row, or None if a set is not a box."""
        ends = [C.bounds(shape) for C in self.sets]
        if any(end is None for end in ends):
            return None
        lower, upper = (np.array(end) for end in zip(*ends, strict=True))
        return lower, upper

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.asarray(sum(np.asarray(c.start(shape or self.shape, dtype)) for c in self.sets), dtype=dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        ends = self.bounds(x.shape)
        return found_by_oracle(self, x, tol, noise) if ends is None else Box(*ends).near(x, tol, noise)

    def projection(self, shape: Shape) -> Projection | None:
        ends = self.bounds(shape)
        return None if ends is None else Box(*ends).projection(shape)

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        ends = self._ends(shape)
        return None if ends is None else (ends[0].sum(axis=0), ends[1].sum(axis=0))

    def diameter(self, shape: Shape | None = None) -> float | None:
        """Return the diameter for boxes, else the sum of the diameters, which is an upper bound."""
        shape = shape or self.shape
        ends = None if shape is None else self.bounds(shape)
        if ends is not None:
            return float(norm(ends[1] - ends[0]))
        lengths = [c.diameter(shape) for c in self.sets]
        return None if any(length is None for length in lengths) else float(sum(lengths))  # type: ignore[arg-type]


@storable("image")
@dataclass(frozen=True, eq=False)
class Image(DenseVertex):
    """The image of a vertex, together with the vertex."""

    vertex: Vertex | None = None

    @property
    def parts(self) -> tuple[Vertex, ...]:  # type: ignore[override]
        return () if self.vertex is None else (self.vertex,)


class LinearImage(AffineImage):
    """Image of a set under a matrix: the vectors ``M x`` for x in the set.

    The inner oracle minimises ``<M^T g, x>``. The default starting point is the image of the start. The oracle returns
    the image of a vertex, which is a vertex of the image unless others tie with it. Membership is found by oracle
    calls, for up to 100 entries, unless the oracle is a user's function.

    Parameters
    ----------
    M : (m, n) array or SciPy sparse matrix
        Matrix of the map.
    constraint : ConstraintSet
        Set of vectors with n entries, or of arrays with n entries, which are read row by row.

    See Also
    --------
    ScaledSet : Multiplies by a number.
    ConvexHull : Image of a simplex.

    Notes
    -----
    :Family: made of other sets
    :Uses: zonotopes, reachable sets of linear systems, changes of variables
    :Oracle: :math:`M` times the answer of :math:`C` for :math:`M^T g`
    :Cost: the cost of :math:`C` and two products with :math:`M`
    :Offers: ranking

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> zonotope = fw.LinearImage([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], fw.LInfBall())
    >>> np.asarray(zonotope.lmo(np.array([1.0, 1.0])))
    array([-2., -2.])
    """

    shape: Shape

    def __init__(self, M: Any, constraint: ConstraintSet) -> None:
        if not isinstance(constraint, ConstraintSet):
            raise ValueError(f"constraint must be a constraint set; got {constraint!r}")
        if sp.issparse(M):
            self.M = sp.csc_array(M)
            self.M.data = finite_array(self.M.data, "M")
        else:
            self.M = finite_array(M, "M", ndim=2)
        super().__init__(constraint, ("M", self.M))
        self._inner: Shape = (self.M.shape[1],) if constraint.shape is None else constraint.shape
        if math.prod(self._inner) != self.M.shape[1]:
            raise ValueError(
                f"M has {self.M.shape[1]} columns; members of {constraint!r} have {math.prod(self._inner)} entries"
            )
        self.shape = (self.M.shape[0],)

    def __repr__(self) -> str:
        return f"LinearImage({self.M.shape[0]} x {self.M.shape[1]} matrix, {self.constraint!r})"

    def cost(self, g: Any) -> Array:
        g = np.asarray(g, float_dtype(g.dtype))
        check_shape(self, g, "g")
        return dot(self.M.T, g).astype(g.dtype, copy=False).reshape(self._inner)

    def image(self, vertex: Vertex, g: Any) -> Image:
        few = vertex.entries()
        if few is None:
            array = dot(self.M, vertex.to_dense().reshape(-1))
        else:
            array = dot(self.M[:, np.asarray(few[0])], np.asarray(few[1], dtype=np.float64))
        return Image(array.astype(float_dtype(g.dtype), copy=False), vertex=vertex)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return dot(self.M, np.asarray(self.constraint.start(self._inner)).reshape(-1)).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        check_shape(self, x)
        return found_by_oracle(self, x, tol, noise)

    def diameter(self, shape: Shape | None = None) -> float | None:
        """Return an upper bound: the spectral norm of M times the diameter of the set."""
        inner = self.constraint.diameter(self._inner)
        return None if inner is None else inner * spectral_bound(self.M, 0.0)
