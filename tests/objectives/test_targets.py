"""Models of several targets or classes: are they sums over the targets, and their restrictions the loss itself?"""

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.designs import Counts, TargetDesign, as_design
from fwflow.sklearn import GroupClassifier, L1Classifier, radius_path

RNG = np.random.default_rng(0)
M, N, K = 40, 7, 3
DENSE = RNG.standard_normal((M, N))
SPARSE = DENSE * (RNG.random((M, N)) < 0.2)
CODES = np.r_[0, 1, 2, RNG.integers(0, K, M - 3)]
WEIGHTS = RNG.random(M)
X = RNG.standard_normal((N, K))
PLACES = {"all": None, "some": np.array([0, 3, 8, 9, 15, 20]), "one": np.array([10])}
PLACES |= {"one target": np.arange(1, N * K, K), "rows": np.arange(6, 12)}
TARGETS = {
    "softmax": CODES,
    "squared": DENSE[:, :3] - 0.5 * DENSE[:, 1:4] + 1,
    "huber": 2 * DENSE[:, :3],
    "logistic": np.where(DENSE[:, :3] > 0.3, 1.0, -1.0),
    "poisson": np.floor(3 * np.abs(DENSE[:, :3])),
}


def softmax(features, codes=CODES, weights=None, intercept=False):
    return fw.LinearModel(features, codes, "softmax", weights=weights, intercept=intercept)


@pytest.fixture(params=["dense", "sparse"])
def features(request):
    return DENSE if request.param == "dense" else sp.csc_array(SPARSE)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("loss", TARGETS)
class TestRestriction:
    @pytest.fixture
    def parts(self, loss, features, weights, intercept, places):
        f = fw.LinearModel(features, TARGETS[loss], loss, weights=weights, intercept=intercept)
        point = f.point(X)
        return f, point, f.restricted(point, places), np.arange(K * N) if places is None else places

    def test_values_and_gradients_are_those_of_the_loss(self, parts):
        f, point, r, places = parts
        v, moved = X.reshape(-1)[places], X.copy()
        moved.reshape(-1)[places] += RNG.standard_normal(len(places))
        there, w = f.point(moved), moved.reshape(-1)[places]
        for at, u in ((point, v), (there, w)):
            g = np.asarray(f.gradient(at)).reshape(-1)[places]
            np.testing.assert_allclose(r.gradient(u, r.image(u)), g, atol=1e-13)
        change = r.value(w, r.image(w)) - r.value(v, r.image(v))
        assert change == pytest.approx(f.value(there) - f.value(point), rel=1e-12, abs=1e-13)

    def test_second_derivatives_are_the_change_of_gradients(self, parts):
        _, _, r, places = parts
        v, h = X.reshape(-1)[places], 1e-5
        for free in (np.arange(len(places)), np.arange(len(places))[::2], np.arange(1)):
            H = r.hessian(r.image(v), free)
            product = r.hessian_product(r.image(v), free)
            for i, j in enumerate(free):
                e = h * np.eye(len(v))[j]
                difference = (r.gradient(v + e, r.image(v + e)) - r.gradient(v - e, r.image(v - e))) / (2 * h)
                np.testing.assert_allclose(H[i], difference[free], atol=1e-8)
                np.testing.assert_allclose(product(np.eye(len(free))[i]), H[i], atol=1e-13)

    def test_the_curvature_is_the_mean_second_derivative_on_a_segment(self, loss, parts):
        f, _, r, places = parts
        v = X.reshape(-1)[places]
        d = RNG.standard_normal(len(places))
        start, end = r.image(v), r.image(v + d)
        near, far = 1e-9, r.curvature(d, start, end)
        if f.intercept and loss != "squared":
            # An upper bound on the mean second derivative, exact for short segments.
            rise = r.value(v + d, end) - r.value(v, start) - float(r.gradient(v, start) @ d)
            assert rise <= far <= f.steepest * float((end - start) @ (end - start))
            d, near = 1e-4 * d, 1e-2
            end = r.image(v + d)
        exact = np.vdot(r.gradient(v + d, end) - r.gradient(v, start), d)
        assert r.curvature(d, start, end) == pytest.approx(exact, rel=near, abs=1e-13)
        assert r.curvature(0 * d, start, start) == 0.0

    def test_single_precision_stays_single(self, loss, features, weights, intercept, places):
        f = fw.LinearModel(features.astype(np.float32), TARGETS[loss], loss, weights=weights, intercept=intercept)
        point = f.point(X.astype(np.float32))
        r = f.restricted(point, places)
        v = point.x.reshape(-1) if places is None else point.x.reshape(-1)[places]
        z = r.image(v)
        free = np.arange(len(v))
        got = r.gradient(v, z), r.hessian_product(z, free)(v)
        assert z.dtype == got[0].dtype == got[1].dtype == np.float32
        g = np.asarray(f.gradient(point)).reshape(-1)
        np.testing.assert_allclose(got[0], g if places is None else g[places], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[1], r.hessian(z, free) @ v, rtol=1e-5, atol=1e-5)


def test_products_of_some_columns_count_as_a_share_of_a_pass():
    counts = Counts()
    f = softmax(DENSE).counted_by(counts)
    r = f.restricted(f.point(X), np.array([0, 5]))  # columns 0 and 1
    before = counts.n_design
    r.gradient(np.ones(2), r.image(np.ones(2)))
    assert counts.n_design - before == pytest.approx(2 * 2 / N)


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array])
def test_the_design_of_all_classes_is_block_diagonal(kind):
    design = TargetDesign(as_design(kind(SPARSE)), K)
    whole = np.kron(np.eye(K), SPARSE).reshape(-1, K, N).swapaxes(1, 2).reshape(-1, K * N)
    x, places = X.reshape(-1), np.array([0, 6, 7, 20])
    np.testing.assert_allclose(design.matvec(x), whole @ x, atol=1e-14)
    np.testing.assert_allclose(design.rmatvec(whole @ x), whole.T @ whole @ x, atol=1e-13)
    np.testing.assert_allclose(design.combined(places, x[places]), whole[:, places] @ x[places], atol=1e-14)


@pytest.mark.parametrize("C", [fw.L1Ball(3.0), fw.L1Ball(1e3), fw.GroupBall(np.repeat(np.arange(N), K), 3.0)])
@pytest.mark.parametrize("intercept", [False, True])
def test_working_sets_find_the_minimum_of_another_method(features, intercept, C):
    f = softmax(features, intercept=intercept)
    found = fw.minimize(f, C, tol=1e-9)
    assert found.method == "working-set"
    assert found.success
    other = fw.minimize(f, C, method="apg", tol=1e-7, max_iter=1000)
    assert -found.gap - 1e-14 <= other.fun - found.fun <= other.gap + 1e-14


def test_working_sets_are_smaller_than_all_coefficients():
    rng = np.random.default_rng(1)
    wide = sp.random_array((80, 2000), density=0.02, rng=rng, format="csc", data_sampler=rng.standard_normal)
    f = softmax(wide, rng.integers(0, K, 80), intercept=True)
    found = fw.minimize(f, fw.L1Ball(5.0), tol=1e-8)
    assert found.success
    assert np.count_nonzero(found.x) < 100
    assert found.n_design < found.n_grad  # most gradients are products with few columns
    other = fw.minimize(f, fw.L1Ball(5.0), method="corrective", tol=1e-8)
    assert found.fun == pytest.approx(other.fun, abs=2e-8)


@pytest.mark.parametrize("model", [L1Classifier(tol=1e-7), GroupClassifier(tol=1e-7)])
def test_a_path_of_three_classes_has_the_minima_of_single_fits(features, model):
    path = radius_path(features, CODES, estimator=model, n_radii=6, eps=0.3)
    f = softmax(features, intercept=True)
    for radius, coef, gap in zip(path.radii, path.coefs, path.dual_gaps, strict=True):
        alone = model.set_params(radius=radius).fit(features, CODES)
        warm, cold = f.value(f.point(coef.T)), f.value(f.point(alone.coef_.T))
        assert -gap - 1e-12 <= cold - warm <= alone.dual_gap_ + 1e-12


@pytest.mark.parametrize("intercept", [True, False])
def test_the_multinomial_loss_has_the_derivatives_that_it_says(intercept):
    f, x = softmax(DENSE, CODES, WEIGHTS + 1, intercept), X
    assert fw.checks.gradient_error(f, x) < 1e-6
    p, end = f.point(x), f.point(np.zeros((N, K)))
    units = [f.lift(fw.OneHot(j, 1.0, (N, K))) for j in range(N * K)]
    model = f.model(p, f.gradient)
    left, right = model.stack(units)
    np.testing.assert_allclose(left @ (model.second * (x.reshape(-1) @ right) - model.pull), f.gradient(p).ravel())
    h = 1e-6
    H = [
        (f.gradient(f.point(x + e)) - f.gradient(f.point(x - e))).ravel() / (2 * h)
        for e in h * np.eye(N * K).reshape(-1, N, K)
    ]
    np.testing.assert_allclose((left * model.second) @ right.T, H, atol=1e-7)
    line = f.along(p, end, f.value(p))
    assert line.value(0.4) == pytest.approx(f.value(p.mix([(0.4, end)])), rel=1e-12)
    assert line.slope(0.4) == pytest.approx((line.value(0.4 + h) - line.value(0.4 - h)) / (2 * h), rel=1e-5)
    assert line.second(0.4) == pytest.approx((line.slope(0.4 + h) - line.slope(0.4 - h)) / (2 * h), rel=1e-5)
    assert line.second(0.4) <= line.curvature
    saturated = f.point(1e3 * x)
    assert np.isfinite(f.value(saturated))
    assert not intercept or np.abs(f.dual(saturated).reshape(3, -1).sum(axis=1)).max() < 1e-12
