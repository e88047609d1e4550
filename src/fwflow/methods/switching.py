"""Which method next? Candidates take turns, each for as long as it pays, judged by what the run itself shows.

A turn is measured in work: passes over the data, oracle calls, and the correction of weights, counted and never timed,
so that a run can be repeated and resumed. At its end whoever has it goes on, unless another is likely to be done much
sooner: one that has had a turn by the digits of the gap that it gained there, one that has not by what its steps cost.
A turn is no longer than half of all work before it, so that all candidates together cost a small multiple of the best.
Nobody begins from nothing: a turn starts at the point that was reached.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from fwflow._storage import storable
from fwflow.methods import work
from fwflow.methods.active import AtomMemory
from fwflow.methods.auto import Choice
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.sequence import decomposed, few
from fwflow.objectives.base import NumericalTrouble
from fwflow.points.point import Point, unmoved

# Work of the first turn. A run that ends within it needs no other method.
_FIRST = 3e7
# So many digits are to be gained in all. The tolerance is not asked: runs to several are the same up to there.
_DIGITS = 6.0
# Runs are limited in their steps too: who needs more than so many for them is to be avoided,
_PATIENCE = 3000
# and nobody is replaced for less than this factor.
_MARGIN = 1.5
# So many steps in a row that move nothing are the end of a turn.
_STILL = 3
# A gap within so many times its rounding is no reason to change: nobody can do better.
_ROUNDING = 1e3
# The non-zeros are counted after every so many steps.
_EVERY = 20


@storable("seat")
class Seat(NamedTuple):
    """A candidate between two turns: its memory, its work so far, and digits per work and per step in its last turn."""

    memory: Any = None
    spent: float = 0.0
    rate: float = math.nan
    pace: float = math.nan


@storable("turn", valid=lambda turn: turn.who >= 0)
class Turn(NamedTuple):
    """Whose turn it is, for how much work, and what has become of it.

    Attributes
    ----------
    who : the candidate
    budget, spent : of work
    steps : taken so far
    still : of these, the last that moved nothing
    before, best : the smallest gap before the turn, and now
    """

    who: int
    budget: float = _FIRST
    spent: float = 0.0
    steps: int = 0
    still: int = 0
    before: float = math.inf
    best: float = math.inf

    def after(self, work: float, gap: float, x: Point, proposal: Proposal) -> Turn:
        """After a step from x, where the gap was this one."""
        before = gap if self.before == math.inf else self.before
        best = min(self.best, gap if proposal.known is None else proposal.known.gap)
        still = self.still + 1 if best == self.best and unmoved(x, proposal.point) else 0
        return Turn(self.who, self.budget, self.spent + work, self.steps + 1, still, before, best)

    @property
    def gain(self) -> float:
        """Digits of the gap."""
        return _digits(self.before, self.best)


@storable("race", valid=lambda race: race.turn.who < len(race.seats))
@dataclass(frozen=True)
class Race:
    """The candidates' seats, the turn, the first gap, and for each change the step and who took over why."""

    seats: tuple[Seat, ...]
    turn: Turn
    first: float = math.nan
    changes: tuple[tuple[int, int, str], ...] = ()

    @property
    def spent(self) -> float:
        """All work."""
        return sum(seat.spent for seat in self.seats)

    def seated(self, who: int, seat: Seat) -> Race:
        """With another seat."""
        return replace(self, seats=(*self.seats[:who], seat, *self.seats[who + 1 :]))


@dataclass(frozen=True)
class Switching(Method):
    """Candidates in order of preference, which take turns.

    Parameters
    ----------
    names : tuple of str
        The names of the candidates, for `Result.method`.
    candidates : tuple of Method
        One with an active set takes over x as a mixture of the vertices that its non-zeros name, where the set tells
        them and they are few or the time has come that they can be afforded; else x is its first atom.
    """

    names: tuple[str, ...]
    candidates: tuple[Method, ...]

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

    descends = True

    def init(self, problem: Problem, x: Point) -> Race:
        return self._begun(self.candidates[0].init(problem, x))

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> Race:
        return self._begun(self.candidates[0].init_from(problem, x, active))

    def _begun(self, memory: Any) -> Race:
        return Race((Seat(memory), *(Seat() for _ in self.names[1:])), Turn(0))

    def active_set(self, memory: Race) -> Decomposition | None:
        who = memory.turn.who
        return self.candidates[who].active_set(memory.seats[who].memory)

    def ran(self, choice: Choice, memory: Race) -> Choice:
        if not memory.changes:
            return choice
        told = [f"from step {k} on {self.names[who]}, because {why}" for k, who, why in memory.changes]
        if len(told) > 3:
            told[1:-2] = [f"{len(told) - 3} more changes"]
        return Choice(self.names[memory.turn.who], "; ".join([f"{choice} at first, because {choice.why}", *told]))

    def step(self, problem: Problem, iterate: Iterate, memory: Race) -> Proposal:
        who = memory.turn.who
        method, seat, known = self.candidates[who], memory.seats[who], iterate.known
        before = _counted(problem)
        if method.uses_iterate:
            known = known or problem.evaluate(iterate.point, lift=method.lifts)
            if method.lifts and known.vertex.image is None:
                known = known._replace(vertex=problem.objective.lift(known.vertex.vertex))
        iterate = iterate._replace(known=known)
        try:
            proposal = method.step(problem, iterate, seat.memory)
        except NumericalTrouble as trouble:
            return self._replaced(problem, iterate, memory, trouble)
        spent = self._work(problem, iterate.point, before, who, seat.memory, proposal.memory)
        proposal = proposal if problem.late else self._evaluated(problem, method, proposal)
        gap = proposal.gap_estimate if known is None else known.gap
        memory = replace(
            memory.seated(who, seat._replace(memory=proposal.memory, spent=seat.spent + spent)),
            turn=memory.turn.after(spent, gap, iterate.point, proposal),
            first=gap if math.isnan(memory.first) else memory.first,
        )
        proposal = proposal._replace(memory=memory)
        return proposal if problem.late else self._judged(problem, iterate, proposal)

    def _judged(self, problem: Problem, iterate: Iterate, proposal: Proposal) -> Proposal:
        """The proposal, or if the turn is over, that of whoever has the next."""
        memory, turn = proposal.memory, proposal.memory.turn
        method, known, stuck = self.candidates[turn.who], iterate.known, turn.still >= _STILL
        if proposal.finished:
            return proposal
        if method.finds_support and (iterate.k + 1) % _EVERY == 0:
            correcting = [i for i, other in enumerate(self.candidates) if other.corrects]
            if correcting and math.isnan(memory.seats[correcting[0]].rate) and few(problem, proposal.point):
                return self._changed(problem, iterate.k, proposal, correcting[0], "x has few non-zeros")
        least = 2 if memory.changes or self._atoms(memory) > work.FEW_ATOMS else method.least_steps
        most = max(100, iterate.k // 2)
        if not stuck and (turn.steps < least or (turn.spent < turn.budget and turn.steps < most)):
            return proposal
        if known is not None and known.gap <= _ROUNDING * problem.rounding(iterate.point, known):
            return proposal
        seat = memory.seats[turn.who]
        gain = 0.0 if stuck else turn.gain + method.optimism
        memory = memory.seated(turn.who, seat._replace(rate=gain / turn.spent, pace=gain / turn.steps))
        left = [self._left(problem, proposal.point, memory, i) for i in range(len(self.names))]
        best = int(np.argmin(left))
        if best == turn.who or left[turn.who] <= _MARGIN * left[best]:
            again = Turn(turn.who, seat.spent / 2, before=turn.best, best=turn.best)
            return proposal._replace(memory=replace(memory, turn=again))
        why = f"{self.names[turn.who]} gained {turn.gain:.1f} digits in its last {turn.steps} steps"
        return self._changed(problem, iterate.k, proposal._replace(memory=memory), best, why, left[best])

    def _atoms(self, memory: Race) -> int:
        kept = _kept(memory.seats[memory.turn.who].memory)
        return 0 if kept is None else len(kept)

    def _left(self, problem: Problem, x: Point, memory: Race, i: int) -> float:
        """How much work a candidate is likely to need from here."""
        seat = memory.seats[i]
        if math.isnan(seat.rate):
            return self.candidates[i].expected_work(problem, x, self._atoms(memory) or int(np.count_nonzero(x.x)))
        if seat.rate == 0:
            return math.inf
        digits = max(_DIGITS - _digits(memory.first, memory.turn.best), 2.0)
        return digits / seat.rate * max(1.0, digits / seat.pace / _PATIENCE)

    def _replaced(self, problem: Problem, iterate: Iterate, memory: Race, trouble: NumericalTrouble) -> Proposal:
        """By the first candidate that has not been tried, where one has failed; where there is none, the run has."""
        who = memory.turn.who
        untried = [i for i, seat in enumerate(memory.seats) if i != who and math.isnan(seat.rate)]
        if not untried:
            raise trouble
        memory = memory.seated(who, memory.seats[who]._replace(rate=0.0))
        here = Proposal(iterate.point, 0.0, memory, mixture=True)
        why = f"{self.names[who]} failed ({trouble})"
        return self._changed(problem, iterate.k, here, untried[0], why)

    def _changed(
        self, problem: Problem, k: int, proposal: Proposal, who: int, why: str, likely: float = 0.0
    ) -> Proposal:
        """Another candidate takes over at the point that was reached, or at its own if that is better."""
        memory, best = proposal.memory, proposal.memory.turn.best
        seat = memory.seats[who]
        point, own = _taken_over(problem, self.candidates[who], proposal.point, seat.memory, memory.spent / 2)
        race = replace(
            memory.seated(who, seat._replace(memory=own)),
            turn=Turn(who, max(_FIRST, min(likely, memory.spent) / 2), before=best, best=best),
            changes=(*memory.changes, (k + 1, who, why)),
        )
        known = proposal.known if point is proposal.point else None
        changed = Proposal(point, proposal.step, race, mixture=proposal.mixture, known=known)
        return self._evaluated(problem, self.candidates[who], changed)

    def _evaluated(self, problem: Problem, method: Method, proposal: Proposal) -> Proposal:
        """With what is known of the point, if the method asks for it in its next step and the loop would not."""
        if self.uses_iterate or not method.uses_iterate or proposal.known is not None:
            return proposal
        return proposal._replace(known=problem.evaluate(proposal.point, lift=method.lifts))

    def _work(
        self, problem: Problem, x: Point, counted: tuple[int, int, float], who: int, before: Any, after: Any
    ) -> float:
        """What a step has cost, given the counts and its memory before."""
        grads, calls, passes = (now - then for now, then in zip(_counted(problem), counted, strict=True))
        old, new = _kept(before), _kept(after)
        correction = 0.0
        if old is not None and new is not None:
            passes = 2.0 if problem.objective.pass_cost else 0.0  # what images are remembered, a resumed run forgets
            if self.candidates[who].corrects:
                changes = 1 + len({atom.key for atom in old.atoms} ^ {atom.key for atom in new.atoms})
                correction = work.correction(problem, x, len(new), changes)
        return work.STEP + (passes or grads) * work.gradient(problem, x) + calls * work.oracle(x) + correction


def _kept(memory: Any) -> Decomposition | None:
    """The atoms in a candidate's memory, as many as they are."""
    return memory.active if isinstance(memory, AtomMemory) else None


def _counted(problem: Problem) -> tuple[int, int, float]:
    counts = problem.counts
    return counts.n_grad, counts.n_lmo, counts.n_design


def _digits(before: float, after: float) -> float:
    """By how many a gap has fallen."""
    if not 0 < before < math.inf or after >= before:
        return 0.0
    return math.log10(before / after) if after > 0 else math.inf


def _taken_over(problem: Problem, method: Method, x: Point, memory: Any, afford: float) -> tuple[Point, Any]:
    """Where a candidate begins its turn: at x, or at its own mixture if that is better."""
    fresh = method.init(problem, x) if memory is None else method.resumed(problem, x, memory)
    if _kept(fresh) is None or x.factored:
        return x, fresh
    own = _kept(memory)
    if own is not None and problem.value(point := own.point(x)) <= problem.value(x):
        return point, memory
    atoms = int(np.count_nonzero(x.x))
    if few(problem, x) or work.correction(problem, x, atoms, atoms / 4) <= afford:
        active = decomposed(problem, x)
        if active is not None:
            return active.point(x), method.init_from(problem, x, active)
    return x, fresh
