"""
Quadratic assignment with a certificate: rooms of a hospital
============================================================

Place the departments of a hospital so that staff and patients walk little. Quadratic assignment problems are
among the hardest problems of combinatorial optimisation. You learn to solve one with costs of single places
and with departments that must not move, to read the certified lower bound, and to compare it with the values
that other methods find.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.optimize import quadratic_assignment

import fwflow as fw

ROWS = 4  # the rooms form a grid with this many rows
COLUMNS = 5
STARTS = 20  # starting points of the search
SMALL = 8  # size of the problem that brute force solves
SEED = 0

# %%
# Problem
# -------
# :math:`A_{ij}` is the number of walks between the departments i and j, and :math:`B_{kl}` is the distance
# between the rooms k and l. Department i gets the room p(i), and moving it there costs :math:`C_{i p(i)}`. The
# total is
#
# .. math::
#
#    \sum_{i,j} A_{ij} B_{p(i)p(j)} + \sum_i C_{i p(i)} .

# %%
# Data
# ----
# Departments form groups, within which people walk often. Departments keep their rooms if nothing else
# speaks against it: a move costs 10. The reception, department 0, must stay at the entrance, room 0.
rng = np.random.default_rng(SEED)
rooms = np.argwhere(np.ones((ROWS, COLUMNS)))
n = len(rooms)
group = rng.permutation(np.arange(n) % COLUMNS)
together = group[:, None] == group
walks = np.where(together, rng.integers(5, 20, (n, n)), rng.poisson(0.4, (n, n)))
A = np.triu(walks, 1)
A = A + A.T
B = np.abs(rooms[:, None] - rooms).sum(axis=2)
C = 10 * (1 - np.eye(n, dtype=int))
print(f"{n} departments, {A.sum() // 2} walks, value without a move: {(A * B).sum()}")

# %%
# Solution
# --------
# The search runs Frank-Wolfe over doubly stochastic matrices from several starts, rounds the results to
# permutations, and improves these by swaps. The bound is certified: no permutation has a value below it.
r = fw.quadratic_assignment(A, B, C, starts=STARTS, fixed=[(0, 0)])
moved = int((r.permutation != np.arange(n)).sum())
print(f"value {r.value:.0f}, lower bound {r.bound:.0f}, {moved} departments move")
print(f"the value is at most {100 * (r.value / r.bound - 1):.1f} % above the minimum")
print(f"values from the starts: {r.values.min():.0f} to {r.values.max():.0f}")

# %%
# Check against independent methods
# ---------------------------------
# SciPy solves the problem without C and without fixed pairs: its algorithm FAQ from as many starts, followed
# by the algorithm 2opt from the best result.
plain = fw.quadratic_assignment(A, B, starts=STARTS)
options = {"P0": "randomized", "rng": rng}
others = [quadratic_assignment(A, B, options=options) for _ in range(STARTS)]
best = min(others, key=lambda other: other.fun)
guess = np.column_stack([np.arange(n), best.col_ind])
options = {"partial_guess": guess, "rng": rng}
refined = quadratic_assignment(A, B, method="2opt", options=options)
print(f"without C: fwflow {plain.value:.0f}, SciPy {refined.fun}")
print(f"lower bound {plain.bound:.0f}")

# %%
# Brute force solves the problem for the first rooms and departments.
part = slice(0, SMALL)
small = fw.quadratic_assignment(A[part, part], B[part, part])
orders = np.array([*itertools.permutations(range(SMALL))])
every = np.zeros(len(orders))
for i, j in itertools.permutations(range(SMALL), 2):
    every += A[i, j] * B[orders[:, i], orders[:, j]]
print(f"{SMALL} departments: fwflow {small.value:.0f}, minimum {every.min():.0f}")
print(f"bound {small.bound:.0f}, {len(orders)} permutations")

# %%
# The figure shows the plan of the hospital. Lines join departments with frequent walks, and colours are
# groups. After the assignment the groups are close together, and the reception (circled) has not moved.
colours = np.array(["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00"])[group % 5]
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
plans = {"Before": np.arange(n), "After": r.permutation}
for ax, (title, room) in zip(axes, plans.items(), strict=True):
    places = rooms[room][:, ::-1]
    often = np.argwhere(np.triu(A >= 5))
    ax.add_collection(LineCollection(places[often], color="0.75", linewidth=0.8))
    ax.scatter(*places.T, c=colours, s=110, zorder=2)
    ax.scatter(*places[0], s=260, facecolors="none", edgecolors="0.5", zorder=3)
    for i, (x, y) in enumerate(places):
        ax.text(x, y, i, ha="center", va="center", fontsize=7, color="white", zorder=4)
    ax.set(title=title, aspect="equal", xlabel="column", ylabel="row")
    ax.set(xticks=range(COLUMNS), yticks=range(ROWS))
    ax.margins(0.12)
plt.show()

# %%
# The second figure shows the values of random permutations, the values from the starts, and the bound. All
# starts end far below the random permutations.
shuffled = [rng.permutation(n) for _ in range(5000)]
random = [(A * B[np.ix_(p, p)]).sum() for p in shuffled]
fig, ax = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
ax.hist(random, bins=60, color="0.8", label="random permutations")
height = np.full(STARTS, 30)
ax.plot(plain.values, height, "|", color="#0072B2", markersize=14, label="starts")
ax.axvline(plain.bound, color="#D55E00", label="certified bound")
ax.set(xlabel="value without C", ylabel="permutations", xlim=(0, None))
ax.legend(frameon=False, loc=(0.37, 0.62))
plt.show()

# %%
# Summary
# -------
# ``fw.quadratic_assignment`` returns a permutation together with a lower bound that is certified by two
# relaxations: the bound of Gilmore and Lawler, and a convex quadratic bound that Frank-Wolfe computes. Linear
# costs and fixed pairs are arguments. The value is at least as good as that of FAQ with 2opt here.
