"""Sets given by a callable ``g -> s``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, describe, float_array
from fwflow.points.vertices import NEEDS_RANK_ONE, DenseVertex, Shape, Vertex
from fwflow.sets.base import ConstraintSet, needs_shape


class CallableSet(ConstraintSet):
    """A set given only by a callable ``g -> s``. It starts at the oracle's answer for a vector of ones.

    The callable gets a copy of the gradient, and its answer is copied, so that it may write to both.
    """

    trusted = False
    factored = True
    polytope = True  # Unknown; methods for polytopes are allowed.
    start_calls_oracle = True

    def __init__(self, oracle: Callable[[Any], Any]) -> None:
        self.oracle = oracle

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        sparse = sp.issparse(g)
        s = self.oracle(g.copy() if sparse else np.array(g))
        if sparse and not isinstance(s, Vertex):
            raise ValueError(f"constraint returned {describe(s)}; {NEEDS_RANK_ONE}")
        answer = copy.deepcopy(s) if isinstance(s, Vertex) else float_array(s, "constraint's result")
        if answer.shape != g.shape:
            raise ValueError(f"constraint returned shape {answer.shape} for a gradient of shape {g.shape}")
        return answer if isinstance(answer, Vertex) else DenseVertex(answer.astype(g.dtype))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.asarray(self.lmo(np.ones(needs_shape(self, shape), dtype)), dtype=dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        return None

    def diameter(self, shape: Shape | None = None) -> float | None:
        return None


def as_set(C: Any) -> ConstraintSet:
    """Return a set unchanged, and a callable as a set."""
    if isinstance(C, ConstraintSet):
        return C
    if not callable(C) or isinstance(C, type):
        raise ValueError(f"C must be a constraint set or a callable g -> s; got {type(C).__name__}")
    return CallableSet(C)
