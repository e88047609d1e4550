"""Sets from graphs of NetworkX and SciPy: do names of nodes and edges, parallel edges and directions survive?"""

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw


def roads(kind=nx.MultiDiGraph):
    """A graph with names, parallel edges and attributes."""
    G = kind()
    G.add_edge("home", "station", key="bus", minutes=12.0)
    G.add_edge("home", "station", key="walk", minutes=20.0)
    G.add_edge("station", "office", key="train", minutes=30.0)
    G.add_edge("home", "office", key="car", minutes=45.0)
    G.add_edge("station", ("park", 3), key="bus", minutes=5.0)
    G.add_edge(("park", 3), "office", key="walk", minutes=9.0)
    return G


def minutes(C, G):
    return np.array([G.edges[edge]["minutes"] for edge in C.edges])


def random_graph(kind, seed):
    G = nx.gnp_random_graph(9, 0.5, seed=seed, directed=kind is nx.DiGraph)
    names = dict(enumerate("abcdefghi"))
    rng = np.random.default_rng(seed)
    for _, _, data in G.edges(data=True):
        data["minutes"] = rng.uniform(1, 2)
    return nx.relabel_nodes(G, names)


def test_the_shortest_path_of_a_multigraph_by_edge():
    G = roads()
    C = fw.ShortestPath.from_networkx(G, "home", "office")
    found = C.by_edge(C.lmo(minutes(C, G)))
    assert {edge for edge, flow in found.items() if flow} == {
        ("home", "station", "bus"),
        ("station", ("park", 3), "bus"),
        (("park", 3), "office", "walk"),
    }
    assert list(found) == list(G.edges(keys=True))


@pytest.mark.parametrize("seed", range(4))
def test_paths_agree_with_networkx(seed):
    for kind in (nx.DiGraph, nx.Graph):
        G = random_graph(kind, seed)
        if not nx.has_path(G, "a", "i"):
            continue
        C = fw.ShortestPath.from_networkx(G, "a", "i")
        costs = minutes(C, G)
        assert C.lmo(costs).dot(costs) == pytest.approx(nx.shortest_path_length(G, "a", "i", weight="minutes"))


@pytest.mark.parametrize("seed", range(4))
def test_trees_and_matchings_agree_with_networkx(seed):
    G = random_graph(nx.Graph, seed)
    G = G.subgraph(max(nx.connected_components(G), key=len)).copy()
    C = fw.SpanningTree.from_networkx(G)
    costs = minutes(C, G)
    tree = nx.minimum_spanning_tree(G, weight="minutes")
    assert {edge for edge, x in C.by_edge(C.lmo(costs)).items() if x} == set(tree.edges())
    M = fw.Matching.from_networkx(G)
    matching = nx.max_weight_matching(G, weight="minutes")
    best = sum(G.edges[edge]["minutes"] for edge in matching)
    assert -M.lmo(-minutes(M, G)).dot(-minutes(M, G)) == pytest.approx(best)


def test_a_run_by_edge():
    G = roads(nx.MultiGraph)
    C = fw.SpanningTree.from_networkx(G)
    wanted = C.to_array({("office", "home", "car"): 1.0, ("home", "station", "walk"): 0.5}, default=0.25)
    r = fw.minimize(fw.Quadratic(np.eye(6), wanted), C)
    found = C.by_edge(r.x)
    assert r.success
    assert found["home", "office", "car"] == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_array_equal(C.to_array(found), r.x)


def test_trips_by_name():
    G = roads()
    C = fw.FlowPolytope.from_networkx(G, {("home", "office"): 3.0, (("park", 3), "office"): 2.0})
    flows = C.by_edge(C.lmo(minutes(C, G)))
    assert flows[("park", 3), "office", "walk"] == 5.0
    assert flows["home", "station", "bus"] == 3.0
    demand = np.zeros((4, 4))
    demand[0, 2], demand[3, 2] = 3.0, 2.0
    for matrix in (demand, sp.csr_array(demand)):
        same = fw.FlowPolytope.from_networkx(G, matrix)
        np.testing.assert_array_equal(same.lmo(minutes(C, G)), C.lmo(minutes(C, G)))
    r = fw.minimize(fw.Quadratic(np.eye(6)), C)
    assert C.contains(r.x)
    assert copy.deepcopy(C).edges == pickle.loads(pickle.dumps(C)).edges == C.edges


def test_sparse_graphs():
    W = sp.csr_array(np.array([[0, 1.0, 5.0], [0, 0, 1.0], [0, 0, 0]]))
    C = fw.ShortestPath.from_networkx(W, 0, 2)
    assert C.edges == [(0, 1), (0, 2), (1, 2)]
    assert C.by_edge(C.lmo(W.tocoo().data)) == {(0, 1): 1.0, (0, 2): 0.0, (1, 2): 1.0}
    assert fw.SpanningTree.from_networkx(W + W.T).edges == C.edges
    assert fw.Matching.from_networkx(sp.csc_matrix(W)).shape == (3,)
    assert fw.FlowPolytope.from_networkx(W, {(0, 2): 2.0}).start().sum() == 2.0
    twice = sp.coo_array(([1.0, 2.0, 1.0], ([0, 0, 1], [1, 1, 2])), shape=(3, 3))
    assert fw.SpanningTree.from_networkx(twice).edges == [(0, 1), (1, 2)]


def test_sets_from_numbers_have_names_too():
    C = fw.SpanningTree([0, 1, 0, 0], [1, 2, 1, 2])
    assert C.edges == [(0, 1, 0), (1, 2, 0), (0, 1, 1), (0, 2, 0)]
    assert fw.SpanningTree([0, 1, 2], [1, 2, 0]).edges == [(0, 1), (1, 2), (2, 0)]
    np.testing.assert_array_equal(C.to_array({(1, 0, 1): 3.0}, default=0.0), [0, 0, 3, 0])
    assert C.fingerprint() == fw.SpanningTree([0, 1, 0, 0], [1, 2, 1, 2]).fingerprint()


LONELY = nx.Graph([("a", "b"), ("b", "c")])
LONELY.add_node("z")
APART = nx.Graph([("a", "b"), ("c", "d")])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fw.ShortestPath.from_networkx(roads(), "home", "moon"), "target='moon' is not a node of the graph"),
        (lambda: fw.ShortestPath.from_networkx(roads(), "office", "home"), "from node 'office' to node 'home'"),
        (lambda: fw.ShortestPath.from_networkx(roads(), "home", "home"), "source and target are both node 'home'"),
        (lambda: fw.ShortestPath.from_networkx(LONELY, "a", "z"), "target is node 'z', which is on no edge"),
        (lambda: fw.SpanningTree.from_networkx(APART), "no edges lead from node 'a' to node 'c'"),
        (lambda: fw.SpanningTree.from_networkx(LONELY), "no spanning tree: node 'z' has no edges"),
        (lambda: fw.Matching.from_networkx(LONELY, perfect=True), "no perfect matching: node 'z' has no edges"),
        (lambda: fw.SpanningTree.from_networkx(roads()), "G is a directed graph"),
        (lambda: fw.SpanningTree.from_networkx([(0, 1)]), "G must be a NetworkX graph or a SciPy sparse matrix"),
        (lambda: fw.SpanningTree.from_networkx(nx.empty_graph(1)), "a graph needs at least one edge"),
        (lambda: fw.FlowPolytope.from_networkx(roads(), {("home", "moon"): 1.0}), "a node of demand='moon' is not"),
        (lambda: fw.FlowPolytope.from_networkx(roads(), {"home": 1.0}), "keys of demand must be pairs"),
        (
            lambda: fw.FlowPolytope.from_networkx(roads(), {("office", "home"): 1.0}),
            "from node 'office' to node 'home'",
        ),
        (lambda: fw.FlowPolytope.from_networkx(roads(), np.zeros((2, 2))), r"demand has shape \(2, 2\)"),
        (lambda: fw.FlowPolytope.from_networkx(roads(), {("home", "office"): np.nan}), "demand must be finite"),
        (
            lambda: fw.FlowPolytope.from_networkx(roads(), {("home", "office"): 1.0}).lmo(-np.ones(6)),
            "link 0 from node 'home' to node 'station' costs -1",
        ),
        (lambda: fw.SpanningTree.from_networkx(LONELY.subgraph("abc")).by_edge([1.0]), "x has 1 entries; the graph"),
        (lambda: fw.SpanningTree([0], [1]).to_array({(0, 2): 1.0}), r"values has the edge \(0, 2\), which is not"),
        (lambda: fw.SpanningTree([0, 1], [1, 2]).to_array({(0, 1): 1.0}), r"no number for the edge \(1, 2\)"),
        (lambda: fw.minimize(fw.Quadratic(np.eye(2)), LONELY), r"got Graph\. Sets of subgraphs come from"),
    ],
)
def test_errors_use_the_names_of_the_user(call, message):
    with pytest.raises(ValueError, match=message):
        call()
