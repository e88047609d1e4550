"""Which real data ships inside the package, and is it intact? Packed files, pinned by their SHA-256.

A packed file is a NumPy array of 16-bit integers, the features and then the labels, in column order, since columns
have scales of their own and compress better than rows; xz with two-byte literal positions (lp=1, pb=1) does the rest.
"""

from __future__ import annotations

import hashlib
import io
import lzma
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fwflow._validation import Array
from fwflow.datasets.dataset import DataError

#: The folder of packed files.
FOLDER = Path(__file__).with_name("files")


@dataclass(frozen=True)
class Packed:
    """A split in a packed file: the file's name and SHA-256, where the numbers are from, and any remark on them."""

    name: str
    sha256: str
    origin: str
    remark: str = ""

    @property
    def path(self) -> Path:
        return FOLDER / self.name


def unpack(packed: Packed) -> list[Array]:
    """Features, and labels as one column; nothing is decompressed before its digest is right."""
    try:
        content = packed.path.read_bytes()
    except OSError as error:
        raise DataError(f"{packed.path} cannot be read: {error}. Install fwflow anew") from error
    if hashlib.sha256(content).hexdigest() != packed.sha256:
        raise DataError(f"{packed.path} is damaged: its SHA-256 is not {packed.sha256}. Install fwflow anew")
    table = np.load(io.BytesIO(lzma.decompress(content)), allow_pickle=False)
    return [np.ascontiguousarray(part, dtype=np.float64) for part in (table[:, :-1], table[:, -1:])]
