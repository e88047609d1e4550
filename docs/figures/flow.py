"""Draws flow.png: the flow on a triangle, followed exactly, and three discretisations of it.

Run it with the package and matplotlib installed: python docs/figures/flow.py
"""

from __future__ import annotations

import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np

import fwflow as fw
from fwflow.reproduction.style import FAINT, INK, PALETTE, RC, colours, label, subplots

CORNERS = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
#: Start and centre of the level lines: the paper's problem, which begins with a tie, and one that ties on the way.
PROBLEMS = (((0.0, 1.0), (0.0, 0.0)), ((-0.35, 0.65), (0.4, -0.25)))
METHODS = ("fw", "midpoint", "rk44")
STEPS = 15


def main() -> None:
    """One row per problem, one column per method."""
    colour = colours(METHODS)
    figure, grid = subplots(len(PROBLEMS), len(METHODS) + 1, 11.0, 4.0)
    with mpl.rc_context(RC), warnings.catch_warnings():
        warnings.simplefilter("ignore", fw.UncertifiedWarning)  # Midpoint, on purpose
        for axes, (start, centre) in zip(grid, PROBLEMS, strict=True):
            f, C = fw.Quadratic(np.eye(2), centre), fw.ConvexHull(CORNERS)
            sol = fw.exact_flow(f, C, start)
            path = sol.at(np.linspace(0, 8, 400))
            turns = sol.at([event.tau for event in sol.events])
            for ax, method in zip(axes, (None, *METHODS), strict=True):
                panel(ax, centre, sol.result.x)
                ax.plot(*path.T, color=INK, lw=1.8 if method is None else 0.9, ls="-" if method is None else ":")
                if method is None:
                    ax.plot(*turns.T, "o", color=PALETTE[1], ms=5, zorder=4)
                    continue
                points: list[np.ndarray] = []
                fw.minimize(
                    f, C, start, method=method, schedule=fw.OpenLoop(k0=1), tol=0, max_iter=STEPS,
                    callback=lambda state, points=points: points.append(state.x),
                )  # fmt: skip
                ax.plot(*np.stack(points).T, "o-", color=colour[method], ms=3, lw=1.1)
        for ax, title in zip(grid[0], ("the flow, exactly", *map(label, METHODS)), strict=True):
            ax.set_title(title)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=150)


def panel(ax: mpl.axes.Axes, centre: tuple[float, float], minimum: np.ndarray) -> None:
    """The triangle with level lines and the minimum."""
    u, v = np.meshgrid(np.linspace(-1.1, 1.1, 120), np.linspace(-0.15, 1.1, 80))
    level = ((u - centre[0]) ** 2 + (v - centre[1]) ** 2) / 2
    ax.contour(u, v, level, levels=np.linspace(0.02, 0.6, 9), colors=FAINT, linewidths=0.6)
    ax.fill(*CORNERS.T, facecolor="none", edgecolor=INK, lw=1.0)
    ax.plot(*minimum, marker="*", color=PALETTE[2], ms=8, zorder=5)
    ax.set(xlim=(-1.15, 1.15), ylim=(-0.18, 1.12), xticks=[-1, 0, 1], yticks=[0, 1], aspect="equal")
    ax.grid(False)


if __name__ == "__main__":
    main()
