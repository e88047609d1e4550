"""Maximum entropy: the least committal distribution with given moments, and the nearest one to a prior.

The Kullback-Leibler divergence from a prior over {p on the simplex : M p = moments}: a polytope whose oracle is a
linear program. It is a sum of functions of single entries, of which one gradient tells the whole curvature. The answer
of the textbooks comes from the dual, p = prior * exp(M' y) / Z, a smooth problem in as many unknowns as there are
moments.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

import fwflow as fw


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A prior on a grid, two moments with their values, and a distribution that has them."""
    rng = np.random.default_rng(seed)
    grid = np.linspace(-1, 1, n)
    prior, known = (v / v.sum() for v in (rng.uniform(0.5, 1.5, n), np.exp(-4 * (grid - 0.3) ** 2)))
    moments = np.stack([grid, grid**2])
    return prior, moments, moments @ known, known


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


def by_the_dual(prior: np.ndarray, M: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The same from its multipliers."""
    dual = minimize(lambda y: logsumexp(y @ M, b=prior) - y @ values, np.zeros(len(M)), method="BFGS", tol=1e-10)
    p = prior * np.exp(dual.x @ M - logsumexp(dual.x @ M, b=prior))
    return p / p.sum()


def main(n: int = 40) -> dict[str, float]:
    """Solve it both ways."""
    prior, M, values, start = problem(n)
    r, p = nearest(prior, M, values, start), by_the_dual(prior, M, values)
    divergence = float((p * np.log(p / prior)).sum())
    print(f"{n} outcomes, moments {values.round(3)}: divergence {r.fun:.9f}, by the dual {divergence:.9f}")
    print(f"largest difference {np.abs(r.x - p).max():.1e}; gap {r.gap:.1e} by {r.method} ({r.n_lmo} linear programs)")
    return {"value": r.fun, "independent": divergence, "difference": float(np.abs(r.x - p).max()), "gap": r.gap}


if __name__ == "__main__":
    main()
