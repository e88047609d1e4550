"""Flows that serve trips: the oracle against HiGHS on random networks, its trees, members, and what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import fwflow as fw
from fwflow.networks import trees


def random_network(rng):
    """Few nodes: parallel links, loops, closed zones, nodes without links and trips that cannot be served abound."""
    n = int(rng.integers(2, 9))
    zones = int(rng.integers(1, n + 1))
    tails, heads = rng.integers(0, n, (2, int(rng.integers(n, 4 * n))))
    demand = rng.integers(0, 4, (zones, zones)) * (rng.random((zones, zones)) < 0.4)
    return tails, heads, demand, n, int(rng.integers(0, zones + 1))


def by_highs(tails, heads, demand, n, first_through, origin, costs):
    """The least cost of the trips from one origin, whose closed zones have another node for what leaves; or None."""
    wanted, start = np.zeros(2 * n), origin + n if origin < first_through else origin
    wanted[: len(demand)] = demand[origin]
    wanted[origin] = 0
    wanted[start] -= wanted.sum()
    links = np.arange(len(tails))
    rows = np.concatenate([heads, np.where(tails < first_through, tails + n, tails)])
    ends = sp.csr_array((np.repeat([1.0, -1.0], len(links)), (rows, np.tile(links, 2))), (2 * n, len(links)))
    answer = linprog(costs, A_eq=ends, b_eq=wanted)
    return answer.fun if answer.status == 0 else None


def random_costs(rng, m):
    return [rng.random(m), rng.integers(0, 3, m).astype(float), np.zeros(m)][int(rng.integers(3))]


def solvable(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    try:
        return rng, network, fw.FlowPolytope(*network)
    except ValueError:  # what is refused, and nothing else, is the subject of a test of its own
        assume(False)


@given(seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=200, derandomize=True)
def test_oracle_agrees_with_highs_origin_by_origin(seed):
    rng, network, C = solvable(seed)
    costs = random_costs(rng, len(network[0]))
    by_origin = C.trees(costs)
    assert isinstance(by_origin, sp.csr_array)
    assert by_origin.shape == (len(C.origins), len(costs))
    assert (by_origin.data > 0).all()
    np.testing.assert_allclose(by_origin.sum(axis=0), np.asarray(C.lmo(costs)), rtol=1e-12)
    least = [by_highs(*network, origin, costs) for origin in C.origins.tolist()]
    np.testing.assert_allclose(by_origin @ costs, least, atol=1e-8)


@given(seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_trips_that_cannot_be_served_are_refused_and_no_others(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    tails, heads, demand, n, first_through = network
    served = True
    for a, b in np.argwhere(demand).tolist():
        alone = np.zeros_like(demand)
        alone[a, b] = 1
        if a != b and by_highs(tails, heads, alone, n, first_through, a, np.ones(len(tails))) is None:
            served = False
            with pytest.raises(ValueError, match=rf"demand\[{a}, {b}\] is 1, but no path leads from node {a} to"):
                fw.FlowPolytope(tails, heads, alone, n, first_through)
    if served:
        fw.FlowPolytope(*network)
    else:
        with pytest.raises(ValueError, match="no path leads"):
            fw.FlowPolytope(*network)


@given(seed=st.integers(0, 10**9))
@settings(deadline=None, max_examples=30, derandomize=True)
def test_membership(seed):
    rng, network, C = solvable(seed)
    m = len(network[0])
    vertices = np.array([np.asarray(C.lmo(random_costs(rng, m))) for _ in range(3)])
    assert C.contains(C.start()) is True
    for x in (*vertices, rng.dirichlet(np.ones(3)) @ vertices):
        assert C.contains(x) is True
        assert np.linalg.norm(x - C.start()) <= C.diameter() * (1 + 1e-12)
    out_of_balance = vertices[0].copy()
    out_of_balance[np.flatnonzero(C.tails != C.heads)[:1]] += 1e-3
    if (C.tails != C.heads).any():
        assert C.contains(out_of_balance) is False
    assert C.contains(vertices[0] - 1e-3) is False
    assert C.contains(np.full(m, np.nan)) is False


def test_balance_at_every_node_is_not_enough():
    """Two pairs of zones trade their destinations: the sum is balanced, and no trip is where it wants to be."""
    tails, heads = [0, 1, 0, 1], [2, 3, 3, 2]
    C = fw.FlowPolytope(tails, heads, [[0, 0, 1, 0], [0, 0, 0, 1], [0] * 4, [0] * 4])
    assert C.contains([1.0, 1.0, 0.0, 0.0]) is True
    assert C.contains([0.0, 0.0, 1.0, 1.0]) is False


def test_flows_through_a_closed_zone_are_no_members():
    network = [0, 1, 0], [1, 2, 2], [[0, 0, 1], [0, 0, 0], [0, 0, 0]]
    through, direct = [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]
    assert fw.FlowPolytope(*network).contains(through) is True
    closed = fw.FlowPolytope(*network, first_through=3)
    assert closed.contains(through) is False
    assert closed.contains(direct) is True
    np.testing.assert_array_equal(closed.lmo(np.array([1.0, 1.0, 9.0])), direct)


def test_cycles_are_members():
    C = fw.FlowPolytope([0, 1, 1], [1, 0, 1], [[0, 1], [0, 0]])
    assert C.contains([1.0, 0.0, 0.0]) is True
    assert C.contains([3.0, 2.0, 5.0]) is True


def test_beyond_what_can_be_told_only_the_balance_is_looked_at(monkeypatch):
    monkeypatch.setattr("fwflow.networks.flows._VARIABLES", 0)
    C = fw.FlowPolytope([0, 1, 0], [1, 2, 2], [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert C.contains([0.0, 0.0, 1.0]) is None
    assert C.contains([0.0, 1.0, 1.0]) is False


@pytest.mark.parametrize("at_once", [1, 50, 10**6])
def test_how_many_trees_are_grown_together_does_not_matter(monkeypatch, at_once):
    network = fw.networks.sioux_falls()
    costs = np.random.default_rng(0).random(76)
    expected = network.flows.trees(costs).toarray()
    monkeypatch.setattr(trees, "_AT_ONCE", at_once)
    np.testing.assert_allclose(network.flows.trees(costs).toarray(), expected, rtol=1e-13)


def test_long_trees_are_loaded_whole():
    """A road of a thousand nodes, on which every node goes to the last."""
    n = 1000
    demand = np.zeros((n, n))
    demand[:-1, -1] = 1
    C = fw.FlowPolytope(np.arange(n - 1), np.arange(1, n), sp.csr_array(demand))
    np.testing.assert_array_equal(C.lmo(np.zeros(n - 1)), np.arange(1.0, n))


def test_of_parallel_links_the_cheapest_is_used_and_of_equals_the_first():
    C = fw.FlowPolytope([0, 0, 0, 1], [1, 1, 1, 2], [[0, 0, 2], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(C.lmo(np.array([2.0, 1.0, 1.0, 0.0])), [0, 2, 0, 2])
    np.testing.assert_array_equal(C.lmo(np.array([1.0, 1.0, 0.0, 1.0])), [0, 0, 2, 2])


def test_trips_within_a_zone_and_no_trips_at_all_use_no_links():
    for demand in ([[7.0, 0.0], [0.0, 3.0]], np.zeros((2, 2))):
        C = fw.FlowPolytope([0, 1], [1, 0], demand)
        assert not np.asarray(C.lmo(np.ones(2))).any()
        assert C.trees(np.ones(2)).shape == (0, 2)
        assert C.contains([0.0, 0.0]) is True
        assert C.contains([1.0, 0.0]) is False


def test_costs_near_the_largest_number_do_not_overflow():
    C = fw.FlowPolytope([0, 1, 0, 3], [1, 2, 3, 2], [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(C.lmo(np.array([1.7e308, 1.7e308, 1.7e308, 1.6e308])), [0, 0, 1, 1])


def test_the_type_of_the_gradient_is_kept_and_the_matrix_may_be_sparse():
    demand = np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    dense, sparse = (fw.FlowPolytope([0, 1, 0], [1, 2, 2], kind(demand)) for kind in (np.array, sp.csr_array))
    assert np.asarray(dense.lmo(np.ones(3, np.float32)).array).dtype == np.float32
    assert dense.start(dtype=np.float32).dtype == np.float32
    assert dense.fingerprint() == sparse.fingerprint()
    assert dense.fingerprint() != fw.FlowPolytope([0, 1, 0], [1, 2, 2], demand, first_through=1).fingerprint()
    demand[0, 2] = 5
    assert dense.demand[0, 2] == 1


LINE = [0, 1], [1, 2]
NONE = np.zeros((3, 3))
BAD = {
    "tails must be nodes, counted from 0; tails\\[1\\] is -1": ([0, -1], [1, 2], NONE),
    "heads must be nodes, counted from 0; heads\\[0\\] is 1.5": ([0, 1], [1.5, 2], NONE),
    "tails and heads must have an entry for every link.*got 2 and 1": ([0, 1], [1], NONE),
    "tails and heads must have an entry for every link.*got 0 and 0": ([], [], NONE),
    "demand must be square.*its shape is \\(2, 3\\)": (*LINE, np.zeros((2, 3))),
    "demand must have 2 dimension": (*LINE, np.zeros(3)),
    "demand must not be negative; demand\\[0, 2\\] is -1": (*LINE, [[0, 0, -1.0], [0, 0, 0], [0, 0, 0]]),
    "demand must be finite; demand\\[0, 1\\] is nan": (*LINE, [[0, np.nan], [0, 0]]),
    "demand must be finite": (*LINE, sp.csr_array(np.array([[0, np.inf], [0, 0]]))),
    "demand\\[2, 0\\] is 4, but no path leads from node 2 to node 0": (*LINE, [[0, 0, 0], [0, 0, 0], [4, 0, 0]]),
    "n_nodes is 2, but a link has node 2 and there are 3 zones": (*LINE, NONE, 2),
    "n_nodes must be an integer": (*LINE, NONE, 2.5),
    "first_through must be an integer of at least 0": (*LINE, NONE, None, -1),
}


@pytest.mark.parametrize("message", BAD)
def test_what_makes_no_network_is_refused(message):
    with pytest.raises(ValueError, match=message):
        fw.FlowPolytope(*BAD[message])


@pytest.mark.parametrize(
    ("costs", "message"),
    [
        ([1.0, -0.25], "costs must not be negative; link 1 from node 1 to node 2 costs -0.25"),
        ([1.0, np.nan], r"costs must be finite; costs\[1\] is nan"),
        ([np.inf, 1.0], r"costs must be finite; costs\[0\] is inf"),
        ([1.0], "costs has 1 entries; there are 2 links"),
    ],
)
def test_costs_for_which_there_is_no_cheapest_path_are_refused(costs, message):
    C = fw.FlowPolytope(*LINE, [[0, 0, 1], [0, 0, 0], [0, 0, 0]])
    for ask in (C.trees, C.lmo):
        with pytest.raises(ValueError, match=message):
            ask(np.array(costs))


def test_x_of_another_shape_is_refused():
    with pytest.raises(ValueError, match=r"x has shape \(3,\)"):
        fw.FlowPolytope(*LINE, NONE).contains(np.zeros(3))


@pytest.mark.parametrize("method", ["fw", "blended-pairwise", "corrective"])
def test_a_run_on_a_network_can_be_stored_and_continued(tmp_path, method):
    network = fw.networks.sioux_falls()
    f, C = network.objective, network.flows
    whole = fw.minimize(f, C, method=method, tol=0, max_iter=12)
    fw.minimize(f, C, method=method, tol=0, max_iter=5).state.save(tmp_path / "state")
    state = fw.State.load(tmp_path / "state")
    np.testing.assert_array_equal(fw.minimize(f, C, method=method, tol=0, max_iter=7, state=state).x, whole.x)
    other = fw.FlowPolytope(C.tails, C.heads, 2 * C.demand)
    with pytest.raises(ValueError, match="another problem: its set was FlowPolytope"):
        fw.minimize(f, other, method=method, state=fw.State.load(tmp_path / "state"))


def test_the_latest_vertex_is_split_without_another_search_of_paths(monkeypatch):
    searched, loaded = [], trees.Trees.loaded
    monkeypatch.setattr(trees.Trees, "loaded", lambda self, costs: searched.append(1) or loaded(self, costs))
    C = fw.FlowPolytope(tails=[0, 1, 0], heads=[1, 2, 2], demand=[[0, 0, 5], [0, 0, 1], [0, 0, 0]])
    older, latest = C.lmo(np.array([1.0, 1.0, 3.0])), C.lmo(np.array([1.0, 2.5, 3.0]))
    for vertex, searches in ((latest, 0), (older, 1), (latest, 0)):
        searched.clear()
        parts = C.summands.split_vertex(vertex)
        assert len(searched) == searches
        np.testing.assert_array_equal(sum(np.asarray(part) for part in parts), np.asarray(vertex))
