"""Losses of linear models as functions of the coefficients of some columns."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.designs import Counts, Design, TargetDesign, width
from fwflow.objectives.image_based import LossOfImage
from fwflow.objectives.restriction import KeptHessian, Product, Restriction

# Share of nonzero entries from which on a column of a sparse matrix is dense in products of columns, chosen without
# tuning. With 20 000 rows, 40 dense columns and 330 sparse ones, the division makes the products four times as fast.
_DENSE = 0.25
# Accuracy of intercepts, see `optimal_intercept`. Newton's method doubles the number of correct digits in a step, so
# that this saves the last step of most searches. Runs verify their gaps at the exact intercept.
_ACCURACY = 1e-12
# Number of images whose intercepts are kept: those of the two ends of a step and of the extrapolated point.
_KEPT_IMAGES = 3


def _gram(B: Any, w: Array, centred: bool) -> Array:
    """Return ``B.T @ diag(w) @ B`` of an array or a CSC matrix, with centred columns if asked."""
    if not sp.issparse(B):
        B = B - dot(w, B) / (w.sum() or 1.0) if centred else B
        return np.asarray(dot(B.T, B * w[:, None]))
    H = _weighted_gram(B, w)
    means = dot(B.T, w) / (float(w.sum()) or 1.0)
    # Columns of sparse data are not nearly constant, so that little cancels.
    return H - np.multiply.outer(means * w.sum(), means) if centred else H


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
        self._guess: Any = None  # intercepts of the last image
        self._known: list[tuple[Array, Array]] = []  # the last images, and the same with their intercepts

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
        for image, shifted in self._known:
            if image is z:
                return shifted
        self._guess = self.model.constants(np.asarray(z, dtype=np.float64), self._guess, _ACCURACY)
        shifted = self.model._plus(z, self._guess)
        self._known = [(z, shifted), *self._known[: _KEPT_IMAGES - 1]]
        return shifted

    def value(self, v: Array, z: Array) -> float:
        return self.model._value(self._shifted(z))

    def gradient(self, v: Array, z: Array) -> Array:
        return self._transposed(self.model._slopes(self._shifted(z)))

    def curvature(self, d: Array, start: Array, end: Array) -> float:
        model, dz, z = self.model, end - start, self._shifted(start)
        if model.intercept and self.bounded:
            # Any intercept at the end gives an upper bound. This one is optimal up to second order, without a search.
            w = None if model.quadratic else model.seconds(z)
            dz = model._less_means(dz) if w is None or not w.any() else model.curved(w).centred(dz)
        bound = model.steepest * float(np.vdot(dz, dz)) if self.bounded else math.inf
        if model.quadratic and model.weights is None:
            return bound
        change = model._slopes(z + dz if self.bounded else self._shifted(end)) - model._slopes(z)
        # On a short segment the change of the slopes is rounding error; the bound limits its effect.
        return min(bound, float(np.vdot(change, dz)))

    def _columns(self, free: Array) -> Any:
        return self.B.part(free) if isinstance(self.B, Design) else self.B[:, free]

    def hessian(self, z: Array, free: Array) -> Array:
        r"""Return the Hessian in the entries `free` of v.

        For several targets it is :math:`\sum_i H_i \otimes b_i b_i^T`, where row i has the Hessian
        :math:`H_i = \operatorname{diag}(s_i)`, less :math:`s_i s_i^T / \sum_k s_{ik}` if its targets are coupled. The
        constants of coupled targets are eliminated together.
        """
        B, w = self._columns(free), self.model.seconds(self._shifted(z))
        self.counts.n_design += 2 * self.share * width(B) / width(self.B)
        if not isinstance(B, TargetDesign):
            return _gram(B, w, self.model.intercept)
        columns, targets = B.places(np.arange(len(free)))
        B, S, curved = B.design.columns(columns), w.reshape(self.model.targets, -1), self.model.curved(w)
        H = np.zeros((len(free), len(free)), w.dtype)
        for k in np.unique(targets):
            own = np.flatnonzero(targets == k)
            H[np.ix_(own, own)] = _gram(B[:, own], S[k], self.model.intercept and not self.model.loss.coupled)
        if not self.model.loss.coupled:
            return H
        weighted = _scaled(B, S[targets].T)
        H -= _dense(dot(_scaled(B, curved.shares[targets].T).T, weighted))
        if self.model.intercept:
            across = -np.asarray(dot(weighted.T, curved.shares.T))
            across[np.arange(len(free)), targets] += np.asarray(weighted.sum(axis=0)).reshape(-1)
            H -= dot(across, dot(curved.inverse, across.T))
        return H

    def hessian_product(self, z: Array, free: Array) -> Product:
        curved = self.model.curved(self.model.seconds(self._shifted(z)))
        forward: Product
        backward: Product
        if 3 * len(free) <= self.size:  # copied columns take at most a third of the memory of all
            B = self._columns(free)
            share = (self.share or 1.0) * width(B) / width(self.B)
            few = LossOnColumns(self.model, B, share=share, counts=self.counts)
            forward, backward = few._multiply, few._transposed
        else:
            whole = np.zeros(self.size, z.dtype)

            def padded(p: Array) -> Array:
                whole[free] = p
                return self._multiply(whole)

            forward, backward = padded, lambda r: self._transposed(r)[free]

        def product(p: Array) -> Array:
            return backward(curved.second * curved.centred(forward(p)))

        return product


def _scaled(B: Any, factors: Array) -> Any:
    """Return the entrywise product of a dense or CSC matrix with a dense one."""
    if not sp.issparse(B):
        return B * factors
    columns = np.repeat(np.arange(B.shape[1]), np.diff(B.indptr))
    return sp.csc_array((B.data * factors[B.indices, columns], B.indices, B.indptr), B.shape)


def _dense(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix)
