"""Lovasz theta function of a graph, with a feasible value and a proved bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from fwflow._graphs import is_networkx, read_graph
from fwflow._numerics import dot, norm
from fwflow._validation import Array, InputError, describe, finite_array, positive, whole
from fwflow.semidefinite.choice import solve_general
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.operators import FactoredOperator, SparseMap, SparseOperator, SumOperator
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import Factor, SemidefiniteResult

# Number of power iterations for the vector that gives the value of a repaired matrix. The start is the optimal vector
# for an optimal matrix, so that few iterations are enough.
_POWER_STEPS = 3
# Smallest squared lengths of rows that are scaled to length 1, relative to their mean. Chosen without tuning.
_FLOORS = (1e-6, 1e-3, 0.1, 1.0)


def theta(
    edges: Any,
    n: int | None = None,
    rtol: float = 1e-4,
    *,
    max_time: float | None = None,
    max_iter: int = 10_000,
    method: str = "auto",
    progress: bool = False,
) -> SemidefiniteResult:
    r"""Compute the Lovasz theta function of a graph, with a proof.

    .. math::

       \vartheta(G) = \max_X \{ \sum_{ij} X_{ij} : \operatorname{tr} X = 1, \; X_{ij} = 0 \text{ for edges } ij,
       \; X \succeq 0 \} .

    It lies between the largest number of nodes without an edge between them and the number of colours that the
    complement of the graph needs.

    Parameters
    ----------
    edges : array_like of int, NetworkX graph or SciPy sparse matrix
        Edges as rows of two nodes, which are counted from 0, or a graph without directions. Weights are ignored.
    n : int, optional
        Number of nodes. It is needed if `edges` is an array.
    rtol : float
        Largest gap between value and bound, relative to the bound.
    max_time : float, optional
        Time limit in seconds.
    max_iter : int
        Largest number of steps.
    method : str
        ``"auto"``, ``"boundary-point"``, ``"low-rank"`` or ``"conditional-gradient"``.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    SemidefiniteResult
        ``value <= theta <= bound``. The value belongs to a feasible matrix: `Y Y^T` with zeros at the edges, unit
        diagonal after scaling, and shifted by a multiple of the identity.

    Notes
    -----
    The bound is :math:`\lambda_{\max}(J + \sum_{ij} y_{ij} E_{ij})` for the multipliers y of the edges. For the value,
    let B be positive semidefinite with ones on the diagonal and zeros at the edges. Then :math:`\lambda_{\max}(B) \le
    \vartheta(G)` (Lovasz, 1979). The matrix found by the method has small entries at the edges. They are set to zero,
    and the smallest eigenvalue :math:`-\delta` of the result is repaired: :math:`B = (\tilde B + \delta I) / (1 +
    \delta)`.

    The other formulation has a constraint for each pair of nodes without an edge. It is not needed here: the boundary
    point method improves the matrices of both at once, and an iteration takes the same time for any number of edges.

    See Also
    --------
    maxcut : Maximum cut of a graph.
    solve : Any semidefinite program.

    Examples
    --------
    >>> from fwflow import semidefinite
    >>> r = semidefinite.theta([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], 5)
    >>> bool(r.value <= 5**0.5 <= r.bound), r.success
    (True, True)
    """
    rows, cols, n = _edges(edges, n)
    result = solve_general(
        ThetaProgram(rows, cols, n),
        method=method,
        rtol=positive(rtol, "rtol"),
        max_iter=max_iter,
        max_time=max_time,
        progress=progress,
    )
    return result.negated()


def _edges(edges: Any, n: Any) -> tuple[Array, Array, int]:
    """Return the smaller and the larger node of all distinct edges, and the number of nodes."""
    if is_networkx(edges) or sp.issparse(edges):
        found = read_graph(edges, "edges", directed=False, weight=None)
        if n is not None and whole(n, "n", 1) != len(found.nodes):
            raise InputError(f"n={n}, but the graph has {len(found.nodes)} nodes; leave n out")
        n, ends = len(found.nodes), np.column_stack([found.tails, found.heads])
        if sp.issparse(edges):
            ends = ends[found.weights != 0]
        if n == 0:
            raise InputError("edges is a graph without nodes")
    else:
        if n is None:
            raise InputError("n, the number of nodes, must be given with an array of edges")
        n, ends = whole(n, "n", 1), _pairs(edges)
    if len(ends) and ends.max() >= n:
        raise InputError(f"edges has node {ends.max()}; with n={n} nodes, they are counted from 0 to {n - 1}")
    loops = np.flatnonzero(ends[:, 0] == ends[:, 1])
    if len(loops):
        raise InputError(f"edges must join different nodes; edge {loops[0]} joins node {ends[loops[0], 0]} with itself")
    ends = np.unique(np.sort(ends, axis=1), axis=0)
    return ends[:, 0], ends[:, 1], n


def _pairs(edges: ArrayLike) -> Array:
    found = finite_array(edges, "edges")
    if found.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if found.ndim != 2 or found.shape[1] != 2:
        raise InputError(f"edges must have two columns, the nodes of each edge; got {describe(edges)}")
    if (found < 0).any() or (found != np.floor(found)).any():
        wrong = found[(found < 0) | (found != np.floor(found))][0]
        raise InputError(f"edges must be nodes, counted from 0; got {wrong:g}")
    return found.astype(np.int64)


class ThetaProgram(GeneralProgram):
    """Minimise ``-<J, X>`` for X with trace 1 and zeros at the edges; all points are repaired."""

    repaired = True

    def __init__(self, rows: Array, cols: Array, n: int) -> None:
        self.rows, self.cols = rows, cols
        #: Numbers of the best floor in the last evaluation, and of the one that was compared with it.
        self._best, self._trial = 0, 0
        every, m = np.arange(n), len(rows)
        # The first constraint is the trace, and the others are the entries at the edges.
        trace = sp.csr_array((np.ones(n), (np.zeros(n, np.int64), every)), (1, n))
        M = sp.csr_array(sp.block_diag([trace, sp.eye_array(m)])) if m else trace
        places = np.concatenate([every, rows]), np.concatenate([every, cols])
        b = np.eye(1, m + 1)[0]
        super().__init__(Problem((np.ones((n, 1)), np.array([-1.0])), SparseMap(n, *places, M), b, 1.0), bounded=False)

    def point(self, Y: Array, y: Array) -> Factor:
        return Factor(Y, value=-self.repaired_value(Y), y=y)

    def repaired_value(self, Y: Array) -> float:
        """Return a lower bound on theta, the largest eigenvalue of a repaired matrix (Notes of `theta`)."""
        squares = np.einsum("ir,ir->i", Y, Y)
        if not squares.any():
            return 1.0  # of the identity
        # Scaling a short row to length 1 also scales its errors, so the best scaling is sought while the run goes on.
        self._trial = (self._trial + 1) % len(_FLOORS)
        values = {k: self._scaled_value(Y, squares, _FLOORS[k]) for k in (self._best, self._trial)}
        self._best = max(values, key=lambda k: values[k])
        return max(1.0, values[self._best])

    def _scaled_value(self, Y: Array, squares: Array, floor: float) -> float:
        """Return the value of the matrix whose rows are scaled to length 1, but not enlarged beyond a limit.

        Shorter rows have diagonal entries below 1. To increase them to 1 does not decrease the largest eigenvalue.
        """
        n = self.problem.n
        B = Y / np.sqrt(np.maximum(squares, floor * float(squares.mean())))[:, None]
        edges = -np.einsum("er,er->e", B[self.rows], B[self.cols])
        both = np.concatenate([self.rows, self.cols]), np.concatenate([self.cols, self.rows])
        removed = sp.csr_array(sp.coo_array((np.concatenate([edges, edges]), both), (n, n)))
        matrix = SumOperator([(1.0, FactoredOperator(B, np.ones(B.shape[1]))), (1.0, SparseOperator(removed))])
        v, value = np.sqrt(squares), 0.0
        for _ in range(_POWER_STEPS):
            v = v / float(norm(v))
            image = matrix.apply(v)
            value, v = float(dot(v, image)), image
        delta = max(0.0, -self.least(matrix, self.rtol).bound)
        rounding = 8 * n * float(np.finfo(np.float64).eps) * max(1.0, value)
        return (value + delta) / (1 + delta) - rounding
