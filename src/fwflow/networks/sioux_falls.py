"""Sioux Falls, a small test network for methods of traffic assignment.

LeBlanc, Morlok, Pierskalla, "An efficient approach to solving the road network equilibrium traffic assignment problem",
Transportation Research 9 (1975), 309-318, in the units of Bar-Gera's Transportation Network Test Problems.
"""

from __future__ import annotations

import numpy as np

from fwflow._validation import Array
from fwflow.networks.network import Links, Network

#: Two roads per line: nodes, counted from 1, capacity, and free-flow time, which is also the length. Both directions
#: of a road are equal.
_ROADS = """
 1  2  25900.20064  6    1  3  23403.47319  4
 2  6  4958.180928  5    3  4  17110.52372  4
 3 12  23403.47319  4    4  5   17782.7941  2
 4 11   4908.82673  6    5  6  4947.995469  4
 5  9        10000  5    6  8  4898.587646  2
 7  8   7841.81131  3    7 18  23403.47319  2
 8  9  5050.193156 10    8 16  5045.822583  5
 9 10  13915.78842  3   10 11        10000  5
10 15  13512.00155  6   10 16  4854.917717  4
10 17  4993.510694  8   11 12   4908.82673  6
11 14  4876.508287  4   12 13  25900.20064  3
13 24  5091.256152  4   14 15  5127.526119  5
14 23  4924.790605  4   15 19  14564.75315  3
15 22  9599.180565  3   16 17  5229.910063  2
16 18  19679.89671  3   17 19  4823.950831  2
18 20  23403.47319  4   19 20  5002.607563  4
20 21   5059.91234  6   20 22  5075.697193  5
21 22  5229.910063  2   21 24  4885.357564  3
22 23         5000  4   23 24  5078.508436  2
"""

#: Trips from the node of a row to the node of a column, in hundreds.
_TRIPS = """
 0  1  1  5  2  3  5  8  5 13  5  2  5  3  5  5  4  1  3  3  1  4  3  1
 1  0  1  2  1  4  2  4  2  6  2  1  3  1  1  4  2  0  1  1  0  1  0  0
 1  1  0  2  1  3  1  2  1  3  3  2  1  1  1  2  1  0  0  0  0  1  1  0
 5  2  2  0  5  4  4  7  7 12 14  6  6  5  5  8  5  1  2  3  2  4  5  2
 2  1  1  5  0  2  2  5  8 10  5  2  2  1  2  5  2  0  1  1  1  2  1  0
 3  4  3  4  2  0  4  8  4  8  4  2  2  1  2  9  5  1  2  3  1  2  1  1
 5  2  1  4  2  4  0 10  6 19  5  7  4  2  5 14 10  2  4  5  2  5  2  1
 8  4  2  7  5  8 10  0  8 16  8  6  6  4  6 22 14  3  7  9  4  5  3  2
 5  2  1  7  8  4  6  8  0 28 14  6  6  6  9 14  9  2  4  6  3  7  5  2
13  6  3 12 10  8 19 16 28  0 40 20 19 21 40 44 39  7 18 25 12 26 18  8
 5  2  3 15  5  4  5  8 14 39  0 14 10 16 14 14 10  1  4  6  4 11 13  6
 2  1  2  6  2  2  7  6  6 20 14  0 13  7  7  7  6  2  3  4  3  7  7  5
 5  3  1  6  2  2  4  6  6 19 10 13  0  6  7  6  5  1  3  6  6 13  8  8
 3  1  1  5  1  1  2  4  6 21 16  7  6  0 13  7  7  1  3  5  4 12 11  4
 5  1  1  5  2  2  5  6 10 40 14  7  7 13  0 12 15  2  8 11  8 26 10  4
 5  4  2  8  5  9 14 22 14 44 14  7  6  7 12  0 28  5 13 16  6 12  5  3
 4  2  1  5  2  5 10 14  9 39 10  6  5  7 15 28  0  6 17 17  6 17  6  3
 1  0  0  1  0  1  2  3  2  7  2  2  1  1  2  5  6  0  3  4  1  3  1  0
 3  1  0  2  1  2  4  7  4 18  4  3  3  3  8 13 17  3  0 12  4 12  3  1
 3  1  0  3  1  3  5  9  6 25  6  5  6  5 11 16 17  4 12  0 12 24  7  4
 1  0  0  2  1  1  2  4  3 12  4  3  6  4  8  6  6  1  4 12  0 18  7  5
 4  1  1  4  2  2  5  5  7 26 11  7 13 12 26 12 17  3 12 24 18  0 21 11
 3  0  1  5  1  1  2  3  5 18 13  7  8 11 10  5  6  1  3  7  7 21  0  7
 1  0  0  2  0  1  1  2  2  8  6  5  7  4  4  3  3  0  1  4  5 11  7  0
"""

#: Longitude and latitude of the nodes.
_NODES = """
-96.77042 43.61283   -96.71125 43.60581   -96.77430 43.57296   -96.74717 43.56365
-96.73157 43.56403   -96.71164 43.58759   -96.69342 43.56384   -96.71138 43.56232
-96.73124 43.54860   -96.73144 43.54527   -96.74684 43.54413   -96.78014 43.54394
-96.79338 43.49071   -96.75104 43.52931   -96.73150 43.52940   -96.71138 43.54674
-96.71138 43.54128   -96.69408 43.54674   -96.71132 43.52959   -96.71119 43.51533
-96.73098 43.51049   -96.73124 43.51486   -96.75090 43.51486   -96.74920 43.50316
"""


def _table(text: str, columns: int) -> Array:
    return np.array(text.split(), dtype=np.float64).reshape(-1, columns)


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
    there = _table(_ROADS, 4)
    roads = np.concatenate([there, there[:, [1, 0, 2, 3]]])
    tail, head, capacity, time = roads[np.lexsort((roads[:, 1], roads[:, 0]))].T
    none, one = np.zeros(len(time)), np.ones(len(time))
    nodes = (tail.astype(np.int64) - 1, head.astype(np.int64) - 1)
    links = Links(*nodes, capacity, time, time, 0.15 * one, 4 * one, speed=none, toll=none, type=one.astype(np.int64))
    demand = 100 * _table(_TRIPS, 24)
    return Network(links, demand, n_nodes=24, coordinates=_table(_NODES, 2))
