"""Cost and gain of a cluster: passes over a Dask array on 1, 2, 4 workers, and runs by method.

Run with ``python benchmarks/cluster.py``: a `LocalCluster` on this machine, with as many workers as it has cores, up to
four, and one thread for each. Passes are compared with Dask's own ``r @ A`` on the same chunks and with NumPy on one
core, medians of repeats; and a pass over a matrix of a few numbers shows what a round trip costs by itself.
"""

from __future__ import annotations

import os

THREADS = ("OMP", "OPENBLAS", "MKL")
os.environ |= {f"{library}_NUM_THREADS": "1" for library in THREADS}

import argparse  # noqa: E402
import logging  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import dask.array as da  # noqa: E402
import numpy as np  # noqa: E402
from distributed import Client, LocalCluster  # noqa: E402

import fwflow as fw  # noqa: E402
from fwflow.designs import Distributed  # noqa: E402
from record import Record  # noqa: E402

METHODS = ("auto", "corrective", "flow", "apg", "blended-pairwise", "rk44")


def seconds(function: Callable[[], Any], repeats: int = 7) -> float:
    spent = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        spent.append(time.perf_counter() - started)
    return float(np.median(spent))


def matrix(m: int, n: int, chunks: int) -> da.Array:
    return da.random.default_rng(0).standard_normal((m, n), chunks=(-(-m // chunks), n))


def passes(workers: int, m: int, n: int, chunks: int) -> tuple[float, ...]:
    """Seconds of our pass, of Dask's, and of one over next to nothing; and of a run."""
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        A = matrix(m, n, chunks).persist()
        D, tiny = Distributed(A), Distributed(matrix(chunks, 2, chunks))
        r = np.random.default_rng(1).standard_normal(m)
        b = np.sign(A[:, :20].sum(axis=1).compute() + r)
        run = seconds(lambda: fw.minimize(fw.LinearModel(D, b, "logistic"), fw.L1Ball(5.0), tol=1e-6), 1)
        return (
            seconds(lambda: D.rmatvec(r)),
            seconds(lambda: (r @ A).compute()),
            seconds(lambda: tiny.rmatvec(r[:chunks])),
            run,
        )


def main(record: Record) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", type=int, nargs=2, default=(100_000, 500))
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--workers", type=int, nargs="*", default=[w for w in (1, 2, 4) if w <= (os.cpu_count() or 1)])
    parser.add_argument("--write", action="store_true", help="store the tables in benchmarks/results")
    arguments = parser.parse_args()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    (m, n), chunks = arguments.shape, arguments.chunks
    A = matrix(m, n, chunks).compute()
    r = np.random.default_rng(1).standard_normal(m)
    alone = seconds(lambda: r @ A)
    record.say(f"A matrix of {m} x {n} ({A.nbytes / 1e6:.0f} MB) in {chunks} chunks of rows, one thread per worker:")
    record.table("", "one pass, ms", "Dask's `r @ A`, ms", "round trip, ms", "speed-up of a pass", "logistic fit, s")
    record.row("NumPy", f"{1e3 * alone:.1f}", "", "", "", "")
    first = None
    for workers in arguments.workers:
        ours, dasks, trip, run = passes(workers, m, n, chunks)
        first = first or ours
        times = (f"{1e3 * seconds:.1f}" for seconds in (ours, dasks, trip))
        record.row(f"workers: {workers}", *times, f"{first / ours:.2f}", f"{run:.2f}")
    record.end_table()
    b = np.sign(A[:, :20].sum(axis=1) + r)
    f = fw.LinearModel(
        Distributed(da.from_array(A[: m // 10], chunks=(-(-m // 10 // chunks), n))), b[: m // 10], "logistic"
    )
    record.say(f"Logistic regression over an L1 ball, {m // 10} x {n}, to a gap of 1e-6:")
    record.table("method", "passes over the data", "gap")
    for method in METHODS:
        result = fw.minimize(f, fw.L1Ball(5.0), method=method, tol=1e-6, max_iter=1000, max_time=15)
        stopped = "" if result.success else " (stopped)"
        record.row(f'`"{method}"`', f"{result.n_design:.0f}{stopped}", f"{result.gap:.0e}")
    record.end_table()


if __name__ == "__main__":
    with Record("cluster", "dask", "distributed") as results:
        main(results)
