"""
Group lasso: which variables matter, and how?
=============================================

A response is a sum of smooth functions of a few of many variables. Each variable gets a group of columns, waves of
growing frequency, and the ball of group norms keeps or drops groups as a whole. You learn to write such a model, to
follow its solutions along the radius, and to read off which variables enter and what their functions look like.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

#: The variables that matter, and what they do.
TRUTH = {
    0: lambda t: np.sin(2 * np.pi * t),
    1: lambda t: 3 * (t - 0.5) ** 2 - 0.25,
    2: lambda t: np.tanh(8 * (t - 0.5)),
}
WAVES = 6

# %%
# The columns of a variable are orthonormal over its range, so that all groups are in one unit: the norm of a group of
# coefficients is the size of the function.


def waves(t: np.ndarray) -> np.ndarray:
    """Cosines of variables between 0 and 1, those of one variable next to one another."""
    return np.hstack([np.sqrt(2) * np.cos(np.pi * np.outer(column, np.arange(1, WAVES + 1))) for column in t.T])


def survey(m: int, variables: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Variables between 0 and 1, and the noisy response."""
    rng = np.random.default_rng(seed)
    t = rng.random((m, variables))
    return t, sum(f(t[:, j]) for j, f in TRUTH.items()) + 0.5 * rng.standard_normal(m)


# %%
# A radius after the other, each run from the last solution. Every point comes with a certified gap.


def path(f: fw.LinearModel, groups: np.ndarray, radii: np.ndarray) -> list[fw.Result]:
    """Solutions for growing radii."""
    found: list[fw.Result] = []
    for radius in radii:
        x0 = found[-1].x if found else None
        found.append(fw.minimize(f, fw.GroupBall(groups, radius), x0, tol=1e-8))
    return found


# %%
# Somebody else's answer: the same with a penalty in place of the radius, by proximal gradient steps. Its multiplier is
# the largest norm of a group of our gradient, and it must then find our solution.


def independent(A: np.ndarray, b: np.ndarray, x: np.ndarray, steps: int = 3000) -> np.ndarray:
    """The minimiser of the mean squared error with a penalty on the norms of groups."""
    m = len(b)
    multiplier = np.linalg.norm((A.T @ (A @ x - b) / m).reshape(-1, WAVES), axis=1).max()
    length = m / np.linalg.norm(A, 2) ** 2
    y = np.zeros_like(x)
    for _ in range(steps):
        z = (y - length * (A.T @ (A @ y - b) / m)).reshape(-1, WAVES)
        norms = np.maximum(np.linalg.norm(z, axis=1, keepdims=True), 1e-300)
        y = (np.maximum(1 - length * multiplier / norms, 0) * z).reshape(-1)
    return y


def draw(radii: np.ndarray, norms: np.ndarray, x: np.ndarray, radius: float) -> None:
    """The size of every function along the radius, and the three that matter at one of them."""
    left, *rest = plt.subplots(1, 4, figsize=(8.4, 2.6), layout="constrained", width_ratios=[1.7, 1, 1, 1])[1]
    for j, curve in enumerate(norms.T):
        left.plot(radii, curve, color=f"C{j}" if j in TRUTH else "0.75", zorder=2 + (j in TRUTH))
    for j in TRUTH:
        left.text(1.03 * radii[-1], norms[-1, j], f"variable {j + 1}", color=f"C{j}", va="center")
    left.text(1.03 * radii[-1], norms[-1, len(TRUTH) :].mean(), "the others", color="0.5", va="center")
    left.axvline(radius, color="0.4", linewidth=0.8, linestyle=":")
    left.set(xlabel="radius", ylabel="size of the function", xlim=(0, 1.45 * radii[-1]))
    t = np.linspace(0, 1, 200)
    for ax, (j, f) in zip(rest, TRUTH.items(), strict=True):
        fitted = waves(t[:, None]) @ x[j * WAVES : (j + 1) * WAVES]
        ax.plot(t, f(t) - f(t).mean(), "--", color="black", linewidth=0.8, label="truth")
        ax.plot(t, fitted, color=f"C{j}", label="fitted")
        ax.set(xlabel=f"variable {j + 1}", ylim=(-1.4, 1.4))
    rest[0].set_ylabel("effect")
    rest[0].legend(loc="upper right")


def main(m: int = 300, variables: int = 30, points: int = 25) -> dict[str, float]:
    """Follow the path, compare its middle with proximal gradient, and draw it."""
    t, response = survey(m, variables)
    A, b = waves(t), response - response.mean()
    f = fw.LinearModel(A, b)
    radii = np.linspace(0.1, 2.6, points)
    found = path(f, np.repeat(np.arange(variables), WAVES), radii)
    norms = np.array([np.linalg.norm(r.x.reshape(-1, WAVES), axis=1) for r in found])
    entered = (norms > 1e-6).sum(axis=1)
    true = (norms[:, list(TRUTH)] > 1e-6).all(axis=1)
    chosen = int(np.flatnonzero(true & (entered == entered[true].min()))[-1])  # the last radius with no more than that
    r = found[chosen]
    other = independent(A, b, r.x)
    value = float(((A @ other - b) ** 2).mean() / 2)
    gap = max(r.gap for r in found)
    print(f"{m} rows, {variables} variables with {WAVES} columns each; {points} radii")
    print(f"radius {radii[chosen]:.2f}: {entered[chosen]} variables; no gap along the path above {gap:.1e}")
    print(f"value {r.fun:.9f}, by proximal gradient {value:.9f}")
    draw(radii, norms, r.x, float(radii[chosen]))
    return {"value": r.fun, "independent": value, "entered": float(entered[chosen]), "gap": gap}


if __name__ == "__main__":
    main()
    plt.show()
