"""Help texts of all commands: width, examples and exit codes."""

from __future__ import annotations

import inspect
import re
import shlex

import pytest
import typer

from fwflow import cli
from fwflow.cli.manual import manual
from tests.cli.test_cli import invoke, terminal

WIDTH = 100


def walk(command, words=()):
    """Yield the words after ``fwflow`` and the command, for the root and all commands below it."""
    yield words, command
    for name, child in getattr(command, "commands", {}).items():
        yield from walk(child, (*words, name))


ROOT = typer.main.get_command(cli.app)
COMMANDS = dict(walk(ROOT))
every_command = pytest.mark.parametrize("words", COMMANDS, ids=lambda words: " ".join(words) or "fwflow")


def shown_help(monkeypatch, words):
    terminal(monkeypatch, WIDTH)
    result = invoke(*words, "--help")
    assert result.exit_code == 0
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", result.output).splitlines()]


def parse(line):
    """Parse a command line with the options of its command; return the words of the command."""
    program, *arguments = shlex.split(line)
    assert program == "fwflow"
    words, command = (), ROOT
    while getattr(command, "commands", None):
        words, command = (*words, arguments[0]), command.commands[arguments[0]]
        arguments = arguments[1:]
    command.make_context(words[-1], arguments)
    return words


def test_commands_are_found():
    assert {("solve",), ("list",), ("data",), ("data", "fetch")} <= COMMANDS.keys()


@every_command
def test_help_fits_the_terminal(monkeypatch, words):
    lines = shown_help(monkeypatch, words)
    assert max(map(len, lines)) <= WIDTH
    text = next(i for i, line in enumerate(lines) if line.startswith("╭"))
    described = manual(COMMANDS[words].callback)
    whole = [line.strip() for line in lines[:text]]
    for purpose, example in described.examples:
        assert f"{purpose}:" in whole
        assert example in whole
    codes = [re.match(r"(\d+)  +(.+)", line) for line in whole]
    assert {int(code[1]): code[2] for code in codes if code} == (described.exit_codes if described.own_codes else {})


@every_command
def test_paragraphs_have_no_ragged_lines(monkeypatch, words):
    lines = [line.strip() for line in shown_help(monkeypatch, words)]
    for paragraph in manual(COMMANDS[words].callback).description:
        first = next(i for i, line in enumerate(lines) if line and paragraph.startswith(line))
        last = first + lines[first:].index("")
        assert " ".join(lines[first:last]) == paragraph
        for line, following in zip(lines[first:last], lines[first + 1 : last], strict=False):
            assert len(line) + 1 + len(following.split()[0]) > WIDTH - 2, f"{line!r} breaks too early"


@every_command
def test_examples_parse(monkeypatch, words):
    assert any(line.strip() in ("Example", "Examples") for line in shown_help(monkeypatch, words))
    examples = manual(COMMANDS[words].callback).examples
    assert examples
    for _, line in examples:
        parsed = parse(line)
        assert parsed[: len(words)] == words


def test_wrong_examples_are_found():
    with pytest.raises(Exception, match="No such option"):
        parse("fwflow solve data.csv --set l1:1 --alpha 3")
    with pytest.raises(Exception, match="Missing"):
        parse("fwflow solve data.csv")
    with pytest.raises(KeyError):
        parse("fwflow sovle data.csv")


@every_command
def test_options_have_descriptions(words):
    for param in COMMANDS[words].params:
        assert re.fullmatch(r"[A-Z].*\.", param.help or "", flags=re.DOTALL), param.name


@every_command
def test_descriptions_are_the_docstrings(words):
    callback = COMMANDS[words].callback
    assert " ".join(manual(callback).description) == " ".join(inspect.getdoc(callback).split())
