r"""Minimisers of least squares over l1 balls of all radii, from corner to corner of their path.

The minimiser of :math:`\tfrac12\|A x - b\|^2` over :math:`\|x\|_1 \le r` is piecewise linear in r (Osborne, Presnell &
Turlach 2000; Efron et al. 2004). Between two corners the active coefficients are the same, and their correlations with
the residual are tied at the largest absolute value :math:`\lambda`, which falls. At a corner another correlation
reaches :math:`\lambda`, or an active coefficient becomes zero. For non-negative coefficients, negative correlations do
not count. Rounding here costs time only, not accuracy: every point is the start of a run, which verifies its gap and
continues if necessary.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

import numpy as np
import scipy.linalg

from fwflow._numerics import dot
from fwflow._threads import one_thread
from fwflow._validation import Array
from fwflow.run.paths import HORIZON

# All constants are chosen without tuning.
# Number of columns whose products with all columns are computed by one matrix product.
_BATCH = 32
# Squared distance of a column from the span of the active ones, as a share of its squared norm, below which the column
# counts as a linear combination of them.
_DEPENDENT = 1e-9
# Difference of tied correlations, as a share of the first lambda, above which the coefficients are corrected.
_TIE_ERROR = 1e-11
# Share of the first lambda below which lambda is rounding, and the path complete.
_ROUNDING = 64 * float(np.finfo(np.float64).eps)
# Share of the allowed decrease at which the search for the last radius ends, so that rounding does not continue it.
_SAFE_SHARE = 0.9
# The search then ends at this multiple of the radius of a corner, and not at the corner, whose side rounding decides.
_BEYOND = 1.001
# Number of corners, per coefficient that can be active, after which the path is given up.
_MAX_CORNERS = 20


class Corner(NamedTuple):
    """Corner of a path: the radius, lambda (the slope of the minimum there), and the active coefficients.

    `decrease` is the difference between the losses at zero and at the corner.
    """

    radius: float
    rate: float
    decrease: float
    places: Array
    values: Array


class CornerPath:
    """Corners of the path of half the weighted mean of squares, computed up to the largest radius that was needed."""

    def __init__(self, X: Array, y: Array, weights: Array | None, intercept: bool, positive: bool = False) -> None:
        m, n = X.shape
        self._positive = positive
        self._X = np.asarray(X, dtype=np.float64)
        self._w = np.full(m, 1 / m) if weights is None else weights / weights.sum(dtype=np.float64)
        self._mean = dot(self._w, X) if intercept else np.zeros(n)
        self._correlations0 = dot(self._w * (y - (dot(self._w, y) if intercept else 0.0)), X)
        self._c = self._correlations0.copy()
        self._dependent: list[int] = []  # tied columns that are combinations of the active ones
        self._dropped: tuple[int, int] | None = None  # the sign and the column that became inactive last
        self._active: list[int] = []
        self._products = np.zeros((0, n))  # of columns with all columns: of the active ones first, in their order
        self._known: list[int] = []  # the columns of these products
        self._inverse = np.zeros((0, 0))  # of the products of the active columns, in the leading block
        self._x, self._signs = np.zeros(0), np.zeros(0)
        self._rate = self._largest()
        self._left = _MAX_CORNERS * min(m, n)
        self._fun = 0.5 * float(dot(self._w, (y - (dot(self._w, y) if intercept else 0.0)) ** 2))  # at zero
        self.corners: list[Corner] = []
        self.corners.append(self._corner())
        self.finished = not self._rate > 0  # whether no larger ball has a better point
        self.lost = False  # whether ties or rounding ended the path too early

    @one_thread()
    def at(self, radius: float) -> Array | None:
        """Return the minimiser over the ball of a positive radius, or None if the path was lost before."""
        while self.corners[-1].radius < radius and self._advance():
            pass
        x, i = np.zeros(len(self._c)), self.passed(radius)
        if i == len(self.corners):
            if self.lost:
                return None
            x[self.corners[-1].places] = self.corners[-1].values
            return x
        before, after = self.corners[i - 1], self.corners[i]
        share = (radius - before.radius) / (after.radius - before.radius)
        x[before.places] = (1 - share) * before.values
        x[after.places] += share * after.values
        return x

    def passed(self, radius: float) -> int:
        """Return the number of known corners with a smaller radius, the origin included."""
        return bisect_left(self.corners, radius, key=lambda corner: corner.radius)

    @one_thread()
    def following(self, radius: float, eps: float) -> float:
        """Return twice the radius, or a smaller one from which larger radii lower the loss by the share eps at most.

        Corners beyond such a radius are many, and not needed. Larger radii are those up to the horizon of `fw.path`.
        """
        while self.corners[-1].radius < 2 * radius and not self._is_last(self.corners[-1], eps) and self._advance():
            pass
        end = _BEYOND * self.corners[-1].radius
        return end if radius < end < 2 * radius and self._is_last(self.corners[-1], eps) else 2 * radius

    def _is_last(self, corner: Corner, eps: float) -> bool:
        left = min(self._fun - corner.decrease, (HORIZON - 1) * corner.radius * corner.rate)
        return left <= _SAFE_SHARE * eps * corner.decrease

    def _corner(self) -> Corner:
        radius, decrease = float(dot(self._signs, self._x)), 0.0
        if self.corners:  # the loss falls at the rate lambda, which is linear in the radius
            before = self.corners[-1]
            decrease = before.decrease + (radius - before.radius) * (before.rate + self._rate) / 2
        return Corner(radius, self._rate, decrease, np.array(self._active, dtype=int), self._x.copy())

    def _advance(self) -> bool:
        """Compute the next corner, and return whether there is one."""
        if self.finished or self.lost:
            return False
        k, rate = len(self._active), self._rate
        d = dot(self._inverse[:k, :k], self._signs)
        change = dot(d, self._products[:k])
        with np.errstate(divide="ignore", invalid="ignore"):
            closing = np.stack([1 - change, 1 + change])
            reached = np.where(
                closing > 1e-12, np.stack([rate - self._c, rate + self._c]).clip(min=0) / closing, np.inf
            )
            reached[:, self._active + self._dependent] = np.inf
            if self._positive:
                reached[1] = np.inf
            if self._dropped is not None:  # its correlation is tied up to rounding, but moves away
                reached[self._dropped] = np.inf
            gone = np.where(d * self._signs < 0, -self._x / d, np.inf)
        side, j = divmod(int(reached.argmin()), reached.shape[1])
        step = min(float(reached[side, j]), float(gone.min(initial=np.inf)), rate)
        self._x, self._c, self._rate = self._x + step * d, self._c - step * change, rate - step
        self._dropped = None
        if self._rate <= _ROUNDING * self.corners[0].rate:
            self.finished = True
        elif step == reached[side, j]:
            self._join(j, 1.0 - 2 * side)
        else:
            self._drop(int(gone.argmin()))
        self._correct()
        if self._rate < self.corners[-1].rate and not self.lost:
            self.corners.append(self._corner())
        return not self.lost

    def _join(self, j: int, sign: float) -> None:
        """Make a coefficient active, unless its column is a combination of the active columns."""
        k = len(self._active)
        self._swap(self._row(j), k)
        across, own = self._products[k, self._active], float(self._products[k, j])
        u = dot(self._inverse[:k, :k], across)
        rest = own - float(dot(across, u))
        if rest <= _DEPENDENT * own:
            self._dependent.append(j)
            return
        self._inverse = _grown(self._inverse, (k + 1, k + 1))
        self._inverse[:k, :k] += u[:, None] * (u / rest)
        self._inverse[k, :k] = self._inverse[:k, k] = -u / rest
        self._inverse[k, k] = 1 / rest
        self._active.append(j)
        self._x, self._signs = np.append(self._x, 0.0), np.append(self._signs, sign)

    def _drop(self, i: int) -> None:
        """Make a coefficient inactive; the last active one takes its place."""
        last, self._dependent = len(self._active) - 1, []
        self._dropped = int(self._signs[i] < 0), self._active[i]
        K = self._inverse[: last + 1, : last + 1]
        column = K[:, i].copy()
        K -= column[:, None] * (column / column[i])
        K[i, :], K[:, i] = K[last, :], K[:, last]
        K[i, i] = K[last, last]
        self._swap(i, last)
        for kept in (self._active, self._x, self._signs):
            kept[i] = kept[last]
        self._active.pop()
        self._x, self._signs = self._x[:last], self._signs[:last]

    def _row(self, j: int) -> int:
        """Return the row of the products of a column; columns likely to follow are computed with it."""
        if j in self._known:
            return self._known.index(j)
        m, n = self._X.shape
        if len(self._known) > len(self._active) + min(m, n):
            del self._known[len(self._active) :]
        size = self._c.copy() if self._positive else np.abs(self._c)
        size[self._known], size[j] = -np.inf, np.inf
        chosen = np.argsort(-size)[: min(_BATCH, n - len(self._known))]
        rows = slice(len(self._known), len(self._known) + len(chosen))
        self._products = _grown(self._products, (rows.stop, n))
        self._products[rows] = dot(self._w * (self._X[:, chosen] - self._mean[chosen]).T, self._X)
        self._known += chosen.tolist()
        return rows.start

    def _swap(self, i: int, k: int) -> None:
        self._products[[i, k]] = self._products[[k, i]]
        self._known[i], self._known[k] = self._known[k], self._known[i]

    def _correct(self) -> None:
        """Correct rounding of the ties, and give the path up if that does not succeed."""
        k, within = len(self._active), _TIE_ERROR * self.corners[0].rate
        if not self._tie_error() <= within:
            try:
                factor = scipy.linalg.cho_factor(self._products[:k, self._active], check_finite=False)
            except scipy.linalg.LinAlgError:
                self.lost = True
                return
            self._inverse[:k, :k] = scipy.linalg.cho_solve(factor, np.eye(k), check_finite=False)
            for _ in range(2):
                self._x = self._x + dot(self._inverse[:k, :k], self._c[self._active] - self._rate * self._signs)
                self._c = self._correlations0 - dot(self._x, self._products[:k])
        self._left -= 1
        on_path = self._tie_error() <= 1e3 * within and self._largest() <= self._rate + 1e3 * within
        self.lost = not (on_path and (self._left or self.finished))

    def _largest(self) -> float:
        """Return the largest correlation of a coefficient that may grow."""
        return float((self._c if self._positive else np.abs(self._c)).max(initial=0.0))

    def _tie_error(self) -> float:
        """Return the largest deviation of the tied correlations from lambda."""
        return float(np.abs(self._c[self._active] - self._rate * self._signs).max(initial=0.0))


def _grown(array: Array, shape: tuple[int, int]) -> Array:
    """Return the array, or a copy with zeros beyond it that is at least of that shape."""
    missing = [(0, 2 * want - have if want > have else 0) for have, want in zip(array.shape, shape, strict=True)]
    return np.pad(array, missing) if any(after for _, after in missing) else array
