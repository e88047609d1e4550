"""Lower bounds on the smallest eigenvalue of a symmetric matrix, with the directions of negative curvature.

Three proofs are used, the first that is cheap: a dense eigenvalue decomposition, a sparse factorisation of the shifted
matrix with positive pivots, and Lanczos steps from a random vector. The first two hold always, the last one except
with a probability of at most `FAILURE`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import SuperLU, splu

from fwflow._validation import Array
from fwflow.methods.problem import Late, never
from fwflow.semidefinite.operators import SymmetricOperator
from fwflow.sets.lanczos import long_lanczos

# Largest order of a matrix whose eigenvalues are computed with dense arrays: 64 milliseconds on one core.
_DENSE = 400
# Largest number of entries below the diagonal within the envelope of the reordered matrix, for which the matrix is
# factorised. Minimum degree orderings fill about a hundredth of the envelope of a planar graph (1.3 s for a random
# graph of degree 3 with 20 000 nodes, whose envelope has 5e7 entries; 0.1 s for a power grid with 70 000 nodes).
_ENVELOPE = 6e7
# Number of inverse iterations for directions of negative curvature. Chosen without tuning, as is the next number.
_INVERSE_STEPS = 4
# Factor between two shifts of the search for one that makes the matrix positive definite.
_SHIFT_GROWTH = 4.0
# Largest number of Lanczos steps for a bound.
_MOST = 3000
_EPS = float(np.finfo(np.float64).eps)


class Least(NamedTuple):
    """Lower bound on the smallest eigenvalue, a Rayleigh quotient close to it, and directions with small quotients."""

    bound: float
    value: float
    #: Orthonormal columns, the smallest Rayleigh quotient first.
    vectors: Array


def smallest_eigenvalue(
    S: SymmetricOperator,
    slack: float = 0.0,
    *,
    count: int = 1,
    near: Array | None = None,
    late: Late = never,
    seed: int = 0,
) -> Least:
    """Return a proved lower bound on the smallest eigenvalue of S.

    Parameters
    ----------
    S : SymmetricOperator
        The matrix.
    slack : float
        Accuracy that the caller needs: the bound is wanted within `slack` of the eigenvalue. A small number costs more.
    count : int
        Number of directions that are returned.
    near : array, optional
        Columns close to the eigenvectors, for example those of an earlier call.
    late : callable
        Whether the time is over. The bound is then valid but less accurate.
    seed : int
        Seed of the random vectors.
    """
    matrix = S.sparse()
    if S.n <= _DENSE:
        return _dense(S, count)
    if matrix is not None and _is_cheap(matrix):
        return _by_factors(matrix, slack, count, near, seed)
    return _by_lanczos(S, slack, count, late, seed)


def _dense(S: SymmetricOperator, count: int) -> Least:
    matrix = S.sparse()
    dense = S.apply(np.eye(S.n)) if matrix is None else matrix.toarray()
    dense = (dense + dense.T) / 2
    values, vectors = scipy.linalg.eigh(dense, subset_by_index=(0, min(count, S.n) - 1))
    # The eigenvalues are those of a matrix that differs by a few roundings of the norm.
    allowance = 8 * S.n * _EPS * float(np.abs(dense).sum(axis=1).max(initial=0.0))
    return Least(float(values[0]) - allowance, float(values[0]), vectors)


def _is_cheap(matrix: sp.csr_array) -> bool:
    """Return whether the factors of a matrix are known to be small enough."""
    n = matrix.shape[0]
    if matrix.nnz > _ENVELOPE:
        return False
    order = reverse_cuthill_mckee(sp.csr_matrix(matrix), symmetric_mode=True)
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    entries = matrix.tocoo()
    first = np.arange(n)
    np.minimum.at(first, place[entries.row], place[entries.col])
    return int((np.arange(n) - first).sum()) <= _ENVELOPE


def _factors(matrix: sp.csc_array, shift: float) -> tuple[SuperLU, float] | None:
    """Return the factors of ``matrix + shift I`` and an allowance, or None if it is not positive definite.

    The smallest eigenvalue of the matrix is at least ``-shift - allowance``: the factors satisfy
    ``|A - L U| <= g |L| |U|`` with ``g`` a rounding times the largest number of terms (Higham, 2002, theorem 9.3), and
    ``L D L^T`` with positive pivots D is positive definite.
    """
    shifted = sp.csc_array(matrix + shift * sp.eye_array(matrix.shape[0], format="csc"))
    try:
        factors = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # the matrix is exactly singular
        return None
    L, U = sp.csr_array(factors.L), sp.csr_array(factors.U)
    pivots = U.diagonal()
    if not (np.array_equal(factors.perm_r, factors.perm_c) and (pivots > 0).all()):
        return None
    terms = int(np.diff(L.indptr).max()) + 2
    ones = np.ones(len(pivots))
    size = abs(L) @ (abs(U) @ ones)
    asymmetry = abs(L) @ (abs(U - sp.diags_array(pivots) @ L.T) @ ones)
    return factors, float((2 * terms * _EPS * size + 2 * asymmetry).max())


def _by_factors(matrix: sp.csr_array, slack: float, count: int, near: Array | None, seed: int) -> Least:
    columns, n = sp.csc_array(matrix), matrix.shape[0]
    norm_bound = float(abs(matrix).sum(axis=1).max())
    smallest_shift = max(slack, 1e-13 * norm_bound)
    shift = smallest_shift
    while (found := _factors(columns, shift)) is None:
        shift = min(_SHIFT_GROWTH * shift, 1.01 * norm_bound + smallest_shift)
    factors, allowance = found
    V = np.random.default_rng(seed).standard_normal((n, count + 2))
    if near is not None:
        V[:, : min(near.shape[1], count)] += math.sqrt(n) * near[:, :count]
    for _ in range(_INVERSE_STEPS):
        V = scipy.linalg.qr(factors.solve(V), mode="economic")[0]
    values, W = scipy.linalg.eigh(V.T @ (matrix @ V))
    V = (V @ W)[:, :count]
    bound = -shift - allowance
    # The Rayleigh quotient tells how much of the last shift was too much.
    tight = smallest_shift - float(values[0])
    if tight < 0.9 * shift and (found := _factors(columns, tight)) is not None:
        bound = max(bound, -tight - found[1])
    return Least(bound, float(values[0]), V)


def _by_lanczos(S: SymmetricOperator, slack: float, count: int, late: Late, seed: int) -> Least:
    found = long_lanczos(lambda v: -S.apply(v), S.n, slack, count, min(_MOST, S.n), late, seed)
    return Least(-found.bound, -found.value, found.vectors)
