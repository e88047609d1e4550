"""Registry of the classes whose objects may be part of a state, and the check of values against annotations."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from fwflow._validation import Array, InputError

T = TypeVar("T")

#: Results of `fits` by the identity of the value and the annotation.
Seen = dict[tuple[int, Any], bool]

# Types of the values that an annotation by a type of numbers accepts.
_NUMBERS = {float: int | float | np.integer | np.floating, int: int | np.integer, bool: bool | np.bool_}


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
        by_name[name] = by_class[cls] = Kind(name, cls, attributes, factory, valid or (lambda made: True))
        return cls

    return register


@dataclass(frozen=True, eq=False)
class Kind:
    """Registered class: the stored attributes of its objects, and their constructor."""

    name: str
    cls: type[Any]
    named: tuple[str, ...]
    factory: Callable[..., Any]
    valid: Callable[[Any], bool]

    @cached_property
    def _hints(self) -> dict[str, Any]:
        """Annotations of the parameters of the constructor."""
        parameters = [*inspect.signature(self.factory).parameters]
        try:
            hints = get_type_hints(self.cls)
            if self.named:
                hints |= get_type_hints(self.cls.__init__ if self.factory is self.cls else self.factory)
        except NameError:  # a class inside a function, whose annotations cannot be resolved
            hints = {}
        return {name: hints.get(name, Any) for name in parameters[: len(self.named) or None]}

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the stored attributes."""
        return self.named or tuple(self._hints)

    def check(self, values: Sequence[Any], seen: Seen, what: str = "") -> None:
        """Raise an error that names the first attribute which does not fit its annotation."""
        for name, value, hint in zip(self.attributes, values, self._hints.values(), strict=True):
            if not fits(value, hint, seen):
                wanted = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")
                raise InputError(f"{what}.{name} is a {type(value).__name__} where {self.cls.__name__} says {wanted}")

    def made(self, values: Sequence[Any]) -> Any:
        """Return the object with these attributes."""
        return self.factory(*values) if self.named else self.factory(**dict(zip(self._hints, values, strict=True)))


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
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, arg, seen) for arg in args)
    if origin is Literal:
        return value in args
    cls = origin or hint
    if hint is Any or not isinstance(cls, type) or isinstance(cls, type(Protocol)):
        return True
    if not isinstance(value, _NUMBERS.get(cls, cls)) or (isinstance(value, bool) and cls in (int, float)):
        return False
    if not args or not isinstance(value, tuple | list | dict):  # parts of other objects have their own annotations
        return True
    if (id(value), hint) not in seen:
        seen[id(value), hint] = _contents_fit(value, cls, args, seen)
    return seen[id(value), hint]


def _contents_fit(value: Any, cls: type[Any], args: tuple[Any, ...], seen: Seen) -> bool:
    items, hints = value, args
    if isinstance(value, dict):
        items, hints = [part for item in value.items() for part in item], args * len(value)
    elif cls is not tuple or Ellipsis in args:
        # Whether an item fits a class depends on its type only.
        items = {type(item): item for item in value}.values() if isinstance(args[0], type) else value
        hints = args[:1] * len(items)
    return len(items) == len(hints) and all(fits(*pair, seen) for pair in zip(items, hints, strict=True))
