"""Hulls of the integer or mixed-integer points of polytopes."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from fwflow._fingerprints import fingerprint
from fwflow._numerics import quietly
from fwflow._validation import Array, finite_array, float_dtype
from fwflow.points.vertices import DenseVertex, Shape, Vertex
from fwflow.sets.base import KnownSet, check_shape
from fwflow.sets.mps import read
from fwflow.sets.polytopes import Polytope

# Exponent of two of the largest cost: HiGHS stops at an absolute gap of 1e-6, which is then 1e-10 of the largest cost.
_LARGE = 14
# Largest distance from an integer that HiGHS leaves, and rounding in a mixture.
_INTEGRAL = 1e-6


class MixedInteger(KnownSet):
    r"""The hull of :math:`\{x : Ax \le b,\; Cx = d,\; l \le x \le u\}` with some entries integers.

    SciPy's `milp` (branch and bound of HiGHS) finds the best point. Integer entries are then rounded, and the cost is
    minimised over the other entries once more. If points tie, the result may lie between vertices. It starts at the
    point found for a zero objective. The diameter is that of the `Polytope` without integers, an upper bound. Points
    outside of this polytope are not members, points in it with the required integers are members, and for other points
    membership is unknown.

    Parameters
    ----------
    A, b, C, d : arrays or sparse matrices, optional
        Inequalities and equalities.
    lower, upper : float or array, optional
        Bounds; none by default.
    integrality : bool or array of bool
        Entries that must be integers; all by default.
    n : int, optional
        The dimension; needed only if no other argument determines it.

    Notes
    -----
    :Family: graphs and integers
    :Oracle: the best point, by HiGHS' branch and bound
    :Cost: a mixed-integer program

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
            raise ValueError(f"integrality must be 0 or 1, one for all or one for each of {self.shape[0]} entries")
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
        """Read the set of a mixed-integer program from an MPS file (``.mps``, ``.mps.gz``), in the order of columns.

        The objective is ignored; ``fwflow.sets.mps.read`` returns it. Needs highspy: ``pip install 'fwflow[mps]'``.
        """
        found = read(path)
        return cls(*found.rows, lower=found.lower, upper=found.upper, integrality=found.integrality)

    def __repr__(self) -> str:
        return f"MixedInteger({int(self.integrality.sum())} integers in dimension {self.shape[0]})"

    def fingerprint(self) -> str:
        return fingerprint(self, self.relaxation.fingerprint(), self.integrality)

    def lmo(self, g: Array, hint: Vertex | None = None) -> DenseVertex:
        check_shape(self, g, "g")
        return DenseVertex(self._best(g.astype(np.float64)).astype(float_dtype(g.dtype), copy=False))

    def _best(self, g: Array) -> Array:
        cost = np.ldexp(g, _LARGE - math.frexp(float(np.abs(g).max()))[1])
        P = self.relaxation
        answer = quietly(milp)(
            cost,
            integrality=self.integrality.astype(int),
            bounds=Bounds(P.lower, P.upper),
            constraints=self._rows,
            options={"mip_rel_gap": 0.0},
        )
        if answer.status == 2:
            raise ValueError("A, b, C, d, lower, upper, integrality describe an empty set")
        if answer.status in (3, 4):
            raise ValueError(f"g has no best point over {self!r}, which must be bounded: {answer.message}")
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
