"""Differences of two convex functions."""

from __future__ import annotations

from typing import Self

import numpy as np

from fwflow._fingerprints import fingerprint
from fwflow._validation import Array, InputError
from fwflow.designs import Counts
from fwflow.objectives.base import Objective
from fwflow.points.point import Point


class DifferenceOfConvex(Objective):
    r"""Difference f - g of two convex functions.

    A step of `minimize` replaces g by its linearisation at x, reduces the convex function
    :math:`f(y) - \langle \nabla g(x), y\rangle` by Frank-Wolfe from x, and continues beyond the result as long as f - g
    decreases (DC algorithm of Tao and Souad, 1986; boosted step of Aragón Artacho and Vuong, 2020). Only sets with a
    projection have boosted steps.

    Parameters
    ----------
    f, g : Objective
        Convex functions of the same x, for example `LinearModel`, `Quadratic` or `Smooth`. Convexity is not checked.
        The function g need not be differentiable: any subgradient may be its gradient. For example, g may be a norm.

    See Also
    --------
    minimize : Minimises the difference; ``starts`` tries several starting points.
    Smooth : Function given by Python callables.

    Notes
    -----
    The gap of a result certifies criticality: no point y of the set has a value
    :math:`f(y) - \langle \nabla g(x), y\rangle` that is lower than at x by more than the gap. A critical point need not
    be a minimum of f - g.

    Examples
    --------
    A least-squares problem with the concave penalty :math:`-\|x\|_2`, which favours few nonzero entries:

    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(3), [0.6, 0.5, -0.2])
    >>> g = fw.Smooth(lambda x: np.linalg.norm(x), lambda x: x / max(np.linalg.norm(x), 1e-300))
    >>> r = fw.minimize(fw.DifferenceOfConvex(f, g), fw.L1Ball(1.0))
    >>> r.success, r.x.round(6) + 0.0
    (True, array([1., 0., 0.]))
    """

    def __init__(self, f: Objective, g: Objective) -> None:
        for name, part in (("f", f), ("g", g)):
            if not isinstance(part, Objective):
                raise InputError(f"{name} must be an Objective, for example fw.Smooth(fun, grad); got {part!r}")
            if part.factored:
                raise InputError(f"{name} stores x as factors; a difference of convex functions needs x as an array")
        if f.shape is not None and g.shape is not None and f.shape != g.shape:
            raise InputError(f"f is defined on {f.shape} and g on {g.shape}; both must be functions of the same x")
        self.f, self.g = f, g
        self.shape = f.shape if f.shape is not None else g.shape
        self.dtype = f.dtype if f.dtype is not None else g.dtype
        self.data_cost = f.data_cost
        self.domain = None if f.domain is None and g.domain is None else self._defined

    @property
    def difference(self) -> tuple[Objective, Objective]:
        return self.f, self.g

    @property
    def trusted(self) -> bool:
        return self.f.trusted and self.g.trusted

    def _defined(self, point: Point) -> bool:
        return all(part.domain is None or part.domain(point) for part in (self.f, self.g))

    def fingerprint(self) -> str:
        return fingerprint(self, f=self.f.fingerprint(), g=self.g.fingerprint())

    def counted_by(self, counts: Counts) -> Self:
        counted = super().counted_by(counts)
        counted.f, counted.g = self.f.counted_by(counts), self.g.counted_by(counts)
        if counted.domain is not None:
            counted.domain = counted._defined
        return counted

    def value(self, point: Point) -> float:
        return self.f.value(self.f.imaged(point.x)) - self.g.value(self.g.imaged(point.x))

    def gradient(self, point: Point) -> Array:
        return _array(self.f, point) - _array(self.g, point)

    def precise(self) -> Objective:
        exact = DifferenceOfConvex(self.f.precise(), self.g.precise())
        exact.shape = self.shape
        return exact


def _array(part: Objective, point: Point) -> Array:
    return np.asarray(part.gradient(part.imaged(point.x)), dtype=point.x.dtype)
