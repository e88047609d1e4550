"""Losses of A x against data b: least squares, logistic and Huber regression."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Self
from weakref import ref

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, suggest
from fwflow.objectives.base import Objective
from fwflow.objectives.images import DesignImage, LossOfImage, targets
from fwflow.objectives.losses import Loss, find_loss
from fwflow.objectives.screening import LazyGradient, Screen, pays
from fwflow.points import Point


class LinearModel(DesignImage, LossOfImage):
    r""":math:`f(x) = \frac1m \sum_i \ell(a_i^T x, b_i)`, or the plain sum.

    The image A x is carried from step to step, so a gradient is exactly one pass over A, and a
    line search makes none.

    Parameters
    ----------
    A : (m, n) array, SciPy sparse matrix, or Design
        Dense data is not copied; sparse data is kept as CSC, converted once if it is not. Data that is not copied or
        converted may be changed in place between two runs, and the second sees the new numbers.
    b : (m,) array_like
        Targets, or labels -1 and +1 for the logistic loss. Not copied either.
    loss : {"squared", "logistic", "huber"} or Loss
    scale : {"mean", "sum"}
    rho : float
        Where the Huber loss turns linear.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.LinearModel(np.eye(2), [1.0, 3.0], loss="squared", scale="sum")
    >>> f.value(f.point([0.0, 0.0]))
    5.0
    """

    _screen: Screen | None = None

    def __init__(
        self, A: Any, b: ArrayLike, loss: str | Loss = "squared", *, scale: str = "mean", rho: float = 1.0
    ) -> None:
        super().__init__(A)
        m = self.design.shape[0]
        self.loss = find_loss(loss, rho)
        self.b = targets(b, self.design.dtype)
        if len(self.b) != m:
            raise ValueError(f"b has {len(self.b)} entries; A has {m} rows, and they must agree")
        self.loss.check(self.b)
        if scale not in ("mean", "sum"):
            raise ValueError(f"scale={scale!r} is not known; {suggest(scale, ('mean', 'sum'))}")
        self.factor = 1.0 / m if scale == "mean" else 1.0

    def _settings(self) -> tuple[Any, ...]:
        return self.loss, self.factor

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
        return np.array(self.design.rmatvec(self.dual(point)), dtype=self.dtype)

    def gradients(self, points: Sequence[Point]) -> Array | None:
        return self.design.rmatmat(np.stack([self.dual(point) for point in points]))
