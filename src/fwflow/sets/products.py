"""Products of sets: each knows of its own block of a vector."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, finite_array, whole
from fwflow.fingerprints import fingerprint
from fwflow.sets.base import ConstraintSet, KnownSet, size_of
from fwflow.vertices import Shape, Slice, Sum, Vertex

# Weights that add up to one within this are whole.
_WHOLE = 1e-9


class Product(KnownSet):
    """The product of sets on consecutive blocks of a vector.

    What all of its blocks offer it offers too, but for a closed form of crossings: there are too many pairs of vertices
    that tie.

    Parameters
    ----------
    blocks : sequence of (set, length)

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
        self.polytope = all(constraint.polytope or length == 1 for constraint, length in self.blocks)

    def __repr__(self) -> str:
        return f"Product({self.blocks!r})"

    def fingerprint(self) -> str:
        return fingerprint(self, *((constraint.fingerprint(), n) for constraint, n in self.blocks))

    def _blocks(self) -> Iterator[tuple[ConstraintSet, slice]]:
        return ((constraint, place) for (constraint, _), place in zip(self.blocks, self._slices, strict=True))

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

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.concatenate([np.asarray(constraint.start((n,), dtype)) for constraint, n in self.blocks])

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        inside = [c.near(x[at], tol, noise[at]) for c, at in self._blocks()]
        return False if False in inside else None if None in inside else True

    def diameter(self, shape: Shape | None = None) -> float | None:
        lengths = [constraint.diameter((n,)) for constraint, n in self.blocks]
        return None if any(length is None for length in lengths) else math.hypot(*lengths)  # type: ignore[arg-type]


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
