"""Linear models: a loss of the predictions A x and the data b."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import dot
from fwflow._validation import Array, InputError
from fwflow.designs import CountedDesign, Counts
from fwflow.objectives.base import Batch, Objective
from fwflow.objectives.image_based import DesignImage, LossOfImage, checked_weights, image_of, scale_factor, targets
from fwflow.objectives.losses import Loss, find_loss
from fwflow.objectives.screening import LazyGradient, Screen, pays
from fwflow.points.point import Point
from fwflow.points.vertices import freeze


@dataclass(frozen=True, eq=False)
class RowBatch(Batch):
    """Rows of the data, with their targets and factors."""

    A: Any
    b: Array
    factor: Any
    loss: Loss

    def slopes(self, x: Array) -> Array:
        return np.asarray(self.factor * self.loss.derivative(np.asarray(dot(self.A, x)), self.b))

    def gradient(self, slopes: Array) -> Array:
        return np.asarray(dot(slopes, self.A)) / len(slopes)


class LinearModel(DesignImage, LossOfImage):
    r""":math:`f(x) = \frac1m \sum_i \ell(a_i^T x, b_i)`, or the plain sum.

    The image A x is carried from step to step, so a gradient is exactly one pass over A, and a
    line search makes none.

    Parameters
    ----------
    A : (m, n) array, SciPy sparse matrix, Dask array, or Design
        Dense data is not copied; sparse data is kept as CSC, converted once if it is not. Data that is not copied or
        converted may be changed in place between two runs, and the second sees the new numbers. A Dask array stays with
        its workers, see `designs.Distributed`; for files that memory cannot hold there is `designs.open`.
    b : (m,) array_like
        Targets, or labels -1 and +1 for the logistic loss. Not copied either.
    loss : str or Loss
        A name in ``fwflow.objectives.losses.losses``, for example "squared" or "logistic", or an object.
        ``fwflow list losses`` prints all names.
    scale : {"mean", "sum"}
    rho : float
        Parameter of losses that have one: where "huber" turns linear.
    weights : (m,) array_like, optional
        Non-negative factors of the losses; the mean is then the weighted one. Two of the same row weigh as much as one
        with twice the weight.
    intercept : bool
        Add a constant to A x, free of all constraints, and minimise over it: :math:`f(x) = \min_c \sum_i
        \ell(a_i^T x + c, b_i)`; `intercept_at` returns c. Sparse data stays sparse: of matrices in memory, only
        columns that are nearly constant are centred, in a copy of those columns.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.LinearModel(np.eye(2), [1.0, 3.0], loss="squared", scale="sum")
    >>> f.value(f.point([0.0, 0.0]))
    5.0

    Targets that are all moved by a constant move the intercept:

    >>> f = fw.LinearModel(np.eye(2), [10.0, 12.0], intercept=True)
    >>> f.intercept_at(np.zeros(2))
    11.0
    """

    _screen: Screen | None = None

    def __init__(
        self,
        A: Any,
        b: ArrayLike,
        loss: str | Loss = "squared",
        *,
        scale: str = "mean",
        rho: float = 1.0,
        weights: ArrayLike | None = None,
        intercept: bool = False,
    ) -> None:
        super().__init__(A)
        m = self.design.shape[0]
        self.loss = find_loss(loss, rho)
        self.b = targets(b, self.design.dtype)
        if len(self.b) != m:
            raise InputError(f"b has {len(self.b)} entries; A has {m} rows, and they must agree")
        self.loss.check(self.b)
        self.weights, self.intercept = checked_weights(weights, self.loss, self.b), bool(intercept)
        total = float(m if self.weights is None else self.weights.sum(dtype=np.float64))
        self.factor = scale_factor(scale, total)
        if self.intercept:
            self.loss.check_intercept(self.b if self.weights is None else self.b[self.weights > 0])

    def counted_by(self, counts: Counts) -> Self:
        watched = super().counted_by(counts)
        if self.intercept:
            watched.design = CountedDesign(self.design.centred(), counts)
        return watched

    def _settings(self) -> tuple[Any, ...]:
        plain = self.weights is None and not self.intercept
        return (self.loss, self.factor) if plain else (self.loss, self.factor, self.weights, self.intercept)

    @property
    def trusted(self) -> bool:
        return super().trusted and self.design.trusted

    def intercept_at(self, x: Any) -> float:
        """The constant that is best at x: 0 without an intercept."""
        return self._shift(image_of(self.point(x, "x"))) if self.intercept else 0.0

    def screened(self) -> Self:
        if not pays(self.design):
            return self
        twin = copy.copy(self)
        twin._screen = Screen(self.design)
        return twin

    def precise(self) -> Objective:
        whole = copy.copy(super().precise())
        whole._screen = None  # type: ignore[attr-defined]
        return whole

    def gradient(self, point: Point) -> Array | LazyGradient:
        if self._screen is not None:
            return LazyGradient(self.dual(point), self.shape, ref(self._screen))
        g = np.array(self.design.rmatvec(self.dual(point)), dtype=self.dtype)  # a design may use its array again
        freeze(g)
        return g

    def gradients(self, points: Sequence[Point]) -> Array | None:
        return self.design.rmatmat(np.stack([self.dual(point) for point in points]))

    def partial(self, point: Point, place: slice) -> Array | None:
        return self.design.some_columns(self.dual(point), np.arange(place.start, place.stop))

    @property
    def n_rows(self) -> int | None:
        """None with an intercept, which is known only from all rows."""
        return None if self.intercept else self.design.shape[0]

    def batch(self, rows: Array) -> RowBatch | None:
        A = None if self.intercept else self.design.some_rows(rows)
        if A is None:
            return None
        factor = self.factor * len(self.b)
        return RowBatch(A, self.b[rows], factor if self.weights is None else factor * self.weights[rows], self.loss)
