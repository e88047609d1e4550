"""A step keeps the time of its run: on a clock that calls advance, few calls come after the deadline."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

import fwflow as fw
from fwflow.designs import Counts
from fwflow.methods import methods
from fwflow.methods.problem import Problem
from fwflow.methods.restricted import simplices
from fwflow.methods.restricted.face import Face

N, M = 12, 30
A = np.random.default_rng(0).standard_normal((M, N))
B = np.random.default_rng(1).standard_normal(M)
HULL = np.random.default_rng(2).standard_normal((40, N))

SETS = {
    "simplex": lambda: fw.Simplex(),
    "box": lambda: fw.Box(-0.2, 0.3),
    "hull": lambda: fw.ConvexHull(HULL),
    "sum": lambda: fw.MinkowskiSum(fw.Simplex(), fw.L1Ball(0.5)),
    "product": lambda: fw.Product([(fw.Simplex(), 4), (fw.L1Ball(), 4), (fw.LInfBall(0.1), 4)]),
}

# A step that has begun may finish a call, its loop evaluates the last point, and the result is verified.
MOST_LATE = 10


class Clock:
    """A time that passes with every call, and the calls that came too late."""

    def __init__(self, limit: float) -> None:
        self.now, self.limit, self.late = 0.0, limit, 0

    def __call__(self) -> float:
        return self.now

    def tick(self, f):
        def called(*args, **kwargs):
            self.now += 1
            self.late += self.now > self.limit
            return f(*args, **kwargs)

        return called


def objective(kind: str, clock: Clock) -> fw.Objective:
    if kind == "squared":
        return fw.LinearModel(A, B)
    if kind == "logistic":
        return fw.LinearModel(A, np.sign(B), "logistic")
    return fw.Smooth(
        lambda x: float(np.log(np.cosh(A @ x - B)).sum()),
        clock.tick(lambda x: A.T @ np.tanh(A @ x - B)),
        shape=(N,),
        hess_product=(lambda x, v: A.T @ ((A @ v) / np.cosh(A @ x - B) ** 2)) if kind == "hess" else None,
    )


def run(monkeypatch, kind: str, name: str, limit: int, **options) -> tuple[fw.Result, Clock]:
    """A run on a clock that oracle calls, gradients of black boxes, and changes of factorisations advance."""
    clock = Clock(limit)
    monkeypatch.setattr(time, "perf_counter", clock)
    for member in ("joined", "without", "refactored"):
        monkeypatch.setattr(Face, member, clock.tick(getattr(Face, member)))
    monkeypatch.setattr(simplices, "_factor", clock.tick(simplices._factor))
    C = SETS[name]()
    C.lmo = clock.tick(C.lmo)
    for constraint, _ in getattr(C, "blocks", ()):
        constraint.lmo = clock.tick(constraint.lmo)
    result = fw.minimize(objective(kind, clock), C, tol=0, max_iter=60, max_time=limit + 0.5, **options)
    return result, clock


@pytest.mark.parametrize("method", [*methods, "rk44"])
@pytest.mark.parametrize("kind", ["squared", "logistic", "smooth", "hess"])
def test_few_calls_come_after_the_deadline(monkeypatch, method, kind):
    for name in SETS:
        for limit in (1, 3, 8, 21, 55):
            with monkeypatch.context() as patch:
                try:
                    result, clock = run(patch, kind, name, limit, method=method)
                except ValueError as error:
                    if "need" not in str(error):
                        raise
                    break
            blocks = 4 if name == "product" else 1  # the oracle of a product asks those of its blocks
            assert clock.late <= MOST_LATE * blocks, (name, limit, clock.late)
            assert np.isfinite(result.fun)
            assert result.feasible is not False


def test_loops_over_items_end_with_the_time_of_the_run():
    over = Problem(fw.Quadratic(np.eye(2)), fw.Simplex(), Counts(), deadline=-np.inf)
    assert list(over.in_time(range(3))) == []
    assert list(replace(over, deadline=np.inf).in_time(range(3))) == [0, 1, 2]


def test_a_search_along_a_direction_ends_at_its_minimum_within_the_domain() -> None:
    f = fw.Smooth(lambda x: float(((x - 2.0) ** 2).sum() / 2), lambda x: x - 2.0, domain=lambda x: x.max() < 0.9)
    problem = Problem(f, fw.Simplex(), Counts())
    x = f.point(np.zeros(3))
    known = problem.evaluate(x)
    terms = [(1.0, fw.DenseVertex(np.array([1.0, 0.0, 0.0])))]
    atoms = [(w, f.lift(vertex)) for w, vertex in terms]
    point, length, limit, _ = problem.search_along(
        fw.ExactSearch(), x, problem.value(x), known.gradient, atoms, 1.0, None
    )
    assert (length, limit) == (0.5, 0.5)  # the minimum is at 2, and half of the way is the first step in the domain
    np.testing.assert_array_equal(point.x, [0.5, 0.0, 0.0])
    free = Problem(fw.Quadratic(np.eye(3), [0.25, 0.0, 0.0]), fw.Simplex(), Counts())
    x = free.objective.point(np.zeros(3))
    known = free.evaluate(x)
    atoms = [(1.0, free.objective.lift(vertex)) for _, vertex in terms]
    point, length, limit, _ = free.search_along(fw.ExactSearch(), x, free.value(x), known.gradient, atoms, 1.0, None)
    assert (length, limit) == (0.25, 1.0)
    np.testing.assert_array_equal(point.x, [0.25, 0.0, 0.0])
