"""Comparison of methods and variants on one problem: their runs, ratios of their gaps, figures and tables."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import fwflow
from fwflow._validation import Array, InputError
from fwflow.methods import UncertifiedWarning
from fwflow.methods.catalogue import AUTO, VARIANTS
from fwflow.reproduction.claims import Case, Claim, Data, Topic, VerdictRule
from fwflow.reproduction.framework import FW, RK44, Figure, Findings, Results, ResultTable, Task, run_tasks
from fwflow.reproduction.problems import PROBLEMS, columns, find_problem, solve
from fwflow.reproduction.report import write_report
from fwflow.reproduction.style import best_so_far, colours, convergence, gains, label
from fwflow.run.loop import minimize
from fwflow.steps.momentum import find_momentum
from fwflow.steps.searches import find_line_search
from fwflow.tableau.catalogue import find_tableau

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


def long_key(variant: str) -> str:
    """Return the name of the result file of the long run of FW."""
    return f"{key(FW, variant)}-long"


def long_run(results: Results, variant: str) -> Any:
    """Return the long run of FW, or the usual run if there is no long run."""
    return results.get(long_key(variant), results[key(FW, variant)])


def most_stages(methods: Sequence[str]) -> int:
    """Return the largest number of stages. FW needs as many steps for the gradients of one step of that method."""
    return max(find_tableau(method).stages for method in methods)


def long_tasks(
    problem: str, options: dict[str, Any], methods: Sequence[str], variants: Variants, iterations: int
) -> list[Task]:
    """Return tasks for runs of FW with as many gradients as the other methods need, for comparisons at equal cost."""
    if FW not in methods:
        return []
    steps = iterations * most_stages(methods)
    return [
        replace(task, key=long_key(variant))
        for variant, options_of in variants.items()
        for task in tasks(problem, options, [FW], {variant: options_of}, steps)
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
    return at, _latest(x, gap, at) / _latest(x_below, gap_below, at)


def _latest(x: Array, gap: Array, at: Array) -> Array:
    """Return the gaps at the last positions that do not exceed `at`, up to the rounding of `at`."""
    return gap[np.maximum(0, np.searchsorted(x, at * (1 + 1e-12), side="right") - 1)]


def _curve(run: Any, along: str) -> tuple[Array, Array]:
    x, best = run[along][1:], best_so_far(run["gap"])[1:]
    known = np.isfinite(best) & (x > 0)
    return x[known], np.maximum(best[known], 1e-300)


def mean_ratio(above: Any, below: Any) -> float:
    """Return the geometric mean of `curve_ratio` over the iterations; NaN if it is empty."""
    _, ratio = curve_ratio(above, below)
    return _geometric_mean(ratio) if len(ratio) else math.nan


HELPS_MORE = VerdictRule.above("agrees if at least 1.05, disagrees if less than 1/1.05")
SMALLER = VerdictRule.above("agrees if at least 1.05, disagrees if less than 1/1.05")

#: Comparisons at equal cost: their names, and the columns of a run.
EQUAL = {"equal iterations": "k", "equal numbers of gradients": "calls"}


def helps_more(
    variant: str,
    where: str,
    source: str,
    results: Results,
    methods: Sequence[str],
    topic: Topic | None,
    data: Data,
    note: str = "",
) -> list[Claim]:
    """Return the claim that a variant lowers the gaps of multistep methods, and by larger factors than FW's gap.

    Claims at equal cost follow: with the variant, multistep methods have smaller gaps than FW.
    """
    place = where.removeprefix("the ")
    statement = f"{variant.capitalize()}{',' if ',' in variant else ''} helps multistep methods more than FW ({place})"
    if FW not in methods or len(methods) < 2:
        needs = "the comparison needs FW and a multistep method"
        return [Claim(statement, source, HELPS_MORE, (), needs, topic=topic, data=data, note=note)]
    gain = {m: mean_ratio(results[key(m, "plain")], results[key(m, variant)]) for m in methods}
    multistep = [m for m in gain if m != FW]
    words = variant.partition(",")[0]
    helps = Claim(
        statement,
        source,
        HELPS_MORE,
        cases({m: min(gain[m], gain[m] / gain[FW]) for m in multistep}),
        "the smaller of two numbers: the gain of the method, and this gain divided by the gain of FW. The gain is the "
        f"gap without {words} divided by the gap with {words} (geometric mean along the run). The gains "
        f"are: {', '.join(f'{label(m)} {g:.2f}' for m, g in gain.items())}",
        _finding(variant, place, results, multistep, data),
        topic,
        f"{words}, {place}",
        data=data,
        note=note,
    )
    return [helps, *(_against_fw(variant, place, results, multistep, cost, data, note) for cost in EQUAL)]


def _ratio_to_fw(results: Results, method: str, variant: str, cost: str) -> tuple[Array, Array]:
    """Return `curve_ratio` of FW and a method, both with the variant, along the column of an equal cost."""
    fw = long_run(results, variant) if EQUAL[cost] == "calls" else results[key(FW, variant)]
    return curve_ratio(fw, results[key(method, variant)], EQUAL[cost])


def _at_equal_cost(variant: str, results: Results, multistep: Sequence[str]) -> dict[str, float]:
    """Return RK44 / FW by cost in words, or the same for the first method without RK44.

    The costs are the iterations that both runs have, the gradients of the run of FW, and those of the run of the
    method. The result is empty if the runs are too short.
    """
    method = _shown(multistep)
    fw, run = results[key(FW, variant)], results[key(method, variant)]
    costs = [("k", min(fw["k"][-1], run["k"][-1]), "iterations")]
    costs += [("calls", min(r["calls"][-1], run["calls"][-1]), "gradients") for r in (fw, long_run(results, variant))]
    ratio = {}
    for along, at, unit in costs:
        gaps = [_curve(r, along) for r in (long_run(results, variant) if along == "calls" else fw, run)]
        if any(not len(x) or x[0] > at for x, _ in gaps):
            return {}
        of_fw, own = (float(_latest(x, gap, np.array([at]))[0]) for x, gap in gaps)
        ratio[f"after {at:.0f} {unit}"] = own / of_fw
    return ratio


def _shown(multistep: Sequence[str]) -> str:
    return RK44 if RK44 in multistep else multistep[0]


def _finding(variant: str, place: str, results: Results, multistep: Sequence[str], data: Data) -> str:
    """Return the better methods by `_at_equal_cost` as an entry of a list."""
    where = f"{place} ({data.value} data)"
    by_steps, *by_calls = _at_equal_cost(variant, results, multistep).values() or [math.nan]
    if not by_calls:
        return f"{where} too short to compare"
    first, *others = ({label(FW) if ratio > 1 else label(_shown(multistep))} for ratio in (by_steps, *by_calls))
    better = set().union(*others)
    return f"{where} {first.pop()} / {better.pop() if len(better) == 1 else 'depends on the number of gradients'}"


def _against_fw(
    variant: str, place: str, results: Results, multistep: Sequence[str], cost: str, data: Data, note: str
) -> Claim:
    ratio = {m: _ratio_to_fw(results, m, variant, cost)[1] for m in multistep}
    with_option = variant.partition(",")[0]
    ends = ", ".join(f"{r:.2g} {at}" for at, r in _at_equal_cost(variant, results, multistep).items())
    return Claim(
        f"With {variant}{',' if ',' in variant else ''} multistep methods have smaller gaps than FW at {cost} "
        f"({place})",
        "",
        SMALLER,
        cases({m: _geometric_mean(r) if len(r) else math.nan for m, r in ratio.items()}),
        f"ratio of the gap of FW to the gap of the method, both with {with_option}, at {cost}: geometric mean along "
        "the part that both runs have"
        + (f". The gap of {label(_shown(multistep))} divided by the gap of FW is {ends}" if ends else ""),
        short="" if "," in variant else f"{with_option}, {place}",
        cost="" if "," in variant else f"at {cost}",
        data=data,
        note=note,
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
    kinds: Sequence[Data] = (),
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
        along = "Ratios of the smallest gaps so far. A ratio above 1 means that the gap in the denominator is smaller."
        figures.append(Figure(f"{name}-along", gains(panels), along))
    tables = [_ends(runs, results), *along_tables(runs, results)]
    return Findings(summary, data=[data], figures=figures, tables=tables, kinds=kinds)


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
        (
            "method",
            "variant",
            "gap at the end",
            "f at the end",
            "calls",
            "passes",
            "seconds",
            f"gap after {budget} calls",
        ),
        rows,
        "Gap at the end: geometric mean over the last tenth of the iterations. Calls: number of gradients or number of "
        "oracle calls that the method needs, whichever is larger. Passes over the data and seconds also include the "
        "computation of the gap, which some methods do not need.",
    )


def _ratios(runs: Sequence[tuple[str, str]], results: Results) -> list[tuple[str, str, dict[Any, Any], str]]:
    """Return title, label of the axis, `curve_ratio` by run, and note, for each kind of comparison."""
    without = (
        "Gap without variant / gap with variant",
        AXES[0],
        {(m, v): (m, "plain") for m, v in runs if v != "plain" and (m, "plain") in runs},
        "Ratios of the smallest gaps so far at equal iterations: geometric mean over log-spaced iterations, best and "
        "worst ratio with their iterations, and ratio at the end. Line search and momentum do not change the number of "
        "calls in a step, so the ratios at equal calls are the same.",
    )
    against_fw = (
        "Gap of FW / gap of the method, at equal calls",
        AXES[1],
        {(m, v): (FW, v) for m, v in runs if m != FW and (FW, v) in runs},
        "Each method is compared with FW with the same variant, after the same number of gradient and oracle calls. "
        "For this comparison, FW takes as many steps as it needs for the calls of the other methods. The gaps are "
        "the smallest gaps so far.",
    )
    return [
        (
            title,
            xlabel,
            {r: curve_ratio(_other(results, o, along), results[key(*r)], along) for r, o in others.items()},
            note,
        )
        for title, (along, xlabel), others, note in (without, against_fw)
        if others
    ]


def _other(results: Results, run: tuple[str, str], along: str) -> Any:
    return long_run(results, run[1]) if along == "calls" and run[0] == FW else results[key(*run)]


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
    summary = "Every method runs with every variant that it accepts, from the same start."
    for choice in (choice for choice, method in zip(chosen, methods, strict=True) if method == "auto"):
        summary += f" The method auto chose {label(choice)}: {choice.why}."
    caption = f"Smallest gap so far over {iterations} iterations."
    found = findings("comparison", summary, caption, instance.data, methods, variants, results, COMPARE_AXES)
    heading = (
        f"Comparison of methods on {Path(problem).stem}",
        "All methods and variants solve the same problem from the same start.",
    )
    page = write_report(out, [("comparison", Path(problem).stem, SimpleNamespace(**shown), found)], heading=heading)
    return found.tables[0], page
