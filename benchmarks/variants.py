"""What does each variant save? Each against plain Frank-Wolfe, or the method it should beat, in one run.

Run with ``python benchmarks/variants.py``. Seconds are processor time; the limits are those that the project has set
itself. Then every variant on a problem of its own: where it converges linearly its distance from CVXPY's optimum, and
else the exponent a of a fit of error = C / k^a. Last, how the costs of oracles grow with their dimension.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import fwflow as fw
from oracles import oracle_costs

MAX_TIME = 120.0


def timed(
    f: fw.Objective, C: fw.ConstraintSet, method: Any, max_iter: int = 10**6, **options: Any
) -> tuple[fw.Result, float]:
    started = time.process_time()
    result = fw.minimize(f, C, method=method, max_iter=max_iter, max_time=MAX_TIME, **options)
    return result, time.process_time() - started


def verdict(what: str, ours: float, peer: float, least: float, done: bool) -> None:
    met = "ok" if done and peer >= least * ours else "MISSED"
    print(f"{what:<92}{ours:>10.4g}{peer:>10.4g}{peer / ours:>8.1f}  >= {least:<5g}{met}", flush=True)


def lazy() -> None:
    """Assignment: the oracle solves an assignment problem of 150 rows."""
    n = 150
    rng = np.random.default_rng(0)
    target = sum(np.eye(n)[rng.permutation(n)] for _ in range(30)) / 30
    f, C = fw.Smooth(lambda x: 0.5 * float(((x - target) ** 2).sum()), lambda x: x - target), fw.Birkhoff(n)
    eager, eager_time = timed(f, C, "fw", tol=0, rtol=1e-2)
    ours, ours_time = timed(f, C, "lazy-fw", tol=0, rtol=1e-2)
    done = ours.success and eager.success
    verdict("lazy-fw, Birkhoff 150, rtol 1e-2: oracle calls, ours and fw", ours.n_lmo, eager.n_lmo, 2, done)
    verdict("  seconds", ours_time, eager_time, 1, done)
    tableau = fw.LazyFrankWolfe(fw.tableaus["rk44"])
    ours, _ = timed(f, C, tableau, tol=0, rtol=1e-2)
    eager, _ = timed(f, C, "rk44", tol=0, rtol=1e-2)
    verdict("  the same with RK44", ours.n_lmo, eager.n_lmo, 2, ours.success and eager.success)


def sliding() -> None:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((1000, 400)) / np.arange(1, 401) ** 0.5
    f = fw.LinearModel(A, A[:, :20].sum(axis=1) + 0.1 * rng.standard_normal(1000))
    C = fw.L1Ball(8.0)
    ours, _ = timed(f, C, "sliding", tol=0, rtol=1e-4)
    for peer in ("fw", "blended-pairwise"):
        other, _ = timed(f, C, peer, tol=0, rtol=1e-4)
        name = f"sliding, least squares 1000 x 400, rtol 1e-4: gradients, ours and {peer}"
        verdict(name, ours.n_grad, other.n_grad, 2 if peer == "fw" else 1, ours.success and other.success)


def block() -> None:
    rng = np.random.default_rng(2)
    A = rng.standard_normal((500, 2000))
    f = fw.LinearModel(A, A @ rng.dirichlet(np.ones(10), 200).reshape(-1) + rng.standard_normal(500))
    C = fw.Product([(fw.Simplex(), 10)] * 200)
    batch, _ = timed(f, C, "fw", tol=0, rtol=1e-3)
    for order in ("cyclic", "random", "gap"):
        ours, _ = timed(f, C, fw.BlockCoordinate(order), tol=0, rtol=1e-3)
        name = f"block ({order}), 200 simplices, rtol 1e-3: passes, ours and fw"
        verdict(name, ours.n_design, batch.n_design, 3, ours.success and batch.success)


def invariant() -> None:
    n, k = 10_000, 500
    rng = np.random.default_rng(3)
    centre, curvature = rng.uniform(0, 2 * k / n, n), rng.uniform(1, 4, n)
    f, C = fw.Quadratic(sp.diags_array(curvature).tocsc(), curvature * centre), fw.HyperSimplex(k)
    runs = [
        [timed(f, C, m, tol=0, rtol=1e-4) for _ in range(3)] for m in ("decomposition-invariant", "blended-pairwise")
    ]
    (ours, *_), (peer, *_) = ([result for result, _ in some] for some in runs)
    ours_time, peer_time = (float(np.median([seconds for _, seconds in some])) for some in runs)
    used = int((ours.x > 0).sum())
    name = f"decomposition-invariant, hypersimplex 10000, {used} non-zeros, rtol 1e-4: seconds, and blended-pairwise"
    verdict(name, ours_time, peer_time, 1, ours.success and peer.success)


def stochastic() -> None:
    m, n = 10**6, 100
    rng = np.random.default_rng(4)
    A = rng.standard_normal((m, n), dtype=np.float32)
    b = np.where(A[:, :10].sum(axis=1) + 2 * rng.standard_normal(m, dtype=np.float32) > 0, 1, -1).astype(np.float32)
    f, C = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(5.0)
    peer, peer_time = timed(f, C, "fw", tol=1e-3, max_iter=1000)
    if not peer.success:
        print(f"(fw is given up at a gap of {peer.gap:.1e} after {peer.nit} steps: it would take longer than that)")
    for estimator in ("spider", "saga"):
        ours, ours_time = timed(f, C, fw.Stochastic(1000, estimator), tol=1e-3)
        name = f"stochastic ({estimator}), logistic 1e6 x 100, gap 1e-3: seconds, ours and fw"
        verdict(name, ours_time, peer_time, 1, ours.success)


def optimum(f: Callable[[Any], Any], constraints: Callable[[Any], list[Any]], n: int) -> float:
    x = cp.Variable(n)
    problem = cp.Problem(cp.Minimize(f(x)), constraints(x))
    return float(problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9))


def optima() -> None:
    rng = np.random.default_rng(5)
    m, n = 80, 40
    A = rng.standard_normal((m, n))
    b = A[:, :8] @ rng.uniform(0.1, 0.4, 8) + 0.3 * rng.standard_normal(m)
    f = fw.LinearModel(A, b)

    def least_squares(x: Any) -> Any:
        return cp.sum_squares(A @ x - b) / (2 * m)

    def ball(x: Any) -> list[Any]:
        return [cp.norm1(x) <= 1.5]

    def hyper(x: Any) -> list[Any]:
        return [x >= 0, x <= 1, cp.sum(x) == 5]

    def blocks(x: Any) -> list[Any]:
        return [x >= 0, *(cp.sum(x[i : i + 4]) == 1 for i in range(0, n, 4))]

    linear: list[tuple[str, fw.ConstraintSet, Any]] = [
        ("blended", fw.L1Ball(1.5), ball),
        ("boosted", fw.L1Ball(1.5), ball),
        ("sliding", fw.L1Ball(1.5), ball),
        ("boosted", fw.L2Ball(0.5), lambda x: [cp.norm2(x) <= 0.5]),
        ("blended", fw.HyperSimplex(5), hyper),
        ("sliding", fw.HyperSimplex(5), hyper),
        ("decomposition-invariant", fw.HyperSimplex(5), hyper),
        ("block", fw.Product([(fw.Simplex(), 4)] * 10), blocks),
    ]
    for method, C, constraints in linear:
        result, _ = timed(f, C, method, tol=1e-8)
        error = result.fun - optimum(least_squares, constraints, n)
        met = "ok" if abs(error) <= 1e-6 and result.success else "MISSED"
        print(f"{method} on {type(C).__name__}: {error:.1e} above CVXPY after {result.nit} steps  <= 1e-6 {met}")
    best = optimum(least_squares, ball, n)
    for method, least in (("lazy-fw", 1.0), (fw.Stochastic(20, "momentum"), 1 / 3), (fw.Stochastic(20, "spider"), 1.0),
                          (fw.Stochastic(20, "saga"), 1.0)):  # fmt: skip
        trace = fw.minimize(f, fw.L1Ball(1.5), method=method, tol=0, max_iter=5000).trace
        errors = np.minimum.accumulate(trace["fun"] - best)
        k = np.unique(np.geomspace(50, 5000, 60).astype(int))
        exponent = -np.polyfit(np.log(k), np.log(np.maximum(errors[k], 1e-16)), 1)[0]
        met = "ok" if exponent >= 0.9 * least else "MISSED"
        name = method if isinstance(method, str) else f"stochastic ({method.estimator})"
        print(f"{name}: error falls as k^-{exponent:.2f}, proved k^-{least:.2f}  {met}")


if __name__ == "__main__":
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    if any(os.environ.get(name) != value for name, value in threads.items()):  # NumPy has read them already
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | threads)
    print(f"{'':<92}{'ours':>10}{'peer':>10}{'ratio':>8}")
    chosen = [lazy, sliding, block, invariant, stochastic, optima, oracle_costs]
    for part in chosen:
        if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
            part()
