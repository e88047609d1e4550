"""
The fairest spanning trees
==========================

Draw spanning trees of a graph at random, in such a way that no edge is used more than it must be: minimise the sum of
squares of the probabilities that an edge is in the tree. The vectors of these probabilities are the spanning tree
polytope, which has no short list of constraints, while its oracle is a minimum spanning tree. The answer finds the
parts of a graph that are denser than the rest (Albin, Clemens & Poggi-Corradini, 2021), and trees to draw.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

import fwflow as fw

# %%
# A graph with parts of its own
# -----------------------------
# Three clusters of points, each joined to its nearest neighbours: to six of them, to three, to two. The clusters
# themselves are joined by one edge each, which every tree must use.
rng = np.random.default_rng(4)
clusters = [(0.0, 0.0, 22, 6), (3.2, 0.3, 16, 3), (1.5, 2.4, 12, 2)]  # where, how many, to how many neighbours
points = np.concatenate([[x, y] + 0.6 * rng.standard_normal((size, 2)) for x, y, size, _ in clusters])
cluster = np.repeat(np.arange(3), [size for *_, size, _ in clusters])
distance = cdist(points, points)
pairs = []
for c, (*_, k) in enumerate(clusters):
    inside = np.flatnonzero(cluster == c)
    near = inside[distance[np.ix_(inside, inside)].argsort(axis=1)[:, 1 : k + 1]]
    pairs += [(a, b) for a, row in zip(inside, near, strict=True) for b in row]
    apart = np.where((cluster[:, None] == c) & (cluster == (c + 1) % 3), distance, np.inf)
    pairs += [np.unravel_index(apart.argmin(), apart.shape)] * (c < 2)
edges = np.unique(np.sort(pairs, axis=1), axis=0)
C = fw.SpanningTree(*edges.T)
print(C)

# %%
# Fair probabilities
# ------------------
# Each step asks for one cheapest tree. The corrective method minimises over all that it has met.
f = fw.Quadratic(np.eye(len(edges)))
methods = {
    "Frank-Wolfe": {"method": "fw", "line_search": "exact", "max_iter": 300},
    "blended pairwise": {"method": "blended-pairwise", "max_iter": 300},
    "corrective": {"method": "corrective", "max_iter": 300},
}
runs = {name: fw.minimize(f, C, tol=1e-8, **options) for name, options in methods.items()}
r = runs["corrective"]
for name, run in runs.items():
    print(f"{name:<18}{2 * run.fun:.8f} with a gap of {run.gap:.0e} after {run.n_lmo} trees")

# %%
# An answer from outside: the densest part of a graph has probabilities that are all the same, and with (nodes - 1) of
# its edges in every tree they are (nodes - 1) / edges. Here they are the least:
levels = np.unique(r.x.round(5))
dense = r.x < levels[0] + 1e-4
nodes = np.unique(edges[dense])
ratio = (len(nodes) - 1) / dense.sum()
print(f"{len(levels)} levels; the densest part has {len(nodes)} nodes and {dense.sum()} edges")
print(f"probability there {r.x[dense].mean():.6f}, (nodes - 1) / edges = {ratio:.6f}")

# %%
# Trees to draw
# -------------
# The point comes with trees and weights that mix to it: a distribution of trees with these very probabilities.
weights = r.active_set.weights
trees = np.array([np.asarray(tree) for tree in r.active_set.vertices])
mixed = float(np.abs(weights @ trees - r.x).max())
drawn = trees[rng.choice(len(trees), p=weights / weights.sum())]
print(f"{len(trees)} trees; their mixture is off by {mixed:.0e}")

# %%
fig, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained", width_ratios=[1.25, 1])
scale = plt.Normalize(0, 1)
for e, (a, b) in enumerate(edges):
    left.plot(*points[[a, b]].T, color=plt.cm.viridis_r(scale(r.x[e])), lw=3.2, solid_capstyle="round", zorder=1)
    if drawn[e]:
        left.plot(*points[[a, b]].T, color="black", lw=0.9, zorder=2)
left.scatter(*points.T, s=16, color="white", edgecolor="black", linewidth=0.7, zorder=3)
left.set(aspect="equal", title="How often an edge is used, and one tree")
left.axis("off")
fig.colorbar(plt.cm.ScalarMappable(scale, "viridis_r"), ax=left, label="probability of the edge", shrink=0.75)
for (name, run), colour in zip(runs.items(), ("#7F7F7F", "#0072B2", "#D55E00"), strict=True):
    right.semilogy(run.trace["n_lmo"], np.maximum(run.trace["gap"], 1e-9), color=colour, label=name)
right.set(xlabel="minimum spanning trees", ylabel="gap", title="Proved distance to the least sum of squares")
right.legend(frameon=False)
right.spines[["top", "right"]].set_visible(False)
plt.show()
