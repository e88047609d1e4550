"""D-optimal design: which measurements, and how often, tell most about the unknowns?

The design w on the simplex maximises log det of the information matrix M(w) = sum_i w_i a_i a_i'. The function has a
domain (M must be regular), a gradient that is cheap once M is factored, and an optimality condition by which anybody
can check the answer: at the optimum no measurement has a variance a_i' M^-1 a_i above the number n of unknowns, and
those in use have exactly n (Kiefer & Wolfowitz, 1960).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

import fwflow as fw


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


def variances(A: np.ndarray, w: np.ndarray) -> np.ndarray:
    """a_i' M^-1 a_i of every measurement, by another way than the gradient."""
    return np.einsum("ij,ji->i", A, np.linalg.solve(A.T @ np.diag(w) @ A, A.T))


def main(m: int = 300, n: int = 8) -> dict[str, float]:
    """Design an experiment, and check it."""
    A = np.random.default_rng(0).standard_normal((m, n))
    r = design(A)
    worst = float(variances(A, r.x).max())
    print(f"{m} possible measurements of {n} unknowns: {int((r.x > 1e-4).sum())} are worth making")
    print(f"largest variance {worst:.6f}, at the optimum {n}; gap {r.gap:.1e} by {r.method} ({r.n_grad} gradients)")
    return {"worst": worst, "unknowns": n, "gap": r.gap}


if __name__ == "__main__":
    main()
