"""All-or-nothing assignment: trees of cheapest paths from all origins, and the flows of all trips on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from fwflow._validation import Array

# Number of nodes of all trees that are handled together, so that their arrays stay in the cache. Chosen without tuning.
_AT_ONCE = 2**16


#: See `Trees._grown`.
Grown = tuple[int, slice, Array, Array, Array]


class Trips(NamedTuple):
    """Trips in the order of their origins: ``amounts[i]`` go from ``origins[rows[i]]`` to another node, ``ends[i]``."""

    origins: Array
    rows: Array
    ends: Array
    amounts: Array

    @classmethod
    def of(cls, demand: sp.csr_array) -> Self:
        """Return the trips of a matrix, without those from a zone to itself."""
        table = demand.tocoo()
        starts, ends = (node.astype(np.int64) for node in table.coords)
        used = (starts != ends) & (table.data > 0)
        origins, rows = np.unique(starts[used], return_inverse=True)
        return cls(origins, rows, ends[used], table.data[used])


class Flows(NamedTuple):
    """Flows from some origins; `rows` are places in the list of origins."""

    rows: Array
    links: Array
    amounts: Array


class Trees:
    """Cheapest paths of all trips in one network, for changing costs.

    No path passes through closed zones or, if costs are not negative, needs to pass through nodes with one neighbour.
    To save time these nodes are not part of the graph that is searched. A path leaves one of them, runs through the
    graph, and enters another one by the best of the links that lead there.
    """

    def __init__(
        self,
        tails: Array,
        heads: Array,
        n_nodes: int,
        first_through: int,
        trips: Trips,
        named: Callable[[int], str] = "node {}".format,
    ) -> None:
        self.trips, self._named = trips, named
        near, far = np.unique(np.stack([np.append(tails, heads), np.append(heads, tails)]), axis=1)
        neighbours = np.bincount(near[near != far], minlength=n_nodes)
        outside = (np.arange(n_nodes) < first_through) | (neighbours <= 1)
        # The nodes of the graph are numbered first, then the origins outside of it. No path leaves the other nodes.
        self._inside = n_nodes - int(outside.sum())
        numbered = np.append(np.flatnonzero(~outside), trips.origins[outside[trips.origins]])
        self._numbered = len(numbered)
        number = np.full(n_nodes, -1)
        number[numbered] = np.arange(len(numbered))
        self._sources, self._stops = number[trips.origins], number[trips.ends]
        useful = number[tails] >= 0

        links = np.flatnonzero(useful & ~outside[heads])
        self._pairs = _Groups.of(links, number[tails[links]] * self._numbered + number[heads[links]])
        u, v = np.divmod(self._pairs.keys, max(self._numbered, 1))
        self._indptr = np.searchsorted(u, np.arange(self._numbered + 1)).astype(np.int32)
        self._indices = v.astype(np.int32)
        self._by_head = np.lexsort((u, v))
        self._joins = (v * self._numbered + u)[self._by_head]

        self._enters = outside[trips.ends]
        links = np.flatnonzero(useful & np.isin(heads, trips.ends[self._enters]))
        self._entries = _Groups.of(links, heads[links])
        self._gates = number[tails[self._entries.links]]
        self._place = np.searchsorted(self._entries.keys, trips.ends)
        self._check_reachable(self._enters & ~np.isin(trips.ends, self._entries.keys))
        # Numbers of the ends of links in the trees: the entered nodes follow the numbered ones. A link that no path
        # uses has the number -1 at one end or the same number at both ends.
        self.size = self._numbered + len(self._entries.keys)
        entered = np.where(outside, -1, number)
        entered[self._entries.keys] = np.arange(self._numbered, self.size)
        self.tails, self.heads = number[tails], np.where(useful, entered[heads], -1)
        ones = np.ones(len(tails))
        self._latest: tuple[Array, list[Flows], list[Grown]] = ones, [], []
        for _, where, row, distance, _ in self._grown(ones):
            stops, _ = self._ways_in(where, row, distance, ones)
            self._check_reachable(np.isinf(distance[row, stops]), where.start)

    def _check_reachable(self, unreachable: Array, start: int = 0) -> None:
        if unreachable.any():
            i = start + int(unreachable.argmax())
            a, b = int(self.trips.origins[self.trips.rows[i]]), int(self.trips.ends[i])
            missing = f"no path leads from {self._named(a)} to {self._named(b)}"
            raise ValueError(f"demand[{a}, {b}] is {self.trips.amounts[i]:g}, but {missing}")

    def assigned(self, costs: Array) -> list[Flows]:
        """Return all flows for these costs, and keep them with the trees until the next call.

        They are not kept in the vertex: they take a number for every origin and node, and methods keep many vertices.
        """
        grown = list(self._grown(costs))
        self._latest = costs, list(self._loads(costs, grown)), grown
        return self._latest[1]

    def assigned_before(self, costs: Array) -> list[Flows]:
        """Return all flows for the costs of an earlier call. Those of the latest call need no search for paths."""
        return self._latest[1] if self._latest[0] is costs else list(self.loaded(costs))

    def paths_before(self, costs: Array) -> tuple[Array, Array]:
        """Return distances and last links of cheapest paths for the costs of an earlier call, in a row per origin.

        The columns are the nodes in the numbering of `tails` and `heads`. The last link is -1 at the origin and at
        nodes that no path reaches.
        """
        grown = self._latest[2] if self._latest[0] is costs else self._grown(costs)
        m, shape = self._numbered, (len(self._sources), self.size)
        distances, last = np.full(shape, np.inf), np.full(shape, -1)
        joining = self._joining(costs)
        for first, _, _, distance, before in grown:
            tree, node = np.nonzero(before >= 0)
            last[first + tree, node] = joining[np.searchsorted(self._joins, node * m + before[tree, node])]
            rows = slice(first, first + len(distance))
            distances[rows, :m] = distance
            if len(self._gates):
                entering = distance[:, self._gates] + costs[self._entries.links]
                best = self._entries.cheapest(entering)
                distances[rows, m:] = np.take_along_axis(entering, best, axis=1)
                last[rows, m:] = self._entries.links[best]
        return distances, last

    def loaded(self, costs: Array) -> Iterator[Flows]:
        """Yield the flows if each trip takes a cheapest path, for some origins at a time."""
        return self._loads(costs, self._grown(costs))

    def _joining(self, costs: Array) -> Array:
        """Return the cheapest link between every pair of nodes that a link joins, in the order of `_joins`."""
        return self._pairs.links[self._pairs.cheapest(costs[self._pairs.links])[self._by_head]]

    def _loads(self, costs: Array, grown: Iterable[Grown]) -> Iterator[Flows]:
        n = self._inside
        joining = self._joining(costs)
        for first, where, row, distance, before in grown:
            k = len(distance)
            stops, entries = self._ways_in(where, row, distance, costs)
            root = k * n  # the nodes of all trees have one numbering, in which `root` is all outside of the graph
            amounts = self.trips.amounts[where]
            load = np.bincount(np.where(stops < n, row * n + stops, root), amounts, root + 1)
            before = before[:, :n]
            parents = np.where((before >= 0) & (before < n), before + n * np.arange(k)[:, None], root)
            load = _subtree_sums(load, np.append(parents, root))
            used = np.flatnonzero((load[:root] > 0) & (before.ravel() >= 0))
            tree, node = np.divmod(used, n)
            links = joining[np.searchsorted(self._joins, node * self._numbered + before[tree, node])]
            enters = self._enters[where]
            yield Flows(
                first + np.append(row[enters], tree),
                np.append(entries, links),
                np.append(amounts[enters], load[used]),
            )

    def _grown(self, costs: Array) -> Iterator[Grown]:
        """Yield shortest-path trees for some origins at a time, with distances and predecessors in a row per origin.

        Before these are the first origin, the slice of the trips, and their origins counted from the first.
        """
        least = costs[self._pairs.links][self._pairs.cheapest(costs[self._pairs.links])]
        graph = sp.csr_array((least, self._indices, self._indptr), shape=(self._numbered, self._numbered))
        step = max(1, _AT_ONCE // max(1, self._numbered))
        for first in range(0, len(self._sources), step):
            sources = self._sources[first : first + step]
            where = slice(*np.searchsorted(self.trips.rows, [first, first + len(sources)]).tolist())
            row = self.trips.rows[where] - first
            yield first, where, row, *dijkstra(graph, indices=sources, return_predecessors=True)

    def _ways_in(self, where: slice, row: Array, distance: Array, costs: Array) -> tuple[Array, Array]:
        """Return the last node inside the graph (or the origin) on the way of some trips, and the link taken there."""
        stops, enters = self._stops[where].copy(), self._enters[where]
        best = self._entries.cheapest(distance[:, self._gates] + costs[self._entries.links])
        chosen = best[row[enters], self._place[where][enters]]
        stops[enters] = self._gates[chosen]
        return stops, self._entries.links[chosen]


class _Groups(NamedTuple):
    """Groups of links of which only the cheapest is used: links between the same nodes, or to the same node."""

    links: Array
    keys: Array
    starts: Array
    group: Array

    @classmethod
    def of(cls, links: Array, keys: Array) -> Self:
        """Return groups of links with equal keys, in the order of the keys."""
        order = np.argsort(keys, kind="stable")
        found, starts, group = np.unique(keys[order], return_index=True, return_inverse=True)
        return cls(links[order], found, starts, group)

    def cheapest(self, costs: Array) -> Array:
        """Return the place of the first cheapest link of each group, for costs of `links` along the last axis."""
        places = np.arange(len(self.links))
        if len(self.starts) == len(places):
            return np.broadcast_to(places, costs.shape)
        least = np.minimum.reduceat(costs, self.starts, axis=-1)
        return np.minimum.reduceat(np.where(costs == least[..., self.group], places, len(places)), self.starts, axis=-1)


def _subtree_sums(load: Array, parents: Array) -> Array:
    """Return the sum of the loads of every node and its descendants, in a logarithmic number of rounds.

    The parent of the roots, and of the last node itself, is the last node. After k rounds, `load` is the sum over
    descendants less than 2^k levels below, and `above` is the 2^k-th ancestor, to which the next round adds `load`.
    """
    root, above = len(parents) - 1, parents
    while above.min(initial=root) < root:
        load = load + np.bincount(above, load, len(load))
        load[root] = 0.0
        above = above[above]
    return load
