"""Corrective Frank-Wolfe: add the best vertices, then minimise over the weights of the active set before going on.

Everything on the active set comes from the images of its atoms, at a cost of O(m |S|) per gradient and O(m |S|^2) per
Newton step: one pass over the data per iteration, however much is corrected in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, first_below, row_lengths
from fwflow._validation import Array
from fwflow.methods.active import AtomMemory, KeepsBlocks
from fwflow.methods.base import Iterate, Proposal
from fwflow.methods.clock import Late, in_time, never, searched
from fwflow.methods.problem import Evaluation, Problem
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.blocks import BlockSet, parts_of, with_parts
from fwflow.methods.restricted.face import Face
from fwflow.methods.restricted.simplices import Factored, block_gap, differences, minimise_on_simplices, pairwise_step
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.quadratic_models import CoordinateModel, Model, gram, stacked
from fwflow.objectives.secants import Secants
from fwflow.points.gradients import Gradient
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex, Vertex
from fwflow.steps.searches import ExactSearch

# Weights are corrected to this share of the gap at best where gradients are all there is: each tells more of the
# curvature, wherever it is taken, and a new vertex is worth as much as a better weight.
_BY_SECANTS = 0.5
# A model of f over several blocks is minimised until its gap is this share of what it was.
_MODEL = 1e-3
# Over several blocks a pass adds so many times the vertices of a pass over one.
_TIMES = 10
# A slope counts as one that goes on if it changes f by this share at least: smaller ones may be rounding.
_SEEN = 1e-9
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class Corrective(KeepsBlocks):
    """Per pass over the data, add several vertices and correct all weights by Newton's method.

    Parameters
    ----------
    vertices : int
        Most vertices that a pass may add. Sets whose oracle is a sort (L1 ball, simplex) offer that many; others one.
    accuracy : float
        The weights are corrected until their own gap is this share of the full one.
    """

    vertices: int = 20
    accuracy: float = 0.1

    # Newton's method gains more digits at the end than at the beginning.
    optimism = 0.5
    corrects = True

    @property
    def descends(self) -> bool:
        return True

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        x, known = iterate.point, iterate.known
        assert known is not None
        g, vertex = known.gradient.as_oracle_input(), known.vertex.vertex
        blocks = len(memory.active.starts)
        count = max(1, min(self.vertices, _TIMES * self.vertices // blocks))
        more = problem.constraint.known_vertices
        best = [vertex] if more is None else more.best_vertices(g, count, vertex)
        for v in best[:2]:  # they come in order
            problem.agreed(v.dot(g), known, "best_vertices")
        active = _with_vertices(problem, x, known, memory.active, best)
        if problem.model(x) is None:
            return self._by_secants(problem, iterate, memory, active)
        weights = minimise_on(problem, x, Pool.hull(active), self.accuracy * known.gap)
        corrected = active.weighted(weights)
        moved = float(np.abs(weights - active.weights).sum() / (2 * blocks))
        return Proposal(corrected.point(x), moved, AtomMemory(corrected), mixture=True)

    def _by_secants(self, problem: Problem, iterate: Iterate, memory: AtomMemory, active: Decomposition) -> Proposal:
        """The step where gradients are all that is known of curvature; the last one serves the next step."""
        known = iterate.known
        assert known is not None
        descent = Descent(iterate.point, iterate.fun, known.gradient, memory.secants)
        weights, descent = minimise_by_secants(problem, descent, active, max(self.accuracy, _BY_SECANTS) * known.gap)
        moved = float(np.abs(weights - active.weights).sum() / (2 * len(active.starts)))
        following = AtomMemory(active.weighted(weights), secants=descent.secants)
        found = problem.evaluate(descent.point, known.vertex, gradient=descent.gradient)
        return Proposal(descent.point, moved, following, known=found, mixture=True)


def _with_vertices(
    problem: Problem, x: Point, known: Evaluation, active: Decomposition, best: Sequence[Vertex]
) -> Decomposition:
    """With the oracle's answer, and those of further vertices that lie lower than x."""
    if isinstance(active, BlockSet):
        ranked = [parts for v in best if (parts := parts_of(problem.constraint, v)) is not None]
        if len(ranked) == len(best):
            return with_parts(problem, known, active, ranked)
    single, g, here = active.single(), known.gradient.as_oracle_input(), known.gradient.inner(x)
    single = single if single is active else single.lifted(problem.objective)
    further = in_time(problem, (v for v in best[1:] if v.dot(g) < here))
    return single.joined([known.vertex, *map(problem.objective.lift, further)])


@dataclass(frozen=True, eq=False)
class Pool:
    """What a restricted problem may move: generators with values between bounds, on top of what stays fixed.

    Vertices have weights that keep their sum (`affine`); coordinates of a box move one by one.
    """

    generators: Sequence[Any]
    values: Array
    lower: Array
    upper: Array
    affine: bool
    fixed: Point | None = None
    #: Where blocks begin, each with weights that keep their sum; None if there is one only.
    starts: Array | None = None

    @classmethod
    def hull(cls, active: Decomposition) -> Pool:
        """The hull of the atoms of an active set, or the sum of the hulls of its blocks."""
        k = len(active)
        starts = active.starts if len(active.starts) > 1 else None
        return cls(active.atoms, active.weights, np.zeros(k), np.full(k, np.inf), True, starts=starts)

    def sides(self, model: Model) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """The sides of the generators in a model, and those of what is fixed.

        In blocks, generators are taken as differences to the heaviest, which are sparse where the blocks' vertices have
        much in common.
        """
        stack = model.stack(self.generators)
        if self.starts is not None:
            return differences(stack, self.values, self.starts)
        fixed = (0.0, 0.0) if self.fixed is None else model.sides(self.fixed)
        if not self.affine or not all(isinstance(side, np.ndarray) for side in stack):
            return stack, fixed
        # Counted from one of them, sides are of the size of the hull, however far that is from the origin. Counted from
        # the shortest, they keep the digits of the short ones.
        first = int(row_lengths(stack[0]).argmin())
        return centred(*stack, first), (fixed[0] + stack[0][first], fixed[1] + stack[1][first])

    def gap(self, slopes: Array, values: Array) -> float:
        """The gap of the restricted problem where it has these derivatives."""
        if self.starts is not None:
            return block_gap(slopes, values, self.starts)
        if self.affine:
            return float(dot(slopes, values) - slopes.min())
        return float(dot(slopes, values - np.where(slopes > 0, self.lower, self.upper)))

    def downhill(self, slopes: Array, values: Array) -> Array:
        """Values to which f falls at first: all weight of the worst generator in use goes to the best."""
        if not self.affine:
            return np.where(slopes > 0, self.lower, self.upper)
        if self.starts is not None:
            return values + pairwise_step(slopes, values, self.starts)
        worst = int(np.where(values > 0, slopes, -np.inf).argmax())
        target = values.copy()
        target[worst], target[int(slopes.argmin())] = 0.0, target[int(slopes.argmin())] + values[worst]
        return target

    def slack(self, slopes: Array, values: Array) -> Array:
        """By how much generators at a bound deserve it; negative where they should move."""
        if self.affine:
            return slopes - dot(slopes, values)
        return np.where(values > self.lower, -slopes, slopes)


def minimise_on(problem: Problem, x: Point, pool: Pool, tol: float, most: int = 50) -> Array:
    """Values whose gap is at most `tol`: models of f at x and after, each minimised exactly, and a line search on f."""
    f, at, values, stack = problem.objective, x, pool.values, None
    before: tuple[float, Array] = (np.inf, values)

    def late() -> bool:
        return problem.late

    for _ in range(most):
        model = problem.model(at)
        assert model is not None  # or secants would do
        if stack is None or model.moving:
            stack, fixed = pool.sides(model)
        left, right = stack
        slopes = dot(left, model.second * (fixed[1] + dot(values, right)) - model.pull)
        gap = pool.gap(slopes, values)
        if gap >= before[0]:  # a full step that no slope spoke for has not helped
            return before[1]
        if gap <= tol or late():
            break
        try:
            if pool.starts is not None:
                enough = 0.0 if f.quadratic else max(tol / 2, _MODEL * gap)
                K = Factored(left, model.second, right)
                target = minimise_on_simplices(K, slopes, values, pool.starts, enough, late=late)
                if dot(slopes, target - values) >= 0 and not f.quadratic:
                    raise NumericalTrouble
            elif f.quadratic or not isinstance(right, np.ndarray):  # a small quadratic program in the values alone
                target = least(gram(left * model.second, right), pool, values, slopes, late)
            else:
                target = follow(model, pool, left, right, fixed[1], values, slopes, late)
            if f.quadratic:  # the model is f itself
                return target
        except NumericalTrouble:  # f is not convex here
            target = pool.downhill(slopes, values)
        end = model.point(fixed[0] + dot(target, left), fixed[1] + dot(target, right), x.x.shape)
        limit = problem.segment_inside(at, [(1.0, end)], 1.0)
        if late():  # one value, where a search would take many
            return target if limit == 1.0 and problem.raw_value(end) < f.value(at) else values
        line = problem.along(at, end, f.value(at), None)
        length, _ = searched(problem, ExactSearch(), line, 1.0, limit, None)
        if length == limit == 1.0 and not late() and line.slope(1.0) < min(line.slope0 / 2, -_SEEN * abs(line.value0)):
            # Losses that are straight here curve less than their model does: go on to the first bound.
            limit = problem.segment_inside(at, [(1.0, end)], max(1.0, _reach(pool, values, target - values)))
            length, _ = searched(problem, ExactSearch(), line, 1.0, limit, None)
        if length == 0 and late():
            break
        # Close to the minimum slopes, the square of the gap, drown in rounding where the gap does not.
        before = (gap, values) if length == 0 else (np.inf, values)
        length = length or limit
        values = np.clip(values + length * (target - values), pool.lower, pool.upper)
        at = model.point(fixed[0] + dot(values, left), fixed[1] + dot(values, right), x.x.shape)
    return values


def _reach(pool: Pool, values: Array, step: Array) -> float:
    """How many times a step can be taken within the bounds."""
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(step < 0, pool.lower - values, pool.upper - values) / step
    return float(room.min(where=step != 0, initial=np.inf)) if step.any() else 1.0


class Descent(NamedTuple):
    """A point, f there with its gradient, and the curvature that gradients have told of on the way."""

    point: Point
    fun: float
    gradient: Gradient
    secants: Secants

    @property
    def noise(self) -> float:
        """By how much f may differ from itself."""
        return 8 * float(np.finfo(self.point.x.dtype).eps) * abs(self.fun)

    def towards(self, problem: Problem, end: Point) -> tuple[float, Descent] | None:
        """A part of the way to a point, after which f is lower, and what is known there; None if there is none.

        Where values drown in rounding slopes decide (Hager & Zhang, 2005).
        """
        d = end.x - self.point.x
        first, noise, secants = self.gradient.dot(DenseVertex(d)), self.noise, self.secants
        length = problem.segment_inside(self.point, [(1.0, end)], 1.0)
        for _ in in_time(problem, range(40 if first < noise else 0)):
            trial = self.point.mix([(length, end)])
            fun = problem.raw_value(trial)
            if not math.isfinite(fun):
                length /= 2
                continue
            gradient = problem.gradient(trial)
            slope = gradient.dot(DenseVertex(d))
            secants = secants.seen(length * d, np.asarray(gradient) - np.asarray(self.gradient))
            flat = fun <= self.fun + noise and abs(slope) <= max(-0.9 * first, noise)
            if flat or fun <= self.fun + 1e-4 * length * min(first, 0.0):
                return length, Descent(trial, fun, gradient, secants)
            length *= min(max(first / (first - slope), 0.1), 0.5) if slope > first else 0.5
        return None


def minimise_by_secants(
    problem: Problem, start: Descent, active: Decomposition, tol: float, most: int = 50
) -> tuple[Array, Descent]:
    """Weights whose gap is at most `tol`, and what is known there: quasi-Newton steps, with a line search on f each."""
    pool, rows = Pool.hull(active), stacked([atom.coordinates for atom in active.atoms])
    rows = centred(rows, rows, 0)[0] if isinstance(rows, np.ndarray) else rows
    at, values = start, pool.values
    before = (np.inf, values, start)
    for _ in range(most):
        slopes = active.scores(at.gradient)
        gap = pool.gap(slopes, values)
        if gap >= before[0] and at.fun >= before[2].fun - at.noise:  # neither f nor the gap has fallen
            return before[1], before[2]._replace(secants=at.secants)  # with what the step has told of the curvature
        if gap <= tol or problem.late:
            break
        before = (gap, values, at)
        target = _quasi_newton(at.secants, rows, pool, values, slopes, lambda: problem.late)
        found = at.towards(problem, active.weighted(target).point(start.point))
        if found is None:
            break
        length, at = found
        values = np.clip(values + length * (target - values), 0.0, None)
    return values, at


def _quasi_newton(secants: Secants, rows: Any, pool: Pool, values: Array, slopes: Array, late: Late) -> Array:
    """The values that are best in the quasi-Newton model, of the newest pairs if it is not convex with all of them."""
    while secants:
        try:
            return least(secants.gram(rows), pool, values, slopes, late)
        except NumericalTrouble:
            secants = secants.recent()
    return pool.downhill(slopes, values)


def least(K: Array, pool: Pool, values: Array, slopes: Array, late: Late = never) -> Array:
    """The values of a pool at which the quadratic with that Hessian, and these derivatives at its values, is least."""
    if pool.starts is not None:
        return minimise_on_simplices(K, slopes, values, pool.starts, late=late)
    units = np.eye(len(K)) if len(K) <= 500 else sp.eye_array(len(K)).tocsr()
    return follow(CoordinateModel(1.0, dot(K, values) - slopes), pool, units, K, 0.0, values, slopes, late)


def centred(left: Array, right: Array, i: int) -> tuple[Array, Array]:
    """Both less their rows i; one array where they are one."""
    moved = left - left[i]
    return moved, moved if right is left else right - right[i]


def follow(
    model: Model, pool: Pool, left: Any, right: Array, fixed: Any, values: Array, slopes: Array, late: Late = never
) -> Array:
    """Where the flow of a model ends, over what a pool can reach, from values with these derivatives.

    When it is late, where the flow has come to by then.
    """
    moving = (values > pool.lower) & (values < pool.upper)
    base = fixed + dot(np.where(moving, 0.0, values), right)
    columns = (values, pool.lower, pool.upper, left, right)
    face = Face.spanned(model, pool.affine, base, np.flatnonzero(moving), columns).minimised(late)
    for _, target in islice(events(pool, left, right, face, values, slopes, late), 10 * len(values) + 100):
        values = target
    return values


def events(
    pool: Pool, left: Any, right: Array, face: Face, values: Array, slopes: Array, late: Late = never
) -> Iterator[tuple[Face, Array]]:
    """The faces on which the flow of a model slides, one after the other, and the minimisers for which it heads.

    While the same generators move, the flow heads for the minimum on their face, and its derivatives change linearly
    on the way; the first other generator that becomes as good as those joins them. Where nothing does, or when it is
    late, it ends.
    """
    model, rigid = face.model, pool.upper <= pool.lower
    sizes = abs(left)
    while True:
        target = values.copy()
        for key, bound in face.dropped:
            target[key] = bound
        target[list(face.keys)] = face.values
        yield face, target
        if late():
            return
        ahead = dot(left, model.second * face.image - model.pull)
        slack = pool.slack(ahead, target)
        slack[list(face.keys)] = np.inf
        slack[rigid] = np.inf
        terms = 1e-14 * np.abs(model.second * face.image - model.pull) + _EPS * face.terms
        noise = dot(sizes, terms) + 1e-14 * np.abs(slopes)
        if pool.affine:  # slack is counted from a level, which is rounded too
            noise += float(dot(noise, target))
        event = first_below(pool.slack(slopes, target), slack, noise)
        if event is None:
            return
        theta, i = event
        row = _row(left, i)
        sides = (row, row if right is left else right[i])
        face = face.joined(i, sides, float(target[i]), float(pool.lower[i]), float(pool.upper[i])).minimised(late)
        if face.dropped[:1] == ((i, target[i]),):  # it did not move: only rounding let it in
            return
        values, slopes = target, (1 - theta) * slopes + theta * ahead


def _row(matrix: Any, i: int) -> Array:
    return matrix[i] if isinstance(matrix, np.ndarray) else matrix[[i]].toarray()[0]
