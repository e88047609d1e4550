"""E5: Huber regression on MovieLens 100K over a nuclear-norm ball, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from fwflow.reproduction import runs
from fwflow.reproduction.e3_triangle import BOTH_SEARCHES, LETTER, VARIANTS, helped
from fwflow.reproduction.framework import PAPER_METHODS, Findings, Results, Task
from fwflow.reproduction.problems import find_problem

TITLE = "Matrix completion on MovieLens"


@dataclass(frozen=True)
class Settings:
    """Nuclear-norm ball of radius alpha, Huber loss, ratings minus 3 on their observed entries."""

    alpha: float = 1000.0
    rho: float = 10.0
    iterations: int = 100
    methods: tuple[str, ...] = PAPER_METHODS


QUICK = {"iterations": 20}


def tasks(settings: Settings) -> list[Task]:
    options = {"alpha": settings.alpha, "rho": settings.rho}
    planned = ("movielens", options, settings.methods, VARIANTS, settings.iterations)
    return [*runs.long_tasks(*planned), *runs.tasks(*planned)]


def findings(settings: Settings, results: Results) -> Findings:
    summary = f"Huber loss, summed over the observed ratings minus 3, over a nuclear-norm ball. {BOTH_SEARCHES}"
    caption = (
        f"Smallest gap so far of the summed Huber loss (ρ = {settings.rho:g}) over the nuclear-norm ball of radius "
        f"{settings.alpha:g}, for {settings.iterations} iterations. The gap is computed from the singular value that "
        "the oracle found, so it is an estimate and not a proved bound."
    )
    problem = find_problem("movielens", alpha=settings.alpha, rho=settings.rho)
    data, kind, methods = problem.data, problem.kind, settings.methods
    found = runs.findings(
        "e5-movielens", summary, caption, data, methods, VARIANTS, results, aside=LETTER, kinds=[kind]
    )
    found.claims += helped("MovieLens", {"momentum": "Figure 4, right"}, results, methods, kind)
    return found
