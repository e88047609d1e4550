"""Limited-memory BFGS model of the curvature of an objective, from differences of gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from fwflow._numerics import dot, length, quietly
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.objectives.quadratic_models import gram

# The numbers below are chosen without tuning.
# Largest number of pairs that are kept, and of entries in their steps (32 MB, and as much for the changes).
_PAIRS, _NUMBERS = 60, 2**22
# Least cosine of the angle between a step and the change of the gradient for which a pair is used.
_CURVED = 1e-10
# Least ratio of an entry of the fitted diagonal to the largest one.
_SPREAD = 1e-6


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
