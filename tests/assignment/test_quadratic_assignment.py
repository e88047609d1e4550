"""Does `quadratic_assignment` find optimal permutations and valid bounds, and does it keep to its arguments?"""

import signal
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import quadratic_assignment as scipys

import fwflow as fw
from tests.assignment.instances import SMALL, brute_force, grid, hamming, skewed, tree, uniform, with_known_optimum


def value_of(A, B, C, p):
    n = len(p)
    return (A * B[np.ix_(p, p)]).sum() + (0.0 if C is None else C[np.arange(n), p].sum())


@pytest.mark.parametrize("name", SMALL)
def test_small_problems_are_solved_and_bounded(name):
    A, B, C = SMALL[name]
    r, optimum = fw.quadratic_assignment(A, B, C), brute_force(A, B, C)
    assert r.value == pytest.approx(optimum, abs=1e-9)
    assert r.bound <= optimum + 1e-12 * abs(optimum)
    assert sorted(r.permutation) == [*range(len(A))]
    assert r.value == pytest.approx(value_of(A, B, C, r.permutation), rel=1e-13)
    assert r.values.min() == pytest.approx(r.value, rel=1e-13)
    assert r.gap == r.value - r.bound
    assert (r.status, len(r.values)) == (fw.Status.FINISHED, 20)


@pytest.mark.parametrize("seed", range(3))
def test_a_known_optimum_is_found_and_proved(seed):
    A, B, optimum = with_known_optimum(14, np.random.default_rng(seed))
    r = fw.quadratic_assignment(A, B)
    assert r.value == optimum
    assert r.bound <= optimum


MEDIUM = {
    "grid": (grid(4, 5), uniform(20, np.random.default_rng(0), 10)),
    "uniform": (uniform(18, np.random.default_rng(1)), uniform(18, np.random.default_rng(2))),
    "skewed": (skewed(15, np.random.default_rng(3)), skewed(15, np.random.default_rng(4))),
    "hamming": (hamming(4), tree(16, np.random.default_rng(5))),
    "tree": (tree(18, np.random.default_rng(6)), uniform(18, np.random.default_rng(7))),
}


@pytest.mark.parametrize("name", MEDIUM)
def test_the_result_is_at_least_as_good_as_that_of_scipy(name):
    A, B = MEDIUM[name]
    rng = np.random.default_rng(0)
    others = [scipys(A, B, options={"P0": "randomized", "rng": rng}) for _ in range(20)]
    best = min(others, key=lambda other: other.fun)
    guess = np.column_stack([np.arange(len(A)), best.col_ind])
    other = scipys(A, B, method="2opt", options={"partial_guess": guess, "rng": rng}).fun
    r = fw.quadratic_assignment(A, B)
    assert r.value <= other
    assert r.bound <= r.value


@pytest.mark.parametrize("name", MEDIUM)
def test_no_swap_of_two_columns_improves_a_refined_result(name):
    A, B = MEDIUM[name]
    r = fw.quadratic_assignment(A, B, starts=3)
    rough = fw.quadratic_assignment(A, B, starts=3, refine=False)
    assert (r.values <= rough.values + 1e-9).all()
    for i in range(len(A)):
        for j in range(i):
            p = r.permutation.copy()
            p[[i, j]] = p[[j, i]]
            assert value_of(A, B, None, p) >= r.value


def test_two_calls_agree_and_seeds_differ():
    A, B = MEDIUM["uniform"]
    first, second, other = (fw.quadratic_assignment(A, B, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.permutation, second.permutation)
    np.testing.assert_array_equal(first.values, second.values)
    assert (first.values != other.values).any()


@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_matrices_give_the_same_result(form):
    rng = np.random.default_rng(0)
    A, B = tree(80, rng), tree(80, rng)
    dense = fw.quadratic_assignment(A, B, starts=2)
    r = fw.quadratic_assignment(form(A), form(B), form(np.zeros((80, 80))), starts=2)
    np.testing.assert_array_equal(r.permutation, dense.permutation)
    assert (r.value, r.bound) == (dense.value, dense.bound)


@pytest.mark.parametrize("dtype", [np.int32, np.float32, bool])
def test_types_of_numbers(dtype):
    A, B = (M % 2 for M in MEDIUM["grid"])
    r, expected = fw.quadratic_assignment(A.astype(dtype), B.tolist()), fw.quadratic_assignment(A, B)
    assert (r.value, r.bound) == (expected.value, expected.bound)


@pytest.mark.parametrize("seed", range(4))
def test_fixed_pairs(seed):
    rng = np.random.default_rng(seed)
    A, B, C = rng.integers(-9, 9, (3, 6, 6))
    fixed = [(0, 3), (4, 1), (0, 3)]
    r = fw.quadratic_assignment(A, B, C, fixed=fixed)
    assert r.permutation[[0, 4]].tolist() == [3, 1]
    assert r.value == brute_force(A, B, C, fixed)
    assert r.bound <= r.value


def test_all_rows_fixed():
    A, B = MEDIUM["skewed"]
    p = np.random.default_rng(0).permutation(15)
    r = fw.quadratic_assignment(A, B, fixed=list(enumerate(p)))
    np.testing.assert_array_equal(r.permutation, p)
    assert r.value == r.bound == value_of(A, B, None, p)


@pytest.mark.parametrize("sizes", [(4, 6), (6, 4)])
def test_unequal_sizes(sizes):
    rng = np.random.default_rng(1)
    A, B = rng.integers(-5, 9, sizes[:1] * 2), rng.integers(-5, 9, sizes[1:] * 2)
    C = rng.integers(0, 20, sizes)
    r = fw.quadratic_assignment(A, B, C, pad=True)
    n = max(sizes)
    padded = [np.pad(M, [(0, n - size) for size in M.shape]) for M in (A, B, C)]
    assert r.value == brute_force(*padded)
    assert r.bound <= r.value
    kept = np.flatnonzero(r.permutation >= 0)
    p = r.permutation[kept]
    assert len(r.permutation) == sizes[0]
    assert len(p) == min(sizes) == len(set(p))
    assert r.value == (A[np.ix_(kept, kept)] * B[np.ix_(p, p)]).sum() + C[kept, p].sum()


def test_graph_matching_finds_an_isomorphism():
    rng = np.random.default_rng(2)
    G = np.triu(rng.random((40, 40)) < 0.2, 1) * 1.0
    G += G.T
    hidden = rng.permutation(40)
    H = np.empty_like(G)
    H[np.ix_(hidden, hidden)] = G
    r = fw.quadratic_assignment(-G, H)
    assert -r.value == G.sum() == -r.bound
    np.testing.assert_array_equal(H[np.ix_(r.permutation, r.permutation)], G)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("kind", ["zero", "integers", "reals"])
def test_tiny_problems(size, kind):
    rng = np.random.default_rng(size)
    A, B = np.zeros((2, size, size)) if kind == "zero" else rng.standard_normal((2, size, size))
    if kind == "integers":
        A, B = np.rint(9 * A), np.rint(9 * B)
    r = fw.quadratic_assignment(A, B)
    assert r.value == pytest.approx(brute_force(A, B), abs=1e-12)
    assert r.bound <= r.value
    assert r.gap <= (1e-9 if size < 3 or kind == "zero" else np.inf)


def test_the_time_limit_leaves_a_permutation_and_a_valid_bound():
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2, 150, 150))
    began = time.perf_counter()
    r = fw.quadratic_assignment(A, B, starts=10_000, max_time=0.3)
    assert time.perf_counter() - began < 30  # 10 000 starts would take an hour
    assert r.status is fw.Status.TIME
    assert np.isnan(r.values).any()
    assert sorted(r.permutation) == [*range(150)]
    assert r.bound <= r.value
    assert "max_time" in r.message


def test_an_interrupt_returns_the_best_permutation(capfd):
    A, B = np.random.default_rng(0).standard_normal((2, 100, 100))
    timer = threading.Timer(0.5, signal.raise_signal, [signal.SIGINT])
    timer.start()
    r = fw.quadratic_assignment(A, B, starts=10_000, progress=True)
    timer.join()
    assert r.status is fw.Status.INTERRUPTED
    assert sorted(r.permutation) == [*range(100)]
    assert r.bound <= r.value
    assert "starts" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((np.ones((2, 3)), np.eye(2)), {}, r"^A must be a square matrix; got shape \(2, 3\)$"),
        ((np.eye(2), np.ones(2)), {}, r"^B must have 2 dimension"),
        ((np.zeros((0, 0)), np.zeros((0, 0))), {}, r"^A must be a square matrix"),
        ((np.eye(2), np.eye(3)), {}, r"^A and B have sizes 2 and 3; pad=True"),
        ((np.eye(2), np.eye(2), np.eye(3)), {}, r"^C has shape \(3, 3\); it must have the shape \(2, 2\)"),
        ((np.array([[0, np.nan], [1, 0]]), np.eye(2)), {}, r"^A must be finite; A\[0, 1\] is nan"),
        ((np.eye(2), sp.csr_array([[np.inf, 0], [0, 1]])), {}, r"^B must be finite; B\[0, 0\] is inf"),
        ((np.eye(2), np.eye(2) * 1j), {}, r"^B must be an array of real numbers"),
        ((1e200 * np.eye(2), 1e200 * np.eye(2)), {}, "overflow; divide them"),
        ((np.eye(2), np.eye(2)), {"starts": 0}, r"^starts must be an integer of at least 1; got int 0"),
        ((np.eye(2), np.eye(2)), {"seed": -1}, r"^seed must be an integer"),
        ((np.eye(2), np.eye(2)), {"max_time": 0}, r"^max_time must be a positive"),
        ((np.eye(3), np.eye(3)), {"fixed": [(0, 1), (0, 2)]}, r"\(0, 1\) and \(0, 2\) share a row of A; drop one"),
        ((np.eye(3), np.eye(3)), {"fixed": [(0, 1), (2, 1)]}, r"\(0, 1\) and \(2, 1\) share a row of B; drop one"),
        ((np.eye(3), np.eye(3)), {"fixed": [(0, 3)]}, r"^fixed must hold rows of B, from 0 to 2; got 3"),
        ((np.eye(3), np.eye(3)), {"fixed": [(-1, 0)]}, r"^fixed must hold rows of A, from 0 to 2; got -1"),
        ((np.eye(3), np.eye(3)), {"fixed": [(0.5, 0)]}, "from 0 to 2; got 0.5"),
        ((np.eye(3), np.eye(3)), {"fixed": [0, 1]}, r"^fixed must have 2 dimension"),
        ((np.eye(3), np.eye(3)), {"fixed": [(0, 1, 2)]}, "fixed must have two columns"),
    ],
)
def test_wrong_arguments(arguments, options, message):
    with pytest.raises(ValueError, match=message) as caught:
        fw.quadratic_assignment(*arguments, **options)
    assert "\n" not in str(caught.value)
