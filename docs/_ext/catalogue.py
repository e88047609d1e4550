"""Tables of the catalogues: the sets, losses, line searches and momenta that the package has.

A page has a marker, which is a comment: ``<!-- catalogue: sets vectors -->`` in Markdown, ``.. catalogue: losses`` in
reStructuredText. The build replaces it by a table. Pages of the reference that list the members of a catalogue are
written as a whole, because autosummary reads files.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from set_pictures import redraw, view

import fwflow as fw
from fwflow.objectives.losses import losses
from fwflow.steps import momentum, schedules, searches

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parents[1]
PICTURES = DOCS / "figures" / "sets"
#: Families of sets, in the order of the page, and what their part of the reference is called.
FAMILIES = {
    "vectors": "Vectors",
    "matrices": "Matrices",
    "graphs and integers": "Graphs and integers",
    "made of other sets": "Sets made of other sets",
}
#: Functions that make sets of the models of other libraries.
MODELS = ("from_cvxpy", "from_highs")
#: Sets without a picture, and why.
NOT_DRAWN = {"FlowPolytope": "its oracle takes costs that are not negative"}

SETS: dict[str, type[fw.ConstraintSet]] = {
    name: kind
    for name in fw.__all__
    if inspect.isclass(kind := getattr(fw, name))
    and issubclass(kind, fw.ConstraintSet)
    and not inspect.isabstract(kind)
}


def fields(kind: type) -> dict[str, str]:
    """The fields of a docstring: lines that begin with ``:Name:``, and the indented lines below each."""
    found = re.findall(r"^:([A-Z]\w+): (.*(?:\n[ ]+\S.*)*)", inspect.getdoc(kind) or "", flags=re.M)
    return {name: " ".join(text.split()) for name, text in found}


def first_sentence(value: Any) -> str:
    """The first sentence of a docstring, without its full stop."""
    return re.split(r"\.(?:\s|$)", " ".join((inspect.getdoc(value) or "").split()), maxsplit=1)[0]


def offers(C: fw.ConstraintSet, shape: tuple[int, ...]) -> list[str]:
    """What a set offers beside its oracle, found out by asking."""
    known = C.known_vertices
    g, x = np.random.default_rng(0).random(shape), np.asarray(C.start(shape))  # costs of paths are not negative
    offered = {
        "projection": C.projection(shape) is not None,
        "ranking": known is not None and len(known.best_vertices(g, 2, C.lmo(g))) > 1,
        "faces": C.faces is not None,
        "mixtures": known is not None and known.decomposed(x) is not None,
        "bounds": C.bounds(shape) is not None,
        "certified": type(C).lower_bound is not fw.ConstraintSet.lower_bound,
        "factored": C.factored,
    }
    return [name for name, offer in offered.items() if offer]


def row(name: str) -> list[str]:
    """The cells of a set: picture, call, members and uses, oracle, cost, offers."""
    kind = SETS[name]
    said = fields(kind)
    if missing := {"Family", "Uses", "Oracle", "Cost"} - said.keys():
        raise ValueError(f"the docstring of {name} needs fields {sorted(missing)} in its section Notes")
    if said["Family"] not in FAMILIES:
        raise ValueError(f"the family of {name} is {said['Family']!r}; it must be one of {[*FAMILIES]}")
    call = f":py:obj:`{name}({', '.join(inspect.signature(kind).parameters)}) <fwflow.{name}>`"
    members = f"{first_sentence(kind)}.\n\n    *Uses:* {said['Uses']}."
    offered = said["Offers"] if "Offers" in said else ", ".join(offers(*view(name)[:2]))
    picture = "" if name in NOT_DRAWN else f"figures/sets/{name}.png"
    return [picture, call, members, said["Oracle"], said["Cost"], offered]


def sets_of(family: str) -> list[str]:
    """The names of the sets of a family."""
    return [name for name, kind in SETS.items() if fields(kind).get("Family") == family]


def named(entries: Mapping[str, Any]) -> list[list[str]]:
    """A catalogue by name, with the first sentence of each entry."""
    return [[f'``"{name}"``', first_sentence(entry)] for name, entry in entries.items()]


def table(what: str, argument: str = "") -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table, in reStructuredText."""
    if what == "sets":
        header = ["", "set", "members", "answer of the oracle", "cost", "offers"]
        return header, [row(name) for name in sets_of(argument)]
    entries = {"losses": losses, "line searches": searches.line_searches, "momenta": momentum.momenta}[what]
    return ["name", "definition"], named(entries)


def markdown(text: str) -> str:
    """Roles and literals of reStructuredText as Markdown."""
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text)
    text = re.sub(r":(py:obj):`", r"{\1}`", text)
    return text.replace("``", "`")


def list_table(header: list[str], rows: Iterable[list[str]], in_markdown: bool) -> str:
    """A table as the directive list-table, whose cells may hold the sign ``|``."""
    lines = ["* - " + header[0], *(f"  - {cell}" for cell in header[1:])]
    for cells in rows:
        shown = [markdown(cell) if in_markdown else cell for cell in cells]
        if shown[0].endswith(".png"):
            shown[0] = f"![{Path(shown[0]).stem}]({shown[0]})"
        lines += ["* - " + shown[0], *(f"  - {cell}" for cell in shown[1:])]
    body = "\n".join(line.rstrip() for line in lines)
    if in_markdown:
        return f"```{{list-table}}\n:header-rows: 1\n\n{body}\n```"
    return ".. list-table::\n   :header-rows: 1\n\n" + textwrap.indent(body, "   ")


def expand(text: str, in_markdown: bool) -> str:
    """Replace every marker of a page by its table."""
    marker = r"^<!-- catalogue: (.*?) -->$" if in_markdown else r"^\.\. catalogue: (.*)$"

    def found(match: re.Match[str]) -> str:
        what, _, argument = match[1].partition(" ") if match[1].startswith("sets ") else (match[1], "", "")
        return list_table(*table(what, argument), in_markdown)

    return re.sub(marker, found, text, flags=re.M)


def summary(title: str, names: Iterable[str], before: str = "") -> str:
    """A part of the reference: a heading and an autosummary of classes."""
    entries = "\n".join(f"   {name}" for name in names)
    heading = f"{title}\n{'-' * len(title)}\n\n"
    return f"{heading}{before}.. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{entries}\n"


def reference_pages() -> dict[str, str]:
    """The pages of the reference that list the members of a catalogue, by file."""
    note = ".. Written by docs/_ext/catalogue.py when the site is built.\n\n"
    sets = [summary(title, sets_of(family)) for family, title in FAMILIES.items()]
    parts = {
        "Schedules": (schedules, schedules.Schedule, ""),
        "Line searches": (searches, searches.LineSearch, ".. catalogue: line searches\n\n"),
        "Momentum": (momentum, momentum.Momentum, ".. catalogue: momenta\n\n"),
    }
    steps = [
        summary(title, [name for name in module.__all__ if name != base.__name__], before)
        for title, (module, base, before) in parts.items()
    ]
    return {
        "api/sets.rst": note
        + "Sets\n====\n\n.. currentmodule:: fwflow\n\n"
        + "Constraint sets, with their linear minimisation oracles. :doc:`../sets` shows and compares them.\n"
        + "`minimize` also accepts any callable ``g -> s`` that returns a vertex s for a gradient g.\n\n"
        + "\n".join(sets)
        + "\n"
        + summary("Models of other libraries", MODELS),
        "api/steps.rst": note
        + "Schedules, line searches, momentum\n==================================\n\n.. currentmodule:: fwflow\n\n"
        + "Rules for the length and the direction of a step, which work with every tableau.\n"
        + "`minimize` takes line searches and momenta by name or as objects, and schedules as objects.\n\n"
        + "\n".join(steps),
    }


def write_pages(folder: Path = DOCS) -> None:
    """Write the pages of the reference that have changed."""
    for name, text in reference_pages().items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def on_source_read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Expand the markers of a page."""
    source[0] = expand(source[0], app.env.doc2path(docname).suffix == ".md")


def setup(app: Sphinx) -> dict[str, bool]:
    """Write pages and pictures before the sources are read."""
    write_pages()
    for name in SETS.keys() - NOT_DRAWN.keys():
        redraw(name, PICTURES)
    app.connect("source-read", on_source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    write_pages()
