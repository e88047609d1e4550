"""Progress bar and checkpoints of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

import fwflow as fw
from fwflow._validation import InputError
from fwflow.cli.screen import note

# Seconds between two updates of the progress bar, chosen without tuning.
_BETWEEN = 0.1


def resumed(checkpoint: Path | None, resume: bool) -> fw.State | None:
    """Return the state to continue from, or None for a new run."""
    if checkpoint is None:
        if resume:
            raise InputError("--resume needs --checkpoint, the file to continue from")
        return None
    if not checkpoint.exists():
        return None
    if not resume:
        raise InputError(f"--checkpoint {checkpoint} exists: continue it with --resume, or remove the file")
    return fw.State.load(checkpoint)


class Checkpoints:
    """Callback that saves the state of a run every `every` seconds."""

    def __init__(self, path: Path | None, every: float) -> None:
        self.path, self.every, self.last = path, every, time.monotonic()

    def __call__(self, state: fw.State) -> None:
        if time.monotonic() - self.last >= self.every:
            self.save(state)

    def save(self, state: fw.State) -> None:
        """Save the state. A full disk gives a warning and does not end the run."""
        if self.path is None:
            return
        try:
            state.save(self.path)
        except OSError as error:
            note(f"warning: {error}")
        self.last = time.monotonic()


@contextmanager
def progress(tol: float, rtol: float) -> Iterator[Callable[[fw.State], None]]:
    """Yield a callback that shows, on terminals, the gap on a logarithmic scale from the first gap to the tolerance."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield lambda state: None
        return
    columns = BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=errors, transient=True) as bars:
        task = bars.add_task("0 iterations", total=1.0)
        shown = 0.0

        def show(state: fw.State) -> None:
            nonlocal shown
            now = time.monotonic()
            if not state.gap > 0 or now - shown < _BETWEEN:  # A gap that was not computed is NaN.
                return
            shown = now
            wanted = max(tol, rtol * state.first_gap)
            whole = math.log(state.first_gap / wanted) if 0 < wanted < state.first_gap else 0.0
            done = math.log(state.first_gap / state.gap) / whole if whole else 0.0
            gap = f"gap {state.gap:.1e} of {wanted:.0e}"
            text = f"{state.k} iterations, {gap}, {state.counts.n_design:.0f} passes over the data"
            bars.update(task, completed=min(max(done, 0.0), 1.0), description=text)

        yield show
