"""Programs with any linear constraints: points, certificates, and the three methods that solve them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from fwflow._numerics import dot, norm
from fwflow._validation import Array, InputError, suggest
from fwflow.methods.base import Iterate, Proposal, Stepper
from fwflow.run.result import State, Status
from fwflow.semidefinite.augmented import Lagrangian, Place, Scaled, compressed, descend
from fwflow.semidefinite.boundary import Dense
from fwflow.semidefinite.boundary import State as Alternating
from fwflow.semidefinite.eigenvalues import Least, smallest_eigenvalue
from fwflow.semidefinite.operators import SymmetricOperator
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import DualBound, Factor, LowRankProgram, SemidefiniteResult, execute

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


@dataclass(frozen=True)
class BoundaryPoint(Stepper):
    """Boundary point method (Povh, Rendl & Wiegele, 2006), for matrices of moderate order.

    A step consists of several iterations, each with an eigenvalue decomposition.
    """

    data: Dense = field(repr=False)
    #: Whether the program repairs all points, so that they are feasible.
    repaired: bool = False
    #: Number of iterations per step: a certificate costs as much as one.
    iterations: int = 10

    @property
    def comparable(self) -> bool:
        return self.repaired

    def start(self, program: GeneralProgram) -> tuple[Factor, Alternating]:
        """Return the first point and the memory."""
        state = self.data.advance(self.data.start())
        return program.point(self.data.factor(state), self.data.multipliers(state)), state

    def step(self, problem: Any, iterate: Iterate, memory: Alternating) -> Proposal:
        if problem.proof is not None:
            return Proposal(iterate.point, math.nan, memory, finished=True)
        for _ in problem.in_time(range(self.iterations)):
            memory = self.data.advance(memory)
        point = problem.point(self.data.factor(memory), self.data.multipliers(memory))
        return Proposal(point, memory.penalty, memory)


class LowRankMemory(NamedTuple):
    """Memory of `LowRank`, in scaled units.

    It has the factor, multipliers, penalty, tolerance of the gradient, residual at the last update of the multipliers,
    and whether the last step ended within the tolerance.
    """

    Y: Array
    y: Array
    penalty: float
    tolerance: float
    residual: float
    settled: bool


# Tolerances of the gradient in units of the scaled problem: the first, the factor after an update of the multipliers,
# and the last. Chosen without tuning, as are the next numbers.
_FIRST, _FACTOR, _LAST = 0.1, 0.5, 1e-9
# The residual must fall by this factor between two updates of the multipliers, or the penalty grows by the other one.
_DECREASE, _GROWTH = 0.5, 2.0
# Share of the trace below which a direction is dropped from the factor.
_NEGLIGIBLE = 1e-12
# First rank, unless the number of constraints shows that a lower one suffices (Barvinok, 1995; Pataki, 1998).
_RANK = 10


@dataclass(frozen=True)
class LowRank(Stepper):
    """Augmented Lagrangian on the factor Y with L-BFGS, exact line searches and a rank that grows.

    A step minimises the augmented Lagrangian approximately. If the certificate has found directions of negative
    curvature there, they become new columns of Y.
    """

    data: Scaled = field(repr=False)
    repaired: bool = False
    #: Largest number of L-BFGS steps in a step of the method.
    iterations: int = 60

    @property
    def comparable(self) -> bool:
        return self.repaired

    def start(self, program: GeneralProgram, rank: int | None = None, seed: int = 0) -> tuple[Factor, LowRankMemory]:
        """Return the first point, with random columns of the right size, and the memory."""
        data, n = self.data, self.data.problem.n
        enough = math.isqrt(2 * len(data.b)) + 1
        Y = np.random.default_rng(seed).standard_normal((n, min(n, enough, _RANK) if rank is None else min(n, rank)))
        Y /= float(norm(Y))
        image, own = data.cross(Y, Y), data.b[: len(data.problem.b)]
        fit = float(np.vdot(image, data.b)) / (float(np.vdot(image, image)) or 1.0)
        Y *= math.sqrt(min(max(fit, 0.01), 1.0))
        size = float(np.vdot(own, own))
        penalty = 1 / size if size > 0 else 1.0
        memory = LowRankMemory(Y, np.zeros(len(data.b)), penalty, _FIRST, math.inf, False)
        return self._point(program, Y, np.zeros(len(data.b))), memory

    def _point(self, program: GeneralProgram, Y: Array, y: Array) -> Factor:
        return program.point(self.data.factor(Y), self.data.multipliers(y))

    def step(self, problem: Any, iterate: Iterate, memory: LowRankMemory) -> Proposal:
        if problem.proof is not None:
            return Proposal(iterate.point, math.nan, memory, finished=True)
        data, (Y, y, penalty, tolerance, before, settled) = self.data, memory
        f = Lagrangian(data, y, penalty)
        x = f.place(Y)
        if settled and iterate.known is not None:
            x = self._widened(f, x, iterate.known.vertex)
        x, steps = descend(f, x, tolerance, self.iterations, problem)
        settled = float(norm(x.gradient)) <= tolerance or steps < self.iterations
        if settled:
            residual = float(norm(f.violation(x.residual)))
            penalty *= _GROWTH if residual > _DECREASE * before else 1.0
            y, before, tolerance = x.y, residual, max(_LAST, _FACTOR * tolerance)
        memory = LowRankMemory(x.Y, y, penalty, tolerance, before, settled)
        return Proposal(self._point(problem, x.Y, x.y), penalty, memory)

    def _widened(self, f: Lagrangian, x: Place, certificate: DualBound) -> Place:
        """Return the place with new columns along the directions of negative curvature."""
        Y = compressed(x.Y, _NEGLIGIBLE)
        V = np.asarray(certificate.vectors)[:, : max(0, len(Y) - Y.shape[1])]
        if not V.shape[1]:
            return x
        slack = f.data.apply_cost(V) - f.data.apply_adjoint(x.y, V)
        values, W = scipy.linalg.eigh(np.asarray(dot(V.T, slack)))
        V = np.asarray(dot(V, W[:, values < 0])) * np.sqrt(-values[values < 0])
        if not V.shape[1]:
            return x
        nothing = np.zeros_like(V)
        wide = f.place(np.concatenate([Y, nothing], axis=1))
        return f.step(wide, np.concatenate([np.zeros_like(Y), V], axis=1))[0]


class PlainMemory(NamedTuple):
    """Memory of `ConditionalGradient`, in scaled units: factor, multipliers without the penalty's share, and count."""

    Y: Array
    y: Array


@dataclass(frozen=True)
class ConditionalGradient(Stepper):
    r"""Conditional gradient with augmented Lagrangian (CGAL; Yurtsever, Fercoq & Cevher, 2019).

    Step k moves X by :math:`2 / (k + 2)` towards :math:`R v v^T`, where v is the eigenvector of the smallest eigenvalue
    of the gradient, with the penalty :math:`\sqrt{k + 2}`. It is the reference for the other methods, which are faster.
    """

    data: Scaled = field(repr=False)
    repaired: bool = False

    @property
    def comparable(self) -> bool:
        return self.repaired

    def start(self, program: GeneralProgram) -> tuple[Factor, PlainMemory]:
        """Return X = 0 and the memory."""
        memory = PlainMemory(np.zeros((self.data.problem.n, 1)), np.zeros(len(self.data.b)))
        return self._point(program, memory, 0), memory

    def _point(self, program: GeneralProgram, memory: PlainMemory, k: int) -> Factor:
        data = self.data
        f = Lagrangian(data, memory.y, math.sqrt(k + 2))
        y = f.updated(data.cross(memory.Y, memory.Y) - data.b)
        return program.point(data.factor(memory.Y), data.multipliers(y))

    def step(self, problem: Any, iterate: Iterate, memory: PlainMemory) -> Proposal:
        if problem.proof is not None or iterate.known is None:
            return Proposal(iterate.point, math.nan, memory, finished=True)
        data, k, (Y, y) = self.data, iterate.k, memory
        f = Lagrangian(data, y, math.sqrt(k + 2))
        v, gamma = np.asarray(iterate.known.vertex.vectors)[:, :1], 2 / (k + 2)
        y_now = f.updated(data.cross(Y, Y) - data.b)
        toward = float(np.vdot(v, data.apply_cost(v) - data.apply_adjoint(y_now, v))) < 0
        Y = math.sqrt(1 - gamma) * Y
        if toward:
            Y = np.concatenate([Y, math.sqrt(gamma) * v], axis=1)
        if Y.shape[1] > 2 * min(len(Y), 50):
            Y = compressed(Y, _EPS)
        # The length of the dual step keeps the multipliers bounded (algorithm 1 of the paper, with |A| = 1).
        f = replace(f, penalty=math.sqrt(k + 3))
        violation = f.violation(data.cross(Y, Y) - data.b)
        size = float(np.vdot(violation, violation))
        length = min(1.0, 4 * f.penalty * gamma**2 / size) if size > 0 else 0.0
        y = y - length * violation
        y = np.where(data.signed, np.minimum(y, 0), y)
        memory = PlainMemory(Y, y)
        return Proposal(self._point(problem, memory, k + 1), gamma, memory)


# Largest order for the boundary point method, where an eigenvalue decomposition takes 0.1 s on one core, and smallest
# number of constraints per row. Theta with 20 edges per node takes half of the time of the low-rank method at order 200
# to 400, with 15 the same, and with 2 ten times as much.
_MODERATE, _MANY = 1000, 12
# Methods for programs with any linear constraints.
METHODS = ("auto", "boundary-point", "low-rank", "conditional-gradient")


def solve_general(
    program: GeneralProgram,
    *,
    method: str = "auto",
    rtol: float,
    ftol: float | None = None,
    max_iter: int,
    max_time: float | None,
    rank: int | None = None,
    seed: int = 0,
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    """Solve a program by one of the methods of this module.

    `ftol` is the largest infeasibility of a solution; by default it is `rtol`. It is ignored if the program repairs its
    points.
    """
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; {suggest(method, METHODS)}")
    problem, repaired = program.problem, program.repaired
    ftol = math.inf if repaired else rtol if ftol is None else ftol
    many = problem.n <= _MODERATE and problem.map.m >= _MANY * problem.n and problem.trace > 0
    dense = Dense.of(problem, program.bounded) if method == "boundary-point" or (method == "auto" and many) else None
    if method == "boundary-point" and dense is None:
        raise InputError("method='boundary-point' needs the entries of all constraint matrices; use method='low-rank'")
    rule: BoundaryPoint | LowRank | ConditionalGradient
    if dense is not None:
        rule = BoundaryPoint(dense, repaired)
        start, memory = rule.start(program)
    elif method == "conditional-gradient" or problem.trace == 0:  # only X = 0 is possible, the start of this method
        rule = ConditionalGradient(Scaled(problem, program.bounded), repaired)
        start, memory = rule.start(program)
    else:
        rule = LowRank(Scaled(problem, program.bounded), repaired)
        start, memory = rule.start(program, rank, seed)
    limits = {"rtol": rtol, "ftol": ftol, "max_iter": max_iter, "max_time": max_time}
    result = execute(program, rule, start, memory, **limits, callback=callback, progress=progress)  # type: ignore[arg-type]
    if program.proof is not None:
        status = Status.INFEASIBLE
        return replace(result, bound=math.inf, gap=math.inf, y=program.proof, status=status, message=status.value)
    if not result.success and result.infeasibility > ftol:
        doubt = f" The constraints are violated by {result.infeasibility:.1e}, and it is not known whether they can be satisfied."
        return replace(result, message=result.message + doubt)
    return result
