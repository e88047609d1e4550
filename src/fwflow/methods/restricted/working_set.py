"""Quadratics on a working set, the vertices or coordinates whose values may change, and the flow to their minimum."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot, first_below, row_lengths
from fwflow._validation import Array
from fwflow.methods.problem import Late, never
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.face import Face
from fwflow.methods.restricted.simplices import block_gap, differences, minimise_on_simplices, pairwise_step
from fwflow.objectives.quadratic_models import CoordinateModel, Model
from fwflow.points.point import Point

_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class WorkingSet:
    """Generators with values between bounds, added to a fixed point.

    The weights of vertices keep their sum (`affine`). The coordinates of a box change one by one.
    """

    generators: Sequence[Any]
    values: Array
    lower: Array
    upper: Array
    affine: bool
    fixed: Point | None = None
    #: First index of every block, if there are several. The weights of each block keep their sum.
    starts: Array | None = None

    @classmethod
    def hull(cls, active: Decomposition) -> WorkingSet:
        """Return the atoms of an active set, or those of all its blocks."""
        k = len(active)
        starts = active.starts if len(active.starts) > 1 else None
        return cls(active.atoms, active.weights, np.zeros(k), np.full(k, np.inf), True, starts=starts)

    def sides(self, model: Model) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        """Return the sides of the generators in a model, and those of the fixed point.

        In blocks, the rows are differences to the heaviest generator of the block. These are sparse where the vertices
        of a block have many entries in common.
        """
        stack = model.stack(self.generators)
        if self.starts is not None:
            return differences(stack, self.values, self.starts)
        fixed = (0.0, 0.0) if self.fixed is None else model.sides(self.fixed)
        if not self.affine or not all(isinstance(side, np.ndarray) for side in stack):
            return stack, fixed
        # Differences to one generator have the size of the hull, even if the hull is far from the origin. Differences
        # to the shortest generator keep the precision of the short ones.
        first = int(row_lengths(stack[0]).argmin())
        return centred(*stack, first), (fixed[0] + stack[0][first], fixed[1] + stack[1][first])

    def gap(self, slopes: Array, values: Array) -> float:
        """Return the duality gap of the restricted problem, given its derivatives."""
        if self.starts is not None:
            return block_gap(slopes, values, self.starts)
        if self.affine:
            return float(dot(slopes, values) - slopes.min())
        return float(dot(slopes, values - np.where(slopes > 0, self.lower, self.upper)))

    def downhill(self, slopes: Array, values: Array) -> Array:
        """Return the end of a descent direction: the weight of the worst generator in use goes to the best."""
        if not self.affine:
            return np.where(slopes > 0, self.lower, self.upper)
        if self.starts is not None:
            return values + pairwise_step(slopes, values, self.starts)
        worst, best, target = int(np.where(values > 0, slopes, -np.inf).argmax()), int(slopes.argmin()), values.copy()
        target[worst], target[best] = 0.0, target[best] + values[worst]
        return target

    def slack(self, slopes: Array, values: Array) -> Array:
        """Return the multipliers of the generators at a bound; a negative one should leave its bound."""
        if self.affine:
            return slopes - dot(slopes, values)
        return np.where(values > self.lower, -slopes, slopes)

    def reach(self, values: Array, step: Array) -> float:
        """Return the largest multiple of a step that stays within the bounds."""
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(step < 0, self.lower - values, self.upper - values) / step
        return float(room.min(where=step != 0, initial=np.inf)) if step.any() else 1.0


def centred(left: Array, right: Array, i: int) -> tuple[Array, Array]:
    """Subtract row i from both matrices; the result is one array twice if the argument is."""
    moved = left - left[i]
    return moved, moved if right is left else right - right[i]


def minimise_quadratic(K: Array, working: WorkingSet, values: Array, slopes: Array, late: Late = never) -> Array:
    """Return the values that minimise the quadratic with Hessian K and the given derivatives at `values`."""
    if working.starts is not None:
        return minimise_on_simplices(K, slopes, values, working.starts, late=late)
    units = np.eye(len(K)) if len(K) <= 500 else sp.eye_array(len(K)).tocsr()
    return minimise_model(CoordinateModel(1.0, dot(K, values) - slopes), working, units, K, 0.0, values, slopes, late)


def minimise_model(
    model: Model,
    working: WorkingSet,
    left: Any,
    right: Array,
    fixed: Any,
    values: Array,
    slopes: Array,
    late: Late = never,
) -> Array:
    """Return the values at which the flow of a model ends, or those it has reached when `late` is true.

    The flow starts at `values`, where the model has the derivatives `slopes`.
    """
    moving = (values > working.lower) & (values < working.upper)
    base = fixed + dot(np.where(moving, 0.0, values), right)
    columns = (values, working.lower, working.upper, left, right)
    face = Face.spanned(model, working.affine, base, np.flatnonzero(moving), columns).minimised(late)
    for _, target in islice(events(working, left, right, face, values, slopes, late), 10 * len(values) + 100):
        values = target
    return values


def events(
    working: WorkingSet, left: Any, right: Array, face: Face, values: Array, slopes: Array, late: Late = never
) -> Iterator[tuple[Face, Array]]:
    """Yield the faces on which the flow of a model moves, in order, and the minimiser on each of them.

    While the same generators move, the flow heads for the minimum on their face, and the derivatives change linearly.
    The first other generator whose derivative becomes as good joins the face. The flow ends where no generator does,
    or when `late` is true.
    """
    model, rigid = face.model, working.upper <= working.lower
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
        slack = working.slack(ahead, target)
        slack[list(face.keys)] = np.inf
        slack[rigid] = np.inf
        terms = 1e-14 * np.abs(model.second * face.image - model.pull) + _EPS * face.terms
        noise = dot(sizes, terms) + 1e-14 * np.abs(slopes)
        if working.affine:  # the multipliers are differences to a common level, which is rounded too
            noise += float(dot(noise, target))
        event = first_below(working.slack(slopes, target), slack, noise)
        if event is None:
            return
        theta, i = event
        row = left[i] if isinstance(left, np.ndarray) else left[[i]].toarray()[0]
        sides = (row, row if right is left else right[i])
        face = face.joined(i, sides, float(target[i]), float(working.lower[i]), float(working.upper[i]))
        face = face.minimised(late)
        if face.dropped[:1] == ((i, target[i]),):  # the generator did not move, so the event was a rounding error
            return
        values, slopes = target, (1 - theta) * slopes + theta * ahead
