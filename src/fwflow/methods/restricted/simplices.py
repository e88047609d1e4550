"""Minimum of a quadratic over a product of simplices, by a method that changes many bounds in one step.

In every block the largest weight is eliminated: it is one minus the sum of the others. Projected Newton steps on the
free weights find the zero weights in a few rounds (Bertsekas, 1982), unless curvature is missing in many directions.
Then an interior-point method finds the face, in a nearly constant number of steps (Mehrotra, 1992).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.methods.problem import Late, never
from fwflow.objectives.quadratic_models import gram

# All values below were chosen without tuning.
# Curvature of directions without curvature, relative to the largest one. The step along them ends at a bound.
_RIDGE = 1e-12
# Largest entry of a Newton step. The simplices have width one, so longer steps end at the same bounds.
_LONGEST = 4.0
# Fractions of the Newton step that are tried.
_SHARES = (1.0, 0.25, 2.0**-4, 2.0**-6, 2.0**-9, 2.0**-14)
# Number of projected steps before an interior-point phase, and the ratio of its final to its initial gap. Both phases
# alternate for at most this number of rounds.
_PATIENCE, _INTERIOR, _ROUNDS = 8, 1e-11, 10
# With more weights than the first number, conjugate gradients replace the Cholesky factor: at most this many steps,
# until the slopes are this fraction of the first. Up to the last number of weights, the factor is used if they fail.
_MANY, _GRADIENTS, _SLOPES, _LARGE = 500, 60, 0.1, 3000
# If the gap is below this many times its rounding error and a step does not halve it, the rest is rounding.
_ROUNDED = 1e3
# Fractions of nonzero entries below which sparse storage is faster: for products of two matrices, and of a matrix and a
# vector.
_SPARSE, _SPARSE_MANY = 0.05, 0.3
_EPS = float(np.finfo(float).eps)


def block_gap(slopes: Array, values: Array, starts: Array) -> float:
    """Return the largest decrease of the linear function with these slopes over all blocks: the duality gap."""
    return float(dot(slopes, values) - np.minimum.reduceat(slopes, starts).sum())


def first_in_block(chosen: Array, starts: Array) -> Array:
    """Return the first chosen index of every block; each block has one."""
    places = np.flatnonzero(chosen)
    return places[np.searchsorted(places, starts)]


def best_and_worst(slopes: Array, values: Array, starts: Array) -> tuple[Array, Array]:
    """Return the indices of the lowest slope of every block, and of the highest one with a positive weight."""
    owner = owners(starts, len(values))
    used = np.where(values > 0, slopes, -np.inf)
    best = first_in_block(slopes == np.minimum.reduceat(slopes, starts)[owner], starts)
    return best, first_in_block(used == np.maximum.reduceat(used, starts)[owner], starts)


def pairwise_step(slopes: Array, values: Array, starts: Array) -> Array:
    """Return the step that moves all weight of the worst index in use to the best one, in every block."""
    best, worst = best_and_worst(slopes, values, starts)
    step = np.zeros_like(values)
    step[best] += values[worst]
    step[worst] -= values[worst]
    return step


def owners(starts: Array, count: int) -> Array:
    """Return the block of every index."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=count))


def differences(stack: tuple[Any, Any], values: Array, starts: Array) -> tuple[tuple[Any, Any], tuple[Array, Array]]:
    """Subtract from the rows of both sides the heaviest row of their block; return also the sums of the latter.

    For weights that sum to one in every block, the weighted sum of the rows plus these sums does not change.
    """
    left, right = stack
    owner = owners(starts, len(values))
    heaviest = first_in_block(values == np.maximum.reduceat(values, starts)[owner], starts)
    less, base = _less(left, heaviest, owner)
    other, other_base = (less, base) if right is left else _less(right, heaviest, owner)
    return (less, other), (base, other_base)


def _less(rows: Any, heaviest: Array, owner: Array) -> tuple[Any, Array]:
    """Return rows minus the heaviest row of their block, as a CSR matrix if sparse, and the sum of the latter."""
    base = np.asarray(rows[heaviest].sum(axis=0)).reshape(-1)
    less = sp.csr_array(rows - rows[heaviest[owner]])
    less.eliminate_zeros()
    sparse = less.nnz <= (_SPARSE if len(owner) <= _MANY else _SPARSE_MANY) * math.prod(less.shape)
    return (less if sparse else less.toarray()), base


@dataclass(frozen=True, eq=False)
class Factored:
    """Hessian of a model in the values of generators: ``left @ diag(second) @ right.T``."""

    left: Any
    second: Any
    right: Any

    def __matmul__(self, values: Array) -> Array:
        return dot(self.left, self.second * dot(values, self.right))

    def matrix(self) -> Array:
        """Return the Hessian as an array."""
        if self.right is not self.left or np.min(self.second) < 0:
            return gram(self.left * self.second, self.right)
        root = self.left * np.sqrt(self.second)  # a product with its own transpose takes half the time
        return gram(root, root)

    def diagonal(self) -> Array:
        return np.asarray(dot(self.left * self.right, np.broadcast_to(self.second, self.left.shape[1])))


def minimise_on_simplices(
    K: Array | Factored, slopes: Array, values: Array, starts: Array, tol: float = 0.0, late: Late = never
) -> Array:
    r"""Return weights w that minimise :math:`\langle g, d\rangle + d^T K d / 2`, d = w - v, with sum one per block.

    K is symmetric. If it is not positive semidefinite, the function decreases, but the result may not be a minimum.
    `slopes` is the gradient g at the weights `values`, and `starts` has the first index of every block. The search ends
    when the gap over all blocks is at most `tol` or a rounding error, or when `late` returns True.
    """
    program = _Program(K, slopes, values, starts, late)
    if len(values) > _MANY and (any(program.projected(tol) for _ in range(_ROUNDS)) or len(values) > _LARGE):
        return program.w
    if late():
        return program.w
    dense = _Dense(K.copy() if isinstance(K, np.ndarray) else K.matrix(), program.g, program.w, starts, late)
    for _ in range(_ROUNDS):
        if dense.projected(tol):
            break
        dense.interior(tol)
    return dense.w


class _Program:
    """Current weights w, and the gradient g there up to a constant per block."""

    def __init__(self, K: Any, g: Array, w: Array, starts: Array, late: Late) -> None:
        self.late = late
        self.K, self.g, self.w, self.starts, self.owner = K, g, w, starts, owners(starts, len(w))
        self.kept = np.full(len(starts), -1)
        #: Bound on the rounding error of the gap.
        self.noise = 8 * _EPS * float(dot(np.abs(g), w) + np.abs(np.minimum.reduceat(g, starts)).sum())

    def projected(self, tol: float) -> bool:
        """Make some projected Newton steps; return whether the search has ended, also because of the time limit."""
        before, last = np.inf, self.w
        for _ in range(_PATIENCE):
            gap = block_gap(self.g, self.w, self.starts)
            if min(gap, before) <= _ROUNDED * self.noise and gap > before / 2:
                self.w = self.w if gap < before else last
                return True
            if gap <= max(tol, self.noise) or self.late():
                return True
            before, last = gap, self.w
            self.keep_heaviest()
            if not (self.move(self._newton_step()) or self.move(pairwise_step(self.g, self.w, self.starts))):
                return True
        return False

    def move(self, step: Array) -> bool:
        """Take the best fraction of a step; return whether the weights have changed."""
        length, gain = _along(self.K, self.g, step)
        moved = np.maximum(self.w + length * step, 0.0)
        moved[moved <= 4 * _EPS] = 0.0
        moved /= np.add.reduceat(moved, self.starts)[self.owner]
        if gain <= 0 or np.array_equal(moved, self.w):
            return False
        self.g, self.w = self.g + dot(self.K, moved - self.w), moved
        return True

    def keep_heaviest(self) -> Array:
        """Eliminate the largest weight of every block; return the blocks where that is another one than before."""
        w, kept = self.w, self.kept
        heaviest = first_in_block(w == np.maximum.reduceat(w, self.starts)[self.owner], self.starts)
        if kept[0] >= 0:  # a weight that is only slightly larger is no better
            heaviest = np.where(w[heaviest] > 2 * w[kept], heaviest, kept)
        self.kept, self.g = heaviest, self.g - self.g[heaviest][self.owner]
        return heaviest != kept

    def _newton_step(self) -> Array:
        """Return the best of several feasible steps along the projected Newton direction."""
        g, w, kept = self.g, self.w, self.kept
        wanted = (w > 0) | (g < 0)
        wanted[kept] = False
        free = np.flatnonzero(wanted)
        direction = np.zeros_like(w)
        direction[free] = -self.solved(free)
        best, most = np.zeros_like(w), 0.0
        for share in _SHARES:
            target = np.maximum(w + share * direction, 0.0)
            target[kept] = 0.0
            total = np.add.reduceat(target, self.starts)
            target /= np.maximum(total, 1.0)[self.owner]
            target[kept] = np.maximum(1.0 - total, 0.0)
            length, gain = _along(self.K, g, target - w)
            if gain > most:
                best, most = target - w, gain
                if length > 0.1:
                    break
        return best

    def solved(self, free: Array) -> Array:
        """Return the negative Newton step of the free weights, by conjugate gradients that stop at long steps."""
        owner, kept, diagonal = self.owner, self.kept, self.K.diagonal()
        scale = np.abs(diagonal + diagonal[kept][owner])[free]
        scale = np.maximum(scale, _RIDGE * (float(scale.max(initial=0.0)) or float(np.abs(self.g).max()) or 1.0))

        def product(p: Array) -> Array:
            full = np.zeros(len(owner))
            full[free] = p
            full[kept] = -np.add.reduceat(full, self.starts)
            y = dot(self.K, full)
            return (y - y[kept][owner])[free]

        x, r = np.zeros(len(free)), self.g[free]
        p = z = r / scale
        size = first = float(dot(r, z))
        for _ in range(_GRADIENTS if first > 0 else 0):
            if self.late():
                break
            Kp = product(p)
            curvature = float(dot(p, Kp))
            longest = _LONGEST / max(float(np.abs(p).max()), 1e-300)
            length = size / curvature if curvature * longest > size else longest
            x = x + length * p
            r = r - length * Kp
            z = r / scale
            size, before = float(dot(r, z)), size
            if size <= _SLOPES**2 * first or length == longest or float(np.abs(x).max()) > _LONGEST:
                break
            p = z + (size / before) * p
        return x


class _Dense(_Program):
    """Program that is small enough for a Cholesky factor of K, with the kept weights eliminated from K."""

    ridge = 0.0  # of the last factor

    def keep_heaviest(self) -> Array:
        """Subtract the rows and columns of the kept weights, which is possible because the weights have sum one."""
        changed = super().keep_heaviest()
        places = np.flatnonzero(changed[self.owner])
        if len(places):
            to = self.kept[self.owner[places]]
            self.K[places] -= self.K[to]
            self.K[:, places] -= self.K[:, to]
        return changed

    def solved(self, free: Array) -> Array:
        """Return the negative Newton step, with the smallest tried ridge that limits its length."""
        K, g = self.K[np.ix_(free, free)], self.g[free]
        least = _RIDGE * (float(np.abs(K.diagonal()).max(initial=0.0)) or float(np.abs(g).max(initial=0.0)) or 1.0)
        ridge = max(least, self.ridge / 100)
        while True:
            factor, self.ridge = _factor(K, ridge)
            x = scipy.linalg.cho_solve((factor, False), g, check_finite=False)
            if float(np.abs(x).max(initial=0.0)) <= _LONGEST or self.late():
                return x
            ridge = 100 * self.ridge

    def interior(self, tol: float) -> None:
        """Make primal-dual interior-point steps, then move to the face that they indicate if the function decreases."""
        self.keep_heaviest()
        K, owner, starts, kept = self.K, self.owner, self.starts, self.kept
        free = np.delete(np.arange(len(owner)), kept)
        block = owner[free]
        same = block[:, None] == block
        sizes = np.diff(starts, append=len(owner))
        w = 0.9 * self.w + 0.1 / sizes[owner]
        g = self.g + dot(K, w - self.w)
        first = block_gap(g, w, starts)
        lowest = np.minimum.reduceat(g, starts)
        z = g - (lowest - first / len(w) - np.abs(lowest) * _EPS)[owner]
        for _ in range(60):
            pairs = w * z
            mean = float(pairs.mean())
            if mean * len(w) <= max(0.1 * tol, _INTERIOR * first) or self.late():
                break
            ratio = z / w
            matrix = K[np.ix_(free, free)] + np.where(same, ratio[kept][block][:, None], 0.0)
            matrix.flat[:: len(free) + 1] += ratio[free]
            factor, _ = _factor(matrix, _RIDGE * float(np.abs(K.diagonal()).max()))

            def towards(pull: Array, factor: Array = factor, ratio: Array = ratio, w: Array = w) -> tuple[Array, Array]:
                rhs = pull / w
                dw = np.zeros_like(w)
                dw[free] = scipy.linalg.cho_solve((factor, False), rhs[free] - rhs[kept][block], check_finite=False)
                dw[kept] = -np.add.reduceat(dw, starts)
                return dw, rhs - ratio * dw

            dw, dz = towards(-pairs)
            reach = _reach(w, z, dw, dz)
            centred = mean * (float(dot(w + reach * dw, z + reach * dz)) / (mean * len(w))) ** 3
            dw, dz = towards(centred - pairs - dw * dz)
            length = 0.995 * _reach(w, z, dw, dz)
            w, z = w + length * dw, z + length * dz
            if length < 1e-8:
                break
        self.move(np.where(w > z * (1e-6 * float(w.max()) / max(float(z.max()), 1e-300)), w, 0.0) - self.w)


def _along(K: Any, g: Array, step: Array) -> tuple[float, float]:
    """Return the best fraction of a step, at most one, and the decrease of the function."""
    slope, curvature = float(dot(g, step)), float(dot(step, dot(K, step)))
    if not slope < 0:  # also for NaN
        return 0.0, 0.0
    length = 1.0 if curvature <= -slope else -slope / curvature
    return length, -length * (slope + 0.5 * length * curvature)


def _reach(w: Array, z: Array, dw: Array, dz: Array) -> float:
    """Return the largest step length, at most one, that keeps w and z positive."""
    fall = max(float((-dw / w).max()), float((-dz / z).max()))
    return 1.0 / max(fall, 1.0)


def _factor(K: Array, ridge: float) -> tuple[Array, float]:
    """Return the Cholesky factor of K plus a ridge that is large enough for it to exist, and the ridge."""
    while True:
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += ridge
        try:
            return scipy.linalg.cholesky(shifted, overwrite_a=True, check_finite=False), ridge
        except np.linalg.LinAlgError:
            ridge *= 100
