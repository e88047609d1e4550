"""Threads of BLAS: one during runs, all for functions of the user and large products, and as before afterwards."""

from contextlib import ExitStack, suppress

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController, threadpool_limits

import fwflow as fw
from fwflow import _numerics, _threads, semidefinite
from tests.catalogue import design, targets

A, B = design(30, 8), targets(30)


#: The libraries of NumPy and SciPy. A library that another package brings along may ignore the number of threads.
LIBRARIES = [
    library
    for library in ThreadpoolController().select(user_api="blas").lib_controllers
    if "numpy" in library.filepath or "scipy" in library.filepath
]


def threads():
    return {library.num_threads for library in LIBRARIES}


@pytest.fixture(autouse=True)
def two_threads():
    """Two threads, as on a machine whose user has set nothing."""
    with threadpool_limits(2, user_api="blas"):
        yield
        assert threads() == {2}


class Watched(fw.L1Ball):
    """A set that notes the threads of its oracle calls."""

    def __init__(self, radius=1.0):
        super().__init__(radius)
        self.seen = set()

    def lmo(self, g, hint=None):
        self.seen |= threads()
        return super().lmo(g, hint)


def watched(function, seen):
    def noting(*arguments, **options):
        seen.extend(threads())
        return function(*arguments, **options)

    return noting


@pytest.mark.parametrize("method", ["auto", "fw", "corrective", "pairwise"])
def test_a_run_computes_on_one_thread(method):
    C = Watched()
    fw.minimize(fw.LinearModel(A, B), C, method=method)
    assert C.seen == {1}


def test_the_choice_of_a_method_computes_on_one_thread(monkeypatch):
    seen = []
    monkeypatch.setattr(scipy.linalg, "svd", watched(scipy.linalg.svd, seen))
    f = fw.Smooth(lambda X: float((X**2).sum()) / 2, lambda X: X, shape=(4, 3))
    fw.minimize(f, fw.SchattenBall(np.inf), np.eye(4, 3), max_iter=1)
    assert set(seen) == {1}


CYCLE = np.roll(np.eye(5), 1, axis=0) + np.roll(np.eye(5), -1, axis=0)
PROGRAMS = {
    "theta": lambda: semidefinite.theta([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], 5),
    "low-rank": lambda: semidefinite.theta([(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)], 5, method="low-rank"),
    "diagonal": lambda: semidefinite.solve(semidefinite.Problem(sp.csr_array(CYCLE), np.eye(5).tolist(), np.ones(5))),
    "assignment": lambda: fw.quadratic_assignment(A[:5, :5], A[5:10, :5]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_other_loops_compute_on_one_thread(name, monkeypatch):
    seen = []
    quiet = _numerics._quiet
    monkeypatch.setattr(quiet, "run", watched(quiet.run, seen))
    monkeypatch.setattr(scipy.linalg, "eigh", watched(scipy.linalg.eigh, seen))
    PROGRAMS[name]()
    assert set(seen) == {1}


def test_functions_of_the_user_have_all_threads():
    seen = []
    f = fw.Smooth(
        watched(lambda x: float(x @ x) / 2, seen),
        watched(lambda x: x, seen),
        hess_product=watched(lambda x, v: v, seen),
        domain=watched(lambda x: True, seen),
    )
    C = watched(lambda g: np.eye(3)[g.argmin()], seen)
    fw.minimize(f, C, np.eye(3)[0], callback=watched(lambda state: False, seen))
    assert len(seen) > 10
    assert set(seen) == {2}


def test_a_run_inside_of_a_function_computes_on_one_thread():
    C = Watched()

    def value(x):
        fw.minimize(fw.LinearModel(A, B), C, max_iter=3)
        assert threads() == {2}
        return float(x @ x) / 2

    fw.minimize(fw.Smooth(value, lambda x: x), fw.Simplex(), np.eye(3)[0], max_iter=3)
    assert C.seen == {1}


@pytest.mark.parametrize(("large", "expected"), [(100, 2), (10**4, 1)])
def test_large_products_have_all_threads(monkeypatch, large, expected):
    seen = []
    monkeypatch.setattr(_numerics, "LARGE", large)
    quiet = _numerics._quiet
    monkeypatch.setattr(quiet, "run", watched(quiet.run, seen))
    fw.minimize(fw.LinearModel(A, B), fw.L1Ball(1.0), method="fw", max_iter=3)
    assert expected in seen
    assert threads() == {2}


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, ValueError])
def test_threads_are_restored_after_an_exception(error):
    def failing(x):
        raise error

    with suppress(error):
        fw.minimize(fw.Smooth(failing, lambda x: x), fw.Simplex(), np.eye(3)[0])
    assert threads() == {2}


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_runs_of_several_threads_end_in_any_order(order):
    runs = [ExitStack(), ExitStack()]
    for run in runs:
        run.enter_context(_threads.one_thread())
    runs[order[0]].close()
    assert threads() == {1}
    runs[order[1]].close()
    assert threads() == {2}


def test_one_thread_stays_one_thread():
    with threadpool_limits(1, user_api="blas"):
        seen = []
        f = fw.Smooth(watched(lambda x: float(x @ x) / 2, seen), lambda x: x)
        fw.minimize(f, fw.Simplex(), np.eye(3)[0])
        assert set(seen) | threads() == {1}
