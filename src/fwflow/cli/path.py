"""``fwflow path``: models along growing radii, each from the one before."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import fwflow as fw
from fwflow._storage import replacing
from fwflow._validation import InputError, is_plain, parsed, positive
from fwflow.cli import figures
from fwflow.cli.options import (
    FAMILIES,
    DataFile,
    DropOption,
    FamilyOption,
    HeaderOption,
    InterceptOption,
    JsonOption,
    LossOption,
    MethodOption,
    RhoOption,
    TargetFileOption,
    TargetOption,
    check_names,
    check_writable,
    find_set,
    plain,
    read_problem,
)
from fwflow.cli.screen import continued, heard, note, print_json, print_table, unbroken
from fwflow.run.result import Status

#: Balls that contain the smaller ones, and the origin.
_NESTED = [name for name in FAMILIES if name != "simplex"]

# A larger radius is not worth looking at if doubling it could gain no more than this share of what was gained.
_ENOUGH = 0.01
_DOUBLINGS = 60

Family = Callable[[float], fw.ConstraintSet]


def path(
    data: DataFile,
    target: TargetOption = None,
    constraint: FamilyOption = "l1",
    radii: Annotated[str, typer.Option(help="How many, or which: 20, or 0.5,1,2.")] = "20",
    loss: LossOption = "squared",
    method: MethodOption = "auto",
    max_iter: Annotated[int, typer.Option(help="Iterations per radius.", **plain(int, 0))] = 10_000,
    rtol: Annotated[
        float, typer.Option(help="Certify each to this share of the gap at its set's centre.", **plain(float))
    ] = 1e-6,
    rho: RhoOption = 1.0,
    intercept: InterceptOption = False,
    target_file: TargetFileOption = None,
    drop: DropOption = None,
    header: HeaderOption = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A CSV file for the coefficients.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A figure of the coefficients: .svg, .png, .pdf.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Fit models along growing radii, from the one that lets a first coefficient in to where the set does not matter.

    Exit codes are those of fwflow solve: 3 if some model missed the tolerance, 130 if interrupted, and then the models
    of the radii that are done are written.

    [bold]Example[/bold]

    fwflow path shop.csv --target bought --loss logistic --set l1 --radii 20 --plot path.svg
    """
    make, parameters = find_set(constraint, constraint)
    if parameters != ("R",):
        raise InputError(f"--set {constraint!r} has no radius; accepted: {', '.join(map(repr, FAMILIES))}")
    wanted = _parse_radii(radii)
    check_names(loss, method)
    figures.check(plot)
    check_writable({"--out": out, "--plot": plot}, (data, target_file))
    with continued("no path is written"), heard() as interrupt:
        problem = read_problem(data, target, target_file, drop or (), header, loss, rho, intercept)
        options = {"method": method, "max_iter": max_iter, "callback": lambda state: interrupt()}
        if isinstance(wanted, int):
            if constraint.lower() not in _NESTED:
                raise InputError(f"--set {constraint} needs the radii themselves, as --radii 0.5,1,2")
            wanted = automatic_radii(problem.f, make, wanted, options)
        results = _followed(problem.f, make, wanted, rtol, options)
    done = wanted[: len(results)]
    kept = f"what is done, {len(done)} of {len(wanted)} radii, is {f'in {out}' if out else 'above'}"
    with continued(kept), unbroken():
        X = np.stack([result.x for result in results]) + 0.0  # no zero has a sign
        constants = [problem.f.intercept_at(result.x) for result in results]
        if out is not None:
            with replacing(out) as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerow(["radius", *(["intercept"] if intercept else []), *problem.names])
                for radius, constant, x in zip(done, constants, X, strict=True):
                    writer.writerow([radius, *([constant] if intercept else []), *x.tolist()])
        if plot is not None:
            figures.paths(done, X, problem.names, constraint).savefig(plot)
        _show(problem.names, done, results, constants, as_json)
        if len(done) < len(wanted):
            raise KeyboardInterrupt
    if short := sum(not result.success for result in results):
        note(f"{short} of {len(results)} models did not reach the tolerance")
        raise typer.Exit(3)


def _parse_radii(text: str) -> int | list[float]:
    if is_plain(text) and text.isdecimal() and int(text) > 0:
        return int(text)
    try:
        radii = [positive(parsed(part), "--radii") for part in text.split(",")]
    except ValueError:
        raise InputError(f"--radii {text!r} must be a count, or positive radii as in 0.5,1,2") from None
    return sorted(set(radii))


def automatic_radii(f: fw.LinearModel, make: Family, count: int, options: dict[str, Any]) -> list[float]:
    """Radii from a tenth of what the first coefficient alone would need to where the set hardly matters.

    The least value v(R) over the ball of radius R is convex in R with slope -|g|, the dual norm of the gradient at the
    minimiser. So v(2 R) >= v(R) - R |g|: doubling gains no more than -<g, s> for the vertex s that the oracle answers.
    """
    origin = f.point(np.zeros(f.shape, f.dtype))
    value0, g = f.value(origin), np.asarray(f.gradient(origin))
    if not g.any():
        raise InputError("--radii: no coefficient lowers the objective; give radii, as in 0.5,1,2")
    unit = f.point(np.asarray(make(1.0).lmo(g)))
    line = f.along(origin, unit, value0)
    assert line.second is not None  # linear models know it
    first = -line.slope0 / max(line.second(0.0), np.finfo(float).tiny)
    radius, result = first, None
    for _ in range(_DOUBLINGS):
        C = make(radius)
        x0 = None if result is None else result.x
        result = fw.minimize(f, C, x0, tol=0.0, rtol=1e-3 if x0 is None else 1e-2, **options)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        g = np.asarray(f.gradient(f.point(result.x)))
        if -float(np.vdot(g, np.asarray(C.lmo(g)))) <= _ENOUGH * (value0 - result.fun):
            break
        radius *= 2
    return np.geomspace(first / 10, radius, count).tolist()


def _followed(
    f: fw.LinearModel, make: Family, radii: Sequence[float], rtol: float, options: dict[str, Any]
) -> list[fw.Result]:
    """The models of all radii or, if Ctrl-C comes in between, of those that are done; if none is, it is raised."""
    results: list[fw.Result] = []
    try:
        for radius in radii:
            result = _from_before(f, make, radius, radii, results, rtol, options)
            if result.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
            results.append(result)
    except KeyboardInterrupt:
        if not results:
            raise
    return results


def _from_before(
    f: fw.LinearModel,
    make: Family,
    radius: float,
    radii: Sequence[float],
    before: Sequence[fw.Result],
    rtol: float,
    options: dict[str, Any],
) -> fw.Result:
    """The model of a radius, begun at that of the one before, stretched; as exact as if begun at the centre."""
    C = make(radius)
    if not before:
        return fw.minimize(f, C, tol=0.0, rtol=rtol, **options)
    start = f.point(C.start(f.shape, f.dtype))
    g = np.asarray(f.gradient(start))
    first_gap = float(np.vdot(g, start.x)) - float(np.vdot(g, np.asarray(C.lmo(g))))
    x0 = before[-1].x * (radius / radii[len(before) - 1])
    return fw.minimize(f, C, x0, tol=rtol * first_gap, **options)


def _show(
    names: Sequence[str],
    radii: Sequence[float],
    results: Sequence[fw.Result],
    intercepts: Sequence[float],
    as_json: bool,
) -> None:
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
        for radius, r, constant in zip(radii, results, intercepts, strict=True)
    ]
    if as_json:
        print_json({"path": rows})
        return
    cells = [
        (row["largest"], f"{row['radius']:.4g}", f"{row['fun']:.6g}", f"{row['gap']:.1e}", str(row["nonzero"]),
         str(row["iterations"]), f"{row['passes']:.0f}")
        for row in rows
    ]  # fmt: skip
    header = ("largest", "radius", "objective", "gap", "not zero", "iterations", "passes")
    print_table("path", header, cells, text=1)
