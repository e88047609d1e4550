"""State files: a zip archive of a table of objects and its arrays, sealed by a checksum.

The archive holds ``state.json`` and, for every type of number, one ``.npy`` file with all arrays of that type. It ends
with a comment: the name of the format, and the SHA-256 of all bytes before, so that a damaged file is not parsed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from fwflow._storage.files import replacing
from fwflow._storage.table import TYPES, Reader, Writer, demand
from fwflow._validation import Array, InputError
from fwflow._version import __version__

T = TypeVar("T")

_FORMAT, _VERSION = "fwflow state", 1
_DOCUMENT = "state.json"
# The text of the comment before the checksum, and the length of the checksum in hexadecimal digits.
_SEAL, _DIGITS = b"fwflow state; SHA-256 of all before these digits: ", 64


def save(value: Any, path: str | Path) -> None:
    """Write an object to a file. A file that exists is replaced when the new one is complete."""
    writer = Writer()
    document = {"format": _FORMAT, "version": _VERSION, "library": __version__, "state": writer.value(value)}
    text = json.dumps(document | {"objects": writer.table}, allow_nan=False, separators=(",", ":")).encode("ascii")
    file: Any
    with replacing(path, "wb+") as file:
        with zipfile.ZipFile(file, "w") as archive:
            archive.comment = _SEAL + bytes(_DIGITS)
            with _member(archive, _DOCUMENT, len(text)) as member:
                member.write(text)
            for name, arrays in writer.arrays.items():
                _write(archive, name, arrays)
        file.truncate(file.seek(-_DIGITS, os.SEEK_END))
        file.seek(0)
        digits = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(digits.encode("ascii"))
        file.flush()
        os.fsync(file.fileno())


def _member(archive: zipfile.ZipFile, name: str, size: int) -> Any:
    info = zipfile.ZipInfo(name)  # its date is 1980, so that equal states are equal files
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


def load(path: str | Path, cls: type[T]) -> T:
    """Read an object of a registered class. An InputError is raised if the file does not hold one."""
    try:
        value = _parsed(Path(path).read_bytes())
        demand(type(value) is cls, f"it holds a {type(value).__name__}")
    except OSError:
        raise
    except Exception as error:  # parsers of untrusted bytes raise many kinds of errors
        why = " ".join(str(error).split()) or type(error).__name__
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
        for member in members.values():
            stored = member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
            demand(stored, "its members are compressed")
        declared = sum(member.file_size for member in members.values())
        demand(declared <= len(data), "its members are larger than the file")
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
