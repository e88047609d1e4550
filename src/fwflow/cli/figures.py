"""Figures of a run and of a path. Matplotlib is imported only when a figure is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fwflow._validation import Array, InputError, suggest
from fwflow.run.result import Result
from fwflow.tables.model_files import FittedModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of coefficients of a path that the legend names, chosen without tuning.
_LEGEND_SIZE = 10


def check(path: Path | None) -> None:
    """Refuse a figure file of an unknown format."""
    if path is None:
        return
    from matplotlib.backend_bases import FigureCanvasBase

    accepted = sorted(FigureCanvasBase.get_supported_filetypes())
    if (suffix := path.suffix.removeprefix(".").lower()) not in accepted:
        raise InputError(f"--plot {path}: unknown figure format {suffix!r}; {suggest(suffix, accepted)}")


def run(result: Result, model: FittedModel, largest: int) -> Figure:
    """Draw the gap against time, and the largest coefficients."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    gap, seconds = result.trace["gap"], result.trace["time"]
    known = np.isfinite(gap) & (gap > 0)
    left.semilogy(seconds[known], gap[known], marker="." if known.sum() < 50 else "")
    left.set(xlabel="seconds", ylabel="gap", title=f"{model.method}, {model.iterations} iterations")
    shown = model.largest(max(1, largest))[::-1]
    right.barh(range(len(shown)), [value for _, value in shown])
    right.set_yticks(range(len(shown)), [_plain(name) for name, _ in shown])
    right.set(title=f"largest coefficients ({model.nonzero} nonzero)")
    return figure


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
