from __future__ import annotations

import csv
import errno
import io
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow._storage import replacing
from fwflow.datasets import Dataset
from fwflow.methods import ACTIVE_SET, SELF_STEPPING, STAGED
from fwflow.reproduction import (
    EXPERIMENTS,
    drawn,
    e1_flow,
    e2_zigzag,
    e3_triangle,
    e4_gisette,
    e6_sensing,
    e7_certificates,
    e8_rates,
    explorer,
    find_experiment,
    framework,
    overview,
    problems,
    report,
    reproduce,
    runs,
    style,
)
from fwflow.reproduction import compare as compare_module
from fwflow.reproduction.compare import compare
from fwflow.reproduction.framework import Case, Claim, Task, Topic, Verdict, VerdictRule, configure, run_tasks
from fwflow.reproduction.problems import find_problem, from_file
from fwflow.steps.momentum import momenta
from fwflow.tableau.catalogue import find_tableau
from fwflow.trajectories.following import rate_bound

HOLDS, PARTLY, FAILS, UNTESTABLE = Verdict.HOLDS, Verdict.PARTLY, Verdict.FAILS, Verdict.UNTESTABLE

#: Settings with which every experiment ends within a second on tiny data.
SMALL = {
    "E1": {"t_end": 20.0, "deltas": (1.0, 0.1), "cs": (2.0,), "methods": ("fw", "rk44"), "near": 2.0},
    "E2": {"t_end": 40.0, "deltas": (1.0, 0.1)},
    "E3": {"iterations": 30, "drawn": 5},
    "E4": {"iterations": 20},
    "E5": {"iterations": 5, "alpha": 10.0},
    "E6": {"iterations": 20},
    "E7": {},
    "E8": {"iterations": 200},
}
FEW_TABLEAUS = {name: fw.tableaus[name] for name in ("midpoint", "rk44")}


def tiny(name, split=None):
    random = np.random.default_rng(0)
    A = random.standard_normal((30, 8))
    b = A.sum(axis=1) + 0.05 * random.standard_normal(30)
    arrays, shape = {"A": A, "b": b if name == "sensing" else np.where(b > 0, 1.0, -1.0)}, A.shape
    if name == "movielens":
        rows, cols = np.divmod(random.permutation(48)[:30], 6)
        arrays, shape = {"rows": rows, "cols": cols, "values": random.integers(1, 6, 30).astype(float)}, (8, 6)
    return Dataset(name, "stand-in", f"Tiny data for {name}.", shape, arrays)


def one_by_one(waiting, workers):
    return ((name, task, framework._call(task)) for name, task in waiting)


@pytest.fixture
def serial(monkeypatch):
    """Tasks run here, one after the other, on tiny data; figures are made but not rendered."""
    monkeypatch.setattr(framework, "_side_by_side", one_by_one)
    monkeypatch.setattr(problems, "load", tiny)
    monkeypatch.setattr(report, "_svg", lambda figure: "<svg></svg>")
    monkeypatch.setattr(report, "save_figure", lambda figure, stem: None)
    problems._cached.cache_clear()
    yield
    problems._cached.cache_clear()


@pytest.fixture
def calls(serial):
    """The arguments of every call to `record`, a task that returns them as its columns."""
    record.calls = []
    return record.calls


def record(**columns):
    record.calls.append(columns)
    return columns


def task(key="a", data="", **columns):
    return Task(key, record, columns or {"x": [1.0, 2.0, 3.0]}, data)


def run(out, *tasks, version="1"):
    return run_tasks({"E": list(tasks)}, out, version, 1)["E"]


def same(first, second):
    """Results that agree bit by bit, apart from seconds."""
    assert list(first) == list(second)
    for one, other in zip(first.values(), second.values(), strict=True):
        assert list(one) == list(other)
        for name in one:
            if name != "time":
                np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_configure(name):
    module = find_experiment(name)
    assert configure(module, False, {}) == module.Settings()
    quick = configure(module, True, {})
    for field in fields(quick):
        assert getattr(quick, field.name) == module.QUICK.get(field.name, field.default)
    with pytest.raises(FrozenInstanceError):
        setattr(quick, fields(quick)[0].name, None)


def test_overrides_win_over_quick_values_and_lists_become_tuples():
    chosen = configure(e4_gisette, True, {"iterations": 7, "methods": ["fw", "rk44"]})
    assert (chosen.iterations, chosen.methods, chosen.alpha) == (7, ("fw", "rk44"), 250.0)
    assert e4_gisette.QUICK["iterations"] != 7


def test_unknown_setting_is_named_with_a_suggestion():
    with pytest.raises(ValueError, match="e4_gisette has no setting 'iteratons'; did you mean 'iterations'"):
        configure(e4_gisette, False, {"iteratons": 3})


@pytest.mark.parametrize(("setting", "value"), [("iterations", "many"), ("methods", "rk44"), ("alpha", [1.0])])
def test_setting_of_the_wrong_type_is_named(setting, value):
    with pytest.raises(ValueError, match=setting):
        configure(e4_gisette, False, {setting: value})


@pytest.mark.parametrize("name", ["E9", "e4", ""])
def test_unknown_experiment(name):
    with pytest.raises(ValueError, match=f"experiment '{name}' is not known; .*'E1'"):
        find_experiment(name)


numbers = st.lists(st.floats(), min_size=1, max_size=5)


@settings(deadline=None, max_examples=30, derandomize=True)
@given(values=numbers)
def test_numbers_are_read_back_bit_by_bit(values):
    values = [float("nan") if v != v else v for v in values]  # a NaN's payload is not a number
    with tempfile.TemporaryDirectory() as folder:
        store = framework._Store(Path(folder), "1")
        store.write(task(), {"a, b": np.array(values)})
        found = framework._Store(Path(folder), "1").read(task())
        assert found["a, b"].tobytes() == np.array(values).tobytes()


def test_results_are_csv_files(tmp_path, calls):
    run(tmp_path, task(x=[0.1, 1 / 3], k=[1, 2]))
    text = (tmp_path / "results" / "E" / "a.csv").read_text()
    assert text.split() == ["x,k", "0.1,1.0", f"{1 / 3!r},2.0"]


def test_rerun_takes_up_what_is_there(tmp_path, calls):
    first = run(tmp_path, task("b"), task("a", x=[4.0]))
    again = run(tmp_path, task("a", x=[4.0]), task("b"))
    assert len(calls) == 2
    assert (list(first), list(again)) == (["b", "a"], ["a", "b"])
    same(first, {key: again[key] for key in first})


def test_rerun_gives_what_the_run_gave(tmp_path, calls):
    mixed = task(x=[1, 2, 3], scalar=2.5)
    first, again = run(tmp_path, mixed), run(tmp_path, mixed)
    same(first, again)


@pytest.mark.parametrize(
    ("changed", "version"),
    [
        (task(x=[1.0, 2.0]), "1"),
        (task(data="other data"), "1"),
        (Task("a", dict, {"x": [1.0, 2.0, 3.0]}), "1"),
        (task(), "2"),
    ],
    ids=["argument", "data", "function", "version"],
)
def test_changed_fingerprint_runs_again(tmp_path, calls, changed, version):
    path = tmp_path / "results" / "E" / "index.json"
    run(tmp_path, task())
    before = path.read_text()
    found = run(tmp_path, changed, version=version)
    assert path.read_text() != before
    assert found["a"]["x"].tolist() == changed.arguments.get("x", [1.0, 2.0, 3.0])
    run(tmp_path, task())
    assert len(calls) == 2 + (changed.function is record)


def test_experiments_do_not_share_results(tmp_path, calls):
    found = run_tasks({"E": [task()], "F": [task(x=[9.0])]}, tmp_path, "1", 1)
    assert [found[name]["a"]["x"][0] for name in "EF"] == [1.0, 9.0]


def test_missing_file_runs_again(tmp_path, calls):
    run(tmp_path, task(), task("b"))
    (tmp_path / "results" / "E" / "a.csv").unlink()
    assert run(tmp_path, task(), task("b"))["a"]["x"].tolist() == [1.0, 2.0, 3.0]
    assert len(calls) == 3


@pytest.mark.parametrize(
    "damaged",
    [b"", b"x,y\r\n", b"x,y\r\n1.0,4.0\r\n2.0,5.0\r\n", b"x,y\r\n1.0,4.0\r\n2.0,5.0\r\n3.0", b"\xff\x00" * 9,
     b"x,y\r\n1.0,4.0\r\n2.0,5.0\r\n3.0,6.", b"x,y\r\n1.0,4.0\r\n2.0,5.0\r\n3.0,?\r\n"],
    ids=["empty", "header", "rows missing", "cell missing", "binary", "digits missing", "no number"],
)  # fmt: skip
def test_damaged_result_is_not_taken_for_a_good_one(tmp_path, calls, damaged):
    whole = task(x=[1.0, 2.0, 3.0], y=[4.0, 5.0, 6.25])
    first = run(tmp_path, whole)
    path = tmp_path / "results" / "E" / "a.csv"
    good = path.read_bytes()
    path.write_bytes(damaged)
    same(first, run(tmp_path, whole))
    assert path.read_bytes() == good


@pytest.mark.parametrize("damaged", [b"", b'{"a": "', b"[]", b"null", b"\xff\xfe", b'{"a": 1}'])
def test_damaged_index_is_made_anew(tmp_path, calls, damaged):
    index = tmp_path / "results" / "E" / "index.json"
    first = run(tmp_path, task())
    good = json.loads(index.read_text())
    index.write_bytes(damaged)
    same(first, run(tmp_path, task()))
    assert json.loads(index.read_text()) == good


def fill_disk(monkeypatch, name):
    """From now on, writing the file of that name fails as on a full disk."""

    @contextmanager
    def replacing_until_full(path):
        with replacing(path) as file:
            yield file
            if path.name == name:
                raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(framework, "replacing", replacing_until_full)


def test_full_disk_keeps_results_written_so_far(tmp_path, calls, monkeypatch):
    with monkeypatch.context() as full:
        fill_disk(full, "b.csv")
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path, task("a"), task("b"))
    run(tmp_path, task("a"), task("b"))
    assert len(calls) == 3


def test_result_and_fingerprint_never_disagree(tmp_path, calls, monkeypatch):
    # New settings get as far as the CSV, not the index; then the old settings are asked for again.
    run(tmp_path, task(x=[1.0]))
    with monkeypatch.context() as full:
        fill_disk(full, "index.json")
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path, task(x=[2.0]))
    assert run(tmp_path, task(x=[1.0]))["a"]["x"].tolist() == [1.0]


def test_interrupt_keeps_results_written_so_far(tmp_path, calls, monkeypatch):
    class Interrupted(framework.tqdm):
        def update(self, n=1):
            raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(framework, "tqdm", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path, task("a"), task("b"), task("c"))
    assert len(calls) == 1
    assert list(run(tmp_path, task("a"), task("b"), task("c"))) == ["a", "b", "c"]
    assert len(calls) == 3


def blas_threads():
    return {"threads": [int(os.environ.get(name, 0)) for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]}


def python(code):
    return {"args": [sys.executable, "-c", code]}


def test_processes_use_one_blas_thread_and_a_failure_keeps_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    done = tmp_path / "results" / "E" / "threads.csv"
    wait = f"import os, time\nfor _ in range(2000):\n if not os.path.exists({str(done)!r}): time.sleep(0.01)"
    tasks = [Task("threads", blas_threads, {}), Task("fails", subprocess.run, python(wait))]
    with pytest.raises(AttributeError, match="CompletedProcess"):  # a task must return columns
        run_tasks({"E": tasks}, tmp_path, "1", 2)
    assert framework._Store(done.parent, "1").read(tasks[0])["threads"].tolist() == [1, 1]
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_nothing_is_begun_after_an_interrupt(tmp_path):
    touch = [python(f"open({str(tmp_path / name)!r}, 'w')") for name in ("b", "c")]
    tasks = [
        Task("done", dict, {"x": 1.0}),
        Task("running", subprocess.run, python("import time; time.sleep(1.5)")),
        *(Task(name, subprocess.run, arguments) for name, arguments in zip("bc", touch, strict=True)),
    ]
    results = framework._side_by_side([("E", t) for t in tasks], 1)
    assert next(iter(results))[1].key == "done"
    results.close()  # what an exception in the parent does
    for process in multiprocessing.active_children():
        process.join()
    assert list(tmp_path.iterdir()) == []


def test_warnings_of_uncertified_tableaus_are_left_to_the_report(serial):
    arguments = {"problem": "triangle", "options": {}, "method": "midpoint", "variant": {}, "iterations": 3}
    with pytest.warns(fw.UncertifiedWarning):
        runs.run(**arguments)
    assert len(framework._call(Task("a", runs.run, arguments))["gap"]) == 4


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiment_from_settings_to_findings(tmp_path, serial, monkeypatch, name):
    monkeypatch.setattr(e7_certificates, "tableaus", FEW_TABLEAUS)
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
    assert all(claim.finding for claim in found.claims if claim.short)
    assert all(len(row) == len(table.header) for table in found.tables for row in table.rows)
    assert {t.data for t in tasks} - {""} <= set(found.data)
    assert len(found.claims) >= 1 <= len(found.tables)


def test_every_claim_of_the_paper_has_its_check(serial, tmp_path, monkeypatch):
    monkeypatch.setattr(e7_certificates, "tableaus", FEW_TABLEAUS)
    grids, write = [], explorer.write
    small = explorer.Grid(tableaus=("fw",), c=(2.0,), delta=(1.0,), iterations=2)  # all of it takes half a minute

    def write_small(page, grid, **options):
        grids.append(grid)
        return write(page, small, **options)

    monkeypatch.setattr(explorer, "write", write_small)
    page = reproduce(out=tmp_path, overrides=SMALL).read_text()
    assert grids == [None]  # the whole page
    assert (tmp_path / report.EXPLORER).exists()
    for words in (
        "obeys E(t)/E(0)", "floor shrinks with Δ", "linear in Δ", "zig-zag less", "printed certificates",
        "O(1/k)", "no better than 1/k", "Line search helps multistep methods more than FW (triangle)",
        "helps multistep methods more than FW (compressed sensing)",
        "Momentum helps multistep methods more than FW (Gisette)",
        "Momentum helps multistep methods more than FW (MovieLens)",
        "closer to the flow", "does not improve with the order", "converge faster than FW (triangle)",
        "hardly depends on the window", "to the letter, helps multistep methods more than FW (triangle)",
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
    ],
)
def test_setting_that_cannot_work_is_named(serial, tmp_path, name, setting, value):
    with pytest.raises(ValueError, match=setting):
        reproduce([name], tmp_path, overrides={name: {**SMALL[name], setting: value}})


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


def verdicts(found):
    return [claim.verdict for claim in found.claims]


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
    assert above.says(value) == (1 if value >= bar * noise else -1 if value < bar / noise else 0)
    assert below.says(value) == (1 if value <= bar / noise else -1 if value > bar * noise else 0)


def test_rule_with_two_sides():
    rule = VerdictRule("", (0.8, 1.2), (0.5, 1.5))
    assert [rule.says(v) for v in (0.4, 0.5, 0.8, 1.0, 1.2, 1.5, 1.6)] == [-1, 0, 1, 1, 1, 0, -1]


def claim(*values, **options):
    cases = tuple(Case(f"case {i}", value) for i, value in enumerate(values))
    return Claim("statement", "Figure 1", VerdictRule.above("words"), cases, "number", **options)


def test_a_case_without_a_number_says_nothing():
    assert claim(2.0, float("nan")).verdict is HOLDS
    assert claim(float("nan")).verdict is UNTESTABLE


def test_cases_by_what_they_say():
    c = claim(2.0, 1.0, 0.5, 3.0)
    assert [[case.name for case in c.saying(what)] for what in (1, 0, -1)] == [
        ["case 0", "case 3"],
        ["case 1"],
        ["case 2"],
    ]


@settings(deadline=None, max_examples=200, derandomize=True)
@given(value=st.one_of(st.floats(1e-6, 1e6), st.floats(1.0499, 1.0501), st.floats(0.9522, 0.9525)))
def test_a_shown_number_says_what_the_number_says(value):
    c = claim(value)
    assert c.rule.says(float(c.shown(c.cases[0]))) == c.rule.says(value)
    assert float(c.shown(c.cases[0])) == pytest.approx(value, rel=5e-3)


def test_shown_numbers_are_short():
    assert [c.shown(c.cases[0]) for c in (claim(1.23456), claim(1.0497), claim(208.04))] == ["1.23", "1.0497", "208"]


def test_sentences_judge_the_cases_of_a_topic_together():
    claims = [
        claim(2.0, 2.0, topic=Topic.MOMENTUM, finding="first"),
        claim(0.5, topic=Topic.MOMENTUM, finding="second"),
        claim(2.0, topic=Topic.FLOW),
        claim(0.5),
        claim(topic=Topic.RATE),
    ]
    flow, momentum = overview.sentences(claims)
    assert (flow.says, flow.verdict, flow.shows) == (Topic.FLOW.value, HOLDS, "1 of 1 cases speak for it")
    assert momentum.verdict is PARTLY
    assert momentum.shows == "2 of 3 cases speak for it and 1 against: first; second"


def test_first_screen_has_the_gains_of_all_experiments():
    gains = [
        Claim("", "", VerdictRule.above(""), (Case("RK44", value), Case("RK5", 2.0)), "", topic=topic, short=short)
        for topic, short, value in ((Topic.MOMENTUM, "momentum, b", 4.0), (Topic.SEARCH, "line search, a", 3.0))
    ]
    figure = overview.panels([framework.Findings("", claims=gains)])[0].figure
    points = {s.name: (s.x.item(), s.y.item()) for s in drawn.series(figure)}
    assert points == {
        "RK44, line search, a": (3.0, 1.0), "RK5, line search, a": (2.0, 1.0),
        "RK44, momentum, b": (4.0, 0.0), "RK5, momentum, b": (2.0, 0.0),
    }  # fmt: skip
    assert overview.panels([framework.Findings("")]) == []


def test_figures_as_numbers_and_words():
    figure, grid = style.subplots(1, 2, 4.0, 2.0)
    grid[0, 0].plot([1, 10, 100], [5, 4, 1 / 3], label="FW, plain")
    grid[0, 0].axhline(1.0)  # not data
    grid[0, 0].set(xlabel="k", ylabel="gap")
    grid[0, 1].scatter([0.5, 0.25], [1, 2], label="iterates")
    grid[0, 1].set(title='a "title"')
    assert list(csv.reader(io.StringIO(drawn.as_csv(figure)))) == [
        ["k | FW, plain | k", "k | FW, plain | gap", 'a "title" | iterates | x', 'a "title" | iterates | y'],
        ["1", "5", "0.5", "1"],
        ["10", "4", "0.25", "2"],
        ["100", "0.333333", "", ""],
    ]
    assert drawn.in_words(figure) == [
        "k: gap against k, first and last. FW, plain 5 at 1, 0.333 at 100.",
        'a "title": y against x, first and last. iterates 1 at 0.5, 2 at 0.25.',
    ]


@pytest.mark.parametrize("name", ["E1", "E2", "E3", "E4", "E5", "E6", "E8"])
def test_every_figure_has_its_numbers(serial, tmp_path, name):
    module = find_experiment(name)
    chosen = configure(module, False, SMALL[name])
    found = module.findings(chosen, run(tmp_path, *module.tasks(chosen)))
    for figure in (*found.figures, *filter(None, [found.overview])):
        panels = {id(ax): drawn._of_panel(ax) for ax in figure.figure.axes}
        assert all(panels.values()), figure.name
        columns = drawn.as_csv(figure.figure).splitlines()[0]
        assert len(next(csv.reader([columns]))) == 2 * sum(map(len, panels.values()))
        assert all(np.isfinite(s.x).all() for series in panels.values() for s in series)


def flow_results(chosen, factor=0.9, floor=lambda delta: 0.01 * delta):
    t = np.linspace(0, chosen.t_end, 1001)
    out = {}
    for problem in chosen.problems:
        for c in chosen.cs:
            flow = factor * rate_bound(t, c)
            out[f"{problem}-c{c:g}-exact"] = {"t": t, "error": flow, "events": np.array([0.0, 0.5, 0.5])}
            for delta in chosen.deltas:
                out[f"{problem}-c{c:g}-delta{delta:g}"] = {"t": t, "error": np.maximum(flow, floor(delta))}
        for method in chosen.methods:
            far = {"distance": 0.3 * np.array(e1_flow._coarse(chosen)), "order": np.array([np.nan])}
            out[f"{problem}-{method}"] = far
    return out


def test_e1_claims_flip(serial):
    chosen = e1_flow.Settings(deltas=(1.0, 0.1, 0.01), cs=(2.0,))

    def found(**doctored):
        return verdicts(e1_flow.findings(chosen, flow_results(chosen, **doctored)))

    assert found() == [HOLDS, HOLDS]
    assert found(factor=1.01) == [FAILS, HOLDS]
    assert found(floor=lambda delta: {1.0: 0.1, 0.1: 0.02, 0.01: 0.03}[delta]) == [HOLDS, FAILS]
    # A floor that is as high at the next smaller step says nothing, here for every problem.
    assert found(floor=lambda delta: max(0.1 * delta, 0.02)) == [HOLDS, FAILS]


def test_e1_floor_that_no_run_meets_is_not_testable(serial):
    chosen = e1_flow.Settings(deltas=(1.0, 0.1), cs=(2.0,))
    found = e1_flow.findings(chosen, flow_results(chosen, floor=lambda delta: 0.0))
    assert verdicts(found) == [HOLDS, UNTESTABLE]


def test_e1_reports_turns_and_orders(serial):
    chosen = e1_flow.Settings(deltas=(1.0, 0.1), cs=(2.0,), methods=("fw", "rk44"))
    floors, followed = e1_flow.findings(chosen, flow_results(chosen)).tables
    assert floors.rows[0][-1] == "2, last at t = 0.5"
    assert followed.rows[1] == ("triangle", "RK44", "3.0e-01", "3.0e-02", "-", "1.00")


def test_e1_counts_the_turns_of_the_flow_without_its_start(serial):
    assert e1_flow.exact("triangle", 3.0, 2.0, 10.0)["events"] == [0.0]  # the tie with which it begins


@pytest.mark.parametrize("how", ["projector", "paper"])
def test_e2_samples_the_flow_at_times_one_apart(serial, how):
    energy = e2_zigzag.flow_energies("sensing", 1.0, (5,), 20.0, 0.02)[f"{how}-5"]
    p = find_problem("sensing", alpha=1.0, loss="logistic")
    path = fw.flow(p.f, p.C, t_end=20.0, delta=1e-3, every=1000)
    assert energy == pytest.approx(fw.zigzag_energy(path.x, 5, how), rel=0.03)  # small steps zig-zag a little


@pytest.mark.parametrize(("method", "order"), [("fw", 1), ("heun", 2), ("kutta3", 3)])
def test_e1_orders_before_the_first_event_are_the_classical_ones(serial, method, order):
    run = e1_flow.distances("sensing", 3.0, method, (0.1, 0.01), 2.0)
    assert abs(run["order"] - order) <= 0.1
    assert run["distance"][1] < run["distance"][0] / 4


def zigzag_results(chosen, by_delta=lambda delta: delta, by_method=(1.0, 0.5, 0.25)):
    def run(energy):
        return {f"{how}-{w}": np.array([energy]) for how in ("projector", "paper") for w in chosen.windows}

    out = {f"{p}-fw-delta{d:g}": run(by_delta(d)) for p in chosen.problems for d in chosen.deltas}
    for problem in chosen.problems:
        for method, energy in zip((*chosen.methods, "flow"), (*by_method, 1e-3), strict=True):
            out[f"{problem}-{method}-delta1"] = run(energy)
    return out


def test_e2_claims_flip(serial):
    chosen = e2_zigzag.Settings()

    def found(**doctored):
        return verdicts(e2_zigzag.findings(chosen, zigzag_results(chosen, **doctored)))

    assert found() == [HOLDS, HOLDS, HOLDS]
    assert found(by_delta=lambda delta: delta**0.3) == [FAILS, HOLDS, HOLDS]
    assert found(by_delta=np.sqrt) == [FAILS, HOLDS, HOLDS]  # neither linear nor its opposite
    assert found(by_method=(1.0, 1.5, 0.25)) == [HOLDS, HOLDS, PARTLY]
    assert found(by_method=(1.0, 1.0, 0.25)) == [HOLDS, HOLDS, PARTLY]
    assert found(by_method=(1.0, 1.2, 1.1)) == [HOLDS, HOLDS, FAILS]


@pytest.mark.parametrize(
    ("key", "energy", "expected"),
    [
        ("gisette-rk44-delta1", 1.5, [HOLDS, HOLDS, PARTLY]),
        ("gisette-fw-delta0.01", 0.6, [PARTLY, PARTLY, HOLDS]),
        ("gisette-fw-delta0.01", 0.03, [HOLDS, HOLDS, HOLDS]),
    ],
)
def test_e2_claims_are_about_every_data_set_and_window(serial, key, energy, expected):
    chosen = e2_zigzag.Settings()
    results = zigzag_results(chosen)
    results[key]["projector-20"] = np.array([energy])
    assert verdicts(e2_zigzag.findings(chosen, results)) == expected


def test_e2_exponent_of_a_single_time_step_is_not_testable(serial):
    chosen = e2_zigzag.Settings(deltas=(1.0,))
    assert verdicts(e2_zigzag.findings(chosen, zigzag_results(chosen))) == [UNTESTABLE, HOLDS, HOLDS]


def test_e2_run_without_zigzag_is_no_case(serial):
    chosen = e2_zigzag.Settings()
    results = zigzag_results(chosen)
    for delta in chosen.deltas:
        results[f"madelon-fw-delta{delta:g}"] = {name: np.zeros(1) for name in results["madelon-fw-delta1"]}
    linear, robust, less = e2_zigzag.findings(chosen, results).claims
    for claim in (linear, robust, less):
        assert not [case for case in claim.cases if "madelon" in case.name]
        assert claim.verdict is HOLDS


def test_e2_has_the_papers_numbers_beside_its_own(serial):
    chosen = e2_zigzag.Settings()
    linear, robust, less = e2_zigzag.findings(chosen, zigzag_results(chosen)).claims
    printed = {case.name: case.printed for claim in (linear, robust, less) for case in claim.cases}
    assert None not in printed.values()
    assert printed["sensing, W = 5"] == pytest.approx(np.log10(105.90 / 1.05) / 2, rel=1e-12)
    assert printed["madelon, Δ = 0.1"] == 0.028 / 0.021
    assert printed["RK44, gisette, W = 20"] == 0.20 / 0.40


def test_e2_shows_the_printed_energies_beside_ours(serial):
    chosen = e2_zigzag.Settings()
    by_delta, by_method = e2_zigzag.findings(chosen, zigzag_results(chosen)).tables
    assert ("madelon", "0.1", "0.1 / 0.1", "0.1 / 0.1", "0.021 / 0.028") in by_delta.rows
    assert ("gisette", "RK44", "0.25 / 0.25", "0.25 / 0.25", "0.22 / 0.2") in by_method.rows


def curve(gap, calls=1, length=101):
    k = np.arange(length)
    return {
        "k": k, "calls": calls * k, "passes": 0.5 * k, "time": 0.01 * k, "fun": 1.0 / (1 + k), "gap": gap / (1 + k)
    }  # fmt: skip


def gaps(methods, variants):
    """A run for each method and variant: ``variants[v]`` is FW's gap and that of every other method."""
    return {
        runs.key(m, v): curve(pair[m not in ("fw", "euler")], find_tableau(m).stages)
        for m in methods
        for v, pair in variants.items()
    }


def triangle_results(chosen, off=(0.3, 0.2, 0.1), **doctored):
    gap = {v: (1.0, 1.0) if v == "plain" else (1.0, 0.1) for v in e3_triangle.VARIANTS} | doctored
    out = gaps(chosen.methods, gap)
    y = 1 / (1 + np.arange(101))
    for method, distance in zip(chosen.methods, off, strict=True):
        for variant in e3_triangle.VARIANTS:
            out[runs.key(method, variant)] |= {"x": np.full(101, distance), "y": y}
    flow = {"x": np.zeros(chosen.drawn + 1), "y": y[: chosen.drawn + 1]}
    return {"flow": flow, **out}


@pytest.mark.parametrize(
    ("doctored", "changed"),
    [
        ({}, {}),
        ({"off": (0.3, 0.4, 0.2)}, {0: PARTLY}),
        ({"off": (0.3, 0.4, 0.5)}, {0: FAILS}),
        ({"off": (0.3, 0.3, 0.2)}, {0: PARTLY}),
        ({"plain": (1.0, 1.01)}, {1: FAILS}),  # no difference
        ({"plain": (1.0, 1.2)}, {1: FAILS}),
        ({"line search": (0.1, 0.5)}, {2: FAILS}),
        ({e3_triangle.LETTER: (0.1, 0.5)}, {3: FAILS}),
        ({"momentum": (2.0, 1.5)}, {4: FAILS}),
    ],
)
def test_e3_claims_flip(doctored, changed):
    chosen = e3_triangle.Settings(iterations=100, methods=("fw", "midpoint", "rk44"))
    found = e3_triangle.findings(chosen, triangle_results(chosen, **{"plain": (1.1, 1.0), **doctored}))
    assert verdicts(found) == [changed.get(i, HOLDS) for i in range(5)]


def test_e3_takes_any_tableau(serial, tmp_path):
    chosen = configure(e3_triangle, False, {**SMALL["E3"], "methods": ["fw", "heun"]})
    found = e3_triangle.findings(chosen, run(tmp_path, *e3_triangle.tasks(chosen)))
    assert [row[0] for row in found.tables[0].rows] == ["FW", "Heun"] * 4


def test_e3_without_fw_has_nothing_to_compare_with(serial, tmp_path):
    chosen = configure(e3_triangle, False, {**SMALL["E3"], "methods": ["heun"]})
    found = e3_triangle.findings(chosen, run(tmp_path, *e3_triangle.tasks(chosen)))
    assert set(verdicts(found)) == {UNTESTABLE}
    assert found.overview is None


VARIANT = {"E4": ["momentum"], "E5": ["momentum"], "E6": ["line search", e3_triangle.LETTER]}


@pytest.mark.parametrize("name", VARIANT)
@pytest.mark.parametrize(
    ("gap", "expected"),
    [
        ((1.0, 0.1), HOLDS),
        ((1.0, 0.96), FAILS),  # a gain within the noise
        ((0.1, 0.2), FAILS),  # a gain, but less than FW's
        ((2.0, 1.5), FAILS),  # no gain, though FW loses more
        ((0.5, 0.5), FAILS),
    ],
)
def test_claims_on_data_flip(serial, name, gap, expected):
    module = find_experiment(name)
    chosen = module.Settings()
    variants = {"plain": (1.0, 1.0), **dict.fromkeys(VARIANT[name], gap)}
    found = verdicts(module.findings(chosen, gaps(chosen.methods, variants)))
    ends_far_below = [HOLDS if gap[1] == 0.1 else FAILS] if name == "E4" else []
    assert found == [expected] * len(VARIANT[name]) + ends_far_below


def test_e6_judges_its_two_line_searches_apart(serial):
    chosen = e6_sensing.Settings()
    variants = {"plain": (1.0, 1.0), "line search": (1.0, 0.5), e3_triangle.LETTER: (1.0, 2.0)}
    assert verdicts(e6_sensing.findings(chosen, gaps(chosen.methods, variants))) == [HOLDS, FAILS]


def helps(results, methods):
    return runs.helps_more("momentum", "the data", "Figure 4", results, methods, Topic.MOMENTUM)


@pytest.mark.parametrize(("gap", "expected"), [(1.5, PARTLY), (1.01, PARTLY), (0.9, HOLDS)])
def test_methods_that_a_claim_holds_for_are_named(serial, gap, expected):
    methods = ("fw", "midpoint", "rk44")
    results = gaps(methods, {"plain": (1.0, 1.0), "momentum": (1.0, 0.1)})
    results["rk44-momentum"] = curve(gap)
    claim = helps(results, methods)
    assert claim.verdict is expected
    assert "Midpoint" in [case.name for case in claim.saying(1)]
    assert claim.number.endswith(f"FW 1.00, Midpoint 10.00, RK44 {1 / gap:.2f}")
    assert claim.finding == "on the data it divides the gap by 10.00 for Midpoint and by 1.00 for FW"


@pytest.mark.parametrize("methods", [("fw",), ("rk44", "rk5")], ids=["FW alone", "without FW"])
def test_comparison_without_a_counterpart_is_not_testable(methods):
    results = gaps(methods, {"plain": (1.0, 1.0), "momentum": (0.5, 0.1)})
    assert helps(results, methods).verdict is UNTESTABLE


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
    r = runs.ratio(one, other, "calls")
    if end < begin:
        assert np.isnan(r.mean)
        return
    at = begin * (end / begin) ** (np.arange(200) / 199)
    at[[0, -1]] = begin, end
    expected = np.array([smallest(first, calls, x) / smallest(second, 1, x) for x in at + 1e-9])
    got_at, got = runs.curve_ratio(one, other, "calls")
    np.testing.assert_allclose(got_at, at, rtol=1e-9)
    agree = np.isclose(got, expected, rtol=1e-9)
    assert agree.mean() > 0.95  # a call number hit exactly may fall to either side
    assert r.mean == pytest.approx(np.exp(np.log(got).mean()), rel=1e-12)
    assert (r.best, r.worst, r.end) == (got.max(), got.min(), got[-1])
    assert (got[got_at == r.best_at][0], got[got_at == r.worst_at][0]) == (r.best, r.worst)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(
    pair=st.integers(2, 40).flatmap(lambda n: st.tuples(*[st.lists(st.floats(1e-6, 1e6), min_size=n, max_size=n)] * 2))
)
def test_ratio_has_an_inverse_and_is_the_same_against_calls(pair):
    one, other = (measured(gap, 4) for gap in pair)
    r, inverse = runs.ratio(one, other), runs.ratio(other, one)
    assert r.mean * inverse.mean == pytest.approx(1.0, rel=1e-9)
    assert r.best * inverse.worst == pytest.approx(1.0, rel=1e-9)
    calls = runs.ratio(one, other, "calls")
    assert (calls.end, calls.best, calls.worst) == (r.end, r.best, r.worst)
    assert calls.best_at == pytest.approx(4 * r.best_at)


def test_ratio_does_not_count_the_start_nor_gaps_that_nobody_computed():
    nan = float("nan")
    one, other = measured([1e-9, nan, 4.0, nan, 2.0]), measured([1.0, 8.0, nan, 1.0, nan])
    r = runs.ratio(one, other)
    assert (r.best, r.best_at, r.worst, r.worst_at) == (4.0, pytest.approx(3, abs=0.02), 0.5, 2.0)
    assert r.end == 2.0


def test_curves_that_never_meet_have_no_ratio():
    r = runs.ratio(measured([1.0, 1.0, 1.0]), measured([1.0, 1.0], calls=6), "calls")
    assert np.isnan(r.mean)
    assert runs._cells(r) == ["-"] * 4


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


def test_e7_claims_flip(monkeypatch):
    chosen = e7_certificates.Settings()

    def found(last=0.5):
        return verdicts(e7_certificates.findings(chosen, {"norms": {"rk44": np.array([1.0, 0.9, last])}}))

    assert found() == [HOLDS, HOLDS]
    assert found(last=0.9) == [HOLDS, FAILS]
    assert found(last=1.0) == [HOLDS, FAILS]
    # The fourth digit counts: half a unit of it is the rounding of the printed number.
    monkeypatch.setitem(e7_certificates.PRINTED, ("rk44", 1), (0.2449, 0.5986, 0.5715, 0.3333))
    assert found() == [PARTLY, HOLDS]


def rates_results(chosen, h=1.0, x=1.0, split=1.0):
    """Power laws: h on the triangle, |x| on the interval for beta that cannot cancel, and for beta that can."""
    k = np.arange(chosen.iterations + 1)
    out = {}
    for method in chosen.methods:
        exponent = split if e8_rates.splits_evenly(find_tableau(method).beta) else x
        out[f"interval-{method}"] = {"k": k, "envelope": (1.0 + k) ** -exponent}
        out[f"triangle-{method}"] = {"k": k, "envelope": (1.0 + k) ** -h}
    return out


@pytest.mark.parametrize(
    ("doctored", "expected"),
    [
        ({}, [HOLDS] * 4),
        ({"h": 2.0}, [HOLDS] * 4),
        ({"h": 0.5}, [FAILS, HOLDS, HOLDS, HOLDS]),
        ({"h": 0.0}, [FAILS, HOLDS, HOLDS, HOLDS]),
        ({"x": 2.0}, [HOLDS, FAILS, FAILS, HOLDS]),
        ({"split": 2.0}, [HOLDS, HOLDS, HOLDS, FAILS]),
    ],
)
def test_e8_claims_flip(doctored, expected):
    chosen = e8_rates.Settings(iterations=1000)
    assert verdicts(e8_rates.findings(chosen, rates_results(chosen, **doctored))) == expected


def test_e8_says_what_the_proposition_leaves_out():
    chosen = e8_rates.Settings(iterations=1000)
    _, _, no_faster, _ = e8_rates.findings(chosen, rates_results(chosen, split=2.0)).claims
    assert re.search(r", and up to (1\.9|2\.0)\d for weights that can, which the proposition leaves", no_faster.finding)


def test_e8_short_run_is_refused():
    with pytest.raises(ValueError, match="iterations must be at least 100"):
        e8_rates.tasks(e8_rates.Settings(iterations=50))


@pytest.mark.parametrize(("method", "missing"), [("euler", [3]), ("heun", [1, 2])])
def test_e8_says_what_its_methods_cannot_test(method, missing):
    chosen = e8_rates.Settings(iterations=1000, methods=(method,))
    found = verdicts(e8_rates.findings(chosen, rates_results(chosen)))
    assert found == [UNTESTABLE if i in missing else HOLDS for i in range(4)]


def test_printed_zigzag_tables():
    assert e2_zigzag.PRINTED_DELTAS == (1.0, 0.1, 0.01)
    assert e2_zigzag.PRINTED_METHODS == ("fw", "midpoint", "rk44")
    assert e2_zigzag.PRINTED_DELTA == {
        "sensing": ((105.90, 140.29), (10.49, 13.86), (1.05, 1.39)),
        "madelon": ((0.11, 0.23), (0.021, 0.028), (0.0021, 0.0028)),
        "gisette": ((1.08, 1.74), (0.21, 0.28), (0.021, 0.028)),
    }
    assert e2_zigzag.PRINTED_METHOD == {
        "sensing": ((105.90, 140.29), (0.57, 1.0018), (0.015, 0.033)),
        "madelon": ((0.031, 0.040), (0.025, 0.029), (0.025, 0.029)),
        "gisette": ((0.30, 0.40), (0.25, 0.11), (0.22, 0.20)),
    }


def test_printed_certificates():
    assert e7_certificates.PRINTED == {
        ("midpoint", 1): (-0.3810, 1.1429),
        ("midpoint", 2): (-0.2222, 0.8889),
        ("rk44", 1): (0.2449, 0.5986, 0.5714, 0.3333),
        ("rk38", 1): (0.1758, 0.6409, 0.6818, 0.2500),
        ("rk5", 1): (0.1821, 0.0068, 0.8416, 0.3657, 0.9956, 0.2333),
    }


def test_certificates_stand_beside_the_printed_ones():
    found = e7_certificates.findings(e7_certificates.Settings(), {"norms": {"rk44": np.array([1.0, 0.5])}})
    rows = {row[0]: row for row in found.tables[0].rows}
    assert set(rows) == set(fw.tableaus)
    assert rows["rk38"][2:4] == ("0.1758  0.6409  0.6818  0.2500",) * 2
    assert rows["midpoint"][4] == "never"
    assert rows["rk44"][4] == "k ≥ 0"


def test_settings_are_those_of_the_paper():
    e3, e4, e6 = e3_triangle.Settings(), e4_gisette.Settings(), e6_sensing.Settings()
    assert (e3.iterations, e3.drawn, e3.c, e3.k0) == (400, 15, 2.0, 1)
    assert (e4.alpha, e4.iterations, e4.methods) == (250.0, 200, ("fw", "midpoint", "rk44", "rk38", "rk5"))
    assert (e6.alpha, e6.iterations, e6.methods) == (1000.0, 5000, e4.methods)
    assert (e2_zigzag.Settings().windows, e2_zigzag.Settings().t_end) == ((5, 20), 100.0)
    e5 = find_experiment("E5").Settings()
    assert (e5.alpha, e5.rho, e5.iterations, e5.methods) == (1000.0, 10.0, 100, e4.methods)
    assert e1_flow.Settings().deltas == (1.0, 0.1, 0.01, 0.001)
    assert e1_flow.Settings().cs == (1.0, 2.0, 4.0)


def test_e8_runs_every_certified_tableau():
    assert set(e8_rates.Settings().methods) == {"euler", "heun", "kutta3", "ssprk3", "bs3", "rk44", "rk38", "rk5"}


@settings(deadline=None, max_examples=100, derandomize=True)
@given(weights=st.lists(st.integers(-5, 20), min_size=1, max_size=6).filter(lambda w: sum(w) > 0))
def test_splits_evenly(weights):
    halves = [2 * sum(w for i, w in enumerate(weights) if subset >> i & 1) for subset in range(2 ** len(weights))]
    assert e8_rates.splits_evenly(np.array(weights) / sum(weights)) == (sum(weights) in halves)


def test_which_tableaus_split_evenly():
    even = {name for name, tableau in fw.tableaus.items() if e8_rates.splits_evenly(tableau.beta)}
    assert even >= {"heun", "rk44", "rk38"}
    assert even.isdisjoint({"euler", "midpoint", "ralston", "kutta3", "ssprk3", "bs3"})


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
    assert ends.header[-1] == "gap by 100 calls"
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
    shown, along = ({s.name for s in drawn.series(figure.figure)} for figure in found.figures)
    assert "RK44, b" in shown - along
    assert "RK44, a" in shown & along


def test_plain_runs_are_solid_in_every_figure():
    results = gaps(("fw", "rk44"), dict.fromkeys(("plain", "a"), (1.0, 1.0)))
    found = runs.findings("name", "", "", "", ("fw", "rk44"), {"plain": {}, "a": {"line_search": "exact"}}, results)
    for figure in found.figures:
        styles = {line.get_label(): line.get_linestyle() for ax in figure.figure.axes for line in ax.lines}
        assert (styles["RK44, plain"], styles["RK44, a"]) == ("-", "--")


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


@settings(deadline=None, max_examples=50, derandomize=True)
@given(n=st.integers(1, 5000), most=st.integers(2, 500))
def test_thin_keeps_both_ends(n, most):
    index = style.thin(np.zeros(n), most)
    assert (index[0], index[-1]) == (0, n - 1)
    assert (np.diff(index) > 0).all()
    assert len(index) <= most + 1


def test_colours_are_distinct_and_methods_keep_theirs():
    chosen = style.colours(("fw", "a.toml", "rk44", "heun", "b.toml"))
    assert len(set(chosen.values())) == 5
    assert (chosen["fw"], chosen["rk44"]) == (style.COLOURS["fw"], style.COLOURS["rk44"])
    assert len(style.colours([f"m{i}" for i in range(20)])) == 20


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("madelon", (500,), "real data shipped with fwflow"),
        ("gisette", (5000,), "real data shipped with fwflow: recovered from the LIBSVM-scaled copy"),
        ("movielens", (943, 1682), "A stand-in for MovieLens 100K, generated"),
    ],
)
def test_problems_run_without_files_and_say_on_what(monkeypatch, tmp_path, name, shape, words):
    monkeypatch.delenv("FWFLOW_DATA", raising=False)
    monkeypatch.setenv("FWFLOW_CACHE", str(tmp_path))
    problems._cached.cache_clear()
    p = find_problem(name)
    assert p.f.shape == shape
    assert words in p.data
    assert find_problem(name) is p
    problems._cached.cache_clear()


def test_unknown_problem():
    with pytest.raises(ValueError, match="problem='sensng' is not known; did you mean 'sensing'"):
        find_problem("sensng")


A = np.round(np.random.default_rng(3).standard_normal((12, 4)), 3)
B = np.round(A[:, 1] - 0.5 * A[:, 2], 3)


def write_csv(path, header=""):
    np.savetxt(path, np.column_stack([A, B]), delimiter=",", header=header, comments="", fmt="%.3f")


def write_svm(path):
    lines = [f"{b} " + " ".join(f"{j}:{a}" for j, a in enumerate(row, start=1)) for row, b in zip(A, B, strict=True)]
    path.write_text("\n".join(lines) + "\n")


WRITERS = {
    "ab.npz": lambda path: np.savez(path, A=A, b=B),
    "xy.npz": lambda path: np.savez(path, X=A, y=B),
    "more.npz": lambda path: np.savez(path, A=A, b=B, X=0 * A, y=B),
    "plain.csv": write_csv,
    "header.csv": lambda path: write_csv(path, "one,two,three,4,target"),
    "UPPER.CSV": write_csv,
    "sparse.svm": write_svm,
    "sparse.libsvm": write_svm,
    "sparse.txt": write_svm,
}


def compared(out, problem, methods=("fw",), line_searches=(), momenta=(), loss="squared", radius=2.0, iterations=5):
    return compare(
        str(problem), methods, line_searches, momenta,
        iterations=iterations, loss=loss, radius=radius, out=out, workers=1,
    )  # fmt: skip


def rerun(out, problem, **options):
    problems._cached.cache_clear()  # as a new process would
    return compared(out, problem, **options)


@pytest.mark.parametrize("name", WRITERS)
def test_compare_reads_files(tmp_path, serial, name):
    path = tmp_path / name
    WRITERS[name](path)
    table, page = compared(tmp_path / "out", path)
    value = fw.minimize(fw.LinearModel(A, B), fw.L1Ball(2.0), method="fw", tol=0, max_iter=5).fun
    assert [row[:2] for row in table.rows] == [("FW", "plain")]
    assert table.rows[0][3] == f"{value:.6g}"
    assert f"Data: {name}, 12 x 4." in page.read_text()


@pytest.mark.parametrize("classes", [(0, 1), (-1, 1), (1, 2), (9, 4)])
def test_two_classes_become_labels(tmp_path, classes):
    labels = np.where(B > 0, max(classes), min(classes))
    np.savez(tmp_path / "a.npz", X=A, y=labels)
    p = from_file(str(tmp_path / "a.npz"), "logistic", 3.0)
    expected = fw.LinearModel(A, np.where(B > 0, 1.0, -1.0), "logistic")
    x = np.arange(4.0)
    assert p.f.value(p.f.point(x)) == expected.value(expected.point(x))
    assert p.C.radius == 3.0


@pytest.mark.parametrize("first", ["nan,1,2", "1,inf,2"])
def test_first_row_that_is_not_finite_is_not_a_header(tmp_path, first):
    path = tmp_path / "a.csv"
    path.write_text(f"{first}\n3,4,5\n6,7,8\n")
    with pytest.raises(ValueError, match="finite"):
        from_file(str(path), "squared", 1.0)


def test_byte_order_mark_does_not_make_a_header(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("0,1,2\n3,4,5\n6,7,8\n", encoding="utf-8-sig")
    assert from_file(str(path), "squared", 1.0).data == "a.csv, 3 x 2."


def truncated(path):
    np.savez(path, A=A, b=B)
    path.write_bytes(path.read_bytes()[:200])


def bare_array(path):
    with open(path, "wb") as file:
        np.save(file, A)


WRONG = {
    "empty.npz": Path.touch,
    "text.npz": lambda path: path.write_text("hello"),
    "truncated.npz": truncated,
    "array.npz": bare_array,
    "names.npz": lambda path: np.savez(path, A=A, y=B),
    "objects.npz": lambda path: np.savez(path, A=np.array([None]), b=np.array([None])),
    "lengths.npz": lambda path: np.savez(path, A=A, b=B[:-1]),
    "empty.csv": Path.touch,
    "header-only.csv": lambda path: path.write_text("a,b\n"),
    "one-column.csv": lambda path: path.write_text("1\n2\n"),
    "ragged.csv": lambda path: path.write_text("1,2,3\n4,5\n"),
    "words.csv": lambda path: path.write_text("1,2,3\n4,five,6\n"),
    "semicolons.csv": lambda path: path.write_text("1;2;3\n4;5;6\n"),
    "latin.csv": lambda path: path.write_bytes("größe,y\n1,2\n".encode("latin-1")),
    "words.svm": lambda path: path.write_text("1 a:b\n"),
    "empty.svm": Path.touch,
    "folder.csv": Path.mkdir,
    "missing.csv": lambda path: None,
    "unknown.xlsx": Path.touch,
    "overflow.csv": lambda path: path.write_text("1e200,2,1e200\n3,4,5\n"),
}


@pytest.mark.filterwarnings("ignore:loadtxt:UserWarning", "ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize("name", WRONG)
def test_wrong_files_are_errors_of_use(tmp_path, serial, name):
    path = tmp_path / name
    WRONG[name](path)
    with pytest.raises((ValueError, OSError, RuntimeError)):  # what the command line shows as one line
        compared(tmp_path / "out", path)
    assert not (tmp_path / "out" / "index.html").exists()


def test_messages_about_files_say_what_is_accepted(tmp_path):
    np.savez(tmp_path / "a.npz", A=A, y=B)
    with pytest.raises(ValueError, match=r"a\.npz:? must hold the arrays A and b, or X and y; it holds \['A', 'y'\]"):
        from_file(str(tmp_path / "a.npz"), "squared", 1.0)
    with pytest.raises(ValueError, match=r"neither a built-in problem \(triangle, .*nor a file ending in .npz, .csv"):
        from_file("a.xlsx", "squared", 1.0)
    np.savez(tmp_path / "b.npz", A=A, b=np.arange(12) % 3)
    with pytest.raises(ValueError, match=r"loss='logistic' needs two classes; .* has 3"):
        from_file(str(tmp_path / "b.npz"), "logistic", 1.0)


@pytest.mark.parametrize("problem", ["file", "trinagle"])
def test_compare_on_an_unknown_problem(tmp_path, serial, problem):
    with pytest.raises(ValueError, match=rf"{problem}.*built-in problem \([a-z, ]*\)") as error:
        compared(tmp_path, problem)
    assert "movielens, file" not in str(error.value)  # how data of one's own is kept is not a problem's name


def test_compare_on_a_built_in_problem(tmp_path, serial):
    table, page = compared(tmp_path, "triangle", ("fw", "rk44"), ["exact"], ["nesterov"], iterations=12)
    variants = ("plain", "exact line search", "nesterov momentum")
    assert [row[:2] for row in table.rows] == [(m, v) for v in variants for m in ("FW", "RK44")]
    assert [row[4] for row in table.rows] == ["12", "48"] * 3
    text = page.read_text()
    assert "The triangle is exact, not data." in text
    assert all(row[2] in text for row in table.rows)
    p = problems.triangle()
    for row, options in zip(table.rows[::2], ({}, {"line_search": "exact"}, {"momentum": "nesterov"}), strict=True):
        assert row[3] == f"{fw.minimize(p.f, p.C, p.x0, method='fw', tol=0, max_iter=12, **options).fun:.6g}"


# Blocks need a product.
EVERY_METHOD = ("fw", *ACTIVE_SET, *(m for m in SELF_STEPPING if m != "block"), *STAGED, "auto")


def test_compare_takes_every_method(tmp_path, serial):
    path = tmp_path / "a.npz"
    np.savez(path, A=A, b=B)
    table, page = compared(tmp_path / "out", path, EVERY_METHOD, radius=1.0, iterations=60)
    assert [row[0] for row in table.rows] == [style.label(m) for m in EVERY_METHOD]
    f, C = fw.LinearModel(A, B), fw.L1Ball(1.0)
    least = fw.minimize(f, C, tol=1e-12).fun
    for method, row in zip(EVERY_METHOD, table.rows, strict=True):
        assert row[3] == f"{fw.minimize(f, C, method=method, tol=0, max_iter=60).fun:.6g}", method
        assert row[3] == f"{least:.6g}" or method in ("fw", "lazy-fw", "stochastic")
    text = page.read_text()
    assert "Here auto is Projected gradient: projected steps find the support" in text
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
    with pytest.raises(
        ValueError, match="nesterov momentum belongs to other methods; none of away, corrective takes it"
    ):
        compared(tmp_path, "triangle", ("away", "corrective"), [], ["nesterov"])


def test_panels_that_have_nothing_to_show_are_left_out():
    results = {"fw-plain": curve(1.0) | {"passes": np.zeros(101)}}
    figure = runs.findings("", "", "", "", ("fw",), {"plain": {}}, results, compare_module.AXES).figures[0].figure
    assert [ax.get_xlabel() for ax in figure.axes] == ["iteration k", "gradient and oracle calls", "seconds"]


def test_comparison_of_runs_too_short_to_meet(tmp_path, serial):
    text = compared(tmp_path, "triangle", ("fw", "rk5"), ["exact"], iterations=1)[1].read_text()
    assert "nan" not in text.lower().replace("finance", "")


def test_compare_page_does_not_speak_of_the_paper(tmp_path, serial):
    text = compared(tmp_path, "triangle")[1].read_text()
    assert "statements hold" not in text
    assert "reproduced" not in text


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


@pytest.mark.parametrize("changed", [{"loss": "huber"}, {"radius": 1.0}, {"iterations": 6}])
def test_changed_options_run_again(tmp_path, serial, changed):
    path = tmp_path / "a.npz"
    np.savez(path, A=A, b=2 * B)
    first = compared(tmp_path / "out", path)[0].rows[0][3]
    assert compared(tmp_path / "out", path, **changed)[0].rows[0][3] != first
    assert compared(tmp_path / "out", path)[0].rows[0][3] == first
