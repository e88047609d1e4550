"""``fwflow data``: list, find and download the data sets."""

from __future__ import annotations

from typing import Annotated

import typer

from fwflow import datasets
from fwflow.cli.options import DataFolderOption, use_data
from fwflow.cli.screen import print_table

app = typer.Typer(help="List, find and download the data sets of the experiments.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="madelon, gisette or movielens.")]


@app.command("list")
def list_data(data: DataFolderOption = None) -> None:
    """List every data set, where it is read from, and its terms of use."""
    use_data(data)
    rows = [(r.name, r.split, r.found, str(r.where or "-"), r.terms) for r in datasets.available()]
    print_table("data sets", ("name", "split", "found", "where", "terms"), rows, text=5)


@app.command()
def fetch(name: NameArgument) -> None:
    """Download a data set from its official site into the cache."""
    typer.echo(f"{name}: {datasets.fetch(name, progress=True)}")


@app.command()
def where(name: NameArgument, data: DataFolderOption = None) -> None:
    """Print the folder from which a data set is read."""
    use_data(data)
    found = datasets.where(name)
    if found is None:
        typer.echo(f"{name} is not on this machine; try: fwflow data fetch {name}", err=True)
        raise typer.Exit(1)
    typer.echo(found)
