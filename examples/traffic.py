"""Traffic in Sioux Falls: the equilibrium drawn on the map, and how soon each method finds it.

Run with ``python examples/traffic.py [figure.png]``; needs ``fwflow[plot]``.
"""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

import fwflow as fw

#: name -> label, options of `minimize`, colour
METHODS = {
    "open loop": ("Frank-Wolfe, open loop", {"method": "fw"}, "#7F7F7F"),
    "exact": ("Frank-Wolfe, exact steps", {"method": "fw", "line_search": "exact"}, "#E69F00"),
    "pairwise": ("Blended pairwise", {"method": "blended-pairwise"}, "#0072B2"),
    "corrective": ("Corrective", {"method": "corrective"}, "#D55E00"),
}
STYLE = {
    "font.size": 8.5,
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.frameon": False,
}


def bands(network: fw.networks.Network, x: np.ndarray, widest: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the nodes are, in km, and for every link a band as wide as its flow, to the right of those who drive."""
    degrees = network.coordinates - network.coordinates.mean(axis=0)
    places = degrees * 111.2 * [np.cos(np.deg2rad(network.coordinates[:, 1].mean())), 1.0]
    start, end = places[network.links.tail], places[network.links.head]
    along = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    aside = along[:, ::-1] * [1, -1] * (widest * x / x.max())[:, None]
    return places, np.stack([start, end, end + aside, start + aside], axis=1)


def draw_map(ax: Axes, network: fw.networks.Network, x: np.ndarray) -> PolyCollection:
    """Flows as the width of bands, and how full the links are as their colour."""
    places, corners = bands(network, x, widest=0.42)
    used = x / network.links.capacity
    roads = PolyCollection(corners, array=used, cmap="viridis_r", edgecolor="white", linewidth=0.35, clim=(0, 2.5))
    ax.add_collection(roads)
    ax.scatter(*places.T, s=58, color="white", edgecolor="black", linewidth=0.6, zorder=3)
    for number, place in enumerate(places, 1):
        ax.text(*place, str(number), ha="center", va="center_baseline", fontsize=5.2, zorder=4)
    ax.set_aspect("equal")
    ax.autoscale_view()
    ax.set_axis_off()
    right, low = places[:, 0].max(), places[:, 1].min()
    ax.plot([right - 2, right], [low, low], color="black", linewidth=1.2, solid_capstyle="butt")
    ax.text(right - 1, low - 0.1, "2 km", ha="center", va="top", fontsize=7.5)
    return roads


def draw_convergence(ax: Axes, runs: dict[str, fw.Result], total: float) -> None:
    """The gap, as a share of the total travel time, against calls of the all-or-nothing assignment."""
    for name, (label, _, colour) in METHODS.items():
        trace = runs[name].trace
        ax.plot(trace["n_lmo"], np.minimum.accumulate(trace["gap"]) / total, color=colour, linewidth=1.4, label=label)
    ax.set(xscale="log", yscale="log", xlabel="all-or-nothing assignments", ylabel="relative gap, least so far")
    ax.set_xlim(left=1)
    ax.set_ylim(1e-11, 2)
    ax.grid(color="0.9", linewidth=0.5)
    ax.legend(loc="lower right", handlelength=1.2, fontsize=7.5)


def main(path: str = "traffic.png", calls: int = 2000) -> None:
    """Solve, draw, and say what was found."""
    network = fw.networks.sioux_falls()
    f, C = network.objective, network.flows
    runs = {name: fw.minimize(f, C, tol=1e-4, max_iter=calls, **options) for name, (_, options, _) in METHODS.items()}
    best = runs["corrective"]
    total = float(best.x @ f.cost(best.x))
    print(f"objective {best.fun:.4f} after {best.n_lmo} assignments; relative gap {best.gap / total:.0e}")

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.2, 3.7), layout="constrained")
        figure.get_layout_engine().set(wspace=0.06)
        left, right = figure.subplots(1, 2, width_ratios=[1, 1.45])
        roads = draw_map(left, network, best.x)
        left.set_title("a  Sioux Falls in equilibrium")
        bar = figure.colorbar(roads, ax=left, location="left", shrink=0.7, aspect=26, pad=0.04)
        bar.set_label(f"flow / capacity   (width: flow, up to {best.x.max():,.0f})", fontsize=7.5)
        bar.outline.set_visible(False)
        draw_convergence(right, runs, total)
        right.set_title("b  How soon each method is there")
        figure.savefig(path, dpi=220)


if __name__ == "__main__":
    main(*sys.argv[1:2])
