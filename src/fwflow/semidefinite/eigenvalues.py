"""Lower bounds on the smallest eigenvalue of a symmetric matrix, with the directions of negative curvature.

Three proofs are used, the first that is cheap: a dense eigenvalue decomposition, a sparse factorisation of the shifted
matrix with positive pivots, and Lanczos steps from a random vector. The first two hold always, the last one except
with a probability of at most 1e-10.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import SuperLU, splu

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Late, never
from fwflow.semidefinite.operators import SymmetricOperator
from fwflow.sets.lanczos import HostRecurrence, long_lanczos

# Largest order of a matrix whose eigenvalues are computed with dense arrays: 64 milliseconds on one core.
_DENSE = 400
# The same for matrices whose factors would be full. Lanczos steps need as many products if the eigenvalues are close to
# each other, as those of low-rank matrices are, and then give a poor bound.
_DENSE_OTHERS = 1200
# Largest numbers of entries of the envelope of the reordered matrix for which the matrix is factorised: at any order,
# and up to a share of all entries below the diagonal. The factors of planar graphs fill about a hundredth of the
# envelope (a power grid with 70 000 nodes, whose envelope has 4e7 entries, takes 0.1 s), those of random graphs most.
_ENVELOPE, _LARGE_ENVELOPE, _ENVELOPE_SHARE = 2e6, 6e7, 0.1
# Largest mean number of entries of a row for which the matrix is factorised. With 57, the factors of a matrix of order
# 3500 are full and take seconds, and Lanczos steps take a tenth of a second.
_ENTRIES_PER_ROW = 20
# Number of inverse iterations for directions of negative curvature. Chosen without tuning, as is the next number.
_INVERSE_STEPS = 4
# Factor between two shifts of the search for one that makes the matrix positive definite.
_SHIFT_GROWTH = 4.0
# Largest number of Lanczos steps for a bound.
_MOST = 3000
_EPS = float(np.finfo(np.float64).eps)


class Shifted(NamedTuple):
    """Factors of ``S + shift I``, a positive definite matrix, by which systems of equations are solved."""

    factors: SuperLU
    shift: float

    def solve(self, B: Array) -> Array:
        """Return the solution of ``(S + shift I) X = B``."""
        return np.asarray(self.factors.solve(B))


class Least(NamedTuple):
    """Lower bound on the smallest eigenvalue, a Rayleigh quotient close to it, and directions with small quotients."""

    bound: float
    value: float
    #: Orthonormal columns, the smallest Rayleigh quotient first.
    vectors: Array
    #: Factors that proved the bound; None if it was proved otherwise.
    shifted: Shifted | None = None


def smallest_eigenvalue(
    S: SymmetricOperator,
    slack: float = 0.0,
    *,
    share: float = 0.0,
    count: int = 1,
    guess: float = 0.0,
    late: Late = never,
    seed: int = 0,
) -> Least:
    """Return a proved lower bound on the smallest eigenvalue of S.

    Parameters
    ----------
    S : SymmetricOperator
        The matrix.
    slack, share : float
        Accuracy that the caller needs: the bound is wanted within ``max(slack, share * abs(eigenvalue))`` of the
        eigenvalue. Small numbers cost more.
    count : int
        Number of directions that are wanted.
    guess : float
        An eigenvalue near the smallest one, if that is known.
    late : callable
        Whether the time is over. The bound is then valid but less accurate.
    seed : int
        Seed of the random vectors.
    """
    if S.n <= _DENSE:
        return _dense(S, count)
    matrix = S.sparse()
    if matrix is not None and is_cheap(matrix):
        return _by_factors(matrix, slack, share, count, guess, seed)
    if S.n <= _DENSE_OTHERS:
        return _dense(S, count)
    return _by_lanczos(S, slack, share, count, late, seed)


def _dense(S: SymmetricOperator, count: int) -> Least:
    matrix = S.sparse()
    dense = S.apply(np.eye(S.n)) if matrix is None else matrix.toarray()
    dense = (dense + dense.T) / 2
    values, vectors = scipy.linalg.eigh(dense, subset_by_index=(0, min(count, S.n) - 1))
    # The eigenvalues are those of a matrix that differs by a few roundings of the norm.
    allowance = 8 * S.n * _EPS * float(np.abs(dense).sum(axis=1).max(initial=0.0))
    return Least(float(values[0]) - allowance, float(values[0]), vectors)


def is_cheap(matrix: sp.csr_array) -> bool:
    """Return whether the factors of a symmetric matrix are known to be small enough."""
    n = matrix.shape[0]
    if matrix.nnz > min(_LARGE_ENVELOPE, _ENTRIES_PER_ROW * n):
        return False
    order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    entries = matrix.tocoo()
    first = np.arange(n)
    np.minimum.at(first, place[entries.row], place[entries.col])
    return int((np.arange(n) - first).sum()) <= max(_ENVELOPE, min(_LARGE_ENVELOPE, _ENVELOPE_SHARE * n * n / 2))


def _factorised(matrix: sp.csc_array, shift: float) -> SuperLU | None:
    """Return factors of ``matrix + shift I`` with positive pivots, or None if there are none."""
    shifted = sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0], format="csc"))
    try:
        factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # the matrix is exactly singular
        return None
    positive = np.array_equal(factors.perm_r, factors.perm_c) and (factors.U.diagonal() > 0).all()
    return factors if positive else None


def _allowance(factors: SuperLU) -> float:
    """Return a bound on the amount by which the smallest eigenvalue of the factorised matrix may be negative.

    ``|A - L U| <= g |L| |U|``, where g is the rounding unit times the largest number of terms of a sum (Higham, 2002,
    theorem 9.3), and ``L D L^T`` with positive pivots D is positive definite.
    """
    L, U = sp.csr_array(factors.L), sp.csr_array(factors.U)
    terms, ones = int(np.diff(L.indptr).max()) + 2, np.ones(L.shape[0])
    rounding = dot(abs(L), dot(abs(U), ones))
    asymmetry = dot(abs(L), dot(abs(U - dot(sp.diags_array(U.diagonal()), L.T)), ones))
    return float((2 * terms * _EPS * rounding + 2 * asymmetry).max())


def _by_factors(matrix: sp.csr_array, slack: float, share: float, count: int, guess: float, seed: int) -> Least:
    columns, n = sp.csc_array(matrix), matrix.shape[0]
    norm_bound = float(abs(matrix).sum(axis=1).max())
    smallest = max(slack, 1e-13 * norm_bound, float(np.finfo(np.float64).tiny))
    shift, failed = max(smallest, -guess), -math.inf
    while (factors := _factorised(columns, shift)) is None:
        failed, shift = shift, min(_SHIFT_GROWTH * shift, 1.01 * norm_bound + smallest)
    V = np.random.default_rng(seed).standard_normal((n, min(n, count + 2)))
    while True:
        for _ in range(_INVERSE_STEPS):
            V = scipy.linalg.qr(factors.solve(V), mode="economic")[0]
        values, W = scipy.linalg.eigh(dot(V.T, dot(matrix, V)))
        V, value = dot(V, W), float(values[0])
        # The smallest eigenvalue is between -shift and the Rayleigh quotient, and below -failed.
        excess, known = shift + value, max(0.0, failed + value)
        wanted = max(smallest, share * abs(value))
        if excess <= 1.1 * wanted or known >= 0.7 * excess:
            break
        tried = max(wanted, math.sqrt(known * excess)) - value
        if (better := _factorised(columns, tried)) is None:
            failed = tried
        else:
            factors, shift = better, tried
    return Least(-shift - _allowance(factors), value, V[:, :count], Shifted(factors, shift))


def _by_lanczos(S: SymmetricOperator, slack: float, share: float, count: int, late: Late, seed: int) -> Least:
    def allowed(value: float) -> float:
        return max(slack, share * abs(value))

    recurrence = HostRecurrence(lambda v: -S.apply(v), S.n, seed)
    found = long_lanczos(recurrence, allowed, lambda value: count, _MOST, late)
    return Least(-found.bound, -found.value, found.vectors)
