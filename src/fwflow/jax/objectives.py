"""Objectives: linear models, whose points carry their image, and functions that JAX can trace."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fwflow._validation import InputError
from fwflow.jax.points import Design, Point, Vertex, as_design
from fwflow.jax.trees import Array, blocks, epsilon, floating, inner, is_concrete, opened, pytree
from fwflow.objectives.image_based import scale_factor
from fwflow.objectives.losses import Loss, find_loss


class Line(NamedTuple):
    """Objective on a segment: functions of the step size, as in `fwflow.Line`."""

    value: Callable[[Any], Array]
    slope: Callable[[Any], Array]
    second: Callable[[Any], Array]
    quadratic: bool
    #: Whether the second derivative has an upper bound.
    bounded: bool = True


class Objective(ABC):
    """Smooth function f. By default, its derivatives come from differentiating `value`."""

    #: Matrix A of the image ``A @ x``, or None for a function without an image.
    design: Design | None = None
    #: Whether second derivatives are constant.
    quadratic: bool = False

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of x, or None if only the starting point determines it."""
        return None if self.design is None else (self.design.shape[1],)

    @property
    def dtype(self) -> Any:
        """Floating type of x, or None if only the starting point determines it."""
        return None if self.design is None else self.design.dtype

    def point(self, x: Array) -> Point:
        """Return x with its image."""
        return Point(x) if self.design is None else Point(x).lifted(self.design)

    def lift(self, vertex: Vertex) -> Vertex:
        """Return a vertex with its image."""
        return vertex if self.design is None else vertex.lifted(self.design)

    def tree(self, x: Array) -> Any:
        """Return x in the form of the user, an array or a tree of arrays."""
        return x

    def opened(self, x: Array) -> Objective:
        """Return the same objective with the traced numbers that a user's function closes over as arguments."""
        return self

    @abstractmethod
    def value(self, point: Point) -> Array:
        """Return f at a point."""

    def gradient(self, point: Point) -> Array:
        """Return the gradient of f at a point."""
        return jax.grad(lambda x: self.value(Point(x)))(point.x)

    def along(self, start: Point, end: Point) -> Line:
        """Return f on a segment."""

        def value(gamma: Any) -> Array:
            return self.value(Point(start.x + gamma * (end.x - start.x)))

        slope = jax.grad(value)
        return Line(value, slope, jax.grad(slope), self.quadratic)

    def curvature_along(self, start: Point, end: Point, gradient: Array) -> Array:
        """Return twice the height of f at the end over its tangent at the start: for quadratics, the curvature."""
        before, after = self.value(start), self.value(end)
        rounding = 8 * epsilon(before.dtype) * (jnp.abs(before) + jnp.abs(after))
        return 2 * (after - before - inner(gradient, end.x - start.x) - rounding)

    def noise(self, point: Point) -> Array:
        """Return the rounding error of ``<gradient, x>`` that comes from the gradient, in units of epsilon."""
        return jnp.abs(self.value(point))


@pytree("loss")
class LinearModel(Objective):
    r"""`fwflow.LinearModel` on a device: the mean :math:`\frac1m \sum_i \ell(a_i^T x, b_i)` of losses, or their sum.

    Parameters
    ----------
    A : (m, n) array, BCOO, BCSR or SciPy sparse matrix
        A dense array may be sharded over a mesh by rows or by columns. JAX rounds float64 data to float32 unless
        ``jax_enable_x64`` is set. The gap of a result is that of the rounded data.
    b : (m,) array
        Targets, labels -1 and +1 for the logistic loss, or counts for the Poisson loss.
    loss : str or Loss
        As for `fwflow.LinearModel`, "squared" by default; JAX must be able to trace the members `values`, `derivative`,
        `second` and `terms`.
    scale, rho, quantile, weights
        As for `fwflow.LinearModel`.

    See Also
    --------
    fwflow.LinearModel : Objective of the core.
    Smooth : Function that JAX differentiates.
    minimize : Minimises it over a set.

    Examples
    --------
    >>> import jax.numpy as jnp, fwflow.jax as fwj
    >>> f = fwj.LinearModel(jnp.eye(2), jnp.array([1.0, 3.0]), loss="squared", scale="sum")
    >>> float(f.value(f.point(jnp.zeros(2))))
    5.0
    """

    b: Array
    shares: Any
    loss: Any
    design: Design

    def __init__(
        self,
        A: Any,
        b: Any,
        loss: Any = "squared",
        *,
        scale: str = "mean",
        rho: float = 1.0,
        quantile: float = 0.5,
        weights: Any = None,
    ) -> None:
        design, kind = as_design(A), find_loss(loss, rho, quantile)
        b = _data(b, "b", design)
        if is_concrete(b):
            kind.check(b)
        weights = None if weights is None else _data(weights, "weights", design)
        if is_concrete(weights) and weights is not None and ((weights < 0).any() or not weights.any()):
            raise InputError("weights must not be negative, and not all zero")
        factor = scale_factor(scale, len(b) if weights is None else weights.sum())
        vars(self).update(design=design, b=b, shares=factor if weights is None else factor * weights, loss=kind)

    @property
    def quadratic(self) -> bool:  # type: ignore[override]
        return self.loss.quadratic

    def value(self, point: Point) -> Array:
        value, inside = self._weighed(self.loss.values(point.image, self.b)).sum(), self.loss.inside(point.image)
        return value if inside is None else jnp.where(inside.all(), value, jnp.inf)

    def gradient(self, point: Point) -> Array:
        return self.design.rmatvec(self.dual(point.image))

    def dual(self, z: Any) -> Array:
        """Return the derivative of f in the image."""
        return self._weighed(_derivative(self.loss, z, self.b))

    def _weighed(self, entries: Array) -> Array:
        return entries * jnp.asarray(self.shares, entries.dtype)

    def along(self, start: Point, end: Point) -> Line:
        z, d = start.image, end.image - start.image
        return Line(
            value=lambda gamma: self._weighed(self.loss.values(z + gamma * d, self.b)).sum(),
            slope=lambda gamma: inner(self.dual(z + gamma * d), d),
            second=lambda gamma: inner(self._weighed(self.loss.second(z + gamma * d, self.b)), d * d),
            quadratic=self.quadratic,
            bounded=self.loss.curvature < math.inf,
        )

    def curvature_along(self, start: Point, end: Point, gradient: Array) -> Array:
        # Slopes are accurate where differences of values are lost in rounding; for quadratics both are equal.
        return inner(self.dual(end.image) - self.dual(start.image), end.image - start.image)

    def noise(self, point: Point) -> Array:
        z = point.image
        moved = jnp.abs(self.dual(z)) + self._weighed(self.loss.terms(z, self.b))
        return jnp.sqrt(((moved * z) ** 2).sum())


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _derivative(loss: Loss, z: Any, b: Any) -> Any:
    """Return the derivative of a loss, whose own derivative in z is `second`: JAX's may overflow for large margins."""
    return loss.derivative(z, b)


@_derivative.defjvp
def _(loss: Loss, at: tuple[Any, Any], change: tuple[Any, Any]) -> tuple[Any, Any]:
    value, by_b = jax.jvp(lambda b: loss.derivative(at[0], b), at[1:], change[1:])
    return value, loss.second(*at) * change[0] + by_b


def _data(values: Any, name: str, design: Design) -> Array:
    array, m = floating(values).astype(design.dtype), design.shape[0]
    if array.shape != (m,):
        raise InputError(f"{name} has shape {array.shape}; A has {m} rows, so it must be ({m},)")
    return array


@pytree("fun", "structure", "shapes")
class Smooth(Objective):
    """Function that JAX can trace and differentiate.

    Parameters
    ----------
    fun : callable
        ``fun(x, *args) -> number``. x is an array, or a tree of arrays if x0 is one. Each new function object is
        compiled again: keep the function, and pass values that change as arguments. Pass 64-bit NumPy arrays as
        arguments too: in single precision, the gap may otherwise not be verified in double precision.
    *args
        Trees of arrays; ``vmap`` over them is supported.

    See Also
    --------
    fwflow.Smooth : Function and gradient in Python.
    LinearModel : Losses of linear predictions.

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
    structure: Any = None
    shapes: tuple[tuple[int, ...], ...] = ()

    def __init__(self, fun: Callable[..., Any], *args: Any) -> None:
        if not callable(fun):
            raise InputError(f"fun must be callable; got {type(fun).__name__}")
        vars(self).update(fun=fun, args=args, structure=None, shapes=())

    def on_trees(self, example: Any) -> Smooth:
        """Return the function of vectors that hold the leaves of trees with this structure."""
        leaves, structure = jax.tree.flatten(example)
        f = Smooth(self.fun, *self.args)
        vars(f).update(structure=structure, shapes=tuple(leaf.shape for leaf in leaves))
        return f

    def opened(self, x: Array) -> Objective:
        fun, numbers = opened(self.fun, self.tree(x), *self.args)
        if not numbers:
            return self
        f = Smooth(lambda x, numbers, *args: fun(numbers, x, *args), numbers, *self.args)
        vars(f).update(structure=self.structure, shapes=self.shapes)
        return f

    def tree(self, x: Array) -> Any:
        return x if self.structure is None else jax.tree.unflatten(self.structure, blocks(x, self.shapes))

    def value(self, point: Point) -> Array:
        # A precision that the function asks for itself is kept.
        with jax.default_matmul_precision("highest"):
            return jnp.asarray(self.fun(self.tree(point.x), *self.args), point.x.dtype)
