"""What is asked while solving? An objective and a set together, counting calls and refusing bad numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow.objectives.base import Counts, NumericalTrouble, Objective
from fwflow.points import ByImage, Lifted, Point
from fwflow.sets.base import ConstraintSet


@dataclass(frozen=True)
class Evaluation:
    """What is known at a point."""

    gradient: Any
    vertex: Any  # a Lifted; a lazy method may put a Point in its place
    gap: float


@dataclass(frozen=True)
class Problem:
    """An objective and a constraint set, with the counts of one run."""

    objective: Objective
    constraint: ConstraintSet
    counts: Counts

    def value(self, point: Point) -> float:
        """f at a point, or trouble."""
        self._check_domain(point)
        value = self.objective.value(point)
        if not math.isfinite(value):
            raise NumericalTrouble(f"the objective is {value}")
        return value

    def _check_domain(self, point: Point) -> None:
        if self.objective.has_domain and not self.objective.defined_at(point):
            raise NumericalTrouble("the point lies outside the objective's domain")

    def gradient(self, point: Point) -> Any:
        """The gradient at a point, or trouble."""
        self._check_domain(point)
        g = self.objective.gradient(point)
        if not np.isfinite(g.data if isinstance(g, ByImage) else g).all():
            raise NumericalTrouble("the gradient has NaN or infinite entries")
        return g

    def segment_inside(self, x: Point, direction: Sequence[tuple[float, Lifted | Point]], limit: float) -> float:
        """The length `limit`, halved until a step of that length stays in the objective's domain."""
        while self.objective.has_domain and limit > 1e-15:
            if self.objective.defined_at(x.mix((limit * w, s) for w, s in direction)):
                break
            limit /= 2
        return limit

    def lmo(self, g: Any, hint: Lifted | None = None, lift: bool = True, inner: float | None = None) -> Lifted:
        """The oracle's answer, with its image unless that is not wanted: for dense vertices it is a pass over A."""
        self.counts.n_lmo += 1
        last = None if hint is None else hint.vertex
        vertex = self.constraint.lmo(g, last) if inner is None else self.constraint.lmo_at(g, inner, last)
        return self.objective.lift(vertex) if lift else Lifted(vertex)

    def evaluate(self, point: Point, hint: Lifted | None = None, lift: bool = True) -> Evaluation:
        r"""Gradient, vertex and the gap :math:`\langle g, x - s\rangle` at a point."""
        g = self.gradient(point)
        inner = point.inner(g)
        s = self.lmo(g, hint, lift, inner)
        return Evaluation(g, s, inner - s.vertex.dot(g))
