"""Membership in combinators of combinators: sums of linear images of sums, products, translates and multiples."""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw

N = 4


def nested(rng: np.random.Generator, curved: bool) -> fw.ConstraintSet:
    """A sum of two random sets, each made of others twice over."""
    leaves = [
        lambda: fw.L1Ball(rng.uniform(0.1, 3)),
        lambda: fw.Simplex(rng.uniform(0.1, 3)),
        lambda: fw.LInfBall(rng.uniform(0.1, 2)),
        lambda: fw.ConvexHull(rng.standard_normal((6, N))),
        lambda: fw.Permutahedron(rng.standard_normal(N)),
    ]
    if curved:
        leaves += [lambda: fw.L2Ball(rng.uniform(0.1, 3)), lambda: fw.LpBall(3.0), lambda: fw.KSparseBall(2)]

    def made(depth):
        if depth == 0:
            return leaves[rng.integers(len(leaves))]()
        kind = rng.integers(5)
        if kind == 0:
            return fw.MinkowskiSum(made(depth - 1), made(depth - 1))
        if kind == 1:
            return fw.LinearImage(rng.standard_normal((N, N)), fw.MinkowskiSum(made(depth - 1), made(depth - 1)))
        if kind == 2:
            return float(rng.choice([-2.0, 0.5, 3.0])) * made(depth - 1)
        if kind == 3:
            return made(depth - 1) + rng.standard_normal(N)
        halves = (fw.MinkowskiSum(fw.L1Ball(0.5), fw.Simplex()), N // 2), (fw.L1Ball(), N - N // 2)
        return fw.Product(list(halves))

    return fw.MinkowskiSum(made(2), made(2))


# For vertices of the first four, SciPy's non-negative least squares reach their limit of iterations.
@pytest.mark.parametrize(
    ("seed", "curved"),
    [*((seed, False) for seed in (38, 116, 154, 180, *range(6))), *((seed, True) for seed in range(5))],
)
def test_members_on_the_border_and_inside_are_told_from_points_outside(seed, curved):
    rng = np.random.default_rng(seed)
    C = nested(rng, curved)
    directions = rng.standard_normal((10, N))
    vertices = np.array([np.asarray(C.lmo(g)).reshape(-1) for g in directions])
    width = C.diameter((N,))
    for g, s in zip(directions, vertices, strict=True):
        assert C.contains(s) in ((True, None) if curved else (True,))  # curved borders may not be told
        assert C.contains(s - 1e-4 * width * g / np.linalg.norm(g)) is False
    for weights in rng.dirichlet(np.ones(len(vertices)), 3):
        assert C.contains(weights @ vertices) is True
    assert C.contains((vertices[0] + vertices[1]) / 2) in ((True, None) if curved else (True,))


@pytest.mark.parametrize("factor", [1e-150, 1e-8, 1e8, 1e150])
def test_the_size_of_nested_sets_does_not_matter(factor):
    rng = np.random.default_rng(38)
    C = nested(rng, curved=False)
    large = factor * C
    for g in rng.standard_normal((10, N)):
        s = factor * np.asarray(C.lmo(g)).reshape(-1)
        assert large.contains(s) is True
        assert large.contains(s - 1e-4 * factor * C.diameter((N,)) * g / np.linalg.norm(g)) is False
