"""fwflow at the command line: fit linear models to your data, and reproduce the paper.

[bold]From a table to a model[/bold]

fwflow solve shop.csv --target bought --loss logistic --set l1:10 --out model.npz

fwflow predict model.npz new.csv --out predictions.csv
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated

try:
    import typer

    from fwflow.cli import catalogues, data
    from fwflow.cli.experiments import compare, explore, reproduce
    from fwflow.cli.inspect import inspect
    from fwflow.cli.path import path
    from fwflow.cli.predict import predict
    from fwflow.cli.screen import console
    from fwflow.cli.solve import solve
except ModuleNotFoundError as missing:  # the console script is installed with the core
    if (missing.name or "").partition(".")[0] == "fwflow":
        raise
    sys.exit(f"fwflow's command line needs {missing.name}: pip install 'fwflow[cli]'")

from fwflow import __version__

__all__ = ["app", "console", "main"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
_COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Your data": (solve, path, predict, inspect),
    "The paper and its methods": (reproduce, compare, explore),
}
for panel, commands in _COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.command("list", rich_help_panel=panel)(catalogues.show)
app.add_typer(data.app, name="data", rich_help_panel=panel)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fwflow {__version__}")
        raise typer.Exit


@app.callback(help=__doc__, epilog="fwflow COMMAND --help has the options of a command, and examples.")
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


def main() -> None:
    """Run the command line; errors of use are one line, not a traceback."""
    try:
        app()
    except (ValueError, OSError, RuntimeError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
