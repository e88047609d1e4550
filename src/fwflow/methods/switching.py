"""Switching between methods during a run, by the progress and the counted work of each.

A method runs in trials, which are measured in counted work: passes over the data, oracle calls and corrections of
weights. Time is not used, so that a run can be repeated and resumed. A method continues while its trials reduce the gap
enough and no other method was faster. Otherwise the next method without a trial follows or, if all have had one, the
fastest. A trial takes at most half of the work before it, so that all methods together cost a small multiple of the
best one. A trial starts at the current point, or at the last point of the method if that is better.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from fwflow._storage import storable
from fwflow.methods import work
from fwflow.methods.active import AtomMemory
from fwflow.methods.auto import Choice
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.projected import value_or_infinity
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.blocks import decomposed
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.gradients import as_gradient
from fwflow.points.point import Point
from fwflow.points.vertices import Vertex

# All values here are chosen without tuning; benchmarks/auto.py compares the result with every single method.
# Work of the first trial, in the unit of methods/work.py. One core needs about 10 ms for it. A run that ends within it
# needs no other method.
_FIRST = 3e7
# Least number of steps of a trial, unless its method reports that its steps stall while another one has had no trial.
_LEAST_STEPS = 10
# Factor by which a run is to reduce the gap, as a power of ten. It does not depend on the tolerance, so that two runs
# with different tolerances take the same steps until the larger tolerance is reached.
_TARGET = 6.0
# Progress below which a trial did not reduce the gap. A run ends if no method reduces it.
_LEAST_PROGRESS = 1e-3
# Progress of a run beyond which steps that stall are regarded as stopped by rounding.
_FAR = 10.0
# A method is replaced by another one with a trial if that one was more than this many times as fast.
_MARGIN = 1.5
# Number of successive steps without any change of x that end a trial.
_STILL = 3
# A gap below this many times its rounding error is no reason to switch, because no method can reduce it.
_ROUNDING = 1e3
# Number of random vertices at which f is compared with its value at a stationary start. Chosen without tuning.
_TRIED = 8
# Number of steps between two counts of the nonzero coefficients of x.
_SUPPORT_EVERY = 20
# x is sparse if it has at most _SHARE times as many nonzero entries as the data has rows and columns, and at most
# _MOST.
_SHARE, _MOST = 1 / 8, 1000


@storable("seat")
class Candidate(NamedTuple):
    """Memory and total work of a method, and its progress per work in the last trial; NaN before the first trial.

    Progress is the logarithm to base 10 of the factor by which the gap fell.
    """

    memory: Any = None
    spent: float = 0.0
    rate: float = math.nan


@storable("turn", valid=lambda trial: trial.current >= 0)
class Trial(NamedTuple):
    """Index of the current method, its budget of work, the work and steps so far, and the smallest gaps.

    `still` counts the last steps that did not change x. `before` and `best` are the gaps before the trial and now.
    """

    current: int
    budget: float = _FIRST
    spent: float = 0.0
    steps: int = 0
    still: int = 0
    before: float = math.inf
    best: float = math.inf

    def after(self, work: float, gap: float, x: Point, proposal: Proposal) -> Trial:
        """Return the trial after a step from x, where the gap was `gap`."""
        before = gap if self.before == math.inf else self.before
        best = min(self.best, gap if proposal.known is None else proposal.known.gap)
        still = self.still + 1 if best == self.best and proposal.point.unmoved_from(x) else 0
        return Trial(self.current, self.budget, self.spent + work, self.steps + 1, still, before, best)


@storable("race", valid=lambda memory: memory.trial.current < len(memory.candidates))
@dataclass(frozen=True)
class SwitchingMemory:
    """All candidates, the current trial, the first gap, and step, index and reason of every switch."""

    candidates: tuple[Candidate, ...]
    trial: Trial
    first: float = math.nan
    changes: tuple[tuple[int, int, str], ...] = ()

    @property
    def spent(self) -> float:
        """Work of all candidates."""
        return sum(candidate.spent for candidate in self.candidates)

    def with_candidate(self, i: int, **changes: Any) -> SwitchingMemory:
        """Return the memory with changed fields of one candidate."""
        changed = self.candidates[i]._replace(**changes)
        return replace(self, candidates=(*self.candidates[:i], changed, *self.candidates[i + 1 :]))


@dataclass(frozen=True)
class Switching(Method):
    """Methods in order of preference, of which one runs at a time.

    A candidate with an active set starts from a decomposition of x into vertices, if the constraint set has one and its
    vertices are few or cost at most half of the work so far. Otherwise x is its first atom.
    """

    #: Names of the candidates, for `Result.method`.
    names: tuple[str, ...]
    candidates: tuple[Method, ...]
    #: Switch only once: to the method that corrects weights, when x is sparse and the set can decompose it.
    # The repr, which identifies saved states, needs only the candidates.
    once: bool = field(default=False, repr=False)

    descends = True

    @property
    def uses_iterate(self) -> bool:
        return all(method.uses_iterate for method in self.candidates)

    @property
    def check_every(self) -> int:
        return max(method.check_every for method in self.candidates)

    @property
    def lifts(self) -> bool:
        return all(method.lifts for method in self.candidates)

    @property
    def oracle_only(self) -> bool:
        return all(method.oracle_only for method in self.candidates)

    def init(self, problem: Problem, x: Point) -> SwitchingMemory:
        return self._started(self.candidates[0].init(problem, x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> SwitchingMemory:
        return self._started(self.candidates[0].init_from(problem, x, active))

    def _started(self, memory: Any) -> SwitchingMemory:
        return SwitchingMemory((Candidate(memory), *(Candidate() for _ in self.names[1:])), Trial(0))

    def active_set(self, memory: SwitchingMemory) -> Decomposition | None:
        i = memory.trial.current
        return self.candidates[i].active_set(memory.candidates[i].memory)

    def ran(self, choice: Choice, memory: SwitchingMemory) -> Choice:
        if self.once or not memory.changes:
            return choice
        switches = [f"switched to {self.names[i]} at step {k}, because {why}" for k, i, why in memory.changes]
        if len(switches) > 3:
            switches[1:-2] = [f"{len(switches) - 3} more switches"]
        why = "; ".join([f"started with {choice}, because {choice.why}", *switches])
        return Choice(self.names[memory.trial.current], why)

    def step(self, problem: Problem, iterate: Iterate, memory: SwitchingMemory) -> Proposal:
        i, known, counts = memory.trial.current, iterate.known, problem.counts
        method, own = self.candidates[i], memory.candidates[i]
        before = counts.n_grad, counts.n_lmo, counts.n_design
        if method.uses_iterate:
            known = known or problem.evaluate(iterate.point, lift=method.lifts)
            if method.lifts and known.vertex.image is None:
                known = known._replace(vertex=problem.objective.lift(known.vertex.vertex))
        iterate = iterate._replace(known=known)
        try:
            proposal = method.step(problem, iterate, own.memory)
        except NumericalTrouble as trouble:
            return self._replaced(problem, iterate, memory, trouble)
        spent = self._work(problem, iterate.point, before, proposal)
        proposal = proposal if problem.late else self._evaluated(problem, method, proposal)
        gap = proposal.gap_estimate if known is None else known.gap
        memory = replace(
            memory.with_candidate(i, memory=proposal.memory, spent=own.spent + spent),
            trial=memory.trial.after(spent, gap, iterate.point, proposal),
            first=gap if math.isnan(memory.first) else memory.first,
        )
        proposal = proposal._replace(memory=memory)
        return proposal if problem.late else self._judged(problem, iterate, proposal)

    def escape(self, problem: Problem, iterate: Iterate) -> Proposal | None:
        """Move to the oracle's vertex if f is lower there than a convex function could be, and start again.

        At a saddle point the gap is zero, and f has negative curvature in some directions. For example, the barycentre
        of a quadratic assignment problem with constant row sums is a saddle point. The check costs one value of f. At
        the start of a run, where symmetry makes saddle points likely, a few other vertices are tried, too.
        """
        x, known = iterate.point, iterate.known
        if problem.objective.convex or known is None or known.vertex.vertex is None or x.factored:
            return None
        inner = known.gradient.inner(x)
        for vertex in _members(problem, iterate, known):
            moved = problem.objective.refresh(x.mix([(1.0, problem.objective.lift(vertex))]))
            value = value_or_infinity(problem, moved)
            noise = _ROUNDING * float(np.finfo(x.x.dtype).eps) * (abs(value) + abs(iterate.fun))
            if value < iterate.fun - noise + min(known.gradient.dot(vertex) - inner, 0.0):
                return Proposal(moved, 1.0, self.init(problem, moved), mixture=True)
        return None

    def _judged(self, problem: Problem, iterate: Iterate, proposal: Proposal) -> Proposal:
        """Return the proposal, with another method for the next step if the trial is over and made little progress."""
        memory, trial, known = proposal.memory, proposal.memory.trial, iterate.known
        if proposal.finished:
            return proposal
        if self.once:
            return self._polished(problem, iterate.k, proposal)
        over = trial.steps >= _LEAST_STEPS and trial.spent >= trial.budget
        stuck = trial.still >= _STILL
        stalled = proposal.stalled and _progress(memory.first, trial.best) < _FAR
        stalled = stalled and any(math.isnan(candidate.rate) for candidate in memory.candidates)
        if not (over or stuck or stalled):
            return proposal
        if known is not None and known.gap <= _ROUNDING * problem.rounding(iterate.point, known):
            return proposal
        progress = _progress(trial.before, trial.best)
        progress = progress if progress > _LEAST_PROGRESS else 0.0
        memory = memory.with_candidate(trial.current, rate=0.0 if stuck else progress / trial.spent)
        slow = stuck or stalled or progress < self.candidates[trial.current].slow
        following = self._following(memory, slow)
        if following == trial.current:
            again = Trial(trial.current, memory.spent / 2, before=trial.best, best=trial.best)
            return proposal._replace(memory=replace(memory, trial=again))
        factor = trial.before / trial.best if trial.best > 0 else math.inf
        fell = f"reduced the gap only by a factor of {factor:.3g}" if progress else "did not reduce the gap"
        why = f"{self.names[trial.current]} {fell} in its last {trial.steps} steps"
        return self._switched(problem, iterate.k, proposal._replace(memory=memory), following, why)

    def _following(self, memory: SwitchingMemory, slow: bool) -> int:
        """Return the method after a trial. After a slow one, that is a method without a trial, or else another one.

        Methods without a trial are left out if the fastest one is expected to need no more work than they would get.
        """
        rates = [candidate.rate for candidate in memory.candidates]
        current, fastest = memory.trial.current, int(np.nanargmax(rates))
        needed = max(_TARGET - _progress(memory.first, memory.trial.best), 2.0)
        untried = [i for i, rate in enumerate(rates) if math.isnan(rate)]
        if slow and untried and needed > rates[fastest] * memory.spent / 2:
            return untried[0]
        if rates[fastest] > _MARGIN * rates[current]:
            return fastest
        if slow and not untried and rates[current] > 0:  # the others may be faster from here
            return max((i for i in range(len(rates)) if i != current), key=lambda i: rates[i])
        return current

    def _polished(self, problem: Problem, k: int, proposal: Proposal) -> Proposal:
        """Switch to the last method when x is sparse and the set can decompose it."""
        vertices, last = problem.constraint.known_vertices, len(self.names) - 1
        if proposal.memory.trial.current == last or (k + 1) % _SUPPORT_EVERY or vertices is None:
            return proposal
        if not few(problem, proposal.point) or vertices.decomposed(proposal.point.x) is None:
            return proposal
        return self._switched(problem, k, proposal, last, "x has few nonzero coefficients")

    def _replaced(
        self, problem: Problem, iterate: Iterate, memory: SwitchingMemory, trouble: NumericalTrouble
    ) -> Proposal:
        """Switch from a method that failed to the first one without a trial; raise the error if there is none."""
        i = memory.trial.current
        untried = [j for j, other in enumerate(memory.candidates) if j != i and math.isnan(other.rate)]
        if self.once or not untried:
            raise trouble
        here = Proposal(iterate.point, 0.0, memory.with_candidate(i, rate=0.0), mixture=True)
        return self._switched(problem, iterate.k, here, untried[0], f"{self.names[i]} failed ({trouble})")

    def _switched(self, problem: Problem, k: int, proposal: Proposal, i: int, why: str) -> Proposal:
        """Switch to candidate i, at the current point or at its own last point if that is better."""
        memory, best, method = proposal.memory, proposal.memory.trial.best, self.candidates[i]
        point, own = _start(problem, method, proposal.point, memory.candidates[i].memory, memory.spent / 2)
        memory = replace(
            memory.with_candidate(i, memory=own),
            trial=Trial(i, max(_FIRST, memory.spent / 2), before=best, best=best),
            changes=(*memory.changes, (k + 1, i, why)),
        )
        known = proposal.known if point is proposal.point else None
        switched = Proposal(point, proposal.step, memory, mixture=proposal.mixture, known=known)
        return self._evaluated(problem, method, switched)

    def _evaluated(self, problem: Problem, method: Method, proposal: Proposal) -> Proposal:
        """Add the evaluation at the point if the next step of the method uses it and the loop would not compute it."""
        if self.uses_iterate or not method.uses_iterate or proposal.known is not None:
            return proposal
        return proposal._replace(known=problem.evaluate(proposal.point, lift=method.lifts))

    def _work(self, problem: Problem, x: Point, counted: tuple[int, int, float], proposal: Proposal) -> float:
        """Return the work of a step, given the counts before it."""
        counts = problem.counts
        grads, calls, passes = counts.n_grad - counted[0], counts.n_lmo - counted[1], counts.n_design - counted[2]
        if _kept(proposal.memory) is not None:
            # The counted passes depend on cached images, which a resumed run lacks.
            passes = 2.0 if problem.objective.data_cost.of_pass else 0.0
        return work.STEP + (passes or grads) * work.gradient(problem, x) + calls * work.oracle(x) + proposal.work


def _members(problem: Problem, iterate: Iterate, known: Evaluation) -> Iterator[Vertex]:
    """Yield the oracle's vertex and, at the first iterate, vertices for random costs.

    The costs have the signs of the gradient, because some oracles, such as shortest paths, refuse negative costs.
    """
    yield known.vertex.vertex
    if iterate.k == 0:
        g, rng = np.asarray(known.gradient.as_oracle_input()), np.random.default_rng(0)
        for _ in range(_TRIED):
            costs = np.where(g < 0, -1.0, 1.0) * rng.random(g.shape)
            yield problem.lmo(as_gradient(costs.astype(g.dtype)), lift=False).vertex


def _kept(memory: Any) -> Decomposition | None:
    """Return the active set in a candidate's memory with all its atoms, or None."""
    return memory.active if isinstance(memory, AtomMemory) else None


def _progress(before: float, after: float) -> float:
    """Return the logarithm to base 10 of the factor by which a gap fell; 0 if it did not fall."""
    if not 0 < before < math.inf or after >= before:
        return 0.0
    return math.log10(before / after) if after > 0 else math.inf


def _start(problem: Problem, method: Method, x: Point, memory: Any, affordable: float) -> tuple[Point, Any]:
    """Return the point and memory with which a candidate starts: at x, or at its last point if that is better."""
    fresh = method.init(problem, x) if memory is None else method.resumed(problem, x, memory)
    if _kept(fresh) is None or x.factored:
        return x, fresh
    own = _kept(memory)
    if own is not None and problem.value(point := own.point(x)) <= problem.value(x):
        return point, memory
    atoms = int(np.count_nonzero(x.x))
    if few(problem, x) or work.correction(problem, x, atoms, atoms / 4) <= affordable:
        active = decomposed(problem, x)
        if active is not None:
            return active.point(x), method.init_from(problem, x, active)
    return x, fresh


def few(problem: Problem, x: Point) -> bool:
    """Return whether x has few nonzero coefficients and f has a model with which to correct them."""
    image_map = problem.objective.image_map
    if image_map is None or x.factored or problem.model(x) is None:
        return False
    return np.count_nonzero(x.x) <= min(_MOST, _SHARE * min(x.x.size, image_map.size))
