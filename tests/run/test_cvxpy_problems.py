"""Problems of CVXPY: does `solve_cvxpy` find the optimum of CVXPY's own solvers, and leave the problem as they do?"""

import warnings

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow.run import cvxpy_problems

rng = np.random.default_rng(0)
M, b = rng.standard_normal((20, 6)), rng.standard_normal(20)
S, mu = M.T @ M / 20, rng.standard_normal(6)
T = rng.standard_normal((3, 3))


def simplex(objective, kind=cp.Minimize, **attributes):
    x = cp.Variable(6, nonneg=True)
    return cp.Problem(kind(objective(x)), [cp.sum(x) == 1, x[0] + x[1] <= 0.4])


def with_slacks():
    x, y = cp.Variable(6), cp.Variable(6)
    return cp.Problem(cp.Minimize(cp.sum_squares(M @ x - b)), [cp.abs(x) <= y, cp.sum(y) <= 1])


def several_variables():
    x, y = cp.Variable(4), cp.Variable((2, 2))
    objective = cp.sum_squares(x - 1) + cp.sum(cp.exp(y)) - 3 * y[0, 1] + x[0] / 2
    return cp.Problem(cp.Minimize(objective), [x <= 0.5, x >= -1, cp.abs(y) <= 1, x[0] + y[0, 1] <= 0.2])


def over(constraints, objective, *shape, kind=cp.Minimize, **attributes):
    x = cp.Variable(shape, **attributes)
    return cp.Problem(kind(objective(x)), constraints(x))


PROBLEMS = {
    "quad_form": lambda: simplex(lambda x: mu @ x - cp.quad_form(x, S), cp.Maximize),
    "sum_squares": with_slacks,
    "several": several_variables,
    "cone": lambda: over(lambda x: [cp.norm(x) <= 0.2], lambda x: cp.sum_squares(M @ x - b), 6),
    "psd": lambda: over(lambda X: [cp.trace(X) == 1], lambda X: cp.sum_squares(X - T), 3, 3, PSD=True),
    "symmetric": lambda: over(lambda X: [cp.abs(X) <= 0.3], lambda X: cp.sum_squares(X - T), 3, 3, symmetric=True),
    "log_det": lambda: over(lambda X: [cp.trace(X) == 1, X[0, 0] <= 0.2], cp.log_det, 3, 3, kind=cp.Maximize, PSD=True),
    "log": lambda: simplex(lambda x: cp.sum(cp.log(x)), cp.Maximize),
    "entr": lambda: simplex(lambda x: cp.sum(cp.entr(x)), cp.Maximize),
    "kl_div": lambda: simplex(lambda x: cp.sum(cp.kl_div(x, np.full(6, 1 / 6)))),
    "rel_entr": lambda: simplex(lambda x: cp.sum(cp.rel_entr(x, np.arange(1, 7) / 21))),
    "exp": lambda: simplex(lambda x: cp.sum(cp.exp(M @ x))),
    "logistic": lambda: over(lambda x: [cp.norm1(x) <= 1], lambda x: cp.sum(cp.logistic(M @ x)) - b @ M @ x, 6),
    "log_sum_exp": lambda: simplex(lambda x: cp.log_sum_exp(M @ x)),
    "huber": lambda: over(lambda x: [cp.norm_inf(x) <= 0.1], lambda x: cp.sum(cp.huber(M @ x - b, 0.3)), 6),
    "power": lambda: simplex(lambda x: cp.sum(cp.power(x + 0.1, 1.5)) + cp.sum(cp.inv_pos(x + 0.1))),
    "quad_over_lin": lambda: simplex(lambda x: cp.quad_over_lin(x[:3] - 1, x[3] + 0.1)),
    "matrix_frac": lambda: simplex(lambda x: cp.matrix_frac(x, np.diag(np.arange(1.0, 7.0)))),
    "tr_inv": lambda: over(lambda X: [cp.trace(X) <= 2], cp.tr_inv, 2, 2, PSD=True),
    "geo_mean": lambda: simplex(lambda x: cp.geo_mean(x, approx=False), cp.Maximize),
    "log1p": lambda: simplex(lambda x: cp.sum(cp.log1p(x) * 2) + mu @ x, cp.Maximize),
    "linear": lambda: over(lambda x: [cp.norm_inf(x) <= 0.1], lambda x: mu @ x, 6),
    "scalar": lambda: over(lambda x: [x >= 0, x <= 2], lambda x: (x - 3) ** 2),
    "parameter": lambda: simplex(lambda x: cp.sum_squares(x - cp.Parameter(6, value=mu))),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_optimum_of_cvxpy(name):
    problem = PROBLEMS[name]()
    r = fw.solve_cvxpy(problem)
    found, values = problem.value, {v: v.value for v in problem.variables()}
    assert r.success
    assert problem.status == "optimal"
    assert found == pytest.approx(-r.fun if isinstance(problem.objective, cp.Maximize) else r.fun)
    for constraint in problem.constraints:
        assert constraint.violation().max() < 1e-6
    expected = problem.solve(solver=cp.CLARABEL)
    assert found == pytest.approx(expected, abs=1e-6)
    for v, value in values.items():
        assert value.shape == v.shape


W, c = rng.standard_normal((4, 3)), rng.standard_normal(4)
P = W @ W.T + np.eye(4)
LEVEL, PSD = cp.Parameter(nonneg=True, value=0.7), cp.Parameter((4, 4), PSD=True, value=P)


def square(u):
    return cp.reshape(u, (2, 2), order="F")


#: Expressions of an affine vector u, and whether their Hessians are constant.
EXPRESSIONS = {
    "huber": (lambda u: cp.sum(cp.huber(u, 0.3)), False),
    "huber-parameter": (lambda u: c**2 @ cp.huber(u, LEVEL) - cp.sum(u) / 3, False),
    "huber-and-squares": (lambda u: cp.sum(cp.huber(u, 0.3)) / LEVEL + cp.sum_squares(u), False),
    "quad_form-exp": (lambda u: cp.quad_form(cp.exp(u), np.abs(P)), False),
    "quad_form": (lambda u: LEVEL * cp.quad_form(u, P) + cp.sum(u), True),
    "quad_form-parameter": (lambda u: cp.quad_form(u, PSD), True),
    "quad_over_lin": (lambda u: cp.quad_over_lin(u[:3], u[3] + 9), False),
    "quad_over_lin-parameter": (lambda u: cp.quad_over_lin(u, LEVEL), True),
    "quad_over_lin-axis": (lambda u: cp.sum(cp.quad_over_lin(square(u), 2, axis=0)), True),
    "sum_squares": (lambda u: cp.sum_squares(cp.cumsum(u)), True),
    "sum_squares-axis": (lambda u: cp.log_sum_exp(cp.sum_squares(square(u), axis=1)), False),
    "square": (lambda u: cp.sum(cp.kron(np.ones((2, 1)), cp.square(square(u)))), True),
    "square-exp": (lambda u: cp.sum(cp.square(cp.exp(u))), False),
    "power-1": (lambda u: cp.sum(cp.power(u, 1)), True),
    "power-4": (lambda u: cp.sum(cp.power(u, 4)), False),
    "power-1.5": (lambda u: cp.sum(cp.power(u + 9, 1.5)), False),
    "inv_pos": (lambda u: cp.sum(cp.inv_pos(u + 9)), False),
    "logistic": (lambda u: cp.sum(cp.logistic(u)) - u[0], False),
    "log_sum_exp-axis": (lambda u: cp.sum(cp.log_sum_exp(square(u), axis=1)), False),
    "stacked": (lambda u: cp.sum(cp.hstack([cp.square(u[:2]), cp.exp(u[1:])])), False),
    "matrix_frac": (lambda u: cp.matrix_frac(u, P), True),
    "matrix_frac-matrix": (lambda u: cp.matrix_frac(c, cp.diag(u + 9) + 0.1), False),
    "rel_entr": (lambda u: cp.sum(cp.rel_entr(u + 9, u[::-1] + 9)), False),
    "log_det": (lambda u: -cp.log_det(cp.diag(u + 9) + 0.1), False),
    "geo_mean": (lambda u: -cp.geo_mean(u + 9, [1, 2, 1, 3]), False),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_values_and_derivatives_of_expressions(name):
    make, quadratic = EXPRESSIONS[name]
    x, y = cp.Variable((2, 1)), cp.Variable()
    expression = make(W @ cp.hstack([x[:, 0], y]) + c)
    f = cvxpy_problems._Expression(cp, expression, 1.0, [x, y], (3,))
    assert (f.hess_product is not None) == quadratic
    rng, h = np.random.default_rng(1), 1e-5
    for _ in range(5):
        z, v = rng.uniform(-1.0, 1.0, 3), rng.standard_normal(3)
        x.value, y.value = z[:2, None], z[2]
        assert f.fun(z) == pytest.approx(expression.value, rel=1e-12)
        slope = (f.fun(z + h * v) - f.fun(z - h * v)) / (2 * h)
        assert f.grad(z) @ v == pytest.approx(slope, rel=1e-6, abs=1e-6)
        if quadratic:
            change = (f.grad(z + h * v) - f.grad(z - h * v)) / (2 * h)
            np.testing.assert_allclose(f.hess_product(z, v), change, rtol=1e-6, atol=1e-6)


def test_huber_converges_as_the_native_loss():
    rng = np.random.default_rng(0)
    A, x = rng.standard_normal((200, 50)), cp.Variable(50)
    b = A @ rng.standard_normal(50) + rng.standard_t(1, 200)
    r = fw.solve_cvxpy(cp.Problem(cp.Minimize(cp.sum(cp.huber(A @ x - b, 1)) / 200), [cp.norm1(x) <= 5]), max_iter=100)
    assert r.success
    assert r.fun == pytest.approx(2 * fw.minimize(fw.LinearModel(A, b, "huber"), fw.L1Ball(5.0)).fun, abs=1e-5)


def projected(kind, seed):
    """Return a problem with variables that are not in the objective."""
    rng = np.random.default_rng(seed)
    n, m, s = int(rng.integers(2, 8)), int(rng.integers(2, 8)), 10.0 ** rng.integers(-3, 2)
    x, y, B = cp.Variable(n), cp.Variable(m), rng.standard_normal((n, m))
    corner, column = cp.reshape(y[0], (1, 1), order="F"), cp.reshape(x, (n, 1), order="F")
    constraints = {
        "bounds": lambda: [cp.abs(x) <= y[0], cp.sum(y) <= s, y >= 0],
        "image": lambda: [x == s * B @ y, cp.sum(y) == 1, y >= 0],
        "coefficients": lambda: [1e3 * x == 10 * B @ y, cp.norm1(y) <= 2],
        "near": lambda: [cp.norm(x - B @ y) <= 0.3, cp.norm(y) <= 1],
        "zonotope": lambda: [x == B @ y, cp.norm_inf(y) <= s],
        "ellipsoid": lambda: [x == B @ y, cp.sum_squares(y) <= s],
        "exponential": lambda: [cp.sum(cp.exp(y)) <= 5, x <= cp.sum(y) + 3, x >= -1, y >= -3],
        "power": lambda: [cp.sum(cp.power(y, 3)) <= 2, y >= 0, cp.abs(x) <= cp.sum(y)],
        "semidefinite": lambda: [cp.bmat([[corner, column.T], [column, np.eye(n)]]) >> 0, y[0] <= s],
        "cone": lambda: [cp.SOC(y[0], x), y[0] + y[1] <= 1, y[1] >= 0],
    }[kind]()
    A, b = rng.standard_normal((n + 2, n)), 3 * rng.standard_normal(n + 2)
    losses = cp.sum_squares(A @ x - b), cp.sum(cp.logistic(A @ x)) + cp.sum_squares(x - 1), cp.sum(cp.huber(A @ x - b))
    return cp.Problem(cp.Minimize(losses[seed % 3]), constraints)


PROJECTED = (
    *("bounds", "image", "coefficients", "near", "zonotope"),
    *("ellipsoid", "exponential", "power", "semidefinite", "cone"),
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", PROJECTED)
def test_constraints_hold_as_after_a_solver_of_cvxpy(kind, seed):
    problem = projected(kind, seed)
    fw.solve_cvxpy(problem)
    assert problem.status == "optimal"
    found, violations = problem.value, [np.max(part.violation()) for part in problem.constraints]
    assert found == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-6, abs=2e-6)
    own = max(np.max(part.violation()) for part in problem.constraints)
    assert max(violations) <= max(1e-8, 10 * own)  # Clarabel's tolerance is 1e-8


def test_a_violated_constraint_is_not_optimal(monkeypatch):
    problem = projected("image", 0)
    monkeypatch.setattr(cvxpy_problems, "split", lambda z, variables: [z + 1e-4])
    assert fw.solve_cvxpy(problem).success
    assert problem.status == "optimal_inaccurate"


def test_long_runs_over_conic_sets_recommend_another_solver(monkeypatch):
    monkeypatch.setattr(cvxpy_problems, "_PATIENCE", 0.0)
    seen = []
    with pytest.warns(UserWarning, match=r"solve_cvxpy has run .* problem\.solve\(\) solves one") as caught:
        fw.solve_cvxpy(PROBLEMS["cone"](), method="fw", max_iter=3, callback=lambda state: seen.append(state.k))
    assert len(caught) == 1
    assert seen == [0, 1, 2, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fw.solve_cvxpy(PROBLEMS["huber"]())


def test_singular_matrices_are_outside_of_the_domain():
    A, w = np.random.default_rng(0).standard_normal((60, 8)), cp.Variable(60, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.matrix_frac(np.ones(8), A.T @ cp.diag(w) @ A)), [cp.sum(w) == 1])
    start = np.eye(60)[0]
    r = fw.solve_cvxpy(problem)
    assert r.success
    assert not np.isfinite(cvxpy_problems._Expression(cp, problem.objective.args[0], 1.0, [w], (60,)).fun(start))
    assert problem.value == pytest.approx(problem.solve(solver=cp.CLARABEL), abs=1e-5)


def test_the_values_of_several_variables():
    problem = several_variables()
    r = fw.solve_cvxpy(problem, tol=1e-8)
    x, y = problem.objective.variables()
    np.testing.assert_allclose(r.x, np.concatenate([x.value.ravel(order="F"), y.value.ravel(order="F")]))
    found = x.value, y.value
    problem.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(found[0], x.value, atol=1e-4)
    np.testing.assert_allclose(found[1], y.value, atol=1e-4)


def test_options_limits_and_starting_points():
    problem = PROBLEMS["log_sum_exp"]()
    r = fw.solve_cvxpy(problem, method="fw", max_iter=3)
    assert (r.method, r.nit, problem.status) == ("fw", 3, "user_limit")
    assert fw.solve_cvxpy(problem, x0=r.x, tol=1e-3).success
    assert fw.solve_cvxpy(problem, method="fw", max_iter=2, state=r.state).nit == 5
    with pytest.raises(ValueError, match="x0 lies outside the set"):
        fw.solve_cvxpy(problem, x0=np.ones(6))
    with pytest.raises(ValueError, match="did you mean"):
        fw.solve_cvxpy(problem, method="corective")


def test_values_stay_if_a_run_fails():
    problem = PROBLEMS["exp"]()
    (x,) = problem.variables()
    x.value = np.full(6, 1 / 6)
    with pytest.raises(ZeroDivisionError):
        fw.solve_cvxpy(problem, callback=lambda state: 1 / (3 - state.k - 3))
    np.testing.assert_array_equal(x.value, np.full(6, 1 / 6))
    assert problem.status is None


NAMELESS = cp.Parameter(name="p")
x, n, z = cp.Variable(3), cp.Variable(3, integer=True), cp.Variable(2, complex=True)
BOX = [x >= 0, x <= 1]


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (cp.Problem(cp.Minimize(cp.norm1(x)), BOX), "atoms that are not differentiable everywhere.*: norm1"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x) + cp.max(x)), BOX), "everywhere.*: max"),
        (cp.Problem(cp.Minimize(cp.exp(cp.norm(x))), BOX), "everywhere.*: (Pnorm|PnormApprox)"),
        (cp.Problem(cp.Minimize(cp.normNuc(cp.Variable((2, 2)))), []), "everywhere.*: normNuc"),
        (cp.Problem(cp.Minimize(cp.sum_squares(n)), [n >= 0, n <= 2]), "problem has integer variables"),
        (cp.Problem(cp.Minimize(cp.sum_squares(cp.abs(z))), [cp.abs(z) <= 1]), "complex variables"),
        (cp.Problem(cp.Minimize(0), BOX), "constant objective"),
        (cp.Problem(cp.Maximize(cp.sum_squares(x)), BOX), "the objective must be concave"),
        (cp.Problem(cp.Minimize(x[0] * x[1]), BOX), "the objective must be convex"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x))), "is unbounded"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x)), [x >= 1, x <= 0]), "satisfies all of them"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x - NAMELESS)), BOX), r"parameter p has no value; set p\.value first"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x)), [*BOX, x[0] <= NAMELESS]), "parameter p has no value"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x - np.nan)), BOX), "the objective must have finite numbers"),
        (cp.Problem(cp.Minimize(cp.sum_squares(x) / np.inf), BOX), "the objective must have finite numbers"),
        (cp.Problem(cp.Minimize(cp.sum(cp.quad_over_lin(x[:, None], x[0] + 1, axis=0))), BOX), "with an axis"),
        ("problem", r"problem must be a cvxpy\.Problem; got str"),
    ],
)
def test_problems_that_do_not_fit(problem, message):
    with pytest.raises(ValueError, match=message):
        fw.solve_cvxpy(problem)


def test_a_problem_in_place_of_an_objective():
    with pytest.raises(ValueError, match=r"got Problem\. .*fw\.solve_cvxpy\(problem\) solves a problem"):
        fw.minimize(cp.Problem(cp.Minimize(cp.sum_squares(x)), BOX), fw.Simplex())
