"""Differentiable functions of an array, given by Python callables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from fwflow._fingerprints import fingerprint
from fwflow._validation import Array, describe, float_array, positive, shape_of
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import CoordinateModel, Model, flat
from fwflow.points.point import Atom, Point
from fwflow.points.vertices import DenseVertex, Shape


class Smooth(Objective):
    """Function given by Python callables. Their arguments are copies, and their results are copied.

    Parameters
    ----------
    fun : callable
        ``fun(x) -> float``, or ``fun(x) -> (float, gradient)`` together with ``grad=True``.
    grad : callable or True
        ``grad(x) -> array`` of the shape of x.
    smoothness : float, optional
        Lipschitz constant of the gradient, for ``line_search="short"``.
    shape : int or tuple of int, optional
        Shape of x, needed only if neither x0 nor the set determines it.
    hess_product : callable, optional
        ``hess_product(x, v) -> array``: the Hessian at x times v, for methods with second derivatives.
    domain : callable, optional
        ``domain(x) -> bool``: whether the function is defined at x. Stage points of some tableaus leave the constraint
        set (see `Certificate.stages_feasible`); a run stops with a message at a stage point outside of the domain.

    See Also
    --------
    Objective : Base class, for functions that offer more.
    fwflow.jax.Smooth : Function that JAX differentiates.
    checks.gradient_error : Check of a gradient.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Smooth(lambda x: 0.5 * x @ x, lambda x: x)
    >>> fw.minimize(f, fw.Box(1.0, 2.0), x0=np.array([2.0, 2.0]), line_search="exact").x
    array([1., 1.])
    """

    trusted = False

    def __init__(
        self,
        fun: Callable[[Array], Any],
        grad: Callable[[Array], Any] | bool,
        *,
        smoothness: float | None = None,
        shape: int | Shape | None = None,
        hess_product: Callable[[Array, Array], Any] | None = None,
        domain: Callable[[Array], bool] | None = None,
    ) -> None:
        if not callable(fun):
            raise ValueError(f"fun must be callable; got {type(fun).__name__}")
        if not callable(grad) and grad is not True:
            raise ValueError(f"grad must be a callable, or True if fun returns both; got {grad!r}")
        for name, optional in (("hess_product", hess_product), ("domain", domain)):
            if optional is not None and not callable(optional):
                raise ValueError(f"{name} must be callable; got {describe(optional)}")
        self.fun, self.grad, self.hess_product = fun, grad, hess_product
        self.domain = None if domain is None else partial(_inside, domain)
        self.smoothness = None if smoothness is None else positive(smoothness, "smoothness")
        self.shape = None if shape is None else shape_of(shape, "shape")

    def fingerprint(self) -> str:
        given = (self.grad is True, self.hess_product is not None, self.domain is not None)
        return fingerprint(self, self.shape, self.smoothness, *given)

    def value(self, point: Point) -> float:
        together = self.value_and_gradient(point)
        return self._scalar(self.fun(point.x.copy())) if together is None else together[0]

    @staticmethod
    def _scalar(value: Any) -> float:
        if isinstance(value, float):
            return float(value)
        if isinstance(value, tuple):
            raise ValueError("fun must return one number; use grad=True if it returns the gradient too")
        try:
            return float(float_array(value, "fun").item())
        except ValueError:
            raise ValueError(f"fun must return one real number; it returned {describe(value)}") from None

    def gradient(self, point: Point) -> Array:
        together = self.value_and_gradient(point)
        return self._checked(self.grad(point.x.copy()), point) if together is None else together[1]  # type: ignore[operator]

    @staticmethod
    def _checked(gradient: Any, point: Point) -> Array:
        """Return a copy, because a user's function may return the same buffer again."""
        g = np.array(float_array(gradient, "grad's result"), dtype=point.x.dtype)
        if g.shape != point.x.shape:
            raise ValueError(f"grad returned shape {g.shape} for an x of shape {point.x.shape}")
        return g

    def value_and_gradient(self, point: Point) -> tuple[float, Array] | None:
        if self.grad is not True:
            return None
        answer = self.fun(point.x.copy())
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ValueError(f"fun must return (value, gradient) with grad=True; it returned {describe(answer)}")
        return self._scalar(answer[0]), self._checked(answer[1], point)

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model | None:
        return None if self.hess_product is None else _CurvedModel(self.hess_product, point, gradient)


def _inside(domain: Callable[[Array], bool], point: Point) -> bool:
    answer = domain(point.x.copy())
    if np.shape(answer) or np.asarray(answer).dtype.kind not in "biuf":
        raise ValueError(f"domain must return True or False; it returned {describe(answer)}")
    return bool(answer)


class _CurvedModel(CoordinateModel):
    """Quadratic given by the products of its Hessian, which are the images."""

    _product: Callable[[Array, Array], Any]
    _at: Point
    _gradient: Callable[[Point], Any]

    def __init__(
        self, hess_product: Callable[[Array, Array], Any], point: Point, gradient: Callable[[Point], Any]
    ) -> None:
        # The dataclass is frozen, and `pull` is computed only if it is needed.
        self.__dict__.update(second=1.0, _product=hess_product, _at=point, _gradient=gradient)

    @cached_property
    def pull(self) -> Array:
        return self._hessian(flat(self._at.coordinates)) - flat(DenseVertex(np.asarray(self._gradient(self._at))))

    moving = True

    def _hessian(self, v: Array) -> Array:
        x = self._at.x
        product = float_array(self._product(x.copy(), v.reshape(x.shape).copy()), "hess_product's result")
        if product.shape != x.shape:
            raise ValueError(f"hess_product returned shape {product.shape} for an x of shape {x.shape}")
        return np.array(product, dtype=np.float64).reshape(-1)

    def sides(self, atom: Atom) -> tuple[Array, Array]:
        x = flat(atom.coordinates)
        return x, self._hessian(x)

    def stack(self, atoms: Sequence[Atom]) -> tuple[Array, Array]:
        left, right = zip(*map(self.sides, atoms), strict=True)
        return np.stack(left), np.stack(right)

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        return Point(left.reshape(shape))
