import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import fwflow as fw
from fwflow.designs import Counts, DenseDesign
from fwflow.objectives import Huber, Logistic, Squared
from fwflow.objectives.losses import Ahead
from fwflow.points.point import Point
from fwflow.points.vertices import DenseVertex
from fwflow.run.loop import _REFRESH_EVERY
from tests.catalogue import (
    CERTIFIED,
    FORMULAS,
    LINE_SEARCHES,
    MATRIX_FORMULAS,
    MATRIX_OBJECTIVES,
    MOMENTA,
    OBJECTIVES,
    SETS,
    design,
    huber,
    labels,
    squared,
    targets,
)

cases = settings(deadline=None, max_examples=25, derandomize=True)
seeds = st.integers(0, 2**16)
EPS = np.finfo(float).eps
# Sums of a hundred or so products of numbers of order one to ten: a few hundred roundings.
SAME = {"rtol": 1e-12, "atol": 1e-12}

VECTOR_SETS = {name: C for name, (C, shape) in SETS.items() if shape == (6,)}


ROWS, COLS = np.array([4, 0, 2, 4, 1, 0, 3, 2, 4]), np.array([1, 3, 0, 0, 2, 0, 3, 2, 3])


def completion(loss="huber", scale="sum", dtype=float, seed=0, rho=0.7):
    return fw.MatrixCompletion(ROWS, COLS, targets(9, seed).astype(dtype), (5, 4), loss, rho, scale=scale)


def dense_completion(loss, scale, seed, X, rho=0.7):
    """The same function of a dense matrix."""
    M, mask = np.zeros((5, 4)), np.zeros((5, 4), bool)
    M[ROWS, COLS], mask[ROWS, COLS] = targets(9, seed), True
    value, dual = squared(X[mask], M[mask]) if loss == "squared" else huber(X[mask], M[mask], rho)
    factor = 1.0 if scale == "sum" else 1 / 9
    G = np.zeros((5, 4))
    G[mask] = factor * dual
    return factor * value, G


def watched(f):
    counts = Counts()
    return f.counted_by(counts), counts


def path(f, C, x0=None, **options):
    """Every iterate of a run, densely."""
    X = []
    fw.minimize(f, C, x0, callback=lambda state: X.append(np.asarray(state.x)), tol=0, **options)
    return np.stack(X)


def read_only(*arrays):
    for array in arrays:
        array.flags.writeable = False
    return arrays


@cases
@pytest.mark.parametrize("name", OBJECTIVES)
@given(seed=seeds)
def test_value_and_gradient_follow_the_formula(name, seed):
    f, x = OBJECTIVES[name](6, seed), np.random.default_rng(seed).standard_normal(6)
    value, gradient = FORMULAS[name](6, seed, x)
    point = f.point(x)
    np.testing.assert_allclose(f.value(point), value, **SAME)
    np.testing.assert_allclose(f.gradient(point), gradient, **SAME)


@cases
@pytest.mark.parametrize("name", MATRIX_OBJECTIVES)
@given(seed=seeds, shape=st.sampled_from([(6, 3), (1, 2), (5, 4)]))
def test_value_and_gradient_of_a_matrix_follow_the_formula(name, seed, shape):
    f, X = MATRIX_OBJECTIVES[name](shape, seed), np.random.default_rng(seed).standard_normal(shape)
    value, gradient = MATRIX_FORMULAS[name](shape, seed, X)
    point = f.point(X)
    # The constants of the formula are found by a solver: their error enters gradients, and values only squared.
    atol = 1e-6 if name == "softmax-csr" else 1e-12
    np.testing.assert_allclose(f.value(point), value, **SAME)
    np.testing.assert_allclose(f.gradient(point), gradient, rtol=1e-10, atol=atol)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_gradient_matches_differences(name):
    # Central differences with h = eps^(1/3): errors of order h^2 = 4e-11 times third derivatives and values.
    assert fw.checks.gradient_error(OBJECTIVES[name](6, 0), targets(6, 5)) < 1e-8


@cases
@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("scale", ["sum", "mean"])
@given(seed=seeds)
def test_completion_follows_the_formula(loss, scale, seed):
    f, X = completion(loss, scale, seed=seed), design(5, 4, seed)
    point = f.point(X)
    value, gradient = dense_completion(loss, scale, seed, X)
    np.testing.assert_allclose(f.value(point), value, **SAME)
    np.testing.assert_allclose(f.gradient(point).matrix.toarray(), gradient, **SAME)
    assert fw.checks.gradient_error(f, X) < 1e-8


def test_completion_defaults_to_the_sum_of_huber_losses_with_rho_10():
    f = fw.MatrixCompletion([0, 1], [0, 1], [3.0, 20.0], (2, 2))
    assert f.value(f.point(np.zeros((2, 2)))) == pytest.approx(9 / 2 + 10 * (20 - 5), rel=1e-15)


def test_linear_model_defaults_to_the_mean_of_squares():
    assert fw.LinearModel(np.eye(2), [1.0, 3.0]).value(Point(None, np.zeros(2))) == 2.5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("margin", [1e4, -1e4, 700.0, -700.0, 90.0, -90.0, 40.0, -40.0, 1.0, 0.0])
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_logistic_survives_extreme_margins(margin, label, dtype):
    f = fw.LinearModel(np.array([[margin]], dtype), [label], loss="logistic", scale="sum")
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        point = f.point([1.0])
        value, gradient = f.value(point), f.gradient(point)
        line = f.along(f.point([0.0]), point, np.log(2.0))
        curvature = line.second(1.0)
    few, tiny = 4 * float(np.finfo(dtype).eps), float(np.finfo(dtype).tiny)
    assert value == pytest.approx(np.logaddexp(0.0, -label * margin), rel=few, abs=tiny)
    assert gradient[0] == pytest.approx(-label * margin * expit(-label * margin), rel=few, abs=abs(margin) * tiny)
    curved = margin**2 * expit(margin) * expit(-margin)
    assert curvature == pytest.approx(curved, rel=2 * few, abs=margin**2 * tiny)


def test_huber_survives_huge_residuals():
    f = fw.LinearModel([[1e200]], [0.0], loss="huber", rho=2.0)
    with np.errstate(all="raise"):
        point = f.point([1.0])
        assert f.value(point) == pytest.approx(2e200)
        assert f.gradient(point)[0] == pytest.approx(2e200)


@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.7)])
def test_losses_are_accepted_as_objects(loss):
    A, b, x = design(12, 6), labels(12), targets(6)
    name = type(loss).__name__.lower()
    f, named = fw.LinearModel(A, b, loss), fw.LinearModel(A, b, name, rho=0.7)
    assert f.value(f.point(x)) == named.value(named.point(x))


class Quartic(fw.Loss):
    """Loss that inherits all optional members."""

    curvature = 100.0

    def value(self, z, b):
        return float(((z - b) ** 4).sum() / 4)

    def derivative(self, z, b):
        return (z - b) ** 3

    def second(self, z, b):
        return 3 * (z - b) ** 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0, 1, 3, 1000])
@pytest.mark.parametrize("loss", [Squared(), Logistic(), Huber(0.7), Quartic()], ids=lambda loss: type(loss).__name__)
def test_value_and_derivative_are_those_of_the_single_members(loss, size, dtype):
    rng = np.random.default_rng(size)
    z = (10.0 ** rng.integers(-4, 5, size) * rng.standard_normal(size)).astype(dtype)
    z[::7] = 0.0
    b = np.sign(rng.standard_normal(size)).astype(dtype)
    for of in (loss, Ahead(loss, 0.5 * z, 0.25)):
        value, derivative = of.value_and_derivative(z, b)
        assert type(value) is float
        assert value == of.value(z, b)
        assert derivative.dtype == dtype
        np.testing.assert_array_equal(derivative, of.derivative(z, b))


class Doubled(Squared):
    """Twice the squared loss, without `value_and_derivative`."""

    curvature = 2.0

    def values(self, z, b):
        return (z - b) ** 2

    def derivative(self, z, b):
        return 2 * (z - b)

    def second(self, z, b):
        return np.full_like(z, 2.0)


class Shifted(fw.LinearModel):
    """Linear model with another value only."""

    def value(self, point):
        return super().value(point) + 1.0


@pytest.mark.parametrize("method", ["fw", "rk44", "auto"])
def test_classes_of_users_may_override_value_or_derivative_only(method):
    A, b, run = design(20, 8), targets(20), {"method": method, "tol": 0, "max_iter": 10}
    plain = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(1.0), **run)
    doubled = fw.minimize(fw.LinearModel(A, b, Doubled()), fw.L1Ball(1.0), **run)
    shifted = fw.minimize(Shifted(A, b), fw.L1Ball(1.0), **run)
    np.testing.assert_allclose(doubled.trace["fun"], 2 * plain.trace["fun"], rtol=1e-9)
    np.testing.assert_allclose(doubled.trace["gap"], 2 * plain.trace["gap"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(shifted.trace["fun"], plain.trace["fun"] + 1.0, rtol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
def test_an_iterate_is_evaluated_as_value_and_gradient(loss, intercept, weighted):
    weights = np.linspace(0.1, 1.0, 20) if weighted else None
    f = fw.LinearModel(design(20, 8), labels(20), loss, intercept=intercept, weights=weights)
    counted = f.counted_by(Counts())
    point = counted.point(targets(8))
    together = counted.evaluated(point)
    assert f.evaluated(point) is None  # outside of runs
    if weighted:
        assert together is None
        return
    value, gradient = together
    assert value == counted.value(point)
    np.testing.assert_array_equal(gradient, counted.gradient(point))


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize(
    "options", [{"method": "fw"}, {"method": "rk44"}, {"momentum": "nesterov"}, {"line_search": "aggressive"}]
)
def test_dense_csr_and_csc_give_one_trajectory(loss, options):
    A = design(15, 8) * (design(15, 8, 1) > 0)
    b = labels(15)
    models = [fw.LinearModel(kind(A), b, loss) for kind in (np.array, sp.csr_array, sp.csc_array)]
    x = targets(8)
    dense, *sparse = ((f.value(f.point(x)), f.gradient(f.point(x))) for f in models)
    for value, gradient in sparse:
        np.testing.assert_allclose(value, dense[0], **SAME)
        np.testing.assert_allclose(gradient, dense[1], **SAME)
    first, *others = (path(f, fw.L1Ball(3.0), max_iter=60, **options) for f in models)
    for other in others:  # steps contract what rounding does, unless a vertex differs
        np.testing.assert_allclose(other, first, rtol=0, atol=1e-9)


def float32_objectives():
    A, b = design(12, 6).astype(np.float32), labels(12)
    for loss in ("squared", "logistic", "huber"):
        for kind in (np.array, sp.csr_array, sp.csc_array):
            yield fw.LinearModel(kind(A), b, loss)
    H = (A.T @ A).astype(np.float32)
    yield fw.Quadratic(H, b[:6])
    yield fw.Quadratic(sp.csr_array(H))


@pytest.mark.parametrize("f", list(float32_objectives()), ids=lambda f: f"{type(f).__name__}-{type(f.design).__name__}")
@pytest.mark.parametrize("name", VECTOR_SETS)
def test_float32_stays_float32_in_every_part(f, name):
    C = VECTOR_SETS[name]
    f, _ = watched(f)
    point = f.point(C.start((6,), np.float64))
    g = f.gradient(point)
    moved = point.mix([(0.3, f.lift(C.lmo(g)))])
    assert {a.dtype for a in (point.x, point.image, g, moved.x, moved.image)} == {np.dtype(np.float32)}


@pytest.mark.parametrize("line_search", LINE_SEARCHES)
@pytest.mark.parametrize("momentum", MOMENTA)
def test_float32_stays_float32_in_runs(line_search, momentum):
    options = {"line_search": line_search, "momentum": momentum, "method": "rk44", "max_iter": 3, "tol": 0}
    dtypes = set()
    for f in float32_objectives():
        r = fw.minimize(f, fw.L1Ball(1.0), **options)
        dtypes |= {r.x.dtype, r.state.point.image.dtype}
    r = fw.minimize(completion(dtype=np.float32), fw.NuclearBall(2.0), **options)
    dtypes |= {r.x.dtype, r.x.U.dtype, r.x.V.dtype, r.x.to_dense().dtype, r.state.point.image.dtype}
    if line_search != "short":
        f = fw.Smooth(lambda x: float(x @ x) - x[0], lambda x: 2 * x - np.eye(1, 6)[0])
        x0 = np.zeros(6, np.float32)
        dtypes |= {fw.minimize(f, fw.L1Ball(1.0), x0, **options).x.dtype, f.gradient(f.point(x0)).dtype}
    assert dtypes == {np.dtype(np.float32)}


def lines():
    """Objectives with two points each, as (objective, start, end, dense difference)."""
    for name in OBJECTIVES:
        f = OBJECTIVES[name](6, 3)
        yield pytest.param(f, targets(6, 3) / 4, targets(6, 4) / 4, id=name)
    smooth = fw.Smooth(lambda x: float(np.cos(x).sum()), lambda x: -np.sin(x), smoothness=1.0)
    yield pytest.param(smooth, targets(6, 3), targets(6, 4), id="smoothness")
    for loss in ("squared", "huber"):
        yield pytest.param(completion(loss, "mean"), design(5, 4, 3), design(5, 4, 4), id=f"completion-{loss}")


def inner(f, point, d):
    g = f.gradient(point)
    return float(np.vdot(g.matrix.toarray() if hasattr(g, "matrix") else g, d))


@pytest.mark.parametrize(("f", "x", "y"), list(lines()))
@pytest.mark.parametrize("known", [True, False])
def test_along_is_the_objective_on_the_segment(f, x, y, known):
    f, counts = watched(f)
    start, end, d = f.point(x), f.point(y), y - x
    problem = fw.Problem(f, fw.Simplex(), counts)
    line = problem.along(start, end, f.value(start), problem.gradient(start) if known else None)
    passes = counts.n_design
    gammas = np.array([0.0, 0.21, 0.5, 1.0, 1.6])
    values, slopes = ([phi(gamma) for gamma in gammas] for phi in (line.value, line.slope))
    assert counts.n_design == passes
    points = [f.point(x + gamma * d) for gamma in gammas]
    np.testing.assert_allclose(values, [f.value(p) for p in points], **SAME)
    np.testing.assert_allclose(slopes, [inner(f, p, d) for p in points], **SAME)
    np.testing.assert_allclose([line.value0, line.slope0], [values[0], slopes[0]], **SAME)
    h = 1e-5  # differences err by h^2 = 1e-10 times a third derivative and eps / h = 2e-11 times a value
    np.testing.assert_allclose([(line.value(g + h) - line.value(g - h)) / (2 * h) for g in gammas], slopes, atol=1e-7)
    bends = [(line.slope(g + h) - line.slope(g - h)) / (2 * h) for g in gammas]
    if line.second is not None:
        np.testing.assert_allclose([line.second(g) for g in gammas], bends, atol=1e-7)
    if line.curvature is not None:
        assert max(bends) <= line.curvature + 1e-7
    if line.quadratic:
        np.testing.assert_allclose(bends, line.curvature, atol=1e-7)


def test_along_knows_quadratics_bounds_and_lengths():
    x, y = targets(6, 3), targets(6, 4)
    known = {}
    for name in OBJECTIVES:
        f = OBJECTIVES[name](6, 0)
        line = fw.Problem(f, fw.Simplex(), Counts()).along(f.point(x), f.point(y), 0.0, None)
        length = y - x if name in ("quadratic", "smooth", "beckmann") else f.design.matvec(y - x)
        assert line.norm2 == pytest.approx(length @ length, rel=1e-13)
        known[name] = (line.quadratic, line.curvature is not None)
    nothing_known = {name for name, facts in known.items() if facts == (False, False)}
    closed_form = {name for name, facts in known.items() if facts == (True, True)}
    assert nothing_known == {"smooth", "beckmann", "poisson"}
    assert closed_form == {"squared", "squared-sum", "squared-csr", "quadratic"}


@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize("line_search", [None, "exact"])
def test_carried_images_do_not_drift(method, line_search):
    A, b = design(30, 10), labels(30)
    f = fw.LinearModel(A, b, "logistic")
    # A step rounds each entry of x and of the image at most 2 q + 1 times; q = 4 at most.
    roundings = 2 * _REFRESH_EVERY * (2 * 4 + 1) + 10
    bound = roundings * EPS * 2.0 * np.abs(A).max()
    worst, exact = [], []

    def look(state):
        worst.append(np.abs(state.point.image - A @ state.x).max())
        if state.k % _REFRESH_EVERY == 0:
            exact.append(np.array_equal(state.point.image, f.design.matvec(state.x)))

    r = fw.minimize(f, fw.L1Ball(2.0), method=method, line_search=line_search, tol=0, max_iter=2500, callback=look)
    assert len(worst) == 2501
    assert max(worst) <= bound
    assert all(exact)
    assert len(exact) == 2500 // _REFRESH_EVERY + 1
    assert r.fun == f.value(f.point(r.x))


def test_carried_entries_do_not_drift():
    f, C = completion("squared"), fw.NuclearBall(3.0)
    # Per step three roundings of numbers within the radius; every 64 atoms a QR and an SVD of 5 x 4 factors.
    bound = (2 * 3 * _REFRESH_EVERY + 20 * _REFRESH_EVERY) * EPS * 3.0
    worst, exact, ranks = [], [], []

    def look(state):
        worst.append(np.abs(state.point.image - state.x.to_dense()[f.rows, f.cols]).max())
        ranks.append(state.x.rank)
        if state.k % _REFRESH_EVERY == 0:
            exact.append(np.array_equal(state.point.image, f.refresh(state.point).image))

    r = fw.minimize(f, C, method="fw", tol=0, max_iter=2100, callback=look)
    assert max(worst) <= bound
    assert all(exact)
    assert len(exact) == 2100 // _REFRESH_EVERY + 1
    assert max(ranks) <= 2 * 4 + 64 + 1
    assert r.fun == f.value(f.point(r.x))


class Drifting(DenseDesign):
    """Columns that are slightly off: carried images go wrong at once, products stay right."""

    trusted = True

    def column(self, j):
        return DenseVertex(1.01 * self.A[:, j])


@pytest.mark.parametrize("tol", [0.0, 0.05])
def test_results_never_come_from_a_drifted_image(tol):
    A, b = design(20, 6), targets(20)
    true = fw.LinearModel(A, b)
    r = fw.minimize(fw.LinearModel(Drifting(A), b), fw.L1Ball(1.0), method="fw", tol=tol, max_iter=150)
    assert r.trace["fun"][-1] != pytest.approx(r.fun, rel=1e-6)
    point = true.point(r.x)
    g = true.gradient(point)
    assert r.fun == pytest.approx(true.value(point), rel=1e-14)
    assert r.gap == pytest.approx(g @ r.x + np.abs(g).max(), rel=1e-12)
    assert r.success == (tol > 0 and r.gap <= tol)


ENTRIES = (
    "l1 simplex simplex-radius unit-simplex hypersimplex unit-hypersimplex k-sparse owl scaled minkowski "
    "group group-3 group-inf bounded-l1 bounded-l1-box"
)
PASSES = dict.fromkeys(ENTRIES.split(), 0)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("name", VECTOR_SETS)
def test_lifting_multiplies_by_the_design_in_as_few_passes_as_promised(name, kind):
    A, C = design(12, 6), VECTOR_SETS[name]
    f, counts = watched(fw.LinearModel(kind(A), targets(12)))
    for i in range(5):
        before = counts.n_design
        vertex = C.lmo(targets(6, i))
        image = f.lift(vertex).image
        np.testing.assert_allclose(image.to_dense(), A @ np.asarray(vertex), **SAME)
        expected = int(i == 0) if name == "translated" else PASSES.get(name, 1)
        assert counts.n_design - before == expected


def test_permutations_are_lifted_by_columns():
    A, C = design(12, 9), fw.Birkhoff(3)
    f, counts = watched(fw.LinearModel(A, targets(12)))
    vertex = (-1.5 * C).lmo(targets(9))
    np.testing.assert_allclose(f.lift(vertex).image.to_dense(), A @ np.asarray(vertex), **SAME)
    assert counts.n_design == 0


def test_products_of_structured_sets_need_no_pass_and_dense_blocks_share_one():
    A = design(12, 6)
    for balls, passes in (([fw.L1Ball(1.0), fw.Simplex()], 0), ([fw.L2Ball(1.0), fw.LInfBall(1.0)], 1)):
        f, counts = watched(fw.LinearModel(A, targets(12)))
        vertex = fw.Product([(C, 3) for C in balls]).lmo(targets(6))
        np.testing.assert_allclose(f.lift(vertex).image.to_dense(), A @ np.asarray(vertex), **SAME)
        assert counts.n_design == passes


SHIFT = np.linspace(-1, 1, 6)


@pytest.mark.parametrize(
    ("C", "shifts"),
    [
        (fw.L1Ball(1.0) + SHIFT, 1),
        ((fw.L1Ball(1.0) + SHIFT) + SHIFT, 2),
        (2.0 * (fw.L1Ball(1.0) + SHIFT), 1),
    ],
    ids=["translated", "twice", "scaled"],
)
def test_the_image_of_a_shift_is_computed_once_per_run(C, shifts):
    f = fw.LinearModel(design(12, 6), targets(12))
    run = fw.minimize(f, C, method="fw", tol=0, max_iter=20)
    # the start and the final verification are one product each; every gradient is one
    assert run.n_design - run.n_grad == shifts + 2
    again = fw.minimize(f, C, method="fw", tol=0, max_iter=20)
    assert again.n_design == run.n_design
    np.testing.assert_array_equal(again.x, run.x)


def test_lifted_rank_one_vertices_are_sampled_at_the_observed_entries():
    f = completion()
    rng = np.random.default_rng(0)
    vertex = fw.RankOne(rng.standard_normal(5), rng.standard_normal(4), -3.0)
    expected = np.asarray(vertex)[f.rows, f.cols]
    np.testing.assert_allclose(f.lift(vertex).image.to_dense(), expected, **SAME)


@pytest.mark.parametrize("C", [-2.0 * fw.NuclearBall(1.0), 4.0 * (0.5 * fw.NuclearBall(1.0))], ids=["once", "twice"])
def test_completion_works_on_scaled_nuclear_balls(C):
    X = path(completion(), C, max_iter=20, method="fw")
    np.testing.assert_allclose(X, path(completion(), fw.NuclearBall(2.0), max_iter=20, method="fw"), atol=1e-10)


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_completion_moves_like_its_dense_twin(loss, method):
    def twin(X):
        value, gradient = dense_completion(loss, "sum", 0, X)
        return float(value), gradient

    C, X0 = fw.NuclearBall(3.0), np.zeros((5, 4))
    X = path(completion(loss), C, method=method, max_iter=40)
    np.testing.assert_allclose(X, path(fw.Smooth(twin, True), C, X0, method=method, max_iter=40), atol=1e-9)


def test_completion_never_forms_the_matrix():
    shape, rng = (200_000, 100_000), np.random.default_rng(0)
    rows, cols = (rng.choice(size, 10, replace=False) for size in shape)
    f = fw.MatrixCompletion(rows, cols, rng.standard_normal(10), shape)
    tracemalloc.start()
    try:
        r = fw.minimize(f, fw.NuclearBall(5.0), method="heun", line_search="exact", tol=0, max_iter=4)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert r.fun < r.trace["fun"][0]
    assert r.feasible
    # The dense matrix has 2e10 entries. Eight atoms in a few copies; 300 Krylov vectors certify the gap.
    assert peak < 8 * (300 * min(shape) + 8 * 4 * sum(shape))


@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_joint_functions_are_called_once_per_point(method):
    seen, b = [], targets(4)

    def fun(x):
        seen.append(x.copy())
        return float(x @ x - b @ x), 2 * x - b

    r = fw.minimize(fw.Smooth(fun, True), fw.L2Ball(1.0), np.full(4, 0.1), method=method, tol=0, max_iter=20)
    stages = {"fw": 1, "rk44": 4}[method]
    assert r.n_grad == len(seen) == 20 * stages + 1
    separate = fw.Smooth(lambda x: fun(x)[0], lambda x: fun(x)[1])
    twin = fw.minimize(separate, fw.L2Ball(1.0), np.full(4, 0.1), method=method, tol=0, max_iter=20)
    np.testing.assert_array_equal(r.x, twin.x)


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize(
    "options",
    [{"method": "rk44"}, {"method": "rk44", "line_search": "exact"}, {"momentum": "gradient-averaging"}],
    ids=str,
)
def test_gradients_may_come_in_a_buffer_that_is_filled_again(joint, options):
    buffer = np.empty(6)

    def grad(x):
        return np.subtract(2 * x, SHIFT, out=buffer)

    def fun(x):
        return float(x @ x - SHIFT @ x)

    fresh = fw.Smooth(fun, lambda x: grad(x).copy())
    reused = fw.Smooth(lambda x: (fun(x), grad(x)), True) if joint else fw.Smooth(fun, grad)
    x0, C = np.zeros(6), fw.L1Ball(1.0)
    np.testing.assert_array_equal(
        path(reused, C, x0, max_iter=20, **options), path(fresh, C, x0, max_iter=20, **options)
    )


@pytest.mark.parametrize("line_search", ["aggressive", "exact", "armijo", "adaptive", "secant"])
def test_line_searches_do_not_leave_the_domain(line_search):
    outside = []

    def inside(x):
        return bool((x > 0).all())

    def fun(x):
        if not inside(x):
            outside.append(x)
        return float(-np.log(np.maximum(x, 1e-300)).sum()), -1 / np.maximum(x, 1e-300)

    f, x0, schedule = fw.Smooth(fun, True, domain=inside), [0.5, 0.3, 0.2], fw.OpenLoop(k0=1)
    r = fw.minimize(f, fw.Simplex(), x0, line_search=line_search, schedule=schedule, max_iter=50)
    assert not outside
    assert r.status in (fw.Status.TOLERANCE, fw.Status.ITERATIONS)
    assert line_search == "aggressive" or r.fun < f.value(f.point(x0))


def test_a_point_outside_the_domain_ends_the_run_in_words():
    def fun(x):
        assert (x > 0).all()
        return float(-np.log(x).sum()), -1 / x

    f = fw.Smooth(fun, True, domain=lambda x: bool((x > 0).all()))
    best = fw.minimize(f, fw.Simplex(), [0.5, 0.3, 0.2], tol=1e-9)  # left alone, no method steps outside
    assert best.success
    np.testing.assert_allclose(best.x, 1 / 3, atol=1e-4)
    r = fw.minimize(f, fw.Simplex(), [0.5, 0.3, 0.2], method="fw", max_iter=10)  # its first step ends at a vertex
    assert r.status is fw.Status.NUMERICAL
    assert "domain" in r.message
    assert not r.success
    np.testing.assert_array_equal(r.x, [0.5, 0.3, 0.2])


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.csc_array, sp.coo_array])
def test_quadratics_take_any_storage(kind):
    A, b, x = design(6, 6), targets(6), targets(6, 1)
    H = A @ A.T * (np.abs(np.subtract.outer(np.arange(6), np.arange(6))) < 3)
    f, counts = watched(fw.Quadratic(kind(H), b))
    point = f.point(x)
    np.testing.assert_allclose(f.value(point), x @ H @ x / 2 - b @ x, **SAME)
    np.testing.assert_allclose(f.gradient(point), H @ x - b, **SAME)
    assert counts == Counts(n_design=1)


def test_quadratics_have_a_zero_linear_term_by_default():
    f = fw.Quadratic(np.diag([2.0, 4.0]))
    assert f.value(f.point([1.0, 1.0])) == 3.0
    np.testing.assert_array_equal(f.gradient(f.point([1.0, 1.0])), [2.0, 4.0])


def test_a_run_on_a_quadratic_makes_no_pass_but_the_periodic_refresh():
    r = fw.minimize(OBJECTIVES["quadratic"](6, 0), fw.L1Ball(1.0), method="fw", tol=0, max_iter=2 * _REFRESH_EVERY + 10)
    assert r.n_design == 2 + 1  # refreshes, verification


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_quadratics_refuse_non_symmetric_matrices_of_any_size(scale, dtype):
    H = (scale * np.array([[2.0, 1.0], [0.0, 2.0]])).astype(dtype)
    for kind in (np.array, sp.csr_array):
        with pytest.raises(ValueError, match=r"^H must be symmetric"):
            fw.Quadratic(kind(H))
        fw.Quadratic(kind(H + H.T))


NAN, INF = np.nan, np.inf
A2 = np.eye(2)


def model(**changes):
    return fw.LinearModel(**({"A": A2, "b": [1.0, -1.0]} | changes))


def observed(**changes):
    return fw.MatrixCompletion(**({"rows": [0, 1], "cols": [0, 1], "values": [1.0, 2.0], "shape": (2, 3)} | changes))


REFUSED = {
    "A nan": (lambda: model(A=[[NAN, 1.0], [0.0, 1.0]]), r"^A must be finite"),
    "A inf": (lambda: model(A=[[INF, 1.0], [0.0, 1.0]]), r"^A must be finite"),
    "A sparse nan": (lambda: model(A=sp.csr_array([[NAN, 1.0], [0.0, 1.0]])), r"^A must be finite"),
    "A empty": (lambda: model(A=np.zeros((0, 2)), b=[]), r"^A is empty.*\(0, 2\)"),
    "A no columns": (lambda: model(A=np.zeros((2, 0))), r"^A is empty.*\(2, 0\)"),
    "A sparse empty": (lambda: model(A=sp.csr_array((0, 2)), b=[]), r"^A is empty"),
    "A vector": (lambda: model(A=[1.0, 2.0]), r"^A must have 2 dimension"),
    "A text": (lambda: model(A="matrix"), r"^A must be an array of real numbers"),
    "A complex": (lambda: model(A=1j * A2), r"^A must be an array of real numbers"),
    "A ragged": (lambda: model(A=[[1.0], [1.0, 2.0]]), r"^A must be an array of real numbers"),
    "b nan": (lambda: model(b=[NAN, 1.0]), r"^b must be finite"),
    "b array": (lambda: model(b=[[[1.0]], [[2.0]]]), r"^b must have 2 dimension.*\(2, 1, 1\)"),
    "b long": (lambda: model(b=[1.0, 2.0, 3.0]), r"^b has 3 entries; A has 2 rows"),
    "b beyond float32": (lambda: model(A=A2.astype(np.float32), b=[1e300, 1.0]), r"^b must be finite"),
    "labels 0 1": (lambda: model(b=[0, 1], loss="logistic"), r"^b must hold labels -1 and \+1"),
    "labels bool": (lambda: model(b=[True, False], loss="logistic"), r"^b must hold labels -1 and \+1"),
    "labels 2": (lambda: model(b=[1.0, 2.0], loss="logistic"), r"^b must hold labels.*2\."),
    "loss name": (lambda: model(loss="logistc"), r"^loss='logistc'.*did you mean 'logistic'.*'huber'"),
    "loss object": (lambda: model(loss=None), r"^loss must be"),
    "scale name": (lambda: model(scale="men"), r"^scale='men'.*did you mean 'mean'.*'sum'"),
    "rho": (lambda: model(loss="huber", rho=0.0), r"^rho must be a positive"),
    "rho nan": (lambda: model(loss="huber", rho=NAN), r"^rho must be a positive"),
    "rho text": (lambda: model(loss="huber", rho="big"), r"^rho must be a positive.*'big'"),
    "x0 shape": (lambda: model().point([1.0, 2.0, 3.0]), r"^x0 has shape \(3,\).*\(2,\)"),
    "x0 nan": (lambda: model().point([NAN, 0.0]), r"^x0 must be finite"),
    "H wide": (lambda: fw.Quadratic(np.ones((2, 3))), r"^H must be square.*\(2, 3\)"),
    "H asymmetric": (lambda: fw.Quadratic([[1.0, 1.0], [0.0, 1.0]]), r"^H must be symmetric"),
    "H nan": (lambda: fw.Quadratic([[NAN]]), r"^H must be finite"),
    "H empty": (lambda: fw.Quadratic(np.zeros((0, 0))), r"^H is empty"),
    "H vector": (lambda: fw.Quadratic([1.0, 2.0]), r"^H must have 2 dimension"),
    "H text": (lambda: fw.Quadratic("matrix"), r"^H must be an array"),
    "quadratic b": (lambda: fw.Quadratic(A2, [1.0, 2.0, 3.0]), r"^b has 3 entries; H has 2 rows"),
    "quadratic b nan": (lambda: fw.Quadratic(A2, [NAN, 1.0]), r"^b must be finite"),
    "rows negative": (lambda: observed(rows=[-1, 1]), r"^rows must hold integers from 0 to 1"),
    "rows large": (lambda: observed(rows=[0, 2]), r"^rows must hold integers from 0 to 1"),
    "rows huge": (lambda: observed(rows=[0, 3e9]), r"^rows must hold integers from 0 to 1"),
    "rows fraction": (lambda: observed(rows=[0, 0.5]), r"^rows must hold integers"),
    "rows nan": (lambda: observed(rows=[0, NAN]), r"^rows must hold integers"),
    "rows text": (lambda: observed(rows=["a", "b"]), r"^rows must be an array"),
    "rows matrix": (lambda: observed(rows=[[0, 1]]), r"^rows must have 1 dimension"),
    "cols large": (lambda: observed(cols=[0, 3]), r"^cols must hold integers from 0 to 2"),
    "cols negative": (lambda: observed(cols=[0, -1]), r"^cols must hold integers from 0 to 2"),
    "values nan": (lambda: observed(values=[NAN, 1.0]), r"^values must be finite"),
    "lengths": (lambda: observed(values=[1.0]), r"^rows, cols and values must agree.*2, 2 and 1"),
    "nothing observed": (lambda: observed(rows=[], cols=[], values=[]), r"^values is empty"),
    "observed twice": (lambda: observed(rows=[1, 1], cols=[2, 2]), r"^rows and cols name a position twice"),
    "shape short": (lambda: observed(shape=(2,)), r"^shape must be two positive integers"),
    "shape number": (lambda: observed(shape=6), r"^shape must be two positive integers"),
    "shape zero": (lambda: observed(shape=(0, 3)), r"^shape must be two positive integers"),
    "shape fraction": (lambda: observed(shape=(2.5, 3)), r"^shape must be two positive integers"),
    "completion loss": (lambda: observed(loss="hubert"), r"^loss='hubert'.*did you mean 'huber'"),
    "completion loss object": (lambda: observed(loss=3), r"^loss must be"),
    "completion scale": (lambda: observed(scale="summ"), r"^scale='summ'.*did you mean 'sum'"),
    "completion rho": (lambda: observed(rho=-1.0), r"^rho must be a positive"),
    "completion labels": (lambda: observed(loss="logistic"), r"must hold labels -1 and \+1"),
    "completion x0": (lambda: observed().point(np.zeros((3, 2))), r"^x0 has shape \(3, 2\).*\(2, 3\)"),
    "completion x0 nan": (lambda: observed().point(np.full((2, 3), NAN)), r"^x0 must be finite"),
    "completion x0 vector": (lambda: observed().point(np.zeros(6)), r"^x0 must have 2 dimension"),
    "fun": (lambda: fw.Smooth(3.0, lambda x: x), r"^fun must be callable"),
    "grad": (lambda: fw.Smooth(lambda x: 0.0, None), r"^grad must be a callable, or True"),
    "grad False": (lambda: fw.Smooth(lambda x: 0.0, False), r"^grad must be a callable, or True"),
    "smoothness": (lambda: fw.Smooth(lambda x: 0.0, lambda x: x, smoothness=-1.0), r"^smoothness must be a positive"),
    "smoothness nan": (lambda: fw.Smooth(lambda x: 0.0, lambda x: x, smoothness=NAN), r"^smoothness must be a pos"),
    "no objective": (lambda: fw.minimize(lambda x: x @ x, fw.Simplex()), r"^f must be an Objective.*Smooth"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused_by_name(name):
    make, message = REFUSED[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_gradients_of_the_wrong_shape_are_refused():
    f = fw.Smooth(lambda x: 0.0, lambda x: x[:-1])
    with pytest.raises(ValueError, match=r"^grad returned shape \(2,\) for an x of shape \(3,\)"):
        fw.minimize(f, fw.Simplex(), np.full(3, 1 / 3))


@pytest.mark.parametrize("joint", [True, False])
def test_functions_that_return_the_wrong_kind_are_refused(joint):
    def both(x):
        return float(x @ x), 2 * x

    f = fw.Smooth(lambda x: both(x)[0], True) if joint else fw.Smooth(both, lambda x: 2 * x)
    with pytest.raises(ValueError, match=r"^fun "):
        fw.minimize(f, fw.L1Ball(1.0), np.zeros(3))


@pytest.mark.parametrize(
    "C",
    [
        fw.L1Ball(1.0),
        fw.L2Ball(1.0),
        fw.Box(-1.0, 1.0),
        fw.NuclearBall(1.0) + np.zeros((5, 4)),
        lambda g: np.zeros(g.shape),
    ],
    ids=["one-hot", "ball", "box", "translated", "callable"],
)
def test_completion_says_which_sets_it_needs(C):
    with pytest.raises(ValueError, match=r"MatrixCompletion.*NuclearBall"):
        fw.minimize(completion(), C, max_iter=2)


def test_a_custom_loss_is_used():
    class Pseudo(fw.Loss):
        """Smooth absolute value."""

        curvature, quadratic = 1.0, False

        def check(self, b):
            if (b < 0).any():
                raise ValueError("b must not be negative")

        def value(self, z, b):
            return float((np.sqrt(1 + (z - b) ** 2) - 1).sum())

        def derivative(self, z, b):
            return (z - b) / np.sqrt(1 + (z - b) ** 2)

        def second(self, z, b):
            return (1 + (z - b) ** 2) ** -1.5

    b = np.abs(targets(12))
    f = fw.LinearModel(design(12, 6), b, Pseudo())
    assert fw.checks.gradient_error(f, targets(6)) < 1e-8
    assert fw.minimize(f, fw.L1Ball(1.0), line_search="exact", tol=1e-4).success
    with pytest.raises(ValueError, match="b must not be negative"):
        fw.LinearModel(design(12, 6), -b, Pseudo())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_dense_data_is_neither_copied_nor_changed(order, dtype):
    A, b = np.asarray(design(12, 6), dtype, order=order), labels(12).astype(dtype)
    x0 = np.zeros(6, dtype)
    f = fw.LinearModel(*read_only(A, b), "logistic")
    read_only(x0)
    assert np.shares_memory(f.design.A, A)
    assert np.shares_memory(f.b, b)
    r = fw.minimize(f, fw.L2Ball(1.0), x0, method="rk44", line_search="exact", tol=0, max_iter=5)
    assert not np.shares_memory(r.x, x0)
    assert r.x.any()


def test_other_inputs_are_not_changed():
    for kind in (sp.csr_array, sp.csc_array):
        A = kind(design(12, 6))
        read_only(A.data, A.indices, A.indptr)
        fw.minimize(fw.LinearModel(A, targets(12)), fw.L1Ball(1.0), max_iter=5)
    H, b = read_only(design(6, 6) @ design(6, 6).T, targets(6))
    f = fw.Quadratic(H, b)
    assert np.shares_memory(f.design.A, H)
    fw.minimize(f, fw.L1Ball(1.0), max_iter=5)
    rows, cols, values, X0 = read_only(ROWS.copy(), COLS.copy(), targets(9), np.zeros((5, 4)))
    fw.minimize(fw.MatrixCompletion(rows, cols, values, (5, 4)), fw.NuclearBall(1.0), X0, max_iter=5)
    x0 = read_only(np.zeros(6))[0]
    fw.minimize(OBJECTIVES["smooth"](6, 0), fw.L1Ball(1.0), x0, max_iter=5)


@pytest.mark.parametrize("method", CERTIFIED)
def test_a_run_leaves_the_objective_as_it_was(method):
    f, _ = watched(OBJECTIVES["logistic"](6, 0))
    first = fw.minimize(f, fw.L1Ball(2.0), method=method, tol=0, max_iter=10)
    second = fw.minimize(f, fw.L1Ball(2.0), method=method, tol=0, max_iter=10)
    assert f.cache == {}
    np.testing.assert_array_equal(first.x, second.x)
    assert (first.n_grad, first.n_lmo, first.n_design) == (second.n_grad, second.n_lmo, second.n_design)


@pytest.mark.parametrize("name", [*OBJECTIVES, "completion"])
def test_points_and_vertices_carry_the_image_of_the_map(name):
    f = completion() if name == "completion" else OBJECTIVES[name](6, 0)
    x, vertex = f.point(np.ones(f.shape or 6)), fw.OneHot(2, 3.0, (6,))
    if f.image_map is None:
        assert x.image is None
        assert f.refresh(x) is x
        assert f.lift(vertex).image is None
        return
    assert len(x.image) == f.image_map.size
    np.testing.assert_array_equal(f.refresh(x.bare()).image, x.image)
    if name == "completion":
        vertex = fw.RankOne(np.ones(5), np.ones(4), 2.0)
        np.testing.assert_allclose(f.lift(vertex).image.to_dense(), 2 * x.image)
        return
    np.testing.assert_allclose(f.lift(vertex).image.to_dense(), f.point(vertex.to_dense()).image, **SAME)
    f, counts = watched(f)
    shift = f.lift_block(slice(1, 4), np.arange(3.0), (6,))
    np.testing.assert_allclose(shift.image.to_dense(), f.point(shift.vertex.to_dense()).image, **SAME)
    # The block, and the columns of the two nonzero entries of the point that it is compared with.
    assert counts.n_design == pytest.approx(3 / 6 + 2 / 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": "meen"}, "scale='meen' is not known; did you mean 'mean'"),
        ({"weights": np.ones(3)}, "weights has 3 entries; it must have 9"),
        ({"weights": -np.ones(9)}, "weights must not be negative"),
        ({"weights": np.zeros(9)}, "at least one must be positive"),
        ({"loss": "logistic"}, "labels -1 and [+]1"),
    ],
)
def test_linear_models_and_completion_refuse_the_same_arguments(options, message):
    for make in (
        lambda **options: fw.LinearModel(design(9, 6, 0), targets(9), **options),
        lambda **options: fw.MatrixCompletion(ROWS, COLS, targets(9), (5, 4), **options),
    ):
        with pytest.raises(ValueError, match=message):
            make(**options)
