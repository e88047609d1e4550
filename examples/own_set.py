"""
A set of your own
=================

A set is its oracle. Here are the increasing functions between 0 and 1, whose vertices are steps: with the squared loss
that is isotonic regression, and SciPy knows the answer. You learn to write a set and a vertex that stays small, to
check them, and that every objective and method then works on them: also a loss that shrugs at outliers.
"""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import isotonic_regression

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# A vertex is zero up to a place and one from there on. It is kept as that place: adding it to x is the only thing
# that takes as long as x.


@dataclass(frozen=True, eq=False)
class Step(fw.Vertex):
    """Zero up to a place, and one from there on."""

    place: int
    shape: tuple[int, ...]

    storage = 1  # numbers that are kept

    def add_to(self, x: np.ndarray, weight: float) -> None:
        x[self.place :] += weight

    def dot(self, g: np.ndarray) -> float:
        return float(g[self.place :].sum())


# %%
# The oracle looks for the step along which the gradient sums to least: one cumulative sum.


class Increasing(fw.ConstraintSet):
    """Vectors with ``0 <= x[0] <= x[1] <= ... <= 1``."""

    polytope = True

    def lmo(self, g: np.ndarray, hint: fw.Vertex | None = None) -> Step:
        tails = np.append(np.cumsum(g[::-1])[::-1], 0.0)
        return Step(int(tails.argmin()), g.shape)

    def start(self, shape: tuple[int, ...] | None = None, dtype: type = np.float64) -> np.ndarray:
        return np.zeros(shape, dtype)

    def contains(self, x: np.ndarray, tol: float = 1e-9) -> bool:
        return bool((np.diff(x, prepend=0.0, append=1.0) >= -tol).all())

    def diameter(self, shape: tuple[int, ...] | None = None) -> float:
        return float(np.sqrt(shape[0]))


# %%
# How much of a dose works? Noisy measurements of an increasing curve, some of them quite wrong.


def responses(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Doses, the true curve, and what was measured."""
    rng = np.random.default_rng(seed)
    dose = np.linspace(0, 10, n)
    truth = 1 / (1 + np.exp(4 - dose))
    wrong, noise = rng.uniform(-0.5, 0.2, n), 0.08 * rng.standard_normal(n)
    return dose, truth, np.where(rng.random(n) < 0.15, wrong, truth + noise)


def draw(dose: np.ndarray, truth: np.ndarray, measured: np.ndarray, fits: dict[str, fw.Result]) -> None:
    """The fits, and how soon they were found."""
    scipy = np.clip(isotonic_regression(measured).x, 0, 1)
    left, right = plt.subplots(1, 2, figsize=(7.2, 3.0), layout="constrained", width_ratios=[1.5, 1])[1]
    left.plot(dose, measured, ".", color="0.7", markersize=4, label="measured")
    left.plot(dose, truth, "--", color="black", linewidth=0.8, label="truth")
    for colour, (loss, r) in zip(("C2", "C0"), fits.items(), strict=True):
        left.step(dose, r.x, where="mid", color=colour, label=f"{loss} loss")
        right.semilogy(r.trace["gap"], color=colour, label=f"{loss} loss")
    left.plot(dose[::8], scipy[::8], "o", color="C2", fillstyle="none", markersize=5, label="squared loss, by SciPy")
    left.set(xlabel="dose, mg", ylabel="response", ylim=(-0.55, 1.25))
    left.legend(loc="upper left", fontsize=7.5)
    right.set(xlabel="iteration", ylabel="certified gap")


def main(n: int = 200) -> dict[str, float]:
    """Check the set, fit twice, and compare."""
    dose, truth, measured = responses(n)
    members = np.sort(np.random.default_rng(1).random((100, n)), axis=1)
    excess = fw.checks.lmo_excess(Increasing(), measured, members)
    print(f"the best of {len(members)} random members is worse than the oracle's vertex by {-excess:.2f}")
    losses = {"squared": {"loss": "squared"}, "Huber": {"loss": "huber", "rho": 0.05}}
    models = {name: fw.LinearModel(np.eye(n), measured, **loss) for name, loss in losses.items()}
    fits = {name: fw.minimize(f, Increasing()) for name, f in models.items()}
    difference = float(np.abs(fits["squared"].x - np.clip(isotonic_regression(measured).x, 0, 1)).max())
    print(f"squared loss: SciPy's answer up to {difference:.0e}, by {fits['squared'].method}")
    errors = {name: float(np.abs(r.x - truth).mean()) for name, r in fits.items()}
    for name, r in fits.items():
        print(f"{name} loss: {errors[name]:.3f} from the truth on average; gap {r.gap:.0e}, verified: {r.success}")
    draw(dose, truth, measured, fits)
    return {"excess": excess, "difference": difference, **errors}


if __name__ == "__main__":
    main()
    plt.show()
