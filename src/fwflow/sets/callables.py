"""Sets given by a callable ``g -> s``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._threads import with_all_threads
from fwflow._validation import Array, conversion
from fwflow.points.vertices import Shape, Vertex
from fwflow.sets.base import ConstraintSet, as_vertex, check_answer, check_members, needs_shape


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
        s = with_all_threads(self.oracle, g.copy() if sp.issparse(g) else np.array(g))
        if not isinstance(s, Vertex):
            return as_vertex(s, g, "constraint")
        check_answer(s.shape, g, "constraint")
        return copy.deepcopy(s)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.asarray(self.lmo(np.ones(needs_shape(self, shape), dtype)), dtype=dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        return None

    def diameter(self, shape: Shape | None = None) -> float | None:
        return None


def as_set(C: Any) -> ConstraintSet:
    """Return a set unchanged, and a callable, or an object with a method `lmo`, as a set."""
    if isinstance(C, ConstraintSet):
        check_members(C)
        return C
    oracle = getattr(C, "lmo", C)
    if isinstance(C, type):
        raise ValueError(f"C is the class {C.__name__}; it must be an object, for example {C.__name__}(...)")
    if not callable(oracle):
        raise ValueError(
            "C must be a constraint set, a callable g -> s, or an object with a method lmo; "
            f"got {type(C).__name__}{conversion(C)}"
        )
    return CallableSet(oracle)
