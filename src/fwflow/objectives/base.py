"""What does a solver need of an objective? The interface, and the two things it hands out: lines and counts."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, finite_array
from fwflow.designs import as_design, combined, shortcut
from fwflow.objectives.losses import Loss, Parabola
from fwflow.points import DenseVertex, Lifted, LowRank, Point, Shape, Sum, Vertex


class NumericalTrouble(ArithmeticError):
    """A gradient that is not finite, or a point where the objective is not defined."""


@dataclass
class Counts:
    """Work done: gradients, oracle calls, and passes over the design matrix, of which a few columns are a share."""

    n_grad: int = 0
    n_lmo: int = 0
    n_design: float = 0


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


@dataclass(frozen=True)
class Model:
    r"""A quadratic that is or approximates an objective: its derivative in the image z is ``second * z - pull``.

    Attributes
    ----------
    second : array or float
        Second derivatives, entry by entry of the image.
    pull : array
    """

    second: Any
    pull: Array
    #: Whether images belong to this model alone, so that another model needs them anew.
    moving: ClassVar[bool] = False

    def sides(self, atom: Lifted | Point) -> tuple[Array, Array]:
        """What the derivative in the image is multiplied with to give the derivative along an atom; and its image."""
        image = np.asarray(atom.image, dtype=np.float64).reshape(-1)
        return image, image

    def stack(self, atoms: Sequence[Lifted | Point]) -> tuple[Any, Any]:
        """The sides of several atoms, one per row, as arrays or where that is smaller as CSR matrices."""
        images = stacked([atom.image for atom in atoms])
        return images, images

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        """The point of which these are the sides, with as much of it as the objective needs."""
        return Point(None, right)


class CoordinateModel(Model):
    """A quadratic whose derivative in the image is the gradient itself."""

    def sides(self, atom: Lifted | Point) -> tuple[Array, Array]:
        return coordinates_of(atom), np.asarray(atom.image, dtype=np.float64).reshape(-1)

    def stack(self, atoms: Sequence[Lifted | Point]) -> tuple[Any, Any]:
        coordinates = [atom.x if isinstance(atom, Point) else atom.vertex for atom in atoms]
        return stacked(coordinates), stacked([atom.image for atom in atoms])

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        return Point(left.reshape(shape), right)


class Objective(ABC):
    """A smooth function. Subclasses give `value` and `gradient`; those linear in an image give `lift` too.

    Attributes
    ----------
    shape
        Shape of x, or None where only the starting point tells.
    dtype
        The floating type of x and of every gradient, or None where only the starting point tells.
    """

    shape: Any = None  # a Shape or None
    dtype: np.dtype[Any] | None = None
    counts: Counts = Counts()

    def __copy__(self) -> Self:
        """Shallow also where pickling is not: a copy shares everything."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def counted_by(self, counts: Counts) -> Self:
        """This objective, reporting its work to `counts`; the original is not touched."""
        watched = copy.copy(self)
        watched.counts = counts
        return watched

    def point(self, x: Any) -> Point:
        """A point at coordinates x, image included. x is copied."""
        x = x.to_dense() if isinstance(x, LowRank) else x
        array = np.array(finite_array(x, "x0"), dtype=self.dtype, order="C")
        if array.ndim == 0 or array.size == 0:
            raise ValueError(f"x0 must be an array with entries; got shape {array.shape}")
        if self.shape is not None and array.shape != self.shape:
            raise ValueError(f"x0 has shape {array.shape}; the objective is defined on {self.shape}")
        return self.refresh(Point(array))

    @abstractmethod
    def value(self, point: Point) -> float:
        """f at the point."""

    @abstractmethod
    def gradient(self, point: Point) -> Any:
        """The gradient of f at the point; counted in ``counts.n_grad``."""

    def gradients(self, points: Sequence[Point]) -> Array | None:
        """The gradients at several points, one per row, where one pass over the data gives them all; else None."""
        return None

    def lift(self, vertex: Vertex) -> Lifted:
        """Attach to a vertex what must be mixed along with it."""
        return Lifted(vertex)

    def refresh(self, point: Point) -> Point:
        """The point with its image computed afresh from x, free of accumulated rounding."""
        return point

    #: Number of entries of the image that points carry, or None where they carry none.
    image_size: int | None = None

    def screened(self) -> Self:
        """This objective with gradients of which only what an oracle needs is computed, where that pays."""
        return self

    def precise(self) -> Objective:
        """The same function with whole gradients in double precision, to verify what a run has found."""
        return self

    #: Whether f may be undefined somewhere, so that `defined_at` must be asked.
    has_domain = False

    def defined_at(self, point: Point) -> bool:
        """Whether f is defined there. Stage points of some tableaus leave the constraint set."""
        return True

    #: Whether gradients live on observed entries and x is factored, so that vertices must be rank-one.
    factored = False

    @abstractmethod
    def along(self, start: Point, end: Point, value0: float, gradient: Any | None) -> Line:
        """f on the segment from `start` (with its value, and its gradient if known) through `end`."""

    #: Whether f is a quadratic, so that `model` is f itself wherever it is taken.
    quadratic = False

    def model(self, point: Point) -> Model:
        """The quadratic with the value, gradient and curvature of f at a point."""
        raise ValueError(
            f'method="corrective" and "flow" need second derivatives; {type(self).__name__} has none. '
            'Use method="blended-pairwise"'
        )


class DesignImage(Objective):
    """An objective that sees x through a design matrix: the image is carried, a vertex is lifted by its columns."""

    b: Array

    def __init__(self, A: Any, name: str = "A") -> None:
        self.design = as_design(A, name)
        self.dtype = self.design.dtype
        self.shape, self.image_size = (self.design.shape[1],), self.design.shape[0]
        self._recurring: WeakKeyDictionary[Vertex, Vertex] = WeakKeyDictionary()

    def precise(self) -> Objective:
        double = shortcut(self.design, "double")
        if self.dtype == np.float64 or double is None:
            return self
        doubled = copy.copy(self)
        doubled.design, doubled.b, doubled.dtype = double(), self.b.astype(np.float64), np.dtype(np.float64)
        return doubled

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_recurring": {}}  # weak references do not travel

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _recurring=WeakKeyDictionary())

    def refresh(self, point: Point) -> Point:
        return Point(point.x, self._product(point.x))

    def lift(self, vertex: Vertex) -> Lifted:
        entries = vertex.entries()
        if entries is not None:
            return Lifted(vertex, combined(self.design, *entries))
        found, rest = [], []
        for factor, part in vertex.parts_of():
            image = self._known_image(part)
            if image is None:
                rest.append(part.scaled(factor))
            else:
                found.append(image.scaled(factor))
        if rest:  # parts without structure share one product
            found.append(DenseVertex(self._product(Sum(tuple(rest)).to_dense(self.dtype))))
        return Lifted(vertex, found[0] if len(found) == 1 else Sum(tuple(found)))

    def _known_image(self, vertex: Vertex) -> Vertex | None:
        if not vertex.recurring:
            entries = vertex.entries()
            return None if entries is None else combined(self.design, *entries)
        if vertex not in self._recurring:
            self._recurring[vertex] = DenseVertex(self._product(vertex.to_dense(self.dtype)))
        return self._recurring[vertex]

    def _product(self, x: Any) -> Array:
        self.counts.n_design += 1
        return self.design.matvec(x.reshape(-1))


def targets(b: Any, dtype: np.dtype[Any]) -> Array:
    """The data vector b in the type of the design, still finite there."""
    with np.errstate(over="ignore"):
        return finite_array(finite_array(b, "b", ndim=1).astype(dtype, copy=False), "b")


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
    def quadratic(self) -> bool:  # type: ignore[override]
        return self.loss.quadratic

    def value(self, point: Point) -> float:
        return self.factor * self.loss.value(image_of(point), self.b)

    def dual(self, point: Point) -> Array:
        """Derivative of f in the image: the vector that the transpose of the linear map turns into the gradient."""
        r = self.loss.derivative(image_of(point), self.b)
        return r if self.factor == 1 else self.factor * r

    def along(self, start: Point, end: Point, value0: float, gradient: Any | None) -> Line:
        z = image_of(start)
        direction = image_of(end) - z
        norm2 = float(direction @ direction)

        def slope(gamma: float) -> float:
            return self.factor * float(self.loss.derivative(z + gamma * direction, self.b) @ direction)

        def second(gamma: float) -> float:
            return self.factor * float(self.loss.second(z + gamma * direction, self.b) @ direction**2)

        return Line(
            value=lambda gamma: self.factor * self.loss.value(z + gamma * direction, self.b),
            slope=slope,
            second=second,
            value0=value0,
            slope0=slope(0.0),
            norm2=norm2,
            curvature=self.factor * self.loss.curvature * norm2,
            quadratic=self.loss.quadratic,
        )

    def model(self, point: Point) -> Model:
        z = np.asarray(image_of(point), dtype=np.float64)
        z = np.zeros_like(z) if self.quadratic else z  # the same model everywhere, and there without rounding
        second = self.factor * self.loss.second(z, self.b)
        if not self.quadratic:
            # Where a loss is straight (Huber's tails) a Newton step knows no length; a little curvature gives it one.
            second = np.maximum(second, 1e-3 * self.factor * self.loss.curvature)
        return Model(second, second * z - self.factor * self.loss.derivative(z, self.b))

    def modelled(self, point: Point) -> Self:
        """The quadratic model at a point, as an objective on the same data."""
        model, twin = self.model(point), copy.copy(self)
        twin.loss, twin.factor = Parabola(model.second, model.pull, float(model.second.max())), 1.0
        return twin


def coordinates_of(atom: Lifted | Point) -> Array:
    """The coordinates of an atom as a vector."""
    return np.asarray(atom.x if isinstance(atom, Point) else atom.vertex, dtype=np.float64).reshape(-1)


def stacked(rows: Sequence[Any]) -> Any:
    """Vertices and arrays in double precision, one per row; a CSR matrix where that takes less memory."""
    found = [row.entries() if isinstance(row, Vertex) else None for row in rows]
    size = math.prod(rows[0].shape)
    if sum(size if entries is None else len(entries[0]) for entries in found) > size * len(rows) // 4:
        return np.stack([np.asarray(row, dtype=np.float64).reshape(-1) for row in rows])
    whole = np.arange(size)
    parts = [(whole, np.asarray(row).reshape(-1)) if e is None else e for row, e in zip(rows, found, strict=True)]
    indices, values = (np.concatenate(part) for part in zip(*parts, strict=True))
    indptr = np.cumsum([0, *(len(positions) for positions, _ in parts)])
    return sp.csr_array((values.astype(np.float64), indices, indptr), shape=(len(rows), size))
