"""
Graph matching and quadratic assignment: a seating plan
=======================================================

Assign people to offices so that those who often talk to each other walk short distances. This quadratic
assignment problem is relaxed from permutation matrices to doubly stochastic matrices, and the solution is
rounded. You learn to use a quadratic function whose Hessian is never formed, and to use several starting
points for a nonconvex problem.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.optimize import linear_sum_assignment, quadratic_assignment

import fwflow as fw

SIDE = 7  # the offices form a square grid with this many rows
STARTS = 20  # starting points
SEED = 0

# %%
# Problem
# -------
# :math:`A_{ij}` is the distance between offices i and j, and :math:`B_{kl}` is the number of conversations
# between persons k and l. A permutation p gives office i to person p(i). The total distance is
#
# .. math::
#
#    \sum_{i,j} A_{ij} B_{p(i)p(j)} = \mathrm{tr}(A X B^T X^T) ,
#
# where the permutation matrix :math:`X` has a one at (i, p(i)). Minimisation over permutations is hard. The
# relaxation minimises the right-hand side over doubly stochastic matrices, which form the Birkhoff polytope.
# SciPy has the algorithm FAQ (fast approximate quadratic assignment), which uses the same relaxation.

# %%
# Data
# ----
# Each person belongs to a team. Conversations within a team are frequent and all others are rare. The solver
# does not know the teams.
n = SIDE**2
rng = np.random.default_rng(SEED)
team = rng.permutation(np.arange(n) % SIDE)
same = team[:, None] == team
B = np.triu(np.where(same, rng.integers(3, 11, (n, n)), rng.random((n, n)) < 0.1), 1)
B = (B + B.T).astype(float)
offices = np.argwhere(np.ones((SIDE, SIDE)))
A = np.abs(offices[:, None] - offices).sum(axis=2).astype(float)
print(f"{n} offices, {SIDE} teams, {B.sum() / 2:.0f} conversations")

# %%
# Model
# -----
# The Hessian of the objective maps :math:`X` to :math:`A X B^T + A^T X B`. As a matrix it would have
# :math:`n^4` entries. A class that computes products with the Hessian is enough: ``matvec`` applies the
# Hessian to any matrix, and ``combined`` applies it to a matrix with few nonzero entries, such as a vertex of
# the polytope.


class TwoSided(fw.Design):
    """Linear map from X to A X B' + A' X B, for matrices stored row by row."""

    def __init__(self, A, B):
        self.A, self.B, self.n = A, B, len(A)
        self.shape, self.dtype = (self.n**2, self.n**2), np.dtype(float)

    def matvec(self, x):
        X = x.reshape(self.n, self.n)
        return (self.A @ (X @ self.B.T) + self.A.T @ (X @ self.B)).reshape(-1)

    rmatvec = matvec  # the map is symmetric

    def column(self, j):
        return self.combined(np.array([j]), np.ones(1))

    def combined(self, indices, values):
        rows, columns = np.divmod(indices, self.n)
        left, right = np.zeros((2, self.n, self.n))
        np.add.at(left, rows, values[:, None] * self.B.T[columns])
        np.add.at(right, rows, values[:, None] * self.B[columns])
        return fw.DenseVertex((self.A @ left + self.A.T @ right).reshape(-1))


f = fw.Quadratic(TwoSided(A, B))
C = fw.Birkhoff(n)
print(f"error of the adjoint: {fw.checks.adjoint_error(TwoSided(A, B)):.0e}")

# %%
# Solution
# --------
# The objective is not convex, so the result depends on the starting point. The first run starts at the
# barycentre, the matrix with equal entries, and the other runs start near it. An assignment problem rounds
# each result to the nearest permutation.
barycentre = np.full(n * n, 1 / n)
starts = [barycentre]
starts += [(C.random_start(s).reshape(-1) + barycentre) / 2 for s in range(1, STARTS)]
found = []
for x0 in starts:
    r = fw.minimize(f, C, x0, method="fw", line_search="exact", tol=0, max_iter=30)
    p = linear_sum_assignment(-r.x.reshape(n, n))[1]
    found.append((A * B[np.ix_(p, p)]).sum())
    if found[-1] == min(found):
        best = p
before, value = (A * B).sum(), min(found)
print(f"total distance: {before:.0f} before, {value:.0f} after")
print(f"over {STARTS} starts: median {np.median(found):.0f}, worst {max(found):.0f}")

# %%
# Check against an independent solver
# -----------------------------------
# SciPy's algorithm FAQ solves the same relaxation, from the same number of starting points.
others = []
for start in range(STARTS):
    options = {"P0": "randomized" if start else "barycenter", "rng": rng}
    others.append(quadratic_assignment(A, B, options=options).fun)
print(f"total distance by SciPy's FAQ: {min(others):.0f}")

# %%
# The figure shows the offices. Colours are teams, and lines join persons of the same team. After the
# assignment the teams sit together.
palette = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
colours = np.array(palette)[team % len(palette)]
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.5), layout="constrained")
plans = {"Before": np.arange(n), "After": best}
for ax, (title, order) in zip(axes, plans.items(), strict=True):
    often = np.argwhere(np.triu(B[np.ix_(order, order)] > 2))
    ax.add_collection(LineCollection(offices[often], color="0.75", linewidth=0.6))
    ax.scatter(*offices.T, c=colours[order], s=70, zorder=2)
    ax.set(title=title, aspect="equal", xlabel="column", ylabel="row")
plt.show()

# %%
# After the assignment, most conversations take place over short distances.
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for colour, (title, order) in zip(("0.5", "C0"), plans.items(), strict=True):
    conversations = B[np.ix_(order, order)].ravel()
    share = np.bincount(A.astype(int).ravel(), conversations) / B.sum()
    ax.plot(100 * share, "o-", markersize=4, color=colour, label=title.lower())
ax.set(xlabel="distance between offices", ylabel="share of conversations, %")
ax.legend()
plt.show()

# %%
# Summary
# -------
# ``fw.Quadratic`` accepts any symmetric linear map as its Hessian. One oracle call on the Birkhoff polytope
# is one linear assignment problem. The results from different starting points differ, so several starting
# points are useful. The best result is close to the result of SciPy's algorithm FAQ. The function
# ``fw.quadratic_assignment`` does all of this at once. It also improves the permutation by swaps and returns a
# certified lower bound.
