"""Active sets reduced to an affine basis: the same point, positive weights, few atoms, and methods that stay small."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.methods.active import AwayStep, Blended, BlendedPairwise, Pairwise
from fwflow.methods.restricted.atoms import ActiveSet, Atoms, caratheodory
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, OneHot, RankOne, SparseVertex

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


@many
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 8),
    rank=st.integers(0, 8),
    count=st.integers(1, 80),
    copies=st.integers(0, 20),
    dtype=st.sampled_from([np.float64, np.float32]),
    coordinates=st.sampled_from([0, 12]),
    sizes=st.sampled_from([0, 6, 12]),
    power=st.sampled_from([0.0, 12.0]),
)
def test_copies_dependent_atoms_and_scales_that_differ(seed, n, rank, count, copies, dtype, coordinates, sizes, power):
    rng = np.random.default_rng(seed)
    rows = rng.integers(-3, 4, (count, min(rank, n))) @ rng.integers(-3, 4, (min(rank, n), n))
    rows = rows + rng.integers(-3, 4, n)  # of small integers: what depends on others does so exactly
    rows = rows * 2.0 ** rng.integers(0, sizes + 1, (count, 1)) * 2.0 ** rng.integers(-coordinates, coordinates + 1, n)
    rows = rows[np.r_[np.arange(count), rng.integers(0, count, copies)]].astype(dtype)
    atoms = Atoms(Lifted(DenseVertex(row)) if i % 2 else Point(row) for i, row in enumerate(rows))
    distinct = Atoms([]).joined(atoms)
    weights = rng.random(len(distinct)) ** power + 1e-9
    active = ActiveSet(distinct, weights / weights.sum())
    few = caratheodory(active)
    rows = np.array([np.asarray(atom.coordinates, dtype=float) for atom in distinct])
    assert len(few) <= min(n, len({row.tobytes() for row in rows + 0.0}) - 1) + 1
    if not sizes:
        assert len(few) <= min(n, rank) + 1
    assert few.weights.min() > 0
    assert few.weights.sum() == pytest.approx(1.0, abs=1e-14)
    places = [distinct.places[atom.key] for atom in few.atoms]
    moved = np.abs(few.weights @ rows[places] - active.weights @ rows)
    assert (moved <= 16 * len(rows) * np.finfo(float).eps * np.abs(rows).max(axis=0)).all()


#: Methods that keep an active set, by name.
KEEPING = {
    "away": AwayStep,
    "pairwise": Pairwise,
    "blended-pairwise": BlendedPairwise,
    "blended": Blended,
    "lazy-pairwise": partial(Pairwise, lazy=True),
}
METHODS = ["pairwise", "away", "blended-pairwise", "lazy-pairwise"]
UNIT = fw.Box(np.zeros(6), np.ones(6))
PRODUCTS = {
    "simplices": [(fw.Simplex(), 5)] * 5,
    "l1 balls": [(fw.L1Ball(1.0), 6)] * 4,
    "boxes": [(UNIT, 6)] * 3,
    "mixed": [(fw.Simplex(), 8), (UNIT, 6), (fw.L1Ball(1.0), 8)],
}


def regression(n, seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((40, n))
    return fw.LinearModel(A, 0.2 * A @ rng.random(n))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", [*METHODS, "corrective"])
@pytest.mark.parametrize("blocks", PRODUCTS)
def test_results_have_an_atom_per_dimension_and_one(blocks, method):
    sizes = [size for _, size in PRODUCTS[blocks]]
    n = sum(sizes)
    f, C = regression(n, 0), fw.Product(PRODUCTS[blocks])
    seen = []
    r = fw.minimize(
        f, C, method=method, tol=1e-6, callback=lambda state: seen.append(len(state.memory.active)) or False
    )
    assert r.success
    assert max(seen) <= 10 * n + 1
    in_blocks = isinstance(r.active_set, fw.BlockSet)
    for mixture, size in zip(r.active_set.blocks, sizes, strict=True) if in_blocks else [(r.active_set, n)]:
        assert len(mixture) <= size + 1
    assert r.active_set.weights.min() > 0
    x = r.active_set.x
    np.testing.assert_allclose(x, r.x, rtol=0, atol=1e-14)
    g = np.asarray(f.gradient(f.point(x)))
    assert g @ x - C.lmo(g).dot(g) == pytest.approx(r.gap, abs=1e-13)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["pairwise", "away"])
@pytest.mark.parametrize("blocks", ["simplices", "mixed"])
def test_fewer_atoms_do_not_take_many_more_steps(blocks, method):
    n, C = sum(size for _, size in PRODUCTS[blocks]), fw.Product(PRODUCTS[blocks])
    problems = [regression(n, seed) for seed in range(3)]

    def steps(**options):
        results = [fw.minimize(f, C, method=KEEPING[method](**options), tol=1e-6) for f in problems]
        assert all(r.success for r in results)
        return sum(r.nit for r in results)

    assert steps() <= 1.2 * steps(prune=10**9)


@pytest.mark.parametrize("method", METHODS)
def test_pruned_runs_keep_an_atom_per_dimension_and_one(method):
    C, most = fw.ConvexHull(np.random.default_rng(5).standard_normal((60, 4))), []
    f = fw.Quadratic(np.diag([1.0, 2.0, 3.0, 4.0]), [0.1, 0.2, 0.0, -0.1])
    pruned, kept = (
        fw.minimize(f, C, method=KEEPING[method](prune=prune), callback=lambda s: most.append(len(s.memory.active)))
        for prune in (1, 10**9)
    )
    assert pruned.success
    assert max(most[: pruned.nit + 1]) <= 5
    assert max(most[pruned.nit + 1 :]) > 5 or method != "pairwise"
    assert pruned.fun == pytest.approx(kept.fun, abs=1e-6)
