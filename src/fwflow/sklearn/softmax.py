r"""Several classes at once: the multinomial logistic loss of a matrix of coefficients, one row per class.

In the image Z = X A^T, one row per class, the Hessian of a sample with probabilities p is diag(p) - p p^T. So a
quadratic model is a sum of squares with the weights p of images less their p-weighted mean over the classes; a free
intercept per class is minimised out by taking the best fit of one away, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs import Design, as_design
from fwflow.objectives.base import Line, NumericalTrouble
from fwflow.objectives.image_based import DesignImage, image_of, image_rounding
from fwflow.objectives.quadratic_models import Model, flat
from fwflow.points.point import Atom, Lifted, Point
from fwflow.points.vertices import SparseVertex, Vertex

# Newton steps for the intercepts, of which a handful is enough where probabilities are not all zero or one.
_MOST = 10_000


class ClassDesign(Design):
    """The matrix that is block diagonal with the same matrix for every class."""

    def __init__(self, design: Design, classes: int) -> None:
        self.design, self.classes = design, classes
        self.shape = (classes * design.shape[0], classes * design.shape[1])
        self.dtype = design.dtype

    def matvec(self, x: Array) -> Array:
        return np.concatenate([self.design.matvec(row) for row in x.reshape(self.classes, -1)])

    def rmatvec(self, r: Array) -> Array:
        rows = r.reshape(self.classes, -1)
        together = self.design.rmatmat(rows)
        return np.concatenate([self.design.rmatvec(row) for row in rows]) if together is None else together.reshape(-1)

    def column(self, j: int) -> Vertex:
        block, own = divmod(j, self.design.shape[1])
        column, offset = self.design.column(own), block * self.design.shape[0]
        entries = column.entries()
        places, values = (np.arange(self.design.shape[0]), column.to_dense()) if entries is None else entries
        return SparseVertex(np.asarray(places) + offset, np.asarray(values), (self.shape[0],))

    def double(self) -> Design | None:
        double = self.design.double()
        return None if double is None else ClassDesign(double, self.classes)

    def fingerprint(self) -> str | None:
        return self.design.fingerprint()


def probabilities(Z: Array) -> Array:
    """The softmax of every column."""
    E = np.exp(Z - Z.max(axis=0))
    return E / E.sum(axis=0)


class _SoftmaxModel(DesignImage):
    """The weighted mean of the multinomial logistic loss; x has one row per class.

    Parameters
    ----------
    A : (m, n) array or sparse matrix
    codes : (m,) array of int
        The class of every sample, each of which occurs.
    weights : (m,) array, optional
    intercept : bool
        A constant per class is free, and minimised out.
    """

    def __init__(self, A: Any, codes: Array, weights: Array | None = None, intercept: bool = False) -> None:
        design, classes = as_design(A), int(codes.max()) + 1
        super().__init__(ClassDesign(design, classes))
        self.shape = (classes, design.shape[1])
        self.b = codes.astype(self.design.dtype)
        self._codes, self.intercept = codes, intercept
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
        self.weights = (w / w.sum()).astype(self.design.dtype)
        self._masses = np.bincount(codes, self.weights)

    @property
    def lower_bound(self) -> float:
        return 0.0

    def _settings(self) -> tuple[Any, ...]:
        return self.weights, self.intercept

    def _value(self, Z: Array) -> float:
        top = Z.max(axis=0)
        own = Z[self._codes, np.arange(Z.shape[1])]
        return float(dot(self.weights, np.log(np.exp(Z - top).sum(axis=0)) + top - own))

    def _slopes(self, Z: Array) -> Array:
        P = probabilities(Z)
        P[self._codes, np.arange(Z.shape[1])] -= 1
        return self.weights * P

    def _matrix(self, image: Array) -> Array:
        return image.reshape(self.shape[0], -1)

    def _at(self, point: Point) -> Array:
        """The image of a point with the best constants added, as a matrix; the last one is remembered."""
        known, image = {} if self.remembered is None else self.remembered, image_of(point)
        if known.get("image") is not image:
            known["image"], known["shifted"] = image, self._shifted(self._matrix(image))
        return known["shifted"]

    def _shifted(self, Z: Array, guess: Array | None = None) -> Array:
        return Z + self.intercepts(Z, guess).astype(Z.dtype)[:, None] if self.intercept else Z

    def intercepts(self, Z: Array, guess: Array | None = None) -> Array:
        """The best constants, which sum to zero, for an image; they are zero where none are wanted.

        Newton's method, damped by what the third derivatives can do (Bach 2010, generalised self-concordance). `guess`
        are constants that are close.
        """
        c, before = np.zeros(len(Z)) if guess is None else guess, np.inf
        if not self.intercept:
            return c
        for _ in range(_MOST):
            P = probabilities(np.asarray(Z, dtype=np.float64) + c[:, None])
            slopes = dot(self.weights.astype(np.float64), P.T) - self._masses
            wrong = float(np.abs(slopes).max())
            step = -np.linalg.solve(self._curvature(P), slopes)
            reach = float(np.ptp(step))
            settled = reach < 0.1 and wrong > before / 4  # what is left is rounding
            if wrong <= 1e-15 or settled or reach <= 1e-15 * (1 + float(np.abs(c).max())):
                return c
            c, before = c + (step if reach < 0.1 else math.log1p(reach) / reach * step), wrong
        raise NumericalTrouble("no intercepts are the best ones: the loss falls for ever as they grow")

    def _curvature(self, P: Array) -> Array:
        """The Hessian in the constants, with a unit of curvature along the direction that changes nothing."""
        weighed = self.weights * P
        H = np.diag(weighed.sum(axis=1)) - dot(weighed, P.T)
        return H + 1 / len(P) + 1e-14 * np.eye(len(P))

    def value(self, point: Point) -> float:
        return self._value(self._at(point))

    def dual(self, point: Point) -> Array:
        """The derivative in the image."""
        return self._slopes(self._at(point)).reshape(-1)

    def gradient(self, point: Point) -> Array:
        return np.array(self.design.rmatvec(self.dual(point)), dtype=self.dtype).reshape(self.shape)

    def rounding(self, point: Point, vertex: Lifted) -> float:
        z = np.abs(image_of(point))
        moved = np.abs(self.dual(point)) + (self.weights * self._matrix(z)).reshape(-1)
        return image_rounding(moved, z, vertex)

    def along(self, start: Point, end: Point, value0: float) -> Line:
        Z = self._matrix(image_of(start))
        D = self._matrix(image_of(end)) - Z
        guess = (self._at(start) - Z)[:, 0].astype(np.float64)

        @lru_cache(maxsize=1)
        def there(gamma: float) -> Array:
            return self._shifted(Z + gamma * D, guess)

        def slope(gamma: float) -> float:
            return float(np.vdot(self._slopes(there(gamma)), D))

        def second(gamma: float) -> float:
            P = np.asarray(probabilities(there(gamma)), dtype=np.float64)
            model = self._model_at(P)
            across = model.centred(np.asarray(D, dtype=np.float64).reshape(-1))
            return float(dot(model.second, across**2))

        norm2 = float(np.vdot(D, D))
        bound = 0.5 * float(dot(self.weights, (D**2).sum(axis=0)))
        return Line(
            value=lambda gamma: self._value(there(gamma)),
            slope=slope,
            second=second,
            value0=value0,
            slope0=slope(0.0),
            norm2=norm2,
            curvature=bound,
        )

    def _model_at(self, P: Array) -> SoftmaxQuadratic:
        """The model without its linear part."""
        inverse = np.linalg.inv(self._curvature(P)) if self.intercept else np.zeros((len(P), len(P)))
        return SoftmaxQuadratic((self.weights * P).reshape(-1), np.zeros(P.size), P, inverse)

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        Z = np.asarray(self._matrix(image_of(point)), dtype=np.float64)
        shifted = self._shifted(Z)
        model = self._model_at(probabilities(shifted))
        pull = model.second * model.centred(Z.reshape(-1)) - self._slopes(shifted).reshape(-1)
        return replace(model, pull=pull)

    def intercepts_at(self, x: Any) -> Array:
        """The constants that are best at x, one per class."""
        return self.intercepts(self._matrix(image_of(self.point(x, "x"))))


@storable("softmax-quadratic")
@dataclass(frozen=True, eq=False)
class SoftmaxQuadratic(Model):
    """A quadratic model of the multinomial loss: images less their mean over classes, and less the best constants.

    Attributes
    ----------
    P : array
        Probabilities, one row per class.
    inverse : array
        The inverse of the curvature in the constants, zero where there are none.
    """

    P: Array
    inverse: Array

    @property
    def moving(self) -> bool:
        return True

    def centred(self, image: Array) -> Array:
        """The image as the squares see it."""
        Z = image.reshape(self.P.shape)
        Z = Z - (self.P * Z).sum(axis=0)
        constants = dot(self.inverse, (self.second.reshape(self.P.shape) * Z).sum(axis=1))
        return (Z - (constants[:, None] - dot(constants, self.P))).reshape(-1)

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        image = self.centred(flat(atom.image_vertex))
        return image, image

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        images = np.stack([self.sides(atom)[0] for atom in atoms])
        return images, images
