"""
Adversarial examples: attack on a classifier in an L-infinity ball
==================================================================

An adversary changes every pixel of an image by at most epsilon, so that a classifier gives the wrong answer.
The images that the adversary can reach form a box, and the oracle of a box is the fast gradient sign step.
You learn to attack all images in one run, and you compare the attack with the exact worst case, which is
known for linear classifiers.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import fwflow as fw

IMAGES = 400  # test images under attack
LEVELS = 9  # values of epsilon
SEED = 0

# sphinx_gallery_thumbnail_number = 2

# %%
# Problem
# -------
# The rows of :math:`X` are images with pixels between 0 and 1, and :math:`y_i` is the true class of image i.
# The classifier gives image :math:`z` the probability :math:`p_c(z)` for class c. The adversary minimises the
# log-probabilities of the true classes:
#
# .. math::
#
#    \min_{Z} \; \sum_i \log p_{y_i}(z_i)
#    \quad \text{subject to} \quad |z_{ij} - x_{ij}| \le \varepsilon, \quad 0 \le z_{ij} \le 1 .
#
# The constraints describe a box. One call of its oracle moves every pixel to its lower or upper bound,
# according to the sign of the gradient. The fast gradient sign method makes this step once; Frank-Wolfe
# repeats it.

# %%
# Data
# ----
# The digits of scikit-learn have 8 x 8 pixels. A softmax regression is trained with the first half of the
# images. The attack uses images from the second half.
pixels, digits = load_digits(return_X_y=True)
pixels, half = pixels / 16, len(pixels) // 2
model = LogisticRegression(max_iter=1000).fit(pixels[:half], digits[:half])
X, y = pixels[half:][:IMAGES], digits[half:][:IMAGES]
print(f"{len(X)} images, {model.score(X, y):.1%} of them classified correctly")

# %%
# Model
# -----
# The objective is a Python function with its gradient. Both take all images at once.
W, b = model.coef_, model.intercept_
rows = np.arange(len(X))


def log_probability(Z):
    """Return the sum of the log-probabilities of the true classes."""
    return float(log_softmax(Z @ W.T + b, axis=1)[rows, y].sum())


def gradient(Z):
    """Return the gradient of `log_probability`."""
    return W[y] - softmax(Z @ W.T + b, axis=1) @ W


f = fw.Smooth(log_probability, gradient)
print(f"relative error of the gradient: {fw.checks.gradient_error(f, X):.0e}")

# %%
# Solution
# --------
# One run per epsilon attacks all images. The objective is concave, so it can have many local minima, which
# lie at corners of the box. A gap of zero therefore proves that the result is a stationary point, not that it
# is the global minimum.
epsilons = np.linspace(0, 0.32, LEVELS)
runs = []
for epsilon in epsilons:
    box = fw.Box(np.maximum(X - epsilon, 0), np.minimum(X + epsilon, 1))
    runs.append(fw.minimize(f, box, X, method="fw", line_search="exact"))
attacked = np.array([model.score(r.x, y) for r in runs])
print(f"largest gap of all runs: {max(r.gap for r in runs):.0e}")
print(f"most iterations of a run: {max(r.nit for r in runs)}")

# %%
# Check against the exact worst case
# ----------------------------------
# For a linear classifier the worst case has a formula. The score of the true class minus the score of another
# class is a linear function of the image. This function is smallest in the box if every pixel is at its lower
# or upper bound, according to the sign of the coefficient. An image is robust if the smallest value is
# positive for all other classes.


def robust(epsilon):
    """Return for each image whether no change up to epsilon causes an error."""
    lower, upper = np.maximum(X - epsilon, 0), np.minimum(X + epsilon, 1)
    difference = W[y][:, None] - W
    least = np.where(difference > 0, lower[:, None], upper[:, None])
    margins = (difference * least).sum(axis=2) + b[y][:, None] - b
    margins[rows, y] = np.inf
    return (margins > 0).all(axis=1)


signs = np.random.default_rng(SEED).choice([-1.0, 1.0], X.shape)
noisy = [np.clip(X + epsilon * signs, 0, 1) for epsilon in epsilons]
random = np.array([model.score(Z, y) for Z in noisy])
worst = np.array([robust(epsilon).mean() for epsilon in epsilons])
print("epsilon  random signs  Frank-Wolfe  worst case")
for row in zip(epsilons, random, attacked, worst, strict=True):
    print("{:7.2f}  {:12.1%}  {:11.1%}  {:10.1%}".format(*row))

# %%
# The attack causes most of the errors that are possible in the worst case. Random changes of the same size do
# little harm.
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
ax.plot(epsilons, 100 * random, "s--", color="0.5", markersize=4, label="random signs")
ax.plot(epsilons, 100 * attacked, "o-", color="C0", markersize=4, label="Frank-Wolfe")
ax.plot(epsilons, 100 * worst, "^", color="C2", markersize=5, label="exact worst case")
ax.set(xlabel="largest change of a pixel, epsilon", ylabel="accuracy, %")
ax.set_ylim(-3, 100)
ax.legend()
plt.show()

# %%
# One image
# ---------
# At the middle epsilon, many images are misclassified. We look at the image whose true class had the highest
# probability before the attack.
middle = runs[LEVELS // 2].x
turned = model.predict(middle) != y
chosen = np.where(turned, model.predict_proba(X)[rows, y], 0).argmax()
before, after = X[chosen], middle[chosen]
confidences = model.predict_proba([before, after])
titles = [f"a {p.argmax()} with {p.max():.0%}" for p in confidences]
print(f"before: {titles[0]}; after: {titles[1]}")

# %%
# Most pixels change by epsilon, or until they reach 0 or 1. A person still recognises the digit.
fig, axes = plt.subplots(1, 3, figsize=(7.2, 2.7), layout="constrained")
axes[0].imshow(before.reshape(8, 8), cmap="gray_r", clim=(0, 1))
axes[0].set_title(f"Before: {titles[0]}")
change = axes[1].imshow((after - before).reshape(8, 8), cmap="RdBu", clim=(-0.2, 0.2))
axes[1].set_title("Change")
axes[2].imshow(after.reshape(8, 8), cmap="gray_r", clim=(0, 1))
axes[2].set_title(f"After: {titles[1]}")
for ax in axes:
    ax.set(xlabel="pixel column", xticks=[], yticks=[])
    ax.spines[:].set_visible(True)
axes[0].set_ylabel("pixel row")
fig.colorbar(change, ax=axes, shrink=0.8, label="change of the pixel")
plt.show()

# %%
# Summary
# -------
# The oracle of ``fw.Box`` is the fast gradient sign step, so a few Frank-Wolfe iterations make a strong
# attack. For a deep network, replace ``log_probability`` and ``gradient``. The exact worst case is then
# unknown in general.
