"""What happens while a run goes on? Its progress is shown, and its state is kept from time to time."""

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

# A screen need not be written to more often.
_BETWEEN = 0.1


def resumed(checkpoint: Path | None, resume: bool) -> fw.State | None:
    """The state to continue from, if there is one and it is asked for."""
    if checkpoint is None:
        if resume:
            raise InputError("--resume needs --checkpoint, the file to continue from")
        return None
    if not checkpoint.exists():
        return None
    if not resume:
        raise InputError(f"--checkpoint {checkpoint} is there already: --resume continues it; or remove it")
    return fw.State.load(checkpoint)


class Checkpoints:
    """Keeps the state of a run in a file, now and then."""

    def __init__(self, path: Path | None, every: float) -> None:
        self.path, self.every, self.last = path, every, time.monotonic()

    def __call__(self, state: fw.State) -> None:
        """Save the state if it is time to."""
        if self.path is not None and time.monotonic() - self.last >= self.every:
            self.save(state)

    def save(self, state: fw.State) -> None:
        """Save the state; a disk that is full for now is no reason to end the run."""
        if self.path is None:
            return
        try:
            state.save(self.path)
        except OSError as error:
            note(f"warning: {error}")
        self.last = time.monotonic()


@contextmanager
def progress(tol: float, rtol: float) -> Iterator[Callable[[fw.State], None]]:
    """How far the gap is, on a logarithmic scale from the first to the tolerance, on terminals."""
    errors = Console(stderr=True)
    if not errors.is_terminal:
        yield lambda state: None
        return
    columns = ("{task.fields[k]} iterations", "gap {task.fields[gap]}", "{task.fields[passes]:.0f} passes")
    with Progress(
        BarColumn(), *map(TextColumn, columns), TimeElapsedColumn(),
        console=errors, transient=True,
    ) as bars:  # fmt: skip
        task = bars.add_task("", total=1.0, k=0, gap="unknown", passes=0.0)
        shown = 0.0

        def show(state: fw.State) -> None:
            nonlocal shown
            now = time.monotonic()
            if not state.gap > 0 or now - shown < _BETWEEN:  # gaps that were not computed are NaN
                return
            shown = now
            wanted = max(tol, rtol * state.first_gap)
            whole = math.log(state.first_gap / wanted) if 0 < wanted < state.first_gap else 0.0
            done = math.log(state.first_gap / state.gap) / whole if whole else 0.0
            bars.update(
                task,
                completed=min(max(done, 0.0), 1.0),
                k=state.k,
                gap=f"{state.gap:.1e} of {wanted:.0e}",
                passes=state.counts.n_design,
            )

        yield show
