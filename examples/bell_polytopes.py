"""
Bell polytopes: how much noise makes quantum correlations classical?
====================================================================

Two particles in an entangled state are measured along six axes, those of an icosahedron. Without noise, no
classical model explains the correlations. With enough noise, one does. The classical correlations form a
polytope with an oracle that is easy to write. You learn to find the threshold with Frank-Wolfe, to read off
the Bell inequality that certifies it, to use a heuristic oracle, and to use the symmetry of the problem.
"""

import itertools

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

import fwflow as fw

VISIBILITY = 1.0  # share of the entangled state at the start; the rest is noise
HEURISTIC_STARTS = 100  # random starts of the heuristic oracle
TOL = 1e-9

# %%
# Problem
# -------
# Alice and Bob each measure one particle along one of m axes, x and y. The results are +1 or -1. The mean of
# the product of both results is the correlation :math:`P_{xy} = \langle u_x, u_y\rangle`, up to a sign
# convention, where :math:`u_x` are the unit vectors of the axes. White noise of share 1 - v reduces the
# correlations to :math:`v P`.
#
# In a classical model, the result of a particle depends on its axis and on a common random number. Such a
# model is a mixture of strategies with fixed results :math:`a_x, b_y \in \{-1, 1\}`. The classical
# correlations are therefore the polytope
#
# .. math::
#
#    \mathcal{L} = \mathrm{conv}\{a b^T : a, b \in \{-1, 1\}^m\} .
#
# The threshold is the largest v for which :math:`v P` is classical.

# %%
# Data
# ----
# The axes join opposite vertices of an icosahedron. Two different axes always have the same angle, so that all
# entries of P are 1 or :math:`\pm 1/\sqrt5`.
golden = (1 + np.sqrt(5)) / 2
axes = np.array([[0, 1, golden], [0, 1, -golden], [1, golden, 0]])
axes = np.vstack([axes, [[1, -golden, 0], [golden, 0, 1], [-golden, 0, 1]]])
axes /= np.linalg.norm(axes[0])
P = axes @ axes.T
m = len(axes)
print(f"{m} axes, {2 ** (2 * m - 1)} strategies, {m * m} correlations")

# %%
# Set
# ---
# The oracle minimises :math:`\langle g, a b^T\rangle = \langle g^T a, b\rangle`. For a given a, the best b is
# minus the sign of :math:`g^T a`. The exact oracle tries all a, up to a common sign. The heuristic oracle
# improves a and b in turn from random starts. It needs far less time for many axes, but may miss the best
# strategy.


class LocalPolytope(fw.ConstraintSet):
    """Correlations of m axes that classical strategies can produce."""

    polytope = True

    def __init__(self, m, starts=None):
        self.shape, self.starts = (m, m), starts
        signs = itertools.product([1.0, -1.0], repeat=m - 1)
        self.every = np.array([(1.0, *rest) for rest in signs])

    def _candidates(self, g):
        if self.starts is None:
            return self.every
        rng = np.random.default_rng(0)
        a = rng.choice([-1.0, 1.0], (self.starts, len(g)))
        for _ in range(20):
            b = np.where(a @ g > 0, -1.0, 1.0)
            a = np.where(b @ g.T > 0, -1.0, 1.0)
        return a

    def lmo(self, g, hint=None):
        a = self._candidates(g)
        a = a[np.abs(a @ g).sum(axis=1).argmax()]
        return fw.DenseVertex(np.outer(a, np.where(a @ g > 0, -1.0, 1.0)))

    def start(self, shape=None, dtype=float):
        return np.zeros(self.shape, dtype)

    def contains(self, x, tol=1e-9):
        return None if np.abs(x).max() <= 1 + tol else False

    def diameter(self, shape=None):
        return 2.0 * self.shape[0]


exact = LocalPolytope(m)

# %%
# Solution
# --------
# Minimise the distance from :math:`v_0 P` to the polytope. At every iterate x, the matrix
# :math:`M = v_0 P - x` defines a Bell inequality: all classical correlations satisfy
# :math:`\langle M, y\rangle \le \beta`, where the exact oracle computes :math:`\beta`. If :math:`v P` is
# classical, then :math:`v \le \beta / \langle M, P\rangle`. The smallest of these numbers is a certified upper
# bound on the threshold.


def bell_inequality(x):
    """Return M, its classical bound, and the bound on the threshold."""
    M = VISIBILITY * P - x
    bound = -exact.lmo(-M).dot(-M)
    return M, bound, bound / (M * P).sum()


def thresholds(C, method="corrective"):
    """Return the best bound on the threshold after every iteration, and the result."""
    found = []

    def keep(state):
        found.append(min([*found[-1:], bell_inequality(state.x)[2]]))

    target = VISIBILITY * P
    f = fw.Smooth(lambda x: 0.5 * ((x - target) ** 2).sum(), lambda x: x - target)
    r = fw.minimize(f, C, method=method, tol=TOL, callback=keep)
    return np.array(found), r


found, r = thresholds(exact)
M, bound, threshold = bell_inequality(r.x)
print(f"threshold <= {threshold:.6f} after {r.n_lmo} oracle calls")
print(f"the solution mixes {len(r.active_set)} strategies")

# %%
# BellPolytopes.jl prints 0.778392 for the same problem, after 38 oracle calls.

# %%
# Heuristic oracle
# ----------------
# The run with the heuristic oracle takes other steps. Its bounds are valid nevertheless, because the exact
# oracle computes :math:`\beta`.
rough, rough_r = thresholds(LocalPolytope(m, HEURISTIC_STARTS))
print(f"heuristic oracle: threshold <= {rough[-1]:.6f} after {rough_r.n_lmo} calls")

# %%
# Symmetry
# --------
# A rotation of the icosahedron permutes the axes and may reverse them. It maps classical correlations to
# classical correlations, and leaves P unchanged. The following code generates the group of rotations from two
# of them, as matrices that act on the six axes.


def rotation(axis, angle):
    """Return the rotation about an axis as a signed permutation of the six axes."""
    x, y, z = axis / np.linalg.norm(axis)
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    R = np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K
    moved = axes @ (axes @ R.T).T
    return np.where(np.abs(moved) > 0.9, np.sign(moved), 0.0)


group = [np.eye(m)]
generators = [rotation(axes[0], 2 * np.pi / 5), rotation(np.array([0, 0, 1.0]), np.pi)]
for g in group:  # the list grows until it is closed
    for h in generators:
        if not any(np.array_equal(g @ h, other) for other in group):
            group.append(g @ h)
print(f"{len(group)} rotations")

# %%
# ``fw.Symmetric`` restricts the polytope to the correlations that no rotation changes. Only two numbers are
# left: the diagonal, and the size of the other entries.
Q = np.array(group)
symmetric = fw.Symmetric(exact, lambda x: (Q.transpose(0, 2, 1) @ x @ Q).mean(axis=0))
short, short_r = thresholds(symmetric)
print(f"with symmetry: threshold <= {short[-1]:.6f} after {short_r.n_lmo} oracle calls")
inequality = bell_inequality(short_r.x)[0]
inequality = (inequality / np.abs(inequality).min()).round(6)
print("Bell inequality, divided by its smallest entry:")
print(inequality)
integer_bound = -exact.lmo(-inequality).dot(-inequality)
print(f"classical bound {integer_bound:g}")

# %%
# The entries of the Bell inequality are 1 on the diagonal and plus or minus 3 elsewhere, and its classical
# bound is 36. Since :math:`\langle M, P\rangle = 6 + 30 \cdot 3 / \sqrt5`, the threshold is at most
# :math:`36 / (6 + 18\sqrt5) = 6 / (1 + 3\sqrt5)`, which anyone can verify with pen and paper.
formula = 6 / (1 + 3 * np.sqrt(5))
print(f"threshold <= {formula:.9f}")

# %%
# Check against an independent solver
# -----------------------------------
# A linear program over all strategies computes the threshold exactly: it maximises v such that
# :math:`v P` is a mixture of strategies.
second = [*exact.every, *-exact.every]
strategies = np.array([np.outer(a, b) for a in exact.every for b in second])
columns = strategies.reshape(-1, m * m).T
count = columns.shape[1]
mixture = np.column_stack([columns, -P.reshape(-1)])
mixture = np.vstack([mixture, np.append(np.ones(count), 0.0)])
visibility, sides = np.append(np.zeros(count), 1.0), np.append(np.zeros(m * m), 1.0)
program = linprog(-visibility, A_eq=mixture, b_eq=sides)
exact_threshold = -program.fun
print(f"threshold by linear programming: {exact_threshold:.9f}")
print(f"difference: {abs(threshold - exact_threshold):.0e}")

# %%
# The figure on the left shows the symmetric correlations. The polygon contains the classical ones. The line
# is v P, and it leaves the polygon at the threshold, through the edge of the Bell inequality. The figure on
# the right shows the bounds on the threshold during the three runs.
signs = np.sign(P) - np.eye(m)
same = (strategies * np.eye(m)).sum(axis=(1, 2)) / m
different = (strategies * signs).sum(axis=(1, 2)) / (m * m - m)
plane = np.column_stack([same, different])
hull = plane[ConvexHull(plane).vertices]
quantum = np.array([1.0, 1 / np.sqrt(5)])
fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.fill(*hull.T, color="#56B4E9", alpha=0.35, label="classical")
left.plot(*hull.T, "o", color="#0072B2", markersize=4)
left.plot(*np.array([0 * quantum, quantum]).T, color="#D55E00", label="v P")
left.plot(*(exact_threshold * quantum), "o", color="#D55E00", markersize=6)
arrow = {"arrowstyle": "-"}
left.annotate("threshold", exact_threshold * quantum, (0.05, 0.5), arrowprops=arrow)
left.text(quantum[0] - 0.02, quantum[1] + 0.02, "v = 1", ha="right")
left.set(xlabel="correlation, same axis", ylabel="correlation, different axes")
left.set(xlim=(-1.1, 1.1), ylim=(-0.45, 0.6))
left.legend(loc="lower left", frameon=False)
for label, bounds, run, colour, style in (
    ("exact oracle", found, r, "#0072B2", "o-"),
    ("heuristic oracle", rough, rough_r, "#E69F00", "s--"),
    ("with symmetry", short, short_r, "#009E73", "^-"),
):
    calls = run.trace["n_lmo"]
    right.plot(calls, bounds, style, color=colour, markersize=4, label=label)
right.axhline(exact_threshold, color="0.4", linewidth=0.8, linestyle=":")
right.text(6, exact_threshold, "linear program", va="bottom")
right.set(xlabel="oracle calls", ylabel="bound on the threshold")
right.legend(frameon=False)
plt.show()

# %%
# Summary
# -------
# A set is defined by its oracle: here a few lines that choose the best classical strategy. The distance to
# the polytope gives a Bell inequality, and with it a certified bound on the threshold. ``fw.Symmetric`` turns
# the problem with 36 entries into one with two.
