"""E3: what do the methods look like on a triangle, plain, with line search, and with momentum?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.collections import LineCollection

from fwflow.diagnostics import fit_rate
from fwflow.experiments.comparison import helps_more, key, settled
from fwflow.experiments.framework import Claim, Figure, Findings, Results, Table, Task
from fwflow.experiments.problems import columns, find_problem, solve
from fwflow.experiments.style import FAINT, INK, RC, colours, label, legend_below, subplots
from fwflow.flow import exact_flow
from fwflow.steps import OpenLoop

TITLE = "The triangle"

VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "line search": {"line_search": "aggressive"},
    "momentum": {"momentum": "nesterov"},
}


@dataclass(frozen=True)
class Settings:
    """The paper's toy problem: c = 2, steps counted from 1."""

    methods: tuple[str, ...] = ("fw", "midpoint", "rk44")
    iterations: int = 400
    drawn: int = 15
    c: float = 2.0
    k0: int = 1


QUICK: dict[str, Any] = {}


def path(method: str, variant: str, iterations: int, c: float, k0: int) -> dict[str, Any]:
    """Iterates and gaps of one run."""
    p = find_problem("triangle")
    points: list[Any] = []
    result = solve(
        p,
        iterations,
        method=method,
        schedule=OpenLoop(c=c, k0=k0),
        callback=lambda state: points.append(state.x),
        **VARIANTS[variant],
    )
    x = np.stack(points)
    return {**columns(result, method), "x": x[:, 0], "y": x[:, 1]}


def reference(iterations: int, c: float, k0: int) -> dict[str, Any]:
    """The flow itself at the times of the iterates."""
    p = find_problem("triangle")
    t = k0 + np.arange(iterations + 1)
    x = exact_flow(p.f, p.C, p.x0).at(c * np.log((c + t) / (c + k0)))
    return {"x": x[:, 0], "y": x[:, 1]}


def tasks(settings: Settings) -> list[Task]:
    if settings.drawn > settings.iterations:
        raise ValueError(f"drawn must not exceed iterations; got {settings.drawn} and {settings.iterations}")
    s, data = settings, find_problem("triangle").data
    runs = [
        Task(
            key(method, variant),
            path,
            {"method": method, "variant": variant, "iterations": s.iterations, "c": s.c, "k0": s.k0},
            data,
        )
        for variant in VARIANTS
        for method in s.methods
    ]
    arguments = {"iterations": s.drawn, "c": s.c, "k0": s.k0}
    return [Task("flow", reference, arguments, data), *runs]


def findings(settings: Settings, results: Results) -> Findings:
    figure, grid = subplots(
        len(VARIANTS),
        len(settings.methods) + 1,
        10.6,
        6.2,
        gridspec_kw={"width_ratios": [1] * len(settings.methods) + [1.25]},
    )
    flow_x, flow_y = results["flow"]["x"], results["flow"]["y"]
    rows, colour = [], colours(settings.methods)
    with mpl.rc_context(RC):
        for axes, variant in zip(grid, VARIANTS, strict=True):
            for ax, method in zip(axes, settings.methods, strict=False):
                run = results[key(method, variant)]
                _panel(ax, run["x"][: settings.drawn + 1], run["y"][: settings.drawn + 1])
                ax.plot(flow_x, flow_y, color=INK, lw=0.9, ls=":", zorder=2)
                ax.set_title(label(method) + ("" if variant == "plain" else f", {variant}"))
                exponent = fit_rate(run["fun"] + 0.0, run["k"]).exponent
                rows.append((label(method), variant, f"{settled(run):.2e}", f"{exponent:.2f}"))
                axes[-1].loglog(run["k"][1:], np.maximum(run["gap"][1:], 1e-17), color=colour[method], lw=0.9)
            axes[-1].set(ylabel="gap", xlabel="k" if variant == "momentum" else "")
    legend_below(
        figure,
        {label(m): c for m, c in colour.items()},
        {"the flow": ":"},
    )
    distance = {
        m: float(
            np.hypot(
                results[f"{m}-plain"]["x"][: settings.drawn + 1] - flow_x,
                results[f"{m}-plain"]["y"][: settings.drawn + 1] - flow_y,
            ).mean()
        )
        for m in settings.methods
    }
    closer = all(np.diff([distance[m] for m in settings.methods]) < 0)
    return Findings(
        summary="f = ‖x‖²/2 over the triangle (-1,0), (0,1), (1,0); the optimum is the middle of the lower edge.",
        data=[find_problem("triangle").data],
        figures=[
            Figure(
                "e3-triangle",
                figure,
                f"First {settings.drawn} steps from (0, 1), coloured from early to late, over level lines of f; the "
                f"flow is dotted. Right: gap over {settings.iterations} steps; c = {settings.c:g}, k0 = {settings.k0}.",
            )
        ],
        tables=[
            Table(
                "Gap and rate on the triangle",
                (
                    "method",
                    "variant",
                    "gap at the end",
                    "exponent of k in f",
                ),
                rows,
            )
        ],
        claims=[
            Claim.check(
                "Higher-order methods are closer to the flow",
                closer,
                f"mean distance to the flow over {settings.drawn} steps: "
                + ", ".join(f"{label(m)} {d:.4f}" for m, d in distance.items()),
            ),
            helps_more(
                "Line search helps multistep methods more than FW (triangle)", results, settings.methods, "line search"
            ),
            helps_more(
                "Momentum helps multistep methods more than FW (triangle)", results, settings.methods, "momentum"
            ),
        ],
    )


def _panel(ax: Any, x: Any, y: Any) -> None:
    """The triangle with level lines and a trajectory coloured by time."""
    u, v = np.meshgrid(np.linspace(-1.1, 1.1, 120), np.linspace(-0.15, 1.1, 80))
    ax.contour(u, v, (u**2 + v**2) / 2, levels=np.linspace(0.02, 0.6, 9), colors=FAINT, linewidths=0.6)
    ax.fill([-1, 0, 1], [0, 1, 0], facecolor="none", edgecolor=INK, lw=1.0)
    ax.plot([-1, 0, 1], [0, 1, 0], "o", color=INK, ms=3)
    steps = np.stack([np.column_stack([x[:-1], y[:-1]]), np.column_stack([x[1:], y[1:]])], axis=1)
    ax.add_collection(LineCollection(list(steps), array=np.arange(len(steps)), cmap="plasma", lw=1.5, zorder=3))
    ax.scatter(x, y, c=np.arange(len(x)), cmap="plasma", s=9, zorder=4)
    ax.plot(0, 0, marker="*", color="#009E73", ms=7, zorder=5)
    ax.set(xlim=(-1.15, 1.15), ylim=(-0.18, 1.12), xticks=[-1, 0, 1], yticks=[0, 1], aspect="equal")
    ax.grid(False)
