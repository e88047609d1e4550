"""
Maximum cut by semidefinite programming
=======================================

Colour the nodes of a graph with two colours so that as many edges as possible join nodes of different
colours. This maximum cut problem is hard, but its semidefinite relaxation bounds the size of every cut. You
learn to minimise over positive semidefinite matrices, to handle additional equations with multipliers, and to
compute a certified bound.
"""

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

NODES = 20
SEED = 3
ROUNDS = 8  # updates of the multipliers
PENALTY = 2.0

# %%
# Problem
# -------
# A vector :math:`z` with entries :math:`\pm 1` describes a cut. The cut contains :math:`\frac14 z^T L z`
# edges, where :math:`L` is the Laplacian of the graph. Goemans and Williamson replace :math:`z z^T` by a
# positive semidefinite matrix:
#
# .. math::
#
#    \max_{X} \; \frac14 \langle L, X \rangle
#    \quad \text{subject to} \quad X \succeq 0, \quad X_{ii} = 1 \text{ for all } i .

# %%
# Data
# ----
# The nodes form two groups. Most edges join nodes of different groups, but some edges do not, so no cut
# contains all edges.
rng = np.random.default_rng(SEED)
group = np.arange(NODES) % 2
tails, heads = np.triu_indices(NODES, 1)
probability = np.where(group[tails] != group[heads], 0.32, 0.12)
keep = rng.random(len(tails)) < probability
tails, heads = tails[keep], heads[keep]
adjacency = np.zeros((NODES, NODES))
adjacency[tails, heads] = adjacency[heads, tails] = 1
L = np.diag(adjacency.sum(axis=1)) - adjacency


def cut_size(signs):
    """Return the number of edges in the cut, for each row of signs."""
    return (signs[..., tails] != signs[..., heads]).sum(axis=-1)


print(f"{NODES} nodes, {len(tails)} edges")

# %%
# Model
# -----
# The set is the spectraplex: positive semidefinite matrices with trace n. Its oracle computes one
# eigenvector. The equations :math:`X_{ii} = 1` are not part of the set. Multipliers :math:`y_i` and a
# quadratic penalty enforce these equations, as in the augmented Lagrangian method.
C = fw.Spectraplex(NODES)


def augmented_lagrangian(y):
    """Return the objective for multipliers y."""

    def value(X):
        violation = np.diag(X) - 1
        penalty = PENALTY / 2 * violation @ violation
        return float(-np.vdot(L, X) / 4 + y @ violation + penalty)

    def gradient(X):
        return np.diag(y + PENALTY * (np.diag(X) - 1)) - L / 4

    return fw.Smooth(value, gradient, shape=(NODES, NODES))


# %%
# Solution
# --------
# Each round minimises the augmented Lagrangian and then updates the multipliers. Every vector y of
# multipliers gives an upper bound. The matrix :math:`z z^T` of a cut is in the spectraplex and has ones on
# its diagonal, so
#
# .. math::
#
#    \frac14 z^T L z \; \le \; \sum_i y_i - \min_{X} \langle \mathrm{diag}(y) - L/4, \, X \rangle ,
#
# where the minimum is taken over the spectraplex. ``C.lower_bound`` returns a certified lower bound of this
# minimum. Cuts come from rounding: random hyperplanes divide the rows of a factor :math:`F` with :math:`X = F
# F^T` into two groups, and we keep the largest cut.
y, X, best = np.zeros(NODES), None, np.ones(NODES)
bounds, values, sizes = [], [], []
for _ in range(ROUNDS):
    f = augmented_lagrangian(y)
    r = fw.minimize(f, C, X, method="pairwise", tol=3e-3, max_iter=120)
    X = r.x
    y = y + PENALTY * (np.diag(X) - 1)

    G = np.diag(y) - L / 4
    bounds.append(y.sum() - C.lower_bound(G, C.lmo(G)))
    values.append(np.vdot(L, X) / 4)

    eigenvalues, vectors = np.linalg.eigh((X + X.T) / 2)
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0))
    signs = np.sign(rng.standard_normal((50, NODES)) @ factor.T)
    best = max(best, signs[cut_size(signs).argmax()], key=cut_size)
    sizes.append(int(cut_size(best)))
violation = np.abs(np.diag(X) - 1).max()
print(f"value of the relaxation {values[-1]:.3f}, diagonal violated by {violation:.0e}")
print(f"no cut has more than {min(bounds):.3f} edges")
print(f"the best cut that was found has {sizes[-1]} edges")
print(f"ratio of both numbers: {sizes[-1] / min(bounds):.3f}")

# %%
# Goemans and Williamson proved that the expected size of a rounded cut is at least 0.878 times the value of
# the relaxation.
#
# Check against enumeration
# -------------------------
# The graph is small enough to try all cuts. The sign of the last node is fixed, because a cut stays the same
# if all signs change.
numbers = np.arange(2 ** (NODES - 1))
every = 1 - 2 * (numbers[:, None] >> np.arange(NODES) & 1).astype(np.int8)
largest = int(cut_size(every).max())
print(f"the largest of all cuts has {largest} edges")

# %%
# In the left panel, dark edges are not in the cut: they join nodes of the same colour. In the right panel,
# the certified upper bound and the best cut enclose the size of the largest cut.
fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.4), layout="constrained")
angle = np.empty(NODES)
for side, sign in enumerate((best[0], -best[0])):  # a half circle for each colour
    (members,) = np.nonzero(best == sign)
    share = (np.arange(len(members)) + 0.5) / len(members)
    angle[members] = np.pi * (side - 0.5 + share)
place = np.column_stack([np.cos(angle), np.sin(angle)])
for a, b in zip(tails, heads, strict=True):
    style = {"color": "0.7", "linewidth": 0.8, "zorder": 1}
    if best[a] == best[b]:
        style = {"color": "0.2", "linewidth": 1.8, "zorder": 2}
    left.plot(*place[[a, b]].T, **style)
left.scatter(*place.T, s=70, c=np.where(best == best[0], "C0", "C2"), zorder=3)
left.set(aspect="equal", title=f"{sizes[-1]} of {len(tails)} edges in the cut")
left.axis("off")

k = np.arange(1, ROUNDS + 1)
right.plot(k, bounds, "o-", color="C0", markersize=4, label="certified upper bound")
right.plot(k, values, "s--", color="0.5", markersize=4, label="value of the relaxation")
right.plot(k, sizes, "^-", color="C2", markersize=4, label="best cut found")
right.axhline(largest, color="0.2", linewidth=0.8, linestyle=":", label="largest cut")
right.set(xlabel="updates of the multipliers", ylabel="edges", xticks=k)
right.legend()
plt.show()

# %%
# Summary
# -------
# Frank-Wolfe on the spectraplex needs one eigenvector per step. The multipliers give a certified upper bound
# of every cut even before they have converged. Together with the best cut that was found, this bound encloses
# the size of the maximum cut without an enumeration.
