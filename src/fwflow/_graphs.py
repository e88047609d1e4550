"""Edges of the graphs that users have: NetworkX graphs, and sparse matrices of SciPy."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

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
        try:
            return self.nodes.index(node)
        except ValueError:
            raise InputError(f"{argument}={node!r} is not a node of the graph") from None


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
    entries = graph.tocoo()
    tails, heads, weights = entries.row.astype(np.int64), entries.col.astype(np.int64), entries.data
    weights = finite_array(weights, f"the weights of {name}", ndim=1)
    if not directed and (tails > heads).any() and (tails < heads).any():
        if abs(graph - graph.T).max() > 0:
            raise InputError(f"{name} must be symmetric, because its edges must have no direction")
        upper = tails <= heads
        tails, heads, weights = tails[upper], heads[upper], weights[upper]
    names: list[tuple[Hashable, ...]] = list(zip(tails.tolist(), heads.tolist(), strict=True))
    return EdgeList(list(range(graph.shape[0])), tails, heads, names, weights)
