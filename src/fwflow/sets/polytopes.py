"""Polytopes given by their vertices or by their inequalities, and the hulls of their integer points."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.spatial.distance import pdist

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, quietly
from fwflow._validation import Array, conversion, describe, finite_array, float_array, float_dtype, whole
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import KnownSet, ParametricSet, check_shape
from fwflow.sets.membership import mixture_reaches_zero
from fwflow.sets.mps import read
from fwflow.sets.programs import Program

# Smallest relative tolerance of membership in a hull: squares of shorter distances are lost to rounding.
_RESOLVED = float(np.sqrt(np.finfo(np.float64).eps))
# Smallest relative tolerance of membership in a polytope: HiGHS drops coefficients below 1e-9 of the largest in a row.
_HIGHS = 1e-8
# Exponent of two of the largest cost: HiGHS stops at an absolute gap of 1e-6, which is then 1e-10 of the largest cost.
_LARGE = 14
# Largest distance from an integer that HiGHS leaves, and rounding in a mixture.
_INTEGRAL = 1e-6


class ConvexHull(ParametricSet):
    """Convex hull of given points, one per row.

    The default starting point is the mean of the points. Ties go to the first row. The tolerance of membership is
    relative to the width of each coordinate, and at least 1.5e-8.

    Parameters
    ----------
    vertices : (m, n) array_like
        The points, one per row. A point inside the hull of the others does no harm.

    See Also
    --------
    Polytope : Polytope given by inequalities.
    LinearImage : Image of another set under a matrix.

    Notes
    -----
    :Family: vectors
    :Uses: nearest point of a hull, mixtures of given points, small polytopes that are given by vertices
    :Oracle: the row of :math:`V` that belongs to the smallest entry of :math:`Vg`; the rows of :math:`V` are the points
    :Cost: :math:`mn` for :math:`m` points

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> triangle = fw.ConvexHull([[-1, 0], [0, 1], [1, 0]])
    >>> np.asarray(triangle.lmo(np.array([0.0, -1.0])))
    array([0., 1.])
    """

    polytope = True
    shape: Shape
    parameters = ("vertices",)

    def __init__(self, vertices: ArrayLike) -> None:
        self.vertices = finite_array(vertices, "vertices", ndim=2)
        if 0 in self.vertices.shape:
            raise ValueError(f"vertices is empty: its shape is {self.vertices.shape}")
        self.shape = (self.vertices.shape[1],)

    def __repr__(self) -> str:
        return f"ConvexHull({self.vertices.shape[0]} vertices in dimension {self.shape[0]})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        return DenseVertex(self.vertices[int(dot(self.vertices, g).argmin())].astype(float_dtype(g.dtype), copy=False))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.vertices.mean(axis=0).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        check_shape(self, x)
        V, tol = self.vertices.astype(np.float64, copy=False), max(tol, _RESOLVED)
        low, high = V.min(axis=0), V.max(axis=0)
        slack = (tol * high - tol * low) + noise
        if (x < low - slack).any() or (x > high + slack).any():
            return False
        # Coordinates in which all vertices agree have been checked above. A point close to a vertex is a member.
        wide = high > low
        apart = (V[:, wide] - x[wide]) / slack[wide]
        if (np.abs(apart) <= 1).all(axis=1).any():
            return True

        def lowest(z: Array) -> tuple[Array, float]:
            along = dot(apart, z)
            return apart[int(along.argmin())], float(along.min())

        unit = float(np.abs(apart).max())
        nearest = apart[int(((apart / unit) ** 2).sum(axis=1).argmin())]
        return mixture_reaches_zero(nearest, lowest, unit) is True

    def diameter(self, shape: Shape | None = None) -> float:
        return float(pdist(self.vertices).max()) if len(self.vertices) > 1 else 0.0


class Polytope(ParametricSet):
    r"""Polytope :math:`\{x : Ax \le b,\; Cx = d,\; l \le x \le u\}`, with the simplex method of HiGHS as oracle.

    The default starting point is the vertex that HiGHS finds for a zero objective. The diameter is that of the bounding
    box, an upper bound, and takes two linear programs per dimension.

    HiGHS works in units of the set: the largest absolute value of each entry that given or implied bounds allow. The
    tolerance of membership is at least 1e-8, relative to these units for bounds and to the sum of the terms for rows.
    If a set is small and far from the origin, describe it around the origin and shift it.

    Parameters
    ----------
    A, b : (m, n) array or sparse matrix, (m,) array_like, optional
        Inequalities ``A x <= b``; none by default.
    C, d : (k, n) array or sparse matrix, (k,) array_like, optional
        Equalities ``C x = d``; none by default.
    lower, upper : float or array_like, optional
        Bounds; none by default.
    n : int, optional
        Dimension; needed only if no other argument determines it.
    warm_start : bool
        Whether the simplex method starts from the basis of the vertex that the oracle gets as a hint, which is faster
        on large programs. It needs highspy: ``pip install 'fwflow[mps]'``. False by default.

    See Also
    --------
    Box : Bounds only.
    ConvexHull : Polytope given by its vertices.
    MixedInteger : Some entries are integers.

    Notes
    -----
    :Family: vectors
    :Uses: linear constraints, planning, portfolio optimisation with limits on sectors or turnover
    :Oracle: a vertex (basic solution), by the simplex method of HiGHS
    :Cost: one linear program

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Polytope([[1.0, 1.0]], [3.0], lower=0.0, upper=2.0)
    >>> np.asarray(C.lmo(np.array([-2.0, -1.0])))
    array([2., 1.])
    >>> C.contains([1.0, 1.0]), C.contains([2.0, 2.0])
    (True, False)
    """

    polytope = True
    shape: Shape
    parameters = ("A", "b", "C", "d", "lower", "upper")

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
        warm_start: bool = False,
    ) -> None:
        self.A, self.b = _system(A, b, "A", "b")
        self.C, self.d = _system(C, d, "C", "d")
        bounds = []
        for name, given, default in (("lower", lower, -np.inf), ("upper", upper, np.inf)):
            bounds.append(float_array(default if given is None else given, name))
            if bounds[-1].ndim > 1:
                raise ValueError(f"{name} must be a number or a vector; got shape {bounds[-1].shape}")
        dimensions = {M.shape[1] for M in (self.A, self.C) if M is not None} | {x.size for x in bounds if x.ndim}
        dimensions |= set() if n is None else {whole(n, "n", 1)}
        if len(dimensions) != 1:
            raise ValueError(f"n, A, C, lower and upper must agree on one dimension; they give {sorted(dimensions)}")
        self.shape = (dimensions.pop(),)
        self.lower, self.upper = (np.broadcast_to(x, self.shape) for x in bounds)
        if np.isnan(self.lower).any() or np.isnan(self.upper).any():
            raise ValueError("lower and upper must not be NaN")
        self._program = Program(self.A, self.b, self.C, self.d, self.lower, self.upper, bool(warm_start))
        self._start = self._program.vertex(np.zeros(self.shape))[0]

    @classmethod
    def read_mps(cls, path: str | PathLike[str]) -> Self:
        """Read the polytope of a linear program from an MPS file (``.mps``, ``.mps.gz``), in the order of its columns.

        The objective is ignored; ``fwflow.sets.mps.read`` returns it. Needs highspy: ``pip install 'fwflow[mps]'``.
        """
        found = read(path)
        if found.integrality.any():
            raise ValueError(f"{path} has columns that must be integers; MixedInteger.read_mps reads it")
        return cls(*found[:4], lower=found.lower, upper=found.upper)

    def __repr__(self) -> str:
        return f"Polytope(dimension {self.shape[0]})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        check_shape(self, g, "g")
        x, advice = self._program.vertex(g.astype(np.float64), None if hint is None else hint.advice)
        return DenseVertex(x.astype(float_dtype(g.dtype), copy=False), advice=advice)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._start.astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        check_shape(self, x)
        return self._program.holds(x, max(tol, _HIGHS), noise)

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """Return the value of a dual point, which is a lower bound even if HiGHS has solved the problem inaccurately.

        The oracle's vertices carry a dual point; for another vertex a linear program is solved. For entries without
        given or implied bounds, it is certified only up to rounding errors relative to the vertex.
        """
        return self._program.bound(np.asarray(g, dtype=np.float64), np.asarray(vertex), vertex.advice)

    def diameter(self, shape: Shape | None = None) -> float:
        return self._program.box_diagonal(np.arange(self.shape[0]))


def _system(M: Any, rhs: ArrayLike | None, matrix: str, vector: str) -> tuple[Any, Array | None]:
    if advice := conversion(M):
        raise ValueError(f"{matrix} must be an array or a sparse matrix; got {describe(M)}{advice}")
    if (M is None) != (rhs is None):
        raise ValueError(f"{matrix} and {vector} must be given together; one is missing")
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


class MixedInteger(KnownSet):
    r"""Hull of the points of a polytope with some integer entries: :math:`\{x : Ax \le b,\; Cx = d,\; l \le x \le u\}`.

    SciPy's `milp` (branch and bound of HiGHS) finds the best point. Integer entries are then rounded, and the cost is
    minimised over the other entries once more. If points tie, the result may lie between vertices. The default starting
    point is the point found for a zero objective. The diameter is that of the `Polytope` without integers, an upper
    bound. Points outside of this polytope are not members, points in it with the required integers are members, and for
    other points membership is unknown.

    Parameters
    ----------
    A, b, C, d, lower, upper, n
        As for `Polytope`.
    integrality : bool or (n,) array of bool
        Entries that must be integers; all by default.

    See Also
    --------
    Polytope : No integers.
    Matching : Matchings of a graph.
    SpanningTree : Spanning trees of a graph.

    Notes
    -----
    :Family: graphs and integers
    :Uses: knapsack, scheduling and other combinatorial problems with linear constraints
    :Oracle: an optimal point, by branch and bound of HiGHS
    :Cost: one mixed-integer program

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> knapsack = fw.MixedInteger([[2.0, 3.0, 4.0]], [6.0], lower=0, upper=1)
    >>> np.asarray(knapsack.lmo(np.array([-1.0, -2.0, -2.0])))
    array([1., 0., 1.])
    """

    polytope = True
    shape: Shape

    def __init__(
        self,
        A: Any = None,
        b: ArrayLike | None = None,
        C: Any = None,
        d: ArrayLike | None = None,
        *,
        lower: ArrayLike | None = None,
        upper: ArrayLike | None = None,
        integrality: ArrayLike = True,
        n: int | None = None,
    ) -> None:
        self.relaxation = Polytope(A, b, C, d, lower=lower, upper=upper, n=n)
        self.shape = self.relaxation.shape
        which = finite_array(integrality, "integrality")
        if which.shape not in ((), self.shape) or not np.isin(which, (0, 1)).all():
            raise ValueError(f"integrality must be 0 or 1, for all or for each of the {self.shape[0]} entries")
        self.integrality = np.broadcast_to(which.astype(bool), self.shape)
        P = self.relaxation
        self._rows = [
            LinearConstraint(M, low, side)
            for M, low, side in ((P.A, -np.inf, P.b), (P.C, P.d, P.d))
            if M is not None and M.shape[0]
        ]
        self._start = self._best(np.zeros(self.shape))

    @classmethod
    def read_mps(cls, path: str | PathLike[str]) -> Self:
        """Read the set of a mixed-integer program from an MPS file, as `Polytope.read_mps` does."""
        found = read(path)
        return cls(*found[:4], lower=found.lower, upper=found.upper, integrality=found.integrality)

    def __repr__(self) -> str:
        return f"MixedInteger({int(self.integrality.sum())} integers in dimension {self.shape[0]})"

    def fingerprint(self) -> str:
        return fingerprint(self, polytope=self.relaxation.fingerprint(), integrality=self.integrality)

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        check_shape(self, g, "g")
        return DenseVertex(self._best(g.astype(np.float64)).astype(float_dtype(g.dtype), copy=False))

    def _solve(self, cost: Array, lower: Array, upper: Array) -> Any:
        return quietly(milp)(
            cost,
            integrality=self.integrality.astype(int),
            bounds=Bounds(lower, upper),
            constraints=self._rows,
            options={"mip_rel_gap": 0.0},
        )

    def has_integer_point(self, lower: Array, upper: Array) -> bool:
        """Return whether there is a point of the set with the required integers between other bounds.

        Parameters
        ----------
        lower, upper : arrays
            Bounds of all entries, in place of those of the set.
        """
        return self._solve(np.zeros(self.shape), lower, upper).x is not None

    def _best(self, g: Array) -> Array:
        cost = np.ldexp(g, _LARGE - math.frexp(float(np.abs(g).max()))[1])
        P = self.relaxation
        answer = self._solve(cost, P.lower, P.upper)
        if answer.status == 2:
            raise ValueError("A, b, C, d, lower, upper, integrality describe an empty set")
        if answer.status in (3, 4):
            raise ValueError(
                f"g has no best point over {self!r}: without integrality it must be bounded; {answer.message}"
            )
        if answer.x is None:
            raise RuntimeError(f"HiGHS could not minimise over {self!r}: {answer.message}")
        x = np.where(self.integrality, np.round(answer.x), answer.x) + 0.0
        if self.integrality.all():
            return x
        fixed = np.column_stack([np.where(self.integrality, x, end) for end in (P.lower, P.upper)])
        rest = quietly(linprog)(cost, P.A, P.b, P.C, P.d, bounds=fixed, method="highs-ds")
        return rest.x if rest.status == 0 else answer.x

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._start.astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        inside = self.relaxation.near(x, tol, noise)
        off = np.abs(x - np.round(x))[self.integrality]
        return inside if not inside or (off <= max(tol, _INTEGRAL)).all() else None

    def diameter(self, shape: Shape | None = None) -> float:
        return self.relaxation.diameter(shape)
