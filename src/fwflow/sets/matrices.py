"""Sets of matrices: the nuclear-norm ball and the Birkhoff polytope."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.optimize import linear_sum_assignment

from fwflow._validation import Array, float_dtype, number, positive, whole
from fwflow.points import LowRank, Permutation, RankOne, Sampled, Shape, Vertex
from fwflow.sets.base import ConstraintSet, finite, needs_shape, size_of

# Lanczos steps go on while half of them change the gap by more than this share of it.
_SHARE = 0.02
# Up to this smaller dimension an upper bound on the spectral norm is proved by a Cholesky factorisation.
_GRAM_LIMIT = 2000
# Beyond it, by Lanczos from a random vector; the chance that the bound fails.
_FAILURE = 1e-10


class NuclearBall(ConstraintSet):
    r""":math:`\{X : \|X\|_* \le r\}`, matrices by the sum of their singular values. It starts at zero.

    A vertex is :math:`-r\, u v^T` with the leading singular pair of the gradient, found by
    Lanczos steps on the smaller Gram operator. With a hint (the previous vertex, which the solver
    passes) the number of steps is bounded: near the optimum the leading singular values cluster
    and iterating to convergence would stall, while any vector in the cluster serves as well. Where
    the gap is asked for, steps go on while they still change it: the smaller the gap, the more.

    During a run the trace's gap uses the vertex found. The gap of a result, and the one that
    decides that a tolerance is met, uses a certified upper bound on the leading singular value:
    proved by a Cholesky factorisation up to a smaller dimension of 2000, and beyond that the
    bound of Kuczynski & Wozniakowski (1992), which fails with probability below 1e-10.

    Parameters
    ----------
    radius : float
    steps : int
        Lanczos steps from a hint, and how many are added at a time where the gap asks for more.
    """

    factored = True

    def __init__(self, radius: float = 1.0, *, steps: int = 10) -> None:
        self.radius = positive(radius, "radius")
        self.steps = whole(steps, "steps", 2)

    def __repr__(self) -> str:
        return f"NuclearBall({self.radius:g})"

    def lmo(self, g: Any, hint: Vertex | None = None) -> RankOne:
        return self._vertex(g, hint, lambda sigma, gained: True)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> RankOne:
        return self._vertex(
            g, hint, lambda sigma, gained: self.radius * gained <= _SHARE * (inner + self.radius * sigma)
        )

    def _vertex(self, g: Any, hint: Vertex | None, enough: Callable[[float, float], bool]) -> RankOne:
        G = _matrix(g)
        wide = G.shape[0] < G.shape[1]
        start = None
        if isinstance(hint, RankOne) and hint.shape == G.shape:
            start = hint.u if wide else hint.v
        w, z, sigma = leading_pair(G.T if wide else G, start, self.steps, enough)
        if sigma == 0:
            w, z = np.eye(1, len(w), dtype=G.dtype)[0], np.eye(1, len(z), dtype=G.dtype)[0]
        u, v = (w, z) if wide else (z, w)
        return RankOne(u, v, -self.radius)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        G = _matrix(g)
        return -self.radius * spectral_bound(G, max(0.0, -vertex.scaled(1 / self.radius).dot(G)))

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
    G = g.matrix if isinstance(g, Sampled) else g
    if G.ndim != 2:
        raise ValueError(f"g must be a matrix for NuclearBall; got shape {G.shape}")
    return G if G.dtype == float_dtype(G.dtype) else G.astype(float_dtype(G.dtype))


def _largest(G: Any) -> float:
    """The largest entry in modulus, by which the Gram matrix is scaled so that it does not overflow or vanish."""
    entries = G.data if sp.issparse(G) else G
    return float(np.abs(entries).max(initial=0.0)) or 1.0


def leading_pair(
    G: Any, start: Array | None, steps: int, enough: Callable[[float, float], bool]
) -> tuple[Array, Array, float]:
    """Right and left leading singular vectors and value of a tall G, by Lanczos on ``G.T @ G``.

    With `start`, so many `steps` at a time until ``enough(value, gain of the last half of them)``, ten times at most;
    without, restarts until the residual is small.
    """
    noise = np.random.default_rng(0).standard_normal(G.shape[1]).astype(G.dtype)
    noise /= np.linalg.norm(noise)
    # A pinch of noise: a start orthogonal to the new leading vector would never find it.
    w = noise if start is None else start + G.dtype.type(1e-2) * noise
    transpose = G.T
    # Products are scaled so that squares neither overflow nor vanish.
    unit = np.abs(G @ w).max() or G.dtype.type(1)

    def gram(w: Array) -> Array:
        return np.asarray(transpose @ ((G @ w) / unit)) / unit

    for _ in range(8 if start is None else 10):
        w, (half, theta), residual = _lanczos(gram, w, max(steps, 40) if start is None else steps)
        sigma, before = (float(unit) * math.sqrt(max(0.0, value)) for value in (theta, half))
        if residual <= 1e-9 * theta or (start is not None and enough(sigma, sigma - before)):
            break
    z = np.asarray(G @ w) / unit
    length = np.linalg.norm(z)
    return w, z / length if length > 0 else z, float(length) * float(unit)


def _lanczos(apply: Callable[[Array], Array], w: Array, steps: int) -> tuple[Array, tuple[float, float], float]:
    """Leading Ritz vector, its value after half of the steps and all, and its residual norm.

    With full reorthogonalisation.
    """
    n = len(w)
    basis = np.empty((min(steps, n), n), w.dtype)
    alpha: list[float] = []
    beta: list[float] = []
    w = w / np.linalg.norm(w)
    for k in range(len(basis)):
        basis[k] = w
        image = apply(w)
        alpha.append(float(w @ image))
        for _ in range(2):  # "twice is enough" to be orthogonal to working precision
            image = image - (basis[: k + 1] @ image) @ basis[: k + 1]
        beta.append(float(np.linalg.norm(image)))
        if beta[-1] <= np.finfo(w.dtype).eps * max(alpha) * math.sqrt(n):
            break
        w = image / w.dtype.type(beta[-1])
    k = len(alpha)
    theta, ritz = _largest_ritz(alpha, beta[: k - 1])
    half = _largest_ritz(alpha[: k - 1][: k // 2 + 1], beta[: k - 2][: k // 2])[0] if k > 1 else 0.0
    vector = ritz.astype(w.dtype) @ basis[:k]
    return vector / np.linalg.norm(vector), (half, theta), beta[-1] * abs(float(ritz[-1]))


def _largest_ritz(alpha: list[float], beta: list[float]) -> tuple[float, Array]:
    k = len(alpha)
    theta, ritz = scipy.linalg.eigh_tridiagonal(alpha, beta, select="i", select_range=(k - 1, k - 1))
    return float(theta[0]), ritz[:, 0]


def spectral_bound(G: Any, sigma: float) -> float:
    """An upper bound on the spectral norm of G, close to it if `sigma` is a good lower bound."""
    G = sp.csr_array(G, dtype=np.float64) if sp.issparse(G) else np.asarray(G, dtype=np.float64)
    unit = _largest(G)
    G = (G if G.shape[0] >= G.shape[1] else G.T) / unit
    return unit * _unit_bound(G, sigma / unit)


def _unit_bound(G: Any, sigma: float) -> float:
    n = G.shape[1]
    if n <= _GRAM_LIMIT:
        gram = G.T @ G
        gram = gram.toarray() if sp.issparse(gram) else gram
        # t^2 I - G^T G is positive definite exactly when t exceeds the norm.
        for margin in (1e-10, 1e-8, 1e-6, 1e-4, 1e-2):
            t2 = (1 + margin) * sigma**2
            shifted = -gram
            shifted[np.diag_indices(n)] += t2
            try:
                scipy.linalg.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
            except scipy.linalg.LinAlgError:
                continue
            return math.sqrt(t2)
        largest = float(scipy.linalg.eigvalsh(gram, subset_by_index=(n - 1, n - 1))[0])
        return math.sqrt(max(0.0, largest) * (1 + 1e-8))
    steps = 300
    transpose = G.T
    start = np.random.default_rng(1).standard_normal(n)
    _, (_, theta), _ = _lanczos(lambda w: np.asarray(transpose @ (G @ w)), start, steps)
    epsilon = (math.log(1.648 * math.sqrt(n) / _FAILURE) / (2 * steps - 1)) ** 2
    return math.sqrt(max(theta, sigma**2) / (1 - epsilon))


class Birkhoff(ConstraintSet):
    """Doubly stochastic n x n matrices; the vertices are the permutations. It starts at 1/n everywhere.

    Vectors of length n^2 are read as matrices row by row, so linear models work too.
    """

    polytope = True

    def __init__(self, n: int) -> None:
        self.n = int(number(n, "n", "be a positive integer", lambda x: 1 <= x < math.inf and x == int(x)))
        self.shape = (self.n, self.n)

    def __repr__(self) -> str:
        return f"Birkhoff({self.n})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> Permutation:
        cost = g.reshape(self.shape).astype(np.float64, copy=False)
        prices = hint.prices if isinstance(hint, Permutation) else None
        # Prices far larger than the costs would drown them in rounding.
        if prices is None or len(prices) != self.n or 1e-3 * np.abs(prices).max() > np.abs(cost).max():
            prices = np.zeros(self.n)
        # Prices change no optimum, but good ones leave a path of one edge to most rows.
        reduced = cost - prices
        reduced -= reduced.min(axis=1, keepdims=True)
        rows, columns = linear_sum_assignment(reduced)
        prices = prices + (reduced - reduced[rows, columns][:, None]).min(axis=0)
        return Permutation(columns, g.shape, prices=prices - prices.mean())

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = self.shape if shape is None else shape
        if size_of(shape) != self.n**2:
            raise ValueError(f"shape must hold {self.n} x {self.n} entries for {self!r}; got {shape}")
        return np.full(shape, 1 / self.n, dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = finite(x)
        if x is None:
            return False
        x = x.reshape(self.shape)
        sums = np.concatenate([x.sum(axis=0), x.sum(axis=1)])
        return bool(x.min() >= -tol and np.abs(sums - 1).max() <= tol * math.sqrt(self.n))

    def diameter(self, shape: Shape | None = None) -> float:
        return math.sqrt(2 * self.n) if self.n > 1 else 0.0
