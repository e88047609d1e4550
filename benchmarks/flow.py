"""What does it cost to follow the flow exactly? Against LARS, against Frank-Wolfe, and in passes over the data.

Run with ``make bench``. LARS is scikit-learn's `lars_path`, stopped at the penalty whose solution has our L1 norm.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable

import numpy as np
from sklearn.linear_model import lars_path

import fwflow as fw
from fwflow.reproduction.problems import find_problem

REPEATS = 5
PATIENCE = 110  # Frank-Wolfe may take so many times our time


def timed(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def least_squares() -> None:
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
    print(f"L1-ball least squares 2000 x 5000 on one core, medians of {REPEATS}; relative gaps")
    print(f"  flow      {ours:8.3f} s: {result.nit} events, {result.n_design:.0f} passes, gap {result.gap / first:.1e}")
    print(f"  lars_path {theirs:8.3f} s: {theirs / ours:.2f} times ours, L1 norm off by {off:.0e}")
    print(f"  fw        {seconds:8.3f} s: {seconds / ours:.0f} times ours, gap {reached:.1e} where 1e-6 was asked")


def passes() -> None:
    print("\nMadelon, logistic loss, L1 ball, to a verified relative gap of 1e-8: passes over the data (seconds)")
    methods = ("flow", "corrective", "polished", "apg", "blended-pairwise", "pairwise", "away")
    for radius in (1.0, 10.0):
        p = find_problem("madelon", alpha=radius)
        cells = []
        for method in methods:
            r = fw.minimize(p.f, p.C, method=method, tol=0, rtol=1e-8, max_iter=10**9, max_time=30)
            cells.append(f"{method} {f'{r.n_design:.0f}' if r.success else '-'} ({r.trace['time'][-1]:.2f})")
        print(f"  radius {radius:g}: {', '.join(cells)}")
    print(f"  {p.data}")


if __name__ == "__main__":
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    if any(os.environ.get(name) != value for name, value in threads.items()):  # NumPy has read them already
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | threads)
    least_squares()
    passes()
