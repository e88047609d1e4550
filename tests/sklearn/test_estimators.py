"""Estimators: comparison with a conic solver, kinds of data, pipelines, weights, warm starts and errors."""

import subprocess
import sys
import warnings
from pathlib import Path

import cvxpy as cp
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fwflow as fw
import sklearn
from fwflow.sklearn import GroupClassifier, GroupRegression, L1Classifier, L1Regression, SimplexRegression

RNG = np.random.default_rng(0)
M, N = 40, 6
X = RNG.standard_normal((M, N)) + np.linspace(0, 3, N)
Y = X @ [1.0, -1.0, 0.0, 0.5, 0.0, 0.0] + 5 + 0.5 * RNG.standard_normal(M)
CLASSES = np.array(["a", "b", "c"])[np.digitize(X[:, 0] - X[:, 1] + RNG.standard_normal(M), [-1.5, 0.5])]
TWO = np.where(CLASSES == "a", "no", "yes")
WEIGHTS = RNG.integers(0, 4, M)
GROUPS = [[0, 3], [1, 2, 5], [4]]

REGRESSORS = {
    "l1": (L1Regression(0.8), lambda x: [cp.norm1(x) <= 0.8]),
    "l1-huber": (L1Regression(0.8, loss="huber", rho=0.3), lambda x: [cp.norm1(x) <= 0.8]),
    "simplex": (SimplexRegression(1.5), lambda x: [x >= 0, cp.sum(x) == 1.5]),
    "group": (GroupRegression(0.8, groups=GROUPS), lambda x: [sum(cp.norm(x[g]) for g in GROUPS) <= 0.8]),
    "group-inf": (
        GroupRegression(0.8, groups=GROUPS, p=np.inf),
        lambda x: [sum(cp.norm_inf(x[g]) for g in GROUPS) <= 0.8],
    ),
}
CLASSIFIERS = {
    "l1": (L1Classifier(2.0), lambda W: [cp.sum(cp.abs(W)) <= 2.0]),
    "group": (
        GroupClassifier(2.0, groups=GROUPS),
        lambda W: [sum(cp.norm(cp.vec(W[:, g], order="C")) for g in GROUPS) <= 2.0],
    ),
}
ALL = [model for model, _ in REGRESSORS.values()] + [model for model, _ in CLASSIFIERS.values()]


def target(model):
    return CLASSES if hasattr(model, "classes_") or "Classifier" in type(model).__name__ else Y


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("name", REGRESSORS)
def test_regression_is_that_of_a_conic_solver(name, weights, intercept):
    model, inside = REGRESSORS[name]
    model = sklearn.clone(model).set_params(fit_intercept=intercept).fit(X, Y, weights)
    w = np.ones(M) if weights is None else weights
    x, c = cp.Variable(N), cp.Variable()
    r = X @ x + (c if intercept else 0) - Y
    terms = 0.5 * (cp.huber(r, 0.3) if "huber" in name else cp.square(r))
    problem = cp.Problem(cp.Minimize(w @ terms / w.sum()), inside(x))
    problem.solve(solver="CLARABEL")
    assert model.trace_["fun"][-1] == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(model.coef_, x.value, atol=2e-3)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_ + model.intercept_)
    assert model.intercept_ == (pytest.approx(float(c.value), abs=1e-2) if intercept else 0.0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("labels", [TWO, CLASSES], ids=["two", "three"])
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classification_is_that_of_a_conic_solver(name, labels, weights, intercept):
    model, inside = CLASSIFIERS[name]
    model = sklearn.clone(model).set_params(fit_intercept=intercept).fit(X, labels, weights)
    w = np.ones(M) if weights is None else weights
    classes, codes = np.unique(labels, return_inverse=True)
    K = len(classes)
    W, c = cp.Variable((K if K > 2 else 1, N)), cp.Variable(K if K > 2 else 1)
    Z = X @ W.T + (np.ones((M, 1)) @ cp.reshape(c, (1, -1), order="C") if intercept else 0)
    if K == 2:
        losses = cp.logistic(cp.multiply(np.where(codes, -1.0, 1.0), Z[:, 0]))
    else:
        losses = cp.log_sum_exp(Z, axis=1) - cp.sum(cp.multiply(np.eye(K)[codes], Z), axis=1)
    used = np.flatnonzero(w)
    problem = cp.Problem(cp.Minimize(w[used] @ losses[used] / w.sum()), inside(W))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-7, tol_gap_rel=1e-7, tol_feas=1e-7)
    assert (model.classes_ == classes).all()
    assert model.trace_["fun"][-1] == pytest.approx(problem.value, rel=1e-6)
    np.testing.assert_allclose(model.coef_, W.value, atol=2e-3)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    np.testing.assert_allclose(np.log(model.predict_proba(X)), model.predict_log_proba(X), rtol=1e-9)
    assert (model.predict(X) == classes[model.predict_proba(X).argmax(axis=1)]).all()


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_the_kind_of_the_data_does_not_matter(model):
    y = target(model)
    first = sklearn.clone(model).fit(X, y)
    names = [f"feature {j}" for j in range(N)]
    for data in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        other = sklearn.clone(model).fit(data, y)
        np.testing.assert_allclose(other.coef_, first.coef_, atol=1e-5)
        assert list(other.feature_names_in_) == names
        assert (other.predict(data) == other.predict(data)).all()
    for convert in (sp.csr_array, sp.csc_matrix, sp.coo_array):
        other = sklearn.clone(model).fit(convert(X), y)
        np.testing.assert_allclose(other.coef_, first.coef_, atol=1e-4)
        assert len(other.predict(convert(X))) == M
    single = sklearn.clone(model).fit(X.astype(np.float32), y)
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.coef_, first.coef_, atol=3e-2)


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_the_gap_is_verified_and_the_run_is_told(model):
    model = sklearn.clone(model).fit(X, target(model))
    assert 0 <= model.dual_gap_ <= 1e-8 * max(1.0, model.trace_["fun"][0])
    assert len(model.trace_) == model.n_iter_ + 1
    assert model.method_.why
    assert model.n_features_in_ == N
    by_vertices = sklearn.clone(model).set_params(method="corrective", max_iter=3000, tol=1e-6).fit(X, target(model))
    active = by_vertices.active_set_
    np.testing.assert_allclose(active.x.T.reshape(by_vertices.coef_.shape), by_vertices.coef_, atol=1e-9)
    assert active.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_pipelines_and_grids(model):
    y = target(model)
    pipe = make_pipeline(StandardScaler(), sklearn.clone(model).set_params(tol=1e-6))
    step = pipe.steps[-1][0]
    grid = GridSearchCV(pipe, {f"{step}__radius": [0.1, 1.0]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0
    assert grid.predict(X).shape == (M,)


@pytest.mark.parametrize("model", [L1Regression(0.8), L1Classifier(2.0)], ids=repr)
def test_sample_weights_are_routed(model):
    y = target(model)
    with sklearn.config_context(enable_metadata_routing=True):
        asked = sklearn.clone(model).set_fit_request(sample_weight=True)
        pipe = make_pipeline(StandardScaler(with_std=False).set_fit_request(sample_weight=False), asked)
        routed = pipe.fit(X, y, sample_weight=WEIGHTS)[-1].coef_
        grid = GridSearchCV(asked.set_score_request(sample_weight=True), {"radius": [0.1, 2.0]}, cv=2)
        assert grid.fit(X, y, sample_weight=WEIGHTS + 1).best_score_ > 0
    plain = sklearn.clone(model).fit(X - X.mean(axis=0), y, sample_weight=WEIGHTS)
    np.testing.assert_allclose(routed, plain.coef_, atol=1e-9)


def test_class_weights_are_sample_weights():
    weights = {"a": 3.0, "b": 1.0, "c": 0.5}
    by_class = L1Classifier(2.0, class_weight=weights).fit(X, CLASSES)
    by_sample = L1Classifier(2.0).fit(X, CLASSES, [weights[label] for label in CLASSES])
    np.testing.assert_allclose(by_class.coef_, by_sample.coef_, atol=1e-12)
    counts = {label: M / 3 / (label == CLASSES).sum() for label in "abc"}
    balanced = L1Classifier(2.0, class_weight="balanced").fit(X, CLASSES)
    named = L1Classifier(2.0, class_weight=counts).fit(X, CLASSES)
    np.testing.assert_allclose(balanced.coef_, named.coef_, atol=1e-5)


def test_a_class_without_weight_is_none():
    model = L1Classifier(2.0).fit(X, CLASSES, CLASSES != "c")
    assert list(model.classes_) == ["a", "b"]
    np.testing.assert_allclose(model.coef_, L1Classifier(2.0).fit(X[CLASSES != "c"], CLASSES[CLASSES != "c"]).coef_)


@pytest.mark.parametrize("model", ALL, ids=repr)
def test_a_warm_start_begins_where_the_last_fit_ended(model):
    y = target(model)
    model = sklearn.clone(model).set_params(warm_start=True, method="corrective", tol=1e-6).fit(X, y)
    again = model.coef_.copy()
    assert model.fit(X, y).n_iter_ <= 1
    np.testing.assert_allclose(model.coef_, again, atol=1e-3)
    assert np.abs(model.set_params(radius=0.1).fit(X, y).coef_).sum() < 0.5  # the old one lies outside
    model.fit(X[:, :4], y) if model.get_params().get("groups") is None else None
    assert model.fit(X, y).coef_.shape == again.shape


def test_a_run_that_is_cut_short_says_so():
    with pytest.warns(ConvergenceWarning, match="L1Regression: The limit max_iter was reached; raise it"):
        L1Regression(method="fw", max_iter=2).fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        L1Regression(tol=0, rtol=1e-3, method="fw", max_iter=10_000).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "labels", "message"),
    [
        (L1Regression(loss="logistic"), Y, "loss='logistic' is not known; accepted: 'squared', 'huber'"),
        (L1Regression(radius=-1.0), Y, "radius must be a positive finite number"),
        (L1Regression(method="newton"), Y, "method"),
        (GroupRegression(groups=[0, 1]), Y, "groups has 2 entries; X has 6 features"),
        (L1Classifier(), np.ones(M), "needs two classes or more"),
        (L1Classifier(), Y, "Unknown label type"),
    ],
)
def test_what_cannot_be_meant_is_refused(model, labels, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, labels)


@pytest.mark.parametrize(
    ("weights", "message"),
    [(-WEIGHTS, "must not be negative"), (np.zeros(M), "all zero"), (WEIGHTS[1:], "there are 40 samples")],
)
def test_weights_that_are_none_are_refused(weights, message):
    with pytest.raises(ValueError, match=f"sample_weight.*{message}"):
        L1Regression().fit(X, Y, weights)


def test_without_scikit_learn_one_sentence_says_what_to_do():
    script = "import sys; sys.modules['sklearn'] = None\nimport fwflow.sklearn"
    environment = {"PYTHONPATH": str(Path(fw.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.stderr.splitlines()[-1] == (
        "ImportError: fwflow.sklearn needs scikit-learn; pip install 'fwflow[sklearn]' brings it"
    )
