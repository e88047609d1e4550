"""Registry of the classes whose objects may be part of a state, and the check of values against annotations."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fwflow._validation import Array

T = TypeVar("T")

#: Results of `fits` by the identity of the value and the annotation.
Seen = dict[tuple[int, Any], bool]

_PLAIN = {type(None), bool, int, float, str, bytes}


def storable(
    name: str, *attributes: str, make: str = "", valid: Callable[[Any], bool] | None = None
) -> Callable[[type[T]], type[T]]:
    """Register a class whose objects may be part of a state, so that `State.save` can write them.

    A state holds data: None, numbers, text, bytes, arrays of numbers, tuples, lists and dicts, and objects of
    registered classes. Only the arguments of the constructor of an object are stored, and reading calls the
    constructor with them. Fields are checked against their annotations when they are written and read. An object that
    a state holds twice is one object after reading, too.

    Parameters
    ----------
    name : str
        Name of the class in files. Keep it when the class is renamed or moved.
    *attributes : str
        Names of the attributes that the constructor takes, in its order. By default the fields of a dataclass, except
        those with ``init=False``, or of a named tuple.
    make : str
        Name of a class method to call instead of the constructor.
    valid : callable, optional
        Function that returns whether an object is valid. Invalid objects are refused.

    See Also
    --------
    State : State of a run, which can be saved.
    Method : Its memory is part of a state.
    Momentum : Its memory is part of a state.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> from dataclasses import dataclass
    >>> @fw.storable("example-memory", valid=lambda memory: memory.seen >= 0)
    ... @dataclass(frozen=True)
    ... class Memory:
    ...     average: np.ndarray
    ...     seen: int = 0
    >>> Memory(np.zeros(2)).seen
    0
    """

    def register(cls: type[T]) -> type[T]:
        if not (attributes or is_dataclass(cls) or issubclass(cls, tuple)):
            raise ValueError(
                f"storable: {cls.__name__} is neither a dataclass nor a named tuple; put @storable above @dataclass, "
                "or give the names of the attributes that its constructor takes"
            )
        taken = by_name[name].cls if name in by_name else cls
        if (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"storable: the name {name!r} belongs to {taken.__module__}.{taken.__qualname__}")
        factory = getattr(cls, make) if make else cls
        by_name[name] = by_class[cls] = Kind(name, cls, attributes, factory, valid)
        return cls

    return register


@dataclass(frozen=True, eq=False)
class Kind:
    """Registered class: the stored attributes of its objects, and their constructor."""

    name: str
    cls: type[Any]
    named: tuple[str, ...]
    factory: Callable[..., Any]
    valid: Callable[[Any], bool] | None

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Names of the stored attributes."""
        if self.named:
            return self.named
        return tuple(f.name for f in fields(self.cls) if f.init) if is_dataclass(self.cls) else self.cls._fields

    @cached_property
    def _hints(self) -> tuple[Any, ...]:
        try:
            hints = get_type_hints(self.cls)
            if self.named:
                hints |= get_type_hints(self.cls.__init__ if self.factory is self.cls else self.factory)
        except NameError:  # a class inside a function, whose annotations cannot be resolved
            return (Any,) * len(self.attributes)
        names = [*inspect.signature(self.factory).parameters] if self.named else self.attributes
        return tuple(hints.get(name, Any) for name in names[: len(self.attributes)])

    def fault(self, values: Sequence[Any], seen: Seen) -> tuple[str, str] | None:
        """Return the first attribute that does not fit its annotation, and a description of the fault."""
        for name, value, hint in zip(self.attributes, values, self._hints, strict=True):
            if not fits(value, hint, seen):
                wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
                return name, f"is a {type(value).__name__} where {self.cls.__name__} says {wanted}"
        return None

    def made(self, values: Sequence[Any]) -> Any:
        """Return the object with these attributes."""
        return self.factory(*values) if self.named else self.cls(**dict(zip(self.attributes, values, strict=True)))


by_name: dict[str, Kind] = {}
by_class: dict[type[Any], Kind] = {}


def places_within(places: Array, size: int) -> bool:
    """Return whether an array holds indices from 0 to ``size - 1``."""
    whole = places.ndim == 1 and places.dtype.kind in "iu"
    return whole and (not len(places) or bool(places.min() >= 0 and places.max() < size))


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
