"""Choice of a method for a semidefinite program with any linear constraints, and its run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fwflow._threads import one_thread
from fwflow._validation import InputError, suggest
from fwflow.methods.base import Stepper
from fwflow.run.result import State, Status
from fwflow.semidefinite.augmented import LowRankLagrangian, ScaledProgram
from fwflow.semidefinite.boundary import BoundaryPoint, DenseProgram
from fwflow.semidefinite.conditional import ConditionalGradient
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.program import Factor, SemidefiniteResult, execute

# Largest order for the boundary point method, where an eigenvalue decomposition takes 0.1 s on one core, and smallest
# number of constraints, as a share of n^2. For theta with 0.1 n^2 edges it takes a third of the time of the low-rank
# method at order 200, with 0.05 n^2 half at order 400, with 0.03 n^2 1.5 times as much at order 700, and for trees and
# cycles of 150 to 200 nodes ten times as much.
_MODERATE, _MANY = 1000, 0.03
# Methods for programs with any linear constraints.
METHODS = ("auto", "boundary-point", "low-rank", "conditional-gradient")


@one_thread()
def solve_general(
    program: GeneralProgram,
    *,
    method: str = "auto",
    rtol: float,
    ftol: float | None = None,
    max_iter: int,
    max_time: float | None,
    rank: int | None = None,
    seed: int = 0,
    callback: Callable[[State], Any] | None = None,
    progress: bool = False,
) -> SemidefiniteResult:
    """Solve a program by one of the methods of this module.

    `ftol` is the largest infeasibility of a solution; by default it is `rtol`. It is ignored if the program repairs its
    points.
    """
    if method not in METHODS:
        raise InputError(f"method={method!r} is not known; {suggest(method, METHODS)}")
    ftol = math.inf if program.repaired else rtol if ftol is None else ftol
    stepper, start, memory = _start(program, method, rank, seed)
    result = execute(
        program,
        stepper,
        start,
        memory,
        rtol=rtol,
        ftol=ftol,
        max_iter=max_iter,
        max_time=max_time,
        callback=callback,
        progress=progress,
    )
    if program.proof is not None:
        return replace(
            result,
            bound=math.inf,
            gap=math.inf,
            y=program.proof,
            status=Status.INFEASIBLE,
            message=Status.INFEASIBLE.value,
            success=False,
        )
    if not result.success and result.infeasibility > ftol:
        violated = (
            f" The constraints are violated by {result.infeasibility:.1e}; whether they can be satisfied is unknown."
        )
        return replace(result, message=result.message + violated)
    return result


def _start(program: GeneralProgram, method: str, rank: int | None, seed: int) -> tuple[Stepper, Factor, Any]:
    """Return the method, its first point and its memory."""
    problem, bounded, repaired = program.problem, program.bounded, program.repaired
    many = problem.n <= _MODERATE and problem.map.m >= _MANY * problem.n**2 and problem.trace > 0
    if method == "boundary-point" or (method == "auto" and many):
        dense = DenseProgram.of(problem, bounded)
        if dense is not None:
            alternating = BoundaryPoint(dense, repaired)
            return alternating, *alternating.start(program)
        if method == "boundary-point":
            raise InputError("method='boundary-point' needs the entries of all constraint matrices; use 'low-rank'")
    scaled = ScaledProgram(problem, bounded)
    if method == "conditional-gradient" or problem.trace == 0:  # only X = 0 is possible, the start of this method
        plain = ConditionalGradient(scaled, repaired)
        return plain, *plain.start(program)
    lagrangian = LowRankLagrangian(scaled, repaired)
    return lagrangian, *lagrangian.start(program, rank, seed)
