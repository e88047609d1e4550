"""Pytrees of arrays and static values, checks of values that may be traced, and small numerical functions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jax.extend.core import Jaxpr, check_jaxpr, jaxpr_as_fun, subjaxprs
from jax.tree_util import register_pytree_node

from fwflow._validation import InputError

Array = jax.Array

#: Options of XLA. With Triton, XLA tries many kernels for every product: compiling takes 23 s instead of 2 s on an
#: H200, and the run is not faster.
OPTIONS = {"xla_gpu_enable_triton_gemm": False}
# Types of 64 bits, in which JAX holds arrays only if double precision is enabled.
_WIDE = (np.dtype(np.float64), np.dtype(np.int64), np.dtype(np.uint64), np.dtype(np.complex128))
Kind = TypeVar("Kind", bound=type)
Tree = TypeVar("Tree")


@dataclass_transform(frozen_default=True, eq_default=False)
def pytree(*static: str) -> Callable[[Kind], Kind]:
    """Make a class a frozen dataclass that is a pytree of its fields; the static ones must be hashable."""
    return lambda kind: register(dataclass(frozen=True, eq=False)(kind), *static)  # type: ignore[return-value]


def register(kind: Kind, *static: str) -> Kind:
    """Register a dataclass as a pytree of its fields that are not static.

    Objects that JAX rebuilds skip the checks of the constructor, because their leaves may be tracers or no arrays.
    """
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


def is_concrete(value: Any) -> bool:
    """Return whether all numbers of a pytree have values, which tracers do not have."""
    return not any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(value))


def checked(value: Any, name: str, wanted: str, accepts: Callable[[Any], Any]) -> Any:
    """Return a number or an array; raise unless all entries are accepted. `wanted` completes "name must".

    A traced value cannot raise. Its entries that are not accepted become NaN, which ends the run.
    """
    if not is_concrete(value):
        return jnp.where(accepts(value), value, jnp.nan)
    if not accepts(np.asarray(value)).all():
        raise InputError(f"{name} must {wanted}; got {value!r}")
    return value


@jax.custom_jvp
def undifferentiated(tree: Tree) -> Tree:
    """Return a tree without derivatives, because loops of unknown length have no reverse mode."""
    return tree


@undifferentiated.defjvp
def _(primals: Any, tangents: Any) -> Any:
    raise InputError(
        "fwj.minimize cannot be differentiated; differentiate x = fwj.solution(f, C), or f.value(f.point(x)) for "
        "the value"
    )


def opened(fun: Callable[..., Any], *example: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Return a function of a list of numbers and the arguments of `fun`, and the list for which it is equal to `fun`.

    The list holds the traced numbers that `fun` closes over, to which no rule for arguments would apply. Without such
    numbers, `fun` is returned.
    """

    def with_list(numbers: Sequence[Any], *args: Any) -> Any:
        closed, given = jax.make_jaxpr(fun)(*args), iter(numbers)
        constants = [constant if is_concrete(constant) else next(given) for constant in closed.consts]
        return jaxpr_as_fun(closed.replace(consts=constants))(*jax.tree.leaves(args))[0]  # type: ignore[no-untyped-call]

    found = [constant for constant in jax.make_jaxpr(fun)(*example).consts if not is_concrete(constant)]
    return (with_list if found else fun), found


def epsilon(dtype: Any) -> float:
    """Return the distance from 1 to the next number of a floating type."""
    return float(jnp.finfo(dtype).eps)  # type: ignore[no-untyped-call]


def floating(value: Any) -> Array:
    """Return an array of floats; float64 becomes float32 unless double precision is enabled."""
    array = value if isinstance(value, jax.Array) else np.asarray(value)
    kind = array.dtype if jnp.issubdtype(array.dtype, jnp.floating) else float
    return jnp.asarray(array, jax.dtypes.canonicalize_dtype(kind))


def computes_in_double(fun: Callable[[Array], Any], x: Array) -> bool:
    """Return whether a function of a double-precision x is the same function, computed in double precision.

    It is not if it rounds to a narrower type or draws random numbers, which differ in double precision. JAX cannot
    compile it if it calls the host or closes over 64-bit arrays, which have another type in the rest of the run.
    """
    with jax.enable_x64(True):
        try:
            closed = jax.make_jaxpr(fun)(jax.ShapeDtypeStruct(x.shape, jnp.float64))  # type: ignore[no-untyped-call]
            check_jaxpr(closed.jaxpr)
        except Exception:  # A function that expects another type may raise anything.
            return False
    wide = any(is_concrete(constant) and constant.dtype in _WIDE for constant in closed.consts)
    return not wide and not _narrows(closed.jaxpr)


def widened(tree: Tree, kind: Any) -> Tree:
    """Return a tree with its floating arrays in at least this type, so that products of two of them have it too."""

    def wide(leaf: Any) -> Any:
        floats = isinstance(leaf, jax.Array | np.ndarray) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return jnp.asarray(leaf, jnp.promote_types(leaf.dtype, kind)) if floats else leaf

    return jax.tree.map(wide, tree)


def in_double(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of pytrees that is computed in double precision, under ``vmap`` too.

    Without a rule of its own, ``vmap`` would transform the function outside `jax.enable_x64`, and some products would
    have results in single precision.
    """

    @custom_vmap
    def wide(*args: Any) -> Any:
        with jax.enable_x64(True):
            return fun(*args)

    @wide.def_vmap
    def _(size: int, batched: Any, *args: Any) -> Any:
        leaves, structure = jax.tree.flatten(args)
        axes = [0 if each else None for each in jax.tree.leaves(batched)]

        def on_leaves(*leaves: Any) -> Any:
            return fun(*jax.tree.unflatten(structure, leaves))

        value = in_double(jax.vmap(on_leaves, axes, axis_size=size))(*leaves)
        return value, jax.tree.map(lambda _: True, value)

    return wide


def _narrows(jaxpr: Jaxpr) -> bool:
    def narrow(equation: Any) -> bool:
        name = equation.primitive.name
        if name == "convert_element_type":
            kind = equation.params["new_dtype"]
            return bool(jnp.issubdtype(kind, jnp.floating)) and kind != jnp.float64
        return any(word in name for word in ("random", "threefry", "callback"))

    return any(map(narrow, jaxpr.eqns)) or any(map(_narrows, subjaxprs(jaxpr)))


def inner(a: Array, b: Array) -> Array:
    """Return the inner product of two arrays, as a sum: products of matrices have a low default precision in JAX."""
    return (a * b).sum()


def either(first: Any, a: Tree, b: Tree) -> Tree:
    """Return the pytree a if `first` is true, otherwise b. Both are computed."""
    return jax.tree.map(partial(jnp.where, first), a, b)


def blocks(x: Array, shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    """Return the consecutive blocks of a vector, in these shapes."""
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    return [part.reshape(shape) for part, shape in zip(jnp.split(x.reshape(-1), ends), shapes, strict=True)]
