"""Sets made of several: products, where each knows of its own block of a vector, and Minkowski sums."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import norm
from fwflow._validation import Array, finite_array, whole
from fwflow.points.vertices import Shape, Slice, SparseVertex, Sum, Vertex
from fwflow.sets.base import ConstraintSet, KnownSet, part_of, size_of
from fwflow.sets.membership import MOST_ASKED, mixes, widths
from fwflow.sets.vectors import Box

# Weights that add up to one within this are whole.
_WHOLE = 1e-9


class Product(KnownSet):
    """The product of sets on consecutive blocks of a vector.

    What all of its blocks offer it offers too, but for a closed form of crossings: there are too many pairs of vertices
    that tie.

    Parameters
    ----------
    blocks : sequence of (set, length)

    Notes
    -----
    :Family: made of other sets
    :Oracle: the answers side by side
    :Cost: the sum
    :Offers: all that every part does

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
            own = constraint.shape or (length,)
            if size_of(own) != length:
                raise ValueError(f"blocks must fit their sets: {constraint!r} has {size_of(own)} entries, not {length}")
        edges = np.cumsum([0, *(length for _, length in self.blocks)]).tolist()
        self._slices = [slice(a, b) for a, b in pairwise(edges)]
        self.shape = (edges[-1],)
        self.factors = tuple(
            (slice(at.start + inner.start, at.start + inner.stop), C)
            for (constraint, n), at in zip(self.blocks, self._slices, strict=True)
            for inner, C in constraint.factors or ((slice(0, n), constraint),)
        )
        self.polytope = all(constraint.polytope or length == 1 for constraint, length in self.blocks)
        self.start_asks = any(constraint.start_asks for constraint, _ in self.blocks)
        self.n_summands = sum(constraint.n_summands for constraint, _ in self.blocks)

    def __repr__(self) -> str:
        return f"Product({self.blocks!r})"

    @property
    def trusted(self) -> bool:
        return super().trusted and all(constraint.trusted for constraint, _ in self.blocks)

    def fingerprint(self) -> str:
        return fingerprint(self, *((constraint.fingerprint(), n) for constraint, n in self.blocks))

    def _blocks(self) -> Iterator[tuple[ConstraintSet, slice]]:
        return ((constraint, place) for (constraint, _), place in zip(self.blocks, self._slices, strict=True))

    def _sets(self) -> Iterator[ConstraintSet]:
        return (constraint for constraint, _ in self.blocks)

    def _joined(self, vertices: Iterable[Vertex]) -> Sum:
        return Sum(tuple(Slice(at.start, v, self.shape) for at, v in zip(self._slices, vertices, strict=True)))

    def lmo(self, g: Array, hint: Vertex | None = None) -> Sum:
        hints = [None] * len(self.blocks) if hint is None else _inside(hint, len(self.blocks))
        return self._joined(c.lmo(g[at], inner) for (c, at), inner in zip(self._blocks(), hints, strict=True))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        inside = _inside(vertex, len(self.blocks))
        return sum(c.lower_bound(g[at], part) for (c, at), part in zip(self._blocks(), inside, strict=True))

    def project(self, x: ArrayLike) -> Array | None:
        x = finite_array(x, "x", ndim=1)
        parts = [c.project(x[at]) for c, at in self._blocks()]
        return None if any(part is None for part in parts) else np.concatenate(parts)  # type: ignore[arg-type]

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        ends = [c.bounds((n,)) for c, n in self.blocks]
        if any(end is None for end in ends):
            return None
        lower, upper = zip(*ends, strict=True)
        return np.concatenate(lower), np.concatenate(upper)

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """By the greedy rule: vertices of all blocks go together until one of them has no weight left.

        Where a block leaves weight to its origin this would need vertices with a part at the origin, which are none.
        """
        parts = [c.decomposed(x[at]) for c, at in self._blocks()]
        if any(part is None or abs(sum(w for w, _ in part) - 1) > _WHOLE for part in parts):
            return None
        return [(w, self._joined(vertices)) for w, vertices in _together(parts)]  # type: ignore[arg-type]

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        """The second takes the second best of every block, and so on: where a block has no more, its best."""
        inside = _inside(best, len(self.blocks))
        ranked = [c.best_vertices(g[at], count, part) for (c, at), part in zip(self._blocks(), inside, strict=True)]
        most = min(count, max(map(len, ranked)))
        return [self._joined(row[i] if i < len(row) else row[0] for row in ranked) for i in range(most)]

    def away_vertex(self, g: Any, x: Array, noise: Array | float = 0.0) -> Vertex | None:
        noise = np.broadcast_to(noise, x.shape)
        found = [c.away_vertex(g[at], x[at], noise[at]) for c, at in self._blocks()]
        return None if any(vertex is None for vertex in found) else self._joined(found)  # type: ignore[arg-type]

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float | None:
        noise = np.broadcast_to(noise, x.shape)
        steps = [c.max_step(x[at], direction[at], noise[at]) for c, at in self._blocks()]
        return None if any(step is None for step in steps) else min(steps)  # type: ignore[type-var]

    def summands(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        if len(vertex.parts) != len(self.blocks) or not all(part.parts for part in vertex.parts):
            return None
        return self._flattened([c.summands(part.parts[0]) for c, part in zip(self._sets(), vertex.parts, strict=True)])

    def split(self, x: Array) -> tuple[Vertex, ...] | None:
        return self._flattened([c.split(x[at]) for c, at in self._blocks()])

    def _flattened(self, found: Sequence[tuple[Vertex, ...] | None]) -> tuple[Vertex, ...] | None:
        """Vertices of the blocks at their places in the vector."""
        if any(vertices is None for vertices in found):
            return None
        placed = ((at, v) for at, vertices in zip(self._slices, found, strict=True) for v in vertices or ())
        return tuple(_placed(at, v, self.shape) for at, v in placed)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.concatenate([np.asarray(constraint.start((n,), dtype)) for constraint, n in self.blocks])

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        inside = [c.near(x[at], tol, noise[at]) for c, at in self._blocks()]
        return False if False in inside else None if None in inside else True

    def diameter(self, shape: Shape | None = None) -> float | None:
        lengths = [constraint.diameter((n,)) for constraint, n in self.blocks]
        return None if any(length is None for length in lengths) else math.hypot(*lengths)  # type: ignore[arg-type]


def _placed(at: slice, vertex: Vertex, shape: Shape) -> Vertex:
    """A vertex of a block, of which no more is kept than the entries of the block."""
    row = vertex.row()
    return Slice(at.start, vertex, shape) if row is None else SparseVertex(np.arange(at.start, at.stop), row, shape)


class MinkowskiSum(KnownSet):
    """The sums of members of sets, one of each, written out: every ``x_1 + x_2 + ...`` with ``x_i`` in the i-th set.

    One call of its oracle is one of each of theirs. Methods with an active set keep a mixture for every one of them,
    where the starting point is known as a sum: at the sum of their starts, and wherever all are boxes. Whether a point
    is a member is asked of the oracle, unless that is a user's function: it may not be told of points on a curved
    border, and is not of more than 100 entries, but for boxes. The face of a point is not known: it depends on how the
    point splits.

    Parameters
    ----------
    *sets : ConstraintSet
        Of members of one shape.

    Notes
    -----
    :Family: made of other sets
    :Oracle: the sum of the answers
    :Cost: the sum
    :Offers: ranking; of boxes projection and bounds

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
        self.sets = sets
        self.shape = shapes[0] if shapes else None
        self.polytope = all(constraint.polytope for constraint in sets)
        self.start_asks = any(constraint.start_asks for constraint in sets)
        self.n_summands = sum(constraint.n_summands for constraint in sets)

    def __repr__(self) -> str:
        return f"MinkowskiSum({', '.join(map(repr, self.sets))})"

    @property
    def trusted(self) -> bool:
        return super().trusted and all(constraint.trusted for constraint in self.sets)

    def fingerprint(self) -> str:
        return fingerprint(self, *(constraint.fingerprint() for constraint in self.sets))

    def lmo(self, g: Any, hint: Vertex | None = None) -> Sum:
        return Sum(tuple(c.lmo(g, part_of(hint, i)) for i, c in enumerate(self.sets)))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return sum(c.lower_bound(g, part) for c, part in zip(self.sets, vertex.parts, strict=True))

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        """The second takes the second best of every set, and so on: where a set has no more, its best."""
        ranked = [c.best_vertices(g, count, part) for c, part in zip(self.sets, best.parts, strict=True)]
        most = min(count, max(map(len, ranked)))
        return [Sum(tuple(row[i] if i < len(row) else row[0] for row in ranked)) for i in range(most)]

    def summands(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        if len(vertex.parts) != len(self.sets):
            return None
        return _joined([c.summands(part) for c, part in zip(self.sets, vertex.parts, strict=True)])

    def split(self, x: Array) -> tuple[Vertex, ...] | None:
        parts = [np.asarray(c.start(x.shape, x.dtype)) for c in self.sets]
        if not np.array_equal(sum(parts), x):
            ends = [c.bounds(x.shape) for c in self.sets]
            if any(end is None for end in ends):
                return None
            lower, upper = (np.array(end) for end in zip(*ends, strict=True))
            width = (upper - lower).sum(axis=0)
            share = np.divide(x - lower.sum(axis=0), width, out=np.zeros(x.shape), where=width > 0)
            parts = list(lower + np.clip(share, 0.0, 1.0) * (upper - lower))
        return _joined([c.split(part) for c, part in zip(self.sets, parts, strict=True)])

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        """The sum of the starts."""
        return np.asarray(sum(np.asarray(c.start(shape or self.shape, dtype)) for c in self.sets), dtype=dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        """By bounds or else by the oracle."""
        ends = self.bounds(x.shape)
        if ends is not None:
            return Box(*ends).near(x, tol, noise)
        if x.size > MOST_ASKED or self.start_asks:  # functions of users are asked, and counted, in runs alone
            return None
        return mixes(self, x, tol * widths(self, x.shape) + noise)

    def project(self, x: ArrayLike) -> Array | None:
        ends = self.bounds(np.shape(x))
        return None if ends is None else Box(*ends).project(x)

    def bounds(self, shape: Shape) -> tuple[Array, Array] | None:
        ends = [c.bounds(shape) for c in self.sets]
        if any(end is None for end in ends):
            return None
        lower, upper = zip(*ends, strict=True)
        return np.asarray(sum(lower)), np.asarray(sum(upper))

    def diameter(self, shape: Shape | None = None) -> float | None:
        """At most the sum of the diameters, which this is; of boxes the diameter itself."""
        shape = shape or self.shape
        ends = None if shape is None else self.bounds(shape)
        if ends is not None:
            return float(norm(ends[1] - ends[0]))
        lengths = [c.diameter(shape) for c in self.sets]
        return None if any(length is None for length in lengths) else float(sum(lengths))  # type: ignore[arg-type]


def _joined(found: Sequence[tuple[Vertex, ...] | None]) -> tuple[Vertex, ...] | None:
    return None if any(part is None for part in found) else tuple(v for part in found for v in part or ())


def _inside(vertex: Vertex, count: int) -> list[Any]:
    """The vertices of the blocks of which a vertex is made; None in place of each if it is another set's."""
    return [part.parts[0] for part in vertex.parts] if len(vertex.parts) == count else [None] * count


def _together(parts: list[list[tuple[float, Vertex]]]) -> Iterator[tuple[float, list[Vertex]]]:
    """Decompositions of all blocks as one, with no more vertices than they have together."""
    left = [[w for w, _ in part] for part in parts]
    at = [0] * len(parts)
    while all(i < len(part) for i, part in zip(at, parts, strict=True)):
        step = min(weights[i] for i, weights in zip(at, left, strict=True))
        yield step, [part[i][1] for i, part in zip(at, parts, strict=True)]
        for block, weights in enumerate(left):
            weights[at[block]] -= step
            at[block] += weights[at[block]] <= _WHOLE * 1e-3
