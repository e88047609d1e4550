"""Independent answers for the sets of the catalogue: their vertices, linear programs and dual norms."""

import itertools
import math

import numpy as np
import pytest
import scipy.linalg

from tests.catalogue import MINIMA, SETS, TURNED

HIGHS = 1e-7  # feasibility tolerance, primal and dual, of the solver inside Polytope and inside linprog here
EPS = float(np.finfo(np.float64).eps)

SHIFT = np.linspace(-1, 1, 6)
HULL = SETS["hull"][0].vertices


def eps(dtype):
    return float(np.finfo(dtype).eps)


def signed_units(radius, n):
    return np.vstack([radius * np.eye(n), -radius * np.eye(n)])


def box_corners(lower, upper):
    return np.array([*itertools.product(*zip(lower, upper, strict=True))])


def choices(sizes, n):
    """Vectors of n entries with so many ones and else zeros."""
    return np.array([np.isin(range(n), S) for k in sizes for S in itertools.combinations(range(n), k)], dtype=float)


def signed(V):
    """The same rows with all signs of their entries."""
    signs = np.array([*itertools.product([1.0, -1.0], repeat=V.shape[1])])
    return np.unique((V[:, None] * signs).reshape(-1, V.shape[1]), axis=0)


def hull_program(V):
    return {"map": V.T, "A_eq": np.ones((1, len(V))), "b_eq": [1.0]}


def permutations(n):
    return np.array([np.eye(n)[list(order)].ravel() for order in itertools.permutations(range(n))])


def product_corners(*blocks):
    return np.array([np.concatenate(rows) for rows in itertools.product(*blocks)])


def corners(A, b, C, d):
    """Vertices of {Ax <= b, Cx = d}: every choice of inequalities that, made tight, leaves one point."""
    chosen = [list(rows) for rows in itertools.combinations(range(len(A)), A.shape[1] - len(C))]
    systems = np.stack([np.vstack([C, A[rows]]) for rows in chosen])
    sides = np.stack([np.concatenate([d, b[rows]]) for rows in chosen])
    regular = np.abs(np.linalg.det(systems)) > 0.5  # the data are integers, and so is the determinant
    x = np.linalg.solve(systems[regular], sides[regular][..., None])[..., 0]
    return np.unique(x[(x @ A.T <= b + 1e-9).all(axis=1)].round(12), axis=0)


POLYTOPE = (
    np.vstack([np.ones((1, 6)), np.eye(6), -np.eye(6)]),
    np.concatenate([[2.0], np.ones(12)]),
    np.array([[1.0, -1.0, 0, 0, 0, 0]]),
    np.array([0.0]),
)

#: name -> all vertices of the polytope, one flat row each
VERTICES = {
    "l1": signed_units(2.0, 6),
    "l1-matrix": signed_units(2.0, 6),
    "simplex": np.eye(6),
    "simplex-radius": 3 * np.eye(6),
    "unit-simplex": 2 * choices([0, 1], 6),
    "hypersimplex": 1.5 * choices([2], 6),
    "unit-hypersimplex": choices([0, 1, 2, 3], 6),
    "k-sparse": signed(1.5 * choices([2], 6)),
    "k-norm": np.vstack([signed(1.5 * np.eye(6)), signed(np.full((1, 6), 0.75))]),
    # The last weight is zero: an entry more than five is free.
    "owl": np.vstack(
        [signed(choices([j], 6) * 4.0 / s) for j, s in [(1, 3.0), (2, 5.0), (3, 7.0), (4, 8.0), (6, 8.5)]]
    ),
    "permutahedron": np.unique([*itertools.permutations([2.0, -1.0, 0.0, 2.0, 1.0, -1.0])], axis=0),
    "box": box_corners([-1.0] * 6, [2.0] * 6),
    "box-arrays": box_corners(np.arange(6.0) - 4, np.arange(6.0)),
    "interval": np.array([[-1.0], [1.0]]),
    "linf": box_corners([-1.5] * 6, [1.5] * 6),
    "hull": HULL,
    "birkhoff": permutations(3),
    "birkhoff-flat": permutations(3),
    "polytope": corners(*POLYTOPE),
    "polytope-sparse": box_corners(-np.arange(1.0, 7.0), np.ones(6)),
    "scaled": -2 * np.eye(6),
    "translated": signed_units(1.0, 6) + SHIFT,
    "product": product_corners(signed_units(1.0, 2), np.eye(3), np.array([[-1.0], [1.0]])),
    "minkowski": (signed_units(1.0, 6)[:, None] + 2 * np.eye(6)).reshape(-1, 6),
    "minkowski-boxes": box_corners([-1.5] * 6, [2.5] * 6),
}

#: name -> (radius, dual norm): the minimum over the ball is minus their product
DUAL_NORMS = {
    "l2": (2.0, lambda g: np.linalg.norm(g)),
    "lp-1.5": (2.0, lambda g: np.linalg.norm(g, ord=3)),
    "lp-3": (2.0, lambda g: np.linalg.norm(g, ord=1.5)),
    "group": (2.0, lambda g: max(np.linalg.norm(g[[0, 2]]), np.linalg.norm(g[[1, 3, 4]]), abs(g[5]))),
    "group-3": (2.0, lambda g: max(np.linalg.norm(g[part], ord=1.5) for part in ([0, 1, 5], [2, 3, 4]))),
    "group-inf": (2.0, lambda g: max(np.linalg.norm(g[part], ord=1) for part in ([0, 2], [1, 3, 4], [5]))),
    "ellipsoid": (1.0, lambda g: np.linalg.norm(np.linspace(0.5, 2, 6) * (TURNED.T @ g)) - SHIFT @ g),
    "nuclear": (2.0, lambda g: scipy.linalg.svdvals(g)[0]),
    "nuclear-wide": (2.0, lambda g: scipy.linalg.svdvals(g)[0]),
}

PLANS = np.vstack([np.kron(np.eye(2), np.ones(3)), np.kron(np.ones(2), np.eye(3))]), np.array([2.0, 2, 1, 1, 2])
VERTICES["transport"] = corners(-np.eye(6), np.zeros(6), PLANS[0][:-1], PLANS[1][:-1])


def l1_program(radius, n):
    return {"map": np.hstack([np.eye(n), -np.eye(n)]), "A_ub": np.ones((1, 2 * n)), "b_ub": [radius]}


def simplex_program(radius, n, scale=1.0):
    return {"map": scale * np.eye(n), "A_eq": np.ones((1, n)), "b_eq": [radius]}


def box_program(lower, upper):
    return {"map": np.eye(len(lower)), "bounds": np.column_stack([lower, upper])}


def birkhoff_program(n):
    sums = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return {"map": np.eye(n * n), "A_eq": sums, "b_eq": np.ones(2 * n)}


#: name -> x = map @ y + offset, with y as linprog reads the rest (and non-negative unless bounds say otherwise)
PROGRAMS = {
    "l1": l1_program(2.0, 6),
    "l1-matrix": l1_program(2.0, 6),
    "simplex": simplex_program(1.0, 6),
    "simplex-radius": simplex_program(3.0, 6),
    "unit-simplex": {"map": np.eye(6), "A_ub": np.ones((1, 6)), "b_ub": [2.0]},
    "hypersimplex": {**simplex_program(3.0, 6), "bounds": (0, 1.5)},
    "unit-hypersimplex": {"map": np.eye(6), "A_ub": np.ones((1, 6)), "b_ub": [3.0], "bounds": (0, 1)},
    "k-sparse": {
        "map": np.hstack([np.eye(6), -np.eye(6)]),
        "A_ub": np.vstack([np.ones((1, 12)), np.hstack([np.eye(6), np.eye(6)])]),
        "b_ub": [3.0] + [1.5] * 6,
    },
    "k-norm": hull_program(VERTICES["k-norm"]),
    "owl": hull_program(VERTICES["owl"]),
    "permutahedron": hull_program(VERTICES["permutahedron"]),
    "box": box_program([-1.0] * 6, [2.0] * 6),
    "box-arrays": box_program(np.arange(6.0) - 4, np.arange(6.0)),
    "interval": box_program([-1.0], [1.0]),
    "linf": box_program([-1.5] * 6, [1.5] * 6),
    "hull": hull_program(HULL),
    "birkhoff": birkhoff_program(3),
    "birkhoff-flat": birkhoff_program(3),
    "polytope": {
        "map": np.eye(6),
        **dict(zip(("A_ub", "b_ub", "A_eq", "b_eq"), POLYTOPE, strict=True)),
        "bounds": (None, None),
    },
    "polytope-sparse": box_program(-np.arange(1.0, 7.0), np.ones(6)),
    "scaled": simplex_program(1.0, 6, scale=-2.0),
    "translated": {**l1_program(1.0, 6), "offset": SHIFT},
    "product": {
        "map": scipy.linalg.block_diag(np.hstack([np.eye(2), -np.eye(2)]), np.eye(3), [[1.0]]),
        "A_ub": np.array([[1.0, 1, 1, 1, 0, 0, 0, 0]]),
        "b_ub": [1.0],
        "A_eq": np.array([[0.0, 0, 0, 0, 1, 1, 1, 0]]),
        "b_eq": [1.0],
        "bounds": [(0, None)] * 7 + [(-1, 1)],
    },
    "minkowski": {
        "map": np.hstack([np.eye(6), -np.eye(6), np.eye(6)]),
        "A_ub": np.repeat([[1.0, 0.0]], [12, 6], axis=1),
        "b_ub": [1.0],
        "A_eq": np.repeat([[0.0, 1.0]], [12, 6], axis=1),
        "b_eq": [2.0],
    },
    "minkowski-boxes": box_program([-1.5] * 6, [2.5] * 6),
    "transport": {"map": np.eye(6), "A_eq": PLANS[0], "b_eq": PLANS[1]},
}

#: name -> what to make of a random gradient
GRADIENTS = {
    "random": lambda g: g,
    "sparse": lambda g: np.where(np.abs(g) > 0.8, g, 0.0),
    "tied": np.sign,
    "rounded": np.round,
    "constant": np.ones_like,
    "zero": np.zeros_like,
    "huge": lambda g: 1e150 * g,
    "tiny": lambda g: 1e-150 * g,
    "float32": lambda g: g.astype(np.float32),
    "float32-huge": lambda g: (1e15 * g).astype(np.float32),
    "float32-tiny": lambda g: (1e-15 * g).astype(np.float32),
}

every_set = pytest.mark.parametrize("name", SETS)
every_polytope = pytest.mark.parametrize("name", VERTICES)
every_ball = pytest.mark.parametrize("name", DUAL_NORMS)
every_gradient = pytest.mark.parametrize("kind", GRADIENTS)


def gradient(kind, shape, seed=3):
    g = GRADIENTS[kind](np.random.default_rng(seed).standard_normal(shape))
    g.flags.writeable = False  # an oracle that writes into its question raises
    return g


def scale_of(g):
    return float(np.abs(g).max()) or 1.0


def reach(name):
    """The largest sum of absolute entries of a member, or a bound on it."""
    return np.abs(VERTICES[name]).sum(axis=1).max() if name in VERTICES else 2.0 * math.prod(SETS[name][1])


def rounding(name, g):
    """What the dtype leaves uncertain in <g, s>: an ulp or so of every entry of g and of s."""
    return 4 * eps(g.dtype) * scale_of(g) * reach(name)


def best(name, g):
    """The minimum of <g, x> over the set, by comparing all vertices or from the dual norm."""
    scale = scale_of(g)
    g = g.astype(np.float64) / scale  # the norms here square their argument
    if name in VERTICES:
        return scale * float((VERTICES[name] @ g.ravel()).min())
    if name in MINIMA:
        return scale * float(MINIMA[name](g))
    radius, dual_norm = DUAL_NORMS[name]
    return -scale * radius * float(dual_norm(g))


def value(s, g):
    return float(np.vdot(np.asarray(s, dtype=np.float64), g.astype(np.float64)))
