"""Common points of two sets, or a certified lower bound of their distance."""

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

# Number of steps between two evaluations of the gap, which costs two oracle calls, as a step does.
_CHECK_EVERY = 4


@dataclass(frozen=True, eq=False)
class Alternation:
    """A point of each of two sets, and certified bounds of the distance of the sets.

    Attributes
    ----------
    x, y : array
        Members of the first and of the second set.
    distance : float
        Distance of x and y, an upper bound of the distance of the sets.
    bound : float
        Lower bound of the distance of the sets, certified by the gap.
    met : bool
        Whether the distance of x and y is within the tolerance.
    apart : bool
        Whether the sets are proved to be disjoint: the bound is positive.
    result : Result
        Result of minimising half of the squared distance over the product of the sets.

    See Also
    --------
    alternate : Returns this object.
    Result : Result of the run.

    Examples
    --------
    >>> import fwflow as fw
    >>> found = fw.alternate(fw.Simplex(), fw.Box(0.0, 0.5), shape=3)
    >>> found.met, found.apart
    (True, False)
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
    r"""Find a common point of two sets, or prove that they have none, by alternating linear minimisation.

    Half of the squared distance, :math:`f(x, y) = \tfrac12 \|x - y\|^2`, is minimised over the product of the sets,
    alternately in x and in y (Braun, Pokutta & Weismantel, 2022). As f is convex, no two members are closer than
    :math:`\sqrt{2 (f - \mathrm{gap})}`.

    Parameters
    ----------
    C1, C2 : ConstraintSet or callable
        Sets of vectors, or sets of matrices of known shape, which are flattened row by row.
    shape : int or tuple of int, optional
        Shape of the members, if neither set has a known one.
    method : str, Tableau or Method, optional
        As in `minimize`; by default `BlockCoordinate`.
    tol : float
        Distance up to which x and y count as a common point; 1e-6 by default.
    rtol : float
        Stop if the lower bound of the distance is within this share of the distance of x and y; 0.01 by default.
    **options
        ``max_iter``, ``max_time``, ``progress`` and ``state`` of `minimize`.

    Returns
    -------
    Alternation

    See Also
    --------
    BlockCoordinate : Method that it uses.
    Product : Set over which it minimises.
    MinkowskiSum : Sums of members of sets.

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
    own = first.shape or second.shape if shape is None else shape_of(shape, "shape")
    if own is None:
        raise ValueError("shape is needed: neither set has a known shape")
    n = math.prod(own)
    f = LinearModel(sp.hstack([sp.eye_array(n), -sp.eye_array(n)]), np.zeros(n), scale="sum")

    def decided(state: State) -> bool:
        return 2 * state.fun <= tol**2 or _bound(state.fun, state.gap) >= (1 - rtol) * math.sqrt(2 * state.fun)

    both, chosen = Product([(first, n), (second, n)]), BlockCoordinate() if method is None else method
    result = minimize(f, both, method=chosen, tol=0, callback=decided, check_every=_CHECK_EVERY, **options)
    x, y = np.split(result.x, 2)
    distance = float(norm(x - y))
    bound = _bound(result.fun, result.gap)
    return Alternation(x.reshape(own), y.reshape(own), distance, bound, distance <= tol, result)


def _bound(fun: float, gap: float) -> float:
    """Return the lower bound of the distance that a pair and its gap prove."""
    return math.sqrt(2 * (fun - gap)) if gap < fun else 0.0
