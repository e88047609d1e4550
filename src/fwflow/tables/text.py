"""Tables in text: CSV with or without a header, and libsvm. Read in blocks of lines, each parsed as a whole."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import numpy as np
import scipy.sparse as sp

from fwflow._storage.files import opened
from fwflow._validation import Array, InputError, is_plain, parsed
from fwflow.tables.table import BLANKS, MISSING, Table, Target, Wanted, as_target, refuse_missing, refuse_text

# Cells that are text before they are numbers; they take some ten times the memory of those.
_CELLS = 2**18
_DELIMITERS = ",;\t"
# Lines in which the first two rows are looked for; a name between quotation marks may take several.
_HEAD = 50


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """A file as text; what is not UTF-8 is refused with the line."""
    try:
        with opened(path) as file, io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
            yield text
    except UnicodeDecodeError as error:
        with opened(path) as file:
            number = next(i for i, line in enumerate(file, 1) if not _decodes(line))
        raise InputError(f"{path}, line {number} is not UTF-8: save the file in that encoding") from error


def _decodes(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def read_csv(path: Path, wanted: Wanted) -> Table:
    """Cells between commas, semicolons or tabs. Lines that begin with # are remarks if they come first."""
    with _text(path) as file:
        rows = _rows(path, file)
        first, header, names = _head(path, rows, wanted)
        features, target = wanted.divide(path, names)
        cells = _Cells(path, names, features)
        texts: list[str] = []
        rows = rows if header else chain([first], rows)
        while block := list(islice(rows, max(1, _CELLS // len(names)))):
            _same_lengths(path, block, len(names))
            cells.add(block)
            if target is not None:
                texts += [row[target] for _, row in block]
    X = cells.numbers()
    picked = tuple(names[j] for j in features)
    if target is None:
        return Table(path, X, picked, None, "", cells.place)
    return Table(path, X, picked, as_target(path, texts, cells.place, names[target]), names[target], cells.place)


def names_of_csv(path: Path) -> list[str]:
    """The names of the columns, as the first row has them."""
    with _text(path) as file:
        return _head(path, _rows(path, file), Wanted())[2]


Row = tuple[int, list[str]]


def _head(path: Path, rows: Iterator[Row], wanted: Wanted) -> tuple[Row, bool, list[str]]:
    """The first row, whether it is a header, and the names of the columns."""
    first = next(rows, None)
    if first is None:
        raise InputError(f"{path} is empty")
    header = _is_header(first[1], wanted) if wanted.header is None else wanted.header
    return first, header, [cell if header and cell else str(j + 1) for j, cell in enumerate(first[1])]


def _rows(path: Path, file: TextIO) -> Iterator[Row]:
    """Rows that are not blank, stripped, each with the number of its last line."""
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
    """The sign that divides the first two rows into equally many cells, and into most."""

    def fit(sign: str) -> tuple[bool | int, ...]:
        rows = filter(None, csv.reader(head, delimiter=sign, skipinitialspace=True, strict=True))
        lengths: list[int] = []
        try:
            lengths.extend(len(row) for row in islice(rows, 2))
        except csv.Error:  # something follows a closing quotation mark, or none closes
            return False, *lengths[:1], 0
        return lengths[0] == lengths[-1] > 1, lengths[0]

    return max(_DELIMITERS, key=fit)


def _same_lengths(path: Path, block: Sequence[Row], length: int) -> None:
    for line, cells in block:
        if len(cells) != length:
            raise InputError(f"{path}, line {line} has {len(cells)} cells, where the first row has {length}")


def _is_header(cells: Sequence[str], wanted: Wanted) -> bool:
    """Whether cells are names of columns: known ones, or some name, and numbers that just count the columns."""
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


class _Cells:
    """Blocks of rows as numbers, and what is found in their place, told once all is read."""

    def __init__(self, path: Path, names: Sequence[str], features: Sequence[int]) -> None:
        self._path, self._names, self._features = path, names, features
        self._blocks: list[Array] = []
        self._lines = array("q")
        self._first: dict[int, tuple[int, str]] = {}  # the line and the cell of the first that is no number, by column
        self._wrong: dict[int, int] = {}  # how many are neither numbers nor missing, by column
        self._missing: tuple[int, int, str] | None = None
        self._lacking = 0  # rows with missing cells

    def place(self, i: int) -> str:
        """Where row i stands."""
        return f"line {self._lines[i]}"

    def add(self, block: Sequence[Row]) -> None:
        """More rows."""
        self._lines.extend(line for line, _ in block)
        every = len(self._features) == len(self._names)
        rows = [row if every else [row[j] for j in self._features] for _, row in block]
        numbers = _numbers(rows).reshape(len(rows), len(self._features))
        self._blocks.append(numbers)
        lacking = set()
        for i, k in np.argwhere(~np.isfinite(numbers)).tolist():
            (line, row), j = block[i], self._features[k]
            if row[j].lower() in MISSING:
                lacking.add(i)
                self._missing = self._missing or (line, j, row[j])
            else:
                self._first.setdefault(j, (line, row[j]))
                self._wrong[j] = self._wrong.get(j, 0) + 1
        self._lacking += len(lacking)

    def numbers(self) -> Array:
        """All rows, if every cell is a number."""
        rows = len(self._lines)
        if not rows:
            raise InputError(f"{self._path} has no rows, only the names of columns")
        if text := [j for j, count in self._wrong.items() if 2 * count > rows]:
            held = ((self._names[j], "line {} is {!r}".format(*self._first[j])) for j in sorted(text))
            raise refuse_text(self._path, held)
        if self._first:
            j, (line, cell) = min(self._first.items(), key=lambda item: item[1][0])
            raise InputError(f"{self._path}, {self._cell(line, j)} must be a finite number; it is {cell!r}")
        if self._missing:
            line, j, cell = self._missing
            raise refuse_missing(self._path, self._cell(line, j), cell, self._lacking, rows)
        return self._blocks[0] if len(self._blocks) == 1 else np.concatenate(self._blocks)

    def _cell(self, line: int, j: int) -> str:
        named = f" ({self._names[j]!r})" if self._names[j] != str(j + 1) else ""
        return f"line {line}, column {j + 1}{named}"


def _numbers(rows: Sequence[Sequence[str]]) -> Array:
    """Cells as numbers, NaN where they are none. NumPy converts as `float` does, so it gets plain text alone."""
    try:
        if all(is_plain("".join(row)) for row in rows):
            return np.array(rows, dtype=np.float64)
    except ValueError:
        pass
    values = ([parsed(cell) for cell in row] for row in rows)
    return np.array([[np.nan if value is None else value for value in row] for row in values])


def read_libsvm(path: Path, wanted: Wanted) -> Table:
    """A label, and pairs of an index and a value. Columns are called by their index, from 0 if that occurs, else 1."""
    labels: list[str] = []
    lines, indices, values, ends = array("q"), array("q"), array("d"), array("q", [0])
    with _text(path) as file:
        for number, line in enumerate(file, 1):
            content = line.partition("#")[0].strip(BLANKS)
            if not content:
                continue
            label, *pairs = content.split() if content.isascii() else re.split(f"[{BLANKS}]+", content)
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
    if ":" in "".join(labels):
        i = next(i for i, label in enumerate(labels) if ":" in label)
        raise InputError(f"{path}, {place(i)} must begin with a label; it begins with {labels[i]!r}")
    base = int(places.min(initial=1))
    width = int(places.max(initial=base)) + 1 - base
    X = sp.csr_array((entries, places - base, indptr), shape=(len(labels), width)).tocsc()
    X.sum_duplicates()
    names = tuple(map(str, range(base, base + width)))
    features, column = wanted.divide(path, names, own_target=True)
    kept = X if len(features) == width else X[:, features]
    target: Target = as_target(path, labels, place, "label")
    if column is not None:
        target = X[:, [column]].toarray()[:, 0]
    name = "label" if column is None else names[column]
    return Table(path, kept, tuple(names[j] for j in features), target, name, place, implied=True)


def _bad_pair(path: Path, line: int, pairs: Sequence[str]) -> InputError:
    for j, pair in enumerate(pairs):
        index, _, value = pair.partition(":")
        if not (index.isdecimal() and index.isascii() and len(index) < 19 and parsed(value) is not None):
            return InputError(f"{path}, line {line}, entry {j + 1} must be INDEX:VALUE; it is {pair!r}")
    return InputError(f"{path}, line {line} must be a label and pairs INDEX:VALUE")


def _check_entries(path: Path, values: Array, indices: Array, ends: Array, place: Callable[[int], str]) -> None:
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
