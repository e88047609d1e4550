"""Command line of fwflow."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from typing import Annotated, Any

try:
    import typer

    from fwflow.cli.catalogues import show
    from fwflow.cli.cuts import maxcut
    from fwflow.cli.experiments import compare, data, explore, fetch, list_data, reproduce, where
    from fwflow.cli.manual import Command, Group, documented, manual
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

# Class of all errors about options and arguments. It belongs to Click, or to the copy of Click within newer Typer.
_WrongUse: Any = typer.BadParameter.__base__

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, rich_markup_mode="rich")
data_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


def _add(to: typer.Typer, panel: str | None, **commands: Callable[..., None]) -> None:
    for name, command in commands.items():
        to.command(name, cls=Command, help=manual(command).help, rich_help_panel=panel)(command)


_PAPER = "The paper and its methods"
_add(app, "Your data", solve=solve, path=path, predict=predict, inspect=inspect, maxcut=maxcut)
_add(app, _PAPER, reproduce=reproduce, compare=compare, explore=explore, list=show)
_add(data_app, None, list=list_data, fetch=fetch, where=where)
data_app.callback(cls=Group, help=manual(data).help)(data)
app.add_typer(data_app, name="data", rich_help_panel=_PAPER)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fwflow {__version__}")
        raise typer.Exit


@documented(
    (
        "Fit a sparse classifier to a table and save the model",
        "fwflow solve shop.csv --target bought --loss logistic --set l1:10 --out model.npz",
    ),
    ("Predict new rows with the model", "fwflow predict model.npz new.csv --out predictions.csv"),
    ("Run the experiments of the paper with small settings", "fwflow reproduce --quick --out report"),
)
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the Python traceback of an error.")] = False,
) -> None:
    """Fit linear models under constraints with Frank-Wolfe methods.

    The commands fit models to data files, predict with them, and reproduce the experiments of the paper on multistep
    Frank-Wolfe methods. The command fwflow COMMAND --help shows the options of a command and examples.
    """


app.callback(cls=Group, help=manual(root).help)(root)


def main() -> None:
    """Run the command line. An error is one line; ``--debug``, at any position, adds the traceback.

    The exit code is 2 for wrong input, for files that cannot be read or written and for worker processes that were
    killed, and 1 for unexpected errors.
    """
    arguments = sys.argv[1:]
    try:
        sys.exit(app([argument for argument in arguments if argument != "--debug"], standalone_mode=False))
    except _WrongUse as error:
        lines = error.format_message().splitlines()
        typer.echo(
            f"error: {lines[0]}" if len(lines) == 1 else "\n".join(lines), err=True
        )  # Several lines are the help.
        sys.exit(2)
    except typer.Abort:
        sys.exit(130)
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
