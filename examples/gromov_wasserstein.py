"""
Gromov-Wasserstein: the same shape in another space
===================================================

Match two clouds of points that live in different spaces by the distances within each, without entropy. The problem is
not convex; the gap then tells how far from stationary a plan is, and random starts help. You learn how to search a
Birkhoff polytope, and that a cloud which was only turned and shuffled is found again exactly.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# A spiral in the plane, and the same points turned into space and shuffled.


def clouds(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A cloud in the plane, the same turned and shuffled in space, and the permutation."""
    rng = np.random.default_rng(seed)
    angle = 4 * np.pi * np.sqrt(np.linspace(0.05, 1, n))
    points = (angle * [np.cos(angle), np.sin(angle)]).T / 4 / np.pi + 0.02 * rng.standard_normal((n, 2))
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0][:, :2]
    order = rng.permutation(n)
    return points, (points @ turn.T)[order], order


# %%
# With equal marginals, n times the plan T is doubly stochastic. The discrepancy of the distances D and E is
# :math:`\sum_{ijkl} (D_{ik} - E_{jl})^2 T_{ij} T_{kl}`; all of it but a product of three matrices is linear in T.


def discrepancy(D: np.ndarray, E: np.ndarray) -> fw.Smooth:
    """The function of a plan times n, whose rows and columns sum to one."""
    n = len(D)
    constant = ((D**2).sum(axis=1)[:, None] + (E**2).sum(axis=1)[None, :]) / n

    def grad(T: np.ndarray) -> np.ndarray:
        return 2 * (constant - 2 * D @ T @ E / n) / n

    return fw.Smooth(lambda T: float((T * (constant - 2 * D @ T @ E / n)).sum() / n), grad, shape=(n, n))


# %%
# Points have the colour of their place on the spiral; those in space have it from the plan that was found.


def draw(points: np.ndarray, others: np.ndarray, best: fw.Result, values: list[float]) -> None:
    """Both clouds, the plan between them, and what each start has led to."""
    figure = plt.figure(figsize=(7.2, 2.6), layout="constrained")
    plane, space = figure.add_subplot(131), figure.add_subplot(132, projection="3d")
    place = np.linspace(0, 1, len(points))
    plane.plot(*points.T, color="0.8", linewidth=0.8, zorder=0)
    plane.scatter(*points.T, c=place, cmap="viridis", s=16)
    plane.set(title="Known: a spiral in the plane", aspect="equal")
    plane.set_axis_off()
    found = best.x.argmax(axis=1)
    space.plot(*others[found].T, color="0.8", linewidth=0.8)
    space.scatter(*others.T, c=place[best.x.argmax(axis=0)], cmap="viridis", s=16, depthshade=False)
    space.set(title="Found: the same in space", xticklabels=[], yticklabels=[], zticklabels=[])
    space.view_init(elev=60, azim=60)
    starts = figure.add_subplot(133)
    starts.semilogy(np.maximum(np.sort(values), 1e-16), "o", color="C0", markersize=4)
    starts.set(title="Where each start has led", xlabel="random starts, in order", ylabel="discrepancy", xticks=[])


def main(n: int = 40, starts: int = 12) -> dict[str, float]:
    """Find the same cloud again."""
    points, others, order = clouds(n)
    f, C = discrepancy(cdist(points, points), cdist(others, others)), fw.Birkhoff(n)
    runs = [fw.minimize(f, C, C.random_start(seed), tol=1e-9) for seed in range(starts)]
    best = min(runs, key=lambda r: r.fun)
    right = float((best.x.argmax(axis=0) == order).mean())
    print(f"{n} points, {starts} starts: discrepancy {best.fun:.2e}, {right:.0%} matched; stationary to {best.gap:.0e}")
    draw(points, others, best, [r.fun for r in runs])
    return {"value": best.fun, "matched": right, "gap": best.gap}


if __name__ == "__main__":
    main()
    plt.show()
