"""Does progress appear on terminals, after two seconds and not before, and nowhere else?"""

import re

import numpy as np
import pytest
from rich.console import Console

from fwflow.cli import screen
from tests.cli.test_solve import run

__all__ = ["run"]

COMMANDS = {
    "run": (("solve", "--set", "l1:3"), r"\d+ iterations, gap .* passes over the data"),
    "cross-validation": (("solve", "--set", "l1", "--cv", 3), r"\d+ of \d+ models of cross-validation"),
    "path": (("path", "--radii", 7), r"[0-6] of 7 models of the path"),
}


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    path, X = tmp_path / "a.csv", rng.standard_normal((60, 3)).round(3)
    path.write_text("x,z,w,y\n" + "\n".join(f"{a},{b},{c},{a - b + 0.1 * c * c}" for a, b, c in X))
    return path


@pytest.fixture
def terminal(monkeypatch):
    """The standard error is a terminal, and the bar is drawn at every update."""
    monkeypatch.setattr(screen, "_UPDATE_SECONDS", 0.0)
    monkeypatch.setattr(
        screen, "Console", lambda **options: Console(**{"width": 200, "force_terminal": True} | options)
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_progress_appears_on_a_terminal(run, table, terminal, name, monkeypatch):
    (command, *options), text = COMMANDS[name]
    monkeypatch.setattr(screen, "_DELAY_SECONDS", 0.0)
    code, output, error = run(command, table, "--target", "y", *options)
    assert code == 0
    assert re.search(text, error)
    assert not re.search(text, output)


@pytest.mark.parametrize("name", COMMANDS)
def test_short_commands_show_no_progress(run, table, terminal, name, monkeypatch):
    (command, *options), _ = COMMANDS[name]
    monkeypatch.setattr(screen, "_DELAY_SECONDS", 1e9)
    assert run(command, table, "--target", "y", *options)[::2] == (0, "")


@pytest.mark.parametrize("name", COMMANDS)
def test_files_hold_no_progress(run, table, name, monkeypatch):
    (command, *options), _ = COMMANDS[name]
    monkeypatch.setattr(screen, "_DELAY_SECONDS", 0.0)
    assert run(command, table, "--target", "y", *options)[::2] == (0, "")


def test_the_bar_waits_two_seconds():
    assert screen._DELAY_SECONDS == 2.0
