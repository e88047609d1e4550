"""Do the symmetric members of a set solve symmetric problems, and are wrong symmetries refused?"""

import itertools

import numpy as np
import pytest

import fwflow as fw

CYCLE = np.roll(np.arange(5), 1)
MIRROR = np.arange(5)[::-1]


@pytest.mark.parametrize(
    ("C", "generators", "shape"),
    [
        (fw.Simplex(), [CYCLE], (5,)),
        (fw.L1Ball(2.0), [MIRROR], (5,)),
        (fw.Birkhoff(5), [CYCLE, MIRROR], (5, 5)),
        (fw.NuclearBall(1.0), [[3, 2, 1, 0]], (2, 2)),
        (fw.Spectraplex(), [CYCLE], (5, 5)),
    ],
    ids=["simplex", "l1", "birkhoff", "nuclear", "spectraplex"],
)
def test_the_average_is_the_mean_over_the_whole_group(C, generators, shape):
    symmetric = fw.Symmetric(C, generators)
    orders = [tuple(order) for order in np.asarray(generators)]
    group = set(orders)
    while new := {tuple(np.array(a)[list(b)]) for a in group for b in orders} - group:
        group |= new
    X = np.random.default_rng(0).standard_normal(shape)
    if len(shape) == 2 and len(orders[0]) == shape[0]:
        images = [X[np.ix_(order, order)] for order in group]
    else:
        images = [X.reshape(-1)[list(order)].reshape(shape) for order in group]
    np.testing.assert_allclose(symmetric.average(X), np.mean(images, axis=0), atol=1e-14)


def test_a_symmetric_problem_has_the_same_minimum_in_the_smaller_space():
    # Fastest mixing on a cycle of 8 nodes: distances from a matrix that commutes with the rotation.
    n = 8
    i = np.arange(n)
    target = np.cos(2 * np.pi * (i[:, None] - i) / n)
    f = fw.Smooth(lambda X: ((X - target) ** 2).sum(), lambda X: 2 * (X - target))
    whole = fw.minimize(f, fw.Birkhoff(n), tol=1e-9)
    C = fw.Symmetric(fw.Birkhoff(n), [np.roll(i, 1), i[::-1]])
    r = fw.minimize(f, C, tol=1e-9, method="blended-pairwise")
    assert r.success
    assert r.feasible
    assert r.fun == pytest.approx(whole.fun, abs=2e-9)
    np.testing.assert_allclose(r.x, whole.x, atol=1e-4)
    assert len(r.active_set) <= 6  # the symmetric matrices have 5 free entries


def test_vertices_are_the_means_of_their_orbits():
    C = fw.Symmetric(fw.Birkhoff(4), [[1, 2, 3, 0]])
    for seed in range(5):
        s = C.lmo(np.random.default_rng(seed).standard_normal((4, 4)))
        orbit = C.orbit(s)
        np.testing.assert_allclose(np.mean(orbit, axis=0), np.asarray(s), atol=1e-14)
        assert len(orbit) in (1, 2, 4)
        assert all(set(np.unique(vertex)) == {0.0, 1.0} for vertex in orbit)


@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_finds_the_best_mean_of_an_orbit(seed):
    C, g = fw.Symmetric(fw.Birkhoff(4), [[1, 0, 3, 2]]), np.random.default_rng(seed).standard_normal((4, 4))
    every = [np.eye(4)[list(order)] for order in itertools.permutations(range(4))]
    least = min(float((C.average(g) * vertex).sum()) for vertex in every)
    assert C.lmo(g).dot(g) == pytest.approx(least, abs=1e-12)


def test_the_projection_is_that_of_the_symmetric_members():
    C = fw.Symmetric(fw.Simplex(), [MIRROR])
    x = np.array([0.9, 0.1, -0.4, 0.3, 0.2])
    nearest = C.project(x)
    assert C.contains(nearest)
    r = fw.minimize(fw.Quadratic(np.eye(5), x), C, method="blended-pairwise", tol=1e-14)
    np.testing.assert_allclose(nearest, r.x, atol=1e-6)


def test_membership_needs_symmetry():
    C = fw.Symmetric(fw.Simplex(), [MIRROR])
    assert C.contains([0.1, 0.2, 0.4, 0.2, 0.1])
    assert not C.contains([0.2, 0.2, 0.4, 0.1, 0.1])
    assert not C.contains([0.3, 0.2, 0.4, 0.2, 0.3])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fw.Symmetric(fw.Simplex(), [[0, 0, 1]]), "permutations of 0"),
        (lambda: fw.Symmetric(fw.Simplex(), [[0.5, 1]]), "permutations of 0"),
        (lambda: fw.Symmetric(fw.Birkhoff(3), [[1, 0]]), "got shape"),
        (lambda: fw.Symmetric(fw.Box([0.0, 0.0], [1.0, 2.0]), [[1, 0]]), "is not symmetric"),
        (lambda: fw.Symmetric(fw.Birkhoff(2), lambda X: 2 * X), "must be a projection"),
        (
            lambda: fw.Symmetric(fw.Birkhoff(2), lambda X: X * [[1, 0], [0, 0]] + X * [[0, 1], [0, 0]] * 0.5),
            "projection",
        ),
        (lambda: fw.Symmetric(fw.Birkhoff(2), lambda X: np.vstack([X[0], X[0]])), "orthogonal"),
        (lambda: fw.Symmetric(fw.Birkhoff(2), lambda X: X[0]), "returned shape"),
        (lambda: fw.Symmetric(abs, [[1, 0]]), "must be a constraint set"),
        (lambda: fw.Symmetric(fw.L2Ball(), lambda x: x).orbit(fw.OneHot(0, 1.0, (2,))), "orbit needs"),
        (lambda: fw.Symmetric(fw.Simplex(), [[1, 0]]).lmo(np.ones(3)), "got shape"),
    ],
)
def test_wrong_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()
