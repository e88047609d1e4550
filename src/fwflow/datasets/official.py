"""Which files are the real data, and is this content really theirs? The catalogue, and how a file is checked and read.

Every file is pinned by the SHA-256 of its uncompressed content. Archives are not: a server may pack the same files
anew. The digests of Madelon, of MovieLens and of Gisette's validation labels were computed from the files; those of
the other three Gisette files are the ones on which independent public loaders of the UCI files agree.
"""

from __future__ import annotations

import gzip
import hashlib
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fwflow._validation import Array
from fwflow.datasets.dataset import DataError
from fwflow.datasets.embedded import Packed


@dataclass(frozen=True)
class File:
    """A text file of integers: ``rows`` lines, and for each column the range of accepted values."""

    name: str
    sha256: str
    rows: int
    columns: Sequence[range]

    @property
    def limit(self) -> int:
        """More bytes than the file can have, so that nothing unbounded is ever decompressed."""
        return self.rows * (12 * len(self.columns) + 2)


@dataclass(frozen=True)
class Official:
    """A published data set: where it is, what it consists of, the arrays made of its files, and which splits ship."""

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
        return [file for files in self.splits.values() for file in files]


def _labelled(name: str, rows: int, columns: int, data: str, labels: str) -> tuple[File, File]:
    return (
        File(f"{name}.data", data, rows, [range(1000)] * columns),
        File(f"{name}.labels", labels, rows, [range(-1, 2, 2)]),
    )


def _classification(tables: Sequence[Array]) -> Mapping[str, Array]:
    features, labels = tables
    return {"A": features, "b": labels[:, 0]}


def _ratings(tables: Sequence[Array]) -> Mapping[str, Array]:
    user, item, rating, _ = tables[0].T
    return {"rows": user.astype(np.int64) - 1, "cols": item.astype(np.int64) - 1, "values": rating.copy()}


#: What is known of the copy of Gisette's validation split that ships.
RECOVERED = "recovered from the LIBSVM-scaled copy of the split"
RECOVERED_REMARK = (
    "29 columns that are constant in the official training split are 0, 183 of 657,957 non-zeros sit in columns whose "
    "scale is ambiguous, and the sum of all values is within 0.0014 % of the official checksum"
)

#: Real data sets by name.
catalogue: dict[str, Official] = {
    "madelon": Official(
        title="Madelon",
        folder="madelon",
        url="https://archive.ics.uci.edu/static/public/171/madelon.zip",
        archive_hash=None,
        terms="UCI, doi:10.24432/C5602H; Guyon, Gunn, Ben-Hur, Dror 2004; CC BY 4.0",
        default="train",
        splits={
            "train": _labelled(
                "madelon_train",
                2000,
                500,
                "0b6e37711efdc7ab74250c51e7d6966bffd9f8f2b0e9971e882c3a7a380c2314",
                "10bffcc3b017467cb810d326b931951adcbde2b4870faf981da2991993b48689",
            ),
            "valid": _labelled(
                "madelon_valid",
                600,
                500,
                "cb9a46475147de1a58d9f15ef4c318e5b85de344e0f9ab92626fa446aa815dc9",
                "fbac32fa87fac41ab731994a1c824e7b25396069bff6df242c01fe240fcb34dc",
            ),
        },
        arrays=_classification,
        embedded={
            "train": Packed(
                "madelon_train.npy.xz",
                "049114383402197331d033093a72a2accd9ba461131cbe0971c9cefa197628be",
                "the numbers of the official files",
            ),
            "valid": Packed(
                "madelon_valid.npy.xz",
                "5beec80e142a60a5c2d2108f03a40ea3fc64db248bf5572aa25a5349172583ba",
                "the numbers of the official files",
            ),
        },
    ),
    "gisette": Official(
        title="Gisette",
        folder="gisette",
        url="https://archive.ics.uci.edu/static/public/170/gisette.zip",
        archive_hash=None,
        terms="UCI, doi:10.24432/C5HP5B; Guyon, Gunn, Ben-Hur, Dror 2004; CC BY 4.0",
        default="valid",
        splits={
            "train": _labelled(
                "gisette_train",
                6000,
                5000,
                "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
                "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
            ),
            "valid": _labelled(
                "gisette_valid",
                1000,
                5000,
                "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254",
                "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5",
            ),
        },
        arrays=_classification,
        embedded={
            "valid": Packed(
                "gisette_valid.npy.xz",
                "276124259a9fff239faa74d3a02ed35fcd0f53f69928d9e4266daeba1fb31cee",
                RECOVERED,
                RECOVERED_REMARK,
            ),
        },
    ),
    "movielens": Official(
        title="MovieLens 100K",
        folder="ml-100k",
        url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        archive_hash="md5:0e33842e24a9c977be4e0107933c0723",
        terms="GroupLens, doi:10.1145/2827872; Harper, Konstan 2015; research use, no redistribution",
        default="all",
        splits={
            "all": (
                File(
                    "u.data",
                    "06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
                    100_000,
                    [range(1, 944), range(1, 1683), range(1, 6), range(10**10)],
                ),
            )
        },
        arrays=_ratings,
        shape=(943, 1682),
    ),
}

#: Content that is known and not official, by SHA-256.
known_variants: Mapping[str, str] = {
    "ce0bc1b23970598f7bf1552802ebe8f798ab65a1c2e7f0b2ecd63f8eacc28b4b": f"was {RECOVERED}: {RECOVERED_REMARK}",
}

#: Gisette's training split, rebuilt. Never offered as "train".
RECONSTRUCTED = "train-reconstructed"
RECONSTRUCTED_FILE = "gisette_train_reconstructed.npz"


def find(name: str, folder: Path) -> Path | None:
    """The file of that name in the folder, plain or gzipped."""
    candidates = (folder / name, folder / f"{name}.gz")
    return next((path for path in candidates if path.is_file()), None)


def read(file: File, path: Path) -> bytes:
    """Uncompressed content of a file, no more of it than is needed to see that it is too long."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return stream.read(file.limit + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}") from error


def is_official(file: File, content: bytes) -> bool:
    """Whether this is the published content, byte for byte."""
    return hashlib.sha256(content).hexdigest() == file.sha256


def parse(file: File, content: bytes, path: Path) -> Array:
    """The numbers in a file, as float64; an error names the file and the line."""
    lines = content.decode("ascii", errors="replace").splitlines()
    if len(lines) != file.rows:
        raise DataError(f"{path} has {len(lines)} lines where {file.rows} are expected")
    table = np.empty((file.rows, len(file.columns)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how older NumPy reports text that is not a number
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
            raise DataError(f"{path}, line {row + 1}: {column[row]:.0f} is not accepted: {_words(accepted)}")
    return table


def _words(accepted: range) -> str:
    return f"from {accepted[0]} to {accepted[-1]}" + (f" in steps of {accepted.step}" if accepted.step > 1 else "")
