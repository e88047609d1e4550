"""The Birkhoff polytope beyond its oracle: the projection, and random places to start."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fwflow as fw


def optimality(Y: np.ndarray, X: np.ndarray) -> float:
    """By how much a vertex beats X in the direction of Y - X: none does where X is the projection."""
    C = fw.Birkhoff(len(Y))
    return float(np.vdot(Y - X, np.asarray(C.lmo(X - Y)) - X))


@given(
    st.integers(1, 12),
    st.integers(-8, 8),
    st.sampled_from(["normal", "integers", "rank one", "rows"]),
    st.integers(0, 99),
)
def test_no_vertex_lies_beyond_the_projection(n: int, power: int, kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    Y = (
        10.0**power
        * {
            "normal": lambda: rng.standard_normal((n, n)),
            "integers": lambda: rng.integers(-2, 3, (n, n)).astype(float),
            "rank one": lambda: np.outer(rng.standard_normal(n), rng.standard_normal(n)),
            "rows": lambda: np.repeat(rng.standard_normal((n, 1)), n, axis=1),
        }[kind]()
    )
    X = fw.Birkhoff(n).project(Y)
    assert (X >= 0).all()
    assert np.abs(X.sum(axis=0) - 1).max() <= 4e-15 * n
    assert np.abs(X.sum(axis=1) - 1).max() <= 4e-15 * n
    assert optimality(Y, X) <= 1e-13 * n * n * (1 + np.abs(Y).max())


@pytest.mark.parametrize("n", [1, 4, 9])
def test_it_is_that_of_an_independent_solver(n: int) -> None:
    Y = np.random.default_rng(n).standard_normal((n, n))
    X = cp.Variable((n, n), nonneg=True)
    cp.Problem(cp.Minimize(cp.sum_squares(X - Y)), [cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]).solve("CLARABEL")
    assert fw.Birkhoff(n).project(Y) == pytest.approx(X.value, abs=1e-6)


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
