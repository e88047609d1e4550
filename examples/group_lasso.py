"""
Group lasso: variable selection in an additive model
====================================================

A response is a sum of smooth functions of a few variables, and many other variables have no effect. Each
variable has a group of coefficients, and the group lasso selects or drops a group as a whole. You learn to
compute the solutions for many radii with ``fw.path``, and to read off which variables matter and what their
functions look like.
"""

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

ROWS = 300
VARIABLES = 30
WAVES = 6  # columns per variable
RADII = 25
SEED = 0

# %%
# Problem
# -------
# The response is modelled as :math:`b_i \approx \sum_j h_j(t_{ij})`, where variable j has the unknown
# function :math:`h_j`. Each function is a combination of cosines with a vector of coefficients :math:`x_j`.
# The group lasso bounds the sum of the norms of these vectors:
#
# .. math::
#
#    \min_{x} \; \frac{1}{2m} \|A x - b\|_2^2 \quad \text{subject to} \quad \sum_j \|x_j\|_2 \le R .
#
# The constraint makes most vectors :math:`x_j` exactly zero.

# %%
# Data
# ----
# The first three variables have an effect and the others have none. All values lie between 0 and 1.
effects = [
    lambda t: np.sin(2 * np.pi * t),
    lambda t: 3 * (t - 0.5) ** 2 - 0.25,
    lambda t: np.tanh(8 * (t - 0.5)),
]
rng = np.random.default_rng(SEED)
t = rng.random((ROWS, VARIABLES))
response = sum(h(t[:, j]) for j, h in enumerate(effects))
response += 0.5 * rng.standard_normal(ROWS)
b = response - response.mean()

# %%
# Model
# -----
# The columns of one variable are cosines of growing frequency. They are orthonormal functions on [0, 1], so
# the norm of :math:`x_j` is the size of the function :math:`h_j`.


def waves(column):
    """Return the cosines of one variable, one per column."""
    return np.sqrt(2) * np.cos(np.pi * np.outer(column, np.arange(1, WAVES + 1)))


A = np.hstack([waves(column) for column in t.T])
groups = np.repeat(np.arange(VARIABLES), WAVES)
f = fw.LinearModel(A, b)
print(f"{A.shape[0]} rows, {A.shape[1]} columns in {VARIABLES} groups")

# %%
# Solution
# --------
# ``fw.path`` solves the problem for all radii. Each run starts from a point that is extrapolated from the
# previous solutions.
path = fw.path(
    f,
    lambda radius: fw.GroupBall(groups, radius),
    np.linspace(0.1, 2.6, RADII),
    tol=1e-8,
)
sizes = [np.linalg.norm(r.x.reshape(-1, WAVES), axis=1) for r in path.results]
sizes = np.array(sizes)  # one row per radius, one column per variable
gap = max(r.gap for r in path.results)
print(f"{RADII} radii, largest gap {gap:.0e}")

# %%
# We know the truth here, so we look at the largest radius that selects all three true variables with as few
# others as possible. In practice, choose the radius by cross-validation, for example with
# ``fwflow.sklearn.GroupRegressionCV``.
selected = sizes > 1e-6
count = selected.sum(axis=1)
complete = selected[:, : len(effects)].all(axis=1)
chosen = np.flatnonzero(complete & (count == count[complete].min()))[-1]
r, radius = path.results[chosen], path.radii[chosen]
names = np.flatnonzero(selected[chosen]) + 1
print(f"radius {radius:.2f} selects the variables {names}")

# %%
# Check against an independent solver
# -----------------------------------
# Proximal gradient descent solves the problem with a penalty :math:`\lambda \sum_j \|x_j\|_2` in place of the
# constraint. Both problems have the same solution if :math:`\lambda` is the largest norm of a group of the
# gradient at our solution.
gradient = A.T @ (A @ r.x - b) / ROWS
multiplier = np.linalg.norm(gradient.reshape(-1, WAVES), axis=1).max()
step = ROWS / np.linalg.norm(A, 2) ** 2
y = np.zeros_like(r.x)
for _ in range(3000):
    z = (y - step * A.T @ (A @ y - b) / ROWS).reshape(-1, WAVES)
    norms = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
    y = (np.maximum(1 - step * multiplier / norms, 0) * z).reshape(-1)
other = ((A @ y - b) ** 2).mean() / 2
print(f"value {r.fun:.9f} by fwflow, {other:.9f} by proximal gradient descent")

# %%
# The three true variables enter the model first and keep the largest effects. The dotted line is the radius
# chosen above.
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(path.radii, sizes[:, len(effects) :], color="0.7", linewidth=0.8)
for j in range(len(effects)):
    ax.plot(path.radii, sizes[:, j], color=f"C{j}", label=f"variable {j + 1}")
ax.plot([], [], color="0.7", label="all others")
ax.axvline(radius, color="0.4", linewidth=0.8, linestyle=":")
ax.set(xlabel="radius R", ylabel="size of the function")
ax.legend(loc="upper left")
plt.show()

# %%
# The fitted functions have the right shapes. They are smaller than the true functions, because the constraint
# shrinks all coefficients.
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.8), sharey=True, layout="constrained")
grid = np.linspace(0, 1, 200)
for j, (ax, h) in enumerate(zip(axes, effects, strict=True)):
    truth = h(grid) - h(grid).mean()
    ax.plot(grid, truth, "--", color="0.3", linewidth=1, label="truth")
    ax.plot(grid, waves(grid) @ r.x[groups == j], color=f"C{j}", label="fitted")
    ax.set(xlabel=f"variable {j + 1}", xticks=[0, 0.5, 1], ylim=(-1.3, 1.3))
axes[0].set_ylabel("effect on the response")
axes[0].legend(loc="upper right")
plt.show()

# %%
# Summary
# -------
# ``fw.GroupBall`` takes one label per coefficient, so groups may have any size and order. Every solution on
# the path has a verified gap.
