"""Which method? Names, tableaus and objects, resolved in one place."""

from __future__ import annotations

import warnings
from typing import Any

from fwflow.methods.active import AwayStep, BlendedPairwise, Pairwise
from fwflow.methods.base import Method, Proposal
from fwflow.methods.corrective import Corrective
from fwflow.methods.multistep import Multistep
from fwflow.methods.projected import AcceleratedProjectedGradient
from fwflow.momentum import Momentum, find_momentum
from fwflow.steps import LineSearch, Schedule, find_line_search
from fwflow.tableaus import Tableau, find_tableau

__all__ = ["Method", "Multistep", "Proposal", "UncertifiedWarning", "find_method"]


#: Methods with an active set of vertices, by name.
ACTIVE_SET = {"away": AwayStep, "pairwise": Pairwise, "blended-pairwise": BlendedPairwise}

#: Methods that find their own step lengths, by name.
CORRECTING = {"corrective": Corrective, "apg": AcceleratedProjectedGradient}

#: Promised, not there yet.
PLANNED = ("flow",)


class UncertifiedWarning(UserWarning):
    """The chosen tableau does not guarantee that every iterate stays in the set."""


def find_method(
    method: str | Tableau | Method,
    schedule: Schedule,
    line_search: str | LineSearch | None,
    momentum: str | Momentum | None,
) -> Method:
    """The method that `minimize` runs. ``"auto"`` is plain Frank-Wolfe."""
    if not isinstance(schedule, Schedule):
        raise ValueError(f"schedule must be a Schedule such as OpenLoop(c=2.0); got {schedule!r}")
    search, momentum_object = find_line_search(line_search), find_momentum(momentum)
    if isinstance(method, str) and method in PLANNED:
        raise NotImplementedError(f"method={method!r} belongs to a later release; see fw.tableaus for what there is")
    if isinstance(method, str) and (method in ACTIVE_SET or method in CORRECTING):
        if momentum_object is not None:
            raise ValueError(f"momentum belongs to tableaus; method={method!r} has none")
        if method in ACTIVE_SET:
            return ACTIVE_SET[method]() if search is None else ACTIVE_SET[method](search)
        if search is not None:
            raise ValueError(f"line_search belongs to other methods; method={method!r} finds its own lengths")
        return CORRECTING[method]()
    if isinstance(method, str):
        method = find_tableau("fw" if method == "auto" else method)
    if not isinstance(method, Tableau):
        if not (hasattr(method, "init") and hasattr(method, "step")):
            raise ValueError(f"method must be a name, a Tableau, or have methods init and step; got {method!r}")
        return _bare(method, search, momentum_object)
    if not schedule.certifies(method):
        warnings.warn(
            f"tableau {method.name!r} is not certified for {schedule}: iterates may leave the set. "
            "The result's feasible field tells whether the returned point did.",
            UncertifiedWarning,
            stacklevel=3,
        )
    return Multistep(method, schedule, search, momentum_object)


def _bare(method: Any, line_search: object, momentum: object) -> Method:
    if line_search is not None or momentum is not None:
        raise ValueError("line_search and momentum belong to tableaus; give them to the method object instead")
    return method
