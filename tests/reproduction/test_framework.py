"""Settings of experiments, and results that are stored, found again and made in processes."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import FrozenInstanceError, fields
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fwflow as fw
from fwflow._storage import replacing
from fwflow.reproduction import EXPERIMENTS, e4_gisette, find_experiment, framework, runs
from fwflow.reproduction.framework import Task, configure, run_tasks
from tests.reproduction.helpers import record, run, same, task


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


@pytest.mark.parametrize("name", ["E99", "e4", ""])
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


def test_shorter_columns_are_filled_up():
    assert framework.csv_text("ab", [["1", "2"], ["3, 4"]]) == 'a,b\r\n1,"3, 4"\r\n2,\r\n'


def test_templates_are_filled_once(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<p><!-- a --></p><!-- b --><!-- a --><!-- style --><!-- script -->")
    page.with_suffix(".css").write_text("css<!-- a -->")
    page.with_suffix(".js").write_text("js")
    assert framework.filled(page, a="<!-- b -->", b="x") == "<p><!-- b --></p>x<!-- b -->css<!-- a -->js"
    with pytest.raises(KeyError):
        framework.filled(page, a="")


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
    results = framework._in_parallel([("E", t) for t in tasks], 1)
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
