"""Objectives as functions of some entries agree with the whole objective and with difference quotients."""

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.designs import Counts, as_design
from tests.catalogue import design, labels, targets

M, N = 30, 12
PLACES = {"all": None, "some": np.array([0, 3, 4, 8, 11]), "one": np.array([4]), "empty columns": np.array([2, 7])}
KINDS = {"dense": np.array, "F": np.asfortranarray, "csc": sp.csc_array, "csr": sp.csr_array}
RHO = 0.7


def matrix():
    """A matrix with zeros, empty columns and an empty row."""
    A = design(M, N) * (design(M, N, 10) > 0.3)
    A[5], A[:, 2], A[:, 7] = 0, 0, 0
    return A


def weights():
    w = np.random.default_rng(3).uniform(0.1, 3, M)
    w[4] = 0
    return w


def data(loss):
    return labels(M) if loss == "logistic" else targets(M)


def model(kind="dense", loss="squared", weighed=False, intercept=False, dtype=np.float64, scale="mean"):
    A = KINDS[kind](matrix().astype(dtype))
    w = weights() if weighed else None
    return fw.LinearModel(A, data(loss), loss, rho=RHO, weights=w, intercept=intercept, scale=scale)


def losses(loss, z, b):
    if loss == "squared":
        return (z - b) ** 2 / 2
    if loss == "logistic":
        return np.logaddexp(0, -b * z)
    r = np.abs(z - b)
    return np.where(r <= RHO, r**2 / 2, RHO * (r - RHO / 2))


def plain_value(x, loss, weighed, intercept, scale="mean"):
    """The objective in double precision, with an intercept found by ternary search."""
    w = weights() if weighed else np.ones(M)
    factor = 1 / w.sum() if scale == "mean" else 1.0
    z = matrix() @ x

    def total(c):
        return factor * float(w @ losses(loss, z + c, data(loss)))

    if not intercept:
        return total(0.0)
    low, high = -50.0, 50.0
    for _ in range(200):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if total(a) < total(b) else (a, high)
    return total((low + high) / 2)


def start(seed=0, nonzero=True):
    """A point whose entries outside of the places are zero or not."""
    x = 0.5 * np.random.default_rng(seed).standard_normal(N)
    return x if nonzero else x * 0


CASES = [
    (kind, loss, weighed, intercept)
    for kind in KINDS
    for loss in ("squared", "logistic", "huber")
    for weighed in (False, True)
    for intercept in (False, True)
]


def at(f, v):
    return v, f.image(v)


@pytest.mark.parametrize("rest", ["at zero", "elsewhere"])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize(("kind", "loss", "weighed", "intercept"), CASES)
@pytest.mark.sampled(3)
def test_linear_models_on_some_columns(kind, loss, weighed, intercept, places, rest):
    whole, own = model(kind, loss, weighed, intercept), PLACES[places]
    used = np.arange(N) if own is None else own
    x = start(nonzero=rest == "elsewhere")
    f = whole.restricted(whole.point(x), own)
    assert f.convex
    assert f.quadratic == (loss == "squared")
    assert f.work > 0 or places == "empty columns"
    rng = np.random.default_rng(1)

    def full(v):
        if own is None:
            return v
        y = x.copy()
        y[own] = v
        return y

    u, v = x[used], rng.standard_normal(len(used))
    for p in (u, v):
        z = f.image(p)
        point = whole.point(full(p))
        np.testing.assert_allclose(f.gradient(p, z), np.asarray(whole.gradient(point))[used], atol=1e-13)
        expected = plain_value(full(p), loss, weighed, intercept) - plain_value(full(u), loss, weighed, intercept)
        assert f.value(p, z) - f.value(*at(f, u)) == pytest.approx(expected, abs=1e-12)
        # The gradient is that of the formula, by difference quotients.
        d = rng.standard_normal(len(used))
        ends = [plain_value(full(p + s * d), loss, weighed, intercept) for s in (-1e-5, 1e-5)]
        assert f.gradient(p, z) @ d == pytest.approx((ends[1] - ends[0]) / 2e-5, abs=1e-8)
    d, zu, zv = v - u, f.image(u), f.image(v)
    found, rise = f.curvature(d, zu, zv), float(f.gradient(u, zu) @ d)
    if intercept and loss != "squared":
        # An upper bound on the mean second derivative, exact for short segments.
        assert f.value(v, zv) - f.value(u, zu) - rise <= found <= whole.steepest * float((zv - zu) @ (zv - zu))
        step, far = 1e-4 * d, 1e-2
    else:
        step, far = d, 1e-9
    # The mean second derivative is the difference of the slopes of the ends.
    end, ze = u + step, f.image(u + step)
    mean = float((f.gradient(end, ze) - f.gradient(u, zu)) @ step)
    assert f.curvature(step, zu, ze) == pytest.approx(mean, rel=far, abs=1e-13)
    assert f.curvature(np.zeros_like(d), zu, zu) == 0
    # An affine image: that of an extrapolated vector needs no product.
    np.testing.assert_allclose(f.image(v + 0.7 * (v - u)), zv + 0.7 * (zv - zu), atol=1e-12)


@pytest.mark.parametrize("free", [[0], [0, 1, 3, 4], [0, 1, 2, 3, 4]], ids=len)
@pytest.mark.parametrize("places", ["all", "some"])
@pytest.mark.parametrize(("kind", "loss", "weighed", "intercept"), CASES)
@pytest.mark.sampled(3)
def test_hessians_of_linear_models(kind, loss, weighed, intercept, places, free):
    whole, own, free = model(kind, loss, weighed, intercept), PLACES[places], np.array(free)
    x = start()
    f = whole.restricted(whole.point(x), own)
    v = x if own is None else x[own]
    H = f.hessian(f.image(v), free)
    assert H.shape == (len(free), len(free))
    np.testing.assert_allclose(H, H.T, atol=1e-14)
    columns = []
    for j in free:
        e = np.zeros_like(v)
        e[j] = 1e-6
        ends = [f.gradient(*at(f, v + s * e))[free] for s in (-1, 1)]
        columns.append((ends[1] - ends[0]) / 2e-6)
    np.testing.assert_allclose(H, np.array(columns).T, atol=1e-8)
    product = f.hessian_product(f.image(v), free)
    for seed in range(3):  # the function is called again and again
        p = np.random.default_rng(seed).standard_normal(len(free))
        np.testing.assert_allclose(product(p), H @ p, atol=1e-13)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_not_means(kind, places):
    mean, total = (model(kind, "huber", scale=scale) for scale in ("mean", "sum"))
    fs = [g.restricted(g.point(start()), PLACES[places]) for g in (mean, total)]
    v = np.ones(N if PLACES[places] is None else len(PLACES[places]))
    np.testing.assert_allclose(M * fs[0].gradient(*at(fs[0], v)), fs[1].gradient(*at(fs[1], v)), atol=1e-12)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(3)
def test_single_precision_stays_and_is_as_accurate_as_it_can_be(kind, loss, intercept, places):
    own = PLACES[places]
    single, double = (model(kind, loss, True, intercept, dtype) for dtype in (np.float32, np.float64))
    x = start()
    # The matrix is rounded, so that the double model gets the rounded matrix, too.
    double = fw.LinearModel(
        KINDS[kind](matrix().astype(np.float32).astype(float)),
        data(loss).astype(np.float32).astype(float),
        loss,
        rho=RHO,
        weights=weights().astype(np.float32),
        intercept=intercept,
    )
    f, g = (model.restricted(model.point(x.astype(dtype)), own) for model, dtype in ((single, "f4"), (double, "f8")))
    v = (x if own is None else x[own]).astype(np.float32)
    z, exact = f.image(v), g.image(v.astype(float))
    assert z.dtype == f.gradient(v, z).dtype == np.float32
    np.testing.assert_allclose(f.gradient(v, z), g.gradient(v, exact), atol=1e-5)
    assert f.hessian(z, np.array([0])).dtype == np.float32
    assert f.hessian_product(z, np.array([0]))(np.ones(1, np.float32)).dtype == np.float32


def symmetric(indefinite, dtype=np.float64):
    B = design(N, N, 4)
    H = (B + B.T if indefinite else B @ B.T).astype(dtype)
    return (H + H.T) / 2


@pytest.mark.parametrize("rest", ["at zero", "elsewhere"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("indefinite", [False, True])
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(2)
def test_quadratics_on_some_entries(kind, places, indefinite, dtype, rest):
    H, b, own = symmetric(indefinite, dtype), targets(N).astype(dtype), PLACES[places]
    whole = fw.Quadratic(KINDS[kind](H), b)
    used = np.arange(N) if own is None else own
    x = start(nonzero=rest == "elsewhere").astype(dtype)
    f = whole.restricted(whole.point(x), own)
    few = 1e-12 if dtype == np.float64 else 1e-4
    assert f.quadratic

    def full(v):
        y = x.astype(float)
        y[used] = v
        return y

    def value(v):
        return full(v) @ (H.astype(float) @ full(v) / 2 - b)

    u, v = x[used], np.random.default_rng(1).standard_normal(len(used)).astype(dtype)
    for p in (u, v):
        z = f.image(p)
        assert z.dtype == f.gradient(p, z).dtype == dtype
        np.testing.assert_allclose(f.gradient(p, z), (H.astype(float) @ full(p) - b)[used], atol=few)
        assert f.value(p, z) - f.value(*at(f, u)) == pytest.approx(value(p) - value(u), abs=few)
    d = v - u
    assert f.curvature(d, f.image(u), f.image(v)) == pytest.approx(float(d @ H[np.ix_(used, used)] @ d), abs=10 * few)
    for free in (np.arange(len(used)), np.arange(0, len(used), 2)):
        rows = used[free]
        np.testing.assert_array_equal(f.hessian(f.image(v), free), H[np.ix_(rows, rows)])
        p = targets(len(free)).astype(dtype)
        np.testing.assert_allclose(f.hessian_product(f.image(v), free)(p), H[np.ix_(rows, rows)] @ p, atol=few)


def test_quadratics_are_not_known_to_be_convex():
    f = fw.Quadratic(symmetric(True))
    for places in PLACES.values():
        assert not f.restricted(f.point(start()), places).convex


def test_rows_without_entries_are_left_out():
    A = sp.random_array((1000, 50), density=0.01, rng=np.random.default_rng(0), format="csc")
    f = fw.LinearModel(A, targets(1000))
    places = np.array([3, 4, 20])
    rows = len(np.unique(A[:, places].indices))
    assert 0 < rows < 100
    assert f.restricted(f.point(np.zeros(50)), places).image(np.ones(3)).shape == (rows,)
    centred = fw.LinearModel(A, targets(1000), intercept=True)  # the intercept depends on all rows
    assert centred.restricted(centred.point(np.zeros(50)), places).image(np.ones(3)).shape == (1000,)


@pytest.mark.parametrize("kind", KINDS)
def test_products_count_as_shares_of_a_pass(kind):
    counts = Counts()
    whole = model(kind, "logistic").counted_by(counts)
    point = whole.point(start())
    places, before = PLACES["some"], counts.n_design
    f = whole.restricted(point, places)
    assert counts.n_design - before == pytest.approx(5 / N)
    v = np.ones(5)
    z, before = f.image(v), counts.n_design
    f.gradient(v, z)
    f.image(v)
    assert counts.n_design - before == pytest.approx(2 * 5 / N)
    before = counts.n_design
    f.value(v, z), f.curvature(v, z, z)
    assert counts.n_design == before
    f = whole.restricted(point, None)
    assert counts.n_design == before
    z = f.image(start())
    f.gradient(start(), z)
    assert counts.n_design == before + 2
    product = f.hessian_product(z, np.arange(N))
    product(np.ones(N))
    assert counts.n_design == before + 4


@pytest.mark.parametrize("kind", KINDS)
def test_products_with_the_hessian_in_few_entries_are_shares(kind):
    """Copied columns are multiplied instead of all: one share for the copy, and two for each product."""
    counts = Counts()
    whole = model(kind, "logistic").counted_by(counts)
    f = whole.restricted(whole.point(start()), None)
    z, before = f.image(start()), counts.n_design
    product = f.hessian_product(z, np.arange(4))
    for _ in range(3):
        product(np.ones(4))
    assert counts.n_design - before == pytest.approx(7 * 4 / N)


def test_hessians_of_all_columns_count_the_columns_that_they_read():
    counts = Counts()
    f = model("dense", "logistic").counted_by(counts)
    point = f.point(start())
    g = f.restricted(point, None)
    z, before = g.image(start()), counts.n_design
    g.hessian(z, np.arange(4))
    assert before < counts.n_design <= before + 3 * 4 / N


def test_constant_columns_in_models_with_an_intercept_have_no_slope():
    A = np.column_stack([design(M, 3), np.full(M, 1e8), 1e8 + 1e-3 * design(M, 1, 5)[:, 0]])
    f = fw.LinearModel(A, targets(M), intercept=True).counted_by(Counts())
    places = np.array([1, 3, 4])
    g = f.restricted(f.point(np.zeros(5)), places)
    v = np.array([0.5, -1.0, 2.0])
    slopes = g.gradient(*at(g, v))
    assert slopes[1] == 0
    x = np.zeros(5)
    x[places] = v
    np.testing.assert_allclose(slopes, np.asarray(f.gradient(f.point(x)))[places], rtol=1e-9)
    np.testing.assert_array_equal(g.hessian(g.image(v), np.array([1])), [[0.0]])


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_extreme_images_give_numbers(loss):
    """Saturated losses have neither slope nor curvature."""
    A = 1e150 * matrix()
    f = fw.LinearModel(A, data(loss), loss)
    g = f.restricted(f.point(np.zeros(N)), PLACES["some"])
    v = 1e-140 * np.ones(5)
    z = g.image(v)
    assert np.isfinite(g.value(v, z))
    assert np.isfinite(g.gradient(v, z)).all()
    assert np.isfinite(g.curvature(v, g.image(0 * v), z))


def test_matrix_objectives_and_black_boxes_have_no_restriction():
    f = fw.Smooth(lambda x: float(x @ x), lambda x: 2 * x)
    assert f.restricted(f.point(np.zeros(3)), None) is None
    f = fw.MatrixCompletion([0, 1], [1, 0], [1.0, 2.0], (2, 2))
    assert f.restricted(f.point(np.zeros((2, 2))), None) is None


def test_designs_of_ones_own_are_restricted_by_their_columns():
    A = as_design(matrix())
    for D in (A, sp.csr_array(matrix())):
        f = fw.LinearModel(D, targets(M))
        g = f.restricted(f.point(start()), PLACES["some"])
        expected = np.asarray(f.gradient(f.point(start())))[PLACES["some"]]
        np.testing.assert_allclose(g.gradient(*at(g, start()[PLACES["some"]])), expected, atol=1e-14)
