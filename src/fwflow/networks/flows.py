"""Flows on the links of a network that serve given trips, with an all-or-nothing assignment as the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from fwflow._fingerprints import fingerprint
from fwflow._graphs import EdgeList, NamedEdges, read_graph
from fwflow._numerics import dot, quietly
from fwflow._validation import Array, InputError, describe, finite_array, float_dtype, nodes, whole
from fwflow.networks.segments import SegmentExchange, Segments
from fwflow.networks.trees import Flows, Trees, Trips
from fwflow.points.vertices import DenseVertex, Shape, SparseVertex, Vertex, freeze
from fwflow.sets.base import Exchanges, KnownSet, Summands

# Largest number of variables, origins times links, of the linear program for membership. Chosen without tuning.
_VARIABLES = 20_000
# Feasibility tolerance of HiGHS, and the accuracy that is expected of its results, in units of the sum of all trips.
_HIGHS, _RESOLVED = 1e-9, 1e-8
# Largest cost that is not scaled down. Sums of larger costs along a path might overflow.
_HUGE = 1e280


class FlowPolytope(NamedEdges, Summands, Exchanges, KnownSet):
    """Flows on the links of a network that serve the trips between its zones.

    A vertex is an all-or-nothing assignment: all trips from one zone to another take one path, the cheapest for given
    costs of the links. Costs must not be negative, and ties are broken deterministically. The set is the sum over the
    origins of the flows that start there, and `trees` returns the parts of a vertex.

    The zones are the first nodes. Nodes below `first_through` are closed: trips start and end there, but none passes
    through. Links may be parallel, or loops. Trips from a zone to itself use no link.

    The start is the assignment for equal costs. Flows with cycles are members, but not vertices; ``diameter`` bounds
    the distance of flows without cycles. Membership is decided by a linear program with a variable for every origin and
    link. If there are more than 20000 variables, ``contains`` returns None for flows that are balanced at every node.

    Parameters
    ----------
    tails, heads : (n_links,) arrays of int
        First and last node of each link, counted from 0.
    demand : (n_zones, n_zones) array or sparse matrix
        Trips from the zone of a row to the zone of a column.
    n_nodes : int, optional
        Number of nodes; by default the smallest one for the links and zones.
    first_through : int, optional
        The first node that traffic may pass through; by default no node is closed.

    Attributes
    ----------
    origins : array of int
        Zones where trips start, apart from trips within a zone.

    See Also
    --------
    Beckmann : Objective of traffic in equilibrium.
    ShortestPath : One origin and one destination.
    fwflow.networks.Network : Set and objective of a network together.

    Notes
    -----
    :Family: graphs and integers
    :Uses: traffic assignment, routing of trips on a road network
    :Oracle: the flow that puts every trip on a shortest path
    :Cost: one run of the algorithm of Dijkstra for each origin

    Examples
    --------
    >>> import numpy as np, fwflow as fw
    >>> C = fw.FlowPolytope(tails=[0, 1, 0], heads=[1, 2, 2], demand=[[0, 0, 5], [0, 0, 1], [0, 0, 0]])
    >>> np.asarray(C.lmo(np.array([1.0, 1.0, 3.0])))
    array([5., 6., 0.])
    >>> np.asarray(C.lmo(np.array([1.0, 2.5, 3.0])))
    array([0., 1., 5.])
    """

    shape: Shape
    polytope = True

    def __init__(
        self, tails: ArrayLike, heads: ArrayLike, demand: Any, n_nodes: int | None = None, first_through: int = 0
    ) -> None:
        self.tails, self.heads = nodes(tails, "tails"), nodes(heads, "heads")
        if len(self.tails) != len(self.heads) or not len(self.tails):
            counts = f"{len(self.tails)} and {len(self.heads)}"
            raise ValueError(f"tails and heads must have an entry for every link, and at least one; got {counts}")
        self.demand = _demand_matrix(demand)
        zones, last = self.demand.shape[0], int(max(self.tails.max(), self.heads.max()))
        self.n_nodes = max(last + 1, zones) if n_nodes is None else whole(n_nodes, "n_nodes", 1)
        if self.n_nodes < max(last + 1, zones):
            raise ValueError(f"n_nodes is {self.n_nodes}, but a link has node {last} and there are {zones} zones")
        self.first_through = whole(first_through, "first_through", 0)
        self.shape = (len(self.tails),)
        self._trips = Trips.of(self.demand)
        self.origins = self._trips.origins
        freeze(self.tails, self.heads, self.origins)
        self._trees = Trees(self.tails, self.heads, self.n_nodes, self.first_through, self._trips, self._named)
        self.n_summands = max(1, len(self.origins))
        self._start = self._total(self._trees.loaded(np.ones(self.shape)))

    @classmethod
    def from_networkx(cls, G: Any, demand: Any) -> Self:
        """Return the flows on the edges of a NetworkX graph or a SciPy sparse graph.

        Edges without direction can be used in both directions: each becomes two links. All nodes are open to through
        traffic.

        Parameters
        ----------
        G : networkx.Graph or sparse matrix
            The network. Weights are ignored.
        demand : dict, array or sparse matrix
            Trips ``{(origin, destination): amount}`` by the names of the nodes, or a matrix in the order of the nodes.

        Examples
        --------
        >>> import networkx as nx, numpy as np, fwflow as fw
        >>> G = nx.DiGraph([("home", "work"), ("home", "shop"), ("shop", "work")])
        >>> C = fw.FlowPolytope.from_networkx(G, {("home", "work"): 5.0})
        >>> C.by_edge(C.lmo(np.array([3.0, 1.0, 1.0])))
        {('home', 'work'): 0.0, ('home', 'shop'): 5.0, ('shop', 'work'): 5.0}
        """
        edges = read_graph(G, "G", directed=True, weight=None)
        n = len(edges.nodes)
        if isinstance(demand, Mapping):
            demand = _trips_by_name(demand, edges)
        elif np.shape(demand) != (n, n):
            raise InputError(f"demand has shape {np.shape(demand)}; the graph has {n} nodes, so it must be {(n, n)}")
        return cls._of_edges(edges, demand)

    def __repr__(self) -> str:
        return f"FlowPolytope({self.shape[0]} links, {self.n_nodes} nodes, {len(self.origins)} origins)"

    def fingerprint(self) -> str:
        return fingerprint(
            self,
            tails=self.tails,
            heads=self.heads,
            demand=self.demand,
            n_nodes=self.n_nodes,
            first_through=self.first_through,
        )

    def lmo(self, g: Any, hint: Vertex | None = None) -> DenseVertex:
        costs = self._costs(g)
        flows = self._total(self._trees.assigned(costs))
        return DenseVertex(flows.astype(float_dtype(g.dtype), copy=False), advice=costs)

    def split_vertex(self, vertex: Vertex) -> tuple[Vertex, ...] | None:
        """Return the flows from each origin for the costs that the vertex carries along."""
        if vertex.advice is None or vertex.advice.shape != self.shape:
            return None
        return self._by_origin(self._trees.assigned_before(vertex.advice))

    def split_point(self, x: Array) -> tuple[Vertex, ...] | None:
        """Return the flows from each origin if x is the start, else None."""
        return self._by_origin(self._trees.loaded(np.ones(self.shape))) if (x == self._start).all() else None

    def exchange(
        self, parts: sp.csr_array, found: Any, vertex: Vertex, late: Callable[[], bool]
    ) -> SegmentExchange | None:
        """Return pairs of alternative segments, between which flow can move; None for parts of another network."""
        costs = vertex.advice
        if costs is None or costs.shape != self.shape or parts.shape != (len(self.origins), *self.shape):
            return None
        return SegmentExchange.of(self._trees, parts, found if isinstance(found, Segments) else None, costs, late)

    def _by_origin(self, flows: Iterable[Flows]) -> tuple[Vertex, ...]:
        trees = self._matrix(flows)
        cuts = trees.indptr[1:-1]
        rows = zip(np.split(trees.indices, cuts), np.split(trees.data, cuts), strict=True)
        return tuple(SparseVertex(links, amounts, self.shape) for links, amounts in rows)

    def trees(self, costs: ArrayLike) -> sp.csr_array:
        """Return the vertex for these costs by origin: an (n_origins, n_links) matrix whose rows sum to it.

        Row i holds the flows from ``origins[i]`` on its tree of cheapest paths.
        Only nonzero flows are stored, at most one for every node and row.

        Examples
        --------
        >>> import numpy as np, fwflow as fw
        >>> C = fw.FlowPolytope(tails=[0, 1, 0], heads=[1, 2, 2], demand=[[0, 0, 5], [0, 0, 1], [0, 0, 0]])
        >>> C.trees([1.0, 1.0, 3.0]).toarray()
        array([[5., 5., 0.],
               [0., 1., 0.]])
        """
        return self._matrix(self._trees.loaded(self._costs(costs)))

    def _matrix(self, flows: Iterable[Flows]) -> sp.csr_array:
        empty = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))
        rows, links, amounts = (np.concatenate(part) for part in zip(empty, *flows, strict=True))
        return sp.csr_array((amounts, (rows, links)), shape=(len(self.origins), *self.shape))

    def start(self, shape: Shape | None = None, dtype: Any = np.float64) -> Array:
        return self._start.astype(dtype)

    def diameter(self, shape: Shape | None = None) -> float:
        """Return a bound on the diameter: a path uses a link at most once, and fewer links than there are nodes."""
        return float(self._trips.amounts.sum()) * min(self.shape[0], 2 * (self.n_nodes - 1)) ** 0.5

    def near(self, x: Array, tol: float, noise: Array) -> bool | None:
        if x.shape != self.shape:
            raise ValueError(f"x has shape {x.shape}; members of {self!r} have shape {self.shape}")
        _, rows, ends, amounts = self._trips
        unit = float(amounts.sum()) or 1.0
        x, slack = x / unit, max(tol, _RESOLVED) + noise / unit
        if (x < -slack).any():
            return False
        links = np.arange(len(x))
        arriving, leaving = (
            sp.csr_array((np.ones(len(x)), (ends, links)), (self.n_nodes, len(x))) for ends in (self.heads, self.tails)
        )
        balance = arriving - leaving
        trips = sp.csr_array((amounts / unit, (rows, ends)), (len(self.origins), self.n_nodes))
        wanted = trips - sp.csr_array((trips.sum(axis=1), (np.arange(len(self.origins)), self.origins)), trips.shape)
        if (np.abs(dot(balance, x) - wanted.sum(axis=0)) > dot(arriving + leaving, slack)).any():
            return False
        return None if len(self.origins) * len(x) > _VARIABLES else self._furthest(x, slack, balance, wanted) <= 1

    def _furthest(self, x: Array, slack: Array, balance: sp.csr_array, wanted: sp.csr_array) -> float:
        """Return the distance of x from the sums of flows from all origins, in units of the slack."""
        k, m = len(self.origins), len(x)
        own = self.origins[:, None]
        closed, back = self.tails < self.first_through, self.heads < self.first_through
        barred = (closed & (self.tails != own)) | (back & (self.heads == own))
        total = sp.hstack([sp.csr_array((m, 0)), *[sp.eye_array(m)] * k])
        apart = sp.csr_array(slack[:, None] / slack.max())
        answer = quietly(linprog)(
            np.append(np.zeros(k * m), 1.0),
            A_ub=sp.block_array([[total, -apart], [-total, -apart]]).tocsr(),
            b_ub=np.append(x, -x),
            A_eq=sp.hstack([sp.kron(sp.eye_array(k), balance), sp.csr_array((k * self.n_nodes, 1))]).tocsr(),
            b_eq=wanted.toarray().ravel(),
            bounds=[*((0.0, 0.0 if bar else None) for bar in barred.ravel()), (0.0, None)],
            method="highs-ipm",
            options={"primal_feasibility_tolerance": _HIGHS},
        )
        if answer.status != 0:
            raise RuntimeError(f"HiGHS could not decide whether x is a member: {answer.message}")
        return float(answer.fun / slack.max())

    def _total(self, flows: Iterable[Flows]) -> Array:
        total = np.zeros(self.shape)
        for _, links, amounts in flows:
            total += np.bincount(links, amounts, len(total))
        return total

    def _costs(self, g: Any) -> Array:
        costs = finite_array(g, "costs", ndim=1, dtype=np.float64)
        if costs.shape != self.shape:
            raise ValueError(f"costs has {len(costs)} entries; there are {self.shape[0]} links")
        worst = int(costs.argmin())
        if costs[worst] < 0:
            raise ValueError(
                f"costs must not be negative; link {worst} from {self._named(self.tails[worst])} to "
                f"{self._named(self.heads[worst])} costs {costs[worst]:g}"
            )
        largest = float(costs.max())
        return costs / largest if largest > _HUGE else costs


def _trips_by_name(demand: Mapping[Any, float], edges: EdgeList) -> sp.csr_array:
    """Return trips that are given by the names of two nodes as a matrix."""
    for pair in demand:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(f"the keys of demand must be pairs (origin, destination); got {describe(pair)}")
    ends = [[edges.number_of(node, "a node of demand") for node in pair] for pair in demand]
    rows, columns = np.array(ends, dtype=np.int64).reshape(-1, 2).T
    amounts = finite_array(list(demand.values()), "demand", ndim=1)
    return sp.csr_array((amounts, (rows, columns)), shape=(len(edges.nodes), len(edges.nodes)))


def _demand_matrix(demand: Any) -> sp.csr_array:
    """Return a checked copy of the trips."""
    matrix = sp.csr_array(demand if sp.issparse(demand) else finite_array(demand, "demand", ndim=2), dtype=np.float64)
    matrix.sum_duplicates()
    finite_array(matrix.data, "demand")
    zones, columns = matrix.shape
    if zones != columns:
        raise ValueError(f"demand must be square, with a row and a column for every zone; its shape is {matrix.shape}")
    negative = matrix.data < 0
    if negative.any():
        table, place = matrix.tocoo(), int(negative.argmax())
        a, b = (int(node[place]) for node in table.coords)
        raise ValueError(f"demand must not be negative; demand[{a}, {b}] is {matrix.data[place]:g}")
    return matrix
