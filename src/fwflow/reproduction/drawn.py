"""What does a figure show? Its labelled curves and points, as numbers in a CSV file and in words."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from fwflow._validation import Array


@dataclass(frozen=True)
class Series:
    """A curve, or a cloud of points, of one panel."""

    panel: str
    name: str
    xlabel: str
    ylabel: str
    x: Array
    y: Array


def series(figure: Figure) -> list[Series]:
    """Everything in the figure that has a label of its own."""
    return [found for ax in figure.axes for found in _of_panel(ax)]


def _of_panel(ax: Axes) -> list[Series]:
    panel = ax.get_title() or ax.get_xlabel()
    sharing = ax.get_shared_y_axes().get_siblings(ax)
    ylabel = next(filter(None, (sibling.get_ylabel() for sibling in (ax, *sharing))), "y")
    # A label that begins with an underscore is Matplotlib's own.
    lines = [(line.get_label(), line.get_xydata()) for line in ax.lines]
    clouds = [(c.get_label(), c.get_offsets()) for c in ax.collections if isinstance(c, PathCollection)]
    return [
        Series(panel, str(name), ax.get_xlabel() or "x", ylabel, points[:, 0], points[:, 1])
        for name, points in ((name, np.asarray(points, dtype=float)) for name, points in (*lines, *clouds))
        if not str(name).startswith("_")
    ]


def as_csv(figure: Figure) -> str:
    """Two columns per series, named after its panel, itself and the axis."""
    shown = series(figure)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(f"{s.panel} | {s.name} | {axis}" for s in shown for axis in (s.xlabel, s.ylabel))
    cells = ([f"{value:.6g}" for value in column] for s in shown for column in (s.x, s.y))
    writer.writerows(zip_longest(*cells, fillvalue=""))
    return text.getvalue()


def in_words(figure: Figure) -> list[str]:
    """A sentence per panel: where each of its series begins and ends."""
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
