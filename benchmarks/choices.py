"""Effect of two defaults: screening against none, and polishing against its two halves. Run with ``make bench``."""

from __future__ import annotations

from typing import Any

import numpy as np

import fwflow as fw
from problems import PROBLEMS
from record import on_one_thread, timed

REPEATS = 5


def cpu(f: fw.Objective, C: fw.ConstraintSet, **options: Any) -> float:
    return timed(lambda: fw.minimize(f, C, tol=0, **options))[1]


def screening() -> None:
    p = PROBLEMS["P1"][-1]()
    print(f"P1, processor time with screening / without, medians of {REPEATS} pairs")
    for order, A in (("by rows", np.ascontiguousarray(p.A)), ("by columns", np.asfortranarray(p.A))):
        f = fw.LinearModel(A, p.b, loss="logistic")
        for method, steps in (("fw", 400), ("rk44", 100), ("pairwise", 400)):
            runs = [
                cpu(f, p.C, method=method, max_iter=steps) / cpu(f, p.C, method=method, max_iter=steps, screen=False)
                for _ in range(REPEATS)
            ]
            print(f"  {order}, {method}, {steps} steps: {np.median(runs):.2f}")


def polishing() -> None:
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((2000, 5000)), np.zeros(5000)
    for j in range(1, 5000):
        A[:, j] = 0.95 * A[:, j - 1] + np.sqrt(1 - 0.95**2) * A[:, j]
    x[rng.choice(5000, 30, replace=False)] = rng.standard_normal(30)
    f = fw.LinearModel(A, A @ x + 0.1 * rng.standard_normal(2000))
    C = fw.L1Ball(0.5 * np.abs(x).sum())
    print(f"least squares 2000 x 5000, neighbours correlated to 0.95, to a relative gap of 1e-8, medians of {REPEATS}")
    for method in ("polished", "apg", "corrective", "flow"):
        r = fw.minimize(f, C, method=method, tol=0, rtol=1e-8)
        seconds = np.median([cpu(f, C, method=method, rtol=1e-8) for _ in range(REPEATS)])
        print(f"  {method}: {seconds:.3f} s, {r.n_design:.0f} passes, {np.count_nonzero(r.x)} non-zeros")


if __name__ == "__main__":
    on_one_thread()
    screening()
    polishing()
