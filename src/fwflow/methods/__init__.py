"""Rules that propose the next point, and the choice of one from the arguments of `minimize`."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

from fwflow._validation import InputError
from fwflow.methods.auto import Choice, choose
from fwflow.methods.base import Iterate, Method, Proposal
from fwflow.methods.block import BlockCoordinate
from fwflow.methods.catalogue import AUTO, VARIANTS, tableau_entry
from fwflow.methods.multistep import LazyFrankWolfe, Multistep
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

#: Schedule of runs without another one. Passing a schedule, even an equal one, selects a tableau.
DEFAULT_SCHEDULE = OpenLoop()


class UncertifiedWarning(UserWarning):
    """Warning that the chosen tableau does not guarantee that every iterate stays in the set.

    See Also
    --------
    Certificate : Feasibility of the steps of a tableau.
    Tableau : Its method ``certificate`` explains the warning.

    Examples
    --------
    >>> import warnings, numpy as np, fwflow as fw
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     r = fw.minimize(fw.Quadratic(np.eye(3)), fw.Simplex(), method="midpoint", tol=1e-2)
    >>> caught[0].category.__name__, r.feasible
    ('UncertifiedWarning', True)
    """


@dataclass(frozen=True)
class Request:
    """Arguments of `minimize` that determine the method, after validation."""

    method: str | Tableau | Method
    schedule: Schedule
    search: LineSearch | None
    momentum: Momentum | None
    name: str

    @classmethod
    def checked(
        cls, method: Any, schedule: Any, line_search: Any, momentum: Any, names: tuple[str, ...] = methods
    ) -> Request:
        """Validate the arguments of a user; `names` are accepted in addition to the names of tableaus."""
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
        """Whether no schedule, line search or momentum was given."""
        return self.schedule is DEFAULT_SCHEDULE and self.search is None and self.momentum is None

    def options(self, name: str, takes: tuple[str, ...]) -> dict[str, Any]:
        """Return the options for the method of that name, or raise an error for an option that it does not take."""
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
                "The field `feasible` of the result says whether the returned point is in the set.",
                UncertifiedWarning,
                stacklevel=stacklevel + 1,
            )


def find_method(request: Request, problem: Problem, x: Point) -> tuple[Method, Choice]:
    """Return the method that runs, and its name with the reason.

    The automatic choice with a schedule, line search or momentum is plain Frank-Wolfe with those.
    """
    method, name, why = request.method, request.name, "the caller chose it"
    if isinstance(method, Method):
        if not request.plain:
            raise InputError(
                "schedule, line_search and momentum belong to tableaus; give them to the method object instead"
            )
        return method, Choice(name, why)
    if method == AUTO and request.plain:
        rule = choose(problem, x)
        entries = [VARIANTS[candidate] for candidate in rule.candidates]
        found = tuple((entry.begin_anywhere or entry.make)(problem, x) for entry in entries)
        return found[0] if len(found) == 1 else Switching(rule.candidates, found), Choice(rule.candidates[0], rule.why)
    if method == AUTO:
        name, why = "fw", "a schedule, line search or momentum was given, and these belong to tableaus"
    if method in VARIANTS:
        entry = VARIANTS[name]
    else:
        tableau = method if isinstance(method, Tableau) else find_tableau(name)
        request.warn_if_uncertified(tableau, stacklevel=3)
        entry = tableau_entry(tableau, name)
    return entry.make(problem, x, **request.options(name, entry.takes)), Choice(name, why)
