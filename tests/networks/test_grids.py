"""Generated road networks: their sizes, seeds, connections and congestion."""

import numpy as np
import pytest

import fwflow as fw
from fwflow.networks import road_grid


@pytest.mark.parametrize(("rows", "columns", "zones"), [(2, 2, 2), (3, 7, 5), (26, 21, 387)])
def test_sizes(rows, columns, zones):
    network = road_grid(rows, columns, zones)
    roads = 2 * (rows * (columns - 1) + columns * (rows - 1))
    assert len(network.links) == roads + 2 * zones
    assert network.n_nodes == rows * columns + zones == len(network.coordinates)
    assert network.demand.shape == (zones, zones)
    assert (network.demand.diagonal() == 0).all()
    assert ((network.demand > 0) | np.eye(zones, dtype=bool)).all()
    ends = set(zip(network.links.tail.tolist(), network.links.head.tolist(), strict=True))
    assert len(ends) == len(network.links)
    assert {(b, a) for a, b in ends} == ends


def test_a_network_is_determined_by_its_seed():
    one, same, other = road_grid(4, 4, 5, seed=1), road_grid(4, 4, 5, seed=1), road_grid(4, 4, 5, seed=2)
    np.testing.assert_array_equal(one.demand, same.demand)
    np.testing.assert_array_equal(one.links.free_flow, same.links.free_flow)
    assert not np.array_equal(one.links.free_flow, other.links.free_flow)


def test_congestion_is_the_use_of_capacity_on_the_fastest_paths():
    for congestion in (0.1, 0.5, 2.0):
        network = road_grid(5, 5, 10, congestion)
        links, x = network.links, np.asarray(network.flows.lmo(network.links.free_flow))
        roads = links.capacity > 0
        use = x[roads] @ links.length[roads] / (links.capacity @ links.length)
        assert use == pytest.approx(congestion)


def test_trips_do_not_pass_through_zones():
    network = road_grid(3, 3, 6)
    assert network.first_through == 6
    x = np.asarray(network.flows.lmo(np.where(network.links.capacity > 0, 100.0, 0.0)))
    into = np.bincount(network.links.head, x, network.n_nodes)[:6]
    np.testing.assert_allclose(into, network.demand.sum(axis=0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1, 5, 5), "rows must be"),
        ((5, 1.5, 5), "columns must be"),
        ((5, 5, 1), "zones must be"),
        ((5, 5, 5, 0.0), "congestion must be positive and finite"),
        ((5, 5, 5, np.inf), "congestion must be positive and finite"),
    ],
)
def test_what_makes_no_network_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        road_grid(*arguments)


def test_the_equilibrium_is_found():
    network = road_grid(6, 6, 12)
    x = network.flows.start()
    tol = 1e-9 * float(x @ network.objective.cost(x))
    r = fw.minimize(network.objective, network.flows, tol=tol)
    assert r.success
    assert network.flows.contains(r.x) is not False
