"""What is shown, and where: results on the standard output, everything else beside it."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

console = Console()


def note(text: str) -> None:
    """A line for the user, not for the next program."""
    typer.echo(text, err=True)


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], text: int = 2) -> None:
    """A table whose first columns are text, and the others numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, overflow="fold", justify="left" if i < text else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    # As wide as it must be: a terminal that folds a line is better than a number cut in two.
    wanted = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(wanted, 20)).print(table)


def print_fields(fields: Mapping[str, str]) -> None:
    """Names and values below one another."""
    width = max(map(len, fields))
    for name, value in fields.items():
        typer.echo(f"{name:>{width}}: {value}")


def print_json(fields: Mapping[str, Any]) -> None:
    """One JSON document; numbers that are none become null."""
    typer.echo(json.dumps(_finite(fields), allow_nan=False, indent=1))


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@contextmanager
def continued(otherwise: str) -> Iterator[None]:
    """Ctrl-C ends a command in peace, with a word on what is left of it."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted; {otherwise}")
        raise typer.Exit(130) from None


@contextmanager
def heard() -> Iterator[Callable[[], None]]:
    """Ctrl-C as ever; what is given raises it again, to be called where the work can end.

    Python drops an exception that is raised within a destructor, KeyboardInterrupt too: a run that saves its state and
    is interrupted as the file is closed would go on.
    """
    pressed: list[int] = []

    def press(number: int, frame: object) -> None:
        pressed.append(number)
        raise KeyboardInterrupt

    def again() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield again
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def unbroken() -> Iterator[None]:
    """What is done here is done as a whole: Ctrl-C waits for its end."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
