"""Sets of matrices by their eigenvalues or singular values: spectraplex, spectrahedron, Fantope, Schatten balls."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, norm
from fwflow._validation import Array, float_dtype, number, positive, whole
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import DenseVertex, OneHot, RankOne, Shape, Sum, Vertex
from fwflow.sets.base import KnownSet, SpectralRange, needs_shape, rounding
from fwflow.sets.lanczos import SHARE, eigenvalue_bound, leading_space
from fwflow.sets.vectors import LpBall


class _Semidefinite(KnownSet):
    """Symmetric matrices by their eigenvalues; of a gradient only the symmetric part matters.

    A set says what the largest eigenvalues of minus that part are worth, and of which eigenvectors a vertex is made.
    """

    #: The largest modulus of an entry of a member.
    radius: float
    #: The rank of a vertex.
    rank: int = 1
    steps: int

    @abstractmethod
    def _worth(self, total: float) -> float:
        """The largest inner product of a member with a matrix whose `rank` largest eigenvalues have that sum."""

    @abstractmethod
    def _made_of(self, W: Array, total: float) -> Vertex:
        """The vertex of eigenvectors whose eigenvalues have that sum."""

    @abstractmethod
    def _admits(self, values: Array, slack: float) -> bool:
        """Whether a matrix with these eigenvalues, in ascending order and in units of the radius, is a member."""

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        share = 1e-9 if hint is None else SHARE
        return self._vertex(g, hint, lambda total, spread, unit: share * spread)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        def slack(total: float, spread: float, unit: float) -> float:
            # Eigenvalues are known from below, and so is the gap that they imply.
            return SHARE * max(0.0, inner / unit + self._worth(total)) / self._worth(1.0)

        return self._vertex(g, hint, slack)

    def _vertex(self, g: Any, hint: Vertex | None, slack: Callable[[float, float, float], float]) -> Vertex:
        A, unit = _question(self, g)
        n = A.shape[0]
        if self.rank >= n or not unit:
            return self._made_of(np.eye(n, self.rank, dtype=A.dtype), float(A.trace()))
        near = _columns(hint, n, self.rank)
        W = leading_space(A, near, self.rank, self.steps, lambda total, spread: slack(total, spread, unit))
        W = W * np.sign(W[np.abs(W).argmax(axis=0), np.arange(self.rank)])  # of two signs always the same
        return self._made_of(W, float(np.vdot(W, dot(A, W))))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        A, unit = _question(self, g, np.float64)
        return -unit * self._worth(eigenvalue_bound(A, min(self.rank, A.shape[0])))

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        if not isinstance(x, LowRank):
            return super().contains(x, tol)
        self._check_square(x.shape)
        # The matrix in a basis of what its factors span: the same eigenvalues but for zeros.
        Q = np.linalg.qr(np.hstack([np.zeros((x.shape[0], 1)), x.U, x.V]))[0]
        core = dot(dot(Q.T, x.U), dot(x.V.T, Q))
        return self.near(core, tol, rounding(x.U, core))

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        self._check_square(x.shape)
        if (np.abs(x) > (1 + tol) * self.radius + noise).any():
            return False
        x, noise = x / self.radius, noise / self.radius
        slack = tol + max(float(norm(noise)), float(np.trace(noise)))
        return bool(np.abs(x - x.T).max() <= 2 * slack and self._admits(scipy.linalg.eigvalsh((x + x.T) / 2), slack))

    def _check_square(self, shape: Shape) -> None:
        if len(shape) != 2 or shape[0] != shape[1]:
            raise ValueError(f"members of {self!r} are square matrices; got shape {shape}")

    def _checked(self, shape: Shape | None) -> Shape:
        shape = needs_shape(self, shape)
        self._check_square(shape)
        return shape


class _ByTrace(_Semidefinite):
    """Positive semidefinite matrices with a trace of r, or one that is limited by it."""

    factored = True

    def __init__(self, radius: float = 1.0, *, steps: int = 10) -> None:
        self.radius = positive(radius, "radius")
        self.steps = whole(steps, "steps", 2)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.radius:g})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.radius, self.steps)


class Spectraplex(_ByTrace):
    r""":math:`\{X \succeq 0 : \operatorname{tr} X = r\}`, symmetric matrices. It starts at r/n everywhere.

    A vertex is :math:`r\, u u^T` with an eigenvector of the least eigenvalue of the symmetric part of the gradient. As
    for `NuclearBall`, Lanczos steps that begin near the hint go on until the gap is known to a tenth of itself, and the
    gap of a result uses a bound on that eigenvalue that is certified: exact up to 2000 rows, and beyond that with
    probability 1 - 1e-10. Where no gap is asked for, a tenth of the spread of the eigenvalues will do.

    Parameters
    ----------
    radius : float
    steps : int
        Lanczos steps before the first look at what they have found.

    Notes
    -----
    :Family: matrices
    :Oracle: :math:`r\,u u^T` with the least eigenvector of :math:`(G + G^T)/2`
    :Cost: some products with :math:`G`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.Spectraplex(2.0).lmo(np.diag([1.0, -3.0])))
    array([[0., 0.],
           [0., 2.]])
    """

    @property
    def spectrum(self) -> SpectralRange:
        return SpectralRange(self.radius, 1, exact=True)

    def _worth(self, total: float) -> float:
        return self.radius * total

    def _made_of(self, W: Array, total: float) -> RankOne:
        return RankOne(W[:, 0], W[:, 0], self.radius)

    def _admits(self, values: Array, slack: float) -> bool:
        return bool(values[0] >= -slack and abs(values.sum() - 1) <= slack)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> LowRank:
        shape = self._checked(shape)
        u = np.full(shape[0], shape[0] ** -0.5, dtype)
        return LowRank(shape, {RankOne(u, u, self.radius): 1.0}, dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        return 0.0 if shape == (1, 1) else math.sqrt(2) * self.radius


class Spectrahedron(_ByTrace):
    r""":math:`\{X \succeq 0 : \operatorname{tr} X \le r\}`, symmetric matrices. It starts at zero.

    A vertex is :math:`r\, u u^T` as for `Spectraplex`, or zero where no eigenvalue of the gradient is negative.

    Parameters
    ----------
    radius : float
    steps : int
        Lanczos steps before the first look at what they have found.

    Notes
    -----
    :Family: matrices
    :Oracle: :math:`r\,u u^T` as for `Spectraplex`, or :math:`0` if no eigenvalue is negative
    :Cost: some products with :math:`G`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> fw.Spectrahedron(2.0).lmo(np.eye(3)).dot(np.eye(3))
    0.0
    """

    @property
    def spectrum(self) -> SpectralRange:
        return SpectralRange(self.radius, 1)

    def _worth(self, total: float) -> float:
        return self.radius * max(0.0, total)

    def _made_of(self, W: Array, total: float) -> RankOne:
        u = W[:, 0] if total > 0 else np.eye(1, len(W), dtype=W.dtype)[0]
        return RankOne(u, u, self.radius if total > 0 else 0.0)

    def _admits(self, values: Array, slack: float) -> bool:
        return bool(values[0] >= -slack and values.sum() <= 1 + slack)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> LowRank:
        return LowRank.zeros(self._checked(shape), dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        return self.radius if shape == (1, 1) else math.sqrt(2) * self.radius


class Fantope(_Semidefinite):
    r""":math:`\{0 \preceq X \preceq I : \operatorname{tr} X = k\}`, the hull of projectors of rank k.

    A vertex is the projector onto k eigenvectors of the least eigenvalues of the symmetric part of the gradient, found
    one after another and certified as for `Spectraplex`. It starts at k/n times the identity.

    Parameters
    ----------
    k : int
    steps : int
        Lanczos steps before the first look at what they have found.

    Notes
    -----
    :Family: matrices
    :Oracle: the projector onto the :math:`k` least eigenvectors
    :Cost: :math:`k` times some products with :math:`G`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.diag(fw.Fantope(2).lmo(np.diag([3.0, 1.0, 2.0])))
    array([0., 1., 1.])
    """

    radius = 1.0

    def __init__(self, k: int, *, steps: int = 10) -> None:
        self.rank = whole(k, "k", 1)
        self.steps = whole(steps, "steps", 2)

    def __repr__(self) -> str:
        return f"Fantope({self.rank})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.rank, self.steps)

    def _worth(self, total: float) -> float:
        return total

    def _made_of(self, W: Array, total: float) -> Sum:
        return Sum(tuple(RankOne(w, w, 1.0) for w in W.T))

    def _admits(self, values: Array, slack: float) -> bool:
        inside = values[0] >= -slack and values[-1] <= 1 + slack
        return bool(inside and abs(values.sum() - self.rank) <= self.rank * slack)

    def _check_square(self, shape: Shape) -> None:
        super()._check_square(shape)
        if shape[0] < self.rank:
            raise ValueError(f"members of {self!r} have at least {self.rank} rows; got shape {shape}")

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        n = self._checked(shape)[0]
        return (self.rank / n * np.eye(n)).astype(dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        apart = self.rank if shape is None else min(self.rank, shape[0] - self.rank)
        return math.sqrt(2 * apart)


def _question(constraint: _Semidefinite, g: Any, dtype: Any = None) -> tuple[Any, float]:
    """Minus the symmetric part of a gradient, over the power of two that makes its entries at most one; and that."""
    constraint._check_square(g.shape)
    G = g.astype(float_dtype(g.dtype) if dtype is None else dtype)
    entries = G.data if sp.issparse(G) else G
    largest = float(np.abs(entries).max(initial=0.0))
    if not largest:
        return G, 0.0
    power = math.frexp(largest)[1]
    entries[...] = np.ldexp(entries, -power)
    A = (G + G.T) * G.dtype.type(-0.5)
    return sp.csr_array(A) if sp.issparse(A) else A, math.ldexp(1.0, power)


def _columns(hint: Vertex | None, n: int, count: int) -> Array | None:
    """The vectors of which a vertex is made, one for each that is asked for; None if it is another set's."""
    parts = () if hint is None else hint.parts or (hint,)
    found = [factors[0] for factors in (part.factors() for part in parts) if factors is not None]
    return np.column_stack(found) if len(found) == count and {len(u) for u in found} == {n} else None


class SchattenBall(KnownSet):
    r""":math:`\{X : \|\sigma(X)\|_p \le r\}` for :math:`1 < p \le \infty`, matrices by their singular values.

    With the singular value decomposition :math:`G = U \operatorname{diag}(\sigma) V^T` the vertex is
    :math:`U \operatorname{diag}(s) V^T`, where s is the vertex of the vector ball for :math:`\sigma`. All singular
    values count, so that it costs one dense decomposition, and is exact; for p = 2, the Frobenius norm, it needs none.
    For p = 1 there is `NuclearBall`. It starts at zero. A zero gradient gives r at the first entry, or all along the
    diagonal where :math:`p = \infty`.

    Parameters
    ----------
    p : float
    radius : float

    Notes
    -----
    :Family: matrices
    :Oracle: :math:`U\,\mathrm{diag}(s)\,V^T` with the answer :math:`s` of the vector ball to :math:`\sigma(G)`
    :Cost: a dense SVD

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.SchattenBall(np.inf, 2.0).lmo(np.diag([3.0, -1.0])))
    array([[-2.,  0.],
           [ 0.,  2.]])
    """

    def __init__(self, p: float, radius: float = 1.0) -> None:
        self.p = number(p, "p", "be above 1 (else NuclearBall), infinity included", lambda x: x > 1)
        self.radius = positive(radius, "radius")

    def __repr__(self) -> str:
        return f"SchattenBall({self.p:g}, {self.radius:g})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.p, self.radius)

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        self._check(g.shape)
        G = g.astype(float_dtype(g.dtype))
        if not G.any():
            if math.isinf(self.p):
                return DenseVertex(self.radius * np.eye(*G.shape, dtype=G.dtype))
            return OneHot(0, self.radius, g.shape)
        G = np.ldexp(G, -math.frexp(float(np.abs(G).max()))[1])
        if self.p == 2:
            return DenseVertex(-self.radius / norm(G) * G)
        U, sigma, Vt = scipy.linalg.svd(G, full_matrices=False)
        s = np.ones_like(sigma) if math.isinf(self.p) else np.asarray(LpBall(self.p).lmo(-sigma), sigma.dtype)
        return DenseVertex(dot(-self.radius * (U * s), Vt))

    def norm(self, x: Array) -> float:
        """The p-norm of the singular values."""
        sigma = scipy.linalg.svdvals(x)
        return float(sigma[0]) if math.isinf(self.p) else LpBall(self.p).norm(sigma)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        self._check(x.shape)
        unit = math.ldexp(1.0, math.frexp(self.radius)[1])
        with np.errstate(over="ignore"):
            x, off, radius = x / unit, float(norm(noise / unit)), self.radius / unit
        # Norms of what noise adds: at most the Frobenius norm for p >= 2, and the sum of singular values in any case.
        off *= min(x.shape) ** max(0.0, 1 / self.p - 0.5)
        return bool(np.isfinite(x).all() and self.norm(x) <= radius * (1 + tol) + off)

    def _check(self, shape: Shape) -> None:
        if len(shape) != 2:
            raise ValueError(f"members of {self!r} are matrices; got shape {shape}")

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        self._check(shape)
        return np.zeros(shape, dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        if self.p <= 2:
            return 2 * self.radius
        return 2 * self.radius * min(needs_shape(self, shape)) ** (0.5 - 1 / self.p)
