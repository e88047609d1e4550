"""``fwflow solve``: a linear model from a file of data, certified, in a file of its own."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

import fwflow as fw
from fwflow._validation import InputError
from fwflow.cli import figures
from fwflow.cli.inspect import described, show_model
from fwflow.cli.options import (
    DataFile,
    DropOption,
    HeaderOption,
    InterceptOption,
    JsonOption,
    LargestOption,
    LossOption,
    MethodOption,
    RhoOption,
    RtolOption,
    SetOption,
    TargetFileOption,
    TargetOption,
    TolOption,
    check_names,
    check_writable,
    parse_set,
    plain,
    read_problem,
    tolerances,
)
from fwflow.cli.running import Checkpoints, progress, resumed
from fwflow.cli.screen import continued, heard, note, print_json, unbroken
from fwflow.run.result import Status
from fwflow.tables.model_files import FittedModel

#: What to do next, in terms of the command line.
_SAID = {
    Status.ITERATIONS: "The iteration limit was reached; raise --max-iter, with --checkpoint and --resume to continue.",
    Status.TIME: "The time limit was reached; raise --max-time, or continue with --checkpoint and --resume.",
    Status.INTERRUPTED: "The run was interrupted; this is the best point so far.",
}


def solve(
    data: DataFile,
    constraint: SetOption,
    target: TargetOption = None,
    loss: LossOption = "squared",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file for the model.")] = None,
    method: MethodOption = "auto",
    max_iter: Annotated[
        int, typer.Option(help="Iterations, those before --resume included.", **plain(int, 0))
    ] = 10_000,
    max_time: Annotated[float | None, typer.Option(help="Seconds of this run.", **plain(float))] = None,
    tol: TolOption = None,
    rtol: RtolOption = None,
    rho: RhoOption = 1.0,
    intercept: InterceptOption = False,
    target_file: TargetFileOption = None,
    drop: DropOption = None,
    header: HeaderOption = None,
    trace: Annotated[Path | None, typer.Option(help="A CSV file for the history of the run.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A figure of run and coefficients: .svg, .png, .pdf.")] = None,
    largest: LargestOption = 10,
    checkpoint: Annotated[Path | None, typer.Option(help="A file from which --resume continues the run.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints.", **plain(float, 0))] = 60.0,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from --checkpoint, if it is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a linear model to a file of data.

    Exit codes: 0 the gap is certified, 1 an unexpected error, 2 wrong input, 3 the tolerance was not reached, 130
    interrupted. In the last two cases, the best model so far is written.

    [bold]Examples[/bold]

    fwflow solve shop.csv --target bought --loss logistic --set l1:10 --out model.npz

    fwflow solve big.svm.gz --set l1:100 --checkpoint run.npz --resume --out model.npz
    """
    C = parse_set(constraint)
    check_names(loss, method)
    figures.check(plot)
    check_writable({"--out": out, "--trace": trace, "--plot": plot, "--checkpoint": checkpoint}, (data, target_file))
    _check_replaceable(out)
    limits: dict[str, Any] = dict(zip(("tol", "rtol"), tolerances(tol, rtol), strict=True))
    state = resumed(checkpoint, resume)
    with continued("there was no model yet, so none is written"):
        problem = read_problem(data, target, target_file, drop or (), header, loss, rho, intercept)
        saved = Checkpoints(checkpoint, every)
        shown = progress(limits["tol"], limits["rtol"])
        with heard() as interrupt, shown as show, warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")

            def watch(state: fw.State) -> None:
                saved(state)
                show(state)
                interrupt()

            result = fw.minimize(
                problem.f,
                C,
                method=method,
                max_iter=max_iter if state is None else max(0, max_iter - state.k),
                max_time=max_time,
                callback=watch,
                state=state,
                **limits,
            )
    with continued(f"the model is in {out}" if out else "the model was not to be kept"), unbroken():
        for message in dict.fromkeys(str(warning.message) for warning in warned):
            note(f"warning: {message}")
        model = FittedModel.of(
            result,
            problem.names,
            loss=loss,
            constraint=constraint,
            rows=problem.f.design.shape[0],
            target=problem.target,
            classes=problem.classes,
            dropped=tuple(drop or ()),
            data=str(data),
            intercept=problem.f.intercept_at(result.x),
            message=_SAID.get(result.status, ""),
        )
        saved.save(result.state)
        if out is not None:
            model.save(out)
        if trace is not None:
            result.trace.to_csv(trace)
        if plot is not None:
            figures.run(result, model, largest).savefig(plot)
        summary = described(model, largest) | {"status": result.status.name, "why": result.method.why}
        if as_json:
            print_json(summary | {"out": None if out is None else str(out)})
        else:
            show_model(model, largest, {"because": result.method.why})
            if out is not None:
                typer.echo(f"model: {out}")
    if result.status is Status.INTERRUPTED:
        note(f"interrupted; the best model so far is {'in ' + str(out) if out else 'above'}")
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(3)


def _check_replaceable(out: Path | None) -> None:
    if out is not None and out.exists():
        try:
            FittedModel.load(out)
        except ValueError:
            raise InputError(f"--out {out} is there already and holds no model, so it is not overwritten") from None
