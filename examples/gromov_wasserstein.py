"""Gromov-Wasserstein: match two clouds of points that live in different spaces, by distances within each.

min over plans T with marginals a and b of sum_ijkl (D_ik - E_jl)^2 T_ij T_kl, without entropy. It is not convex; the
gap then measures how far from stationary a plan is. With equal marginals the plans are a Birkhoff polytope, and a cloud
that was only turned and shuffled is found again exactly.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

import fwflow as fw


def discrepancy(D: np.ndarray, E: np.ndarray) -> fw.Smooth:
    """The function of a plan times n, whose rows and columns sum to one."""
    n = len(D)
    constant = ((D**2).sum(axis=1)[:, None] + (E**2).sum(axis=1)[None, :]) / n

    def grad(T: np.ndarray) -> np.ndarray:
        return 2 * (constant - 2 * D @ T @ E / n) / n

    return fw.Smooth(lambda T: float((T * (constant - 2 * D @ T @ E / n)).sum() / n), grad, shape=(n, n))


def clouds(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A cloud in the plane, the same turned and shuffled in space, and the permutation."""
    rng = np.random.default_rng(seed)
    points, order = rng.standard_normal((n, 2)), rng.permutation(n)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0][:, :2]
    return points, (points @ turn.T)[order], order


def main(n: int = 30, starts: int = 10) -> dict[str, float]:
    """Find the same cloud again."""
    points, others, order = clouds(n)
    f, C = discrepancy(cdist(points, points), cdist(others, others)), fw.Birkhoff(n)
    runs = [fw.minimize(f, C, C.random_start(seed), tol=1e-9) for seed in range(starts)]
    best = min(runs, key=lambda r: r.fun)
    right = float((best.x.argmax(axis=0) == order).mean())
    print(f"{n} points, {starts} starts: discrepancy {best.fun:.2e}, {right:.0%} matched; stationary to {best.gap:.0e}")
    return {"value": best.fun, "matched": right, "gap": best.gap}


if __name__ == "__main__":
    main()
