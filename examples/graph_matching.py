"""
Graph matching: who sits where?
===============================

Offices on a grid, and people with much or little to say to each other: seat them so that they walk least. That is the
quadratic assignment problem, relaxed to doubly stochastic matrices and rounded, as SciPy's FAQ does it. You learn to
give a quadratic a Hessian that is never formed, and to start from several places where a problem is not convex.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import LineCollection
from scipy.optimize import linear_sum_assignment, quadratic_assignment

import fwflow as fw

plt.style.use(["seaborn-v0_8-colorblind", {"font.size": 9, "axes.titlesize": 9, "legend.frameon": False}])
plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False})

# %%
# The value of a permutation matrix P is :math:`\mathrm{tr}(A P B^T P^T)`, and its Hessian a sandwich. A design of its
# own applies that without forming it, and to a permutation by reordering rows.


class Sandwich(fw.Design):
    """X -> A X B' + A' X B, on matrices read row by row."""

    def __init__(self, A: np.ndarray, B: np.ndarray) -> None:
        self.A, self.B, self.n = A, B, len(A)
        self.shape, self.dtype = (self.n**2, self.n**2), np.dtype(float)

    def matvec(self, x: np.ndarray) -> np.ndarray:
        X = x.reshape(self.n, self.n)
        return (self.A @ (X @ self.B.T) + self.A.T @ (X @ self.B)).reshape(-1)

    rmatvec = matvec

    def column(self, j: int) -> fw.DenseVertex:
        return self.combined(np.array([j]), np.ones(1))

    def combined(self, indices: np.ndarray, values: np.ndarray) -> fw.DenseVertex:
        rows, columns = np.divmod(indices, self.n)
        left, right = np.zeros((2, self.n, self.n))
        np.add.at(left, rows, values[:, None] * self.B.T[columns])
        np.add.at(right, rows, values[:, None] * self.B[columns])
        return fw.DenseVertex((self.A @ left + self.A.T @ right).reshape(-1))


# %%
# The barycentre is a stationary point of some instances, and ties there are decided by chance: starts near it help.


def match(A: np.ndarray, B: np.ndarray, starts: int = 1) -> tuple[float, np.ndarray]:
    """The best value of sum_ij A_ij B_p(i)p(j) and its permutation p, from the barycentre and from starts near it."""
    f, C, best = fw.Quadratic(Sandwich(A, B)), fw.Birkhoff(len(A)), (np.inf, np.arange(len(A)))
    for seed in range(starts):
        x0 = None if seed == 0 else (C.random_start(seed).reshape(-1) + 1 / len(A)) / 2
        r = fw.minimize(f, C, x0, method="fw", line_search="exact", tol=0, max_iter=30)
        p = linear_sum_assignment(-r.x.reshape(A.shape))[1]
        best = min(best, (float((A * B[np.ix_(p, p)]).sum()), p), key=lambda found: found[0])
    return best


def faq(A: np.ndarray, B: np.ndarray, starts: int) -> float:
    """SciPy's answer, from as many starts."""
    rng = np.random.default_rng(0)
    options = [{"P0": "randomized" if again else "barycenter", "rng": rng} for again in range(starts)]
    return min(quadratic_assignment(A, B, options=option).fun for option in options)


# %%
# Teams talk among themselves, and a little to everybody. The solver does not know them; the figure has their colours.


def office(side: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Offices on a grid, the team of everybody, and who has how much to say to whom."""
    rng, n = np.random.default_rng(seed), side**2
    team = rng.permutation(np.arange(n) % side)
    talk = np.triu(np.where(team[:, None] == team, rng.integers(3, 11, (n, n)), rng.random((n, n)) < 0.1), 1)
    return np.argwhere(np.ones((side, side))), team, (talk + talk.T).astype(float)


def draw(places: np.ndarray, team: np.ndarray, talk: np.ndarray, A: np.ndarray, p: np.ndarray) -> None:
    """The offices, with lines between those who talk much, and how far words go."""
    axes = plt.subplots(1, 3, figsize=(7.2, 2.6), layout="constrained")[1]
    seatings = ("As they came", "0.6", np.arange(len(p))), ("Seated", "C0", p)
    for ax, (title, colour, order) in zip(axes, seatings, strict=False):
        said = talk[np.ix_(order, order)]
        ax.add_collection(LineCollection(places[np.argwhere(np.triu(said > 2))], color="0.75", linewidth=0.5))
        ax.scatter(*places.T, c=team[order], cmap="tab10", s=45, zorder=2)
        ax.set(title=title, aspect="equal")
        ax.set_axis_off()
        share = np.bincount(A.astype(int).reshape(-1), said.reshape(-1)) / said.sum()
        axes[2].plot(100 * share, ".-", color=colour, label=title.lower())
    axes[2].set(xlabel="distance on the grid", ylabel="of all that is said, %", ylim=(0, None))
    axes[2].legend(loc="upper right")


def main(side: int = 7, starts: int = 8) -> dict[str, float]:
    """Seat everybody, and compare with SciPy."""
    places, team, talk = office(side)
    A = np.abs(places[:, None] - places[None]).sum(axis=2).astype(float)
    ours, p = match(A, talk, starts)
    theirs, before = faq(A, talk, starts), float((A * talk).sum())
    print(
        f"{side**2} offices: they walk {before:.0f} as they came, {ours:.0f} seated, {theirs:.0f} seated by SciPy's FAQ"
    )
    draw(places, team, talk, A, p)
    return {"ours": ours, "faq": theirs, "before": before}


if __name__ == "__main__":
    main()
    plt.show()
