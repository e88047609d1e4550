"""Do the methods for any linear constraints agree with an interior-point method, with bounds that are true?"""

import math

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow import semidefinite
from fwflow.semidefinite.choice import solve_general
from fwflow.semidefinite.general import GeneralProgram
from fwflow.semidefinite.operators import CallableMap
from tests.semidefinite.programs import KINDS, as_problem, optimum, random_program, symmetric, true_bound


class Recorded(GeneralProgram):
    """Program that keeps all certificates of a run."""

    def __init__(self, problem):
        super().__init__(problem)
        self.seen = []

    def certify(self, point, goal):
        found = super().certify(point, goal)
        self.seen.append(found)
        return found


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", ["low-rank", "boundary-point"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_agrees_with_clarabel_and_bounds_are_true(method, kind, seed):
    data = random_program(kind, seed)
    reference = optimum(*data)
    problem = as_problem(*data)
    program = Recorded(problem)
    r = solve_general(program, method=method, rtol=1e-4, max_iter=5000, max_time=60)
    assert r.success, r.message
    assert r.bound <= reference + 1e-6 * abs(reference)
    assert r.gap == abs(r.value - r.bound) <= 1e-4 * abs(r.bound) * (1 + 1e-9)
    assert r.infeasibility <= 1e-4
    violation = np.linalg.norm(problem.residual(r.Y)) / (1 + np.linalg.norm(problem.b))
    excess = np.sum(r.Y**2) / problem.trace - 1 if program.bounded else 0.0
    assert r.infeasibility == pytest.approx(max(violation, excess), rel=1e-6, abs=1e-14)
    np.testing.assert_allclose(r.value, np.sum(data[0] * (r.Y @ r.Y.T)), rtol=1e-9)
    assert len(program.seen) > 1
    for certificate in program.seen:
        assert (certificate.y[problem.inequalities] <= 0).all()
        assert certificate.bound <= true_bound(problem, certificate.y) + 1e-9 * abs(reference)


def test_a_known_minimum_is_found_far_beyond_the_default_tolerance():
    # The smallest eigenvalue is the minimum over matrices of trace 1.
    C = symmetric(np.random.default_rng(0).standard_normal((30, 30)))
    r = semidefinite.solve(semidefinite.Problem(C, [np.eye(30)], [1.0]), rtol=1e-8)
    assert r.success
    np.testing.assert_allclose([r.value, r.bound], np.linalg.eigvalsh(C)[0], rtol=2e-8)


def test_conditional_gradient_has_true_bounds_and_converges_slowly():
    data = random_program("low rank", 2)
    reference, problem = optimum(*data), as_problem(*data)
    program = Recorded(problem)
    r = solve_general(program, method="conditional-gradient", rtol=0.05, ftol=0.05, max_iter=3000, max_time=60)
    assert r.success
    assert r.bound <= reference + 1e-6 * abs(reference)
    for certificate in program.seen:
        assert certificate.bound <= true_bound(problem, certificate.y) + 1e-9 * abs(reference)


def test_all_forms_of_matrices_give_the_same_solution():
    rng = np.random.default_rng(3)
    n, m = 12, 5
    U, weights, V = rng.standard_normal((n, 3)), np.array([1.0, -2.0, 0.5]), rng.standard_normal((m, n))
    C, A = (U * weights) @ U.T, [np.outer(v, v) for v in V]
    b = np.array([v @ v for v in V]) / n

    def forward(v):
        return np.append((V @ v) ** 2, v @ v)

    def adjoint(y, v):
        return V.T @ (y[:-1] * (V @ v)) + y[-1] * v

    everything = np.append(b, 1.0)
    trace, ones = np.eye(n), np.ones(n)
    forms = {
        "dense": semidefinite.Problem(C, [*A, trace], everything, trace=1.0),
        "sparse": semidefinite.Problem(sp.csr_array(C), [*map(sp.csc_array, A), ones], everything, trace=1.0),
        "factors": semidefinite.Problem((U, weights), [*((v, 1.0) for v in V), (trace, ones)], everything, trace=1.0),
        "mixed": semidefinite.Problem((U, weights), [*((v, 1.0) for v in V), ones], everything, trace=1.0),
        "functions": semidefinite.Problem(
            lambda v: U @ (weights * (U.T @ v)), CallableMap(forward, adjoint, n, m + 1), everything, trace=1.0
        ),
    }
    reference = optimum(C, [*A, trace], everything, np.zeros(m + 1, dtype=bool))
    for name, problem in forms.items():
        r = semidefinite.solve(problem)
        assert r.success, name
        np.testing.assert_allclose([r.value, r.bound], reference, rtol=3e-4, err_msg=name)


def entry(n, i, j):
    matrix = np.zeros((n, n))
    matrix[i, j] = matrix[j, i] = 1.0
    return matrix


I4 = np.eye(4)
INFEASIBLE = {
    "negative diagonal": ([I4, entry(4, 0, 0)], [1.0, -2.0], None, None),
    "two traces": ([I4, 2 * I4], [1.0, 3.0], None, None),
    "two traces as inequalities": ([I4, -I4], [1.0, -2.0], None, [True, True]),
    "too large off the diagonal": ([I4, entry(4, 0, 1)], [1.0, 5.0], None, None),
    "beyond the given trace": ([entry(4, 2, 2)], [5.0], 2.0, None),
    "a zero matrix": ([I4, np.zeros((4, 4))], [1.0, 1.0], None, None),
    "negative trace": ([I4], [-1.0], None, None),
    "trace zero": ([I4, entry(4, 0, 0)], [0.0, 1.0], None, None),
}


@pytest.mark.parametrize("method", ["auto", "boundary-point", "conditional-gradient"])
@pytest.mark.parametrize("name", INFEASIBLE)
def test_infeasible_problems_are_proved_to_be_infeasible(name, method):
    A, b, trace, inequalities = INFEASIBLE[name]
    C = symmetric(np.random.default_rng(1).standard_normal((4, 4)))
    problem = semidefinite.Problem(C, A, b, trace, inequalities=inequalities)
    r = semidefinite.solve(problem, method=method, max_iter=2000, max_time=20)
    assert r.status is fw.Status.INFEASIBLE
    assert not r.success
    assert r.bound == math.inf
    assert "prove" in r.message
    # y proves it if it has a positive bound for C = 0, or one above the value of every X with that trace.
    y, R = r.y, problem.trace
    assert (y[problem.inequalities] <= 0).all()
    least = np.linalg.eigvalsh(-sum(y_i * A_i for y_i, A_i in zip(y, A, strict=True)))[0]
    ray = np.dot(b, y) + R * min(0, least)
    assert ray > 0 or true_bound(problem, y) > R * max(0.0, np.linalg.eigvalsh(C)[-1])


def test_a_run_that_neither_solves_nor_disproves_says_so():
    A, b, trace, _ = INFEASIBLE["too large off the diagonal"]
    b = [1.0, 0.999999999]  # the largest possible entry is 1/2 of the trace, counted twice
    r = semidefinite.solve(semidefinite.Problem(I4, A, b, trace), rtol=1e-12, max_iter=3)
    assert not r.success
    assert r.infeasibility > 1e-12
    assert "whether they can be satisfied is unknown" in r.message


def test_minima_of_zero_and_empty_lists_of_constraints():
    C = symmetric(np.random.default_rng(5).standard_normal((6, 6)))
    zero = {
        "no cost": semidefinite.Problem(np.zeros((6, 6)), [np.eye(6)], [1.0]),
        "trace zero": semidefinite.Problem(C, [np.eye(6)], [0.0]),
        "positive cost": semidefinite.Problem(C @ C, [entry(6, 0, 1)], [0.0], trace=2.0),
    }
    for name, problem in zero.items():
        r = semidefinite.solve(problem, max_iter=500)
        assert r.success, name
        np.testing.assert_allclose([r.value, r.bound], 0, atol=1e-12, err_msg=name)
    r = semidefinite.solve(semidefinite.Problem(C, [], [], trace=2.0))
    assert r.success
    np.testing.assert_allclose(r.bound, 2 * np.linalg.eigvalsh(C)[0], rtol=1e-4)
    r = semidefinite.solve(semidefinite.Problem([[2.0]], [[[4.0]]], [3.0]))
    assert r.success
    np.testing.assert_allclose([r.value, r.bound], 1.5, rtol=1e-4)


def test_dependent_constraints_and_a_dense_program_of_many_constraints():
    rng = np.random.default_rng(7)
    n = 8
    C, inside = symmetric(rng.standard_normal((n, n))), np.full((n, n), 0.3) + 0.7 * np.eye(n)
    places = [(i, j) for i in range(n) for j in range(i, n) if (i + j) % 3]
    A = [entry(n, i, j) for i, j in places] * 5
    b = np.array([(matrix * inside).sum() for matrix in A])
    problem = semidefinite.Problem(C, [*A, np.eye(n)], np.append(b, n))
    r = semidefinite.solve(problem)
    reference = optimum(C, [*A[: len(places)], np.eye(n)], np.append(b[: len(places)], n), np.zeros(len(places) + 1))
    assert r.success
    np.testing.assert_allclose([r.value, r.bound], reference, rtol=2e-4)


def test_limits_and_callbacks_end_a_run_with_a_true_bound():
    data = random_program("dense", 4)
    reference, problem = optimum(*data), as_problem(*data)
    for options in ({"max_iter": 2}, {"callback": lambda state: state.k == 3}, {"max_time": 1e-9}):
        r = semidefinite.solve(problem, rtol=1e-10, **options)
        assert not r.success
        assert r.bound <= reference + 1e-6 * abs(reference)
    r = semidefinite.solve(problem, rtol=1e-3)
    assert len(r.trace["fun"]) == r.nit + 1


def test_a_given_rank_is_the_first_one_and_grows():
    data = random_program("dense", 0)
    r = semidefinite.solve(as_problem(*data), rank=1)
    assert r.success
    np.testing.assert_allclose(r.value, optimum(*data), rtol=2e-4)


def test_errors_name_the_argument_and_the_remedy():
    C = np.eye(3)
    with pytest.raises(ValueError, match="trace=R"):
        semidefinite.solve(semidefinite.Problem(C, [entry(3, 0, 1)], [1.0]))
    with pytest.raises(ValueError, match="symmetric"):
        semidefinite.Problem(np.triu(np.ones((3, 3))), [C], [1.0])
    with pytest.raises(ValueError, match=r"constraints\[0\] must be finite"):
        semidefinite.Problem(C, [np.full((3, 3), np.nan)], [1.0])
    with pytest.raises(ValueError, match="method='sdp' is not known"):
        semidefinite.solve(semidefinite.Problem(C, [C], [1.0]), method="sdp")
    functions = CallableMap(lambda v: [v @ v], lambda y, v: y[0] * v, 5000, 1)
    large = semidefinite.Problem(np.ones(5000), functions, [1.0], trace=1.0)
    with pytest.raises(ValueError, match="entries of all constraint matrices"):
        semidefinite.solve(large, method="boundary-point")
