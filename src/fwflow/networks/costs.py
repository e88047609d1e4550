"""Objectives of traffic assignment: sums over the links of functions of the flow on each link."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, length
from fwflow._storage import storable
from fwflow._validation import Array, describe, finite_array, float_array, ours, shape_of
from fwflow.objectives.base import Line, Objective
from fwflow.objectives.quadratic_models import Model, flat, stacked
from fwflow.points.point import Atom, Lifted, Point
from fwflow.points.vertices import Shape, freeze

# Share of the capacity below which the slope of a power less than 1 is held constant, because it is infinite at zero.
# Chosen without tuning.
_NEAR_ZERO = 1e-9


@storable("separable-model")
class SeparableModel(Model):
    """Quadratic without mixed terms, for which points are their own images."""

    in_coordinates = True

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        x = flat(atom.coordinates)
        return x, x

    def stack(self, atoms: Sequence[Atom]) -> tuple[Any, Any]:
        rows = stacked([atom.coordinates for atom in atoms])
        return rows, rows

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        return Point(left.reshape(shape))


class LinkCosts(Objective):
    r""":math:`f(x) = \sum_a \int_0^{x_a} c_a`, whose minimum over flows is Wardrop's equilibrium for the link costs c.

    The functions take the flows on all links, none of them negative, and return an array with an entry per link. If
    rounding makes a flow negative, its cost is that at zero.

    Parameters
    ----------
    integral, cost, slope : callable
        The integral of the cost from zero, the cost, and its derivative, which is non-negative for a convex f.
    shape : int, optional
        The number of links, needed only if neither x0 nor the set has it.

    See Also
    --------
    Beckmann : The same for BPR link costs.
    FlowPolytope : Set of the flows.
    fwflow.networks.Network : Objective and set of a network together.

    Examples
    --------
    Five trips are split so that the road with the growing cost costs as much as the other:

    >>> import fwflow as fw
    >>> C = fw.FlowPolytope([0, 0], [1, 1], [[0, 5], [0, 0]])
    >>> f = fw.LinkCosts(lambda v: v * [v[0] / 2, 2], lambda v: v * [1, 0] + [0, 2], lambda v: v * 0 + [1, 0])
    >>> fw.minimize(f, C).x
    array([2., 3.])
    """

    dtype = np.dtype(np.float64)

    def __init__(
        self,
        integral: Callable[[Array], Any],
        cost: Callable[[Array], Any],
        slope: Callable[[Array], Any],
        shape: int | Shape | None = None,
    ) -> None:
        self._functions = {"integral": integral, "cost": cost, "slope": slope}
        for name, function in self._functions.items():
            if not callable(function):
                raise ValueError(f"{name} must be callable; got {describe(function)}")
        self.shape = None if shape is None else shape_of(shape, "shape")

    @property
    def trusted(self) -> bool:
        """Whether the functions are those of a subclass in fwflow, and not those of a user."""
        return ours(self) and type(self) is not LinkCosts

    def fingerprint(self) -> str:
        return fingerprint(self, shape=self.shape)

    def cost(self, x: ArrayLike) -> Array:
        """Return the cost of each link at flows x, which is the gradient."""
        return self._cost(np.maximum(x, 0.0))

    def _integral(self, flows: Array) -> Array:
        return self._called("integral", flows)

    def _cost(self, flows: Array) -> Array:
        return self._called("cost", flows)

    def _slope(self, flows: Array) -> Array:
        return self._called("slope", flows)

    def _called(self, name: str, flows: Array) -> Array:
        result = np.array(float_array(self._functions[name](flows.copy()), f"{name}'s result"), dtype=np.float64)
        if result.shape != flows.shape:
            raise ValueError(f"{name} returned shape {result.shape} for flows of shape {flows.shape}")
        return result

    def value(self, point: Point) -> float:
        return self._value(point.x)

    def gradient(self, point: Point) -> Array:
        return self.cost(point.x)

    def rounding(self, point: Point, vertex: Lifted) -> float:
        moved = self.cost(point.x) + self._second(point.x) * np.abs(point.x)
        return float(np.finfo(np.float64).eps) * (
            length(moved * point.x) + length(moved * vertex.coordinates.to_dense())
        )

    def along(self, start: Point, end: Point, value0: float) -> Line:
        x, d = start.x, end.x - start.x

        def slope(gamma: float) -> float:
            return float(dot(self.cost(x + gamma * d), d))

        return Line(
            value=lambda gamma: self._value(x + gamma * d),
            slope=slope,
            second=lambda gamma: float(dot(self._second(x + gamma * d), d**2)),
            value0=value0,
            slope0=slope(0.0),
            norm2=float(dot(d, d)),
            curvature=None,
        )

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        second = self._second(point.x)
        return SeparableModel(second, second * point.x - self.cost(point.x))

    def _value(self, x: Array) -> float:
        value = float(self._integral(np.maximum(x, 0.0)).sum())
        below = np.minimum(x, 0.0)
        return value + float(dot(self.cost(x), below)) if below.any() else value

    def _second(self, x: Array) -> Array:
        return np.where(x < 0, 0.0, self._slope(np.maximum(x, 0.0)))


class Beckmann(LinkCosts):
    r"""Function that traffic in equilibrium minimises (Beckmann, McGuire, Winsten 1956), for BPR link costs.

    .. math:: f(x) = \sum_a \int_0^{x_a} t_a \left(1 + b_a (v / c_a)^{p_a}\right) + h_a \, dv

    The gradient at x is the vector of link costs. So ``x @ f.cost(x)`` is the total travel time of flows x, and the gap
    divided by it is the relative gap of traffic assignment. Links with capacity 0 have the constant cost t, those with
    power 0 the constant cost ``t (1 + b)``, each plus h.

    Parameters
    ----------
    free_flow, capacity : array_like
        Free-flow times t and capacities c of the links.
    b, power : array_like or float
        Parameters b and p, non-negative; 0.15 and 4 by default. A power below 1 has an infinite slope at zero; a large
        one is used instead.
    fixed : array_like or float
        Costs h that do not depend on the flow, such as tolls; zero by default.

    See Also
    --------
    LinkCosts : Link costs given by functions.
    FlowPolytope : Set of the flows.
    fwflow.networks.read_tntp : Networks in files.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Beckmann(free_flow=[10.0, 15.0], capacity=[2.0, 4.0])
    >>> f.cost(np.array([2.0, 0.0]))
    array([11.5, 15. ])
    """

    def __init__(
        self,
        free_flow: ArrayLike,
        capacity: ArrayLike,
        b: ArrayLike = 0.15,
        power: ArrayLike = 4.0,
        *,
        fixed: ArrayLike = 0.0,
    ) -> None:
        given = {"free_flow": free_flow, "capacity": capacity, "b": b, "power": power, "fixed": fixed}
        arrays = {name: finite_array(value, name, dtype=np.float64) for name, value in given.items()}
        n = next((array.size for array in arrays.values() if array.ndim), 1)
        for name, array in arrays.items():
            if array.shape not in ((), (n,)) or n == 0:
                raise ValueError(f"{name} must be a number, or one for each of {n} links; its shape is {array.shape}")
            if (array < 0).any():
                place = int(array.argmin()) if array.ndim else 0
                raise ValueError(f"{name} must not be negative; for link {place} it is {array.min():g}")
        self.free_flow, self.capacity, self.b, self.power, self.fixed = (
            np.broadcast_to(array, (n,)).copy() for array in arrays.values()
        )
        freeze(self.free_flow, self.capacity, self.b, self.power, self.fixed)
        self.shape = (n,)
        self._crowding = np.where(self.capacity > 0, self.free_flow * self.b, 0.0)
        self._unit = np.where(self._crowding > 0, self.capacity, 1.0)
        self._always = self.free_flow + self.fixed

    def __repr__(self) -> str:
        return f"Beckmann({self.shape[0]} links)"

    def fingerprint(self) -> str:
        return fingerprint(
            self, free_flow=self.free_flow, capacity=self.capacity, b=self.b, power=self.power, fixed=self.fixed
        )

    def _integral(self, flows: Array) -> Array:
        return flows * (self._always + self._crowding / (self.power + 1) * self._raised(flows, self.power))

    def _cost(self, flows: Array) -> Array:
        return self._always + self._crowding * self._raised(flows, self.power)

    def _slope(self, flows: Array) -> Array:
        flows = np.maximum(flows, np.where(self.power < 1, _NEAR_ZERO * self._unit, 0.0))
        return self._crowding * self.power / self._unit * self._raised(flows, self.power - 1)

    def _raised(self, flows: Array, power: Array) -> Array:
        """Return a power of the share of the capacity in use, where 0 to the power 0 is 1."""
        with np.errstate(over="ignore"):  # the loop reports values that are not finite
            return np.power(flows / self._unit, power)
