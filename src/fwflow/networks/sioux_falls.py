"""Sioux Falls, a small test network for methods of traffic assignment.

LeBlanc, Morlok, Pierskalla, "An efficient approach to solving the road network equilibrium traffic assignment problem",
Transportation Research 9 (1975), 309-318, in the units of Bar-Gera's Transportation Network Test Problems.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from fwflow.networks.network import Network
from fwflow.networks.tntp import read_tntp

#: Longitude and latitude of the nodes.
_NODES = """
-96.77042 43.61283   -96.71125 43.60581   -96.77430 43.57296   -96.74717 43.56365
-96.73157 43.56403   -96.71164 43.58759   -96.69342 43.56384   -96.71138 43.56232
-96.73124 43.54860   -96.73144 43.54527   -96.74684 43.54413   -96.78014 43.54394
-96.79338 43.49071   -96.75104 43.52931   -96.73150 43.52940   -96.71138 43.54674
-96.71138 43.54128   -96.69408 43.54674   -96.71132 43.52959   -96.71119 43.51533
-96.73098 43.51049   -96.73124 43.51486   -96.75090 43.51486   -96.74920 43.50316
"""


def sioux_falls() -> Network:
    """Return the network of Sioux Falls, South Dakota: 24 zones, 76 links and 360600 trips, with coordinates.

    It is a test problem, not a model of the city. The objective at the equilibrium is 4231335.28710744. In other units
    it is printed as 42.3133528710744.

    Examples
    --------
    >>> import fwflow as fw
    >>> network = fw.networks.sioux_falls()
    >>> network
    Network(76 links, 24 nodes, 24 zones)
    >>> fw.minimize(network.objective, network.flows, tol=1.0).success
    True
    """
    net, trips = (Path(__file__).with_name(f"sioux_falls_{part}.tntp") for part in ("net", "trips"))
    coordinates = np.array(_NODES.split(), dtype=np.float64).reshape(-1, 2)
    return replace(read_tntp(net, trips), coordinates=coordinates)
