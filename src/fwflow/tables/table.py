"""What is a table? Its numbers and their columns, and which of the columns of a file are asked for."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, InputError, is_plain

#: A number per row or, where one of them is no number, a text per row.
Target = Array | tuple[str, ...]

#: What stands where a value is missing, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "?"})

#: White space that may stand around a cell. Python strips more, such as no-break spaces and separators of records.
BLANKS = " \t\r\n"

_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of numbers in named columns, and the target of each row.

    Attributes
    ----------
    X : (m, n) array or CSC matrix
    names : tuple of str
        Of the columns of X, all different.
    target : array, tuple of str, or None
    target_name : str
    place : callable
        Where row i stands in the file, in words.
    implied : bool
        Whether columns that the file does not mention are columns of zeros.
    """

    path: Path
    X: Any
    names: tuple[str, ...]
    target: Target | None
    target_name: str
    place: Callable[[int], str]
    implied: bool = False

    def columns(self, names: Sequence[str]) -> Any:
        """The matrix with these columns in this order; missing and surplus ones are refused by name."""
        places = {name: j for j, name in enumerate(self.names)}
        missing = [name for name in names if name not in places]
        surplus = sorted(places.keys() - set(names), key=places.__getitem__)
        if self.implied:
            used = np.diff(self.X.indptr) > 0
            surplus = [name for name in surplus if used[places[name]]]
        if surplus or (missing and not self.implied):
            faults = [f"lacks {listed('column', missing)}"] if missing and not self.implied else []
            faults += [f"has {listed('column', surplus)} too many (--drop leaves one out)"] if surplus else []
            raise InputError(f"{self.path} {' and '.join(faults)}")
        if names == self.names:
            return self.X
        if not missing:
            return self.X[:, [places[name] for name in names]]
        wider = sp.hstack([self.X, sp.csc_array((self.X.shape[0], 1))], format="csc")
        return wider[:, [places.get(name, -1) for name in names]]


@dataclass(frozen=True)
class Wanted:
    """Which columns of a file are asked for; see `read`."""

    target: str | None = None
    drop: frozenset[str] = frozenset()
    header: bool | None = None
    known: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    labelled: bool = False
    alone: bool = False  # the one column of the file is the target

    def divide(self, path: Path, names: Sequence[str], own_target: bool = False) -> tuple[list[int], int | None]:
        """Positions of the columns of X and of the target, which the file may have besides its columns."""
        if self.alone and len(names) == 1:
            return [], 0
        for option, name in [("--target", self.target), *(("--drop", name) for name in sorted(self.drop))]:
            if name is not None and name not in names and name not in self.optional:
                raise InputError(f"{path} has no column {name!r} ({option}); {_near(name, names)}")
        if self.labelled and self.target is None and not own_target:
            raise InputError(f"{path}: which column is to be predicted? --target names it; {listed('column', names)}")
        counts = Counter(name for name in names if name not in self.drop)
        if twice := [name for name, count in counts.items() if count > 1]:
            where = [str(j + 1) for j, name in enumerate(names) if name == twice[0]]
            raise InputError(
                f"{path}: columns {' and '.join(where)} are both called {twice[0]!r}; rename one, or drop them"
            )
        kept = [j for j, name in enumerate(names) if name not in self.drop]
        target = next((j for j in kept if names[j] == self.target), None)
        features = [j for j in kept if j != target]
        if not features and not self.alone:
            left_out = f"; --drop leaves out {listed('column', sorted(self.drop))}" if self.drop else ""
            raise InputError(f"{path} has no column to predict from; {listed('column', names)}{left_out}")
        return features, target


def listed(what: str, names: Collection[str]) -> str:
    """Columns in words, not too many of them."""
    few = ", ".join(map(repr, list(names)[:_SHOWN]))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{what}{'s' if len(names) != 1 else ''} {few}{more}"


def _near(name: str, names: Sequence[str]) -> str:
    same = [other for other in names if other.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, names[:2000], n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"it has {listed('column', names)}"


def as_target(path: Path, cells: Sequence[str], place: Callable[[int], str], name: str) -> Target:
    """Cells as numbers if all of them are, else as text; a missing one is refused."""
    texts = [cell.strip(BLANKS) for cell in cells]
    absent = [i for i, text in enumerate(texts) if text.lower() in MISSING]
    if absent:
        many = f"; {len(absent)} of {len(texts)} rows have none" if len(absent) > 1 else ""
        raise InputError(f"{path}, {place(absent[0])}: the target {name!r} is missing{many}")
    if not is_plain("".join(texts)):
        return tuple(texts)
    try:
        numbers = np.array(texts, dtype=np.float64)
    except ValueError:
        return tuple(texts)
    refuse_infinite(path, numbers, place, name)
    return numbers


def refuse_infinite(path: Path, target: Array, place: Callable[[int], str], name: str) -> None:
    """Refuse a target that is no number somewhere."""
    good = np.isfinite(target)
    if not good.all():
        i = int(good.argmin())
        raise InputError(f"{path}, {place(i)}: the target {name!r} must be finite; it is {target[i]}")


def refuse_missing(path: Path, where: str, cell: str, rows: int, of: int) -> InputError:
    """The error for cells without a value."""
    found = f"{cell!r}" if cell else "empty"
    rows_have = "1 row has missing cells" if rows == 1 else f"{rows} of {of} rows have missing cells"
    return InputError(f"{path}, {where} is {found}; {rows_have}: fill them in, or leave those rows out")


def refuse_text(path: Path, found: Iterable[tuple[str, str]]) -> InputError:
    """The error for columns that are not numbers, each with what it holds."""
    columns = dict(found)
    name, holds = next(iter(columns.items()))
    verb, them = ("holds", "it") if len(columns) == 1 else ("hold", "them")
    return InputError(
        f"{path}: {listed('column', columns)} {verb} no numbers ({name!r}: {holds}); "
        f"drop {them} (--drop {name!r}), or encode {them} as numbers"
    )


def row_place(i: int) -> str:
    """Where row i stands in a file that has no lines."""
    return f"row {i + 1}"


def as_text(label: Any) -> str:
    """Return a label as it is written in files: 1.0 becomes 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
