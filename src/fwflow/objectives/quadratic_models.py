"""How does an objective look close by? Quadratics in the image, which corrective steps and the exact flow minimise."""

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
    r"""A quadratic that is or approximates an objective: its derivative in the image z is ``second * z - pull``.

    An atom has two sides. The left is what that derivative is multiplied with to give the derivative along the atom,
    the right is the atom's image; for most objectives they are the same.

    Attributes
    ----------
    second : array or float
        Second derivatives, entry by entry of the image.
    pull : array
        What draws the image away from zero: minus the derivative there.
    """

    second: Any
    pull: Array

    #: Whether images belong to this model alone, so that another model needs them anew.
    @property
    def moving(self) -> bool:
        return False

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        """The left and the right side of an atom."""
        image = flat(atom.image_vertex)
        return image, image

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        """The sides of several atoms, one per row, as arrays or where that is smaller as CSR matrices."""
        images = stacked([atom.image_vertex for atom in atoms])
        return images, images

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        """The point of which these are the sides, with as much of it as the objective needs."""
        return Point(NOWHERE, right)


#: Coordinates of a point of which only the image matters.
NOWHERE = np.zeros(0)


@storable("coordinate-model")
class CoordinateModel(Model):
    """A quadratic whose derivative in the image is the gradient itself."""

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        return flat(atom.coordinates), flat(atom.image_vertex)

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        return stacked([atom.coordinates for atom in atoms]), stacked([atom.image_vertex for atom in atoms])

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        return Point(left.reshape(shape), right)


@storable("centred-model")
class CentredModel(Model):
    """A quadratic of which a free constant in the image is minimised out: images count less their weighted mean.

    The weights are the second derivatives, so that the means differ from model to model.
    """

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
    """``X @ Y.T`` of two stacks, as an array."""
    product = dot(X, Y.T)
    return product if isinstance(product, np.ndarray) else product.toarray()


def flat(vertex: Vertex) -> Array:
    """A vertex as a vector in double precision."""
    return np.asarray(vertex, dtype=np.float64).reshape(-1)


def stacked(rows: Sequence[Vertex]) -> Any:
    """Vertices in double precision, one per row; a CSR matrix where that takes less memory."""
    found = [row.entries() for row in rows]
    size = math.prod(rows[0].shape)
    if sum(size if entries is None else len(entries[0]) for entries in found) > size * len(rows) // 4:
        return np.stack([flat(row) for row in rows])
    whole = np.arange(size)
    parts = [(whole, flat(row)) if e is None else e for row, e in zip(rows, found, strict=True)]
    indices, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    indptr = np.cumsum([0, *(len(positions) for positions, _ in parts)])
    return sp.csr_array((values.astype(np.float64), indices, indptr), shape=(len(rows), size))
