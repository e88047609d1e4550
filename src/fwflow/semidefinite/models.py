"""Semidefinite programs that are written in CVXPY, with one positive semidefinite variable."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import dot
from fwflow._validation import Array, InputError, one_line
from fwflow.run.result import Status
from fwflow.semidefinite.operators import SparseMap, SparseOperator
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import SemidefiniteResult

# Reasons for the end of a run that a limit or the user caused. CVXPY calls its status "user_limit".
_LIMITS = (Status.ITERATIONS, Status.TIME, Status.CALLBACK, Status.INTERRUPTED)
_UNFIT = "the CVXPY problem cannot be used"
_AFFINE = "its objective and constraints must be affine functions of one variable cp.Variable((n, n), PSD=True)"


def is_cvxpy(problem: Any) -> bool:
    """Return whether an object is a problem of CVXPY, without importing CVXPY."""
    cvxpy = sys.modules.get("cvxpy")
    return cvxpy is not None and isinstance(problem, cvxpy.Problem)


@dataclass(frozen=True)
class CvxpyProgram:
    """Problem of CVXPY and the equivalent minimisation.

    The objective of CVXPY is ``offset + sign * <C, X>``, with the sign -1 for a maximisation.
    """

    model: Any
    variable: Any
    problem: Problem
    sign: float
    offset: float

    @staticmethod
    def of(model: Any) -> CvxpyProgram:
        """Return the program of a CVXPY problem; raise an error that names the reason if it has another form."""
        import cvxpy as cp

        variable = _variable(model)
        n = variable.shape[0]
        try:
            data = model.get_problem_data(cp.CLARABEL)[0]
        except (cp.error.DCPError, cp.error.SolverError) as error:
            raise InputError(f"{_UNFIT}: {one_line(error)}") from None
        dims = data["dims"]
        others = dims.soc or dims.exp or dims.p3d or dims.pnd or data.get("P") is not None
        if others or data["A"].shape[1] != n * (n + 1) // 2:
            raise InputError(f"{_UNFIT}: {_AFFINE}")
        if list(dims.psd) != [n]:
            raise InputError(
                f"{_UNFIT}: it has semidefinite constraints of orders {list(dims.psd)}, but the"
                f" only one must be on the variable itself, of order {n}"
            )
        rows, cols, A, b = _positions(sp.csr_array(data["A"]), np.asarray(data["b"], dtype=np.float64), n)
        upper = sp.coo_array((np.asarray(data["c"]) / 2, (rows, cols)), (n, n))
        C = sp.csr_array(upper + upper.T)
        signed, used = np.arange(len(b)) >= dims.zero, np.unique(A.indices)
        entries = SparseMap(n, rows[used], cols[used], sp.csr_array(A[:, used]))
        problem = Problem(SparseOperator(C), entries, b, inequalities=signed)
        sign = -1.0 if isinstance(model.objective, cp.Maximize) else 1.0
        return CvxpyProgram(model, variable, problem, sign, _constant(model, variable))

    def unpack(self, result: SemidefiniteResult) -> SemidefiniteResult:
        """Set the value of the variable and the status of the CVXPY problem; return the result in its terms."""
        import cvxpy as cp
        from cvxpy.reductions.solution import Solution

        if result.status is Status.INFEASIBLE:
            worst = self.sign * np.inf
            self.model.unpack(Solution(cp.INFEASIBLE, worst, {}, {}, {}))
            return replace(result, bound=worst)
        status = cp.OPTIMAL_INACCURATE
        if result.success:
            status = cp.OPTIMAL
        elif result.status in _LIMITS:
            status = cp.settings.USER_LIMIT
        X = np.asarray(dot(result.Y, result.Y.T))
        self.model.unpack(Solution(status, None, {self.variable.id: X}, {}, {}))
        value, bound = (self.offset + self.sign * number for number in (result.value, result.bound))
        return replace(result, value=value, bound=bound)


def _variable(model: Any) -> Any:
    unset = [parameter.name() for parameter in model.parameters() if parameter.value is None]
    if unset:
        raise InputError(f"{_UNFIT}: parameter {unset[0]} has no value")
    variables = model.variables()
    if len(variables) != 1:
        raise InputError(f"{_UNFIT}: it has {len(variables)} variables; {_AFFINE}")
    variable = variables[0]
    square = len(variable.shape) == 2 and variable.shape[0] == variable.shape[1]
    if not square or not variable.is_symmetric() or variable.is_complex():
        raise InputError(f"{_UNFIT}: its variable {variable.name()} is not a symmetric real matrix; {_AFFINE}")
    if model.is_mixed_integer():
        raise InputError(f"{_UNFIT}: its variable {variable.name()} is boolean or integer; {_AFFINE}")
    return variable


def _positions(A: sp.csr_array, b: Array, n: int) -> tuple[Array, Array, sp.csr_array, Array]:
    """Return the position of every column in the upper triangle, and the rows of the constraints without the last cone.

    The last rows are those of the semidefinite cone: minus the entries of the upper triangle, column by column.
    """
    count = n * (n + 1) // 2
    cone, zero = A[len(b) - count :], b[len(b) - count :]
    cols = np.repeat(np.arange(n), np.arange(1, n + 1))
    rows = np.arange(count) - cols * (cols + 1) // 2
    expected = -np.where(rows == cols, 1.0, np.sqrt(2))
    cone.eliminate_zeros()
    plain = (np.diff(cone.indptr) == 1).all() and len(np.unique(cone.indices)) == count
    if not plain or zero.any() or not np.allclose(cone.data, expected):
        raise InputError(f"{_UNFIT}: its semidefinite constraint must be on the variable itself")
    order = np.empty(count, dtype=np.int64)
    order[cone.indices] = np.arange(count)
    return rows[order], cols[order], sp.csr_array(A[: len(b) - count]), b[: len(b) - count]


def _constant(model: Any, variable: Any) -> float:
    """Return the objective for X = 0."""
    before = variable.value
    variable.save_value(np.zeros(variable.shape))
    try:
        return float(np.asarray(model.objective.args[0].value).item())
    finally:
        variable.save_value(before)
