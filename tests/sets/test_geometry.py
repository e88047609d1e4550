"""Starts, members and diameters of every set."""

import itertools

import numpy as np
import pytest

import fwflow as fw
import fwflow.sets
from fwflow.points.lowrank import LowRank
from tests.catalogue import SETS
from tests.sets.answers import EPS, HIGHS, SHIFT, VERTICES, eps, every_polytope, every_set, gradient


@every_set
def test_start_is_a_member_of_the_right_shape(name):
    constraint, shape = SETS[name]
    for dtype in (np.float64, np.float32):
        start = constraint.start(shape, dtype)
        assert start.shape == shape
        assert start.dtype == dtype
        assert constraint.contains(start, tol=max(1e-9, 10 * eps(dtype)))
        np.testing.assert_array_equal(np.asarray(start), np.asarray(constraint.start(shape, dtype)))


STARTS = {
    "bounded-simplex": np.array([0.4 / 3, -0.1, 0.1, 0.4, 0.1, 0.2 + 0.5 / 3]),
    "bounded-simplex-numbers": np.full(6, 1 / 3),
    "bounded-l1-arrays": np.array([0.0, 0.0, 0.5, 0.0, -0.25, 0.0]),
    "bounded-l1-box": np.array([0.0, 0.0, 0.0, 0.5, 0.0, 0.0]),
    "spectraplex": np.full(16, 0.5),
    "fantope": np.eye(4).ravel() / 2,
    "transport": np.tile([0.5, 0.5, 1.0], 2),
    "symmetric-matrix": np.full(9, 1 / 3),
}


@every_set
def test_start_is_where_the_documentation_says(name):
    constraint, shape = SETS[name]
    start = np.asarray(constraint.start(shape)).ravel()
    if name in STARTS:
        np.testing.assert_allclose(start, STARTS[name], rtol=0, atol=8 * EPS)
        return
    if name.startswith("polytope"):  # some vertex
        assert np.abs(VERTICES[name] - start).max(axis=1).min() <= HIGHS
        return
    if name.startswith("unit-"):
        half = 0.5 * (VERTICES[name].sum(axis=1).max() / start.size)
        np.testing.assert_allclose(start, half, rtol=4 * EPS)
        return
    # Zero, the barycentre, the centre, the mean of the vertices: for all these sets one and the same.
    mean = VERTICES[name].mean(axis=0) if name in VERTICES else SHIFT if name == "ellipsoid" else np.zeros(start.size)
    np.testing.assert_allclose(start, mean, rtol=0, atol=8 * EPS)


@every_set
def test_start_without_a_shape_works_or_says_what_is_missing(name):
    constraint, _ = SETS[name]
    if getattr(constraint, "shape", None):
        assert constraint.start().shape == constraint.shape
    elif name != "scaled":
        with pytest.raises(ValueError, match="shape is needed"):
            constraint.start()


@every_set
def test_contains_mixtures_of_vertices(name):
    constraint, shape = SETS[name]
    rng = np.random.default_rng(5)
    members = [np.asarray(constraint.lmo(rng.standard_normal(shape))) for _ in range(8)]
    for _ in range(5):
        assert constraint.contains(np.tensordot(rng.dirichlet(np.ones(8)), members, 1)) is True


@every_set
def test_contains_up_to_the_tolerance_and_no_further(name):
    constraint, shape = SETS[name]
    for seed in range(5):
        g = gradient("random", shape, seed)
        s = np.asarray(constraint.lmo(g))
        outward = -g / np.linalg.norm(g)  # every member x has <g, x> >= <g, s>, so this way lies no other
        assert constraint.contains(s + 1e-12 * outward) is True
        assert constraint.contains(s + 1e-4 * outward) is False
        assert constraint.contains(s + 1e-4 * outward, tol=1e-2) is True
        assert constraint.contains(s + outward, tol=1e-2) is False


@pytest.mark.parametrize(
    ("constraint", "outside"),
    [
        (fw.Simplex(), [0.5, 0.5, 0.5]),
        (fw.Simplex(), [0.2, 0.2, 0.2]),
        (fw.Simplex(), [1.5, -0.5, 0.0]),
        (fw.Box(-1.0, 2.0), [0.0, -1.1, 0.0]),
        (fw.Box(-1.0, 2.0), [0.0, 2.1, 0.0]),
        (fw.Birkhoff(2), [[1.0, 0.0], [1.0, 0.0]]),
        (fw.Birkhoff(2), [[1.0, 1.0], [0.0, 0.0]]),
        (fw.Birkhoff(2), [[2.0, -1.0], [-1.0, 2.0]]),
        (fw.Polytope(n=2, lower=0.0, upper=1.0), [0.5, 1.1]),
        (fw.Polytope(n=2, lower=0.0, upper=1.0), [-0.1, 0.5]),
        (fw.Polytope([[1.0, 1.0]], [1.0], lower=0.0), [0.6, 0.6]),
        (fw.Polytope(C=[[1.0, -1.0]], d=[0.0], lower=0.0, upper=1.0), [0.6, 0.4]),
        (fw.Polytope(C=[[1.0, -1.0]], d=[0.0], lower=0.0, upper=1.0), [0.4, 0.6]),
        (fw.NuclearBall(1.0), np.diag([0.6, 0.6])),
        (fw.NuclearBall(1.0), LowRank.from_factors(np.eye(2), 0.6 * np.eye(2))),
        (2.0 * fw.NuclearBall(0.5), LowRank.from_factors(np.eye(2), 0.6 * np.eye(2))),
        (fw.NuclearBall(1.0) + np.eye(2), np.zeros((2, 2))),
    ],
)
def test_contains_checks_each_condition(constraint, outside):
    assert constraint.contains(outside) is False


def test_contains_reads_low_rank_matrices():
    x = LowRank.from_factors(np.eye(3)[:, :2], np.array([[0.4, 0.0], [0.0, 0.6]]))
    assert fw.NuclearBall(1.0).contains(x) is True
    assert (-2.0 * fw.NuclearBall(0.5)).contains(x) is True
    assert fw.L1Ball(1.0).contains(x) is True
    assert fw.L1Ball(0.9).contains(x) is False


@every_set
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_contains_no_point_that_is_not_finite(name, bad):
    constraint, shape = SETS[name]
    x = np.array(constraint.start(shape))
    x.flat[-1] = bad
    assert constraint.contains(x) is False


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1.0, 1e6, 1e12])
@pytest.mark.parametrize(
    "make",
    [
        fw.L1Ball,
        fw.LInfBall,
        fw.L2Ball,
        fw.Simplex,
        lambda r: fw.Box(-r, r),
        lambda r: fw.ConvexHull(r * np.eye(3)),
        lambda r: r * fw.Box(-1.0, 1.0),
    ],
    ids=["l1", "linf", "l2", "simplex", "box", "hull", "scaled"],
)
def test_membership_is_relative_to_the_size_of_the_set(make, size):
    constraint = make(size)
    x = size * np.array([0.0, 0.0, 1.0])
    assert constraint.contains(x) is True
    assert constraint.contains(1.001 * x) is False


@every_polytope
def test_diameter_against_all_pairs_of_vertices(name):
    constraint, shape = SETS[name]
    V = VERTICES[name]
    exact = np.linalg.norm(V[:, None] - V[None], axis=2).max()
    if isinstance(constraint, fw.Polytope):  # documented as that of the bounding box
        assert constraint.diameter(shape) >= exact - HIGHS
        exact = np.linalg.norm(np.ptp(V, axis=0))
    if name == "minkowski":  # documented as the sum of the diameters
        assert constraint.diameter(shape) >= exact
        exact = 2.0 + 2 * 2**0.5
    assert constraint.diameter(shape) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("p", [1.2, 1.5, 2.0, 3.0, 10.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_diameter_of_lp_balls(p, n):
    # The ball is symmetric, so the diameter is twice its longest member: a unit vector or one with equal entries.
    candidates = [d for d in itertools.product([0.0, 1.0], repeat=n) if any(d)]
    candidates += [*np.random.default_rng(0).standard_normal((50, n))]
    longest = max(np.linalg.norm(d) / np.linalg.norm(d, ord=p) for d in map(np.array, candidates))
    assert fw.LpBall(p, 1.5).diameter((n,)) == pytest.approx(2 * 1.5 * longest, rel=1e-12)


def test_diameter_of_the_nuclear_ball():
    constraint, g = fw.NuclearBall(1.5), gradient("random", (4, 3))
    apart = np.linalg.norm(np.asarray(constraint.lmo(g)) - np.asarray(constraint.lmo(-g)))
    assert constraint.diameter((4, 3)) == pytest.approx(apart, rel=1e-12)


def test_diameter_of_a_single_point_is_zero():
    singles = [(fw.Simplex(2.0), (1,)), (fw.Birkhoff(1), (1, 1)), (fw.ConvexHull([[1.0, 2.0]]), None)]
    assert [constraint.diameter(shape) for constraint, shape in singles] == [0.0, 0.0, 0.0]
