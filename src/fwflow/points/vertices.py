"""Vertices in compact forms: a few entries, rank-one matrices, sums and multiples, dense arrays."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._storage import places_within, storable
from fwflow._validation import Array

Shape = tuple[int, ...]
Entries = tuple[Any, Any]  # Sequences of flat positions and values.

NEEDS_RANK_ONE = (
    "MatrixCompletion needs rank-one vertices, because X is stored as factors: use NuclearBall or a multiple of it, "
    "or an oracle that returns fw.RankOne(u, v, scale)"
)


def freeze(*arrays: Array | None) -> None:
    """Make arrays read-only."""
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


def read_only(array: Array) -> Array:
    """Return a read-only view, while the owner of the array can still change it."""
    if not array.flags.writeable:
        return array
    view = array.view()
    view.setflags(write=False)
    return view


class Vertex(ABC):
    """Vertex of a set in a compact form. ``numpy.asarray`` gives the array.

    A subclass defines `shape`, `add_to` and `dot`. The defaults of all other members are correct for any vertex.

    See Also
    --------
    OneHot : One nonzero entry.
    SparseVertex : A few nonzero entries.
    DenseVertex : An array.
    RankOne : A matrix of rank one.
    ConstraintSet : Returns vertices.
    """

    shape: Shape
    #: Whether the same object occurs in many vertices (the shift of a translated set), so that its image is kept.
    recurring: bool = False
    #: Data of the oracle that speed up its next call or certify this answer, such as dual prices.
    advice: Array | None = None
    #: Vertices of the inner sets of a combinator, in its order.
    parts: tuple[Vertex, ...] = ()

    @abstractmethod
    def add_to(self, x: Array, weight: float) -> None:
        """Add ``weight * s`` to an array of the caller."""

    @abstractmethod
    def dot(self, g: Any) -> float:
        """Return the inner product with an array of the shape of the vertex, or with another input of an oracle."""

    def entries(self) -> Entries | None:
        """Return flat positions and values that sum to the vertex if they are few, else None."""
        return None

    def row(self) -> Array | None:
        """Return the vertex as a flat array if it is stored as one, else None."""
        return None

    def factors(self) -> tuple[Array, Array, float] | None:
        """Return u, v and a number if the vertex is this number times ``u v^T``, else None."""
        return None

    def terms(self, factor: float = 1.0) -> Iterator[tuple[float, Vertex]]:
        """Return the vertex as a sum of numbers times vertices that are not sums themselves."""
        yield factor, self

    @cached_property
    def key(self) -> Hashable:
        """A key that is equal for equal vertices of one set."""
        return digest(self.to_dense())

    @property
    def storage(self) -> int:
        """Number of stored numbers."""
        return math.prod(self.shape)

    def to_dense(self, dtype: Any = np.float64) -> Array:
        """Return the vertex as an array."""
        out = np.zeros(self.shape, dtype)
        self.add_to(out, 1.0)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.to_dense(np.float64 if dtype is None else dtype)


def digest(array: Array) -> bytes:
    """Return sixteen bytes that are equal for equal arrays. Adding zero turns -0.0 into 0.0."""
    return hashlib.blake2b(np.ascontiguousarray(array + 0.0).tobytes(), digest_size=16).digest()


@storable("dense")
@dataclass(frozen=True, eq=False)
class DenseVertex(Vertex):
    """Vertex as a dense array.

    Parameters
    ----------
    array : array
        The entries.
    recurring : bool
        Whether the same object occurs in many vertices, so that its image is kept; False by default.
    advice : array, optional
        Data of the oracle that speed up its next call or certify this answer, such as dual prices.

    See Also
    --------
    SparseVertex : A few nonzero entries.
    OneHot : One nonzero entry.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> fw.DenseVertex(np.array([1.0, -1.0])).dot(np.array([3.0, 1.0]))
    2.0
    """

    array: Array
    recurring: bool = False
    advice: Array | None = None

    def __post_init__(self) -> None:
        if self.array.flags.writeable:  # An oracle that gets the vertex as a hint must not write to it.
            object.__setattr__(self, "array", read_only(self.array))

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.array.shape

    def add_to(self, x: Array, weight: float) -> None:
        term = weight * self.array
        x += term if term.shape == x.shape else term.reshape(x.shape)

    def dot(self, g: Array) -> float:
        return float(np.vdot(self.array, g))

    def row(self) -> Array:
        return self.array.reshape(-1)

    @property
    def storage(self) -> int:
        return self.array.size + (0 if self.advice is None else self.advice.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype)


@storable("one-hot", valid=lambda v: 0 <= v.index < math.prod(v.shape))
@dataclass(frozen=True, eq=False)
class OneHot(Vertex):
    """Vertex with one nonzero entry.

    Parameters
    ----------
    index : int
        Flat position of the entry, row by row.
    value : float
        The entry.
    shape : tuple of int
        Shape of the array.

    See Also
    --------
    SparseVertex : A few nonzero entries.
    L1Ball : Set with such vertices.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.OneHot(2, -1.0, (2, 2)))
    array([[ 0.,  0.],
           [-1.,  0.]])
    """

    index: int
    value: float
    shape: Shape

    def add_to(self, x: Array, weight: float) -> None:
        x.flat[self.index] += weight * self.value

    def dot(self, g: Any) -> float:
        return self.value * float(g.flat[self.index])

    def entries(self) -> Entries:
        return (self.index,), (self.value,)

    @property
    def key(self) -> Hashable:
        return self.index, self.value

    storage = 1


@storable("sparse", valid=lambda v: v.in_order)
@dataclass(frozen=True, eq=False)
class SparseVertex(Vertex):
    """Vertex with a few nonzero entries.

    Parameters
    ----------
    indices : array of int
        Distinct flat positions of the entries, row by row.
    values : array
        The entries.
    shape : tuple of int
        Shape of the array.

    See Also
    --------
    OneHot : One nonzero entry.
    Permutation : Permutation matrix.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.SparseVertex(np.array([0, 3]), np.array([1.0, 2.0]), (2, 2)))
    array([[1., 0.],
           [0., 2.]])
    """

    indices: Array
    values: Array
    shape: Shape

    def __post_init__(self) -> None:
        object.__setattr__(self, "indices", read_only(np.asarray(self.indices)))
        object.__setattr__(self, "values", read_only(np.asarray(self.values)))

    @property
    def in_order(self) -> bool:
        """Whether there is a value for every position, and every position is within the array."""
        return self.values.shape == self.indices.shape and places_within(self.indices, math.prod(self.shape))

    def add_to(self, x: Array, weight: float) -> None:
        target = x if x.ndim == 1 else x.flat
        target[self.indices] += weight * self.values

    def dot(self, g: Array) -> float:
        return float(dot(self.values, g.reshape(-1)[self.indices]))

    def entries(self) -> Entries:
        return self.indices, self.values

    @cached_property
    def key(self) -> Hashable:
        order = np.argsort(self.indices)
        return digest(self.indices[order]), digest(self.values[order])

    @property
    def storage(self) -> int:
        return 2 * len(self.indices)


@storable("permutation", valid=lambda v: v.in_order)
@dataclass(frozen=True, eq=False)
class Permutation(SparseVertex):
    """Permutation matrix, stored as the positions and values of its nonzero entries.

    Parameters
    ----------
    indices, values, shape
        As for `SparseVertex`. ``Permutation.of(columns, shape)`` is a simpler way to make one.
    advice : array, optional
        Estimates of the dual prices of the columns, from which the next assignment starts.

    See Also
    --------
    Birkhoff : Set with these vertices.
    SparseVertex : A few nonzero entries.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.Permutation.of(np.array([1, 0]), (2, 2)))
    array([[0., 1.],
           [1., 0.]])
    """

    advice: Array | None = None

    @classmethod
    def of(cls, columns: Array, shape: Shape, prices: Array | None = None) -> Permutation:
        """Return the matrix whose row i has its entry in column ``columns[i]``."""
        n = len(columns)
        return cls(np.arange(n) * n + columns, np.ones(n), shape, prices)

    @cached_property
    def key(self) -> Hashable:
        return self.indices.tobytes()

    @property
    def storage(self) -> int:
        return 3 * len(self.indices)  # The prices are included.


@storable("rank-one", valid=lambda v: v.u.ndim == v.v.ndim == 1)
@dataclass(frozen=True, eq=False)
class RankOne(Vertex):
    """Matrix ``scale * u v^T`` with unit vectors u and v.

    Parameters
    ----------
    u, v : (rows,) and (cols,) arrays
        Vectors of norm one.
    scale : float
        Factor of the matrix.

    See Also
    --------
    LowRank : Sums of such matrices.
    NuclearBall : Set with these vertices.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.RankOne(np.array([1.0, 0.0]), np.array([0.6, 0.8]), 5.0))
    array([[3., 4.],
           [0., 0.]])
    """

    u: Array
    v: Array
    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "u", read_only(self.u))
        object.__setattr__(self, "v", read_only(self.v))

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return (len(self.u), len(self.v))

    def add_to(self, x: Array, weight: float) -> None:
        x += np.outer((weight * self.scale) * self.u, self.v).reshape(x.shape)

    def dot(self, g: Any) -> float:
        matrix = g if g.shape == self.shape else g.reshape(self.shape)
        return self.scale * float(dot(self.u, dot(matrix, self.v)))

    def factors(self) -> tuple[Array, Array, float]:
        return self.u, self.v, self.scale

    @cached_property
    def key(self) -> Hashable:
        return digest(self.u), digest(self.v), self.scale

    @property
    def storage(self) -> int:
        return len(self.u) + len(self.v)


class _Wrapped(Vertex):
    """A vertex made of another one."""

    vertex: Vertex

    @property
    def parts(self) -> tuple[Vertex, ...]:  # type: ignore[override]
        return (self.vertex,)

    @property
    def storage(self) -> int:
        return self.vertex.storage


@storable("scaled")
@dataclass(frozen=True, eq=False)
class Scaled(_Wrapped):
    """A number times a vertex."""

    factor: float
    vertex: Vertex

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.vertex.shape

    def add_to(self, x: Array, weight: float) -> None:
        self.vertex.add_to(x, weight * self.factor)

    def dot(self, g: Any) -> float:
        return self.factor * self.vertex.dot(g)

    def entries(self) -> Entries | None:
        found = self.vertex.entries()
        return None if found is None else (found[0], self.factor * np.asarray(found[1]))

    def factors(self) -> tuple[Array, Array, float] | None:
        found = self.vertex.factors()
        return None if found is None else (found[0], found[1], self.factor * found[2])

    @cached_property
    def key(self) -> Hashable:
        return self.factor, self.vertex.key

    def terms(self, factor: float = 1.0) -> Iterator[tuple[float, Vertex]]:
        yield from self.vertex.terms(factor * self.factor)


@storable("slice", valid=lambda v: 0 <= v.start <= math.prod(v.shape) - math.prod(v.vertex.shape))
@dataclass(frozen=True, eq=False)
class Slice(_Wrapped):
    """A vertex of one block of a product, at its place in the whole vector."""

    start: int
    vertex: Vertex
    shape: Shape

    @cached_property
    def _range(self) -> slice:
        return slice(self.start, self.start + math.prod(self.vertex.shape))

    def add_to(self, x: Array, weight: float) -> None:
        self.vertex.add_to(x[self._range].reshape(self.vertex.shape), weight)

    def dot(self, g: Array) -> float:
        return self.vertex.dot(g[self._range].reshape(self.vertex.shape))

    def entries(self) -> Entries | None:
        found = self.vertex.entries()
        return None if found is None else (self.start + np.asarray(found[0]), found[1])

    @cached_property
    def key(self) -> Hashable:
        return self.start, self.vertex.key


@storable("sum", valid=lambda v: len({part.shape for part in v.parts}) == 1)
@dataclass(frozen=True, eq=False)
class Sum(Vertex):
    """The sum of vertices: a translated vertex, or the blocks of a product."""

    parts: tuple[Vertex, ...]

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.parts[0].shape

    def add_to(self, x: Array, weight: float) -> None:
        for part in self.parts:
            part.add_to(x, weight)

    def dot(self, g: Any) -> float:
        return sum(part.dot(g) for part in self.parts)

    def entries(self) -> Entries | None:
        found = [part.entries() for part in self.parts]
        if None in found:
            return None
        indices, values = zip(*found, strict=True)
        return np.concatenate(indices), np.concatenate(values)

    @cached_property
    def key(self) -> Hashable:
        return tuple(part.key for part in self.parts)

    @property
    def storage(self) -> int:
        return sum(0 if part.recurring else part.storage for part in self.parts)

    def terms(self, factor: float = 1.0) -> Iterator[tuple[float, Vertex]]:
        for part in self.parts:
            yield from part.terms(factor)
