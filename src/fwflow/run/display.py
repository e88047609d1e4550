"""Tables and a small plot of a run for notebooks, as HTML without other files."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from fwflow._validation import Array

# Size of the plot, and the left, upper, right and lower edge of its frame, in pixels. Chosen by eye.
_WIDTH, _HEIGHT = 340, 190
_LEFT, _TOP, _RIGHT, _BOTTOM = 52, 8, 330, 156
# Largest number of points of the line, chosen by eye.
_POINTS = 200


def fields(rows: Iterable[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    cells = (f"<tr><th style='text-align:right'>{escape(name)}</th>{_cell(value)}</tr>" for name, value in rows)
    return f"<table>{''.join(cells)}</table>"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a header; None is shown as dots."""
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def beside(*parts: str) -> str:
    """Return the parts next to one another, in several rows if the page is narrow."""
    inner = "".join(f"<div>{part}</div>" for part in parts if part)
    return f"<div style='display:flex;flex-wrap:wrap;gap:1.5em;align-items:center'>{inner}</div>"


def convergence(k: Array, gap: Array) -> str:
    """Return a plot of the gap against the iteration on logarithmic axes; empty if there is no positive gap."""
    shown = (k > 0) & (gap > 0) & np.isfinite(gap)
    if not shown.any():
        return ""
    x, y = np.log10(k[shown]), np.log10(gap[shown])
    right, low = max(float(x[-1]), 1e-9), math.floor(y.min())
    high = max(math.ceil(y.max()), low + 1)
    few = np.unique(np.searchsorted(x, np.linspace(0.0, right, _POINTS)).clip(0, x.size - 1))
    across, down = np.interp(x[few], [0, right], [_LEFT, _RIGHT]), np.interp(y[few], [low, high], [_BOTTOM, _TOP])
    points = " ".join(f"{a:.1f},{d:.1f}" for a, d in zip(across, down, strict=True))
    line = f"<polyline points='{points}' fill='none' stroke='#1f77b4' stroke-width='1.8'/>"
    if few.size == 1:
        line = f"<circle cx='{across[0]:.1f}' cy='{down[0]:.1f}' r='3' fill='#1f77b4'/>"
    label = f"The gap falls to {gap[shown][-1]:.1e} in {int(k[shown][-1])} iterations"
    middle = (_TOP + _BOTTOM) // 2
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{_HEIGHT}' role='img' "
        f"viewBox='0 0 {_WIDTH} {_HEIGHT}' font-size='11' fill='currentColor'><title>{label}</title>"
        f"{_grid(right, low, high)}{line}"
        f"<text x='{(_LEFT + _RIGHT) // 2}' y='{_HEIGHT - 4}' text-anchor='middle'>iteration</text>"
        f"<text x='11' y='{middle}' text-anchor='middle' transform='rotate(-90 11 {middle})'>gap</text></svg>"
    )


def _cell(value: object) -> str:
    return f"<td style='text-align:left'>{'…' if value is None else escape(str(value))}</td>"


def _grid(right: float, low: int, high: int) -> str:
    """Return the frame and at most six grid lines in each direction, at powers of ten."""
    width, height = _RIGHT - _LEFT, _BOTTOM - _TOP
    drawn = f"<rect x='{_LEFT}' y='{_TOP}' width='{width}' height='{height}' fill='none' stroke='currentColor'/>"
    for power in range(low, high + 1, max(1, math.ceil((high - low) / 5))):
        at = _TOP + height * (high - power) / (high - low)
        text = f"10<tspan dy='-4' font-size='8'>{power}</tspan>"
        drawn += f"<path d='M{_LEFT} {at:.1f}h{width}' stroke='currentColor' stroke-opacity='.15'/>"
        drawn += f"<text x='{_LEFT - 5}' y='{at + 4:.1f}' text-anchor='end'>{text}</text>"
    for power in range(0, math.floor(right) + 1, max(1, math.ceil(right / 5))):
        at = _LEFT + width * power / right
        drawn += f"<path d='M{at:.1f} {_TOP}v{height}' stroke='currentColor' stroke-opacity='.15'/>"
        drawn += f"<text x='{at:.1f}' y='{_BOTTOM + 14}' text-anchor='middle'>{10**power}</text>"
    return drawn
