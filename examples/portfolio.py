"""
Portfolio optimisation with market impact
=========================================

An investor holds a portfolio and wants a better one. The new weights are non-negative and sum to one. They
balance risk, expected return and the cost of trading. This cost grows faster than the traded amount. You
learn to minimise your own function over the simplex with values and gradients only, to verify the result,
and to follow the solution while a parameter changes.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize

import fwflow as fw

N = 60  # assets
FACTORS = 5  # common causes of risk
SEED = 0  # of the market
RISK = 5.0  # weight of the variance
RETURN = 0.5  # weight of the expected return
IMPACT = 0.02  # price of trading
POINTS = 15  # on each curve of the second figure

# %%
# Problem
# -------
# The assets have the covariance matrix :math:`\Sigma` and the expected returns :math:`\mu`. The investor
# holds the weights :math:`h` and looks for weights :math:`w`:
#
# .. math::
#
#    \min_w \; \frac{\rho}{2}\, w^T \Sigma w - \tau\, \mu^T w + \kappa \sum_{i=1}^{n} |w_i - h_i|^{3/2}
#    \quad \text{subject to} \quad w \ge 0, \; \sum_{i=1}^{n} w_i = 1 .
#
# The three terms are risk, return and market impact. Impact means that a large order moves the price
# against the investor, and the power 3/2 is a common model of it. The second derivative of this power is
# infinite at :math:`w_i = h_i`, so methods that need a Hessian have difficulties there. fwflow needs values
# and gradients only.
#
# Data
# ----
# The market is generated. A few factors drive all assets, and every asset has some risk of its own.

rng = np.random.default_rng(SEED)
factors = rng.standard_normal((N, FACTORS)) / 5
held = rng.random(N) ** 4
held /= held.sum()
covariance = factors @ factors.T + np.diag(rng.uniform(0.01, 0.1, N))
returns = 0.1 * rng.standard_normal(N)
print(f"{N} assets; the largest weight held is {held.max():.1%}")

# %%
# Model
# -----
# :class:`~fwflow.Smooth` combines the function and its gradient. The function ``problem`` builds the
# objective for given parameters, because the parameters vary below.


def problem(risk=RISK, impact=IMPACT):
    """Return the objective for given weights of risk and impact."""

    def fun(w):
        trading = impact * (np.abs(w - held) ** 1.5).sum()
        return risk / 2 * w @ covariance @ w - RETURN * returns @ w + trading

    def grad(w):
        slope = 1.5 * np.sign(w - held) * np.sqrt(np.abs(w - held))
        return risk * covariance @ w - RETURN * returns + impact * slope

    return fw.Smooth(fun, grad)


# %%
# Solution
# --------
# :class:`~fwflow.Simplex` is the set of non-negative weights that sum to one. The run starts from the
# weights held. The verified gap is a bound: no other portfolio improves the objective by more than the gap.

f = problem()
r = fw.minimize(f, fw.Simplex(), held, tol=1e-8)
trades = r.x - held
print(f"objective {r.fun:.9f}, gap {r.gap:.1e}, {r.n_grad} gradients")
print(f"{np.count_nonzero(r.x > 1e-6)} of {N} assets in the new portfolio")
print(f"turnover {np.abs(trades).sum() / 2:.1%}")

# %%
# The figure shows the trades in ascending order. The investor sells most positions and buys a few assets.

fig, ax = plt.subplots(figsize=(6.4, 3), layout="constrained")
ordered = 100 * np.sort(trades)
ax.bar(np.arange(N), ordered, color=np.where(ordered > 0, "C0", "C2"))
ax.axhline(0, color="0.3", linewidth=0.8)
ax.text(0.3, 0.08, "sold", transform=ax.transAxes)
ax.text(0.85, 0.6, "bought", transform=ax.transAxes, ha="right")
ax.set(xlabel="assets, in the order of the trades", ylabel="trade, in % of the total")
ax.set_xticks([])
plt.show()

# %%
# Check against an independent solver
# -----------------------------------
# SciPy's SLSQP (sequential quadratic programming) solves the same problem with bounds and one equality
# constraint.

slsqp = scipy.optimize.minimize(
    f.fun,
    held,
    jac=f.grad,
    method="SLSQP",
    bounds=N * [(0, 1)],
    constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
    options={"ftol": 1e-13, "maxiter": 1000},
)
print(f"fwflow {r.fun:.9f}, SLSQP {slsqp.fun:.9f}")
print(f"largest difference of a weight: {np.abs(r.x - slsqp.x).max():.1e}")

# %%
# Efficient frontier and the effect of impact
# -------------------------------------------
# Two series of problems show how the parameters act. The first series has no impact and varies the weight
# of risk; its solutions form the efficient frontier. The second series keeps the weight of risk and lowers
# the price of impact. Each run starts from the solution of the previous run (a warm start).


def follow(problems):
    """Return volatility, expected return and turnover of each solution, in per cent."""
    w, found = held, []
    for f in problems:
        w = fw.minimize(f, fw.Simplex(), w, tol=1e-7).x
        turnover = np.abs(w - held).sum() / 2
        found.append((np.sqrt(w @ covariance @ w), returns @ w, turnover))
    return 100 * np.array(found)


frontier = follow(problem(risk, 0.0) for risk in np.geomspace(0.5, 50, POINTS))
impacts = np.geomspace(5, 0.01, POINTS)
rebalanced = follow(problem(RISK, impact) for impact in impacts)

# %%
# With a high price of impact the investor stays near the portfolio held. As the price falls, the solution
# moves towards the efficient frontier, and the turnover grows. The labels give the price of impact and the
# turnover of three solutions.

fig, ax = plt.subplots(figsize=(6.4, 4), layout="constrained")
ax.plot(*frontier[:, :2].T, color="0.5", label="efficient frontier, no impact")
ax.plot(*rebalanced[:, :2].T, "o-", color="C0", label="solutions, by price of impact")
for i in range(0, POINTS - 3, 4):
    volatility, gain, turnover = rebalanced[i]
    note = f"impact {impacts[i]:.2g}, turnover {turnover:.0f}%"
    ax.annotate(note, (volatility, gain), (7, 3), textcoords="offset points")
ax.set(xlabel="volatility in %", ylabel="expected return in %")
ax.legend(loc="center right")
plt.show()

# %%
# Summary
# -------
# * A portfolio problem needs a function, its gradient and :class:`~fwflow.Simplex`. Second derivatives are
#   not necessary.
# * The gap proves how close the portfolio is to the optimum, and SLSQP confirms the value.
# * Warm starts make a series of similar problems cheap.
