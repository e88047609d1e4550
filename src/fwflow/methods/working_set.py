"""Projected steps on a working set of columns, groups or blocks.

A step takes the full gradient at x, which also gives the gap. It chooses the entries of x that are not at rest and
those with the largest gradient, and minimises over these entries alone until the gap on them is small compared with the
full gap. If they are too many, it works on all entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fwflow._storage import storable
from fwflow._validation import Array, InputError
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.projected_steps import Place, ProjectedSteps
from fwflow.points.point import Point
from fwflow.sets.base import WorkingSets

# Least number of entries of a working set, and their number as a multiple of those that are not at rest.
_LEAST, _GROW = 100, 2
# Largest working set, as a share of all entries. Its columns are copied, so that it also limits memory.
_MOST = 1 / 3
# A step ends when the gap on the working set is this share of the full gap. The values 0.3, 0.2, 0.1, 0.05 and 0.03
# were compared on the problems of benchmarks/bare.py: smaller ones need fewer passes over all columns.
_SHARE = 0.03
# A gap on the working set below this share of the gap at which the run stops is small enough, because the full gap is
# at most three times as large where the working set contains all entries that matter. Chosen without tuning.
_ENOUGH = 0.3
# The goal of the run takes the place of the gap at which an iteration ends, if it is at least this share of that gap.
# The values 0.1 and 0.25 were compared on the problems of benchmarks/bare.py.
_NEAR = 0.25


@storable("columns-memory")
@dataclass(frozen=True)
class WorkingSetMemory:
    """Smoothness constant, and the momentum of steps on all entries: the point before, Nesterov's t, and `relax`."""

    smoothness: float = math.nan
    previous: Point | None = None
    t: float = 1.0
    relax: float = math.nan


@dataclass(frozen=True)
class WorkingSet(Method):
    """Accelerated projected gradient and Newton steps on the entries of x that matter.

    An iteration of the run is one full gradient and a loop of cheap steps on the working set. The loop watches the time
    limit, and counts its gradients, oracle calls and shares of passes over the data.
    """

    descends = True
    lifts = False

    def init(self, problem: Problem, x: Point) -> WorkingSetMemory:
        C = problem.constraint
        if x.factored:
            raise InputError(
                "projected steps on a working set need x as a dense array, but matrix completion stores x as factors"
            )
        if C.project(x.x) is None:
            raise InputError(f"projected steps on a working set need a set with a projection; {C!r} has none")
        if problem.objective.restricted(x, None) is None:
            raise InputError("working sets need a linear model or a quadratic; omit `method` for other functions")
        return WorkingSetMemory()

    def step(self, problem: Problem, iterate: Iterate, memory: WorkingSetMemory) -> Proposal:
        x, known, C = iterate.point, iterate.known, problem.constraint
        assert known is not None
        sets, places, g = C.working_sets, None, np.asarray(known.gradient).reshape(-1)
        kept = problem.objective.kept
        if sets is not None and not (kept is not None and kept.useful):
            start, places = _chosen(problem, sets, x, g, iterate.k == 0)
        if sets is None or places is None:
            return self._on_all(problem, iterate, memory)
        f, local = problem.objective.restricted(start, places), sets.restricted(places)
        assert f is not None
        v = start.x.reshape(-1)[places]
        place = Place(v, v, smoothness=memory.smoothness, gradient=g[places])
        if start is not x:
            moved = local.project(v)
            assert moved is not None
            place = Place(moved, moved, smoothness=memory.smoothness)
        target = _target(known.gap, _ENOUGH * iterate.goal)
        ended = ProjectedSteps(problem, f, local, v.shape).run(place, target)
        full = np.array(start.x)
        full.reshape(-1)[places] = ended.place.v
        point = problem.objective.imaged(full)
        if start is not x and problem.value(point) > iterate.fun:
            return self._on_all(problem, iterate, memory)
        problem.agreed(known.gradient.inner(point), known, "project")
        return Proposal(point, 1.0, WorkingSetMemory(ended.place.smoothness), stalled=ended.stalled)

    def _on_all(self, problem: Problem, iterate: Iterate, memory: WorkingSetMemory) -> Proposal:
        """Make steps on all entries, with the momentum of the iteration before."""
        x, known = iterate.point, iterate.known
        assert known is not None
        f = problem.objective.restricted(x, None)
        assert f is not None
        v, before = x.x.reshape(-1), memory.previous
        gradient = np.asarray(known.gradient).reshape(-1)
        place = Place(v, v, smoothness=memory.smoothness, image=x.image, previous_image=x.image, gradient=gradient)
        if before is not None:
            place = Place(
                v, before.x.reshape(-1), memory.t, memory.smoothness, memory.relax, x.image, before.image, gradient
            )
        target = _target(known.gap, iterate.goal)
        ended = ProjectedSteps(problem, f, problem.constraint, x.x.shape).run(place, target)
        end = ended.place
        point = Point(end.v.reshape(x.x.shape), end.image, exact=end.v is not v)
        problem.agreed(known.gradient.inner(point), known, "project")
        previous = Point(end.previous.reshape(x.x.shape), end.previous_image)
        after = WorkingSetMemory(end.smoothness, previous, end.t, end.relax)
        return Proposal(point, 1.0, after, known=ended.known, stalled=ended.stalled)


def _target(gap: float, goal: float) -> float:
    """Return the gap at which the steps of an iteration end: that of the run, if it is not far away."""
    target = _SHARE * gap
    return goal if goal >= _NEAR * target else target


def _chosen(problem: Problem, sets: WorkingSets, x: Point, g: Array, first: bool) -> tuple[Point, Array | None]:
    """Return the start and the places of a working set; None for the places if it would be too large.

    A dense start of the run, such as the barycentre of a simplex, is replaced by its entries at the best places, which
    the caller projects.
    """
    flat, most = x.x.reshape(-1), problem.objective.data_cost.most_columns
    most = int(_MOST * flat.size) if most is None else most
    used = sets.support(flat)
    count = max(_LEAST, _GROW * len(used))
    if count <= most:
        places = np.union1d(used, sets.best_places(g, count))
        return x, places if len(places) <= most else None
    places = sets.best_places(g, _LEAST)
    if not first or len(places) > most:
        return x, None
    moved = np.array(np.broadcast_to(np.asarray(sets.rest, dtype=flat.dtype), flat.shape))
    moved[places] = flat[places]
    return problem.objective.imaged(moved.reshape(x.x.shape)), places
