# ruff: noqa: E402
"""Certified semidefinite programs with JAX: signed tori and random graphs of degree 6, on the default device.

Run with ``python benchmarks/semidefinite_device.py`` where JAX finds the device. The sizes are 10^6 and 10^7 nodes on a
GPU, 10^4 and 10^5 nodes on a processor; ``--torus`` and ``--random`` choose others. The first run compiles. Seconds
are those of a second run with the same shapes: wall-clock time and processor time from the sparse matrix to the result,
with the colouring on the host. The peak memory on a processor is that of the process, so of all runs so far. ``--host``
also runs the engine of NumPy, on one thread.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import resource
import time

import jax
import numpy as np
import scipy.sparse as sp

from fwflow.semidefinite.operators import SparseOperator, diagonal_map
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.solver import solve

DEVICE = jax.devices()[0]
FAST = DEVICE.platform != "cpu"
# Time limits of the GPU in seconds, by graph, nodes and relative gap.
LIMITS = {
    ("signed torus", 10_000_000, 1e-3): 20.0,
    ("signed torus", 10_000_000, 1e-4): 120.0,
    ("random, degree 6", 1_000_000, 1e-3): 30.0,
}


def joined(n: int, rows: np.ndarray, cols: np.ndarray, values: np.ndarray) -> sp.csr_array:
    upper = sp.csr_array((values, (rows, cols)), (n, n))
    return sp.csr_array(upper + upper.T)


def signed_torus(n: int) -> sp.csr_array:
    side = round(n**0.5)
    node = np.arange(side * side, dtype=np.int32).reshape(side, side)
    rows = np.concatenate([node.ravel(), node.ravel()])
    cols = np.concatenate([np.roll(node, -1, axis).ravel() for axis in (0, 1)])
    signs = np.random.default_rng(0).choice([-1.0, 1.0], len(rows))
    return joined(side * side, rows, cols, signs)


def random_graph(n: int) -> sp.csr_array:
    rows, cols = np.random.default_rng(0).integers(0, n, (2, 3 * n), dtype=np.int32)
    matrix = joined(n, rows[rows != cols], cols[rows != cols], np.ones(np.count_nonzero(rows != cols)))
    matrix.data[:] = 1.0
    return matrix


def memory() -> float:
    """Return the peak memory in gigabytes: that of the device or, on a processor, of the whole process."""
    used = DEVICE.memory_stats() if FAST else None
    return used["peak_bytes_in_use"] / 1e9 if used else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def measure(name: str, matrix: sp.csr_array, rtol: float, backend: str, max_time: float) -> None:
    n, first = matrix.shape[0], None
    # The matrix is known to be symmetric, so that the check of a user's matrix is not measured.
    problem = Problem(SparseOperator(matrix), diagonal_map(n), np.ones(n), trace=n)
    for repeat in range(2 if backend == "jax" else 1):
        wall, processor = time.perf_counter(), time.process_time()
        r = solve(problem, rtol, backend=backend, max_time=max_time)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        first = wall if repeat == 0 else first
    limit = LIMITS.get((name, n, rtol)) if FAST else None
    verdict = "" if limit is None else f"  limit {limit:.0f} s: {'met' if r.success and wall <= limit else 'missed'}"
    print(
        f"{name:17s} {n:>9,} {rtol:6.0e} {backend:6s} {wall:9.2f} {processor:9.2f} {first:9.2f} "
        f"{r.gap / abs(r.bound):9.1e} {r.rank:5d} {memory():7.2f} {'yes' if r.success else 'no':>4s}{verdict}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = [1_000_000, 10_000_000] if FAST else [10_000, 100_000]
    parser.add_argument("--torus", type=int, nargs="*", default=sizes, help="numbers of nodes of signed tori")
    parser.add_argument("--random", type=int, nargs="*", default=sizes[:1] if FAST else sizes, help="of random graphs")
    parser.add_argument("--rtol", type=float, nargs="+", default=[1e-3, 1e-4], help="relative gaps")
    parser.add_argument("--host", action="store_true", help="also run the engine of NumPy")
    parser.add_argument("--max-time", type=float, default=300.0, help="seconds for each run")
    options = parser.parse_args()
    print(f"device: {DEVICE.device_kind} ({DEVICE.platform}), JAX {jax.__version__}")
    print("graph                 nodes   rtol engine   seconds processor first run       gap  rank      GB done")
    for name, make, chosen in (
        ("signed torus", signed_torus, options.torus),
        ("random, degree 6", random_graph, options.random),
    ):
        for n in chosen:
            matrix = make(n)
            for rtol in options.rtol:
                for backend in ("jax", "numpy") if options.host else ("jax",):
                    measure(name, matrix, rtol, backend, options.max_time)


if __name__ == "__main__":
    main()
