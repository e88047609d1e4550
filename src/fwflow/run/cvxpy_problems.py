"""Solutions of CVXPY problems with a smooth objective: fwflow in place of ``problem.solve()``."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array, InputError, describe
from fwflow.objectives.smooth import Smooth
from fwflow.points.vertices import Shape
from fwflow.run.loop import minimize
from fwflow.run.result import Result, State, Status
from fwflow.sets.base import ConstraintSet
from fwflow.sets.models import TOLERANCES, CvxpyModel, check_parameters, entries, load_cvxpy, not_finite

# Nonlinear atoms of CVXPY that are differentiable inside of their domain, and whose gradient CVXPY computes.
_SMOOTH = frozenset(
    {
        *("exp", "log", "log1p", "logistic", "entr", "kl_div", "rel_entr", "xexp", "huber", "Power", "PowerApprox"),
        *("log_sum_exp", "quad_over_lin", "QuadForm", "MatrixFrac", "log_det", "tr_inv", "GeoMean", "GeoMeanApprox"),
    }
)
# Atoms that are quadratic in an affine argument if CVXPY calls them so. It also calls huber quadratic, because a
# quadratic program can express it.
_QUADRATIC = frozenset({"Power", "PowerApprox", "quad_over_lin", "QuadForm", "MatrixFrac"})
# Constraints whose violation CVXPY computes by a formula.
_MEASURED = frozenset({"Inequality", "Equality", "Zero", "NonNeg", "NonPos", "PSD", "SOC"})
# Largest violation of a constraint of an optimal solution: the tolerance of Clarabel for feasibility is 1e-8, and its
# residuals are sums over rows.
_ACCURACY = 1e-7
# Seconds after which a run over a conic set warns that CVXPY's own solver is faster. Chosen without tuning.
_PATIENCE = 5.0
# Reasons for the end of a run that a limit or the user caused. CVXPY calls its status "user_limit".
_LIMITS = (Status.ITERATIONS, Status.TIME, Status.CALLBACK, Status.INTERRUPTED)


def solve_cvxpy(problem: Any, x0: Any = None, **options: Any) -> Result:
    """Solve a CVXPY problem that has a smooth objective, in place of ``problem.solve()``.

    Values and gradients come from CVXPY's expressions, and the set from `from_cvxpy`. Afterwards, the variables have
    their values, and ``problem.value`` and ``problem.status`` are set: "optimal" if the gap is within the tolerance and
    the constraints hold to the accuracy of CVXPY's solvers, "user_limit" if a limit of the call ended the run, and
    "optimal_inaccurate" otherwise. Dual values are not computed.

    Each iteration over a set with conic constraints solves a conic program, whereas ``problem.solve()`` solves one. It
    is the better choice for small problems of that kind, and a run of more than 5 seconds warns of that.

    Parameters
    ----------
    problem : cvxpy.Problem
        The objective is convex and to be minimised, or concave and to be maximised, in the sense of disciplined convex
        programming, and all its atoms are differentiable. The values of the variables in the objective are bounded by
        the constraints. There are no integer variables, because their hull has points that are not integers.
    x0 : array_like, optional
        Starting point, in the form of ``result.x``. Default: a point in the interior of the set, found by Clarabel.
    **options
        Other arguments of `minimize`, for example ``method``, ``tol`` and ``max_iter``.

    Returns
    -------
    Result
        Result of the minimisation of the objective, or of the negative objective for a maximisation. ``result.x`` is
        the value of the variable in the objective; if there are several, their entries one after the other, each column
        by column, in the order of ``problem.objective.variables()``.

    See Also
    --------
    from_cvxpy : Set of the values of a variable.
    minimize : Minimises an objective over a set.
    Result : Fields of the result.

    Examples
    --------
    >>> import cvxpy as cp, fwflow as fw
    >>> x = cp.Variable(3, nonneg=True)
    >>> problem = cp.Problem(cp.Maximize(cp.sum(cp.entr(x))), [cp.sum(x) == 1, x[0] <= 0.2])
    >>> r = fw.solve_cvxpy(problem)
    >>> problem.status, x.value.round(4), round(problem.value, 4)
    ('optimal', array([0.2, 0.4, 0.4]), np.float64(1.0549))
    """
    cp = load_cvxpy("solve_cvxpy")
    if not isinstance(problem, cp.Problem):
        raise InputError(f"problem must be a cvxpy.Problem; got {describe(problem)}")
    check_parameters(problem)
    expression, sign = _checked(cp, problem)
    variables = expression.variables()
    x = variables[0] if len(variables) == 1 else cp.hstack([cp.vec(v, order="F") for v in variables])
    model = CvxpyModel.of(cp, problem.constraints, x)
    C = model.set()
    f = _Expression(cp, expression, sign, variables, model.shape)
    given = options.get("callback")
    if not C.polytope and (given is None or callable(given)):
        options["callback"] = _Watch(given)
    result = minimize(f, C, _start(model, C) if x0 is None and "state" not in options else x0, **options)
    _unpack(cp, problem, variables, x, result)
    return result


class _Watch:
    """Callback that calls another one, and warns once of a long run over a conic set."""

    def __init__(self, callback: Callable[[State], Any] | None) -> None:
        self.callback, self.end = callback, time.monotonic() + _PATIENCE

    def __call__(self, state: State) -> Any:
        if time.monotonic() > self.end:
            self.end = math.inf
            warnings.warn(
                f"solve_cvxpy has run for more than {_PATIENCE:g} s, in {state.k} iterations, each of which solves a "
                "conic program; problem.solve() solves one, and is the better choice for such constraints",
                stacklevel=5,
            )
        return None if self.callback is None else self.callback(state)


def _start(model: CvxpyModel, C: ConstraintSet) -> Array | None:
    """Return a point inside of the set, or None for its default start. Logarithms are infinite at vertices."""
    centre = model.centre()
    return None if centre is None or C.contains(centre, 1e-8) is False else centre


def _checked(cp: Any, problem: Any) -> tuple[Any, float]:
    """Return the objective and its sign, 1 for minimisation and -1 for maximisation; raise an error if it is unfit."""
    expression, sign = problem.objective.args[0], -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    if not expression.variables():
        raise InputError("problem has a constant objective, so that there is nothing to minimise; use problem.solve()")
    if problem.is_mixed_integer():
        raise InputError(
            "problem has integer variables, and fwflow would return points of their hull, which need not be integers; "
            "use problem.solve(), or fw.from_cvxpy(constraints, x) for the hull"
        )
    if any(v.is_complex() for v in problem.variables()):
        raise InputError("problem has complex variables; fwflow needs real ones")
    if not problem.objective.is_dcp():
        curvature = "convex" if sign > 0 else "concave"
        raise InputError(
            f"the objective must be {curvature} by the rules of disciplined convex programming (DCP); "
            f"got {expression}. For other functions use fw.minimize with fw.Smooth"
        )
    if not_finite(expression):
        raise InputError(f"the objective must have finite numbers; got {expression}")
    if rough := sorted(_rough_atoms(cp, expression)):
        raise InputError(
            f"the objective has atoms that are not differentiable everywhere, or not known to be: {', '.join(rough)}. "
            "Frank-Wolfe needs a smooth objective; use problem.solve(), or smooth atoms such as cp.huber"
        )
    return expression, sign


def _rough_atoms(cp: Any, expression: Any) -> set[str]:
    """Return the names of the atoms that depend on variables and are neither affine nor known to be smooth."""
    if not expression.variables() or expression.is_affine():
        return set()
    if not _differentiable(cp, expression).is_dcp():
        return {f"{type(expression).__name__} with an axis"}
    found: set[str] = set().union(*(_rough_atoms(cp, part) for part in expression.args))
    if isinstance(expression, cp.atoms.affine.affine_atom.AffAtom) or type(expression).__name__ in _SMOOTH:
        return found
    return found | {type(expression).__name__}


class _At(NamedTuple):
    """Value of a part of an expression at a point, and of the parts that it is made of."""

    value: Any
    parts: tuple[_At, ...] = ()


class _Affine(NamedTuple):
    """Part ``J z + c`` of an expression, where z are the entries of all variables. J is None for a constant."""

    J: Any
    c: Any
    shape: Shape

    @property
    def quadratic(self) -> bool:
        return True

    def at(self, z: Array) -> _At:
        return _At(self.c if self.J is None else (self.c + dot(self.J, z)).reshape(self.shape, order="F"))

    def pull(self, at: _At, weights: Array) -> Array:
        """Return the derivative of the weighted sum of the entries."""
        return np.asarray(dot(self.J.T, weights))


class _Composed(NamedTuple):
    """Atom of CVXPY with its arguments, their derivatives if these are constant, and whether no value is negative."""

    atom: Any
    args: tuple[_Affine | _Composed, ...]
    slopes: list[Any] | None
    nonneg: bool

    @property
    def shape(self) -> Shape:
        return tuple(self.atom.shape)

    @property
    def quadratic(self) -> bool:
        """Whether the Hessian is constant."""
        if self.slopes is not None:
            return all(arg.quadratic for arg in self.args)
        known = type(self.atom).__name__ in _QUADRATIC and self.atom.is_quadratic()
        return known and isinstance(self.args[0], _Affine)

    def at(self, z: Array) -> _At:
        parts = tuple(arg.at(z) for arg in self.args)
        value = self.atom.numeric([part.value for part in parts])
        # CVXPY computes numbers for some points outside of the domain, for example inverses of indefinite matrices.
        outside = self.nonneg and np.min(value) < 0
        return _At(np.full(np.shape(value), np.nan) if outside else value, parts)

    def pull(self, at: _At, weights: Array) -> Array:
        """Return the derivative of the weighted sum of the entries by the chain rule; NaN outside of the domain."""
        slopes = self.atom._grad([part.value for part in at.parts]) if self.slopes is None else self.slopes
        # QuadForm lists no derivative for its matrix, which is constant.
        found = [
            arg.pull(part, _times(slope, weights, math.prod(arg.shape)))
            for arg, part, slope in zip(self.args, at.parts, slopes, strict=False)
            if not (isinstance(arg, _Affine) and arg.J is None)
        ]
        return np.asarray(sum(found[1:], start=found[0]))


def _times(slope: Any, weights: Array, size: int) -> Array:
    """Return CVXPY's derivative by an argument times weights. It is None outside of the domain."""
    if slope is None:
        return np.full(size, np.nan)
    return np.asarray(weights * slope if np.ndim(slope) == 0 else dot(slope, weights)).reshape(-1)


def _compiled(cp: Any, expression: Any, places: dict[int, int], n: int) -> _Affine | _Composed:
    """Return an expression with its affine parts as matrices, which ``expression.grad`` builds again in each call.

    `places` has the first of the n entries of each variable, by the number of the variable.
    """
    if expression.is_constant():
        return _Affine(None, expression.value, expression.shape)
    if isinstance(expression, cp.Variable):
        J = sp.eye_array(expression.size, n, k=places[expression.id], format="csr")
        return _Affine(J, np.zeros(expression.size), expression.shape)
    if (known := _differentiable(cp, expression)) is not expression:
        return _compiled(cp, known, places, n)
    args = tuple(_compiled(cp, arg, places, n) for arg in expression.args)
    if not isinstance(expression, cp.atoms.affine.affine_atom.AffAtom):
        return _Composed(expression, args, None, bool(expression.is_nonneg()))
    with np.errstate(all="ignore"):
        values = [arg.at(np.zeros(n)).value for arg in args]
    slopes = expression._grad(values)
    affine = [arg for arg in args if isinstance(arg, _Affine)]
    if len(affine) < len(args):
        return _Composed(expression, args, slopes, False)
    J = sp.csr_array((expression.size, n))
    for arg, slope in zip(affine, slopes, strict=True):
        if arg.J is not None:
            J += sp.csr_array(dot(slope.T, arg.J) if np.ndim(slope) else slope * arg.J)
    c = np.asarray(expression.numeric(values), dtype=np.float64).reshape(-1, order="F")
    return _Affine(J.toarray() if J.nnz > J.shape[0] * n / 4 else J, c, expression.shape)


def _differentiable(cp: Any, expression: Any) -> Any:
    """Return an equal expression that has derivatives in CVXPY, for atoms that lack them."""
    name = type(expression).__name__
    if name in ("Power", "PowerApprox") and expression.is_affine():  # the power 1 of a negative number
        return expression.args[0]
    if name == "quad_over_lin" and (data := expression.get_data()) and data[0] is not None:
        x, y = expression.args
        return cp.sum(cp.square(x), axis=data[0], keepdims=data[1]) / y
    return expression


class _Expression(Smooth):
    """Expression of CVXPY as a function of the entries of its variables."""

    convex = True

    def __init__(self, cp: Any, expression: Any, sign: float, variables: list[Any], shape: Shape) -> None:
        ends = np.cumsum([0, *(v.size for v in variables)]).tolist()
        self.sign, places = sign, {v.id: end for v, end in zip(variables, ends[:-1], strict=True)}
        self.root = _compiled(cp, expression, places, ends[-1])
        # The last point, with its value and derivative if they are known: the domain needs the same numbers as a step.
        self._last: tuple[Array, dict[str, Any]] = (np.zeros(0), {})
        quadratic = self.root.quadratic
        super().__init__(
            self._value,
            self._derivative,
            shape=shape,
            hess_product=self._curvature if quadratic else None,
            domain=None if quadratic else self._defined,
        )

    def _known(self, x: Array) -> dict[str, Any]:
        """Return the numbers that were computed at x. An inverse of a singular matrix is outside of the domain."""
        if not np.array_equal(x, self._last[0]):
            self._last = x, {}
            with np.errstate(all="ignore"):
                try:
                    self._last[1]["at"] = self.root.at(x.astype(np.float64).reshape(-1, order="F"))
                except np.linalg.LinAlgError:
                    self._last[1].update(at=_At(np.array(self.sign * np.inf)), derivative=np.full(x.shape, np.nan))
        return self._last[1]

    def _value(self, x: Array) -> float:
        return self.sign * float(np.asarray(self._known(x)["at"].value).item())

    def _derivative(self, x: Array) -> Array:
        known = self._known(x)
        if "derivative" not in known:
            with np.errstate(all="ignore"):
                known["derivative"] = self.sign * self.root.pull(known["at"], np.ones(1)).reshape(x.shape, order="F")
        return known["derivative"]

    def _defined(self, x: Array) -> bool:
        """Return whether value and gradient are finite at x."""
        return bool(np.isfinite(self._value(x)) and np.isfinite(self._derivative(x)).all())

    def _curvature(self, x: Array, v: Array) -> Array:
        """Return the Hessian of a quadratic times v: the difference of two gradients."""
        return self._derivative(v) - self._derivative(np.zeros_like(v))


def split(x: Array, variables: list[Any]) -> list[Array]:
    """Return the value of each variable, given x for one variable, or their entries one after the other."""
    if len(variables) == 1:
        return [x.reshape(variables[0].shape)]
    parts = np.split(x, np.cumsum([v.size for v in variables])[:-1])
    return [part.reshape(v.shape, order="F") for part, v in zip(parts, variables, strict=True)]


def _unpack(cp: Any, problem: Any, variables: list[Any], x: Any, result: Result) -> None:
    """Set the values of all variables, and the status and value of the problem."""
    from cvxpy.reductions.solution import Solution

    target = np.asarray(result.x, dtype=np.float64)
    values = dict(zip([v.id for v in variables], split(target, variables), strict=True))
    others = [v for v in problem.variables() if v.id not in values]
    if others:  # values that satisfy the constraints together with the point nearest to the solution
        # The largest distance is a linear objective, whose minimum is accurate. That of a squared distance is not.
        size = float(np.abs(target).max()) or 1.0
        nearest = cp.Problem(cp.Minimize(cp.norm_inf(x / size - target.reshape(x.shape) / size)), problem.constraints)
        for tol in TOLERANCES:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # the constraints are checked below
                    nearest.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
            except cp.error.SolverError:
                continue
            if nearest.status == cp.OPTIMAL:
                break
        values |= {v.id: v.value for v in others}
    for v in problem.variables():
        v.save_value(values[v.id])
    status = cp.OPTIMAL_INACCURATE
    if result.success:
        status = cp.OPTIMAL if _holds(problem.constraints) else status
    elif result.status in _LIMITS:
        status = cp.settings.USER_LIMIT
    problem.unpack(Solution(status, None, values, {}, {}))


def _holds(constraints: list[Any]) -> bool:
    """Return whether all constraints hold, up to the accuracy of Clarabel, relative to the sizes of their sides."""
    for constraint in constraints:
        # CVXPY measures the violation of the other kinds by another program, which is less accurate.
        if type(constraint).__name__ in _MEASURED:
            sides = [entries(arg.value) for arg in constraint.args]
            if any(side.dtype == object for side in sides):  # Clarabel found no value
                return False
            size = max(1.0, *(float(np.abs(side).max(initial=0.0)) for side in sides))
            if not np.max(constraint.violation(), initial=0.0) <= _ACCURACY * size:
                return False
    return True
