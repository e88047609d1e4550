"""Reference of the command line: the build replaces ``<!-- commands -->`` by a section for every command.

The sections are made of the command objects of Typer and of the manuals that `fwflow.cli.manual` attaches to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import typer

from fwflow.cli import app as fwflow_app
from fwflow.cli.manual import manual

if TYPE_CHECKING:
    from sphinx.application import Sphinx

MARKER = "<!-- commands -->"


def walk(command: Any, name: str = "fwflow") -> Iterator[tuple[str, Any]]:
    """Yield the full name and the object of a command and of all commands below it."""
    yield name, command
    for word, child in getattr(command, "commands", {}).items():
        yield from walk(child, f"{name} {word}")


COMMANDS: dict[str, Any] = dict(walk(typer.main.get_command(fwflow_app)))


def anchor(name: str) -> str:
    """Return the anchor of the section of a command."""
    return name.replace(" ", "-")


def prose(text: str) -> str:
    """Return text in Markdown: options and variables as code, names of commands as links to their sections."""
    names = "|".join(sorted((name for name in COMMANDS if " " in name), key=len, reverse=True))

    def marked(match: re.Match[str]) -> str:
        return f"[`{match[0]}`](#{anchor(match[0])})" if match[0] in COMMANDS else f"`{match[0]}`"

    catalogues = r"fwflow list \w+|fwflow COMMAND --help"
    return re.sub(
        rf"{catalogues}|(?:{names})\b|--[a-z][\w-]*|\bFWFLOW_\w+|\b[a-z]\w*(?:\[:R\]|:[A-Z]+(?:,[A-Z]+)*)", marked, text
    )


def is_argument(param: Any) -> bool:
    """Return whether a parameter is an argument and not an option."""
    return bool(param.param_type_name == "argument")


def placeholder(param: Any) -> str:
    """Return the name of the value of a parameter in a synopsis; flags have none."""
    if getattr(param, "is_flag", False):
        return ""
    return str(param.metavar or param.name.upper())


def synopsis(name: str, command: Any) -> str:
    """Return the form of a call: required options are named, arguments in brackets are optional."""
    if getattr(command, "commands", None):
        return f"{name} [OPTIONS] COMMAND ..."
    words = [name]
    for param in command.params:
        if is_argument(param):
            word = placeholder(param) if param.required else f"[{placeholder(param)}]"
            words.append(f"{word}..." if param.nargs != 1 else word)
    words += [f"{p.opts[0]} {placeholder(p)}" for p in command.params if p.required and not is_argument(p)]
    return " ".join([*words, "[OPTIONS]"])


def default(param: Any) -> str:
    """Return the default of an option as text; empty if there is none, or if the description states it."""
    if param.default is None or param.required or (param.default is False and not param.secondary_opts):
        return ""
    value = (param.opts if param.default else param.secondary_opts)[0] if param.secondary_opts else param.default
    return f" Default: `{value}`."


def entry(param: Any) -> str:
    """Return a parameter as an entry of a definition list."""
    if is_argument(param):
        term = f"`{placeholder(param)}`"
    else:
        flags = [*param.opts, *param.secondary_opts]
        term = ", ".join(f"`{f'{flag} {placeholder(param)}'.strip()}`" for flag in flags)
    needed = " Required." if param.required and not is_argument(param) else ""
    return f"{term}\n: {prose(param.help)}{needed}{default(param)}"


def parameters(command: Any) -> Iterator[str]:
    """Yield the arguments and the options of a command, with the headings of the help text."""
    groups: dict[str, list[Any]] = {}
    for param in command.params:
        if not getattr(param, "hidden", False):
            title = "Arguments" if is_argument(param) else param.rich_help_panel or "Options"
            groups.setdefault(title, []).append(param)
    for title in sorted(groups, key=lambda title: title == "Options"):
        yield f"```{{rubric}} {title}\n```"
        yield from map(entry, groups[title])


def section(name: str, command: Any) -> str:
    """Return the section of a command."""
    described = manual(command.callback)
    parts = [f"## {name}", *map(prose, described.description), f"```text\n{synopsis(name, command)}\n```"]
    if children := getattr(command, "commands", None):
        parts.append("```{rubric} Commands\n```")
        for word, child in children.items():
            full = f"{name} {word}"
            parts.append(f"[`{full}`](#{anchor(full)})\n: {prose(manual(child.callback).description[0])}")
    parts += parameters(command)
    parts.append("```{rubric} Examples\n```")
    parts += [f"{prose(purpose)}:\n\n```bash\n{line}\n```" for purpose, line in described.examples]
    if described.own_codes:
        parts.append("```{rubric} Exit codes\n```")
        parts += [f"`{code}`\n: {prose(meaning)}" for code, meaning in described.exit_codes.items()]
    return "\n\n".join(parts)


def expand(text: str) -> str:
    """Replace the marker of a page by the sections of all commands."""
    return re.sub(rf"^{MARKER}$", lambda _: "\n\n".join(section(*item) for item in COMMANDS.items()), text, flags=re.M)


def on_source_read(app: Sphinx, docname: str, source: list[str]) -> None:
    """Expand the marker of a page."""
    source[0] = expand(source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the extension to the build."""
    app.connect("source-read", on_source_read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
