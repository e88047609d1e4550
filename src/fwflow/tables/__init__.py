"""Reader of data files: CSV, libsvm, Parquet, ``.npz`` and Matrix Market as tables of named columns.

`read` returns a table of numbers. It reads a file completely or refuses it: no row or cell is skipped or guessed.
`read_frame` also accepts text and missing cells. Errors are ValueErrors that name the file and, if the format has them,
the line and the column. Numbers are written in ASCII digits, without underscores.

A compressed file (``.gz``, ``.npz``, Parquet) may unpack to 100 times its size, or to 128 MiB if that is more. The
environment variable ``FWFLOW_MAX_UNPACKED`` sets another number of bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from fwflow._validation import InputError, suggest
from fwflow.tables import readers
from fwflow.tables.frames import Frame
from fwflow.tables.readers import Table, Target, Wanted

__all__ = [
    "FORMATS",
    "TABULAR",
    "Frame",
    "Table",
    "Target",
    "column_names",
    "is_tabular",
    "read",
    "read_frame",
    "read_target",
]

T = TypeVar("T")
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
#: Readers of frames by the suffix of the file name. Files of other formats hold only numbers.
TABULAR: MappingProxyType[str, Callable[[Path, Wanted], Frame]] = MappingProxyType(
    {".csv": readers.frame_of_csv, ".tsv": readers.frame_of_csv, ".parquet": readers.frame_of_parquet}
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
    only: bool = False,
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
    _check_options(target, drop)
    wanted = Wanted(target, frozenset(drop), header, frozenset(known), frozenset(optional), labelled, only=only)
    return _read(Path(path), wanted, FORMATS)


def read_frame(
    path: str | Path,
    target: str | None = None,
    *,
    drop: Collection[str] = (),
    header: bool | None = None,
    known: Collection[str] = (),
    optional: Collection[str] = (),
    labelled: bool = False,
    only: bool = False,
    text: Collection[str] = (),
    numbers: Collection[str] = (),
    na: Collection[str] = (),
) -> Frame:
    """Read a data file as a frame, whose columns are numbers or text and may have missing cells.

    A column of a CSV file is text if more than 5 % of its cells are. Fewer cells of text are errors in a column of
    numbers. Placeholders such as "-", "none", "unknown" and "#DIV/0!" are missing cells among numbers. Formats other
    than ``.csv``, ``.tsv`` and ``.parquet`` hold only numbers, none of them missing.

    Parameters
    ----------
    path : str or Path
        Data file whose suffix is in ``FORMATS``, perhaps with ``.gz``.
    target : str, optional
        Column to predict. Default: the target that the file stores, if any.
    drop, known, optional : collections of str
        Columns to leave out; expected names, one of which in the first row of a CSV file shows that it is a header; and
        names in `target` and `drop` of columns that may be absent.
    header : bool, optional
        Whether a CSV file begins with the names of its columns. Default: detected.
    labelled, only : bool
        Whether a target is required, and whether columns that are not in `known` are ignored.
    text, numbers : collections of str
        Columns of a CSV file whose cells stay text, also if they are numbers; and columns in which text is kept as it
        is, for an error later.
    na : collection of str
        Further cells that mean a missing value, in upper or lower case.

    Returns
    -------
    Frame

    See Also
    --------
    fwflow.tables.problem.read_problem : Objective of a data file, with its preparation.
    fwflow.tables.preparation.Preparation : Conversion of a frame to a matrix of numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "shop.csv"
    >>> _ = path.write_text("age,city,bought\\n31,Rome,no\\nNA,Paris,yes\\n")
    >>> frame = read_frame(path, "bought")
    >>> frame.columns["age"].tolist(), frame.columns["city"].tolist(), frame.target.tolist()
    ([31.0, nan], ['Rome', 'Paris'], ['no', 'yes'])
    """
    _check_options(target, drop)
    wanted = Wanted(
        target,
        frozenset(drop),
        header,
        frozenset(known),
        frozenset(optional),
        labelled,
        only=only,
        text=frozenset(text),
        numbers=frozenset(numbers),
        na=frozenset(text.strip().lower() for text in na),
    )
    frame = _read(Path(path), wanted, TABULAR) if is_tabular(path) else _read(Path(path), wanted, FORMATS).frame()
    return frame.without(na)


def is_tabular(path: str | Path) -> bool:
    """Return whether the format of a file has columns of text and missing cells."""
    return _suffix(Path(path)) in TABULAR


def _check_options(target: str | None, drop: Collection[str]) -> None:
    if target is not None and target in drop:
        raise InputError(f"--target and --drop both name {target!r}; use it in one of them")


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


def _read(path: Path, wanted: Wanted, formats: Mapping[str, Callable[[Path, Wanted], T]]) -> T:
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
