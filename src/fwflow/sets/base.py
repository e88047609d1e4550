"""What does a solver need of a constraint set? The interface, and plain callables as sets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fwflow._validation import Array, float_array
from fwflow.points import NEEDS_RANK_ONE, DenseVertex, LowRank, Sampled, Shape, Vertex


class ConstraintSet(ABC):
    """A convex compact set, known by its linear minimisation oracle.

    A new set needs `lmo`, `start`, `contains` and `diameter`. Sets keep no state between calls:
    the same gradient and hint give the same vertex.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """An oracle of one's own is asked: shortcuts around that of the parent are not inherited."""
        super().__init_subclass__(**kwargs)
        for name in ("lmo_at", "crossing", "best_vertices", "screenable") if "lmo" in cls.__dict__ else ():
            if name not in cls.__dict__:
                setattr(cls, name, getattr(ConstraintSet, name))

    @abstractmethod
    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        """A vertex that minimises ``<g, s>`` over the set, of the shape of g.

        Ties and a zero g are decided the same way every time. `hint` is the answer to a nearby
        question; oracles that iterate start from it.
        """

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        """The same where ``<g, x> = inner`` at the iterate: an oracle that iterates can tell how exact to be."""
        return self.lmo(g, hint)

    @abstractmethod
    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array | LowRank:
        """Where a run starts unless told otherwise."""

    @abstractmethod
    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        """Whether x is in the set, up to `tol` relative to the size of the set; None if it cannot be told."""

    @abstractmethod
    def diameter(self, shape: Shape | None = None) -> float:
        """The largest Euclidean distance between two members."""

    #: Whether `project` is there, which few sets offer cheaply.
    projectable = False

    def project(self, x: Array) -> Array:
        """The member nearest to x."""
        raise NotImplementedError(f"{self!r} has no cheap projection")

    #: Whether the set is known to have finitely many vertices.
    polytope = False

    #: Whether bounds on the entries are all there is to the set.
    has_bounds = False

    def bounds(self, shape: Shape) -> tuple[Array, Array]:
        """Lower and upper bounds of the entries of an array, for sets that are nothing else."""
        raise NotImplementedError(f"{self!r} is not a box")

    def crossing(
        self, start: Array, end: Array, levels: tuple[float, float], skip: Sequence[Vertex], noise: float
    ) -> tuple[float, Vertex] | None:
        r"""Which vertex is first below a level, as a gradient moves from `start` to `end`? If a closed form tells.

        Both the gradient and the level move linearly with :math:`\theta \in [0, 1]`; vertices to skip stay at the
        level, and all others begin at it or above.

        Returns
        -------
        theta, vertex
            None if no vertex is below the level by more than `noise` at the end. NotImplementedError: ask the oracle.
        """
        raise NotImplementedError

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """Vertices with positive weights that sum to x, if known; what is left of the weight is that of the origin.

        Where the origin is not a member, nothing is left but rounding.
        """
        return None

    def best_vertices(self, g: Any, count: int, best: Vertex) -> list[Vertex]:
        """Up to `count` vertices by ``<g, s>``, the oracle's own `best` first; only that one where more would cost."""
        return [best]

    #: Whether the oracle asks a gradient only for its best entry, so that most others need not be computed.
    screenable = False

    #: Whether the oracle takes gradients on observed entries and answers with rank-one matrices.
    factored = False

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """A certified lower bound on ``min <g, s>``, given the vertex that `lmo` returned.

        Exact oracles need not override it: the vertex attains the minimum.
        """
        return vertex.dot(g)

    def __mul__(self, factor: float) -> ConstraintSet:
        from fwflow.sets.combinators import ScaledSet

        return ScaledSet(self, factor)

    __rmul__ = __mul__

    def __add__(self, shift: Any) -> ConstraintSet:
        from fwflow.sets.combinators import Translated

        return Translated(self, shift)


def needs_shape(constraint: object, shape: Shape | None) -> Shape:
    """The shape, or an error that says where to give it."""
    if shape is None:
        raise ValueError(f"shape is needed: {type(constraint).__name__} does not know the dimension; give x0 or shape")
    return shape


def finite(x: Any) -> Array | None:
    """x as float64, or None if it has entries that are not finite and so is in no set."""
    array = np.asarray(x, dtype=np.float64)
    return array if np.isfinite(array).all() else None


def size_of(shape: Shape) -> int:
    """Number of entries."""
    return int(np.prod(shape))


class CallableSet(ConstraintSet):
    """A set known only by a callable ``g -> s``. It starts at the oracle's answer to a vector of ones."""

    factored = True
    polytope = True  # as far as anyone can tell

    def __init__(self, oracle: Callable[[Any], Any]) -> None:
        self.oracle = oracle

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        s = self.oracle(g.matrix if isinstance(g, Sampled) else g)
        if isinstance(s, Vertex):
            if s.shape != g.shape:
                raise ValueError(f"constraint returned shape {s.shape} for a gradient of shape {g.shape}")
            return s
        if isinstance(g, Sampled):
            raise ValueError(f"constraint returned a {type(s).__name__}; {NEEDS_RANK_ONE}")
        if np.shape(s) != g.shape:
            raise ValueError(f"constraint returned shape {np.shape(s)} for a gradient of shape {g.shape}")
        # astype makes a copy: an oracle may hand out a buffer that it fills again.
        return DenseVertex(float_array(s, "what constraint returned").astype(g.dtype))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.asarray(self.lmo(np.ones(needs_shape(self, shape), dtype)), dtype=dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        return None

    def diameter(self, shape: Shape | None = None) -> float:
        raise NotImplementedError("a plain callable does not tell the diameter of its set")
