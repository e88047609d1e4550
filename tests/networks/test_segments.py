"""Pairs of alternative segments: their directions keep the balance of every origin, and runs with them are exact."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import fwflow as fw
from fwflow.methods import active
from fwflow.methods.active import Corrective, ExchangeMemory
from fwflow.networks import road_grid, sioux_falls
from fwflow.networks.segments import SegmentExchange, Segments

NEVER = bool  # bool() is False: there is no time limit


def incidence(C):
    links = np.arange(len(C.tails))
    entries = (np.append(-np.ones(len(links)), np.ones(len(links))), (np.append(C.tails, C.heads), np.tile(links, 2)))
    return sp.csr_array(entries, (C.n_nodes, len(links)))


def first_exchange(network):
    C, f = network.flows, network.objective
    parts = C.trees(np.ones(C.shape))
    return parts, C.exchange(parts, None, C.lmo(f.cost(C.start())), NEVER)


NETWORKS = {"sioux": sioux_falls, "grid": lambda: road_grid(6, 5, 10), "closed": lambda: road_grid(4, 4, 12, 2.0, 3)}


@pytest.mark.parametrize("name", NETWORKS)
def test_shifts_keep_flows_feasible_by_origin(name):
    network = NETWORKS[name]()
    C = network.flows
    parts, work = first_exchange(network)
    balance = incidence(C)
    assert np.abs(work.directions @ balance.T).max() == 0
    lower, upper = work.ranges()
    assert (lower <= 0).all()
    assert (upper > 0).all()  # every pair was found by following flow
    x = work.moved(upper, NEVER)
    moved = work.parts()
    assert moved.data.min() >= 0
    np.testing.assert_allclose((moved @ balance.T).toarray(), (parts @ balance.T).toarray(), atol=1e-8)
    np.testing.assert_allclose(moved.sum(axis=0), x)
    assert C.contains(x) is not False
    np.testing.assert_allclose(work.shortened(0.0), parts.sum(axis=0))


def test_a_shift_within_its_range_is_complete():
    _, work = first_exchange(sioux_falls())
    _, upper = work.ranges()
    start = work.parts().sum(axis=0)
    for i in range(len(upper)):
        amounts = np.zeros(len(upper))
        amounts[i] = 0.25 * upper[i]
        x = work.moved(amounts, NEVER)
        np.testing.assert_allclose(x - start, amounts @ work.directions, atol=1e-8)
        work.shortened(0.0)


def test_no_shift_after_the_time_limit():
    _, work = first_exchange(sioux_falls())
    start = work.parts().sum(axis=0)
    np.testing.assert_array_equal(work.moved(work.ranges()[1], lambda: True), start)


def test_pairs_lead_to_the_cheapest_paths():
    network = road_grid(6, 5, 10)
    _, work = first_exchange(network)
    costs = network.objective.cost(network.flows.start())
    assert (work.directions @ costs < 0).all()


def test_a_cycle_of_flow_is_removed():
    # Trips from 0 to 3 pass through 1. The flow also runs round 1 -> 2 -> 1.
    tails, heads = [0, 1, 2, 1, 3, 2], [1, 2, 1, 3, 0, 3]
    C = fw.FlowPolytope(tails, heads, [[0, 0, 0, 4], [0] * 4, [0] * 4, [1, 0, 0, 0]])
    parts = sp.csr_array([[4.0, 9.0, 9.0, 4.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]])
    work = C.exchange(parts, None, C.lmo(np.ones(6)), NEVER)
    work.moved(work.ranges()[1], NEVER)
    np.testing.assert_array_equal(work.parts().toarray()[0], [4.0, 0.0, 0.0, 4.0, 0.0, 0.0])


def test_flow_on_links_that_no_path_uses_stays():
    C = fw.FlowPolytope([0, 1, 2, 1, 3], [1, 2, 1, 3, 0], [[0, 0, 0, 4], [0] * 4, [0] * 4, [1, 0, 0, 0]])
    parts = sp.csr_array([[4.0, 9.0, 9.0, 4.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]])
    assert C.exchange(parts, None, C.lmo(np.ones(5)), NEVER) is None


def test_no_pairs_at_the_cheapest_paths():
    C = sioux_falls().flows
    costs = np.ones(C.shape)
    assert C.exchange(C.trees(costs), None, C.lmo(costs), NEVER) is None


def test_parts_of_another_set_are_not_exchanged():
    C = sioux_falls().flows
    assert C.exchange(sp.csr_array(np.ones((2, 76))), None, C.lmo(np.ones(76)), NEVER) is None
    assert C.exchange(C.trees(np.ones(76)), None, fw.DenseVertex(C.start()), NEVER) is None


def test_pairs_can_be_chosen_joined_and_named():
    pairs = np.array([1, 0, 0, 1, 0])
    links = np.array([7, 3, 4, 8, 5])
    second = np.array([1, 0, 1, 0, 0])
    found = Segments.of(pairs, links, second)
    assert [own.tolist() for own in found.sides()[0]] == [[3, 5], [8]]
    assert [own.tolist() for own in found.sides()[1]] == [[4], [7]]
    assert found.chosen(np.array([False, True])).links.tolist() == [8, 7]
    twice = found.joined(found)
    assert len(twice) == 4
    assert twice.fit
    name = 2 ** np.arange(10)
    reversed_pair = Segments.of(pairs, links, 1 - second)
    np.testing.assert_array_equal(found.names(name), reversed_pair.names(name))
    assert not Segments(np.array([0, 2]), np.array([3]), np.array([1, 2])).fit


@pytest.mark.parametrize("name", NETWORKS)
def test_the_equilibrium_is_that_of_runs_with_vertices(name, monkeypatch):
    network = NETWORKS[name]()
    f, C = network.objective, network.flows
    tol = 1e-8 * f.value(fw.Point(C.start()))
    with_pairs = fw.minimize(f, C, method="corrective", tol=tol)
    assert isinstance(with_pairs.state.memory, ExchangeMemory)
    assert isinstance(with_pairs.state.memory.found, Segments)
    monkeypatch.setattr(active, "_VERTICES_FIRST", np.inf)
    with_trees = fw.minimize(f, C, method="corrective", tol=tol)
    assert with_pairs.success
    assert with_trees.success
    assert with_pairs.fun == pytest.approx(with_trees.fun, abs=2 * tol)
    np.testing.assert_allclose(np.asarray(with_pairs.active_set), with_pairs.x, rtol=1e-12)


def test_pairs_that_do_not_help_give_way_to_vertices(monkeypatch):
    network = sioux_falls()
    f, C = network.objective, network.flows
    monkeypatch.setattr(SegmentExchange, "moved", lambda self, amounts, late: np.asarray(self._flows.sum(axis=1)))
    r = fw.minimize(f, C, method="corrective", tol=1.0, max_iter=60)
    assert r.success


def test_a_run_can_be_stored_and_continued_among_its_pairs(tmp_path):
    network = sioux_falls()
    f, C = network.objective, network.flows
    whole = fw.minimize(f, C, method="corrective", tol=0, max_iter=12)
    fw.minimize(f, C, method="corrective", tol=0, max_iter=9).state.save(tmp_path / "state")
    state = fw.State.load(tmp_path / "state")
    assert len(state.memory.found) > 0
    rest = fw.minimize(f, C, method="corrective", tol=0, max_iter=3, state=state)
    np.testing.assert_array_equal(rest.x, whole.x)


def test_a_run_starts_from_the_flows_of_another_run():
    network = sioux_falls()
    f, C = network.objective, network.flows
    first = fw.minimize(f, C, method="corrective", tol=1.0)
    again = fw.minimize(f, C, first.active_set, method="corrective", tol=1.0)
    assert again.success
    assert again.nit == 0


def test_objectives_without_curvature_by_link_use_vertices():
    C = sioux_falls().flows
    f = fw.LinearModel(np.eye(76), np.asarray(C.start()) / 2)
    assert not isinstance(Corrective().init(problem(f, C), f.point(C.start())), ExchangeMemory)


def problem(f, C):
    return fw.methods.problem.Problem(f, C, fw.designs.Counts())


def test_costs_without_slope():
    network = road_grid(4, 4, 6)
    links = network.links
    f = fw.Beckmann(links.free_flow, np.zeros(len(links)))
    r = fw.minimize(f, network.flows, method="corrective")
    assert r.success
    assert r.fun == pytest.approx(network.flows.lmo(links.free_flow).dot(links.free_flow))


def test_values_do_not_increase():
    network = road_grid(6, 5, 10, congestion=2.0)
    values = []
    fw.minimize(
        network.objective,
        network.flows,
        method="corrective",
        tol=0,
        max_iter=15,
        callback=lambda state: values.append(state.fun),
    )
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(values))
