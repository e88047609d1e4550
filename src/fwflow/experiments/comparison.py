"""Which method wins on one problem? Tableaus times variants, drawn and tabled: E4, E5, E6 and ``fwflow compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fwflow.experiments.framework import Claim, Figure, Findings, Results, Table, Task, Verdict
from fwflow.experiments.problems import columns, find_problem, solve
from fwflow.experiments.style import colours, convergence, label

AXES = (("k", "iteration k"), ("calls", "gradient and oracle calls"), ("time", "seconds"))


def run(problem: str, options: dict[str, Any], method: str, variant: dict[str, Any], iterations: int) -> dict[str, Any]:
    """One method on one problem."""
    p = find_problem(problem, **options)
    return columns(solve(p, iterations, method=method, **variant), method)


def key(method: str, variant: str) -> str:
    """The name of a run's result file."""
    path = Path(method)
    file = f"-{sha256(method.encode()).hexdigest()[:8]}" if path.suffix else ""  # files of one name are kept apart
    return f"{path.stem}{file}-{variant.replace(' ', '-')}"


def _content(path: str) -> str:
    """A checksum of the file that a tableau or a problem comes from: it may change between runs."""
    return sha256(Path(path).read_bytes()).hexdigest() if Path(path).suffix and Path(path).is_file() else ""


def tasks(
    problem: str,
    options: dict[str, Any],
    methods: Sequence[str],
    variants: Mapping[str, dict[str, Any]],
    iterations: int,
) -> list[Task]:
    """Every method with every variant."""
    data = find_problem(problem, **options).data
    return [
        Task(
            key(method, variant),
            run,
            {"problem": problem, "options": options, "method": method, "variant": keywords, "iterations": iterations},
            data + _content(method) + _content(str(options.get("path", ""))),
        )
        for variant, keywords in variants.items()
        for method in methods
    ]


def settled(run: Any) -> float:
    """The gap that a run has settled to: the geometric mean over its last tenth, since the gap oscillates."""
    gap = run["gap"]
    return float(np.exp(np.log(np.maximum(gap[-max(1, len(gap) // 10) :], 1e-300)).mean()))


def helps_more(statement: str, results: Results, methods: Sequence[str], variant: str) -> Claim:
    """The claim that a variant lowers every multistep method's gap, and by a larger factor than FW's."""
    if "fw" not in methods or len(methods) < 2:
        return Claim(statement, Verdict.UNTESTABLE, "it takes FW and a multistep method to compare")
    gain = {m: settled(results[key(m, "plain")]) / settled(results[key(m, variant)]) for m in methods}
    multistep = [m for m in methods if m != "fw"]
    more, lower = ([m for m in multistep if gain[m] > bar] for bar in (gain["fw"], 1.0))
    factors = ", ".join(f"{label(m)} {g:.3g}" for m, g in gain.items())
    return Claim.check(
        statement,
        len(more) == len(lower) == len(multistep),
        f"the gap shrinks by the factor {factors} (below 1: it grows). Of {len(multistep)} multistep methods "
        f"{len(lower)} gain and {len(more)} gain more than FW",
    )


def findings(
    name: str,
    summary: str,
    caption: str,
    data: str,
    methods: Sequence[str],
    variants: Sequence[str],
    results: Results,
) -> Findings:
    """The figure and the table of a comparison; claims are the experiment's own."""
    colour = colours(methods)
    curves = [(label(m), colour[m], v, results[key(m, v)]) for v in variants for m in methods]
    budget = min(int(results[key(m, v)]["calls"][-1]) for m in methods for v in variants)
    rows = []
    for variant in variants:
        for m in methods:
            r = results[key(m, variant)]
            at_budget = int(np.searchsorted(r["calls"], budget, side="right")) - 1
            rows.append(
                (
                    label(m),
                    variant,
                    f"{settled(r):.3e}",
                    f"{r['fun'][-1]:.6g}",
                    f"{int(r['calls'][-1])}",
                    f"{r['time'][-1]:.2f}",
                    f"{r['gap'][at_budget]:.3e}",
                )
            )
    header = ("method", "variant", "gap at the end", "f at the end", "calls", "seconds", f"gap after {budget} calls")
    note = (
        "Gap at the end: geometric mean over the last tenth of the iterations. Calls: gradients, each with one "
        "oracle call, that the method itself needs; seconds include what monitoring the gap costs runs with momentum."
    )
    return Findings(
        summary,
        data=[data],
        figures=[Figure(name, convergence(curves, AXES, "Frank-Wolfe gap"), caption)],
        tables=[Table("Where each run ends", header, rows, note)],
    )
