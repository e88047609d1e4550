"""Quadratic assignment: fwflow and SciPy on the instances of QAPLIB, by processor time on one thread.

Run with ``python benchmarks/assignment.py FOLDER``, where the folder holds files ``name.dat`` and ``name.sln`` in the
format of QAPLIB (Burkard, Karisch and Rendl, 1997), which cannot be part of this repository. The second number of an
``.sln`` file is the best known value. Printed are the mean excess over this value in percent, and the sum of times.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment, quadratic_assignment

import fwflow as fw
from fwflow._assignment.bounds import gilmore_lawler
from fwflow._assignment.problem import Assignment
from record import on_one_thread

LARGEST = 32  # rows
STARTS = 20
#: Best known values of QAPLIB where the files in circulation have none or an older one.
BEST = {"esc32a": 130, "esc32b": 168, "esc32c": 642, "esc32d": 200, "esc32h": 438, "kra32": 88700, "nug27": 5234}
BEST |= {"nug28": 5166, "nug30": 6124, "tai10a": 135028, "tai10b": 1183760, "tai30a": 1818146}

Matrix = np.ndarray
Solver = Callable[[Matrix, Matrix], float]


def numbers(path: Path) -> Matrix:
    return np.array([float(word) for word in re.findall(r"-?\d+(?:\.\d+)?", path.read_text())])


def instances(folder: Path) -> list[tuple[str, Matrix, Matrix, float]]:
    """Return name, both matrices and best known value of the small instances with a positive value."""
    found = []
    for path in sorted(folder.glob("*.dat")):
        data, solution = numbers(path), path.with_suffix(".sln")
        n = int(data[0])
        best = BEST.get(path.stem, numbers(solution)[1] if solution.exists() else 0)
        if n <= LARGEST and len(data) == 1 + 2 * n * n and best > 0:
            A, B = data[1:].reshape(2, n, n)
            found.append((path.stem, A, B, float(best)))
    return found


def value(A: Matrix, B: Matrix, p: Matrix) -> float:
    return float((A * B[np.ix_(p, p)]).sum())


def faq(A: Matrix, B: Matrix) -> float:
    return float(quadratic_assignment(A, B, options={"rng": np.random.default_rng(0)}).fun)


def best_faq(A: Matrix, B: Matrix) -> float:
    """Return the value of the best of several random runs of FAQ, improved by 2opt."""
    rng = np.random.default_rng(0)
    runs = [quadratic_assignment(A, B, options={"P0": "randomized", "rng": rng}) for _ in range(STARTS)]
    guess = np.column_stack([np.arange(len(A)), min(runs, key=lambda run: run.fun).col_ind])
    return float(quadratic_assignment(A, B, method="2opt", options={"partial_guess": guess, "rng": rng}).fun)


def fwflow(A: Matrix, B: Matrix) -> float:
    return fw.quadratic_assignment(A, B, starts=STARTS).value


def black_box(A: Matrix, B: Matrix) -> float:
    f = fw.Smooth(lambda X: (A * (X @ B @ X.T)).sum(), lambda X: A @ X @ B.T + A.T @ X @ B)
    return value(A, B, linear_sum_assignment(-fw.minimize(f, fw.Birkhoff(len(A))).x)[1])


SOLVERS: dict[str, Solver] = {
    "SciPy, FAQ": faq,
    f"SciPy, best of {STARTS} FAQ, then 2opt": best_faq,
    "fwflow, quadratic_assignment with its bound": fwflow,
    "fwflow, minimize as a black box": black_box,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    problems = instances(parser.parse_args().folder)
    print(f"{len(problems)} instances with at most {LARGEST} rows")
    for name, solver in SOLVERS.items():
        excess, seconds = [], 0.0
        for _, A, B, best in problems:
            started = time.process_time()
            found = solver(A, B)
            seconds += time.process_time() - started
            excess.append(100 * (found / best - 1))
        print(f"{name}: mean excess {np.mean(excess):.2f} %, median {np.median(excess):.2f} %, {seconds:.2f} s")
    shares, none = [], np.zeros(0, dtype=int)
    for name, A, B, best in problems:
        bound = fw.quadratic_assignment(A, B, starts=1).bound
        classical = gilmore_lawler(Assignment.reduced(A.copy(), B.copy(), np.zeros_like(A), none, none))
        assert classical <= bound <= best, (name, classical, bound, best)
        shares.append(100 * bound / best)
    print(f"bounds: valid on all, at least that of Gilmore and Lawler, {np.mean(shares):.1f} % of the best known value")


if __name__ == "__main__":
    on_one_thread()
    main()
