"""Is the gap on the nuclear ball true? Traces and certificates against dense singular values, along real runs."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.datasets import generators
from fwflow.points.vertices import DenseVertex, OneHot, RankOne, Scaled, Sum
from fwflow.sets import lanczos

METHODS = {
    "auto": {},
    "fw": {"method": "fw"},
    "rk44": {"method": "rk44"},
    "exact": {"method": "fw", "line_search": "exact"},
    "aggressive": {"method": "rk44", "line_search": "aggressive"},
    "momentum": {"method": "rk44", "momentum": "nesterov"},
    "pairwise": {"method": "pairwise"},
    "lazy": {"method": "lazy-blended-pairwise"},
}


def completion(shape, observed, seed=0, kind="noise", loss="squared", dtype=np.float64, **options):
    """Entries of noise, or of a matrix of rank 3 with a little noise."""
    rng = np.random.default_rng(seed)
    rows, cols = np.divmod(rng.choice(shape[0] * shape[1], observed, replace=False), shape[1])
    values = rng.standard_normal(observed)
    if kind == "low rank":
        left, right = (rng.standard_normal((size, 3)) for size in shape)
        values = (left[rows] * right[cols]).sum(axis=1) + 0.1 * values
    return fw.MatrixCompletion(rows, cols, values.astype(dtype), shape, loss, **options)


def true_gap(f, radius, x):
    """The gap at x by dense singular values in double precision, and the size of the two numbers it is made of."""
    z = (np.asarray(x.U, float) @ np.asarray(x.V, float).T)[f.rows, f.cols]
    g = f.factor * f.loss.derivative(z, f.b.astype(float))
    G = np.zeros(f.shape)
    G[f.rows, f.cols] = g
    # An SVD of hundreds of rows takes seconds; the largest eigenvalue of the Gram matrix is as exact.
    support = radius * (np.linalg.norm(G, 2) if G.size < 10**5 else np.sqrt(np.linalg.eigvalsh(G @ G.T)[-1]))
    return g @ z + support, support + np.abs(g) @ np.abs(z)


def run(f, radius, C=None, **options):
    """A run, and the rows of its trace as (gap, true gap, what arithmetic cannot tell)."""
    rows = []
    # Entries of x, carried from one step to the next, and so the entries of the gradient, are rounded.
    blur = 64 * float(np.finfo(f.dtype).eps) * radius * f.factor * float(np.abs(f.b).max())

    def record(state):
        if np.isfinite(state.gap):
            gap, size = true_gap(f, radius, state.x)
            rows.append((state.gap, gap, 64 * float(np.finfo(f.dtype).eps) * size + blur))

    result = fw.minimize(f, C or fw.NuclearBall(radius), callback=record, **options)
    return result, np.array(rows)


def assert_true(rows, share=0.12):
    gap, exact, rounding = rows.T
    assert (gap >= -rounding).all()
    assert (np.abs(gap - exact) <= share * exact + rounding).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(deadline=None, max_examples=4, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    problem=st.sampled_from([((8, 6), 30), ((40, 30), 300), ((25, 90), 800), ((90, 25), 800), ((60, 60), 1200)]),
    kind=st.sampled_from(["noise", "low rank"]),
    loss=st.sampled_from(["squared", "huber"]),
    radius=st.sampled_from([0.1, 10.0, 1000.0]),
)
def test_every_row_of_a_trace_is_true(method, dtype, seed, problem, kind, loss, radius):
    f = completion(*problem, seed, kind, loss, dtype, rho=0.7)
    _, rows = run(f, radius, tol=0, rtol=1e-10, max_iter=40, **METHODS[method])
    assert_true(rows)


@pytest.mark.parametrize("shape", [(40, 30), (30, 40), (12, 9)])
def test_what_the_trace_says_is_verified_at_once(shape):
    for seed in range(8):
        f = completion(shape, shape[0] * shape[1] // 4, seed, loss="huber")
        r, rows = run(f, 10.0, max_iter=200)
        assert_true(rows)
        assert r.success
        assert (r.trace["gap"] <= 1e-6).argmax() == r.nit
        assert r.gap == pytest.approx(rows[-1, 1], rel=1e-3, abs=rows[-1, 2])


@pytest.mark.slow
def test_ratings_of_943_by_1682_to_a_millionth():
    data = generators.movielens()
    f = fw.MatrixCompletion(data["rows"], data["cols"], data["values"] - 3.0, data.shape)
    r, rows = run(f, 1000.0, tol=0, rtol=1e-6, max_iter=60)
    assert_true(rows)
    assert r.success
    assert (r.trace["gap"] <= 1e-6 * r.trace["gap"][0]).argmax() == r.nit
    assert r.gap == pytest.approx(rows[-1, 1], rel=1e-3)


def clustered(sigma, rows, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, len(sigma))))[0] for n in (rows, len(sigma)))
    return (U * sigma) @ V.T, U, V


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("gap", [1e-2, 1e-4, 1e-6, 1e-8])
def test_a_hint_that_is_a_singular_vector_itself_does_not_hide_the_leading_one(gap, wide):
    # As near an optimum: a cluster of singular values, wide as the gap, of which the hint is one.
    sigma = np.r_[np.linspace(1, 1 - gap, 12), np.linspace(0.9, 0.1, 88)]
    G, U, V = clustered(sigma, 130)
    hint = RankOne(U[:, 6], V[:, 6], -2.0)
    if wide:
        G, hint = np.ascontiguousarray(G.T), RankOne(hint.v, hint.u, -2.0)
    inner = -2.0 * (1 - gap)
    found = inner - fw.NuclearBall(2.0).lmo_at(G, inner, hint).dot(G)
    assert found == pytest.approx(2 * gap, rel=0.12, abs=1e-14)


@pytest.mark.parametrize("n", [40, 700])
def test_the_oracle_is_as_exact_where_lanczos_steps_do_not_decide(n, monkeypatch):
    monkeypatch.setattr(lanczos, "_MOST", 20)
    sigma = np.sqrt(2 + 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1)))  # crowded at the top
    G, inner = sp.diags_array(sigma).tocsr(), -sigma[1]
    assert inner - fw.NuclearBall().lmo_at(G, inner).dot(G) == pytest.approx(sigma[0] - sigma[1], rel=0.12)


@pytest.mark.parametrize("limit", [2000, 0], ids=["dense", "lanczos"])
@pytest.mark.parametrize("width", [1e-3, 1e-6, 1e-9])
@pytest.mark.parametrize("short", [0.0, 0.1, 0.9])
def test_certified_gaps_are_those_of_the_matrix_however_short_the_vertex(limit, width, short, monkeypatch):
    monkeypatch.setattr(lanczos, "_GRAM_LIMIT", limit)
    sigma = np.r_[np.linspace(1, 1 - width, 20), np.linspace(0.9, 0, 130)]
    G, U, V = clustered(sigma, 200)
    # A unit vector between the first and the last of the cluster, with a value short of the largest by that share.
    u, v = (np.sqrt(1 - short) * M[:, 0] + np.sqrt(short) * M[:, 19] for M in (U, V))
    inner = -3 * (1 - width)
    bound = fw.NuclearBall(3.0).lower_bound(G, RankOne(u, v, -3.0))
    assert inner - bound == pytest.approx(3 * width, rel=1e-3)
    assert bound <= -3 * (1 - 1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_bounds_from_lanczos_steps_hold_before_they_have_converged(seed, monkeypatch):
    monkeypatch.setattr(lanczos, "_GRAM_LIMIT", 0)
    G = np.random.default_rng(seed).standard_normal((150, 100))
    exact = np.linalg.norm(G, 2)
    bounds = []
    for most in (5, 10, 20, 40, 100):
        monkeypatch.setattr(lanczos, "_MOST", most)
        bounds.append(lanczos.spectral_bound(G, 0.0))
    assert (np.array(bounds) >= exact * (1 - 1e-13)).all()
    assert (np.diff(bounds) < 0).all()
    assert bounds[-1] == pytest.approx(exact, rel=1e-12)


DATA = {
    "one entry": lambda m, n: [0],
    "all": lambda m, n: np.arange(m * n),
    "empty rows and columns": lambda m, n: [k for k in range(m * n) if k // n % 2 == 0 and k % n % 3 != 1],
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("values", ["zero", "constant", "random"])
@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (4, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_degenerate_problems_end_with_a_true_gap(shape, data, values, dtype):
    rows, cols = np.divmod(DATA[data](*shape), shape[1])
    b = {"zero": np.zeros, "constant": np.ones, "random": np.random.default_rng(0).standard_normal}[values](len(rows))
    for loss in ("squared", "huber"):
        for radius in (1e-12, 1.0, 1e12):
            f = fw.MatrixCompletion(rows, cols, b.astype(dtype), shape, loss, rho=0.5)
            r, trace = run(f, radius, tol=0, rtol=1e-4, max_iter=30, max_time=20.0)
            assert_true(trace)
            assert r.feasible
            # What is left is rounding, of entries that may be small beside the radius, or a ten-thousandth.
            assert trace[-1, 1] <= 1e-4 * trace[0, 1] + trace[-1, 2]


@pytest.mark.parametrize("loss", ["squared", "huber"])
@pytest.mark.parametrize("radius", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (5, 4)])
def test_entries_of_any_size(shape, radius, loss):
    rng = np.random.default_rng(0)
    rows, cols = np.divmod(np.arange(shape[0] * shape[1]), shape[1])
    b = rng.standard_normal(len(rows))
    plain, _ = run(fw.MatrixCompletion(rows, cols, b, shape, loss, rho=0.5), radius, tol=0, rtol=1e-6, max_iter=30)
    assert plain.success
    for scale in (2.0**-490, 2.0**490):
        f = fw.MatrixCompletion(rows, cols, scale * b, shape, loss, rho=0.5 * scale)
        r = fw.minimize(f, fw.NuclearBall(scale * radius), tol=0, rtol=1e-6, max_iter=30)
        assert r.success
        assert r.nit == plain.nit
        np.testing.assert_allclose(r.x.to_dense() / scale, plain.x.to_dense(), rtol=1e-9, atol=1e-12 * radius)
        far = fw.minimize(f, fw.NuclearBall(radius), tol=0, rtol=1e-6, max_iter=30)  # nothing of the size of the data
        assert far.success


def test_a_translated_ball_passes_on_how_exact_its_oracle_must_be():
    rng = np.random.default_rng(0)
    target, shift = rng.standard_normal((60, 40)), rng.standard_normal((60, 40))
    f = fw.Smooth(lambda x: 0.5 * float(np.sum((x - target) ** 2)), lambda x: x - target, shape=(60, 40))
    rows = []

    def record(state):
        g = state.x - target
        rows.append((state.gap, np.vdot(g, state.x - shift) + 20.0 * np.linalg.norm(g, 2), 1e-9))

    fw.minimize(f, fw.NuclearBall(20.0) + shift, method="fw", line_search="exact", tol=0, max_iter=200, callback=record)
    assert_true(np.array(rows))


def second(G):
    """The second singular pair, to which the leading one is orthogonal."""
    U, _, Vt = np.linalg.svd(G)
    return U[:, 1], Vt[1]


MISFITS = {
    "wrong shape": lambda G, hint: RankOne(np.ones(3), np.ones(2), -1.0),
    "transposed": lambda G, hint: RankOne(hint.v, hint.u, hint.scale),
    "wrong sign": lambda G, hint: RankOne(-hint.u, hint.v, hint.scale),
    "of another matrix": lambda G, hint: RankOne(*(np.eye(1, n, n // 2)[0] for n in G.shape), -1.0),
    "orthogonal to the leading pair": lambda G, hint: RankOne(*second(G), -1.0),
    "zeros": lambda G, hint: RankOne(*map(np.zeros, G.shape), 0.0),
    "not a number": lambda G, hint: RankOne(*(np.full(n, np.nan) for n in G.shape), np.nan),
    "infinite": lambda G, hint: RankOne(*(np.full(n, np.inf) for n in G.shape), -1.0),
    "huge": lambda G, hint: RankOne(1e100 * hint.u, 1e100 * hint.v, -1.0),
    "without factors": lambda G, hint: DenseVertex(np.ones(G.shape)),
}


class Misled(fw.NuclearBall):
    """A ball whose hints are replaced."""

    def __init__(self, radius, misfit):
        super().__init__(radius)
        self.misfit = misfit

    def lmo_at(self, g, inner, hint=None):
        return super().lmo_at(g, inner, self.misfit(g.toarray(), hint or RankOne(*map(np.ones, g.shape), -1.0)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", [{}, {"method": "pairwise", "max_iter": 30}], ids=["auto", "pairwise"])
@pytest.mark.parametrize("misfit", MISFITS)
def test_hints_that_mislead_do_not_change_what_a_trace_says(misfit, options):
    # So large, and so near the optimum, that the first steps do not find the leading pair.
    f = completion((200, 150), 4000)
    _, rows = run(f, 100.0, C=Misled(100.0, MISFITS[misfit]), tol=0, rtol=1e-8, **options)
    assert_true(rows)


WRAPPED = {
    "bare": lambda s: s,
    "scaled": lambda s: Scaled(2.0, s),
    "a sum": lambda s: Sum((s, s)),
    "one-hot": lambda s: OneHot(0, 1.0, s.shape),
}


@pytest.mark.parametrize("wrap", WRAPPED)
@pytest.mark.parametrize("misfit", MISFITS)
def test_nor_do_hints_of_another_set_in_combinations(misfit, wrap):
    G, U, V = clustered(np.r_[np.linspace(1, 1 - 1e-6, 12), np.linspace(0.9, 0.1, 88)], 130)
    hint = WRAPPED[wrap](MISFITS[misfit](G, RankOne(U[:, 6], V[:, 6], -1.0)))
    shift = np.random.default_rng(1).standard_normal(G.shape)
    ball = fw.NuclearBall(2.0)
    for C, support in [(ball, -2.0), (-3.0 * ball, -6.0), (ball + shift, -2.0 + np.vdot(G, shift))]:
        inner = support + 1e-6
        assert inner - C.lmo_at(G, inner, hint).dot(G) == pytest.approx(1e-6, rel=0.12)
