"""``fwflow data``: where the data sets are, and how to get them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from fwflow.cli.screen import print_table

app = typer.Typer(help="Where the data sets are, and how to get them.", no_args_is_help=True)

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder with official data files (default: $FWFLOW_DATA).", exists=True, file_okay=False
    ),
]


def use_data(folder: Path | None) -> None:
    """Let the loaders, in worker processes too, look into this folder first."""
    if folder is not None:
        os.environ["FWFLOW_DATA"] = str(folder.resolve())


@app.command("list")
def list_data(data: DataOption = None) -> None:
    """Every data set, where it would come from, and its terms."""
    from fwflow import datasets

    use_data(data)
    rows = [(r.name, r.split, r.found, str(r.where or "-"), r.terms) for r in datasets.available()]
    print_table("data sets", ("name", "split", "found", "where", "terms"), rows, text=5)


@app.command()
def fetch(name: Annotated[str, typer.Argument(help="madelon, gisette or movielens.")]) -> None:
    """Download a data set from its official place into the cache."""
    from fwflow import datasets

    typer.echo(f"{name}: {datasets.fetch(name, progress=True)}")


@app.command()
def where(name: Annotated[str, typer.Argument(help="madelon, gisette or movielens.")], data: DataOption = None) -> None:
    """The folder a data set is read from."""
    from fwflow import datasets

    use_data(data)
    found = datasets.where(name)
    if found is None:
        typer.echo(f"{name} is not on this machine; try: fwflow data fetch {name}", err=True)
        raise typer.Exit(1)
    typer.echo(found)
