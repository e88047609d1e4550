"""E7: tableaus whose iterates stay in every convex set, by two conditions and by runs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fwflow._validation import Array
from fwflow.objectives import Quadratic
from fwflow.reproduction.claims import Case, Claim, VerdictRule
from fwflow.reproduction.framework import MIDPOINT, RK5, RK38, RK44, Findings, Results, ResultTable, Task
from fwflow.reproduction.problems import ProblemInstance, find_problem, solve
from fwflow.reproduction.runs import cases
from fwflow.reproduction.style import label
from fwflow.steps.schedules import OpenLoop
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

AS_PRINTED = VerdictRule(
    "agrees if equal to the four printed digits, disagrees if different", (0.0, 5.1e-5), (0.0, 5.1e-5)
)
FALLS = VerdictRule("agrees if less than 1, disagrees if 1 or more", (0.0, 1 - 1e-12), (0.0, 1 - 1e-12))
#: Points are in the set up to rounding errors, which are a few units of 1e-16.
INSIDE = VerdictRule("agrees if at most 1e-12, disagrees if more", (0.0, 1e-12), (0.0, 1e-12))
CONDITION = VerdictRule("agrees if at least 0, disagrees if less", (-1e-12, math.inf), (-1e-12, math.inf))

# Both conditions are required for k = 1, ..., LAST. For large k, z is close to q beta c / (c + k), and all signs stay.
LAST = 100


@dataclass(frozen=True)
class Settings:
    """The schedule c/(c+k), and runs on the triangle: f = ‖x - a‖²/2 with `centres`² points a on a grid around it."""

    c: float = 2.0
    iterations: int = 60
    centres: int = 5


QUICK: dict[str, Any] = {}


def certificates(c: float) -> dict[str, Any]:
    """Return the largest absolute entry of z for k = 1, ..., `LAST`, by tableau."""
    return {name: np.abs(_z(name, c)).max(axis=1) for name in tableaus}


def _z(name: str, c: float) -> Array:
    """Return z for k = 1, ..., `LAST`, one row per k."""
    return np.stack([tableaus[name].certificate(c=c, k=k).z for k in range(1, LAST + 1)])


def outside(name: str, c: float, iterations: int, centres: int) -> dict[str, Any]:
    """Return the largest violation of the constraints of the triangle by the iterates of runs from k = 1.

    The violation of a point is its smallest barycentric coordinate, if that is negative, without its sign.
    """
    C = find_problem("triangle").C
    runs = [
        ProblemInstance(Quadratic(np.eye(2), [a, b]), C, np.array([0.0, 1.0]), None, "")
        for a in np.linspace(-1.0, 1.0, centres)
        for b in np.linspace(-0.3, 0.9, centres)
    ]
    worst = 0.0
    for problem in runs:
        points: list[Array] = []
        options = {"method": name, "schedule": OpenLoop(c=c, k0=1)}
        solve(problem, iterations, callback=lambda state, points=points: points.append(state.x), **options)
        u, v = np.stack(points).T
        worst = max(worst, float(-np.stack([v, (1 - v + u) / 2, (1 - v - u) / 2]).min()))
    return {"violation": worst}


def tasks(settings: Settings) -> list[Task]:
    shared = {"c": settings.c, "iterations": settings.iterations, "centres": settings.centres}
    runs = [Task(f"outside-{name}", outside, {"name": name, **shared}) for name in tableaus]
    return [Task("norms", certificates, {"c": settings.c}), *runs]


def _from(holds: Array) -> str:
    """Return the k from which a condition holds up to `LAST`, as text."""
    return "never" if not holds[-1] else f"k ≥ {1 + (int(np.flatnonzero(~holds)[-1]) + 1 if not holds.all() else 0)}"


def findings(settings: Settings, results: Results) -> Findings:
    rows, compared = [], []
    violation = {name: float(results[f"outside-{name}"]["violation"][0]) for name in tableaus}
    # The smallest slack of the two conditions over k, by tableau.
    paper, needed = {}, {}
    for name, tableau in tableaus.items():
        certificate = tableau.certificate(c=settings.c, k=1)
        since = certificate.feasible_from
        values = ("  ".join(f"{z:.4f}" for z in zs) or "-" for zs in (certificate.z, PRINTED.get((name, 1), ())))
        certified = "never" if since is None else f"k ≥ {since}"
        rows.append((name, str(tableau.order), *values, certified, "yes" if certificate.stages_feasible else "no"))
        z = _z(name, settings.c)
        slack = {"paper": np.minimum(z, 1 - z).min(axis=1), "needed": np.minimum(z.min(axis=1), 1 - z.mean(axis=1))}
        paper[name], needed[name] = (float(values.min()) for values in slack.values())
        each = [_from(values >= -1e-12) for values in slack.values()]
        differ = "yes" if each[0] != each[1] else "no"
        compared.append((label(name), f"{z.max():.4f}", f"{z.min():.4f}", *each, differ, f"{violation[name]:.2g}"))
    differences = {
        (name, k): float(np.abs(find_tableau(name).certificate(c=2.0, k=k).z - z).max())
        for (name, k), z in PRINTED.items()
    }
    header = ("tableau", "order", "z", "z in the paper", "certified for", "stage points certified at k = 1")
    falling = {name: float((column[1:] / column[:-1]).max()) for name, column in results["norms"].items()}
    accepted = {name for name in tableaus if needed[name] >= -1e-12}
    by_paper = {name for name in tableaus if paper[name] >= -1e-12}
    number = (
        f"largest violation of the constraints in {settings.centres**2} runs of {settings.iterations} steps on the "
        "triangle: the smallest barycentric coordinate of an iterate, without its sign, or 0"
    )
    return Findings(
        summary="A step is a convex combination of the current point and the vertices of its stages if z ≥ 0 and the "
        "mean of z is at most 1. If all steps have this property, no iterate leaves the set. Stage points may "
        "leave it. The paper requires 0 ≤ z ≤ 1 instead. This is sufficient, but not necessary: the mean of z is the "
        "sum of the weights p of the vertices, and only this sum must not exceed 1. This report and the warnings of "
        "fwflow use z ≥ 0 and mean z ≤ 1, because it accepts every tableau that is safe on every set. Section 3.1 "
        "says that consistency (weights β with the sum 1) implies feasibility. Midpoint is consistent, and its "
        "iterates leave the set.",
        data=["The triangle is defined by its vertices and needs no data."],
        tables=[
            ResultTable(f"z at k = 1, c = {settings.c:g}", header, rows),
            ResultTable(
                f"The two conditions for k = 1, ..., {LAST}, c = {settings.c:g}",
                (
                    "tableau",
                    "largest z",
                    "smallest z",
                    "0 ≤ z ≤ 1",
                    "z ≥ 0 and mean z ≤ 1",
                    "conditions differ",
                    "largest violation in runs",
                ),
                compared,
                "The runs minimise f = ‖x - a‖²/2 over the triangle for points a on a grid, from the vertex (0, 1), "
                f"with steps counted from k = 1. The violation is {number.partition(': ')[2]}.",
            ),
        ],
        claims=[
            Claim(
                "The certificates z have the printed values",
                "Appendix A",
                AS_PRINTED,
                tuple(Case(f"{label(name)}, k = {k}", d) for (name, k), d in differences.items()),
                "largest difference from the printed values",
            ),
            Claim(
                "The largest entry of z decreases with k",
                "Appendix A",
                FALLS,
                cases(falling),
                "ratio of the largest entry at k + 1 to the largest entry at k; its maximum over k = 1, ..., "
                f"{LAST - 1}",
            ),
            Claim(
                "Consistency implies feasibility",
                "Section 3.1",
                INSIDE,
                cases(violation),
                number,
                every=True,
                note="All tableaus of the catalogue are consistent: A is strictly lower triangular and the weights β "
                "have the sum 1.",
            ),
            Claim(
                "The methods of the paper satisfy 0 ≤ z ≤ 1",
                "Appendix C, proposition",
                CONDITION,
                cases({name: paper[name] for name in (MIDPOINT, RK44, RK38, RK5) if name in paper}),
                f"smallest entry of z and of 1 - z for k = 1, ..., {LAST}",
            ),
            Claim(
                "If 0 ≤ z ≤ 1 for all k ≥ 1, the iterates stay in the set",
                "Appendix C, proposition",
                INSIDE,
                cases({name: violation[name] for name in tableaus if name in by_paper}),
                number,
                every=True,
            ),
            Claim(
                "If z ≥ 0 and the mean of z is at most 1 for all k ≥ 1, the iterates stay in the set, also if some "
                "entries of z exceed 1",
                "",
                INSIDE,
                cases({name: violation[name] for name in tableaus if name in accepted - by_paper}),
                number,
                every=True,
            ),
        ],
    )
