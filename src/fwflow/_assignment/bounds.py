"""Certified lower bounds on quadratic assignment problems: Gilmore-Lawler, and a convex quadratic bound."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import linear_sum_assignment

from fwflow._assignment.problem import Assignment
from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.objectives.base import Line, Objective, parabola
from fwflow.points.point import Point
from fwflow.run.loop import minimize
from fwflow.run.result import State, Status
from fwflow.sets.transport import Birkhoff

# Factor of the rounding error of a sum of n^2 products in the allowance. The standard bound on the error has the factor
# 1; eigenvalues and assignments need a small multiple of it.
_ALLOWANCE = 16.0
# Number of Frank-Wolfe steps. On the QAPLIB instances with n <= 32, the larger of both bounds is 75.0 percent of the
# optimum on average after 30 steps, 75.2 after 50 and 75.4 after 200.
_STEPS = 50


def gilmore_lawler(problem: Assignment) -> float:
    r"""Return the bound of Gilmore (1962) and Lawler (1963).

    If row i is assigned to column j, then the terms :math:`\sum_k A_{ik} B_{j p(k)}` are at least the smallest inner
    product of the rows i of A and j of B under permutations that keep the diagonal entries together. A linear
    assignment problem sums these bounds. The columns give a second bound of the same kind.
    """
    if problem.n < 2:
        return problem.constant + float(problem.C.sum())
    bounds = []
    for A, B in ((problem.A, problem.B), (problem.A.T, problem.B.T)):
        smallest = dot(_sorted_rows(A), _sorted_rows(B)[:, ::-1].T) + problem.C
        bounds.append(float(smallest[linear_sum_assignment(smallest)].sum()))
        if problem.symmetric:
            break
    return problem.constant + max(bounds) - _allowance(problem)


def _sorted_rows(M: Array) -> Array:
    """Return the entries of every row in ascending order, without the diagonal."""
    n = len(M)
    return np.sort(M[~np.eye(n, dtype=bool)].reshape(n, n - 1), axis=1)


def _allowance(problem: Assignment) -> float:
    """Return more than the rounding error of a sum of products, an assignment or an eigenvalue of this problem."""
    return _ALLOWANCE * problem.n**2 * float(np.finfo(np.float64).eps) * problem.scale


class _ConvexQuadratic(Objective):
    r"""Convex function on doubly stochastic matrices that is equal to the assignment value at permutations.

    Let the columns of V be an orthonormal basis of the vectors with sum zero, and let :math:`V^TAV` and :math:`V^TBV`
    have the eigenvalues :math:`\lambda_1 \le \lambda_2 \le \dots` and :math:`\sigma_1 \ge \sigma_2 \ge \dots`. The
    numbers s and t solve the dual of the assignment problem with costs :math:`\lambda_i\sigma_j`, so that
    :math:`s_i + t_j \le \lambda_i\sigma_j` with equality for i = j. Let S and T have the eigenvalues s and t with the
    eigenvectors of A and B. Then :math:`\mathrm{tr}(AXBX^T) - \mathrm{tr}(SXX^T) - \mathrm{tr}(XTX^T)` is convex on
    doubly stochastic matrices, and permutations have :math:`XX^T = X^TX = I` (Anstreicher and Brixius, 2001).

    Matrices that are not symmetric are replaced by the Hermitian matrices with the symmetric part as the real part and
    the other part as the imaginary part (Hadley, Rendl and Wolkowicz, 1990). This does not change the function.
    """

    convex = True
    trusted = True

    def __init__(self, problem: Assignment) -> None:
        n = problem.n
        self.shape, self.problem = (n, n), problem
        A, B = (_hermitian(M, problem.symmetric) for M in (problem.A, problem.B))
        V = _sum_zero_basis(n)
        (a, W), (b, U) = (eigh(dot(V.T, dot(M, V))) for M in (A, B))
        b, U = b[::-1], U[:, ::-1]
        # The inequalities hold if t_{i+1} - t_i is between a_{i+1} d and a_i d for d = b_{i+1} - b_i. It is the mean.
        t = np.concatenate([[0.0], np.cumsum((a[:-1] + a[1:]) / 2 * np.diff(b))])
        t += ((a * b).sum() / 2 - t.sum()) / len(t)  # half of the sum of all eigenvalues, for numbers of equal size
        s = a * b - t
        self.S, self.T = (np.real(dot(F * e, F.conj().T)) for F, e in ((dot(V, W), s), (dot(V, U), t)))
        self.offset = problem.constant + float((a * b).sum())
        size = float(np.abs(a).max() * np.abs(b).max() + np.abs(s).max() + np.abs(t).max())
        # An eigenvalue of the Hessian that is negative by rounding changes f by this number times |X - Y|^2 <= 2n.
        self.rounding_error = _allowance(problem) + 2 * n * _ALLOWANCE * n * float(np.finfo(np.float64).eps) * size

    def _hessian(self, X: Array) -> Array:
        return self.problem.hessian(X) - 2 * (dot(self.S, X) + dot(X, self.T))

    def value(self, point: Point) -> float:
        X = point.x
        return self.offset + float(np.vdot(self._hessian(X), X)) / 2 + float(np.vdot(self.problem.C, X))

    def gradient(self, point: Point) -> Array:
        return self._hessian(point.x) + self.problem.C

    def evaluated(self, point: Point) -> tuple[float, Any] | None:
        H = self._hessian(point.x)
        return self.offset + float(np.vdot(H / 2 + self.problem.C, point.x)), H + self.problem.C

    def along(self, start: Point, end: Point, value0: float) -> Line:
        d = end.x - start.x
        H, slope = self._hessian(d), self._hessian(start.x) + self.problem.C
        return parabola(value0, float(np.vdot(slope, d)), max(float(np.vdot(H, d)), 0.0), float(np.vdot(d, d)))


def _hermitian(M: Array, symmetric: bool) -> Array:
    return M if symmetric else ((M + M.T) + 1j * (M - M.T)) / 2


def _sum_zero_basis(n: int) -> Array:
    """Return n - 1 orthonormal columns with sum zero, from the Householder reflection of the vector of ones."""
    v = np.ones(n)
    v[0] += math.sqrt(n)
    return (np.eye(n) - 2 * np.outer(v, v) / float(np.vdot(v, v)))[:, 1:]


class ConvexBound(NamedTuple):
    """Lower bound, and whether time ran out or the user interrupted its computation."""

    bound: float
    status: Status


def convex_quadratic(problem: Assignment, known: float, max_time: float) -> ConvexBound:
    """Return the convex quadratic bound after some steps of Frank-Wolfe. It is valid after any number of steps.

    The steps end if they cannot lead to a larger bound than the one that is known.
    """
    if problem.n < 2:
        return ConvexBound(-math.inf, Status.FINISHED)
    f, bound = _ConvexQuadratic(problem), -math.inf

    def keep(state: State) -> bool:
        nonlocal bound
        bound = max(bound, state.fun - state.gap)
        return state.fun <= known

    limits: dict[str, Any] = {"tol": 0, "max_iter": _STEPS, "max_time": None if max_time == math.inf else max_time}
    r = minimize(f, Birkhoff(problem.n), method="fw", line_search="exact", callback=keep, **limits)
    interrupted = r.status is Status.INTERRUPTED
    return ConvexBound(bound - f.rounding_error, r.status if interrupted else Status.FINISHED)
