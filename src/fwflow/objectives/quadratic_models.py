"""Quadratic models of objectives: exact or Newton models in the image, and limited-memory BFGS."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, length, quietly
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.points.point import Atom, Point
from fwflow.points.vertices import Shape, Vertex

# The next four numbers, of `Secants`, are chosen without tuning.
# Largest number of pairs that are kept, and of entries in their steps (32 MB, and as much for the changes).
_PAIRS, _NUMBERS = 60, 2**22
# Least cosine of the angle between a step and the change of the gradient for which a pair is used.
_CURVED = 1e-10
# Least ratio of an entry of the fitted diagonal to the largest one.
_SPREAD = 1e-6


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

    #: Whether the sides of an atom depend on the model, so that they are computed again for every model.
    moving = False
    #: Whether the image of a point is the point itself.
    in_coordinates = False

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        """Return the left and the right side of an atom."""
        image = flat(atom.image_vertex)
        return image, image

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        """Return the sides of several atoms, one per row, as arrays, or as CSR matrices if these are smaller."""
        images = stacked([atom.image_vertex for atom in atoms])
        return images, images

    def centred(self, images: Array) -> Array:
        """Return one image or several, without the parts that do not change the model."""
        return images

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


@storable("centred-model", valid=lambda model: model.targets > 0 and np.size(model.second) % model.targets == 0)
@dataclass(frozen=True)
class CentredModel(Model):
    """Quadratic minimised over a constant in the predictions of each target, or coupled over the targets, or both.

    The image holds the predictions of one target after the other. From an image, the best constants are subtracted:
    without coupling, the mean weighted by `second` for each target. In a coupled model, each row of predictions is
    moved by its mean weighted by `second`, too.
    """

    targets: int = 1
    coupled: bool = False
    free: bool = True  # whether there are constants

    moving = True

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        image = self.centred(flat(atom.image_vertex))
        return image, image

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        images = self.centred(np.stack([flat(atom.image_vertex) for atom in atoms]))
        return images, images

    def centred(self, images: Array) -> Array:
        Z, S = images.reshape(*images.shape[:-1], self.targets, -1), self.second.reshape(self.targets, -1)
        P = self.shares
        if P is not None:
            Z = Z - (P * Z).sum(axis=-2, keepdims=True)
        if self.free:
            sums = np.stack([dot(Z[..., k, :], S[k]) for k in range(self.targets)], axis=-1)
            c = (sums / self._totals if P is None else dot(sums, self.inverse)).astype(Z.dtype)[..., None]
            Z = Z - (c if P is None else c - (c * P).sum(axis=-2, keepdims=True))
        return Z.reshape(images.shape)

    @cached_property
    def _totals(self) -> Array:
        totals = self.second.reshape(self.targets, -1).sum(axis=-1, dtype=np.float64)
        return np.where(totals > 0, totals, 1.0)

    @cached_property
    def shares(self) -> Array | None:
        """Shares of the targets in the second derivatives of each row of a coupled model, one row per target."""
        S = self.second.reshape(self.targets, -1)
        return S / np.maximum(S.sum(axis=0), np.finfo(S.dtype).tiny) if self.coupled else None

    @cached_property
    def inverse(self) -> Array:
        """Inverse of the Hessian in the constants, made regular along the direction that does not change the loss."""
        S = np.asarray(self.second, dtype=np.float64).reshape(self.targets, -1)
        H = np.diag(S.sum(axis=1)) - dot(S, np.asarray(self.shares, dtype=np.float64).T)
        return np.linalg.inv(H + float(S.sum()) * (1 / self.targets + 1e-14 * np.eye(self.targets)))


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


@storable("secants", valid=lambda s: s.steps.ndim == 2 and s.steps.shape == s.changes.shape)
@dataclass(frozen=True, eq=False)
class Secants:
    """Pairs of steps and changes of the gradient, the newest last, as a model of the curvature of f.

    The model is that of the limited-memory BFGS method (Nocedal, 1980) in its compact form (Byrd, Nocedal & Schnabel,
    1994). Its initial matrix is a diagonal fitted to all pairs, which is exact for sums of functions of single entries,
    such as costs of networks and entropies.
    """

    steps: Array = field(default_factory=lambda: np.zeros((0, 0)))
    changes: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def __bool__(self) -> bool:
        return len(self.steps) > 0

    def seen(self, step: Array, change: Array) -> Secants:
        """Return the model with one more pair, if f has positive curvature along it."""
        step, change = (np.asarray(v, dtype=np.float64).reshape(1, -1) for v in (step, change))
        lengths = length(step), length(change)
        if 0 in lengths or not np.vdot(step / lengths[0], change / lengths[1]) > _CURVED:
            return self
        if not self:
            return Secants(step, change)
        kept = max(4, min(_PAIRS, _NUMBERS // step.size)) - 1
        return Secants(np.vstack([self.steps[-kept:], step]), np.vstack([self.changes[-kept:], change]))

    def recent(self) -> Secants:
        """Return the model of the newest half of the pairs."""
        half = (len(self.steps) + 1) // 2
        return Secants(self.steps[half:], self.changes[half:])

    @cached_property
    def _diagonal(self) -> Array:
        steps = self.steps / np.abs(self.steps).max(axis=1, keepdims=True)  # Squares neither overflow nor vanish.
        changes = self.changes / np.abs(self.steps).max(axis=1, keepdims=True)
        lengths = (steps**2).sum(axis=1, keepdims=True)
        weight, found = ((v / lengths).sum(axis=0) for v in (steps**2, steps * changes))
        size = float(np.abs(changes[-1]).max())
        change = changes[-1] / size
        mean = size * float(dot(change, change) / dot(steps[-1], change))
        diagonal = np.divide(found, weight, out=np.full_like(weight, mean), where=weight > 1e-12 * weight.max())
        return np.maximum(diagonal, _SPREAD * float(np.abs(diagonal).max()))

    @cached_property
    def _correction(self) -> tuple[Array, Array]:
        """Rows W and a matrix N such that the Hessian is the diagonal minus ``W.T @ N @ W``."""
        scaled, products = self.steps * self._diagonal, dot(self.steps, self.changes.T)
        lower = np.tril(products, -1)
        middle = np.block([[dot(scaled, self.steps.T), lower], [lower.T, -np.diag(products.diagonal())]])
        return np.vstack([scaled, self.changes]), quietly(np.linalg.pinv)(middle, hermitian=True)

    def gram(self, rows: Any) -> Array:
        """Return the inner products, by the Hessian of the model, of the rows of an array or a CSR matrix."""
        W, N = self._correction
        along = dot(rows, W.T)
        return gram(rows * self._diagonal, rows) - dot(dot(along, N), along.T)
