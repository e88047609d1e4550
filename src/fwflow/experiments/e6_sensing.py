"""E6: compressed sensing, plain and with the paper's line search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fwflow.experiments import comparison
from fwflow.experiments.framework import Findings, Results, Task
from fwflow.experiments.problems import find_problem
from fwflow.steps import Aggressive

TITLE = "Compressed sensing"

# The rule as printed takes the largest step that does not increase f, and f then does not decrease either wherever
# that step is shorter than 1. Backtracking by halves keeps the idea and some decrease; both are shown.
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "line search": {"line_search": "aggressive"},
    "line search by halves": {"line_search": Aggressive(shrink=0.5)},
}


@dataclass(frozen=True)
class Settings:
    """Least squares, 500 x 100, on an L1 ball of radius alpha."""

    alpha: float = 1000.0
    iterations: int = 5000
    methods: tuple[str, ...] = ("fw", "midpoint", "rk44", "rk38", "rk5")


QUICK = {"iterations": 500}


def tasks(settings: Settings) -> list[Task]:
    return comparison.tasks("sensing", {"alpha": settings.alpha}, settings.methods, VARIANTS, settings.iterations)


def findings(settings: Settings, results: Results) -> Findings:
    found = comparison.findings(
        "e6-sensing",
        "Sum of squares on an L1 ball so large that the optimum lies inside: the case in which vertices are far away.",
        f"Smallest gap so far (bold) and gap (faint) of the sum of squares, "
        f"L1 ball of radius {settings.alpha:g}, {settings.iterations} iterations.",
        find_problem("sensing", alpha=settings.alpha).data,
        settings.methods,
        tuple(VARIANTS),
        results,
    )
    found.claims += [
        comparison.helps_more(
            f"Line search{how} helps multistep methods more than FW (compressed sensing)",
            results,
            settings.methods,
            f"line search{how}",
        )
        for how in ("", " by halves")
    ]
    return found
