"""Objectives as functions of some entries of x, in plain arrays: for loops of many cheap iterations."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.designs import Design

#: Product of a matrix with a vector.
Product = Callable[[Array], Array]


@dataclass
class KeptHessian:
    """Hessian in all entries of x at a point of some run, for the quadratic models of several runs.

    The minima of the models are steps of the runs, and the runs verify their gaps. An old Hessian therefore costs
    steps, not accuracy.
    """

    matrix: Array | None = None  # None before the first run, and if a new one is needed.
    smoothness: float = math.nan  # Smoothness constant of the models.
    useful: bool = True  # False if models were poor: the runs then go on without them.


class Restriction(ABC):
    """Objective as a function of a vector v, which holds some entries of x; the other entries are fixed.

    The image z of v is an affine function of v, so that the image of an extrapolated vector needs no product.
    """

    #: Number of multiplications in one product with the matrix.
    work: float
    #: Upper bound on the rank of the Hessian.
    rank: int
    #: Whether the second derivative is the same everywhere.
    quadratic: bool
    #: Whether the objective is known to be convex.
    convex: bool
    #: Whether the second derivative has an upper bound, so that its mean on a long segment is a useful estimate.
    bounded: bool = True
    #: Hessian that runs share, if v holds all entries of x and the objective is one of a path; else None.
    kept: KeptHessian | None = None

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
        """Return the mean second derivative along d, or an upper bound, given the images of both ends of a segment."""

    @abstractmethod
    def hessian(self, z: Array, free: Array) -> Array:
        """Return the Hessian in the entries `free` of v."""

    @abstractmethod
    def hessian_product(self, z: Array, free: Array) -> Product:
        """Return the product of the Hessian in the entries `free` of v with a vector, as a function."""


class QuadraticOnEntries(Restriction):
    """Quadratic ``v' H v / 2 - c' v``, where H is a design or an array. The image of v is ``H v``."""

    quadratic = True

    def __init__(self, H: Any, c: Array, convex: bool) -> None:
        self.H, self.c, self.convex, self.rank = H, c, convex, len(c)
        self.work = float((H.data_cost.of_pass if isinstance(H, Design) else None) or len(c) ** 2)

    def image(self, v: Array) -> Array:
        return np.array(self.H.matvec(v), dtype=v.dtype) if isinstance(self.H, Design) else dot(self.H, v)

    def _columns(self, free: Array) -> Array:
        found = self.H.columns(free) if isinstance(self.H, Design) else self.H[:, free]
        return found.toarray() if sp.issparse(found) else found

    def value(self, v: Array, z: Array) -> float:
        return float(np.vdot(v, 0.5 * z - self.c))

    def gradient(self, v: Array, z: Array) -> Array:
        return z - self.c

    def curvature(self, d: Array, start: Array, end: Array) -> float:
        return float(np.vdot(d, end - start))

    def hessian(self, z: Array, free: Array) -> Array:
        return self._columns(free)[free]

    def hessian_product(self, z: Array, free: Array) -> Product:
        def product(p: Array) -> Array:
            whole = np.zeros_like(self.c)
            whole[free] = p
            return self.image(whole)[free]

        return product
