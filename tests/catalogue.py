"""What the catalogue-driven tests run over: one small instance of every set and every objective.

A new set or objective is one entry here; LMO, feasibility, gradient and optimality tests pick it up.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.optimize
import scipy.sparse as sp
from scipy.special import logsumexp, xlogy

import fwflow as fw
from fwflow.methods.catalogue import VARIANTS
from fwflow.steps.momentum import momenta
from fwflow.steps.searches import line_searches

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
    "bounded-simplex": (fw.BoundedSimplex(1.0, [0.0, -0.5, 0.1, 0.0, 0.0, 0.2], [0.4, 1, 0.1, np.inf, 0.3, 0.7]), (6,)),
    "bounded-simplex-numbers": (fw.BoundedSimplex(2.0, 0.25, 0.5), (6,)),
    "bounded-l1": (fw.BoundedL1Ball(2.0, -0.5), (6,)),
    "bounded-l1-arrays": (fw.BoundedL1Ball(3.0, [0, -1, 0.5, -np.inf, -2, -3], [np.inf, 1, 1, 2, -0.25, 0]), (6,)),
    "bounded-l1-box": (fw.BoundedL1Ball(20.0, [-1.0, -2.0, 0.0, 0.5, -1.0, 0.0], 2.0), (6,)),
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
    "symmetric": (fw.Symmetric(fw.L1Ball(2.0), [[1, 2, 0, 3, 4, 5], [0, 1, 2, 4, 3, 5]]), (6,)),
    "symmetric-matrix": (fw.Symmetric(fw.Birkhoff(3), [[1, 0, 2]]), (3, 3)),
    "symmetric-average": (fw.Symmetric(fw.L2Ball(2.0), lambda x: (x + x[::-1]) / 2), (6,)),
    "minkowski-boxes": (fw.MinkowskiSum(fw.Box(-1.0, 2.0), fw.LInfBall(0.5)), (6,)),
}

SETS |= {
    "spectraplex": (fw.Spectraplex(2.0), (4, 4)),
    "spectrahedron": (fw.Spectrahedron(2.0), (3, 3)),
    "fantope": (fw.Fantope(2), (4, 4)),
    "schatten": (fw.SchattenBall(np.inf, 2.0), (3, 4)),
    "transport": (fw.TransportPolytope([2.0, 2.0], [1.0, 1.0, 2.0]), (2, 3)),
}


def eigenvalues(g: np.ndarray) -> np.ndarray:
    return np.linalg.eigvalsh((g + g.T) / 2)


def least_bounded_sum(lower, upper, total):
    """Return the minimum over bounds and a sum by linear programming duality: the best multiplier is an entry of g."""
    lower = np.broadcast_to(np.asarray(lower, dtype=float), 6)
    upper = np.minimum(upper, lower + total - lower.sum())

    def minimum(g):
        reduced = g - g[:, None]
        return (g * total + np.minimum(reduced * lower, reduced * upper).sum(axis=1)).max()

    return lambda g: minimum(g.astype(np.float64))


def least_bounded_modulus(lower, upper, radius):
    """The same for a sum of moduli: the best multiplier is zero or the modulus of an entry of g."""
    lower, upper = (np.clip(np.broadcast_to(ends, 6), -radius, radius) for ends in (lower, upper))

    def minimum(g):
        multipliers = np.append(np.abs(g), 0.0)[:, None]
        values = [g * ends + multipliers * np.abs(ends) for ends in (lower, upper, np.clip(0.0, lower, upper))]
        return (np.min(values, axis=0).sum(axis=1) - radius * multipliers[:, 0]).max()

    return lambda g: minimum(g.astype(np.float64))


def least_symmetric_assignment(g):
    """Return the minimum over doubly stochastic X with X = PXP' for the swap P of the first two rows, by hand.

    Such X have the rows (a, b, c), (b, a, c), (d, d, e) with a + b + c = 1, 2c + e = 1 and c = d: the vertices have
    c = 0 and a or b one, or c = 1/2 and a or b one half.
    """
    vertices = [((a, b, 0), (b, a, 0), (0, 0, 1)) for a, b in ((1, 0), (0, 1))]
    vertices += [((a, b, 0.5), (b, a, 0.5), (0.5, 0.5, 0)) for a, b in ((0.5, 0), (0, 0.5))]
    return min(float((g * np.array(v)).sum()) for v in vertices)


#: name -> g -> the minimum of <g, s>, found independently of the oracle, for sets that are neither polytopes with few
#: vertices nor balls with a known dual norm. tests/sets/answers.py has the others.
MINIMA: dict[str, Callable[[np.ndarray], float]] = {
    "bounded-simplex": least_bounded_sum([0.0, -0.5, 0.1, 0.0, 0.0, 0.2], [0.4, 1, 0.1, np.inf, 0.3, 0.7], 1.0),
    "bounded-simplex-numbers": least_bounded_sum(0.25, 0.5, 2.0),
    "bounded-l1": least_bounded_modulus(-0.5, np.inf, 2.0),
    "bounded-l1-arrays": least_bounded_modulus([0, -1, 0.5, -np.inf, -2, -3], [np.inf, 1, 1, 2, -0.25, 0], 3.0),
    "bounded-l1-box": least_bounded_modulus([-1.0, -2.0, 0.0, 0.5, -1.0, 0.0], 2.0, 20.0),
    "symmetric": lambda g: -2 * max(abs(g[[*orbit]].mean()) for orbit in ((0, 1, 2), (3, 4), (5,))),
    "symmetric-matrix": lambda g: least_symmetric_assignment(g),
    "symmetric-average": lambda g: -float(np.linalg.norm(g + g[::-1])),
    "spectraplex": lambda g: 2 * eigenvalues(g)[0],
    "spectrahedron": lambda g: min(0.0, 2 * eigenvalues(g)[0]),
    "fantope": lambda g: eigenvalues(g)[:2].sum(),
    "schatten": lambda g: -2 * scipy.linalg.svdvals(g).sum(),
}

#: The same for sets of subgraphs and others whose oracles take long: tests/sets/test_combinatorial.py runs over them.
COMBINATORIAL: dict[str, tuple[fw.ConstraintSet, Shape]] = {
    "path": (fw.ShortestPath([0, 0, 1, 1, 2, 2, 3], [1, 2, 2, 3, 3, 4, 4], 0, 4), (7,)),
    "path-cyclic": (fw.ShortestPath([0, 0, 1, 2, 1, 2, 3, 3], [1, 2, 2, 1, 3, 3, 0, 4], 0, 4), (8,)),
    "tree": (fw.SpanningTree([0, 0, 0, 1, 1, 2, 0], [1, 2, 3, 2, 3, 3, 1]), (7,)),
    "matching": (fw.Matching([0, 0, 1, 1, 2, 2, 0], [3, 4, 3, 5, 4, 5, 3]), (7,)),
    "matching-perfect": (fw.Matching([0, 0, 1, 1, 2, 2], [3, 4, 3, 5, 4, 5], perfect=True), (6,)),
    "matching-odd": (fw.Matching([0, 0, 1, 2, 2, 3], [1, 2, 2, 3, 4, 4]), (6,)),
    "matching-odd-perfect": (fw.Matching([0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5], perfect=True), (7,)),
    "integers": (fw.MixedInteger([[2.0, 3.0, 4.0], [-1.0, 1.0, 0.0]], [7.0, 1.0], lower=0.0, upper=2.0), (3,)),
    "image": (fw.LinearImage(np.random.default_rng(5).standard_normal((3, 4)), fw.LInfBall(2.0)), (3,)),
    "image-sparse": (fw.LinearImage(sp.csr_array([[1.0, 0, 2, 0], [0, -1, 1, 3]]), fw.Birkhoff(2)), (2,)),
}


def design(m: int, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((m, n))


def labels(m: int, seed: int = 0) -> np.ndarray:
    return np.where(np.random.default_rng(seed + 1).standard_normal(m) > 0, 1.0, -1.0)


def targets(m: int, seed: int = 0) -> np.ndarray:
    return 2 * np.random.default_rng(seed + 2).standard_normal(m)


def counts(m: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + 3).poisson(1.5, m).astype(float)


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
    "quantile": lambda n, seed: fw.LinearModel(
        design(12, n, seed), targets(12, seed), "quantile", rho=2.0, quantile=0.7
    ),
    "poisson": lambda n, seed: fw.LinearModel(0.3 * design(12, n, seed), counts(12, seed), loss="poisson"),
    "squared-csr": lambda n, seed: fw.LinearModel(sp.csr_array(design(12, n, seed)), targets(12, seed)),
    "logistic-csc": lambda n, seed: fw.LinearModel(sp.csc_array(design(12, n, seed)), labels(12, seed), "logistic"),
    "quadratic": _quadratic,
    "smooth": _smooth,
    "beckmann": _beckmann,
}


def several(data: Callable[..., np.ndarray], count: int, seed: int) -> np.ndarray:
    """Data of 12 rows, with one column per target."""
    return np.stack([data(12, seed + 10 * k) for k in range(count)], axis=1)


def classes(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(np.resize(np.arange(count), 12))


WEIGHTS = np.random.default_rng(17).uniform(0.1, 2.0, 12)

#: name -> (shape, seed) -> objective of a matrix of that shape, with one column per target or class. All are convex.
MATRIX_OBJECTIVES: dict[str, Callable[[Shape, int], fw.Objective]] = {
    "targets": lambda shape, seed: fw.LinearModel(
        design(12, shape[0], seed), several(targets, shape[1], seed), weights=WEIGHTS, intercept=True
    ),
    "targets-huber": lambda shape, seed: fw.LinearModel(
        design(12, shape[0], seed), several(targets, shape[1], seed), "huber", rho=0.5, scale="sum"
    ),
    "targets-logistic-csc": lambda shape, seed: fw.LinearModel(
        sp.csc_array(design(12, shape[0], seed)), several(labels, shape[1], seed), "logistic"
    ),
    "targets-poisson": lambda shape, seed: fw.LinearModel(
        0.3 * design(12, shape[0], seed), several(counts, shape[1], seed), "poisson"
    ),
    "softmax": lambda shape, seed: fw.LinearModel(
        design(12, shape[0], seed), classes(shape[1], seed), "softmax", weights=WEIGHTS
    ),
    "softmax-csr": lambda shape, seed: fw.LinearModel(
        sp.csr_array(design(12, shape[0], seed)), classes(shape[1], seed), "softmax", intercept=True
    ),
}


def squared(z, b):
    return ((z - b) ** 2 / 2).sum(), z - b


def logistic(z, b):
    return logsumexp(np.stack([np.zeros_like(z), -b * z]), axis=0).sum(), -b / (1 + np.exp(b * z))


def huber(z, b, rho):
    r = z - b
    value = np.where(np.abs(r) <= rho, r**2 / 2, rho * (np.abs(r) - rho / 2)).sum()
    return value, np.where(np.abs(r) <= rho, r, rho * np.sign(r))


def quantile(z, b, level, rho):
    """The pinball loss, with a parabola of the same slopes at the ends of an interval of width rho."""
    r = b - z
    value = np.where(r > level * rho, level * r - level**2 * rho / 2, (level - 1) * r - (1 - level) ** 2 * rho / 2)
    middle = (r <= level * rho) & (r >= (level - 1) * rho)
    return np.where(middle, r**2 / (2 * rho), value).sum(), np.where(
        middle, -r / rho, np.where(r > 0, -level, 1 - level)
    )


def poisson(z, b):
    return (np.exp(z) - b * z + xlogy(b, b) - b).sum(), np.exp(z) - b


def linear(loss, data, factor=1 / 12, size=1.0, **options):
    def formula(n, seed, x):
        A = size * design(12, n, seed)
        value, dual = loss(A @ x, data(12, seed), **options)
        return factor * value, factor * A.T @ dual

    return formula


def quadratic(n, seed, x):
    A, b = design(2 * n, n, seed), targets(n, seed)
    return ((A @ x) ** 2).sum() / (2 * n) - b @ x, A.T @ (A @ x) / n - b


def cosh(n, seed, x):
    shifted = x - targets(n, seed) / 4
    return ((np.exp(shifted) + np.exp(-shifted)) / 2).sum(), (np.exp(shifted) - np.exp(-shifted)) / 2


def beckmann(n, seed, x):
    """Link by link, and straight on below zero."""
    f, value, gradient = OBJECTIVES["beckmann"](n, seed), 0.0, []
    for v, t, c, b, p, h in zip(x, f.free_flow, f.capacity, f.b, f.power, f.fixed, strict=True):
        crowding = t * b * (max(v, 0.0) / c) ** p
        gradient.append(t + h + crowding)
        value += v * (t + h + (crowding if v < 0 else crowding / (p + 1)))
    return value, np.array(gradient)


#: name -> (n, seed, x) -> value and gradient of the objective, written down independently of it
FORMULAS = {
    "squared": linear(squared, targets),
    "squared-sum": linear(squared, targets, factor=1.0),
    "logistic": linear(logistic, labels),
    "huber": linear(huber, targets, rho=0.5),
    "quantile": linear(quantile, targets, rho=2.0, level=0.7),
    "poisson": linear(poisson, counts, size=0.3),
    "squared-csr": linear(squared, targets),
    "logistic-csc": linear(logistic, labels),
    "quadratic": quadratic,
    "smooth": cosh,
    "beckmann": beckmann,
}


def rows_of_classes(Z, codes):
    """The multinomial loss row by row, and its derivatives."""
    Z = Z - Z.max(axis=1, keepdims=True)
    P, Y = np.exp(Z) / np.exp(Z).sum(axis=1, keepdims=True), np.eye(Z.shape[1])[codes]
    return logsumexp(Z, axis=1) - (Y * Z).sum(axis=1), P - Y


def matrix(loss, data, size=1.0, factor=1 / 12, **options):
    def formula(shape, seed, X):
        A = size * design(12, shape[0], seed)
        value, dual = loss(A @ X, several(data, shape[1], seed), **options)
        return factor * value, factor * A.T @ dual

    return formula


def centred_squares(shape, seed, X):
    A, Y, w = design(12, shape[0], seed), several(targets, shape[1], seed), WEIGHTS / WEIGHTS.sum()
    R = A @ X - Y
    R -= w @ R
    return (w @ R**2).sum() / 2, A.T @ (w[:, None] * R)


def multinomial(shape, seed, X):
    A, w = design(12, shape[0], seed), WEIGHTS / WEIGHTS.sum()
    values, dual = rows_of_classes(A @ X, classes(shape[1], seed))
    return w @ values, A.T @ (w[:, None] * dual)


def multinomial_with_constants(shape, seed, X):
    Z, codes = design(12, shape[0], seed) @ X, classes(shape[1], seed)
    best = scipy.optimize.minimize(
        lambda c: rows_of_classes(Z + c, codes)[0].mean(),
        np.zeros(shape[1]),
        jac=lambda c: rows_of_classes(Z + c, codes)[1].mean(axis=0),
        options={"gtol": 1e-14},
    )
    values, dual = rows_of_classes(Z + best.x, codes)
    return values.mean(), design(12, shape[0], seed).T @ dual / 12


#: name -> (shape, seed, X) -> value and gradient of the objective of a matrix, written down independently of it
MATRIX_FORMULAS = {
    "targets": centred_squares,
    "targets-huber": matrix(huber, targets, factor=1.0, rho=0.5),
    "targets-logistic-csc": matrix(logistic, labels),
    "targets-poisson": matrix(poisson, counts, size=0.3),
    "softmax": multinomial,
    "softmax-csr": multinomial_with_constants,
}

LINE_SEARCHES = (None, *line_searches)
MOMENTA = (None, *momenta)
#: Tableaus whose steps may leave the set; all others must be certified.
UNCERTIFIED = ("midpoint", "ralston", "dp5")
CERTIFIED = tuple(name for name in fw.tableaus if name not in UNCERTIFIED)

#: The methods that are not tableaus, by the arguments of `minimize` that belong to them.
ACTIVE_SET, SELF_STEPPING, STAGED = (
    # Block-coordinate steps need a product of sets, as no method with an active set does.
    tuple(name for name, entry in VARIANTS.items() if (() if name == "block" else entry.takes) == takes)
    for takes in (("line_search",), (), ("schedule", "line_search"))
)

#: name -> order of the tableau, from the literature
ORDERS = {
    "euler": 1,
    "midpoint": 2,
    "heun": 2,
    "ralston": 2,
    "kutta3": 3,
    "ssprk3": 3,
    "bs3": 3,
    "rk44": 4,
    "rk38": 4,
    "rk5": 5,
    "dp5": 5,
}
