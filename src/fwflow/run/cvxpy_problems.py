"""Solutions of CVXPY problems with a smooth objective: fwflow in place of ``problem.solve()``."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, InputError, describe
from fwflow.objectives.smooth import Smooth
from fwflow.run.loop import minimize
from fwflow.run.result import Result, Status
from fwflow.sets.base import ConstraintSet
from fwflow.sets.models import CvxpyModel, load_cvxpy

# Nonlinear atoms of CVXPY that are differentiable inside of their domain, and whose gradient CVXPY computes.
_SMOOTH = frozenset(
    {
        *("exp", "log", "log1p", "logistic", "entr", "kl_div", "rel_entr", "xexp", "huber", "Power", "PowerApprox"),
        *("log_sum_exp", "quad_over_lin", "QuadForm", "MatrixFrac", "log_det", "tr_inv", "GeoMean", "GeoMeanApprox"),
    }
)
# Reasons for the end of a run that a limit or the user caused. CVXPY calls its status "user_limit".
_LIMITS = (Status.ITERATIONS, Status.TIME, Status.CALLBACK, Status.INTERRUPTED)


def solve_cvxpy(problem: Any, x0: Any = None, **options: Any) -> Result:
    """Solve a CVXPY problem that has a smooth objective, in place of ``problem.solve()``.

    Values and gradients come from CVXPY's expressions, and the set from `from_cvxpy`. Afterwards, the variables have
    their values, and ``problem.value`` and ``problem.status`` are set: "optimal" if the gap is within the tolerance,
    "user_limit" if a limit of the call ended the run, and "optimal_inaccurate" otherwise. Dual values are not computed.

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
    expression, sign = _checked(cp, problem)
    variables = expression.variables()
    x = variables[0] if len(variables) == 1 else cp.hstack([cp.vec(v, order="F") for v in variables])
    model = CvxpyModel.of(cp, problem.constraints, x)
    C = model.set()
    before = [(v, v.value) for v in problem.variables()]
    f = _Expression(expression, sign, variables, model.shape)
    try:
        result = minimize(f, C, _start(model, C) if x0 is None and "state" not in options else x0, **options)
    except BaseException:
        for v, value in before:
            v.save_value(value)
        raise
    _unpack(cp, problem, variables, x, result)
    return result


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
    found: set[str] = set().union(*(_rough_atoms(cp, part) for part in expression.args))
    if isinstance(expression, cp.atoms.affine.affine_atom.AffAtom) or type(expression).__name__ in _SMOOTH:
        return found
    return found | {type(expression).__name__}


class _Expression(Smooth):
    """Expression of CVXPY as a function of the entries of its variables."""

    convex = True

    def __init__(self, expression: Any, sign: float, variables: list[Any], shape: tuple[int, ...]) -> None:
        self.expression, self.sign, self.variables = expression, sign, variables
        # The last point, with its value and derivative if they are known: the domain needs the same numbers as a step.
        self._last: tuple[Array, dict[str, Any]] = (np.zeros(0), {})
        quadratic = expression.is_quadratic()
        super().__init__(
            self._value,
            self._derivative,
            shape=shape,
            hess_product=self._curvature if quadratic else None,
            domain=None if quadratic else self._defined,
        )

    def _put(self, x: Array) -> None:
        """Set the values of the variables, without CVXPY's checks of their attributes, which x meets up to rounding."""
        for v, value in zip(self.variables, split(x, self.variables), strict=True):
            v.save_value(value)

    def _known(self, x: Array) -> dict[str, Any]:
        """Return the numbers that were computed at x."""
        if not np.array_equal(x, self._last[0]):
            self._last = x, {}
            self._put(x)
        return self._last[1]

    def _value(self, x: Array) -> float:
        known = self._known(x)
        if "value" not in known:
            with np.errstate(all="ignore"):
                known["value"] = self.sign * float(np.asarray(self.expression.value).item())
        return known["value"]

    def _derivative(self, x: Array) -> Array:
        known = self._known(x)
        if "derivative" not in known:
            parts = [_column(part, v.size) for part, v in zip(self._gradients(), self.variables, strict=True)]
            entries = np.concatenate(parts)
            known["derivative"] = self.sign * (entries.reshape(x.shape, order="F") if len(parts) == 1 else entries)
        return known["derivative"]

    def _gradients(self) -> list[Any]:
        """Return the derivatives with respect to all variables; None outside of the domain."""
        with np.errstate(all="ignore"):
            try:
                found = self.expression.grad
            except TypeError:  # CVXPY adds the derivatives of the terms of a sum, and None to a number
                found = dict.fromkeys(self.variables)
        return [found.get(v, 0.0) for v in self.variables]

    def _defined(self, x: Array) -> bool:
        """Return whether value and gradient are finite at x."""
        return bool(np.isfinite(self._value(x)) and np.isfinite(self._derivative(x)).all())

    def _curvature(self, x: Array, v: Array) -> Array:
        """Return the Hessian of a quadratic times v: the difference of two gradients."""
        return self._derivative(v) - self._derivative(np.zeros_like(v))


def _column(derivative: Any, size: int) -> Array:
    """Return CVXPY's derivative with respect to a variable as a vector; NaN outside of the domain, where it is None."""
    if derivative is None:
        return np.full(size, np.nan)
    dense = derivative.toarray() if sp.issparse(derivative) else np.asarray(derivative, dtype=np.float64)
    return np.broadcast_to(dense.reshape(-1), size)


def split(x: Array, variables: list[Any]) -> list[Array]:
    """Return the value of each variable, given x for one variable, or their entries one after the other."""
    if len(variables) == 1:
        return [x.reshape(variables[0].shape)]
    parts = np.split(x, np.cumsum([v.size for v in variables])[:-1])
    return [part.reshape(v.shape, order="F") for part, v in zip(parts, variables, strict=True)]


def _unpack(cp: Any, problem: Any, variables: list[Any], x: Any, result: Result) -> None:
    """Set the values of all variables, and the status and value of the problem."""
    from cvxpy.reductions.solution import Solution

    values = dict(zip([v.id for v in variables], split(np.asarray(result.x, dtype=np.float64), variables), strict=True))
    others = [v for v in problem.variables() if v.id not in values]
    if others:  # values that satisfy the constraints together with the point nearest to the solution
        target = np.asarray(result.x, dtype=np.float64).reshape(x.shape)
        nearest = cp.Problem(cp.Minimize(cp.sum_squares(x - target)), problem.constraints)
        nearest.solve(solver=cp.CLARABEL)
        values |= {v.id: v.value for v in others}
    status = cp.OPTIMAL_INACCURATE
    if result.success:
        status = cp.OPTIMAL
    elif result.status in _LIMITS:
        status = cp.settings.USER_LIMIT
    problem.unpack(Solution(status, None, values, {}, {}))
