"""Objectives as functions of some entries of x, in plain arrays: for loops of many cheap iterations."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.designs import Counts, Design

if TYPE_CHECKING:
    from fwflow.objectives.image_based import LossOfImage

#: Product of a matrix with a vector.
Product = Callable[[Array], Array]

# Largest number of entries whose Hessian is formed and factorised. Measured with 2000 rows: forming it for 150 columns
# takes as long as 30 products with these columns.
_DIRECT = 150


class Restriction(ABC):
    """Objective as a function of a vector v, which holds some entries of x; the other entries are fixed.

    The image z of v is an affine function of v, so that the image of an extrapolated vector needs no product.
    """

    #: Number of multiplications in one product with the matrix.
    work: float
    #: Whether the second derivative is the same everywhere.
    quadratic: bool
    #: Whether the objective is known to be convex.
    convex: bool

    @abstractmethod
    def image(self, v: Array) -> Array:
        """Return the image of v, by one product with the matrix."""

    @abstractmethod
    def value(self, v: Array, z: Array) -> float:
        """Return the objective up to a constant, given v and its image z."""

    @abstractmethod
    def gradient(self, v: Array, z: Array) -> Array:
        """Return the gradient at v, given its image z, by at most one product with the transpose."""

    @abstractmethod
    def curvature(self, d: Array, start: Array, end: Array) -> float:
        """Return the mean second derivative along d, given the images of both ends of the segment."""

    @abstractmethod
    def hessian(self, z: Array, free: Array) -> Array | None:
        """Return the Hessian in the entries `free` of v, or None if products with it are cheaper."""

    @abstractmethod
    def hessian_product(self, z: Array, free: Array) -> Product:
        """Return the product of the Hessian in the entries `free` of v with a vector, as a function."""


class QuadraticOnEntries(Restriction):
    """Quadratic ``v' H v / 2 - c' v``. The image of v is ``H v``."""

    quadratic = True

    def __init__(self, multiply: Product, c: Array, convex: bool) -> None:
        self.image, self.c, self.convex = multiply, c, convex  # type: ignore[method-assign]
        self.work = float(len(c) ** 2)

    def image(self, v: Array) -> Array:  # type: ignore[empty-body]
        """Replaced by `multiply`."""

    def value(self, v: Array, z: Array) -> float:
        return float(np.vdot(v, 0.5 * z - self.c))

    def gradient(self, v: Array, z: Array) -> Array:
        return z - self.c

    def curvature(self, d: Array, start: Array, end: Array) -> float:
        return float(np.vdot(d, end - start))

    def hessian(self, z: Array, free: Array) -> Array | None:
        return None

    def hessian_product(self, z: Array, free: Array) -> Product:
        def product(p: Array) -> Array:
            whole = np.zeros_like(self.c)
            whole[free] = p
            return self.image(whole)[free]

        return product


class LossOnColumns(Restriction):
    """Losses of ``B v + offset``, where B is a design or some of its columns as an array or a CSC matrix."""

    convex = True

    def __init__(
        self, model: LossOfImage, B: Any, offset: Array | None = None, share: float = 0.0, counts: Counts | None = None
    ) -> None:
        self.model, self.B, self.offset, self.quadratic = model, B, offset, model.quadratic
        #: Share of a pass over the data that a product is, and where it is counted. A design counts by itself.
        self.share, self.counts = share, counts or Counts()
        self._by_rows = B.tocsr() if sp.issparse(B) else B
        self._transpose = B.T if sp.issparse(B) else None
        self.size = B.shape[1]
        self.work = float(B.nnz if sp.issparse(B) else self.size * len(model.b))
        self._guess: float | None = None  # intercept of the last image

    def _multiply(self, v: Array) -> Array:
        self.counts.n_design += self.share
        if isinstance(self.B, Design):
            return np.array(self.B.matvec(v), dtype=v.dtype)
        return np.asarray(dot(self._by_rows, v))

    def _transposed(self, r: Array) -> Array:
        self.counts.n_design += self.share
        if isinstance(self.B, Design):
            return np.array(self.B.rmatvec(r), dtype=r.dtype)
        return np.asarray(dot(r, self.B) if self._transpose is None else dot(self._transpose, r))

    def image(self, v: Array) -> Array:
        z = self._multiply(v)
        return z if self.offset is None else z + self.offset

    def _shifted(self, z: Array) -> Array:
        """Return the image plus its optimal intercept, if the model has one."""
        if not self.model.intercept:
            return z
        self._guess = self.model._shift(z, self._guess)
        return z + self._guess

    def value(self, v: Array, z: Array) -> float:
        return self.model._value(self._shifted(z))

    def gradient(self, v: Array, z: Array) -> Array:
        return self._transposed(self.model._slopes(self._shifted(z)))

    def curvature(self, d: Array, start: Array, end: Array) -> float:
        model, dz = self.model, end - start
        bound = model.steepest * float(np.vdot(dz, dz))
        if model.quadratic and model.weights is None and not model.intercept:
            return bound
        change = model._slopes(self._shifted(end)) - model._slopes(self._shifted(start))
        # On a short segment the change of the slopes is rounding error; the bound limits its effect.
        return min(bound, float(np.vdot(change, dz)))

    def _columns(self, free: Array) -> Any:
        return self.B.columns(free) if isinstance(self.B, Design) else self.B[:, free]

    def hessian(self, z: Array, free: Array) -> Array | None:
        if len(free) > _DIRECT:
            return None
        B, w = self._columns(free), self.model.seconds(self._shifted(z))
        self.counts.n_design += 2 * self.share * len(free) / self.size
        if self.model.intercept:
            B = B.toarray() if sp.issparse(B) else B
            B = B - dot(w, B) / (w.sum() or 1.0)
        if sp.issparse(B):
            return np.asarray(dot(B.T, sp.diags_array(w) @ B).toarray())
        return np.asarray(dot(B.T, B * w[:, None]))

    def hessian_product(self, z: Array, free: Array) -> Product:
        w = self.model.seconds(self._shifted(z))
        total = float(w.sum()) if self.model.intercept else 0.0
        if 3 * len(free) <= self.size:  # copied columns take at most a third of the memory of all
            share = self.share * len(free) / self.size
            few = LossOnColumns(self.model, self._columns(free), share=share, counts=self.counts)
            forward, backward = few._multiply, few._transposed
        else:
            whole = np.zeros(self.size, z.dtype)

            def forward(p: Array) -> Array:
                whole[free] = p
                return self._multiply(whole)

            def backward(r: Array) -> Array:
                return self._transposed(r)[free]

        def product(p: Array) -> Array:
            t = forward(p)
            if total > 0:
                t = t - float(np.vdot(w, t)) / total
            return backward(w * t)

        return product
