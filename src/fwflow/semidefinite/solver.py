"""`solve`: the choice of a method for a semidefinite program, and its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fwflow._threads import one_thread
from fwflow._validation import InputError, describe, positive, suggest, whole
from fwflow.run.result import State
from fwflow.semidefinite.choice import solve_general
from fwflow.semidefinite.device import DeviceEngine
from fwflow.semidefinite.diagonal import DiagonalProgram, DiagonalStepper, SparseDiagonalEngine
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.models import CvxpyProgram, is_cvxpy
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import SemidefiniteResult, execute
from fwflow.semidefinite.sweeps import SparseEngine

# Engines for diagonal constraints by the name of the backend.
_ENGINES: dict[str, type[SparseDiagonalEngine]] = {"numpy": SparseEngine, "jax": DeviceEngine}


@one_thread()
def solve(
    p: Problem,
    rtol: float = 1e-4,
    *,
    max_time: float | None = None,
    max_iter: int = 100_000,
    rank: int | None = None,
    method: str = "auto",
    seed: int = 0,
    backend: str = "numpy",
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    """Solve a semidefinite program, and prove a bound on its minimum.

    Parameters
    ----------
    p : Problem or cvxpy.Problem
        The program. A problem of CVXPY must have one symmetric positive semidefinite variable and be linear.
    rtol : float
        The run succeeds if ``abs(value - bound) <= rtol * abs(bound)``; 1e-4 by default. Without a repair, the
        infeasibility must also be at most `rtol`.
    max_time : float, optional
        Time limit in seconds. Default: no limit.
    max_iter : int
        Largest number of iterations; 100000 by default.
    rank : int, optional
        Number of columns of the factor at the start. Default: chosen for the problem. It grows as needed.
    method : {"auto", "boundary-point", "low-rank", "conditional-gradient"}
        "auto", the default, uses sweeps and Newton steps if the constraints are diag(X) = b with positive b and C is
        sparse. Otherwise it uses the boundary point method for matrices of moderate order with many constraints, and
        the low-rank augmented Lagrangian method for all others. "conditional-gradient" is the reference method CGAL,
        which is slow.
    seed : int
        Seed of the random start; 0 by default.
    backend : {"numpy", "jax"}
        "jax" computes on a GPU if JAX finds one, for a sparse C and the constraints diag(X) = b; "numpy" by default.
    callback : callable, optional
        Function of the `State` that is called at every iterate. The run stops if it returns a true value.
    progress : bool
        Show a progress bar; False by default.

    Returns
    -------
    SemidefiniteResult
        Factor of X, value, bound, status and trace.

    Notes
    -----
    For small programs an interior-point method, for example Clarabel through CVXPY, is faster and more accurate.

    See Also
    --------
    Problem : Data of the program.
    maxcut : Maximum cuts.
    theta : The Lovasz theta function of a graph.
    completion : Completion of a matrix.
    read_sdpa : Programs from files.

    Examples
    --------
    >>> import numpy as np
    >>> from fwflow import semidefinite
    >>> C = np.array([[2.0, -1.0], [-1.0, 1.0]])
    >>> p = semidefinite.Problem(C, [np.eye(2)], [1.0])  # the smallest eigenvalue of C
    >>> r = semidefinite.solve(p, rtol=1e-6)
    >>> r.success, round(r.value, 4)
    (True, 0.382)
    """
    if is_cvxpy(p):
        model = CvxpyProgram.of(p)
        limits = {"max_time": max_time, "max_iter": max_iter, "rank": rank, "seed": seed, "backend": backend}
        found = solve(model.problem, rtol, **limits, method=method, callback=callback, progress=progress)  # type: ignore[arg-type]
        return model.unpack(found)
    if not isinstance(p, Problem):
        raise InputError(f"p must be a semidefinite.Problem; got {describe(p)}")
    rtol = positive(rtol, "rtol")
    if backend not in _ENGINES:
        raise InputError(f"backend={backend!r} is not known; {suggest(backend, _ENGINES)}")
    rank = None if rank is None else whole(rank, "rank", 1)
    matrix = p.C.sparse()
    given_diagonal = p.map.is_diagonal and (p.b > 0).all() and not p.inequalities.any() and p.trace_is_implied
    if not given_diagonal or matrix is None or method != "auto":
        if backend != "numpy":
            raise InputError(
                f"backend={backend!r} needs a sparse C, the constraints diag(X) = b with b > 0, and method='auto'; "
                "use backend='numpy'"
            )
        return solve_general(
            GeneralProgram(p),
            method=method,
            rtol=rtol,
            max_iter=max_iter,
            max_time=max_time,
            rank=rank,
            seed=seed,
            callback=callback,
            progress=progress,
        )
    engine = _ENGINES[backend](matrix, p.b)
    program = DiagonalProgram(p, engine)
    start = program.point(engine.start(rank or engine.first_rank, seed))
    return execute(
        program,
        DiagonalStepper(),
        start,
        None,
        known=program.first(start),
        rtol=rtol,
        ftol=1e-9,
        max_iter=max_iter,
        max_time=max_time,
        callback=callback,
        progress=progress,
    )
