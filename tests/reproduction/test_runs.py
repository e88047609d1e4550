"""Runs of methods: their columns, their ratios, and the tables that compare them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow.reproduction import e3_triangle, problems, runs, style
from fwflow.reproduction.claims import Case, Data, Topic
from fwflow.reproduction.problems import find_problem
from fwflow.steps.momentum import momenta
from tests.reproduction.helpers import HOLDS, PARTLY, UNTESTABLE, curve, gaps


def interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("trouble", [interrupt, lambda: float("nan")], ids=["interrupted", "not finite"])
def test_run_that_ends_early_is_not_passed_off_as_whole(serial, monkeypatch, trouble):
    seen = []

    def value(x):
        seen.append(x)
        return trouble() if len(seen) == 4 else 0.5

    p = replace(problems.triangle(), f=fw.Smooth(value, lambda x: x))
    monkeypatch.setitem(problems.PROBLEMS, "triangle", lambda: p)
    with pytest.raises((KeyboardInterrupt, ValueError, RuntimeError)):
        runs.run("triangle", {}, "fw", {}, 10)


def helps(results, methods):
    return runs.helps_more("momentum", "the data", "Figure 4", results, methods, Topic.MOMENTUM, Data.REAL)[0]


@pytest.mark.parametrize(("gap", "expected"), [(1.5, PARTLY), (1.01, PARTLY), (0.9, HOLDS)])
def test_methods_that_a_claim_holds_for_are_named(serial, gap, expected):
    methods = ("fw", "midpoint", "rk44")
    results = gaps(methods, {"plain": (1.0, 1.0), "momentum": (1.0, 0.1)})
    results["rk44-momentum"] = curve(gap)
    claim = helps(results, methods)
    assert claim.verdict is expected
    assert "Midpoint" in [case.name for case, vote in zip(claim.cases, claim.votes, strict=True) if vote == 1]
    assert claim.number.endswith(f"FW 1.00, Midpoint 10.00, RK44 {1 / gap:.2f}")
    assert claim.finding.startswith(f"data (real data) {'RK44' if gap < 1 else 'FW'} / ")
    assert claim.kinds == {Data.REAL}


@pytest.mark.parametrize("methods", [("fw",), ("rk44", "rk5")], ids=["FW alone", "without FW"])
def test_comparison_without_a_counterpart_is_not_testable(methods):
    results = gaps(methods, {"plain": (1.0, 1.0), "momentum": (0.5, 0.1)})
    assert helps(results, methods).verdict is UNTESTABLE


def test_cases_have_the_labels_of_methods():
    assert runs.cases({"rk38": 2.0, "mine.toml": 0.5}) == (Case("RK 3/8", 2.0), Case("mine", 0.5))


def measured(gap, calls=1):
    k = np.arange(len(gap))
    return {"k": k, "calls": calls * k, "gap": np.array(gap, dtype=float)}


curves = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=40)


@settings(deadline=None, max_examples=100, derandomize=True)
@given(first=curves, second=curves, calls=st.integers(1, 6))
def test_ratio_along_the_run(first, second, calls):
    one, other = measured(first, calls), measured(second)

    def smallest(gap, stages, spent):  # after so many calls
        return min(gap[1 : int(spent // stages) + 1])

    begin, end = calls, min(calls * (len(first) - 1), len(second) - 1)
    got_at, got = runs.curve_ratio(one, other, "calls")
    if end < begin:
        assert not len(got)
        return
    at = begin * (end / begin) ** (np.arange(200) / 199)
    at[[0, -1]] = begin, end
    expected = np.array([smallest(first, calls, x) / smallest(second, 1, x) for x in at + 1e-9])
    np.testing.assert_allclose(got_at, at, rtol=1e-9)
    agree = np.isclose(got, expected, rtol=1e-9)
    assert agree.mean() > 0.95  # a call number hit exactly may fall to either side
    mean, best, worst, end = runs._cells(got_at, got)
    assert (mean, end) == (f"{np.exp(np.log(got).mean()):.3g}", f"{got[-1]:.3g}")
    assert best == f"{got.max():.3g} at {got_at[got.argmax()]:.0f}"
    assert worst == f"{got.min():.3g} at {got_at[got.argmin()]:.0f}"


@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    pair=st.integers(2, 40).flatmap(lambda n: st.tuples(*[st.lists(st.floats(1e-6, 1e6), min_size=n, max_size=n)] * 2))
)
def test_ratio_has_an_inverse_and_is_the_same_against_calls(pair):
    one, other = (measured(gap, 4) for gap in pair)
    (at, ratio), (_, inverse) = runs.curve_ratio(one, other), runs.curve_ratio(other, one)
    np.testing.assert_allclose(ratio * inverse, 1.0, rtol=1e-12)
    assert runs.mean_ratio(one, other) == pytest.approx(np.exp(np.log(ratio).mean()), rel=1e-12)
    at_calls, calls = runs.curve_ratio(one, other, "calls")
    assert (calls[-1], calls.max(), calls.min()) == (ratio[-1], ratio.max(), ratio.min())
    assert at_calls[calls.argmax()] == pytest.approx(4 * at[ratio.argmax()])


def test_ratio_does_not_count_the_start_nor_gaps_that_nobody_computed():
    nan = float("nan")
    one, other = measured([1e-9, nan, 4.0, nan, 2.0]), measured([1.0, 8.0, nan, 1.0, nan])
    assert runs._cells(*runs.curve_ratio(one, other))[1:] == ["4 at 3", "0.5 at 2", "2"]


def test_curves_that_never_meet_have_no_ratio():
    short, costly = measured([1.0, 1.0, 1.0]), measured([1.0, 1.0], calls=6)
    assert runs._cells(*runs.curve_ratio(short, costly, "calls")) == ["-"] * 4
    assert np.isnan(runs.mean_ratio(short, measured([1.0])))


@pytest.mark.parametrize("method", ["rk44", "rk38"])
def test_line_search_helps_on_sensing_as_an_independent_look_found(method):
    # Between iterations 5 and 30 the best gap is lower by factors of 1.5 to 2.4.
    p = find_problem("sensing")
    plain, search = (
        problems.columns(problems.solve(p, 30, method=method, **variant))
        for variant in ({}, e3_triangle.VARIANTS["line search"])
    )
    k, r = runs.curve_ratio(plain, search)
    assert 1.4 <= r[k >= 5].min() <= r[k >= 5].max() <= 2.5


@pytest.mark.parametrize(
    ("gap", "expected"),
    [([100.0] * 18 + [1.0, 4.0], 2.0), ([5.0, 3.0], 3.0), ([7.0], 7.0), ([9.0] * 10 + [4.0], 4.0)],
)
def test_settled_is_the_geometric_mean_of_the_last_tenth(gap, expected):
    assert runs.settled({"gap": np.array(gap)}) == pytest.approx(expected, rel=1e-15)


def test_settled_survives_a_gap_of_zero():
    assert 0 < runs.settled({"gap": np.zeros(30)}) < 1e-200


def test_tables_compare_at_the_end_at_equal_calls_and_along_the_way(serial):
    results = {"fw-plain": curve(1.0), "rk44-plain": curve(1.0, 4), "fw-x": curve(0.5), "rk44-x": curve(0.125, 4)}
    found = runs.findings("name", "", "", "data", ("fw", "rk44"), {"plain": {}, "x": {"line_search": "exact"}}, results)
    ends, gained, ahead = found.tables
    assert ends.header[-1] == "gap after 100 calls"
    end = f"{runs.settled(results['fw-plain']):.3e}"
    last = f"{1 / 101:.6g}"
    assert ends.rows[:2] == [
        ("FW", "plain", end, last, "100", "50", "1.00", f"{1 / 101:.3e}"),
        ("RK44", "plain", end, last, "400", "50", "1.00", f"{1 / 26:.3e}"),
    ]
    assert gained.rows == [
        ("FW", "x", "2", "2 at 1", "2 at 1", "2"),
        ("RK44", "x", "8", "8 at 1", "8 at 1", "8"),
    ]
    assert [row[:2] for row in ahead.rows] == [("RK44", "plain"), ("RK44", "x")]
    assert ahead.rows[0][-1] == f"{26 / 101:.3g}"
    assert ahead.rows[1][-1] == f"{4 * 26 / 101:.3g}"
    assert found.data == ["data"]


def test_a_variant_may_be_left_out_of_the_figure_of_ratios(serial):
    results = gaps(("fw", "rk44"), dict.fromkeys(("plain", "a", "b"), (1.0, 1.0)))
    variants = {"plain": {}, "a": {"line_search": "exact"}, "b": {"line_search": "short"}}
    found = runs.findings("name", "", "", "data", ("fw", "rk44"), variants, results, aside="b")
    shown, along = ({s.name for ax in figure.figure.axes for s in style.series(ax)} for figure in found.figures)
    assert "RK44, b" in shown - along
    assert "RK44, a" in shown & along


@pytest.mark.parametrize(
    ("method", "options", "expected"),
    [
        ("rk44", {}, [0, 4, 8, 12, 16, 20]),
        *(("rk44", {"momentum": name}, [0, 4, 8, 12, 16, 20]) for name in momenta),
        ("fw", {"line_search": "aggressive"}, [0, 1, 2, 3, 4, 5]),
        ("away", {}, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_columns_count_the_calls_a_method_needs(method, options, expected):
    p = find_problem("triangle")
    result = fw.minimize(p.f, p.C, p.x0, method=method, tol=0, max_iter=5, **options)
    columns = problems.columns(result, options.get("momentum"))
    assert columns["calls"].tolist() == expected[: len(result.trace)]
    np.testing.assert_array_equal(columns["gap"], result.trace["gap"])
    np.testing.assert_array_equal(columns["passes"], result.trace["n_design"])
