"""Polytopes given by their vertices or by their inequalities."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import linprog
from scipy.spatial.distance import pdist

from fwflow._validation import Array, finite_array, float_array, float_dtype, whole
from fwflow.points import DenseVertex, Shape, Vertex
from fwflow.sets.base import ConstraintSet, finite

# The finest that HiGHS offers, for objectives scaled to a largest coefficient of one.
_HIGHS = 1e-10


class ConvexHull(ConstraintSet):
    """The convex hull of given vertices, one per row. It starts at their mean; ties go to the first row.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> triangle = fw.ConvexHull([[-1, 0], [0, 1], [1, 0]])
    >>> np.asarray(triangle.lmo(np.array([0.0, -1.0])))
    array([0., 1.])
    """

    def __init__(self, vertices: ArrayLike) -> None:
        self.vertices = finite_array(vertices, "vertices", ndim=2)
        if 0 in self.vertices.shape:
            raise ValueError(f"vertices is empty: its shape is {self.vertices.shape}")
        self.shape = (self.vertices.shape[1],)

    polytope = True

    def __repr__(self) -> str:
        return f"ConvexHull({self.vertices.shape[0]} vertices in dimension {self.shape[0]})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(self.vertices[int((self.vertices @ g).argmin())].astype(float_dtype(g.dtype), copy=False))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.vertices.mean(axis=0).astype(dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = finite(x)
        if x is None:
            return False
        scale = float(np.abs(self.vertices).max()) or 1.0
        V, x = self.vertices / scale, x / scale
        # The smallest t such that some mixture of the vertices is within t of x in every coordinate.
        N, n = V.shape
        rows = np.hstack([V.T, -np.ones((n, 1))]), np.hstack([-V.T, -np.ones((n, 1))])
        answer = linprog(
            np.eye(1, N + 1, N)[0],
            A_ub=np.vstack(rows),
            b_ub=np.concatenate([x, -x]),
            A_eq=np.hstack([np.ones((1, N)), [[0.0]]]),
            b_eq=[1.0],
        )
        # HiGHS itself works to 1e-7, so nothing finer can be asked of this test.
        return bool(answer.status == 0 and answer.fun <= max(tol, 1e-7))

    def diameter(self, shape: Shape | None = None) -> float:
        return float(pdist(self.vertices).max()) if len(self.vertices) > 1 else 0.0


class Polytope(ConstraintSet):
    r""":math:`\{x : Ax \le b,\; Cx = d,\; l \le x \le u\}`, minimised over by HiGHS' simplex method.

    It starts at the vertex that HiGHS finds for a zero objective. The diameter is that of the
    bounding box, an upper bound.

    Parameters
    ----------
    A, b, C, d : arrays or sparse matrices, optional
        Inequalities and equalities.
    lower, upper : float or array, optional
        Bounds; none by default.
    n : int, optional
        The dimension, needed only if nothing else tells.
    """

    def __init__(
        self,
        A: Any = None,
        b: ArrayLike | None = None,
        C: Any = None,
        d: ArrayLike | None = None,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        n: int | None = None,
    ) -> None:
        self.A, self.b = _system(A, b, "A", "b")
        self.C, self.d = _system(C, d, "C", "d")
        bounds = [
            float_array(-np.inf if lower is None else lower, "lower"),
            float_array(np.inf if upper is None else upper, "upper"),
        ]
        for name, bound in zip(("lower", "upper"), bounds, strict=True):
            if bound.ndim > 1:
                raise ValueError(f"{name} must be a number or a vector; got shape {bound.shape}")
        told = [
            None if n is None else whole(n, "n", 1),
            *(M.shape[1] for M in (self.A, self.C) if M is not None),
            *(x.size for x in bounds if x.ndim),
        ]
        dimensions = {int(t) for t in told if t is not None}
        if len(dimensions) != 1:
            raise ValueError(f"n, A, C, lower and upper must agree on one dimension; they say {sorted(dimensions)}")
        self.shape = (dimensions.pop(),)
        self.lower, self.upper = (np.broadcast_to(x, self.shape) for x in bounds)
        if np.isnan(self.lower).any() or np.isnan(self.upper).any():
            raise ValueError("lower and upper must not be NaN")
        self._start = self._solve(np.zeros(self.shape))

    polytope = True

    def __repr__(self) -> str:
        return f"Polytope(dimension {self.shape[0]})"

    def _solve(self, g: Array) -> Array:
        scale = float(np.abs(g).max()) or 1.0  # HiGHS' tolerances are absolute
        return np.asarray(self._minimise(g / scale).x)

    def _minimise(self, g: Array) -> Any:
        answer = linprog(
            g,
            A_ub=self.A,
            b_ub=self.b,
            A_eq=self.C,
            b_eq=self.d,
            bounds=np.column_stack([self.lower, self.upper]),
            method="highs-ds",
            options={"dual_feasibility_tolerance": _HIGHS, "primal_feasibility_tolerance": _HIGHS},
        )
        if answer.status == 2:
            raise ValueError("A, b, C, d, lower, upper describe an empty set")
        if answer.status == 3:
            raise ValueError("A, b, C, d, lower, upper describe an unbounded set; Frank-Wolfe needs a bounded one")
        if answer.status != 0:
            raise RuntimeError(f"HiGHS could not minimise over the polytope: {answer.message}")
        return answer

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(self._solve(g.astype(np.float64)).astype(float_dtype(g.dtype), copy=False))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._start.astype(dtype)

    def contains(self, x: Any, tol: float = 1e-9) -> bool:
        x = finite(x)
        if x is None:
            return False
        # HiGHS' own feasibility tolerance is 1e-7: its vertices are no better.
        slack = max(tol, 1e-7) * max(1.0, float(np.abs(x).max()))
        inside = (x >= self.lower - slack).all() and (x <= self.upper + slack).all()
        for M, rhs, equal in ((self.A, self.b, False), (self.C, self.d, True)):
            if M is not None:
                excess = M @ x - rhs
                violation = np.abs(excess) if equal else excess
                inside = inside and (violation <= slack * (1 + _row_sums(M))).all()
        return bool(inside)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """The value of a dual point, which holds however loosely HiGHS has solved the problem."""
        scale = float(np.abs(g).max()) or 1.0
        g = np.asarray(g, dtype=np.float64) / scale
        answer = self._minimise(g)
        reduced, value = g, 0.0
        for M, rhs, dual in ((self.A, self.b, answer.ineqlin.marginals), (self.C, self.d, answer.eqlin.marginals)):
            if M is not None and rhs is not None:
                y = np.minimum(dual, 0) if M is self.A else dual
                reduced, value = reduced - M.T @ y, value + float(rhs @ y)
        lower, upper = self._box
        return scale * (value + float(np.minimum(reduced * lower, reduced * upper).sum()))

    @cached_property
    def _box(self) -> tuple[Array, Array]:
        """The bounds, and linear programs where they are not finite."""
        lower, upper = self.lower.copy(), self.upper.copy()
        for j in np.flatnonzero(~np.isfinite(lower)).tolist():
            lower[j] = self._solve(np.eye(1, self.shape[0], j)[0])[j]
        for j in np.flatnonzero(~np.isfinite(upper)).tolist():
            upper[j] = self._solve(-np.eye(1, self.shape[0], j)[0])[j]
        return lower, upper

    def diameter(self, shape: Shape | None = None) -> float:
        unit = np.eye(self.shape[0])
        return float(np.linalg.norm([self._solve(-e) @ e - self._solve(e) @ e for e in unit]))


def _row_sums(M: Any) -> Array:
    return np.asarray(abs(M).sum(axis=1)).reshape(-1)


def _system(M: Any, rhs: ArrayLike | None, matrix: str, vector: str) -> tuple[Any, Array | None]:
    if (M is None) != (rhs is None):
        raise ValueError(f"{matrix} and {vector} go together; only one was given")
    if M is None or rhs is None:
        return None, None
    if sp.issparse(M):
        M = sp.csr_array(M)
        M.data = finite_array(M.data, matrix)
    else:
        M = finite_array(M, matrix, ndim=2)
    side = finite_array(rhs, vector, ndim=1)
    if M.shape[0] != len(side):
        raise ValueError(f"{matrix} has {M.shape[0]} rows and {vector} has {len(side)} entries; they must agree")
    return M, side
