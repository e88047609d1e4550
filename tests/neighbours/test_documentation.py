"""Are the modules documented: do their examples run, do the pages tell the truth, and is nothing left out?"""

import ast
import doctest
import inspect
import re
from pathlib import Path

import pytest
import torch

import fwflow.optax
import fwflow.torch
from fwflow import _training as training

ROOT = Path(__file__).parents[2]
MODULES = (fwflow.torch, fwflow.optax)
NAMES = {f"{module.__name__}.{name}": vars(module)[name] for module in MODULES for name in module.__all__}
PAGE = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_of_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 5
    assert result.failed == 0


@pytest.mark.parametrize("name", NAMES)
def test_docstrings_describe_every_parameter_and_have_an_example(name):
    doc = inspect.getdoc(NAMES[name])
    for parameter in inspect.signature(NAMES[name]).parameters:
        assert re.search(rf"^(?:\w+, )*{parameter}(?:, \w+)* : ", doc, flags=re.M), parameter
    for section in ("See Also", "Examples"):
        assert f"\n{section}\n---" in doc
    assert ">>>" in doc


def test_both_optimisers_have_the_same_options_with_the_same_defaults():
    ours, theirs = (inspect.signature(one).parameters for one in (fwflow.torch.LMO, fwflow.optax.lmo))
    shared = [name for name in ours if name in theirs]
    assert shared[:7] == ["set", "radius", "momentum", "nesterov", "constrained", "exact", "weight_decay"]
    different = {name for name in shared if ours[name].default != theirs[name].default}
    assert different == {"kernels", "ns_steps"}  # the layouts of the frameworks; None means 5 in optax


def test_the_promised_signatures():
    defaults = {
        "set": "spectral", "radius": 1.0, "momentum": 0.1, "nesterov": False, "constrained": True, "exact": False,
        "weight_decay": 0.0,
    }  # fmt: skip
    for function, first in ((fwflow.torch.LMO, ["params", "lr"]), (fwflow.optax.lmo, ["learning_rate"])):
        parameters = inspect.signature(function).parameters
        assert [*parameters][: len(first) + len(defaults)] == [*first, *defaults]
        assert {name: parameters[name].default for name in defaults} == defaults


def test_the_reference_shows_members_that_exist():
    source = (ROOT / "docs" / "_ext" / "reference.py").read_text(encoding="utf-8")
    shown = ast.literal_eval(re.search(r"^NEIGHBOURS = (\{.*?^\})", source, flags=re.M | re.S)[1])
    classes = {name: value for name, value in NAMES.items() if inspect.isclass(value)}
    assert shown.keys() == classes.keys()
    for name, members in shown.items():
        assert all(inspect.getdoc(getattr(classes[name], member)) for member in members)
    own = {name for name in vars(fwflow.torch.LMO) if not name.startswith("_")}
    assert own == {*shown["fwflow.torch.LMO"]}


def test_the_code_of_the_page_runs(capsys):
    torch.manual_seed(0)
    names = {}
    blocks = re.findall(r"^```py\n(.*?)^```", PAGE, flags=re.M | re.S)
    assert len(blocks) >= 6
    for block in blocks:
        exec(compile(block, "docs/training.md", "exec"), names)
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_the_tables_of_the_page_have_every_set_and_layout():
    rows = re.findall(r"^\| `\"(\w+)\"`", PAGE, flags=re.M)
    assert {*rows} == {*training.NORMS, *training.KERNELS}
    for number in re.findall(r"between about ([\d.]+) and ([\d.]+)", PAGE):
        assert number == ("0.7", "1.2")
