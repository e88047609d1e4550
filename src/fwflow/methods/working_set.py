"""Projected steps on a working set of columns, groups or blocks.

A step takes the full gradient at x, which also gives the gap. It chooses the entries of x that are not at rest and
those with the largest gradient, and minimises over these entries alone until the gap on them is small compared with the
full gap. If they are too many, it works on all entries.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from fwflow._validation import Array, InputError
from fwflow.methods.base import Iterate
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.charts import Chart, Expansion, RestrictedSteps
from fwflow.methods.restricted.projected_steps import Place, StepMemory
from fwflow.points.point import Point
from fwflow.sets.base import WorkingSets

# Least number of entries of a working set, and their number as a multiple of those that are not at rest.
_LEAST, _GROW = 100, 2
# Largest working set, as a share of all entries. Its columns are copied, so that it also limits memory.
_MOST = 1 / 3
# A gap on the working set below this share of the gap at which the run stops is small enough, because the full gap is
# at most three times as large where the working set contains all entries that matter. Chosen without tuning.
_ENOUGH = 0.3


@dataclass(frozen=True)
class Columns(Expansion):
    """Entries of x that are not at rest and those with the largest gradient, if they are few."""

    def chart(self, problem: Problem, iterate: Iterate, memory: StepMemory) -> Chart | None:
        x, known, sets, kept = iterate.point, iterate.known, problem.constraint.working_sets, problem.objective.kept
        assert known is not None
        if sets is None or (kept is not None and kept.useful):
            return None
        g = np.asarray(known.gradient).reshape(-1)
        start, places = _chosen(problem, sets, x, g, iterate.k == 0)
        if places is None:
            return None
        f, local, v = problem.objective.restricted(start, places), sets.restricted(places), start.x.reshape(-1)[places]
        assert f is not None
        gradient: Array | None = g[places]
        if start is not x:
            v, gradient = local.project(v), None
            assert v is not None

        def lift(ended: Place) -> Point:
            full = np.array(start.x)
            full.reshape(-1)[places] = ended.v
            return problem.objective.imaged(full)

        place = Place(v, gradient=gradient, memory=StepMemory(memory.smoothness))
        return Chart(f, local, place, v.shape, lift, _ENOUGH, exact=start is x)


@dataclass(frozen=True)
class AllEntries(Expansion):
    """All entries of x, with the momentum of the iteration before."""

    def check(self, problem: Problem, x: Point) -> None:
        C = problem.constraint
        if x.factored:
            raise InputError(
                "projected steps on a working set need x as a dense array, but matrix completion stores x as factors"
            )
        if C.projection(x.x.shape) is None:
            raise InputError(f"projected steps on a working set need a set with a projection; {C!r} has none")
        if not problem.objective.restrictable:
            raise InputError("working sets need a linear model or a quadratic; omit `method` for other functions")

    def chart(self, problem: Problem, iterate: Iterate, memory: StepMemory) -> Chart:
        x, known, f = iterate.point, iterate.known, problem.objective.restricted(iterate.point, None)
        assert known is not None
        assert f is not None
        start = x.x.reshape(-1)
        place = Place(start, x.image, np.asarray(known.gradient).reshape(-1), memory)

        def lift(ended: Place) -> Point:
            return Point(ended.v.reshape(x.x.shape), ended.image, exact=ended.v is not start)

        return Chart(f, problem.constraint, place, x.x.shape, lift, whole=True)

    def after(self, ended: Place) -> StepMemory:
        return ended.memory


@dataclass(frozen=True)
class WorkingSet(RestrictedSteps):
    """Accelerated projected gradient and Newton steps on the entries of x that matter."""

    # The repr, which identifies saved states, does not depend on them.
    expansions: tuple[Expansion, ...] = field(default=(Columns(), AllEntries()), repr=False)


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
