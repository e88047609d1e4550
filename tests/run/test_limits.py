"""Tolerances, limits and callbacks end a run."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import fwflow as fw
from tests.run.functions import BALL, X0, fun, iterates, smooth


def test_absolute_tolerance():
    r = fw.minimize(smooth(), BALL, X0, method="fw", tol=1e-2)
    assert (r.status, r.success) == (fw.Status.TOLERANCE, True)
    assert r.message.startswith(fw.Status.TOLERANCE.value)
    gap = r.trace["gap"]
    assert gap[-1] <= 1e-2 < gap[:-1].min()
    assert r.gap == gap[-1]


@pytest.mark.parametrize("tol", [0, 1e-3, 10.0])
def test_relative_tolerance(tol):
    r = fw.minimize(smooth(), BALL, X0, tol=tol, rtol=0.02)
    gap = r.trace["gap"]
    threshold = max(tol, 0.02 * gap[0])
    assert r.success
    assert gap[-1] <= threshold < min(gap[:-1], default=np.inf)


def test_relative_tolerance_keeps_to_the_first_gap_when_resumed():
    whole = fw.minimize(smooth(), BALL, X0, tol=0, rtol=0.02)
    part = fw.minimize(smooth(), BALL, X0, tol=0, rtol=0.02, max_iter=whole.nit // 2)
    rest = fw.minimize(smooth(), BALL, tol=0, rtol=0.02, state=part.state)
    assert (rest.status, rest.nit) == (fw.Status.TOLERANCE, whole.nit)


def test_iteration_limit():
    r = fw.minimize(smooth(), BALL, X0, method="fw", max_iter=7)
    assert (r.status, r.success, r.nit, len(r.trace)) == (fw.Status.ITERATIONS, False, 7, 8)
    assert r.message == fw.Status.ITERATIONS.value
    assert r.gap > 1e-6


def test_time_limit(monkeypatch):
    seconds = iter(range(10**6))
    monkeypatch.setattr(sys.modules["fwflow.run.loop"], "time", SimpleNamespace(perf_counter=lambda: next(seconds)))
    r = fw.minimize(smooth(), BALL, X0, method="fw", max_time=5)
    # The clock is read once at the start and once per row: row k is written at k + 1 seconds.
    assert (r.status, r.success, r.nit) == (fw.Status.TIME, False, 4)
    assert r.trace["time"].tolist() == [1, 2, 3, 4, 5]
    more = fw.minimize(smooth(), BALL, method="fw", max_time=5, state=r.state)
    assert more.status is fw.Status.TIME
    assert more.nit > r.nit
    assert (np.diff(more.trace["time"]) > 0).all()
    assert more.trace["time"][-1] >= 10


def test_callback_stops():
    seen = []
    r = fw.minimize(smooth(), BALL, X0, callback=lambda state: seen.append(state.k) or state.k == 3)
    assert (r.status, r.success, r.nit, seen) == (fw.Status.CALLBACK, False, 3, [0, 1, 2, 3])
    assert r.message == fw.Status.CALLBACK.value


@pytest.mark.parametrize("value", [None, False, 0, np.False_])
def test_callback_goes_on(value):
    assert fw.minimize(smooth(), BALL, X0, max_iter=4, callback=lambda state: value).nit == 4


@pytest.mark.parametrize("options", [{"max_iter": 5}, {"tol": 1e-2}, {"max_iter": 0}], ids=str)
def test_callback_sees_every_iterate(options):
    rows = []
    r = fw.minimize(smooth(), BALL, X0, method="fw", callback=lambda s: rows.append((s.k, s.fun, s.gap)), **options)
    assert [row[0] for row in rows] == list(range(r.nit + 1))
    assert [row[1] for row in rows] == r.trace["fun"].tolist()
    assert [row[2] for row in rows] == r.trace["gap"].tolist()


@pytest.mark.parametrize("line_search", [None, "exact"])
def test_zero_tolerance_runs_to_the_limit(line_search):
    # The optimum is a vertex, reached with a gap of exactly zero.
    f = fw.Quadratic(np.eye(3), [3.0, 0.0, 0.0])
    r = fw.minimize(f, fw.Simplex(), tol=0, max_iter=30, line_search=line_search)
    assert (r.status, r.success, r.nit, r.gap) == (fw.Status.ITERATIONS, True, 30, 0.0)
    assert (r.trace["gap"][5:] == 0).all()


def test_no_iterations():
    r = fw.minimize(smooth(), BALL, X0, max_iter=0)
    assert (r.status, r.nit, len(r.trace)) == (fw.Status.ITERATIONS, 0, 1)
    np.testing.assert_array_equal(r.x, X0)
    assert r.fun == fun(X0)


def test_no_iterations_may_still_succeed():
    r = fw.minimize(smooth(), BALL, X0, max_iter=0, tol=100.0)
    assert (r.status, r.nit, r.success) == (fw.Status.TOLERANCE, 0, True)


@pytest.mark.parametrize(
    "options", [{"max_iter": 9}, {"tol": 0.5}, {"max_time": 1e-9}, {"tol": 0, "rtol": 0.1}], ids=str
)
def test_planned_ends_return_the_last_iterate(options):
    r = fw.minimize(smooth(), BALL, X0, **options)
    points, _ = iterates(smooth(), BALL, X0, tol=0, max_iter=max(r.nit, 1))
    np.testing.assert_array_equal(r.x, points[r.nit])
    np.testing.assert_array_equal(r.x, r.state.x)
    assert (r.fun, r.state.k) == (r.trace["fun"][-1], r.nit)
