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
    return found


if __name__ == "__main__":
    oracle_costs()
