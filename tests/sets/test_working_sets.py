"""Working sets and tangent spaces fit their sets, alone and inside multiples, translates and products."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from tests.catalogue import SETS

SHIFT = np.linspace(-1, 1, 7)
GROUPS = [0, 0, 1, 1, 2, 0, 2]
PRODUCT = fw.Product([(fw.L1Ball(1.0), 3), (fw.LInfBall(0.5), 2), (fw.Simplex(2.0), 2)])
NESTED = fw.Product([(-3.0 * fw.Simplex() + SHIFT, 7), (PRODUCT, 7), (0.1 * fw.GroupBall(GROUPS), 7)])

#: name -> (set, shape of its members), with sets inside of others
ALL = {
    **{name: (C, shape) for name, (C, shape) in SETS.items() if C.working_sets is not None},
    "one-entry": (fw.L1Ball(2.0), (1,)),
    "tiny": (fw.L1Ball(1e-200), (6,)),
    "huge": (fw.Simplex(1e200), (6,)),
    "negative-group": (-0.3 * fw.GroupBall(GROUPS, 2.0), (7,)),
    "translated-simplex": (fw.Simplex() + SHIFT, (7,)),
    "scaled-translate": (-0.3 * (fw.UnitSimplex(2.0) + SHIFT), (7,)),
    "translated-multiple": (-0.3 * fw.Simplex(2.0) + SHIFT, (7,)),
    "twice-translated": ((fw.GroupBall(GROUPS) + SHIFT) + 3 * SHIFT, (7,)),
    "some-blocks": (PRODUCT, (7,)),
    "nested": (NESTED, (21,)),
    "scaled-nested": (-0.7 * NESTED + np.arange(21.0), (21,)),
    "translated-matrix": (fw.L1Ball(1.0) + np.arange(6.0).reshape(3, 2), (3, 2)),
}
#: Sets around the entries at rest, onto which projections leave these entries as they are.
BALLS = (
    "l1",
    "l1-matrix",
    "bounded-l1",
    "bounded-l1-arrays",
    "bounded-l1-box",
    "group",
    "group-inf",
    "translated",
    "one-entry",
    "tiny",
    "negative-group",
    "twice-translated",
)
TANGENTS = {
    **{
        name: (C, shape)
        for name, (C, shape) in SETS.items()
        if C.faces is not None and len(shape) == 1 and "birkhoff" not in name
    },
    **{name: ALL[name] for name in ("one-entry", "tiny", "huge", "translated-simplex", "scaled-translate")},
    "negative-box": (-2.0 * fw.Box(np.arange(6.0) - 4, np.arange(6.0)), (6,)),
    "translated-box": (fw.LInfBall(0.1) + np.linspace(-1, 1, 6) / 3, (6,)),
    "flat-box": (fw.Box(0.0, [0.0, 1.0, 0.0, 2.0, 0.0, 1.0]), (6,)),
    "translated-unit": (fw.UnitHyperSimplex(2, 0.3) + np.linspace(-1, 1, 6) / 7, (6,)),
    "some-blocks": (PRODUCT, (7,)),
    "nested-polytopes": (-0.7 * fw.Product([(PRODUCT, 7), (fw.HyperSimplex(2) + SHIFT, 7)]), (14,)),
}
seeds = st.integers(0, 10**6)
few = settings(deadline=None, max_examples=12, derandomize=True)


def gradient(shape, seed, dtype=np.float64):
    """A random gradient, some of them with ties and zeros."""
    rng = np.random.default_rng(seed)
    g = rng.standard_normal(shape)
    return (g if seed % 3 else np.round(g)).astype(dtype)


def member(C, shape, seed, dtype=np.float64):
    """A vertex, a mixture of few vertices, the start, or a mixture of it and of vertices."""
    rng = np.random.default_rng(seed)
    x = np.array(C.start(shape), dtype=np.float64)
    start = rng.choice([0.0, 0.0, 0.3, 1.0])
    vertices = [np.asarray(C.lmo(gradient(shape, seed + i))) for i in range(rng.integers(1, 4))]
    weights = rng.dirichlet(np.ones(len(vertices)))
    mixed = start * x + (1 - start) * sum(w * v for w, v in zip(weights, vertices, strict=True))
    return (vertices[0] if len(vertices) == 1 and start == 0 else mixed).astype(dtype)


def assert_places(places, n):
    assert np.issubdtype(places.dtype, np.integer)
    assert (np.diff(places) > 0).all()
    assert not len(places) or (places[0] >= 0 and places[-1] < n)


def rest_of(C, n):
    return np.broadcast_to(np.asarray(C.working_sets.rest, dtype=float), (n,))


def test_which_sets_have_working_sets():
    assert [name for name, (C, _) in SETS.items() if C.working_sets is not None] == [
        "l1",
        "l1-matrix",
        "simplex",
        "simplex-radius",
        "unit-simplex",
        "bounded-l1",
        "bounded-l1-arrays",
        "bounded-l1-box",
        "group",
        "group-3",
        "group-inf",
        "scaled",
        "translated",
        "product",
    ]


@pytest.mark.parametrize("name", ALL)
@few
@given(seed=seeds, count=st.integers(1, 8))
def test_places_of_members_and_of_vertices(name, seed, count):
    C, shape = ALL[name]
    sets, n = C.working_sets, int(np.prod(shape))
    rest, g = rest_of(C, n), gradient(shape, seed)
    best = sets.best_places(g.reshape(-1), count)
    assert_places(best, n)
    assert len(best)
    vertex = np.asarray(C.lmo(g)).reshape(-1)
    assert set(np.flatnonzero(vertex != rest)) <= set(best)
    x = member(C, shape, seed).reshape(-1)
    used = sets.support(x)
    assert_places(used, n)
    scale = 1e-14 * (np.abs(x) + np.abs(rest))
    assert set(np.flatnonzero(np.abs(x - rest) > scale)) <= set(used)


@pytest.mark.parametrize("name", ALL)
def test_entries_at_rest_have_no_place(name):
    """Blocks without working sets, and groups, are tied together; other entries at rest are not in the support."""
    C, shape = ALL[name]
    n = int(np.prod(shape))
    tied = {"some-blocks": 2, "nested": 2, "scaled-nested": 2, "product": 1}.get(name, 0)
    assert len(C.working_sets.support(np.array(rest_of(C, n)))) == tied
    assert len(C.working_sets.support(rest_of(C, n).astype(np.float32))) <= n


@pytest.mark.parametrize("name", ALL)
@few
@given(seed=seeds, count=st.integers(1, 8))
def test_restricted_sets_hold_the_members_with_the_other_entries_at_rest(name, seed, count):
    C, shape = ALL[name]
    sets, n = C.working_sets, int(np.prod(shape))
    g, x = gradient(shape, seed).reshape(-1), member(C, shape, seed).reshape(-1)
    places = np.union1d(sets.support(x), sets.best_places(g, count))
    local = sets.restricted(places)
    # A member whose support is inside is a member of the restricted set.
    assert local.contains(x[places])
    # Every member of the restricted set is one of the set, with the others at rest.
    start = np.asarray(local.start((len(places),)))
    for v in (member(local, (len(places),), seed), start):
        full = np.array(rest_of(C, n))
        full[places] = v
        assert C.contains(full.reshape(shape))
    # Both oracles have the same minimum.
    least = C.lmo(g.reshape(shape)).dot(g.reshape(shape))
    outside = np.setdiff1d(np.arange(n), places)
    found = local.lmo(g[places]).dot(g[places]) + rest_of(C, n)[outside] @ g[outside]
    assert found == pytest.approx(least, rel=1e-12, abs=1e-300 + 1e-12 * float(np.abs(g) @ np.abs(rest_of(C, n))))
    # Projections of points whose other entries are at rest are those of the restricted set.
    if name in BALLS:
        away = np.array(rest_of(C, n))
        away[places] += C.diameter(shape) * g[places]
        size = C.diameter(shape) + np.abs(rest_of(C, n)).max()
        whole = C.project(away.reshape(shape)).reshape(-1)
        np.testing.assert_allclose(local.project(away[places]), whole[places], atol=1e-12 * size)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("count", [6, 100])
def test_more_places_than_entries(name, count):
    C, shape = ALL[name]
    n = int(np.prod(shape))
    places = C.working_sets.best_places(gradient((n,), 1), count * n)
    np.testing.assert_array_equal(places, np.arange(n))


@pytest.mark.parametrize("name", ALL)
def test_single_precision_stays(name):
    C, shape = ALL[name]
    n = int(np.prod(shape))
    if name in ("tiny", "huge"):
        return
    g = gradient((n,), 1, np.float32)
    places = C.working_sets.best_places(g, 3)
    local = C.working_sets.restricted(places)
    projected = local.project(3 * g[places])
    assert projected is None or projected.dtype == np.float32


def test_zero_gradients_have_places_too():
    for C, shape in ALL.values():
        n = int(np.prod(shape))
        places = C.working_sets.best_places(np.zeros(n), 1)
        vertex = np.asarray(C.lmo(np.zeros(shape))).reshape(-1)
        assert set(np.flatnonzero(vertex != rest_of(C, n))) <= set(places)


def test_products_choose_places_in_every_block():
    C = fw.Product([(fw.L1Ball(), 50), (fw.GroupBall(np.repeat(np.arange(5), 10)), 50), (fw.L2Ball(), 3)])
    places = C.working_sets.best_places(gradient((103,), 1), 10)
    assert np.isin([100, 101, 102], places).all()
    assert (places < 50).sum() == 5
    assert ((places >= 50) & (places < 100)).sum() in (10, 20)


def test_blocks_without_working_sets_do_not_suffice():
    assert fw.Product([(fw.L2Ball(), 3), (fw.Box(0.0, 1.0), 2)]).working_sets is None
    assert (2.0 * fw.L2Ball()).working_sets is None
    assert (fw.Box(0.0, 1.0) + np.ones(2)).working_sets is None


# Tangent spaces


def embedded(tangent, d, n):
    direction = np.zeros(n, d.dtype)
    direction[tangent.free] = d
    return direction


@pytest.mark.parametrize("name", TANGENTS)
@few
@given(seed=seeds, project=st.booleans())
def test_small_steps_in_the_tangent_space_stay_in_the_set(name, seed, project):
    C, (n,) = TANGENTS[name]
    rng = np.random.default_rng(seed)
    x = member(C, (n,), seed)
    if project:
        x = C.project(x + rng.choice([0.01, 1.0, 100.0]) * C.diameter((n,)) * rng.standard_normal(n))
    tangent = C.faces.tangent(x)
    assert tangent is not None
    assert_places(tangent.free, n)
    assert len(tangent.free) == len(tangent.normal) == len(tangent.blocks)
    assert not len(tangent.free) or tangent.blocks.max() < tangent.n_blocks
    d = tangent.projected(rng.standard_normal(len(tangent.free)))
    np.testing.assert_allclose(tangent.projected(d), d, atol=1e-12)
    np.testing.assert_allclose(tangent.normals.T @ d, 0, atol=1e-12)
    direction = embedded(tangent, C.diameter((n,)) * d, n)
    if direction.any():
        assert C.contains(x + 1e-11 * direction, 1e-12)
        assert C.contains(x - 1e-11 * direction, 1e-12)
    # An end of the face is reached in either direction, and it is a member.
    if direction.any():
        t = C.faces.max_step(x, direction)
        assert t > 0
        assert C.contains(x + t * direction)


def test_which_sets_know_their_tangent_spaces():
    known = [
        name
        for name, (C, shape) in SETS.items()
        if C.faces is not None and len(shape) == 1 and C.faces.tangent(np.asarray(C.start(shape))) is not None
    ]
    assert known == [name for name in TANGENTS if name in SETS]


#: set, point, positions of the free entries, and the dimension of the smallest face
DIMENSIONS = {
    "l1-vertex": (fw.L1Ball(2.0), [0, -2, 0], [1], 0),
    "l1-edge": (fw.L1Ball(2.0), [0, -1.5, 0.5], [1, 2], 1),
    "l1-facet": (fw.L1Ball(2.0), [1, -0.5, 0.5], [0, 1, 2], 2),
    "l1-inside": (fw.L1Ball(2.0), [0, -0.5, 0], [0, 1, 2], 3),
    "simplex-vertex": (fw.Simplex(2.0), [0, 2, 0], [1], 0),
    "simplex-edge": (fw.Simplex(2.0), [0.5, 1.5, 0], [0, 1], 1),
    "unit-simplex-origin": (fw.UnitSimplex(2.0), [0, 0, 0], [], 0),
    "unit-simplex-axis": (fw.UnitSimplex(2.0), [0, 1, 0], [1], 1),
    "unit-simplex-vertex": (fw.UnitSimplex(2.0), [0, 2, 0], [], 0),
    "unit-simplex-upper": (fw.UnitSimplex(2.0), [1.5, 0.5, 0], [0, 1], 1),
    "unit-simplex-inside": (fw.UnitSimplex(2.0), [0.1, 0.5, 0.1], [0, 1, 2], 3),
    "hypersimplex": (fw.HyperSimplex(2), [1, 0.25, 0.75, 0], [1, 2], 1),
    "unit-hypersimplex": (fw.UnitHyperSimplex(2), [1, 0.25, 0.5, 0], [1, 2], 2),
    "box-corner": (fw.Box(-1.0, 2.0), [-1, 2, 2], [], 0),
    "box-side": (fw.Box(-1.0, 2.0), [0, 2, 1], [0, 2], 2),
    "box-wide": (fw.Box(0.0, 1e20), [1e-9, 0, 1], [0, 2], 2),
    "multiple": (-0.3 * fw.Simplex(2.0), [-0.15, -0.45, 0], [0, 1], 1),
    "translate": (fw.Simplex(2.0) + np.array([0.1, 0.2, 0.3]), [0.6, 1.7, 0.3], [0, 1], 1),
    "product": (
        fw.Product([(fw.Simplex(), 2), (fw.Box(0.0, 1.0), 2), (fw.L1Ball(), 2)]),
        [0.5, 0.5, 0, 0.5, 1, 0],
        [0, 1, 3, 4],
        2,
    ),
}


@pytest.mark.parametrize("name", DIMENSIONS)
def test_dimensions_of_faces(name):
    C, x, free, dimension = DIMENSIONS[name]
    tangent = C.faces.tangent(np.array(x, dtype=float))
    np.testing.assert_array_equal(tangent.free, free)
    assert len(free) - np.linalg.matrix_rank(tangent.normals) == dimension
    assert tangent.normals.shape[0] == len(free)


@pytest.mark.parametrize("name", TANGENTS)
def test_points_with_rounding_errors_have_the_tangent_spaces_of_their_faces(name):
    """A mixture of equal vertices is a vertex up to rounding errors."""
    C, shape = TANGENTS[name]
    vertex = np.asarray(C.lmo(gradient(shape, 1)))
    mixed = 0.7 * vertex + 0.2 * vertex + 0.1 * vertex
    tangent = C.faces.tangent(mixed)
    assert len(tangent.free) == np.linalg.matrix_rank(tangent.normals)
