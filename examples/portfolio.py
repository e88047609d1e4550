"""A portfolio of least variance, and what it costs to get there from the one you hold.

Weights on the simplex; risk w' S w, less the expected return, plus market impact, which grows as the power 3/2 of what
is traded. The Hessian of that power is infinite at no trade: nothing that wants second derivatives is comfortable with
it, and values and gradients are enough.
"""

from __future__ import annotations

import numpy as np

import fwflow as fw

RISK, RETURN, IMPACT = 5.0, 0.5, 0.02


def market(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariance, expected returns and the weights held today."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 5)) / 5
    held = rng.random(n) ** 4
    return factors @ factors.T + np.diag(rng.uniform(0.01, 0.1, n)), 0.1 * rng.standard_normal(n), held / held.sum()


def rebalance(covariance: np.ndarray, returns: np.ndarray, held: np.ndarray, tol: float = 1e-8) -> fw.Result:
    """The best portfolio for one who holds another, as a result of `fw.minimize`."""

    def fun(w: np.ndarray) -> float:
        impact = IMPACT * (np.abs(w - held) ** 1.5).sum()
        return float(0.5 * RISK * w @ covariance @ w - RETURN * returns @ w + impact)

    def grad(w: np.ndarray) -> np.ndarray:
        traded = w - held
        return RISK * covariance @ w - RETURN * returns + 1.5 * IMPACT * np.sign(traded) * np.sqrt(np.abs(traded))

    return fw.minimize(fw.Smooth(fun, grad), fw.Simplex(), held, tol=tol)


def independent(covariance: np.ndarray, returns: np.ndarray, held: np.ndarray) -> float:
    """The optimal value by CVXPY, which turns the power into cones."""
    import cvxpy as cp

    w = cp.Variable(len(held), nonneg=True)
    risk = 0.5 * RISK * cp.quad_form(w, cp.psd_wrap(covariance))
    impact = IMPACT * cp.sum(cp.power(cp.abs(w - held), 1.5))
    return float(cp.Problem(cp.Minimize(risk - RETURN * returns @ w + impact), [cp.sum(w) == 1]).solve("CLARABEL"))


def main(n: int = 60) -> dict[str, float]:
    """Rebalance, and compare with CVXPY."""
    data = market(n)
    r = rebalance(*data)
    other = independent(*data)
    print(f"{n} assets, {int((r.x > 1e-6).sum())} in the portfolio; traded {np.abs(r.x - data[2]).sum() / 2:.1%}")
    print(f"value {r.fun:.9f}, by CVXPY {other:.9f}; gap {r.gap:.1e} by {r.method} ({r.n_grad} gradients)")
    return {"value": r.fun, "independent": other, "gap": r.gap}


if __name__ == "__main__":
    main()
