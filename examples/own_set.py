"""
Custom constraint set: isotonic regression
==========================================

A constraint set of your own needs a linear minimisation oracle and three short methods. This example defines
the set of increasing sequences between 0 and 1. With the squared loss, the problem is isotonic regression,
and SciPy confirms the result. You learn to write and check a set. The losses of the library, such as
the robust Huber loss, and its methods then work with the new set.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import isotonic_regression

import fwflow as fw

MEASUREMENTS = 200
SEED = 0

# %%
# Problem
# -------
# A response grows with a dose, and its measurements :math:`b_i` are sorted by dose. The fitted response must
# grow as well:
#
# .. math::
#
#    \min_{x} \; \frac{1}{n} \sum_{i=1}^{n} \ell(x_i - b_i)
#    \quad \text{subject to} \quad 0 \le x_1 \le x_2 \le \dots \le x_n \le 1 ,
#
# where the loss :math:`\ell` is the squared loss or the Huber loss.

# %%
# Data
# ----
# The true curve is a logistic function. About 15 % of the measurements are outliers, and most outliers are
# too low.
rng = np.random.default_rng(SEED)
dose = np.linspace(0, 10, MEASUREMENTS)
truth = 1 / (1 + np.exp(4 - dose))
outlier = rng.random(MEASUREMENTS) < 0.15
noisy = truth + 0.08 * rng.standard_normal(MEASUREMENTS)
b = np.where(outlier, rng.uniform(-0.5, 0.2, MEASUREMENTS), noisy)
print(f"{MEASUREMENTS} measurements, {outlier.sum()} outliers")

# %%
# Vertices
# --------
# A vertex of this set is a step: zeros, followed by ones. The class ``Step`` stores only the index of the
# first 1. A vertex needs two operations: adding a multiple of itself to an array, and an inner product. A
# class for vertices is optional, since an oracle may also return an array.


class Step(fw.Vertex):
    """Vector with zeros before `first` and ones from there on."""

    storage = 1  # numbers in memory

    def __init__(self, first, shape):
        self.first, self.shape = first, shape

    def add_to(self, x, weight):
        x[self.first :] += weight

    def dot(self, g):
        return float(g[self.first :].sum())


# %%
# Constraint set
# --------------
# The oracle returns the step with the smallest inner product with g. All inner products are sums of the last
# entries of g, so one cumulative sum is enough.


class Increasing(fw.ConstraintSet):
    """Vectors with 0 <= x[0] <= x[1] <= ... <= 1."""

    polytope = True

    def lmo(self, g, hint=None):
        sums = np.append(np.cumsum(g[::-1])[::-1], 0.0)
        return Step(int(sums.argmin()), g.shape)

    def start(self, shape=None, dtype=float):
        return np.zeros(shape, dtype)

    def contains(self, x, tol=1e-9):
        return bool((np.diff(x, prepend=0.0, append=1.0) >= -tol).all())

    def diameter(self, shape=None):
        return float(np.sqrt(shape[0]))


# %%
# Check of the oracle
# -------------------
# ``fw.checks.lmo_excess`` compares the oracle with given members of the set. A positive number would show an
# error: a member would have a smaller inner product than the vertex of the oracle.
C = Increasing()
members = np.sort(rng.random((100, MEASUREMENTS)), axis=1)
excess = fw.checks.lmo_excess(C, b, members)
print(f"excess of the oracle over 100 random members: {excess:.2f}")

# %%
# Solution
# --------
# A linear model with the identity matrix compares x with the measurements.
identity = np.eye(MEASUREMENTS)
squared = fw.minimize(fw.LinearModel(identity, b, loss="squared"), C)
huber = fw.minimize(fw.LinearModel(identity, b, loss="huber", rho=0.05), C)
for name, r in {"squared": squared, "Huber": huber}.items():
    error = np.abs(r.x - truth).mean()
    print(f"{name:>7} loss: gap {r.gap:.0e}, mean distance from the truth {error:.3f}")

# %%
# Check against an independent solver
# -----------------------------------
# SciPy solves isotonic regression without bounds. For the squared loss, clipping SciPy's result to [0, 1]
# gives the solution with bounds.
other = np.clip(isotonic_regression(b).x, 0, 1)
difference = np.abs(squared.x - other).max()
print(f"largest difference from SciPy's result: {difference:.0e}")

# %%
# The outliers pull the fit with the squared loss down. The Huber loss grows linearly for large residuals, so
# the outliers have little effect.
fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.plot(dose, b, ".", color="0.6", markersize=4, label="measured")
ax.plot(dose, truth, "--", color="0.1", linewidth=1, label="truth")
ax.step(dose, squared.x, where="mid", color="C2", label="squared loss")
ax.plot(dose[::8], other[::8], "o", color="C2", mfc="none", label="squared loss, SciPy")
ax.step(dose, huber.x, where="mid", color="C0", label="Huber loss")
ax.set(xlabel="dose, mg", ylabel="response", ylim=(-0.55, 1.25))
ax.legend(loc="upper left")
plt.show()

# %%
# Summary
# -------
# Four short methods define a set, and ``fw.checks`` tests its oracle. The results have a verified gap, as for
# the sets of the library. The default method chooses an algorithm from the properties of the set and of the
# objective; ``squared.method.why`` contains the reason.
print(f"method: {squared.method}")
