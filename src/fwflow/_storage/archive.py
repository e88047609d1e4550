"""State files: a zip archive of a table of objects and its arrays, sealed by a checksum.

The archive holds ``state.json`` and, for every type of number, one ``.npy`` file with all arrays of that type. It ends
with a comment: the name of the format, and the SHA-256 of all bytes before, so that a damaged file is not parsed.

``state.json`` has a table of entries, which represents a tree of objects. An entry is a list of its kind and its parts.
A part is text, a number, true, false, null, or ``[i]`` for an earlier entry i. So no object can contain itself, and
shared objects stay shared.

=========  ==============================================================
tuple      its items; the same for list
dict       key, value, key, value, ...
object     name of its class, and the values of its attributes
array      type of its numbers, shape, strides or null, whether it is writeable
numbers    "tuple" or "list", type, length: many Python numbers of one type
scalar     type: a NumPy number
float      "nan", "inf" or "-inf"
bytes      hexadecimal digits
dtype      its name
=========  ==============================================================

The numbers of arrays, numbers and scalars are stored apart from the table, by type, in the order of the entries.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fwflow._storage.files import replacing
from fwflow._storage.registry import Kind, Seen, by_class, by_name
from fwflow._validation import Array, InputError, one_line
from fwflow._version import __version__

T = TypeVar("T")

_FORMAT, _VERSION = "fwflow state", 1
_DOCUMENT = "state.json"
# The text of the comment before the checksum, and the length of the checksum in hexadecimal digits.
_SEAL, _DIGITS = b"fwflow state; SHA-256 of all before these digits: ", 64
#: Types of numbers that arrays may have.
TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "float64")

# Smallest length of a sequence of floats, or of integers, that is stored as numbers. Chosen without tuning.
_MANY = 8
# Largest depth of a tree, because hashing, comparing and deleting are recursive. Chosen without tuning.
_DEEPEST, _TOO_DEEP = 100, "is nested too deeply"
# Largest number of values that are hashed to build dicts. Tuples that share items can hold far more values than a file
# has bytes. Chosen without tuning.
_MOST_HASHED = 10**8

_NO_DATA = (
    "which cannot be stored: a state holds None, numbers, text, bytes, arrays of numbers, tuples, lists and dicts, and "
    "objects of classes registered with fw.storable. Use one of these, or register the class"
)


class Writer:
    """Converter of values into entries, which collects their arrays by type."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self.arrays: dict[str, list[Array]] = {}
        self._places: dict[int, int] = {}  # entry of an object by its id; -1 while the entry is being made
        self._depths: list[int] = []
        self._kept: list[Any] = []  # keeps objects alive, so that no id is used again
        self._path: list[Any] = ["state"]
        self._seen: Seen = {}

    def value(self, x: Any) -> Any:
        """Return x if JSON can represent it, or else a reference to its entry."""
        if x is None or type(x) in (bool, int, str) or (type(x) is float and math.isfinite(x)):
            return x
        x = _CONSTANTS["float", repr(x)] if type(x) is float else x  # one object for each of nan, inf and -inf
        if id(x) not in self._places:
            self._kept.append(x)
            self._places[id(x)] = -1
            entry = self._entry(x)
            inner = [self._depths[v[0]] for v in entry[1:] if type(v) is list and entry[0] != "array"]
            self._depths.append(1 + max(inner, default=0))
            if self._depths[-1] > _DEEPEST:  # together with entries made before
                raise self._refused(_TOO_DEEP)
            self.table.append(entry)
            self._places[id(x)] = len(self.table) - 1
        if self._places[id(x)] < 0:
            raise self._refused("contains itself")
        return [self._places[id(x)]]

    def _entry(self, x: Any) -> list[Any]:
        if len(self._path) > _DEEPEST:
            raise self._refused(_TOO_DEEP)
        cls = type(x)
        if cls in (tuple, list):
            numbers = _as_numbers(x)
            if numbers is not None:
                return ["numbers", cls.__name__, self._stored(numbers), len(x)]
            return [cls.__name__, *(self._at(f"[{i}]", item) for i, item in enumerate(x))]
        if cls is dict:
            pairs = ((self._at((key,), key), self._at((key,), item)) for key, item in x.items())
            return ["dict", *(part for pair in pairs for part in pair)]
        if cls in by_class:
            return ["object", by_class[cls].name, *self._attributes(x, by_class[cls])]
        if cls is np.ndarray and x.dtype.name in TYPES:
            return ["array", self._stored(x), list(x.shape), strides_of(x), bool(x.flags.writeable)]
        if isinstance(x, np.generic) and x.dtype.name in TYPES:
            return ["scalar", self._stored(np.array([x]))]
        if isinstance(x, np.dtype) and x.name in TYPES:
            return ["dtype", x.name]
        if cls in (float, bytes):
            return [cls.__name__, repr(x) if cls is float else x.hex()]
        what = f"an array of {x.dtype}" if cls is np.ndarray else f"a {cls.__module__}.{cls.__qualname__}"
        raise self._refused(f"is {what}, {_NO_DATA}")

    def _attributes(self, x: Any, kind: Kind) -> list[Any]:
        values = [getattr(x, name) for name in kind.attributes]
        self._kept.append(values)
        if (fault := kind.fault(values, self._seen)) is not None:
            self._path.append(f".{fault[0]}")
            raise self._refused(fault[1])
        if kind.valid is not None and not kind.valid(x):
            raise self._refused(f"is not a valid {kind.cls.__name__}")
        return [self._at(f".{name}", value) for name, value in zip(kind.attributes, values, strict=True)]

    def _at(self, step: Any, x: Any) -> Any:
        self._path.append(step)
        value = self.value(x)
        self._path.pop()
        return value

    def _stored(self, array: Array) -> str:
        self.arrays.setdefault(array.dtype.name, []).append(array)
        return array.dtype.name

    def _refused(self, why: str) -> ValueError:
        path = "".join(step if isinstance(step, str) else f"[{step[0]!r}]" for step in self._path)
        return ValueError(f"{path} {why}")


def _as_numbers(x: Sequence[Any]) -> Array | None:
    types = set(map(type, x)) if len(x) >= _MANY else set()
    if types == {float}:
        return np.array(x)
    return np.array(x, dtype=np.int64) if types == {int} and -(2**63) <= min(x) <= max(x) < 2**63 else None


class Reader:
    """Constructor of the objects of a table. It raises a ValueError for every malformed entry."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays
        self._taken = dict.fromkeys(arrays, 0)
        self._objects: list[Any] = []
        self._depths: list[int] = []
        self._weights: list[int] = []  # number of values that are visited to hash an object
        self._hashed = 0
        self._met: list[int] = []  # entries to which the current entry refers
        self._seen: Seen = {}

    def read(self, table: Any, root: Any) -> Any:
        """Return the object of the part `root`."""
        demand(type(table) is list)
        for entry in table:
            demand(type(entry) is list and len(entry) > 0 and type(entry[0]) is str)
            self._met = []
            self._objects.append(self._made(*entry))
            self._depths.append(1 + max((self._depths[i] for i in self._met), default=0))
            self._weights.append(min(_MOST_HASHED, len(entry) + sum(self._weights[i] for i in self._met)))
            demand(self._depths[-1] <= _DEEPEST, f"it {_TOO_DEEP}")
        demand(all(self._taken[name] == len(array) for name, array in self._arrays.items()))
        return self._value(root)

    def _value(self, v: Any) -> Any:
        if type(v) is not list:
            demand(type(v) is not dict)
            return v
        (i,) = v
        demand(type(i) is int and 0 <= i < len(self._objects))
        self._met.append(i)
        return self._objects[i]

    def _made(self, what: str, *parts: Any) -> Any:
        if what in ("tuple", "list"):
            return (tuple if what == "tuple" else list)(map(self._value, parts))
        if what == "dict":
            return self._dict(*parts)
        if what == "object":
            return self._object(*parts)
        if what == "array":
            return self._array(*parts)
        if what == "numbers":
            kind, name, count = parts
            demand(kind in ("tuple", "list") and name in ("int64", "float64"))
            numbers = self._next(name, count).tolist()
            return tuple(numbers) if kind == "tuple" else numbers
        (text,) = parts
        demand(type(text) is str)
        if what == "scalar":
            return self._next(text, 1)[0]
        if what == "bytes":
            return bytes.fromhex(text)
        demand((what, text) in _CONSTANTS)
        return _CONSTANTS[what, text]

    def _next(self, name: Any, count: Any) -> Array:
        """Return the next numbers of a type, in a new array."""
        demand(type(name) is str and name in self._arrays and type(count) is int)
        numbers = self._arrays[name][self._taken[name] :][:count]
        demand(len(numbers) == count, "an array has more entries than the file")
        self._taken[name] += count
        return numbers.astype(np.dtype(name))

    def _array(self, name: Any, shape: Any, strides: Any, writeable: Any) -> Array:
        for numbers in (shape, shape if strides is None else strides):
            demand(type(numbers) is list and len(numbers) == len(shape) and all(type(n) is int for n in numbers))
        demand(min(shape, default=0) >= 0 and type(writeable) is bool)
        flat = self._next(name, math.prod(shape))
        array = flat.reshape(shape) if strides is None else laid_out(flat, shape, strides)
        array.setflags(write=writeable)
        return array

    def _dict(self, *parts: Any) -> dict[Any, Any]:
        keys = [self._value(part) for part in parts[::2]]
        self._hashed += sum(self._weights[i] for i in self._met)
        demand(self._hashed < _MOST_HASHED and len(parts) % 2 == 0)
        made = dict(zip(keys, map(self._value, parts[1::2]), strict=True))
        demand(2 * len(made) == len(parts), "a dict has a key twice")
        return made

    def _object(self, name: Any, *parts: Any) -> Any:
        if type(name) is not str or name not in by_name:
            raise ValueError(f"the class {name!r} is not registered; import its module, or see fw.storable")
        kind, values = by_name[name], [self._value(part) for part in parts]
        demand(len(values) == len(kind.attributes), f"a {kind.cls.__name__} has other attributes here")
        if (fault := kind.fault(values, self._seen)) is not None:
            raise ValueError(" ".join(fault))
        made = kind.made(values)
        demand(kind.valid is None or bool(kind.valid(made)), f"a {kind.cls.__name__} is not valid")
        return made


_CONSTANTS: dict[tuple[str, str], Any] = {("float", text): float(text) for text in ("nan", "inf", "-inf")}
_CONSTANTS |= {("dtype", name): np.dtype(name) for name in TYPES}


def demand(holds: bool, otherwise: str = "its table of objects is malformed") -> None:
    """Raise a ValueError unless a condition holds."""
    if not holds:
        raise ValueError(otherwise)


def strides_of(array: Array) -> list[int] | None:
    """Return the strides in entries, with gaps shortened to one entry; None for an array in C order.

    The order of sums in BLAS depends on the layout, and a continued run must be equal to the last bit. So an array
    keeps the order of its axes, and gaps between its entries if it has some, but not the matrix of which it is a part.
    """
    strides, span, dense = [0] * array.ndim, 1, array.itemsize
    for i in sorted(range(array.ndim), key=lambda i: (abs(array.strides[i]), -i)):
        length, stride = array.shape[i], abs(array.strides[i])
        step = span + (length > 1 and stride != dense)
        strides[i] = -step if array.strides[i] < 0 else step
        if length > 1:
            span, dense = step * length, stride * length
    in_c = [math.prod(array.shape[i + 1 :]) for i in range(array.ndim)]
    return None if array.size == 0 or strides == in_c or span > _most_spanned(array.size) else strides


def _most_spanned(size: int) -> int:
    return 4 * size + 64


def laid_out(flat: Array, shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Return an array with these strides, in memory of its own."""
    span = 1
    for stride, length in sorted((abs(stride), length) for stride, length in zip(strides, shape, strict=True)):
        demand(length == 1 or stride >= span, "the entries of an array overlap")
        span += stride * (length - 1)
    demand(span <= _most_spanned(len(flat)), "an array has large gaps")
    first = sum(max(0, -stride) * (length - 1) for stride, length in zip(strides, shape, strict=True))
    size, buffer = flat.itemsize, np.zeros(span, flat.dtype)
    array: Array = np.ndarray(shape, flat.dtype, buffer, first * size, [stride * size for stride in strides])
    array[...] = flat.reshape(shape)
    return array


def save(value: Any, path: str | Path) -> None:
    """Write an object to a file. A file that exists is replaced when the new one is complete."""
    writer = Writer()
    document = {"format": _FORMAT, "version": _VERSION, "library": __version__, "state": writer.value(value)}
    text = json.dumps(document | {"objects": writer.table}, allow_nan=False, separators=(",", ":")).encode("ascii")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.comment = _SEAL + bytes(_DIGITS)
        # Members have the date 1980, so that equal states are equal files.
        archive.writestr(zipfile.ZipInfo(_DOCUMENT), text)
        for name, arrays in writer.arrays.items():
            content = io.BytesIO()
            np.save(content, np.concatenate([array.reshape(-1) for array in arrays]).astype(_little(name), copy=False))
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content.getbuffer())
    data = buffer.getbuffer()[:-_DIGITS]
    with replacing(path, "wb") as file:
        file.write(data)
        file.write(hashlib.sha256(data).hexdigest().encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def _little(name: str) -> np.dtype[Any]:
    return np.dtype(name).newbyteorder("<")


def load(path: str | Path, cls: type[T]) -> T:
    """Read an object of a registered class. An InputError is raised if the file does not hold one."""
    try:
        value = _parsed(Path(path).read_bytes())
        demand(type(value) is cls, f"it holds a {type(value).__name__}")
    except OSError:
        raise
    except Exception as error:  # parsers of untrusted bytes raise many kinds of errors
        why = one_line(error)
        raise InputError(f"path: {str(path)!r} does not hold a fwflow state that can be read: {why}") from error
    return value


def _parsed(data: bytes) -> Any:
    """Return the object in an archive. Declared sizes are compared with those of the bytes that are there."""
    demand(data[-len(_SEAL) - _DIGITS : -_DIGITS] == _SEAL, "it is a file of another kind, or incomplete")
    digest = hashlib.sha256(memoryview(data)[:-_DIGITS]).hexdigest()
    demand(digest.encode("ascii") == data[-_DIGITS:], "it is damaged: its checksum does not match")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {member.filename: member for member in archive.infolist()}
        known = {_DOCUMENT, *(f"{name}.npy" for name in TYPES)}
        unique = len(members) == len(archive.infolist())
        demand(unique and {_DOCUMENT} <= members.keys() <= known, "its members are not those of a state")
        stored = all(m.compress_type == zipfile.ZIP_STORED and m.compress_size == m.file_size for m in members.values())
        demand(stored, "its members are compressed")
        demand(sum(m.file_size for m in members.values()) <= len(data), "its members are larger than the file")
        document = _document(archive.read(members.pop(_DOCUMENT)))
        arrays = {name.removesuffix(".npy"): archive.read(member) for name, member in members.items()}
    reader = Reader({name: _numbers(content, name) for name, content in arrays.items()})
    return reader.read(document["objects"], document["state"])


def _document(text: bytes) -> dict[str, Any]:
    document = json.loads(text.decode("ascii"), parse_constant=_refuse_constant, object_pairs_hook=_dict)
    ours = type(document) is dict and document.get("format") == _FORMAT and type(document.get("version")) is int
    demand(ours, "its document is of another kind")
    version = document["version"]
    newer = f"fwflow {document.get('library')} wrote it, in format {version}"
    demand(version <= _VERSION, f"{newer}, and fwflow {__version__} reads format {_VERSION}: update fwflow")
    complete = document.keys() == {"format", "version", "library", "state", "objects"}
    demand(version == _VERSION and complete, "its document is malformed")
    return document


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number in JSON")


def _dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    demand(len(dict(pairs)) == len(pairs), "its document has a key twice")
    return dict(pairs)


def _numbers(content: bytes, name: str) -> Array:
    """Return the numbers of a member whose header agrees with its type and size."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    demand(version == (1, 0), f"an array has format {version}")
    shape, in_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    start = stream.tell()
    sizes = [n * dtype.itemsize for n in shape]
    agrees = dtype == _little(name) and not in_fortran and sizes == [len(content) - start]
    demand(agrees, "an array contradicts its header")
    numbers = np.frombuffer(content, dtype, offset=start)
    demand(name != "bool" or numbers.view(np.uint8).max(initial=0) <= 1, "a truth value is neither true nor false")
    return numbers
