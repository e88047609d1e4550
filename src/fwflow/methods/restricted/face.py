"""Minimum of a quadratic on a face, by an active-set method that updates a Cholesky factor.

A face is spanned by a few generators with values between bounds: vertices with weights that sum to one, or coordinates
of a box. Adding or dropping one of k generators costs O(k^2) for the factor and O(m k) for the products of images.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from fwflow._numerics import dot, length, row_lengths
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.methods.problem import Late, never
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import Model

# Smallest pivot of a generator that depends on the others, relative to its curvature. The Newton step along it is then
# so long that it ends at a bound, where a function without curvature has its minimum. Chosen without tuning.
_FLOOR = 1e-13
# Smallest pivot if there is no curvature: close to the smallest positive number whose inverse is finite.
_TINY = 1e-290
# Curvatures below this fraction of the largest are rounding errors. It is about the square of the machine precision.
_NO_CURVATURE = 1e-30
# If the centre is shorter than this fraction of the longest side, products of the sides are too imprecise. Chosen
# without tuning.
_UNEVEN = 1e-5
_EPS = float(np.finfo(np.float64).eps)
# Largest `Face.spread`, in units of rounding errors, of a minimum found with an exact factor. Chosen without tuning.
_WORN = 1e3

_NOT_CONVEX = "the objective is not convex; use another method, or omit the argument `method`"


@storable("face", valid=lambda face: face.fits)
@dataclass(frozen=True, eq=False)
class Face:
    """Generators with values between bounds, and the Cholesky factor of their curvatures."""

    model: Model
    affine: bool  # whether the values keep their sum
    base: Array  # image of the fixed part
    keys: tuple[Any, ...] = ()  # names of the generators
    values: Array = field(default_factory=lambda: np.zeros(0))
    lower: Array = field(default_factory=lambda: np.zeros(0))
    upper: Array = field(default_factory=lambda: np.zeros(0))
    #: Sides of the generators, one per row (see `Model.sides`): the same array twice if both sides are the same.
    left: Array = field(default_factory=lambda: np.zeros((0, 0)))
    right: Array = field(default_factory=lambda: np.zeros((0, 0)))
    factor: Array = field(default_factory=lambda: np.zeros((0, 0)))
    #: Origin of the sides if the values keep their sum. It only affects rounding errors, which then have the size of
    #: the face instead of its squared distance from the origin.
    centre: tuple[Any, Any] = (0.0, 0.0)
    #: Number added to every curvature if the values keep their sum. It makes the factor exist and does not change the
    #: minimum. It is as small as the smallest curvature, whose precision a larger one would reduce.
    shift: float = 0.0
    longest: float = 0.0  # norm of the longest left side, for bounds on rounding errors
    dropped: tuple[tuple[Any, float], ...] = ()  # generators that have reached a bound, with the value there

    @classmethod
    def spanned(cls, model: Model, affine: bool, base: Array, keys: Array, pool: tuple[Any, ...]) -> Face:
        """Return the face of some generators, given the values, lower and upper bounds, left and right sides of all."""
        values, lower, upper, left, right = pool
        chosen = left[keys]
        rows = chosen if isinstance(chosen, np.ndarray) else chosen.toarray()
        sides = rows, rows if right is left else right[keys]
        longest = float(row_lengths(rows).max(initial=0.0))
        bounds = lower[keys], upper[keys]
        face = cls(model, affine, base, tuple(keys.tolist()), values[keys], *bounds, *sides, longest=longest)
        return face.refactored() if len(keys) else face

    @property
    def fits(self) -> bool:
        """Whether every key has a value, bounds, sides and a row of the factor."""
        k = len(self.keys)
        vectors = all(array.shape == (k,) for array in (self.values, self.lower, self.upper))
        sides = all(side.shape == (k, self.base.size) or side.size == k == 0 for side in (self.left, self.right))
        return vectors and sides and self.factor.shape == (k, k)

    @cached_property
    def image(self) -> Array:
        """Image of the point with these values."""
        return self.base + dot(self.values, self.right) if self.keys else self.base

    @cached_property
    def terms(self) -> Array:
        """Size of the terms whose differences are the derivatives with respect to the image."""
        return np.asarray(8 * (np.abs(self.model.second * self.image) + np.abs(self.model.pull)))

    def noise(self, left: Array) -> Array:
        """Return the rounding errors of derivatives along generators, in units of the machine precision."""
        return dot(np.abs(left), self.terms)

    def joined(
        self,
        key: Any,
        sides: tuple[Array, Array],
        value: float = 0.0,
        lower: float = 0.0,
        upper: float = np.inf,
    ) -> Face:
        """Return the face with one more generator, whose part at `value` is subtracted from the base."""
        left, weighed = sides[0], self.model.second * sides[1]
        if float(dot(left, weighed)) < -1e-10 * length(left) * length(weighed):
            raise NumericalTrouble(_NOT_CONVEX)
        left = sides[0] - self.centre[0]
        right = left if sides[1] is sides[0] else sides[1] - self.centre[1]
        weighed = self.model.second * right
        own = float(dot(left, weighed))
        one = right is left and (self.left is self.right or not self.keys)
        rows = _extended(self.left, left)
        grown = replace(
            self,
            base=self.base if value == 0 else self.base - value * right,
            keys=(*self.keys, key),
            values=np.append(self.values, value),
            lower=np.append(self.lower, lower),
            upper=np.append(self.upper, upper),
            left=rows,
            right=rows if one else _extended(self.right, right),
            longest=max(self.longest, length(left)),
        )
        if self.affine and not _NO_CURVATURE * own <= self.shift <= 100 * own:  # the shift has to change
            return grown.refactored()
        column = dot(self.left, weighed) + self.shift if self.keys else np.zeros(0)
        factor = _bordered(self.factor, column, own + self.shift)
        return grown.refactored() if factor is None else replace(grown, factor=factor)

    def refactored(self, even: bool = False) -> Face:
        """Return the face with a newly computed factor; `even` uses the largest curvature as shift."""
        if not self.keys:
            return self
        K = dot(self.left * self.model.second, self.right.T)
        shift = 0.0
        if self.affine:
            sizes = row_lengths(self.left) * row_lengths(self.right * self.model.second)
            curved = K.diagonal() > np.maximum(1e-14 * sizes, _NO_CURVATURE * float(K.diagonal().max()))
            shift = float(K.diagonal().min(where=curved, initial=np.inf))
            if not curved.any():  # the curvatures are rounding errors and may be negative
                shift = float(sizes.max()) or _TINY**0.5
            elif even:
                shift = float(K.diagonal().max())
        K = (K + K.T) / 2 + shift
        # Differences of sides have the absolute precision of the sides.
        blur = 1e-15 * len(K) * self.longest * length(np.atleast_1d(self.model.second * self.centre[1])) / _FLOOR
        for share in (0.0, _FLOOR, 1e2 * _FLOOR, 1e4 * _FLOOR):
            try:
                factor = scipy.linalg.cholesky(K + np.diag(share * (K.diagonal() + blur) + _TINY), check_finite=False)
            except scipy.linalg.LinAlgError:
                continue
            if share or (factor.diagonal() ** 2 > _FLOOR * K.diagonal()).all():
                return replace(self, factor=factor, shift=shift)
            if self._uneven and (orthogonal := self._orthogonal(shift)) is not None:
                return replace(self, factor=orthogonal, shift=shift)
        raise NumericalTrouble(_NOT_CONVEX)

    @property
    def _uneven(self) -> bool:
        """Whether the sides are so much longer than the centre that their products lose its precision."""
        centre = length(np.atleast_1d(self.centre[0]))
        return self.affine and 0 < centre < _UNEVEN * self.longest

    def _orthogonal(self, shift: float) -> Array | None:
        """Return the factor by QR of the sides, which is twice as precise as that of their products, or None."""
        k = len(self.keys)
        if self.left is not self.right or np.min(self.model.second) < 0 or k > self.left.shape[1] + 1:
            return None
        columns = np.vstack([(self.left * np.sqrt(self.model.second)).T, np.full((1, k), np.sqrt(shift))])
        least = 1e-14 * row_lengths(columns.T) + _TINY**0.5
        factor: Array = scipy.linalg.qr(columns, mode="r", check_finite=False)[0][:k]
        diagonal = factor.diagonal()
        np.fill_diagonal(factor, np.where(np.abs(diagonal) < least, least, diagonal))
        return factor

    def recentred(self, centre: tuple[Array, Array], sides: list[tuple[Array, Array]]) -> Face:
        """Return the face with another centre and the given sides."""
        left = np.stack([side[0] - centre[0] for side in sides])
        right = left if self.left is self.right else np.stack([side[1] - centre[1] for side in sides])
        longest = float(row_lengths(left).max())
        return replace(self, base=centre[1], left=left, right=right, centre=centre, longest=longest).refactored()

    def without(self, i: int, value: float) -> Face:
        """Return the face with generator i fixed at a value."""
        k = len(self.keys)
        keep = np.arange(k) != i
        _, factor = scipy.linalg.qr_delete(np.eye(k), self.factor, i, which="col", check_finite=False)
        left = self.left[keep]
        return replace(
            self,
            base=self.base if value == 0 else self.base + value * self.right[i],
            keys=self.keys[:i] + self.keys[i + 1 :],
            values=self.values[keep],
            lower=self.lower[keep],
            upper=self.upper[keep],
            left=left,
            right=left if self.left is self.right else self.right[keep],
            factor=factor[: k - 1],
            dropped=(*self.dropped, (self.keys[i], value)),
        )

    def minimised(self, late: Late = never) -> Face:
        """Return the face at the minimum of the model, without generators that reach a bound.

        Newton steps are exact up to rounding, and further steps reduce the rounding errors. A step that meets a bound
        stops there and drops the generator, so the model decreases in every step. If `late` is true, the values reached
        so far are returned.
        """
        face, last, fresh = replace(self, dropped=()), np.inf, False
        while len(face.keys) > face.affine and not late():  # a single vertex cannot move
            spread = face.spread
            if not np.isfinite(spread):
                raise NumericalTrouble("a derivative is not finite")
            if spread <= 1 or spread > last / 2:
                if spread <= _WORN or fresh:
                    break
                # The factor is imprecise after many drops, or the shift is too small for long generators.
                face, fresh = face.refactored(even=True), True
            step = face._newton(face.slopes)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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

    @cached_property
    def slopes(self) -> Array:
        """Derivatives along the generators."""
        return np.asarray(dot(self.left, self.model.second * self.image - self.model.pull))

    @property
    def spread(self) -> float:
        """Largest deviation of a derivative from its value at the minimum, in units of rounding errors."""
        if len(self.keys) <= self.affine:
            return 0.0
        noise, off = _EPS * self.noise(self.left), np.abs(self.slopes)
        if self.affine:  # all are equal at the minimum, and the most precise one is the reference
            level = int(noise.argmin())
            off, noise = np.abs(self.slopes - self.slopes[level]), noise + noise[level]
        return float(np.divide(off, noise, out=np.zeros_like(off), where=off != 0).max())

    def _newton(self, slopes: Array) -> Array:
        """Return the step to the minimum on the face without bounds."""
        if not self.affine:
            return -scipy.linalg.cho_solve((self.factor, False), slopes, check_finite=False)
        both = np.column_stack([slopes, np.ones(len(slopes))])
        down, even = scipy.linalg.cho_solve((self.factor, False), both, check_finite=False).T
        step = (down.sum() / even.sum()) * even - down
        return step - step.mean()  # removes the rounding error of the sum


def _extended(rows: Array, row: Array) -> Array:
    return np.vstack([rows, row]) if len(rows) else row.reshape(1, len(row))


def _bordered(factor: Array, column: Array, own: float) -> Array | None:
    """Return the upper triangular factor of a matrix with one more column; None if it is not positive definite."""
    k = len(column)
    grown = np.zeros((k + 1, k + 1))
    grown[:k, :k] = factor
    if k:
        grown[:k, k] = scipy.linalg.solve_triangular(factor, column, trans=1, check_finite=False)
    rest = own - float(dot(grown[:k, k], grown[:k, k]))
    if rest < -1e-8 * abs(own):
        return None
    grown[k, k] = np.sqrt(max(rest, _FLOOR * own, _TINY))
    return grown
