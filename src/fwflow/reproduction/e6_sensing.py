"""E6: compressed sensing, plain, with the line search of the paper and with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from fwflow.reproduction import runs
from fwflow.reproduction.e3_triangle import BOTH_SEARCHES, LETTER, VARIANTS, helped
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
    planned = ("sensing", {"alpha": settings.alpha}, settings.methods, VARIANTS, settings.iterations)
    return [*runs.long_tasks(*planned), *runs.tasks(*planned)]


def findings(settings: Settings, results: Results) -> Findings:
    summary = (
        f"Sum of squares over a large L1 ball. The optimum is inside the ball, far from its vertices. {BOTH_SEARCHES}"
    )
    radius, iterations = settings.alpha, settings.iterations
    caption = (
        f"Smallest gap so far of the sum of squares over the L1 ball of radius {radius:g}, for {iterations} iterations."
    )
    problem, methods = find_problem("sensing", alpha=radius), settings.methods
    found = runs.findings(
        "e6-sensing", summary, caption, problem.data, methods, VARIANTS, results, aside=LETTER, kinds=[problem.kind]
    )
    found.claims += helped("compressed sensing", {"line search": "Figure 5"}, results, methods, problem.kind)
    return found
