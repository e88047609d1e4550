"""How much does one residual cost? The losses of linear models and matrix completion, entry by entry.

Each loss is a convex function of a prediction z with data b: its value, first and second
derivative in z, and a bound on the second derivative. A new loss is one class and one entry.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fwflow._validation import Array, positive, suggest


class Loss(ABC):
    """A convex, smooth function of the prediction ``z`` given the datum ``b``, entry by entry.

    A new loss needs `value`, `derivative`, `second` and `curvature`.
    """

    #: Upper bound on the second derivative.
    curvature: float
    #: Whether the second derivative is constant, so that line searches have a closed form.
    quadratic: bool = False

    def check(self, b: Array) -> None:
        """Raise ValueError, naming ``b``, if the data cannot be meant for this loss."""
        return

    @abstractmethod
    def value(self, z: Array, b: Array) -> float:
        """Sum over the entries."""

    @abstractmethod
    def derivative(self, z: Array, b: Array) -> Array:
        """First derivative in z, entry by entry."""

    @abstractmethod
    def second(self, z: Array, b: Array) -> Array:
        """Second derivative in z, entry by entry."""


@dataclass(frozen=True)
class Squared(Loss):
    r""":math:`(z - b)^2 / 2`."""

    curvature = 1.0
    quadratic = True

    def value(self, z: Array, b: Array) -> float:
        r = z - b
        return 0.5 * float(r @ r)

    def derivative(self, z: Array, b: Array) -> Array:
        return z - b

    def second(self, z: Array, b: Array) -> Array:
        return np.ones_like(z)


@dataclass(frozen=True)
class Logistic(Loss):
    r""":math:`\log(1 + e^{-b z})` with labels b in {-1, +1}."""

    curvature = 0.25

    def check(self, b: Array) -> None:
        if not np.isin(b, (-1, 1)).all():
            raise ValueError(f"b must hold labels -1 and +1 for the logistic loss; it holds {np.unique(b)[:4]}")

    # All three use exp(-|z|), which neither overflows nor costs more than one exponential; |bz| = |z|.
    def value(self, z: Array, b: Array) -> float:
        return float(np.log1p(np.exp(-np.abs(z))).sum() - np.minimum(b * z, 0).sum())

    def derivative(self, z: Array, b: Array) -> Array:
        e = np.exp(-np.abs(z))
        return np.where(b * z > 0, -b * e, -b) / (1 + e)

    def second(self, z: Array, b: Array) -> Array:
        e = np.exp(-np.abs(z))
        return e / (1 + e) ** 2


@dataclass(frozen=True)
class Huber(Loss):
    r""":math:`r^2/2` for :math:`|r| \le \rho`, else :math:`\rho (|r| - \rho/2)`, with :math:`r = z - b`."""

    rho: float = 1.0
    curvature = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, "rho"))

    def value(self, z: Array, b: Array) -> float:
        r = z - b
        inside = np.clip(r, -self.rho, self.rho)
        return float(inside @ r - 0.5 * (inside @ inside))

    def derivative(self, z: Array, b: Array) -> Array:
        return np.clip(z - b, -self.rho, self.rho)

    def second(self, z: Array, b: Array) -> Array:
        return (np.abs(z - b) <= self.rho).astype(z.dtype)


@dataclass(frozen=True, eq=False)
class Parabola(Loss):
    r""":math:`d z^2/2 - p z` with a d and a p for every entry, whatever b is: a quadratic model of another loss."""

    d: Array
    p: Array
    curvature: float
    quadratic: bool = True

    def value(self, z: Array, b: Array) -> float:
        return float((0.5 * self.d * z - self.p) @ z)

    def derivative(self, z: Array, b: Array) -> Array:
        return self.d * z - self.p

    def second(self, z: Array, b: Array) -> Array:
        return self.d


#: Losses by name. ``rho`` is passed to those that have it.
losses: Mapping[str, type[Any]] = MappingProxyType({"squared": Squared, "logistic": Logistic, "huber": Huber})


def find_loss(loss: str | Loss, rho: float) -> Loss:
    """The loss of that name, or the object itself."""
    if not isinstance(loss, str):
        if not isinstance(loss, Loss):
            raise ValueError(f"loss must be a name or a Loss; got {loss!r}")
        return loss
    if loss not in losses:
        raise ValueError(f"loss={loss!r} is not known; {suggest(loss, losses)}")
    kind = losses[loss]
    return kind(rho=rho) if "rho" in kind.__dataclass_fields__ else kind()
