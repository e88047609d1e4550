"""
Optimal transport, plain and regularised
========================================

Carry one distribution of mass to another at the least cost. The oracle of ``fw.TransportPolytope`` solves that problem
itself, by POT's network simplex method where POT is installed and by HiGHS elsewhere; Frank-Wolfe adds what is not
linear. With a square penalty plans spread out and yet stay sparse, and POT's own solver of the dual answers beside us.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import ot
import scipy.sparse as sp

import fwflow as fw

# %%
# Two distributions on a line
# ---------------------------
n = 40
s = np.linspace(0, 1, n)


def bumps(*parts: tuple[float, float, float]) -> np.ndarray:
    """A mixture of normal densities on the grid, from shares, means and widths."""
    density = sum(share / width * np.exp(-((s - mean) ** 2) / (2 * width**2)) for share, mean, width in parts)
    return density / density.sum()


a = bumps((0.6, 0.25, 0.07), (0.4, 0.6, 0.05))
b = bumps((0.5, 0.45, 0.05), (0.5, 0.85, 0.06))
cost = (s[:, None] - s) ** 2

# %%
# One call of the oracle is the plain problem. Its vertex has at most 2n - 1 entries, and prices that prove it best.
C = fw.TransportPolytope(a, b)
plain = C.lmo(cost)
print(f"least cost {plain.dot(cost):.7f}, proved to be at least {C.lower_bound(cost, plain):.7f}")
print(f"POT says   {ot.emd2(a, b, cost):.7f}")

# %%
# A square penalty
# ----------------
# :math:`f(X) = \langle c, X\rangle + \tfrac12 s \|X\|^2` is a quadratic. The corrective method minimises it
# over the plans that the oracle has shown, which takes few calls; its plans have exactly the masses a and b, and the
# gap proves how good they are. POT's ``smooth_ot_dual`` climbs the dual, and meets the masses only in the limit.
warnings.filterwarnings("ignore", "(scipy.optimize: The `disp`|Unknown solver options: disp)")  # of POT
runs = {}
for strength in (1.0, 10.0):
    f = fw.Quadratic(strength * sp.eye_array(n * n).tocsr(), -cost.ravel())
    r = runs[strength] = fw.minimize(f, C, np.asarray(plain).ravel(), method="corrective", tol=1e-6)
    X = ot.smooth.smooth_ot_dual(a, b, cost, strength, reg_type="l2", numItermax=5000, stopThr=1e-12)
    theirs = np.vdot(cost, X) + strength / 2 * np.vdot(X, X)
    print(f"strength {strength:g}: value {r.fun:.7f} with a gap of {r.gap:.0e} after {r.n_lmo} calls of the oracle")
    print(f"    POT's dual {theirs:.7f}, masses off by {np.abs(X.sum(axis=1) - a).max():.0e}")

# %%
# The plans, from mass to mass
# ----------------------------
plans = {"least cost": np.asarray(plain)} | {f"strength {k:g}": r.x.reshape(n, n) for k, r in runs.items()}
fig, axes = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained", width_ratios=[1, 1, 1, 1.25])
for ax, (title, X) in zip(axes, plans.items(), strict=False):
    shown = np.where(X > 1e-9, X / X.max(), np.nan)
    ax.imshow(shown.T, origin="lower", extent=(0, 1, 0, 1), cmap="viridis_r", vmin=0)
    ax.fill_between(s, 1.02, 1.02 + 0.2 * a / a.max(), color="#0072B2", clip_on=False, lw=0)
    ax.fill_betweenx(s, 1.02, 1.02 + 0.2 * b / b.max(), color="#D55E00", clip_on=False, lw=0)
    ax.set(xlim=(0, 1), ylim=(0, 1), xticks=[0, 1], yticks=[0, 1])
    ax.set_xlabel("from a", color="#0072B2")
    ax.set_ylabel("to b", color="#D55E00")
    ax.text(0.97, 0.04, f"{title}\n{int((X > 1e-9).sum())} entries", ha="right", fontsize=10)
for (strength, r), colour in zip(runs.items(), ("#009E73", "#CC79A7"), strict=True):
    axes[3].semilogy(r.trace["n_lmo"], r.trace["gap"], color=colour, label=f"strength {strength:g}")
axes[3].set(xlabel="calls of the oracle", ylabel="gap", title="Proved distance to the least value")
axes[3].title.set_fontsize(10)
axes[3].legend(frameon=False)
axes[3].spines[["top", "right"]].set_visible(False)
plt.show()
