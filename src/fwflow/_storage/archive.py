"""State files: a zip archive of a table of objects and its arrays, sealed by a checksum.

The archive holds ``state.json`` and, for every type of number, one ``.npy`` file with all arrays of that type. It ends
with a comment: the name of the format, and the SHA-256 of all bytes before, so that a damaged file is not parsed.

``state.json`` has a table of entries, which represents a tree of objects. An entry is a list of its kind and its parts.
A part is text, a number, true, false, null, or ``[i]`` for an earlier entry i. So no object can contain itself, and
shared objects stay shared.

=========  ==================================================================================
tuple      its items; the same for list
dict       key, value, key, value, ...
object     name of its class, and the values of its attributes
array      type of its numbers, shape, strides or null, whether it is writeable
numbers    "tuple" or "list", type, length: many Python numbers of one type, in files of earlier versions
scalar     type: a NumPy number
float      "nan", "inf" or "-inf"
bytes      hexadecimal digits
dtype      its name
=========  ==================================================================================

The numbers of arrays, numbers and scalars are stored apart from the table, by type, in the order of the entries.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fwflow._storage.files import load_arrays, replacing
from fwflow._storage.registry import Seen, by_class, by_name
from fwflow._validation import Array, InputError, one_line
from fwflow._version import __version__

T = TypeVar("T")

_FORMAT, _VERSION, _DOCUMENT = "fwflow state", 1, "state.json"
# The text of the comment before the checksum, and the length of the checksum in hexadecimal digits.
_SEAL, _DIGITS = b"fwflow state; SHA-256 of all before these digits: ", 64
#: Types of numbers that arrays may have.
TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")
# Largest depth of a tree, because hashing, comparing and deleting are recursive. Chosen without tuning.
_DEEPEST, _TOO_DEEP = 100, " is nested too deeply"
# Largest number of values that are hashed to build dicts. Tuples that share items can hold far more values than a file
# has bytes. Chosen without tuning.
_MOST_HASHED = 10**8

_NO_DATA = (
    "which cannot be stored: a state holds None, numbers, text, bytes, arrays of numbers, tuples, lists and dicts, and "
    "objects of classes registered with fw.storable. Use one of these, or register the class"
)


def demand(holds: bool, otherwise: str) -> None:
    """Raise an error unless a condition holds."""
    if not holds:
        raise InputError(otherwise)


class Writer:
    """Converter of values into entries, which collects their arrays by type."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self.arrays: dict[str, list[Array]] = {}
        self._places: dict[int, int] = {}  # entry of an object by its id; -1 while the entry is being made
        self._depths: list[int] = []
        self._kept: list[Any] = []  # keeps objects alive, so that no id is used again
        self._seen: Seen = {}

    def value(self, x: Any, level: int = 1) -> Any:
        """Return x if JSON can represent it, or else a reference to its entry; errors begin with the path to it."""
        if x is None or type(x) in (bool, int, str) or (type(x) is float and math.isfinite(x)):
            return x
        if id(x) not in self._places:
            demand(level <= _DEEPEST, _TOO_DEEP)
            self._kept.append(x)
            self._places[id(x)] = -1
            entry, parts = self._described(x)
            depth = 1
            for step, key, part in parts:
                try:
                    entry.append(value := self.value(part, level + 1))
                except InputError as error:
                    raise InputError(step.format(key) + str(error)) from None
                depth = max(depth, 1 + self._depths[value[0]]) if type(value) is list else depth
            demand(depth <= _DEEPEST, _TOO_DEEP)  # together with entries made before
            self._places[id(x)] = len(self.table)
            self._depths.append(depth)
            self.table.append(entry)
        demand(self._places[id(x)] >= 0, " contains itself")
        return [self._places[id(x)]]

    def _described(self, x: Any) -> tuple[list[Any], Iterable[tuple[str, Any, Any]]]:
        """Return the start of the entry of an object, and the parts that follow, after the steps that lead to them."""
        cls = type(x)
        if cls in (tuple, list):
            return [cls.__name__], [("[{}]", i, item) for i, item in enumerate(x)]
        if cls is dict:
            return ["dict"], [("[{!r}]", key, part) for key, item in x.items() for part in (key, item)]
        if cls in by_class:
            kind = by_class[cls]
            values = [getattr(x, name) for name in kind.attributes]
            kind.check(values, self._seen)
            demand(kind.valid(x), f" is not a valid {cls.__name__}")
            return ["object", kind.name], [(".{}", *pair) for pair in zip(kind.attributes, values, strict=True)]
        if cls is np.ndarray and x.dtype.name in TYPES:
            strides = None if x.flags.c_contiguous else strides_of(x.shape, x.strides, x.itemsize)
            return ["array", self._stored(x), [*x.shape], strides, bool(x.flags.writeable)], ()
        if isinstance(x, np.generic) and x.dtype.name in TYPES:
            return ["scalar", self._stored(np.array(x))], ()
        if isinstance(x, np.dtype) and x.name in TYPES:
            return ["dtype", x.name], ()
        what = f"an array of {x.dtype}" if cls is np.ndarray else f"a {cls.__module__}.{cls.__qualname__}"
        demand(cls in (float, bytes), f" is {what}, {_NO_DATA}")
        return [cls.__name__, repr(x) if cls is float else x.hex()], ()

    def _stored(self, array: Array) -> str:
        self.arrays.setdefault(array.dtype.name, []).append(array.reshape(-1))
        return array.dtype.name


class Reader:
    """Constructor of the objects of a table. It raises an error for every malformed entry."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = dict(arrays)  # numbers that no entry has taken, by type
        self._objects: dict[int, Any] = {}
        self._sizes: list[tuple[int, int]] = []  # depths, and numbers of values that are visited to hash an object
        self._seen: Seen = {}

    def read(self, table: Any, root: Any) -> Any:
        """Return the object of the part `root`."""
        hashed = 0
        for kind, *parts in table:
            inner = [self._sizes[part[0]] for part in parts if type(part) is list] if kind != "array" else []
            depth = 1 + max((depth for depth, _ in inner), default=0)
            demand(depth <= _DEEPEST, f"it{_TOO_DEEP}")
            keys = parts[::2] if kind == "dict" else []
            hashed += sum(self._sizes[key[0]][1] for key in keys if type(key) is list)
            demand(hashed < _MOST_HASHED, "its dicts have too large keys")
            made = self._array(*parts) if kind == "array" else self._made(kind, self._values(parts))
            self._objects[len(self._objects)] = made
            self._sizes.append((depth, 1 + len(parts) + sum(weight for _, weight in inner)))
        demand(not any(map(len, self._arrays.values())), "it has numbers that belong to no array")
        return self._values([root])[0]

    def _values(self, parts: list[Any]) -> list[Any]:
        demand(dict not in map(type, parts), "it has a part of an unknown kind")
        return [self._objects.__getitem__(*part) if type(part) is list else part for part in parts]

    def _made(self, kind: str, parts: list[Any]) -> Any:
        if kind == "object":
            return self._object(*parts)
        if kind == "scalar":
            return self._next(parts[0], 1)[0]
        if kind == "numbers":  # a long tuple or list, in files of earlier versions
            return _MADE[parts[0]](self._next(*parts[1:]).tolist())
        demand(kind in _MADE, f"it has an entry of the unknown kind {kind!r}")
        return _MADE[kind](parts)

    def _array(self, name: str, shape: list[int], strides: list[int] | None, writeable: bool) -> Array:
        array = laid_out(self._next(name, math.prod(shape)), shape, strides)
        array.setflags(write=writeable)
        return array

    def _next(self, name: str, count: int) -> Array:
        """Return the next numbers of a type, in a new array."""
        left = self._arrays[name]
        demand(0 <= count <= len(left), "an array has more entries than the file")
        self._arrays[name] = left[count:]
        return left[:count].astype(np.dtype(name))

    def _object(self, name: str, *values: Any) -> Any:
        demand(name in by_name, f"the class {name!r} is not registered; import its module, or see fw.storable")
        kind = by_name[name]
        demand(len(values) == len(kind.attributes), f"a {kind.cls.__name__} has other attributes here")
        kind.check(values, self._seen, "an object")
        made = kind.made(values)
        demand(kind.valid(made), f"a {kind.cls.__name__} is not valid")
        return made


def _dict(parts: list[Any]) -> dict[Any, Any]:
    made = dict(zip(parts[::2], parts[1::2], strict=True))
    demand(2 * len(made) == len(parts), "a dict has a key twice")
    return made


_MADE: dict[str, Callable[[list[Any]], Any]] = {
    "tuple": tuple,
    "list": list,
    "dict": _dict,
    "float": lambda parts: float(*parts),
    "bytes": lambda parts: bytes.fromhex(*parts),
    "dtype": lambda parts: np.dtype(TYPES[TYPES.index(*parts)]),
}


def strides_of(shape: Sequence[int], strides: Sequence[int], unit: int = 1) -> list[int]:
    """Return the strides in entries, with gaps shortened to one entry; entries never overlap.

    The order of sums in BLAS depends on the layout, and a continued run must be equal to the last bit. So an array
    keeps the order of its axes, and gaps between its entries if it has some, but not the matrix of which it is a part.
    """
    made, span, dense = [1] * len(shape), 1, unit
    for stride, i in sorted((abs(strides[i]), -i) for i in range(len(shape)) if shape[i] > 1):
        step = span + (stride != dense)
        made[-i] = -step if strides[-i] < 0 else step
        span, dense = step * shape[-i], stride * shape[-i]
    return made


def laid_out(flat: Array, shape: Sequence[int], strides: Sequence[int] | None) -> Array:
    """Return an array with these strides, in memory of its own; None stands for the order of C."""
    if strides is None:
        return flat.reshape(shape)
    normal = strides_of(shape, strides)
    same = all(n == 1 or one == other for n, one, other in zip(shape, strides, normal, strict=True))
    demand(same, "the entries of an array overlap or have large gaps")
    reach = [stride * (length - 1) for stride, length in zip(normal, shape, strict=True)]
    buffer, first = np.zeros(1 + sum(map(abs, reach)), flat.dtype), -sum(min(0, r) for r in reach)
    steps = [stride * flat.itemsize for stride in normal]
    array: Array = np.ndarray(shape, flat.dtype, buffer, first * flat.itemsize, steps)
    array[...] = flat.reshape(shape)
    return array


def save(value: Any, path: str | Path) -> None:
    """Write an object to a file. A file that exists is replaced when the new one is complete."""
    writer, buffer = Writer(), io.BytesIO()
    try:
        text = _text(writer.value(value), writer.table)
    except InputError as error:
        raise InputError(f"state{error}") from None
    members: dict[str, Any] = {name: np.concatenate(arrays) for name, arrays in writer.arrays.items()}
    np.savez(buffer, **members)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.comment = _SEAL + bytes(_DIGITS)
        archive.writestr(zipfile.ZipInfo(_DOCUMENT), text)
    data = buffer.getbuffer()[:-_DIGITS]
    with replacing(path, "wb") as file:
        file.write(data)
        file.write(hashlib.sha256(data).hexdigest().encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def _text(root: Any, table: Any, library: Any = __version__) -> bytes:
    document = {"format": _FORMAT, "version": _VERSION, "library": library, "state": root, "objects": table}
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def load(path: str | Path, cls: type[T]) -> T:
    """Read an object of a registered class. An InputError is raised if the file does not hold one."""
    data = Path(path).read_bytes()
    try:
        value = _parsed(data, Path(path))
        demand(type(value) is cls, f"it holds a {type(value).__name__}")
    except Exception as error:  # parsers of untrusted bytes raise many kinds of errors
        why = ("" if isinstance(error, InputError) else "it is malformed: ") + one_line(error)
        raise InputError(f"path: {str(path)!r} does not hold a fwflow state that can be read: {why}") from error
    return value


def _parsed(data: bytes, path: Path) -> Any:
    """Return the object in an archive, whose document must be as `save` would write it."""
    demand(data[-len(_SEAL) - _DIGITS : -_DIGITS] == _SEAL, "it is a file of another kind, or incomplete")
    digest = hashlib.sha256(memoryview(data)[:-_DIGITS]).hexdigest()
    demand(digest.encode("ascii") == data[-_DIGITS:], "it is damaged: its checksum does not match")
    arrays = load_arrays(path, data)
    document = json.loads(text := arrays.pop(_DOCUMENT))
    version, library, root, table = (document[key] for key in ("version", "library", "state", "objects"))
    wrote = f"fwflow {library} wrote it, in format {version}, and fwflow {__version__} reads format {_VERSION}"
    demand(version == _VERSION, f"{wrote}: use fwflow {library}")
    demand(text == _text(root, table, library), "its document is malformed")
    for name, array in arrays.items():
        typed = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.name == name in TYPES
        demand(typed, f"its member {name!r} is not a list of numbers of this type")
        demand(name != "bool" or array.view(np.uint8).max(initial=0) <= 1, "a truth value is neither true nor false")
    return Reader(arrays).read(table, root)
