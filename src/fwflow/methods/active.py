"""Methods that keep x as weights on an active set of vertices: away-step, pairwise and blended pairwise Frank-Wolfe.

Where the optimum lies on a face, plain Frank-Wolfe zig-zags towards it; a method that can take weight away from
vertices that were a mistake converges linearly on polytopes.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, whole
from fwflow.methods import work
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import searched
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import ActiveSet, Decomposition, caratheodory
from fwflow.methods.restricted.blocks import BlockSet, by_block, parts_of, with_parts
from fwflow.methods.restricted.simplices import best_and_worst, block_gap
from fwflow.objectives.secants import Secants
from fwflow.points.gradients import Gradient
from fwflow.points.point import Atom, Lifted, Point
from fwflow.steps.searches import ExactSearch, LineSearch

Terms = list[tuple[float, Atom]]

# Steps that blended pairwise steps need if all goes well: in any case, and for each atom of the solution.
_LIKELY_STEPS, _LIKELY_STEPS_PER_ATOM = 300, 50
# After so many steps x is put together anew from its atoms, free of accumulated rounding.
_REBUILD_EVERY = 100
# A result has no more atoms than dimensions, and one. A run keeps so many times that, as few cost steps: reduced
# from 1.5 times on, products took up to 1.9 times those of runs that keep all; from 10 times on, 1.1 times on average.
_MOST_TIMES = 10
# To be rid of an atom takes the square of the dimension: in more than these, longer than the step that brought it.
_MOST_DIMENSIONS = 1000


@storable("atom-memory")
@dataclass(frozen=True)
class AtomMemory:
    """The active set, and what else a method needs: the line search's memory, what gradients have told of curvature,
    and for lazy methods the gap to be expected and the oracle's hint."""

    active: Decomposition
    search: Any = None
    expected: float = np.inf
    hint: Lifted | None = None
    secants: Secants = field(default_factory=Secants)


@storable("block-memory")
@dataclass(frozen=True)
class BlockMemory(AtomMemory):
    """With a number that turns slopes within blocks into the weights to shift."""

    reach: float = np.inf


class KeepsAtoms(Method):
    """A method with an active set, which begins with all weight on one point, or with a given mixture."""

    def init(self, problem: Problem, x: Point) -> AtomMemory:
        return AtomMemory(ActiveSet.starting_at(x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> AtomMemory:
        return AtomMemory(active.single().lifted(problem.objective))

    def active_set(self, memory: AtomMemory) -> Decomposition:
        active = memory.active.single()
        return _reduced(active, active.atoms.dimension, 1)


def _reduced(active: ActiveSet, n: int, times: int) -> ActiveSet:
    """The same point from an affine basis of its atoms, if they are more than so many times their dimension n."""
    return caratheodory(active) if n <= _MOST_DIMENSIONS and len(active) > times * n + 1 else active


class KeepsBlocks(KeepsAtoms):
    """The same, with a mixture for every set of which the constraint set is the sum, where it tells what they are."""

    def init(self, problem: Problem, x: Point) -> AtomMemory:
        C = problem.constraint
        problem.counts.n_lmo += C.start_calls_oracle and C.summands is not None  # a sum compares x with its start
        blocks = by_block(ActiveSet.starting_at(x), problem.objective, C, x)
        return super().init(problem, x) if blocks is None else AtomMemory(blocks)

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> AtomMemory:
        blocks = by_block(active, problem.objective, problem.constraint, x)
        return super().init_from(problem, x, active) if blocks is None else AtomMemory(blocks)

    def active_set(self, memory: AtomMemory) -> Decomposition:
        active = memory.active
        return active.few() if isinstance(active, BlockSet) else super().active_set(memory)


@dataclass(frozen=True)
class ActiveSetMethod(KeepsAtoms):
    """Steps that shift weight between atoms.

    Parameters
    ----------
    line_search : LineSearch
    lazy : bool
        Try the atoms before the oracle: one that promises half of the gap last seen will do (Braun, Pokutta & Zink,
        2017). For sets whose oracle costs more than a gradient; the gap is then known only where it is checked.
    prune : int
        x is put together from an affine basis of its atoms whenever they are more than so many times its dimension (of
        at most 1000), and one: 1 keeps the bound of Caratheodory at the price of more steps.
    """

    line_search: LineSearch = field(default_factory=ExactSearch)
    lazy: bool = False
    prune: int = field(default=_MOST_TIMES, repr=False)  # states of any are alike

    def __post_init__(self) -> None:
        whole(self.prune, "prune", 1)

    @property
    def oracle_only(self) -> bool:
        """Gradients are asked for the oracle's answer and the scores of atoms alone."""
        return True

    @property
    def uses_iterate(self) -> bool:
        return not self.lazy

    @property
    def check_every(self) -> int:
        return 20 if self.lazy else 1

    @property
    def descends(self) -> bool:
        return self.line_search.descends

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        x, known = iterate.point, iterate.known
        active, expected, hint = memory.active.single(), memory.expected, memory.hint
        if known is None:
            g = problem.gradient(x)
            scores = active.scores(g)
            known = self._cached(problem, active, scores, x, g, expected, hint)
        else:
            scores = active.scores(known.gradient)
        if known.vertex.vertex is not None:
            hint = known.vertex
        expected = min(expected, known.gap)
        terms, limit = self.direction(active, scores, known, x)
        limit = problem.segment_inside(x, terms, limit)
        line = problem.along(x, x.mix(terms), iterate.fun, known.gradient)
        length, search = searched(problem, self.line_search, line, min(1.0, limit), limit, memory.search)
        length = float(length)
        moved = active.moved(length, terms)
        moved = moved if problem.late else _reduced(moved, math.prod(x.x.shape), self.prune)
        point = x.mix((length * w, atom) for w, atom in terms)
        if iterate.k % _REBUILD_EVERY == _REBUILD_EVERY - 1:
            rebuilt = moved.point(x)
            point = rebuilt if problem.defined_at(rebuilt) else point  # rounding may decide, on the border
        following = AtomMemory(moved, search, expected, hint)
        return Proposal(point, length, following, known.gap, mixture=0 <= length <= limit)

    def _cached(
        self,
        problem: Problem,
        active: ActiveSet,
        scores: Array,
        x: Point,
        g: Gradient,
        expected: float,
        hint: Lifted | None,
    ) -> Evaluation:
        """What is known of x with an atom in the oracle's place, if one promises half of the expected gap."""
        best = int(scores.argmin())
        gap = g.inner(x) - float(scores[best])
        if gap >= expected / 2:
            return Evaluation(g, active.atoms[best], gap)
        s = problem.lmo(g, hint)
        return Evaluation(g, s, g.inner(x) - g.dot(s.vertex))

    @abstractmethod
    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        """Along which ``sum of w (atom - x)`` to move, and how far that is possible."""


@dataclass(frozen=True)
class AwayStep(ActiveSetMethod):
    r"""Frank-Wolfe steps or steps away from the worst atom, whichever promises more (Lacoste-Julien & Jaggi, 2015)."""

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        worst = int(scores.argmax())
        if len(scores) == 1 or known.gap >= scores[worst] - known.gradient.inner(x):
            return [(1.0, known.vertex)], 1.0
        weight = float(active.weights[worst])
        return [(-1.0, active.atoms[worst])], weight / (1 - weight)


@dataclass(frozen=True)
class Pairwise(ActiveSetMethod):
    """Move weight from the worst atom to the Frank-Wolfe vertex."""

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        worst = int(scores.argmax())
        return [(1.0, known.vertex), (-1.0, active.atoms[worst])], float(active.weights[worst])


@dataclass(frozen=True)
class BlendedPairwise(KeepsBlocks, ActiveSetMethod):
    """Move weight within the active set while that promises as much as a new vertex (Tsuji, Tanaka & Pokutta, 2022).

    It needs no swap steps, and its active sets stay small. Where the set is a sum of sets, weight moves in all of their
    mixtures at once.
    """

    least_steps = 100

    def expected_work(self, problem: Problem, x: Point, atoms: float) -> float:
        return (_LIKELY_STEPS + _LIKELY_STEPS_PER_ATOM * atoms) * work.step(problem, x)

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        active = memory.active
        if not isinstance(active, BlockSet):
            return super().step(problem, iterate, memory)
        x, known, hint = iterate.point, iterate.known, memory.hint
        g = problem.gradient(x) if known is None else known.gradient
        scores, starts = active.scores(g), active.starts
        gap = block_gap(scores, active.weights, starts)
        if known is None and gap < memory.expected / 2:
            s = problem.lmo(g, hint)
            known = Evaluation(g, s, g.inner(x) - g.dot(s.vertex))
        if known is not None:
            gap, hint = known.gap, known.vertex
        reach = memory.reach if isinstance(memory, BlockMemory) else np.inf
        promise = float((np.maximum.reduceat(scores, starts) - np.minimum.reduceat(scores, starts)).sum())
        local = known is None or promise >= gap
        if local:
            toward, reach = _shifts(active, scores, reach)
            limit = float(toward.max()) or 1.0
            toward = toward / limit  # a direction of a length that rounding leaves alone
            terms = [(float(toward[i]), active.atoms[i]) for i in np.flatnonzero(toward).tolist()]
        else:
            assert known is not None
            parts = parts_of(problem.constraint, known.vertex.vertex)
            if parts is None:  # the set does not know those of its own vertex
                single = active.single().lifted(problem.objective)
                return super().step(problem, iterate, replace(memory, active=single))
            active, terms, limit = with_parts(problem, known, active, [parts]), [(1.0, known.vertex)], 1.0
            toward = active.at(parts) - active.weights
        whole, limit = limit, problem.segment_inside(x, terms, limit)
        line = problem.along(x, x.mix(terms), iterate.fun, g)
        length, search = searched(problem, self.line_search, line, min(1.0, limit), limit, memory.search)
        length = float(length)
        moved = active.weighted(active.weights + length * toward)
        moved = moved if problem.late else moved.few(self.prune)
        point = x.mix((length * w, atom) for w, atom in terms)
        if iterate.k % _REBUILD_EVERY == _REBUILD_EVERY - 1:
            rebuilt = moved.point(x)
            point = rebuilt if problem.defined_at(rebuilt) else point
        if local and length > 0:
            reach *= length / whole if length < limit else 2.0
        following = BlockMemory(moved, search, min(memory.expected, gap), hint, reach=reach)
        return Proposal(point, length, following, gap, mixture=0 <= length <= limit)

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        best, worst = int(scores.argmin()), int(scores.argmax())
        if scores[worst] - scores[best] >= known.gap:
            return [(1.0, active.atoms[best]), (-1.0, active.atoms[worst])], float(active.weights[worst])
        return [(1.0, known.vertex)], 1.0


def _shifts(active: BlockSet, scores: Array, reach: float) -> tuple[Array, float]:
    """From the worst to the best atom of every block, changes of weights that lead downhill steepest; and the reach.

    The weight of the worst bounds each, and the reach, by which line searches tell how curved f is, their lengths.
    """
    best, worst = best_and_worst(scores, active.weights, active.starts)
    weights, fall = active.weights[worst], scores[worst] - scores[best]
    slopes = np.divide(fall, active.squared_distances(best, worst), out=np.zeros_like(fall), where=fall > 0)
    furthest = np.divide(weights, slopes, out=np.zeros_like(fall), where=slopes > 0)
    reach = min(reach, float(furthest.max()))
    shift, toward = np.minimum(weights, reach * slopes), np.zeros(len(active))
    toward[best] += shift
    toward[worst] -= shift
    return toward, reach
