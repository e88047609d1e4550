"""Problems of CVXPY: does `solve_cvxpy` find the optimum of CVXPY's own solvers, and leave the problem as they do?"""

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw

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
        ("problem", r"problem must be a cvxpy\.Problem; got str"),
    ],
)
def test_problems_that_do_not_fit(problem, message):
    with pytest.raises(ValueError, match=message):
        fw.solve_cvxpy(problem)


def test_a_problem_in_place_of_an_objective():
    with pytest.raises(ValueError, match=r"got Problem\. .*fw\.solve_cvxpy\(problem\) solves a problem"):
        fw.minimize(cp.Problem(cp.Minimize(cp.sum_squares(x)), BOX), fw.Simplex())
