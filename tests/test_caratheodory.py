"""Active sets reduced to an affine basis: the same point, positive weights, few atoms, and methods that stay small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.atoms import ActiveSet, Atoms, caratheodory
from fwflow.points import Lifted, Point
from fwflow.vertices import DenseVertex, OneHot, RankOne, SparseVertex

many = settings(deadline=None, max_examples=60, derandomize=True)


def dense(rng, n):
    return DenseVertex(rng.standard_normal(n))


def sparse(rng, n):
    places = rng.choice(n, min(2, n), replace=False)
    return SparseVertex(places, rng.standard_normal(len(places)), (n,))


def one_hot(rng, n):
    return OneHot(int(rng.integers(n)), float(rng.choice([-1.0, 1.0])), (n,))


@many
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    count=st.integers(1, 40),
    kind=st.sampled_from([dense, sparse, one_hot]),
    power=st.sampled_from([0.0, 6.0, 12.0]),
)
def test_the_same_point_from_an_affine_basis(seed, n, count, kind, power):
    rng = np.random.default_rng(seed)
    atoms = Atoms([Point(rng.standard_normal(n))]).joined(Lifted(kind(rng, n)) for _ in range(count))
    weights = rng.random(len(atoms)) ** power + 1e-12
    active = ActiveSet(atoms, weights / weights.sum())
    few = caratheodory(active)
    rows = np.array([np.asarray(atom.coordinates) for atom in atoms])
    rank = np.linalg.matrix_rank(np.column_stack([rows, np.ones(len(rows))]), tol=1e-9)
    assert len(few) <= rank <= n + 1
    assert few.weights.min() > 0
    assert few.weights.sum() == pytest.approx(1.0, abs=1e-14)
    assert {atom.key for atom in few.atoms} <= {atom.key for atom in atoms}
    np.testing.assert_allclose(few.x, active.x, rtol=0, atol=1e-9 * np.abs(rows).max())


def test_sums_of_rank_one_matrices_are_left_alone():
    rng = np.random.default_rng(0)
    atoms = Atoms(Lifted(RankOne(*rng.standard_normal((2, 2)), 1.0)) for _ in range(9))
    active = ActiveSet(atoms, np.full(9, 1 / 9))
    assert caratheodory(active) is active


@pytest.mark.parametrize("method", ["pairwise", "away", "blended-pairwise", "lazy-pairwise"])
def test_active_sets_stay_small_on_products(method):
    rng = np.random.default_rng(0)
    n, C = 50, fw.Product([(fw.Simplex(), 10)] * 5)
    A = rng.standard_normal((80, n))
    f = fw.LinearModel(A, 0.2 * A @ rng.random(n))
    seen = []
    r = fw.minimize(
        f, C, method=method, tol=1e-7, callback=lambda state: seen.append(len(state.memory.active)) or False
    )
    assert r.success
    assert max(seen) <= 1.5 * n + 1
    np.testing.assert_allclose(r.active_set.x, r.x, rtol=0, atol=1e-12)
