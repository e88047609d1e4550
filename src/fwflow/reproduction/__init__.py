"""Experiments of the paper, one module each, and the report of their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from fwflow._validation import InputError, suggest

#: Modules of the experiments, by name.
EXPERIMENTS = {
    "E1": "e1_flow",
    "E2": "e2_zigzag",
    "E3": "e3_triangle",
    "E4": "e4_gisette",
    "E5": "e5_movielens",
    "E6": "e6_sensing",
    "E7": "e7_certificates",
    "E8": "e8_rates",
    "E9": "e9_geometries",
    "E10": "e10_beyond",
    "E11": "e11_lemmas",
}


def find_experiment(name: str) -> ModuleType:
    """Return the module of an experiment."""
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
    """Run experiments and write the report; return the path of the HTML page.

    Parameters
    ----------
    names
        Experiments to run, such as "E3". By default all are run, and the page of the explorer is written too.
    out
        Folder for the page, the figures and the results. Results of earlier runs that are still valid are read from
        there, so an interrupted run continues.
    quick
        Use smaller settings, which finish within a minute.
    overrides
        Settings by experiment, in place of the defaults.
    workers
        Number of processes; by default one per core.
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
        explorer.write(page)
    return write_report(Path(out), sections, quick=quick)
