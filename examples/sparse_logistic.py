"""
Sparse logistic regression (L1, lasso): feature selection on Madelon
====================================================================

Madelon is a classification problem for feature selection: 20 of its 500 features carry information about
the class, and 480 are noise. Logistic regression over an L1 ball selects a few features. You learn to fit
one model with a verified duality gap, to compute the regularisation path over many radii, and to choose the
radius by cross-validation.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import fwflow as fw
from fwflow import datasets
from fwflow.sklearn import L1Classifier, L1ClassifierCV, radius_path

SAMPLES = 2000  # for fitting, at most 2000
RADIUS = 0.5  # of the single model
RADII = 25  # on the path

# %%
# Problem
# -------
# Sample :math:`i` has features :math:`a_i` and a class :math:`b_i \in \{-1, +1\}`. We look for coefficients
# :math:`x` and an intercept :math:`x_0` with the smallest mean logistic loss, subject to a bound :math:`r`
# on the sum of the absolute coefficients:
#
# .. math::
#
#    \min_{x,\, x_0} \; \frac{1}{m} \sum_{i=1}^{m} \log\left(1 + e^{-b_i (a_i^T x + x_0)}\right)
#    \quad \text{subject to} \quad \|x\|_1 \le r .
#
# The bound plays the role of the penalty in the lasso. A small radius sets most coefficients to exactly
# zero.
#
# Data
# ----
# Madelon ships with fwflow (UCI repository, doi:10.24432/C5602H, Guyon et al. 2004, CC BY 4.0). The
# official training split is for fitting, and the official validation split is for testing. All features are
# scaled to mean zero and variance one.

fit, test = datasets.load("madelon"), datasets.load("madelon", split="valid")
scaler = StandardScaler().fit(fit["A"][:SAMPLES])
X, y = scaler.transform(fit["A"][:SAMPLES]), fit["b"][:SAMPLES]
X_test, y_test = scaler.transform(test["A"]), test["b"]
print(f"{len(y)} samples to fit, {len(y_test)} samples to test, {X.shape[1]} features")

# %%
# One model with a verified gap
# -----------------------------
# The objective is a :class:`~fwflow.LinearModel`, and the constraint set is an :class:`~fwflow.L1Ball`. The
# option ``intercept=True`` adds the intercept, which the set does not restrict. After the run,
# :func:`~fwflow.minimize` computes the duality gap again at the returned point. The loss at this point is
# at most ``gap`` above the optimal loss.

f = fw.LinearModel(X, y, loss="logistic", intercept=True)
r = fw.minimize(f, fw.L1Ball(RADIUS), tol=1e-9)
print(f"loss {r.fun:.9f}, gap {r.gap:.0e}, {np.count_nonzero(r.x)} features")
print(r.message)

# %%
# Check against an independent solver
# -----------------------------------
# scikit-learn solves the problem with a penalty :math:`\lambda \|x\|_1` instead of the bound. Both problems
# have the same solution if :math:`\lambda` is the Lagrange multiplier of the bound, which is the largest
# absolute entry of the gradient at the solution. :class:`~fwflow.sklearn.L1Classifier` wraps the model
# above as a scikit-learn estimator, so the two libraries can be compared coefficient by coefficient.

ours = L1Classifier(RADIUS, tol=1e-9).fit(X, y)
margins = y * ours.decision_function(X)
gradient = -X.T @ (y / (1 + np.exp(margins))) / len(y)
penalty = np.abs(gradient).max()

theirs = LogisticRegression(
    l1_ratio=1,
    C=1 / (penalty * len(y)),
    solver="saga",
    tol=1e-7,
    max_iter=10_000,
    random_state=0,
).fit(X, y)

for name, model in (("fwflow", ours), ("scikit-learn", theirs)):
    loss = np.logaddexp(0, -y * model.decision_function(X)).mean()
    norm, count = np.abs(model.coef_).sum(), np.count_nonzero(model.coef_)
    print(f"{name:<12} loss {loss:.7f}, L1 norm {norm:.6f}, {count} features")
difference = np.abs(ours.coef_ - theirs.coef_).max()
print(f"largest difference of a coefficient: {difference:.0e}")

# %%
# Regularisation path
# -------------------
# The best radius is not known in advance. :func:`~fwflow.sklearn.radius_path` fits the model for growing
# radii. Each fit starts from the previous solution and has its own verified gap. Without the argument
# ``radii`` the function chooses the radii itself.

radii = np.geomspace(0.02, 5, RADII)
path = radius_path(X, y, radii, estimator=L1Classifier(tol=1e-8))
coefficients = path.coefs.reshape(RADII, -1)
counts = (np.abs(coefficients) > 1e-6).sum(axis=1)
print(f"smallest radius: {counts[0]} feature(s); largest: {counts[-1]}")
print(f"largest gap on the path: {path.dual_gaps.max():.0e}")

# %%
# Choice of the radius
# --------------------
# :class:`~fwflow.sklearn.L1ClassifierCV` computes the log-loss on held-out samples by five-fold
# cross-validation. The rule ``"1se"`` takes the smallest radius whose held-out loss is within one standard
# error of the smallest held-out loss. The test samples play no role in the choice.

search = L1ClassifierCV(radii, rule="1se", tol=1e-6).fit(X, y)
chosen = np.flatnonzero(search.coef_[0])
print(f"chosen radius {search.radius_:.3f}, chosen features {chosen.tolist()}")

# %%
# The first figure shows every coefficient as a function of the radius. The chosen features have a colour.
# The grey lines are all other features.

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
others = np.delete(coefficients, chosen, axis=1)
ax.semilogx(radii, others, color="0.6", linewidth=0.6)
for i, feature in enumerate(chosen):
    ax.semilogx(radii, coefficients[:, feature], color=f"C{i % 4}", linewidth=2)
    end = (radii[-1], coefficients[-1, feature])
    ax.annotate(f" feature {feature}", end, va="center")
ax.axvline(search.radius_, color="0.4", linestyle="--")
ax.text(search.radius_, -0.09, "chosen radius  ", ha="right")
ax.set(xlabel="radius of the L1 ball", ylabel="coefficient", xlim=(None, 15))
plt.show()

# %%
# The second figure explains the choice. The loss on the fitted samples decreases as the radius grows. The
# held-out loss has a minimum and then increases: the model fits the noise of the additional features. The
# band around the held-out loss is one standard error wide on each side.

scores = X @ coefficients.T + path.intercepts.reshape(-1)
fitted = np.logaddexp(0, -y[:, None] * scores).mean(axis=0)

fig, ax = plt.subplots(figsize=(6.4, 3.4), layout="constrained")
losses, errors = search.mean_losses_, search.standard_errors_
band = losses - errors, losses + errors
ax.fill_between(radii, *band, color="C2", alpha=0.3, linewidth=0)
ax.semilogx(radii, losses, color="C2", label="held-out samples")
ax.semilogx(radii, fitted, color="C0", label="fitted samples")
ax.axhline(np.log(2), color="0.5", linestyle=":", label="constant prediction")
ax.axvline(search.radius_, color="0.4", linestyle="--", label="chosen radius")
ax.set(xlabel="radius of the L1 ball", ylabel="mean logistic loss")
ax.legend(loc="lower left")
plt.show()

# %%
# Accuracy on new samples
# -----------------------
# We compare the chosen model with the model of the largest radius on the test samples.

largest = L1Classifier(radii[-1]).fit(X, y)
for name, model in (("chosen", search), ("largest", largest)):
    size = f"{np.count_nonzero(model.coef_)} features"
    seen, new = model.score(X, y), model.score(X_test, y_test)
    print(f"{name:<7} radius, {size}: accuracy {seen:.1%} fitted, {new:.1%} new")

# %%
# Summary
# -------
# * The L1 ball selects features. The chosen model uses fewer features than the model of the largest radius,
#   and it classifies new samples better.
# * Both accuracies are moderate, because the classes of Madelon are not linearly separable. The selected
#   features are a starting point for a nonlinear classifier.
# * Every fit reports a verified duality gap. The comparison with scikit-learn confirms the solution.
