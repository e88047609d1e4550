"""How do the costs of oracles and projections grow with the number of entries? Fitted exponents, one line per set.

Run it with the package installed: python benchmarks/oracles.py
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

import fwflow as fw

#: name -> the set of vectors with n entries, and the growth that is documented
SETS: dict[str, tuple[Callable[[int], fw.ConstraintSet], str]] = {
    "L1Ball": (lambda n: fw.L1Ball(), "n"),
    "Simplex": (lambda n: fw.Simplex(), "n"),
    "UnitSimplex": (lambda n: fw.UnitSimplex(), "n"),
    "HyperSimplex": (lambda n: fw.HyperSimplex(n // 10), "n"),
    "UnitHyperSimplex": (lambda n: fw.UnitHyperSimplex(n // 10), "n"),
    "KSparseBall": (lambda n: fw.KSparseBall(n // 10), "n"),
    "KNormBall": (lambda n: fw.KNormBall(n // 10), "n"),
    "OWLBall": (lambda n: fw.OWLBall(np.linspace(1, 0, n)), "n log n"),
    "Permutahedron": (lambda n: fw.Permutahedron(np.arange(n)), "n log n"),
    "GroupBall": (lambda n: fw.GroupBall(np.arange(n) // 10), "n"),
    "Ellipsoid": (lambda n: fw.Ellipsoid(np.zeros(n), np.linspace(1, 2, n)), "n"),
    "Box": (lambda n: fw.Box(-1.0, 1.0), "n"),
    "LInfBall": (lambda n: fw.LInfBall(), "n"),
    "L2Ball": (lambda n: fw.L2Ball(), "n"),
    "LpBall": (lambda n: fw.LpBall(3.0), "n"),
}
Drawn = tuple[fw.ConstraintSet, np.ndarray]


def of_matrices(C: fw.ConstraintSet) -> Callable[[int, np.random.Generator], Drawn]:
    return lambda n, rng: (C, rng.standard_normal((n, n)))


def of_edges(
    make: Callable[[np.ndarray, np.ndarray, int], fw.ConstraintSet],
) -> Callable[[int, np.random.Generator], Drawn]:
    """Of n edges of a random graph with n / 8 nodes, which a path connects; all lead on, from even to odd nodes."""

    def drawn(n: int, rng: np.random.Generator) -> Drawn:
        nodes = n // 8
        tails = rng.integers(0, nodes - 1, n - nodes + 1)
        heads = np.minimum(tails + 1 + 2 * rng.integers(0, nodes // 2, len(tails)), nodes - 1 - (tails + nodes) % 2)
        line = np.arange(nodes - 1)
        keep = heads > tails
        tails, heads = np.append(line, tails[keep]), np.append(line + 1, heads[keep])
        return make(tails, heads, nodes), rng.uniform(0.1, 1.0, len(tails))

    return drawn


def transport(n: int, rng: np.random.Generator) -> Drawn:
    return fw.TransportPolytope(np.full(n, 1 / n), np.full(n, 1 / n)), rng.uniform(size=(n, n))


#: name -> a set and a direction for n rows or edges, the growth that is documented, and for which n
OTHERS: dict[str, tuple[Callable[[int, np.random.Generator], Drawn], str, Sequence[int]]] = {
    "NuclearBall": (of_matrices(fw.NuclearBall(1.0)), "products, n^2", (256, 512, 1024, 2048)),
    "Spectraplex": (of_matrices(fw.Spectraplex()), "products, n^2", (256, 512, 1024, 2048)),
    "Spectrahedron": (of_matrices(fw.Spectrahedron()), "products, n^2", (256, 512, 1024, 2048)),
    "Fantope": (of_matrices(fw.Fantope(3)), "products, n^2", (256, 512, 1024, 2048)),
    "SchattenBall": (of_matrices(fw.SchattenBall(3.0)), "n^3", (128, 256, 512)),
    "Birkhoff": (lambda n, rng: (fw.Birkhoff(n), rng.standard_normal((n, n))), "n^3", (128, 256, 512)),
    "TransportPolytope": (transport, "network simplex", (64, 128, 256)),
    "ShortestPath": (of_edges(lambda t, h, n: fw.ShortestPath(t, h, 0, n - 1)), "n", (2**14, 2**15, 2**16, 2**17)),
    "SpanningTree": (of_edges(lambda t, h, n: fw.SpanningTree(t, h)), "n log n", (2**14, 2**15, 2**16, 2**17)),
    "Matching": (of_edges(lambda t, h, n: fw.Matching(t, h)), "assignment", (2**9, 2**10, 2**11, 2**12)),
}
#: Where vectors no longer fit the nearest cache, so that one exponent describes all sizes.
SIZES = (2**16, 2**17, 2**18, 2**19)


def seconds(task: Callable[[], object], repeats: int) -> float:
    """The least of several times of one processor."""
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        task()
        times.append(time.process_time() - begun)
    return min(times)


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of the line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(np.maximum(times, 1e-9)), 1)[0])


def oracle_costs(sizes: Sequence[int] = SIZES, repeats: int = 5) -> dict[str, tuple[float, float | None]]:
    """Print, and return, the exponents of the oracle and of the projection of every set; n log n is 1.1 or so here."""
    rng, found = np.random.default_rng(0), {}
    print(f"{'set':<18}{'documented':<12}{'oracle':>8}{'at n = ' + str(sizes[-1]):>16}{'projection':>12}{'':>10}")
    for name, (make, documented) in SETS.items():
        oracle, projection = [], []
        for n in sizes:
            C, g = make(n), rng.standard_normal(n)
            far = 100 * g
            oracle.append(seconds(lambda C=C, g=g: C.lmo(g), repeats))  # type: ignore[misc]
            if C.project(np.zeros(n)) is not None:
                projection.append(seconds(lambda C=C, far=far: C.project(far), repeats))  # type: ignore[misc]
        found[name] = exponent(sizes, oracle), exponent(sizes, projection) if projection else None
        told = f"{found[name][1]:>12.2f}{1e3 * projection[-1]:>7.1f} ms" if projection else f"{'-':>12}"
        print(f"{name:<18}{documented:<12}{found[name][0]:>8.2f}{1e3 * oracle[-1]:>13.1f} ms{told}")
    print(f"\n{'set':<18}{'documented':<18}{'oracle':>8}{'at n':>20}   (rows of a matrix, or edges)")
    for name, (draw, documented, own) in OTHERS.items():
        drawn = [draw(n, rng) for n in own]
        times = [seconds(lambda C=C, g=g: C.lmo(g), 3) for C, g in drawn]  # type: ignore[misc]
        found[name] = exponent(own, times), None
        print(f"{name:<18}{documented:<18}{found[name][0]:>8.2f}{1e3 * times[-1]:>9.1f} ms at {own[-1]}")
    return found


if __name__ == "__main__":
    oracle_costs()
