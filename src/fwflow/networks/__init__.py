"""Traffic assignment: flows that serve trips, the function that they minimise, and networks from files."""

from fwflow.networks.costs import Beckmann, LinkCosts
from fwflow.networks.flows import FlowPolytope
from fwflow.networks.grids import road_grid
from fwflow.networks.network import Links, Network, read_tntp, sioux_falls

__all__ = ["Beckmann", "FlowPolytope", "LinkCosts", "Links", "Network", "read_tntp", "road_grid", "sioux_falls"]
