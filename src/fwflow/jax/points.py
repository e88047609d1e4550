"""What is mixed? A point carries the image of x along; a vertex knows how to be added, and its image comes with it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp

from fwflow.jax.trees import Array, inner, pytree


class Vertex(ABC):
    """A vertex of a set, in the cheapest form that fits."""

    @abstractmethod
    def added_to(self, x: Array, weight: Any) -> Array:
        """``x + weight * vertex``."""

    @abstractmethod
    def dot(self, g: Array) -> Array:
        """The inner product with an array."""

    @abstractmethod
    def image(self, design: Any) -> Array:
        """The product of a design with the vertex."""


@pytree()
@dataclass(frozen=True, eq=False)
class OneHot(Vertex):
    """One entry that is not zero; beyond the end there is none."""

    index: Array
    value: Array

    def added_to(self, x: Array, weight: Any) -> Array:
        # A comparison fuses with the rest of a mixture, and leaves a sharded x where it is; a scatter does neither.
        here = jnp.arange(x.size, dtype=self.index.dtype) == self.index
        return x + jnp.where(here, weight * self.value, 0).reshape(x.shape).astype(x.dtype)

    def dot(self, g: Array) -> Array:
        return self.value * jnp.take(g.reshape(-1), self.index, mode="clip")

    def image(self, design: Any) -> Array:
        return self.value * design.column(self.index)


@pytree()
@dataclass(frozen=True, eq=False)
class Dense(Vertex):
    """All entries."""

    entries: Array

    def added_to(self, x: Array, weight: Any) -> Array:
        return x + weight * self.entries

    def dot(self, g: Array) -> Array:
        return inner(self.entries, g)

    def image(self, design: Any) -> Array:
        return design.matvec(self.entries)


@pytree()
@dataclass(frozen=True, eq=False)
class RankOne(Vertex):
    """``value * outer(u, v)``, with the block of directions that it was found in, where the next search begins."""

    u: Array
    v: Array
    value: Array
    block: Array

    def added_to(self, x: Array, weight: Any) -> Array:
        return x + (weight * self.value) * (self.u[:, None] * self.v[None, :])

    def dot(self, g: Array) -> Array:
        return self.value * inner(self.u[:, None] * self.v[None, :], g)

    def image(self, design: Any) -> Array:
        return design.matvec(self.value * (self.u[:, None] * self.v[None, :]))


class Lifted(NamedTuple):
    """A vertex with its image, where the objective has images."""

    vertex: Vertex
    image: Array | None = None

    def added_to(self, x: Array, weight: Any) -> Array:
        """``x + weight * vertex``."""
        return self.vertex.added_to(x, weight)


class Point(NamedTuple):
    """Coordinates, and their image under the linear map through which the objective sees them, if there is one."""

    x: Array
    image: Array | None = None

    def added_to(self, x: Array, weight: Any) -> Array:
        """``x + weight * coordinates``."""
        return x + weight * self.x

    def mix(self, terms: Iterable[tuple[Any, Lifted | Point]]) -> Point:
        r""":math:`x + \sum_i w_i (s_i - x)`, image and all."""
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
