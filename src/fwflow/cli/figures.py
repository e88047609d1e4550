"""Figures of a run and of a path. Matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fwflow._validation import Array, InputError, suggest
from fwflow.run.result import Result
from fwflow.tables.model_files import FittedModel

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Number of coefficients of a path that the legend names, chosen without tuning.
_LEGEND_SIZE = 10
# Formats of figures, by the suffixes that the help texts name.
_FORMATS = ("svg", "png", "pdf")


def check(path: Path | None) -> None:
    """Refuse a figure file of an unknown format."""
    if path is None:
        return
    if (suffix := path.suffix.removeprefix(".").lower()) not in _FORMATS:
        raise InputError(f"--plot {path}: unknown figure format {suffix!r}; {suggest(suffix, _FORMATS)}")


def save(figure: Figure, path: Path) -> None:
    """Write a figure. Letters that the font lacks are drawn as boxes, without a warning for each of them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(path)


def run(result: Result, model: FittedModel, largest: int) -> Figure:
    """Draw the gap against time, and the largest coefficients."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    gap, seconds = result.trace["gap"], result.trace["time"]
    known = np.isfinite(gap) & (gap > 0)
    left.semilogy(seconds[known], gap[known], marker="." if known.sum() < 50 else "")
    left.set(xlabel="seconds", ylabel="gap", title=f"{model.method}, {model.iterations} iterations")
    _bars(right, model, largest)
    return figure


def coefficients(model: FittedModel, largest: int) -> Figure:
    """Draw the largest coefficients."""
    from matplotlib.figure import Figure

    count = min(max(1, largest), model.nonzero)
    figure = Figure(figsize=(7, 1.2 + 0.28 * count), layout="constrained")
    _bars(figure.subplots(), model, largest)
    return figure


def stored(model: FittedModel, largest: int) -> Figure:
    """Draw what a model file holds: scores of radii, a path, or coefficients."""
    if model.held_out is not None:
        return selection(model, largest)
    if model.path is None:
        return coefficients(model, largest)
    path = model.path
    return paths(path.radii.tolist(), path.coefficients.reshape(len(path.radii), -1), model.labelled_names, path.family)


def selection(model: FittedModel, largest: int) -> Figure:
    """Draw the held-out scores against the radius with one standard error, and the largest coefficients."""
    from matplotlib.figure import Figure

    assert model.held_out is not None
    scores = model.held_out
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.errorbar(scores.radii, scores.means, yerr=scores.errors, marker=".", capsize=2)
    left.axvline(scores.radius, linestyle="--", color="0.5")
    left.set(
        xscale="log",
        xlabel="radius",
        ylabel=f"held-out {scores.score}",
        title=f"{scores.folds} folds, chosen radius {scores.radius:.4g}",
    )
    _bars(right, model, largest)
    return figure


def _bars(axes: Axes, model: FittedModel, largest: int) -> None:
    """Draw the coefficients that matter most as bars."""
    shown = model.table(max(1, largest))[::-1]
    standardised = model.preparation is not None
    axes.barh(range(len(shown)), [row.standardised if standardised else row.original for row in shown])
    labels = [f"{row.label}: {row.name}" if row.label else row.name for row in shown]
    axes.set_yticks(range(len(shown)), [_plain(label) for label in labels])
    axes.axvline(0.0, color="0.3", lw=0.8)
    axes.set(
        title=f"largest coefficients ({model.nonzero} nonzero)",
        xlabel="standardised coefficient" if standardised else "coefficient",
    )


def paths(radii: Sequence[float], coefficients: Array, names: Sequence[str], constraint: str) -> Figure:
    """Draw every coefficient against the radius. The legend names the largest ones."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    size = np.abs(coefficients).max(axis=0)
    for rank, j in enumerate(np.argsort(-size, kind="stable")[: max(_LEGEND_SIZE, int(np.count_nonzero(size)))]):
        named = {"label": _plain(names[j])} if rank < _LEGEND_SIZE else {"color": "0.7", "lw": 0.7, "zorder": 1}
        axes.semilogx(radii, coefficients[:, j], **named)
    axes.set(xlabel=f"radius of the {constraint} set", ylabel="coefficient")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def _plain(name: str) -> str:
    """Escape a name: matplotlib reads dollar signs as formulas, and hides labels that begin with an underscore."""
    shown = name.replace("$", r"\$")
    return f" {shown}" if shown.startswith("_") else shown
