"""Membership by oracle calls: the point nearest to x in a growing hull of vertices."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from fwflow._numerics import dot, norm
from fwflow._validation import Array
from fwflow.sets.base import ConstraintSet

# Largest number of entries of x for which membership is found by oracle calls. Chosen without tuning.
_MOST_ENTRIES = 100
# Oracle calls per entry of x, and in addition, after which membership is unknown. Chosen without tuning.
_CALLS, _BASE_CALLS = 10, 60
_EPS = float(np.finfo(np.float64).eps)


def found_by_oracle(constraint: ConstraintSet, x: Array, tol: float, noise: Array) -> bool | None:
    """Return whether x is a member, by oracle calls. Users' functions are called, and counted, in runs only."""
    if x.size > _MOST_ENTRIES or constraint.start_calls_oracle:
        return None
    units = np.eye(x.size).reshape(-1, *x.shape)
    widths = [constraint.vertex(-unit).dot(unit) - constraint.vertex(unit).dot(unit) for unit in units]
    return is_mixture(constraint, x, tol * np.array(widths).reshape(x.shape) + noise)


def is_mixture(constraint: ConstraintSet, x: Array, slack: Array) -> bool | None:
    """Return whether x is within `slack` of a mixture of vertices, or None if the oracle's answers do not decide."""
    if x.size > _MOST_ENTRIES:
        return None
    apart = np.asarray(constraint.start(x.shape)) - x
    if (np.abs(apart) <= slack).all():
        return True
    # The unit of distances is the slack. In an entry without slack all members are equal.
    units = np.where(slack > 0, slack, np.inf)

    def lowest(z: Array) -> tuple[Array, float]:
        g = z.reshape(x.shape) / units
        size = float(np.abs(g).max())
        g /= size
        vertex = constraint.vertex(g)
        row = (np.asarray(vertex).reshape(x.shape) - x) / units
        return row.reshape(-1), size * (constraint.lower_bound(g, vertex) - float(np.vdot(g, x)))

    apart /= np.abs(apart).max()
    first, other = (np.asarray(constraint.vertex(g)).reshape(x.shape) - x for g in (apart, -apart))
    if (first[slack == 0] != 0).any():
        return False
    rows = np.abs(np.stack([first, other]) / units)
    return mixture_reaches_zero((first / units).reshape(-1), lowest, float(rows.max()), _CALLS * x.size + _BASE_CALLS)


def mixture_reaches_zero(
    first: Array, lowest: Callable[[Array], tuple[Array, float]], unit: float, most: float = math.inf
) -> bool | None:
    """Return whether the mixture of rows that is nearest to zero has entries of absolute value at most one.

    Wolfe's method (1976) keeps a few affinely independent rows, of which the first is given. A QR factorisation gives
    their affine combination z nearest to zero. Rows whose weights would become negative leave. The row with the
    smallest product with z joins: `lowest` returns it, and a lower bound on the products of all rows. The iteration
    ends if z is close enough or separates zero from all rows. The result is None if rounding, or the limit `most` on
    the number of rows, ends it before. `unit` is the size of the entries of the rows, for scaling.
    """
    n = len(first)
    rows, joins = np.zeros((0, n)), first
    w, Q, R = np.zeros(0), np.zeros((n + 1, 0)), np.zeros((0, 0))
    best, calls = math.inf, 0
    while True:
        column = np.append(1.0, joins / unit)
        r = dot(Q.T, column)
        column -= dot(Q, r)
        again = dot(Q.T, column)  # The second time removes the rounding error of the first.
        column -= dot(Q, again)
        length = float(norm(column))
        if length <= n * _EPS:
            return None
        k = len(rows)
        Q = np.column_stack([Q, column / length])
        R = np.block([[R, (r + again)[:, None]], [np.zeros((1, k)), np.full((1, 1), length)]])
        rows, w = np.vstack([rows, joins]), np.append(w, 0.0 if k else 1.0)
        while True:
            a = solve_triangular(R, solve_triangular(R, np.ones(len(rows)), trans="T"))
            a /= a.sum()
            negative = a <= 0
            if not negative.any():
                break
            reach = (w[negative] / np.maximum(w[negative] - a[negative], np.finfo(np.float64).tiny)).min()
            w = np.maximum(w + min(1.0, float(reach)) * (a - w), 0)
            leaves = int(np.where(negative, w, np.inf).argmin())
            rotation, R = np.linalg.qr(np.delete(R, leaves, axis=1))
            Q, w, rows = dot(Q, rotation), np.delete(w, leaves), np.delete(rows, leaves, axis=0)
            w /= w.sum()
        w = a
        z = dot(w, rows)
        largest = float(np.abs(z).max())
        if largest <= 1:
            return True
        distance = float(norm(z / unit))
        if calls >= most or distance >= best:
            return None
        joins, bound = lowest(z)
        best, calls = distance, calls + 1
        if bound > np.abs(z).sum():
            return False
        if dot(joins, z) >= dot(rows, z).min():
            return None
