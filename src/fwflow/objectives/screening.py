"""Screening: gradients of linear models that compute only those entries that can be the largest.

A gradient is :math:`g = A^T r`. With earlier gradients :math:`g_k = A^T r_k` and any weights w,

.. math:: |g_j - \\textstyle\\sum_k w_k g_{k,j}| \\le \\|a_j\\| \\, \\|r - \\sum_k w_k r_k\\|,

so that most entries are known not to be the largest without reading their columns. A small least-squares problem gives
weights with a small bound: the duals of the stages of a step, and of steps that zig-zag, lie close to a common plane.

The result does not depend on rounding: bounds include the rounding error of any order of summation, and the complete
product decides between columns that are closer than this error.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from weakref import ref

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs import Design
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.gradients import ByImage
from fwflow.points.vertices import Shape

#: Least cost of a pass over the data, and least cost per column, for which screening is used, in entries of a dense
#: matrix (chosen without tuning).
LEAST_COST, LEAST_COST_PER_COLUMN = 5_000_000, 100
# The next three numbers are chosen without tuning.
# Number of complete gradients that bounds are computed from.
_REFERENCES = 4
# Largest number of attempts that are omitted after failed attempts.
_PATIENCE = 8
# Number of columns on which an attempt is tried first.
_SAMPLE = 500

Score = Callable[[Array], Array]


def is_worthwhile(design: Design) -> bool:
    """Return whether a design returns single columns, and a pass over its data costs more than bounds."""
    cost = design.data_cost.of_pass
    if cost is None or cost < max(LEAST_COST, LEAST_COST_PER_COLUMN * design.shape[1]):
        return False
    return design.some_columns(np.zeros(design.shape[0], design.dtype), [0]) is not None


class Screen:
    """Norms of the columns and latest complete gradients of one run."""

    def __init__(self, design: Design) -> None:
        self.design = design
        m, n = design.shape
        self._duals, self._gradients = np.zeros((_REFERENCES, m)), np.zeros((_REFERENCES, n), design.dtype)
        self._products = 0
        self._through: _Plane | None = None
        self._winners: list[int] = []
        self._failures = self._left_out = 0
        # The error of a sum in any order is at most gamma times the sum of the absolute values (Higham, section 3.1).
        roundings = (m + 4 * _REFERENCES + 16) * float(np.finfo(design.dtype).eps) / 2
        self._gamma = roundings / (1 - roundings) ** 2 if roundings < 0.1 else math.inf
        self._tiny = m * float(np.finfo(design.dtype).tiny)

    def product(self, r: Array) -> Array:
        """Return the complete gradient, and keep it for later bounds."""
        g = np.array(self.design.rmatvec(r))
        if not np.isfinite(g).all():
            raise NumericalTrouble("the gradient has NaN or infinite entries")
        latest = self._products % _REFERENCES
        self._duals[latest], self._gradients[latest] = r, g
        self._products, self._through = self._products + 1, None
        return g

    def entries(self, r: Array, columns: Any) -> Array:
        """Return some entries of the gradient."""
        entries = self.design.some_columns(r, columns)
        assert entries is not None  # `is_worthwhile` requires single columns.
        return entries

    def candidates(self, r: Array, score: Score) -> tuple[Array, Array, int] | None:
        """Return the columns that may score best, their entries, and the place of the best; None: a pass is needed."""
        if self._products < _REFERENCES or not self._winners:
            return None
        if self._left_out < min(self._failures // 4, _PATIENCE):
            self._left_out += 1
            return None
        with np.errstate(all="ignore"):  # Columns that are not finite remain candidates.
            found = self._screened(r, score)
        self._failures, self._left_out = (self._failures + 1 if found is None else 0), 0
        return found

    def _screened(self, r: Array, score: Score) -> tuple[Array, Array, int] | None:
        n = self.design.shape[1]
        if self._through is None:
            self._through = _Plane(self._duals, (self._products - 1) % _REFERENCES, self._gradients.dtype)
        w, distance, size = self._through.nearest(r.astype(np.float64, copy=False))
        w, reach = w.astype(r.dtype), r.dtype.type(distance + 3 * self._gamma * size)

        def bounds(place: slice) -> Array:
            return score(dot(w, self._gradients[:, place])) + reach * self.norms[place]

        def least(columns: Sequence[int]) -> float:
            """Return a lower bound on the best of these scores in the complete product."""
            return float((score(self.entries(r, columns)) - self.slack(r, columns)).max()) - self._tiny

        best_known = least(self._winners)
        sample = slice(None, None, max(1, n // _SAMPLE))
        if np.count_nonzero(~(bounds(sample) < best_known)) * sample.step > 2 * self.design.data_cost.column_share * n:
            return None
        upper = bounds(slice(None))
        best_known = max(best_known, least([int(upper.argmax())]))
        columns = np.flatnonzero(~(upper < best_known))
        if len(columns) > self.design.data_cost.column_share * n:
            return None
        values = self.entries(r, columns)
        scores, slack = score(values), self.slack(r, columns)
        best = int(scores.argmax())
        others = scores + slack
        others[best] = 0.0 if score is np.abs else -np.inf  # The sign of an absolute value must be certain, too.
        return (columns, values, best) if others.max() < scores[best] - slack[best] else None

    def remember(self, winner: int) -> None:
        """Keep the column that the oracle returned, which is likely to be the best one again."""
        self._winners = [winner, *(j for j in self._winners if j != winner)][:_REFERENCES]

    def slack(self, r: Array, columns: Any) -> Array:
        """Bound the differences between these entries of a partial product and of the complete one."""
        return 2 * self._gamma * math.sqrt(np.vdot(r, r)) * self.norms[columns] + self._tiny

    @cached_property
    def norms(self) -> Array:
        """Upper bounds on the norms of the columns."""
        lengths = self.design.column_norms()
        assert lengths is not None
        # The relative part covers the rounding of norms and bounds, and the absolute part squares that underflow.
        relative = 1 + 1e-6 + 8 * float(np.finfo(self.design.dtype).eps)
        absolute = math.sqrt(self.design.shape[0] * float(np.finfo(np.float64).tiny))
        absolute += float(np.finfo(self.design.dtype).tiny)
        return (relative * lengths + absolute).astype(self.design.dtype)


class _Plane:
    """Affine hull of the duals of the kept gradients."""

    def __init__(self, duals: Array, latest: int, dtype: np.dtype[Any]) -> None:
        self.duals, self.latest, self.dtype = duals, latest, dtype
        D = duals - duals[latest]  # Differences keep accuracy if all duals are close to one another.
        self.lengths = np.sqrt(np.einsum("ki,ki->k", D, D))
        self.lengths[self.lengths == 0] = np.inf
        self.D = D / self.lengths[:, None]
        self.gram = dot(self.D, self.D.T) + 1e-12 * np.eye(len(D))
        self.sizes = np.sqrt(np.einsum("ki,ki->k", duals, duals))

    def nearest(self, r: Array) -> tuple[Array, float, float]:
        """Return the weights of the nearest point, its distance from r, and the sum of the norms of r and all terms."""
        w = np.linalg.solve(self.gram, dot(self.D, r - self.duals[self.latest])) / self.lengths
        w[self.latest] += 1 - w.sum()
        w = w.astype(self.dtype).astype(np.float64)  # The gradients are mixed with these rounded weights.
        rest = r - dot(w, self.duals)
        return w, math.sqrt(dot(rest, rest)), math.sqrt(dot(r, r)) + float(dot(np.abs(w), self.sizes))


class _LikeArray(NDArrayOperatorsMixin, ABC):
    """Object that behaves like an array, which is computed when an operation needs all of it."""

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array: ...

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        whole = [np.asarray(part) if isinstance(part, _LikeArray) else part for part in inputs]
        return getattr(ufunc, method)(*whole, **options)

    def __getitem__(self, place: Any) -> Any:
        return np.asarray(self)[place]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(np.asarray(self), name)


@storable("lazy-gradient", "data", "shape")
@dataclass(frozen=True, eq=False)
class LazyGradient(ByImage, _LikeArray):
    """Gradient :math:`A^T r`, stored as r.

    Sums, multiples, single entries, and the positions of the smallest entry and of the largest absolute value do not
    need the complete product.
    """

    data: Array
    shape: Shape
    #: A weak reference, because a saved state must not refer to the run that made it.
    screen: ref[Screen] | None = field(default=None, repr=False)
    _known: dict[Any, Any] = field(default_factory=dict, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"screen": None, "_known": {}}  # The data of the objective is not saved.

    def as_oracle_input(self) -> LazyGradient:
        return self

    @property
    def _of_run(self) -> Screen:
        screen = None if self.screen is None else self.screen()
        if screen is None:
            raise ValueError("state comes from a run with screen=True; pass screen=True to continue it")
        return screen

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if self.whole is None:
            self._known["all"] = self._of_run.product(self.data)
            self._known["all"].setflags(write=False)  # It is returned without a copy.
        return np.array(self.whole, dtype=dtype, copy=copy)

    @property
    def whole(self) -> Array | None:
        """All entries if they have been computed, else None."""
        return self._known.get("all")

    def __mul__(self, factor: Any) -> Any:
        if np.ndim(factor):
            return np.asarray(self) * factor
        return LazyGradient(factor * self.data, self.shape, self.screen)

    def __add__(self, other: Any) -> Any:
        # The second gradient belongs to this run; the first may come from a saved state.
        if isinstance(other, LazyGradient):
            return LazyGradient(self.data + other.data, self.shape, other.screen)
        return np.asarray(self) + np.asarray(other)

    __radd__ = __add__

    @property
    def flat(self) -> LazyGradient:
        return self

    def reshape(self, *shape: Any) -> Any:
        """Return the gradient itself if it stays a vector."""
        return self if shape in ((-1,), (self.shape,), self.shape) else np.asarray(self).reshape(*shape)

    def __getitem__(self, place: Any) -> Any:
        if self.whole is not None or not isinstance(place, int):
            return super().__getitem__(place)
        if place not in self._known:
            self._known[place] = self._of_run.entries(self.data, [place])[0]
        return self._known[place]

    def scores(self, atoms: Any) -> Array:
        """Use the entries of the atoms, or all entries if rounding would decide which atom is the best or worst."""
        positions = None if self.whole is not None else atoms.positions
        if positions is not None:
            places, largest = positions
            slack = 2 * largest * self._learn(places)
            scores = super().scores(atoms)
            ordered = np.sort(scores)
            if len(scores) == 1 or min(ordered[1] - ordered[0], ordered[-1] - ordered[-2]) > slack:
                return scores
        return atoms.products(np.asarray(self))

    def _learn(self, columns: Sequence[int]) -> float:
        """Compute these entries together, and bound their differences from those of the complete product."""
        new = [j for j in columns if j not in self._known]
        if new:
            self._known.update(zip(new, self._of_run.entries(self.data, new), strict=True))
        return float(self._of_run.slack(self.data, columns).max()) if columns else 0.0

    def argmin(self) -> int:
        """Return the place of the smallest entry."""
        return self._best(np.negative)

    def __abs__(self) -> _Modulus:
        return _Modulus(self)

    def _best(self, score: Score) -> int:
        found = None if self.whole is not None else self._of_run.candidates(self.data, score)
        if found is None:
            winner = int(score(np.asarray(self)).argmax())
        else:
            columns, values, best = found
            winner = int(columns[best])
            self._known[winner] = values[best]
        self._of_run.remember(winner)
        return winner


@dataclass(frozen=True, eq=False)
class _Modulus(_LikeArray):
    """Absolute values of a lazy gradient."""

    gradient: LazyGradient

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.abs(np.asarray(self.gradient, dtype=dtype))

    def argmax(self) -> int:
        return self.gradient._best(np.abs)
