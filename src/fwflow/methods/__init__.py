"""Which method? Names, tableaus and objects, resolved in one place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from fwflow.methods.active import AwayStep, BlendedPairwise, Pairwise
from fwflow.methods.base import Method, Proposal
from fwflow.methods.corrective import Corrective
from fwflow.methods.exact import find_flow
from fwflow.methods.multistep import Multistep
from fwflow.methods.polished import Polished
from fwflow.methods.projected import AcceleratedProjectedGradient
from fwflow.methods.span import SpanCorrective
from fwflow.momentum import Momentum, find_momentum
from fwflow.objectives.base import Objective
from fwflow.sets.base import ConstraintSet
from fwflow.sets.matrices import NuclearBall
from fwflow.steps import LineSearch, OpenLoop, Schedule, find_line_search
from fwflow.tableaus import Tableau, find_tableau

__all__ = ["Method", "Multistep", "Proposal", "UncertifiedWarning", "find_method"]


#: Methods with an active set of vertices, by name; they take any line search.
ACTIVE_SET: dict[str, Callable[..., Method]] = {
    "away": AwayStep,
    "pairwise": Pairwise,
    "blended-pairwise": BlendedPairwise,
    "lazy-away": partial(AwayStep, lazy=True),
    "lazy-pairwise": partial(Pairwise, lazy=True),
    "lazy-blended-pairwise": partial(BlendedPairwise, lazy=True),
}

#: Methods that find their own step lengths, by name.
SELF_STEPPING: dict[str, Callable[[Objective, ConstraintSet], Method]] = {
    "corrective": lambda f, C: SpanCorrective() if f.factored else Corrective(),
    "apg": lambda f, C: AcceleratedProjectedGradient(),
    "polished": lambda f, C: Polished(),
    "flow": find_flow,
}

#: What runs unless told otherwise; passing another schedule, even an equal one, asks for a tableau.
DEFAULT_SCHEDULE = OpenLoop()


class UncertifiedWarning(UserWarning):
    """The chosen tableau does not guarantee that every iterate stays in the set."""


def choose(f: Objective, C: ConstraintSet) -> str:
    """What ``method="auto"`` runs.

    ============================  ============================  ====================
    objective                     set                           method
    ============================  ============================  ====================
    linear model, quadratic       with a cheap projection       "polished"
    squared loss, quadratic       other                         "corrective"
    other loss of a linear model  other, dimension up to 1000   "corrective"
    other loss of a linear model  other, more dimensions        "blended-pairwise"
    matrix completion             nuclear ball                  "corrective"
    anything else                 anything else                 "fw"
    ============================  ============================  ====================

    Correcting weights costs the cube of their number, for losses that are not quadratic several times per step.
    """
    if f.factored:
        return "corrective" if isinstance(C, NuclearBall) else "fw"
    if f.image_size is None:
        return "fw"
    if type(f).model is Objective.model:
        return "apg" if C.projectable else "blended-pairwise"
    if C.projectable:
        return "polished"
    return "corrective" if f.quadratic or math.prod(f.shape) <= 1000 else "blended-pairwise"


def find_method(
    method: str | Tableau | Method,
    f: Objective,
    C: ConstraintSet,
    schedule: Schedule,
    line_search: str | LineSearch | None,
    momentum: str | Momentum | None,
) -> Method:
    """The method that `minimize` runs. ``"auto"`` with a schedule, line search or momentum is "fw" with those."""
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule must be a Schedule such as OpenLoop(c=2.0); got {schedule!r}")
    search, average = find_line_search(line_search), find_momentum(momentum)
    if isinstance(method, str):
        if method == "auto":
            plain = schedule is DEFAULT_SCHEDULE and search is None and average is None
            method = choose(f, C) if plain else "fw"
        found = _named(method, f, C, schedule, search, average)
        if found is not None:
            return found
        method = find_tableau(method, others=("auto", *ACTIVE_SET, *SELF_STEPPING))
    if not isinstance(method, Tableau):
        if not (hasattr(method, "init") and hasattr(method, "step")) or isinstance(method, type):
            raise ValueError(f"method must be a name, a Tableau, or have methods init and step; got {method!r}")
        return _bare(method, schedule, search, average)
    if not schedule.certifies(method):
        warnings.warn(
            f"tableau {method.name!r} is not certified for {schedule}: iterates may leave the set. "
            "The result's feasible field tells whether the returned point did.",
            UncertifiedWarning,
            stacklevel=3,
        )
    return Multistep(method, schedule, search, average)


def _named(
    name: str,
    f: Objective,
    C: ConstraintSet,
    schedule: Schedule,
    search: LineSearch | None,
    momentum: Momentum | None,
) -> Method | None:
    """The method of that name, if it is not a tableau's."""
    if name not in ACTIVE_SET and name not in SELF_STEPPING:
        return None
    if momentum is not None or schedule is not DEFAULT_SCHEDULE:
        raise ValueError(f"momentum and schedule belong to tableaus; method={name!r} has none")
    if name in ACTIVE_SET:
        return ACTIVE_SET[name]() if search is None else ACTIVE_SET[name](search)
    if search is not None:
        raise ValueError(f"line_search belongs to other methods; method={name!r} finds its own lengths")
    return SELF_STEPPING[name](f, C)


def _bare(method: Any, schedule: Schedule, line_search: object, momentum: object) -> Method:
    if line_search is not None or momentum is not None or schedule is not DEFAULT_SCHEDULE:
        raise ValueError(
            "schedule, line_search and momentum belong to tableaus; give them to the method object instead"
        )
    return method
