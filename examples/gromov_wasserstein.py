"""
Gromov-Wasserstein matching of point clouds
===========================================

Two point clouds in spaces of different dimension are matched by the distances within each cloud. The
objective compares no coordinates, and it has no entropy term. You learn to search the Birkhoff polytope from
random starting points, and to read the gap of a nonconvex problem. The example recovers a shuffled and
rotated cloud exactly.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from scipy.spatial.distance import cdist

import fwflow as fw

POINTS = 40
STARTS = 12  # random starting points
SEED = 0

# %%
# Problem
# -------
# :math:`D` and :math:`E` contain the distances within the two clouds of :math:`n` points. A plan :math:`T/n`
# assigns mass to pairs of points, where :math:`T` is doubly stochastic. A good plan joins pairs of points
# that have the same distance in both clouds:
#
# .. math::
#
#    \min_{T} \; \frac{1}{n^2} \sum_{i,j,k,l} (D_{ik} - E_{jl})^2 \, T_{ij} T_{kl}
#    \quad \text{subject to} \quad T \ge 0, \; T 1 = 1, \; T^T 1 = 1 .
#
# Here 1 is the vector of ones. The minimum is the squared Gromov-Wasserstein distance with equal weights. The
# minimum is zero if one cloud is a rotated copy of the other.

# %%
# Data
# ----
# The first cloud is a noisy spiral in the plane. The second cloud has the same points, rotated into three
# dimensions and shuffled.
rng = np.random.default_rng(SEED)
angle = 4 * np.pi * np.sqrt(np.linspace(0.05, 1, POINTS))
spiral = angle[:, None] / (4 * np.pi) * np.column_stack([np.cos(angle), np.sin(angle)])
plane = spiral + 0.02 * rng.standard_normal((POINTS, 2))
rotation = np.linalg.qr(rng.standard_normal((3, 3)))[0][:, :2]
order = rng.permutation(POINTS)
space = (plane @ rotation.T)[order]
D, E = cdist(plane, plane), cdist(space, space)
agreement = np.abs(D[order][:, order] - E).max()
print(f"{POINTS} points; corresponding distances agree up to {agreement:.0e}")

# %%
# Model
# -----
# The squares :math:`D_{ik}^2` and :math:`E_{jl}^2` contribute a constant, because the rows and columns of
# :math:`T` sum to one. The mixed term needs only the product :math:`D T E`.
constant = (D**2).mean() + (E**2).mean()


def discrepancy(T):
    """Return the objective."""
    return float(constant - 2 * np.vdot(T, D @ T @ E) / POINTS**2)


def gradient(T):
    """Return the gradient of the objective; D and E are symmetric."""
    return -4 * D @ T @ E / POINTS**2


f = fw.Smooth(discrepancy, gradient, shape=(POINTS, POINTS))
C = fw.Birkhoff(POINTS)

# %%
# Solution
# --------
# The problem is not convex. A gap of zero proves that a plan is stationary, but different starting points
# lead to different stationary plans.
runs = [fw.minimize(f, C, C.random_start(seed), tol=1e-9) for seed in range(STARTS)]
values = np.sort([r.fun for r in runs])
best = min(runs, key=lambda r: r.fun)
print(f"best discrepancy {abs(best.fun):.0e}, gap {best.gap:.0e}")
print(f"median discrepancy of all starts {np.median(values):.0e}")

# %%
# Check against the known answer
# ------------------------------
# The order of the shuffled points is known. The largest entry in each column of :math:`T` gives the matched
# point.
matched = best.x.argmax(axis=0)
correct = (matched == order).mean()
print(f"{correct:.0%} of the points are matched correctly")

# %%
# The colour of a point is its position on the spiral. In the right panel, each point has the colour of its
# matched point.
fig = plt.figure(figsize=(7.2, 3.4), layout="constrained")
left, right = fig.add_subplot(121), fig.add_subplot(122, projection="3d")
position = np.linspace(0, 1, POINTS)
shades = ListedColormap(plt.cm.viridis(np.linspace(0.25, 0.9, 256)))
left.plot(*plane.T, color="0.7", linewidth=0.8, zorder=0)
left.scatter(*plane.T, c=position, cmap=shades, s=20)
left.set(title="Cloud in the plane", xticks=[-0.5, 0, 0.5, 1])
left.set(xlabel="first coordinate", ylabel="second coordinate")
left.set_aspect("equal", adjustable="datalim")
right.plot(*space[best.x.argmax(axis=1)].T, color="0.7", linewidth=0.8)
right.scatter(*space.T, c=position[matched], cmap=shades, s=20, depthshade=False)
right.set(title="Matched cloud in space")
right.tick_params(labelbottom=False, labelleft=False, labelright=False)
right.view_init(elev=60, azim=60)
plt.show()

# %%
# Some starting points lead to the global minimum, and the others lead to other stationary plans. The
# discrepancy is the value of the objective. A value of zero is drawn at the lower end of the scale.
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
ax.semilogy(np.arange(1, STARTS + 1), np.maximum(values, 1e-16), "o", color="C0")
ax.set(xlabel="starting points, sorted by result", ylabel="discrepancy")
plt.show()

# %%
# Summary
# -------
# The objective needs only products of matrices, and the oracle solves one linear assignment problem. For
# nonconvex problems, compare the results of several starting points; ``random_start`` gives one for every
# seed.
