"""Corrective Frank-Wolfe: add the best vertices, then minimise over the weights of the active set before going on.

Everything on the active set comes from the images of its atoms, at a cost of O(m |S|) per gradient and O(m |S|^2) per
Newton step: one pass over the data per iteration, however much is corrected in between.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array
from fwflow.atoms import ActiveSet
from fwflow.methods.active import AtomMemory, KeepsAtoms
from fwflow.methods.base import Iterate, Proposal
from fwflow.methods.face import Face
from fwflow.numerics import first_below
from fwflow.objectives.base import NumericalTrouble
from fwflow.objectives.models import CoordinateModel, Model
from fwflow.points import Point
from fwflow.problem import Problem
from fwflow.steps import ExactSearch


@dataclass(frozen=True)
class Corrective(KeepsAtoms):
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

    def step(self, problem: Problem, iterate: Iterate, memory: AtomMemory) -> Proposal:
        x, known = iterate.point, iterate.known
        assert known is not None
        g, vertex = known.gradient.question(), known.vertex.vertex
        best = problem.constraint.best_vertices(g, self.vertices, vertex)
        for v in best[:2]:  # they come in order
            problem.agreed(v.dot(g), known, "best_vertices")
        here = known.gradient.inner(x)
        useful = [v for v in best[1:] if v.dot(g) < here]
        active = memory.active.joined([known.vertex, *map(problem.objective.lift, useful)])
        weights = minimise_on(problem, x, Pool.hull(active), self.accuracy * known.gap)
        corrected = ActiveSet(active.atoms, weights).pruned()
        moved = float(np.abs(weights - active.weights).sum() / 2)
        return Proposal(corrected.point(x), moved, AtomMemory(corrected), mixture=True)


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

    @classmethod
    def hull(cls, active: ActiveSet) -> Pool:
        """The hull of the atoms of an active set."""
        k = len(active.atoms)
        return cls(active.atoms, active.weights, np.zeros(k), np.full(k, np.inf), True)

    def gap(self, slopes: Array, values: Array) -> float:
        """The gap of the restricted problem where it has these derivatives."""
        if self.affine:
            return float(slopes @ values - slopes.min())
        return float(slopes @ (values - np.where(slopes > 0, self.lower, self.upper)))

    def downhill(self, slopes: Array, values: Array) -> Array:
        """Values to which f falls at first: all weight of the worst generator in use goes to the best."""
        if not self.affine:
            return np.where(slopes > 0, self.lower, self.upper)
        worst = int(np.where(values > 0, slopes, -np.inf).argmax())
        target = values.copy()
        target[worst], target[int(slopes.argmin())] = 0.0, target[int(slopes.argmin())] + values[worst]
        return target

    def slack(self, slopes: Array, values: Array) -> Array:
        """By how much generators at a bound deserve it; negative where they should move."""
        if self.affine:
            return slopes - slopes @ values
        return np.where(values > self.lower, -slopes, slopes)


def minimise_on(problem: Problem, x: Point, pool: Pool, tol: float, most: int = 50) -> Array:
    """Values whose gap is at most `tol`: models of f at x and after, each minimised exactly, and a line search on f."""
    f, at, values, stack = problem.objective, x, pool.values, None
    before: tuple[float, Array] = (np.inf, values)
    for _ in range(most):
        model = problem.model(at)
        if model is None:
            raise ValueError(
                'method="corrective" and "flow" need second derivatives: give Smooth(..., hess_product=...), '
                'or use method="blended-pairwise"'
            )
        if stack is None or model.moving:
            stack = model.stack(pool.generators)
            fixed = (0.0, 0.0) if pool.fixed is None else model.sides(pool.fixed)
        left, right = stack
        slopes = left @ (model.second * (fixed[1] + values @ right) - model.pull)
        gap = pool.gap(slopes, values)
        if gap >= before[0]:  # a full step that no slope spoke for has not helped
            return before[1]
        if gap <= tol or problem.late:
            break
        try:
            if f.quadratic or not isinstance(right, np.ndarray):  # a small quadratic program in the values alone
                K = gram(left * model.second, right)
                units = np.eye(len(K)) if len(K) <= 500 else sp.eye_array(len(K)).tocsr()
                target = follow(CoordinateModel(1.0, K @ values - slopes), pool, units, K, 0.0, values, slopes)
            else:
                target = follow(model, pool, left, right, fixed[1], values, slopes)
            if f.quadratic:  # the model is f itself
                return target
        except NumericalTrouble:  # f is not convex here
            target = pool.downhill(slopes, values)
        end = model.point(fixed[0] + target @ left, fixed[1] + target @ right, x.x.shape)
        limit = problem.segment_inside(at, [(1.0, end)], 1.0)
        length, _ = ExactSearch().step(problem.along(at, end, f.value(at), None), 1.0, limit, None)
        # Close to the minimum slopes, the square of the gap, drown in rounding where the gap does not.
        before = (gap, values) if length == 0 else (np.inf, values)
        length = length or limit
        values = np.clip(values + length * (target - values), pool.lower, pool.upper)
        at = model.point(fixed[0] + values @ left, fixed[1] + values @ right, x.x.shape)
    return values


def gram(X: Any, Y: Any) -> Array:
    """``X @ Y.T`` of two stacks, as an array."""
    product = X @ Y.T
    return product if isinstance(product, np.ndarray) else product.toarray()


def follow(model: Model, pool: Pool, left: Any, right: Array, fixed: Any, values: Array, slopes: Array) -> Array:
    """Where the flow of a model ends, over what a pool can reach, from values with these derivatives."""
    moving = (values > pool.lower) & (values < pool.upper)
    base = fixed + np.where(moving, 0.0, values) @ right
    columns = (values, pool.lower, pool.upper, left, right)
    face = Face.spanned(model, pool.affine, base, np.flatnonzero(moving), columns).minimised()
    for _, target in islice(events(pool, left, right, face, values, slopes), 10 * len(values) + 100):
        values = target
    return values


def events(
    pool: Pool, left: Any, right: Array, face: Face, values: Array, slopes: Array
) -> Iterator[tuple[Face, Array]]:
    """The faces on which the flow of a model slides, one after the other, and the minimisers for which it heads.

    While the same generators move, the flow heads for the minimum on their face, and its derivatives change linearly
    on the way; the first other generator that becomes as good as those joins them. Where nothing does, it ends.
    """
    model, rigid = face.model, pool.upper <= pool.lower
    while True:
        target = values.copy()
        for key, bound in face.dropped:
            target[key] = bound
        target[list(face.keys)] = face.values
        yield face, target
        ahead = left @ (model.second * face.image - model.pull)
        slack = pool.slack(ahead, target)
        slack[list(face.keys)] = np.inf
        slack[rigid] = np.inf
        noise = 1e-14 * float(np.abs(ahead).max() + np.abs(slopes).max())
        event = first_below(pool.slack(slopes, target), slack, noise)
        if event is None:
            return
        theta, i = event
        row = _row(left, i)
        sides = (row, row if right is left else right[i])
        face = face.joined(i, sides, float(target[i]), float(pool.lower[i]), float(pool.upper[i])).minimised()
        if face.dropped[:1] == ((i, target[i]),):  # it did not move: only rounding let it in
            return
        values, slopes = target, (1 - theta) * slopes + theta * ahead


def _row(matrix: Any, i: int) -> Array:
    return matrix[i] if isinstance(matrix, np.ndarray) else matrix[[i]].toarray()[0]
