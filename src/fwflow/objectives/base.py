"""What does a solver need of an objective? The interface, and what line searches are given: f on a segment."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fwflow._validation import Array, finite_array, ours
from fwflow.designs import Counts
from fwflow.objectives.quadratic_models import Model
from fwflow.points.gradients import as_gradient
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import Shape, SparseVertex, Vertex


class NumericalTrouble(ArithmeticError):
    """A gradient that is not finite, or a point where the objective is not defined."""


@dataclass(frozen=True)
class Line:
    r"""The objective on a segment, :math:`\varphi(\gamma) = f(x + \gamma d)`, for line searches.

    Attributes
    ----------
    value, slope
        :math:`\varphi` and :math:`\varphi'`.
    second
        :math:`\varphi''`, or None where it is not known.
    value0, slope0
        The values at zero.
    norm2
        Squared length of d in the space in which smoothness is measured: of the image where there is one.
    curvature
        An upper bound on :math:`\varphi''`, or None where it is not known.
    quadratic
        The bound is exact and constant.
    """

    value: Callable[[float], float]
    slope: Callable[[float], float]
    second: Callable[[float], float] | None
    value0: float
    slope0: float
    norm2: float
    curvature: float | None
    quadratic: bool = False


class Batch(ABC):
    """Some of the rows of which f is the mean."""

    @abstractmethod
    def slopes(self, x: Array) -> Array:
        """The derivative of each row's function in its prediction, at x."""

    @abstractmethod
    def gradient(self, slopes: Array) -> Array:
        """The mean of the rows' gradients with these derivatives: that of f, but for the choice of rows."""


class Objective(ABC):
    """A smooth function. `value` and `gradient` suffice; every other member offers more, and its default does not.

    Points come with arrays that are read-only, and the gradients that an objective returns become so: each is a new
    array. Data may be changed between two runs: what an objective remembers of it, it forgets when a run ends. A
    `State` belongs to the data that it was made with.

    Attributes
    ----------
    shape
        Shape of x, or None where only the starting point tells.
    dtype
        The floating type of x and of every gradient, or None where only the starting point tells.
    image_size
        Number of entries of the image that points carry, or None where they carry none.
    pass_cost
        What a pass over the data costs, counted in entries of a dense matrix, or None where that is not known.
    far
        Whether the data lies on disk or with other processes, so that passes over it are what a run costs.
    factored
        Whether gradients live on observed entries and x is factored, so that vertices must be rank-one.
    convex
        Whether f is known to be convex; where it is not, methods take care to descend.
    quadratic
        Whether f is a quadratic, so that `model` is f itself wherever it is taken.
    lower_bound
        A number that no value of f is below; minus infinity where none is known.
    smoothness
        A Lipschitz constant of the gradient, or None where it is not known.
    trusted
        Whether gradients are known to belong to the values. Where they are not, a run compares both at its solution.
    n_rows
        Of how many functions f is the mean, as far as `batch` offers some of them; None: it does not.
    domain
        ``domain(point) -> bool``: whether f is defined there. None: everywhere. Stage points of some tableaus leave the
        constraint set.
    """

    shape: Any = None  # a Shape or None
    dtype: np.dtype[Any] | None = None
    image_size: int | None = None
    pass_cost: int | None = None
    far: bool = False
    factored: bool = False
    convex: bool = False
    smoothness: float | None = None

    @property
    def trusted(self) -> bool:
        return ours(self)

    @property
    def lower_bound(self) -> float:
        return -np.inf

    @property
    def n_rows(self) -> int | None:
        return None

    @property
    def quadratic(self) -> bool:
        return False

    @property
    def domain(self) -> Callable[[Point], bool] | None:
        return None

    @property
    def completion(self) -> Any:
        """This function as a `MatrixCompletion`, for corrections within the span of the factors of x; else None.

        They ask for values and gradients at observed entries alone, without x.
        """
        return None

    def counted_by(self, counts: Counts) -> Self:
        """This objective for one run: passes over its data are reported to `counts`; the original is not touched."""
        watched = copy.copy(self)
        watched.remembered, watched.run_counts = {}, counts
        return watched

    #: What a run need not compute again, by what it was computed from; None outside of runs, where data may change.
    remembered: dict[Any, Any] | None = None
    #: The counts of a run, for gradients that no `Problem` is asked for; None outside of runs.
    run_counts: Counts | None = None

    def point(self, x: Any, name: str = "x0") -> Point:
        """A point at coordinates x, image included. x is copied; errors call it `name`."""
        array = np.array(finite_array(x, name, dtype=self.dtype), order="C")
        if array.ndim == 0 or array.size == 0:
            raise ValueError(f"{name} must be an array with entries; got shape {array.shape}")
        if self.shape is not None and array.shape != self.shape:
            raise ValueError(f"{name} has shape {array.shape}; the objective is defined on {self.shape}")
        return self.refresh(Point(array))

    def fingerprint(self) -> str | None:
        """What tells this function from others of its kind: a text made of its data. None: that cannot be told.

        A state continues only the objective with the fingerprint of the one that it comes from; see ``fingerprints``.
        """
        return None

    @abstractmethod
    def value(self, point: Point) -> float:
        """f at the point."""

    @abstractmethod
    def gradient(self, point: Point) -> Any:
        """The gradient of f at the point: a new array, or a `Gradient` in a form of its own."""

    def value_and_gradient(self, point: Point) -> tuple[float, Any] | None:
        """Both, where they are computed together anyway; else None."""
        return None

    def gradients(self, points: Sequence[Point]) -> Array | None:
        """The gradients at several points, one per row, where one pass over the data gives them all; else None."""
        return None

    def partial(self, point: Point, place: slice) -> Array | None:
        """The entries of the gradient at a place, where they cost no more than their share of it; else None."""
        return None

    def batch(self, rows: Array) -> Batch | None:
        """Some of the ``n_rows`` functions of which f is the mean, if they cost no more than their share; else None."""
        return None

    def image(self, vertex: Vertex) -> Vertex | None:
        """The image of a vertex, for objectives whose points carry one; else None."""
        return None

    def lift(self, vertex: Vertex) -> Lifted:
        """Attach to a vertex what must be mixed along with it: its `image`."""
        return Lifted(vertex, self.image(vertex))

    def lift_block(self, place: slice, values: Array, shape: Shape) -> Lifted:
        """The same for a vector that has entries at one place only."""
        return self.lift(SparseVertex(np.arange(place.start, place.stop), values, shape))

    def refresh(self, point: Point) -> Point:
        """The point with its image computed afresh from x, free of accumulated rounding."""
        return point

    def rounding(self, point: Point, vertex: Lifted) -> float:
        """How far rounding of the gradient may move its products with x and a vertex; 0 where nobody knows."""
        return 0.0

    def screened(self) -> Self:
        """This objective with gradients of which only what an oracle needs is computed, where that pays."""
        return self

    def precise(self) -> Objective:
        """The same function with whole gradients in double precision, to verify what a run has found."""
        return self

    def along(self, start: Point, end: Point, value0: float) -> Line | None:
        """f on the segment from `start` through `end`, if from images alone; else None: values and gradients do it.

        Factored points are mixed, so that no matrix is formed but the gradient.
        """
        return self._along_factors(start, end, value0) if start.factored else None

    def _along_factors(self, start: Point, end: Point, value0: float) -> Line:
        def at(gamma: float) -> Point:
            return start.mix([(gamma, end)])

        def slope(gamma: float) -> float:
            if self.run_counts is not None:
                self.run_counts.n_grad += 1
            g = as_gradient(self.gradient(at(gamma)))
            return g.inner(end) - g.inner(start)

        norm2 = start.x.mixed(-1.0, end.rank_one_terms(1.0)).norm2()
        return Line(
            value=lambda gamma: self.value(at(gamma)),
            slope=slope,
            second=None,
            value0=value0,
            slope0=slope(0.0),
            norm2=norm2,
            curvature=None if self.smoothness is None else self.smoothness * norm2,
        )

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model | None:
        """The quadratic with the value, gradient and curvature of f at a point, else None.

        ``gradient(point)`` is the gradient, for those who need it.
        """
        return None

    def ahead(self, point: Point, share: float) -> Objective | None:
        """``f(point + share (s - point))`` as an objective of s on the same data; None where f is no sum of losses."""
        return None
