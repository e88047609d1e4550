"""Does a device fit the same paths, say how exact they are, and refuse what it does not fit?"""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

import fwflow as fw
from fwflow.sklearn import (
    GroupClassifier,
    GroupRegression,
    L1Classifier,
    L1ClassifierCV,
    L1Regression,
    L1RegressionCV,
    NuclearCompletion,
    SimplexRegression,
    radius_path,
)

# Compiling is what these tests wait for, and they need no fast code.
jax.config.update("jax_disable_most_optimizations", True)

RNG = np.random.default_rng(0)
M, N = 60, 8
X = RNG.standard_normal((M, N)) + 10 * np.arange(N)
Y = (X - 10) @ np.r_[2.0, -1.0, 0.5, np.zeros(N - 3)] + RNG.standard_normal(M)
WEIGHTS = 1e38 * RNG.uniform(size=M)  # of which single precision has no sum
LABELS = np.where(np.median(Y) < Y, "high", "low")
NEAR = sp.csr_array((X - 10 * np.arange(N)) * (RNG.uniform(size=(M, N)) < 0.7))
RADII = [3.0, 0.1, 1.0, 2.0]


def agree(ours, theirs):
    assert ours.radii.tolist() == sorted(RADII)
    for name in ("radii", "coefs", "intercepts"):
        here, there = vars(ours)[name], vars(theirs)[name]
        assert here.dtype == there.dtype
        np.testing.assert_allclose(here, there, atol=1e-4, strict=True)


def mean_loss(path, A, b, loss, weights=None):
    f = fw.LinearModel(A, b, loss, weights=weights, intercept=bool(path.intercepts.any()))
    return np.array([f.value(f.point(coef.reshape(-1))) for coef in path.coefs])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("estimator", [L1Regression(tol=1e-6), SimplexRegression(tol=1e-6)], ids=repr)
def test_least_squares_with_an_intercept_and_weights(estimator):
    fit = {"estimator": estimator, "sample_weight": WEIGHTS}
    ours, theirs = radius_path(X, Y, RADII, backend="jax", **fit), radius_path(X, Y, RADII, **fit)
    agree(ours, theirs)
    loss, least = (mean_loss(path, X, Y, "squared", WEIGHTS) for path in (ours, theirs))
    np.testing.assert_allclose(loss, least, atol=1e-4)
    null = 0.5 * np.cov(Y, aweights=WEIGHTS, ddof=0)
    assert (ours.dual_gaps <= 1e-6 * null).all()


def test_two_classes_and_sparse_data():
    model = L1Classifier(fit_intercept=False, tol=1e-6)
    ours = radius_path(NEAR, LABELS, RADII, estimator=model, backend="jax")
    theirs = radius_path(NEAR, LABELS, RADII, estimator=model)
    agree(ours, theirs)
    assert ours.coefs.shape == (4, 1, N)
    loss, least = (mean_loss(path, NEAR, np.where(LABELS == "low", 1.0, -1.0), "logistic") for path in (ours, theirs))
    np.testing.assert_allclose(loss, least, atol=1e-4)


def test_gaps_are_those_of_the_data_on_the_device():
    path = radius_path(X, Y, RADII, estimator=L1Regression(tol=0.1), sample_weight=WEIGHTS, backend="jax")
    w = WEIGHTS / WEIGHTS.sum()
    A, b, w = (np.asarray(part, np.float32).astype(float) for part in (X - w @ X, Y - w @ Y, w))
    G = (A @ path.coefs.T - b[:, None]).T * (w / w.sum()) @ A
    true = (G * path.coefs).sum(axis=1) + path.radii * np.abs(G).max(axis=1)
    assert true.max() > 1e-3
    np.testing.assert_allclose(path.dual_gaps, true, rtol=1e-4, atol=1e-6)


def test_a_tolerance_beyond_single_precision_ends_without_being_met():
    path = radius_path(X, Y, RADII, estimator=L1Regression(tol=1e-12), sample_weight=WEIGHTS, backend="jax")
    null = 0.5 * np.cov(Y, aweights=WEIGHTS, ddof=0)
    assert 1e-12 * null < path.dual_gaps.max() < 1e-6 * null


def test_what_an_iteration_limit_leaves_is_warned_of_once():
    with pytest.warns(ConvergenceWarning, match="^L1Regression, at [1-4] of 4 radii: The iteration limit") as caught:
        radius_path(X, Y, RADII, estimator=L1Regression(max_iter=2), sample_weight=WEIGHTS, backend="jax")
    assert len(caught) == 1


def test_targets_without_any_loss():
    path = radius_path(X, np.full(M, 0.1), RADII, sample_weight=WEIGHTS, backend="jax")
    np.testing.assert_array_equal(path.coefs, 0.0)
    np.testing.assert_array_equal(path.intercepts, 0.1)


def test_samples_of_no_or_hardly_any_weight_may_be_anything():
    theirs = radius_path(X, Y, RADII, sample_weight=WEIGHTS)
    far, weights = X.copy(), WEIGHTS.copy()
    far[0], weights[0] = 1e15, 1e-20  # a rounding of this one is as large as the others are
    alone = radius_path(far, Y, RADII, estimator=L1Regression(tol=1e-6), sample_weight=weights, backend="jax")
    without = radius_path(X[1:], Y[1:], RADII, sample_weight=WEIGHTS[1:])
    np.testing.assert_allclose(alone.coefs, without.coefs, atol=1e-4)
    far, weights = np.vstack([np.full(N, 1e39), X]), np.append(0.0, WEIGHTS)
    ours = radius_path(far, np.append(1e39, Y), RADII, sample_weight=weights, backend="jax")
    agree(ours, theirs)


ONE_INTERCEPT = "backend='jax' fits an intercept for the squared loss of dense data only; set fit_intercept=False"


@pytest.mark.parametrize(
    ("estimator", "data", "y", "why"),
    [
        (L1Classifier(), X, LABELS, ONE_INTERCEPT),
        (L1Regression(loss="huber"), X, Y, ONE_INTERCEPT),
        (L1Regression(), NEAR, Y, ONE_INTERCEPT),
        (L1Classifier(fit_intercept=False), X, np.arange(M) % 3, "two classes, but not this L1Classifier"),
        (GroupRegression(), X, Y, "the l1 ball and the simplex, but not the ball of GroupRegression"),
        (GroupClassifier(), X, LABELS, "the l1 ball and the simplex, but not the ball of GroupClassifier"),
        (NuclearCompletion(), np.argwhere(np.eye(3) < 2), np.arange(9.0), "not this NuclearCompletion"),
    ],
    ids=[
        "logistic intercept",
        "huber intercept",
        "sparse intercept",
        "three classes",
        "group",
        "group classes",
        "matrix",
    ],
)
def test_what_a_device_does_not_fit_is_said(estimator, data, y, why):
    with pytest.raises(ValueError, match=why):
        radius_path(data, y, estimator=estimator, backend="jax")


def test_backends_have_names():
    for fit in (lambda: radius_path(X, Y, backend="cupy"), lambda: L1RegressionCV(backend="cupy").fit(X, Y)):
        with pytest.raises(ValueError, match="backend='cupy' is not known; accepted: 'numpy', 'jax'"):
            fit()


@pytest.mark.filterwarnings("ignore:L1RegressionCV. the chosen radius 3 is at the end:UserWarning")
def test_a_search_chooses_as_it_does_on_the_host():
    search = L1RegressionCV(RADII, cv=2, tol=1e-6, backend="jax", n_jobs=2).fit(X, Y, WEIGHTS)
    host = L1RegressionCV(RADII, cv=2, tol=1e-6).fit(X, Y, WEIGHTS)
    np.testing.assert_allclose(search.losses_, host.losses_, atol=1e-3, rtol=1e-4)
    assert search.radius_ == host.radius_
    np.testing.assert_allclose(search.coef_, host.coef_, atol=1e-4)
    assert search.method_ == "apg"
    assert "device" in search.method_.why
    with pytest.raises(ValueError, match=ONE_INTERCEPT):
        L1ClassifierCV(backend="jax").fit(X, LABELS)


@pytest.mark.filterwarnings("ignore:L1RegressionCV. the chosen radius 3 is at the end:UserWarning")
def test_bars_count_radii(capfd):
    radius_path(X, Y, RADII, progress=True)
    assert "4/4" in capfd.readouterr().err
    L1RegressionCV(RADII, cv=3, progress=True).fit(X, Y)
    assert "4 radii" in capfd.readouterr().err
    L1RegressionCV(RADII, cv=3).fit(X, Y)
    assert not capfd.readouterr().err


def test_jax_is_imported_only_where_it_is_asked_for():
    script = """
import sys
class Missing:
    def find_spec(self, name, *_):
        if name == "jax":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
from fwflow.sklearn import radius_path
X = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
radius_path(X, [1.0, 2.0, 3.5], [1.0])
try:
    radius_path(X, [1.0, 2.0, 3.5], [1.0], backend="jax")
except ImportError as error:
    print(error)
"""
    path = {"PYTHONPATH": str(Path(fw.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=path, check=False)
    assert done.stdout == "fwflow.jax needs JAX; pip install 'fwflow[jax]' brings it\n", done.stderr
