"""The losses of the core, entry by entry, in operations that JAX traces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from fwflow._validation import InputError, suggest
from fwflow.objectives.losses import Huber as CoreHuber
from fwflow.objectives.losses import Logistic as CoreLogistic
from fwflow.objectives.losses import Loss, losses
from fwflow.objectives.losses import Squared as CoreSquared
from fwflow.objectives.losses import find_loss as find_core_loss


@dataclass(frozen=True)
class Squared(CoreSquared):
    """Least squares."""

    def second(self, z: Any, b: Any) -> Any:
        return jnp.ones_like(z)


@dataclass(frozen=True)
class Logistic(CoreLogistic):
    """For labels -1 and +1."""

    def values(self, z: Any, b: Any) -> Any:
        return jnp.log1p(jnp.exp(-jnp.abs(z))) - jnp.minimum(b * z, 0)

    def derivative(self, z: Any, b: Any) -> Any:
        return -b * jax.nn.sigmoid(-b * z)

    def second(self, z: Any, b: Any) -> Any:
        return jax.nn.sigmoid(z) * jax.nn.sigmoid(-z)


@dataclass(frozen=True)
class Huber(CoreHuber):
    """A parabola with straight ends."""

    def values(self, z: Any, b: Any) -> Any:
        r = z - b
        inside = jnp.clip(r, -self.rho, self.rho)
        return inside * (r - 0.5 * inside)

    def derivative(self, z: Any, b: Any) -> Any:
        return jnp.clip(z - b, -self.rho, self.rho)

    def second(self, z: Any, b: Any) -> Any:
        return (jnp.abs(z - b) <= self.rho).astype(z.dtype)


#: Losses of the core, and what stands for each of them here.
TWINS: Mapping[type[Loss], type[Loss]] = MappingProxyType(
    {CoreSquared: Squared, CoreLogistic: Logistic, CoreHuber: Huber}
)


def find_loss(loss: Any, rho: float) -> Loss:
    """The loss of that name, the twin of one of the core's, or an object whose members JAX can trace."""
    found = find_core_loss(loss, rho)
    if type(found) in TWINS:
        return TWINS[type(found)](**vars(found))
    if isinstance(loss, str):
        known = [name for name, kind in losses.items() if kind in TWINS]
        raise InputError(f"loss={loss!r} is not known to fwflow.jax; {suggest(loss, known)}")
    return found
