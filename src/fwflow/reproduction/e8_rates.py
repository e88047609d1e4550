"""E8: the rate 1/k of every tableau from above, and on the example of the paper from below."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import Array, InputError
from fwflow.objectives import Quadratic
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import Columns, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve, tilted_triangle
from fwflow.reproduction.runs import cases
from fwflow.reproduction.style import colours, in_style, label, legend_below, subplots, thin
from fwflow.sets import Box
from fwflow.tableau.catalogue import find_tableau, tableaus
from fwflow.trajectories import fit_rate

TITLE = "Rates of convergence"

BOUNDED = VerdictRule("agrees if at most 1.1, disagrees if more", (0.0, 1.1), (0.0, 1.1))
STAYS = VerdictRule("agrees if at least 0.5, disagrees if less", (0.5, math.inf), (0.5, math.inf))
#: Names of the problems on the triangle, by task.
PROBLEMS = {"triangle": "triangle", "tilted": "tilted triangle"}
NO_FASTER = VerdictRule("agrees if at most 1.1, disagrees if more", (-math.inf, 1.1), (-math.inf, 1.1))


@dataclass(frozen=True)
class Settings:
    """f = x²/2 over [-1, 1] from x = 1, and two problems on the triangle, for all tableaus of the catalogue."""

    iterations: int = 10_000
    methods: tuple[str, ...] = tuple(tableaus)


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


def tilted(method: str, iterations: int) -> dict[str, Any]:
    """Return the envelope of h = f - f* of a run on the tilted triangle, where the optimum is on an edge.

    Iterates of tableaus without a certificate can leave the set, so h can be negative. It then counts as zero, because
    the statement bounds h from above.
    """
    problem = tilted_triangle()
    assert problem.optimum is not None
    return _envelope(np.maximum(solve(problem, iterations, method=method).trace["fun"] - problem.optimum, 0.0))


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


def has_positive_weights(method: str) -> bool:
    """Return whether 0 < z < 1 for large k, which the negative result assumes. Large means k = 100 here."""
    z = find_tableau(method).certificate(c=2.0, k=100).z
    return bool((z > 0).all() and (z < 1).all())


def tasks(settings: Settings) -> list[Task]:
    if settings.iterations < 100:
        raise InputError(f"iterations must be at least 100 to see decades of k; got {settings.iterations}")
    return [
        Task(f"{function.__name__}-{method}", function, {"method": method, "iterations": settings.iterations})
        for function in (interval, triangle, tilted)
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
    figure, grid = subplots(1, 3, 10.4, 3.3)
    colour = colours(settings.methods)
    even = {m: splits_evenly(find_tableau(m).beta) for m in settings.methods}
    covered = {m: has_positive_weights(m) for m in settings.methods}
    inside = [m for m in even if covered[m] and not even[m]]
    outside = [m for m in even if covered[m] and even[m]]
    others = [m for m in even if not covered[m]]
    rows, growth = [], []
    # By tableau: the decrease of k sup|x| late in the run, and the fitted exponent.
    kept, exponents = (dict.fromkeys(settings.methods, math.nan) for _ in range(2))
    for method in settings.methods:
        run = results[f"interval-{method}"]
        k, x, late_x, early_x = _scaled(run, settings.iterations)
        grid[0, 0].loglog(k, x, color=colour[method], label=label(method))
        exponents[method] = fit_rate(run["envelope"][: len(k)], k).exponent
        kept[method] = float(late_x.min() / early_x.min())
        largest = []
        for name, ax in zip(("triangle", "tilted"), grid[0, 1:], strict=True):
            k_h, h, late_h, early_h = _scaled(results[f"{name}-{method}"], settings.iterations)
            shown = h > 0  # no logarithm of zero
            ax.loglog(k_h[shown], h[shown], color=colour[method], label=label(method))
            growth.append(Case(f"{label(method)}, {PROBLEMS[name]}", _growth(late_h, early_h)))
            largest.append(f"{late_h.max():.3g}")
        growth.append(Case(f"{label(method)}, interval", _growth(*(v**2 for v in (late_x, early_x)))))
        assumed = ("yes" if covered[method] else "no", "no" if even[method] else "yes")
        rows.append((label(method), *largest, f"{late_x.min():.3g}", f"{exponents[method]:.3f}", *assumed))
    grid[0, 0].set(xlabel="k", ylabel="k · sup |x| over k' ≥ k", title="[-1, 1], f = x²/2")
    grid[0, 1].set(xlabel="k", ylabel="k · sup h over k' ≥ k", title=PROBLEMS["triangle"])
    grid[0, 2].set(xlabel="k", title=PROBLEMS["tilted"])
    legend_below(figure, {label(m): c for m, c in colour.items()}, {}, columns=6)
    last = settings.iterations // 10
    columns = (*(f"max k·h for k ≥ {last}, {p}" for p in PROBLEMS.values()), f"min k·sup|x| for k ≥ {last}, interval")
    header = ("tableau", *columns, "exponent of k in |x|", "0 < z < 1", "β cannot be split")
    caption = f"Envelopes times k over {settings.iterations} iterations, for all tableaus of the catalogue."
    return Findings(
        summary="The envelope is the largest error at iteration k or later. If k times the envelope is bounded, the "
        "rate is O(1/k). The paper proves this rate for h = f - f*. Its negative result is about the distance |x| to "
        "the minimiser on one example, f = x²/2 over [-1, 1], with the step size c/(c+k). There, k times the "
        "envelope of |x| is bounded away from zero, so |x| does not decrease faster than 1/k, and h = x²/2 does not "
        "decrease faster than 1/k². The proof assumes that the weights β cannot be split into two groups with equal "
        "sums, and that 0 < z < 1. Iterates of tableaus without a certificate can leave the set. There, h is "
        "computed by the formula of f, which is defined everywhere, and negative values of h count as zero. The paper "
        "does not cover other step sizes, and its negative result does not cover other sets.",
        data=["All problems are defined by formulas and need no data."],
        figures=[Figure("e8-rates", figure, caption)],
        tables=[ResultTable("Errors times k", header, rows)],
        claims=[
            Claim(
                "Every Runge-Kutta method converges at the rate O(1/k)",
                "Proposition 3.1",
                BOUNDED,
                tuple(growth),
                "largest k·h in the last decade of k, divided by the largest k·h in the decade before. Here h = f - "
                "f*. If x is outside the set, f is computed by the same formula, and a negative h counts as 0",
                topic=Topic.RATE,
                every=True,
            ),
            Claim(
                "The distance |x| on x²/2 over [-1, 1] does not decrease faster than 1/k if β cannot be split into two "
                "equal halves",
                "Proposition 3.2",
                STAYS,
                cases({m: kept[m] for m in inside}),
                "smallest k·sup|x| in the last decade of k, divided by the smallest in the decade before",
                topic=Topic.RATE,
                every=True,
            ),
            Claim(
                "The rate of |x| in k does not improve with the order if β cannot be split into two equal halves",
                "Proposition 3.2",
                NO_FASTER,
                cases({m: exponents[m] for m in inside}),
                "exponent of 1/k in sup|x|",
                _finding(exponents, inside, outside),
                Topic.RATE,
                every=True,
            ),
            Claim(
                "The rate of |x| in k does not improve with the order if β can be split into two equal halves, a case "
                "that Proposition 3.2 excludes",
                "",
                NO_FASTER,
                cases({m: exponents[m] for m in outside}),
                "exponent of 1/k in sup|x|",
            ),
            Claim(
                "The rate of |x| in k does not improve with the order if z is not between 0 and 1, a case that "
                "Proposition 3.2 excludes",
                "",
                NO_FASTER,
                cases({m: exponents[m] for m in others}),
                "exponent of 1/k in sup|x|",
            ),
        ],
    )


def _growth(late: Array, early: Array) -> float:
    """Return the ratio of the largest values, which is zero if the error has reached zero."""
    return float(late.max() / early.max()) if late.max() > 0 else 0.0


def _finding(exponents: dict[str, float], inside: list[str], outside: list[str]) -> str:
    cannot, can = ([exponents[m] for m in methods] for methods in (inside, outside))
    if not cannot:
        return ""
    left_out = f", and at most {max(can):.2f} for weights that can, a case that the proposition excludes" if can else ""
    shown = f"{min(cannot):.2f} to {max(cannot):.2f}"
    return f"On [-1, 1], the exponents of 1/k in the distance are {shown} for weights that cannot be split{left_out}"
