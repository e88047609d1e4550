"""``fwflow path``: models for growing radii, each fitted from the one before."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import fwflow as fw
from fwflow._storage import replacing
from fwflow._validation import InputError, is_plain, parsed, positive
from fwflow.cli import figures, options
from fwflow.cli.screen import continued, heard, note, print_json, print_table, unbroken


def path(
    data: options.DataFile,
    target: options.TargetOption = None,
    constraint: options.FamilyOption = "l1",
    radii: Annotated[str, typer.Option(help="A number of automatic radii, or the radii: 20, or 0.5,1,2.")] = "20",
    loss: options.LossOption = "squared",
    method: options.MethodOption = "auto",
    max_iter: Annotated[int, typer.Option(help="Iterations per radius.", **options.plain(int, 0))] = 10_000,
    rtol: Annotated[
        float,
        typer.Option(
            help="Tolerance of each model, as a share of the gap at the set's centre.", **options.plain(float)
        ),
    ] = 1e-6,
    rho: options.RhoOption = 1.0,
    intercept: options.InterceptOption = False,
    target_file: options.TargetFileOption = None,
    drop: options.DropOption = None,
    header: options.HeaderOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV file to write the coefficients to.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Figure of the coefficients to write: .svg, .png, .pdf.")] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Fit models for growing radii, from the first coefficient to the radius from which a larger one gains nothing.

    The exit codes are those of fwflow solve: 3 if a model did not reach the tolerance, 130 if interrupted. An
    interrupted path is written up to its last finished radius.

    [bold]Example[/bold]

    fwflow path shop.csv --target bought --loss logistic --set l1 --radii 20 --plot path.svg
    """
    make, parameters = options.find_set(constraint, constraint)
    if parameters != ("R",):
        raise InputError(f"--set {constraint!r} has no radius; accepted: {', '.join(map(repr, options.FAMILIES))}")
    wanted = _parse_radii(radii)
    options.check_names(loss, method)
    figures.check(plot)
    options.check_writable({"--out": out, "--plot": plot}, (data, target_file))
    with continued("no path is written"), heard() as interrupt:
        problem = options.read_problem(data, target, target_file, drop or (), header, loss, rho, intercept)
        asked: dict[str, Any] = {"n_radii": wanted} if isinstance(wanted, int) else {"radii": wanted}
        asked |= {"method": method, "max_iter": max_iter, "callback": lambda state: interrupt()}
        found = fw.path(problem.f, make, tol=0.0, rtol=rtol, **asked)
    results, done = found.results, found.radii[: len(found.results)].tolist()
    kept = f"what is done, {len(done)} of {len(found.radii)} radii, is {f'in {out}' if out else 'above'}"
    with continued(kept), unbroken():
        X = np.stack([result.x for result in results]) + 0.0  # writes -0.0 as 0.0
        constants = [problem.f.intercept_at(result.x) for result in results]
        if out is not None:
            with replacing(out) as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["radius", *(["intercept"] if intercept else []), *problem.names])
                for radius, constant, x in zip(done, constants, X, strict=True):
                    writer.writerow([radius, *([constant] if intercept else []), *x.tolist()])
        if plot is not None:
            figures.paths(done, X, problem.names, constraint).savefig(plot)
        _show(problem.names, found, constants, as_json)
        if len(done) < len(found.radii):
            raise KeyboardInterrupt
    if short := sum(not result.success for result in results):
        note(f"{short} of {len(results)} models did not reach the tolerance")
        raise typer.Exit(3)


def _parse_radii(text: str) -> int | list[float]:
    if is_plain(text) and text.isdecimal() and int(text) > 0:
        return int(text)
    try:
        return [positive(parsed(part), "--radii") for part in text.split(",")]
    except ValueError:
        raise InputError(f"--radii must be a positive count, or positive radii as in 0.5,1,2; got {text!r}") from None


def _show(names: Sequence[str], path: fw.PathResult, intercepts: Sequence[float], as_json: bool) -> None:
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
            "largest": names[int(np.abs(r.x).argmax())],
        }
        for radius, r, constant in zip(path.radii.tolist(), path.results, intercepts, strict=False)
    ]
    if as_json:
        print_json({"path": rows})
        return
    formats = {
        "largest": "",
        "radius": ".4g",
        "fun": ".6g",
        "gap": ".1e",
        "nonzero": "",
        "iterations": "",
        "passes": ".0f",
    }
    header = ("largest", "radius", "objective", "gap", "nonzero", "iterations", "passes")
    print_table("path", header, [tuple(format(row[name], form) for name, form in formats.items()) for row in rows], 1)
