"""`solve`: the choice of a method for a semidefinite program, and its run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fwflow._validation import InputError, describe, positive, suggest, whole
from fwflow.run.result import State
from fwflow.semidefinite.device import DeviceEngine
from fwflow.semidefinite.diagonal import DiagonalProgram, DiagonalStepper, SparseDiagonalEngine
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.program import SemidefiniteResult, execute
from fwflow.semidefinite.sweeps import SparseEngine

# Engines for diagonal constraints by the name of the backend.
_ENGINES: dict[str, type[SparseDiagonalEngine]] = {"numpy": SparseEngine, "jax": DeviceEngine}


def solve(
    p: Problem,
    rtol: float = 1e-4,
    *,
    max_time: float | None = None,
    max_iter: int = 100_000,
    rank: int | None = None,
    seed: int = 0,
    backend: str = "numpy",
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    """Minimise <C, X> over the positive semidefinite matrices that satisfy the constraints of a problem."""
    if not isinstance(p, Problem):
        raise InputError(f"p must be a semidefinite.Problem; got {describe(p)}")
    rtol = positive(rtol, "rtol")
    if backend not in _ENGINES:
        raise InputError(f"backend={backend!r} is not known; {suggest(backend, _ENGINES)}")
    rank = None if rank is None else whole(rank, "rank", 1)
    if not (p.map.is_diagonal and (p.b > 0).all() and not p.inequalities.any()):
        raise InputError("only diagonal constraints so far")
    matrix = p.C.sparse()
    assert matrix is not None
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
