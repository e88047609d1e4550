"""E8: is O(1/k) all that there is? The paper's positive and negative results, for every tableau."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np

from fwflow._validation import Array
from fwflow.diagnostics import fit_rate
from fwflow.experiments.framework import Claim, Figure, Findings, Results, Table, Task
from fwflow.experiments.problems import ProblemInstance, find_problem, solve
from fwflow.experiments.style import RC, colours, label, legend_below, subplots, thin
from fwflow.objectives import Quadratic
from fwflow.sets import Box
from fwflow.tableaus import find_tableau, tableaus

TITLE = "Rates"
NONE = "no such tableau among the methods"


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


def _list(exponents: dict[str, float], methods: list[str]) -> str:
    return "exponents of k in |x|: " + ", ".join(f"{label(m)} {exponents[m]:.2f}" for m in methods) if methods else NONE


def tasks(settings: Settings) -> list[Task]:
    if settings.iterations < 100:
        raise ValueError(f"iterations must be at least 100 to see decades of k; got {settings.iterations}")
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
    rows, growth = [], []
    kept, exponents = {}, {}  # by tableau: how much of k sup|x| is left late in the run, and the fitted exponent
    last = settings.iterations // 10  # the end of an envelope sees too little future
    with mpl.rc_context(RC):
        for method in settings.methods:
            line = results[f"interval-{method}"]
            tri = results[f"triangle-{method}"]
            usable, usable_tri = (r["k"] <= settings.iterations - last for r in (line, tri))
            scaled = (line["k"] * line["envelope"])[usable]
            scaled_h = (tri["k"] * tri["envelope"])[usable_tri]
            grid[0, 0].loglog(line["k"][usable], scaled, color=colour[method])
            grid[0, 1].loglog(tri["k"][usable_tri], scaled_h, color=colour[method])
            late, late_tri = line["k"][usable] >= last, tri["k"][usable_tri] >= last
            exponents[method] = fit_rate(line["envelope"][usable], line["k"][usable]).exponent
            early_tri = (tri["k"][usable_tri] >= last // 10) & ~late_tri
            growth.append(float(scaled_h[late_tri].max() / scaled_h[early_tri].max()))
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
    least = min((kept[m] for m in inside), default=np.nan)
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
            Table(
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
            Claim.check(
                "Every Runge-Kutta method converges as O(1/k)",
                max(growth) <= 1.1,
                f"from one decade of k to the next, the largest k·h grows by the factor {max(growth):.2g} at most",
            ),
            Claim.check(
                "On x²/2 over [-1, 1] the rate is no better than 1/k, for β that cannot cancel",
                least > 0.5 if inside else None,
                f"k·sup|x| keeps at least {least:.2f} of its size from one decade to the next" if inside else NONE,
            ),
            Claim.check(
                "The rate in k does not improve with the order, for β that cannot cancel",
                max(exponents[m] for m in inside) <= 1.1 if inside else None,
                _list(exponents, inside),
            ),
            Claim.check(
                "The same for β that can be split into two equal halves, which the proposition leaves out",
                max(exponents[m] for m in outside) <= 1.1 if outside else None,
                _list(exponents, outside),
            ),
        ],
    )
