"""Files that are replaced as a whole, and compressed files with a limit on their unpacked size."""

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

#: Environment variable with the largest unpacked size of a compressed file, in bytes. It replaces the limits below.
LIMIT_VARIABLE = "FWFLOW_MAX_UNPACKED"
#: Largest ratio of the unpacked size to the size of a file. Tables of measurements compress by factors of 2 to 20.
_RATIO = 100
#: Unpacked size in bytes that every file may have, because small tables of constants compress by a factor of 1000.
_FLOOR = 2**27


@contextmanager
def replacing(path: str | Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file for writing that replaces `path` when the block ends without an error.

    The temporary file is in the same folder and has a name that no other file has. As with `open`, links are followed,
    a file that is replaced keeps its permissions, and devices and pipes are written to directly. Text is written in
    UTF-8 with unchanged line ends.
    """
    named, path = str(path), Path(os.path.realpath(path))
    text: dict[str, Any] = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    if path.exists() and not path.is_file():
        try:
            with open(path, mode, **text) as file:
                yield file
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), error.filename or named) from error
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
        message = f"{error.strerror or error}; the file was not saved, and an earlier file is unchanged"
        raise OSError(error.errno, message, named) from error
    finally:
        temporary.unlink(missing_ok=True)


def unpacked_limit(size: int) -> int:
    """Return the largest unpacked size of a compressed file of this size, in bytes."""
    given = os.environ.get(LIMIT_VARIABLE)
    if not given:
        return max(_FLOOR, _RATIO * size)
    if not (given.isascii() and given.isdecimal()):
        raise InputError(f"{LIMIT_VARIABLE} must be a number of bytes, such as {2**34}; got {given!r}")
    return int(given)


def check_unpacked(path: str | Path, unpacked: int, size: int) -> None:
    """Raise an InputError if a compressed file of this size unpacks to more bytes than the limit."""
    if unpacked > (limit := unpacked_limit(size)):
        raise InputError(
            f"{path} has {size} bytes and unpacks to more than {limit}; if you trust it, "
            f"set the environment variable {LIMIT_VARIABLE} to a larger number of bytes"
        )


class _Bounded(io.RawIOBase):
    """Unpacked bytes of a stream. Reading beyond the limit raises an InputError."""

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
    """Open a file for reading bytes, which are unpacked within the limit if the name ends in ``.gz``."""
    if path.suffix.lower() != ".gz":
        return open(path, "rb")
    return io.BufferedReader(_Bounded(gzip.open(path), path), 2**17)


def seekable(path: Path) -> BinaryIO:
    """Open a file as `opened` does, for readers that seek."""
    if path.suffix.lower() != ".gz":
        return open(path, "rb")
    with opened(path) as file:
        return io.BytesIO(file.read())


def load_arrays(path: Path, content: bytes | None = None) -> Any:
    """Return the array of an ``.npy`` file, or the arrays of an ``.npz`` file by name; either may be within a ``.gz``.

    Members that are no arrays are bytes. Sizes are checked before unpacking, because zipfile never returns more bytes
    than a member declares. The bytes of the file may be given in `content`.
    """
    with seekable(path) if content is None else io.BytesIO(content) as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                size = path.stat().st_size if content is None else len(content)
                check_unpacked(path, sum(member.file_size for member in members), size)
                if len({member.filename for member in members}) < len(members):
                    raise InputError(f"{path} has two members of the same name")
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
    """Raise an error if an array declares more entries than its file holds, before NumPy reserves memory for them."""
    if stream.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
        return
    version = tuple(stream.read(2))
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if not dtype.hasobject and math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its header declares an array of shape {shape}, but it has only {size} bytes")
