"""Are common points common, and proofs of a distance true?"""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw

N = 5


def agrees(found, true):
    """Whether what is said of the distance of two sets holds."""
    assert found.bound <= true + 1e-9
    assert found.distance >= true - 1e-9
    assert found.distance == pytest.approx(float(np.linalg.norm(found.x - found.y)))
    assert not (found.met and found.apart)


@given(st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_distances_of_boxes(seed):
    rng = np.random.default_rng(seed)
    ends = np.sort(rng.integers(-4, 5, (2, N, 2)), axis=2).astype(float)
    boxes = [fw.Box(lower, upper) for lower, upper in np.moveaxis(ends, 2, 1)]
    apart = np.maximum(np.maximum(ends[0, :, 0] - ends[1, :, 1], ends[1, :, 0] - ends[0, :, 1]), 0.0)
    found, true = fw.alternate(*boxes), float(np.linalg.norm(apart))
    agrees(found, true)
    assert found.met == (true == 0)
    assert found.apart == (true > 0)
    assert found.bound >= (1 - 1e-2) * found.distance or found.met
    assert boxes[0].contains(found.x)
    assert boxes[1].contains(found.y)


@given(st.integers(0, 10**6), st.floats(0.2, 2.0))
@settings(max_examples=15, deadline=None)
def test_distances_of_balls(seed, gap):
    """Curved sets, of which no vertices are left over."""
    centre = np.random.default_rng(seed).standard_normal(N)
    length = float(np.linalg.norm(centre))
    first, second = fw.L2Ball(length / 2), fw.L2Ball(length / 2) + (1 + gap) * centre
    found = fw.alternate(first, second, rtol=0.05)
    agrees(found, gap * length)
    assert found.apart
    assert found.bound >= 0.95 * found.distance * (1 - 1e-9)


def test_a_polytope_and_a_simplex_against_cvxpy():
    rng = np.random.default_rng(0)
    V = rng.standard_normal((7, N)) + 2
    x, w = cp.Variable(N), cp.Variable(7)
    simplex = [x >= 0, cp.sum(x) == 1]
    true = cp.Problem(cp.Minimize(cp.norm2(x - V.T @ w)), [*simplex, w >= 0, cp.sum(w) == 1]).solve(solver=cp.CLARABEL)
    found = fw.alternate(fw.Simplex(), fw.ConvexHull(V), rtol=1e-3)
    agrees(found, true)
    assert found.distance == pytest.approx(true, rel=1e-3)
    assert found.apart


@pytest.mark.parametrize("method", [None, "corrective", "rk44", fw.BlockCoordinate("random")], ids=str)
def test_methods_agree(method):
    met = fw.alternate(fw.Simplex(), fw.L1Ball(1.5), shape=N, method=method, tol=1e-2)
    assert met.met
    assert fw.Simplex().contains(met.x)
    assert fw.L1Ball(1.5).contains(met.y)
    apart = fw.alternate(fw.Simplex(2.0), fw.L1Ball(1.5), shape=N, method=method, rtol=0.1)
    assert apart.apart
    agrees(apart, 0.5 / np.sqrt(N))


def test_matrices_stand_row_by_row():
    found = fw.alternate(fw.Birkhoff(3), fw.Box(0.0, 0.5), tol=1e-4)
    assert found.met
    assert found.x.shape == found.y.shape == (3, 3)
    assert fw.Birkhoff(3).contains(found.x)


def test_what_is_not_decided_is_not_claimed():
    found = fw.alternate(fw.L2Ball(1.0), fw.L2Ball(1.0) + np.array([1.99, 0.1]), max_iter=0)
    assert not found.met
    assert not found.apart
    assert found.bound == 0
    assert found.result.status is fw.Status.ITERATIONS


def test_wrong_arguments():
    with pytest.raises(ValueError, match="shape is needed: neither set has a known shape"):
        fw.alternate(fw.Simplex(), fw.L2Ball(1.0))
    with pytest.raises(ValueError, match="tol"):
        fw.alternate(fw.Simplex(), fw.L2Ball(1.0), shape=3, tol=0)
    with pytest.raises(ValueError, match="rtol"):
        fw.alternate(fw.Simplex(), fw.L2Ball(1.0), shape=3, rtol=1.0)
