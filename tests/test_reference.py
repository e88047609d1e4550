"""Is the reference complete? Parameters, examples, related names, members and the words that users search for."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from tests.test_docs import public_names

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import reference  # noqa: E402

SECTIONS = r"Parameters|Attributes|Returns|Raises|See Also|Notes|Examples"
#: Names without a description of all parameters, and why.
NOT_CONSTRUCTED = {
    "fwflow.State": "a run makes it, and most of its fields belong to the loop",
    "fwflow.semidefinite.CutResult": "a run makes it, and its base class describes its other fields",
}
#: Names without an example in their docstring, and why. Abstract base classes have theirs in CONTRIBUTING.md.
WITHOUT_EXAMPLE = {"fwflow.datasets.fetch": "it needs a network"}
CONTRIBUTING = "".join(
    re.findall(r"^```python\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M | re.S)
)


def found(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


NAMES = sorted(public_names())
DOCUMENTED = [name for name in NAMES if inspect.isclass(found(name)) or inspect.isfunction(found(name))]


def sections(value: Any) -> dict[str, str]:
    """The sections of a docstring by their titles."""
    parts = re.split(rf"^({SECTIONS})\n-+\n", inspect.getdoc(value) or "", flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section: str) -> dict[str, str]:
    """Names that a section describes, each with the text below it."""
    entries: dict[str, str] = {}
    for heading, text in re.findall(r"^(\S.*)\n((?:[ ]+\S.*\n?|\n(?=[ ]))*)", section + "\n", re.M):
        for name in heading.partition(" : ")[0].split(", "):
            entries[name.lstrip("*")] = text.strip()
    return entries


def parameters(value: Any) -> list[str]:
    if inspect.isclass(value) and issubclass(value, Enum | Exception):
        return []
    return [name for name in inspect.signature(value).parameters if not name.startswith("_")]


def test_nearly_all_public_names_are_classes_and_functions() -> None:
    assert {*NAMES} - {*DOCUMENTED} == {"fwflow.tableaus"}
    assert len(DOCUMENTED) > 150


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_parameter_is_described(name: str) -> None:
    value = found(name)
    own = sections(value)
    given = described(own.get("Parameters", ""))
    texts = described(own.get("Attributes", "")) | given
    assert given.keys() <= {*parameters(value)}, "describes parameters that do not exist"
    assert all(texts.values()), "some parameters have no text"
    if name not in NOT_CONSTRUCTED:
        assert {*parameters(value)} <= texts.keys()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_every_docstring_has_an_example_with_output(name: str) -> None:
    value = found(name)
    examples = doctest.DocTestParser().get_examples(sections(value).get("Examples", ""))
    shown = any(example.want for example in examples)
    elsewhere = inspect.isabstract(value) and f"(fw.{value.__name__})" in CONTRIBUTING
    assert shown or elsewhere or name in WITHOUT_EXAMPLE


@pytest.mark.parametrize("name", DOCUMENTED)
def test_related_names_are_pages_of_the_reference(name: str) -> None:
    related = dict(re.findall(r"^(\S+) : (.*)$", sections(found(name))["See Also"], re.M))
    module = name.rpartition(".")[0]
    assert 2 <= len(related) <= 5
    assert len(related) == len(sections(found(name))["See Also"].split("\n\n")[0].splitlines()), "a line per name"
    for other in related:
        assert {other, f"{module}.{other}"} & {*NAMES}, f"{other} is not in the reference"
        assert other != name.rpartition(".")[2]


def test_exceptions_are_needed() -> None:
    for name in NOT_CONSTRUCTED:
        assert not {*parameters(found(name))} <= described(sections(found(name))["Attributes"]).keys()
    for name in WITHOUT_EXAMPLE:
        assert "Examples" not in sections(found(name))


@pytest.mark.parametrize("query", reference.SEARCHED)
def test_words_that_users_search_for_are_on_the_right_pages(query: str) -> None:
    """Sphinx finds the pages that have every word of a query."""
    for name in reference.SEARCHED[query]:
        assert name in NAMES
        words = re.findall(r"\w+", (inspect.getdoc(found(name)) or "").lower())
        assert {*re.findall(r"\w+", query)} <= {*words}, name


def test_queries_lead_to_sets() -> None:
    def sets(query: str) -> set[str]:
        return {name.removeprefix("fwflow.") for name in reference.SEARCHED[query]}

    assert sets("non-negative") == {"Simplex", "UnitSimplex", "Box"}
    assert sets("sum to one") == sets("portfolio") == {"Simplex"}
    assert sets("lasso") | sets("group lasso") >= {"L1Ball", "GroupBall", "sklearn.L1Regression"}
    assert sets("assignment") == {"Birkhoff", "Matching"}
    assert sets("matrix factorisation") >= {"NuclearBall", "MatrixCompletion"}


PAGES = {name: page for name, page in reference.MEMBERS.items() if name in NAMES}


def test_every_public_class_has_a_page() -> None:
    assert PAGES.keys() == {name for name in NAMES if inspect.isclass(found(name))}


@pytest.mark.parametrize("name", PAGES)
def test_rows_lead_to_entries_with_docstrings(name: str) -> None:
    module = name.rpartition(".")[0]
    page = PAGES[name]
    assert len({*page.rows}) == len(page.rows)
    for row in page.rows:
        kind, _, member = row.rpartition(".")
        full = kind if kind in PAGES else f"{module}.{kind}"
        assert member in PAGES[full].entries
        assert inspect.getdoc(getattr(found(full), member))
    assert {*page.entries} <= {row.rpartition(".")[2] for row in page.rows}


@pytest.mark.parametrize("name", [name for name in PAGES if issubclass(found(name), reference.fwflow.ConstraintSet)])
def test_pages_of_sets_have_the_members_that_users_call(name: str) -> None:
    entries = {*PAGES[name].entries}
    assert {"lmo", "contains", "start", "diameter"} <= entries
    if name != "fwflow.ConstraintSet":
        offered = found(name).projection is not reference.fwflow.ConstraintSet.projection
        assert ("ConstraintSet.project" in PAGES[name].rows) == offered
    assert name == "fwflow.ConstraintSet" or not {"away_vertex", "best_vertices", "near", "fingerprint"} & entries


def test_pages_of_some_classes() -> None:
    assert {"lmo", "contains"} <= {*PAGES["fwflow.L1Ball"].entries}
    assert {"ConstraintSet.random_start", "ConstraintSet.project"} <= {*PAGES["fwflow.L1Ball"].rows}
    assert "LinkCosts.cost" in PAGES["fwflow.Beckmann"].rows
    assert {"fit", "predict", "predict_proba"} <= {*PAGES["fwflow.sklearn.L1ClassifierCV"].entries}
    assert {"order", "certificate", "from_file"} <= {*PAGES["fwflow.Tableau"].entries}
