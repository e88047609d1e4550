"""Objectives that see x through a linear map: the image is carried along, and only the map itself is left to say."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Self

import numpy as np

from fwflow._fingerprints import fingerprint
from fwflow._numerics import dot, length, quietly
from fwflow._validation import Array, finite_array
from fwflow.designs import CountedDesign, Counts, as_design
from fwflow.objectives.base import Line, Objective
from fwflow.objectives.intercepts import average, best_shift
from fwflow.objectives.losses import Ahead, Loss
from fwflow.objectives.quadratic_models import CentredModel, Model
from fwflow.points.point import Lifted, Point
from fwflow.points.vertices import DenseVertex, Scaled, Shape, SparseVertex, Sum, Vertex, read_only


class DesignImage(Objective):
    """An objective that sees x through a design matrix: the image is carried, a vertex is lifted by its columns."""

    b: Array

    def __init__(self, A: Any, name: str = "A") -> None:
        self.design = as_design(A, name)
        self.dtype = self.design.dtype
        self.shape, self.image_size = (self.design.shape[1],), self.design.shape[0]
        self.pass_cost, self.far = self.design.pass_cost, self.design.far

    def counted_by(self, counts: Counts) -> Self:
        watched = super().counted_by(counts)
        watched.design = CountedDesign(self.design, counts)
        return watched

    def precise(self) -> Objective:
        double = None if self.dtype == np.float64 else self.design.double()
        if double is None:
            return self
        doubled = copy.copy(self)
        doubled.design, doubled.b, doubled.dtype = double, self.b.astype(np.float64), np.dtype(np.float64)
        doubled.remembered = None  # images in single precision
        return doubled

    def fingerprint(self) -> str:
        design = self.design
        return fingerprint(self, design.shape, design.dtype.name, design.fingerprint(), self.b, *self._settings())

    def _settings(self) -> tuple[Any, ...]:
        """What there is to the function besides the design and b."""
        return ()

    def refresh(self, point: Point) -> Point:
        return Point(point.x, self._product(point.x))

    def image(self, vertex: Vertex) -> Vertex:
        entries = vertex.entries()
        if entries is not None:
            return self._combined(*entries)
        found: list[Vertex] = []
        rest: list[Vertex] = []
        for factor, part in vertex.terms():
            image = self._known_image(part)
            if image is None:
                rest.append(Scaled(factor, part))
            else:
                found.append(Scaled(factor, image))
        if rest:  # parts without structure share one product
            found.append(DenseVertex(self._product(Sum(tuple(rest)).to_dense(self.dtype))))
        return found[0] if len(found) == 1 else Sum(tuple(found))

    def lift_block(self, place: slice, values: Array, shape: Shape) -> Lifted:
        columns = np.arange(place.start, place.stop)
        return Lifted(SparseVertex(columns, values, shape), self.design.from_columns(values, columns))

    def _combined(self, indices: Any, values: Any) -> Vertex:
        if len(indices) == 1:
            return Scaled(float(values[0]), self.design.column(int(indices[0])))
        return self.design.combined(np.asarray(indices), np.asarray(values))

    def _known_image(self, vertex: Vertex) -> Vertex | None:
        if not vertex.recurring:
            entries = vertex.entries()
            return None if entries is None else self._combined(*entries)
        known = {} if self.remembered is None else self.remembered
        if vertex not in known:
            known[vertex] = DenseVertex(self._product(vertex.to_dense(self.dtype)))
        return known[vertex]

    def _product(self, x: Array) -> Array:
        return np.array(self.design.matvec(x.reshape(-1)), dtype=self.dtype)


# In single precision squares of huge images overflow, and line searches then see an infinite curvature.
_square = quietly(np.square)


def targets(b: Any, dtype: np.dtype[Any]) -> Array:
    """The data vector b in the type of the design, still finite there."""
    return finite_array(b, "b", ndim=1, dtype=dtype)


def checked_weights(weights: Any, loss: Loss, b: Array) -> Array | None:
    """A weight for every datum in b, in its type."""
    if weights is None:
        return None
    given = read_only(finite_array(weights, "weights", ndim=1, dtype=b.dtype))
    if len(given) != len(b):
        raise ValueError(f"weights has {len(given)} entries; there are {len(b)} data, and they must agree")
    if (given < 0).any() or not given.any():
        raise ValueError("weights must not be negative, and not all zero")
    if loss.values(b[:1], b[:1]) is None:
        raise ValueError(f"weights need a loss that is known entry by entry; {loss!r} offers no `values`")
    return given


def image_of(point: Point) -> Array:
    """The image of a point that is known to carry one."""
    assert point.image is not None
    return point.image


def image_rounding(moved: Array, z: Array, vertex: Lifted) -> float:
    """Return the rounding of the products of a gradient with x and a vertex, by their images.

    `moved` are the sizes of the terms that the derivatives in the image add up, and z is the modulus of the image of x.
    """
    images = [z] if vertex.image is None else [z, vertex.image_vertex.to_dense(z.dtype)]
    return float(np.finfo(z.dtype).eps) * sum(length(moved * image) for image in images)


class LossOfImage(Objective):
    """A sum of losses of an image that is linear in x: everything but the linear map itself.

    With an intercept f is the least sum over all constants that may be added to the image, so that neither f nor its
    derivatives change with a constant in the image. By the envelope theorem they are those at the best constant.
    """

    loss: Loss
    b: Array
    factor: float
    #: One for every entry of the image; None: all are one.
    weights: Array | None = None
    intercept: bool = False
    convex = True

    def counted_by(self, counts: Counts) -> Self:
        watched = super().counted_by(counts)
        watched.b = read_only(self.b)  # losses, which users write too, cannot change it
        return watched

    @property
    def quadratic(self) -> bool:
        return self.loss.quadratic

    @property
    def lower_bound(self) -> float:
        return 0.0 if self.loss.nonnegative else super().lower_bound

    def value(self, point: Point) -> float:
        return self._value(self._shifted(image_of(point)))

    def dual(self, point: Point) -> Array:
        """Derivative of f in the image: the vector that the transpose of the linear map turns into the gradient."""
        return self._slopes(self._shifted(image_of(point)))

    def _value(self, z: Array) -> float:
        if self.weights is None:
            return self.factor * self.loss.value(z, self.b)
        values = self.loss.values(z, self.b)
        assert values is not None  # or weights would have been refused
        return self.factor * float(dot(self.weights, values))

    def _slopes(self, z: Array) -> Array:
        return self._weighed(self.loss.derivative(z, self.b))

    def seconds(self, z: Array) -> Array:
        """Second derivatives in the image, entry by entry; an intercept, if there is one, does not move."""
        return self._weighed(self.loss.second(z, self.b))

    @property
    def steepest(self) -> float:
        """A bound on all of them."""
        return self.factor * self.loss.curvature * (1.0 if self.weights is None else float(self.weights.max()))

    def _weighed(self, entries: Array) -> Array:
        return self.factor * (entries if self.weights is None else self.weights * entries)

    def _shifted(self, z: Array, guess: float | None = None) -> Array:
        """The image with the best constant added, if there is to be one; `guess` is one that is close."""
        return z + self._shift(z, guess) if self.intercept else z

    def _shift(self, z: Array, guess: float | None = None) -> float:
        known = {} if self.remembered is None else self.remembered
        loss, image, shift = known.get("shift", (None, None, 0.0))
        if loss is not self.loss or image is not z:  # a twin with another loss shares what is remembered
            shift = best_shift(self.loss, np.asarray(z, dtype=np.float64), self.b, self.weights, guess)
            known["shift"] = self.loss, z, shift
        return shift

    @property
    def trusted(self) -> bool:
        return super().trusted and self.loss.trusted

    def rounding(self, point: Point, vertex: Lifted) -> float:
        z = np.abs(image_of(point))
        return image_rounding(
            np.abs(self.dual(point)) + self._weighed(self.loss.curvature * (z + np.abs(self.b))), z, vertex
        )

    def along(self, start: Point, end: Point, value0: float) -> Line:
        z = image_of(start)
        direction = image_of(end) - z
        shift = None
        if self.intercept:
            direction = direction - average(direction, self.weights)  # shorter, and the same to f
            shift = self._shift(z)

        def there(gamma: float) -> Array:
            return self._shifted(z + gamma * direction, shift)

        if self.intercept:  # which takes some Newton steps to find
            there = lru_cache(maxsize=1)(there)

        def slope(gamma: float) -> float:
            return float(dot(self._slopes(there(gamma)), direction))

        def second(gamma: float) -> float:
            weights = self.seconds(there(gamma))
            across = direction - average(direction, weights) if self.intercept else direction
            return float(dot(weights, _square(across)))

        norm2 = float(dot(direction, direction))
        weighed = self.factor * norm2 if self.weights is None else float(dot(self._weighed(direction), direction))
        exact = self.quadratic and self.intercept  # without, the bound is
        return Line(
            value=lambda gamma: self._value(there(gamma)),
            slope=slope,
            second=second,
            value0=value0,
            slope0=slope(0.0),
            norm2=norm2,
            curvature=second(0.0) if exact else self.loss.curvature * weighed,
            quadratic=self.quadratic,
        )

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        z = np.asarray(image_of(point), dtype=np.float64)
        z = np.zeros_like(z) if self.quadratic else z  # the same model everywhere, and there without rounding
        shifted = self._shifted(z)
        second = self.loss.second(shifted, self.b)
        if not self.quadratic:
            # Where a loss is straight (Huber's tails) a Newton step knows no length; a little curvature gives it one,
            # and little it must be beside that of a loss which has all but saturated.
            second = np.maximum(second, 1e-3 * (float(second.max()) or self.loss.curvature))
        second, slopes = self._weighed(second), self._slopes(shifted)
        if self.intercept:
            return CentredModel(second, second * (z - average(z, second)) - slopes)
        return Model(second, second * z - slopes)

    def ahead(self, point: Point, share: float) -> Self:
        twin = copy.copy(self)
        twin.loss = Ahead(self.loss, (1 - share) * image_of(point), share)
        return twin
