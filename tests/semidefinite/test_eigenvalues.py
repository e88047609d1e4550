"""Lower bounds on smallest eigenvalues, compared with dense eigenvalues."""

import numpy as np
import pytest
import scipy.sparse as sp

from fwflow.methods.problem import never
from fwflow.semidefinite import eigenvalues
from fwflow.semidefinite.eigenvalues import is_cheap, smallest_eigenvalue
from fwflow.semidefinite.operators import CallableOperator, SparseOperator
from fwflow.sets.lanczos import HostRecurrence, long_lanczos


def spectra(n, rng):
    """Eigenvalues that are hard for Lanczos steps without orthogonalisation."""
    half = n // 2
    return {
        "uniform": rng.uniform(-1, 1, n),
        "cluster at the end": np.r_[
            np.full(half, 1.0) + 1e-9 * rng.standard_normal(half), rng.uniform(-1, 0.5, n - half)
        ],
        "singular": np.r_[np.zeros(20), -(rng.uniform(0, 2, n - 20) ** 3)],
        "one just outside": np.r_[1e-4, -rng.uniform(0, 2, n - 1)],
        "one nearly hidden": np.r_[1e-8, -rng.uniform(0, 2, n - 1)],
        "geometric": -np.geomspace(1e-12, 1, n),
        "few": rng.integers(0, 5, n).astype(float),
        "wide": np.r_[-1e8, -1e4 * rng.random(n - 2), 1e-3],
        "double": np.repeat(rng.uniform(-1, 1, half), 2),
    }


def rotated(values, rng):
    n = len(values)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (Q * values) @ Q.T
    return (A + A.T) / 2


@pytest.mark.parametrize("kind", spectra(60, np.random.default_rng(0)))
@pytest.mark.parametrize("most", [30, 2000])
def test_lanczos_steps_never_underestimate(kind, most):
    rng = np.random.default_rng(1)
    values = spectra(200, rng)[kind]
    A = rotated(values, rng)
    top, size = np.linalg.eigvalsh(A)[-1], np.abs(values).max()
    for share in (1e-2, 1e-6, 1e-10):
        steps = HostRecurrence(lambda v: A @ v, 200, 0)
        found = long_lanczos(steps, lambda value, s=share: s * size, lambda value: 3, most, never)
        assert found.bound >= top - 1e-15 * size
        assert found.value <= top + 1e-12 * size
        quotients = np.diag(found.vectors.T @ A @ found.vectors)
        assert (quotients <= top + 1e-12 * size).all()
        assert np.allclose(found.vectors.T @ found.vectors, np.eye(found.vectors.shape[1]), atol=1e-8)


def test_many_steps_give_tight_bounds():
    rng = np.random.default_rng(2)
    A = rotated(np.r_[1e-3, -rng.uniform(0, 2, 399)], rng)
    steps = HostRecurrence(lambda v: A @ v, 400, 0)
    found = long_lanczos(steps, lambda value: 1e-8, lambda value: 1, 3000, never)
    assert found.bound - np.linalg.eigvalsh(A)[-1] <= 2e-8


def test_a_time_limit_leaves_a_valid_bound():
    A = rotated(np.linspace(-1, 1, 100), np.random.default_rng(3))
    steps = HostRecurrence(lambda v: A @ v, 100, 0)
    found = long_lanczos(steps, lambda value: 0.0, lambda value: 1, 3000, lambda: True)
    assert found.bound >= 1.0 - 1e-12


def grid(k, rng):
    line = sp.diags_array([np.ones(k - 1)], offsets=[1], shape=(k, k))
    A = sp.kron(line, sp.eye_array(k)) + sp.kron(sp.eye_array(k), line)
    A = sp.triu(A, 1, format="coo")
    A.data = rng.standard_normal(len(A.data))
    return sp.csr_array(A + A.T)


@pytest.mark.parametrize("shift", [0.0, 1e-6, 3.0, -5.0])
@pytest.mark.parametrize("slack", [1e-2, 1e-9])
def test_all_proofs_agree_with_dense_eigenvalues(monkeypatch, shift, slack):
    rng = np.random.default_rng(4)
    A = grid(21, rng)
    least = np.linalg.eigvalsh(A.toarray())[0]
    S = SparseOperator(sp.csr_array(A + (shift - least) * sp.eye_array(A.shape[0])))
    exact = np.linalg.eigvalsh(S.matrix.toarray())[0]
    assert is_cheap(S.matrix)
    by_factors = smallest_eigenvalue(S, slack, count=3)
    by_lanczos = smallest_eigenvalue(CallableOperator(lambda v: S.matrix @ v, S.n), slack, count=3)
    assert by_factors.shifted is not None
    assert by_lanczos.shifted is None
    monkeypatch.setattr(eigenvalues, "_DENSE", 500)
    by_eigh = smallest_eigenvalue(S, slack, count=3)
    for found in (by_factors, by_lanczos, by_eigh):
        assert found.bound <= exact + 1e-13
        assert found.value >= exact - 1e-12
        assert found.value <= exact + 1e-2 * (1 + abs(exact))
    assert by_eigh.bound >= exact - 1e-12 * S.n
    assert by_lanczos.bound >= exact - 2 * slack - 1e-9
    assert by_factors.bound >= exact - 4 * slack - 1e-9


def test_factors_solve_the_shifted_system():
    A = grid(21, np.random.default_rng(5))
    found = smallest_eigenvalue(SparseOperator(A), 1e-3)
    B = np.random.default_rng(6).standard_normal((A.shape[0], 2))
    X = found.shifted.solve(B)
    assert np.allclose(A @ X + found.shifted.shift * X, B)


def test_a_singular_matrix_of_zeros():
    n = 500
    found = smallest_eigenvalue(SparseOperator(sp.csr_array((n, n))), 1e-6)
    assert -2e-6 <= found.bound <= 0


def test_dense_graphs_are_not_factorised(monkeypatch):
    monkeypatch.setattr(eigenvalues, "_ENVELOPE", 100)
    A = sp.csr_array(np.ones((60, 60)))
    assert not is_cheap(A)
    assert is_cheap(sp.csr_array(sp.diags_array([np.ones(59), np.ones(59)], offsets=[1, -1])))
