r"""Multinomial logistic loss of a matrix of coefficients with one row per class.

The image is Z = A X^T with one row per class. The Hessian of a sample with probabilities p is diag(p) - p p^T. A
quadratic model is therefore a sum of squares with the weights p, taken of images minus their p-weighted mean over the
classes. A free intercept per class is eliminated: the squares are taken of images minus their best constants as well.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs import Counts, DataCost, Design, as_design
from fwflow.objectives.base import Line, NumericalTrouble, Objective
from fwflow.objectives.image_based import DesignImage, image_of, image_rounding
from fwflow.objectives.quadratic_models import CentredModel, Model
from fwflow.objectives.restriction import Product, Restriction
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, SparseVertex, Vertex

# Maximum number of Newton steps for the intercepts, chosen without tuning. A few steps are enough unless nearly all
# probabilities are zero or one.
_MAX_NEWTON_STEPS = 10_000
# Length of a Newton step after which the error, about its square, is below rounding.
_LAST_STEP = 1e-7
# Number of images whose intercepts and probabilities a restriction keeps: those of the two ends of a step and of the
# extrapolated point.
_KEPT_IMAGES = 3


class ClassDesign(Design):
    """Block-diagonal matrix with the same block for every class."""

    def __init__(self, design: Design, classes: int) -> None:
        self.design, self.classes = design, classes
        self.shape = (classes * design.shape[0], classes * design.shape[1])
        self.dtype = design.dtype
        one = design.data_cost.of_pass
        self.data_cost = DataCost(None if one is None else classes * one, remote=design.data_cost.remote)

    def matvec(self, x: Array) -> Array:
        rows = x.reshape(self.classes, -1)
        together = self.design.matmat(rows)
        return np.concatenate([self.design.matvec(row) for row in rows]) if together is None else together.reshape(-1)

    def rmatvec(self, r: Array) -> Array:
        rows = r.reshape(self.classes, -1)
        together = self.design.rmatmat(rows)
        return np.concatenate([self.design.rmatvec(row) for row in rows]) if together is None else together.reshape(-1)

    def column(self, j: int) -> Vertex:
        block, own = divmod(j, self.design.shape[1])
        column, samples = self.design.column(own), self.design.shape[0]
        places, values = column.entries() or (np.arange(samples), column.to_dense())
        return SparseVertex(np.asarray(places) + block * samples, np.asarray(values), (self.shape[0],))

    def combined(self, indices: Array, values: Array) -> Vertex:
        Z = np.zeros((self.classes, self.design.shape[0]), self.dtype)
        blocks, own = np.divmod(indices, self.design.shape[1])
        for k in np.unique(blocks):
            Z[k] = self.design.combined(own[blocks == k], values[blocks == k]).to_dense(self.dtype)
        return DenseVertex(Z.reshape(-1))

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
    convex = True

    def __init__(self, A: Any, codes: Array, weights: Array | None = None, intercept: bool = False) -> None:
        design, classes = as_design(A), int(codes.max()) + 1
        super().__init__(ClassDesign(design, classes))
        self._features, self.shape = design, (classes, design.shape[1])
        self.b = codes.astype(self.design.dtype)
        self._codes, self.intercept = codes, intercept
        w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
        self.weights = (w / w.sum()).astype(self.design.dtype)

    def _settings(self) -> dict[str, Any]:
        return {"weights": self.weights, "intercept": self.intercept}

    def _value(self, Z: Array) -> float:
        top, own = Z.max(axis=0), (self._codes, np.arange(Z.shape[1]))
        # Losses near zero would be lost in a logarithm of numbers near one.
        E = np.exp(Z - top)
        E[own] = np.expm1(Z[own] - top)
        return float(dot(self.weights, np.log1p(E.sum(axis=0)) + (top - Z[own])))

    def _slopes(self, P: Array) -> Array:
        """Return the derivative in the image with the best constants, from the probabilities there."""
        others, own = P.copy(), (self._codes, np.arange(P.shape[1]))
        # One minus a probability near one would be imprecise.
        others[own] = 0
        others[own] = -others.sum(axis=0)
        return self.weights * others

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
            terms = self._slopes(P)
            slopes = terms.sum(axis=1)
            error, size = float(np.abs(slopes).max()), float(np.abs(terms).sum())
            step = -np.linalg.solve(self._curvature(P), slopes)
            reach = float(np.ptp(step))
            rounding = reach < 0.1 and error > before / 4  # a full step that does not converge quadratically
            if error <= 1e-15 * size or rounding or reach <= 1e-15 * (1 + float(np.abs(c).max())):
                return c
            if reach <= _LAST_STEP:
                return c + step
            # The damping is that for functions with generalised self-concordance.
            c, before = c + (step if reach < 0.1 else math.log1p(reach) / reach * step), error
        raise NumericalTrouble("the optimal intercepts are infinite: the loss decreases without end as they grow")

    def _curvature(self, P: Array) -> Array:
        """Return the Hessian in the constants, made regular along the direction that does not change the loss."""
        weighed = self.weights * P
        H = np.diag(weighed.sum(axis=1)) - dot(weighed, P.T)
        return H + 1 / len(P) + 1e-14 * np.eye(len(P))

    def precise(self) -> Objective:
        doubled = super().precise()
        if doubled is not self:
            doubled._features = self._features.double()  # type: ignore[attr-defined]
        return doubled

    def value(self, point: Point) -> float:
        return self._value(self._at(point))

    def dual(self, point: Point) -> Array:
        """Return the derivative in the image."""
        return self._slopes(probabilities(self._at(point))).reshape(-1)

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
            return float(np.vdot(self._slopes(probabilities(there(gamma))), D))

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

    def restricted(self, point: Point, places: Array | None) -> Restriction:
        if places is None:
            return SoftmaxOnEntries(self, self.design, np.arange(self.design.shape[1]))
        classes, columns = np.divmod(places, self.shape[1])
        used, own = np.unique(columns, return_inverse=True)
        B, counts = self._features.columns(used), self.image_map.counts
        share = len(used) / self.shape[1]
        counts.n_design += share
        rest = np.array(point.x).reshape(-1)
        v, rest[places] = rest[places], 0
        entries, model, offset, rows = classes * len(used) + own, self, None, None
        if sp.issparse(B) and not self.intercept:
            # The losses of samples without entries in these columns are constant.
            rows = np.unique(B.indices)
            B, model = B.tocsr()[rows].tocsc(), self._on_rows(rows)
        if rest.any():
            Z = self._matrix(image_of(point))
            Z = Z if rows is None else Z[:, rows]
            offset = Z.reshape(-1) - SoftmaxOnEntries(model, B, entries).image(v)
        return SoftmaxOnEntries(model, B, entries, offset, share, counts)

    def _on_rows(self, rows: Array) -> _SoftmaxModel:
        """Return the losses of some samples, with their weights."""
        twin = copy.copy(self)
        twin._codes, twin.weights = self._codes[rows], self.weights[rows]
        return twin

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        Z = np.asarray(self._matrix(image_of(point)), dtype=np.float64)
        P = probabilities(self._shifted(Z))
        model = self._model_at(P)
        pull = model.second * model._centred(Z.reshape(-1)) - self._slopes(P).reshape(-1)
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


class SoftmaxOnEntries(Restriction):
    """Multinomial loss as a function of some coefficients.

    B is a `ClassDesign`, or some columns of the features as an array or a CSC matrix. The coefficients of its columns
    are a matrix with one row per class, and `entries` are the positions of v in the flat matrix.
    """

    convex, quadratic = True, False

    def __init__(
        self,
        model: _SoftmaxModel,
        B: Any,
        entries: Array,
        offset: Array | None = None,
        share: float = 0.0,
        counts: Counts | None = None,
    ) -> None:
        self.model, self.B, self.entries, self.offset = model, B, entries, offset
        #: Share of a pass over the data that a product is, and where it is counted. A design counts by itself.
        self.share, self.counts = share, counts or Counts()
        self.classes = model.shape[0]
        self.whole = isinstance(B, Design)
        self.width = (B.shape[1] // self.classes) if self.whole else B.shape[1]
        self._by_rows = B.tocsr() if sp.issparse(B) else B
        self.rank = self.classes * len(model.weights)
        entries = self.classes * (B.nnz if sp.issparse(B) else len(model.weights) * self.width)
        self.work = float((B.data_cost.of_pass if self.whole else None) or entries)
        self._guess: Array | None = None  # intercepts of the last image
        self._known: list[tuple[Array, Array, Array]] = []  # images with their intercepts and probabilities

    def _multiply(self, v: Array) -> Array:
        self.counts.n_design += self.share
        V = np.zeros((self.classes, self.width), v.dtype)
        V.reshape(-1)[self.entries] = v
        if self.whole:
            return np.array(self.B.matvec(V.reshape(-1)), dtype=v.dtype)
        if sp.issparse(self.B):
            return np.ascontiguousarray(dot(self._by_rows, V.T).T).reshape(-1)
        return np.asarray(dot(V, self.B.T)).reshape(-1)

    def _transposed(self, r: Array) -> Array:
        self.counts.n_design += self.share
        if self.whole:
            return np.array(self.B.rmatvec(r), dtype=r.dtype)[self.entries]
        R = r.reshape(self.classes, -1)
        G = dot(self.B.T, R.T).T if sp.issparse(self.B) else dot(R, self.B)
        return np.asarray(G).reshape(-1)[self.entries]

    def image(self, v: Array) -> Array:
        z = self._multiply(v)
        return z if self.offset is None else z + self.offset

    def _at(self, z: Array) -> tuple[Array, Array]:
        """Return the image with the best intercepts added, and the probabilities, both with one row per class.

        The last results are kept, because the inner loop uses each image several times.
        """
        for image, Z, P in self._known:
            if image is z:
                return Z, P
        Z = z.reshape(self.classes, -1)
        if self.model.intercept:
            self._guess = self.model._intercepts(Z, self._guess)
            Z = Z + self._guess.astype(Z.dtype)[:, None]
        P = probabilities(Z)
        self._known = [(z, Z, P), *self._known[: _KEPT_IMAGES - 1]]
        return Z, P

    def _slopes(self, z: Array) -> Array:
        return self.model._slopes(self._at(z)[1]).reshape(-1)

    def value(self, v: Array, z: Array) -> float:
        return self.model._value(self._at(z)[0])

    def gradient(self, v: Array, z: Array) -> Array:
        return self._transposed(self._slopes(z))

    def curvature(self, d: Array, start: Array, end: Array) -> float:
        dz = end - start
        D = dz.reshape(self.classes, -1)
        bound = 0.5 * float(dot(self.model.weights, (D**2).sum(axis=0)))
        # On a short segment the change of the slopes is rounding error; the bound limits its effect.
        return min(bound, float(np.vdot(self._slopes(end) - self._slopes(start), dz)))

    def hessian(self, z: Array, free: Array) -> Array:
        r"""Return the Hessian: :math:`\sum_i w_i (\operatorname{diag}(p_i) - p_i p_i^T) \otimes b_i b_i^T`."""
        P, w = self._at(z)[1], self.model.weights
        classes, columns = np.divmod(self.entries[free], self.width)
        B = self.model._features.columns(columns) if self.whole else self.B[:, columns]
        self.counts.n_design += 2 * self.share * len(free) / len(self.entries)
        Q = _scaled(B, P[classes].T)  # column j times the probabilities of its class
        weighed = _scaled(Q, np.broadcast_to(w[:, None], Q.shape))
        H = -_dense(dot(Q.T, weighed))
        for k in np.unique(classes):
            own = classes == k
            H[np.ix_(own, own)] += _dense(dot(B[:, own].T, weighed[:, own]))
        if self.model.intercept:
            across = -np.asarray(dot(weighed.T, P.T))
            across[np.arange(len(free)), classes] += np.asarray(weighed.sum(axis=0)).reshape(-1)
            H -= dot(across, np.linalg.solve(self.model._curvature(P), across.T))
        return H

    def hessian_product(self, z: Array, free: Array) -> Product:
        quadratic, part = self.model._model_at(self._at(z)[1]), self
        classes, columns = np.divmod(self.entries[free], self.width)
        used, own = np.unique(columns, return_inverse=True)
        if 3 * len(used) <= self.width:  # copied columns take at most a third of the memory of all
            B = self.model._features.columns(used) if self.whole else self.B[:, used]
            share = (self.share or 1.0) * len(used) / self.width
            part = SoftmaxOnEntries(self.model, B, classes * len(used) + own, None, share, self.counts)
        else:
            part = copy.copy(self)
            part.entries = self.entries[free]

        def product(p: Array) -> Array:
            across = quadratic._centred(part._multiply(p)) * quadratic.second
            return part._transposed(across.astype(p.dtype, copy=False))

        return product


def _scaled(B: Any, factors: Array) -> Any:
    """Return the entrywise product of a dense or CSC matrix with a dense one."""
    if not sp.issparse(B):
        return B * factors
    columns = np.repeat(np.arange(B.shape[1]), np.diff(B.indptr))
    return sp.csc_array((B.data * factors[B.indices, columns], B.indices, B.indptr), B.shape)


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
