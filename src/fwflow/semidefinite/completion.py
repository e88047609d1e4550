"""Completion of a matrix with the smallest nuclear norm, as a certified semidefinite program."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from fwflow._numerics import norm
from fwflow._validation import Array, InputError, finite_array, nodes, positive, shape_of, whole
from fwflow.semidefinite.choice import solve_general
from fwflow.semidefinite.general import GeneralProgram, inner_below
from fwflow.semidefinite.operators import entries_map
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import DualBound, Factor, SemidefiniteResult


def completion(
    rows: ArrayLike,
    cols: ArrayLike,
    values: ArrayLike,
    shape: tuple[int, int],
    trace: float | None = None,
    *,
    rtol: float = 1e-4,
    max_time: float | None = None,
    max_iter: int = 10_000,
    rank: int | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    r"""Complete a matrix from some of its entries, with the smallest nuclear norm.

    .. math::

       \min_M \|M\|_* \;\text{ subject to }\; M_{ij} = v_{ij} \text{ for the given entries}
       \;=\; \min_Z \tfrac12 \operatorname{tr} Z \;\text{ subject to }\; Z = \begin{pmatrix} W & M \\ M^T & W'
       \end{pmatrix} \succeq 0 .

    Parameters
    ----------
    rows, cols : array_like of int
        Positions of the given entries, counted from 0. They must be distinct.
    values : array_like
        Given entries.
    shape : tuple of int
        Numbers of rows and columns of the matrix.
    trace : float, optional
        Upper bound on the trace of Z, so that the nuclear norm is at most ``trace / 2``. Without it there is no bound.
    rtol : float
        Largest gap between value and bound, relative to the bound.
    max_time : float, optional
        Time limit in seconds.
    max_iter : int
        Largest number of steps.
    rank : int, optional
        Number of columns of the first factor. The rank grows where the certificate asks for it.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    SemidefiniteResult
        ``bound <= smallest nuclear norm <= value``. With p rows, ``r.Y[:p] @ r.Y[p:].T`` is the completed matrix up to
        the violation ``r.infeasibility`` of the given entries. The value also counts a correction of these entries.

    Notes
    -----
    Multipliers y of the entries form a sparse matrix G. A lower bound is :math:`\langle v, y \rangle / \sigma`, where
    :math:`\sigma` is an upper bound on the spectral norm of G. It needs no bound on the trace. The value is
    :math:`\tfrac12 \operatorname{tr} Y Y^T` plus an upper bound on the nuclear norm of the sparse matrix that corrects
    the given entries: the smallest of the sum of the lengths of its rows, the same for its columns, and its Frobenius
    norm times the square root of the smaller number of rows and columns.

    See Also
    --------
    solve : Any semidefinite program.
    fwflow.MatrixCompletion : Loss of a matrix with noisy entries, for `fwflow.minimize`.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow import semidefinite
    >>> M = np.outer([1.0, 2.0, 3.0], [1.0, -1.0, 2.0])
    >>> rows, cols = np.nonzero(np.array([[1, 1, 1], [1, 1, 0], [1, 0, 1]]))
    >>> r = semidefinite.completion(rows, cols, M[rows, cols], M.shape)
    >>> r.success, np.allclose(r.Y[:3] @ r.Y[3:].T, M, atol=1e-2)
    (True, True)
    """
    sizes, rank = shape_of(shape, "shape"), None if rank is None else whole(rank, "rank", 1)
    if len(sizes) != 2:
        raise InputError(f"shape must have two numbers, of rows and columns; got {shape!r}")
    i, j, v = nodes(rows, "rows"), nodes(cols, "cols"), finite_array(values, "values", ndim=1, dtype=np.float64)
    if not len(i) == len(j) == len(v):
        raise InputError(f"rows, cols and values must have one entry each; got {len(i)}, {len(j)} and {len(v)}")
    for name, found, size in (("rows", i, sizes[0]), ("cols", j, sizes[1])):
        if len(found) and found.max() >= size:
            raise InputError(f"{name} has index {found.max()}; shape {sizes} allows 0 to {size - 1}")
    flat = i * sizes[1] + j
    order = np.argsort(flat, kind="stable")
    twice = order[1:][np.diff(flat[order]) == 0]
    if len(twice):
        raise InputError(f"the entry at row {i[twice[0]]} and column {j[twice[0]]} is given twice")
    program = CompletionProgram(i, j, v, (sizes[0], sizes[1]), trace)
    return solve_general(
        program, rtol=positive(rtol, "rtol"), max_iter=max_iter, max_time=max_time, rank=rank, progress=progress
    )


class CompletionProgram(GeneralProgram):
    """Minimise half of the trace of Z with given entries in its upper right block; all points are repaired."""

    repaired = True

    def __init__(self, i: Array, j: Array, v: Array, shape: tuple[int, int], trace: float | None) -> None:
        self.i, self.j, self.shape = i, j, shape
        n = sum(shape)
        # The matrix with zeros at the other places is feasible, so a solution has no larger nuclear norm.
        enough = 2 * self.nuclear_bound(v) or 1.0
        problem = Problem(np.full(n, 0.5), entries_map(i, shape[0] + j, n), v, enough if trace is None else trace)
        super().__init__(problem, bounded=problem.trace < enough)

    def nuclear_bound(self, entries: Array) -> float:
        """Return an upper bound on the nuclear norm of the matrix with these entries at the given places."""
        squares = entries**2
        of_rows = np.sqrt(np.bincount(self.i, squares, self.shape[0])).sum()
        of_cols = np.sqrt(np.bincount(self.j, squares, self.shape[1])).sum()
        return float(min(of_rows, of_cols, math.sqrt(min(self.shape)) * norm(entries)))

    def point(self, Y: Array, y: Array) -> Factor:
        correction = self.nuclear_bound(self.problem.map.image(Y) - self.problem.b)
        return Factor(Y, value=float(np.vdot(Y, Y)) / 2 + correction, y=y)

    def certify(self, point: Factor, goal: float) -> DualBound:
        y, product = point.y, inner_below(self.problem.b, point.y)
        if not product > 0:
            return DualBound(0.0, np.zeros_like(y))
        # The eigenvalues of the matrix of y are plus and minus the singular values of G / 2. They are at most 1/2 for
        # feasible multipliers, and `largest` bounds them here.
        least = self.least(self.problem.slack(y), goal / (2 * product), point.x.shape[1])
        largest = 0.5 - least.bound
        factor = 0.5 / largest * (1 - 4 * float(np.finfo(np.float64).eps))
        if self.bounded and factor * product > self.ceiling:
            self.proof = factor * y
        return DualBound(factor * product, factor * y, least.vectors)
