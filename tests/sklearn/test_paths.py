"""Do paths go from the first coefficient to where the ball stops binding, and do searches choose as they say?"""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fwflow.sklearn
import sklearn
from fwflow.sklearn import (
    GroupRegression,
    GroupRegressionCV,
    L1Classifier,
    L1ClassifierCV,
    L1Regression,
    L1RegressionCV,
    SimplexRegression,
    SimplexRegressionCV,
    radius_path,
)

RNG = np.random.default_rng(0)
M, N = 80, 12
X = RNG.standard_normal((M, N)) + 1
Y = X @ np.r_[2.0, -1.0, 0.5, np.zeros(N - 3)] + 3 + RNG.standard_normal(M)
LABELS = np.where(np.median(Y) < Y, "high", "low")


def test_a_path_goes_from_one_coefficient_to_least_squares():
    path = radius_path(X, Y, n_radii=20, eps=1e-3)
    assert np.count_nonzero(path.coefs[0]) == 1
    assert np.ptp(np.diff(np.log(path.radii))) < 1e-9
    least_squares = np.linalg.lstsq(X - X.mean(axis=0), Y - Y.mean(), rcond=None)[0]
    assert path.radii[-1] == pytest.approx(np.abs(least_squares).sum(), rel=0.05)
    np.testing.assert_allclose(path.coefs[-1], least_squares, atol=0.02)
    used = np.abs(path.coefs).sum(axis=1)
    np.testing.assert_allclose(used[:-2], path.radii[:-2], rtol=1e-6)
    assert (path.dual_gaps < 1e-6).all()


@pytest.mark.parametrize(
    ("model", "y"),
    [
        (L1Regression(loss="huber"), Y),
        (SimplexRegression(), Y),
        (GroupRegression(groups=np.arange(N) // 3), Y),
        (L1Classifier(), LABELS),
        (L1Classifier(), np.digitize(Y, [4.0, 6.0])),
    ],
    ids=["huber", "simplex", "group", "two classes", "three classes"],
)
def test_a_path_has_the_fits_of_its_radii(model, y):
    path = radius_path(X, y, estimator=model, n_radii=6, eps=0.05)
    for radius, coef, intercept in zip(path.radii, path.coefs, path.intercepts, strict=True):
        alone = sklearn.clone(model).set_params(radius=radius).fit(X, y)
        np.testing.assert_allclose(coef, alone.coef_, atol=2e-3)
        np.testing.assert_allclose(intercept, alone.intercept_, atol=2e-2)
    assert "radius" not in path.__dict__
    axes = path.plot()
    assert axes.get_xlabel() == "radius"
    plt.close("all")


def test_radii_of_ones_own():
    path = radius_path(sp.csr_array(X), Y, [1.0, 0.5, 2.0], sample_weight=np.ones(M))
    assert path.radii.tolist() == [0.5, 1.0, 2.0]
    for wrong in ([], [0.0, 1.0], "some"):
        with pytest.raises(ValueError, match="radii"):
            radius_path(X, Y, wrong)


def test_where_nothing_is_worth_a_coefficient_there_still_is_a_path():
    path = radius_path(X, np.ones(M), n_radii=3)
    np.testing.assert_array_equal(path.coefs, 0.0)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("search", "y"),
    [
        (L1RegressionCV(n_radii=8, tol=1e-6), Y),
        (SimplexRegressionCV(n_radii=8, tol=1e-6), Y),
        (GroupRegressionCV(n_radii=8, tol=1e-6, groups=np.arange(N) // 3), Y),
        (L1ClassifierCV(n_radii=8, tol=1e-6, eps=0.05), LABELS),
    ],
    ids=repr,
)
def test_searches_choose_the_least_held_out_loss(search, y):
    search = sklearn.clone(search).fit(X, y)
    assert search.losses_.shape == (5, len(search.radii_))
    np.testing.assert_allclose(search.losses_.mean(axis=0), search.mean_losses_)
    assert search.radius_ == search.radii_[search.mean_losses_.argmin()]
    assert search.score(X, y) > 0.3
    plain = vars(fwflow.sklearn)[type(search).__name__.removesuffix("CV")](search.radius_, tol=1e-6)
    plain.set_params(**{k: v for k, v in search.get_params().items() if k in plain.get_params()}).fit(X, y)
    np.testing.assert_allclose(search.coef_, plain.coef_, atol=2e-2)
    parallel = sklearn.clone(search).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(parallel.losses_, search.losses_)
    rule = sklearn.clone(search).set_params(rule="1se").fit(X, y)
    best = int(rule.mean_losses_.argmin())
    bound = rule.mean_losses_[best] + rule.standard_errors_[best]
    assert rule.mean_losses_[rule.radii_ == rule.radius_] <= bound
    assert rule.radius_ <= rule.radii_[best]
    assert (rule.mean_losses_[rule.radii_ < rule.radius_] > bound).all()
    assert search.plot().get_xlabel() == "radius"
    plt.close("all")


def test_searches_end_soon_after_the_best_radius():
    data, labels = load_breast_cancer(return_X_y=True)
    search = L1ClassifierCV(n_radii=10).fit(StandardScaler().fit_transform(data), labels)
    assert search.radius_ < search.radii_[-1] < 6 * search.radius_
    assert search.mean_losses_[-1] < 3 * search.mean_losses_.min()
    steps = np.diff(np.log(search.radii_)) / np.log(1e3)
    assert (np.isclose(steps, 1 / 10)).sum() == len(steps) - 8  # six radii between three neighbours divide two steps


def test_folds_of_ones_own():
    splits = list(GroupKFold(3).split(X, Y, np.arange(M) // 10))
    search = L1RegressionCV(n_radii=3, cv=splits, tol=1e-6).fit(X, Y)
    assert search.losses_.shape == (3, len(search.radii_))
    with pytest.raises(ValueError, match="rule='min' is not known; accepted: 'best', '1se'"):
        L1RegressionCV(rule="min").fit(X, Y)


@pytest.mark.parametrize("search", [L1RegressionCV(n_radii=3, cv=3), L1ClassifierCV(n_radii=3, cv=3, eps=0.1)])
def test_groups_are_not_divided(search, monkeypatch):
    groups, seen = np.arange(M) // 10, []
    fold = fwflow.sklearn.paths._Fold
    monkeypatch.setattr(fwflow.sklearn.paths, "_Fold", lambda *a: seen.append((a[4], a[5])) or fold(*a))
    y = LABELS if sklearn.base.is_classifier(search) else Y
    sklearn.clone(search).fit(X, y, groups=groups)
    sklearn.clone(search).set_params(cv=GroupKFold(2)).fit(X, y, groups=groups)
    with sklearn.config_context(enable_metadata_routing=True):
        make_pipeline(StandardScaler(), sklearn.clone(search).set_fit_request(groups=True)).fit(X, y, groups=groups)
    assert len(seen) == 3 + 2 + 3
    assert all(not set(groups[train]) & set(groups[test]) for train, test in seen)
