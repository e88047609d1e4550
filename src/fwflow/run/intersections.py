"""Do two sets meet? Their distance, found and certified by their oracles."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from fwflow._numerics import norm
from fwflow._validation import Array, number, positive, shape_of
from fwflow.methods import BlockCoordinate, Method
from fwflow.objectives import LinearModel
from fwflow.run.loop import minimize
from fwflow.run.result import Result, State
from fwflow.sets import ConstraintSet, Product
from fwflow.sets.callables import as_set
from fwflow.tableau.scheme import Tableau

# How many steps pass between two looks at the gap, which here costs the two oracle calls that a step takes.
_LOOK_EVERY = 4


@dataclass(frozen=True, eq=False)
class Alternation:
    """A point of either of two sets, and what is proved of their distance.

    Attributes
    ----------
    x, y : array
        Members of the first and of the second set.
    distance : float
        Between the two: no less than that of the sets.
    bound : float
        The sets are at least as far apart: zero, or what the gap of the last pair proves.
    met : bool
        Whether x and y are a common point, up to the tolerance.
    apart : bool
        Whether it is proved that there is none.
    result : Result
        Of minimising half of the squared distance over the product of the sets.
    """

    x: Array
    y: Array
    distance: float
    bound: float
    met: bool
    result: Result = field(repr=False)

    @property
    def apart(self) -> bool:
        return self.bound > 0


def alternate(
    C1: ConstraintSet | Callable[[Any], Any],
    C2: ConstraintSet | Callable[[Any], Any],
    *,
    shape: int | tuple[int, ...] | None = None,
    method: str | Tableau | Method | None = None,
    tol: float = 1e-6,
    rtol: float = 1e-2,
    **options: Any,
) -> Alternation:
    r"""A common point of two sets, or a proof that they have none: alternating linear minimisation.

    Half of the squared distance, :math:`f(x, y) = \tfrac12 \|x - y\|^2`, is minimised over the product of the sets,
    in x and in y by turns (Braun, Pokutta & Weismantel, 2022). As f is convex, no two members are closer than
    :math:`\sqrt{2 (f - \mathrm{gap})}`.

    Parameters
    ----------
    C1, C2 : ConstraintSet or callable
        Of vectors; matrices stand row by row, for sets that know their shape.
    shape : int or tuple of int, optional
        Of the members, where neither set knows it.
    method : str, Tableau or Method, optional
        As in `minimize`; by default `BlockCoordinate`.
    tol : float
        At this distance a point counts as a common one.
    rtol : float
        The sets are apart when their distance is proved up to this share of it.
    **options
        ``max_iter``, ``max_time``, ``progress`` and ``state`` of `minimize`.

    Returns
    -------
    Alternation

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> meeting = fw.alternate(fw.Simplex(), fw.L2Ball(0.6), shape=4)
    >>> meeting.met, fw.Simplex().contains(meeting.x), fw.L2Ball(0.6).contains(meeting.y)
    (True, True, True)

    The nearest point of the simplex has norm 1/2:

    >>> apart = fw.alternate(fw.Simplex(), fw.L2Ball(0.4), shape=4, rtol=1e-3)
    >>> apart.apart, round(apart.bound, 2), round(apart.distance, 2)
    (True, 0.1, 0.1)
    """
    first, second = as_set(C1), as_set(C2)
    tol, rtol = positive(tol, "tol"), number(rtol, "rtol", "lie strictly between 0 and 1", lambda x: 0 < x < 1)
    known = [C.shape for C in (first, second) if C.shape is not None]
    own = shape_of(shape, "shape") if shape is not None else known[0] if known else None
    if own is None:
        raise ValueError("shape is needed: neither set knows the dimension")
    n = math.prod(own)
    f = LinearModel(sp.hstack([sp.eye_array(n), -sp.eye_array(n)]), np.zeros(n), scale="sum")

    def decided(state: State) -> bool:
        return 2 * state.fun <= tol**2 or _bound(state.fun, state.gap) >= (1 - rtol) * math.sqrt(2 * state.fun)

    result = minimize(
        f,
        Product([(first, n), (second, n)]),
        method=BlockCoordinate() if method is None else method,
        tol=0,
        callback=decided,
        check_every=_LOOK_EVERY,
        **options,
    )
    x, y = np.split(result.x, 2)
    distance = float(norm(x - y))
    return Alternation(
        x.reshape(own), y.reshape(own), distance, _bound(result.fun, result.gap), distance <= tol, result
    )


def _bound(fun: float, gap: float) -> float:
    """What a pair and its gap prove of the distance of two sets."""
    return math.sqrt(2 * (fun - gap)) if gap < fun else 0.0
