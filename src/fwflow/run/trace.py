"""Trace of a run, with one row per iterate."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, suggest
from fwflow.run import display

if TYPE_CHECKING:
    import matplotlib.axes
    import pandas as pd

COLUMNS = ("fun", "gap", "time", "n_grad", "n_lmo", "n_design", "step")


@storable("trace", "_columns", make="_of_columns", valid=lambda trace: trace._has_valid_counts)
class Trace:
    """Trace of a run. Row k describes x^(k); row 0 is the start.

    Columns: ``fun`` and ``gap`` at x^(k) (the gap is NaN if it was not computed), ``time`` in seconds since the start,
    ``n_grad``, ``n_lmo`` and ``n_design``: calls before the row was written, ``step``: the length of the step to x^(k),
    NaN in row 0.

    Parameters
    ----------
    rows : iterable of tuples
        Rows with the entries in the order of the columns; none by default.

    See Also
    --------
    Result : Holds the trace of a run.
    fit_rate : Rate of a sequence of errors.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> r = fw.minimize(fw.Quadratic(np.eye(2), [2.0, 0.0]), fw.Simplex(), max_iter=2, tol=0)
    >>> r.trace["fun"], len(r.trace)
    (array([-0.75, -1.5 , -1.5 ]), 3)
    """

    def __init__(self, rows: Iterable[tuple[float, ...]] = ()) -> None:
        self._rows: list[tuple[float, ...]] = list(rows)

    def copy(self) -> Trace:
        """Return a trace with the same rows, to which more can be added."""
        return Trace(self._rows)

    @property
    def _columns(self) -> tuple[Any, ...]:
        columns = zip(*self._rows, strict=True)
        return tuple(np.array(column) if len(set(map(type, column))) == 1 else column for column in columns)

    @property
    def _has_valid_counts(self) -> bool:
        return all(isinstance(n, int) and n >= 0 for row in self._rows for n in row[3:5])

    @classmethod
    def _of_columns(cls, columns: tuple[Any, ...]) -> Trace:
        if len(columns) not in (0, len(COLUMNS)):
            raise ValueError(f"a trace has {len(COLUMNS)} columns, not {len(columns)}")
        lists = [column.tolist() if isinstance(column, np.ndarray) else column for column in columns]
        return cls(zip(*lists, strict=True))

    def append(self, *row: float) -> None:
        """Add a row with the entries in the order of the columns."""
        self._rows.append(row)

    @property
    def first_fun(self) -> float:
        """Value at the start; the trace must not be empty."""
        return self._rows[0][0]

    def __len__(self) -> int:
        return len(self._rows)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return COLUMNS

    def __getitem__(self, column: str) -> Array:
        if column not in COLUMNS:
            raise KeyError(f"trace has no column {column!r}; {suggest(column, COLUMNS)}")
        index = COLUMNS.index(column)
        return np.array([row[index] for row in self._rows], dtype=int if column in ("n_grad", "n_lmo") else float)

    def __iter__(self) -> Iterator[str]:
        return iter(COLUMNS)

    def __repr__(self) -> str:
        return f"Trace({len(self)} rows: {', '.join(COLUMNS)})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: a plot of the gap, and the first and the last rows."""
        n, ends = len(self), 4
        picked = range(n) if n <= 2 * ends else (*range(ends), None, *range(n - ends, n))
        empty = (None,) * (1 + len(COLUMNS))
        rows = (empty if k is None else (k, *(f"{value:.6g}" for value in self._rows[k])) for k in picked)
        return display.beside(self.to_svg(), display.table(("k", *COLUMNS), rows))

    def to_svg(self) -> str:
        """Return the plot of the gap that notebooks show; empty if no gap was computed after the start."""
        return display.convergence(np.arange(len(self)), self["gap"])

    def to_pandas(self) -> pd.DataFrame:
        """Return the trace as a DataFrame indexed by k."""
        import pandas as pd

        return pd.DataFrame({name: self[name] for name in COLUMNS}).rename_axis("k")

    def to_csv(self, path: str | Path) -> None:
        """Write the trace as CSV."""
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(("k", *COLUMNS))
            writer.writerows((k, *row) for k, row in enumerate(self._rows))

    def plot(self, x: str = "k", y: str = "gap", ax: Any = None, **style: Any) -> matplotlib.axes.Axes:
        """Draw one column against another on logarithmic axes.

        Parameters
        ----------
        x : str
            Name of a column, or "k" for the iteration.
        y : str
            Name of a column.
        ax : matplotlib Axes, optional
            Axes to draw into. Default: those of a new figure.
        """
        import matplotlib.pyplot as plt

        values = self[y]
        along = np.arange(len(self)) if x == "k" else self[x]
        ax = plt.subplots(layout="constrained")[1] if ax is None else ax
        shown = np.isfinite(values) & (values > 0) & (along > 0)
        ax.loglog(along[shown], values[shown], **style)
        ax.set(xlabel={"k": "iteration k", "time": "seconds", "n_grad": "gradients"}.get(x, x), ylabel=y)
        return ax
