# ruff: noqa: E402
"""Gain of an accelerator: a path of radii, one large problem and a sparse one, against fwflow on one core and jaxopt.

Run with ``python benchmarks/accelerator.py`` where JAX finds the device; on a CPU, and on devices with little memory,
the problems are smaller and the table says so. Needs no network; jaxopt is left out where it is not installed. Times
are medians of calls after the first one, whose excess is what compiling costs.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # "one core" means one; JAX has threads of its own

import argparse
import importlib.util
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse as sp
from jax import lax
from jax.experimental import sparse

import fwflow as fw
import fwflow.jax as fwj
from record import Record

DEVICE = jax.devices()[0]
FAST = DEVICE.platform != "cpu"


@dataclass(frozen=True)
class Row:
    name: str
    figure: str
    limit: str = ""
    met: bool | None = None

    @property
    def cells(self) -> tuple[str, str, str]:
        return self.name, self.figure, f"{self.limit}{' (missed)' if self.met is False else ''}"


def seconds(call: Callable[[], Any], repeats: int = 5) -> tuple[float, float]:
    """The time of the first call, and the median of those after it."""
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        jax.block_until_ready(call())
        times.append(time.perf_counter() - started)
    return times[0], float(np.median(times[1:]))


def bar(name: str, figure: str, limit: str, met: bool) -> Row:
    """A bar of the project, which counts on an accelerator alone."""
    return Row(name, figure, limit, bool(met) if FAST else None)


def per_iteration(f: Any, C: Any, method: str, few: int, many: int) -> float:
    """Seconds of one iteration: the difference of a long and a short run, which have as many verdicts."""
    run = partial(fwj.minimize, f, C, method=method, tol=0.0)
    short, long = (seconds(lambda k=k: run(max_iter=k).x, 3)[1] for k in (few, many))
    return (long - short) / (many - few)


def radii_at_once() -> Iterator[Row]:
    m, n, count = (2000, 5000, 64) if FAST else (400, 1000, 16)
    rng = np.random.default_rng(0)
    A = rng.standard_normal((m, n)).astype(np.float32)
    b = np.where(A[:, :20].sum(axis=1) + 2 * rng.standard_normal(m) > 0, 1.0, -1.0).astype(np.float32)
    radii = np.geomspace(1.0, 64.0, count).astype(np.float32)
    f = fwj.LinearModel(A, b, "logistic")
    yield Row(f"-- L1 logistic regression, {m} x {n}, {count} radii from 1 to 64, float32", "")

    solve = partial(fwj.path, f, fwj.L1Ball(), radii)
    R = solve(tol=0.0, rtol=1e-4)
    _, again = seconds(lambda: solve(tol=0.0, rtol=1e-4).x)
    yield bar(
        "verified gap <= 1e-4 of the first gap, all", f"{again:.3f} s", "<= 0.2 s", again <= 0.2 and R.success.all()
    )
    yield Row("  iterations, at most / gap by first gap, worst", f"{int(R.nit.max())} / {worst_ratio(f, R, radii):.1e}")
    tight = 1e-4 * R.fun
    started = time.perf_counter()
    T = jax.block_until_ready(solve(tol=tight))
    compiled = time.perf_counter() - started
    _, strict = seconds(lambda: solve(tol=tight).x)
    yield bar("verified gap <= 1e-4 of f itself, all", f"{strict:.3f} s", "<= 0.2 s", strict <= 0.2 and T.success.all())
    yield Row(
        "  iterations, at most / ms each / succeeded",
        f"{int(T.nit.max())} / {1e3 * strict / int(T.nit.max()):.3f} / {int(T.success.sum())}",
    )
    other = fwj.LinearModel(A[::-1], b, "logistic")
    started = time.perf_counter()
    jax.block_until_ready(fwj.path(other, fwj.L1Ball(), radii, tol=0.0, rtol=1e-4).x)
    yield Row("  equal shapes, other numbers: first call", f"{time.perf_counter() - started:.3f} s")
    yield Row("  first call with the other tolerances", f"{compiled:.2f} s")
    fresh = fwj.LinearModel(A[:, :-8], b, "logistic")
    started = time.perf_counter()
    jax.block_until_ready(fwj.path(fresh, fwj.L1Ball(), radii, tol=0.0, rtol=1e-4).x)
    cold = time.perf_counter() - started
    yield bar("  compiling, with new shapes", f"{cold - again:.2f} s", "< 10 s", cold - again < 10)

    core = fw.LinearModel(A, b, "logistic")
    chosen = radii[:: count // 4]
    started = time.perf_counter()
    for radius in chosen:
        fw.minimize(core, fw.L1Ball(float(radius)), tol=0.0, rtol=1e-4)
    one_core = (time.perf_counter() - started) * count / len(chosen)
    yield Row(f"fwflow on one core, {len(chosen)} of the radii times {count // len(chosen)}", f"{one_core:.2f} s")
    yield Row("  fwflow on one core / path", f"{one_core / again:.1f}")
    yield from peer(f, radii, again)


def worst_ratio(f: Any, R: fwj.Result, radii: Any) -> float:
    """The largest gap as a share of the first one, which at zero is the radius times the largest slope."""
    slopes = np.abs(np.asarray(f.gradient(f.point(jnp.zeros(f.shape, f.dtype))))).max()
    return float((np.asarray(R.gap) / (radii * slopes)).max())


def peer(f: Any, radii: Any, ours: float) -> Iterator[Row]:
    if importlib.util.find_spec("jaxopt") is None:
        yield Row("jaxopt's ProjectedGradient, vmapped", "not installed")
        return
    import jaxopt

    def fun(x: Any) -> Any:
        return f.value(f.point(x))

    solver = jaxopt.ProjectedGradient(fun, jaxopt.projection.projection_l1_ball, maxiter=2000, tol=1e-6)
    solve = jax.jit(jax.vmap(lambda radius: solver.run(jnp.zeros(f.shape, f.dtype), radius).params))
    _, theirs = seconds(lambda: solve(radii), 1)
    X = solve(radii)
    gaps = jax.vmap(lambda x, radius: fwj.minimize(f, fwj.L1Ball(radius * (1 + 1e-5)), x, max_iter=0).gap)(X, radii)
    first = jax.vmap(lambda radius: fwj.minimize(f, fwj.L1Ball(radius), max_iter=0).gap)(jnp.asarray(radii))
    yield Row("jaxopt's ProjectedGradient, vmapped, 2000 iterations at most", f"{theirs:.2f} s")
    yield Row("  its gap by the first gap, worst", f"{float((gaps / first).max()):.1e}")
    yield Row("  jaxopt / path", f"{theirs / ours:.1f}")


def one_large_problem() -> Iterator[Row]:
    m, n = size = sizes()
    yield Row(f"-- one problem, {m} x {n} float32, {4e-9 * m * n:.2f} GB", "")
    A, r, x = data(size), jnp.ones(m, jnp.float32), jnp.ones(n, jnp.float32)
    bytes_ = 4.0 * m * n
    _, copied = seconds(lambda: _plus(A, 1.0))
    _, read = seconds(lambda: _largest(A))
    best = max(2 * bytes_ / copied, bytes_ / read)
    both = f"{2e-9 * bytes_ / copied:.0f} / {1e-9 * bytes_ / read:.0f} GB/s"
    yield Row("A copied / A read for its largest entry; the better is 100 %", both)
    for name, product in PRODUCTS.items():
        v = r if product.__name__.startswith("transposed") else x
        _, t = seconds(lambda product=product, v=v: product(A, v))
        yield Row(f"  {name}", f"{1e3 * t:.3f} ms, {bytes_ / t / best:.0%}")
    b = jnp.sign(A[:, 0] + 0.1)
    f = fwj.LinearModel(A, b, "logistic")
    fast = per_iteration(f, fwj.L1Ball(50.0), "fw", 20, 120)
    for method in ("fw", "blended-pairwise"):
        each = fast if method == "fw" else per_iteration(f, fwj.L1Ball(50.0), method, 20, 120)
        share = bytes_ / each / best
        name = f'method="{method}", an iteration: one pass over A'
        yield bar(name, f"{1e3 * each:.3f} ms, {share:.0%}", ">= 70 %", share >= 0.7)
    each = per_iteration(f, fwj.L1Ball(50.0), "apg", 20, 120)
    yield Row('method="apg", an iteration: 2.1 passes', f"{1e3 * each:.3f} ms, {2.1 * bytes_ / each / best:.0%}")
    rows = slice(0, min(m, 2000))
    core = fw.LinearModel(np.asarray(A[rows]), np.asarray(b[rows]), "logistic")
    times = fw.minimize(core, fw.L1Ball(50.0), method="fw", tol=0, max_iter=20, screen=False).trace["time"]
    one_core = float(np.median(np.diff(times))) * m / min(m, 2000)
    yield Row(
        f"fwflow on one core, an iteration, {min(m, 2000)} rows times {m / min(m, 2000):g}", f"{1e3 * one_core:.1f} ms"
    )
    yield Row("  fwflow on one core / fwj", f"{one_core / fast:.1f}")


def sizes() -> tuple[int, int]:
    """As large as asked for, where a copy of A in double precision fits beside it twice."""
    if not FAST:
        return 4000, 2000
    stats = DEVICE.memory_stats() or {}
    room = stats.get("bytes_limit", 16e9) / 6 / 4
    return min(100_000, int(room / 20_000)), 20_000


@partial(jax.jit, static_argnums=0)
def data(size: tuple[int, int]) -> jax.Array:
    m, n = size
    keys = jax.random.split(jax.random.key(0), 100)
    return lax.map(lambda key: jax.random.normal(key, (m // 100, n), jnp.float32), keys).reshape(m // 100 * 100, n)


_plus = jax.jit(lambda A, c: A + c)
_largest = jax.jit(lambda A: A.max())


@jax.jit
def transposed_dot(A: jax.Array, r: jax.Array) -> jax.Array:
    return lax.dot_general(A, r, (((0,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)


@jax.jit
def transposed_row_dot(A: jax.Array, r: jax.Array) -> jax.Array:
    return lax.dot_general(r[None, :], A, (((1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)[0]


@jax.jit
def transposed_sum(A: jax.Array, r: jax.Array) -> jax.Array:
    return (A * r[:, None]).sum(axis=0)


@jax.jit
def dot(A: jax.Array, x: jax.Array) -> jax.Array:
    return lax.dot_general(A, x, (((1,), (0,)), ((), ())), precision=lax.Precision.HIGHEST)


@jax.jit
def summed(A: jax.Array, x: jax.Array) -> jax.Array:
    return (A * x).sum(axis=1)


PRODUCTS: dict[str, Any] = {
    "A.T @ r, dot_general": transposed_dot,
    "A.T @ r, r as a row": transposed_row_dot,
    "A.T @ r, multiplied and summed": transposed_sum,
    "A @ x, dot_general": dot,
    "A @ x, multiplied and summed": summed,
}


def sparse_data() -> Iterator[Row]:
    m, n = (20_000, 100_000) if FAST else (4000, 20_000)
    rng = np.random.default_rng(0)
    A = sp.random_array((m, n), density=1e-3, rng=rng, format="coo", dtype=np.float32)
    b = np.where(rng.standard_normal(m) > 0, 1.0, -1.0).astype(np.float32)
    places = np.stack([A.row, A.col], axis=1).astype(np.int32)
    bcoo = sparse.BCOO((jnp.asarray(A.data), jnp.asarray(places)), shape=(m, n))
    f, C, r = fwj.LinearModel(bcoo, b, "logistic"), fwj.L1Ball(100.0), jnp.ones(m, jnp.float32)
    yield Row(f"-- sparse, {m} x {n}, {A.nnz} non-zeros, float32", "")
    product = jax.jit(lambda f, r: f.design.rmatvec(r))
    _, ours = seconds(lambda: product(f, r), 20)
    _, theirs = seconds(lambda: _bcoo(bcoo, r), 20)
    columns = f.design.by_columns
    index, entries = columns.index.T, columns.data.T
    _, across = seconds(lambda: _across(index, entries, r), 20)
    yield Row(
        "A.T @ r: ours / ours laid out across / BCOO", f"{1e3 * ours:.3f} / {1e3 * across:.3f} / {1e3 * theirs:.3f} ms"
    )
    fast = per_iteration(f, C, "fw", 20, 120)
    yield bar('method="fw", an iteration', f"{1e3 * fast:.3f} ms", "<= 0.2 ms", fast <= 2e-4)
    for method in ("blended-pairwise", "apg"):
        yield Row(f'method="{method}", an iteration', f"{1e3 * per_iteration(f, C, method, 20, 120):.3f} ms")
    core = fw.LinearModel(A.tocsc(), b, "logistic")
    times = fw.minimize(core, fw.L1Ball(100.0), method="fw", tol=0, max_iter=30, screen=False).trace["time"]
    one_core = float(np.median(np.diff(times)))
    yield Row("fwflow on one core, an iteration", f"{1e3 * one_core:.3f} ms")
    yield Row("  fwflow on one core / fwj", f"{one_core / fast:.1f}")


_bcoo = jax.jit(lambda A, r: A.T @ r)
_across = jax.jit(lambda index, entries, r: (entries * jnp.take(r, index, mode="clip")).sum(axis=0))

PARTS = {"radii": radii_at_once, "large": one_large_problem, "sparse": sparse_data}


def main(record: Record) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which; all if none is named")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results")
    record.table("measured", "result", "target")
    for name in parser.parse_args().parts or list(PARTS):
        try:
            for row in PARTS[name]():
                record.row(*row.cells)
        except Exception:  # the other parts are worth their time all the same
            traceback.print_exc()
            record.row(name, "failed", "")
    record.end_table()


if __name__ == "__main__":
    with Record("accelerator", "jax", machine=f"{DEVICE.device_kind} ({DEVICE.platform})") as results:
        main(results)
