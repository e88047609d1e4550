"""Cost of the default method: time of "auto" over that of the best explicit method, problem by problem.

Run with ``make bench``, or ``python benchmarks/auto.py --only birkhoff``. Times are processor time on one thread, to a
relative gap of 1e-6 unless the name of a problem says otherwise, within the default limit of iterations. An explicit
method is stopped where it can no longer be the best. Differences below 20 ms do not count.
"""

from __future__ import annotations

import argparse
import fnmatch
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import fwflow as fw
from fwflow.datasets import load, standardize
from record import Record, on_one_thread, timed

Array = np.ndarray[Any, Any]

EXPLICIT: dict[str, dict[str, Any]] = {
    **{name: {"method": name} for name in ("working-set", "corrective", "flow", "apg", "polished")},
    **{name: {"method": name} for name in ("blended-pairwise", "pairwise", "away")},
    "fw, exact": {"method": "fw", "line_search": "exact"},
}
FIRST_LIMIT = 10.0  # seconds for the first explicit method
COUNTS = 0.02  # seconds that matter
GIVE_UP = 8.0  # times the best explicit method's seconds


class Case(NamedTuple):
    """What is minimised over what, from where, and how far."""

    f: fw.Objective
    C: Any
    x0: Any = None
    rtol: float = 1e-6


class Outcome(NamedTuple):
    """How a run ended."""

    seconds: float
    result: fw.Result

    @property
    def solved(self) -> bool:
        return self.result.success


CASES: dict[str, Callable[[], Case]] = {}


def case(name: str, *arguments: Any, **options: Any) -> Callable[[Callable[..., Case]], Callable[..., Case]]:
    """Register a problem; several of these above one function are several problems."""

    def register(build: Callable[..., Case]) -> Callable[..., Case]:
        assert name not in CASES
        CASES[name] = lambda: build(*arguments, **options)
        return build

    return register


# Data


def gaussian(m: int, n: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((m, n))


def conditioned(m: int, n: int, condition: float) -> Array:
    U, V = (np.linalg.qr(gaussian(k, min(m, n), seed))[0] for k, seed in ((m, 1), (n, 2)))
    return (U * np.geomspace(1, 1 / condition, min(m, n))) @ V.T


def correlated(m: int, n: int, share: float) -> Array:
    A = gaussian(m, n)
    for j in range(1, n):
        A[:, j] = share * A[:, j - 1] + np.sqrt(1 - share**2) * A[:, j]
    return A


def unscaled(m: int, n: int) -> Array:
    return gaussian(m, n) * 10.0 ** np.random.default_rng(3).uniform(-3, 3, n)


def scattered(m: int, n: int, density: float) -> Any:
    rng = np.random.default_rng(0)
    return sp.csc_matrix(sp.random_array((m, n), density=density, rng=rng, data_sampler=rng.standard_normal))


def truth(n: int, nonzeros: int) -> Array:
    rng = np.random.default_rng(4)
    x = np.zeros(n)
    x[rng.choice(n, nonzeros, replace=False)] = rng.standard_normal(nonzeros)
    return x


def fitted(A: Any, x: Array, loss: str, noise: float = 0.1) -> fw.LinearModel:
    """The loss of A at targets that x explains but for noise."""
    z = A @ x
    z = z + noise * np.std(z) * np.random.default_rng(5).standard_normal(len(z))
    return fw.LinearModel(A, np.where(z > 0, 1.0, -1.0) if loss == "logistic" else z, loss=loss)


# L1 balls


@case("Madelon raw, squared, L1 0.1", "squared")
@case("Madelon raw, logistic, L1 0.1", "logistic")
def raw_madelon(loss: str) -> Case:
    data = load("madelon")
    return Case(fw.LinearModel(data["A"], data["b"], loss=loss), fw.L1Ball(0.1))


@case("Madelon, logistic, L1 10", 10.0)
@case("Madelon, logistic, L1 250", 250.0)
def madelon(radius: float) -> Case:
    data = load("madelon")
    return Case(fw.LinearModel(standardize(data["A"]), data["b"], loss="logistic"), fw.L1Ball(radius))


@case("condition 1e2, 500 x 200, L1", 1e2)
@case("condition 1e4, 500 x 200, L1", 1e4)
@case("condition 1e6, 500 x 200, L1", 1e6)
@case("condition 1e4, 500 x 200, L1 interior", 1e4, share=2.0)
@case("condition 1e4, 500 x 200, L1, dense true coefficients", 1e4, share=0.9, nonzeros=200)
@case(
    "condition 1e4, 500 x 200, L1 ball with the norm of the true coefficients as its radius", 1e4, share=1.0, noise=1e-3
)
@case("condition 1e4, 500 x 200, logistic", 1e4, loss="logistic", share=30.0)
def ill_conditioned(
    condition: float, share: float = 0.5, nonzeros: int = 20, loss: str = "squared", noise: float = 0.1
) -> Case:
    A, x = conditioned(500, 200, condition), truth(200, nonzeros)
    return Case(fitted(A, x, loss, noise), fw.L1Ball(share * np.abs(x).sum()))


@case("sparse 2000 x 1000000 to 1e-4, L1", (2000, 1_000_000, 3e-3), rtol=1e-4)
@case("sparse 2000 x 20000, L1", (2000, 20_000, 5e-3))
@case("sparse 2000 x 20000, logistic", (2000, 20_000, 5e-3), loss="logistic", share=5.0)
@case("sparse 5000 x 1000, huber", (5000, 1000, 1e-2), loss="huber")
@case("sparse 20000 x 2000, tall, L1 interior", (20_000, 2000, 5e-3), share=2.0)
def sparse(size: tuple[int, int, float], loss: str = "squared", share: float = 0.5, rtol: float = 1e-6) -> Case:
    A, x = scattered(*size), truth(size[1], 30)
    return Case(fitted(A, x, loss), fw.L1Ball(share * np.abs(x).sum()), rtol=rtol)


@case("wide 200 x 5000, squared, L1", (200, 5000))
@case("wide 200 x 5000, logistic, L1", (200, 5000), loss="logistic", share=3.0)
@case("wide 300 x 3000, dense true coefficients, L1", (300, 3000), nonzeros=3000)
@case("tall 20000 x 50, squared, L1", (20_000, 50))
@case("tall 20000 x 50, logistic, L1", (20_000, 50), loss="logistic", share=3.0)
@case("tall 20000 x 50, huber, L1 interior", (20_000, 50), loss="huber", share=2.0)
@case("square 800 x 800, squared, L1", (800, 800), share=0.8)
@case("float32 1000 x 400 to 1e-4, L1", (1000, 400), dtype=np.float32, rtol=1e-4)
def dense(
    size: tuple[int, int],
    loss: str = "squared",
    share: float = 0.5,
    nonzeros: int = 20,
    dtype: Any = np.float64,
    rtol: float = 1e-6,
) -> Case:
    A, x = gaussian(*size).astype(dtype), truth(size[1], nonzeros).astype(dtype)
    f = fitted(A, x, loss)
    f = fw.LinearModel(A, f.b.astype(dtype), loss=loss)
    return Case(f, fw.L1Ball(share * float(np.abs(x).sum())), rtol=rtol)


@case("unscaled 400 x 200, squared, L1", "squared", 0.5)
@case("unscaled 400 x 200, logistic, L1", "logistic", 5.0)
def unequal(loss: str, share: float) -> Case:
    A, x = unscaled(400, 200), truth(200, 20)
    return Case(fitted(A, x, loss), fw.L1Ball(share * np.abs(x).sum()))


@case("correlated 1000 x 1500, squared, L1", "squared", 0.5)
@case("correlated 1000 x 1500, logistic, L1", "logistic", 3.0)
def alike(loss: str, share: float) -> Case:
    A, x = correlated(1000, 1500, 0.95), truth(1500, 30)
    return Case(fitted(A, x, loss), fw.L1Ball(share * np.abs(x).sum()))


@case("sensing 500 x 100, L1 1000 (P4)")
def sensing() -> Case:
    data = load("sensing")
    return Case(fw.LinearModel(data["A"], data["b"], loss="squared"), fw.L1Ball(1000.0))


@case("separable 200 x 50, logistic, L1 1000", fw.L1Ball(1000.0))
@case("separable 200 x 50, logistic, hull 1000", fw.ConvexHull(1000.0 * np.vstack([np.eye(50), -np.eye(50)])))
@case("separable by one column, L1 1000", fw.L1Ball(1000.0), True)
@case(
    "separable by one column, L1 ball 1000 given by a function g -> s",
    lambda g: -1000.0 * np.sign(g[np.abs(g).argmax()]) * one(g),
    True,
)
def separable(C: Any, one_column: bool = False) -> Case:
    A = gaussian(200, 50)
    b = np.where(A @ truth(50, 10) > 0, 1.0, -1.0)
    if one_column:
        A[:, 0] = b * (0.1 + np.abs(A[:, 0]))
    return Case(fw.LinearModel(A, b, loss="logistic"), C, x0=np.zeros(50))


def one(g: Array) -> Array:
    return np.eye(1, len(g), int(np.abs(g).argmax()))[0]


# Simplices


@case("simplex 1000 x 1000, sparse optimum", (1000, 1000), 30)
@case("simplex 1000 x 300, dense optimum", (1000, 300), 300)
@case("simplex 400 x 200, condition 1e4", (400, 200), 20, condition=1e4)
@case("simplex 500 x 200, logistic", (500, 200), 20, loss="logistic")
def on_simplex(size: tuple[int, int], nonzeros: int, condition: float | None = None, loss: str = "squared") -> Case:
    A = gaussian(*size) if condition is None else conditioned(*size, condition)
    x = np.abs(truth(size[1], nonzeros))
    return Case(fitted(A, x / x.sum(), loss), fw.Simplex())


@case("portfolio 400, full rank", 2000)
@case("portfolio 400, rank 100 plus a small multiple of the identity", 100)
def portfolio(observations: int) -> Case:
    returns = gaussian(observations, 400) @ np.diag(np.linspace(0.5, 2, 400))
    H = returns.T @ returns / observations + 1e-4 * np.eye(400)
    return Case(fw.Quadratic(H, 0.1 * gaussian(400, 1)[:, 0]), fw.Simplex())


# Boxes


@case("box, squared 500 x 200, interior", 10.0, 1e2)
@case("box, squared 500 x 200, condition 1e4", 0.3, 1e4)
@case("box, logistic 500 x 200", 0.5, 1e2, "logistic")
@case("L-infinity ball, squared 500 x 200", 0.5, 1e3, C=fw.LInfBall)
def boxed(size: float, condition: float, loss: str = "squared", C: Any = lambda r: fw.Box(-r, r)) -> Case:
    return Case(fitted(conditioned(500, 200, condition), truth(200, 200), loss), C(size))


@case("box, quadratic 400, condition 1e5")
def box_quadratic() -> Case:
    A = conditioned(400, 400, 10**2.5)
    return Case(fw.Quadratic(A.T @ A, 0.1 * gaussian(400, 1)[:, 0]), fw.Box(np.zeros(400), np.ones(400)))


# Round sets


@case("L2 ball, squared 500 x 200, condition 1e2", fw.L2Ball, 1e2)
@case("L2 ball, squared 500 x 200, condition 1e4", fw.L2Ball, 1e4)
@case("L2 ball, logistic 500 x 200", fw.L2Ball, 1e1, "logistic")
@case("L1.5 ball, squared 500 x 200", lambda r: fw.LpBall(1.5, r), 1e2)
@case("L3 ball, squared 500 x 200", lambda r: fw.LpBall(3.0, r), 1e2)
def round_set(C: Any, condition: float, loss: str = "squared") -> Case:
    x = truth(200, 200)
    return Case(fitted(conditioned(500, 200, condition), x, loss), C(0.5 * float(np.linalg.norm(x))))


# Matrices


@case("nuclear ball, 600 measurements of 20 x 15", False)
@case("nuclear ball, 600 measurements of 20 x 15, hess_product", True)
def trace_regression(curved: bool) -> Case:
    X = gaussian(20, 2, 1) @ gaussian(2, 15, 2)
    A = gaussian(600, 300)
    b = A @ X.ravel() + gaussian(600, 1, 3)[:, 0]
    f = fw.Smooth(
        lambda x: 0.5 * float(((A @ x.ravel() - b) ** 2).mean()),
        lambda x: (A.T @ (A @ x.ravel() - b)).reshape(x.shape) / len(b),
        shape=X.shape,
        hess_product=(lambda x, v: (A.T @ (A @ v.ravel())).reshape(v.shape) / len(b)) if curved else None,
    )
    return Case(f, fw.NuclearBall(0.7 * np.linalg.svd(X)[1].sum()))


@case("completion 150 x 100, huber", "huber", 0.5)
@case("completion 150 x 100, squared", "squared", 0.8)
@case("completion 150 x 100, squared, large radius, to 1e-4", "squared", 2.0, 1e-4)
def completion(loss: str, share: float, rtol: float = 1e-6) -> Case:
    X = gaussian(150, 3, 1) @ gaussian(3, 100, 2)
    rows, cols = np.divmod(np.random.default_rng(6).choice(15_000, 4000, replace=False), 100)
    values = X[rows, cols] + 0.1 * np.random.default_rng(7).standard_normal(4000)
    f = fw.MatrixCompletion(rows, cols, values, X.shape, loss=loss, **({"rho": 2.0} if loss == "huber" else {}))
    return Case(f, fw.NuclearBall(share * np.linalg.svd(X)[1].sum()), rtol=rtol)


@case("Birkhoff 50, near its centre", 50, 1e-3)
@case("Birkhoff 20, near its centre", 20, 1e-3)
@case("Birkhoff 40, a Gaussian matrix", 40, None)
def birkhoff(n: int, distance: float | None) -> Case:
    Y = gaussian(n, n) if distance is None else 1 / n + distance * gaussian(n, n)
    f = fw.LinearModel(sp.eye_array(n * n, format="csc"), Y.ravel(), loss="squared", scale="sum")
    return Case(f, fw.Birkhoff(n))


@case("Birkhoff 15, logistic 500 x 225")
def birkhoff_logistic() -> Case:
    return Case(fitted(gaussian(500, 225), np.eye(15).ravel(), "logistic"), fw.Birkhoff(15))


# Hulls and polytopes


@case("hull of 100 in 50 dimensions, squared", 100, 50, "squared")
@case("hull of 3000 in 30 dimensions, squared", 3000, 30, "squared")
@case("hull of 100 in 50 dimensions, logistic", 100, 50, "logistic")
@case("hull of 400 in 1200 dimensions, logistic", 400, 1200, "logistic")
@case("hull of 300 in 300 dimensions, condition 1e4", 300, 300, "squared", 1e4)
def hull(vertices: int, n: int, loss: str, condition: float | None = None) -> Case:
    V = gaussian(vertices, n, 8)
    w = np.abs(truth(vertices, min(20, n // 2)))
    A = gaussian(400, n) if condition is None else conditioned(400, n, condition)
    return Case(fitted(A, w @ V / w.sum(), loss), fw.ConvexHull(V))


def slices(n: int) -> fw.Polytope:
    """A box cut by random half-spaces."""
    return fw.Polytope(gaussian(n // 3, n, 9), np.full(n // 3, 0.5), lower=-1.0, upper=1.0)


@case("polytope in 60 dimensions, squared", 60, "squared")
@case("polytope in 40 dimensions, logistic", 40, "logistic")
def polytope(n: int, loss: str) -> Case:
    return Case(fitted(gaussian(200, n), truth(n, n), loss), slices(n))


# Combinations


@case("scaled simplex 500 x 200", -3.0 * fw.Simplex())
@case("translated L1 ball 500 x 200", fw.L1Ball(2.0) + np.linspace(-1, 1, 200))
@case("product of L1 ball, simplex, L2 ball", fw.Product([(fw.L1Ball(2.0), 80), (fw.Simplex(), 80), (fw.L2Ball(), 40)]))
@case("product of ten simplices", fw.Product([(fw.Simplex(), 20)] * 10))
def combined(C: fw.ConstraintSet) -> Case:
    return Case(fitted(gaussian(500, 200), truth(200, 50), "squared"), C)


# Black boxes


BOXES: dict[str, Callable[[int], Any]] = {
    "simplex": lambda n: fw.Simplex(),
    "L1 ball": lambda n: fw.L1Ball(2.0),
    "box": lambda n: fw.Box(np.zeros(n), np.ones(n)),
    "hull": lambda n: fw.ConvexHull(gaussian(3 * n, n, 8)),
    "polytope": slices,
    "callable": lambda n: lambda g: 2 * one(g) * -np.sign(g[np.abs(g).argmax()]),
    "Birkhoff": lambda n: fw.Birkhoff(round(n**0.5)),
}


def register_black_boxes() -> None:
    sizes = {"simplex": 200, "L1 ball": 500, "box": 100, "hull": 40, "polytope": 30, "callable": 60, "Birkhoff": 100}
    for name, n in sizes.items():
        for curved in (False, True):
            label = f"L1 ball given by a function g -> s, {n}" if name == "callable" else f"{name} {n}"
            case(f"black box, {label}" + curved * ", hess_product", name, n, curved)(black_box)
    for name, n in (("hull", 12), ("simplex", 500)):
        case(f"black box, {name} {n}", name, n, False)(black_box)


def black_box(name: str, n: int, curved: bool) -> Case:
    """A strictly convex function: a quadratic and the softplus of products."""
    A, B, b = gaussian(2 * n, n, 1) / np.sqrt(n), gaussian(n, n, 2), gaussian(n, 1, 3)[:, 0]

    def fun(x: Array) -> float:
        x = x.ravel()
        return float(0.5 * ((A @ x) ** 2).sum() + np.logaddexp(0, B @ x).sum() - b @ x)

    def grad(x: Array) -> Array:
        z = x.ravel()
        return (A.T @ (A @ z) + B.T @ (1 / (1 + np.exp(-(B @ z)))) - b).reshape(x.shape)

    def hess(x: Array, v: Array) -> Array:
        s, u = 1 / (1 + np.exp(-(B @ x.ravel()))), v.ravel()
        return (A.T @ (A @ u) + B.T @ (s * (1 - s) * (B @ u))).reshape(v.shape)

    shape = (round(n**0.5),) * 2 if name == "Birkhoff" else (n,)
    C = BOXES[name](n)
    x0 = np.zeros(shape) if name == "callable" else None
    return Case(fw.Smooth(fun, grad, shape=shape, hess_product=hess if curved else None), C, x0)


register_black_boxes()


@case("D-optimal design 20 of 100", False)
@case("D-optimal design 20 of 100, hess_product", True)
def design(curved: bool) -> Case:
    V = gaussian(100, 20)

    def inverse(x: Array) -> Array:
        return np.linalg.inv(V.T @ (x[:, None] * V))

    def hess(x: Array, v: Array) -> Array:
        M = inverse(x)
        return np.einsum("ij,jk,ik->i", V, M @ (V.T @ (v[:, None] * V)) @ M, V)

    f = fw.Smooth(
        lambda x: -float(np.linalg.slogdet(V.T @ (x[:, None] * V))[1]),
        lambda x: -np.einsum("ij,jk,ik->i", V, inverse(x), V),
        domain=lambda x: bool(np.linalg.eigvalsh(V.T @ (x[:, None] * V))[0] > 1e-12),
        hess_product=hess if curved else None,
    )
    return Case(f, fw.Simplex(), x0=np.full(100, 0.01))


# Running


def run(problem: Case, limit: float, **options: Any) -> Outcome | None:
    """A run that stops after so many seconds of processor time; None if this method cannot run here."""

    def once() -> fw.Result:
        end = time.process_time() + limit
        return fw.minimize(
            problem.f,
            problem.C,
            problem.x0,
            tol=0,
            rtol=problem.rtol,
            max_time=4 * limit,
            callback=lambda state: time.process_time() > end,
            **options,
        )

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result, seconds = timed(once)
    except ValueError:
        return None
    return Outcome(seconds, result)


def best_of(problem: Case, limit: float, **options: Any) -> Outcome | None:
    """The fastest of three runs, or of one that takes long."""
    best = run(problem, limit, **options)
    if best is None or not best.solved or best.seconds > 0.3:
        return best
    again = [run(problem, limit, **options) for _ in range(2)]
    return min([best, *(o for o in again if o is not None and o.solved)], key=lambda o: o.seconds)


def explicit(problem: Case) -> tuple[str, float]:
    """The best explicit method, and its seconds."""
    name, seconds = "nobody", np.inf
    for method, options in EXPLICIT.items():
        outcome = best_of(problem, min(FIRST_LIMIT, seconds + COUNTS / 2), **options)
        if outcome is not None and outcome.solved and outcome.seconds < seconds:
            name, seconds = method, outcome.seconds
    return name, seconds


class Row(NamedTuple):
    name: str
    seconds: float
    solved: bool
    best: str
    best_seconds: float
    method: Any

    @property
    def ratio(self) -> float:
        """Auto's seconds over the best's; differences that do not count are none."""
        if not self.solved:
            return np.inf if np.isfinite(self.best_seconds) else np.nan
        if self.seconds - self.best_seconds < COUNTS:
            return min(1.0, self.seconds / self.best_seconds)
        return self.seconds / self.best_seconds

    @property
    def cells(self) -> tuple[str, ...]:
        """The cells of the table."""
        auto = f"{self.seconds:.4f}" if self.solved else "unsolved"
        return self.name, auto, f"{self.best_seconds:.4f}", f"{self.ratio:.2f}", self.best, str(self.method)


def measured(name: str) -> Row:
    problem = CASES[name]()
    best, seconds = explicit(problem)
    outcome = best_of(problem, GIVE_UP * min(seconds, FIRST_LIMIT) + 1.0)
    assert outcome is not None
    return Row(name, outcome.seconds, outcome.solved, best, seconds, outcome.result.method)


def main(record: Record) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PATTERN", help="problems whose names contain this, or match this glob")
    parser.add_argument("--quick", action="store_true", help="every fourth problem")
    parser.add_argument("--write", action="store_true", help="store the table in benchmarks/results")
    arguments = parser.parse_args()
    names = [n for n in CASES if arguments.only is None or arguments.only in n or fnmatch.fnmatch(n, arguments.only)]
    record.table("problem", "auto, s", "best, s", "ratio", "best method", "auto ended with")
    rows = []
    for name in names[:: 4 if arguments.quick else 1]:
        rows.append(measured(name))
        record.row(*rows[-1].cells)
    record.end_table()
    ratios = np.array([row.ratio for row in rows if not np.isnan(row.ratio)])
    unsolved = [row.name for row in rows if not row.solved and np.isfinite(row.best_seconds)]
    record.say(
        f"There are {len(rows)} problems. The median ratio is {np.median(ratios):.2f}, and the largest ratio is "
        f"{ratios.max():.2f}. "
        + (
            f'"auto" does not solve these problems, which another method solves: {", ".join(unsolved)}.'
            if unsolved
            else '"auto" solves every problem that at least one other method solves.'
        )
    )


if __name__ == "__main__":
    on_one_thread()
    with Record("auto") as results:
        main(results)
