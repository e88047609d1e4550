"""How much does one residual cost? The losses of linear models and matrix completion, entry by entry.

Each loss is a convex function of a prediction z with data b: its value, first and second
derivative in z, and a bound on the second derivative. A new loss is one class and one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np

from fwflow._validation import Array, positive, suggest


class Loss(Protocol):
    """A convex, smooth function of the prediction ``z`` given the datum ``b``, entry by entry."""

    @property
    def curvature(self) -> float:
        """Upper bound on the second derivative."""
        ...

    @property
    def quadratic(self) -> bool:
        """Whether the second derivative is constant, so that line searches have a closed form."""
        ...

    def check(self, b: Array) -> None:
        """Raise ValueError, naming ``b``, if the data cannot be meant for this loss."""
        ...

    def value(self, z: Array, b: Array) -> float:
        """Sum over the entries."""
        ...

    def derivative(self, z: Array, b: Array) -> Array: ...

    def second(self, z: Array, b: Array) -> Array: ...


@dataclass(frozen=True)
class Squared:
    r""":math:`(z - b)^2 / 2`."""

    curvature: ClassVar[float] = 1.0
    quadratic: ClassVar[bool] = True

    def check(self, b: Array) -> None: ...

    def value(self, z: Array, b: Array) -> float:
        r = z - b
        return 0.5 * float(r @ r)

    def derivative(self, z: Array, b: Array) -> Array:
        return z - b

    def second(self, z: Array, b: Array) -> Array:
        return np.ones_like(z)


@dataclass(frozen=True)
class Logistic:
    r""":math:`\log(1 + e^{-b z})` with labels b in {-1, +1}."""

    curvature: ClassVar[float] = 0.25
    quadratic: ClassVar[bool] = False

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
class Huber:
    r""":math:`r^2/2` for :math:`|r| \le \rho`, else :math:`\rho (|r| - \rho/2)`, with :math:`r = z - b`."""

    rho: float = 1.0
    curvature: ClassVar[float] = 1.0
    quadratic: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", positive(self.rho, "rho"))

    def check(self, b: Array) -> None: ...

    def value(self, z: Array, b: Array) -> float:
        r = z - b
        inside = np.clip(r, -self.rho, self.rho)
        return float(inside @ r - 0.5 * (inside @ inside))

    def derivative(self, z: Array, b: Array) -> Array:
        return np.clip(z - b, -self.rho, self.rho)

    def second(self, z: Array, b: Array) -> Array:
        return (np.abs(z - b) <= self.rho).astype(z.dtype)


@dataclass(frozen=True, eq=False)
class Parabola:
    r""":math:`d z^2/2 - p z` with a d and a p for every entry, whatever b is: a quadratic model of another loss."""

    d: Array
    p: Array
    curvature: float
    quadratic: bool = True

    def check(self, b: Array) -> None: ...

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
        if not all(hasattr(loss, name) for name in ("value", "derivative", "second", "curvature")):
            raise ValueError(f"loss must be a name or a Loss; got {loss!r}")
        return loss
    if loss not in losses:
        raise ValueError(f"loss={loss!r} is not known; {suggest(loss, losses)}")
    kind = losses[loss]
    return kind(rho=rho) if "rho" in kind.__dataclass_fields__ else kind()
