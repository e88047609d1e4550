"""E3: trajectories and gaps on a triangle, plain, with line search, and with momentum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgba

from fwflow._validation import InputError
from fwflow.reproduction import runs
from fwflow.reproduction.claims import Claim, Data, Topic, VerdictRule
from fwflow.reproduction.framework import FW, PAPER_METHODS, RK44, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import columns, find_problem, solve
from fwflow.reproduction.style import FAINT, INK, best_so_far, colours, in_style, label, legend_below, subplots
from fwflow.steps.schedules import OpenLoop
from fwflow.steps.searches import Aggressive
from fwflow.trajectories import exact_flow, fit_rate

TITLE = "The triangle"

LETTER = "line search, as printed"

#: Explanations of the two line searches for the reader of a report, by the name of the variant.
NOTES = {
    "line search": "Rule of the figures: the step is the largest of 1, 1/2, 1/4, ... that decreases f, but at least "
    "the step of the schedule. The figures of the paper were made with this rule.",
    LETTER: "Printed formula (section 4): the step is the largest one that does not increase f, but at least the "
    "step of the schedule. Such a step may leave f unchanged, so a method may jump between two points of equal value.",
}
BOTH_SEARCHES = (
    "Line search is judged by two rules, because the formula in the paper differs from the rule of its figures. The "
    'variant "line search" uses the rule of the figures, and "line search, as printed" uses the printed formula.'
)

SEARCHES: dict[str, dict[str, Any]] = {
    "plain": {},
    "line search": {"line_search": Aggressive()},
    LETTER: {"line_search": Aggressive(shrink=None)},
}
VARIANTS = {**SEARCHES, "momentum": {"momentum": "nesterov"}}

CLOSER = VerdictRule.below("agrees if at most 1/1.05, disagrees if more than 1.05")
FASTER = VerdictRule.above("agrees if at least 1.05, disagrees if less than 1/1.05")


@dataclass(frozen=True)
class Settings:
    """The example of the paper, with steps counted from `k0`. The trajectories of the first three methods are drawn."""

    methods: tuple[str, ...] = PAPER_METHODS
    iterations: int = 400
    drawn: int = 15
    c: float = 2.0
    k0: int = 1


QUICK: dict[str, Any] = {}


def path(method: str, variant: dict[str, Any], iterations: int, c: float, k0: int) -> dict[str, Any]:
    """Return the columns and the iterates of one run."""
    p = find_problem("triangle")
    points: list[Any] = []
    options = {"method": method, "schedule": OpenLoop(c=c, k0=k0), **variant}
    result = solve(p, iterations, callback=lambda state: points.append(state.x), **options)
    x, y = np.stack(points).T
    return {**columns(result, variant.get("momentum")), "x": x, "y": y}


def reference(iterations: int, c: float, k0: int) -> dict[str, Any]:
    """Return the flow at the times of the iterates."""
    p = find_problem("triangle")
    t = k0 + np.arange(iterations + 1)
    x, y = exact_flow(p.f, p.C, p.x0).at(c * np.log((c + t) / (c + k0))).T
    return {"x": x, "y": y}


def tasks(settings: Settings) -> list[Task]:
    if settings.drawn > settings.iterations:
        raise InputError(f"drawn must not exceed iterations; got {settings.drawn} and {settings.iterations}")
    s, data = settings, find_problem("triangle").data
    shared = {"iterations": s.iterations, "c": s.c, "k0": s.k0}
    paths = [
        Task(runs.key(method, variant), path, {"method": method, "variant": VARIANTS[variant], **shared}, data)
        for method, variant in runs.pairs(s.methods, VARIANTS)
    ]
    if FW in s.methods:
        steps = {**shared, "iterations": s.iterations * runs.most_stages(s.methods)}
        paths += [
            Task(runs.long_key(variant), path, {"method": FW, "variant": options, **steps}, data)
            for variant, options in VARIANTS.items()
        ]
    return [Task("flow", reference, {**shared, "iterations": s.drawn}, data), *paths]


#: Place of the general statement in the paper, for data sets that its figures do not show with an option.
GENERAL = "Introduction, usefulness"


def helped(where: str, sources: Mapping[str, str], results: Results, methods: Sequence[str], data: Data) -> list[Claim]:
    """Return the claims that line search, by both rules, and momentum help multistep methods more than FW.

    `sources` are the figures of the paper by option.
    """
    options = (
        ("line search", f"{sources.get('line search', GENERAL)}; rule of the figures", Topic.SEARCH),
        (LETTER, "Section 4, formula of the step size", Topic.PRINTED_SEARCH),
        ("momentum", sources.get("momentum", GENERAL), Topic.MOMENTUM),
    )
    return [
        claim
        for variant, source, topic in options
        for claim in runs.helps_more(variant, where, source, results, methods, topic, data, NOTES.get(variant, ""))
    ]


def findings(settings: Settings, results: Results) -> Findings:
    methods, where = settings.methods, "the triangle"
    rows, pairs = [], runs.pairs(methods, VARIANTS)
    for method, variant in pairs:
        run = results[runs.key(method, variant)]
        exponent = fit_rate(run["fun"] + 0.0, run["k"]).exponent
        rows.append((label(method), variant, f"{run['fun'][-1]:.2e}", f"{runs.settled(run):.2e}", f"{exponent:.2f}"))
    first, flow = slice(settings.drawn + 1), results["flow"]
    plain = {m: results[runs.key(m, "plain")] for m in methods}
    distance = {
        m: float(np.hypot(run["x"][first] - flow["x"], run["y"][first] - flow["y"]).mean()) for m, run in plain.items()
    }
    others = [m for m in methods if m != FW and FW in methods]
    ahead = {m: runs.mean_ratio(plain[FW], plain[m]) for m in others}
    header = ("method", "variant", f"f after {settings.iterations} steps", "gap at the end", "exponent of k in f")
    caption = (
        f"The first {settings.drawn} steps from (0, 1), from pale to dark, with level lines of f. The dotted line is "
        f"the flow. Right: smallest gap so far over {settings.iterations} steps. The schedule has c = {settings.c:g} "
        f"and starts at k = {settings.k0}."
    )
    shown_in = {"line search": "Figure 3, middle row", "momentum": "Figure 3, bottom row"}
    return Findings(
        summary="f = ‖x‖²/2 over the triangle with the vertices (-1,0), (0,1) and (1,0). The optimum is the midpoint "
        f"of the lower edge. {BOTH_SEARCHES}",
        data=[find_problem("triangle").data],
        figures=[Figure("e3-triangle", _trajectories(settings, results), caption)],
        tables=[
            ResultTable("Results at the end of each run on the triangle", header, rows),
            *runs.along_tables(pairs, results),
        ],
        claims=[
            Claim(
                "Higher-order methods are closer to the flow",
                "Figure 3, top row",
                CLOSER,
                runs.cases({m: distance[m] / distance[FW] for m in others}),
                f"mean distance to the flow over {settings.drawn} steps, divided by the same distance of FW",
                f"On {where}, RK44 is {distance['rk44'] / distance['fw']:.2g} times as far from the flow as FW"
                if {FW, RK44} <= set(methods)
                else "",
                Topic.ZIGZAG,
            ),
            Claim(
                "Multistep methods converge faster than FW (triangle)",
                "Figure 3, top row",
                FASTER,
                runs.cases(ahead),
                "ratio of the gap of FW to the gap of the method, geometric mean along the run",
            ),
            *helped(where, shown_in, results, methods, Data.EXACT),
        ],
        overview=_overview(settings, results) if {FW, RK44} <= set(methods) else None,
    )


@in_style
def _trajectories(settings: Settings, results: Results) -> Any:
    shown = settings.methods[:3]
    ratios = [1] * len(shown) + [1.25]
    figure, grid = subplots(len(VARIANTS), len(ratios), 10.6, 8.0, gridspec_kw={"width_ratios": ratios})
    colour, flow = colours(settings.methods), results["flow"]
    for axes, variant in zip(grid, VARIANTS, strict=True):
        for ax, method in zip(axes, shown, strict=False):
            _triangle(ax)
            _path(ax, results[runs.key(method, variant)], settings.drawn, colour[method])
            ax.plot(flow["x"], flow["y"], color=INK, lw=0.9, ls=":", zorder=2, label="the flow")
            ax.set_title(f"{label(method)}, {variant.removeprefix('line search, ')}")
        for method in settings.methods:
            run = results[runs.key(method, variant)]
            best = np.maximum(best_so_far(run["gap"])[1:], 1e-17)
            axes[-1].loglog(run["k"][1:], best, color=colour[method], lw=1.1, label=label(method))
        axes[-1].set(ylabel="smallest gap so far", xlabel="k" if variant == "momentum" else "", title=variant)
    legend_below(figure, {label(m): c for m, c in colour.items()}, {"the flow": ":"})
    return figure


@in_style
def _overview(settings: Settings, results: Results) -> Figure:
    figure, grid = subplots(1, 1, 3.4, 3.0)
    ax, colour, flow = grid[0, 0], colours((FW, RK44)), results["flow"]
    _triangle(ax)
    ax.plot(flow["x"], flow["y"], color=INK, lw=1.1, ls=":", zorder=3, label="the flow")
    for m in colour:
        x, y = (results[runs.key(m, "plain")][name][: settings.drawn + 1] for name in ("x", "y"))
        ax.plot(x, y, "o-", color=colour[m], ms=2.5, lw=1.2, label=label(m))
    ax.set(title="The triangle")
    legend_below(figure, {label(m): c for m, c in colour.items()}, {"the flow": ":"})
    caption = f"The first {settings.drawn} steps of FW and RK44 on the triangle, and the flow that both discretise."
    return Figure("overview-triangle", figure, caption)


def _triangle(ax: Any) -> None:
    """Draw the triangle, level lines of f and the optimum."""
    u, v = np.meshgrid(np.linspace(-1.1, 1.1, 60), np.linspace(-0.15, 1.1, 40))
    ax.contour(u, v, (u**2 + v**2) / 2, levels=np.linspace(0.02, 0.6, 9), colors=FAINT, linewidths=0.6)
    ax.fill([-1, 0, 1], [0, 1, 0], facecolor="none", edgecolor=INK, lw=1.0)
    ax.plot([-1, 0, 1], [0, 1, 0], "o", color=INK, ms=3)
    ax.plot(0, 0, marker="*", color=INK, ms=7, zorder=5)
    ax.set(xlim=(-1.15, 1.15), ylim=(-0.18, 1.12), xticks=[-1, 0, 1], yticks=[0, 1], aspect="equal")
    ax.grid(False)


def _path(ax: Any, run: Any, drawn: int, colour: str) -> None:
    """Draw a trajectory that is pale at first."""
    points = np.column_stack([run["x"], run["y"]])[: drawn + 1]
    steps = np.stack([points[:-1], points[1:]], axis=1)
    shades = [to_rgba(colour, alpha) for alpha in np.linspace(0.6, 1.0, len(points))]
    ax.add_collection(LineCollection(list(steps), colors=shades[1:], lw=1.5, zorder=3))
    ax.scatter(*points.T, c=shades, s=9, zorder=4, label="iterates")
