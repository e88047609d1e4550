"""Sparse points: whether x has few nonzero coefficients, and the vertices that these determine.

Projected steps find the support of a sparse solution quickly, but its values slowly if columns are correlated.
Corrections find the values of a small support in one step, but add to the support only a few vertices per pass.
Methods therefore switch from projected steps to corrections when x is sparse.
"""

from __future__ import annotations

import numpy as np

from fwflow.methods.clock import in_time
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.points.point import Point

# x has few nonzero coefficients if they are at most this fraction of the rows and of the columns of the data, and at
# most this number. Chosen without tuning.
_SHARE, _MOST = 1 / 8, 1000
# A weight of a decomposition below this is rounding: 45 units in the last place of the sum of the weights, which is 1.
_ROUNDED = 1e-14


def few(problem: Problem, x: Point) -> bool:
    """Return whether x has few nonzero coefficients and f has a model with which to correct them."""
    image_map = problem.objective.image_map
    if image_map is None or x.factored or problem.model(x) is None:
        return False
    return np.count_nonzero(x.x) <= min(_MOST, _SHARE * min(x.x.size, image_map.size))


def decomposed(problem: Problem, x: Point) -> ActiveSet | None:
    """Return x as a mixture of vertices and, for the rest of the weight, the origin; None if the set does not offer it.

    A rest of at most 1e-14 counts as rounding, as does any rest where the origin is not a member: the weights are then
    divided by their sum.
    """
    f, C = problem.objective, problem.constraint
    vertices = None if C.known_vertices is None else C.known_vertices.decomposed(x.x)
    if vertices is None:
        return None
    weights = [w for w, _ in vertices]
    atoms = [f.lift(vertex) for _, vertex in in_time(problem, vertices)]
    if len(atoms) < len(vertices):
        return None
    rest, zero = 1.0 - sum(weights), np.zeros_like(x.x)
    if rest > _ROUNDED and C.contains(zero):
        image = None if f.image_map is None else np.zeros(f.image_map.size, f.dtype)
        return ActiveSet(Atoms((Point(zero, image), *atoms)), np.array([rest, *weights]))
    return ActiveSet(Atoms(atoms), np.array(weights) / sum(weights))
