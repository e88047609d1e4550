"""
Compressed sensing: recovery of a sparse signal with the lasso
==============================================================

A signal with few nonzero entries is recovered from fewer measurements than it has entries. The method is
least squares over an L1 ball, the constrained form of the lasso. You learn to compare methods by their passes
over the data, and to check a solution against an independent solver.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import fwflow as fw
from fwflow import datasets

MEASUREMENTS = 150
ENTRIES = 600
PASSES = 4000  # largest number of passes over the data for plain Frank-Wolfe and RK44

# %%
# Problem
# -------
# Each measurement :math:`b_i` is a random combination of the entries of the signal, plus noise. The number of
# measurements is :math:`m`. The constraint on the sum of absolute values makes the solution sparse:
#
# .. math::
#
#    \min_{x} \; \frac{1}{2m} \|A x - b\|_2^2 \quad \text{subject to} \quad \|x\|_1 \le R .

# %%
# Data
# ----
# Four percent of the entries are nonzero. The radius :math:`R` is the L1 norm of the true signal.
data = datasets.sensing(MEASUREMENTS, ENTRIES, sparsity=0.04, noise=0.02)
signal = data["x0"]
radius = np.abs(signal).sum()
nonzeros = np.count_nonzero(signal)
print(f"{MEASUREMENTS} measurements, {ENTRIES} entries, {nonzeros} of them nonzero")

# %%
# Model
# -----
# The squared loss is the default of ``fw.LinearModel``. The loss is averaged over all measurements.
f = fw.LinearModel(data["A"], data["b"])
C = fw.L1Ball(radius)

# %%
# Solution
# --------
# A step of plain Frank-Wolfe needs one gradient, and a step of the Runge-Kutta scheme RK44 needs four. The
# step limits give both methods the same number of gradients.
limits = {"fw": PASSES, "rk44": PASSES // 4, "flow": PASSES, "auto": PASSES}
runs = {}
for name, limit in limits.items():
    runs[name] = fw.minimize(f, C, method=name, tol=1e-9, max_iter=limit)
for name, r in runs.items():
    print(f"{name:>4}: {r.n_design:4.0f} passes over the data, gap {r.gap:.0e}")

# %%
# The gap is a certificate: the loss is at most this far above its minimum. The exact flow and the default
# method reach the tolerance. Plain Frank-Wolfe and RK44 converge slowly: the bound on their error decreases
# like one over the number of steps.
x = runs["auto"].x
error = np.linalg.norm(x - signal) / np.linalg.norm(signal)
print(f"relative error of the recovered signal: {error:.1%}")

# %%
# All nonzero entries of the signal are recovered closely. The noise leads to very small entries at other
# positions.
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
(places,) = signal.nonzero()
found = np.flatnonzero(np.abs(x) > 1e-3)
ax.axhline(0, color="0.6", linewidth=0.7)
ax.vlines(places, 0, signal[places], color="0.6", linewidth=0.8)
ax.plot(places, signal[places], "o", color="0.4", fillstyle="none", label="signal")
ax.plot(found, x[found], ".", color="C0", label="recovered")
ax.set(xlabel="index of the entry", ylabel="value")
ax.legend()
plt.show()

# %%
# Check against an independent solver
# -----------------------------------
# SciPy's L-BFGS-B solves the problem with a penalty :math:`\lambda \|x\|_1` in place of the constraint. The
# code writes :math:`x = u - v` with nonnegative :math:`u` and :math:`v`. Both problems have the same solution
# if :math:`\lambda` is the largest absolute entry of the gradient at our solution.
multiplier = np.abs(f.gradient(f.point(x))).max()


def penalised(parts):
    """Return the penalised loss of u - v and its gradient in u and v."""
    u, v = np.split(parts, 2)
    residual = data["A"] @ (u - v) - data["b"]
    g = data["A"].T @ residual / MEASUREMENTS
    value = residual @ residual / (2 * MEASUREMENTS) + multiplier * parts.sum()
    return value, np.append(g, -g) + multiplier


other = scipy.optimize.minimize(
    penalised,
    np.zeros(2 * ENTRIES),
    jac=True,
    bounds=[(0, None)] * (2 * ENTRIES),
    options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000, "maxfun": 10_000},
)
u, v = np.split(other.x, 2)
difference = np.abs(x - (u - v)).max()
print(f"largest difference from SciPy's solution: {difference:.0e}")

# %%
# The figure shows the smallest gap so far against the passes over the data.
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
labels = {"fw": "Frank-Wolfe", "rk44": "RK44", "flow": "exact flow", "auto": "auto"}
for (name, r), colour in zip(runs.items(), ("0.5", "C2", "C1", "C0"), strict=True):
    known = np.isfinite(r.trace["gap"]) & (r.trace["n_design"] > 0)
    best = np.minimum.accumulate(r.trace["gap"][known])
    ax.loglog(r.trace["n_design"][known], best, color=colour, label=labels[name])
ax.set(xlabel="passes over the data", ylabel="smallest gap so far", ylim=(1e-12, None))
ax.legend(loc="lower left")
plt.show()

# %%
# Summary
# -------
# The default method needs few passes over the data and returns a verified solution. The gap bounds the error
# of the loss, so a reference solution is not needed in practice.
