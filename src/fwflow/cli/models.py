"""``fwflow inspect`` and ``fwflow predict``: use a model file that ``fwflow solve`` has written."""

from __future__ import annotations

import csv
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fwflow._storage import replacing
from fwflow._validation import InputError
from fwflow.cli.options import DataFile, DropOption, HeaderOption, JsonOption, LargestOption, check_writable
from fwflow.cli.screen import continued, note, print_json, print_table
from fwflow.tables import Target, read
from fwflow.tables.model_files import FittedModel
from fwflow.tables.table import as_text

ModelFile = Annotated[Path, typer.Argument(help="Model file written by fwflow solve.")]


def inspect(model: ModelFile, largest: LargestOption = 10, as_json: JsonOption = False) -> None:
    """Show a model: its largest coefficients by name, its duality gap, the method and the date.

    [bold]Example[/bold]

    fwflow inspect model.npz --largest 20
    """
    fitted = FittedModel.load(model)
    if as_json:
        print_json(described(fitted, largest))
    else:
        show_model(fitted, largest, {"written": fitted.written})


def described(model: FittedModel, largest: int) -> dict[str, Any]:
    """Return the fields of a model for JSON, with the largest coefficients in place of all."""
    fields = {"set": model.constraint, **vars(model), "columns": len(model.names), "nonzero": model.nonzero}
    for name in ("constraint", "coefficients", "names"):
        del fields[name]
    return fields | {"largest": [{"column": name, "coefficient": value} for name, value in model.largest(largest)]}


def show_model(model: FittedModel, largest: int, more: dict[str, str]) -> None:
    """Print a model as text."""
    fields = {
        "result": model.message,
        "certified": "yes" if model.certified else "no",
        "objective": f"{model.fun:.10g}",
        "gap": f"{model.gap:.3e}",
        "method": model.method,
        **more,
        "effort": f"{model.iterations} iterations, {model.passes:g} passes over the data, {model.seconds:.2f} s",
        "data": f"{model.data}, {model.rows} x {len(model.names)}",
        "model": f"{model.loss} loss, {model.constraint}",
        "intercept": f"{model.intercept:.6g}",
        "nonzero": f"{model.nonzero} of {len(model.names)} coefficients",
    }
    if model.classes is not None:
        fields["classes"] = f"{model.classes[0]!r} for scores below zero, {model.classes[1]!r} for scores above zero"
    width = max(map(len, fields))
    for name, value in fields.items():
        typer.echo(f"{name:>{width}}: {value}")
    if rows := [(name, f"{value:.6g}") for name, value in model.largest(largest)]:
        print_table("largest coefficients", ("column", "coefficient"), rows, text=1)


def predict(
    model: ModelFile,
    data: DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file. Default: the standard output.")] = None,
    drop: DropOption = None,
    header: HeaderOption = None,
) -> None:
    """Predict the target of new rows. Columns are matched by name.

    A model of two classes also gives the probability of the second class. If the data contains the target, the mean
    squared error or the number of correct classes is printed.

    [bold]Example[/bold]

    fwflow predict model.npz new.csv --out predictions.csv
    """
    check_writable({"--out": out}, (data, model))
    fitted = FittedModel.load(model)
    if needed := [name for name in drop or () if name in fitted.names]:
        raise InputError(f"--drop {needed[0]!r} leaves out a column that the model {model} needs")
    with continued("no predictions are written" if out else "the predictions above are incomplete"):
        dropped = {*fitted.dropped, *(drop or ())}
        target = fitted.target if fitted.target and fitted.target not in dropped else None
        optional = {*fitted.dropped, fitted.target}
        table = read(data, target, drop=dropped, header=header, known=fitted.names, optional=optional)
        X = table.columns(fitted.names)
        predicted = fitted.predict(X)
        columns = {"prediction": predicted.tolist()}
        if fitted.classes is not None:
            columns["probability"] = fitted.probabilities(X).tolist()
        with nullcontext(sys.stdout) if out is None else replacing(out) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
    if table.target is not None and (accuracy := _accuracy(fitted, predicted, table.target)):
        note(accuracy)


def _accuracy(model: FittedModel, predicted: Any, target: Target) -> str:
    """Describe how well the target is predicted; return no text for a target that the model cannot predict."""
    if model.classes is None:
        if isinstance(target, tuple):
            return ""
        return f"mean squared error: {float(np.mean((predicted - target) ** 2)):.6g} over {len(target)} rows"
    labels = [as_text(label) for label in (target if isinstance(target, tuple) else target.tolist())]
    if not set(labels) <= set(model.classes):
        return ""
    correct = sum(one == other for one, other in zip(labels, predicted, strict=True))
    return f"correct: {correct} of {len(labels)} rows ({correct / len(labels):.1%})"
