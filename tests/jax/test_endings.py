"""Every compiled run ends, whatever its input, and a success is a member of the set with a verified gap."""

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fwflow as fw
import fwflow.jax as fwj
from fwflow import Status
from fwflow.jax import loop
from fwflow.jax.methods import evaluate
from tests.jax import hostile

SECONDS = 240
TARGET, ORDER = np.arange(1.0, 4.0), np.array([2, 0, 1])


@pytest.fixture(scope="module")
def ended():
    """The runs that have ended, by case. No signal reaches a compiled loop, so they run in a process of their own."""
    command = [sys.executable, "-m", "tests.jax.hostile"]
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS).stdout
    except subprocess.TimeoutExpired as expired:
        lines = (expired.stdout or b"").decode()
    return dict(json.loads(line) for line in lines.splitlines())


@pytest.mark.parametrize("name", hostile.CASES)
def test_every_compiled_run_ends(ended, name):
    assert name in ended, "it did not end, or none before it did"
    found = ended[name]
    assert max(found["nit"]) <= hostile.MAX_ITER
    ends = {"TOLERANCE", "ITERATIONS", "PRECISION", "FINISHED", "NUMERICAL", "INCONSISTENT"}
    assert set(found["statuses"]) <= ends
    for i, change in enumerate(hostile.CHANGES):
        assert found["success"][i] == (found["statuses"][i] == "TOLERANCE")
        if not found["success"][i]:
            continue
        given = {**hostile.USUAL, **change}
        assert np.isfinite(found["x"][i]).all()
        assert found["gap"][i] >= 0
        assert found["gap"][i] <= given["tol"] or given["rtol"] > 0
        assert found["feasible"] is None or found["feasible"][i]
        assert np.isfinite([given["data"], given["start"]]).all()
        if "reversed" in name:
            assert given["data"] == 0  # of which every point is a minimum
        elif "host" not in name and "oracle" not in name:
            assert 0 < given["radius"] < np.inf


def test_the_aggressive_line_search_ends(ended):
    assert np.shape(ended["aggressive search"]) == (7, 7)


@pytest.mark.parametrize("name", ["apg on an L1 ball", "pairwise on an L1 ball", "fw on a nuclear ball"])
def test_a_start_outside_is_moved_into_the_set(ended, name):
    outside = hostile.CHANGES.index({"start": 5.0})
    assert ended[name]["statuses"][outside] == ended[name]["statuses"][0] == "TOLERANCE"
    assert np.linalg.norm(ended[name]["x"][outside], "nuc" if "nuclear" in name else 1) <= 1 + 1e-5


@pytest.mark.parametrize("kind", [fwj.L1Ball, fwj.L2Ball, fwj.LInfBall, fwj.Simplex])
def test_a_traced_start_outside_becomes_the_nearest_member(kind):
    f = fwj.LinearModel(np.eye(3), np.zeros(3))
    run = jax.jit(lambda x, r: fwj.minimize(f, kind(r), x, method="fw", max_iter=0).x)
    with jax.enable_x64(False):
        for x in ([3.0, -1.0, 0.5], [1.0, 0.0, 0.0]):
            np.testing.assert_allclose(run(np.array(x), 1.0), kind(1.0).project(jnp.array(x)), atol=1e-6)


@pytest.mark.parametrize("start", [np.zeros(3), -np.ones(3), np.ones(3)])
@pytest.mark.parametrize("model", ["linear", "smooth"])
def test_an_oracle_of_the_wrong_sign_is_no_success(model, start):
    """At -1 x is where such an oracle leads, so that the gap is zero."""
    f = fwj.LinearModel(np.eye(3), TARGET) if model == "linear" else fwj.Smooth(lambda x: ((x - TARGET) ** 2).sum())
    wrong = fwj.minimize(f, hostile.worst, start, tol=1e-4, max_iter=20)
    assert wrong.statuses is Status.INCONSISTENT
    assert not wrong.success
    right = fwj.minimize(f, hostile.best, start, tol=1e-4, max_iter=20)
    assert right.success


def squares(x, A, b):
    return 0.5 * ((A @ x - b) ** 2).mean()


def test_users_functions_are_verified_in_double_precision():
    """With columns that have much in common, so that products cancel and single precision understates the gap."""
    rng = np.random.default_rng(1)
    A = (rng.standard_normal((200, 10)) + 100).astype(np.float32)
    b = (A @ np.full(10, 0.1) + rng.standard_normal(200)).astype(np.float32)
    f = fwj.Smooth(squares, A, b)
    wide, target = A.astype(np.float64), b.astype(np.float64)
    for scale in (0.0, 1e-2, 1e-3, 1e-4):
        x = np.full(10, 0.1, np.float32) + (scale * rng.standard_normal(10)).astype(np.float32)
        g = wide.T @ (wide @ x.astype(np.float64) - target) / 200
        known = evaluate(f, fwj.L1Ball(2.0), f.point(x), None, lift=False)
        _, verified, _ = jax.jit(lambda f, x, known: loop.verify(f, fwj.L1Ball(2.0), x, known))(f, x, known)
        assert verified.gap.dtype == np.float32
        assert float(verified.gap) == pytest.approx(g @ x + 2 * np.abs(g).max(), rel=1e-6)
        assert 0 < float(verified.rounding) < 1e-8 * float(verified.resolution)


BATCHES = {
    "products": lambda S, b: fwj.Smooth(lambda x, S, b: 0.5 * x @ (S.T @ (S @ x)) - x @ (S.T @ b), S, b),
    "quadratic": lambda S, b: fwj.Smooth(lambda x, S, b: 0.5 * jnp.einsum("i,ji,jk,k", x, S, S, x) - b @ S @ x, S, b),
    "closure": lambda S, b: fwj.Smooth(lambda x: 0.5 * jnp.vdot(jnp.dot(S, x), S @ x) - jnp.inner(b, S @ x)),
    "linear model": lambda S, b: fwj.LinearModel(S, b, scale="sum"),
}


@pytest.mark.parametrize("wide", [False, True], ids=["float32", "float64"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("name", BATCHES)
def test_batches_are_verified_in_double_precision(name, shared, wide):
    """All compute half the square of Sx - b, under two vmaps."""
    rng = np.random.default_rng(0)
    with jax.enable_x64(wide):
        S, b = jnp.asarray(rng.standard_normal((2, 6, 6))), jnp.asarray(rng.standard_normal((2, 3, 6)))
        S = S[:1] if shared else S

        def fit(S, b):
            return fwj.minimize(BATCHES[name](S, b), fwj.Simplex(), jnp.full(6, 1 / 6), tol=1e-5)

        axes = None if shared else 0
        r = jax.vmap(jax.vmap(fit, (None, 0)), (axes, 0))(S[0] if shared else S, b)
        assert r.success.all()
        assert float(r.rounding.max()) < 1e-12
    S, b, x, gap = (np.asarray(part, np.float64) for part in (S, b, r.x, r.gap))
    g = (x @ S.transpose(0, 2, 1) - b) @ S  # S has a leading axis of length 1 or 2, which is that of b.
    np.testing.assert_allclose(gap, np.abs((g * x).sum(-1) - g.min(-1)), rtol=1e-5, atol=1e-13)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: (x.astype(jnp.float32) ** 2).sum(),
        lambda x: jax.jit(lambda x: (x * jnp.float16(2)).astype(jnp.float32).sum() + x[0])(x),
        lambda x: jax.lax.fori_loop(0, 2, lambda i, total: total + x.sum(), jnp.float32(0)),
        lambda x: (x * jax.random.normal(jax.random.key(0), x.shape)).sum(),
        lambda x: ((x - TARGET) ** 2)[ORDER].sum(),
        lambda x: (x - jax.pure_callback(np.cos, x, jax.lax.stop_gradient(x), vmap_method="sequential")).sum(),
    ],
    ids=["cast", "nested cast", "carry", "random", "closure", "callback"],
)
def test_other_functions_are_verified_in_their_own_precision(fun):
    r = fwj.minimize(fwj.Smooth(fun), fwj.Simplex(), np.array([0.1, 0.2, 0.7]), method="fw", max_iter=3)
    assert np.isfinite(r.gap)
    assert r.rounding == r.resolution > 0


def test_success_needs_rounding_below_the_tolerance():
    """All columns are equal, and the terms of a gap over so large a ball are 1e15 times its value."""
    A, b = np.full((60, 2), 100000.1), np.random.default_rng(0).standard_normal(60)
    x0 = np.array([4.6e14, -4.6e14])
    with jax.enable_x64(True):
        r = fwj.minimize(fwj.LinearModel(A, b), fwj.L1Ball(1e15), x0, tol=1e-8, max_iter=300)
        assert not r.success
        assert r.rounding > 1e-8
        easy = fwj.minimize(fwj.LinearModel(A / 1e5, b), fwj.L1Ball(1.0), tol=1e-8)
        assert easy.success
        assert easy.rounding < 1e-8


@pytest.mark.parametrize("shape", ["variance", "utility", "cancelling terms"])
def test_a_tolerance_below_rounding_does_not_hold_the_batch(shape):
    """Portfolios, whose accelerated steps in single precision wander about the optimum. The best point is returned."""
    rng = np.random.default_rng(1)
    returns = 0.01 * (rng.standard_normal((150, 60)) + rng.standard_normal((150, 1)))
    S = jnp.asarray(252 * np.cov(returns.T) + 1e-4 * np.eye(60), np.float32)

    def fit(mu):
        def fun(x, S, mu):
            y, gain = (x * (1 + 0.1 * mu), 0.0) if shape == "variance" else (x, (mu * x).sum())
            zero = ((x + 1) ** 2).sum() - (x**2 + 2 * x).sum() if shape == "cancelling terms" else 0.0
            return 5 * (y * (S * y).sum(axis=1)).sum() - gain + 10 * zero

        return fwj.minimize(fwj.Smooth(fun, S, mu), fwj.Simplex(), np.full(60, 1 / 60), tol=1e-12, max_iter=4000)

    r = jax.jit(jax.vmap(fit))(0.1 * rng.standard_normal((32, 60)).astype(np.float32))
    assert {status.name for status in r.statuses} <= {"PRECISION", "TOLERANCE"}
    assert np.median(r.gap / r.resolution) <= 2


@pytest.mark.parametrize(
    "options", [{"method": "fw"}, {"method": "fw", "momentum": "nesterov"}], ids=["plain", "momentum"]
)
def test_slow_progress_is_not_rounding(options):
    """Gaps of Frank-Wolfe are O(1/k) and zigzag, and f is flat long before they are small."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 40, 30)).astype(np.float32)
    b = np.einsum("bij,j->bi", A, np.repeat([1.0, 0.0], [8, 22]).astype(np.float32)) + 0.1
    tol, limits = 2e-5, {"max_iter": 4000, **options}
    r = jax.jit(jax.vmap(lambda A, b: fwj.minimize(fwj.LinearModel(A, b), fwj.L1Ball(2.0), tol=tol, **limits)))(A, b)
    assert tol > float(r.resolution.max())
    assert "PRECISION" not in {status.name for status in r.statuses}


@pytest.mark.parametrize(
    "options", [{"method": "fw"}, {"method": "fw", "line_search": "exact"}], ids=["plain", "exact"]
)
def test_an_inexact_oracle_is_not_rounding(options):
    """Its gap may be far too small, even negative, and the largest singular values of the gradient become equal."""
    rng = np.random.default_rng(0)
    T, observed = rng.standard_normal((2, 8, 12, 12)).astype(np.float32)
    C, limits = fwj.NuclearBall(8.0, steps=1, width=1), {"tol": 1e-5, "max_iter": 3000, **options}

    def fit(T, observed):
        f = fwj.Smooth(lambda X, T, observed: (0.5 * observed * (X - T) ** 2).mean(), T, observed)
        return fwj.minimize(f, C, jnp.zeros((12, 12)), **limits)

    r = jax.jit(jax.vmap(fit))(T, np.where(observed > 0, 1, 0).astype(np.float32))
    assert 10 * float(r.resolution.max()) < float(r.gap.min())
    assert {status.name for status in r.statuses} <= {"ITERATIONS"}


def test_sets_on_the_host_are_not_asked_about_what_is_not_a_number():
    f = fwj.LinearModel(np.full((9, 9), np.nan), np.zeros(9))
    r = fwj.minimize(fwj.Smooth(lambda X: f.value(f.point(X))), fwj.Host(fw.Birkhoff(3)), max_iter=5)
    assert r.statuses is Status.NUMERICAL
