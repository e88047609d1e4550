"""Hulls of subgraphs, which are 0/1 vectors on the edges: paths, spanning trees and matchings."""

from __future__ import annotations

import math
from abc import abstractmethod
from graphlib import CycleError, TopologicalSorter
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import (
    NegativeCycleError,
    bellman_ford,
    breadth_first_order,
    connected_components,
    dijkstra,
    min_weight_full_bipartite_matching,
    minimum_spanning_tree,
)

from fwflow._graphs import EdgeList, NamedEdges, read_graph
from fwflow._validation import Array, nodes, whole
from fwflow.points.vertices import Shape, SparseVertex, Vertex
from fwflow.sets.base import ParametricSet, check_shape
from fwflow.sets.membership import is_mixture

# Rounding error of a difference of costs of absolute value at most one.
_ROUNDING = 4 * float(np.finfo(np.float64).eps)


class _Subgraphs(NamedEdges, ParametricSet):
    """The hull of the 0/1 vectors of all subgraphs of one kind."""

    polytope = True
    shape: Shape
    parameters: tuple[str, ...] = ("tails", "heads")
    #: The start is the cheapest subgraph when all edges have this cost.
    _start_cost = 0.0

    def __init__(self, tails: ArrayLike, heads: ArrayLike) -> None:
        self.tails, self.heads = nodes(tails, "tails"), nodes(heads, "heads")
        if len(self.tails) != len(self.heads):
            raise ValueError(f"tails has {len(self.tails)} entries and heads has {len(self.heads)}; they must agree")
        if not len(self.tails):
            raise ValueError("tails and heads are empty; a graph needs at least one edge")
        self.shape = self.tails.shape
        self.nodes, ends = np.unique(np.stack([self.tails, self.heads]), return_inverse=True)
        self._ends = ends.reshape(2, -1)  # Indices into `nodes` of the two ends of every edge.

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} edges, {len(self.nodes)} nodes)"

    @abstractmethod
    def _best(self, costs: Array) -> Array:
        """Return the edges of the cheapest subgraph, for costs of absolute value at most one."""

    def lmo(self, g: Any, hint: Vertex | None = None) -> SparseVertex:
        costs = np.asarray(g, dtype=np.float64)
        check_shape(self, costs, "g")
        edges = np.sort(self._best(np.ldexp(costs, -math.frexp(float(np.abs(costs).max()))[1])))
        return SparseVertex(edges, np.ones(len(edges)), self.shape)

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        check_shape(self, x)
        slack = tol + noise
        if (x < -slack).any() or (x > 1 + slack).any():
            return False
        return self._is_mixture(x, slack)

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self.vertex(np.full(self.shape, self._start_cost)).to_dense(dtype)

    def _use(self, edges: Array, ends: Array) -> None:
        """Restrict subgraphs to these edges. Of parallel edges only the cheapest is used; ties go to the first."""
        self._edges, self._pairs = edges, ends[0, edges] * len(self.nodes) + ends[1, edges]

    def _cheapest(self, costs: Array) -> tuple[Array, Array, Array]:
        """Return the cheapest edge of each pair of nodes and the indices of its nodes, sorted by these indices."""
        order = np.lexsort((costs[self._edges], self._pairs))
        pairs = self._pairs[order]
        new = np.diff(pairs, prepend=-1) > 0
        return self._edges[order[new]], *np.divmod(pairs[new], len(self.nodes))

    def _is_mixture(self, x: Array, slack: Array) -> bool | None:
        """Return whether a vector with entries in [0, 1] is a mixture of subgraphs, up to `slack`."""
        return is_mixture(self, x, slack)

    def _at_nodes(self, values: Array, side: int) -> Array:
        """Return the sum of values on edges at every node, for the tails (side 0) or the heads (side 1)."""
        return np.bincount(self._ends[side], values, len(self.nodes))


class _Undirected(_Subgraphs):
    """The same for edges without direction, which may be named from either end."""

    def _reversed(self, name: Any) -> Any:
        return (name[1], name[0], *name[2:]) if isinstance(name, tuple) and len(name) > 1 else name


def _isolated(edges: EdgeList) -> str | None:
    """Return the name of a node without edges to other nodes for an error message, or None if there is none."""
    joined = edges.tails != edges.heads
    alone = np.setdiff1d(np.arange(len(edges.nodes)), np.append(edges.tails[joined], edges.heads[joined]))
    return repr(edges.nodes[alone[0]]) if len(alone) else None


class ShortestPath(_Subgraphs):
    """Hull of the paths from one node of a directed graph to another; entry e is 1 where a path uses edge e.

    A path visits no node twice. On an acyclic graph, costs may have any sign, and the members are the unit flows from
    source to target. On other graphs, the method of Bellman and Ford finds the cheapest path if no cycle has a negative
    cost, and the oracle raises an error otherwise. Edges into the source, out of the target, or on no path at all do
    not count as part of a cycle. The default starting point is the path with the fewest edges. Flows around a cycle are
    not members. For a unit flow that also uses all edges of a cycle, membership is unknown.

    Parameters
    ----------
    tails, heads : (n,) arrays of int
        The nodes that each edge leaves and enters.
    source, target : int
        First and last node of all paths.

    See Also
    --------
    FlowPolytope : Many origins and destinations.
    SpanningTree : Spanning trees of a graph.

    Notes
    -----
    :Family: graphs and integers
    :Uses: routing, tracking of objects, alignment of sequences
    :Oracle: the path with the lowest cost
    :Cost: one run of the algorithm of Dijkstra, or of Bellman and Ford

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.ShortestPath(tails=[0, 1, 0], heads=[1, 2, 2], source=0, target=2)
    >>> np.asarray(C.lmo(np.array([1.0, -3.0, 2.0])))
    array([1., 1., 0.])
    """

    parameters = ("tails", "heads", "source", "target")
    _start_cost = 1.0

    def __init__(self, tails: ArrayLike, heads: ArrayLike, source: int, target: int) -> None:
        super().__init__(tails, heads)
        self.source, self.target = whole(source, "source", 0), whole(target, "target", 0)
        if self.source == self.target:
            raise ValueError(f"source and target are both {self._named(self.source)}; a path needs two nodes")
        for name, node in (("source", self.source), ("target", self.target)):
            if node not in self.nodes:
                raise ValueError(f"{name} is {self._named(node)}, which is on no edge")
        self._from, self._to = np.searchsorted(self.nodes, [self.source, self.target]).tolist()
        t, h = self._ends
        inner = (h != self._from) & (t != self._to) & (t != h)
        reached, reaching = self._reached(t[inner], h[inner], self._from), self._reached(h[inner], t[inner], self._to)
        useful = inner & reached[t] & reaching[h]
        if not useful.any():
            raise ValueError(f"no path leads from {self._named(self.source)} to {self._named(self.target)}")
        self._use(np.flatnonzero(useful), self._ends)
        self._level = _levels(self._ends[:, useful], len(self.nodes))

    @classmethod
    def from_networkx(cls, G: Any, source: Any, target: Any) -> Self:
        """Return the paths of a NetworkX graph or a SciPy sparse graph.

        Edges without direction can be used in both directions: each becomes two entries of x.

        Parameters
        ----------
        G : networkx.Graph or sparse matrix
            The graph. Weights are ignored. The nodes of a sparse matrix are its rows, counted from 0.
        source, target : node
            Names of the first and the last node of all paths.

        Examples
        --------
        >>> import networkx as nx, numpy as np, fwflow as fw
        >>> G = nx.DiGraph([("a", "b"), ("b", "c"), ("a", "c")])
        >>> C = fw.ShortestPath.from_networkx(G, "a", "c")
        >>> C.edges
        [('a', 'b'), ('a', 'c'), ('b', 'c')]
        >>> C.by_edge(C.lmo(np.array([1.0, 3.0, 1.0])))
        {('a', 'b'): 1.0, ('a', 'c'): 0.0, ('b', 'c'): 1.0}
        """
        edges = read_graph(G, "G", directed=True, weight=None)
        return cls._of_edges(edges, edges.number_of(source, "source"), edges.number_of(target, "target"))

    def _reached(self, tails: Array, heads: Array, start: int) -> Array:
        n = len(self.nodes)
        graph = sp.csr_array((np.ones(len(tails)), (tails, heads)), shape=(n, n))
        return np.isin(np.arange(n), breadth_first_order(graph, start, return_predecessors=False))

    def _best(self, costs: Array) -> Array:
        if self._level is not None:
            # A multiple of the levels adds the same cost to all paths, and makes all costs nonnegative.
            t, h = self._ends[:, self._edges]
            rise = self._level[h] - self._level[t]
            raised = costs[self._edges]
            raised = np.maximum(raised + max(0.0, float((-raised / rise).max())) * rise, 0.0)
            costs = costs.copy()
            costs[self._edges] = raised
        chosen, tails, heads = self._cheapest(costs)
        n = len(self.nodes)
        graph = sp.csr_array((costs[chosen], (tails, heads)), shape=(n, n))
        before, node, path = self._tree(graph), self._to, []
        while node != self._from:
            path.append(before[node] * n + node)
            node = int(before[node])
        return chosen[np.searchsorted(tails * n + heads, path)]

    def _tree(self, graph: sp.csr_array) -> Array:
        """Return the predecessor of each node on a cheapest path from the source."""
        if graph.data.min() < 0:
            # Distances make the reduced costs nonnegative. The predecessors of Bellman and Ford's method may contain
            # cycles of zero cost because of rounding; those of Dijkstra's method do not.
            tails, heads = graph.tocoo().coords
            graph.data += _ROUNDING  # Cycles of zero cost must not seem negative.
            try:
                distance = bellman_ford(graph, indices=self._from)
            except NegativeCycleError:
                raise ValueError(
                    "g makes the cost of a cycle negative, and the cheapest path is then hard to find; "
                    "use an acyclic graph for costs of any sign, or nonnegative costs"
                ) from None
            graph.data = np.maximum(graph.data + distance[tails] - distance[heads], 0.0)
        return dijkstra(graph, indices=self._from, return_predecessors=True)[1]

    def diameter(self, shape: Shape | None = None) -> float:
        """Return an upper bound: a path has fewer edges than there are nodes."""
        return math.sqrt(min(len(self._edges), 2 * (len(self.nodes) - 1)))

    def _is_mixture(self, x: Array, slack: Array) -> bool | None:
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
    """Return the largest number of edges on a path to each node, or None if there is a cycle."""
    before: dict[int, list[int]] = {node: [] for node in range(n)}
    for tail, head in ends.T.tolist():
        before[head].append(tail)
    level = [0] * n
    try:
        for node in TopologicalSorter(before).static_order():
            level[node] = max((level[tail] + 1 for tail in before[node]), default=0)
    except CycleError:
        return None
    return np.array(level)


class SpanningTree(_Undirected):
    r"""Hull of the spanning trees of a connected undirected graph; entry e is 1 where a tree has edge e.

    The cheapest tree depends only on the order of the costs; ties go to the first edges. The default starting point is
    the cheapest tree for equal costs. Membership is found by oracle calls; with more than 100 edges it is unknown.

    Parameters
    ----------
    tails, heads : (n,) arrays of int
        The two nodes that each edge joins, counted from 0.

    See Also
    --------
    ShortestPath : Paths of a graph.
    Matching : Matchings of a graph.

    Notes
    -----
    :Family: graphs and integers
    :Uses: design of networks, clustering, graphical models with the structure of a tree
    :Oracle: the tree with the lowest cost
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
            first, apart = (self._named(int(self.nodes[i])) for i in (0, int((label != label[0]).argmax())))
            raise ValueError(f"the graph has no spanning tree: no edges lead from {first} to {apart}")
        self._use(np.flatnonzero(ends[0] < ends[1]), ends)

    @classmethod
    def from_networkx(cls, G: Any) -> Self:
        """Return the spanning trees of a NetworkX graph or a SciPy sparse graph without directions.

        Parameters
        ----------
        G : networkx.Graph or sparse matrix
            The graph. Weights are ignored. A sparse matrix must be symmetric, or have entries on one side of its
            diagonal only.

        Examples
        --------
        >>> import networkx as nx, numpy as np, fwflow as fw
        >>> C = fw.SpanningTree.from_networkx(nx.Graph([("a", "b"), ("b", "c"), ("c", "a")]))
        >>> C.by_edge(C.lmo(np.array([0.0, 2.0, -1.0])))
        {('a', 'b'): 1.0, ('a', 'c'): 0.0, ('b', 'c'): 1.0}
        """
        edges = read_graph(G, "G", directed=False, weight=None)
        if len(edges.nodes) > 1 and (alone := _isolated(edges)):
            raise ValueError(f"the graph has no spanning tree: node {alone} has no edges to other nodes")
        return cls._of_edges(edges)

    def _best(self, costs: Array) -> Array:
        # Ranks replace the costs, because SciPy treats zero costs as missing edges.
        order = np.argsort(costs, kind="stable")
        rank = np.empty(len(order))
        rank[order] = np.arange(1, len(order) + 1)
        chosen, first, second = self._cheapest(rank)
        n = len(self.nodes)
        tree = minimum_spanning_tree(sp.csr_array((rank[chosen], (first, second)), shape=(n, n)))
        return order[tree.data.astype(np.int64) - 1]

    def diameter(self, shape: Shape | None = None) -> float:
        """Return an upper bound: two trees differ at most in the edges of one tree, or in those outside of it."""
        size = len(self.nodes) - 1
        return math.sqrt(2 * min(size, len(self.tails) - size))

    def _is_mixture(self, x: Array, slack: Array) -> bool | None:
        return False if abs(x.sum() - len(self.nodes) + 1) > slack.sum() else super()._is_mixture(x, slack)


class Matching(_Undirected):
    """Hull of the matchings of an undirected graph: sets of edges without common nodes.

    On a bipartite graph SciPy's sparse assignment finds the cheapest matching. The members are the non-negative vectors
    whose sum at every node is at most one, or exactly one for perfect matchings. On other graphs networkx's blossom
    algorithm finds the matching (``pip install 'fwflow[graphs]'``), and oracle calls find membership, for up to 100
    edges. Edges of zero cost are left out if possible. The default starting point is the empty matching, or a perfect
    matching if `perfect`.

    Parameters
    ----------
    tails, heads : (n,) arrays of int
        The two nodes that each edge joins, counted from 0.
    perfect : bool
        Whether every matching covers all nodes; False by default.

    See Also
    --------
    Birkhoff : Perfect matchings of a complete bipartite graph, as matrices.
    SpanningTree : Spanning trees of a graph.

    Notes
    -----
    :Family: graphs and integers
    :Uses: assignment of workers to jobs, pairing, matching on a sparse graph
    :Oracle: the matching with the lowest cost, by SciPy, or by networkx if the graph is not bipartite
    :Cost: one assignment problem, or one run of the blossom algorithm if the graph is not bipartite

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> path = fw.Matching(tails=[0, 1, 2], heads=[1, 2, 3])
    >>> np.asarray(path.lmo(np.array([-2.0, -3.0, -2.0])))
    array([1., 0., 1.])
    """

    parameters = ("tails", "heads", "perfect")

    def __init__(self, tails: ArrayLike, heads: ArrayLike, perfect: bool = False) -> None:
        super().__init__(tails, heads)
        self.perfect = bool(perfect)
        useful = np.flatnonzero(self._ends[0] != self._ends[1])
        self._sides = _sides(self._ends[:, useful], len(self.nodes))
        if self._sides is None:
            _blossoms()  # A missing package is reported at once.
            ends = np.sort(self._ends, axis=0)
        else:
            ends = np.where(self._sides[self._ends[0]], self._ends[::-1], self._ends)
        self._use(useful, ends)
        if self.perfect and not self._covers_all_nodes():
            raise ValueError("the graph has no perfect matching; use perfect=False")

    @classmethod
    def from_networkx(cls, G: Any, perfect: bool = False) -> Self:
        """Return the matchings of a NetworkX graph or a SciPy sparse graph without directions.

        Parameters
        ----------
        G : networkx.Graph or sparse matrix
            The graph, as for `SpanningTree.from_networkx`.
        perfect : bool
            Whether every matching covers all nodes; False by default.

        Examples
        --------
        >>> import networkx as nx, numpy as np, fwflow as fw
        >>> C = fw.Matching.from_networkx(nx.Graph([("ann", "bob"), ("bob", "cat"), ("cat", "dan")]))
        >>> C.by_edge(C.lmo(np.array([-2.0, -3.0, -2.0])))
        {('ann', 'bob'): 1.0, ('bob', 'cat'): 0.0, ('cat', 'dan'): 1.0}
        """
        edges = read_graph(G, "G", directed=False, weight=None)
        if perfect and (alone := _isolated(edges)):
            raise ValueError(f"the graph has no perfect matching: node {alone} has no edges to other nodes")
        return cls._of_edges(edges, perfect)

    def _covers_all_nodes(self) -> bool:
        try:
            return 2 * len(self._best(np.zeros(self.shape))) == len(self.nodes)
        except ValueError:  # SciPy finds no assignment.
            return False

    def _best(self, costs: Array) -> Array:
        chosen, first, second = self._cheapest(costs)
        if not self.perfect:
            gains = costs[chosen] < 0
            chosen, first, second = chosen[gains], first[gains], second[gains]
        if not len(chosen):
            return chosen
        find = self._blossomed if self._sides is None else self._assigned
        return chosen[np.searchsorted(first * len(self.nodes) + second, find(first, second, costs[chosen]))]

    def _assigned(self, first: Array, second: Array, costs: Array) -> Array:
        """Assign one side to the other or, for a node that stays uncovered, to a dummy node."""
        n = len(self.nodes)
        left, row = np.unique(first, return_inverse=True)
        right, column = np.unique(second, return_inverse=True)
        # SciPy treats zeros as missing edges. Adding 2 to all costs keeps the optimum, because all assignments have the
        # same number of edges.
        weights = 2 + costs
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

    def diameter(self, shape: Shape | None = None) -> float:
        """Return an upper bound: a matching has at most half as many edges as there are nodes."""
        return math.sqrt(min(len(self.tails), 2 * (len(self.nodes) // 2)))

    def _is_mixture(self, x: Array, slack: Array) -> bool | None:
        over = self._at_nodes(x, 0) + self._at_nodes(x, 1) - 1
        over = np.abs(over) if self.perfect else over
        if (over > self._at_nodes(slack, 0) + self._at_nodes(slack, 1)).any():
            return False
        return super()._is_mixture(x, slack) if self._sides is None else True


def _sides(ends: Array, n: int) -> Array | None:
    """Return the side of each node of a bipartite graph, or None if there is an odd cycle.

    The double cover has two copies of every node; edges join one copy of a node to the other copy of its neighbour. A
    node is connected to its own copy if and only if it is on a closed walk of odd length.
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
