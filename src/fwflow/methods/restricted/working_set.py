"""Working set of a restricted problem: the vertices or coordinates whose values may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._numerics import dot, row_lengths
from fwflow._validation import Array
from fwflow.methods.restricted.atoms import Decomposition
from fwflow.methods.restricted.simplices import block_gap, differences, pairwise_step
from fwflow.objectives.quadratic_models import Model
from fwflow.points.point import Point


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
