"""E4: sparse logistic regression on Gisette with all tableaus of the paper, plain, with line search and momentum."""

from __future__ import annotations

import math
from dataclasses import dataclass

from fwflow.reproduction import runs
from fwflow.reproduction.claims import Case, Claim, VerdictRule
from fwflow.reproduction.e3_triangle import BOTH_SEARCHES, LETTER, VARIANTS, helped
from fwflow.reproduction.framework import FW, PAPER_METHODS, RK44, Figure, Findings, Results, Task
from fwflow.reproduction.problems import find_problem
from fwflow.reproduction.style import DASHES, best_so_far, colours, in_style, label, legend_below, subplots

TITLE = "Sparse logistic regression on Gisette"

FAR_BELOW = VerdictRule("agrees if at least 10, disagrees if less than 1", (10.0, math.inf), (1.0, math.inf))


@dataclass(frozen=True)
class Settings:
    """L1 ball of radius alpha, features standardised, sum of losses."""

    alpha: float = 250.0
    iterations: int = 200
    methods: tuple[str, ...] = PAPER_METHODS


QUICK = {"iterations": 60}


def tasks(settings: Settings) -> list[Task]:
    planned = ("gisette", {"alpha": settings.alpha}, settings.methods, VARIANTS, settings.iterations)
    return [*runs.long_tasks(*planned), *runs.tasks(*planned)]


def findings(settings: Settings, results: Results) -> Findings:
    methods = settings.methods
    summary = (
        "Logistic loss, summed over the samples, over an L1 ball. The features are standardised. Steps are counted "
        f"from k = 0. {BOTH_SEARCHES}"
    )
    caption = (
        f"Smallest gap so far of the summed loss over the L1 ball of radius {settings.alpha:g}, for "
        f"{settings.iterations} iterations."
    )
    problem = find_problem("gisette", alpha=settings.alpha)
    data, kind = problem.data, problem.kind
    found = runs.findings("e4-gisette", summary, caption, data, methods, VARIANTS, results, aside=LETTER, kinds=[kind])
    found.claims += helped("Gisette", {"momentum": "Figure 4, left"}, results, methods, kind)
    if {FW, RK44} <= set(methods):
        _, ratio = runs.curve_ratio(results["fw-plain"], results["rk44-momentum"])
        statement = "RK44 with momentum ends with a far smaller gap than plain FW (Gisette)"
        number = f"ratio of the smallest gap of FW to that of RK44 after {settings.iterations} iterations"
        ends = tuple(Case("RK44", float(last)) for last in ratio[-1:])
        found.claims.append(Claim(statement, "Figure 4, left", FAR_BELOW, ends, number, data=kind))
        found.overview = _overview(results)
    return found


@in_style
def _overview(results: Results) -> Figure:
    colour, styles = colours((FW, RK44)), dict(zip(("plain", "momentum"), DASHES, strict=False))
    figure, grid = subplots(1, 2, 5.6, 3.0, sharey=True)
    for ax, (column, xlabel) in zip(grid[0], (("k", "iteration k"), ("calls", "number of gradients")), strict=True):
        for variant, style in styles.items():
            for m in colour:
                name = f"{label(m)}, {variant}"
                run = runs.long_run(results, variant) if (m, column) == (FW, "calls") else results[runs.key(m, variant)]
                ax.loglog(run[column][1:], best_so_far(run["gap"])[1:], color=colour[m], ls=style, label=name)
        ax.set(xlabel=xlabel, title=f"Gisette, by {xlabel.removesuffix(' k')}")
    grid[0, 0].set(ylabel="smallest gap so far")
    legend_below(figure, {label(m): c for m, c in colour.items()}, styles, columns=4)
    caption = "FW and RK44 on Gisette, plain and with momentum, by iterations and by numbers of gradients."
    return Figure("overview-gisette", figure, caption)
