"""E1: the error of the flow and its bound, and the error of Frank-Wolfe with shrinking time steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fwflow._numerics import norm
from fwflow._validation import InputError
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import FW, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve
from fwflow.reproduction.style import INK, PALETTE, in_style, label, legend_below, subplots, thin
from fwflow.steps.schedules import OpenLoop
from fwflow.tableau.catalogue import tableaus
from fwflow.trajectories import ExactTrajectory, exact_flow, rate_bound

TITLE = "Continuous against discrete"

UNDER = VerdictRule("for: at most 1, up to rounding; against: more", (0.0, 1.0 + 1e-9), (0.0, 1.0 + 1e-9))
SHRINKS = VerdictRule.below("for: at most 1/1.05 at every step to a smaller Δ; against: at least 1.05 at one of them")


@dataclass(frozen=True)
class Settings:
    """Time steps `deltas` of Euler's method, schedules c/(c+t) with c in `cs`, and the radius `alpha` for sensing.

    Distances of tableaus to the flow are measured up to t = `near`, for time steps of at least `coarse`.

    The paper does not print the radius for sensing. At 1000, as in E6, the vertices are so far away that one step
    of length 0.01 multiplies the error. A ball of radius 10 contains the solution, and the error stays near the bound.
    """

    problems: tuple[str, ...] = ("triangle", "sensing")
    alpha: float = 10.0
    deltas: tuple[float, ...] = (1.0, 0.1, 0.01, 0.001)
    cs: tuple[float, ...] = (1.0, 2.0, 4.0)
    t_end: float = 100.0
    methods: tuple[str, ...] = (FW, *(name for name in tableaus if name != "euler"))
    coarse: float = 0.01
    near: float = 20.0


QUICK = {"t_end": 20.0, "deltas": (1.0, 0.1, 0.01), "coarse": 0.1, "near": 10.0}


def _problem(name: str, alpha: float) -> ProblemInstance:
    return find_problem(name, **({} if name == "triangle" else {"alpha": alpha}))


def euler(problem: str, alpha: float, c: float, delta: float, t_end: float) -> dict[str, Any]:
    """Return the relative error of Euler's method over time."""
    p = _problem(problem, alpha)
    result = solve(p, round(t_end / delta), schedule=OpenLoop(c=c, delta=delta))
    k = thin(result.trace["fun"], 2000)
    error = result.trace["fun"][k] - p.optimum
    return {"t": delta * k, "error": error / error[0]}


def exact(problem: str, alpha: float, c: float, t_end: float) -> dict[str, Any]:
    """Return the relative error of the flow over time, and the times of its events."""
    p = _problem(problem, alpha)
    path = exact_flow(p.f, p.C, p.x0)
    t = np.append(0.0, np.geomspace(1e-3, t_end, 400))
    error = np.array([p.f.value(p.f.point(x)) for x in path(t, c)]) - path.result.fun
    return {"t": t, "error": np.maximum(error, 0.0) / error[0], "events": [event.time(c) for event in path.events[1:]]}


def distances(problem: str, alpha: float, method: str, deltas: tuple[float, ...], t_end: float) -> dict[str, Any]:
    """Return the largest distance of a tableau to the flow, and its order before the first event, for c = 2."""
    p = _problem(problem, alpha)
    path = exact_flow(p.f, p.C, p.x0)
    size = p.C.diameter(path.x0.shape)
    first = next((event.time() for event in path.events[1:]), t_end)
    halved = [_distance(p, path, method, 0.9 * first / steps, steps)[-1] for steps in (2, 4)] if first else [np.nan] * 2
    if halved[1] <= 1e-14 * norm(path(0.9 * first)):  # all of the distance is rounding
        halved[1] = np.nan
    far = [_distance(p, path, method, delta, round(t_end / delta)).max() for delta in deltas]
    return {"distance": np.array(far) / size, "order": np.log2(halved[0] / halved[1])}


def _distance(p: ProblemInstance, path: ExactTrajectory, method: str, delta: float, steps: int) -> Any:
    points: list[Any] = []
    solve(p, steps, method=method, schedule=OpenLoop(delta=delta), callback=lambda state: points.append(state.x))
    return np.linalg.norm(np.stack(points) - path(delta * np.arange(steps + 1)), axis=1)


def _coarse(settings: Settings) -> tuple[float, ...]:
    return tuple(sorted((delta for delta in settings.deltas if delta >= settings.coarse), reverse=True))


def tasks(settings: Settings) -> list[Task]:
    alpha, t_end, out = settings.alpha, settings.t_end, []
    for name in settings.problems:
        problem = _problem(name, alpha)
        if problem.optimum is None:
            raise InputError(f"with alpha={alpha:g} the optimum of {name} is not known; use a larger alpha")
        calls: dict[str, tuple[Any, dict[str, Any]]] = {}
        for c in settings.cs:
            calls[f"c{c:g}-exact"] = exact, {"c": c, "t_end": t_end}
            calls |= {f"c{c:g}-delta{d:g}": (euler, {"c": c, "delta": d, "t_end": t_end}) for d in settings.deltas}
        shared = {"deltas": _coarse(settings), "t_end": settings.near}
        calls |= {method: (distances, {"method": method, **shared}) for method in settings.methods}
        out += [
            Task(f"{name}-{key}", function, {"problem": name, "alpha": alpha, **arguments}, problem.data)
            for key, (function, arguments) in calls.items()
        ]
    # The longest runs come first, so that no worker waits for them at the end.
    return sorted(out, key=lambda task: task.arguments.get("delta", math.inf))


@in_style
def findings(settings: Settings, results: Results) -> Findings:
    deltas = sorted(settings.deltas, reverse=True)
    figure, grid = subplots(len(settings.problems), len(settings.cs), 9.6, 2.7 * len(settings.problems) + 0.4)
    rows, under, shrinking = [], [], []
    for axes, problem in zip(grid, settings.problems, strict=True):
        axes[0].set_ylabel("(f(x) - f*) / (f(x0) - f*)")
        for ax, c in zip(axes, settings.cs, strict=True):
            name, floors = f"{problem}, c = {c:g}", []
            for delta, colour in zip(deltas, PALETTE, strict=False):
                run = results[f"{problem}-c{c:g}-delta{delta:g}"]
                index = thin(run["t"])
                error = np.maximum(run["error"][index], 1e-17)
                ax.loglog(1 + run["t"][index], error, color=colour, label=f"Δ = {delta:g}")
                # The error oscillates at the end, so the floor is its largest value in the last fifth of time.
                floors.append(float(run["error"][run["t"] >= 0.8 * settings.t_end].max()))
            flow = results[f"{problem}-c{c:g}-exact"]
            bound = rate_bound(flow["t"], c)
            ax.loglog(1 + flow["t"], np.maximum(flow["error"], 1e-17), color=INK, label="the flow")
            ax.loglog(1 + flow["t"], bound, color=INK, ls="--", label="bound")
            ax.set(title=name, ylim=(max(1e-10, 0.3 * min(floors)), None))
            under.append(Case(name, float((flow["error"] / bound)[1:].max())))  # at t = 0 both are one
            if floors[0] > 2 * floors[-1]:  # else no run has reached its floor yet
                shrinking.append(Case(name, max(fine / coarse for coarse, fine in pairwise(floors))))
            turns = np.unique(flow["events"])
            shown = f"{len(turns)}, last at t = {turns[-1]:.3g}" if len(turns) else "0"
            rows.append((problem, f"{c:g}", *(f"{floor:.2e}" for floor in floors), f"{under[-1].value:.3f}", shown))
    for ax in grid[-1]:
        ax.set_xlabel("1 + t")
    styles = {f"Δ = {d:g}": p for d, p in zip(deltas, PALETTE, strict=False)} | {"the flow": INK}
    legend_below(figure, styles, {"bound (c/(c+t))^c": "--"})
    caption = (
        f"Error of Euler's method over time t up to {settings.t_end:g}, for time steps Δ and schedules c/(c+t). "
        "Each run follows the flow (black, exact) under its bound until it reaches a floor that depends on Δ."
    )
    header = ("problem", "c", *(f"floor at Δ = {d:g}" for d in deltas), "flow: max error / bound", "flow: events")
    note = (
        "Floor: the largest relative error in the last fifth of time. The flow is computed exactly, from event to "
        "event, where an event is a change of its direction."
    )
    return Findings(
        summary="Frank-Wolfe with time step Δ is Euler's method for the flow. Its error stays under the flow's bound "
        "until it reaches a floor that is due to discretisation.",
        data=sorted({_problem(problem, settings.alpha).data for problem in settings.problems}),
        figures=[Figure("e1-flow", figure, caption)],
        tables=[
            ResultTable("Discretisation floors", header, rows, note),
            _followed(settings, results),
        ],
        claims=[
            Claim(
                "The flow's error obeys E(t)/E(0) ≤ (c/(c+t))^c",
                "Proposition 2.1",
                UNDER,
                tuple(under),
                "largest error over bound, for t ≥ 0.001",
                f"its error is at most {max(case.value for case in under):.3g} of the bound",
                Topic.FLOW,
            ),
            Claim(
                "The error floor shrinks with Δ",
                "Figure 1",
                SHRINKS,
                tuple(shrinking),
                "largest ratio of a floor to the floor at the next larger Δ, for problems whose runs reach a floor by "
                f"t = {settings.t_end:g}",
                f"a smaller step leaves at most {max(case.value for case in shrinking):.2g} of the floor"
                if shrinking
                else "",
                Topic.FLOW,
            ),
        ],
    )


def _followed(settings: Settings, results: Results) -> ResultTable:
    deltas = _coarse(settings)
    rows = []
    for problem in settings.problems:
        for method in settings.methods:
            run = results[f"{problem}-{method}"]
            far, before = run["distance"], run["order"][0]
            across = np.polyfit(np.log(deltas), np.log(far), 1)[0] if len(far) > 1 else np.nan
            shown = ("-" if np.isnan(order) else f"{order:.2f}" for order in (before, across))
            rows.append((problem, label(method), *(f"{d:.1e}" for d in far), *shown))
    orders = ("order before events", "order across events")
    return ResultTable(
        "Distances of the tableaus to the flow, c = 2",
        ("problem", "method", *(f"distance at Δ = {d:g}" for d in deltas), *orders),
        rows,
        f"Distance: the largest up to t = {settings.near:g}, divided by the diameter of the set. Before the first "
        "event one vertex is optimal for the oracle and the flow is smooth; at events and after them several are. "
        "A dash means that the first event is at t = 0, or that all of the distance is rounding.",
    )
