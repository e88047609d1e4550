"""Readers of array files: ``.npz``, ``.npy``, Matrix Market and Parquet. Errors name the row, as there are no lines."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import scipy.io
import scipy.sparse as sp

from fwflow._storage.files import check_unpacked, load_arrays, opened, seekable
from fwflow._validation import Array, InputError, float_array
from fwflow.tables.table import (
    Table,
    Target,
    Wanted,
    as_target,
    column_text,
    finite_target,
    from_matrix,
    refuse_missing,
    refuse_text,
)


def _row_place(i: int) -> str:
    return f"row {i + 1}"


def read_numpy(path: Path, wanted: Wanted) -> Table:
    """Read arrays ``X`` and ``y``, or ``A`` and ``b``, and perhaps ``names``; or a file of `scipy.sparse.save_npz`.

    A target may also be the only array of its file.
    """
    try:
        stored = load_arrays(path)
        arrays = stored if isinstance(stored, dict) else {"array": stored}
        if sparse := "format" in arrays and "shape" in arrays:
            with seekable(path) as file:
                matrix = sp.load_npz(file)
    except InputError:
        raise
    except (ValueError, BadZipFile, EOFError, KeyError, RuntimeError) as error:
        raise InputError(f"{path} is not a NumPy file of numbers: {error}") from error
    if sparse:
        return _matrix(path, wanted, matrix)
    if wanted.alone and len(arrays) == 1:
        return _vector(path, next(iter(arrays.values())))
    matrix = next((arrays[name] for name in ("X", "A") if name in arrays), None)
    asked = () if wanted.target is None else (wanted.target,)
    others = () if asked and wanted.target not in wanted.optional else ("y", "b")
    name = next((name for name in (*asked, *others) if name in arrays), None)
    if wanted.alone and name is not None:
        return _vector(path, arrays[name])
    if matrix is None:
        raise InputError(f"{path} must hold an array X (or A), and y (or b); it holds {sorted(arrays)}")
    if name is None:
        return _matrix(path, wanted, matrix, arrays.get("names"))
    labels = name, _target(path, arrays[name].reshape(-1), name)
    return _matrix(path, replace(wanted, target=None), matrix, arrays.get("names"), labels)


def read_mtx(path: Path, wanted: Wanted) -> Table:
    """Read a dense or sparse matrix in the Matrix Market format."""
    _check_mtx(path)
    # SciPy aborts the process if a file object is closed while SciPy's error is handled, so this one stays open.
    source = seekable(path) if path.suffix.lower() == ".gz" else path
    try:
        matrix = scipy.io.mmread(source, spmatrix=False)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a Matrix Market file: {error}") from error
    if wanted.alone:
        return _vector(path, matrix.toarray() if sp.issparse(matrix) else matrix)
    return _matrix(path, wanted, matrix)


_NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+|inf(?:inity)?|nan)(?:e[+-]?[0-9]+)?"
_MTX_LINE = rb"(?:%[^\n]*+|[ \t]*+(?:" + _NUMBER + rb"(?:[ \t]++|(?=[\r\n])|\Z))*+)(?:\r?\n|\Z)"
_MTX_LINES = re.compile(rb"(?:" + _MTX_LINE + rb")*+", re.IGNORECASE)


def _check_mtx(path: Path) -> None:
    """Refuse entries that are not numbers: SciPy reads 1_000 as 1, and 0x10 as 0."""
    with opened(path) as file:
        before = 0
        while block := list(islice(file, 2**12)):
            text = b"".join(block)
            found = _MTX_LINES.match(text)
            if found is None or found.end() < len(text):
                line = text[: 0 if found is None else found.end()].count(b"\n")
                content = block[line].decode("utf-8", "replace").strip()
                raise InputError(f"{path}, line {before + line + 1} must hold numbers; it is {content[:60]!r}")
            before += len(block)


def _vector(path: Path, values: Any) -> Table:
    values = np.asarray(values)
    if values.size != max(values.shape, default=0):
        raise InputError(f"{path} must hold a vector; it holds an array of shape {values.shape}")
    return Table(path, np.zeros((values.size, 0)), (), _target(path, values.reshape(-1), "target"), "", _row_place)


def _target(path: Path, values: Array, name: str) -> Target:
    if values.dtype.kind in "US":
        return as_target(path, [str(value) for value in values], _row_place, name)
    numbers = float_array(values, f"{path}: the target", 1).astype(np.float64)
    return finite_target(path, numbers, _row_place, name)


def _matrix(
    path: Path, wanted: Wanted, matrix: Any, names: Any = None, labels: tuple[str, Target] | None = None
) -> Table:
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{path} must hold a matrix with rows and columns; its shape is {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} must hold real numbers; it holds {matrix.dtype}")
    X = sp.csc_array(matrix) if sp.issparse(matrix) else matrix
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    height, width = X.shape
    called = [str(j + 1) for j in range(width)] if names is None else [str(name) for name in np.asarray(names)]
    if len(called) != width:
        raise InputError(f"{path} has {len(called)} names for {width} columns")
    if labels is not None and len(labels[1]) != height:
        raise InputError(f"{path}: {labels[0]} has {len(labels[1])} entries, and the matrix has {height} rows")
    table = from_matrix(path, wanted, X, called, labels, _row_place)
    _refuse_infinite(table, called)
    return table


def _refuse_infinite(table: Table, names: list[str]) -> None:
    """Refuse entries that are missing or infinite. `names` are those of all columns of the file."""
    X = table.X
    wrong = ~np.isfinite(X.data if sp.issparse(X) else X)
    if not wrong.any():
        return
    if sp.issparse(X):
        k = int(wrong.argmax())
        rows, i, j = X.indices[wrong], int(X.indices[k]), int(np.searchsorted(X.indptr, k, side="right")) - 1
        value = X.data[k]
    else:
        rows = np.flatnonzero(wrong.any(axis=1))
        i, j = int(rows[0]), int(wrong[rows[0]].argmax())
        value = X[i, j]
    place = f"{_row_place(i)}, {column_text(names.index(table.names[j]), names)}"
    if np.isnan(value):
        raise refuse_missing(table.path, place, "missing", len(np.unique(rows)), X.shape[0])
    raise InputError(f"{table.path}, {place} must be a finite number; it is {value}")


def read_parquet(path: Path, wanted: Wanted) -> Table:
    """Read columns of integers, floating-point numbers, decimals or Booleans; the target may be text."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise InputError(f"{path}: Parquet files need pyarrow: pip install 'fwflow[data]'") from None
    with seekable(path) as source:
        try:
            file = pq.ParquetFile(source)
            names = file.schema_arrow.names
            features, target = wanted.divide(path, names)
            metadata = file.metadata
            pages = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
            # In memory a number takes eight bytes, also if its encoding in the file is shorter.
            check_unpacked(path, max(pages, 8 * metadata.num_rows * metadata.num_columns), path.stat().st_size)
            stored = file.read()
        except pa.ArrowException as error:
            raise InputError(f"{path} is not a Parquet file that can be read: {error}") from error
    if not stored.num_rows:
        raise InputError(f"{path} has no rows, only column names")

    def numeric(j: int) -> bool:
        kind, types = stored.schema.field(j).type, pa.types
        return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)

    def numbers(j: int) -> Array:
        values = stored.column(j).to_numpy()
        if values.dtype == object:
            values = np.array([np.nan if value is None else value for value in values], float)
        return values.astype(float)

    if text := [(names[j], str(stored.schema.field(j).type)) for j in features if not numeric(j)]:
        raise refuse_text(path, text)
    X = np.column_stack([numbers(j) for j in features]) if features else np.zeros((stored.num_rows, 0))
    name, labels = "" if target is None else names[target], None
    if target is not None and numeric(target):
        labels = _target(path, numbers(target), name)
    elif target is not None:
        cells = ["" if cell is None else str(cell) for cell in stored.column(target).to_pylist()]
        labels = as_target(path, cells, _row_place, name)
    table = Table(path, X, tuple(names[j] for j in features), labels, name, _row_place)
    _refuse_infinite(table, names)
    return table
