"""Cost of following the flow exactly: against LARS, against Frank-Wolfe, and in passes over the data.

Run with ``make bench``; ``--write`` stores the tables. LARS is scikit-learn's `lars_path`, stopped at the penalty whose
solution has our L1 norm.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import lars_path

import fwflow as fw
from fwflow.reproduction.problems import find_problem
from record import Record, on_one_thread

REPEATS = 5
PATIENCE = 110  # Frank-Wolfe may take so many times our time


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def least_squares(record: Record) -> None:
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((2000, 5000)), np.zeros(5000)
    x[rng.choice(5000, 100, replace=False)] = rng.standard_normal(100)
    b = A @ x + 0.1 * rng.standard_normal(2000)
    C, by_column = fw.L1Ball(0.9 * np.abs(x).sum()), np.asfortranarray(A)  # each gets the order it likes

    def flow() -> fw.Result:
        return fw.minimize(fw.LinearModel(A, b), C, method="flow", tol=0)

    result = flow()
    first = result.trace["gap"][0]
    penalty = float(np.abs(A.T @ (A @ result.x - b)).max()) / len(b)

    def lars() -> np.ndarray:
        return lars_path(by_column, b, method="lasso", alpha_min=penalty, max_iter=10_000)[2][:, -1]

    off = abs(np.abs(lars()).sum() / np.abs(result.x).sum() - 1)
    times = np.array([(timed(flow), timed(lars)) for _ in range(REPEATS)])
    ours, theirs = np.median(times, axis=0)
    plain = fw.minimize(
        fw.LinearModel(A, b), C, method="fw", tol=0, rtol=1e-6, max_iter=10**9, max_time=PATIENCE * ours
    )
    seconds, reached = plain.trace["time"][-1], plain.gap / first
    record.say(f"L1-ball least squares 2000 x 5000, {np.count_nonzero(result.x)} nonzero coefficients, one thread:")
    record.table("method", "seconds", "ratio", "relative gap")
    work = f"{result.nit} events, {result.n_design:.0f} passes over the data"
    record.row(f'`"flow"`: {work}', f"{ours:.3f}", 1, f"{result.gap / first:.0e}")
    record.row(
        f"`lars_path`, stopped at the same L1 norm (relative difference of the norms {off:.0e})",
        f"{theirs:.3f}",
        f"{theirs / ours:.2f}",
        "",
    )
    record.row('`"fw"`, stopped', f"{seconds:.1f}", f"{seconds / ours:.0f}", f"{reached:.0e}")
    record.end_table()


def passes(record: Record) -> None:
    methods = ("flow", "corrective", "polished", "apg", "blended-pairwise", "pairwise", "away")
    record.say(
        "Madelon, logistic loss. The table shows the passes over the data, with the seconds in brackets, until the "
        "verified relative gap is 1e-8:"
    )
    record.table("L1 ball", *(f'`"{method}"`' for method in methods))
    for radius in (1.0, 10.0):
        p = find_problem("madelon", alpha=radius)
        cells = []
        for method in methods:
            r = fw.minimize(p.f, p.C, method=method, tol=0, rtol=1e-8, max_iter=10**9, max_time=30)
            cells.append(f"{r.n_design:.0f} ({r.trace['time'][-1]:.2f})" if r.success else "not reached in 30 s")
        record.row(f"radius {radius:g}", *cells)
    record.end_table()
    record.say(f"Data: {p.data}")


if __name__ == "__main__":
    on_one_thread()
    with Record("flow", "scikit-learn") as results:
        least_squares(results)
        passes(results)
