"""Descriptions, examples and exit codes of commands, for help texts and for the command-line reference."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])

#: Exit codes that every command has.
COMMON_CODES = {
    0: "The command succeeded.",
    1: "An unexpected error occurred. Add --debug to see the Python traceback.",
    2: "The input is wrong, or a file cannot be read or written.",
}
KILLED = "The input is wrong, a file cannot be read or written, or a worker process was killed."
INTERRUPTED = "The command was interrupted with Ctrl-C."


@dataclass(frozen=True)
class Manual:
    """Description of a command in paragraphs, examples as (purpose, command line), and the command's own exit codes."""

    description: tuple[str, ...]
    examples: tuple[tuple[str, str], ...]
    own_codes: Mapping[int, str]

    @property
    def exit_codes(self) -> dict[int, str]:
        """All exit codes of the command, in increasing order."""
        return dict(sorted({**COMMON_CODES, **self.own_codes}.items()))

    @property
    def help(self) -> str:
        """Text for the terminal. Every paragraph is one line, because Typer keeps the line breaks of a docstring."""
        title = "Examples" if len(self.examples) > 1 else "Example"
        parts = [*map(escape, self.description), f"[bold]{title}[/bold]"]
        parts += [f"{escape(purpose)}:\n  {escape(line)}" for purpose, line in self.examples]
        if self.own_codes:
            codes = [f"  {code:<3}  {escape(meaning)}" for code, meaning in self.exit_codes.items()]
            parts.append("\n".join(["[bold]Exit codes[/bold]", *codes]))
        return "\n\n".join(parts)


def documented(*examples: tuple[str, str], exit_codes: Mapping[int, str] | None = None) -> Callable[[F], F]:
    """Return a decorator that attaches a `Manual`, whose description is the docstring, to the function of a command."""

    def attach(function: F) -> F:
        paragraphs = (inspect.getdoc(function) or "").split("\n\n")  # python -OO removes docstrings
        described = tuple(" ".join(paragraph.split()) for paragraph in paragraphs)
        function.manual = Manual(described, examples, exit_codes or {})  # type: ignore[attr-defined]
        return function

    return attach


def manual(function: Any) -> Manual:
    """Return the manual of a function, or of the callback that Typer made of it."""
    found: Manual = function.manual
    return found


class _PlainFlags:
    """Command that shows no type beside flags, and its help option in the last panel."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, with an empty placeholder for flags."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""
        if any(getattr(param, "rich_help_panel", None) for param in params[:-1]):
            params[-1].rich_help_panel = "Help"
        return params


class Command(_PlainFlags, TyperCommand):
    """Command of fwflow."""


class Group(_PlainFlags, TyperGroup):
    """Command of fwflow that has commands of its own."""
