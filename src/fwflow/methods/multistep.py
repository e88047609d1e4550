"""The multistep flow: any explicit Runge-Kutta tableau, with line search and momentum on top."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fwflow.flow import stages
from fwflow.methods.atoms import ActiveSet, Record
from fwflow.methods.base import Proposal
from fwflow.momentum import Momentum
from fwflow.points import Lifted, Point
from fwflow.problem import Evaluation, Problem
from fwflow.steps import LineSearch, Schedule
from fwflow.tableaus import Tableau


@dataclass(frozen=True)
class Memory:
    """What the next step needs from this one: oracle hints by stage, momentum, line-search memory, and what x is of."""

    hints: tuple[Lifted | None, ...]
    momentum: Any = None
    search: Any = None
    record: Record | None = None

    @property
    def active(self) -> ActiveSet | None:
        """The vertices that x is made of, unless the record was given up."""
        folded = None if self.record is None else self.record.folded()
        return None if folded is None else folded.active


@dataclass(frozen=True)
class Multistep:
    """x moves by one step of the tableau; a line search rescales the combined direction.

    A step is a mixture of x and vertices, so what x is made of is kept along the way. That is given up where momentum
    aims at averages of vertices, where x is factored, and where the vertices would take more than 100 times the memory
    of x (or 256 MB).
    """

    tableau: Tableau
    schedule: Schedule
    line_search: LineSearch | None = None
    momentum: Momentum | None = None

    @property
    def signature(self) -> str:
        """Tells methods apart, also tableaus of one name: a state continues only the method that made it."""
        t = self.tableau
        return f"{self!r} with A={t.A.tolist()}, beta={t.beta.tolist()}, omega={t.omega.tolist()}"

    @property
    def uses_iterate(self) -> bool:
        """Whether a step starts from the gradient at the iterate, so that the gap there is free."""
        return self.momentum is None or self.momentum.uses_iterate

    @property
    def oracle_only(self) -> bool:
        """Whether gradients are only averaged and handed to the oracle."""
        return self.momentum is None or getattr(self.momentum, "linear", False)

    def init(self, problem: Problem, x: Point) -> Memory:
        return self.init_from(problem, x, ActiveSet.starting_at(x))

    def init_from(self, problem: Problem, x: Point, active: ActiveSet) -> Memory:
        return Memory((None,) * self.tableau.stages, record=Record.starting_with(active, x))

    def step(
        self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: Memory
    ) -> Proposal:
        gammas = self.schedule.stage_gammas(k, self.tableau.omega.tolist())
        W, p = self.tableau.mixture(gammas)
        hints: list[Lifted | None] = list(memory.hints)
        averages = memory.momentum

        def gradient(point: Point) -> Any:
            return known.gradient if known is not None and point is x else problem.gradient(point)

        def target(i: int, x_bar: Point) -> Lifted | Point:
            nonlocal averages

            def oracle(g: Any) -> Lifted:
                same = known is not None and g is known.gradient
                hints[i] = vertex = known.vertex if same else problem.lmo(g, hints[i])  # type: ignore[union-attr]
                return vertex

            if self.momentum is None:
                return oracle(gradient(x_bar))
            aimed, averages = self.momentum.aim(x_bar, gammas[i], averages, gradient, oracle)
            return aimed

        s = stages(x, W, target)
        gamma, search, length, weights = gammas[0], memory.search, gammas[0], p
        if self.line_search is not None:
            direction = [(w / gamma, aim) for w, aim in zip(p, s, strict=True)]  # d = sum_i p_i (s_i - x) / gamma
            limit = min(1.0, gamma / sum(p)) if min(p) >= 0 else 1.0
            limit = problem.segment_inside(x, direction, limit)
            line = problem.objective.along(x, x.mix(direction), fun, None if known is None else known.gradient)
            length, search = self.line_search.step(line, gamma, limit, search)
            length = float(length)
            weights = [length * w for w, _ in direction]
        record = None if memory.record is None else memory.record.after(weights, s)
        return Proposal(x.mix(zip(weights, s, strict=True)), length, Memory(tuple(hints), averages, search, record))
