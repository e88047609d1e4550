"""Random semidefinite programs with a known feasible point, and their solution by Clarabel."""

import cvxpy as cp
import numpy as np

from fwflow import semidefinite

KINDS = ["dense", "sparse", "low rank", "blocks", "badly scaled"]


def symmetric(matrix):
    return (matrix + matrix.T) / 2


def random_program(kind, seed):
    """Return C, matrices A_i, b, which constraints are inequalities, and a bound on the trace, or None if implied."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n, m = int(rng.integers(3, 18)), int(rng.integers(1, 12))
    mask, scale = np.ones((n, n)), np.ones(m)
    if kind == "sparse":
        mask = np.triu(rng.random((n, n)) < 0.3)
    elif kind == "blocks":  # two blocks and a diagonal part
        part = np.sort(rng.integers(0, 3, n))
        mask = (part[:, None] == part) & ((part < 2)[:, None] | np.eye(n, dtype=bool))
    elif kind == "badly scaled":
        scale = 10 ** rng.uniform(-3, 3, m)
    C = symmetric(rng.standard_normal((n, n)) * mask) * (1e4 if kind == "badly scaled" else 1)
    A = [factor * symmetric(rng.standard_normal((n, n)) * mask) for factor in scale]
    if kind == "low rank":
        A = [np.outer(v, v) for v in rng.standard_normal((m, n))]
    V = rng.standard_normal((n, int(rng.integers(1, n + 1))))
    inside = V @ V.T / n
    b = np.array([(matrix * inside).sum() for matrix in A])
    inequalities = rng.random(m) < (0.4 if seed % 2 else 0.0)
    b += np.where(inequalities, 0.3 * rng.random(m) * np.abs(b), 0.0)
    if seed % 3:
        return C, A, b, inequalities, 1.5 * float(np.trace(inside))
    return C, [*A, np.eye(n)], np.append(b, np.trace(inside)), np.append(inequalities, False), None


def optimum(C, A, b, inequalities, trace=None):
    """Return the minimum that Clarabel finds."""
    X = cp.Variable(np.shape(C), PSD=True)
    products = [cp.sum(cp.multiply(matrix, X)) for matrix in A]
    constraints = [
        left <= right if signed else left == right
        for left, right, signed in zip(products, b, inequalities, strict=True)
    ]
    if trace is not None:
        constraints.append(cp.trace(X) <= trace)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(C, X))), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == "optimal"
    return problem.value


def true_bound(problem, y):
    """Return the bound of multipliers from dense eigenvalues."""
    least = np.linalg.eigvalsh(problem.slack(y).apply(np.eye(problem.n)))[0]
    return float(problem.b @ y) + problem.trace * min(0.0, float(least))


def as_problem(C, A, b, inequalities, trace):
    return semidefinite.Problem(C, A, b, trace, inequalities=inequalities)
