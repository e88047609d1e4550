"""Verdicts of claims, from the tests that agree and disagree with them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fwflow.reproduction import framework, report, style
from fwflow.reproduction.claims import LEADS, Case, Claim, Data, Topic, Verdict, VerdictRule, data_words
from tests.reproduction.helpers import FAILS, HOLDS, PARTLY, UNTESTABLE


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ([], UNTESTABLE),
        ([1], HOLDS),
        ([0], FAILS),
        ([-1], FAILS),
        ([1, 1, 0], HOLDS),
        ([1, 0], PARTLY),  # half is not most
        ([1, 1, 1, -1], PARTLY),
        ([1, -1], PARTLY),
        ([1, 0, 0, 0, 0], PARTLY),
        ([1, -1, -1], FAILS),
        ([0, 0, -1], FAILS),
    ],
)
def test_verdicts(said, expected):
    assert Verdict.of(said) is expected


@settings(deadline=None, max_examples=200, derandomize=True)
@given(said=st.lists(st.sampled_from([1, 0, -1]), min_size=1, max_size=7), which=st.integers(0, 6))
def test_a_case_more_for_a_statement_never_makes_its_verdict_worse(said, which):
    rank = [FAILS, PARTLY, HOLDS]
    better = [1 if i == which % len(said) else says for i, says in enumerate(said)]
    assert rank.index(Verdict.of(better)) >= rank.index(Verdict.of(said))
    if Verdict.of(said) is HOLDS:  # and its opposite does not
        assert Verdict.of([-says for says in said]) is FAILS


@settings(deadline=None, max_examples=200, derandomize=True)
@given(value=st.floats(1e-3, 1e3), bar=st.floats(0.1, 10), noise=st.floats(1.0, 2.0))
def test_rules(value, bar, noise):
    above, below = VerdictRule.above("", bar, noise), VerdictRule.below("", bar, noise)
    assert above.vote(value) == (1 if value >= bar * noise else -1 if value < bar / noise else 0)
    assert below.vote(value) == (1 if value <= bar / noise else -1 if value > bar * noise else 0)


def test_rule_with_two_sides():
    rule = VerdictRule("", (0.8, 1.2), (0.5, 1.5))
    assert [rule.vote(v) for v in (0.4, 0.5, 0.8, 1.0, 1.2, 1.5, 1.6)] == [-1, 0, 1, 1, 1, 0, -1]


def claim(*values, **options):
    cases = tuple(Case(f"case {i}", value) for i, value in enumerate(values))
    return Claim("statement", "Figure 1", VerdictRule.above("words"), cases, "number", **options)


def test_a_case_without_a_number_says_nothing():
    assert claim(2.0, float("nan")).verdict is HOLDS
    assert claim(float("nan")).verdict is UNTESTABLE


def test_cases_by_what_they_say():
    c = claim(2.0, 1.0, 0.5, 3.0)
    assert c.votes == [1, 0, -1, 1]


@settings(deadline=None, max_examples=200, derandomize=True)
@given(value=st.one_of(st.floats(1e-6, 1e6), st.floats(1.0499, 1.0501), st.floats(0.9522, 0.9525)))
def test_a_shown_number_says_what_the_number_says(value):
    c = claim(value)
    assert c.rule.vote(float(c.shown(c.cases[0]))) == c.rule.vote(value)
    assert float(c.shown(c.cases[0])) == pytest.approx(value, rel=5e-3)


def test_shown_numbers_are_short():
    assert [c.shown(c.cases[0]) for c in (claim(1.23456), claim(1.0497), claim(208.04))] == ["1.23", "1.0497", "208"]


def test_sentences_judge_the_cases_of_a_topic_together():
    claims = [
        ("E4", claim(2.0, 2.0, topic=Topic.MOMENTUM, finding="first", data=Data.REAL)),
        ("E5", claim(0.5, topic=Topic.MOMENTUM, finding="second", data=Data.GENERATED)),
        ("E1", claim(2.0, topic=Topic.FLOW)),
        ("E1", claim(0.5)),
        ("E8", claim(topic=Topic.RATE)),
    ]
    flow, momentum = report.headlines(claims)
    assert flow == (Topic.FLOW.value, HOLDS, "1 of 1 tests agree", {Data.EXACT}, [claims[2]])
    expected = f"2 of 3 tests agree and 1 disagrees. {LEADS[Topic.MOMENTUM]}: first; second"
    assert momentum[1:] == (PARTLY, expected, {Data.REAL, Data.GENERATED}, claims[:2])


def test_a_statement_on_every_case_is_refuted_by_one():
    assert claim(2.0, 3.0, 0.5).verdict is PARTLY
    assert claim(2.0, 3.0, 0.5, every=True).verdict is FAILS
    assert claim(2.0, 3.0, 1.0, every=True).verdict is HOLDS


def test_cases_have_the_data_of_their_claim_unless_they_name_their_own():
    cases = (Case("a", 2.0), Case("b", 2.0, data=Data.REAL))
    c = Claim("statement", "Figure 1", VerdictRule.above("words"), cases, "number", data=Data.GENERATED)
    assert [case.data for case in c.cases] == [Data.GENERATED, Data.REAL]
    assert c.kinds == {Data.GENERATED, Data.REAL}
    assert data_words(c.kinds) == "real and generated"
    assert data_words(Data) == "real, generated and exact"
    assert data_words([Data.EXACT]) == "exact"


def test_first_screen_has_the_gains_of_all_experiments():
    gains = [
        Claim("", "", VerdictRule.above(""), (Case("RK44", value), Case("RK5", 2.0)), "", topic=topic, short=short)
        for topic, short, value in ((Topic.MOMENTUM, "momentum, b", 4.0), (Topic.SEARCH, "line search, a", 3.0))
    ]
    costs = [
        Claim("", "", VerdictRule.above(""), (Case("RK44", value),), "", short="momentum, b", cost=cost, data=Data.REAL)
        for cost, value in (("at equal iterations", 5.0), ("at equal numbers of gradients", 0.5))
    ]
    shown = report.panels([framework.Findings("", claims=gains + costs)])[0]
    assert set(shown.kinds) == {Data.EXACT, Data.REAL}
    figure = shown.figure
    by_gain, *by_cost = figure.axes
    assert [[(s.name, s.x.item(), s.y.item()) for s in style.series(ax)] for ax in by_cost] == [
        [("RK44, momentum, b", 5.0, 0.0)], [("RK44, momentum, b", 0.5, 0.0)]
    ]  # fmt: skip
    assert [ax.get_title().splitlines()[1] for ax in by_cost] == [c.cost for c in costs]
    points = {s.name: (s.x.item(), s.y.item()) for s in style.series(by_gain)}
    assert points == {
        "RK44, line search, a": (3.0, 1.0), "RK5, line search, a": (2.0, 1.0),
        "RK44, momentum, b": (4.0, 0.0), "RK5, momentum, b": (2.0, 0.0),
    }  # fmt: skip
    assert report.panels([framework.Findings("")]) == []
