"""fwflow at the command line: reproduce the paper, compare methods, manage data."""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.table import Table
except ModuleNotFoundError as missing:  # the console script is installed with the core
    sys.exit(f"fwflow's command line needs {missing.name}: pip install 'fwflow[cli]'")

app = typer.Typer(help=__doc__, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
data_app = typer.Typer(help="Where the data sets are, and how to get them.", no_args_is_help=True)
app.add_typer(data_app, name="data")
console = Console()

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder with official data files (default: $FWFLOW_DATA).", exists=True, file_okay=False
    ),
]


def _use_data(folder: Path | None) -> None:
    if folder is not None:  # worker processes inherit it
        os.environ["FWFLOW_DATA"] = str(folder.resolve())


@app.command()
def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="E1 to E8; all by default.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick/--full", help="Smaller settings, under a minute.")] = False,
    data: DataOption = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with a table of settings per experiment.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="One setting, as E4.iterations=50.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core by default.")] = None,
) -> None:
    """Run the paper's experiments into one HTML report."""
    from fwflow.experiments import reproduce as run

    _use_data(data)
    overrides: dict[str, dict[str, Any]] = tomllib.loads(config.read_text()) if config else {}
    for text in setting or ():
        name, _, value = text.partition("=")
        experiment, _, field = name.partition(".")
        if not (experiment and field and value):
            raise ValueError(f"--set {text!r}: expected EXPERIMENT.SETTING=VALUE, for example E4.iterations=50")
        overrides.setdefault(experiment, {})[field] = _toml_value(value)
    names = [name.upper() for name in experiments or ()]
    page = run(names, out, quick=quick, overrides=overrides, workers=workers)
    console.print(f"report: [bold]{page}[/bold]")


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


@app.command()
def compare(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or a .npz, .csv or libsvm file of your own.")],
    methods: Annotated[list[str] | None, typer.Option("--method", "-m", help="A tableau by name or file.")] = None,
    line_searches: Annotated[list[str] | None, typer.Option("--line-search", "-l", help="Add this variant.")] = None,
    momenta: Annotated[list[str] | None, typer.Option("--momentum", help="Add this variant.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1)] = 200,
    loss: Annotated[str, typer.Option(help="For your own data: squared, logistic or huber.")] = "squared",
    radius: Annotated[float, typer.Option(help="For your own data: radius of the L1 ball.")] = 10.0,
    out: Annotated[Path, typer.Option(help="Folder for the page and the figures.")] = Path("comparison"),
    data: DataOption = None,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core by default.")] = None,
) -> None:
    """Compare tableaus, line searches and momentum on one problem."""
    from fwflow.experiments.compare import compare as run

    _use_data(data)
    table, page = run(
        problem,
        methods or ["fw", "midpoint", "rk44"],
        line_searches or [],
        momenta or [],
        iterations=iterations,
        loss=loss,
        radius=radius,
        out=out,
        workers=workers,
    )
    _print(table.title, table.header, table.rows)
    console.print(f"page: [bold]{page}[/bold]")


@data_app.command("list")
def list_data(data: DataOption = None) -> None:
    """Every data set, where it would come from, and its terms."""
    from fwflow import datasets

    _use_data(data)
    rows = datasets.available()
    _print(
        "data sets",
        ("name", "found", "where", "terms"),
        [(r.name, r.found, str(r.where or "-"), r.terms) for r in rows],
    )


@data_app.command()
def fetch(name: Annotated[str, typer.Argument(help="madelon, gisette or movielens.")]) -> None:
    """Download a data set from its official place into the cache."""
    from fwflow import datasets

    console.print(f"{name}: {datasets.fetch(name, progress=True)}")


@data_app.command()
def where(name: Annotated[str, typer.Argument(help="madelon, gisette or movielens.")], data: DataOption = None) -> None:
    """The folder a data set is read from."""
    from fwflow import datasets

    _use_data(data)
    found = datasets.where(name)
    if found is None:
        console.print(f"{name} is not on this machine; try: fwflow data fetch {name}", style="yellow")
        raise typer.Exit(1)
    print(found)


def _print(title: str, header: Any, rows: Any) -> None:
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, overflow="fold", justify="left" if i < 2 else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    """Run the command line; errors of use are one line, not a traceback."""
    try:
        app()
    except (ValueError, OSError) as error:
        Console(stderr=True).print(f"[red]error:[/red] {error}", highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("interrupted; results written so far are kept, and the same command continues")
        sys.exit(130)


if __name__ == "__main__":
    main()
