"""Which problems does the paper solve? Each by name, with a sentence on the data behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from fwflow._validation import Array, suggest
from fwflow.datasets import load, standardize
from fwflow.objectives import LinearModel, MatrixCompletion, Objective, Quadratic
from fwflow.result import Result, Status
from fwflow.sets import ConstraintSet, ConvexHull, L1Ball, NuclearBall
from fwflow.solve import minimize
from fwflow.tableaus import find_tableau


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
    optimum = 0.5 * float(np.sum((A @ x - b) ** 2)) if np.abs(x).sum() <= alpha else None
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

    ``.npz``: arrays ``A`` and ``b`` (or ``X`` and ``y``). ``.csv``: numbers, the last column is b; a
    header line is skipped. ``.svm``, ``.libsvm`` or ``.txt``: libsvm format, read by scikit-learn.
    """
    try:
        A, b = _read_data(path)
    except (ValueError, OSError, EOFError, BadZipFile, IndexError) as error:
        raise ValueError(f"{Path(path).name} {error}") from error
    if loss == "logistic":
        classes = np.unique(b)
        if len(classes) != 2:
            raise ValueError(f"loss='logistic' needs two classes; {path} has {len(classes)}")
        b = np.where(b == classes[1], 1.0, -1.0)
    return ProblemInstance(
        LinearModel(A, b, loss), L1Ball(radius), None, None, f"{Path(path).name}, {A.shape[0]} x {A.shape[1]}."
    )


def _read_data(path: str) -> tuple[Any, Array]:
    suffix = Path(path).suffix.lower()
    if suffix == ".npz":
        with open(path, "rb") as file:
            stored = np.load(file)
            arrays = dict(stored) if isinstance(stored, Mapping) else {}
        names = ("A", "b") if "A" in arrays else ("X", "y")
        if not set(names) <= set(arrays):
            raise ValueError(f"must hold the arrays A and b, or X and y; it holds {sorted(arrays)}")
        return arrays[names[0]], arrays[names[1]]
    if suffix == ".csv":
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
        header = not _numeric(lines[0].split(",")) if lines else False
        table = np.loadtxt(lines[header:], delimiter=",", ndmin=2)
        if table.size == 0 or table.shape[1] < 2:
            raise ValueError("must have at least one row and two columns")
        return table[:, :-1], table[:, -1]
    if suffix in (".svm", ".libsvm", ".txt"):
        try:
            from sklearn.datasets import load_svmlight_file
        except ModuleNotFoundError:
            raise ValueError("libsvm files need scikit-learn: pip install 'fwflow[data]'") from None
        A, b = load_svmlight_file(path)
        return A, b
    raise ValueError(
        f"is neither a built-in problem ({', '.join(PROBLEMS)}) nor a file ending in .npz, .csv, .svm, .libsvm or .txt"
    )


def _numeric(cells: Sequence[str]) -> bool:
    try:
        [float(cell) for cell in cells]
    except ValueError:
        return False
    return True


#: Problems by name, as ``fwflow compare`` takes them.
PROBLEMS: dict[str, Callable[..., ProblemInstance]] = {
    "triangle": triangle,
    "sensing": sensing,
    "madelon": madelon,
    "gisette": gisette,
    "movielens": movielens,
}


@lru_cache(maxsize=4)
def _cached(name: str, options: tuple[tuple[str, Any], ...]) -> ProblemInstance:
    return (from_file if name == "file" else PROBLEMS[name])(**dict(options))


def find_problem(name: str, **options: Any) -> ProblemInstance:
    """The problem of that name, or "file" with the options of `from_file`; loaded once per process."""
    if name not in PROBLEMS and name != "file":
        raise ValueError(f"problem={name!r} is not known; {suggest(name, PROBLEMS)}")
    return _cached(name, tuple(sorted(options.items())))


def solve(problem: ProblemInstance, iterations: int, **options: Any) -> Result:
    """Run so many iterations; a run that does not get there must not pass for a shorter one."""
    result = minimize(problem.f, problem.C, problem.x0, tol=0, max_iter=iterations, **({"method": "fw"} | options))
    if result.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if result.status is Status.NUMERICAL:
        raise ValueError(result.message)
    return result


def columns(result: Result, method: str, keep: Any = slice(None)) -> dict[str, Any]:
    """The trace as columns for a plot: k, calls, time, fun and gap.

    ``calls`` counts the gradients (and as many oracle calls) that the method itself needs to reach
    x^(k), without those that only monitor the gap of runs with momentum.
    """
    k = np.arange(len(result.trace))
    picked = {"k": k, "calls": k * find_tableau(method).stages}
    picked |= {name: result.trace[name] for name in ("time", "fun", "gap", "step")}
    return {name: column[keep] for name, column in picked.items()}
