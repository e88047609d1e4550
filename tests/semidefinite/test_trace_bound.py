"""Is the derived bound on the trace the largest trace of a feasible X, or at least not smaller?"""

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize

from fwflow import semidefinite
from fwflow.semidefinite import trace_bound
from tests.semidefinite.programs import symmetric


def largest_trace(A, b, inequalities):
    X = cp.Variable(A[0].shape, PSD=True)
    products = [cp.sum(cp.multiply(matrix, X)) for matrix in A]
    rows = zip(products, b, inequalities, strict=True)
    problem = cp.Problem(cp.Maximize(cp.trace(X)), [left <= c if signed else left == c for left, c, signed in rows])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("seed", range(12))
def test_diagonal_constraints(seed):
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(2, 8)), int(rng.integers(1, 10))
    A = [np.diag(rng.integers(-1, 4, n) * (rng.random(n) < 0.7)).astype(float) for _ in range(m)]
    inside = rng.random(n)
    b, inequalities = np.array([np.diag(a) @ inside for a in A]), rng.random(m) < 0.5
    off = symmetric(rng.standard_normal((n, n)))
    problem = semidefinite.Problem(np.eye(n), [*A, off], [*b, 0.1], inequalities=[*inequalities, False])
    largest = largest_trace(A, b, inequalities)
    if largest == np.inf:
        assert problem.implied_trace is None or problem.implied_trace >= inside.sum()
    else:
        # The linear program has the same optimum without the constraint that is not diagonal.
        assert problem.implied_trace == pytest.approx(largest, rel=1e-5)
        assert problem.implied_trace >= largest * (1 - 1e-6)


def test_the_identity_as_a_combination_of_other_matrices():
    rng = np.random.default_rng(0)
    n = 6
    A = [symmetric(rng.standard_normal((n, n))) for _ in range(4)]
    last = np.eye(n) - sum(A)
    b = [1.0, 2.0, 3.0, -1.0, 0.5]
    assert semidefinite.Problem(np.eye(n), [*A, last], b).trace == pytest.approx(5.5)
    # As inequalities, the same matrices give the bound, but not with the opposite sign.
    signed = [True] * 5
    assert semidefinite.Problem(np.eye(n), [*A, last], b, inequalities=signed).trace == pytest.approx(5.5)
    negative = semidefinite.Problem(np.eye(n), [*A, -last], b, inequalities=signed)
    assert negative.implied_trace is None


def test_no_bound_and_given_bounds():
    n = 3
    corner = np.zeros((n, n))
    corner[0, 0] = 1.0
    for A in ([corner], [np.ones((n, n))], []):
        problem = semidefinite.Problem(np.eye(n), A, np.ones(len(A)))
        assert problem.implied_trace is None
        with pytest.raises(ValueError, match="give trace=R"):
            problem.trace  # noqa: B018 - the property raises the error
        given = semidefinite.Problem(np.eye(n), A, np.ones(len(A)), trace=7.0)
        assert given.trace == 7.0
        assert not given.trace_is_implied
    exact = semidefinite.Problem(np.eye(n), [np.eye(n)], [2.0], trace=3.0)
    assert exact.trace == 3.0
    assert exact.trace_is_implied
    assert not semidefinite.Problem(np.eye(n), [np.eye(n)], [2.0], trace=1.0).trace_is_implied
    for wrong in (0, -1, np.inf, np.nan, "3"):
        with pytest.raises(ValueError, match="trace must be a positive finite number"):
            semidefinite.Problem(np.eye(n), [np.eye(n)], [2.0], trace=wrong)


def test_errors_of_the_linear_program_do_not_make_the_bound_too_small(monkeypatch):
    def inexact(*arguments, **options):
        answer = scipy.optimize.linprog(*arguments, **options)
        answer.x = answer.x * (1 - 5e-7)
        return answer

    monkeypatch.setattr(trace_bound, "linprog", inexact)
    rows = [np.diag([1.0, 1.0, 0.0]), np.diag([0.0, 1.0, 2.0])]
    problem = semidefinite.Problem(np.eye(3), rows, [1.0, 3.0])
    assert problem.trace == pytest.approx(2.5, rel=1e-12)
