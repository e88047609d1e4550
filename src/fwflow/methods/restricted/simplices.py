"""Where is a quadratic smallest over a product of simplices? Many bounds change at a time: many blocks are cheap.

In every block the heaviest weight is left to the others: they move between zero and one, and it takes what they leave.
Newton's method on the weights that are positive or want to be, each step projected, finds those that vanish in a few
rounds (Bertsekas, 1982). Where curvature is missing in many directions it may not; then an interior-point method finds
the face, in a number of steps that hardly depends on the problem (Mehrotra, 1992).
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
from fwflow.methods.clock import Late, never
from fwflow.objectives.quadratic_models import gram

# Directions without curvature get this share of the largest one: the step along them ends at a bound.
_RIDGE = 1e-12
# A Newton step that is longer than the simplices are wide says no more than one of this length.
_LONGEST = 4.0
# So much of it is tried.
_SHARES = (1.0, 0.25, 2.0**-4, 2.0**-6, 2.0**-9, 2.0**-14)
# After so many projected steps in a row it is the interior point's turn; it ends with this share of its first gap.
_PATIENCE, _INTERIOR = 8, 1e-11
# Of more weights than these a factor takes long: some conjugate gradients, this many at most and until the slopes are
# this share of what they were, give a Newton step as good; where they do not lead to the end, a factor does, if the
# weights are no more than the last number.
_MANY, _GRADIENTS, _SLOPES, _LARGE = 500, 60, 0.1, 3000
# Below so many times the least gap that rounding can make, a step that does not halve it met one that it has made.
_DROWNED = 1e3
# The product of two matrices with this share of entries, or fewer, is faster if they are sparse; that of a matrix and a
# vector with this one.
_SPARSE, _SPARSE_MANY = 0.05, 0.3
_EPS = float(np.finfo(float).eps)


def block_gap(slopes: Array, values: Array, starts: Array) -> float:
    """By how much a linear function with these slopes could fall, all blocks together."""
    return float(dot(slopes, values) - np.minimum.reduceat(slopes, starts).sum())


def first_in_block(chosen: Array, starts: Array) -> Array:
    """The first place of every block that is chosen; each has one."""
    places = np.flatnonzero(chosen)
    return places[np.searchsorted(places, starts)]


def best_and_worst(slopes: Array, values: Array, starts: Array) -> tuple[Array, Array]:
    """The places of every block with the lowest slope, and with the highest of those in use."""
    owner = owners(starts, len(values))
    used = np.where(values > 0, slopes, -np.inf)
    best = first_in_block(slopes == np.minimum.reduceat(slopes, starts)[owner], starts)
    return best, first_in_block(used == np.maximum.reduceat(used, starts)[owner], starts)


def pairwise_step(slopes: Array, values: Array, starts: Array) -> Array:
    """In every block all weight of the worst place in use goes to the best."""
    best, worst = best_and_worst(slopes, values, starts)
    step = np.zeros_like(values)
    step[best] += values[worst]
    step[worst] -= values[worst]
    return step


def owners(starts: Array, count: int) -> Array:
    """The block of every place."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=count))


def differences(stack: tuple[Any, Any], values: Array, starts: Array) -> tuple[tuple[Any, Any], tuple[Array, Array]]:
    """Rows of both sides less the heaviest row of their block, and the sums of those rows.

    Values that sum to one in every block give the same sum of rows either way.
    """
    left, right = stack
    owner = owners(starts, len(values))
    heaviest = first_in_block(values == np.maximum.reduceat(values, starts)[owner], starts)
    less, base = _less(left, heaviest, owner)
    other, other_base = (less, base) if right is left else _less(right, heaviest, owner)
    return (less, other), (base, other_base)


def _less(rows: Any, heaviest: Array, owner: Array) -> tuple[Any, Array]:
    """Rows less the heaviest of their block, as a CSR matrix where that is smaller, and the sum of those."""
    base = np.asarray(rows[heaviest].sum(axis=0)).reshape(-1)
    less = sp.csr_array(rows - rows[heaviest[owner]])
    less.eliminate_zeros()
    sparse = less.nnz <= (_SPARSE if len(owner) <= _MANY else _SPARSE_MANY) * math.prod(less.shape)
    return (less if sparse else less.toarray()), base


@dataclass(frozen=True, eq=False)
class Factored:
    """The Hessian of a model in the values of generators, by their sides: ``left @ diag(second) @ right.T``."""

    left: Any
    second: Any
    right: Any

    def __matmul__(self, values: Array) -> Array:
        return dot(self.left, self.second * dot(values, self.right))

    def matrix(self) -> Array:
        """It, whole."""
        if self.right is not self.left or np.min(self.second) < 0:
            return gram(self.left * self.second, self.right)
        root = self.left * np.sqrt(self.second)  # its own product takes half as long
        return gram(root, root)

    def diagonal(self) -> Array:
        return np.asarray(dot(self.left * self.right, np.broadcast_to(self.second, self.left.shape[1])))


def minimise_on_simplices(
    K: Array | Factored,
    slopes: Array,
    values: Array,
    starts: Array,
    tol: float = 0.0,
    most: int = 10,
    late: Late = never,
) -> Array:
    r"""Weights w, in blocks that sum to one, that minimise :math:`\langle g, d\rangle + d^T K d / 2` for d = w - v.

    Parameters
    ----------
    K : (k, k) array, or Factored
        Symmetric. Where it is not positive semi-definite the function still falls, and what is found may not be a
        minimum.
    slopes, values : (k,) array
        The gradient g at the weights v, from which the search starts.
    starts : (B,) array of int
        Where the blocks begin.
    tol : float
        The gap of the blocks together at which to stop; rounding stops it too.
    most : int
        Most rounds, of some Newton steps each.
    late : callable
        Whether to stop early, with the weights reached by then.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow.methods.restricted.simplices import minimise_on_simplices
    >>> minimise_on_simplices(np.eye(4), np.array([1.0, -0.5, 0.0, 0.0]), np.array([1.0, 0, 1, 0]), np.array([0, 2]))
    array([0.25, 0.75, 1.  , 0.  ])
    """
    program = _Program(K, slopes, values, starts, late)
    if len(values) > _MANY and (any(program.projected(tol) for _ in range(most)) or len(values) > _LARGE):
        return program.w
    if late():
        return program.w
    dense = _Dense(K if isinstance(K, np.ndarray) else K.matrix(), program.g, program.w, starts, late)
    for _ in range(most):
        if dense.projected(tol):
            break
        dense.interior(tol)
    return dense.w


class _Program:
    """Weights w on their way to the minimum, and the gradient g there up to a number per block."""

    def __init__(self, K: Any, g: Array, w: Array, starts: Array, late: Late) -> None:
        self.late = late
        self.K, self.g, self.w, self.starts, self.owner = K, g, w, starts, owners(starts, len(w))
        self.kept = np.full(len(starts), -1)
        #: A gap that rounding alone can make.
        self.noise = 8 * _EPS * float(dot(np.abs(g), w) + np.abs(np.minimum.reduceat(g, starts)).sum())

    def projected(self, tol: float) -> bool:
        """Some projected Newton steps; whether they have come to the end, if only of the time."""
        before, last = np.inf, self.w
        for _ in range(_PATIENCE):
            gap = block_gap(self.g, self.w, self.starts)
            if min(gap, before) <= _DROWNED * self.noise and gap > before / 2:
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
        """Take as much of a step as lowers the function most, all at most; whether that has moved anything."""
        length, gain = _along(self.K, self.g, step)
        moved = np.maximum(self.w + length * step, 0.0)
        moved[moved <= 4 * _EPS] = 0.0
        moved /= np.add.reduceat(moved, self.starts)[self.owner]
        if gain <= 0 or np.array_equal(moved, self.w):
            return False
        self.g, self.w = self.g + dot(self.K, moved - self.w), moved
        return True

    def keep_heaviest(self) -> Array:
        """Leave the heaviest weight of every block to the others; where that is another than before."""
        w, kept = self.w, self.kept
        heaviest = first_in_block(w == np.maximum.reduceat(w, self.starts)[self.owner], self.starts)
        if kept[0] >= 0:  # one that is hardly heavier will not do better
            heaviest = np.where(w[heaviest] > 2 * w[kept], heaviest, kept)
        self.kept, self.g = heaviest, self.g - self.g[heaviest][self.owner]
        return heaviest != kept

    def _newton_step(self) -> Array:
        """The best of some steps to points of the product along the Newton direction."""
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
        """The Newton step of free weights, reversed, by conjugate gradients that end early: there, where it is long."""
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
    """A program small enough for factors of K; where weights are kept, they are eliminated from it."""

    def __init__(self, K: Any, g: Array, w: Array, starts: Array, late: Late) -> None:
        super().__init__(K.copy(), g, w, starts, late)
        self.ridge = 0.0

    def keep_heaviest(self) -> Array:
        """Where the weights of a block sum to one, multiples of that sum may be added to the rows and columns of K."""
        changed = super().keep_heaviest()
        places = np.flatnonzero(changed[self.owner])
        if len(places):
            to = self.kept[self.owner[places]]
            self.K[places] -= self.K[to]
            self.K[:, places] -= self.K[:, to]
        return changed

    def solved(self, free: Array) -> Array:
        """By a factor, with as much added to the diagonal as it takes for a step of a sensible length."""
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
        """Primal and dual steps of one length, and then to the face that they lead to, if that is downhill."""
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
                asked = pull / w
                dw = np.zeros_like(w)
                dw[free] = scipy.linalg.cho_solve((factor, False), asked[free] - asked[kept][block], check_finite=False)
                dw[kept] = -np.add.reduceat(dw, starts)
                return dw, asked - ratio * dw

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
    """How much of a step to take, at most all, and by how much the function falls."""
    slope, curvature = float(dot(g, step)), float(dot(step, dot(K, step)))
    if slope >= 0:
        return 0.0, 0.0
    length = 1.0 if curvature <= -slope else -slope / curvature
    return length, -length * (slope + 0.5 * length * curvature)


def _reach(w: Array, z: Array, dw: Array, dz: Array) -> float:
    """How far, at most one, two steps keep both positive."""
    fall = max(float((-dw / w).max()), float((-dz / z).max()))
    return 1.0 / max(fall, 1.0)


def _factor(K: Array, ridge: float) -> tuple[Array, float]:
    """The Cholesky factor of K with as much added to its diagonal as it takes to exist, and how much that was."""
    while True:
        shifted = K.copy()
        shifted.flat[:: len(K) + 1] += ridge
        try:
            return scipy.linalg.cholesky(shifted, overwrite_a=True, check_finite=False), ridge
        except np.linalg.LinAlgError:
            ridge *= 100
