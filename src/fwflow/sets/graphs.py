"""Sets of subgraphs, as 0/1 vectors on the edges: paths, spanning trees, matchings."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import (
    NegativeCycleError,
    bellman_ford,
    breadth_first_order,
    connected_components,
    dijkstra,
    maximum_bipartite_matching,
    min_weight_full_bipartite_matching,
    minimum_spanning_tree,
)

from fwflow._fingerprints import fingerprint
from fwflow._validation import Array, nodes, whole
from fwflow.points.vertices import Shape, SparseVertex, Vertex
from fwflow.sets.base import KnownSet
from fwflow.sets.membership import mixes

# What rounding may make of a difference of costs of modulus at most one.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class _Subgraphs(KnownSet):
    """The hull of 0/1 vectors on the edges of a graph, one for every subgraph of some kind."""

    polytope = True
    shape: Shape

    def __init__(self, tails: ArrayLike, heads: ArrayLike) -> None:
        self.tails, self.heads = nodes(tails, "tails"), nodes(heads, "heads")
        if len(self.tails) != len(self.heads):
            raise ValueError(f"tails has {len(self.tails)} entries and heads has {len(self.heads)}; they must agree")
        if not len(self.tails):
            raise ValueError("tails and heads are empty; a graph needs at least one edge")
        self.shape = self.tails.shape
        self.nodes, ends = np.unique(np.stack([self.tails, self.heads]), return_inverse=True)
        self._ends = ends.reshape(2, -1)  # the nodes of every edge, by their places among all

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} edges, {len(self.nodes)} nodes)"

    @abstractmethod
    def _best(self, costs: Array) -> Array:
        """The edges of the cheapest subgraph, for costs of modulus at most one."""

    def lmo(self, g: Any, hint: Vertex | None = None) -> SparseVertex:
        costs = np.asarray(g, dtype=np.float64)
        if costs.shape != self.shape:
            raise ValueError(f"g has shape {costs.shape}; members of {self!r} have shape {self.shape}")
        edges = np.sort(self._best(np.ldexp(costs, -math.frexp(float(np.abs(costs).max()))[1])))
        return SparseVertex(edges, np.ones(len(edges)), self.shape)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        if x.shape != self.shape:
            raise ValueError(f"x has shape {x.shape}; members of {self!r} have shape {self.shape}")
        slack = tol + noise
        if (x < -slack).any() or (x > 1 + slack).any():
            return False
        return self._mixes(x, slack)

    def _mixes(self, x: Array, slack: Array) -> bool | None:
        """Whether a vector with entries in [0, 1] is a mixture of subgraphs, up to `slack`."""
        return mixes(self, x, slack)

    def _at_nodes(self, values: Array, side: int) -> Array:
        """The sum at every node over the edges that end there."""
        return np.bincount(self._ends[side], values, len(self.nodes))


class _Pairs:
    """Of all edges that join the same two nodes the cheapest; ties go to the first."""

    def __init__(self, edges: Array, ends: Array, n: int) -> None:
        self.edges, self.n = edges, n
        self._key = ends[0, edges] * n + ends[1, edges]

    def cheapest(self, costs: Array) -> tuple[Array, Array, Array]:
        """The edges, and the places of their nodes, in the order of these."""
        order = np.lexsort((costs[self.edges], self._key))
        keys = self._key[order]
        new = np.diff(keys, prepend=-1) > 0
        return self.edges[order[new]], *np.divmod(keys[new], self.n)


class ShortestPath(_Subgraphs):
    """The hull of the paths from one node of a directed graph to another; entry e is 1 where a path uses edge e.

    A path meets no node twice. On a graph without cycles costs may have any sign, as gradients do, and the members are
    the unit flows from source to target. On others a path is the cheapest only if no cycle has a negative cost: costs
    that are not negative always do, and for others Bellman and Ford's method finds it or the oracle says that there is
    none. Edges that lead into the source, out of the target, or are on no path at all do not count as part of cycles.

    It starts at the path with the fewest edges. Flows that go around in cycles on such a graph are no members; whether
    other flows there that use all edges of a cycle are is not told.

    Parameters
    ----------
    tails, heads : (n,) arrays of int
        The nodes that each edge leaves and enters.
    source, target : int

    Notes
    -----
    :Family: graphs and integers
    :Oracle: the shortest path
    :Cost: that of Dijkstra or Bellman and Ford

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.ShortestPath(tails=[0, 1, 0], heads=[1, 2, 2], source=0, target=2)
    >>> np.asarray(C.lmo(np.array([1.0, -3.0, 2.0])))
    array([1., 1., 0.])
    """

    def __init__(self, tails: ArrayLike, heads: ArrayLike, source: int, target: int) -> None:
        super().__init__(tails, heads)
        self.source, self.target = whole(source, "source", 0), whole(target, "target", 0)
        if self.source == self.target:
            raise ValueError(f"source and target are both node {self.source}; a path needs two nodes")
        for name, node in (("source", self.source), ("target", self.target)):
            if node not in self.nodes:
                raise ValueError(f"{name} is node {node}, which is on no edge")
        self._from, self._to = np.searchsorted(self.nodes, [self.source, self.target]).tolist()
        t, h = self._ends
        inner = (h != self._from) & (t != self._to) & (t != h)
        reached, reaching = self._reached(t[inner], h[inner], self._from), self._reached(h[inner], t[inner], self._to)
        useful = inner & reached[t] & reaching[h]
        if not useful.any():
            raise ValueError(f"no path leads from node {self.source} to node {self.target}")
        self._edges = np.flatnonzero(useful)
        self._pairs = _Pairs(self._edges, self._ends, len(self.nodes))
        self._level = _levels(self._ends[:, useful], len(self.nodes))
        self._start = np.asarray(self.lmo(np.ones(self.shape)))

    def fingerprint(self) -> str:
        return fingerprint(self, self.tails, self.heads, self.source, self.target)

    def _reached(self, tails: Array, heads: Array, start: int) -> Array:
        n = len(self.nodes)
        graph = sp.csr_array((np.ones(len(tails)), (tails, heads)), shape=(n, n))
        return np.isin(np.arange(n), breadth_first_order(graph, start, return_predecessors=False))

    def _best(self, costs: Array) -> Array:
        if self._level is not None:
            # Levels times a number add the same to all paths from source to target, and leave no cost negative.
            t, h = self._ends[:, self._edges]
            rise = self._level[h] - self._level[t]
            raised = costs[self._edges]
            raised = np.maximum(raised + max(0.0, float((-raised / rise).max())) * rise, 0.0)
            costs = costs.copy()
            costs[self._edges] = raised
        chosen, tails, heads = self._pairs.cheapest(costs)
        n = len(self.nodes)
        graph = sp.csr_array((costs[chosen], (tails, heads)), shape=(n, n))
        before, node, path = self._tree(graph), self._to, []
        while node != self._from:
            path.append(before[node] * n + node)
            node = int(before[node])
        return chosen[np.searchsorted(tails * n + heads, path)]

    def _tree(self, graph: sp.csr_array) -> Array:
        """The node before each on a cheapest path from the source."""
        if graph.data.min() < 0:
            # Distances make up for negative costs. Rounding may leave cycles in a tree of Bellman and Ford's method,
            # where they cost nothing; Dijkstra's has none.
            tails, heads = graph.tocoo().coords
            distance = self._distances(graph)
            graph.data = np.maximum(graph.data + distance[tails] - distance[heads], 0.0)
        return dijkstra(graph, indices=self._from, return_predecessors=True)[1]

    def _distances(self, graph: sp.csr_array) -> Array:
        graph.data += _ROUNDING  # cycles that cost nothing must not seem negative
        try:
            return bellman_ford(graph, indices=self._from)
        except NegativeCycleError:
            raise ValueError(
                "g makes the cost of a cycle negative, and then nobody knows a fast way to the cheapest path; "
                "ShortestPath takes costs of any sign on graphs without cycles, and costs that are not negative on all"
            ) from None

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._start.astype(dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        """At most this: two paths have fewer edges each than there are nodes."""
        return math.sqrt(min(len(self._edges), 2 * (len(self.nodes) - 1)))

    def _mixes(self, x: Array, slack: Array) -> bool | None:
        left = self._at_nodes(x, 0) - self._at_nodes(x, 1)
        left[self._from] -= 1
        left[self._to] += 1
        if (np.abs(left) > self._at_nodes(slack, 0) + self._at_nodes(slack, 1)).any():
            return False
        used = x > slack
        if used[np.setdiff1d(np.arange(len(x)), self._edges)].any():
            return False
        return True if _levels(self._ends[:, used], len(self.nodes)) is not None else None


def _levels(ends: Array, n: int) -> Array | None:
    """The most edges on a path to each node; None if there is a cycle."""
    after: list[list[int]] = [[] for _ in range(n)]
    for tail, head in ends.T.tolist():
        after[tail].append(head)
    waits = np.bincount(ends[1], minlength=n).tolist()
    level, ready = [0] * n, [node for node in range(n) if not waits[node]]
    for node in ready:  # which grows
        for head in after[node]:
            level[head] = max(level[head], level[node] + 1)
            waits[head] -= 1
            if not waits[head]:
                ready.append(head)
    return np.array(level) if len(ready) == n else None


class SpanningTree(_Subgraphs):
    r"""The hull of the spanning trees of a connected undirected graph; entry e is 1 where a tree has edge e.

    The cheapest tree depends only on the order of the costs; ties go to the first edges. It starts at the tree of the
    first edges. Whether a point is a member is asked of the oracle, up to 100 edges.

    Parameters
    ----------
    tails, heads : (n,) arrays of int
        The two nodes of each edge.

    Notes
    -----
    :Family: graphs and integers
    :Oracle: the cheapest tree
    :Cost: :math:`n \log n`

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> triangle = fw.SpanningTree(tails=[0, 1, 2], heads=[1, 2, 0])
    >>> np.asarray(triangle.lmo(np.array([0.0, 2.0, -1.0])))
    array([1., 0., 1.])
    """

    def __init__(self, tails: ArrayLike, heads: ArrayLike) -> None:
        super().__init__(tails, heads)
        n, ends = len(self.nodes), np.sort(self._ends, axis=0)
        graph = sp.csr_array((np.ones(len(ends.T)), (ends[0], ends[1])), shape=(n, n))
        parts, label = connected_components(graph, directed=False)
        if parts > 1:
            apart = self.nodes[int((label != label[0]).argmax())]
            raise ValueError(f"the graph has no spanning tree: no edges lead from node {self.nodes[0]} to node {apart}")
        self._pairs = _Pairs(np.flatnonzero(ends[0] < ends[1]), ends, n)

    def fingerprint(self) -> str:
        return fingerprint(self, self.tails, self.heads)

    def _best(self, costs: Array) -> Array:
        # In place of costs the order of them, which has no zeros: SciPy takes those for missing edges.
        order = np.argsort(costs, kind="stable")
        rank = np.empty(len(order))
        rank[order] = np.arange(1, len(order) + 1)
        chosen, first, second = self._pairs.cheapest(rank)
        n = len(self.nodes)
        tree = minimum_spanning_tree(sp.csr_array((rank[chosen], (first, second)), shape=(n, n)))
        return order[tree.data.astype(np.int64) - 1]

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.lmo(np.zeros(self.shape)).to_dense(dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        """At most this: two trees differ in no more edges than a tree has, or than are left."""
        size = len(self.nodes) - 1
        return math.sqrt(2 * min(size, len(self.tails) - size))

    def _mixes(self, x: Array, slack: Array) -> bool | None:
        return False if abs(x.sum() - len(self.nodes) + 1) > slack.sum() else super()._mixes(x, slack)


class Matching(_Subgraphs):
    """The hull of the matchings of an undirected graph: of edges of which no two share a node.

    On a bipartite graph SciPy's assignment of sparse matrices finds the cheapest, and the members are the vectors that
    add up to at most one at every node, or to exactly one if all matchings are perfect. On other graphs networkx's
    blossoms do (``pip install 'fwflow[graphs]'``), and whether a point is a member is asked of the oracle, up to 100
    edges. Edges of no cost are left out where they may. It starts at no edges at all, or at some perfect matching.

    Parameters
    ----------
    tails, heads : (n,) arrays of int
        The two nodes of each edge.
    perfect : bool
        Only matchings that leave no node out.

    Notes
    -----
    :Family: graphs and integers
    :Oracle: the cheapest matching, by SciPy, or by networkx if the graph is not bipartite
    :Cost: that of an assignment, or of blossoms

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> path = fw.Matching(tails=[0, 1, 2], heads=[1, 2, 3])
    >>> np.asarray(path.lmo(np.array([-2.0, -3.0, -2.0])))
    array([1., 0., 1.])
    """

    def __init__(self, tails: ArrayLike, heads: ArrayLike, perfect: bool = False) -> None:
        super().__init__(tails, heads)
        self.perfect = bool(perfect)
        useful = np.flatnonzero(self._ends[0] != self._ends[1])
        self._sides = _sides(self._ends[:, useful], len(self.nodes))
        if self._sides is None:
            _blossoms()  # says at once if it is missing
            ends = np.sort(self._ends, axis=0)
        else:
            ends = np.where(self._sides[self._ends[0]], self._ends[::-1], self._ends)
        self._pairs = _Pairs(useful, ends, len(self.nodes))
        if self.perfect and not self._exists():
            raise ValueError("the graph has no perfect matching: some node is left out of every one")

    def fingerprint(self) -> str:
        return fingerprint(self, self.tails, self.heads, self.perfect)

    def _best(self, costs: Array) -> Array:
        chosen, first, second = self._pairs.cheapest(costs)
        if not self.perfect:
            gains = costs[chosen] < 0
            chosen, first, second = chosen[gains], first[gains], second[gains]
        if not len(chosen):
            return chosen
        find = self._blossomed if self._sides is None else self._assigned
        return chosen[np.searchsorted(first * len(self.nodes) + second, find(first, second, costs[chosen]))]

    def _assigned(self, first: Array, second: Array, costs: Array) -> Array:
        """By an assignment of one side to the other or, where nodes may be left out, to a stand-in for each."""
        n = len(self.nodes)
        left, row = np.unique(first, return_inverse=True)
        right, column = np.unique(second, return_inverse=True)
        weights = 2 + costs  # SciPy takes zeros for missing edges; every assignment has as many edges
        if not self.perfect:
            alone = np.arange(len(left))
            row, column = np.append(row, alone), np.append(column, len(right) + alone)
            weights = np.append(weights, np.full(len(left), 2.0))
        rows, columns = min_weight_full_bipartite_matching(sp.csr_array((weights, (row, column))))
        matched = columns < len(right)
        return left[rows[matched]] * n + right[columns[matched]]

    def _blossomed(self, first: Array, second: Array, costs: Array) -> Array:
        networkx = _blossoms()
        graph = networkx.Graph()
        graph.add_weighted_edges_from(zip(first.tolist(), second.tolist(), (-costs).tolist(), strict=True))
        found = networkx.max_weight_matching(graph, maxcardinality=self.perfect)
        return np.array([min(edge) * len(self.nodes) + max(edge) for edge in sorted(found)], np.int64)

    def _exists(self) -> bool:
        if self._sides is None:
            return 2 * len(self._best(np.zeros(self.shape))) == len(self.nodes)
        _, first, second = self._pairs.cheapest(np.zeros(self.shape))
        n = len(self.nodes)
        graph = sp.csr_array((np.ones(len(first)), (first, second)), shape=(n, n))
        return 2 * int((maximum_bipartite_matching(graph) >= 0).sum()) == n

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.lmo(np.zeros(self.shape)).to_dense(dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        """At most this: a matching has at most half as many edges as there are nodes."""
        return math.sqrt(min(len(self.tails), 2 * (len(self.nodes) // 2)))

    def _mixes(self, x: Array, slack: Array) -> bool | None:
        over = self._at_nodes(x, 0) + self._at_nodes(x, 1) - 1
        over = np.abs(over) if self.perfect else over
        if (over > self._at_nodes(slack, 0) + self._at_nodes(slack, 1)).any():
            return False
        return super()._mixes(x, slack) if self._sides is None else True


def _sides(ends: Array, n: int) -> Array | None:
    """On which side each node of a bipartite graph is; None if there is an odd cycle.

    In two copies of the nodes, let every edge go from one copy to the other. A node is joined to its copy just if it
    is on a walk of odd length back to itself.
    """
    tails, heads = np.append(ends[0], ends[1]), np.append(ends[1], ends[0]) + n
    graph = sp.csr_array((np.ones(len(tails)), (tails, heads)), shape=(2 * n, 2 * n))
    label = connected_components(graph, directed=False)[1]
    return None if (label[:n] == label[n:]).any() else label[:n] > label[n:]


def _blossoms() -> Any:
    try:
        import networkx  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError("Matching on a graph with odd cycles needs networkx: pip install 'fwflow[graphs]'") from None
    return networkx
