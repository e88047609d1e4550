"""Differences of convex functions: brute force on small problems, CVXPY on the convex pieces, and criticality."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw


def l2_norm(weight=1.0):
    return fw.Smooth(
        lambda x: weight * float(np.linalg.norm(x)), lambda x: weight * x / max(float(np.linalg.norm(x)), 1e-300)
    )


def quadratic_pair(n, seed):
    rng = np.random.default_rng(seed)
    P, Q = (M @ M.T for M in rng.standard_normal((2, n, n)))
    return P, Q, rng.standard_normal(n)


def least_on_a_simplex(H, b):
    """The minimum of x'Hx/2 - b'x over the simplex: the best stationary point of all faces."""
    n, best = len(b), np.inf
    for size in range(1, n + 1):
        for face in itertools.combinations(range(n), size):
            face = list(face)
            K = np.ones((size + 1, size + 1))
            K[:size, :size], K[size, size] = H[np.ix_(face, face)], 0.0
            solution = np.linalg.solve(K, np.append(b[face], 1.0))[:size]
            if (solution >= 0).all():
                best = min(best, 0.5 * solution @ H[np.ix_(face, face)] @ solution - b[face] @ solution)
    return best


@pytest.mark.parametrize("C", [fw.Simplex(), fw.ConvexHull(np.eye(5))], ids=["projection", "no projection"])
@pytest.mark.parametrize("seed", range(6))
def test_indefinite_quadratics_agree_with_the_best_face(seed, C):
    P, Q, b = quadratic_pair(5, seed)
    f = fw.DifferenceOfConvex(fw.Quadratic(P, b), fw.Quadratic(Q))
    r = fw.minimize(f, C, tol=1e-9, starts=20)
    assert r.method == "difference-of-convex"
    assert r.success
    assert r.fun == pytest.approx(least_on_a_simplex(P - Q, b), abs=1e-6)
    assert (np.diff(r.trace["fun"]) <= 1e-12 * np.abs(r.trace["fun"]).max()).all()


@pytest.mark.parametrize("seed", range(3))
def test_the_gap_certifies_that_the_convex_piece_is_solved(seed):
    """CVXPY minimises f(y) - <g'(x), y> at the returned x, and finds nothing lower by more than the gap."""
    rng = np.random.default_rng(seed)
    A, x_true = rng.standard_normal((12, 20)), np.zeros(20)
    x_true[[2, 7, 11]] = 2.0, -1.5, 1.0
    b, radius = A @ x_true, float(np.abs(x_true).sum())
    f, g = fw.LinearModel(A, b, scale="sum"), l2_norm(0.5)
    r = fw.minimize(fw.DifferenceOfConvex(f, g), fw.L1Ball(radius), tol=1e-8)
    assert r.success
    slope = 0.5 * r.x / np.linalg.norm(r.x)
    y = cp.Variable(20)
    piece = cp.Problem(cp.Minimize(cp.sum_squares(A @ y - b) / 2 - slope @ y), [cp.norm1(y) <= radius])
    piece.solve(solver="CLARABEL")
    here = 0.5 * ((A @ r.x - b) ** 2).sum() - slope @ r.x
    assert here == pytest.approx(piece.value, abs=1e-6)


def test_sparse_recovery_by_l1_minus_l2():
    """Highly coherent columns, for which the l1 norm alone fails and l1 - l2 recovers (Yin, Lou, He & Xin, 2015)."""
    rng, recovered = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(5):
        A = np.cos(2 * np.pi * np.outer(rng.random(30), np.arange(60)) / 8) / np.sqrt(30)
        x_true = np.zeros(60)
        x_true[[4, 21, 38, 55]] = rng.choice([-1.0, 1.0], 4) * rng.uniform(1, 2, 4)
        b, radius = A @ x_true, float(np.abs(x_true).sum())
        f, C = fw.LinearModel(A, b, scale="sum"), fw.L1Ball(radius)
        for concave in (False, True):
            g = fw.DifferenceOfConvex(f, l2_norm(1e-3)) if concave else f
            x = fw.minimize(g, C, tol=1e-9).x
            recovered[concave] += np.linalg.norm(x - x_true) <= 1e-3 * np.linalg.norm(x_true)
    assert recovered[True] >= recovered[False]


def least_squares(A, b):
    """The least sum of squares without a constraint, and the norm of the solution."""
    x = np.linalg.lstsq(A, b)[0]
    return 0.5 * ((A @ x - b) ** 2).sum(), np.linalg.norm(x)


@pytest.mark.parametrize("seed", range(4))
def test_trimmed_regression_finds_the_best_subset(seed):
    """The sum of the h smallest squares is the sum of all minus the sum of the m - h largest, which is convex."""
    rng = np.random.default_rng(seed)
    m, outliers, radius = 10, 3, 3.0
    A = rng.standard_normal((m, 2))
    b = A @ [1.0, -1.0] + 0.1 * rng.standard_normal(m)
    b[:outliers] += 8.0

    def largest(x):
        squares = (A @ x - b) ** 2 / 2
        return squares, np.argsort(squares)[-outliers:]

    def subgradient(x):
        chosen = largest(x)[1]
        return A[chosen].T @ (A[chosen] @ x - b[chosen])

    g = fw.Smooth(lambda x: float(np.sort(largest(x)[0])[-outliers:].sum()), subgradient)
    f = fw.DifferenceOfConvex(fw.LinearModel(A, b, scale="sum"), g)
    r = fw.minimize(f, fw.L2Ball(radius), tol=1e-9, starts=10)
    least = [least_squares(A[list(kept)], b[list(kept)]) for kept in itertools.combinations(range(m), m - outliers)]
    value, size = min(least)
    assert size < radius  # so that no subset has a smaller sum within the ball
    assert r.fun == pytest.approx(value, abs=1e-6)


def test_the_method_solves_convex_problems_too():
    A = np.random.default_rng(0).standard_normal((20, 6))
    f, C = fw.LinearModel(A, A[:, 0]), fw.L1Ball(0.5)
    r = fw.minimize(f, C, method="difference-of-convex", tol=1e-8)
    assert r.success
    assert r.fun == pytest.approx(fw.minimize(f, C, tol=1e-9).fun, abs=1e-8)


@pytest.mark.parametrize("form", ["csr", "float32"])
def test_data_of_other_kinds(form):
    A = np.random.default_rng(0).standard_normal((20, 6))
    data = sp.csr_array(A) if form == "csr" else A.astype(np.float32)
    f = fw.DifferenceOfConvex(fw.LinearModel(data, A[:, 0]), fw.Quadratic(0.1 * np.eye(6)))
    r = fw.minimize(f, fw.L1Ball(0.5), tol=1e-4)
    assert r.success
    assert r.x.dtype == (np.float32 if form == "float32" else np.float64)
    dense = fw.DifferenceOfConvex(fw.LinearModel(A, A[:, 0]), fw.Quadratic(0.1 * np.eye(6)))
    assert r.fun == pytest.approx(fw.minimize(dense, fw.L1Ball(0.5), tol=1e-4).fun, abs=3e-4)


def test_a_run_can_be_saved_and_continued(tmp_path):
    P, Q, b = quadratic_pair(6, 1)
    f = fw.DifferenceOfConvex(fw.Quadratic(P, b), fw.Quadratic(Q))
    whole = fw.minimize(f, fw.Simplex(), tol=0, max_iter=6)
    fw.minimize(f, fw.Simplex(), tol=0, max_iter=3).state.save(tmp_path / "state")
    rest = fw.minimize(f, fw.Simplex(), tol=0, max_iter=3, state=fw.State.load(tmp_path / "state"))
    np.testing.assert_array_equal(rest.trace["fun"], whole.trace["fun"])


def test_counts_are_those_of_real_calls():
    calls = {"f": 0, "g": 0}

    def counted(name, H):
        def gradient(x):
            calls[name] += 1
            return H @ x

        return fw.Smooth(lambda x: 0.5 * x @ H @ x, gradient)

    P, Q, _ = quadratic_pair(5, 2)
    f = fw.DifferenceOfConvex(counted("f", P), counted("g", Q))
    r = fw.minimize(f, fw.Simplex(), np.full(5, 0.2), tol=1e-6)
    assert r.success
    # The gradient of the difference is one of f and one of g; those of the subproblems are of f, and one of g each.
    assert calls["f"] == r.n_grad
    assert calls["g"] <= calls["f"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: fw.DifferenceOfConvex(f, abs), "g must be an Objective"),
        (lambda f: fw.DifferenceOfConvex(f, fw.Quadratic(np.eye(4))), r"f is defined on \(3,\) and g on \(4,\)"),
        (lambda f: fw.DifferenceOfConvex(fw.MatrixCompletion([0], [0], [1.0], (2, 2)), f), "f stores x as factors"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make(fw.Quadratic(np.eye(3)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(40))
def test_the_trace_never_rises(seed):
    """Columns of very different size, where accelerated steps on the convex function rise on the way."""
    rng = np.random.default_rng(seed)
    n, dtype = int(rng.integers(3, 30)), np.float32 if seed % 4 == 3 else np.float64
    A = (rng.standard_normal((2 * n, n)) * 10 ** rng.uniform(-2, 2, n)).astype(dtype)
    f = fw.LinearModel(A, rng.standard_normal(2 * n).astype(dtype), scale="sum")
    C = (fw.Box(-1.0, 1.0), fw.Simplex(3.0), fw.L1Ball(2.0), fw.L2Ball(2.0))[seed % 4]
    g = l2_norm(rng.uniform(0.1, 20))
    r = fw.minimize(fw.DifferenceOfConvex(f, g), C, C.random_start(seed, (n,)).astype(dtype), max_iter=30, max_time=3)
    x, fun = r.x.astype(float), r.trace["fun"]
    terms = abs(f.value(f.point(r.x))) + float(g.fun(x)) + abs(fun)  # f - g rounds as its terms do
    assert (np.diff(fun) <= 64 * np.finfo(dtype).eps * np.maximum(terms[1:], terms[:-1])).all()
