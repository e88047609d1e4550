"""Sets that are made of other sets: their vertices and their hints."""

import numpy as np
import pytest

import fwflow as fw
import fwflow.sets
from fwflow.points.vertices import OneHot
from fwflow.sets.base import SpectralRange
from fwflow.sets.products import joint_mixture
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


COMBINATORS = {
    "scaled": lambda C: -2.0 * C,
    "translated": lambda C: C + np.arange(4.0),
    "product": lambda C: fw.Product([(C, 4)]),
    "sum": lambda C: fw.MinkowskiSum(C),
    "image": lambda C: fw.LinearImage(np.eye(4), C),
}
#: Capabilities that a combinator cannot forward.
LOST = {"spectrum": {"translated", "product", "sum", "image"}, "faces": {"sum", "image"}, "summands": {"image"}}


@pytest.mark.parametrize("capability", ["faces", "known_vertices", "summands", "spectrum"])
@pytest.mark.parametrize("name", COMBINATORS)
def test_combinators_forward_every_capability(name, capability):
    class Able(fw.L1Ball):
        """A set with every capability."""

        summands = fw.Product([(fw.Simplex(), 2), (fw.Simplex(), 2)])
        spectrum = SpectralRange(1.0)

    assert (getattr(COMBINATORS[name](Able()), capability) is None) == (name in LOST.get(capability, ()))
    assert getattr(COMBINATORS[name](fw.L2Ball()), capability) is None or capability == "known_vertices"


@pytest.mark.parametrize("name", ["scaled", "translated", "product"])
def test_faces_of_combinators_are_those_of_the_set_inside(name):
    inner, rng = fw.Simplex(3.0), np.random.default_rng(8)
    faces = COMBINATORS[name](inner).faces
    factor, shift = (-2.0 if name == "scaled" else 1.0), (np.arange(4.0) if name == "translated" else 0.0)
    for g in rng.standard_normal((10, 4)):
        x, d = 3 * rng.dirichlet(np.ones(4)), rng.standard_normal(4)
        d -= d.mean()
        worst = np.asarray(inner.away_vertex(factor * g, x))
        np.testing.assert_allclose(np.asarray(faces.away_vertex(g, factor * x + shift)), factor * worst + shift)
        assert faces.max_step(factor * x + shift, factor * d) == pytest.approx(inner.max_step(x, d), rel=1e-12)


def test_joint_mixtures_have_the_weights_of_every_mixture():
    rng = np.random.default_rng(9)
    mixtures = [
        [(w, (b, i)) for i, w in enumerate(rng.dirichlet(np.ones(n)).tolist())] for b, n in enumerate((1, 3, 5))
    ]
    joint = list(joint_mixture(mixtures))
    assert len(joint) <= 9
    for b, mixture in enumerate(mixtures):
        for weight, member in mixture:
            assert sum(w for w, members in joint if members[b] == member) == pytest.approx(weight, abs=1e-13)


SINGLE_ENTRIES = [fw.L1Ball(2.0), fw.Simplex(3.0), -2.0 * fw.Simplex(), 0.5 * fw.L1Ball(), fw.L1Ball() + np.arange(5.0)]


@pytest.mark.parametrize("C", SINGLE_ENTRIES, ids=repr)
def test_the_first_crossing_is_the_earliest_of_all_vertices(C):
    rng, corners = np.random.default_rng(0), [np.asarray(C.lmo(g)) for g in (*np.eye(5), *-np.eye(5))]
    for _ in range(20):
        start, end = rng.standard_normal((2, 5))
        best = C.lmo(start)
        levels = best.dot(start), best.dot(end)
        found = C.known_vertices.crossing(start, end, levels, [best], 0.0)
        above, below = [s @ start - levels[0] for s in corners], [levels[1] - s @ end for s in corners]
        events = [a / (a + b) if b > 1e-12 else np.inf for a, b in zip(above, below, strict=True)]
        assert found.theta == pytest.approx(min(events))
        if found.vertex is None:
            assert min(events) == np.inf
        else:
            np.testing.assert_allclose(np.asarray(found.vertex), corners[int(np.argmin(events))])
