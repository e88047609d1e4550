"""Edges of the graphs that users have: NetworkX graphs, and sparse matrices of SciPy."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from fwflow._validation import Array, InputError, describe, finite_array


@dataclass(frozen=True)
class EdgeList:
    """Edges of a graph, with the names that its user gave to nodes and edges.

    Attributes
    ----------
    nodes : list
        Names of the nodes. Node i of `tails` and `heads` is called ``nodes[i]``.
    tails, heads : arrays of int
        The two ends of every edge. In a directed graph an edge leads from its tail to its head.
    names : list of tuples
        Name of every edge: the names of its two ends, and the key of the edge in a multigraph.
    weights : array of float
        Weight of every edge.
    """

    nodes: list[Hashable]
    tails: Array
    heads: Array
    names: list[tuple[Hashable, ...]]
    weights: Array

    def number_of(self, node: Hashable, argument: str) -> int:
        """Return the number of the node with that name; `argument` is named in the error."""
        number = self._numbers.get(node) if isinstance(node, Hashable) else None
        if number is None:
            raise InputError(f"{argument}={node!r} is not a node of the graph")
        return number

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {node: k for k, node in enumerate(self.nodes)}


class NamedEdges:
    """Names of the nodes and edges of a set of vectors with an entry for every edge of a graph.

    A class that inherits from it makes sets from graphs of users with `_of_edges`.
    """

    tails: Array
    heads: Array
    #: Graph of the user. None: the set was made from numbers of nodes, which are the names.
    _graph: EdgeList | None = None

    @classmethod
    def _of_edges(cls, edges: EdgeList, *arguments: Any) -> Self:
        """Return the set of a graph, whose constructor can name nodes in its errors."""
        made = cls.__new__(cls)
        made._graph = edges
        made.__init__(edges.tails, edges.heads, *arguments)  # type: ignore[misc]
        return made

    def _named(self, node: int) -> str:
        """Return the name of a node for an error message."""
        return f"node {node if self._graph is None else repr(self._graph.nodes[node])}"

    @cached_property
    def edges(self) -> list[tuple[Hashable, ...]]:
        """Names of the edges in the order of the entries of x: the two ends, and a key for parallel edges.

        The names of a NetworkX graph are those of ``G.edges``, with the keys of a multigraph. Otherwise nodes are
        numbers, and parallel edges are counted from 0.
        """
        if self._graph is not None:
            return self._graph.names
        pairs = list(zip(self.tails.tolist(), self.heads.tolist(), strict=True))
        seen: Counter[tuple[int, int]] = Counter()
        parallel = len(set(pairs)) < len(pairs)
        names: list[tuple[Hashable, ...]] = []
        for pair in pairs:
            names.append((*pair, seen[pair]) if parallel else pair)
            seen[pair] += 1
        return names

    def by_edge(self, x: Any) -> dict[tuple[Hashable, ...], float]:
        """Return the entries of x as a dictionary with the names of the edges, see `edges`.

        Parameters
        ----------
        x : array_like
            A vector with an entry for every edge, for example ``result.x`` or a vertex.
        """
        values = finite_array(x, "x", ndim=1)
        if len(values) != len(self.edges):
            raise InputError(f"x has {len(values)} entries; the graph has {len(self.edges)} edges")
        return dict(zip(self.edges, values.tolist(), strict=True))

    def to_array(self, values: Mapping[tuple[Hashable, ...], float], default: float | None = None) -> Array:
        """Return numbers that are given by edge as a vector in the order of `edges`.

        Parameters
        ----------
        values : dict
            Number of every edge, by its name. An edge without direction may be named from either end.
        default : float, optional
            Number of the edges that are missing in `values`. By default a missing edge is an error.
        """
        known = set(self.edges)
        for name in values:
            if name not in known and self._reversed(name) not in known:
                raise InputError(f"values has the edge {name!r}, which is not in the graph")
        found = [values.get(name, values.get(self._reversed(name), default)) for name in self.edges]
        if None in found:
            raise InputError(f"values has no number for the edge {self.edges[found.index(None)]!r}; give default=...")
        return finite_array(found, "values", ndim=1)  # type: ignore[arg-type]

    def _reversed(self, name: Any) -> Any:
        """Return the name of an edge without direction from its other end; the name itself in a directed graph."""
        return name


def is_networkx(graph: Any) -> bool:
    """Return whether an object is a graph of NetworkX, without importing NetworkX."""
    networkx = sys.modules.get("networkx")
    return networkx is not None and isinstance(graph, networkx.Graph)


def read_graph(graph: Any, name: str, *, directed: bool, weight: str | None = "weight") -> EdgeList:
    """Return the edges of a NetworkX graph or of a square sparse matrix, whose stored entries are weights.

    `name` is the name of the argument. Edges without the attribute `weight` have weight 1, and so has every edge if
    `weight` is None. With ``directed=False``, a sparse matrix must be symmetric, or have entries on one side of its
    diagonal only.
    """
    if is_networkx(graph):
        return _from_networkx(graph, name, directed, weight)
    if sp.issparse(graph):
        return _from_sparse(graph, name, directed)
    raise InputError(f"{name} must be a NetworkX graph or a SciPy sparse matrix; got {describe(graph)}")


def _from_networkx(graph: Any, name: str, directed: bool, weight: str | None) -> EdgeList:
    if graph.is_directed() and not directed:
        raise InputError(f"{name} is a directed graph, but its edges must have no direction; use to_undirected()")
    nodes = list(graph.nodes)
    number = {node: k for k, node in enumerate(nodes)}
    names = list(graph.edges(keys=True) if graph.is_multigraph() else graph.edges())
    if directed and not graph.is_directed():  # an edge without direction can be used in both
        names += [(v, u, *key) for u, v, *key in names if u != v]
    attributes = (graph.edges[edge] for edge in names)
    given = [1.0 if weight is None else data.get(weight, 1.0) for data in attributes]
    ends = np.array([[number[edge[0]], number[edge[1]]] for edge in names], dtype=np.int64).reshape(-1, 2)
    return EdgeList(nodes, ends[:, 0], ends[:, 1], names, finite_array(given, f"the weights of {name}", ndim=1))


def _from_sparse(graph: Any, name: str, directed: bool) -> EdgeList:
    if graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        raise InputError(f"{name} must be square, with a row and a column for every node; got shape {graph.shape}")
    entries = graph.tocoo(copy=True)
    entries.sum_duplicates()
    tails, heads, weights = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data
    weights = finite_array(weights, f"the weights of {name}", ndim=1)
    if not directed and (tails > heads).any() and (tails < heads).any():
        if abs(graph - graph.T).max() > 0:
            raise InputError(f"{name} must be symmetric, because its edges must have no direction")
        upper = tails <= heads
        tails, heads, weights = tails[upper], heads[upper], weights[upper]
    names: list[tuple[Hashable, ...]] = list(zip(tails.tolist(), heads.tolist(), strict=True))
    return EdgeList(list(range(graph.shape[0])), tails, heads, names, weights)
