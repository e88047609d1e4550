"""Sets that are made of other sets: their vertices and their hints."""

import numpy as np
import pytest

import fwflow as fw
import fwflow.sets
from fwflow.points.vertices import OneHot
from tests.sets.answers import EPS, permutations, product_corners, signed_units

NESTED = {
    "scaled translated": (
        -0.5 * (fw.L1Ball(2.0) + np.array([1.0, -2.0, 3.0])),
        -0.5 * (signed_units(2.0, 3) + np.array([1, -2, 3])),
    ),
    "translated scaled": (-3.0 * fw.Simplex(2.0) + np.array([1.0, 0.0, -1.0]), -6 * np.eye(3) + np.array([1, 0, -1])),
    "scaled twice": (-2.0 * (-1.5 * fw.Simplex()) * 0.5, 1.5 * np.eye(3)),
    "product": (
        fw.Product([(fw.Birkhoff(2), 4), (-2.0 * fw.Simplex(), 3), (fw.L1Ball() + np.array([1.0, 2.0]), 2)]),
        product_corners(permutations(2), -2 * np.eye(3), signed_units(1.0, 2) + np.array([1, 2])),
    ),
    "product of products": (
        2.0 * fw.Product([(fw.Product([(fw.Simplex(), 2), (fw.Box(0.0, 1.0), 1)]), 3), (fw.L1Ball(), 2)])
        + np.arange(5.0),
        2 * product_corners(np.eye(2), np.array([[0.0], [1.0]]), signed_units(1.0, 2)) + np.arange(5),
    ),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_combinators_are_the_hull_of_their_vertices(name):
    constraint, V = NESTED[name]
    hull, shape = fw.ConvexHull(V), V.shape[1:]
    rng = np.random.default_rng(6)
    for g in rng.standard_normal((10, *shape)):
        s = constraint.lmo(g)
        slack = 8 * EPS * np.abs(g).max() * np.abs(V).sum(axis=1).max()
        np.testing.assert_allclose(np.asarray(s), np.asarray(hull.lmo(g)), rtol=0, atol=8 * EPS * np.abs(V).max())
        assert constraint.lower_bound(g, s) == pytest.approx((V @ g).min(), rel=0, abs=slack)
        assert constraint.contains(rng.dirichlet(np.ones(len(V))) @ V)
        assert not constraint.contains(np.asarray(s) - 1e-3 * g)
    assert constraint.diameter(shape) == pytest.approx(hull.diameter(), rel=1e-12)
    np.testing.assert_allclose(constraint.start(shape), V.mean(axis=0), rtol=0, atol=8 * EPS * np.abs(V).max())


class Remembering(fw.L1Ball):
    """An L1 ball that keeps the last hint."""

    hint = "none yet"

    def lmo(self, g, hint=None):
        self.hint = hint
        return super().lmo(g)


@pytest.mark.parametrize(
    "combine",
    [
        lambda C: -2.0 * C,
        lambda C: C + np.ones(3),
        lambda C: fw.Product([(fw.L1Ball(), 1), (C, 2)]),
        lambda C: 3.0 * (2.0 * C + np.ones(3)),
    ],
    ids=["scaled", "translated", "product", "nested"],
)
def test_combinators_hand_the_hint_on(combine):
    inner = Remembering(1.5)
    constraint = combine(inner)
    first = constraint.lmo(np.array([1.0, -2.0, 3.0]))
    assert inner.hint is None
    constraint.lmo(np.array([1.0, -2.0, 2.5]), first)
    assert isinstance(inner.hint, OneHot)
    assert abs(inner.hint.value) == 1.5
