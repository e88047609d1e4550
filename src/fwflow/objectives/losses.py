"""Losses of linear models and matrix completion. A new loss is one class and one entry in `losses`.

The array functions come from the library of z, so that `fwflow.jax` uses the same classes.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from fwflow._numerics import namespace, quiet
from fwflow._validation import Array, InputError, find, ours, positive


class Loss(ABC):
    """Convex, smooth function of the prediction ``z`` and the datum ``b``, entry by entry.

    A new loss needs `value`, `derivative`, `second` and `curvature`; the other members are optional.
    """

    #: Upper bound on the second derivative.
    curvature: float
    #: Whether the second derivative is constant, so that line searches have a closed form.
    quadratic: bool = False
    #: Whether the data are class labels -1 and +1 instead of numbers.
    labels: bool = False
    #: Whether no value is below zero, which bounds what a larger set can gain.
    nonnegative: bool = False

    @property
    def trusted(self) -> bool:
        """Whether the derivatives are known to be those of the values. If not, a run compares both."""
        return ours(self)

    def check(self, b: Array) -> None:
        """Raise ValueError if the data are invalid for this loss."""
        return

    @abstractmethod
    def value(self, z: Array, b: Array) -> float:
        """Return the sum of the losses of all entries."""

    @abstractmethod
    def derivative(self, z: Array, b: Array) -> Array:
        """Return the first derivative in z, entry by entry."""

    @abstractmethod
    def second(self, z: Array, b: Array) -> Array:
        """Return the second derivative in z, entry by entry."""

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        """Return `value` and `derivative`. A loss that overrides it computes common terms once, with equal results."""
        return self.value(z, b), self.derivative(z, b)

    def values(self, z: Array, b: Array) -> Array | None:
        """Return the loss entry by entry, which weights need, or None."""
        return None

    def check_intercept(self, b: Array) -> None:
        """Raise ValueError if the optimal intercept for the data is infinite."""
        return


class EntrywiseLoss(Loss):
    """Loss that is defined by its values entry by entry."""

    @abstractmethod
    def values(self, z: Array, b: Array) -> Array:
        """Return the loss entry by entry."""

    def value(self, z: Array, b: Array) -> float:
        return float(self.values(z, b).sum())


@dataclass(frozen=True)
class Squared(EntrywiseLoss):
    r"""Squared loss :math:`(z - b)^2 / 2`."""

    curvature = 1.0
    quadratic = True
    nonnegative = True

    def values(self, z: Array, b: Array) -> Array:
        return 0.5 * (z - b) ** 2

    def derivative(self, z: Array, b: Array) -> Array:
        return z - b

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        r = z - b
        return 0.5 * float((r * r).sum()), r

    def second(self, z: Array, b: Array) -> Array:
        return namespace(z).ones_like(z)


@dataclass(frozen=True)
class Logistic(EntrywiseLoss):
    r"""Logistic loss :math:`\log(1 + e^{-b z})` with labels b in {-1, +1}."""

    curvature = 0.25
    labels = True
    nonnegative = True

    def check(self, b: Array) -> None:
        if not np.isin(b, (-1, 1)).all():
            raise InputError(f"b must hold labels -1 and +1 for the logistic loss; it holds {np.unique(b)[:4]}")

    def check_intercept(self, b: Array) -> None:
        if (b == b[0]).all():
            raise InputError(f"b holds the label {b[0]:g} only, so the optimal intercept is infinite")

    def values(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        return xp.log1p(xp.exp(-xp.abs(z))) - xp.minimum(b * z, 0.0)

    def value(self, z: Array, b: Array) -> float:
        return self._sum(_exp(b * z), z, b)

    def derivative(self, z: Array, b: Array) -> Array:
        return b / (-1.0 - _exp(b * z))

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        e = _exp(b * z)
        return self._sum(e, z, b), b / (-1.0 - e)

    def _sum(self, e: Array, z: Array, b: Array) -> float:
        """Return the sum of log(1 + 1/e), or of `values`, which take longer, if 1/e overflows."""
        total = float(quiet(_log1p_inverse, e).sum())
        return total if total < math.inf else float(self.values(z, b).sum())

    def second(self, z: Array, b: Array) -> Array:
        xp = namespace(z)
        e = xp.exp(-xp.abs(z))
        return e / (1 + e) ** 2


def _exp(bz: Array) -> Array:
    """Return the exponential, which may be infinite. JAX gets a finite one, because it differentiates by b."""
    if type(bz) is np.ndarray:
        return quiet(np.exp, bz)
    xp = namespace(bz)
    return xp.exp(xp.minimum(bz, 88.0 if bz.dtype == np.float32 else 709.0))


def _log1p_inverse(e: Array) -> Array:
    return np.log1p(1.0 / e)


@dataclass(frozen=True)
class Huber(EntrywiseLoss):
    r"""Huber loss: :math:`r^2/2` for :math:`|r| \le \rho`, else :math:`\rho (|r| - \rho/2)`; :math:`r = z - b`."""

    rho: float = 1.0
    curvature = 1.0
    nonnegative = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, "rho"))

    def values(self, z: Array, b: Array) -> Array:
        r = z - b
        inside = r.clip(-self.rho, self.rho)
        return inside * (r - 0.5 * inside)

    def derivative(self, z: Array, b: Array) -> Array:
        return (z - b).clip(-self.rho, self.rho)

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        r = z - b
        inside = r.clip(-self.rho, self.rho)
        return float((inside * (r - 0.5 * inside)).sum()), inside

    def second(self, z: Array, b: Array) -> Array:
        return (abs(z - b) <= self.rho).astype(z.dtype)


class Ahead(Loss):
    """Another loss at ``start + share * z``, as a function of z."""

    def __init__(self, loss: Loss, start: Array, share: float) -> None:
        self.loss, self.start, self.share = loss, start, share
        self.curvature, self.quadratic = share**2 * loss.curvature, loss.quadratic

    def value(self, z: Array, b: Array) -> float:
        return self.loss.value(self.start + self.share * z, b)

    def values(self, z: Array, b: Array) -> Array | None:
        return self.loss.values(self.start + self.share * z, b)

    def derivative(self, z: Array, b: Array) -> Array:
        return self.share * self.loss.derivative(self.start + self.share * z, b)

    def value_and_derivative(self, z: Array, b: Array) -> tuple[float, Array]:
        value, slopes = self.loss.value_and_derivative(self.start + self.share * z, b)
        return value, self.share * slopes

    def second(self, z: Array, b: Array) -> Array:
        return self.share**2 * self.loss.second(self.start + self.share * z, b)


#: Losses by name. Error messages, the command line, the estimators and the documentation use these names.
losses: Mapping[str, type[Any]] = MappingProxyType(
    {
        "squared": Squared,
        "logistic": Logistic,
        "huber": Huber,
    }
)


def find_loss(loss: str | Loss, rho: float) -> Loss:
    """Return the loss of that name, or the object itself; losses with a parameter get ``rho``."""

    def make(kind: Any) -> Loss:
        return kind(rho=rho) if "rho" in kind.__dataclass_fields__ else kind()

    return find(loss, "loss", losses, Loss, make)
