"""The page docs/cli.md: a section for every command, with each of its arguments, options and examples."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from fwflow import tables
from fwflow._storage import files
from fwflow.cli.manual import COMMON_CODES, manual

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

import commands  # noqa: E402

PAGE = commands.expand((DOCS / "cli.md").read_text(encoding="utf-8"))
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", PAGE, flags=re.M | re.S))


def test_every_command_has_a_section():
    assert commands.COMMANDS.keys() <= SECTIONS.keys()
    assert commands.MARKER not in PAGE


@pytest.mark.parametrize("name", commands.COMMANDS)
def test_sections_have_every_parameter_and_example(name):
    command, text = commands.COMMANDS[name], SECTIONS[name]
    terms = re.findall(r"^(`.+`)\n: ", text, flags=re.M)
    spans = [span for term in terms for span in re.findall(r"`([^`]+)`", term)]
    for param in command.params:
        if param.param_type_name == "argument":
            assert param.metavar in spans
        else:
            assert {*param.opts, *param.secondary_opts} <= {span.split()[0] for span in spans}
        assert commands.prose(param.help) in text
    for _, line in manual(command.callback).examples:
        assert f"```bash\n{line}\n```" in text


def test_what_is_required_and_the_defaults_are_stated():
    text = SECTIONS["fwflow solve"]
    assert "fwflow solve DATA --set SET [OPTIONS]" in text
    assert re.search(r"^`--set SET`\n: .* Required\.$", text, flags=re.M)
    assert re.search(r"^`--loss NAME`\n: .* Default: `squared`\.$", text, flags=re.M)
    assert re.search(r"^`--quick`, `--full`\n: .* Default: `--full`\.$", SECTIONS["fwflow reproduce"], flags=re.M)
    assert "fwflow reproduce [EXPERIMENT]... [OPTIONS]" in SECTIONS["fwflow reproduce"]


def test_links_lead_to_sections():
    anchors = {commands.anchor(name) for name in SECTIONS}
    linked = set(re.findall(r"\]\(#([\w-]+)\)", PAGE))
    assert linked
    assert linked <= anchors


def test_the_introduction_names_all_codes_formats_and_variables():
    codes = {code for command in commands.COMMANDS.values() for code in manual(command.callback).exit_codes}
    assert COMMON_CODES.keys() <= codes
    assert codes == set(map(int, re.findall(r"^`(\d+)`$", SECTIONS["Exit codes"], flags=re.M)))
    assert tables.FORMATS.keys() <= set(re.findall(r"`(\.\w+)`", SECTIONS["File formats"]))
    assert f"`{files.LIMIT_VARIABLE}`" in SECTIONS["Environment variables"]
    assert (files._RATIO, files._FLOOR) == (100, 128 * 2**20)  # The numbers of the page.
    assert "100 times" in SECTIONS["Environment variables"]
    assert "128 MiB" in SECTIONS["Environment variables"]
