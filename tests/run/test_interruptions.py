"""Interrupts, bad numbers and errors of users' functions."""

import numpy as np
import pytest

import fwflow as fw
from tests.catalogue import LINE_SEARCHES, design, targets
from tests.run.functions import (
    BALL,
    EPS,
    PLAIN,
    ROUND,
    X0,
    CountingDesign,
    assert_same_run,
    fun,
    grad,
    interrupted,
    iterates,
    oracle,
    poisoned,
    raising,
    smooth,
)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "options", [{"method": "fw"}, {"method": "rk44"}, {"line_search": "exact"}, {"momentum": "nesterov"}], ids=str
)
@pytest.mark.parametrize("call", [1, 2, 12, 13])
@pytest.mark.parametrize("where", ["fun", "grad", "lmo", "callback"])
def test_interrupt_returns_the_best_point_and_continues(where, call, options):
    r = interrupted(where, call, **options)
    assert (r.status, r.success) == (fw.Status.INTERRUPTED, False)
    assert r.message == fw.Status.INTERRUPTED.value
    assert r.fun == fun(r.x)
    assert r.fun == min(r.trace["fun"], default=fun(X0))
    g = grad(r.x)
    assert r.gap == pytest.approx(g @ r.x + np.abs(g).max(), abs=16 * EPS * np.abs(g).max())
    whole = fw.minimize(smooth(), oracle, X0, **(PLAIN | options))
    rest = fw.minimize(smooth(), oracle, state=r.state, **(PLAIN | options | {"max_iter": 30 - r.nit}))
    assert_same_run(rest, whole, columns=("fun", "gap"))


@pytest.mark.parametrize("where", ["fun", "grad", "lmo", "callback"])
def test_interrupt_keeps_the_step_column_whole(where):
    r = interrupted(where, 12)
    rest = fw.minimize(smooth(), oracle, state=r.state, tol=0, max_iter=30 - r.nit)
    assert_same_run(rest, fw.minimize(smooth(), oracle, X0, **PLAIN))


@pytest.mark.parametrize("where", ["matvec", "rmatvec", "lmo"])
def test_interrupt_of_the_final_verification_loses_nothing(where):
    def run(call, **options):
        parts = {"A": CountingDesign(design(12, 4)), "lmo": oracle}
        owner = parts if where == "lmo" else parts["A"].products
        owner[where] = raising(owner[where], call, KeyboardInterrupt)
        r = fw.minimize(fw.LinearModel(parts["A"], targets(12)), parts["lmo"], tol=0, **options)
        return r, owner[where].calls

    whole, calls = run(None, x0=X0, max_iter=30)
    try:
        r, _ = run(calls, x0=X0, max_iter=30)  # the last call is made to verify
    except KeyboardInterrupt:  # which would end the whole test run
        pytest.fail("the interrupt was passed on and the result lost")
    assert (r.status, r.nit) == (fw.Status.INTERRUPTED, 30)
    assert_same_run(run(None, state=r.state, max_iter=0)[0], whole)


def test_the_best_point_is_not_just_the_last():
    whole = fw.minimize(smooth(), oracle, X0, method="fw", **PLAIN)
    values = whole.trace["fun"]
    k = next(k for k in range(5, 30) if values[k] > values[:k].min())
    r = interrupted("callback", k + 1, method="fw")
    assert r.nit == k
    assert r.fun == values[: k + 1].min() < values[k]
    planned = fw.minimize(smooth(), oracle, X0, method="fw", tol=0, max_iter=k)
    assert planned.fun == values[k] == fun(planned.x)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["fun", "grad"])
@pytest.mark.parametrize("options", [{"method": "fw"}, {"method": "rk44"}, {"momentum": "nesterov"}], ids=str)
def test_bad_number_at_an_iterate(options, where, bad):
    points, clean = iterates(smooth(), ROUND, X0, tol=0, max_iter=9, **options)
    parts = {"fun": fun, "grad": grad}
    parts[where] = poisoned(parts[where], points[6], bad)
    r = fw.minimize(smooth(**parts), ROUND, X0, tol=0, max_iter=9, **options)
    assert (r.status, r.success, r.nit) == (fw.Status.NUMERICAL, False, 6)
    assert r.message.startswith(fw.Status.NUMERICAL.value)
    assert "iteration 6" in r.message
    assert r.fun == clean.trace["fun"][:6].min() == fun(r.x)
    assert np.isfinite(r.gap)
    np.testing.assert_array_equal(r.trace["fun"], clean.trace["fun"][:6])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize(("method", "stage"), [("heun", 1), ("rk44", 1), ("rk44", 3)])
def test_bad_gradient_at_a_stage(method, stage, bad):
    asked = []
    clean = fw.minimize(smooth(fun, lambda x: asked.append(x) or grad(x)), BALL, X0, method=method, **PLAIN)
    q = fw.tableaus[method].stages
    r = fw.minimize(smooth(fun, poisoned(grad, asked[5 * q + stage], bad)), BALL, X0, method=method, **PLAIN)
    assert (r.status, r.nit, len(r.trace)) == (fw.Status.NUMERICAL, 5, 6)
    assert "iteration 5" in r.message
    assert "gradient" in r.message
    assert r.fun == clean.trace["fun"][:6].min() == fun(r.x)


def test_bad_value_at_the_start():
    r = fw.minimize(smooth(lambda x: np.nan), BALL, X0)
    assert (r.status, r.nit, len(r.trace)) == (fw.Status.NUMERICAL, 0, 0)
    assert "iteration 0" in r.message
    assert np.isnan(r.fun)
    np.testing.assert_array_equal(r.x, X0)


def test_bad_gradient_at_the_start():
    r = fw.minimize(smooth(fun, lambda x: x * np.nan), BALL, X0)
    assert (r.status, r.nit, r.fun) == (fw.Status.NUMERICAL, 0, fun(X0))
    assert "iteration 0" in r.message
    assert np.isnan(r.gap)
    assert r.feasible is True


def test_bad_gradient_at_a_rounded_start_keeps_its_feasibility():
    # Membership has one tolerance, whatever the ending.
    x0 = np.array([1 + 1e-6, 0], dtype=np.float32)
    good = fw.minimize(fw.Smooth(lambda x: 1.0, lambda x: x), BALL, x0, max_iter=0)
    bad = fw.minimize(fw.Smooth(lambda x: 1.0, lambda x: x * np.nan), BALL, x0, max_iter=0)
    assert good.feasible is bad.feasible is True


def test_bad_vertex():
    points, clean = iterates(smooth(), oracle, X0, tol=0, max_iter=9)
    r = fw.minimize(smooth(), poisoned(oracle, grad(points[4]), np.nan), X0, tol=0, max_iter=9)
    assert (r.status, r.fun) == (fw.Status.NUMERICAL, clean.trace["fun"][:5].min())


def test_bad_number_off_the_checked_iterates():
    # The gradient at x^(k) is not asked for between the checks, so the run goes on.
    options = {"momentum": "nesterov", "check_every": 4, "tol": 0}
    points, clean = iterates(smooth(), ROUND, X0, max_iter=9, **options)
    f = smooth(fun, poisoned(grad, points[6], np.nan))
    assert fw.minimize(f, ROUND, X0, max_iter=9, **options).fun == clean.fun
    # A stop there asks for it after all.
    r = fw.minimize(f, ROUND, X0, callback=lambda state: state.k == 6, **options)
    assert (r.status, r.success, r.nit) == (fw.Status.NUMERICAL, False, 6)
    assert r.fun == clean.trace["fun"][:7].min() == fun(r.x)


@pytest.mark.parametrize(("line_search", "momentum"), [*((name, None) for name in LINE_SEARCHES), (None, "nesterov")])
def test_a_function_is_not_evaluated_outside_its_domain(line_search, momentum):
    def inside(x):
        return bool((x > 0).all())

    def log_barrier(x):
        assert inside(x)
        return float(-np.log(x).sum())

    def log_gradient(x):
        assert inside(x)
        return -1 / x

    f = fw.Smooth(log_barrier, log_gradient, domain=inside, smoothness=100.0)
    r = fw.minimize(f, fw.Simplex(), [0.2, 0.8], momentum=momentum, line_search=line_search, max_iter=20, check_every=5)
    assert inside(r.x)
    assert r.fun == log_barrier(r.x)


class Mine(Exception):
    pass


@pytest.mark.parametrize("error", [Mine("mine"), ValueError("mine"), ArithmeticError("mine"), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("call", [1, 5])
@pytest.mark.parametrize("where", ["fun", "grad", "lmo", "callback"])
def test_user_errors_propagate_unchanged(where, call, error):
    parts = {"fun": fun, "grad": grad, "lmo": oracle, "callback": lambda state: None}
    parts[where] = raising(parts[where], call, error)
    with pytest.raises(type(error)) as caught:
        fw.minimize(smooth(parts["fun"], parts["grad"]), parts["lmo"], X0, callback=parts["callback"])
    assert caught.value is error
