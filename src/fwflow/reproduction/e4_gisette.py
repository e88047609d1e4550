"""E4: sparse logistic regression on Gisette with all tableaus of the paper, plain and with momentum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fwflow.reproduction import runs
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import FW, PAPER_METHODS, RK44, Figure, Findings, Results, Task
from fwflow.reproduction.problems import find_problem
from fwflow.reproduction.style import DASHES, best_so_far, colours, in_style, label, legend_below, subplots

TITLE = "Sparse logistic regression on Gisette"

VARIANTS: dict[str, dict[str, Any]] = {"plain": {}, "momentum": {"momentum": "nesterov"}}
FAR_BELOW = VerdictRule("for: at least 10 times lower; against: not lower at all", (10.0, math.inf), (1.0, math.inf))


@dataclass(frozen=True)
class Settings:
    """L1 ball of radius alpha, features standardised, sum of losses."""

    alpha: float = 250.0
    iterations: int = 200
    methods: tuple[str, ...] = PAPER_METHODS


QUICK = {"iterations": 60}


def tasks(settings: Settings) -> list[Task]:
    return runs.tasks("gisette", {"alpha": settings.alpha}, settings.methods, VARIANTS, settings.iterations)


def findings(settings: Settings, results: Results) -> Findings:
    methods = settings.methods
    summary = "Logistic loss, summed over the samples, on an L1 ball; features standardised; steps from k = 0."
    caption = (
        f"Smallest gap so far of the summed loss over the L1 ball of radius {settings.alpha:g}, "
        f"{settings.iterations} iterations."
    )
    data = find_problem("gisette", alpha=settings.alpha).data
    found = runs.findings("e4-gisette", summary, caption, data, methods, VARIANTS, results)
    found.claims.append(runs.helps_more("momentum", "Gisette", "Figure 4, left", results, methods, Topic.MOMENTUM))
    if {FW, RK44} <= set(methods):
        _, ratio = runs.curve_ratio(results["fw-plain"], results["rk44-momentum"])
        statement = "RK44 with momentum ends far below plain FW (Gisette)"
        number = f"FW's smallest gap over RK44's after {settings.iterations} iterations"
        ends = tuple(Case("RK44", float(last)) for last in ratio[-1:])
        found.claims.append(Claim(statement, "Figure 4, left", FAR_BELOW, ends, number))
        found.overview = _overview(results)
    return found


@in_style
def _overview(results: Results) -> Figure:
    colour, styles = colours((FW, RK44)), dict(zip(VARIANTS, DASHES, strict=False))
    figure, grid = subplots(1, 1, 3.4, 3.0)
    for variant, style in styles.items():
        for m in colour:
            run, name = results[runs.key(m, variant)], f"{label(m)}, {variant}"
            grid[0, 0].loglog(run["k"][1:], best_so_far(run["gap"])[1:], color=colour[m], ls=style, label=name)
    grid[0, 0].set(xlabel="iteration k", ylabel="smallest gap so far", title="Gisette")
    legend_below(figure, {label(m): c for m, c in colour.items()}, styles, columns=2)
    return Figure("overview-gisette", figure, "FW and RK44 on Gisette, plain and with momentum.")
