"""Decompositions of x into weighted atoms, and the record from which multistep methods compute theirs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import flat
from fwflow.points.gradients import Gradient
from fwflow.points.lowrank import LowRank
from fwflow.points.point import Atom, FactoredPoint, Lifted, Point
from fwflow.points.vertices import Vertex
from fwflow.sets.base import ConstraintSet, verdict

# Largest size of a dense vertex that is scored as a row of a matrix. Chosen without tuning.
_SHORT = 256
# Number of steps that a record keeps before it adds them to its active set. Chosen without tuning.
_FOLD_EVERY = 64
# A record is dropped if its vertices take this many times the memory of x, or this many numbers (256 MB). Chosen
# without tuning.
_MOST_TIMES, _MOST = 100, 2**25
# Largest dimension in which an active set is reduced. Removing an atom takes the square of the dimension, which beyond
# this takes longer than the step that added it.
_REDUCIBLE_DIMENSION = 1000


@storable("atoms", "_items", "_rows", valid=lambda atoms: len(atoms) > 0)
class Atoms(Sequence[Atom]):
    """Distinct atoms. Active sets that differ only in their weights share them, with the arrays computed from them."""

    def __init__(self, items: Iterable[Atom], rows: Array | None = None) -> None:
        self._items = tuple(items)
        if rows is not None:
            self.__dict__["_stack"] = _Stack.of(self._items, among=set(rows.tolist()))

    @property
    def _rows(self) -> Array | None:
        """Indices of the sparse rows, which depend on earlier atoms, and on which the rounding of sums depends."""
        return self._stack.sparse if "_stack" in self.__dict__ else None

    def __getitem__(self, i: int) -> Atom:  # type: ignore[override]
        return self._items[i]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Atom]:
        return iter(self._items)

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Index of each atom by its key."""
        return {atom.key: i for i, atom in enumerate(self._items)}

    @cached_property
    def _stack(self) -> _Stack:
        return _Stack.of(self._items)

    @property
    def positions(self) -> tuple[list[int], float] | None:
        """Positions of the entries of the sparse atoms, and their largest absolute value; None if no atom is sparse."""
        stack = self._stack
        return (stack.indices.reshape(-1).tolist(), float(np.abs(stack.values).max())) if len(stack.sparse) else None

    def products(self, g: Any) -> Array:
        """Return the inner product of an array with every atom."""
        out, stack, flat = np.empty(len(self)), self._stack, g.reshape(-1)
        if len(stack.sparse):
            out[stack.sparse] = (stack.values * flat[stack.indices]).sum(axis=1)
        if len(stack.dense):
            out[stack.dense] = dot(stack.matrix, flat)
        for i in stack.rest.tolist():
            out[i] = self._items[i].dot(g)
        return out

    def mixed(self, weights: Array, like: Array) -> Array:
        """Return the weighted sum of the atoms."""
        stack = self._stack
        out: Array = np.zeros(like.size)
        if len(stack.sparse):
            terms = weights[stack.sparse][:, None] * stack.values
            out = np.bincount(stack.indices.reshape(-1), terms.reshape(-1), minlength=like.size)
        if len(stack.dense):
            out = out + dot(weights[stack.dense], stack.matrix)
        out = out.reshape(like.shape).astype(like.dtype, copy=False)
        for i in stack.rest.tolist():
            self._items[i].add_to(out, float(weights[i]))
        return out

    @property
    def dimension(self) -> int:
        return math.prod(self[0].member.shape)

    def rows(self) -> Array:
        """Return the coordinates in double precision, one atom per row; columns of zeros may be left out."""
        stack = self._stack
        used = np.unique(stack.indices) if len(stack.sparse) == len(self) else np.arange(self.dimension)
        out = np.zeros((len(self), len(used)))
        if len(stack.sparse):
            np.add.at(out, (stack.sparse[:, None], np.searchsorted(used, stack.indices)), stack.values)
        if len(stack.dense):
            out[stack.dense] = stack.matrix
        for i in stack.rest.tolist():
            out[i] = flat(self[i].coordinates)
        return out

    def joined(self, new: Iterable[Atom]) -> Atoms:
        """Return the atoms together with those of `new` that are not among them."""
        fresh = {key: atom for atom in new if (key := atom.key) not in self.places}
        if not fresh:
            return self
        joined = Atoms((*self._items, *fresh.values()))
        joined.__dict__["places"] = self.places | {key: len(self) + i for i, key in enumerate(fresh)}
        if "_stack" in self.__dict__:
            joined.__dict__["_stack"] = self._stack.extended(tuple(fresh.values()), len(self))
        return joined

    def kept(self, mask: Array) -> Atoms:
        """Return the atoms for which the mask is true."""
        if mask.all():
            return self
        keep = mask.tolist()
        kept = Atoms(compress(self._items, keep))
        kept.__dict__["places"] = {key: i for i, key in enumerate(compress(self.places, keep))}
        if "_stack" in self.__dict__:
            kept.__dict__["_stack"] = self._stack.kept(mask)
        return kept


class _Stack(NamedTuple):
    """Atoms as arrays with their indices, so that one product scores all of them.

    Sparse vertices are rows of positions and values, all of one length. Other short vertices are rows of a matrix. The
    rest (a starting point, long dense vertices, rank-one matrices) is scored one by one.
    """

    sparse: Array
    indices: Array
    values: Array
    dense: Array
    matrix: Array
    rest: Array

    @classmethod
    def of(
        cls, atoms: Sequence[Atom], offset: int = 0, width: int | None = None, among: Container[int] | None = None
    ) -> _Stack:
        """Return the stack of atoms with indices from `offset` on.

        Sparse vertices of another width, or with an index that is not `among` the given ones, are not sparse rows.
        """
        sparse, rows, dense, arrays, rest = [], [], [], [], []
        for i, atom in enumerate(atoms, offset):
            entries, row = atom.entries(), _short_row(atom)
            if entries is not None and width in (None, len(entries[0])) and (among is None or i in among):
                width = len(entries[0])
                sparse.append(i)
                rows.append(entries)
            elif row is not None:
                dense.append(i)
                arrays.append(row)
            else:
                rest.append(i)
        return cls(
            np.array(sparse, dtype=np.intp),
            np.array([indices for indices, _ in rows], dtype=np.intp),
            np.array([values for _, values in rows], dtype=float),
            np.array(dense, dtype=np.intp),
            np.array(arrays),
            np.array(rest, dtype=np.intp),
        )

    def extended(self, atoms: Sequence[Atom], offset: int) -> _Stack:
        """Return the stack with further atoms, whose indices start at `offset`."""
        new = _Stack.of(atoms, offset, self.indices.shape[1] if len(self.sparse) else None)
        pairs = zip(self, new, strict=True)
        return _Stack(*(b if not len(a) else a if not len(b) else np.concatenate([a, b]) for a, b in pairs))

    def kept(self, mask: Array) -> _Stack:
        """Return the stack of the atoms for which the mask is true."""
        place = np.cumsum(mask) - 1
        sparse, dense, rest = mask[self.sparse], mask[self.dense], mask[self.rest]
        return _Stack(
            place[self.sparse[sparse]],
            self.indices[sparse],
            self.values[sparse],
            place[self.dense[dense]],
            self.matrix[dense],
            place[self.rest[rest]],
        )


def _short_row(atom: Atom) -> Array | None:
    """Return the coordinates of a short vertex that is not rank-one; else None."""
    if atom.vertex is None or atom.factored or math.prod(atom.vertex.shape) > _SHORT:
        return None
    row = atom.row()
    return flat(atom.vertex) if row is None else row


class Decomposition(ABC):
    """Point as a weighted sum of atoms: one convex combination, or one for every summand of the set."""

    atoms: Sequence[Atom]
    weights: Array

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def vertices(self) -> list[Any]:
        return [atom.given for atom in self.atoms]

    @property
    def x(self) -> Any:
        """Point as an array, or as a `LowRank` if every vertex is rank-one."""
        shape = self.vertices[0].shape
        factored = all(atom.factored for atom in self.atoms)
        like = FactoredPoint(LowRank.zeros(shape)) if factored else Point(np.zeros(shape))
        return self.bare().point(like).x.copy()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.x, dtype=dtype)

    @abstractmethod
    def point(self, like: Point) -> Point:
        """Return x and its image, computed from the atoms."""

    @property
    @abstractmethod
    def starts(self) -> Array:
        """Index of the first atom of every block."""

    @abstractmethod
    def scores(self, g: Gradient) -> Array:
        """Return the inner product of a gradient with every atom."""

    @abstractmethod
    def weighted(self, weights: Array) -> Decomposition:
        """Return the decomposition with other weights, scaled to sum one, without atoms of weight zero."""

    @abstractmethod
    def mapped(self, change: Callable[[Atom], Atom]) -> Self:
        """Return the decomposition with every atom replaced, and the same weights."""

    def lifted(self, f: Objective) -> Self:
        """Return the decomposition with the images of the atoms under an objective."""
        return self.mapped(lambda atom: atom.imaged_by(f))

    def bare(self) -> Self:
        """Return the decomposition without images."""
        return self.mapped(lambda atom: atom.bare())

    @abstractmethod
    def fits(self, C: ConstraintSet, tol: float = 1e-8) -> bool:
        """Return whether the weights are positive and no atom is known to be outside of C."""

    @abstractmethod
    def few(self, times: int = 1) -> Decomposition:
        """Reduce more than `times` atoms per dimension to an affine basis of the atoms."""

    @abstractmethod
    def single(self) -> ActiveSet:
        """Return one convex combination of members of the whole set."""


@storable("active-set", valid=lambda active: active.weights.shape == (len(active.atoms),))
@dataclass(frozen=True, eq=False)
class ActiveSet(Decomposition):
    """Point as the sum of ``weights[i] * vertices[i]``, with weights that sum to one.

    A run returns it as ``result.active_set``. ``minimize(f, C, x0=result.active_set)`` starts another run: methods with
    an active set start from its vertices, and other methods start from its point.

    Attributes
    ----------
    weights : array
        Weights of the vertices. They are positive, except for tableaus without a certificate.
    vertices : list
        Vertices that the oracle returned; ``numpy.asarray`` converts each to an array. The starting point is one of
        them, as an array, while it has weight.
    atoms : sequence
        The vertices together with their images.

    See Also
    --------
    caratheodory : Fewer vertices for the same point.
    BlockSet : One mixture for each block of a product.
    Result : Holds the active set of a run.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> r = fw.minimize(fw.Quadratic(np.eye(3), [0.7, 0.3, -1.0]), fw.Simplex(), method="pairwise")
    >>> r.active_set.weights
    array([0.7, 0.3])
    >>> [np.asarray(vertex).tolist() for vertex in r.active_set.vertices]
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """

    atoms: Atoms
    weights: Array

    def __post_init__(self) -> None:
        self.weights.setflags(write=False)  # states and results share the array

    @classmethod
    def starting_at(cls, x: Point) -> ActiveSet:
        """Return the decomposition with all weight on one point."""
        return cls(Atoms((x,)), np.ones(1))

    def __repr__(self) -> str:
        return f"ActiveSet({len(self)} vertices)"

    def point(self, like: Point) -> Point:
        terms = list(zip(self.weights.tolist(), self.atoms, strict=True))
        if like.factored:
            return like.zero().mix(terms)
        image = None if like.image is None else np.zeros_like(like.image)
        if image is not None:
            for w, atom in terms:
                atom.add_image_to(image, w)
        return Point(self.atoms.mixed(self.weights, like.x), image)

    @property
    def starts(self) -> Array:
        return np.zeros(1, dtype=np.intp)

    def scores(self, g: Gradient) -> Array:
        return g.scores(self.atoms)

    def weighted(self, weights: Array) -> ActiveSet:
        # Rounding leaves a weight of some ulps where it should be zero, so the limit is not zero.
        mask = weights > 1e-14
        return ActiveSet(self.atoms.kept(mask), weights[mask] / weights[mask].sum())

    def joined(self, new: Iterable[Atom]) -> ActiveSet:
        """Return the active set with further atoms of weight zero."""
        atoms = self.atoms.joined(new)
        return ActiveSet(atoms, np.concatenate([self.weights, np.zeros(len(atoms) - len(self))]))

    def moved(self, length: float, terms: Sequence[tuple[float, Atom]]) -> ActiveSet:
        """Return the active set after a step along ``sum of w (atom - x)``, without atoms of weight zero."""
        joined = self.joined(atom for _, atom in terms)
        weights = (1.0 - length * sum(w for w, _ in terms)) * joined.weights
        for w, atom in terms:
            weights[joined.atoms.places[atom.key]] += length * w
        return joined.weighted(weights)

    def mapped(self, change: Callable[[Atom], Atom]) -> ActiveSet:
        return ActiveSet(Atoms(map(change, self.atoms)), self.weights)

    def fits(self, C: ConstraintSet, tol: float = 1e-8) -> bool:
        return bool(self.weights.min() > 0) and all(
            verdict(C.contains(atom.member, tol)) is not False for atom in self.atoms
        )

    def few(self, times: int = 1) -> ActiveSet:
        n = self.atoms.dimension
        return caratheodory(self) if n <= _REDUCIBLE_DIMENSION and len(self) > times * n + 1 else self

    def single(self) -> ActiveSet:
        return self


def added(x: Point, atoms: Sequence[Atom], values: Iterable[float]) -> Point:
    """Return x plus multiples of atoms, with its image."""
    moved, image = x.x.copy(), None if x.image is None else x.image.copy()
    for atom, value in zip(atoms, values, strict=True):
        atom.add_to(moved, float(value))
        if image is not None:
            atom.add_image_to(image, float(value))
    return Point(moved, image)


def caratheodory(active: ActiveSet) -> ActiveSet:
    """Return an active set of the same point with at most dim + 1 atoms (Caratheodory, 1907).

    The remaining atoms are affinely independent. Weights change along null vectors of the atoms, which do not change
    the point. The weight that reaches zero first is removed, so that no weight becomes negative. Sums of rank-one
    matrices are returned unchanged.

    Parameters
    ----------
    active : ActiveSet
        Decomposition of a point.

    Returns
    -------
    ActiveSet
        Decomposition of the same point.

    See Also
    --------
    ActiveSet : Point as a mixture of vertices.
    minimize : Its results have an active set.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f, C = fw.Quadratic(np.eye(2), [0.3, 0.1]), fw.ConvexHull([[1, 0], [0, 1], [-1, 0], [0, -1]])
    >>> r = fw.minimize(f, C, method="fw", tol=0, max_iter=100)
    >>> few = fw.caratheodory(r.active_set)
    >>> len(r.active_set), len(few), np.allclose(few.x, r.x)
    (4, 3, True)
    """
    if all(atom.factored for atom in active.atoms):
        return active
    weights, kept = active.weights.copy(), np.zeros(len(active), dtype=bool)
    n, waiting = active.atoms.dimension, np.arange(len(active))
    while len(waiting):  # in groups, because a null space takes the square of their number
        room = n + n // 4 + 16 - np.count_nonzero(kept)
        kept[waiting[:room]], waiting = True, waiting[room:]
        weights[kept] = _emptied(weights[kept], _null_space(active.atoms.kept(kept).rows()))
        kept &= weights > 0
    return active.weighted(weights)


def _emptied(weights: Array, null: Array) -> Array:
    """Return the weights, changed along the null vectors until one weight per null vector is zero."""
    while null.shape[1]:
        sizes = np.linalg.norm(null, axis=1)
        distances = np.divide(weights, sizes, out=np.full(len(weights), np.inf), where=sizes > 1e-10)
        j = int(distances.argmin())
        weights = weights - dot(null, distances[j] / sizes[j] * null[j])
        mirror = null[j].copy()  # Householder reflection, after which only the first column changes weight j
        mirror[0] += math.copysign(sizes[j], mirror[0])
        null = (null - np.outer(dot(null, mirror), 2 / dot(mirror, mirror) * mirror))[:, 1:]
        weights[j], null[j] = 0.0, 0.0
    return weights


def _null_space(rows: Array) -> Array:
    """Return an orthonormal basis of the weights with sum zero for which the weighted sum of the rows is zero."""
    rows = rows - rows[0]
    span = np.abs(rows).max(axis=0)
    B = np.column_stack([np.ones(len(rows)), rows[:, span > 0] / span[span > 0]])
    Q, R, _ = scipy.linalg.qr(B, pivoting=True, check_finite=False)
    pivots = np.abs(R.diagonal())
    return Q[:, (pivots > 8 * len(rows) * np.finfo(float).eps * pivots[0]).sum() :]


@storable("record", valid=lambda record: all(len(weights) == len(s) for weights, s in record.steps))
class Record(NamedTuple):
    """Decomposition of a multistep iterate: an active set without images, and the steps taken since.

    Recording a step takes one or two microseconds. Every 64 steps the steps are added to the active set. None replaces
    the record if targets are not vertices or the vertices take too much memory.
    """

    active: ActiveSet
    limit: int
    steps: tuple[tuple[Sequence[float], Sequence[Vertex]], ...] = ()
    pending: int = 0

    @classmethod
    def starting_with(cls, active: ActiveSet, x: Point) -> Record | None:
        """Return the record at the start of a run; None for a factored x, which is a decomposition itself."""
        if x.factored:
            return None
        return cls(active.bare(), min(_MOST_TIMES * x.x.size, _MOST))

    def after(self, weights: Sequence[float], targets: Sequence[Atom]) -> Record | None:
        """Return the record after a step to ``x + sum of w_i (s_i - x)``."""
        vertices = [target.vertex for target in targets]
        if None in vertices:
            return None
        pending = self.pending + sum([vertex.storage for vertex in vertices])
        record = Record(self.active, self.limit, (*self.steps, (weights, vertices)), pending)
        return record if len(record.steps) < _FOLD_EVERY and pending <= self.limit else record.folded()

    def folded(self) -> Record | None:
        """Return the record with all steps added to the active set."""
        if not self.steps:
            return self
        rest = 1.0  # factor by which the later steps reduce a weight of this step
        gained: dict[Hashable, float] = {}
        atoms: dict[Hashable, Atom] = {}
        for weights, vertices in reversed(self.steps):
            for w, vertex in zip(weights, vertices, strict=True):
                gained[vertex.key] = gained.get(vertex.key, 0.0) + rest * w
                atoms[vertex.key] = Lifted(vertex)
            rest *= 1.0 - sum(weights)
        joined = self.active.joined(atoms.values())
        total = rest * joined.weights
        for key, w in gained.items():
            total[joined.atoms.places[key]] += w
        mask = total != 0
        active = ActiveSet(joined.atoms.kept(mask), total[mask])
        return None if sum(atom.storage for atom in active.atoms) > self.limit else Record(active, self.limit)
