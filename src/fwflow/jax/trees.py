"""How do the objects of a problem travel through ``jit`` and ``vmap``? As trees of arrays beside what is static."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_pytree_node

Array = jax.Array
Kind = TypeVar("Kind", bound=type)


def pytree(*static: str) -> Callable[[Kind], Kind]:
    """Make a dataclass a tree of its fields but for the static ones, which must be hashable.

    What JAX puts together again is not validated again: its leaves may be tracers, or no arrays at all.
    """

    def register(kind: Kind) -> Kind:
        data = tuple(field.name for field in fields(kind) if field.name not in static)

        def flatten(value: Any) -> tuple[list[Any], tuple[Any, ...]]:
            members = vars(value)
            return [members[name] for name in data], tuple(members[name] for name in static)

        def unflatten(constants: tuple[Any, ...], leaves: Any) -> Any:
            value: Any = object.__new__(kind)
            vars(value).update(zip(data, leaves, strict=True), **dict(zip(static, constants, strict=True)))
            return value

        register_pytree_node(kind, flatten, unflatten)
        return kind

    return register


def known(value: Any) -> bool:
    """Whether the numbers are there to be looked at: not while JAX traces."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def positive(value: Any, name: str) -> Any:
    """A number or an array of them, positive and finite as far as that is known."""
    if known(value) and not (np.isfinite(value) & (np.asarray(value) > 0)).all():
        raise ValueError(f"{name} must be positive and finite; got {value!r}")
    return value


def epsilon(dtype: Any) -> float:
    """The rounding of numbers of that type."""
    return float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def floating(value: Any) -> Array:
    """An array of floats, of a type that is enabled now: data may come from where double precision was."""
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    kind = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(kind))


def inner(a: Array, b: Array) -> Array:
    """The inner product of two arrays. A sum, not a product of matrices, whose default precision may be low."""
    return (a * b).sum()
