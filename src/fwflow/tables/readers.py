"""Tables of numbers with named columns, and readers of tables and frames, one for each format.

Errors name the line of a text file, and the row of other files.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from zipfile import BadZipFile

import numpy as np
import scipy.io
import scipy.sparse as sp

from fwflow._storage.files import check_unpacked, load_arrays, opened, seekable
from fwflow._validation import Array, InputError, float_array, is_plain, parsed
from fwflow.tables.frames import (
    BLANKS,
    MISSING,
    PLACEHOLDERS,
    Frame,
    arrow_column,
    check_columns,
    listed,
    near,
    row_number,
    text_column,
)

#: A number per row; or a text per row, if some rows do not hold numbers.
Target = Array | tuple[str, ...]

# Smallest share of text among the cells of a column of text, chosen without tuning. If fewer cells are text, they are
# errors in a column of numbers.
_TEXT_SHARE = 0.05
# Cells per block, chosen without tuning. Cells as text take about ten times the memory of numbers.
_CELLS = 2**18
# Accepted delimiters. The first one is used if several fit equally well.
_DELIMITERS = ",;\t|"
# Numbers with a comma, for decimals or thousands.
_WITH_COMMA = re.compile(r"[+-]?[0-9]+(?:[.,][0-9]+)*(?:[eE][+-]?[0-9]+)?")
# Lines in which the first two rows are searched, chosen without tuning. A quoted name may span several lines.
_HEAD = 50
# Largest index in a libsvm file: the largest of the 32-bit indices that SciPy uses.
_LARGEST_INDEX = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers in named columns, and the target of each row."""

    path: Path
    X: Any  # Array or CSC matrix.
    names: tuple[str, ...]  # Names of the columns of X, all different.
    target: Target | None
    target_name: str
    place: Callable[[int], str]  # Position of row i in the file as text, for error messages.
    implied: bool = False  # Whether columns that the file does not mention are columns of zeros.
    ignored: tuple[str, ...] = ()  # Columns of the file that were not wanted.

    def columns(self, names: Sequence[str]) -> Any:
        """Return the matrix with these columns in this order; refuse the table if it lacks some of them."""
        places = {name: j for j, name in enumerate(self.names)}
        if not self.implied:
            check_columns(str(self.path), self.names, names, self.ignored)
        if names == self.names:
            return self.X
        if not self.implied:
            return self.X[:, [places[name] for name in names]]
        wider = sp.hstack([self.X, sp.csc_array((self.X.shape[0], 1))], format="csc")
        return wider[:, [places.get(name, -1) for name in names]]

    def frame(self) -> Frame:
        """Return the table as a frame."""
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        columns = {name: np.asarray(X[:, j], dtype=np.float64) for j, name in enumerate(self.names)}
        target = text_column(self.target) if isinstance(self.target, tuple) else self.target
        return Frame(columns, target, self.target_name, str(self.path), self.place, self.ignored)


@dataclass(frozen=True)
class Wanted:
    """Choice of columns of a file: the arguments of `read`. Columns without a name are numbered from 1.

    The default target is the labels of a libsvm file, or the array ``y`` or ``b`` of an ``.npz`` file, if present.
    """

    target: str | None = None  # Column to predict.
    drop: frozenset[str] = frozenset()  # Columns to leave out.
    header: bool | None = None  # Whether a CSV file begins with the names of its columns; None to detect it.
    known: frozenset[str] = frozenset()  # Expected names. A first row that contains one of them is a header.
    optional: frozenset[str] = frozenset()  # Names in `target` and `drop` of columns that may be absent.
    labelled: bool = False  # Whether a target is required.
    alone: bool = False  # Whether the only column of the file is the target.
    only: bool = False  # Whether columns that are not in `known` are ignored.
    text: frozenset[str] = frozenset()  # Columns whose cells stay text in a frame, also if all of them are numbers.
    numbers: frozenset[str] = frozenset()  # Columns of numbers, in which a frame keeps text as it is.
    na: frozenset[str] = frozenset()  # Cells of a CSV file that mean a missing value, in lower case.

    def divide(self, path: Path, names: Sequence[str], own_target: bool = False) -> Division:
        """Return the positions of the columns of X, and that of the target if it is one of the columns."""
        if self.alone and len(names) == 1:
            return Division([], 0, ())
        for option, name in [("--target", self.target), *(("--drop", name) for name in sorted(self.drop))]:
            if name is not None and name not in names and name not in self.optional:
                raise InputError(f"{path} has no column {name!r} ({option}); {near(name, names)}")
        if self.labelled and self.target is None and not own_target:
            raise InputError(f"{path}: the column to predict must be named with --target; it has {listed(names)}")
        kept = [j for j, name in enumerate(names) if name not in self.drop]
        wanted = [j for j in kept if not self.only or names[j] in self.known or names[j] == self.target]
        counts = Counter(names[j] for j in wanted)
        if twice := [name for name, count in counts.items() if count > 1]:
            where = " and ".join(str(j + 1) for j, name in enumerate(names) if name == twice[0])
            raise InputError(f"{path}: columns {where} are both called {twice[0]!r}; rename one, or drop them")
        target = next((j for j in wanted if names[j] == self.target), None)
        features = [j for j in wanted if j != target]
        if not features and not self.alone and not self.only:
            left_out = f"; --drop leaves out {listed(sorted(self.drop))}" if self.drop else ""
            raise InputError(f"{path} has no column to predict from; it has {listed(names)}{left_out}")
        return Division(features, target, tuple(names[j] for j in kept if j not in set(wanted)) if self.only else ())


class Division(NamedTuple):
    """Positions of the columns of X and of the target, and the names of the columns that are ignored."""

    features: list[int]
    target: int | None
    ignored: tuple[str, ...]


#: Name and values of a target.
Labels = tuple[str, Sequence[str] | Array]


def _select(path: Path, wanted: Wanted, X: Any, names: Sequence[str], labels: Labels | None, **more: Any) -> Table:
    """Return the wanted columns of a matrix. The target is one of them, or the labels with their name."""
    features, column, ignored = wanted.divide(path, names, own_target=labels is not None)
    if column is not None:
        values = X[:, [column]]
        labels = names[column], np.asarray(values.toarray() if sp.issparse(values) else values)[:, 0]
    kept = X if len(features) == len(names) else X[:, features]
    return _make_table(path, kept, names, features, labels, ignored=ignored, **more)


def _check_size(path: Path, shape: tuple[int, ...]) -> None:
    """Refuse a small file of a sparse matrix that declares many rows or columns: each takes at least eight bytes."""
    check_unpacked(path, 8 * max(shape), path.stat().st_size)


def _make_table(
    path: Path,
    X: Any,
    names: Sequence[str],
    features: Sequence[int],
    labels: Labels | None,
    place: Callable[[int], str] = row_number,
    implied: bool = False,
    ignored: tuple[str, ...] = (),
) -> Table:
    """Return a table; refuse entries that are not finite.

    `names` are those of all columns of the file, and `features` the positions of the columns of X among them.
    """
    name, target = "", None
    if labels is not None:
        name, target = labels[0], as_target(path, labels[1], labels[0], place)
    if not np.isfinite(X.data if sp.issparse(X) else X).all():
        entries = X.tocoo() if sp.issparse(X) else sp.coo_array(np.where(np.isfinite(X), 0.0, X))
        wrong = ~np.isfinite(entries.data)
        rows, columns, values = entries.row[wrong], entries.col[wrong], entries.data[wrong]
        where = f"{place(int(rows[0]))}, {_column_text(features[columns[0]], names)}"
        if np.isnan(values[0]):
            raise _refuse_missing(path, where, "missing", len(np.unique(rows)), X.shape[0])
        raise InputError(f"{path}, {where} must be a finite number; it is {values[0]}")
    return Table(path, X, tuple(names[j] for j in features), target, name, place, implied, ignored)


def _column_text(j: int, names: Sequence[str]) -> str:
    """Return the number and the name of a column as text."""
    return f"column {j + 1}" + (f" ({names[j]!r})" if names[j] != str(j + 1) else "")


def as_target(path: str | Path, values: Sequence[str] | Array, name: str, place: Callable[[int], str]) -> Target:
    """Return a target of numbers, or of text if not all values are numbers; refuse missing and infinite values."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "US":
        numbers = float_array(values, f"{path}: the target", 1).astype(np.float64)
    else:
        texts = [str(value).strip(BLANKS) for value in values]
        absent = [i for i, text in enumerate(texts) if text.lower() in MISSING]
        if absent:
            raise missing_target(path, place(absent[0]), name, len(absent), len(texts))
        if not is_plain("".join(texts)):
            return tuple(texts)
        try:
            numbers = np.array(texts, dtype=np.float64)
        except ValueError:
            return tuple(texts)
    good = np.isfinite(numbers)
    if not good.all():
        i = int(good.argmin())
        raise InputError(f"{path}, {place(i)}: the target {name!r} must be finite; it is {numbers[i]}")
    return numbers


def missing_target(path: str | Path, place: str, name: str, count: int, of: int) -> InputError:
    """Return the error for rows without a target, of which `place` is the first."""
    many = f"; {count} of {of} rows have none" if count > 1 else ""
    return InputError(f"{path}, {place}: the target {name!r} is missing{many}")


def _refuse_missing(path: Path, place: str, found: str, rows: int, of: int) -> InputError:
    """Return the error for missing cells, of which `place` is the first."""
    have = "1 row has missing cells" if rows == 1 else f"{rows} of {of} rows have missing cells"
    return InputError(f"{path}, {place} is {found}; {have}: fill them in, or leave those rows out")


def _refuse_text(path: Path, found: Iterable[tuple[str, str]]) -> InputError:
    """Return the error for columns of text, given as pairs of a name and an example of the content."""
    columns = dict(found)
    name, holds = next(iter(columns.items()))
    verb, them = ("holds", "it") if len(columns) == 1 else ("hold", "them")
    return InputError(
        f"{path}: {listed(list(columns))} {verb} no numbers ({name!r}: {holds}); "
        f"drop {them} (--drop {name!r}), or encode {them} as numbers"
    )


@contextmanager
def _text(path: Path) -> Iterator[TextIO]:
    """Open a file as text; refuse a file that is not UTF-8 with the number of the line."""
    try:
        with opened(path) as file:
            if b"\0" in file.peek(1):  # type: ignore[attr-defined]
                raise InputError(f"{path} is not UTF-8, but perhaps UTF-16: save the file in UTF-8")
            with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield text
    except UnicodeDecodeError as error:
        with opened(path) as file:
            number = next(i for i, line in enumerate(file, 1) if line.decode("utf-8", "ignore").encode() != line)
        raise InputError(f"{path}, line {number} is not UTF-8: save the file in that encoding") from error


def read_csv(path: Path, wanted: Wanted) -> Table:
    """Read cells between commas, semicolons, tabs or vertical bars.

    Lines before the first row that begin with # are comments.
    """
    with _text(path) as file:
        names, header, blocks = _blocks(path, file, wanted)
        features, target, ignored = wanted.divide(path, names)
        lines, texts, numbers = array("q"), list[str](), list[Array]()
        for block in blocks:
            lines.extend(line for line, _ in block)
            cells = [row if len(features) == len(names) else [row[j] for j in features] for _, row in block]
            numbers.append(_numbers(cells).reshape(len(block), len(features)))
            if target is not None:
                texts += [row[target] for _, row in block]
    X = numbers[0] if len(numbers) == 1 else np.concatenate(numbers)
    if not (good := np.isfinite(X)).all():
        raise _bad_cells(path, names, features, ~good, header)
    labels = None if target is None else (names[target], texts)
    return _make_table(path, X, names, features, labels, lambda i: f"line {lines[i]}", ignored=ignored)


def frame_of_csv(path: Path, wanted: Wanted) -> Frame:
    """Read the columns of a CSV file as they are.

    A column is text if more than a twentieth of its cells are. Text in a column of numbers is an error. The file is
    read again if the first rows of a column are numbers, and later rows show that it is text.
    """
    text: set[int] = set()
    while True:
        with _text(path) as file:
            names, _, blocks = _blocks(path, file, wanted)
            features, target, ignored = wanted.divide(path, names)
            wide = features if target is None else [*features, target]
            text |= {j for j in wide if names[j] in wanted.text}
            columns = {j: _GrowingColumn(j in text, MISSING if j == target else MISSING | PLACEHOLDERS) for j in wide}
            lines = array("q")
            for block in blocks:
                lines.extend(line for line, _ in block)
                for j, column in columns.items():
                    column.extend([row[j] for _, row in block], first=len(lines) == len(block))
        found = {j for j in wide if columns[j].is_text(names[j] in wanted.numbers or j == target)}
        if found <= text | {j for j in wide if columns[j].text}:
            break
        text |= found
    for j in wide:
        if fault := columns[j].fault(chosen=names[j] in wanted.text | wanted.numbers or j == target):
            i, cell = fault
            raise InputError(
                f"{path}, line {lines[i]}, {_column_text(j, names)} is a number in most rows and {cell!r} here; "
                f"correct this cell, or read the column as categories (--categorical {names[j]!r})"
            )
    for j in wide:
        if columns[j].text and names[j] not in wanted.text and (with_comma := _with_commas(columns[j].cells())):
            raise InputError(
                f"{path}, {_column_text(j, names)} holds numbers with a comma, such as {with_comma!r}; write them with "
                f"a decimal point, as in 0.5, or read the column as categories (--categorical {names[j]!r})"
            )
    return Frame(
        {names[j]: columns[j].cells() for j in features},
        None if target is None else columns[target].cells(),
        "" if target is None else names[target],
        str(path),
        lambda i: f"line {lines[i]}",
        ignored,
    )


def _with_commas(cells: Array) -> str | None:
    """Return the first number with a comma of a column of text, or None if not all of its cells are numbers."""
    present = [cell for cell in cells.tolist() if cell and cell.lower() not in PLACEHOLDERS]
    if not all(map(_WITH_COMMA.fullmatch, present)):
        return None
    return next((cell for cell in present if "," in cell), None)


class _GrowingColumn:
    """Cells of one column of a CSV file, as numbers or as text, which grow by blocks."""

    def __init__(self, text: bool, missing: frozenset[str]) -> None:
        self.text, self._missing = text, missing  # Whether cells are kept as text, and texts of missing numbers.
        self._blocks: list[Array] = []
        self._present = 0  # Cells that are not missing.
        self._texts = 0  # Cells that are neither missing nor numbers.
        self._placeholders = 0  # Cells that are missing only among numbers.
        self._first: tuple[int, str] | None = None  # Row and content of the first cell of text.
        self._length = 0

    def extend(self, cells: list[str], first: bool) -> None:
        """Add a block of cells. The first one decides whether the cells are kept as text."""
        numbers = None if self.text else self._as_numbers(cells)
        if first and not self.text and self._mostly_text():
            self.text, self._blocks = True, []
        self._blocks.append(text_column(cells) if self.text or numbers is None else numbers)
        if numbers is None:
            self._count(cells)
        self._length += len(cells)

    def _as_numbers(self, cells: list[str]) -> Array:
        try:
            if is_plain("".join(cells)):
                numbers = np.array([cell or "nan" for cell in cells], dtype=np.float64)
                self._present += int(np.count_nonzero(~np.isnan(numbers)))
                return numbers
        except ValueError:
            pass
        self._count(cells)
        values = (None if cell.lower() in self._missing else parsed(cell) for cell in cells)
        return np.array([np.nan if value is None else value for value in values])

    def _count(self, cells: list[str]) -> None:
        counts = Counter(cells)
        present = {cell: count for cell, count in counts.items() if cell.lower() not in self._missing}
        self._placeholders += sum(
            n for cell, n in counts.items() if cell not in present and cell.lower() not in MISSING
        )
        texts = [cell for cell in present if parsed(cell) is None]
        self._present += sum(present.values())
        self._texts += sum(present[cell] for cell in texts)
        if texts and self._first is None:  # Counters keep the order of the cells.
            self._first = self._length + cells.index(texts[0]), texts[0]

    def is_text(self, chosen: bool) -> bool:
        """Return whether the column is text. A chosen column is text if any cell is."""
        if chosen:
            return self._texts > 0
        return self._mostly_text() or (self._placeholders > 0 and not self._present)

    def _mostly_text(self) -> bool:
        return self._texts > _TEXT_SHARE * self._present

    def fault(self, chosen: bool) -> tuple[int, str] | None:
        """Return row and content of the first cell of text in a column of numbers."""
        return None if chosen or self.is_text(False) else self._first

    def cells(self) -> Array:
        """Return the cells as a column of a frame."""
        return np.concatenate(self._blocks)


def _blocks(path: Path, file: TextIO, wanted: Wanted) -> tuple[list[str], bool, Iterator[list[Row]]]:
    """Return the names of the columns, whether the file has them, and the rows in blocks."""
    rows = _rows(path, file)
    first, header, names = _head(path, rows, wanted)

    def blocks(rows: Iterator[Row]) -> Iterator[list[Row]]:
        count = 0
        while block := list(islice(rows, max(1, _CELLS // len(names)))):
            for line, row in block:
                if len(row) != len(names):
                    raise InputError(f"{path}, line {line} has {len(row)} cells, where the first row has {len(names)}")
            if wanted.na:
                block = [(line, ["" if cell.lower() in wanted.na else cell for cell in row]) for line, row in block]
            count += len(block)
            yield block
        if not count:
            raise InputError(f"{path} has no rows, only column names")

    return names, header, blocks(rows if header else chain([first], rows))


def _bad_cells(path: Path, names: Sequence[str], features: Sequence[int], bad: Array, header: bool) -> InputError:
    """Read the file again, and return the error for its cells that are not finite numbers."""
    first: dict[int, tuple[int, str]] = {}  # By column, line and content of the first cell that is text.
    count: Counter[int] = Counter()  # By column, the number of cells that are text.
    missing: dict[int, tuple[str, str]] = {}  # By line, place and content of the first missing cell.
    with _text(path) as file:
        for (line, row), wrong in zip(islice(_rows(path, file), int(header), None), bad, strict=False):
            for j in (features[k] for k in np.flatnonzero(wrong).tolist()):
                if row[j].lower() in MISSING:
                    missing.setdefault(line, (f"line {line}, {_column_text(j, names)}", row[j]))
                else:
                    first.setdefault(j, (line, row[j]))
                    count[j] += 1
    # A column is text if more than half of its cells are. Otherwise these cells are errors in a column of numbers.
    if text := sorted(j for j in count if 2 * count[j] > len(bad)):
        return _refuse_text(path, ((names[j], "line {} is {!r}".format(*first[j])) for j in text))
    if first:
        j, (line, cell) = min(first.items(), key=lambda item: item[1][0])
        return InputError(f"{path}, line {line}, {_column_text(j, names)} must be a finite number; it is {cell!r}")
    place, cell = next(iter(missing.values()))
    return _refuse_missing(path, place, repr(cell) if cell else "empty", len(missing), len(bad))


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
    """Return whether cells are column names.

    They are if one of them is expected, or if some are text and every number is the position of its column.
    """
    options = (wanted.target, *wanted.drop, *wanted.known)
    expected = {name for name in options if name is not None and parsed(name) is None}
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
    _check_size(path, (len(labels), width))
    X = sp.csr_array((np.array(values), places - base, np.array(ends)), shape=(len(labels), width)).tocsc()
    X.sum_duplicates()
    names = tuple(map(str, range(base, base + width)))
    return _select(path, wanted, X, names, ("label", labels), place=lambda i: f"line {lines[i]}", implied=True)


def _bad_pair(path: Path, line: int, pairs: Sequence[str]) -> InputError:
    """Return the error for the first pair of a line that is wrong."""
    for j, pair in enumerate(pairs):
        index, _, value = pair.partition(":")
        known = index.isdecimal() and index.isascii() and len(index) < 19 and int(index) <= _LARGEST_INDEX
        if not known or parsed(value) is None:
            accepted = f"INDEX:VALUE, with INDEX from 0 to {_LARGEST_INDEX}"
            return InputError(f"{path}, line {line}, entry {j + 1} must be {accepted}; it is {pair!r}")
    ((twice, _),) = Counter(int(pair.partition(":")[0]) for pair in pairs).most_common(1)
    return InputError(f"{path}, line {line} has the index {twice} twice")


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


# Lines of a Matrix Market file: comments, or numbers. The possessive quantifiers *+ and ++ prevent backtracking.
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
    return _make_table(path, np.zeros((values.size, 0)), (), (), ("target", values.reshape(-1)))


def _matrix(path: Path, wanted: Wanted, matrix: Any, names: Any = None, labels: Labels | None = None) -> Table:
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"{path} must hold a matrix with rows and columns; its shape is {matrix.shape}")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} must hold real numbers; it holds {matrix.dtype}")
    _check_size(path, matrix.shape)
    X = sp.csc_array(matrix) if sp.issparse(matrix) else matrix
    X = X if X.dtype == np.float32 else X.astype(np.float64, copy=False)
    height, width = X.shape
    called = [str(j + 1) for j in range(width)] if names is None else [str(name) for name in np.asarray(names)]
    if len(called) != width:
        raise InputError(f"{path} has {len(called)} names for {width} columns")
    if labels is not None and len(labels[1]) != height:
        raise InputError(f"{path}: {labels[0]} has {len(labels[1])} entries, and the matrix has {height} rows")
    return _select(path, wanted, X, called, labels)


def read_parquet(path: Path, wanted: Wanted) -> Table:
    """Read columns of integers, floating-point numbers, decimals or Booleans; the target may be text."""
    stored, (features, target, ignored) = _stored(path, wanted)
    names = stored.column_names

    def numbers(j: int) -> Array:
        values = stored.column(j).to_numpy()
        if values.dtype == object:
            values = np.array([np.nan if value is None else value for value in values], float)
        return values.astype(float)

    if text := [(names[j], str(stored.schema.field(j).type)) for j in features if not _is_numeric(stored, j)]:
        raise _refuse_text(path, text)
    X = np.column_stack([numbers(j) for j in features]) if features else np.zeros((stored.num_rows, 0))
    labels: Labels | None = None
    if target is not None and _is_numeric(stored, target):
        labels = names[target], numbers(target)
    elif target is not None:
        labels = names[target], ["" if cell is None else str(cell) for cell in stored.column(target).to_pylist()]
    return _make_table(path, X, names, features, labels, ignored=ignored)


def frame_of_parquet(path: Path, wanted: Wanted) -> Frame:
    """Read the columns of a Parquet file as they are."""
    stored, (features, target, ignored) = _stored(path, wanted)
    columns = {stored.column_names[j]: arrow_column(stored.column(j)) for j in features}
    if target is None:
        return Frame(columns, source=str(path), ignored=ignored)
    cells = arrow_column(stored.column(target))
    return Frame(columns, cells, stored.column_names[target], str(path), ignored=ignored)


def _stored(path: Path, wanted: Wanted) -> tuple[Any, Division]:
    """Return a Parquet file as an Arrow table, and the division of its columns."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ModuleNotFoundError:
        raise InputError(f"{path}: Parquet files need pyarrow: pip install 'fwflow[data]'") from None
    with seekable(path) as source:
        try:
            file = pq.ParquetFile(source)
            division = wanted.divide(path, file.schema_arrow.names)
            metadata = file.metadata
            pages = sum(metadata.row_group(g).total_byte_size for g in range(metadata.num_row_groups))
            # In memory a number takes eight bytes, also if its encoding in the file is shorter.
            check_unpacked(path, max(pages, 8 * metadata.num_rows * metadata.num_columns), path.stat().st_size)
            stored = file.read()
        except pa.ArrowException as error:
            raise InputError(f"{path} is not a Parquet file that can be read: {error}") from error
    if not stored.num_rows:
        raise InputError(f"{path} has no rows, only column names")
    return stored, division


def _is_numeric(stored: Any, j: int) -> bool:
    import pyarrow as pa

    kind, types = stored.schema.field(j).type, pa.types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
