"""Differentiable functions of an array, given by Python callables."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Self

import numpy as np

from fwflow._fingerprints import fingerprint
from fwflow._frameworks import is_torch_type
from fwflow._threads import with_all_threads
from fwflow._validation import Array, InputError, describe, float_array, one_number, positive, shape_of
from fwflow.objectives.automatic import Automatic, JaxFunction, TorchFunction
from fwflow.objectives.base import Objective
from fwflow.objectives.quadratic_models import CoordinateModel, Model, flat
from fwflow.points.point import Atom, Point
from fwflow.points.vertices import DenseVertex, Shape


class Smooth(Objective):
    """Function given by Python callables. Their arguments are copies, and their results are copied.

    `from_torch` and `from_jax` make it of one function of PyTorch or JAX, by automatic differentiation.

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
        Without it, a point belongs to the domain if `fun` is finite there. Then `grad` may raise an error outside.
    convex : bool, optional
        Whether the function is convex. True states that the gap bounds the error; a result that contradicts it has the
        status ``INCONSISTENT``. False states that the gap measures only stationarity. Default: unknown, so that methods
        make sure that the function decreases, and messages name both cases.

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
    #: Function of a framework that differentiates automatically; None for callables of NumPy arrays.
    automatic: Automatic | None = None

    def __init__(
        self,
        fun: Callable[[Array], Any],
        grad: Callable[[Array], Any] | bool,
        *,
        smoothness: float | None = None,
        shape: int | Shape | None = None,
        hess_product: Callable[[Array, Array], Any] | None = None,
        domain: Callable[[Array], bool] | None = None,
        convex: bool | None = None,
    ) -> None:
        _callable(fun)
        if not callable(grad) and grad is not True:
            raise ValueError(f"grad must be a callable, or True if fun returns both; got {grad!r}")
        for name, optional in (("hess_product", hess_product), ("domain", domain)):
            if optional is not None and not callable(optional):
                raise ValueError(f"{name} must be callable; got {describe(optional)}")
        if not isinstance(convex, bool | None):
            raise InputError(f"convex must be True, False or None; got {describe(convex)}")
        self.fun, self.grad, self.hess_product, self.convex = fun, grad, hess_product, convex
        self.domain = None if domain is None else partial(_inside, domain)
        self.smoothness = None if smoothness is None else positive(smoothness, "smoothness")
        self.shape = None if shape is None else shape_of(shape, "shape")

    @classmethod
    def from_torch(
        cls,
        fun: Callable[[Any], Any],
        *,
        dtype: Any = None,
        device: Any = None,
        smoothness: float | None = None,
        shape: int | Shape | None = None,
        domain: Callable[[Array], bool] | None = None,
        convex: bool | None = None,
    ) -> Self:
        """Return a function of PyTorch with gradients and Hessian products by automatic differentiation.

        The function gets x as a tensor in the floating type of the run. Parameters of modules get no gradients, and no
        graph is kept after a call. Needs PyTorch: ``pip install 'fwflow[torch]'``.

        Parameters
        ----------
        fun : callable
            ``fun(x) -> tensor`` with one entry, in operations of PyTorch that have a derivative.
        dtype : torch.dtype or dtype, optional
            ``torch.float32`` or ``torch.float64``: the type of x in runs. Default: that of x0, or float64 without x0.
        device : torch.device or str, optional
            Device of x in calls of `fun`. Default: that of x0 if x0 is a tensor, otherwise the CPU.
        smoothness, shape, convex
            As for `Smooth`.
        domain : callable, optional
            As for `Smooth`; it gets x as a NumPy array.
        """
        dtype = str(dtype).removeprefix("torch.") if is_torch_type(dtype) else dtype
        return cls._differentiated(
            TorchFunction(_callable(fun), device),
            dtype,
            smoothness=smoothness,
            shape=shape,
            domain=domain,
            convex=convex,
        )

    @classmethod
    def from_jax(
        cls,
        fun: Callable[[Any], Any],
        *,
        jit: bool = True,
        dtype: Any = None,
        smoothness: float | None = None,
        shape: int | Shape | None = None,
        domain: Callable[[Array], bool] | None = None,
        convex: bool | None = None,
    ) -> Self:
        """Return a function of JAX with gradients and Hessian products by automatic differentiation.

        The function gets x as a JAX array. JAX computes in float32, and so do runs of the function, unless double
        precision is on before the call: ``jax.config.update("jax_enable_x64", True)``. Needs JAX:
        ``pip install 'fwflow[jax]'``.

        Parameters
        ----------
        fun : callable
            ``fun(x) -> array`` with one entry, written with ``jax.numpy``.
        jit : bool
            Whether JAX compiles the function; True by default. Use False if `fun` has conditions on values of x.
        dtype : dtype, optional
            float32 or float64: the type of x in runs. Default: float32 without ``jax_enable_x64``; with it the type of
            x0, or float64 without x0.
        smoothness, shape, convex
            As for `Smooth`.
        domain : callable, optional
            As for `Smooth`; it gets x as a NumPy array.

        Examples
        --------
        >>> import jax.numpy as jnp, fwflow as fw
        >>> f = fw.Smooth.from_jax(lambda x: ((x - jnp.array([0.75, 0.25, -1.0])) ** 2).sum())
        >>> r = fw.minimize(f, fw.Simplex(), jnp.ones(3) / 3, tol=1e-5)
        >>> r.x.dtype, [round(float(entry), 3) for entry in r.x]
        (dtype('float32'), [0.75, 0.25, 0.0])
        """
        return cls._differentiated(
            JaxFunction(_callable(fun), jit), dtype, smoothness=smoothness, shape=shape, domain=domain, convex=convex
        )

    @classmethod
    def _differentiated(cls, automatic: Automatic, dtype: Any, **options: Any) -> Self:
        made = cls(automatic.value, automatic.gradient, hess_product=automatic.hess_product, **options)
        made.automatic = automatic
        made.dtype = automatic.dtype if dtype is None else _floating(dtype)
        if automatic.dtype not in (None, made.dtype):
            raise ValueError(
                f"dtype is {made.dtype}, but JAX computes in {automatic.dtype}; "
                'call jax.config.update("jax_enable_x64", True) first'
            )
        return made

    def placed_like(self, x0: Any) -> Self:
        if self.automatic is None or (placed := self.automatic.placed_like(x0)) is self.automatic:
            return self
        moved = copy.copy(self)
        moved.automatic = placed
        moved.fun, moved.grad, moved.hess_product = placed.value, placed.gradient, placed.hess_product
        return moved

    def evaluated(self, point: Point) -> tuple[float, Array] | None:
        if self.automatic is None:
            return None
        value, gradient = self.automatic.value_and_gradient(point.x.copy())
        return value, self._checked(gradient, point)

    def fingerprint(self) -> str:
        return fingerprint(
            self,
            shape=self.shape,
            smoothness=self.smoothness,
            joint=self.grad is True,
            hess_product=self.hess_product is not None,
            domain=self.domain is not None,
            **({} if self.convex is None else {"convex": self.convex}),  # states of earlier versions do not have it
        )

    def value(self, point: Point) -> float:
        together = self.value_and_gradient(point)
        return self._scalar(_answer(self.fun, point.x)) if together is None else together[0]

    @staticmethod
    def _scalar(value: Any) -> float:
        if isinstance(value, float):
            return float(value)
        if isinstance(value, tuple):
            raise ValueError("fun must return one number; use grad=True if it returns the gradient too")
        return one_number(value, "fun")

    def gradient(self, point: Point) -> Array:
        together = self.value_and_gradient(point)
        return self._checked(_answer(self.grad, point.x), point) if together is None else together[1]  # type: ignore[arg-type]

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
        answer = _answer(self.fun, point.x)
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise ValueError(f"fun must return (value, gradient) with grad=True; it returned {describe(answer)}")
        value = self._scalar(answer[0])
        if not math.isfinite(value):  # outside the domain, where the gradient may be anything
            return value, np.full_like(point.x, np.nan)
        return value, self._checked(answer[1], point)

    def model(self, point: Point, gradient: Callable[[Point], Any]) -> Model | None:
        return None if self.hess_product is None else _CurvedModel(self.hess_product, point, gradient)


def _callable(fun: Any) -> Any:
    if not callable(fun):
        raise ValueError(f"fun must be callable; got {type(fun).__name__}")
    return fun


def _answer(function: Callable[..., Any], *arrays: Array) -> Any:
    """Return what a function of the user returns for copies of arrays, with all threads of BLAS."""
    return with_all_threads(function, *(array.copy() for array in arrays))


def _floating(dtype: Any) -> np.dtype[Any]:
    try:
        found = np.dtype(dtype)
    except TypeError:
        found = None
    if found not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64; got {dtype}")
    return found


def _inside(domain: Callable[[Array], bool], point: Point) -> bool:
    answer = _answer(domain, point.x)
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
        product = float_array(_answer(self._product, x, v.reshape(x.shape)), "hess_product's result")
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
