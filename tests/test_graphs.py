"""Are the edges of graphs of NetworkX and SciPy read with their names, weights and directions?"""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from fwflow._graphs import read_graph


def matrix_of(edges, n):
    """The sum of the weights of parallel edges, from tail to head."""
    return sp.coo_array((edges.weights, (edges.tails, edges.heads)), (n, n)).toarray()


def test_parallel_edges_and_names_of_a_multigraph():
    graph = nx.MultiDiGraph()
    graph.add_edge("b", "a", key="road", weight=2.0)
    graph.add_edge("b", "a", key="rail")
    graph.add_edge("a", ("c", 1), weight=-3)
    edges = read_graph(graph, "G", directed=True)
    assert edges.nodes == ["b", "a", ("c", 1)]
    assert edges.names == [("b", "a", "road"), ("b", "a", "rail"), ("a", ("c", 1), 0)]
    assert edges.weights.tolist() == [2.0, 1.0, -3.0]
    assert edges.number_of(("c", 1), "target") == 2
    with pytest.raises(ValueError, match="target='d' is not a node"):
        edges.number_of("d", "target")


@pytest.mark.parametrize("directed", [False, True])
def test_agrees_with_the_matrix_that_networkx_makes(directed):
    graph = nx.gnp_random_graph(9, 0.4, seed=2, directed=directed)
    rng = np.random.default_rng(0)
    for _, _, data in graph.edges(data=True):
        data["weight"] = rng.standard_normal()
    expected = nx.to_numpy_array(graph)
    np.testing.assert_array_equal(matrix_of(read_graph(graph, "G", directed=True), 9), expected)
    found = matrix_of(read_graph(sp.csc_array(expected), "G", directed=directed), 9)
    np.testing.assert_array_equal(found, expected if directed else np.triu(expected))


def test_one_triangle_is_enough_without_directions():
    lower = sp.csr_array(np.tril(np.arange(9.0).reshape(3, 3), -1))
    edges = read_graph(lower, "G", directed=False)
    np.testing.assert_array_equal(matrix_of(edges, 3), lower.toarray())


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (nx.DiGraph([(0, 1)]), "G is a directed graph"),
        (sp.csr_array(np.arange(9.0).reshape(3, 3)), "G must be symmetric"),
        (sp.csr_array(np.ones((2, 3))), "G must be square"),
        (np.eye(3), "G must be a NetworkX graph or a SciPy sparse matrix"),
        (sp.csr_array(np.diag([1.0, np.nan])), "the weights of G must be finite"),
        (nx.Graph([(0, 1, {"weight": "heavy"})]), "the weights of G must be an array of real numbers"),
    ],
)
def test_graphs_that_cannot_be_used(graph, message):
    with pytest.raises(ValueError, match=message):
        read_graph(graph, "G", directed=False)


def test_a_graph_without_edges():
    assert read_graph(nx.empty_graph(3), "G", directed=False).weights.shape == (0,)
