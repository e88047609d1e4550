"""Readers of data files, one for each format. Errors name the line of a text file, and the row of other files."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, TextIO
from zipfile import BadZipFile

import numpy as np
import scipy.io
import scipy.sparse as sp

from fwflow._storage.files import check_unpacked, load_arrays, opened, seekable
from fwflow._validation import Array, InputError, is_plain, parsed
from fwflow.tables.table import (
    BLANKS,
    MISSING,
    Labels,
    Table,
    Wanted,
    column_text,
    make_table,
    refuse_missing,
    refuse_text,
    select,
)

# Cells per block, chosen without tuning. Cells as text take about ten times the memory of numbers.
_CELLS = 2**18
_DELIMITERS = ",;\t"
# Lines in which the first two rows are searched, chosen without tuning. A quoted name may span several lines.
_HEAD = 50
# Largest index in a libsvm file: the largest of the 32-bit indices that SciPy uses.
_LARGEST_INDEX = 2**31 - 1


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """Open a file as text; refuse a file that is not UTF-8 with the number of the line."""
    try:
        with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        with opened(path) as file:
            number = next(i for i, line in enumerate(file, 1) if line.decode("utf-8", "ignore").encode() != line)
        raise InputError(f"{path}, line {number} is not UTF-8: save the file in that encoding") from error


def read_csv(path: Path, wanted: Wanted) -> Table:
    """Read cells between commas, semicolons or tabs. Lines before the first row that begin with # are comments."""
    with _text(path) as file:
        rows = _rows(path, file)
        first, header, names = _head(path, rows, wanted)
        features, target = wanted.divide(path, names)
        lines, texts, blocks = array("q"), list[str](), list[Array]()
        rows = rows if header else chain([first], rows)
        while block := list(islice(rows, max(1, _CELLS // len(names)))):
            for line, row in block:
                if len(row) != len(names):
                    raise InputError(f"{path}, line {line} has {len(row)} cells, where the first row has {len(names)}")
            lines.extend(line for line, _ in block)
            cells = [row if len(features) == len(names) else [row[j] for j in features] for _, row in block]
            blocks.append(_numbers(cells).reshape(len(block), len(features)))
            if target is not None:
                texts += [row[target] for _, row in block]
    if not blocks:
        raise InputError(f"{path} has no rows, only column names")
    X = blocks[0] if len(blocks) == 1 else np.concatenate(blocks)
    if not (good := np.isfinite(X)).all():
        raise _bad_cells(path, names, features, ~good, header)
    labels = None if target is None else (names[target], texts)
    return make_table(path, X, names, features, labels, lambda i: f"line {lines[i]}")


def _bad_cells(path: Path, names: Sequence[str], features: Sequence[int], bad: Array, header: bool) -> InputError:
    """Read the file again, and return the error for its cells that are not finite numbers."""
    first: dict[int, tuple[int, str]] = {}  # By column, line and content of the first cell that is text.
    count: Counter[int] = Counter()  # By column, the number of cells that are text.
    missing: dict[int, tuple[str, str]] = {}  # By line, place and content of the first missing cell.
    with _text(path) as file:
        for (line, row), wrong in zip(islice(_rows(path, file), int(header), None), bad, strict=False):
            for j in (features[k] for k in np.flatnonzero(wrong).tolist()):
                if row[j].lower() in MISSING:
                    missing.setdefault(line, (f"line {line}, {column_text(j, names)}", row[j]))
                else:
                    first.setdefault(j, (line, row[j]))
                    count[j] += 1
    # A column is text if more than half of its cells are. Otherwise these cells are errors in a column of numbers.
    if text := sorted(j for j in count if 2 * count[j] > len(bad)):
        return refuse_text(path, ((names[j], "line {} is {!r}".format(*first[j])) for j in text))
    if first:
        j, (line, cell) = min(first.items(), key=lambda item: item[1][0])
        return InputError(f"{path}, line {line}, {column_text(j, names)} must be a finite number; it is {cell!r}")
    place, cell = next(iter(missing.values()))
    return refuse_missing(path, place, repr(cell) if cell else "empty", len(missing), len(bad))


def names_of_csv(path: Path) -> list[str]:
    """Return the names of the columns."""
    with _text(path) as file:
        return _head(path, _rows(path, file), Wanted())[2]


Row = tuple[int, list[str]]


def _head(path: Path, rows: Iterator[Row], wanted: Wanted) -> tuple[Row, bool, list[str]]:
    """Return the first row, whether it is a header, and the names of the columns."""
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path} is empty")
    header = _is_header(first[1], wanted) if wanted.header is None else wanted.header
    return first, header, [cell if header and cell else str(j + 1) for j, cell in enumerate(first[1])]


def _rows(path: Path, file: TextIO) -> Iterator[Row]:
    """Yield the rows that are not blank, each with the number of its last line."""
    skipped, first = 0, ""
    for first in file:
        if first.strip() and not first.startswith("#"):
            break
        skipped += 1
    else:
        return
    head = [first, *islice(file, _HEAD)]
    reader = csv.reader(chain(head, file), delimiter=_delimiter(head), skipinitialspace=True)
    try:
        for cells in reader:
            if len(cells) > 1 or any(cells):
                yield skipped + reader.line_num, [cell.strip(BLANKS) for cell in cells]
    except csv.Error as error:
        line = skipped + reader.line_num
        raise InputError(f"{path}, line {line}: {error}; is a quotation mark left open?") from error


def _delimiter(head: Sequence[str]) -> str:
    """Return the delimiter that divides the first two rows into equally many cells, and into the most cells."""

    def fit(delimiter: str) -> tuple[bool | int, ...]:
        rows = filter(None, csv.reader(head, delimiter=delimiter, skipinitialspace=True, strict=True))
        lengths: list[int] = []
        try:
            lengths.extend(len(row) for row in islice(rows, 2))
        except csv.Error:  # Text follows a closing quotation mark, or none closes.
            return False, *lengths[:1], 0
        return lengths[0] == lengths[-1] > 1, lengths[0]

    return max(_DELIMITERS, key=fit)


def _is_header(cells: Sequence[str], wanted: Wanted) -> bool:
    """Return whether cells are column names: one is expected, or some are no numbers and all numbers count columns."""
    asked = (wanted.target, *wanted.drop, *wanted.known)
    expected = {name for name in asked if name is not None and parsed(name) is None}
    if expected & set(cells):
        return True
    named = any(cell.lower() not in MISSING and parsed(cell) is None for cell in cells)
    return named and all(
        cell in map(str, (j - 1, j, j + 1))
        for j, cell in enumerate(cells)
        if parsed(cell) is not None and cell.lower() != "nan"
    )


def _numbers(rows: Sequence[Sequence[str]]) -> Array:
    """Return cells as numbers, and NaN for text. NumPy accepts all that `float` accepts, so it gets plain text only."""
    try:
        if all(is_plain("".join(row)) for row in rows):
            return np.array(rows, dtype=np.float64)
    except ValueError:
        pass
    values = ([parsed(cell) for cell in row] for row in rows)
    return np.array([[np.nan if value is None else value for value in row] for row in values])


def read_libsvm(path: Path, wanted: Wanted) -> Table:
    """Read lines of a label and pairs INDEX:VALUE. The index is the name of a column; the first one is 0 or 1."""
    labels: list[str] = []
    lines, indices, values, ends = array("q"), array("q"), array("d"), array("q", [0])
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            content = line.partition("#")[0].strip(BLANKS)
            if not content:
                continue
            label, *pairs = content.split() if content.isascii() else re.split(f"[{BLANKS}]+", content)
            if ":" in label:
                raise InputError(f"{path}, line {number} must begin with a label; it begins with {label!r}")
            pairs = [pair for pair in pairs if not pair.startswith("qid:")]
            try:
                if pairs:
                    index, value = zip(*(pair.split(":") for pair in pairs), strict=True)
                    if not ("".join(index).isdecimal() and is_plain("".join(pairs))):
                        raise ValueError("an index or a value is not written as a number")
                    numbers = list(map(int, index))
                    if max(numbers) > _LARGEST_INDEX or len(set(numbers)) < len(numbers):
                        raise ValueError("an index is too large or occurs twice")
                    indices.extend(numbers)
                    values.extend(map(float, value))
            except ValueError:
                raise _bad_pair(path, number, pairs) from None
            labels.append(label)
            lines.append(number)
            ends.append(len(indices))
    if not labels:
        raise InputError(f"{path} is empty")
    places = np.array(indices, dtype=np.int64)
    base = int(places.min(initial=1))
    width = int(places.max(initial=base)) + 1 - base
    X = sp.csr_array((np.array(values), places - base, np.array(ends)), shape=(len(labels), width)).tocsc()
    X.sum_duplicates()
    names = tuple(map(str, range(base, base + width)))
    return select(path, wanted, X, names, ("label", labels), place=lambda i: f"line {lines[i]}", implied=True)


def _bad_pair(path: Path, line: int, pairs: Sequence[str]) -> InputError:
    """Return the error for the first pair of a line that is wrong."""
    for j, pair in enumerate(pairs):
        index, _, value = pair.partition(":")
        known = index.isdecimal() and index.isascii() and len(index) < 19 and int(index) <= _LARGEST_INDEX
        if not known or parsed(value) is None:
            accepted = f"INDEX:VALUE, with INDEX from 0 to {_LARGEST_INDEX}"
            return InputError(f"{path}, line {line}, entry {j + 1} must be {accepted}; it is {pair!r}")
    ((index, _),) = Counter(int(pair.partition(":")[0]) for pair in pairs).most_common(1)
    return InputError(f"{path}, line {line} has the index {index} twice")


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
    matrix = next((arrays[name] for name in ("X", "A") if name in arrays), None)
    usual = ("y", "b") if wanted.target is None or wanted.target in wanted.optional else ()
    name = next((name for name in (wanted.target, *usual) if name in arrays), None)
    if wanted.alone and (name is not None or len(arrays) == 1):
        return _vector(path, arrays[name or next(iter(arrays))])
    if matrix is None:
        raise InputError(f"{path} must hold an array X (or A), and y (or b); it holds {sorted(arrays)}")
    if name is None:
        return _matrix(path, wanted, matrix, arrays.get("names"))
    return _matrix(path, replace(wanted, target=None), matrix, arrays.get("names"), (name, arrays[name].reshape(-1)))


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
    return make_table(path, np.zeros((values.size, 0)), (), (), ("target", values.reshape(-1)))


def _matrix(path: Path, wanted: Wanted, matrix: Any, names: Any = None, labels: Labels | None = None) -> Table:
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
    return select(path, wanted, X, called, labels)


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
    labels: Labels | None = None
    if target is not None and numeric(target):
        labels = names[target], numbers(target)
    elif target is not None:
        labels = names[target], ["" if cell is None else str(cell) for cell in stored.column(target).to_pylist()]
    return make_table(path, X, names, features, labels)
