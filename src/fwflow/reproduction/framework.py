"""Settings, tasks and findings of experiments; tasks run in processes and their results are kept in files.

An experiment is a module with ``TITLE``, a frozen dataclass ``Settings``, ``QUICK`` (settings of a fast run),
``tasks(settings)`` and ``findings(settings, results)``. A task returns columns of numbers.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import multiprocessing
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, zip_longest
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from fwflow._storage import replacing
from fwflow._validation import Array, InputError, suggest, whole
from fwflow.methods import UncertifiedWarning
from fwflow.reproduction.claims import Claim, Data

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

Columns = Mapping[str, Array]
Results = Mapping[str, Columns]

#: The methods that the paper compares.
FW, MIDPOINT, RK44, RK38, RK5 = PAPER_METHODS = ("fw", "midpoint", "rk44", "rk38", "rk5")


@dataclass(frozen=True)
class Task:
    """Independent run: a module-level function, its arguments, and a description of its data."""

    key: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    data: str = ""

    def fingerprint(self, version: str) -> str:
        """Return a checksum of the version of fwflow, the function, its arguments and the description of its data."""
        function = self.function
        parts = [version, function.__module__, function.__qualname__, repr(sorted(self.arguments.items())), self.data]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@dataclass(frozen=True)
class ResultTable:
    """Table of a report; cells are shown as they are. Without `kinds`, the data are those of the findings."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    kinds: Sequence[Data] = ()


@dataclass(frozen=True)
class Figure:
    """Figure of a report. Without `kinds`, the data are those of the findings."""

    name: str
    figure: MatplotlibFigure
    caption: str
    kinds: Sequence[Data] = ()


@dataclass
class Findings:
    """Result of an experiment. `overview` is its figure in the summary at the top of the report.

    `data` are sentences that describe the data, and `kinds` their kinds.
    """

    summary: str
    data: Sequence[str] = ()
    figures: list[Figure] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    overview: Figure | None = None
    kinds: Sequence[Data] = (Data.EXACT,)


def configure(module: ModuleType, quick: bool, overrides: Mapping[str, Any]) -> Any:
    """Return the settings of an experiment: its defaults, then its quick values if wanted, then the overrides."""
    default = module.Settings()
    for name in overrides:
        if name not in vars(default):
            has = f"{module.__name__.rsplit('.', 1)[-1]} has no setting {name!r}"
            raise InputError(f"{has}; {suggest(name, vars(default))}")
    values = {**(module.QUICK if quick else {}), **overrides}
    return replace(default, **{name: _converted(name, value, getattr(default, name)) for name, value in values.items()})


def _converted(name: str, value: Any, default: Any) -> Any:
    """Return the value of a setting in the type of its default."""
    kind, example = type(default), default
    if kind is tuple:
        example = list(default)
        value = [_converted(name, entry, default[0]) for entry in value] if isinstance(value, list | tuple) else value
    accepted: Any = {tuple: list, float: (int, float)}.get(kind, kind)
    if not isinstance(value, accepted) or isinstance(value, bool) or value == []:
        raise InputError(f"{name} must be of type {type(example).__name__}, such as {example!r}; got {value!r}")
    return kind(value)


def run_tasks(groups: Mapping[str, Sequence[Task]], out: Path, version: str, workers: int | None) -> dict[str, Results]:
    """Run the tasks of several experiments in parallel and return their results by experiment and task.

    A result is read from ``out/results/EXPERIMENT/KEY.csv`` if its fingerprint matches. Otherwise the task is run and
    the file is written. If `out` has a report that fwflow did not write, an InputError is raised before any run.
    """
    if workers is not None:
        whole(workers, "workers", 0)
    refuse_foreign(out / "index.html")
    stores = {name: _Store(out / "results" / name, version) for name in groups}
    results: dict[str, dict[str, Any]] = {
        name: {task.key: stores[name].read(task) for task in tasks} for name, tasks in groups.items()
    }
    missing = [(name, task) for name, tasks in groups.items() for task in tasks if results[name][task.key] is None]
    count = min(workers or os.cpu_count() or 1, max(1, len(missing)))
    total = sum(map(len, groups.values()))
    with tqdm(total=total, initial=total - len(missing), unit="run", desc="experiments") as bar:
        for name, task, columns in _in_parallel(missing, count):
            stores[name].write(task, columns)
            results[name][task.key] = columns
            bar.set_postfix_str(f"{name} {task.key}", refresh=False)
            bar.update()
    return {**results}


def _in_parallel(tasks: Sequence[tuple[str, Task]], workers: int) -> Iterable[tuple[str, Task, Columns]]:
    if not tasks:
        return
    # One BLAS thread per process: several threads would compete for the cores, and would change the order of sums.
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    saved = {name: os.environ.get(name) for name in limits}
    os.environ.update(limits)
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    # Only the parent handles interrupts.
    pool = ProcessPoolExecutor(
        workers, mp_context=context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
    running: dict[Future[Columns], tuple[str, Task]] = {}
    waiting = iter(tasks)
    try:
        while True:  # at most one task per worker is submitted, so that no task begins after an interrupt
            running |= {pool.submit(_call, item[1]): item for item in islice(waiting, workers - len(running))}
            if not running:
                break
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                yield *running.pop(future), future.result()
    except BaseException:
        for worker in set(multiprocessing.active_children()) - others:
            worker.terminate()
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for name, value in saved.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _call(task: Task) -> dict[str, Array]:
    with warnings.catch_warnings():
        # The report has a table of certificates; a warning per run would add nothing.
        warnings.simplefilter("ignore", UncertifiedWarning)
        return {name: np.atleast_1d(column) for name, column in task.function(**task.arguments).items()}


def csv_text(header: Iterable[str], columns: Iterable[Iterable[str]]) -> str:
    """Return columns of cells as CSV text; shorter columns are filled up with empty cells."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows([[*header], *zip_longest(*columns, fillvalue="")])
    return text.getvalue()


def filled(template: Path, **parts: str) -> str:
    """Return an HTML template with its marks ``<!-- name -->`` replaced by the parts, and by its CSS and JS files."""
    text, style, script = (template.with_suffix(kind).read_text(encoding="utf-8") for kind in (".html", ".css", ".js"))
    parts |= {"style": style, "script": script}
    return re.sub(r"<!-- (\w+) -->", lambda mark: parts[mark[1]], text)


class _Store:
    """Results of one experiment on disk: a CSV file per task, and an index of their fingerprints and checksums."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder, self.version = folder, version
        self.index = folder / "index.json"
        folder.mkdir(parents=True, exist_ok=True)
        if not self.index.exists():
            for foreign in folder.glob("*.csv"):
                refuse_foreign(foreign)
        self.known: dict[str, Any] = {}
        with suppress(FileNotFoundError, TypeError, ValueError):  # If the index is damaged, all tasks are run again.
            self.known |= json.loads(self.index.read_text(encoding="utf-8"))

    def read(self, task: Task) -> Columns | None:
        """Return the stored result of a task; None if there is none, or if fingerprint or checksum differ."""
        try:
            content = (self.folder / f"{task.key}.csv").read_bytes()
        except FileNotFoundError:
            return None
        if self.known.get(task.key) != [task.fingerprint(self.version), hashlib.sha256(content).hexdigest()]:
            return None
        header, *rows = csv.reader(io.StringIO(content.decode("utf-8")))
        cells = {name: [row[i] for row in rows] for i, name in enumerate(header)}
        return {name: np.array([float(cell) for cell in column if cell]) for name, column in cells.items()}

    def write(self, task: Task, columns: Columns) -> None:
        """Write the file, then the index: after an interrupt in between, the checksum shows that they disagree."""
        # float(repr(x)) == x for every float.
        text = csv_text(columns, ([repr(float(value)) for value in column] for column in columns.values()))
        with replacing(self.folder / f"{task.key}.csv") as file:
            file.write(text)
        self.known[task.key] = [task.fingerprint(self.version), hashlib.sha256(text.encode("utf-8")).hexdigest()]
        with replacing(self.index) as file:
            json.dump(self.known, file, indent=1, sort_keys=True)


#: Text in every page and every figure, by which fwflow recognises its own files.
MAKER = "made by fwflow"


def refuse_foreign(path: Path) -> None:
    """Raise an InputError if there is a file that fwflow did not write."""
    if path.exists() and MAKER.encode() not in path.read_bytes():
        raise InputError(
            f"{path} was not written by fwflow, so it is not overwritten: move it, or choose another --out"
        )
