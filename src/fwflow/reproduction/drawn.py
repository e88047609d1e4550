"""Labelled curves and points of a figure, as CSV text and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from fwflow._validation import Array
from fwflow.reproduction.framework import csv_text


@dataclass(frozen=True)
class Series:
    """Curve or set of points of one panel."""

    panel: str
    name: str
    xlabel: str
    ylabel: str
    x: Array
    y: Array


def series(figure: Figure) -> list[Series]:
    """Return everything in the figure that has a label of its own."""
    return [found for ax in figure.axes for found in _of_panel(ax)]


def _of_panel(ax: Axes) -> list[Series]:
    panel = ax.get_title() or ax.get_xlabel()
    sharing = ax.get_shared_y_axes().get_siblings(ax)
    ylabel = next(filter(None, (sibling.get_ylabel() for sibling in (ax, *sharing))), "y")
    lines = [(line.get_label(), line.get_xydata()) for line in ax.lines]
    points = [(c.get_label(), c.get_offsets()) for c in ax.collections if isinstance(c, PathCollection)]
    return [
        Series(panel, str(name), ax.get_xlabel() or "x", ylabel, *np.asarray(drawn, dtype=float).T)
        for name, drawn in (*lines, *points)
        if not str(name).startswith("_")  # Matplotlib's own labels begin with an underscore
    ]


def as_csv(figure: Figure) -> str:
    """Return two columns per series, named after the panel, the series and the axis."""
    shown = series(figure)
    header = (f"{s.panel} | {s.name} | {axis}" for s in shown for axis in (s.xlabel, s.ylabel))
    return csv_text(header, ([f"{value:.6g}" for value in column] for s in shown for column in (s.x, s.y)))


def in_words(figure: Figure) -> list[str]:
    """Return a sentence per panel with the first and the last point of each of its series."""
    sentences = []
    for ax in figure.axes:
        shown = [s for s in _of_panel(ax) if len(s.x)]
        if shown:
            ends = "; ".join(
                f"{s.name} {s.y[0]:.3g} at {s.x[0]:.3g}" + (f", {s.y[-1]:.3g} at {s.x[-1]:.3g}" if len(s.x) > 1 else "")
                for s in shown
            )
            sentences.append(f"{shown[0].panel}: {shown[0].ylabel} against {shown[0].xlabel}, first and last. {ends}.")
    return sentences
