"""Fits of a model for all radii at the same time, on a device of JAX. Importing this module needs the extra ``jax``."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import fwflow as fw
import fwflow.jax as fwj
from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.auto import Choice
from fwflow.run.paths import Trail
from fwflow.sklearn.linear import BallEstimator, Samples


class DevicePath:
    """Model with its data on a device, to be fitted for many radii. A model that JAX does not support is an error."""

    def __init__(self, model: BallEstimator, task: Samples) -> None:
        f, name = model._objective(task), type(model).__name__
        if not isinstance(f, fw.LinearModel) or len(f.shape) > 1:
            raise ValueError(f"backend='jax' fits regressions and classifiers of two classes, but not this {name}")
        self._set = fwj.as_jax_set(model._ball(1.0, f.shape))
        if self._set.radius is None:
            raise ValueError(f"backend='jax' has the l1 ball and the simplex, but not the ball of {model!r}")
        X, b, m = task.X, f.b, len(f.b)
        # Weights that sum to one do not overflow in single precision.
        shares = np.full(m, 1 / m) if task.weights is None else task.weights / task.weights.sum()
        self._means, self._mean = np.zeros(f.shape), 0.0  # subtracted from the features and the targets
        if f.intercept:
            if not f.loss.quadratic or sp.issparse(X):
                raise ValueError(
                    "backend='jax' fits an intercept for the squared loss of dense data only; set fit_intercept=False"
                )
            (X, self._means), (b, self._mean) = _centred(X, shares), _centred(b, shares)
        self._f = fwj.LinearModel(X, b, f.loss, weights=None if task.weights is None else shares)
        self._model: Any = model
        self._dtype, self._options = task.X.dtype, model._options(f, self._f.dtype)

    def intercept_at(self, x: Array) -> float:
        """Return the best constant at x."""
        return float(self._mean) - float(dot(self._means, x))

    def along(self, radii: Array, known: Trail = ()) -> Iterator[Array]:
        """Fit the model at all radii, without the points `known`; set the attributes of each fit and yield its x."""
        model, found = self._model, fwj.path(self._f, self._set, radii, **self._options)
        unmet = ~np.asarray(found.success) & (found.statuses != fw.Status.PRECISION)
        if unmet.any():
            where = f"{type(model).__name__}, at {unmet.sum()} of {len(radii)} radii"
            warnings.warn(f"{where}: {found.message[unmet][0]}", ConvergenceWarning, stacklevel=3)
        model.method_ = Choice(found.method, "all radii at the same time on a device")
        model.trace_ = model.active_set_ = None
        fits = (np.asarray(found.x, dtype=self._dtype), np.asarray(found.gap), np.asarray(found.nit))
        for x, gap, nit in zip(*fits, strict=True):
            model._keep(self, x)
            model.dual_gap_, model.n_iter_ = float(gap), int(nit)
            yield x


def _centred(values: Array, shares: Array) -> tuple[Array, Any]:
    """Return the values minus their means, and the means; exact zeros for constant values."""
    one = values[shares.argmax()]
    moved = values - one
    means = dot(shares, moved)
    return (moved - means).astype(values.dtype), one + means
