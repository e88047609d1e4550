"""Rules by which ``method="auto"`` chooses methods for a problem."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fwflow.methods.problem import Problem
from fwflow.points.point import Point

# Number of columns that memory must have room for, if working sets are to be used on data outside of memory. Chosen
# without tuning.
_ROOM = 200


class Choice(str):
    """Name of the method that ran, with the reason `why` it was chosen."""

    why: str

    def __new__(cls, name: str, why: str) -> Choice:
        choice = super().__new__(cls, name)
        choice.why = why
        return choice

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.why


@dataclass(frozen=True)
class Rule:
    """Methods in order of preference, a description of the objectives and sets, the reason, and the condition."""

    candidates: tuple[str, ...]
    objective: str
    constraint: str
    why: str
    applies: Callable[[Problem, Point], bool]


def _projects(problem: Problem, x: Point) -> bool:
    return not x.factored and problem.constraint.projection(x.x.shape) is not None


def _correctable(problem: Problem, x: Point) -> bool:
    return not x.factored and problem.model(x) is not None


def _restricts(problem: Problem, x: Point) -> bool:
    """Return whether projected steps on a working set apply, and memory has room for its columns."""
    room = problem.objective.data_cost.most_columns
    return _projects(problem, x) and problem.objective.restrictable and (room is None or room >= _ROOM)


#: The first rule that applies is used.
RULES = (
    Rule(
        ("difference-of-convex",),
        "difference of convex functions",
        "any set",
        "the convex subproblems have certified gaps, and each of them decreases the difference",
        lambda p, x: p.objective.difference is not None,
    ),
    Rule(
        ("corrective",),
        "matrix completion",
        "nuclear ball, spectraplex or spectrahedron",
        "corrective steps within the span of the factors of x need few passes over the data",
        lambda p, x: x.factored and p.objective.completion is not None and p.constraint.spectrum is not None,
    ),
    Rule(
        ("working-set", "flow"),
        "linear model or quadratic, if a working set of columns fits into memory",
        "box",
        "projected steps are cheap on a box; if they converge slowly, Newton steps follow, on the entries that are not "
        "at a bound",
        lambda p, x: _restricts(p, x) and p.constraint.bounds(x.x.shape) is not None,
    ),
    Rule(
        ("working-set", "corrective", "blended-pairwise"),
        "linear model or quadratic, if a working set of columns fits into memory",
        "any set with a projection",
        "projected and Newton steps on a working set of columns need few passes over all columns",
        _restricts,
    ),
    Rule(
        ("apg", "flow"),
        "any other objective with second derivatives, such as ``Smooth(..., hess_product=...)``",
        "box",
        "projected steps are cheap on a box; if they converge slowly, Newton steps follow, on the entries that are not "
        "at a bound",
        lambda p, x: _projects(p, x) and p.constraint.bounds(x.x.shape) is not None and _correctable(p, x),
    ),
    Rule(
        ("corrective", "apg", "blended-pairwise"),
        "linear model of data on disk or on a cluster, if a working set of columns does not fit into memory",
        "any set with a projection",
        "passes over the data are the main cost, and corrective steps need few of them",
        lambda p, x: _projects(p, x) and _correctable(p, x) and p.objective.data_cost.remote,
    ),
    Rule(
        ("apg", "corrective", "blended-pairwise"),
        "any other objective, also black boxes",
        "any set with a projection",
        "projected steps find the nonzero coefficients, and corrective steps find their values",
        _projects,
    ),
    Rule(
        ("blended-pairwise",),
        "matrix completion",
        "any other set",
        "steps that move weight between vertices need only gradients and the oracle",
        lambda p, x: x.factored,
    ),
    Rule(
        ("corrective", "blended-pairwise"),
        "any other objective, also black boxes",
        "any set without a projection",
        "an optimisation of all weights of the active set costs one pass over the data, or a few gradients",
        lambda p, x: True,
    ),
)


def choose(problem: Problem, x: Point) -> Rule:
    """Return the rule by which ``method="auto"`` chooses methods from a starting point."""
    return next(rule for rule in RULES if rule.applies(problem, x))


def advice(problem: Problem, x: Point, ran: str) -> str:
    """Return advice for a slow run of a black box: a method, a derivative, or a property of the set."""
    C, names = problem.constraint, choose(problem, x).candidates
    better = [name for name in names if name != ran]
    helps = []
    if ran not in names:
        helps.append(f'use method="{names[0]}", the default for this problem')
    elif better:
        helps.append("use " + " or ".join(f'method="{name}"' for name in better))
    if problem.model(x) is None:
        helps.append("give second derivatives, Smooth(..., hess_product=...)")
    if C.projection(x.x.shape) is None:
        helps.append("use a set with a projection (`project`), which allows accelerated projected steps")
    if not C.polytope:
        helps.append('if the set is a polytope, set its member polytope = True, which allows method="flow"')
    slow = "The gap fell by less than a factor of 10 in the last third of the oracle calls."
    return f"{slow} To converge faster, {'; or '.join(helps) or 'scale the function better'}."
