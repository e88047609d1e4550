"""
Fair random spanning trees and the densest part of a graph
==========================================================

Choose a spanning tree of a graph at random, so that no edge is used more often than necessary. The possible
vectors of edge probabilities form the spanning tree polytope. This polytope has too many constraints to list,
but its oracle is a minimum spanning tree. You learn to minimise over a combinatorial set, and to get a
distribution of trees from the active set.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.spatial.distance import cdist

import fwflow as fw

SEED = 4
STEPS = 300  # largest number of iterations of each method

# sphinx_gallery_thumbnail_number = 2

# %%
# Problem
# -------
# A random spanning tree contains edge e with probability :math:`x_e`. The fairest probabilities are the
# solution of
#
# .. math::
#
#    \min_{x} \; \frac12 \sum_e x_e^2 \quad \text{subject to} \quad x \in P ,
#
# where the polytope :math:`P` is the convex hull of all spanning trees, written as vectors of zeros and ones.
# The solution shows the dense parts of the graph: edges in a dense part have small probabilities, because a
# tree can choose among many of them (Albin, Clemens and Poggi-Corradini, 2021).

# %%
# Data
# ----
# The graph has three clusters of points. Each point is joined to its nearest neighbours in its cluster. The
# number of neighbours is six in the first cluster, three in the second and two in the third. Single edges
# connect the clusters, so every tree contains these edges.
rng = np.random.default_rng(SEED)
centres = np.array([[0.0, 0.0], [3.2, 0.3], [1.5, 2.4]])
counts, neighbours = [22, 16, 12], [6, 3, 2]
cluster = np.repeat(np.arange(3), counts)
points = centres[cluster] + 0.6 * rng.standard_normal((len(cluster), 2))
distance = cdist(points, points)
pairs = []
for c in range(3):
    within = np.where(cluster == c, distance, np.inf)
    for a in np.flatnonzero(cluster == c):
        pairs += [(a, b) for b in within[a].argsort()[1 : neighbours[c] + 1]]
for c in range(2):
    between = np.where((cluster[:, None] == c) & (cluster == c + 1), distance, np.inf)
    pairs.append(np.unravel_index(between.argmin(), between.shape))
edges = np.unique(np.sort(pairs, axis=1), axis=0)

# %%
# Model
# -----
# The set takes the two ends of each edge.
C = fw.SpanningTree(*edges.T)
f = fw.Quadratic(np.eye(len(edges)))
print(C)

# %%
# Solution
# --------
# Each oracle call computes one minimum spanning tree. We compare plain Frank-Wolfe with two methods that keep
# an active set of trees. The corrective method minimises over all trees in its active set before it asks for
# the next tree.
options = {
    "fw": {"line_search": "exact"},
    "blended-pairwise": {},
    "corrective": {},
}
runs = {}
for method, more in options.items():
    r = fw.minimize(f, C, method=method, tol=1e-8, max_iter=STEPS, **more)
    print(f"{method:>16}: value {r.fun:.8f}, gap {r.gap:.0e}, {r.n_lmo} spanning trees")
    runs[method] = r
x = runs["corrective"].x

# %%
# f is convex, so the gap is a proven bound on the error. The figure shows the gap against the number of spanning trees.
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
for (method, r), colour in zip(runs.items(), ("0.5", "C0", "C2"), strict=True):
    gap = np.maximum(r.trace["gap"], 1e-9)
    ax.semilogy(r.trace["n_lmo"], gap, color=colour, label=method)
ax.set(xlabel="minimum spanning trees", ylabel="gap")
ax.legend()
plt.show()

# %%
# Check against theory
# --------------------
# All edges in the densest part of the graph have the same probability. If this part has k nodes and m edges,
# a tree contains :math:`k-1` of these edges. The probability must therefore be :math:`(k-1)/m`.
levels = np.unique(x.round(5))
dense = x < levels[0] + 1e-4
nodes = np.unique(edges[dense])
ratio = (len(nodes) - 1) / dense.sum()
print(f"{len(levels)} different probabilities")
print(f"densest part: {len(nodes)} nodes, {dense.sum()} edges")
print(f"probability {x[dense].mean():.6f}, theory {ratio:.6f}")

# %%
# Distribution of trees
# ---------------------
# The active set contains trees and weights whose mixture is the solution. The weights are therefore the
# probabilities of the trees.
active = runs["corrective"].active_set
trees = np.array([np.asarray(tree) for tree in active.vertices])
weights = active.weights / active.weights.sum()
error = np.abs(weights @ trees - x).max()
drawn = trees[rng.choice(len(trees), p=weights)] > 0.5
print(f"{len(trees)} trees, largest error of their mixture {error:.0e}")

# %%
# The colour of an edge is its probability. Black lines show one tree that was drawn from the distribution.
fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
shades = ListedColormap(plt.cm.viridis_r(np.linspace(0.1, 0.75, 256)))
for (a, b), colour, in_tree in zip(edges, shades(x), drawn, strict=True):
    ax.plot(*points[[a, b]].T, color=colour, linewidth=3.5, zorder=1)
    if in_tree:
        ax.plot(*points[[a, b]].T, color="black", linewidth=1, zorder=2)
ax.scatter(*points.T, s=16, color="0.3", zorder=3)
ax.set(xlabel="first coordinate", ylabel="second coordinate", aspect="equal")
scale = plt.cm.ScalarMappable(plt.Normalize(0, 1), shades)
fig.colorbar(scale, ax=ax, label="probability of the edge", shrink=0.8)
plt.show()

# %%
# Summary
# -------
# An oracle is enough to minimise over a set with exponentially many constraints. Methods with an active set
# also return the solution as a mixture of vertices, here as a distribution of trees.
