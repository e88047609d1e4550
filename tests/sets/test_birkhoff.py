"""The Birkhoff and transport polytopes beyond their oracles: the projection, and random places to start."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw


def masses(m: int, n: int, kind: str, seed: int = 0) -> fw.TransportPolytope:
    rng = np.random.default_rng(seed)
    if kind == "wide":
        a, b = 10 ** rng.uniform(-12, 0, m), 10 ** rng.uniform(-12, 0, n)
    elif kind == "whole":  # The same masses again and again, so that plans have few entries and parts that move apart.
        a, b = rng.integers(1, 4, m).astype(float), rng.integers(1, 4, n).astype(float)
    else:
        a, b = rng.dirichlet(np.ones(m)), rng.dirichlet(np.ones(n))
        a[1::3], b[1::2] = (0.0, 0.0) if kind == "zeros" else (a[1::3], b[1::2])
    return fw.TransportPolytope(a / a.sum(), b / b.sum())


@given(
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(-8, 8),
    st.sampled_from(["normal", "integers", "rank one", "rows"]),
    st.sampled_from(["birkhoff", "dirichlet", "zeros", "wide", "whole"]),
    st.integers(0, 99),
)
@settings(deadline=None)  # The first oracle call imports POT.
def test_no_vertex_lies_beyond_the_projection(m: int, n: int, power: int, kind: str, mass: str, seed: int) -> None:
    C = fw.Birkhoff(n) if mass == "birkhoff" else masses(m, n, mass, seed)
    rng, (m, n) = np.random.default_rng(seed), C.shape
    Y = (
        10.0**power
        * {
            "normal": lambda: rng.standard_normal((m, n)),
            "integers": lambda: rng.integers(-2, 3, (m, n)).astype(float),
            "rank one": lambda: np.outer(rng.standard_normal(m), rng.standard_normal(n)),
            "rows": lambda: np.repeat(rng.standard_normal((m, 1)), n, axis=1),
        }[kind]()
    )
    X = C.project(Y)
    assert (X >= 0).all()
    for axis, sides in ((1, C.a), (0, C.b)):
        assert (np.abs(X.sum(axis=axis) - sides) <= 4e-15 * max(m, n, 4) * sides).all()
    assert float(np.vdot(Y - X, np.asarray(C.lmo(X - Y)) - X)) <= 1e-13 * m * n * C.a.max() * (C.a.max() + abs(Y).max())


@pytest.mark.parametrize(
    "C",
    [
        fw.Birkhoff(1),
        fw.Birkhoff(9),
        fw.TransportPolytope(np.ones(6), np.full(4, 1.5)),
        *(masses(m, n, kind) for m, n in ((7, 4), (3, 8)) for kind in ("dirichlet", "zeros", "whole")),
    ],
    ids=repr,
)
@pytest.mark.parametrize("size", [0.1, 10.0])
def test_it_is_that_of_an_independent_solver(C: fw.Birkhoff | fw.TransportPolytope, size: float) -> None:
    Y = size * np.random.default_rng(C.shape).standard_normal(C.shape)
    X = cp.Variable(C.shape, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(X - Y)), [cp.sum(X, axis=1) == C.a, cp.sum(X, axis=0) == C.b])
    problem.solve("CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12)
    assert C.project(Y) == pytest.approx(X.value, abs=1e-6)


def test_a_quadratically_regularised_plan_is_one_projection() -> None:
    rng, C = np.random.default_rng(1), masses(30, 40, "dirichlet")
    cost = rng.random(30 * 40)
    r = fw.minimize(fw.Quadratic(0.1 * sp.eye_array(1200), -cost), C, tol=1e-10)
    assert r.success
    assert r.n_lmo < 20
    np.testing.assert_allclose(r.x, C.project(-cost / 0.1).reshape(r.x.shape), rtol=0, atol=1e-9)


@pytest.mark.parametrize("shape", [(6, 6), (36,)])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_members_stay_where_they_are_in_shape_and_type(shape: tuple[int, ...], dtype: str) -> None:
    C = fw.Birkhoff(6)
    x = C.random_start(1, shape).astype(dtype)
    projected = C.project(x)
    assert projected.dtype == x.dtype
    assert projected == pytest.approx(x, abs=1e-6 if dtype == "f4" else 1e-14)


def test_an_optimum_near_the_centre_needs_no_permutations() -> None:
    rng = np.random.default_rng(0)
    f = fw.LinearModel(rng.standard_normal((1200, 900)), rng.standard_normal(1200), loss="squared")
    r = fw.minimize(f, fw.Birkhoff(30), tol=0, rtol=1e-6)
    assert r.success
    assert r.n_lmo < 500


@pytest.mark.parametrize("C", [fw.Birkhoff(5), 2.0 * fw.Birkhoff(5), fw.L1Ball(2.0), fw.ConvexHull(np.eye(4))])
def test_random_starts_are_members_and_repeat(C: fw.ConstraintSet) -> None:
    shape = C.shape or (4,)
    x = C.random_start(3, shape)
    assert C.contains(x)
    assert (x == C.random_start(3, shape)).all()
    assert not np.allclose(x, C.random_start(4, shape))
