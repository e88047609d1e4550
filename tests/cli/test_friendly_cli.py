"""Does the command line tell what it cannot do, and leave alone what is not its own?"""

from __future__ import annotations

import numpy as np
import pytest

import fwflow as fw
from fwflow.reproduction import e7_certificates, framework
from fwflow.reproduction.framework import Figure, Findings
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


@pytest.mark.parametrize(
    "option", [("--loss", "squared"), ("--set", "l1:3"), ("--no-header",), ("--drop", "a"), ("--date", "a")]
)
@pytest.mark.parametrize("problem", ["triangle", "sensing"])
def test_options_for_data_files_are_not_ignored(serial, capsys, monkeypatch, tmp_path, problem, option):
    message = fails(capsys, monkeypatch, "compare", problem, *option, "--out", tmp_path)
    name = "--header" if option == ("--no-header",) else option[0]
    assert f"{name} is for data files; the built-in problem '{problem}' is fixed" in message
    assert not any(tmp_path.iterdir())


def test_defaults_for_data_of_ones_own(serial, tmp_path):
    random = np.random.default_rng(0)
    A, b = random.standard_normal((9, 3)), 100 * random.standard_normal(9)
    np.savez(tmp_path / "mine.npz", A=A, b=b)
    output = invoke(
        "compare", tmp_path / "mine.npz", "-m", "fw", "-n", 3, "--no-intercept", "--out", tmp_path / "out"
    ).output
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
