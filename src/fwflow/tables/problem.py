"""Problems described by options of the command line: a linear model from a data file, and a set such as ``l1:10``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import fwflow as fw
from fwflow._validation import Array, InputError, parsed, suggest
from fwflow.objectives.losses import find_loss, losses
from fwflow.tables import read, read_target
from fwflow.tables.readers import Target, as_text

#: Sets by name: the constructor and the names of its arguments. The radius is the last argument.
SETS: Mapping[str, tuple[Callable[..., fw.ConstraintSet], tuple[str, ...]]] = MappingProxyType(
    {
        "l1": (fw.L1Ball, ("R",)),
        "l2": (fw.L2Ball, ("R",)),
        "linf": (fw.LInfBall, ("R",)),
        "simplex": (fw.Simplex, ("R",)),
        "box": (fw.Box, ("LO", "HI")),
    }
)
# Default arguments of sets. The arguments of other sets are required.
_DEFAULTS = {"simplex": (1.0,)}


def parse_set(text: str) -> fw.ConstraintSet:
    """Return the set that a text such as ``l1:10`` describes.

    >>> parse_set("box:0,1")
    Box(0.0, 1.0)
    """
    name, _, rest = text.lower().partition(":")
    if name not in SETS:
        raise InputError(f"--set {text!r} is not known; {suggest(name, SETS)}; for example l1:10")
    make, parameters = SETS[name]
    numbers = tuple(map(parsed, rest.split(","))) if rest else _DEFAULTS.get(name, ())
    if len(numbers) != len(parameters) or None in numbers:
        example = f"{name}:{'0,1' if len(parameters) == 2 else '10'}"
        raise InputError(f"--set {text!r} must be {usage(name)}, with numbers; for example {example}")
    try:
        return make(*numbers)
    except ValueError as error:
        raise InputError(f"--set {text!r}: {error}") from error


def usage(name: str) -> str:
    """Return the name of a set with its arguments; arguments in brackets are optional."""
    numbers = ",".join(SETS[name][1])
    return f"{name}[:{numbers}]" if name in _DEFAULTS else f"{name}:{numbers}"


@dataclass(frozen=True, eq=False)
class TableProblem:
    """Objective of a data file, the names of its columns and target, and its two classes if there are any."""

    f: fw.LinearModel
    names: tuple[str, ...]
    target: str
    classes: tuple[str, str] | None


def read_problem(
    data: str | Path,
    target: str | None = None,
    target_file: str | Path | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    loss: str = "squared",
    rho: float = 1.0,
    intercept: bool = False,
) -> TableProblem:
    """Read a data file as the objective of a linear model. The arguments are options of the command line."""
    labels = find_loss(loss, rho).labels
    if target is not None and target_file is not None:
        raise InputError("--target and --target-file exclude each other; give one of them")
    table = read(data, target, drop=drop, header=header, labelled=target_file is None)
    if target_file is not None:
        values = read_target(target_file, header)
        if len(values) != table.X.shape[0]:
            raise InputError(f"{target_file} has {len(values)} rows, and {data} has {table.X.shape[0]}")
        name, place = "", lambda i: f"{target_file}, row {i + 1}"
    else:
        assert table.target is not None
        values, name, place = table.target, table.target_name, lambda i: f"{data}, {table.place(i)}"
    b, classes = _labels(values, name, data, loss) if labels else (_numbers(values, name, loss, place), None)
    return TableProblem(fw.LinearModel(table.X, b, loss, rho=rho, intercept=intercept), table.names, name, classes)


def _labels(values: Target, name: str, path: str | Path, loss: str) -> tuple[Array, tuple[str, str]]:
    """Return labels -1 and +1 for two classes, and the classes in this order."""
    classes: list[Any] = sorted(set(values)) if isinstance(values, tuple) else np.unique(values).tolist()
    if len(classes) != 2:
        shown = ", ".join(as_text(value) for value in classes[:5]) + (", ..." if len(classes) > 5 else "")
        count = "one class" if len(classes) == 1 else f"{len(classes)} classes"
        raise InputError(f"{path}: --loss {loss} needs two classes; the target {name!r} has {count}: {shown}")
    first, second = classes
    return np.array([1.0 if value == second else -1.0 for value in values]), (as_text(first), as_text(second))


def _numbers(values: Target, name: str, loss: str, place: Callable[[int], str]) -> Array:
    """Return a target of numbers, and refuse text."""
    if not isinstance(values, tuple):
        return values
    i = next(i for i, text in enumerate(values) if parsed(text) is None)
    raise InputError(
        f"{place(i)}: the target {name!r} is {values[i]!r}, and --loss {loss} needs numbers; "
        f"--loss {' or '.join(name for name, kind in losses.items() if kind.labels)} takes any two classes"
    )
