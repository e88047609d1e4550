"""
D-optimal design
================

Which measurements, and how often, tell most about the unknowns? The weights of an optimal design maximise the
determinant of the information matrix over the simplex; a theorem of Kiefer and Wolfowitz checks the answer by eye.
You learn how to bring a function of your own that is defined on a part of the set only.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import scipy.linalg

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])

# %%
# A quadratic surface over the square has six unknowns. It may be measured at any point of a grid.


def quadratic_surface(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What multiplies the unknowns at each point, one row per point."""
    return np.column_stack([np.ones_like(x), x, y, x**2, x * y, y**2])


# %%
# The design minimises :math:`-\log\det M(w)` with :math:`M(w) = \sum_i w_i a_i a_i^T`. Where M is singular the function
# is infinite: ``domain`` says where it may be evaluated. Its gradient is minus the variance
# :math:`a_i^T M^{-1} a_i` of what the model predicts at each point.


def design(A: np.ndarray, tol: float = 1e-6) -> fw.Result:
    """The weights of the rows of A, as a result of `fw.minimize`."""

    def information(w: np.ndarray) -> np.ndarray:
        return A.T @ (w[:, None] * A)

    def fun(w: np.ndarray) -> float:
        sign, logdet = np.linalg.slogdet(information(w))
        return -float(logdet) if sign > 0 else np.inf

    def grad(w: np.ndarray) -> np.ndarray:
        factor = scipy.linalg.cholesky(information(w), lower=True)
        return -(scipy.linalg.solve_triangular(factor, A.T, lower=True) ** 2).sum(axis=0)

    def regular(w: np.ndarray) -> bool:
        return bool(np.linalg.eigvalsh(information(w))[0] > 0)

    m = len(A)
    return fw.minimize(fw.Smooth(fun, grad, domain=regular), fw.Simplex(), np.full(m, 1 / m), tol=tol)


# %%
# The theorem: a design is optimal if and only if no variance exceeds the number of unknowns, and then the points in use
# have exactly that. We compute the variances by another way than the gradient does.


def variances(A: np.ndarray, w: np.ndarray) -> np.ndarray:
    """a_i' M^-1 a_i of every measurement."""
    return np.einsum("ij,ji->i", A, np.linalg.solve(A.T @ np.diag(w) @ A, A.T))


def draw(x: np.ndarray, y: np.ndarray, designs: dict[str, np.ndarray], A: np.ndarray) -> None:
    """The variance over the square, and the weights as discs."""
    side = len(np.unique(x))
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained", sharey=True)
    for ax, (title, w) in zip(axes, designs.items(), strict=True):
        variance = variances(A, w)
        square = (v.reshape(side, side) for v in (x, y, variance))
        shades = ax.contourf(*square, np.arange(0, 21, 2), cmap="Blues", extend="max")
        ax.scatter(x, y, s=2800 * w, color="C2", zorder=3, clip_on=False, linewidth=0)
        for i in np.flatnonzero(w > 0.01):
            ax.text(x[i], y[i], f"{w[i]:.0%}", color="white", size=6.5, ha="center", va="center_baseline", zorder=4)
        ax.set_title(f"{title}: at most {variance.max():.1f}", pad=12)
        ax.set(xlabel="x", aspect="equal", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
        ax.tick_params(length=0, pad=12)
    axes[0].set_ylabel("y")
    figure.colorbar(shades, ax=axes, label="variance of the prediction")


# %%
# Nine places are worth measuring: corners, middles of the sides, and the centre.


def main(side: int = 21) -> dict[str, float]:
    """Design an experiment, and check it."""
    x, y = (v.reshape(-1) for v in np.meshgrid(*2 * [np.linspace(-1, 1, side)]))
    A = quadratic_surface(x, y)
    m, n = A.shape
    r, everywhere = design(A), np.full(m, 1 / m)
    worst = float(variances(A, r.x).max())
    efficiency = float(np.exp((r.fun + np.linalg.slogdet(A.T @ A / m)[1]) / n))
    print(f"{m} possible measurements of {n} unknowns: {int((r.x > 1e-3).sum())} are worth making")
    print(f"largest variance {worst:.6f}, at the optimum {n}; gap {r.gap:.1e} by {r.method} ({r.n_grad} gradients)")
    print(f"measuring everywhere alike is worth {efficiency:.0%} of as many measurements by this design")
    draw(x, y, {"Everywhere alike": everywhere, "D-optimal": r.x}, A)
    return {"worst": worst, "unknowns": n, "gap": r.gap}


if __name__ == "__main__":
    main()
    plt.show()
