"""E1: does Frank-Wolfe approach its flow as the time step shrinks, and does the flow obey its bound?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np

from fwflow.experiments.framework import Claim, Figure, Findings, Results, Table, Task
from fwflow.experiments.problems import ProblemInstance, columns, find_problem, solve
from fwflow.experiments.style import INK, PALETTE, RC, legend_below, subplots, thin
from fwflow.flow import rate_bound
from fwflow.steps import OpenLoop

TITLE = "Continuous against discrete"


@dataclass(frozen=True)
class Settings:
    """Euler's method with shrinking time steps against the bound (c/(c+t))^c.

    The paper does not print the radius for sensing. At 1000, as in E6, the vertices are so far away that one step
    of length 0.01 multiplies the error; 10 holds the solution and leaves the bound in sight.
    """

    problems: tuple[str, ...] = ("triangle", "sensing")
    alpha: float = 10.0
    deltas: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001)
    cs: tuple[float, ...] = (1.0, 2.0, 4.0)
    t_end: float = 100.0


QUICK = {"t_end": 20.0, "deltas": (1.0, 0.1, 0.01)}


def _problem(name: str, alpha: float) -> ProblemInstance:
    return find_problem(name, **({} if name == "triangle" else {"alpha": alpha}))


def euler(problem: str, alpha: float, c: float, delta: float, t_end: float) -> dict[str, Any]:
    """Relative error of Euler's method along time."""
    p = _problem(problem, alpha)
    steps = round(t_end / delta)
    result = solve(p, steps, schedule=OpenLoop(c=c, delta=delta))
    trace = columns(result, "fw", thin(np.arange(steps + 1), 2000))
    error = trace["fun"] - p.optimum
    return {"t": delta * trace["k"], "error": error / error[0]}


def tasks(settings: Settings) -> list[Task]:
    for problem in settings.problems:
        if _problem(problem, settings.alpha).optimum is None:
            raise ValueError(
                f"alpha={settings.alpha:g} leaves the optimum of {problem} unknown; a larger ball holds it"
            )
    return [
        Task(
            f"{problem}-c{c:g}-delta{delta:g}",
            euler,
            {"problem": problem, "alpha": settings.alpha, "c": c, "delta": delta, "t_end": settings.t_end},
            _problem(problem, settings.alpha).data,
        )
        for problem in settings.problems
        for delta in sorted(settings.deltas)  # longest first
        for c in settings.cs
    ]


def findings(settings: Settings, results: Results) -> Findings:
    deltas = sorted(settings.deltas, reverse=True)
    figure, grid = subplots(len(settings.problems), len(settings.cs), 9.6, 2.7 * len(settings.problems) + 0.4)
    rows, ratios, shrinking = [], [], []
    with mpl.rc_context(RC):
        for axes, problem in zip(grid, settings.problems, strict=True):
            for ax, c in zip(axes, settings.cs, strict=True):
                floors = []
                for delta, colour in zip(deltas, PALETTE, strict=False):
                    run = results[f"{problem}-c{c:g}-delta{delta:g}"]
                    index = thin(run["t"])
                    ax.loglog(1 + run["t"][index], np.maximum(run["error"][index], 1e-17), color=colour)
                    # The floor is what oscillates at the end: the largest error in the last fifth of time.
                    floors.append(float(run["error"][run["t"] >= 0.8 * settings.t_end].max()))
                bound = rate_bound(run["t"], c)
                ax.loglog(1 + run["t"], bound, color=INK, ls="--")
                ax.set(title=f"{problem}, c = {c:g}", ylim=(max(1e-10, 0.3 * min(floors)), None))
                # Well above its floor the finest run is the flow.
                resolved = (bound > 10 * floors[-1]) & (run["t"] >= 0.1)  # at t = 0 both are one
                ratios.append(float((run["error"] / bound)[resolved].max(initial=0.0)) if resolved.any() else np.nan)
                if floors[0] > 2 * floors[-1]:  # else no run has met its floor yet: all still follow the flow
                    shrinking.append(all(np.diff(floors) < 0))
                rows.append((problem, f"{c:g}", *(f"{floor:.2e}" for floor in floors), f"{ratios[-1]:.3f}"))
        for ax in grid[-1]:
            ax.set_xlabel("1 + t")
        for axes in grid:
            axes[0].set_ylabel("(f(x) - f*) / (f(x0) - f*)")
    worst = max((ratio for ratio in ratios if not np.isnan(ratio)), default=0.0)
    legend_below(figure, {f"Δ = {d:g}": p for d, p in zip(deltas, PALETTE, strict=False)}, {"bound (c/(c+t))^c": "--"})
    caption = (
        f"Error of Euler's method along time t up to {settings.t_end:g}, for time steps Δ and schedules c/(c+t). "
        "Each run follows the flow under its bound until a floor that the step size sets."
    )
    return Findings(
        summary="Frank-Wolfe with time step Δ is Euler's method for the flow; its error falls under the flow's bound "
        "until it meets the discretisation floor.",
        data=sorted({_problem(problem, settings.alpha).data for problem in settings.problems}),
        figures=[Figure("e1-flow", figure, caption)],
        tables=[
            Table(
                "Discretisation floors",
                ("problem", "c", *(f"floor at Δ = {d:g}" for d in deltas), "max error / bound above the floor"),
                rows,
                "Floor: the largest relative error in the last fifth of time.",
            )
        ],
        claims=[
            Claim.check(
                "The flow's error obeys E(t)/E(0) ≤ (c/(c+t))^c",
                worst <= 1.0 + 1e-9 if worst else None,
                f"largest error / bound of the finest run, above ten times its floor: {worst:.4f}",
            ),
            Claim.check(
                "The error floor shrinks with Δ",
                all(shrinking) if shrinking else None,
                f"floors fall strictly with Δ in {sum(shrinking)} of the {len(shrinking)} panels in which a floor is "
                f"met by t = {settings.t_end:g} ({len(rows)} panels)",
            ),
        ],
    )
