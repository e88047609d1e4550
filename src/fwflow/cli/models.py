"""``fwflow solve``, ``path``, ``inspect`` and ``predict``: fit linear models to a data file, and use them."""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import fwflow as fw
from fwflow._storage import replacing
from fwflow._validation import Array, InputError, is_plain, parsed, positive
from fwflow.cli import figures, options
from fwflow.cli.manual import INTERRUPTED, documented
from fwflow.cli.options import METHOD, MODEL, file_option, plain
from fwflow.cli.screen import (
    counting,
    interrupt_check,
    note,
    noted_warnings,
    on_interrupt,
    print_json,
    print_table,
    progress,
    uninterrupted,
)
from fwflow.run.paths import gap_thresholds
from fwflow.run.result import Status
from fwflow.tables import read, read_frame
from fwflow.tables.constraints import Constraint
from fwflow.tables.frames import as_text, listed
from fwflow.tables.model_files import Coefficient, FittedModel, HeldOut, ModelPath
from fwflow.tables.problem import read_problem

_CONTINUE = "With --checkpoint and --resume, a later run continues."
#: Messages of statuses for which the command line has its own advice.
_MESSAGES = {
    Status.ITERATIONS: f"The iteration limit was reached; raise --max-iter. {_CONTINUE}",
    Status.TIME: f"The time limit was reached; raise --max-time. {_CONTINUE}",
    Status.INTERRUPTED: "The run was interrupted; this is the best point so far.",
}

# Default time limit of cross-validation, so that it ends within three minutes on tables of 200 000 rows.
_SEARCH_SECONDS = 150.0
# Panel of the help text.
_CHECKPOINTS = "Checkpoints"


@documented(
    (
        "Fit a sparse classifier to a table and save the model",
        "fwflow solve shop.csv --target bought --loss logistic --set l1:10 --out model.npz",
    ),
    (
        "Choose the radius by cross-validation, and draw the scores of all radii",
        "fwflow solve shop.csv --target bought --loss logistic --set l1 --cv 5 --plot scores.svg",
    ),
    (
        "Fit large data with checkpoints; the same command continues an interrupted run",
        "fwflow solve big.svm.gz --set l1:100 --checkpoint run.npz --resume --out model.npz",
    ),
    exit_codes={
        0: "The tolerance was reached, and the duality gap of the fitted model was verified.",
        3: "The tolerance was not reached. The best model so far is written.",
        130: "The run was interrupted with Ctrl-C. The best model so far is written.",
    },
)
def solve(
    data: options.DataFile,
    constraint: options.SetOption,
    loss: options.LossOption = "squared",
    rho: options.RhoOption = None,
    quantile: options.QuantileOption = 0.5,
    positive_only: options.PositiveOption = False,
    lower: options.LowerOption = None,
    upper: options.UpperOption = None,
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
    na: options.NaOption = None,
    scale: options.ScaleOption = True,
    cv: options.CvOption = None,
    radii: Annotated[
        str | None,
        typer.Option(
            help="Radii to choose from, such as 0.5,1,2, or the number of automatic radii in a range whose ends differ "
            "by a factor of 1000. Default: 25.",
            metavar="RADII",
            rich_help_panel=options.SELECTION,
        ),
    ] = None,
    rule: options.RuleOption = None,
    score: options.ScoreOption = None,
    groups: options.GroupsOption = None,
    seed: options.SeedOption = None,
    method: options.MethodOption = "auto",
    tol: options.TolOption = None,
    rtol: options.RtolOption = None,
    max_iter: Annotated[
        int,
        typer.Option(
            help="Maximum number of iterations. With --resume, earlier iterations count.",
            rich_help_panel=METHOD,
            **plain(int, 0),
        ),
    ] = 10_000,
    max_time: Annotated[
        float | None,
        typer.Option(
            help="Maximum time of this run, in seconds, without the time to read the data. With --cv, the default is "
            "150, and no further radius is tried after 60 % of it.",
            rich_help_panel=METHOD,
            **plain(float),
        ),
    ] = None,
    out: Annotated[Path | None, file_option("File for the model (.npz).", "--out", "-o")] = None,
    trace: Annotated[
        Path | None, file_option("CSV file for the objective, gap, time and counters of every iteration.")
    ] = None,
    plot: Annotated[
        Path | None,
        file_option(
            "Figure of the duality gap, or with --cv of the scores of all radii, and of the coefficients: .svg, .png "
            "or .pdf."
        ),
    ] = None,
    largest: options.LargestOption = 10,
    as_json: options.JsonOption = False,
    checkpoint: Annotated[
        Path | None, file_option("File for the state of the run (.npz), read by --resume.", panel=_CHECKPOINTS)
    ] = None,
    every: Annotated[
        float,
        typer.Option(help="Seconds between two checkpoints.", rich_help_panel=_CHECKPOINTS, **plain(float, 0)),
    ] = 60.0,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue from the file of --checkpoint if it exists.", rich_help_panel=_CHECKPOINTS
        ),
    ] = False,
) -> None:
    """Fit a linear model to a data file, with coefficients in a constraint set.

    Tables (.csv, .tsv, .parquet) are prepared: text is one-hot encoded, dates are expanded, missing cells are imputed
    and numbers are standardised. The model contains the preparation. Files of matrices are used as they are.

    The command prints the objective, the duality gap and the largest coefficients. The duality gap bounds the distance
    of the objective from its optimal value. With --cv, it also prints the mean score of rows that were not used for the
    fit, and the model contains the models of all radii.
    """
    constraint = options.non_negative(constraint) if positive_only else constraint
    _check_selection(
        constraint,
        cv,
        needed={"--radii": radii, "--rule": rule, "--score": score, "--groups": groups, "--seed": seed},
        excluded={"--checkpoint": checkpoint, "--resume": resume, "--trace": trace},
    )
    candidates = {} if radii is None else _parse_radii(radii)
    asked = Constraint.parse(constraint, lower or (), upper or (), radius=cv is None)
    options.check_names(loss, method)
    figures.check(plot)
    outputs = {"--out": out, "--trace": trace, "--plot": plot, "--checkpoint": checkpoint}
    options.check_writable(outputs, (data, target_file))
    _check_replaceable(out)
    if tol is None and rtol is None:
        rtol = 1e-6  # A relative default suits data in any unit.
    tol, rtol = tol or 0.0, rtol or 0.0
    state = _resumed(checkpoint, resume)
    with on_interrupt("there was no model yet, so none is written"), noted_warnings(), interrupt_check() as check:
        problem = read_problem(
            data,
            target,
            target_file,
            drop or (),
            header,
            loss,
            rho,
            intercept,
            quantile=quantile,
            raw=raw,
            categorical=categorical or (),
            numeric=numeric or (),
            dates=dates or (),
            missing=missing,
            na=na or (),
            scale=scale,
            groups=groups,
        )
        saved, chosen = Checkpoints(checkpoint, every), None
        if cv is not None:
            # The import of scikit-learn takes about a second.
            from fwflow.tables.selection import select

            with counting("models of cross-validation") as count:

                def refresh(state: fw.State) -> None:
                    check()
                    count.refresh()

                chosen = select(
                    problem,
                    asked,
                    folds=cv,
                    rule=rule or "best",
                    score=score,
                    seed=seed or 0,
                    step=count,
                    method=method,
                    max_iter=max_iter,
                    max_time=_SEARCH_SECONDS if max_time is None else max_time,
                    callback=refresh,
                    tol=tol,
                    rtol=rtol,
                    **candidates,
                )
            result = chosen.result
        else:
            C = problem.set_of(asked)
            with progress(tol, rtol) as show:

                def watch(state: fw.State) -> None:
                    saved(state)
                    show(state)
                    check()

                # A fraction of the gap at the start cannot be reached if zero is optimal, as for a constant target.
                threshold = gap_thresholds(problem.f, tol, rtol)(C)
                result = fw.minimize(
                    problem.f,
                    C,
                    method=method,
                    max_iter=max_iter if state is None else max(0, max_iter - state.k),
                    max_time=max_time,
                    callback=watch,
                    state=state,
                    tol=threshold,
                )
    consequence = f"the model is in {out}" if out else "without --out, the model is not saved"
    with on_interrupt(consequence), uninterrupted():
        message = _MESSAGES.get(result.status, result.message)
        if chosen is not None:
            message = message.removesuffix(_CONTINUE)  # Checkpoints are for one radius.
        if chosen is not None and chosen.at_end:
            others = "raise --max-time" if radii is None else "give other --radii"
            note(f"warning: {chosen.held_out.radius:.6g} is at the end of the radii that were tried; {others}")
        if leak := problem.leak(result.x):
            note(f"warning: {leak}")
        if chosen is None:
            model = problem.model(result, asked.text, message=message)
            saved.save(result.state)
        else:
            model = chosen.model(message=message)
        if out is not None:
            model.save(out)
        if trace is not None:
            result.trace.to_csv(trace)
        if plot is not None:
            drawn = figures.run(result, model, largest) if chosen is None else figures.selection(model, largest)
            figures.save(drawn, plot)
        why = result.method.why
        fields = {"status": result.status.name, "why": why, "out": None if out is None else str(out)}
        _show_model(model, largest, as_json, {"reason": why}, fields)
        if out is not None and not as_json:
            typer.echo(f"model: {out}")
    if result.status is Status.INTERRUPTED:
        note(f"interrupted; the best model so far is {'in ' + str(out) if out else 'above'}")
        raise typer.Exit(130)
    if not result.success:
        raise typer.Exit(3)


def _check_selection(constraint: str, cv: int | None, needed: Mapping[str, Any], excluded: Mapping[str, Any]) -> None:
    """Refuse options of cross-validation without it, and options that it does not have."""
    if cv is None:
        if asked := next((option for option, value in needed.items() if value is not None), None):
            raise InputError(f"{asked} is for cross-validation; add --cv 5, with --set l1")
        return
    if asked := next((option for option, value in excluded.items() if value), None):
        raise InputError(f"--cv and {asked} exclude each other")
    name, colon, _ = constraint.partition(":")
    if colon:
        raise InputError(
            f"--cv chooses the radius, and --set {constraint} gives one; use --set {name}, or leave out --cv"
        )


def _check_replaceable(out: Path | None) -> None:
    """Refuse to overwrite a file that is not a model, and devices and pipes."""
    if out is not None and out.exists():
        if not out.is_file():
            raise InputError(f"--out {out} is a device or a pipe; a model needs a regular file")
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


@documented(
    (
        "Fit models for 20 radii and draw their coefficients",
        "fwflow path shop.csv --target bought --loss logistic --set l1 --radii 20 --plot path.svg",
    ),
    ("Choose the radii", "fwflow path shop.csv --target bought --loss logistic --radii 0.5,1,2 --out path.csv"),
    (
        "Keep the models of all radii for fwflow predict",
        "fwflow path shop.csv --target bought --loss logistic --radii 0.5,1,2 --out path.npz",
    ),
    exit_codes={
        0: "All models reached the tolerance.",
        3: "At least one model did not reach the tolerance. All models are written.",
        130: "The command was interrupted with Ctrl-C. The models of the finished radii are written.",
    },
)
def path(
    data: options.DataFile,
    constraint: options.FamilyOption = "l1",
    radii: Annotated[
        str,
        typer.Option(
            help="Number of radii, such as 20, or the radii, such as 0.5,1,2.",
            metavar="RADII",
            rich_help_panel=MODEL,
        ),
    ] = "20",
    loss: options.LossOption = "squared",
    rho: options.RhoOption = None,
    quantile: options.QuantileOption = 0.5,
    positive_only: options.PositiveOption = False,
    lower: options.LowerOption = None,
    upper: options.UpperOption = None,
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
    na: options.NaOption = None,
    scale: options.ScaleOption = True,
    method: options.MethodOption = "auto",
    rtol: Annotated[
        float,
        typer.Option(
            help="Tolerance of each model, as a fraction of the duality gap at the centre of its set.",
            rich_help_panel=METHOD,
            **plain(float),
        ),
    ] = 1e-6,
    max_iter: Annotated[
        int, typer.Option(help="Maximum number of iterations per radius.", rich_help_panel=METHOD, **plain(int, 0))
    ] = 10_000,
    out: Annotated[
        Path | None,
        file_option("File for the models of all radii (.npz), or CSV file for the coefficients.", "--out", "-o"),
    ] = None,
    plot: Annotated[Path | None, file_option("Figure of the coefficients: .svg, .png or .pdf.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Fit models for increasing radii of the constraint set.

    If --radii is a number, the command chooses the radii. The largest radius is chosen so that a still larger radius
    hardly decreases the objective.
    Tables are prepared as by fwflow solve, and the coefficients are those of the prepared columns.
    """
    constraint = options.non_negative(constraint) if positive_only else constraint.lower()
    family = Constraint.parse(constraint, lower or (), upper or (), radius=False)
    as_model = out is not None and out.suffix.lower() == ".npz"
    asked = _parse_radii(radii)
    options.check_names(loss, method)
    figures.check(plot)
    options.check_writable({"--out": out, "--plot": plot}, (data, target_file))
    if as_model:
        _check_replaceable(out)
    with on_interrupt("no path is written"), noted_warnings(), interrupt_check() as interrupt:
        problem = read_problem(
            data,
            target,
            target_file,
            drop or (),
            header,
            loss,
            rho,
            intercept,
            quantile=quantile,
            raw=raw,
            categorical=categorical or (),
            numeric=numeric or (),
            dates=dates or (),
            missing=missing,
            na=na or (),
            scale=scale,
        )
        with counting("models of the path") as count:

            def refresh(state: fw.State) -> None:
                interrupt()
                count.refresh()

            each: dict[str, Any] = {"method": method, "max_iter": max_iter, "rtol": rtol, "callback": refresh}
            chosen = problem.radii(family, **asked, **each)
            ball = problem.ball(family)

            def counted(radius: float) -> fw.ConstraintSet:
                count(int(np.searchsorted(chosen, radius)), len(chosen))
                return ball(radius)

            found = fw.path(problem.f, counted, chosen, tol=0.0, **each)
    results, done = found.results, found.radii[: len(found.results)].tolist()
    kept = f"the models of {len(done)} of {len(found.radii)} radii are {f'in {out}' if out else 'above'}"
    with on_interrupt(kept), uninterrupted():
        path = problem.model_path(family, found)
        model = problem.model(results[-1], family.at(done[-1]), path=path)
        names, X = model.labelled_names, path.coefficients.reshape(len(done), -1)
        if out is not None and as_model:
            model.save(out)
        elif out is not None:
            columns = [done, path.intercepts, X] if intercept else [done, X]
            many = model.classes if path.intercepts.ndim == 2 else None
            constant = "constant term" if "intercept" in names else "intercept"
            constants = [constant] if not many else [f"{constant} of {label}" for label in many]
            header_row = ["radius", *(constants if intercept else []), *names]
            _write_csv(out, header_row, np.column_stack(columns).tolist())
        if plot is not None:
            figures.save(figures.paths(done, X, names, constraint), plot)
        if as_json:
            print_json({"path": _path_rows(model, path), "preparation": problem.lines()})
        else:
            for line in problem.lines():
                typer.echo(f"prepared: {line}")
            _print_path(model, path)
            if as_model:
                typer.echo(f"path: {out}")
        if len(done) < len(found.radii):
            raise KeyboardInterrupt
    if short := sum(not result.success for result in results):
        note(f"{short} of {len(results)} models did not reach the tolerance")
        raise typer.Exit(3)


def _path_rows(model: FittedModel, path: ModelPath) -> list[dict[str, Any]]:
    """Return a description of the model of each radius."""
    X, names = path.coefficients.reshape(len(path.radii), -1), model.labelled_names
    return [
        {
            "radius": float(path.radii[i]),
            "fun": float(path.funs[i]),
            "gap": float(path.gaps[i]),
            "intercept": path.intercepts[i].tolist(),
            "nonzero": int(np.count_nonzero(X[i])),
            "iterations": int(path.iterations[i]),
            "passes": float(path.passes[i]),
            "certified": bool(path.certified[i]),
            "largest": names[int(np.abs(X[i]).argmax())],
        }
        for i in range(len(path.radii))
    ]


def _print_path(model: FittedModel, path: ModelPath) -> None:
    """Print the model of each radius in one line, with its held-out score if there is one."""
    header = ["largest coefficient", "radius", "objective", "gap", "nonzero", "iterations", "passes over the data"]
    numbers = "{radius:.6g} {fun:.6g} {gap:.1e} {nonzero} {iterations} {passes:.0f}"
    cells = [[row["largest"], *numbers.format(**row).split()] for row in _path_rows(model, path)]
    if (scores := model.held_out) is not None:
        header += [f"held-out {scores.score}", "standard error"]
        for row, mean, error in zip(cells, scores.means.tolist(), scores.errors.tolist(), strict=True):
            row += [f"{mean:.6g}", f"{error:.2g}"]
    print_table("path", header, cells, text=1)


def _parse_radii(text: str) -> dict[str, Any]:
    """Return the argument of `fwflow.path` that the option --radii describes."""
    if is_plain(text) and text.isdecimal() and int(text) > 0:
        return {"n_radii": int(text)}
    try:
        return {"radii": [positive(parsed(part), "--radii") for part in text.split(",")]}
    except ValueError:
        raise InputError(f"--radii must be a positive count, or positive radii as in 0.5,1,2; got {text!r}") from None


ModelFile = Annotated[Path, typer.Argument(help="Model file written by fwflow solve or fwflow path.", metavar="MODEL")]


@documented(
    ("Show the 20 largest coefficients", "fwflow inspect model.npz --largest 20"),
    ("Draw the coefficients", "fwflow inspect model.npz --plot coefficients.svg"),
)
def inspect(
    model: ModelFile,
    radius: options.RadiusOption = None,
    largest: options.LargestOption = 10,
    plot: Annotated[
        Path | None, file_option("Figure of the largest coefficients, or of a path: .svg, .png or .pdf.")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Show a fitted model: preparation of its table, largest coefficients, duality gap, method and date.

    A coefficient in original units is the change of the score for a change by one unit of its column. A standardised
    coefficient is the change for a change by one standard deviation. Both are equal for the levels of categories.
    A model file with a path also shows the models of all radii.
    """
    figures.check(plot)
    options.check_writable({"--plot": plot}, (model,))
    fitted = FittedModel.load(model)
    fitted = fitted if radius is None else _at(fitted, model, radius)
    if plot is not None:
        figures.save(figures.stored(fitted, largest), plot)
    _show_model(fitted, largest, as_json, {"written": fitted.written}, with_path=True)


def _at(fitted: FittedModel, file: Path, radius: float) -> FittedModel:
    """Return the model of a radius; the error names the file."""
    try:
        return fitted.at(positive(radius, "--radius"))
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _show_model(
    model: FittedModel,
    largest: int,
    as_json: bool,
    lines: dict[str, str],
    fields: dict[str, Any] | None = None,
    with_path: bool = False,
) -> None:
    """Print a model as text with further lines, or as JSON with further fields."""
    prepared = [] if model.preparation is None else model.preparation.lines()
    rows = model.table(largest)
    if as_json:
        left_out = ("constraint", "coefficients", "names", "path", "held_out")
        stored = {"set": model.constraint} | {k: v for k, v in vars(model).items() if k not in left_out}
        stored |= {"preparation": prepared, "intercept": model.original_intercept}
        table = [
            {
                "column": row.column,
                "level": row.level,
                "class": row.label,
                "coefficient": row.original,
                "standardised": row.standardised,
            }
            for row in rows
        ]
        sizes = {"columns": len(model.names), "nonzero": model.nonzero, "largest": table}
        if model.path is not None:
            sizes["path"] = _path_rows(model, model.path)
        if model.held_out is not None:
            scores = vars(model.held_out)
            sizes["held_out"] = {name: np.asarray(value).tolist() for name, value in scores.items()} | {
                "mean": float(model.held_out.means[model.held_out.place]),
                "error": float(model.held_out.errors[model.held_out.place]),
            }
        print_json(stored | sizes | (fields or {}))
        return
    shown = {
        **({} if model.held_out is None else {"held out": model.held_out.text, "radius": _choice(model.held_out)}),
        "result": model.message,
        "certified": "yes" if model.certified else "no",
        "objective": f"{model.fun:.10g}",
        "gap": f"{model.gap:.3e}",
        "method": model.method,
        **lines,
        "cost": f"{model.iterations} iterations, {model.passes:g} passes over the data, {model.seconds:.2f} s",
        "data": f"{model.data}, {model.rows} x {len(model.inputs)}",
        "model": f"{model.loss} loss, {model.constraint}",
        "intercept": ", ".join(f"{value:.6g}" for value in np.atleast_1d(model.original_intercept)),
        "nonzero": f"{model.nonzero} of {model.coefficients.size} coefficients",
    }
    if model.classes is not None and len(model.classes) == 2:
        shown["classes"] = f"{model.classes[0]!r} for scores below zero, {model.classes[1]!r} for scores above zero"
    elif model.classes is not None:
        shown["classes"] = f"the class of the largest score, of {', '.join(map(repr, model.classes))}"
    width = max(map(len, (*shown, *(["prepared"] if prepared else []))))
    for name, value in [*shown.items(), *(("prepared", line) for line in prepared)]:
        typer.echo(f"{name:>{width}}: {value}")
    if model.path is not None and with_path:
        _print_path(model, model.path)
    if rows and model.chosen:
        _print_coefficients(model, rows)


def _choice(scores: HeldOut) -> str:
    """Describe how the radius was chosen."""
    rule = "best mean score" if scores.rule == "best" else "smallest within one standard error of the best mean score"
    groups = f", groups {scores.groups!r}" if scores.groups else ""
    return f"{scores.radius:.6g}, {rule} of {len(scores.radii)} radii (seed {scores.seed}{groups})"


def _print_coefficients(model: FittedModel, rows: Sequence[Coefficient]) -> None:
    """Print a table of coefficients, with the columns that the model has."""
    many = any(row.label for row in rows)
    levels = any(row.level for row in rows)
    header = [*(["class"] if many else []), "column", *(["level"] if levels else [])]
    units = ["standardised", "original units"] if model.preparation is not None else ["coefficient"]
    cells = [
        [
            *([row.label] if many else []),
            row.column,
            *([row.level] if levels else []),
            *([f"{row.standardised:.6g}"] if model.preparation is not None else []),
            f"{row.original:.6g}",
        ]
        for row in rows
    ]
    print_table("largest coefficients", [*header, *units], cells, text=len(header))


@documented(
    ("Write predictions to a file", "fwflow predict model.npz new.csv --out predictions.csv"),
    ("Use a model of a path", "fwflow predict path.npz new.csv --radius 1"),
    exit_codes={130: INTERRUPTED},
)
def predict(
    model: ModelFile,
    data: options.DataFile,
    radius: options.RadiusOption = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
    out: Annotated[
        Path | None, file_option("CSV file for the predictions. Default: the standard output.", "--out", "-o")
    ] = None,
) -> None:
    """Predict the target of new rows with a fitted model.

    The table is prepared as the table of the model was. Columns are matched by name, and columns that the model does
    not need are ignored. The output has a column prediction and, for a model of classes, a column probability of CLASS
    for each class. If the data contains the target, the command also prints the mean squared error or the number of
    correct classes.
    """
    options.check_writable({"--out": out}, (data, model))
    fitted = FittedModel.load(model)
    if radius is not None:
        fitted = _at(fitted, model, radius)
    if not fitted.chosen and fitted.path is not None:
        raise InputError(
            f"{model} holds the models of {len(fitted.path.radii)} radii; choose one with --radius: "
            f"{fitted.path.listed}"
        )
    if needed := [name for name in drop or () if name in fitted.inputs]:
        raise InputError(f"--drop {needed[0]!r} leaves out a column that the model {model} needs")
    with on_interrupt("no predictions are written" if out else "the predictions above are incomplete"):
        rows, target, ignored = _new_rows(fitted, data, drop or (), header)
        predicted = fitted.predict(rows)
        columns = {"prediction": ["" if value != value else value for value in predicted.tolist()]}
        if fitted.classes is not None:
            chances = fitted.probabilities(rows).T.tolist()
            for label, values in zip(fitted.classes, chances, strict=True):
                columns[f"probability of {label}"] = ["" if value != value else value for value in values]
        _write_csv(out, [*columns], zip(*columns.values(), strict=True))
    if ignored:
        note(f"{data} has {listed(ignored)} that the model does not need, ignored")
    if fitted.preparation is not None:
        for line in fitted.preparation.notes(rows):
            note(line)
        if fitted.preparation.missing == "drop" and (gone := int((~fitted.preparation.complete(rows)).sum())):
            note(f"{gone} of {len(predicted)} rows have missing cells; their predictions are empty")
    if target is not None:
        note(_accuracy(fitted, predicted, target))


def _new_rows(
    model: FittedModel, data: Path, drop: Sequence[str], header: bool | None
) -> tuple[Any, Array | None, tuple[str, ...]]:
    """Return the rows of a file for a model, their target if the file has it, and the columns that are ignored."""
    dropped = {*model.dropped, *drop} - set(model.inputs)
    wanted: dict[str, Any] = {
        "target": model.target if model.target and model.target not in dropped else None,
        "drop": dropped,
        "header": header,
        "known": model.inputs,
        "optional": {*model.dropped, model.target},
        "only": True,
    }
    if model.preparation is None:
        table = read(data, **wanted)
        target = None if table.target is None else np.asarray(table.target, dtype=object)
        return table.columns(model.names), target, table.ignored
    texts, numbers = model.preparation.text_inputs, model.preparation.number_inputs
    frame = read_frame(data, **wanted, text=texts, numbers=numbers, na=model.preparation.na)
    return frame, frame.target, frame.ignored


def _accuracy(model: FittedModel, predicted: Any, target: Array) -> str:
    """Describe how well the target is predicted, or why this cannot be said."""
    labels = target.tolist()
    pairs = [
        (found, label)
        for found, label in zip(predicted.tolist(), labels, strict=True)
        if found == found and found != "" and label == label and label != ""
    ]
    unscored = f"the predictions are not compared with the target {model.target!r}"
    if not pairs:
        return f"{unscored}: no row has both"
    if model.classes is None:
        if text := next((label for _, label in pairs if isinstance(label, str)), ""):
            return f"{unscored}: it holds {text!r}, and the model predicts numbers"
        errors = np.subtract(*np.array(pairs, dtype=float).T)
        return f"mean squared error: {float(np.mean(errors**2)):.6g} over {len(pairs)} rows"
    texts = [as_text(label) for _, label in pairs]
    if unknown := sorted(set(texts) - set(model.classes)):
        return f"{unscored}: it holds {unknown[0]!r}, which is no class of the model"
    correct = sum(found == text for (found, _), text in zip(pairs, texts, strict=True))
    return f"correct: {correct} of {len(pairs)} rows ({correct / len(pairs):.1%})"


def _write_csv(out: Path | None, names: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV file, or print it if there is no file."""
    with nullcontext(sys.stdout) if out is None else replacing(out) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
