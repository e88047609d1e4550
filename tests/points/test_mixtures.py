"""Mixtures of every kind of vertex against the dense formula, and their images."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fwflow as fw
from fwflow.designs import Counts
from fwflow.points.gradients import Sampled
from fwflow.points.lowrank import LowRank
from fwflow.points.point import FactoredPoint, Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, RankOne
from tests.catalogue import SETS, design, targets
from tests.points.kinds import KINDS, eps, make, many, seeds, weights


@many
@given(
    kinds=st.lists(st.sampled_from([k for k, (shape, _) in KINDS.items() if shape == (9,)]), min_size=5, max_size=5),
    w=weights,
    seed=seeds,
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_mix_of_vectors_is_the_dense_formula(kinds, w, seed, dtype):
    check_mix(kinds, w, seed, dtype)


@many
@given(
    kinds=st.lists(st.sampled_from([k for k, (shape, _) in KINDS.items() if shape == (3, 3)]), min_size=5, max_size=5),
    w=weights,
    seed=seeds,
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_mix_of_matrices_is_the_dense_formula(kinds, w, seed, dtype):
    check_mix(kinds, w, seed, dtype)


def check_mix(kinds, w, seed, dtype):
    s, arrays = zip(*(make(kind, seed + i) for i, kind in enumerate(kinds)), strict=True)
    rng = np.random.default_rng(seed)
    x, z, images = rng.standard_normal(arrays[0].shape), rng.standard_normal(4), rng.standard_normal((5, 4))
    x, z = x.astype(dtype), z.astype(dtype)
    before = x.copy(), z.copy()
    point = Point(x, z)
    terms = [(wi, Lifted(si, DenseVertex(image))) for wi, si, image in zip(w, s, images, strict=False)]
    mixed = point.mix(iter(terms))
    for old, new, targets_ in ((before[0], mixed.x, arrays), (before[1], mixed.image, images)):
        expected = old + sum(wi * (target - old.astype(float)) for wi, target in zip(w, targets_, strict=False))
        size = (2 + sum(map(abs, w))) * max(np.abs(a).max() for a in (old, *targets_))
        assert new.dtype == dtype
        np.testing.assert_allclose(new, expected, rtol=0, atol=8 * eps(dtype) * size)
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(z, before[1])
    for vertex, array in zip(s, arrays, strict=True):
        # sums of a few terms may cancel, so rounding is relative to the largest of them
        np.testing.assert_allclose(np.asarray(vertex), array, rtol=0, atol=4 * eps(float) * (1 + np.abs(array).max()))


def test_mix_takes_points_as_targets():
    rng = np.random.default_rng(0)
    x, y, z = (Point(rng.standard_normal(4), rng.standard_normal(2)) for _ in range(3))
    mixed = x.mix([(0.5, y), (0.2, z)])
    np.testing.assert_allclose(mixed.x, 0.3 * x.x + 0.5 * y.x + 0.2 * z.x, rtol=0, atol=8 * eps(float))
    np.testing.assert_allclose(mixed.image, 0.3 * x.image + 0.5 * y.image + 0.2 * z.image, rtol=0, atol=8 * eps(float))


def test_mix_with_nothing_is_the_point_itself():
    point = Point(np.ones(2), np.ones(3))
    assert point.mix([]) is point
    assert point.mix([(0.0, Lifted(OneHot(0, np.inf, (2,))))]) is point
    assert point.mix([(0.5, Lifted(OneHot(0, 1.0, (2,)), OneHot(0, 1.0, (3,))))]) is not point


@pytest.mark.parametrize("w", [[1.0], [0.5, 0.5], [0.25, 0.5, 0.25], [1.5, -0.5]])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_weights_that_sum_to_one_drop_the_base(w, bad):
    point = Point(np.full(3, bad), np.full(2, bad))
    mixed = point.mix((wi, Lifted(OneHot(i, 4.0, (3,)), OneHot(0, 2.0, (2,)))) for i, wi in enumerate(w))
    np.testing.assert_array_equal(mixed.x, np.pad(4 * np.array(w), (0, 3 - len(w))))
    np.testing.assert_array_equal(mixed.image, [2.0, 0.0])


def test_weights_that_sum_to_one_drop_the_atoms_of_a_low_rank_matrix():
    base = LowRank.from_factors(np.full((3, 2), 1e300), np.eye(2))
    atom = RankOne(np.ones(3), np.ones(2), 1.0)
    assert base.mixed(0.0, [(1.0, atom)]).rank == 1
    np.testing.assert_array_equal(FactoredPoint(base).mix([(1.0, Lifted(atom))]).x.to_dense(), np.ones((3, 2)))


def test_points_without_images_stay_without():
    mixed = Point(np.zeros(2)).mix([(0.5, Lifted(OneHot(1, 1.0, (2,))))])
    assert mixed.image is None
    np.testing.assert_array_equal(mixed.x, [0.0, 0.5])


@pytest.mark.parametrize("name", [name for name, (_, shape) in SETS.items() if len(shape) == 1])
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_images_follow_the_vertices_of_every_set(name, matrix):
    constraint, shape = SETS[name]
    A = design(5, shape[0])
    f = fw.LinearModel(matrix(A), targets(5))
    point = f.point(constraint.start(shape))
    rng = np.random.default_rng(3)
    for step in (1.0, 0.5, 0.3, 0.2):
        lifted = f.lift(constraint.lmo(rng.standard_normal(shape)))
        np.testing.assert_allclose(np.asarray(lifted.image), A @ np.asarray(lifted.vertex), rtol=0, atol=1e-13)
        point = point.mix([(step, lifted)])
        # A dozen terms of size up to 20, each rounded a few times.
        np.testing.assert_allclose(point.image, A @ point.x, rtol=0, atol=12 * 20 * 4 * eps(float))


def test_the_image_of_a_shift_is_computed_once():
    f = fw.LinearModel(design(5, 6), targets(5))
    counts = Counts()
    counted = f.counted_by(counts)
    constraint, _ = SETS["translated"]
    for seed in range(5):
        counted.lift(constraint.lmo(np.random.default_rng(seed).standard_normal(6)))
    assert counts.n_design == 1


def test_inner_product_of_a_point():
    x, g = design(3, 4), design(3, 4, seed=1)
    exact = float((x * g).sum())
    assert Point(x).dot(g) == pytest.approx(exact, rel=1e-13)
    assert Point(np.asfortranarray(x)).dot(g) == pytest.approx(exact, rel=1e-13)
    low = LowRank.from_factors(x, np.eye(4))
    assert FactoredPoint(low).dot(g) == pytest.approx(exact, rel=1e-13)
    assert FactoredPoint(low).dot(sp.csr_array(g)) == pytest.approx(exact, rel=1e-13)
    i, j = np.array([0, 0, 2]), np.array([1, 3, 0])
    observed = Sampled(g[i, j], j, np.array([0, 2, 2, 3]), (3, 4))
    assert observed.inner(FactoredPoint(low, low.entries(i, j))) == pytest.approx((x * g)[i, j].sum(), rel=1e-13)


MATRIX_SETS = {name: entry for name, entry in SETS.items() if len(entry[1]) == 2}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", MATRIX_SETS)
@pytest.mark.parametrize("gradient_order", ["C", "F"])
@pytest.mark.parametrize("method", ["fw", "rk44"])
def test_memory_order_does_not_matter(name, gradient_order, method):
    constraint, shape = MATRIX_SETS[name]
    rng = np.random.default_rng(9)
    target = rng.standard_normal(shape)

    def f(order):
        return fw.Smooth(lambda x: 0.5 * float(((x - target) ** 2).sum()), lambda x: np.array(x - target, order=order))

    corner = np.asarray(constraint.lmo(rng.standard_normal(shape)))
    x0 = np.asfortranarray(0.5 * corner + 0.5 * np.asarray(constraint.start(shape)))
    before = x0.copy()
    # From k = 1 on, so that the start is not forgotten at once.
    arguments = {"method": method, "schedule": fw.OpenLoop(k0=1), "max_iter": 30, "tol": 0}
    fortran = fw.minimize(f(gradient_order), constraint, x0, **arguments)
    plain = fw.minimize(f("C"), constraint, np.ascontiguousarray(x0), **arguments)
    # The nuclear oracle works to a residual of 1e-9, and rounding differs with the order of a product.
    np.testing.assert_allclose(fortran.x, plain.x, rtol=0, atol=1e-9)
    assert fortran.gap == pytest.approx(plain.gap, rel=0, abs=1e-8)
    np.testing.assert_array_equal(x0, before)


@pytest.mark.parametrize("name", ["l1-matrix", "birkhoff", "nuclear"])
def test_a_run_from_a_fortran_ordered_point_reaches_the_minimum(name):
    constraint, shape = SETS[name]
    inside = np.asarray(constraint.start(shape)) * 0.5 + 0.5 * np.asarray(constraint.lmo(design(*shape)))
    f = fw.Smooth(lambda x: 0.5 * float(((x - inside) ** 2).sum()), lambda x: x - inside)
    r = fw.minimize(f, constraint, np.asfortranarray(np.asarray(constraint.lmo(-design(*shape)))), tol=1e-2)
    assert r.success
    assert np.linalg.norm(r.x - inside) <= math.sqrt(2 * 1e-2)  # f is strongly convex with constant 1


def test_numpy_numbers_as_parameters_leave_float32_alone():
    A, b = design(8, 4).astype(np.float32), targets(8).astype(np.float32)
    f = fw.LinearModel(A, b)
    for schedule in (
        fw.OpenLoop(c=np.float64(2.0)),
        fw.OpenLoop(delta=np.float64(0.5)),
        fw.ConstantSchedule(np.float64(0.25)),
    ):
        r = fw.minimize(f, fw.L1Ball(np.float64(1.0)), schedule=schedule, max_iter=3, tol=0)
        assert r.x.dtype == np.float32
        assert r.state.point.image.dtype == np.float32
