"""The compiled sets have the oracles and projections of the core, in single precision and for ties, too."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fwflow as fw
import fwflow.jax as fwj
from fwflow.jax.sets import _COMPILED
from tests import catalogue

KNOWN = {name: case for name, case in catalogue.SETS.items() if type(case[0]) in _COMPILED}


@jax.jit
def computed(C, x):
    """Everything that a set computes at an array, as a gradient and as a point."""
    vertex = C.lmo(x)
    return vertex.added_to(jnp.zeros_like(x), 1), vertex.dot(x), C.lower_bound(x), C.excess(x), C.project(x)


def test_every_compiled_set_is_compared():
    assert {type(C) for C, _ in KNOWN.values()} == set(_COMPILED)
    assert {type(fwj.as_jax_set(C)).__name__ for C, _ in KNOWN.values()} == {kind.__name__ for kind in _COMPILED}


@pytest.mark.parametrize("name", KNOWN)
def test_sets_are_those_of_the_core(name):
    """At random gradients and points, members, and arrays of ones and zeros, where vertices are tied."""
    theirs, shape = KNOWN[name]
    ours, rng = fwj.as_jax_set(theirs), np.random.default_rng(0)
    nuclear = isinstance(theirs, fw.NuclearBall)  # whose vertices have a sign to choose, and ties
    start = np.asarray(theirs.start(shape))
    points = [*rng.standard_normal((5, *shape)), 1e3 * rng.standard_normal(shape), np.ones(shape), np.zeros(shape)]
    with jax.enable_x64(True):
        assert np.array_equal(ours.start(shape, jnp.float64), start)
        for x in (*points, start, np.asarray(theirs.lmo(points[0]))):
            vertex, value, bound, excess, member = computed(ours, jnp.asarray(x))
            best, size = theirs.lmo(x), 1e-12 * (1 + np.abs(x).max())
            assert theirs.contains(np.asarray(vertex), 1e-9)
            assert [float(value), float(bound)] == pytest.approx([best.dot(x)] * 2, abs=1e3 * size)
            if not nuclear:
                np.testing.assert_allclose(vertex, np.asarray(best), atol=1e-12)
            assert (float(excess) <= 1e-9) == theirs.contains(x)
            # The compiled ball of p-norms has no projection, which takes nested iterations.
            nearest = None if type(theirs) is fw.LpBall else theirs.project(x)
            assert (member is None) == (nearest is None)
            if nearest is not None:
                np.testing.assert_allclose(member, nearest, atol=size)


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, 6, elements=st.floats(-1e6, 1e6)), st.sampled_from([1e-6, 1.0, 1e3]))
def test_projections_are_those_of_the_core(x, unit):
    with jax.enable_x64(True):
        for name in ["l1", "l2", "linf", "simplex-radius", "box-arrays"]:
            theirs = KNOWN[name][0]
            ours = projected(fwj.as_jax_set(theirs), jnp.asarray(unit * x))
            np.testing.assert_allclose(ours, theirs.project(unit * x), atol=1e-14 * (1 + abs(unit * x).max()))


@jax.jit
def projected(C, x):
    return C.project(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_threshold_is_found_among_entries_of_all_sizes(dtype):
    """Where Newton's method would have to leave them one by one."""
    x = np.concatenate([2.0 ** -np.arange(60.0), np.full(40, 0.3), -np.ones(5)]).astype(dtype)
    with jax.enable_x64(True):
        for radius in (1e-3, 1.0, 5.0):
            ours = np.asarray(projected(fwj.Simplex(radius), jnp.asarray(x)))
            assert ours.dtype == dtype
            theirs = fw.Simplex(radius).project(x.astype(np.float64))
            np.testing.assert_allclose(ours, theirs, atol=4 * np.finfo(dtype).eps * max(1, radius))


def test_matrices_are_projected():
    X = np.random.default_rng(0).standard_normal((5, 4))
    with jax.enable_x64(True):
        Y = np.asarray(projected(fwj.NuclearBall(2.0), jnp.asarray(X)))
    U, sigma, V = np.linalg.svd(X, full_matrices=False)
    np.testing.assert_allclose(Y, U * fw.Simplex(2.0).project(sigma) @ V, atol=1e-12)


def test_other_sets_run_on_the_host():
    hull = fwj.as_jax_set(catalogue.SETS["hull"][0])
    assert isinstance(hull, fwj.Host)
    G = np.random.default_rng(0).standard_normal((3, 6)).astype(np.float32)
    vertices, bound = jax.vmap(lambda g: (hull.lmo(g).x, hull.lower_bound(g)))(jnp.asarray(G))
    for g, vertex, value in zip(G, np.asarray(vertices), np.asarray(bound), strict=True):
        assert value == pytest.approx(hull.constraint.lmo(g).dot(g), abs=1e-5)
        assert hull.constraint.contains(vertex, 1e-4)


def test_a_subclass_with_an_oracle_of_its_own_keeps_it():
    class Half(fw.L1Ball):
        def lmo(self, g, hint=None):
            return super().lmo(np.maximum(g, 0))

    assert isinstance(fwj.as_jax_set(Half(1.0)), fwj.Host)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: fwj.L1Ball(-1.0), "radius must be positive"),
        (lambda: fwj.L1Ball(jnp.array([1.0, jnp.nan])), "radius must be positive"),
        (lambda: fwj.LpBall(1.0), "p must lie"),
        (lambda: fwj.Box(1.0, 0.0), "lower must not exceed"),
        (lambda: fwj.as_jax_set(3), "C must be a set"),
    ],
)
def test_parameters_are_checked(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_exponent_of_the_euclidean_ball_is_a_constant():
    C = fwj.L2Ball(3.0)
    assert repr(C) == "L2Ball(radius=3.0)"
    assert jax.tree.leaves(C) == [3.0]
    assert repr(C.with_radius(2.0)) == "L2Ball(radius=2.0)"
    with pytest.raises(TypeError, match="p"):
        fwj.L2Ball(p=3.0)
