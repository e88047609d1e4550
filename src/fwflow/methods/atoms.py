"""What is x made of? Atoms, the weights on them, and the record by which multistep methods keep theirs cheaply."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any, NamedTuple, overload

import numpy as np

from fwflow._validation import Array
from fwflow.objectives.base import Objective
from fwflow.objectives.screening import LazyGradient
from fwflow.points import DenseVertex, Lifted, LowRank, Point, RankOne, Vertex
from fwflow.sets.base import ConstraintSet

Atom = Lifted | Point

# A dense vertex up to this size is scored faster as a row of a matrix than by a call of its own.
_SHORT = 256
# So many steps are kept as they are before they are folded into an active set.
_FOLD_EVERY = 64
# A record is given up when its vertices take this many times the memory of x, or this many numbers (256 MB) in all.
_MOST_TIMES, _MOST = 100, 2**25


class Atoms(Sequence[Atom]):
    """Distinct atoms. Active sets that differ only in weights share them, and with them what was computed of them."""

    def __init__(self, items: Iterable[Atom]) -> None:
        self._items = tuple(items)

    @overload
    def __getitem__(self, i: int) -> Atom: ...
    @overload
    def __getitem__(self, i: slice) -> tuple[Atom, ...]: ...
    def __getitem__(self, i: int | slice) -> Atom | tuple[Atom, ...]:
        return self._items[i]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Atom]:
        return iter(self._items)

    @cached_property
    def places(self) -> dict[Hashable, int]:
        """Where each atom stands, by its key."""
        return {key_of(atom): i for i, atom in enumerate(self._items)}

    @cached_property
    def _stack(self) -> _Stack:
        return _Stack.of(self._items)

    def scores(self, g: Any) -> Array:
        """The inner product of a gradient with every atom."""
        if not isinstance(g, LazyGradient):
            return self._products(g)
        # From the entries of the atoms, or from all where rounding would say which atom is the best or the worst.
        stack = self._stack
        if g.whole is None and len(stack.sparse):
            slack = 2 * float(np.abs(stack.values).max()) * g.learn(stack.indices.reshape(-1).tolist())
            scores = self._products(g)
            ordered = np.sort(scores)
            if len(scores) == 1 or min(ordered[1] - ordered[0], ordered[-1] - ordered[-2]) > slack:
                return scores
        return self._products(np.asarray(g))

    def _products(self, g: Any) -> Array:
        out = np.empty(len(self))
        rest: Iterable[int] = range(len(self))
        if isinstance(g, np.ndarray):
            stack, flat = self._stack, g.reshape(-1)
            if len(stack.sparse):
                out[stack.sparse] = (stack.values * flat[stack.indices]).sum(axis=1)
            if len(stack.dense):
                out[stack.dense] = stack.matrix @ flat
            rest = stack.rest.tolist()
        for i in rest:
            atom = self._items[i]
            out[i] = atom.inner(g) if isinstance(atom, Point) else atom.vertex.dot(g)
        return out

    def mixed(self, weights: Array, like: Array) -> Array:
        """The sum of the atoms times their weights."""
        stack = self._stack
        out: Array = np.zeros(like.size)
        if len(stack.sparse):
            terms = weights[stack.sparse][:, None] * stack.values
            out = np.bincount(stack.indices.reshape(-1), terms.reshape(-1), minlength=like.size)
        if len(stack.dense):
            out = out + weights[stack.dense] @ stack.matrix
        out = out.reshape(like.shape).astype(like.dtype, copy=False)
        for i in stack.rest.tolist():
            atom = self._items[i]
            if isinstance(atom, Point):
                out += weights[i] * atom.x
            else:
                atom.vertex.add_to(out, float(weights[i]))
        return out

    def joined(self, new: Iterable[Atom]) -> Atoms:
        """With further atoms, unless they are there already."""
        fresh = {key: atom for atom in new if (key := key_of(atom)) not in self.places}
        if not fresh:
            return self
        joined = Atoms((*self._items, *fresh.values()))
        joined.__dict__["places"] = self.places | {key: len(self) + i for i, key in enumerate(fresh)}
        if "_stack" in self.__dict__:
            joined.__dict__["_stack"] = self._stack.extended(tuple(fresh.values()), len(self))
        return joined

    def kept(self, mask: Array) -> Atoms:
        """Those that the mask keeps."""
        if mask.all():
            return self
        keep = mask.tolist()
        kept = Atoms(compress(self._items, keep))
        kept.__dict__["places"] = {key: i for i, key in enumerate(compress(self.places, keep))}
        if "_stack" in self.__dict__:
            kept.__dict__["_stack"] = self._stack.kept(mask)
        return kept


def key_of(atom: Atom) -> Hashable:
    """What tells atoms apart: a point is itself, a vertex is its entries."""
    return atom if isinstance(atom, Point) else atom.vertex.key


class _Stack(NamedTuple):
    """Atoms as arrays, so that one product scores them all: their places, and the rows that stand there.

    Sparse vertices are rows of positions and values, all of one length; short dense ones are rows of a matrix. The
    rest (a starting point, long dense vertices, rank-one matrices) is asked one by one.
    """

    sparse: Array
    indices: Array
    values: Array
    dense: Array
    matrix: Array
    rest: Array

    @classmethod
    def of(cls, atoms: Sequence[Atom], offset: int = 0, width: int | None = None) -> _Stack:
        """The stack of atoms whose places begin at `offset`; sparse vertices of another width go to the rest."""
        sparse, rows, dense, arrays, rest = [], [], [], [], []
        for i, atom in enumerate(atoms, offset):
            vertex = None if isinstance(atom, Point) else atom.vertex
            entries = None if vertex is None else vertex.entries()
            if entries is not None and width in (None, len(entries[0])):
                width = len(entries[0])
                sparse.append(i)
                rows.append(entries)
            elif isinstance(vertex, DenseVertex) and vertex.array.size <= _SHORT:
                dense.append(i)
                arrays.append(vertex.array.reshape(-1))
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
        """With further atoms, whose places begin at `offset`."""
        new = _Stack.of(atoms, offset, self.indices.shape[1] if len(self.sparse) else None)
        pairs = zip(self, new, strict=True)
        return _Stack(*(b if not len(a) else a if not len(b) else np.concatenate([a, b]) for a, b in pairs))

    def kept(self, mask: Array) -> _Stack:
        """Without the places where the mask is false."""
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


@dataclass(frozen=True, eq=False)
class ActiveSet:
    """x as a mixture: the sum of ``weights[i] * vertices[i]``, the weights summing to one.

    A run returns it as ``result.active_set``, and ``minimize(f, C, x0=result.active_set)`` starts from it: methods with
    an active set begin with its vertices, others with its point.

    Attributes
    ----------
    weights : array
        Positive, but for tableaus without a certificate.
    vertices : list
        What the oracle returned; ``numpy.asarray`` makes an array of it. As long as the starting point has weight, it
        is one of them, as the array that it is.

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
        self.weights.setflags(write=False)  # states and results share them

    @classmethod
    def starting_at(cls, x: Point) -> ActiveSet:
        """All weight on one point."""
        return cls(Atoms((x,)), np.ones(1))

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        return f"ActiveSet({len(self)} vertices)"

    @property
    def vertices(self) -> list[Any]:
        return [atom.x.copy() if isinstance(atom, Point) else atom.vertex for atom in self.atoms]

    @property
    def x(self) -> Any:
        """The point: an array, or a `LowRank` where every vertex is rank-one."""
        vertices = self.vertices
        factored = all(isinstance(v, RankOne | LowRank) for v in vertices)
        shape = vertices[0].shape
        return self.point(Point(LowRank.zeros(shape) if factored else np.zeros(shape))).x

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.asarray(self.x, dtype=dtype)

    def point(self, like: Point) -> Point:
        """x and its image, put together from the atoms."""
        terms = list(zip(self.weights.tolist(), self.atoms, strict=True))
        if isinstance(like.x, LowRank):
            image = None if like.image is None else np.zeros_like(like.image)
            return Point(LowRank.zeros(like.x.shape, like.x.dtype), image).mix(terms)
        x = self.atoms.mixed(self.weights, like.x)
        if like.image is None:
            return Point(x)
        image = np.zeros_like(like.image)
        for w, atom in terms:
            if isinstance(atom.image, Vertex):
                atom.image.add_to(image, w)
            else:
                image += w * atom.image
        return Point(x, image)

    def scores(self, g: Any) -> Array:
        """The inner product of a gradient with every atom."""
        return self.atoms.scores(g)

    def joined(self, new: Iterable[Atom]) -> ActiveSet:
        """With further atoms of weight zero, unless they are there already."""
        atoms = self.atoms.joined(new)
        return ActiveSet(atoms, np.concatenate([self.weights, np.zeros(len(atoms) - len(self))]))

    def moved(self, length: float, terms: Sequence[tuple[float, Atom]]) -> ActiveSet:
        """After a step of that length along ``sum of w (atom - x)``; atoms left without weight are dropped."""
        joined = self.joined(atom for _, atom in terms)
        weights = (1.0 - length * sum(w for w, _ in terms)) * joined.weights
        for w, atom in terms:
            weights[joined.atoms.places[key_of(atom)]] += length * w
        return ActiveSet(joined.atoms, weights).pruned()

    def pruned(self) -> ActiveSet:
        """Without atoms of no weight, the weights summing to one."""
        # Rounding leaves of a dropped weight some ulps, which would hold a useless atom forever.
        mask = self.weights > 1e-14
        weights = self.weights[mask]
        return ActiveSet(self.atoms.kept(mask), weights / weights.sum())

    def lifted(self, f: Objective) -> ActiveSet:
        """With the images of the atoms under another objective."""
        atoms = (f.point(atom.x) if isinstance(atom, Point) else f.lift(atom.vertex) for atom in self.atoms)
        return ActiveSet(Atoms(atoms), self.weights)

    def fits(self, C: ConstraintSet, tol: float = 1e-8) -> bool:
        """Whether a method on C may shift its weights: they are positive, and no vertex is known to be outside."""
        return bool(self.weights.min() > 0) and all(C.contains(_member(v), tol) is not False for v in self.vertices)

    def bare(self) -> ActiveSet:
        """Without images."""
        atoms = (Point(atom.x) if isinstance(atom, Point) else Lifted(atom.vertex) for atom in self.atoms)
        return ActiveSet(Atoms(atoms), self.weights)


def _member(vertex: Any) -> Any:
    """What a set can be asked about: rank-one matrices stay factored."""
    return LowRank(vertex.shape, {vertex: 1.0}, vertex.u.dtype) if isinstance(vertex, RankOne) else np.asarray(vertex)


def active_set_of(memory: Any) -> ActiveSet | None:
    """What a method's memory tells of x, if anything."""
    active = getattr(memory, "active", None)
    return active if isinstance(active, ActiveSet) else None


class Record(NamedTuple):
    """The decomposition of a multistep iterate: an active set without images, and the steps taken since.

    A step adds an entry, which takes a microsecond or two; every 64 steps the entries are folded into the active set.
    Where the targets are not vertices, or the vertices take too much memory, the record is given up: None replaces it.
    """

    active: ActiveSet
    limit: int
    steps: tuple[tuple[Sequence[float], Sequence[Vertex]], ...] = ()
    pending: int = 0
    stored: int = 0

    @classmethod
    def starting_with(cls, active: ActiveSet, x: Point) -> Record | None:
        """The record of a run from x; a factored x is a decomposition itself and needs none."""
        if isinstance(x.x, LowRank):
            return None
        return cls(active.bare(), min(_MOST_TIMES * x.x.size, _MOST), stored=_storage(active.atoms))

    def after(self, weights: Sequence[float], targets: Sequence[Atom]) -> Record | None:
        """After a step to ``x + sum of w_i (s_i - x)``."""
        vertices = [target.vertex for target in targets if isinstance(target, Lifted)]
        if len(vertices) < len(targets):
            return None
        pending = self.pending + sum([vertex.storage for vertex in vertices])
        record = Record(self.active, self.limit, (*self.steps, (weights, vertices)), pending, self.stored)
        return record if len(record.steps) < _FOLD_EVERY and pending <= self.limit else record.folded()

    def folded(self) -> Record | None:
        """The same with no steps left over."""
        if not self.steps:
            return self
        rest = 1.0  # what is left, after the later steps, of a weight given by this one
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
        fresh = joined.atoms[len(self.active) :]
        stored = self.stored + _storage(fresh) if mask.all() else _storage(active.atoms)
        return None if stored > self.limit else Record(active, self.limit, stored=stored)


def _storage(atoms: Iterable[Atom]) -> int:
    return sum(atom.vertex.storage for atom in atoms if isinstance(atom, Lifted))
