"""Do gradients from a few rows lead to the optimum, the same way every time, and at the price of their rows?"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.designs import Counts, DenseDesign
from fwflow.methods.base import Iterate
from fwflow.methods.problem import Problem
from fwflow.methods.stochastic import AveragedBatches, Saga, Spider
from tests.catalogue import design, labels, targets

M, N = 400, 8
A, B = design(M, N), 0.3 * targets(M) + design(M, N)[:, :3].sum(axis=1)
C = fw.L1Ball(2.0)
ESTIMATORS = ("momentum", "spider", "saga")
MODELS = {
    "dense": fw.LinearModel(A, B),
    "sum": fw.LinearModel(A, B, scale="sum", loss="huber"),
    "sparse": fw.LinearModel(sp.csr_array(A), labels(M), loss="logistic"),
    "weights": fw.LinearModel(A, B, weights=np.arange(1.0, M + 1)),
    "single": fw.LinearModel(A.astype(np.float32), B.astype(np.float32)),
    "targets": fw.LinearModel(A, np.stack([B, -B], axis=1), weights=np.arange(1.0, M + 1)),
    "classes": fw.LinearModel(sp.csr_array(A), np.digitize(B, [-1, 1]), "softmax"),
}


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_batches_average_to_the_gradient(name):
    f = MODELS[name]
    x = f.point(np.linspace(-1, 1, np.prod(f.shape)).reshape(f.shape))
    batches = [f.finite_sum.batch(rows) for rows in np.random.default_rng(0).permutation(M).reshape(8, -1)]
    parts = [batch.gradient(batch.slopes(x.x)) for batch in batches]
    assert {part.dtype for part in parts} == {f.dtype}
    whole = np.asarray(f.gradient(x))
    np.testing.assert_allclose(np.mean(parts, axis=0), whole, rtol=2e-5 if name == "single" else 1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("estimator", ["spider", "saga"])
def test_runs_reach_the_optimum_and_verify_it(name, estimator):
    f = MODELS[name]
    tol = 3e-2 * (1 if name != "sum" else M)
    r = fw.minimize(f, C, method=fw.Stochastic(20, estimator), tol=tol)
    assert r.success
    assert r.feasible
    point = f.point(r.x)
    g = np.asarray(f.gradient(point), dtype=np.float64)
    assert r.gap == pytest.approx(np.vdot(g, r.x) - C.lmo(g).dot(g), rel=1e-3)
    assert r.x.dtype == f.dtype


def test_momentum_gets_close():
    r = fw.minimize(MODELS["dense"], C, method=fw.Stochastic(20, "momentum"), tol=0.1)
    assert r.success


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("tableau", ["euler", "rk44"])
def test_the_seed_decides_and_runs_continue_bit_for_bit(estimator, tableau, tmp_path):
    def method(seed):
        return fw.Stochastic(50, estimator, seed, fw.tableaus[tableau])

    f, options = MODELS["dense"], {"tol": 0, "max_iter": 6}
    whole, again, other = (fw.minimize(f, C, method=method(seed), **options) for seed in (1, 1, 2))
    assert whole.x.tobytes() == again.x.tobytes() != other.x.tobytes()
    half = fw.minimize(f, C, method=method(1), tol=0, max_iter=2)
    half.state.save(tmp_path / "state")
    rest = fw.minimize(f, C, method=method(1), tol=0, max_iter=4, state=fw.State.load(tmp_path / "state"))
    assert rest.x.tobytes() == whole.x.tobytes()
    with pytest.raises(ValueError, match="state belongs to"):
        fw.minimize(f, C, method=method(2), state=half.state)


def test_tableaus_of_one_name_are_told_apart():
    heun = fw.Tableau([[0, 0], [1, 0]], [0.5, 0.5], name="mine")
    other = fw.Tableau([[0, 0], [1, 0]], [0.25, 0.75], name="mine")
    state = fw.minimize(MODELS["dense"], C, method=fw.Stochastic(50, tableau=heun), tol=0, max_iter=1).state
    with pytest.raises(ValueError, match="state belongs to"):
        fw.minimize(MODELS["dense"], C, method=fw.Stochastic(50, tableau=other), state=state)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_passes_are_counted_by_rows(estimator, monkeypatch):
    taken, products = [], []
    rows, matvec, rmatvec = DenseDesign.some_rows, DenseDesign.matvec, DenseDesign.rmatvec
    monkeypatch.setattr(DenseDesign, "some_rows", lambda self, r: taken.append(len(r)) or rows(self, r))
    monkeypatch.setattr(DenseDesign, "matvec", lambda self, x: products.append(1) or matvec(self, x))
    monkeypatch.setattr(DenseDesign, "rmatvec", lambda self, r: products.append(1) or rmatvec(self, r))
    r = fw.minimize(MODELS["dense"], C, method=fw.Stochastic(50, estimator), tol=0, max_iter=3)
    assert len([count for count in taken if count]) == 3 * 8  # calls without rows ask whether rows are offered
    assert r.n_design == pytest.approx(len(products) + 2 * sum(taken) / M)


def iterate(f, x):
    problem, point = Problem(f, C, Counts()), f.point(x)
    return problem, Iterate(0, point, f.value(point), problem.evaluate(point))


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_estimators_are_exact_where_they_must_be(seed):
    rng, f = np.random.default_rng(seed), MODELS["dense"]
    x, y = rng.standard_normal((2, N)) / 4
    problem, start = iterate(f, x)
    gradient = np.asarray(f.gradient(f.point(y)))
    every = np.arange(M)
    spider = Spider(problem, start, None)
    np.testing.assert_allclose(spider.at(f.finite_sum.batch(every), every, y, 1), gradient, rtol=1e-9, atol=1e-12)
    saga = Saga(problem, start, None)
    for rows in rng.permutation(M).reshape(4, -1):
        saga.at(f.finite_sum.batch(rows), rows, y, 0)
    np.testing.assert_allclose(saga.mean, gradient, rtol=1e-9, atol=1e-12)
    rows = rng.permutation(M)[:10]
    np.testing.assert_allclose(saga.at(f.finite_sum.batch(rows), rows, y, 1), gradient, rtol=1e-9, atol=1e-12)
    averaged = AveragedBatches(problem, start, None)
    np.testing.assert_allclose(averaged.at(f.finite_sum.batch(every), every, y, 0), gradient, rtol=1e-9, atol=1e-12)


def test_estimates_of_saga_have_the_mean_of_the_gradient():
    f = MODELS["dense"]
    problem, start = iterate(f, np.linspace(-0.2, 0.2, N))
    y = np.linspace(0.3, -0.1, N)
    estimates = []
    for i in range(M):
        rows = np.array([i])
        saga = Saga(problem, start, (np.linspace(-1, 1, M), A.T @ np.linspace(-1, 1, M) / M))
        estimates.append(saga.at(f.finite_sum.batch(rows), rows, y, 0))
    np.testing.assert_allclose(np.mean(estimates, axis=0), np.asarray(f.gradient(f.point(y))), atol=1e-12)


@pytest.mark.parametrize(
    "f",
    [
        fw.LinearModel(A, B, intercept=True),
        fw.Quadratic(np.eye(N)),
        fw.Smooth(lambda x: float(x @ x), lambda x: 2 * x, shape=N),
    ],
)
def test_functions_that_are_no_mean_over_rows_are_refused(f):
    with pytest.raises(ValueError, match="needs a mean over rows"):
        fw.minimize(f, C, method="stochastic")


class Doubled(DenseDesign):
    """Twice the matrix, by products of its own: the rows are another's."""

    def matvec(self, x):
        return 2 * super().matvec(x)

    def rmatvec(self, r):
        return 2 * super().rmatvec(r)

    def column(self, j):
        return fw.DenseVertex(2 * self.A[:, j])


def test_rows_that_disagree_with_columns_are_found_out():
    with pytest.raises(ValueError, match="`some_rows` of Doubled disagrees with its `column`"):
        fw.minimize(fw.LinearModel(Doubled(A), B), C, method="stochastic", max_iter=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, "batch"),
        ({"tableau": "rk44"}, r'tableau must be a Tableau, such as fw.tableaus\["rk44"\]'),
        ({"seed": -1}, "seed"),
        ({"estimator": "sagaa"}, "estimator='sagaa' is not known; did you mean 'saga'"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        fw.Stochastic(**arguments)
