"""Role of each column of a table in a preparation: number, category, date, or left out; chosen or detected."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from fwflow._validation import Array, InputError, parsed
from fwflow.tables.frames import Frame, near
from fwflow.tables.parts import Cells, as_date

#: Share of missing cells from which on a column that indicates them is added, chosen without tuning.
OFTEN = 0.05
# Levels in fewer rows are joined as one level, chosen without tuning. In tables of fewer than 1000 rows the limit is
# one row in 100.
_RARE_ROWS, _RARE_SHARE = 10, 0.01
# Share of numbers in a column of text from which on a warning is given, chosen without tuning.
_MOSTLY = 0.75
# Rows from which on integers that all differ are identifiers, chosen without tuning: integers of a measurement of fewer
# rows may differ by chance. Consecutive integers are identifiers in tables of at least the second number of rows.
_IDENTIFIER_ROWS, _NUMBERED_ROWS = 1000, 20
# Dates in which the order of day and month is not known, such as 03/04/2024 and 3.4.24, perhaps with a time.
_OTHER_DATE = re.compile(r"\d{1,2}([-./])\d{1,2}\1(?:\d{4}|\d{2})(?:[T ,].*)?", re.ASCII)


def rare_rows(frame: Frame, chosen: int | None) -> int:
    """Return the number of rows from which on a level is not rare."""
    return chosen or min(_RARE_ROWS, max(1, math.ceil(_RARE_SHARE * len(frame))))


def chosen_kinds(frame: Frame, **roles: Collection[str]) -> dict[str, str]:
    """Return the chosen role of columns; refuse columns that do not exist or have two roles."""
    chosen: dict[str, str] = {}
    for role, names in roles.items():
        for name in [names] if isinstance(names, str) else names:
            if name == frame.target_name:
                raise InputError(f"--{role} names the target {name!r}; it is for columns to predict from")
            if name not in frame.columns:
                raise InputError(f"{frame.source} has no column {name!r} (--{role}); {near(name, frame.names)}")
            if chosen.setdefault(name, role) != role:
                raise InputError(f"--{chosen[name]} and --{role} both name {name!r}; use it in one of them")
    return chosen


class Role(NamedTuple):
    """Role of a column."""

    kind: str  # "number", "category", "date", "indicator" of missing cells, or empty for a column that is left out.
    reason: str = ""  # Why the values of the column are left out, or what is odd about it.


def roles_of_rows(
    frame: Frame, chosen: Mapping[str, str], missing: str, rare: int | None
) -> tuple[Frame, dict[str, Role]]:
    """Return the rows that are used, and the roles of all columns in these rows."""
    cells = {name: Cells(frame, name) for name in frame.names}
    roles = {name: _role(column, chosen.get(name), rare) for name, column in cells.items()}
    if missing == "impute":
        return frame, roles
    used = [name for name, role in roles.items() if role.kind]
    if missing == "error":
        refuse_missing(frame, [cells[name] for name in used])
        return frame, roles
    while True:
        gone = np.any([cells[name].absent for name in used], axis=0) if used else np.zeros(len(frame), bool)
        if gone.all():
            worst = max(used, key=lambda name: int(cells[name].absent.sum()))
            raise InputError(
                f"{frame.source}: every row has a missing cell, so --missing drop leaves no row; "
                f"leave out columns such as {worst!r} with --drop, or use --missing impute"
            )
        kept = frame.take(~gone)
        roles |= {name: _role(Cells(kept, name), chosen.get(name), rare) for name in used}
        # A column may be constant in the rows that are kept. Its missing cells are then no reason to leave out rows.
        if all(roles[name].kind for name in used):
            return kept, roles
        used = [name for name in used if roles[name].kind]


def refuse_missing(frame: Frame, columns: Iterable[Cells]) -> None:
    """Refuse missing cells, with an error that names the first one."""
    found = [(int(cells.absent.argmax()), cells.name) for cells in columns if cells.absent.any()]
    if found:
        row, name = min(found)
        rows = np.any([Cells(frame, name).absent for _, name in found], axis=0).sum()
        have = "1 row has missing cells" if rows == 1 else f"{rows} of {len(frame)} rows have missing cells"
        raise InputError(
            f"{frame.source}, {frame.place(row)}: column {name!r} is missing; {have}; "
            "--missing impute replaces them, --missing drop leaves out these rows"
        )


def _role(cells: Cells, chosen: str | None, rare: int | None) -> Role:
    """Return the role of a column, chosen or detected."""
    present = cells.present
    if not len(present):
        return Role("", "has no values")
    if chosen == "date" or (chosen is None and cells.is_text and all(map(as_date, cells.levels))):
        return Role("date") if len(np.unique(cells.dates[~cells.absent])) > 1 else _left_out(cells, "is constant")
    if chosen == "numeric" or (chosen is None and not cells.is_text):
        numbers = cells.numbers[~cells.absent]
        if (numbers == numbers[0]).all():
            return _left_out(cells, "is constant")
        if chosen is None and _all_differ(numbers):
            if len(numbers) >= _IDENTIFIER_ROWS or np.ptp(numbers) == len(numbers) - 1:
                return _left_out(cells, "is an identifier (all values differ)")
            return Role("number", "holds integers that all differ, kept as numbers; --drop leaves out an identifier")
        return Role("number")
    if len(cells.levels) == 1:
        return _left_out(cells, "is constant")
    if chosen is None:
        _warn_of_numbers(cells)
    other = chosen is None and all(map(_OTHER_DATE.fullmatch, cells.levels))
    dates = f"holds dates such as {next(iter(cells.levels))!r}; only those such as '2024-03-01' are expanded" * other
    if chosen is None and len(cells.levels) == len(present):
        return _left_out(cells, dates or "is an identifier (all values differ)")
    if max(cells.levels.values()) < rare_rows(cells.frame, rare):
        return _left_out(cells, dates or f"has {len(cells.levels)} levels, all of them rare")
    return Role("category", dates and f"{dates}, so they are encoded as categories")


def _warn_of_numbers(cells: Cells) -> None:
    """Warn of a column of text in which most cells are numbers."""
    numbers = sum(count for text, count in cells.levels.items() if parsed(text) is not None)
    other = next((text for text in cells.levels if parsed(text) is None), None)
    if other is not None and numbers >= _MOSTLY * len(cells.present):
        warnings.warn(
            f"{100 * numbers / len(cells.present):.2g} % of {cells.name} are numbers, but {other!r} is not; treated as "
            f"text: correct these cells, or use --na {other!r} if it means a missing value",
            stacklevel=2,
        )


def _left_out(cells: Cells, reason: str) -> Role:
    """Return the role of a column whose values are left out. If they are often missing, that may tell something."""
    return Role("indicator" if cells.absent.mean() >= OFTEN else "", reason)


def _all_differ(numbers: Array) -> bool:
    """Return whether numbers are integers that all differ, in so many rows that they may identify the rows."""
    whole_numbers = len(numbers) >= _NUMBERED_ROWS and bool((numbers == np.floor(numbers)).all())
    return whole_numbers and len(np.unique(numbers)) == len(numbers)
