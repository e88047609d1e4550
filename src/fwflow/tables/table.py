"""Tables of numbers with named columns, the choice of columns of a file, and the errors that all readers share."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, InputError, float_array, is_plain

#: A number per row; or a text per row, if some rows do not hold numbers.
Target = Array | tuple[str, ...]

#: Texts that mean a missing value, in lower case. "none" and "-" are not among them, as both are usual class labels.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "?"})

#: White space that may surround a cell. str.strip() removes more, such as no-break spaces and record separators.
BLANKS = " \t\r\n"

# Number of column names that an error message shows, chosen without tuning.
_SHOWN = 5


def row_text(i: int) -> str:
    """Return the position of row i as text, for formats without lines."""
    return f"row {i + 1}"


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

    def columns(self, names: Sequence[str]) -> Any:
        """Return the matrix with these columns in this order; refuse the table if it has other columns."""
        places, accepted = {name: j for j, name in enumerate(self.names)}, set(names)
        missing = [name for name in names if name not in places and not self.implied]
        used = np.diff(self.X.indptr) > 0 if self.implied else np.ones(len(self.names), dtype=bool)
        surplus = [name for name, some in zip(self.names, used, strict=True) if some and name not in accepted]
        faults = [f"lacks {listed(missing)}"] if missing else []
        faults += [f"has {listed(surplus)} too many (--drop leaves one out)"] if surplus else []
        if faults:
            raise InputError(f"{self.path} {' and '.join(faults)}")
        if names == self.names:
            return self.X
        if not self.implied:
            return self.X[:, [places[name] for name in names]]
        wider = sp.hstack([self.X, sp.csc_array((self.X.shape[0], 1))], format="csc")
        return wider[:, [places.get(name, -1) for name in names]]


@dataclass(frozen=True)
class Wanted:
    """Choice of columns of a file: the arguments of `read`."""

    target: str | None = None
    drop: frozenset[str] = frozenset()
    header: bool | None = None
    known: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    labelled: bool = False
    alone: bool = False  # Whether the only column of the file is the target.

    def divide(self, path: Path, names: Sequence[str], own_target: bool = False) -> tuple[list[int], int | None]:
        """Return the positions of the columns of X, and that of the target if it is one of the columns."""
        if self.alone and len(names) == 1:
            return [], 0
        for option, name in [("--target", self.target), *(("--drop", name) for name in sorted(self.drop))]:
            if name is not None and name not in names and name not in self.optional:
                raise InputError(f"{path} has no column {name!r} ({option}); {_near(name, names)}")
        if self.labelled and self.target is None and not own_target:
            raise InputError(f"{path}: the column to predict must be named with --target; it has {listed(names)}")
        counts = Counter(name for name in names if name not in self.drop)
        if twice := [name for name, count in counts.items() if count > 1]:
            where = " and ".join(str(j + 1) for j, name in enumerate(names) if name == twice[0])
            raise InputError(f"{path}: columns {where} are both called {twice[0]!r}; rename one, or drop them")
        kept = [j for j, name in enumerate(names) if name not in self.drop]
        target = next((j for j in kept if names[j] == self.target), None)
        features = [j for j in kept if j != target]
        if not features and not self.alone:
            left_out = f"; --drop leaves out {listed(sorted(self.drop))}" if self.drop else ""
            raise InputError(f"{path} has no column to predict from; it has {listed(names)}{left_out}")
        return features, target


Labels = tuple[str, Sequence[str] | Array]


def select(path: Path, wanted: Wanted, X: Any, names: Sequence[str], labels: Labels | None, **more: Any) -> Table:
    """Return the wanted columns of a matrix. The target is one of them, or the labels with their name."""
    features, column = wanted.divide(path, names, own_target=labels is not None)
    if column is not None:
        values = X[:, [column]]
        labels = names[column], np.asarray(values.toarray() if sp.issparse(values) else values)[:, 0]
    kept = X if len(features) == len(names) else X[:, features]
    return make_table(path, kept, names, features, labels, **more)


def make_table(
    path: Path,
    X: Any,
    names: Sequence[str],
    features: Sequence[int],
    labels: Labels | None,
    place: Callable[[int], str] = row_text,
    implied: bool = False,
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
        where = f"{place(int(rows[0]))}, {column_text(features[columns[0]], names)}"
        if np.isnan(values[0]):
            raise refuse_missing(path, where, "missing", len(np.unique(rows)), X.shape[0])
        raise InputError(f"{path}, {where} must be a finite number; it is {values[0]}")
    return Table(path, X, tuple(names[j] for j in features), target, name, place, implied)


def listed(names: Collection[str]) -> str:
    """Return the first few names as text."""
    few = ", ".join(map(repr, list(names)[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"column{'s' if len(names) != 1 else ''} {few}{more}"


def column_text(j: int, names: Sequence[str]) -> str:
    """Return the number and the name of a column as text."""
    return f"column {j + 1}" + (f" ({names[j]!r})" if names[j] != str(j + 1) else "")


def _near(name: str, names: Sequence[str]) -> str:
    same = [other for other in names if other.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, names[:2000], n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"it has {listed(names)}"


def as_target(path: Path, values: Sequence[str] | Array, name: str, place: Callable[[int], str]) -> Target:
    """Return a target of numbers, or of text if not all values are numbers; refuse missing and infinite values."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "US":
        numbers = float_array(values, f"{path}: the target", 1).astype(np.float64)
    else:
        texts = [str(value).strip(BLANKS) for value in values]
        absent = [i for i, text in enumerate(texts) if text.lower() in MISSING]
        if absent:
            many = f"; {len(absent)} of {len(texts)} rows have none" if len(absent) > 1 else ""
            raise InputError(f"{path}, {place(absent[0])}: the target {name!r} is missing{many}")
        try:
            numbers = np.array(texts, dtype=np.float64) if is_plain("".join(texts)) else None
        except ValueError:
            numbers = None
        if numbers is None:
            return tuple(texts)
    good = np.isfinite(numbers)
    if not good.all():
        i = int(good.argmin())
        raise InputError(f"{path}, {place(i)}: the target {name!r} must be finite; it is {numbers[i]}")
    return numbers


def as_text(label: Any) -> str:
    """Return a label as it is written in files: 1.0 becomes 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def refuse_missing(path: Path, place: str, found: str, rows: int, of: int) -> InputError:
    """Return the error for missing cells, of which `place` is the first."""
    have = "1 row has missing cells" if rows == 1 else f"{rows} of {of} rows have missing cells"
    return InputError(f"{path}, {place} is {found}; {have}: fill them in, or leave those rows out")


def refuse_text(path: Path, found: Iterable[tuple[str, str]]) -> InputError:
    """Return the error for columns of text, given as pairs of a name and an example of the content."""
    columns = dict(found)
    name, holds = next(iter(columns.items()))
    verb, them = ("holds", "it") if len(columns) == 1 else ("hold", "them")
    return InputError(
        f"{path}: {listed(columns)} {verb} no numbers ({name!r}: {holds}); "
        f"drop {them} (--drop {name!r}), or encode {them} as numbers"
    )
