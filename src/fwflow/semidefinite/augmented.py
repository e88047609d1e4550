"""Low-rank augmented Lagrangian: L-BFGS steps on the factor Y of X = Y Y^T with exact line searches.

Along a direction D the matrix (Y + t D)(Y + t D)^T is quadratic in t, so the augmented Lagrangian of equations is a
polynomial of degree 4 (Burer & Monteiro, 2003).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.optimize import brentq

from fwflow._numerics import dot, norm
from fwflow._validation import Array
from fwflow.methods.base import Iterate, Proposal, Stepper
from fwflow.methods.problem import Evaluator
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.operators import ConstraintMap, SymmetricOperator
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import DualBound, Factor

# Number of pairs of L-BFGS. Usual value (Nocedal & Wright, 2006).
_PAIRS = 8
# Number of steps of a power iteration that estimates the norm of a matrix. An estimate within a factor of 2 suffices.
_POWER_STEPS = 10
# Largest number of polynomial pieces that a line search with inequalities tries before it brackets the minimum.
_PIECES = 8
# Longest step of a bracket, in units of the direction. Beyond it the function decreases without end.
_LONGEST = 1e12

# Tolerances of the gradient in units of the scaled problem: the first, the factor after an update of the multipliers,
# and the last. Chosen without tuning, as are the next numbers.
_FIRST, _FACTOR, _LAST = 0.1, 0.5, 1e-9
# The residual must fall by this factor between two updates of the multipliers, or the penalty grows by the other one.
_DECREASE, _GROWTH = 0.5, 2.0
# Share of the trace below which a direction is dropped from the factor.
_NEGLIGIBLE = 1e-12
# First rank, unless the number of constraints shows that a lower one suffices (Barvinok, 1995; Pataki, 1998).
_RANK = 10


class ScaledProgram:
    """Semidefinite program in the units of the method: ``tr X <= 1``, and C and the matrices A_i have norms near 1.

    If it is `bounded`, the bound on the trace is the last inequality.
    """

    def __init__(self, problem: Problem, bounded: bool) -> None:
        self.problem, self.map = problem, problem.map
        self.trace = problem.trace or 1.0
        self.cost = norm_estimate(problem.C) or 1.0
        norms = row_norms(problem.map)
        self.row_norms = np.where(norms > 0, norms, 1.0)
        self.bounded = bounded
        self.b, self.signed = problem.b / (self.row_norms * self.trace), problem.inequalities
        if self.bounded:
            self.b, self.signed = np.append(self.b, 1.0), np.append(self.signed, True)
        self.any_signed = bool(self.signed.any())

    def apply_cost(self, Y: Array) -> Array:
        """Return the product C Y."""
        return self.problem.C.apply(Y) / self.cost

    def cross(self, Y: Array, D: Array) -> Array:
        """Return the vector of all ``<A_i, (Y D^T + D Y^T) / 2>``."""
        found = self.map.cross(Y, D) / self.row_norms
        return np.append(found, np.vdot(Y, D)) if self.bounded else found

    def apply_adjoint(self, y: Array, Y: Array) -> Array:
        """Return ``sum_i y_i A_i Y``."""
        own = y[:-1] if self.bounded else y
        product = self.map.adjoint(own / self.row_norms).apply(Y)
        return product + y[-1] * Y if self.bounded else product

    def factor(self, Y: Array) -> Array:
        """Return the factor of the problem."""
        return math.sqrt(self.trace) * Y

    def multipliers(self, y: Array) -> Array:
        """Return the multipliers of the constraints of the problem."""
        return self.cost * (y[:-1] if self.bounded else y) / self.row_norms


def norm_estimate(operator: SymmetricOperator) -> float:
    """Return an estimate of the spectral norm, from below, by power iterations."""
    v = np.random.default_rng(0).standard_normal(operator.n)
    length = 0.0
    for _ in range(_POWER_STEPS):
        size = float(norm(v))
        if size == 0:
            break
        v = operator.apply(v / size)
        length = float(norm(v))
    return length


def row_norms(map: ConstraintMap) -> Array:
    """Return the Frobenius norms of the matrices A_i, estimated from products if they are not sparse."""
    found = map.sparse_rows()
    if found is not None:
        rows, cols, M = found
        halves = np.where(rows == cols, 1.0, 0.5)
        return np.sqrt(np.asarray(dot(M.multiply(M), halves)).reshape(-1))
    # For Gaussian v and w the mean of <A, (v w^T + w v^T) / 2>^2 is the squared Frobenius norm of A.
    rng = np.random.default_rng(0)
    pairs = [map.cross(rng.standard_normal((map.n, 1)), rng.standard_normal((map.n, 1))) for _ in range(_POWER_STEPS)]
    return np.sqrt(np.mean(np.square(pairs), axis=0))


class FactorPlace(NamedTuple):
    """Factor Y with C Y, the residuals ``<A_i, X> - b_i``, the multipliers y - penalty * residual, and the gradient."""

    Y: Array
    CY: Array
    residual: Array
    y: Array
    gradient: Array


@dataclass(frozen=True)
class Lagrangian:
    """Augmented Lagrangian of a scaled program for fixed multipliers y and a penalty.

    An inequality with multiplier y_i <= 0 enters with ``max(0, residual_i - y_i / penalty)``.
    """

    data: ScaledProgram
    y: Array
    penalty: float

    def place(self, Y: Array, CY: Array | None = None, residual: Array | None = None) -> FactorPlace:
        """Return the quantities at Y. Those that the caller knows are not computed again."""
        if CY is None or residual is None:
            CY, residual = self.data.apply_cost(Y), self.data.cross(Y, Y) - self.data.b
        y = self.updated(residual)
        return FactorPlace(Y, CY, residual, y, 2 * (CY - self.data.apply_adjoint(y, Y)))

    def updated(self, residual: Array) -> Array:
        """Return the multipliers of the next update, which belong to the gradient at a factor with that residual."""
        y = self.y - self.penalty * residual
        return np.where(self.data.signed, np.minimum(y, 0), y) if self.data.any_signed else y

    def violation(self, residual: Array) -> Array:
        """Return the residuals, where those of satisfied inequalities are 0 unless their multiplier must change."""
        return np.where(self.data.signed, np.maximum(residual, self.y / self.penalty), residual)

    def step(self, x: FactorPlace, D: Array) -> tuple[FactorPlace, float]:
        """Return the minimiser along a direction of descent, and the step size."""
        CD, first, second = self.data.apply_cost(D), self.data.cross(x.Y, D), self.data.cross(D, D)
        linear = (2 * float(np.vdot(x.CY, D)), float(np.vdot(CD, D)))
        t = self._search(x.residual, 2 * first, second, linear)
        residual = x.residual + t * (2 * first + t * second)
        return self.place(x.Y + t * D, x.CY + t * CD, residual), t

    def _search(self, r0: Array, r1: Array, r2: Array, linear: tuple[float, float]) -> float:
        """Return the step size that minimises the augmented Lagrangian, whose residuals are r0 + r1 t + r2 t^2."""
        if not self.data.any_signed:
            return _least(_quartic(r0, r1, r2, self.y, self.penalty, linear))

        def slope(t: float) -> float:
            multipliers = self.updated(r0 + t * (r1 + t * r2))
            return linear[0] + 2 * t * linear[1] - float(np.vdot(multipliers, r1 + 2 * t * r2))

        # The function is a polynomial between the step sizes at which inequalities become active or inactive.
        t = self._piece(r0, r1, r2, linear, 0.0)
        for _ in range(_PIECES):
            before, t = t, self._piece(r0, r1, r2, linear, t)
            if t > 0 and abs(t - before) <= 1e-9 * t:
                return t
        if not slope(0.0) < 0:
            return t if self._along(r0, r1, r2, linear, t) < self._along(r0, r1, r2, linear, 0.0) else 0.0
        end = 1.0
        while slope(end) < 0 and end < _LONGEST:
            end *= 2
        return float(brentq(slope, 0.0, end, rtol=1e-9)) if slope(end) > 0 else end

    def _piece(self, r0: Array, r1: Array, r2: Array, linear: tuple[float, float], t: float) -> float:
        """Return the minimiser of the polynomial that agrees with the function near t."""
        now = r0 + t * (r1 + t * r2)
        on = ~self.data.signed | (now * self.penalty > self.y)
        return _least(_quartic(r0[on], r1[on], r2[on], self.y[on], self.penalty, linear))

    def _along(self, r0: Array, r1: Array, r2: Array, linear: tuple[float, float], t: float) -> float:
        y = self.updated(r0 + t * (r1 + t * r2))
        return t * (linear[0] + t * linear[1]) + float(np.vdot(y, y)) / (2 * self.penalty)


def _quartic(r0: Array, r1: Array, r2: Array, y: Array, penalty: float, linear: tuple[float, float]) -> Array:
    """Return the coefficients from t to t^4 of ``linear - y^T r(t) + penalty / 2 |r(t)|^2``."""
    shifted = r0 - y / penalty
    return np.array(
        [
            linear[0] + penalty * float(np.vdot(shifted, r1)),
            linear[1] + penalty * (float(np.vdot(shifted, r2)) + float(np.vdot(r1, r1)) / 2),
            penalty * float(np.vdot(r1, r2)),
            penalty / 2 * float(np.vdot(r2, r2)),
        ]
    )


def _least(coefficients: Array) -> float:
    """Return the t > 0 that minimises ``c_1 t + ... + c_4 t^4``; 0 if no t > 0 has a negative value."""
    slopes = coefficients * np.arange(1, 5)
    roots = np.roots(slopes[::-1]) if np.isfinite(slopes).all() and slopes.any() else np.zeros(0)
    real = roots.real[(np.abs(roots.imag) <= 1e-8 * np.abs(roots)) & (roots.real > 0)]
    values = np.polyval(np.append(coefficients[::-1], 0.0), real)
    return float(real[values.argmin()]) if len(real) and values.min() < 0 else 0.0


class SecantPairs(NamedTuple):
    """Pairs of L-BFGS: steps and changes of the gradient."""

    steps: tuple[Array, ...] = ()
    changes: tuple[Array, ...] = ()

    def direction(self, gradient: Array) -> Array:
        """Return minus the product of the inverse Hessian's approximation with the gradient (two-loop recursion)."""
        d, weights = -gradient, []
        pairs = list(zip(self.steps, self.changes, strict=True))
        for s, g in reversed(pairs):
            curvature = float(np.vdot(s, g))
            weight = float(np.vdot(s, d)) / curvature
            d = d - weight * g
            weights.append((weight, curvature))
        if pairs:
            s, g = pairs[-1]
            d = d * (weights[0][1] / float(np.vdot(g, g)))
        for (s, g), (weight, curvature) in zip(pairs, reversed(weights), strict=True):
            d = d + (weight - float(np.vdot(g, d)) / curvature) * s
        return d

    def extended(self, step: Array, change: Array) -> SecantPairs:
        """Return the history with one more pair, if the curvature along it is positive."""
        if not np.vdot(step, change) > 1e-12 * norm(step) * norm(change):
            return self
        return SecantPairs((*self.steps, step)[-_PAIRS:], (*self.changes, change)[-_PAIRS:])


def descend(f: Lagrangian, x: FactorPlace, tolerance: float, most: int, task: Evaluator) -> tuple[FactorPlace, int]:
    """Return the place after at most `most` steps of L-BFGS, or when the gradient is below the tolerance.

    It also returns the number of steps, which end earlier if the time limit of the run has passed.
    """
    history, k = SecantPairs(), 0
    while k < most and float(norm(x.gradient)) > tolerance and not task.late:
        D = history.direction(x.gradient)
        if not float(np.vdot(D, x.gradient)) < 0:
            history, D = SecantPairs(), -x.gradient
        new, t = f.step(x, D)
        k += 1
        if t == 0:
            if not history.steps:
                break
            history = SecantPairs()
            continue
        history = history.extended(new.Y - x.Y, new.gradient - x.gradient)
        x = new
    return x, k


def compressed(Y: Array, tolerance: float) -> Array:
    """Return a factor of Y Y^T without directions whose share of the trace is below the tolerance."""
    if not Y.size:
        return Y
    U, s, _ = np.linalg.svd(Y, full_matrices=False)
    keep = s**2 > tolerance * max(float(s[0]) ** 2, np.finfo(float).tiny)
    return U[:, keep] * s[keep]


class LowRankMemory(NamedTuple):
    """Memory of `LowRankLagrangian`, in scaled units.

    It has the factor, multipliers, penalty, tolerance of the gradient, residual at the last update of the multipliers,
    and whether the last step ended within the tolerance.
    """

    Y: Array
    y: Array
    penalty: float
    tolerance: float
    residual: float
    settled: bool


@dataclass(frozen=True)
class LowRankLagrangian(Stepper):
    """Augmented Lagrangian on the factor Y with L-BFGS, exact line searches and a rank that grows.

    A step minimises the augmented Lagrangian approximately. If the certificate has found directions of negative
    curvature there, they become new columns of Y.
    """

    data: ScaledProgram = field(repr=False)
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

    def step(self, problem: GeneralProgram, iterate: Iterate, memory: LowRankMemory) -> Proposal:
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

    def _widened(self, f: Lagrangian, x: FactorPlace, certificate: DualBound) -> FactorPlace:
        """Return the place with new columns along the directions of negative curvature."""
        if certificate.vectors is None:
            return x
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
