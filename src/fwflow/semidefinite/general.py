"""Semidefinite programs with any linear constraints: points, dual bounds and proofs of infeasibility."""

from __future__ import annotations

import math

import numpy as np

from fwflow._numerics import norm
from fwflow._validation import Array
from fwflow.semidefinite.eigenvalues import Least, smallest_eigenvalue
from fwflow.semidefinite.operators import SymmetricOperator
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import DualBound, Factor, LowRankProgram

_EPS = float(np.finfo(np.float64).eps)
# Share of the wanted gap that the error of the smallest eigenvalue may take. Chosen without tuning.
_SHARE = 0.1
# Largest number of directions of negative curvature per certificate. Chosen without tuning.
_DIRECTIONS = 16


class GeneralProgram(LowRankProgram):
    """Semidefinite program with any linear constraints.

    The multipliers y of a point, with ``y_i <= 0`` for inequalities, give the bound ``b^T y + R min(0, l)``, where l is
    a lower bound on the smallest eigenvalue of ``C - sum_i y_i A_i``.
    """

    #: Whether the value of a point belongs to a feasible matrix, which is Y Y^T after a repair.
    repaired: bool = False

    def __init__(self, problem: Problem, *, bounded: bool | None = None) -> None:
        super().__init__(problem, math.inf)
        #: Whether the methods must enforce ``tr X <= R``. It may follow from the constraints, or from optimality.
        self.bounded = not problem.trace_is_implied if bounded is None else bounded
        #: Multipliers that prove that no X satisfies the constraints, if they were found.
        self.proof: Array | None = None
        self._ceiling: float | None = None

    def point(self, Y: Array, y: Array) -> Factor:
        """Return the point with a factor and multipliers."""
        return Factor(Y, value=self.problem.C.inner(Y), y=y)

    def certify(self, point: Factor, goal: float) -> DualBound:
        problem, y, R = self.problem, point.y, self.problem.trace
        least = self.least(problem.slack(y), goal / R if R else math.inf, point.x.shape[1])
        bound = inner_below(problem.b, y) + R * min(0.0, least.bound)
        if self.proof is None and self.infeasibility(point) > self.rtol:
            self.look_for_proof(y, bound)
        return DualBound(bound, y, least.vectors)

    def least(self, S: SymmetricOperator, error: float, count: int = 1) -> Least:
        """Return a bound on the smallest eigenvalue, whose error may take a share of `error`, and directions."""
        count = max(1, min(_DIRECTIONS, count))
        return smallest_eigenvalue(S, _SHARE * error, share=_SHARE, count=count, late=lambda: self.late)

    def look_for_proof(self, y: Array, bound: float) -> None:
        """Keep the multipliers if they prove that the constraints contradict each other.

        They do if the bound exceeds the value of every X with ``tr X <= R``, or if the direction y alone has a positive
        bound with C = 0: multiples of y then give bounds of any size.
        """
        problem, R = self.problem, self.problem.trace
        if bound > self.ceiling:
            self.proof = y
        elif (product := inner_below(problem.b, y)) > 0:
            least = self.least(problem.map.adjoint(-y), product / R if R else math.inf)
            if product + R * min(0.0, least.bound) > 0:
                self.proof = y

    @property
    def ceiling(self) -> float:
        """Upper bound on the value of every positive semidefinite X with ``tr X <= R``."""
        if self._ceiling is None:
            known = self.problem.C.norm_bound()
            self._ceiling = math.inf if known is None else self.problem.trace * known
        return self._ceiling

    def infeasibility(self, point: Factor) -> float:
        Y, problem = self.array(point), self.problem
        violation = float(norm(problem.residual(Y))) / (1 + float(norm(problem.b)))
        return max(violation, float(np.vdot(Y, Y)) / problem.trace - 1 if self.bounded else 0.0)

    @property
    def resolution(self) -> float:
        return 64 * _EPS * self.ceiling if math.isfinite(self.ceiling) else 0.0


def inner_below(b: Array, y: Array) -> float:
    """Return ``b^T y`` rounded down."""
    products = b * y
    return math.fsum(products) - _EPS * math.fsum(np.abs(products))
