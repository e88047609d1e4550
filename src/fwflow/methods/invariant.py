"""Decomposition-invariant pairwise Frank-Wolfe: pairwise steps on the minimal face of x, without an active set."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fwflow._validation import InputError
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.clock import search_along
from fwflow.methods.problem import Problem
from fwflow.points.point import Point
from fwflow.steps.searches import ExactSearch, LineSearch


@dataclass(frozen=True)
class DecompositionInvariant(Method):
    """Move from the worst vertex of the minimal face of x towards the vertex of the oracle.

    Garber & Meshi (2016); Bashiri & Zhang (2017). The set returns the worst vertex and the largest step, so no
    decomposition of x is kept. The cost of a step does not depend on the number of vertices of which x is a mixture.

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
        limit = faces.max_step(x.x, np.asarray(known.vertex.vertex) - np.asarray(away))
        terms = [(1.0, known.vertex), (-1.0, problem.objective.lift(away))]
        point, length, _, memory = search_along(
            problem, self.line_search, iterate, known.gradient, terms, limit, memory
        )
        return Proposal(point, length, memory)
