"""E6: compressed sensing, plain and with the line search of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from fwflow.reproduction import runs
from fwflow.reproduction.claims import Topic
from fwflow.reproduction.e3_triangle import LETTER, SEARCHES
from fwflow.reproduction.framework import PAPER_METHODS, Findings, Results, Task
from fwflow.reproduction.problems import find_problem

TITLE = "Compressed sensing"


@dataclass(frozen=True)
class Settings:
    """Least squares, 500 x 100, on an L1 ball of radius alpha."""

    alpha: float = 1000.0
    iterations: int = 5000
    methods: tuple[str, ...] = PAPER_METHODS


QUICK = {"iterations": 500}


def tasks(settings: Settings) -> list[Task]:
    return runs.tasks("sensing", {"alpha": settings.alpha}, settings.methods, SEARCHES, settings.iterations)


def findings(settings: Settings, results: Results) -> Findings:
    summary = "Sum of squares on a large L1 ball: its vertices are far away, and the optimum lies inside."
    radius, iterations = settings.alpha, settings.iterations
    caption = f"Smallest gap so far of the sum of squares, L1 ball of radius {radius:g}, {iterations} iterations."
    data = find_problem("sensing", alpha=radius).data
    found = runs.findings("e6-sensing", summary, caption, data, settings.methods, SEARCHES, results, aside=LETTER)
    where = "compressed sensing"
    found.claims += [
        runs.helps_more("line search", where, "Figure 5", results, settings.methods, Topic.SEARCH),
        runs.helps_more(LETTER, where, "", results, settings.methods, None),
    ]
    return found
