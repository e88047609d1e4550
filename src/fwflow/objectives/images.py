"""Objectives that see x through a linear map: the image is carried along, and only the map itself is left to say."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from fwflow._validation import Array, finite_array
from fwflow.designs import CountedDesign, Counts, as_design
from fwflow.fingerprints import fingerprint
from fwflow.numerics import length
from fwflow.objectives.base import Line, Objective
from fwflow.objectives.losses import Loss, Parabola
from fwflow.objectives.models import Model
from fwflow.points import Point
from fwflow.vertices import DenseVertex, Scaled, Sum, Vertex, read_only


class DesignImage(Objective):
    """An objective that sees x through a design matrix: the image is carried, a vertex is lifted by its columns."""

    b: Array

    def __init__(self, A: Any, name: str = "A") -> None:
        self.design = as_design(A, name)
        self.dtype = self.design.dtype
        self.shape, self.image_size = (self.design.shape[1],), self.design.shape[0]

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


def targets(b: Any, dtype: np.dtype[Any]) -> Array:
    """The data vector b in the type of the design, still finite there."""
    return finite_array(b, "b", ndim=1, dtype=dtype)


def image_of(point: Point) -> Array:
    """The image of a point that is known to carry one."""
    assert point.image is not None
    return point.image


class LossOfImage(Objective):
    """A sum of losses of an image that is linear in x: everything but the linear map itself."""

    loss: Loss
    b: Array
    factor: float

    @property
    def quadratic(self) -> bool:
        return self.loss.quadratic

    @property
    def _targets(self) -> Array:
        """What losses see of b: their users write them, too."""
        return read_only(self.b)

    def value(self, point: Point) -> float:
        return self.factor * self.loss.value(image_of(point), self._targets)

    def dual(self, point: Point) -> Array:
        """Derivative of f in the image: the vector that the transpose of the linear map turns into the gradient."""
        return self.factor * self.loss.derivative(image_of(point), self._targets)

    def rounding(self, point: Point) -> float:
        z = np.abs(image_of(point))
        moved = np.abs(self.loss.derivative(image_of(point), self._targets))
        moved += self.loss.curvature * (z + np.abs(self.b))
        return float(np.finfo(z.dtype).eps) * self.factor * length(moved * z)

    def along(self, start: Point, end: Point, value0: float) -> Line:
        z, b = image_of(start), self._targets
        direction = image_of(end) - z
        norm2 = float(direction @ direction)

        def slope(gamma: float) -> float:
            return self.factor * float(self.loss.derivative(z + gamma * direction, b) @ direction)

        def second(gamma: float) -> float:
            return self.factor * float(self.loss.second(z + gamma * direction, b) @ direction**2)

        return Line(
            value=lambda gamma: self.factor * self.loss.value(z + gamma * direction, b),
            slope=slope,
            second=second,
            value0=value0,
            slope0=slope(0.0),
            norm2=norm2,
            curvature=self.factor * self.loss.curvature * norm2,
            quadratic=self.loss.quadratic,
        )

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model:
        z = np.asarray(image_of(point), dtype=np.float64)
        z = np.zeros_like(z) if self.quadratic else z  # the same model everywhere, and there without rounding
        second = self.factor * self.loss.second(z, self._targets)
        if not self.quadratic:
            # Where a loss is straight (Huber's tails) a Newton step knows no length; a little curvature gives it one.
            second = np.maximum(second, 1e-3 * self.factor * self.loss.curvature)
        return Model(second, second * z - self.factor * self.loss.derivative(z, self._targets))

    def modelled(self, point: Point, ahead: Point) -> Self:
        z, end = (np.asarray(image_of(p), dtype=np.float64) for p in (point, ahead))
        slope, last = (self.factor * self.loss.derivative(image, self._targets) for image in (z, end))
        second = self.factor * self.loss.second(z, self._targets)
        moving = np.abs(end - z) > 1e-5 * (np.abs(z) + np.abs(self.b))  # else the mean drowns in rounding
        mean = np.divide(last - slope, end - z, out=np.zeros_like(z), where=moving)
        # The larger of the two: a loss that flattens on a long way ahead must not be taken for flat where x is.
        second, twin = np.maximum(second, mean), copy.copy(self)
        twin.loss, twin.factor = Parabola(second, second * z - slope, float(second.max())), 1.0
        return twin
