"""Draw hero.png, the figure of the README and of the first page: ``python docs/figures/hero.py``.

Left: the flow on a triangle, and two discretisations of it. Right: the duality gap of four methods on one problem.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

sys.path.insert(0, str(Path(__file__).parents[1] / "_ext"))
from generated import Generated

CORNERS = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
START, CENTRE = (-0.35, 0.65), (0.4, -0.25)
STEPS = 12
PASSES = np.unique(np.geomspace(2, 1000, 80).round())
#: label -> options of `minimize`, colour
METHODS = {
    "Frank-Wolfe": ({"method": "fw"}, "#D55E00"),
    "RK44, momentum": ({"method": "rk44", "momentum": "nesterov"}, "#E69F00"),
    "blended pairwise": ({"method": "blended-pairwise"}, "#CC79A7"),
    "default (auto)": ({}, "#0072B2"),
}


def points(f: fw.Objective, C: fw.ConstraintSet, method: str) -> np.ndarray:
    """Return the first iterates of a method."""
    found: list[np.ndarray] = []
    fw.minimize(
        f, C, START, method=method, schedule=fw.OpenLoop(k0=1), tol=0, max_iter=STEPS,
        callback=lambda state: found.append(state.x),
    )  # fmt: skip
    return np.stack(found)


def numbers() -> dict[str, np.ndarray]:
    """Compute the curves."""
    f, C = fw.Quadratic(np.eye(2), CENTRE), fw.ConvexHull(CORNERS)
    curves = {"flow": fw.exact_flow(f, C, START).at(np.linspace(0, 8, 200))}
    curves |= {method: points(f, C, method) for method in ("fw", "rk44")}
    A = np.random.default_rng(0).standard_normal((500, 1000))
    f = fw.LinearModel(A, np.sign(A[:, :5].sum(axis=1)), loss="logistic")
    for label, (options, _) in METHODS.items():
        trace = fw.minimize(f, fw.L1Ball(5.0), tol=1e-8, max_iter=400, **options).trace
        rows = np.searchsorted(trace["n_design"], PASSES, side="right") - 1
        best = np.log10(np.minimum.accumulate(np.maximum(trace["gap"], 1e-9)))
        curves[label] = np.where(trace["n_design"][-1] + 1 > PASSES, best[np.maximum(rows, 0)], np.nan)
    return curves


def draw(curves: dict[str, np.ndarray], path: Path, metadata: dict[str, str]) -> None:
    """Draw both panels."""
    with plt.rc_context({"font.size": 13, "axes.spines.top": False, "axes.spines.right": False}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        u, v = np.meshgrid(np.linspace(-1, 1, 100), np.linspace(0, 1, 50))
        level = np.where(v <= 1 - np.abs(u), (u - CENTRE[0]) ** 2 + (v - CENTRE[1]) ** 2, np.nan)
        left.contour(u, v, level, levels=10, colors="0.75", linewidths=0.8)
        left.fill(*CORNERS.T, facecolor="none", edgecolor="0.3", lw=1.2)
        left.plot(*curves["fw"].T, "o-", color="#D55E00", ms=4, lw=1.3, label="Frank-Wolfe")
        left.plot(*curves["rk44"].T, "o-", color="#E69F00", ms=4, lw=1.3, label="RK44")
        left.plot(*curves["flow"].T, color="#0072B2", lw=2.6, label="the flow")
        left.set(xlim=(-1.05, 1.05), ylim=(-0.03, 1.05), aspect="equal", title="One flow, many discretisations")
        left.axis("off")
        left.legend(frameon=False, loc="upper right", bbox_to_anchor=(1.08, 1.05), handlelength=1.2)
        for label, (_, colour) in METHODS.items():
            right.loglog(PASSES, 10 ** curves[label], color=colour, lw=2, label=label)
        right.set(
            xlabel="passes over the data",
            ylabel="duality gap",
            xlim=(2, 2000),
            ylim=(3e-9, 5),
            title="One function, many methods",
        )
        right.legend(frameon=False, loc="lower right", handlelength=1.2, fontsize=12, borderpad=0)
        figure.savefig(path, dpi=200, transparent=True, metadata=metadata)


HERO = Generated(Path(__file__).with_suffix(".png"), Path(__file__), numbers, draw)

if __name__ == "__main__":
    HERO.write()
