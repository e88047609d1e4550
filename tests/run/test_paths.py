"""Do automatic radii end where independent solvers find nothing left to gain, and is a path made of single runs?"""

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import fwflow as fw
from fwflow.designs import Counts
from fwflow.methods.problem import Problem
from fwflow.methods.restricted.blocks import decomposed
from fwflow.run import paths

RNG = np.random.default_rng(0)
M, N = 60, 8
A = RNG.standard_normal((M, N))
B = A @ np.r_[2.0, -1.0, 0.5, np.zeros(N - 3)] + RNG.standard_normal(M)
LABELS = np.where(np.median(B) < B, 1.0, -1.0)
SCALES = np.r_[np.ones(4), 1e-3 * np.ones(4)]  # coefficients of the last columns are a thousand times as large
COPIES = A[:, [0, 1, 0, 2, 2]]
WIDE = RNG.standard_normal((12, 40))


def least_squares(X, y):
    """The unconstrained minimum of half the mean of squares, by LAPACK."""
    free = LinearRegression(fit_intercept=False).fit(X, y)
    return 0.5 * np.mean((free.predict(X) - y) ** 2)


def test_paths_end_at_about_the_norm_of_the_minimiser_without_constraint():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((400, 8))
    score = 2 * X[:, 0] - X[:, 1]
    y, labels = score + rng.standard_normal(400), np.where(score + rng.logistic(size=400) > 0, 1.0, -1.0)
    squares = LinearRegression().fit(X, y).coef_
    logistic = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000).fit(X, labels).coef_[0]
    for f, free in (
        (fw.LinearModel(X, y, intercept=True), squares),
        (fw.LinearModel(X, labels, "logistic", intercept=True), logistic),
    ):
        path = fw.path(f, fw.L1Ball, n_radii=5)
        norm = np.abs(free).sum()
        assert 0.9 * norm <= path.radii[-1] <= 1.04 * norm
        start, least = f.value(f.point(np.zeros(8))), f.value(f.point(free))
        assert path.results[-1].fun - least <= 1e-3 * (start - least)


def test_paths_without_a_minimiser_end_near_the_lower_bound():
    X = np.random.default_rng(3).standard_normal((40, 60))
    f = fw.LinearModel(X, np.sign(X[:, 0]), "logistic")
    path = fw.path(f, fw.L1Ball, n_radii=5)
    assert 0.8 * 0.05 * np.log(2) < path.results[-1].fun <= 0.05 * np.log(2)
    longer = fw.path(f, fw.L1Ball, n_radii=5, eps=1e-3)
    assert longer.results[-1].fun <= 1.1e-3 * np.log(2)
    assert longer.radii[-1] > path.radii[-1]


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("ball", [fw.L1Ball, fw.L2Ball, fw.LInfBall])
@pytest.mark.parametrize(
    ("X", "y"),
    [(A, B), (A * SCALES, B), (COPIES, B), (WIDE, WIDE[:, :3].sum(axis=1))],
    ids=["tall", "scales", "copies", "wide"],
)
def test_least_squares_ends_at_the_unconstrained_minimum(X, y, ball, eps):
    f = fw.LinearModel(X, y)
    path = fw.path(f, ball, n_radii=6, eps=eps, tol=1e-9)
    minimum, start = least_squares(X, y), 0.5 * np.mean(y**2)
    last = path.results[-1]
    assert last.fun - minimum <= eps * (start - last.fun) + 1e-9
    assert path.lower_bound <= minimum + 1e-12
    assert path.remaining <= eps * (start - last.fun) + 1e-9
    assert np.ptp(np.diff(np.log(path.radii))) < 1e-9
    half = fw.minimize(f, ball(path.radii[-1] / 2), tol=1e-9)
    g = X.T @ (X @ half.x - y) / len(y)
    gain = max(half.fun - minimum, min(half.fun, 2 * half.gap - g @ half.x))  # the second bounds that of doubling
    assert gain > eps * (start - half.fun)  # no radius of half the size would do


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
def test_separable_classes_end_where_little_can_be_gained(scale):
    signs = np.sign(A[:, 0] - A[:, 1])  # every larger ball has a smaller loss
    f = fw.LinearModel(scale * A, signs, loss="logistic")
    path = fw.path(f, fw.L1Ball, n_radii=5, eps=1e-3, rtol=1e-6, tol=0.0)
    last = path.results[-1]
    assert path.lower_bound == 0.0
    assert np.abs(last.x).sum() == pytest.approx(path.radii[-1])
    assert 0 < path.remaining == last.fun <= 1.01e-3 * (np.log(2) - last.fun)


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_other_losses_end_at_the_minimum_of_another_solver(loss):
    b = LABELS if loss == "logistic" else B
    x = cp.Variable(N)
    terms = cp.logistic(-cp.multiply(b, A @ x)) if loss == "logistic" else cp.huber(A @ x - b, 1.0) / 2
    minimum = cp.Problem(cp.Minimize(cp.sum(terms) / M)).solve(solver=cp.CLARABEL)
    f = fw.LinearModel(A, b, loss=loss)
    path = fw.path(f, fw.L2Ball, n_radii=5, eps=1e-3)
    start, last = f.value(f.point(np.zeros(N))), path.results[-1].fun
    assert last - minimum <= 1e-3 * (start - last)
    assert path.lower_bound <= minimum + 1e-8
    assert path.remaining <= 1.01e-3 * (start - last)


def test_a_function_of_ones_own_has_a_path():
    centre = np.r_[1.0, -2.0, 0.0]
    f = fw.Smooth(lambda x: float((x - centre) @ (x - centre)), lambda x: 2 * (x - centre), shape=(3,))
    path = fw.path(f, fw.L1Ball, n_radii=4, eps=1e-3)
    np.testing.assert_allclose(path.results[-1].x, centre, atol=0.1)
    assert np.count_nonzero(path.results[0].x) == 1


def test_matrices_have_a_path():
    rows, cols = np.nonzero(RNG.random((12, 9)) < 0.7)
    truth = np.outer(np.arange(12.0), np.ones(9))[rows, cols]
    f = fw.MatrixCompletion(rows, cols, truth, (12, 9))
    path = fw.path(f, fw.NuclearBall, n_radii=4, eps=0.05, rtol=1e-6, tol=0.0)
    start = f.value(f.point(fw.LowRank.zeros((12, 9), float)))
    assert path.results[-1].fun <= 0.051 * start
    assert path.remaining <= 0.051 * start


def test_simplices_end_where_the_minimum_rises_again():
    path = fw.path(fw.LinearModel(A, B), fw.Simplex, n_radii=20, eps=1e-3)
    values = np.array([result.fun for result in path.results])
    x = cp.Variable(N, nonneg=True)
    least = cp.Problem(cp.Minimize(cp.sum_squares(A @ x - B) / (2 * M))).solve(solver=cp.CLARABEL)
    assert values[-1] - least <= 1e-3 * (0.5 * np.mean(B**2) - values[-1])


@pytest.mark.parametrize("loss", ["squared", "huber", "logistic"])
def test_the_search_on_simplices_does_not_pass_a_minimum_of_many_times_smaller_radius(loss):
    f = fw.LinearModel(A, LABELS if loss == "logistic" else B, loss)
    path = fw.path(f, fw.Simplex, n_radii=40, eps=1e-2, tol=1e-9)
    values = np.array([result.fun for result in path.results])
    assert path.radii[-1] <= 1.5 * path.radii[values.argmin()]
    assert path.lower_bound <= values.min() + 1e-12


def test_a_path_is_made_of_single_runs():
    f = fw.LinearModel(A, B)
    path = fw.path(f, fw.L1Ball, [2.0, 0.5, 1.0, 1.0], tol=1e-10)
    assert path.radii.tolist() == [0.5, 1.0, 2.0]
    for radius, result in zip(path.radii, path.results, strict=True):
        assert result.success
        np.testing.assert_allclose(result.x, fw.minimize(f, fw.L1Ball(radius), tol=1e-10).x, atol=1e-4)
    assert path.remaining >= path.results[-1].fun - least_squares(A, B)


def test_options_reach_every_run():
    path = fw.path(fw.LinearModel(A, B), fw.L1Ball, [0.5, 1.0], line_search="exact", max_iter=1, tol=1e-12)
    assert [(result.nit, str(result.method)) for result in path.results] == [(1, "fw"), (1, "fw")]


def test_relative_tolerances_belong_to_the_start_of_each_set():
    f = fw.LinearModel(A, B)
    path = fw.path(f, fw.L1Ball, [0.5, 0.501, 0.502], tol=0.0, rtol=1e-3)
    g = A.T @ -B / M
    for radius, result in zip(path.radii, path.results, strict=True):
        assert result.success
        assert result.gap <= 1e-3 * radius * np.abs(g).max()


def test_where_zero_is_a_minimiser_radii_go_from_a_thousandth_to_one():
    path = fw.path(fw.LinearModel(A, np.zeros(M)), fw.L1Ball, n_radii=3)
    np.testing.assert_allclose(path.radii, [1e-3, np.sqrt(1e-3), 1.0])
    assert path.remaining == 0.0
    assert not any(result.x.any() for result in path.results)


@pytest.mark.parametrize(
    ("radii", "options", "message"),
    [
        ([], {}, "radii must be a vector of at least one positive number"),
        ([[1.0]], {}, "radii must be a vector of at least one positive number"),
        ([1.0, 0.0], {}, "radii must be a vector of at least one positive number"),
        ([1.0, np.inf], {}, "radii must be finite"),
        ("some", {}, "radii='some' is not known; give an array or 'auto'"),
        ("auto", {"eps": 0.0}, "eps must be above 0 and at most 1"),
        ("auto", {"n_radii": 0}, "n_radii"),
    ],
)
def test_arguments_are_checked(radii, options, message):
    with pytest.raises(ValueError, match=message):
        fw.path(fw.LinearModel(A, B), fw.L1Ball, radii, **options)


def test_automatic_radii_need_a_shape():
    with pytest.raises(ValueError, match="known shape; give radii"):
        fw.path(fw.Smooth(lambda x: float(x @ x), lambda x: 2 * x), fw.L1Ball)


class _Interrupting:
    """A callback that interrupts at the first iterate of the run with the given number."""

    def __init__(self, run):
        self.run, self.runs = run, 0

    def __call__(self, state):
        self.runs += state.k == 0
        if self.runs == self.run:
            raise KeyboardInterrupt


def test_an_interrupted_path_keeps_what_is_done():
    path = fw.path(fw.LinearModel(A, B), fw.L1Ball, [0.5, 1.0, 2.0], callback=_Interrupting(3))
    assert (len(path.radii), len(path.results)) == (3, 2)
    assert all(result.success for result in path.results)
    for radii in ([0.5, 1.0], "auto"):
        with pytest.raises(KeyboardInterrupt):
            fw.path(fw.LinearModel(A, B), fw.L1Ball, radii, callback=_Interrupting(1))


@pytest.mark.parametrize("rest", [0.0, 1e-15, 1e-13, 0.3])
def test_a_decomposition_gives_the_rest_to_the_origin_unless_it_is_rounding(rest):
    x, f = np.zeros(N), fw.LinearModel(A, B)
    x[2], x[5] = 0.5 - rest, -0.5
    found = decomposed(Problem(f, fw.L1Ball(1.0), Counts()), f.point(x))
    assert len(found) == (3 if rest > 1e-14 else 2)
    assert found.weights.sum() == pytest.approx(1.0, abs=1e-15)
    np.testing.assert_allclose(found.x, x, atol=1e-14)


def test_a_start_is_moved_inside():
    inside, outside = np.r_[0.5, 0.2], np.r_[3.0, 0.0]
    assert paths.moved_inside(fw.L1Ball(1.0), inside) is inside
    np.testing.assert_allclose(paths.moved_inside(fw.L1Ball(1.0), outside), [1.0, 0.0])
    assert paths.moved_inside(fw.ConvexHull(np.eye(2)), outside) is None


@pytest.mark.parametrize("factored", [False, True])
def test_the_origin_is_zero_in_the_form_of_the_objective(factored):
    f = fw.MatrixCompletion([0, 1], [1, 0], [2.0, 4.0], (2, 3)) if factored else fw.LinearModel(A, B)
    zero = paths.origin(f, f.shape)
    assert zero.factored is factored
    assert f.value(zero) == pytest.approx((2.0**2 + 4.0**2) / 2 if factored else np.mean(B**2) / 2)


@pytest.mark.parametrize(
    ("start", "options", "method"),
    [
        (np.eye(N)[0], {}, "working-set"),
        (np.eye(N)[0], {"method": "fw"}, "fw"),
        (np.eye(N)[0], {"line_search": "exact"}, "fw"),
        (np.full(N, 1 / (2 * N)), {}, "working-set"),
        (None, {}, "working-set"),
    ],
)
def test_starts_are_continued_with_the_default_method_if_no_method_is_given(start, options, method):
    result = paths.minimised(fw.LinearModel(A, B), fw.L1Ball(1.0), start, max_iter=1, **options)
    assert str(result.method) == method


def test_a_run_starts_at_the_best_of_several_points():
    f, C = fw.LinearModel(A, B), fw.L1Ball(2.0)
    best = fw.minimize(f, C).x
    for starts in ((np.zeros(N), best), (best, np.zeros(N)), (-best, np.zeros(N), best)):
        np.testing.assert_array_equal(paths.minimised(f, C, *starts, max_iter=0).x, best)
    hull = fw.ConvexHull(np.eye(N))  # It has no projection, so that a start outside is dropped.
    np.testing.assert_array_equal(paths.minimised(f, hull, 3 * best, np.eye(N)[1], max_iter=0).x, np.eye(N)[1])


def test_values_of_functions_of_the_user_are_not_computed_to_choose_a_start():
    calls = []
    f = fw.Smooth(lambda x: calls.append(x) or float(x @ x), lambda x: 2 * x, shape=(N,))
    first, second = np.eye(N)[0], np.zeros(N)
    np.testing.assert_array_equal(paths.minimised(f, fw.L1Ball(1.0), first, second, max_iter=0).x, first)
    assert all((x == first).all() for x in calls)


def test_the_start_of_a_run_lies_on_the_line_through_the_two_minimisers_before():
    seen = []

    def fit(radius, starts):
        seen.append(starts)
        return fw.minimize(fw.LinearModel(np.eye(2), [9.0, 8.0]), fw.L1Ball(radius), tol=1e-14)

    found = list(paths.followed(np.array([2.0, 3.0, 5.0]), fit))
    assert seen[0] == ()
    np.testing.assert_allclose(seen[1], [found[0].x, 1.5 * found[0].x])
    np.testing.assert_allclose(seen[2], [found[1].x, found[2].x], atol=1e-9)  # both coefficients grow by a half
    known = list(zip([2.0, 3.0, 5.0], (result.x for result in found), strict=True))
    between = list(paths.followed(np.array([2.5, 4.0]), fit, known))
    np.testing.assert_allclose(seen[3], [found[0].x, (found[0].x + found[1].x) / 2])
    np.testing.assert_allclose(seen[4], [found[1].x, between[1].x], atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "logistic", "huber"])
@pytest.mark.parametrize(
    "ball", [fw.L1Ball, fw.L2Ball, fw.Simplex, lambda r: fw.GroupBall([0, 0, 1, 1, 2, 2, 3, 3], r)]
)
def test_warm_and_cold_runs_have_the_same_minima(loss, ball):
    f = fw.LinearModel(A, LABELS if loss == "logistic" else B, loss)
    for result, radius in zip((path := fw.path(f, ball, n_radii=8, tol=1e-9)).results, path.radii, strict=True):
        cold = fw.minimize(f, ball(radius), tol=1e-9)
        assert result.success
        assert -result.gap - 1e-14 <= cold.fun - result.fun <= cold.gap + 1e-14


def test_a_run_starts_at_the_projection_of_an_outside_point():
    result = paths.minimised(fw.LinearModel(A, B), fw.L1Ball(1.0), 3 * np.eye(N)[2], max_iter=0)
    np.testing.assert_allclose(result.x, np.eye(N)[2])


@pytest.mark.parametrize("level", [0.0, 3.7, -1e6])
def test_path_of_constant_target_ends_at_once(level):
    """Zero is the minimiser for every radius, so that a fraction of the first gap is below rounding."""
    A = np.random.default_rng(0).standard_normal((60, 5))
    f = fw.LinearModel(A, np.full(60, level), intercept=True)
    found = fw.path(f, fw.L1Ball, [0.01, 1.0], tol=0.0, rtol=1e-6)
    assert [result.nit for result in found.results] == [0, 0]
    assert all(result.success and not result.x.any() for result in found.results)
