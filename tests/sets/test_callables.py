"""Oracles that are callables of the user."""

import numpy as np
import pytest

import fwflow as fw
import fwflow.sets
from fwflow.points.vertices import OneHot
from fwflow.sets import CallableSet
from tests.sets.answers import EPS, gradient


def test_a_callable_gives_the_run_of_the_set_that_it_stands_for():
    f = fw.Quadratic(np.diag([1.0, 2.0, 3.0]), [1.0, -1.0, 2.0])
    named = fw.minimize(f, fw.L2Ball(0.5), np.zeros(3), method="rk44", max_iter=20, tol=0)
    plain = fw.minimize(f, lambda g: -0.5 * g / np.linalg.norm(g), np.zeros(3), method="rk44", max_iter=20, tol=0)
    np.testing.assert_allclose(plain.x, named.x, rtol=0, atol=100 * EPS)
    assert plain.gap == pytest.approx(named.gap, rel=1e-9)
    assert plain.feasible is None


def test_a_callable_may_return_lists_and_vertices():
    f = fw.Quadratic(np.eye(2), [2.0, 0.0])
    simplex = fw.Simplex()
    answers = [
        fw.minimize(f, oracle, max_iter=5).x
        for oracle in (simplex, simplex.lmo, lambda g: [float(g[0] <= g[1]), float(g[0] > g[1])])
    ]
    for x in answers:
        np.testing.assert_array_equal(x, [1.0, 0.0])


def test_a_callable_may_reuse_its_buffer():
    f = fw.Quadratic(np.eye(3), [0.3, 0.2, -0.1])
    buffer = np.zeros(3)

    def oracle(g):
        buffer[:] = np.where(g > 0, -1.0, 1.0)
        return buffer

    reused = fw.minimize(f, oracle, np.zeros(3), method="rk44", momentum="nesterov", max_iter=10, tol=0)
    fresh = fw.minimize(
        f, lambda g: oracle(g).copy(), np.zeros(3), method="rk44", momentum="nesterov", max_iter=10, tol=0
    )
    np.testing.assert_array_equal(reused.x, fresh.x)


@pytest.mark.parametrize("answer", [np.zeros(2), np.zeros((3, 1)), 1.0, np.zeros((1, 3)), OneHot(0, 1.0, (7,))])
@pytest.mark.parametrize("x0", [None, np.zeros(3)])
def test_a_callable_that_returns_a_wrong_shape_is_named(answer, x0):
    with pytest.raises(ValueError, match=r"constraint returned shape .* for a gradient of shape"):
        fw.minimize(fw.Quadratic(np.eye(3), np.ones(3)), lambda g: answer, x0, max_iter=3)


def test_a_callable_starts_at_its_answer_to_ones():
    constraint = CallableSet(lambda g: -g)
    np.testing.assert_array_equal(constraint.start((2, 3)), -np.ones((2, 3)))
    assert constraint.start((2,), np.float32).dtype == np.float32
    assert constraint.contains(np.zeros(2)) is None
    with pytest.raises(ValueError, match="shape is needed"):
        constraint.start()
    assert constraint.diameter() is None


def test_a_callable_keeps_float32():
    vertex = CallableSet(lambda g: g.astype(np.float64)).lmo(gradient("float32", (3,)))
    assert np.asarray(vertex).dtype == np.float32


def test_membership_of_a_product_with_a_callable():
    constraint = fw.Product([(CallableSet(lambda g: g), 2), (fw.L1Ball(), 1)])
    assert constraint.contains(np.zeros(3)) is None
    assert constraint.contains(np.array([0.0, 0.0, 2.0])) is False


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda C: 2.0 * C,
        lambda C: C + np.ones(4),
        lambda C: fw.Product([(C, 4)]),
        lambda C: fw.Product([(fw.L1Ball(1.0), 1), (C, 3)]),
        lambda C: fw.MinkowskiSum(C, fw.L1Ball(1.0)),
    ],
    ids=["multiple", "translate", "product", "block", "sum"],
)
def test_the_call_for_the_start_of_a_users_oracle_is_counted(wrapped):
    asked = []

    def oracle(g):
        asked.append(g)
        return np.eye(len(g))[g.argmin()]

    C = wrapped(CallableSet(oracle))
    result = fw.minimize(fw.Quadratic(np.eye(4), [1.0, 0.5, 0.2, 0.3]), C, method="fw", max_iter=5, tol=0)
    assert result.n_lmo == len(asked)
