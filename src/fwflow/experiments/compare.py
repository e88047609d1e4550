"""How do methods compare on a problem of the user's choice? Built-in problems or a file, the plots of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fwflow
from fwflow.experiments import comparison
from fwflow.experiments.framework import Table, run_tasks
from fwflow.experiments.problems import PROBLEMS, find_problem
from fwflow.momentum import find_momentum
from fwflow.report import write_report
from fwflow.steps import find_line_search
from fwflow.tableaus import find_tableau


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    problem: str
    methods: tuple[str, ...]
    variants: tuple[str, ...]
    iterations: int


def compare(
    problem: str,
    methods: Sequence[str],
    line_searches: Sequence[str],
    momenta: Sequence[str],
    *,
    iterations: int,
    loss: str,
    radius: float,
    out: Path,
    workers: int | None,
) -> tuple[Table, Path]:
    """Run every method with every variant; returns the table and the path of the page."""
    name, options = problem, {}
    if problem not in PROBLEMS:
        name, options = "file", {"path": str(Path(problem).resolve()), "loss": loss, "radius": radius}
    variants: dict[str, dict[str, Any]] = {"plain": {}}
    variants |= {f"{search} line search": {"line_search": search} for search in line_searches}
    variants |= {f"{momentum} momentum": {"momentum": momentum} for momentum in momenta}
    for variant in variants.values():  # a wrong name fails here, not in a worker
        find_line_search(variant.get("line_search"))
        find_momentum(variant.get("momentum"))
    for method in methods:
        find_tableau(method)
    settings = Settings(problem, tuple(methods), tuple(variants), iterations)
    tasks = comparison.tasks(name, options, methods, variants, iterations)
    results = run_tasks({"comparison": tasks}, out, fwflow.__version__, workers)["comparison"]
    found = comparison.findings(
        "comparison",
        "Every method with every variant, from the same start.",
        f"Smallest gap so far (bold) and gap (faint) over {iterations} iterations.",
        find_problem(name, **options).data,
        methods,
        tuple(variants),
        results,
    )
    heading = (f"Methods compared on {Path(problem).stem}", "The same problem and start for every method and variant.")
    page = write_report(out, [("comparison", Path(problem).stem, settings, found)], heading=heading)
    return found.tables[0], page
