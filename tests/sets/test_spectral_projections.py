"""Projections of matrices by their singular values and eigenvalues."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw

EPS = float(np.finfo(np.float64).eps)
SETS = {
    "nuclear": lambda r: fw.NuclearBall(r),
    "spectraplex": lambda r: fw.Spectraplex(r),
    "spectrahedron": lambda r: fw.Spectrahedron(r),
    "schatten-1.5": lambda r: fw.SchattenBall(1.5, r),
    "schatten-2": lambda r: fw.SchattenBall(2.0, r),
    "schatten-3": lambda r: fw.SchattenBall(3.0, r),
    "schatten-inf": lambda r: fw.SchattenBall(np.inf, r),
    "fantope-1": lambda r: fw.Fantope(1),
    "fantope-2": lambda r: fw.Fantope(2),
}


@pytest.mark.parametrize("name", SETS)
@given(
    seed=st.integers(0, 10**6), n=st.integers(2, 6), size=st.sampled_from([0.1, 3.0, 1e4]), dtype=st.sampled_from("fd")
)
@settings(deadline=None, max_examples=30, derandomize=True)
def test_no_vertex_is_at_an_acute_angle_from_a_projection(name, seed, n, size, dtype):
    rng, C = np.random.default_rng(seed), SETS[name](1.5)
    x = (size * rng.standard_normal((n, n))).astype(dtype)
    if rng.random() < 0.5:
        x = x.round(1)  # Ties, also of singular values.
    y = C.project(x)
    assert y.dtype == x.dtype
    assert C.contains(y)
    wide = y.astype(np.float64)
    away = x.astype(np.float64) - wide
    extent = np.abs(x).max() + C.diameter((n, n)) + 1
    eps = float(np.finfo(dtype).eps)
    assert -C.lmo(-away).dot(-away) - np.vdot(away, wide) <= 100 * n * eps * extent**2
    np.testing.assert_array_equal(C.project(y), y)


@pytest.mark.parametrize("name", SETS)
def test_diagonal_matrices_project_as_their_diagonals(name):
    d = np.array([3.0, 0.2, -1.0, 0.5])
    vectors = {
        "nuclear": fw.L1Ball(1.5),
        "spectraplex": fw.Simplex(1.5),
        "spectrahedron": fw.UnitSimplex(1.5),
        "schatten-1.5": fw.LpBall(1.5, 1.5),
        "schatten-2": fw.L2Ball(1.5),
        "schatten-3": fw.LpBall(3.0, 1.5),
        "schatten-inf": fw.LInfBall(1.5),
        "fantope-1": fw.HyperSimplex(1),
        "fantope-2": fw.HyperSimplex(2),
    }
    y = SETS[name](1.5).project(np.diag(d))
    np.testing.assert_allclose(y, np.diag(vectors[name].project(d)), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", SETS)
def test_huge_tiny_and_zero_matrices(name):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 3))
    limit = SETS[name](1.0).project(1e250 * x)
    assert SETS[name](1.0).contains(limit)
    for radius, size in ((1e-300, 1e300), (1e300, 1e-300), (1e-250, 1.0), (1.0, 1e300)):
        C = SETS[name](radius)
        y = C.project(size * x)
        assert np.isfinite(y).all()
        assert C.contains(y)
        if radius < 1e-200 < size and not name.startswith("fantope"):
            np.testing.assert_allclose(y / radius, limit, atol=1e-12)
    C = SETS[name](2.0)
    zero = C.project(np.zeros((3, 3)))
    assert C.contains(zero)
    if C.contains(np.zeros((3, 3))):
        np.testing.assert_array_equal(zero, 0)


@pytest.mark.parametrize("name", [name for name in SETS if name != "fantope-2"])
def test_matrices_of_one_entry(name):
    expected = 1.0 if name == "fantope-1" else 2.0
    np.testing.assert_allclose(SETS[name](2.0).project(np.full((1, 1), 9.0)), expected, rtol=4 * EPS)


@pytest.mark.parametrize("shape", [(2, 5), (5, 2), (1, 4)])
@pytest.mark.parametrize("C", [fw.NuclearBall(1.0), fw.SchattenBall(3.0), fw.SchattenBall(np.inf)], ids=repr)
def test_matrices_that_are_not_square(C, shape):
    x = np.random.default_rng(3).standard_normal(shape)
    y = C.project(3 * x)
    assert y.shape == shape
    np.testing.assert_allclose(C.project(3 * x.T), y.T, atol=1e-14)
    np.testing.assert_array_equal(C.project(1e-3 * x), 1e-3 * x)


@pytest.mark.parametrize("C", [fw.Spectraplex(), fw.Spectrahedron(), fw.Fantope(2)], ids=repr)
def test_the_symmetric_part_is_projected(C):
    x = np.random.default_rng(4).standard_normal((5, 5))
    y = C.project(x)
    np.testing.assert_array_equal(y, y.T)
    np.testing.assert_allclose(y, C.project((x + x.T) / 2), atol=1e-14)
    with pytest.raises(ValueError, match="square matrices"):
        C.project(np.zeros((2, 3)))


def test_large_matrices_have_no_cheap_projection():
    """Lanczos steps of the oracle take less than a decomposition; the oracle of a Schatten ball is one itself."""
    narrow, large = np.zeros((1001, 2)), np.zeros((1001, 1001))
    for C in (fw.NuclearBall(), fw.Spectraplex(), fw.Spectrahedron(), fw.Fantope(2)):
        assert C.project(large) is None
    assert fw.NuclearBall().project(narrow) is not None


@pytest.mark.parametrize("name", SETS)
def test_dense_problems_are_solved_by_projected_steps(name):
    rng, C = np.random.default_rng(5), SETS[name](1.5)
    target, weights = rng.standard_normal((4, 4)), rng.uniform(0.5, 1, (4, 4))
    f = fw.Smooth(
        lambda X: 0.5 * float((weights * (X - target) ** 2).sum()), lambda X: weights * (X - target), shape=(4, 4)
    )
    r, other = (fw.minimize(f, C, method=m, tol=1e-4) for m in ("auto", "corrective"))
    assert r.success
    assert r.method == "apg"
    assert abs(r.fun - other.fun) <= max(r.gap, other.gap)
