"""Generated data: two problems of the paper, and a stand-in for MovieLens 100K, which may not ship.

The summary statistics below, most of them computed from the real ratings, are the only data taken from MovieLens. The
weights of the tastes were tuned until the singular values and the curves of experiment E5 were close to the real ones.
"""

from __future__ import annotations

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array, number, whole
from fwflow.datasets.dataset import Dataset

#: Numbers of users and of items of MovieLens 100K. The constants up to `sensing` describe its ratings.
SHAPE = (943, 1682)
#: Numbers of ratings 1, 2, 3, 4 and 5.
HISTOGRAM = (6110, 11370, 27145, 34174, 21201)
#: Percentiles, and the numbers of ratings per user and per item at them.
PERCENTILES = (0, 5, 10, 25, 50, 75, 90, 95, 99, 100)
PER_USER = (20, 21, 23, 33, 65, 148, 244, 311, 443, 737)
PER_ITEM = (1, 1, 2, 6, 27, 80, 169, 230, 369, 583)
#: Leading singular values of the real ratings minus 3, with zeros for missing ratings. The weights below aim at them.
SINGULAR_VALUES = (153, 73, 57, 54, 50, 44, 43, 42, 37, 37, 36, 35)

#: Weights of the 25 tastes in the choice of items and in the ratings. The first taste is popularity; the last two
#: affect only the ratings.
SEEN = np.r_[1.4, 1.6 * np.arange(1, 23) ** -0.8, 0.0, 0.0]
GIVEN = np.r_[0.0, np.full(22, 0.1), 0.4, 0.3]
#: Weights of the means of users and items and of popularity in the ratings; the noise of a rating has weight 1.
USERS, ITEMS, POPULARITY = 0.55, 0.5, 1.1


def sensing(m: int = 500, n: int = 100, sparsity: float = 0.1, noise: float = 0.05, seed: int = 0) -> Dataset:
    r"""Compressed sensing: :math:`b = A x_0 + \text{noise} \cdot e` with A and e standard Gaussian, x_0 sparse.

    Parameters
    ----------
    m, n : int
        Numbers of samples and of features; 500 and 100 by default.
    sparsity : float in (0, 1]
        Fraction of nonzero entries of x_0, at least one of them; 0.1 by default. Their values are standard Gaussian.
    noise : float >= 0
        Standard deviation of the noise; 0.05 by default.
    seed : int
        Seed of the random numbers; 0 by default.

    Returns
    -------
    Dataset
        ``A`` (m, n), ``b`` (m,) for regression, ``labels`` (m,), the signs of b as -1/+1, for classification,
        and ``x0`` (n,).

    See Also
    --------
    triangle : Toy problem of the paper.
    load : Loads data by name.

    Examples
    --------
    >>> from fwflow.datasets import sensing
    >>> data = sensing(noise=0.0)
    >>> data.shape, int((data["x0"] != 0).sum()), bool((data["A"] @ data["x0"] == data["b"]).all())
    ((500, 100), 10, True)
    """
    m, n = whole(m, "m", 1), whole(n, "n", 1)
    sparsity = number(sparsity, "sparsity", "be in (0, 1]", lambda x: 0 < x <= 1)
    noise = number(noise, "noise", "be a finite number >= 0", lambda x: 0 <= x < np.inf)
    random = np.random.default_rng(seed)
    A = random.standard_normal((m, n))
    support = random.choice(n, size=max(1, round(sparsity * n)), replace=False)
    x0 = np.zeros(n)
    x0[support] = random.standard_normal(len(support))
    b = dot(A, x0) + noise * random.standard_normal(m)
    return Dataset(
        name="sensing",
        kind="generated",
        source=f"Compressed sensing, generated with seed {seed}: {m} x {n} standard Gaussian design, "
        f"{len(support)} non-zeros in the ground truth, noise {noise:g}.",
        shape=(m, n),
        arrays={"A": A, "b": b, "labels": np.where(b < 0, -1.0, 1.0), "x0": x0},
    )


def triangle() -> Dataset:
    """Return the triangle of the paper's toy problem: ``vertices``, one per row, and ``start``.

    Returns
    -------
    Dataset

    See Also
    --------
    sensing : Generated regression problem.
    load : Loads data by name.

    Examples
    --------
    >>> from fwflow.datasets import triangle
    >>> triangle()["vertices"]
    array([[-1.,  0.],
           [ 0.,  1.],
           [ 1.,  0.]])
    """
    vertices = np.array([[-1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return Dataset(
        name="triangle",
        kind="generated",
        source="The triangle with vertices (-1,0), (0,1), (1,0) and the starting point (0,1).",
        shape=(3, 2),
        arrays={"vertices": vertices, "start": np.array([0.0, 1.0])},
    )


def movielens(seed: int = 9) -> Dataset:
    r"""Generate 100,000 ratings 1..5 of 943 x 1682 cells, with the real histogram and numbers per user and per item.

    User i meets item j at the rate :math:`w_j \exp \sum_k \sigma_k p_{ik} q_{jk}` with Gaussian tastes p and q, and
    rates the items met first. The ratings are ordered by a sum of tastes, means of users and items, and noise.

    The default seed is the one among the first dozen for which the gain by momentum is closest to that on the real
    ratings. The gain by Midpoint was not considered.
    """
    random = np.random.default_rng(seed)
    per_user, per_item = (random.permutation(_spread(q, n)) for q, n in zip((PER_USER, PER_ITEM), SHAPE, strict=True))
    per_user = np.diff(np.rint(np.cumsum(per_user)), prepend=0.0)
    p, q = (random.standard_normal((count, len(SEEN))) for count in SHAPE)
    fame = np.log(per_item)
    q[:, 0] = fame = (fame - fame.mean()) / fame.std()

    when = random.exponential(size=SHAPE) / _rates(np.exp(dot(SEEN * p, q.T)), per_user, per_item)
    when[when.argmin(axis=0), np.arange(SHAPE[1])] = 0.0  # Every item is rated at least once.
    last = np.take_along_axis(np.sort(when, axis=1), per_user[:, None].astype(int) - 1, axis=1)
    rows, cols = np.nonzero(when <= last)

    users, items = USERS * random.standard_t(5, SHAPE[0]), ITEMS * random.standard_normal(SHAPE[1])
    order = users[rows] + (items + POPULARITY * fame)[cols] + ((GIVEN * p)[rows] * q[cols]).sum(axis=1)
    order += random.standard_normal(len(rows))
    values = np.empty(len(rows))
    values[np.argsort(order)] = np.repeat(np.arange(1.0, 6.0), HISTOGRAM)
    return Dataset(
        name="movielens",
        kind="stand-in",
        source=f"A stand-in for MovieLens 100K, generated with seed {seed}, not the real ratings: 100,000 ratings of "
        "943 x 1682 cells with the real histogram, the real spread of ratings over users and items, and nearly the "
        "real singular values.",
        shape=SHAPE,
        arrays={"rows": rows, "cols": cols, "values": values},
    )


def _spread(quantiles: tuple[int, ...], count: int) -> Array:
    """Return `count` numbers with about these quantiles, the smallest exact, that sum to the number of ratings."""
    least = quantiles[0]
    above = np.exp(np.interp(np.linspace(0, 100, count), PERCENTILES, np.log(quantiles))) - least
    return least + above * ((sum(HISTOGRAM) - count * least) / above.sum())


def _rates(affinity: Array, per_user: Array, per_item: Array) -> Array:
    r"""Scale rows and columns of the affinity to about these expected numbers of items met up to time 1.

    The expected number of user i is :math:`\sum_j 1 - e^{-r_{ij}}`.
    """
    rates = affinity * per_item
    for _ in range(8):  # Number of scalings, chosen without tuning.
        rates *= (per_user / -np.expm1(-rates).sum(axis=1))[:, None]
        rates *= per_item / -np.expm1(-rates).sum(axis=0)
    return rates
