"""Permutations by Frank-Wolfe from many starting points, and their improvement by swaps."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.optimize import linear_sum_assignment

from fwflow._assignment.problem import Assignment
from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Late

# Limits of a Frank-Wolfe run: _STEPS + n / _ROWS_PER_STEP steps, and the root mean square change of a row of X below
# which a run ends. The change is that of SciPy, which takes 30 steps. For n <= 32 the time for more steps is better
# spent on swaps. Isomorphic graphs with 100 nodes need about 30 steps.
_STEPS, _ROWS_PER_STEP, _CHANGE = 15, 8, 0.03
# Number of random permutations in a random starting point. Chosen without tuning.
_MIXED = 8
# Numbers of matrix entries of all points that are held at once: 16 MB.
_ROOM = 2**21
# Number of swaps without a new best value after which the search from a start ends. On the QAPLIB instances with
# n <= 32, the values 0, 10, 20 and 40 leave a mean excess of 2.5, 1.4, 1.1 and 1.0 percent over the best known value.
_PATIENCE = 20
# Relative size of a decrease that counts as one. Rounding errors of the updated values are smaller.
_DECREASE = 1e-12


def batches(problem: Assignment, count: int) -> Iterator[slice]:
    """Yield slices of `count` starts that fit into memory together."""
    size = max(1, _ROOM // problem.n**2)
    return (slice(first, min(first + size, count)) for first in range(0, count, size))


def starting_points(n: int, batch: slice, seed: int) -> Array:
    """Return doubly stochastic matrices: the barycentre for start 0, and random mixtures with it for the others."""
    X = np.full((batch.stop - batch.start, n, n), 1 / n)
    for x, start in zip(X, range(batch.start, batch.stop), strict=True):
        if start > 0:
            x /= 2
            rows = np.tile(np.arange(n), (_MIXED, 1))
            np.add.at(x, (rows, np.random.default_rng([seed, start]).permuted(rows, axis=1)), 0.5 / _MIXED)
    return X


def frank_wolfe(problem: Assignment, X: Array, late: Late) -> Array:
    """Return permutations near stationary points, one for each starting point X[k].

    The steps are those of FAQ (Vogelstein et al., 2015). All starts take their steps together: n is small, so that
    single runs would spend most of their time in calls. Exact line searches need no product but the one for the vertex.
    """
    X, H, active = X.copy(), np.stack([problem.hessian(x) for x in X]), np.arange(len(X))
    rows = np.arange(problem.n)
    for _ in range(_STEPS + problem.n // _ROWS_PER_STEP):
        x, h = X[active], H[active]
        g = h + problem.C
        q = np.stack([linear_sum_assignment(cost)[1] for cost in g])
        d = -x
        d[np.arange(len(q))[:, None], rows, q] += 1
        change = problem.hessian_at(q) - h
        slope, curvature = np.einsum("kij,kij->k", g, d), np.einsum("kij,kij->k", change, d)
        step = np.where(slope + curvature <= 0, 1.0, -slope / np.where(curvature > 0, curvature, np.inf))
        # A concave function is lowest at an end of the segment. A slope that rounding makes positive allows no step.
        step = np.where(curvature > 0, step, np.where(slope + curvature / 2 < 0, 1.0, 0.0)).clip(0.0, 1.0)
        X[active], H[active] = x + step[:, None, None] * d, h + step[:, None, None] * change
        active = active[step * np.sqrt(np.einsum("kij,kij->k", d, d) / problem.n) > _CHANGE]
        if not len(active) or late():
            break
    return np.stack([linear_sum_assignment(-x)[1] for x in X])


def improved(problem: Assignment, p: Array, seed: int, late: Late) -> Array:
    """Return the best permutations that a tabu search finds by swaps, one for each row of p.

    A step makes the best swap of two columns. A swap that would undo a recent one is forbidden unless it gives a new
    best value (robust tabu search, Taillard 1991). No swap improves the returned permutations, unless time runs out.

    With ``e = e_r - e_s`` and ``B' = B[p][:, p]``, the swap of columns r and s changes the value by
    ``-e^T (B' A^T + A^T B' + C') e + (e^T A e) (e^T B' e)``. A swap changes each product by an outer product.
    """
    n, A = problem.n, problem.A
    if n < 2:
        return p
    rng, p = np.random.default_rng([seed, n]), p.copy()
    B, C = np.stack([problem.B[np.ix_(q, q)] for q in p]), np.stack([problem.C[:, q] for q in p])
    right = dot(B, A.T)
    left = right.transpose(0, 2, 1) if problem.symmetric else dot(A.T, B)
    # Step up to which a column of B must not return to a row of A, for the columns in the order of p.
    forbidden = np.zeros(B.shape, dtype=np.int64)
    value, since = np.zeros(len(p)), np.zeros(len(p), dtype=np.int64)
    best, best_value, active = p.copy(), value, np.arange(len(p))
    rows, lower, noise = np.arange(n), np.where(np.tri(n, dtype=bool), np.inf, 0.0), _DECREASE * problem.scale
    step = 0
    while len(active) and not late():
        k = np.arange(len(active))
        sums = right + left + C
        own = sums[:, rows, rows]
        change = sums + sums.transpose(0, 2, 1) + lower
        change -= own[:, :, None] + own[:, None, :]
        change += (A + A.T) * (B + B.transpose(0, 2, 1))
        blocked = np.minimum(forbidden, forbidden.transpose(0, 2, 1)) > step
        blocked &= change >= (best_value - value - noise)[:, None, None]
        change[blocked] = np.inf
        r, s = np.divmod(change.reshape(len(k), -1).argmin(axis=1), n)

        # The outer products come before the swaps, because they need B' as it was.
        right -= (B[k, :, r] - B[k, :, s])[:, :, None] * (A.T[r] - A.T[s])[:, None, :]
        if not problem.symmetric:
            left -= (A[r] - A[s])[:, :, None] * (B[k, r] - B[k, s])[:, None, :]
            left[k, :, r], left[k, :, s] = left[k, :, s], left[k, :, r]
        for M in (right, B):
            M[k, r], M[k, s] = M[k, s], M[k, r]
        for M in (B, C, forbidden):
            M[k, :, r], M[k, :, s] = M[k, :, s], M[k, :, r]
        p[k, r], p[k, s] = p[k, s], p[k, r]
        forbidden[k, r, s], forbidden[k, s, r] = step + rng.integers(n - n // 10, n + n // 10 + 2, (2, len(k)))

        step += 1
        value = value + change[k, r, s]
        new = value < best_value - noise
        best[active[new]], best_value = p[new], np.where(new, value, best_value)
        since = np.where(new, 0, since + 1)
        going = (since <= _PATIENCE) & (value < np.inf)
        if not going.all():
            right, B, C, forbidden = right[going], B[going], C[going], forbidden[going]
            left = right.transpose(0, 2, 1) if problem.symmetric else left[going]
            p, value, best_value, since, active = (v[going] for v in (p, value, best_value, since, active))
    return best
