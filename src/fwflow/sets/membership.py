"""Is x a member of a set of which only the oracle is known? By the nearest point of a growing hull of vertices."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from fwflow._validation import Array
from fwflow.numerics import dot, quietly
from fwflow.sets.base import ConstraintSet, size_of
from fwflow.vertices import Shape

# Membership of a point with more entries than these takes too many oracle calls.
MOST_ASKED = 100


def mixes(constraint: ConstraintSet, x: Array, slack: Array) -> bool | None:
    """Whether x is within `slack` of a mixture of vertices, as Wolfe (1976) finds it; None if steps do not tell."""
    if x.size > MOST_ASKED:
        return None
    rows, y = np.zeros((0, x.size)), np.asarray(constraint.start(x.shape))
    for _ in range(4 * x.size + 20):
        g = y - x
        vertex = constraint.lmo(g)
        s = np.asarray(vertex)
        if not (rows == s.reshape(-1)).all(axis=1).any():
            rows = np.vstack([rows, s.reshape(1, -1)])
        if (np.abs(g) <= slack).all():
            return True
        if constraint.lower_bound(g, vertex) - np.vdot(g, x) > np.vdot(np.abs(g), slack):
            return False
        y = _nearest(rows, x.reshape(-1)).reshape(x.shape)
    return None


def widths(constraint: ConstraintSet, shape: Shape) -> Array:
    """How wide a set is along every coordinate, by two oracle calls for each."""
    units = np.eye(size_of(shape)).reshape(-1, *shape)
    found = [constraint.lmo(-unit).dot(unit) - constraint.lmo(unit).dot(unit) for unit in units]
    return np.array(found).reshape(shape)


def _nearest(rows: Array, x: Array) -> Array:
    """The member nearest to x of the hull of some rows."""
    size = float(np.abs(rows - x).max()) or 1.0
    weights, _ = quietly(nnls)(np.vstack([(rows - x).T / size, np.ones(len(rows))]), np.append(np.zeros(len(x)), 1.0))
    return dot(weights / weights.sum(), rows)
