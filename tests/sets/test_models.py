"""Sets from models of CVXPY and HiGHS: do their oracles agree with CVXPY's own solvers, and are they members?"""

import copy
import sys

import cvxpy as cp
import highspy
import numpy as np
import pytest

import fwflow as fw

CONIC = (
    *("cone", "block", "exponential", "quadratic", "power", "projected-cone"),
    *("large-cone", "small-cone", "single-point"),
)


def sectors():
    x = cp.Variable(8, nonneg=True, name="w")
    return x, [cp.sum(x) == 1, cp.sum(x[:3]) <= 0.4, x <= 0.5]


def conservation():
    """Flows on the edges of a graph: one unit goes from node 0 to node 3."""
    tails, heads = [0, 0, 1, 1, 2], [1, 2, 2, 3, 3]
    x = cp.Variable(5)
    incidence = np.zeros((4, 5))
    incidence[tails, range(5)], incidence[heads, range(5)] = 1, -1
    return x, [incidence @ x == [1, 0, 0, -1], x >= 0, x <= 0.7]


def other_variables():
    x, y, z = cp.Variable(4), cp.Variable(4), cp.Variable((2, 2), nonneg=True)
    return x, [cp.abs(x) <= y, cp.sum(y) + cp.sum(z) <= 1, z[0, 0] >= 0.1]


def matrix():
    X = cp.Variable((3, 4))
    return X, [cp.sum(X, axis=0) == 1, X >= 0, X[0, 1] <= 0.2]


def symmetric():
    X = cp.Variable((3, 3), symmetric=True)
    return X, [X >= -1, X <= 1, X[0, 0] + X[0, 1] <= 0.5]


def parameters():
    x, r = cp.Variable(3), cp.Parameter(nonneg=True, value=2.0)
    return x, [cp.norm_inf(x) <= r]


def expression():
    y = cp.Variable(5, bounds=[-1, 2])
    return np.arange(15.0).reshape(3, 5) @ y + 1.0, [cp.sum(y) == 1]


def scalar():
    x = cp.Variable()
    return x, [x >= -1, 2 * x <= 4]


def cone():
    x = cp.Variable(5)
    return x, [cp.norm(x) <= 1, x[0] <= 0.3, cp.sum(x) >= -0.5]


def block():
    X = cp.Variable((3, 3), PSD=True)
    return X, [cp.trace(X) == 1, X[0, 1] >= 0.05]


def exponential():
    x = cp.Variable(3)
    return x, [cp.sum(cp.exp(x)) <= 5, x >= -2]


def quadratic():
    x = cp.Variable(3)
    return x, [cp.quad_form(x - 1, np.diag([1.0, 2.0, 3.0])) <= 2]


def power():
    x = cp.Variable(3, nonneg=True)
    return x, [cp.sum(cp.power(x, 3)) <= 4]


def projected_cone():
    x, t = cp.Variable((2, 2)), cp.Variable()
    return x, [cp.norm(x, "fro") <= t, t <= 2, x[0, 0] == 0.5]


def large_cone():
    x = cp.Variable(4)
    return x, [cp.norm(x) <= 1e5, x[0] >= 9e4]


def small_cone():
    x = cp.Variable(4)
    return x, [cp.norm(x) <= 1e-4]


def single_point():
    x = cp.Variable(3)
    return x, [cp.norm(x - np.arange(3)) <= 0]


def knapsack():
    x = cp.Variable(5, boolean=True)
    return x, [np.array([2, 3, 4, 5, 9]) @ x <= 12, x[0] + x[1] <= 1]


def switches():
    """Continuous amounts with integer counts, which are projected out."""
    x, n = cp.Variable(3), cp.Variable(3, integer=True)
    return x, [x <= 1.5 * n, x >= 0, n <= 2, cp.sum(n) <= 4, cp.sum(x) <= 5]


MODELS = {
    function.__name__.replace("_", "-"): function
    for function in (
        *(sectors, conservation, other_variables, matrix, symmetric, parameters, expression, scalar),
        *(cone, block, exponential, quadratic, power, projected_cone, large_cone, small_cone, single_point),
        *(knapsack, switches),
    )
}
INTEGER = ("knapsack", "switches")


def least(x, constraints, g, name):
    """The minimum of <g, x> by a solver that CVXPY calls, with accurate settings."""
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(g.reshape(x.shape), x))), constraints)
    if name in CONIC:
        return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.solve(solver=cp.HIGHS)


@pytest.mark.parametrize("name", MODELS)
def test_values_of_the_oracle(name):
    x, constraints = MODELS[name]()
    C = fw.from_cvxpy(constraints, x)
    rng, hint = np.random.default_rng(0), None
    for size in (1.0, 1.0, 1e-6, 1e6):
        g = size * rng.standard_normal(C.shape)
        hint = C.lmo(g, hint)
        expected = size * least(x, constraints, g / size, name)
        close = 1e-7 * max(size, abs(expected))
        assert hint.dot(g) == pytest.approx(expected, rel=0, abs=close)
        assert expected - close <= C.lower_bound(g, hint) <= expected + close
        assert C.contains(np.asarray(hint)) is True


@pytest.mark.parametrize("name", MODELS)
def test_membership_start_diameter_and_types(name):
    x, constraints = MODELS[name]()
    C = fw.from_cvxpy(constraints, x)
    assert C.shape == (x.shape or (1,))
    assert C.contains(C.start()) is True
    assert C.contains(C.random_start(0)) in ((True, None) if name in INTEGER else (True,))
    rng = np.random.default_rng(1)
    vertices = [np.asarray(C.lmo(rng.standard_normal(C.shape))) for _ in range(6)]
    assert max(np.linalg.norm(v - w) for v in vertices for w in vertices) <= C.diameter() * (1 + 1e-6) + 1e-12
    far = max(vertices, key=lambda v: np.linalg.norm(v - C.start()))
    away = far - C.start() if name != "single-point" else np.ones(3)
    assert C.contains(C.start() + 30 * away) is False
    assert C.contains(np.full(C.shape, np.nan)) is False
    assert C.lmo(rng.standard_normal(C.shape).astype(np.float32)).array.dtype == np.float32
    assert C.start(dtype=np.float32).dtype == np.float32
    assert np.isfinite(np.asarray(C.lmo(np.zeros(C.shape)))).all()
    g = rng.standard_normal(C.shape)
    np.testing.assert_array_equal(C.lmo(g), C.lmo(g))
    with pytest.raises(ValueError, match="has shape"):
        C.lmo(np.zeros(97))
    assert C.fingerprint() == fw.from_cvxpy(constraints, x).fingerprint()


@pytest.mark.parametrize("name", [name for name in MODELS if name not in INTEGER])
def test_minima_of_a_quadratic_agree_with_cvxpy(name):
    x, constraints = MODELS[name]()
    C = fw.from_cvxpy(constraints, x)
    target = np.random.default_rng(2).standard_normal(C.shape)
    f = fw.Smooth(lambda v: float(((v - target) ** 2).sum()), lambda v: 2 * (v - target))
    size = max(1.0, float(np.abs(C.start()).max())) ** 2
    r = fw.minimize(f, C, tol=1e-7 * size)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(x - target.reshape(x.shape))), constraints)
    expected = problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    assert r.success
    assert r.fun == pytest.approx(expected, abs=1e-6 * size)


def test_kinds_of_sets():
    assert isinstance(fw.from_cvxpy(*sectors()[::-1]), fw.Polytope)
    assert isinstance(fw.from_cvxpy(*knapsack()[::-1]), fw.MixedInteger)
    x, constraints = sectors()
    problem = cp.Problem(cp.Minimize(cp.norm1(x)), constraints)
    g = np.arange(8.0)
    np.testing.assert_array_equal(fw.from_cvxpy(problem, x).lmo(g), fw.from_cvxpy(constraints, x).lmo(g))
    np.testing.assert_array_equal(np.asarray(fw.from_cvxpy(x[0] == 0.5, x[0]).lmo(np.ones(1))), [0.5])


def test_parameters_keep_the_value_of_the_call():
    x, r = cp.Variable(2), cp.Parameter(value=1.0)
    C = fw.from_cvxpy([cp.norm1(x) <= r], x)
    r.value = 5.0
    assert C.lmo(np.array([1.0, 0.0])).dot(np.array([1.0, 0.0])) == pytest.approx(-1.0)


def test_combinations_and_copies():
    x, constraints = sectors()
    C = fw.from_cvxpy(constraints, x)
    g = np.random.default_rng(0).standard_normal(8)
    np.testing.assert_array_equal(copy.deepcopy(C).lmo(g), C.lmo(g))
    np.testing.assert_allclose((2 * C + np.ones(8)).lmo(g), 2 * np.asarray(C.lmo(g)) + 1)


def test_warm_starts_do_not_depend_on_earlier_calls():
    rng = np.random.default_rng(0)
    A = rng.random((30, 60))
    cold, warm = (fw.Polytope(A, A.sum(axis=1) / 3, lower=0.0, upper=1.0, warm_start=w) for w in (False, True))
    first, second = rng.standard_normal(60), rng.standard_normal(60)
    hint = warm.lmo(first)
    answer = warm.lmo(second, hint)
    for other in rng.standard_normal((3, 60)):
        warm.lmo(other, answer)
    np.testing.assert_array_equal(warm.lmo(second, hint), answer)
    np.testing.assert_array_equal(warm.lmo(first), hint)
    np.testing.assert_allclose(answer, cold.lmo(second), atol=1e-9)
    assert warm.lower_bound(second, answer) == pytest.approx(cold.lmo(second).dot(second), rel=1e-9)
    np.testing.assert_allclose(warm.lmo(second, fw.DenseVertex(np.zeros(60))), answer, atol=1e-9)


X = cp.Variable(3, name="x")
FREE, N = cp.Variable(name="t"), cp.Variable(3, integer=True, name="n")


@pytest.mark.parametrize(
    ("constraints", "x", "message"),
    [
        ([X >= 1, X <= 0], X, "no value of x satisfies all of them"),
        ([cp.norm(X) <= 1, X >= 2], X, "no value of x satisfies all of them"),
        ([N >= 0.2, N <= 0.8], N, "no value of n satisfies all of them"),
        ([X >= 0], X, "x is unbounded: some entries can grow"),
        ([], X, "x is unbounded"),
        ([X[0] + X[1] == 1, X[2] >= 0, X[2] <= 1], X, "x is unbounded"),
        ([cp.norm(X[:2]) <= 1], X, "x is unbounded"),
        ([cp.norm(X) <= FREE], X, "x is unbounded"),
        ([N >= 0], N, "n is unbounded without the integrality: .* HiGHS needs a bounded linear program"),
        ([N[0] == np.sqrt(2) * N[1], N[2] == 0], N, "n is unbounded without the integrality"),
        ([2 * N[0] - 2 * N[1] == 1, N[2] == 0], N, "no value of n satisfies all of them"),
        ([cp.norm(X) >= 1], X, r"constraints\[0\] must follow the rules of disciplined convex programming"),
        ([X <= 1, 3 >= 2], X, r"constraints\[1\] must be a constraint of CVXPY; got bool"),
        ([X >= 0, cp.Parameter(name="limit") >= X], X, "parameter limit has no value"),
        ([cp.norm(N) <= 2], N, "constraints with integer variables must be linear"),
        ([cp.norm(X) <= np.nan], X, r"must have finite numbers, .* got constraints\[0\]: .*nan"),
        ([X >= 0, X <= 1, np.array([1, np.nan, 0]) @ X <= 1], X, r"must have finite numbers, .* got constraints\[2\]"),
        ([X >= 0, X <= 1, np.array([1, np.inf, 0]) @ X <= 1], X, r"must have finite numbers, .* got constraints\[2\]"),
        ([cp.norm(X) <= 1, X - np.inf >= 0], X, r"must have finite numbers, .* got constraints\[1\]"),
        ([X >= 0, X <= 1], X + np.nan, r"must have finite numbers"),
        ([X >= 0, X <= 1], cp.square(X), "x must be a real CVXPY variable or an affine expression"),
        ([X >= 0, X <= 1], np.ones(3), "x must be a real CVXPY variable"),
        ([], cp.Variable(2, complex=True), "x must be a real CVXPY variable"),
    ],
)
def test_models_that_are_no_sets(constraints, x, message):
    with pytest.raises(ValueError, match=message):
        fw.from_cvxpy(constraints, x)


@pytest.mark.parametrize("rest", [[X <= 1, X >= -1], [cp.norm(X) <= 1]])
def test_infinite_bounds_are_no_constraints(rest):
    C, g = (
        fw.from_cvxpy([*rest, X - np.inf <= 0, cp.norm1(X) <= np.inf, X[0] + np.inf >= 0], X),
        np.array([1.0, -2.0, 3.0]),
    )
    assert C.lmo(g).dot(g) == pytest.approx(fw.from_cvxpy(rest, X).lmo(g).dot(g), rel=1e-8)
    assert C.lower_bound(g, C.lmo(g)) == pytest.approx(C.lmo(g).dot(g), rel=1e-8)


@pytest.mark.parametrize("name", [*MODELS, "huge-cone"])
def test_the_bound_of_a_zero_cost_is_zero(name):
    x, constraints = (X, [cp.norm(X) <= 1e12]) if name == "huge-cone" else MODELS[name]()
    C = fw.from_cvxpy(constraints, x)
    zero = np.zeros(C.shape)
    assert C.lower_bound(zero, C.lmo(zero)) == 0.0


def test_an_exact_stationary_point_of_a_huge_cone():
    C = fw.from_cvxpy([cp.norm(X) <= 1e12], X)
    r = fw.minimize(fw.Smooth(lambda x: float(x @ x), lambda x: 2 * x), C, np.zeros(3))
    assert r.success
    assert r.gap == 0.0


@pytest.mark.parametrize(
    ("C", "message"),
    [
        (cp.Problem(cp.Minimize(cp.sum(X)), [X >= 0]), r"got Problem\. fw\.from_cvxpy\(constraints, x\) makes a set"),
        (highspy.HighsLp(), r"got HighsLp\. fw\.from_highs\(model\)"),
    ],
)
def test_a_model_in_place_of_a_set(C, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(fw.Quadratic(np.eye(3)), C)


@pytest.mark.parametrize("A", [cp.Problem(cp.Minimize(cp.sum(X)), [X >= 0]), [X >= 0], X >= 0])
def test_a_model_in_place_of_arrays(A):
    with pytest.raises(ValueError, match=r"A must be an array or a sparse matrix; got .* fw\.from_cvxpy"):
        fw.Polytope(A)


def highs_model():
    model = highspy.Highs()
    model.silent()
    x = model.addVariables(3, lb=0.0, ub=2.0)
    model.addConstr(1.0 <= x[0] + 2 * x[1] <= 3.0)
    model.addConstr(x[0] - x[2] == 0.0)
    return model


@pytest.mark.parametrize("convert", [lambda m: m, lambda m: m.getModel(), lambda m: m.getLp()])
def test_models_of_highs(convert):
    C = fw.from_highs(convert(highs_model()))
    x = cp.Variable(3)
    constraints = [x >= 0, x <= 2, x[0] + 2 * x[1] <= 3, x[0] + 2 * x[1] >= 1, x[0] == x[2]]
    for g in np.random.default_rng(0).standard_normal((5, 3)):
        assert C.lmo(g).dot(g) == pytest.approx(least(x, constraints, g, ""), abs=1e-9)
    assert isinstance(C, fw.Polytope)
    assert C.contains([1.0, 0.5, 1.0])
    assert not C.contains([0.0, 0.0, 0.0])


def test_integers_of_highs():
    model = highspy.Highs()
    model.silent()
    x = model.addIntegrals(3, lb=0, ub=2)
    model.addConstr(2 * x[0] + 3 * x[1] + 4 * x[2] <= 7)
    C = fw.from_highs(model)
    assert isinstance(C, fw.MixedInteger)
    np.testing.assert_array_equal(np.asarray(C.lmo(np.array([-1.0, -2.0, -3.0]))), [0.0, 1.0, 1.0])


def test_models_of_highs_that_are_no_sets():
    unbounded, empty = highspy.Highs(), highspy.Highs()
    for model in (unbounded, empty):
        model.silent()
    unbounded.addVariable(lb=0.0)
    x = empty.addVariable(lb=0.0, ub=1.0)
    empty.addConstr(x >= 2.0)
    with pytest.raises(ValueError, match="x is unbounded"):
        fw.from_highs(unbounded)
    with pytest.raises(ValueError, match="no value of x satisfies all of them"):
        fw.from_highs(empty)
    with pytest.raises(ValueError, match="model has no columns"):
        fw.from_highs(highspy.HighsLp())
    with pytest.raises(ValueError, match=r"model must be a highspy\.Highs, HighsModel or HighsLp; got str"):
        fw.from_highs("model.mps")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        *(("row_upper_", np.nan), ("col_lower_", np.nan), ("row_lower_", np.inf), ("col_upper_", -np.inf)),
        *(("value_", np.nan), ("value_", np.inf)),
    ],
)
def test_numbers_of_highs_that_are_not_finite(part, value):
    lp = highs_model().getLp()
    place = lp.a_matrix_ if part == "value_" else lp
    numbers = np.array(getattr(place, part))
    numbers[0] = value
    setattr(place, part, numbers)
    with pytest.raises(ValueError, match="model must have finite coefficients, lower bounds below inf and upper"):
        fw.from_highs(lp)


@pytest.mark.parametrize(
    ("package", "call", "message"),
    [
        ("cvxpy", lambda: fw.from_cvxpy([], None), r"from_cvxpy needs cvxpy: pip install 'fwflow\[cvxpy\]'"),
        ("cvxpy", lambda: fw.solve_cvxpy(None), r"solve_cvxpy needs cvxpy: pip install 'fwflow\[cvxpy\]'"),
        ("highspy", lambda: fw.from_highs(None), r"from_highs needs highspy: pip install 'fwflow\[mps\]'"),
        ("highspy", lambda: fw.from_cvxpy([X >= 0, X <= 1], X), r"needs highspy: pip install 'fwflow\[mps\]'"),
        ("highspy", lambda: fw.Polytope(lower=0.0, upper=1.0, n=2, warm_start=True), "warm_start=True needs highspy"),
    ],
)
def test_missing_packages(monkeypatch, package, call, message):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=message):
        call()
