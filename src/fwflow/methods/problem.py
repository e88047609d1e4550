"""What is asked while solving? An objective and a set together, counting calls and refusing bad numbers."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.designs import Counts
from fwflow.objectives.base import Line, NumericalTrouble, Objective
from fwflow.objectives.quadratic_models import Model
from fwflow.points.gradients import Gradient, as_gradient
from fwflow.points.point import Atom, Lifted, Point
from fwflow.sets.base import ConstraintSet

# By this share of the size of its terms a product may differ where two ways to compute it should agree.
_DISAGREEMENT = 1e-6


@storable("evaluation")
class Evaluation(NamedTuple):
    """What is known at a point: the gradient, the oracle's answer to it, and the gap between the two."""

    gradient: Gradient
    vertex: Any  # a Lifted; a lazy method may put a Point in its place
    gap: float


@dataclass(frozen=True)
class Problem:
    """An objective and a constraint set, with the counts of one run."""

    objective: Objective
    constraint: ConstraintSet
    counts: Counts
    #: When to stop, on the clock of `time.perf_counter`: a step that takes long may look.
    deadline: float = math.inf
    _joint: dict[Point, tuple[float, Any]] = field(default_factory=dict, repr=False)

    @property
    def late(self) -> bool:
        """Whether the time of the run is over."""
        return time.perf_counter() > self.deadline

    def value(self, point: Point) -> float:
        """f at a point, or trouble."""
        self._check_domain(point)
        value = self.raw_value(point)
        if not math.isfinite(value):
            raise NumericalTrouble(f"the objective is {value}")
        return value

    def gradient(self, point: Point) -> Gradient:
        """The gradient at a point, or trouble."""
        self._check_domain(point)
        g = self._gradient(point)
        if not g.finite():
            raise NumericalTrouble("the gradient has NaN or infinite entries")
        return g

    def gradients(self, points: Sequence[Point]) -> Array | None:
        """The gradients at several points, one per row, where one pass gives them all and all are finite; else None."""
        gradients = self.objective.gradients(points)
        if gradients is None or not np.isfinite(gradients).all():
            return None
        self.counts.n_grad += len(points)
        return gradients

    def partial(self, point: Point, place: slice) -> Array | None:
        """The entries of the gradient at a place, if that costs no more than their share, or trouble."""
        self._check_domain(point)
        g = self.objective.partial(point, place)
        if g is None:
            return None
        self.counts.n_grad += 1
        if not np.isfinite(g).all():
            raise NumericalTrouble("the gradient has NaN or infinite entries")
        return g

    def raw_value(self, point: Point) -> float:
        """f at a point, whatever it is."""
        together = self._both(point)
        return self.objective.value(point) if together is None else together[0]

    def _gradient(self, point: Point) -> Gradient:
        together = self._both(point)
        if together is not None:
            return as_gradient(together[1])
        self.counts.n_grad += 1
        return as_gradient(self.objective.gradient(point))

    def _both(self, point: Point) -> tuple[float, Any] | None:
        """Value and gradient of an objective that computes them together, once per point."""
        if point in self._joint:
            return self._joint[point]
        together = self.objective.value_and_gradient(point)
        if together is not None:
            self.counts.n_grad += 1
            self._joint.clear()
            self._joint[point] = together
        return together

    def _check_domain(self, point: Point) -> None:
        if self.objective.domain is not None and not self.objective.domain(point):
            raise NumericalTrouble("the point lies outside the objective's domain")

    def defined_at(self, point: Point) -> bool:
        """Whether f is defined at a point. Stage points of some tableaus leave the constraint set."""
        return self.objective.domain is None or self.objective.domain(point)

    def model(self, point: Point) -> Model | None:
        """The quadratic with the value, gradient and curvature of f at a point, if f offers one."""
        return self.objective.model(point, self.gradient)

    def along(self, start: Point, end: Point, value0: float, gradient: Gradient | None) -> Line:
        """f on the segment from `start` (with its value, and its gradient if known) through `end`."""
        line = self.objective.along(start, end, value0)
        if line is not None:
            return line
        d = end.x - start.x
        norm2 = float(np.vdot(d, d))

        def at(gamma: float) -> Point:
            return Point(start.x + gamma * d)

        def slope(gamma: float) -> float:
            return float(np.vdot(np.asarray(self._gradient(at(gamma))), d))

        smoothness = self.objective.smoothness
        return Line(
            value=lambda gamma: self.raw_value(at(gamma)),
            slope=slope,
            second=None,
            value0=value0,
            slope0=slope(0.0) if gradient is None else float(np.vdot(np.asarray(gradient), d)),
            norm2=norm2,
            curvature=None if smoothness is None else smoothness * norm2,
        )

    def segment_inside(self, x: Point, direction: Sequence[tuple[float, Atom]], limit: float) -> float:
        """The length `limit`, halved until a step of that length stays in the objective's domain."""
        while self.objective.domain is not None and limit > 1e-15:
            if self.defined_at(x.mix((limit * w, s) for w, s in direction)):
                break
            limit /= 2
        return limit

    def lmo(self, g: Gradient, hint: Lifted | None = None, lift: bool = True, inner: float | None = None) -> Lifted:
        """The oracle's answer, with its image unless that is not wanted: for dense vertices it is a pass over A."""
        self.counts.n_lmo += 1
        last = None if hint is None else hint.vertex
        asked = g.as_oracle_input()
        vertex = self.constraint.lmo(asked, last) if inner is None else self.constraint.lmo_at(asked, inner, last)
        return self.objective.lift(vertex) if lift else Lifted(vertex)

    def evaluate(
        self, point: Point, hint: Lifted | None = None, lift: bool = True, gradient: Gradient | None = None
    ) -> Evaluation:
        r"""Gradient (unless it is known), vertex and the gap :math:`\langle g, x - s\rangle` at a point."""
        g = self.gradient(point) if gradient is None else gradient
        inner = g.inner(point)
        s = self.lmo(g, hint, lift, inner)
        return Evaluation(g, s, inner - g.dot(s.vertex))

    def size(self, point: Point, known: Evaluation) -> float:
        """The size of the terms of which the gap at a point is the difference."""
        return known.gradient.inner_size(point) + abs(known.gradient.dot(known.vertex.vertex))

    def rounding(self, point: Point, known: Evaluation) -> float:
        """A gap that rounding alone can make."""
        eps = float(np.finfo(point.x.dtype).eps)
        with np.errstate(over="ignore", invalid="ignore"):  # terms that overflow are infinitely rounded
            return 4 * (eps * self.size(point, known) + self.objective.rounding(point, known.vertex))

    def agreed(self, value: float, known: Evaluation, offer: str) -> None:
        """Complain if a set offers a member with a lower ``<g, s>`` than its own oracle's answer has.

        The oracle is the set. What else a set offers is inherited by those who replace its oracle, and may then be
        wrong.
        """
        least = known.gradient.dot(known.vertex.vertex)
        size = abs(value) + abs(least)
        if (
            value < least - _DISAGREEMENT * size
            and value
            < self.constraint.lower_bound(known.gradient.as_oracle_input(), known.vertex.vertex) - _DISAGREEMENT * size
        ):
            raise ValueError(
                f"C: {self.constraint!r} offers {offer} that reaches members which its oracle lmo does not know; "
                f"a set with an oracle of its own needs its own {offer}, or none"
            )
