"""Engine of JAX for diagonal constraints, compared with NumPy's engine, CVXPY and dense arrays."""

import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from fwflow._validation import InputError
from fwflow.methods.problem import never
from fwflow.semidefinite import device
from fwflow.semidefinite.cuts import maxcut
from fwflow.semidefinite.device import DeviceEngine, groups_of, kernels, layout, padded_lengths
from fwflow.semidefinite.operators import diagonal_map
from fwflow.semidefinite.problem import Problem
from fwflow.semidefinite.solver import solve


def symmetric(n, rows, cols, values):
    upper = sp.coo_array((values, (rows, cols)), (n, n))
    matrix = sp.csr_array(upper + upper.T)
    matrix.setdiag(0.0)
    matrix.eliminate_zeros()
    return matrix


def random_graph(n, degree, seed=0, weights="ones"):
    rng = np.random.default_rng(seed)
    rows, cols = rng.integers(0, n, (2, n * degree // 2))
    count = len(rows)
    values = {"ones": np.ones(count), "signs": rng.choice([-1.0, 1.0], count), "real": rng.standard_normal(count)}
    return symmetric(n, rows, cols, values[weights])


def star(n):
    return symmetric(n, np.zeros(n - 1, int), np.arange(1, n), np.ones(n - 1))


def torus(side, seed=0):
    node = np.arange(side * side).reshape(side, side)
    rows = np.concatenate([node.ravel(), node.ravel()])
    cols = np.concatenate([np.roll(node, -1, axis).ravel() for axis in (0, 1)])
    return symmetric(side * side, rows, cols, np.random.default_rng(seed).choice([-1.0, 1.0], len(rows)))


def hubs(n, seed=0):
    """Two connected nodes with many neighbours each, a sparse rest, and isolated nodes at the end."""
    rng = np.random.default_rng(seed)
    rest = random_graph(n - 10, 3, seed, "real").tocoo()
    ends = rng.integers(2, n - 10, (2, n // 2))
    rows = np.concatenate([rest.row, [0], np.zeros(n // 2, int), np.ones(n // 2, int)])
    cols = np.concatenate([rest.col, [1], ends[0], ends[1]])
    return symmetric(n, rows, cols, np.concatenate([rest.data, rng.standard_normal(2 * (n // 2) + 1)]))


GRAPHS = {
    "sparse": lambda: random_graph(60, 4, 1),
    "disconnected": lambda: sp.csr_array(sp.block_diag([random_graph(20, 3, s, "real") for s in range(3)])),
    "star": lambda: star(60),
    "complete": lambda: sp.csr_array(np.ones((40, 40)) - np.eye(40)),
    "hubs": lambda: hubs(120),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_products_values_and_shifts_agree_with_dense_arrays(name):
    A = GRAPHS[name]()
    n, rng = A.shape[0], np.random.default_rng(0)
    b = rng.uniform(0.5, 2.0, n)
    C = sp.csr_array(A + sp.diags_array(rng.standard_normal(n)))
    engine = DeviceEngine(C, b)
    Y = engine.from_numpy(rng.standard_normal((n, 3)))
    X = engine.to_numpy(Y)
    assert np.allclose((X**2).sum(axis=1), b, rtol=1e-14)
    size = abs(C).sum()
    assert engine.value(Y) == pytest.approx(np.vdot(X, C @ X), abs=1e-13 * size)
    roots = np.sqrt(b)
    G = roots[:, None] * A.toarray() * roots
    v = rng.standard_normal(n)
    with engine._double():
        image = np.asarray(kernels().matvec(engine._stacks, engine._placed(v)))
        along, lengths = kernels().evaluate(engine._stacks, Y)
    assert np.allclose(image[engine._place], G @ v, atol=1e-12)
    U = X / roots[:, None]
    assert np.allclose(np.asarray(along)[engine._place], ((G @ U) * U).sum(axis=1), atol=1e-12)
    assert np.allclose(np.asarray(lengths)[engine._place], np.linalg.norm(G @ U, axis=1), atol=1e-12)
    group = groups_of(engine.G)
    same = group[:, None] == group
    assert np.allclose(layout(engine.G).shifts, (np.abs(G) * same).sum(axis=1))


@pytest.mark.parametrize("name", ["complete", "hubs"])
def test_sweeps_without_momentum_lower_the_value(name):
    A = GRAPHS[name]()
    engine = DeviceEngine(A, np.ones(A.shape[0]))
    Y = engine.start(3, 0)
    values = [engine.value(Y)]
    with engine._double():
        for _ in range(10):
            Y = kernels().sweeps(engine._stacks, engine._shifts.astype(np.float32), Y, Y, np.float64(1), 1)[0]
            values.append(engine.value(Y))
    assert (np.diff(values) <= 1e-5 * abs(values[-1])).all()
    assert values[-1] < values[0]


def test_colourings_have_no_conflicts_on_sparse_graphs():
    for A in (random_graph(5000, 6), torus(60), star(300), random_graph(3000, 1)):
        group = groups_of(A)
        entries = A.tocoo()
        found = layout(A)
        conflicts = np.count_nonzero(group[entries.row] == group[entries.col])
        assert conflicts <= 1e-3 * A.nnz
        assert np.array_equal(np.sort(found.order[found.order >= 0]), np.arange(A.shape[0]))
        assert len(found.order) <= 1.2 * A.shape[0] + device._GROUPS * device._NODES
    assert len(np.unique(groups_of(star(300)))) == 2
    assert groups_of(sp.csr_array(np.ones((200, 200)) - np.eye(200))).max() == device._GROUPS - 1


def test_rows_are_padded_to_few_lengths():
    degrees = np.random.default_rng(0).poisson(6, 100_000)
    lengths = padded_lengths(degrees)
    assert (lengths >= degrees).all()
    assert len(np.unique(lengths)) <= device._LENGTHS
    assert lengths.sum() <= 1.5 * degrees.sum()
    assert padded_lengths(np.array([0, 0])).max() == 0
    assert padded_lengths(np.array([1000])).tolist() == [device._LONGEST]


def optimum(C, b):
    X = cp.Variable(C.shape, PSD=True)
    problem = cp.Problem(cp.Minimize(cp.trace(C.toarray() @ X)), [cp.diag(X) == b])
    return problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)


@pytest.mark.parametrize("name", ["disconnected", "star", "complete"])
def test_bounds_enclose_the_optimum_of_cvxpy(name):
    A = GRAPHS[name]()
    n, rng = A.shape[0], np.random.default_rng(5)
    b = rng.uniform(0.5, 2.0, n)
    C = sp.csr_array(A + sp.diags_array(rng.standard_normal(n)))
    r = solve(Problem(C, diagonal_map(n), b), 1e-5, backend="jax", max_time=60)
    best = optimum(C, b)
    assert r.success
    assert r.bound <= best + 1e-6 * abs(best)
    assert best <= r.value + 1e-6 * abs(best)
    assert r.gap <= 1e-5 * abs(r.bound)
    assert r.infeasibility <= 1e-14
    least = np.linalg.eigvalsh(C.toarray() - np.diag(r.y))[0]
    assert least >= -1e-12 * abs(C).sum()
    assert r.bound <= b @ r.y + 1e-10 * abs(r.bound)


@pytest.mark.parametrize(("A", "rtol"), [(torus(24), 1e-4), (hubs(700), 1e-4)])
def test_certificates_by_lanczos_hold_along_the_run(monkeypatch, A, rtol):
    n, found = A.shape[0], []
    certify = DeviceEngine.certify

    def kept(self, Y, goal, late):
        found.append(certify(self, Y, goal, late))
        return found[-1]

    monkeypatch.setattr(DeviceEngine, "certify", kept)
    problem = Problem(A, diagonal_map(n), np.ones(n))
    r = solve(problem, rtol, backend="jax", max_time=60)
    other = solve(problem, rtol, max_time=60)
    assert r.success
    assert other.success
    assert max(r.bound, other.bound) <= min(r.value, other.value)
    assert r.Y.dtype == np.float64
    for certificate in found:
        least = np.linalg.eigvalsh(A.toarray() - np.diag(certificate.y))[0]
        assert least >= -1e-12 * abs(A).sum()
        assert certificate.bound <= certificate.y.sum() + 1e-10 * abs(r.value)
        assert certificate.bound <= other.value


def test_the_rank_grows_where_it_is_too_small():
    A = random_graph(600, 6)
    r = solve(Problem(A, diagonal_map(600), np.ones(600)), 1e-4, backend="jax", rank=2, max_time=60)
    assert r.success
    assert r.rank > 4


def test_small_gaps_are_reached_in_double_precision():
    A = torus(10)
    p = Problem(A, diagonal_map(100), np.ones(100))
    r = solve(p, 1e-9, backend="jax", max_time=60)
    assert r.success
    assert r.bound <= solve(p, 1e-9).value


@pytest.mark.parametrize("A", [np.zeros((1, 1)), np.full((1, 1), 3.0), np.zeros((5, 5)), [[0.0, 2.0], [2.0, -1.0]]])
def test_tiny_problems(A):
    A = np.asarray(A)
    n = len(A)
    r = solve(Problem(A, diagonal_map(n), np.ones(n)), backend="jax")
    assert r.success
    assert r.value == pytest.approx(np.trace(A) - abs(A - np.diag(np.diag(A))).sum(), abs=1e-9)


def test_cuts_have_the_same_bound():
    A = GRAPHS["sparse"]()
    device_result, host_result = maxcut(A, backend="jax"), maxcut(A)
    assert device_result.success
    assert device_result.cut_value <= host_result.bound
    assert host_result.cut_value <= device_result.bound
    assert device_result.bound == pytest.approx(host_result.bound, rel=2e-4)


def test_runs_repeat_and_leave_the_precision_of_jax_alone():
    import jax.numpy as jnp

    A = GRAPHS["sparse"]()
    p = Problem(A, diagonal_map(60), np.ones(60))
    first, second = (solve(p, backend="jax", seed=3) for _ in range(2))
    assert first.bound == second.bound
    assert np.array_equal(first.Y, second.Y)
    assert jnp.asarray(1.0).dtype == jnp.float32


def test_a_time_limit_leaves_a_valid_bound():
    A = torus(24)
    p = Problem(A, diagonal_map(576), np.ones(576))
    r = solve(p, 1e-12, backend="jax", max_time=1e-3)
    assert not r.success
    assert r.bound <= solve(p, 1e-4).value


def test_a_time_limit_ends_the_lanczos_steps():
    A = torus(24)
    engine = DeviceEngine(A, np.ones(576))
    Y = engine.improve(engine.start(8, 0), None, 1.0, never).Y
    early, full = engine.certify(Y, 0.1, lambda: True), engine.certify(Y, 0.1, never)
    assert early.bound < full.bound < engine.value(Y)


def test_an_unknown_backend_is_an_error():
    with pytest.raises(InputError, match="backend='jaxx' is not known; did you mean 'jax'"):
        solve(Problem(np.eye(2), diagonal_map(2), np.ones(2)), backend="jaxx")
    with pytest.raises(InputError, match="backend='jax' needs a sparse C"):
        solve(Problem(np.eye(2), [np.eye(2)], [1.0]), backend="jax")


def test_missing_jax_gives_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jax", None)
    kernels.cache_clear()
    try:
        with pytest.raises(ImportError, match=r"pip install 'fwflow\[jax\]'"):
            solve(Problem(np.eye(2), diagonal_map(2), np.ones(2)), backend="jax")
    finally:
        kernels.cache_clear()


def test_the_module_does_not_import_jax():
    code = "import sys, fwflow.semidefinite.solver; sys.exit('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
