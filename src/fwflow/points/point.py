"""Points and vertices together with their images under the linear map of an objective.

A step replaces x by ``x + sum_i w_i (s_i - x)``, and the image of x by the same mixture of images. Points and vertices
are never changed in place, so that an old point can be kept without a copy. Their arrays are read-only, because
callbacks and oracles of users receive them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import DenseVertex, Entries, RankOne, Vertex, freeze


class Atom(ABC):
    """A member of the set that can be part of a mixture: a vertex with its image, or a point."""

    #: The vertex; None for points.
    vertex: Any = None
    #: Whether it is a rank-one matrix or a sum of rank-one matrices.
    factored: bool = False

    @property
    @abstractmethod
    def member(self) -> Any:
        """The coordinates in the form that the membership test of a set accepts."""

    @property
    def key(self) -> Hashable:
        """A key that is equal for equal vertices; a point is its own key."""
        return self if self.vertex is None else self.vertex.key

    @property
    @abstractmethod
    def coordinates(self) -> Vertex:
        """The atom without its image, as a vertex."""

    @property
    @abstractmethod
    def image_vertex(self) -> Vertex:
        """The image, as a vertex of the space of images."""

    @property
    def given(self) -> Any:
        """The vertex, or a copy of the coordinates, for users."""
        return self.member.copy() if self.vertex is None else self.vertex

    def dot(self, g: Any) -> float:
        """Return the inner product with an array or a sparse matrix."""
        return self.coordinates.dot(g)

    def score(self, gradient: Any) -> float:
        """Return the inner product with a `Gradient`."""
        return gradient.inner(self) if self.vertex is None else gradient.dot(self.vertex)

    def add_to(self, x: Array, weight: float) -> None:
        """Add ``weight * coordinates`` to x."""
        self.coordinates.add_to(x, weight)

    def add_image_to(self, image: Array, weight: float) -> None:
        """Add ``weight * own image`` to an image."""
        self.image_vertex.add_to(image, weight)

    @abstractmethod
    def rank_one_terms(self, weight: float) -> Sequence[tuple[float, RankOne]]:
        """Return the atom times a number as a sum of rank-one matrices, for factored atoms."""

    @abstractmethod
    def bare(self) -> Atom:
        """Return the same without its image."""

    @abstractmethod
    def imaged_by(self, objective: Any) -> Atom:
        """Return the same with its image under another objective."""

    @property
    def storage(self) -> int:
        """Number of stored numbers; zero for a starting point, which is stored anyway."""
        return 0 if self.vertex is None else self.vertex.storage

    def entries(self) -> Entries | None:
        """Return flat positions and values of a vertex if they are few, else None."""
        return None if self.vertex is None else self.vertex.entries()

    def row(self) -> Array | None:
        """Return a vertex as a flat array if it is stored as one, else None."""
        return None if self.vertex is None else self.vertex.row()


@storable("lifted")
@dataclass(frozen=True, eq=False)
class Lifted(Atom):
    """A vertex together with its image."""

    vertex: Vertex
    image: Vertex | None = None

    @property
    def coordinates(self) -> Vertex:
        return self.vertex

    @property
    def image_vertex(self) -> Vertex:
        assert self.image is not None
        return self.image

    @property
    def factored(self) -> bool:  # type: ignore[override]
        return self.vertex.factors() is not None

    @property
    def member(self) -> Any:
        if not self.factored:
            return np.asarray(self.vertex)
        terms = self.rank_one_terms(1.0)
        return LowRank.zeros(self.vertex.shape, terms[0][1].u.dtype).mixed(0.0, terms)

    # These two do the same as those of `Atom` with half of the calls: every step makes them for every vertex.
    def add_to(self, x: Array, weight: float) -> None:
        self.vertex.add_to(x, weight)

    def add_image_to(self, image: Array, weight: float) -> None:
        self.image.add_to(image, weight)  # type: ignore[union-attr]

    def rank_one_terms(self, weight: float) -> Sequence[tuple[float, RankOne]]:
        return [(w, part) for w, part in self.vertex.terms(weight) if part.factors() is not None]  # type: ignore[misc]

    def bare(self) -> Lifted:
        return Lifted(self.vertex)

    def imaged_by(self, objective: Any) -> Lifted:
        return objective.lift(self.vertex)


@storable("point", valid=lambda p: isinstance(p.x, np.ndarray) and (p.image is None or p.image.ndim == 1))
@dataclass(frozen=True, eq=False)
class Point(Atom):
    """Coordinates x, together with their image for objectives that depend on ``A x`` only.

    Parameters
    ----------
    x : array or LowRank
        The coordinates. The array becomes read-only.
    image : array, optional
        The image of x under the `ImageMap` of the objective.
    exact : bool
        Whether the image was computed from x, and not mixed from other images, so that a run need not compute it again
        to verify x; False by default.

    See Also
    --------
    Objective : Makes points by ``f.point(x)``.
    ImageMap : Map from x to its image.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.LinearModel(np.array([[1.0, 2.0], [3.0, 4.0]]), [1.0, 1.0])
    >>> f.point([1.0, 1.0]).image
    array([3., 7.])
    """

    x: Any
    image: Array | None = None
    #: Whether the image was computed from x, not mixed, so that a run need not compute it again to verify x.
    exact: bool = False

    def __post_init__(self) -> None:
        freeze(self.x, self.image)

    def mix(self, terms: Iterable[tuple[float, Atom]]) -> Point:
        r"""Return the point :math:`x + \sum_i w_i (s_i - x)` with its image."""
        terms = [term for term in terms if term[0] != 0]
        if not terms:
            return self
        rest = 1.0 - sum([w for w, _ in terms])
        return type(self)(self._mixed(rest, terms), self._mixed_image(rest, terms))

    def _mixed(self, rest: float, terms: Sequence[tuple[float, Atom]]) -> Any:
        # For rest = 0 the coordinates are not used: 0 * inf would be NaN.
        x = rest * self.x if rest != 0 else np.zeros_like(self.x)
        for weight, term in terms:
            term.add_to(x, weight)
        return x

    def _mixed_image(self, rest: float, terms: Sequence[tuple[float, Atom]]) -> Array | None:
        if self.image is None:
            return None
        image = rest * self.image if rest != 0 else np.zeros_like(self.image)
        for weight, term in terms:
            term.add_image_to(image, weight)
        return image

    @property
    def coordinates(self) -> Vertex:
        return DenseVertex(self.x)

    @property
    def image_vertex(self) -> Vertex:
        assert self.image is not None
        return DenseVertex(self.image)

    @property
    def member(self) -> Any:
        return self.x

    def dot(self, g: Any) -> float:
        return float(np.vdot(g, self.x))

    def dot_size(self, g: Any) -> float:
        """Return the sum of the absolute values of the terms of `dot`, or an estimate if that costs more than `dot`."""
        return float(np.vdot(np.abs(g), np.abs(self.x)))

    def add_to(self, x: Array, weight: float) -> None:
        x += weight * self.x

    def rank_one_terms(self, weight: float) -> Sequence[tuple[float, RankOne]]:
        raise TypeError("a dense point is not a sum of rank-one matrices")

    def bare(self) -> Point:
        return type(self)(self.x)

    def imaged_by(self, objective: Any) -> Point:
        return objective.point(self.x)

    def unmoved_from(self, before: Point) -> bool:
        """Return whether a step from `before` has moved no entry by more than the rounding error of the largest."""
        if before is self:
            return True
        # The observed entries of a low-rank matrix are fewer than its entries.
        old, new = (np.asarray(p.x) if p.image is None or not p.factored else p.image for p in (before, self))
        return bool(np.abs(new - old).max() <= 4 * np.finfo(new.dtype).eps * np.abs(new).max())

    def zero(self) -> Point:
        """Return the origin in the form of this point."""
        x = LowRank.zeros(self.x.shape, self.x.dtype) if self.factored else np.zeros_like(self.x)
        return type(self)(x, None if self.image is None else np.zeros_like(self.image))


@storable("factored-point", valid=lambda p: p.image is None or p.image.ndim == 1)
@dataclass(frozen=True, eq=False)
class FactoredPoint(Point):
    """A low-rank matrix with its observed entries."""

    x: LowRank

    factored = True

    def __post_init__(self) -> None:
        freeze(self.image)

    def _mixed(self, rest: float, terms: Sequence[tuple[float, Atom]]) -> LowRank:
        return self.x.mixed(rest, [part for weight, term in terms for part in term.rank_one_terms(weight)])

    def dot(self, g: Any) -> float:
        return self.x.dot(g)

    def dot_size(self, g: Any) -> float:
        return abs(self.x.dot(g))

    def rank_one_terms(self, weight: float) -> Sequence[tuple[float, RankOne]]:
        return [(weight * w, atom) for w, atom in self.x.terms()]
