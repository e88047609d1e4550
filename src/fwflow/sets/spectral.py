"""Sets of matrices by their singular values or eigenvalues."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._numerics import dot, norm
from fwflow._validation import Array, finite_array, float_dtype, number, positive, whole
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import DenseVertex, OneHot, RankOne, Shape, Sum, Vertex
from fwflow.sets.base import KnownSet, ParametricSet, Projection, SpectralRange, few_ulps, needs_shape, rounding
from fwflow.sets.hypersimplices import HyperSimplex, UnitSimplex
from fwflow.sets.lanczos import BOUND_SHARE, SHARE, eigenvalue_bound, leading_pair, leading_space, spectral_bound
from fwflow.sets.vectors import NO_NOISE, L1Ball, L2Ball, LInfBall, LpBall, Simplex

# Least radius, relative to the largest entry of the matrix that is projected. Smaller ones might underflow.
_NEAR_ZERO = 1e-290
# Largest number of rows or columns, whichever is smaller, for which a dense decomposition is cheap. Measured
# with up to 600 rows: projected steps took 0.4 to 1.9 s where corrective steps took 2.8 s or did not end in 15 s.
_CHEAP = 1000


class _Matrices(ParametricSet):
    """Matrices whose singular values or eigenvalues are bounded."""

    radius: float
    #: Whether all members are square.
    square: bool = False
    #: Largest smaller dimension for which there is a projection.
    largest: float = _CHEAP

    def _check(self, shape: Shape, given: str = "x has shape") -> None:
        if len(shape) != 2 or (self.square and shape[0] != shape[1]):
            raise ValueError(f"{given} {shape}; members of {self!r} are {'square ' * self.square}matrices")

    def _checked(self, shape: Shape | None) -> Shape:
        shape = needs_shape(self, shape)
        self._check(shape, "shape is")
        return shape

    @abstractmethod
    def _spectra(self, radius: float) -> KnownSet:
        """Return the set of the singular values or eigenvalues of members, if the radius were this one."""

    def projection(self, shape: Shape) -> Projection | None:
        """Return the projection for matrices of a shape, or None if they have more than 1000 rows and columns.

        It projects the singular values. For sets of symmetric matrices, it projects the eigenvalues of the symmetric
        part.
        """
        self._check(shape)
        return None if min(shape) > self.largest else self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        x = finite_array(x, "x")
        power = math.frexp(max(float(np.abs(x).max()), self.radius))[1]  # In this unit, nothing overflows.
        X = np.ldexp(x.astype(np.float64, copy=False), -power)
        radius = max(math.ldexp(self.radius, -power), _NEAR_ZERO)
        if self.square:
            values, left = scipy.linalg.eigh((X + X.T) / 2)
            right = left.T
        else:
            left, values, right = scipy.linalg.svd(X, full_matrices=False)
        inside, slack = self._spectra(radius), few_ulps(x.dtype) * math.sqrt(len(values))
        symmetric = not self.square or np.abs(X - X.T).max() <= slack * radius
        if symmetric and inside.near(values, slack, NO_NOISE):
            return x
        onto = inside.project(values)
        assert onto is not None  # all sets of values have a projection
        Y = dot(self.radius * (left * (onto / radius)), right)
        return ((Y + Y.T) / 2 if self.square else Y).astype(x.dtype, copy=False)


class _RankOneHull(_Matrices):
    """A set whose vertices have rank one and are found by Lanczos steps."""

    factored = True
    options = ("steps",)

    def __init__(self, radius: float = 1.0, *, steps: int = 10) -> None:
        self.radius, self.steps = positive(radius, "radius"), whole(steps, "steps", 2)


class NuclearBall(_RankOneHull):
    r"""Nuclear-norm ball :math:`\{X : \|X\|_* \le r\}`: matrices whose singular values sum to at most r.

    The default starting point is zero. A vertex is :math:`-r\, u v^T` with the leading singular vectors u and v of the
    gradient. Lanczos steps on the smaller Gram operator find these vectors. The steps start from a random vector. If a
    hint is given, it is added to this vector. In a run, the hint is the previous vertex. The argument ``steps`` is the
    number of Lanczos steps before the first bound on the error of :math:`\langle g, s\rangle` is computed. The accuracy
    depends on the call:

    * In a run, the steps continue until the duality gap is known to 10 %. A smaller gap therefore needs more steps.
    * ``lmo(g)`` outside a run, without a hint, accepts a relative error of 1e-9 in the singular value.
    * ``lmo(g, hint)`` outside a run accepts an error of 10 % of the singular value.

    The gap of a result, and the gap that decides on convergence, use a certified upper bound on the leading singular
    value. For small matrices, with at most 256 rows or columns, the bound is an eigenvalue of the Gram matrix. For
    larger matrices, the bound comes from Lanczos steps from another random vector. It then fails with probability below
    1e-10, and makes the gap at most 1 % too large. If these steps do not converge, an eigenvalue of the Gram
    matrix is used again, if the number of rows or the number of columns is at most 2000.

    The projection needs a dense singular value decomposition. It is available if the number of rows or the number of
    columns is at most 1000. The same limit holds for the other sets of matrices that are defined by their singular
    values or eigenvalues.

    Parameters
    ----------
    radius : float
        Bound r on the sum of the singular values, positive; 1 by default.
    steps : int
        Number of Lanczos steps before the accuracy is first checked; 10 by default.

    See Also
    --------
    MatrixCompletion : Objective on the observed entries of a matrix.
    SchattenBall : Other norms of the singular values.
    Spectrahedron : Symmetric positive semidefinite matrices.
    fwflow.sklearn.NuclearCompletion : Estimator with this constraint.

    Notes
    -----
    :Family: matrices
    :Uses: matrix completion, recommender systems, matrix factorisation of low rank, multi-task regression
    :Oracle: :math:`-r\,u v^T` with the leading singular vectors :math:`u` and :math:`v` of :math:`G`
    :Cost: some products with :math:`G` (Lanczos steps)

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.NuclearBall(2.0)
    >>> np.asarray(C.lmo(np.array([[3.0, 0.0], [0.0, 1.0]]))).round(6) + 0.0
    array([[-2.,  0.],
           [ 0.,  0.]])
    >>> C.contains(np.eye(2)), C.contains(2 * np.eye(2))
    (True, False)
    """

    @property
    def spectrum(self) -> SpectralRange:
        return SpectralRange(self.radius)

    def lmo(self, g: Any, hint: Vertex | None = None) -> RankOne:
        share = 1e-9 if hint is None else SHARE
        return self._vertex(g, hint, lambda sigma: share * sigma)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> RankOne:
        return self._vertex(g, hint, lambda sigma: SHARE * abs(inner / self.radius + sigma))

    def _vertex(self, g: Any, hint: Vertex | None, slack: Callable[[float], float]) -> RankOne:
        G = self._matrix(g)
        wide = G.shape[0] < G.shape[1]
        factors = None if hint is None or hint.shape != G.shape else hint.factors()
        near = None if factors is None else factors[0] if wide else factors[1]
        w, z = leading_pair(G.T if wide else G, near, self.steps, slack)
        u, v = (w, z) if wide else (z, w)
        return RankOne(u, v, -self.radius)

    def _matrix(self, g: Any) -> Any:
        self._check(g.shape, "g has shape")
        return g if g.dtype == float_dtype(g.dtype) else g.astype(float_dtype(g.dtype))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        return self._bound(g, vertex, None)

    def lower_bound_at(self, g: Any, inner: float, vertex: Vertex) -> float:
        return self._bound(g, vertex, lambda sigma: BOUND_SHARE * abs(inner / self.radius + sigma))

    def _bound(self, g: Any, vertex: Vertex, slack: Callable[[float], float] | None) -> float:
        G = self._matrix(g)
        return -self.radius * spectral_bound(G, max(0.0, -vertex.dot(G) / self.radius), slack)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> LowRank:
        return LowRank.zeros(self._checked(shape), dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        if isinstance(x, LowRank):
            return bool(x.singular_values().sum() <= self.radius * (1 + tol))
        return super().contains(x, tol)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        self._check(x.shape)
        with np.errstate(over="ignore"):
            x, off = x / self.radius, math.sqrt(min(x.shape)) * float(norm(noise / self.radius))
        return bool(np.isfinite(x).all() and scipy.linalg.svdvals(x).sum() <= 1 + tol + off)

    def _spectra(self, radius: float) -> L1Ball:
        return L1Ball(radius)

    def diameter(self, shape: Shape | None = None) -> float:
        return 2 * self.radius


class _Semidefinite(_Matrices):
    """Set of symmetric matrices that is defined by their eigenvalues. Only the symmetric part of a gradient matters.

    The radius is the largest absolute value of an entry of a member.
    """

    square = True
    #: The rank of a vertex.
    rank: int = 1
    steps: int

    @abstractmethod
    def _support(self, total: float) -> float:
        """Return the largest ``<A, X>`` of a member X if the `rank` largest eigenvalues of A sum to `total`."""

    @abstractmethod
    def _made_of(self, W: Array, total: float) -> Vertex:
        """Return the vertex of eigenvectors whose eigenvalues sum to `total`."""

    @abstractmethod
    def _admits(self, values: Array, slack: float) -> bool:
        """Return whether a matrix with these eigenvalues, ascending and in units of the radius, is a member."""

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        share = 1e-9 if hint is None else SHARE
        return self._vertex(g, hint, lambda total, spread, unit: share * spread)

    def lmo_at(self, g: Any, inner: float, hint: Vertex | None = None) -> Vertex:
        return self._vertex(g, hint, lambda total, spread, unit: self._slack(SHARE, inner / unit)(total))

    def _vertex(self, g: Any, hint: Vertex | None, slack: Callable[[float, float, float], float]) -> Vertex:
        A, unit = self._negative_part(g, float_dtype(g.dtype))
        n = A.shape[0]
        if self.rank >= n or not unit:
            return self._made_of(np.eye(n, self.rank, dtype=A.dtype), float(A.trace()))
        near = _columns(hint, n, self.rank)
        W = leading_space(A, near, self.rank, self.steps, lambda total, spread: slack(total, spread, unit))
        W = W * np.sign(W[np.abs(W).argmax(axis=0), np.arange(self.rank)])  # The sign is the same every time.
        return self._made_of(W, float(np.vdot(W, dot(A, W))))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        A, unit = self._negative_part(g, np.float64)
        return -unit * self._support(eigenvalue_bound(A, min(self.rank, A.shape[0])))

    def lower_bound_at(self, g: Any, inner: float, vertex: Vertex) -> float:
        A, unit = self._negative_part(g, np.float64)
        if not unit:
            return self.lower_bound(g, vertex)
        slack = self._slack(BOUND_SHARE, inner / unit)
        return -unit * self._support(eigenvalue_bound(A, min(self.rank, A.shape[0]), slack))

    def _slack(self, share: float, inner: float) -> Callable[[float], float]:
        """Return the error of a sum of eigenvalues that is a share of the gap, given ``<G, X>`` in their unit."""
        # The eigenvalues, and with them the gap, are known from below.
        return lambda total: share * max(0.0, inner + self._support(total)) / self._support(1.0)

    def _negative_part(self, g: Any, dtype: Any) -> tuple[Any, float]:
        """Return minus the symmetric part of g, divided by a power of two so that entries are at most 1; and that."""
        self._check(g.shape, "g has shape")
        G = g.astype(dtype)
        entries = G.data if sp.issparse(G) else G
        largest = float(np.abs(entries).max(initial=0.0))
        if not largest:
            return G, 0.0
        power = math.frexp(largest)[1]
        entries[...] = np.ldexp(entries, -power)
        A = (G + G.T) * G.dtype.type(-0.5)
        return sp.csr_array(A) if sp.issparse(A) else A, math.ldexp(1.0, power)

    def contains(self, x: Any, tol: float = 1e-9) -> bool | None:
        if not isinstance(x, LowRank):
            return super().contains(x, tol)
        self._check(x.shape)
        # In a basis of the span of its factors the matrix has the same eigenvalues except for zeros.
        Q = np.linalg.qr(np.hstack([np.zeros((x.shape[0], 1)), x.U, x.V]))[0]
        core = dot(dot(Q.T, x.U), dot(x.V.T, Q))
        return self.near(core, tol, rounding(x.U, core))

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        self._check(x.shape)
        if (np.abs(x) > (1 + tol) * self.radius + noise).any():
            return False
        x, noise = x / self.radius, noise / self.radius
        slack = tol + max(float(norm(noise)), float(np.trace(noise)))
        return bool(np.abs(x - x.T).max() <= 2 * slack and self._admits(scipy.linalg.eigvalsh((x + x.T) / 2), slack))


def _columns(hint: Vertex | None, n: int, count: int) -> Array | None:
    """Return the `count` vectors of which a vertex is made, or None if it is of another set."""
    parts = () if hint is None else hint.parts or (hint,)
    found = [factors[0] for factors in (part.factors() for part in parts) if factors is not None]
    return np.column_stack(found) if len(found) == count and {len(u) for u in found} == {n} else None


class _ByTrace(_RankOneHull, _Semidefinite):
    """Positive semidefinite matrices whose trace is the radius, or at most the radius."""

    #: Whether the trace is the radius.
    exactly: bool

    @property
    def spectrum(self) -> SpectralRange:
        return SpectralRange(self.radius, 1, self.exactly)

    def _support(self, total: float) -> float:
        return self.radius * (total if self.exactly else max(0.0, total))

    def _made_of(self, W: Array, total: float) -> RankOne:
        if self.exactly or total > 0:
            return RankOne(W[:, 0], W[:, 0], self.radius)
        u = np.eye(1, len(W), dtype=W.dtype)[0]
        return RankOne(u, u, 0.0)

    def _spectra(self, radius: float) -> Simplex | UnitSimplex:
        return Simplex(radius) if self.exactly else UnitSimplex(radius)

    def _admits(self, values: Array, slack: float) -> bool:
        total = values.sum()
        return bool(values[0] >= -slack and (abs(total - 1) <= slack if self.exactly else total <= 1 + slack))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> LowRank:
        shape = self._checked(shape)
        if not self.exactly:
            return LowRank.zeros(shape, dtype)
        u = np.full(shape[0], shape[0] ** -0.5, dtype)
        return LowRank(shape, {RankOne(u, u, self.radius): 1.0}, dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        if shape == (1, 1):
            return 0.0 if self.exactly else self.radius
        return math.sqrt(2) * self.radius


class Spectraplex(_ByTrace):
    r"""Spectraplex :math:`\{X \succeq 0 : \operatorname{tr} X = r\}`: positive semidefinite matrices of trace r.

    All entries of the default starting point are r/n. A vertex is :math:`r\, u u^T` with an eigenvector of the smallest
    eigenvalue of the symmetric part of the gradient. Accuracy and certificates are those of `NuclearBall`: in a run,
    the gap is known to 10 %, and the bound on the eigenvalue is exact up to 256 rows. If the gap is not known, an error
    of 10 % of the spread of the eigenvalues is accepted.

    Parameters
    ----------
    radius : float
        Trace r, positive; 1 by default.
    steps : int
        Number of Lanczos steps before the accuracy is first checked; 10 by default.

    See Also
    --------
    Spectrahedron : The trace is at most r.
    Fantope : Eigenvalues of at most one.
    Simplex : The same for vectors.

    Notes
    -----
    :Family: matrices
    :Uses: semidefinite programs, maximum cut, quantum states, covariance matrices
    :Oracle: :math:`r\,u u^T` with an eigenvector :math:`u` of the smallest eigenvalue of :math:`(G + G^T)/2`
    :Cost: some products with :math:`G` (Lanczos steps)

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.Spectraplex(2.0).lmo(np.diag([1.0, -3.0])))
    array([[0., 0.],
           [0., 2.]])
    """

    exactly = True


class Spectrahedron(_ByTrace):
    r"""Spectrahedron :math:`\{X \succeq 0 : \operatorname{tr} X \le r\}`: semidefinite matrices of trace at most r.

    The default starting point is zero. A vertex is :math:`r\, u u^T` as for `Spectraplex`, or zero if no eigenvalue of
    the gradient is negative.

    Parameters
    ----------
    radius : float
        Bound r on the trace, positive; 1 by default.
    steps : int
        Number of Lanczos steps before the accuracy is first checked; 10 by default.

    See Also
    --------
    Spectraplex : The trace is exactly r.
    NuclearBall : Matrices of any shape.

    Notes
    -----
    :Family: matrices
    :Uses: semidefinite programs with a bounded trace, learning of metrics, covariance matrices of low rank
    :Oracle: :math:`r\,u u^T` as for `Spectraplex`, or :math:`0` if :math:`(G + G^T)/2` has no negative eigenvalue
    :Cost: some products with :math:`G` (Lanczos steps)

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> fw.Spectrahedron(2.0).lmo(np.eye(3)).dot(np.eye(3))
    0.0
    """

    exactly = False


class Fantope(_Semidefinite):
    r"""Fantope :math:`\{0 \preceq X \preceq I : \operatorname{tr} X = k\}`: the hull of projectors of rank k.

    A vertex is the projector onto eigenvectors of the k smallest eigenvalues of the symmetric part of the gradient. The
    eigenvectors are found one after another, with certificates as for `Spectraplex`. The default starting point is k/n
    times the identity.

    Parameters
    ----------
    k : int
        Rank of the projectors.
    steps : int
        Number of Lanczos steps before the accuracy is first checked; 10 by default.

    See Also
    --------
    Spectraplex : k = 1.
    HyperSimplex : The same for vectors.

    Notes
    -----
    :Family: matrices
    :Uses: principal component analysis and its sparse form, other problems over subspaces
    :Oracle: the projector onto eigenvectors of the :math:`k` smallest eigenvalues of :math:`(G + G^T)/2`
    :Cost: :math:`k` times some products with :math:`G` (Lanczos steps)

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.diag(fw.Fantope(2).lmo(np.diag([3.0, 1.0, 2.0])))
    array([0., 1., 1.])
    """

    radius = 1.0
    parameters = ("rank",)
    options = ("steps",)

    def __init__(self, k: int, *, steps: int = 10) -> None:
        self.rank, self.steps = whole(k, "k", 1), whole(steps, "steps", 2)

    def _support(self, total: float) -> float:
        return total

    def _made_of(self, W: Array, total: float) -> Sum:
        return Sum(tuple(RankOne(w, w, 1.0) for w in W.T))

    def _spectra(self, radius: float) -> HyperSimplex:
        return HyperSimplex(self.rank, radius)

    def _admits(self, values: Array, slack: float) -> bool:
        inside = values[0] >= -slack and values[-1] <= 1 + slack
        return bool(inside and abs(values.sum() - self.rank) <= self.rank * slack)

    def _check(self, shape: Shape, given: str = "x has shape") -> None:
        super()._check(shape, given)
        if shape[0] < self.rank:
            raise ValueError(f"{given} {shape}; members of {self!r} have at least {self.rank} rows")

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        n = self._checked(shape)[0]
        return (self.rank / n * np.eye(n)).astype(dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        apart = self.rank if shape is None else min(self.rank, shape[0] - self.rank)
        return math.sqrt(2 * apart)


class SchattenBall(_Matrices):
    r"""Schatten ball :math:`\{X : \|\sigma(X)\|_p \le r\}` for :math:`1 < p \le \infty`.

    The singular values of a member have a p-norm of at most r. With the singular value decomposition :math:`G = U
    \operatorname{diag}(\sigma) V^T` the vertex is :math:`U \operatorname{diag}(s) V^T`, where s is the vertex of the
    p-norm ball for :math:`\sigma`. The oracle is exact. It needs a dense decomposition, except for p = 2 (Frobenius
    norm). The default starting point is zero. A zero gradient gives r in the first entry, or along the diagonal if
    :math:`p = \infty`.

    Parameters
    ----------
    p : float
        Exponent above 1, possibly infinite. For p = 1 use `NuclearBall`.
    radius : float
        Radius r, positive; 1 by default.

    See Also
    --------
    NuclearBall : p = 1.
    LpBall : The same for vectors.

    Notes
    -----
    :Family: matrices
    :Uses: matrices with a bounded spectral norm or Frobenius norm, relaxed rotations (orthogonal Procrustes problem)
    :Oracle: :math:`U\,\mathrm{diag}(s)\,V^T`, where :math:`s` is the answer of the p-norm ball for the singular values
        of :math:`G = U\,\mathrm{diag}(\sigma)\,V^T`
    :Cost: one dense singular value decomposition

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.SchattenBall(np.inf, 2.0).lmo(np.diag([3.0, -1.0])))
    array([[-2.,  0.],
           [ 0.,  2.]])
    """

    parameters = ("p", "radius")
    largest = math.inf  # The oracle takes a dense decomposition, too.

    def __init__(self, p: float, radius: float = 1.0) -> None:
        self.p = number(p, "p", "be above 1 (else NuclearBall), infinity included", lambda x: x > 1)
        self.radius = positive(radius, "radius")

    def lmo(self, g: Any, hint: Vertex | None = None) -> Vertex:
        self._check(g.shape, "g has shape")
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

    def _spectra(self, radius: float) -> LInfBall | LpBall:
        return LInfBall(radius) if math.isinf(self.p) else LpBall(self.p, radius)

    def projection(self, shape: Shape) -> Projection | None:
        if self.p != 2:
            return super().projection(shape)
        self._check(shape)
        return L2Ball(self.radius).projection(shape)

    def norm(self, x: Array) -> float:
        """Return the p-norm of the singular values."""
        sigma = scipy.linalg.svdvals(x)
        return float(sigma[0]) if math.isinf(self.p) else LpBall(self.p).norm(sigma)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        self._check(x.shape)
        unit = math.ldexp(1.0, math.frexp(self.radius)[1])
        with np.errstate(over="ignore"):
            x, off, radius = x / unit, float(norm(noise / unit)), self.radius / unit
        # The norm of the noise is at most its Frobenius norm for p >= 2, and at most the sum of singular values else.
        off *= min(x.shape) ** max(0.0, 1 / self.p - 0.5)
        return bool(np.isfinite(x).all() and self.norm(x) <= radius * (1 + tol) + off)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.zeros(self._checked(shape), dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        if self.p <= 2:
            return 2 * self.radius
        return 2 * self.radius * min(needs_shape(self, shape)) ** (0.5 - 1 / self.p)
