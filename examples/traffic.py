"""
Traffic in Sioux Falls
======================

In equilibrium nobody gets there sooner by another road: flows minimise the sum of the integrals of all travel times.
Here they are on the map of the network on which methods have been compared for decades. You learn to solve a traffic
assignment to many digits, and how soon each method is there in calls of its oracle, the all-or-nothing assignment.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# The methods to compare, by what `fw.minimize` takes. The last keeps a mixture of flows for every origin.

PUBLISHED = 4231335.28710744  # the objective at the equilibrium, from Bar-Gera's Transportation Network Test Problems

#: label -> options of `minimize`, colour
METHODS = {
    "Frank-Wolfe, open loop": ({"method": "fw"}, "0.6"),
    "Frank-Wolfe, exact steps": ({"method": "fw", "line_search": "exact"}, "C1"),
    "Blended pairwise": ({"method": "blended-pairwise"}, "C0"),
    "Corrective": ({"method": "corrective"}, "C2"),
}

# %%
# On the map a link is a band as wide as its flow, on the right of those who drive, with the colour of how full it is.


def bands(network: fw.networks.Network, x: np.ndarray, widest: float) -> tuple[np.ndarray, np.ndarray]:
    """Where the nodes are, in km, and the corners of the band of every link."""
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
    ax.set_axis_off()
    right, low = places[:, 0].max(), places[:, 1].min()
    ax.plot([right - 2, right], [low, low], color="black", linewidth=1.2, solid_capstyle="butt")
    ax.text(right - 1, low - 0.1, "2 km", ha="center", va="top", fontsize=7.5)
    return roads


def draw(network: fw.networks.Network, runs: dict[str, fw.Result], x: np.ndarray, total: float) -> None:
    """The map, and the gap as a share of the total travel time against calls of the oracle."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.7), layout="constrained", width_ratios=[1, 1.45])
    roads = draw_map(left, network, x)
    bar = figure.colorbar(roads, ax=left, location="left", shrink=0.7, aspect=26, pad=0.04)
    bar.set_label(f"flow / capacity   (width: flow, up to {x.max():,.0f} vehicles)", fontsize=7.5)
    bar.outline.set_visible(False)
    for label, (_, colour) in METHODS.items():
        trace = runs[label].trace
        right.loglog(trace["n_lmo"], np.minimum.accumulate(trace["gap"]) / total, color=colour, label=label)
    right.set(xlabel="all-or-nothing assignments", ylabel="relative gap, least so far", xlim=(1, None), ylim=(1e-11, 2))
    right.legend(loc="lower right", fontsize=7.5)


def main(calls: int = 1000) -> dict[str, float]:
    """Solve, draw, and say what was found."""
    network = fw.networks.sioux_falls()
    f, C = network.objective, network.flows
    runs = {label: fw.minimize(f, C, tol=1e-4, max_iter=calls, **options) for label, (options, _) in METHODS.items()}
    x = runs["Corrective"].x
    total = float(x @ f.cost(x))
    for label, r in runs.items():
        print(f"{label:<26}{r.n_lmo:>6} assignments: objective {r.fun:.4f}, relative gap {r.gap / total:.0e}")
    print(f"published: {PUBLISHED:.4f}")
    full = x > network.links.capacity
    print(f"{int(full.sum())} of {len(x)} links carry more than their capacity")
    draw(network, runs, x, total)
    return {label: r.fun for label, r in runs.items()}


if __name__ == "__main__":
    main()
    plt.show()
