"""Comparisons of methods on problems by name and on files."""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import framework, problems, runs, style
from tests.catalogue import ACTIVE_SET, SELF_STEPPING, STAGED
from tests.reproduction.helpers import WRITERS, A, B, compared, curve, rerun


@pytest.mark.parametrize("name", WRITERS)
def test_compare_reads_files(tmp_path, serial, name):
    path = tmp_path / name
    WRITERS[name](path)
    table, page = compared(tmp_path / "out", path)
    value = fw.minimize(fw.LinearModel(A, B), fw.L1Ball(2.0), method="fw", tol=0, max_iter=5).fun
    assert [row[:2] for row in table.rows] == [("FW", "plain")]
    assert table.rows[0][3] == f"{value:.6g}"
    assert f"Data: {name}, 12 x 4." in page.read_text()


def test_compare_on_a_built_in_problem(tmp_path, serial):
    table, page = compared(tmp_path, "triangle", ("fw", "rk44"), ["exact"], ["nesterov"], iterations=12)
    variants = ("plain", "exact line search", "nesterov momentum")
    assert [row[:2] for row in table.rows] == [(m, v) for v in variants for m in ("FW", "RK44")]
    assert [row[4] for row in table.rows] == ["12", "48"] * 3
    text = page.read_text()
    assert "The triangle is defined by its vertices and needs no data." in text
    assert all(row[2] in text for row in table.rows)
    p = problems.triangle()
    for row, options in zip(table.rows[::2], ({}, {"line_search": "exact"}, {"momentum": "nesterov"}), strict=True):
        assert row[3] == f"{fw.minimize(p.f, p.C, p.x0, method='fw', tol=0, max_iter=12, **options).fun:.6g}"


# Blocks need a product.
EVERY_METHOD = ("fw", *ACTIVE_SET, *(m for m in SELF_STEPPING if m != "block"), *STAGED, "auto")


def test_compare_takes_every_method(tmp_path, serial):
    path = tmp_path / "a.npz"
    np.savez(path, A=A, b=B)
    table, page = compared(tmp_path / "out", path, EVERY_METHOD, constraint="l1:1", iterations=60)
    assert [row[0] for row in table.rows] == [style.label(m) for m in EVERY_METHOD]
    f, C = fw.LinearModel(A, B), fw.L1Ball(1.0)
    least = fw.minimize(f, C, tol=1e-12).fun
    for method, row in zip(EVERY_METHOD, table.rows, strict=True):
        assert row[3] == f"{fw.minimize(f, C, method=method, tol=0, max_iter=60).fun:.6g}", method
        assert row[3] == f"{least:.6g}" or method in ("fw", "lazy-fw", "stochastic")
    text = page.read_text()
    assert "The method auto chose Working set: projected and Newton steps on a working set of columns" in text
    for axis in ("iteration k", "gradient and oracle calls", "passes over the data", "seconds"):
        assert f"{axis}: smallest Frank-Wolfe gap so far against {axis}" in text


def test_compare_gives_variants_to_the_methods_that_have_them(tmp_path, serial):
    path = tmp_path / "a.npz"
    np.savez(path, A=A, b=B)
    table, _ = compared(tmp_path / "out", path, ("fw", "away", "apg", "auto"), ["exact"], ["nesterov"])
    assert [row[:2] for row in table.rows] == [
        *((style.label(m), "plain") for m in ("fw", "away", "apg", "auto")),
        ("FW", "exact line search"),
        ("Away-step", "exact line search"),
        ("FW", "nesterov momentum"),
    ]


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_methods_take_the_variants_that_minimize_accepts(name):
    p = problems.triangle()
    for variant in ({"line_search": "exact"}, {"momentum": "nesterov"}):
        try:
            fw.minimize(p.f, p.C, p.x0, method=name, max_iter=2, **variant)
            accepted = name != "auto"  # which is another method then
        except ValueError:
            accepted = False
        assert runs.takes(name, variant) is accepted


def test_variant_that_no_method_has_is_an_error_of_use(tmp_path, serial):
    with pytest.raises(ValueError, match="none of the methods away, corrective accepts nesterov momentum"):
        compared(tmp_path, "triangle", ("away", "corrective"), [], ["nesterov"])


def test_panels_that_have_nothing_to_show_are_left_out():
    results = {"fw-plain": curve(1.0) | {"passes": np.zeros(101)}}
    figure = runs.findings("", "", "", "", ("fw",), {"plain": {}}, results, runs.COMPARE_AXES).figures[0].figure
    assert [ax.get_xlabel() for ax in figure.axes] == ["iteration k", "gradient and oracle calls", "seconds"]


def test_comparison_of_runs_too_short_to_meet(tmp_path, serial):
    text = compared(tmp_path, "triangle", ("fw", "rk5"), ["exact"], iterations=1)[1].read_text()
    assert "nan" not in text.lower().replace("finance", "")


def test_compare_page_does_not_speak_of_the_paper(tmp_path, serial):
    text = compared(tmp_path, "triangle")[1].read_text()
    assert "statements hold" not in text
    assert "Reproduction" not in text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ["rk4"]}, "method='rk4' is not known; did you mean 'rk44'"),
        ({"methods": ["corective"]}, "method='corective' is not known; did you mean 'corrective'"),
        ({"line_searches": ["exakt"]}, "line_search='exakt' is not known; did you mean 'exact'"),
        ({"momenta": ["nestrov"]}, "momentum='nestrov' is not known; did you mean 'nesterov'"),
    ],
)
def test_wrong_names_fail_before_anything_runs(tmp_path, serial, monkeypatch, options, message):
    monkeypatch.setattr(framework, "_call", lambda task: pytest.fail("a task was run"))
    with pytest.raises(ValueError, match=message):
        compared(tmp_path, "triangle", **options)


def test_compare_draws_any_number_of_variants(tmp_path, serial):
    searches = ["aggressive", "exact", "short", "armijo", "adaptive", "secant"]
    table, _ = compared(tmp_path, "triangle", ("fw",), searches, ["nesterov"])
    assert len(table.rows) == 8


TABLEAU = 'A = [[0, 0], [1, 0]]\nbeta = ["1/2", "1/2"]\n'


def test_tableau_file_is_a_method(tmp_path, serial):
    path = tmp_path / "mine.toml"
    path.write_text(TABLEAU)
    table, page = compared(tmp_path / "out", "triangle", (str(path), "heun"))
    assert [row[0] for row in table.rows] == ["mine", "Heun"]
    assert table.rows[0][2:5] == table.rows[1][2:5]
    assert "mine" in page.read_text()


def test_methods_of_one_name_are_kept_apart(tmp_path, serial):
    path = tmp_path / "rk44.toml"
    path.write_text(TABLEAU)  # Heun's method under another's name
    table, _ = compared(tmp_path / "out", "triangle", ("rk44", str(path)))
    assert [row[4] for row in table.rows] == ["20", "10"]


def test_changed_tableau_file_runs_again(tmp_path, serial):
    path = tmp_path / "mine.toml"
    path.write_text(TABLEAU)
    compared(tmp_path / "out", "triangle", (str(path),))
    path.write_text("A = [[0]]\nbeta = [1]\n")
    assert rerun(tmp_path / "out", "triangle", methods=(str(path),))[0].rows[0][4] == "5"


def test_changed_data_file_runs_again(tmp_path, serial):
    path = tmp_path / "a.npz"
    np.savez(path, A=A, b=B)
    first = compared(tmp_path / "out", path)[0].rows[0][3]
    np.savez(path, A=A, b=2 * B)
    assert rerun(tmp_path / "out", path)[0].rows[0][3] != first


@pytest.mark.parametrize("changed", [{"loss": "huber"}, {"constraint": "l1:1"}, {"iterations": 6}])
def test_changed_options_run_again(tmp_path, serial, changed):
    path = tmp_path / "a.npz"
    np.savez(path, A=A, b=2 * B)
    first = compared(tmp_path / "out", path)[0].rows[0][3]
    assert compared(tmp_path / "out", path, **changed)[0].rows[0][3] != first
    assert compared(tmp_path / "out", path)[0].rows[0][3] == first
