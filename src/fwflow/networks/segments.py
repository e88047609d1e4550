"""Pairs of alternative segments: two paths between the same nodes, between which the flows of many origins can move.

Bar-Gera, "Traffic assignment by paired alternative segments", Transportation Research B 44 (2010). There are few pairs,
because many origins share each one. Flow moves from one segment to the other for all origins that use it. A cycle of
flow is a pair whose second segment has no link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from fwflow._storage import storable
from fwflow._validation import Array
from fwflow.methods.restricted.simplices import first_in_block
from fwflow.networks.trees import Trees
from fwflow.sets.base import Exchange

# New pairs start from the flows on the worst links for their origin, which together make this share of the gap.
# Measured: with 0.5 there are more calls of the oracle, and with 0.9 the first steps take longer.
_WORST = 0.7
# Largest number of old pairs and of new ones, per link. The directions of more pairs depend on each other. Measured:
# together with 100 steps in boxes.py, 0.7 was 1.2 times as fast on 3000 links, but took 55 instead of 24 calls of the
# oracle to a relative gap of 1e-8 on 12000 links.
_PER_LINK = 1.0
# Flows of a pair, relative to all trips, below which it is dropped. It is rounding that would keep the pair for ever.
_UNUSED = 1e-13
# Number of entries of the table of visited nodes, for the paths that are followed together. Chosen without tuning.
_AT_ONCE = 2**22
# Number of shifts between two looks at the clock.
_CHECK_EVERY = 64


@storable("segments", valid=lambda pairs: pairs.fit)
@dataclass(frozen=True, eq=False)
class Segments:
    """Pairs of segments: the one of pair i is ``links[starts[i]:middles[i]]``, the other ends at ``starts[i + 1]``."""

    starts: Array
    middles: Array
    links: Array

    def __len__(self) -> int:
        return len(self.middles)

    @property
    def fit(self) -> bool:
        """Whether the arrays have fitting sizes."""
        if self.starts.shape != (len(self) + 1,) or self.starts[0] != 0 or self.starts[-1] != len(self.links):
            return False
        return bool((self.starts[:-1] <= self.middles).all() and (self.middles <= self.starts[1:]).all())

    @classmethod
    def of(cls, pairs: Array, links: Array, second: Array) -> Segments:
        """Return pairs from one entry per pair and link, and whether it is in the second segment of its pair."""
        order = np.lexsort((second, pairs))
        _, starts = np.unique(pairs[order], return_index=True)
        starts = np.append(starts, len(pairs))
        middles = starts[1:] - np.diff(np.append(0, np.cumsum(second[order]))[starts])
        return cls(starts, middles, links[order])

    def sides(self) -> tuple[list[Array], list[Array]]:
        """Return the links of the first and of the second segment of every pair."""
        starts, middles, links = self.starts.tolist(), self.middles.tolist(), self.links
        return (
            [links[a:b] for a, b in zip(starts[:-1], middles, strict=True)],
            [links[a:b] for a, b in zip(middles, starts[1:], strict=True)],
        )

    @property
    def signs(self) -> Array:
        """The direction of every entry if flow moves from the first to the second segment."""
        pairs = np.repeat(np.arange(len(self)), np.diff(self.starts))
        return np.where(np.arange(len(self.links)) < self.middles[pairs], -1, 1)

    def chosen(self, mask: Array) -> Segments:
        """Return the pairs for which the mask is true."""
        sizes = np.diff(self.starts)
        starts = np.append(0, np.cumsum(sizes[mask]))
        middles = starts[:-1] + (self.middles - self.starts[:-1])[mask]
        return Segments(starts, middles, self.links[np.repeat(mask, sizes)])

    def joined(self, other: Segments) -> Segments:
        end = self.starts[-1]
        return Segments(
            np.append(self.starts, end + other.starts[1:]),
            np.append(self.middles, end + other.middles),
            np.append(self.links, other.links),
        )

    def names(self, name: Array) -> Array:
        """Return a number for every pair that does not depend on the order of its segments, given one per link."""
        return np.abs(np.add.reduceat(name[self.links] * self.signs, self.starts[:-1]))


_NONE = Segments(np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


class SegmentExchange(Exchange):
    """Flows by link and origin, and pairs of segments between which they can move."""

    def __init__(self, flows: Array, segments: Segments, ranges: tuple[Array, Array]) -> None:
        self._flows, self._before, self._segments = flows, flows, segments
        self._sides = segments.sides()
        self._ranges: tuple[Array, Array] | None = ranges
        # SciPy may sort the entries of a row in place, so the matrix gets a copy.
        entries = segments.signs.astype(np.float64), segments.links, segments.starts
        self.directions = sp.csr_array(entries, (len(segments), len(flows)), copy=True)

    @classmethod
    def of(
        cls, trees: Trees, parts: sp.csr_array, old: Segments | None, costs: Array, late: Callable[[], bool]
    ) -> SegmentExchange | None:
        """Return the old pairs that are still used, and new ones that lead to the cheapest paths."""
        flows = np.ascontiguousarray(parts.T.toarray())
        most = max(1, int(_PER_LINK * len(flows)))
        old = _NONE if old is None else old
        lower, upper = _ranges(flows, old.sides())
        both = np.minimum(-lower, upper)
        used = both > _UNUSED * float(trees.trips.amounts.sum())
        if used.sum() > most:
            used &= both >= np.partition(both, -most)[-most]
        old = old.chosen(used)
        new = _found(trees, parts, flows, old, costs, most, late)
        segments = old.joined(new)
        if not len(segments):
            return None
        added = _ranges(flows, new.sides())
        ranges = np.append(lower[used], added[0]), np.append(upper[used], added[1])
        return cls(flows, segments, ranges)

    @property
    def found(self) -> Segments:
        return self._segments

    def ranges(self) -> tuple[Array, Array]:
        if self._ranges is None:
            self._ranges = _ranges(self._flows, self._sides)
        return self._ranges

    def moved(self, amounts: Array, late: Callable[[], bool]) -> Array:
        self._before, self._ranges = self._flows, None
        flows = self._flows = self._flows.copy()
        first, second = self._sides
        for count, i in enumerate(np.flatnonzero(amounts).tolist()):
            if count % _CHECK_EVERY == 0 and late():
                break
            amount, start, end = float(amounts[i]), first[i], second[i]
            if amount < 0:
                amount, start, end = -amount, end, start
            if not len(start):
                continue
            leaving = flows[start]
            available = np.minimum.reduce(leaving)
            total = float(np.add.reduce(available))
            if total > 0:
                shift = available if amount >= total else (amount / total) * available
                flows[start] = leaving - shift
                flows[end] += shift
        return np.asarray(flows.sum(axis=1))

    def shortened(self, share: float) -> Array:
        self._flows, self._ranges = self._before + share * (self._flows - self._before), None
        return np.asarray(self._flows.sum(axis=1))

    def parts(self) -> sp.csr_array:
        columns = sp.csr_array(self._flows).tocsc()
        return sp.csr_array((columns.data, columns.indices, columns.indptr), columns.shape[::-1])


def _ranges(flows: Array, sides: tuple[list[Array], list[Array]]) -> tuple[Array, Array]:
    """Return minus the flow that can leave the second segment of every pair, and the flow that can leave the first."""
    least, add = np.minimum.reduce, np.add.reduce
    first, second = (np.array([add(least(flows[own])) if len(own) else 0.0 for own in side]) for side in sides)
    return -second, first


def _found(
    trees: Trees, parts: sp.csr_array, flows: Array, old: Segments, costs: Array, most: int, late: Callable[[], bool]
) -> Segments:
    """Return new pairs: one for every link whose flow from an origin would save much on the cheapest path.

    The path of the flow is followed upstream, by the links with the largest flow, until it meets the cheapest path.
    """
    distances, last = trees.paths_before(costs)
    origins, links = np.repeat(np.arange(parts.shape[0]), np.diff(parts.indptr)), parts.indices
    tails, heads = trees.tails[links], trees.heads[links]
    saved = (distances[origins, tails] + costs[links] - distances[origins, heads]) * parts.data
    saved[(tails < 0) | (heads < 0)] = 0.0  # no cheapest path uses these links
    worst = np.flatnonzero(saved > 0)
    worst = worst[np.argsort(saved[worst])[::-1]]
    total = np.cumsum(saved[worst])
    worst = worst[: int(np.searchsorted(total, _WORST * total[-1])) + 1] if len(worst) else worst
    name = np.random.default_rng(0).integers(1, 2**62, len(flows))
    incoming = _Incoming(trees)
    known, new, gains = old.names(name), _NONE, np.zeros(0)
    step = max(1, _AT_ONCE // trees.size)
    for first in range(0, len(worst), step):
        if late():
            break
        some = worst[first : first + step]
        pairs, gain = _followed(trees, incoming, flows, last, origins[some], links[some], saved[some])
        new, gains = new.joined(pairs), np.append(gains, gain)
    if not len(new):
        return new
    names, places, group = np.unique(new.names(name), return_index=True, return_inverse=True)
    total_gains = np.where(np.isin(names, known), 0.0, np.bincount(group, gains, len(names)))
    best = np.argsort(total_gains)[::-1][:most]
    mask = np.zeros(len(new), dtype=bool)
    mask[places[best[total_gains[best] > 0]]] = True
    return new.chosen(mask)


class _Incoming:
    """Links by the node where they end."""

    def __init__(self, trees: Trees) -> None:
        used = (trees.tails >= 0) & (trees.heads >= 0) & (trees.tails != trees.heads)
        links = np.flatnonzero(used)
        self.links = links[np.argsort(trees.heads[links], kind="stable")]
        self.starts = np.searchsorted(trees.heads[self.links], np.arange(trees.size + 1))

    def largest(self, flows: Array, nodes: Array, origins: Array) -> Array:
        """Return the link with the largest flow from an origin into a node; -1 if there is no flow."""
        counts = self.starts[nodes + 1] - self.starts[nodes]
        result = np.full(len(nodes), -1)
        some = np.flatnonzero(counts)
        if not len(some):
            return result
        counts, firsts = counts[some], np.append(0, np.cumsum(counts[some])[:-1])
        places = np.arange(int(counts.sum())) + np.repeat(self.starts[nodes[some]] - firsts, counts)
        amounts = flows[self.links[places], np.repeat(origins[some], counts)]
        most = np.maximum.reduceat(amounts, firsts)
        chosen = first_in_block(amounts == np.repeat(most, counts), firsts)
        result[some] = np.where(most > 0, self.links[places[chosen]], -1)
        return result


def _followed(
    trees: Trees, incoming: _Incoming, flows: Array, last: Array, origins: Array, links: Array, saved: Array
) -> tuple[Segments, Array]:
    """Return a pair of segments that ends with each link, where one is found, and what the flow on the link saves.

    The second segment is part of the cheapest path to the head of the link.
    """
    k = len(links)
    everyone = np.arange(k)
    # Number of links from a node of the cheapest path to its end, or minus the number of links upstream to a node of
    # the other path; its first node has -2, and -1 is no node of either.
    places = np.full((k, trees.size), -1, dtype=np.int32)
    nodes, active, count = trees.heads[links], everyone, 0
    places[active, nodes] = 0
    cheap = []
    while len(active):
        taken = last[origins[active], nodes]
        active, taken = active[taken >= 0], taken[taken >= 0]
        count, nodes = count + 1, trees.tails[taken]
        places[active, nodes] = count
        cheap.append((active, taken, np.full(len(active), count)))

    meets = np.full(k, -1)
    nodes, active, count = trees.tails[links], everyone, -1
    dear = [(everyone, links, np.full(k, count))]
    while len(active):
        meets[active] = met = places[active, nodes]
        active, nodes, count = active[met == -1], nodes[met == -1], count - 1
        places[active, nodes] = count
        taken = incoming.largest(flows, nodes, origins[active])
        active, taken = active[taken >= 0], taken[taken >= 0]
        nodes = trees.tails[taken]
        dear.append((active, taken, np.full(len(active), count)))
    pairs, taken, place = (np.concatenate(part) for part in zip(*dear, strict=True))
    cheap_pairs, cheap_taken, cheap_place = (np.concatenate(part) for part in zip(*cheap, strict=True))
    # A path that meets itself is a cycle of flow, which has no alternative: the flow on it can be removed.
    own = (meets[pairs] >= 0) | (place <= meets[pairs]) & (meets[pairs] < -1)
    shared = cheap_place <= meets[cheap_pairs]
    second = np.append(np.zeros(int(own.sum()), dtype=np.int64), np.ones(int(shared.sum()), dtype=np.int64))
    both = np.append(pairs[own], cheap_pairs[shared])
    return Segments.of(both, np.append(taken[own], cheap_taken[shared]), second), saved[meets != -1]
