"""E2: zig-zagging of the iterates, by time step and by order of the method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import InputError
from fwflow.reproduction.claims import Case, Claim, Topic, VerdictRule
from fwflow.reproduction.framework import FW, MIDPOINT, RK44, Figure, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve
from fwflow.reproduction.style import PALETTE, in_style, label, legend_below, subplots
from fwflow.steps.schedules import OpenLoop
from fwflow.trajectories import ZigZag, exact_flow, zigzag_energy

TITLE = "Zig-zagging"

# The two tables of the paper: energies at windows 5 and 20.
PRINTED_DELTA = {
    "sensing": ((105.90, 140.29), (10.49, 13.86), (1.05, 1.39)),
    "madelon": ((0.11, 0.23), (0.021, 0.028), (0.0021, 0.0028)),
    "gisette": ((1.08, 1.74), (0.21, 0.28), (0.021, 0.028)),
}
PRINTED_METHOD = {
    "sensing": ((105.90, 140.29), (0.57, 1.0018), (0.015, 0.033)),
    "madelon": ((0.031, 0.040), (0.025, 0.029), (0.025, 0.029)),
    "gisette": ((0.30, 0.40), (0.25, 0.11), (0.22, 0.20)),
}
PRINTED_DELTAS = (1.0, 0.1, 0.01)
PRINTED_METHODS = (FW, MIDPOINT, RK44)
PRINTED_WINDOWS = (5, 20)
PRINTED = {
    (problem, entry): energies
    for table, entries in ((PRINTED_DELTA, PRINTED_DELTAS), (PRINTED_METHOD, PRINTED_METHODS))
    for problem, row in table.items()
    for entry, energies in zip(entries, row, strict=True)
}

LINEAR = VerdictRule("for: an exponent from 0.8 to 1.2; against: below 0.5 or above 1.5", (0.8, 1.2), (0.5, 1.5))
ROBUST = VerdictRule("for: within a factor of 2; against: beyond a factor of 4", (1 / 2, 2.0), (1 / 4, 4.0))
LESS = VerdictRule.below("for: at most 1/1.05 of FW's energy; against: at least 1.05 of it")


@dataclass(frozen=True)
class Settings:
    """L1-ball logistic regression. The paper does not print alpha; its step lengths fit 1000, 1 and 10.

    The flow is computed by implicit steps, whose length in the integral of gamma is `flow_step`.
    """

    problems: tuple[str, ...] = ("sensing", "madelon", "gisette")
    alphas: tuple[float, ...] = (1000.0, 1.0, 10.0)
    deltas: tuple[float, ...] = PRINTED_DELTAS
    methods: tuple[str, ...] = PRINTED_METHODS
    windows: tuple[int, ...] = PRINTED_WINDOWS
    t_end: float = 100.0
    flow_step: float = 0.2


QUICK = {"deltas": (1.0, 0.1), "t_end": 100.0, "flow_step": 1.0}


def _problem(name: str, alpha: float) -> ProblemInstance:
    return find_problem(name, alpha=alpha, **({"loss": "logistic"} if name == "sensing" else {}))


def energies(
    problem: str, alpha: float, method: str, delta: float, windows: tuple[int, ...], t_end: float
) -> dict[str, Any]:
    """Return the zig-zag energy up to time `t_end` for each window, with the projector and as the paper prints it."""
    p = _problem(problem, alpha)
    meters = {(w, how): ZigZag(w, how) for w in windows for how in ("projector", "paper")}

    def measure(state: Any) -> None:
        for meter in meters.values():
            meter(state)

    solve(p, round(t_end / delta), method=method, schedule=OpenLoop(delta=delta), callback=measure)
    return {f"{how}-{w}": meter.energy for (w, how), meter in meters.items()}


def flow_energies(problem: str, alpha: float, windows: tuple[int, ...], t_end: float, step: float) -> dict[str, Any]:
    """Return the energy of the flow itself at the times 0, 1, 2, ..., which is due to its curvature."""
    p = _problem(problem, alpha)
    t = np.arange(round(t_end) + 1.0)
    x = exact_flow(p.f, p.C, p.x0, tau_end=2 * math.log1p(t[-1] / 2), step=step)(t)
    return {f"{how}-{w}": zigzag_energy(x, w, how) for w in windows for how in ("projector", "paper")}


def _key(problem: str, method: str, delta: float) -> str:
    return f"{problem}-{method}-delta{delta:g}"


def tasks(settings: Settings) -> list[Task]:
    if len(settings.alphas) != len(settings.problems):
        raise InputError(f"alphas must have one entry per problem ({len(settings.problems)}); got {settings.alphas}")
    out = {}
    for problem, alpha in zip(settings.problems, settings.alphas, strict=True):
        data = _problem(problem, alpha).data
        shared = {"problem": problem, "alpha": alpha, "windows": settings.windows, "t_end": settings.t_end}
        for method, delta in [(FW, d) for d in sorted(settings.deltas)] + [(m, 1.0) for m in settings.methods]:
            key = _key(problem, method, delta)
            out[key] = Task(key, energies, {**shared, "method": method, "delta": delta}, data)
        key = _key(problem, "flow", 1.0)
        out[key] = Task(key, flow_energies, {**shared, "step": settings.flow_step}, data)
    return list(out.values())


def _energy(run: Any, windows: tuple[int, ...], how: str = "projector") -> tuple[float, ...]:
    return tuple(float(run[f"{how}-{w}"][0]) for w in windows)


def _exponent(deltas: Sequence[float], energy: Sequence[float]) -> float:
    """Return the exponent of Δ in the energy; NaN if an energy is missing or zero, as for an optimum at a vertex."""
    if len(deltas) < 2 or not all(e > 0 for e in energy):
        return math.nan
    return float(np.polyfit(np.log10(deltas), np.log10(energy), 1)[0])


def findings(settings: Settings, results: Results) -> Findings:
    windows, deltas = settings.windows, sorted(settings.deltas, reverse=True)
    header = (f"ours, windows {' / '.join(map(str, windows))}", "ours, with the projector as printed", "paper")
    # Runs by problem and time step, for FW, and by problem and method, for Δ = 1.
    runs: dict[tuple[str, Any], Any]
    runs = {(p, d): results[_key(p, FW, d)] for p in settings.problems for d in deltas}
    runs |= {(p, m): results[_key(p, m, 1.0)] for p in settings.problems for m in (*settings.methods, "flow")}
    energy = {entry: _energy(run, windows) for entry, run in runs.items()}
    rows = {entry: _row(run, windows, PRINTED.get(entry, ())) for entry, run in runs.items()}
    linear, robust, less = [], [], []
    for p in settings.problems:
        for i, w in enumerate(windows):
            printed = _exponent(PRINTED_DELTAS, [_printed(p, d, w) for d in PRINTED_DELTAS])
            linear.append(Case(f"{p}, W = {w}", _exponent(deltas, [energy[p, d][i] for d in deltas]), printed))
            own = energy[p, FW][i] if FW in settings.methods else 0.0
            less += [
                Case(f"{label(m)}, {p}, W = {w}", energy[p, m][i] / own, _printed(p, m, w) / _printed(p, FW, w))
                for m in settings.methods
                if m != FW and own > 0  # the comparison needs FW, with an energy that is not zero
            ]
        for d in deltas:
            if energy[p, d][0] > 0:
                printed = _printed(p, d, windows[-1]) / _printed(p, d, windows[0])
                robust.append(Case(f"{p}, Δ = {d:g}", energy[p, d][-1] / energy[p, d][0], printed))
    by_delta = [(p, f"{d:g}", *rows[p, d]) for p in settings.problems for d in deltas]
    by_method = [(p, label(m), *rows[p, m]) for p in settings.problems for m in (*settings.methods, "flow")]
    note = "The paper prints its projector with 1/‖d̄‖, which is not a projection; both forms are shown."
    caption = (
        f"Zig-zag energy over T = {settings.t_end:g}. Left: Euler's method against Δ. Right: methods of increasing "
        "order at Δ = 1, and the flow at integer times, where the energy is due to its curvature."
    )
    return Findings(
        summary="Zig-zag energy is the mean deviation of single steps from the direction of a window of steps.",
        data=sorted({task.data for task in tasks(settings)}),
        figures=[Figure("e2-zigzag", _figure(settings, energy), caption)],
        tables=[
            ResultTable("Zig-zag energy by Δ", ("data", "Δ", *header), by_delta, note),
            ResultTable("Zig-zag energy by method, Δ = 1", ("data", "method", *header), by_method),
        ],
        claims=[
            Claim(
                "Zig-zag energy is linear in Δ",
                "Figure 2, top table",
                LINEAR,
                tuple(linear),
                "the exponent of Δ in the energy; the paper's from its table",
                "zig-zag energy is proportional to Δ to the power " + _span(linear),
                Topic.ZIGZAG,
            ),
            Claim(
                "Zig-zag energy hardly depends on the window",
                "Figure 2, top table",
                ROBUST,
                tuple(robust),
                f"energy at W = {windows[-1]} over energy at W = {windows[0]}",
            ),
            Claim(
                "Higher-order methods zig-zag less",
                "Figure 2, bottom table",
                LESS,
                tuple(less),
                "energy as a share of FW's",
                "; ".join(
                    f"{label(m)} has {_span([c for c in less if c.name.startswith(f'{label(m)},')])} of FW's"
                    for m in settings.methods
                    if m != FW and less
                ),
                Topic.ZIGZAG,
            ),
        ],
    )


def _span(cases: list[Case]) -> str:
    values = [case.value for case in cases if not math.isnan(case.value)]
    return f"{min(values):.2g} to {max(values):.2g}" if values else "-"


def _row(run: Any, windows: tuple[int, ...], printed: tuple[float, ...]) -> list[str]:
    """Return the energies of a run, those by the paper's formula, and the printed ones, as cells of a table."""
    shown = ((_energy(run, windows), 3), (_energy(run, windows, "paper"), 3), (printed, 5))
    return [" / ".join(f"{value:.{digits}g}" for value in values) or "-" for values, digits in shown]


def _printed(problem: str, entry: float | str, window: int) -> float:
    """Return an energy that the paper prints for a time step or a method, or NaN."""
    return dict(zip(PRINTED_WINDOWS, PRINTED.get((problem, entry), ()), strict=False)).get(window, math.nan)


@in_style
def _figure(settings: Settings, energy: dict[Any, tuple[float, ...]]) -> Any:
    figure, grid = subplots(1, 2, 8.0, 3.2)
    by_delta, by_method = grid[0]
    windows, deltas = settings.windows, sorted(settings.deltas, reverse=True)
    names = [*(label(m) for m in settings.methods), "flow"]
    for problem, colour in zip(settings.problems, PALETTE, strict=False):
        by_delta.loglog(deltas, [energy[problem, d][0] for d in deltas], "o-", color=colour, label=problem)
        *steps, flow = [energy[problem, m][0] for m in (*settings.methods, "flow")]
        by_method.semilogy(range(len(steps)), steps, "o-", color=colour, label=problem)
        by_method.semilogy(len(steps), flow, "*", color=colour, ms=9, label=f"{problem}, the flow")
    by_delta.set(xlabel="time step Δ", ylabel=f"zig-zag energy, window {windows[0]}")
    by_method.set_xticks(range(len(names)), names)
    by_method.set(xlabel="method at Δ = 1", ylabel=f"zig-zag energy, window {windows[0]}")
    legend_below(figure, dict(zip(settings.problems, PALETTE, strict=False)), {})
    return figure
