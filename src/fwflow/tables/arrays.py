"""Tables in arrays: ``.npz``, ``.npy``, Matrix Market and Parquet, where rows have numbers and no lines."""

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
    refuse_infinite,
    refuse_missing,
    refuse_text,
    row_place,
)


def read_npz(path: Path, wanted: Wanted) -> Table:
    """Arrays ``X`` and ``y``, or ``A`` and ``b``, and perhaps ``names``; or what `scipy.sparse.save_npz` writes."""
    try:
        stored = load_arrays(path)
        arrays = stored if isinstance(stored, dict) else {}
        if sparse := "format" in arrays and "shape" in arrays:
            with seekable(path) as file:
                matrix = sp.load_npz(file)
    except InputError:
        raise
    except (ValueError, BadZipFile, EOFError, KeyError, RuntimeError) as error:
        raise InputError(f"{path} is not an .npz file of numbers: {error}") from error
    if sparse:
        return _matrix(path, wanted, matrix, None, None)
    if wanted.alone and len(arrays) == 1:
        return _vector(path, next(iter(arrays.values())))
    matrix = next((arrays[name] for name in ("X", "A") if name in arrays), None)
    asked = () if wanted.target is None else (wanted.target,)
    others = () if asked and wanted.target not in wanted.optional else ("y", "b")
    labels = next(((name, arrays[name]) for name in (*asked, *others) if name in arrays), None)
    if wanted.alone and labels is not None:
        return _vector(path, labels[1])
    if matrix is None:
        raise InputError(f"{path} must hold an array X (or A), and y (or b); it holds {sorted(arrays)}")
    return _matrix(path, wanted, matrix, arrays.get("names"), labels)


def read_npy(path: Path, wanted: Wanted) -> Table:
    """One array."""
    try:
        stored = load_arrays(path)
    except (ValueError, EOFError) as error:
        raise InputError(f"{path} is not an .npy file of numbers: {error}") from error
    if isinstance(stored, dict):
        raise InputError(f"{path} is not an .npy file of numbers: it is an .npz file")
    return _vector(path, stored)


def read_mtx(path: Path, wanted: Wanted) -> Table:
    """A matrix in the Matrix Market format, dense or sparse."""
    _check_mtx(path)
    # SciPy aborts the process if a file object is closed while its error is handled, so it gets none that is closed.
    source = seekable(path) if path.suffix.lower() == ".gz" else path
    try:
        matrix = scipy.io.mmread(source, spmatrix=False)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} is not a Matrix Market file: {error}") from error
    if wanted.alone:
        return _vector(path, matrix.toarray() if sp.issparse(matrix) else matrix)
    return _matrix(path, wanted, matrix, None, None)


_NUMBER = rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+|inf(?:inity)?|nan)(?:e[+-]?[0-9]+)?"
_MTX_LINE = rb"(?:%[^\n]*+|[ \t]*+(?:" + _NUMBER + rb"(?:[ \t]++|(?=[\r\n])|\Z))*+)(?:\r?\n|\Z)"
_MTX_LINES = re.compile(rb"(?:" + _MTX_LINE + rb")*+", re.IGNORECASE)


def _check_mtx(path: Path) -> None:
    """Refuse entries that are no numbers: SciPy reads 1_000 as 1, and 0x10 as 0."""
    with opened(path) as file:
        before = 0
        while block := list(islice(file, 2**12)):
            text = b"".join(block)
            found = _MTX_LINES.match(text)
            if found is None or found.end() < len(text):
                line = text[: 0 if found is None else found.end()].count(b"\n")
                said = block[line].decode("utf-8", "replace").strip()
                raise InputError(f"{path}, line {before + line + 1} must hold numbers; it is {said[:60]!r}")
            before += len(block)


def _vector(path: Path, values: Any) -> Table:
    values = np.asarray(values)
    if values.size != max(values.shape, default=0):
        raise InputError(f"{path} must hold a vector; it holds an array of shape {values.shape}")
    return Table(path, np.zeros((values.size, 0)), (), _as_target(path, values.reshape(-1), "target"), "", row_place)


def _as_target(path: Path, values: Array, name: str) -> Target:
    if values.dtype.kind in "US":
        return as_target(path, [str(value) for value in values], row_place, name)
    numbers = float_array(values, f"{path}: the target", 1).astype(np.float64)
    refuse_infinite(path, numbers, row_place, name)
    return numbers


def _matrix(path: Path, wanted: Wanted, matrix: Any, names: Any, labels: tuple[str, Any] | None) -> Table:
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{path} must hold a matrix with rows and columns; its shape is {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} must hold real numbers; it holds {matrix.dtype}")
    X = sp.csc_array(matrix) if sp.issparse(matrix) else matrix
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    width = X.shape[1]
    called = [str(j + 1) for j in range(width)] if names is None else [str(name) for name in np.asarray(names)]
    if len(called) != width:
        raise InputError(f"{path} has {len(called)} names for {width} columns")
    wanted = wanted if labels is None else replace(wanted, target=None)
    features, column = wanted.divide(path, called, own_target=labels is not None)
    _refuse_infinite_entries(path, X, called)
    target: Target | None = None
    if labels is not None:
        target = _as_target(path, np.asarray(labels[1]).reshape(-1), labels[0])
        if len(target) != X.shape[0]:
            raise InputError(f"{path}: {labels[0]} has {len(target)} entries, and the matrix has {X.shape[0]} rows")
    elif column is not None:
        values = X[:, [column]]
        target = np.asarray(values.toarray() if sp.issparse(values) else values, dtype=np.float64)[:, 0]
    name = labels[0] if labels is not None else "" if column is None else called[column]
    kept = X if len(features) == width else X[:, features]
    return Table(path, kept, tuple(called[j] for j in features), target, name, row_place)


def _refuse_infinite_entries(path: Path, X: Any, names: list[str]) -> None:
    entries = X.data if sp.issparse(X) else X
    good = np.isfinite(entries)
    if good.all():
        return
    if sp.issparse(X):
        k = int(good.argmin())
        i, j, value = int(X.indices[k]), int(np.searchsorted(X.indptr, k, side="right")) - 1, entries[k]
    else:
        i, j = map(int, np.unravel_index(int(good.argmin()), good.shape))
        value = entries[i, j]
    named = f" ({names[j]!r})" if names[j] != str(j + 1) else ""
    raise InputError(f"{path}, row {i + 1}, column {j + 1}{named} must be a finite number; it is {value}")


def read_parquet(path: Path, wanted: Wanted) -> Table:
    """Columns of integers, floating-point numbers, decimals or truth values; the target may be text."""
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
            check_unpacked(path, _parquet_size(file.metadata), path.stat().st_size)
            stored = file.read()
        except pa.ArrowException as error:
            raise InputError(f"{path} is not a Parquet file that can be read: {error}") from error
    if not stored.num_rows:
        raise InputError(f"{path} has no rows, only the names of columns")
    types = {j: stored.schema.field(j).type for j in features}
    text = [(names[j], str(kind)) for j, kind in types.items() if not _numeric(pa.types, kind)]
    if text:
        raise refuse_text(path, text)
    columns = [_numbers(stored.column(j)) for j in features]
    _refuse_absent(path, columns, [f"column {j + 1} ({names[j]!r})" for j in features])
    X = np.column_stack(columns) if columns else np.zeros((stored.num_rows, 0))
    picked = tuple(names[j] for j in features)
    if target is None:
        return Table(path, X, picked, None, "", row_place)
    column = stored.column(target)
    if _numeric(pa.types, column.type):
        values = _numbers(column)
        refuse_infinite(path, values, row_place, names[target])
        return Table(path, X, picked, values, names[target], row_place)
    cells = ["" if cell is None else str(cell) for cell in column.to_pylist()]
    return Table(path, X, picked, as_target(path, cells, row_place, names[target]), names[target], row_place)


def _parquet_size(metadata: Any) -> int:
    """Bytes that a Parquet file takes in memory: those of its pages, or eight per number if that is more."""
    pages = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
    return max(pages, 8 * metadata.num_rows * metadata.num_columns)


def _numeric(types: Any, kind: Any) -> bool:
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def _numbers(column: Any) -> Array:
    """A column as float64, missing values as NaN."""
    values = column.to_numpy()
    return (
        np.array([np.nan if v is None else v for v in values], float)
        if values.dtype == object
        else values.astype(float)
    )


def _refuse_absent(path: Path, columns: list[Array], named: list[str]) -> None:
    rows: Array = np.zeros(len(columns[0]) if columns else 0, bool)
    first: tuple[int, int] | None = None
    for j, column in enumerate(columns):
        wrong = ~np.isfinite(column)
        if wrong.any():
            i = int(wrong.argmax())
            first = (i, j) if first is None or i < first[0] else first
            rows |= wrong
    if first is None:
        return
    i, j = first
    value = columns[j][i]
    where = f"row {i + 1}, {named[j]}"
    if np.isinf(value):
        raise InputError(f"{path}, {where} must be a finite number; it is {value}")
    raise refuse_missing(path, where, "", int(rows.sum()), len(rows))
