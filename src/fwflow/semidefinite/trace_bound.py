"""Bound on the trace of X that follows from the constraints of a semidefinite program."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.linalg import lsmr

from fwflow._numerics import dot, quietly
from fwflow._validation import Array
from fwflow.semidefinite.operators import ConstraintMap

# Largest error of the diagonal of sum_i w_i A_i in a solution of the linear program. The weights are divided by the
# smallest entry, so that a smaller error makes no difference.
_ERROR = 1e-6
# Error at which sum_i w_i A_i counts as the identity, relative to it; its products are bounded by rounding errors only.
_IDENTITY = 1e-12
# Bound of programs whose constraints force the trace to be negative. Every number is valid, since no X satisfies them.
_ANY = 1.0


def implied_trace(map: ConstraintMap, b: Array, inequalities: Array) -> float | None:
    r"""Return a bound on the trace of every feasible X, or None if none is found.

    Weights w with :math:`\sum_i w_i A_i \succeq I` and :math:`w_i \ge 0` for inequalities give :math:`\operatorname{tr}
    X \le \langle \sum_i w_i A_i, X \rangle \le b^T w`. They are sought among the diagonal constraints, by a linear
    program, and then among all with :math:`\sum_i w_i A_i = I`, by least squares.
    """
    found = map.sparse_rows()
    if found is None:
        return None
    rows, cols, M = found
    bound = _from_diagonals(map.n, rows, cols, M, b, inequalities)
    if bound is None:
        bound = _from_identity(map.n, rows, cols, M, b, inequalities)
    return _ANY if bound is not None and bound < 0 else bound


def _from_diagonals(n: int, rows: Array, cols: Array, M: sp.csr_array, b: Array, inequalities: Array) -> float | None:
    """Return the smallest b^T w over weights of diagonal constraints whose weighted sum is at least I."""
    on = rows == cols
    off_entries = np.asarray(abs(M[:, ~on]).sum(axis=1)).reshape(-1)
    some = np.flatnonzero((off_entries == 0) & (np.diff(M.indptr) > 0))
    diagonals = sp.csr_array(
        sp.coo_array((np.ones(int(on.sum())), (rows[on], np.arange(int(on.sum())))), (n, int(on.sum())))
    )
    sums = sp.csr_array(dot(diagonals, sp.csr_array(M[some][:, on]).T))  # column i is the diagonal of A_i
    if not len(some) or (np.diff(sums.indptr) == 0).any():
        return None
    if len(some) == n and sums.nnz == n and np.array_equal(sums.indices, np.arange(n)) and (sums.data > 0).all():
        weights = 1 / sums.data
        return float(dot(weights, b[some]))
    limits = [(0 if signed else None, None) for signed in inequalities[some]]
    answer = quietly(linprog)(b[some], A_ub=-sums, b_ub=-np.ones(n), bounds=limits, method="highs")
    if answer.status == 3:  # the trace would have to be less than any number, so no X satisfies the constraints
        return _ANY
    if answer.x is None:
        return None
    weights = np.where(inequalities[some], np.maximum(answer.x, 0), answer.x)
    least = float(np.asarray(dot(sums, weights)).min())
    return None if least < 1 - _ERROR else float(dot(weights, b[some])) / least


def _from_identity(n: int, rows: Array, cols: Array, M: sp.csr_array, b: Array, inequalities: Array) -> float | None:
    """Return b^T w for weights with sum_i w_i A_i = I, if there are any."""
    target = (rows == cols).astype(np.float64)
    if target.sum() < n:
        return None
    weights = quietly(lsmr)(M.T, target, atol=1e-15, btol=1e-15, conlim=0, maxiter=10 * n)[0]
    error = np.abs(np.asarray(dot(M.T, weights)) - target).max()
    if error > _IDENTITY * max(1.0, math.sqrt(n)) or (weights[inequalities] < 0).any():
        return None
    return float(dot(weights, b)) * (1 + 2 * n * float(error))
