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
from fwflow.cli.manual import INTERRUPTED, KILLED, documented
from fwflow.cli.options import METHOD, OUTPUT, plain
from fwflow.cli.screen import on_interrupt, print_table

DataFolderOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Folder with official data files of the experiments. Default: the environment variable FWFLOW_DATA.",
        exists=True,
        file_okay=False,
        metavar="FOLDER",
    ),
]

# Consequence of Ctrl-C, for the message of `on_interrupt`.
_INTERRUPTED = "finished results are kept; run the same command again to continue"
_CODES = {2: KILLED, 130: f"{INTERRUPTED} The same command continues the run."}


def use_data(folder: Path | None) -> None:
    """Let the loaders, also those of worker processes, search this folder first."""
    if folder is not None:
        os.environ["FWFLOW_DATA"] = str(folder.resolve())


@documented(
    ("Run all experiments with small settings", "fwflow reproduce --quick --out report"),
    ("Run two experiments with the settings of the paper", "fwflow reproduce E3 E4 --out report"),
    ("Change one setting of an experiment", "fwflow reproduce E4 --set E4.iterations=50"),
    exit_codes={
        2: KILLED,
        130: f"{INTERRUPTED} The same command continues the run.",
    },
)
def reproduce(
    experiments: Annotated[
        list[str] | None, typer.Argument(help="Experiments to run: E1 to E11. Default: all.", metavar="EXPERIMENT")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick/--full", help="Use small settings, or the settings of the paper.")
    ] = False,
    config: Annotated[
        Path | None, typer.Option(help="TOML file with one table of settings per experiment.", metavar="FILE")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="One setting, such as E4.iterations=50. Repeat the option for more settings.",
            metavar="SETTING",
        ),
    ] = None,
    data: DataFolderOption = None,
    workers: options.WorkersOption = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.", metavar="FOLDER")] = Path("reproduction"),
) -> None:
    """Run the experiments of the paper and write an HTML report.

    The report compares each statement of the paper with the results of the run. It contains all figures and tables.
    """
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


@documented(
    (
        "Compare two methods, without and with exact line search, on your data",
        "fwflow compare shop.csv --target bought --loss logistic --set l1:10 -m fw -m rk44 -l exact",
    ),
    (
        "Compare the default methods, without and with momentum, on Gisette",
        "fwflow compare gisette --momentum nesterov --iterations 100 --out gisette-methods",
    ),
    exit_codes=_CODES,
)
def compare(
    ctx: typer.Context,
    problem: Annotated[
        str,
        typer.Argument(
            help="Data file, as in fwflow solve, or built-in problem: triangle, sensing, madelon, gisette or "
            "movielens.",
            metavar="PROBLEM",
        ),
    ],
    methods: Annotated[
        list[str] | None,
        typer.Option(
            "--method",
            "-m",
            help="Name of a method or tableau, or TOML file of a tableau. Repeat the option for more methods. "
            "Default: fw, midpoint and rk44.",
            metavar="NAME",
            rich_help_panel=METHOD,
        ),
    ] = None,
    line_searches: Annotated[
        list[str] | None,
        typer.Option(
            "--line-search",
            "-l",
            help="Also run each method with this line search. Repeat the option for more line searches.",
            metavar="NAME",
            rich_help_panel=METHOD,
        ),
    ] = None,
    momenta: Annotated[
        list[str] | None,
        typer.Option(
            "--momentum", help="Also run each method with this momentum.", metavar="NAME", rich_help_panel=METHOD
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option("--iterations", "-n", help="Number of iterations.", rich_help_panel=METHOD, **plain(int, 1)),
    ] = 200,
    constraint: options.SetOption = "l1:10",
    loss: options.LossOption = "squared",
    rho: options.RhoOption = None,
    quantile: options.QuantileOption = 0.5,
    intercept: options.InterceptOption = True,
    target: options.TargetOption = None,
    target_file: options.TargetFileOption = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
    raw: options.RawOption = False,
    categorical: options.CategoricalOption = None,
    numeric: options.NumericOption = None,
    dates: options.DateOption = None,
    missing: options.MissingOption = "impute",
    scale: options.ScaleOption = True,
    data: DataFolderOption = None,
    workers: options.WorkersOption = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the report and its figures.", metavar="FOLDER", rich_help_panel=OUTPUT)
    ] = Path("comparison"),
) -> None:
    """Compare methods, line searches and momentum on one problem.

    The command prints a table and writes an HTML report with figures. Options that describe a model or a data file have
    the same meaning as in fwflow solve. Built-in problems do not accept these options.
    """
    from fwflow.reproduction.problems import PROBLEMS
    from fwflow.reproduction.runs import compare as run

    described = {
        "constraint": constraint,
        "target": target,
        "loss": loss,
        "rho": rho,
        "quantile": quantile,
        "intercept": intercept,
        "target_file": None if target_file is None else str(target_file),
        "drop": tuple(drop or ()),
        "header": header,
        "raw": raw,
        "categorical": tuple(categorical or ()),
        "numeric": tuple(numeric or ()),
        "dates": tuple(dates or ()),
        "missing": missing,
        "scale": scale,
    }
    if problem in PROBLEMS:
        for option in (
            option for option in ctx.command.params if {"date": "dates"}.get(str(option.name), option.name) in described
        ):
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
    typer.echo(f"report: {page}")


@documented(("Write the page and open it in the browser", "fwflow explore --out explorer.html --open"))
def explore(
    out: Annotated[Path, typer.Option(help="HTML file to write.", metavar="FILE")] = Path("explorer.html"),
    show: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write an interactive page that shows the steps of the methods beside the flow.

    The page shows problems in the plane. It loads no other file, so it works without internet.
    """
    from fwflow.reproduction import explorer

    page = explorer.write(out)
    typer.echo(f"page: {page}")
    if show:
        webbrowser.open(page.resolve().as_uri())


NameArgument = Annotated[str, typer.Argument(help="Data set: madelon, gisette or movielens.", metavar="NAME")]


@documented(("List the data sets", "fwflow data list"), ("Download MovieLens 100K", "fwflow data fetch movielens"))
def data() -> None:
    """List, find and download the data sets of the experiments."""


@documented(("List the data sets", "fwflow data list"))
def list_data(data: DataFolderOption = None) -> None:
    """List every data set, the folder that it is read from, and its terms of use."""
    use_data(data)
    rows = [(r.name, r.split, r.found, str(r.where or "-"), r.terms) for r in datasets.available()]
    print_table("data sets", ("name", "split", "found", "where", "terms"), rows, text=5)


@documented(("Download MovieLens 100K", "fwflow data fetch movielens"))
def fetch(name: NameArgument) -> None:
    """Download a data set from its official site into the cache.

    The cache is the folder in the environment variable FWFLOW_CACHE, or the cache folder of the platform.
    """
    typer.echo(f"{name}: {datasets.fetch(name, progress=True)}")


@documented(
    ("Print the folder of Gisette", "fwflow data where gisette"),
    exit_codes={1: "The data set is not on this machine, or an unexpected error occurred."},
)
def where(name: NameArgument, data: DataFolderOption = None) -> None:
    """Print the folder that a data set is read from."""
    use_data(data)
    found = datasets.where(name)
    if found is None:
        typer.echo(f"{name} is not on this machine; try: fwflow data fetch {name}", err=True)
        raise typer.Exit(1)
    typer.echo(found)
