"""Which problems does the paper solve? Each by name, with a sentence on the data behind it."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fwflow._numerics import dot
from fwflow._storage.files import load_arrays
from fwflow._validation import Array, InputError, parsed, suggest
from fwflow.datasets import load, standardize
from fwflow.objectives import LinearModel, MatrixCompletion, Objective, Quadratic
from fwflow.objectives.losses import losses
from fwflow.reproduction.framework import FW
from fwflow.run.loop import minimize
from fwflow.run.result import Result, Status
from fwflow.sets import ConstraintSet, ConvexHull, L1Ball, NuclearBall
from fwflow.steps.momentum import find_momentum
from fwflow.tables.table import BLANKS, Wanted
from fwflow.tables.text import read_libsvm


@dataclass(frozen=True)
class ProblemInstance:
    """An objective, a set, a start (None: the set's own), the optimal value if known, and the data in words."""

    f: Objective
    C: ConstraintSet
    x0: Any
    optimum: float | None
    data: str


def triangle() -> ProblemInstance:
    r""":math:`\|x\|^2/2` over the triangle with vertices (-1, 0), (0, 1), (1, 0), from (0, 1)."""
    C = ConvexHull([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return ProblemInstance(Quadratic(np.eye(2)), C, np.array([0.0, 1.0]), 0.0, "The triangle is exact, not data.")


def sensing(alpha: float = 1000.0, loss: str = "squared") -> ProblemInstance:
    """Compressed sensing, 500 x 100: least squares, or logistic regression of the signs."""
    data = load("sensing")
    A, b = data["A"], data["b"]
    if loss == "logistic":
        return ProblemInstance(
            LinearModel(A, np.where(b >= 0, 1.0, -1.0), loss, scale="sum"), L1Ball(alpha), None, None, data.source
        )
    x, *_ = np.linalg.lstsq(A, b)
    # The unconstrained solution is the constrained one wherever the ball holds it.
    optimum = 0.5 * float(np.sum((dot(A, x) - b) ** 2)) if np.abs(x).sum() <= alpha else None
    return ProblemInstance(LinearModel(A, b, "squared", scale="sum"), L1Ball(alpha), None, optimum, data.source)


def _classification(name: str, split: str, alpha: float) -> ProblemInstance:
    data = load(name, split=split)
    f = LinearModel(standardize(data["A"]), data["b"], "logistic", scale="sum")
    return ProblemInstance(f, L1Ball(alpha), None, None, data.source)


def madelon(alpha: float = 1.0) -> ProblemInstance:
    """Logistic regression on Madelon's training split over an L1 ball, features standardised."""
    return _classification("madelon", "train", alpha)


def gisette(alpha: float = 250.0) -> ProblemInstance:
    """Logistic regression on Gisette's validation split over an L1 ball, features standardised."""
    return _classification("gisette", "valid", alpha)


def movielens(alpha: float = 1000.0, rho: float = 10.0) -> ProblemInstance:
    """Huber regression of MovieLens ratings minus 3 on their observed entries, over a nuclear-norm ball."""
    data = load("movielens")
    values = np.asarray(data["values"], dtype=float) - 3.0
    f = MatrixCompletion(data["rows"], data["cols"], values, data.shape, loss="huber", rho=rho)
    return ProblemInstance(f, NuclearBall(alpha), None, None, data.source)


def from_file(path: str, loss: str, radius: float) -> ProblemInstance:
    """A linear model over an L1 ball from the user's data.

    ``.npz``: arrays ``A`` and ``b`` (or ``X`` and ``y``). ``.csv``: numbers between commas, the last
    column is b; names of the columns may come first. ``.svm``, ``.libsvm`` or ``.txt``: libsvm format.
    """
    try:
        A, b = _read_data(path)
    except (ValueError, OSError, EOFError, BadZipFile, IndexError) as error:
        said = str(error)
        raise InputError(said if said.startswith(path) else f"{Path(path).name} {said}") from error
    if loss in losses and losses[loss].labels:
        classes = np.unique(b)
        if len(classes) != 2:
            raise InputError(f"loss={loss!r} needs two classes; {path} has {len(classes)}")
        b = np.where(b == classes[1], 1.0, -1.0)
    return ProblemInstance(
        LinearModel(A, b, loss), L1Ball(radius), None, None, f"{Path(path).name}, {A.shape[0]} x {A.shape[1]}."
    )


def _read_data(path: str) -> tuple[Any, Array]:
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        stored = load_arrays(Path(path))
        arrays = stored if isinstance(stored, dict) else {}
        names = ("A", "b") if "A" in arrays else ("X", "y")
        if not set(names) <= set(arrays):
            raise InputError(f"must hold the arrays A and b, or X and y; it holds {sorted(arrays)}")
        return arrays[names[0]], arrays[names[1]]
    if suffix == ".csv":
        table = _read_csv(path)
        return table[:, :-1], table[:, -1]
    if suffix in (".svm", ".libsvm", ".txt"):
        stored = read_libsvm(Path(path), Wanted())
        if not isinstance(stored.target, np.ndarray):
            raise InputError("must have numbers as labels")
        return stored.X, stored.target
    raise InputError(
        f"is neither a built-in problem ({', '.join(PROBLEMS)}) nor a file ending in .npz, .csv, .svm, .libsvm or .txt"
    )


def _read_csv(path: str) -> Array:
    """The numbers of a CSV file. No row is left out: a cell without a number is an error."""
    rows: list[Array] = []
    with open(path, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, skipinitialspace=True)
        filled = (cells for cells in reader if (len(cells) > 1 or any(cells)) and not cells[0].startswith("#"))
        for k, cells in enumerate(filled):
            if k == 0 and _is_header(cells):
                continue
            row = np.array([_number(cell) for cell in cells])
            if len(row) < 2:
                raise InputError("must have at least two columns, with commas between them")
            if rows and len(row) != len(rows[0]):
                raise InputError(f"line {reader.line_num} has {len(row)} cells, where others have {len(rows[0])}")
            if not np.isfinite(row).all():
                j = int(np.isfinite(row).argmin())
                raise InputError(f"line {reader.line_num}, column {j + 1} must be a finite number; it is {cells[j]!r}")
            rows.append(row)
    if not rows:
        raise InputError("must have at least one row of numbers")
    return np.stack(rows)


#: What stands where a number is missing.
_MISSING = ("", "nan", "na", "n/a", "null", "none", "?", "-")


def _is_header(cells: Sequence[str]) -> bool:
    """Whether cells are names of columns: there is a name, and every number just counts the columns."""
    numbers = [not np.isnan(_number(cell)) for cell in cells]
    named = any(cell.strip().lower() not in _MISSING for cell, number in zip(cells, numbers, strict=True) if not number)
    return named and all(cell.strip() in map(str, (i - 1, i, i + 1)) for i, cell in enumerate(cells) if numbers[i])


def _number(cell: str) -> float:
    value = parsed(cell.strip(BLANKS))
    return np.nan if value is None else value


#: Problems by name, as ``fwflow compare`` takes them.
PROBLEMS: dict[str, Callable[..., ProblemInstance]] = {
    "triangle": triangle,
    "sensing": sensing,
    "madelon": madelon,
    "gisette": gisette,
    "movielens": movielens,
}


@lru_cache(maxsize=4)
def _cached(name: str, options: tuple[tuple[str, Any], ...], origin: tuple[Any, ...]) -> ProblemInstance:
    return (from_file if name == "file" else PROBLEMS[name])(**dict(options))


def find_problem(name: str, **options: Any) -> ProblemInstance:
    """The problem of that name, or "file" with the options of `from_file`; loaded again only if files have changed."""
    if name not in PROBLEMS and name != "file":
        raise InputError(f"problem={name!r} is not known; {suggest(name, PROBLEMS)}")
    path = Path(options.get("path", ""))
    stamp = (path.stat().st_mtime_ns, path.stat().st_size) if path.is_file() else ()
    return _cached(name, tuple(sorted(options.items())), (os.environ.get("FWFLOW_DATA"), *stamp))


def solve(problem: ProblemInstance, iterations: int, **options: Any) -> Result:
    """Run so many iterations; a run that does not get there must not pass for a shorter one."""
    result = minimize(problem.f, problem.C, problem.x0, tol=0, max_iter=iterations, **({"method": FW} | options))
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if result.status in (Status.NUMERICAL, Status.DATA):
        raise InputError(result.message)
    return result


def columns(result: Result, momentum: str | None = None, keep: Any = slice(None)) -> dict[str, Any]:
    """The trace as columns for a plot: k, calls, passes, time, fun, gap and step.

    ``calls`` counts gradients or oracle calls, whichever are more, that the method itself needs to reach x^(k). With
    momentum some have only watched the gap; without, those at x^(k) belong to the next step.
    """
    trace, average = result.trace, find_momentum(momentum)
    watched = np.cumsum(np.isfinite(trace["gap"]))
    gradients = trace["n_grad"] - (1 if average is None or average.uses_iterate else watched)
    calls = np.maximum(gradients, trace["n_lmo"] - (1 if average is None else watched))
    picked = {"k": np.arange(len(trace)), "calls": np.maximum(0, calls), "passes": trace["n_design"]}
    picked |= {name: trace[name] for name in ("time", "fun", "gap", "step")}
    return {name: column[keep] for name, column in picked.items()}
