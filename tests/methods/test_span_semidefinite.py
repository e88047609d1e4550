"""Do corrections within a span solve matrix completion over sets of semidefinite matrices?"""

import pickle

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow.sets.base import SpectralRange
from tests.test_optima import ACCURACY, solve


def completion(seed, n=5, loss="squared", dtype=np.float64, share=0.6, **options):
    rng = np.random.default_rng(seed)
    rows, cols = np.divmod(rng.choice(n * n, int(share * n * n), replace=False), n)
    return fw.MatrixCompletion(rows, cols, rng.standard_normal(len(rows)).astype(dtype), (n, n), loss, **options)


def optimum(f, C, factor=1.0):
    X = cp.Variable(f.shape, PSD=True)
    residual = factor * X[f.rows, f.cols] - f.b
    losses = cp.sum_squares(residual) / 2 if f.loss.quadratic else cp.sum(cp.huber(residual, f.loss.rho)) / 2
    limit = cp.trace(X) == C.radius if isinstance(C, fw.Spectraplex) else cp.trace(X) <= C.radius
    return solve(f.factor * losses, [limit])


SETS = [fw.Spectraplex(1.0), fw.Spectraplex(6.0), fw.Spectrahedron(1.0), fw.Spectrahedron(20.0)]


@pytest.mark.parametrize("factor", [1.0, -1.5])
@pytest.mark.parametrize(("loss", "options"), [("squared", {}), ("huber", {"rho": 0.5, "scale": "mean"})])
@pytest.mark.parametrize("C", SETS, ids=repr)
def test_auto_solves_what_an_independent_solver_does(C, loss, options, factor):
    for seed in range(2):
        f = completion(seed, loss=loss, **options)
        r = fw.minimize(f, C if factor == 1.0 else factor * C, tol=1e-6, max_iter=500)
        assert r.success
        assert r.feasible
        assert r.method == "corrective"
        best = optimum(f, C, factor)
        assert best - ACCURACY * (1 + abs(best)) <= r.fun <= best + r.gap + ACCURACY * (1 + abs(best))


@pytest.mark.parametrize("C", SETS, ids=repr)
def test_every_iterate_is_in_the_set_and_no_value_rises(C):
    f, values = completion(0, 8), []

    def check(state):
        assert C.contains(state.x, 1e-8)
        np.testing.assert_allclose(state.point.image, state.x.entries(f.rows, f.cols), atol=1e-11 * (1 + C.radius))
        values.append(state.fun)

    fw.minimize(f, C, tol=0, rtol=1e-6, max_iter=15, callback=check)
    assert (np.diff(values) <= 1e-13 * values[0]).all()


def test_the_same_function_as_a_black_box_has_the_same_minimum():
    f, C = completion(3), fw.Spectraplex(4.0)

    def gradient(X):
        g = np.zeros(f.shape)
        g[f.rows, f.cols] = X[f.rows, f.cols] - f.b
        return g

    black_box = fw.Smooth(lambda X: 0.5 * float(np.sum((X[f.rows, f.cols] - f.b) ** 2)), gradient)
    plain = fw.minimize(black_box, C, np.asarray(C.start((5, 5))), tol=1e-6)
    assert fw.minimize(f, C, tol=1e-6).fun == pytest.approx(plain.fun, abs=2e-6)


def test_a_large_matrix_keeps_the_rank_of_its_solution():
    rng = np.random.default_rng(0)
    U = rng.standard_normal((60, 3))
    rows, cols = np.divmod(rng.choice(3600, 1500, replace=False), 60)
    f = fw.MatrixCompletion(rows, cols, (U @ U.T)[rows, cols], (60, 60), "squared")
    for C in (fw.Spectraplex(0.9 * np.sum(U**2)), fw.Spectrahedron(0.9 * np.sum(U**2))):
        r = fw.minimize(f, C, tol=0, rtol=1e-5, max_iter=100)
        assert r.success
        assert r.x.rank <= 6


def test_single_precision_and_a_dense_start():
    f = completion(1, dtype=np.float32)
    r = fw.minimize(f, fw.Spectraplex(3.0), np.diag([3.0, 0, 0, 0, 0]), tol=1e-3)
    assert r.success
    assert r.x.dtype == np.float32
    np.testing.assert_allclose(r.x.to_dense(), r.x.to_dense().T, atol=1e-5)


@pytest.mark.parametrize("C", [fw.Spectrahedron(2.0), fw.NuclearBall(2.0)], ids=repr)
def test_a_minimiser_of_zero_is_found_from_elsewhere(C):
    n = 3
    rows, cols = np.divmod(np.arange(n * n), n)
    f = fw.MatrixCompletion(rows, cols, np.zeros(n * n), (n, n), "squared")
    r = fw.minimize(f, C, np.eye(n) / n, tol=1e-10, max_iter=50)
    assert r.success
    assert r.fun <= 1e-10


def test_a_state_continues_exactly():
    f, C = completion(2, 8), fw.Spectraplex(3.0)
    whole = fw.minimize(f, C, tol=0, max_iter=6)
    half = fw.minimize(f, C, tol=0, max_iter=2)
    rest = fw.minimize(f, C, tol=0, max_iter=4, state=pickle.loads(pickle.dumps(half.state)))
    np.testing.assert_array_equal(rest.x.to_dense(), whole.x.to_dense())


def test_scaled_sets_scale_their_traces():
    assert (2.0 * fw.Spectraplex(3.0)).spectrum == SpectralRange(6.0, 1, exact=True)
    assert (-2.0 * fw.Spectrahedron(3.0)).spectrum == SpectralRange(6.0, -1)
    assert (-2.0 * fw.NuclearBall(1.0)).spectrum == SpectralRange(2.0)
