"""Whose objects may be part of a state? Classes by the names that they have in files."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from fwflow._storage.annotations import Seen, fits, words
from fwflow._validation import Array

T = TypeVar("T")


def storable(
    name: str, *attributes: str, make: str = "", valid: Callable[[Any], bool] | None = None
) -> Callable[[type[T]], type[T]]:
    """Register a class whose objects may be part of a state, so that `State.save` can write them.

    A state holds data: None, numbers, text, bytes, arrays of numbers, tuples, lists and dicts, and objects of
    registered classes. An object is stored by what its constructor takes, and made again by calling it; what it
    computes and keeps besides is not stored. Its fields are checked against their annotations on writing and on
    reading. What a state holds twice is one object again after reading.

    Parameters
    ----------
    name : str
        What the class is called in files. It stays when the class is renamed or moved.
    attributes : str
        Names of the attributes that the constructor takes, in its order. By default the fields of a dataclass (but
        those with ``init=False``) or of a named tuple.
    make : str
        Name of a class method to call in place of the constructor.
    valid : callable, optional
        Whether an object makes sense; one that does not is refused.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> from dataclasses import dataclass
    >>> @fw.storable("example-memory", valid=lambda memory: memory.seen >= 0)
    ... @dataclass(frozen=True)
    ... class Memory:
    ...     average: np.ndarray
    ...     seen: int = 0
    """

    def register(cls: type[T]) -> type[T]:
        if not (attributes or is_dataclass(cls) or issubclass(cls, tuple)):
            raise ValueError(
                f"storable: {cls.__name__} is neither a dataclass nor a named tuple; put @storable above @dataclass, "
                "or name the attributes that its constructor takes"
            )
        taken = by_name[name].cls if name in by_name else cls
        if (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(f"storable: the name {name!r} belongs to {taken.__module__}.{taken.__qualname__}")
        by_name[name] = by_class[cls] = Kind(name, cls, attributes, make, valid)
        return cls

    return register


@dataclass(frozen=True, eq=False)
class Kind:
    """A registered class: what is stored of its objects, and how they are made again."""

    name: str
    cls: type[Any]
    named: tuple[str, ...]
    make: str
    valid: Callable[[Any], bool] | None

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """What is stored of an object."""
        if self.named:
            return self.named
        return tuple(f.name for f in fields(self.cls) if f.init) if is_dataclass(self.cls) else self.cls._fields

    @cached_property
    def _hints(self) -> tuple[Any, ...]:
        try:
            hints = get_type_hints(self.cls)
            if self.named:
                hints |= get_type_hints(self._factory if self.make else self.cls.__init__)
        except NameError:  # names of a function's own scope: there is nothing to check against
            return (Any,) * len(self.attributes)
        names = [*inspect.signature(self._factory).parameters] if self.named else self.attributes
        return tuple(hints.get(name, Any) for name in names[: len(self.attributes)])

    @property
    def _factory(self) -> Callable[..., Any]:
        return getattr(self.cls, self.make) if self.make else self.cls

    def fault(self, values: Sequence[Any], seen: Seen) -> tuple[str, str] | None:
        """The first attribute that is not what its annotation says, and in what way."""
        for name, value, hint in zip(self.attributes, values, self._hints, strict=True):
            if not fits(value, hint, seen):
                return name, f"is a {type(value).__name__} where {self.cls.__name__} says {words(hint)}"
        return None

    def made(self, values: Sequence[Any]) -> Any:
        """The object with these attributes."""
        return self._factory(*values) if self.named else self.cls(**dict(zip(self.attributes, values, strict=True)))


by_name: dict[str, Kind] = {}
by_class: dict[type[Any], Kind] = {}


def places_within(places: Array, size: int) -> bool:
    """Whether an array holds positions among so many entries."""
    whole = places.ndim == 1 and places.dtype.kind in "iu"
    return whole and (not len(places) or bool(places.min() >= 0 and places.max() < size))
