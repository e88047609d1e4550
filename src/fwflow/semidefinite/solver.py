"""`solve`: the choice of a method for a semidefinite program, and its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fwflow._validation import InputError, describe, positive, whole
from fwflow.run.result import State
from fwflow.semidefinite.choice import solve_general
from fwflow.semidefinite.diagonal import DiagonalProgram, DiagonalStepper
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.models import CvxpyProgram, is_cvxpy
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import SemidefiniteResult, execute
from fwflow.semidefinite.sweeps import SparseEngine


def solve(
    p: Problem,
    rtol: float = 1e-4,
    *,
    max_time: float | None = None,
    max_iter: int = 100_000,
    rank: int | None = None,
    method: str = "auto",
    seed: int = 0,
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    """Minimise <C, X> over the positive semidefinite matrices that satisfy the constraints of a problem."""
    if is_cvxpy(p):
        model = CvxpyProgram.of(p)
        limits = {"max_time": max_time, "max_iter": max_iter, "rank": rank, "seed": seed}
        found = solve(model.problem, rtol, **limits, method=method, callback=callback, progress=progress)  # type: ignore[arg-type]
        return model.unpack(found)
    if not isinstance(p, Problem):
        raise InputError(f"p must be a semidefinite.Problem; got {describe(p)}")
    rtol = positive(rtol, "rtol")
    rank = None if rank is None else whole(rank, "rank", 1)
    matrix = p.C.sparse()
    given_diagonal = p.map.is_diagonal and (p.b > 0).all() and not p.inequalities.any() and p.trace_is_implied
    if not given_diagonal or matrix is None or method != "auto":
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
    engine = SparseEngine(matrix, p.b)
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
