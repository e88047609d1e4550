"""Generated road networks: a grid of junctions with arterial roads, and zones whose trips follow a gravity model."""

from __future__ import annotations

import numpy as np

from fwflow._numerics import dot
from fwflow._validation import Array, number, whole
from fwflow.networks.flows import FlowPolytope
from fwflow.networks.network import Links, Network

# Every fourth row and column is an arterial road. Speeds in units of length per minute, and capacities in trips, of
# streets and arterial roads. Junctions are one unit of length apart. The values are typical of suburbs, with a unit of
# length of about half a kilometre.
_ARTERIAL = 4
_SPEED, _CAPACITY = (1.0, 2.0), (900.0, 2400.0)
# Distance at which the number of trips has fallen by the factor e, as a share of the width of the grid.
_NEARBY = 0.25


def road_grid(rows: int, columns: int, zones: int, congestion: float = 0.5, seed: int = 0) -> Network:
    """Return a generated network: a grid of two-way roads, with zones that are connected to the nearest junction.

    Positions, capacities and free-flow times vary at random. Link costs are BPR functions with b = 0.15 and power 4.
    Connectors between zones and junctions have constant costs, and no trip passes through a zone. Trips follow a
    gravity model: a pair of zones has more trips the larger the zones are and the closer they lie.

    Parameters
    ----------
    rows, columns : int
        Numbers of rows and columns of junctions.
    zones : int
        Number of zones, at least two.
    congestion : float
        Demand: the total length of the trips on the shortest paths, divided by the total length of the roads weighted
        with their capacities; 0.5 by default. In equilibrium at 0.5, most roads in the centre carry more than their
        capacity.
    seed : int
        Seed of the random numbers; 0 by default.

    Returns
    -------
    Network

    See Also
    --------
    sioux_falls : A test problem of the literature.
    read_tntp : Networks in files.

    Examples
    --------
    >>> import fwflow as fw
    >>> network = fw.networks.road_grid(5, 6, zones=8)
    >>> network
    Network(114 links, 38 nodes, 8 zones)
    >>> fw.minimize(network.objective, network.flows, tol=1.0).success
    True
    """
    rows, columns, zones = whole(rows, "rows", 2), whole(columns, "columns", 2), whole(zones, "zones", 2)
    congestion = number(congestion, "congestion", "be positive and finite", lambda share: 0 < share < np.inf)
    random = np.random.default_rng(seed)
    size = np.array([columns, rows], dtype=float)
    column, row = np.meshgrid(np.arange(columns), np.arange(rows))
    junctions = np.stack([column.ravel(), row.ravel()], axis=1) + random.uniform(-0.3, 0.3, (rows * columns, 2))
    centres = random.uniform(0.0, 1.0, (zones, 2)) * (size - 1)
    places = np.concatenate([centres, junctions])

    number_of = zones + np.arange(rows * columns).reshape(rows, columns)
    across = np.stack([number_of[:, :-1].ravel(), number_of[:, 1:].ravel()])
    up = np.stack([number_of[:-1].ravel(), number_of[1:].ravel()])
    main = np.concatenate([row[:, 1:].ravel() % _ARTERIAL == 0, column[1:].ravel() % _ARTERIAL == 0])
    roads = np.concatenate([across, up], axis=1)
    nearest = np.rint(centres).astype(np.int64)
    connectors = np.stack([np.arange(zones), number_of[nearest[:, 1], nearest[:, 0]]])

    ends = np.concatenate([roads, connectors], axis=1)
    tail, head = np.concatenate([ends, ends[::-1]], axis=1)
    kind = np.tile(np.append(np.where(main, 1, 0), np.full(zones, 2)), 2)
    length = np.maximum(np.hypot(*(places[tail] - places[head]).T), 0.1)
    road = kind < 2
    fast = kind == 1
    speed = np.where(fast, _SPEED[1], _SPEED[0]) * random.uniform(0.8, 1.2, len(kind))
    capacity = np.where(fast, _CAPACITY[1], _CAPACITY[0]) * random.uniform(0.7, 1.3, len(kind))
    capacity = np.where(road, capacity, 0.0)
    links = Links(
        tail, head, capacity, length, length / speed, np.where(road, 0.15, 0.0), np.full(len(kind), 4.0), speed,
        np.zeros(len(kind)), kind,
    )  # fmt: skip
    demand = _gravity(random, centres, _NEARBY * float(size.max()))
    n_nodes = len(places)
    trips = FlowPolytope(tail, head, demand, n_nodes, zones).lmo(links.free_flow)
    demand *= congestion * float(dot(capacity, length)) / float(dot(np.asarray(trips)[road], length[road]))
    return Network(links, demand, n_nodes, zones, coordinates=places)


def _gravity(random: np.random.Generator, centres: Array, nearby: float) -> Array:
    """Return trips between zones, up to a factor."""
    leaving, arriving = np.exp(0.7 * random.standard_normal((2, len(centres))))
    apart = np.hypot(*(centres[:, None] - centres[None]).transpose(2, 0, 1))
    trips = np.outer(leaving, arriving) * np.exp(-apart / nearby)
    np.fill_diagonal(trips, 0.0)
    return trips
