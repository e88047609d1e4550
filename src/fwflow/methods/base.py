"""Interface between the loop and a method: iterate, proposal, the base class of methods, and runs within a step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from fwflow.methods.auto import Choice
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.points.point import Point


class Iterate(NamedTuple):
    """Iterate x^(k), at which a step of a method starts.

    Attributes
    ----------
    k : int
        Number of the iteration, from 0.
    point : Point
        The iterate with its image.
    fun : float
        Value of f at the iterate.
    known : Evaluation or None
        Gradient, vertex and gap at the iterate, if they were computed.
    goal : float
        Gap at which the run stops, for steps that contain a loop; 0 by default.

    See Also
    --------
    Method : Receives an iterate.
    Proposal : Answer of a method.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(2))
    >>> x = f.point([3.0, 4.0])
    >>> fw.Iterate(k=0, point=x, fun=f.value(x), known=None).fun
    12.5
    """

    k: int
    point: Point
    fun: float
    known: Evaluation | None
    #: Gap at which the run stops, for steps that contain a loop.
    goal: float = 0.0


class Proposal(NamedTuple):
    """Next point that a method proposes.

    Attributes
    ----------
    point : Point
        The next point with its image.
    step : float
        Step length that led to the point, for the trace.
    memory : object
        Memory of the method for the following step.
    gap_estimate : float
        Estimate of the gap at the point; NaN, the default, if there is none. The loop computes the gap if the estimate
        is small.
    known : Evaluation or None
        Gradient, vertex and gap at the point, if the method has computed them.
    mixture : bool
        Whether the point is a convex combination of the iterate and of members of the set, and therefore a member;
        False by default.
    finished : bool
        Whether the method cannot improve the point further; False by default.
    stalled : bool
        Whether the step ended before it reached its goal, so that another method may be faster; False by default.
    work : float
        Work of the step besides gradients and oracle calls, in entries of a dense matrix that are read; 0 by default.

    See Also
    --------
    Method : Returns a proposal.
    Iterate : Start of a step.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> x = fw.Quadratic(np.eye(2)).point([1.0, 0.0])
    >>> fw.Proposal(x, step=0.5, memory=None, mixture=True).mixture
    True
    """

    point: Point
    step: float
    memory: Any
    #: Estimate of the gap at the point. The loop computes the gap if the estimate is small.
    gap_estimate: float = math.nan
    #: Gradient, vertex and gap at the point, if the method has computed them.
    known: Evaluation | None = None
    #: Whether the point is a convex combination of the iterate and of members of the set, and therefore a member.
    mixture: bool = False
    #: Whether the method cannot improve the point further.
    finished: bool = False
    #: Whether the step ended before it reached its goal, so that another method may be faster.
    stalled: bool = False
    #: Work of the step besides gradients and oracle calls, in the unit of ``methods.work``.
    work: float = 0.0


class Stepper(ABC):
    """Rule that proposes the next point of a run, with the members that the loop reads."""

    @property
    def uses_iterate(self) -> bool:
        """Whether `step` uses the evaluation at the iterate, so that the gap there has no extra cost."""
        return True

    @property
    def check_every(self) -> int:
        """Number of iterations between two computations of the gap, if `step` does not need it."""
        return 1

    @property
    def lifts(self) -> bool:
        """Whether `step` uses the image of the vertex at the iterate. For dense vertices it costs a pass over A."""
        return True

    @property
    def descends(self) -> bool:
        """Whether f is not meant to increase. The run then returns its best point."""
        return False

    @property
    def comparable(self) -> bool:
        """Whether all iterates are feasible, so that the one with the lowest value is the best."""
        return True

    @abstractmethod
    def step(self, problem: Any, iterate: Iterate, memory: Any) -> Proposal:
        """Return the proposal of one step."""

    def escape(self, problem: Any, iterate: Iterate) -> Proposal | None:
        """Return a step from an iterate whose gap is within the tolerance to a lower value, or None to stop there.

        Such a step exists only if f is not convex. The default is None.
        """
        return None


class Method(Stepper):
    """Rule that proposes the next point from an iterate and the memory of the method.

    A method does not stop, measure time or write the trace. A new method needs `step`. The defaults of the other
    members are right for a method that uses the gradient at the iterate and has no memory.

    See Also
    --------
    Iterate : Start of a step.
    Proposal : Answer of a step.
    Problem : Objective and set, with counts.
    """

    @property
    def oracle_only(self) -> bool:
        """Whether gradients are only added, scaled and passed to the oracle, so that they may be lazy."""
        return False

    #: Least progress in the last third of a run, as the logarithm of the factor by which the gap fell. After less
    #: progress another method may be tried. The default, a factor of two, is that of a gap that falls like 1 / k^1.7.
    slow: float = 0.3

    @property
    def signature(self) -> str:
        """Text that identifies the method in a saved state."""
        return repr(self)

    def init(self, problem: Problem, x: Point) -> Any:
        """Return the memory before the first step."""
        return None

    def init_from(self, problem: Problem, x: Point, active: Decomposition) -> Any:
        """Return the memory before the first step from a point with a known decomposition into vertices."""
        return self.init(problem, x)

    def resumed(self, problem: Problem, x: Point, memory: Any) -> Any:
        """Return the memory before a step from x, where x was reached by another method since `memory` was made."""
        return self.init(problem, x)

    @abstractmethod
    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        """Return the proposal of one step."""

    def active_set(self, memory: Any) -> Decomposition | None:
        """Return the decomposition of the iterate into vertices, if the memory contains it."""
        return None

    def ran(self, choice: Choice, memory: Any) -> Choice:
        """Return the method that ran last and the reason; methods that switch override it."""
        return choice


class Place(NamedTuple):
    """Iterate of a method on a subproblem, its evaluation, the memory of the method, and the value."""

    point: Point
    known: Evaluation
    memory: Any
    value: float


def descent(problem: Problem, method: Method, x: Point, memory: Any) -> Iterator[Place]:
    """Yield x and the iterates of a method from there.

    The last one has a gap of the size of rounding errors, or neither gap nor value decreased, or the time is over.
    """
    value, least, k = math.inf, math.inf, 0
    while True:
        known, found = problem.evaluate(x), problem.value(x)
        yield Place(x, known, memory, found)
        noise = 4 * float(np.finfo(x.x.dtype).eps) * problem.size(x, known)
        if problem.late or known.gap <= noise or (known.gap > least / 2 and found >= value):
            return
        value, least = min(value, found), min(least, known.gap)
        proposal = method.step(problem, Iterate(k, x, found, known), memory)
        x, memory, k = proposal.point, proposal.memory, k + 1
