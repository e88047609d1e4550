"""``fwflow inspect``: show the content of a model file."""

from __future__ import annotations

from typing import Any

from fwflow.cli.options import JsonOption, LargestOption, ModelFile
from fwflow.cli.screen import print_fields, print_json, print_table
from fwflow.tables.model_files import FittedModel


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
    print_fields(fields)
    if rows := [(name, f"{value:.6g}") for name, value in model.largest(largest)]:
        print_table("largest coefficients", ("column", "coefficient"), rows, text=1)
