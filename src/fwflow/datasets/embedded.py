"""Real data that ships inside the package: packed files, verified by their SHA-256.

A packed file is a NumPy array of 16-bit integers, the features and then the labels, compressed with xz (lp=1, pb=1, for
two-byte numbers). It is stored by columns: the entries of a column have one scale, so they compress better than rows.
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
    """A split in a packed file: its name and SHA-256, the origin of the numbers, and an optional remark."""

    name: str
    sha256: str
    origin: str
    remark: str = ""

    @property
    def path(self) -> Path:
        return FOLDER / self.name


def unpack(packed: Packed) -> list[Array]:
    """Return the features, and the labels as one column. The digest is verified before the file is decompressed."""
    try:
        content = packed.path.read_bytes()
    except OSError as error:
        raise DataError(f"{packed.path} cannot be read: {error}. Install fwflow anew") from error
    if hashlib.sha256(content).hexdigest() != packed.sha256:
        raise DataError(f"{packed.path} is damaged: its SHA-256 is not {packed.sha256}. Install fwflow anew")
    table = np.load(io.BytesIO(lzma.decompress(content)), allow_pickle=False)
    return [np.ascontiguousarray(part, dtype=np.float64) for part in (table[:, :-1], table[:, -1:])]
