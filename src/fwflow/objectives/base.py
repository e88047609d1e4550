"""Interface of objectives, and objectives on a segment for line searches."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array, finite_array, ours
from fwflow.designs import Counts, DataCost
from fwflow.objectives.losses import Loss
from fwflow.objectives.quadratic_models import Model
from fwflow.objectives.restriction import KeptHessian, Restriction
from fwflow.points.point import Atom, Lifted, Point
from fwflow.points.vertices import Shape, SparseVertex, Vertex


class NumericalTrouble(ArithmeticError):
    """A gradient is not finite, or the objective is not defined at a point."""


class OutsideDomain(NumericalTrouble):
    """The objective is not defined at a point, or not finite there."""

    def __init__(self) -> None:
        super().__init__("the point lies outside the objective's domain")


@dataclass(frozen=True)
class Line:
    r"""Objective on a segment, :math:`\varphi(\gamma) = f(x + \gamma d)`, for line searches.

    Parameters
    ----------
    value, slope, second : callable
        :math:`\varphi` and its first two derivatives, as functions of :math:`\gamma`. ``second`` is None if it is
        unknown.
    value0, slope0 : float
        Value and derivative at zero.
    norm2 : float
        Squared norm of d, or of its image for objectives with an `ImageMap`.
    curvature : float or None
        Upper bound on the second derivative; None if it is unknown.
    quadratic : bool
        Whether the second derivative is constant and equal to ``curvature``; False by default.
    growth : float, optional
        Number D with :math:`\varphi''(\gamma) \le e^{D\gamma}\,\varphi''(0)`, if the second derivative is unbounded.

    See Also
    --------
    LineSearch : Takes a line.
    Objective : Its method ``along`` returns a line.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Quadratic(np.eye(2))
    >>> x, y = f.point([1.0, 0.0]), f.point([0.0, 1.0])
    >>> line = f.along(x, y, f.value(x))
    >>> line.slope0, line.value(0.5)
    (-1.0, 0.25)
    """

    value: Callable[[float], float]
    slope: Callable[[float], float]
    #: None: unknown.
    second: Callable[[float], float] | None
    value0: float
    slope0: float
    #: Squared norm of d, or of its image for objectives with an `ImageMap`.
    norm2: float
    #: Upper bound on the second derivative. None: unknown.
    curvature: float | None
    #: Whether the second derivative is constant and equal to `curvature`.
    quadratic: bool = False
    #: Rate at which the second derivative can grow. None: unknown.
    growth: float | None = None


def parabola(value0: float, slope0: float, curvature: float, norm2: float) -> Line:
    """Return a quadratic function on a segment."""
    return Line(
        value=lambda gamma: value0 + gamma * slope0 + 0.5 * gamma**2 * curvature,
        slope=lambda gamma: slope0 + gamma * curvature,
        second=lambda gamma: curvature,
        value0=value0,
        slope0=slope0,
        norm2=norm2,
        curvature=curvature,
        quadratic=True,
    )


class ImageMap(ABC):
    """Linear map from x to its image, for objectives that depend on x only through the image.

    Points and vertices store their images, and images are mixed with the same weights as x. Most values therefore need
    no pass over the data.

    See Also
    --------
    Objective : Its attribute ``image_map`` is such a map.
    Point : Coordinates with their image.
    """

    #: Number of entries of an image.
    size: int

    @abstractmethod
    def of_vertex(self, vertex: Vertex) -> Vertex:
        """Return the image of a vertex."""

    @abstractmethod
    def of_point(self, point: Point) -> Point:
        """Return the point with its image computed from x, free of accumulated rounding errors."""

    def of_block(self, block: SparseVertex) -> Vertex:
        """Return the image of a block of entries, which costs a share of a pass over the data."""
        return self.of_vertex(block)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows of the data, with their targets and the factors of their losses, one target after the other."""

    A: Any
    b: Array
    factor: Any
    loss: Loss

    def slopes(self, x: Array) -> Array:
        """Return the derivative of each row's loss with respect to its predictions at x, one row per row."""
        z = np.asarray(dot(self.A, x)).T
        return np.asarray(self.factor * self.loss.derivative(z.reshape(-1), self.b)).reshape(z.shape).T

    def gradient(self, slopes: Array) -> Array:
        """Return the mean of the gradients of the rows with these derivatives."""
        return np.asarray(dot(slopes.T, self.A)).T / len(slopes)


@dataclass(frozen=True)
class FiniteSum:
    """Number of rows of the data of which f is a mean, and a function from row numbers to a `Batch`."""

    count: int
    batch: Callable[[Array], Batch]


class Objective(ABC):
    """Smooth function. `value` and `gradient` suffice; all other members are optional.

    The defaults mean "not available" or "unknown". Arrays of points are read-only, and gradients become read-only, so
    `gradient` returns a new array at each call. Data may be changed between two runs, not during a run.

    See Also
    --------
    Smooth : Function given by Python callables.
    LinearModel : Losses of linear predictions.
    checks.gradient_error : Check of a gradient.
    """

    #: Shape of x. None: that of the starting point.
    shape: Any = None
    #: Floating type of x and of gradients. None: that of the starting point.
    dtype: np.dtype[Any] | None = None
    #: Whether gradients live on observed entries and x is factored, so that vertices must be rank-one.
    factored: bool = False
    #: Whether f is known to be convex; None if that is unknown. If it is not True, methods make sure that f decreases.
    convex: bool | None = None
    #: Whether f is quadratic, so that `model` returns f itself.
    quadratic: bool = False
    #: Lipschitz constant of the gradient. None: unknown.
    smoothness: float | None = None
    #: Whether `restricted` returns this function of some entries of x, for methods that work on a few columns.
    restrictable: bool = False
    #: Number that no value of f is below. Minus infinity: unknown.
    lower_bound: float = -np.inf
    #: Function that returns whether f is defined at a point, which may lie outside of the set. None: everywhere.
    domain: Callable[[Point], bool] | None = None
    data_cost: DataCost = DataCost()
    #: Map to the image that points store. None: f is a function of x itself.
    image_map: ImageMap | None = None
    #: Results that a run would compute again. None outside of runs, where data may change.
    cache: dict[Any, Any] | None = None
    #: Hessian that the runs of a path share. None outside of paths, and if the objective does not offer it.
    kept: KeptHessian | None = None

    @property
    def trusted(self) -> bool:
        """Whether the gradient is known to be that of the values. If not, a run compares both at its solution."""
        return ours(self)

    @property
    def finite_sum(self) -> FiniteSum | None:
        """Access to single rows of the data, if f is a mean over rows."""
        return None

    @property
    def completion(self) -> Any:
        """This function as a `MatrixCompletion`, or None. Methods for factored x work with its observed entries."""
        return None

    @property
    def difference(self) -> tuple[Objective, Objective] | None:
        """Two convex functions whose difference this function is, or None if they are unknown."""
        return None

    def fingerprint(self) -> str | None:
        """Return a text that identifies the data, or None. A saved state continues only with the same text."""
        return None

    def point(self, x: Any, name: str = "x0") -> Point:
        """Return a `Point` with a copy of x and its image, which is A x for a linear model. Errors call x `name`."""
        array = np.array(finite_array(x, name, dtype=self.dtype), order="C")
        if array.ndim == 0 or array.size == 0:
            raise ValueError(f"{name} must be an array with entries; got shape {array.shape}")
        if self.shape is not None and array.shape != self.shape:
            raise ValueError(f"{name} has shape {array.shape}; the objective is defined on {self.shape}")
        return self.imaged(array)

    @abstractmethod
    def value(self, point: Point) -> float:
        """Return f at the point."""

    @abstractmethod
    def gradient(self, point: Point) -> Any:
        """Return the gradient of f at the point as a new array or a `Gradient`."""

    def value_and_gradient(self, point: Point) -> tuple[float, Any] | None:
        """Return value and gradient, for functions that compute them together; else None."""
        return None

    def evaluated(self, point: Point) -> tuple[float, Any] | None:
        """Return value and gradient at an iterate if they cost less together; else None."""
        return None

    def gradients(self, points: Sequence[Point]) -> Array | None:
        """Return the gradients at several points, one per row, if one pass over the data suffices; else None."""
        return None

    def partial(self, point: Point, place: slice) -> Array | None:
        """Return some entries of the gradient, if they cost no more than their share of it; else None."""
        return None

    def rounding(self, point: Point, vertex: Lifted) -> float:
        """Bound the effect of the gradient's rounding on its products with x and the vertex; 0 if unknown."""
        return 0.0

    def along(self, start: Point, end: Point, value0: float) -> Line | None:
        """Return f on the segment from `start` through `end`, or None to compute it from values and gradients."""
        return None

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model | None:
        """Return the quadratic with the value, `gradient` and curvature of f at a point, or None."""
        return None

    def restricted(self, point: Point, places: Array | None) -> Restriction | None:
        """Return this function of the entries of x at some places, the others fixed as in the point.

        None for `places` stands for all entries, as a vector. Arrays of the result are in the type of x. The default
        is None, for functions that are not ``restrictable``.
        """
        return None

    def on_atoms(self, atoms: Sequence[Atom]) -> Restriction | None:
        """Return this function of the weights of atoms that sum to the point, or None."""
        return None

    def ahead(self, point: Point, share: float) -> Objective | None:
        """Return ``f(point + share (s - point))`` as an objective of s on the same data, or None."""
        return None

    def placed_like(self, x0: Any) -> Self:
        """Return this function for a run from x0, for example on the device of x0."""
        return self

    def counted_by(self, counts: Counts) -> Self:
        """Return a copy for one run, which reports passes over the data to `counts`."""
        watched = copy.copy(self)
        watched.cache = {}
        return watched

    def for_path(self) -> Self:
        """Return this objective for runs on several sets, which may share second derivatives; by default itself."""
        return self

    def screened(self) -> Self:
        """Return this objective with gradients of which only the entries that an oracle needs are computed."""
        return self

    def precise(self) -> Objective:
        """Return the same function with complete gradients in double precision, to verify the result of a run."""
        return self

    def lift(self, vertex: Vertex) -> Lifted:
        """Return a vertex with its image."""
        return Lifted(vertex, None if self.image_map is None else self.image_map.of_vertex(vertex))

    def lift_block(self, place: slice, values: Array, shape: Shape) -> Lifted:
        """Return a vector with entries at one place only, with its image."""
        block = SparseVertex(np.arange(place.start, place.stop), values, shape)
        return Lifted(block, None if self.image_map is None else self.image_map.of_block(block))

    def imaged(self, x: Array) -> Point:
        """Return the point with its image, which costs less than a pass over the data if x has few nonzero entries."""
        return self.refresh(Point(x))

    def refresh(self, point: Point) -> Point:
        """Return the point with its image computed anew."""
        return point if self.image_map is None else self.image_map.of_point(point)
