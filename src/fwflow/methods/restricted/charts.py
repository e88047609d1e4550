"""Restricted problems: a problem over a smaller set, and the method that solves one in every step.

A chart says what may move: x is an affine function of a vector v in a set C. An expansion makes the chart of a step.
How f is minimised over the chart is the same for all expansions, see `projected_steps`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.projected_steps import Place, ProjectedSteps, StepMemory
from fwflow.objectives.restriction import Restriction
from fwflow.points.point import Point
from fwflow.points.vertices import Shape
from fwflow.sets.base import ConstraintSet

# A step ends when the gap on the chart is this share of the full gap. The values 0.3, 0.2, 0.1, 0.05 and 0.03 were
# compared on the problems of benchmarks/bare.py: smaller ones need fewer passes over all columns.
_SHARE = 0.03
# The goal of the run takes the place of the gap at which a step ends, if it is at least this share of that gap. The
# values 0.1 and 0.25 were compared on the problems of benchmarks/bare.py.
_NEAR = 0.25


class Chart(NamedTuple):
    """Problem over a smaller set.

    Attributes
    ----------
    f : Restriction
        The objective as a function of v.
    C : ConstraintSet
        Set of the vectors v. Its projection, and its faces if it has some, determine the steps.
    start : Place
        Vector at which the steps start, with its image and gradient if they are known.
    shape : tuple of int
        Shape of the members of C; v itself is a vector.
    lift : callable
        Function from the place at which the steps end to a `Point`.
    enough : float
        Share of the tolerance of the run that is a small enough gap on the chart; 1 by default. A smaller one leaves
        room for the entries that the chart leaves out.
    whole : bool
        Whether v holds all entries of x, so that the gap on the chart is that of the run; False by default.
    exact : bool
        Whether the chart contains the iterate, so that no step can increase f; True by default.
    """

    f: Restriction
    C: ConstraintSet
    start: Place
    shape: Shape
    lift: Callable[[Place], Point]
    enough: float = 1.0
    whole: bool = False
    exact: bool = True


class Expansion(ABC):
    """Rule for what may move in a step."""

    def check(self, problem: Problem, x: Point) -> None:
        """Raise an `InputError` if the rule does not apply to a problem; by default it always applies."""
        return

    @abstractmethod
    def chart(self, problem: Problem, iterate: Iterate, memory: StepMemory) -> Chart | None:
        """Return the chart of a step, or None if another rule should make it."""

    def after(self, ended: Place) -> StepMemory:
        """Return the memory for the next step: by default the smoothness constant, without momentum."""
        return StepMemory(ended.memory.smoothness)


@dataclass(frozen=True)
class RestrictedSteps(Method):
    """Minimise over one chart per step, which is that of the first expansion that offers one.

    An iteration of the run is one full gradient and a loop of cheap steps on the chart. The loop watches the time
    limit, and counts its gradients, oracle calls and shares of passes over the data. The last expansion always offers a
    chart, which contains the iterate.
    """

    expansions: tuple[Expansion, ...]

    descends = True
    lifts = False

    def init(self, problem: Problem, x: Point) -> StepMemory:
        for expansion in self.expansions:
            expansion.check(problem, x)
        return StepMemory()

    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        known = iterate.known
        assert known is not None
        for expansion in self.expansions:
            chart = expansion.chart(problem, iterate, memory)
            if chart is None:
                continue
            target, goal = _SHARE * known.gap, chart.enough * iterate.goal
            ended = ProjectedSteps(problem, chart.f, chart.C, chart.shape).run(
                chart.start, goal if goal >= _NEAR * target else target
            )
            point = chart.lift(ended.place)
            if chart.exact or problem.value(point) <= iterate.fun:
                problem.agreed(known.gradient.inner(point), known, "project")
                found = ended.known if chart.whole else None
                return Proposal(point, 1.0, expansion.after(ended.place), known=found, stalled=ended.stalled)
        raise AssertionError("the last expansion offers a chart that contains the iterate")
