"""Road networks: a table of links, a matrix of demand, and their traffic-assignment problem."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

from fwflow._validation import Array
from fwflow.networks.costs import Beckmann
from fwflow.networks.flows import FlowPolytope


@dataclass(frozen=True, eq=False)
class Links:
    """Links of a network, an array for each column of the table; nodes are counted from 0."""

    tail: Array
    head: Array
    capacity: Array
    length: Array
    free_flow: Array
    b: Array
    power: Array
    speed: Array
    toll: Array
    type: Array

    def __len__(self) -> int:
        return len(self.tail)

    def __repr__(self) -> str:
        return f"Links({len(self)} links; {', '.join(field.name for field in fields(self))})"


@dataclass(frozen=True, eq=False)
class Network:
    """Traffic-assignment problem. ``fw.minimize(network.objective, network.flows)`` finds the equilibrium.

    Attributes
    ----------
    links : Links
    demand : (n_zones, n_zones) array
        Trips between the zones, which are the first nodes.
    n_nodes, first_through : int
        As in `fwflow.FlowPolytope`.
    toll_weight, distance_weight : float
        Costs of a unit of toll and of a unit of length, in units of time.
    coordinates : (n_nodes, 2) array, optional
        Positions of the nodes, for a map.
    """

    links: Links
    demand: Array
    n_nodes: int
    first_through: int = 0
    toll_weight: float = 0.0
    distance_weight: float = 0.0
    coordinates: Array | None = None

    def __repr__(self) -> str:
        return f"Network({len(self.links)} links, {self.n_nodes} nodes, {len(self.demand)} zones)"

    @cached_property
    def objective(self) -> Beckmann:
        """Function that flows in equilibrium minimise."""
        links = self.links
        fixed = self.toll_weight * links.toll + self.distance_weight * links.length
        return Beckmann(links.free_flow, links.capacity, links.b, links.power, fixed=fixed)

    @cached_property
    def flows(self) -> FlowPolytope:
        """Set of the flows that serve the demand."""
        return FlowPolytope(self.links.tail, self.links.head, self.demand, self.n_nodes, self.first_through)
