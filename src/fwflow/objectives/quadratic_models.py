"""Quadratic models of objectives in the image, which corrective steps and the exact flow minimise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.points.point import Atom, Point
from fwflow.points.vertices import Shape, Vertex


@storable("model")
@dataclass(frozen=True)
class Model:
    r"""Quadratic that equals or approximates an objective; its derivative in the image z is ``second * z - pull``.

    An atom has two sides. The right side is its image. The product of the left side with the derivative in the image is
    the derivative along the atom. For most objectives both sides are the same.
    """

    #: Second derivatives, entry by entry of the image: an array, or a number if all are equal.
    second: Any
    #: Minus the derivative at the image zero.
    pull: Array

    @property
    def moving(self) -> bool:
        """Whether the sides of an atom depend on the model, so that another model computes them anew."""
        return False

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        """Return the left and the right side of an atom."""
        image = flat(atom.image_vertex)
        return image, image

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        """Return the sides of several atoms, one per row, as arrays, or as CSR matrices if these are smaller."""
        images = stacked([atom.image_vertex for atom in atoms])
        return images, images

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        """Return the point with these sides; it has the parts that the objective needs."""
        return Point(NOWHERE, right)


#: Coordinates of a point of which only the image is used.
NOWHERE = np.zeros(0)


@storable("coordinate-model")
class CoordinateModel(Model):
    """Quadratic whose derivative in the image is the gradient itself."""

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        return flat(atom.coordinates), flat(atom.image_vertex)

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        return stacked([atom.coordinates for atom in atoms]), stacked([atom.image_vertex for atom in atoms])

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        return Point(left.reshape(shape), right)


@storable("centred-model")
class CentredModel(Model):
    """Quadratic minimised over a constant in the image: the mean of an image, weighted by `second`, is subtracted."""

    @property
    def moving(self) -> bool:
        return True

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        image = self._centred(flat(atom.image_vertex))
        return image, image

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        images = self._centred(np.stack([flat(atom.image_vertex) for atom in atoms]))
        return images, images

    def _centred(self, images: Array) -> Array:
        means = dot(images, self.second) / (self.second.sum() or 1.0)
        return images - (means[:, None] if images.ndim == 2 else means)


def gram(X: Any, Y: Any) -> Array:
    """Return ``X @ Y.T`` of two stacks as an array."""
    product = dot(X, Y.T)
    return product if isinstance(product, np.ndarray) else product.toarray()


def flat(vertex: Vertex) -> Array:
    """Return a vertex as a vector in double precision."""
    return np.asarray(vertex, dtype=np.float64).reshape(-1)


def stacked(rows: Sequence[Vertex]) -> Any:
    """Return vertices in double precision, one per row; as a CSR matrix if that takes less memory."""
    found = [row.entries() for row in rows]
    size = math.prod(rows[0].shape)
    if sum(size if entries is None else len(entries[0]) for entries in found) > size * len(rows) // 4:
        return np.stack([flat(row) for row in rows])
    whole = np.arange(size)
    parts = [(whole, flat(row)) if e is None else e for row, e in zip(rows, found, strict=True)]
    indices, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    indptr = np.cumsum([0, *(len(positions) for positions, _ in parts)])
    return sp.csr_array((values.astype(np.float64), indices, indptr), shape=(len(rows), size))
