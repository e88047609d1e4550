"""Which method for this problem? One table of rules, from which the choice and the documentation are made."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from fwflow.points import Point
from fwflow.problem import Problem


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
    """A method for the problems that it applies to, and in words for which and why."""

    method: str
    objective: str
    constraint: str
    why: str
    applies: Callable[[Problem, Point], bool]


def _projects(problem: Problem, x: Point) -> bool:
    return problem.constraint.project(x.x) is not None


def _small_or_quadratic(problem: Problem, x: Point) -> bool:
    return problem.objective.quadratic or math.prod(x.x.shape) <= 1000


def _curved(problem: Problem, x: Point) -> bool:
    return problem.objective.image_size is not None and problem.model(x) is not None


#: The first that applies is taken.
RULES = (
    Rule(
        "corrective",
        "matrix completion",
        "nuclear ball",
        "corrections within the span of the factors need few passes over the data",
        lambda p, x: x.factored and p.constraint.nuclear_radius is not None,
    ),
    Rule(
        "fw",
        "matrix completion, or no image",
        "any other",
        "values and gradients at single points are all that is known",
        lambda p, x: x.factored or p.objective.image_size is None,
    ),
    Rule(
        "polished",
        "linear model, quadratic",
        "with a projection",
        "projected steps find the support, corrective steps its values",
        lambda p, x: _curved(p, x) and _projects(p, x),
    ),
    Rule(
        "corrective",
        "squared loss or quadratic; other losses up to 1000 dimensions",
        "without a projection",
        "weights are corrected at the price of one pass over the data",
        lambda p, x: _curved(p, x) and _small_or_quadratic(p, x),
    ),
    Rule(
        "apg",
        "no second derivatives",
        "with a projection",
        "accelerated projected steps need nothing else",
        lambda p, x: not _curved(p, x) and _projects(p, x),
    ),
    Rule(
        "blended-pairwise",
        "anything else",
        "without a projection",
        "correcting weights would cost the cube of their number, several times per step",
        lambda p, x: True,
    ),
)


def choose(problem: Problem, x: Point) -> Choice:
    """What ``method="auto"`` runs from a starting point."""
    rule = next(rule for rule in RULES if rule.applies(problem, x))
    return Choice(rule.method, rule.why)


def rules_table() -> str:
    """The rules as a table in Markdown."""
    rows = [f'| {r.objective} | {r.constraint} | `"{r.method}"` | {r.why} |' for r in RULES]
    return "\n".join(["| objective | set | method | because |", "|---|---|---|---|", *rows])


def rules_text(indent: str) -> str:
    """The rules as lines of a docstring."""
    return "\n".join(f'{indent}* "{r.method}": {r.objective} / set {r.constraint}.' for r in RULES)
