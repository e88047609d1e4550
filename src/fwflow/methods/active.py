"""Methods with an active set: away-step, pairwise, blended, blended pairwise and corrective Frank-Wolfe.

If the optimum lies on a face, plain Frank-Wolfe zig-zags towards it. A method that can remove weight from a vertex
converges linearly on polytopes. Decomposition-invariant steps do so without an active set.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fwflow._numerics import length
from fwflow._storage import storable
from fwflow._validation import Array, InputError, whole
from fwflow.designs import Counts
from fwflow.methods import work
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Evaluation, Problem, Terms
from fwflow.methods.restricted.atoms import ActiveSet, Decomposition
from fwflow.methods.restricted.blocks import BlockSet, by_block, parts_of, with_parts
from fwflow.methods.restricted.exchanges import exchange
from fwflow.methods.restricted.projected_steps import Place, ProjectedSteps
from fwflow.methods.restricted.simplices import best_and_worst, block_gap
from fwflow.methods.restricted.working_set import QuasiNewtonState, WorkingSet, minimise_by_secants, minimise_on
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import Secants
from fwflow.points.gradients import Gradient
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import Vertex
from fwflow.sets.vectors import Simplex
from fwflow.steps.searches import ExactSearch, LineSearch

# Number of steps after which x is computed anew from its atoms, which removes accumulated rounding errors. Chosen
# without tuning.
_REBUILD_EVERY = 100
# A run reduces its active set when there are more than this many atoms per dimension. Measured: compared with runs that
# keep all atoms, a limit of 1.5 took up to 1.9 times as many products, and a limit of 10 took 1.1 times on average.
_ATOMS_PER_DIMENSION = 10
# Smallest ratio of the gap over the weights to the full gap where only gradients are known. A new vertex then gains as
# much as a better weight, and every gradient adds to the model of the curvature. Chosen without tuning.
_SECANT_ACCURACY = 0.5
# Number of projected steps on the weights before Newton steps, which need fewer steps where projected ones converge
# slowly or there are more vertices than entries of the image. The values 30, 50 and 150 were compared.
_PROJECTED = 50
# Over several blocks, one pass may add this many times the vertices of a pass over one block, all blocks together.
# Chosen without tuning.
_BLOCK_FACTOR = 10
# Number of steps with vertices before the directions that a set offers are used. Far from the minimum there are many
# directions, and vertices are cheaper. Measured with benchmarks/networks.py: 0 took up to 1.7 times as long, and 10 up
# to 2.2 times.
_VERTICES_FIRST = 5


@storable("atom-memory")
@dataclass(frozen=True)
class AtomMemory:
    """Active set, memory of the line search, for lazy methods the expected gap and oracle hint, and secant pairs.

    `reach` is the ratio of the weights to move to the slopes, for steps in several blocks.
    """

    active: Decomposition
    search: Any = None
    expected: float = np.inf
    hint: Lifted | None = None
    secants: Secants = field(default_factory=Secants)
    reach: float = np.inf


@storable("exchange-memory")
@dataclass(frozen=True)
class ExchangeMemory:
    """Parts of the iterate, one or more atoms for each, and the directions that the set has found, if any."""

    active: BlockSet
    found: Any = None


class KeepsAtoms(Method):
    """Method with an active set, which starts with all weight on one point or with a given decomposition."""

    #: Whether the method keeps one active set for every summand of the constraint set, if the set has summands.
    in_blocks: bool = False

    def init(self, problem: Problem, x: Point) -> AtomMemory:
        C, start = problem.constraint, ActiveSet.starting_at(x)
        if not self.in_blocks:
            return AtomMemory(start)
        problem.counts.n_lmo += C.start_calls_oracle and C.summands is not None  # a sum compares x with its start
        return AtomMemory(by_block(start, problem.objective, C, x) or start)

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> AtomMemory:
        blocks = by_block(active, problem.objective, problem.constraint, x) if self.in_blocks else None
        return AtomMemory(blocks or active.single().lifted(problem.objective))

    def active_set(self, memory: AtomMemory | ExchangeMemory) -> Decomposition:
        return memory.active.few()


@dataclass(frozen=True)
class ActiveSetMethod(KeepsAtoms):
    """Steps that move weight between atoms."""

    line_search: LineSearch = field(default_factory=ExactSearch)
    #: Whether atoms are tried before the oracle, for sets whose oracle costs more than a gradient. An atom is used if
    #: it promises half of the last gap (Braun, Pokutta & Zink, 2017). The gap is known only where it is checked.
    lazy: bool = False
    #: The active set is reduced to an affine basis when it has more than this many atoms per dimension, in dimensions
    #: up to 1000. With 1 it satisfies the bound of Caratheodory, at the cost of more steps.
    prune: int = field(default=_ATOMS_PER_DIMENSION, repr=False)  # states do not depend on it

    oracle_only = True  # gradients are used for the oracle and for the scores of atoms only

    def __post_init__(self) -> None:
        whole(self.prune, "prune", 1)

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
        x, known, hint, active = iterate.point, iterate.known, memory.hint, memory.active.single()
        g = problem.gradient(x) if known is None else known.gradient
        scores = active.scores(g)
        if known is None:
            best = int(scores.argmin())
            gap = g.inner(x) - float(scores[best])
            enough = gap >= memory.expected / 2
            known = Evaluation(g, active.atoms[best], gap) if enough else _evaluated(problem, x, g, hint)
        if known.vertex.vertex is not None:
            hint = known.vertex
        terms, limit = self.direction(active, scores, known, x)
        point, length, limit, search = problem.search_along(
            self.line_search, x, iterate.fun, g, terms, limit, memory.search
        )
        moved = active.moved(length, terms)
        moved = moved if problem.late else moved.few(self.prune)
        following = AtomMemory(moved, search, min(memory.expected, known.gap), hint)
        point = _rebuilt(problem, iterate, moved, point)
        return Proposal(point, length, following, known.gap, mixture=0 <= length <= limit)

    @abstractmethod
    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        """Return the terms of the direction ``sum of w (atom - x)``, and the largest feasible step along it."""


def _evaluated(problem: Problem, x: Point, g: Gradient, hint: Lifted | None) -> Evaluation:
    s = problem.lmo(g, hint)
    return Evaluation(g, s, g.inner(x) - g.dot(s.vertex))


def _rebuilt(problem: Problem, iterate: Iterate, active: Decomposition, point: Point) -> Point:
    """Return the point, recomputed from its atoms every 100 steps unless rounding moves it out of the domain of f."""
    if iterate.k % _REBUILD_EVERY != _REBUILD_EVERY - 1:
        return point
    rebuilt = active.point(iterate.point)
    return rebuilt if problem.defined_at(rebuilt) else point


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
class Blended(ActiveSetMethod):
    """Gradient steps on the simplex of weights; the oracle is called where these promise too little progress.

    Blended conditional gradients of Braun, Pokutta, Tu & Wright (2019). It is lazy by default.
    """

    lazy: bool = True

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        fall = scores - scores.mean()  # the weights keep their sum
        if not fall.max() > 0 or np.ptp(scores) < known.gap:
            return [(1.0, known.vertex)], 1.0
        longest = float((active.weights[fall > 0] / fall[fall > 0]).min())
        return [(-longest * w, atom) for w, atom in zip(fall.tolist(), active.atoms, strict=True)], 1.0


@dataclass(frozen=True)
class BlendedPairwise(ActiveSetMethod):
    """Move weight within the active set while that promises as much as a new vertex (Tsuji, Tanaka & Pokutta, 2022).

    There are no swap steps, and the active sets stay small. If the set is a sum of sets, weight moves in all their
    active sets in the same step.
    """

    in_blocks = True

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        active = memory.active
        if not isinstance(active, BlockSet):
            return super().step(problem, iterate, memory)
        x, known, hint, reach = iterate.point, iterate.known, memory.hint, memory.reach
        g = problem.gradient(x) if known is None else known.gradient
        scores, starts = active.scores(g), active.starts
        gap = block_gap(scores, active.weights, starts)
        if known is None and gap < memory.expected / 2:
            known = _evaluated(problem, x, g, hint)
        if known is not None:
            gap, hint = known.gap, known.vertex
        promise = float((np.maximum.reduceat(scores, starts) - np.minimum.reduceat(scores, starts)).sum())
        terms: Terms
        if local := known is None or promise >= gap:
            toward, reach = _shifts(active, scores, memory.reach)
            longest = float(toward.max()) or 1.0
            toward = toward / longest  # the direction has size one, so that rounding does not depend on its length
            terms = [(float(toward[i]), active.atoms[i]) for i in np.flatnonzero(toward).tolist()]
        else:
            assert known is not None
            parts = parts_of(problem.constraint, known.vertex.vertex)
            if parts is None:  # the set cannot split its own vertex
                single = active.single().lifted(problem.objective)
                return super().step(problem, iterate, replace(memory, active=single))
            active, terms, longest = with_parts(problem, known, active, [parts]), [(1.0, known.vertex)], 1.0
            toward = active.at(parts) - active.weights
        point, length, limit, search = problem.search_along(
            self.line_search, x, iterate.fun, g, terms, longest, memory.search
        )
        moved = active.weighted(active.weights + length * toward)
        moved = moved if problem.late else moved.few(self.prune)
        if local and length > 0:
            reach *= length / longest if length < limit else 2.0
        following = AtomMemory(moved, search, min(memory.expected, gap), hint, reach=reach)
        point = _rebuilt(problem, iterate, moved, point)
        return Proposal(point, length, following, gap, mixture=0 <= length <= limit)

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        best, worst = int(scores.argmin()), int(scores.argmax())
        if scores[worst] - scores[best] >= known.gap:
            return [(1.0, active.atoms[best]), (-1.0, active.atoms[worst])], float(active.weights[worst])
        return [(1.0, known.vertex)], 1.0


def _shifts(active: BlockSet, scores: Array, reach: float) -> tuple[Array, float]:
    """Return the weights to move from the worst to the best atom of every block, and the reach.

    The directional derivative per unit of length is the largest possible. The weight of the worst atom bounds each
    entry. The reach bounds the lengths and is adapted by the line searches, which measure the curvature of f.
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


@dataclass(frozen=True)
class Corrective(KeepsAtoms):
    """Add several vertices per pass over the data, and correct all weights by Newton's method.

    Corrections use the images of the atoms, at a cost of O(m |S|) per gradient and O(m |S|^2) per Newton step. An
    iteration therefore makes one pass over the data, whatever the number of Newton steps.
    """

    #: Maximum number of vertices that one step adds. Sets whose oracle is a sort (L1 ball, simplex) return that many;
    #: other sets return one.
    vertices: int = 20
    #: The weights are corrected until the gap over the weights is this fraction of the full gap.
    accuracy: float = 0.1

    in_blocks = True
    descends = True
    slow = 0.1  # the gap falls fast only when most vertices of the solution are known

    def init(self, problem: Problem, x: Point) -> Any:
        return _exchanging(problem, x, super().init(problem, x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> Any:
        return _exchanging(problem, x, super().init_from(problem, x, active))

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory | ExchangeMemory) -> Proposal:
        if isinstance(memory, AtomMemory):
            return self._corrected(problem, iterate, memory)
        if (exchanged := self._exchanged(problem, iterate, memory)) is not None:
            return exchanged
        corrected = self._corrected(problem, iterate, AtomMemory(memory.active))
        active = corrected.memory.active
        return corrected._replace(memory=replace(memory, active=active)) if isinstance(active, BlockSet) else corrected

    def _corrected(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        x, known, evaluation, secants = iterate.point, iterate.known, None, memory.secants
        assert known is not None
        g, vertex = known.gradient.as_oracle_input(), known.vertex.vertex
        count = max(1, min(self.vertices, _BLOCK_FACTOR * self.vertices // len(memory.active.starts)))
        more = problem.constraint.known_vertices
        best = [vertex] if more is None else more.best_vertices(g, count, vertex)
        for v in best[:2]:  # the vertices are sorted, so the first two show a disagreement with the oracle
            problem.agreed(v.dot(g), known, "best_vertices")
        active = _with_vertices(problem, x, known, memory.active, best)
        if problem.model(x) is not None:
            weights = self._weights(problem, x, active, self.accuracy * known.gap)
            corrected = active.weighted(weights)
            point = corrected.point(x)
        else:
            start, tol = QuasiNewtonState(x, iterate.fun, known.gradient, secants), max(self.accuracy, _SECANT_ACCURACY)
            weights, end = minimise_by_secants(problem, start, active, tol * known.gap)
            corrected, point, secants = active.weighted(weights), end.point, end.secants
            evaluation = problem.evaluate(point, known.vertex, gradient=end.gradient)
        moved = float(np.abs(weights - active.weights).sum() / (2 * len(active.starts)))
        changes = 1 + 2 * len(active) - len(memory.active) - len(corrected)
        cost = work.correction(problem, x, len(corrected), changes)
        return Proposal(point, moved, AtomMemory(corrected, secants=secants), known=evaluation, mixture=True, work=cost)

    def _weights(self, problem: Problem, x: Point, active: Decomposition, tol: float) -> Array:
        """Return weights whose gap is at most `tol`, by projected steps if they converge, or else by Newton steps."""
        f, plain = problem.objective, len(active.starts) == 1 and problem.objective.domain is None
        chart = f.on_atoms(active.atoms) if plain and not f.quadratic else None
        if chart is not None and chart.bounded and len(active) <= chart.rank:
            steps = ProjectedSteps(replace(problem, counts=Counts()), chart, Simplex(1.0), active.weights.shape)
            try:
                ended = steps.run(Place(active.weights), tol, _PROJECTED)
            except NumericalTrouble:
                ended = None
            if ended is not None and ended.known is not None and not ended.stalled:
                return ended.place.v
        return minimise_on(problem, x, WorkingSet.hull(active), tol)

    def _exchanged(self, problem: Problem, iterate: Iterate, memory: ExchangeMemory) -> Proposal | None:
        """Return a step along the directions that the set has found, or None if they do not decrease f."""
        x, known, exchanges = iterate.point, iterate.known, problem.constraint.exchanges
        if (iterate.k < _VERTICES_FIRST and memory.found is None) or problem.late:
            return None
        assert known is not None
        assert exchanges is not None
        moves = exchanges.exchange(memory.active.parts(), memory.found, known.vertex.vertex, lambda: problem.late)
        point = None if moves is None else exchange(problem, x, moves, self.accuracy * known.gap)
        if moves is None or point is None:
            return None
        problem.agreed(known.gradient.inner(point), known, "exchanges")
        active = BlockSet.of_parts(moves.parts(), problem.objective)
        moved = length(point.x - x.x) / max(length(x.x), length(point.x))
        return Proposal(point, moved, ExchangeMemory(active, moves.found), mixture=True)


def _exchanging(problem: Problem, x: Point, memory: AtomMemory) -> AtomMemory | ExchangeMemory:
    """Return a memory for exchanges if the set offers them and the objective has the curvature that they need."""
    active, C = memory.active, problem.constraint
    if C.exchanges is None or C.summands is None or not isinstance(active, BlockSet):
        return memory
    model = problem.model(x) if len(active.blocks) == C.summands.n_summands else None
    return memory if model is None or not model.in_coordinates else ExchangeMemory(active)


def _with_vertices(
    problem: Problem, x: Point, known: Evaluation, active: Decomposition, best: Sequence[Vertex]
) -> Decomposition:
    """Add the oracle's vertex, and those of the further vertices whose linear value is lower than that of x."""
    if isinstance(active, BlockSet):
        ranked = [parts for v in best if (parts := parts_of(problem.constraint, v)) is not None]
        if len(ranked) == len(best):
            return with_parts(problem, known, active, ranked)
    single, g, here = active.single(), known.gradient.as_oracle_input(), known.gradient.inner(x)
    single = single if single is active else single.lifted(problem.objective)
    further = problem.in_time(v for v in best[1:] if v.dot(g) < here)
    return single.joined([known.vertex, *map(problem.objective.lift, further)])


@dataclass(frozen=True)
class DecompositionInvariant(Method):
    """Move from the worst vertex of the minimal face of x towards the vertex of the oracle.

    Garber & Meshi (2016); Bashiri & Zhang (2017). The set returns the worst vertex and the largest step, so no
    decomposition of x is kept. The cost of a step does not depend on the number of vertices of which x is a mixture.
    """

    line_search: LineSearch = field(default_factory=ExactSearch)

    @property
    def descends(self) -> bool:
        return self.line_search.descends

    def init(self, problem: Problem, x: Point) -> Any:
        if x.factored or problem.constraint.faces is None:
            raise InputError(
                f'method="decomposition-invariant" needs a set with an in-face oracle; {problem.constraint!r} has none'
            )
        return None

    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        x, known, faces = iterate.point, iterate.known, problem.constraint.faces
        assert known is not None
        assert faces is not None
        problem.counts.n_lmo += 1
        away = faces.away_vertex(known.gradient.as_oracle_input(), x.x)
        limit = faces.max_step(x.x, np.asarray(known.vertex.vertex) - np.asarray(away))
        limit = limit if math.isfinite(limit) else 0.0  # both vertices are equal
        terms = [(1.0, known.vertex), (-1.0, problem.objective.lift(away))]
        point, length, _, memory = problem.search_along(
            self.line_search, x, iterate.fun, known.gradient, terms, limit, memory
        )
        return Proposal(point, length, memory)
