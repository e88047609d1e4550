"""E1: the error of the flow and its bound, and the error of Frank-Wolfe with shrinking time steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fwflow._numerics import norm
from fwflow._validation import InputError
from fwflow.reproduction.claims import Case, Claim, Data, Topic, VerdictRule
from fwflow.reproduction.framework import FW, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve, tilted_triangle
from fwflow.reproduction.style import INK, PALETTE, in_style, label, legend_below, subplots, thin
from fwflow.steps.schedules import OpenLoop
from fwflow.tableau.catalogue import find_tableau, tableaus
from fwflow.trajectories import ExactTrajectory, exact_flow, rate_bound

TITLE = "Flow and discretisation"

UNDER = VerdictRule("agrees if at most 1, up to rounding, disagrees if more", (0.0, 1.0 + 1e-9), (0.0, 1.0 + 1e-9))
SHRINKS = VerdictRule.below("agrees if at most 1/1.05, disagrees if more than 1.05")
KEPT = VerdictRule("agrees if at least -0.25, disagrees if less than -0.5", (-0.25, math.inf), (-0.5, math.inf))
FIRST = VerdictRule("agrees if from 0.75 to 1.25, disagrees if below 0.5 or above 1.5", (0.75, 1.25), (0.5, 1.5))

#: Orders before the first event are measured up to this fraction of its time. Stage points run ahead of the flow, and
#: at 0.9 those of Heun and SSP-RK3 with two steps already pass the event on the tilted triangle.
BEFORE = 0.6

# The flow of this problem has its first event at t = 1. On the triangle of the paper the first event is at t = 0, so
# the order before events cannot be measured there.
TILTED = "tilted triangle"


@dataclass(frozen=True)
class Settings:
    """Time steps `deltas` of Euler's method, schedules c/(c+t) with c in `cs`, and the radius `alpha` for sensing.

    Distances of tableaus to the flow are measured up to t = `near`, for time steps of at least `coarse`, also on the
    problems `more`.

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
    more: tuple[str, ...] = (TILTED,)


QUICK = {"t_end": 20.0, "deltas": (1.0, 0.1, 0.01), "coarse": 0.1, "near": 10.0}


def _problem(name: str, alpha: float) -> ProblemInstance:
    if name == TILTED:
        return tilted_triangle()
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
    end = BEFORE * first
    halved = [_distance(p, path, method, end / steps, steps)[-1] for steps in (2, 4)] if first else [np.nan] * 2
    if halved[1] <= 1e-14 * norm(path(end)):  # all of the distance is rounding
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
    for name in (*settings.problems, *settings.more):
        problem = _problem(name, alpha)
        if problem.optimum is None:
            raise InputError(f"with alpha={alpha:g} the optimum of {name} is not known; use a larger alpha")
        calls: dict[str, tuple[Any, dict[str, Any]]] = {}
        for c in settings.cs if name in settings.problems else ():
            calls[f"c{c:g}-exact"] = exact, {"c": c, "t_end": t_end}
            calls |= {f"c{c:g}-delta{d:g}": (euler, {"c": c, "delta": d, "t_end": t_end}) for d in settings.deltas}
        shared = {"deltas": _coarse(settings), "t_end": settings.near}
        calls |= {method: (distances, {"method": method, **shared}) for method in settings.methods}
        out += [
            Task(
                f"{name}-{key}".replace(" ", "-"),
                function,
                {"problem": name, "alpha": alpha, **arguments},
                problem.data,
            )
            for key, (function, arguments) in calls.items()
        ]
    # The longest runs come first, so that no worker waits for them at the end.
    return sorted(out, key=lambda task: task.arguments.get("delta", math.inf))


@in_style
def findings(settings: Settings, results: Results) -> Findings:
    deltas = sorted(settings.deltas, reverse=True)
    figure, grid = subplots(len(settings.problems), len(settings.cs), 9.6, 2.7 * len(settings.problems) + 0.4)
    rows, under, shrinking = [], [], []
    kinds = {p: _problem(p, settings.alpha).kind for p in (*settings.problems, *settings.more)}
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
            under.append(
                Case(name, float((flow["error"] / bound)[1:].max()), data=kinds[problem])
            )  # at t = 0 both are one
            if floors[0] > 2 * floors[-1]:  # else no run has reached its floor yet
                worst = max(fine / coarse for coarse, fine in pairwise(floors))
                shrinking.append(Case(name, worst, data=kinds[problem]))
            turns = np.unique(flow["events"])
            shown = f"{len(turns)}, last at t = {turns[-1]:.3g}" if len(turns) else "0"
            rows.append((problem, f"{c:g}", *(f"{floor:.2e}" for floor in floors), f"{under[-1].value:.3f}", shown))
    for ax in grid[-1]:
        ax.set_xlabel("1 + t")
    styles = {f"Δ = {d:g}": p for d, p in zip(deltas, PALETTE, strict=False)} | {"the flow": INK}
    legend_below(figure, styles, {"bound (c/(c+t))^c": "--"})
    caption = (
        f"Relative error of Euler's method up to time t = {settings.t_end:g}, for time steps Δ and schedules c/(c+t). "
        "For small Δ, the error follows that of the flow (black, computed exactly) until it reaches a floor that "
        "depends on Δ. The dashed line is the bound on the error of the flow."
    )
    header = ("problem", "c", *(f"floor at Δ = {d:g}" for d in deltas), "flow: max error / bound", "flow: events")
    note = (
        "Floor: the largest relative error in the last fifth of the time. The flow is computed exactly, from event to "
        "event. An event is a change of the direction of the flow."
    )
    return Findings(
        summary="Frank-Wolfe with time step Δ is Euler's method for the flow. For small Δ, its error stays below "
        "the bound on the error of the flow until it reaches a floor. Discretisation causes the floor. An event is a "
        "change of the direction of the flow. The abstract says that the truncation error of a method of order p "
        "decays as O(Δ^p). Classical theory needs a smooth right-hand side, which the flow has only before its first "
        "event. From then on the flow slides along points at which the oracle has several optimal vertices. The "
        "order is therefore measured before the first event and across events.",
        data=sorted({_problem(problem, settings.alpha).data for problem in kinds}),
        kinds=[*kinds.values()],
        figures=[Figure("e1-flow", figure, caption)],
        tables=[
            ResultTable("Discretisation floors", header, rows, note),
            _followed(settings, results),
        ],
        claims=[
            Claim(
                "The error of the flow satisfies E(t)/E(0) ≤ (c/(c+t))^c",
                "Proposition 2.1",
                UNDER,
                tuple(under),
                "largest ratio of the error to the bound, for t ≥ 0.001",
                f"The error of the flow is at most {max(case.value for case in under):.3g} times the bound",
                Topic.FLOW,
            ),
            Claim(
                "The error floor decreases with Δ",
                "Figure 1",
                SHRINKS,
                tuple(shrinking),
                "largest ratio of the floor at a time step to the floor at the next larger one, for problems whose "
                f"runs reach a floor before t = {settings.t_end:g}",
                f"From each time step to the next smaller one, the floor falls to at most "
                f"{max(case.value for case in shrinking):.2g} times its value"
                if shrinking
                else "",
                Topic.FLOW,
            ),
            *_orders(settings, results, kinds),
        ],
    )


def _run(results: Results, problem: str, method: str) -> Any:
    return results[f"{problem}-{method}".replace(" ", "-")]


def _across(settings: Settings, run: Any) -> float:
    """Return the exponent of Δ in the largest distance to the flow over the whole time; NaN for a single Δ."""
    deltas = _coarse(settings)
    return float(np.polyfit(np.log(deltas), np.log(run["distance"]), 1)[0]) if len(deltas) > 1 else math.nan


def _orders(settings: Settings, results: Results, kinds: dict[str, Data]) -> list[Claim]:
    """Return the claims on the order of the tableaus before the first event and across events."""
    before, across, loss_before, loss_across = (list[Case]() for _ in range(4))
    for problem, kind in kinds.items():
        for method in settings.methods:
            run, p = _run(results, problem, method), find_tableau(method).order
            orders = float(run["order"][0]), _across(settings, run)
            for order, measured, loss in zip(orders, (before, across), (loss_before, loss_across), strict=True):
                name = f"{label(method)} (p = {p}), {problem}"
                measured.append(Case(name, order, data=kind))
                loss.append(Case(name, order - p, data=kind))
    short = "exponent of Δ in the largest distance to the flow"
    return [
        Claim(
            "Before the first event of the flow, the distance of a method of order p to the flow is O(Δ^p)",
            "Abstract",
            KEPT,
            tuple(loss_before),
            "measured order minus p. The measured order compares 2 and 4 equal steps that end at "
            f"{BEFORE:g} times the time of the event",
            f"Before the first event of the flow, the measured orders differ from p by {_span(loss_before)}",
            Topic.ORDER,
        ),
        Claim(
            "Across events of the flow, the distance of a method of order p to the flow is O(Δ^p)",
            "Abstract",
            KEPT,
            tuple(loss_across),
            f"measured order minus p. The measured order is the {short} up to t = {settings.near:g}",
            f"Across events, the measured orders are {_span(across)}, for every p",
            Topic.ORDER,
        ),
        Claim(
            "Across events of the flow, the order of every method is about 1",
            "",
            FIRST,
            tuple(across),
            f"measured order, the {short} up to t = {settings.near:g}",
        ),
    ]


def _span(cases: list[Case]) -> str:
    values = [case.value for case in cases if not math.isnan(case.value)]
    return f"{min(values):.2f} to {max(values):.2f}" if values else "-"


def _followed(settings: Settings, results: Results) -> ResultTable:
    deltas = _coarse(settings)
    rows = []
    for problem in (*settings.problems, *settings.more):
        for method in settings.methods:
            run = _run(results, problem, method)
            far, before, across = run["distance"], run["order"][0], _across(settings, run)
            shown = ("-" if np.isnan(order) else f"{order:.2f}" for order in (before, across))
            order = f"{find_tableau(method).order}"
            rows.append((problem, label(method), order, *(f"{d:.1e}" for d in far), *shown))
    orders = ("order before events", "order across events")
    return ResultTable(
        "Distances of the tableaus to the flow, c = 2",
        ("problem", "method", "order p", *(f"distance at Δ = {d:g}" for d in deltas), *orders),
        rows,
        f"Distance: the largest distance up to t = {settings.near:g}, divided by the diameter of the set. Before the "
        "first event, the oracle has one optimal vertex and the flow is smooth. At and after an event, the oracle has "
        "several optimal vertices. A dash means that the first event is at t = 0, or that the distance is not larger "
        "than rounding errors.",
    )
