"""Time to a certified solution: fwflow and other packages on the same data, in the same run, on one core.

Run with ``make bench``, or ``python benchmarks/peers.py --problems P2 P4 --limit 5``. Everybody is judged by one
measure, computed here in plain NumPy while the clock stands still: the Frank-Wolfe gap relative to that of the start.
Peers marked (λ) solve the penalised problem and are *given* the lambda at which its solution has the L1 norm of ours.
For their sake a fourth column asks for the value: f - f* at most 1e-4 of that at the start.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from problems import PROBLEMS, Array, Problem
from record import RESULTS, THREADS, circumstances
from solvers import SOLVERS, Run, Skipped, Solver

LEVELS = (1e-2, 1e-4, 1e-6)
VALUE = 1e-4
HERE = Path(__file__).parent
PACKAGES = ("copt", "jaxopt", "jax", "scikit-learn", "celer", "skglm", "numba", "cvxpy", "clarabel")


@dataclass
class Stopwatch:
    """The clock of one run. It stands still while an iterate is looked at, about once per 3% of the time."""

    problem: Problem
    limit: float
    first_gap: float
    rows: list[tuple[float, float, float]] = field(default_factory=list)
    elapsed: float = 0.0
    done: bool = False
    resumed: float = field(default_factory=time.perf_counter)

    def __call__(self, x: Any) -> bool:
        self.elapsed += time.perf_counter() - self.resumed
        late = self.elapsed >= self.limit
        if not self.done and (not self.rows or late or self.elapsed >= 1.03 * self.rows[-1][0]):
            self._look(self.elapsed, x() if callable(x) else x)
            self.done |= late
        self.resumed = time.perf_counter()
        return self.done

    def last(self, x: Any) -> None:
        """The run has ended by itself at x, which may not have been looked at."""
        self.elapsed += time.perf_counter() - self.resumed
        if not self.done:
            self._look(self.elapsed, x)

    def whole(self, solve: Callable[[], Any]) -> bool:
        started = time.perf_counter()
        x = solve()
        seconds = time.perf_counter() - started
        self.elapsed += seconds
        self._look(seconds, self.problem.repaired(x))
        self.done |= seconds >= self.limit or self.elapsed >= 3 * self.limit  # the limit is meant for one solve
        return self.done

    def _look(self, seconds: float, x: Any) -> None:
        value, gap = self.problem.measure(x)
        self.rows.append((seconds, gap / self.first_gap, value))
        self.done |= gap <= LEVELS[-1] * self.first_gap


@dataclass
class Outcome:
    """What one solver did on one problem: the rows (seconds, relative gap, value) of every repeat."""

    solver: Solver
    warm_up: float = 0.0
    repeats: list[Array] = field(default_factory=list)
    elapsed: float = 0.0
    note: str = ""

    def seconds(self, level: float, column: int = 1) -> float:
        """The median time to a level of the gap (column 1) or of the value (column 2)."""
        return float(np.median([rows[rows[:, column] <= level, 0].min(initial=np.inf) for rows in self.repeats]))


def attempt(solver: Solver, problem: Problem, limit: float, most: int) -> Outcome:
    """Prepare and run a solver, again if that is quick; whatever goes wrong is said, not dropped."""
    outcome = Outcome(solver)
    started = time.perf_counter()
    try:
        run = solver.prepare(problem)
    except Skipped as reason:
        return Outcome(solver, note=f"not run ({reason})")
    except ModuleNotFoundError as error:
        return Outcome(solver, note=f"not installed: {error}")
    except Exception as error:
        return Outcome(solver, note=complaint(error))
    outcome.warm_up = time.perf_counter() - started
    spent = 0.0
    while len(outcome.repeats) < most and spent <= 2.0 and not outcome.note:
        rows, elapsed, outcome.note = measure(run, problem, limit)
        outcome.repeats += [rows] if len(rows) else []
        outcome.elapsed = max(outcome.elapsed, elapsed)
        spent += elapsed
    return outcome


def measure(run: Run, problem: Problem, limit: float) -> tuple[Array, float, str]:
    watch, note = Stopwatch(problem, limit, problem.measure(problem.x0)[1]), ""
    try:
        run(watch)
    except Exception as error:
        note = complaint(error)
    return np.array(watch.rows), watch.elapsed, note


def complaint(error: Exception) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:100]}"


@dataclass
class Patience:
    """How long a solver is waited for, so that the many that are slow do not take hours."""

    limit: float
    times: float
    deadline: float
    runs_left: int

    def seconds(self, best: float) -> float:
        """At most `times` the best time to a gap of 1e-4, and four even shares of the time left; at least 3 s."""
        share = 4 * (self.deadline - time.monotonic()) / max(self.runs_left, 1)
        self.runs_left -= 1
        return min(self.limit, max(3.0, min(self.times * best, share)))


def compare(problem: Problem, patience: Patience, most: int) -> list[Outcome]:
    """All solvers on one problem."""
    outcomes: list[Outcome] = []
    for solver in SOLVERS:
        best = min((o.seconds(1e-4) for o in outcomes if o.repeats), default=np.inf)
        with quiet():
            outcome = attempt(solver, problem, patience.seconds(best), most)
        outcomes.append(outcome)
        print(f"  {solver.name}: {outcome.elapsed:.2f} s {outcome.note}", file=sys.stderr, flush=True)
    return outcomes


@contextlib.contextmanager
def quiet() -> Any:
    """Some peers print and warn at every turn."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def table(problem: Problem, outcomes: Sequence[Outcome]) -> str:
    """Seconds, and in brackets the ratio to the best of the column."""
    ran = [o for o in outcomes if o.repeats]
    target, doubt = value_target(problem, np.concatenate([rows for o in ran for rows in o.repeats]))
    columns = [(level, 1) for level in LEVELS] + ([] if doubt else [(target, 2)])
    least = [min(o.seconds(*column) for o in ran) for column in columns]
    header = ["solver", *(f"gap {level:.0e}" for level in LEVELS), *([] if doubt else [f"value {VALUE:.0e}"])]
    lines = [[*header, "smallest gap", "warm-up"]]
    lines.append(["---"] * len(lines[0]))
    for o in ran:
        cells = [cell(o, o.seconds(*column), floor) for column, floor in zip(columns, least, strict=True)]
        last = min(float(rows[:, 1].min()) for rows in o.repeats)
        lines.append([o.solver.name, *cells, f"{last:.1e}", f"{o.warm_up:.2f}"])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    body = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    notes = [f"* {o.solver.name}: {o.note}" for o in outcomes if o.note]
    return "\n".join(
        [
            f"### {problem.name}: {problem.title}",
            "",
            problem.source,
            "",
            *body,
            "",
            *([doubt] if doubt else []),
            *notes,
            "",
        ]
    )


def digest(results: Sequence[tuple[Problem, Sequence[Outcome]]]) -> str:
    """Return the README's table: seconds of a whole call of fwflow, and of the fastest other package."""
    level = 1e-4
    lines = ["| problem | fwflow | fastest other solver | ratio of times |", "| --- | --- | --- | --- |"]
    for problem, outcomes in results:
        ran = [o for o in outcomes if o.repeats]
        peers = {o.solver.name: o.seconds(level) for o in ran if o.solver.package != "fwflow"}
        ours = min(o.seconds(level) for o in ran if o.solver.name == "fwflow auto, whole call")
        name = min(peers, key=lambda name: peers[name])
        said, times = f"{name}, {peers[name]:.2g} s", f"{peers[name] / ours:.2g}"
        if not np.isfinite(peers[name]):
            waited = max(o.elapsed for o in ran if o.solver.name in peers)
            said = f"none within {waited:.2g} s"
            times = f"> {waited / ours:.2g}"
        lines.append(f"| {problem.title} | {ours:.2g} s | {said} | {times} |")
    return "\n".join(lines)


def into_readme(text: str) -> None:
    """Put the table where the README has its place for it."""
    readme = HERE.parent / "README.md"
    head, begin, rest = readme.read_text(encoding="utf-8").partition("<!-- make bench -->\n")
    _, end, tail = rest.partition("<!-- end -->\n")
    if not (begin and end):
        raise ValueError("README.md has no place for the table: lines <!-- make bench --> and <!-- end -->")
    readme.write_text(head + begin + text + "\n" + end + tail, encoding="utf-8")


def value_target(problem: Problem, rows: Array) -> tuple[float, str]:
    """The value to reach, and in words why there is none: nobody has found f* closely enough."""
    first, first_gap = problem.measure(problem.x0)
    best, bound = float(rows[:, 2].min()), float((rows[:, 2] - first_gap * rows[:, 1]).max())
    unknown = (best - bound) / (first - best)
    doubt = f"* No times to a value, because f* is known only to {unknown:.0e} of f(start) - f*."
    return best + VALUE * (first - best), doubt if unknown > VALUE / 2 else ""


def cell(outcome: Outcome, seconds: float, least: float) -> str:
    if np.isfinite(seconds):
        return f"{seconds:.3g} ({seconds / least:.3g})"
    return f"> {max(float(rows[:, 0].max()) for rows in outcome.repeats):.3g}"


def plot(problem: Problem, outcomes: Sequence[Outcome], folder: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(9, 5.5), layout="constrained")
    styles = {"fwflow": "-", "copt": "--", "jaxopt": "--"}
    for i, outcome in enumerate(o for o in outcomes if o.repeats):
        rows = outcome.repeats[0]
        rows = rows[np.argsort(rows[:, 0], kind="stable")]
        gap = np.minimum.accumulate(rows[:, 1])
        shown = (gap > 0) & (rows[:, 0] > 0)
        style = styles.get(outcome.solver.package, ":")
        ax.loglog(rows[shown, 0], gap[shown], style, marker="." if style == ":" else None, color=f"C{i % 10}")
        ax.lines[-1].set_label(outcome.solver.name)
    ax.set(xlabel="seconds", ylabel="best relative Frank-Wolfe gap", title=f"{problem.name}: {problem.title}")
    ax.set_ylim(bottom=1e-7)
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{problem.name}.png", dpi=120, transparent=True)
    plt.close(figure)


def setting(arguments: argparse.Namespace) -> str:
    """Return date, machine, versions and how to read the tables."""
    return f"""Measured by `python benchmarks/peers.py --write` on {circumstances(PACKAGES)}
One core is used, with one thread.

The cells are seconds (medians of repeats), with the ratio to the best of the column in brackets. `>` means that the
solver did not reach the accuracy in that time.

* Gap: the Frank-Wolfe gap, divided by the gap at the starting point. Value: f - f*, divided by f - f* at the starting
  point. Here f* is the best value that any solver found.
* Time limits: the limit of a solver is the smaller of two numbers. The first is {arguments.patience:g} times the
  time in which the best solver so far reached a gap of 1e-4. The second is 4 T, where T is the remaining time of the
  whole benchmark ({arguments.total:g} s in total), divided by the number of remaining runs. The limit is never below
  3 s and never above {arguments.limit:g} s.
* Solvers marked (λ) minimise a penalised problem. They are given the penalty λ at which the penalised solution has the
  same L1 norm as the solution of fwflow. If the constraint is not active at the solution, λ is so small that the
  penalty changes the value by at most half of the requested accuracy. These solvers run from scratch with smaller and
  smaller tolerances, and the fastest run that reaches the accuracy counts.
* `whole call` is `fw.minimize(rtol=...)` from the start to the verified result.
* Warm-up (compilation, copies of the data, canonicalisation, the choice of λ) is not part of the times.
"""


def on_one_core() -> None:
    """Start again with one thread per library, on one core: thread pools are sized when libraries are loaded."""
    if os.environ.get("FWFLOW_BENCH_ONE_CORE"):
        return
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    one = {f"{library}_NUM_THREADS": "1" for library in (*THREADS, "RAYON")}
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    os.execve(
        sys.executable,
        [sys.executable, *sys.argv],
        os.environ | one | {"XLA_FLAGS": flags, "FWFLOW_BENCH_ONE_CORE": "1"},
    )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), metavar="P1")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds per solver and problem")
    parser.add_argument(
        "--patience", type=float, default=30.0, help="stop a solver after this multiple of the best time to 1e-4"
    )
    parser.add_argument("--total", type=float, default=480.0, help="seconds of the whole run, roughly")
    parser.add_argument("--repeats", type=int, default=5, help="largest number of repeats of a quick run")
    parser.add_argument("--quick", action="store_true", help="2 seconds per solver and problem, no repeats")
    parser.add_argument("--write", action="store_true", help="store the tables, also the table in the README")
    parser.add_argument("--out", type=Path, help="folder of the plots (default: build/bench)")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.limit, arguments.repeats = min(arguments.limit, 2.0), 1
    return arguments


def main() -> None:
    on_one_core()
    arguments = parse()
    out = arguments.out or HERE.parent / "build" / "bench"
    head = setting(arguments)
    print(head)
    sections, results = [], []
    makers = [make for name in arguments.problems for make in PROBLEMS[name]]
    deadline = time.monotonic() + arguments.total
    patience = Patience(arguments.limit, arguments.patience, deadline, len(makers) * len(SOLVERS))
    for make in makers:
        problem = make()
        outcomes = compare(problem, patience, arguments.repeats)
        results.append((problem, outcomes))
        plot(problem, outcomes, out)
        sections.append(table(problem, outcomes))
        print(table(problem, outcomes), flush=True)
    short = digest(results)
    print(short)
    print(f"Plots: {os.path.relpath(out)}")
    if arguments.write:
        (RESULTS / "peers.md").write_text("\n".join([head, *sections]), encoding="utf-8")
        into_readme(f"{short}\n\n{circumstances(PACKAGES)}")


if __name__ == "__main__":
    main()
