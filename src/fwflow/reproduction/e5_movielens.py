"""E5: Huber regression on MovieLens 100K over a nuclear-norm ball, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass

from fwflow.reproduction import runs
from fwflow.reproduction.claims import Topic
from fwflow.reproduction.e4_gisette import VARIANTS
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
    return runs.tasks("movielens", options, settings.methods, VARIANTS, settings.iterations)


def findings(settings: Settings, results: Results) -> Findings:
    summary = "Huber loss, summed over the observed ratings minus 3, on a nuclear-norm ball."
    caption = (
        f"Smallest gap so far of the summed Huber loss (ρ = {settings.rho:g}) over the nuclear-norm ball of radius "
        f"{settings.alpha:g}, {settings.iterations} iterations. The gap is computed from the singular value that the "
        "oracle found, which is not a proved bound."
    )
    data = find_problem("movielens", alpha=settings.alpha, rho=settings.rho).data
    found = runs.findings("e5-movielens", summary, caption, data, settings.methods, VARIANTS, results)
    claim = runs.helps_more("momentum", "MovieLens", "Figure 4, right", results, settings.methods, Topic.MOMENTUM)
    found.claims.append(claim)
    return found
