"""Any differentiable function of an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from fwflow._validation import Array, float_array, positive
from fwflow.objectives.base import CoordinateModel, Line, Model, Objective, coordinates_of
from fwflow.points import Lifted, Point, Shape


class Smooth(Objective):
    """A function given by Python callables.

    Parameters
    ----------
    fun : callable
        ``fun(x) -> float``, or ``fun(x) -> (float, gradient)`` together with ``grad=True``.
    grad : callable or True
        ``grad(x) -> array`` of the shape of x.
    smoothness : float, optional
        A Lipschitz constant of the gradient, for ``line_search="short"``.
    shape : tuple of int, optional
        Shape of x, needed only if neither x0 nor the set tells.
    hess_product : callable, optional
        ``hess_product(x, v) -> array``: the Hessian at x times v, for ``method="corrective"`` and ``"flow"``.
    domain : callable, optional
        ``domain(x) -> bool``: where the function is defined. The stage points of some tableaus
        leave the constraint set (see `Certificate.stages_feasible`); a run that meets a stage
        point outside the domain stops and says so instead of evaluating there.

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> f = fw.Smooth(lambda x: 0.5 * x @ x, lambda x: x)
    >>> fw.minimize(f, fw.Box(1.0, 2.0), x0=np.array([2.0, 2.0]), line_search="exact").x
    array([1., 1.])
    """

    def __init__(
        self,
        fun: Callable[[Array], Any],
        grad: Callable[[Array], Any] | bool,
        *,
        smoothness: float | None = None,
        shape: Shape | None = None,
        hess_product: Callable[[Array, Array], Any] | None = None,
        domain: Callable[[Array], bool] | None = None,
    ) -> None:
        if not callable(fun):
            raise ValueError(f"fun must be callable; got {type(fun).__name__}")
        if not callable(grad) and grad is not True:
            raise ValueError(f"grad must be a callable, or True if fun returns both; got {grad!r}")
        if hess_product is not None and not callable(hess_product):
            raise ValueError(f"hess_product must be callable; got {hess_product!r}")
        self.fun, self.grad, self.domain, self.hess_product = fun, grad, domain, hess_product
        self.smoothness = None if smoothness is None else positive(smoothness, "smoothness")
        self.shape = shape
        self.has_domain = domain is not None
        self._last: tuple[Point, float, Any] | None = None

    def value(self, point: Point) -> float:
        return self._both(point)[0] if self.grad is True else self._scalar(self.fun(point.x.copy()))

    @staticmethod
    def _scalar(value: Any) -> float:
        if isinstance(value, tuple) or np.size(value) != 1:
            raise ValueError("fun must return one number; use grad=True if it returns the gradient too")
        return float(np.asarray(value).item())

    def gradient(self, point: Point) -> Array:
        if self.grad is True:
            return self._both(point)[1]
        self.counts.n_grad += 1
        return self._checked(self.grad(point.x.copy()), point)

    @staticmethod
    def _checked(gradient: Any, point: Point) -> Array:
        """Copies go out and in: a user's function may write to x, and may fill one buffer again and again."""
        g = np.array(float_array(gradient, "grad's result"), dtype=point.x.dtype)
        if g.shape != point.x.shape:
            raise ValueError(f"grad returned shape {g.shape} for an x of shape {point.x.shape}")
        return g

    def _both(self, point: Point) -> tuple[float, Any]:
        """The joint call, made once per point."""
        if self._last is None or self._last[0] is not point:
            self.counts.n_grad += 1
            answer = self.fun(point.x.copy())
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise ValueError("fun must return (value, gradient) with grad=True")
            self._last = (point, self._scalar(answer[0]), self._checked(answer[1], point))
        return self._last[1:]

    def defined_at(self, point: Point) -> bool:
        return self.domain is None or bool(self.domain(point.x.copy()))

    def model(self, point: Point) -> Model:
        if self.hess_product is None:
            raise ValueError(
                'method="corrective" and "flow" need second derivatives: give Smooth(..., hess_product=...), '
                'or use method="blended-pairwise"'
            )
        here = _CurvedModel(1.0, np.zeros(point.x.size), self._hessian_at(point))
        _, image = here.sides(point)
        return replace(here, pull=image - np.asarray(self.gradient(point), dtype=np.float64).reshape(-1))

    def _hessian_at(self, point: Point) -> Callable[[Array], Array]:
        def times(v: Array) -> Array:
            assert self.hess_product is not None
            product = self.hess_product(point.x.copy(), v.reshape(point.x.shape).copy())
            product = float_array(product, "hess_product's result")
            if product.shape != point.x.shape:
                raise ValueError(f"hess_product returned shape {product.shape} for an x of shape {point.x.shape}")
            return np.array(product, dtype=np.float64).reshape(-1)

        return times

    def along(self, start: Point, end: Point, value0: float, gradient: Any | None) -> Line:
        d = end.x - start.x
        norm2 = float(np.vdot(d, d))

        def at(gamma: float) -> Point:
            return Point(start.x + gamma * d)

        def slope(gamma: float) -> float:
            return float(np.vdot(self.gradient(at(gamma)), d))

        return Line(
            value=lambda gamma: self.value(at(gamma)),
            slope=slope,
            second=None,
            value0=value0,
            slope0=slope(0.0) if gradient is None else float(np.vdot(gradient, d)),
            norm2=norm2,
            curvature=None if self.smoothness is None else self.smoothness * norm2,
        )


@dataclass(frozen=True)
class _CurvedModel(CoordinateModel):
    """A quadratic known by the products of its Hessian, which are the images."""

    hessian: Callable[[Array], Array]
    moving: ClassVar[bool] = True

    def sides(self, atom: Lifted | Point) -> tuple[Array, Array]:
        x = coordinates_of(atom)
        return x, self.hessian(x)

    def stack(self, atoms: Sequence[Lifted | Point]) -> tuple[Array, Array]:
        left, right = zip(*map(self.sides, atoms), strict=True)
        return np.stack(left), np.stack(right)

    def point(self, left: Array, right: Array, shape: Shape) -> Point:
        return Point(left.reshape(shape))
