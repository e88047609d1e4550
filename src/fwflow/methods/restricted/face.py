"""Where on a face is a quadratic smallest? An active-set solver that updates its factorisation.

A face is spanned by a few generators, each with a value between bounds: vertices with weights that sum to one, or
coordinates of a box. To add a generator or to drop one costs O(k^2) for the factor of k generators and O(m k) for the
products of their images; the quadratic itself is never formed beyond k x k.
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
from fwflow.methods.clock import Late, never
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import Model

# A generator that depends on the others gets this share of its own curvature: the Newton step along it is then so long
# that it ends at a bound, which is where a function without curvature has its minimum.
_FLOOR = 1e-13
# And this much where there is no curvature at all.
_TINY = 1e-290
# Curvatures below this share of the largest, which is the square of the rounding of sides, are rounding.
_NO_CURVATURE = 1e-30
# Sides that are longer than their centre by more than the inverse of this need more digits than their products have.
_UNEVEN = 1e-5
_EPS = float(np.finfo(np.float64).eps)

_NOT_CONVEX = "the objective is not convex; use another method, or leave method alone"


@storable("rows", "array", make="of", valid=lambda rows: rows.array.ndim == 2)
@dataclass(frozen=True, eq=False)
class Rows:
    """A matrix that grows by rows: successors share a buffer, of which each sees its own part."""

    buffer: Array = field(default_factory=lambda: np.zeros((0, 0)))
    count: int = 0
    used: list[int] = field(default_factory=lambda: [0])  # rows of the buffer that belong to somebody

    @classmethod
    def of(cls, array: Array) -> Rows:
        return cls(array, len(array), [len(array)])

    @property
    def array(self) -> Array:
        return self.buffer[: self.count]

    def extended(self, row: Array) -> Rows:
        rows = self
        if self.count in (0, len(self.buffer)) or self.used[0] > self.count:  # no room, or another's
            buffer = np.empty((2 * self.count + 8, len(row)))
            if self.count:
                buffer[: self.count] = self.array
            rows = Rows(buffer, self.count, [self.count])
        rows.used[0] += 1
        rows.buffer[self.count] = row
        return Rows(rows.buffer, self.count + 1, rows.used)


@storable("face", valid=lambda face: face.fits)
@dataclass(frozen=True, eq=False)
class Face:
    """Generators with values between bounds, and the Cholesky factor of their curvatures.

    Attributes
    ----------
    affine : the values keep their sum
    base : image of everything that is fixed
    keys : names of the generators
    sides : one row per generator each, see `Model.sides`
    centre : what sides are counted from where the values keep their sum, which changes nothing but the rounding: it
        then goes with the size of the face, not with the square of its distance from the origin
    shift : added to every curvature where the sum is kept, which changes nothing but makes the factor exist; as small
        as the smallest curvature, in which a larger one would leave no digit
    longest : norm of the longest left side, for the size of rounding errors
    dropped : generators that have come to a bound, with the value there
    """

    model: Model
    affine: bool
    base: Array
    keys: tuple[Any, ...] = ()
    values: Array = field(default_factory=lambda: np.zeros(0))
    lower: Array = field(default_factory=lambda: np.zeros(0))
    upper: Array = field(default_factory=lambda: np.zeros(0))
    sides: tuple[Rows, Rows] = (Rows(), Rows())
    factor: Array = field(default_factory=lambda: np.zeros((0, 0)))
    centre: tuple[Any, Any] = (0.0, 0.0)
    shift: float = 0.0
    longest: float = 0.0
    dropped: tuple[tuple[Any, float], ...] = ()

    @classmethod
    def spanned(cls, model: Model, affine: bool, base: Array, keys: Array, pool: tuple[Any, ...]) -> Face:
        """The face of some of many generators, given their values, bounds (lower, upper) and sides (left, right)."""
        values, lower, upper, left, right = pool
        chosen = left[keys]
        rows = Rows.of(chosen if isinstance(chosen, np.ndarray) else chosen.toarray())
        sides = (rows, rows if right is left else Rows.of(right[keys]))
        longest = float(row_lengths(rows.array).max(initial=0.0))
        bounds = lower[keys], upper[keys]
        face = cls(model, affine, base, tuple(keys.tolist()), values[keys], *bounds, sides, longest=longest)
        return face.refactored() if len(keys) else face

    @property
    def fits(self) -> bool:
        """Whether there are a value, bounds, sides and a row of the factor for every key."""
        k = len(self.keys)
        vectors = all(array.shape == (k,) for array in (self.values, self.lower, self.upper))
        return vectors and self.sides[0].count == self.sides[1].count == k and self.factor.shape == (k, k)

    @property
    def left(self) -> Array:
        return self.sides[0].array

    @property
    def right(self) -> Array:
        return self.sides[1].array

    @cached_property
    def image(self) -> Array:
        """The image of the point with these values."""
        return self.base + dot(self.values, self.right) if self.keys else self.base

    @cached_property
    def terms(self) -> Array:
        """The size of the terms of which derivatives with respect to the image are differences."""
        return np.asarray(8 * (np.abs(self.model.second * self.image) + np.abs(self.model.pull)))

    def noise(self, left: Array) -> Array:
        """Rounding of derivatives along generators with these left sides, in units of the machine's precision."""
        return dot(np.abs(left), self.terms)

    def joined(
        self,
        key: Any,
        sides: tuple[Array, Array],
        value: float = 0.0,
        lower: float = 0.0,
        upper: float = np.inf,
    ) -> Face:
        """With one more generator, whose part at `value` is no longer in the base."""
        left, weighed = sides[0], self.model.second * sides[1]
        if float(dot(left, weighed)) < -1e-10 * length(left) * length(weighed):
            raise NumericalTrouble(_NOT_CONVEX)
        left = sides[0] - self.centre[0]
        right = left if sides[1] is sides[0] else sides[1] - self.centre[1]
        weighed = self.model.second * right
        own = float(dot(left, weighed))
        rows = self.sides[0].extended(left)
        one = right is left and (self.sides[0] is self.sides[1] or not self.keys)
        grown = replace(
            self,
            base=self.base if value == 0 else self.base - value * right,
            keys=(*self.keys, key),
            values=np.append(self.values, value),
            lower=np.append(self.lower, lower),
            upper=np.append(self.upper, upper),
            sides=(rows, rows if one else self.sides[1].extended(right)),
            longest=max(self.longest, length(left)),
        )
        if self.affine and not _NO_CURVATURE * own <= self.shift <= 100 * own:  # the shift is another then
            return grown.refactored()
        column = dot(self.left, weighed) + self.shift if self.keys else np.zeros(0)
        factor = _bordered(self.factor, column, own + self.shift)
        return grown.refactored() if factor is None else replace(grown, factor=factor)

    def refactored(self) -> Face:
        """With the factor computed from scratch."""
        if not self.keys:
            return self
        K = dot(self.left * self.model.second, self.right.T)
        shift = 0.0
        if self.affine:
            sizes = row_lengths(self.left) * row_lengths(self.right * self.model.second)
            curved = K.diagonal() > np.maximum(1e-14 * sizes, _NO_CURVATURE * float(K.diagonal().max()))
            shift = float(K.diagonal().min(where=curved, initial=np.inf))
            if not curved.any():  # all rounding, and maybe negative
                shift = float(sizes.max()) or _TINY**0.5
        K = (K + K.T) / 2 + shift
        # Differences of sides are as exact as the sides themselves.
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
        """Whether sides are so much longer than their centre that products of them leave it no digit."""
        centre = length(np.atleast_1d(self.centre[0]))
        return self.affine and 0 < centre < _UNEVEN * self.longest

    def _orthogonal(self, shift: float) -> Array | None:
        """The factor from the sides themselves, which keeps twice the digits of one from their products, or None."""
        k = len(self.keys)
        if self.sides[0] is not self.sides[1] or np.min(self.model.second) < 0 or k > self.left.shape[1] + 1:
            return None
        columns = np.vstack([(self.left * np.sqrt(self.model.second)).T, np.full((1, k), np.sqrt(shift))])
        least = 1e-14 * row_lengths(columns.T) + _TINY**0.5
        factor: Array = scipy.linalg.qr(columns, mode="r", check_finite=False)[0][:k]
        diagonal = factor.diagonal()
        np.fill_diagonal(factor, np.where(np.abs(diagonal) < least, least, diagonal))
        return factor

    def recentred(self, centre: tuple[Array, Array], sides: list[tuple[Array, Array]]) -> Face:
        """The same with sides, given anew, counted from another centre."""
        left = Rows.of(np.stack([side[0] - centre[0] for side in sides]))
        one = self.sides[0] is self.sides[1]
        right = left if one else Rows.of(np.stack([side[1] - centre[1] for side in sides]))
        longest = float(row_lengths(left.array).max())
        return replace(self, base=centre[1], sides=(left, right), centre=centre, longest=longest).refactored()

    def without(self, i: int, value: float) -> Face:
        """With generator i fixed at a value."""
        k = len(self.keys)
        keep = np.arange(k) != i
        _, factor = scipy.linalg.qr_delete(np.eye(k), self.factor, i, which="col", check_finite=False)
        rows = Rows.of(self.left[keep])
        return replace(
            self,
            base=self.base if value == 0 else self.base + value * self.right[i],
            keys=self.keys[:i] + self.keys[i + 1 :],
            values=self.values[keep],
            lower=self.lower[keep],
            upper=self.upper[keep],
            sides=(rows, rows if self.sides[0] is self.sides[1] else Rows.of(self.right[keep])),
            factor=factor[: k - 1],
            dropped=(*self.dropped, (self.keys[i], value)),
        )

    def minimised(self, late: Late = never) -> Face:
        """At the smallest value of the model on the face; generators that end at a bound are dropped.

        Newton steps on all values, each exact but for rounding, so that the ones after the first polish. A step that
        meets a bound stops there and drops that generator: every value of the model is lower than the one before. When
        it is late, the values reached by then are returned.
        """
        face, last, fresh = replace(self, dropped=()), np.inf, False
        while len(face.keys) > face.affine and not late():  # one vertex alone cannot move
            spread = face.spread
            if not np.isfinite(spread):
                raise NumericalTrouble("a derivative is not finite")
            if spread <= 1 or spread > last / 2:
                if spread <= 1e6 or fresh:
                    break
                face, fresh = face.refactored(), True  # many drops have worn the factor
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
        """How far derivatives are from those at the minimum on the face, in units of their rounding."""
        if len(self.keys) <= self.affine:
            return 0.0
        noise, off = _EPS * self.noise(self.left), np.abs(self.slopes)
        if self.affine:  # all are to be equal, and the one that is rounded least tells the level
            level = int(noise.argmin())
            off, noise = np.abs(self.slopes - self.slopes[level]), noise + noise[level]
        return float(np.divide(off, noise, out=np.zeros_like(off), where=off != 0).max())

    def _newton(self, slopes: Array) -> Array:
        """The step to the minimum on the face, bounds aside."""
        if not self.affine:
            return -scipy.linalg.cho_solve((self.factor, False), slopes, check_finite=False)
        both = np.column_stack([slopes, np.ones(len(slopes))])
        down, even = scipy.linalg.cho_solve((self.factor, False), both, check_finite=False).T
        step = (down.sum() / even.sum()) * even - down
        return step - step.mean()  # the sum is kept to rounding


def _bordered(factor: Array, column: Array, own: float) -> Array | None:
    """The upper triangular factor of a matrix with one more column; None if that is not positive."""
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
