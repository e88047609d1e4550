"""Preparation of a frame for a linear model: encoded categories and dates, imputed cells, standardised numbers.

scikit-learn's transformers fit a preparation. It stores numbers and text only, and is applied with NumPy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable
from fwflow._validation import Array, InputError, suggest, whole
from fwflow.tables.frames import Frame, check_columns
from fwflow.tables.parts import DATE_LEVELS, CategoryPart, Cells, IndicatorPart, Made, NumberPart, Part
from fwflow.tables.roles import OFTEN, Role, chosen_kinds, rare_rows, refuse_missing, roles_of_rows

#: What to do about missing cells.
MISSING_CHOICES = ("impute", "drop", "error")

# Largest share of nonzero entries of a sparse matrix. With 20 000 rows of categories on one core, logistic regression
# over an L1 ball takes equally long with dense and sparse data at a share of 0.14, and half as long with sparse data at
# a share of 0.05.
_SPARSE_SHARE = 0.15
# Number of columns that lines name one by one, chosen without tuning.
_NAMED = 6


@storable("table-preparation-2", valid=lambda preparation: preparation._consistent)
@storable("table-preparation", "parts", "missing", "done", valid=lambda preparation: preparation._consistent)
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
    na : tuple of str
        Further cells that mean a missing value, in upper or lower case.

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
    na: tuple[str, ...] = ()

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
        na: Collection[str] = (),
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
        na : collection of str
            Further cells that mean a missing value, in upper or lower case.

        Returns
        -------
        Preparation
        """
        frame = Frame.of(data).without(na)
        if missing not in MISSING_CHOICES:
            raise InputError(f"--missing {missing!r} is not known; {suggest(missing, MISSING_CHOICES)}")
        chosen = chosen_kinds(frame, categorical=categorical, numeric=numeric, date=dates)
        if not len(frame):
            raise InputError(f"{frame.source} has no rows")
        least = None if rare is None else whole(rare, "rare", 1)
        kept, roles = roles_of_rows(frame, chosen, missing, least)
        lines = _Lines()
        parts = _fitted(kept, roles, rare_rows(kept, least), bool(scale), lines)
        if not parts:
            reasons = "; ".join(lines.left_out)
            raise InputError(f"{frame.source} has no column to predict from: {reasons}")
        if len(kept) < len(frame):
            lines.rows.append(f"{_count(len(frame) - len(kept), 'row')} with missing cells left out")
        return Preparation(tuple(parts), missing, tuple(lines.all()), tuple(na))

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
            refuse_missing(frame, cells.values())
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
        frame = Frame.of(data, self.inputs).without(self.na)
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


def _fitted(
    frame: Frame, roles: Mapping[str, Role], rare: int, scale: bool, lines: _Lines
) -> list[NumberPart | CategoryPart | IndicatorPart]:
    """Return the parts of all columns, in the order of the table, and describe them."""
    cells = {name: Cells(frame, name) for name, role in roles.items() if role.kind}
    firsts = {name: str(np.nanmin(cells[name].dates).astype("datetime64[D]")) for name in _of(roles, "date")}
    numbers = [(name, "", "") for name in _of(roles, "number")]
    numbers += [(name, *more) for name, day in firsts.items() for more in (("hour", ""), ("days", day))]
    texts = [(name, "") for name in _of(roles, "category")]
    texts += [(name, what) for name in firsts for what in DATE_LEVELS]
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
            often = gone >= OFTEN * len(frame)
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


def _of(roles: Mapping[str, Role], kind: str) -> list[str]:
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
                levels.sort(key=DATE_LEVELS[what].index)
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
