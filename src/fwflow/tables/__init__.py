"""What does a file of data hold? CSV, libsvm, Parquet, ``.npz`` and ``.mtx`` as one table of named columns.

A table is complete or refused: no row and no cell is left out or guessed. Errors are ValueErrors that name the file
and, as far as the format has them, the line and the column. A number is written in ASCII digits, without underscores.

A compressed file (``.gz``, ``.npz``, Parquet) may unpack to 100 times its size, and to 128 MiB whatever its size. The
environment variable ``FWFLOW_MAX_UNPACKED`` sets another number of bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fwflow._validation import InputError, suggest
from fwflow.tables.arrays import read_mtx, read_npy, read_npz, read_parquet
from fwflow.tables.table import Table, Target, Wanted
from fwflow.tables.text import names_of_csv, read_csv, read_libsvm

__all__ = ["FORMATS", "Table", "Target", "column_names", "read", "read_target"]

Reader = Callable[[Path, Wanted], Table]

#: Readers by the end of a file's name, before a ``.gz`` if there is one.
FORMATS: MappingProxyType[str, Reader] = MappingProxyType(
    {
        ".csv": read_csv,
        ".tsv": read_csv,
        ".svm": read_libsvm,
        ".libsvm": read_libsvm,
        ".txt": read_libsvm,
        ".parquet": read_parquet,
        ".npz": read_npz,
        ".mtx": read_mtx,
    }
)
_TARGETS: dict[str, Reader] = {**FORMATS, ".txt": read_csv, ".npy": read_npy}


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
    """Read a file whose columns are numbers, but for the target and those that are dropped.

    Parameters
    ----------
    path : str or Path
        Its name ends in one of `FORMATS`, or in that and ``.gz``.
    target : str, optional
        The column to predict. Columns without a name are numbered from 1. By default the labels of a libsvm file, or
        the array ``y`` or ``b`` of an ``.npz``, if there are any.
    drop : collection of str
        Columns to leave out.
    header : bool, optional
        Whether a CSV file begins with the names of its columns. By default it is found out.
    known : collection of str
        Names that a header would have, as evidence for one.
    optional : collection of str
        Which of the target and the columns to leave out may be missing.
    labelled : bool
        Whether there must be a target.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shop.csv"
    >>> _ = path.write_text("age,visits,bought\\n31,2,no\\n45,7,yes\\n")
    >>> table = read(path, "bought")
    >>> table.names, table.X.tolist(), table.target
    (('age', 'visits'), [[31.0, 2.0], [45.0, 7.0]], ('no', 'yes'))
    """
    if target is not None and target in drop:
        raise InputError(f"--target and --drop both name {target!r}; a column is predicted, or it is left out")
    wanted = Wanted(target, frozenset(drop), header, frozenset(known), frozenset(optional), labelled)
    return _read(Path(path), wanted, FORMATS)


def read_target(path: str | Path, header: bool | None = None) -> Target:
    """Read a file with one column, or one array: the target of the rows of another file."""
    table = _read(Path(path), Wanted(header=header, alone=True), _TARGETS)
    if table.target is None:
        raise InputError(f"{path} must hold one column; it holds {len(table.names)}")
    return table.target


def column_names(path: str | Path) -> list[str]:
    """What the columns of a CSV file are called, by its first row; of other files, whose head does not tell, none."""
    return names_of_csv(Path(path)) if FORMATS.get(_suffix(Path(path))) is read_csv else []


def _suffix(path: Path) -> str:
    return Path(path.stem if path.suffix.lower() == ".gz" else path.name).suffix.lower()


def _read(path: Path, wanted: Wanted, readers: Any) -> Table:
    suffix = _suffix(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder; a table is one file, ending in {', '.join(readers)}")
    if suffix not in readers:
        raise InputError(f"{path}: files ending in {suffix!r} are not known; {suggest(suffix, readers)}, also with .gz")
    try:
        return readers[suffix](path, wanted)
    except (EOFError, zlib.error) as error:
        raise InputError(f"{path} is cut short or damaged: {error}") from error
    except MemoryError as error:
        raise InputError(f"{path} does not fit into memory: {error}") from error
