"""Active sets by block: optima, fewer oracle calls than one mixture needs, and states that go on exactly."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow.methods.active import Corrective
from fwflow.methods.restricted import blocks as blocks_module
from fwflow.methods.restricted.atoms import ActiveSet, Atoms
from fwflow.methods.restricted.blocks import BlockSet
from fwflow.points.point import Lifted
from fwflow.sets import CallableSet

METHODS = ("corrective", "blended-pairwise", "lazy-blended-pairwise")
HULLS = np.random.default_rng(7).standard_normal((3, 8, 4))
SHIFT = np.linspace(-1, 1, 12)


def pieces(x, n=4):
    return [x[i : i + n] for i in range(0, x.shape[0], n)]


def in_simplices(x, radius=1.0):
    return [c for part in pieces(x) for c in (part >= 0, cp.sum(part) == radius)]


def in_hulls(x, parts):
    weights = [cp.Variable(8, nonneg=True) for _ in HULLS]
    equal = [part == V.T @ w for part, V, w in zip(parts, HULLS, weights, strict=True)]
    return equal + [cp.sum(w) == 1 for w in weights]


def sum_of_hulls(x):
    parts = [cp.Variable(4) for _ in HULLS]
    return [x == sum(parts), *in_hulls(x, parts)]


def sum_of_balls(x):
    u = cp.Variable(x.shape[0])
    return [cp.norm1(u) <= 1, cp.abs(x - u) <= 0.1]


SIMPLICES = fw.Product([(fw.Simplex(), 4)] * 3)

#: name -> (set, blocks, what CVXPY is told of it, entries of x)
SETS = {
    "simplices": (SIMPLICES, 3, in_simplices, 12),
    "moved": ((2.0 * SIMPLICES) + SHIFT, 4, lambda x: in_simplices(x - SHIFT, 2.0), 12),
    "hulls": (fw.Product([(fw.ConvexHull(V), 4) for V in HULLS]), 3, lambda x: in_hulls(x, pieces(x)), 12),
    "single entries": (fw.Product([(fw.Box(-0.5, 0.25), 1)] * 12), 12, lambda x: [x >= -0.5, x <= 0.25], 12),
    "sum of hulls": (fw.MinkowskiSum(*map(fw.ConvexHull, HULLS)), 3, sum_of_hulls, 4),
    "sum of balls": (fw.MinkowskiSum(fw.L1Ball(1.0), fw.LInfBall(0.1)), 2, sum_of_balls, 12),
}


def data(n):
    rng = np.random.default_rng(3)
    return rng.standard_normal((2 * n, n)), 2 * rng.standard_normal(2 * n)


def labels(n):
    return np.where(data(n)[1] > 0, 1.0, -1.0)


def smooth(n, **offers):
    A, b = data(n)
    H, c = A.T @ A / n, b[:n]
    return fw.Smooth(
        lambda x: float(np.cosh(x - c).sum() + x @ H @ x / 2), lambda x: np.sinh(x - c) + H @ x, shape=n, **offers
    )


def curved(n):
    A, b = data(n)
    return smooth(n, hess_product=lambda x, v: np.cosh(x - b[:n]) * v + A.T @ (A @ v) / n)


def cosh(x, n):
    A, b = data(n)
    return cp.sum(cp.exp(x - b[:n]) + cp.exp(b[:n] - x)) / 2 + cp.sum_squares(A @ x) / (2 * n)


#: name -> (n -> objective, the same for CVXPY)
OBJECTIVES = {
    "squared": (lambda n: fw.LinearModel(*data(n)), lambda x, n: cp.sum_squares(data(n)[0] @ x - data(n)[1]) / (4 * n)),
    "quadratic": (
        lambda n: fw.Quadratic(data(n)[0].T @ data(n)[0] / n, data(n)[1][:n]),
        lambda x, n: cp.sum_squares(data(n)[0] @ x) / (2 * n) - data(n)[1][:n] @ x,
    ),
    "logistic": (
        lambda n: fw.LinearModel(data(n)[0], labels(n), "logistic"),
        lambda x, n: cp.sum(cp.logistic(cp.multiply(-labels(n), data(n)[0] @ x))) / (2 * n),
    ),
    "curved": (curved, cosh),
    "smooth": (smooth, cosh),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("method", METHODS)
def test_optima_agree_with_an_independent_solver(method, name, objective):
    C, count, constraints, n = SETS[name]
    make, formula = OBJECTIVES[objective]
    x = cp.Variable(n)
    problem = cp.Problem(cp.Minimize(formula(x, n)), constraints(x))
    problem.solve(solver=cp.CLARABEL)
    r = fw.minimize(make(n), C, method=method, tol=1e-7)
    assert r.success
    assert abs(r.fun - problem.value) <= 1e-6 * (1 + abs(problem.value))
    assert isinstance(r.active_set, BlockSet)
    assert len(r.active_set.blocks) == count
    for block in r.active_set.blocks:
        assert block.weights.min() > 0
        assert block.weights.sum() == pytest.approx(1.0, abs=1e-14)
    np.testing.assert_allclose(r.active_set, r.x, rtol=0, atol=1e-11)


class Whole(fw.Product):
    """A product that does not tell its parts."""

    def __init__(self, blocks):
        super().__init__(blocks)
        self.n_summands = 1


@pytest.mark.parametrize("objective", ["squared", "logistic", "curved", "smooth"])
@pytest.mark.parametrize(("method", "times"), [("corrective", 3), ("blended-pairwise", 3)])
def test_blocks_need_fewer_oracle_calls(method, times, objective):
    blocks, make = [(fw.Simplex(), 10)] * 20, OBJECTIVES[objective][0]
    f, options = make(200), {"method": method, "tol": 0, "rtol": 1e-6, "max_iter": 1500}
    apart, whole = fw.minimize(f, fw.Product(blocks), **options), fw.minimize(f, Whole(blocks), **options)
    assert isinstance(whole.active_set, ActiveSet)
    assert apart.success
    assert times * apart.n_lmo <= whole.n_lmo


def test_one_vertex_per_block_and_pass():
    f, C = OBJECTIVES["squared"][0](12), SIMPLICES
    sizes = []
    r = fw.minimize(f, C, method=Corrective(vertices=0), callback=lambda s: sizes.append(len(s.memory.active)) or False)
    assert r.success
    assert max(np.diff(sizes)) <= 3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SETS)
def test_states_go_on_exactly(method, name, tmp_path):
    C, _, _, n = SETS[name]
    f, options = OBJECTIVES["logistic"][0](n), {"method": method, "tol": 0}
    whole = fw.minimize(f, C, max_iter=9, **options)
    fw.minimize(f, C, max_iter=4, **options).state.save(tmp_path / "state")
    rest = fw.minimize(f, C, max_iter=5, state=fw.State.load(tmp_path / "state"), **options)
    np.testing.assert_array_equal(rest.x, whole.x)
    np.testing.assert_array_equal(rest.active_set.weights, whole.active_set.weights)
    for one, other in zip(rest.active_set.vertices, whole.active_set.vertices, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_starts_from_the_blocks_of_another(method):
    C, _, _, n = SETS["simplices"]
    f = OBJECTIVES["logistic"][0](n)
    first = fw.minimize(f, C, method="corrective", tol=1e-9)
    again = fw.minimize(f, C, first.active_set, method=method, tol=1e-8)
    assert again.nit <= 1
    assert len(again.active_set) == len(first.active_set)
    for other in ("away", "fw", "rk44", "lazy-pairwise"):  # as one mixture
        r = fw.minimize(f, C, first.active_set, method=other, tol=0, max_iter=0)
        np.testing.assert_allclose(r.x, first.x, atol=1e-15)
        np.testing.assert_allclose(r.active_set, first.x, atol=1e-14)


@pytest.mark.parametrize("method", METHODS)
def test_one_mixture_becomes_one_per_block(method):
    C, count, _, n = SETS["moved"]
    f = OBJECTIVES["squared"][0](n)
    pairwise = fw.minimize(f, C, method="pairwise", tol=1e-6).active_set
    assert isinstance(pairwise, ActiveSet)
    r = fw.minimize(f, C, pairwise, method=method, tol=0, max_iter=0)
    assert len(r.active_set.blocks) == count
    np.testing.assert_allclose(r.active_set, pairwise, atol=1e-14)


def test_blocks_of_another_set_are_not_taken_over():
    f = OBJECTIVES["squared"][0](12)
    wide = fw.minimize(f, 2.0 * SIMPLICES, method="corrective").active_set
    assert wide.fits(2.0 * SIMPLICES)
    assert not wide.fits(SIMPLICES)
    swapped = BlockSet((wide.blocks[0], wide.blocks[0], wide.blocks[2]))
    assert not swapped.fits(2.0 * SIMPLICES)


def test_a_point_that_cannot_be_split_has_one_mixture():
    C, _, _, n = SETS["sum of hulls"]
    inside = HULLS.mean(axis=1).sum(axis=0) * 0.99
    assert C.contains(inside) is True
    r = fw.minimize(OBJECTIVES["squared"][0](n), C, inside, method="corrective", tol=1e-8)
    assert r.success
    assert isinstance(r.active_set, ActiveSet)


@pytest.mark.parametrize("C", [fw.Simplex(), fw.Product([(fw.Simplex(), 12)]), fw.Simplex() + SHIFT])
def test_one_block_is_one_mixture(C):
    r = fw.minimize(OBJECTIVES["squared"][0](12), C, method="corrective")
    assert isinstance(r.active_set, ActiveSet)


@pytest.mark.parametrize("method", METHODS[:2])
def test_a_set_whose_oracle_does_not_know_its_parts_has_one_mixture(method):
    class Merged(fw.Product):
        def lmo(self, g, hint=None):
            return fw.DenseVertex(np.asarray(super().lmo(g)))

        def best_vertices(self, g, count, best):
            return [best]

        def lower_bound(self, g, vertex):
            return vertex.dot(g)

    r = fw.minimize(OBJECTIVES["squared"][0](12), Merged([(fw.Simplex(), 4)] * 3), method=method, tol=1e-6)
    assert r.success
    assert isinstance(r.active_set, ActiveSet)


def test_parts_that_the_oracle_does_not_allow_together_are_an_error():
    class Coupled(fw.Product):
        """The same entry in every block."""

        def lmo(self, g, hint=None):
            same = np.tile(g.reshape(3, 4).sum(axis=0), 3)
            return super().lmo(same)

        def best_vertices(self, g, count, best):
            return [best]

        def contains(self, x, tol=1e-9):
            return None

    with pytest.raises(ValueError, match=r"`summands` of .* lower value than `lmo`"):
        fw.minimize(OBJECTIVES["squared"][0](12), Coupled([(fw.Simplex(), 4)] * 3), method="corrective", max_iter=50)


@pytest.mark.parametrize("method", METHODS[:2])
def test_calls_of_oracles_that_are_functions_are_counted(method):
    calls = []

    def oracle(g):
        calls.append(1)
        return -np.sign(g)

    C = fw.MinkowskiSum(fw.Simplex(), CallableSet(oracle))
    r = fw.minimize(fw.Quadratic(np.eye(4), [0.5, 2.0, 0.1, 0.2]), C, method=method, tol=1e-6)
    assert r.success
    assert len(r.active_set.blocks) == 2
    assert r.n_lmo == len(calls)


@pytest.mark.parametrize("method", METHODS)
def test_single_precision_is_kept(method):
    A, b = data(12)
    f = fw.LinearModel(A.astype(np.float32), b.astype(np.float32))
    r = fw.minimize(f, SIMPLICES, method=method, tol=1e-3)
    assert r.success
    assert r.x.dtype == np.float32
    assert isinstance(r.active_set, BlockSet)


@pytest.mark.parametrize("method", METHODS[:2])
def test_results_have_an_affine_basis_per_block_at_most(method):
    rng = np.random.default_rng(0)
    C = fw.Product([(fw.ConvexHull(rng.standard_normal((40, 2))), 2), (fw.L2Ball(1.0), 2), (fw.Birkhoff(2), 4)])
    A = rng.standard_normal((16, 8))
    r = fw.minimize(fw.LinearModel(A, 0.1 * A @ rng.random(8)), C, method=method, tol=1e-8)
    assert [len(block) <= n + 1 for block, n in zip(r.active_set.blocks, (2, 2, 4), strict=True)] == [True] * 3
    np.testing.assert_allclose(r.active_set, r.x, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS[:2])
def test_very_many_blocks_go_in_groups(method, monkeypatch):
    monkeypatch.setattr(blocks_module, "_MOST", 5)
    C, _, _, n = SETS["single entries"]
    r = fw.minimize(OBJECTIVES["squared"][0](n), C, method=method, tol=1e-7)
    assert r.success
    assert len(r.active_set.blocks) == 5


@pytest.mark.parametrize("seed", range(5))
def test_functions_without_convexity_fall(seed):
    rng = np.random.default_rng(seed)
    M, c = rng.standard_normal((12, 12)), rng.standard_normal(12)
    wavy = fw.Smooth(
        lambda x: float(np.sin(M @ x).sum() - c @ x),
        lambda x: M.T @ np.cos(M @ x) - c,
        hess_product=lambda x, v: -M.T @ (np.sin(M @ x) * (M @ v)),
        shape=12,
    )
    for f in (fw.Quadratic(M + M.T, c), wavy):
        r = fw.minimize(f, SIMPLICES, method="corrective", tol=1e-6, max_iter=300)
        assert r.success
        assert np.diff(r.trace["fun"]).max(initial=0.0) <= 1e-9


def test_domains_are_kept():
    inside = []

    def domain(x):
        inside.append(bool((x > 0).all()))
        return inside[-1]

    f = fw.Smooth(
        lambda x: -float(np.log(x).sum()),
        lambda x: -1 / x,
        hess_product=lambda x, v: v / x**2,
        domain=domain,
        shape=12,
    )
    for method in METHODS[:2]:
        r = fw.minimize(f, (1.0 * SIMPLICES) + np.full(12, 0.01), method=method, tol=1e-8)
        assert r.success
        np.testing.assert_allclose(r.x, 0.26, atol=1e-5)


def test_members_read_as_those_of_one_mixture():
    r = fw.minimize(OBJECTIVES["quadratic"][0](12), SIMPLICES, method="corrective")
    active = r.active_set
    assert repr(active) == f"BlockSet({len(active)} vertices in 3 blocks)"
    assert len(active) == len(active.weights) == len(active.vertices)
    terms = zip(active.weights, active.vertices, strict=True)
    np.testing.assert_allclose(sum(w * np.asarray(v) for w, v in terms), r.x, atol=1e-14)
    with pytest.raises(ValueError, match="read-only"):
        active.weights[0] = 1.0


@pytest.mark.parametrize("times", [1, 2])
def test_both_decompositions_reduce_themselves_beyond_the_given_number_of_atoms_per_dimension(times):
    rng = np.random.default_rng(0)
    for k in (2 * times + 1, 2 * times + 2):
        atoms = Atoms(Lifted(fw.DenseVertex(v)) for v in rng.standard_normal((k, 2)))
        one = ActiveSet(atoms, rng.dirichlet(np.ones(k)))
        for active in (one, BlockSet((one, ActiveSet.starting_at(fw.Point(np.ones(2)))))):
            few = active.few(times)
            assert (few is active) == (k <= 2 * times + 1)
            np.testing.assert_allclose(few.x, active.x, rtol=0, atol=1e-14)
            assert len(few) <= max(3, k if few is active else 0) + len(active.starts) - 1


def test_every_atom_of_both_decompositions_is_replaced():
    f = fw.LinearModel(np.arange(6.0).reshape(3, 2), np.zeros(3))
    one = ActiveSet(Atoms(Lifted(fw.DenseVertex(v)) for v in np.eye(2)), np.array([0.25, 0.75]))
    for active in (one, BlockSet((one, one))):
        lifted = active.lifted(f)
        images = [f.design.matvec(np.asarray(vertex)) for vertex in active.vertices]
        np.testing.assert_array_equal([atom.image for atom in lifted.atoms], images)
        assert all(atom.image is None for atom in lifted.bare().atoms)
        np.testing.assert_array_equal(lifted.bare().weights, active.weights)
