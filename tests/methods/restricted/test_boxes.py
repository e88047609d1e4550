"""Quadratics over boxes: the minimum, also without curvature, with dependent rows and with empty ranges."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from fwflow.methods.restricted.boxes import box_gap, minimise_in_box

many = settings(deadline=None, max_examples=60, derandomize=True)
KINDS = ("full", "dependent", "linear", "scaled")


def program(rng, k, m, kind):
    rows = rng.integers(-1, 2, (k, m)).astype(float)
    second = rng.random(m)
    if kind == "dependent":
        rows = rows[rng.integers(0, k, k)]
    elif kind == "linear":
        second = np.zeros(m)
    elif kind == "scaled":
        second = 10.0 ** rng.uniform(-3, 3, m)
    lower, upper = -rng.random(k) * (rng.random(k) < 0.7), rng.random(k) * (rng.random(k) < 0.7)
    return rows, second, rng.standard_normal(k), lower, upper


@many
@given(seed=st.integers(0, 10**6), k=st.integers(1, 12), m=st.integers(1, 12), kind=st.sampled_from(KINDS))
def test_the_gap_falls_to_the_tolerance_within_the_box(seed, k, m, kind):
    rows, second, slopes, lower, upper = program(np.random.default_rng(seed), k, m, kind)
    z = minimise_in_box(sp.csr_array(rows), second, slopes, lower, upper, 1e-6)
    assert (z >= lower - 1e-12).all()
    assert (z <= upper + 1e-12).all()
    first = box_gap(slopes, np.zeros(k), lower, upper)
    assert box_gap(slopes + rows @ (second * (z @ rows)), z, lower, upper) <= 1e-5 * first + 1e-13


def test_the_minimum_is_that_of_another_solver():
    rows, second, slopes, lower, upper = program(np.random.default_rng(1), 30, 20, "full")
    z = minimise_in_box(sp.csr_array(rows), second, slopes, lower, upper, 1e-9)
    w = cp.Variable(30)
    cost = slopes @ w + cp.sum_squares(cp.multiply(np.sqrt(second), rows.T @ w)) / 2
    best = cp.Problem(cp.Minimize(cost), [w >= lower, w <= upper]).solve(solver="CLARABEL")
    found = slopes @ z + second @ (z @ rows) ** 2 / 2
    assert found == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("second", [0.0, 2.0])
def test_one_variable_and_a_number_for_all_curvatures(second):
    z = minimise_in_box(sp.csr_array([[1.0]]), second, np.array([-1.0]), np.array([0.0]), np.array([3.0]), 1e-6)
    np.testing.assert_allclose(z, [3.0 if second == 0 else 0.5])


def test_no_search_after_the_time_limit():
    rows, second, slopes, lower, upper = program(np.random.default_rng(1), 5, 5, "full")
    z = minimise_in_box(sp.csr_array(rows), second, slopes, lower, upper, 0.0, late=lambda: True)
    np.testing.assert_array_equal(z, 0.0)
