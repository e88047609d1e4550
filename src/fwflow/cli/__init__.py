"""Command line of fwflow: fit linear models with constraints to your data, and reproduce the paper.

[bold]Example[/bold]: fit a model to a table, and predict from it

fwflow solve shop.csv --target bought --loss logistic --set l1:10 --out model.npz

fwflow predict model.npz new.csv --out predictions.csv
"""

from __future__ import annotations

import sys
import traceback
from concurrent.futures import BrokenExecutor
from typing import Annotated

try:
    import typer

    from fwflow.cli.catalogues import show
    from fwflow.cli.experiments import compare, data_app, explore, reproduce
    from fwflow.cli.models import inspect, path, predict, solve
    from fwflow.cli.screen import console
except ModuleNotFoundError as missing:  # The console script is installed also without the extra.
    if (missing.name or "").partition(".")[0] == "fwflow":
        raise
    sys.exit(f"fwflow's command line needs {missing.name}: pip install 'fwflow[cli]'")

from fwflow import __version__
from fwflow._validation import InputError
from fwflow.datasets import DataError

__all__ = ["app", "console", "main"]

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
for command in (solve, path, predict, inspect):
    app.command(rich_help_panel="Your data")(command)
_PAPER = "The paper and its methods"
for study in (reproduce, compare, explore):
    app.command(rich_help_panel=_PAPER)(study)
app.command("list", rich_help_panel=_PAPER)(show)
app.add_typer(data_app, name="data", rich_help_panel=_PAPER)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fwflow {__version__}")
        raise typer.Exit


@app.callback(help=__doc__, epilog="fwflow COMMAND --help shows the options of a command, and examples.")
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the Python traceback of an error.")] = False,
) -> None: ...


def main() -> None:
    """Run the command line. An error is one line; ``--debug``, at any position, adds the traceback.

    The exit code is 2 for wrong input, for files that cannot be read or written and for worker processes that were
    killed, and 1 for unexpected errors.
    """
    arguments = sys.argv[1:]
    try:
        app([argument for argument in arguments if argument != "--debug"])
    except Exception as error:
        if "--debug" in arguments:
            traceback.print_exc()
        plain = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
        message = " ".join(plain.splitlines())
        if isinstance(error, InputError | DataError | OSError | BrokenExecutor):
            typer.echo(f"error: {message}", err=True)
            sys.exit(2)
        typer.echo(f"unexpected error; add --debug to see the traceback: {type(error).__name__} {message}", err=True)
        sys.exit(1)
