"""Minkowski sums: parts that add up, honest membership, and errors that say what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw

many = settings(deadline=None, max_examples=40, derandomize=True)
HULL = np.random.default_rng(7).standard_normal((9, 4))
SHIFT = np.array([1.0, -2.0, 0.5, 3.0])

#: Sums of sets, by name, with the number of sets that they are the sum of.
SUMS = {
    "two": (fw.MinkowskiSum(fw.L1Ball(1.0), fw.Simplex(2.0)), 2),
    "one": (fw.MinkowskiSum(fw.L1Ball(1.0)), 1),
    "boxes": (fw.MinkowskiSum(fw.Box(0.0, 1.0), fw.LInfBall(2.0)), 2),
    "hull": (fw.MinkowskiSum(fw.ConvexHull(HULL), fw.L2Ball(0.5), fw.L1Ball(1.0)), 3),
    "nested": (fw.MinkowskiSum(fw.MinkowskiSum(fw.L1Ball(), fw.Simplex()), fw.Product([(fw.Simplex(), 2)] * 2)), 4),
    "product": (fw.Product([(fw.L1Ball(), 2), (fw.Simplex(), 2)]), 2),
    "product of one": (fw.Product([(fw.Simplex(), 4)]), 1),
    "product of sums": (fw.Product([(fw.MinkowskiSum(fw.L1Ball(), fw.Simplex()), 3), (fw.Box(0.0, 1.0), 1)]), 3),
    "scaled": (-2.0 * fw.Product([(fw.L1Ball(), 2), (fw.Simplex(), 2)]), 2),
    "moved": ((2.0 * fw.Product([(fw.L1Ball(), 2), (fw.Simplex(), 2)])) + SHIFT, 3),
    "moved, one": (fw.L1Ball() + SHIFT, 1),
    "scaled inside": (fw.MinkowskiSum(3.0 * fw.Simplex(), fw.L1Ball() + SHIFT), 2),
}
every_sum = pytest.mark.parametrize("name", [name for name, (_, count) in SUMS.items() if count > 1])


def total(parts):
    return np.sum([np.asarray(part) for part in parts], axis=0)


def test_a_single_set_has_no_summands():
    assert all(C.summands is None for C, count in SUMS.values() if count == 1)


@every_sum
def test_parts_add_up_to_the_oracles_answer(name):
    C, count = SUMS[name]
    assert C.summands.n_summands == count
    for g in np.random.default_rng(0).standard_normal((20, 4)):
        vertex = C.lmo(g)
        for s in C.known_vertices.best_vertices(g, 3, vertex):
            parts = C.summands.split_vertex(s)
            assert len(parts) == count
            np.testing.assert_allclose(total(parts), np.asarray(s), atol=1e-14)


@every_sum
def test_parts_are_exchangeable(name):
    """A part of one vertex in the place of that of another leaves a member."""
    C, _ = SUMS[name]
    rng = np.random.default_rng(1)
    one, other = (C.summands.split_vertex(C.lmo(rng.standard_normal(4))) for _ in range(2))
    for b in range(len(one)):
        mixed = total([*one[:b], other[b], *one[b + 1 :]])
        assert C.contains(mixed) is not False
        for g in rng.standard_normal((50, 4)):
            assert mixed @ g >= C.lmo(g).dot(g) - 1e-12


@every_sum
def test_the_start_is_split(name):
    C, count = SUMS[name]
    x = C.start((4,))
    parts = C.summands.split_point(x)
    assert len(parts) == count
    np.testing.assert_allclose(total(parts), x, atol=1e-14)


def test_what_cannot_be_split_is_not():
    C, x = SUMS["two"][0], np.full(4, 0.25)
    assert C.contains(x) is True
    assert C.summands.split_point(x) is None
    assert (2.0 * C).summands.split_point(2 * x) is None
    assert fw.Product([(C, 4), (fw.Simplex(), 1)]).summands.split_point(np.append(x, 1.0)) is None
    boxes = SUMS["boxes"][0].summands.split_point(np.array([2.5, -1.0, 0.0, 3.0]))
    np.testing.assert_allclose(total(boxes), [2.5, -1.0, 0.0, 3.0], atol=1e-15)
    assert fw.Box(0.0, 1.0).contains(np.asarray(boxes[0]))


def test_vertices_of_other_sets_have_no_parts():
    plain = fw.L1Ball().lmo(np.ones(4))
    for name in ("two", "product", "scaled", "moved"):
        assert SUMS[name][0].summands.split_vertex(plain) is None


@many
@given(seed=st.integers(0, 10**6), out=st.floats(0.0, 2.0))
def test_membership_agrees_with_a_linear_program(seed, out):
    """Of a sum of polytopes, all of whose vertices are known."""
    rng = np.random.default_rng(seed)
    V, W = rng.standard_normal((5, 3)), rng.standard_normal((4, 3))
    C = fw.MinkowskiSum(fw.ConvexHull(V), fw.ConvexHull(W))
    x = out * (rng.dirichlet(np.ones(5)) @ V + rng.dirichlet(np.ones(4)) @ W)
    sums = np.repeat(np.eye(2), [5, 4], axis=1)
    answer = scipy.optimize.linprog(
        np.zeros(9), A_eq=np.vstack([np.vstack([V, W]).T, sums]), b_eq=np.append(x, [1.0, 1.0])
    )
    assert C.contains(x) is (answer.status == 0)


def test_membership_that_cannot_be_told():
    C = fw.MinkowskiSum(fw.L2Ball(1.0), fw.LpBall(3.0, 1.0))
    s = np.asarray(C.lmo(np.array([1.0, 2.0, -0.5])))
    assert C.contains(0.9 * s) is True
    assert C.contains(1.1 * s) is False
    assert C.contains(s) is not False
    assert C.contains(np.full(3, np.nan)) is False
    assert fw.MinkowskiSum(fw.L1Ball(1.0), fw.Simplex()).contains(np.zeros(1000)) is None


def test_what_is_offered_is_the_sum_of_what_they_offer():
    boxes, other = SUMS["boxes"][0], SUMS["two"][0]
    lower, upper = boxes.bounds((4,))
    np.testing.assert_array_equal(lower, [-2.0] * 4)
    np.testing.assert_array_equal(upper, [3.0] * 4)
    assert boxes.diameter((4,)) == 10.0
    np.testing.assert_array_equal(boxes.project(np.array([9.0, -9.0, 0.0, 1.0])), [3.0, -2.0, 0.0, 1.0])
    assert other.project(np.zeros(4)) is None
    assert other.bounds((4,)) is None
    assert other.diameter((4,)) == pytest.approx(2.0 + 2 * 2**0.5)
    assert fw.MinkowskiSum(fw.ConvexHull(HULL), fw.L1Ball()).shape == (4,)
    assert not SUMS["hull"][0].polytope
    assert other.polytope


def test_hints_go_to_their_sets():
    seen = []

    class Watching(fw.L1Ball):
        def lmo(self, g, hint=None):
            seen.append(hint)
            return super().lmo(g, hint)

    C = fw.MinkowskiSum(fw.Simplex(), Watching(1.0))
    vertex = C.lmo(np.array([1.0, 2.0]))
    C.lmo(np.array([1.0, 3.0]), vertex)
    assert seen == [None, vertex.parts[1]]


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="at least one set"):
        fw.MinkowskiSum()
    with pytest.raises(ValueError, match="constraint sets; got 3"):
        fw.MinkowskiSum(fw.L1Ball(), 3)
    with pytest.raises(ValueError, match=r"one shape; got \(4,\) and \(3,\)"):
        fw.MinkowskiSum(fw.ConvexHull(HULL), fw.ConvexHull(np.eye(3)))


def test_fingerprints_tell_sums_apart():
    sums = [fw.MinkowskiSum(fw.L1Ball(r), fw.Simplex()) for r in (1.0, 1.0, 2.0)]
    assert sums[0].fingerprint() == sums[1].fingerprint() != sums[2].fingerprint()
