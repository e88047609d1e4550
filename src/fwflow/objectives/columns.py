"""Losses of linear models as functions of the coefficients of some columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.designs import Counts, Design
from fwflow.objectives.image_based import LossOfImage, average, optimal_intercept
from fwflow.objectives.restriction import KeptHessian, Product, Restriction

# Share of nonzero entries from which on a column of a sparse matrix is dense in products of columns, chosen without
# tuning. With 20 000 rows, 40 dense columns and 330 sparse ones, the division makes the products four times as fast.
_DENSE = 0.25
# Accuracy of intercepts, see `optimal_intercept`. Newton's method doubles the number of correct digits in a step, so
# that this saves the last step of most searches. Runs verify their gaps at the exact intercept.
_ACCURACY = 1e-12


def _weighted_gram(B: Any, w: Array) -> Array:
    """Return ``B.T @ diag(w) @ B`` of a CSC matrix as an array."""
    dense = np.diff(B.indptr) >= _DENSE * B.shape[0]
    order = np.argsort(~dense, kind="stable")
    D, S = B[:, dense].toarray(), B[:, ~dense]
    k, H = D.shape[1], np.empty((B.shape[1], B.shape[1]), np.result_type(B.dtype, w.dtype))
    weighted = D * w[:, None]
    H[:k, :k] = dot(D.T, weighted)
    H[k:, :k] = dot(S.T, weighted)
    H[:k, k:] = H[k:, :k].T
    H[k:, k:] = dot(S.T, sp.csc_array((S.data * w[S.indices], S.indices, S.indptr), shape=S.shape)).toarray()
    places = np.argsort(order)
    return H[np.ix_(places, places)]


class LossOnColumns(Restriction):
    """Losses of ``B v + offset``, where B is a design or some of its columns as an array or a CSC matrix."""

    convex = True

    def __init__(
        self,
        model: LossOfImage,
        B: Any,
        offset: Array | None = None,
        share: float = 0.0,
        counts: Counts | None = None,
        kept: KeptHessian | None = None,
    ) -> None:
        self.model, self.B, self.offset, self.quadratic, self.kept = model, B, offset, model.quadratic, kept
        self.bounded = model.loss.curvature < math.inf
        #: Share of a pass over the data that a product is, and where it is counted. A design counts by itself.
        self.share, self.counts = share, counts or Counts()
        self._by_rows = B.tocsr() if sp.issparse(B) else B
        self._transpose = B.T if sp.issparse(B) else None
        self.size, self.rank = B.shape[1], B.shape[0]
        entries = B.data_cost.of_pass if isinstance(B, Design) else B.nnz if sp.issparse(B) else None
        self.work = float(entries or self.size * len(model.b))
        self._guess: float | None = None  # intercept of the last image
        self._last: tuple[Array, Array] | None = None  # the last image, and the same with its intercept

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
        if self._last is None or self._last[0] is not z:
            model, image = self.model, np.asarray(z, dtype=np.float64)
            self._guess = optimal_intercept(model.loss, image, model.b, model.weights, self._guess, _ACCURACY)
            self._last = z, z + self._guess
        return self._last[1]

    def value(self, v: Array, z: Array) -> float:
        return self.model._value(self._shifted(z))

    def gradient(self, v: Array, z: Array) -> Array:
        return self._transposed(self.model._slopes(self._shifted(z)))

    def curvature(self, d: Array, start: Array, end: Array) -> float:
        model, dz, z = self.model, end - start, self._shifted(start)
        if model.intercept and self.bounded:
            # Any intercept at the end gives an upper bound. This one is optimal up to second order, without a search.
            w = model.weights if model.quadratic else model.seconds(z)
            dz = dz - average(dz, w if w is None or w.any() else model.weights)
        bound = model.steepest * float(np.vdot(dz, dz)) if self.bounded else math.inf
        if model.quadratic and model.weights is None:
            return bound
        change = model._slopes(z + dz if self.bounded else self._shifted(end)) - model._slopes(z)
        # On a short segment the change of the slopes is rounding error; the bound limits its effect.
        return min(bound, float(np.vdot(change, dz)))

    def _columns(self, free: Array) -> Any:
        return self.B.columns(free) if isinstance(self.B, Design) else self.B[:, free]

    def hessian(self, z: Array, free: Array) -> Array:
        B, w = self._columns(free), self.model.seconds(self._shifted(z))
        self.counts.n_design += 2 * self.share * len(free) / self.size
        if sp.issparse(B):
            H = _weighted_gram(B, w)
            means = dot(B.T, w) / (float(w.sum()) or 1.0)
            # Columns of sparse data are not nearly constant, so that little cancels.
            return H - np.multiply.outer(means * w.sum(), means) if self.model.intercept else H
        if self.model.intercept:
            B = B - dot(w, B) / (w.sum() or 1.0)
        return np.asarray(dot(B.T, B * w[:, None]))

    def hessian_product(self, z: Array, free: Array) -> Product:
        w = self.model.seconds(self._shifted(z))
        total = float(w.sum()) if self.model.intercept else 0.0
        forward: Product
        backward: Product
        if 3 * len(free) <= self.size:  # copied columns take at most a third of the memory of all
            share = (1.0 if isinstance(self.B, Design) else self.share) * len(free) / self.size
            few = LossOnColumns(self.model, self._columns(free), share=share, counts=self.counts)
            forward, backward = few._multiply, few._transposed
        else:
            whole = np.zeros(self.size, z.dtype)

            def padded(p: Array) -> Array:
                whole[free] = p
                return self._multiply(whole)

            forward, backward = padded, lambda r: self._transposed(r)[free]

        def product(p: Array) -> Array:
            t = forward(p)
            if total > 0:
                t = t - float(np.vdot(w, t)) / total
            return backward(w * t)

        return product
