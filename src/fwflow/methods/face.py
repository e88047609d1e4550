"""Where on a face is a quadratic smallest? An active-set solver that updates its factorisation.

A face is spanned by a few generators, each with a value between bounds: vertices with weights that sum to one, or
coordinates of a box. To add a generator or to drop one costs O(k^2) for the factor of k generators and O(m k) for the
products of their images; the quadratic itself is never formed beyond k x k.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.linalg

from fwflow._validation import Array
from fwflow.objectives.base import Model
from fwflow.problem import NumericalTrouble

# A generator that depends on the others gets this share of its own curvature: the Newton step along it is then so long
# that it ends at a bound, which is where a function without curvature has its minimum.
_FLOOR = 1e-13


@dataclass(frozen=True, eq=False)
class Face:
    """Generators with values between bounds, and the Cholesky factor of their curvatures.

    Attributes
    ----------
    keys : names of the generators
    base : image of everything that is fixed
    left, right : (k, m) arrays, see `Model.sides`
    affine : the values keep their sum
    shift : added to every curvature where the sum is kept, which changes nothing but makes the factor exist
    dropped : generators that have come to a bound, with the value there
    """

    model: Model
    affine: bool
    base: Array
    keys: tuple[Hashable, ...] = ()
    values: Array = field(default_factory=lambda: np.zeros(0))
    lower: Array = field(default_factory=lambda: np.zeros(0))
    upper: Array = field(default_factory=lambda: np.zeros(0))
    left: Array = field(default_factory=lambda: np.zeros((0, 0)))
    right: Array = field(default_factory=lambda: np.zeros((0, 0)))
    factor: Array = field(default_factory=lambda: np.zeros((0, 0)))
    shift: float = 0.0
    dropped: tuple[tuple[Hashable, float], ...] = ()

    @property
    def image(self) -> Array:
        """The image of the point with these values."""
        return self.base + self.values @ self.right if self.keys else self.base

    @classmethod
    def spanned(cls, model: Model, affine: bool, base: Array, keys: Array, pool: tuple[Array, ...]) -> Face:
        """The face of some of many generators, given their values, bounds (lower, upper) and sides (left, right)."""
        values, lower, upper, left, right = (column[keys] for column in pool)
        face = cls(model, affine, base, tuple(keys.tolist()), values, lower, upper, left, right)
        return face.refactored() if len(keys) else face

    @property
    def noise(self) -> float:
        """Rounding of derivatives along the generators, in units of the machine's precision."""
        if not self.keys:
            return 0.0
        longest = np.sqrt(float(np.einsum("km,km->k", self.left, self.left).max()))
        return 8 * longest * float(np.linalg.norm(self.model.second * self.image) + np.linalg.norm(self.model.pull))

    def joined(
        self,
        key: Hashable,
        sides: tuple[Array, Array],
        value: float = 0.0,
        lower: float = 0.0,
        upper: float = np.inf,
    ) -> Face:
        """With one more generator, whose part at `value` is no longer in the base."""
        left, right = sides
        weighed = self.model.second * right
        own = float(left @ weighed)
        k = len(self.keys)
        grown = replace(
            self,
            base=self.base if value == 0 else self.base - value * right,
            keys=(*self.keys, key),
            values=np.append(self.values, value),
            lower=np.append(self.lower, lower),
            upper=np.append(self.upper, upper),
            left=np.vstack([self.left, left]) if k else left[None],
            right=np.vstack([self.right, right]) if k else right[None],
        )
        if self.affine and own >= 100 * self.shift:  # a shift that is lost in rounding helps no more
            return grown.refactored()
        column = self.left @ weighed + self.shift if k else np.zeros(0)
        return replace(grown, factor=_bordered(self.factor, column, own + self.shift))

    def refactored(self) -> Face:
        """With the factor computed from scratch."""
        K = (self.left * self.model.second) @ self.right.T
        own = np.diagonal(K)
        shift = (float(own.max()) or 1.0) if self.affine else 0.0
        K = (K + K.T) / 2 + shift
        try:
            factor = scipy.linalg.cholesky(K, check_finite=False)
            worn = np.diagonal(factor) ** 2 <= _FLOOR * np.diagonal(K)
        except scipy.linalg.LinAlgError:
            worn = np.ones(1, dtype=bool)
        if worn.any():
            factor = np.zeros((0, 0))
            for k in range(len(K)):
                factor = _bordered(factor, K[:k, k], float(K[k, k]))
        return replace(self, factor=factor, shift=shift)

    def without(self, i: int, value: float) -> Face:
        """With generator i fixed at a value."""
        k = len(self.keys)
        keep = np.arange(k) != i
        _, factor = scipy.linalg.qr_delete(np.eye(k), self.factor, i, which="col", check_finite=False)
        return replace(
            self,
            base=self.base if value == 0 else self.base + value * self.right[i],
            keys=self.keys[:i] + self.keys[i + 1 :],
            values=self.values[keep],
            lower=self.lower[keep],
            upper=self.upper[keep],
            left=self.left[keep],
            right=self.right[keep],
            factor=factor[: k - 1],
            dropped=(*self.dropped, (self.keys[i], value)),
        )

    def minimised(self) -> Face:
        """At the smallest value of the model on the face; generators that end at a bound are dropped.

        Newton steps on all values, each exact but for rounding, so that the ones after the first polish. A step that
        meets a bound stops there and drops that generator: every value of the model is lower than the one before.
        """
        face, last, fresh = replace(self, dropped=()), np.inf, False
        while len(face.keys) > face.affine:  # one vertex alone cannot move
            residual = face.model.second * face.image - face.model.pull
            slopes = face.left @ residual
            spread = float(np.ptp(slopes) if face.affine else np.abs(slopes).max())
            noise = face.noise * float(np.finfo(float).eps)
            if spread <= noise or spread > last / 2:
                if spread <= 1e6 * noise or fresh:
                    break
                face, fresh = face.refactored(), True  # many drops have worn the factor
            step = face._newton(slopes)
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(step < 0, face.lower - face.values, face.upper - face.values)
                lengths = np.where(step == 0, np.inf, room / step)
            i = int(lengths.argmin())
            if lengths[i] < 1:
                bound = face.lower[i] if step[i] < 0 else face.upper[i]
                values = np.clip(face.values + lengths[i] * step, face.lower, face.upper)
                face, last = replace(face, values=values).without(i, float(bound)), np.inf
            else:
                face, last = replace(face, values=face.values + step), spread
        if face.affine and len(face.keys) == 1:
            face = replace(face, values=np.ones(1))
        return face

    def _newton(self, slopes: Array) -> Array:
        """The step to the minimum on the face, bounds aside."""
        if not self.affine:
            return -scipy.linalg.cho_solve((self.factor, False), slopes, check_finite=False)
        both = np.column_stack([slopes, np.ones(len(slopes))])
        down, even = scipy.linalg.cho_solve((self.factor, False), both, check_finite=False).T
        step = (down.sum() / even.sum()) * even - down
        return step - step.mean()  # the sum is kept to rounding


def _bordered(factor: Array, column: Array, own: float) -> Array:
    """The upper triangular factor of a matrix with one more column."""
    k = len(column)
    grown = np.zeros((k + 1, k + 1))
    grown[:k, :k] = factor
    if k:
        grown[:k, k] = scipy.linalg.solve_triangular(factor, column, trans=1, check_finite=False)
    rest = own - float(grown[:k, k] @ grown[:k, k])
    if rest < -1e-8 * abs(own):
        raise NumericalTrouble("the objective is not convex, so that its flow does not slide")
    grown[k, k] = np.sqrt(max(rest, _FLOOR * own, np.finfo(float).tiny))
    return grown
