"""Runs from several starting points, and saddle points of functions that are not convex."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.optimize import quadratic_assignment as scipys

import fwflow as fw
from tests.assignment.instances import grid, hamming, tree, uniform


def assignment(A, B):
    return fw.Smooth(lambda X: (A * (X @ B @ X.T)).sum(), lambda X: A @ X @ B.T + A.T @ X @ B)


def concave(n, seed):
    H = np.random.default_rng(seed).standard_normal((n, n))
    return fw.Quadratic(-H @ H.T)


@pytest.mark.parametrize("seed", range(3))
def test_the_best_start_is_returned_with_all_values(seed):
    f, C = concave(6, seed), fw.Simplex()
    r = fw.minimize(f, C, method="fw", line_search="exact", starts=6, seed=seed)
    points = [None, *(C.random_start(seed + k, (6,)) for k in range(5))]
    alone = [fw.minimize(f, C, x0, method="fw", line_search="exact") for x0 in points]
    np.testing.assert_array_equal(r.start_values, [run.fun for run in alone])
    best = min(alone, key=lambda run: run.fun)
    assert r.fun == best.fun == min(r.start_values)
    np.testing.assert_array_equal(r.x, best.x)
    np.testing.assert_array_equal(r.trace["fun"], best.trace["fun"])
    assert r.n_grad == sum(run.n_grad for run in alone)
    assert r.n_lmo == sum(run.n_lmo for run in alone) + 5 * 8  # eight random vertices for each random start
    assert "best of 6 starts" in r.message


def test_one_start_is_an_ordinary_run():
    f = concave(4, 0)
    r, plain = fw.minimize(f, fw.Simplex(), starts=1, seed=7), fw.minimize(f, fw.Simplex())
    assert r.start_values is None
    assert (r.fun, r.n_lmo, r.message) == (plain.fun, plain.n_lmo, plain.message)


@pytest.mark.parametrize("C", [fw.Simplex(), fw.Birkhoff(2), "callable"], ids=str)
def test_counts_are_those_of_all_real_calls(C):
    calls = {"gradient": 0, "oracle": 0}
    inner = fw.Simplex() if C == "callable" else C

    def gradient(x):
        calls["gradient"] += 1
        return -2 * x

    class Counted(type(inner)):
        trusted = True

        def lmo(self, g, hint=None):
            calls["oracle"] += 1
            return super().lmo(g, hint)

    def oracle(g):
        calls["oracle"] += 1
        return np.asarray(fw.Simplex().lmo(g))

    counted = oracle if C == "callable" else (Counted(2) if isinstance(C, fw.Birkhoff) else Counted())
    shape = (2, 2) if isinstance(C, fw.Birkhoff) else (4,)
    f = fw.Smooth(lambda x: -(x**2).sum(), gradient, shape=shape)
    r = fw.minimize(f, counted, starts=4, method="fw", line_search="exact", max_iter=50)
    assert (r.n_grad, r.n_lmo) == (calls["gradient"], calls["oracle"])


def test_the_given_point_is_the_first_start_and_types_are_kept():
    f = fw.Smooth(lambda x: -(x**2).sum(), lambda x: -2 * x)
    x0 = np.array([0.2, 0.5, 0.3], dtype=np.float32)
    r = fw.minimize(f, fw.Simplex(), x0, starts=3)
    assert r.x.dtype == np.float32
    assert r.start_values[0] == fw.minimize(f, fw.Simplex(), x0).fun


def test_limits_hold_for_all_starts_together():
    f = assignment(*np.random.default_rng(0).random((2, 30, 30)))
    r = fw.minimize(f, fw.Birkhoff(30), starts=1000, max_time=0.5)
    assert r.status is fw.Status.TIME
    done = np.isfinite(r.start_values).sum()
    assert 1 <= done < 1000
    assert f"{1000 - done} more starts did not run" in r.message
    stopped = fw.minimize(f, fw.Birkhoff(30), starts=5, callback=lambda state: state.k >= 2)
    assert stopped.status is fw.Status.CALLBACK
    assert np.isfinite(stopped.start_values).sum() == 1


def test_an_interrupt_ends_all_starts():
    f, seen = assignment(*np.random.default_rng(0).random((2, 8, 8))), []

    def callback(state):
        seen.append(state.k)
        if len(seen) == 30:
            raise KeyboardInterrupt

    r = fw.minimize(f, fw.Birkhoff(8), starts=50, callback=callback, method="fw", tol=0, max_iter=12)
    assert r.status is fw.Status.INTERRUPTED
    assert np.isfinite(r.start_values).sum() == 3
    assert r.fun == np.nanmin(r.start_values)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": 0}, "starts must be an integer of at least 1"),
        ({"starts": 2, "seed": -1}, "seed must be an integer of at least 0"),
        ({"starts": 2, "max_time": -1.0}, "max_time must be a positive finite number; got float -1.0"),
        ({"starts": 2, "state": fw.minimize(concave(4, 0), fw.Simplex()).state}, "starts and state exclude"),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        fw.minimize(concave(4, 0), fw.Simplex(), **options)


def test_starts_need_a_shape_and_a_dense_x():
    f = fw.Smooth(lambda x: -(x**2).sum(), lambda x: -2 * x)
    with pytest.raises(ValueError, match="x0 is needed"):
        fw.minimize(f, fw.Simplex(), starts=2)
    completion = fw.MatrixCompletion([0, 1], [1, 0], [1.0, 2.0], (2, 2))
    with pytest.raises(ValueError, match="starts needs x as a dense array"):
        fw.minimize(completion, fw.NuclearBall(1.0), starts=2)


@pytest.mark.parametrize("seed", range(3))
def test_the_automatic_choice_leaves_saddle_points(seed):
    """All rows of Hamming distances have the same sum, so the gradient at the barycentre is constant and the gap 0."""
    A, B = hamming(4), tree(16, np.random.default_rng(seed))
    f, C = assignment(A, B), fw.Birkhoff(16)
    centre = np.full((16, 16), 1 / 16)
    stuck = fw.minimize(f, C, method="fw", line_search="exact")
    assert np.array_equal(stuck.x, centre)
    assert stuck.gap <= 1e-6
    r = fw.minimize(f, C)
    assert r.success
    assert r.fun < 0.8 * stuck.fun
    assert (np.diff(r.trace["fun"]) <= 1e-9 * stuck.fun).all()


@pytest.mark.parametrize("H", [np.diag([1.0, -3.0, 1.0]), -np.eye(3)], ids=["saddle", "maximum"])
def test_a_stationary_start_of_an_indefinite_quadratic_is_left(H):
    f = fw.Quadratic(H)
    r = fw.minimize(f, fw.LInfBall(1.0), np.zeros(3))
    assert r.success
    assert r.fun == pytest.approx(0.5 * np.linalg.eigvalsh(H).clip(max=0).sum())


def test_convex_functions_are_not_evaluated_at_vertices_outside_of_their_domain():
    f = fw.Smooth(lambda x: -np.log(x).sum(), lambda x: -1 / x, domain=lambda x: (x > 0).all())
    r = fw.minimize(f, fw.Simplex(), np.full(4, 0.25))
    assert r.success
    np.testing.assert_allclose(r.x, 0.25, atol=1e-6)


def test_black_box_assignment_is_as_good_as_faq_on_average():
    ours, others = [], []
    for kind, seed in itertools.product(["hamming", "uniform", "tree", "grid"], range(6)):
        rng = np.random.default_rng(seed)
        A = {"hamming": hamming(3 + seed % 2), "grid": grid(3, 4)}.get(kind, uniform(10 + seed, rng))
        n = len(A)
        B = tree(n, rng) if kind in ("hamming", "tree") else uniform(n, rng)
        p = linear_sum_assignment(-fw.minimize(assignment(A, B), fw.Birkhoff(n)).x)[1]
        best = fw.quadratic_assignment(A, B).value
        ours.append((A * B[np.ix_(p, p)]).sum() / best)
        others.append(scipys(A, B, options={"rng": rng}).fun / best)
    assert np.mean(ours) <= np.mean(others)


def test_a_wrong_gradient_does_not_lead_to_escapes_without_end():
    """The gradient is that of another function, so that the run comes back to a point that is not optimal."""
    f = fw.Smooth(lambda x: ((x - [1.0, 0.0, 0.0]) ** 2).sum(), lambda x: 2 * (x - [0.2, 0.4, 0.4]))
    r = fw.minimize(f, fw.Simplex(), np.full(3, 1 / 3), method="auto", max_iter=200)
    assert r.nit < 200
    assert r.status is not fw.Status.TOLERANCE
