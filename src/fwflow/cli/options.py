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
from fwflow.run.selection import RULES
from fwflow.tableau.catalogue import find_tableau
from fwflow.tables import column_names
from fwflow.tables.constraints import FAMILIES, SETS, usage
from fwflow.tables.preparation import MISSING_CHOICES

#: Panels of the help texts.
MODEL, DATA, PREPARATION = "Model", "Data", "Preparation of tables"
SELECTION, METHOD, OUTPUT = "Cross-validation", "Method and stopping", "Output"

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


def _named(description: str, names: Collection[str], panel: str, *flags: str, metavar: str = "NAME") -> Any:
    """Return an option for a name, which the shell completes."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return typer.Option(*flags, help=description, autocompletion=complete, metavar=metavar, rich_help_panel=panel)


def _complete_column(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return columns of the data file, which is the last word of the line that belongs to no option."""
    try:
        return [name for path in ctx.args[-1:] for name in column_names(path) if name.startswith(incomplete)]
    except (ValueError, OSError):  # The file is missing, or it is not a table.
        return []


def _column(description: str, *flags: str) -> Any:
    """Return an option for columns of the data file, in the panel on preparation."""
    return typer.Option(
        *flags,
        help=description,
        autocompletion=_complete_column,
        metavar="COLUMN",
        rich_help_panel=PREPARATION,
    )


def _bound(description: str, flag: str) -> Any:
    """Return an option for bounds on coefficients."""
    return typer.Option(
        flag, help=description, autocompletion=_complete_column, metavar="COLUMN=VALUE", rich_help_panel=MODEL
    )


def file_option(description: str, *flags: str, panel: str = OUTPUT) -> Any:
    """Return an option for a file."""
    return typer.Option(*flags, help=description, metavar="FILE", rich_help_panel=panel)


DataFile = Annotated[
    Path,
    typer.Argument(
        help="Data file: .csv, .tsv, .parquet, .npz, .mtx, or libsvm as .svm, .libsvm or .txt. Each may also be "
        "compressed, with the suffix .gz.",
        metavar="DATA",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        help="Column to predict. Columns without names are numbered from 1. Default: the target stored in a libsvm or "
        ".npz file.",
        autocompletion=_complete_column,
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
TargetFileOption = Annotated[
    Path | None,
    file_option("File that holds only the target: .csv, .txt, .npy, .npz or .mtx.", panel=DATA),
]
DropOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Column to leave out. Repeat the option for more columns.",
        autocompletion=_complete_column,
        metavar="COLUMN",
        rich_help_panel=DATA,
    ),
]
HeaderOption = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first row of a .csv or .tsv file holds the names of the columns. Default: detected.",
        rich_help_panel=DATA,
    ),
]
LossOption = Annotated[
    str,
    _named(
        f"Loss: {', '.join(f'{n} (for classes)' if kind.labels else n for n, kind in losses.items())}.",
        losses,
        MODEL,
    ),
]
RhoOption = Annotated[
    float | None,
    typer.Option(
        help="Residual above which the huber loss is linear, by default 1; or the width of the interval on which the "
        "quantile loss is smoothed, by default a hundredth of the median distance of the target from its median.",
        rich_help_panel=MODEL,
        **plain(float),
    ),
]
QuantileOption = Annotated[
    float,
    typer.Option(
        help="Level of the quantile loss, between 0 and 1; 0.5 is the median.", rich_help_panel=MODEL, **plain(float)
    ),
]
PositiveOption = Annotated[
    bool,
    typer.Option(
        "--positive",
        help="Require coefficients of at least zero, with --set l1: their sum is at most the radius.",
        rich_help_panel=MODEL,
    ),
]
LowerOption = Annotated[
    list[str] | None,
    _bound(
        "Lower bound on the coefficient of a column, in original units, for example age=0. For a category, it bounds "
        "the coefficients of all levels, and city=Rome=0 bounds that of one level. Repeat the option for more columns.",
        "--lower",
    ),
]
UpperOption = Annotated[list[str] | None, _bound("Upper bound on the coefficient of a column, as --lower.", "--upper")]
CvOption = Annotated[
    int | None,
    typer.Option(
        help="Choose the radius of --set by cross-validation with this number of folds. Folds keep the shares of the "
        "classes. The preparation is fitted in each fold.",
        rich_help_panel=SELECTION,
        **plain(int, 2),
    ),
]
RuleOption = Annotated[
    str | None,
    _named(
        "Radius to choose: best (best mean score; the default) or 1se (smallest radius within one standard error of "
        "it).",
        RULES,
        SELECTION,
        "--rule",
    ),
]
ScoreOption = Annotated[
    str | None,
    typer.Option(
        help="Score of held-out rows, a scorer of scikit-learn such as accuracy, roc_auc or r2. Default: the loss.",
        metavar="NAME",
        rich_help_panel=SELECTION,
    ),
]
GroupsOption = Annotated[
    str | None,
    typer.Option(
        help="Column that names the group of each row. No group is divided between folds. The column is not a feature.",
        autocompletion=_complete_column,
        metavar="COLUMN",
        rich_help_panel=SELECTION,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option(
        help="Seed of the random division into folds. Default: 0.", rich_help_panel=SELECTION, **plain(int, 0)
    ),
]
RadiusOption = Annotated[
    float | None,
    typer.Option(help="Radius of the model to use, one of those of a path.", rich_help_panel=MODEL, **plain(float)),
]
InterceptOption = Annotated[
    bool,
    typer.Option(
        "--intercept/--no-intercept", help="Whether to fit an intercept, without constraint.", rich_help_panel=MODEL
    ),
]
RawOption = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Use the columns of a table as they are, without preparation. All of them must be numbers, without "
        "missing cells.",
        rich_help_panel=PREPARATION,
    ),
]
CategoricalOption = Annotated[
    list[str] | None,
    _column("Column of categories, also if its cells are numbers. Repeat the option for more columns."),
]
NumericOption = Annotated[
    list[str] | None,
    _column("Column of numbers, also if it looks like an identifier. Repeat the option for more columns."),
]
DateOption = Annotated[
    list[str] | None,
    _column("Column of dates such as 2024-03-01 or 2024-03-01 12:30. Repeat the option for more columns.", "--date"),
]
MissingOption = Annotated[
    str,
    _named(
        "Missing cells: impute (by the median or the most frequent level), drop (leave out their rows) or error.",
        MISSING_CHOICES,
        PREPARATION,
        "--missing",
    ),
]
NaOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Cell that means a missing value, in upper or lower case, such as -999. Repeat the option for more. Empty "
        "cells, NA, N/A, NaN, null and ? are always missing, and among numbers also placeholders such as -, none, "
        "unknown and #DIV/0!.",
        metavar="TOKEN",
        rich_help_panel=PREPARATION,
    ),
]
ScaleOption = Annotated[
    bool,
    typer.Option(
        "--scale/--no-scale",
        help="Whether to standardise columns of numbers to mean zero and standard deviation one.",
        rich_help_panel=PREPARATION,
    ),
]
SetOption = Annotated[
    str,
    _named(
        f"Constraint set of the coefficients: {', '.join(map(usage, SETS))}. R is the radius, LO and HI are bounds. In "
        "group:R, the levels of a category are a group. With --cv, the set is given without its radius.",
        [f"{name}:" for name in SETS],
        MODEL,
        "--set",
        metavar="SET",
    ),
]
FamilyOption = Annotated[
    str,
    _named(f"Constraint set of the coefficients, without its radius: {', '.join(FAMILIES)}.", FAMILIES, MODEL, "--set"),
]
MethodOption = Annotated[
    str,
    _named(
        "Optimisation method. The commands fwflow list methods and fwflow list tableaus show the names.",
        [*methods, *fw.tableaus],
        METHOD,
        "--method",
        "-m",
    ),
]
TolOption = Annotated[
    float | None,
    typer.Option(
        help="Stop when the duality gap is at most this number.",
        rich_help_panel=METHOD,
        **plain(float),
    ),
]
RtolOption = Annotated[
    float | None,
    typer.Option(
        help="Stop when the duality gap is at most this fraction of the gap at the start. Default: 1e-6 if --tol "
        "is not given.",
        rich_help_panel=METHOD,
        **plain(float),
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document and nothing else.", rich_help_panel=OUTPUT)
]
LargestOption = Annotated[
    int, typer.Option(help="Number of largest coefficients to show.", rich_help_panel=OUTPUT, **plain(int, 0))
]
WorkersOption = Annotated[int | None, typer.Option(help="Number of processes. Default: one per core.", **plain(int))]


def check_names(loss: str, method: str) -> None:
    """Refuse unknown names of a loss or method."""
    find_loss(loss, rho=1.0)
    if method not in methods:
        find_tableau(method, others=methods)


def non_negative(constraint: str) -> str:
    """Return the set of the coefficients of at least zero in an l1 ball, such as ``positive:10`` for ``l1:10``."""
    name, colon, radius = constraint.lower().partition(":")
    if name not in ("l1", "positive"):
        raise InputError(f"--positive is for --set l1; got --set {constraint}")
    return f"positive{colon}{radius}"


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
