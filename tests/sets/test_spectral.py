"""Sets of matrices by their spectrum: oracles, certificates and members against dense decompositions."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.points.lowrank import LowRank
from fwflow.points.vertices import DenseVertex, OneHot, RankOne
from fwflow.sets import lanczos

#: What to make of a random matrix.
KINDS = {
    "random": lambda G: G,
    "symmetric": lambda G: G + G.T,
    "definite": lambda G: G @ G.T,
    "sparse": lambda G: np.where(np.abs(G) > 1, G, 0.0),
    "tied": lambda G: np.diag(np.sign(np.diag(G))),
    "low rank": lambda G: np.outer(G[0], G[0]),
    "skew": lambda G: G - G.T,
    "zero": np.zeros_like,
    "tiny": lambda G: 1e-150 * G,
    "huge": lambda G: 1e300 * G / np.abs(G).max(),
    "float32": lambda G: G.astype(np.float32),
    "float32-huge": lambda G: (1e30 * G).astype(np.float32),
}


def eigenvalues(G):
    G = G.astype(float)
    return np.linalg.eigvalsh(G / 2 + G.T / 2)


def minimum(C, G):
    """Of <G, X>, by all eigenvalues of the symmetric part."""
    values = eigenvalues(G)
    if isinstance(C, fw.Fantope):
        return values[: C.rank].sum()
    least = C.radius * values[0]
    return min(0.0, least) if isinstance(C, fw.Spectrahedron) else least


SEMIDEFINITE = [fw.Spectraplex(2.0), fw.Spectrahedron(2.0), fw.Fantope(3, steps=4)]
every_set = pytest.mark.parametrize("C", SEMIDEFINITE, ids=repr)


def directions(n, count, seed=0):
    rng = np.random.default_rng(seed)
    for i in range(count):
        yield [*KINDS.values()][i % len(KINDS)](rng.standard_normal((n, n)))


def assert_oracle(C, G, share=1e-9):
    """The vertex is as good as it may be, and one: a number times a projector, of the type of the gradient."""
    s = C.lmo(G)
    eps, unit = float(np.finfo(G.dtype).eps), float(np.abs(G).max()) or 1.0
    reach = len(G) * unit * (C.rank if isinstance(C, fw.Fantope) else C.radius)
    found = sum(part.scale * (part.u.astype(float) @ (G.astype(float) / unit) @ part.v) for part in s.parts or (s,))
    exact = minimum(C, G.astype(float) / unit)
    assert abs(found - exact) <= 8 * eps * reach / unit + share * abs(exact)
    X = np.asarray(s)
    scale = X.trace() / C.rank
    np.testing.assert_allclose(X @ X, scale * X, rtol=0, atol=32 * eps * scale**2)
    assert scale == pytest.approx(C.radius, rel=32 * eps) or (isinstance(C, fw.Spectrahedron) and scale == 0)
    assert all(part.u.dtype == G.dtype for part in s.parts or (s,))
    bound = C.lower_bound(G, s)
    assert exact - 64 * np.finfo(float).eps * reach / unit <= bound / unit <= exact + 1e-14 * reach / unit
    return s


@every_set
def test_the_oracle_is_that_of_a_dense_decomposition(C):
    for G in directions(5, 500):
        assert_oracle(C, G)


@every_set
def test_lanczos_steps_find_the_same(C, monkeypatch):
    monkeypatch.setattr(lanczos, "_SMALL", 0)
    for G in directions(70, 2 * len(KINDS), seed=1):
        assert_oracle(C, G)
        stored = C.lmo(sp.csr_array(G))
        assert stored.dot(G) == pytest.approx(minimum(C, G), rel=1e-5 if G.dtype == np.float32 else 1e-8)


@every_set
def test_one_row_and_as_many_vectors_as_rows(C):
    n = max(1, C.rank)
    for sign in (1.0, -1.0):
        assert C.lmo(sign * np.eye(n)).dot(sign * np.eye(n)) == minimum(C, sign * np.eye(n))
    assert C.diameter((n, n)) == (C.radius if isinstance(C, fw.Spectrahedron) else 0.0)


@pytest.mark.parametrize("width", [1e-2, 1e-5, 1e-8])
@every_set
def test_a_hint_that_is_an_eigenvector_itself_does_not_hide_the_leading_ones(C, width, monkeypatch):
    monkeypatch.setattr(lanczos, "_SMALL", 0)
    values = np.r_[np.linspace(-1, -1 + width, 12), np.linspace(-0.9, 1, 88)]
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((100, 100)))[0]
    G = (Q * values) @ Q.T
    parts = [RankOne(Q[:, 6 + i], Q[:, 6 + i], C.radius) for i in range(C.rank)]
    hint = C._made_of(np.column_stack([part.u for part in parts]), 1.0)
    inner = minimum(C, G) + width
    assert inner - C.lmo_at(G, inner, hint).dot(G) == pytest.approx(width, rel=0.12, abs=1e-14)


@pytest.mark.parametrize("C", [fw.Spectraplex(2.0), fw.Fantope(3, steps=4)], ids=repr)
def test_multiples_of_the_identity_change_no_vertex(C):
    G = np.random.default_rng(8).standard_normal((80, 80))
    exact = minimum(C, G)
    for shift in (-1e4, 1e4):
        assert C.lmo(G + shift * np.eye(80)).dot(G) == pytest.approx(exact, rel=1e-7)
        near = C.lmo(G + shift * np.eye(80), C.lmo(-G))
        assert near.dot(G) <= exact + 0.1 * np.ptp(eigenvalues(G))


MISFITS = {
    "of another shape": RankOne(np.ones(3), np.ones(3), 1.0),
    "zeros": RankOne(np.zeros(70), np.zeros(70), 0.0),
    "not a number": RankOne(np.full(70, np.nan), np.full(70, np.nan), 1.0),
    "dense": DenseVertex(np.ones((70, 70))),
    "one entry": OneHot(3, 1.0, (70, 70)),
}


@every_set
@pytest.mark.parametrize("misfit", MISFITS)
def test_hints_that_mislead_change_nothing(C, misfit):
    G = np.random.default_rng(2).standard_normal((70, 70))
    exact, shift = minimum(C, G), np.random.default_rng(3).standard_normal((70, 70))
    for wrapped, least in ((C, exact), (3.0 * C, 3 * exact), (C + shift, exact + np.vdot(G, shift))):
        found = wrapped.lmo_at(G, least + 1e-5, MISFITS[misfit]).dot(G)
        assert least + 1e-5 - found == pytest.approx(1e-5, rel=0.12, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@every_set
def test_bounds_from_lanczos_steps_hold_before_they_have_converged(C, seed, monkeypatch):
    monkeypatch.setattr(lanczos, "_GRAM_LIMIT", 0)
    G = np.random.default_rng(seed).standard_normal((100, 100))
    exact, bounds = minimum(C, G), []
    for most in (5, 10, 20, 100):
        monkeypatch.setattr(lanczos, "_MOST", most)
        bounds.append(C.lower_bound(G, C.lmo(G)))
    assert (np.array(bounds) <= exact + 1e-12).all()
    assert (np.diff(bounds) > 0).all()
    assert bounds[-1] == pytest.approx(exact, rel=1e-10)


RUNS = {
    "exact": {"method": "fw", "line_search": "exact"},
    "rk44": {"method": "rk44"},
    "momentum": {"method": "rk44", "momentum": "nesterov"},
    "pairwise": {"method": "pairwise"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", RUNS)
@every_set
def test_gaps_along_runs_are_those_of_dense_eigenvalues(C, options):
    n, rng, rows = 80, np.random.default_rng(4), []
    target = rng.standard_normal((n, n)) / 8 + 0.5 * np.eye(n)

    def record(state):
        if np.isfinite(state.gap):
            G = state.x - target
            rows.append((state.gap, np.vdot(G, state.x) - minimum(C, G)))

    f = fw.Smooth(lambda X: 0.5 * float(np.sum((X - target) ** 2)), lambda X: X - target, shape=(n, n))
    r = fw.minimize(f, C, tol=0, rtol=1e-6, max_iter=20, callback=record, **RUNS[options])
    gap, exact = np.array(rows).T
    np.testing.assert_allclose(gap, exact, rtol=0.12, atol=1e-12)
    assert r.gap == pytest.approx(exact[-1], rel=1e-3, abs=1e-12)
    assert r.feasible is True


def kernel_completion(n, seed, dtype=np.float64):
    """Some entries of a positive semidefinite matrix of rank two with a little noise, not the same above as below."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, 2))
    rows, cols = np.divmod(rng.choice(n * n, n * n // 3, replace=False), n)
    values = (factor[rows] * factor[cols]).sum(axis=1) + 0.1 * rng.standard_normal(len(rows))
    return fw.MatrixCompletion(rows, cols, values.astype(dtype), (n, n), "squared"), rows, cols, values


@pytest.mark.parametrize("C", [fw.Spectraplex(30.0), fw.Spectrahedron(500.0)], ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_completion_keeps_semidefinite_matrices_factored(C, dtype):
    f, rows, cols, values = kernel_completion(12, 0, dtype)
    r = fw.minimize(f, C, method="pairwise", tol=0, rtol=1e-3, max_iter=400)
    assert isinstance(r.x, LowRank)
    assert (r.x.dtype, r.feasible, C.contains(r.x)) == (dtype, True, True)
    X = cp.Variable((12, 12), PSD=True)
    limit = cp.trace(X) == C.radius if type(C) is fw.Spectraplex else cp.trace(X) <= C.radius
    best = cp.Problem(cp.Minimize(cp.sum_squares(X[rows, cols] - values) / 2), [limit]).solve(solver=cp.CLARABEL)
    slack = 1e-5 * (1 + best)
    assert best - slack <= r.fun <= best + r.gap + slack
    np.testing.assert_allclose(np.asarray(r.x), np.asarray(r.x).T, atol=1e-3 if dtype == np.float32 else 1e-10)


def test_members_are_told_by_each_condition():
    plex, hedron, fantope = fw.Spectraplex(2.0), fw.Spectrahedron(2.0), fw.Fantope(2)
    inside = np.diag([1.5, 0.5, 0.0])
    assert plex.contains(inside) is True
    assert hedron.contains(inside / 2) is True
    assert plex.contains(inside / 2) is False
    assert hedron.contains(1.1 * inside) is False
    assert fantope.contains(inside) is False  # an eigenvalue above one
    assert fantope.contains(np.diag([1.0, 0.5, 0.5])) is True
    for C in (plex, hedron, fantope):
        assert C.contains(np.diag([1.0, 1.5, -0.5])) is False
        assert C.contains(np.diag([1.0, 0.5, 0.5]) + np.triu(np.full((3, 3), 1e-3), 1)) is False  # not symmetric
        assert C.contains(np.full((3, 3), 1e300)) is False


@pytest.mark.parametrize("C", [fw.Spectraplex(2.0), fw.Spectrahedron(2.0), 2.0 * fw.Fantope(1)], ids=repr)
def test_members_are_told_from_their_factors(C):
    rng = np.random.default_rng(5)
    U = np.linalg.qr(rng.standard_normal((30, 3)))[0] * np.sqrt([1.0, 0.7, 0.3])
    assert C.contains(LowRank.from_factors(U, U)) is True
    assert C.contains(LowRank.from_factors(U, U @ np.diag([1, 1, -1]))) is False
    assert C.contains(LowRank.from_factors(1.01 * U, U)) is False
    assert C.contains(LowRank.from_factors(U, U[:, ::-1])) is False
    assert C.contains(LowRank.zeros((30, 30))) is isinstance(C, fw.Spectrahedron)


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (1, 4)])
@pytest.mark.parametrize("p", [1.2, 2.0, 3.0, np.inf])
def test_a_schatten_ball_is_a_ball_of_singular_values(p, shape):
    C, q = fw.SchattenBall(p, 2.0), 1.0 if np.isinf(p) else p / (p - 1)
    rng = np.random.default_rng(6)
    kinds = [kind for name, kind in KINDS.items() if name in ("random", "sparse", "zero", "tiny", "huge", "float32")]
    for i in range(40):
        G = kinds[i % len(kinds)](rng.standard_normal(shape))
        s, eps, unit = C.lmo(G), float(np.finfo(G.dtype).eps), float(np.abs(G).max()) or 1.0
        X = np.asarray(s, dtype=float)
        exact = -2 * np.linalg.norm(np.linalg.svd(G.astype(float) / unit, compute_uv=False), ord=q)
        assert np.vdot(X, G.astype(float) / unit) == pytest.approx(exact, rel=0, abs=64 * eps)
        assert np.linalg.norm(np.linalg.svd(X, compute_uv=False), ord=p) == pytest.approx(2.0, rel=64 * eps)
        assert C.contains(np.asarray(s)) is True
        assert C.contains(1.001 * X) is False
        assert isinstance(s, OneHot) or s.array.dtype == G.dtype
        assert np.linalg.norm(X) <= C.diameter(shape) / 2 * (1 + 64 * eps)


def test_the_oracle_of_a_schatten_ball_is_that_of_a_conic_solver():
    G = np.random.default_rng(7).standard_normal((3, 4))
    X = cp.Variable((3, 4))
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(G, X))), [cp.sigma_max(X) <= 2])
    assert fw.SchattenBall(np.inf, 2.0).lmo(G).dot(G) == pytest.approx(problem.solve(solver=cp.CLARABEL), rel=1e-6)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: fw.Spectraplex(0.0), "radius must be a positive"),
        (lambda: fw.Spectrahedron(np.nan), "radius must be a positive"),
        (lambda: fw.Fantope(1.5), "k must be an integer"),
        (lambda: fw.SchattenBall(1.0), "else NuclearBall"),
        (lambda: fw.Spectraplex().lmo(np.ones((2, 3))), "square matrices"),
        (lambda: fw.Spectraplex().start((2, 3)), "square matrices"),
        (lambda: fw.Spectraplex().start(), "shape is needed"),
        (lambda: fw.Fantope(3).lmo(np.eye(2)), "at least 3 rows"),
        (lambda: fw.Fantope(3).contains(np.eye(2)), "at least 3 rows"),
        (lambda: fw.SchattenBall(2.0).lmo(np.ones(3)), "g has shape .* are matrices"),
    ],
)
def test_what_makes_no_sense_is_named(make, match):
    with pytest.raises(ValueError, match=match):
        make()


def test_no_rank_one_vertices_no_completion():
    f = kernel_completion(6, 0)[0]
    for C in (fw.Fantope(2), fw.SchattenBall(2.0)):
        with pytest.raises(ValueError, match="rank-one"):
            fw.minimize(f, C, max_iter=3)
