"""
Sparse logistic regression and its path
=======================================

Madelon was made to lead feature selection astray: most of its features are probes that mean nothing. Logistic
regression over an L1 ball takes features in one by one as the radius grows. You learn to fit a path of radii, each fit
from the one before, to choose among them by cross-validation, and that every fit comes with a certificate.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.preprocessing import StandardScaler

from fwflow import datasets
from fwflow.sklearn import L1Classifier, L1ClassifierCV, RadiusPath, radius_path

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# The data ships with fwflow: the numbers of the official files, with the validation split to test on.


def madelon(samples: int | None = None) -> tuple[np.ndarray, ...]:
    """Standardised features and labels, to fit and to test."""
    fit, test = datasets.load("madelon"), datasets.load("madelon", split="valid")
    scaler = StandardScaler().fit(fit["A"][:samples])
    return scaler.transform(fit["A"][:samples]), fit["b"][:samples], scaler.transform(test["A"]), test["b"]


# %%
# One estimator has the path, another chooses: the smallest radius whose held-out loss is within one standard error of
# the least. Both take the same radii, from the first feature to where larger radii gain at most as much again.
# There the model clearly overfits.


def fit_path(X: np.ndarray, y: np.ndarray, n_radii: int) -> tuple[RadiusPath, L1ClassifierCV]:
    """All fits, and the one that was chosen."""
    path = radius_path(X, y, estimator=L1Classifier(), n_radii=n_radii, eps=1.0)
    return path, L1ClassifierCV(path.radii, rule="1se", tol=1e-6).fit(X, y)


# %%
# The features that were chosen have a colour; all others were let in later.


def draw(path: RadiusPath, search: L1ClassifierCV) -> None:
    """Coefficients and the held-out loss, against the radius."""
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.1), layout="constrained")[1]
    coefs, (chosen,) = path.coefs.reshape(len(path.radii), -1), search.coef_.reshape(-1).nonzero()
    left.semilogx(path.radii, np.delete(coefs, chosen, axis=1), color="0.8", linewidth=0.6)
    for colour, feature in enumerate(chosen[np.argsort(-np.abs(coefs[-1, chosen]))]):
        left.semilogx(path.radii, coefs[:, feature], color=f"C{colour % 4}", label=f"feature {feature}")
    left.axvline(search.radius_, color="grey", linestyle="--")
    left.set(xlabel="radius", ylabel="coefficient")
    left.legend(loc="lower left")
    search.plot(right)
    right.text(search.radius_, right.get_ylim()[1], " chosen", color="0.3", va="top")
    least = search.mean_losses_.argmin()
    right.plot(search.radii_[least], search.mean_losses_[least], "o", color="C2", label="least")
    right.axhline(np.log(2), color="0.6", linestyle=":", label="of a coin")
    right.legend(loc="upper left")


def main(samples: int | None = None, n_radii: int = 25) -> dict[str, float]:
    """Fit the path, choose, and test."""
    X, y, X_test, y_test = madelon(samples)
    path, search = fit_path(X, y, n_radii)
    last = L1Classifier(path.radii[-1]).fit(X, y)
    print(f"{X.shape[0]} samples of {X.shape[1]} features, {n_radii} radii, largest gap {path.dual_gaps.max():.0e}")
    for name, model in (("chosen", search), ("largest", last)):
        shares = f"{model.score(X, y):.1%} right on what it has seen, {model.score(X_test, y_test):.1%} on new data"
        size = f"radius {np.abs(model.coef_).sum():.2f}, {np.count_nonzero(model.coef_)} features"
        print(f"{name}: {size}, {shares}")
    draw(path, search)
    return {
        "accuracy": float(search.score(X_test, y_test)),
        "radius": search.radius_,
        "gap": float(path.dual_gaps.max()),
    }


if __name__ == "__main__":
    main()
    plt.show()
