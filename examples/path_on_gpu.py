"""
Regularisation path on a GPU with JAX
=====================================

Sparse logistic regression has one parameter, the radius of the L1 ball. ``fwflow.jax`` fits all radii at the
same time in one compiled run, on a GPU if JAX finds one and on the CPU otherwise. You learn to pass data to
``fwflow.jax``, to use the results of a whole path, and to choose the radius with data that was not used for
the fit. The example needs the extra ``jax``.
"""

import jax
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

import fwflow.jax as fwj

ROWS = 600  # for the fit; as many again for validation
COLUMNS = 1500
RADII = 32
SEED = 0

# %%
# Problem
# -------
# The rows :math:`a_i` have labels :math:`b_i = \pm 1`. For each radius :math:`R` we solve
#
# .. math::
#
#    \min_{x} \; \frac{1}{m} \sum_{i=1}^{m} \log\left(1 + e^{-b_i \langle a_i, x \rangle}\right)
#    \quad \text{subject to} \quad \|x\|_1 \le R .
#
# The gradients of all radii together are two products of matrices, and GPUs are fast at such products.

# %%
# Data
# ----
# Ten columns and noise determine the labels. All other columns are random. The numbers have single precision,
# as usual on GPUs.
rng = np.random.default_rng(SEED)
A = rng.standard_normal((2 * ROWS, COLUMNS)).astype(np.float32)
score = A[:, :10].sum(axis=1) + 2 * rng.standard_normal(2 * ROWS)
b = np.where(score > 0, 1, -1).astype(np.float32)
print(f"device: {jax.devices()[0].device_kind}")

# %%
# Model
# -----
# One half of the rows is used for the fit and the other half for validation.
f = fwj.LinearModel(A[:ROWS], b[:ROWS], "logistic")
validation = fwj.LinearModel(A[ROWS:], b[ROWS:], "logistic")
radii = np.geomspace(0.2, 50.0, RADII)

# %%
# Solution
# --------
# The result contains arrays with one entry, or one row, per radius. Each gap is verified in double precision,
# although the iterations use single precision. A run stops when its gap is at most ``rtol`` times the gap at
# its start.
R = fwj.path(f, fwj.L1Ball(), radii, tol=0.0, rtol=1e-4)
print(f"{int(R.success.sum())} of {RADII} radii reached the tolerance")
print(f"largest number of iterations: {int(R.nit.max())}")

# %%
# ``jax.vmap`` evaluates the validation loss of all solutions at once. The best radius has the smallest loss.
losses = jax.vmap(lambda x: validation.value(validation.point(x)))(R.x)
best = int(np.argmin(losses))
radius = radii[best]
used = np.count_nonzero(R.x, axis=1)
print(f"best radius {radius:.2f}: validation loss {float(losses[best]):.4f}")
print(f"{used[best]} of {COLUMNS} coefficients are nonzero")

# %%
# Check against an independent solver
# -----------------------------------
# scikit-learn solves the problem with a penalty :math:`\lambda \|x\|_1` in place of the constraint. For every
# :math:`\lambda`, the minimum of the loss plus :math:`\lambda (\|x\|_1 - R)` is a lower bound of our problem.
# The bound is best if :math:`\lambda` is the largest absolute entry of the gradient at our solution.
x = np.asarray(R.x[best], dtype=float)
A_fit, b_fit = A[:ROWS].astype(float), b[:ROWS].astype(float)
gradient = -A_fit.T @ (b_fit / (1 + np.exp(b_fit * (A_fit @ x)))) / ROWS
multiplier = np.abs(gradient).max()
model = LogisticRegression(
    C=1 / (ROWS * multiplier),
    l1_ratio=1,
    solver="liblinear",
    fit_intercept=False,
    tol=1e-8,
    max_iter=1000,
).fit(A_fit, b_fit)
w = model.coef_[0]
penalised = np.log1p(np.exp(-b_fit * (A_fit @ w))).mean() + multiplier * np.abs(w).sum()
bound = penalised - multiplier * radius
print(f"loss {float(R.fun[best]):.5f}, verified gap {float(R.gap[best]):.5f}")
print(f"lower bound by scikit-learn {bound:.5f}")

# %%
# The loss of the fitted rows decreases with the radius. The loss of the validation rows has a minimum, at the
# vertical line.
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.semilogx(radii, R.fun, "o-", color="C0", markersize=3, label="rows of the fit")
ax.semilogx(radii, losses, "s-", color="C2", markersize=3, label="validation rows")
ax.axvline(radius, color="0.5", linewidth=0.8)
ax.set(xlabel="radius", ylabel="logistic loss")
ax.legend()
plt.show()

# %%
# The number of nonzero coefficients grows with the radius.
fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
ax.loglog(radii, used, "o-", color="C1", markersize=3)
ax.axvline(radius, color="0.5", linewidth=0.8)
ax.set(xlabel="radius", ylabel="nonzero coefficients")
plt.show()

# %%
# Summary
# -------
# The same code runs on a CPU and on a GPU. All radii share each pass over the data, and every fit has its own
# verified gap.
