"""Cost of the machinery: ``fw.minimize`` against sixty bare lines of NumPy, to the same verified gap.

Run with ``make bench``, or ``python benchmarks/bare.py --only Madelon``. The bare lines are accelerated projected
gradient with restarts, on all columns and on working sets; the better of the two counts. Each cell is the processor
time of the whole call of fwflow less 0.4 ms for its fixed cost, over that of the bare lines, on one thread.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import expit

import fwflow as fw
from fwflow.datasets import load, standardize
from record import Record, on_one_thread, timed

Array = np.ndarray[Any, Any]
LEVELS = (1e-2, 1e-4, 1e-6)
FIXED = 4e-4  # seconds of a call that are not compared
LIMIT = 1.3


class Data(NamedTuple):
    A: Any
    b: Array
    loss: str
    radius: float


# The bare lines


def projected(v: Array, radius: float) -> Array:
    size = np.abs(v)
    if size.sum() <= radius:
        return v
    u = np.sort(size)[::-1]
    excess = np.cumsum(u) - radius
    k = np.flatnonzero(u * np.arange(1, len(u) + 1) > excess)[-1]
    return np.sign(v) * np.maximum(size - excess[k] / (k + 1), 0)


def slopes(z: Array, b: Array, loss: str) -> Array:
    return (z - b) / len(b) if loss == "squared" else -b * expit(-b * z) / len(b)


def largest_curvature(B: Any, loss: str) -> float:
    v = np.random.default_rng(0).standard_normal(B.shape[1])
    for _ in range(10):
        v = B.T @ (B @ (v / np.linalg.norm(v)))
    return 1.05 * float(np.linalg.norm(v)) / B.shape[0] * (1.0 if loss == "squared" else 0.25)


def accelerated(B: Any, BT: Any, data: Data, x: Array, target: float, L: float) -> Array:
    b, loss, radius = data.b, data.loss, data.radius
    y, before, t, z = x, x, 1.0, B @ x
    zy, z_before = z, z
    for k in range(1, 5001):
        new = projected(y - BT @ slopes(zy, b, loss) / L, radius)
        z = B @ new
        if k % 10 == 0:
            g = BT @ slopes(z, b, loss)
            if g @ new + radius * np.abs(g).max() <= target:
                break
        t = 1.0 if (y - new) @ (new - before) > 0 else t
        t_next = (1 + np.sqrt(1 + 4 * t * t)) / 2
        beta = (t - 1) / t_next
        y, zy = new + beta * (new - before), z + beta * (z - z_before)
        before, z_before, t = new, z, t_next
    return new


def solved(data: Data, rows: Any, transpose: Any, rtol: float, working_sets: bool) -> Array:
    A, b, loss, radius = data
    n, first = A.shape[1], np.inf
    x, L = np.zeros(n), None
    while True:
        g = transpose @ slopes(rows @ x, b, loss)
        gap = g @ x + radius * np.abs(g).max()
        first = gap if first == np.inf else first
        if gap <= rtol * first:
            return x
        used = np.flatnonzero(x)
        count = max(100, 2 * len(used))
        if not working_sets or count > n // 3:
            L = largest_curvature(rows, loss) if L is None else L
            x = accelerated(rows, transpose, data, x, rtol * first, L)
            continue
        scores = np.abs(g)
        scores[used] = np.inf
        chosen = np.sort(np.argpartition(-scores, count)[:count])
        B = A[:, chosen]
        B, BT = (B.tocsr(), B.T.tocsr()) if sp.issparse(B) else (B, B.T)
        part, x = x[chosen], np.zeros(n)
        x[chosen] = accelerated(B, BT, data, part, 0.3 * gap, largest_curvature(B, loss))


# The problems


def dense(m: int, n: int, radius: float, loss: str, nonzeros: int, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((m, n)), np.zeros(n)
    x[rng.choice(n, nonzeros, replace=False)] = rng.standard_normal(nonzeros)
    z = A @ x + 0.5 * rng.standard_normal(m)
    return Data(A, np.where(z > 0, 1.0, -1.0) if loss == "logistic" else z, loss, radius)


def sparse(m: int, n: int, radius: float) -> Data:
    rng = np.random.default_rng(0)
    A = sp.csc_matrix(sp.random_array((m, n), density=1e-3, rng=rng, data_sampler=rng.standard_normal))
    x = np.zeros(n)
    x[rng.choice(n, 100, replace=False)] = rng.standard_normal(100)
    return Data(A, np.where(A @ x + 0.1 * rng.standard_normal(m) > 0, 1.0, -1.0), "logistic", radius)


def madelon(radius: float) -> Data:
    data = load("madelon")
    return Data(standardize(data["A"]), data["b"], "logistic", radius)


PROBLEMS: dict[str, Callable[[], Data]] = {
    "dense logistic 2000 x 5000, radius 3": lambda: dense(2000, 5000, 3.0, "logistic", 20),
    "dense logistic 2000 x 5000, radius 50": lambda: dense(2000, 5000, 50.0, "logistic", 20),
    "Madelon, radius 1": lambda: madelon(1.0),
    "Madelon, radius 10": lambda: madelon(10.0),
    "Madelon, radius 250": lambda: madelon(250.0),
    "sparse logistic 20 000 x 100 000, radius 100": lambda: sparse(20_000, 100_000, 100.0),
    "least squares 1000 x 20 000, radius 20": lambda: dense(1000, 20_000, 20.0, "squared", 20, 1),
    "least squares 500 x 100, radius 5": lambda: dense(500, 100, 5.0, "squared", 20, 2),
    "least squares 500 x 100, radius 1000": lambda: dense(500, 100, 1000.0, "squared", 20, 2),
}


def fastest(task: Callable[[], object], repeats: int = 5, enough: float = 3.0) -> float:
    """The least processor time of several runs."""
    times: list[float] = []
    while len(times) < repeats and sum(times) < enough:
        times.append(timed(task)[1])
    return min(times)


def compared(data: Data, level: float) -> tuple[float, float]:
    """Seconds of fwflow and of the bare lines to a relative gap."""
    f, C = fw.LinearModel(data.A, data.b, loss=data.loss), fw.L1Ball(data.radius)
    rows, transpose = (data.A.tocsr(), data.A.T.tocsr()) if sp.issparse(data.A) else (data.A, data.A.T)
    ours = fastest(lambda: fw.minimize(f, C, tol=0, rtol=level))
    return ours, min(fastest(partial(solved, data, rows, transpose, level, w)) for w in (True, False))


def main(record: Record) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="problems whose names contain this")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results")
    arguments = parser.parse_args()
    record.say(
        "Each cell has three numbers: the milliseconds of fwflow, the milliseconds of the NumPy code, and their ratio "
        "after the colon. Before the ratio is computed, 0.4 ms (the fixed cost of one call) is subtracted from the "
        "time of fwflow:"
    )
    record.table("problem", *(f"relative gap {level:.0e}" for level in LEVELS))
    worst = 0.0
    for name, build in PROBLEMS.items():
        if arguments.only not in name:
            continue
        data, cells = build(), []
        for level in LEVELS:
            ours, bare = compared(data, level)
            ratio = max(0.0, ours - FIXED) / bare
            worst = max(worst, ratio)
            cells.append(f"{1e3 * ours:.2f} / {1e3 * bare:.2f}: {ratio:.2f}")
        record.row(name, *cells)
    record.end_table()
    print(f"worst ratio {worst:.2f}; limit {LIMIT}: {'ok' if worst <= LIMIT else 'MISSED'}")


if __name__ == "__main__":
    on_one_thread()
    with Record("bare") as results:
        main(results)
