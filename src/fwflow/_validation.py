"""Is this argument acceptable? The checks made once, at the public boundary, with errors that name the argument."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[Any]


def suggest(name: object, accepted: Iterable[str]) -> str:
    """The end of an error message: the nearest accepted name and the list of them."""
    names = list(accepted)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}accepted: {', '.join(map(repr, names))}"


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """float32 stays float32; every other real type computes in float64."""
    dtype = np.dtype(dtype)
    return dtype if dtype == np.float32 else np.dtype(np.float64)


def float_array(value: ArrayLike, name: str, ndim: int | None = None) -> Array:
    """An array of float32 or float64, not copied if it already is one."""
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise TypeError
        array = array.astype(float_dtype(array.dtype), copy=False)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be an array of real numbers; got {_describe(value)}") from None
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name} must have {ndim} dimension(s); got shape {array.shape}")
    return array


def finite_array(value: ArrayLike, name: str, ndim: int | None = None) -> Array:
    """Like `float_array`, and every entry is finite."""
    array = float_array(value, name, ndim)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite; it has NaN or infinite entries")
    return array


def positive(value: Any, name: str) -> float:
    """A positive finite number as a Python float."""
    return number(value, name, "be a positive finite number", lambda x: 0 < x < math.inf)


def number(value: Any, name: str, wanted: str, accepts: Callable[[float], bool]) -> float:
    """A Python float that passes a test, which `wanted` puts in words after "must".

    Not one of NumPy's numbers: those would lift float32 data to float64.
    """
    try:
        result = math.nan if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not accepts(result):
        raise ValueError(f"{name} must {wanted}; got {_describe(value)}")
    return result


def whole(value: Any, name: str, least: int) -> int:
    """An integer not below `least`."""
    at_least = f"be an integer of at least {least}"
    return int(number(value, name, at_least, lambda x: math.isfinite(x) and x == int(x) and x >= least))


def _describe(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
