"""E2: how much do the iterates zig-zag, against the time step and against the order of the method?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np

from fwflow.diagnostics import ZigZag, zigzag_energy
from fwflow.experiments.framework import Claim, Figure, Findings, Results, Table, Task
from fwflow.experiments.problems import ProblemInstance, find_problem, solve
from fwflow.experiments.style import PALETTE, RC, label, legend_below, subplots
from fwflow.flow import exact_flow
from fwflow.steps import OpenLoop

TITLE = "Zig-zagging"

# The paper's two tables: energies at windows 5 / 20.
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
PRINTED_METHODS = ("fw", "midpoint", "rk44")


@dataclass(frozen=True)
class Settings:
    """L1-ball logistic regression. The paper does not print alpha; its step lengths fit 1000, 1 and 10.

    The flow is followed by quadratic models, renewed after every `flow_step` of the integral of gamma.
    """

    problems: tuple[str, ...] = ("sensing", "madelon", "gisette")
    alphas: tuple[float, ...] = (1000.0, 1.0, 10.0)
    deltas: tuple[float, ...] = PRINTED_DELTAS
    methods: tuple[str, ...] = PRINTED_METHODS
    windows: tuple[int, ...] = (5, 20)
    t_end: float = 100.0
    flow_step: float = 0.1


QUICK = {"deltas": (1.0, 0.1), "t_end": 100.0, "flow_step": 0.2}


def _problem(name: str, alpha: float) -> ProblemInstance:
    return find_problem(name, alpha=alpha, **({"loss": "logistic"} if name == "sensing" else {}))


def energies(
    problem: str, alpha: float, method: str, delta: float, windows: tuple[int, ...], t_end: float
) -> dict[str, Any]:
    """Zig-zag energy over time `t_end` for each window, with the projector and as the paper prints it."""
    p = _problem(problem, alpha)
    meters = {(w, how): ZigZag(w, how) for w in windows for how in ("projector", "paper")}

    def measure(state: Any) -> None:
        for meter in meters.values():
            meter(state)

    solve(p, round(t_end / delta), method=method, schedule=OpenLoop(delta=delta), callback=measure)
    return {f"{how}-{w}": meter.energy for (w, how), meter in meters.items()}


def flow_energies(problem: str, alpha: float, windows: tuple[int, ...], t_end: float, step: float) -> dict[str, Any]:
    """The same for the flow itself, at times one apart: what is left is its own curvature."""
    p = _problem(problem, alpha)
    t = np.arange(round(t_end) + 1.0)
    path = exact_flow(p.f, p.C, p.x0, tau_end=2 * math.log1p(t[-1] / 2), step=step)
    x = path(t)
    return {f"{how}-{w}": zigzag_energy(x, w, how) for w in windows for how in ("projector", "paper")}


def _key(problem: str, method: str, delta: float) -> str:
    return f"{problem}-{method}-delta{delta:g}"


def tasks(settings: Settings) -> list[Task]:
    if len(settings.alphas) != len(settings.problems):
        raise ValueError(f"alphas must have one entry per problem ({len(settings.problems)}); got {settings.alphas}")
    out = {}
    for problem, alpha in zip(settings.problems, settings.alphas, strict=True):
        data = _problem(problem, alpha).data
        pairs = [("fw", d) for d in sorted(settings.deltas)] + [(m, 1.0) for m in settings.methods]
        for method, delta in pairs:
            arguments = {
                "problem": problem, "alpha": alpha, "method": method, "delta": delta,
                "windows": settings.windows, "t_end": settings.t_end,
            }  # fmt: skip
            out[_key(problem, method, delta)] = Task(_key(problem, method, delta), energies, arguments, data)
        arguments = {
            "problem": problem, "alpha": alpha, "windows": settings.windows,
            "t_end": settings.t_end, "step": settings.flow_step,
        }  # fmt: skip
        out[_key(problem, "flow", 1.0)] = Task(_key(problem, "flow", 1.0), flow_energies, arguments, data)
    return list(out.values())


def _pair(run: Any, windows: tuple[int, ...], how: str = "projector") -> tuple[float, ...]:
    return tuple(float(run[f"{how}-{w}"][0]) for w in windows)


def _exponent(deltas: list[float], energy: tuple[float, ...]) -> float:
    """The exponent of Δ in the energy; NaN where a run goes straight, as to an optimum at a vertex."""
    if min(energy) <= 0 or len(deltas) < 2:
        return float("nan")
    return float(np.polyfit(np.log10(deltas), np.log10(energy), 1)[0])


def _show(values: tuple[float, ...]) -> str:
    return " / ".join(f"{v:.3g}" for v in values)


def findings(settings: Settings, results: Results) -> Findings:
    windows = settings.windows
    by_delta, by_method, below = [], [], []
    slopes: dict[str, tuple[float, ...]] = {}
    figure, grid = subplots(1, 2, 8.0, 3.2)
    with mpl.rc_context(RC):
        for problem, colour in zip(settings.problems, PALETTE, strict=False):
            deltas = sorted(settings.deltas, reverse=True)
            swept = [_pair(results[_key(problem, "fw", d)], windows) for d in deltas]
            as_printed = [_pair(results[_key(problem, "fw", d)], windows, "paper") for d in deltas]
            printed = dict(zip(PRINTED_DELTAS, PRINTED_DELTA[problem], strict=True))
            for d, ours, theirs in zip(deltas, swept, as_printed, strict=True):
                paper = _show(printed[d]) if d in printed else "-"
                by_delta.append((problem, f"{d:g}", _show(ours), _show(theirs), paper))
            slopes[problem] = tuple(_exponent(deltas, energy) for energy in zip(*swept, strict=True))
            grid[0, 0].loglog(deltas, [s[0] for s in swept], "o-", color=colour)

            ordered = [_pair(results[_key(problem, m, 1.0)], windows) for m in settings.methods]
            printed_m = dict(zip(PRINTED_METHODS, PRINTED_METHOD[problem], strict=True))
            for m, ours in zip(settings.methods, ordered, strict=True):
                theirs = _pair(results[_key(problem, m, 1.0)], windows, "paper")
                by_method.append((problem, label(m), _show(ours), _show(theirs), _show(printed_m.get(m, ())) or "-"))
            below += [tuple(e < energy[i] for i, e in enumerate(energy[1:])) for energy in zip(*ordered, strict=True)]
            flow = results[_key(problem, "flow", 1.0)]
            own = _pair(flow, windows)
            by_method.append((problem, "the flow itself", _show(own), _show(_pair(flow, windows, "paper")), "-"))
            grid[0, 1].semilogy(range(len(settings.methods)), [o[0] for o in ordered], "o-", color=colour)
            grid[0, 1].semilogy(len(settings.methods), own[0], "*", color=colour, ms=9)
        grid[0, 0].set(xlabel="time step Δ", ylabel=f"zig-zag energy, window {windows[0]}")
        names = [*(label(m) for m in settings.methods), "the flow"]
        grid[0, 1].set_xticks(range(len(names)), names)
        grid[0, 1].set(xlabel="method at Δ = 1", ylabel=f"zig-zag energy, window {windows[0]}")
    legend_below(figure, dict(zip(settings.problems, PALETTE, strict=False)), {})
    header = f"windows {' / '.join(map(str, windows))}"
    measured = [s for pair in slopes.values() for s in pair if not np.isnan(s)]
    return Findings(
        summary="The deviation of single steps from the direction of a whole window, averaged over the trajectory.",
        data=sorted({task.data for task in tasks(settings)}),
        figures=[
            Figure(
                "e2-zigzag",
                figure,
                f"Zig-zag energy over T = {settings.t_end:g}. Left: Euler's method against Δ. "
                "Right: methods of growing order at Δ = 1, and the flow itself at times one apart: its own curvature.",
            )
        ],
        tables=[
            Table(
                "Zig-zag energy against Δ",
                ("data", "Δ", f"ours, {header}", "ours, with the projector as printed", "paper"),
                by_delta,
                "The paper prints its projector with 1/‖d̄‖, which is no projection; both forms are shown.",
            ),
            Table(
                "Zig-zag energy against the method, Δ = 1",
                ("data", "method", f"ours, {header}", "ours, with the projector as printed", "paper"),
                by_method,
            ),
        ],
        claims=[
            Claim.check(
                "Zig-zag energy is linear in Δ",
                all(abs(s - 1) <= 0.2 for s in measured) if measured else None,
                f"exponent of Δ, {header}: "
                + "; ".join(f"{p} {_show(s)}" for p, s in slopes.items())
                + ("" if len(measured) == len(below) else " (nan: no zig-zag at all, or one Δ only)"),
            ),
            Claim.check(
                "Higher-order methods zig-zag less",
                all(map(all, below)),
                "less than the method before it: "
                + ", ".join(
                    f"{label(m)} in {sum(pair[i] for pair in below)} of {len(below)}"
                    for i, m in enumerate(settings.methods[1:])
                )
                + " pairs of data and window",
            ),
        ],
    )
