"""``fwflow solve``: fit a linear model to a data file, and save it."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated

import typer

import fwflow as fw
from fwflow._validation import InputError
from fwflow.cli import figures, options
from fwflow.cli.models import described, show_model
from fwflow.cli.options import plain, read_problem
from fwflow.cli.running import Checkpoints, progress, resumed
from fwflow.cli.screen import continued, heard, note, print_json, unbroken
from fwflow.run.result import Status
from fwflow.tables.model_files import FittedModel

#: Messages of statuses for which the command line has its own advice.
_MESSAGES = {
    Status.ITERATIONS: "The iteration limit was reached; raise --max-iter, with --checkpoint and --resume to continue.",
    Status.TIME: "The time limit was reached; raise --max-time, or continue with --checkpoint and --resume.",
    Status.INTERRUPTED: "The run was interrupted; this is the best point so far.",
}


def solve(
    data: options.DataFile,
    constraint: options.SetOption,
    target: options.TargetOption = None,
    loss: options.LossOption = "squared",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File for the model (.npz).")] = None,
    method: options.MethodOption = "auto",
    max_iter: Annotated[
        int, typer.Option(help="Maximum number of iterations, including those before --resume.", **plain(int, 0))
    ] = 10_000,
    max_time: Annotated[
        float | None, typer.Option(help="Maximum time of this run, in seconds.", **plain(float))
    ] = None,
    tol: options.TolOption = None,
    rtol: options.RtolOption = None,
    rho: options.RhoOption = 1.0,
    intercept: options.InterceptOption = False,
    target_file: options.TargetFileOption = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
    trace: Annotated[Path | None, typer.Option(help="CSV file for the values of every iteration.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Figure of the gap and the coefficients: .svg, .png or .pdf.")
    ] = None,
    largest: options.LargestOption = 10,
    checkpoint: Annotated[Path | None, typer.Option(help="File for the state of the run, used by --resume.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between two checkpoints.", **plain(float, 0))] = 60.0,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the file --checkpoint, if it exists.")
    ] = False,
    as_json: options.JsonOption = False,
) -> None:
    """Fit a linear model to a data file.

    Exit codes: 0 the tolerance is reached and verified, 1 unexpected error, 2 wrong input, 3 the tolerance is not
    reached, 130 interrupted. With 3 and 130, the best model so far is written.

    [bold]Examples[/bold]

    fwflow solve shop.csv --target bought --loss logistic --set l1:10 --out model.npz

    fwflow solve big.svm.gz --set l1:100 --checkpoint run.npz --resume --out model.npz
    """
    C = options.parse_set(constraint)
    options.check_names(loss, method)
    figures.check(plot)
    outputs = {"--out": out, "--trace": trace, "--plot": plot, "--checkpoint": checkpoint}
    options.check_writable(outputs, (data, target_file))
    _check_replaceable(out)
    if tol is None and rtol is None:
        rtol = 1e-6  # A relative default suits data in any unit.
    tol, rtol = tol or 0.0, rtol or 0.0
    state = resumed(checkpoint, resume)
    with continued("there was no model yet, so none is written"):
        problem = read_problem(data, target, target_file, drop or (), header, loss, rho, intercept)
        saved = Checkpoints(checkpoint, every)
        with heard() as interrupt, progress(tol, rtol) as show, warnings.catch_warnings(record=True) as warned:
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
                tol=tol,
                rtol=rtol,
            )
    with continued(f"the model is in {out}" if out else "without --out, the model is not saved"), unbroken():
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
            message=_MESSAGES.get(result.status, result.message),
        )
        saved.save(result.state)
        if out is not None:
            model.save(out)
        if trace is not None:
            result.trace.to_csv(trace)
        if plot is not None:
            figures.run(result, model, largest).savefig(plot)
        if as_json:
            why = {"status": result.status.name, "why": result.method.why}
            print_json(described(model, largest) | why | {"out": None if out is None else str(out)})
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
            raise InputError(f"--out {out} exists and is not a model file, so it is not overwritten") from None
