"""
NetworkX graph: routes in a city with names
===========================================

A city is a NetworkX graph: crossings have names, and two crossings may be joined by a street and a tunnel. Trips
from some crossings to others spread over the graph until no driver can save time, which is a convex problem over
the flows on the edges. This example makes the set of flows with :meth:`fwflow.FlowPolytope.from_networkx`, reads
the flows by the names of the edges, and lets NetworkX check that no trip can be shorter. A second part finds the
cheapest network of cables with :meth:`fwflow.SpanningTree.from_networkx`.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

import fwflow as fw

SIDE = 5
TRIPS = 4000.0

# %%
# Graph
# -----
# The crossings of a grid are called A1 to E5. Every street has two directions. A tunnel leads under the city from
# A1 to E5; it is parallel to a slow road between the same two crossings.
names = {(i, j): f"{'ABCDEFGH'[i]}{j + 1}" for i in range(SIDE) for j in range(SIDE)}
grid = nx.relabel_nodes(nx.grid_2d_graph(SIDE, SIDE), names)
position = {name: place for place, name in names.items()}
G = nx.MultiDiGraph()
rng = np.random.default_rng(1)
for u, v in grid.edges():
    for ends in ((u, v), (v, u)):
        G.add_edge(*ends, key="street", minutes=rng.uniform(2, 4), capacity=1000.0)
first, last = names[0, 0], names[SIDE - 1, SIDE - 1]
G.add_edge(first, last, key="tunnel", minutes=3.0 * SIDE, capacity=800.0)
G.add_edge(first, last, key="road", minutes=5.0 * SIDE, capacity=400.0)
print(f"{G.number_of_nodes()} crossings, {G.number_of_edges()} links")

# %%
# Flows that serve the trips
# --------------------------
# The trips are a dictionary with the names of two crossings. ``C.edges`` lists the names of the links in the order
# of the entries of x, so that attributes of the graph become arrays in the same order.
trips = {
    (first, last): TRIPS,
    (names[0, SIDE - 1], names[SIDE - 1, 0]): TRIPS / 2,
    (names[1, 1], names[SIDE - 1, 1]): TRIPS / 4,
}
C = fw.FlowPolytope.from_networkx(G, trips)
minutes = np.array([G.edges[edge]["minutes"] for edge in C.edges])
capacity = np.array([G.edges[edge]["capacity"] for edge in C.edges])
f = fw.Beckmann(minutes, capacity)
r = fw.minimize(f, C, tol=1e-3)
print(r.method, r.status.name, f"gap {r.gap:.1e}")

# %%
# Result by edge
# --------------
# ``C.by_edge`` returns a dictionary. The tunnel and the slow road have names of their own.
flow = C.by_edge(r.x)
for key in ("tunnel", "road"):
    print(f"{key:>6}: {flow[first, last, key]:7.1f} trips")

# %%
# NetworkX checks the equilibrium: the time of all trips together must equal the time that they would take on the
# shortest paths for the present times of the links. The difference is the duality gap.
present = f.cost(r.x)
for edge, time in C.by_edge(present).items():
    G.edges[edge]["now"] = time
total = float(present @ r.x)
lengths = {pair: nx.shortest_path_length(G, *pair, weight="now") for pair in trips}
shortest = sum(amount * lengths[pair] for pair, amount in trips.items())
print(f"all trips take {total:.3f} minutes, on shortest paths {shortest:.3f}")

# %%
# Cables
# ------
# Graphs without directions work the same way. The spanning tree of least expected cost joins all crossings; if the
# costs are uncertain, a mixture of trees is a plan with less variance. The objective is the mean cost plus the sum of
# the squares of the shares, which is the variance if the costs are independent.
cable = fw.SpanningTree.from_networkx(grid)
cost = cable.to_array({edge: 1 + 0.3 * k % 1 for k, edge in enumerate(cable.edges)})
plan = fw.minimize(fw.Quadratic(2 * np.eye(len(cost)), -cost), cable, tol=1e-6)
nx.set_edge_attributes(grid, cable.by_edge(cost), "cost")
tree = nx.minimum_spanning_tree(grid, weight="cost")
shares = cable.by_edge(plan.x)
used = sum(share > 1e-6 for share in shares.values())
print(f"{len(tree.edges)} cables in a tree, {used} in the mixture")

# %%
# Figure
# ------
# The width of a line is the flow on a street, in both directions together.
fig, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained")
streets = {(u, v): x for (u, v, key), x in flow.items() if key == "street"}
titles = ("flow on streets", "share of the cables")
for ax, widths, title in zip(axes, (streets, shares), titles, strict=True):
    both = [widths.get((u, v), 0) + widths.get((v, u), 0) for u, v in grid.edges()]
    for (u, v), width in zip(grid.edges(), both, strict=True):
        across, up = zip(position[u], position[v], strict=True)
        ax.plot(across, up, color="C0", linewidth=0.5 + 6 * width / max(both))
    ax.plot(*zip(*position.values(), strict=True), "o", color="black", markersize=3)
    ax.set_xticks(range(SIDE), "ABCDEFGH"[:SIDE])
    ax.set_yticks(range(SIDE), range(1, SIDE + 1))
    ax.set(title=title, xlabel="column", ylabel="row", aspect="equal")
plt.show()
