"""How is an experiment run? Settings as data, independent tasks over processes, findings with claims and verdicts.

An experiment is a module with ``TITLE``, a frozen dataclass ``Settings``, ``QUICK`` (overrides for a
fast run), ``tasks(settings)`` and ``findings(settings, results)``. Tasks return columns of numbers;
they are written as CSV as soon as they are done, and a rerun takes up what is already there.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import math
import multiprocessing
import os
import signal
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice, zip_longest
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
from tqdm.auto import tqdm

from fwflow._storage import replacing
from fwflow._validation import Array, InputError, suggest, whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

Columns = Mapping[str, Array]
Results = Mapping[str, Columns]

#: The methods that the paper compares.
FW, MIDPOINT, RK44, RK38, RK5 = PAPER_METHODS = ("fw", "midpoint", "rk44", "rk38", "rk5")


@dataclass(frozen=True)
class Task:
    """One independent run: a module-level function, its arguments, and a sentence on the data it uses."""

    key: str
    function: Callable[..., dict[str, Any]]
    arguments: dict[str, Any]
    data: str = ""

    def fingerprint(self, version: str) -> str:
        """Changes when the result may change: another version, function, argument or data set."""
        told = [version, self.function.__module__, self.function.__qualname__, repr(sorted(self.arguments.items()))]
        return hashlib.sha256("\n".join([*told, self.data]).encode()).hexdigest()


#: Two numbers whose ratio is closer to one than this are not told apart.
NOISE = 1.05


@dataclass(frozen=True)
class VerdictRule:
    """What a number says about a statement: for it within `supports`, against it outside `tolerates`, else neither.

    A rule is a constant of its experiment: it is there before the numbers are, and its words stand beside the verdict.
    """

    words: str
    supports: tuple[float, float]
    tolerates: tuple[float, float]

    @classmethod
    def above(cls, words: str, bar: float = 1.0, noise: float = NOISE) -> VerdictRule:
        """For the statement above the bar, against it below, both by more than the noise."""
        return cls(words, (bar * noise, math.inf), (bar / noise, math.inf))

    @classmethod
    def below(cls, words: str, bar: float = 1.0, noise: float = NOISE) -> VerdictRule:
        """For the statement below the bar, against it above, both by more than the noise."""
        return cls(words, (-math.inf, bar / noise), (-math.inf, bar * noise))

    def says(self, value: float) -> int:
        """1 for the statement, -1 against it, 0 neither."""
        if self.supports[0] <= value <= self.supports[1]:
            return 1
        return 0 if self.tolerates[0] <= value <= self.tolerates[1] else -1


class Verdict(Enum):
    """What a run says about a statement of the paper."""

    HOLDS = "holds"
    PARTLY = "holds in part"
    FAILS = "does not hold"
    UNTESTABLE = "not testable here"

    @classmethod
    def of(cls, said: Sequence[int]) -> Verdict:
        """The verdict on what single cases said: 1 for the statement, -1 against it, 0 neither."""
        if not said:
            return cls.UNTESTABLE
        pro, contra = said.count(1), said.count(-1)
        if 2 * pro > len(said) and not contra:
            return cls.HOLDS
        return cls.PARTLY if pro and pro >= contra else cls.FAILS


#: `Verdict.of` in words, for the reader of a report.
HOW_JUDGED = (
    "Each statement is put to the cases named beside it: methods, data sets, or both. A case speaks for the statement, "
    "against it (the opposite, by more than the noise), or neither, by the rule written there. The rules were written "
    "before the gains along the runs of E3 to E6 were computed, but not before earlier figures of E2, of the ends of "
    "runs and of compressed sensing were known. A statement holds if more than half of its cases speak for it and "
    "none against; it holds in part if some speak for it and no more against; otherwise it does not hold."
)


class Topic(Enum):
    """What the paper has to say, in five sentences."""

    FLOW = (
        "The flow converges as fast as its schedule asks, and Frank-Wolfe follows it down to a floor that its time "
        "step sets"
    )
    ZIGZAG = (
        "Zig-zagging is an artefact of discretisation: it shrinks with the time step and with the order of the method"
    )
    SEARCH = "Multistep methods find better directions, so that line search helps them more than Frank-Wolfe"
    MOMENTUM = "For the same reason momentum helps multistep methods more than Frank-Wolfe"
    RATE = "Even so, no Runge-Kutta method whose weights cannot cancel improves on the rate 1/k of Frank-Wolfe"


@dataclass(frozen=True)
class Case:
    """One method or data set that a statement is about, its number, and the paper's own number if it prints one."""

    name: str
    value: float
    printed: float | None = None


@dataclass(frozen=True)
class Claim:
    """A statement, where the paper makes it, and what a run says about it, case by case.

    Parameters
    ----------
    source
        Where in the paper; empty for what goes beyond it.
    number
        What the numbers of the cases are, in words.
    finding
        The gist, for the sentences at the top of a report.
    topic
        Which of those sentences the statement belongs to, if any.
    short
        Its name in the figure there.
    """

    statement: str
    source: str
    rule: VerdictRule
    cases: tuple[Case, ...]
    number: str
    finding: str = ""
    topic: Topic | None = None
    short: str = ""

    def __post_init__(self) -> None:
        known = tuple(case for case in self.cases if not math.isnan(case.value))  # no number says nothing
        object.__setattr__(self, "cases", known)

    @property
    def said(self) -> list[int]:
        """What every case says: 1, 0 or -1."""
        return [self.rule.says(case.value) for case in self.cases]

    @property
    def verdict(self) -> Verdict:
        """What the run says."""
        return Verdict.of(self.said)

    def saying(self, what: int) -> list[Case]:
        """The cases that say so."""
        return [case for case, said in zip(self.cases, self.said, strict=True) if said == what]

    def shown(self, case: Case) -> str:
        """The number of a case: three digits, or as many as it takes to say what the number itself says."""
        texts = (f"{case.value:.{digits}g}" for digits in range(3, 18))
        return next(text for text in texts if self.rule.says(float(text)) == self.rule.says(case.value))


@dataclass(frozen=True)
class ResultTable:
    """A table for the report; cells are shown as they are."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A figure for the report."""

    name: str
    figure: MatplotlibFigure
    caption: str


@dataclass
class Findings:
    """What an experiment has to say."""

    summary: str
    data: Sequence[str] = ()
    figures: list[Figure] = field(default_factory=list)
    tables: list[ResultTable] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    #: What the first screen of a report shows of it.
    overview: Figure | None = None


def configure(module: ModuleType, quick: bool, overrides: Mapping[str, Any]) -> Any:
    """The module's settings, with its quick values and the user's on top."""
    accepted = {f.name: f for f in dataclasses.fields(module.Settings)}
    for name in overrides:
        if name not in accepted:
            raise InputError(f"{module.__name__.rsplit('.', 1)[-1]} has no setting {name!r}; {suggest(name, accepted)}")
    values = {**(module.QUICK if quick else {}), **overrides}
    default = module.Settings()
    return module.Settings(**{name: _fitting(name, value, getattr(default, name)) for name, value in values.items()})


def _fitting(name: str, value: Any, default: Any) -> Any:
    """The value of a setting in the type of its default."""
    if isinstance(default, tuple):
        if not isinstance(value, list | tuple) or not value or not all(_like(v, default[0]) for v in value):
            raise InputError(f"{name} must be a list such as {list(default)}; got {value!r}")
        return tuple(type(default[0])(v) for v in value)
    if not _like(value, default):
        raise InputError(f"{name} must be of the kind of {default!r}; got {value!r}")
    return type(default)(value)


def _like(value: Any, default: Any) -> bool:
    kinds = (int, float) if isinstance(default, float) else type(default)
    return isinstance(value, kinds) and not isinstance(value, bool)


def run_tasks(groups: Mapping[str, Sequence[Task]], out: Path, version: str, workers: int | None) -> dict[str, Results]:
    """Run the tasks of several experiments side by side; results by experiment and task.

    Every result is written to ``out/results/EXPERIMENT/KEY.csv`` when it is there, whole or not at
    all, and is taken from that file if its fingerprint still matches. Before anything is run, a report
    that others have put there is noticed.
    """
    if workers is not None:
        whole(workers, "workers", 0)
    refuse_foreign(out / "index.html")
    store = {name: _Store(out / "results" / name, version) for name in groups}
    results: dict[str, dict[str, Columns]] = {name: {} for name in groups}
    waiting: list[tuple[str, Task]] = []
    for name, tasks in groups.items():
        for task in tasks:
            found = store[name].read(task)
            if found is None:
                waiting.append((name, task))
            else:
                results[name][task.key] = found
    count = min(workers or os.cpu_count() or 1, max(1, len(waiting)))
    total = sum(map(len, groups.values()))
    with tqdm(total=total, initial=total - len(waiting), unit="run", desc="experiments") as bar:
        for name, task, columns in _side_by_side(waiting, count):
            store[name].write(task, columns)
            results[name][task.key] = columns
            bar.set_postfix_str(f"{name} {task.key}", refresh=False)
            bar.update()
    # In the order of the tasks, whichever was done first.
    return {name: {task.key: results[name][task.key] for task in tasks} for name, tasks in groups.items()}


def _side_by_side(waiting: Sequence[tuple[str, Task]], workers: int) -> Iterable[tuple[str, Task, Columns]]:
    if not waiting:
        return
    # One BLAS thread per process: the processes are the parallelism, and sums come out the same every time.
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    saved = {name: os.environ.get(name) for name in limits}
    os.environ.update(limits)
    others = set(multiprocessing.active_children())
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_leave_interrupts_to_the_parent)
    running: dict[Future[Columns], tuple[str, Task]] = {}
    left = iter(waiting)
    try:
        while True:  # no more is handed out than is worked on, so that nothing begins after an interrupt
            running |= {pool.submit(_call, item[1]): item for item in islice(left, workers - len(running))}
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


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(task: Task) -> dict[str, Array]:
    from fwflow import UncertifiedWarning

    with warnings.catch_warnings():
        # The report has a table of certificates; a warning per run would add nothing.
        warnings.simplefilter("ignore", UncertifiedWarning)
        return {name: np.atleast_1d(column) for name, column in task.function(**task.arguments).items()}


class _Store:
    """Results of one experiment on disk: a CSV file per task, and a list of their origins and checksums."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder, self.version = folder, version
        self.index = folder / "index.json"
        folder.mkdir(parents=True, exist_ok=True)
        try:
            known = json.loads(self.index.read_text(encoding="utf-8"))
        except FileNotFoundError:
            known = None
            for foreign in folder.glob("*.csv"):
                refuse_foreign(foreign)
        except ValueError:
            known = None
        self.known: dict[str, Any] = known if isinstance(known, dict) else {}

    def read(self, task: Task) -> Columns | None:
        """The result of a task if it is there, whole, and made from the same things."""
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
        """Keep a result: first the file, then its entry, so that neither is believed without the other."""
        text = io.StringIO(newline="")
        writer = csv.writer(text)
        writer.writerow(columns)
        # repr gives back the same number; shorter columns end early.
        cells = ([repr(float(value)) for value in column] for column in columns.values())
        writer.writerows(zip_longest(*cells, fillvalue=""))
        with replacing(self.folder / f"{task.key}.csv") as file:
            file.write(text.getvalue())
        checksum = hashlib.sha256(text.getvalue().encode("utf-8")).hexdigest()
        self.known[task.key] = [task.fingerprint(self.version), checksum]
        with replacing(self.index) as file:
            json.dump(self.known, file, indent=1, sort_keys=True)


#: Stands in every page and every figure.
MAKER = "made by fwflow"


def refuse_foreign(path: Path) -> None:
    """Nothing is written over files of others: stop where there is one, which is told by what it says of its maker."""
    if path.exists() and MAKER.encode() not in path.read_bytes():
        raise InputError(
            f"{path} was not written by fwflow, so it is not overwritten: move it, or choose another --out"
        )
