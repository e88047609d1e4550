"""Decompositions of x that a set determines: into its known vertices, and into one active set for every summand."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, Decomposition, caratheodory
from fwflow.methods.restricted.simplices import owners
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import stacked
from fwflow.points.gradients import Gradient
from fwflow.points.point import Atom, Lifted, Point
from fwflow.points.vertices import SparseVertex, Sum, Vertex
from fwflow.sets.base import ConstraintSet, verdict
from fwflow.sets.products import joint_mixture

# Maximum number of blocks; more summands are joined in groups, because correcting weights takes the cube of their
# number. Chosen without tuning.
_MOST = 1000
# Largest error of a decomposition relative to x. Chosen without tuning.
_MISSED = 1e-6
# A weight of a decomposition below this is rounding: 45 units in the last place of the sum of the weights, which is 1.
_ROUNDED = 1e-14


@storable("block-set", valid=lambda active: len(active.blocks) > 1)
@dataclass(frozen=True, eq=False)
class BlockSet(Decomposition):
    """Point as a sum of convex combinations, one for every summand of the set.

    Runs over products, Minkowski sums and flows with several origins return it as ``result.active_set``.
    ``minimize(f, C, x0=result.active_set)`` starts from it. The weights of every block sum to one.

    Attributes
    ----------
    blocks : tuple of ActiveSet
        Mixture of each block.
    weights : array
        Weights of all blocks, in order.
    vertices : list
        Vertices of all blocks that the oracle returned, with the shape of x. Of flows, a block may have one entry, the
        flows from one origin, which is a mixture of vertices.

    See Also
    --------
    ActiveSet : One mixture.
    Product : Set with blocks.
    MinkowskiSum : Set whose members are sums.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f, C = fw.Quadratic(np.eye(4), [0.7, 0.3, 0.0, 2.0]), fw.Product([(fw.Simplex(), 2), (fw.Simplex(), 2)])
    >>> r = fw.minimize(f, C, method="corrective")
    >>> r.active_set
    BlockSet(3 vertices in 2 blocks)
    >>> [np.asarray(block).round(6).tolist() for block in r.active_set.blocks]
    [[0.7, 0.3, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """

    blocks: tuple[ActiveSet, ...]

    def __repr__(self) -> str:
        return f"BlockSet({len(self)} vertices in {len(self.blocks)} blocks)"

    @cached_property
    def atoms(self) -> tuple[Atom, ...]:  # type: ignore[override]
        return tuple(chain.from_iterable(block.atoms for block in self.blocks))

    @cached_property
    def weights(self) -> Array:  # type: ignore[override]
        weights = np.concatenate([block.weights for block in self.blocks])
        weights.setflags(write=False)
        return weights

    @cached_property
    def starts(self) -> Array:
        return np.cumsum([0, *(len(block) for block in self.blocks[:-1])])

    @cached_property
    def _coordinates(self) -> Any:
        return stacked([atom.coordinates for atom in self.atoms])

    def point(self, like: Point) -> Point:
        x = np.asarray(dot(self.weights, self._coordinates)).reshape(like.x.shape).astype(like.x.dtype)
        if like.image is None:
            return Point(x)
        image = dot(self.weights, stacked([atom.image_vertex for atom in self.atoms]))
        return Point(x, np.asarray(image).astype(like.image.dtype))

    def scores(self, g: Gradient) -> Array:
        return np.asarray(dot(self._coordinates, np.ravel(np.asarray(g))))

    def parts(self) -> sp.csr_array:
        """Return the points of all blocks, one per row."""
        if len(self) == len(self.blocks):
            return sp.csr_array(self._coordinates)
        owner, k = owners(self.starts, len(self)), len(self)
        mixing = sp.csr_array((self.weights, (owner, np.arange(k))), (len(self.blocks), k))
        return sp.csr_array(dot(mixing, self._coordinates))

    @classmethod
    def of_parts(cls, parts: sp.csr_array, f: Objective) -> BlockSet:
        """Return the decomposition with one member of every summand, given as rows with sorted entries."""
        places = pairwise(parts.indptr.tolist())
        vertices = (SparseVertex(parts.indices[i:j], parts.data[i:j], parts.shape[1:]) for i, j in places)
        found = cls(tuple(ActiveSet(Atoms((f.lift(vertex),)), np.ones(1)) for vertex in vertices))
        found.__dict__["_coordinates"] = parts
        return found

    def joined(self, new: Sequence[Sequence[Atom]]) -> BlockSet:
        """Return the decomposition with further atoms of weight zero for every block."""
        return BlockSet(tuple(block.joined(atoms) for block, atoms in zip(self.blocks, new, strict=True)))

    def weighted(self, weights: Array) -> BlockSet:
        parts = zip(self.blocks, np.split(weights, self.starts[1:]), strict=True)
        return BlockSet(tuple(block.weighted(part) for block, part in parts))

    def at(self, parts: Iterable[Vertex]) -> Array:
        """Return the weights that are one at the given vertex of every block."""
        weights = np.zeros(len(self))
        places = [block.atoms.places[part.key] for block, part in zip(self.blocks, parts, strict=True)]
        weights[self.starts + np.array(places)] = 1.0
        return weights

    def squared_distances(self, one: Array, other: Array) -> Array:
        """Return the squared distances between pairs of atoms, given by their indices."""
        apart = self._coordinates[one] - self._coordinates[other]
        return np.asarray((apart * apart).sum(axis=1)).reshape(-1)

    def few(self, times: int = 1) -> BlockSet:
        many = [not _few(block, times) for block in self.blocks]
        parts = (caratheodory(block) if more else block for more, block in zip(many, self.blocks, strict=True))
        return BlockSet(tuple(parts)) if any(many) else self

    def mapped(self, change: Callable[[Atom], Atom]) -> BlockSet:
        return BlockSet(tuple(block.mapped(change) for block in self.blocks))

    def fits(self, C: ConstraintSet, tol: float = 1e-8) -> bool:
        x = np.array(self.x)
        return bool(self.weights.min() > 0) and all(
            verdict(C.contains(x - np.asarray(block.x) + np.asarray(atom.member), tol)) is not False
            for block in self.blocks
            for atom in block.atoms
        )

    def single(self) -> ActiveSet:
        found = list(joint_mixture([list(zip(b.weights.tolist(), b.atoms, strict=True)) for b in self.blocks]))
        weights = np.array([w for w, _ in found])
        atoms = [Lifted(Sum(tuple(atom.coordinates for atom in parts))) for _, parts in found]
        return ActiveSet(Atoms(atoms), weights / weights.sum())


def _few(block: ActiveSet, times: int) -> bool:
    """Return whether there are at most `times` atoms per entry that any atom uses, plus one."""
    dimension, found = math.prod(block.atoms[0].coordinates.shape), []
    for atom in block.atoms:
        entries = atom.coordinates.entries()
        if len(block) <= times * (dimension if entries is None else len(entries[0])) + 1:
            return True
        found.append(np.arange(dimension) if entries is None else entries[0])
    return len(block) <= times * len(np.unique(np.concatenate(found))) + 1


def parts_of(C: ConstraintSet, vertex: Vertex) -> tuple[Vertex, ...] | None:
    """Return the vertices, one per block, whose sum is a vertex of C; None if C cannot split it."""
    return (vertex,) if C.summands is None else _grouped(C.summands.split_vertex(vertex))


def _grouped(parts: tuple[Vertex, ...] | None) -> tuple[Vertex, ...] | None:
    if parts is None or len(parts) <= _MOST:
        return parts
    return tuple(Sum(parts[i::_MOST]) for i in range(_MOST))


def by_block(active: Decomposition, f: Objective, C: ConstraintSet, x: Point) -> BlockSet | None:
    """Return a decomposition of x by the blocks of C, with images; None if C has one block or cannot split x."""
    summands = C.summands
    if summands is None or x.factored:
        return None
    if isinstance(active, BlockSet):
        return active.lifted(f) if len(active.blocks) == min(summands.n_summands, _MOST) else None
    blocks: list[dict[Hashable, tuple[float, Vertex]]] = [{} for _ in range(min(summands.n_summands, _MOST))]
    for w, atom in zip(active.weights.tolist(), active.atoms, strict=True):
        parts = _grouped(summands.split_point(atom.member)) if atom.vertex is None else parts_of(C, atom.vertex)
        if parts is None:
            return None
        for block, part in zip(blocks, parts, strict=True):
            block[part.key] = (w + block.get(part.key, (0.0,))[0], part)
    found = BlockSet(tuple(_mixture(block.values()) for block in blocks))
    missed = np.abs(found.point(x.bare()).x - x.x).max()  # an atom may be a vertex of another set
    return found.lifted(f) if missed <= _MISSED * max(np.abs(x.x).max(), 1e-300) else None


def with_parts(problem: Problem, known: Evaluation, active: BlockSet, ranked: Sequence[tuple[Vertex, ...]]) -> BlockSet:
    """Add the parts of the oracle's vertex, and parts of further vertices with a lower value than x in their block."""
    g, scores = np.asarray(known.gradient), active.scores(known.gradient)
    here = np.add.reduceat(scores * active.weights, active.starts)
    lowest = np.minimum.reduceat(scores, active.starts)
    new: list[list[Atom]] = [[] for _ in active.blocks]
    for rank, parts in enumerate(ranked):
        if rank > 0 and problem.late:
            break
        for b, (block, part) in enumerate(zip(active.blocks, parts, strict=True)):
            if part.key not in block.atoms.places and (rank == 0 or part.dot(g) < here[b]):
                new[b].append(problem.objective.lift(part))
                lowest[b] = min(lowest[b], part.dot(g))
    problem.agreed(float(lowest.sum()), known, "summands")
    return active.joined(new)


def _mixture(terms: Collection[tuple[float, Vertex]]) -> ActiveSet:
    return ActiveSet(Atoms(Lifted(vertex) for _, vertex in terms), np.array([w for w, _ in terms]))


def decomposed(problem: Problem, x: Point) -> ActiveSet | None:
    """Return x as a mixture of vertices and, for the rest of the weight, the origin; None if the set cannot do so.

    A rest of at most 1e-14 counts as rounding, as does any rest where the origin is not a member: the weights are then
    divided by their sum.
    """
    f, C = problem.objective, problem.constraint
    vertices = None if C.known_vertices is None else C.known_vertices.decomposed(x.x)
    if vertices is None:
        return None
    weights = [w for w, _ in vertices]
    atoms = [f.lift(vertex) for _, vertex in problem.in_time(vertices)]
    if len(atoms) < len(vertices):
        return None
    rest, zero = 1.0 - sum(weights), np.zeros_like(x.x)
    if rest > _ROUNDED and C.contains(zero):
        image = None if f.image_map is None else np.zeros(f.image_map.size, f.dtype)
        return ActiveSet(Atoms((Point(zero, image), *atoms)), np.array([rest, *weights]))
    return ActiveSet(Atoms(atoms), np.array(weights) / sum(weights))
