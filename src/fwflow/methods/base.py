"""What proposes the next point? The interface between the loop and a method."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from fwflow.points import Point
from fwflow.problem import Evaluation, Problem


@dataclass(frozen=True)
class Proposal:
    """The next point, the step length that led to it, and the method's memory for the step after."""

    point: Point
    step: float
    memory: Any
    #: A guess at the gap there, from methods that look elsewhere; a small one makes the loop compute it.
    gap_estimate: float = math.nan
    #: What is known of the point already, if the method had to find out.
    known: Evaluation | None = None
    #: There is nothing left to do: the point is where it was.
    finished: bool = False


class Method(Protocol):
    """A pure rule: the loop hands in a state and gets a proposal. No stopping, timing or tracing here.

    Some more attributes are read where a method has them: ``check_every``, how often to compute the gap if the method
    does not; ``lifts``, False if it makes no use of the image of the vertex in `known`; ``oracle_only``, True if it
    only adds gradients up and asks the oracle, so that they may be lazy; ``signature``, a text by which a state knows
    its own method, in place of the repr.

    A method that keeps x as a mixture of vertices has an `ActiveSet` (or None) in its memory under the name ``active``,
    and ``init_from(problem, x, active)`` for runs that start from one.
    """

    @property
    def uses_iterate(self) -> bool:
        """Whether `step` builds on the evaluation at the iterate, so that its gap costs nothing extra."""
        ...

    def init(self, problem: Problem, x: Point) -> Any:
        """The memory before the first step."""
        ...

    def step(self, problem: Problem, k: int, x: Point, fun: float, known: Evaluation | None, memory: Any) -> Proposal:
        """One step from x, whose value and, unless None, evaluation are known."""
        ...
