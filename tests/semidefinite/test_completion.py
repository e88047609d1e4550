"""Is the completed matrix that of the smallest nuclear norm, with true bounds on both sides?"""

import cvxpy as cp
import numpy as np
import pytest

import fwflow as fw
from fwflow import semidefinite
from fwflow.semidefinite.completion import CompletionProgram


def observed(p, q, rank, count, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((p, rank)) @ rng.standard_normal((rank, q))
    i, j = np.divmod(rng.permutation(p * q)[:count], q)
    return M, i, j, M[i, j] + noise * rng.standard_normal(count)


@pytest.mark.parametrize(
    ("p", "q", "rank", "count", "noise"),
    [(8, 6, 1, 30, 0.0), (6, 9, 2, 25, 0.5), (7, 7, 3, 49, 0.0), (5, 1, 1, 3, 0.0), (10, 8, 2, 20, 0.0)],
)
def test_agrees_with_clarabel(p, q, rank, count, noise):
    _, i, j, v = observed(p, q, rank, count, noise)
    X = cp.Variable((p, q))
    problem = cp.Problem(cp.Minimize(cp.normNuc(X)), [X[i, j] == v])
    problem.solve(solver=cp.CLARABEL)
    r = semidefinite.completion(i, j, v, (p, q), max_time=60)
    assert r.success, r.message
    assert r.bound <= problem.value * (1 + 1e-6)
    assert problem.value <= r.value * (1 + 1e-6)
    found = r.Y[:p] @ r.Y[p:].T
    corrected = found.copy()
    corrected[i, j] = v
    # The value belongs to the corrected matrix, and the trace to the other one.
    assert np.linalg.norm(corrected, "nuc") <= r.value * (1 + 1e-9)
    assert np.linalg.norm(found, "nuc") <= np.sum(r.Y**2) / 2 * (1 + 1e-9)
    assert r.infeasibility == pytest.approx(np.linalg.norm(found[i, j] - v) / (1 + np.linalg.norm(v)), abs=1e-12)


def test_a_matrix_of_low_rank_is_recovered_from_a_sixth_of_its_entries():
    M, i, j, v = observed(120, 100, 2, 3000)
    r = semidefinite.completion(i, j, v, M.shape)
    assert r.success
    assert r.bound <= np.linalg.norm(M, "nuc") * (1 + 1e-9)
    np.testing.assert_allclose(r.Y[:120] @ r.Y[120:].T, M, atol=0.02)


def test_bounds_are_true_along_a_whole_run(monkeypatch):
    M, i, j, v = observed(20, 15, 2, 160)
    certify, seen = CompletionProgram.certify, []

    def recorded(self, point, goal):
        found = certify(self, point, goal)
        G = np.zeros(M.shape)
        G[i, j] = found.y
        assert np.linalg.norm(G, 2) <= 1 + 1e-12  # the multipliers are feasible for the dual program
        assert found.bound <= v @ found.y + 1e-9
        seen.append(found.bound)
        return found

    monkeypatch.setattr(CompletionProgram, "certify", recorded)
    r = semidefinite.completion(i, j, v, M.shape)
    assert r.success
    assert len(seen) > 5
    assert max(seen) == r.bound


def test_a_bound_on_the_trace_is_a_constraint():
    _, i, j, v = observed(8, 6, 1, 30)
    norm = semidefinite.completion(i, j, v, (8, 6)).value
    assert semidefinite.completion(i, j, v, (8, 6), trace=2.5 * norm).success
    r = semidefinite.completion(i, j, v, (8, 6), trace=1.5 * norm, max_time=30)
    assert r.status is fw.Status.INFEASIBLE
    assert not r.success


def test_zeros_and_no_entries():
    for i, v in ([0, 1], [0.0, 0.0]), ([], []):
        r = semidefinite.completion(i, i, v, (3, 4))
        assert r.success
        assert r.bound == 0
        assert r.value == pytest.approx(0, abs=1e-12)


def test_errors():
    for arguments, message in [
        (([0], [0, 1], [1.0], (2, 2)), "one entry each"),
        (([2], [0], [1.0], (2, 2)), "rows has index 2"),
        (([0], [3], [1.0], (2, 2)), "cols has index 3"),
        (([-1], [0], [1.0], (2, 2)), "rows must be nodes"),
        (([0, 0], [1, 1], [1.0, 2.0], (2, 2)), "row 0 and column 1 is given twice"),
        (([0], [0], [np.nan], (2, 2)), "values must be finite"),
        (([0], [0], [1.0], (2, 2, 2)), "shape must have two numbers"),
        (([0], [0], [1.0], (0, 2)), "shape must be"),
        (([0], [0], [1.0], (2, 2), -1.0), "trace must be a positive"),
    ]:
        with pytest.raises(ValueError, match=message):
            semidefinite.completion(*arguments)
