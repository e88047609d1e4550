"""E2: zig-zagging of the iterates, by time step and by order of the method."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import InputError
from fwflow.reproduction.claims import Case, Claim, Data, Topic, VerdictRule
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

LINEAR = VerdictRule("agrees if from 0.8 to 1.2, disagrees if below 0.5 or above 1.5", (0.8, 1.2), (0.5, 1.5))
ROBUST = VerdictRule("agrees if from 1/2 to 2, disagrees if below 1/4 or above 4", (1 / 2, 2.0), (1 / 4, 4.0))
LESS = VerdictRule.below("agrees if at most 1/1.05, disagrees if more than 1.05")
EQUAL = VerdictRule("agrees if from 1/1.05 to 1.05, disagrees otherwise", (1 / 1.05, 1.05), (1 / 1.05, 1.05))

#: Energies below this fraction of α are rounding errors and count as zero. They occur if all steps are on one line, and
#: are at most 1.2e-17 times α in that case. The other energies are at least 4e-5 times α.
ROUNDING = 1e-12

#: Settings that the paper leaves open: the setting, the value assumed here, another value, and its options by data set.
#: The printed projector needs no run of its own.
RAW = {"sensing": {"standard": True}, "madelon": {"standard": False}, "gisette": {"standard": False}}


def _all(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {problem: dict(options) for problem in RAW}


ASSUMPTIONS: tuple[tuple[str, str, str, dict[str, dict[str, Any]]], ...] = (
    ("α", "1000, 1 and 10", "ten times smaller", _all({"factor": 0.1})),
    ("α", "1000, 1 and 10", "ten times larger", _all({"factor": 10.0})),
    ("features", "standardised, sensing raw", "raw, sensing standardised", RAW),
    ("normalisation of the loss", "sum", "mean", _all({"scale": "mean"})),
    ("loss on sensing", "logistic, as in the text", "squared, as in E6", {"sensing": {"loss": "squared"}}),
    ("first step", "k = 0", "k = 1", _all({"k0": 1})),
)


@dataclass(frozen=True)
class Settings:
    """L1-ball logistic regression. The paper does not print alpha; its step lengths fit 1000, 1 and 10.

    The flow is computed by implicit steps, whose length in the integral of gamma is `flow_step`. The verdicts under
    other assumptions use time steps of at least `coarse`.
    """

    problems: tuple[str, ...] = ("sensing", "madelon", "gisette")
    alphas: tuple[float, ...] = (1000.0, 1.0, 10.0)
    deltas: tuple[float, ...] = PRINTED_DELTAS
    methods: tuple[str, ...] = PRINTED_METHODS
    windows: tuple[int, ...] = PRINTED_WINDOWS
    t_end: float = 100.0
    flow_step: float = 0.2
    coarse: float = 0.1


QUICK = {"deltas": (1.0, 0.1), "t_end": 100.0, "flow_step": 1.0}


def _problem(name: str, alpha: float, **options: Any) -> ProblemInstance:
    return find_problem(name, alpha=alpha, **({"loss": "logistic"} if name == "sensing" else {}) | options)


def energies(
    problem: str,
    alpha: float,
    method: str,
    delta: float,
    windows: tuple[int, ...],
    t_end: float,
    factor: float = 1.0,
    k0: int = 0,
    **options: Any,
) -> dict[str, Any]:
    """Return the zig-zag energy up to time `t_end` for each window, with the projector and as the paper prints it.

    `factor` multiplies alpha, and the options are those of the problem.
    """
    p = _problem(problem, factor * alpha, **options)
    meters = {(w, how): ZigZag(w, how) for w in windows for how in ("projector", "paper")}

    def measure(state: Any) -> None:
        for meter in meters.values():
            meter(state)

    solve(p, round(t_end / delta), method=method, schedule=OpenLoop(delta=delta, k0=k0), callback=measure)
    least = ROUNDING * factor * alpha
    return {f"{how}-{w}": meter.energy if meter.energy > least else 0.0 for (w, how), meter in meters.items()}


def flow_energies(problem: str, alpha: float, windows: tuple[int, ...], t_end: float, step: float) -> dict[str, Any]:
    """Return the energy of the flow itself at the times 0, 1, 2, ..., which is due to its curvature."""
    p = _problem(problem, alpha)
    t = np.arange(round(t_end) + 1.0)
    x = exact_flow(p.f, p.C, p.x0, tau_end=2 * math.log1p(t[-1] / 2), step=step)(t)
    return {f"{how}-{w}": zigzag_energy(x, w, how) for w in windows for how in ("projector", "paper")}


def _key(problem: str, method: str, delta: float, assumption: int | None = None) -> str:
    return f"{problem}-{method}-delta{delta:g}" + ("" if assumption is None else f"-assumption{assumption}")


def _coarse(settings: Settings) -> list[float]:
    return [delta for delta in sorted(settings.deltas, reverse=True) if delta >= settings.coarse]


def _needed(settings: Settings) -> list[tuple[str, float]]:
    """Return the methods and time steps that both verdicts need."""
    return [*dict.fromkeys([(FW, d) for d in _coarse(settings)] + [(m, 1.0) for m in settings.methods])]


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
        for number, (*_, changes) in enumerate(ASSUMPTIONS):
            for method, delta in _needed(settings) if problem in changes else ():
                key = _key(problem, method, delta, number)
                out[key] = Task(key, energies, {**shared, "method": method, "delta": delta, **changes[problem]}, data)
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
    header = (f"our result, windows {' / '.join(map(str, windows))}", "our result, formula as printed", "paper")
    # Runs by problem and time step, for FW, and by problem and method, for Δ = 1.
    runs: dict[tuple[str, Any], Any]
    runs = {(p, d): results[_key(p, FW, d)] for p in settings.problems for d in deltas}
    runs |= {(p, m): results[_key(p, m, 1.0)] for p in settings.problems for m in (*settings.methods, "flow")}
    energy = {entry: _energy(run, windows) for entry, run in runs.items()}
    rows = {entry: _row(run, windows, PRINTED.get(entry, ())) for entry, run in runs.items()}
    kinds = {p: _problem(p, alpha).kind for p, alpha in zip(settings.problems, settings.alphas, strict=True)}
    linear, less = _linear(settings, energy, deltas, kinds), _less(settings, energy, kinds)
    robust = []
    for p in settings.problems:
        for d in deltas:
            if energy[p, d][0] > 0:
                printed = _printed(p, d, windows[-1]) / _printed(p, d, windows[0])
                robust.append(Case(f"{p}, Δ = {d:g}", energy[p, d][-1] / energy[p, d][0], printed, kinds[p]))
    by_delta = [(p, f"{d:g}", *rows[p, d]) for p in settings.problems for d in deltas]
    by_method = [(p, label(m), *rows[p, m]) for p in settings.problems for m in (*settings.methods, "flow")]
    note = (
        "The formula printed in the paper has the factor 1/‖d̄‖ and is not a projection. The table shows the energy "
        "with the projection, whose factor is 1/‖d̄‖², and with the printed formula."
    )
    caption = (
        f"Zig-zag energy up to time t = {settings.t_end:g}. Left: Euler's method for several time steps Δ. Right: "
        "methods of increasing order at Δ = 1, and the flow at integer times. The energy of the flow is due to its "
        "curvature."
    )
    return Findings(
        summary="The zig-zag energy is the mean deviation of single steps from the direction of a window of steps. "
        "The two tables of the paper contradict each other. Both have the energy of FW at Δ = 1, but the energies "
        f"differ by factors of 3 to 6 on Madelon and Gisette. {_sensing(energy)}The paper does not print α, the "
        "scaling of the features, the normalisation of the loss, or the first k. It prints a projector that is not a "
        "projection. The last table shows how the verdicts depend on each of these assumptions.",
        data=sorted({task.data for task in tasks(settings)}),
        kinds=[*kinds.values()],
        figures=[Figure("e2-zigzag", _figure(settings, energy), caption)],
        tables=[
            ResultTable("Zig-zag energy by Δ", ("data", "Δ", *header), by_delta, note),
            ResultTable("Zig-zag energy by method, Δ = 1", ("data", "method", *header), by_method),
            _contradictions(settings, energy),
            _sensitivity(settings, results, kinds),
        ],
        claims=[
            Claim(
                "Zig-zag energy is linear in Δ",
                "Figure 2, top table",
                LINEAR,
                tuple(linear),
                "exponent of Δ in the energy, of this run and of the table in the paper",
                "The exponent of Δ in the zig-zag energy is " + _span(linear),
                Topic.ZIGZAG,
            ),
            Claim(
                "The two tables of the paper have the same energy of FW at Δ = 1",
                "Figure 2, both tables",
                EQUAL,
                tuple(
                    Case(f"{p}, W = {w}", _printed(p, 1.0, w) / _printed(p, FW, w), data=kinds[p])
                    for p in settings.problems
                    for w in windows
                ),
                "ratio of the energy in the top table to the energy in the bottom table, both as printed",
            ),
            Claim(
                "Zig-zag energy hardly depends on the window",
                "Figure 2, top table",
                ROBUST,
                tuple(robust),
                f"ratio of the energy at W = {windows[-1]} to the energy at W = {windows[0]}",
            ),
            Claim(
                "Higher-order methods zig-zag less",
                "Figure 2, bottom table",
                LESS,
                tuple(less),
                "ratio of the energy to the energy of FW",
                ". ".join(
                    f"The energy of {label(m)} is {_span([c for c in less if c.name.startswith(f'{label(m)},')])} "
                    "times the energy of FW"
                    for m in settings.methods
                    if m != FW and less
                ),
                Topic.ZIGZAG,
            ),
        ],
    )


def _linear(settings: Settings, energy: Any, deltas: Sequence[float], kinds: dict[str, Data]) -> list[Case]:
    """Return the exponents of Δ in the energies of FW."""
    return [
        Case(
            f"{p}, W = {w}",
            _exponent(deltas, [energy[p, d][i] for d in deltas]),
            _exponent(PRINTED_DELTAS, [_printed(p, d, w) for d in PRINTED_DELTAS]),
            kinds[p],
        )
        for p in settings.problems
        for i, w in enumerate(settings.windows)
    ]


def _less(settings: Settings, energy: Any, kinds: dict[str, Data]) -> list[Case]:
    """Return the energies of the other methods, divided by that of FW, where FW has an energy that is not zero."""
    return [
        Case(
            f"{label(m)}, {p}, W = {w}",
            energy[p, m][i] / energy[p, FW][i],
            _printed(p, m, w) / _printed(p, FW, w),
            kinds[p],
        )
        for p in settings.problems
        for i, w in enumerate(settings.windows)
        for m in settings.methods
        if m != FW and FW in settings.methods and energy[p, FW][i] > 0
    ]


def _sensing(energy: Any) -> str:
    if ("sensing", RK44) not in energy:
        return ""
    ours, printed = energy["sensing", RK44][0], PRINTED["sensing", RK44][0]
    return f"On sensing, the paper prints the energy {printed:g} for RK44, and our result is {ours:.2g}. "


def _contradictions(settings: Settings, energy: Any) -> ResultTable:
    """Return the energies that the paper prints twice, or that differ from ours by orders of magnitude."""

    def shown(values: Sequence[float]) -> str:
        return " / ".join(f"{value:.3g}" for value in values) or "-"

    rows = [
        (p, label(FW), shown(PRINTED.get((p, 1.0), ())), shown(PRINTED.get((p, FW), ())), shown(energy[p, 1.0]))
        for p in settings.problems
        if (p, 1.0) in energy
    ]
    rows += [
        (p, label(m), "-", shown(PRINTED.get((p, m), ())), shown(energy[p, m]))
        for p in settings.problems
        for m in settings.methods
        if m != FW
    ]
    windows = " / ".join(map(str, settings.windows))
    header = ("data", "method at Δ = 1", "paper, top table", "paper, bottom table", f"our result, windows {windows}")
    return ResultTable(
        "Energies at Δ = 1 in the two tables of the paper",
        header,
        rows,
        "Both tables of the paper have FW at Δ = 1. Their energies agree on sensing and differ on Madelon and Gisette.",
    )


def _sensitivity(settings: Settings, results: Results, kinds: dict[str, Data]) -> ResultTable:
    """Return the verdicts under other values of the settings that the paper leaves open."""
    deltas, rows = _coarse(settings), []

    def row(setting: str, ours: str, other: str, number: int | None, how: str, changes: Any) -> tuple[str, ...]:
        energy: dict[tuple[str, Any], tuple[float, ...]] = {}
        for p in settings.problems:
            for method, delta in _needed(settings):
                run = results[_key(p, method, delta, number if p in changes else None)]
                values = _energy(run, settings.windows, how)
                energy |= {(p, method): values} if delta == 1.0 else {}
                energy |= {(p, delta): values} if method == FW else {}
        linear, less = _linear(settings, energy, deltas, kinds), _less(settings, energy, kinds)
        judged = [Claim("", "", rule, tuple(c), "").verdict.value for rule, c in ((LINEAR, linear), (LESS, less))]
        ends = [_span([c for c in less if c.name.startswith(f"{label(m)},")]) for m in settings.methods if m != FW]
        sizes = [
            " / ".join(f"{energy[p, m][0]:.2g}" for p in settings.problems) for m in settings.methods if (m != MIDPOINT)
        ]
        return (setting, ours, other, judged[0], _span(linear), judged[1], *ends, *sizes)

    rows.append(row("none", "-", "as in the other tables", None, "projector", {}))
    for number, (setting, ours, other, changes) in enumerate(ASSUMPTIONS):
        rows.append(row(setting, ours, other, number, "projector", changes))
    rows.append(row("projector", "factor 1/‖d̄‖²", "factor 1/‖d̄‖, as printed", None, "paper", {}))
    others = [label(m) for m in settings.methods if m != FW]
    sized = [label(m) for m in settings.methods if m != MIDPOINT]
    header = (
        "open setting", "assumed", "changed to", "linear in Δ", "exponent of Δ", "higher order zig-zags less",
        *(f"energy of {m} / FW" for m in others),
        *(f"energy of {m} on {', '.join(settings.problems)}" for m in sized),
    )  # fmt: skip
    note = (
        f"Each row changes one assumption. The verdicts use the rules of this section and the time steps "
        f"{', '.join(f'{d:g}' for d in deltas)}. The last columns are for Δ = 1 and window {settings.windows[0]}. The "
        "normalisation of the loss changes nothing, because the oracle and the step sizes do not depend on the scale "
        "of f."
    )
    return ResultTable("Verdicts under other assumptions", header, rows, note)


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
