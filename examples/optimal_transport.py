"""
Optimal transport: Wasserstein distance, sparse and smooth plans
================================================================

Optimal transport moves one distribution of mass to another at the least cost. The least cost defines the
Wasserstein distance. You learn to compute this distance with one oracle call and a lower bound that proves
it, to smooth the transport plan by a quadratic penalty, and to compare the smooth plans with a plan of the
Sinkhorn algorithm.
"""

import matplotlib.pyplot as plt
import numpy as np
import ot
import scipy.optimize
import scipy.sparse as sp
from matplotlib.colors import LinearSegmentedColormap

import fwflow as fw

N = 40  # points of the grid
STRENGTHS = (1.0, 10.0)  # of the quadratic penalty
ENTROPY = 0.005  # strength of the entropic penalty
# sphinx_gallery_thumbnail_number = 2

# %%
# Problem
# -------
# The masses :math:`a_i` at points :math:`s_i` are to become the masses :math:`b_j` at points :math:`s_j`. A
# plan :math:`X` moves the mass :math:`X_{ij}` from :math:`s_i` to :math:`s_j` at the cost :math:`c_{ij} =
# (s_i - s_j)^2` per unit. The least cost is the squared Wasserstein distance:
#
# .. math::
#
#    W_2^2(a, b) = \min_{X \ge 0} \; \sum_{ij} c_{ij} X_{ij}
#    \quad \text{subject to} \quad X \mathbf{1} = a, \; X^T \mathbf{1} = b .
#
# Data
# ----
# Both distributions are mixtures of two normal densities on a grid. Each has total mass one.

s = np.linspace(0, 1, N)


def mixture(*parts):
    """Return the masses of normal densities with given shares, means and widths."""
    mass = sum(p / w * np.exp(-((s - m) ** 2) / (2 * w**2)) for p, m, w in parts)
    return mass / mass.sum()


a = mixture((0.6, 0.25, 0.07), (0.4, 0.6, 0.05))
b = mixture((0.5, 0.45, 0.05), (0.5, 0.85, 0.06))
cost = (s[:, None] - s) ** 2

fig, ax = plt.subplots(figsize=(6.4, 2.4), layout="constrained")
for mass, colour, label in ((a, "C0", "masses a"), (b, "C2", "masses b")):
    ax.fill_between(s, mass, color=colour, alpha=0.6, linewidth=0, label=label)
ax.set(xlabel="position s", ylabel="mass", ylim=(0, None))
ax.legend()
plt.show()

# %%
# Wasserstein distance by one oracle call
# ---------------------------------------
# The constraint set is the :class:`~fwflow.TransportPolytope`. Its oracle minimises a linear function over
# all plans, so one call solves the problem. The result is a vertex, which has at most :math:`2N - 1`
# nonzero entries. The oracle also computes dual prices, and these prices give a lower bound on the cost of
# every plan. On a line, the problem can be solved by sorting. The function ``emd2_1d`` of POT (Python
# Optimal Transport) does so and is an independent check.

C = fw.TransportPolytope(a, b)
vertex = C.lmo(cost)
least = vertex.dot(cost)
print(f"cost of the plan   {least:.9f}")
print(f"lower bound        {C.lower_bound(cost, vertex):.9f}")
print(f"POT, by sorting    {ot.emd2_1d(s, s, a, b):.9f}")

# %%
# Smooth plans by a quadratic penalty
# -----------------------------------
# The cheapest plan moves every mass to very few places. A quadratic penalty of strength :math:`\gamma`
# spreads the mass:
#
# .. math::
#
#    \min_X \; \langle c, X\rangle + \frac{\gamma}{2} \|X\|_F^2
#    \quad \text{subject to} \quad X \ge 0, \; X \mathbf{1} = a, \; X^T \mathbf{1} = b .
#
# The objective is a :class:`~fwflow.Quadratic` function of the entries of :math:`X`. The constraint set
# stays the same. The method ``"corrective"`` minimises over the plans that the oracle has returned so far,
# and then calls the oracle again. The run starts from the cheapest plan.

start = np.asarray(vertex).ravel()
runs = {}
for strength in STRENGTHS:
    f = fw.Quadratic(strength * sp.eye_array(N * N, format="csr"), -cost.ravel())
    r = fw.minimize(f, C, start, method="corrective", tol=1e-6)
    runs[strength] = r
    found = f"value {r.fun:.7f}, gap {r.gap:.0e}, {r.n_lmo} oracle calls"
    print(f"strength {strength:4.1f}: {found}")

# %%
# Check against an independent solver
# -----------------------------------
# The dual problem has one price for every mass:
#
# .. math::
#
#    \max_{u, v} \; a^T u + b^T v - \frac{1}{2\gamma} \sum_{ij} \max(u_i + v_j - c_{ij}, 0)^2 .
#
# The dual value of any prices is a lower bound on the optimum. SciPy's L-BFGS maximises this bound without
# any part of fwflow. The optimum lies between the bound and the value that fwflow found.


def negative_dual(prices, strength):
    """Return minus the dual value, and its gradient."""
    u, v = prices[:N], prices[N:]
    X = np.maximum(u[:, None] + v - cost, 0) / strength
    value = strength / 2 * (X**2).sum() - a @ u - b @ v
    return value, np.concatenate([X.sum(axis=1) - a, X.sum(axis=0) - b])


bounds = {}
options = {"maxiter": 10_000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-9}
for strength, r in runs.items():
    dual = scipy.optimize.minimize(
        negative_dual,
        np.zeros(2 * N),
        args=(strength,),
        jac=True,
        method="L-BFGS-B",
        options=options,
    )
    bounds[strength] = -dual.fun
    print(f"strength {strength:4.1f}: bound {-dual.fun:.7f}, value {r.fun:.7f}")

# %%
# Comparison of the plans
# -----------------------
# The Sinkhorn algorithm of POT uses the entropy of the plan as the penalty. The figure compares four plans.
# The horizontal axis is the position before the transport, and the vertical axis is the position after it.
# Orange entries carry the most mass. Entries without a colour are exactly zero. The quadratic penalty
# spreads the mass over neighbouring entries and leaves most entries at zero. The entropy makes every entry
# positive.

plans = {"no penalty": np.asarray(vertex)}
plans |= {f"quadratic, {k:g}": r.x.reshape(N, N) for k, r in runs.items()}
plans[f"entropy, {ENTROPY:g}"] = ot.sinkhorn(a, b, cost, ENTROPY, numItermax=10_000)

shades = LinearSegmentedColormap.from_list("mass", ["#56B4E9", "#CC79A7", "#D55E00"])
fig, axes = plt.subplots(2, 2, figsize=(6.4, 6.9), layout="constrained")
for ax, (title, X) in zip(axes.flat, plans.items(), strict=True):
    shown = np.where(X > 0, X / X.max(), np.nan)
    ax.imshow(shown.T, origin="lower", extent=(0, 1, 0, 1), cmap=shades, vmin=0)
    ax.set_title(f"{title}\n{np.count_nonzero(X)} nonzero entries")
    ax.spines[:].set_visible(True)
    ax.set(xlabel="from (a)", ylabel="to (b)", xticks=[0, 1], yticks=[0, 1])
plt.show()

# %%
# The last figure shows the gap of the two runs with a quadratic penalty.

fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
for (strength, r), colour in zip(runs.items(), ("C0", "C2"), strict=True):
    label = f"strength {strength:g}"
    ax.semilogy(r.trace["n_lmo"], r.trace["gap"], color=colour, label=label)
ax.set(xlabel="oracle calls", ylabel="duality gap")
ax.legend()
plt.show()

# %%
# Summary
# -------
# * One oracle call over :class:`~fwflow.TransportPolytope` computes a Wasserstein distance. A lower bound
#   proves the result.
# * Frank-Wolfe methods minimise any smooth objective over the same set. Every iterate is a plan with the
#   masses a and b.
# * A quadratic penalty keeps plans sparse. An entropic penalty makes plans dense.
