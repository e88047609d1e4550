"""``fwflow list``: which sets, methods, tableaus, losses and line searches are there?"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

import fwflow as fw
from fwflow.cli.options import JsonOption
from fwflow.cli.screen import print_json, print_table
from fwflow.methods import DEFAULT_SCHEDULE, methods
from fwflow.objectives.losses import losses
from fwflow.steps.searches import line_searches


class Catalogue(StrEnum):
    """What can be listed."""

    sets = "sets"
    methods = "methods"
    tableaus = "tableaus"
    losses = "losses"
    line_searches = "line-searches"


#: What a method is, in a line.
_METHODS = {
    "auto": "chooses by what the objective and the set offer, and changes its mind",
    "away": "active set of vertices; steps toward the best or away from the worst",
    "pairwise": "active set of vertices; moves weight from the worst to the best",
    "blended-pairwise": "pairwise among the vertices it has, while that pays; else toward a new one",
    "lazy-away": "away, asking the oracle only when the vertices it has promise too little",
    "lazy-pairwise": "pairwise, asking the oracle only when the vertices it has promise too little",
    "lazy-blended-pairwise": "blended-pairwise, asking the oracle only when the vertices it has promise too little",
    "blended": "descends on the simplex of the vertices it has, while that pays (blended conditional gradients)",
    "corrective": "adds several vertices per pass and corrects all weights by Newton's method",
    "apg": "accelerated projected gradient, for sets with a projection",
    "polished": "apg until the support is found, then corrective",
    "flow": "the Frank-Wolfe flow itself, followed from event to event on polytopes",
    "decomposition-invariant": "pairwise without an active set, on sets that know the face of a point",
    "sliding": "conditional gradient sliding: fewer gradients, more oracle calls",
    "block": "one block of a product at a time, at the price of its own columns",
    "stochastic": "gradients from batches of rows, and a verified gap at the end",
    "lazy-fw": "Frank-Wolfe with a cache of vertices, for oracles that cost more than gradients",
    "boosted": "Frank-Wolfe along a mixture of vertices that is closer to the gradient",
}

_SIGNS = {
    **{r"\{": "{", r"\}": "}", r"\|": "|", r"\;": " ", r"\,": " ", r"\le": "<=", r"\ge": ">=", r"\infty": "inf"},
    **{r"\pm": "+-", r"\circ": "*", r"\dots": "...", r"\varphi": "phi", r"\succeq": ">=", r"\preceq": "<="},
}


def plain(doc: str) -> str:
    r"""The first sentence of a docstring, for a terminal.

    >>> plain(r":math:`\{x : \|x\|_1 \le r\}`. A vertex has one entry.")
    '{x : |x|_1 <= r}'
    """
    sentence = re.split(r"\.(?:\s|$)", " ".join(doc.split()), maxsplit=1)[0]
    math = re.sub(r":math:`([^`]*)`", r"\1", sentence)
    bare = re.sub(r"\\(?:operatorname|mathbf|mathrm) ?\{?(\w+)\}?", r"\1", math)
    apart = re.sub(r"(\\[A-Za-z]+)(?=\\[A-Za-z])", r"\1 ", bare)
    signs = re.sub(r"\\[A-Za-z]+|\\.", lambda found: _SIGNS.get(found[0], found[0].lstrip("\\")), apart)
    return " ".join(signs.replace("`", "").split())


def _documented(value: Any) -> str:
    return plain(inspect.getdoc(value) or "")


def _sets() -> dict[str, dict[str, str]]:
    public = {name: value for name, value in vars(fw).items() if inspect.isclass(value)}
    found = {n: c for n, c in public.items() if issubclass(c, fw.ConstraintSet) and not inspect.isabstract(c)}
    return {
        name: {"parameters": ", ".join(inspect.signature(found[name]).parameters), "members": _documented(found[name])}
        for name in sorted(found)
    }


def _tableaus() -> dict[str, dict[str, str]]:
    return {
        name: {
            "stages": str(tableau.stages),
            "order": str(tableau.order),
            "stays in the set": "yes" if DEFAULT_SCHEDULE.certifies(tableau) else "not always",
        }
        for name, tableau in fw.tableaus.items()
    }


def _described(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return {name: {"what it is": text} for name, text in texts.items()}


_CATALOGUES: Mapping[Catalogue, Callable[[], dict[str, dict[str, str]]]] = {
    Catalogue.sets: _sets,
    Catalogue.methods: lambda: _described({name: _METHODS[name] for name in methods}),
    Catalogue.tableaus: _tableaus,
    Catalogue.losses: lambda: _described({name: _documented(loss) for name, loss in losses.items()}),
    Catalogue.line_searches: lambda: _described({name: _documented(rule) for name, rule in line_searches.items()}),
}


def show(
    what: Annotated[Catalogue, typer.Argument(help="The catalogue.")],
    as_json: JsonOption = False,
) -> None:
    """List what fwflow has: sets, methods, tableaus, losses or line searches.

    Methods and tableaus are names for method=, in Python and at the command line; sets are classes of fwflow.

    [bold]Example[/bold]

    fwflow list sets
    """
    entries = _CATALOGUES[what]()
    if as_json:
        print_json(entries)
    else:
        columns = next(iter(entries.values()))
        numbers = 1 if what is Catalogue.tableaus else len(columns) + 1
        print_table(what.value, ("name", *columns), [(name, *row.values()) for name, row in entries.items()], numbers)
