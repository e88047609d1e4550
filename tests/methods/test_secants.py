"""Corrective steps that know of f its values and gradients only."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fwflow as fw
from fwflow.methods import active as active_module
from fwflow.objectives.quadratic_models import Secants


def entropy_like(n: int, seed: int) -> tuple[fw.Smooth, np.ndarray, np.ndarray]:
    """A log-sum-exp with a parabola, as a black box, and its data."""
    rng = np.random.default_rng(seed)
    A, c = rng.standard_normal((2 * n, n)), rng.standard_normal(n)

    def fun(x: np.ndarray) -> float:
        z = A @ x
        return float(z.max() + np.log(np.exp(z - z.max()).sum()) + 0.5 * x @ x + c @ x)

    def grad(x: np.ndarray) -> np.ndarray:
        p = np.exp(A @ x - (A @ x).max())
        return A.T @ (p / p.sum()) + x + c

    return fw.Smooth(fun, grad, shape=n), A, c


@pytest.mark.parametrize("n", [3, 20, 60])
@pytest.mark.parametrize("kind", ["hull", "polytope", "simplex"])
def test_the_optimum_is_that_of_an_independent_solver(n: int, kind: str) -> None:
    f, A, c = entropy_like(n, n)
    rng = np.random.default_rng(n)
    V, M = rng.standard_normal((3 * n, n)), rng.standard_normal((n, n))
    x, w = cp.Variable(n), cp.Variable(3 * n, nonneg=True)
    C, inside = {
        "hull": (fw.ConvexHull(V), [x == V.T @ w, cp.sum(w) == 1]),
        "polytope": (fw.Polytope(M, np.ones(n), lower=-1.0, upper=1.0, n=n), [M @ x <= 1, cp.abs(x) <= 1]),
        "simplex": (fw.Simplex(2.0), [x >= 0, cp.sum(x) == 2]),
    }[kind]
    problem = cp.Problem(cp.Minimize(cp.log_sum_exp(A @ x) + 0.5 * cp.sum_squares(x) + c @ x), inside)
    problem.solve(solver="CLARABEL")
    r = fw.minimize(f, C, method="corrective", tol=1e-9)
    assert r.success
    assert r.fun == pytest.approx(problem.value, abs=1e-7)
    assert r.n_grad <= 20 * n


def test_it_takes_far_fewer_calls_than_steps_that_keep_their_vertices() -> None:
    f, _, _ = entropy_like(40, 0)
    C = fw.ConvexHull(np.random.default_rng(0).standard_normal((120, 40)))
    calls = {m: fw.minimize(f, C, method=m, tol=1e-6) for m in ("corrective", "blended-pairwise")}
    assert all(r.success for r in calls.values())
    assert 2 * calls["corrective"].n_lmo < calls["blended-pairwise"].n_lmo
    assert 2 * calls["corrective"].n_grad < calls["blended-pairwise"].n_grad


def test_functions_that_are_not_convex_descend_to_a_stationary_point() -> None:
    rng = np.random.default_rng(3)
    H = rng.standard_normal((30, 30))
    f = fw.Smooth(lambda x: 0.5 * x @ (H + H.T) @ x, lambda x: (H + H.T) @ x, shape=30)
    r = fw.minimize(f, fw.ConvexHull(rng.standard_normal((60, 30))), method="corrective", tol=1e-8)
    assert r.success
    assert (np.diff(r.trace["fun"]) <= 1e-9).all()


def test_a_domain_is_never_left() -> None:
    asked = []

    def fun(x: np.ndarray) -> float:
        asked.append(x.min())
        return float(-np.log(x).sum() + 3 * x[0])

    f = fw.Smooth(fun, lambda x: -1 / x + 3 * np.eye(8)[0], domain=lambda x: bool(x.min() > 0), shape=8)
    C = fw.ConvexHull(np.eye(8))
    r = fw.minimize(f, C, np.full(8, 1 / 8), method="corrective", tol=1e-8)
    assert r.success
    assert min(asked) > 0
    slopes = -1 / r.x + 3 * np.eye(8)[0]
    assert np.ptp(slopes) < 1e-3  # all are alike at an interior optimum


def test_infinite_values_shorten_a_step() -> None:
    f = fw.Smooth(
        lambda x: -float(np.log(x).sum()) if x.min() > 0 else np.inf, lambda x: -1 / np.maximum(x, 1e-300), shape=4
    )
    r = fw.minimize(f, fw.ConvexHull(np.eye(4)), np.array([0.7, 0.1, 0.1, 0.1]), method="corrective", tol=1e-9)
    assert r.success
    assert r.x == pytest.approx(np.full(4, 0.25), abs=1e-5)


def test_a_run_that_is_interrupted_and_saved_goes_on_as_if_it_had_not_been(tmp_path) -> None:
    f, _, _ = entropy_like(20, 1)
    C = fw.ConvexHull(np.random.default_rng(1).standard_normal((60, 20)))
    whole = fw.minimize(f, C, method="corrective", tol=0, max_iter=12)
    fw.minimize(f, C, method="corrective", tol=0, max_iter=5).state.save(tmp_path / "s.npz")
    rest = fw.minimize(f, C, method="corrective", tol=0, max_iter=7, state=fw.State.load(tmp_path / "s.npz"))
    assert (rest.x == whole.x).all()
    assert rest.n_grad == whole.n_grad


def test_float32_is_kept() -> None:
    H = np.diag(np.arange(1.0, 7.0)).astype("f4")
    f = fw.Smooth(lambda x: 0.5 * x @ H @ x - x.sum(), lambda x: H @ x - 1)
    x0 = np.eye(6, dtype="f4")[0]
    r = fw.minimize(f, fw.ConvexHull(np.eye(6)), x0, method="corrective", tol=1e-4)
    assert r.success
    assert r.x.dtype == np.float32


@given(st.integers(1, 8), st.integers(1, 12), st.integers(0, 10**6))
def test_the_model_has_the_curvature_of_the_newest_pair_and_is_convex(n: int, pairs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((n, n))
    H = root @ root.T + 0.1 * np.eye(n)
    secants = Secants()
    for _ in range(pairs):
        step = rng.standard_normal(n)
        secants = secants.seen(step, H @ step)
    B = secants.gram(np.eye(n))
    assert B @ step == pytest.approx(H @ step, rel=1e-5, abs=1e-6 * np.abs(H).max() * np.abs(step).max())
    assert np.linalg.eigvalsh((B + B.T) / 2).min() > -1e-6 * np.abs(H).max()


@given(st.integers(1, 10), st.integers(0, 10**6))
def test_a_sum_of_functions_of_single_entries_is_known_after_one_step(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    h, step = rng.uniform(0.1, 10, n), rng.uniform(0.5, 2, n)
    assert Secants().seen(step, h * step).gram(np.eye(n)) == pytest.approx(np.diag(h), rel=1e-8, abs=1e-8)


def test_pairs_without_curvature_are_forgotten() -> None:
    secants = Secants().seen(np.ones(3), np.ones(3))
    for change in (-np.ones(3), np.zeros(3), np.array([1.0, -1.0, 0.0]), np.full(3, np.nan)):
        assert secants.seen(np.ones(3), change) is secants
    for _ in range(200):
        secants = secants.seen(np.ones(3), np.ones(3))
    assert len(secants.steps) == 60


def test_left_alone_it_minds_the_gradients_of_a_function_that_may_cost_anything() -> None:
    f, _, _ = entropy_like(150, 0)
    C = fw.ConvexHull(np.random.default_rng(0).standard_normal((450, 150)))
    r = fw.minimize(f, C, tol=0, rtol=1e-6)
    assert r.success
    assert r.n_grad <= 3 * 150


def test_what_a_step_that_did_not_help_has_told_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    f, _, _ = entropy_like(5, 0)
    known = []
    descend = active_module.minimise_by_secants

    def nowhere(
        self: active_module.QuasiNewtonState, problem: object, end: object
    ) -> tuple[float, active_module.QuasiNewtonState]:
        return 0.0, self._replace(secants=self.secants.seen(np.ones(5), np.ones(5)))

    def watched(*arguments: object, **options: object) -> object:
        values, at = descend(*arguments, **options)
        known.append(at.secants.steps[-1] if at.secants else None)
        return values, at

    monkeypatch.setattr(active_module.QuasiNewtonState, "towards", nowhere)
    monkeypatch.setattr(active_module, "minimise_by_secants", watched)
    fw.minimize(f, fw.ConvexHull(np.eye(5)), method="corrective", max_iter=3)
    assert known
    assert all(np.array_equal(step, np.ones(5)) for step in known)
