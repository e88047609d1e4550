"""Palette, line styles and the plots that experiments share, and the curves of a figure as CSV text and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogFormatter

from fwflow._validation import Array
from fwflow.methods.catalogue import METHODS
from fwflow.reproduction.framework import csv_text

# The palette of Okabe & Ito, whose colours are distinct for readers with any common colour vision, without its yellow,
# which is faint on white. Four colours of Tol follow, for figures with more methods.
PALETTE = (
    "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#8B5A2B",
    "#44AA99", "#AA4499", "#999933", "#CC6677",
)  # fmt: skip
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.5, 1, 1.5)))


def colours(methods: Sequence[str]) -> dict[str, str]:
    """Return a colour for each method: the one of the table of methods, or else one that is not taken."""
    places = {m: METHODS[m].colour for m in methods if m in METHODS}
    own = {m: PALETTE[place] for m, place in places.items() if place is not None}
    rest = [c for c in PALETTE if c not in own.values()] or list(PALETTE)
    others = [m for m in methods if m not in own]
    return {m: own.get(m) or rest[others.index(m) % len(rest)] for m in methods}


def label(method: str) -> str:
    """Return the name of a method in figures and tables. A tableau file is named by its stem."""
    return METHODS[method].label if method in METHODS else Path(method).stem


# Colours that report.py replaces by those of the page, so that figures follow its light and dark themes.
INK, FAINT = "#010203", "#c0c1c2"

RC = mpl.rc_params_from_file(Path(__file__).with_name("report.mplstyle"), use_default_template=False)
#: Decorator of functions that draw.
in_style = mpl.rc_context(RC)


@in_style
def subplots(rows: int, columns: int, width: float, height: float, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of the given size in inches, and its axes as a two-dimensional array."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def thin(k: Array, most: int = 400) -> Array:
    """Return at most `most` + 1 indices into k, evenly spaced on a logarithmic axis."""
    if len(k) <= most:
        return np.arange(len(k))
    return np.unique(np.concatenate([[0], np.geomspace(1, len(k) - 1, most).astype(int)]))


@in_style
def legend_below(figure: Figure, colours: Mapping[str, str], styles: Mapping[str, Any], columns: int = 0) -> None:
    """Add one legend for the whole figure: methods by colour, variants by line style."""
    handles = [Line2D([], [], color=colour, label=label) for label, colour in colours.items()]
    handles += [Line2D([], [], color=INK, ls=style, label=label) for label, style in styles.items()]
    widest = max((len(str(handle.get_label())) for handle in handles), default=0)
    # An entry is 0.55 inches of line and padding, and about 0.065 inches per letter.
    columns = columns or max(1, int(figure.get_figwidth() / (0.55 + 0.065 * widest)))
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, handlelength=2.4)


@in_style
def convergence(
    curves: Sequence[tuple[str, str, str, Mapping[str, Array]]], axes: Sequence[tuple[str, str]], ylabel: str
) -> Figure:
    """Draw the smallest gap so far on log-log panels, and the gap itself as a thin line if there are few curves.

    A curve is (label, colour, variant, columns). An axis is (column, label), and each has a panel.
    """
    styles = _styles(variant for _, _, variant, _ in curves)
    rows, across = (2, 2) if len(axes) == 4 else (1, len(axes))
    figure, grid = subplots(rows, across, 9.9 if across > 1 else 5.0, 2.7 * rows + 0.5, sharey=True)
    for ax, (column, xlabel) in zip(grid.flat, axes, strict=True):
        for name, colour, variant, columns in curves:
            index = thin(columns["gap"], 250)
            x, gap, best = (c[index] for c in (columns[column], columns["gap"], best_so_far(columns["gap"])))
            shown = (index > 0) & (x > 0) & (best > 0)
            if len(curves) <= 6:
                ax.loglog(x[shown], gap[shown], color=colour, lw=0.5, alpha=0.3)
            ax.loglog(x[shown], best[shown], color=colour, ls=styles[variant], label=_named(name, variant, styles))
        ax.set_xlabel(xlabel)
    for row in grid:
        row[0].set_ylabel(ylabel)
    legend_below(figure, {label: colour for label, colour, _, _ in curves}, styles if len(styles) > 1 else {})
    return figure


@in_style
def gains(panels: Sequence[tuple[str, str, Sequence[tuple[str, str, str, Array, Array]]]]) -> Figure:
    """Draw ratios of gaps, with a line at one.

    A panel is (title, label of the horizontal axis, curves). A curve is (label, colour, variant, x, ratio).
    """
    styles = _styles(variant for *_, curves in panels for _, _, variant, _, _ in curves)
    figure, grid = subplots(1, len(panels), 4.95 * len(panels), 3.2)
    for ax, (title, xlabel, curves) in zip(grid[0], panels, strict=True):
        ax.axhline(1.0, color=INK, lw=0.8)
        for name, colour, variant, x, ratio in curves:
            ax.loglog(x, ratio, color=colour, ls=styles[variant], label=_named(name, variant, styles))
        ax.set(xlabel=xlabel, ylabel="ratio", title=title)
        ax.yaxis.set_major_formatter(LogFormatter())
        ax.yaxis.set_minor_formatter(LogFormatter())
    methods = {name: colour for *_, curves in panels for name, colour, *_ in curves}
    legend_below(figure, methods, styles if len(styles) > 1 else {})
    return figure


def _styles(variants: Iterable[str]) -> dict[str, Any]:
    """Return a line style for each variant; only plain runs are solid."""
    shown = dict.fromkeys(variants)
    styles = dict(zip(dict.fromkeys(("plain", *shown)), cycle(DASHES), strict=False))
    return {variant: styles[variant] for variant in styles if variant in shown}


def _named(method: str, variant: str, styles: Mapping[str, Any]) -> str:
    return f"{method}, {variant}" if len(styles) > 1 else method


def best_so_far(gap: Array) -> Array:
    """Return the smallest gap up to each iterate. The start does not count, because no method has chosen it."""
    return np.concatenate([gap[:1], np.fmin.accumulate(gap[1:])])  # gaps that were not computed are NaN


class Series(NamedTuple):
    """Labelled curve or set of points of one panel of a figure."""

    panel: str
    name: str
    xlabel: str
    ylabel: str
    x: Array
    y: Array


def series(ax: Axes) -> list[Series]:
    """Return everything in a panel that has a label of its own."""
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
    shown = [s for ax in figure.axes for s in series(ax)]
    header = (f"{s.panel} | {s.name} | {axis}" for s in shown for axis in (s.xlabel, s.ylabel))
    return csv_text(header, ([f"{value:.6g}" for value in column] for s in shown for column in (s.x, s.y)))


def in_words(figure: Figure) -> list[str]:
    """Return a sentence per panel with the first and the last point of each of its series."""
    sentences = []
    for ax in figure.axes:
        shown = [s for s in series(ax) if len(s.x)]
        if shown:
            ends = "; ".join(
                f"{s.name} {s.y[0]:.3g} at {s.x[0]:.3g}" + (f", {s.y[-1]:.3g} at {s.x[-1]:.3g}" if len(s.x) > 1 else "")
                for s in shown
            )
            axes = f"{shown[0].ylabel} against {shown[0].xlabel}"
            sentences.append(f"{shown[0].panel}: {axes}. First and last value of each series: {ends}.")
    return sentences
