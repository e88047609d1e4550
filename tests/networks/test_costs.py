"""Beckmann's objective: its value is the integral of its costs, and its edge cases have no NaN."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

import fwflow as fw

NETWORK = fw.networks.sioux_falls()


def random_costs(rng, n=5):
    share = rng.random(n)
    capacity = np.where(rng.random(n) < 0.2, 0.0, rng.uniform(0.5, 3, n))
    b = np.where(rng.random(n) < 0.2, 0.0, rng.random(n))
    power = rng.choice([0.0, 0.5, 1.0, 1.7, 4.0, 8.2], n)
    return fw.Beckmann(share, capacity, b, power, fixed=rng.random(n))


@given(seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_value_gradient_and_curvature_belong_together(seed):
    rng = np.random.default_rng(seed)
    f = random_costs(rng)
    x = rng.uniform(0.1, 3, 5)

    def bpr(v, a):
        time = f.free_flow[a] * (1 + (f.b[a] * (v / f.capacity[a]) ** f.power[a] if f.capacity[a] else 0))
        return time + f.fixed[a]

    integrals = [quad(bpr, 0, x[a], args=(a,), epsabs=1e-12)[0] for a in range(5)]
    assert f.value(f.point(x)) == pytest.approx(sum(integrals), rel=1e-8)
    np.testing.assert_allclose(f.gradient(f.point(x)), [bpr(x[a], a) for a in range(5)], rtol=1e-13)
    second = f.model(f.point(x), f.gradient).second
    h = 1e-6
    np.testing.assert_allclose((f.cost(x + h) - f.cost(x - h)) / (2 * h), second, atol=1e-7 * second.max() + 1e-9)
    line = f.along(f.point(x), f.point(x[::-1]), f.value(f.point(x)))
    middle = f.point((x + x[::-1]) / 2)
    assert line.value(0.5) == pytest.approx(f.value(middle), rel=1e-13)
    assert line.slope(0.5) == pytest.approx(f.gradient(middle) @ (x[::-1] - x), abs=1e-12)
    assert line.second(0.5) == pytest.approx((line.slope(0.5 + h) - line.slope(0.5 - h)) / (2 * h), rel=1e-5, abs=1e-6)


@given(seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_at_zero_and_a_little_below_there_are_numbers(seed):
    rng = np.random.default_rng(seed)
    f = random_costs(rng)
    for x in (np.zeros(5), -1e-12 * rng.random(5), np.where(rng.random(5) < 0.5, -1e-9, 1.0)):
        model = f.model(f.point(x), f.gradient)
        for array in (f.cost(x), f.gradient(f.point(x)), model.second, model.pull, f.value(f.point(x))):
            assert np.isfinite(array).all()
    assert fw.checks.gradient_error(f, -np.ones(5)) < 1e-9  # straight on


def test_constant_costs():
    zero = fw.Beckmann(2.0, [0.0, 1.0, 1.0], b=[5.0, 0.0, 0.5], power=[4.0, 4.0, 0.0])
    for x in (np.zeros(3), np.ones(3), 1e9 * np.ones(3)):
        np.testing.assert_array_equal(zero.cost(x), [2.0, 2.0, 3.0])
        np.testing.assert_array_equal(zero.model(zero.point(x), zero.gradient).second, 0.0)


def test_a_capacity_that_is_next_to_none_overflows_and_says_so():
    f, C = fw.Beckmann([1.0], [1e-300]), fw.FlowPolytope([0], [1], [[0, 1], [0, 0]])
    assert fw.minimize(f, C).status == fw.Status.NUMERICAL


def test_costs_of_ones_own():
    """The same link costs through callables: the same run."""
    f = NETWORK.objective
    free, capacity = f.free_flow, f.capacity
    given_by_hand = fw.LinkCosts(
        lambda v: v * free * (1 + 0.03 * (v / capacity) ** 4),
        lambda v: free * (1 + 0.15 * (v / capacity) ** 4),
        lambda v: 0.6 * free / capacity * (v / capacity) ** 3,
    )
    runs = [fw.minimize(g, NETWORK.flows, method="corrective", tol=10.0) for g in (f, given_by_hand)]
    assert all(r.success for r in runs)
    assert abs(runs[0].n_lmo - runs[1].n_lmo) <= 5
    assert runs[0].fun == pytest.approx(runs[1].fun, abs=10.0)


def test_what_makes_no_cost_is_refused():
    for message, arguments in {
        "capacity must not be negative; for link 1 it is -2": ([1.0, 1.0], [1.0, -2.0]),
        "free_flow must be finite; free_flow\\[0\\] is nan": ([np.nan], [1.0]),
        "power must not be negative; for link 0 it is -1": ([1.0], [1.0], 0.15, -1),
        "b must be a number, or one for each of 2 links; its shape is \\(3,\\)": ([1.0, 1.0], [1.0, 1.0], [1] * 3),
    }.items():
        with pytest.raises(ValueError, match=message):
            fw.Beckmann(*arguments)
    with pytest.raises(ValueError, match="slope must be callable; got NoneType"):
        fw.LinkCosts(np.sum, np.ones_like, None)
    f = fw.LinkCosts(lambda v: v, lambda v: np.ones(3), np.zeros_like)
    with pytest.raises(ValueError, match=r"cost returned shape \(3,\) for flows of shape \(2,\)"):
        f.cost(np.zeros(2))


def test_fingerprints_tell_costs_apart():
    assert fw.Beckmann([1.0], [2.0]).fingerprint() == fw.Beckmann([1.0], [2.0], 0.15, 4).fingerprint()
    assert fw.Beckmann([1.0], [2.0]).fingerprint() != fw.Beckmann([1.0], [2.0], fixed=1.0).fingerprint()
