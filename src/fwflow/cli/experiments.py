"""``fwflow reproduce``, ``compare``, ``explore`` and ``data``: experiments, comparisons of methods, and their data."""

from __future__ import annotations

import os
import tomllib
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from fwflow import datasets
from fwflow._validation import InputError
from fwflow.cli import options
from fwflow.cli.options import plain
from fwflow.cli.screen import on_interrupt, print_table

DataFolderOption = Annotated[
    Path | None,
    typer.Option(
        "--data", help="Folder with official data files. Default: $FWFLOW_DATA.", exists=True, file_okay=False
    ),
]

# Consequence of Ctrl-C, for the message of `on_interrupt`.
_INTERRUPTED = "finished results are kept; run the same command again to continue"


def use_data(folder: Path | None) -> None:
    """Let the loaders, also those of worker processes, search this folder first."""
    if folder is not None:
        os.environ["FWFLOW_DATA"] = str(folder.resolve())


def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="E1 to E8. Default: all.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick/--full", help="Small settings; takes less than a minute.")] = False,
    data: DataFolderOption = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with one table of settings per experiment.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="One setting, such as E4.iterations=50.")] = None,
    workers: options.WorkersOption = None,
) -> None:
    """Run the experiments of the paper, and write one HTML report."""
    from fwflow.reproduction import reproduce as run

    use_data(data)
    overrides: dict[str, dict[str, Any]] = {}
    if config is not None:
        try:
            overrides = tomllib.loads(config.read_text(encoding="utf-8"))
        except ValueError as error:  # The file is not TOML, or not UTF-8.
            raise InputError(f"--config {config} is not a TOML file: {error}") from error
    for name, table in overrides.items():
        if not isinstance(table, dict):
            raise InputError(f"--config {config}: expected a table [{name}] of settings; got {name} = {table!r}")
    for text in setting or ():
        name, _, value = text.partition("=")
        experiment, _, field = name.partition(".")
        if not (experiment and field and value):
            raise InputError(f"--set {text!r}: expected EXPERIMENT.SETTING=VALUE, for example E4.iterations=50")
        overrides.setdefault(experiment, {})[field] = _toml_value(value)
    with on_interrupt(_INTERRUPTED):
        page = run([name.upper() for name in experiments or ()], out, quick=quick, overrides=overrides, workers=workers)
    typer.echo(f"report: {page}")


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def compare(
    ctx: typer.Context,
    problem: Annotated[
        str,
        typer.Argument(
            help="Data file, as in fwflow solve, or built-in problem: triangle, sensing, madelon, gisette or movielens."
        ),
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", "-m", help="Method, or TOML file of a tableau. Default: fw, midpoint and rk44."),
    ] = None,
    line_searches: Annotated[
        list[str] | None, typer.Option("--line-search", "-l", help="Also run with this line search.")
    ] = None,
    momenta: Annotated[list[str] | None, typer.Option("--momentum", help="Also run with this momentum.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", help="Number of iterations.", **plain(int, 1))] = 200,
    constraint: options.SetOption = "l1:10",
    target: options.TargetOption = None,
    loss: options.LossOption = "squared",
    rho: options.RhoOption = 1.0,
    intercept: options.InterceptOption = False,
    target_file: options.TargetFileOption = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the report and its figures.")] = Path("comparison"),
    data: DataFolderOption = None,
    workers: options.WorkersOption = None,
) -> None:
    """Compare methods, line searches and momentum on one problem.

    Options for methods, line searches and momentum may be repeated. Options that describe a data file have the same
    meaning as in fwflow solve. A built-in problem has its own set and loss.

    [bold]Example[/bold]

    fwflow compare shop.csv --target bought --loss logistic --set l1:10 -m fw -m rk44 -l exact
    """
    from fwflow.reproduction.problems import PROBLEMS
    from fwflow.reproduction.runs import compare as run

    described = {
        "constraint": constraint,
        "target": target,
        "loss": loss,
        "rho": rho,
        "intercept": intercept,
        "target_file": None if target_file is None else str(target_file),
        "drop": tuple(drop or ()),
        "header": header,
    }
    if problem in PROBLEMS:
        for option in (option for option in ctx.command.params if option.name in described):
            source = ctx.get_parameter_source(str(option.name))
            if source is not None and source.name == "COMMANDLINE":
                raise InputError(f"{option.opts[0]} is for data files; the built-in problem {problem!r} is fixed")
        described = {}
    use_data(data)
    with on_interrupt(_INTERRUPTED):
        table, page = run(
            problem,
            methods or ["fw", "midpoint", "rk44"],
            line_searches or [],
            momenta or [],
            iterations=iterations,
            out=out,
            workers=workers,
            **described,
        )
    print_table(table.title, table.header, table.rows)
    typer.echo(f"page: {page}")


def explore(
    out: Annotated[Path, typer.Option(help="HTML file to write.")] = Path("explorer.html"),
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write an interactive page that draws the steps of the methods next to the flow."""
    from fwflow.reproduction import explorer

    page = explorer.write(out, progress=True)
    typer.echo(f"page: {page}")
    if show:
        webbrowser.open(page.resolve().as_uri())


data_app = typer.Typer(help="List, find and download the data sets of the experiments.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="madelon, gisette or movielens.")]


@data_app.command("list")
def list_data(data: DataFolderOption = None) -> None:
    """List every data set, where it is read from, and its terms of use."""
    use_data(data)
    rows = [(r.name, r.split, r.found, str(r.where or "-"), r.terms) for r in datasets.available()]
    print_table("data sets", ("name", "split", "found", "where", "terms"), rows, text=5)


@data_app.command()
def fetch(name: NameArgument) -> None:
    """Download a data set from its official site into the cache."""
    typer.echo(f"{name}: {datasets.fetch(name, progress=True)}")


@data_app.command()
def where(name: NameArgument, data: DataFolderOption = None) -> None:
    """Print the folder from which a data set is read."""
    use_data(data)
    found = datasets.where(name)
    if found is None:
        typer.echo(f"{name} is not on this machine; try: fwflow data fetch {name}", err=True)
        raise typer.Exit(1)
    typer.echo(found)
