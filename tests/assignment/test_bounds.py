"""Are the lower bounds valid, and are they the bounds of the literature?"""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

import fwflow as fw
from fwflow._assignment.bounds import _ConvexQuadratic, convex_quadratic, gilmore_lawler
from fwflow._assignment.problem import Assignment
from tests.assignment.instances import SMALL, brute_force, grid, hamming, skewed, tree, uniform

NONE = np.zeros(0, dtype=int)


def made(A, B, C=None):
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    C = np.zeros_like(A) if C is None else np.asarray(C, dtype=float)
    return Assignment.reduced(A, B, C, NONE, NONE)


def by_hand(A, B, C):
    """The bound of Gilmore and Lawler, entry by entry."""
    n = len(A)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            a, b = np.sort(np.delete(A[i], i)), np.sort(np.delete(B[j], j))[::-1]
            L[i, j] = a @ b + A[i, i] * B[j, j] + (0 if C is None else C[i, j])
    return L[linear_sum_assignment(L)].sum()


@pytest.mark.parametrize("name", SMALL)
def test_gilmore_lawler_is_that_of_the_definition(name):
    A, B, C = SMALL[name]
    found = gilmore_lawler(made(A, B, C))
    assert found >= by_hand(A, B, C) - 1e-9 * max(1.0, abs(found))
    assert found <= brute_force(A, B, C)
    assert fw.quadratic_assignment(A, B, C).bound >= by_hand(A, B, C) - 1e-9 * max(1.0, abs(found))


@pytest.mark.parametrize("name", SMALL)
def test_the_convex_function_is_convex_and_agrees_with_the_values_of_permutations(name):
    problem = made(*SMALL[name]).symmetrised
    f, n = _ConvexQuadratic(problem), problem.n
    rng = np.random.default_rng(0)
    for _ in range(10):
        p = rng.permutation(n)
        X = f.point(np.eye(n)[p])
        assert f.value(X) == pytest.approx(problem.values(p[None])[0], abs=1e-9 * max(problem.scale, 1))
        d = rng.standard_normal((n, n))
        d -= d.mean(axis=0)
        d -= d.mean(axis=1, keepdims=True)
        assert np.vdot(f._hessian(d), d) >= -1e-10 * problem.scale * np.vdot(d, d)
    assert fw.checks.gradient_error(f, fw.Birkhoff(n).random_start(0)) < 1e-6
    assert convex_quadratic(problem, -np.inf, np.inf).bound <= brute_force(*SMALL[name])


def test_the_convex_bound_dominates_the_projected_eigenvalue_bound():
    """The projected bound of Hadley, Rendl and Wolkowicz (1992) is a linear assignment over the same eigenvalues."""
    rng = np.random.default_rng(0)
    A, B = grid(3, 4), uniform(12, rng, 10)
    V = np.linalg.qr(np.column_stack([np.ones(12), rng.standard_normal((12, 11))]))[0][:, 1:]
    a, b = (np.linalg.eigvalsh(V.T @ M @ V) for M in (A, B))
    D = 2 * np.outer(A.sum(axis=1), B.sum(axis=1)) / 12
    projected = a @ b[::-1] + D[linear_sum_assignment(D)].sum() - A.sum() * B.sum() / 144
    assert convex_quadratic(made(A, B), -np.inf, np.inf).bound >= projected


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", ["grid", "hamming", "tree", "skewed"])
def test_bounds_stay_below_every_permutation_that_is_found(kind, seed):
    rng = np.random.default_rng(seed)
    A, B = {
        "grid": lambda: (grid(5, 5), uniform(25, rng, 10)),
        "hamming": lambda: (hamming(4), uniform(16, rng, 3)),
        "tree": lambda: (tree(20, rng), uniform(20, rng)),
        "skewed": lambda: (skewed(18, rng), skewed(18, rng)),
    }[kind]()
    r = fw.quadratic_assignment(A, B)
    assert r.bound <= np.nanmin(r.values)
    assert r.bound >= by_hand(A, B, None)


def test_values_are_multiples_of_the_unit():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n = int(rng.integers(2, 7))
        A, B = (uniform(n, rng, 5) * k for k in rng.integers(1, 4, 2))
        C = rng.integers(0, 3) * rng.integers(0, 5, (n, n))
        problem = made(A, B, C)
        values = problem.values(np.array([rng.permutation(n) for _ in range(20)]))
        if problem.unit:
            assert (values % problem.unit == 0).all()
        else:
            assert len(set(values)) == 1
    assert made(uniform(4, rng), uniform(4, rng) + 0.5).unit == 0
    assert made(A * 1e9, A * 1e9).unit == 0  # sums would not be exact


def test_an_integer_bound_is_rounded_up_to_the_next_value():
    problem = made(grid(2, 2), uniform(4, np.random.default_rng(0)))
    assert problem.unit == 2
    assert [problem.next_value(bound) for bound in (7.0, 7.999, 8.0, 8.001, -np.inf)] == [8, 8, 8, 10, -np.inf]


def test_the_bound_of_real_data_leaves_room_for_rounding():
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = rng.random(6)
        A, B = np.outer(a, a), np.ones((6, 6))  # all permutations have the same value, and the bound is tight
        r = fw.quadratic_assignment(A, B, starts=1)
        exact = float(sum(map(float, (A * B).ravel())))
        assert r.bound <= exact
        assert r.bound == pytest.approx(exact, rel=1e-9)
