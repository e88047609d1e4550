"""``fwflow maxcut``: a large cut of a graph in a file, with a proved bound."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import scipy.sparse as sp
import typer

from fwflow._storage import replacing
from fwflow._validation import positive
from fwflow.cli import options
from fwflow.cli.manual import INTERRUPTED, documented
from fwflow.cli.options import METHOD, file_option, plain
from fwflow.cli.screen import note, on_interrupt, print_json
from fwflow.run.result import Status
from fwflow.semidefinite.cuts import maxcut as solve_maxcut
from fwflow.semidefinite.graph_files import read_graph_file

GraphFile = Annotated[
    Path,
    typer.Argument(
        help="Graph: an edge list, a file in the rudy format of the G-set, or a MatrixMarket file; each also as .gz.",
        metavar="GRAPH",
    ),
]


@documented(
    ("Bound the maximum cut of a graph", "fwflow maxcut graph.txt"),
    ("Save the cut, with a more accurate bound", "fwflow maxcut graph.txt --rtol 1e-6 --out cut.txt"),
    ("Stop after a minute", "fwflow maxcut large.mtx --max-time 60"),
    exit_codes={
        3: "The tolerance was not reached. The best cut so far is written.",
        130: f"{INTERRUPTED} The best cut so far is written.",
    },
)
def maxcut(
    graph: GraphFile,
    rtol: Annotated[
        float,
        typer.Option(
            help="Largest distance of the bound from the optimum of the relaxation, relative to the bound.",
            rich_help_panel=METHOD,
            **plain(float),
        ),
    ] = 1e-4,
    max_time: Annotated[
        float | None,
        typer.Option(help="Time limit in seconds. Default: none.", rich_help_panel=METHOD, **plain(float)),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the random start and of the rounding.", rich_help_panel=METHOD, **plain(int, 0)),
    ] = 0,
    out: Annotated[
        Path | None, file_option("File for the cut: one line per node with its name and its side, 1 or -1.", "--out")
    ] = None,
    as_json: options.JsonOption = False,
) -> None:
    """Find a large cut of a graph, and prove an upper bound on its maximum cut.

    The maximum cut divides the nodes into two sides such that the weights between the sides have the largest sum. The
    bound is that of the semidefinite relaxation of Goemans and Williamson. The command prints the value of a cut, the
    bound, and the gap between the bound and the value of a feasible solution of the relaxation.
    """
    options.check_writable({"--out": out}, (graph,))
    rtol = positive(rtol, "--rtol")
    max_time = None if max_time is None else positive(max_time, "--max-time")
    with on_interrupt("there was no cut yet, so none is written"):
        adjacency, names = read_graph_file(graph)
        r = solve_maxcut(adjacency, rtol, max_time=max_time, seed=seed)
    if out is not None:
        with replacing(out) as file:
            file.writelines(f"{name} {side}\n" for name, side in zip(names, r.cut.tolist(), strict=True))
    ratio = r.cut_value / r.bound if r.bound > 0 else 1.0
    fields = {
        "nodes": len(names),
        "edges": int(sp.triu(adjacency, 1).count_nonzero()),
        "cut": r.cut_value,
        "bound": r.bound,
        "value": r.value,
        "gap": r.gap,
        "rank": r.rank,
        "seconds": r.seconds,
        "success": r.success,
        "status": r.status.name,
        "message": r.message,
        "out": None if out is None else str(out),
    }
    if as_json:
        print_json(fields)
    else:
        relative = r.gap / abs(r.bound) if r.bound else 0.0
        typer.echo(f"graph: {fields['nodes']} nodes, {fields['edges']} edges")
        typer.echo(f"cut: {r.cut_value:.10g}")
        typer.echo(f"bound: {r.bound:.10g} (the cut reaches {100 * ratio:.2f} % of it)")
        typer.echo(f"gap: {r.gap:.3g} (relative {relative:.1e}), of a factor of rank {r.rank}")
        typer.echo(f"seconds: {r.seconds:.2f}")
        typer.echo(f"status: {r.message}")
        if out is not None:
            typer.echo(f"cut written to: {out}")
    if r.status is Status.INTERRUPTED:
        note("interrupted; the best cut so far is above")
        raise typer.Exit(130)
    if not r.success:
        raise typer.Exit(3)
