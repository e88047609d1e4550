"""Figures: their series as numbers and words, their line styles and colours."""

from __future__ import annotations

import csv
import io

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fwflow.reproduction import runs, style
from tests.reproduction.helpers import gaps


def test_figures_as_numbers_and_words():
    figure, grid = style.subplots(1, 2, 4.0, 2.0)
    grid[0, 0].plot([1, 10, 100], [5, 4, 1 / 3], label="FW, plain")
    grid[0, 0].axhline(1.0)  # not data
    grid[0, 0].set(xlabel="k", ylabel="gap")
    grid[0, 1].scatter([0.5, 0.25], [1, 2], label="iterates")
    grid[0, 1].set(title='a "title"')
    assert list(csv.reader(io.StringIO(style.as_csv(figure)))) == [
        ["k | FW, plain | k", "k | FW, plain | gap", 'a "title" | iterates | x', 'a "title" | iterates | y'],
        ["1", "5", "0.5", "1"],
        ["10", "4", "0.25", "2"],
        ["100", "0.333333", "", ""],
    ]
    assert style.in_words(figure) == [
        "k: gap against k. First and last value of each series: FW, plain 5 at 1, 0.333 at 100.",
        'a "title": y against x. First and last value of each series: iterates 1 at 0.5, 2 at 0.25.',
    ]


def test_plain_runs_are_solid_in_every_figure():
    results = gaps(("fw", "rk44"), dict.fromkeys(("plain", "a"), (1.0, 1.0)))
    found = runs.findings("name", "", "", "", ("fw", "rk44"), {"plain": {}, "a": {"line_search": "exact"}}, results)
    for figure in found.figures:
        styles = {line.get_label(): line.get_linestyle() for ax in figure.figure.axes for line in ax.lines}
        assert (styles["RK44, plain"], styles["RK44, a"]) == ("-", "--")


@settings(deadline=None, max_examples=50, derandomize=True)
@given(n=st.integers(1, 5000), most=st.integers(2, 500))
def test_thin_keeps_both_ends(n, most):
    index = style.thin(np.zeros(n), most)
    assert (index[0], index[-1]) == (0, n - 1)
    assert (np.diff(index) > 0).all()
    assert len(index) <= most + 1


def test_colours_are_distinct_and_methods_keep_theirs():
    chosen = style.colours(("fw", "a.toml", "rk44", "heun", "b.toml"))
    assert len(set(chosen.values())) == 5
    assert (chosen["fw"], chosen["rk44"]) == (style.PALETTE[0], style.PALETTE[2])
    assert len(style.colours([f"m{i}" for i in range(20)])) == 20
