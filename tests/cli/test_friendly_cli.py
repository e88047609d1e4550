"""Does the command line tell what it cannot do, and leave alone what is not its own?"""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import e7_certificates, framework
from fwflow.reproduction.framework import Figure, Findings
from fwflow.reproduction.problems import find_problem, from_file
from fwflow.reproduction.report import write_report
from fwflow.reproduction.style import subplots
from tests.cli.test_cli import fails, invoke, main, wide_terminal
from tests.reproduction.helpers import FEW_TABLEAUS, serial

__all__ = ["serial", "wide_terminal"]

FOREIGN = '<!doctype html><meta name="generator" content="another"><p>The documentation of fwflow.'
COMMANDS = {
    "reproduce": ["reproduce", "E7", "--quick"],
    "compare": ["compare", "triangle", "-m", "fw", "-n", "2"],
}


def test_version():
    result = invoke("--version")
    assert (result.exit_code, result.output) == (0, f"fwflow {fw.__version__}\n")


@pytest.mark.parametrize("option", [("--loss", "huber"), ("--radius", 3), ("--loss", "squared", "--radius", 10)])
@pytest.mark.parametrize("problem", ["triangle", "sensing"])
def test_options_for_data_of_ones_own_are_not_ignored(serial, capsys, monkeypatch, tmp_path, problem, option):
    message = fails(capsys, monkeypatch, "compare", problem, *option, "--out", tmp_path)
    assert f"--loss and --radius are for data of your own; the problem '{problem}' has its own" in message
    assert not any(tmp_path.iterdir())


def test_defaults_for_data_of_ones_own(serial, tmp_path):
    random = np.random.default_rng(0)
    A, b = random.standard_normal((9, 3)), 100 * random.standard_normal(9)
    np.savez(tmp_path / "mine.npz", A=A, b=b)
    output = invoke("compare", tmp_path / "mine.npz", "-m", "fw", "-n", 3, "--out", tmp_path / "out").output
    r = fw.minimize(fw.LinearModel(A, b), fw.L1Ball(10.0), method="fw", tol=0, max_iter=3)
    assert f"{r.fun:.6g}" in output


@pytest.fixture
def run(capsys, monkeypatch):
    monkeypatch.setattr(e7_certificates, "tableaus", FEW_TABLEAUS)
    return lambda name, out: main(capsys, monkeypatch, *COMMANDS[name], "--out", out)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_of_others_is_not_overwritten(serial, run, monkeypatch, tmp_path, name):
    page = tmp_path / "index.html"
    page.write_text(FOREIGN)
    with monkeypatch.context() as nothing_runs:
        nothing_runs.setattr(framework, "_call", pytest.fail)
        code, _, error = run(name, tmp_path)
    assert code == 2
    assert f"error: {page} was not written by fwflow, so it is not overwritten" in error
    assert [path.name for path in tmp_path.iterdir()] == ["index.html"]
    assert page.read_text() == FOREIGN
    assert run(name, tmp_path / "other")[0] == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_of_its_own_is_renewed(serial, run, tmp_path, name):
    assert run(name, tmp_path)[0] == 0
    page = tmp_path / "index.html"
    whole = page.read_text()
    page.write_text(whole[: len(whole) // 2])
    (tmp_path / "notes.txt").write_text("mine")
    assert run(name, tmp_path)[0] == 0
    assert page.read_text() == whole
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_results_of_others_are_not_overwritten(serial, run, tmp_path):
    folder = tmp_path / "results" / "E7"
    folder.mkdir(parents=True)
    (folder / "norms.csv").write_text("norm\n1\n")
    code, _, error = run("reproduce", tmp_path)
    assert code == 2
    assert "norms.csv was not written by fwflow" in error
    assert [path.read_text() for path in folder.iterdir()] == ["norm\n1\n"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("suffix", ["svg", "pdf", "png"])
def test_figures_of_others_are_not_overwritten(tmp_path, suffix):
    figure, _ = subplots(1, 1, 3, 2)
    sections = [("E1", "", e7_certificates.Settings(), Findings(".", figures=[Figure("one.two", figure, "")]))]
    write_report(tmp_path, sections)
    write_report(tmp_path, sections)
    (path,) = (tmp_path / "figures").glob(f"*.{suffix}")
    path.write_bytes(b"a drawing of my own")
    with pytest.raises(ValueError, match=rf"one.*\.{suffix} was not written by fwflow"):
        write_report(tmp_path, sections)
    assert path.read_bytes() == b"a drawing of my own"


def read(tmp_path, text, **options):
    path = tmp_path / "a.csv"
    path.write_text(text, newline="", **options)
    f = from_file(str(path), "squared", 1.0).f
    return np.column_stack([f.design.A, f.b]).tolist()


HEADERS = ["", "a,b,y", '"a","b, or c",y', "0,1,y", ",0,y", "a,,y", "a,2,3", "# a, remark\n\na,b,y", "\ufeffa,b,y"]


@pytest.mark.parametrize("header", HEADERS)
@pytest.mark.parametrize(
    "rows", ["1,2,3\n4,5,6\n", '"1","2","3"\r\n"4","5","6"\r\n', " 1, 2, 3\n\n4 ,5 ,6", "1,2,3\n4,5,6"]
)
def test_no_row_of_numbers_is_left_out(tmp_path, header, rows):
    assert read(tmp_path, f"{header}\n{rows}", encoding="utf-8") == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,,3\n4,5,6\n7,8,9\n", "line 1, column 2 must be a finite number; it is ''"),
        (",,\n4,5,6\n", "line 1, column 1 must be a finite number; it is ''"),
        ("1,2,3\n4,5,6\n,,\n", "line 3, column 1 must be a finite number; it is ''"),
        ("a,b,y\n1,2,3\n\n4,,6\n", "line 4, column 2 must be a finite number; it is ''"),
        ('1,2,3\n4,"",6\n', "line 2, column 2 must be a finite number; it is ''"),
        ("1,2,\n3,4,\n", "line 1, column 3 must be a finite number; it is ''"),
        ("NA,1,2\n3,4,5\n", "line 1, column 1 must be a finite number; it is 'NA'"),
        ("?,?,?\n3,4,5\n", r"line 1, column 1 must be a finite number; it is '\?'"),
        ("1.5,x,2\n3,4,5\n", "line 1, column 2 must be a finite number; it is 'x'"),
        ("a,b\n1,inf\n", "line 2, column 2 must be a finite number; it is 'inf'"),
        ("1,2\n3,4e400\n", "line 2, column 2 must be a finite number; it is '4e400'"),
        ("1,2,3\n4,5\n", "line 2 has 2 cells, where others have 3"),
        ("1;2;3\n4;5;6\n", "must have at least two columns, with commas between them"),
        ("a,b\n", "must have at least one row of numbers"),
    ],
)
def test_cells_without_a_number_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=rf"^a\.csv {message}$"):
        read(tmp_path, text)


def test_a_file_that_has_changed_is_read_again(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("1,2\n3,4\n")
    options = {"path": str(path), "loss": "squared", "radius": 1.0}
    first = find_problem("file", **options)
    assert find_problem("file", **options) is first
    path.write_text("1,2\n3,4\n5,6\n")
    assert find_problem("file", **options).data == "a.csv, 3 x 1."
