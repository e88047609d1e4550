"""Who takes part, and how is each called? Ours and the peers, one short function per package.

A solver is ``prepare(problem) -> run``: whatever is compiled, copied or canonicalised once happens in `prepare`, and
``run(watch)`` is measured. Iterative solvers show every iterate to the watch, which stops its clock while it looks and
answers whether to stop. Others are run from scratch with more and more effort, each run timed as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

import fwflow as fw
from problems import Array, Assignment, Completion, Linear, Problem


class Skipped(Exception):
    """The solver does not take part in a problem; the message says why."""


class Watch(Protocol):
    """What a run reports to."""

    #: Seconds that a run, or a whole solve, may take.
    limit: float

    def __call__(self, x: Any) -> bool:
        """Here is the next iterate, or how to compute it outside of the measured time; shall I stop?"""
        ...

    def last(self, x: Any) -> None:
        """The run has ended by itself, here."""
        ...

    def whole(self, solve: Callable[[], Array]) -> bool:
        """Time a whole solve from scratch, whose answer may lie slightly outside of the set; shall I stop?"""
        ...


Run = Callable[[Watch], None]


@dataclass(frozen=True)
class Solver:
    """A name for the table, the package it comes from, and how to prepare it."""

    name: str
    package: str
    prepare: Callable[[Problem], Run]


FOREVER = 10**9


def ours(method: str, problem: Problem) -> Run:
    def run(watch: Watch) -> None:
        result = fw.minimize(
            problem.f, problem.C, method=method, tol=0, max_iter=FOREVER, callback=lambda state: watch(state.point.x)
        )
        watch.last(result.x)

    try:
        fw.minimize(problem.f, problem.C, method=method, tol=0, max_iter=0)
    except (NotImplementedError, ValueError) as refusal:
        raise Skipped(str(refusal)) from refusal
    return run


def ours_whole(problem: Problem) -> Run:
    """The calls that users make: up to a gap verified on the full problem."""

    def solve(level: float, seconds: float) -> Any:
        return fw.minimize(problem.f, problem.C, tol=0, rtol=level, max_iter=FOREVER, max_time=seconds).x

    def run(watch: Watch) -> None:
        for level in (1e-2, 1e-4, 1e-6):
            # A hair more than asked: the watch judges by its own gap, which may differ in the last digit.
            if watch.whole(partial(solve, 0.999 * level, watch.limit)):
                return

    return run


def copt_frank_wolfe(step: str, pairwise: bool, problem: Problem) -> Run:
    import copt

    options: dict[str, Any] = {"step": step, "lipschitz": None if step == "backtracking" else lipschitz(problem)}
    x0 = problem.x0
    if isinstance(problem, Linear) and problem.on_ball:
        ball = copt.constraint.L1Ball(problem.radius)
        lmo = ball.lmo_pairwise if pairwise else ball.lmo
        if pairwise:  # its active set must start at a vertex
            options |= {"variant": "pairwise", "x0_rep": (1.0, 0)}
            x0 = np.eye(1, len(x0))[0] * problem.radius
    elif pairwise:
        raise Skipped("copt has a pairwise oracle for the L1 ball only")
    elif isinstance(problem, Completion):
        lmo = copt.constraint.TraceBall(problem.radius, problem.shape).lmo
    else:  # copt's simplex has the interface of an earlier minimize_frank_wolfe, and there is no Birkhoff polytope

        def lmo(u: Array, x: Array, _: Any) -> tuple[Array, None, None, float]:
            return problem.lmo(-u) - x, None, None, 1.0

    def run(watch: Watch) -> None:
        def callback(at: dict[str, Any]) -> bool:
            return not watch(lambda: at["x"] + at["step_size"] * at["update_direction"])

        copt.minimize_frank_wolfe(
            problem.value_and_gradient, x0, lmo, jac=True, max_iter=FOREVER, tol=0, callback=callback, **options
        )

    return run


def lipschitz(problem: Problem) -> float:
    """The constant of the gradient."""
    if not isinstance(problem, Linear):
        return 1.0
    norm2 = sp.linalg.svds(problem.A, k=1, return_singular_vectors=False, random_state=0)[0] ** 2
    return float(norm2 / len(problem.b) * (0.25 if problem.loss == "logistic" else 1.0))


def copt_accelerated(problem: Problem) -> Run:
    import copt

    if isinstance(problem, Linear):
        kind = copt.constraint.L1Ball if problem.on_ball else copt.constraint.SimplexConstraint
        prox = kind(problem.radius).prox
    elif isinstance(problem, Completion):
        prox = copt.constraint.TraceBall(problem.radius, problem.shape).prox
    else:
        raise Skipped("copt has no projection on this set")

    def run(watch: Watch) -> None:
        copt.minimize_proximal_gradient(
            problem.value_and_gradient,
            problem.x0,
            prox,
            jac=True,
            tol=0,
            max_iter=FOREVER,
            accelerated=True,
            callback=lambda at: not watch(at["x"]),
        )

    return run


def jaxopt_projected(problem: Problem) -> Run:
    if not isinstance(problem, Linear):
        raise Skipped("jaxopt has no exact projection on this set")
    import jax

    jax.config.update("jax_enable_x64", True)
    import jax.numpy as jnp
    from jax.experimental import sparse
    from jaxopt import ProjectedGradient, projection

    A = sparse.BCOO.from_scipy_sparse(problem.A) if sp.issparse(problem.A) else jnp.asarray(problem.A)
    b = jnp.asarray(problem.b)

    def fun(x: Any, A: Any, b: Any) -> Any:
        z = A @ x
        return jnp.mean((z - b) ** 2) / 2 if problem.loss == "squared" else jnp.mean(jnp.logaddexp(0.0, -b * z))

    project = projection.projection_l1_ball if problem.on_ball else projection.projection_simplex
    solver = ProjectedGradient(fun, project, tol=0.0, maxiter=FOREVER, implicit_diff=False)
    start = jnp.asarray(problem.x0)
    update = jax.jit(lambda x, state, A, b: solver.update(x, state, problem.radius, A=A, b=b))

    def run(watch: Watch) -> None:
        x, state = start, solver.init_state(start, problem.radius, A=A, b=b)
        while not watch(np.asarray(x.block_until_ready())):
            x, state = update(x, state, A, b)

    update(start, solver.init_state(start, problem.radius, A=A, b=b), A, b)[0].block_until_ready()
    return run


@lru_cache
def penalty(problem: Linear) -> float:
    r"""The lambda whose solution has the L1 norm of ours: the multiplier :math:`\|\nabla f(x^*)\|_\infty`.

    Where the ball (almost) does not bind there is none, and the peers get the largest that cannot cost them
    more than half of the accuracy asked for: the value rises by at most lambda times the norm of x*.
    """
    x = reference(problem)
    value, g = problem.value_and_gradient(x)
    harmless = 0.5e-4 * (problem.value_and_gradient(problem.x0)[0] - value) / float(np.abs(x).sum())
    return max(float(np.abs(g).max()), harmless)


def reference(problem: Linear) -> Array:
    """A solution to a relative gap of 1e-9, or the best that some seconds give; not timed."""
    first, best = problem.measure(problem.x0)[1], (np.inf, problem.x0)
    for method in ("apg", "corrective", "blended-pairwise"):
        try:
            x = fw.minimize(problem.f, problem.C, method=method, tol=0, rtol=1e-9, max_iter=FOREVER, max_time=10).x
        except NotImplementedError:
            continue
        best = min(best, (problem.measure(x)[1] / first, x), key=lambda pair: pair[0])
        if best[0] <= 1e-8:
            break
    return best[1]


def penalised(build: Callable[[Linear], tuple[Callable[[float], Array], Iterable[float]]], problem: Problem) -> Run:
    """A peer that is given lambda: ``build`` returns its solve by effort, and efforts that rise."""
    if not (isinstance(problem, Linear) and problem.on_ball):
        raise Skipped("its penalty is the L1 norm")
    solve, efforts = build(problem)

    def run(watch: Watch) -> None:
        for effort in efforts:
            if watch.whole(partial(solve, effort)):
                return

    return run


TOLERANCES = tuple(10.0**-k for k in range(1, 11))
EPOCHS = tuple(2.0**k for k in range(30))


def only(loss: str, problem: Linear) -> None:
    if problem.loss != loss:
        raise Skipped(f"for the {loss} loss only")


def by_column(problem: Linear) -> Any:
    return problem.A if sp.issparse(problem.A) else np.asfortranarray(problem.A)


def sklearn_logistic(solver: str, problem: Linear) -> tuple[Callable[[float], Array], Iterable[float]]:
    from sklearn.linear_model import LogisticRegression

    only("logistic", problem)
    C = 1 / (penalty(problem) * len(problem.b))

    def solve(effort: float) -> Array:
        limits = {"tol": effort, "max_iter": 1000} if solver == "liblinear" else {"tol": 0.0, "max_iter": int(effort)}
        model = LogisticRegression(l1_ratio=1.0, solver=solver, C=C, fit_intercept=False, random_state=0, **limits)
        return model.fit(problem.rows, problem.b).coef_.ravel()

    return solve, TOLERANCES if solver == "liblinear" else EPOCHS


def sklearn_lasso(problem: Linear) -> tuple[Callable[[float], Array], Iterable[float]]:
    from sklearn.linear_model import Lasso

    only("squared", problem)
    A, alpha = by_column(problem), penalty(problem)

    def solve(tol: float) -> Array:
        return Lasso(alpha=alpha, fit_intercept=False, tol=tol, max_iter=10_000).fit(A, problem.b).coef_.ravel()

    return solve, TOLERANCES


def celer(problem: Linear) -> tuple[Callable[[float], Array], Iterable[float]]:
    from celer import Lasso, LogisticRegression

    A, alpha = by_column(problem), penalty(problem)

    def solve(tol: float) -> Array:
        if problem.loss == "squared":
            model = Lasso(alpha=alpha, fit_intercept=False, tol=tol)
        else:
            model = LogisticRegression(C=1 / (alpha * len(problem.b)), fit_intercept=False, tol=tol)
        return model.fit(A, problem.b).coef_.ravel()

    return solve, TOLERANCES


def skglm(problem: Linear) -> tuple[Callable[[float], Array], Iterable[float]]:
    from skglm import Lasso, SparseLogisticRegression

    A, alpha = by_column(problem), penalty(problem)
    kind = Lasso if problem.loss == "squared" else SparseLogisticRegression

    def solve(tol: float) -> Array:
        return kind(alpha=alpha, fit_intercept=False, tol=tol).fit(A, problem.b).coef_.ravel()

    solve(1e-3)  # compiles
    return solve, TOLERANCES


def clarabel(problem: Problem) -> Run:
    import cvxpy as cp

    if isinstance(problem, Completion) or (isinstance(problem, Linear) and np.prod(problem.A.shape) > 2e6):
        raise Skipped("too large for an interior-point method")
    x, minimise = (conic_linear if isinstance(problem, Linear) else conic_assignment)(problem, cp)
    minimise.get_problem_data(cp.CLARABEL)

    def run(watch: Watch) -> None:
        def solve() -> Array:
            minimise.solve(solver=cp.CLARABEL, warm_start=False, time_limit=watch.limit)
            if x.value is None:
                raise RuntimeError(f"Clarabel says {minimise.status}")
            return x.value.ravel(order="C")

        watch.whole(solve)

    return run


def conic_linear(problem: Linear, cp: Any) -> tuple[Any, Any]:
    x = cp.Variable(problem.A.shape[1])
    z, m = problem.A @ x, len(problem.b)
    loss = (
        cp.sum_squares(z - problem.b) / (2 * m)
        if problem.loss == "squared"
        else cp.sum(cp.logistic(cp.multiply(-problem.b, z))) / m
    )
    inside = [cp.norm1(x) <= problem.radius] if problem.on_ball else [x >= 0, cp.sum(x) == problem.radius]
    return x, cp.Problem(cp.Minimize(loss), inside)


def conic_assignment(problem: Assignment, cp: Any) -> tuple[Any, Any]:
    X = cp.Variable(problem.Y.shape)
    inside = [X >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]
    return X, cp.Problem(cp.Minimize(cp.sum_squares(X - problem.Y) / 2), inside)


#: The quick ones first: what they need says how long the others are worth waiting for.
SOLVERS = [
    *(
        Solver(f"fwflow {method}", "fwflow", partial(ours, method))
        for method in ("working-set", "apg", "corrective", "flow", "auto", "blended-pairwise", "pairwise", "fw", "rk44")
    ),
    Solver("fwflow auto, whole call", "fwflow", ours_whole),
    Solver("copt APG", "copt", copt_accelerated),
    Solver("jaxopt PG", "jaxopt", jaxopt_projected),
    Solver("copt FW open loop", "copt", partial(copt_frank_wolfe, "sublinear", False)),
    Solver("copt FW backtracking", "copt", partial(copt_frank_wolfe, "backtracking", False)),
    Solver("copt FW DR", "copt", partial(copt_frank_wolfe, "DR", False)),
    Solver("copt pairwise", "copt", partial(copt_frank_wolfe, "backtracking", True)),
    Solver("liblinear (λ)", "scikit-learn", partial(penalised, partial(sklearn_logistic, "liblinear"))),
    Solver("saga (λ)", "scikit-learn", partial(penalised, partial(sklearn_logistic, "saga"))),
    Solver("sklearn Lasso (λ)", "scikit-learn", partial(penalised, sklearn_lasso)),
    Solver("celer (λ)", "celer", partial(penalised, celer)),
    Solver("skglm (λ)", "skglm", partial(penalised, skglm)),
    Solver("CVXPY, Clarabel", "clarabel", clarabel),
]
