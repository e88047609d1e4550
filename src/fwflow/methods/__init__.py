"""Which method? Names, tableaus and objects, resolved in one place."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from fwflow._validation import InputError
from fwflow.methods.active import AwayStep, BlendedPairwise, Pairwise
from fwflow.methods.auto import Choice, choose
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.blended import Blended
from fwflow.methods.block import BlockCoordinate
from fwflow.methods.corrective import Corrective
from fwflow.methods.exact_flow import ExactBoxFlow, ExactFlow
from fwflow.methods.invariant import DecompositionInvariant
from fwflow.methods.lazy import LazyFrankWolfe
from fwflow.methods.multistep import Multistep
from fwflow.methods.newton_flow import BoxNewton, FlowNewton
from fwflow.methods.polished import Polished
from fwflow.methods.problem import Problem
from fwflow.methods.projected import AcceleratedProjectedGradient
from fwflow.methods.sliding import GradientSliding
from fwflow.methods.span import SpanCorrective
from fwflow.methods.stochastic import Stochastic
from fwflow.methods.switching import Switching
from fwflow.points.point import Point
from fwflow.steps.boosted import Boosted
from fwflow.steps.momentum import Momentum, find_momentum
from fwflow.steps.schedules import OpenLoop, Schedule
from fwflow.steps.searches import ExactSearch, LineSearch, find_line_search
from fwflow.tableau.catalogue import find_tableau, tableaus
from fwflow.tableau.scheme import Tableau

__all__ = [
    "DEFAULT_SCHEDULE",
    "BlockCoordinate",
    "Boosted",
    "Iterate",
    "LazyFrankWolfe",
    "Method",
    "Multistep",
    "Proposal",
    "Request",
    "Stochastic",
    "UncertifiedWarning",
    "find_method",
    "methods",
]


#: Methods with an active set of vertices, by name; they take any line search.
ACTIVE_SET: Mapping[str, Callable[..., Method]] = MappingProxyType(
    {
        "away": AwayStep,
        "pairwise": Pairwise,
        "blended-pairwise": BlendedPairwise,
        "lazy-away": partial(AwayStep, lazy=True),
        "lazy-pairwise": partial(Pairwise, lazy=True),
        "lazy-blended-pairwise": partial(BlendedPairwise, lazy=True),
        "blended": Blended,
    }
)

#: Methods that find their own step lengths, by name.
SELF_STEPPING: Mapping[str, Callable[[Problem, Point], Method]] = MappingProxyType(
    {
        "corrective": lambda problem, x: SpanCorrective() if x.factored else Corrective(),
        "apg": lambda problem, x: AcceleratedProjectedGradient(),
        "polished": lambda problem, x: Polished(),
        "flow": lambda problem, x: _flow(problem, x),
        "decomposition-invariant": lambda problem, x: DecompositionInvariant(),
        "sliding": lambda problem, x: GradientSliding(),
        "block": lambda problem, x: BlockCoordinate(),
        "stochastic": lambda problem, x: Stochastic(),
    }
)

#: Variants of Frank-Wolfe that, as objects, go with any tableau, by name.
STAGED: Mapping[str, Callable[..., Method]] = MappingProxyType(
    {
        "lazy-fw": partial(LazyFrankWolfe, tableaus["euler"]),
        "boosted": lambda schedule, search: Multistep(tableaus["euler"], schedule, search or ExactSearch(), Boosted()),
    }
)

#: Names of all methods that are no tableaus.
methods: tuple[str, ...] = ("auto", *ACTIVE_SET, *SELF_STEPPING, *STAGED)

#: What runs unless told otherwise; passing another schedule, even an equal one, asks for a tableau.
DEFAULT_SCHEDULE = OpenLoop()


class UncertifiedWarning(UserWarning):
    """The chosen tableau does not guarantee that every iterate stays in the set."""


@dataclass(frozen=True)
class Request:
    """How `minimize` was asked to step, checked but not yet resolved."""

    method: str | Tableau | Method
    schedule: Schedule
    search: LineSearch | None
    momentum: Momentum | None
    name: str

    @classmethod
    def checked(cls, method: Any, schedule: Any, line_search: Any, momentum: Any) -> Request:
        """From arguments as users give them."""
        if not isinstance(schedule, Schedule):
            raise InputError(f"schedule must be a Schedule such as OpenLoop(c=2.0); got {schedule!r}")
        name = method if isinstance(method, str) else ""
        if isinstance(method, str) and method not in methods:
            method = find_tableau(method, others=methods)
        if not isinstance(method, str | Tableau | Method):
            raise InputError(f"method must be a name, a Tableau or a Method; got {method!r}")
        name = name or (method.name if isinstance(method, Tableau) else type(method).__name__)
        return cls(method, schedule, find_line_search(line_search), find_momentum(momentum), name)

    @property
    def plain(self) -> bool:
        """Whether no schedule, line search or momentum is asked for."""
        return self.schedule is DEFAULT_SCHEDULE and self.search is None and self.momentum is None


_ASKED = "it was asked for"


def find_method(request: Request, problem: Problem, x: Point) -> tuple[Method, Choice]:
    """The method that runs, and its name. ``"auto"`` with a schedule, line search or momentum is "fw" with those."""
    method = request.method
    if isinstance(method, Method):
        if not request.plain:
            raise InputError(
                "schedule, line_search and momentum belong to tableaus; give them to the method object instead"
            )
        return method, Choice(request.name, _ASKED)
    choice = Choice(request.name, _ASKED)
    if method == "auto":
        if request.plain:
            names, why = choose(problem, x)
            candidates = tuple(_candidate(name, request, problem, x) for name in names)
            return candidates[0] if len(names) == 1 else Switching(names, candidates), Choice(names[0], why)
        choice = Choice("fw", "a schedule, line search or momentum was asked for, which belong to tableaus")
    if choice in STAGED:
        if request.momentum is not None:
            raise InputError(f"momentum belongs to tableaus; method={choice!r} has its own way to choose where to aim")
        return STAGED[choice](request.schedule, request.search), choice
    if choice in ACTIVE_SET or choice in SELF_STEPPING:
        return _named(choice, request, problem, x), choice
    tableau = method if isinstance(method, Tableau) else find_tableau(choice)
    if not request.schedule.certifies(tableau):
        warnings.warn(
            f"tableau {tableau.name!r} is not certified for {request.schedule}: iterates may leave the set. "
            "The result's feasible field tells whether the returned point did.",
            UncertifiedWarning,
            stacklevel=3,
        )
    return Multistep(tableau, request.schedule, request.search, request.momentum), choice


def _candidate(name: str, request: Request, problem: Problem, x: Point) -> Method:
    """The method of that name, where it may have to begin at any point: the exact flow on a box begins at a corner."""
    return BoxNewton() if name == "flow" else _named(name, request, problem, x)


def _named(name: str, request: Request, problem: Problem, x: Point) -> Method:
    """The method of that name, which is not a tableau's."""
    if request.momentum is not None or request.schedule is not DEFAULT_SCHEDULE:
        raise InputError(f"momentum and schedule belong to tableaus; method={name!r} has none")
    if name in ACTIVE_SET:
        return ACTIVE_SET[name]() if request.search is None else ACTIVE_SET[name](request.search)
    if request.search is not None:
        raise InputError(f"line_search belongs to other methods; method={name!r} finds its own lengths")
    return SELF_STEPPING[name](problem, x)


def _flow(problem: Problem, x: Point) -> Method:
    """How to follow the flow of this objective over this set."""
    f, C = problem.objective, problem.constraint
    if x.factored or not C.polytope:
        raise InputError(
            f'method="flow" needs a polytope of vectors, and {C!r} is not known to be one; '
            "a set of your own says so by polytope = True"
        )
    box = C.bounds(x.x.shape) is not None
    if f.quadratic:
        return ExactBoxFlow() if box else ExactFlow()
    if problem.model(x) is None:
        raise InputError(
            'method="flow" needs second derivatives: give Smooth(..., hess_product=...), or use method="corrective"'
        )
    return BoxNewton() if box else FlowNewton()
