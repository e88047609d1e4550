"""Semidefinite program: data, dual bound and residuals, all in terms of the factor Y of X = Y Y^T."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._validation import Array, InputError, finite_array, positive, whole
from fwflow.semidefinite.operators import ConstraintMap, SumOperator, SymmetricOperator, as_map, as_operator
from fwflow.semidefinite.trace_bound import implied_trace


class Problem:
    r"""Semidefinite program with a bound on the trace.

    .. math::

       \min_X \; \langle C, X \rangle \quad \text{subject to} \quad \langle A_i, X \rangle = b_i \text{ or }
       \langle A_i, X \rangle \le b_i, \quad X \succeq 0, \quad \operatorname{tr} X \le R .

    Every vector y of multipliers, with :math:`y_i \le 0` for inequalities, gives a lower bound on the minimum:

    .. math::

       b^T y + R \min(0, \lambda_{\min}(C - \textstyle\sum_i y_i A_i)) .

    Parameters
    ----------
    C : matrix, vector, pair or callable
        Cost matrix of order n: a sparse or dense symmetric matrix, a vector (a diagonal matrix), a pair
        ``(U, weights)`` for ``U diag(weights) U^T``, or a function ``v -> C @ v``.
    constraints : sequence of matrices, or ConstraintMap
        The matrices A_i, each in one of the forms of C except a function, or a map of
        ``fwflow.semidefinite.operators``.
    b : array_like
        Right-hand sides.
    trace : float, optional
        Upper bound R on the trace of X. Without it, the bound is derived from the constraints.
    inequalities : array_like of bool, optional
        Whether constraint i is an inequality ``<A_i, X> <= b_i``. Default: all constraints are equations.
    n : int, optional
        Order of the matrices. It is needed if C is a function.

    See Also
    --------
    solve : Solves the program.
    read_sdpa : Programs from files.
    SemidefiniteResult : Solution and bound.

    Examples
    --------
    The smallest eigenvalue of a matrix is the minimum over all X of trace 1.

    >>> import numpy as np
    >>> from fwflow import semidefinite
    >>> p = semidefinite.Problem(np.diag([3.0, 1.0, 2.0]), [np.ones(3)], [1.0])
    >>> p.trace, round(semidefinite.solve(p).value, 3)
    (1.0, 1.0)
    """

    def __init__(
        self,
        C: Any,
        constraints: Sequence[Any] | ConstraintMap,
        b: ArrayLike,
        trace: float | None = None,
        *,
        inequalities: ArrayLike | None = None,
        n: int | None = None,
    ) -> None:
        if n is not None:
            n = whole(n, "n", 1)
        elif isinstance(constraints, ConstraintMap):
            n = constraints.n
        self.C: SymmetricOperator = as_operator(C, "C", n)
        self.n = self.C.n
        self.map = constraints if isinstance(constraints, ConstraintMap) else as_map(list(constraints), self.n)
        self.b = finite_array(b, "b", ndim=1, dtype=np.float64)
        if len(self.b) != self.map.m:
            raise InputError(f"b has {len(self.b)} entries; there are {self.map.m} constraints")
        self.inequalities = np.zeros(len(self.b), dtype=bool)
        if inequalities is not None:
            self.inequalities = np.asarray(inequalities, dtype=bool)
            if self.inequalities.shape != self.b.shape:
                raise InputError(
                    f"inequalities has shape {self.inequalities.shape}; there are {len(self.b)} constraints"
                )
        self.given_trace = None if trace is None else positive(trace, "trace")

    @cached_property
    def implied_trace(self) -> float | None:
        """Bound on the trace of X that follows from the constraints, or None if none is found."""
        return implied_trace(self.map, self.b, self.inequalities)

    @cached_property
    def trace(self) -> float:
        """Upper bound R on the trace of X: the given one, or else the one that follows from the constraints."""
        if self.given_trace is not None:
            return self.given_trace
        if self.implied_trace is None:
            raise InputError(
                "no bound on the trace of X follows from the constraints, and without one no lower bound can be"
                " certified; give trace=R, a number that the trace of some solution does not exceed (in CVXPY, add the"
                " constraint cp.trace(X) <= R)"
            )
        return self.implied_trace

    @cached_property
    def trace_is_implied(self) -> bool:
        """Whether every X that satisfies the constraints has a trace of at most R."""
        return self.implied_trace is not None and self.implied_trace <= self.trace * (1 + 1e-9)

    def slack(self, y: Array) -> SymmetricOperator:
        """Return the matrix ``C - sum_i y_i A_i``, the gradient of the Lagrangian."""
        return SumOperator([(1.0, self.C), (-1.0, self.map.adjoint(y))])

    def residual(self, Y: Array) -> Array:
        """Return ``<A_i, X> - b_i`` for X = Y Y^T, and its positive part for inequalities."""
        violation = self.map.image(Y) - self.b
        return np.where(self.inequalities, np.maximum(violation, 0), violation)
