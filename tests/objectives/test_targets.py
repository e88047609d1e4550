"""Models of several targets or classes: are they sums over the targets, and their restrictions the loss itself?"""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import xlogy
from sklearn.linear_model import LogisticRegression, MultiTaskElasticNet, MultiTaskLasso

import fwflow as fw
from fwflow import designs
from fwflow.designs import Counts, TargetDesign, as_design
from fwflow.objectives.losses import Softmax, find_loss
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


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scale", ["mean", "sum"])
@pytest.mark.parametrize("loss", [*TARGETS, "quantile"])
def test_the_loss_of_several_targets_is_the_sum_of_their_losses(features, loss, scale, intercept, weights):
    Y = TARGETS.get(loss, TARGETS["huber"])
    options = {"loss": loss, "weights": weights, "intercept": intercept, "scale": scale}
    if loss == "softmax":  # of two classes: the logistic loss of a difference
        Y, X2 = np.where(CODES > 0, 1.0, -1.0), X[:, :2]
        f = fw.LinearModel(features, Y, **options)
        alone = [fw.LinearModel(features, Y, **(options | {"loss": "logistic"}))]
        points, back = [X2[:, 1] - X2[:, 0]], lambda g: np.stack([-g[0], g[0]], axis=1)
        ahead = np.ptp(f.intercept_at(X2)) * np.sign(f.intercept_at(X2)[1])
        assert f.classes.tolist() == [-1, 1]
        assert ahead == pytest.approx(alone[0].intercept_at(points[0]), abs=1e-9)
    else:
        X2, f = X, fw.LinearModel(features, Y, **options)
        alone = [fw.LinearModel(features, y, **options) for y in Y.T]
        points, back = list(X.T), lambda g: np.stack(g, axis=1)
        np.testing.assert_allclose(
            f.intercept_at(X), [g.intercept_at(x) for g, x in zip(alone, points, strict=True)], atol=1e-12
        )
    assert f.shape == X2.shape
    assert f.intercept_at(X2).shape == X2.shape[1:]
    at = [g.point(x) for g, x in zip(alone, points, strict=True)]
    assert f.value(f.point(X2)) == pytest.approx(sum(g.value(p) for g, p in zip(alone, at, strict=True)), rel=1e-12)
    np.testing.assert_allclose(
        f.gradient(f.point(X2)), back([g.gradient(p) for g, p in zip(alone, at, strict=True)]), rtol=1e-9, atol=1e-12
    )


def test_one_column_of_targets_is_a_matrix():
    f = fw.LinearModel(DENSE, TARGETS["squared"][:, :1], intercept=True)
    r = fw.minimize(f, fw.L1Ball(1.0), tol=1e-10)
    vector = fw.LinearModel(DENSE, TARGETS["squared"][:, 0], intercept=True)
    np.testing.assert_allclose(r.x[:, 0], fw.minimize(vector, fw.L1Ball(1.0), tol=1e-10).x, atol=1e-6)
    assert r.x.shape == (N, 1)
    assert f.intercept_at(r.x) == pytest.approx(vector.intercept_at(r.x[:, 0]))


ROWS = fw.GroupBall(np.repeat(np.arange(N), 3), 1.0)


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array])
def test_row_groups_are_the_multi_task_lasso_of_scikit_learn(kind):
    Y, alpha = TARGETS["squared"], 0.3
    theirs = MultiTaskLasso(alpha, tol=1e-12, max_iter=10**5).fit(DENSE, Y)
    again = MultiTaskElasticNet(alpha, l1_ratio=1.0, tol=1e-12, max_iter=10**5).fit(DENSE, Y)
    np.testing.assert_allclose(again.coef_, theirs.coef_, atol=1e-10)
    sizes = np.linalg.norm(theirs.coef_, axis=0)
    assert 0 < np.count_nonzero(sizes) < N
    f, C = fw.LinearModel(kind(DENSE), Y, intercept=True), float(sizes.sum()) * ROWS
    for method in ("auto", "working-set", "apg", "corrective"):
        r = fw.minimize(f, C, method=method, tol=1e-12, max_iter=2000)
        assert r.gap <= 1e-10
        np.testing.assert_allclose(r.x, theirs.coef_.T, atol=1e-5)
        np.testing.assert_allclose(f.intercept_at(r.x), theirs.intercept_, atol=1e-5)
    # The mean over the rows is the loss of scikit-learn, so that its penalty is the slope of the minimum in the radius.
    g = f.gradient(f.point(r.x))
    assert np.linalg.norm(g, axis=1).max() == pytest.approx(alpha, rel=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csc_array])
def test_softmax_over_the_l1_ball_is_the_multinomial_regression_of_scikit_learn(kind):
    theirs = LogisticRegression(l1_ratio=1, C=0.8, solver="saga", tol=1e-10, max_iter=10**5)
    theirs.fit(DENSE, np.array(["c", "a", "b"])[CODES], sample_weight=WEIGHTS)
    f = fw.LinearModel(kind(DENSE), np.array(["c", "a", "b"])[CODES], "softmax", weights=WEIGHTS, intercept=True)
    assert f.classes.tolist() == theirs.classes_.tolist() == ["a", "b", "c"]
    radius = float(np.abs(theirs.coef_).sum())
    for method in ("auto", "apg", "corrective", "away"):
        r = fw.minimize(f, fw.L1Ball(radius), method=method, tol=1e-9, max_iter=2000)
        assert r.fun == pytest.approx(f.value(f.point(theirs.coef_.T)), abs=1e-8)
        np.testing.assert_allclose(r.x, theirs.coef_.T, atol=1e-3)
    slope = np.abs(f.gradient(f.point(r.x))).max()
    assert slope * 0.8 * WEIGHTS.sum() == pytest.approx(1.0, rel=1e-3)


SETS = {
    "nuclear": (fw.NuclearBall(1.2), lambda W: [cp.normNuc(W) <= 1.2]),
    "rows": (1.2 * ROWS, lambda W: [cp.mixed_norm(W, 2, 1) <= 1.2]),
    "l1": (fw.L1Ball(1.2), lambda W: [cp.sum(cp.abs(W)) <= 1.2]),
    "simplex": (fw.Simplex(1.2), lambda W: [W >= 0, cp.sum(W) == 1.2]),
    "box": (fw.Box(-0.1, 0.2), lambda W: [W >= -0.1, W <= 0.2]),
}
LOSSES = {
    "squared": lambda Z, Y: 0.5 * cp.sum(cp.square(Z - Y), axis=1),
    "huber": lambda Z, Y: 0.5 * cp.sum(cp.huber(Z - Y, 1.0), axis=1),
    "logistic": lambda Z, Y: cp.sum(cp.logistic(-cp.multiply(Y, Z)), axis=1),
    "poisson": lambda Z, Y: cp.sum(cp.exp(Z) - cp.multiply(Y, Z) + xlogy(Y, Y) - Y, axis=1),
    "softmax": lambda Z, Y: cp.log_sum_exp(Z, axis=1) - cp.sum(cp.multiply(np.eye(K)[Y], Z), axis=1),
}
METHODS = ("auto", "working-set", "apg", "corrective", "away", "blended-pairwise", "flow", "rk44", "fw")


@cache
def optimum(loss, name):
    W, c = cp.Variable((N, 3)), cp.Variable((1, 3))
    Z = DENSE @ W + np.ones((M, 1)) @ c
    objective = (WEIGHTS / WEIGHTS.sum()) @ LOSSES[loss](Z, TARGETS[loss])
    problem = cp.Problem(cp.Minimize(objective), SETS[name][1](W))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("name", "method"), [(n, m) for n in SETS for m in METHODS if m != "flow" or n in ("l1", "simplex", "box")]
)
@pytest.mark.parametrize("loss", LOSSES)
def test_optima_agree_with_an_independent_solver(loss, name, method):
    C, best = SETS[name][0], optimum(loss, name)
    f = fw.LinearModel(DENSE, TARGETS[loss], loss, weights=WEIGHTS, intercept=True)
    r = fw.minimize(f, C, np.asarray(C.start(f.shape)), method=method, tol=1e-7, max_iter=300)
    few = 1e-7 * (1 + abs(best))
    assert best - few <= r.fun <= best + r.gap + few
    assert r.success or method not in ("auto", "working-set", "apg")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("loss", ["squared", "poisson", "softmax"])
def test_data_in_files_and_in_memory_have_one_minimum(loss, dtype, tmp_path):
    np.save(tmp_path / "A.npy", DENSE.astype(dtype))
    tol = 1e-5 if dtype == np.float32 else 1e-8
    found = [
        fw.minimize(fw.LinearModel(A, TARGETS[loss], loss, intercept=True), fw.NuclearBall(1.0), tol=tol)
        for A in (designs.open(tmp_path / "A.npy"), DENSE.astype(dtype), sp.csr_array(DENSE.astype(dtype)))
    ]
    assert all(r.success and r.x.dtype == dtype for r in found)
    assert np.ptp([r.fun for r in found]) <= 2 * tol


class Plain(fw.Design):
    """A design of a user with single products only, which it returns in the same buffers."""

    def __init__(self, A):
        self.A, self.shape, self.dtype = A, A.shape, A.dtype
        self.buffers = [np.zeros(size) for size in A.shape]

    def matvec(self, x):
        return np.matmul(self.A, x, out=self.buffers[0])

    def rmatvec(self, r):
        return np.matmul(self.A.T, r, out=self.buffers[1])

    def column(self, j):
        return fw.DenseVertex(self.A[:, j])


@pytest.mark.parametrize(
    ("kind", "passes"), [(np.asarray, 1), (sp.csc_array, 1), (Plain, K)], ids=["dense", "sparse", "single products"]
)
def test_a_gradient_is_one_pass_for_all_targets(kind, passes):
    counts = Counts()
    f = fw.LinearModel(kind(DENSE), TARGETS["squared"], intercept=True).counted_by(counts)
    point = f.point(X)
    assert counts.n_design == passes
    np.testing.assert_allclose(point.image.reshape(K, -1).T, DENSE @ X, atol=1e-12)
    np.testing.assert_allclose(f.gradient(point), DENSE.T @ f.dual(point).reshape(K, -1).T, atol=1e-12)
    assert counts.n_design == 2 * passes


@pytest.mark.parametrize(
    ("b", "loss", "message"),
    [
        (np.zeros((M, 2, 2)), "squared", r"b must have 2 dimension\(s\); got shape \(40, 2, 2\)"),
        (np.zeros((M, 0)), "squared", r"one column per target; its shape is \(40, 0\)"),
        (np.zeros((M - 1, 2)), "squared", "b has 39 entries; A has 40 rows"),
        (np.zeros((M, 2)), "logistic", "labels -1 and \\+1"),
        (np.zeros(M), "softmax", r"two classes or more .*; it holds \[0.0\] only"),
        (np.r_[np.nan, CODES[1:]], "softmax", "it holds NaN"),
        (np.eye(M)[:, :2], "softmax", r"one class per row .*; its shape is \(40, 2\)"),
        (np.array([*CODES[1:], "a"], dtype=object), "softmax", "classes of one kind"),
        (CODES, "sofmax", "did you mean 'softmax'"),
        (CODES[1:], "softmax", "b has 39 entries; A has 40 rows"),
    ],
)
def test_targets_and_classes_that_do_not_fit_are_refused(b, loss, message):
    with pytest.raises(ValueError, match=message):
        fw.LinearModel(DENSE, b, loss)


def test_classes_without_weight_have_no_intercept():
    with pytest.raises(ValueError, match="a class has no row with a positive weight"):
        softmax(DENSE, weights=(CODES > 0) + 0.0, intercept=True)


MAKERS = [lambda loss: fw.MatrixCompletion([0], [0], [1.0], (2, 2), loss=loss).loss, lambda loss: find_loss(loss, 1)]


@pytest.mark.parametrize("make", MAKERS)
def test_the_multinomial_loss_is_for_linear_models_only(make):
    with pytest.raises(ValueError, match="loss='softmax' is not known"):
        make("softmax")
    with pytest.raises(ValueError, match="needs classes"):
        make(Softmax(2)).check(np.ones(1))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", TARGETS)
def test_the_objective_ahead_is_that_of_the_mixed_points(loss, intercept):
    f = fw.LinearModel(DENSE, TARGETS[loss], loss, weights=WEIGHTS, intercept=intercept)
    g, S = f.ahead(f.point(X), 0.25), X[::-1] / 2
    there, mixed = g.point(S), f.point(0.75 * X + 0.25 * S)
    assert g.value(there) == pytest.approx(f.value(mixed), rel=1e-12)
    np.testing.assert_allclose(g.gradient(there), 0.25 * np.asarray(f.gradient(mixed)), atol=1e-12)
    if intercept:
        np.testing.assert_allclose(np.ptp(0.25 * g.intercept_at(S)), np.ptp(f.intercept_at(mixed.x)), rtol=1e-9)


@pytest.mark.parametrize("model", [L1Classifier(tol=1e-12), GroupClassifier(tol=1e-12)])
@pytest.mark.parametrize("rare", [1e-3, 1e-8])
def test_losses_near_zero_keep_their_precision(model, rare):
    weights = np.array([1.0, rare, rare])[CODES]
    fitted = model.set_params(max_iter=100).fit(DENSE, CODES, weights)  # a ConvergenceWarning is an error
    f = fw.LinearModel(DENSE, CODES, "softmax", weights=weights, intercept=True)
    assert fitted.dual_gap_ <= 1e-12 * f.value(f.point(np.zeros((N, K))))


def test_values_and_gradients_near_zero_are_exact():
    f = fw.LinearModel(np.eye(3), np.arange(3), "softmax")
    x = 40.0 * np.eye(3)
    assert f.value(f.point(x)) == pytest.approx(2 * np.exp(-40.0), rel=1e-14)
    exact = (np.ones((3, 3)) - 3 * np.eye(3)) * np.exp(-40.0) / 3
    np.testing.assert_allclose(f.gradient(f.point(x)), exact, rtol=1e-14)
