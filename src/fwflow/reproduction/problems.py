"""Problems of the paper by name, and problems from data files, each with a sentence that describes its data."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import InputError, suggest
from fwflow.datasets import Dataset, load, standardize
from fwflow.objectives import LinearModel, MatrixCompletion, Objective, Quadratic
from fwflow.reproduction.claims import Data
from fwflow.reproduction.framework import FW
from fwflow.run.result import Result
from fwflow.sets import ConstraintSet, ConvexHull, L1Ball, NuclearBall
from fwflow.steps.momentum import find_momentum
from fwflow.tables.constraints import Constraint
from fwflow.tables.problem import read_problem
from fwflow.trajectories import whole_run


@dataclass(frozen=True)
class ProblemInstance:
    """Objective, set, start (None: that of the set), optimal value if it is known, and data in words and by kind."""

    f: Objective
    C: ConstraintSet
    x0: Any
    optimum: float | None
    data: str
    kind: Data = Data.EXACT


def _kind(data: Dataset) -> Data:
    return Data.REAL if data.kind == "real" else Data.GENERATED


def triangle() -> ProblemInstance:
    r""":math:`\|x\|^2/2` over the triangle with vertices (-1, 0), (0, 1), (1, 0), from (0, 1)."""
    C = ConvexHull([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return ProblemInstance(
        Quadratic(np.eye(2)), C, np.array([0.0, 1.0]), 0.0, "The triangle is defined by its vertices and needs no data."
    )


def tilted_triangle() -> ProblemInstance:
    """Half the squared distance to (0.4, -0.25), up to a constant, over the triangle.

    For c = 2 its flow has one event, at t = 1. The minimiser (0.4, 0) lies on the lower edge, and the gradient is not
    zero there.
    """
    f, C = Quadratic(np.eye(2), [0.4, -0.25]), triangle().C
    x0, optimum = np.array([-0.35, 0.65]), (0.4**2 / 2) - 0.4 * 0.4
    return ProblemInstance(f, C, x0, optimum, "The tilted triangle is defined by a formula and needs no data.")


def sensing(
    alpha: float = 1000.0, loss: str = "squared", standard: bool = False, scale: str = "sum"
) -> ProblemInstance:
    """Compressed sensing, 500 x 100: least squares, or logistic regression of the signs."""
    data = load("sensing")
    A, b = standardize(data["A"]) if standard else data["A"], data["b"]
    if loss == "logistic":
        f = LinearModel(A, np.where(b >= 0, 1.0, -1.0), loss, scale=scale)
        return ProblemInstance(f, L1Ball(alpha), None, None, data.source, _kind(data))
    x, *_ = np.linalg.lstsq(A, b)
    # If the ball contains the unconstrained minimiser, this is the constrained minimiser too.
    losses = 0.5 * (dot(A, x) - b) ** 2
    optimum = float(losses.mean() if scale == "mean" else losses.sum()) if np.abs(x).sum() <= alpha else None
    f = LinearModel(A, b, "squared", scale=scale)
    return ProblemInstance(f, L1Ball(alpha), None, optimum, data.source, _kind(data))


def _classification(name: str, split: str, alpha: float, standard: bool = True, scale: str = "sum") -> ProblemInstance:
    """Logistic regression over an L1 ball, features standardised."""
    data = load(name, split=split)
    f = LinearModel(standardize(data["A"]) if standard else data["A"], data["b"], "logistic", scale=scale)
    return ProblemInstance(f, L1Ball(alpha), None, None, data.source, _kind(data))


def movielens(alpha: float = 1000.0, rho: float = 10.0) -> ProblemInstance:
    """Huber regression of MovieLens ratings minus 3 on their observed entries, over a nuclear-norm ball."""
    data = load("movielens")
    values = np.asarray(data["values"], dtype=float) - 3.0
    f = MatrixCompletion(data["rows"], data["cols"], values, data.shape, loss="huber", rho=rho)
    return ProblemInstance(f, NuclearBall(alpha), None, None, data.source, _kind(data))


def from_file(path: str, constraint: str = "l1:10", **options: Any) -> ProblemInstance:
    """Linear model from a data file, over a set such as ``l1:10``; the options are those of `read_problem`."""
    if not Path(path).suffix and not Path(path).exists():
        raise InputError(f"{path!r} is neither a built-in problem nor a data file; {suggest(path, PROBLEMS)}")
    asked = Constraint.parse(constraint)  # before the file is read
    problem = read_problem(path, **options)
    words = f"{Path(path).name}, {problem.rows} x {len(problem.names)}."
    return ProblemInstance(problem.f, problem.set_of(asked), None, None, words, Data.REAL)


#: Problems by name, as ``fwflow compare`` takes them.
PROBLEMS: dict[str, Callable[..., ProblemInstance]] = {
    "triangle": triangle,
    "sensing": sensing,
    "madelon": partial(_classification, "madelon", "train", alpha=1.0),
    "gisette": partial(_classification, "gisette", "valid", alpha=250.0),
    "movielens": movielens,
}


@lru_cache(maxsize=4)
def _cached(name: str, options: tuple[tuple[str, Any], ...], origin: tuple[Any, ...]) -> ProblemInstance:
    return (from_file if name == "file" else PROBLEMS[name])(**dict(options))


def find_problem(name: str, **options: Any) -> ProblemInstance:
    """Return the problem of that name, or "file" with the options of `from_file`. Changed files are read again."""
    if name not in PROBLEMS and name != "file":
        raise InputError(f"problem={name!r} is not known; {suggest(name, PROBLEMS)}")
    files = [Path(options[key]) for key in ("path", "target_file") if options.get(key)]
    stamps = [(file.stat().st_mtime_ns, file.stat().st_size) for file in files if file.is_file()]
    return _cached(name, tuple(sorted(options.items())), (os.environ.get("FWFLOW_DATA"), *stamps))


def solve(problem: ProblemInstance, iterations: int, **options: Any) -> Result:
    """Run a number of iterations. A run that is interrupted or fails raises an error."""
    options = {"method": FW, "max_iter": iterations, **options}
    return whole_run(problem.f, problem.C, problem.x0, "the run failed", **options)


def columns(result: Result, momentum: str | None = None) -> dict[str, Any]:
    """Return the trace as columns for a plot: k, calls, passes, time, fun, gap and step.

    ``calls`` is the larger of the numbers of gradients and of oracle calls that the method needs to reach x^(k).
    Calls that only monitor the gap are left out. Without momentum, the calls at x^(k) belong to the next step.
    """
    trace, average = result.trace, find_momentum(momentum)
    watched = np.cumsum(np.isfinite(trace["gap"]))
    gradients = trace["n_grad"] - (1 if average is None or average.uses_iterate else watched)
    calls = np.maximum(gradients, trace["n_lmo"] - (1 if average is None else watched))
    counts = {"k": np.arange(len(trace)), "calls": np.maximum(0, calls), "passes": trace["n_design"]}
    return counts | {name: trace[name] for name in ("time", "fun", "gap", "step")}
