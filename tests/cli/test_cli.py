from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fwflow as fw
from fwflow import cli, datasets, reproduction
from fwflow._validation import InputError
from fwflow.datasets import Available, DataError
from fwflow.designs.in_memory import DenseDesign
from fwflow.reproduction import e7_certificates, framework
from fwflow.reproduction.problems import PROBLEMS
from tests.reproduction.helpers import FEW_TABLEAUS, serial

__all__ = ["serial"]


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch):
    terminal(monkeypatch, 1000)
    monkeypatch.setenv("FWFLOW_DATA", "")  # --data sets it: put it back afterwards


def terminal(monkeypatch, width):
    monkeypatch.setattr(cli.console, "_width", width)
    monkeypatch.setenv("COLUMNS", str(width))


def invoke(*arguments):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], catch_exceptions=False)


def main(capsys, monkeypatch, *arguments):
    """Exit code, standard output and standard error of the command."""
    monkeypatch.setattr(sys, "argv", ["fwflow", *map(str, arguments)])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return end.value.code or 0, *capsys.readouterr()


def fails(capsys, monkeypatch, *arguments):
    """The message of a command that fails as it should: one line, no traceback, exit code 2."""
    code, _, error = main(capsys, monkeypatch, *arguments)
    lines = [line for line in error.splitlines() if line.strip() and not line.startswith(("experiments:", "\r"))]
    assert code == 2, error
    assert len(lines) == 1, error
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.fixture
def reproduced(monkeypatch):
    """The arguments of calls to `reproduce`, which runs nothing."""
    calls = []

    def reproduce(names, out, **options):
        calls.append((names, out, options))
        return Path(out) / "index.html"

    monkeypatch.setattr(reproduction, "reproduce", reproduce)
    return calls


def test_reproduce_writes_the_report(serial, tmp_path, monkeypatch):
    monkeypatch.setattr(e7_certificates, "tableaus", FEW_TABLEAUS)
    result = invoke("reproduce", "e7", "--quick", "--out", tmp_path / "out", "--set", "E7.c=3.0")
    assert result.exit_code == 0
    page = (tmp_path / "out" / "index.html").read_text()
    assert "Certificates of feasibility" in page
    assert "z at k = 1, c = 3" in page
    assert "Quick settings" in page
    assert (tmp_path / "out" / "results" / "E7" / "norms.csv").exists()
    monkeypatch.setattr(framework, "_call", pytest.fail)
    assert invoke("reproduce", "E7", "--out", tmp_path / "out", "--set", "E7.c=3.0").exit_code == 0


def test_options_of_reproduce(reproduced, tmp_path):
    config = tmp_path / "settings.toml"
    config.write_text('[E4]\niterations = 10\nmethods = ["fw", "rk44"]\n[E5]\nalpha = 5.0\n')
    invoke(
        "reproduce", "E4", "e5", "--out", tmp_path, "--quick", "--workers", 3, "--config", config,
        "--set", "E4.iterations=20", "--set", "E4.alpha=1e3", "--set", 'E6.methods=["fw"]',
    )  # fmt: skip
    names, out, options = reproduced[0]
    assert (names, out, options["quick"], options["workers"]) == (["E4", "E5"], tmp_path, True, 3)
    assert options["overrides"] == {
        "E4": {"iterations": 20, "methods": ["fw", "rk44"], "alpha": 1000.0},
        "E5": {"alpha": 5.0},
        "E6": {"methods": ["fw"]},
    }


def test_defaults_of_reproduce(reproduced):
    invoke("reproduce")
    assert reproduced == [([], Path("reproduction"), {"quick": False, "overrides": {}, "workers": None})]


def test_full_is_the_opposite_of_quick(reproduced):
    invoke("reproduce", "--full")
    assert reproduced[0][2]["quick"] is False


def test_data_option_reaches_the_loaders(reproduced, tmp_path):
    invoke("reproduce", "--data", tmp_path)
    assert os.environ["FWFLOW_DATA"] == str(tmp_path.resolve())
    assert invoke("reproduce", "--data", tmp_path / "missing").exit_code == 2
    assert len(reproduced) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["X"], "experiment 'X' is not known; accepted: 'E1', 'E2'"),
        (["E7", "--set", "E7.d=1"], "has no setting 'd'; accepted: 'c'"),
        (["E4", "--set", "E4.iteration=1"], "did you mean 'iterations'?"),
        (["E7", "--set", "E77.c=1"], "experiment 'E77' is not known; did you mean 'E7'?"),
        (["E7", "--set", "E7.c"], "--set 'E7.c': expected EXPERIMENT.SETTING=VALUE"),
        (["E7", "--set", "c=1"], "--set 'c=1': expected EXPERIMENT.SETTING=VALUE"),
        (["E7", "--set", "E7.c="], "--set 'E7.c=': expected EXPERIMENT.SETTING=VALUE"),
        (["E7", "--set", "[/red]"], "--set '[/red]': expected EXPERIMENT.SETTING=VALUE"),
        (["E7", "--set", "E7.c=many"], "c must be"),
        (["E7", "--set", "E7.c=0.5"], "c must be at least 1"),
        (["E8", "--set", "E8.iterations=-3"], "iterations must be"),
        (["E7", "--config", "missing.toml"], "missing.toml"),
    ],
)
def test_wrong_use_of_reproduce_is_one_line(serial, capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert message in fails(capsys, monkeypatch, "reproduce", *arguments)
    assert not (tmp_path / "reproduction" / "index.html").exists()


def test_wrong_number_of_workers_is_one_line(capsys, monkeypatch, tmp_path):
    assert "workers must be" in fails(capsys, monkeypatch, "reproduce", "E7", "--out", tmp_path, "--workers", -1)


@pytest.mark.parametrize("text", ["E7 = 3\n", "[E7\n", "E7 = [1, 2]\n", "[e17]\nc = 2.0\n"])
def test_wrong_config_is_one_line(serial, capsys, monkeypatch, tmp_path, text):
    config = tmp_path / "settings.toml"
    config.write_text(text)
    fails(capsys, monkeypatch, "reproduce", "E7", "--out", tmp_path / "out", "--config", config)


def test_out_that_is_a_file_is_one_line(serial, capsys, monkeypatch, tmp_path):
    (tmp_path / "out").write_text("")
    assert "out" in fails(capsys, monkeypatch, "reproduce", "E7", "--out", tmp_path / "out")


@pytest.mark.parametrize("name", ["short", "with [red] and [/b] in it", "long-" * 30])
def test_path_of_the_report_can_be_copied(reproduced, tmp_path, monkeypatch, name):
    terminal(monkeypatch, 80)
    out = tmp_path / name
    assert str(out / "index.html") in invoke("reproduce", "--out", out).output


@pytest.mark.parametrize(
    "error",
    [
        InputError("alpha must be positive " + "and so on " * 20),
        InputError("arrays ['A', 'y'] and [/red]"),
        OSError(28, "No space left on device"),
        DataError("madelon is not here"),
        BrokenProcessPool("a worker was killed"),
    ],
    ids=["long", "brackets", "disk", "data", "worker"],
)
def test_errors_are_one_line_without_traceback(capsys, monkeypatch, error):
    terminal(monkeypatch, 80)

    def reproduce(*_, **__):
        raise error

    monkeypatch.setattr(reproduction, "reproduce", reproduce)
    assert str(error).strip() in fails(capsys, monkeypatch, "reproduce")


@pytest.mark.parametrize("debug", [("--debug", "reproduce"), ("reproduce", "--debug"), ("reproduce",)])
@pytest.mark.parametrize("kind", [ZeroDivisionError, AssertionError, ValueError, RuntimeError, MemoryError])
def test_faults_of_the_program_are_not_wrong_input(capsys, monkeypatch, kind, debug):
    def reproduce(*_, **__):
        raise kind("two\nlines")

    monkeypatch.setattr(reproduction, "reproduce", reproduce)
    code, _, error = main(capsys, monkeypatch, *debug)
    *traceback, line = error.splitlines()
    assert (code, line) == (1, f"unexpected error; add --debug to see the traceback: {kind.__name__} two lines")
    assert traceback[:1] == (["Traceback (most recent call last):"] if "--debug" in debug else [])


@pytest.mark.parametrize("debug", [True, False])
def test_numpy_refusing_something_within_a_run_is_not_wrong_input(capsys, monkeypatch, tmp_path, debug):
    monkeypatch.setattr(DenseDesign, "rmatvec", lambda *_: np.zeros(2) + np.zeros(3))
    (tmp_path / "a.csv").write_text("1,2\n3,5\n")
    command = ("solve", tmp_path / "a.csv", "--target", "2", "--set", "l1:1", *(["--debug"] if debug else []))
    code, _, error = main(capsys, monkeypatch, *command)
    assert (code, error.splitlines()[-1].startswith("unexpected error")) == (1, True)
    assert (len(error.splitlines()) > 1) == debug


def test_interrupt_says_that_results_are_kept(capsys, monkeypatch):
    def reproduce(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduction, "reproduce", reproduce)
    code, _, error = main(capsys, monkeypatch, "reproduce")
    assert code == 130
    assert error.strip() == "interrupted; finished results are kept; run the same command again to continue"


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "fwflow.cli", *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT to a process group, which Windows does not have")
def test_interrupted_command_continues(tmp_path):
    arguments = ("reproduce", "E8", "--out", tmp_path, "--workers", 1, "--set", 'E8.methods=["euler", "heun"]')
    steps = ("--set", "E8.iterations=10000")
    folder = tmp_path / "results" / "E8"
    # On a busy machine the command must not be done before this process sees its first result.
    process = command(*arguments, *steps, start_new_session=True)
    os.setpriority(os.PRIO_PROCESS, process.pid, 19)
    while process.poll() is None and not (folder / "index.json").exists():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C in a terminal does: the workers get it as well
    _, error = process.communicate()
    assert process.returncode == 130, error
    assert "Traceback" not in error
    kept = {path: path.read_bytes() for path in folder.glob("*.csv")}
    assert 1 <= len(kept) < 6  # three problems and two methods
    assert not list(tmp_path.rglob("*.part"))

    process = command(*arguments, *steps)
    output, error = process.communicate()
    assert process.returncode == 0, error
    assert str(tmp_path / "index.html") in output.replace("\n", "")
    assert {path: path.read_bytes() for path in kept} == kept
    lengths = [path.read_bytes().count(b"\n") for path in folder.glob("*.csv")]
    assert lengths == 6 * lengths[:1]


def test_compare_prints_the_table(serial, tmp_path):
    result = invoke(
        "compare", "triangle", "-m", "fw", "-m", "rk44", "-l", "exact", "--momentum", "nesterov",
        "-n", 7, "--out", tmp_path,
    )  # fmt: skip
    assert result.exit_code == 0
    rows = [re.findall(r"[^│\s][^│]*[^│\s]|[^│\s]", line) for line in result.output.splitlines() if "│" in line]
    cells = [tuple(cell.strip() for cell in row) for row in rows]
    variants = ("plain", "exact line search", "nesterov momentum")
    assert [row[:2] for row in cells] == [(m, v) for v in variants for m in ("FW", "RK44")]
    assert [row[4] for row in cells] == ["7", "28"] * 3
    assert (tmp_path / "index.html").exists()


def test_numbers_are_not_broken_in_a_narrow_terminal(serial, tmp_path, monkeypatch):
    terminal(monkeypatch, 80)
    output = invoke("compare", "triangle", "-m", "midpoint", "-m", "rk44", "-n", 20, "--out", tmp_path).output
    p = reproduction.problems.triangle()
    fun = fw.minimize(p.f, p.C, p.x0, method="rk44", tol=0, max_iter=20).fun
    assert f"{fun:.6g}" in output


def test_compare_on_a_file(serial, tmp_path):
    random = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", X=random.standard_normal((9, 3)), y=random.integers(0, 2, 9))
    result = invoke(
        "compare", tmp_path / "mine.npz", "--loss", "logistic", "--set", "l1:2", "-n", 3, "-m", "fw",
        "--out", tmp_path / "out",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "mine.npz, 9 x 3." in (tmp_path / "out" / "index.html").read_text()


def test_compare_takes_methods_that_are_no_tableaus(serial, tmp_path):
    random = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", A=random.standard_normal((9, 3)), b=random.standard_normal(9))
    methods = ("fw", "pairwise", "corrective", "flow", "apg", "polished", "auto")
    options = [part for method in methods for part in ("-m", method)]
    result = invoke("compare", tmp_path / "mine.npz", *options, "-l", "exact", "-n", 30, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    rows = [line.split("│")[1:3] for line in result.output.splitlines() if "│" in line]
    assert [tuple(map(str.strip, row)) for row in rows] == [
        *((name, "plain") for name in (
            "FW", "Pairwise", "Corrective", "The flow itself", "Projected gradient", "Polished", "auto"
        )),
        ("FW", "exact line search"),
        ("Pairwise", "exact line search"),
    ]  # fmt: skip


def test_defaults_of_compare(serial, tmp_path):
    result = invoke("compare", "triangle", "-n", 2, "--out", tmp_path)
    assert [name in result.output for name in ("FW", "Midpoint", "RK44", "RK5")] == [True, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "neither a built-in problem"),
        (["file"], "neither a built-in problem"),
        (["missing.csv"], "missing.csv"),
        (["triangle", "-m", "rk4"], "did you mean 'rk44'?"),
        (["triangle", "-m", "missing.toml"], "missing.toml"),
        (["triangle", "-m", "apg"], "needs a set with a projection"),
        (["triangle", "-m", "away", "--momentum", "nesterov"], "none of the methods away accepts nesterov momentum"),
        (["triangle", "-l", "exakt"], "did you mean 'exact'?"),
        (["triangle", "--momentum", "none"], "momentum='none' is not known"),
        (["own.csv", "--set", "l1:-1"], "radius must be a positive finite number"),
        (["own.csv", "--loss", "hinge"], "loss='hinge' is not known"),
        (["own.csv", "--target", "3", "--loss", "logistic"], "has 3 different values in 3 rows, too many for classes"),
        (["own.csv"], "own.csv: the column to predict must be named with --target"),
        (["broken.npz"], "broken.npz"),
    ],
)
def test_wrong_use_of_compare_is_one_line(serial, capsys, monkeypatch, tmp_path, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("own.csv").write_text("1,2,3\n4,5,6\n7,8,10\n")
    Path("broken.npz").write_bytes(b"PK\x03\x04 and no more")
    assert message in fails(capsys, monkeypatch, "compare", *arguments)


def test_iterations_must_be_positive():
    assert invoke("compare", "triangle", "-n", 0).exit_code == 2


def test_data_list(monkeypatch):
    rows = [
        Available("madelon", "train", "real", Path("/some/where"), 10, "CC BY 4.0 [sic]"),
        Available("madelon", "valid", "stand-in", None, 0, "CC BY 4.0 [sic]"),
    ]
    monkeypatch.setattr(datasets, "available", lambda: rows)
    lines = [line for line in invoke("data", "list").output.splitlines() if "madelon" in line]
    assert len(lines) == 2
    for line, words in zip(lines, (("train", "real", "/some/where"), ("valid", "stand-in", "-")), strict=True):
        assert all(word in line for word in (*words, "CC BY 4.0 [sic]"))


def test_data_where(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(datasets, "where", {"madelon": tmp_path, "gisette": None}.get)
    found, missing = invoke("data", "where", "madelon"), invoke("data", "where", "gisette")
    assert (found.exit_code, found.output) == (0, f"{tmp_path}\n")
    assert missing.exit_code == 1
    assert "gisette is not on this machine; try: fwflow data fetch gisette" in missing.output


def test_data_where_looks_in_the_given_folder(tmp_path):
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_text("")
    assert invoke("data", "where", "movielens", "--data", tmp_path).output.strip() == str(tmp_path / "ml-100k")


def test_data_fetch(monkeypatch):
    asked = []

    def fetch(name, progress):
        asked.append((name, progress))
        return Path("/cache") / name

    monkeypatch.setattr(datasets, "fetch", fetch)
    assert invoke("data", "fetch", "madelon").output == "madelon: /cache/madelon\n"
    assert asked == [("madelon", True)]


def test_failed_download_is_one_line(monkeypatch, capsys):
    def fetch(name, progress):
        raise DataError("https://example.org could not be downloaded: timed out. Without internet, put the files there")

    monkeypatch.setattr(datasets, "fetch", fetch)
    assert "could not be downloaded" in fails(capsys, monkeypatch, "data", "fetch", "madelon")


@pytest.mark.parametrize("what", ["fetch", "where"])
def test_unknown_data_set_is_one_line(capsys, monkeypatch, what):
    assert "did you mean 'madelon'?" in fails(capsys, monkeypatch, "data", what, "madeln")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ("reproduce", "compare", "data")),
        (["reproduce"], ("--out", "--quick", "--full", "--data", "--config", "--set", "--workers")),
        (
            ["compare"],
            ("--method", "--line-search", "--momentum", "--iterations", "--loss", "--set", "--target", *PROBLEMS),
        ),
        (["data"], ("list", "fetch", "where")),
    ],
)
def test_help(monkeypatch, arguments, words):
    monkeypatch.setenv("COLUMNS", "200")
    result = invoke(*arguments, "--help")
    assert result.exit_code == 0
    output = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    assert [word for word in words if word not in output] == []


def test_no_arguments_show_the_help():
    result = invoke()
    assert result.exit_code == 2
    assert "reproduce" in result.output


def test_console_script_is_this_one():
    process = command("data", "where", "madeln")
    output, error = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert error.startswith("error: name='madeln' is not known")
    assert "Traceback" not in error
