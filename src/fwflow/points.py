"""What can be mixed? Vertices (sparse, rank-one, permutation, dense) and the points made of them.

A point is coordinates x and, for objectives that see x only through a linear map, the image of x
under that map. A step replaces x by ``x + sum_i w_i (s_i - x)``; whatever is linear in x follows
by the same mixture at the cost of the vertices. Points and vertices are never changed in place,
so that keeping an old one is free and an interrupted step leaves nothing half-done.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from fwflow._validation import Array, finite_array

Shape = tuple[int, ...]
Entries = tuple[Any, Any]  # sequences of positions and values

NEEDS_RANK_ONE = (
    "MatrixCompletion keeps X factored and needs rank-one vertices: use NuclearBall, scaled if need be, "
    "or an oracle that returns fw.RankOne(u, v, scale)"
)


class Vertex(ABC):
    """An element of the set in the form that makes it cheap to use. ``numpy.asarray`` gives the array."""

    shape: Shape
    #: The same object is met again and again (the shift of a translated set): its image is worth keeping.
    recurring = False

    @abstractmethod
    def add_to(self, x: Array, weight: float) -> None:
        """``x += weight * s`` for an array that the caller owns."""

    @abstractmethod
    def dot(self, g: Any) -> float:
        """The inner product with a gradient."""

    def entries(self) -> Entries | None:
        """Flat positions and values that add up to the vertex if they are few, else None."""
        return None

    def scaled(self, factor: float) -> Vertex:
        """The vertex times a number, in its own form where it has one."""
        return self if factor == 1 else Scaled(factor, self)

    def parts_of(self, factor: float = 1.0) -> Iterator[tuple[float, Vertex]]:
        """The vertex as a sum of numbers times vertices."""
        yield factor, self

    @cached_property
    def key(self) -> Hashable:
        """Equal for equal vertices of one set, so that an active set holds each once."""
        return _digest(self.to_dense())

    @property
    def storage(self) -> int:
        """How many numbers it takes to keep the vertex."""
        return math.prod(self.shape)

    def to_dense(self, dtype: Any = np.float64) -> Array:
        """The vertex as an array."""
        out = np.zeros(self.shape, dtype)
        self.add_to(out, 1.0)
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.to_dense(np.float64 if dtype is None else dtype)


def _digest(array: Array) -> bytes:
    """Equal for equal arrays, and sixteen bytes instead of the array; adding zero makes -0.0 what it equals."""
    return hashlib.blake2b(np.ascontiguousarray(array + 0.0).tobytes(), digest_size=16).digest()


@dataclass(frozen=True, eq=False)
class DenseVertex(Vertex):
    """A vertex with no structure to use."""

    array: Array
    recurring: bool = False

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return self.array.shape

    def add_to(self, x: Array, weight: float) -> None:
        x += (weight * self.array).reshape(x.shape)

    def dot(self, g: Array) -> float:
        return float(np.vdot(self.array, g))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype)


@dataclass(frozen=True, eq=False)
class OneHot(Vertex):
    """One non-zero entry: ``value`` at flat position ``index``."""

    index: int
    value: float
    shape: Shape

    def add_to(self, x: Array, weight: float) -> None:
        x.flat[self.index] += weight * self.value

    def dot(self, g: Array) -> float:
        return self.value * float(g.flat[self.index])

    def entries(self) -> Entries:
        return (self.index,), (self.value,)

    @cached_property
    def key(self) -> Hashable:
        return self.index, self.value

    storage = 1

    def scaled(self, factor: float) -> OneHot:
        return replace(self, value=factor * self.value)


@dataclass(frozen=True, eq=False)
class SparseVector(Vertex):
    """A few non-zero entries of a vector, at distinct positions."""

    indices: Array
    values: Array
    shape: Shape

    def add_to(self, x: Array, weight: float) -> None:
        x[self.indices] += weight * self.values

    def dot(self, g: Array) -> float:
        return float(self.values @ g[self.indices])

    def entries(self) -> Entries:
        return self.indices, self.values

    @property
    def storage(self) -> int:
        return 2 * len(self.indices)


@dataclass(frozen=True, eq=False)
class Permutation(Vertex):
    """A permutation matrix times a scale: row i has its entry in column ``columns[i]``.

    The oracle that found it leaves estimates of the dual prices of the columns, from which it answers the next question
    faster.
    """

    columns: Array
    shape: Shape
    scale: float = 1.0
    prices: Array | None = None

    @cached_property
    def _flat(self) -> Array:
        n = len(self.columns)
        return np.arange(n) * n + self.columns

    def add_to(self, x: Array, weight: float) -> None:
        x.flat[self._flat] += weight * self.scale

    def dot(self, g: Array) -> float:
        return self.scale * float(g.reshape(-1)[self._flat].sum())

    def entries(self) -> Entries:
        return self._flat, np.full(len(self.columns), self.scale)

    @cached_property
    def key(self) -> Hashable:
        return self.columns.tobytes()

    @property
    def storage(self) -> int:
        return 3 * len(self.columns)  # with prices and flat places

    def scaled(self, factor: float) -> Permutation:
        return replace(self, scale=factor * self.scale)


@dataclass(frozen=True, eq=False)
class RankOne(Vertex):
    """The matrix ``scale * u v^T`` with unit vectors u and v."""

    u: Array
    v: Array
    scale: float

    @property
    def shape(self) -> Shape:  # type: ignore[override]
        return (len(self.u), len(self.v))

    def add_to(self, x: Array, weight: float) -> None:
        x += np.outer((weight * self.scale) * self.u, self.v).reshape(x.shape)

    def dot(self, g: Any) -> float:
        g = g.matrix if isinstance(g, Sampled) else g.reshape(self.shape)
        return self.scale * float(self.u @ (g @ self.v))

    @cached_property
    def key(self) -> Hashable:
        return _digest(self.u), _digest(self.v), self.scale

    @property
    def storage(self) -> int:
        return len(self.u) + len(self.v)

    def scaled(self, factor: float) -> RankOne:
        return replace(self, scale=factor * self.scale)


@dataclass(frozen=True, eq=False)
class Scaled(Vertex):
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

    @cached_property
    def key(self) -> Hashable:
        return self.factor, self.vertex.key

    @property
    def storage(self) -> int:
        return self.vertex.storage

    def scaled(self, factor: float) -> Vertex:
        return self.vertex if factor * self.factor == 1 else Scaled(factor * self.factor, self.vertex)

    def parts_of(self, factor: float = 1.0) -> Iterator[tuple[float, Vertex]]:
        yield from self.vertex.parts_of(factor * self.factor)


@dataclass(frozen=True, eq=False)
class Slice(Vertex):
    """A vertex of one block of a product set, at its place in the whole vector."""

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

    @property
    def storage(self) -> int:
        return self.vertex.storage


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

    def parts_of(self, factor: float = 1.0) -> Iterator[tuple[float, Vertex]]:
        for part in self.parts:
            yield from part.parts_of(factor)


class LowRank:
    r"""A matrix :math:`\sum_a w_a\, u_a v_a^T`, kept as its atoms and their weights.

    Mixing appends atoms and scales weights. Recompression (a thin QR of both factors and an SVD
    of the small core) keeps the number of atoms within a constant of the numerical rank, so
    memory is O(rank (rows + cols)) however long the run.

    Attributes
    ----------
    U, V : arrays
        Factors with ``x = U @ V.T``; the weights are folded into ``U``.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> x = fw.LowRank.from_factors(np.array([[1.0], [2.0]]), np.array([[3.0], [4.0], [5.0]]))
    >>> x.shape, x.rank
    ((2, 3), 1)
    >>> x.entries([1, 0], [2, 0])
    array([10.,  3.])
    """

    def __init__(self, shape: Shape, atoms: dict[RankOne, float], dtype: Any, compact: int = 0) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype)
        self._atoms = atoms
        self._compact = compact  # atoms there were after the last recompression

    @classmethod
    def zeros(cls, shape: Shape, dtype: Any = np.float64) -> LowRank:
        """The zero matrix."""
        return cls(shape, {}, dtype)

    @classmethod
    def from_factors(cls, U: Array, V: Array) -> LowRank:
        """The matrix ``U @ V.T``."""
        U, V = finite_array(U, "U", ndim=2), finite_array(V, "V", ndim=2)
        if U.shape[1] != V.shape[1]:
            raise ValueError(f"U has {U.shape[1]} columns and V has {V.shape[1]}; they must agree")
        dtype = np.result_type(U, V)
        atoms = _svd_atoms(U, V, dtype)
        return cls((len(U), len(V)), atoms, dtype, len(atoms))

    @property
    def rank(self) -> int:
        """Number of atoms kept: an upper bound on the rank."""
        return len(self._atoms)

    @cached_property
    def U(self) -> Array:
        """Left factor, weights included."""
        return _columns([(w * a.scale) * a.u for a, w in self._atoms.items()], self.shape[0], self.dtype)

    @cached_property
    def V(self) -> Array:
        """Right factor."""
        return _columns([a.v for a in self._atoms], self.shape[1], self.dtype)

    def __repr__(self) -> str:
        return f"LowRank(shape={self.shape}, rank={self.rank}, dtype={self.dtype})"

    def to_dense(self) -> Array:
        """The matrix as an array of shape (rows, cols)."""
        return self.U @ self.V.T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.to_dense(), dtype=dtype)

    def entries(self, i: Any, j: Any) -> Array:
        """Entries ``x[i, j]`` at index arrays, in chunks so that no large temporary is formed."""
        i, j = np.broadcast_arrays(np.asarray(i, dtype=np.intp), np.asarray(j, dtype=np.intp))
        return entries_of(self.U, self.V, i.ravel(), j.ravel()).reshape(i.shape)

    def singular_values(self) -> Array:
        """The non-zero singular values, largest first."""
        if not self._atoms:
            return np.zeros(0, self.dtype)
        return scipy.linalg.svdvals(_core(self.U, self.V)[2])

    def copy(self) -> LowRank:
        """The same matrix, sharing nothing that can be changed."""
        return LowRank(self.shape, dict(self._atoms), self.dtype, self._compact)

    def mixed(self, rest: float, terms: Sequence[tuple[float, Any]]) -> LowRank:
        """``rest * self + sum of weight * term``; an atom met twice is kept once."""
        atoms = {atom: rest * w for atom, w in self._atoms.items()} if rest != 0 else {}
        for weight, term in terms:
            added = term._atoms if isinstance(term, LowRank) else {term: 1.0}
            for atom, w in added.items():
                atoms[atom] = atoms.get(atom, 0.0) + weight * w
        mixed = LowRank(self.shape, atoms, self.dtype, self._compact)
        return mixed if mixed.rank <= 2 * mixed._compact + 64 else mixed.compressed()

    def compressed(self) -> LowRank:
        """The same matrix with as few atoms as its numerical rank."""
        atoms = _svd_atoms(self.U, self.V, self.dtype)
        return LowRank(self.shape, atoms, self.dtype, len(atoms))

    def dot(self, g: Any) -> float:
        """Inner product with a dense or sparse matrix."""
        return float(np.vdot(self.U, g @ self.V))


def entries_of(U: Array, V: Array, i: Array, j: Array) -> Array:
    """Entries of ``U @ V.T`` at index vectors, in chunks that stay in the cache."""
    out = np.zeros(len(i), U.dtype)
    chunk = max(1, 2**17 // max(1, U.shape[1]))
    for k in range(0, len(out), chunk):
        place = slice(k, k + chunk)
        np.einsum("er,er->e", U[i[place]], V[j[place]], out=out[place])
    return out


def _columns(vectors: list[Array], length: int, dtype: Any) -> Array:
    return np.stack(vectors, axis=1).astype(dtype, copy=False) if vectors else np.zeros((length, 0), dtype)


def _core(U: Array, V: Array) -> tuple[Array, Array, Array]:
    """Orthonormal bases of both factors and the small matrix between them."""
    (Qu, Ru), (Qv, Rv) = np.linalg.qr(U), np.linalg.qr(V)
    return Qu, Qv, Ru @ Rv.T


def _svd_atoms(U: Array, V: Array, dtype: Any) -> dict[RankOne, float]:
    if not U.shape[1]:
        return {}
    Qu, Qv, core = _core(U, V)
    left, sigma, right = np.linalg.svd(core)
    keep = sigma > sigma[0] * np.finfo(dtype).eps * max(core.shape)
    left, right = (Qu @ left[:, : len(sigma)])[:, keep], (Qv @ right[: len(sigma)].T)[:, keep]
    atoms = (RankOne(u.astype(dtype), v.astype(dtype), 1.0) for u, v in zip(left.T, right.T, strict=True))
    return dict(zip(atoms, sigma[keep].tolist(), strict=True))


class ByImage:
    """A gradient known by `data`, the derivative in the image that points carry."""

    data: Array


@dataclass(frozen=True, eq=False)
class Sampled(ByImage):
    """A gradient that lives on the observed entries: CSR data, with the index arrays that all of them share."""

    data: Array
    indices: Array
    indptr: Array
    shape: Shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The floating type of the data."""
        return self.data.dtype

    @cached_property
    def matrix(self) -> sp.csr_array:
        """The matrix in SciPy's CSR form."""
        return sp.csr_array((self.data, self.indices, self.indptr), shape=self.shape)

    def __mul__(self, factor: float) -> Sampled:
        return replace(self, data=factor * self.data)

    __rmul__ = __mul__

    def __add__(self, other: Sampled) -> Sampled:
        return replace(self, data=self.data + other.data)


@dataclass(frozen=True, eq=False)
class Lifted:
    """A vertex together with its image."""

    vertex: Vertex
    image: Vertex | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """Coordinates and their image: an array, an array with ``A x``, or a low-rank matrix with its entries."""

    x: Any  # an array or a LowRank; only the objective that made it looks
    image: Array | None = None

    def mix(self, terms: Iterable[tuple[float, Lifted | Point]]) -> Point:
        r"""The point :math:`x + \sum_i w_i (s_i - x)` with its image."""
        terms = [(w, term) for w, term in terms if w != 0]
        if not terms:
            return self
        rest = 1.0 - sum(w for w, _ in terms)
        parts = [(w, t.x if isinstance(t, Point) else t.vertex) for w, t in terms]
        x = self.x.mixed(rest, parts) if isinstance(self.x, LowRank) else _combine(rest, self.x, parts)
        if self.image is None:
            return Point(x)
        return Point(x, _combine(rest, self.image, [(w, t.image) for w, t in terms]))

    def inner(self, g: Any) -> float:
        """The inner product of a gradient with x, from the image where that is cheaper."""
        if isinstance(g, ByImage):
            return float(g.data @ self.image)
        if isinstance(self.x, LowRank):
            return self.x.dot(g)
        return float(np.vdot(g, self.x))


def _combine(rest: float, base: Array, terms: Sequence[tuple[float, Any]]) -> Array:
    # At rest = 0 the base is dropped, not multiplied: 0 * inf would poison the step that leaves it.
    out = rest * base if rest != 0 else np.zeros_like(base)
    for weight, term in terms:
        if isinstance(term, Vertex):
            term.add_to(out, weight)
        else:
            out += weight * term
    return out
