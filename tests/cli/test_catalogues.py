"""Does ``fwflow list`` name everything that there is, in words that a terminal can show?"""

import inspect
import json

import pytest
from typer.testing import CliRunner

import fwflow as fw
from fwflow import cli
from fwflow.cli.catalogues import Catalogue
from fwflow.methods import methods
from fwflow.objectives.losses import losses
from fwflow.steps.searches import line_searches

NAMES = {
    "sets": [
        name
        for name in fw.__all__
        if inspect.isclass(kind := getattr(fw, name))
        and issubclass(kind, fw.ConstraintSet)
        and kind is not fw.ConstraintSet
    ],
    "methods": methods,
    "tableaus": fw.tableaus,
    "losses": losses,
    "line-searches": line_searches,
}


def run(*arguments):
    done = CliRunner().invoke(cli.app, ["list", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("what", NAMES)
def test_every_name_is_listed_with_a_word_on_it(what):
    entries = json.loads(run(what, "--json"))
    assert [*entries] == [*NAMES[what]]
    for row in entries.values():
        assert all(row.values())
        assert not any(sign in "".join(row.values()) for sign in ("\\", "`", ":math:"))


@pytest.mark.parametrize("what", NAMES)
def test_tables_have_a_row_for_every_name(what):
    shown = run(what)
    assert all(f" {name} " in shown for name in NAMES[what])


def test_no_catalogue_is_left_out():
    assert [*Catalogue] == [*NAMES]
    done = CliRunner().invoke(cli.app, ["list", "set"])
    assert done.exit_code == 2


def test_the_tableaus_that_may_leave_the_set_are_named():
    entries = json.loads(run("tableaus", "--json"))
    assert {name for name, row in entries.items() if row["stays in the set"] != "yes"} == {"midpoint", "ralston", "dp5"}
    assert entries["rk44"] == {"stages": "4", "order": "4", "stays in the set": "yes"}
