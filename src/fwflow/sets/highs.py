"""HiGHS through its own Python interface: simplex steps from a known basis, and models as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array

# Strategies of the simplex method of HiGHS: the dual method from scratch, and the primal method from a basis, which
# stays feasible when only the costs change.
_DUAL, _PRIMAL = 1, 4


def load_highspy(purpose: str) -> Any:
    """Return the module highspy, or raise an error with the command that installs it."""
    try:
        import highspy
    except ImportError:
        raise ImportError(f"{purpose} needs highspy: pip install 'fwflow[mps]'") from None
    return highspy


class WarmSolver:
    """Linear programs with the same rows ``A x <= b, C x = d`` and bounds, each solved from the basis of another.

    The result depends only on the costs and the basis, not on earlier calls.
    """

    def __init__(
        self, rows: sp.csr_array, side: Array, inequalities: int, lower: Array, upper: Array, tol: float
    ) -> None:
        self._data = rows, side, inequalities, lower, upper, tol
        highspy = self._highspy = load_highspy("warm_start=True")
        solver = self._solver = highspy.Highs()
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("solver", "simplex")
        solver.setOptionValue("primal_feasibility_tolerance", tol)
        solver.setOptionValue("dual_feasibility_tolerance", tol)
        lp = highspy.HighsLp()
        lp.num_row_, lp.num_col_ = rows.shape
        lp.col_cost_ = np.zeros(lp.num_col_)
        lp.col_lower_, lp.col_upper_ = lower, upper
        lp.row_lower_ = np.where(np.arange(len(side)) < inequalities, -np.inf, side)
        lp.row_upper_ = side
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = rows.indptr, rows.indices, rows.data
        solver.passModel(lp)
        self._columns = np.arange(lp.num_col_, dtype=np.int32)
        self._kinds = [highspy.HighsBasisStatus(k) for k in range(len(highspy.HighsBasisStatus.__members__))]

    def __reduce__(self) -> Any:
        return WarmSolver, self._data  # a solver of HiGHS cannot be copied

    def minimise(self, cost: Array, basis: Array | None) -> tuple[Array, Array, Array] | None:
        """Return the solution, the multipliers of the rows and the basis, or None if there is no optimum."""
        solver, n = self._solver, len(cost)
        solver.clearSolver()
        solver.changeColsCost(n, self._columns, cost)
        solver.setOptionValue("simplex_strategy", _DUAL if basis is None else _PRIMAL)
        if basis is not None:
            start = self._highspy.HighsBasis()
            kinds = [self._kinds[k] for k in basis.astype(np.intp).tolist()]
            start.col_status, start.row_status = kinds[:n], kinds[n:]
            start.valid = True
            solver.setBasis(start)
        solver.run()
        if solver.getModelStatus() != self._highspy.HighsModelStatus.kOptimal:
            return None
        found, last = solver.getSolution(), solver.getBasis()
        statuses = np.array([int(kind) for kind in (*last.col_status, *last.row_status)], dtype=np.float64)
        return np.array(found.col_value), np.array(found.row_dual), statuses
