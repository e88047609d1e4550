"""Objective and constraint set of one run, with counted calls, checked values and the time limit."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, one_number
from fwflow.designs import Counts
from fwflow.objectives.base import Line, NumericalTrouble, Objective, OutsideDomain
from fwflow.objectives.quadratic_models import Model
from fwflow.points.gradients import Gradient, as_gradient
from fwflow.points.point import Atom, Lifted, Point
from fwflow.sets.base import ConstraintSet
from fwflow.steps.searches import LineSearch, TimeIsUp

T = TypeVar("T")

#: Weights w and atoms of a direction ``sum of w (atom - x)``.
Terms = Sequence[tuple[float, Atom]]
#: Function that returns whether the time limit has passed, for loops without a problem.
Late = Callable[[], bool]

# Relative difference between two computations of one inner product that is not regarded as an error. Chosen without
# tuning.
_DISAGREEMENT = 1e-6
_NOT_FINITE = "the gradient has NaN or infinite entries"
# Share of the first limit of a step below which no shorter step is tried.
_SHORTEST = 1e-15
# Rise of f, relative to the terms of its values and slopes, that may be rounding: functions of users may compute in
# single precision. Chosen without tuning.
_NOISE = 1e-6


def never() -> bool:
    """Return False: there is no time limit."""
    return False


@storable("evaluation")
class Evaluation(NamedTuple):
    """Gradient at a point, the vertex that the oracle returns for it, and the gap.

    Attributes
    ----------
    gradient : Gradient
        Gradient of f at the point.
    vertex : object
        Vertex with its image; a lazy method may put a point in its place.
    gap : float
        Frank-Wolfe gap at the point.

    See Also
    --------
    Problem : Computes evaluations.
    Iterate : Holds the evaluation of an iterate.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> from fwflow.designs import Counts
    >>> problem = fw.Problem(fw.Quadratic(np.eye(2)), fw.L1Ball(1.0), Counts())
    >>> problem.evaluate(problem.objective.point([1.0, 0.0])).gap
    2.0
    """

    gradient: Any  # a Gradient
    vertex: Any  # a Lifted; a lazy method may put a Point in its place
    gap: float


class Evaluator(ABC):
    """Computations at the points of a run that the loop needs, with counted calls and the time limit of the run."""

    counts: Counts
    #: End of the run on the clock of `time.perf_counter`, for steps that take long.
    deadline: float

    @property
    def late(self) -> bool:
        """Whether the time limit of the run has passed."""
        return time.perf_counter() > self.deadline

    def in_time(self, items: Iterable[T]) -> Iterator[T]:
        """Yield the items until the time limit has passed."""
        for item in items:
            if self.late:
                return
            yield item

    @property
    @abstractmethod
    def convex(self) -> bool | None:
        """Whether the gap bounds the error; None if that is unknown."""

    @abstractmethod
    def value(self, point: Point) -> float:
        """Return the value at a point; raise `NumericalTrouble` if it is not a finite number."""

    @abstractmethod
    def evaluate(self, point: Point, hint: Any = None, lift: bool = True) -> Evaluation:
        """Return the gap at a point, given the vertex of the last evaluation as a hint."""

    @abstractmethod
    def rounding(self, point: Point, known: Evaluation) -> float:
        """Return a bound on the rounding error of the gap at a point."""

    def refresh(self, point: Point) -> Point:
        """Return a point without the rounding errors that steps accumulate in what it carries beside x."""
        return point

    def scale(self, first_gap: float, fun: float, gap: float) -> float:
        """Return the number to which the tolerance `rtol` is relative, from the first and the present gap."""
        return first_gap


@dataclass(frozen=True)
class Problem(Evaluator):
    """Objective and constraint set of one run, with its counts and its time limit.

    Methods evaluate f and the oracle through a problem, so that all calls are counted.

    Parameters
    ----------
    objective : Objective
        The function f.
    constraint : ConstraintSet
        The set C.
    counts : Counts
        Numbers of gradients, oracle calls and passes over the data, which grow during the run.
    deadline : float
        End of the run on the clock of ``time.perf_counter``, for steps that take long; none by default.

    See Also
    --------
    Method : Its steps receive the problem.
    Evaluation : Gradient, vertex and gap at a point.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> from fwflow.designs import Counts
    >>> problem = fw.Problem(fw.Quadratic(np.eye(2)), fw.L1Ball(1.0), Counts())
    >>> known = problem.evaluate(problem.objective.point([1.0, 0.0]))
    >>> known.gap, problem.counts.n_lmo
    (2.0, 1)
    """

    objective: Objective
    constraint: ConstraintSet
    counts: Counts
    #: End of the run on the clock of `time.perf_counter`, for steps that take long.
    deadline: float = math.inf
    _joint: dict[Point, tuple[float, Any]] = field(default_factory=dict, repr=False)
    #: Value at the end of the last step, if the line search did not compute it, so that it is computed once.
    _end: dict[Point, float] = field(default_factory=dict, repr=False)

    @property
    def convex(self) -> bool | None:
        return self.objective.convex

    def refresh(self, point: Point) -> Point:
        return self.objective.refresh(point)

    def value(self, point: Point) -> float:
        """Return f at a point; raise `NumericalTrouble` if it is not a finite number."""
        if self.objective.domain is not None:
            self._check_domain(point)
        value = self.raw_value(point)
        if not math.isfinite(value):
            raise NumericalTrouble(f"the objective is {value}")
        return value

    def gradient(self, point: Point) -> Gradient:
        """Return the gradient at a point; raise `NumericalTrouble` if it is not finite."""
        if self.objective.domain is not None:
            self._check_domain(point)
        g = self._gradient(point)
        if not g.finite():
            raise NumericalTrouble(_NOT_FINITE)
        return g

    def gradients(self, points: Sequence[Point]) -> Array | None:
        """Return the gradients at several points as rows; None if one pass cannot compute them or one is not finite."""
        gradients = self.objective.gradients(points)
        if gradients is None or not np.isfinite(gradients).all():
            return None
        self.counts.n_grad += len(points)
        return gradients

    def partial(self, point: Point, place: slice) -> Array | None:
        """Return some entries of the gradient, or None if they cost as much as the whole gradient."""
        self._check_domain(point)
        g = self.objective.partial(point, place)
        if g is None:
            return None
        self.counts.n_grad += 1
        if not np.isfinite(g).all():
            raise NumericalTrouble(_NOT_FINITE)
        return g

    def raw_value(self, point: Point) -> float:
        """Return f at a point, which may be NaN or infinite."""
        together = self._both(point)
        if together is None and point in self._end:
            return self._end.pop(point)
        value = self.objective.value(point) if together is None else together[0]
        return value if isinstance(value, float) else one_number(value, "value")

    def _gradient(self, point: Point) -> Gradient:
        together = self._both(point)
        if together is not None:
            return as_gradient(together[1])
        self.counts.n_grad += 1
        return as_gradient(self._differentiated(self.objective.gradient, point))

    def _differentiated(self, gradient: Callable[[Point], T], point: Point) -> T:
        """Return ``gradient(point)``. An exception where f is not finite means that the point is outside its domain."""
        try:
            return gradient(point)
        except Exception as error:
            if self.objective.trusted or self._finite(point):
                raise
            raise OutsideDomain from error

    def _finite(self, point: Point) -> bool:
        """Return whether f is finite at a point, or raises an exception there."""
        try:
            return math.isfinite(self.raw_value(point))
        except Exception:  # that of the gradient passes through
            return True

    def _both(self, point: Point) -> tuple[float, Any] | None:
        """Return value and gradient of an objective that computes them together, once per point."""
        if point in self._joint:
            return self._joint[point]
        return self._kept(point, self.objective.value_and_gradient(point))

    def _kept(self, point: Point, together: tuple[float, Any] | None) -> tuple[float, Any] | None:
        """Count and keep value and gradient if they were computed together."""
        if together is not None:
            self.counts.n_grad += 1
            self._joint.clear()
            self._joint[point] = together
        return together

    def _check_domain(self, point: Point) -> None:
        if not self.defined_at(point):
            raise OutsideDomain

    def defined_at(self, point: Point) -> bool:
        """Return whether f is defined at a point. Stage points of some tableaus leave the constraint set."""
        return self.objective.domain is None or self.objective.domain(point)

    def model(self, point: Point) -> Model | None:
        """Return the quadratic with the value, gradient and curvature of f at a point, if f has one."""
        return self.objective.model(point, self.gradient)

    def along(self, start: Point, end: Point, value0: float, gradient: Gradient | None) -> Line:
        """Return f on the line from `start` through `end`, given the value and, if known, the gradient at `start`."""
        line = self.objective.along(start, end, value0)
        if line is not None:
            return line
        # Factored points are mixed, so that no matrix is formed but the gradient.
        d = None if start.factored else end.x - start.x
        norm2 = start.x.mixed(-1.0, end.rank_one_terms(1.0)).norm2() if d is None else float(np.vdot(d, d))

        def at(gamma: float) -> Point:
            return start.mix([(gamma, end)]) if d is None else Point(start.x + gamma * d)

        def inner(g: Gradient) -> float:
            return g.inner(end) - g.inner(start) if d is None else float(np.vdot(np.asarray(g), d))

        def slope(gamma: float) -> float:
            return inner(self._gradient(at(gamma)))

        smoothness = self.objective.smoothness
        return Line(
            value=lambda gamma: self.raw_value(at(gamma)),
            slope=slope,
            second=None,
            value0=value0,
            slope0=slope(0.0) if gradient is None else inner(gradient),
            norm2=norm2,
            curvature=None if smoothness is None else smoothness * norm2,
        )

    def segment_inside(self, x: Point, direction: Terms, limit: float) -> float:
        """Return the length `limit`, halved until a step of that length stays in the domain of f."""
        while self.objective.domain is not None and limit > 1e-15:
            if self.defined_at(x.mix((limit * w, s) for w, s in direction)):
                break
            limit /= 2
        return limit

    def step_length(self, search: LineSearch, line: Line, gamma: float, limit: float, memory: Any) -> tuple[float, Any]:
        """Return the step length of a line search and its memory.

        The limit is halved if the search reaches a point outside the domain of f. After the time limit the length is
        that of the longest step that was seen to decrease f, or zero.
        """
        best, shortest = 0.0, _SHORTEST * limit

        def timed(f: Callable[[float], float], lowest: float) -> Callable[[float], float]:
            def at(length: float) -> float:
                nonlocal best
                if self.late:
                    raise TimeIsUp
                found = f(length)
                if found <= lowest and best < length <= limit:
                    best = length
                return found

            return at

        if self.deadline < math.inf:
            line = replace(line, value=timed(line.value, line.value0), slope=timed(line.slope, 0.0))
        while True:
            try:
                return search.step(line, gamma, limit, memory)
            except TimeIsUp:
                return best, memory
            except OutsideDomain:
                limit /= 2
                if not limit > shortest:
                    return best, memory

    def search_along(
        self,
        search: LineSearch,
        x: Point,
        value: float,
        gradient: Gradient | None,
        terms: Terms,
        limit: float,
        memory: Any,
        gamma: float | None = None,
    ) -> tuple[Point, float, float, Any]:
        """Search along the direction ``sum of w (atom - x)`` from x, where f has that value, within the domain of f.

        Return the point, the step length, its limit within the domain, and the memory of the search. The default of
        `gamma`, the step size of the schedule, is the longest one. The search is repeated with a smaller limit if it
        ends where a function of a user is not finite, or higher than at x although the search promises descent.
        """
        limit = self.segment_inside(x, terms, limit)
        line, seen, shortest = self.along(x, x.mix(terms), value, gradient), dict[float, float](), _SHORTEST * limit
        if not self.objective.trusted:
            line = replace(line, value=_recorded(line.value, seen))
        tolerant = True
        while True:
            gamma_here = min(1.0, limit) if gamma is None else gamma
            length, following = self.step_length(search, line, gamma_here, limit, memory)
            length = float(length)
            point = x.mix((length * w, atom) for w, atom in terms)
            if self.objective.trusted or point is x:
                return point, length, limit, following
            if length not in seen:
                seen[length] = self.raw_value(point)
                self._end.clear()
                self._end[point] = seen[length]
            end = seen[length]
            lower = not search.descends or end <= value or (tolerant and self._rounded(end, x, value, gradient))
            if math.isfinite(end) and lower:
                return point, length, limit, following
            if not math.isfinite(end) and not np.isfinite(point.x).all():
                raise NumericalTrouble("the next point has NaN or infinite entries")
            # A direction of ascent must not become a series of small steps uphill.
            tolerant = tolerant and not math.isfinite(end)
            limit = min(limit, length) / 2
            if not limit > shortest:
                return x, 0.0, limit, memory

    def _rounded(self, end: float, x: Point, value: float, gradient: Gradient | None) -> bool:
        """Return whether a value is higher than that at x by no more than rounding."""
        return end - value <= _NOISE * (abs(end) + abs(value) + (0.0 if gradient is None else gradient.inner_size(x)))

    def lmo(self, g: Gradient, hint: Lifted | None = None, lift: bool = True, inner: float | None = None) -> Lifted:
        """Return the oracle's vertex, with its image if `lift`. The image of a dense vertex costs a pass over A."""
        self.counts.n_lmo += 1
        last = None if hint is None else hint.vertex
        vertex = self.constraint.vertex(g.as_oracle_input(), last, inner)
        return self.objective.lift(vertex) if lift else Lifted(vertex)

    def evaluate(
        self, point: Point, hint: Lifted | None = None, lift: bool = True, gradient: Gradient | None = None
    ) -> Evaluation:
        r"""Return the gradient (unless given), the vertex and the gap :math:`\langle g, x - s\rangle` at a point."""
        if gradient is None and self.objective.domain is None:
            # The value at an iterate is needed, too.
            self._kept(point, self._differentiated(self.objective.evaluated, point))
        g = self.gradient(point) if gradient is None else gradient
        inner = g.inner(point)
        s = self.lmo(g, hint, lift, inner)
        return Evaluation(g, s, inner - g.dot(s.vertex))

    def size(self, point: Point, known: Evaluation) -> float:
        """Return the sum of the absolute values of the terms whose difference is the gap at a point."""
        return known.gradient.inner_size(point) + abs(known.gradient.dot(known.vertex.vertex))

    def rounding(self, point: Point, known: Evaluation) -> float:
        """Return a bound on the rounding error of the gap at a point."""
        eps = float(np.finfo(point.x.dtype).eps)
        with np.errstate(over="ignore", invalid="ignore"):  # an overflow means an infinite rounding error
            return 4 * (eps * self.size(point, known) + self.objective.rounding(point, known.vertex))

    def agreed(self, value: float, known: Evaluation, name: str) -> None:
        """Raise an error if the attribute `name` of the set reaches a lower ``<g, s>`` than its oracle.

        A class that overrides the oracle of a set inherits the other attributes, which may then be wrong. In sets of
        the library the reason is rounding, which is `NumericalTrouble`.
        """
        least = known.gradient.dot(known.vertex.vertex)
        allowed = _DISAGREEMENT * (abs(value) + abs(least))
        if value >= least - allowed:
            return
        if value < self.constraint.lower_bound(known.gradient.as_oracle_input(), known.vertex.vertex) - allowed:
            found = f"`{name}` of {self.constraint!r} returned a point with a lower value than `lmo`"
            if self.constraint.trusted:
                raise NumericalTrouble(f"{found} because of rounding")
            raise ValueError(f"C: {found}; override both consistently")


def _recorded(value: Callable[[float], float], seen: dict[float, float]) -> Callable[[float], float]:
    """Return the function, whose results are kept in `seen`."""

    def at(length: float) -> float:
        seen[length] = found = value(length)
        return found

    return at
