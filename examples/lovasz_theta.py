"""
Lovász theta function with a proof
==================================

Two nodes of a graph are joined if they conflict. The largest set of nodes without a conflict is hard to find,
but the Lovász theta function bounds its size. You learn to compute this function with a feasible value below it
and a proved bound above it, and to compare it with exact counts.
"""

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np

from fwflow import semidefinite

NODES = 40
DENSITIES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LARGE = 200  # nodes of the graph in the right panel
EDGES = 4000

# %%
# Problem
# -------
# A set of nodes without an edge between them is independent. The theta function lies between the size
# :math:`\alpha(G)` of the largest independent set and the smallest number :math:`\bar\chi(G)` of cliques that
# cover all nodes. Both are hard to compute, but
#
# .. math::
#
#    \vartheta(G) = \max_X \{ \sum_{ij} X_{ij} : \operatorname{tr} X = 1, \; X_{ij} = 0 \text{ for edges } ij,
#    \; X \succeq 0 \}
#
# is a semidefinite program.

# %%
# A known value
# -------------
# For a cycle of five nodes, Lovász proved that :math:`\vartheta = \sqrt 5`. This settled the capacity of a
# channel with five letters, each of which may be confused with two others.
pentagon = semidefinite.theta(nx.cycle_graph(5), rtol=1e-8)
print(f"{pentagon.value:.8f} <= {5**0.5:.8f} <= {pentagon.bound:.8f}")

# %%
# Random graphs
# -------------
# The function ``theta`` returns ``value <= theta <= bound``. The value belongs to a feasible matrix: the entries
# at the edges are set to zero, and the smallest eigenvalue is repaired. NetworkX finds the largest independent
# set as the largest clique of the complement, and a cover by cliques as a greedy colouring of the complement.
values, bounds, independent, cover = [], [], [], []
for k, density in enumerate(DENSITIES):
    graph = nx.gnp_random_graph(NODES, density, seed=k)
    r = semidefinite.theta(graph)
    values.append(r.value)
    bounds.append(r.bound)
    complement = nx.complement(graph)
    independent.append(max(map(len, nx.find_cliques(complement))))
    colours = nx.greedy_color(complement, strategy="DSATUR")
    cover.append(1 + max(colours.values()))
    theta = f"[{r.value:.4f}, {r.bound:.4f}]"
    print(f"density {density}: {independent[-1]} <= {theta} <= {cover[-1]}")

# %%
# Convergence
# -----------
# The trace belongs to a minimisation, so that its values have the opposite sign.
pairs = np.array(np.triu_indices(LARGE, 1)).T
chosen = np.random.default_rng(0).choice(len(pairs), EDGES, replace=False)
large = semidefinite.theta(pairs[chosen], LARGE)
seconds, lower = large.trace["time"], -large.trace["fun"]
upper = lower + large.trace["gap"]
print(f"{LARGE} nodes, {EDGES} edges: {large.value:.4f} to {large.bound:.4f}")

# %%
# Figure
# ------
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.fill_between(DENSITIES, independent, cover, alpha=0.15, label="both counts")
left.plot(DENSITIES, values, "o-", markersize=4, label="theta")
left.plot(DENSITIES, independent, "s", markersize=4, label="largest independent set")
left.set(xlabel="share of edges", ylabel="nodes", title=f"{NODES} nodes")
left.legend()
right.plot(seconds, upper, label="proved bound")
right.plot(seconds, lower, label="feasible value")
right.set(xlabel="seconds", ylabel="theta", title=f"{LARGE} nodes, {EDGES} edges")
right.set(ylim=(0, 3 * large.bound))
right.legend()
plt.show()
