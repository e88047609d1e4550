"""Are the runs of a path, which share a Hessian, as accurate as separate runs and as an independent solver?"""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.methods.restricted import projected_steps
from fwflow.objectives import linear_model
from fwflow.objectives.columns import LossOnColumns, _weighted_gram

M, N = 300, 12
RNG = np.random.default_rng(2)
X = RNG.standard_normal((M, N)) * np.r_[np.ones(N - 2), 20.0, 0.05]
X[:, 3] = 0.95 * X[:, 2] + 0.3 * X[:, 3]
LEVELS = np.eye(5)[RNG.integers(0, 5, M)]
DATA = {
    "dense": np.hstack([X, LEVELS]),
    "sparse": sp.csr_array(np.hstack([X[:, :2], LEVELS, np.eye(8)[RNG.integers(0, 8, M)]])),
}
SCORE = X[:, 0] - 0.7 * X[:, 1] + LEVELS @ [1.0, -1.0, 0.5, 0.0, 0.0]
TARGETS = {
    "squared": SCORE + RNG.standard_normal(M) + 3,
    "logistic": np.where(SCORE + RNG.logistic(size=M) > 0.3, 1.0, -1.0),
    "huber": SCORE + RNG.standard_t(2, M),
    "quantile": SCORE + RNG.standard_normal(M),
    "poisson": RNG.poisson(np.exp(np.clip(SCORE, -3, 2))).astype(float),
}
WEIGHTS = {"equal": None, "weighted": RNG.uniform(0.5, 2.0, M)}


@pytest.fixture(autouse=True)
def any_number_of_rows(monkeypatch):
    monkeypatch.setattr(linear_model, "_LEAST_ROWS", 0)


def model(loss, kind, weights="equal", intercept=True):
    options = {"rho": 0.2} if loss in ("quantile", "huber") else {}
    return fw.LinearModel(DATA[kind], TARGETS[loss], loss, weights=WEIGHTS[weights], intercept=intercept, **options)


def optimum(loss, kind, radius, positive=False):
    """The minimum by an interior-point method."""
    A = DATA[kind].toarray() if kind == "sparse" else DATA[kind]
    x, c, b = cp.Variable(A.shape[1]), cp.Variable(), TARGETS[loss]
    z = A @ x + c
    terms = {
        "squared": lambda: cp.sum_squares(z - b) / 2,
        "logistic": lambda: cp.sum(cp.logistic(-cp.multiply(b, z))),
        "huber": lambda: cp.sum(cp.huber(z - b, 0.2)) / 2,
        "poisson": lambda: (
            cp.sum(cp.exp(z) - cp.multiply(b, z)) + np.sum(np.where(b > 0, b * np.log(np.maximum(b, 1)) - b, 0))
        ),
    }
    constraints = [cp.norm1(x) <= radius, *([x >= 0] if positive else [])]
    return cp.Problem(cp.Minimize(terms[loss]() / M), constraints).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber", "poisson"])
def test_minima_are_those_of_cvxpy(loss, kind):
    radii = [0.1, 0.6, 1.5, 4.0]
    found = fw.path(model(loss, kind), fw.L1Ball, radii, tol=1e-9)
    assert all(result.success for result in found.results)
    for radius, result in zip(radii, found.results, strict=True):
        assert result.fun == pytest.approx(optimum(loss, kind, radius), abs=2e-7)


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("loss", TARGETS)
def test_paths_agree_with_separate_runs(loss, kind, intercept, weights):
    f = model(loss, kind, weights, intercept)
    found = fw.path(f, fw.L1Ball, [0.3, 1.0, 1.3, 6.0], tol=1e-9)
    for radius, result in zip(found.radii, found.results, strict=True):
        alone = fw.minimize(f, fw.L1Ball(radius), tol=1e-9)
        assert result.fun == pytest.approx(alone.fun, abs=2e-9)
        assert result.success == alone.success


def test_non_negative_coefficients_and_groups():
    f = model("logistic", "dense")
    positive = fw.path(f, fw.UnitSimplex, [0.5, 2.0], tol=1e-9).results
    for radius, result in zip([0.5, 2.0], positive, strict=True):
        assert result.x.min() >= 0
        assert result.fun == pytest.approx(optimum("logistic", "dense", radius, positive=True), abs=2e-7)
    groups = np.r_[np.arange(N), np.full(5, N)]
    for result, radius in zip(
        fw.path(f, lambda r: fw.GroupBall(groups, r), [0.5, 2.0], tol=1e-9).results, [0.5, 2.0], strict=True
    ):
        alone = fw.minimize(f, fw.GroupBall(groups, radius), tol=1e-9)
        assert result.fun == pytest.approx(alone.fun, abs=2e-9)


def test_float32_stays():
    f = fw.LinearModel(
        DATA["dense"].astype(np.float32), TARGETS["logistic"].astype(np.float32), "logistic", intercept=True
    )
    found = fw.path(f, fw.L1Ball, [0.3, 1.0], tol=1e-4)
    assert all(result.x.dtype == np.float32 and result.success for result in found.results)


def test_few_hessians_serve_many_radii(monkeypatch):
    calls, hessian = [], LossOnColumns.hessian

    def counted(self, z, free):
        calls.append(len(free))
        return hessian(self, z, free)

    monkeypatch.setattr(LossOnColumns, "hessian", counted)
    columns = DATA["dense"].shape[1]
    fw.path(model("squared", "dense"), fw.L1Ball, np.geomspace(0.1, 3.0, 20), tol=1e-8)
    assert calls == [columns]  # the Hessian of least squares is the same everywhere
    calls.clear()
    fw.path(model("logistic", "dense"), fw.L1Ball, np.geomspace(0.1, 3.0, 20), tol=1e-8)
    assert 0 < len(calls) < 10
    assert set(calls) == {columns}


def test_a_run_alone_keeps_nothing():
    f = model("logistic", "dense")
    assert f.kept is None
    twin = f.for_path()
    assert twin.kept is not None
    assert twin.for_path() is twin
    fw.minimize(f, fw.L1Ball(1.0))
    assert f.kept is None
    wide = fw.LinearModel(RNG.standard_normal((20, 10)), RNG.standard_normal(20))
    assert wide.for_path() is wide


def test_useless_models_are_given_up(monkeypatch):
    """With a wrong Hessian no model decreases the objective, and projected steps find the minimum."""
    monkeypatch.setattr(LossOnColumns, "hessian", lambda self, z, free: 1e-9 * np.eye(len(free)))
    f = model("logistic", "dense").for_path()
    result = fw.minimize(f, fw.L1Ball(1.0), tol=1e-8)
    assert not f.kept.useful
    assert result.success
    assert result.fun == pytest.approx(optimum("logistic", "dense", 1.0), abs=2e-7)


def test_an_old_hessian_is_replaced(monkeypatch):
    monkeypatch.setattr(projected_steps, "_MOST_MODELS", 100)
    f = model("logistic", "dense").for_path()
    first = fw.minimize(f, fw.L1Ball(0.1), tol=1e-10)
    assert first.success
    f.kept.matrix = 50 * f.kept.matrix  # far too large, so that steps are short
    result = fw.minimize(f, fw.L1Ball(2.0), tol=1e-9)
    assert result.success
    fresh = LossOnColumns(f, f.design).hessian(DATA["dense"] @ result.x, np.arange(len(result.x)))
    assert np.linalg.norm(f.kept.matrix - fresh) < 0.5 * np.linalg.norm(fresh)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shares", [[1.0, 0.0, 0.1, 0.5], [1.0, 1.0], [0.1, 0.05, 0.2]])
def test_products_of_dense_and_sparse_columns(shares, dtype):
    B = (RNG.standard_normal((40, len(shares))) * (RNG.random((40, len(shares))) < shares)).astype(dtype)
    w = RNG.random(40).astype(dtype)
    found = _weighted_gram(sp.csc_array(B), w)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, B.T @ (w[:, None] * B), rtol=1e-5, atol=1e-5)
