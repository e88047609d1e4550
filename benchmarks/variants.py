"""Savings of each variant, compared with plain Frank-Wolfe or with the method that it should beat.

Run with ``python benchmarks/variants.py``; ``--write`` stores the first table. Seconds are processor time. The limits
are targets of the project. Then every variant runs on a problem of its own. If the variant converges linearly, its
distance from CVXPY's optimum is printed, and otherwise the exponent a of a fit of error = C / k^a. The last table shows
how the costs of oracles grow with the dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import fwflow as fw
from oracles import oracle_costs
from record import Record, on_one_thread, timed

MAX_TIME = 120.0


def run(
    f: fw.Objective, C: fw.ConstraintSet, method: Any, max_iter: int = 10**6, **options: Any
) -> tuple[fw.Result, float]:
    return timed(lambda: fw.minimize(f, C, method=method, max_iter=max_iter, max_time=MAX_TIME, **options))


class Savings:
    """Table of counts or seconds of a variant and of another method."""

    def __init__(self, record: Record) -> None:
        self.record = record
        record.table("method", "problem", "measured", "this method", "other method", "ratio")

    def add(
        self, method: str, problem: str, what: str, ours: float, other: str, theirs: float, least: float, done: bool
    ) -> None:
        """Add a row, marked if the ratio is below its limit."""
        missed = "" if done and theirs >= least * ours else f" (below {least:g})"
        self.record.row(
            f'`"{method}"`', problem, what, f"{ours:.4g}", f'`"{other}"`: {theirs:.4g}', f"{theirs / ours:.1f}{missed}"
        )


def lazy(table: Savings) -> None:
    """Assignment: the oracle solves an assignment problem of 150 rows."""
    n = 150
    rng = np.random.default_rng(0)
    target = sum(np.eye(n)[rng.permutation(n)] for _ in range(30)) / 30
    f, C = fw.Smooth(lambda x: 0.5 * float(((x - target) ** 2).sum()), lambda x: x - target), fw.Birkhoff(n)
    eager, eager_time = run(f, C, "fw", tol=0, rtol=1e-2)
    ours, ours_time = run(f, C, "lazy-fw", tol=0, rtol=1e-2)
    done = ours.success and eager.success
    problem = "Birkhoff polytope 150 x 150, relative gap 1e-2"
    table.add("lazy-fw", problem, "oracle calls", ours.n_lmo, "fw", eager.n_lmo, 2, done)
    table.add("lazy-fw", problem, "seconds", ours_time, "fw", eager_time, 1, done)
    tableau = fw.LazyFrankWolfe(fw.tableaus["rk44"])
    ours, _ = run(f, C, tableau, tol=0, rtol=1e-2)
    eager, _ = run(f, C, "rk44", tol=0, rtol=1e-2)
    done = ours.success and eager.success
    table.add("lazy-fw, RK44", problem, "oracle calls", ours.n_lmo, "rk44", eager.n_lmo, 2, done)


def sliding(table: Savings) -> None:
    rng = np.random.default_rng(1)
    A = rng.standard_normal((1000, 400)) / np.arange(1, 401) ** 0.5
    f = fw.LinearModel(A, A[:, :20].sum(axis=1) + 0.1 * rng.standard_normal(1000))
    C = fw.L1Ball(8.0)
    ours, _ = run(f, C, "sliding", tol=0, rtol=1e-4)
    for peer in ("fw", "blended-pairwise"):
        other, _ = run(f, C, peer, tol=0, rtol=1e-4)
        problem, least = "least squares 1000 x 400, L1 ball, relative gap 1e-4", 2 if peer == "fw" else 1
        done = ours.success and other.success
        table.add("sliding", problem, "gradients", ours.n_grad, peer, other.n_grad, least, done)


def block(table: Savings) -> None:
    rng = np.random.default_rng(2)
    A = rng.standard_normal((500, 2000))
    f = fw.LinearModel(A, A @ rng.dirichlet(np.ones(10), 200).reshape(-1) + rng.standard_normal(500))
    C = fw.Product([(fw.Simplex(), 10)] * 200)
    batch, _ = run(f, C, "fw", tol=0, rtol=1e-3)
    for order in ("cyclic", "random", "gap"):
        ours, _ = run(f, C, fw.BlockCoordinate(order), tol=0, rtol=1e-3)
        problem, done = "least squares over 200 simplices, relative gap 1e-3", ours.success and batch.success
        table.add(f"block, {order}", problem, "passes", ours.n_design, "fw", batch.n_design, 3, done)


def invariant(table: Savings) -> None:
    n, k = 10_000, 500
    rng = np.random.default_rng(3)
    centre, curvature = rng.uniform(0, 2 * k / n, n), rng.uniform(1, 4, n)
    f, C = fw.Quadratic(sp.diags_array(curvature).tocsc(), curvature * centre), fw.HyperSimplex(k)
    runs = [[run(f, C, m, tol=0, rtol=1e-4) for _ in range(3)] for m in ("decomposition-invariant", "blended-pairwise")]
    (ours, *_), (peer, *_) = ([result for result, _ in some] for some in runs)
    ours_time, peer_time = (float(np.median([seconds for _, seconds in some])) for some in runs)
    used = int((ours.x > 0).sum())
    problem, done = f"hypersimplex of 10000 entries, {used} nonzero, relative gap 1e-4", ours.success and peer.success
    table.add("decomposition-invariant", problem, "seconds", ours_time, "blended-pairwise", peer_time, 1, done)


def stochastic(table: Savings) -> None:
    m, n = 10**6, 100
    rng = np.random.default_rng(4)
    A = rng.standard_normal((m, n), dtype=np.float32)
    b = np.where(A[:, :10].sum(axis=1) + 2 * rng.standard_normal(m, dtype=np.float32) > 0, 1, -1).astype(np.float32)
    f, C = fw.LinearModel(A, b, loss="logistic"), fw.L1Ball(5.0)
    peer, peer_time = run(f, C, "fw", tol=1e-3, max_iter=1000)
    other = "fw" if peer.success else f"fw, stopped at a gap of {peer.gap:.1e}"
    for estimator in ("spider", "saga"):
        ours, ours_time = run(f, C, fw.Stochastic(1000, estimator), tol=1e-3)
        problem = "logistic regression 1000000 x 100, gap 1e-3"
        table.add(f"stochastic, {estimator}", problem, "seconds", ours_time, other, peer_time, 1, ours.success)


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
        result, _ = run(f, C, method, tol=1e-8)
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
    on_one_thread()
    with Record("variants", "cvxpy") as results:
        savings = Savings(results)
        for part in (lazy, sliding, block, invariant, stochastic):
            part(savings)
        results.end_table()
    optima()
    oracle_costs()
