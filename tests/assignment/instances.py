"""Quadratic assignment problems of the kinds in QAPLIB, from generators, with known optima where there are some."""

import itertools

import numpy as np


def brute_force(A, B, C=None, fixed=()):
    """The smallest value over all permutations with the fixed pairs."""
    n, best = len(A), np.inf
    C = np.zeros((n, n)) if C is None else C
    for order in itertools.permutations(range(n)):
        if all(order[i] == j for i, j in fixed):
            p = np.array(order)
            best = min(best, float((A * B[np.ix_(p, p)]).sum() + C[np.arange(n), p].sum()))
    return best


def grid(rows, columns):
    """Distances on a grid, as in the instances nug, sko and wil."""
    places = np.argwhere(np.ones((rows, columns)))
    return np.abs(places[:, None] - places).sum(axis=2).astype(float)


def uniform(n, rng, high=100):
    """A random symmetric matrix with zero diagonal, as in tai-a and rou."""
    M = np.triu(rng.integers(0, high, (n, n)), 1)
    return (M + M.T).astype(float)


def skewed(n, rng):
    """An asymmetric matrix with entries of many sizes, as in tai-b."""
    return np.floor(10 ** rng.uniform(-1, 5, (n, n))) * (1 - np.eye(n))


def hamming(bits):
    """Hamming distances of bit strings, as in esc: every row has the same entries, so the barycentre is a saddle."""
    words = np.arange(2**bits)
    return np.array([[bin(a ^ b).count("1") for b in words] for a in words]) * 1.0


def tree(n, rng):
    """A weighted tree, as in chr."""
    M = np.zeros((n, n))
    for i in range(1, n):
        M[i, rng.integers(i)] = rng.integers(1, 100)
    return M + M.T


def with_known_optimum(n, rng):
    """A, B and the optimal value, where A and B are ordered against each other after a hidden permutation.

    Every off-diagonal entry of A times that of B at the same place belongs to oppositely ordered lists, so the identity
    attains the smallest inner product of all lists, and no permutation has a smaller value.
    """
    places = np.argwhere(~np.eye(n, dtype=bool))
    order = rng.permutation(len(places))
    A, B = np.zeros((2, n, n))
    A[tuple(places[order].T)] = np.sort(rng.integers(1, 50, len(places)))
    B[tuple(places[order].T)] = np.sort(rng.integers(1, 50, len(places)))[::-1]
    value, hidden = float((A * B).sum()), rng.permutation(n)
    return A, B[np.ix_(hidden, hidden)], value


#: name -> A, B, C for every kind, small enough for brute force
SMALL = {}
for seed in range(2):
    rng = np.random.default_rng(seed)
    SMALL |= {
        f"grid-{seed}": (grid(2, 3), uniform(6, rng, 10), None),
        f"uniform-{seed}": (uniform(7, rng), uniform(7, rng), None),
        f"skewed-{seed}": (skewed(6, rng), skewed(6, rng), None),
        f"one-symmetric-{seed}": (uniform(6, rng), skewed(6, rng), None),
        f"real-{seed}": (rng.standard_normal((6, 6)), rng.standard_normal((6, 6)), rng.standard_normal((6, 6))),
        f"linear-{seed}": (uniform(6, rng), uniform(6, rng), 1e3 * rng.integers(0, 9, (6, 6))),
        f"tree-{seed}": (tree(7, rng), uniform(7, rng), None),
        f"diagonals-{seed}": (rng.integers(-5, 9, (5, 5)), rng.integers(-5, 9, (5, 5)), None),
    }
SMALL |= {"hamming": (hamming(3), tree(8, np.random.default_rng(3)), None)}
