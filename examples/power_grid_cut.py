"""
Maximum cut of a power grid with a proof
========================================

Divide the 70 000 buses of a power grid into two groups such that as many lines as possible join different
groups. You learn to find a large cut in a few seconds, to bound the size of every cut, and to check the proof
of this bound yourself.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from matplotlib.collections import LineCollection
from scipy.sparse.csgraph import breadth_first_order, shortest_path
from scipy.sparse.linalg import splu

from fwflow import datasets, semidefinite

BUSES = 70_000
SHOWN = 220  # buses in the left panel

# %%
# Problem
# -------
# Signs :math:`z_i = \pm 1` describe the two groups. The cut contains :math:`\frac14 z^T L z` lines, where
# :math:`L` is the Laplacian of the grid. The maximum over all signs is hard to compute. Its semidefinite
# relaxation replaces :math:`z z^T` by a matrix:
#
# .. math::
#
#    \max_{X} \; \tfrac14 \langle L, X \rangle
#    \quad \text{subject to} \quad X \succeq 0, \quad X_{ii} = 1 \text{ for all } i .
#
# A matrix of this size has 4.9 billion entries. ``maxcut`` never forms it: it computes a factor Y with few
# columns and :math:`X = Y Y^T`.

# %%
# Data
# ----
# The grid is synthetic. It has the structure of the network of the eastern United States, but no data of
# real lines.
grid = datasets.power_grid(BUSES)
tails, heads = grid["tails"], grid["heads"]
A = sp.csr_array((np.ones(len(tails)), (tails, heads)), shape=grid.shape)
A = A + A.T
print(f"{BUSES} buses, {len(tails)} lines")

# %%
# Solution
# --------
# The rows of Y are improved one colour class of buses at a time, and then by Newton steps. Columns are added
# where the certificate shows that more of them help.
r = semidefinite.maxcut(A)
print(r.message)
print(f"{r.seconds:.1f} seconds, Y has {r.rank} columns")
print(f"the cut has {r.cut_value:.0f} lines; no cut has more than {r.bound:.1f}")
print(f"value of the relaxation {r.value:.2f}, relative gap {r.gap / r.bound:.1e}")

# %%
# Proof
# -----
# Any multipliers :math:`y` for which :math:`\mathrm{diag}(y) - L/4` is positive semidefinite prove that no
# cut is larger than :math:`\sum_i y_i`: for signs z, :math:`0 \le z^T (\mathrm{diag}(y) - L/4) z`. The result
# holds such multipliers. A sparse factorisation with positive pivots shows that the matrix, plus a tiny
# multiple of its diagonal that makes it definite, has no negative eigenvalue.
L = sp.diags_array(np.asarray(A.sum(axis=1)).ravel()) - A
S = sp.csc_array(sp.diags_array(r.y) - L / 4 + 1e-9 * sp.diags_array(L.diagonal()))
options = {"SymmetricMode": True}  # pivots stay on the diagonal
factors = splu(S, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
pivot = factors.U.diagonal().min()
print(f"sum of the multipliers {r.y.sum():.2f}, smallest pivot {pivot:.1e}")

# %%
# The left panel shows a part of the grid. The places of its buses are chosen such that distances in the
# picture are close to numbers of lines between the buses (stress majorisation). Dark lines are not in the
# cut: they join buses of the same group. Every cycle with an odd number of lines has at least one such line.
# The right panel shows that the value of the relaxation and its bound approach each other. The bound is valid
# at any time.
order = breadth_first_order(A, BUSES // 2, return_predecessors=False)
part = order[:SHOWN]
near = A[part][:, part]
hops = shortest_path(near, unweighted=True) + np.eye(SHOWN)
weights = (1 - np.eye(SHOWN)) / hops**2
inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
place = np.random.default_rng(0).standard_normal((SHOWN, 2))
for _ in range(300):
    apart = np.linalg.norm(place[:, None] - place, axis=2) + np.eye(SHOWN)
    pull = weights * hops / apart
    place = inverse @ (pull.sum(axis=1)[:, None] * place - pull @ place)

fig, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.6), layout="constrained")
a, b = sp.triu(near).nonzero()
same = r.cut[part[a]] == r.cut[part[b]]
for mask, colour, width in ((~same, "0.75", 0.8), (same, "0.1", 2.0)):
    ends = np.stack([place[a[mask]], place[b[mask]]], axis=1)
    left.add_collection(LineCollection(ends, colors=colour, linewidths=width))
left.scatter(*place.T, s=9, c=np.where(r.cut[part] > 0, "C0", "C1"), zorder=3)
left.set(aspect="equal", title=f"{r.cut_value:.0f} of {len(tails)} lines in the cut")
left.axis("off")

time, value = r.trace["time"], -r.trace["fun"]
bound = np.minimum.accumulate(value + np.nan_to_num(r.trace["gap"], nan=np.inf))
right.plot(time[1:], bound[1:], "o-", color="C0", markersize=4, label="proved bound")
right.plot(time[1:], value[1:], "s-", color="C2", markersize=4, label="value")
right.set(xlabel="seconds", ylabel="lines", title="bounds on the relaxation")
right.legend()
plt.show()

# %%
# Summary
# -------
# A cut, an upper bound and a proof of this bound take a few seconds on one core. The proof uses only the
# multipliers, so it can be checked without trusting the solver.
