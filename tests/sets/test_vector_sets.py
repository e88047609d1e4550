"""What vector sets offer besides their oracle: ranked vertices, faces, longest steps, projections, mixtures."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import SETS
from tests.sets.test_sets import VERTICES

#: Sets that say what the face of a point is.
FACES = [
    *("l1", "l1-matrix", "linf", "simplex-radius", "unit-simplex", "hypersimplex", "unit-hypersimplex", "box"),
    *("box-arrays", "interval", "birkhoff", "birkhoff-flat", "scaled", "translated"),
]
NESTED = {
    "product": (fw.Product([(fw.HyperSimplex(2), 4), (fw.Box(-1.0, 2.0), 2)]), (6,)),
    "scaled": (-3.0 * fw.UnitHyperSimplex(2), (4,)),
    "translated": (fw.HyperSimplex(2) + np.array([1e6, -3.0, 0.1, 7.0]), (4,)),
    "both": (0.5 * (fw.L1Ball(2.0) + np.array([1e3, 0.1, -5.0])), (3,)),
}


def vertices_of(C, n, seed=0):
    """All vertices that an oracle has, as far as many random questions show."""
    found = [np.asarray(C.lmo(g)) for g in np.random.default_rng(seed).standard_normal((400, n))]
    return np.unique(np.round(found, 9), axis=0)


EVERY_FACE = pytest.mark.parametrize(
    ("C", "shape", "V"),
    [
        *(pytest.param(*SETS[name], VERTICES[name], id=name) for name in FACES),
        *(pytest.param(C, s, vertices_of(C, *s), id=f"nested-{name}") for name, (C, s) in NESTED.items()),
    ],
)


def members(V, rng, shape):
    """Mixtures of one, two, ... vertices, each with a fair share."""
    for count in range(1, 6):
        weights = 0.2 + rng.random(count)
        rows = V[rng.choice(len(V), min(count, len(V)), replace=False)]
        yield (weights[: len(rows)] / weights[: len(rows)].sum() @ rows).reshape(shape)


@EVERY_FACE
def test_the_away_vertex_is_the_worst_of_the_face(C, shape, V):
    rng = np.random.default_rng(1)
    for x in itertools.chain(members(V, rng, shape), members(V, rng, shape)):
        # A vertex is in the smallest face of x if x can move away from it.
        face = [v for v in V if C.contains(x + 1e-3 * (x - v.reshape(shape)), tol=1e-7)]
        for g in (rng.standard_normal(shape), rng.standard_normal(shape).round(), np.zeros(shape)):
            a = C.away_vertex(g, x)
            assert a.shape == shape
            assert min(np.abs(np.asarray(a).ravel() - v).max() for v in face) <= 1e-8
            assert a.dot(g) == pytest.approx(max(v @ g.ravel() for v in face), rel=1e-12, abs=1e-8)


@EVERY_FACE
def test_the_longest_step_ends_on_the_border(C, shape, V):
    rng = np.random.default_rng(2)
    for x in members(V, rng, shape):
        g = rng.standard_normal(shape)
        toward = np.asarray(C.lmo(g)) - x
        pairwise = np.asarray(C.lmo(g)) - np.asarray(C.away_vertex(g, x))
        for d in (
            toward,
            -toward,
            pairwise,
            x - np.asarray(C.away_vertex(g, x)),
            V[0].reshape(shape) - V[-1].reshape(shape),
        ):
            t = C.max_step(x, d)
            if np.abs(d).max() <= 1e-9:
                continue
            assert 0 <= t < math.inf
            assert C.contains(x + t * d)
            assert not C.contains(x + (t + 1e-5 / np.abs(d).max()) * d)
        assert C.max_step(x, toward) >= 1 - 1e-9 or np.abs(toward).max() <= 1e-9
        assert C.max_step(x, np.zeros(shape)) == math.inf


def test_faces_are_not_known_where_nobody_says():
    for C in (
        fw.L2Ball(),
        fw.MinkowskiSum(fw.L1Ball(), fw.L1Ball()),
        fw.Product([(fw.Box(0.0, 1.0), 1), (fw.L2Ball(), 2)]),
    ):
        assert C.away_vertex(np.ones(3), np.zeros(3)) is None
        assert C.max_step(np.zeros(3), np.ones(3)) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_that_end_at_a_bound_leave_the_face_smaller(dtype):
    """Pairwise steps as long as they can be: every one fixes an entry for good, so that few lead to a vertex."""
    rng, n = np.random.default_rng(0), 40
    for C in (
        fw.HyperSimplex(15, 0.3),
        fw.Simplex(0.7),
        fw.HyperSimplex(15) + (100 * rng.standard_normal(n)).astype(dtype),
    ):
        g, x = rng.standard_normal(n).astype(dtype), C.start((n,), dtype)
        for _ in range(2 * n):
            s, a = (np.asarray(v, dtype=dtype) for v in (C.lmo(g), C.away_vertex(g, x)))
            if (s == a).all():
                break
            x = x + dtype(C.max_step(x, s - a)) * (s - a)
        np.testing.assert_allclose(x, np.asarray(C.lmo(g)), atol=300 * n * np.finfo(dtype).eps)


RANKED = ["l1", "simplex", "unit-simplex", "hypersimplex", "unit-hypersimplex"]


@pytest.mark.parametrize("name", RANKED)
@pytest.mark.parametrize("kind", ["random", "tied", "zero", "float32", "huge"])
def test_ranked_vertices_are_the_best_there_are(name, kind):
    C, shape = SETS[name]
    V = VERTICES[name]
    rng = np.random.default_rng(3)
    make = {
        "random": lambda g: g,
        "tied": np.round,
        "zero": np.zeros_like,
        "float32": np.float32,
        "huge": lambda g: 1e300 * g,
    }
    for _ in range(10):
        g = np.asarray(make[kind](rng.standard_normal(shape)))
        exact = np.sort(V @ g)
        for count in (1, 2, 7, 50):
            ranked = C.best_vertices(g, count, C.lmo(g))
            most = 6 if name == "l1" else len(V)  # of the two signs of an entry, the L1 ball gives the better one
            assert len(ranked) == len({v.key for v in ranked}) == min(count, most)
            assert all(np.abs(V - np.asarray(v)).max(axis=1).min() < 1e-6 for v in ranked)
            if name != "l1":
                values = [v.dot(g) for v in ranked]
                np.testing.assert_allclose(values, exact[: len(values)], rtol=1e-6, atol=1e-6 * np.abs(g).max())


@pytest.mark.parametrize("C", [fw.UnitSimplex(1.5), fw.HyperSimplex(2, 1.5), fw.UnitHyperSimplex(3, 0.5)], ids=repr)
@given(seed=st.integers(0, 10**6))
@settings(deadline=None, max_examples=20, derandomize=True)
def test_members_are_mixtures_of_few_vertices(C, seed):
    rng = np.random.default_rng(seed)
    x = sum(
        w * np.asarray(C.lmo(g)) for w, g in zip(rng.dirichlet(np.ones(4)), rng.standard_normal((4, 7)), strict=True)
    )
    if not C.all_of_them:
        x = x * rng.random()
    parts = C.decomposed(x)
    weights = [w for w, _ in parts]
    assert min(weights) > 0
    assert len(parts) <= 8
    assert sum(weights) <= 1 + 1e-12
    if C.all_of_them:
        assert sum(weights) == pytest.approx(1.0, abs=1e-12)
    np.testing.assert_allclose(sum(w * np.asarray(v) for w, v in parts), x, atol=1e-12)
    assert all(set(np.unique(np.asarray(v))) <= {0.0, C.radius} and C.contains(np.asarray(v)) for _, v in parts)


def test_too_few_entries_are_named():
    with pytest.raises(ValueError, match="k must be at most the number of entries"):
        fw.HyperSimplex(4).lmo(np.ones(3))
