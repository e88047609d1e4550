"""Which method? Names, tableaus and objects, resolved in one place."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from fwflow._validation import InputError
from fwflow.methods.auto import Choice, choose
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.block import BlockCoordinate
from fwflow.methods.catalogue import AUTO, VARIANTS, tableau_entry
from fwflow.methods.lazy import LazyFrankWolfe
from fwflow.methods.multistep import Multistep
from fwflow.methods.problem import Problem
from fwflow.methods.stochastic import Stochastic
from fwflow.methods.switching import Switching
from fwflow.points.point import Point
from fwflow.steps.momentum import Momentum, find_momentum
from fwflow.steps.schedules import OpenLoop, Schedule
from fwflow.steps.searches import LineSearch, find_line_search
from fwflow.tableau.catalogue import find_tableau
from fwflow.tableau.scheme import Tableau

__all__ = [
    "DEFAULT_SCHEDULE",
    "BlockCoordinate",
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


#: Names of all methods that are not tableaus.
methods: tuple[str, ...] = (AUTO, *VARIANTS)

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
    def checked(
        cls, method: Any, schedule: Any, line_search: Any, momentum: Any, names: tuple[str, ...] = methods
    ) -> Request:
        """Return the request for arguments as users give them; `names` are the methods that are not tableaus."""
        if not isinstance(schedule, Schedule):
            raise InputError(f"schedule must be a Schedule such as OpenLoop(c=2.0); got {schedule!r}")
        name = method if isinstance(method, str) else ""
        if isinstance(method, str) and method not in names:
            method = find_tableau(method, others=names)
        if not isinstance(method, str | Tableau | Method):
            raise InputError(f"method must be a name, a Tableau or a Method; got {method!r}")
        name = name or (method.name if isinstance(method, Tableau) else type(method).__name__)
        return cls(method, schedule, find_line_search(line_search), find_momentum(momentum), name)

    @property
    def plain(self) -> bool:
        """Whether no schedule, line search or momentum is asked for."""
        return self.schedule is DEFAULT_SCHEDULE and self.search is None and self.momentum is None

    def options(self, name: str, takes: tuple[str, ...]) -> dict[str, Any]:
        """Return the options for the method of that name; raise if it does not take one that was given."""
        given = {"line_search": self.search, "momentum": self.momentum}
        options: dict[str, Any] = {option: value for option, value in given.items() if value is not None}
        if self.schedule is not DEFAULT_SCHEDULE or "schedule" in takes:
            options["schedule"] = self.schedule
        for option in options:
            if option not in takes:
                raise InputError(f"{option} belongs to tableaus and other methods; method={name!r} takes none")
        return options

    def warn_if_uncertified(self, tableau: Tableau, stacklevel: int) -> None:
        """Warn if steps of the tableau with this schedule may leave the set; `stacklevel` counts from the caller."""
        if not self.schedule.certifies(tableau):
            warnings.warn(
                f"tableau {tableau.name!r} is not certified for {self.schedule}: iterates may leave the set. "
                "The result's feasible field tells whether the returned point did.",
                UncertifiedWarning,
                stacklevel=stacklevel + 1,
            )


_ASKED = "it was asked for"
_PREFERRED = "a schedule, line search or momentum was asked for, which belong to tableaus"


def find_method(request: Request, problem: Problem, x: Point) -> tuple[Method, Choice]:
    """Return the method that runs, and its name.

    The automatic choice with a schedule, line search or momentum is plain Frank-Wolfe with those.
    """
    method, name = request.method, request.name
    if isinstance(method, Method):
        if not request.plain:
            raise InputError(
                "schedule, line_search and momentum belong to tableaus; give them to the method object instead"
            )
        return method, Choice(name, _ASKED)
    if method == AUTO and request.plain:
        candidates, why = choose(problem, x)
        found = tuple(VARIANTS[candidate].anywhere(problem, x) for candidate in candidates)
        return found[0] if len(found) == 1 else Switching(candidates, found), Choice(candidates[0], why)
    why = _PREFERRED if method == AUTO else _ASKED
    name = "fw" if method == AUTO else name
    if method in VARIANTS:
        entry = VARIANTS[name]
        return entry.make(problem, x, **request.options(name, entry.takes)), Choice(name, why)
    tableau = method if isinstance(method, Tableau) else find_tableau(name)
    request.warn_if_uncertified(tableau, stacklevel=3)
    entry = tableau_entry(tableau, name)
    return entry.make(problem, x, **request.options(name, entry.takes)), Choice(name, why)
