"""
Maximum entropy
===============

The distribution nearest to a prior, by Kullback-Leibler divergence, among all that have given moments: a polytope whose
oracle is a linear program. The answer of the textbooks comes from the dual, an exponential family, and must be the
same. You learn how to constrain a problem by linear equations, and how few linear programs that takes.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# A rough prior on a grid, and a mean and a second moment that it does not have.


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A prior on a grid, two moments with their values, and a distribution that has them."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(-1, 1, n)
    prior, known = (v / v.sum() for v in (rng.uniform(0.5, 1.5, n), np.exp(-4 * (grid - 0.3) ** 2)))
    moments = np.stack([grid, grid**2])
    return prior, moments, moments @ known, known


# %%
# The divergence is a sum of functions of single entries, of which one gradient tells the whole curvature.


def nearest(prior: np.ndarray, M: np.ndarray, values: np.ndarray, start: np.ndarray, tol: float = 1e-8) -> fw.Result:
    """The distribution nearest to the prior, as a result of `fw.minimize`."""
    n = len(prior)
    C = fw.Polytope(C=np.vstack([M, np.ones(n)]), d=np.append(values, 1.0), lower=0.0, n=n)
    f = fw.Smooth(
        lambda p: float(np.where(p > 0, p * np.log(np.maximum(p, 1e-300) / prior), 0.0).sum()),
        lambda p: np.log(np.maximum(p, 1e-300) / prior) + 1,
        domain=lambda p: bool(p.min() > 0),
    )
    return fw.minimize(f, C, start, tol=tol)


# %%
# The dual has as many unknowns as there are moments: :math:`p = q \exp(M^T y) / Z` for the prior q.


def by_the_dual(prior: np.ndarray, M: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same from its multipliers."""

    def family(y: np.ndarray) -> np.ndarray:
        return prior * np.exp(y @ M - logsumexp(y @ M, b=prior))

    dual = minimize(
        lambda y: logsumexp(y @ M, b=prior) - y @ values,
        np.zeros(len(M)),
        jac=lambda y: M @ family(y) - values,
        tol=1e-12,
    )
    return family(dual.x)


# %%
# Where the prior is rough, so is the answer: their ratio is what the moments ask for, and it is smooth.


def draw(grid: np.ndarray, prior: np.ndarray, dual: np.ndarray, r: fw.Result) -> None:
    """Distributions, and how soon they were found."""
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained")[1]
    left.step(grid, prior, where="mid", color="0.6", label="prior")
    left.bar(grid, r.x, width=0.8 * (grid[1] - grid[0]), color="C0", alpha=0.6, label="nearest, by fwflow")
    left.plot(grid, dual, ".", color="C2", markersize=5, label="nearest, by the dual")
    left.set(xlabel="outcome", ylabel="probability")
    left.legend(loc="upper left")
    right.semilogy(r.trace["n_lmo"], r.trace["gap"], color="C0", label="gap (the certificate)")
    excess = r.trace["fun"] - float((dual * np.log(dual / prior)).sum())
    right.semilogy(r.trace["n_lmo"], np.maximum(excess, 1e-12), color="C2", label="excess over the dual's value")
    right.set(xlabel="linear programs", ylabel="divergence, nats")
    right.legend(loc="lower left")


def main(n: int = 40) -> dict[str, float]:
    """Solve it both ways."""
    prior, M, values, start = problem(n)
    r, p = nearest(prior, M, values, start), by_the_dual(prior, M, values)
    divergence = float((p * np.log(p / prior)).sum())
    print(f"{n} outcomes, moments {values.round(3)}: divergence {r.fun:.9f}, by the dual {divergence:.9f}")
    print(f"largest difference {np.abs(r.x - p).max():.1e}; gap {r.gap:.1e} by {r.method} ({r.n_lmo} linear programs)")
    draw(M[0], prior, p, r)
    return {"value": r.fun, "independent": divergence, "difference": float(np.abs(r.x - p).max()), "gap": r.gap}


if __name__ == "__main__":
    main()
    plt.show()
