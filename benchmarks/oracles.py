"""How do the costs of oracles and projections grow with the number of entries? Fitted exponents, one line per set.

Then every set of the catalogue at one size: the time of its oracle, of its projection, and of a least-squares problem.
Times beyond ten times the median of their family are marked.

Run it with the package installed: python benchmarks/oracles.py, or python benchmarks/oracles.py table
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import fwflow as fw
from record import timed

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
    return min(timed(task)[1] for _ in range(repeats))


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


#: Number of rows of the matrices of the table; vectors and graphs have as many entries and edges as the matrices.
ROWS = 20
N = ROWS**2
#: Factor beyond the median of a family from which on a time is marked.
OUTLIER = 10.0


def polytope(n: int, rng: np.random.Generator) -> fw.ConstraintSet:
    """A box cut by a tenth as many half-spaces as entries."""
    return fw.Polytope(rng.standard_normal((n // 10, n)), np.ones(n // 10), lower=-1.0, upper=1.0)


def integers(n: int, rng: np.random.Generator) -> fw.ConstraintSet:
    """A knapsack."""
    return fw.MixedInteger(rng.integers(1, 10, (1, n)), [n], lower=0.0, upper=1.0)


def graph(make: Callable[[np.ndarray, np.ndarray, int], fw.ConstraintSet]) -> Callable[[int, Any], fw.ConstraintSet]:
    return lambda n, rng: of_edges(make)(n, rng)[0]


def halves(n: int, rng: np.random.Generator) -> fw.ConstraintSet:
    return fw.Product([(fw.L1Ball(), n // 2), (fw.L2Ball(), n - n // 2)])


def image(n: int, rng: np.random.Generator) -> fw.ConstraintSet:
    return fw.LinearImage(rng.standard_normal((n, n)) / np.sqrt(n), fw.L1Ball())


#: family -> name -> a set with n entries; a name that begins with one of the catalogue stands for that set
TABLE: dict[str, dict[str, Callable[[int, np.random.Generator], fw.ConstraintSet]]] = {
    "norm balls": {
        "L1Ball": lambda n, rng: fw.L1Ball(),
        "LpBall 1.1": lambda n, rng: fw.LpBall(1.1),
        "LpBall 1.5": lambda n, rng: fw.LpBall(1.5),
        "L2Ball": lambda n, rng: fw.L2Ball(),
        "LpBall 3": lambda n, rng: fw.LpBall(3.0),
        "LpBall 10": lambda n, rng: fw.LpBall(10.0),
        "LInfBall": lambda n, rng: fw.LInfBall(),
        "Box": lambda n, rng: fw.Box(-1.0, 1.0),
        "Ellipsoid": lambda n, rng: fw.Ellipsoid(np.zeros(n), np.linspace(1, 2, n)),
        "GroupBall 2": lambda n, rng: fw.GroupBall(np.arange(n) // 10),
        "GroupBall 3": lambda n, rng: fw.GroupBall(np.arange(n) // 10, p=3.0),
        "GroupBall inf": lambda n, rng: fw.GroupBall(np.arange(n) // 10, p=np.inf),
        "KSparseBall": lambda n, rng: fw.KSparseBall(n // 10),
        "KNormBall": lambda n, rng: fw.KNormBall(n // 10),
        "OWLBall": lambda n, rng: fw.OWLBall(np.linspace(1, 0, n)),
    },
    "simplices": {
        "Simplex": lambda n, rng: fw.Simplex(),
        "UnitSimplex": lambda n, rng: fw.UnitSimplex(),
        "HyperSimplex": lambda n, rng: fw.HyperSimplex(n // 10),
        "UnitHyperSimplex": lambda n, rng: fw.UnitHyperSimplex(n // 10),
        "Permutahedron": lambda n, rng: fw.Permutahedron(np.arange(n) / n),
    },
    "polytopes": {
        "ConvexHull": lambda n, rng: fw.ConvexHull(rng.standard_normal((2 * n, n))),
        "Polytope": polytope,
        "MixedInteger": integers,
        "Birkhoff": lambda n, rng: fw.Birkhoff(ROWS),
        "TransportPolytope": lambda n, rng: fw.TransportPolytope(np.ones(ROWS), np.ones(ROWS)),
        "ShortestPath": graph(lambda t, h, n: fw.ShortestPath(t, h, 0, n - 1)),
        "SpanningTree": graph(lambda t, h, n: fw.SpanningTree(t, h)),
        "Matching": graph(lambda t, h, n: fw.Matching(t, h)),
    },
    "matrices": {
        "NuclearBall": lambda n, rng: fw.NuclearBall(),
        "Spectraplex": lambda n, rng: fw.Spectraplex(),
        "Spectrahedron": lambda n, rng: fw.Spectrahedron(),
        "Fantope": lambda n, rng: fw.Fantope(3),
        "SchattenBall 1.5": lambda n, rng: fw.SchattenBall(1.5),
        "SchattenBall 3": lambda n, rng: fw.SchattenBall(3.0),
        "SchattenBall inf": lambda n, rng: fw.SchattenBall(np.inf),
    },
    "made of others": {
        "ScaledSet": lambda n, rng: 2.0 * fw.L2Ball(),
        "Translated": lambda n, rng: fw.L2Ball() + np.ones(n),
        "Product": halves,
        "MinkowskiSum": lambda n, rng: fw.MinkowskiSum(fw.L1Ball(), fw.L2Ball()),
        "LinearImage": image,
    },
}


#: Sets whose times are beyond those of their family by nature
INHERENT = {
    "Polytope": "a linear program in every call",
    "MixedInteger": "an integer program in every call",
    "MinkowskiSum": "no projection: weights of vertices of a curved set",
}


def least_squares(C: fw.ConstraintSet, shape: tuple[int, ...], rng: np.random.Generator) -> fw.Objective:
    """Twice as many equations as entries, solved but for noise by a point half as far outside as vertices reach."""
    centre = np.asarray(C.start(shape))
    aims = [np.asarray(C.lmo(rng.standard_normal(shape))) for _ in range(10)]
    x = (centre + 1.5 * (np.mean(aims, axis=0) - centre)).reshape(-1)
    A = rng.standard_normal((2 * x.size, x.size))
    b = A @ x + 0.1 * np.abs(x).mean() * rng.standard_normal(len(A))
    if len(shape) == 1:
        return fw.LinearModel(A, b, scale="sum")
    H, c = A.T @ A, A.T @ b
    return fw.Smooth(
        lambda X: 0.5 * float(np.sum((A @ X.reshape(-1) - b) ** 2)),
        lambda X: (H @ X.reshape(-1) - c).reshape(shape),
        hess_product=lambda X, D: (H @ D.reshape(-1)).reshape(shape),
        shape=shape,
    )


def marked(times: Sequence[float | None]) -> list[str]:
    """Times in milliseconds, with the factor beyond the median for those that are outliers."""
    median = float(np.median([t for t in times if t is not None] or [0.0]))
    return [
        "-" if t is None else f"{1e3 * t:.3f}" + (f" (x{t / median:.0f})" if t > OUTLIER * median else "")
        for t in times
    ]


def catalogue_costs(max_time: float = 60.0) -> None:
    """Print the times of every set of the catalogue, in milliseconds of one processor."""
    named = {name.split()[0] for sets in TABLE.values() for name in sets}
    missing = set(fw.sets.__all__) - named - {"ConstraintSet"}
    if missing:
        raise SystemExit(f"add these sets to TABLE: {sorted(missing)}")
    print(f'\nevery set with {N} entries, in milliseconds; least squares to rtol = 1e-6 with method="auto"')
    for family, sets in TABLE.items():
        rows, times = [], []
        for name, make in sets.items():
            rng = np.random.default_rng(0)
            C = make(N, rng)
            shape = C.shape or ((ROWS, ROWS) if family == "matrices" else (N,))
            g, f = rng.standard_normal(shape), least_squares(C, shape, rng)
            offered = C.project(np.asarray(C.start(shape))) is not None
            projection = seconds(lambda C=C, g=g: C.project(100 * g), 5) if offered else None  # type: ignore[misc]
            found: list[fw.Result] = []

            def solve(f: fw.Objective = f, C: fw.ConstraintSet = C, found: list[fw.Result] = found) -> None:
                found.append(fw.minimize(f, C, tol=0, rtol=1e-6, max_iter=10**6, max_time=max_time))

            whole = seconds(solve, 1)
            whole = min(whole, seconds(solve, 2)) if whole < 1 else whole
            times.append((seconds(lambda C=C, g=g: C.lmo(g), 5), projection, whole))  # type: ignore[misc]
            r = found[-1]
            told = [f"{r.method}, {r.nit} steps", *([] if r.success else [r.status.name])]
            rows.append((name, "; ".join([*told, *([INHERENT[name]] if name in INHERENT else [])])))
        print(f"\n{family:<20}{'oracle':>16}{'projection':>16}{'least squares':>20}")
        columns = zip(*(marked(column) for column in zip(*times, strict=True)), strict=True)
        for (name, told), (oracle, projected, problem) in zip(rows, columns, strict=True):
            print(f"{name:<20}{oracle:>16}{projected:>16}{problem:>20}  {told}")


if __name__ == "__main__":
    if "table" not in sys.argv[1:]:
        oracle_costs()
    catalogue_costs()
