"""Do corners lead along the minimisers, for data with ties, copies and constants too?"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import lasso_path

from fwflow.run.corners import CornerPath
from fwflow.sklearn import L1RegressionCV, linear, radius_path

RNG = np.random.default_rng(0)
WIDE, TALL = RNG.standard_normal((15, 40)) + 2, RNG.standard_normal((60, 8)) + 2
WEIGHTS = RNG.integers(0, 4, 60)


def gap(X, y, w, intercept, x, radius):
    """By how much x may be worse than the best of its ball, with the formulas of the textbook."""
    w = np.ones(len(y)) / len(y) if w is None else w / w.sum()
    r = X @ x - y
    g = X.T @ (w * (r - (w @ r if intercept else 0.0)))
    return radius * np.abs(g).max() + g @ x


# A column that left at a tie, and comes back within the next step.
TIES = [
    ([[-1, 0, 1], [1, 1, 0], [0, 0, 1], [1, 1, 0]], [1, 1, 2, -2]),
    ([[1, -1, 0], [0, -1, -1], [0, 1, 0], [1, -1, 0]], [0, -2, -1, -1]),
    ([[0, 0, -1], [-1, 0, 1], [1, 1, 0], [0, 1, 1]], [1, -1, 0, 1]),
]


@pytest.mark.parametrize(("X", "y"), TIES)
def test_ties_are_followed(X, y):
    X, y = np.array(X, float), np.array(y, float)
    path = CornerPath(X, y, None, False)
    for radius in np.linspace(0.1, 4, 40):
        assert gap(X, y, None, False, path.at(radius), radius) < 1e-12
    assert path.finished


def test_no_two_corners_of_one_rate():
    X = np.zeros((6, 5))
    X[2], X[3], X[5, 4] = [0, 0, 0, 1, 2], [0, 0, 1, 0, 2], 1
    path = CornerPath(X, np.eye(6)[5], None, False)
    assert path.at(100.0) is not None
    rates = [corner.rate for corner in path.corners]
    assert (np.diff(rates) < 0).all()


small = st.integers(-2, 2).map(float)


@given(data=st.data(), m=st.integers(1, 7), n=st.integers(1, 7), intercept=st.booleans())
@settings(max_examples=60, deadline=None)
def test_data_full_of_ties_is_followed_or_given_up(data, m, n, intercept):
    X, y = data.draw(arrays(float, (m, n), elements=small)), data.draw(arrays(float, m, elements=small))
    w = data.draw(st.none() | arrays(float, m, elements=st.sampled_from([1.0, 2.0])))
    path = CornerPath(X, y, w, intercept)
    for radius in (0.1, 0.3, 1.0, 3.0, 100.0):
        x = path.at(radius)
        if x is None:
            assert path.lost
        else:
            assert np.abs(x).sum() <= radius * (1 + 1e-9)
            assert gap(X, y, w, intercept, x, radius) <= 1e-9 * (1 + radius)
    rates = [corner.rate for corner in path.corners]
    assert (np.diff(rates) < 0).all()


@pytest.mark.parametrize("X", [WIDE, TALL, TALL[:, [0, 1, 0, 2, 3]], np.asfortranarray(WIDE)])
@pytest.mark.parametrize("intercept", [True, False])
def test_corners_are_those_of_the_lasso(X, intercept):
    y = X @ RNG.standard_normal(X.shape[1]) + 5
    path = CornerPath(X, y, None, intercept)
    moved = (X - X.mean(axis=0), y - y.mean()) if intercept else (X, y)
    for share in (0.7, 0.2, 0.03):
        coef = lasso_path(*moved, alphas=[share * path.corners[0].rate], tol=1e-14, max_iter=10**6)[1][:, 0]
        np.testing.assert_allclose(X @ path.at(np.abs(coef).sum()), X @ coef, atol=1e-4)
    least = np.linalg.lstsq(*moved, rcond=None)[0]
    np.testing.assert_allclose(moved[0] @ path.at(1e9), moved[0] @ least, atol=1e-6)
    assert path.finished


def test_what_rounding_moves_off_the_path_is_put_right():
    path = CornerPath(WIDE, WIDE[:, :9].sum(axis=1), None, True)
    path.at(0.5)
    path._inverse *= 1 + 1e-6
    x = path.at(5.0)
    assert gap(WIDE, WIDE[:, :9].sum(axis=1), None, True, x, 5.0) < 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_paths_begin_at_their_minimisers_and_verify_them(weights, dtype):
    X, y = TALL.astype(dtype), (TALL[:, 0] - 2 * TALL[:, 3] + RNG.standard_normal(60)).astype(dtype)
    path = radius_path(X, y, n_radii=10, sample_weight=weights)
    single = dtype == np.float32
    corners = CornerPath(X, y, weights, True)
    assert corners.at(path.radii[-1]) is not None
    assert single or path.n_iters.tolist() == [corners.passed(radius) for radius in path.radii]  # and no steps
    for radius, coef, told in zip(path.radii, path.coefs, path.dual_gaps, strict=True):
        assert coef.dtype == dtype
        actual = gap(TALL, y, weights, True, coef.astype(float), radius)
        assert actual == pytest.approx(told, abs=1e-5 if single else 1e-12)
    by_passes = radius_path(sp.csr_array(X), y, path.radii, sample_weight=weights)
    np.testing.assert_allclose(path.coefs, by_passes.coefs, atol=1e-3)


def test_a_path_that_is_lost_is_found_by_runs(monkeypatch):
    y = TALL[:, 0] - 2 * TALL[:, 3] + RNG.standard_normal(60)
    whole = L1RegressionCV(n_radii=5).fit(TALL, y)
    monkeypatch.setattr(linear.CornerPath, "_correct", lambda path: setattr(path, "lost", len(path.corners) > 2))
    lost = L1RegressionCV(whole.radii_).fit(TALL, y)
    assert lost.dual_gap_ <= 1e-8 * y.var() / 2
    np.testing.assert_allclose(lost.losses_, whole.losses_, rtol=1e-5)
    assert L1RegressionCV(n_radii=5).fit(TALL, y).radii_[-1] == pytest.approx(whole.radii_[-1], rel=0.1)
