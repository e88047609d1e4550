"""E4: sparse logistic regression on Gisette, all tableaus of the paper, plain and with momentum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fwflow.experiments import comparison
from fwflow.experiments.framework import Claim, Findings, Results, Task
from fwflow.experiments.problems import find_problem

TITLE = "Sparse logistic regression on Gisette"

VARIANTS: dict[str, dict[str, Any]] = {"plain": {}, "momentum": {"momentum": "nesterov"}}


@dataclass(frozen=True)
class Settings:
    """L1 ball of radius alpha, features standardised, sum of losses."""

    alpha: float = 250.0
    iterations: int = 200
    methods: tuple[str, ...] = ("fw", "midpoint", "rk44", "rk38", "rk5")


QUICK = {"iterations": 60}


def tasks(settings: Settings) -> list[Task]:
    return comparison.tasks("gisette", {"alpha": settings.alpha}, settings.methods, VARIANTS, settings.iterations)


def findings(settings: Settings, results: Results) -> Findings:
    data = find_problem("gisette", alpha=settings.alpha).data
    found = comparison.findings(
        "e4-gisette",
        "Logistic loss, summed over the samples, on an L1 ball; features standardised; steps from k = 0.",
        f"Smallest gap so far (bold) and gap (faint) of the summed loss over the L1 ball of radius {settings.alpha:g}, "
        f"{settings.iterations} iterations.",
        data,
        settings.methods,
        tuple(VARIANTS),
        results,
    )
    found.claims.append(
        comparison.helps_more(
            "Momentum helps multistep methods more than FW (Gisette)", results, settings.methods, "momentum"
        )
    )
    if {"fw", "rk44"} <= set(settings.methods):
        plain, best = (float(results[k]["gap"][-1]) for k in ("fw-plain", "rk44-momentum"))
        found.claims.append(
            Claim.check(
                "RK44 with momentum ends far below plain FW (Gisette)",
                plain >= 10 * best,
                f"gap after {settings.iterations} iterations: FW {plain:.3g}, RK44 with momentum {best:.3g}, "
                f"{plain / best:.3g} times lower",
            )
        )
    return found
