"""``fwflow predict``: predictions of a model for new rows."""

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
from fwflow.cli.options import DataFile, DropOption, HeaderOption, ModelFile, check_writable
from fwflow.cli.screen import continued, note
from fwflow.tables import Target, read
from fwflow.tables.model_files import FittedModel
from fwflow.tables.table import as_text


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
