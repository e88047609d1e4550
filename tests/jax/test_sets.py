"""The sets of the core and their twins give the same answers, single precision and ties included."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fwflow as fw
import fwflow.jax as fwj
from tests import catalogue

TWINS = (fw.L1Ball, fw.L2Ball, fw.LInfBall, fw.LpBall, fw.Simplex, fw.Box, fw.NuclearBall, fw.Product)
KNOWN = {name: case for name, case in catalogue.SETS.items() if type(case[0]) in TWINS}


@jax.jit
def asked(C, g):
    vertex = C.lmo(g)
    return vertex.added_to(jnp.zeros_like(g), 1), vertex.dot(g), C.least(g)


@pytest.mark.parametrize("name", KNOWN)
def test_oracles_are_those_of_the_core(name):
    theirs, shape = KNOWN[name]
    ours = fwj.as_jax_set(theirs)
    assert not isinstance(ours, fwj.Host)
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        for g in (rng.standard_normal(shape), np.ones(shape), np.zeros(shape)):
            vertex, value, least = asked(ours, jnp.asarray(g))
            best = theirs.lmo(g)
            assert theirs.contains(np.asarray(vertex), 1e-9)
            assert np.vdot(g, vertex) == pytest.approx(best.dot(g), abs=1e-9)
            assert [float(value), float(least)] == pytest.approx([best.dot(g)] * 2, abs=1e-9)
            if not isinstance(theirs, fw.NuclearBall):  # whose answers have a sign to choose, and ties
                np.testing.assert_allclose(vertex, np.asarray(best), atol=1e-12)
        x = rng.standard_normal(shape)
        for point in (x, np.asarray(theirs.start(shape)), np.asarray(theirs.lmo(x))):
            assert (float(ours.excess(jnp.asarray(point))) <= 1e-9) == theirs.contains(point)
        assert np.array_equal(ours.start(shape, jnp.float64), np.asarray(theirs.start(shape)))


@jax.jit
def projected(C, x):
    return C.project(x)


PROJECTED = ["l1", "l2", "linf", "simplex-radius", "box-arrays"]


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, 6, elements=st.floats(-1e6, 1e6)), st.sampled_from([1e-6, 1.0, 1e3]))
def test_projections_are_those_of_the_core(x, unit):
    with jax.enable_x64(True):
        for name in PROJECTED:
            theirs = KNOWN[name][0]
            ours = projected(fwj.as_jax_set(theirs), jnp.asarray(unit * x))
            np.testing.assert_allclose(ours, theirs.project(unit * x), atol=1e-14 * (1 + abs(unit * x).max()))


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
    vertices, _, least = jax.vmap(lambda g: asked(hull, g))(jnp.asarray(G))
    for g, vertex, value in zip(G, np.asarray(vertices), np.asarray(least), strict=True):
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
