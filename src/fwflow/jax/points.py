"""Points, which carry the image of x, and the vertices that are mixed into them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp

from fwflow.jax.designs import Design
from fwflow.jax.trees import Array, inner, pytree


class Point(NamedTuple):
    """Coordinates x and, for a linear model, their image ``A @ x``; also a vertex with all its entries.

    `block` holds the directions of an iterative oracle, from which its next call starts.
    """

    x: Array
    image: Any = None
    block: Array | None = None

    def added_to(self, x: Array, weight: Any) -> Array:
        """Return ``x + weight * self``."""
        return x + weight * self.x

    def dot(self, g: Array) -> Array:
        """Return the inner product with an array."""
        return inner(self.x, g)

    def lifted(self, design: Design) -> Point:
        """Return the point with its image, the product of a design with it."""
        return self._replace(image=design.matvec(self.x))

    def mix(self, terms: Iterable[tuple[Any, Vertex]]) -> Point:
        r"""Return :math:`x + \sum_i w_i (s_i - x)` with its image."""
        pairs = list(terms)
        if not pairs:
            return self
        rest = 1 - sum(weight for weight, _ in pairs)
        x = rest * self.x
        for weight, atom in pairs:
            x = atom.added_to(x, weight)
        if self.image is None:
            return Point(x)
        return Point(x, rest * self.image + sum(weight * atom.image for weight, atom in pairs))


@pytree()
class OneHot:
    """Vertex with one nonzero entry, or with none if the index is beyond the last entry; members as for `Point`."""

    index: Array
    value: Array
    image: Any = None

    def added_to(self, x: Array, weight: Any) -> Array:
        # A comparison fuses with the rest of a mixture and leaves a sharded x where it is; a scatter does neither.
        here = jnp.arange(x.size, dtype=self.index.dtype) == self.index
        return x + jnp.where(here, weight * self.value, 0).reshape(x.shape).astype(x.dtype)

    def dot(self, g: Array) -> Array:
        return self.value * jnp.take(g.reshape(-1), self.index, mode="clip")

    def lifted(self, design: Design) -> OneHot:
        return replace(self, image=self.value * design.column(self.index))


Vertex = Point | OneHot
