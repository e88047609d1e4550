"""Options that several commands share, and checks that run before the data is read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import fwflow as fw
from fwflow._validation import InputError, is_plain
from fwflow.methods import methods
from fwflow.objectives.losses import find_loss, losses
from fwflow.tableau.catalogue import find_tableau
from fwflow.tables import column_names
from fwflow.tables.problem import SETS, usage

# Descriptions of numbers for error messages. The last word is the placeholder in help texts.
_KINDS = {int: "an integer", float: "a number"}


def plain(kind: type[int] | type[float], least: float | None = None) -> Any:
    """Return settings of an option for a number, which is written as in a table: ASCII digits, no underscores."""

    def parse(value: Any) -> Any:
        try:
            number = kind(value if is_plain(str(value)) else "")  # Neither kind accepts an empty text.
        except ValueError:
            raise typer.BadParameter(f"{value!r} is not {_KINDS[kind]}") from None
        if least is not None and not number >= least:
            raise typer.BadParameter(f"{value} is not at least {least}")
        return number

    return {"parser": parse, "metavar": _KINDS[kind].split()[-1].upper()}


def _named(description: str, names: Collection[str], *flags: str) -> Any:
    """Return an option for a name, which the shell completes."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return typer.Option(*flags, help=description, autocompletion=complete)


def _complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return columns of the data file, which is the last word of the line that belongs to no option."""
    try:
        return [name for path in ctx.args[-1:] for name in column_names(path) if name.startswith(incomplete)]
    except (ValueError, OSError):  # The file is missing, or it is not a table.
        return []


DataFile = Annotated[
    Path, typer.Argument(help="Data file: .csv, .tsv, .svm, .libsvm or .txt (libsvm), .parquet, .npz, .mtx; also .gz.")
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="Column to predict. Columns without names are numbered from 1. Default: the target stored in a libsvm or "
        ".npz file.",
        autocompletion=_complete_column,
    ),
]
TargetFileOption = Annotated[
    Path | None, typer.Option(help="File that holds only the target: .csv, .txt, .npy, .npz or .mtx.")
]
DropOption = Annotated[
    list[str] | None,
    typer.Option(help="Column to leave out. Repeat the option for more columns.", autocompletion=_complete_column),
]
HeaderOption = Annotated[
    bool | None, typer.Option("--header/--no-header", help="Whether the first row holds names (default: detected).")
]
LossOption = Annotated[
    str, _named(", ".join(f"{n} (two classes)" if kind.labels else n for n, kind in losses.items()) + ".", losses)
]
RhoOption = Annotated[float, typer.Option(help="Residual above which the huber loss is linear.", **plain(float))]
InterceptOption = Annotated[bool, typer.Option("--intercept", help="Also fit a constant term, without constraint.")]
SetOption = Annotated[
    str,
    _named(
        f"Constraint set of the coefficients: {', '.join(map(usage, SETS))}. R is the radius.",
        [f"{name}:" for name in SETS],
        "--set",
    ),
]
#: Names of the sets whose only argument is a radius.
FAMILIES = tuple(name for name, (_, parameters) in SETS.items() if parameters == ("R",))
FamilyOption = Annotated[
    str, _named(f"Constraint set of the coefficients, without its radius: {', '.join(FAMILIES)}.", FAMILIES, "--set")
]
MethodOption = Annotated[
    str,
    _named(
        "Optimisation method. fwflow list methods and fwflow list tableaus show the names.",
        [*methods, *fw.tableaus],
        "--method",
        "-m",
    ),
]
TolOption = Annotated[
    float | None,
    typer.Option(help="Stop when the duality gap is at most this. Default: use --rtol 1e-6.", **plain(float)),
]
RtolOption = Annotated[
    float | None, typer.Option(help="Stop when the gap is at most this fraction of the first gap.", **plain(float))
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
LargestOption = Annotated[int, typer.Option(help="Number of largest coefficients to show.", **plain(int, 0))]
WorkersOption = Annotated[int | None, typer.Option(help="Number of processes. Default: one per core.", **plain(int))]


def check_names(loss: str, method: str) -> None:
    """Refuse unknown names of a loss or method."""
    find_loss(loss, rho=1.0)
    if method not in methods:
        find_tableau(method, others=methods)


def check_writable(outputs: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Refuse output files that cannot be written, or that would overwrite an input or each other."""
    taken = {path.resolve(): "the data" for path in inputs if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise InputError(f"{option} {path} would overwrite {taken[path.resolve()]}; choose another file")
        taken[path.resolve()] = option
        if path.is_dir():
            raise InputError(f"{option} {path} is a folder; it must be a file")
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                pass
        except OSError as error:
            raise InputError(f"{option} {path} cannot be written: {error.strerror}") from error
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"{option} {path} is write-protected")
