"""Catalogue of the published data sets, and the checks and the parser of their files.

Every file is identified by the SHA-256 of its uncompressed content. Archives are not, because a server may pack the
same files again. The digests of Madelon, of MovieLens and of Gisette's validation labels were computed from the files.
Those of the other three Gisette files are the ones on which independent public loaders of the UCI files agree.

Some splits ship inside the package, in packed files: NumPy arrays of 16-bit integers, the features and then the labels,
compressed with xz (lp=1, pb=1, for two-byte numbers). They are stored by columns: the entries of a column have one
scale, so they compress better than rows.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fwflow._storage.files import opened
from fwflow._validation import Array, InputError
from fwflow.datasets.dataset import DataError


@dataclass(frozen=True)
class File:
    """Text file of integers, with the number of lines and, for each column, the range of accepted values."""

    name: str
    sha256: str  # Empty if the file was never published.
    rows: int
    columns: Sequence[range]

    @property
    def limit(self) -> int:
        """Upper bound on the size of the file in bytes. No more than this is decompressed."""
        return self.rows * (12 * len(self.columns) + 2)


#: Folder of packed files.
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


@dataclass(frozen=True)
class Official:
    """Published data set: its source and terms, its splits and files, and the splits that ship with the package."""

    title: str
    folder: str
    url: str
    archive_hash: str | None
    terms: str
    default: str
    splits: Mapping[str, Sequence[File]]
    arrays: Callable[[Sequence[Array]], Mapping[str, Array]]
    shape: tuple[int, int] | None = None
    embedded: Mapping[str, Packed] = field(default_factory=dict)

    @property
    def files(self) -> list[File]:
        """All published files."""
        return [file for files in self.splits.values() for file in files if file.sha256]


# Digests of the content of UCI's files, and of the packed files.
_SHA256 = {
    "madelon_train.data": "0b6e37711efdc7ab74250c51e7d6966bffd9f8f2b0e9971e882c3a7a380c2314",
    "madelon_train.labels": "10bffcc3b017467cb810d326b931951adcbde2b4870faf981da2991993b48689",
    "madelon_train.npy.xz": "049114383402197331d033093a72a2accd9ba461131cbe0971c9cefa197628be",
    "madelon_valid.data": "cb9a46475147de1a58d9f15ef4c318e5b85de344e0f9ab92626fa446aa815dc9",
    "madelon_valid.labels": "fbac32fa87fac41ab731994a1c824e7b25396069bff6df242c01fe240fcb34dc",
    "madelon_valid.npy.xz": "5beec80e142a60a5c2d2108f03a40ea3fc64db248bf5572aa25a5349172583ba",
    "gisette_train.data": "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
    "gisette_train.labels": "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
    "gisette_valid.data": "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254",
    "gisette_valid.labels": "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5",
    "gisette_valid.npy.xz": "276124259a9fff239faa74d3a02ed35fcd0f53f69928d9e4266daeba1fb31cee",
}

#: Split and file of a reconstruction of Gisette's training split, which is never used as "train".
RECONSTRUCTED = "train-reconstructed"
RECONSTRUCTED_FILE = "gisette_train_reconstructed.npz"


def _uci(
    name: str, number: int, doi: str, columns: int, rows: Mapping[str, int], embedded: Mapping[str, tuple[str, ...]]
) -> Official:
    """Return a data set of two classes from the UCI repository, with the rows of each split.

    `embedded` has the origin, and perhaps a remark, of each split that ships. The first one is the default split.
    """
    splits = {
        split: [
            File(file := f"{name}_{split}.data", _SHA256[file], count, [range(1000)] * columns),
            File(file := f"{name}_{split}.labels", _SHA256[file], count, [range(-1, 2, 2)]),
        ]
        for split, count in rows.items()
    }
    if name == "gisette":
        splits[RECONSTRUCTED] = [File(RECONSTRUCTED_FILE, "", rows["train"], ())]
    return Official(
        title=name.capitalize(),
        folder=name,
        url=f"https://archive.ics.uci.edu/static/public/{number}/{name}.zip",
        archive_hash=None,
        terms=f"UCI, doi:{doi}; Guyon, Gunn, Ben-Hur, Dror 2004; CC BY 4.0",
        default=next(iter(embedded)),
        splits=splits,
        arrays=lambda tables: {"A": tables[0], "b": tables[1][:, 0]},
        embedded={
            split: Packed(file := f"{name}_{split}.npy.xz", _SHA256[file], *texts) for split, texts in embedded.items()
        },
    )


def _ratings(tables: Sequence[Array]) -> Mapping[str, Array]:
    user, item, rating, _ = tables[0].T
    return {"rows": user.astype(np.int64) - 1, "cols": item.astype(np.int64) - 1, "values": rating.copy()}


_EXACT = ("all numbers agree with the official files",)
#: Origin of the copy of Gisette's validation split that ships, and its known differences from the official file.
RECOVERED = (
    "recovered from the LIBSVM-scaled copy of the split",
    "29 columns that are constant in the official training split are 0, 183 of 657,957 non-zeros sit in columns whose "
    "scale is ambiguous, and the sum of all values is within 0.0014 % of the official checksum",
)

#: Published data sets by name.
catalogue: dict[str, Official] = {
    "madelon": _uci(
        "madelon", 171, "10.24432/C5602H", 500, {"train": 2000, "valid": 600}, {"train": _EXACT, "valid": _EXACT}
    ),
    "gisette": _uci("gisette", 170, "10.24432/C5HP5B", 5000, {"train": 6000, "valid": 1000}, {"valid": RECOVERED}),
    "movielens": Official(
        title="MovieLens 100K",
        folder="ml-100k",
        url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        archive_hash="md5:0e33842e24a9c977be4e0107933c0723",
        terms="GroupLens, doi:10.1145/2827872; Harper, Konstan 2015; research use, no redistribution",
        default="all",
        splits={
            "all": [
                File(
                    "u.data",
                    "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
                    100_000,
                    [range(1, 944), range(1, 1683), range(1, 6), range(10**10)],
                )
            ]
        },
        arrays=_ratings,
        shape=(943, 1682),
    ),
}

#: Descriptions of known files that differ from the official ones, by SHA-256.
known_variants: Mapping[str, str] = {
    "ce0bc1b23970598f7bf1552802ebe8f798ab65a1c2e7f0b2ecd63f8eacc28b4b": f"was {RECOVERED[0]}: {RECOVERED[1]}",
}


def find(name: str, folder: Path) -> Path | None:
    """Return the path of a file in a folder, plain or gzipped."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def read(file: File, path: Path) -> bytes:
    """Return the uncompressed content of a file, up to one byte more than its limit."""
    try:
        with opened(path) as stream:
            return stream.read(file.limit + 1)
    except (OSError, EOFError, zlib.error, InputError) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def is_official(file: File, content: bytes) -> bool:
    """Return whether this is the published content, byte for byte."""
    return hashlib.sha256(content).hexdigest() == file.sha256


def parse(file: File, content: bytes, path: Path) -> Array:
    """Return the numbers in a file as float64; an error names the file and the line."""
    lines = content.decode("ascii", errors="replace").splitlines()
    if len(lines) != file.rows:
        raise DataError(f"{path} has {len(lines)} lines where {file.rows} are expected")
    table = np.empty((file.rows, len(file.columns)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # Older versions of NumPy warn about text.
        for number, line in enumerate(lines, start=1):
            try:
                values = np.fromstring(line, dtype=np.int64, sep=" ")
            except (ValueError, DeprecationWarning):
                raise DataError(f"{path}, line {number}: not a row of integers: {line[:40]!r}") from None
            if len(values) != len(file.columns):
                raise DataError(f"{path}, line {number}: {len(values)} values where {len(file.columns)} are expected")
            table[number - 1] = values
    for column, accepted in zip(table.T, file.columns, strict=True):
        wrong = (column < accepted.start) | (column >= accepted.stop) | ((column - accepted.start) % accepted.step != 0)
        if wrong.any():
            row = int(wrong.argmax())
            steps = f" in steps of {accepted.step}" if accepted.step > 1 else ""
            range_text = f"from {accepted[0]} to {accepted[-1]}{steps}"
            raise DataError(f"{path}, line {row + 1}: {column[row]:.0f} is not accepted: {range_text}")
    return table


def content_of(packed: Packed) -> Array:
    """Return the array in a packed file. The digest is verified before the file is decompressed."""
    try:
        content = packed.path.read_bytes()
    except OSError as error:
        raise DataError(f"{packed.path} cannot be read: {error}. Reinstall fwflow") from error
    if hashlib.sha256(content).hexdigest() != packed.sha256:
        raise DataError(f"{packed.path} is damaged: its SHA-256 is not {packed.sha256}. Reinstall fwflow")
    table: Array = np.load(io.BytesIO(lzma.decompress(content)), allow_pickle=False)
    return table


def unpack(packed: Packed) -> list[Array]:
    """Return the features, and the labels as one column."""
    table = content_of(packed)
    return [np.ascontiguousarray(part, dtype=np.float64) for part in (table[:, :-1], table[:, -1:])]
