"""Graph matching: the relaxed quadratic assignment problem on the Birkhoff polytope, against SciPy's FAQ.

FAQ (Vogelstein et al., 2015) is Frank-Wolfe with exact line search on trace(A P B' P') over doubly stochastic
matrices, rounded in the end. The Hessian is a sandwich, X -> A X B' + A' X B, which a design of its own applies without
forming it, and to a permutation by reordering; the image of X is carried, so a step costs one product of matrices.

The barycentre is a stationary point of some instances, and ties there are decided by chance: seeded random starts help.
Give QAPLIB files (.dat) on the command line to run on those; otherwise instances like its "sko" family are made.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment, quadratic_assignment

import fwflow as fw


class Sandwich(fw.Design):
    """X -> A X B' + A' X B, on matrices read row by row."""

    def __init__(self, A: np.ndarray, B: np.ndarray) -> None:
        self.A, self.B, self.n = A, B, len(A)
        self.shape, self.dtype = (self.n**2, self.n**2), np.dtype(float)
        self.symmetric = bool((A == A.T).all() and (B == B.T).all())

    def _both(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """A S B' + A' S B from S B' and S B."""
        return (2 * (self.A @ left) if self.symmetric else self.A @ left + self.A.T @ right).reshape(-1)

    def matvec(self, x: np.ndarray) -> np.ndarray:
        X = x.reshape(self.n, self.n)
        return self._both(X @ self.B.T, X @ self.B)

    rmatvec = matvec

    def column(self, j: int) -> fw.DenseVertex:
        i, k = divmod(j, self.n)
        both = np.outer(self.A[:, i], self.B[:, k]) + np.outer(self.A[i], self.B[k])
        return fw.DenseVertex(both.reshape(-1))

    def combined(self, indices: np.ndarray, values: np.ndarray) -> fw.Vertex:
        rows, columns = np.divmod(indices, self.n)
        left, right = np.zeros_like(self.B), np.zeros_like(self.B)
        left[rows], right[rows] = values[:, None] * self.B.T[columns], values[:, None] * self.B[columns]
        return fw.DenseVertex(self._both(left, right))


def match(A: np.ndarray, B: np.ndarray, starts: int = 1) -> tuple[float, np.ndarray]:
    """The best value of sum_ij A_ij B_p(i)p(j) and its permutation p, from the barycentre and from random starts."""
    f, C, best = fw.Quadratic(Sandwich(A, B)), fw.Birkhoff(len(A)), (np.inf, np.arange(len(A)))
    for seed in range(starts):
        x0 = None if seed == 0 else C.random_start(seed).reshape(-1)
        r = fw.minimize(f, C, x0, method="fw", line_search="exact", tol=0, max_iter=30)
        p = linear_sum_assignment(-r.x.reshape(A.shape))[1]
        best = min(best, (float((A * B[np.ix_(p, p)]).sum()), p), key=lambda found: found[0])
    return best


def read(path: str) -> tuple[np.ndarray, np.ndarray]:
    """The two matrices of a QAPLIB file."""
    n, *numbers = (float(word) for word in Path(path).read_text().split())
    A, B = np.array(numbers[: 2 * int(n) ** 2]).reshape(2, int(n), int(n))
    return A, B


def grid_and_flows(side: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances on a square grid and random flows, after Skorin-Kapov."""
    rng, places = np.random.default_rng(seed), np.argwhere(np.ones((side, side)))
    flows = np.triu(rng.choice([0, 0, 1, 2, 3, 5, 5, 10], (side**2, side**2)), 1)
    return np.abs(places[:, None] - places[None]).sum(axis=2).astype(float), (flows + flows.T).astype(float)


def faq(A: np.ndarray, B: np.ndarray, starts: int) -> float:
    """SciPy's answer, from as many starts."""
    places = ["barycenter", *(starts - 1) * ["randomized"]]
    options = [{"P0": place, "rng": np.random.default_rng(seed)} for seed, place in enumerate(places)]
    runs = [quadratic_assignment(A, B, options=option) for option in options]
    return min(run.fun for run in runs)


def main(*paths: str, side: int = 8, starts: int = 4) -> dict[str, tuple[float, float]]:
    """Match graphs, and print what SciPy finds in which time."""
    cases = {Path(path).stem: read(path) for path in paths} or {f"grid{i}": grid_and_flows(side, i) for i in range(3)}
    found = {}
    print(f"{'':<10}{'n':>4}{'fwflow':>14}{'FAQ':>14}{'ms':>10}{'FAQ, ms':>10}")
    for name, (A, B) in cases.items():
        begun = time.perf_counter()
        ours = match(A, B, starts)[0]
        between = time.perf_counter()
        theirs = faq(A, B, starts)
        times = 1e3 * (between - begun), 1e3 * (time.perf_counter() - between)
        print(f"{name:<10}{len(A):>4}{ours:>14.0f}{theirs:>14.0f}{times[0]:>10.1f}{times[1]:>10.1f}")
        found[name] = (ours, theirs)
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
