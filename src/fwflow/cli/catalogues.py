"""``fwflow list``: names and descriptions of sets, methods, tableaus, losses and line searches."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

import fwflow as fw
from fwflow.cli.manual import documented
from fwflow.cli.options import JsonOption
from fwflow.cli.screen import print_json, print_table
from fwflow.methods import DEFAULT_SCHEDULE
from fwflow.methods.catalogue import AUTO, AUTO_SUMMARY, VARIANTS
from fwflow.objectives.losses import losses
from fwflow.steps.searches import line_searches

# Plain text for commands of LaTeX; other commands lose their backslash.
_SIGNS = {
    **{r"\{": "{", r"\}": "}", r"\|": "|", r"\;": " ", r"\,": " ", r"\le": "<=", r"\ge": ">=", r"\infty": "inf"},
    **{r"\pm": "+-", r"\circ": "*", r"\dots": "...", r"\varphi": "phi", r"\succeq": ">=", r"\preceq": "<="},
}


def plain(doc: str) -> str:
    r"""Return the first sentence of a docstring as text for a terminal.

    >>> plain(r":math:`\{x : \|x\|_1 \le r\}`. A vertex has one entry.")
    '{x : |x|_1 <= r}'
    """
    sentence = re.split(r"\.(?:\s|$)", " ".join(doc.split()), maxsplit=1)[0]
    math = re.sub(r":math:`([^`]*)`", r"\1", sentence)
    bare = re.sub(r"\\(?:operatorname|mathbf|mathrm) ?\{?(\w+)\}?", r"\1", math)
    apart = re.sub(r"(\\[A-Za-z]+)(?=\\[A-Za-z])", r"\1 ", bare)
    signs = re.sub(r"\\[A-Za-z]+|\\.", lambda found: _SIGNS.get(found[0], found[0].lstrip("\\")), apart)
    return " ".join(signs.replace("`", "").split())


def _documented(kinds: Mapping[str, Any], title: str = "description") -> dict[str, dict[str, str]]:
    return {name: {title: plain(inspect.getdoc(kind) or "")} for name, kind in kinds.items()}


def _sets() -> dict[str, dict[str, str]]:
    kinds = {name: kind for name, kind in sorted(vars(fw).items()) if inspect.isclass(kind)}
    sets = {n: kind for n, kind in kinds.items() if issubclass(kind, fw.ConstraintSet) and not inspect.isabstract(kind)}
    parameters = {name: {"parameters": ", ".join(inspect.signature(kind).parameters)} for name, kind in sets.items()}
    return {name: parameters[name] | row for name, row in _documented(sets, "members").items()}


def _tableaus() -> dict[str, dict[str, str]]:
    return {
        name: {
            "stages": str(tableau.stages),
            "order": str(tableau.order),
            "stays in the set": "yes" if DEFAULT_SCHEDULE.certifies(tableau) else "not always",
        }
        for name, tableau in fw.tableaus.items()
    }


Catalogue = StrEnum("Catalogue", ["sets", "methods", "tableaus", "losses", "line-searches"])


@documented(
    ("List the constraint sets", "fwflow list sets"),
    ("List the methods as JSON, for a program", "fwflow list methods --json"),
)
def show(
    catalogue: Annotated[
        Catalogue, typer.Argument(help=f"Catalogue to list: {', '.join(Catalogue)}.", metavar="CATALOGUE")
    ],
    as_json: JsonOption = False,
) -> None:
    """List the sets, methods, tableaus, losses or line searches of fwflow.

    Names of methods and tableaus are values of the option --method, and of the argument method in Python. Names of
    losses are values of --loss. Names of sets are Python classes. The option --set of fwflow solve has its own names.
    """
    methods = {AUTO: {"description": AUTO_SUMMARY, "needs": "-"}}
    entries = {
        "sets": _sets(),
        "methods": methods | {n: {"description": m.summary, "needs": m.needs or "-"} for n, m in VARIANTS.items()},
        "tableaus": _tableaus(),
        "losses": _documented(losses),
        "line-searches": _documented(line_searches),
    }[catalogue.value]
    if as_json:
        print_json(entries)
    else:
        columns = next(iter(entries.values()))
        text = 1 if catalogue.value == "tableaus" else len(columns) + 1
        print_table(catalogue.value, ("name", *columns), [(name, *row.values()) for name, row in entries.items()], text)
