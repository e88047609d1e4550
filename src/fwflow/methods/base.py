"""What proposes the next point? The interface between the loop and a method."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from fwflow.methods import work
from fwflow.methods.auto import Choice
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.points.point import Point


class Iterate(NamedTuple):
    """Where a step begins: x^(k) with its value and, unless None, its gradient, vertex and gap."""

    k: int
    point: Point
    fun: float
    known: Evaluation | None


class Proposal(NamedTuple):
    """The next point, the step length that led to it, and the method's memory for the step after."""

    point: Point
    step: float
    memory: Any
    #: A guess at the gap there, from methods that look elsewhere; a small one makes the loop compute it.
    gap_estimate: float = math.nan
    #: What is known of the point already, if the method had to find out.
    known: Evaluation | None = None
    #: Whether the point is a convex combination of the iterate and of members of the set, and so a member.
    mixture: bool = False
    #: There is nothing left to do: the point is where it was.
    finished: bool = False


class Method(ABC):
    """A pure rule: the loop hands in an iterate and the method's memory, and gets a proposal.

    No stopping, timing or tracing here. A new method needs `step`; every other member says what else it can do, or
    what it can do without, and its default is right for a method that builds on the gradient at the iterate and
    remembers nothing.
    """

    @property
    def uses_iterate(self) -> bool:
        """Whether `step` builds on the evaluation at the iterate, so that its gap costs nothing extra."""
        return True

    @property
    def check_every(self) -> int:
        """How often the loop computes the gap, where `step` does not need it."""
        return 1

    @property
    def lifts(self) -> bool:
        """Whether the image of the vertex at the iterate is made use of: for dense vertices it is a pass over A."""
        return True

    @property
    def oracle_only(self) -> bool:
        """Whether gradients are only added up and handed to the oracle, so that they may be lazy."""
        return False

    @property
    def descends(self) -> bool:
        """Whether f is never meant to rise: the run then returns the best point it has had."""
        return False

    #: Number of steps that a run gives the method at least, before another one may take its place.
    least_steps: int = 10
    #: Decimal digits of the gap that the method may gain beyond what its last steps show.
    optimism: float = 0.1
    #: Whether the method finds the non-zeros of a sparse solution long before their values.
    finds_support: bool = False
    #: Whether the method corrects the weights of all vertices in a step, so that few of them are solved at once.
    corrects: bool = False

    def expected_work(self, problem: Problem, x: Point, atoms: float) -> float:
        """Return the work of a run from x if all goes well, in the unit of ``methods.work``, given the atoms of x.

        The default is that of corrections, which find a sparse solution in few steps.
        """
        atoms = min(atoms, work.FEW_ATOMS)
        correction = work.correction(problem, x, atoms, work.FEW_ATOMS / work.FEW_STEPS)
        return work.FEW_STEPS * (work.step(problem, x) + work.gradient(problem, x) + correction)

    @property
    def signature(self) -> str:
        """By which a state knows its own method."""
        return repr(self)

    def init(self, problem: Problem, x: Point) -> Any:
        """The memory before the first step."""
        return None

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> Any:
        """The memory before the first step from a point that is known as a mixture of vertices."""
        return self.init(problem, x)

    def resumed(self, problem: Problem, x: Point, memory: Any) -> Any:
        """The memory before a step from x, to which others have come since this memory was made."""
        return self.init(problem, x)

    @abstractmethod
    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        """One step."""

    def active_set(self, memory: Any) -> Decomposition | None:
        """The iterate as a mixture of vertices, if the memory tells."""
        return None

    def ran(self, choice: Choice, memory: Any) -> Choice:
        """What has run and why, given what was chosen at the start: another answer from a method that changes."""
        return choice
