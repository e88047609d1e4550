"""What the catalogue-driven tests run over: one small instance of every set and every objective.

A new set or objective is one entry here; LMO, feasibility, gradient and optimality tests pick it up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

import fwflow as fw

Shape = tuple[int, ...]

TURNED = np.linalg.qr(np.random.default_rng(11).standard_normal((6, 6)))[0]

#: name -> (set, shape of its members)
SETS: dict[str, tuple[fw.ConstraintSet, Shape]] = {
    "l1": (fw.L1Ball(2.0), (6,)),
    "l1-matrix": (fw.L1Ball(2.0), (3, 2)),
    "simplex": (fw.Simplex(), (6,)),
    "simplex-radius": (fw.Simplex(3.0), (6,)),
    "unit-simplex": (fw.UnitSimplex(2.0), (6,)),
    "hypersimplex": (fw.HyperSimplex(2, 1.5), (6,)),
    "unit-hypersimplex": (fw.UnitHyperSimplex(3), (6,)),
    "box": (fw.Box(-1.0, 2.0), (6,)),
    "box-arrays": (fw.Box(np.arange(6.0) - 4, np.arange(6.0)), (6,)),
    "interval": (fw.Box(-1.0, 1.0), (1,)),
    "linf": (fw.LInfBall(1.5), (6,)),
    "l2": (fw.L2Ball(2.0), (6,)),
    "lp-1.5": (fw.LpBall(1.5, 2.0), (6,)),
    "lp-3": (fw.LpBall(3.0, 2.0), (6,)),
    "group": (fw.GroupBall([[0, 2], [1, 3, 4], [5]], 2.0), (6,)),
    "group-3": (fw.GroupBall([0, 0, 1, 1, 1, 0], 2.0, p=3), (6,)),
    "group-inf": (fw.GroupBall([[0, 2], [1, 3, 4], [5]], 2.0, p=np.inf), (6,)),
    "k-sparse": (fw.KSparseBall(2, 1.5), (6,)),
    "k-norm": (fw.KNormBall(2, 1.5), (6,)),
    "owl": (fw.OWLBall([0.5, 3.0, 2.0, 2.0, 0.0, 1.0], 4.0), (6,)),
    "permutahedron": (fw.Permutahedron([2.0, -1.0, 0.0, 2.0, 1.0, -1.0]), (6,)),
    "ellipsoid": (fw.Ellipsoid(np.linspace(-1, 1, 6), np.linspace(0.5, 2, 6), TURNED), (6,)),
    "nuclear": (fw.NuclearBall(2.0), (4, 3)),
    "nuclear-wide": (fw.NuclearBall(2.0), (3, 5)),
    "hull": (fw.ConvexHull(np.random.default_rng(7).standard_normal((9, 6))), (6,)),
    "birkhoff": (fw.Birkhoff(3), (3, 3)),
    "birkhoff-flat": (fw.Birkhoff(3), (9,)),
    "polytope": (
        fw.Polytope(np.ones((1, 6)), [2.0], [[1.0, -1.0, 0, 0, 0, 0]], [0.0], lower=-1.0, upper=1.0),
        (6,),
    ),
    "polytope-sparse": (fw.Polytope(sp.eye_array(6).tocsr(), np.ones(6), lower=-np.arange(1.0, 7.0)), (6,)),
    "scaled": (-2.0 * fw.Simplex(), (6,)),
    "translated": (fw.L1Ball(1.0) + np.linspace(-1, 1, 6), (6,)),
    "product": (fw.Product([(fw.L1Ball(1.0), 2), (fw.Simplex(), 3), (fw.L2Ball(1.0), 1)]), (6,)),
    "minkowski": (fw.MinkowskiSum(fw.L1Ball(1.0), 2.0 * fw.Simplex()), (6,)),
    "minkowski-boxes": (fw.MinkowskiSum(fw.Box(-1.0, 2.0), fw.LInfBall(0.5)), (6,)),
}


def design(m: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((m, n))


def labels(m: int, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed + 1).standard_normal(m) > 0, 1.0, -1.0)


def targets(m: int, seed: int = 0) -> np.ndarray:
    return 2 * np.random.default_rng(seed + 2).standard_normal(m)


def _quadratic(n: int, seed: int) -> fw.Quadratic:
    A = design(2 * n, n, seed)
    return fw.Quadratic(A.T @ A / n, targets(n, seed))


def _smooth(n: int, seed: int) -> fw.Smooth:
    b = targets(n, seed)
    return fw.Smooth(lambda x: float(np.cosh(x - b / 4).sum()), lambda x: np.sinh(x - b / 4))


def _beckmann(n: int, seed: int) -> fw.Beckmann:
    rng = np.random.default_rng(seed)
    power = rng.choice([0.0, 2.5, 4.0], n)
    return fw.Beckmann(rng.uniform(0, 2, n), rng.uniform(0.5, 2, n), rng.uniform(0, 1, n), power, fixed=rng.random(n))


#: name -> (n, seed) -> objective of a vector with n entries. All are convex.
OBJECTIVES: dict[str, Callable[[int, int], fw.Objective]] = {
    "squared": lambda n, seed: fw.LinearModel(design(12, n, seed), targets(12, seed), loss="squared"),
    "squared-sum": lambda n, seed: fw.LinearModel(design(12, n, seed), targets(12, seed), loss="squared", scale="sum"),
    "logistic": lambda n, seed: fw.LinearModel(design(12, n, seed), labels(12, seed), loss="logistic"),
    "huber": lambda n, seed: fw.LinearModel(design(12, n, seed), targets(12, seed), loss="huber", rho=0.5),
    "squared-csr": lambda n, seed: fw.LinearModel(sp.csr_array(design(12, n, seed)), targets(12, seed)),
    "logistic-csc": lambda n, seed: fw.LinearModel(sp.csc_array(design(12, n, seed)), labels(12, seed), "logistic"),
    "quadratic": _quadratic,
    "smooth": _smooth,
    "beckmann": _beckmann,
}

LINE_SEARCHES = (None, "aggressive", "exact", "short", "armijo", "adaptive", "secant")
MOMENTA = (None, "nesterov", "gradient-averaging", "lmo-averaging")
CERTIFIED = ("euler", "heun", "kutta3", "ssprk3", "bs3", "rk44", "rk38", "rk5")
UNCERTIFIED = ("midpoint", "ralston", "dp5")
