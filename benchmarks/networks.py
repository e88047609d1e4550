"""Time to traffic equilibrium: fwflow and AequilibraE on the same networks, in one run and on one core.

Run with ``make bench NETWORKS="folder ..."``, or ``python benchmarks/networks.py folder ...`` with folders that hold
networks in the TNTP format; Sioux Falls and generated networks come along. Printed are the calls of the all-or-nothing
assignment, the seconds, and the seconds in units of one call of fwflow, until the relative gap, (x - s) c(x) / x c(x),
is small. AequilibraE reports its own at every iteration, each of which is one call. Both clocks start where the solver
does, with the network in memory.
"""

from __future__ import annotations

import os

THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR", "VECLIB_MAXIMUM", "RAYON")
os.environ |= {f"{library}_NUM_THREADS": "1" for library in THREADS} | {"AEQ_SHOW_PROGRESS": "FALSE"}

import argparse  # noqa: E402
import importlib.util  # noqa: E402
import logging  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator  # noqa: E402
from pathlib import Path  # noqa: E402

import numpy as np  # noqa: E402

import fwflow as fw  # noqa: E402
from fwflow.networks import Network, read_tntp, road_grid, sioux_falls  # noqa: E402
from record import Record  # noqa: E402

LEVELS = (1e-4, 1e-6, 1e-8)
MOST = 2000  # calls
#: Rows, columns, zones and congestion of generated networks. The second one has the size of Chicago Sketch.
GENERATED = ((10, 10, 60, 0.5), (26, 21, 387, 0.5), (26, 21, 387, 1.0), (40, 40, 600, 0.5))
#: The same for ``--large``.
LARGE = ((68, 68, 1000, 0.5),)
#: Calls, seconds and relative gaps, in the order in which they were reached.
Rows = list[tuple[int, float, float]]


def fwflow(network: Network, method: str, limit: float) -> tuple[str, Rows]:
    f, rows = network.objective, []

    def look(state: fw.State) -> bool:
        gap = state.gap / float(state.x @ f.cost(state.x))
        rows.append((state.counts.n_lmo, time.perf_counter() - started, gap))
        return gap <= LEVELS[-1]

    started = time.perf_counter()
    r = fw.minimize(f, network.flows, method=method, tol=0, max_iter=MOST, max_time=limit, callback=look)
    return f"fwflow {method}" + (f" ({r.method})" if r.method != method else ""), rows


def aequilibrae(network: Network) -> tuple[str, Rows]:
    """Biconjugate Frank-Wolfe, which knows neither zeroth powers nor links without capacity: those get b = 0."""
    import pandas as pd
    from aequilibrae.matrix import AequilibraeMatrix
    from aequilibrae.paths import Graph, TrafficAssignment, TrafficClass

    logging.getLogger("aequilibrae").setLevel(logging.CRITICAL)
    links, zones = network.links, np.arange(1, len(network.demand) + 1)
    constant = (links.capacity == 0) | (links.b == 0) | (links.power == 0)
    table = {
        "link_id": np.arange(1, len(links) + 1),
        "a_node": links.tail + 1,
        "b_node": links.head + 1,
        "direction": 1,
        "capacity": np.where(constant, 1.0, links.capacity),
        "time": network.objective.cost(np.zeros(len(links))),
        "alpha": np.where(constant, 0.0, links.b),
        "beta": np.where(constant, 1.0, links.power),
    }
    graph = Graph()
    graph.network = pd.DataFrame(table)
    graph.prepare_graph(zones)
    graph.set_graph("time")
    graph.set_blocked_centroid_flows(network.first_through > 0)
    trips = AequilibraeMatrix()
    trips.create_empty(zones=len(zones), matrix_names=["trips"], memory_only=True)
    trips.index[:] = zones
    trips.matrices[:, :, 0] = network.demand
    trips.computational_view(["trips"])
    assignment = TrafficAssignment()
    assignment.add_class(TrafficClass("car", graph, trips))
    assignment.set_vdf("BPR")
    assignment.set_vdf_parameters({"alpha": "alpha", "beta": "beta"})
    assignment.set_capacity_field("capacity")
    assignment.set_time_field("time")
    assignment.max_iter, assignment.rgap_target = MOST, LEVELS[-1]
    assignment.set_cores(1)
    assignment.set_algorithm("bfw")
    with np.errstate(all="ignore"):
        assignment.execute(log_specification=False)
    report = assignment.report()
    rows = zip(report["iteration"], report["time"], report["rgap"], strict=True)
    return "AequilibraE bfw", [(int(calls), float(seconds), float(gap)) for calls, seconds, gap in rows]


def show(record: Record, solver: str, rows: Rows, one: float) -> None:
    cells = []
    for level in LEVELS:
        reached = next(((calls, seconds) for calls, seconds, gap in rows if gap <= level), None)
        cells.append("not reached" if reached is None else f"{reached[0]}, {reached[1]:.3f} ({reached[1] / one:.0f})")
    record.row(solver, *cells)


def networks(folders: list[Path], large: bool) -> Iterator[tuple[str, Network]]:
    yield "Sioux Falls", sioux_falls()
    for rows, columns, zones, congestion in GENERATED + LARGE * large:
        yield f"Grid {rows} x {columns}, congestion {congestion}", road_grid(rows, columns, zones, congestion)
    for folder in folders:
        for net in sorted(folder.rglob("*_net.tntp")):
            name = net.name.removesuffix("_net.tntp")
            if name != "SiouxFalls":
                yield name, read_tntp(net, net.with_name(f"{name}_trips.tntp"))


def seconds_per_call(network: Network, repeats: int = 9) -> float:
    costs, spent = network.objective.cost(network.flows.start()), []
    for _ in range(repeats):
        started = time.perf_counter()
        network.flows.lmo(costs)
        spent.append(time.perf_counter() - started)
    return float(np.median(spent))


def main(record: Record) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="*", type=Path, help="folders with NAME_net.tntp and NAME_trips.tntp")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each of our runs")
    parser.add_argument("--large", action="store_true", help="also 1000 zones and 20000 links")
    parser.add_argument("--write", action="store_true", help="store the tables in benchmarks/results")
    arguments = parser.parse_args()
    peer = importlib.util.find_spec("aequilibrae") is not None
    record.say(
        "Each cell shows the number of all-or-nothing assignments, the seconds, and, in brackets, the seconds divided "
        "by the time of one assignment. All runs use one thread:"
    )
    for name, network in networks(arguments.folders, arguments.large):
        one = seconds_per_call(network)
        record.table(f"{name}, {1e3 * one:.2f} ms per assignment", *(f"relative gap {level:.0e}" for level in LEVELS))
        for method in ("auto", "corrective"):
            show(record, *fwflow(network, method, arguments.limit), one)
        if peer:
            try:
                show(record, *aequilibrae(network), one)
            except Exception as error:  # a peer that fails is named, and does not end the run
                record.row(f"AequilibraE failed: {type(error).__name__}", *("" for _ in LEVELS))
        record.end_table()


if __name__ == "__main__":
    with Record("networks", "aequilibrae") as results:
        main(results)
