"""Methods times variants on one problem: how they are run, and by how much one is below another along the way."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fwflow._validation import Array
from fwflow.methods.catalogue import AUTO, VARIANTS
from fwflow.reproduction.framework import (
    FW,
    Case,
    Claim,
    Figure,
    Findings,
    Results,
    ResultTable,
    Task,
    Topic,
    VerdictRule,
)
from fwflow.reproduction.problems import columns, find_problem, solve
from fwflow.reproduction.style import best_so_far, colours, convergence, gains, label

Variants = Mapping[str, dict[str, Any]]

AXES = (("k", "iteration k"), ("calls", "gradient and oracle calls"), ("time", "seconds"))


def run(problem: str, options: dict[str, Any], method: str, variant: dict[str, Any], iterations: int) -> dict[str, Any]:
    """One method on one problem."""
    result = solve(find_problem(problem, **options), iterations, method=method, **variant)
    return columns(result, variant.get("momentum"))


def key(method: str, variant: str) -> str:
    """The name of a run's result file."""
    path = Path(method)
    file = f"-{sha256(method.encode()).hexdigest()[:8]}" if path.suffix else ""  # files of one name are kept apart
    return f"{path.stem}{file}-{variant.replace(',', '').replace(' ', '-')}"


def _content(path: str) -> str:
    """A checksum of the file that a tableau or a problem comes from: it may change between runs."""
    return sha256(Path(path).read_bytes()).hexdigest() if Path(path).suffix and Path(path).is_file() else ""


def takes(method: str, variant: Mapping[str, Any]) -> bool:
    """Return whether a method takes the options of a variant. Tableaus take all of them."""
    taken = () if method == AUTO else VARIANTS[method].takes if method in VARIANTS else variant
    return set(variant) <= set(taken)


def pairs(methods: Sequence[str], variants: Variants) -> list[tuple[str, str]]:
    """Every method with every variant that it has."""
    return [(m, name) for name, variant in variants.items() for m in methods if takes(m, variant)]


def tasks(
    problem: str, options: dict[str, Any], methods: Sequence[str], variants: Variants, iterations: int
) -> list[Task]:
    """A run for each of `pairs`."""
    data = find_problem(problem, **options).data
    data += "".join(_content(str(options.get(name, ""))) for name in ("path", "target_file"))
    shared = {"problem": problem, "options": options, "iterations": iterations}
    return [
        Task(
            key(method, variant),
            run,
            {**shared, "method": method, "variant": variants[variant]},
            data + _content(method),
        )
        for method, variant in pairs(methods, variants)
    ]


def settled(run: Any) -> float:
    """The gap that a run has settled to: the geometric mean over its last tenth, since the gap oscillates."""
    gap = run["gap"][np.isfinite(run["gap"])]
    return float(np.exp(np.log(np.maximum(gap[-max(1, len(gap) // 10) :], 1e-300)).mean()))


@dataclass(frozen=True)
class Ratio:
    """How far one curve lies above another along the way: on average, at the extremes and where, and at the end."""

    mean: float
    best: float
    best_at: float
    worst: float
    worst_at: float
    end: float


def curve_ratio(above: Any, below: Any, along: str = "k") -> tuple[Array, Array]:
    """Log-spaced values of a column, and the ratio of the two runs' smallest gaps so far at each of them.

    From the first iterate of both to the end of the shorter run, or nowhere if one ends before the other begins; the
    start, which no method has chosen, does not count.
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


def ratio(above: Any, below: Any, along: str = "k") -> Ratio:
    """By what factor the smallest gap so far of one run is above that of another; NaN if they never meet.

    The mean is the geometric mean over log-spaced values of the column.
    """
    at, r = curve_ratio(above, below, along)
    if not len(r):
        return Ratio(*[math.nan] * 6)
    best, worst = int(r.argmax()), int(r.argmin())
    mean = float(np.exp(np.log(r).mean()))
    return Ratio(mean, float(r[best]), float(at[best]), float(r[worst]), float(at[worst]), float(r[-1]))


HELPS_MORE = VerdictRule.above("for: at least 1.05; against: at most 1/1.05")


def helps_more(
    variant: str, where: str, source: str, results: Results, methods: Sequence[str], topic: Topic | None
) -> Claim:
    """The claim that a variant lowers multistep methods' gaps along the run, and by larger factors than FW's."""
    both = FW in methods and len(methods) > 1
    gain = {m: ratio(results[key(m, "plain")], results[key(m, variant)]).mean for m in methods if both}
    multistep = [m for m in gain if m != FW]
    most = max(multistep, key=gain.__getitem__, default="")
    shown = ", ".join(f"{label(m)} {g:.2f}" for m, g in gain.items())
    place = where.removeprefix("the ")
    return Claim(
        f"{variant.capitalize()}{',' if ',' in variant else ''} helps multistep methods more than FW ({place})",
        source,
        HELPS_MORE,
        tuple(Case(label(m), min(gain[m], gain[m] / gain[FW])) for m in multistep),
        "the gain over FW's, or the gain itself where that is smaller; gains (gap without over gap with, geometric "
        f"mean along the run): {shown}"
        if both
        else "it takes FW and a multistep method to compare",
        f"on {where} it divides the gap by {gain[most]:.2f} for {label(most)} and by {gain['fw']:.2f} for FW"
        if both
        else "",
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
    """The figures and the tables of a comparison, without claims; the figure of ratios leaves one variant aside."""
    colour, runs = colours(methods), pairs(methods, variants)
    curves = [(label(m), colour[m], v, results[key(m, v)]) for m, v in runs]
    axes = [axis for axis in axes if any((columns[axis[0]] > 0).any() for *_, columns in curves)]
    figures = [Figure(name, convergence(curves, axes, "smallest Frank-Wolfe gap so far"), caption)]
    drawn = [(m, v) for m, v in runs if v != aside]
    if views(drawn):
        figures.append(along_figure(f"{name}-along", methods, drawn, results))
    tables = [_ends(runs, results), *along_tables(runs, results)]
    return Findings(summary, data=[data], figures=figures, tables=tables)


def _ends(runs: Sequence[tuple[str, str]], results: Results) -> ResultTable:
    budget = min(int(results[key(m, v)]["calls"][-1]) for m, v in runs)
    rows = []
    for m, variant in runs:
        r = results[key(m, variant)]
        at_budget = max(0, int(np.searchsorted(r["calls"], budget, side="right")) - 1)
        rows.append(
            (
                label(m),
                variant,
                f"{settled(r):.3e}",
                f"{r['fun'][-1]:.6g}",
                f"{int(r['calls'][-1])}",
                f"{r['passes'][-1]:.4g}",
                f"{r['time'][-1]:.2f}",
                f"{best_so_far(r['gap'])[at_budget]:.3e}",
            )
        )
    return ResultTable(
        "Where each run ends",
        ("method", "variant", "gap at the end", "f at the end", "calls", "passes", "seconds", f"gap by {budget} calls"),
        rows,
        "Gap at the end: geometric mean over the last tenth of the iterations. Calls: gradients or oracle calls, "
        "whichever are more, that the method itself needs. Passes over the data and seconds include what watching the "
        "gap costs methods that do not need it.",
    )


@dataclass(frozen=True)
class View:
    """Every run with the one that it is measured against, and along what."""

    title: str
    along: str
    xlabel: str
    against: Mapping[tuple[str, str], tuple[str, str]]
    note: str


def views(runs: Sequence[tuple[str, str]]) -> list[View]:
    """Variants against plain along the iterations, and methods against FW along the calls."""
    without = View(
        "Gap without over gap with, along the iterations",
        *AXES[0],
        {(m, v): (m, "plain") for m, v in runs if v != "plain" and (m, "plain") in runs},
        "Ratios of the smallest gaps so far: geometric mean over log-spaced iterations, best and worst and where, and "
        "the end. A step with line search or momentum makes as many calls as one without, so that against calls the "
        "ratios are the same.",
    )
    against_fw = View(
        "FW's gap over the method's, at equal calls",
        *AXES[1],
        {(m, v): (FW, v) for m, v in runs if m != FW and (FW, v) in runs},
        "FW with the same variant, after as many gradient and oracle calls; smallest gaps so far.",
    )
    return [view for view in (without, against_fw) if view.against]


def along_tables(runs: Sequence[tuple[str, str]], results: Results) -> list[ResultTable]:
    """How runs compare along the way."""
    header = ("method", "variant", "mean", "best", "worst", "at the end")
    return [
        ResultTable(
            view.title,
            header,
            [
                (label(m), v, *_cells(ratio(results[key(*other)], results[key(m, v)], view.along)))
                for (m, v), other in view.against.items()
            ],
            view.note,
        )
        for view in views(runs)
    ]


def along_figure(name: str, methods: Sequence[str], runs: Sequence[tuple[str, str]], results: Results) -> Figure:
    """The same as curves."""
    colour = colours(methods)
    panels = [
        (
            view.title,
            view.xlabel,
            [
                (label(m), colour[m], v, *curve_ratio(results[key(*other)], results[key(m, v)], view.along))
                for (m, v), other in view.against.items()
            ],
        )
        for view in views(runs)
    ]
    caption = "How many times lower the smallest gap so far is, along the way: above the line is better."
    return Figure(name, gains(panels), caption)


def _cells(r: Ratio) -> list[str]:
    if math.isnan(r.mean):
        return ["-"] * 4
    extremes = ((r.best, r.best_at), (r.worst, r.worst_at))
    return [f"{r.mean:.3g}", *(f"{value:.3g} at {at:.0f}" for value, at in extremes), f"{r.end:.3g}"]
