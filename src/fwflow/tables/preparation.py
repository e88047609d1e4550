"""Preparation of a frame for a linear model: encoded categories and dates, imputed cells, standardised numbers.

scikit-learn's transformers fit a preparation. It stores numbers and text only, and is applied with NumPy.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable
from fwflow._validation import Array, InputError, parsed, suggest, whole
from fwflow.tables.frames import Frame, as_text, check_columns
from fwflow.tables.readers import near

#: What to do about missing cells.
MISSING_CHOICES = ("impute", "drop", "error")

# Share of missing cells from which on a column that indicates them is added, chosen without tuning.
_OFTEN = 0.05
# Levels in fewer rows are joined as one level, chosen without tuning. In tables of fewer than 1000 rows the limit is
# one row in 100.
_RARE_ROWS, _RARE_SHARE = 10, 0.01
# Rows from which on integers that all differ are identifiers, chosen without tuning: integers of a measurement of fewer
# rows may differ by chance. Consecutive integers are identifiers in tables of at least the second number of rows.
_IDENTIFIER_ROWS, _NUMBERED_ROWS = 1000, 20
# Largest share of nonzero entries of a sparse matrix. With 20 000 rows of categories on one core, logistic regression
# over an L1 ball takes equally long with dense and sparse data at a share of 0.14, and half as long with sparse data at
# a share of 0.05.
_SPARSE_SHARE = 0.15
# Number of columns that lines name one by one, chosen without tuning.
_NAMED = 6

_DATE = re.compile(
    r"(\d{4})([-/]?)(\d{2})\2(\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.\d+)?(?:Z|[+-]\d{2}:?\d{2})?)?", re.ASCII
)
# Dates in which the order of day and month is not known, such as 03/04/2024 and 3.4.24, perhaps with a time.
_OTHER_DATE = re.compile(r"\d{1,2}([-./])\d{1,2}\1(?:\d{4}|\d{2})(?:[T ,].*)?", re.ASCII)
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = tuple(map(str, range(1, 13)))
#: Levels of parts of a date, in their order.
_DATE_LEVELS: Mapping[str, tuple[str, ...]] = {"month": _MONTHS, "weekday": _WEEKDAYS}


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
        names = _DATE_LEVELS[what]
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
        accepted = not self.what or set(self.levels) <= set(_DATE_LEVELS.get(self.what, ()))
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


@storable("table-preparation", valid=lambda preparation: preparation._consistent)
@dataclass(frozen=True, eq=False)
class Preparation:
    """Conversion of a table to a matrix of numbers, stored as numbers and text.

    Attributes
    ----------
    parts : tuple of NumberPart, CategoryPart and IndicatorPart
        Columns that are made, in the order of the table.
    missing : {"impute", "drop", "error"}
        What is done about missing cells.
    done : tuple of str
        Lines that describe the preparation.

    See Also
    --------
    fwflow.tables.problem.read_problem : Objective of a data file, with its preparation.
    fwflow.tables.model_files.FittedModel : Model with its preparation.

    Examples
    --------
    >>> table = {"age": [30, 40, None, 50], "city": ["Rome", "Paris", "Rome", "Paris"], "year": [2024] * 4}
    >>> preparation = Preparation.fit(table, scale=False)
    >>> preparation.names
    ('age', 'age is missing', 'city=Paris', 'city=Rome')
    >>> preparation.apply({"age": [None], "city": ["Rome"]}).tolist()
    [[40.0, 1.0, 0.0, 1.0]]
    >>> print(*preparation.lines(), sep="\\n")
    1 column of numbers: age
    1 column one-hot encoded: city (2 levels)
    age: 1 missing cell (25%) replaced by the median 40; column 'age is missing' added
    year is constant, left out
    """

    parts: tuple[NumberPart | CategoryPart | IndicatorPart, ...]
    missing: str
    done: tuple[str, ...]

    @staticmethod
    def fit(
        data: Any,
        *,
        categorical: Collection[str] = (),
        numeric: Collection[str] = (),
        dates: Collection[str] = (),
        missing: str = "impute",
        scale: bool = True,
        rare: int | None = None,
    ) -> Preparation:
        """Return the preparation that suits the columns of a table.

        Numbers are standardised. Text is one-hot encoded, with one column for all rare levels. Dates in ISO 8601 are
        expanded into month and weekday, one-hot encoded, the hour if there is a time, and the days since the first
        date. Left out are constant columns, columns without values, categories of rare levels only, and identifiers:
        text that differs in all rows, integers that differ in all of at least 1000 rows, and consecutive integers in
        any order in at least 20 rows.

        Parameters
        ----------
        data : Frame, data frame, or mapping of names to columns
        categorical, numeric, dates : collections of str
            Columns whose kind is chosen and not detected.
        missing : {"impute", "drop", "error"}
            "impute" replaces missing cells by the median of numbers or the most frequent level of categories, and adds
            a column that indicates them if at least 5 % of the cells are missing. "drop" ignores rows with missing
            cells. "error" refuses them.
        scale : bool
            Whether numbers are standardised: minus their mean, divided by their standard deviation.
        rare : int, optional
            Levels in fewer rows than this are joined as one level, "other". Default: 10, or one row in 100 in tables
            of fewer than 1000 rows.

        Returns
        -------
        Preparation
        """
        frame = Frame.of(data)
        if missing not in MISSING_CHOICES:
            raise InputError(f"missing={missing!r} is not known; {suggest(missing, MISSING_CHOICES)}")
        chosen = _chosen(frame, categorical=categorical, numeric=numeric, date=dates)
        if not len(frame):
            raise InputError(f"{frame.source} has no rows")
        least = None if rare is None else whole(rare, "rare", 1)
        kept, roles = _roles_of_rows(frame, chosen, missing, least)
        lines = _Lines()
        parts = _fitted(kept, roles, _rare_rows(kept, least), bool(scale), lines)
        if not parts:
            reasons = "; ".join(lines.left_out)
            raise InputError(f"{frame.source} has no column to predict from: {reasons}")
        if len(kept) < len(frame):
            lines.rows.append(f"{_count(len(frame) - len(kept), 'row')} with missing cells left out")
        return Preparation(tuple(parts), missing, tuple(lines.all()))

    @cached_property
    def made(self) -> tuple[Made, ...]:
        """Columns that are made. Equal names get a number."""
        seen: Counter[str] = Counter()
        taken = {column.name for part in self.parts for column in part.made()}
        made = []
        for column in (column for part in self.parts for column in part.made()):
            name = column.name
            while seen[column.name] and name in taken:
                seen[column.name] += 1
                name = f"{column.name} ({seen[column.name]})"
            seen[column.name] += not seen[column.name]
            taken.add(name)
            made.append(column._replace(name=name))
        return tuple(made)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are made, all different."""
        return tuple(column.name for column in self.made)

    @property
    def sources(self) -> tuple[str, ...]:
        """For each column that is made, the column of the table."""
        return tuple(column.source for column in self.made)

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """Columns of the table that are needed, in its order."""
        return tuple(dict.fromkeys(part.column for part in self.parts))

    @property
    def text_inputs(self) -> tuple[str, ...]:
        """Columns of the table that are read as text."""
        return tuple(name for name in self.inputs if name not in self.number_inputs)

    @property
    def number_inputs(self) -> tuple[str, ...]:
        """Columns of the table that are read as numbers."""
        return tuple(p.column for p in self.parts if isinstance(p, NumberPart) and not p.what)

    @property
    def _consistent(self) -> bool:
        return self.missing in MISSING_CHOICES and bool(self.parts)

    def lines(self) -> list[str]:
        """Return a description of what was done, in a few lines."""
        return list(self.done)

    def with_line(self, line: str) -> Preparation:
        """Return the preparation with one more line of description."""
        return replace(self, done=(*self.done, line))

    def complete(self, data: Any) -> Array:
        """Return for each row whether none of the needed cells is missing."""
        frame = self._frame(data)
        return ~np.any([Cells(frame, name).absent for name in self.inputs], axis=0)

    def apply(self, data: Any) -> Any:
        """Return the matrix of the columns that are made, dense or, if few entries are not zero, sparse.

        Parameters
        ----------
        data : Frame, data frame, mapping of names to columns, or array
            Columns are found by name; further columns are ignored. An array has the columns `inputs`. A level that the
            preparation does not know belongs to the column "other" of its category, or to none.

        Returns
        -------
        (m, n) array or CSR matrix
        """
        frame = self._frame(data)
        cells = {name: Cells(frame, name) for name in self.inputs}
        if self.missing == "error":
            _refuse_missing(frame, cells.values())
        entries = [part.entries(cells[part.column]) for part in self.parts]
        widths = [len(part.made()) for part in self.parts]
        codes = np.stack([code for code, _ in entries], axis=1)
        values = np.stack([value for _, value in entries], axis=1)
        used = codes >= 0
        codes += np.concatenate([[0], np.cumsum(widths)[:-1]])
        shape = (len(frame), sum(widths))
        if len(widths) > _SPARSE_SHARE * shape[1]:
            X = np.zeros(shape)
            rows, places = np.nonzero(used)
            X[rows, codes[rows, places]] = values[rows, places]
            return X
        used &= values != 0
        ends = np.concatenate([[0], np.cumsum(used.sum(axis=1))])
        return sp.csr_array((values[used], codes[used], ends), shape=shape)

    def notes(self, data: Any) -> list[str]:
        """Return lines about cells that differ from those of the fit: unknown levels and replaced missing cells."""
        frame = self._frame(data)
        found, replaced = [], {}
        for part in self.parts:
            cells = Cells(frame, part.column)
            if isinstance(part, CategoryPart) and (unknown := part.unknown(cells)):
                few = ", ".join(map(repr, list(unknown)[:3])) + (", ..." if len(unknown) > 3 else "")
                which, end = "new", f"for which all columns of {part.label} are zero"
                if part.other:
                    which, end = "rare or new", f"counted as {part.label + '=' + part.other!r}"
                verb = f"has a {which} level" if unknown.total() == 1 else f"have {which} levels"
                found.append(f"{part.label}: {_count(unknown.total(), 'cell')} {verb} ({few}), {end}")
            gone = int(cells.absent.sum())
            if gone and not isinstance(part, IndicatorPart) and part.column not in replaced:
                replaced[part.column] = f"{_gone(gone, len(frame))}{_by(part)}"
        filled = [f"{name}: {text}" for name, text in replaced.items() if self.missing == "impute"]
        return found + _few(filled, f"{len(filled)} columns have missing cells, which are replaced: ", replaced)

    def _frame(self, data: Any) -> Frame:
        frame = Frame.of(data, self.inputs)
        check_columns(frame.source, frame.names, self.inputs, frame.ignored)
        return frame


class _Lines:
    """Description of a preparation by subject."""

    def __init__(self) -> None:
        self.used: list[str] = []
        self.imputed: dict[str, str] = {}
        self.left_out: list[str] = []
        self.odd: list[str] = []
        self.rows: list[str] = []

    def all(self) -> list[str]:
        """Return the lines in their order."""
        imputed = [f"{name}: {text}" for name, text in self.imputed.items()]
        many = f"{len(imputed)} columns had missing cells, which are replaced: "
        return [*self.used, *_few(imputed, many, self.imputed), *_few(self.left_out), *_few(self.odd), *self.rows]


def _few(lines: Sequence[str], many: str = "", names: Iterable[str] = ()) -> list[str]:
    """Return the lines or, if there are many, one line that names the first columns."""
    if len(lines) <= _NAMED:
        return list(lines)
    if many:
        return [many + _shown(list(names))]
    return [*lines[: _NAMED - 1], f"... and {len(lines) - _NAMED + 1} more columns like these"]


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def _gone(count: int, of: int) -> str:
    if count == of:
        return "all cells are missing, replaced"
    return f"{_count(count, 'missing cell')} ({100 * count / of:.2g}%) replaced"


def _by(part: NumberPart | CategoryPart) -> str:
    """Describe what replaces missing cells."""
    if part.what:
        return " by the median date and the most frequent month and weekday"
    if isinstance(part, NumberPart):
        return f" by the median {part.median:.6g}"
    return f" by the most frequent level {part.most_frequent!r}"


def _rare_rows(frame: Frame, chosen: int | None) -> int:
    """Return the number of rows from which on a level is not rare."""
    return chosen or min(_RARE_ROWS, max(1, math.ceil(_RARE_SHARE * len(frame))))


def _chosen(frame: Frame, **roles: Collection[str]) -> dict[str, str]:
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


class _Role(NamedTuple):
    """Role of a column."""

    kind: str  # "number", "category", "date", "indicator" of missing cells, or empty for a column that is left out.
    reason: str = ""  # Why the values of the column are left out, or what is odd about it.


def _roles_of_rows(
    frame: Frame, chosen: Mapping[str, str], missing: str, rare: int | None
) -> tuple[Frame, dict[str, _Role]]:
    """Return the rows that are used, and the roles of all columns in these rows."""
    cells = {name: Cells(frame, name) for name in frame.names}
    roles = {name: _role(column, chosen.get(name), rare) for name, column in cells.items()}
    if missing == "impute":
        return frame, roles
    used = [name for name, role in roles.items() if role.kind]
    if missing == "error":
        _refuse_missing(frame, [cells[name] for name in used])
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


def _refuse_missing(frame: Frame, columns: Iterable[Cells]) -> None:
    found = [(int(cells.absent.argmax()), cells.name) for cells in columns if cells.absent.any()]
    if found:
        row, name = min(found)
        rows = np.any([Cells(frame, name).absent for _, name in found], axis=0).sum()
        have = "1 row has missing cells" if rows == 1 else f"{rows} of {len(frame)} rows have missing cells"
        raise InputError(
            f"{frame.source}, {frame.place(row)}: column {name!r} is missing; {have}; "
            "--missing impute replaces them, --missing drop leaves out these rows"
        )


def _role(cells: Cells, chosen: str | None, rare: int | None) -> _Role:
    """Return the role of a column, chosen or detected."""
    present = cells.present
    if not len(present):
        return _Role("", "has no values")
    if chosen == "date" or (chosen is None and cells.is_text and all(map(as_date, cells.levels))):
        return _Role("date") if len(np.unique(cells.dates[~cells.absent])) > 1 else _left_out(cells, "is constant")
    if chosen == "numeric" or (chosen is None and not cells.is_text):
        numbers = cells.numbers[~cells.absent]
        if (numbers == numbers[0]).all():
            return _left_out(cells, "is constant")
        if chosen is None and _all_differ(numbers):
            if len(numbers) >= _IDENTIFIER_ROWS or np.ptp(numbers) == len(numbers) - 1:
                return _left_out(cells, "is an identifier (all values differ)")
            return _Role("number", "holds integers that all differ, kept as numbers; --drop leaves out an identifier")
        return _Role("number")
    if len(cells.levels) == 1:
        return _left_out(cells, "is constant")
    other = chosen is None and all(map(_OTHER_DATE.fullmatch, cells.levels))
    dates = f"holds dates such as {next(iter(cells.levels))!r}; only those such as '2024-03-01' are expanded" * other
    if chosen is None and len(cells.levels) == len(present):
        return _left_out(cells, dates or "is an identifier (all values differ)")
    if max(cells.levels.values()) < _rare_rows(cells.frame, rare):
        return _left_out(cells, dates or f"has {len(cells.levels)} levels, all of them rare")
    return _Role("category", dates and f"{dates}, so they are encoded as categories")


def _left_out(cells: Cells, reason: str) -> _Role:
    """Return the role of a column whose values are left out. If they are often missing, that may tell something."""
    return _Role("indicator" if cells.absent.mean() >= _OFTEN else "", reason)


def _all_differ(numbers: Array) -> bool:
    """Return whether numbers are integers that all differ, in so many rows that they may identify the rows."""
    whole_numbers = len(numbers) >= _NUMBERED_ROWS and bool((numbers == np.floor(numbers)).all())
    return whole_numbers and len(np.unique(numbers)) == len(numbers)


def _fitted(
    frame: Frame, roles: Mapping[str, _Role], rare: int, scale: bool, lines: _Lines
) -> list[NumberPart | CategoryPart | IndicatorPart]:
    """Return the parts of all columns, in the order of the table, and describe them."""
    cells = {name: Cells(frame, name) for name, role in roles.items() if role.kind}
    firsts = {name: str(np.nanmin(cells[name].dates).astype("datetime64[D]")) for name in _of(roles, "date")}
    numbers = [(name, "", "") for name in _of(roles, "number")]
    numbers += [(name, *more) for name, day in firsts.items() for more in (("hour", ""), ("days", day))]
    texts = [(name, "") for name in _of(roles, "category")]
    texts += [(name, what) for name in firsts for what in _DATE_LEVELS]
    fitted: list[NumberPart | CategoryPart] = [*_number_parts(cells, numbers, scale)]
    fitted += _category_parts(cells, texts, rare)
    by_column: dict[str, list[NumberPart | CategoryPart]] = {name: [] for name in cells}
    for part in sorted(fitted, key=lambda part: isinstance(part, NumberPart) and part.what != ""):
        by_column[part.column].append(part)
    parts: list[NumberPart | CategoryPart | IndicatorPart] = []
    for name, role in roles.items():
        own = by_column.get(name, [])
        if role.kind in ("", "indicator"):
            lines.left_out.append(f"{name} {role.reason}, left out")
        elif role.reason:
            lines.odd.append(f"{name} {role.reason}")
        parts += own
        if role.kind and (gone := int(cells[name].absent.sum())):
            often = gone >= _OFTEN * len(frame)
            added = f"column '{name} is missing' added" if often else ""
            if role.kind == "indicator":
                lines.left_out[-1] += f"; {_count(gone, 'missing cell')}, {added}"
            else:
                how = _gone(gone, len(frame)) + _by(own[0])
                lines.imputed[name] = "; ".join(filter(None, [how, added]))
            if often:
                parts.append(IndicatorPart(name))
    _describe(parts, scale, rare, lines)
    return parts


def _of(roles: Mapping[str, _Role], kind: str) -> list[str]:
    return [name for name, role in roles.items() if role.kind == kind]


def _number_parts(
    cells: Mapping[str, Cells], wanted: Sequence[tuple[str, str, str]], scale: bool
) -> Iterable[NumberPart]:
    """Fit the columns of numbers. Hours and days that are constant are left out."""
    columns = [(key, cells[key[0]].numbers_of(*key[1:])) for key in wanted]
    columns = [(key, column) for key, column in columns if not key[1] or np.nanmin(column) < np.nanmax(column)]
    if not columns:
        return ()
    impute, preprocess = _transformers()
    # A power of two per column makes the largest entry about one, so that squares neither overflow nor vanish.
    powers = np.array([np.frexp(np.nanmax(np.abs(column)))[1] for _, column in columns])
    X = np.ldexp(np.stack([column for _, column in columns], axis=1), -powers)
    imputer = impute.SimpleImputer(strategy="median").fit(X)
    scaler = preprocess.StandardScaler().fit(imputer.transform(X))
    fitted = np.ldexp([imputer.statistics_, scaler.mean_, scaler.scale_], powers).T.tolist()
    return [
        NumberPart(name, what, since, median, mean, spread, scale)
        for ((name, what, since), _), (median, mean, spread) in zip(columns, fitted, strict=True)
    ]


def _category_parts(cells: Mapping[str, Cells], wanted: Sequence[tuple[str, str]], rare: int) -> Iterable[CategoryPart]:
    """Fit the categories. Months and weekdays have no rare levels, and those that are constant are left out."""
    parts = []
    for limit, keys in ((rare, [k for k in wanted if not k[1]]), (1, [k for k in wanted if k[1]])):
        if not keys:
            continue
        impute, preprocess = _transformers()
        columns = [cells[name].levels_of(what) for name, what in keys]
        # The transformers are faster with numbers than with text. The numbers are in the order of the texts.
        known = [sorted(set(column) - {""}) for column in columns]
        codes = [{text: code for code, text in enumerate(["", *texts], -1)} for texts in known]
        X = np.array([[code[text] for text in column] for code, column in zip(codes, columns, strict=True)]).T
        imputer = impute.SimpleImputer(missing_values=-1, strategy="most_frequent").fit(X)
        encoder = preprocess.OneHotEncoder(min_frequency=limit, handle_unknown="infrequent_if_exist")
        encoder.fit(imputer.transform(X))
        found = zip(keys, known, imputer.statistics_, encoder.infrequent_categories_, strict=True)
        for (name, what), texts, most_frequent, infrequent in found:
            few = set() if infrequent is None else {texts[int(code)] for code in infrequent}
            levels = [level for level in texts if level not in few]
            if what:
                levels.sort(key=_DATE_LEVELS[what].index)
            other = ("other levels" if "other" in levels else "other") if few else ""
            if len(levels) + bool(few) > 1:
                parts.append(CategoryPart(name, what, tuple(levels), other, texts[int(most_frequent)]))
    return parts


def _transformers() -> tuple[Any, Any]:
    """Return the modules of scikit-learn with imputers and scalers. Its import takes about a second."""
    try:
        from sklearn import impute, preprocessing
    except ModuleNotFoundError:
        raise InputError(
            "the preparation of a table needs scikit-learn: pip install 'fwflow[cli]'; --raw does without it"
        ) from None
    return impute, preprocessing


def _describe(parts: Sequence[Part], scale: bool, rare: int, lines: _Lines) -> None:
    numbers = [p.column for p in parts if isinstance(p, NumberPart) and not p.what]
    categories = [p for p in parts if isinstance(p, CategoryPart) and not p.what]
    dates: dict[str, list[str]] = {}
    for part in parts:
        if isinstance(part, NumberPart | CategoryPart) and part.what:
            dates.setdefault(part.column, []).append(
                part.what if isinstance(part, CategoryPart) else (part.label.removeprefix(f"{part.column}: "))
            )
    if numbers:
        lines.used.append(f"{_count(len(numbers), 'column')} of numbers{', standardised' * scale}: {_shown(numbers)}")
    if categories:
        shown = [f"{p.column} ({len(p.levels)} levels{' and other' * bool(p.other)})" for p in categories]
        rest = f"; other: levels in fewer than {rare} rows" if any(p.other for p in categories) else ""
        lines.used.append(f"{_count(len(shown), 'column')} one-hot encoded: {_shown(shown)}{rest}")
    for name, made in list(dates.items())[:_NAMED]:
        lines.used.append(f"{name} is a date, expanded into {', '.join(made)}")
    if len(dates) > _NAMED:
        lines.used.append(f"... and {len(dates) - _NAMED} more dates")
