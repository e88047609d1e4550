"""E7: tableaus whose iterates stay in every convex set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow.reproduction.claims import Case, Claim, VerdictRule
from fwflow.reproduction.framework import MIDPOINT, RK5, RK38, RK44, Findings, Results, ResultTable, Task
from fwflow.reproduction.runs import cases
from fwflow.reproduction.style import label
from fwflow.tableau.catalogue import find_tableau, tableaus

TITLE = "Certificates of feasibility"

# The values of z that the paper prints, to four digits, by tableau and k.
PRINTED = {
    (MIDPOINT, 1): (-0.3810, 1.1429),
    (MIDPOINT, 2): (-0.2222, 0.8889),
    (RK44, 1): (0.2449, 0.5986, 0.5714, 0.3333),
    (RK38, 1): (0.1758, 0.6409, 0.6818, 0.2500),
    (RK5, 1): (0.1821, 0.0068, 0.8416, 0.3657, 0.9956, 0.2333),
}

AS_PRINTED = VerdictRule("for: equal to the four printed digits; against: not", (0.0, 5.1e-5), (0.0, 5.1e-5))
FALLS = VerdictRule("for: less than one; against: one or more", (0.0, 1 - 1e-12), (0.0, 1 - 1e-12))


@dataclass(frozen=True)
class Settings:
    """The schedule c/(c+k)."""

    c: float = 2.0


QUICK: dict[str, Any] = {}


def certificates(c: float) -> dict[str, Any]:
    """Return the largest entry of z for k = 1, ..., 100, by tableau."""
    return {
        name: [float(np.abs(tableau.certificate(c=c, k=k).z).max()) for k in range(1, 101)]
        for name, tableau in tableaus.items()
    }


def tasks(settings: Settings) -> list[Task]:
    return [Task("norms", certificates, {"c": settings.c})]


def findings(settings: Settings, results: Results) -> Findings:
    rows = []
    for name, tableau in tableaus.items():
        certificate = tableau.certificate(c=settings.c, k=1)
        since = certificate.feasible_from
        values = ("  ".join(f"{z:.4f}" for z in zs) or "-" for zs in (certificate.z, PRINTED.get((name, 1), ())))
        certified = "never" if since is None else f"k ≥ {since}"
        rows.append((name, str(tableau.order), *values, certified, "yes" if certificate.stages_feasible else "no"))
    differences = {
        (name, k): float(np.abs(find_tableau(name).certificate(c=2.0, k=k).z - z).max())
        for (name, k), z in PRINTED.items()
    }
    header = ("tableau", "order", "z", "paper", "certified for", "stage points certified at k = 1")
    falling = {name: float((column[1:] / column[:-1]).max()) for name, column in results["norms"].items()}
    return Findings(
        summary="A step is a convex combination of the current point and the stages' vertices if z ≥ 0 and its mean "
        "is at most 1. Then no iterate leaves the set, but stage points may.",
        tables=[ResultTable(f"z at k = 1, c = {settings.c:g}", header, rows)],
        claims=[
            Claim(
                "The printed certificates z",
                "Appendix A",
                AS_PRINTED,
                tuple(Case(f"{label(name)}, k = {k}", d) for (name, k), d in differences.items()),
                "largest difference from the printed digits",
            ),
            Claim(
                "The largest entry of z falls with k",
                "Appendix A",
                FALLS,
                cases(falling),
                "largest ratio of the largest entry at k + 1 to that at k, for k = 1, ..., 99",
            ),
        ],
    )
