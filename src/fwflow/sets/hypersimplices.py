"""Hulls of the vectors with k equal nonzero entries, with at most k, or with k of either sign."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from fwflow._numerics import best_first, lowest, smallest
from fwflow._validation import Array, positive, whole
from fwflow.points.vertices import Shape, Vertex
from fwflow.sets.base import needs_shape
from fwflow.sets.bounded import ROUNDING, vertex_at
from fwflow.sets.vectors import EqualEntries, SingleColumns

# Places of the nonzero entries of a vertex, and of those among them with the worse sign.
_Choice = tuple[tuple[int, ...], tuple[int, ...]]
# Largest number of entries of all vertices of a decomposition. Chosen without tuning.
_MANY = 10**6


def systematic_sample(shares: Array) -> list[tuple[float, Array]]:
    """Write numbers in [0, 1] as a mixture of 0/1 vectors: weights, and the places of the ones.

    Systematic sampling: intervals with these lengths, end to end, are hit by a comb with teeth at distance one. The
    number of hits varies by at most one with the position of the comb.
    """
    edges = np.append(0.0, np.cumsum(shares))
    cuts = np.unique(np.append(np.clip(edges % 1.0, 0.0, 1.0), [0.0, 1.0]))
    hits = []
    for low, high in pairwise(cuts):
        teeth = np.arange(math.floor(edges[-1]) + 1) + (low + high) / 2
        hits.append((float(high - low), np.searchsorted(edges, teeth[teeth < edges[-1]], side="right") - 1))
    return [(weight, places) for weight, places in hits if weight > ROUNDING]


class _Choices(EqualEntries):
    """Sets whose vertices have k nonzero entries, or at most k."""

    parameters: tuple[str, ...] = ("k", "radius")

    def __init__(self, k: int, radius: float = 1.0) -> None:
        self.k, self.radius = whole(k, "k", 1), positive(radius, "radius")
        self.size = self.k * self.radius

    def _against(self, places: Array, g: Array) -> Any:
        """Return the best entries at some places."""
        return np.where(g.reshape(-1)[places] > 0, -self.radius, self.radius) if self.signed else self.radius

    def lmo(self, g: Array, hint: Vertex | None = None) -> Vertex:
        flat = -np.abs(g.reshape(-1)) if self.signed else g.reshape(-1)
        k = self._most(flat.size)
        places = np.array([flat.argmin()]) if k == 1 else lowest(flat, k)
        if not (self.exactly or self.signed):
            places = places[flat[places] < 0]
        return vertex_at(places, self._against(places, g), g)

    def best_vertices(self, g: Array, count: int, best: Vertex) -> list[Vertex]:
        """Return the best choices by best-first search in the order of the gradient, or of its moduli for both signs.

        Every choice follows from a better one: an entry moves to the next place, is removed, is added, or changes its
        sign. Signs change last, in descending order of the places.
        """
        flat = (-np.abs(g) if self.signed else g).reshape(-1).astype(np.float64)
        k, fixed_number = self._most(flat.size), self.exactly or self.signed
        order = np.array(smallest(flat, min(k + count, flat.size)))
        value = flat[order]
        negative = int((value < 0).sum())
        size = k if fixed_number else min(k, negative)
        fixed = max(0, size - count)  # The first places are in all of the best choices.

        def worse(state: _Choice) -> list[tuple[float, _Choice]]:
            places, flipped = state
            inside = set(places)
            signs = [p for p in places if self.signed and (not flipped or p < flipped[0])]
            found: list[tuple[float, _Choice]] = [(-2 * value[p], (places, (p, *flipped))) for p in signs]
            if flipped:
                return found
            moves = [(value[p + 1] - value[p], {p}, {p + 1}) for p in places if p + 1 < len(order)]
            if not fixed_number and negative - 1 in inside:
                moves.append((-value[negative - 1], {negative - 1}, set()))
            if not fixed_number and negative < len(order) and fixed + len(places) < k:
                moves.append((value[negative], set(), {negative}))
            moves = [(cost, old, new) for cost, old, new in moves if not new & inside]
            return found + [(cost, (tuple(sorted(inside - old | new)), ())) for cost, old, new in moves]

        def vertex(places: tuple[int, ...], flipped: tuple[int, ...]) -> Vertex:
            ranks = np.array([*range(fixed), *places], dtype=np.intp)
            ranks = ranks[np.argsort(order[ranks])]
            return vertex_at(order[ranks], self._against(order[ranks], g) * np.where(np.isin(ranks, flipped), -1, 1), g)

        first: _Choice = tuple(range(fixed, size)), ()
        return [best, *(vertex(*state) for state in best_first(first, worse, count)[1:])]

    def decomposed(self, x: Array) -> list[tuple[float, Vertex]] | None:
        """Decompose x, or for both signs its multiple on the boundary, where an entry may be a mixture of both."""
        flat, k, n_signs = x.reshape(-1), self._most(x.size), 2 if self.signed else 1
        used = np.arange(x.size) if self.signed else np.flatnonzero(flat)
        if n_signs * len(used) * k > _MANY:
            return None
        shares, weight = np.abs(flat[used]).astype(np.float64) / self.radius, 1.0
        if self.signed:
            weight = float(max(shares.max(), shares.sum() / self.k))
            if weight == 0:
                return []
            own = shares / weight
            both = own + (1 - own) * max(0.0, k - own.sum()) / max(flat.size - own.sum(), ROUNDING)
            shares = np.column_stack([both + own, both - own]).reshape(-1) / 2
        elif self.exactly:
            shares = shares * (k / shares.sum())
        entries = np.where(flat < 0, -self.radius, self.radius)
        parts = [
            (w, used[at // n_signs], 1 - 2 * (at % n_signs)) for w, at in systematic_sample(np.minimum(shares, 1.0))
        ]
        return [(weight * w, vertex_at(at, entries[at] * sign, x)) for w, at, sign in parts if len(at)]


class HyperSimplex(_Choices):
    r"""Hypersimplex :math:`\{x : 0 \le x_i \le r,\; \sum_i x_i = kr\}`.

    It is the hull of the vectors with k entries equal to r and all others zero. There must be at least k entries. A
    vertex has r at the positions of the k smallest entries of the gradient; ties go to the first indices. The default
    starting point is the barycentre.

    Parameters
    ----------
    k : int
        Number of nonzero entries of a vertex.
    radius : float
        Value r of the nonzero entries, positive; 1 by default.

    See Also
    --------
    UnitHyperSimplex : At most k entries.
    Simplex : k = 1.
    KSparseBall : Entries of both signs.

    Notes
    -----
    :Family: vectors
    :Uses: choice of k items (sensors, samples, features), weights with an upper limit
    :Oracle: :math:`r` at the positions of the :math:`k` smallest entries of :math:`g`, zero elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.HyperSimplex(2)
    >>> np.asarray(C.lmo(np.array([3.0, -1.0, 1.0, 2.0])))
    array([0., 1., 1., 0.])
    >>> C.project(np.array([3.0, 0.5, 0.5, 0.0]))
    array([1. , 0.5, 0.5, 0. ])
    """

    exactly = True


class UnitHyperSimplex(_Choices):
    r"""Hypersimplex with the origin, :math:`\{x : 0 \le x_i \le r,\; \sum_i x_i \le kr\}`.

    It is the hull of the vectors with at most k entries equal to r and all others zero. A vertex has r at the positions
    of the k smallest entries of the gradient, as far as these entries are negative. Ties go to the first indices. A
    gradient without negative entries gives the origin. The default starting point is halfway between the origin and the
    barycentre of the upper face.

    Parameters
    ----------
    k : int
        Largest number of nonzero entries of a vertex.
    radius : float
        Value r of the nonzero entries, positive; 1 by default.

    See Also
    --------
    HyperSimplex : Exactly k entries.
    UnitSimplex : k = 1.

    Notes
    -----
    :Family: vectors
    :Uses: choice of at most k items, budgets with a limit for every entry
    :Oracle: take the :math:`k` smallest entries of :math:`g`; :math:`r` at the positions of the negative ones among
        them, zero elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.UnitHyperSimplex(2).lmo(np.array([3.0, -1.0, 1.0, 2.0])))
    array([0., 1., 0., 0.])
    """

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        shape = needs_shape(self, shape)
        n = math.prod(shape)
        return np.full(shape, self.radius * (self._most(n) / (2 * n)), dtype)


class UnitSimplex(SingleColumns, UnitHyperSimplex):
    r"""Simplex with the origin, :math:`\{x \ge 0 : \sum_i x_i \le r\}`.

    The default starting point is halfway between the origin and the barycentre of the upper face. Ties go to the first
    index.

    Parameters
    ----------
    radius : float
        Bound r on the sum of the entries, positive; 1 by default.

    See Also
    --------
    Simplex : The sum is exactly r.
    L1Ball : Entries of both signs.

    Notes
    -----
    :Family: vectors
    :Uses: non-negative numbers with a bounded sum, for example budgets, portfolio weights with cash, sparse
        non-negative regression
    :Oracle: :math:`r\,e_i` for the smallest :math:`g_i`, or :math:`0` if :math:`g \ge 0`
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.UnitSimplex(3.0)
    >>> np.asarray(C.lmo(np.array([1.0, -2.0]))), np.asarray(C.lmo(np.array([1.0, 2.0])))
    (array([0., 3.]), array([0., 0.]))
    """

    def __repr__(self) -> str:
        return f"UnitSimplex({self.radius:g})"


class KSparseBall(_Choices):
    r"""Ball of the vectors with :math:`\|x\|_\infty \le r` and :math:`\|x\|_1 \le kr`.

    It is the hull of the vectors with k entries equal to :math:`\pm r` and all others zero. A vertex has :math:`\pm r`
    at the positions of the k largest absolute values of the gradient, with the opposite signs. Ties go to the first
    indices, and zero entries get +r. If x has at most k entries, the set is the ball of the maximum norm. The default
    starting point is zero.

    Parameters
    ----------
    k : int
        Number of nonzero entries of a vertex.
    radius : float
        Absolute value r of the nonzero entries, positive; 1 by default.

    See Also
    --------
    L1Ball : k = 1.
    HyperSimplex : Non-negative entries.
    KNormBall : The dual norm.

    Notes
    -----
    :Family: vectors
    :Uses: sparse regression and classification with bounded coefficients
    :Oracle: :math:`-r\,\mathrm{sign}(g_i)` at the positions of the :math:`k` largest absolute values of :math:`g`, zero
        elsewhere
    :Cost: :math:`n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> np.asarray(fw.KSparseBall(2, 3.0).lmo(np.array([1.0, -3.0, 0.5, 2.0])))
    array([ 0.,  3.,  0., -3.])
    """

    signed = True
