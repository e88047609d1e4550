"""Tables of benchmarks: printed as Markdown and, with ``--write``, stored in ``benchmarks/results/``.

A stored file says when, from which commit and on which machine it was measured. The pages of the documentation include
these files.
"""

from __future__ import annotations

import contextlib
import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

HERE = Path(__file__).parent
RESULTS = HERE / "results"
THREADS = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "VECLIB_MAXIMUM")


def on_one_thread() -> None:
    """Start the script again with one thread per library, since libraries read the number of threads when loaded."""
    one = {f"{library}_NUM_THREADS": "1" for library in THREADS}
    if any(os.environ.get(name) != value for name, value in one.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | one)


#: Least processor time of a measurement in seconds. The clock ticks every 8 ms on some machines.
ENOUGH = 0.2


def timed(task: Callable[[], T]) -> tuple[T, float]:
    """Return the last result of a task and its processor time, the mean of as many calls as take long enough."""
    calls, seconds, started = 0, 0.0, time.process_time()
    while seconds < ENOUGH:
        result = task()
        calls, seconds = calls + 1, time.process_time() - started
    return result, seconds / calls


def version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def processor() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def commit() -> str:
    """Return the commit of the source, with a mark if files differ from it."""
    described = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude=*"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    return "unknown"


def circumstances(packages: Sequence[str], machine: str | None = None) -> str:
    """Return the date, commit, machine and versions of a measurement."""
    machine = machine or f"{processor()}, {os.cpu_count()} cores"
    installed = ", ".join(f"{package} {version(package)}" for package in ("fwflow", "numpy", "scipy", *packages))
    return f"{datetime.date.today()}, commit {commit()}; {machine}; Python {platform.python_version()}, {installed}."


class Record:
    """Output of one benchmark.

    ``Record("flow", "scikit-learn")`` names the file and the packages, besides fwflow, NumPy and SciPy, whose versions
    matter. As a context manager it stores the output at the end, if the command line has ``--write``.
    """

    def __init__(self, name: str, *packages: str, machine: str | None = None) -> None:
        self.name = name
        self.lines: list[str] = []
        self.say(f"Measured by `python benchmarks/{name}.py` on {circumstances(packages, machine)}")

    def say(self, text: str = "") -> None:
        """Print a paragraph."""
        print(text + "\n", flush=True)
        self.lines += [text, ""]

    def table(self, *header: str) -> None:
        """Print the header of a table; calls of `row` follow."""
        self.row(*header)
        self.row(*("---" for _ in header))

    def row(self, *cells: object) -> None:
        """Print a row of a table."""
        line = "| " + " | ".join(map(str, cells)) + " |"
        print(line, flush=True)
        self.lines.append(line)

    def end_table(self) -> None:
        """Print the blank line that ends a table."""
        print()
        self.lines.append("")

    def __enter__(self) -> Record:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and "--write" in sys.argv:
            RESULTS.mkdir(exist_ok=True)
            text = "\n".join(self.lines).rstrip() + "\n"
            (RESULTS / f"{self.name}.md").write_text(text, encoding="utf-8")
