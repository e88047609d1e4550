"""Methods that keep x as weights on an active set of vertices: away-step, pairwise and blended pairwise Frank-Wolfe.

Where the optimum lies on a face, plain Frank-Wolfe zig-zags towards it; a method that can take weight away from
vertices that were a mistake converges linearly on polytopes.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fwflow._validation import Array
from fwflow.atoms import ActiveSet, caratheodory
from fwflow.gradients import Gradient
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.points import Atom, Lifted, Point
from fwflow.problem import Evaluation, Problem
from fwflow.steps import ExactSearch, LineSearch
from fwflow.storage import storable

Terms = list[tuple[float, Atom]]

# After so many steps x is put together anew from its atoms, free of accumulated rounding.
_REBUILD_EVERY = 100
# More atoms per dimension than this are reduced to an affine basis, which takes the cube of their number.
_MOST_TIMES = 1.5


@storable("atom-memory")
@dataclass(frozen=True)
class AtomMemory:
    """The active set, the line search's memory, and for lazy methods the gap to be expected and the oracle's hint."""

    active: ActiveSet
    search: Any = None
    expected: float = np.inf
    hint: Lifted | None = None


class KeepsAtoms(Method):
    """A method with an active set, which begins with all weight on one point, or with a given mixture."""

    def init(self, problem: Problem, x: Point) -> AtomMemory:
        return AtomMemory(ActiveSet.starting_at(x))

    def init_from(self, problem: Problem, x: Point, active: ActiveSet) -> AtomMemory:
        return AtomMemory(active.lifted(problem.objective))

    def active_set(self, memory: AtomMemory) -> ActiveSet:
        return memory.active


@dataclass(frozen=True)
class _ActiveSetMethod(KeepsAtoms):
    """Steps that shift weight between atoms.

    Parameters
    ----------
    line_search : LineSearch
    lazy : bool
        Try the atoms before the oracle: one that promises half of the gap last seen will do (Braun, Pokutta & Zink,
        2017). For sets whose oracle costs more than a gradient; the gap is then known only where it is checked.
    """

    line_search: LineSearch = field(default_factory=ExactSearch)
    lazy: bool = False

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

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        x, known = iterate.point, iterate.known
        active, expected, hint = memory.active, memory.expected, memory.hint
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
        length, search = self.line_search.step(line, min(1.0, limit), limit, memory.search)
        length = float(length)
        moved = active.moved(length, terms)
        if not x.factored and len(moved) > _MOST_TIMES * x.x.size + 1:
            moved = caratheodory(moved)
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
class AwayStep(_ActiveSetMethod):
    r"""Frank-Wolfe steps or steps away from the worst atom, whichever promises more (Lacoste-Julien & Jaggi, 2015)."""

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        worst = int(scores.argmax())
        if len(scores) == 1 or known.gap >= scores[worst] - known.gradient.inner(x):
            return [(1.0, known.vertex)], 1.0
        weight = float(active.weights[worst])
        return [(-1.0, active.atoms[worst])], weight / (1 - weight)


@dataclass(frozen=True)
class Pairwise(_ActiveSetMethod):
    """Move weight from the worst atom to the Frank-Wolfe vertex."""

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        worst = int(scores.argmax())
        return [(1.0, known.vertex), (-1.0, active.atoms[worst])], float(active.weights[worst])


@dataclass(frozen=True)
class BlendedPairwise(_ActiveSetMethod):
    """Move weight within the active set while that promises as much as a new vertex (Tsuji, Tanaka & Pokutta, 2022).

    It needs no swap steps, and its active sets stay small.
    """

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        best, worst = int(scores.argmin()), int(scores.argmax())
        if scores[worst] - scores[best] >= known.gap:
            return [(1.0, active.atoms[best]), (-1.0, active.atoms[worst])], float(active.weights[worst])
        return [(1.0, known.vertex)], 1.0
