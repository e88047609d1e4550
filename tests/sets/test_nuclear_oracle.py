"""The oracle of the nuclear ball, its bound, and matrix completion over it."""

import math

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp

import fwflow as fw
import fwflow.sets
from fwflow.points.gradients import Sampled
from fwflow.points.vertices import OneHot, RankOne, Scaled
from fwflow.sets import lanczos
from tests.sets.answers import EPS, GRADIENTS, eps, gradient, value


def with_singular_values(sigma, rows, seed=0):
    rng = np.random.default_rng(seed)
    U, V = (np.linalg.qr(rng.standard_normal((n, len(sigma))))[0] for n in (rows, len(sigma)))
    return (U * sigma) @ V.T, U, V


def as_sampled(G):
    csr = sp.csr_array(G)
    return Sampled(csr.data, csr.indices, csr.indptr, csr.shape).as_oracle_input()


REPRESENTATIONS = {"dense": np.asarray, "csr": sp.csr_array, "csc": sp.csc_array, "sampled": as_sampled}


@pytest.mark.parametrize("kind", REPRESENTATIONS)
@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (5, 5), (30, 20), (20, 30), (60, 50), (3, 200)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nuclear_oracle_matches_a_dense_svd(kind, shape, dtype):
    G = GRADIENTS["sparse"](np.random.default_rng(1).standard_normal(shape)).astype(dtype)
    G.flat[0] = 3.0  # a single entry must not be dropped to zero
    g, constraint = REPRESENTATIONS[kind](G), fw.NuclearBall(2.0)
    s = constraint.lmo(g)
    # Errors of the vectors enter the value squared; a residual of 1e-9 and rounding remain.
    slack = max(1e-9, 4 * max(shape) * eps(dtype))
    exact = -2.0 * scipy.linalg.svdvals(G.astype(float))[0]
    assert s.shape == shape
    assert s.u.dtype == s.v.dtype == dtype
    assert value(s, G) == pytest.approx(exact, rel=slack)
    assert s.dot(g) == pytest.approx(exact, rel=slack)
    assert np.linalg.norm(s.u) == pytest.approx(1, rel=slack)
    assert np.linalg.norm(s.v) == pytest.approx(1, rel=slack)
    bound = constraint.lower_bound(g, s)
    assert exact * (1 + 1e-6) <= bound <= exact * (1 - slack)


@pytest.mark.parametrize("kind", REPRESENTATIONS)
@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (1, 1)])
def test_nuclear_oracle_at_zero(kind, shape):
    g, constraint = REPRESENTATIONS[kind](np.zeros(shape)), fw.NuclearBall(2.0)
    hint = constraint.lmo(np.random.default_rng(0).standard_normal(shape))
    for s in (constraint.lmo(g), constraint.lmo(g, hint)):
        assert constraint.contains(np.asarray(s))
        assert scipy.linalg.svdvals(np.asarray(s))[0] == pytest.approx(2.0)
        assert s.dot(g) == constraint.lower_bound(g, s) == 0
    np.testing.assert_array_equal(np.asarray(constraint.lmo(g)), np.asarray(constraint.lmo(g, hint)))


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_nuclear_oracle_on_rank_deficient_gradients(rank):
    G = with_singular_values(np.r_[np.arange(rank, 0, -1.0), np.zeros(20 - rank)], 30)[0]
    constraint = fw.NuclearBall()
    for g in (G, G.T, sp.csr_array(G)):
        s = constraint.lmo(g)
        assert s.dot(g) == pytest.approx(-rank, rel=1e-9)
        assert -rank * (1 + 1e-6) <= constraint.lower_bound(g, s) <= -rank * (1 - 1e-13)


def test_nuclear_oracle_takes_a_warm_hint():
    G, U, V = with_singular_values(np.r_[3.0, np.linspace(2, 0.1, 59)], 80)
    near = G + 1e-3 * np.random.default_rng(4).standard_normal(G.shape)
    exact, constraint = -scipy.linalg.svdvals(near)[0], fw.NuclearBall(steps=2)
    # The hint is within 0.02 of the new vector, and that enters the value squared.
    assert constraint.lmo(near, constraint.lmo(G)).dot(near) == pytest.approx(exact, rel=4e-4)
    elsewhere = RankOne(U[:, -1], V[:, -1], -1.0)
    assert constraint.lmo(near, elsewhere).dot(near) == pytest.approx(exact, rel=0.1)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_nuclear_oracle_escapes_a_hint_orthogonal_to_the_new_leading_vector(wide, dtype):
    G, U, V = with_singular_values(np.r_[2.0, np.ones(59)], 80)
    G, U, V = (M.astype(dtype) for M in (G, U, V))
    hint = RankOne(U[:, 1], V[:, 1], -1.0)
    if wide:
        G, hint = np.ascontiguousarray(G.T), RankOne(hint.v, hint.u, -1.0)
    # Only two distinct eigenvalues: two steps reach the leading vector from any start that has a trace of it.
    # A trace of 1e-3 multiplies rounding by 1e3 in the vector, and enters the value squared.
    assert fw.NuclearBall().lmo(G, hint).dot(G) == pytest.approx(-2, rel=max(1e-9, 80 * eps(dtype)))


def test_nuclear_oracle_ignores_hints_that_do_not_fit():
    g = gradient("random", (5, 4))
    constraint = fw.NuclearBall()
    cold = np.asarray(constraint.lmo(g))
    for hint in (RankOne(np.ones(4), np.ones(5), 1.0), OneHot(0, 1.0, (5, 4))):
        np.testing.assert_array_equal(np.asarray(constraint.lmo(g, hint)), cold)


@pytest.mark.parametrize("width", [0.0, 1e-12, 1e-8, 1e-4])
@pytest.mark.parametrize("cluster", [2, 30, 60])
def test_nuclear_oracle_on_clustered_singular_values(cluster, width):
    sigma = np.r_[np.linspace(1, 1 - width, cluster), np.linspace(0.5, 0.1, 60 - cluster)]
    G, U, V = with_singular_values(sigma, 80)
    constraint = fw.NuclearBall()
    outsider = RankOne(U[:, -1], V[:, -1], -1.0)
    for s in (constraint.lmo(G), constraint.lmo(G, outsider)):
        # Any vector of the cluster will do; ten steps from outside of it leave a share of the rest.
        assert s.dot(G) <= -(1 - width) * (1 - 1e-5)
        assert -(1 + 80 * EPS) <= constraint.lower_bound(G, s) <= -(1 - 80 * EPS)


class Counted:
    """A matrix that counts the products made with it and with its transpose."""

    ndim = 2

    def __init__(self, matrix, products=None):
        self.matrix, self.shape, self.dtype = matrix, matrix.shape, matrix.dtype
        self.products = [0] if products is None else products

    @property
    def T(self):
        return Counted(self.matrix.T, self.products)

    def __matmul__(self, other):
        self.products[0] += 1
        return self.matrix @ other


SPECTRA = {
    "flat": np.ones(120),
    "crowded": np.linspace(1 + 1e-3, 1, 120),
    "separated": np.r_[10.0, np.linspace(1, 0.1, 119)],
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("spectrum", SPECTRA)
def test_nuclear_oracle_does_a_bounded_number_of_products(spectrum, dtype):
    G = with_singular_values(SPECTRA[spectrum], 150)[0].astype(dtype)
    constraint, counted = fw.NuclearBall(steps=7), Counted(G)
    hint = constraint.lmo(counted)
    # Two products a step and two besides, for the left vector and the scale. A step for every dimension at most;
    # a separated leading value needs few.
    assert counted.products[0] <= 2 * (120 if spectrum == "crowded" else 40) + 2
    for matrix, vertex in ((G, hint), (G.T, RankOne(hint.v, hint.u, -1.0))):
        counted = Counted(matrix)
        constraint.lmo(counted, vertex)
        assert counted.products[0] <= 2 * 7 + 2


@pytest.mark.parametrize("shape", [(200, 3), (3, 200)])
def test_nuclear_oracle_works_on_the_smaller_side(shape):
    counted = Counted(np.random.default_rng(3).standard_normal(shape))
    fw.NuclearBall().lmo(counted)
    assert counted.products[0] <= 2 * 3 + 2  # three steps span three dimensions


def test_nuclear_oracle_goes_on_until_it_has_converged():
    # Forty steps stop 1e-4 short here.
    G = with_singular_values(np.r_[1.001, np.linspace(1, 0, 399)], 450)[0]
    assert fw.NuclearBall().lmo(G).dot(G) == pytest.approx(-1.001, rel=1e-9)


@pytest.fixture(params=["dense", "lanczos"])
def proof(request, monkeypatch):
    if request.param == "lanczos":
        monkeypatch.setattr(lanczos, "_GRAM_LIMIT", 0)
    return request.param


@pytest.mark.parametrize("quality", [1.0, 1 - 1e-9, 1 - 1e-5, 1 - 1e-3, 0.5, 0.0])
@pytest.mark.parametrize("kind", ["dense", "csr", "csc"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 1), (40, 30), (30, 40)])
def test_spectral_bound_holds_however_bad_the_guess(proof, quality, kind, shape):
    G = np.random.default_rng(2).standard_normal(shape)
    exact = scipy.linalg.svdvals(G)[0]
    bound = lanczos.spectral_bound(REPRESENTATIONS[kind](G), quality * exact)
    n = min(shape)
    assert bound >= exact * (1 - 8 * n * EPS)
    assert bound <= exact * (1 + 8 * n * EPS)  # Lanczos steps, too: as many as there are dimensions


def test_spectral_bound_of_zero_is_zero(proof):
    for G in (np.zeros((4, 3)), sp.csr_array((4, 3))):
        assert lanczos.spectral_bound(G, 0.0) == 0


@pytest.mark.parametrize("scale", [1e-150, 1e150])
def test_spectral_bound_of_huge_and_tiny_matrices(proof, scale):
    G = np.diag([1.0, 2.0, 3.0])
    bound = lanczos.spectral_bound(scale * G, scale * 2.9)
    assert 3 * (1 - 8 * EPS) <= bound / scale <= 3.1


def test_spectral_bound_holds_where_lanczos_has_not_converged(monkeypatch):
    monkeypatch.setattr(lanczos, "_GRAM_LIMIT", 0)
    # Eigenvalues crowd towards 4 like those of a long path: 300 steps stop short of the largest one. Before they are
    # taken, they are known to come this close with a chance of 1 - 1e-10 (Kuczynski & Wozniakowski, 1992).
    n = 1000
    sigma = np.sqrt(2 + 2 * np.cos(np.arange(1, n + 1) * np.pi / (n + 1)))
    epsilon = (math.log(1.648 * math.sqrt(n) / 1e-10) / 599) ** 2
    bound = lanczos.spectral_bound(sp.diags_array(sigma).tocsr(), 0.0)
    assert sigma[0] <= bound <= sigma[0] / math.sqrt(1 - epsilon)


@pytest.fixture(params=["lanczos", "cholesky", "dense"])
def limits(request, monkeypatch):
    """Bounds that Lanczos steps prove, that they only guess before a Cholesky decomposition, and without such steps."""
    if request.param == "cholesky":
        monkeypatch.setattr(lanczos, "_MOST", 30)
    if request.param == "dense":
        monkeypatch.setattr(lanczos, "_DENSE", 1000)
    return request.param


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("share", [1e-1, 1e-3, 1e-6])
def test_bounds_are_as_tight_as_the_gap_needs(limits, share, kind):
    sigma = 1 - np.linspace(0, 1, 400) ** 2  # crowded at the top
    G, _, _ = with_singular_values(sigma, 450)
    C = 3.0 * fw.NuclearBall(2.0)
    g = REPRESENTATIONS[kind](G)
    inner = -6.0 * (1 - share)
    bound = C.lower_bound_at(g, inner, C.lmo_at(g, inner))
    assert -6.0 - 0.011 * 6.0 * share - 1e-12 <= bound <= -6.0 + 1e-12


@pytest.mark.parametrize("kind", ["dense", "csr"])
@pytest.mark.parametrize("share", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("name", ["Spectraplex", "Spectrahedron"])
def test_bounds_of_semidefinite_sets_are_as_tight_as_the_gap_needs(limits, name, share, kind):
    W = np.linalg.qr(np.random.default_rng(0).standard_normal((400, 400)))[0]
    G = (W * (np.linspace(0, 1, 400) ** 2 - 0.5)) @ W.T  # crowded at the bottom
    C, inner = getattr(fw, name)(2.0), -1.0 + share
    g = REPRESENTATIONS[kind](G)
    bound = C.lower_bound_at(g, inner, C.lmo_at(g, inner))
    assert -1.0 - 0.011 * share - 1e-12 <= bound <= -1.0 + 1e-12


def test_a_cholesky_decomposition_bounds_eigenvalues():
    A = np.diag([3.0, -5.0, 1.0])
    assert lanczos._at_most(A, 3.0 + 1e-12)
    assert not lanczos._at_most(A, 3.0 - 1e-12)
    assert A[0, 0] == 3.0


def completion():
    rng = np.random.default_rng(9)
    rows, cols = np.divmod(rng.choice(30, 18, replace=False), 5)
    return fw.MatrixCompletion(rows, cols, rng.standard_normal(18), (6, 5), loss="squared")


@pytest.mark.parametrize(
    "constraint", [2.0 * fw.NuclearBall(0.75), -1.5 * fw.NuclearBall(), 3.0 * (0.5 * fw.NuclearBall())]
)
def test_matrix_completion_over_a_scaled_nuclear_ball(constraint):
    scaled = fw.minimize(completion(), constraint, line_search="exact", tol=1e-4)
    plain = fw.minimize(completion(), fw.NuclearBall(1.5), line_search="exact", tol=1e-4)
    assert scaled.success
    assert scaled.fun == pytest.approx(plain.fun, rel=0, abs=2e-4)  # both within their gaps of the minimum


@pytest.mark.parametrize(
    ("wrap", "as_its_own"),
    [(lambda C: C, lambda v: v), (lambda C: -2.0 * (0.5 * C), lambda v: Scaled(-2.0, Scaled(0.5, v)))],
    ids=["plain", "scaled"],
)
@pytest.mark.parametrize("shape", [(60, 40), (40, 60)])
def test_the_smaller_the_gap_the_more_exact_the_nuclear_oracle(wrap, as_its_own, shape):
    rng = np.random.default_rng(0)
    left, right = (
        np.linalg.qr(rng.standard_normal((shape[0], 30)))[0],
        np.linalg.qr(rng.standard_normal((shape[1], 30)))[0],
    )
    G = (left * np.linspace(1.0, 0.9, 30)) @ right.T  # clustered, so that few steps do not tell
    hint = as_its_own(RankOne(left[:, -1], right[:, -1], 1.0))
    C = wrap(fw.NuclearBall(3.0, steps=4))
    few = -C.lmo(G, hint).dot(G)  # what a bounded number of steps finds of the 3 that there are
    found = [-C.lmo_at(G, gap - few, hint).dot(G) for gap in (10.0, 1e-1, 1e-2, 1e-3)]
    assert found[0] == pytest.approx(few)
    assert (np.diff(found) >= -1e-12).all()
    assert 3 - found[-1] < (3 - few) / 2
    # It stops where the steps last taken change the gap by a few per cent.
    assert found[1] < found[-1]


def test_matrix_completion_hands_hints_to_a_scaled_nuclear_ball():
    hints = []

    class Watched(fw.NuclearBall):
        def lmo(self, g, hint=None):
            hints.append(hint)
            return super().lmo(g, hint)

    fw.minimize(completion(), 2.0 * Watched(), method="rk44", max_iter=4, tol=0)
    assert any(isinstance(hint, RankOne) for hint in hints)


@pytest.mark.parametrize(
    "constraint",
    [fw.L1Ball(), fw.L2Ball(), fw.Box(-1.0, 1.0), fw.NuclearBall() + np.zeros((6, 5)), lambda g: np.zeros((6, 5))],
    ids=["l1", "l2", "box", "translated", "callable"],
)
def test_matrix_completion_says_that_it_needs_rank_one_vertices(constraint):
    with pytest.raises(ValueError, match="rank-one"):
        fw.minimize(completion(), constraint, max_iter=3)
