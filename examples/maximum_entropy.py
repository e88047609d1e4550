"""
Maximum entropy distribution with given moments
===============================================

Find the probability distribution that is closest to a prior and has a given mean and second moment. Closest
means the smallest Kullback-Leibler divergence; with a uniform prior, the result has maximum entropy. You
learn to describe a set by linear equations, and to restrict an objective to its domain. The dual problem
confirms the result.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.optimize
from scipy.special import logsumexp, rel_entr

import fwflow as fw

OUTCOMES = 40
SEED = 0

# %%
# Problem
# -------
# The outcomes are points :math:`t_i`, the prior gives them probabilities :math:`q_i`, and the unknown
# distribution is :math:`p`:
#
# .. math::
#
#    \min_{p} \; \sum_i p_i \log \frac{p_i}{q_i}
#    \quad \text{subject to} \quad
#    \sum_i t_i p_i = \mu_1, \quad \sum_i t_i^2 p_i = \mu_2, \quad \sum_i p_i = 1, \quad p \ge 0 .

# %%
# Data
# ----
# The prior is irregular. The moments are those of a bell curve around 0.3.
rng = np.random.default_rng(SEED)
t = np.linspace(-1, 1, OUTCOMES)
q = rng.uniform(0.5, 1.5, OUTCOMES)
q /= q.sum()
bell = np.exp(-4 * (t - 0.3) ** 2)
bell /= bell.sum()
M = np.stack([t, t**2])
moments = M @ bell
print(f"moments of the prior: {(M @ q).round(3)}, required: {moments.round(3)}")

# %%
# Model
# -----
# ``fw.Polytope`` describes the set by equations ``C @ p = d`` and bounds. Its oracle solves a linear program.
# The gradient of the divergence is infinite where an entry of :math:`p` is zero, so ``domain`` restricts the
# objective to positive entries.
equations = np.vstack([M, np.ones(OUTCOMES)])
C = fw.Polytope(C=equations, d=np.append(moments, 1.0), lower=0.0, n=OUTCOMES)
f = fw.Smooth(
    lambda p: float(rel_entr(p, q).sum()),
    lambda p: np.log(p / q) + 1,
    domain=lambda p: bool(p.min() > 0),
)

# %%
# Solution
# --------
# The run needs a starting point in the domain. The bell curve is in the set, because it has the required
# moments, and its entries are positive.
r = fw.minimize(f, C, bell, tol=1e-8)
print(f"divergence {r.fun:.8f}, gap {r.gap:.0e}")
print(f"{r.n_lmo} linear programs by the method {r.method}")

# %%
# Check against an independent solver
# -----------------------------------
# The dual problem has only one unknown per moment. Its solution :math:`y` gives the distribution :math:`p_i =
# q_i e^{y_1 t_i + y_2 t_i^2} / Z`, where :math:`Z` makes the sum equal to one. SciPy's BFGS solves the dual
# problem.


def family(y):
    """Return the distribution for multipliers y."""
    return q * np.exp(y @ M - logsumexp(y @ M, b=q))


dual = scipy.optimize.minimize(
    lambda y: logsumexp(y @ M, b=q) - y @ moments,
    np.zeros(2),
    jac=lambda y: M @ family(y) - moments,
    tol=1e-12,
)
other = family(dual.x)
divergence = rel_entr(other, q).sum()
difference = np.abs(r.x - other).max()
print(f"divergence {divergence:.8f} by the dual problem")
print(f"largest difference of a probability: {difference:.0e}")

# %%
# The result follows the irregular prior. The ratio of the result to the prior is a smooth function of the
# outcome.
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.step(t, q, where="mid", color="0.5", label="prior")
ax.bar(t, r.x, width=0.8 * (t[1] - t[0]), color="C5", label="result of fwflow")
ax.plot(t, other, ".", color="C2", label="result of the dual problem")
ax.set(xlabel="outcome t", ylabel="probability")
ax.legend(loc="upper left")
plt.show()

# %%
# The gap is an upper bound of the error in every iteration. The error is the difference from the value of the
# dual problem. Errors below 1e-13 are drawn at 1e-13.
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
calls = r.trace["n_lmo"]
error = np.maximum(r.trace["fun"] - divergence, 1e-13)
ax.semilogy(calls, r.trace["gap"], "o-", color="C0", markersize=3, label="gap")
ax.semilogy(calls, error, "s--", color="C2", markersize=3, label="error")
ax.set(xlabel="linear programs", ylabel="divergence, nats")
ax.legend()
plt.show()

# %%
# Summary
# -------
# Linear equations and bounds define a polytope, and any differentiable objective can be minimised over it.
# The dual problem is smaller here, but it exists in closed form only for special objectives such as the
# divergence.
