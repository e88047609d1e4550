"""Table of the methods: name, description, constructor, options and requirements.

`minimize`, `fwflow list` and the figures read this table. Tableaus are methods too, with entries made from the
catalogue of tableaus.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from fwflow._validation import InputError
from fwflow.methods.active import AwayStep, Blended, BlendedPairwise, Corrective, DecompositionInvariant, Pairwise
from fwflow.methods.base import Method
from fwflow.methods.block import BlockCoordinate
from fwflow.methods.difference import DifferenceSteps
from fwflow.methods.exact_flow import ExactBoxFlow, ExactFlow
from fwflow.methods.multistep import LazyFrankWolfe, Multistep
from fwflow.methods.newton_flow import BoxNewton, FlowNewton
from fwflow.methods.problem import Problem
from fwflow.methods.projected import AcceleratedProjectedGradient
from fwflow.methods.sliding import GradientSliding
from fwflow.methods.span import SpanCorrective
from fwflow.methods.stochastic import Stochastic
from fwflow.methods.switching import Switching
from fwflow.methods.working_set import WorkingSet
from fwflow.points.point import Point
from fwflow.steps.boosted import Boosted
from fwflow.steps.searches import ExactSearch
from fwflow.tableau.catalogue import COLOURS, LABELS, TableauName, find_tableau, tableaus
from fwflow.tableau.scheme import Tableau

#: Names of all methods for type checkers and editors, which complete them; a test compares them with the table.
MethodName = (
    Literal[
        "auto",
        "fw",
        "away",
        "pairwise",
        "blended-pairwise",
        "lazy-away",
        "lazy-pairwise",
        "lazy-blended-pairwise",
        "blended",
        "corrective",
        "difference-of-convex",
        "apg",
        "working-set",
        "polished",
        "flow",
        "decomposition-invariant",
        "sliding",
        "block",
        "stochastic",
        "lazy-fw",
        "boosted",
    ]
    | TableauName
)

SCHEDULE, LINE_SEARCH, MOMENTUM = "schedule", "line_search", "momentum"


@dataclass(frozen=True)
class MethodEntry:
    """Entry of one method."""

    #: One line for lists.
    summary: str
    #: Name in figures and tables.
    label: str
    #: ``make(problem, x, **options) -> Method``, where the options are given arguments of `minimize` in `takes`.
    make: Callable[..., Method]
    #: Arguments of `minimize` that belong to the method.
    takes: tuple[str, ...] = ()
    #: Requirements on the set or the objective; empty if there are none.
    needs: str = ""
    #: Index in the palette of figures, for methods that always have the same colour.
    colour: int | None = None
    #: Constructor for a start at any point, if `make` returns a method that must start at a special point.
    begin_anywhere: Callable[..., Method] | None = None


def _of(kind: Callable[..., Method], **defaults: Any) -> Callable[..., Method]:
    """Return a constructor of methods of one class; the options that were given replace its defaults."""
    return lambda problem, x, **options: kind(**defaults | options)


def _corrective(problem: Problem, x: Point) -> Method:
    return SpanCorrective() if x.factored else Corrective()


def _flow(problem: Problem, x: Point) -> Method:
    """Return the method that follows the flow of this objective over this set."""
    f, C = problem.objective, problem.constraint
    if x.factored or not C.polytope:
        raise InputError(
            f"following the flow needs a polytope of vectors, and {C!r} is not known to be one; "
            "if your own set is a polytope, set polytope = True"
        )
    box = C.bounds(x.x.shape) is not None
    if f.quadratic:
        return ExactBoxFlow() if box else ExactFlow()
    if problem.model(x) is None:
        raise InputError(
            "following the flow needs second derivatives: give Smooth(..., hess_product=...), or use another method"
        )
    return BoxNewton() if box else FlowNewton()


def tableau_entry(tableau: Tableau, name: str) -> MethodEntry:
    """Return the entry of a tableau with a name."""
    summary = f"tableau with {tableau.stages} stage{'s' * (tableau.stages > 1)}, of order {tableau.order}"
    return MethodEntry(
        summary,
        LABELS.get(name, name),
        _of(Multistep, tableau=tableau),
        (SCHEDULE, LINE_SEARCH, MOMENTUM),
        colour=COLOURS.get(name),
    )


# Name, label, class and summary of the methods that also have a lazy variant.
_ACTIVE_SET = (
    ("away", "Away-step", AwayStep, "active set of vertices; steps toward the best vertex or away from the worst"),
    ("pairwise", "Pairwise", Pairwise, "active set of vertices; moves weight from the worst vertex to the best"),
    (
        "blended-pairwise",
        "Blended pairwise",
        BlendedPairwise,
        "pairwise steps among the known vertices while they promise enough progress, else toward a new vertex",
    ),
)

#: The methods that are not tableaus, by name. The automatic choice is not an entry, because it chooses among them.
VARIANTS: Mapping[str, MethodEntry] = MappingProxyType(
    {
        **{name: MethodEntry(text, label, _of(kind), (LINE_SEARCH,)) for name, label, kind, text in _ACTIVE_SET},
        **{
            f"lazy-{name}": MethodEntry(
                f"{name}, with an oracle call only if no known vertex promises enough progress",
                f"{label}, lazy",
                _of(kind, lazy=True),
                (LINE_SEARCH,),
            )
            for name, label, kind, _ in _ACTIVE_SET
        },
        "blended": MethodEntry(
            "blended conditional gradients: gradient steps on the weights of the known vertices, else a new vertex",
            "Blended",
            _of(Blended),
            (LINE_SEARCH,),
        ),
        "corrective": MethodEntry(
            "adds several vertices per pass over the data and corrects all weights by Newton's method",
            "Corrective",
            _corrective,
        ),
        "apg": MethodEntry(
            "accelerated projected gradient",
            "Projected gradient",
            _of(AcceleratedProjectedGradient),
            needs="a set with a projection",
        ),
        "working-set": MethodEntry(
            "projected and Newton steps on a working set of columns, between passes over all columns",
            "Working set",
            _of(WorkingSet),
            needs="a linear model or quadratic; a set with a projection",
        ),
        "polished": MethodEntry(
            "apg until x is sparse, then corrective",
            "Polished",
            _of(
                Switching,
                names=("apg", "corrective"),
                candidates=(AcceleratedProjectedGradient(), Corrective()),
                once=True,
            ),
            needs="a set with a projection",
        ),
        "flow": MethodEntry(
            "the Frank-Wolfe flow, followed from event to event",
            "The flow itself",
            _flow,
            needs="a polytope; second derivatives",
            begin_anywhere=_of(BoxNewton),  # the exact flow on a box starts at a corner
        ),
        "decomposition-invariant": MethodEntry(
            "pairwise steps without an active set",
            "Decomposition-invariant",
            _of(DecompositionInvariant),
            needs="a set that provides the minimal face of a point",
        ),
        "sliding": MethodEntry(
            "conditional gradient sliding: fewer gradients, more oracle calls",
            "Gradient sliding",
            _of(GradientSliding),
        ),
        "block": MethodEntry(
            "one block per step, at the cost of the columns of the block",
            "Block-coordinate",
            _of(BlockCoordinate),
            (LINE_SEARCH,),
            needs="a product of sets",
        ),
        "stochastic": MethodEntry(
            "gradients from batches of rows; the final gap is verified",
            "Stochastic",
            _of(Stochastic),
            needs="an objective that is a mean over rows",
        ),
        "difference-of-convex": MethodEntry(
            "convex subproblems for f - g, in which g is linear, and boosted steps",
            "Difference of convex",
            _of(DifferenceSteps),
        ),
        "lazy-fw": MethodEntry(
            "Frank-Wolfe with a cache of vertices, for oracles that cost more than gradients",
            "FW, lazy",
            _of(LazyFrankWolfe),
            (SCHEDULE, LINE_SEARCH),
        ),
        "boosted": MethodEntry(
            "Frank-Wolfe along a mixture of vertices that is better aligned with the gradient",
            "Boosted",
            _of(Multistep, tableau=tableaus["euler"], line_search=ExactSearch(), momentum=Boosted()),
            (SCHEDULE, LINE_SEARCH),
        ),
    }
)

#: Every method by name, tableaus first.
METHODS: Mapping[str, MethodEntry] = MappingProxyType(
    {name: tableau_entry(find_tableau(name), name) for name in ("fw", *tableaus)} | dict(VARIANTS)
)

AUTO = "auto"
AUTO_SUMMARY = "chooses by the capabilities of the objective and the set, and switches when progress is slow"
