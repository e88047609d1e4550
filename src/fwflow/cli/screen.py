"""Output, progress and interrupts: results go to the standard output, all other messages to the standard error."""

from __future__ import annotations

import json
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import fwflow as fw

console = Console()

# Seconds between two updates of the progress bar, and seconds before it appears, chosen without tuning.
_UPDATE_SECONDS, _DELAY_SECONDS = 0.1, 2.0


def note(text: str) -> None:
    """Print a line on the standard error."""
    typer.echo(text, err=True)


@contextmanager
def noted_warnings() -> Iterator[None]:
    """Print each different warning of the block as a line on the standard error, at its end."""
    with warnings.catch_warnings(record=True, action="always") as warned:
        yield
    for message in dict.fromkeys(str(warning.message) for warning in warned):
        note(f"warning: {message}")


def print_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]], text: int = 2) -> None:
    """Print a table. The first `text` columns are aligned to the left, the others to the right as numbers."""
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, overflow="fold", justify="left" if i < text else "right")
    for row in rows:
        table.add_row(*map(Text, row))
    # The table is as wide as its content, also beyond the terminal: rich would break numbers in two.
    wanted = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(wanted, 20)).print(table)


def print_json(fields: Mapping[str, Any]) -> None:
    """Print one JSON document, with null for numbers that are not finite."""
    finite = json.loads(json.dumps(fields), parse_constant=lambda constant: None)
    typer.echo(json.dumps(finite, allow_nan=False, indent=1))


@contextmanager
def on_interrupt(consequence: str) -> Iterator[None]:
    """End the command after Ctrl-C with exit code 130 and a message that describes the consequence."""
    try:
        yield
    except KeyboardInterrupt:
        note(f"interrupted; {consequence}")
        raise typer.Exit(130) from None


@contextmanager
def interrupt_check(postponed: bool = False) -> Iterator[Callable[[], None]]:
    """Yield a function that raises KeyboardInterrupt again if Ctrl-C was pressed.

    Python drops exceptions that are raised within a destructor, also KeyboardInterrupt, so that a run would continue if
    it was interrupted while it closed a file. With `postponed`, only the function raises.
    """
    pressed: list[int] = []

    def press(number: int, frame: object) -> None:
        pressed.append(number)
        if not postponed:
            raise KeyboardInterrupt

    def check() -> None:
        if pressed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, press)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Postpone Ctrl-C to the end of the block, so that the block is completed."""
    with interrupt_check(postponed=True) as check:
        yield
    check()


@contextmanager
def _delayed_bar(text: str) -> Iterator[Callable[[Callable[[], tuple[float, str]]], None]]:
    """Yield a function that updates a bar on terminals. It takes a function that returns the share and a description.

    The bar appears after two seconds, so that short commands print nothing but their result.
    """
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield lambda describe: None
        return
    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    bars = Progress(*columns, console=errors, transient=True)
    task, begin, shown = bars.add_task(text, total=1.0), time.monotonic(), 0.0

    def update(describe: Callable[[], tuple[float, str]]) -> None:
        nonlocal shown
        now = time.monotonic()
        if now - begin < _DELAY_SECONDS or now - shown < _UPDATE_SECONDS:
            return
        shown = now
        bars.start()
        share, description = describe()
        bars.update(task, completed=min(max(share, 0.0), 1.0), description=description)

    try:
        yield update
    finally:
        if shown:
            bars.stop()


class Count:
    """Number of things that are done and their total, shown by a bar."""

    def __init__(self, what: str, update: Callable[[Callable[[], tuple[float, str]]], None]) -> None:
        self._what, self._update, self._done, self._total = what, update, 0, 0

    def __call__(self, done: int, total: int) -> None:
        """Change the numbers."""
        self._done, self._total = done, total
        self.refresh()

    def refresh(self) -> None:
        """Show the bar, if two seconds have passed."""
        self._update(self._described)

    def _described(self) -> tuple[float, str]:
        if not self._total:
            return 0.0, f"{self._done} {self._what}" if self._done else f"choosing the radii of the {self._what}"
        return self._done / self._total, f"{self._done} of {self._total} {self._what}"


@contextmanager
def counting(what: str) -> Iterator[Count]:
    """Yield a count of things such as models, which is shown on terminals."""
    with _delayed_bar(what) as update:
        yield Count(what, update)


@contextmanager
def progress(tol: float, rtol: float) -> Iterator[Callable[[fw.State], None]]:
    """Yield a callback that shows, on terminals, the gap on a logarithmic scale from the first gap to the tolerance."""
    with _delayed_bar("0 iterations") as update:

        def show(state: fw.State) -> None:
            if state.gap > 0:  # A gap that was not computed is NaN.
                update(lambda: _share_of_gap(state, max(tol, rtol * state.first_gap)))

        yield show


def _share_of_gap(state: fw.State, wanted: float) -> tuple[float, str]:
    """Return the share of the way from the first gap to the wanted one, and a description."""
    whole = math.log(state.first_gap / wanted) if 0 < wanted < state.first_gap else 0.0
    done = math.log(state.first_gap / state.gap) / whole if whole else 0.0
    gap = f"gap {state.gap:.1e} of {wanted:.0e}"
    return done, f"{state.k} iterations, {gap}, {state.counts.n_design:.0f} passes over the data"
