"""
CVXPY model as a set: portfolios with sector limits
===================================================

A model in CVXPY states the constraints of a portfolio: limits on sectors, on turnover and on the risk. This
example hands the model to fwflow in two ways. :func:`fwflow.solve_cvxpy` takes a whole problem with a smooth
objective. :func:`fwflow.from_cvxpy` takes only the constraints, for an objective that CVXPY cannot express. The
optimal values are compared with those of Clarabel, which CVXPY calls.
"""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

ASSETS = 12
MONTHS = 240
RISK = 0.0245  # largest standard deviation of a month
SEED = 3

# %%
# Data
# ----
# Monthly returns of twelve assets in four sectors have a common factor and a factor for every sector.
rng = np.random.default_rng(SEED)
sector = np.arange(ASSETS) % 4
common, by_sector = rng.standard_normal((MONTHS, 1)), rng.standard_normal((MONTHS, 4))
drift = np.linspace(0.004, 0.012, ASSETS)
noise = rng.standard_normal((MONTHS, ASSETS))
R = drift + 0.02 * common + 0.02 * by_sector[:, sector] + 0.02 * noise
held = np.full(ASSETS, 1 / ASSETS)

# %%
# Constraints
# -----------
# The variable holds the shares of the assets. Its constraints are written as always in CVXPY: two of them are
# linear, the limit on turnover has auxiliary variables inside CVXPY, and the limit on the risk is a second-order
# cone.
w = cp.Variable(ASSETS, nonneg=True, name="w")
S = np.cov(R.T)
limits = [
    cp.sum(w) == 1,
    *(cp.sum(w[sector == k]) <= 0.4 for k in range(4)),
    cp.norm1(w - held) <= 0.8,
    cp.norm(np.linalg.cholesky(S).T @ w) <= RISK,
]

# %%
# A problem of CVXPY
# ------------------
# The growth rate of the capital is the mean of :math:`\log(1 + r_t^T w)`. CVXPY knows that it is concave, and that
# the logarithm is smooth. ``solve_cvxpy`` replaces ``problem.solve()``: it sets the variable and the status. Its
# result has a duality gap, which bounds the distance from the maximum.
problem = cp.Problem(cp.Maximize(cp.sum(cp.log(1 + R @ w)) / MONTHS), limits)
r = fw.solve_cvxpy(problem, tol=1e-8)
growth = problem.value
kelly = w.value
print(f"{problem.status}: growth {growth:.8f} per month, gap {r.gap:.1e}")
print(f"Clarabel:  growth {problem.solve(solver=cp.CLARABEL):.8f} per month")

# %%
# The constraints alone
# ---------------------
# The ratio of mean and standard deviation (the Sharpe ratio) is not concave, so that CVXPY refuses a problem with
# this objective. Only its constraints are needed: ``from_cvxpy`` returns the set of all portfolios that satisfy
# them. JAX or PyTorch could provide the gradient; here it is written down.
C = fw.from_cvxpy(limits, w)
print(C)
mean = R.mean(axis=0)


def sharpe(x):
    """Return minus the ratio of mean and standard deviation, and its gradient."""
    deviation = np.sqrt(x @ S @ x)
    ratio = mean @ x / deviation
    return -ratio, -(mean / deviation - ratio * (S @ x) / deviation**2)


f = fw.Smooth(sharpe, grad=True)
best = fw.minimize(f, C, x0=kelly, tol=1e-8)
print(f"Sharpe ratio {-best.fun:.6f}")
print(f"  of the portfolio with the largest growth {-sharpe(kelly)[0]:.6f}")

# %%
# For this ratio there is an independent solution. With :math:`y = t w`, where t is one over the standard deviation of
# the portfolio, the ratio is linear in y, and the constraints are convex in y and t.
y, t = cp.Variable(ASSETS, nonneg=True), cp.Variable(nonneg=True)
scaled = [
    cp.sum(y) == t,
    *(cp.sum(y[sector == k]) <= 0.4 * t for k in range(4)),
    cp.norm1(y - t * held) <= 0.8 * t,
    cp.norm(np.linalg.cholesky(S).T @ y) <= 1,
    t >= 1 / RISK,
]
ratio = cp.Problem(cp.Maximize(mean @ y), scaled).solve(solver=cp.CLARABEL)
print(f"  by cones {ratio:.6f}")

# %%
# Result
# ------
# Both portfolios use the whole turnover. The portfolio of largest growth takes all the risk that is allowed; the
# portfolio with the largest ratio takes less risk and holds less of asset 12.
fig, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
place = np.arange(ASSETS)
order = np.argsort(sector, kind="stable")
ax.bar(place - 0.2, kelly[order], 0.38, label="largest growth")
ax.bar(place + 0.2, best.x[order], 0.38, label="largest Sharpe ratio")
ax.axhline(1 / ASSETS, color="black", linewidth=0.8, linestyle=":", label="before")
for edge in np.flatnonzero(np.diff(sector[order])) + 0.5:
    ax.axvline(edge, color="black", linewidth=0.4)
ax.set_xticks(place, [f"{k + 1}" for k in order])
ax.set(xlabel="asset, ordered by sector", ylabel="share")
ax.legend()
plt.show()
