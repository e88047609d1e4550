"""Which function? Linear models, whose image is carried along, and any function that JAX can trace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fwflow._validation import suggest
from fwflow.jax.designs import Design, as_design
from fwflow.jax.losses import find_loss
from fwflow.jax.points import Lifted, Point, Vertex
from fwflow.jax.trees import Array, epsilon, floating, inner, known, pytree


class Line(NamedTuple):
    """The objective on a segment, by the share of the way."""

    value: Callable[[Any], Array]
    slope: Callable[[Any], Array]
    second: Callable[[Any], Array]
    quadratic: bool


class Objective(ABC):
    """A smooth function. Points carry its image of x where it has one."""

    #: The shape of x, where the function knows it.
    shape: tuple[int, ...] | None = None
    #: The type of its numbers, where it has some.
    dtype: Any = None
    #: Whether second derivatives are constant.
    quadratic: bool = False

    @abstractmethod
    def point(self, x: Array) -> Point:
        """x with its image."""

    @abstractmethod
    def lift(self, vertex: Vertex) -> Lifted:
        """A vertex with its image."""

    @abstractmethod
    def value(self, point: Point) -> Array:
        """f."""

    @abstractmethod
    def gradient(self, point: Point) -> Array:
        """Its gradient."""

    @abstractmethod
    def along(self, start: Point, end: Point) -> Line:
        """f on a segment."""

    @abstractmethod
    def bend(self, start: Point, end: Point, gradient: Array) -> Array:
        """Twice what f at the end has above its tangent at the start, which has that gradient."""

    @abstractmethod
    def noise(self, point: Point) -> Array:
        """By how many roundings the inner product of x and the gradient may be off for what the gradient is made of."""


@pytree("loss")
@dataclass(frozen=True, eq=False, init=False)
class LinearModel(Objective):
    r""":math:`f(x) = \frac1m \sum_i \ell(a_i^T x, b_i)`, or the plain sum, like `fwflow.LinearModel` on a device.

    Parameters
    ----------
    A : (m, n) array, BCOO, BCSR or SciPy sparse matrix
        A dense array may be sharded over a mesh by rows or by columns. JAX rounds float64 data to float32 unless its
        ``jax_enable_x64`` is set; the gap of a result is then that of the rounded data.
    b : (m,) array
        Targets, or labels -1 and +1 for the logistic loss.
    loss : str or Loss
        A name in ``fwflow.jax.losses.TWINS``, for example "squared", or an object whose members JAX can trace.
    scale : {"mean", "sum"}
    rho : float
        Parameter of losses that have one: where "huber" turns linear.
    weights : (m,) array, optional
        Non-negative factors of the losses; the mean is then the weighted one.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.LinearModel(jnp.eye(2), jnp.array([1.0, 3.0]), loss="squared", scale="sum")
    >>> float(f.value(f.point(jnp.zeros(2))))
    5.0
    """

    design: Design
    b: Array
    weights: Array | None
    factor: Any
    loss: Any

    def __init__(
        self, A: Any, b: Any, loss: Any = "squared", *, scale: str = "mean", rho: float = 1.0, weights: Any = None
    ) -> None:
        design, kind = as_design(A), find_loss(loss, rho)
        m = design.shape[0]
        b = _data(b, "b", m, design)
        if known(b):
            kind.check(b)
        if scale not in ("mean", "sum"):
            raise ValueError(f"scale={scale!r} is not known; {suggest(scale, ('mean', 'sum'))}")
        weights = None if weights is None else _data(weights, "weights", m, design)
        if known(weights) and weights is not None and ((weights < 0).any() or not weights.any()):
            raise ValueError("weights must not be negative, and not all zero")
        total = m if weights is None else weights.sum()
        vars(self).update(design=design, b=b, weights=weights, factor=1 / total if scale == "mean" else 1.0, loss=kind)

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return (self.design.shape[1],)

    @property
    def dtype(self) -> Any:
        return self.design.dtype

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        return self.loss.quadratic

    def point(self, x: Array) -> Point:
        return Point(x, self.design.matvec(x))

    def lift(self, vertex: Vertex) -> Lifted:
        return Lifted(vertex, vertex.image(self.design))

    def value(self, point: Point) -> Array:
        return self._weighed(self.loss.values(point.image, self.b)).sum()

    def gradient(self, point: Point) -> Array:
        return self.design.rmatvec(self.dual(point.image))

    def dual(self, z: Any) -> Array:
        """Derivative of f in the image."""
        return self._weighed(self.loss.derivative(z, self.b))

    def _weighed(self, entries: Array) -> Array:
        share = self.factor if self.weights is None else self.factor * self.weights
        return entries * jnp.asarray(share, entries.dtype)

    def along(self, start: Point, end: Point) -> Line:
        z: Any = start.image
        d: Any = end.image - z
        return Line(
            value=lambda gamma: self._weighed(self.loss.values(z + gamma * d, self.b)).sum(),
            slope=lambda gamma: inner(self.dual(z + gamma * d), d),
            second=lambda gamma: inner(self._weighed(self.loss.second(z + gamma * d, self.b)), d * d),
            quadratic=self.quadratic,
        )

    def bend(self, start: Point, end: Point, gradient: Array) -> Array:
        # Slopes tell it where values drown in rounding; for quadratics they are the same.
        return inner(self.dual(end.image) - self.dual(start.image), end.image - start.image)  # type: ignore[operator]

    def noise(self, point: Point) -> Array:
        z: Any = point.image
        moved = jnp.abs(self.dual(z)) + self._weighed(self.loss.curvature * (jnp.abs(z) + jnp.abs(self.b)))
        return jnp.sqrt(((moved * z) ** 2).sum())


def _data(values: Any, name: str, m: int, design: Design) -> Array:
    array = floating(values).astype(design.dtype)
    if array.shape != (m,):
        raise ValueError(f"{name} has shape {array.shape}; A has {m} rows, so it must be ({m},)")
    return array


@pytree("fun")
@dataclass(frozen=True, eq=False, init=False)
class Smooth(Objective):
    """Any function that JAX can trace; its gradient comes by differentiation.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> number``. x is an array or, with such an x0, any tree of arrays. A function that is made anew
        is compiled anew: keep it, and pass what changes as arguments. Pass 64-bit NumPy arrays as arguments too: in
        single precision, the gap of a function that closes over them may not be verified in double precision.
    *args
        Trees of arrays, over which ``vmap`` may go.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.Smooth(lambda x, c: ((x["u"] - c) ** 2).sum() + x["v"] ** 2, jnp.array([2.0, 0.5]))
    >>> C = fwj.Product({"u": fwj.Simplex(), "v": fwj.Box(1.0, 2.0)})
    >>> fwj.minimize(f, C, {"u": jnp.array([0.5, 0.5]), "v": 2.0}).x
    {'u': Array([1., 0.], dtype=float32), 'v': Array(1., dtype=float32)}
    """

    fun: Callable[..., Any]
    args: tuple[Any, ...]

    def __init__(self, fun: Callable[..., Any], *args: Any) -> None:
        if not callable(fun):
            raise ValueError(f"fun must be callable; got {type(fun).__name__}")
        vars(self).update(fun=fun, args=args)

    def point(self, x: Array) -> Point:
        return Point(x)

    def lift(self, vertex: Vertex) -> Lifted:
        return Lifted(vertex)

    def value(self, point: Point) -> Array:
        return self._at(point.x)

    def _at(self, x: Array) -> Array:
        return jnp.asarray(self.fun(x, *self.args), x.dtype)

    def gradient(self, point: Point) -> Array:
        return jax.grad(self._at)(point.x)

    def along(self, start: Point, end: Point) -> Line:
        d = end.x - start.x

        def value(gamma: Any) -> Array:
            return self._at(start.x + jnp.asarray(gamma, d.dtype) * d)

        def slope(gamma: Any) -> Array:
            return jax.grad(value)(jnp.asarray(gamma, d.dtype))

        return Line(value, slope, lambda gamma: jax.grad(slope)(jnp.asarray(gamma, d.dtype)), self.quadratic)

    def bend(self, start: Point, end: Point, gradient: Array) -> Array:
        before, after = self.value(start), self.value(end)
        rounding = 8 * epsilon(before.dtype) * (jnp.abs(before) + jnp.abs(after))
        return 2 * (after - before - inner(gradient, end.x - start.x) - rounding)

    def noise(self, point: Point) -> Array:
        return jnp.abs(self.value(point))
