"""E8: is O(1/k) all that there is? The paper's positive and negative results, for every tableau."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np

from fwflow._validation import Array, InputError
from fwflow.objectives import Quadratic
from fwflow.reproduction.framework import Case, Claim, Figure, Findings, Results, ResultTable, Task, Topic, VerdictRule
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve
from fwflow.reproduction.style import RC, colours, label, legend_below, subplots, thin
from fwflow.sets import Box
from fwflow.tableau.catalogue import find_tableau, tableaus
from fwflow.trajectories.diagnostics import fit_rate

TITLE = "Rates"

BOUNDED = VerdictRule("for: at most 1.1; against: more", (0.0, 1.1), (0.0, 1.1))
STAYS = VerdictRule("for: at least 0.5; against: less", (0.5, math.inf), (0.5, math.inf))
NO_FASTER = VerdictRule("for: at most 1.1; against: more", (-math.inf, 1.1), (-math.inf, 1.1))


@dataclass(frozen=True)
class Settings:
    """f = x²/2 over [-1, 1] from x = 1, and the triangle; certified tableaus of the catalogue."""

    iterations: int = 10_000
    methods: tuple[str, ...] = tuple(
        name for name, tableau in tableaus.items() if tableau.certificate(c=2.0).feasible_from == 0
    )


QUICK = {"iterations": 2000}


def interval(method: str, iterations: int) -> dict[str, Any]:
    """|x| along the run on the interval, and its envelope sup over k' >= k."""
    x: list[float] = []
    line = ProblemInstance(Quadratic(np.eye(1)), Box(-1.0, 1.0), np.array([1.0]), 0.0, "")
    solve(line, iterations, method=method, callback=lambda state: x.append(abs(float(state.x[0]))))
    index = thin(np.arange(len(x)), 1500)
    envelope = np.maximum.accumulate(np.array(x)[::-1])[::-1]
    return {"k": index, "envelope": envelope[index]}


def triangle(method: str, iterations: int) -> dict[str, Any]:
    """h = f - f* along the run on the triangle, as an envelope."""
    p = find_problem("triangle")
    h = solve(p, iterations, method=method).trace["fun"]
    index = thin(np.arange(len(h)), 1500)
    return {"k": index, "envelope": np.maximum.accumulate(h[::-1])[::-1][index]}


def splits_evenly(beta: Array) -> bool:
    """Whether some stages carry half of the weight: then opposite steps can cancel, and the negative result is silent.

    The proposition assumes that no partition of the stages has equal sums of beta.
    """
    sums = {0.0}
    for b in beta.tolist():
        sums |= {s + b for s in sums}
    return any(abs(s - 0.5) < 1e-12 for s in sums)


def tasks(settings: Settings) -> list[Task]:
    if settings.iterations < 100:
        raise InputError(f"iterations must be at least 100 to see decades of k; got {settings.iterations}")
    return [
        Task(f"{function.__name__}-{method}", function, {"method": method, "iterations": settings.iterations})
        for function in (interval, triangle)
        for method in settings.methods
    ]


def findings(settings: Settings, results: Results) -> Findings:
    figure, grid = subplots(1, 2, 8.4, 3.3)
    colour = colours(settings.methods)
    even = {m: splits_evenly(find_tableau(m).beta) for m in settings.methods}
    inside, outside = [m for m in even if not even[m]], [m for m in even if even[m]]
    rows = []
    # By tableau: by how much k h grows late in the run, how much of k sup|x| is left, and the fitted exponent.
    growth: dict[str, float] = {}
    kept: dict[str, float] = {}
    exponents: dict[str, float] = {}
    last = settings.iterations // 10  # the end of an envelope sees too little future
    with mpl.rc_context(RC):
        for method in settings.methods:
            line = results[f"interval-{method}"]
            tri = results[f"triangle-{method}"]
            usable, usable_tri = (r["k"] <= settings.iterations - last for r in (line, tri))
            scaled = (line["k"] * line["envelope"])[usable]
            scaled_h = (tri["k"] * tri["envelope"])[usable_tri]
            grid[0, 0].loglog(line["k"][usable], scaled, color=colour[method], label=label(method))
            grid[0, 1].loglog(tri["k"][usable_tri], scaled_h, color=colour[method], label=label(method))
            late, late_tri = line["k"][usable] >= last, tri["k"][usable_tri] >= last
            exponents[method] = fit_rate(line["envelope"][usable], line["k"][usable]).exponent
            early_tri = (tri["k"][usable_tri] >= last // 10) & ~late_tri
            growth[method] = float(scaled_h[late_tri].max() / scaled_h[early_tri].max())
            early = (line["k"][usable] >= last // 10) & ~late
            kept[method] = float(scaled[late].min() / scaled[early].min())
            rows.append(
                (
                    label(method),
                    f"{scaled_h.max():.3g}",
                    f"{scaled_h[late_tri].max():.3g}",
                    f"{scaled[late].min():.3g}",
                    f"{exponents[method]:.3f}",
                    "no" if even[method] else "yes",
                )
            )
        grid[0, 0].set(xlabel="k", ylabel="k · sup |x| over k' ≥ k", title="[-1, 1], f = x²/2")
        grid[0, 1].set(xlabel="k", ylabel="k · sup h over k' ≥ k", title="triangle")
    legend_below(figure, {label(m): c for m, c in colour.items()}, {}, columns=4)
    return Findings(
        summary="k times the envelope of the error: bounded means O(1/k), bounded away from zero means no better. "
        "The negative result assumes that no group of stages carries exactly half of β.",
        data=["Both problems are exact, not data."],
        figures=[
            Figure(
                "e8-rates",
                figure,
                f"Scaled envelopes over {settings.iterations} iterations, certified tableaus.",
            )
        ],
        tables=[
            ResultTable(
                "Scaled errors",
                (
                    "tableau",
                    "max k·h, triangle",
                    f"max k·h for k ≥ {last}",
                    f"min k·sup|x| for k ≥ {last}, interval",
                    "exponent of k in |x|",
                    "β meets the condition",
                ),
                rows,
            )
        ],
        claims=[
            Claim(
                "Every Runge-Kutta method converges as O(1/k)",
                "Proposition 3.1",
                BOUNDED,
                _cases(growth),
                "the largest k·h on the triangle in the last decade of k, over that in the decade before",
                "",
                Topic.RATE,
            ),
            Claim(
                "On x²/2 over [-1, 1] the rate is no better than 1/k, for β that cannot cancel",
                "Proposition 3.2",
                STAYS,
                _cases({m: kept[m] for m in inside}),
                "the smallest k·sup|x| in the last decade of k, over that in the decade before",
                "",
                Topic.RATE,
            ),
            Claim(
                "The rate in k does not improve with the order, for β that cannot cancel",
                "Proposition 3.2",
                NO_FASTER,
                _cases({m: exponents[m] for m in inside}),
                "the exponent of 1/k in sup|x|",
                _finding(exponents, inside, outside),
                Topic.RATE,
            ),
            Claim(
                "The same for β that can be split into two equal halves, which the proposition leaves out",
                "",
                NO_FASTER,
                _cases({m: exponents[m] for m in outside}),
                "the exponent of 1/k in sup|x|",
            ),
        ],
    )


def _finding(exponents: dict[str, float], inside: list[str], outside: list[str]) -> str:
    cannot, can = ([exponents[m] for m in methods] for methods in (inside, outside))
    if not cannot:
        return ""
    left_out = f", and up to {max(can):.2f} for weights that can, which the proposition leaves out" if can else ""
    return f"on [-1, 1] the exponents of 1/k are {min(cannot):.2f} to {max(cannot):.2f}{left_out}"


def _cases(values: dict[str, float]) -> tuple[Case, ...]:
    return tuple(Case(label(m), value) for m, value in values.items())
