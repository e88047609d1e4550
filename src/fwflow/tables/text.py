"""Readers of text files: CSV with or without a header, in blocks of lines, and libsvm."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np
import scipy.sparse as sp

from fwflow._storage.files import opened
from fwflow._validation import Array, InputError, is_plain, parsed
from fwflow.tables.table import (
    BLANKS,
    MISSING,
    Table,
    Wanted,
    as_target,
    column_text,
    from_matrix,
    refuse_missing,
    refuse_text,
)

# Cells per block, chosen without tuning. Cells as text take about ten times the memory of numbers.
_CELLS = 2**18
_DELIMITERS = ",;\t"
# Lines in which the first two rows are searched, chosen without tuning. A quoted name may span several lines.
_HEAD = 50


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

    def place(i: int) -> str:
        return f"line {lines[i]}"

    name = "" if target is None else names[target]
    labels = None if target is None else as_target(path, texts, place, name)
    return Table(path, X, tuple(names[j] for j in features), labels, name, place)


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
                    indices.extend(map(int, index))
                    values.extend(map(float, value))
            except (ValueError, OverflowError):
                raise _bad_pair(path, number, pairs) from None
            labels.append(label)
            lines.append(number)
            ends.append(len(indices))
    if not labels:
        raise InputError(f"{path} is empty")

    def place(i: int) -> str:
        return f"line {lines[i]}"

    entries, places, indptr = np.array(values), np.array(indices, dtype=np.int64), np.array(ends)
    _check_entries(path, entries, places, indptr, place)
    base = int(places.min(initial=1))
    width = int(places.max(initial=base)) + 1 - base
    X = sp.csr_array((entries, places - base, indptr), shape=(len(labels), width)).tocsc()
    X.sum_duplicates()
    target = as_target(path, labels, place, "label")
    names = tuple(map(str, range(base, base + width)))
    return from_matrix(path, wanted, X, names, ("label", target), place, implied=True)


def _bad_pair(path: Path, line: int, pairs: Sequence[str]) -> InputError:
    for j, pair in enumerate(pairs):
        index, _, value = pair.partition(":")
        if not (index.isdecimal() and index.isascii() and len(index) < 19 and parsed(value) is not None):
            return InputError(f"{path}, line {line}, entry {j + 1} must be INDEX:VALUE; it is {pair!r}")
    return InputError(f"{path}, line {line} must be a label and pairs INDEX:VALUE")


def _check_entries(path: Path, values: Array, indices: Array, ends: Array, place: Callable[[int], str]) -> None:
    """Refuse values that are not finite, indices that are too large, and indices that occur twice in a row."""
    wrong = np.flatnonzero(~np.isfinite(values) | (indices < 0) | (indices >= 2**31))
    if len(wrong):
        i = int(wrong[0])
        row = int(np.searchsorted(ends, i, side="right")) - 1
        found = f"{indices[i]}:{values[i]}"
        raise InputError(f"{path}, {place(row)}, entry {i - ends[row] + 1} must be INDEX:VALUE, finite; it is {found}")
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(ends))
    keys = np.sort(rows * 2**31 + indices)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if len(twice):
        row, index = divmod(int(keys[twice[0]]), 2**31)
        raise InputError(f"{path}, {place(row)} has the index {index} twice")
