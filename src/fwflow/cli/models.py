"""``fwflow solve``, ``path``, ``inspect`` and ``predict``: fit linear models to a data file, and use them."""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import fwflow as fw
from fwflow._storage import replacing
from fwflow._validation import InputError, is_plain, parsed, positive, suggest
from fwflow.cli import figures, options
from fwflow.cli.options import plain
from fwflow.cli.screen import interrupt_check, note, on_interrupt, print_json, print_table, progress, uninterrupted
from fwflow.run.result import Status
from fwflow.tables import Target, read
from fwflow.tables.model_files import FittedModel
from fwflow.tables.problem import SETS, parse_set, read_problem
from fwflow.tables.readers import as_text

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
    C = parse_set(constraint)
    options.check_names(loss, method)
    figures.check(plot)
    outputs = {"--out": out, "--trace": trace, "--plot": plot, "--checkpoint": checkpoint}
    options.check_writable(outputs, (data, target_file))
    _check_replaceable(out)
    if tol is None and rtol is None:
        rtol = 1e-6  # A relative default suits data in any unit.
    tol, rtol = tol or 0.0, rtol or 0.0
    state = _resumed(checkpoint, resume)
    with on_interrupt("there was no model yet, so none is written"), interrupt_check() as check:
        problem = read_problem(data, target, target_file, drop or (), header, loss, rho, intercept)
        saved = Checkpoints(checkpoint, every)
        with progress(tol, rtol) as show, warnings.catch_warnings(record=True, action="always") as warned:

            def watch(state: fw.State) -> None:
                saved(state)
                show(state)
                check()

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
    consequence = f"the model is in {out}" if out else "without --out, the model is not saved"
    with on_interrupt(consequence), uninterrupted():
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
        why = result.method.why
        fields = {"status": result.status.name, "why": why, "out": None if out is None else str(out)}
        _show_model(model, largest, as_json, {"because": why}, fields)
        if out is not None and not as_json:
            typer.echo(f"model: {out}")
    if result.status is Status.INTERRUPTED:
        note(f"interrupted; the best model so far is {'in ' + str(out) if out else 'above'}")
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(3)


def _check_replaceable(out: Path | None) -> None:
    """Refuse to overwrite a file that is not a model."""
    if out is not None and out.exists():
        try:
            FittedModel.load(out)
        except ValueError:
            raise InputError(f"--out {out} exists and is not a model file, so it is not overwritten") from None


def _resumed(checkpoint: Path | None, resume: bool) -> fw.State | None:
    """Return the state to continue from, or None for a new run."""
    if resume and checkpoint is None:
        raise InputError("--resume needs --checkpoint, the file to continue from")
    if checkpoint is None or not checkpoint.exists():
        return None
    if not resume:
        raise InputError(f"--checkpoint {checkpoint} exists: continue it with --resume, or remove the file")
    return fw.State.load(checkpoint)


class Checkpoints:
    """Callback that saves the state of a run every `every` seconds."""

    def __init__(self, path: Path | None, every: float) -> None:
        self.path, self.every, self.last = path, every, time.monotonic()

    def __call__(self, state: fw.State) -> None:
        if time.monotonic() - self.last >= self.every:
            self.save(state)

    def save(self, state: fw.State) -> None:
        """Save the state. A full disk gives a warning and does not end the run."""
        if self.path is None:
            return
        try:
            state.save(self.path)
        except OSError as error:
            note(f"warning: {self.path}: {error.strerror or error}")
        self.last = time.monotonic()


def path(
    data: options.DataFile,
    target: options.TargetOption = None,
    constraint: options.FamilyOption = "l1",
    radii: Annotated[str, typer.Option(help="Number of radii to choose, or the radii: 20, or 0.5,1,2.")] = "20",
    loss: options.LossOption = "squared",
    method: options.MethodOption = "auto",
    max_iter: Annotated[int, typer.Option(help="Maximum number of iterations per radius.", **plain(int, 0))] = 10_000,
    rtol: Annotated[
        float,
        typer.Option(help="Tolerance of each model, as a fraction of the gap at the set's centre.", **plain(float)),
    ] = 1e-6,
    rho: options.RhoOption = 1.0,
    intercept: options.InterceptOption = False,
    target_file: options.TargetFileOption = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file for the coefficients.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Figure of the coefficients: .svg, .png or .pdf.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Fit models for increasing radii, up to the radius beyond which the objective no longer decreases.

    The exit codes are those of fwflow solve: 3 if a model did not reach the tolerance, 130 if interrupted. An
    interrupted path is written up to its last finished radius.

    [bold]Example[/bold]

    fwflow path shop.csv --target bought --loss logistic --set l1 --radii 20 --plot path.svg
    """
    if constraint.lower() not in options.FAMILIES:
        raise InputError(f"--set {constraint!r} is no set with a radius; {suggest(constraint, options.FAMILIES)}")
    make, _ = SETS[constraint.lower()]
    asked = _parse_radii(radii) | {"method": method, "max_iter": max_iter, "tol": 0.0, "rtol": rtol}
    options.check_names(loss, method)
    figures.check(plot)
    options.check_writable({"--out": out, "--plot": plot}, (data, target_file))
    with on_interrupt("no path is written"), interrupt_check() as interrupt:
        problem = read_problem(data, target, target_file, drop or (), header, loss, rho, intercept)
        found = fw.path(problem.f, make, callback=lambda state: interrupt(), **asked)
    results, done = found.results, found.radii[: len(found.results)].tolist()
    kept = f"the models of {len(done)} of {len(found.radii)} radii are {f'in {out}' if out else 'above'}"
    with on_interrupt(kept), uninterrupted():
        X = np.stack([result.x for result in results]) + 0.0  # Adding zero turns -0.0 into 0.0.
        constants = [problem.f.intercept_at(result.x) for result in results]
        if out is not None:
            columns = [done, constants, X] if intercept else [done, X]
            header_row = ["radius", *(["intercept"] if intercept else []), *problem.names]
            _write_csv(out, header_row, np.column_stack(columns).tolist())
        if plot is not None:
            figures.paths(done, X, problem.names, constraint).savefig(plot)
        rows: list[dict[str, Any]] = [
            {
                "radius": radius,
                "fun": float(r.fun),
                "gap": float(r.gap),
                "intercept": constant,
                "nonzero": int(np.count_nonzero(r.x)),
                "iterations": r.nit,
                "passes": float(r.n_design),
                "certified": bool(r.success),
                "largest": problem.names[int(np.abs(r.x).argmax())],
            }
            for radius, r, constant in zip(done, results, constants, strict=True)
        ]
        if as_json:
            print_json({"path": rows})
        else:
            numbers = "{radius:.4g} {fun:.6g} {gap:.1e} {nonzero} {iterations} {passes:.0f}"
            names = ("largest", "radius", "objective", "gap", "nonzero", "iterations", "passes")
            print_table("path", names, [(row["largest"], *numbers.format(**row).split()) for row in rows], text=1)
        if len(done) < len(found.radii):
            raise KeyboardInterrupt
    if short := sum(not result.success for result in results):
        note(f"{short} of {len(results)} models did not reach the tolerance")
        raise typer.Exit(3)


def _parse_radii(text: str) -> dict[str, Any]:
    """Return the argument of `fwflow.path` that the option --radii describes."""
    if is_plain(text) and text.isdecimal() and int(text) > 0:
        return {"n_radii": int(text)}
    try:
        return {"radii": [positive(parsed(part), "--radii") for part in text.split(",")]}
    except ValueError:
        raise InputError(f"--radii must be a positive count, or positive radii as in 0.5,1,2; got {text!r}") from None


ModelFile = Annotated[Path, typer.Argument(help="Model file written by fwflow solve.")]


def inspect(model: ModelFile, largest: options.LargestOption = 10, as_json: options.JsonOption = False) -> None:
    """Show a model: its largest coefficients by name, its duality gap, the method and the date.

    [bold]Example[/bold]

    fwflow inspect model.npz --largest 20
    """
    fitted = FittedModel.load(model)
    _show_model(fitted, largest, as_json, {"written": fitted.written})


def _show_model(
    model: FittedModel, largest: int, as_json: bool, lines: dict[str, str], fields: dict[str, Any] | None = None
) -> None:
    """Print a model as text with further lines, or as JSON with further fields."""
    if as_json:
        left_out = ("constraint", "coefficients", "names")
        stored = {"set": model.constraint} | {k: v for k, v in vars(model).items() if k not in left_out}
        coefficients = [{"column": name, "coefficient": value} for name, value in model.largest(largest)]
        sizes = {"columns": len(model.names), "nonzero": model.nonzero, "largest": coefficients}
        print_json(stored | sizes | (fields or {}))
        return
    shown = {
        "result": model.message,
        "certified": "yes" if model.certified else "no",
        "objective": f"{model.fun:.10g}",
        "gap": f"{model.gap:.3e}",
        "method": model.method,
        **lines,
        "effort": f"{model.iterations} iterations, {model.passes:g} passes over the data, {model.seconds:.2f} s",
        "data": f"{model.data}, {model.rows} x {len(model.names)}",
        "model": f"{model.loss} loss, {model.constraint}",
        "intercept": f"{model.intercept:.6g}",
        "nonzero": f"{model.nonzero} of {len(model.names)} coefficients",
    }
    if model.classes is not None:
        shown["classes"] = f"{model.classes[0]!r} for scores below zero, {model.classes[1]!r} for scores above zero"
    width = max(map(len, shown))
    for name, value in shown.items():
        typer.echo(f"{name:>{width}}: {value}")
    if rows := [(name, f"{value:.6g}") for name, value in model.largest(largest)]:
        print_table("largest coefficients", ("column", "coefficient"), rows, text=1)


def predict(
    model: ModelFile,
    data: options.DataFile,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file. Default: the standard output.")] = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
) -> None:
    """Predict the target of new rows. Columns are matched by name.

    A model of two classes also gives the probability of the second class. If the data contains the target, the mean
    squared error or the number of correct classes is printed.

    [bold]Example[/bold]

    fwflow predict model.npz new.csv --out predictions.csv
    """
    options.check_writable({"--out": out}, (data, model))
    fitted = FittedModel.load(model)
    if needed := [name for name in drop or () if name in fitted.names]:
        raise InputError(f"--drop {needed[0]!r} leaves out a column that the model {model} needs")
    with on_interrupt("no predictions are written" if out else "the predictions above are incomplete"):
        dropped = {*fitted.dropped, *(drop or ())}
        target = fitted.target if fitted.target and fitted.target not in dropped else None
        optional = {*fitted.dropped, fitted.target}
        table = read(data, target, drop=dropped, header=header, known=fitted.names, optional=optional)
        X = table.columns(fitted.names)
        predicted = fitted.predict(X)
        columns = {"prediction": predicted.tolist()}
        if fitted.classes is not None:
            columns["probability"] = fitted.probabilities(X).tolist()
        _write_csv(out, [*columns], zip(*columns.values(), strict=True))
    if table.target is not None and (accuracy := _accuracy(fitted, predicted, table.target)):
        note(accuracy)


def _accuracy(model: FittedModel, predicted: Any, target: Target) -> str:
    """Describe how well the target is predicted; return no text for a target that the model cannot predict."""
    if model.classes is None:
        if isinstance(target, tuple):
            return ""
        return f"mean squared error: {float(np.mean((predicted - target) ** 2)):.6g} over {len(target)} rows"
    labels = [as_text(label) for label in (target if isinstance(target, tuple) else target.tolist())]
    if not set(labels) <= set(model.classes):
        return ""
    correct = sum(one == other for one, other in zip(labels, predicted, strict=True))
    return f"correct: {correct} of {len(labels)} rows ({correct / len(labels):.1%})"


def _write_csv(out: Path | None, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, or print it if there is no file."""
    with nullcontext(sys.stdout) if out is None else replacing(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
