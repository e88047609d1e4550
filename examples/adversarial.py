"""
An adversary in the L-infinity ball
===================================

How little must change in an image until a classifier is wrong about it? Every pixel may change by at most epsilon: a
box, whose oracle is the fast gradient sign step, so that Frank-Wolfe repeats it until a gap says that it is done. You
learn to attack all images in one run, and how near that comes to the worst case, which a linear classifier lets one
compute.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# Softmax regression on the digits that ship with scikit-learn, with pixels between 0 and 1. Half of them are for
# testing.


def trained(images: int) -> tuple[np.ndarray, np.ndarray, LogisticRegression]:
    """Test images, their digits, and a classifier that has not seen them."""
    X, y = load_digits(return_X_y=True)
    X, half = X / 16, len(X) // 2
    return X[half:][:images], y[half:][:images], LogisticRegression(max_iter=1000).fit(X[:half], y[:half])


# %%
# The adversary minimises what the classifier gives to the truth, the sum of :math:`\log p_{\text{true}}` over all
# images. That is concave: its minima lie in corners of the box, and there are many.


def attack(model: LogisticRegression, X: np.ndarray, y: np.ndarray, epsilon: float) -> fw.Result:
    """The images with every pixel changed by at most epsilon, as a result of `fw.minimize`."""
    W, b, rows = model.coef_, model.intercept_, np.arange(len(X))

    def fun(Z: np.ndarray) -> float:
        return float(log_softmax(Z @ W.T + b, axis=1)[rows, y].sum())

    def grad(Z: np.ndarray) -> np.ndarray:
        return W[y] - softmax(Z @ W.T + b, axis=1) @ W

    box = fw.Box(np.maximum(X - epsilon, 0), np.minimum(X + epsilon, 1))
    return fw.minimize(fw.Smooth(fun, grad), box, X, method="fw", line_search="exact", tol=1e-6)


# %%
# For a linear classifier the worst case is known: against each other digit, every pixel goes to the bound that helps
# it.


def worst_case(model: LogisticRegression, X: np.ndarray, y: np.ndarray, epsilon: float) -> float:
    """The share of images that no adversary can turn."""
    lower, upper = np.maximum(X - epsilon, 0)[:, None], np.minimum(X + epsilon, 1)[:, None]
    W = model.coef_[y][:, None] - model.coef_[None]
    margins = np.where(W > 0, W * lower, W * upper).sum(axis=2) + model.intercept_[y][:, None] - model.intercept_
    margins[np.arange(len(X)), y] = np.inf
    return float((margins > 0).all(axis=1).mean())


def draw(pictures: dict[str, np.ndarray], curves: dict[str, list[float]], epsilons: np.ndarray) -> None:
    """An image before and after, and the accuracy against epsilon."""
    axes = plt.subplots(1, 4, figsize=(7.2, 2.4), layout="constrained", width_ratios=[1, 1, 1, 1.9])[1]
    for ax, (title, picture) in zip(axes, pictures.items(), strict=False):
        limits = np.abs(picture).max() * np.array([-1, 1]) if picture.min() < 0 else (0, 1)
        ax.imshow(picture.reshape(8, 8), cmap="RdBu" if limits[0] else "gray_r", clim=limits)
        ax.set(title=title, xticks=[], yticks=[])
        ax.spines[:].set(visible=True, color="0.7")
    for (label, accuracy), colour, line in zip(curves.items(), ("0.5", "C0", "C2"), (":", "-", "."), strict=True):
        axes[3].plot(epsilons, 100 * np.array(accuracy), line, color=colour, label=label)
    axes[3].set(xlabel="epsilon, of the range of a pixel", ylabel="accuracy, %", ylim=(0, 100))
    axes[3].legend()


def main(images: int = 400, points: int = 9) -> dict[str, list[float]]:
    """Attack, and compare with the worst case and with chance."""
    X, y, model = trained(images)
    epsilons = np.linspace(0, 0.32, points)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], X.shape)
    runs = [attack(model, X, y, epsilon) for epsilon in epsilons]
    curves = {
        "random signs": [float(model.score(np.clip(X + epsilon * signs, 0, 1), y)) for epsilon in epsilons],
        "Frank-Wolfe": [float(model.score(r.x, y)) for r in runs],
        "worst case": [worst_case(model, X, y, epsilon) for epsilon in epsilons],
    }
    for i, epsilon in enumerate(epsilons):
        print(f"epsilon {epsilon:.2f}: " + ", ".join(f"{name} {curve[i]:.1%}" for name, curve in curves.items()))
    r, epsilon = runs[points // 2], epsilons[points // 2]
    sure = np.where(model.predict(r.x) == y, 0, model.predict_proba(X)[np.arange(len(X)), y])
    before, after = X[sure.argmax()], r.x[sure.argmax()]
    names = [f"{p.max():.0%} a {p.argmax()}" for p in model.predict_proba([before, after])]
    print(f"the surest that was turned: {names[0]}, and then {names[1]}; stationary to {r.gap:.0e} in {r.nit} steps")
    titles = f"before: {names[0]}", f"change: {epsilon:.2f} at most", f"after: {names[1]}"
    draw(dict(zip(titles, (before, after - before, after), strict=True)), curves, epsilons)
    return curves


if __name__ == "__main__":
    main()
    plt.show()
