"""``fwflow reproduce``, ``compare`` and ``explore``: the paper and its methods."""

from __future__ import annotations

import tomllib
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from fwflow._validation import InputError
from fwflow.cli.data import DataOption, use_data
from fwflow.cli.options import WorkersOption, plain
from fwflow.cli.screen import continued, print_table
from fwflow.objectives.losses import losses


def reproduce(
    experiments: Annotated[list[str] | None, typer.Argument(help="E1 to E8; all by default.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("reproduction"),
    quick: Annotated[bool, typer.Option("--quick/--full", help="Smaller settings, under a minute.")] = False,
    data: DataOption = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with a table of settings per experiment.")] = None,
    setting: Annotated[list[str] | None, typer.Option("--set", help="One setting, as E4.iterations=50.")] = None,
    workers: WorkersOption = None,
) -> None:
    """Run the paper's experiments into one HTML report."""
    from fwflow.reproduction import reproduce as run

    use_data(data)
    overrides: dict[str, dict[str, Any]] = {}
    if config is not None:
        try:
            overrides = tomllib.loads(config.read_text(encoding="utf-8"))
        except ValueError as error:  # it is no TOML, or no text
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
    names = [name.upper() for name in experiments or ()]
    with continued("results written so far are kept, and the same command continues"):
        page = run(names, out, quick=quick, overrides=overrides, workers=workers)
    typer.echo(f"report: {page}")  # not through rich, which would fold a long path


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def compare(
    problem: Annotated[str, typer.Argument(help="A built-in problem, or a .npz, .csv or libsvm file of your own.")],
    methods: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="A method that minimize takes, or a tableau's file.")
    ] = None,
    line_searches: Annotated[list[str] | None, typer.Option("--line-search", "-l", help="Add this variant.")] = None,
    momenta: Annotated[list[str] | None, typer.Option("--momentum", help="Add this variant.")] = None,
    iterations: Annotated[int, typer.Option("--iterations", "-n", **plain(int, 1))] = 200,
    loss: Annotated[
        str | None, typer.Option(help=f"For your own data: {', '.join(losses)} (default: squared).")
    ] = None,
    radius: Annotated[
        float | None, typer.Option(help="For your own data: radius of the L1 ball (default: 10).", **plain(float))
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the page and the figures.")] = Path("comparison"),
    data: DataOption = None,
    workers: WorkersOption = None,
) -> None:
    """Compare methods, line searches and momentum on one problem."""
    from fwflow.reproduction.compare import compare as run
    from fwflow.reproduction.problems import PROBLEMS

    if problem in PROBLEMS and (loss, radius) != (None, None):
        raise InputError(f"--loss and --radius are for data of your own; the problem {problem!r} has its own")
    use_data(data)
    with continued("results written so far are kept, and the same command continues"):
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
    print_table(table.title, table.header, table.rows)
    typer.echo(f"page: {page}")


def explore(
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("explorer.html"),
    show: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
) -> None:
    """Write a page on which to watch the methods step beside the flow."""
    from fwflow.reproduction import explorer

    page = explorer.write(out, progress=True)
    typer.echo(f"page: {page}")
    if show:
        webbrowser.open(page.resolve().as_uri())
