"""Comparison of methods and variants on one problem: their runs, ratios of their gaps, figures and tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import fwflow
from fwflow._validation import Array, InputError
from fwflow.methods import UncertifiedWarning
from fwflow.methods.catalogue import AUTO, VARIANTS
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import FW, Figure, Findings, Results, ResultTable, Task, run_tasks
from fwflow.reproduction.problems import PROBLEMS, columns, find_problem, solve
from fwflow.reproduction.report import write_report
from fwflow.reproduction.style import best_so_far, colours, convergence, gains, label
from fwflow.run.loop import minimize
from fwflow.steps.momentum import find_momentum
from fwflow.steps.searches import find_line_search

Variants = Mapping[str, dict[str, Any]]

#: Horizontal axes of the figures: columns of a run, and their labels. The second line is for ``fwflow compare``.
AXES = (("k", "iteration k"), ("calls", "gradient and oracle calls"), ("time", "seconds"))
COMPARE_AXES = (*AXES[:2], ("passes", "passes over the data"), ("time", "seconds"))


def run(problem: str, options: dict[str, Any], method: str, variant: dict[str, Any], iterations: int) -> dict[str, Any]:
    """Return the columns of a run of one method on one problem."""
    result = solve(find_problem(problem, **options), iterations, method=method, **variant)
    return columns(result, variant.get("momentum"))


def key(method: str, variant: str) -> str:
    """Return the name of the result file of a run. The checksum separates tableau files of the same name."""
    path = Path(method)
    file = f"-{sha256(method.encode()).hexdigest()[:8]}" if path.suffix else ""
    return f"{path.stem}{file}-{variant.replace(',', '').replace(' ', '-')}"


def _content(path: str) -> str:
    """Return a checksum of the file of a tableau or a problem, which may change between runs."""
    return sha256(Path(path).read_bytes()).hexdigest() if Path(path).suffix and Path(path).is_file() else ""


def takes(method: str, variant: Mapping[str, Any]) -> bool:
    """Return whether a method accepts the options of a variant. Tableaus accept all of them."""
    taken = () if method == AUTO else VARIANTS[method].takes if method in VARIANTS else variant
    return set(variant) <= set(taken)


def pairs(methods: Sequence[str], variants: Variants) -> list[tuple[str, str]]:
    """Return every method with every variant whose options it accepts."""
    return [(m, name) for name, variant in variants.items() for m in methods if takes(m, variant)]


def tasks(
    problem: str, options: dict[str, Any], methods: Sequence[str], variants: Variants, iterations: int
) -> list[Task]:
    """Return a task for each of `pairs`."""
    data = find_problem(problem, **options).data
    data += "".join(_content(str(options.get(name, ""))) for name in ("path", "target_file"))
    shared = {"problem": problem, "options": options, "iterations": iterations}
    return [
        Task(key(m, v), run, {**shared, "method": m, "variant": variants[v]}, data + _content(m))
        for m, v in pairs(methods, variants)
    ]


def cases(values: Mapping[str, float]) -> tuple[Case, ...]:
    """Return a case for the number of each method."""
    return tuple(Case(label(method), value) for method, value in values.items())


def settled(run: Any) -> float:
    """Return the geometric mean of the gap over the last tenth of a run, because the gap oscillates."""
    gap = run["gap"][np.isfinite(run["gap"])]
    return _geometric_mean(np.maximum(gap[-max(1, len(gap) // 10) :], 1e-300))


def _geometric_mean(values: Array) -> float:
    return float(np.exp(np.log(values).mean()))


def curve_ratio(above: Any, below: Any, along: str = "k") -> tuple[Array, Array]:
    """Return log-spaced values of a column, and the ratio of the smallest gaps so far of two runs at each of them.

    The values cover the part of the column that both runs have after the start. They are empty if there is none.
    """
    (x, gap), (x_below, gap_below) = _curve(above, along), _curve(below, along)
    if not (len(x) and len(x_below)) or x[0] > x_below[-1] or x_below[0] > x[-1]:
        return np.empty(0), np.empty(0)
    at = np.geomspace(max(x[0], x_below[0]), min(x[-1], x_below[-1]), 200)
    i, i_below = (np.searchsorted(position, at, side="right") - 1 for position in (x, x_below))
    return at, gap[i] / gap_below[i_below]


def _curve(run: Any, along: str) -> tuple[Array, Array]:
    x, best = run[along][1:], best_so_far(run["gap"])[1:]
    known = np.isfinite(best) & (x > 0)
    return x[known], np.maximum(best[known], 1e-300)


def mean_ratio(above: Any, below: Any) -> float:
    """Return the geometric mean of `curve_ratio` over the iterations; NaN if it is empty."""
    _, ratio = curve_ratio(above, below)
    return _geometric_mean(ratio) if len(ratio) else math.nan


HELPS_MORE = VerdictRule.above("for: at least 1.05; against: at most 1/1.05")


def helps_more(
    variant: str, where: str, source: str, results: Results, methods: Sequence[str], topic: Topic | None
) -> Claim:
    """Return the claim that a variant lowers the gaps of multistep methods, and by larger factors than FW's gap."""
    place = where.removeprefix("the ")
    statement = f"{variant.capitalize()}{',' if ',' in variant else ''} helps multistep methods more than FW ({place})"
    if FW not in methods or len(methods) < 2:
        return Claim(statement, source, HELPS_MORE, (), "the comparison needs FW and a multistep method", topic=topic)
    gain = {m: mean_ratio(results[key(m, "plain")], results[key(m, variant)]) for m in methods}
    multistep = [m for m in gain if m != FW]
    most = max(multistep, key=gain.__getitem__)
    return Claim(
        statement,
        source,
        HELPS_MORE,
        cases({m: min(gain[m], gain[m] / gain[FW]) for m in multistep}),
        "the smaller of the gain and its ratio to FW's gain; gains (gap without over gap with, geometric mean along "
        f"the run): {', '.join(f'{label(m)} {g:.2f}' for m, g in gain.items())}",
        f"on {where} it divides the gap by {gain[most]:.2f} for {label(most)} and by {gain[FW]:.2f} for FW",
        topic,
        f"{variant}, {place}",
    )


def findings(
    name: str,
    summary: str,
    caption: str,
    data: str,
    methods: Sequence[str],
    variants: Variants,
    results: Results,
    axes: Sequence[tuple[str, str]] = AXES,
    aside: str = "",
) -> Findings:
    """Return the figures and tables of a comparison, without claims. The variant `aside` is not in the ratio figure."""
    colour, runs = colours(methods), pairs(methods, variants)
    curves = [(label(m), colour[m], v, results[key(m, v)]) for m, v in runs]
    axes = [axis for axis in axes if any((columns[axis[0]] > 0).any() for *_, columns in curves)]
    figures = [Figure(name, convergence(curves, axes, "smallest Frank-Wolfe gap so far"), caption)]
    panels = [
        (title, xlabel, [(label(m), colour[m], v, *ratio) for (m, v), ratio in ratios.items()])
        for title, xlabel, ratios, _ in _ratios([(m, v) for m, v in runs if v != aside], results)
    ]
    if panels:
        along = "Ratio of the smallest gaps so far. Values above the line mean a lower gap."
        figures.append(Figure(f"{name}-along", gains(panels), along))
    return Findings(summary, data=[data], figures=figures, tables=[_ends(runs, results), *along_tables(runs, results)])


def _ends(runs: Sequence[tuple[str, str]], results: Results) -> ResultTable:
    budget = min(int(results[key(m, v)]["calls"][-1]) for m, v in runs)
    rows = []
    for m, variant in runs:
        r = results[key(m, variant)]
        at_budget = max(0, int(np.searchsorted(r["calls"], budget, side="right")) - 1)
        ends = (f"{settled(r):.3e}", f"{r['fun'][-1]:.6g}", f"{int(r['calls'][-1])}")
        costs = (f"{r['passes'][-1]:.4g}", f"{r['time'][-1]:.2f}")
        rows.append((label(m), variant, *ends, *costs, f"{best_so_far(r['gap'])[at_budget]:.3e}"))
    return ResultTable(
        "Results at the end of each run",
        ("method", "variant", "gap at the end", "f at the end", "calls", "passes", "seconds", f"gap by {budget} calls"),
        rows,
        "Gap at the end: geometric mean over the last tenth of the iterations. Calls: the larger of the numbers of "
        "gradients and of oracle calls that the method itself needs. Passes over the data and seconds include the cost "
        "of computing the gap for methods that do not need it.",
    )


def _ratios(runs: Sequence[tuple[str, str]], results: Results) -> list[tuple[str, str, dict[Any, Any], str]]:
    """Return title, label of the axis, `curve_ratio` by run, and note, for each kind of comparison."""
    without = (
        "Gap without over gap with, along the iterations",
        AXES[0],
        {(m, v): (m, "plain") for m, v in runs if v != "plain" and (m, "plain") in runs},
        "Ratios of the smallest gaps so far: geometric mean over log-spaced iterations, best and worst value with "
        "their iterations, and value at the end. A step with line search or momentum makes as many calls as a step "
        "without, so the ratios at equal calls are the same.",
    )
    against_fw = (
        "FW's gap over the method's, at equal calls",
        AXES[1],
        {(m, v): (FW, v) for m, v in runs if m != FW and (FW, v) in runs},
        "FW with the same variant, after the same number of gradient and oracle calls; smallest gaps so far.",
    )
    return [
        (title, xlabel, {r: curve_ratio(results[key(*o)], results[key(*r)], along) for r, o in others.items()}, note)
        for title, (along, xlabel), others, note in (without, against_fw)
        if others
    ]


def along_tables(runs: Sequence[tuple[str, str]], results: Results) -> list[ResultTable]:
    """Return tables of the ratios of the gaps along the runs."""
    header = ("method", "variant", "mean", "best", "worst", "at the end")
    return [
        ResultTable(title, header, [(label(m), v, *_cells(*ratio)) for (m, v), ratio in ratios.items()], note)
        for title, _, ratios, note in _ratios(runs, results)
    ]


def _cells(at: Array, ratio: Array) -> list[str]:
    """Return the mean, the best, the worst and the last value of `curve_ratio` as text."""
    if not len(ratio):
        return ["-"] * 4
    extremes = (f"{ratio[i]:.3g} at {at[i]:.0f}" for i in (ratio.argmax(), ratio.argmin()))
    return [f"{_geometric_mean(ratio):.3g}", *extremes, f"{ratio[-1]:.3g}"]


def compare(
    problem: str,
    methods: Sequence[str],
    line_searches: Sequence[str],
    momenta: Sequence[str],
    *,
    iterations: int,
    out: Path,
    workers: int | None,
    **options: Any,
) -> tuple[ResultTable, Path]:
    """Run every method with every variant on a problem by name, or on a data file with the options of `from_file`."""
    name = problem if problem in PROBLEMS else "file"
    options |= {} if problem in PROBLEMS else {"path": problem}
    variants: dict[str, dict[str, Any]] = {"plain": {}}
    variants |= {f"{search} line search": {"line_search": search} for search in line_searches}
    variants |= {f"{momentum} momentum": {"momentum": momentum} for momentum in momenta}
    for variant in variants.values():  # A wrong name fails here and not in a worker process.
        find_line_search(variant.get("line_search"))
        find_momentum(variant.get("momentum"))
    instance = find_problem(name, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        chosen = [minimize(instance.f, instance.C, instance.x0, method=m, tol=0, max_iter=0).method for m in methods]
    for unused in set(variants) - {taken for _, taken in pairs(methods, variants)}:
        raise InputError(f"none of the methods {', '.join(methods)} accepts {unused}; leave it out or add a method")
    shown = {"problem": problem, "methods": tuple(methods), "variants": tuple(variants), "iterations": iterations}
    planned = tasks(name, options, methods, variants, iterations)
    results = run_tasks({"comparison": planned}, out, fwflow.__version__, workers)["comparison"]
    summary = "Every method with every variant that it accepts, from the same start."
    for choice in (choice for choice, method in zip(chosen, methods, strict=True) if method == "auto"):
        summary += f" Here auto is {label(choice)}: {choice.why}."
    caption = f"Smallest gap so far over {iterations} iterations."
    found = findings("comparison", summary, caption, instance.data, methods, variants, results, COMPARE_AXES)
    heading = (f"Methods compared on {Path(problem).stem}", "The same problem and start for every method and variant.")
    page = write_report(out, [("comparison", Path(problem).stem, SimpleNamespace(**shown), found)], heading=heading)
    return found.tables[0], page
