"""Is the intercept minimised out exactly, and are weights what they say? Against CVXPY with a variable of its own."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.objectives.image_based import optimal_intercept
from fwflow.objectives.losses import Huber, Logistic, Squared
from tests.catalogue import labels, targets

M, N = 30, 8
RNG = np.random.default_rng(3)
# Columns that are far from centred: without an intercept nothing fits.
A = np.where(RNG.random((M, N)) < 0.5, RNG.standard_normal((M, N)) + np.linspace(0, 4, N), 0.0)
WEIGHTS = np.where(np.arange(M) % 5 == 0, 0.0, RNG.uniform(0.2, 3.0, M))
LABELS = labels(M)
LABELS[:10] = 1.0
DATA = {"squared": targets(M) + 20, "huber": targets(M) + 20, "logistic": LABELS}
SETS = {
    "l1": (fw.L1Ball(1.5), lambda x: [cp.norm1(x) <= 1.5]),
    "simplex": (fw.Simplex(2.0), lambda x: [x >= 0, cp.sum(x) == 2.0]),
    "box": (fw.Box(-0.3, 0.4), lambda x: [x >= -0.3, x <= 0.4]),
}
KINDS = {
    "dense": np.asarray,
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "float32": lambda a: np.asarray(a, dtype=np.float32),
}
METHODS = ("fw", "rk44", "away", "pairwise", "blended-pairwise", "corrective", "flow", "apg", "polished", "auto")


def model(loss, weighted, kind="dense", **options):
    weights = WEIGHTS if weighted else None
    return fw.LinearModel(KINDS[kind](A), DATA[loss], loss, rho=0.7, weights=weights, intercept=True, **options)


@cache
def optimum(loss, name, weighted):
    """The least value, from a solver that knows the intercept as a variable."""
    x, c, b = cp.Variable(N), cp.Variable(), DATA[loss]
    z, w = A @ x + c, WEIGHTS if weighted else np.ones(M)
    terms = {
        "squared": lambda: 0.5 * cp.square(z - b),
        "huber": lambda: 0.5 * cp.huber(z - b, 0.7),
        "logistic": lambda: cp.logistic(-cp.multiply(b, z)),
    }[loss]()
    problem = cp.Problem(cp.Minimize(w @ terms / w.sum()), SETS[name][1](x))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


@pytest.mark.sampled(5)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("loss", DATA)
@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_is_a_certificate_of_the_problem_with_a_free_intercept(loss, name, weighted, kind):
    f, tol = model(loss, weighted, kind), 1e-4 if kind == "float32" else 1e-8
    r = fw.minimize(f, SETS[name][0], tol=tol, max_iter=2000)
    assert r.success, r
    assert r.x.dtype == f.dtype
    best, slack = optimum(loss, name, weighted), 1e-5 if kind == "float32" else 1e-8
    assert best - slack <= r.fun <= best + r.gap + slack


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", DATA)
@pytest.mark.parametrize("name", ["l1", "box"])
def test_every_method_finds_it(loss, name, method):
    exact = method in ("corrective", "flow", "polished", "auto", "apg")
    tol = 1e-9 if exact else 3e-2
    r = fw.minimize(model(loss, True), SETS[name][0], method=method, tol=tol, max_iter=3000)
    assert r.success, r
    assert optimum(loss, name, True) - 1e-8 <= r.fun <= optimum(loss, name, True) + r.gap + 1e-8


@pytest.mark.parametrize("search", ["aggressive", "exact", "short", "armijo", "adaptive", "secant"])
@pytest.mark.parametrize("loss", DATA)
def test_lines_are_those_of_the_function(loss, search):
    f = model(loss, True)
    a, b = f.point(np.linspace(-1, 1, N)), f.point(np.linspace(1, 0, N))
    line, h = f.along(a, b, f.value(a)), 1e-5
    assert line.value(0.3) == pytest.approx(f.value(a.mix([(0.3, b)])), rel=1e-12)
    assert line.slope(0.3) == pytest.approx((line.value(0.3 + h) - line.value(0.3 - h)) / (2 * h), rel=1e-6)
    if loss != "huber":
        assert line.second(0.3) == pytest.approx((line.slope(0.3 + h) - line.slope(0.3 - h)) / (2 * h), rel=1e-6)
    assert line.second(0.3) <= line.curvature * (1 + 1e-12)
    assert fw.minimize(f, fw.L1Ball(1.0), method="fw", line_search=search, tol=0.05, max_iter=5000).success


@pytest.mark.parametrize("loss", DATA)
def test_gradients_and_models(loss):
    f = model(loss, True)
    assert fw.checks.gradient_error(f, np.linspace(-0.4, 0.5, N)) < 1e-6
    p = f.point(np.linspace(-0.4, 0.5, N))
    assert abs(f.dual(p).sum()) < 1e-14
    m = f.model(p, f.gradient)
    left, right = m.stack([f.lift(fw.OneHot(j, 1.0, (N,))) for j in range(N)])
    np.testing.assert_allclose(left @ (m.second * (p.x @ right) - m.pull), f.gradient(p), atol=1e-12)
    if loss == "logistic":  # without the floor under flat entries
        h = 1e-6
        H = np.array(
            [(f.gradient(f.point(p.x + h * e)) - f.gradient(f.point(p.x - h * e))) / (2 * h) for e in np.eye(N)]
        )
        np.testing.assert_allclose((left * m.second) @ right.T, H, atol=1e-8)


@pytest.mark.parametrize("loss", DATA)
def test_the_model_is_f_whatever_constant_the_image_has(loss):
    f = model(loss, True)
    p = f.point(np.linspace(-0.4, 0.5, N))
    moved = fw.Point(p.x, p.image + 3.0)
    assert f.value(moved) == pytest.approx(f.value(p), rel=1e-12)
    np.testing.assert_allclose(f.gradient(moved), f.gradient(p), atol=1e-12)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", DATA)
def test_weights_count_rows(loss, intercept):
    times = np.arange(M) % 3  # 0: left out, 2: there twice
    repeated = np.repeat(np.arange(M), times)
    options = {"rho": 0.7, "intercept": intercept}
    one = fw.LinearModel(A, DATA[loss], loss, weights=times, **options)
    other = fw.LinearModel(A[repeated], DATA[loss][repeated], loss, **options)
    x = np.linspace(-0.4, 0.5, N)
    assert one.value(one.point(x)) == pytest.approx(other.value(other.point(x)), rel=1e-12)
    np.testing.assert_allclose(one.gradient(one.point(x)), other.gradient(other.point(x)), atol=1e-13)
    assert one.intercept_at(x) == pytest.approx(other.intercept_at(x), rel=1e-9)
    plain = fw.LinearModel(A, DATA[loss], loss, scale="sum", **options)
    all_one = fw.LinearModel(A, DATA[loss], loss, scale="sum", weights=np.ones(M), **options)
    assert plain.value(plain.point(x)) == pytest.approx(all_one.value(all_one.point(x)), rel=1e-12)


@settings(max_examples=150, deadline=None)
@given(
    z=st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8),
    loss=st.sampled_from([Squared(), Logistic(), Huber(1e-3), Huber(1.0), Huber(1e3)]),
    seed=st.integers(0, 99),
)
def test_the_best_constant_is_the_best(z, loss, seed):
    rng, z = np.random.default_rng(seed), np.array(z)
    b = np.where(np.arange(len(z)) % 2, 1.0, -1.0) * (1.0 if isinstance(loss, Logistic) else 10 ** rng.uniform(-3, 3))
    w = rng.uniform(0, 1, len(z)) + 1e-3
    c = optimal_intercept(loss, z, b, w)
    size = w @ (np.abs(loss.derivative(z + c, b)) + loss.second(z + c, b) * (np.abs(z) + abs(c)))
    if abs(w @ loss.derivative(z + c, b)) > 1e-14 * size:  # else it is between two neighbouring numbers
        below, above = np.nextafter(c, -np.inf), np.nextafter(c, np.inf)
        assert w @ loss.derivative(z + below, b) <= 0 <= w @ loss.derivative(z + above, b)


def test_a_saturated_loss_still_has_its_intercept():
    f = fw.LinearModel(1e4 * A, LABELS, "logistic", intercept=True)
    p = f.point(np.linspace(-1, 1, N))
    assert abs(f.dual(p).sum()) < 1e-12


def test_screened_runs_are_the_same(monkeypatch):
    monkeypatch.setattr("fwflow.objectives.screening.LEAST_COST", 0)
    monkeypatch.setattr("fwflow.objectives.screening.LEAST_COST_PER_COLUMN", 0)
    rng = np.random.default_rng(0)
    wide = np.asfortranarray(rng.standard_normal((40, 2000)))
    b = np.where(wide[:, :3].sum(axis=1) + rng.standard_normal(40) > 1, 1.0, -1.0)
    f = fw.LinearModel(wide, b, "logistic", intercept=True, weights=rng.uniform(0, 1, 40))
    runs = [
        fw.minimize(f, fw.L1Ball(3.0), method="pairwise", line_search="exact", tol=1e-5, screen=screen)
        for screen in (True, False)
    ]
    assert runs[0].success
    assert runs[1].success
    assert runs[0].n_design < runs[1].n_design
    np.testing.assert_allclose(runs[0].x, runs[1].x, atol=1e-8)


@pytest.mark.parametrize("method", ["rk44", "flow", "corrective"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_runs_continue_from_files_bit_by_bit(loss, method, tmp_path):
    f, C = model(loss, True), fw.L1Ball(1.5)
    options = {"method": method, "tol": 0}
    whole = fw.minimize(f, C, max_iter=4, **options)
    fw.minimize(f, C, max_iter=2, **options).state.save(tmp_path / "state.npz")
    state = fw.State.load(tmp_path / "state.npz")
    assert (fw.minimize(f, C, max_iter=2, state=state, **options).x == whole.x).all()
    for other in ({"weights": None}, {"intercept": False}, {"weights": WEIGHTS + 1}):
        changed = fw.LinearModel(A, DATA[loss], loss, **{"rho": 0.7, "weights": WEIGHTS, "intercept": True} | other)
        with pytest.raises(ValueError, match="belongs to another problem"):
            fw.minimize(changed, C, max_iter=2, state=state, **options)


class OwnLoss(fw.Loss):
    curvature = 1.0

    def value(self, z, b):
        return float(0.5 * (z - b) @ (z - b))

    def derivative(self, z, b):
        return z - b

    def second(self, z, b):
        return np.ones_like(z)


def test_a_loss_of_ones_own():
    f = fw.LinearModel(A, DATA["squared"], OwnLoss(), intercept=True)
    g = fw.LinearModel(A, DATA["squared"], intercept=True)
    x = np.linspace(-1, 1, N)
    assert f.intercept_at(x) == pytest.approx(g.intercept_at(x), rel=1e-12)
    with pytest.raises(ValueError, match="weights need the loss of single entries"):
        fw.LinearModel(A, DATA["squared"], OwnLoss(), weights=WEIGHTS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": -WEIGHTS}, "weights must not be negative"),
        ({"weights": np.zeros(M)}, "at least one must be positive"),
        ({"weights": WEIGHTS[1:]}, "weights has 29 entries; it must have 30"),
        ({"weights": np.full(M, np.nan)}, "weights must be finite"),
        ({"weights": np.where(LABELS > 0, 1.0, 0.0), "intercept": True}, "b holds the label 1 only"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        fw.LinearModel(A, LABELS, "logistic", **options)


def test_weights_of_observed_entries():
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(rng.permutation(60)[:40], 6)
    values, weights = rng.standard_normal(40), rng.integers(0, 3, 40).astype(float)
    f = fw.MatrixCompletion(rows, cols, values, (10, 6), "squared", weights=weights)
    r = fw.minimize(f, fw.NuclearBall(3.0), tol=1e-8)
    assert r.success
    X = cp.Variable((10, 6))
    terms = [w * cp.square(X[i, j] - v) / 2 for i, j, v, w in zip(rows, cols, values, weights, strict=True)]
    problem = cp.Problem(cp.Minimize(sum(terms)), [cp.normNuc(X) <= 3.0])
    problem.solve(solver="CLARABEL")
    assert problem.value - 1e-6 <= r.fun <= problem.value + r.gap + 1e-6
    kept = weights > 0
    left = fw.MatrixCompletion(rows[kept], cols[kept], values[kept], (10, 6), "squared", weights=weights[kept])
    assert left.value(left.point(r.x)) == pytest.approx(r.fun, rel=1e-12)
    assert f.fingerprint() != fw.MatrixCompletion(rows, cols, values, (10, 6), "squared").fingerprint()


def test_intercepts_of_saturated_losses_are_found():
    """Newton's method makes steps of length one where the slope is exponential, over a thousand of them."""
    z, b = np.array([-114.57, -2121.8, 69.21, 374.65, 293.92]), np.array([1.0, -1.0, 1.0, 1.0, 1.0])
    for guess in (None, 11.0, -300.0, 3000.0):
        c = optimal_intercept(Logistic(), z, b, None, guess)
        # No label is on the wrong side, by far.
        assert (b * (z + c)).min() > 500
