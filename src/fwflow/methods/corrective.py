"""Corrective Frank-Wolfe: each step adds vertices and then minimises over the weights of the active set.

Corrections use the images of the atoms, at a cost of O(m |S|) per gradient and O(m |S|^2) per Newton step. An iteration
therefore makes one pass over the data, whatever the number of Newton steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fwflow.methods.active import AtomMemory, KeepsAtoms
from fwflow.methods.base import Iterate, Proposal
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.blocks import BlockSet, parts_of, with_parts
from fwflow.methods.restricted.working_set import QuasiNewtonState, WorkingSet, minimise_by_secants, minimise_on
from fwflow.points.point import Point
from fwflow.points.vertices import Vertex

# Smallest ratio of the gap over the weights to the full gap where only gradients are known. A new vertex then gains as
# much as a better weight, and every gradient adds to the model of the curvature. Chosen without tuning.
_SECANT_ACCURACY = 0.5
# Over several blocks, one pass may add this many times the vertices of a pass over one block, all blocks together.
# Chosen without tuning.
_BLOCK_FACTOR = 10


@dataclass(frozen=True)
class Corrective(KeepsAtoms):
    """Add several vertices per pass over the data, and correct all weights by Newton's method."""

    #: Maximum number of vertices that one step adds. Sets whose oracle is a sort (L1 ball, simplex) return that many;
    #: other sets return one.
    vertices: int = 20
    #: The weights are corrected until the gap over the weights is this fraction of the full gap.
    accuracy: float = 0.1

    optimism = 0.5  # Newton's method converges faster at the end than at the beginning
    corrects = True
    in_blocks = True
    descends = True

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        x, known, evaluation, secants = iterate.point, iterate.known, None, memory.secants
        assert known is not None
        g, vertex = known.gradient.as_oracle_input(), known.vertex.vertex
        count = max(1, min(self.vertices, _BLOCK_FACTOR * self.vertices // len(memory.active.starts)))
        more = problem.constraint.known_vertices
        best = [vertex] if more is None else more.best_vertices(g, count, vertex)
        for v in best[:2]:  # the vertices are sorted, so the first two show a disagreement with the oracle
            problem.agreed(v.dot(g), known, "best_vertices")
        active = _with_vertices(problem, x, known, memory.active, best)
        if problem.model(x) is not None:
            weights = minimise_on(problem, x, WorkingSet.hull(active), self.accuracy * known.gap)
            corrected = active.weighted(weights)
            point = corrected.point(x)
        else:
            start, tol = QuasiNewtonState(x, iterate.fun, known.gradient, secants), max(self.accuracy, _SECANT_ACCURACY)
            weights, end = minimise_by_secants(problem, start, active, tol * known.gap)
            corrected, point, secants = active.weighted(weights), end.point, end.secants
            evaluation = problem.evaluate(point, known.vertex, gradient=end.gradient)
        moved = float(np.abs(weights - active.weights).sum() / (2 * len(active.starts)))
        return Proposal(point, moved, AtomMemory(corrected, secants=secants), known=evaluation, mixture=True)


def _with_vertices(
    problem: Problem, x: Point, known: Evaluation, active: Decomposition, best: Sequence[Vertex]
) -> Decomposition:
    """Add the oracle's vertex, and those of the further vertices whose linear value is lower than that of x."""
    if isinstance(active, BlockSet):
        ranked = [parts for v in best if (parts := parts_of(problem.constraint, v)) is not None]
        if len(ranked) == len(best):
            return with_parts(problem, known, active, ranked)
    single, g, here = active.single(), known.gradient.as_oracle_input(), known.gradient.inner(x)
    single = single if single is active else single.lifted(problem.objective)
    further = problem.in_time(v for v in best[1:] if v.dot(g) < here)
    return single.joined([known.vertex, *map(problem.objective.lift, further)])
