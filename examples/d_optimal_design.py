"""
D-optimal experimental design: which measurements to make, and how often
========================================================================

An experiment can measure at many places, but the number of measurements is limited. A D-optimal design
distributes the measurements so that the unknown parameters are estimated as precisely as possible. Its
weights are non-negative and sum to one. You learn to minimise your own function over the simplex, to
declare where the function is defined, and to check the design by a theorem and by a second algorithm.
"""

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

SIDE = 21  # points of the grid along each side
SWEEPS = 2000  # iterations of the second algorithm

# %%
# Problem
# -------
# A measurement at place :math:`i` gives :math:`a_i^T \theta` plus noise, with known :math:`a_i` and unknown
# :math:`\theta`. A design gives the share :math:`w_i` of all measurements to place :math:`i`. The
# information matrix of the design is
#
# .. math::
#
#    M(w) = \sum_{i=1}^{m} w_i \, a_i a_i^T .
#
# The volume of the confidence ellipsoid of :math:`\theta` is proportional to :math:`(\det M(w))^{-1/2}`. A
# D-optimal design minimises this volume:
#
# .. math::
#
#    \min_w \; -\log\det M(w) \quad \text{subject to} \quad w \ge 0, \; \sum_{i=1}^{m} w_i = 1 .
#
# Data
# ----
# The unknowns are the six coefficients of a quadratic surface over the square :math:`[-1, 1]^2`. The places
# are the points of a grid. Row :math:`i` of the matrix ``A`` is :math:`a_i`.

x, y = (v.ravel() for v in np.meshgrid(*2 * [np.linspace(-1, 1, SIDE)]))
A = np.column_stack([np.ones_like(x), x, y, x**2, x * y, y**2])
m, n = A.shape
print(f"{m} places, {n} unknowns")

# %%
# Model
# -----
# The entries of the gradient are :math:`-a_i^T M(w)^{-1} a_i`: minus the variance of the predicted surface
# at each place, for noise of variance one and one measurement. To get the real variance, multiply by the
# variance of the noise and divide by the number of measurements. A singular :math:`M(w)` has no inverse, so
# the function is defined on a part of the simplex only. The argument ``domain`` of :class:`~fwflow.Smooth`
# declares this part.


def information(w):
    """Return the information matrix M(w)."""
    return A.T @ (w[:, None] * A)


def fun(w):
    """Return -log det M(w)."""
    return -np.linalg.slogdet(information(w))[1]


def grad(w):
    """Return the gradient, from a Cholesky factor of M(w)."""
    factor = np.linalg.cholesky(information(w))
    return -(np.linalg.solve(factor, A.T) ** 2).sum(axis=0)


def regular(w):
    """Return whether M(w) is positive definite."""
    return np.linalg.eigvalsh(information(w))[0] > 1e-12


f = fw.Smooth(fun, grad, domain=regular)

# %%
# Solution
# --------
# The run starts from equal weights, where :math:`M(w)` is regular. :func:`~fwflow.minimize` verifies the
# duality gap at the returned weights.

equal = np.full(m, 1 / m)
r = fw.minimize(f, fw.Simplex(), equal, tol=1e-7)
places = np.flatnonzero(r.x > 1e-3)
print(f"-log det {r.fun:.7f}, gap {r.gap:.1e}, {len(places)} places in use")
for i in places:
    print(f"  ({x[i]:4.1f}, {y[i]:4.1f}): {r.x[i]:6.2%}")

# %%
# The design measures at nine places: the corners, the middles of the sides, and the centre. All other
# places get no measurement.
#
# Check by the equivalence theorem
# --------------------------------
# Kiefer and Wolfowitz (1960) proved that a design is D-optimal if and only if the largest variance
# :math:`\max_i a_i^T M(w)^{-1} a_i` equals the number of unknowns. At the optimum, the places in use have
# exactly this variance. The next cell computes the variances from the inverse matrix, not from the gradient
# above.


def variances(w):
    """Return the variance of the prediction at every place."""
    return np.einsum("ij,jk,ik->i", A, np.linalg.inv(information(w)), A)


optimal = variances(r.x)
print(f"largest variance {optimal.max():.7f}, number of unknowns {n}")
print(f"largest variance minus number of unknowns: {optimal.max() - n:.1e}")

# %%
# This difference is the duality gap: the gradient satisfies :math:`\langle \nabla f(w), w\rangle = -n`, so
# the gap over the simplex is the largest variance minus :math:`n`.
#
# The figure shows the variance for equal weights and for the optimal design. The area of a disc is the
# weight of the place. Equal weights leave a large variance at the corners. The optimal design moves
# measurements there.

designs = {"equal weights": equal, "D-optimal design": r.x}
fig, axes = plt.subplots(1, 2, figsize=(7.2, 3.5), layout="constrained", sharey=True)
for ax, (title, w) in zip(axes, designs.items(), strict=True):
    grids = (v.reshape(SIDE, SIDE) for v in (x, y, variances(w)))
    shades = ax.contourf(*grids, np.arange(3, 13), cmap="viridis", extend="both")
    size = 4800 * w
    ax.scatter(x, y, s=size, color="white", edgecolor="black", clip_on=False, zorder=3)
    for i in np.flatnonzero(w > 0.01):
        ax.text(x[i], y[i], f"{w[i]:.0%}", ha="center", va="center", zorder=4)
    worst = variances(w).max()
    ax.set_title(f"{title}\nlargest variance {worst:.1f}", pad=14)
    ax.set(xlabel="x", ylabel="y", aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    ax.tick_params(length=0, pad=15)
axes[1].set_ylabel("")
fig.get_layout_engine().set(wspace=0.1)
fig.colorbar(shades, ax=axes, label="variance of the prediction", shrink=0.8)
plt.show()

# %%
# Check against an independent solver
# -----------------------------------
# The multiplicative algorithm (Silvey, Titterington, Torsney 1978) is the classical method for this
# problem. One iteration multiplies every weight by its variance divided by :math:`n`. It needs no step
# size, and the weights stay on the simplex.

w, excess = equal, []
for _ in range(SWEEPS):
    variance = variances(w)
    excess.append(variance.max() - n)
    w = w * variance / n
print(f"-log det: fwflow {r.fun:.7f}, multiplicative algorithm {fun(w):.7f}")
print(f"gap:      fwflow {r.gap:.1e}, multiplicative algorithm {excess[-1]:.1e}")

# %%
# Both algorithms find the same optimum. The multiplicative algorithm needs many iterations, because it
# reduces the weight of a useless place only slowly. A Frank-Wolfe method with an active set drops such a
# place in one step. fwflow computes the gap at some iterations only; these are the markers in the figure.

fig, ax = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
known = np.isfinite(r.trace["gap"])
gradients, gaps = r.trace["n_grad"][known], r.trace["gap"][known]
ax.loglog(1 + np.arange(SWEEPS), excess, color="C2", label="multiplicative algorithm")
ax.loglog(gradients, gaps, "o-", color="C0", markersize=4, label="fwflow")
ax.set(xlabel="evaluations of the gradient", ylabel="duality gap")
ax.legend(loc="lower left")
plt.show()

# %%
# The D-efficiency compares two designs: it is the ratio of their determinants to the power :math:`1/n`.

efficiency = np.exp((r.fun - fun(equal)) / n)
print(f"D-efficiency of equal weights: {efficiency:.0%}")
print(f"equal weights need {1 / efficiency:.1f} times as many measurements")

# %%
# Summary
# -------
# * A function of your own needs values and gradients. :class:`~fwflow.Smooth` combines both, and ``domain``
#   declares where they are defined.
# * :class:`~fwflow.Simplex` is the set of non-negative weights that sum to one. Solutions on the simplex
#   are often sparse: here, few places are measured.
# * For this problem the duality gap has a meaning in statistics: the largest variance minus the number of
#   unknowns.
