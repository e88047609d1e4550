"""Functions of PyTorch and JAX as functions of NumPy arrays, with derivatives by automatic differentiation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Number
from typing import Any, Self

import numpy as np

from fwflow._frameworks import host_array, is_jax_array, is_tensor
from fwflow._validation import Array, InputError, describe

_NOT_A_NUMBER = "fun must return one real number; it returned {}"


def _check_kind(value: Any) -> None:
    """Raise an error if the result of a user's function is neither an array of a library nor a number."""
    if not isinstance(value, (Number, np.ndarray)):
        more = ". The gradient is computed automatically" if isinstance(value, tuple) else ""
        raise InputError(_NOT_A_NUMBER.format(describe(value)) + more)


class Automatic(ABC):
    """A function whose derivatives a framework computes. Nothing of a call is kept for the next one."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """The only floating type of the framework, or None if there are several."""
        return None

    @abstractmethod
    def placed_like(self, x: Any) -> Self:
        """Return the function on the device of x, if x is an array of the framework and no other device was given."""

    @abstractmethod
    def value(self, x: Array) -> float:
        """Return the value at x."""

    @abstractmethod
    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        """Return value and gradient at x."""

    @abstractmethod
    def hess_product(self, x: Array, v: Array) -> Array:
        """Return the Hessian at x times v."""

    def gradient(self, x: Array) -> Array:
        """Return the gradient at x."""
        return self.value_and_gradient(x)[1]


class TorchFunction(Automatic):
    """Function of a PyTorch tensor, differentiated by autograd on a device."""

    def __init__(self, fun: Callable[[Any], Any], device: Any = None) -> None:
        try:
            import torch  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise ImportError("Smooth.from_torch needs PyTorch: pip install 'fwflow[torch]'") from None
        self.torch, self.fun, self.device = torch, fun, device

    def placed_like(self, x: Any) -> TorchFunction:
        return TorchFunction(self.fun, x.device) if self.device is None and is_tensor(x) else self

    def _tensor(self, x: Array) -> Any:
        return self.torch.from_numpy(x).to(self.device or "cpu")

    def _at(self, x: Any) -> Any:
        """Return the value as a tensor without dimensions."""
        try:
            value = self.fun(x)
        except RuntimeError as error:
            error.add_note(
                "fun uses tensors that were made under torch.inference_mode; make them under torch.no_grad instead"
                if "inference tensor" in str(error).lower()
                else f"fun was called with x of type {x.dtype} on the device {x.device}; "
                "fw.Smooth.from_torch(fun, dtype=..., device=...) changes both"
            )
            raise
        if not is_tensor(value):
            _check_kind(value)
            return value
        if value.numel() != 1 or value.is_complex():
            raise InputError(_NOT_A_NUMBER.format(f"a tensor of shape {tuple(value.shape)}, {value.dtype}"))
        return value.reshape(())

    def value(self, x: Array) -> float:
        value = self._at(self._tensor(x))
        try:
            return float(value.detach() if is_tensor(value) else value)
        except (TypeError, ValueError):
            raise InputError(_NOT_A_NUMBER.format(describe(value))) from None

    @contextmanager
    def _recorded(self) -> Iterator[None]:
        """Record operations for derivatives, also under ``torch.no_grad`` and ``torch.inference_mode``."""
        with self.torch.inference_mode(False), self.torch.enable_grad():
            yield

    def _differentiable(self, x: Any) -> Any:
        value = self._at(x)
        if not is_tensor(value) or not value.requires_grad:
            raise InputError(
                "fun's result does not depend on x through operations of PyTorch, so that it has no gradient; "
                f"it returned {describe(value)}. Do not use detach(), item(), numpy(), float(), torch.no_grad() or "
                "torch.inference_mode() in fun"
            )
        return value

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        with self._recorded():
            at = self._tensor(x).requires_grad_()
            value = self._differentiable(at)
            (gradient,) = self.torch.autograd.grad(value, at, allow_unused=True, materialize_grads=True)
        return float(value.detach()), host_array(gradient)

    def hess_product(self, x: Array, v: Array) -> Array:
        with self._recorded():
            at = self._tensor(x).requires_grad_()
            value = self._differentiable(at)
            (gradient,) = self.torch.autograd.grad(
                value, at, create_graph=True, allow_unused=True, materialize_grads=True
            )
            if not gradient.requires_grad:  # the function is linear
                return np.zeros_like(x)
            weights = self._tensor(v.astype(x.dtype, copy=False))
            (product,) = self.torch.autograd.grad(gradient, at, weights, allow_unused=True, materialize_grads=True)
        return host_array(product)


class JaxFunction(Automatic):
    """Function of a JAX array, compiled and differentiated by JAX."""

    def __init__(self, fun: Callable[[Any], Any], jit: bool = True, place: Any = None) -> None:
        try:
            import jax
        except ImportError:
            raise ImportError("Smooth.from_jax needs JAX: pip install 'fwflow[jax]'") from None
        self.jax, self.fun, self.jit, self.place = jax, fun, jit, place

        def scalar(x: Any) -> Any:
            value = fun(x)
            if not is_jax_array(value):
                _check_kind(value)
            value = jax.numpy.asarray(value)
            if value.size != 1 or value.dtype.kind not in "biuf":
                raise InputError(_NOT_A_NUMBER.format(f"an array of shape {value.shape}, {value.dtype}"))
            return value.reshape(()).astype(x.dtype)

        def product(x: Any, v: Any) -> Any:
            return jax.jvp(jax.grad(scalar), (x,), (v,))[1]

        def made(function: Any) -> Any:
            return jax.jit(function) if jit else function

        self._value, self._both, self._product = made(scalar), made(jax.value_and_grad(scalar)), made(product)

    def placed_like(self, x: Any) -> JaxFunction:
        return JaxFunction(self.fun, self.jit, x.sharding) if is_jax_array(x) else self

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of all arrays of JAX if ``jax_enable_x64`` is off."""
        return None if self.jax.numpy.zeros(()).dtype == np.float64 else np.dtype(np.float32)

    def _called(self, function: Callable[..., Any], *arrays: Array) -> Any:
        errors = self.jax.errors
        try:
            return function(*(self.jax.device_put(array, self.place) for array in arrays))
        except (errors.TracerArrayConversionError, errors.ConcretizationTypeError) as error:
            raise InputError(
                "fun cannot be traced by JAX; write it with jax.numpy instead of NumPy. If it has conditions on values "
                "of x, use fw.Smooth.from_jax(fun, jit=False)"
            ) from error

    def value(self, x: Array) -> float:
        return float(self._called(self._value, x))

    def value_and_gradient(self, x: Array) -> tuple[float, Array]:
        value, gradient = self._called(self._both, x)
        return float(value), np.asarray(gradient)

    def hess_product(self, x: Array, v: Array) -> Array:
        return np.asarray(self._called(self._product, x, v.astype(x.dtype, copy=False)))
