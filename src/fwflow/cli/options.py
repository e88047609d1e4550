"""What can be asked of a fit at the command line? Sets, losses and files, checked before anything runs."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np
import typer

import fwflow as fw
from fwflow._validation import Array, InputError, is_plain, parsed, suggest
from fwflow.methods import methods
from fwflow.objectives.losses import losses
from fwflow.tableau.catalogue import find_tableau
from fwflow.tables import Target, column_names, read, read_target

#: Sets by name: how they are made, and of which numbers. A radius comes last, for `path` to vary.
SETS: Mapping[str, tuple[Callable[..., fw.ConstraintSet], tuple[str, ...]]] = MappingProxyType(
    {
        "l1": (fw.L1Ball, ("R",)),
        "l2": (fw.L2Ball, ("R",)),
        "linf": (fw.LInfBall, ("R",)),
        "simplex": (fw.Simplex, ("R",)),
        "box": (fw.Box, ("LO", "HI")),
    }
)
_DEFAULTS = {"simplex": (1.0,)}


def plain(kind: type[int] | type[float], least: float | None = None) -> Any:
    """Settings of an option that takes a number, written as in a table: without underscores, in ASCII digits."""

    def parse(value: Any) -> Any:
        try:
            number = kind(value) if is_plain(str(value)) else None
        except ValueError:
            number = None
        if number is None:
            raise typer.BadParameter(f"{value!r} is not {_KINDS[kind]}")
        if least is not None and not number >= least:
            raise typer.BadParameter(f"{value} is not at least {least}")
        return number

    return {"parser": parse, "metavar": _KINDS[kind].split()[-1].upper()}


_KINDS = {int: "an integer", float: "a number"}


def _complete(names: Collection[str]) -> Callable[[str], list[str]]:
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


def _complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Columns of the data: the last word of the line that belongs to no option."""
    try:
        return [name for path in ctx.args[-1:] for name in column_names(path) if name.startswith(incomplete)]
    except (ValueError, OSError):  # it is no table, or not there
        return []


DataFile = Annotated[
    Path, typer.Argument(help="Your data: .csv, .tsv, .svm, .libsvm, .txt (libsvm), .parquet, .npz or .mtx; also .gz.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="The column to predict. Columns without names are numbered from 1.", autocompletion=_complete_column
    ),
]
TargetFileOption = Annotated[
    Path | None, typer.Option(help="A file with the target alone: .csv, .txt, .npy, .npz or .mtx.")
]
DropOption = Annotated[
    list[str] | None, typer.Option(help="A column to leave out; may be repeated.", autocompletion=_complete_column)
]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first row has names (default: found out).")
]
LossOption = Annotated[
    str,
    typer.Option(
        help=", ".join(f"{name} (two classes)" if kind.labels else name for name, kind in losses.items()) + ".",
        autocompletion=_complete([*losses]),
    ),
]
RhoOption = Annotated[float, typer.Option(help="Where the loss huber turns linear.", **plain(float))]
InterceptOption = Annotated[
    bool, typer.Option("--intercept", help="Add a constant to the model, free of the set, and fit it too.")
]
MethodOption = Annotated[
    str,
    typer.Option("--method", "-m", help="What minimises.", autocompletion=_complete([*methods, *fw.tableaus])),
]
TolOption = Annotated[
    float | None,
    typer.Option(help="Stop at this gap. Without --tol and --rtol: a millionth of the first.", **plain(float)),
]
RtolOption = Annotated[float | None, typer.Option(help="Stop at this share of the first gap.", **plain(float))]
JsonOption = Annotated[bool, typer.Option("--json", help="A summary for programs, and nothing else, on stdout.")]
LargestOption = Annotated[int, typer.Option(help="So many of the largest coefficients are shown.", **plain(int, 0))]
WorkersOption = Annotated[int | None, typer.Option(help="Processes; one per core by default.", **plain(int))]


def parse_set(text: str) -> fw.ConstraintSet:
    """The set that a text such as ``l1:10`` means.

    >>> parse_set("box:0,1")
    Box(0.0, 1.0)
    """
    name, _, rest = text.partition(":")
    make, parameters = find_set(name, text)
    numbers = tuple(map(parsed, rest.split(","))) if rest else _DEFAULTS.get(name.lower(), ())
    if len(numbers) != len(parameters) or None in numbers:
        raise InputError(f"--set {text!r} must be {usage(name.lower())}, with numbers; for example {_example(name)}")
    try:
        return make(*numbers)
    except ValueError as error:
        raise InputError(f"--set {text!r}: {error}") from error


def find_set(name: str, text: str) -> tuple[Callable[..., fw.ConstraintSet], tuple[str, ...]]:
    """How the sets of that name are made."""
    if name.lower() not in SETS:
        raise InputError(f"--set {text!r} is not known; {suggest(name.lower(), SETS)}; for example l1:10")
    return SETS[name.lower()]


def usage(name: str) -> str:
    """A set's name with its numbers, those in brackets being optional."""
    numbers = ",".join(SETS[name][1])
    return f"{name}[:{numbers}]" if name in _DEFAULTS else f"{name}:{numbers}"


def _example(name: str) -> str:
    return f"{name.lower()}:{'0,1' if len(SETS[name.lower()][1]) == 2 else '10'}"


SetOption = Annotated[
    str,
    typer.Option(
        "--set",
        help=f"Where the coefficients may be: {', '.join(map(usage, SETS))}.",
        autocompletion=_complete([f"{name}:" for name in SETS]),
    ),
]
#: Sets with a radius alone, by name.
FAMILIES = tuple(name for name, (_, parameters) in SETS.items() if parameters == ("R",))
FamilyOption = Annotated[
    str,
    typer.Option("--set", help=f"A set with a radius: {', '.join(FAMILIES)}.", autocompletion=_complete(FAMILIES)),
]


def tolerances(tol: float | None, rtol: float | None) -> tuple[float, float]:
    """The tolerance and the relative one. By default a relative one: data comes in any unit."""
    return (0.0, 1e-6) if tol is None and rtol is None else (tol or 0.0, rtol or 0.0)


def check_names(loss: str, method: str) -> None:
    """Refuse what cannot run before the data is read."""
    if loss not in losses:
        raise InputError(f"--loss {loss!r} is not known; {suggest(loss, losses)}")
    if method not in methods:
        find_tableau(method, others=methods)


def check_writable(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Refuse files that could not be written in the end, or that would be written over what is read."""
    taken = {path.resolve(): "the data" for path in inputs if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise InputError(f"{option} {path} would be written over {taken[path.resolve()]}")
        taken[path.resolve()] = option
        if path.is_dir():
            raise InputError(f"{option} {path} is a folder; it must be a file")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(f"{option} {path} cannot be written: {error.strerror}") from error
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{option} {path} may not be written to")


@dataclass(frozen=True, eq=False)
class ProblemOptions:
    """A table as an objective, and what it takes to read its solutions."""

    f: fw.LinearModel
    names: tuple[str, ...]
    target: str
    classes: tuple[str, str] | None


def read_problem(
    data: Path,
    target: str | None,
    target_file: Path | None,
    drop: Sequence[str],
    header: bool | None,
    loss: str,
    rho: float,
    intercept: bool,
) -> ProblemOptions:
    """The objective of a file of data."""
    if target is not None and target_file is not None:
        raise InputError("--target and --target-file exclude each other")
    table = read(data, target, drop=drop, header=header, labelled=target_file is None)
    if target_file is not None:
        values = read_target(target_file, header)
        if len(values) != table.X.shape[0]:
            raise InputError(f"{target_file} has {len(values)} rows, and {data} has {table.X.shape[0]}")
        name, where = "", lambda i: f"{target_file}, row {i + 1}"
    else:
        assert table.target is not None
        values, name, where = table.target, table.target_name, lambda i: f"{data}, {table.place(i)}"
    if losses[loss].labels:
        b, classes = labelled(values, name, data, loss)
    else:
        b, classes = numbers(values, name, loss, where), None
    return ProblemOptions(fw.LinearModel(table.X, b, loss, rho=rho, intercept=intercept), table.names, name, classes)


def labelled(values: Target, name: str, path: Path, loss: str) -> tuple[Array, tuple[str, str]]:
    """Labels -1 and +1 for any two classes, and the two in this order."""
    classes = sorted(set(values)) if isinstance(values, tuple) else np.unique(values).tolist()
    if len(classes) != 2:
        few = ", ".join(as_text(value) for value in classes[:5]) + (", ..." if len(classes) > 5 else "")
        told = "one class" if len(classes) == 1 else f"{len(classes)} classes"
        raise InputError(f"{path}: --loss {loss} tells two classes apart; the target {name!r} has {told}: {few}")
    first, second = classes
    return np.array([1.0 if value == second else -1.0 for value in values]), (as_text(first), as_text(second))


def as_text(label: Any) -> str:
    """A label as it is written: 1.0 is 1."""
    return str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)


def numbers(values: Target, name: str, loss: str, where: Callable[[int], str]) -> Array:
    """A target that must be numbers."""
    if not isinstance(values, tuple):
        return values
    i = next(i for i, text in enumerate(values) if parsed(text) is None)
    raise InputError(
        f"{where(i)}: the target {name!r} is {values[i]!r}, and --loss {loss} needs numbers; "
        f"--loss {' or '.join(name for name, kind in losses.items() if kind.labels)} takes any two classes"
    )
