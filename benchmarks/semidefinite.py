"""Semidefinite programs with a proof: processor time and memory, and ratios to DSDP and CSDP on the same programs.

Run with ``make bench``, or with the names of graphs, ``theta`` or ``completion`` as arguments. The peers are the
programs ``dsdp5`` and ``csdp`` of the Debian packages dsdp and coinor-csdp; without them only our figures are printed.
A cut is computed in a process of its own with one thread, and its processor time and largest memory are those that the
system reports.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from fwflow import datasets
from fwflow.semidefinite import Problem, completion, maxcut, theta, write_sdpa
from fwflow.semidefinite.operators import diagonal_map
from fwflow.semidefinite.theta import ThetaProgram
from record import timed

#: Seconds after which a peer is stopped.
PATIENCE = 170.0


def power_grid(buses: int) -> sp.csr_array:
    lines = datasets.power_grid(buses)
    return symmetric(lines["tails"], lines["heads"], np.ones(len(lines["tails"])), buses)


def symmetric(tails: np.ndarray, heads: np.ndarray, weights: np.ndarray, n: int) -> sp.csr_array:
    A = sp.csr_array((weights, (tails, heads)), (n, n))
    return sp.csr_array(A + A.T)


def random_graph(n: int, degree: int) -> sp.csr_array:
    ends = np.random.default_rng(0).integers(0, n, (n * degree // 2, 2))
    ends = np.unique(np.sort(ends[ends[:, 0] != ends[:, 1]], axis=1), axis=0)
    return symmetric(*ends.T, np.ones(len(ends)), n)


def torus(side: int, weights: str) -> sp.csr_array:
    place = np.arange(side * side).reshape(side, side)
    heads = np.concatenate([np.roll(place, -1, axis).ravel() for axis in (0, 1)])
    rng, m = np.random.default_rng(0), 2 * side * side
    drawn = rng.choice([-1.0, 1.0], m) if weights == "signs" else rng.standard_normal(m)
    return symmetric(np.tile(place.ravel(), 2), heads, drawn, side * side)


def in_pieces(graph: sp.csr_array) -> sp.csr_array:
    """Several copies of a graph with weights of very different size, and isolated nodes."""
    return sp.csr_array(sp.block_diag([graph, 1e-3 * graph, 1e4 * graph, sp.csr_array((500, 500))]))


def uneven(graph: sp.csr_array) -> sp.csr_array:
    upper = sp.triu(graph, 1, format="coo")
    weights = 10 ** np.random.default_rng(0).uniform(-2, 3, upper.nnz)
    return symmetric(upper.row, upper.col, weights, graph.shape[0])


GRAPHS: dict[str, Callable[[], sp.csr_array]] = {
    "random 800 nodes, 6 %": lambda: random_graph(800, 48),
    "grid of 2000 buses": lambda: power_grid(2000),
    "grid of 10000 buses": lambda: power_grid(10_000),
    "grid of 70000 buses": lambda: power_grid(70_000),
    "random degree 10, 20000 nodes": lambda: random_graph(20_000, 10),
    "signed torus 100 x 100": lambda: torus(100, "signs"),
    "Gaussian torus 100 x 100": lambda: torus(100, "normal"),
    "grid of 10000 buses, uneven weights": lambda: uneven(power_grid(10_000)),
    "disconnected, isolated nodes, uneven": lambda: in_pieces(power_grid(2000)),
}
#: Graphs that the peers solve, and the bars: seconds to 1e-3 and to 1e-4, megabytes, and the ratio of DSDP to ours.
PEERS = ("random 800 nodes, 6 %", "grid of 2000 buses")
BARS = {
    "grid of 2000 buses": (None, 2.0, None),
    "grid of 10000 buses": (None, 6.0, 200.0),
    "grid of 70000 buses": (30.0, 90.0, 500.0),
}
DSDP_BAR = 5.0


def ours(name: str, rtol: float) -> dict[str, float]:
    """Run our method in a process of its own."""
    command = [sys.executable, __file__, "--one", name, str(rtol)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread()).stdout
    return json.loads(out.splitlines()[-1])


def one(name: str, rtol: float) -> None:
    """Solve one graph and print the figures; importing the library and making the graph are not counted."""
    A = GRAPHS[name]()
    r, seconds = timed(lambda: maxcut(A, rtol))
    figures = {
        "seconds": seconds,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "success": r.success,
        "gap": r.gap / abs(r.bound) if r.bound else 0.0,
        "cut": r.cut_value,
        "bound": r.bound,
    }
    print(json.dumps(figures))


def one_thread() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def relaxation(A: sp.csr_array) -> Problem:
    """Return the relaxation of the maximum cut."""
    n = A.shape[0]
    laplacian = sp.csr_array(sp.diags_array(np.asarray(A.sum(axis=1)).ravel()) - A)
    return Problem(laplacian / -4, diagonal_map(n), np.ones(n))


def peer(program: str, problem: Problem, rtol: float) -> float | None:
    """Return the processor time of a peer to a relative gap, None if it is not installed or not done in time."""
    found = shutil.which(program)
    if found is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "graph.dat-s")
        write_sdpa(problem, path)
        command = [found, str(path)]
        if program == "dsdp5":
            command += ["-gaptol", str(rtol)]
        else:
            Path(folder, "param.csdp").write_text(
                f"axtol=1e-8\natytol=1e-8\nobjtol={rtol}\npinftol=1e8\ndinftol=1e8\nmaxiter=100\nminstepfrac=0.9\n"
                "maxstepfrac=0.97\nminstepp=1e-8\nminstepd=1e-8\nusexzgap=1\ntweakgap=0\naffine=0\nprintlevel=0\n"
                "perturbobj=1\nfastmode=0\n"
            )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        try:
            subprocess.run(command, cwd=folder, capture_output=True, timeout=PATIENCE, env=one_thread(), check=False)
        except subprocess.TimeoutExpired:
            return None
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def verdict(limit: float | None, found: float) -> str:
    return "" if limit is None else f" <= {limit:g} {'ok' if found <= limit else 'MISSED'}"


def main(names: list[str]) -> None:
    for name in names:
        rough, fine = ours(name, 1e-3), ours(name, 1e-4)
        bars = BARS.get(name, (None, None, None))
        print(f"{name}: gap {fine['gap']:.1e}, cut {fine['cut']:.8g}, bound {fine['bound']:.8g}")
        if not (rough["success"] and fine["success"]):
            print("  MISSED: the tolerance was not reached")
        print(f"  1e-3: {rough['seconds']:.2f} s{verdict(bars[0], rough['seconds'])}")
        print(f"  1e-4: {fine['seconds']:.2f} s{verdict(bars[1], fine['seconds'])}")
        print(f"  memory: {fine['megabytes']:.0f} MB{verdict(bars[2], fine['megabytes'])}")
        for program in ("dsdp5", "csdp") if name in PEERS else ():
            seconds = peer(program, relaxation(GRAPHS[name]()), 1e-3)
            if seconds is None:
                print(f"  {program}: not installed, or not done in {PATIENCE:g} s")
                continue
            ratio, limit = seconds / rough["seconds"], DSDP_BAR if program == "dsdp5" else 0.0
            print(f"  {program} to 1e-3: {seconds:.2f} s, {ratio:.1f} times ours", end="")
            print(f" >= {limit:g} {'ok' if ratio >= limit else 'MISSED'}" if limit else "")


#: Theta of random graphs: nodes, edges, tolerance, and the bars: seconds, and the ratio of CSDP to ours.
THETA = ((200, 4000, 1e-4, None, 2.0), (300, 4500, 1e-4, None, 2.0), (400, 8000, 1e-3, 25.0, None))


def theta_of_random_graphs() -> None:
    for n, m, rtol, limit, least in THETA:
        pairs = np.array(np.triu_indices(n, 1)).T
        edges = pairs[np.random.default_rng(0).choice(len(pairs), m, replace=False)]
        r, seconds = timed(lambda edges=edges, n=n, rtol=rtol: theta(edges, n, rtol))
        print(f"theta, {n} nodes, {m} edges: {r.value:.8g} to {r.bound:.8g}, success {r.success}")
        print(f"  {rtol:g}: {seconds:.2f} s{verdict(limit, seconds)}")
        found = peer("csdp", ThetaProgram(*np.sort(edges, axis=1).T, n).problem, rtol) if least else None
        if least and found is None:
            print(f"  csdp: not installed, or not done in {PATIENCE:g} s")
        elif found is not None:
            print(f"  csdp: {found:.2f} s, {found / seconds:.1f} times ours >= {least:g} ", end="")
            print("ok" if found / seconds >= least else "MISSED")


def completion_of_a_random_matrix(p: int = 2000, q: int = 1500, rank: int = 5, count: int = 100_000) -> None:
    rng = np.random.default_rng(0)
    U, V = rng.standard_normal((p, rank)), rng.standard_normal((q, rank))
    i, j = np.divmod(rng.choice(p * q, count, replace=False), q)
    for rtol in (1e-3, 1e-4):
        values = np.einsum("er,er->e", U[i], V[j])
        r, seconds = timed(lambda values=values, rtol=rtol: completion(i, j, values, (p, q), rtol=rtol))
        print(f"completion {p} x {q}, {count} entries: {r.bound:.8g} to {r.value:.8g}, {rtol:g}: {seconds:.2f} s")


OTHERS: dict[str, Callable[[], None]] = {"theta": theta_of_random_graphs, "completion": completion_of_a_random_matrix}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], float(sys.argv[3]))
    else:
        asked = sys.argv[1:] or [*GRAPHS, *OTHERS]
        main([name for name in asked if name not in OTHERS])
        for name in asked:
            if name in OTHERS:
                OTHERS[name]()
