"""Sets from models of other libraries: the values of a variable under constraints of CVXPY, and programs of HiGHS."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, norm
from fwflow._validation import Array, InputError, describe, float_dtype
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import AffineImage, ConstraintSet, KnownSet, check_shape
from fwflow.sets.highs import load_highspy
from fwflow.sets.mps import of_lp
from fwflow.sets.polytopes import MixedInteger, Polytope
from fwflow.sets.products import Image
from fwflow.sets.programs import Program

# Tolerances of Clarabel, tried in this order, for costs whose largest entry is 1. Its own default is 1e-8.
TOLERANCES = (1e-10, 1e-8)
# Multiple of the tolerance with which a solution counts as solved if Clarabel makes no more progress. Chosen so that
# values of oracles are exact to 1e-6 of the largest cost.
_REDUCED = 1e2
# Smallest relative tolerance of membership: that of HiGHS (as in `Polytope`), and the accuracy of Clarabel's distances.
_LINEAR, _CONIC = 1e-8, 1e-6
# Largest number of entries for which the diameter of a conic set is computed, by two conic programs for each.
_MOST_WIDTHS = 100
# Attributes of CVXPY variables that CVXPY keeps as bounds and integrality, so that the columns are the entries.
_KEPT = frozenset({"nonneg", "nonpos", "bounds", "integer", "boolean"})
# Bound that no entry of a solution exceeds, relative to the solutions that were found at construction. It multiplies
# the residual of a dual point, which is about 1e-10.
_MARGIN = 4.0

_EMPTY = "the constraints have no solution: no value of {name} satisfies all of them"
_UNBOUNDED = (
    "{name} is unbounded: some entries can grow without limit under these constraints. Frank-Wolfe needs a bounded "
    "set; add bounds, for example {name} <= 1e3 and {name} >= -1e3"
)
# Branch and bound solves linear programs without the integrality. It cannot find out whether integers are bounded.
_RELAXED = (
    "{name} is unbounded without the integrality: some entries can grow without limit under the linear constraints. "
    "HiGHS needs a bounded linear program, even if there are few integer points; add bounds, for example {name} <= 1e3 "
    "and {name} >= -1e3"
)


def load_cvxpy(purpose: str) -> Any:
    """Return the module cvxpy, or raise an error with the command that installs it."""
    try:
        import cvxpy
    except ImportError:
        raise ImportError(f"{purpose} needs cvxpy: pip install 'fwflow[cvxpy]'") from None
    return cvxpy


def from_highs(model: Any) -> Polytope | MixedInteger:
    """Return the feasible set of a linear or mixed-integer program of HiGHS, in the order of its columns.

    The objective is ignored. The set is a copy: later changes of the model have no effect. Needs highspy:
    ``pip install 'fwflow[mps]'``.

    Parameters
    ----------
    model : highspy.Highs, highspy.HighsModel or highspy.HighsLp
        The program.

    Returns
    -------
    Polytope or MixedInteger
        A `MixedInteger` if some columns must be integers. Otherwise a `Polytope`, for which HiGHS starts from the basis
        of the last vertex.

    See Also
    --------
    from_cvxpy : Set of the values of a CVXPY variable.
    Polytope : Its method ``read_mps`` reads a file.
    MixedInteger : Hull of integer points.

    Examples
    --------
    >>> import highspy, numpy as np, fwflow as fw
    >>> model = highspy.Highs()
    >>> model.silent()
    >>> x = model.addVariables(2, lb=0.0, ub=2.0)
    >>> _ = model.addConstr(x[0] + x[1] <= 3.0)
    >>> C = fw.from_highs(model)
    >>> np.asarray(C.lmo(np.array([-2.0, -1.0])))
    array([2., 1.])
    """
    highspy = load_highspy("from_highs")
    if isinstance(model, highspy.Highs):
        model = model.getModel()
    if isinstance(model, highspy.HighsModel):
        model = model.lp_
    if not isinstance(model, highspy.HighsLp):
        raise InputError(f"model must be a highspy.Highs, HighsModel or HighsLp; got {describe(model)}")
    found = of_lp(model, "model")
    return _linear(_System(*found[:6], found.integrality), "x")


class _System(NamedTuple):
    """Linear constraints ``A z <= b, C z = d, lower <= z <= upper``, and which entries must be integers."""

    A: Any
    b: Array
    C: Any
    d: Array
    lower: Array
    upper: Array
    integrality: Array


def _linear(system: _System, name: str, places: Array | None = None) -> Polytope | MixedInteger:
    """Return the polytope of a system, or the hull of its integer points, if the entries at `places` are bounded."""
    rows, (lower, upper, integrality) = system[:4], system[4:]
    relaxed = Program(*rows, lower, upper)
    if relaxed.status(np.zeros(len(lower))) != "solved":
        raise InputError(_EMPTY.format(name=name))
    hull = None
    if integrality.any():
        try:
            hull = MixedInteger(*rows, lower=lower, upper=upper, integrality=integrality)
        except ValueError:  # no integer point satisfies the constraints
            raise InputError(_EMPTY.format(name=name)) from None
    cost = np.zeros(len(lower))
    where = slice(None) if places is None else places
    cost[where] = _direction(len(cost[where]))
    # A direction in which the set is unbounded has a nonzero product with a random cost, so two programs decide.
    for status in (relaxed.status(cost), relaxed.status(-cost)):
        if status != "solved":
            reason = "" if "unbounded" in status.lower() else f" (HiGHS: {status})"
            raise InputError((_UNBOUNDED if hull is None else _RELAXED).format(name=name) + reason)
    return hull or Polytope(*rows, lower=lower, upper=upper, warm_start=True)


def _direction(n: int) -> Array:
    """Return a vector that is not orthogonal to any direction that a model is likely to have."""
    return np.random.default_rng(0).uniform(0.5, 1.0, n) * np.random.default_rng(1).choice([-1.0, 1.0], n)


def from_cvxpy(constraints: Any, x: Any) -> ConstraintSet:
    """Return the set of the values of a CVXPY variable under constraints.

    All other variables of the constraints are projected out: a value belongs to the set if there are values of the
    other variables that satisfy the constraints. Parameters have the values of the time of the call.

    * Linear constraints give a polytope. HiGHS is the oracle, and starts from the basis of the last vertex.
    * Second-order, quadratic, exponential, power and semidefinite constraints give a set with Clarabel as the oracle.
      The dual solution certifies a lower bound, which is part of the gap of a run.
    * Linear constraints with integer or boolean variables give the hull of the integer points, as `MixedInteger` does.

    Needs CVXPY: ``pip install 'fwflow[cvxpy]'``.

    Parameters
    ----------
    constraints : list of CVXPY constraints, or cvxpy.Problem
        They must follow the rules of disciplined convex programming. The objective of a problem is ignored.
    x : cvxpy.Variable or affine expression
        Members of the set have its shape; a scalar is a vector with one entry. Attributes such as ``nonneg``, ``PSD``
        and ``bounds`` are constraints, too.

    Returns
    -------
    ConstraintSet
        A `Polytope` or `MixedInteger` if x is a vector and the constraints are linear with no other variables;
        otherwise another set, whose membership test solves one more program.

    Raises
    ------
    ValueError
        If the set is empty or unbounded, a parameter has no value, or the constraints are not convex.

    See Also
    --------
    solve_cvxpy : Solution of a CVXPY problem.
    from_highs : Feasible set of a program of HiGHS.
    Polytope : Polytope given by arrays.
    LinearImage : Image of a set under a matrix.

    Notes
    -----
    Clarabel is an interior-point method: it returns the centre of a face if several vertices tie. Membership in a conic
    set is decided by the distance of a point from the set, up to a relative error of 1e-6. The diameter is that of the
    bounding box, an upper bound; it is None for a conic set with more than 100 entries.

    Examples
    --------
    >>> import cvxpy as cp, numpy as np, fwflow as fw
    >>> x = cp.Variable(3, nonneg=True)
    >>> C = fw.from_cvxpy([cp.sum(x) == 1, x[0] + x[1] <= 0.4], x)
    >>> np.asarray(C.lmo(np.array([1.0, 2.0, 3.0])))
    array([0.4, 0. , 0.6])
    >>> ball = fw.from_cvxpy([cp.norm(x) <= 1, x[2] <= 0.5], x)
    >>> np.asarray(ball.lmo(np.array([-1.0, -1.0, -2.0]))).round(6), ball.contains([0.0, 0.8, 0.6])
    (array([0.612372, 0.612372, 0.5     ]), False)
    """
    return CvxpyModel.of(load_cvxpy("from_cvxpy"), constraints, x).set()


def check_parameters(problem: Any) -> None:
    """Raise an error if a parameter of a problem of CVXPY has no value."""
    for parameter in problem.parameters():
        if parameter.value is None:
            raise InputError(f"parameter {parameter.name()} has no value; set {parameter.name()}.value first")


def not_finite(expression: Any) -> bool:
    """Return whether an expression of CVXPY has a constant part with an entry that is NaN or infinite."""
    if not expression.is_constant():
        return any(map(not_finite, expression.args))
    return not np.isfinite(entries(expression.value)).all()


def entries(value: Any) -> Array:
    """Return the entries of a value of CVXPY, which may be a number or a sparse matrix."""
    return np.asarray(value.data if sp.issparse(value) else value)


class CvxpyModel(NamedTuple):
    """Constraints of CVXPY that were checked, and an affine expression of their variables."""

    cp: Any
    constraints: list[Any]
    x: Any
    name: str

    @classmethod
    def of(cls, cp: Any, constraints: Any, x: Any) -> CvxpyModel:
        """Check the arguments of a user."""
        if isinstance(constraints, cp.Problem):
            constraints = constraints.constraints
        given = list(constraints) if isinstance(constraints, Iterable) else [constraints]
        for i, constraint in enumerate(given):
            if not isinstance(constraint, cp.constraints.constraint.Constraint):
                raise InputError(f"constraints[{i}] must be a constraint of CVXPY; got {describe(constraint)}")
            if not constraint.is_dcp():
                raise InputError(
                    f"constraints[{i}] must follow the rules of disciplined convex programming (DCP); got {constraint}"
                )
        if not isinstance(x, cp.Expression) or not x.is_affine() or x.is_complex() or not x.variables():
            raise InputError(f"x must be a real CVXPY variable or an affine expression of variables; got {describe(x)}")
        name = x.name() if isinstance(x, cp.Variable) else "x"
        model = cls(cp, given, x, name)
        check_parameters(model.problem(x))
        return model

    def problem(self, x: Any, *more: Any) -> Any:
        """Return a problem with the constraints, and with a linear objective."""
        return self.cp.Problem(self.cp.Minimize(self.cp.sum(x)), [*self.constraints, *more])

    @property
    def shape(self) -> Shape:
        """Shape of the members of the set."""
        return self.x.shape or (1,)

    def centre(self) -> Array | None:
        """Return a point in the interior of the set, relative to its affine hull, or None if Clarabel finds none."""
        data, places = self.data(self.cp.CLARABEL)
        z = _clarabel(data["A"], data["b"], data["dims"], np.zeros(data["A"].shape[1])).z
        return None if z is None else z[places].reshape(self.shape)

    def set(self) -> ConstraintSet:
        """Return the set of the values of x."""
        cp = self.cp
        if self.problem(self.x).is_mixed_integer():
            try:
                data, places = self.data(cp.HIGHS)
            except cp.error.SolverError:
                raise InputError(
                    "constraints with integer variables must be linear; these have quadratic or conic constraints, too"
                ) from None
            return self.linear(data, places)
        data, places = self.data(cp.CLARABEL)
        dims = data["dims"]
        if not (dims.soc or dims.psd or dims.exp or dims.p3d or dims.pnd):
            load_highspy("from_cvxpy")
            return self.linear(*self.data(cp.HIGHS))
        return _Conic(data["A"], data["b"], dims, places, self.shape, self.name)

    def data(self, solver: str) -> tuple[dict[str, Any], Array]:
        """Return the standard form for a solver, and the columns of the entries of x, row by row."""
        x = self.x
        kept = isinstance(x, self.cp.Variable) and all(
            name in _KEPT for name, value in x.attributes.items() if value is not None and value is not False
        )
        data = self._standard_form(x, (), solver) if kept else {}
        if not kept or x.id not in data["param_prob"].var_id_to_col:
            # CVXPY replaces x by other variables, for example by one triangle of a symmetric matrix.
            x = self.cp.Variable(max(self.x.size, 1))
            data = self._standard_form(x, (x == self.cp.vec(self.x, order="F"),), solver)
        first = data["param_prob"].var_id_to_col[x.id]
        return data, first + np.arange(math.prod(self.shape)).reshape(self.shape, order="F").reshape(-1)

    def _standard_form(self, x: Any, more: tuple[Any, ...], solver: str) -> dict[str, Any]:
        with warnings.catch_warnings():
            # CVXPY warns about the speed of repeated solves with other parameters, and about its own defaults.
            warnings.simplefilter("ignore")
            data: dict[str, Any] = self.problem(x, *more).get_problem_data(solver)[0]
        A, b, dims = sp.csc_array(data["A"]), np.asarray(data["b"]), data["dims"]
        # Rows such as x <= inf, which come after the equations, say nothing.
        idle = (b == np.inf) & (np.arange(len(b)) >= dims.zero)
        idle[dims.zero + dims.nonneg :] = False
        if not (np.isfinite(b[~idle]).all() and np.isfinite(A.data).all()):
            bad = [i for i, part in enumerate(self.constraints) if any(map(not_finite, part.args))]
            where = f"constraints[{bad[0]}]: {self.constraints[bad[0]]}" if bad else "other numbers"
            raise InputError(f"constraints must have finite numbers, except in bounds such as x <= inf; got {where}")
        dims.nonneg -= int(idle.sum())
        return data | {"A": A[~idle], "b": b[~idle]}

    def linear(self, data: dict[str, Any], places: Array) -> ConstraintSet:
        """Return the set of the values of x under linear constraints."""
        A, b, equal = sp.csr_array(data["A"]), np.asarray(data["b"]), data["dims"].zero
        n = A.shape[1]
        lower, upper = (
            np.full(n, end) if data[side] is None else np.array(data[side], dtype=np.float64)
            for side, end in (("lower_bounds", -np.inf), ("upper_bounds", np.inf))
        )
        integrality, zero_or_one = np.zeros(n, dtype=bool), np.array(data["bool_vars_idx"], dtype=np.intp)
        integrality[zero_or_one] = True
        integrality[np.array(data["int_vars_idx"], dtype=np.intp)] = True
        lower[zero_or_one], upper[zero_or_one] = np.maximum(lower[zero_or_one], 0), np.minimum(upper[zero_or_one], 1)
        system = _System(A[equal:], b[equal:], A[:equal], b[:equal], lower, upper, integrality)
        found = _linear(system, self.name, places)
        if self.shape == (n,) and np.array_equal(places, np.arange(n)):
            return found
        return _Entries(found, places, self.shape, self.name)


class _Entries(AffineImage):
    """Some entries of the members of a polytope or hull, in the shape of a variable: the others are projected out."""

    shape: Shape

    def __init__(self, constraint: Polytope | MixedInteger, places: Array, shape: Shape, name: str) -> None:
        super().__init__(constraint, ("entries", (places, shape)))
        self.places, self.shape, self.name = places, shape, name
        P = self.relaxation = constraint.relaxation if isinstance(constraint, MixedInteger) else constraint
        self._program = Program(P.A, P.b, P.C, P.d, P.lower, P.upper)
        self._size = P.shape[0]

    def __repr__(self) -> str:
        return f"from_cvxpy({self.name}: {' x '.join(map(str, self.shape))} entries of {self.constraint!r})"

    def cost(self, g: Any) -> Array:
        g = np.asarray(g, float_dtype(g.dtype))
        check_shape(self, g, "g")
        cost = np.zeros(self._size, g.dtype)
        cost[self.places] = g.reshape(-1)
        return cost

    def image(self, vertex: Vertex, g: Any) -> Image:
        return Image(self._taken(np.asarray(vertex)).astype(float_dtype(g.dtype), copy=False), vertex=vertex)

    def _taken(self, z: Array) -> Array:
        return z[self.places].reshape(self.shape) + 0.0

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._taken(np.asarray(self.constraint.start())).astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        check_shape(self, x)
        P, wide = self.relaxation, max(tol, _LINEAR)
        slack = wide * self._program.sizes[self.places] + noise.reshape(-1)
        lower, upper = P.lower.copy(), P.upper.copy()
        lower[self.places] = np.maximum(lower[self.places] - slack, x.reshape(-1) - slack)
        upper[self.places] = np.minimum(upper[self.places] + slack, x.reshape(-1) + slack)
        if (lower > upper).any() or Program(P.A, P.b, P.C, P.d, lower, upper).status(np.zeros(self._size)) != "solved":
            return False
        if not isinstance(self.constraint, MixedInteger):
            return True
        return True if self.constraint.has_integer_point(lower, upper) else None

    def diameter(self, shape: Shape | None = None) -> float:
        """Return the diameter of the bounding box, an upper bound, from two linear programs for each entry."""
        return self._program.box_diagonal(self.places)


class _Solution(NamedTuple):
    """Status of a conic program, its solution z, None if there is none, and a dual point y."""

    status: str
    z: Array | None
    y: Array


def _clarabel(A: Any, b: Array, dims: Any, q: Array, limits: tuple[Any, Array] | None = None) -> _Solution:
    """Minimise ``<q, z>`` with ``b - A z`` in the cones of CVXPY's `dims`, and rows ``M z <= c`` if `limits` are given.

    The costs and b are scaled by powers of two, because the tolerances of Clarabel are absolute. Multiples of members
    of a cone are members, so that z has the unit of b.
    """
    import clarabel  # type: ignore[import-untyped]
    from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import dims_to_solver_cones

    cones = dims_to_solver_cones(dims)  # type: ignore[no-untyped-call]
    if limits is not None:
        A, b = sp.vstack([A, limits[0]]), np.append(b, limits[1])
        cones.append(clarabel.NonnegativeConeT(len(limits[1])))
    power, unit = (math.frexp(float(np.abs(data).max()))[1] for data in (q, b))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    status, kinds = "", clarabel.SolverStatus
    for tol in TOLERANCES:
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tol
        settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = _REDUCED * tol
        P = sp.csc_array((len(q), len(q)))
        solver = clarabel.DefaultSolver(P, np.ldexp(q, -power), sp.csc_array(A), np.ldexp(b, -unit), cones, settings)
        found = solver.solve()
        status = str(found.status)
        if found.status in (kinds.Solved, kinds.AlmostSolved):
            return _Solution("solved", np.ldexp(np.array(found.x), unit), np.ldexp(np.array(found.z), power))
        if found.status in (kinds.PrimalInfeasible, kinds.AlmostPrimalInfeasible):
            return _Solution("empty", None, np.zeros(0))
        if found.status in (kinds.DualInfeasible, kinds.AlmostDualInfeasible):
            return _Solution("unbounded", None, np.zeros(0))
    return _Solution(status, None, np.zeros(0))


class _Conic(KnownSet):
    """Values of a variable under conic constraints ``b - A z`` in K, with Clarabel as the oracle."""

    shape: Shape

    def __init__(self, A: Any, b: Array, dims: Any, places: Array, shape: Shape, name: str) -> None:
        self.A, self.b, self.dims = sp.csc_array(A), np.asarray(b, dtype=np.float64), dims
        self.places, self.shape, self.name = places, shape, name
        status, start, _ = self._solved(np.zeros(self.A.shape[1]))
        if start is None:
            reason = "" if status == "empty" else f" (Clarabel: {status})"
            raise InputError(_EMPTY.format(name=name) + reason)
        self._start = self._taken(start)
        cost = np.zeros(self.A.shape[1])
        cost[places] = _direction(len(places))
        solutions = [start]
        for sign in (1.0, -1.0):
            status, z, _ = self._solved(sign * cost)
            if z is None:
                reason = "" if status == "unbounded" else f" (Clarabel: {status})"
                raise InputError(_UNBOUNDED.format(name=name) + reason)
            solutions.append(z)
        #: Estimates of the largest absolute values of the entries of z.
        self.sizes = np.abs(solutions).max(axis=0)

    def __repr__(self) -> str:
        return f"from_cvxpy({self.name}: {' x '.join(map(str, self.shape))} entries, conic constraints)"

    def fingerprint(self) -> str:
        return fingerprint(self, A=self.A, b=self.b, shape=self.shape, dims=str(self.dims), places=self.places)

    def _taken(self, z: Array) -> Array:
        return z[self.places].reshape(self.shape)

    def _solved(self, q: Array) -> _Solution:
        return _clarabel(self.A, self.b, self.dims, q)

    def _cost(self, g: Any) -> Array:
        q = np.zeros(self.A.shape[1])
        q[self.places] = np.asarray(g, dtype=np.float64).reshape(-1)
        return q

    def lmo(self, g: Any, hint: Vertex | None = None) -> DenseVertex:
        check_shape(self, g, "g")
        status, z, y = self._solved(self._cost(g))
        if z is None:
            raise RuntimeError(f"Clarabel could not minimise over {self!r}: {status}")
        return DenseVertex(self._taken(z).astype(float_dtype(g.dtype)), advice=np.append(z, y))

    def lower_bound(self, g: Any, vertex: Vertex) -> float:
        """Return the value of the dual point of the vertex, minus the effect of its residual.

        The residual multiplies bounds on the entries, which are estimated from solutions of the constraints.
        """
        q, n = self._cost(g), self.A.shape[1]
        if not q.any():
            return 0.0
        advice = vertex.advice
        if advice is None or len(advice) != n + len(self.b):
            advice = self.lmo(g).advice
        assert advice is not None
        z, y = advice[:n], advice[n:]
        residual = np.abs(q + dot(self.A.T, y))
        return float(-dot(self.b, y) - _MARGIN * dot(residual, np.maximum(self.sizes, np.abs(z))))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._start.astype(dtype)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        """Return whether the distance of x from the set, divided by the size of the set, is at most `tol`."""
        check_shape(self, x)
        n, k = self.A.shape[1], x.size
        size = float(max(self.sizes[self.places].max(), np.finfo(float).tiny))
        pick = sp.csc_array((np.ones(k), (np.arange(k), self.places)), shape=(k, n))
        apart = sp.csc_array(-np.ones((k, 1)))
        rows = sp.block_array([[pick, apart], [-pick, apart]])
        wide = sp.hstack([self.A, sp.csc_array((self.A.shape[0], 1))])
        limits = rows, np.append(x, -x)
        z = _clarabel(wide, self.b, self.dims, np.append(np.zeros(n), 1.0), limits).z
        return None if z is None else bool(z[-1] <= max(tol, _CONIC) * size + float(noise.max()))

    def diameter(self, shape: Shape | None = None) -> float | None:
        """Return the diameter of the bounding box, an upper bound, from two conic programs for each entry."""
        if math.prod(self.shape) > _MOST_WIDTHS:
            return None
        units = np.eye(math.prod(self.shape)).reshape(-1, *self.shape)
        ends = [[self.lower_bound(sign * unit, self.lmo(sign * unit)) for sign in (1.0, -1.0)] for unit in units]
        return float(norm(np.maximum(-np.sum(ends, axis=1), 0.0)))
