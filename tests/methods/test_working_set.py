"""Projected steps on working sets: optima, verified gaps, limits, counts, saved states and ugly data."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Lasso, LogisticRegression

import fwflow as fw
from fwflow.designs import DenseDesign
from fwflow.methods.restricted import projected_steps
from fwflow.objectives.columns import LossOnColumns
from fwflow.run.result import Status
from tests.catalogue import OBJECTIVES, SETS, design, labels, targets
from tests.methods.test_projected import PROJECTABLE
from tests.run.functions import CountingDesign, assert_same_run, counted, iterates, raising
from tests.test_optima import ACCURACY, assert_bounds, optimum

EPS = np.finfo(float).eps
RHO = 0.8
#: Small problems use all columns, and large ones a working set.
SIZES = {"all": (40, 60), "working set": (60, 1200)}


def balls(n):
    """name -> (set, g -> the minimum of <g, s>, written down independently of the set)"""
    shift = np.where(np.arange(n) % 7 == 0, 0.01, 0.0)
    groups = np.arange(n) // 4
    half = n // 2

    def group_norms(g):
        return np.sqrt(np.bincount(groups, np.asarray(g) ** 2))

    return {
        "l1": (fw.L1Ball(1.5), lambda g: -1.5 * np.abs(g).max()),
        "simplex": (fw.Simplex(1.5), lambda g: 1.5 * g.min()),
        "unit-simplex": (fw.UnitSimplex(1.5), lambda g: 1.5 * min(g.min(), 0.0)),
        "group": (fw.GroupBall(groups, 1.5), lambda g: -1.5 * group_norms(g).max()),
        "negative": (-1.5 * fw.Simplex(), lambda g: -1.5 * g.max()),
        "translated": (fw.L1Ball(1.5) + shift, lambda g: g @ shift - 1.5 * np.abs(g).max()),
        "product": (
            fw.Product([(fw.L1Ball(1.0), half), (fw.Simplex(0.5), n - half)]),
            lambda g: -np.abs(g[:half]).max() + 0.5 * g[half:].min(),
        ),
        "box": (fw.Box(-0.01, 0.02), lambda g: np.where(g > 0, -0.01, 0.02) @ g),
        "l2": (fw.L2Ball(1.5), lambda g: -1.5 * np.sqrt(g @ g)),
        "hypersimplex": (fw.HyperSimplex(3, 0.5), lambda g: 0.5 * np.sort(g)[:3].sum()),
        "k-sparse": (fw.KSparseBall(3, 0.5), lambda g: -0.5 * np.sort(np.abs(g))[-3:].sum()),
    }


def matrix(size, kind):
    m, n = SIZES[size]
    A = design(m, n)
    if kind == "sparse":
        A = A * (design(m, n, 3) > 1.0)
    return A


def truth(A, b, x, loss, weights=None, intercept=False):
    """Value and gradient in plain NumPy; the intercept is found by bisection of the slope."""
    w = np.ones(len(b)) if weights is None else weights
    w, z = w / w.sum(), A @ x

    def slopes(z):
        if loss == "squared":
            return z - b
        if loss == "logistic":
            return -b / (1 + np.exp(np.clip(b * z, None, 700)))
        return np.clip(z - b, -RHO, RHO)

    if intercept:
        low, high = -1e3, 1e3
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (low, middle) if w @ slopes(z + middle) > 0 else (middle, high)
        z = z + (low + high) / 2
    if loss == "squared":
        values = (z - b) ** 2 / 2
    elif loss == "logistic":
        values = np.logaddexp(0, -b * z)
    else:
        r = np.abs(z - b)
        values = np.where(r <= RHO, r**2 / 2, RHO * (r - RHO / 2))
    return w @ values, A.T @ (w * slopes(z))


def data(loss, m):
    return labels(m) if loss == "logistic" else targets(m)


def ran(f, C, *args, **options):
    return fw.minimize(f, C, *args, method="working-set", **options)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("extra", ["plain", "weights", "intercept", "both"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", balls(4))
def test_gaps_are_those_of_plain_numpy(name, size, loss, kind, extra):
    A = matrix(size, kind)
    m, n = A.shape
    b, (C, least) = data(loss, m), balls(n)[name]
    weights = np.random.default_rng(1).uniform(0.1, 2, m) if extra in ("weights", "both") else None
    intercept = extra in ("intercept", "both")
    X = sp.csr_array(A) if kind == "sparse" else A
    f = fw.LinearModel(X, b, loss, rho=RHO, weights=weights, intercept=intercept)
    r = ran(f, C, tol=1e-7)
    value, g = truth(A, b, r.x, loss, weights, intercept)
    gap = g @ r.x - least(g)
    assert r.success, r.message
    assert r.method == "working-set"
    assert gap <= 1e-7 * (1 + 1e-6)
    assert r.gap == pytest.approx(gap, abs=1e-12)
    assert r.fun == pytest.approx(value, rel=1e-12)
    assert C.contains(r.x)
    assert (np.diff(r.trace["fun"]) <= 4 * EPS * r.trace["fun"][0]).all()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("objective", [name for name in OBJECTIVES if name not in ("smooth", "beckmann")])
@pytest.mark.parametrize("name", [name for name in PROJECTABLE if len(SETS[name][1]) == 1])
def test_optima_agree_with_an_independent_solver(name, objective):
    C, (n,) = SETS[name]
    best = optimum(name, objective)
    r = ran(OBJECTIVES[objective](n, 0), C, tol=1e-7, max_iter=1000)
    assert_bounds(r, best)
    assert r.success
    assert r.fun <= best + ACCURACY * (1 + abs(best))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_lasso_of_scikit_learn(kind):
    A, b = matrix("working set", kind), targets(60)
    theirs = Lasso(alpha=0.2, fit_intercept=False, tol=1e-10, max_iter=10**6).fit(A, b).coef_
    r = ran(fw.LinearModel(sp.csc_array(A) if kind == "sparse" else A, b), fw.L1Ball(np.abs(theirs).sum()), tol=1e-12)
    np.testing.assert_allclose(r.x, theirs, atol=1e-5)
    assert r.fun == pytest.approx(((A @ theirs - b) ** 2).sum() / 120, rel=1e-8)


def test_the_sparse_logistic_regression_of_scikit_learn():
    A, b = matrix("working set", "dense"), labels(60)
    theirs = LogisticRegression(l1_ratio=1.0, C=0.5, fit_intercept=False, solver="liblinear", tol=1e-9, max_iter=10**5)
    coef = theirs.fit(A, b).coef_[0]
    r = ran(fw.LinearModel(A, b, "logistic"), fw.L1Ball(np.abs(coef).sum()), tol=1e-12)
    np.testing.assert_allclose(r.x, coef, atol=1e-4)


def test_few_columns_are_read_if_few_matter():
    A = np.random.default_rng(0).standard_normal((50, 5000))
    b = A[:, 7] - A[:, 4000]
    r = ran(fw.LinearModel(A, b), fw.L1Ball(1.9), tol=1e-9)
    assert r.success
    assert set(np.flatnonzero(r.x)) >= {7, 4000}
    assert r.nit <= 5
    assert r.n_design < 4 * r.nit + 12  # full gradients, and shares for a hundred steps


# Ugly data


def wide(m=30, n=500, seed=0):
    return np.random.default_rng(seed).standard_normal((m, n))


def scaled_columns():
    A = wide()
    A[:, ::2] *= 1e8
    return A


UGLY = {
    "one sample": (wide(1), np.ones(1)),
    "one column": (wide(30, 1), targets(30)),
    "one entry": (np.ones((1, 1)), np.ones(1)),
    "two columns": (wide(30, 2), targets(30)),
    "zero": (np.zeros((5, 500)), targets(5)),
    "zero columns": (wide() * (np.arange(500) % 3 == 0), targets(30)),
    "constant columns": (np.where(np.arange(500) % 3 == 0, 1.0, wide()), targets(30)),
    "duplicate columns": (np.repeat(wide(30, 50), 10, axis=1), targets(30)),
    "duplicate rows": (np.repeat(wide(3), 10, axis=0), np.repeat(targets(3), 10)),
    "scaled columns": (scaled_columns(), 1e8 * targets(30)),
    "zero targets": (wide(), np.zeros(30)),
    "huge targets": (wide(), 1e12 * targets(30)),
    "tiny": (1e-12 * wide(), 1e-12 * targets(30)),
    "exact": (wide(), wide()[:, 3]),
    "rank one": (np.outer(targets(30), targets(500, 5)), targets(30)),
    "ties": (np.sign(wide()), np.sign(targets(30))),
}


@pytest.mark.parametrize("radius", [1e-12, 1.0, 1e8])
@pytest.mark.parametrize("name", UGLY)
def test_ugly_data(name, radius):
    A, b = UGLY[name]
    for C, least in (
        (fw.L1Ball(radius), lambda g: -radius * np.abs(g).max()),
        (fw.Simplex(radius), lambda g: radius * g.min()),
    ):
        r = ran(fw.LinearModel(A, b), C, tol=0, rtol=1e-6, max_iter=200, max_time=20)
        value, g = truth(A, b, r.x, "squared")
        gap = g @ r.x - least(g)
        assert C.contains(r.x)
        assert r.fun == pytest.approx(value, rel=1e-6, abs=1e-25)
        start = truth(A, b, np.asarray(C.start(A.shape[1:])), "squared")[0]
        assert value <= start * (1 + 1e-12)
        rounding = (
            1e3
            * EPS
            * (np.abs(g) @ np.abs(r.x) + abs(least(g)) + radius * np.abs(A).max() * np.abs(A @ r.x - b).mean())
        )
        if r.success:
            assert gap <= 1e-6 * r.trace["gap"][0] * (1 + 1e-6) + rounding
        assert r.success or r.status is Status.FINISHED or gap <= rounding or "rounding" in r.message, r.message


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("radius", [1.0, 1e3, 1e8])
def test_separable_classes(size, radius):
    A = matrix(size, "dense")
    b = np.sign(A[:, 0])
    r = ran(fw.LinearModel(A, b, "logistic"), fw.L1Ball(radius), tol=1e-7, max_iter=500)
    value, g = truth(A, b, r.x, "logistic")
    # For the largest radius, margins are so large that the rounding of the gap exceeds the tolerance.
    assert r.success or (radius == 1e8 and r.status is Status.PRECISION), r.message
    assert g @ r.x + radius * np.abs(g).max() <= 1e-7 * (1 + 1e-6) or not r.success
    assert value <= 1e-3 * np.log(2) or radius == 1.0


@pytest.mark.parametrize("size", SIZES)
def test_single_precision(size):
    A = matrix(size, "dense").astype(np.float32)
    b = targets(len(A)).astype(np.float32)
    r = ran(fw.LinearModel(A, b), fw.L1Ball(1.5), tol=1e-4)
    assert r.success
    assert r.x.dtype == np.float32
    _, g = truth(A.astype(float), b.astype(float), r.x.astype(float), "squared")
    assert g @ r.x + 1.5 * np.abs(g).max() <= 1.1e-4
    assert fw.L1Ball(1.5).contains(r.x)


# Starts


@pytest.mark.parametrize("where", ["vertex", "worst vertex", "dense", "optimum", "inside"])
@pytest.mark.parametrize("size", SIZES)
def test_starts_of_ones_own(size, where):
    A = matrix(size, "dense")
    m, n = A.shape
    f, C = fw.LinearModel(A, targets(m)), fw.L1Ball(1.5)
    reference = ran(f, C, tol=1e-10)
    g = np.asarray(f.gradient(f.point(np.zeros(n))))
    x0 = {
        "vertex": np.asarray(C.lmo(g)),
        "worst vertex": np.asarray(C.lmo(-g)),
        "dense": np.full(n, 1.5 / n),
        "optimum": reference.x,
        "inside": 0.1 * reference.x,
    }[where]
    r = ran(f, C, x0, tol=1e-9)
    assert r.success
    assert r.fun == pytest.approx(reference.fun, abs=1e-9)
    assert r.nit <= (0 if where == "optimum" else 100)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("C", [fw.L1Ball(1.0), fw.Simplex(), fw.GroupBall(np.arange(1200) // 4)], ids=repr)
def test_a_zero_gradient_at_the_start_ends_the_run(size, C):
    A = matrix(size, "dense")
    n = A.shape[1]
    C = fw.GroupBall(np.arange(n) // 4) if isinstance(C, fw.GroupBall) else C
    r = ran(fw.LinearModel(A, A @ np.asarray(C.start((n,)))), C, tol=1e-12)
    assert r.success
    assert r.nit == 0


# Quadratics


@pytest.mark.parametrize("kind", [np.array, sp.csc_array])
@pytest.mark.parametrize("n", [40, 600])
@pytest.mark.parametrize("seed", range(3))
def test_indefinite_quadratics_never_increase(seed, n, kind):
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((n, n)) * (rng.random((n, n)) < 0.2)
    H, b = (B + B.T) / 2, rng.standard_normal(n)
    f = fw.Quadratic(kind(H), b)
    for C in (fw.L1Ball(3.0), fw.Simplex(2.0), fw.Box(-1.0, 1.0)):
        r = ran(f, C, tol=1e-6, max_iter=50)
        assert (np.diff(r.trace["fun"]) <= 1e-12 * np.abs(r.trace["fun"]).max()).all()
        assert r.fun == pytest.approx(r.x @ (H @ r.x / 2 - b), abs=1e-10)
        g = H @ r.x - b
        assert r.gap == pytest.approx(g @ r.x - C.lmo(g).dot(g), abs=1e-9)
        assert C.contains(r.x)
        assert r.success


@pytest.mark.parametrize("n", [40, 600])
def test_convex_quadratics(n):
    B = design(2 * n, n)
    H, b = B.T @ B / n, targets(n)
    for C in (fw.L1Ball(1.5), fw.Simplex(), fw.L1Ball(1.0) + np.full(n, 0.1)):
        r = ran(fw.Quadratic(H, b), C, tol=1e-9)
        g = H @ r.x - b
        assert r.success
        assert g @ r.x - C.lmo(g).dot(g) <= 1.01e-9


def test_a_concave_quadratic_ends_at_a_vertex():
    r = ran(fw.Quadratic(-np.eye(400), np.linspace(0, 1, 400)), fw.Simplex(), tol=1e-9)
    assert r.success
    np.testing.assert_array_equal(np.flatnonzero(r.x), [399])


# Limits


class Slow(DenseDesign):
    """A design with slow products."""

    pause = 0.02

    def matvec(self, x):
        time.sleep(self.pause)
        return super().matvec(x)

    def rmatvec(self, r):
        time.sleep(self.pause)
        return super().rmatvec(r)


def test_time_limits_hold_within_a_step():
    A = matrix("all", "dense")
    C = fw.L1Ball(1.5)
    start = time.perf_counter()
    r = ran(fw.LinearModel(Slow(A), labels(40), "logistic"), C, tol=0, max_time=0.5, max_iter=10**6)
    took = time.perf_counter() - start
    assert r.status is Status.TIME
    # A step, the verification and the start take a few products each.
    assert took < 0.5 + 25 * Slow.pause
    value, g = truth(A, labels(40), r.x, "logistic")
    assert r.fun == pytest.approx(value)
    assert r.gap == pytest.approx(g @ r.x + 1.5 * np.abs(g).max())
    assert value < np.log(2)


@pytest.mark.parametrize("size", SIZES)
def test_iterations_are_outer_steps(size):
    A = matrix(size, "dense")
    f, C = fw.LinearModel(A, labels(len(A)), "logistic"), fw.L1Ball(5.0)
    for limit in (0, 1, 2):
        r = ran(f, C, tol=0, max_iter=limit)
        assert r.nit == limit == len(r.trace) - 1
        assert r.status is Status.ITERATIONS
    points, r = iterates(f, C, method="working-set", tol=1e-8)
    assert len(points) - 1 == r.nit < 30


@pytest.mark.parametrize("call", [1, 2, 5, 15])
@pytest.mark.parametrize("size", SIZES)
def test_interruptions_keep_the_best_point(size, call, monkeypatch):
    A, C = matrix(size, "dense"), fw.L1Ball(1.5)
    f = fw.LinearModel(A, targets(len(A)))
    steps = raising(projected_steps.ProjectedSteps._gradient, call, KeyboardInterrupt)
    monkeypatch.setattr(projected_steps.ProjectedSteps, "_gradient", lambda self, v, z: steps(self, v, z))
    r = ran(f, C, tol=1e-12)
    assert r.status is Status.INTERRUPTED
    value, g = truth(A, targets(len(A)), r.x, "squared")
    assert r.fun == pytest.approx(value)
    assert r.fun == np.nanmin(r.trace["fun"])
    assert r.gap == pytest.approx(g @ r.x + 1.5 * np.abs(g).max())
    again = ran(f, C, tol=1e-9, state=r.state)
    assert again.success


# Saved states


@pytest.mark.parametrize("name", ["l1", "simplex", "group", "translated", "product", "box", "l2"])
@pytest.mark.parametrize("size", SIZES)
def test_continued_runs_are_the_same(size, name, tmp_path):
    A = matrix(size, "dense")
    m, n = A.shape
    f, C = fw.LinearModel(A, labels(m), "logistic"), balls(n)[name][0]
    whole = ran(f, C, tol=1e-13, max_iter=4)
    part = ran(f, C, tol=1e-13, max_iter=1)
    for _ in range(3):
        part.state.save(tmp_path / "state")
        part = ran(f, C, tol=1e-13, max_iter=1, state=fw.State.load(tmp_path / "state"))
    assert_same_run(part, whole)
    # Each of the four runs verifies its point.
    assert whole.n_grad <= part.n_grad <= whole.n_grad + 3
    assert whole.n_lmo <= part.n_lmo <= whole.n_lmo + 3


# Counts


class CountingSet(fw.L1Ball):
    """A set that counts the calls of its oracle."""

    def __init__(self, radius):
        super().__init__(radius)
        self.calls = 0

    def lmo(self, g, hint=None):
        self.calls += 1
        return super().lmo(g, hint)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_calls_on_all_columns_are_counted(loss):
    A, C = CountingDesign(matrix("all", "dense")), CountingSet(1.5)
    r = ran(fw.LinearModel(A, data(loss, 40), loss), C, tol=1e-8)
    assert r.success
    assert r.n_grad == A.products["rmatvec"].calls
    assert r.n_design >= A.passes * (1 - 1e-12)  # products with copied columns are counted too, as below


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_oracle_calls_and_gradients_are_counted(size, loss, monkeypatch):
    A = matrix(size, "dense")
    lmo, small, large = (
        counted(fw.L1Ball.lmo),
        counted(LossOnColumns._transposed),
        counted(fw.LinearModel.gradient),
    )
    monkeypatch.setattr(fw.L1Ball, "lmo", lambda *args: lmo(*args))
    monkeypatch.setattr(LossOnColumns, "gradient", lambda self, v, z: small(self, self.model.dual(fw.Point(v, z))))
    monkeypatch.setattr(fw.LinearModel, "gradient", lambda *args: large(*args))
    monkeypatch.setattr(fw.LinearModel, "evaluated", lambda *args: None)
    r = ran(fw.LinearModel(A, data(loss, len(A)), loss), fw.L1Ball(1.5), tol=1e-8)
    assert r.success
    assert r.n_lmo == lmo.calls
    assert r.n_grad == small.calls + large.calls
    assert small.calls > large.calls >= (1 if size == "all" else 3)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_shares_of_passes_are_counted(kind, monkeypatch):
    """Every product with a copied column, every copy, and every product with the whole matrix."""
    A = matrix("working set", kind)
    n = A.shape[1]
    f = fw.LinearModel(sp.csc_array(A) if kind == "sparse" else A, labels(60), "logistic")
    total = [0.0]

    def counting(cls, name, share):
        real = getattr(cls, name)

        def wrapper(self, *args):
            total[0] += share(self, *args)
            return real(self, *args)

        monkeypatch.setattr(cls, name, wrapper)

    counting(LossOnColumns, "_multiply", lambda self, v: len(v) / n)
    counting(LossOnColumns, "_transposed", lambda self, r: self.size / n)
    counting(LossOnColumns, "hessian", lambda self, z, free: 2 * len(free) / n)
    D = type(f.design)
    counting(D, "matvec", lambda self, x: 1)
    counting(D, "rmatvec", lambda self, r: 1)
    counting(D, "columns", lambda self, indices: len(indices) / n)
    r = ran(f, fw.L1Ball(3.0), tol=1e-9)
    assert r.success
    moved = r.n_design - total[0]  # images of sparse points, from their columns
    assert 0 <= moved <= r.nit * len(np.flatnonzero(r.x)) * 3 / n + 1e-9


# Parts of one's own


class Positive(fw.L1Ball):
    """The oracle of a simplex with the projection of a ball."""

    def lmo(self, g, hint=None):
        return fw.UnitSimplex(self.radius).lmo(g, hint)

    def contains(self, x, tol=1e-9):
        return fw.UnitSimplex(self.radius).contains(x, tol)


@pytest.mark.parametrize("size", SIZES)
def test_oracles_that_do_not_fit_are_found(size):
    A = matrix(size, "dense")
    f, C = fw.LinearModel(A, targets(len(A))), Positive(1.5)
    for method in ("working-set", "auto"):
        try:
            r = fw.minimize(f, C, method=method, tol=1e-7, max_iter=1000)
        except ValueError as error:
            assert "override both consistently" in str(error)  # noqa: PT017
        else:
            assert not r.success or (r.x >= -1e-9).all()


class Cubic(fw.objectives.losses.EntrywiseLoss):
    """A loss of one's own: log cosh of the residual."""

    curvature = 1.0

    def values(self, z, b):
        return np.logaddexp(z - b, b - z) - np.log(2)

    def derivative(self, z, b):
        return np.tanh(z - b)

    def second(self, z, b):
        return 1 / np.cosh(np.clip(z - b, -300, 300)) ** 2


class Steep(Cubic):
    """The same with a curvature that is too small."""

    curvature = 0.01


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", [Cubic, Steep])
@pytest.mark.parametrize("size", SIZES)
def test_losses_of_ones_own(size, loss, intercept):
    A, C = matrix(size, "dense"), fw.L1Ball(1.5)
    b = targets(len(A))
    r = ran(fw.LinearModel(A, b, loss(), intercept=intercept), C, tol=1e-7, max_iter=5)
    z = A @ r.x
    c = 0.0
    if intercept:
        low, high = -100.0, 100.0
        for _ in range(100):
            c = (low + high) / 2
            low, high = (low, c) if np.tanh(z + c - b).sum() > 0 else (c, high)
    g = A.T @ np.tanh(z + c - b) / len(b)
    gap = g @ r.x + 1.5 * np.abs(g).max()
    assert r.gap == pytest.approx(gap, abs=1e-10)
    assert r.success or loss is Steep
    assert gap <= 1.01e-7 or not r.success


class Doubled(DenseDesign):
    """Products and columns of twice the matrix, with the inherited copies of columns of the matrix itself."""

    def matvec(self, x):
        return 2 * super().matvec(x)

    def rmatvec(self, r):
        return 2 * super().rmatvec(r)

    def column(self, j):
        return fw.points.vertices.DenseVertex(2 * self.A[:, j])


def test_columns_of_a_design_that_do_not_fit_are_found():
    A = matrix("working set", "dense")
    with pytest.raises(ValueError, match="override `columns` too"):
        ran(fw.LinearModel(Doubled(A), targets(60)), fw.L1Ball(1.0))


class Shifted(fw.LinearModel):
    """A model with another value and gradient than those of the class above."""

    def value(self, point):
        return super().value(point) + float(point.x @ point.x) / 2

    def gradient(self, point):
        return np.asarray(super().gradient(point)) + point.x


@pytest.mark.parametrize("size", SIZES)
def test_objectives_that_override_the_gradient(size):
    """The inherited restriction does not fit: the run must not report a gap that is not true."""
    A = matrix(size, "dense")
    f = Shifted(A, targets(len(A)))
    r = fw.minimize(f, fw.L1Ball(1.5), tol=1e-6, max_iter=300)
    g = truth(A, targets(len(A)), r.x, "squared")[1] + r.x
    gap = g @ r.x + 1.5 * np.abs(g).max()
    assert r.gap == pytest.approx(gap, abs=1e-9)
    assert not r.success or gap <= 1.01e-6


# Refusals


def test_sets_and_functions_without_working_sets_are_refused():
    f = fw.LinearModel(design(12, 6), targets(12))
    with pytest.raises(ValueError, match="need a set with a projection"):
        ran(f, SETS["hull"][0])
    with pytest.raises(ValueError, match="need a linear model or a quadratic"):
        ran(fw.Smooth(lambda x: float(x @ x), lambda x: 2 * x), fw.L1Ball(), np.ones(3) / 3)
    with pytest.raises(ValueError, match="line_search"):
        ran(f, fw.L1Ball(), line_search="exact")


def test_not_a_number_ends_the_run():
    A = matrix("working set", "dense")
    f = fw.LinearModel(A, targets(60))
    A[3, 900] = np.nan  # after the check of the data
    r = ran(f, fw.L1Ball(1.0), max_iter=20)
    assert r.status is Status.NUMERICAL
    assert not r.success


@pytest.mark.parametrize("b", [np.zeros(2), np.array([1.0, 2.0])])
def test_a_run_at_the_optimum_goes_on_to_its_limit(b):
    """Without a tolerance, steps of no length follow one another."""
    r = ran(fw.LinearModel(np.array([[1.0], [2.0]]), b), fw.L1Ball(1.0), tol=0, max_iter=1500)
    assert r.x == pytest.approx(b[:1])
    assert r.gap == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("C", [fw.Simplex(1000.0), fw.L1Ball(1e4), fw.Box(-100.0, 100.0)], ids=repr)
@pytest.mark.parametrize("n", [60, 700])
def test_saturated_losses(n, C, dtype):
    """Slopes are so small that the curvature of the loss underflows."""
    A = np.random.default_rng(108).standard_normal((2, n)).astype(dtype)
    f = fw.LinearModel(A, np.ones(2), "logistic")
    x0 = np.asarray(C.lmo(-A.sum(axis=0)), dtype=dtype)  # the margin is as large as the set allows
    for start in (None, x0):
        r = ran(f, C, start, tol=0, rtol=1e-4, max_iter=20)
        assert r.success or r.status is Status.PRECISION or r.gap <= 1e-30, r.message
        assert C.contains(r.x)


@pytest.mark.parametrize("seed", range(4))
def test_long_steps_with_an_intercept(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((5, 299)) * (rng.random((5, 299)) < 0.1)
    f = fw.LinearModel(A, [1.0, -1.0, 1.0, 1.0, 1.0], "logistic", intercept=True)
    r = ran(f, fw.UnitSimplex(1500.0), tol=0, rtol=1e-9, max_iter=100)
    assert r.status in (Status.TOLERANCE, Status.PRECISION), r.message
