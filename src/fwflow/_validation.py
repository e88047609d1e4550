"""Checks of arguments, made once at the public boundary, with errors that name the argument."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Real
from operator import call
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fwflow._frameworks import host_array, is_tensor

Array = NDArray[Any]


def ours(part: object) -> bool:
    """Return whether the class of a part is defined in this library, not by a user."""
    return type(part).__module__.partition(".")[0] == "fwflow"


class InputError(ValueError):
    """Invalid argument, option or file.

    The command line shows the message as one line. Any other ValueError is a bug there and has a traceback.
    """


def suggest(name: object, accepted: Iterable[str]) -> str:
    """Return the end of an error message: the nearest accepted name and the list of all."""
    names = list(accepted)
    close = difflib.get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}accepted: {', '.join(map(repr, names))}"


def find(value: Any, name: str, kinds: Mapping[str, Any], base: type[Any], make: Callable[[Any], Any] = call) -> Any:
    """Return an object of the class `base` itself, or ``make(kinds[value])`` for the name of a kind."""
    if isinstance(value, base):
        return value
    if not isinstance(value, str):
        raise InputError(f"{name} must be a name or a {base.__name__}; got {value!r}")
    if value not in kinds:
        raise InputError(f"{name}={value!r} is not known; {suggest(value, kinds)}")
    return make(kinds[value])


def float_dtype(dtype: Any) -> np.dtype[Any]:
    """Return float32 for float32, and float64 for every other type."""
    dtype = np.dtype(dtype)
    return dtype if dtype == np.float32 else np.dtype(np.float64)


def float_array(value: ArrayLike, name: str, ndim: int | None = None) -> Array:
    """Return an array of float32 or float64, not copied if it is one already. Masked entries are an error."""
    if masked(value):
        raise InputError(f"{name} has masked entries; drop them or fill them in")
    try:
        array = host_array(value) if is_tensor(value) else np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} must be an array of real numbers; got {describe(value)}") from None
    if array.dtype.kind == "O":
        array = _from_objects(array, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be an array of real numbers; got {describe(value)}")
    if array.dtype not in (np.float32, np.float64):
        with np.errstate(over="ignore"):  # too large entries become infinite, which `finite_array` reports
            array = array.astype(float_dtype(array.dtype))
    if ndim is not None and array.ndim != ndim:
        hint = "; ravel() returns a vector" if ndim == 1 and array.size == max(array.shape, default=0) else ""
        raise InputError(f"{name} must have {ndim} dimension(s); got shape {array.shape}{hint}")
    return array


def masked(value: Any) -> bool:
    """Return whether a masked array, or a list of such arrays, has masked entries."""
    if isinstance(value, list | tuple):
        return any(isinstance(part, list | tuple | np.ma.MaskedArray) and masked(part) for part in value)
    return bool(np.ma.is_masked(value)) if isinstance(value, np.ma.MaskedArray) else False


def _from_objects(array: Array, name: str) -> Array:
    """Return Python numbers, as in tables with columns of several types, as float64. Other entries are an error."""
    for place, entry in np.ndenumerate(array):
        if not isinstance(entry, Real | Decimal | np.bool_):
            which = f"{_entry(name, place)} is" if place else "got"
            raise InputError(f"{name} must be an array of real numbers; {which} {describe(entry)}")
    try:
        return array.astype(np.float64)
    except OverflowError:
        raise InputError(f"{name} must be finite; it has integers that are too large for float64") from None


def finite_array(value: ArrayLike, name: str, ndim: int | None = None, dtype: Any = None) -> Array:
    """Return `float_array`, converted to `dtype` if it is given. Entries that are not finite are an error."""
    array = float_array(value, name, ndim)
    if dtype is not None and array.dtype != dtype:
        with np.errstate(over="ignore"):
            array = array.astype(dtype)
    good = np.isfinite(array)
    if not good.all():
        place = np.unravel_index(int(good.argmin()), array.shape)
        found = array[place] if dtype is None else f"{array[place]} in {array.dtype}"
        raise InputError(f"{name} must be finite; {_entry(name, place)} is {found}")
    return array


def _entry(name: str, place: Iterable[Any]) -> str:
    indices = ", ".join(map(str, place))
    return f"{name}[{indices}]" if indices else name


def shape_of(value: Any, name: str) -> tuple[int, ...]:
    """Return a shape from a tuple of positive integers, or from one integer for a vector."""
    sizes = value if isinstance(value, tuple | list) else (value,)
    try:
        shape = tuple(whole(size, name, 1) for size in sizes)
    except ValueError:
        shape = ()
    if not shape:
        raise InputError(f"{name} must be a positive integer or a tuple of them; got {describe(value)}")
    return shape


def positive(value: Any, name: str) -> float:
    """Return a positive finite number as a Python float."""
    return number(value, name, "be a positive finite number", lambda x: 0 < x < math.inf)


def number(value: Any, name: str, wanted: str, accepts: Callable[[float], bool]) -> float:
    """Return a Python float for which `accepts` is true. `wanted` describes it in the message, after "must".

    It is not a NumPy number, which would convert float32 data to float64.
    """
    if (isinstance(value, float) or (type(value) is int and abs(value) < 2**53)) and accepts(value):
        return float(value)
    try:
        # float() would also accept text, arrays of one entry, masked entries and complex numbers.
        other = isinstance(value, str | bytes) or np.ndim(value) or masked(value) or np.iscomplexobj(value)
        result = math.nan if other else float(value)
    except (TypeError, ValueError, OverflowError):
        result = math.nan
    if not accepts(result):
        raise InputError(f"{name} must {wanted}; got {describe(value)}")
    return result


def one_number(value: Any, function: str) -> float:
    """Return the number that a function of a user returned, perhaps as an array or tensor with one entry."""
    try:
        return float(float_array(value, function).item())
    except ValueError:
        raise InputError(f"{function} must return one real number; it returned {describe(value)}") from None


def check_number(owner: object, field: str, wanted: str, accepts: Callable[[float], bool]) -> None:
    """Replace a field of a frozen dataclass by the Python float that `number` makes of it."""
    object.__setattr__(owner, field, number(getattr(owner, field), field, wanted, accepts))


def whole(value: Any, name: str, least: int) -> int:
    """Return an integer of at least `least`."""
    at_least = f"be an integer of at least {least}"
    return int(number(value, name, at_least, lambda x: math.isfinite(x) and x == int(x) and x >= least))


def nodes(value: ArrayLike, name: str) -> Array:
    """Return the nodes of a graph, which are counted from 0, as an array of integers."""
    found = finite_array(value, name, ndim=1)
    wrong = (found < 0) | (found != np.floor(found))
    if wrong.any():
        place = int(wrong.argmax())
        raise InputError(f"{name} must be nodes, counted from 0; {name}[{place}] is {found[place]:g}")
    return found.astype(np.int64)


def is_plain(text: str) -> bool:
    """Return whether a text is ASCII without underscores and white space, which float() and int() would accept."""
    return text.isascii() and text.isprintable() and "_" not in text and " " not in text


def parsed(text: str) -> float | None:
    """Return the decimal number in a plain text, which may be "inf" or "nan", or None if it is not a number.

    >>> parsed("-1.5e3"), parsed("1_000"), parsed(" 1"), parsed("0x10")
    (-1500.0, None, None, None)
    """
    try:
        return float(text) if is_plain(text) else None
    except ValueError:
        return None


def one_line(error: Exception) -> str:
    """Return the message of an error, or its class if it has none, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


#: How objects of other libraries become sets or results, by the name of the library.
_CONVERSIONS = {
    "cvxpy": ". fw.from_cvxpy(constraints, x) makes a set of constraints, and fw.solve_cvxpy(problem) solves a problem",
    "highspy": ". fw.from_highs(model) makes a set of a model",
    "networkx": ". Sets of subgraphs come from their from_networkx, for example fw.SpanningTree.from_networkx(G)",
}


def conversion(value: object) -> str:
    """Return the end of an error message: how an object of another library is used; empty for other objects."""
    first = value[0] if isinstance(value, list | tuple) and value else value
    return _CONVERSIONS.get(type(first).__module__.partition(".")[0], "")


def describe(value: object) -> str:
    """Return the type and a short form of a value, for an error message."""
    text = " ".join(repr(value).split())
    return f"{type(value).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
