r"""Where does the lasso go as its ball grows? From corner to corner, on straight lines.

The minimiser of :math:`\tfrac12\|A x - b\|^2` over :math:`\|x\|_1 \le r` is piecewise linear in r (Osborne, Presnell &
Turlach 2000; Efron et al. 2004). Between two corners the same coefficients are in use, and their correlations with the
residual are tied at the largest size :math:`\lambda`, which falls; at a corner another one reaches it, or a coefficient
comes to zero. All radii cost little more than the largest, and nothing here need be exact: every point is only where
a run begins, which then verifies its gap on the data, and goes on where rounding has spoiled it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from fwflow._numerics import dot
from fwflow._validation import Array

# Columns whose products with all others are computed together: one pass over the data for them all.
_TOGETHER = 32
# A column that is so much shorter off the span of those in use, by squares, is a combination of them.
_DEPENDENT = 1e-9
# Tied correlations that are apart by this share of the first are put right.
_APART = 1e-11
# A rate that is this share of the first is none.
_NOTHING = 64 * float(np.finfo(np.float64).eps)
# Corners per coefficient that can be in use.
_MOST = 20
_TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class Corner:
    """Where the path turns: the ball's radius, how fast the least value falls there, and what is not zero."""

    radius: float
    rate: float
    places: Array
    values: Array


class CornerPath:
    """The corners of a path, found as far as they are asked for.

    Parameters
    ----------
    X : (m, n) array
    y : (m,) array
    weights : (m,) array, optional
        The loss is half the weighted mean of squares.
    intercept : bool
        Whether a constant, free of the ball, is minimised out.
    """

    def __init__(self, X: Array, y: Array, weights: Array | None, intercept: bool) -> None:
        m, n = X.shape
        self._X, self._w = (
            np.asarray(X, dtype=np.float64),
            np.full(m, 1 / m) if weights is None else weights / weights.sum(dtype=np.float64),
        )
        self._mean = dot(self._w, X) if intercept else np.zeros(n)
        self._first = dot(self._w * (y - (dot(self._w, y) if intercept else 0.0)), X)  # correlations at zero
        self._c = self._first.copy()
        self._spanned: list[int] = []  # tied columns that are combinations of those in use, and stay tied with them
        self._parted: tuple[int, int] | None = None  # the side and the column that has just left
        self._places: list[int] = []  # columns in use
        self._products = np.zeros((0, n))  # of columns with all others: of those in use first, in their order
        self._known: list[int] = []  # columns whose products these are
        self._inverse = np.zeros((0, 0))  # of the products of those in use, in the leading block
        self._x, self._signs = np.zeros(0), np.zeros(0)
        self._rate = float(np.abs(self._c).max(initial=0.0))
        self._left = _MOST * min(m, n)
        self.corners = [self._corner()]
        self.finished = not self._rate > 0  # whether no larger ball has a better point
        self.lost = False  # whether rounding or ties were too much

    def at(self, radius: float) -> Array | None:
        """The minimiser over the ball, or None if the path was lost before."""
        while self.corners[-1].radius < radius and self._advance():
            pass
        found = self._between(self.passed(radius))
        if found is None:
            return None
        before, after = found
        share = min(1.0, (radius - before.radius) / max(after.radius - before.radius, _TINY))
        x = np.zeros(len(self._c))
        x[before.places] = (1 - share) * before.values
        x[after.places] += share * after.values
        return x

    def passed(self, radius: float) -> int:
        """How many corners lie before a radius, the origin among them."""
        return bisect_left(self.corners, radius, key=lambda corner: corner.radius)

    def _between(self, i: int) -> tuple[Corner, Corner] | None:
        """The corner i and the one before; twice the last if the path ends there, None if it was lost."""
        if i == len(self.corners):
            return None if self.lost else (self.corners[-1], self.corners[-1])
        return self.corners[max(i - 1, 0)], self.corners[i]

    def _corner(self) -> Corner:
        return Corner(float(dot(self._signs, self._x)), self._rate, np.array(self._places, dtype=int), self._x.copy())

    def _advance(self) -> bool:
        """Find the next corner; whether there was one."""
        if self.finished or self.lost:
            return False
        k, rate = len(self._places), self._rate
        d = dot(self._inverse[:k, :k], self._signs)
        turn = dot(d, self._products[:k])
        with np.errstate(divide="ignore", invalid="ignore"):
            closing = np.stack([1 - turn, 1 + turn])
            reached = np.where(
                closing > 1e-12, np.stack([rate - self._c, rate + self._c]).clip(min=0) / closing, np.inf
            )
            reached[:, self._places + self._spanned] = np.inf
            if self._parted is not None:  # what is left of its distance is rounding
                reached[self._parted] = np.inf
            gone = np.where(d * self._signs < 0, -self._x / d, np.inf)
        side, j = divmod(int(reached.argmin()), reached.shape[1])
        step = min(float(reached[side, j]), float(gone.min(initial=np.inf)), rate)
        self._x, self._c, self._rate = self._x + step * d, self._c - step * turn, rate - step
        self._parted = None
        if self._rate <= _NOTHING * self.corners[0].rate:
            self.finished = True
        elif step == reached[side, j]:
            self._join(j, 1.0 - 2 * side)
        else:
            self._drop(int(gone.argmin()))
        self._settle()
        if self._rate < self.corners[-1].rate and not self.lost:
            self.corners.append(self._corner())
        return not self.lost

    def _join(self, j: int, sign: float) -> None:
        """Take a coefficient into use, unless its column is a combination of those that are."""
        k = len(self._places)
        self._swap(self._row(j), k)
        across, own = self._products[k, self._places], float(self._products[k, j])
        u = dot(self._inverse[:k, :k], across)
        rest = own - float(dot(across, u))
        if rest <= _DEPENDENT * own:
            self._spanned.append(j)
            return
        self._inverse = _with_room(self._inverse, (k + 1, k + 1))
        self._inverse[:k, :k] += u[:, None] * (u / rest)
        self._inverse[k, :k] = self._inverse[:k, k] = -u / rest
        self._inverse[k, k] = 1 / rest
        self._places.append(j)
        self._x, self._signs = np.append(self._x, 0.0), np.append(self._signs, sign)

    def _drop(self, i: int) -> None:
        """Take a coefficient out of use; the last takes its place."""
        last, self._spanned = len(self._places) - 1, []
        self._parted = int(self._signs[i] < 0), self._places[i]
        K = self._inverse[: last + 1, : last + 1]
        column = K[:, i].copy()
        K -= column[:, None] * (column / column[i])
        K[i, :], K[:, i] = K[last, :], K[:, last]
        K[i, i] = K[last, last]
        self._swap(i, last)
        for kept in (self._places, self._x, self._signs):
            kept[i] = kept[last]
        self._places.pop()
        self._x, self._signs = self._x[:last], self._signs[:last]

    def _row(self, j: int) -> int:
        """Where the products of a column are, computed with those of others that are likely to follow."""
        if j in self._known:
            return self._known.index(j)
        m, n = self._X.shape
        if len(self._known) > len(self._places) + min(m, n):
            del self._known[len(self._places) :]
        size = np.abs(self._c)
        size[self._known], size[j] = -1.0, np.inf
        chosen = np.argsort(-size)[: min(_TOGETHER, n - len(self._known))]
        rows = slice(len(self._known), len(self._known) + len(chosen))
        self._products = _with_room(self._products, (rows.stop, n))
        self._products[rows] = dot(self._w * (self._X[:, chosen] - self._mean[chosen]).T, self._X)
        self._known += chosen.tolist()
        return rows.start

    def _swap(self, i: int, k: int) -> None:
        self._products[[i, k]] = self._products[[k, i]]
        self._known[i], self._known[k] = self._known[k], self._known[i]

    def _settle(self) -> None:
        """Put right what rounding has moved off the path, and see whether this is a path still."""
        k, within = len(self._places), _APART * self.corners[0].rate
        if not self._apart() <= within:
            try:
                factor = scipy.linalg.cho_factor(self._products[:k, self._places], check_finite=False)
            except scipy.linalg.LinAlgError:
                self.lost = True
                return
            self._inverse[:k, :k] = scipy.linalg.cho_solve(factor, np.eye(k), check_finite=False)
            for _ in range(2):
                self._x = self._x + dot(self._inverse[:k, :k], self._c[self._places] - self._rate * self._signs)
                self._c = self._first - dot(self._x, self._products[:k])
        self._left -= 1
        on_it = self._apart() <= 1e3 * within and np.abs(self._c).max() <= self._rate + 1e3 * within
        self.lost = not (on_it and (self._left or self.finished))

    def _apart(self) -> float:
        """By how much correlations that should be tied differ from their common size."""
        return float(np.abs(self._c[self._places] - self._rate * self._signs).max(initial=0.0))


def _with_room(array: Array, shape: tuple[int, int]) -> Array:
    """The array, or a larger one that begins with it, at least of that shape."""
    if all(have >= want for have, want in zip(array.shape, shape, strict=True)):
        return array
    larger = np.zeros([have if have >= want else 2 * want for have, want in zip(array.shape, shape, strict=True)])
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
