"""Blended conditional gradients: descend over the weights of the active set while that promises enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fwflow._validation import Array
from fwflow.methods.active import ActiveSetMethod, Terms
from fwflow.methods.problem import Evaluation
from fwflow.methods.restricted.atoms import ActiveSet
from fwflow.points.point import Point


@dataclass(frozen=True)
class Blended(ActiveSetMethod):
    """Gradient steps on the simplex of weights, and the oracle only where these promise too little.

    Braun, Pokutta, Tu & Wright (2019). Lazy unless told otherwise: such steps need no vertex, but for the promise that
    the last one made.
    """

    lazy: bool = True

    def direction(self, active: ActiveSet, scores: Array, known: Evaluation, x: Point) -> tuple[Terms, float]:
        fall = scores - scores.mean()  # weights keep their sum
        if not fall.max() > 0 or np.ptp(scores) < known.gap:
            return [(1.0, known.vertex)], 1.0
        longest = float((active.weights[fall > 0] / fall[fall > 0]).min())
        return [(-longest * w, atom) for w, atom in zip(fall.tolist(), active.atoms, strict=True)], 1.0
