"""Reader of data files: CSV, libsvm, Parquet, ``.npz`` and Matrix Market as tables of named columns.

A table is read completely or refused: no row or cell is skipped or guessed. Errors are ValueErrors that name the file
and, if the format has them, the line and the column. Numbers are written in ASCII digits, without underscores.

A compressed file (``.gz``, ``.npz``, Parquet) may unpack to 100 times its size, or to 128 MiB if that is more. The
environment variable ``FWFLOW_MAX_UNPACKED`` sets another number of bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType

from fwflow._validation import InputError, suggest
from fwflow.tables import readers
from fwflow.tables.readers import Table, Target, Wanted

__all__ = ["FORMATS", "Table", "Target", "column_names", "read", "read_target"]

Reader = Callable[[Path, Wanted], Table]

#: Readers by the suffix of the file name, before an optional ``.gz``.
FORMATS: MappingProxyType[str, Reader] = MappingProxyType(
    {
        ".csv": readers.read_csv,
        ".tsv": readers.read_csv,
        ".svm": readers.read_libsvm,
        ".libsvm": readers.read_libsvm,
        ".txt": readers.read_libsvm,
        ".parquet": readers.read_parquet,
        ".npz": readers.read_numpy,
        ".mtx": readers.read_mtx,
    }
)
# Readers of files that hold only a target.
_TARGETS: dict[str, Reader] = {**FORMATS, ".txt": readers.read_csv, ".npy": readers.read_numpy}


def read(
    path: str | Path,
    target: str | None = None,
    *,
    drop: Collection[str] = (),
    header: bool | None = None,
    known: Collection[str] = (),
    optional: Collection[str] = (),
    labelled: bool = False,
) -> Table:
    """Read a data file whose suffix is in `FORMATS`, perhaps with ``.gz``. The fields of `Wanted` describe the options.

    Columns must be numbers, except for the target and the columns to drop.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shop.csv"
    >>> _ = path.write_text("age,visits,bought\\n31,2,no\\n45,7,yes\\n")
    >>> table = read(path, "bought")
    >>> table.names, table.X.tolist(), table.target
    (('age', 'visits'), [[31.0, 2.0], [45.0, 7.0]], ('no', 'yes'))
    """
    if target is not None and target in drop:
        raise InputError(f"--target and --drop both name {target!r}; use it in one of them")
    wanted = Wanted(target, frozenset(drop), header, frozenset(known), frozenset(optional), labelled)
    return _read(Path(path), wanted, FORMATS)


def read_target(path: str | Path, header: bool | None = None) -> Target:
    """Read a file of one column or one array as the target of the rows of another file."""
    table = _read(Path(path), Wanted(header=header, alone=True), _TARGETS)
    if table.target is None:
        raise InputError(f"{path} must hold one column; it holds {len(table.names)}")
    return table.target


def column_names(path: str | Path) -> list[str]:
    """Return the column names of a CSV file. For other formats the list is empty, as it would take reading the file."""
    return readers.names_of_csv(Path(path)) if FORMATS.get(_suffix(Path(path))) is readers.read_csv else []


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _read(path: Path, wanted: Wanted, formats: Mapping[str, Reader]) -> Table:
    suffix = _suffix(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; give a file that ends in {', '.join(formats)}")
    if suffix not in formats:
        raise InputError(f"{path}: unknown file suffix {suffix!r}; {suggest(suffix, formats)}, also with .gz")
    try:
        return formats[suffix](path, wanted)
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path} is truncated or damaged: {error}") from error
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory: {error}") from error
