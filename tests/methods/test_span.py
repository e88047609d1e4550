import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.test_optima import ACCURACY, solve


def completion(loss="squared", shape=(10, 8), observed=50, seed=0, dtype=np.float64, **options):
    rng = np.random.default_rng(seed)
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], observed, replace=False), shape[1])
    return fw.MatrixCompletion(rows, cols, rng.standard_normal(observed).astype(dtype), shape, loss, **options)


def optimum(f, radius):
    X = cp.Variable(f.shape)
    residual = X[f.rows, f.cols] - f.b
    losses = cp.sum_squares(residual) / 2 if f.loss.quadratic else cp.sum(cp.huber(residual, f.loss.rho)) / 2
    return solve(f.factor * losses, [cp.normNuc(X) <= radius])


@pytest.mark.parametrize("scale", ["sum", "mean"])
@pytest.mark.parametrize("shape", [(10, 8), (6, 13)])
@pytest.mark.parametrize(("loss", "options"), [("squared", {}), ("huber", {"rho": 0.5})])
@pytest.mark.parametrize("radius", [1.0, 6.0])
def test_optima_agree_with_an_independent_solver(radius, loss, options, shape, scale):
    f = completion(loss, shape, scale=scale, **options)
    r = fw.minimize(f, fw.NuclearBall(radius), method="corrective", tol=1e-5, max_iter=500)
    assert r.success
    assert r.feasible
    best = optimum(f, radius)
    assert best - ACCURACY * (1 + abs(best)) <= r.fun <= best + r.gap + ACCURACY * (1 + abs(best))


@settings(deadline=None, max_examples=20, derandomize=True)
@given(seed=st.integers(0, 10**6), radius=st.sampled_from([0.1, 2.0, 50.0]))
def test_every_iterate_is_in_the_ball_and_carries_its_entries(seed, radius):
    f = completion(seed=seed)
    values = []

    def check(state):
        assert fw.NuclearBall(radius).contains(state.x)
        np.testing.assert_allclose(state.point.image, state.x.entries(f.rows, f.cols), atol=1e-11 * (1 + radius))
        values.append(state.fun)

    fw.minimize(f, fw.NuclearBall(radius), method="corrective", tol=0, rtol=1e-6, max_iter=15, callback=check)
    assert (np.diff(values) <= 1e-13 * values[0]).all()


def test_the_rank_stays_that_of_the_solution():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 40))
    rows, cols = np.divmod(rng.choice(2400, 1200, replace=False), 40)
    f = fw.MatrixCompletion(rows, cols, X[rows, cols], (60, 40), loss="squared")
    ball = fw.NuclearBall(0.9 * np.linalg.norm(X, "nuc"))
    r = fw.minimize(f, ball, method="corrective", tol=0, rtol=1e-5)
    assert r.success
    assert r.x.rank <= 5
    plain = fw.minimize(f, ball, method="fw", tol=0, rtol=1e-5, max_iter=r.nit)
    assert r.gap < plain.gap / 100


def test_no_dense_matrix_is_formed():
    f = completion("huber", (100_000, 50_000), observed=60, rho=1.0)
    r = fw.minimize(f, fw.NuclearBall(1.0), method="corrective", tol=0, max_iter=1)
    assert isinstance(r.x, fw.LowRank)
    assert r.fun < f.value(f.point(fw.LowRank.zeros(f.shape)))


def test_precision_of_the_data_is_kept():
    r = fw.minimize(completion(dtype=np.float32), fw.NuclearBall(3.0), method="corrective", tol=1e-2)
    assert r.x.dtype == np.float32
    assert r.success


def test_a_state_continues_exactly():
    f, C = completion(), fw.NuclearBall(3.0)
    whole = fw.minimize(f, C, method="corrective", tol=0, max_iter=6)
    half = fw.minimize(f, C, method="corrective", tol=0, max_iter=2)
    rest = fw.minimize(f, C, method="corrective", tol=0, max_iter=4, state=pickle.loads(pickle.dumps(half.state)))
    np.testing.assert_array_equal(rest.x.to_dense(), whole.x.to_dense())


def test_only_the_nuclear_ball_will_do():
    def oracle(G):
        u, _, v = np.linalg.svd(np.asarray(G.todense()) if hasattr(G, "todense") else G)
        return fw.RankOne(u[:, 0], v[0], -1.0)

    with pytest.raises(ValueError, match="need a NuclearBall"):
        fw.minimize(completion(), oracle, method="corrective")


def test_a_scaled_ball_is_a_ball():
    plain, scaled = (fw.minimize(completion(), C, tol=1e-6) for C in (fw.NuclearBall(3.0), -1.5 * fw.NuclearBall(2.0)))
    assert plain.method == scaled.method == "corrective"
    assert plain.nit == scaled.nit
    assert scaled.fun == pytest.approx(plain.fun, rel=1e-9)
