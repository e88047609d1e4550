"""Sets of matrices: the nuclear-norm ball and the Birkhoff polytope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from fwflow._validation import Array, finite_array, float_dtype, number, positive, whole
from fwflow.fingerprints import fingerprint
from fwflow.lowrank import LowRank
from fwflow.sets.base import ConstraintSet, KnownSet, few_ulps, finite, first_bound, needs_shape, size_of
from fwflow.vertices import Permutation, RankOne, Shape, Vertex

# How exact the oracle is, as a share of the gap that its answer implies; of the value where no gap is asked for.
_SHARE = 0.1
# The chance that it is not, and that a bound fails: the random start might hide the leading vector from Lanczos steps.
_DOUBT, _FAILURE = 1e-4, 1e-10
# Most Lanczos steps. Up to this smaller dimension a dense eigenvalue decides where they do not.
_MOST = 300
_GRAM_LIMIT = 2000


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
    def nuclear_radius(self) -> float:  # type: ignore[override]
        return self.radius

    def lmo(self, g: Any, hint: Vertex | None = None) -> RankOne:
        share = 1e-9 if hint is None else _SHARE
        return self._vertex(g, hint, lambda sigma: share * sigma)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> RankOne:
        return self._vertex(g, hint, lambda sigma: _SHARE * abs(inner / self.radius + sigma))

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


def _largest(G: Any) -> float:
    """The largest entry in modulus, by which the Gram matrix is scaled so that it does not overflow or vanish."""
    entries = G.data if sp.issparse(G) else G
    return float(np.abs(entries).max(initial=0.0)) or 1.0


def leading_pair(G: Any, near: Array | None, steps: int, slack: Callable[[float], float]) -> tuple[Array, Array]:
    """Right and left leading singular vectors of a tall G, by Lanczos steps on ``G.T @ G``.

    The value that they attain falls short of the largest by more than ``slack(value)`` only with probability `_DOUBT`.
    """
    n, transpose = G.shape[1], G.T
    start, hidden = _random_start(n, near, 0, _DOUBT)
    start = start.astype(G.dtype)
    # Products are scaled so that squares neither overflow nor vanish.
    unit = np.abs(G @ start).max()
    if unit == 0:
        return np.eye(1, n, dtype=G.dtype)[0], np.eye(1, G.shape[0], dtype=G.dtype)[0]

    def gram(w: Array) -> Array:
        return np.asarray(transpose @ ((G @ w) / unit)) / unit

    def settled(ritz: Ritz) -> bool:
        value = math.sqrt(max(0.0, ritz.values[-1]))
        rounding = 4 * float(np.finfo(G.dtype).eps) * value
        return ritz.excludes((value + max(slack(float(unit) * value) / float(unit), rounding)) ** 2)

    w, ritz = _lanczos(gram, start, hidden, steps, settled)
    if len(ritz.values) == _MOST < n <= _GRAM_LIMIT and not settled(ritz):
        w = scipy.linalg.eigh(_gram_matrix(G / unit), subset_by_index=(n - 1, n - 1))[1][:, 0].astype(G.dtype)
    z = np.asarray(G @ w) / unit
    return w, z / np.linalg.norm(z)


def _random_start(n: int, near: Array | None, seed: int, doubt: float) -> tuple[Array, float]:
    """A random vector, or one near the direction of a given one; and the logarithm of how well it may hide another.

    It has an inner product of modulus below ``exp(-hidden)`` times its length with a unit vector only with
    probability `doubt`.
    """
    start = np.random.default_rng(seed).standard_normal(n)
    length = 0.0 if near is None else float(np.linalg.norm(near))
    if near is not None and 0 < length < math.inf:  # else it has no direction
        start += 10 * math.sqrt(n) / length * near
    return start, math.log(float(np.linalg.norm(start)) / (math.sqrt(math.pi / 2) * doubt))


class Ritz(NamedTuple):
    """What Lanczos steps tell of a positive semidefinite operator.

    Ascending Ritz values, the norms of what the steps left, and how well the start may hide an eigenvector.
    """

    values: Array
    norms: Array
    hidden: float

    def excludes(self, level: float) -> bool:
        r"""Whether an eigenvalue of at least `level`, which is above the Ritz values, would have been seen.

        Step k leaves the unit vector :math:`p_k(A) b` with
        :math:`p_k(\lambda) = \prod_i (\lambda - \theta_i) / \beta_i`, so that
        :math:`|p_k(\lambda) \langle v, b \rangle| \le 1` for a unit eigenvector v, and beyond the Ritz values
        :math:`p_k` grows (van Dorsselaer, Hochstenbach & van der Vorst, 2000).
        """
        return self.norms[-1] == 0 or float(np.log((level - self.values) / self.norms).sum()) >= self.hidden

    def bound(self) -> float:
        """A level that is excluded, close to the least."""
        largest = excess = max(0.0, float(self.values[-1]))
        while not self.excludes(largest + excess):
            excess *= 2
        while excess > 1e-15 * largest and self.excludes(largest + 0.8 * excess):
            excess *= 0.8
        return largest + excess


def _lanczos(
    apply: Callable[[Array], Array], start: Array, hidden: float, steps: int, settled: Callable[[Ritz], bool]
) -> tuple[Array, Ritz]:
    """Leading Ritz vector and what the steps tell, which are `_MOST` unless they have `settled` the matter before."""
    n = len(start)
    basis = np.empty((min(steps, n), n), start.dtype)
    alpha: list[float] = []
    beta: list[float] = []
    w, look = start / np.linalg.norm(start), steps
    for k in range(min(_MOST, n)):
        if k == len(basis):
            basis = np.concatenate([basis, np.empty_like(basis)])
        basis[k] = w
        image = apply(w)
        alpha.append(float(w @ image))
        # Once against the last two and once against all is orthogonal to working precision.
        image -= alpha[-1] * w
        if k > 0:
            image -= beta[-1] * basis[k - 1]
        image -= (basis[: k + 1] @ image) @ basis[: k + 1]
        beta.append(float(np.linalg.norm(image)))
        if beta[-1] <= np.finfo(w.dtype).eps * max(alpha) * math.sqrt(n):
            beta[-1] = 0.0
        if k + 1 in (look, _MOST, n) or beta[-1] == 0:
            ritz = Ritz(scipy.linalg.eigvalsh_tridiagonal(alpha, beta[:-1]), np.array(beta), hidden)
            if beta[-1] == 0 or settled(ritz):
                break
            look = k + 1 + max(steps, k // 8)
        w = image / w.dtype.type(beta[-1])
    last = len(alpha) - 1
    leading = scipy.linalg.eigh_tridiagonal(alpha, beta[:-1], select="i", select_range=(last, last))[1][:, 0]
    vector = leading.astype(start.dtype) @ basis[: last + 1]
    return vector / np.linalg.norm(vector), ritz


def spectral_bound(G: Any, sigma: float) -> float:
    """An upper bound on the spectral norm of G, of which `sigma` is a lower bound."""
    G = sp.csr_array(G, dtype=np.float64) if sp.issparse(G) else np.asarray(G, dtype=np.float64)
    unit = _largest(G)
    G = (G if G.shape[0] >= G.shape[1] else G.T) / unit
    return unit * _unit_bound(G, sigma / unit)


def _unit_bound(G: Any, sigma: float) -> float:
    n, transpose = G.shape[1], G.T
    if n <= _GRAM_LIMIT:
        largest = float(scipy.linalg.eigvalsh(_gram_matrix(G), subset_by_index=(n - 1, n - 1))[0])
        return math.sqrt(max(0.0, largest, sigma**2) * (1 + n * np.finfo(np.float64).eps))
    start, hidden = _random_start(n, None, 1, _FAILURE)

    def settled(ritz: Ritz) -> bool:
        return ritz.excludes((1 + 1e-12) * ritz.values[-1])

    ritz = _lanczos(lambda w: np.asarray(transpose @ (G @ w)), start, hidden, 50, settled)[1]
    return math.sqrt(max(ritz.bound(), sigma**2) * (1 + n * np.finfo(np.float64).eps))


def _gram_matrix(G: Any) -> Array:
    gram = G.T @ G
    return gram.toarray() if sp.issparse(gram) else gram


# Matrices with entries up to this are projected directly, larger ones by way of multiples that grow by this factor,
_EASY, _GROWTH = 30.0, 10.0
# each of which takes five to twenty Newton steps.
_MOST_STEPS = 500


class Birkhoff(KnownSet):
    """Doubly stochastic n x n matrices; the vertices are the permutations. It starts at 1/n everywhere.

    Vectors of length n^2 are read as matrices row by row, so linear models work too.
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
        S = -(M.T @ (M / rows[:, None]))
        S[np.diag_indices(n)] += M.sum(axis=0) + ridge
        factor = scipy.linalg.cho_factor(S, check_finite=False)
        dv = scipy.linalg.cho_solve(factor, M.T @ (r / rows) - c, check_finite=False)
        du = -(r + M @ dv) / rows
        direction, slope, total = du[:, None] + dv, float(r @ du + c @ dv), float(du.sum() + dv.sum())
        value, length = 0.5 * float(np.vdot(X, X)), 1.0
        while length > 1e-12:
            moved = np.maximum(Z + length * direction, 0.0)
            if 0.5 * float(np.vdot(moved, moved)) - length * total <= value * (1 + 4 * eps) + 1e-4 * length * slope:
                break
            length /= 2
        Z = Z + length * direction
    return Z
