"""E8: the rate 1/k of every tableau, on problems for which the paper proves it from above and from below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import Array, InputError
from fwflow.objectives import Quadratic
from fwflow.reproduction.claims import Claim, Topic, VerdictRule
from fwflow.reproduction.framework import Columns, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve
from fwflow.reproduction.runs import cases
from fwflow.reproduction.style import colours, in_style, label, legend_below, subplots, thin
from fwflow.sets import Box
from fwflow.tableau.catalogue import find_tableau, tableaus
from fwflow.trajectories import fit_rate

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
    """Return the envelope of |x| of a run on the interval."""
    x: list[float] = []
    line = ProblemInstance(Quadratic(np.eye(1)), Box(-1.0, 1.0), np.array([1.0]), 0.0, "")
    solve(line, iterations, method=method, callback=lambda state: x.append(abs(float(state.x[0]))))
    return _envelope(np.array(x))


def triangle(method: str, iterations: int) -> dict[str, Any]:
    """Return the envelope of h = f - f* of a run on the triangle."""
    return _envelope(solve(find_problem("triangle"), iterations, method=method).trace["fun"])


def _envelope(values: Array) -> dict[str, Any]:
    """Return the largest value at k or later, for a selection of k."""
    k = thin(np.arange(len(values)), 1500)
    return {"k": k, "envelope": np.maximum.accumulate(values[::-1])[::-1][k]}


def splits_evenly(beta: Array) -> bool:
    """Return whether the weights of some stages sum to one half, which the paper's negative result excludes."""
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


def _scaled(run: Columns, iterations: int) -> tuple[Array, Array, Array, Array]:
    """Return k, k times the envelope, and the latter in the last decade of k and in the decade before."""
    last = iterations // 10  # the end of the run is left out, because the envelope covers few iterates there
    k, envelope = (run[name][run["k"] <= iterations - last] for name in ("k", "envelope"))
    values = k * envelope
    return k, values, values[k >= last], values[(k >= last // 10) & (k < last)]


@in_style
def findings(settings: Settings, results: Results) -> Findings:
    figure, grid = subplots(1, 2, 8.4, 3.3)
    colour = colours(settings.methods)
    even = {m: splits_evenly(find_tableau(m).beta) for m in settings.methods}
    inside, outside = [m for m in even if not even[m]], [m for m in even if even[m]]
    rows = []
    # By tableau: the growth of k h and the decrease of k sup|x| late in the run, and the fitted exponent.
    growth, kept, exponents = (dict.fromkeys(settings.methods, math.nan) for _ in range(3))
    for method in settings.methods:
        interval, triangle = (results[f"{problem}-{method}"] for problem in ("interval", "triangle"))
        k, x, late_x, early_x = _scaled(interval, settings.iterations)
        k_h, h, late_h, early_h = _scaled(triangle, settings.iterations)
        grid[0, 0].loglog(k, x, color=colour[method], label=label(method))
        grid[0, 1].loglog(k_h, h, color=colour[method], label=label(method))
        exponents[method] = fit_rate(interval["envelope"][: len(k)], k).exponent
        growth[method] = float(late_h.max() / early_h.max())
        kept[method] = float(late_x.min() / early_x.min())
        numbers = (f"{value:.3g}" for value in (h.max(), late_h.max(), late_x.min()))
        rows.append((label(method), *numbers, f"{exponents[method]:.3f}", "no" if even[method] else "yes"))
    grid[0, 0].set(xlabel="k", ylabel="k · sup |x| over k' ≥ k", title="[-1, 1], f = x²/2")
    grid[0, 1].set(xlabel="k", ylabel="k · sup h over k' ≥ k", title="triangle")
    legend_below(figure, {label(m): c for m, c in colour.items()}, {}, columns=4)
    last = settings.iterations // 10
    columns = ("max k·h, triangle", f"max k·h for k ≥ {last}", f"min k·sup|x| for k ≥ {last}, interval")
    header = ("tableau", *columns, "exponent of k in |x|", "β meets the condition")
    caption = f"Scaled envelopes over {settings.iterations} iterations, certified tableaus."
    return Findings(
        summary="If k times the envelope of the error is bounded, the rate is O(1/k); if it is bounded away from zero, "
        "the rate is not better. The negative result assumes that no group of stages has exactly half of the sum of β.",
        data=["Both problems are exact, not data."],
        figures=[Figure("e8-rates", figure, caption)],
        tables=[ResultTable("Scaled errors", header, rows)],
        claims=[
            Claim(
                "Every Runge-Kutta method converges as O(1/k)",
                "Proposition 3.1",
                BOUNDED,
                cases(growth),
                "largest k·h on the triangle in the last decade of k, divided by that in the decade before",
                topic=Topic.RATE,
            ),
            Claim(
                "On x²/2 over [-1, 1] the rate is no better than 1/k, for β that cannot cancel",
                "Proposition 3.2",
                STAYS,
                cases({m: kept[m] for m in inside}),
                "smallest k·sup|x| in the last decade of k, divided by that in the decade before",
                topic=Topic.RATE,
            ),
            Claim(
                "The rate in k does not improve with the order, for β that cannot cancel",
                "Proposition 3.2",
                NO_FASTER,
                cases({m: exponents[m] for m in inside}),
                "the exponent of 1/k in sup|x|",
                _finding(exponents, inside, outside),
                Topic.RATE,
            ),
            Claim(
                "The same for β that can be split into two equal halves, which the proposition excludes",
                "",
                NO_FASTER,
                cases({m: exponents[m] for m in outside}),
                "the exponent of 1/k in sup|x|",
            ),
        ],
    )


def _finding(exponents: dict[str, float], inside: list[str], outside: list[str]) -> str:
    cannot, can = ([exponents[m] for m in methods] for methods in (inside, outside))
    if not cannot:
        return ""
    left_out = f", and up to {max(can):.2f} for weights that can, which the proposition excludes" if can else ""
    return f"on [-1, 1] the exponents of 1/k are {min(cannot):.2f} to {max(cannot):.2f}{left_out}"
