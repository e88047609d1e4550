"""How are files written as a whole, and how much may a compressed one unpack to?"""

from __future__ import annotations

import gzip
import io
import math
import os
import secrets
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO

import numpy as np

from fwflow._validation import InputError

#: The environment variable with the number of bytes that a compressed file may unpack to, in place of the limit below.
LIMIT_VARIABLE = "FWFLOW_MAX_UNPACKED"
#: A file may unpack to this multiple of its size. Tables of measurements compress by factors of 2 to 20.
_RATIO = 100
#: Every file may unpack to so many bytes. Small tables of constants compress by a factor of 1000.
_FLOOR = 2**27


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a file for writing that takes the place of `path` when it is complete; else `path` stays as it was.

    The temporary file is in the same folder, under a name that no other file has. As with `open`, links are followed,
    a file that is replaced keeps its permissions, and devices and pipes are written to directly.

    Parameters
    ----------
    path : str or Path
    mode : {"w", "wb", "w+", "wb+"}
        Text is written in UTF-8, and its line ends are kept.
    """
    named, path = str(path), Path(os.path.realpath(path))
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if path.exists() and not path.is_file():
        with open(path, mode, **text) as file:
            yield file
        return
    temporary = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with open(temporary, mode.replace("w", "x"), **text) as file:
            yield file
        if path.exists():
            os.chmod(temporary, path.stat().st_mode & 0o7777)
        os.replace(temporary, path)
    except OSError as error:
        if error.filename not in (None, str(temporary)):
            raise
        said = f"{error.strerror or error}; the file was not saved, and what was there before is untouched"
        raise OSError(error.errno, said, named) from error
    finally:
        temporary.unlink(missing_ok=True)


def unpacked_limit(size: int) -> int:
    """The number of bytes that a compressed file of this size may unpack to."""
    given = os.environ.get(LIMIT_VARIABLE)
    if not given:
        return max(_FLOOR, _RATIO * size)
    if not (given.isascii() and given.isdecimal()):
        raise InputError(f"{LIMIT_VARIABLE} must be a number of bytes, such as {2**34}; got {given!r}")
    return int(given)


def check_unpacked(path: str | Path, unpacked: int, size: int) -> None:
    """Refuse a compressed file of this size that unpacks to so many bytes, if that is beyond the limit."""
    if unpacked > (limit := unpacked_limit(size)):
        raise InputError(
            f"{path} has {size} bytes and unpacks to more than {limit}; if you trust it, "
            f"set the environment variable {LIMIT_VARIABLE} to a larger number of bytes"
        )


class _Bounded(io.RawIOBase):
    """The unpacked bytes of a stream, which are refused as soon as they are too many."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream, self._path = stream, path
        self._size, self._count = path.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            count: int = self._stream.readinto(buffer)
        except gzip.BadGzipFile as error:
            raise InputError(f"{self._path} is not a gzip file: {error}") from error
        self._count += count
        check_unpacked(self._path, self._count, self._size)
        return count

    def close(self) -> None:
        self._stream.close()
        super().close()


def opened(path: Path) -> BinaryIO:
    """The bytes of a file, unpacked within the limit if its name ends in ``.gz``."""
    if path.suffix.lower() != ".gz":
        return open(path, "rb")
    return io.BufferedReader(_Bounded(gzip.open(path), path), 2**17)


def seekable(path: Path) -> BinaryIO:
    """The same, for readers that go back and forth."""
    file = opened(path)
    if path.suffix.lower() != ".gz":
        return file
    with file:
        return io.BytesIO(file.read())


def load_arrays(path: Path) -> Any:
    """The array of an ``.npy`` file or the arrays of an ``.npz`` file by name, also within a ``.gz``.

    Sizes are checked before anything is unpacked: zipfile never returns more than the size that a member declares.
    """
    with seekable(path) as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                check_unpacked(path, sum(member.file_size for member in members), path.stat().st_size)
                for member in members:
                    with archive.open(member) as stream:
                        _check_header(stream, member.file_size)
        else:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            _check_header(file, size)
        file.seek(0)
        stored = np.load(file, allow_pickle=False)
        return dict(stored) if isinstance(stored, Mapping) else stored


def _check_header(stream: Any, size: int) -> None:
    """Refuse an array that declares more entries than its file holds: NumPy would reserve the memory for them."""
    start = stream.read(len(np.lib.format.MAGIC_PREFIX))
    if start != np.lib.format.MAGIC_PREFIX:
        return
    version = tuple(stream.read(2))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its header declares an array of shape {shape}, and it has only {size} bytes")
