"""
A portfolio, and what it costs to get there
===========================================

Weights on the simplex: risk, less the expected return, plus market impact, which grows as the power 3/2 of what is
traded. The Hessian of that power is infinite at no trade: nothing that wants second derivatives is comfortable with it.
You learn that values and gradients are enough, and how to follow a solution as a parameter grows.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# A market with five factors, and somebody who holds a portfolio already.

RETURN, IMPACT = 0.5, 0.02


def market(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariance, expected returns and the weights held today."""
    rng = np.random.default_rng(seed)
    factors = rng.standard_normal((n, 5)) / 5
    held = rng.random(n) ** 4
    return factors @ factors.T + np.diag(rng.uniform(0.01, 0.1, n)), 0.1 * rng.standard_normal(n), held / held.sum()


# %%
# The function and its gradient, from which `fw.minimize` makes a certified answer.


def problem(
    covariance: np.ndarray, returns: np.ndarray, held: np.ndarray, risk: float = 5.0, impact: float = IMPACT
) -> fw.Smooth:
    """What a portfolio costs one who holds another."""

    def fun(w: np.ndarray) -> float:
        cost = impact * (np.abs(w - held) ** 1.5).sum()
        return float(0.5 * risk * w @ covariance @ w - RETURN * returns @ w + cost)

    def grad(w: np.ndarray) -> np.ndarray:
        traded = w - held
        return risk * covariance @ w - RETURN * returns + 1.5 * impact * np.sign(traded) * np.sqrt(np.abs(traded))

    return fw.Smooth(fun, grad)


def independent(f: fw.Smooth, held: np.ndarray) -> float:
    """The optimal value by sequential quadratic programming, which knows nothing of Frank-Wolfe."""
    total = {"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like}
    options = {"ftol": 1e-13, "maxiter": 1000}
    bounds = len(held) * [(0, 1)]
    r = scipy.optimize.minimize(f.fun, held, jac=f.grad, bounds=bounds, constraints=total, options=options)
    return float(r.fun)


# %%
# Impact decides how far one goes: from the portfolio held today, where trading is dear, to the efficient frontier,
# where it is free. Each solve begins where the one before has ended.


def path(data: tuple[np.ndarray, ...], settings: list[dict[str, float]]) -> np.ndarray:
    """Volatility, expected return and turnover of the best portfolios in per cent, one row per setting."""
    covariance, returns, held = data
    w, found = held, []
    for setting in settings:
        w = fw.minimize(problem(*data, **setting), fw.Simplex(), w, tol=1e-7).x
        found.append((np.sqrt(w @ covariance @ w), returns @ w, np.abs(w - held).sum() / 2))
    return 100 * np.array(found)


def draw(traded: np.ndarray, frontier: np.ndarray, rebalanced: np.ndarray, impacts: np.ndarray) -> None:
    """What is bought and sold, and how far one goes."""
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")[1]
    left.bar(np.arange(len(traded)), 100 * np.sort(traded), color=np.where(np.sort(traded) > 0, "C1", "C2"))
    left.axhline(0, color="0.3", linewidth=0.7)
    left.set(xlabel="assets, in order", ylabel="traded, % of the portfolio", xticks=[], title="What to trade")
    right.plot(*frontier[:, :2].T, color="0.6", label="efficient frontier (no impact)")
    right.plot(*rebalanced[:, :2].T, color="C0", marker=".", label="rebalanced, by price of impact")
    for (volatility, gain, turnover), impact in list(zip(rebalanced, impacts, strict=True))[::4]:
        note = f"{impact:.2g}: {turnover:.0f}% traded"
        right.annotate(note, (volatility, gain), (6, -3), textcoords="offset points", fontsize=7, color="C0")
    right.set(xlabel="volatility, %", ylabel="expected return, %", title="How far to go")
    right.legend(loc="center right")


def main(n: int = 60, points: int = 15) -> dict[str, float]:
    """Rebalance, and compare with SciPy."""
    data = market(n)
    f, held = problem(*data), data[2]
    r = fw.minimize(f, fw.Simplex(), held, tol=1e-8)
    other = independent(f, held)
    print(f"{n} assets, {int((r.x > 1e-6).sum())} in the portfolio; traded {np.abs(r.x - held).sum() / 2:.1%}")
    print(f"value {r.fun:.9f}, by SciPy {other:.9f}; gap {r.gap:.1e} by {r.method} ({r.n_grad} gradients)")
    frontier = path(data, [{"risk": risk, "impact": 0.0} for risk in np.geomspace(0.5, 50, points)])
    impacts = np.geomspace(5, 0.01, points)
    draw(r.x - held, frontier, path(data, [{"impact": impact} for impact in impacts]), impacts)
    return {"value": r.fun, "independent": other, "gap": r.gap}


if __name__ == "__main__":
    main()
    plt.show()
