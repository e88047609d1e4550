"""``fwflow predict``: what a model says of new rows."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from fwflow._storage import replacing
from fwflow._validation import InputError
from fwflow.cli.options import DataFile, DropOption, HeaderOption, as_text, check_writable
from fwflow.cli.screen import continued, note
from fwflow.tables import Target, read
from fwflow.tables.model_files import FittedModel


def predict(
    model: Annotated[Path, typer.Argument(help="A file that fwflow solve has written.")],
    data: DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A CSV file; by default the standard output.")] = None,
    drop: DropOption = None,
    header: HeaderOption = None,
) -> None:
    """Predict the target of new rows, whose columns are matched by name.

    With two classes, the probability of the second is given as well. If the data has the target, how well it is
    predicted is said.

    [bold]Example[/bold]

    fwflow predict model.npz new.csv --out predictions.csv
    """
    check_writable({"--out": out}, (data, model))
    fitted = FittedModel.load(model)
    if needed := [name for name in drop or () if name in fitted.names]:
        raise InputError(f"--drop {needed[0]!r} leaves out a column that the model {model} predicts from")
    with continued("no predictions are written" if out else "the predictions above are not all"):
        dropped = {*fitted.dropped, *(drop or ())}
        target = fitted.target if fitted.target and fitted.target not in dropped else None
        optional = {*fitted.dropped, fitted.target}
        table = read(data, target, drop=dropped, header=header, known=fitted.names, optional=optional)
        X = table.columns(fitted.names)
        predicted = fitted.predict(X)
        columns: list[tuple[str, Sequence[Any]]] = [("prediction", predicted.tolist())]
        if fitted.classes is not None:
            columns.append(("probability", fitted.probabilities(X).tolist()))
        with nullcontext(sys.stdout) if out is None else replacing(out) as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([name for name, _ in columns])
            writer.writerows(zip(*(values for _, values in columns), strict=True))
    if table.target is not None and (said := _compared(fitted, predicted, table.target)):
        note(said)


def _compared(model: FittedModel, predicted: Any, target: Target) -> str:
    """How well the target is predicted; nothing where it is of another kind."""
    if model.classes is None:
        if isinstance(target, tuple):
            return ""
        return f"mean squared error: {float(np.mean((predicted - target) ** 2)):.6g} over {len(target)} rows"
    told = [as_text(label) for label in (target if isinstance(target, tuple) else target.tolist())]
    if not set(told) <= set(model.classes):
        return ""
    right = sum(one == other for one, other in zip(told, predicted, strict=True))
    return f"right: {right} of {len(told)} rows ({right / len(told):.1%})"
