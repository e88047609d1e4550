"""What does the machinery cost? Each stage against the one product with the data that it cannot avoid.

Run with ``make bench``. Ours and the peer are timed in turns in one process, on one thread and by processor time; the
figures are ratios of medians, and the limits are those that the project has set itself.
"""

from __future__ import annotations

import platform
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy
import scipy.sparse as sp
from scipy.sparse.linalg import svds

import fwflow as fw
from record import on_one_thread, timed


@dataclass(frozen=True)
class Row:
    name: str
    ours: float
    peer: float
    limit: str
    met: bool

    def __str__(self) -> str:
        ratio = self.ours / self.peer
        verdict = "ok" if self.met else "MISSED"
        return (
            f"{self.name:<58}{1e3 * self.ours:>10.3f}{1e3 * self.peer:>10.3f}{ratio:>8.2f}  {self.limit:<12}{verdict}"
        )


def in_turns(ours: Callable[[], float], peer: Callable[[], object], rounds: int = 7) -> tuple[float, float]:
    """Medians of our processor time per unit, as `ours` reports it, and of the peer's time per call."""
    mine, theirs = zip(*((ours(), timed(peer)[1]) for _ in range(rounds)), strict=True)
    return float(np.median(mine)), float(np.median(theirs))


def seconds_per_step(f: fw.Objective, C: fw.ConstraintSet, method: str, steps: int) -> Callable[[], float]:
    def run(max_iter: int) -> float:
        return timed(lambda: fw.minimize(f, C, method=method, tol=0, max_iter=max_iter, screen=False))[1]

    return lambda: (run(steps) - run(0)) / steps


def dense() -> list[Row]:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((2000, 5000))
    b = np.where(A[:, :20].sum(axis=1) > 0, 1.0, -1.0)
    f, C, r = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(250.0), rng.standard_normal(2000)
    stage, product = in_turns(seconds_per_step(f, C, "fw", 30), lambda: A.T @ r)
    step, again = in_turns(seconds_per_step(f, C, "rk44", 10), lambda: A.T @ r)
    return [
        Row("dense logistic 2000 x 5000, one stage / A.T @ r", stage, product, "<= 1.25", stage <= 1.25 * product),
        Row("dense logistic 2000 x 5000, RK44 step / A.T @ r", step, again, "<= 4.6", step <= 4.6 * again),
    ]


def sparse() -> list[Row]:
    rng = np.random.default_rng(0)
    A = sp.random_array((20_000, 100_000), density=1e-3, rng=rng, format="csc")
    b = np.where(rng.standard_normal(20_000) > 0, 1.0, -1.0)
    f, C, r = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(100.0), rng.standard_normal(20_000)
    stage, product = in_turns(seconds_per_step(f, C, "fw", 30), lambda: A.T @ r)
    return [
        Row(
            "sparse 20000 x 100000, 2e6 non-zeros, one stage / A.T @ r",
            stage,
            product,
            "<= 1.4",
            stage <= 1.4 * product,
        )
    ]


def completion() -> list[Row]:
    rng = np.random.default_rng(0)
    shape, nnz = (943, 1682), 100_000
    flat = rng.choice(shape[0] * shape[1], nnz, replace=False)
    U, V = rng.standard_normal((943, 10)), rng.standard_normal((1682, 10))
    rows, cols = np.divmod(flat, shape[1])
    values = (U[rows] * V[cols]).sum(axis=1) / 3 + 0.5 * rng.standard_normal(nnz)
    f, C = fw.MatrixCompletion(rows, cols, values, shape, loss="huber", rho=10.0), fw.NuclearBall(1000.0)
    late = fw.minimize(f, C, method="fw", tol=0, max_iter=50)
    G = f.gradient(late.state.point).matrix
    v0 = late.state.hint.vertex.u  # svds iterates on the smaller side
    started = in_turns(seconds_per_step(f, C, "fw", 60), lambda: svds(G, k=1, v0=v0))
    peaks: list[float] = []
    tracemalloc.start()
    result = fw.minimize(
        f, C, method="fw", tol=0, max_iter=60, callback=lambda _: peaks.append(tracemalloc.get_traced_memory()[1])
    )
    tracemalloc.stop()
    scale = nnz + result.x.rank * sum(shape)
    print(f"completion, memory of the loop: {peaks[-1] / 8 / scale:.1f} (nnz + rank (rows + cols)) doubles")
    return [
        Row(
            "completion 943 x 1682, 1e5 entries, step / warm svds(k=1)",
            *started,
            "<= 1.5",
            started[0] <= 1.5 * started[1],
        )
    ]


def overhead() -> list[Row]:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((500, 100))
    b, r = np.where(A[:, 0] + A[:, 1] > 0, 1.0, -1.0), rng.standard_normal(500)
    f, C = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(10.0)
    rows = []
    for method, stages in (("fw", 1), ("rk44", 4)):
        step, product = in_turns(seconds_per_step(f, C, method, 500), lambda: A.T @ r)
        stage = step / stages
        name = f"500 x 100, {method}: {1e6 * (stage - product):.0f} us of overhead per stage"
        rows.append(Row(name, stage, product, "<= 30 us", stage - product <= 30e-6))
    return rows


def call() -> list[Row]:
    """The fixed cost of a run: arguments, choice of the method, evaluation of the start, verification, result."""
    rng = np.random.default_rng(0)
    A, r = rng.standard_normal((500, 100)), rng.standard_normal(500)
    f, C = fw.LinearModel(A, A[:, :5].sum(axis=1)), fw.L1Ball(5.0)
    rows = []
    for method in ("auto", "fw"):

        def run(method: str = method) -> float:
            return timed(lambda: fw.minimize(f, C, method=method, rtol=1e-4, max_iter=0))[1]

        fixed, product = in_turns(run, lambda: A.T @ r)
        name = f"500 x 100, {method}: call without iterations / A.T @ r"
        rows.append(Row(name, fixed, product, "<= 0.25 ms", fixed <= 0.25e-3))
    return rows


def main() -> None:
    versions = f"NumPy {np.__version__}, SciPy {scipy.__version__}, Python {platform.python_version()}"
    print(f"fwflow {fw.__version__}, {versions}")
    print(f"{'':<58}{'ours, ms':>10}{'peer, ms':>10}{'ratio':>8}  limit")
    for part in (dense, sparse, completion, overhead, call):
        for row in part():
            print(row)


if __name__ == "__main__":
    on_one_thread()
    main()
