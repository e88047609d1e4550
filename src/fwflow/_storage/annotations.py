"""Check of values against annotations, for every field that is written to a file or read from one."""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any, Literal, Protocol, Union, get_args, get_origin

import numpy as np

Seen = dict[tuple[int, Any], bool]

_PLAIN = {type(None), bool, int, float, str, bytes}


def fits(value: Any, hint: Any, seen: Seen) -> bool:
    """Return whether a value and its contents have the type of an annotation.

    `seen` keeps results by identity, so that parts that are shared many times are checked once. Annotations that do not
    describe data (a protocol, a type variable) accept every value.
    """
    if hint is Any:
        return True
    if hint is float:
        return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int | np.integer) and not isinstance(value, bool)
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    origin, args = get_origin(hint), get_args(hint)
    if origin is None:
        return not isinstance(hint, type) or isinstance(hint, type(Protocol)) or isinstance(value, hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, arg, seen) for arg in args)
    if origin is Literal:
        return value in args
    if not isinstance(origin, type) or not isinstance(value, origin):
        return not isinstance(origin, type)
    if (id(value), hint) not in seen:
        seen[id(value), hint] = _contents_fit(value, origin, args, seen)
    return seen[id(value), hint]


def _contents_fit(value: Any, origin: type[Any], args: tuple[Any, ...], seen: Seen) -> bool:
    if issubclass(origin, tuple) and Ellipsis not in args:
        return len(value) == len(args) and all(fits(item, arg, seen) for item, arg in zip(value, args, strict=True))
    if issubclass(origin, Mapping):
        return all(fits(key, args[0], seen) and fits(item, args[1], seen) for key, item in value.items())
    if issubclass(origin, Iterable) and not isinstance(value, np.ndarray):
        of_type = {type(item): item for item in value}  # one plain value of each type is enough
        return all(fits(item, args[0], seen) for item in (of_type.values() if of_type.keys() <= _PLAIN else value))
    return True
