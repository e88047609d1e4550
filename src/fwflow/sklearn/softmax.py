r"""Multinomial logistic loss of a matrix of coefficients with one row per class.

The image is Z = A X^T with one row per class. The Hessian of a sample with probabilities p is diag(p) - p p^T. A
quadratic model is therefore a sum of squares with the weights p, taken of images minus their p-weighted mean over the
classes. A free intercept per class is eliminated: the squares are taken of images minus their best constants as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
from fwflow.objectives.quadratic_models import CentredModel, Model
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import SparseVertex, Vertex

# Maximum number of Newton steps for the intercepts, chosen without tuning. A few steps are enough unless nearly all
# probabilities are zero or one.
_MAX_NEWTON_STEPS = 10_000


class ClassDesign(Design):
    """Block-diagonal matrix with the same block for every class."""

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
        column, samples = self.design.column(own), self.design.shape[0]
        places, values = column.entries() or (np.arange(samples), column.to_dense())
        return SparseVertex(np.asarray(places) + block * samples, np.asarray(values), (self.shape[0],))

    def double(self) -> Design | None:
        double = self.design.double()
        return None if double is None else ClassDesign(double, self.classes)

    def fingerprint(self) -> str | None:
        return self.design.fingerprint()


def probabilities(Z: Array) -> Array:
    """Return the softmax of every column. SciPy's softmax gives the same numbers and takes a third more time."""
    E = np.exp(Z - Z.max(axis=0))
    return E / E.sum(axis=0)


class _SoftmaxModel(DesignImage):
    """Weighted mean of the multinomial logistic loss, minimised over a constant per class if `intercept` is true.

    x has one row per class, and `codes` are the classes of the samples: 0, 1, ..., without gaps.
    """

    lower_bound = 0.0

    def __init__(self, A: Any, codes: Array, weights: Array | None = None, intercept: bool = False) -> None:
        design, classes = as_design(A), int(codes.max()) + 1
        super().__init__(ClassDesign(design, classes))
        self.shape = (classes, design.shape[1])
        self.b = codes.astype(self.design.dtype)
        self._codes, self.intercept = codes, intercept
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
        self.weights = (w / w.sum()).astype(self.design.dtype)
        self._masses = np.bincount(codes, self.weights)

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
        """Return the image of a point with the best intercepts added, as a matrix. The last result is cached."""
        known, image = {} if self.cache is None else self.cache, image_of(point)
        if known.get("image") is not image:
            known["image"], known["shifted"] = image, self._shifted(self._matrix(image))
        return known["shifted"]

    def _shifted(self, Z: Array, guess: Array | None = None) -> Array:
        return Z + self._intercepts(Z, guess).astype(Z.dtype)[:, None] if self.intercept else Z

    def intercepts_at(self, x: Any) -> Array:
        """Return the best constants at x, one per class. Their sum is zero."""
        Z = self._matrix(image_of(self.point(x, "x")))
        return self._intercepts(Z) if self.intercept else np.zeros(len(Z))

    def _intercepts(self, Z: Array, guess: Array | None = None) -> Array:
        """Return the best constants for an image by Newton steps from `guess`, damped as in Bach (2010)."""
        c, before = np.zeros(len(Z)) if guess is None else guess, np.inf
        for _ in range(_MAX_NEWTON_STEPS):
            P = probabilities(np.asarray(Z, dtype=np.float64) + c[:, None])
            slopes = dot(self.weights.astype(np.float64), P.T) - self._masses
            error = float(np.abs(slopes).max())
            step = -np.linalg.solve(self._curvature(P), slopes)
            reach = float(np.ptp(step))
            rounding = reach < 0.1 and error > before / 4  # a full step that does not converge quadratically
            if error <= 1e-15 or rounding or reach <= 1e-15 * (1 + float(np.abs(c).max())):
                return c
            # The damping is that for functions with generalised self-concordance.
            c, before = c + (step if reach < 0.1 else math.log1p(reach) / reach * step), error
        raise NumericalTrouble("the optimal intercepts are infinite: the loss decreases without end as they grow")

    def _curvature(self, P: Array) -> Array:
        """Return the Hessian in the constants, made regular along the direction that does not change the loss."""
        weighed = self.weights * P
        H = np.diag(weighed.sum(axis=1)) - dot(weighed, P.T)
        return H + 1 / len(P) + 1e-14 * np.eye(len(P))

    def value(self, point: Point) -> float:
        return self._value(self._at(point))

    def dual(self, point: Point) -> Array:
        """Return the derivative in the image."""
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
            model = self._model_at(np.asarray(probabilities(there(gamma)), dtype=np.float64))
            across = model._centred(np.asarray(D, dtype=np.float64).reshape(-1))
            return float(dot(model.second, across**2))

        return Line(
            value=lambda gamma: self._value(there(gamma)),
            slope=slope,
            second=second,
            value0=value0,
            slope0=slope(0.0),
            norm2=float(np.vdot(D, D)),
            curvature=0.5 * float(dot(self.weights, (D**2).sum(axis=0))),
        )

    def _model_at(self, P: Array) -> SoftmaxQuadratic:
        """Return the model at probabilities P without its linear part."""
        inverse = np.linalg.inv(self._curvature(P)) if self.intercept else np.zeros((len(P), len(P)))
        return SoftmaxQuadratic((self.weights * P).reshape(-1), np.zeros(P.size), P, inverse)

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        Z = np.asarray(self._matrix(image_of(point)), dtype=np.float64)
        shifted = self._shifted(Z)
        model = self._model_at(probabilities(shifted))
        pull = model.second * model._centred(Z.reshape(-1)) - self._slopes(shifted).reshape(-1)
        return replace(model, pull=pull)


@storable("softmax-quadratic")
@dataclass(frozen=True, eq=False)
class SoftmaxQuadratic(CentredModel):
    """Quadratic model of the multinomial loss."""

    P: Array  # probabilities, one row per class
    inverse: Array  # of the curvature in the constants; zero without intercepts

    def _centred(self, images: Array) -> Array:
        """Subtract from each image its mean over the classes and its best constants."""
        if images.ndim == 2:
            return np.stack([self._centred(image) for image in images])
        Z = images.reshape(self.P.shape)
        Z = Z - (self.P * Z).sum(axis=0)
        constants = dot(self.inverse, (self.second.reshape(self.P.shape) * Z).sum(axis=1))
        return (Z - (constants[:, None] - dot(constants, self.P))).reshape(-1)
