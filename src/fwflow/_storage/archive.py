"""How does a table with its arrays become a file? A zip archive that is complete or not there, and trusted in nothing.

The archive holds ``state.json`` and, for every type of number, one ``.npy`` with all arrays of that type. It ends with
a comment: what it is, and the SHA-256 of all the bytes before, so that a damaged file is not even opened.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np

from fwflow._storage.files import replacing
from fwflow._storage.table import TYPES, Reader, Writer
from fwflow._validation import Array, InputError
from fwflow._version import __version__

T = TypeVar("T")

_FORMAT, _VERSION = "fwflow state", 1
_DOCUMENT = "state.json"
_SEAL, _DIGITS = b"fwflow state; SHA-256 of all before these digits: ", 64


def save(value: Any, path: str | Path) -> None:
    """Write an object to a file: what was there before is replaced in the end, or stays."""
    writer = Writer()
    document = {"format": _FORMAT, "version": _VERSION, "library": __version__, "state": writer.value(value)}
    text = json.dumps(document | {"objects": writer.table}, allow_nan=False, separators=(",", ":")).encode("ascii")
    with replacing(path, "wb+") as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.comment = _SEAL + bytes(_DIGITS)
            with _member(archive, _DOCUMENT, len(text)) as member:
                member.write(text)
            for name, arrays in writer.arrays.items():
                _write(archive, name, arrays)
        end = file.seek(-_DIGITS, os.SEEK_END)
        file.seek(0)
        digits = _digest(file, end)
        file.seek(end)
        file.write(digits)
        file.flush()
        os.fsync(file.fileno())


def _member(archive: zipfile.ZipFile, name: str, size: int) -> Any:
    info = zipfile.ZipInfo(name)  # dated 1980, so that equal states are equal files
    info.file_size = size
    return archive.open(info, "w")


def _write(archive: zipfile.ZipFile, name: str, arrays: list[Array]) -> None:
    count, dtype, header = sum(array.size for array in arrays), _little(name), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": (count,)})
    with _member(archive, f"{name}.npy", len(header.getvalue()) + count * dtype.itemsize) as member:
        member.write(header.getvalue())
        for array in arrays:
            member.write(array.astype(dtype, copy=False).tobytes())


def _little(name: str) -> np.dtype[Any]:
    return np.dtype(name).newbyteorder("<")


def _digest(file: IO[bytes], size: int) -> bytes:
    """The checksum of so many bytes."""
    digest = hashlib.sha256()
    for start in range(0, size, 2**20):
        digest.update(file.read(min(size - start, 2**20)))
    return digest.hexdigest().encode("ascii")


def load(path: str | Path, cls: type[T]) -> T:
    """Read an object of a registered class; a file that does not hold one is refused with an InputError."""
    try:
        with open(path, "rb") as file:
            value = _parsed(_contents(file))
        if type(value) is not cls:
            raise ValueError(f"it holds a {type(value).__name__}")
    except OSError:
        raise
    except Exception as error:  # whatever it is that the parsers of untrusted bytes stumble over
        why = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"path: {str(path)!r} does not hold a fwflow state that can be read: {why}") from error
    return value


def _contents(file: IO[bytes]) -> bytes:
    """All of a file that ends as a state does and is undamaged."""
    end = len(_SEAL) + _DIGITS
    file.seek(max(0, file.seek(0, os.SEEK_END) - end))
    if not file.read(end).startswith(_SEAL):
        raise ValueError("it is a file of another kind, or cut short")
    file.seek(0)
    data = file.read()
    if _digest(io.BytesIO(data), len(data) - _DIGITS) != data[-_DIGITS:]:
        raise ValueError("it is damaged, for its checksum is that of other contents")
    return data


def _parsed(data: bytes) -> Any:
    """The object in an archive. No size is believed that is not that of bytes which are there."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {member.filename: member for member in archive.infolist()}
        known = {_DOCUMENT, *(f"{name}.npy" for name in TYPES)}
        if len(members) < len(archive.infolist()) or not {_DOCUMENT} <= members.keys() <= known:
            raise ValueError("its members are not those of a state")
        if any(m.compress_type != zipfile.ZIP_STORED or m.compress_size != m.file_size for m in members.values()):
            raise ValueError("its members are compressed")
        if sum(member.file_size for member in members.values()) > len(data):
            raise ValueError("its members are larger than the file")
        document = _document(archive.read(members.pop(_DOCUMENT)))
        arrays = {name.removesuffix(".npy"): archive.read(member) for name, member in members.items()}
    reader = Reader({name: _numbers(content, name) for name, content in arrays.items()})
    return reader.read(document["objects"], document["state"])


def _document(text: bytes) -> dict[str, Any]:
    document = json.loads(text.decode("ascii"), parse_constant=_refuse_constant, object_pairs_hook=_dict)
    if type(document) is not dict or document.get("format") != _FORMAT or type(document.get("version")) is not int:
        raise ValueError("its document is of another kind")
    version = document["version"]
    if version > _VERSION:
        newer = f"fwflow {document.get('library')} wrote it, in format {version}"
        raise ValueError(f"{newer}, and fwflow {__version__} reads format {_VERSION}: update fwflow")
    if version < _VERSION or document.keys() != {"format", "version", "library", "state", "objects"}:
        raise ValueError("its document is not in order")
    return document


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("its document has a key twice")
    return dict(pairs)


def _numbers(content: bytes, name: str) -> Array:
    """The numbers of a member whose header promises what is there, no more and no less."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version != (1, 0):
        raise ValueError(f"an array has format {version}")
    shape, in_fortran, dtype = np.lib.format.read_array_header_1_0(stream)
    start = stream.tell()
    if dtype != _little(name) or in_fortran or [n * dtype.itemsize for n in shape] != [len(content) - start]:
        raise ValueError("an array is not what its header says")
    numbers = np.frombuffer(content, dtype, offset=start)
    if name == "bool" and numbers.view(np.uint8).max(initial=0) > 1:
        raise ValueError("a truth value is neither true nor false")
    return numbers
