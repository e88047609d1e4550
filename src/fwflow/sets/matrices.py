"""Sets of matrices: the nuclear-norm ball and the Birkhoff polytope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot
from fwflow._validation import Array, finite_array, float_dtype, number, positive, whole
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import Permutation, RankOne, Shape, Vertex
from fwflow.sets.base import (
    ConstraintSet,
    Faces,
    KnownSet,
    SpectralRange,
    few_ulps,
    finite,
    first_bound,
    needs_shape,
    size_of,
)
from fwflow.sets.lanczos import SHARE, leading_pair, spectral_bound


class NuclearBall(ConstraintSet):
    r""":math:`\{X : \|X\|_* \le r\}`, matrices by the sum of their singular values. It starts at zero.

    A vertex is :math:`-r\, u v^T` with the leading singular pair of the gradient, found by Lanczos steps on the smaller
    Gram operator from a random vector mixed with the hint (the previous vertex, which the solver passes). Such steps
    bound the value that they may still miss, so they go on until the gap that the answer implies is known to a tenth
    of itself: the smaller the gap, the more steps. Where no gap is asked for, a tenth of the singular value will do;
    without a hint the answer is exact.

    The gap of a result, and the one that decides that a tolerance is met, uses a certified upper bound on the leading
    singular value: an eigenvalue of the Gram matrix up to a smaller dimension of 2000, and beyond that a bound by
    Lanczos steps from another random vector, which fails with probability below 1e-10.

    Parameters
    ----------
    radius : float
    steps : int
        Lanczos steps before the first look at what they have found.

    Notes
    -----
    :Family: matrices
    :Oracle: :math:`-r\,u v^T` with leading singular vectors of :math:`G`
    :Cost: some products with :math:`G`
    """

    factored = True

    def __init__(self, radius: float = 1.0, *, steps: int = 10) -> None:
        self.radius = positive(radius, "radius")
        self.steps = whole(steps, "steps", 2)

    def __repr__(self) -> str:
        return f"NuclearBall({self.radius:g})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.radius, self.steps)

    @property
    def spectrum(self) -> SpectralRange:
        return SpectralRange(self.radius)

    def lmo(self, g: Any, hint: Vertex | None = None) -> RankOne:
        share = 1e-9 if hint is None else SHARE
        return self._vertex(g, hint, lambda sigma: share * sigma)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> RankOne:
        return self._vertex(g, hint, lambda sigma: SHARE * abs(inner / self.radius + sigma))

    def _vertex(self, g: Any, hint: Vertex | None, slack: Callable[[float], float]) -> RankOne:
        G = _matrix(g)
        wide = G.shape[0] < G.shape[1]
        near = None
        factors = None if hint is None else hint.factors()
        if factors is not None and hint is not None and hint.shape == G.shape:
            near = factors[0] if wide else factors[1]
        w, z = leading_pair(G.T if wide else G, near, self.steps, slack)
        u, v = (w, z) if wide else (z, w)
        return RankOne(u, v, -self.radius)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        G = _matrix(g)
        return -self.radius * spectral_bound(G, max(0.0, -vertex.dot(G) / self.radius))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> LowRank:
        shape = needs_shape(self, shape)
        if len(shape) != 2:
            raise ValueError(f"shape must have two entries for NuclearBall; got {shape}")
        return LowRank.zeros(shape, dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        if not isinstance(x, LowRank):
            x = finite(x)
            if x is None:
                return False
            if x.ndim != 2:
                raise ValueError(f"members of {self!r} are matrices; got shape {x.shape}")
        sigma = x.singular_values() if isinstance(x, LowRank) else scipy.linalg.svdvals(x)
        return bool(sigma.sum() <= self.radius * (1 + tol))

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius


def _matrix(g: Any) -> Any:
    if g.ndim != 2:
        raise ValueError(f"g must be a matrix for NuclearBall; got shape {g.shape}")
    return g if g.dtype == float_dtype(g.dtype) else g.astype(float_dtype(g.dtype))


# Matrices with entries up to this are projected directly, larger ones by way of multiples that grow by this factor,
_EASY, _GROWTH = 30.0, 10.0
# each of which takes five to twenty Newton steps.
_MOST_STEPS = 500


class Birkhoff(Faces, KnownSet):
    """Doubly stochastic n x n matrices; the vertices are the permutations. It starts at 1/n everywhere.

    Vectors of length n^2 are read as matrices row by row, so linear models work too.

    Notes
    -----
    :Family: matrices
    :Oracle: the cheapest assignment
    :Cost: :math:`n^3`, less with a hint
    """

    polytope = True
    shape: Shape

    def __init__(self, n: int) -> None:
        self.n = int(number(n, "n", "be a positive integer", lambda x: 1 <= x < math.inf and x == int(x)))
        self.shape = (self.n, self.n)

    def __repr__(self) -> str:
        return f"Birkhoff({self.n})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.n)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Permutation:
        cost = g.reshape(self.shape).astype(np.float64, copy=False)
        prices = None if hint is None else hint.advice
        # Prices far larger than the costs would drown them in rounding.
        if prices is None or len(prices) != self.n or 1e-3 * np.abs(prices).max() > np.abs(cost).max():
            prices = np.zeros(self.n)
        # Prices change no optimum, but good ones leave a path of one edge to most rows.
        reduced = cost - prices
        reduced -= reduced.min(axis=1, keepdims=True)
        rows, columns = linear_sum_assignment(reduced)
        prices = prices + (reduced - reduced[rows, columns][:, None]).min(axis=0)
        return Permutation.of(columns, g.shape, prices - prices.mean())

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = self.shape if shape is None else shape
        if size_of(shape) != self.n**2:
            raise ValueError(f"shape must hold {self.n} x {self.n} entries for {self!r}; got {shape}")
        return np.full(shape, 1 / self.n, dtype)

    def random_start(self, seed: int, shape: Shape | None = None) -> Array:
        """Between the centre and the mean of n random permutations, which need no oracle."""
        rng, x = np.random.default_rng(seed), self.start(self.shape) / 2
        for _ in range(self.n):
            x[np.arange(self.n), rng.permutation(self.n)] += 0.5 / self.n
        return x.reshape(self.shape if shape is None else shape)

    def project(self, x: ArrayLike) -> Array:
        """By Newton's method on the dual, with multiples of x that grow to it: some ten solves with an n x n matrix."""
        x = finite_array(x, "x")
        wide = x.reshape(self.shape).astype(np.float64, copy=False)
        size = float(np.abs(wide).max()) or 1.0
        Z = wide / size
        Z -= Z.mean(axis=1, keepdims=True)
        Z -= Z.mean(axis=0)  # constants added to rows or columns change nothing
        stages = max(0, math.ceil(math.log(max(size, 1.0) / _EASY) / math.log(_GROWTH)))
        Z = Z * (size / _GROWTH**stages) + 1 / self.n
        for _ in range(stages):
            Z = _GROWTH * _balanced(Z, 1e-3)
        return np.maximum(_balanced(Z, 0.0), 0.0).reshape(x.shape).astype(x.dtype, copy=False)

    def away_vertex(self, g: Array, x: Array, noise: Array | float = 0.0) -> Permutation:
        used = (x > noise + few_ulps(x.dtype)).reshape(self.shape)
        _, columns = linear_sum_assignment(np.where(used, -g.reshape(self.shape).astype(np.float64), np.inf))
        return Permutation.of(columns, g.shape)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        return first_bound(x, -direction, noise + few_ulps(x.dtype))

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        x, noise = x.reshape(self.shape), noise.reshape(self.shape)
        with np.errstate(over="ignore"):
            sums = [np.abs(x.sum(axis=axis) - 1) <= tol + noise.sum(axis=axis) for axis in (0, 1)]
        return bool((x >= -tol - noise).all() and np.all(sums))

    def diameter(self, shape: Shape | None = None) -> float:
        return math.sqrt(2 * self.n) if self.n > 1 else 0.0


def _balanced(Z: Array, tol: float) -> Array:
    """Z with constants added to its rows and columns, so that the positive part has sums of one up to `tol`.

    These constants minimise half of the square of the positive part, less their sum; semismooth Newton steps with a
    line search find them (Li, Sun & Toh, 2020). Adding them to Z at once keeps its positive entries, which are at most
    one in the end, free of the rounding of the others.
    """
    n, eps = len(Z), float(np.finfo(float).eps)
    for _ in range(_MOST_STEPS):
        X = np.maximum(Z, 0.0)
        r, c = X.sum(axis=1) - 1, X.sum(axis=0) - 1
        off = float(max(np.abs(r).max(), np.abs(c).max()))
        if off <= max(n * eps, tol):
            break
        M = (X > 0).astype(np.float64)
        ridge = 1e-3 * min(1.0, off) + 1e-13
        rows = M.sum(axis=1) + ridge
        S = -dot(M.T, M / rows[:, None])
        S[np.diag_indices(n)] += M.sum(axis=0) + ridge
        factor = scipy.linalg.cho_factor(S, check_finite=False)
        dv = scipy.linalg.cho_solve(factor, dot(M.T, r / rows) - c, check_finite=False)
        du = -(r + dot(M, dv)) / rows
        direction, slope, total = du[:, None] + dv, float(dot(r, du) + dot(c, dv)), float(du.sum() + dv.sum())
        value, length = 0.5 * float(np.vdot(X, X)), 1.0
        while length > 1e-12:
            moved = np.maximum(Z + length * direction, 0.0)
            if 0.5 * float(np.vdot(moved, moved)) - length * total <= value * (1 + 4 * eps) + 1e-4 * length * slope:
                break
            length /= 2
        Z = Z + length * direction
    return Z
