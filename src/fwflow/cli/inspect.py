"""``fwflow inspect``: what is in the file of a model?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fwflow.cli.options import JsonOption, LargestOption
from fwflow.cli.screen import print_fields, print_json, print_table
from fwflow.tables.model_files import FittedModel


def inspect(
    model: Annotated[Path, typer.Argument(help="A file that fwflow solve has written.")],
    largest: LargestOption = 10,
    as_json: JsonOption = False,
) -> None:
    """Show a model: its largest coefficients by name, its gap, how and when it was found.

    [bold]Example[/bold]

    fwflow inspect model.npz --largest 20
    """
    fitted = FittedModel.load(model)
    if as_json:
        print_json(described(fitted, largest))
    else:
        show_model(fitted, largest, {"written": fitted.written})


def described(model: FittedModel, largest: int) -> dict[str, Any]:
    """A model for programs."""
    return {
        "certified": model.certified,
        "message": model.message,
        "fun": model.fun,
        "gap": model.gap,
        "iterations": model.iterations,
        "passes": model.passes,
        "seconds": model.seconds,
        "method": model.method,
        "loss": model.loss,
        "set": model.constraint,
        "data": model.data,
        "rows": model.rows,
        "columns": len(model.names),
        "nonzero": model.nonzero,
        "intercept": model.intercept,
        "target": model.target,
        "classes": model.classes,
        "dropped": model.dropped,
        "written": model.written,
        "largest": [{"column": name, "coefficient": value} for name, value in model.largest(largest)],
    }


def show_model(model: FittedModel, largest: int, more: dict[str, str]) -> None:
    """A model for readers."""
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
        "not zero": f"{model.nonzero} of {len(model.names)} coefficients",
    }
    if model.classes is not None:
        fields["classes"] = f"{model.classes[0]!r} below zero, {model.classes[1]!r} above"
    print_fields(fields)
    if rows := [(name, f"{value:.6g}") for name, value in model.largest(largest)]:
        print_table("largest coefficients", ("column", "coefficient"), rows, text=1)
