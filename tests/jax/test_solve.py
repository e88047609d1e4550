"""Runs end where the core's do, say why they ended, and are true about it, alone and in batches."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
import fwflow.jax as fwj
from fwflow import Status
from fwflow.jax import solve
from fwflow.methods.active import Corrective

RNG = np.random.default_rng(0)
A = RNG.standard_normal((40, 15))
LABELS = np.where(A[:, 0] - A[:, 1] + 0.5 * RNG.standard_normal(40) > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    ("method", "loss", "C"),
    [
        ("apg", "logistic", fw.L1Ball(4.0)),
        ("apg", "huber", fw.Box(-0.1, 0.3)),
        ("blended-pairwise", "logistic", fw.L1Ball(4.0)),
        ("blended-pairwise", "squared", fw.L1Ball(50.0)),  # of which the optimum is inside
        ("pairwise", "squared", fw.Simplex(2.0)),
    ],
)
def test_optima_are_those_of_the_core(method, loss, C):
    theirs = fw.minimize(fw.LinearModel(A, LABELS, loss), C, tol=1e-12)
    with jax.enable_x64(True):
        r = fwj.minimize(fwj.LinearModel(A, LABELS, loss), C, method=method, tol=1e-9)
        assert r.statuses is Status.TOLERANCE
        assert r.success
        assert r.feasible
        assert r.method == method
        assert 0 <= float(r.gap) <= 1e-9
        assert float(r.fun) == pytest.approx(theirs.fun, abs=2e-9)
        assert C.contains(np.asarray(r.x))


def test_single_precision_says_what_it_resolves():
    f = fwj.LinearModel(A.astype(np.float32), LABELS, "logistic")
    r = fwj.minimize(f, fwj.L1Ball(4.0), tol=1e-14, max_iter=20_000)
    assert r.x.dtype == np.float32
    assert r.statuses is Status.PRECISION
    assert not r.success
    exact = fw.LinearModel(A.astype(np.float32).astype(np.float64), LABELS, "logistic")
    best = fw.minimize(exact, fw.L1Ball(4.0), tol=1e-13).fun
    value = exact.value(exact.point(np.asarray(r.x, dtype=np.float64)))
    assert -1e-7 < value - best <= float(r.gap) + 1e-9
    assert float(r.gap) < 1e3 * float(r.resolution) < 1e-2


def test_one_compiled_run_is_batched_over_everything():
    """Radii, targets, weights and starts, each against a run of its own; and under an outer jit."""
    targets = np.stack([LABELS, -LABELS, np.roll(LABELS, 1)])
    weights = RNG.random((3, 40)) + 0.1
    radii = np.array([0.5, 1.0, 3.0])
    starts = np.eye(15)[:3] * 0.4

    @jax.jit
    @jax.vmap
    def fit(b, w, radius, x0):
        return fwj.minimize(fwj.LinearModel(A, b, weights=w), fwj.L1Ball(radius), x0, tol=0.0, rtol=1e-4)

    batch = fit(targets, weights, radii, starts)
    assert batch.success.all()
    assert batch.x.dtype == jnp.float32  # JAX's own default, also where the verdict is in double
    for i in range(3):
        f = fw.LinearModel(A, targets[i], weights=weights[i])
        one = fw.minimize(f, fw.L1Ball(radii[i]), tol=1e-9)
        assert float(batch.fun[i]) == pytest.approx(one.fun, abs=float(batch.gap[i]) + 1e-6)
    assert set(batch.statuses) == {Status.TOLERANCE}
    assert all("within the tolerance" in text for text in batch.message)


def test_functions_of_trees():
    def fun(x, c):
        return ((x["u"] - c) ** 2).sum() + jnp.sum((x["V"] - 1) ** 2)

    C = fwj.Product({"u": fw.Simplex(), "V": fwj.L1Ball(2.0)})
    x0 = {"u": jnp.array([0.5, 0.5, 0.0]), "V": jnp.zeros((2, 2))}
    r = fwj.minimize(fwj.Smooth(fun, jnp.array([0.6, 0.3, -1.0])), C, x0, tol=1e-4)
    assert r.success
    np.testing.assert_allclose(r.x["u"], [0.65, 0.35, 0.0], atol=1e-2)
    np.testing.assert_allclose(r.x["V"], np.full((2, 2), 0.5), atol=1e-2)


def test_functions_of_equal_trees_are_compiled_once():
    def distance(x, c):
        return ((x["u"] - c) ** 2).sum()

    def run(c, x0):
        return fwj.minimize(fwj.Smooth(distance, c), fwj.L1Ball(1.0), {"u": x0}, max_iter=3).x["u"]

    first, before = run(jnp.ones(2), jnp.zeros(2)), solve._alone._cache_size()
    assert not np.array_equal(first, run(-jnp.ones(2), jnp.zeros(2)))
    assert solve._alone._cache_size() == before
    run(jnp.ones((1, 2)), jnp.zeros((1, 2)))
    assert solve._alone._cache_size() == before + 1


def test_a_nuclear_ball_by_its_oracle_alone():
    """Frank-Wolfe with warm power steps; the gap is that of the singular value itself."""
    X = RNG.standard_normal((8, 6)).astype(np.float32)
    f = fwj.Smooth(lambda Y, X: 0.5 * ((Y - X) ** 2).sum(), X)
    r = fwj.minimize(f, fwj.NuclearBall(2.0), np.zeros((8, 6)), method="fw", line_search="exact", tol=2e-2)
    assert r.success
    sigma = np.linalg.svd(X.astype(np.float64), compute_uv=False)
    best = 0.5 * ((sigma - fw.Simplex(2.0).project(sigma)) ** 2).sum()
    assert best - 1e-4 <= float(r.fun) <= best + float(r.gap)
    G = np.asarray(r.x, dtype=np.float64) - X
    assert float(r.gap) == pytest.approx(np.vdot(G, r.x) + 2 * np.linalg.norm(G, 2), abs=1e-3)


def test_oracles_of_the_user_and_of_the_host():
    f = fwj.Smooth(lambda x: 0.5 * ((x - jnp.arange(4.0)) ** 2).sum())
    callable_ = fwj.minimize(f, lambda g: jnp.where(g > 0, -1.0, 1.0), np.zeros(4), tol=1e-3)
    assert callable_.success
    assert callable_.feasible is None
    assert callable_.method == "fw"
    np.testing.assert_allclose(callable_.x, [0, 1, 1, 1], atol=5e-2)
    hull = fw.ConvexHull(np.vstack([np.eye(4), -np.eye(4)]))
    r = fwj.minimize(f, hull, np.zeros(4), tol=1e-3)
    assert r.success
    assert r.feasible
    np.testing.assert_allclose(r.x, [0, 0, 0, 1], atol=1e-2)
    model = fwj.LinearModel(np.eye(4), np.arange(4.0))  # whose verdict is in double precision, on the host too
    assert fwj.minimize(model, hull, np.zeros(4), tol=1e-3).success


def test_sparse_data_gives_the_answer_of_dense_data():
    S = sp.random_array((60, 90), density=0.1, rng=np.random.default_rng(0), dtype=np.float64)
    b = np.where(RNG.standard_normal(60) > 0, 1.0, -1.0)
    with jax.enable_x64(True):
        r = fwj.minimize(fwj.LinearModel(S, b, "logistic"), fwj.L1Ball(5.0), method="blended-pairwise", tol=1e-7)
    theirs = fw.minimize(fw.LinearModel(S, b, "logistic"), fw.L1Ball(5.0), tol=1e-10)
    assert r.success
    assert float(r.fun) == pytest.approx(theirs.fun, abs=2e-7)


def test_limits_and_failures_have_their_status():
    f = fwj.LinearModel(A.astype(np.float32), LABELS)
    short = fwj.minimize(f, fwj.L1Ball(5.0), method="fw", tol=1e-9, max_iter=3)
    assert short.statuses is Status.ITERATIONS
    assert not short.success
    assert (int(short.nit), int(short.n_grad)) == (3, 5)
    assert fwj.minimize(f, fwj.L1Ball(5.0), method="fw", tol=1e3).nit == 0
    g = fwj.Smooth(lambda x: jnp.where(x[0] > 0.3, jnp.nan, (x**2).sum() - 5 * x[0]))
    failed = fwj.minimize(g, fwj.Simplex(), np.array([0.0, 1.0]), method="fw", tol=1e-9, max_iter=50)
    assert failed.statuses is Status.NUMERICAL
    assert not failed.success
    assert np.isfinite(failed.x).all()  # the last point that was judged good


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "rk4"}, "did you mean 'rk44'"),
        ({"method": "apg", "momentum": "nesterov"}, "momentum belongs to tableaus"),
        ({"method": "apg", "line_search": "exact"}, "method='apg' takes none"),
        ({"method": "pairwise", "C": fwj.L2Ball(1.0)}, "needs an L1Ball, a Simplex or a UnitSimplex"),
        ({"method": "apg", "C": fwj.LpBall(3.0)}, "needs a set with a projection"),
        ({"method": "apg", "schedule": fw.OpenLoop(3.0)}, "schedule belongs to tableaus"),
        ({"method": "away"}, "method='away' is not known"),
        ({"method": Corrective()}, "method must be a name or a Tableau in fwflow.jax"),
        ({"schedule": 2.0}, "schedule must be a Schedule"),
        ({"line_search": "short"}, r"line_search=ShortStep\(\) is not available in fwflow.jax"),
        ({"line_search": "shortest"}, "line_search='shortest' is not known"),
        ({"momentum": "lmo-averaging"}, "is not available in fwflow.jax; accepted: 'nesterov'"),
        ({"momentum": "heavy"}, "momentum='heavy' is not known"),
        ({"x0": np.full(15, 1.0)}, "x0 lies outside the set"),
        ({"x0": np.zeros(3)}, "x0 has shape"),
        ({"tol": -1.0}, "tol must not be negative"),
        ({"f": fw.LinearModel(A, LABELS)}, "f must be a fwflow.jax LinearModel"),
    ],
)
def test_arguments_are_checked(arguments, message):
    given = {"f": fwj.LinearModel(A, LABELS), "C": fwj.L1Ball(1.0), **arguments}
    with pytest.raises(ValueError, match=message):
        fwj.minimize(given.pop("f"), given.pop("C"), **given)


def test_without_jax_one_sentence_says_what_to_install():
    script = "import sys; sys.modules['jax'] = None; import fwflow.jax"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert "fwflow.jax needs JAX; pip install 'fwflow[jax]'" in ended.stderr.splitlines()[-1]


def test_a_run_that_overflows_at_once_is_judged_at_its_start():
    b = A[:, 0]
    r = fwj.minimize(fwj.LinearModel(A.astype(np.float32), b.astype(np.float32)), fwj.L1Ball(1e20), max_iter=20)
    assert r.statuses is Status.NUMERICAL
    assert not r.x.any()
    assert r.fun == pytest.approx(0.5 * np.mean(b**2), rel=1e-5)
    assert r.gap == pytest.approx(1e20 * np.abs(A.T @ b / len(b)).max(), rel=1e-5)


def test_a_run_of_constants_within_jit_is_that_outside():
    f = fwj.LinearModel(A, LABELS, "logistic")
    run = partial(fwj.minimize, f, fwj.L1Ball(4.0), tol=1e-3)
    np.testing.assert_allclose(jax.jit(lambda: run().x)(), run().x, atol=1e-6)
