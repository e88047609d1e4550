"""Columns of a table as numbers, text and dates, and the columns of a matrix that are made of them.

The parts of a preparation store numbers and text only, and are applied with NumPy.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, InputError, parsed
from fwflow.tables.frames import Frame, as_text, check_columns

_DATE = re.compile(
    r"(\d{4})([-/]?)(\d{2})\2(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = tuple(map(str, range(1, 13)))
#: Levels of parts of a date, in their order.
DATE_LEVELS: Mapping[str, tuple[str, ...]] = {"month": _MONTHS, "weekday": _WEEKDAYS}


class Cells:
    """Column of a frame, as numbers, text or dates. Each form is computed when it is first used."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame, self.name, self._given = frame, name, frame.columns[name]

    @property
    def is_text(self) -> bool:
        """Whether the column holds text."""
        return self._given.dtype == object

    @cached_property
    def absent(self) -> Array:
        """Truth value for each row: whether the cell is missing."""
        return np.array([not cell for cell in self._given], bool) if self.is_text else np.isnan(self._given)

    @cached_property
    def present(self) -> Array:
        """Cells that are not missing, in the form of the frame."""
        return self._given[~self.absent]

    @cached_property
    def texts(self) -> list[str]:
        """Cells as text, with an empty text for missing cells."""
        if self.is_text:
            return self._given.tolist()
        return ["" if number != number else as_text(number) for number in self._given.tolist()]

    @cached_property
    def levels(self) -> Counter[str]:
        """Number of rows of each text."""
        counts = Counter(self.texts)
        counts.pop("", None)
        return counts

    @cached_property
    def numbers(self) -> Array:
        """Cells as numbers, with NaN for missing cells. Text that is not a number is an error."""
        numbers = self._given
        if self.is_text:
            known = {text: parsed(text) for text in self.levels} | {"True": 1.0, "False": 0.0, "": np.nan}
            numbers = np.array([np.nan if known[text] is None else known[text] for text in self.texts], float)
        wrong = ~np.isfinite(numbers) & ~self.absent
        if wrong.any():
            raise self._refused(int(wrong.argmax()), "a finite number")
        return numbers

    @cached_property
    def dates(self) -> Array:
        """Cells as dates, with NaT for missing cells. Text that is not a date is an error."""
        known = {text: as_date(text) for text in self.levels}
        for i, text in enumerate(self.texts):
            if text and known[text] is None:
                raise self._refused(
                    i, "a date such as 2024-03-01, 2024/03/01 or 20240301, or with a time as in 2024-03-01 12:30"
                )
        return np.array([known.get(text) or "NaT" for text in self.texts], dtype="datetime64[s]")

    def _refused(self, row: int, wanted: str) -> InputError:
        place = f"{self.frame.source}, {self.frame.place(row)}"
        return InputError(f"{place}: column {self.name!r} must hold {wanted}; it is {self.texts[row]!r}")

    def numbers_of(self, what: str, since: str) -> Array:
        """Return the numbers, or the hours, or the days since a date. NaN stands for a missing cell."""
        if not what:
            return self.numbers
        dates = self.dates
        start = dates.astype("datetime64[D]") if what == "hour" else np.datetime64(since)
        unit = np.timedelta64(1, "h") if what == "hour" else np.timedelta64(1, "D")
        return np.where(self.absent, np.nan, (dates - start) / unit)

    def levels_of(self, what: str) -> list[str]:
        """Return the texts, or the months, or the weekdays. An empty text stands for a missing cell."""
        if not what:
            return self.texts
        if what == "month":
            codes = self.dates.astype("datetime64[M]").astype(np.int64) % 12
        else:
            codes = (self.dates.astype("datetime64[D]").astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday.
        names = DATE_LEVELS[what]
        return ["" if gone else names[code] for code, gone in zip(codes, self.absent, strict=True)]


def numbers_of(frame: Frame, names: Sequence[str]) -> Array:
    """Return columns of numbers as a matrix; refuse text and missing cells."""
    check_columns(frame.source, frame.names, names)
    columns = [Cells(frame, name) for name in names]
    for cells in columns:
        if cells.absent.any():
            place = frame.place(int(cells.absent.argmax()))
            raise InputError(f"{frame.source}, {place}: column {cells.name!r} is missing; fill it in")
    return np.stack([cells.numbers for cells in columns], axis=1) if columns else np.zeros((len(frame), 0))


def as_date(text: str) -> str | None:
    """Return a date in ISO 8601 as NumPy reads it, or None. A time zone is left out, so the time is local.

    Slashes may take the place of the hyphens, or the hyphens may be left out.

    >>> as_date("2024/03/01"), as_date("2024-03-01 12:30:00Z"), as_date("2024-02-30"), as_date("today")
    ('2024-03-01', '2024-03-01T12:30:00', None, None)
    """
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    year, _, month, day, time = found.groups()
    date = f"{year}-{month}-{day}" + (f"T{time}" if time else "")
    try:
        np.datetime64(date)
    except ValueError:
        return None
    return date


class Made(NamedTuple):
    """Column that a preparation makes.

    In original units a coefficient is ``unit`` times the coefficient of the column, and it multiplies the number in the
    table minus ``centre``. The standardised coefficient is ``standard`` times the coefficient of the column.
    """

    name: str
    source: str  # Column of the table.
    column: str  # Column of the table, and the part of a date.
    level: str  # Level of a category, or empty.
    unit: float = 1.0
    standard: float = 1.0
    centre: float = 0.0


def unprepared(names: Sequence[str]) -> tuple[Made, ...]:
    """Return the columns of a table that is used as it is. Their standard deviations are not known."""
    return tuple(Made(name, name, name, "", standard=math.nan) for name in names)


@dataclass(frozen=True)
class Part(ABC):
    """Columns that are made of one column of a table. In each row at most one of them is not zero."""

    column: str

    @abstractmethod
    def made(self) -> tuple[Made, ...]:
        """Return the columns."""

    @abstractmethod
    def entries(self, cells: Cells) -> tuple[Array, Array]:
        """Return for each row the position of the column that is not zero, or -1, and its entry."""

    @property
    def consistent(self) -> bool:
        """Whether the fields make sense."""
        return bool(self.column)


@storable("table-number", valid=lambda part: part.consistent)
@dataclass(frozen=True)
class NumberPart(Part):
    """Numbers, or the hours of dates, or the days since a date; missing cells are replaced by the median."""

    what: str  # Empty for the numbers of the column, or "hour" or "days".
    since: str  # First date, for "days".
    median: float
    mean: float
    spread: float  # Standard deviation.
    scaled: bool  # Whether the mean is subtracted, and the difference is divided by the standard deviation.

    @property
    def label(self) -> str:
        """Name of the column that is made."""
        return (
            self.column if not self.what else f"{self.column}: {self.what}" + f" since {self.since}" * bool(self.since)
        )

    def made(self) -> tuple[Made, ...]:
        if self.scaled:
            return (Made(self.label, self.column, self.label, "", 1 / self.spread, 1.0, self.mean),)
        return (Made(self.label, self.column, self.label, "", 1.0, self.spread),)

    def entries(self, cells: Cells) -> tuple[Array, Array]:
        x = cells.numbers_of(self.what, self.since)
        x = np.where(np.isnan(x), self.median, x)
        return np.zeros(len(x), np.int64), (x - self.mean) / self.spread if self.scaled else x

    @property
    def consistent(self) -> bool:
        numbers = np.isfinite([self.median, self.mean, self.spread]).all() and self.spread > 0
        date = as_date(self.since) is not None if self.what == "days" else self.since == ""
        return bool(self.column) and bool(numbers) and self.what in ("", "hour", "days") and date


@storable("table-category", valid=lambda part: part.consistent)
@dataclass(frozen=True)
class CategoryPart(Part):
    """One column for each level of a category, or of the months or weekdays of dates.

    Missing cells are replaced by the most frequent level.
    """

    what: str  # Empty for the text of the column, or "month" or "weekday".
    levels: tuple[str, ...]
    other: str  # Name of the last column, for rare and unknown levels; empty if there is none.
    most_frequent: str

    @property
    def label(self) -> str:
        """Column of the table, and the part of a date."""
        return f"{self.column}: {self.what}" if self.what else self.column

    def made(self) -> tuple[Made, ...]:
        shown = (*self.levels, self.other) if self.other else self.levels
        return tuple(Made(f"{self.label}={level}", self.column, self.label, level) for level in shown)

    @cached_property
    def _codes(self) -> dict[str, int]:
        codes = {level: code for code, level in enumerate(self.levels)}
        if {level.lower() for level in self.levels} <= {"true", "false"}:
            forms = [(level.lower(), level.upper(), level.capitalize()) for level in self.levels]
            codes = {form: code for code, each in enumerate(forms) for form in each} | codes
        return codes

    @cached_property
    def _codes_of_numbers(self) -> dict[float, int]:
        """Codes of levels that are numbers, by their value, if no other level has it."""
        values = [parsed(level) for level in self.levels]
        return {x: code for code, x in enumerate(values) if x is not None and values.count(x) == 1}

    def code(self, text: str) -> int | None:
        """Return the position of a level. Libraries write True and true, or 1 and 1.0, for the same level."""
        if text in self._codes:
            return self._codes[text]
        number = parsed(text)
        return None if number is None else self._codes_of_numbers.get(number)

    def entries(self, cells: Cells) -> tuple[Array, Array]:
        texts = cells.levels_of(self.what)
        found = {text: self.code(text) for text in set(texts)}
        other = len(self.levels) if self.other else -1
        codes = {text: other if code is None else code for text, code in found.items()}
        codes[""] = self._codes[self.most_frequent]
        return np.fromiter((codes[text] for text in texts), np.int64, len(texts)), np.ones(len(texts))

    def unknown(self, cells: Cells) -> Counter[str]:
        """Return levels without a column of their own, and the number of their rows."""
        counts = Counter(cells.levels_of(self.what))
        return Counter({text: count for text, count in counts.items() if text and self.code(text) is None})

    @property
    def consistent(self) -> bool:
        different = len(set(self.levels)) == len(self.levels) and self.other not in self.levels and all(self.levels)
        accepted = not self.what or set(self.levels) <= set(DATE_LEVELS.get(self.what, ()))
        return bool(self.column) and different and accepted and self.most_frequent in self.levels


@storable("table-indicator", valid=lambda part: part.consistent)
@dataclass(frozen=True)
class IndicatorPart(Part):
    """Column that is one where a cell is missing."""

    def made(self) -> tuple[Made, ...]:
        label = f"{self.column} is missing"
        return (Made(label, self.column, label, ""),)

    def entries(self, cells: Cells) -> tuple[Array, Array]:
        return np.where(cells.absent, 0, -1), np.ones(len(cells.absent))
