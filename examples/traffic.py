"""
Traffic assignment: user equilibrium and system optimum in Sioux Falls
======================================================================

Every driver takes the fastest route, and every driver slows down the others. The traffic assignment problem
asks for the resulting flow on every road. This example solves it for Sioux Falls, the standard small test
network of the field. You learn to compute the equilibrium with a verified gap, to check it with shortest
paths from SciPy, and to compare methods by their number of oracle calls. The last section computes how much
time drivers lose because nobody coordinates them.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.colors import LinearSegmentedColormap
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

import fwflow as fw

CALLS = 1000  # all-or-nothing assignments for each method of the comparison
PUBLISHED = 4231335.28710744  # optimal value, from Bar-Gera's test problems

# %%
# Problem
# -------
# Link :math:`a` carries the flow :math:`x_a`. Its travel time grows with the flow, by the formula of the
# Bureau of Public Roads with free-flow time :math:`t_a` and capacity :math:`k_a`:
#
# .. math::
#
#    c_a(x_a) = t_a \left(1 + 0.15 \left(x_a / k_a\right)^4\right) .
#
# In a user equilibrium (Wardrop 1952), no driver can arrive earlier on another route. Beckmann, McGuire and
# Winsten (1956) showed that the equilibrium minimises the sum of the integrals of the travel times:
#
# .. math::
#
#    \min_x \; \sum_a \int_0^{x_a} c_a(v) \, \mathrm{d}v
#    \quad \text{subject to} \quad x \text{ serves all trips} .
#
# The linear problem over this set is an all-or-nothing assignment: every trip takes the path that is
# shortest for fixed travel times. LeBlanc, Morlok and Pierskalla (1975) introduced this network, and solved
# it with the Frank-Wolfe method.
#
# Data
# ----
# The network ships with fwflow. :func:`~fwflow.networks.read_tntp` reads other networks in the same file
# format.

network = fw.networks.sioux_falls()
links, demand = network.links, network.demand
print(network)
print(f"{demand.sum():,.0f} trips between {np.count_nonzero(demand)} pairs of zones")

# %%
# Model and solution
# ------------------
# ``network.objective`` is a :class:`~fwflow.Beckmann` function of the link flows, and ``network.flows`` is
# the :class:`~fwflow.FlowPolytope` of all flows that serve the trips. The gap is divided by the total
# travel time, as usual in this field.

f, C = network.objective, network.flows
r = fw.minimize(f, C, tol=1e-4)
x = r.x
total = x @ f.cost(x)
print(f"objective {r.fun:.5f}")
print(f"published {PUBLISHED:.5f}")
print(f"relative gap {r.gap / total:.0e} after {r.n_lmo} all-or-nothing assignments")

# %%
# The map shows the equilibrium. Every link is a band on the right-hand side of the driving direction. The
# width of a band is the flow, and the colour of a band is the flow divided by the capacity. Most links
# carry more than their capacity.

to_km = 111.2 * np.array([np.cos(np.deg2rad(network.coordinates[0, 1])), 1])
nodes = (network.coordinates - network.coordinates.min(axis=0)) * to_km


def draw_map(ax, widths, **style):
    """Draw every link as a band with its width in km, and the numbered nodes."""
    start, end = nodes[links.tail], nodes[links.head]
    along = (end - start) / np.linalg.norm(end - start, axis=1, keepdims=True)
    right = along[:, ::-1] * [1, -1] * widths[:, None]
    corners = np.stack([start, end, end + right, start + right], axis=1)
    bands = PolyCollection(corners, edgecolor="white", linewidth=0.3, **style)
    ax.add_collection(bands)
    ax.scatter(*nodes.T, s=150, color="white", edgecolor="black", lw=0.8, zorder=3)
    for number, place in enumerate(nodes, 1):
        ax.text(*place, str(number), ha="center", va="center_baseline", zorder=4)
    ax.set(xlabel="km to the east", ylabel="km to the north", aspect="equal")
    return bands


fig, ax = plt.subplots(figsize=(5.6, 6.4), layout="constrained")
load = x / links.capacity
shades = LinearSegmentedColormap.from_list("load", ["#56B4E9", "#CC79A7", "#D55E00"])
bands = draw_map(ax, 0.4 * x / x.max(), array=load, cmap=shades, clim=(0, 2.5))
fig.colorbar(bands, ax=ax, label="flow / capacity", shrink=0.6)
plt.show()

print(f"{np.count_nonzero(load > 1)} of {len(x)} links carry more than their capacity")

# %%
# Check against an independent solver
# -----------------------------------
# In an equilibrium, all trips use paths with the shortest travel time. The total travel time of the flows
# is then equal to the total travel time on shortest paths. SciPy's Dijkstra algorithm computes the shortest
# paths without any part of fwflow. The difference of the two totals is the duality gap.

times = csr_array((f.cost(x), (links.tail, links.head)), shape=2 * [network.n_nodes])
shortest = (demand * dijkstra(times)).sum()
print(f"total travel time of the flows:     {total:.4f}")
print(f"total travel time, shortest paths:  {shortest:.4f}")
print(f"difference: {total - shortest:.1e}, gap reported by fwflow: {r.gap:.1e}")

# %%
# Comparison of methods
# ---------------------
# An all-or-nothing assignment is the expensive part of the problem on large networks, so we count these
# assignments. Plain Frank-Wolfe reduces the gap slowly, also with an exact line search. The other two
# methods keep an active set of earlier assignments and reach a smaller gap. The corrective method keeps an
# active set for every origin and needs the fewest assignments.

methods = {
    "Frank-Wolfe, open loop": {"method": "fw"},
    "Frank-Wolfe, line search": {"method": "fw", "line_search": "exact"},
    "blended pairwise": {"method": "blended-pairwise"},
    "corrective": {"method": "corrective"},
}
runs = {}
for label, options in methods.items():
    runs[label] = fw.minimize(f, C, tol=1e-4, max_iter=CALLS, **options)
    gap, calls = runs[label].gap / total, runs[label].n_lmo
    print(f"{label:<25} {calls:4d} assignments, relative gap {gap:.0e}")

# %%
# The figure shows the smallest relative gap that each method has reached.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
for (label, run), colour in zip(runs.items(), ("0.5", "C1", "C0", "C2"), strict=True):
    gaps = np.fmin.accumulate(run.trace["gap"]) / total
    ax.loglog(run.trace["n_lmo"], gaps, color=colour, label=label)
ax.set(xlabel="all-or-nothing assignments", ylabel="relative gap", ylim=(1e-12, None))
ax.legend(loc="lower left")
plt.show()

# %%
# System optimum and price of anarchy
# -----------------------------------
# A planner would minimise the total travel time :math:`\sum_a x_a c_a(x_a)` instead. With the travel times
# above, this sum is again a Beckmann function, with :math:`5 \cdot 0.15 = 0.75` in place of 0.15. The
# constraint set stays the same.

planned = fw.Beckmann(links.free_flow, links.capacity, b=0.75, power=4)
optimum = fw.minimize(planned, C, tol=1e-4)
best = optimum.x @ f.cost(optimum.x)
print(f"total travel time: equilibrium {total:,.0f}, system optimum {best:,.0f}")
print(f"price of anarchy: {total / best:.4f}")

# %%
# The last map shows how the flows change from the equilibrium to the system optimum. The width of a band is
# the size of the change. The planner moves traffic from the centre to links at the border of the network.

change = optimum.x - x
fig, ax = plt.subplots(figsize=(5.6, 6.4), layout="constrained")
colours = np.where(change > 0, "C2", "C0")
draw_map(ax, 0.4 * np.abs(change) / np.abs(change).max(), facecolor=colours)
for colour, label in (("C2", "more traffic"), ("C0", "less traffic")):
    ax.plot([], [], color=colour, linewidth=6, label=label)
ax.legend(loc="lower right")
plt.show()

# %%
# Summary
# -------
# * Traffic assignment is convex minimisation over flows, and the oracle is a shortest-path computation.
# * The duality gap is the time that all drivers together could save on shortest paths, at the present
#   travel times.
# * A method with an active set reaches high accuracy with few assignments.
# * The user equilibrium is not the best use of the roads. A planner who controls all routes reaches a
#   smaller total travel time.
