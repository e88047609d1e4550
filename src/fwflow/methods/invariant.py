"""Decomposition-invariant pairwise steps: away from the worst vertex of the face that x is on, with no active set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fwflow._validation import InputError
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import searched
from fwflow.methods.problem import Problem
from fwflow.points.point import Point
from fwflow.steps.searches import ExactSearch, LineSearch


@dataclass(frozen=True)
class DecompositionInvariant(Method):
    """Move from the worst vertex of the minimal face of x to the oracle's.

    Garber & Meshi (2016); Bashiri & Zhang (2017). The set tells both that vertex and how far x may move, so that
    nothing is kept of what x is made of: steps cost the same at an optimum made of many vertices.

    Parameters
    ----------
    line_search : LineSearch
    """

    line_search: LineSearch = field(default_factory=ExactSearch)

    @property
    def descends(self) -> bool:
        return self.line_search.descends

    def init(self, problem: Problem, x: Point) -> Any:
        if x.factored or problem.constraint.faces is None:
            raise InputError(
                f'method="decomposition-invariant" needs a set with an in-face oracle; {problem.constraint!r} has none'
            )
        return None

    def step(self, problem: Problem, iterate: Iterate, memory: Any) -> Proposal:
        x, known, faces = iterate.point, iterate.known, problem.constraint.faces
        assert known is not None
        assert faces is not None
        problem.counts.n_lmo += 1
        away = faces.away_vertex(known.gradient.as_oracle_input(), x.x)
        worst = problem.objective.lift(away)
        terms = [(1.0, known.vertex), (-1.0, worst)]
        limit = faces.max_step(x.x, np.asarray(known.vertex.vertex) - np.asarray(away))
        limit = problem.segment_inside(x, terms, limit)
        line = problem.along(x, x.mix(terms), iterate.fun, known.gradient)
        length, memory = searched(problem, self.line_search, line, min(1.0, limit), limit, memory)
        return Proposal(x.mix((float(length) * w, s) for w, s in terms), float(length), memory)
