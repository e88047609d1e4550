"""Experiments from their settings to their findings and figures."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from fwflow.reproduction import (
    EXPERIMENTS,
    e7_certificates,
    e11_lemmas,
    find_experiment,
    framework,
    problems,
    report,
    reproduce,
    style,
)
from fwflow.reproduction.framework import configure
from tests.reproduction.helpers import FEW_TABLEAUS, SMALL, run, same


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_from_settings_to_findings(tmp_path, serial, monkeypatch, name):
    for certified in (e7_certificates, e11_lemmas):
        monkeypatch.setattr(certified, "tableaus", FEW_TABLEAUS)
    module = find_experiment(name)
    chosen = configure(module, False, SMALL[name])
    tasks = module.tasks(chosen)
    assert len({t.key for t in tasks}) == len(tasks)
    first = run(tmp_path / "first", *tasks)
    problems._cached.cache_clear()
    same(first, run(tmp_path / "second", *module.tasks(chosen)))

    monkeypatch.setattr(framework, "_call", pytest.fail)
    again = run(tmp_path / "first", *tasks)
    found, found_again = module.findings(chosen, first), module.findings(chosen, again)
    assert found.claims == found_again.claims
    assert found.tables == found_again.tables
    assert all(claim.statement and claim.number and claim.rule.words for claim in found.claims)
    assert all(np.isfinite(case.value) for claim in found.claims for case in claim.cases)
    assert all(claim.finding for claim in found.claims if claim.short and not claim.cost)
    assert all(case.data in set(found.kinds) for claim in found.claims for case in claim.cases)
    assert all(len(row) == len(table.header) for table in found.tables for row in table.rows)
    assert {t.data for t in tasks} - {""} <= set(found.data)
    assert len(found.claims) >= 1 <= len(found.tables)


def test_every_claim_of_the_paper_has_its_check(serial, tmp_path, monkeypatch):
    for certified in (e7_certificates, e11_lemmas):
        monkeypatch.setattr(certified, "tableaus", FEW_TABLEAUS)
    page = reproduce(out=tmp_path, overrides=SMALL).read_text()
    assert (tmp_path / report.EXPLORER).exists()
    for words in (
        "satisfies E(t)/E(0)", "floor decreases with Δ", "linear in Δ", "zig-zag less", "have the printed values",
        "O(1/k)", "does not decrease faster than 1/k", "Line search helps multistep methods more than FW (triangle)",
        "helps multistep methods more than FW (compressed sensing)",
        "Momentum helps multistep methods more than FW (Gisette)",
        "Momentum helps multistep methods more than FW (MovieLens)",
        "closer to the flow", "does not improve with the order", "converge faster than FW (triangle)",
        "hardly depends on the window", "as printed, helps multistep methods more than FW (triangle)",
        "Before the first event of the flow, the distance of a method of order p", "Consistency implies feasibility",
        "Across events of the flow, the distance of a method of order p", "satisfy 0 ≤ z ≤ 1", "D_4 γ+²",
        "(γ/γ+)² ≤ 2", "The weights β are not negative", "is finite for every c ≥ 1", "linear functions of every slope",
        "|x^(k)| ≤ C_2/k", "the length c/(c+k) up to O(1/k²)", "if β cannot be split (β̄ &gt; 0)",
        "The two tables of the paper have the same energy",
        "Line search helps multistep methods more than FW (Gisette)",
        "Line search helps multistep methods more than FW (MovieLens)",
        "Momentum helps multistep methods more than FW (compressed sensing)",
    ):  # fmt: skip
        assert words in page


def test_reproduce_takes_names_overrides_and_earlier_results(serial, tmp_path, monkeypatch):
    page = reproduce(["E3", "E8"], tmp_path, quick=True, overrides=SMALL)
    assert page == tmp_path / "index.html"
    assert sorted(p.name for p in (tmp_path / "results").iterdir()) == ["E3", "E8"]
    assert "iterations = 30" in page.read_text()
    monkeypatch.setattr(framework, "_call", pytest.fail)
    assert reproduce(["E3"], tmp_path, quick=True, overrides=SMALL) == page
    with pytest.raises(ValueError, match="experiment 'E99' is not known"):
        reproduce(["E3"], tmp_path, overrides={"E99": {}})


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("E1", "alpha", 0.1),  # smaller than the solution: the optimal value is not known
        ("E1", "deltas", []),
        ("E2", "alphas", [1.0]),  # for three problems
        ("E3", "drawn", 99),  # of 30 iterations
        ("E4", "methods", []),
        ("E8", "iterations", 5),
        ("E9", "iterations", 5),
        ("E9", "c", [0.5]),
        ("E10", "gradients", 5),
        ("E10", "problems", 0),
        ("E11", "long", 5),
    ],
)
def test_setting_that_cannot_work_is_named(serial, tmp_path, name, setting, value):
    with pytest.raises(ValueError, match=setting):
        reproduce([name], tmp_path, overrides={name: {**SMALL[name], setting: value}})


@pytest.mark.parametrize("name", ["E1", "E2", "E3", "E4", "E5", "E6", "E8", "E9", "E10"])
def test_every_figure_has_its_numbers(serial, tmp_path, name):
    module = find_experiment(name)
    chosen = configure(module, False, SMALL[name])
    found = module.findings(chosen, run(tmp_path, *module.tasks(chosen)))
    for figure in (*found.figures, *filter(None, [found.overview])):
        panels = {id(ax): style.series(ax) for ax in figure.figure.axes}
        assert all(panels.values()), figure.name
        columns = style.as_csv(figure.figure).splitlines()[0]
        assert len(next(csv.reader([columns]))) == 2 * sum(map(len, panels.values()))
        assert all(np.isfinite(s.x).all() for series in panels.values() for s in series)
