"""The experiments of the paper: one module per figure or table, run together into one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fwflow._validation import InputError, suggest
from fwflow.reproduction.framework import FW, MIDPOINT, RK44

#: Experiments by name. A new one is a module and an entry here.
EXPERIMENTS = {
    "E1": "e1_flow",
    "E2": "e2_zigzag",
    "E3": "e3_triangle",
    "E4": "e4_gisette",
    "E5": "e5_movielens",
    "E6": "e6_sensing",
    "E7": "e7_certificates",
    "E8": "e8_rates",
}


def find_experiment(name: str) -> ModuleType:
    """The module of an experiment."""
    if name not in EXPERIMENTS:
        raise InputError(f"experiment {name!r} is not known; {suggest(name, EXPERIMENTS)}")
    return import_module(f"fwflow.reproduction.{EXPERIMENTS[name]}")


def reproduce(
    names: Sequence[str] = (),
    out: Path | str = "reproduction",
    *,
    quick: bool = False,
    overrides: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int | None = None,
) -> Path:
    """Run experiments and write the report; returns the path of the HTML page.

    All of them together make the explorer's page beside it, too.

    Parameters
    ----------
    names
        Which experiments, such as "E3"; all by default.
    out
        Folder for the page, the figures and the raw results. What is already there and still
        valid is taken up, so an interrupted run continues.
    quick
        Smaller settings that finish within a minute.
    overrides
        Settings by experiment, on top of the defaults.
    workers
        Processes; by default one per core.
    """
    import fwflow
    from fwflow.reproduction import explorer
    from fwflow.reproduction.framework import configure, run_tasks
    from fwflow.reproduction.report import EXPLORER, write_report

    modules = {name: find_experiment(name) for name in (names or EXPERIMENTS)}
    chosen = overrides or {}
    for name in chosen:
        find_experiment(name)
    settings = {name: configure(module, quick, chosen.get(name, {})) for name, module in modules.items()}
    groups = {name: module.tasks(settings[name]) for name, module in modules.items()}
    results = run_tasks(groups, Path(out), fwflow.__version__, workers)
    sections = [
        (name, module.TITLE, settings[name], module.findings(settings[name], results[name]))
        for name, module in modules.items()
    ]
    page = Path(out) / EXPLORER
    if not names and not page.exists():  # the report has a link to it
        few = explorer.Grid(tableaus=(FW, MIDPOINT, RK44), c=(2.0,), delta=(1.0,))
        explorer.write(page, few if quick else None, progress=True)
    return write_report(Path(out), sections, quick=quick)
