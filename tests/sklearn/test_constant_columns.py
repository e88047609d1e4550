"""Constant features, and features far from zero: their coefficients, and predictions compared with a conic solver."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from fwflow.sklearn import (
    GroupClassifier,
    GroupClassifierCV,
    GroupRegression,
    GroupRegressionCV,
    L1Classifier,
    L1ClassifierCV,
    L1Regression,
    L1RegressionCV,
    NuclearCompletion,
    SimplexRegression,
    SimplexRegressionCV,
    radius_path,
)

RNG = np.random.default_rng(0)
M = 30
Y = 2 * RNG.standard_normal(M) + 3
TWO, THREE = np.arange(M) % 3 % 2, np.arange(M) % 5 % 3
WEIGHTS = RNG.uniform(0.5, 2.0, M) * (np.arange(M) % 7 > 0)
REGRESSIONS = [L1Regression, SimplexRegression, GroupRegression]
CLASSIFIERS = [L1Classifier, GroupClassifier]
SEARCHES = {
    L1Regression: L1RegressionCV,
    SimplexRegression: SimplexRegressionCV,
    GroupRegression: GroupRegressionCV,
    L1Classifier: L1ClassifierCV,
    GroupClassifier: GroupClassifierCV,
}
CONSTANTS = [1e-300, 0.1, 100000.1, -1e15 / 3]


def models(kind):
    return [kind(), SEARCHES[kind](n_radii=4, cv=3)]


def constant(value, dtype=np.float64):
    return np.full((M, 2), value, dtype) * np.array([1.0, 0.7], dtype)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weighted"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("kind", REGRESSIONS)
def test_constant_columns_predict_the_mean(kind, value, form, weights):
    X = form(constant(value))
    for model in models(kind):
        model.fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(model.predict(X), np.average(Y, weights=weights), rtol=1e-12)
        assert kind is SimplexRegression or not model.coef_.any()
        assert model.dual_gap_ <= 1e-12


@pytest.mark.parametrize("labels", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_constant_columns_predict_the_shares_of_the_classes(kind, value, labels):
    X = constant(value)
    for model in models(kind):
        model.fit(X, labels, sample_weight=WEIGHTS)
        shares = np.bincount(labels, WEIGHTS) / WEIGHTS.sum()
        np.testing.assert_allclose(model.predict_proba(X), np.broadcast_to(shares, (M, len(shares))), rtol=1e-9)
        assert not model.coef_.any()


@pytest.mark.parametrize("kind", [*REGRESSIONS, *CLASSIFIERS])
def test_constant_columns_in_single_precision(kind):
    X, y = constant(100000.1, np.float32), TWO if kind in CLASSIFIERS else Y
    for model in models(kind):
        model.fit(X, y)
        got = model.predict_proba(X)[:, 1] if kind in CLASSIFIERS else model.predict(X)
        np.testing.assert_allclose(got, y.mean(), rtol=1e-6)


@pytest.mark.parametrize("kind", [L1Regression, GroupRegression, *CLASSIFIERS])
def test_columns_that_vary_by_rounding_are_constant(kind):
    X = 100000.1 * (1 + np.finfo(float).eps * RNG.integers(-2, 3, (M, 3)))
    y = TWO if kind in CLASSIFIERS else Y
    for model in models(kind):
        model.fit(X, y)
        got = model.predict_proba(X)[:, 1] if kind in CLASSIFIERS else model.predict(X)
        assert not model.coef_.any()
        np.testing.assert_allclose(got, y.mean(), rtol=1e-12)


@pytest.mark.parametrize("value", CONSTANTS)
@pytest.mark.parametrize("model", [L1Regression(), L1RegressionCV(n_radii=4, cv=3), GroupRegressionCV(n_radii=4, cv=3)])
def test_a_constant_column_changes_nothing_beside_others(model, value):
    X = RNG.standard_normal((M, 3))
    X[:, 2] = X[:, 1]
    y = X @ [1.0, -0.5, 0.0] + Y / 4
    alone = model.fit(X, y).predict(X)
    beside = np.column_stack([np.full(M, value), X, np.full(M, value)])
    model.fit(beside, y)
    np.testing.assert_allclose(model.predict(beside), alone, rtol=1e-6)
    assert not model.coef_[[0, -1]].any()


def least_loss(X, y, kind, radius):
    X, y, x, c = X - X.mean(axis=0), y - y.mean(), cp.Variable(X.shape[1]), cp.Variable()
    limits = [x >= 0, cp.sum(x) == radius] if kind is SimplexRegression else [cp.norm1(x) <= radius]
    problem = cp.Problem(cp.Minimize(cp.sum_squares(X @ x + c - y) / (2 * len(y))), limits)
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("kind", REGRESSIONS)
def test_columns_far_from_zero_are_fitted_as_an_independent_solver_does(kind, offset, form):
    X = RNG.standard_normal((M, 3)) + offset
    y = X @ [0.4, -0.2, 0.1] + 0.1 * Y
    model = kind(radius=0.5).fit(form(X), y)
    loss = float(np.mean((model.predict(form(X)) - y) ** 2)) / 2
    assert loss == pytest.approx(least_loss(X, y, kind, 0.5), rel=1e-5)


@pytest.mark.parametrize("level", [0.1, 100000.1])
@pytest.mark.parametrize("kind", [L1Regression, GroupRegression])
def test_constant_targets_need_no_coefficient(kind, level):
    X = RNG.standard_normal((M, 3))
    for model in models(kind):
        model.fit(X, np.full(M, level))
        np.testing.assert_array_equal(model.predict(X), level)


@pytest.mark.parametrize("kind", REGRESSIONS)
def test_one_sample_is_predicted(kind):
    assert kind().fit([[100000.1, 3.0]], [7.0]).predict([[100000.1, 3.0]]) == 7.0


def test_without_an_intercept_a_constant_column_is_a_feature():
    X = constant(100000.1)
    path = radius_path(X, Y, n_radii=3, estimator=L1Regression(fit_intercept=False))
    assert X[0] @ path.coefs[-1] == pytest.approx(Y.mean(), rel=1e-2)


def test_a_path_over_constant_columns_has_finite_radii():
    for fit_intercept, value in ((True, 100000.1), (True, 1e-300), (False, 1e-300)):
        path = radius_path(constant(value), Y, n_radii=3, estimator=L1Regression(fit_intercept=fit_intercept))
        assert np.isfinite(path.radii).all()
        assert np.isfinite(path.coefs).all()
        assert fit_intercept is False or not path.coefs.any()


def test_public_intercepts_belong_to_the_features_as_given():
    X = RNG.standard_normal((M, 3)) + 1000
    for model, y in ((L1Regression(0.1), Y), (L1Classifier(0.1), TWO), (L1Classifier(0.1), THREE)):
        model.fit(X, y)
        if y is Y:
            np.testing.assert_allclose(X @ model.coef_ + model.intercept_, model.predict(X), rtol=1e-9)
        else:
            Z = X @ model.coef_.T + model.intercept_
            same = Z - model.decision_function(X).reshape(Z.shape)
            np.testing.assert_allclose(np.ptp(same, axis=1), 0, atol=1e-9)
    assert model.intercept_.sum() == pytest.approx(0, abs=1e-9)


def test_constant_ratings_need_no_matrix():
    pairs = np.array([[u, i] for u in range(6) for i in range(5)])
    model = NuclearCompletion().fit(pairs, np.full(len(pairs), 100000.1))
    assert model.U_.shape[1] == 0
    np.testing.assert_allclose(model.predict(pairs), 100000.1, rtol=1e-15)
