"""Arrays of PyTorch and JAX: to NumPy, and back to the kind and the device that the user gave."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np


def is_tensor(value: object) -> bool:
    """Return whether a value is a tensor of PyTorch, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_torch_type(value: object) -> bool:
    """Return whether a value is a type of entries of PyTorch, such as ``torch.float32``."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.dtype)


def is_jax_array(value: object) -> bool:
    """Return whether a value is an array of JAX, without importing JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def host_array(tensor: Any) -> Any:
    """Return the numbers of a tensor that requires gradients, or lives on a device, as a NumPy array.

    Memory on the host is shared. NumPy has no bfloat16, so that such tensors become float32.
    """
    plain = tensor.detach().cpu().resolve_conj().resolve_neg()
    return (plain.float() if str(plain.dtype) == "torch.bfloat16" else plain).numpy()


def same_kind(x: Any) -> Callable[[Any], Any] | None:
    """Return a function from NumPy arrays to arrays of the framework and device of x; None if x is of neither."""
    if is_tensor(x):
        torch, device = sys.modules["torch"], x.device
        return lambda array: torch.from_numpy(np.array(array)).to(device)
    if is_jax_array(x):
        jax, place = sys.modules["jax"], x.sharding
        return lambda array: jax.device_put(np.asarray(array), place)
    return None
