"""Tables whose columns are numbers or text, as they are in a file or a data frame, with missing cells."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, InputError, describe, one_line, parsed

#: Texts that mean a missing value, in lower case. "none" and "-" are not among them, as both are usual class labels.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "?"})
#: Further texts that mean a missing value among numbers, in lower case.
PLACEHOLDERS = frozenset(
    {"none", "nil", "nat", "unknown", "missing", "n.a.", "not available", "not applicable", "<na>", "(null)", "(blank)"}
    | {"-", "--", "---", "\u2013", "\u2014", ".", "..", "...", "*", "\\n", "-nan", "1.#ind", "-1.#ind", "1.#qnan"}
    | {"#n/a", "#na", "#n/a n/a", "#div/0!", "#value!", "#ref!", "#name?", "#num!", "#null!"}
)
#: White space that may surround a cell. str.strip() removes more, such as no-break spaces and record separators.
BLANKS = " \t\r\n"

# Number of column names that an error message shows, chosen without tuning.
_SHOWN = 5
# Number of missing columns that an error message names, chosen without tuning.
_MOST_SHOWN = 100


def row_number(i: int) -> str:
    """Return the position of row i of a table without lines, for error messages."""
    return f"row {i + 1}"


@runtime_checkable
class ArrowStream(Protocol):
    """Data frame of any library that exports Arrow tables, such as pandas, polars and pyarrow."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the table as an Arrow stream."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Named columns of numbers or of text, and perhaps the target of each row.

    Parameters
    ----------
    columns : mapping of str to array
        Columns of equal length: float64 with NaN for missing cells, or objects of type str with an empty text for
        missing cells. Booleans are text, "True" and "False". Dates are text in ISO 8601.
    target : array, optional
        Target of each row, in the form of a column.
    target_name : str
        Name of the target; empty by default.
    source : str
        Name of the table in error messages.
    place : callable
        Function of a row number that returns its position in the table, for error messages.
    ignored : tuple of str
        Columns of the file that were not read, because they are not needed.

    See Also
    --------
    fwflow.tables.read_frame : Read a file.
    fwflow.tables.preparation.Preparation : Convert a frame to a matrix of numbers.

    Examples
    --------
    >>> frame = Frame.of({"age": [31, None], "city": ["Rome", "Paris"]})
    >>> frame.names, len(frame), frame.columns["age"].tolist()
    (('age', 'city'), 2, [31.0, nan])
    """

    columns: Mapping[str, Array]
    target: Array | None = None
    target_name: str = ""
    source: str = "the table"
    place: Callable[[int], str] = field(default=row_number, repr=False)
    ignored: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, without the target."""
        return tuple(self.columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return next((len(column) for column in (*self.columns.values(), self.target) if column is not None), 0)

    def take(self, rows: Array) -> Frame:
        """Return some rows, given by their numbers or by a truth value for each row."""
        kept = np.flatnonzero(rows) if rows.dtype == bool else rows
        place = self.place
        return replace(
            self,
            columns={name: column[kept] for name, column in self.columns.items()},
            target=None if self.target is None else self.target[kept],
            place=lambda i: place(int(kept[i])),
        )

    def without(self, na: Collection[str]) -> Frame:
        """Return the frame with missing cells where a cell is one of some texts, in upper or lower case."""
        if not na:
            return self
        gone = {text.strip(BLANKS).lower() for text in na}
        numbers = [number for number in map(parsed, gone) if number is not None]

        def cleared(column: Array) -> Array:
            if column.dtype == object:
                return text_column(["" if cell.lower() in gone else cell for cell in column.tolist()])
            return np.where(np.isin(column, numbers), np.nan, column)

        columns = {name: cleared(column) for name, column in self.columns.items()}
        return replace(self, columns=columns, target=None if self.target is None else cleared(self.target))

    def with_target(self, name: str) -> Frame:
        """Return the frame with one of its columns as the target."""
        if name not in self.columns:
            raise InputError(f"{self.source} has no column {name!r} to predict; {near(name, self.names)}")
        others = {other: column for other, column in self.columns.items() if other != name}
        return replace(self, columns=others, target=self.columns[name], target_name=name)

    @staticmethod
    def of(data: Any, names: Sequence[str] = ()) -> Frame:
        """Return a frame from a Frame, a data frame, a mapping of names to columns, or an array with these names.

        Parameters
        ----------
        data : Frame, pandas or polars DataFrame, pyarrow Table, mapping, or array_like
            An array has one row per sample. Missing cells are None, NaN or one of the texts "", "NA", "N/A", "NaN",
            "null" and "?", and among numbers also texts such as "-", "none", "unknown" and "#DIV/0!".
        names : sequence of str
            Names of the columns of an array.

        Returns
        -------
        Frame
        """
        if isinstance(data, Frame):
            return data
        if isinstance(data, Mapping):
            columns = {str(name): as_column(values, str(name)) for name, values in data.items()}
        elif isinstance(data, ArrowStream):
            columns = _from_arrow(data)
        else:
            columns = _from_array(data, names)
        if len({len(column) for column in columns.values()}) > 1:
            raise InputError(f"columns must be equally long; got { ({n: len(c) for n, c in columns.items()}) }")
        return Frame(columns)


def listed(names: Sequence[str], shown: int = _SHOWN) -> str:
    """Return the first few names as text."""
    if not names:
        return "no columns"
    few = ", ".join(map(repr, list(names)[:shown]))
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return f"column{'s' if len(names) != 1 else ''} {few}{more}"


def check_columns(source: str, names: Sequence[str], needed: Sequence[str], ignored: Sequence[str] = ()) -> None:
    """Refuse a table that lacks some of the needed columns, with one error that names them."""
    have = set(names)
    if missing := [name for name in needed if name not in have]:
        raise InputError(f"{source} lacks {listed(missing, _MOST_SHOWN)}; {near(missing[0], [*names, *ignored])}")


def near(name: str, names: Sequence[str]) -> str:
    """Return the end of an error message for a column that does not exist."""
    # The search for similar names is limited to 2000, because it is slow.
    same = [other for other in names if other.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, names[:2000], n=1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"it has {listed(names)}"


def as_column(values: Any, name: str) -> Array:
    """Return a column of a frame: numbers if all cells are numbers or missing, and text otherwise."""
    cells = np.asarray(values, dtype=None if isinstance(values, np.ndarray) else object)
    if cells.ndim != 1:
        raise InputError(f"column {name!r} must have one dimension; its shape is {cells.shape}")
    if cells.dtype.kind in "iuf":
        return cells.astype(np.float64)
    if cells.dtype.kind in "MUSb":
        return text_column(np.where(np.isnat(cells), "", cells.astype(str)) if cells.dtype.kind == "M" else cells)
    if cells.dtype.kind != "O":
        raise InputError(f"column {name!r} must hold numbers or text; it holds {cells.dtype}")
    given = [None if _absent(cell) else cell for cell in cells.tolist()]
    present = [cell for cell in given if cell is not None and not _placeholder(cell)]
    # A column that holds only placeholders is text.
    if all(isinstance(cell, int | float | np.number) and not isinstance(cell, bool) for cell in present or given):
        return np.array([np.nan if cell is None or _placeholder(cell) else float(cell) for cell in given])
    return text_column(["" if _absent(cell) else cell for cell in cells.tolist()])


def text_column(cells: Any) -> Array:
    """Return cells as a column of text, with an empty text for missing cells and one object for equal texts."""
    known: dict[Any, str] = {}

    def text(cell: Any) -> str:
        found = as_text(cell).strip(BLANKS)
        return "" if found.lower() in MISSING else found

    column = np.empty(len(cells), dtype=object)
    column[:] = [known.setdefault(cell, text(cell)) for cell in map(_hashable, cells)]
    return column


def _hashable(cell: Any) -> Any:
    """Return text as it is, numbers as Python numbers, and anything else as text. True is text, as it equals 1."""
    cell = cell.item() if isinstance(cell, np.generic) else cell
    return cell if isinstance(cell, str | int | float) and not isinstance(cell, bool) else str(cell)


def as_text(label: Any) -> str:
    """Return a label as it is written in files: 1.0 becomes 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def _absent(cell: Any) -> bool:
    """Return whether a Python object stands for a missing cell. pandas.NA and NaT are known by their text."""
    return cell is None or (isinstance(cell, float) and cell != cell) or str(cell) in ("<NA>", "NaT")


def _placeholder(cell: Any) -> bool:
    """Return whether a cell is a text that means a missing value among numbers."""
    return isinstance(cell, str) and cell.strip(BLANKS).lower() in MISSING | PLACEHOLDERS


def _from_array(data: Any, names: Sequence[str]) -> dict[str, Array]:
    if sp.issparse(data):
        raise InputError("data must be a data frame, a mapping of columns or a dense array; got a sparse matrix")
    cells = np.asarray(data)
    if cells.ndim != 2 or cells.shape[1] != len(names):
        raise InputError(f"data must be an array of {len(names)} columns; got {describe(data)}")
    return {name: as_column(cells[:, j], name) for j, name in enumerate(names)}


def _from_arrow(data: ArrowStream) -> dict[str, Array]:
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise InputError("data frames need pyarrow: pip install 'fwflow[data]'") from None
    try:
        table = pa.table(data)
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"the data frame cannot be read: {one_line(error)}") from error
    index = {str(name) for name in (table.schema.pandas_metadata or {}).get("index_columns", ())}
    return {name: arrow_column(table.column(j)) for j, name in enumerate(table.column_names) if name not in index}


def arrow_column(values: Any) -> Array:
    """Return a column of an Arrow table as a column of a frame."""
    import pyarrow as pa

    kind, types = values.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return np.asarray(values.cast(pa.float64(), safe=False).to_numpy(), dtype=np.float64)
    if types.is_null(kind):
        return np.full(len(values), np.nan)
    if types.is_boolean(kind):
        return text_column(["" if cell is None else cell for cell in values.to_pylist()])
    if types.is_temporal(kind):
        values = values.cast(pa.string())
    return text_column(["" if cell is None else cell for cell in values.to_pylist()])
