"""Counts, quantiles, robust losses, non-negative coefficients and names, against scikit-learn."""

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel
from sklearn.linear_model import HuberRegressor, Lasso, LassoCV, PoissonRegressor, QuantileRegressor, lars_path
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import cross_val_score

import fwflow as fw
from fwflow.run.corners import CornerPath
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
    radius_path,
)

RNG = np.random.default_rng(0)
M, N = 200, 8
X = RNG.standard_normal((M, N)) + 0.5
BETA = np.array([0.6, -0.4, 0.3, 0.0, 0.2, 0.0, 0.0, 0.0])
COUNTS = RNG.poisson(np.exp(X @ BETA + 0.5)).astype(float)
Y = 2 * X @ BETA + 3 + RNG.standard_t(2, M)
WEIGHTS = RNG.uniform(0.1, 2, M)
WEIGHTS[::9] = 0.0
NAMES = ["age", "carrier=AA", "carrier=DL", "carrier=UA", "distance", "hour", "öre", "x 8"]
FRAME = pd.DataFrame(X, columns=NAMES)

kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
weighings = pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["plain", "weights"])
intercepts = pytest.mark.parametrize("intercept", [True, False])


@kinds
@weighings
@intercepts
def test_counts_as_poisson_regressor(kind, weights, intercept):
    theirs = PoissonRegressor(alpha=0, tol=1e-12, max_iter=10_000, fit_intercept=intercept).fit(X, COUNTS, weights)
    ours = L1Regression(50.0, loss="poisson", tol=1e-13, fit_intercept=intercept).fit(kind(X), COUNTS, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)
    np.testing.assert_allclose(ours.predict(kind(X)), theirs.predict(X), rtol=1e-5)
    assert ours.score(kind(X), COUNTS, weights) == pytest.approx(theirs.score(X, COUNTS, weights), abs=1e-9)
    means = ours.predict(X)
    expected = d2_tweedie_score(COUNTS, means, sample_weight=weights, power=1)
    assert ours.score(X, COUNTS, weights) == pytest.approx(expected, abs=1e-9)


@kinds
@weighings
@intercepts
@pytest.mark.parametrize("level", [0.2, 0.5, 0.9])
def test_quantiles_as_quantile_regressor(kind, weights, intercept, level):
    used = slice(None) if weights is None else weights > 0
    theirs = QuantileRegressor(quantile=level, alpha=0, fit_intercept=intercept)
    theirs.fit(X[used], Y[used], None if weights is None else weights[used])
    ours = L1Regression(50.0, loss="quantile", quantile=level, rho=1e-4, tol=1e-10, fit_intercept=intercept)
    ours.fit(kind(X), Y, weights)
    w = np.ones(M) if weights is None else weights

    def pinball(model):
        r = Y - model.predict(X)
        return np.average(np.maximum(level * r, (level - 1) * r), weights=w)

    # The smoothed loss is within rho / 2 of the pinball loss.
    assert pinball(theirs) - 1e-9 <= pinball(ours) <= pinball(theirs) + 1e-4 / 2
    if intercept:  # without one, the share below the predictions is another
        assert np.average(ours.predict(X) > Y, weights=w) == pytest.approx(level, abs=2 * (N + 1) / M)


def test_the_default_width_follows_the_scale_of_the_targets():
    """Predictions of quantiles do not depend on the unit of the targets, as those of the median of all targets."""
    for loss in ({"quantile": 0.9}, {"quantile": 0.5}):
        fits = [L1Regression(3.0 * unit, loss="quantile", **loss).fit(X, unit * Y) for unit in (1e-6, 1.0, 1e6)]
        for fit, unit in zip(fits, (1e-6, 1.0, 1e6), strict=True):
            np.testing.assert_allclose(fit.predict(X) / unit, fits[1].predict(X), rtol=1e-3, atol=1e-3)
    # A width beyond all residuals gives means instead of quantiles.
    narrow, wide = (L1Regression(3.0, loss="quantile", quantile=0.9, rho=rho).fit(X, Y) for rho in (None, 1e4))
    assert np.mean(narrow.predict(X) > Y) == pytest.approx(0.9, abs=0.05)
    assert np.mean(wide.predict(X) > Y) < 0.7
    # With most targets equal the median distance is zero, and with all equal there is no distance at all.
    rare = np.where(np.arange(M) % 5, 0.0, Y)
    assert np.isfinite(L1Regression(loss="quantile").fit(X, rare).coef_).all()
    assert L1Regression(loss="quantile").fit(X, np.full(M, 3.0)).predict(X) == pytest.approx(3.0)


@kinds
@weighings
def test_robust_regression_as_huber_regressor(kind, weights):
    theirs = HuberRegressor(alpha=0, tol=1e-10, max_iter=10_000).fit(X, Y, weights)
    ours = L1Regression(50.0, loss="huber", rho=theirs.epsilon * theirs.scale_, tol=1e-13).fit(kind(X), Y, weights)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-4)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=2e-4)


def test_constrained_counts_against_cvxpy():
    x, c = cp.Variable(N), cp.Variable()
    z = X @ x + c
    w = WEIGHTS / WEIGHTS.sum()
    problem = cp.Problem(cp.Minimize(w @ (cp.exp(z) - cp.multiply(COUNTS, z))), [cp.norm1(x) <= 0.5])
    problem.solve(solver=cp.CLARABEL)
    for kind in (np.asarray, sp.csc_array):
        model = L1Regression(0.5, loss="poisson", tol=1e-12).fit(kind(X), COUNTS, WEIGHTS)
        np.testing.assert_allclose(model.coef_, x.value, atol=1e-4)
        assert model.intercept_ == pytest.approx(float(c.value), abs=1e-4)


@pytest.mark.parametrize("E", [L1Regression, GroupRegression, SimplexRegression])
@pytest.mark.parametrize("loss", ["poisson", "quantile", "huber"])
def test_all_regressions_have_all_losses(E, loss):
    model = E(radius=0.8, loss=loss).fit(FRAME, COUNTS)
    assert model.dual_gap_ <= 1e-6
    assert (model.predict(FRAME) > 0).all() or loss != "poisson"


def test_ugly_counts():
    model = L1Regression(5.0, loss="poisson")
    with pytest.raises(ValueError, match="y must hold counts, at least 0, for loss='poisson'; the smallest is -1"):
        model.fit(X, COUNTS - 1)
    with pytest.raises(ValueError, match="y holds no count above 0, so that the optimal intercept is minus infinity"):
        model.fit(X, np.zeros(M))
    zeros = L1Regression(5.0, loss="poisson", fit_intercept=False).fit(X, np.zeros(M))
    assert zeros.score(X, np.zeros(M)) == 0
    assert L1Regression(loss="poisson").fit(X[:1], [3.0]).predict(X[:1]) == pytest.approx(3.0)
    constant = np.column_stack([np.full(M, 7.0), X])
    np.testing.assert_allclose(
        L1Regression(0.5, loss="poisson", tol=1e-12).fit(constant, COUNTS).coef_[1:],
        L1Regression(0.5, loss="poisson", tol=1e-12).fit(X, COUNTS).coef_,
        atol=1e-6,
    )
    huge = L1Regression(5.0, loss="poisson").fit(X, 1e9 * COUNTS)
    assert huge.intercept_ == pytest.approx(L1Regression(5.0, loss="poisson").fit(X, COUNTS).intercept_ + np.log(1e9))
    assert L1Regression(loss="poisson").fit(X, np.full(M, 4.0)).score(X, np.full(M, 4.0)) in (0.0, 1.0)
    with pytest.raises(ValueError, match="loss='poisson' needs counts without biases subtracted"):
        NuclearCompletion(loss="poisson").fit([[0, 0], [1, 1]], [1.0, 2.0])


def test_predictions_of_counts_do_not_overflow():
    model = L1Regression(5.0, loss="poisson").fit(X, COUNTS)
    assert np.isfinite(model.predict(1e6 * X)).all()
    assert np.isfinite(model.score(1e3 * X, COUNTS))


def test_searches_of_counts_and_quantiles():
    search = L1RegressionCV(loss="poisson", n_radii=8).fit(X, COUNTS, WEIGHTS)
    assert search.score(X, COUNTS, WEIGHTS) > 0.3
    assert np.isfinite(search.losses_).all()
    single = L1Regression(search.radius_, loss="poisson", tol=1e-12).fit(X, COUNTS, WEIGHTS)
    np.testing.assert_allclose(search.coef_, single.coef_, atol=1e-3)
    assert search.n_iter_ >= 1
    level = L1RegressionCV(loss="quantile", quantile=0.8, n_radii=8).fit(X, Y)
    assert np.mean(level.predict(X) > Y) == pytest.approx(0.8, abs=0.06)
    assert cross_val_score(L1Regression(2.0, loss="poisson"), X, COUNTS).mean() > 0.2


def test_held_out_losses_of_counts_are_half_deviances():
    folds = [(np.arange(100), np.arange(100, 200))]
    search = L1RegressionCV(radii=[1.0], loss="poisson", cv=folds, tol=1e-12).fit(X, COUNTS)
    theirs = L1Regression(1.0, loss="poisson", tol=1e-12).fit(X[:100], COUNTS[:100]).predict(X[100:])
    b = COUNTS[100:]
    deviance = 2 * (np.where(b > 0, b * np.log(np.where(b > 0, b, 1) / theirs), 0) - b + theirs)
    assert search.losses_[0, 0] == pytest.approx(deviance.mean() / 2, rel=1e-6)


# Non-negative coefficients


@kinds
@weighings
@intercepts
@pytest.mark.parametrize("alpha", [0.003, 0.05, 0.3])
def test_non_negative_lasso(kind, weights, intercept, alpha):
    theirs = Lasso(alpha, positive=True, tol=1e-13, max_iter=100_000, fit_intercept=intercept).fit(X, Y, weights)
    assert theirs.coef_.any()
    ours = L1Regression(theirs.coef_.sum(), positive=True, tol=1e-14, fit_intercept=intercept)
    ours.fit(kind(X), Y, weights)
    assert ours.coef_.min() >= 0
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-7)
    assert ours.intercept_ == pytest.approx(theirs.intercept_, abs=1e-6)


def test_non_negative_least_squares_is_the_end_of_the_path():
    path = radius_path(X, Y, estimator=L1Regression(positive=True), n_radii=10)
    free = Lasso(1e-12, positive=True, tol=1e-12, max_iter=100_000).fit(X, Y).coef_
    assert path.coefs.min() >= 0
    np.testing.assert_allclose(path.coefs[-1], free, atol=0.1)
    assert path.radii[-1] == pytest.approx(free.sum(), rel=0.1)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("shape", [(60, 10), (15, 30), (1, 4), (12, 1)])
def test_corners_of_non_negative_coefficients_are_those_of_lars(shape, intercept):
    rng = np.random.default_rng(shape[0])
    A = rng.standard_normal(shape)
    b = A[:, 0] - A[:, -1] + rng.standard_normal(shape[0])
    path = CornerPath(A, b, None, intercept, positive=True)
    if intercept:
        A, b = A - A.mean(axis=0), b - b.mean()
    _, _, coefs = lars_path(A, b, method="lasso", positive=True)
    for coef in coefs.T[1:]:
        if coef.sum() > 0:
            np.testing.assert_allclose(path.at(coef.sum()), coef, atol=1e-8)


def test_corners_without_a_positive_correlation_end_at_zero():
    A = np.abs(RNG.standard_normal((20, 4)))
    path = CornerPath(A, -np.ones(20), None, False, positive=True)
    assert path.finished
    np.testing.assert_array_equal(path.at(3.0), 0)
    model = L1Regression(2.0, positive=True, fit_intercept=False).fit(A, -np.ones(20))
    np.testing.assert_array_equal(model.coef_, 0)
    assert radius_path(A, -np.ones(20), estimator=L1Regression(positive=True, fit_intercept=False)).coefs.max() == 0


@pytest.mark.parametrize("loss", ["squared", "huber", "poisson", "quantile"])
def test_searches_of_non_negative_coefficients(loss):
    y = COUNTS if loss == "poisson" else Y
    search = L1RegressionCV(loss=loss, positive=True, n_radii=6).fit(X, y)
    assert search.coef_.min() >= 0
    assert search.coef_[0] > 0
    if loss == "squared":
        theirs = LassoCV(positive=True).fit(X, Y)
        np.testing.assert_allclose(search.coef_, theirs.coef_, atol=0.3)


def test_non_negative_classifier_against_cvxpy():
    labels = np.where(Y > 3, 1.0, -1.0)
    x, c = cp.Variable(N, nonneg=True), cp.Variable()
    problem = cp.Problem(cp.Minimize(cp.sum(cp.logistic(cp.multiply(-labels, X @ x + c))) / M), [cp.sum(x) <= 1.5])
    problem.solve(solver=cp.CLARABEL)
    model = L1Classifier(1.5, positive=True, tol=1e-12).fit(X, labels)
    np.testing.assert_allclose(model.coef_[0], x.value, atol=1e-4)
    search = L1ClassifierCV(positive=True, n_radii=5, cv=3).fit(X, labels)
    assert search.coef_.min() >= 0
    with pytest.raises(ValueError, match="Only binary classification is supported with positive=True; y has 3"):
        L1Classifier(positive=True).fit(X, np.arange(M) % 3)


def test_devices_fit_non_negative_coefficients():
    pytest.importorskip("jax")
    model = L1Regression(positive=True, tol=1e-6)
    ours = radius_path(X, Y, [0.5, 2.0], estimator=model, backend="jax")
    core = radius_path(X, Y, [0.5, 2.0], estimator=model)
    assert ours.coefs.min() >= 0
    np.testing.assert_allclose(ours.coefs, core.coefs, atol=5e-3)


def test_devices_fit_counts_without_an_intercept():
    pytest.importorskip("jax")
    model = L1Regression(loss="poisson", fit_intercept=False, tol=1e-6)
    ours = radius_path(X, COUNTS, [0.5, 2.0], estimator=model, backend="jax")
    core = radius_path(X, COUNTS, [0.5, 2.0], estimator=model)
    np.testing.assert_allclose(ours.coefs, core.coefs, atol=5e-3)


def test_warm_starts_and_huge_radii():
    model = L1Regression(1e6, loss="poisson", positive=True).fit(X, COUNTS)
    assert model.dual_gap_ <= 1e-6
    warm = L1Regression(1.0, positive=True, warm_start=True, method="apg").fit(X, Y)
    again = warm.fit(X, Y)
    assert again.n_iter_ <= 1


# Names


GROUPS = {"carrier": ["carrier=AA", "carrier=DL", 3], "when": "hour"}
BY_LABEL = [0, 1, 1, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("E", "y", "options"),
    [
        (GroupRegression, Y, {"radius": 1.0}),
        (GroupClassifier, np.where(Y > 3, "b", "a"), {"radius": 1.0}),
        (GroupClassifier, np.digitize(Y, [1.0, 4.0]), {"radius": 1.0}),
        (GroupRegressionCV, Y, {"n_radii": 3, "cv": 2}),
        (GroupClassifierCV, Y > 3, {"n_radii": 3, "cv": 2}),
    ],
    ids=["regression", "two classes", "three classes", "search", "search of classes"],
)
def test_groups_by_name_are_those_by_number(E, y, options):
    named = E(groups=GROUPS, **options).fit(FRAME, y)
    numbered = E(groups=BY_LABEL, **options).fit(X, y)
    np.testing.assert_allclose(named.coef_, numbered.coef_, atol=1e-9)
    assert named.groups_ == {
        "age": ["age"],
        "carrier": ["carrier=AA", "carrier=DL", "carrier=UA"],
        "distance": ["distance"],
        "when": ["hour"],
        "öre": ["öre"],
        "x 8": ["x 8"],
    }
    assert numbered.groups_ == {0: [0], 1: [1, 2, 3], 2: [4], 3: [5], 4: [6], 5: [7]}
    assert E(**options).fit(X, y).groups_ == {i: [i] for i in range(N)}
    assert named.get_params()["groups"] is GROUPS


def test_groups_of_a_path_and_of_column_numbers():
    path = radius_path(FRAME, Y, [0.5, 2.0], estimator=GroupRegression(groups=GROUPS))
    other = radius_path(X, Y, [0.5, 2.0], estimator=GroupRegression(groups={"c": [1, 2, 3]}))
    np.testing.assert_allclose(path.coefs, other.coefs, atol=1e-9)
    assert path.names == tuple(NAMES)
    assert other.names == tuple(f"x{i}" for i in range(N))


@pytest.mark.parametrize(
    ("groups", "why"),
    [
        ({"a": ["agee"]}, r"groups\['a'\] names 'agee', which is no feature of X; did you mean 'age'\?"),
        ({"a": ["zzzz"]}, r"groups\['a'\] names 'zzzz', which is no feature of X$"),
        ({"a": ["age"], "b": ["hour", "age"]}, "names the feature 'age' twice, in 'a' and 'b'"),
        ({"a": ["age", 0]}, "names the feature 0 twice, in 'a' and 'a'"),
        ({"a": []}, r"groups\['a'\] must hold at least one feature"),
        ({"a": 3}, r"groups\['a'\] must hold at least one feature; got int 3"),
        ({"a": [8]}, "column number 8; X has 8 features"),
        ({"a": [0.5]}, r"groups\['a'\] must be an integer"),
        ({"age": ["hour"]}, r"groups\['age'\] has the name of a feature that is not in it"),
    ],
)
def test_wrong_groups_are_refused(groups, why):
    with pytest.raises(ValueError, match=why):
        GroupRegression(groups=groups).fit(FRAME, Y)
    with pytest.raises(NotFittedError):
        GroupRegression(groups=groups).groups_  # noqa: B018


def test_names_need_a_data_frame():
    with pytest.raises(ValueError, match="names features, but X has no feature names; give a data frame"):
        GroupRegression(groups=GROUPS).fit(X, Y)


def test_coefficients_have_names():
    model = L1Regression(1.0).fit(FRAME, Y)
    series = model.coefficients()
    assert isinstance(series, pd.Series)
    assert list(series.index) == NAMES
    np.testing.assert_array_equal(series.to_numpy(), model.coef_)
    assert list(L1Regression(1.0).fit(X, Y).coefficients().index[:2]) == ["x0", "x1"]
    two = L1Classifier(1.0).fit(FRAME, Y > 3)
    np.testing.assert_array_equal(two.coefficients().to_numpy(), two.coef_[0])
    three = L1Classifier(1.0).fit(FRAME, np.array(["low", "mid", "top"])[np.digitize(Y, [1.0, 4.0])])
    table = three.coefficients()
    assert list(table.columns) == ["low", "mid", "top"]
    np.testing.assert_array_equal(table.loc["age"].to_numpy(), three.coef_[:, 0])
    with pytest.raises(NotFittedError):
        L1Regression().coefficients()


def test_all_estimators_know_the_names_of_the_features():
    for E in (L1Regression, L1RegressionCV, GroupRegression, SimplexRegression):
        np.testing.assert_array_equal(E().fit(FRAME, Y).feature_names_in_, NAMES)
        with pytest.raises(ValueError, match="feature names"):
            E().fit(FRAME, Y).predict(FRAME.rename(columns={"age": "years"}))


def test_selected_features_have_names():
    """Estimators are no transformers; SelectFromModel makes one of them, with names."""
    selector = SelectFromModel(L1Regression(0.5)).fit(FRAME, Y)
    kept = selector.get_feature_names_out()
    coefficients = selector.estimator_.coefficients()
    assert set(kept) == set(coefficients.index[coefficients.abs() > 1e-5])


def test_curves_of_a_path_have_names():
    path = radius_path(FRAME, Y, n_radii=6)
    ax = path.plot()
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    largest = np.abs(path.coefs).max(axis=0)
    assert shown == [NAMES[i] for i in np.argsort(-largest, kind="stable") if largest[i] > 0]
    by_name = dict(zip(shown, ax.get_legend().legend_handles, strict=True))
    curves = {line.get_color(): line.get_ydata() for line in ax.get_lines()}
    for name, handle in by_name.items():
        np.testing.assert_array_equal(curves[handle.get_color()], path.coefs[:, NAMES.index(name)])
    assert len(path.plot(n_labels=2).get_legend().get_texts()) == 2
    assert path.plot(n_labels=0).get_legend() is None
    classes = radius_path(FRAME, np.digitize(Y, [1.0, 4.0]), [1.0, 2.0], estimator=L1Classifier())
    assert classes.names[:1] == ("age (0)",)
    assert classes.names[N : N + 1] == ("age (1)",)
    assert len(classes.plot().get_legend().get_texts()) <= 10
    plt.close("all")


def test_columns_without_weight_in_the_result_are_exact_zeros():
    model = L1Regression(0.3, positive=True).fit(FRAME, Y)
    assert (model.coefficients() == 0).any()
    assert fw.UnitSimplex(0.3).contains(model.coef_)
