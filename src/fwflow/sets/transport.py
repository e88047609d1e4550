"""Doubly stochastic matrices, and transport plans between two distributions of mass."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from fwflow._numerics import dot
from fwflow._storage import storable
from fwflow._validation import Array, finite_array, number
from fwflow.points.vertices import Permutation, Shape, SparseVertex, Vertex
from fwflow.sets.base import Faces, ParametricSet, Projection, few_ulps, first_bound
from fwflow.sets.programs import Program

# The total masses may differ by this relative rounding error, which sums in single precision have.
_ROUNDED = 1e-6
# Limit on the pivots of POT's network simplex method. Chosen without tuning.
_PIVOTS = 10**8
# A matrix with entries up to _EASY is projected directly, in units of the largest possible entry of a plan. A larger
# one is scaled down first, then up by _GROWTH per stage. Each takes five to twenty Newton steps, and _MOST_STEPS at
# most. Entries beyond _FARTHEST are scaled down to it.
_EASY, _GROWTH, _MOST_STEPS, _FARTHEST = 30.0, 10.0, 500, 1e300
# Share of positive entries below which the products of a Newton step use sparse matrices. Measured for n = 500: dense
# products take 5 ms, sparse ones 1 ms at a share of 0.01 and 4 ms at a share of 0.05.
_SPARSE = 0.03
# Limit on the trials of a line search, which bisects or multiplies by four.
_TRIALS = 40


class _Plans(ParametricSet):
    """Nonnegative matrices with row sums `a` and column sums `b`; vectors are read as matrices row by row."""

    polytope = True
    shape: Shape
    a: Array
    b: Array

    def _checked(self, shape: Shape | None, name: str = "shape") -> Shape:
        """Return `shape`, by default the shape of the set, or raise an error if it has another number of entries."""
        shape = self.shape if shape is None else shape
        if math.prod(shape) != math.prod(self.shape):
            rows, columns = self.shape
            raise ValueError(f"{name} must hold {rows} x {columns} entries for {self!r}; got {shape}")
        return shape

    def near(self, x: Array, tol: float, noise: Array) -> bool:
        x, noise = x.reshape(self.shape), noise.reshape(self.shape)
        with np.errstate(over="ignore"):
            sums = [
                np.abs(x.sum(axis=axis) - side) <= tol * side + noise.sum(axis=axis)
                for axis, side in ((1, self.a), (0, self.b))
            ]
        entries = x >= -tol * np.minimum.outer(self.a, self.b) - noise
        return bool(entries.all() and all(fits.all() for fits in sums))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return np.outer(self.a, self.b / self.b.sum()).reshape(self._checked(shape)).astype(dtype)

    def projection(self, shape: Shape) -> Projection:
        return self._nearest

    def _nearest(self, x: ArrayLike) -> Array:
        """Return the projection, up to rounding, by Newton's method on the dual: ten to a hundred linear systems."""
        x = finite_array(x, "x")
        self._checked(x.shape, "x")
        used, plan = np.ix_(self.a > 0, self.b > 0), np.zeros(self.shape)
        wide = x.reshape(self.shape).astype(np.float64)
        plan[used] = _onto_plans(wide[used], self.a[self.a > 0], self.b[self.b > 0])
        return plan.reshape(x.shape).astype(x.dtype, copy=False)

    def diameter(self, shape: Shape | None = None) -> float:
        """Return an upper bound: an entry is at most the smaller mass of its row and its column."""
        most = np.minimum.outer(self.a, self.b)
        longest = min(float(dot(self.a, most.max(axis=1))), float(dot(self.b, most.max(axis=0))))
        return math.sqrt(2 * longest) if min(self.shape) > 1 else 0.0


class Birkhoff(Faces, _Plans):
    """Birkhoff polytope: doubly stochastic n x n matrices, whose vertices are the permutations.

    The default starting point has all entries 1/n. Vectors of length n^2 are read as matrices row by row, so that
    linear models work too.

    Parameters
    ----------
    n : int
        Number of rows and columns.

    See Also
    --------
    Matching : Assignment on a sparse graph.
    TransportPolytope : Other row and column sums.
    Permutahedron : Permutations of a vector.

    Notes
    -----
    :Family: matrices
    :Uses: assignment, matching of points or graphs, permutations, ranking
    :Oracle: the permutation matrix of the cheapest assignment
    :Cost: :math:`n^3`; less if the vertex of a similar gradient is known

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.Birkhoff(2)
    >>> np.asarray(C.lmo(np.array([[3.0, 1.0], [1.0, 2.0]])))
    array([[0., 1.],
           [1., 0.]])
    >>> C.contains([[0.3, 0.7], [0.7, 0.3]])
    True
    """

    parameters = ("n",)
    random_start_calls = 0

    def __init__(self, n: int) -> None:
        self.n = int(number(n, "n", "be a positive integer", lambda x: 1 <= x < math.inf and x == int(x)))
        self.shape = (self.n, self.n)
        self.a = self.b = np.ones(self.n)

    def lmo(self, g: Array, hint: Vertex | None = None) -> Permutation:
        cost = g.reshape(self.shape).astype(np.float64, copy=False)
        prices = None if hint is None else hint.advice
        # Prices much larger than the costs would lose the costs to rounding.
        if prices is None or len(prices) != self.n or 1e-3 * np.abs(prices).max() > np.abs(cost).max():
            prices = np.zeros(self.n)
        # Prices do not change the optimum. With good prices most rows are assigned at once.
        reduced = cost - prices
        reduced -= reduced.min(axis=1, keepdims=True)
        rows, columns = linear_sum_assignment(reduced)
        prices = prices + (reduced - reduced[rows, columns][:, None]).min(axis=0)
        return Permutation.of(columns, g.shape, prices - prices.mean())

    def random_start(self, seed: int, shape: Shape | None = None) -> Array:
        """Return the midpoint of the centre and the mean of n random permutations; no oracle is called."""
        rng, x = np.random.default_rng(seed), self.start(self.shape) / 2
        for _ in range(self.n):
            x[np.arange(self.n), rng.permutation(self.n)] += 0.5 / self.n
        return x.reshape(self.shape if shape is None else shape)

    def away_vertex(self, g: Array, x: Array, noise: Array | float = 0.0) -> Permutation:
        used = (x > noise + few_ulps(x.dtype)).reshape(self.shape)
        _, columns = linear_sum_assignment(np.where(used, -g.reshape(self.shape).astype(np.float64), np.inf))
        return Permutation.of(columns, g.shape)

    def max_step(self, x: Array, direction: Array, noise: Array | float = 0.0) -> float:
        return first_bound(x, -direction, noise + few_ulps(x.dtype))


def _onto_plans(Y: Array, a: Array, b: Array) -> Array:
    """Return the matrix nearest to Y among the plans with positive row sums a and column sums b."""
    m, n = Y.shape
    if m < n:  # The linear systems have one unknown per column.
        return _onto_plans(Y.T, b, a).T
    unit, largest = float(min(a.max(), b.max())), float(np.abs(Y).max()) or 1.0
    a, b, size = a / unit, b / unit, min(largest / unit, _FARTHEST)  # In this unit, no entry of a plan exceeds one.
    Z = Y / largest
    Z -= Z.mean(axis=1, keepdims=True)
    Z -= Z.mean(axis=0)  # Constants added to rows or columns do not change the projection.
    stages = max(0, math.ceil(math.log(max(size, 1.0) / _EASY) / math.log(_GROWTH)))
    Z = Z * (size / _GROWTH**stages) + np.add.outer(a / n, (b - b.mean()) / m)
    for _ in range(stages):
        Z = _GROWTH * _balanced(Z, a, b, 1e-3)
    return unit * _with_sums(np.maximum(_balanced(Z, a, b, 0.0), 0.0), a, b)


def _balanced(Z: Array, a: Array, b: Array, tol: float) -> Array:
    """Add constants to the rows and columns of Z so that its positive part has the sums a and b up to `tol`.

    Semismooth Newton steps with a line search find them (Li, Sun & Toh, 2020). They are added to Z in every step, so
    that rounding errors of large entries do not reach the positive entries, which are at most one in the end.
    """
    m, n, eps = *Z.shape, float(np.finfo(float).eps)
    for _ in range(_MOST_STEPS):
        # A row or column without positive entries has no second derivative, so that its constant is raised first.
        for lines, sums in ((Z, a), (Z.T, b)):
            top = lines.max(axis=1)
            lines += np.where(top > 0, 0.0, sums / lines.shape[1] - top)[:, None]
        X = np.maximum(Z, 0.0)
        r, c = X.sum(axis=1) - a, X.sum(axis=0) - b
        off = float(max(np.abs(r).max(), np.abs(c).max()))
        if off <= max(m * eps, tol):
            break
        M = (X > 0).astype(np.float64)
        ridge = 1e-3 * min(1.0, off) + 1e-13
        rows = M.sum(axis=1) + ridge
        few = sp.csr_array(M) if np.count_nonzero(M) < _SPARSE * M.size else None
        S = -dot(M.T, M / rows[:, None]) if few is None else -dot(few.T, dot(sp.diags_array(1 / rows), few)).toarray()
        S[np.diag_indices(n)] += M.sum(axis=0) + ridge
        factor = scipy.linalg.cho_factor(S, check_finite=False)
        dv = scipy.linalg.cho_solve(factor, dot(M.T, r / rows) - c, check_finite=False)
        du = -(r + dot(M, dv)) / rows
        direction, slope, total = du[:, None] + dv, float(dot(r, du) + dot(c, dv)), float(dot(a, du) + dot(b, dv))
        value, low, high, length = 0.5 * float(np.vdot(X, X)), 0.0, math.inf, 1.0
        for _ in range(_TRIALS):
            moved = np.maximum(Z + length * direction, 0.0)
            if 0.5 * float(np.vdot(moved, moved)) - length * total > value * (1 + 4 * eps) + 1e-4 * length * slope:
                high = length
            elif float(dot(moved.sum(axis=1) - a, du) + dot(moved.sum(axis=0) - b, dv)) < 0.9 * slope:
                low = length  # Parts of the plan without common rows and columns move apart at a constant slope.
            else:
                break
            length = 4 * low if math.isinf(high) else (low + high) / 2
        Z = Z + length * direction
    return Z


def _with_sums(X: Array, a: Array, b: Array) -> Array:
    """Return X with the sums a and b, of which its own differ by rounding errors (Altschuler et al., 2017)."""
    X = X * np.minimum(1.0, a / np.maximum(X.sum(axis=1), a / 2))[:, None]
    X *= np.minimum(1.0, b / np.maximum(X.sum(axis=0), b / 2))
    r, c = np.maximum(a - X.sum(axis=1), 0.0), np.maximum(b - X.sum(axis=0), 0.0)
    few = 64 * float(np.finfo(float).eps)
    if (r > few * a).any() or (c > few * b).any():  # Smaller errors stay, so that zeros stay zero.
        X += np.outer(r, c / max(r.sum(), c.sum()))
        X[:, b.argmax()] += np.maximum(a - X.sum(axis=1), 0.0)
        X[a.argmax()] += np.maximum(b - X.sum(axis=0), 0.0)
    return X


@storable("plan", valid=lambda v: v.in_order)
@dataclass(frozen=True, eq=False)
class Plan(SparseVertex):
    """A transport plan by its entries. `advice` holds dual prices, which certify that the plan is optimal."""

    advice: Array | None = None

    @property
    def storage(self) -> int:
        return super().storage + (0 if self.advice is None else len(self.advice))


class TransportPolytope(_Plans):
    r"""Transport polytope :math:`\{X \ge 0 : X \mathbf 1 = a,\; X^T \mathbf 1 = b\}`: plans that carry mass a to b.

    A vertex has at most m + n - 1 nonzero entries. POT's network simplex method finds it
    (``pip install 'fwflow[ot]'``), starting from the dual prices of the hint. Without POT, HiGHS finds it, with the
    same accuracy if all masses are within eight orders of magnitude. Both give prices that certify the vertex. The
    default starting point is the outer product of a and b divided by the total mass. Vectors of length m n are read as
    matrices row by row, so that linear models work too.

    Parameters
    ----------
    a, b : (m,) and (n,) array_like
        Masses of the rows and of the columns, non-negative and with the same positive sum. A difference of the sums
        that is due to rounding is removed by scaling b.

    See Also
    --------
    Birkhoff : All masses are one.
    FlowPolytope : Transport on a network.

    Notes
    -----
    :Family: matrices
    :Uses: optimal transport, also with quadratic regularisation, comparison of distributions, transport of goods
    :Oracle: the cheapest transport plan, which has at most :math:`m + n - 1` nonzero entries, by POT or HiGHS
    :Cost: one run of the network simplex method

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.TransportPolytope([0.5, 0.5], [0.25, 0.75])
    >>> np.asarray(C.lmo(np.array([[0.0, 1.0], [1.0, 0.0]])))
    array([[0.25, 0.25],
           [0.  , 0.5 ]])
    """

    parameters = ("a", "b")

    def __init__(self, a: ArrayLike, b: ArrayLike) -> None:
        self.a, self.b = (_masses(side, name) for side, name in ((a, "a"), (b, "b")))
        mass, other = float(self.a.sum()), float(self.b.sum())
        if abs(mass - other) > _ROUNDED * mass:
            raise ValueError(f"a and b must have the same mass; their sums are {mass:g} and {other:g}")
        self.b = self.b * (mass / other)
        self.shape = (len(self.a), len(self.b))

    def __repr__(self) -> str:
        return f"TransportPolytope({self.shape[0]} x {self.shape[1]})"

    def lmo(self, g: Array, hint: Vertex | None = None) -> Plan:
        self._checked(g.shape, "g")
        cost = g.reshape(self.shape).astype(np.float64)
        power = math.frexp(float(np.abs(cost).max()))[1]
        advice = None if hint is None else hint.advice
        if advice is not None and len(advice) != sum(self.shape):
            advice = None
        emd = _network_simplex()
        unit_cost, near = np.ldexp(cost, -power), None if advice is None else np.ldexp(advice, -power)
        plan, prices = self._by_program(unit_cost) if emd is None else self._by_network(emd, unit_cost, near)
        indices = np.flatnonzero(plan)
        return Plan(indices, plan.reshape(-1)[indices], g.shape, np.ldexp(prices, power) if cost.any() else 0 * prices)

    def _by_network(self, emd: Callable[..., Any], cost: Array, advice: Array | None) -> tuple[Array, Array]:
        """Return a plan and prices by POT, for a total mass of one, because POT's tolerance for zero is absolute."""
        near = None if advice is None or not np.isfinite(advice).all() else tuple(np.split(advice, [len(self.a)]))
        mass = float(self.a.sum())
        options = {"numItermax": _PIVOTS, "log": True, "check_marginals": False, "potentials_init": near}
        plan, log = emd(self.a / mass, self.b / mass, cost, **options)
        if log["warning"] is not None:
            raise RuntimeError(f"POT could not minimise over the plans: {log['warning']}")
        return mass * plan, np.append(log["u"], log["v"])

    def _by_program(self, cost: Array) -> tuple[Array, Array]:
        program, cells, kept, units = self._program
        plan, prices = np.zeros(self.shape), np.zeros(sum(self.shape))
        plan[cells], found = program.vertex(cost[cells].reshape(-1))
        prices[kept] = np.ldexp(found, units)
        return plan, prices

    @cached_property
    def _program(self) -> tuple[Program, Array, Array, Array]:
        """The linear program, the mask of its cells, the indices of its sums, and the powers of two for the prices.

        Left out are rows and columns without mass, and the largest sum, which follows from the others.
        """
        cells = np.logical_and.outer(self.a > 0, self.b > 0)
        rows, columns = np.nonzero(cells)
        masses, size = np.append(self.a, self.b), len(rows)
        places = np.append(rows, len(self.a) + columns), np.tile(np.arange(size), 2)
        sums = sp.csr_array((np.ones(2 * size), places), shape=(len(masses), size))
        kept = np.flatnonzero(masses)
        kept = np.delete(kept, int(masses[kept].argmax()))
        program = Program(None, None, sums[kept], masses[kept], np.zeros(size), np.full(size, np.inf))
        first = program.rows.indptr[:-1]
        units = np.frexp(program.rows.data[first])[1] - 1 - program.exponent[program.rows.indices[first]]
        return program, cells, kept, units

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """Return the dual value of the prices of the rows, with the best prices of the columns for them."""
        cost, prices = np.asarray(g, dtype=np.float64).reshape(self.shape), vertex.advice
        if prices is None or len(prices) != sum(self.shape):
            return self.lower_bound(g, self.vertex(cost))
        u = prices[: len(self.a)]
        v = (cost - u[:, None])[self.a > 0].min(axis=0)
        return float(dot(self.a, u) + dot(self.b, v))


def _masses(value: ArrayLike, name: str) -> Array:
    masses = finite_array(value, name, ndim=1, dtype=np.float64)
    if (masses < 0).any():
        place = int(masses.argmin())
        raise ValueError(f"{name} must not be negative; {name}[{place}] is {masses[place]:g}")
    if not masses.sum() > 0:
        raise ValueError(f"{name} must have a positive sum; all entries are zero")
    return masses


def _network_simplex() -> Callable[..., Any] | None:
    """Return POT's network simplex method, or None if POT is missing. The import takes a second."""
    try:
        from ot.lp import emd  # type: ignore[import-untyped]
    except ImportError:
        return None
    return emd
