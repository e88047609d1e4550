"""fwflow at the command line: reproduce the paper, compare methods, manage data."""

from __future__ import annotations

import os
import sys
import tomllib
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

try:
    import typer
    from rich.console import Console
    from rich.markup import escape
    from rich.measure import Measurement
    from rich.table import Table
except ModuleNotFoundError as missing:  # the console script is installed with the core
    sys.exit(f"fwflow's command line needs {missing.name}: pip install 'fwflow[cli]'")

from fwflow import __version__

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
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


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fwflow {__version__}")
        raise typer.Exit


@app.callback(help=__doc__)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None: ...


@contextmanager
def _continued() -> Iterator[None]:
    """Ctrl-C ends a long run in peace: it can be continued."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo("interrupted; results written so far are kept, and the same command continues", err=True)
        raise typer.Exit(130) from None


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
    overrides: dict[str, dict[str, Any]] = tomllib.loads(config.read_text(encoding="utf-8")) if config else {}
    for name, table in overrides.items():
        if not isinstance(table, dict):
            raise ValueError(f"--config {config}: expected a table [{name}] of settings; got {name} = {table!r}")
    for text in setting or ():
        name, _, value = text.partition("=")
        experiment, _, field = name.partition(".")
        if not (experiment and field and value):
            raise ValueError(f"--set {text!r}: expected EXPERIMENT.SETTING=VALUE, for example E4.iterations=50")
        overrides.setdefault(experiment, {})[field] = _toml_value(value)
    names = [name.upper() for name in experiments or ()]
    with _continued():
        page = run(names, out, quick=quick, overrides=overrides, workers=workers)
    typer.echo(f"report: {page}")  # not through rich, which would fold a long path


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


@app.command()
def compare(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or a .npz, .csv or libsvm file of your own.")],
    methods: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="A method that minimize takes, or a tableau's file.")
    ] = None,
    line_searches: Annotated[list[str] | None, typer.Option("--line-search", "-l", help="Add this variant.")] = None,
    momenta: Annotated[list[str] | None, typer.Option("--momentum", help="Add this variant.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", min=1)] = 200,
    loss: Annotated[str | None, typer.Option(help="For your own data: squared (default), logistic or huber.")] = None,
    radius: Annotated[
        float | None, typer.Option(help="For your own data: radius of the L1 ball (default: 10).")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page and the figures.")] = Path("comparison"),
    data: DataOption = None,
    workers: Annotated[int | None, typer.Option(help="Processes; one per core by default.")] = None,
) -> None:
    """Compare methods, line searches and momentum on one problem."""
    from fwflow.experiments.compare import compare as run
    from fwflow.experiments.problems import PROBLEMS

    if problem in PROBLEMS and (loss, radius) != (None, None):
        raise ValueError(f"--loss and --radius are for data of your own; the problem {problem!r} has its own")
    _use_data(data)
    with _continued():
        table, page = run(
            problem,
            methods or ["fw", "midpoint", "rk44"],
            line_searches or [],
            momenta or [],
            iterations=iterations,
            loss="squared" if loss is None else loss,
            radius=10.0 if radius is None else radius,
            out=out,
            workers=workers,
        )
    _print(table.title, table.header, table.rows)
    typer.echo(f"page: {page}")


@app.command()
def explore(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explorer.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write a page on which to watch the methods step beside the flow."""
    from fwflow import explorer

    page = explorer.write(out, progress=True)
    typer.echo(f"page: {page}")
    if show:
        webbrowser.open(page.resolve().as_uri())


@data_app.command("list")
def list_data(data: DataOption = None) -> None:
    """Every data set, where it would come from, and its terms."""
    from fwflow import datasets

    _use_data(data)
    rows = [(r.name, r.split, r.found, str(r.where or "-"), r.terms) for r in datasets.available()]
    _print("data sets", ("name", "split", "found", "where", "terms"), rows, text=5)


@data_app.command()
def fetch(name: Annotated[str, typer.Argument(help="madelon, gisette or movielens.")]) -> None:
    """Download a data set from its official place into the cache."""
    from fwflow import datasets

    typer.echo(f"{name}: {datasets.fetch(name, progress=True)}")


@data_app.command()
def where(name: Annotated[str, typer.Argument(help="madelon, gisette or movielens.")], data: DataOption = None) -> None:
    """The folder a data set is read from."""
    from fwflow import datasets

    _use_data(data)
    found = datasets.where(name)
    if found is None:
        typer.echo(f"{name} is not on this machine; try: fwflow data fetch {name}", err=True)
        raise typer.Exit(1)
    typer.echo(found)


def _print(title: str, header: Any, rows: Any, text: int = 2) -> None:
    table = Table(title=title, title_justify="left")
    for i, name in enumerate(header):
        table.add_column(name, overflow="fold", justify="left" if i < text else "right")
    for row in rows:
        table.add_row(*map(escape, row))
    # As wide as it must be: a terminal that folds a line is better than a number cut in two.
    wanted = Measurement.get(console, console.options.update(max_width=10_000), table).maximum
    Console(width=max(wanted, 20)).print(table)


def main() -> None:
    """Run the command line; errors of use are one line, not a traceback."""
    try:
        app()
    except (ValueError, OSError, RuntimeError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
