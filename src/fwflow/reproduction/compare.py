"""Comparison of methods on one problem, for ``fwflow compare``."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fwflow
from fwflow._validation import InputError
from fwflow.methods import UncertifiedWarning
from fwflow.reproduction import runs
from fwflow.reproduction.framework import ResultTable, run_tasks
from fwflow.reproduction.problems import PROBLEMS, find_problem
from fwflow.reproduction.report import write_report
from fwflow.reproduction.style import label
from fwflow.run.loop import minimize
from fwflow.steps.momentum import find_momentum
from fwflow.steps.searches import find_line_search

AXES = (*runs.AXES[:2], ("passes", "passes over the data"), ("time", "seconds"))


def compare(
    problem: str,
    methods: Sequence[str],
    line_searches: Sequence[str],
    momenta: Sequence[str],
    *,
    iterations: int,
    out: Path,
    workers: int | None,
    **options: Any,
) -> tuple[ResultTable, Path]:
    """Run every method with every variant on a problem by name, or on a data file with the options of `from_file`."""
    name = problem if problem in PROBLEMS else "file"
    options |= {} if problem in PROBLEMS else {"path": problem}
    variants: dict[str, dict[str, Any]] = {"plain": {}}
    variants |= {f"{search} line search": {"line_search": search} for search in line_searches}
    variants |= {f"{momentum} momentum": {"momentum": momentum} for momentum in momenta}
    for variant in variants.values():  # A wrong name fails here and not in a worker process.
        find_line_search(variant.get("line_search"))
        find_momentum(variant.get("momentum"))
    instance = find_problem(name, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncertifiedWarning)
        chosen = [minimize(instance.f, instance.C, instance.x0, method=m, tol=0, max_iter=0).method for m in methods]
    for unused in set(variants) - {taken for _, taken in runs.pairs(methods, variants)}:
        raise InputError(f"{unused} belongs to other methods; none of {', '.join(methods)} takes it")
    shown = {"problem": problem, "methods": tuple(methods), "variants": tuple(variants), "iterations": iterations}
    tasks = runs.tasks(name, options, methods, variants, iterations)
    results = run_tasks({"comparison": tasks}, out, fwflow.__version__, workers)["comparison"]
    summary = "Every method with every variant that it takes, from the same start."
    for choice in (choice for choice, method in zip(chosen, methods, strict=True) if method == "auto"):
        summary += f" Here auto is {label(choice)}: {choice.why}."
    found = runs.findings(
        "comparison",
        summary,
        f"Smallest gap so far over {iterations} iterations.",
        instance.data,
        methods,
        variants,
        results,
        AXES,
    )
    heading = (f"Methods compared on {Path(problem).stem}", "The same problem and start for every method and variant.")
    page = write_report(out, [("comparison", Path(problem).stem, SimpleNamespace(**shown), found)], heading=heading)
    return found.tables[0], page
