"""The certified gap really bounds the distance to optima found by an independent solver."""

from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import xlogy

import fwflow as fw
from tests.catalogue import OBJECTIVES, SETS, TURNED, counts, design, labels, targets

# Clarabel stops at 1e-8; its value is off by at most that, times multipliers and sizes below 100 here.
ACCURACY = 1e-6
VECTOR_SETS = [name for name, (_, shape) in SETS.items() if len(shape) == 1]
MATRIX_SETS = [name for name, (_, shape) in SETS.items() if len(shape) == 2]
HULL = np.random.default_rng(7).standard_normal((9, 6))


def doubly_stochastic(X):
    return [X >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1]


def in_sum(x):
    u, v = cp.Variable(6), cp.Variable(6, nonneg=True)
    return [x == u + v, cp.norm1(u) <= 1, cp.sum(v) == 2]


def in_hull(x):
    weights = cp.Variable(len(HULL), nonneg=True)
    return [x == HULL.T @ weights, cp.sum(weights) == 1]


#: By how much the weights of the catalogue's ordered norm fall after the j-th, and the sums of the largest weights of
#: its permutahedron.
OWL_STEPS = [(1, 1.0), (3, 1.0), (4, 0.5), (5, 0.5)]
TOP = [2.0, 4.0, 5.0, 5.0, 4.0]

#: The sets of the catalogue, written down a second time.
CONSTRAINTS = {
    "l1": lambda x: [cp.norm1(x) <= 2],
    "l1-matrix": lambda X: [cp.sum(cp.abs(X)) <= 2],
    "simplex": lambda x: [x >= 0, cp.sum(x) == 1],
    "simplex-radius": lambda x: [x >= 0, cp.sum(x) == 3],
    "unit-simplex": lambda x: [x >= 0, cp.sum(x) <= 2],
    "hypersimplex": lambda x: [x >= 0, x <= 1.5, cp.sum(x) == 3],
    "unit-hypersimplex": lambda x: [x >= 0, x <= 1, cp.sum(x) <= 3],
    "k-sparse": lambda x: [cp.norm_inf(x) <= 1.5, cp.norm1(x) <= 3],
    "k-norm": lambda x: [cp.sum_largest(cp.abs(x), 2) <= 1.5],
    "owl": lambda x: [sum(step * cp.sum_largest(cp.abs(x), j) for j, step in OWL_STEPS) <= 4],
    "permutahedron": lambda x: [cp.sum(x) == 3, *(cp.sum_largest(x, j + 1) <= s for j, s in enumerate(TOP))],
    "ellipsoid": lambda x: [
        cp.norm2(cp.multiply(1 / np.linspace(0.5, 2, 6), TURNED.T @ (x - np.linspace(-1, 1, 6)))) <= 1
    ],
    "box": lambda x: [x >= -1, x <= 2],
    "box-arrays": lambda x: [x >= np.arange(6) - 4, x <= np.arange(6)],
    "bounded-simplex": lambda x: [
        x >= [0.0, -0.5, 0.1, 0.0, 0.0, 0.2],
        x[[0, 1, 2, 4, 5]] <= [0.4, 1, 0.1, 0.3, 0.7],
        cp.sum(x) == 1,
    ],
    "bounded-simplex-numbers": lambda x: [x >= 0.25, x <= 0.5, cp.sum(x) == 2],
    "bounded-l1": lambda x: [x >= -0.5, cp.norm1(x) <= 2],
    "bounded-l1-arrays": lambda x: [
        x[[0, 1, 2, 4, 5]] >= [0, -1, 0.5, -2, -3],
        x[1:] <= [1, 1, 2, -0.25, 0],
        cp.norm1(x) <= 3,
    ],
    "bounded-l1-box": lambda x: [x >= [-1.0, -2.0, 0.0, 0.5, -1.0, 0.0], x <= 2],
    "interval": lambda x: [x >= -1, x <= 1],
    "linf": lambda x: [cp.norm_inf(x) <= 1.5],
    "l2": lambda x: [cp.norm2(x) <= 2],
    "lp-1.5": lambda x: [cp.pnorm(x, 1.5) <= 2],
    "lp-3": lambda x: [cp.pnorm(x, 3) <= 2],
    "group": lambda x: [cp.norm2(x[[0, 2]]) + cp.norm2(x[[1, 3, 4]]) + cp.abs(x[5]) <= 2],
    "group-3": lambda x: [cp.pnorm(x[[0, 1, 5]], 3) + cp.pnorm(x[[2, 3, 4]], 3) <= 2],
    "group-inf": lambda x: [cp.norm_inf(x[[0, 2]]) + cp.norm_inf(x[[1, 3, 4]]) + cp.abs(x[5]) <= 2],
    "nuclear": lambda X: [cp.normNuc(X) <= 2],
    "nuclear-wide": lambda X: [cp.normNuc(X) <= 2],
    "hull": in_hull,
    "birkhoff": doubly_stochastic,
    "birkhoff-flat": lambda x: doubly_stochastic(cp.reshape(x, (3, 3), order="C")),
    "polytope": lambda x: [cp.sum(x) <= 2, x[0] == x[1], x >= -1, x <= 1],
    "polytope-sparse": lambda x: [x <= 1, x >= -np.arange(1, 7)],
    "scaled": lambda x: [x <= 0, cp.sum(x) == -2],
    "translated": lambda x: [cp.norm1(x - np.linspace(-1, 1, 6)) <= 1],
    "product": lambda x: [cp.norm1(x[:2]) <= 1, x[2:5] >= 0, cp.sum(x[2:5]) == 1, cp.abs(x[5]) <= 1],
    "minkowski": in_sum,
    "minkowski-boxes": lambda x: [x >= -1.5, x <= 2.5],
}

CONSTRAINTS |= {
    "spectraplex": lambda X: [X >> 0, X == X.T, cp.trace(X) == 2],
    "spectrahedron": lambda X: [X >> 0, X == X.T, cp.trace(X) <= 2],
    "fantope": lambda X: [X >> 0, np.eye(4) - X >> 0, X == X.T, cp.trace(X) == 2],
    "schatten": lambda X: [cp.sigma_max(X) <= 2],
    "symmetric": lambda x: [cp.norm1(x) <= 2, x[0] == x[1], x[1] == x[2], x[3] == x[4]],
    "symmetric-matrix": lambda X: [
        *(X >= 0, cp.sum(X, axis=0) == 1, cp.sum(X, axis=1) == 1),
        *(X[0, 0] == X[1, 1], X[0, 1] == X[1, 0], X[0, 2] == X[1, 2], X[2, 0] == X[2, 1]),
    ],
    "symmetric-average": lambda x: [cp.norm(x) <= 2, x == x[::-1]],
    "transport": lambda X: [X >= 0, cp.sum(X, axis=1) == [2, 2], cp.sum(X, axis=0) == [1, 1, 2]],
}


def cosh(y):
    return cp.sum(cp.exp(y) + cp.exp(-y)) / 2


def beckmann(x, n):
    f = OBJECTIVES["beckmann"](n, 0)
    total = (f.free_flow + f.fixed) @ x
    for i, p in enumerate(f.power.tolist()):
        # Below zero a cost is that at zero, which for power 0 is the cost everywhere.
        used = cp.power(cp.pos(x[i] / f.capacity[i]), p + 1) / (p + 1) if p else x[i] / f.capacity[i]
        total += f.free_flow[i] * f.b[i] * f.capacity[i] * used
    return total


def quadratic(x, n):
    A = design(2 * n, n)
    return cp.sum_squares(A @ x) / (2 * n) - targets(n) @ x


def smoothed_pinball(r):
    """The infimal convolution of the pinball loss of level 0.7 with a parabola of width 2."""
    u = cp.Variable(r.shape)
    return cp.sum(cp.maximum(0.7 * u, -0.3 * u)) + cp.sum_squares(r - u) / (2 * 2.0)


def poisson(z, b):
    return cp.sum(cp.exp(z) - cp.multiply(b, z)) + (xlogy(b, b) - b).sum()


#: The objectives of the catalogue at seed 0, written down a second time.
FORMULAS = {
    "squared": lambda x, n: cp.sum_squares(design(12, n) @ x - targets(12)) / 24,
    "squared-sum": lambda x, n: cp.sum_squares(design(12, n) @ x - targets(12)) / 2,
    "logistic": lambda x, n: cp.sum(cp.logistic(cp.multiply(-labels(12), design(12, n) @ x))) / 12,
    "huber": lambda x, n: cp.sum(cp.huber(design(12, n) @ x - targets(12), 0.5)) / 24,
    "quantile": lambda x, n: smoothed_pinball(targets(12) - design(12, n) @ x) / 12,
    "poisson": lambda x, n: poisson(0.3 * design(12, n) @ x, counts(12)) / 12,
    "quadratic": quadratic,
    "smooth": lambda x, n: cosh(x - targets(n) / 4),
    "beckmann": beckmann,
}
FORMULAS |= {"squared-csr": FORMULAS["squared"], "logistic-csc": FORMULAS["logistic"]}


def solve(objective, constraints):
    problem = cp.Problem(cp.Minimize(objective), constraints)
    problem.solve(solver=cp.CLARABEL)
    assert problem.status == cp.OPTIMAL
    return problem.value


@cache
def optimum(set_name, objective_name):
    (n,) = SETS[set_name][1]
    x = cp.Variable(n)
    return solve(FORMULAS[objective_name](x, n), CONSTRAINTS[set_name](x))


def smoothness(objective_name, n, radius):
    """A Lipschitz constant of the gradient on the ball of that radius."""
    factor, curvature = {"squared-sum": 1, "quadratic": 1 / n}.get(objective_name, 1 / 12), 1.0
    if objective_name == "smooth":
        return float(np.cosh(radius + np.abs(targets(n)).max() / 4))
    if objective_name == "beckmann":
        return float(OBJECTIVES[objective_name](n, 0)._slope(np.full(n, radius)).max())
    if objective_name.startswith("logistic"):
        curvature = 0.25
    if objective_name == "quantile":
        curvature = 1 / 2.0
    if objective_name == "poisson":
        curvature = 0.3**2 * np.exp(0.3 * np.linalg.norm(design(12, n), axis=1).max() * radius * np.sqrt(n))
    A = design(2 * n if objective_name == "quadratic" else 12, n)
    return factor * curvature * np.linalg.norm(A, 2) ** 2


def assert_bounds(r, best):
    slack = ACCURACY * (1 + abs(best))
    assert r.feasible is True
    assert best - slack <= r.fun <= best + r.gap + slack


def test_every_set_and_objective_has_a_second_formulation():
    assert CONSTRAINTS.keys() == SETS.keys()
    assert FORMULAS.keys() == OBJECTIVES.keys()


@pytest.mark.sampled(7)
@pytest.mark.parametrize("objective_name", OBJECTIVES)
@pytest.mark.parametrize("set_name", VECTOR_SETS)
def test_gap_bounds_the_suboptimality(set_name, objective_name):
    C, (n,) = SETS[set_name]
    best = optimum(set_name, objective_name)
    f = OBJECTIVES[objective_name](n, 0)
    for options in ({"line_search": "exact", "max_iter": 100}, {"method": "rk44", "max_iter": 20}):
        x0 = C.start((n,))
        r = fw.minimize(f, C, x0, **options)
        assert_bounds(r, best)
        if "line_search" in options:
            # Jaggi (ICML 2013): the exact search is within 2 L D^2 / (k + 2), and its least gap within 27/8 of that.
            reach = np.abs(x0).max() + C.diameter((n,))
            rate = 2 * smoothness(objective_name, n, reach) * C.diameter((n,)) ** 2 / (r.nit + 2)
            assert r.success or r.fun - best <= rate + ACCURACY * (1 + abs(best))
            assert r.success or r.trace["gap"].min() <= 27 / 8 * rate


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["fw", "rk44"])
@pytest.mark.parametrize("set_name", MATRIX_SETS)
def test_gap_bounds_the_suboptimality_of_matrices(set_name, method):
    C, shape = SETS[set_name]
    size = int(np.prod(shape))
    A, b = design(12, size), targets(12)
    f = fw.Smooth(
        lambda X: 0.5 * float(np.sum((A @ X.ravel() - b) ** 2)),
        lambda X: (A.T @ (A @ X.ravel() - b)).reshape(X.shape),
        shape=shape,
    )
    X = cp.Variable(shape)
    best = solve(cp.sum_squares(A @ cp.vec(X, order="C") - b) / 2, CONSTRAINTS[set_name](X))
    r = fw.minimize(f, C, method=method, line_search="exact", max_iter=200)
    assert_bounds(r, best)
    rate = 2 * np.linalg.norm(A, 2) ** 2 * C.diameter(shape) ** 2 / (r.nit + 2)
    assert method != "fw" or r.success or r.fun - best <= rate


LOSSES = {"squared": lambda r: cp.sum_squares(r) / 2, "huber": lambda r: cp.sum(cp.huber(r, 0.5)) / 2}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("scale", ["sum", "mean"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("shape", [(5, 4), (3, 6)])
def test_gap_bounds_the_suboptimality_of_matrix_completion(shape, loss, scale):
    rng = np.random.default_rng(sum(shape))
    rows, cols = np.nonzero(rng.random(shape) < 0.6)
    values = 2 * rng.standard_normal(len(rows))
    f = fw.MatrixCompletion(rows, cols, values, shape, loss=loss, rho=0.5, scale=scale)
    X = cp.Variable(shape)
    factor = 1 / len(rows) if scale == "mean" else 1
    best = solve(factor * LOSSES[loss](X[rows, cols] - values), [cp.normNuc(X) <= 3])
    for options in ({"line_search": "exact"}, {"method": "rk44"}, {"momentum": "nesterov"}):
        r = fw.minimize(f, fw.NuclearBall(3.0), max_iter=100, **options)
        assert_bounds(r, best)
        if "line_search" in options:
            assert r.success or r.fun - best <= 2 * factor * 6**2 / (r.nit + 2)


def constant_column():
    A = design(8, 4)
    A[:, 1] = 1.0
    return A


DEGENERATE = {
    "one sample": design(1, 4),
    "one feature": design(8, 1),
    "one number": np.array([[2.0]]),
    "constant column": constant_column(),
    "zero column": design(8, 4) * [1, 0, 1, 1],
    "duplicate columns": design(8, 3)[:, [0, 1, 1, 2, 0]],
    "duplicate rows": design(4, 3)[[0, 0, 1, 2, 3, 3]],
    "all zero": np.zeros((5, 3)),
    "more features than samples": design(3, 10),
    "badly scaled columns": design(8, 4) * [1e-3, 1, 1e3, 1],
}


@pytest.mark.parametrize("radius", [0.1, 1e4])
@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data(name, kind, radius):
    A = DEGENERATE[name]
    b = targets(len(A))
    x = cp.Variable(A.shape[1])
    best = solve(cp.sum_squares(A @ x - b) / (2 * len(A)), [cp.norm1(x) <= radius])
    f = fw.LinearModel(A if kind == "dense" else sp.csr_array(A), b)
    assert_bounds(fw.minimize(f, fw.L1Ball(radius), line_search="exact", max_iter=200), best)
