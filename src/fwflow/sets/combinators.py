"""Sets made of other sets: scaled, translated, and products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, finite_array, number, whole
from fwflow.points import DenseVertex, LowRank, Shape, Slice, Sum, Vertex
from fwflow.sets.base import ConstraintSet, finite, size_of


class ScaledSet(ConstraintSet):
    """The members of a set times a number, written ``factor * C``; a negative factor reflects."""

    def __init__(self, constraint: ConstraintSet, factor: float) -> None:
        self.constraint = constraint
        self.factor = number(factor, "factor", "be finite and not zero", lambda x: math.isfinite(x) and x != 0)
        self.factored, self.polytope = constraint.factored, constraint.polytope

    def __repr__(self) -> str:
        return f"{self.factor:g} * {self.constraint!r}"

    @property
    def shape(self) -> Shape | None:
        return getattr(self.constraint, "shape", None)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        inner = None if hint is None else hint.scaled(1 / self.factor)
        return self.constraint.lmo(g if self.factor > 0 else -1.0 * g, inner).scaled(self.factor)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        hint = None if hint is None else hint.scaled(1 / self.factor)
        g = g if self.factor > 0 else -1.0 * g
        return self.constraint.lmo_at(g, inner / abs(self.factor), hint).scaled(self.factor)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        inner = vertex.scaled(1 / self.factor)
        return abs(self.factor) * self.constraint.lower_bound(g if self.factor > 0 else -1.0 * g, inner)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array | LowRank:
        inner = self.constraint.start(shape, dtype)
        return inner.mixed(self.factor, []) if isinstance(inner, LowRank) else self.factor * inner

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        inner = x.mixed(1 / self.factor, []) if isinstance(x, LowRank) else np.asarray(x) / self.factor
        return self.constraint.contains(inner, tol)

    def diameter(self, shape: Shape | None = None) -> float:
        return abs(self.factor) * self.constraint.diameter(shape)


class Translated(ConstraintSet):
    """The members of a set moved by a vector, written ``C + shift``; objectives compute the image of the shift once."""

    def __init__(self, constraint: ConstraintSet, shift: ArrayLike) -> None:
        self.constraint = constraint
        self.shift = finite_array(shift, "shift")
        if self.shift.ndim == 0:
            raise ValueError("shift must be an array of the shape of x, not a number")
        self._vertex = DenseVertex(self.shift, recurring=True)
        self.shape = self.shift.shape
        self.polytope = constraint.polytope

    def __repr__(self) -> str:
        return f"{self.constraint!r} + shift"

    def lmo(self, g: Array, hint: Vertex | None = None) -> Sum:
        inner = hint.parts[0] if isinstance(hint, Sum) else None
        return Sum((self.constraint.lmo(g, inner), self._vertex))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        assert isinstance(vertex, Sum)
        return self.constraint.lower_bound(g, vertex.parts[0]) + self._vertex.dot(g)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        inner = self.constraint.start(self.shape if shape is None else shape, dtype)
        return np.asarray(np.asarray(inner) + self.shift, dtype=dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        array = finite(x)
        return False if array is None else self.constraint.contains(array - self.shift, tol)

    def diameter(self, shape: Shape | None = None) -> float:
        return self.constraint.diameter(self.shape)


class Product(ConstraintSet):
    """The product of sets on consecutive blocks of a vector.

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

    def __init__(self, blocks: Sequence[tuple[ConstraintSet, int]]) -> None:
        if not blocks:
            raise ValueError("blocks is empty; a product needs at least one (set, length)")
        for block in blocks:
            if not (isinstance(block, tuple) and len(block) == 2 and isinstance(block[0], ConstraintSet)):
                raise ValueError(f"blocks must be pairs (set, length); got {block!r}")
        self.blocks = [(constraint, whole(length, "blocks must have lengths that", 1)) for constraint, length in blocks]
        for constraint, length in self.blocks:
            own = getattr(constraint, "shape", None) or (length,)
            if size_of(own) != length:
                raise ValueError(f"blocks must fit their sets: {constraint!r} has {size_of(own)} entries, not {length}")
        edges = np.cumsum([0, *(length for _, length in self.blocks)]).tolist()
        self._slices = [slice(a, b) for a, b in pairwise(edges)]
        self.shape = (edges[-1],)
        self.polytope = all(constraint.polytope or length == 1 for constraint, length in self.blocks)

    def __repr__(self) -> str:
        return f"Product({self.blocks!r})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> Sum:
        hints = [part.vertex for part in hint.parts] if isinstance(hint, Sum) else [None] * len(self.blocks)  # type: ignore[attr-defined]
        return Sum(
            tuple(
                Slice(place.start, constraint.lmo(g[place], inner), g.shape)
                for (constraint, _), place, inner in zip(self.blocks, self._slices, hints, strict=True)
            )
        )

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        assert isinstance(vertex, Sum)
        bounds: list[float] = [
            constraint.lower_bound(g[place], part.vertex)  # type: ignore[attr-defined]
            for (constraint, _), place, part in zip(self.blocks, self._slices, vertex.parts, strict=True)
        ]
        return sum(bounds)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.concatenate([np.asarray(constraint.start((n,), dtype)) for constraint, n in self.blocks])

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        x = np.asarray(x)
        inside = [c.contains(x[place], tol) for (c, _), place in zip(self.blocks, self._slices, strict=True)]
        return False if False in inside else None if None in inside else True

    def diameter(self, shape: Shape | None = None) -> float:
        return math.hypot(*(constraint.diameter((n,)) for constraint, n in self.blocks))
