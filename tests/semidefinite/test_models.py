"""Are CVXPY problems with one semidefinite variable solved as CVXPY would, and others refused with the reason?"""

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow import semidefinite


def problems(n):
    """Return problems that stand for the accepted forms."""
    rng = np.random.default_rng(n)
    X, A, B = cp.Variable((n, n), PSD=True), rng.standard_normal((n, n)), rng.standard_normal((n, n))
    S = cp.Variable((n, n), symmetric=True)
    scale = cp.Parameter(value=2.5)
    return {
        "maximisation with a constant": cp.Problem(
            cp.Maximize(cp.trace(A @ X) + 5), [cp.sum(cp.multiply(B, X)) <= 1 + 4 * np.trace(B) / n, cp.trace(X) == 4]
        ),
        "entries": cp.Problem(cp.Minimize(cp.trace(A @ X) - 3), [cp.diag(X) == 1, X >= -0.1]),
        "diagonal": cp.Problem(cp.Minimize(cp.trace(A @ X)), [cp.diag(X) == 1]),
        "symmetric variable": cp.Problem(cp.Minimize(cp.sum(S)), [S >> 0, cp.trace(S) == 1, S[0, 0] >= 0.1]),
        "parameter": cp.Problem(cp.Minimize(scale * X[0, -1]), [cp.trace(X) <= scale]),
        "quadratic form": cp.Problem(cp.Maximize(B[0] @ X @ B[0]), [cp.trace(X) + X[0, 0] == 3]),
    }


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("name", problems(2))
def test_agrees_with_clarabel(name, n):
    problem = problems(n)[name]
    r = semidefinite.solve(problem, max_time=60)
    assert r.success
    assert problem.status == cp.OPTIMAL
    found, X = problem.value, problem.variables()[0].value
    assert found == pytest.approx(r.value, rel=1e-9, abs=1e-9)
    np.testing.assert_allclose(X, r.Y @ r.Y.T, atol=1e-12)
    problem.solve(solver=cp.CLARABEL)
    sign = -1 if isinstance(problem.objective, cp.Maximize) else 1
    assert found == pytest.approx(problem.value, rel=3e-4, abs=1e-4)
    assert sign * r.bound <= sign * problem.value + 1e-6 * (1 + abs(problem.value))


def test_infeasible_problems_and_limits_set_the_status():
    X = cp.Variable((4, 4), PSD=True)
    for objective, value in ((cp.Minimize(X[0, 1]), np.inf), (cp.Maximize(X[0, 1]), -np.inf)):
        problem = cp.Problem(objective, [cp.trace(X) <= 2, X[0, 0] >= 3])
        r = semidefinite.solve(problem)
        assert r.status is fw.Status.INFEASIBLE
        assert r.bound == value
        assert problem.status == cp.INFEASIBLE
        assert problem.value == value
    problem = problems(7)["entries"]
    semidefinite.solve(problem, rtol=1e-9, max_iter=2)
    assert problem.status == "user_limit"


def test_other_problems_are_refused_with_the_reason():
    n = 3
    X, P, x = cp.Variable((n, n), symmetric=True), cp.Variable((n, n), PSD=True), cp.Variable()
    plain, real, unset = cp.Variable((n, n)), cp.Variable((n, n), hermitian=True), cp.Parameter()
    one = cp.trace(X) == 1
    for problem, message in [
        (cp.Problem(cp.Minimize(plain[0, 1]), [plain >> 0, cp.trace(plain) == 1]), "not a symmetric real matrix"),
        (cp.Problem(cp.Minimize(cp.real(real[0, 0])), [real >> 0]), "not a symmetric real matrix"),
        (cp.Problem(cp.Minimize(X[0, 1] + x), [X >> 0, one]), "it has 2 variables"),
        (cp.Problem(cp.Minimize(P[0, 1] + X[0, 1]), [X >> 0, one]), "it has 2 variables"),
        (cp.Problem(cp.Minimize(1)), "it has 0 variables"),
        (cp.Problem(cp.Minimize(cp.norm(X)), [X >> 0, one]), "must be affine"),
        (cp.Problem(cp.Minimize(cp.abs(X[0, 1])), [X >> 0, one]), "must be affine"),
        (cp.Problem(cp.Minimize(cp.sum_squares(X)), [X >> 0, one]), "must be affine"),
        (cp.Problem(cp.Minimize(X[0, 1]), [X >> np.eye(n), one]), "on the variable itself"),
        (cp.Problem(cp.Minimize(X[0, 1]), [one]), r"semidefinite constraints of orders \[\]"),
        (cp.Problem(cp.Minimize(X[0, 1]), [X >> 0, 2 * X >> 0, one]), r"orders \[3, 3\]"),
        (cp.Problem(cp.Maximize(cp.norm(X)), [X >> 0, one]), "DCP"),
        (cp.Problem(cp.Minimize(unset * X[0, 0]), [X >> 0, one]), "has no value"),
        (cp.Problem(cp.Minimize(X[0, 0]), [X >> 0]), r"add the constraint cp.trace\(X\) <= R"),
    ]:
        with pytest.raises(ValueError, match=message):
            semidefinite.solve(problem)


def test_a_refused_or_solved_problem_keeps_the_value_of_its_variable():
    X = cp.Variable((2, 2), PSD=True)
    X.value = np.eye(2)
    with pytest.raises(ValueError, match="trace"):
        semidefinite.solve(cp.Problem(cp.Minimize(X[0, 0]), [X[0, 1] == 1]))
    np.testing.assert_array_equal(X.value, np.eye(2))
