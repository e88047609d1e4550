"""Geometries with known optima, their exponents, and the verdicts on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fwflow.reproduction import e9_geometries as e9
from fwflow.reproduction.claims import Verdict
from tests.reproduction.helpers import FAILS, HOLDS, PARTLY

GEOMETRIES = e9.geometries()


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_the_optimum_is_a_member_and_satisfies_the_optimality_condition(geometry):
    assert geometry.C.contains(geometry.x_star)
    assert geometry.C.contains(geometry.x0)
    if not geometry.g.any():
        return
    s = np.asarray(geometry.C.lmo(geometry.g))
    # <g, s> is the minimum over the set, so x^* is optimal if it has the same value
    assert np.sum(geometry.g * geometry.x_star) == pytest.approx(np.sum(geometry.g * s), abs=1e-14)


@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_the_error_is_the_difference_of_function_values_and_its_gradient_is_that_of_the_objective(geometry):
    random = np.random.default_rng(0)
    x, y = (random.standard_normal(geometry.x_star.shape) for _ in range(2))
    point = geometry.objective.point
    difference = geometry.objective.value(point(x)) - geometry.objective.value(point(y))
    assert geometry.error(x) - geometry.error(y) == pytest.approx(difference, rel=1e-12)
    assert geometry.error(geometry.x_star) == 0.0


def test_errors_below_the_rounding_of_the_function_are_exact():
    geometry = GEOMETRIES[e9.VERTEX]
    x = geometry.x_star.copy()
    x[0], x[1] = 1.0, 1e-20
    # d = (0, 1e-20, 0, ...), and the entry of g is 1
    assert geometry.error(x) == pytest.approx(1e-20, rel=1e-12)


@pytest.mark.parametrize(("method", "c"), [("fw", 3.0), ("rk44", 3.0)])
def test_the_clock_makes_the_weight_of_the_start_a_power_law(method, c):
    # At a vertex every oracle answer is the vertex, so the error is the weight of the start, up to a constant.
    run = e9.run(e9.VERTEX, method, c, 1000)
    assert run["reliable"]
    assert run["exponent"] == pytest.approx(c, abs=0.01)


def test_first_exponents_of_the_ball_and_the_face():
    # the table of the issue, where its fits are reliable: exponents on a ball equal c, and those on a face are capped
    for c in (1.0, 2.0):
        assert e9.run(e9.BALL, "fw", c, 2000)["exponent"] == pytest.approx(c, abs=0.15)
        assert e9.run(e9.ZERO, "fw", c, 2000)["exponent"] == pytest.approx(2.0, abs=0.15)
    assert e9.run(e9.FACE, "rk44", 1.0, 2000)["exponent"] == pytest.approx(1.0, abs=0.15)
    assert e9.run(e9.FACE, "rk44", 2.0, 2000)["exponent"] == pytest.approx(2.0, abs=0.15)


def test_the_first_step_of_fw_with_gamma_one_forgets_the_start():
    assert e9.run(e9.FACE, "fw", 1.0, 1000)["exponent"] > 1.7
    assert e9.run(e9.FACE, "fw", 1.0, 1000, k0=1)["exponent"] == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(("geometry", "rate"), [(e9.BALL, 1.0), (e9.ZERO, 2.0), (e9.VERTEX, 1.0), (e9.FACE, 1.0)])
def test_rates_of_the_flow(geometry, rate):
    assert e9.flow(geometry)["exponent"] == pytest.approx(rate, abs=0.02)


@pytest.mark.parametrize("geometry", [e9.INSIDE, e9.CENTRE])
def test_the_flow_reaches_an_optimum_inside_in_finite_time(geometry):
    fit = e9.Fit.of({name: np.atleast_1d(value) for name, value in e9.flow(geometry).items()})
    assert not fit.consistent
    assert "reached" in e9._flow_in_words(fit)


def results(settings, exponent, last=lambda run: 1e-6):
    """Runs whose exponents and last errors are given, and flows with rate 1."""

    def columns(value, end=1e-6):
        nan = np.array([math.nan])
        fitted = {"exponent": [value], "low": [value], "high": [value], "reliable": [1.0]}
        curve = {"k": [0, 1, 2], "error": [1.0, 0.5, 0.25], "last": [end], "saturated": nan}
        return {name: np.array(column) for name, column in (fitted | curve).items()}

    runs = {e9.key(*run): columns(exponent(*run), last(run)) for run in e9.cases(settings)}
    flows = {f"flow-{e9._slug(name)}": columns(1.0) for name in GEOMETRIES}
    return runs | flows | {e9.LATE: columns(1.0)}


def cap(geometry, method, c):
    if geometry in (e9.VERTEX, *e9.CURVED):
        return c
    return min(c, 3.0 if geometry == e9.FLAT else 2.0)


def verdict(found, words):
    (claim,) = (claim for claim in found.claims if words in claim.statement)
    return claim.verdict


def test_verdicts_follow_the_exponents():
    settings = e9.Settings()
    found = e9.findings(settings, results(settings, cap))
    assert verdict(found, "at least as fast as (c/(c+t))^c") is HOLDS
    assert verdict(found, "cannot improve on O(1/k)") is FAILS
    assert verdict(found, "strongly convex near the optimum") is HOLDS
    assert verdict(found, "at most 2 for every c") is HOLDS
    assert verdict(found, "at most 3 for every c") is HOLDS
    assert verdict(found, "higher order does not change") is HOLDS

    slow = e9.findings(settings, results(settings, lambda geometry, method, c: 1.0))
    assert verdict(slow, "cannot improve on O(1/k)") is HOLDS
    assert verdict(slow, "strongly convex near the optimum") is FAILS

    fast = e9.findings(settings, results(settings, lambda g, method, c: c + (method != "fw")))
    assert verdict(fast, "higher order does not change") is FAILS
    assert verdict(fast, "at most 2 for every c") is FAILS


def test_the_log_schedule_is_judged_by_the_errors_at_the_end():
    settings = e9.Settings()

    def last(run):
        better = run[0] in (e9.BALL, e9.VERTEX, e9.ELLIPSOID, e9.FLAT)
        return (1e-9 if better else 1e-3) if run[2] == e9.LOG else 1e-6

    found = e9.findings(settings, results(settings, cap, last))
    assert verdict(found, "log schedule") is PARTLY


def test_fits_that_are_not_reliable_do_not_count():
    settings = e9.Settings()
    doubtful = {
        name: columns | ({"reliable": np.array([0.0])} if not name.startswith("flow") else {})
        for name, columns in results(settings, cap).items()
    }
    found = e9.findings(settings, doubtful)
    assert verdict(found, "strongly convex near the optimum") is Verdict.UNTESTABLE
    assert all("?" in cell for row in found.tables[0].rows for cell in row[2:] if cell)
