"""Which method for this problem? One table of rules, from which the choice and the documentation are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fwflow.methods.problem import Problem
from fwflow.methods.restricted.spectrum import correctable
from fwflow.points.point import Point


class Choice(str):
    """The name of a method that ran, and why it was chosen."""

    why: str

    def __new__(cls, name: str, why: str) -> Choice:
        choice = super().__new__(cls, name)
        choice.why = why
        return choice

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.why


@dataclass(frozen=True)
class Rule:
    """Candidates for the problems that it applies to, in order of preference, and in words for which and why."""

    candidates: tuple[str, ...]
    objective: str
    constraint: str
    why: str
    applies: Callable[[Problem, Point], bool]


def _projects(problem: Problem, x: Point) -> bool:
    return not x.factored and problem.constraint.project(x.x) is not None


def _boxed(problem: Problem, x: Point) -> bool:
    return not x.factored and problem.constraint.bounds(x.x.shape) is not None


def _correctable(problem: Problem, x: Point) -> bool:
    return not x.factored and problem.model(x) is not None


def _wide(problem: Problem, x: Point) -> bool:
    image_map = problem.objective.image_map
    return image_map is not None and math.prod(x.x.shape) >= _WIDE * image_map.size


def _far(problem: Problem, x: Point) -> bool:
    return problem.objective.data_cost.remote


# From so many columns per row on, passes over the data cost more than correcting the weights of a sparse solution.
_WIDE = 10

#: The first that applies is taken.
RULES = (
    Rule(
        ("corrective",),
        "matrix completion",
        "nuclear ball, spectraplex, spectrahedron",
        "corrections within the span of the factors need few passes over the data",
        lambda p, x: x.factored and correctable(p),
    ),
    Rule(
        ("apg", "flow"),
        "linear model, quadratic, or hess_product given",
        "box",
        "projections onto a box cost nothing, and Newton's method on the entries that move goes on where they crawl",
        lambda p, x: _boxed(p, x) and _correctable(p, x),
    ),
    Rule(
        ("corrective", "apg", "blended-pairwise"),
        "squared loss, ten times as many columns as rows; any linear model of data on disk or on a cluster",
        "with a projection",
        "passes over the data are what costs, and corrective steps need few",
        lambda p, x: _projects(p, x) and _correctable(p, x) and (_far(p, x) or (_wide(p, x) and p.objective.quadratic)),
    ),
    Rule(
        ("apg", "corrective", "blended-pairwise"),
        "any other, black boxes too",
        "with a projection",
        "projected steps find the support, corrective steps its values",
        _projects,
    ),
    Rule(
        ("blended-pairwise",),
        "matrix completion",
        "any other",
        "steps that move weight between vertices need gradients and the oracle alone",
        lambda p, x: x.factored,
    ),
    Rule(
        ("corrective", "blended-pairwise"),
        "any other, black boxes too",
        "without a projection",
        "weights are corrected at the price of one pass over the data, or of a gradient or two",
        lambda p, x: True,
    ),
)


def choose(problem: Problem, x: Point) -> tuple[tuple[str, ...], str]:
    """What ``method="auto"`` runs from a starting point: the candidates, and why the first of them."""
    rule = next(rule for rule in RULES if rule.applies(problem, x))
    return rule.candidates, rule.why


def advice(problem: Problem, x: Point, ran: str) -> str:
    """What would help a run of a black box that crawls: a method, a derivative, or a property of the set."""
    C, (names, _) = problem.constraint, choose(problem, x)
    better = [name for name in names if name != ran]
    helps = []
    if ran not in names:
        helps.append(f'method="{names[0]}", which runs if method is left alone')
    elif better:
        helps.append(" or ".join(f'method="{name}"' for name in better))
    if problem.model(x) is None:
        helps.append(
            "second derivatives, Smooth(..., hess_product=...), for exact corrections of the weights of vertices"
        )
    if C.project(x.x) is None:
        helps.append("a projection, which is the member project of a set, for accelerated projected steps")
    if not C.polytope:
        helps.append('if the set is a polytope, polytope = True on it, for method="flow"')
    return f"{_CRAWLS} What would help: {'; '.join(helps) or 'a better scaled function'}."


_CRAWLS = "Over the last third of the oracle calls the gap has not fallen tenfold."


def rules_table() -> str:
    """The rules as a table in Markdown."""
    rows = [f"| {r.objective} | {r.constraint} | {_listed(r, '`')} | {r.why} |" for r in RULES]
    return "\n".join(["| objective | set | first, and if that crawls | because |", "|---|---|---|---|", *rows])


def _listed(rule: Rule, mark: str = "") -> str:
    return ", ".join(f'{mark}"{name}"{mark}' for name in rule.candidates)
