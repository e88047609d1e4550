"""How do the objects of a problem travel through ``jit`` and ``vmap``? As trees of arrays beside what is static."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, check_jaxpr, subjaxprs
from jax.tree_util import register_pytree_node

Array = jax.Array

#: Without it XLA tries many kernels for every product: 23 s of compiling, not 2, on an H200, for equal speed.
OPTIONS = {"xla_gpu_enable_triton_gemm": False}
_WIDE = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.complex128))
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


def traced() -> bool:
    """Whether this is called inside of a ``jit``, where even constants are traced."""
    return not known(jnp.zeros(()))


def positive(value: Any, name: str) -> Any:
    """Return a number or an array of them that are positive and finite, or NaN where a traced one is not."""
    if not known(value):
        return valid(jnp.isfinite(value) & (value > 0), value)
    if not (np.isfinite(value) & (np.asarray(value) > 0)).all():
        raise ValueError(f"{name} must be positive and finite; got {value!r}")
    return value


def valid(where: Any, value: Any) -> Array:
    """Return the value, with NaN where it is not valid: a traced value cannot raise, and NaN ends the run."""
    return jnp.where(where, value, jnp.nan)


def epsilon(dtype: Any) -> float:
    """The rounding of numbers of that type."""
    return float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def floating(value: Any) -> Array:
    """An array of floats, of a type that is enabled now: data may come from where double precision was."""
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    kind = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(kind))


def doubles(fun: Callable[[Array], Any], x: Array) -> bool:
    """Return whether a function computes in double precision, and is the same function, at a double-precision x.

    It is not if it rounds to a narrower type, or draws random numbers, which differ in double precision. JAX cannot
    compile it if it calls the host, or closes over 64-bit arrays, which have another type in the rest of the run.
    """
    with jax.enable_x64(True):
        try:
            closed = jax.make_jaxpr(fun)(jax.ShapeDtypeStruct(x.shape, jnp.float64))  # type: ignore[no-untyped-call]
            check_jaxpr(closed.jaxpr)
        except Exception:  # A function that expects another type may raise anything.
            return False
    wide = any(known(constant) and constant.dtype in _WIDE for constant in closed.consts)
    return not wide and not _narrows(closed.jaxpr)


def _narrows(jaxpr: Jaxpr) -> bool:
    def narrow(equation: Any) -> bool:
        name = equation.primitive.name
        if name == "convert_element_type":
            kind = equation.params["new_dtype"]
            return bool(jnp.issubdtype(kind, jnp.floating)) and kind != jnp.float64
        return any(word in name for word in ("random", "threefry", "callback"))

    return any(map(narrow, jaxpr.eqns)) or any(map(_narrows, subjaxprs(jaxpr)))


def inner(a: Array, b: Array) -> Array:
    """The inner product of two arrays. A sum, not a product of matrices, whose default precision may be low."""
    return (a * b).sum()
