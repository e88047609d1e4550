"""Quadratic assignment: permutations from many starting points, with a certified lower bound."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from tqdm.auto import tqdm

from fwflow._assignment.bounds import convex_quadratic, gilmore_lawler
from fwflow._assignment.problem import Assignment
from fwflow._assignment.search import batches, frank_wolfe, improved, starting_points
from fwflow._threads import one_thread
from fwflow._validation import Array, InputError, finite_array, positive, whole
from fwflow.run.result import Status

_MESSAGES = {
    Status.FINISHED: "All starts ended; a larger number of starts may find a smaller value.",
    Status.TIME: "The time limit was reached; raise max_time for a smaller value or a better bound.",
    Status.INTERRUPTED: "The search was interrupted; the best permutation so far is returned.",
}


@dataclass(frozen=True, eq=False)
class AssignmentResult:
    """Result of `quadratic_assignment`.

    Attributes
    ----------
    permutation : array of int
        Row i of A is assigned to row ``permutation[i]`` of B; -1 if B is smaller than A and row i has no partner.
    value : float
        Value of the permutation.
    bound : float
        Certified lower bound on the value of every permutation that contains the fixed pairs.
    values : array
        Value that was found from each start, in the order of the starts; NaN for a start that did not run.
    status : Status
        ``FINISHED``, ``TIME`` or ``INTERRUPTED``.
    message : str
        Sentence on the end of the search.
    seconds : float
        Time of the call.

    See Also
    --------
    quadratic_assignment : Returns this result.
    Status : Reasons for the end of a search.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> A, B = np.array([[0, 3, 1], [3, 0, 2], [1, 2, 0]]), np.array([[0, 1, 4], [1, 0, 2], [4, 2, 0]])
    >>> r = fw.quadratic_assignment(A, B)
    >>> r.value, r.gap
    (22.0, 0.0)
    """

    permutation: Array
    value: float
    bound: float
    values: Array
    status: Status
    message: str
    seconds: float

    @property
    def gap(self) -> float:
        """Difference of value and bound. Zero proves that the permutation is optimal."""
        return self.value - self.bound


@one_thread()
def quadratic_assignment(
    A: Any,
    B: Any,
    C: ArrayLike | None = None,
    *,
    starts: int = 20,
    seed: int = 0,
    refine: bool = True,
    fixed: ArrayLike | None = None,
    pad: bool = False,
    max_time: float | None = None,
    progress: bool = False,
) -> AssignmentResult:
    r"""Assign the rows of one matrix to the rows of another one at small cost, with a certified lower bound.

    The value of a permutation p is

    .. math:: \sum_{i,j} A_{ij} B_{p(i)p(j)} + \sum_i C_{i p(i)} .

    For example, A holds flows between facilities, B holds distances between places, and C holds costs of places. The
    problem is NP-hard. The search runs Frank-Wolfe with exact line searches over doubly stochastic matrices from
    several starting points, rounds the results to permutations, and improves these by swaps.

    Parameters
    ----------
    A, B : (n, n) array_like or sparse matrix
        Matrices, which need not be symmetric. Sparse matrices speed up the products, but the search needs memory for
        several dense n x n matrices.
    C : (n, n) array_like or sparse matrix, optional
        Linear costs; zero by default.
    starts : int
        Number of starting points; 20 by default. The first one is the barycentre, and the others are random.
    seed : int
        Seed of the random numbers; 0 by default. Two calls with the same arguments return the same permutation, unless
        a time limit ends them.
    refine : bool
        Whether to improve the permutations by swaps of two columns; True by default.
    fixed : (m, 2) array_like of int, optional
        Pairs (i, j) with p(i) = j, which every permutation must contain; none by default.
    pad : bool
        Whether A and B may have different sizes; False by default. The smaller matrix gets rows and columns of zeros,
        and C has the shape (rows of A, rows of B). If A is smaller, distinct rows of B are chosen for the rows of A. If
        B is smaller, the rows of A without a partner cost nothing, and their entry of the permutation is -1.
    max_time : float, optional
        Time limit in seconds; none by default. The best permutation so far is returned, and the bound is still valid.
        One Frank-Wolfe step of one batch of starts may exceed the limit.
    progress : bool
        Show a progress bar over the starts; False by default.

    Returns
    -------
    AssignmentResult
        Permutation, value, bound, and the values from all starts.

    See Also
    --------
    Birkhoff : Set of doubly stochastic matrices.
    minimize : Minimises any function over this set, also from several starts.

    Notes
    -----
    Frank-Wolfe on this relaxation is the algorithm FAQ of Vogelstein et al. (2015), as in
    ``scipy.optimize.quadratic_assignment``. The swaps follow the robust tabu search of Taillard (1991).

    To maximise, pass ``-A`` and ``-C``: the negative of ``bound`` is then an upper bound. *Graph matching*, which
    minimises the norm of ``A - B[p][:, p]``, is the maximisation for adjacency matrices, so that
    ``quadratic_assignment(-A, B, fixed=seeds, pad=True)`` matches two graphs.

    The bound is the larger one of two bounds: that of Gilmore and Lawler, and the convex quadratic bound of
    Anstreicher and Brixius (2001). The second one is computed by `minimize`. The Frank-Wolfe gap is subtracted, so that
    it is valid after any number of steps. An allowance for rounding errors is subtracted from both. For integer data
    the bound is rounded up to the next possible value. All values are multiples of one integer, which follows from the
    greatest common divisors of the entries; they are even for symmetric A and B with zero diagonals and C = 0.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> place = np.arange(5)
    >>> distance = abs(place[:, None] - place)
    >>> chain = np.array([2, 0, 3, 1, 4])
    >>> flow = np.zeros((5, 5))
    >>> flow[chain[:-1], chain[1:]] = 1  # 2 -> 0 -> 3 -> 1 -> 4
    >>> r = fw.quadratic_assignment(flow, distance)
    >>> r.permutation[chain], r.value, r.bound
    (array([4, 3, 2, 1, 0]), 4.0, 4.0)
    """
    began = time.perf_counter()
    deadline = math.inf if max_time is None else began + positive(max_time, "max_time")
    A, B = _square(A, "A"), _square(B, "B")
    sizes = len(A), len(B)
    if sizes[0] != sizes[1] and not pad:
        raise InputError(f"A and B have sizes {sizes[0]} and {sizes[1]}; pad=True fills up the smaller one with zeros")
    C = np.zeros(sizes) if C is None else _matrix(C, "C")
    if C.shape != sizes:
        raise InputError(f"C has shape {C.shape}; it must have the shape {sizes}, (rows of A, rows of B)")
    rows, columns = _pairs(fixed, sizes)
    starts, seed = whole(starts, "starts", 1), whole(seed, "seed", 0)

    n = max(sizes)
    A, B, C = (np.pad(M, [(0, n - size) for size in M.shape]) for M in (A, B, C))
    with np.errstate(over="ignore", invalid="ignore"):  # an overflow is an error of the caller
        original = Assignment.reduced(A, B, C, rows, columns)
        problem = original.symmetrised
    if not math.isfinite(problem.scale + problem.constant):
        raise InputError("A, B and C have entries so large that values overflow; divide them by a common factor")
    best, values = np.arange(problem.n), np.full(starts, np.nan if problem.n else problem.constant)
    bound, status = -math.inf, Status.FINISHED

    def late() -> bool:
        return time.perf_counter() >= deadline

    with tqdm(total=starts, desc="starts") if progress else nullcontext() as bar:
        try:
            bound = max(gilmore_lawler(original), gilmore_lawler(problem))
            for batch in batches(problem, starts) if problem.n else ():
                found = frank_wolfe(problem, starting_points(problem.n, batch, seed), late)
                found = improved(problem, found, seed, late) if refine else found
                values[batch] = problem.values(found)
                best = found[np.argmin(values[batch])] if values[batch].min() <= np.nanmin(values) else best
                if bar is not None:
                    bar.update(batch.stop - batch.start)
                if late():
                    break
            if not late():
                convex = convex_quadratic(problem, bound, deadline - time.perf_counter())
                bound, status = max(bound, convex.bound), convex.status
        except KeyboardInterrupt:
            status = Status.INTERRUPTED
    status = Status.TIME if status is Status.FINISHED and late() else status
    p = np.empty(n, dtype=np.intp)
    p[rows] = columns
    p[np.setdiff1d(np.arange(n), rows)] = np.setdiff1d(np.arange(n), columns)[best]
    value = float((A * B[np.ix_(p, p)]).sum() + C[np.arange(n), p].sum())
    p = np.where(p < sizes[1], p, -1)[: sizes[0]]
    seconds = time.perf_counter() - began
    return AssignmentResult(p, value, problem.next_value(bound), values, status, _MESSAGES[status], seconds)


def _matrix(value: Any, name: str) -> Array:
    """Return a dense matrix of finite numbers in double precision."""
    dense = value.toarray() if sparse.issparse(value) else value
    return finite_array(dense, name, ndim=2, dtype=np.float64)


def _square(value: Any, name: str) -> Array:
    matrix = _matrix(value, name)
    if matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise InputError(f"{name} must be a square matrix; got shape {matrix.shape}")
    return matrix


def _pairs(fixed: ArrayLike | None, sizes: tuple[int, int]) -> Array:
    """Return the fixed pairs, each once, as two rows of an array."""
    if fixed is None or not np.size(fixed):
        return np.zeros((2, 0), dtype=np.intp)
    pairs = finite_array(fixed, "fixed", ndim=2)
    if pairs.shape[1] != 2:
        raise InputError(f"fixed must have two columns, for rows of A and of B; got shape {pairs.shape}")
    for name, given, size in zip("AB", pairs.T, sizes, strict=True):
        wrong = (given < 0) | (given >= size) | (given != np.floor(given))
        if wrong.any():
            raise InputError(f"fixed must hold rows of {name}, from 0 to {size - 1}; got {given[wrong][0]:g}")
    pairs = np.unique(pairs.astype(np.intp), axis=0)
    for i, name in enumerate("AB"):
        used, counts = np.unique(pairs[:, i], return_counts=True)
        if (counts > 1).any():
            first, second = pairs[pairs[:, i] == used[counts > 1][0]][:2].tolist()
            raise InputError(f"fixed pairs {tuple(first)} and {tuple(second)} share a row of {name}; drop one")
    return pairs.T
